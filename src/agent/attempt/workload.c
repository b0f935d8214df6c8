/* SPDX-License-Identifier: MIT */

/*
 * One attempt a device at most. What is its own beside the course that all attempts take is when it
 * is started, and what people read of it. Whatever goes wrong leads to off, with the reason and,
 * where it ended at once by itself or could not be started, a time before which it is not tried
 * again.
 */

#include "agent/attempt/workload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/attempt/lease.h"
#include "agent/attempt/shim.h"
#include "agent/attempt/steps.h"
#include "agent/queue/planview.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/units.h"
#include "hold/device_state.h"
#include "task/claim_names.h"
#include "task/logtext.h"

#define AT_ONCE_MS    10000  /* an end before this is one "at once" */
#define WAIT_FIRST_MS 5000   /* after it; ... */
#define WAIT_LAST_MS  600000 /* ... twice as long each time, and this at most */
#define ROOM_LAST_MS  60000  /* this where it was refused: what is in the way may go at any time */

/* A device, where it may run. */
struct place {
	struct workload *all;
	uint32_t slot;
	struct view_workload *shown;
	struct attempt *attempt; /* NULL: off */
	bool yielded;		 /* it has to be idle for rehold_ms, then */
	uint64_t over_ns;
	unsigned int at_once;  /* ends at once, in a row */
	unsigned int refusals; /* starts that could not be, in a row */
};

struct workload {
	struct workload_config c;
	struct task_spec *spec;
	char *log_dir;
	uint32_t attempts; /* over all devices */
	struct place places[PROTO_DEVICES_MAX];
	struct view_workload shown[PROTO_DEVICES_MAX];
};

static struct place *place_of(const struct attempt *a)
{
	return a->own;
}

static const struct dev_status *device_of(const struct place *p)
{
	return &p->all->c.place->view->devices[p->slot];
}

static void say(const struct place *p, enum log_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void say(const struct place *p, enum log_level level, const char *fmt, ...)
{
	char text[PROTO_TEXT_MAX * 2];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	eventlog_say(p->all->c.place->eventlog, level, "gpu %u  %s", device_of(p)->index, text);
}

/* ---- what people are told ---- */

static const char *state_of(const struct attempt *a)
{
	if (a->shown == AT_CLAIMING)
		return "preparing";
	/* Until its shim has been found. */
	if (a->shown == AT_RUNNING && a->adopted && !a->shim.pid)
		return "adopting";
	return attempt_state_name(a->shown);
}

static void show(struct attempt *a)
{
	struct view_workload *w = place_of(a)->shown;
	const char *state = state_of(a);
	bool found = strcmp(w->state, "adopting") == 0 && a->shown == AT_RUNNING;

	if (place_of(a)->attempt != a) /* it is over */
		return;
	if (strcmp(w->state, state) != 0 && !found)
		w->since_ns = clock_mono_ns();
	w->state = state;
	w->there = true;
	w->runs = a->shown == AT_RUNNING && (a->shim.pid || !a->adopted);
	w->pid = a->shim.pid;
}

static void show_off(struct view_workload *w)
{
	w->state = "off";
	w->since_ns = clock_mono_ns();
	w->there = w->runs = false;
	w->pid = 0;
}

/* When it may come again, and what people read meanwhile. True: that was told. */
static bool put_off(struct place *p, bool at_once, const char *why)
{
	struct view_workload *w = p->shown;
	unsigned int times = w->refused ? p->refusals : at_once ? p->at_once : 0;
	uint64_t last = w->refused ? ROOM_LAST_MS : WAIT_LAST_MS, wait = WAIT_FIRST_MS;
	char wait_text[UNIT_TEXT_MAX];

	(void)str_copy(w->text, sizeof(w->text), why);
	w->next_ns = 0;
	if (!times)
		return false;
	for (unsigned int i = 1; i < times && wait < last; i++)
		wait *= 2;
	wait = wait < last ? wait : last;
	w->next_ns = clock_mono_ns() + wait * NS_PER_MS;
	if (times > 1)
		(void)str_print(w->text, sizeof(w->text), "%.160s, %u times in a row", why, times);
	say(p, LOG_LEVEL_WARNING, "the workload %s: %s; again in %s",
	    w->refused ? "cannot start" : "ended at once", w->text,
	    unit_format_duration(wait, wait_text));
	return true;
}

/* ---- the kind ---- */

static void describe(const struct attempt *a, struct launch_with *w)
{
	w->attempt = 1;
	w->idle_workload = true;
}

/* By nothing that the command did, but the next try may end as well. */
static void launch_failed(struct attempt *a, int code, const struct err *e)
{
	a->turned_away = true;
	(void)str_copy(a->why, sizeof(a->why), e->text);
	attempt_event(a, ON_DOOMED, NULL);
}

/* Nothing of it is requeued, whatever it ends for, and the first reason is told. */
static void end_it(struct attempt *a, const char *why)
{
	attempt_stop(a, END_PREEMPTED, UINT32_MAX, why);
}

/* It would not make it go for anybody. */
static void lease_failed(struct attempt *a, const struct msg_lease_reply *m)
{
	attempt_stop_for(a, END_PREEMPTED, &m->reason);
}

static void moved(struct attempt *a)
{
	end_it(a, "its GPUs are counted anew");
}

static void taken(struct attempt *a, const struct msg_lease_taken *m)
{
	place_of(a)->yielded = true;
	attempt_stop_for(a, END_PREEMPTED, &m->reason);
}

static void started(struct attempt *a, pid_t task_pid)
{
	struct place *p = place_of(a);

	if (a->adopted)
		return;
	p->refusals = 0;
	p->shown->starts++;
	if (!p->at_once)
		say(p, LOG_LEVEL_INFO, "the workload runs (PID %d)", (int)task_pid);
}

static void unseen(const struct attempt *a, const struct err *e)
{
	say(place_of(a), LOG_LEVEL_ERROR, "the state of the workload is unknown: %s; looking again",
	    e->text);
}

struct over_job {
	struct spool_job job;
	char token[TASK_TOKEN_MAX];
	const char *run_dir;
};

static void over_work(struct spool_job *job, struct spool_place *place)
{
	struct over_job *o = (struct over_job *)job;

	(void)end_record_remove(o->run_dir, o->token);
}

static void over_done(struct spool_job *job)
{
	free(job);
}

/* How it ended says something of the next try, where it was not stopped, and that is known; that
 * its agent was gone says nothing. True: it ended at once. */
static bool count(struct place *p, const struct attempt *a)
{
	bool known = !a->turned_away && a->end_kind == END_MAX && a->end.outcome != TASK_UNKNOWN;
	bool long_run = a->end.run_ns >= AT_ONCE_MS * NS_PER_MS;
	bool at_once = known && !long_run && a->end.cause != CAUSE_ALONE;

	if (known && long_run)
		p->at_once = 0;
	p->at_once += at_once;
	p->refusals += a->turned_away;
	p->shown->refused = a->turned_away;
	return at_once;
}

static void commit(struct attempt *a)
{
	struct over_job *o = xcalloc(1, sizeof(*o));

	attempt_shim_acknowledge(a);
	/* Nobody waits for its record to go: `off` must not wait for a file system that hangs. */
	o->job = (struct spool_job){ .work = over_work, .done = over_done };
	o->run_dir = a->place->run_dir;
	(void)str_copy(o->token, sizeof(o->token), a->token);
	spooler_do(a->place->spooler, &o->job);
	attempt_event(a, ON_COMMITTED, NULL);
}

static void over(struct attempt *a)
{
	cleanup_strbuf struct strbuf how = STRBUF_INIT;
	struct place *p = place_of(a);
	bool told_to_end = a->end_kind != END_MAX, at_once = count(p, a);
	const char *why = a->end.text;

	logtext_how(&how, &a->end);
	if (told_to_end || !*why)
		why = told_to_end ? attempt_why(a) : strbuf_str(&how);
	(void)sched_end(p->all->c.plan, a->ref);
	if (!put_off(p, at_once, why))
		say(p, LOG_LEVEL_INFO, "the workload has ended: %s", why);
	p->over_ns = clock_mono_ns();
	p->attempt = NULL;
	show_off(p->shown);
	p->all->c.changed(p->all->c.user);
}

static const struct attempt_ops workload_ops = {
	.describe = describe,
	.launch_failed = launch_failed,
	.lease_failed = lease_failed,
	.moved = moved,
	.taken = taken,
	.started = started,
	.unseen = unseen,
	.commit = commit,
	.over = over,
	.changed = show,
	.by_index = true,
};

/* ---- the start ---- */

static void plan_it(const struct place *p)
{
	const struct task_name n = {
		.id = LEASE_WORKLOAD, .element = p->slot + 1, .gpus = 1, .flags = NAME_PREEMPTIBLE
	};
	struct devset devices = { { 0 } };
	struct sched_task t;

	sched_task_from_spec(&n, NULL, &t);
	t.idle_workload = true;
	devset_add(&devices, p->slot);
	(void)sched_adopt(p->all->c.plan, &t, devices, clock_mono_ns(), NULL);
}

/* For the planner its name is that of the slot; lease and shim are named by an agent that comes
 * after us and knows the lease as well. */
static struct attempt *begin(struct place *p, const struct lease_id *lease, const char *uuid)
{
	const struct task_name n = { .id = lease->task,
				     .element = hash_fnv32(HASH_FNV32, uuid),
				     .epoch = lease->attempt };
	struct attempt *a = attempt_new(p->all->c.place, &workload_ops, attempt_steps);

	a->own = p;
	a->ref = (struct sched_ref){ LEASE_WORKLOAD, p->slot + 1 };
	a->lease = *lease;
	a->spec = spec_for_element(p->all->spec, 0);
	(void)names_token(a->place->key, &n, a->token);
	text_list_add(&a->uuids, uuid);
	devset_add(&a->devices, p->slot);
	p->attempt = a;
	plan_it(p);
	return a;
}

struct prepare_job {
	struct spool_job job;
	struct attempt *a;
	char *path;
	int fd;
	int log_errno; /* why that is no log */
};

/* Its log, or nothing: it is not worth to be kept from running by that. */
static void prepare_work(struct spool_job *job, struct spool_place *place)
{
	struct prepare_job *j = (struct prepare_job *)job;

	(void)fs_mkdirs(place_of(j->a)->all->log_dir, 0700, NULL);
	j->fd = open(j->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (j->fd >= 0)
		return;
	j->log_errno = errno;
	j->fd = open("/dev/null", O_RDWR | O_CLOEXEC);
}

static void prepare_done(struct spool_job *job)
{
	struct prepare_job *j = (struct prepare_job *)job;

	j->a->log_fd = j->fd;
	if (j->log_errno)
		say(place_of(j->a), LOG_LEVEL_WARNING,
		    "what the workload prints is lost: cannot open %s: %s", j->path,
		    strerror(j->log_errno));
	attempt_event(j->a, j->a->end_kind != END_MAX ? ON_DOOMED : ON_CLAIMED, NULL);
	free(j->path);
	free(j);
}

static void start(struct place *p)
{
	const struct lease_id lease = { LEASE_WORKLOAD, p->slot + 1, ++p->all->attempts };
	const char *uuid = device_of(p)->uuid;
	struct prepare_job *j = xcalloc(1, sizeof(*j));

	p->shown->text[0] = '\0';
	p->shown->refused = false;
	p->yielded = false;
	j->job = (struct spool_job){ .work = prepare_work, .done = prepare_done };
	j->a = begin(p, &lease, uuid);
	j->path = xasprintf("%s/workload-%s.log", p->all->log_dir, uuid);
	show(j->a);
	spooler_do(p->all->c.place->spooler, &j->job);
}

/* ---- when ---- */

static bool is_idle(const struct place *p, uint64_t now)
{
	const struct view *v = p->all->c.place->view;
	const struct dev_status *d = device_of(p);
	uint64_t wait = v->policy.idle_for_ms;

	if (p->yielded && v->policy.rehold_ms > wait)
		wait = v->policy.rehold_ms;
	return d->state == DEV_IDLE && !d->n_leases && d->idle_since_ns &&
	       d->looked_ns > p->over_ns && now - d->idle_since_ns >= wait * NS_PER_MS &&
	       now >= p->shown->next_ns;
}

static bool is_ours(const struct workload *w, uint32_t slot)
{
	const struct view *v = w->c.place->view;

	return v->seen[slot] && strcmp(v->devices[slot].instance, v->c->instance) == 0 &&
	       view_is_selected(v, slot) && !view_is_mig_card(v, slot);
}

/* All of them are idle, or have it. */
static bool are_together(const struct workload *w, uint64_t now)
{
	for (uint32_t i = 0; w->c.place->view->policy.together && i < w->c.place->view->n_slots;
	     i++)
		if (is_ours(w, i) && !w->places[i].attempt && !is_idle(&w->places[i], now))
			return false;
	return true;
}

static void start_where_idle(struct workload *w, struct devset busy)
{
	const struct view *v = w->c.place->view;
	uint32_t max = v->policy.max_devices;
	uint64_t now = clock_mono_ns();

	if (!are_together(w, now))
		return;
	for (uint32_t i = 0; i < v->n_slots; i++) {
		struct place *p = &w->places[i];

		if (p->attempt || devset_has(busy, i) || !is_ours(w, i) || !is_idle(p, now) ||
		    (max && devset_count(devset_or(workload_devices(w), busy)) >= max))
			continue;
		start(p);
	}
}

void workload_look(struct workload *w, bool wanted, struct devset busy)
{
	for (uint32_t i = 0; i < PROTO_DEVICES_MAX; i++) {
		const struct place *p = &w->places[i];

		if (p->attempt) /* what it has is free for whoever preempts it */
			(void)sched_used(w->c.plan, p->attempt->ref, i, device_of(p)->mem_used);
	}
	if (!wanted)
		workload_stop_all(w, "nothing is held any more");
	else if (w->c.place->c->workload)
		start_where_idle(w, busy);
}

struct devset workload_devices(const struct workload *w)
{
	struct devset devices = { { 0 } };

	for (uint32_t i = 0; i < PROTO_DEVICES_MAX; i++)
		if (w->places[i].attempt)
			devset_add(&devices, i);
	return devices;
}

void workload_stop(struct workload *w, uint32_t slot, const char *why)
{
	if (slot < PROTO_DEVICES_MAX && w->places[slot].attempt)
		end_it(w->places[slot].attempt, why);
}

void workload_stop_all(struct workload *w, const char *why)
{
	for (uint32_t i = 0; i < PROTO_DEVICES_MAX; i++)
		workload_stop(w, i, why);
}

void workload_attend(const struct workload *w)
{
	for (uint32_t i = 0; i < PROTO_DEVICES_MAX; i++)
		if (w->places[i].attempt)
			attempt_shim_tell_use(w->places[i].attempt, 0, 0);
}

/* ---- the guard speaks ---- */

struct attempt *workload_by_lease(const struct workload *w, const struct lease_id *id)
{
	for (uint32_t i = 0; i < PROTO_DEVICES_MAX; i++) {
		struct attempt *a = w->places[i].attempt;

		if (a && a->lease.element == id->element && a->lease.attempt == id->attempt)
			return a;
	}
	return NULL;
}

void workload_on_state(struct workload *w, const struct msg_lease_state *m)
{
	struct place *p = m->slot >= 0 && m->slot < PROTO_DEVICES_MAX ? &w->places[m->slot] : NULL;
	struct attempt *a;

	if (workload_by_lease(w, &m->id))
		return;
	if (!p || p->attempt) {
		(void)guardlink_unlease(w->c.place->link, &m->id);
		return;
	}
	w->attempts = w->attempts > m->id.attempt ? w->attempts : m->id.attempt;
	a = begin(p, &m->id, m->uuid);
	a->leased = a->adopted = true;
	a->promised = a->devices;
	attempt_adopted(a);
	show(a);
}

void workload_on_guard(struct workload *w)
{
	for (uint32_t i = 0; i < PROTO_DEVICES_MAX; i++)
		if (w->places[i].attempt)
			attempt_on_guard(w->places[i].attempt);
}

/* ---- life of the struct ---- */

static struct task_spec *make_spec(const struct agent_config *c)
{
	struct task_spec *s = spec_new();

	s->name = xstrdup("workload");
	s->cwd = xstrdup(c->workload_cwd ? c->workload_cwd : "/");
	s->umask = proc_umask();
	s->grace = c->workload_grace_ms;
	s->gpus = 1;
	s->preemptible = true; /* to people, too */
	text_list_add(&s->argv, "/bin/sh");
	text_list_add(&s->argv, "-c");
	text_list_add(&s->argv, c->workload ? c->workload : "");
	for (char **v = environ; *v; v++)
		text_list_add(&s->env, *v);
	return s;
}

struct workload *workload_new(const struct workload_config *c)
{
	struct workload *w = xcalloc(1, sizeof(*w));

	w->c = *c;
	w->log_dir = xstrdup(c->log_dir);
	w->spec = make_spec(c->place->c);
	w->attempts = (uint32_t)(clock_wall_ns() / NS_PER_S); /* of no agent before us */
	for (uint32_t i = 0; i < PROTO_DEVICES_MAX; i++) {
		w->places[i] = (struct place){ .all = w, .slot = i, .shown = &w->shown[i] };
		w->shown[i].state = "off";
	}
	return w;
}

const struct view_workload *workload_view(const struct workload *w)
{
	return w->shown;
}

struct workload *workload_free(struct workload *w)
{
	if (!w)
		return NULL;
	for (uint32_t i = 0; i < PROTO_DEVICES_MAX; i++)
		w->places[i].attempt = attempt_forget(w->places[i].attempt);
	spec_free(w->spec);
	free(w->log_dir);
	free(w);
	return NULL;
}
