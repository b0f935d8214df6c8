/* SPDX-License-Identifier: MIT */
#include "serve/history.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/agent_client.h"
#include "model/model.h"
#include "serve/call.h"
#include "serve/serve.h"

#define DAY_S	   86400U
#define STEP_S	   10U /* of the agent's samples */
#define LIMIT_MS   5000
#define YIELDS_MAX 1000

struct history_seat {
	pthread_mutex_t lock;
	uint64_t seconds, step_s; /* what was asked for last */
	uint64_t asked_ns;	  /* CLOCK_MONOTONIC */
	uint64_t again_ns;	  /* not before that */
	json_t *doc;		  /* what was answered to it; NULL: nothing yet */
};

struct history_seat *history_seat_new(void)
{
	struct history_seat *h = xcalloc(1, sizeof(*h));

	(void)pthread_mutex_init(&h->lock, NULL);
	return h;
}

static void sleep_until(uint64_t when_ns)
{
	uint64_t now = clock_mono_ns(), left = when_ns > now ? when_ns - now : 0;
	struct timespec t = { .tv_sec = (time_t)(left / NS_PER_S),
			      .tv_nsec = (long)(left % NS_PER_S) };

	(void)nanosleep(&t, NULL);
}

/* The document, borrowed as long as the lock is held; NULL with e. */
static const json_t *ask(struct serve *s, uint64_t seconds, uint64_t step_s, struct err *e)
{
	struct history_seat *h = s->history;
	struct ctl_request req = { .verb = CTL_HISTORY,
				   .task = seconds,
				   .element = (uint32_t)step_s };
	uint64_t now = clock_mono_ns();
	json_t *doc = NULL;

	if (h->doc && h->seconds == seconds && h->step_s == step_s &&
	    now - h->asked_ns < HISTORY_FRESH_MS * NS_PER_MS)
		return h->doc;
	sleep_until(h->again_ns);
	now = clock_mono_ns();
	if (agent_ask(s->ctx, &req, LIMIT_MS, &doc, NULL, e) != CMD_OK)
		return NULL;
	h->again_ns = clock_mono_ns() + 2 * (clock_mono_ns() - now);
	(void)json_object_del(doc, "code");
	json_decref(h->doc);
	h->doc = doc;
	h->seconds = seconds;
	h->step_s = step_s;
	h->asked_ns = now;
	return doc;
}

/* "0" is GPU 0 and its MIG instances; else a UUID. */
static bool is_meant(const json_t *device, const char *name)
{
	uint64_t gpu;

	if (str_to_u64(name, &gpu) == 0)
		return gpu == json_get_u64(device, "gpu");
	return strcmp(json_get_str(device, "uuid"), name) == 0;
}

/* Those of the document that are meant, as a list of their own. */
static json_t *devices_of(const json_t *doc, const char *name)
{
	json_t *list = json_array(), *device;
	size_t i;

	json_array_foreach(json_object_get(doc, "devices"), i, device)
	{
		if (!name[0] || is_meant(device, name))
			(void)json_array_append(list, device);
	}
	return list;
}

static void answer_devices(struct request *r, const json_t *doc)
{
	json_t *devices = devices_of(doc, r->name), *o;

	if (r->name[0] && !json_array_size(devices)) {
		json_decref(devices);
		answer_problem(&r->answer, MHD_HTTP_NOT_FOUND,
			       "the agent has seen no device %s; /api/v1/devices has those that "
			       "there are",
			       r->name);
		return;
	}
	o = json_copy((json_t *)(uintptr_t)doc);
	(void)json_object_set_new(o, "devices", devices);
	answer_json(&r->answer, MHD_HTTP_OK, o);
}

/* since: a time, seconds since the epoch. 0 and how far back that is; or the problem is there. */
static int take_since(struct request *r, uint64_t *ret_seconds)
{
	uint64_t now = clock_wall_ns() / NS_PER_S, since;

	if (request_query_num(r, "since", now - DAY_S, UINT32_MAX, &since) < 0)
		return -1;
	*ret_seconds = since + STEP_S < now ? now - since : STEP_S;
	if (*ret_seconds > DAY_S)
		*ret_seconds = DAY_S;
	return 0;
}

void history_answer(struct serve *s, struct request *r)
{
	struct err e = ERR_INIT;
	uint64_t seconds, step_s;
	const json_t *doc;

	if (take_since(r, &seconds) < 0 || request_query_num(r, "step", 0, DAY_S, &step_s) < 0)
		return;
	(void)pthread_mutex_lock(&s->history->lock);
	doc = ask(s, seconds, step_s, &e);
	if (doc)
		answer_devices(r, doc);
	else
		answer_problem(&r->answer, MHD_HTTP_SERVICE_UNAVAILABLE, "%s", e.text);
	(void)pthread_mutex_unlock(&s->history->lock);
}

static bool has_node(struct serve *s, const char *name)
{
	const struct model_snapshot *m = model_get(s->model);
	bool found = !m->nodes; /* nobody knows yet */
	const json_t *node;
	size_t i;

	json_array_foreach(m->nodes, i, node)
	{
		found = found || strcmp(json_get_str(node, "agent"), name) == 0;
	}
	m = model_put(m);
	return found;
}

void history_of_node(struct serve *s, struct request *r)
{
	char span[24], node[REQUEST_NAME_MAX + 8];
	uint64_t seconds;
	json_t *doc;
	struct call c = { .args = { "devices", "--json", "--history", node, span }, .output = -1 };

	if (take_since(r, &seconds) < 0)
		return;
	if (!has_node(s, r->name)) {
		answer_problem(&r->answer, MHD_HTTP_NOT_FOUND,
			       "no node %s serves the instance; /api/v1/nodes has those that do",
			       r->name);
		return;
	}
	(void)str_print(node, sizeof(node), "--node=%s", r->name);
	(void)str_print(span, sizeof(span), "%" PRIu64 "s", seconds);
	call_run(s, r, &c);
	doc = call_object(&c);
	if (call_refused(&c, r))
		json_decref(doc);
	else if (doc)
		answer_json(&r->answer, MHD_HTTP_OK, doc);
	else
		answer_problem(&r->answer, MHD_HTTP_INTERNAL_SERVER_ERROR,
			       "tenure devices has printed no document");
	call_clear(&c);
}

/* The files have them, whether an agent runs or not. */
void history_yields(struct serve *s, struct request *r)
{
	uint64_t seconds, limit;
	char since[48], last[48];
	json_t *list;
	struct call c = { .args = { "events", "--json", "--kind=yield", since, last },
			  .output = -1 };

	if (take_since(r, &seconds) < 0 ||
	    request_query_num(r, "limit", YIELDS_MAX, YIELDS_MAX, &limit) < 0)
		return;
	(void)str_print(since, sizeof(since), "--since=%" PRIu64 "s", seconds);
	(void)str_print(last, sizeof(last), "--limit=%" PRIu64, limit);
	call_run(s, r, &c);
	list = call_lines(&c);
	if (call_refused(&c, r))
		json_decref(list);
	else
		answer_json(&r->answer, MHD_HTTP_OK, json_pack("{s:o}", "yields", list));
	call_clear(&c);
}
