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

/* The slots of its devices may be others by now, which may end it. */
static void act_launch_promised(struct attempt *a, const void *with)
{
	attempt_lease_settle(a);
	if (a->end_kind == END_MAX)
		attempt_shim_launch(a, NULL);
}

/* Not to be had after all: a task is requeued, and this was no try. */
static void act_refused(struct attempt *a, const void *with)
{
	const struct msg_lease_reply *m = with;

	attempt_stop_for(a, END_TAKEN, &m->reason);
}

static void act_turned_away(struct attempt *a, const void *with)
{
	a->turned_away = true;
	act_refused(a, with);
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

/* Nothing is missing: GO, but for a rank of a gang, which waits for those of other nodes. */
static void act_granted(struct attempt *a, const void *with)
{
	if (!a->go_env.n && a->ops->waits_for_ranks && a->ops->waits_for_ranks(a))
		attempt_event(a, ON_MUSTERED, NULL);
	else
		attempt_shim_go(a, NULL);
}

static void act_grant(struct attempt *a, const void *with)
{
	if (a->leased)
		attempt_lease_grant(a, NULL);
	else
		act_granted(a, NULL);
}

static void act_mustered(struct attempt *a, const void *with)
{
	if (a->place->owner->mustered)
		a->place->owner->mustered(a->place->user, a);
}

static void act_go(struct attempt *a, const void *with)
{
	const struct text_list *env = with;

	a->go_env = text_list_copy(env);
	attempt_shim_go(a, NULL);
}

static void act_grant_promised(struct attempt *a, const void *with)
{
	attempt_lease_settle(a);
	if (a->end_kind == END_MAX)
		attempt_lease_grant(a, NULL);
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

static void act_denied(struct attempt *a, const void *with)
{
	const char *why = with;

	(void)str_copy(a->denied, sizeof(a->denied), *why ? why : "its shim was refused");
	attempt_shim_look(a, NULL);
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
 * What else of its owner's is to end with it, once; true while that goes on. Who came before it, or
 * preempted it, has won, and is not ended for it; nor are those beside which it never ran.
 */
static bool sweeps(struct attempt *a)
{
	bool gave_way = a->end_kind == END_TAKEN || a->end_kind == END_PREEMPTED;
	cleanup_strbuf struct strbuf gpus = STRBUF_INIT;
	unsigned int what = sweep_of_clean((enum spec_clean)a->spec->clean);

	if (!a->ops->sweeps || a->swept || gave_way || a->elsewhere ||
	    (!a->started_ns && !a->adopted))
		return false;
	if (a->end_kind == END_STOPPED)
		what |= a->sweep | a->place->c->sweep;
	for (size_t i = 0; i < a->uuids.n; i++)
		strbuf_addf(&gpus, "%s%s", i ? "," : "", a->uuids.texts[i]);
	a->sweeping = sweep_start(a->place->sweeping, what, strbuf_str(&gpus), on_swept, a);
	a->swept = a->sweeping;
	return a->sweeping;
}

/* The tree is gone, and all that was to end with it; are the devices free as well? */
static void act_settle(struct attempt *a, const void *with)
{
	attempt_event(a, a->leased && !a->freed ? ON_GIVE_BACK : ON_COMMIT, NULL);
}

/* Also when the devices are free: its owner may have stopped meanwhile what had been preempted. */
static void act_look_around(struct attempt *a, const void *with)
{
	if (sweeps(a))
		attempt_event(a, ON_SWEEP, NULL);
	else
		act_settle(a, NULL);
}

static void act_end(struct attempt *a, const void *with)
{
	const struct task_end *end = with;

	if (!end->record_errno)
		attempt_shim_hang_up(a, NULL);
	a->end = *end;
	act_look_around(a, NULL);
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
	a->sweeping = subcommand_forget(a->sweeping);
	a->orphans = orphan_ender_forget(a->orphans);
	attempt_shim_hang_up(a, NULL);
	a->log_fd = spooler_close_fd(a->place->spooler, a->log_fd);
	attempt_free(a);
}

static void act_finish(struct attempt *a, const void *with)
{
	a->ops->over(a);
	let_go(a);
}

/* Its shim is there, whatever the guard knows: one that is new is told, and answers. */
#define NEW_GUARD_IS_TOLD(state)                                                                   \
	[ON_GUARD_NEW] = { state, attempt_lease_tell },                                            \
	[ON_PROMISED] = { state, attempt_lease_told },                                             \
	[ON_ALL_PROMISED] = { state, attempt_lease_told },                                         \
	[ON_LEASE_REFUSED] = { state, attempt_lease_told }

/* While its shim is connected, and has not told the end. */
#define CONNECTION_ENDS                                                                            \
	[ON_DENIED] = { AT_LOOKING, act_denied },                                                  \
	[ON_HUNG_UP] = { AT_LOOKING, attempt_shim_look }, [ON_ENDED] = { AT_ENDED, act_end }

/* After the end a closed connection is hung up on: what the shim had to say is known, and a look
 * would take the timer of the commit. */
const struct attempt_step attempt_steps[AT_STATE_MAX][ON_MAX] = {
	[AT_CLAIMING] = {
		[ON_CLAIMED] = { AT_LEASING, attempt_lease_ask },
		[ON_CLAIMED_BARE] = { AT_LAUNCHING, attempt_shim_launch },
		[ON_UNCLAIMED] = { AT_OVER, act_finish },
		[ON_DOOMED] = { AT_ENDED, act_unstarted },
		[ON_STOP] = { AT_CLAIMING, act_none },
	},
	[AT_LEASING] = {
		[ON_ALL_PROMISED] = { AT_LAUNCHING, act_launch_promised },
		[ON_LEASE_REFUSED] = { AT_LEASING, act_turned_away },
		[ON_GUARD_NEW] = { AT_LEASING, attempt_lease_ask_again },
		[ON_STOP] = { AT_ENDED, act_unstarted },
	},
	[AT_LAUNCHING] = {
		[ON_CONNECTED] = { AT_PREPARING, attempt_shim_listen },
		[ON_TIMER] = { AT_LAUNCHING, attempt_shim_launch },
		[ON_DOOMED] = { AT_ENDED, act_unstarted },
		[ON_STOP] = { AT_ENDED, act_unstarted },
	},
	[AT_PREPARING] = {
		[ON_PREPARED] = { AT_NOTING, act_note_shim },
		[ON_STARTED] = { AT_RUNNING, act_started },
		CONNECTION_ENDS,
		[ON_STOP] = { AT_STOPPING, attempt_shim_stop },
	},
	[AT_NOTING] = {
		[ON_NOTED] = { AT_GRANTING, act_grant },
		[ON_NOTE_FAILED] = { AT_NOTING, act_note_later },
		[ON_TIMER] = { AT_NOTING, act_note },
		[ON_STARTED] = { AT_RUNNING, act_started },
		CONNECTION_ENDS,
		[ON_STOP] = { AT_STOPPING, attempt_shim_stop },
	},
	[AT_GRANTING] = {
		[ON_ALL_PROMISED] = { AT_GRANTING, act_grant_promised },
		[ON_LEASE_REFUSED] = { AT_GRANTING, act_refused },
		[ON_GRANT_REFUSED] = { AT_GRANTING, act_refused },
		[ON_GRANTED] = { AT_GRANTING, act_granted },
		[ON_MUSTERED] = { AT_MUSTERED, act_mustered },
		[ON_GUARD_NEW] = { AT_GRANTING, attempt_lease_ask_again },
		[ON_STARTED] = { AT_RUNNING, act_started },
		CONNECTION_ENDS,
		[ON_STOP] = { AT_STOPPING, attempt_shim_stop },
	},
	[AT_MUSTERED] = {
		[ON_GO] = { AT_GRANTING, act_go },
		[ON_GUARD_NEW] = { AT_GRANTING, attempt_lease_ask_again },
		CONNECTION_ENDS,
		[ON_STOP] = { AT_STOPPING, attempt_shim_stop },
	},
	[AT_RUNNING] = {
		[ON_STARTED] = { AT_RUNNING, act_started }, /* since when, of an adopted one */
		[ON_NEVER_BEGAN] = { AT_RUNNING, act_never_began },
		NEW_GUARD_IS_TOLD(AT_RUNNING),
		CONNECTION_ENDS,
		[ON_STOP] = { AT_STOPPING, attempt_shim_stop },
	},
	[AT_STOPPING] = {
		[ON_STARTED] = { AT_STOPPING, act_started },
		NEW_GUARD_IS_TOLD(AT_STOPPING),
		CONNECTION_ENDS,
		[ON_TIMER] = { AT_STOPPING, attempt_shim_stop }, /* its socket was full */
		[ON_STOP] = { AT_STOPPING, attempt_shim_stop },	/* sooner */
	},
	[AT_LOOKING] = {
		[ON_FOUND] = { AT_RUNNING, attempt_shim_adopt },
		[ON_FOUND_NOBODY] = { AT_ORPHANS, attempt_shim_end_orphans },
		[ON_ENDED] = { AT_ENDED, act_end },
		[ON_TIMER] = { AT_LOOKING, attempt_shim_look },
		NEW_GUARD_IS_TOLD(AT_LOOKING),
		[ON_STOP] = { AT_LOOKING, act_none }, /* it is told when it is found */
	},
	[AT_ORPHANS] = {
		[ON_ENDED] = { AT_ENDED, act_end },
		NEW_GUARD_IS_TOLD(AT_ORPHANS),
		[ON_STOP] = { AT_ORPHANS, act_hurry },
	},
	[AT_ENDED] = {
		[ON_SWEEP] = { AT_SWEEPING, act_none },
		[ON_GIVE_BACK] = { AT_FREEING, attempt_lease_give_back },
		[ON_COMMIT] = { AT_COMMITTING, act_commit },
	},
	[AT_SWEEPING] = {
		[ON_SWEPT] = { AT_ENDED, act_settle },
		NEW_GUARD_IS_TOLD(AT_SWEEPING),
		[ON_HUNG_UP] = { AT_SWEEPING, attempt_shim_hang_up },
	},
	[AT_FREEING] = {
		[ON_FREED] = { AT_ENDED, act_look_around },
		[ON_GUARD_NEW] = { AT_FREEING, attempt_lease_give_back },
		[ON_HUNG_UP] = { AT_FREEING, attempt_shim_hang_up },
	},
	[AT_COMMITTING] = {
		[ON_COMMITTED] = { AT_OVER, act_finish },
		[ON_COMMIT_FAILED] = { AT_UNCOMMITTED, act_commit_later },
		[ON_HUNG_UP] = { AT_COMMITTING, attempt_shim_hang_up },
	},
	[AT_UNCOMMITTED] = {
		[ON_TIMER] = { AT_COMMITTING, act_commit },
		[ON_HUNG_UP] = { AT_UNCOMMITTED, attempt_shim_hang_up },
	},
};

void attempt_adopted(struct attempt *a)
{
	a->state = AT_LOOKING;
	a->shown = AT_RUNNING;
	attempt_shim_look(a, NULL);
}

struct attempt *attempt_forget(struct attempt *a)
{
	if (a)
		let_go(a);
	return NULL;
}
