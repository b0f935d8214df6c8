/* SPDX-License-Identifier: MIT */

/*
 * A run is moved on by three sources: jobs on the spool (claim, note the shim, file the end), the
 * guard's words on its lease, and its shim's messages. Each handler looks at the state it is in, so
 * a word that comes late does nothing.
 *
 * The claim names the agent until the shim is noted in it, so that a crash between the two leaves
 * a claim whose token leads to the shim, if there is one (runjob_token()).
 *
 * The end: the shim's word gives `end`, the guard's gives `freed`. Both are needed before the task
 * is filed, so that nobody is told that it is over while its devices are still in use (invariant
 * 7).
 */

#include "agent/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/filing.h"
#include "agent/planview.h"
#include "agent/remains.h"
#include "agent/taking.h"
#include "agent/taskuse.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "task/talk.h"

#define RETRY_FIRST_MS	1000  /* a file that could not be written is tried again after this, ... */
#define RETRY_LAST_MS	60000 /* ... twice as long each time, and this at most */
#define LAUNCH_RETRY_MS 5

/* A connection to a shim, and its handle, which the loop gives back later than we let go of it. */
struct ear {
	uv_poll_t poll;
	int fd;
	struct run *run; /* NULL: let go of */
};

struct run {
	struct run_place *place;
	struct sched_ref ref;
	struct devset devices;
	enum run_state state;
	struct claim claim;
	int claim_code; /* run_claim_code() */
	struct spool_spec *spec;
	unsigned int tries; /* counted failures before this attempt */
	char token[TASK_TOKEN_MAX];
	char log_path[SPOOL_PATH_MAX];
	char devices_text[SHPROTO_DEV_MAX];
	struct devset promised; /* devices of which the guard said so, and that are not free yet */
	int log_fd;
	struct ear *ear; /* NULL: not connected */
	uv_timer_t timer;
	bool adopted;
	uint64_t retry_ms;
	struct proc_id shim;
	uint64_t started_ns;
	struct taskuse use;
	uint64_t next_memory; /* of the next attempt, bytes per GPU */
	/* The end. */
	bool leased, freed, gone;
	enum end_kind kind; /* what we ended it for; END_MAX: it ended by itself */
	char why[RECORD_REASON_MAX];
	bool failed_early; /* it never ran */
	struct task_end end;
	struct retry_verdict verdict;
	bool over;
};

static const char *const state_names[] = {
	[RUN_CLAIMING] = "claiming", [RUN_LEASING] = "leasing", [RUN_STARTING] = "starting",
	[RUN_GRANTING] = "granting", [RUN_RUNNING] = "running", [RUN_FREEING] = "freeing",
	[RUN_FILING] = "filing",
};

_Static_assert(ARRAY_LEN(state_names) == RUN_STATE_MAX, "every state has a name");

const char *run_state_name(unsigned int state)
{
	return state < RUN_STATE_MAX ? state_names[state] : "?";
}

/* ---- life of the struct ---- */

static void on_ear_closed(uv_handle_t *h)
{
	struct ear *ear = h->data;

	(void)fd_close(ear->fd);
	free(ear);
}

static void disconnect(struct run *r)
{
	struct ear *ear = take_ptr(r->ear);

	if (!ear)
		return;
	ear->run = NULL;
	uv_close((uv_handle_t *)&ear->poll, on_ear_closed);
}

static void on_timer_closed(uv_handle_t *h)
{
	struct run *r = h->data;

	r->log_fd = fd_close(r->log_fd);
	spec_free(r->spec);
	taskuse_clear(&r->use);
	free(r);
}

static void release(struct run *r)
{
	disconnect(r);
	uv_close((uv_handle_t *)&r->timer, on_timer_closed);
}

static struct run *run_new(struct run_place *place)
{
	struct run *r = xcalloc(1, sizeof(*r));

	r->place = place;
	r->log_fd = -1;
	r->kind = END_MAX;
	(void)uv_timer_init(place->loop, &r->timer);
	r->timer.data = r;
	return r;
}

struct run *run_forget(struct run *r)
{
	if (r)
		release(r);
	return NULL;
}

/* ---- the end ---- */

static void finish(struct run *r)
{
	r->place->over(r->place->user, r, &r->verdict);
	release(r);
}

/* It never came to run, and is in the spool as it was: again after a while. */
static void put_off(struct run *r, uint64_t wait_ms, const char *why)
{
	r->verdict = (struct retry_verdict){ .what = RETRY_AGAIN,
					     .at_ns = clock_mono_ns() + wait_ms * NS_PER_MS };
	(void)str_copy(r->verdict.text, sizeof(r->verdict.text), why);
	finish(r);
}

struct file_job {
	struct spool_job job;
	struct run *r;
	struct filing f;
};

static void file_work(struct spool_job *job, struct spool_place *p)
{
	filing_work(&((struct file_job *)job)->f, p);
}

static void file_it(struct run *r);

static void on_file_again(uv_timer_t *timer)
{
	file_it(timer->data);
}

static void file_done(struct spool_job *job)
{
	struct run *r = ((struct file_job *)job)->r;
	struct filing *f = &((struct file_job *)job)->f;

	if (f->code < 0 && f->code != -ENOENT) {
		if (r->place->file_code != f->code) /* once, not for each */
			news_say(r->place->news, LOG_LEVEL_ERROR,
				 "the end of task %llu cannot be written: %s; trying again",
				 (unsigned long long)r->ref.id, f->e.text);
		r->place->file_code = f->code;
		r->retry_ms = r->retry_ms ? r->retry_ms * 2 : RETRY_FIRST_MS;
		r->retry_ms = r->retry_ms < RETRY_LAST_MS ? r->retry_ms : RETRY_LAST_MS;
		(void)uv_timer_start(&r->timer, on_file_again, r->retry_ms, 0);
	} else {
		r->place->file_code = 0;
		r->verdict = f->verdict;
		r->tries = f->state.tries;
		r->next_memory = f->state.mem_bytes;
		*r->place->streak(r->place->user, r) = f->streak;
		if (r->end.record_errno && r->ear)
			(void)talk_ack(r->ear->fd);
		finish(r);
	}
	free(job);
}

/* The guard's last word may have come after the shim's. */
static void take_use(struct run *r)
{
	uint64_t peak_bytes;
	uint32_t util_permille;

	taskuse_sum(&r->use, &peak_bytes, &util_permille);
	if (peak_bytes < r->end.gpu_peak_bytes || !r->use.n)
		return;
	r->end.gpu_peak_bytes = peak_bytes;
	r->end.gpu_util_permille = util_permille;
}

static void file_it(struct run *r)
{
	struct file_job *j = xcalloc(1, sizeof(*j));

	r->state = RUN_FILING;
	take_use(r);
	j->job = (struct spool_job){ .work = file_work, .done = file_done };
	j->r = r;
	j->f = (struct filing){
		.claim = r->claim,
		.spec = r->spec,
		.end = &r->end,
		.gpus = devset_count(r->devices),
		.room_bytes = planview_room(r->place->view, r->spec->model),
		.ended = filing_judge(&r->end, r->kind, r->why),
		.token = r->token,
		.run_dir = r->place->run_dir,
		.log_fd = r->log_fd,
		.state = { .tries = r->tries, .mem_bytes = r->spec->memory },
		.streak = *r->place->streak(r->place->user, r),
		.now_ns = clock_mono_ns(),
		.now_wall_ns = clock_wall_ns(),
	};
	spooler_do(r->place->spooler, &j->job);
}

static void tell_unlease(struct run *r)
{
	const struct lease_id id = run_lease_id(r);

	(void)guardlink_unlease(r->place->link, &id);
}

/* The tree is gone; are the devices free as well? */
static void settle(struct run *r)
{
	if (!r->gone || r->state == RUN_FILING)
		return;
	if (r->leased && !r->freed) {
		r->state = RUN_FREEING;
		tell_unlease(r);
		return;
	}
	file_it(r);
}

static void ended(struct run *r, const struct task_end *end)
{
	if (r->gone)
		return;
	if (!end->record_errno)
		disconnect(r);
	r->end = *end;
	r->gone = true;
	settle(r);
}

static void ended_unknown(struct run *r, const char *why)
{
	struct task_end end = { .outcome = TASK_UNKNOWN, .ended_wall_ns = clock_wall_ns() };

	(void)str_copy(end.text, sizeof(end.text), why);
	ended(r, &end);
}

/* The shim's connection broke without its last word: was it killed, and what is left of the task?
 */
struct lost_job {
	struct spool_job job;
	struct run *r;
	struct adopted found;
	struct err e;
	int code, log_fd;
	char log_path[SPOOL_PATH_MAX];
};

static void lost_work(struct spool_job *job, struct spool_place *p)
{
	struct lost_job *l = (struct lost_job *)job;
	const struct shim_id id = { .proc = l->r->shim };

	/* What an adopted one says at its end is in there. */
	if (l->r->log_fd < 0)
		l->log_fd = openat(p->spool->fd,
				   runjob_log_path(&l->r->claim.name, l->r->spec->name,
						   l->r->claim.attempt, l->log_path),
				   O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	l->code = remains_find(l->r->token, &id, l->r->place->run_dir, (uint32_t)l->r->spec->grace,
			       &l->found, &l->e);
}

static void listen_to(struct run *r, int fd);
static void tell_stop(struct run *r, uint32_t grace_ms);

static void lost_done(struct spool_job *job)
{
	struct lost_job *l = (struct lost_job *)job;
	struct run *r = l->r;

	if (l->log_fd >= 0) {
		r->log_fd = l->log_fd;
		(void)str_copy(r->log_path, sizeof(r->log_path), l->log_path);
	}
	if (l->code == 0 && l->found.found == ADOPT_LIVES) {
		r->shim.pid = l->found.pid;
		r->state = RUN_RUNNING;
		listen_to(r, l->found.fd);
		(void)talk_ask(l->found.fd); /* since when */
		if (r->kind != END_MAX)	     /* it could not be told before */
			tell_stop(r, UINT32_MAX);
	} else if (l->code == 0 && l->found.found == ADOPT_ENDED) {
		ended(r, &l->found.record.end);
	} else {
		ended_unknown(r, "its shim was killed; what was left of it has been ended");
	}
	free(l);
}

static void look_for_shim(struct run *r)
{
	struct lost_job *l = xcalloc(1, sizeof(*l));

	disconnect(r);
	l->job = (struct spool_job){ .work = lost_work, .done = lost_done };
	l->r = r;
	l->log_fd = -1;
	spooler_do(r->place->spooler, &l->job);
}

/* ---- the shim speaks ---- */

struct note_job {
	struct spool_job job;
	struct run *r;
	struct claim claim;
	struct err e;
};

static void note_work(struct spool_job *job, struct spool_place *p)
{
	struct note_job *n = (struct note_job *)job;

	(void)claim_started(p->spool, &n->claim, &n->r->shim, &n->e);
}

static void go(struct run *r);

static void tell_grant(struct run *r)
{
	const struct lease_id id = run_lease_id(r);

	(void)guardlink_grant(r->place->link, &id, &r->shim);
}

static void note_done(struct spool_job *job)
{
	struct note_job *n = (struct note_job *)job;
	struct run *r = n->r;

	r->claim = n->claim;
	if (!r->gone && r->state == RUN_STARTING) {
		r->state = RUN_GRANTING;
		if (r->leased)
			tell_grant(r);
		else
			go(r);
	}
	free(n);
}

/* From now on the claim lives as long as its shim. */
static void note_shim(struct run *r, const union shmsg *m)
{
	struct note_job *n = xcalloc(1, sizeof(*n));

	r->shim = (struct proc_id){ .pid = m->status.shim_pid, .start = m->status.shim_start };
	n->job = (struct spool_job){ .work = note_work, .done = note_done };
	n->r = r;
	n->claim = r->claim;
	spooler_do(r->place->spooler, &n->job);
}

static void on_prepared(struct run *r, const union shmsg *m)
{
	if (r->state == RUN_STARTING && !r->shim.pid)
		note_shim(r, m);
}

/* A task that waited for nothing was started without PREPARED. */
static void on_started(struct run *r, const union shmsg *m)
{
	if (!r->shim.pid)
		note_shim(r, m);
	if (r->state != RUN_RUNNING || !r->started_ns) {
		r->state = RUN_RUNNING;
		r->started_ns = clock_mono_ns() - m->status.run_ns;
		r->place->started(r->place->user, r);
	}
}

static void take_message(struct run *r, int type, const union shmsg *m)
{
	if (type == SHMSG_PREPARED)
		on_prepared(r, m);
	else if (type == SHMSG_STATUS && m->status.state == SHIM_PREPARED)
		(void)talk_cancel(r->ear->fd); /* of an agent before us, and its lease is gone */
	else if (type == SHMSG_STARTED || type == SHMSG_STATUS)
		on_started(r, m);
	else if (type == SHMSG_ENDED)
		ended(r, &m->ended.end);
}

static void on_shim(uv_poll_t *poll, int status, int events)
{
	struct ear *ear = poll->data;
	cleanup_free union shmsg *m = xmalloc(sizeof(*m));

	while (ear->run) {
		int type = talk_recv(ear->fd, m);

		if (type == -EAGAIN)
			break;
		if (type <= 0) {
			look_for_shim(ear->run);
			break;
		}
		take_message(ear->run, type, m);
	}
}

static void listen_to(struct run *r, int fd)
{
	struct ear *ear = xcalloc(1, sizeof(*ear));

	ear->fd = fd;
	ear->run = r;
	ear->poll.data = ear;
	(void)uv_poll_init(r->place->loop, &ear->poll, fd);
	(void)uv_poll_start(&ear->poll, UV_READABLE, on_shim);
	r->ear = ear;
}

/* ---- the start ---- */

static void go(struct run *r)
{
	if (r->ear && talk_go(r->ear->fd, r->devices_text, NULL, 0) < 0)
		look_for_shim(r);
}

/* CUDA_VISIBLE_DEVICES, and the same in words. */
static void name_devices(struct run *r, struct strbuf *visible, bool *by_index)
{
	struct strbuf text = STRBUF_INIT;

	*by_index = true;
	devset_each(slot, r->devices) *by_index =
		*by_index && r->place->view->devices[slot].mig < 0;
	devset_each(slot, r->devices)
	{
		const struct dev_status *d = &r->place->view->devices[slot];

		if (*by_index)
			strbuf_addf(visible, "%s%u", visible->len ? "," : "", d->index);
		else
			strbuf_addf(visible, "%s%s", visible->len ? "," : "", d->uuid);
		strbuf_addf(&text, "%s%u", text.len ? ", " : "GPU ", d->index);
	}
	(void)str_copy(r->devices_text, sizeof(r->devices_text), strbuf_str(&text));
	strbuf_clear(&text);
}

static void launch(struct run *r);

static void on_launch_again(uv_timer_t *timer)
{
	launch(timer->data);
}

static void refused(struct run *r, const char *why)
{
	struct task_end end = { .outcome = TASK_NOT_STARTED,
				.exit_code = 126,
				.ended_wall_ns = clock_wall_ns() };

	(void)str_copy(end.text, sizeof(end.text), why);
	ended(r, &end);
}

static int ask_for_shim(struct run *r, struct err *e)
{
	cleanup_strbuf struct strbuf visible = STRBUF_INIT;
	struct runjob_with with = { .instance = r->place->instance,
				    .node = r->place->node,
				    .run_dir = r->place->run_dir,
				    .id = r->ref.id,
				    .element = r->ref.element,
				    .attempt = r->claim.attempt,
				    .memory = r->spec->memory,
				    .log_limit = r->place->log_limit,
				    .go = !r->leased };
	struct runjob *j;
	int code;

	name_devices(r, &visible, &with.by_index);
	with.visible = strbuf_str(&visible);
	code = runjob_make(r->spec, r->token, &with, &j, e);
	if (code < 0)
		return code;
	code = launch_shim(&r->place->mother, runjob_get(j), r->log_fd, e);
	runjob_free(j);
	return code;
}

/* Not the task's fault: again soon, with what it has already. */
static void launch_later(struct run *r, const struct err *e)
{
	if (!r->retry_ms)
		news_say(r->place->news, LOG_LEVEL_ERROR, "task %llu cannot start yet: %s",
			 (unsigned long long)r->ref.id, e->text);
	r->retry_ms = r->retry_ms ? r->retry_ms * 2 : RETRY_FIRST_MS;
	r->retry_ms = r->retry_ms < RETRY_LAST_MS ? r->retry_ms : RETRY_LAST_MS;
	(void)uv_timer_start(&r->timer, on_launch_again, r->retry_ms, 0);
}

static void launch(struct run *r)
{
	struct err e = ERR_INIT;
	int fd;

	r->state = RUN_STARTING;
	if (r->place->mother.fd < 0 &&
	    launch_mother(&r->place->mother, r->place->program_fd, &e) < 0) {
		launch_later(r, &e);
		return;
	}
	fd = ask_for_shim(r, &e);
	if (fd == -EPIPE)
		launch_mother_close(&r->place->mother);
	if (fd == -EPIPE || fd == -EAGAIN) {
		(void)uv_timer_start(&r->timer, on_launch_again, LAUNCH_RETRY_MS, 0);
	} else if (fd == -EINVAL || fd == -E2BIG) {
		refused(r, e.text);
	} else if (fd < 0) {
		launch_later(r, &e);
	} else {
		r->retry_ms = 0;
		listen_to(r, fd);
	}
}

/* Who shares asks for memory alone, before and beside others; nobody else has to be gone for it,
 * and it has not to go for them. */
static uint32_t lease_flags(const struct spool_spec *s)
{
	bool others = s->shared || s->rules != SPEC_RULES_TENURE;

	return (s->shared ? LEASE_SHARED : 0) | (others ? LEASE_OTHERS_OK : 0) |
	       (s->preemptible && !others ? LEASE_GIVES_WAY : 0);
}

/* What cannot be said now, because the line is down, is said by run_on_guard(). */
static void tell_lease(struct run *r, const struct proc_id *shim)
{
	struct msg_lease m = { .id = run_lease_id(r), .bytes = r->spec->memory };

	m.flags = lease_flags(r->spec);
	if (shim) {
		m.pid = shim->pid;
		m.start = shim->start;
	}
	devset_each(slot, r->devices)
	{
		(void)str_copy(m.uuid, sizeof(m.uuid), r->place->view->devices[slot].uuid);
		(void)guardlink_lease(r->place->link, &m);
	}
}

static void ask_for_devices(struct run *r)
{
	if (!devset_count(r->devices)) {
		launch(r);
		return;
	}
	r->state = RUN_LEASING;
	r->leased = true;
	r->promised = (struct devset){ 0 };
	tell_lease(r, NULL);
}

/* ---- the guard speaks ---- */

/* The device is not to be had after all: the task waits again, and this was no try. */
static void taken(struct run *r, const char *why)
{
	if (r->kind == END_MAX) {
		r->kind = END_TAKEN;
		(void)str_copy(r->why, sizeof(r->why), why);
	}
	if (r->ear)
		(void)talk_cancel(r->ear->fd); /* its ENDED comes */
	else
		refused(r, why);
}

void run_on_promise(struct run *r, const struct msg_lease_reply *m)
{
	if (r->state != RUN_LEASING)
		return;
	if (m->code < 0) {
		taken(r, m->text);
		return;
	}
	devset_each(slot, r->devices) if (m->slot == (int32_t)slot) devset_add(&r->promised, slot);
	if (devset_count(r->promised) == devset_count(r->devices))
		launch(r);
}

void run_on_granted(struct run *r, const struct msg_lease_reply *m)
{
	if (r->state != RUN_GRANTING)
		return;
	if (m->code < 0)
		taken(r, m->text);
	else
		go(r);
}

/* Who comes before the task wins, and beside one that gives way; it is ended where it was started
 * already, and comes again. */
void run_on_taken(struct run *r, const struct msg_lease_taken *m)
{
	char why[RECORD_REASON_MAX];

	if (r->gone)
		return;
	if (r->state != RUN_RUNNING || !r->spec->preemptible) {
		run_stop(r, END_TAKEN, UINT32_MAX, m->text);
		return;
	}
	(void)str_print(why, sizeof(why), "gave way, GPU %u was %s",
			r->place->view->devices[m->slot].index, m->text);
	run_stop(r, END_PREEMPTED, UINT32_MAX, why);
}

void run_on_unleased(struct run *r, const struct msg_unleased *m)
{
	if (m->slot < 0)
		r->promised = (struct devset){ 0 };
	else
		devset_del(&r->promised, (unsigned int)m->slot);
	if (devset_count(r->promised))
		return;
	r->freed = true;
	settle(r);
}

void run_on_use(struct run *r, const struct msg_lease_use *m)
{
	uint64_t peak_bytes;
	uint32_t util_permille;

	taskuse_add(&r->use, m);
	taskuse_sum(&r->use, &peak_bytes, &util_permille);
	if (r->ear && r->state == RUN_RUNNING)
		(void)talk_gpu(r->ear->fd, peak_bytes, util_permille);
}

void run_on_guard(struct run *r)
{
	if (!r->leased || r->freed)
		return;
	if (r->state == RUN_LEASING) {
		r->promised = (struct devset){ 0 };
		tell_lease(r, NULL);
	} else if (r->state == RUN_GRANTING) {
		tell_lease(r, NULL);
		tell_grant(r);
	} else if (r->state == RUN_RUNNING) {
		tell_lease(r, &r->shim);
	} else if (r->state == RUN_FREEING) {
		tell_unlease(r);
	}
}

/* ---- the claim ---- */

struct claim_job {
	struct spool_job job;
	struct run *r;
	struct taking t;
};

static void claim_work(struct spool_job *job, struct spool_place *p)
{
	taking_work(&((struct claim_job *)job)->t, p);
}

static void claim_done(struct spool_job *job)
{
	struct run *r = ((struct claim_job *)job)->r;
	struct taking *t = &((struct claim_job *)job)->t;

	r->claim_code = t->code;
	if (t->code == 0) {
		r->claim = t->claim;
		r->spec = take_ptr(t->spec);
		r->tries = t->tries;
		r->log_fd = t->log_fd;
		(void)str_copy(r->log_path, sizeof(r->log_path), t->log_path);
		(void)runjob_token(r->place->key, &r->claim.name, r->token);
		if (r->kind != END_MAX)
			refused(r, r->why); /* stopped meanwhile */
		else
			ask_for_devices(r);
	} else if (t->code > 0) {
		r->verdict.what = RETRY_CANCELLED;
		(void)str_copy(r->verdict.text, sizeof(r->verdict.text), t->e.text);
		finish(r);
	} else {
		put_off(r, RETRY_FIRST_MS * 10, t->e.text);
	}
	free(job);
}

struct run *run_start(struct run_place *place, struct sched_ref ref, struct devset devices)
{
	struct run *r = run_new(place);
	struct claim_job *c = xcalloc(1, sizeof(*c));

	r->ref = ref;
	r->devices = devices;
	c->job = (struct spool_job){ .work = claim_work, .done = claim_done };
	c->r = r;
	c->t.ref = ref;
	spooler_do(place->spooler, &c->job);
	return r;
}

struct run *run_adopt(struct run_place *place, const struct claim *claim, struct spool_spec *spec,
		      unsigned int tries, struct devset devices)
{
	struct run *r = run_new(place);

	r->ref = (struct sched_ref){ claim->name.id, (uint32_t)claim->name.element };
	r->claim = *claim;
	r->spec = spec;
	r->tries = tries;
	r->devices = devices;
	r->promised = devices;
	r->leased = devset_count(devices) > 0;
	r->adopted = true;
	r->state = RUN_RUNNING;
	(void)runjob_token(place->key, &claim->name, r->token);
	look_for_shim(r);
	return r;
}

/* ---- from outside ---- */

static void tell_stop(struct run *r, uint32_t grace_ms)
{
	if (r->state != RUN_RUNNING)
		(void)talk_cancel(r->ear->fd);
	else if (r->kind == END_STOPPED)
		(void)talk_stop(r->ear->fd, 0, STOP_TREE, grace_ms);
	else
		(void)talk_requeue(r->ear->fd, grace_ms);
}

void run_stop(struct run *r, enum end_kind kind, uint32_t grace_ms, const char *why)
{
	/* What its owner says is the last word: a task that is about to wait again does not. */
	if (r->kind == END_MAX || kind == END_STOPPED) {
		r->kind = kind;
		(void)str_copy(r->why, sizeof(r->why), why);
	}
	if (r->gone || r->state == RUN_CLAIMING)
		return;
	if (r->state == RUN_LEASING || (uv_is_active((uv_handle_t *)&r->timer))) {
		(void)uv_timer_stop(&r->timer);
		refused(r, why);
	} else if (r->ear) {
		tell_stop(r, grace_ms);
	}
}

struct sched_ref run_ref(const struct run *r)
{
	return r->ref;
}

struct devset run_devices(const struct run *r)
{
	return r->devices;
}

enum run_state run_state(const struct run *r)
{
	return r->state;
}

int run_claim_code(const struct run *r)
{
	return r->claim_code;
}

const struct spool_spec *run_spec(const struct run *r)
{
	return r->spec;
}

uint64_t run_started_ns(const struct run *r)
{
	return r->started_ns;
}

uint64_t run_next_memory(const struct run *r)
{
	return r->next_memory;
}

unsigned int run_tries(const struct run *r)
{
	return r->tries;
}

/* Of this claim, and so of no other attempt of the task. */
struct lease_id run_lease_id(const struct run *r)
{
	return (struct lease_id){ r->ref.id, r->ref.element, (uint32_t)r->claim.name.epoch + 1 };
}

json_t *run_report(const struct run *r)
{
	json_t *devices = json_array();

	devset_each(slot, r->devices)(void) json_array_append_new(
		devices, json_integer((json_int_t)r->place->view->devices[slot].index));
	json_t *o =
		json_pack("{sI sI ss ss* si si sI so ss}", "id", (json_int_t)r->ref.id, "element",
			  (json_int_t)r->ref.element, "state", run_state_name(r->state), "name",
			  r->spec ? r->spec->name : NULL, "attempt", (int)r->claim.attempt, "pid",
			  (int)r->shim.pid, "started_ns", (json_int_t)r->started_ns, "gpus",
			  devices, "log", r->log_path);
	double for_s = (double)(clock_mono_ns() - r->started_ns) / (double)NS_PER_S;

	/* When an adopted one began is known once its shim has answered. */
	(void)json_object_set_new(o, "for_s", r->started_ns ? json_real(for_s) : json_null());
	return o;
}
