/* SPDX-License-Identifier: MIT */
#include "agent/watch.h"

#include <stdlib.h>
#include <string.h>

#include "agent/asks.h"
#include "agent/dispatch.h"
#include "agent/helpers.h"
#include "agent/meter.h"
#include "agent/node/guardlink.h"
#include "agent/parts.h"
#include "agent/report/eventlog.h"
#include "agent/report/status_json.h"
#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/settings.h"
#include "base/str.h"
#include "base/strbuf.h"

#define STATUS_MS 1000
#define QUEUE_MS  250 /* so often at most it is told that tasks may have changed */
#define DOC_JSON  (JSON_COMPACT | JSON_REAL_PRECISION(16))

enum news { NEWS_SNAPSHOT, NEWS_EVENTS, NEWS_DEVICES, NEWS_STATUS, NEWS_QUEUE, NEWS_END, NEWS_MAX };

struct watcher {
	struct watcher *next;
	struct ctl_client *client;
	unsigned int news; /* 1 << enum news, what it has to be told */
	uint64_t n_events; /* of eventlog_count(), that it has been told, or has missed */
	uint64_t missed;   /* events of which it has to be told that it missed them */
	uint64_t devices[PROTO_DEVICES_MAX / 64]; /* slots, a bit each */
};

struct watch {
	struct agent *a;
	struct watcher *all;
	unsigned int n;
	uv_timer_t soon;   /* in the next turn of the loop they are told */
	uv_timer_t status; /* once a second, while somebody watches */
	uv_timer_t queue;
	unsigned int open_handles;
	uint64_t queue_told_ns;
	char why[PROTO_TEXT_MAX]; /* the agent ends */
};

/* What is held by, from whatever layer: `hold`, and each setting of holding as files have it. */
static json_t *settings_json(const struct agent *a)
{
	json_t *ret = json_pack("{sb}", "hold", json_is_true(json_object_get(a->given, "hold")));
	json_t *values = json_object_get(a->given, "values"), *value;
	const char *key;

	json_object_foreach(values, key, value)
	{
		const struct setting *row = setting_find(key);

		if (row && row->groups & SETTING_GROUP_HOLD && !(row->groups & SETTING_GROUP_SERVE))
			(void)json_object_set(ret, key, json_array_get(value, 0));
	}
	return ret;
}

json_t *watch_status(struct agent *a, bool devices)
{
	const json_t *options = json_object_get(a->given, "options");
	json_t *doc;

	a->view.heard_ns = guardlink_heard_ns(a->link);
	doc = (devices ? status_json : status_json_but_devices)(&a->view, a->agentlog, a->eventlog);
	if (a->queue)
		(void)json_object_set_new(doc, "queue", dispatch_report(a->queue));
	(void)json_object_set_new(doc, "options",
				  options ? json_deep_copy(options) : json_object());
	(void)json_object_set_new(doc, "settings", settings_json(a));
	(void)json_object_set_new(doc, "helpers", helpers_report(a->helpers));
	(void)json_object_set_new(doc, "asks", asks_report(a));
	(void)json_object_set_new(doc, "meter", meter_report(a));
	return doc;
}

/* -------- the documents -------- */

/* {"watch":WHAT,KEY:o}; takes the reference to o over. */
static char *document(const char *what, const char *key, json_t *o)
{
	json_t *doc = json_pack("{ss so}", "watch", what, key, o);
	char *text = doc ? json_dumps(doc, DOC_JSON) : NULL;

	json_decref(doc);
	return text;
}

static char *event_document(const char *event)
{
	return xasprintf("{\"watch\":\"event\",\"event\":%s}", event);
}

/* With the events before it that are kept. What happens from now on comes after it. */
static char *tell_snapshot(struct agent *a, struct watcher *w)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	json_t *status = watch_status(a, true);
	cleanup_free char *text = json_dumps(status, DOC_JSON);
	uint64_t n = eventlog_count(a->eventlog);

	json_decref(status);
	strbuf_addf(&b, "{\"watch\":\"snapshot\",\"status\":%s,\"events\":[", text ? text : "{}");
	for (uint64_t i = n > EVENTLOG_RECENT ? n - EVENTLOG_RECENT : 0, first = i; i < n; i++)
		strbuf_addf(&b, "%s%s", i > first ? "," : "", eventlog_recent(a->eventlog, i));
	strbuf_adds(&b, "]}");
	w->n_events = n;
	w->news &= 1U << NEWS_END;
	return xstrdup(strbuf_str(&b));
}

/* The next one; before it how many were missed, where the ring has gone on without it. */
static char *tell_event(struct agent *a, struct watcher *w)
{
	uint64_t n = eventlog_count(a->eventlog);
	uint64_t oldest = n > EVENTLOG_RECENT ? n - EVENTLOG_RECENT : 0;
	uint64_t missed;

	if (w->n_events < oldest) {
		w->missed += oldest - w->n_events;
		w->n_events = oldest;
	}
	missed = w->missed;
	w->missed = 0;
	if (missed)
		return document("lost", "events", json_integer((json_int_t)missed));
	if (w->n_events < n)
		return event_document(eventlog_recent(a->eventlog, w->n_events++));
	w->news &= ~(1U << NEWS_EVENTS);
	return NULL;
}

static char *tell_device(struct agent *a, struct watcher *w)
{
	const struct view *v = &a->view;

	for (uint32_t i = 0; i < v->n_slots; i++) {
		uint64_t bit = 1ULL << (i % 64);

		if (!(w->devices[i / 64] & bit))
			continue;
		w->devices[i / 64] &= ~bit;
		if (v->seen[i])
			return document("device", "device",
					status_device_at(v, i, a->eventlog, clock_mono_ns()));
	}
	w->news &= ~(1U << NEWS_DEVICES);
	return NULL;
}

static char *tell_status(struct agent *a, struct watcher *w)
{
	w->news &= ~(1U << NEWS_STATUS);
	return document("status", "status", watch_status(a, false));
}

static char *tell_queue(struct agent *a, struct watcher *w)
{
	w->news &= ~(1U << NEWS_QUEUE);
	return xstrdup("{\"watch\":\"queue\"}");
}

static char *tell_end(struct agent *a, struct watcher *w)
{
	w->news &= ~(1U << NEWS_END);
	return document("end", "why", json_new_text(a->watch->why));
}

char *watch_next(struct agent *a, struct ctl_client *client)
{
	static char *(*const tell[NEWS_MAX])(struct agent * a, struct watcher * w) = {
		[NEWS_SNAPSHOT] = tell_snapshot, [NEWS_EVENTS] = tell_event,
		[NEWS_DEVICES] = tell_device,	 [NEWS_STATUS] = tell_status,
		[NEWS_QUEUE] = tell_queue,	 [NEWS_END] = tell_end,
	};
	struct watcher *w = a->watch->all;
	char *text = NULL;

	while (w && w->client != client)
		w = w->next;
	for (unsigned int i = 0; w && i < NEWS_MAX && !text; i++)
		if (w->news & 1U << i)
			text = tell[i](a, w);
	return text;
}

/* -------- who is told, and when -------- */

static void on_soon(uv_timer_t *timer)
{
	struct watch *k = timer->data;

	/* One that is cut off meanwhile goes from the list in a later turn, but for its client. */
	for (struct watcher *w = k->all, *next; w; w = next) {
		next = w->next;
		if (w->news)
			ctl_stream_more(w->client);
	}
}

static void tell_all(struct watch *k, enum news news)
{
	for (struct watcher *w = k->all; w; w = w->next)
		w->news |= 1U << news;
	if (k->n && !uv_is_active((uv_handle_t *)&k->soon))
		(void)uv_timer_start(&k->soon, on_soon, 0, 0);
}

static void on_status(uv_timer_t *timer)
{
	tell_all(timer->data, NEWS_STATUS);
}

static void on_queue(uv_timer_t *timer)
{
	struct watch *k = timer->data;

	k->queue_told_ns = clock_mono_ns();
	tell_all(k, NEWS_STATUS); /* first: who reads the queue now knows whose GPUs are whose */
	tell_all(k, NEWS_QUEUE);
}

bool watch_any(const struct agent *a)
{
	return a->watch && a->watch->n;
}

void watch_happened(struct agent *a)
{
	if (watch_any(a))
		tell_all(a->watch, NEWS_EVENTS);
}

void watch_device(struct agent *a, uint32_t slot)
{
	if (!watch_any(a))
		return;
	for (struct watcher *w = a->watch->all; w; w = w->next)
		w->devices[slot / 64] |= 1ULL << (slot % 64);
	tell_all(a->watch, NEWS_DEVICES);
}

void watch_devices(struct agent *a)
{
	for (uint32_t i = 0; watch_any(a) && i < a->view.n_slots; i++)
		watch_device(a, i);
}

void watch_queue(struct agent *a)
{
	struct watch *k = a->watch;
	uint64_t since_ms;

	if (!watch_any(a) || uv_is_active((uv_handle_t *)&k->queue))
		return;
	since_ms = (clock_mono_ns() - k->queue_told_ns) / NS_PER_MS;
	(void)uv_timer_start(&k->queue, on_queue, since_ms < QUEUE_MS ? QUEUE_MS - since_ms : 0, 0);
}

void watch_end(struct agent *a, const char *why)
{
	if (!watch_any(a) || a->watch->why[0])
		return;
	(void)str_copy(a->watch->why, sizeof(a->watch->why), why);
	tell_all(a->watch, NEWS_END);
}

void watch_add(struct agent *a, struct ctl_client *client)
{
	struct watch *k = a->watch;
	struct watcher *w;

	if (k->n == WATCHERS_MAX) {
		ctl_answer(client,
			   json_pack("{ss so}", "watch", "end", "why",
				     json_sprintf("%d programs watch this agent already, and "
						  "no more can; end one of them",
						  WATCHERS_MAX)));
		return;
	}
	w = xcalloc(1, sizeof(*w));
	w->client = client;
	w->news = 1U << NEWS_SNAPSHOT | (k->why[0] ? 1U << NEWS_END : 0);
	w->next = k->all;
	k->all = w;
	k->n++;
	if (!uv_is_active((uv_handle_t *)&k->status))
		(void)uv_timer_start(&k->status, on_status, STATUS_MS, STATUS_MS);
	ctl_stream(client);
}

void watch_slow(struct agent *a, struct ctl_client *client)
{
	eventlog_say(a->eventlog, LOG_LEVEL_WARNING,
		     "a program that watches (PID %d) has read nothing for %d s, and is cut off",
		     (int)ctl_client_pid(client), CTL_SLOW_MS / 1000);
}

void watch_forget(struct agent *a, struct ctl_client *client)
{
	struct watch *k = a->watch;

	for (struct watcher **at = &k->all; *at; at = &(*at)->next) {
		struct watcher *w = *at;

		if (w->client != client)
			continue;
		*at = w->next;
		free(w);
		if (!--k->n)
			(void)uv_timer_stop(&k->status);
		return;
	}
}

/* -------- its life -------- */

struct watch *watch_new(struct agent *a)
{
	struct watch *k = xcalloc(1, sizeof(*k));
	uv_timer_t *const timers[] = { &k->soon, &k->status, &k->queue };

	k->a = a;
	for (size_t i = 0; i < ARRAY_LEN(timers); i++) {
		(void)uv_timer_init(&a->loop, timers[i]);
		timers[i]->data = k;
	}
	k->open_handles = ARRAY_LEN(timers);
	return k;
}

static void on_closed(uv_handle_t *h)
{
	struct watch *k = h->data;

	if (--k->open_handles)
		return;
	free(k);
}

void watch_close(struct agent *a)
{
	struct watch *k = take_ptr(a->watch);

	for (struct watcher *w = k->all, *next; w; w = next) {
		next = w->next;
		free(w);
	}
	uv_close((uv_handle_t *)&k->soon, on_closed);
	uv_close((uv_handle_t *)&k->status, on_closed);
	uv_close((uv_handle_t *)&k->queue, on_closed);
}
