/* SPDX-License-Identifier: MIT */
#include "agent/report/eventlog.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/report/sentence.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/utf8.h"

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

static void show_json(struct eventlog *n, const json_t *o)
{
	cleanup_free char *text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(12));

	if (text)
		agentlog_show(n->c.agentlog, text);
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

static enum log_level level_of(uint32_t kind)
{
	if (!sentence_is_news(kind))
		return LOG_LEVEL_DEBUG;
	return kind == EVENT_BLIND || kind == EVENT_FAILED || kind == EVENT_LOST ? LOG_LEVEL_WARNING
										 : LOG_LEVEL_INFO;
}

static void tell(struct eventlog *n, struct guard_event *ev)
{
	int32_t mig = mig_of(n, ev);
	cleanup_strbuf struct strbuf line = STRBUF_INIT;

	sentence_event(ev, mig, &n->c.view->policy, &n->names, &line);

	json_t *o =
		sentence_event_json(ev, mig, n->c.view->guard.pid, &n->names, strbuf_str(&line));

	agentlog_log(n->c.agentlog, level_of(ev->kind), "%s", strbuf_str(&line));
	agentlog_event(n->c.agentlog, o);
	if (ev->kind == EVENT_YIELD)
		keep_yield(n->c.view, ev, mig, strbuf_str(&line));
	if (n->c.json)
		show_json(n, o);
	else if (sentence_is_news(ev->kind) &&
		 !(ev->kind == EVENT_STATE && ev->wall_ns < n->states_from_ns))
		show_sentence(n, ev->wall_ns, strbuf_str(&line));
	json_decref(o);
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

/* The sentence is the last member of every event. Takes the reference to more over. */
static json_t *own_json(const struct eventlog *n, const char *kind, json_t *more, const char *text)
{
	char time[CLOCK_TEXT_MAX];
	json_t *o = json_object();

	(void)json_object_set_new(o, "time", json_string(clock_format_iso(clock_wall_ns(), time)));
	(void)json_object_set_new(o, "event", json_string(kind));
	(void)json_object_set_new(o, "instance", json_string(n->c.view->c->instance));
	(void)json_object_update_missing(o, more);
	json_decref(more);
	(void)json_object_set_new(o, "text", json_string(text));
	return o;
}

/* Takes the reference to more over. */
void eventlog_say_kind(struct eventlog *n, enum log_level level, const char *kind, json_t *more,
		       const char *line)
{
	json_t *o;

	(void)json_object_set_new(more, "level", json_string(log_level_name(level)));
	o = own_json(n, kind, more, line);
	agentlog_log(n->c.agentlog, level, "%s", line);
	agentlog_event(n->c.agentlog, o);
	if (n->c.json)
		show_json(n, o);
	else if (level < LOG_LEVEL_DEBUG)
		show_sentence(n, clock_wall_ns(), line);
	json_decref(o);
}

/* Takes the reference to more over. */
static void say(struct eventlog *n, enum log_level level, json_t *more, const char *line)
{
	eventlog_say_kind(n, level, "agent", more, line);
}

void eventlog_say(struct eventlog *n, enum log_level level, const char *fmt, ...)
{
	cleanup_strbuf struct strbuf line = STRBUF_INIT;
	va_list ap;

	va_start(ap, fmt);
	strbuf_addv(&line, fmt, ap);
	va_end(ap);
	if (line.len) /* it may name files and hosts that others called so */
		line.len = strlen(utf8_clean(line.data));
	say(n, level, json_object(), strbuf_str(&line));
}

void eventlog_say_outcome(struct eventlog *n, enum log_level level, uint64_t task, uint32_t element,
			  const char *outcome, const char *line)
{
	cleanup_free char *clean = xstrdup(line);
	json_t *more = json_pack("{s:s, s:I}", "outcome", outcome, "task", (json_int_t)task);

	if (element)
		(void)json_object_set_new(more, "element", json_integer((json_int_t)element));
	say(n, level, more, utf8_clean(clean));
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
	json_t *o = own_json(n, kind, more, line);

	if (n->c.json)
		show_json(n, o);
	else
		show_sentence(n, clock_wall_ns(), line);
	json_decref(o);
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
	free(n);
	return 0;
}
