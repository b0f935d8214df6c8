/* SPDX-License-Identifier: MIT */
#include "notify/outbox.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/units.h"
#include "notify/message.h"

#define FORMAT	       1
#define SIZE_MAX_BYTES (32 * MIB)

/*
 * It is kept as the JSON that the file is: {format, cursor, agent: {pid, since}, channels: {NAME:
 * {waiting: [{at, event}], sent: [at], failures, next_ms, dropped, ok: {time, text}, error: {time,
 * text}}}}; during an attempt also of how many of the first it is (sending), and how many dropped
 * ones it tells of (telling).
 */
struct outbox {
	char *path;
	json_t *doc, *channels;
	bool changed;
};

static void set_num(json_t *object, const char *key, uint64_t n)
{
	(void)json_object_set_new(object, key, json_integer((json_int_t)n));
}

static void begin(struct outbox *o)
{
	json_decref(o->doc);
	o->doc = json_pack("{si ss s{}}", "format", FORMAT, "cursor", "", "channels");
	o->channels = json_object_get(o->doc, "channels");
}

struct outbox *outbox_new(const char *path)
{
	struct outbox *o = xcalloc(1, sizeof(*o));

	o->path = xstrdup(path);
	begin(o);
	return o;
}

struct outbox *outbox_free(struct outbox *o)
{
	if (o) {
		json_decref(o->doc);
		free(o->path);
		free(o);
	}
	return NULL;
}

int outbox_load(struct outbox *o, struct err *e)
{
	cleanup_free char *text = NULL;
	const char *name;
	size_t len;
	json_t *doc, *box;
	int r = fs_read_file(o->path, SIZE_MAX_BYTES, &text, &len, e);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	doc = json_loadb(text, len, 0, NULL);
	if (!json_is_object(json_object_get(doc, "channels")) ||
	    json_get_u64(doc, "format") != FORMAT) {
		json_decref(doc);
		return err_set(e, -EINVAL, "%s is not the outbox of this version; it is begun anew",
			       o->path);
	}
	json_decref(o->doc);
	o->doc = doc;
	o->channels = json_object_get(doc, "channels");
	json_object_foreach(o->channels, name, box) set_num(box, "sending", 0);
	return 0;
}

int outbox_save(struct outbox *o, struct err *e)
{
	cleanup_free char *text = NULL, *dir = NULL;
	char *slash;
	int r;

	if (!o->changed)
		return 0;
	dir = xstrdup(o->path);
	slash = strrchr(dir, '/');
	if (slash)
		*slash = '\0';
	text = json_dumps(o->doc, JSON_COMPACT);
	r = text ? fs_mkdirs(dir, 0700, e) : err_set(e, -EINVAL, "the outbox cannot be written");
	if (r == 0)
		r = fs_write_atomic(o->path, text, strlen(text), 0600, e);
	o->changed = r < 0;
	return r;
}

bool outbox_is_saved(const struct outbox *o)
{
	return !o->changed;
}

const char *outbox_cursor(const struct outbox *o)
{
	const char *cursor = json_get_str(o->doc, "cursor");

	return cursor ? cursor : "";
}

const json_t *outbox_agent(const struct outbox *o)
{
	const json_t *agent = json_object_get(o->doc, "agent");

	return json_is_object(agent) ? agent : NULL;
}

void outbox_set_agent(struct outbox *o, json_t *agent)
{
	if (!agent && !outbox_agent(o))
		return;
	(void)json_object_set_new(o->doc, "agent", agent ? agent : json_null());
	o->changed = true;
}

void outbox_set_cursor(struct outbox *o, const char *id)
{
	(void)json_object_set_new(o->doc, "cursor", json_string(id));
	o->changed = true;
}

json_t *outbox_channel(const struct outbox *o, const char *name)
{
	return json_object_get(o->channels, name);
}

static json_t *box_of(struct outbox *o, const struct channel *ch)
{
	json_t *box = outbox_channel(o, ch->name);

	if (!box) {
		box = json_pack("{s[] s[]}", "waiting", "sent");
		(void)json_object_set_new(o->channels, ch->name, box);
	}
	return box;
}

/* -------- what waits -------- */

static void drop(json_t *box, size_t from, size_t n)
{
	json_t *waiting = json_object_get(box, "waiting");

	set_num(box, "dropped", json_get_u64(box, "dropped") + n);
	while (n--)
		(void)json_array_remove(waiting, from);
}

/* Of the last hour. */
static size_t count_sent(json_t *box, uint64_t now_ms)
{
	json_t *sent = json_object_get(box, "sent");

	while (json_array_size(sent) &&
	       (uint64_t)json_integer_value(json_array_get(sent, 0)) + MS_PER_H <= now_ms)
		(void)json_array_remove(sent, 0);
	return json_array_size(sent);
}

static bool has_room(const struct channel *ch, json_t *box, uint64_t now_ms)
{
	size_t waiting = json_array_size(json_object_get(box, "waiting"));

	if (ch->digest_ms || json_get_u64(box, "failures"))
		waiting = 0; /* they are one message, or come as a few */
	return count_sent(box, now_ms) + waiting < ch->per_hour;
}

void outbox_add(struct outbox *o, const struct channel *ch, const json_t *event, uint64_t now_ms)
{
	json_t *box = box_of(o, ch), *waiting = json_object_get(box, "waiting");

	o->changed = true;
	if (!has_room(ch, box, now_ms)) {
		set_num(box, "dropped", json_get_u64(box, "dropped") + 1);
		return;
	}
	if (json_array_size(waiting) >= OUTBOX_WAITING_MAX)
		drop(box, json_get_u64(box, "sending"), 1);
	(void)json_array_append_new(waiting, json_pack("{sI sO}", "at", (json_int_t)now_ms, "event",
						       (json_t *)(uintptr_t)event));
}

static void drop_old(struct outbox *o, json_t *box, uint64_t now_ms)
{
	json_t *waiting = json_object_get(box, "waiting");

	while (json_array_size(waiting) &&
	       json_get_u64(json_array_get(waiting, 0), "at") + OUTBOX_AGE_MS < now_ms) {
		drop(box, 0, 1);
		o->changed = true;
	}
}

uint64_t outbox_due_at(const struct outbox *o, const struct channel *ch)
{
	const json_t *box = outbox_channel(o, ch->name);
	const json_t *first = json_array_get(json_object_get(box, "waiting"), 0);
	uint64_t at = json_get_u64(first, "at"), next = json_get_u64(box, "next_ms");

	if (!first)
		return UINT64_MAX;
	at += ch->digest_ms;
	return at > next ? at : next;
}

/* So many of those that wait go into one message. */
static size_t how_many(const struct channel *ch, const json_t *box)
{
	size_t n = json_array_size(json_object_get(box, "waiting"));

	return ch->digest_ms || (json_get_u64(box, "failures") && n > OUTBOX_TOGETHER) ? n : 1;
}

json_t *outbox_due(struct outbox *o, const struct channel *ch, uint64_t now_ms, size_t *ret_n)
{
	json_t *box = outbox_channel(o, ch->name), *events, *message;
	uint64_t dropped, next = json_get_u64(box, "next_ms");

	if (!box)
		return NULL;
	drop_old(o, box, now_ms);
	if (next > now_ms + OUTBOX_WAIT_MAX_MS) /* the clock has been set back */
		set_num(box, "next_ms", now_ms);
	if (outbox_due_at(o, ch) > now_ms)
		return NULL;
	*ret_n = how_many(ch, box);
	set_num(box, "sending", *ret_n);
	events = json_array();
	for (size_t i = 0; i < *ret_n; i++)
		(void)json_array_append(
			events, json_object_get(json_array_get(json_object_get(box, "waiting"), i),
						"event"));
	message = *ret_n == 1 ? json_copy(json_array_get(events, 0)) : message_digest(events);
	json_decref(events);
	dropped = json_get_u64(box, "dropped");
	set_num(box, "telling", dropped);
	if (dropped)
		set_num(message, "dropped", dropped);
	return message;
}

/* -------- how it went -------- */

static void note(json_t *box, const char *key, const struct delivery_result *result,
		 uint64_t now_ms)
{
	char time[CLOCK_TEXT_MAX];

	(void)json_object_set_new(
		box, key,
		json_pack("{ss so sI}", "time", clock_format_iso(now_ms * NS_PER_MS, time), "text",
			  json_new_text(result->text), "took_ms", (json_int_t)result->took_ms));
}

static uint64_t back_off(const struct channel *ch, uint64_t failures)
{
	uint64_t wait = ch->retry_ms;

	while (--failures && wait < OUTBOX_WAIT_MAX_MS)
		wait *= 2;
	return wait < OUTBOX_WAIT_MAX_MS ? wait : OUTBOX_WAIT_MAX_MS;
}

static void succeeded(json_t *box, size_t n, const struct delivery_result *result, uint64_t now_ms)
{
	json_t *waiting = json_object_get(box, "waiting");

	while (n--)
		(void)json_array_remove(waiting, 0);
	(void)json_array_append_new(json_object_get(box, "sent"), json_integer((json_int_t)now_ms));
	set_num(box, "failures", 0);
	set_num(box, "next_ms", 0);
	set_num(box, "dropped", json_get_u64(box, "dropped") - json_get_u64(box, "telling"));
	note(box, "ok", result, now_ms);
}

void outbox_result(struct outbox *o, const struct channel *ch, size_t n,
		   const struct delivery_result *result, uint64_t now_ms)
{
	json_t *box = box_of(o, ch);
	uint64_t failures = json_get_u64(box, "failures") + 1;

	o->changed = true;
	set_num(box, "sending", 0);
	if (result->how == DELIVERED) {
		succeeded(box, n, result, now_ms);
		return;
	}
	note(box, "error", result, now_ms);
	if (result->how == DELIVER_REFUSED) { /* those behind it may be taken */
		drop(box, 0, n);
		failures = json_get_u64(box, "failures");
	}
	set_num(box, "failures", failures);
	set_num(box, "next_ms", now_ms + back_off(ch, failures ? failures : 1));
}
