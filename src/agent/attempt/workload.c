/* SPDX-License-Identifier: MIT */

/*
 * One filler a device, each a small machine:
 *
 *	off -> preparing (log) -> leasing -> starting (shim) -> granting -> running -> freeing
 *	-> off
 *
 * Whatever goes wrong on the way leads to freeing, and from there to off with the reason and, where
 * it ended at once by itself or could not be started, a time before which it is not tried again.
 * The shim's word that nothing runs is `gone`, the guard's that the device is free is `freed`; off
 * comes after both.
 */

#include "agent/attempt/workload.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "agent/attempt/orphans.h"
#include "agent/queue/planview.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/units.h"
#include "hold/state.h"
#include "task/logtext.h"
#include "task/names.h"
#include "task/talk.h"

#define AT_ONCE_MS    10000  /* an end before this is one "at once" */
#define WAIT_FIRST_MS 5000   /* after it; ... */
#define WAIT_LAST_MS  600000 /* ... twice as long each time, and this at most */
#define ROOM_LAST_MS  60000  /* this where it was refused: what is in the way may go at any time */
#define LOOK_AGAIN_MS 1000   /* for a shim of which nothing could be told */

struct filler_ear {
	uv_poll_t poll;
	int fd;
	struct filler *filler; /* NULL: let go of */
};

struct filler {
	struct fillers *all;
	uint32_t slot;
	struct view_workload *shown; /* its state, too */
	struct lease_id id;
	char uuid[96], token[TASK_TOKEN_MAX];
	int log_fd;
	struct filler_ear *ear;
	struct proc_id shim;
	bool leased, freed, gone, ending;
	bool unsaid; /* its shim could not be told to stop, with unsaid_ms of grace */
	uint32_t unsaid_ms;
	bool looking;		      /* for its shim: what it is told waits until that is known */
	uint64_t look_ns;	      /* when again, where nothing could be told; or 0 */
	struct orphan_ender *remains; /* of a shim that was killed: they are being ended */
	bool yielded;		      /* its device has to be idle for rehold_ms, then */
	uint64_t over_ns;
	char why[PROTO_TEXT_MAX];
	unsigned int at_once;  /* ends at once, in a row */
	unsigned int refusals; /* starts that could not be, in a row */
};

struct fillers {
	struct fillers_config c;
	struct spool_spec *spec; /* NULL: no command */
	char *log_dir;
	uint32_t attempts; /* over all devices */
	struct filler fillers[PROTO_DEVICES_MAX];
	struct view_workload shown[PROTO_DEVICES_MAX];
};

static void settle(struct filler *fl);
static void look_for_shim(struct filler *fl);

static enum workload_state state_of(const struct filler *fl)
{
	return fl->shown->state;
}

static void enter(struct filler *fl, enum workload_state state)
{
	fl->shown->state = state;
	fl->shown->since_ns = clock_mono_ns();
}

static struct sched_ref ref_of(const struct filler *fl)
{
	return (struct sched_ref){ LEASE_WORKLOAD, fl->slot + 1 };
}

static struct eventlog *eventlog_of(const struct filler *fl)
{
	return fl->all->c.place->eventlog;
}

static const struct dev_status *device_of(const struct filler *fl)
{
	return &fl->all->c.place->view->devices[fl->slot];
}

/* ---- the connection to its shim ---- */

static void on_ear_closed(uv_handle_t *h)
{
	struct filler_ear *ear = h->data;

	(void)fd_close(ear->fd);
	free(ear);
}

static void disconnect(struct filler *fl)
{
	struct filler_ear *ear = take_ptr(fl->ear);

	if (!ear)
		return;
	ear->filler = NULL;
	uv_close((uv_handle_t *)&ear->poll, on_ear_closed);
}

static void ended(struct filler *fl, const struct task_end *end)
{
	cleanup_strbuf struct strbuf how = STRBUF_INIT;

	if (fl->gone)
		return;
	if (end->record_errno && fl->ear)
		(void)talk_ack(fl->ear->fd);
	disconnect(fl);
	fl->gone = true;
	logtext_how(&how, end);
	if (!fl->ending) {
		(void)str_copy(fl->why, sizeof(fl->why),
			       end->text[0] ? end->text : strbuf_str(&how));
		if (end->run_ns < AT_ONCE_MS * NS_PER_MS)
			fl->at_once++;
		else
			fl->at_once = 0;
	}
	settle(fl);
}

/* Nothing of it runs, nor will. */
static void refused(struct filler *fl, const char *why)
{
	if (!fl->ending)
		(void)str_copy(fl->why, sizeof(fl->why), why);
	fl->gone = true;
	settle(fl);
}

/* It could not be started: by nothing that the command did, but the next try may end as well. */
static void turned_away(struct filler *fl, const char *why)
{
	if (!fl->ending) {
		fl->shown->refused = true;
		fl->refusals++;
	}
	refused(fl, why);
}

static void tell_grant(const struct filler *fl)
{
	(void)guardlink_grant(fl->all->c.place->link, &fl->id, &fl->shim);
}

static void on_prepared(struct filler *fl, const union shmsg *m)
{
	fl->shim = (struct proc_id){ .pid = m->status.shim_pid, .start = m->status.shim_start };
	fl->shown->pid = fl->shim.pid;
	enter(fl, WORKLOAD_GRANTING);
	tell_grant(fl);
}

static void tell_lease(const struct filler *fl, const struct proc_id *shim)
{
	struct msg_lease m = { .id = fl->id, .flags = LEASE_GIVES_WAY };

	if (shim) {
		m.pid = shim->pid;
		m.start = shim->start;
	}
	(void)str_copy(m.uuid, sizeof(m.uuid), fl->uuid);
	(void)guardlink_lease(fl->all->c.place->link, &m);
}

static void on_running(struct filler *fl, const union shmsg *m)
{
	const struct dev_status *d = device_of(fl);

	bool known = fl->shim.pid;

	fl->shim = (struct proc_id){ .pid = m->status.shim_pid, .start = m->status.shim_start };
	fl->shown->pid = fl->shim.pid;
	if (state_of(fl) == WORKLOAD_RUNNING) {
		if (!known) /* a guard that came while it was looked for has not been told */
			tell_lease(fl, &fl->shim);
		return;
	}
	enter(fl, WORKLOAD_RUNNING);
	fl->refusals = 0;
	fl->shown->starts++;
	if (!fl->at_once)
		eventlog_say(eventlog_of(fl), LOG_LEVEL_INFO, "gpu %u  the workload runs (PID %d)",
			     d->index, (int)m->status.task_pid);
}

static void take_message(struct filler *fl, int type, const union shmsg *m)
{
	if (type == SHMSG_PREPARED && state_of(fl) == WORKLOAD_STARTING)
		on_prepared(fl, m);
	else if (type == SHMSG_STATUS && m->status.state == SHIM_PREPARED)
		(void)talk_cancel(fl->ear->fd); /* of an agent before us */
	else if (type == SHMSG_STARTED || type == SHMSG_STATUS)
		on_running(fl, m);
	else if (type == SHMSG_ENDED)
		ended(fl, &m->ended.end);
}

static void on_shim(uv_poll_t *poll, int status, int events)
{
	struct filler_ear *ear = poll->data;
	cleanup_free union shmsg *m = xmalloc(sizeof(*m));

	while (ear->filler) {
		int type = talk_recv(ear->fd, m);

		if (type == -EAGAIN)
			break;
		if (type <= 0) {
			look_for_shim(ear->filler);
			break;
		}
		take_message(ear->filler, type, m);
	}
}

static void listen_to(struct filler *fl, int fd)
{
	struct filler_ear *ear = xcalloc(1, sizeof(*ear));

	ear->fd = fd;
	ear->filler = fl;
	ear->poll.data = ear;
	(void)uv_poll_init(fl->all->c.place->loop, &ear->poll, fd);
	(void)uv_poll_start(&ear->poll, UV_READABLE, on_shim);
	fl->ear = ear;
}

static void tell_stop(struct filler *fl, uint32_t grace_ms)
{
	int code;

	if (!fl->ear)
		return;
	code = state_of(fl) == WORKLOAD_RUNNING ? talk_stop(fl->ear->fd, 0, STOP_TREE, grace_ms)
						: talk_cancel(fl->ear->fd);
	/* A shim that is stopped, or slow, has not read what we said before. */
	fl->unsaid = code == -EAGAIN;
	fl->unsaid_ms = grace_ms;
}

/* ---- a shim that is not connected: adopted, or lost ---- */

struct shim_job {
	struct spool_job job;
	struct filler *fl;
	struct adopted found;
	struct err e;
	int code;
};

static void shim_work(struct spool_job *job, struct spool_place *p)
{
	struct shim_job *s = (struct shim_job *)job;
	struct filler *fl = s->fl;

	s->code = adopt_settle(fl->token, &(struct shim_id){ .proc = fl->shim },
			       fl->all->c.place->run_dir, &s->found, &s->e);
	if (s->code == 0 && s->found.found == ADOPT_OTHER)
		s->code = err_set(&s->e, -EAGAIN, "another process has its shim's name");
}

static void on_remains_gone(void *user)
{
	struct filler *fl = user;

	fl->remains = NULL;
	refused(fl, "its shim was killed; what was left of it has been ended");
}

/* It runs, has ended, or was killed: nobody knows. That is no end. */
static void look_later(struct filler *fl, const struct err *e)
{
	if (!fl->look_ns)
		eventlog_say(eventlog_of(fl), LOG_LEVEL_ERROR,
			     "gpu %u  what has become of the workload cannot be told: %s; looking "
			     "again",
			     device_of(fl)->index, e->text);
	fl->look_ns = clock_mono_ns() + LOOK_AGAIN_MS * NS_PER_MS;
}

static void shim_done(struct spool_job *job)
{
	struct shim_job *s = (struct shim_job *)job;
	struct filler *fl = s->fl;

	fl->looking = s->code < 0;
	if (s->code < 0) {
		look_later(fl, &s->e);
		free(s);
		return;
	}
	fl->look_ns = 0;
	if (s->found.found == ADOPT_LIVES) {
		fl->shown->state = WORKLOAD_RUNNING;
		listen_to(fl, s->found.fd);
		if (fl->ending)
			tell_stop(fl, UINT32_MAX);
	} else if (s->found.found == ADOPT_ENDED) {
		ended(fl, &s->found.record.end);
	} else {
		fl->remains =
			orphan_ender_start(fl->all->c.place->loop, fl->token,
					   (uint32_t)fl->all->c.grace_ms, on_remains_gone, fl);
	}
	free(s);
}

static void look_for_shim(struct filler *fl)
{
	struct shim_job *s = xcalloc(1, sizeof(*s));

	disconnect(fl);
	fl->looking = true;
	fl->look_ns = fl->look_ns ? UINT64_MAX : 0;
	s->job = (struct spool_job){ .work = shim_work, .done = shim_done };
	s->fl = fl;
	spooler_do(fl->all->c.place->spooler, &s->job);
}

/* ---- the end ---- */

struct over_job {
	struct spool_job job;
	char token[TASK_TOKEN_MAX];
	const char *run_dir;
};

static void over_work(struct spool_job *job, struct spool_place *p)
{
	struct over_job *o = (struct over_job *)job;

	(void)record_remove(o->run_dir, o->token);
}

static void over_done(struct spool_job *job)
{
	free(job);
}

static void forget_record(struct filler *fl)
{
	struct over_job *o = xcalloc(1, sizeof(*o));

	o->job = (struct spool_job){ .work = over_work, .done = over_done };
	o->run_dir = fl->all->c.place->run_dir;
	(void)str_copy(o->token, sizeof(o->token), fl->token);
	spooler_do(fl->all->c.place->spooler, &o->job);
}

/* When it may come again, and what people read meanwhile. True: that was told. */
static bool put_off(struct filler *fl)
{
	struct view_workload *w = fl->shown;
	unsigned int times = w->refused ? fl->refusals : fl->ending ? 0 : fl->at_once;
	uint64_t last = w->refused ? ROOM_LAST_MS : WAIT_LAST_MS, wait = WAIT_FIRST_MS;
	char wait_text[UNIT_TEXT_MAX];

	(void)str_copy(w->text, sizeof(w->text), fl->why);
	w->next_ns = 0;
	if (!times)
		return false;
	for (unsigned int i = 1; i < times && wait < last; i++)
		wait *= 2;
	wait = wait < last ? wait : last;
	w->next_ns = clock_mono_ns() + wait * NS_PER_MS;
	if (times > 1)
		(void)str_print(w->text, sizeof(w->text), "%.160s, %u times in a row", fl->why,
				times);
	eventlog_say(eventlog_of(fl), LOG_LEVEL_WARNING, "gpu %u  the workload %s: %s; again in %s",
		     device_of(fl)->index, w->refused ? "cannot start" : "ended at once", w->text,
		     unit_format_duration(wait, wait_text));
	return true;
}

static void over(struct filler *fl)
{
	struct fillers *all = fl->all;

	fl->log_fd = spooler_close_fd(all->c.place->spooler, fl->log_fd);
	(void)sched_end(all->c.plan, ref_of(fl));
	forget_record(fl);
	if (!put_off(fl))
		eventlog_say(eventlog_of(fl), LOG_LEVEL_INFO, "gpu %u  the workload has ended: %s",
			     device_of(fl)->index, fl->why);
	fl->over_ns = clock_mono_ns();
	fl->shown->pid = 0;
	fl->leased = fl->freed = fl->gone = fl->ending = fl->unsaid = false;
	fl->shim = (struct proc_id){ 0 };
	enter(fl, WORKLOAD_OFF);
	all->c.changed(all->c.user);
}

static void settle(struct filler *fl)
{
	if (!fl->gone)
		return;
	if (fl->leased && !fl->freed) {
		enter(fl, WORKLOAD_FREEING);
		(void)guardlink_unlease(fl->all->c.place->link, &fl->id);
		return;
	}
	over(fl);
}

void fillers_stop(struct fillers *f, uint32_t slot, uint32_t grace_ms, const char *why)
{
	struct filler *fl = &f->fillers[slot];

	if (slot >= PROTO_DEVICES_MAX || state_of(fl) == WORKLOAD_OFF || fl->gone)
		return;
	if (!fl->ending)
		(void)str_copy(fl->why, sizeof(fl->why), why);
	fl->ending = true;
	orphan_ender_hurry(fl->remains, grace_ms);
	if (fl->looking || fl->remains)
		return;
	if (state_of(fl) == WORKLOAD_LEASING || (state_of(fl) == WORKLOAD_STARTING && !fl->ear))
		refused(fl, why);
	else
		tell_stop(fl, grace_ms);
}

void fillers_stop_all(struct fillers *f, uint32_t grace_ms, const char *why)
{
	for (uint32_t i = 0; i < PROTO_DEVICES_MAX; i++)
		fillers_stop(f, i, grace_ms, why);
}

/* ---- the start ---- */

static int ask_for_shim(struct filler *fl, struct err *e)
{
	const struct dev_status *d = device_of(fl);
	struct attempt_place *place = fl->all->c.place;
	struct job *j;
	char index[16];
	struct job_with with = {
		.instance = place->instance,
		.node = place->node,
		.run_dir = place->run_dir,
		.log_limit = place->log_limit,
		.by_index = d->mig < 0,
		.visible = d->mig < 0 ? str_print(index, sizeof(index), "%u", d->index) : d->uuid,
		.attempt = 1,
		.filler = true,
	};
	int r = job_make(fl->all->spec, fl->token, &with, &j, e);

	if (r < 0)
		return r;
	r = launch_shim(&place->mother, job_get(j), fl->log_fd, e);
	job_free(j);
	return r;
}

/* Called again, by fillers_look(), until there is a shim. */
static void launch(struct filler *fl)
{
	struct attempt_place *place = fl->all->c.place;
	struct err e = ERR_INIT;
	int fd;

	if (place->mother.fd < 0 && launch_mother(&place->mother, place->program_fd, &e) < 0) {
		turned_away(fl, e.text);
		return;
	}
	fd = ask_for_shim(fl, &e);
	if (fd == -EPIPE)
		launch_mother_close(&place->mother);
	else if (fd >= 0)
		listen_to(fl, fd);
	else if (fd != -EAGAIN)
		turned_away(fl, e.text);
}

struct prepare_job {
	struct spool_job job;
	struct filler *fl;
	char *path;
	int fd;
	int log_errno; /* why that is no log */
};

/* Its log, or nothing: it is not worth to be kept from running by that. */
static void prepare_work(struct spool_job *job, struct spool_place *p)
{
	struct prepare_job *j = (struct prepare_job *)job;

	(void)fs_mkdirs(j->fl->all->log_dir, 0700, NULL);
	j->fd = open(j->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (j->fd >= 0)
		return;
	j->log_errno = errno;
	j->fd = open("/dev/null", O_RDWR | O_CLOEXEC);
}

static void prepare_done(struct spool_job *job)
{
	struct prepare_job *j = (struct prepare_job *)job;
	struct filler *fl = j->fl;

	fl->log_fd = j->fd;
	if (j->log_errno)
		eventlog_say(eventlog_of(fl), LOG_LEVEL_WARNING,
			     "gpu %u  what the workload prints is lost: cannot open %s: %s",
			     device_of(fl)->index, j->path, strerror(j->log_errno));
	if (fl->ending) {
		refused(fl, fl->why);
	} else {
		enter(fl, WORKLOAD_LEASING);
		fl->leased = true;
		tell_lease(fl, NULL);
	}
	free(j->path);
	free(j);
}

/* The same for an agent that comes after us and knows the lease. */
static void name_shim(struct filler *fl)
{
	const struct task_name n = { .id = fl->id.task,
				     .element = hash_fnv32(HASH_FNV32, fl->uuid),
				     .epoch = fl->id.attempt };

	(void)names_token(fl->all->c.place->key, &n, fl->token);
}

static void plan_it(struct filler *fl)
{
	const struct task_name n = {
		.id = LEASE_WORKLOAD, .element = fl->slot + 1, .gpus = 1, .flags = NAME_PREEMPTIBLE
	};
	struct devset devices = { { 0 } };
	struct sched_task t;

	sched_task_from_spec(&n, NULL, &t);
	t.filler = true;
	devset_add(&devices, fl->slot);
	(void)sched_adopt(fl->all->c.plan, &t, devices, clock_mono_ns(), NULL);
}

static void start(struct filler *fl)
{
	struct prepare_job *j = xcalloc(1, sizeof(*j));

	(void)str_copy(fl->uuid, sizeof(fl->uuid), device_of(fl)->uuid);
	fl->id = (struct lease_id){ LEASE_WORKLOAD, fl->slot + 1, ++fl->all->attempts };
	fl->why[0] = fl->shown->text[0] = '\0';
	fl->shown->refused = false;
	fl->yielded = false;
	name_shim(fl);
	plan_it(fl);
	enter(fl, WORKLOAD_PREPARING);
	j->job = (struct spool_job){ .work = prepare_work, .done = prepare_done };
	j->fl = fl;
	j->path = xasprintf("%s/workload-%s.log", fl->all->log_dir, fl->uuid);
	spooler_do(fl->all->c.place->spooler, &j->job);
}

/* ---- when ---- */

static bool is_idle(const struct filler *fl, uint64_t now)
{
	const struct view *v = fl->all->c.place->view;
	const struct dev_status *d = device_of(fl);
	uint64_t wait = v->policy.idle_for_ms;

	if (fl->yielded && v->policy.rehold_ms > wait)
		wait = v->policy.rehold_ms;
	return d->state == DEV_IDLE && !d->n_leases && d->idle_since_ns &&
	       d->looked_ns > fl->over_ns && now - d->idle_since_ns >= wait * NS_PER_MS &&
	       now >= fl->shown->next_ns;
}

static bool is_ours(const struct fillers *f, uint32_t slot)
{
	const struct view *v = f->c.place->view;

	return v->seen[slot] && strcmp(v->devices[slot].instance, v->c->instance) == 0 &&
	       view_is_selected(v, slot) && !view_is_mig_card(v, slot);
}

/* All of them are idle, or have it. */
static bool are_together(const struct fillers *f, uint64_t now)
{
	for (uint32_t i = 0; f->c.place->view->policy.together && i < f->c.place->view->n_slots;
	     i++)
		if (is_ours(f, i) && f->shown[i].state == WORKLOAD_OFF &&
		    !is_idle(&f->fillers[i], now))
			return false;
	return true;
}

static void start_where_idle(struct fillers *f, struct devset busy)
{
	const struct view *v = f->c.place->view;
	uint32_t max = v->policy.max_devices;
	uint64_t now = clock_mono_ns();

	if (!are_together(f, now))
		return;
	for (uint32_t i = 0; i < v->n_slots; i++) {
		struct filler *fl = &f->fillers[i];

		if (state_of(fl) != WORKLOAD_OFF || devset_has(busy, i) || !is_ours(f, i) ||
		    !is_idle(fl, now) ||
		    (max && devset_count(devset_or(fillers_devices(f), busy)) >= max))
			continue;
		start(fl);
	}
}

void fillers_look(struct fillers *f, bool wanted, struct devset busy)
{
	for (uint32_t i = 0; i < PROTO_DEVICES_MAX; i++) {
		struct filler *fl = &f->fillers[i];

		if (state_of(fl) == WORKLOAD_OFF)
			continue;
		/* What it has is free for whoever it gives way to. */
		(void)sched_used(f->c.plan, ref_of(fl), i, device_of(fl)->mem_used);
		if (fl->unsaid)
			tell_stop(fl, fl->unsaid_ms);
		if (fl->look_ns && clock_mono_ns() >= fl->look_ns)
			look_for_shim(fl);
		else if (state_of(fl) == WORKLOAD_STARTING && !fl->ear && !fl->gone &&
			 !fl->looking && !fl->remains)
			launch(fl);
	}
	if (!wanted)
		fillers_stop_all(f, UINT32_MAX, "nothing is held any more");
	else if (f->spec)
		start_where_idle(f, busy);
}

struct devset fillers_devices(const struct fillers *f)
{
	struct devset devices = { { 0 } };

	for (uint32_t i = 0; i < PROTO_DEVICES_MAX; i++)
		if (f->shown[i].state != WORKLOAD_OFF)
			devset_add(&devices, i);
	return devices;
}

/* ---- the guard speaks ---- */

static struct filler *by_id(struct fillers *f, const struct lease_id *id)
{
	for (uint32_t i = 0; i < PROTO_DEVICES_MAX; i++) {
		struct filler *fl = &f->fillers[i];

		if (state_of(fl) != WORKLOAD_OFF && fl->id.attempt == id->attempt &&
		    fl->id.element == id->element)
			return fl;
	}
	return NULL;
}

void fillers_on_promise(struct fillers *f, const struct msg_lease_reply *m)
{
	struct filler *fl = by_id(f, &m->id);

	/* Of a guard that is new, which would not make it go for anybody, or counts otherwise. */
	if (fl && state_of(fl) == WORKLOAD_RUNNING && (m->code < 0 || m->slot != (int32_t)fl->slot))
		fillers_stop(f, fl->slot, UINT32_MAX,
			     m->code < 0 ? m->text : "its GPUs are counted anew");
	if (!fl || state_of(fl) != WORKLOAD_LEASING)
		return;
	if (m->code < 0) {
		fl->leased = false;
		turned_away(fl, m->text);
		return;
	}
	enter(fl, WORKLOAD_STARTING);
	launch(fl);
}

void fillers_on_granted(struct fillers *f, const struct msg_lease_reply *m)
{
	struct filler *fl = by_id(f, &m->id);
	char devices[32];

	if (!fl || state_of(fl) != WORKLOAD_GRANTING)
		return;
	if (m->code < 0)
		fillers_stop(f, fl->slot, UINT32_MAX, m->text);
	else if (fl->ear &&
		 talk_go(fl->ear->fd,
			 str_print(devices, sizeof(devices), "GPU %u", device_of(fl)->index), NULL,
			 0) < 0)
		look_for_shim(fl);
}

void fillers_on_taken(struct fillers *f, const struct msg_lease_taken *m)
{
	struct filler *fl = by_id(f, &m->id);

	if (!fl)
		return;
	fl->yielded = true;
	fillers_stop(f, fl->slot, UINT32_MAX, m->text);
}

void fillers_on_unleased(struct fillers *f, const struct msg_unleased *m)
{
	struct filler *fl = by_id(f, &m->id);

	if (!fl)
		return;
	fl->freed = true;
	settle(fl);
}

void fillers_on_state(struct fillers *f, const struct msg_lease_state *m)
{
	struct filler *fl =
		m->slot >= 0 && m->slot < PROTO_DEVICES_MAX ? &f->fillers[m->slot] : NULL;

	if (by_id(f, &m->id))
		return;
	if (!fl || state_of(fl) != WORKLOAD_OFF) {
		(void)guardlink_unlease(f->c.place->link, &m->id);
		return;
	}
	fl->id = m->id;
	fl->leased = true;
	(void)str_copy(fl->uuid, sizeof(fl->uuid), m->uuid);
	f->attempts = f->attempts > m->id.attempt ? f->attempts : m->id.attempt;
	name_shim(fl);
	plan_it(fl);
	enter(fl, WORKLOAD_ADOPTING);
	look_for_shim(fl);
}

void fillers_attend(const struct fillers *f)
{
	for (uint32_t i = 0; i < PROTO_DEVICES_MAX; i++)
		if (f->fillers[i].ear && state_of(&f->fillers[i]) == WORKLOAD_RUNNING)
			(void)talk_gpu(f->fillers[i].ear->fd, 0, 0);
}

void fillers_on_guard(struct fillers *f)
{
	for (uint32_t i = 0; i < PROTO_DEVICES_MAX; i++) {
		struct filler *fl = &f->fillers[i];
		enum workload_state s = state_of(fl);

		if (s == WORKLOAD_LEASING || s == WORKLOAD_STARTING || s == WORKLOAD_GRANTING)
			tell_lease(fl, NULL);
		if (s == WORKLOAD_GRANTING)
			tell_grant(fl);
		if (s == WORKLOAD_RUNNING && fl->shim.pid) /* else when that is known */
			tell_lease(fl, &fl->shim);
		if (s == WORKLOAD_FREEING)
			(void)guardlink_unlease(f->c.place->link, &fl->id);
	}
}

/* ---- life of the struct ---- */

static struct spool_spec *make_spec(const struct fillers_config *c)
{
	struct spool_spec *s = spec_new();

	s->name = xstrdup("workload");
	s->cwd = xstrdup(c->cwd ? c->cwd : "/");
	s->umask = proc_umask();
	s->grace = c->grace_ms;
	text_list_add(&s->argv, "/bin/sh");
	text_list_add(&s->argv, "-c");
	text_list_add(&s->argv, c->command);
	for (char **v = environ; *v; v++)
		text_list_add(&s->env, *v);
	return s;
}

struct fillers *fillers_new(const struct fillers_config *c)
{
	struct fillers *f = xcalloc(1, sizeof(*f));

	f->c = *c;
	f->log_dir = xstrdup(c->log_dir);
	f->spec = c->command ? make_spec(c) : NULL;
	f->attempts = (uint32_t)(clock_wall_ns() / NS_PER_S); /* of no agent before us */
	for (uint32_t i = 0; i < PROTO_DEVICES_MAX; i++)
		f->fillers[i] =
			(struct filler){ .all = f, .slot = i, .shown = &f->shown[i], .log_fd = -1 };
	return f;
}

const struct view_workload *fillers_view(const struct fillers *f)
{
	return f->shown;
}

struct fillers *fillers_free(struct fillers *f)
{
	if (!f)
		return NULL;
	for (uint32_t i = 0; i < PROTO_DEVICES_MAX; i++) {
		disconnect(&f->fillers[i]);
		f->fillers[i].remains = orphan_ender_forget(f->fillers[i].remains);
		f->fillers[i].log_fd = spooler_close_fd(f->c.place->spooler, f->fillers[i].log_fd);
	}
	spec_free(f->spec);
	free(f->log_dir);
	free(f);
	return NULL;
}
