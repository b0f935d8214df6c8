/* SPDX-License-Identifier: MIT */
#include "compat/command_txt/commandset.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/config.h"
#include "base/mem.h"
#include "base/str.h"

#define SECONDS_MAX (10 * 366 * 86400)
#define COUNT_MAX   1000000
#define GPUS_MAX    1024

enum kind { KIND_FLAG, KIND_COUNT, KIND_SECONDS, KIND_GPUS, KIND_DIR };

struct row {
	const char *key;
	enum kind kind;
	size_t at;
	uint64_t min; /* ms of KIND_SECONDS */
};

#define AT(field) offsetof(struct command_set, field)

static const struct row rows[] = {
	{ "check_time", KIND_SECONDS, AT(check_ms), 10 },
	{ "maximize_resource_utilization", KIND_FLAG, AT(maximize) },
	{ "compete_gpus", KIND_GPUS, AT(gpus) },
	{ "use_all_gpus", KIND_FLAG, AT(all_gpus) },
	{ "gpu_left", KIND_COUNT, AT(left) },
	{ "retry_config.max_retry_before_backoff", KIND_COUNT, AT(retry_every) },
	{ "retry_config.backoff_duration", KIND_SECONDS, AT(backoff_ms) },
	{ "work_dir", KIND_DIR, AT(work_dir) },
};

void command_set_default(struct command_set *c)
{
	*c = (struct command_set){
		.check_ms = 5000, .all_gpus = true, .retry_every = 3, .backoff_ms = 600000
	};
}

void command_set_clear(struct command_set *c)
{
	free(take_ptr(c->gpus));
	free(take_ptr(c->work_dir));
}

/* ---- values ---- */

static int read_flag(const char *text, bool *ret, struct err *e)
{
	static const char *const words[] = { "true", "yes", "on", "false", "no", "off" };

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strcasecmp(words[i], text) == 0) {
			*ret = i < 3;
			return 0;
		}
	return err_set(e, -EINVAL, "\"%s\": it wants true or false", text);
}

static int read_count(const char *text, uint64_t *ret, struct err *e)
{
	uint64_t n;

	if (str_to_u64(text, &n) < 0 || n > COUNT_MAX)
		return err_set(e, -EINVAL, "\"%s\": it wants a whole number", text);
	*ret = n;
	return 0;
}

static int read_seconds(const char *text, uint64_t min_ms, uint64_t *ret, struct err *e)
{
	char *end;
	double s = strtod(text, &end);

	if (end == text || *end || !isfinite(s) || s < 0 || s > SECONDS_MAX ||
	    (uint64_t)(s * 1000) < min_ms)
		return err_set(e, -EINVAL, "\"%s\": it wants a number of seconds", text);
	*ret = (uint64_t)(s * 1000 + 0.5);
	return 0;
}

static int read_gpus(const char *text, char **ret, struct err *e)
{
	size_t n = strspn(text, "0123456789,");
	unsigned int count = 0;

	for (const char *p = text; *p; p++)
		count += *p == ',';
	if (text[n] || count > GPUS_MAX || strstr(text, ",,") || text[0] == ',')
		return err_set(e, -EINVAL, "\"%s\": it wants a list of numbers like [0, 1]", text);
	free(*ret);
	*ret = *text ? xstrdup(text) : NULL;
	return 0;
}

static int read_value(const struct row *row, const struct config_entry *entry, void *field,
		      struct err *e)
{
	if (entry->is_list && row->kind != KIND_GPUS)
		return err_set(e, -EINVAL, "a list does not belong here");
	switch (row->kind) {
	case KIND_FLAG:
		return read_flag(entry->text, field, e);
	case KIND_COUNT:
		return read_count(entry->text, field, e);
	case KIND_SECONDS:
		return read_seconds(entry->text, row->min, field, e);
	case KIND_GPUS:
		return read_gpus(entry->text, field, e);
	case KIND_DIR:
		free(*(char **)field);
		*(char **)field = entry->text[0] ? xstrdup(entry->text) : NULL;
		return 0;
	}
	return 0;
}

static int unknown(const struct config_entry *entry, struct err *e)
{
	const char *keys[ARRAY_LEN(rows) + 1] = { NULL };
	const char *near;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		keys[i] = rows[i].key;
	near = str_nearest(entry->key, keys);
	(void)err_set(e, -EINVAL, "there is no key \"%s\"%s%s%s", entry->key,
		      near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
	return config_at_key(entry, e);
}

struct parse {
	struct command_set *set;
	bool all_said; /* use_all_gpus was in it */
};

static int on_entry(const struct config_entry *entry, void *user, struct err *e)
{
	struct parse *p = user;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (strcmp(rows[i].key, entry->key) != 0)
			continue;
		if (entry->is_null) /* the default */
			return 0;
		p->all_said = p->all_said || rows[i].at == AT(all_gpus);
		if (read_value(&rows[i], entry, (char *)p->set + rows[i].at, e) == 0)
			return 0;
		(void)err_wrap(e, "%s", entry->key);
		return config_at_value(entry, e);
	}
	if (entry->is_null && strcmp(entry->key, "retry_config") == 0)
		return 0;
	return unknown(entry, e);
}

int command_set_parse(const char *file, const char *text, size_t len, struct command_set *ret,
		      struct err *e)
{
	struct parse p = { .set = ret };
	int r;

	command_set_default(ret);
	r = config_parse_nested(file, text, len, on_entry, &p, e);
	if (!p.all_said)
		ret->all_gpus = !ret->gpus;
	if (r == 0 && !ret->all_gpus && !ret->gpus)
		r = err_set(e, -EINVAL, "%s: use_all_gpus is false, and compete_gpus names none",
			    file);
	return r;
}

char *command_set_work_dir(const struct command_set *c, const char *dir, struct err *e)
{
	const char *named = c->work_dir ? c->work_dir : "..";
	cleanup_free char *path = named[0] == '/' ? xstrdup(named) : xasprintf("%s/%s", dir, named);
	char *full = realpath(path, NULL);
	struct stat st;

	if (!full) {
		(void)err_sys(e, errno, "work_dir %s", path);
		return NULL;
	}
	if (stat(full, &st) == 0 && S_ISDIR(st.st_mode))
		return full;
	(void)err_set(e, -ENOTDIR, "work_dir %s is no directory", full);
	free(full);
	return NULL;
}
