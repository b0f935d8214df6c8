/* SPDX-License-Identifier: MIT */
#include "agent/report/eventlog.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "base/utf8.h"

#define EVENT_JSON  (JSON_COMPACT | JSON_REAL_PRECISION(12))
#define WAITING_MAX EVENT_RING /* more than that is told without names */

/* -------- names of users: a directory service can hang, so they are looked up off the loop
 * -------- */

#define USERS_MAX 128 /* then the oldest answer is forgotten */
#define NAME_MAX_ 64

struct entry {
	uid_t uid;
	bool known;
	char name[NAME_MAX_];
};

struct users {
	uv_loop_t *loop;
	void (*found)(void *user);
	void *user;
	struct entry entries[USERS_MAX];
	size_t n; /* ever added */
	/* The job's own while busy. */
	bool busy;
	uv_work_t work;
	uid_t job_uid;
	char job_name[NAME_MAX_];
};

static struct users *users_new(uv_loop_t *loop, void (*found)(void *user), void *user)
{
	struct users *u = xcalloc(1, sizeof(*u));

	u->loop = loop;
	u->found = found;
	u->user = user;
	u->work.data = u;
	return u;
}

static struct entry *find_user(struct users *u, uid_t uid)
{
	size_t n = u->n < USERS_MAX ? u->n : USERS_MAX;

	for (size_t i = 0; i < n; i++)
		if (u->entries[i].uid == uid)
			return &u->entries[i];
	return NULL;
}

static void look_up(uv_work_t *work)
{
	struct users *u = work->data;

	(void)user_name(u->job_uid, u->job_name, sizeof(u->job_name));
}

static void look_up_next(struct users *u);

static void looked_up(uv_work_t *work, int status)
{
	struct users *u = work->data;
	struct entry *en = find_user(u, u->job_uid);

	u->busy = false;
	if (en) {
		en->known = true;
		(void)str_copy(en->name, sizeof(en->name), u->job_name);
	}
	look_up_next(u);
	u->found(u->user);
}

static void look_up_next(struct users *u)
{
	size_t n = u->n < USERS_MAX ? u->n : USERS_MAX;

	for (size_t i = 0; i < n && !u->busy; i++) {
		if (u->entries[i].known)
			continue;
		u->job_uid = u->entries[i].uid;
		u->busy = uv_queue_work(u->loop, &u->work, look_up, looked_up) == 0;
		return;
	}
}

/* The name, or NULL with its look-up on the way. */
static const char *name_of(void *user, uint32_t uid)
{
	struct users *u = user;
	struct entry *en = find_user(u, uid);

	if (!en) {
		en = &u->entries[u->n++ % USERS_MAX];
		*en = (struct entry){ .uid = uid };
		if (!u->busy)
			look_up_next(u);
	}
	return en->known ? en->name : NULL;
}

static int users_free(struct users *u)
{
	if (u && u->busy)
		return -EBUSY;
	free(u);
	return 0;
}

/* -------- what happened -------- */

struct waiting {
	struct waiting *next;
	uint64_t deadline_ns;
	struct guard_event event;
};

struct eventlog {
	struct eventlog_config c;
	uint64_t states_from_ns;
	uv_timer_t timer;
	struct users *users;
	struct user_names names;
	struct waiting *first, **last;
	size_t n_waiting;
	bool closed;
	uint64_t count; /* of events, ever; the last ones are kept, at [i % EVENTLOG_RECENT] */
	char *recent[EVENTLOG_RECENT];
};

static void tell_due(struct eventlog *n);

static void on_timer(uv_timer_t *timer)
{
	tell_due(timer->data);
}

static void on_name(void *user)
{
	struct eventlog *n = user;

	if (n->closed)
		return;
	tell_due(n);
	n->c.named(n->c.user);
}

struct eventlog *eventlog_new(uv_loop_t *loop, const struct eventlog_config *config)
{
	struct eventlog *n = xcalloc(1, sizeof(*n));

	n->c = *config;
	n->last = &n->first;
	n->users = users_new(loop, on_name, n);
	n->names = (struct user_names){ .name = name_of, .user = n->users };
	(void)name_of(n->users, geteuid()); /* whoever comes to our GPUs is often we */
	(void)uv_timer_init(loop, &n->timer);
	n->timer.data = n;
	return n;
}

/* "14:02:11" of the local day; the log has the date. */
static const char *time_of_day(uint64_t wall_ns, char *buf)
{
	return strchr(clock_format_local(wall_ns, buf), ' ') + 1;
}

static void show_sentence(struct eventlog *n, uint64_t wall_ns, const char *line)
{
	char time[CLOCK_TEXT_MAX];
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	strbuf_addf(&b, "%s  %s", time_of_day(wall_ns, time), line);
	agentlog_show(n->c.agentlog, strbuf_str(&b));
}

static int32_t mig_of(const struct eventlog *n, const struct guard_event *ev)
{
	const struct view *v = n->c.view;

	if (ev->slot < 0 || (uint32_t)ev->slot >= v->n_slots || !v->seen[ev->slot])
		return -1;
	return v->devices[ev->slot].mig;
}

static void keep_yield(struct view *v, const struct guard_event *ev, int32_t mig, const char *line)
{
	struct view_yield *y = &v->yields[v->n_yields++ % VIEW_YIELDS];

	y->event = *ev;
	y->mig = mig;
	(void)str_copy(y->line, sizeof(y->line), line);
}

/* Of this agent, and growing. */
static void set_id(struct eventlog *n, json_t *o)
{
	const struct view *v = n->c.view;
	char id[2 * UNIT_TEXT_MAX];

	(void)str_print(id, sizeof(id), "%llu.%llu",
			(unsigned long long)(v->started_wall_ns / NS_PER_MS),
			(unsigned long long)n->count);
	(void)json_object_set_new(o, "id", json_string(id));
	(void)json_object_set_new(o, "node", json_string(v->self->name));
}

/* The sentence is the last member of every event. */
static void finish(struct eventlog *n, json_t *o, enum log_level level, const char *text)
{
	set_id(n, o);
	(void)json_object_set_new(o, "level", json_string(log_level_name(level)));
	(void)json_object_set_new(o, "text", json_string(text));
}

/* To all who want events. Its line, which is kept for a while; takes the reference to o over. */
static const char *write_down(struct eventlog *n, json_t *o)
{
	char **kept = &n->recent[n->count % EVENTLOG_RECENT];

	free(*kept);
	*kept = json_dumps(o, EVENT_JSON);
	json_decref(o);
	if (!*kept) /* no memory */
		*kept = xstrdup("{}");
	agentlog_event(n->c.agentlog, *kept);
	n->count++;
	if (n->c.happened)
		n->c.happened(n->c.user);
	return *kept;
}

static void tell(struct eventlog *n, struct guard_event *ev)
{
	int32_t mig = mig_of(n, ev);
	enum log_level level = sentence_level(ev->kind, NULL);
	cleanup_strbuf struct strbuf line = STRBUF_INIT;

	sentence_event(ev, mig, &n->c.view->policy, &n->names, &line);

	json_t *o = sentence_event_json(ev, mig, n->c.view->guard.pid, &n->names);

	finish(n, o, level, strbuf_str(&line));
	agentlog_log(n->c.agentlog, level, "%s", strbuf_str(&line));
	if (ev->kind == EVENT_YIELD)
		keep_yield(n->c.view, ev, mig, strbuf_str(&line));

	const char *json = write_down(n, o);

	if (n->c.json)
		agentlog_show(n->c.agentlog, json);
	else if (level < LOG_LEVEL_DEBUG &&
		 !(ev->kind == EVENT_STATE && ev->wall_ns < n->states_from_ns))
		show_sentence(n, ev->wall_ns, strbuf_str(&line));
}

const struct user_names *eventlog_names(struct eventlog *n)
{
	return &n->names;
}

bool eventlog_knows(struct eventlog *n, const struct dev_reason *r)
{
	return !dev_reason_has_user(r) || name_of(n->users, r->uid);
}

static bool names_known(struct eventlog *n, const struct guard_event *ev)
{
	bool reason = eventlog_knows(n, &ev->reason);

	return (ev->uid == DEV_REASON_NO_UID || name_of(n->users, ev->uid)) && reason;
}

static void tell_first(struct eventlog *n)
{
	struct waiting *w = n->first;

	n->first = w->next;
	if (!n->first)
		n->last = &n->first;
	n->n_waiting--;
	tell(n, &w->event);
	free(w);
}

static void tell_due(struct eventlog *n)
{
	uint64_t now = clock_mono_ns();

	while (n->first && (n->first->deadline_ns <= now || n->n_waiting > WAITING_MAX ||
			    names_known(n, &n->first->event)))
		tell_first(n);
	if (n->first)
		(void)uv_timer_start(&n->timer, on_timer,
				     (n->first->deadline_ns - now) / NS_PER_MS + 1, 0);
	else
		(void)uv_timer_stop(&n->timer);
}

void eventlog_take(struct eventlog *n, const struct guard_event *ev)
{
	struct waiting *w;

	/* Another instance's agent tells its own. */
	if (ev->instance[0] && strcmp(ev->instance, n->c.view->c->instance) != 0)
		return;
	w = xcalloc(1, sizeof(*w));
	w->event = *ev;
	w->deadline_ns = clock_mono_ns() + EVENTLOG_NAME_WAIT_MS * NS_PER_MS;
	*n->last = w;
	n->last = &w->next;
	n->n_waiting++;
	tell_due(n);
}

/* Takes the reference to more over. */
static json_t *own_json(const struct eventlog *n, const char *kind, json_t *more)
{
	char time[CLOCK_TEXT_MAX];
	json_t *o = json_object();

	(void)json_object_set_new(o, "time", json_string(clock_format_iso(clock_wall_ns(), time)));
	(void)json_object_set_new(o, "event", json_string(kind));
	(void)json_object_set_new(o, "instance", json_string(n->c.view->c->instance));
	(void)json_object_update_missing(o, more);
	json_decref(more);
	return o;
}

/* Takes the reference to members over. line may name files and hosts that others called so. */
static void say(struct eventlog *n, enum own_event kind, enum log_level level, json_t *members,
		struct strbuf *line)
{
	json_t *o = own_json(n, sentence_kind(kind), members);

	if (line->len)
		line->len = strlen(utf8_clean(line->data));
	finish(n, o, level, strbuf_str(line));
	agentlog_log(n->c.agentlog, level, "%s", strbuf_str(line));

	const char *json = write_down(n, o);

	if (level < LOG_LEVEL_DEBUG && n->c.json)
		agentlog_show(n->c.agentlog, json);
	else if (level < LOG_LEVEL_DEBUG)
		show_sentence(n, clock_wall_ns(), strbuf_str(line));
}

void eventlog_say(struct eventlog *n, enum log_level level, const char *fmt, ...)
{
	cleanup_strbuf struct strbuf line = STRBUF_INIT;
	va_list ap;

	va_start(ap, fmt);
	strbuf_addv(&line, fmt, ap);
	va_end(ap);
	say(n, OWN_AGENT, level, json_object(), &line);
}

void eventlog_tell(struct eventlog *n, enum own_event kind, json_t *members)
{
	cleanup_strbuf struct strbuf line = STRBUF_INIT;

	sentence_own(kind, members, &line);
	say(n, kind, sentence_level(kind, members), members, &line);
}

void eventlog_tell_trouble(struct eventlog *n, uint64_t task, uint32_t element, const char *what,
			   const char *why, const char *file)
{
	json_t *o = json_pack("{sI ss so}", "task", (json_int_t)task, "what", what, "why",
			      json_new_text(why));

	if (element)
		(void)json_object_set_new(o, "element", json_integer((json_int_t)element));
	if (file)
		(void)json_object_set_new(o, "file", json_new_text(file));
	eventlog_tell(n, OWN_TASK_TROUBLE, o);
}

void eventlog_say_lines(struct eventlog *n, enum log_level level, const char *text)
{
	while (*text) {
		size_t len = strcspn(text, "\n");

		eventlog_say(n, level, "%.*s", (int)len, text);
		text += len + (text[len] == '\n');
	}
}

void eventlog_show(struct eventlog *n, const char *kind, const char *line, json_t *more)
{
	json_t *o = own_json(n, kind, more);

	cleanup_free char *text = NULL;

	(void)json_object_set_new(o, "text", json_string(line));
	text = json_dumps(o, EVENT_JSON);
	json_decref(o);
	if (!n->c.json)
		show_sentence(n, clock_wall_ns(), line);
	else if (text)
		agentlog_show(n->c.agentlog, text);
}

uint64_t eventlog_count(const struct eventlog *n)
{
	return n->count;
}

const char *eventlog_recent(const struct eventlog *n, uint64_t i)
{
	return i < n->count && n->count - i <= EVENTLOG_RECENT ? n->recent[i % EVENTLOG_RECENT]
							       : NULL;
}

void eventlog_states_from(struct eventlog *n, uint64_t wall_ns)
{
	n->states_from_ns = wall_ns;
}

void eventlog_close(struct eventlog *n)
{
	while (n->first)
		tell_first(n);
	n->closed = true;
	uv_close((uv_handle_t *)&n->timer, NULL);
}

int eventlog_free(struct eventlog *n)
{
	if (n && users_free(n->users) < 0)
		return -EBUSY;
	for (size_t i = 0; n && i < EVENTLOG_RECENT; i++)
		free(n->recent[i]);
	free(n);
	return 0;
}
