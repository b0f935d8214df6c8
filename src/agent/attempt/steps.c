/* SPDX-License-Identifier: MIT */

/*
 * An attempt is moved on by three sources: jobs on the spool (claim, note the shim, commit the
 * end), the guard's words on its lease, and its shim's messages. Each of them raises an event; what
 * is not in the table for the state of then means nothing, so that a word that comes late does
 * nothing. Who raises an event chooses it by what is known; an action does not look at the state.
 *
 * The claim names the agent until the shim is noted in it, so that a crash between the two leaves a
 * claim whose token leads to the shim, if there is one (names_token()). GO comes only after the
 * word of the guard that is there now: what one before it had promised may be somebody else's.
 *
 * The end: the shim's word gives `end`, the guard's gives `freed`. Both are needed before it is
 * committed, so that nobody is told that it is over while its devices are still in use (invariant
 * 7). What the guard knows of the lease may change in every state; that is why `leased`, `freed`
 * and `unleased` stand beside the states.
 */

#include "agent/attempt/steps.h"

#include "agent/attempt/lease.h"
#include "agent/attempt/orphans.h"
#include "agent/attempt/shim.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/strbuf.h"

#define COMMIT_LAST_MS 60000 /* between two tries to record an end, at most */

/* ---- to the start ---- */

static void act_none(struct attempt *a, const void *with)
{
}

static void act_ask_lease(struct attempt *a, const void *with)
{
	attempt_lease_ask(a);
}

static void act_ask_again(struct attempt *a, const void *with)
{
	attempt_lease_ask_again(a);
}

static void act_launch(struct attempt *a, const void *with)
{
	attempt_shim_launch(a);
}

/* The slots of its devices may be others by now, which may end it. */
static void act_launch_promised(struct attempt *a, const void *with)
{
	attempt_lease_settle(a);
	if (a->end_kind == END_MAX)
		attempt_shim_launch(a);
}

/* Not to be had after all: a task waits again, and this was no try. */
static void act_refused(struct attempt *a, const void *with)
{
	const struct msg_lease_reply *m = with;

	attempt_stop(a, END_TAKEN, UINT32_MAX, m->text);
}

static void act_turned_away(struct attempt *a, const void *with)
{
	a->turned_away = true;
	act_refused(a, with);
}

static void act_listen(struct attempt *a, const void *with)
{
	attempt_shim_listen(a, *(const int *)with);
}

static void take_shim(struct attempt *a, const struct shmsg_status *m)
{
	a->shim = (struct proc_id){ .pid = m->shim_pid, .start = m->shim_start };
}

static void act_note(struct attempt *a, const void *with)
{
	a->ops->note(a, true);
}

static void act_note_shim(struct attempt *a, const void *with)
{
	take_shim(a, with);
	if (a->ops->note)
		a->ops->note(a, true);
	else
		attempt_event(a, ON_NOTED, NULL);
}

static void act_note_later(struct attempt *a, const void *with)
{
	a->ops->note_later(a, with);
}

static void act_grant(struct attempt *a, const void *with)
{
	if (a->leased)
		attempt_lease_grant(a);
	else
		attempt_shim_go(a);
}

static void act_grant_promised(struct attempt *a, const void *with)
{
	attempt_lease_settle(a);
	if (a->end_kind == END_MAX)
		attempt_lease_grant(a);
}

static void act_go(struct attempt *a, const void *with)
{
	attempt_shim_go(a);
}

/* ---- while it runs ---- */

/* A task that waited for nothing was started without PREPARED. */
static void act_started(struct attempt *a, const void *with)
{
	const struct shmsg_status *m = with;

	if (!a->shim.pid) {
		take_shim(a, m);
		if (a->ops->note)
			a->ops->note(a, false);
	}
	a->shown = AT_RUNNING; /* also where it is stopping */
	if (a->started_ns)
		return;
	a->started_ns = clock_mono_ns() - m->run_ns;
	a->ops->started(a, m->task_pid);
}

/* One that we have found, and whose agent went before GO. */
static void act_never_began(struct attempt *a, const void *with)
{
	attempt_stop(a, END_NODE_LOST, UINT32_MAX, "its agent ended before it could begin");
}

static void act_told(struct attempt *a, const void *with)
{
	attempt_lease_told(a, with);
}

static void act_tell_lease(struct attempt *a, const void *with)
{
	attempt_lease_tell(a);
}

static void act_stop(struct attempt *a, const void *with)
{
	attempt_shim_stop(a);
}

static void act_look(struct attempt *a, const void *with)
{
	attempt_shim_look(a);
}

static void act_denied(struct attempt *a, const void *with)
{
	const char *why = with;

	(void)str_copy(a->denied, sizeof(a->denied), *why ? why : "its shim was refused");
	attempt_shim_look(a);
}

static void act_adopt(struct attempt *a, const void *with)
{
	attempt_shim_adopt(a, with);
}

static void act_end_orphans(struct attempt *a, const void *with)
{
	attempt_shim_end_orphans(a);
}

static void act_hurry(struct attempt *a, const void *with)
{
	orphan_ender_hurry(a->orphans, a->stop_grace_ms);
}

/* ---- the end ---- */

static void on_swept(void *user)
{
	struct attempt *a = user;

	a->sweeping = NULL;
	attempt_event(a, ON_SWEPT, NULL);
}

/*
 * What else of its owner's is to end with it; true while that goes on. Who came before it, or made
 * it give way, has won, and is not ended for it; nor are those beside which it never ran.
 */
static bool sweeps(struct attempt *a)
{
	bool gave_way = a->end_kind == END_TAKEN || a->end_kind == END_PREEMPTED;
	cleanup_strbuf struct strbuf gpus = STRBUF_INIT;
	unsigned int what = sweep_of_clean((enum spec_clean)a->spec->clean);

	if (!a->ops->sweeps || gave_way || a->elsewhere || (!a->started_ns && !a->adopted))
		return false;
	if (a->end_kind == END_STOPPED)
		what |= a->sweep | a->place->sweeping->on_stop;
	for (size_t i = 0; i < a->uuids.n; i++)
		strbuf_addf(&gpus, "%s%s", i ? "," : "", a->uuids.texts[i]);
	a->sweeping = sweep_start(a->place->sweeping, what, strbuf_str(&gpus), on_swept, a);
	return a->sweeping;
}

/* The tree is gone, and all that was to end with it; are the devices free as well? */
static void act_settle(struct attempt *a, const void *with)
{
	attempt_event(a, a->leased && !a->freed ? ON_GIVE_BACK : ON_COMMIT, NULL);
}

static void act_end(struct attempt *a, const void *with)
{
	const struct task_end *end = with;

	if (!end->record_errno)
		attempt_shim_hang_up(a);
	a->end = *end;
	if (sweeps(a))
		attempt_event(a, ON_SWEEP, NULL);
	else
		act_settle(a, NULL);
}

/* It never ran. */
static void act_unstarted(struct attempt *a, const void *with)
{
	struct task_end end = { .outcome = TASK_NOT_STARTED,
				.exit_code = 126,
				.ended_wall_ns = clock_wall_ns() };

	(void)str_copy(end.text, sizeof(end.text), a->why);
	act_end(a, &end);
}

/* What it had to say is known, and its end is being recorded just now. */
static void act_hang_up(struct attempt *a, const void *with)
{
	attempt_shim_hang_up(a);
}

static void act_give_back(struct attempt *a, const void *with)
{
	attempt_lease_give_back(a);
}

static void act_commit(struct attempt *a, const void *with)
{
	a->ops->commit(a);
}

static void act_commit_later(struct attempt *a, const void *with)
{
	const struct err *e = with;

	(void)str_copy(a->uncommitted, sizeof(a->uncommitted), e->text);
	if (a->stopped_late) {
		a->end_kind = END_STOPPED;
		(void)str_copy(a->why, sizeof(a->why), ATTEMPT_STOPPED_TEXT);
	}
	(void)attempt_later(a, COMMIT_LAST_MS);
}

static void let_go(struct attempt *a)
{
	a->sweeping = sweep_forget(a->sweeping);
	a->orphans = orphan_ender_forget(a->orphans);
	attempt_shim_hang_up(a);
	a->log_fd = spooler_close_fd(a->place->spooler, a->log_fd);
	attempt_free(a);
}

static void act_finish(struct attempt *a, const void *with)
{
	a->ops->over(a);
	let_go(a);
}

const struct attempt_step attempt_steps[AT_STATE_MAX][ON_MAX] = {
	[AT_CLAIMING] = {
		[ON_CLAIMED] = { AT_LEASING, act_ask_lease },
		[ON_CLAIMED_BARE] = { AT_LAUNCHING, act_launch },
		[ON_UNCLAIMED] = { AT_OVER, act_finish },
		[ON_DOOMED] = { AT_ENDED, act_unstarted },
		[ON_STOP] = { AT_CLAIMING, act_none },
	},
	[AT_LEASING] = {
		[ON_PROMISED] = { AT_LEASING, act_none },
		[ON_ALL_PROMISED] = { AT_LAUNCHING, act_launch_promised },
		[ON_LEASE_REFUSED] = { AT_LEASING, act_turned_away },
		[ON_GUARD_NEW] = { AT_LEASING, act_ask_again },
		[ON_STOP] = { AT_ENDED, act_unstarted },
	},
	[AT_LAUNCHING] = {
		[ON_CONNECTED] = { AT_PREPARING, act_listen },
		[ON_TIMER] = { AT_LAUNCHING, act_launch },
		[ON_DOOMED] = { AT_ENDED, act_unstarted },
		[ON_STOP] = { AT_ENDED, act_unstarted },
	},
	[AT_PREPARING] = {
		[ON_PREPARED] = { AT_NOTING, act_note_shim },
		[ON_STARTED] = { AT_RUNNING, act_started },
		[ON_DENIED] = { AT_LOOKING, act_denied },
		[ON_HUNG_UP] = { AT_LOOKING, act_look },
		[ON_ENDED] = { AT_ENDED, act_end },
		[ON_STOP] = { AT_STOPPING, act_stop },
	},
	[AT_NOTING] = {
		[ON_NOTED] = { AT_GRANTING, act_grant },
		[ON_NOTE_FAILED] = { AT_NOTING, act_note_later },
		[ON_TIMER] = { AT_NOTING, act_note },
		[ON_STARTED] = { AT_RUNNING, act_started },
		[ON_DENIED] = { AT_LOOKING, act_denied },
		[ON_HUNG_UP] = { AT_LOOKING, act_look },
		[ON_ENDED] = { AT_ENDED, act_end },
		[ON_STOP] = { AT_STOPPING, act_stop },
	},
	[AT_GRANTING] = {
		[ON_PROMISED] = { AT_GRANTING, act_none },
		[ON_ALL_PROMISED] = { AT_GRANTING, act_grant_promised },
		[ON_LEASE_REFUSED] = { AT_GRANTING, act_refused },
		[ON_GRANT_REFUSED] = { AT_GRANTING, act_refused },
		[ON_GRANTED] = { AT_GRANTING, act_go },
		[ON_GUARD_NEW] = { AT_GRANTING, act_ask_again },
		[ON_STARTED] = { AT_RUNNING, act_started },
		[ON_DENIED] = { AT_LOOKING, act_denied },
		[ON_HUNG_UP] = { AT_LOOKING, act_look },
		[ON_ENDED] = { AT_ENDED, act_end },
		[ON_STOP] = { AT_STOPPING, act_stop },
	},
	[AT_RUNNING] = {
		[ON_STARTED] = { AT_RUNNING, act_started }, /* since when, of an adopted one */
		[ON_NEVER_BEGAN] = { AT_RUNNING, act_never_began },
		[ON_PROMISED] = { AT_RUNNING, act_told },
		[ON_ALL_PROMISED] = { AT_RUNNING, act_told },
		[ON_LEASE_REFUSED] = { AT_RUNNING, act_told },
		[ON_GUARD_NEW] = { AT_RUNNING, act_tell_lease },
		[ON_DENIED] = { AT_LOOKING, act_denied },
		[ON_HUNG_UP] = { AT_LOOKING, act_look },
		[ON_ENDED] = { AT_ENDED, act_end },
		[ON_STOP] = { AT_STOPPING, act_stop },
	},
	[AT_STOPPING] = {
		[ON_STARTED] = { AT_STOPPING, act_started },
		[ON_PROMISED] = { AT_STOPPING, act_told },
		[ON_ALL_PROMISED] = { AT_STOPPING, act_told },
		[ON_LEASE_REFUSED] = { AT_STOPPING, act_told },
		[ON_GUARD_NEW] = { AT_STOPPING, act_tell_lease },
		[ON_DENIED] = { AT_LOOKING, act_denied },
		[ON_HUNG_UP] = { AT_LOOKING, act_look },
		[ON_ENDED] = { AT_ENDED, act_end },
		[ON_TIMER] = { AT_STOPPING, act_stop }, /* its socket was full */
		[ON_STOP] = { AT_STOPPING, act_stop },	/* sooner */
	},
	[AT_LOOKING] = {
		[ON_FOUND] = { AT_RUNNING, act_adopt },
		[ON_FOUND_NOBODY] = { AT_ORPHANS, act_end_orphans },
		[ON_ENDED] = { AT_ENDED, act_end },
		[ON_TIMER] = { AT_LOOKING, act_look },
		[ON_PROMISED] = { AT_LOOKING, act_told },
		[ON_ALL_PROMISED] = { AT_LOOKING, act_told },
		[ON_LEASE_REFUSED] = { AT_LOOKING, act_told },
		[ON_GUARD_NEW] = { AT_LOOKING, act_tell_lease },
		[ON_STOP] = { AT_LOOKING, act_none }, /* it is told when it is found */
	},
	[AT_ORPHANS] = {
		[ON_ENDED] = { AT_ENDED, act_end },
		[ON_PROMISED] = { AT_ORPHANS, act_told },
		[ON_ALL_PROMISED] = { AT_ORPHANS, act_told },
		[ON_LEASE_REFUSED] = { AT_ORPHANS, act_told },
		[ON_GUARD_NEW] = { AT_ORPHANS, act_tell_lease },
		[ON_STOP] = { AT_ORPHANS, act_hurry },
	},
	[AT_ENDED] = {
		[ON_SWEEP] = { AT_SWEEPING, act_none },
		[ON_GIVE_BACK] = { AT_FREEING, act_give_back },
		[ON_COMMIT] = { AT_COMMITTING, act_commit },
	},
	[AT_SWEEPING] = {
		[ON_SWEPT] = { AT_ENDED, act_settle },
		[ON_PROMISED] = { AT_SWEEPING, act_told },
		[ON_ALL_PROMISED] = { AT_SWEEPING, act_told },
		[ON_LEASE_REFUSED] = { AT_SWEEPING, act_told },
		[ON_GUARD_NEW] = { AT_SWEEPING, act_tell_lease },
		[ON_HUNG_UP] = { AT_SWEEPING, act_hang_up },
	},
	[AT_FREEING] = {
		[ON_FREED] = { AT_COMMITTING, act_commit },
		[ON_GUARD_NEW] = { AT_FREEING, act_give_back },
		[ON_HUNG_UP] = { AT_FREEING, act_hang_up },
	},
	[AT_COMMITTING] = {
		[ON_COMMITTED] = { AT_OVER, act_finish },
		[ON_COMMIT_FAILED] = { AT_UNCOMMITTED, act_commit_later },
		[ON_HUNG_UP] = { AT_COMMITTING, act_hang_up },
	},
	[AT_UNCOMMITTED] = {
		[ON_TIMER] = { AT_COMMITTING, act_commit },
		[ON_HUNG_UP] = { AT_UNCOMMITTED, act_hang_up },
	},
};

void attempt_adopted(struct attempt *a)
{
	a->state = AT_LOOKING;
	a->shown = AT_RUNNING;
	attempt_shim_look(a);
}

struct attempt *attempt_forget(struct attempt *a)
{
	if (a)
		let_go(a);
	return NULL;
}
