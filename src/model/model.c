/* SPDX-License-Identifier: MIT */

/*
 * The thread is the only one that changes anything: it makes a snapshot of what it has, and puts it
 * in the place of the last one under the mutex, where references are counted, too. What snapshots
 * share with the next one (JSON, rows) is counted the same way; of JSON jansson counts with atomic
 * operations.
 *
 * How often the queue is read follows from what that costs: about a tenth of the thread's time at
 * most (more where one reading takes seconds), and only when something may have changed, which the
 * agent says, or after a while. What has ended, which may be much, has a share of its own, so that
 * nothing else gets old for it.
 */

#include "model/model.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "agent/ctl_client.h"
#include "base/clock.h"
#include "base/cost.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/sock.h"
#include "base/str.h"
#include "cli/agent_client.h"
#include "cli/instance.h"
#include "cli/node_agents.h"
#include "cli/pools.h"
#include "cli/task/select.h"
#include "hold/endpoint_names.h"
#include "spool/instance.h"

#define AGAIN_FIRST_MS	200 /* after an agent that cannot be reached, */
#define AGAIN_LAST_MS	2000
#define SILENCE_LOOK_MS 1000  /* whether it still tells something */
#define READ_LEAST_MS	200   /* between two readings of the queue, or */
#define READ_SHARE	15    /* so many times as long as one takes */
#define DONE_SHARE	20    /* of what has ended */
#define REST_MOST_MS	30000 /* or so long */
#define READ_MOST_MS	5000  /* and so often where nothing is known to have changed */
#define NODES_MS	2000
#define FORECAST_MS	3000
#define ASK_LIMIT_MS	1000
#define CLOSE_LIMIT_MS	1000
#define READ_WATCH_MOST 200 /* documents before the others' turn */

/* Rows that several snapshots have. */
struct shared_rows {
	unsigned int refs;
	struct rows rows;
	bool answered;
};

struct snapshot {
	struct model_snapshot s; /* first: it is what others see */
	unsigned int refs;
	struct model *m;
	struct shared_rows *queue, *ended;
};

struct event {
	char *text;
	struct model_mark mark;
};

struct model {
	const struct cmd_ctx *ctx;
	unsigned int flags;
	pthread_t thread;
	int news_fd, wake_fd;

	pthread_mutex_t mutex; /* of what follows */
	pthread_cond_t ended_cond;
	bool stop, ended;
	bool look;
	struct snapshot *now;
	uint64_t n_events;
	struct event events[MODEL_EVENTS]; /* at [i % MODEL_EVENTS] */

	/* The thread's own. */
	struct ctl_watch *watch;
	uint64_t began_ns; /* wall */
	uint64_t n_old;
	struct model_id last; /* event that was told */
	uint64_t again_ns, again_ms;
	bool said_why; /* it has said why it tells nothing more */
	json_t *status;
	char trouble[ERR_TEXT_MAX];
	bool connected, silent;
	struct spool *sp;
	struct rows_index *index;
	struct shared_rows *queue, *done;
	bool changed;	   /* the queue may have */
	bool done_stale;   /* and what has ended was not read since */
	bool done_fails;   /* it could not be: what has left would be kept for ever */
	bool nodes_wanted; /* somebody has looked since they were read */
	bool read;
	uint64_t read_ns, read_from_ns, done_ns, nodes_ns;
	struct cost read_cost, done_cost;
	char queue_trouble[ERR_TEXT_MAX];
	json_t *nodes, *pools, *forecast;
	uint64_t forecast_ns;
	uint64_t version;
	bool news; /* there is something to publish */
};

/* -------- snapshots, under the mutex -------- */

static void drop_rows(struct shared_rows *r)
{
	if (!r || --r->refs)
		return;
	rows_clear(&r->rows);
	free(r);
}

static void drop_snapshot(struct snapshot *s)
{
	if (!s || --s->refs)
		return;
	json_decref(s->s.status);
	json_decref(s->s.nodes);
	json_decref(s->s.pools);
	drop_rows(s->queue);
	drop_rows(s->ended);
	free(s);
}

static void tell(int fd)
{
	uint64_t one = 1;

	while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

static void quieten(int fd)
{
	uint64_t n;

	while (read(fd, &n, sizeof(n)) < 0 && errno == EINTR)
		;
}

static struct shared_rows *share(struct shared_rows *r, struct rows *ret)
{
	if (r) {
		r->refs++;
		*ret = r->rows;
	}
	return r;
}

static struct snapshot *make_snapshot(struct model *m)
{
	struct snapshot *s = xcalloc(1, sizeof(*s));

	s->refs = 1;
	s->m = m;
	s->s = (struct model_snapshot){ .version = ++m->version,
					.made_ns = clock_mono_ns(),
					.connected = m->connected,
					.status = json_incref(m->connected ? m->status : NULL),
					.read = m->read,
					.read_ns = m->read_ns,
					.read_from_ns = m->read_from_ns,
					.nodes = json_incref(m->nodes),
					.nodes_ns = m->nodes_ns,
					.pools = json_incref(m->pools),
					.n_events = m->n_events,
					.n_old = m->n_old };
	(void)str_copy(s->s.trouble, sizeof(s->s.trouble), m->trouble);
	(void)str_copy(s->s.queue_trouble, sizeof(s->s.queue_trouble), m->queue_trouble);
	s->queue = share(m->queue, &s->s.rows);
	s->ended = share(m->done, &s->s.ended);
	s->s.answered = s->queue && s->queue->answered;
	return s;
}

static void publish(struct model *m)
{
	struct snapshot *before;

	if (!m->news)
		return;
	m->news = false;
	(void)pthread_mutex_lock(&m->mutex);
	before = m->now;
	m->now = make_snapshot(m);
	drop_snapshot(before);
	(void)pthread_mutex_unlock(&m->mutex);
	tell(m->news_fd);
}

const struct model_snapshot *model_get(struct model *m)
{
	struct snapshot *s;

	quieten(m->news_fd);
	(void)pthread_mutex_lock(&m->mutex);
	s = m->now;
	s->refs++;
	(void)pthread_mutex_unlock(&m->mutex);
	return &s->s;
}

const struct model_snapshot *model_put(const struct model_snapshot *shown)
{
	struct snapshot *s = (struct snapshot *)(uintptr_t)shown;
	struct model *m = s ? s->m : NULL;

	if (!s)
		return NULL;
	(void)pthread_mutex_lock(&m->mutex);
	drop_snapshot(s);
	(void)pthread_mutex_unlock(&m->mutex);
	return NULL;
}

int model_fd(const struct model *m)
{
	return m->news_fd;
}

/* -------- events -------- */

bool model_read_id(const char *text, struct model_id *ret)
{
	struct model_id id;
	int end = -1;

	if (!text || sscanf(text, "%" SCNu64 ".%" SCNu64 "%n", &id.start, &id.n, &end) < 2 ||
	    end < 0 || text[end])
		return false;
	*ret = id;
	return true;
}

bool model_id_is_by(const struct model_id *id, const struct model_id *that)
{
	return id->start == that->start && id->n <= that->n;
}

/* Each agent counts its events from 0: what there is between two of them was not heard of. Of what
 * another agent told last before this one began nothing is known. */
static uint64_t lost_before(const struct model *m, const struct model_id *id)
{
	if (!m->n_events)
		return 0;
	return id->start == m->last.start ? id->n - m->last.n - 1 : id->n;
}

/* One that is known already is not taken twice: it was told before the agent was lost. */
static void add_event(struct model *m, const json_t *event)
{
	struct event e = { .text = NULL };
	struct event *at;

	if (model_read_id(json_get_str(event, "id"), &e.mark.id)) {
		if (m->n_events && model_id_is_by(&e.mark.id, &m->last))
			return;
		e.mark.lost = lost_before(m, &e.mark.id);
	}
	e.text = json_dumps(event, JSON_COMPACT | JSON_REAL_PRECISION(12));
	if (!e.text)
		return;
	(void)pthread_mutex_lock(&m->mutex);
	at = &m->events[m->n_events % MODEL_EVENTS];
	free(at->text);
	*at = e;
	m->n_events++;
	m->last = e.mark.id.start ? e.mark.id : m->last;
	(void)pthread_mutex_unlock(&m->mutex);
}

char *model_event(struct model *m, uint64_t i, struct model_mark *ret)
{
	char *text = NULL;

	(void)pthread_mutex_lock(&m->mutex);
	if (i < m->n_events && m->n_events - i <= MODEL_EVENTS) {
		text = xstrdup(m->events[i % MODEL_EVENTS].text);
		if (ret)
			*ret = m->events[i % MODEL_EVENTS].mark;
	}
	(void)pthread_mutex_unlock(&m->mutex);
	return text;
}

/* -------- the agent -------- */

static void set_status(struct model *m, json_t *status)
{
	json_decref(m->status);
	m->status = status;
}

/* What the first agent that we hear of did before we were there. */
static void note_old(struct model *m)
{
	if (m->last.start * NS_PER_MS < m->began_ns)
		m->n_old = m->n_events;
}

static void take_snapshot(struct model *m, const json_t *doc)
{
	json_t *events = json_object_get(doc, "events"), *event;
	bool first = !m->n_events;
	size_t i;

	set_status(m, json_incref(json_object_get(doc, "status")));
	json_array_foreach(events, i, event) add_event(m, event);
	if (first)
		note_old(m);
	m->connected = true;
	m->trouble[0] = '\0';
	m->again_ms = 0;
	m->changed = true;
}

static void take_event(struct model *m, const json_t *doc)
{
	add_event(m, json_object_get(doc, "event"));
}

static const char *text_of(const json_t *o, const char *key)
{
	const char *text = json_get_str(o, key);

	return text ? text : "";
}

/* What others may be reading is copied, not changed. */
static void take_device(struct model *m, const json_t *doc)
{
	json_t *device = json_object_get(doc, "device");
	const char *uuid = json_get_str(device, "uuid");
	json_t *status = m->status ? json_copy(m->status) : NULL, *devices, *d;
	size_t i, at;

	if (!uuid || !status) {
		json_decref(status);
		return;
	}
	devices = json_copy(json_object_get(status, "devices"));
	at = json_array_size(devices);
	json_array_foreach(devices, i, d) if (strcmp(text_of(d, "uuid"), uuid) == 0) at = i;
	if (at < json_array_size(devices))
		(void)json_array_set(devices, at, device);
	else
		(void)json_array_append(devices, device);
	(void)json_object_set_new(status, "devices", devices);
	set_status(m, status);
}

static bool guard_is_connected(const json_t *status)
{
	return json_get_flag(json_object_get(status, "guard"), "connected");
}

static void take_status(struct model *m, const json_t *doc)
{
	json_t *status = json_copy(json_object_get(doc, "status"));
	json_t *devices = json_object_get(m->status, "devices");

	if (!status)
		return;
	(void)json_object_set_new(status, "devices",
				  guard_is_connected(status) && devices ? json_incref(devices)
									: json_array());
	set_status(m, status);
}

static void take_queue(struct model *m, const json_t *doc)
{
	m->changed = true;
}

static void take_end(struct model *m, const json_t *doc)
{
	json_get_text(doc, "why", m->trouble, sizeof(m->trouble));
	m->said_why = true;
}

static void take_document(struct model *m, const json_t *doc)
{
	static const struct {
		const char *what;
		void (*take)(struct model *m, const json_t *doc);
	} all[] = { { "snapshot", take_snapshot }, { "event", take_event },
		    { "device", take_device },	   { "status", take_status },
		    { "queue", take_queue },	   { "end", take_end } };
	const char *what = json_get_str(doc, "watch");

	for (size_t i = 0; what && i < ARRAY_LEN(all); i++)
		if (strcmp(what, all[i].what) == 0)
			all[i].take(m, doc);
	m->news = true;
}

/* Whoever tells something is there, also after a silence. */
static void hear_agent(struct model *m, const json_t *doc)
{
	if (m->silent) {
		m->silent = false;
		m->connected = m->status != NULL;
		m->trouble[0] = '\0';
		m->changed = true;
	}
	take_document(m, doc);
}

/* One that is frozen or hangs: what it said last is not what is. The watch is kept: it goes on when
 * the agent does, and to connect anew would only fill the queue at its socket. */
static void miss_agent(struct model *m, const char *why)
{
	m->news = m->news || !m->silent || strcmp(m->trouble, why) != 0;
	m->connected = false;
	m->silent = true;
	(void)str_copy(m->trouble, sizeof(m->trouble), why);
}

static void lose_agent(struct model *m, const char *why)
{
	m->watch = ctl_watch_close(m->watch);
	m->news = m->news || m->connected || strcmp(m->trouble, why) != 0;
	if (!m->said_why)
		(void)str_copy(m->trouble, sizeof(m->trouble), why);
	m->said_why = m->connected = m->silent = false;
	set_status(m, NULL);
	m->again_ms = m->again_ms ? m->again_ms * 2 : AGAIN_FIRST_MS;
	m->again_ms = m->again_ms < AGAIN_LAST_MS ? m->again_ms : AGAIN_LAST_MS;
	m->again_ns = clock_mono_ns() + m->again_ms * NS_PER_MS;
}

static const char *socket_name(const struct model *m, char name[SOCKET_NAME_MAX])
{
	const struct settings *s = m->ctx->settings;

	return agent_socket_name(name, SOCKET_NAME_MAX, settings_str(s, SET_INSTANCE),
				 settings_str(s, SET_DEV_DIR), m->ctx->job);
}

static void connect_agent(struct model *m)
{
	char name[SOCKET_NAME_MAX], why[sizeof(m->trouble)];
	struct err e = ERR_INIT;

	if (m->watch || clock_mono_ns() < m->again_ns)
		return;
	if (ctl_watch_open(socket_name(m, name), &m->watch, &e) == 0)
		return;

	cleanup_free char *options = agent_options(m->ctx->settings, NULL);

	lose_agent(m, str_print(why, sizeof(why),
				"no agent of this instance runs here; tenure on%s starts one",
				options));
}

static void read_agent(struct model *m)
{
	struct err e = ERR_INIT;
	json_t *doc;
	int r = 0;

	for (int i = 0; m->watch && i < READ_WATCH_MOST; i++) {
		r = ctl_watch_next(m->watch, &doc, &e);
		if (r <= 0)
			break;
		hear_agent(m, doc);
		json_decref(doc);
	}
	if (r < 0)
		lose_agent(m, e.text);
	else if (m->watch && r == 0 && ctl_watch_silence(m->watch, &e) < 0)
		miss_agent(m, e.text);
}

/* -------- the queue -------- */

/* 0; -ENOENT: nothing was submitted yet; or another error. */
static int open_spool(struct model *m, struct err *e)
{
	int r = m->sp ? 0 : instance_open_quietly(m->ctx, SPOOL_LOOK, &m->sp, e);

	if (m->sp && !m->index)
		m->index = rows_index_new(m->sp);
	return r;
}

/* What the agent here says of each task that it runs, by id. */
static json_t *agents_words(const struct model *m)
{
	json_t *found = json_object(), *t;
	char id[SELECT_ID_MAX];
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)agent_tasks(m->status), i, t)
	{
		struct agent_task task = agent_task_of(t);

		(void)json_object_set(found, select_format_id(task.id, task.element, id), t);
	}
	return found;
}

/* Of the last ones the thread has a reference, so that they can be read meanwhile. */
static void swap_rows(struct model *m, struct shared_rows **at, const struct rows *rows,
		      bool answered)
{
	struct shared_rows *next = xcalloc(1, sizeof(*next));

	next->refs = 1;
	next->answered = answered;
	next->rows = *rows;
	rows_keep_began(&next->rows, *at ? &(*at)->rows : NULL);
	if (m->flags & MODEL_JSON)
		rows_keep_json(&next->rows, *at ? &(*at)->rows : NULL);
	(void)pthread_mutex_lock(&m->mutex);
	drop_rows(*at);
	*at = next;
	(void)pthread_mutex_unlock(&m->mutex);
}

/* Its word, where it is there and has one in time. */
static json_t *ask(const struct model *m, enum ctl_verb verb)
{
	json_t *answer = NULL;
	char name[SOCKET_NAME_MAX];

	if (!m->connected)
		return NULL;
	(void)socket_name(m, name);
	return ctl_ask(name, verb, ASK_LIMIT_MS, &answer, NULL, NULL) == 0 ? answer : NULL;
}

/* An estimate costs the agent more than a word. */
static void ask_forecast(struct model *m)
{
	uint64_t now = clock_mono_ns();

	if (m->connected && now < m->forecast_ns + FORECAST_MS * NS_PER_MS)
		return;
	m->forecast_ns = now;
	json_decref(m->forecast);
	m->forecast = ask(m, CTL_FORECAST);
}

/* As far as is known: nodes are read now and then. */
static bool is_unserved(const struct model *m)
{
	const json_t *node;
	size_t i;

	json_array_foreach(m->nodes, i, node)
	{
		if (strcmp(text_of(node, "state"), "alive") == 0)
			return false;
	}
	return m->nodes && !m->connected;
}

static int read_waiting(struct model *m, struct err *e)
{
	json_t *words = agents_words(m), *reasons = ask(m, CTL_REASONS);
	struct rows_said said = { .agents = words, .reasons = reasons };
	struct rows rows;
	int r;

	ask_forecast(m);
	said.forecasts = m->forecast;
	said.unserved = is_unserved(m);
	r = rows_read(m->index, &said, &rows, e);
	if (r == 0) {
		if (m->flags & MODEL_ENDED && !m->done_fails)
			rows_keep_left(&rows, m->queue ? &m->queue->rows : NULL);
		swap_rows(m, &m->queue, &rows, reasons != NULL);
	}
	json_decref(words);
	json_decref(reasons);
	return r;
}

static uint64_t done_due_ns(const struct model *m)
{
	return m->done_ns + cost_rest_ns(&m->done_cost, DONE_SHARE, 0, REST_MOST_MS * NS_PER_MS);
}

/* After the queue, so that nothing is missed on its way from one to the other; that was read just
 * now, and nobody has its rows yet. Until then what has left has its rows there. */
static int read_done(struct model *m, struct err *e)
{
	uint64_t now = clock_mono_ns();
	struct rows rows;
	int r;

	m->done_stale = m->flags & MODEL_ENDED;
	if (!m->done_stale || now < done_due_ns(m))
		return 0;
	r = rows_read_ended(m->sp, MODEL_ENDED_MAX, &rows, e);
	if (r == 0) {
		rows_read_because(m->sp, &rows, m->done ? &m->done->rows : NULL);
		rows_drop_ended(&m->queue->rows, &rows);
		swap_rows(m, &m->done, &rows, false);
	}
	m->done_ns = clock_mono_ns();
	cost_add(&m->done_cost, m->done_ns - now);
	m->done_stale = m->done_fails = r < 0;
	return r;
}

static int read_rows(struct model *m, struct err *e)
{
	int r = open_spool(m, e);
	bool none = r == -ENOENT;

	if (r == 0)
		r = read_waiting(m, e);
	cost_add(&m->read_cost, clock_mono_ns() - m->read_from_ns);
	if (none)
		return 0;
	return r == 0 ? read_done(m, e) : r;
}

static void read_nodes(struct model *m, uint64_t now)
{
	struct node_agents agents = { .n = 0 };
	struct pools_shown pools = { .n = 0 };
	json_t *nodes = json_array();

	m->nodes_ns = now;
	m->nodes_wanted = false;
	(void)node_agents_read(m->ctx, m->sp, &agents, NULL);
	for (size_t i = 0; i < agents.n; i++) {
		json_t *o = node_agent_json(&agents.all[i]);

		(void)json_object_set_new(o, "gpus", node_agent_devices_json(&agents.all[i]));
		(void)json_object_set_new(o, "gpus_age_s", node_agent_told_json(&agents.all[i]));
		(void)json_array_append_new(nodes, o);
	}
	node_agents_clear(&agents);
	(void)pools_read(m->sp, &pools, NULL);
	json_decref(m->nodes);
	json_decref(m->pools);
	m->nodes = nodes;
	m->pools = pools_json(&pools, 0);
	pools_shown_clear(&pools);
	m->news = true;
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t nodes_due_ns(const struct model *m)
{
	return m->nodes_ns + NODES_MS * NS_PER_MS;
}

/* With the nodes, which are read behind it, where somebody has asked for them meanwhile. */
static uint64_t queue_due_ns(const struct model *m)
{
	uint64_t least = cost_rest_ns(&m->read_cost, READ_SHARE, READ_LEAST_MS * NS_PER_MS,
				      REST_MOST_MS * NS_PER_MS);
	uint64_t due;

	if (!m->read_ns)
		return 0;
	if (m->changed)
		return m->read_ns + least;
	due = m->done_stale ? done_due_ns(m) : m->read_ns + READ_MOST_MS * NS_PER_MS;
	if (m->nodes_wanted && m->sp && nodes_due_ns(m) < due)
		due = nodes_due_ns(m);
	return later(m->read_ns + least, due);
}

static void read_queue(struct model *m)
{
	uint64_t now = clock_mono_ns();
	struct err e = ERR_INIT;
	int r;

	if (now < queue_due_ns(m))
		return;
	m->changed = false;
	m->read_from_ns = now;
	r = read_rows(m, &e);
	m->read = r == 0;
	(void)str_copy(m->queue_trouble, sizeof(m->queue_trouble), r < 0 ? e.text : "");
	m->read_ns = clock_mono_ns();
	m->news = true;
	if (m->sp && m->read_ns >= nodes_due_ns(m))
		read_nodes(m, m->read_ns);
}

void model_look(struct model *m)
{
	(void)pthread_mutex_lock(&m->mutex);
	m->look = true;
	(void)pthread_mutex_unlock(&m->mutex);
	tell(m->wake_fd);
}

/* -------- the thread -------- */

static int wait_ms(const struct model *m)
{
	uint64_t now = clock_mono_ns(), due = queue_due_ns(m);

	if (!m->watch && m->again_ns < due)
		due = m->again_ns;
	if (m->watch && now + SILENCE_LOOK_MS * NS_PER_MS < due)
		due = now + SILENCE_LOOK_MS * NS_PER_MS;
	return due > now ? (int)((due - now) / NS_PER_MS + 1) : 0;
}

static void wait_for_news(struct model *m)
{
	struct pollfd p[] = {
		{ .fd = m->wake_fd, .events = POLLIN },
		{ .fd = m->watch ? ctl_watch_fd(m->watch) : -1, .events = POLLIN },
	};

	(void)poll(p, ARRAY_LEN(p), wait_ms(m));
	if (p[0].revents)
		quieten(m->wake_fd);
}

static bool is_stopped(struct model *m)
{
	bool stop;

	(void)pthread_mutex_lock(&m->mutex);
	stop = m->stop;
	m->changed = m->changed || m->look;
	m->nodes_wanted = m->nodes_wanted || m->look;
	m->look = false;
	(void)pthread_mutex_unlock(&m->mutex);
	return stop;
}

static void *run(void *data)
{
	struct model *m = data;

	while (!is_stopped(m)) {
		connect_agent(m);
		read_agent(m);
		publish(m);
		read_queue(m);
		publish(m);
		wait_for_news(m);
	}
	(void)pthread_mutex_lock(&m->mutex);
	m->ended = true;
	(void)pthread_cond_signal(&m->ended_cond);
	(void)pthread_mutex_unlock(&m->mutex);
	return NULL;
}

static void free_model(struct model *m)
{
	m->watch = ctl_watch_close(m->watch);
	drop_snapshot(m->now);
	drop_rows(m->queue);
	drop_rows(m->done);
	m->index = rows_index_free(m->index);
	m->sp = spool_close(m->sp);
	json_decref(m->status);
	json_decref(m->nodes);
	json_decref(m->pools);
	json_decref(m->forecast);
	for (size_t i = 0; i < MODEL_EVENTS; i++)
		free(m->events[i].text);
	(void)fd_close(m->news_fd);
	(void)fd_close(m->wake_fd);
	(void)pthread_mutex_destroy(&m->mutex);
	(void)pthread_cond_destroy(&m->ended_cond);
	free(m);
}

int model_new(const struct cmd_ctx *ctx, unsigned int flags, struct model **ret, struct err *e)
{
	struct model *m = xcalloc(1, sizeof(*m));
	int r;

	m->ctx = ctx;
	m->flags = flags;
	m->began_ns = clock_wall_ns();
	m->news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	m->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	(void)pthread_mutex_init(&m->mutex, NULL);
	clock_cond_init(&m->ended_cond);
	m->now = make_snapshot(m);
	r = m->news_fd < 0 || m->wake_fd < 0 ? errno : pthread_create(&m->thread, NULL, run, m);
	if (r) {
		free_model(m);
		return err_sys(e, r, "look on");
	}
	*ret = m;
	return 0;
}

/* Under the mutex. */
static bool has_ended(struct model *m)
{
	const struct timespec until = clock_timespec(clock_mono_ns() + CLOSE_LIMIT_MS * NS_PER_MS);

	while (!m->ended && pthread_cond_timedwait(&m->ended_cond, &m->mutex, &until) == 0)
		;
	return m->ended;
}

struct model *model_free(struct model *m)
{
	bool ended;

	if (!m)
		return NULL;
	(void)pthread_mutex_lock(&m->mutex);
	m->stop = true;
	tell(m->wake_fd);
	ended = has_ended(m);
	(void)pthread_mutex_unlock(&m->mutex);
	if (ended) {
		(void)pthread_join(m->thread, NULL);
		free_model(m);
	}
	return NULL;
}

/* -------- nodes -------- */

json_t *model_nodes(const struct model_snapshot *s)
{
	static const char *const ages[] = { "age_s", "gpus_age_s" };
	double more_s = (double)((clock_mono_ns() - s->nodes_ns) / NS_PER_MS) / (double)MS_PER_S;
	json_t *list = json_array(), *node;
	size_t i;

	json_array_foreach(s->nodes, i, node)
	{
		json_t *now = json_copy(node);

		for (size_t k = 0; k < ARRAY_LEN(ages); k++)
			if (json_is_number(json_object_get(now, ages[k])))
				(void)json_object_set_new(
					now, ages[k],
					json_real(json_get_num(now, ages[k]) + more_s));
		(void)json_array_append_new(list, now);
	}
	return list;
}

/* -------- tasks -------- */

const struct row *model_find(const struct model_snapshot *s, uint64_t id, uint64_t element)
{
	for (size_t i = 0; i < s->rows.n; i++)
		if (s->rows.all[i].name.id == id && s->rows.all[i].name.element == element)
			return &s->rows.all[i];
	for (size_t i = 0; i < s->ended.n && !element; i++)
		if (s->ended.all[i].name.id == id)
			return &s->ended.all[i];
	return NULL;
}
