/* SPDX-License-Identifier: MIT */
#include "agent/node/left.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/utf8.h"

#define FORMAT	  1
#define LEFT_FILE 262144 /* bytes that it may have */

char *left_path(const char *state_dir, const char *instance, const char *host)
{
	return xasprintf("%s/left-%s-%s.json", state_dir, instance, host);
}

bool left_is_file(const char *name)
{
	return str_has_prefix(name, "left-") && str_has_suffix(name, ".json");
}

static json_t *device_json(const struct left_device *d)
{
	return json_pack("{sI sI si si sI sI so so so}", "ask", (json_int_t)d->ask, "uid",
			 (json_int_t)d->uid, "gpu", d->gpu, "mig", d->mig, "asked_ns",
			 (json_int_t)d->asked_wall_ns, "until_ns", (json_int_t)d->until_wall_ns,
			 "uuid", json_new_text(d->uuid), "message", json_new_text(d->message),
			 "answer", json_new_text(d->answer));
}

/* False: its time is over, or it is none. */
static bool device_from_json(const json_t *o, uint64_t now_ns, struct left_device *ret)
{
	*ret = (struct left_device){
		.ask = json_get_u64(o, "ask"),
		.uid = (uid_t)json_get_u64(o, "uid"),
		.gpu = (int)json_get_u64(o, "gpu"),
		.mig = (int)json_integer_value(json_object_get(o, "mig")),
		.asked_wall_ns = json_get_u64(o, "asked_ns"),
		.until_wall_ns = json_get_u64(o, "until_ns"),
	};
	json_get_text(o, "uuid", ret->uuid, sizeof(ret->uuid));
	json_get_text(o, "message", ret->message, sizeof(ret->message));
	json_get_text(o, "answer", ret->answer, sizeof(ret->answer));
	(void)utf8_clean(ret->message);
	(void)utf8_clean(ret->answer);
	/* A clock that was put back makes no promise longer. */
	if (ret->until_wall_ns > now_ns + LEFT_NS)
		ret->until_wall_ns = now_ns + LEFT_NS;
	return ret->ask && ret->uuid[0] && ret->until_wall_ns > now_ns;
}

int left_read(const char *path, uint64_t now_wall_ns, struct left_device *ret, struct err *e)
{
	cleanup_free char *text = NULL;
	json_t *doc, *one;
	size_t len, i;
	int n = 0, r;

	r = fs_read_own_file(path, LEFT_FILE, &text, &len, e);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	doc = json_loadb(text, len, 0, NULL);
	json_array_foreach(json_object_get(doc, "left"), i, one)
	{
		if (n < LEFT_MAX && device_from_json(one, now_wall_ns, &ret[n]))
			n++;
	}
	json_decref(doc);
	return n;
}

int left_write(const char *path, const struct left_device *all, size_t n, struct err *e)
{
	cleanup_free char *text = NULL;
	json_t *list = json_array(), *doc;

	for (size_t i = 0; i < n; i++)
		(void)json_array_append_new(list, device_json(&all[i]));
	doc = json_pack("{si so}", "format", FORMAT, "left", list);
	text = json_dumps(doc, JSON_COMPACT);
	json_decref(doc);
	if (n)
		return fs_write_atomic(path, text, strlen(text), 0600, e);
	return unlink(path) == 0 || errno == ENOENT ? 0 : err_sys(e, errno, "remove %s", path);
}

char *left_time(uint64_t until_wall_ns, char buf[LEFT_TIME_MAX])
{
	char time[CLOCK_TEXT_MAX];

	return str_print(buf, LEFT_TIME_MAX, "%.5s",
			 clock_format_local(until_wall_ns, time) + strlen("2026-11-26 "));
}

char *left_words(const char *user, uid_t uid, uint64_t until_wall_ns, char buf[LEFT_WORDS_MAX])
{
	char time[LEFT_TIME_MAX], number[24];

	return str_print(buf, LEFT_WORDS_MAX, "left to %s, who asked for it, until %s",
			 user ? user
			      : str_print(number, sizeof(number), "uid %u", (unsigned int)uid),
			 left_time(until_wall_ns, time));
}
