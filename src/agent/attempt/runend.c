/* SPDX-License-Identifier: MIT */
#include "agent/attempt/runend.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/attempt/commit.h"
#include "agent/attempt/lease.h"
#include "agent/attempt/shim.h"
#include "agent/queue/planview.h"
#include "base/strbuf.h"
#include "task/sweep.h"

#define BEAT_SLACK_MS 1000 /* a shim begins before its task does */

struct file_job {
	struct spool_job job;
	struct attempt *r;
	struct commit f;
};

static void file_work(struct spool_job *job, struct spool_place *p)
{
	commit_work(&((struct file_job *)job)->f, p);
}

static void file_it(struct attempt *r);

static void on_file_again(uv_timer_t *timer)
{
	file_it(timer->data);
}

static void file_done(struct spool_job *job)
{
	struct attempt *r = ((struct file_job *)job)->r;
	struct commit *f = &((struct file_job *)job)->f;

	if (f->code < 0 && f->code != -ENOENT) {
		if (r->place->file_code != f->code) /* once, not for each */
			eventlog_say(r->place->eventlog, LOG_LEVEL_ERROR,
				     "the end of task %llu cannot be written: %s; trying again",
				     (unsigned long long)r->ref.id, f->e.text);
		r->place->file_code = f->code;
		(void)str_copy(r->unfiled, sizeof(r->unfiled), f->e.text);
		if (r->stopped_late) {
			r->kind = END_STOPPED;
			(void)str_copy(r->why, sizeof(r->why), ATTEMPT_STOPPED_TEXT);
		}
		r->retry_ms = r->retry_ms ? r->retry_ms * 2 : RETRY_FIRST_MS;
		r->retry_ms = r->retry_ms < RETRY_LAST_MS ? r->retry_ms : RETRY_LAST_MS;
		(void)uv_timer_start(&r->timer, on_file_again, r->retry_ms, 0);
	} else {
		r->place->file_code = 0;
		r->verdict = f->verdict;
		r->late = f->superseded;
		if (r->late)
			r->verdict.what = RETRY_CANCELLED;
		r->tries = f->state.tries;
		r->next_memory = f->next_memory;
		*r->place->streak(r->place->user, r) = f->streak;
		if (r->end.record_errno && r->conn)
			(void)talk_ack(r->conn->fd);
		attempt_finish(r);
	}
	free(job);
}

/* The guard's last word may have come after the shim's. */
static void take_use(struct attempt *r)
{
	uint64_t peak_bytes;
	uint32_t util_permille;

	use_sum(&r->use, &peak_bytes, &util_permille);
	if (peak_bytes < r->end.gpu_peak_bytes || !r->use.n)
		return;
	r->end.gpu_peak_bytes = peak_bytes;
	r->end.gpu_util_permille = util_permille;
}

/* On the monotonic clock, which does not count the time in which the node slept. */
static uint64_t claimed_at(const struct attempt *r)
{
	uint64_t ago_ns = clock_boot_ns() - r->claim_began_ns, now_ns = clock_mono_ns();

	return r->adopted || ago_ns > now_ns ? 0 : now_ns - ago_ns;
}

static void file_it(struct attempt *r)
{
	struct file_job *j = xcalloc(1, sizeof(*j));

	r->state = AT_COMMITTING;
	take_use(r);
	if (r->note && spooler_take_back(r->place->spooler, r->note))
		free(take_ptr(r->note)); /* who has it does not matter any more */
	j->job = (struct spool_job){ .work = file_work, .done = file_done };
	j->r = r;
	j->f = (struct commit){
		.claim = r->claim,
		.spec = r->spec,
		.end = &r->end,
		.gpus = (unsigned int)r->uuids.n,
		.room_bytes = planview_room(r->place->view, r->spec->model),
		.ended = commit_judge(&r->end, r->kind, r->why),
		.token = r->token,
		.run_dir = r->place->run_dir,
		.log_path = r->log_path,
		.log_away = r->adopted || r->log_away,
		.beats =
			r->adopted || r->end.run_ns / NS_PER_MS + BEAT_SLACK_MS > r->place->beat_ms,
		.state = { .tries = r->tries, .mem_bytes = r->spec->memory },
		.streak = *r->place->streak(r->place->user, r),
		.now_ns = clock_mono_ns(),
		.now_wall_ns = clock_wall_ns(),
		.told = r->retry_ms, /* it was tried before */
	};
	j->f.ended.begun_ns = claimed_at(r);
	spooler_do(r->place->spooler, &j->job);
	if (j->f.ended.kind == END_EXIT && j->f.ended.code == 0 && !r->retry_ms)
		r->place->succeeded(r->place->user, r);
}

static void on_swept(void *user)
{
	struct attempt *r = user;

	r->sweeping = NULL;
	attempt_settle(r);
}

unsigned int attempt_sweep_of(enum spec_clean clean)
{
	static const unsigned int bits[SPEC_CLEAN_MAX] = {
		[SPEC_CLEAN_GPU] = SWEEP_BIT(SWEEP_GPU),
		[SPEC_CLEAN_PYTHON] = SWEEP_BIT(SWEEP_PYTHON),
	};

	return clean < SPEC_CLEAN_MAX ? bits[clean] : 0;
}

void attempt_sweep(struct attempt *r, unsigned int what)
{
	r->sweep |= what;
}

/*
 * What else of its owner's is to end with it; true while that goes on. Who came before it, or made
 * it give way, has won, and is not ended for it; nor are those beside which it never ran.
 */
static bool sweeps(struct attempt *r)
{
	cleanup_strbuf struct strbuf gpus = STRBUF_INIT;
	unsigned int what = attempt_sweep_of((enum spec_clean)r->spec->clean);
	bool gave_way = r->kind == END_TAKEN || r->kind == END_PREEMPTED;

	if (r->swept || gave_way || r->elsewhere || (!r->started_ns && !r->adopted))
		return r->sweeping;
	r->swept = true;
	if (r->kind == END_STOPPED)
		what |= r->sweep | r->place->sweeping->on_stop;
	for (size_t i = 0; i < r->uuids.n; i++)
		strbuf_addf(&gpus, "%s%s", i ? "," : "", r->uuids.texts[i]);
	r->sweeping = sweep_start(r->place->sweeping, what, strbuf_str(&gpus), on_swept, r);
	return r->sweeping;
}

/* The tree is gone; are the devices free as well? */
void attempt_settle(struct attempt *r)
{
	if (!r->gone || r->state == AT_COMMITTING || sweeps(r))
		return;
	if (r->leased && !r->freed) {
		r->state = AT_FREEING;
		attempt_lease_give_back(r);
		return;
	}
	file_it(r);
}

void attempt_ended(struct attempt *r, const struct task_end *end)
{
	if (r->gone)
		return;
	(void)uv_timer_stop(&r->timer);
	if (!end->record_errno)
		attempt_shim_hang_up(r);
	r->end = *end;
	r->gone = true;
	attempt_settle(r);
}

void attempt_not_started(struct attempt *r, const char *why)
{
	struct task_end end = { .outcome = TASK_NOT_STARTED,
				.exit_code = 126,
				.ended_wall_ns = clock_wall_ns() };

	(void)str_copy(end.text, sizeof(end.text), why);
	attempt_ended(r, &end);
}
