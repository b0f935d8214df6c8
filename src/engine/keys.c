/* SPDX-License-Identifier: MIT */
#include "engine/keys.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"

#define KEYS_MAX 32

static const struct engine_key *find_key(const struct engine_key *keys, const char *name, size_t n)
{
	for (; keys->name; keys++)
		if (strlen(keys->name) == n && strncmp(keys->name, name, n) == 0)
			return keys;
	return NULL;
}

const char *engine_key_value(const struct engine_key *keys, const struct text_list *settings,
			     const char *name)
{
	const struct engine_key *key = find_key(keys, name, strlen(name));
	const char *value = key ? key->fallback : NULL;

	for (size_t i = 0; settings && i < settings->n; i++) {
		size_t n = strcspn(settings->texts[i], "=");

		if (n == strlen(name) && strncmp(settings->texts[i], name, n) == 0 &&
		    settings->texts[i][n] && settings->texts[i][n + 1])
			value = settings->texts[i] + n + 1;
	}
	return value;
}

static bool is_one_line(const char *text)
{
	for (; *text; text++)
		if (iscntrl((unsigned char)*text))
			return false;
	return true;
}

/* What is no KEY=VALUE of this engine's. */
static int check_one(const char *engine, const struct engine_key *keys, const char *text,
		     struct err *e)
{
	const char *names[KEYS_MAX] = { NULL };
	size_t n = strcspn(text, "=");
	cleanup_free char *name = xasprintf("%.*s", (int)n, text);
	const char *nearest;

	if (!text[n])
		return err_set(e, -EINVAL, "\"%s\" is no KEY=VALUE", text);
	if (!find_key(keys, text, n)) {
		for (size_t i = 0; keys[i].name && i + 1 < KEYS_MAX; i++)
			names[i] = keys[i].name;
		nearest = str_nearest(name, names);
		return err_set(e, -EINVAL, "%s has no setting \"%s\"%s%s%s", engine, name,
			       nearest ? "; did you mean " : "", nearest ? nearest : "",
			       nearest ? "?" : "");
	}
	if (!is_one_line(text))
		return err_set(e, -EINVAL, "the setting %s has more than one line", name);
	return 0;
}

int engine_keys_check(const char *engine, const struct engine_key *keys,
		      const struct text_list *settings, struct err *e)
{
	cleanup_strbuf struct strbuf missing = STRBUF_INIT;

	for (size_t i = 0; settings && i < settings->n; i++) {
		int r = check_one(engine, keys, settings->texts[i], e);

		if (r < 0)
			return r;
	}
	for (const struct engine_key *key = keys; key->name; key++)
		if (key->needed && !engine_key_value(keys, settings, key->name))
			strbuf_addf(&missing, "%s%s= (%s)", missing.len ? ", " : "", key->name,
				    key->what);
	if (!missing.len)
		return 0;
	return err_set(e, -EINVAL, "%s needs to be told %s", engine, strbuf_str(&missing));
}
