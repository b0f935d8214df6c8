/* SPDX-License-Identifier: MIT */

/*
 * Before the agent serves anything that fails ends it, because somebody waits for the answer; after
 * that nothing does, what fails is told and tried again.
 *
 * The end: the workload, if there is one, has ended -> DROPPED or one second -> two seconds for the
 * last lines, some more for the last word of a burn -> the loop ends. Who asked for it with `tenure
 * off` is answered between the last two, and may start the next agent then: the guard has heard the
 * last of us before that.
 *
 * One timer has what is due in a phase; entering one starts or stops it, so that nothing of an
 * earlier phase comes late.
 */

#include "agent/lifecycle.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "agent/burns.h"
#include "agent/ctl.h"
#include "agent/dispatch.h"
#include "agent/dispatch_state.h"
#include "agent/meter.h"
#include "agent/node/guardlink.h"
#include "agent/parts.h"
#include "agent/report/agentlog.h"
#include "agent/report/eventlog.h"
#include "agent/startup.h"
#include "agent/watch.h"
#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/signame.h"
#include "base/str.h"
#include "base/units.h"

#define SEE_LIMIT_MS	20000 /* a guard that starts may have to wake the driver up */
#define REFUSED_WAIT_MS 30000 /* a policy that was refused later is sent again */
#define STOP_LIMIT_MS	1000  /* DROPPED is due; then we end without it, */
#define SLOW_LIMIT_MS	5000  /* or so much later where guard or holders only get no processor */
#define SLOW_STEP_MS	100   /* from one look whether they want one to the next */
#define SLOW_LOOKS	3     /* in so many in a row none of them does: they do not let go */
#define FLUSH_STEP_MS	5
#define FLUSH_LIMIT_MS	2000 /* the last lines get so long */
#define BURN_LIMIT_MS	8000 /* a burn that was told to end, to say what it has found */
#define OFF_CLIENTS_MAX CTL_CLIENTS_MAX

/* The engine kills soon after SIGTERM (Slurm's KillWait is 30 s): a task gets less than that. */
#define TERM_GRACE_MS 20000U

enum signal_slot { SLOT_INT, SLOT_TERM, SLOT_HUP, SLOT_TSTP, SLOT_USR1, SLOT_USR2, SLOT_MAX };

/* Ctrl-Z. */
enum pause {
	PAUSE_NO,
	PAUSE_ASKED, /* the guard is to let go of everything */
	PAUSE_FREE,  /* it has, or had nothing */
};

struct lifecycle {
	struct agent *a;
	uv_signal_t signals[SLOT_MAX];
	uv_timer_t timer;    /* what is due in this phase */
	uint64_t late_ns;    /* from then on it is late */
	bool unread;	     /* what has come until then has not been looked at yet */
	unsigned int n_idle; /* looks in a row since then in which nobody wanted a processor */
	uv_timer_t deadline_timer;
	uv_timer_t pause_timer;
	unsigned int handles;
	enum pause pause;
	uint64_t pause_ns;
	uint64_t stop_ns; /* its shutdown began; 0: not yet */
	uint64_t flush_ns;
	enum agent_end end; /* where all goes well */
	struct ctl_client *clients[OFF_CLIENTS_MAX];
	size_t n_clients;
};

/* -------- the table -------- */

static const struct life_step steps[LIFE_PHASE_MAX][LIFE_EVENT_MAX] = {
	[LIFE_STARTING] = {
		[LIFE_READY] = { LIFE_SERVING, LIFE_BECOME_READY },
		[LIFE_REFUSED] = { LIFE_FLUSHING, LIFE_GIVE_UP },
		[LIFE_FATAL] = { LIFE_FLUSHING, LIFE_GIVE_UP },
		[LIFE_DRAIN] = { LIFE_STARTING_DRAIN, LIFE_BEGIN_DRAIN },
		[LIFE_SHUTDOWN] = { LIFE_CLEARING, LIFE_SHUT_DOWN },
		[LIFE_LATE] = { LIFE_FLUSHING, LIFE_GIVE_UP },
	},
	[LIFE_STARTING_DRAIN] = {
		[LIFE_READY] = { LIFE_DRAINING, LIFE_BECOME_READY },
		[LIFE_REFUSED] = { LIFE_FLUSHING, LIFE_GIVE_UP },
		[LIFE_FATAL] = { LIFE_FLUSHING, LIFE_GIVE_UP },
		[LIFE_DRAIN] = { LIFE_STARTING_DRAIN, LIFE_BEGIN_DRAIN },
		[LIFE_NOTHING_RUNS] = { LIFE_CLEARING, LIFE_SHUT_DOWN },
		[LIFE_SHUTDOWN] = { LIFE_CLEARING, LIFE_SHUT_DOWN },
		[LIFE_LATE] = { LIFE_FLUSHING, LIFE_GIVE_UP },
	},
	[LIFE_SERVING] = {
		[LIFE_REFUSED] = { LIFE_SERVING, LIFE_RESEND_LATER },
		[LIFE_FATAL] = { LIFE_SERVING, LIFE_TELL },
		[LIFE_DRAIN] = { LIFE_DRAINING, LIFE_BEGIN_DRAIN },
		[LIFE_SHUTDOWN] = { LIFE_CLEARING, LIFE_SHUT_DOWN },
		[LIFE_LATE] = { LIFE_SERVING, LIFE_RESEND },
	},
	[LIFE_DRAINING] = {
		[LIFE_REFUSED] = { LIFE_DRAINING, LIFE_RESEND_LATER },
		[LIFE_FATAL] = { LIFE_DRAINING, LIFE_TELL },
		[LIFE_DRAIN] = { LIFE_DRAINING, LIFE_BEGIN_DRAIN },
		[LIFE_NOTHING_RUNS] = { LIFE_CLEARING, LIFE_SHUT_DOWN },
		[LIFE_SHUTDOWN] = { LIFE_CLEARING, LIFE_SHUT_DOWN },
		[LIFE_LATE] = { LIFE_DRAINING, LIFE_RESEND },
	},
	[LIFE_CLEARING] = {
		[LIFE_FATAL] = { LIFE_CLEARING, LIFE_TELL },
		[LIFE_DRAIN] = { LIFE_CLEARING, LIFE_STOP_TASKS },
		[LIFE_CLEARED] = { LIFE_RELEASING, LIFE_DROP },
		/* Its shim goes on ending the workload. */
		[LIFE_LATE] = { LIFE_RELEASING, LIFE_DROP },
	},
	[LIFE_RELEASING] = {
		[LIFE_FATAL] = { LIFE_RELEASING, LIFE_TELL },
		[LIFE_DRAIN] = { LIFE_RELEASING, LIFE_STOP_TASKS },
		[LIFE_DROPPED] = { LIFE_FLUSHING, LIFE_FINISH },
		[LIFE_LATE] = { LIFE_FLUSHING, LIFE_GIVE_UP },
	},
	[LIFE_FLUSHING] = {
		[LIFE_DRAIN] = { LIFE_FLUSHING, LIFE_STOP_TASKS },
		[LIFE_LATE] = { LIFE_FLUSHING, LIFE_FLUSH_STEP },
	},
};

struct life_step life_step(enum life_phase phase, enum life_event event)
{
	struct life_step s = steps[phase][event];

	return s.action ? s : (struct life_step){ phase, LIFE_NOTHING };
}

/* -------- what is due in a phase -------- */

static bool wants_processor(pid_t pid)
{
	struct proc_peek p;

	return pid > 0 && proc_peek(pid, &p) == 0 && p.state == 'R';
}

/* The guard too takes no holder that runs for one that does not let go. */
static bool is_only_slow(struct lifecycle *l)
{
	const struct view *v = &l->a->view;
	bool wants = wants_processor(v->guard.pid);

	for (uint32_t i = 0; i < v->n_slots && !wants; i++)
		wants = v->seen[i] && wants_processor(v->devices[i].holder_pid);
	l->n_idle = wants ? 0 : l->n_idle + 1;
	return l->n_idle < SLOW_LOOKS && clock_mono_ns() < l->late_ns + SLOW_LIMIT_MS * NS_PER_MS;
}

static void on_late(uv_timer_t *timer)
{
	static const char blind[] =
		"the guard does not say whether it sees GPUs; try tenure doctor";
	static const char *const texts[LIFE_PHASE_MAX] = {
		[LIFE_STARTING] = blind,
		[LIFE_STARTING_DRAIN] = blind,
		[LIFE_RELEASING] = "the guard did not confirm within a second that all is free; it "
				   "lets go by itself in at most 10 s (nvidia-smi shows what is "
				   "left as tenure-hold)",
	};
	struct lifecycle *l = timer->data;

	if (l->unread) {
		l->unread = false;
		(void)uv_timer_start(timer, on_late, 1, 0);
		return;
	}
	if (l->a->view.life.phase == LIFE_RELEASING && is_only_slow(l)) {
		(void)uv_timer_start(timer, on_late, SLOW_STEP_MS, 0);
		return;
	}
	life_post(l->a, LIFE_LATE,
		  &(struct life_cause){ .end = AGENT_FAILED,
					.code = -ETIMEDOUT,
					.why = texts[l->a->view.life.phase] });
}

/* What we were kept from reading for so long may be there: timers come before it in a loop. */
static void wait_for_late(struct lifecycle *l, uint64_t ms)
{
	l->unread = true;
	l->n_idle = 0;
	l->late_ns = clock_mono_ns() + ms * NS_PER_MS;
	(void)uv_timer_start(&l->timer, on_late, ms, 0);
}

static void enter(struct agent *a, enum life_phase phase)
{
	struct lifecycle *l = a->life;

	a->view.life.phase = phase;
	switch (phase) {
	case LIFE_STARTING:
		wait_for_late(l, SEE_LIMIT_MS);
		break;
	case LIFE_STARTING_DRAIN: /* what is due is due still */
		break;
	case LIFE_SERVING:
	case LIFE_DRAINING:
		(void)uv_timer_stop(&l->timer);
		break;
	case LIFE_CLEARING:
		wait_for_late(l, a->c->workload_grace_ms + STOP_LIMIT_MS);
		break;
	case LIFE_RELEASING:
		wait_for_late(l, STOP_LIMIT_MS);
		break;
	case LIFE_FLUSHING:
		l->unread = false;
		(void)uv_timer_start(&l->timer, on_late, 0, FLUSH_STEP_MS);
		break;
	case LIFE_PHASE_MAX:
		break;
	}
}

/* -------- what is held -------- */

void life_tell_policy(struct agent *a)
{
	a->view.policy.hold = view_would_hold(&a->view) && !a->c->workload;
	startup_policy_told(a);
	guardlink_set_policy(a->link, &a->view.policy);
}

static void resend_later(struct agent *a, const struct life_cause *cause)
{
	eventlog_say(a->eventlog, LOG_LEVEL_ERROR, "the guard does not take the policy: %s",
		     cause->why);
	wait_for_late(a->life, REFUSED_WAIT_MS);
}

static void resend(struct agent *a, const struct life_cause *cause)
{
	if (!a->life->pause)
		guardlink_set_policy(a->link, &a->view.policy);
}

static void tell(struct agent *a, const struct life_cause *cause)
{
	eventlog_say(a->eventlog, LOG_LEVEL_WARNING, "%s; trying again", cause->why);
}

/* -------- draining -------- */

static void look_at_drain(struct agent *a)
{
	if (!a->queue || !dispatch_may_run(a->queue))
		life_post(a, LIFE_NOTHING_RUNS, &(struct life_cause){ .why = a->view.life.why });
}

static void say_drain(struct agent *a, size_t running)
{
	static const char *const what[DRAIN_HOW_MAX] = {
		[DRAIN_WAIT] = "may end first",
		[DRAIN_REQUEUE] = "is stopped and requeued",
		[DRAIN_EXPIRE] = "is stopped and requeued",
		[DRAIN_CANCEL] = "is stopped",
	};

	eventlog_tell(a->eventlog, OWN_DRAINING,
		      json_pack("{so si ss}", "why", json_new_text(a->view.life.why), "running",
				(int)running, "then", what[a->view.life.how]));
}

static void stop_tasks(struct agent *a, const struct life_cause *cause)
{
	if (cause->how != DRAIN_CANCEL)
		return;
	a->view.life.how = DRAIN_CANCEL;
	if (a->queue)
		dispatch_stop_all(a->queue);
}

/* How and why are there first: the queue and the policy read them. */
static void begin_drain(struct agent *a, const struct life_cause *cause)
{
	struct life_view *v = &a->view.life;

	if (cause->how <= v->how) {
		stop_tasks(a, cause); /* again: what came of it may not have been written */
		return;
	}
	v->how = cause->how;
	(void)str_copy(v->why, sizeof(v->why), cause->why);
	say_drain(a, a->queue ? dispatch_running(a->queue) : 0);
	if (a->queue)
		dispatch_drain(a->queue, v->why);
	if (v->how >= DRAIN_REQUEUE)
		burns_end(a);
	if (a->queue && v->how >= DRAIN_REQUEUE)
		dispatch_stop_all(a->queue);
	if (v->phase == LIFE_DRAINING && !a->life->pause) /* else it is told then */
		life_tell_policy(a);
	look_at_drain(a);
}

void life_drain(struct agent *a, enum drain_how how, const char *why)
{
	life_post(a, LIFE_DRAIN, &(struct life_cause){ .how = how, .why = why });
}

void life_order(struct agent *a, enum order_how how)
{
	static const struct {
		enum drain_how how;
		const char *why;
	} orders[] = {
		[ORDER_RUN_ON] = { DRAIN_NOT, "stopping (tenure shutdown)" },
		[ORDER_DRAIN] = { DRAIN_WAIT, "draining (tenure shutdown --drain)" },
		[ORDER_STOP_TASKS] = { DRAIN_CANCEL,
				       "stopping its tasks (tenure shutdown --stop-tasks)" },
	};
	_Static_assert(ARRAY_LEN(orders) == ORDER_HOW_MAX, "every order");

	if (orders[how].how)
		life_drain(a, orders[how].how, orders[how].why);
	else
		life_shut_down(a, orders[how].why);
}

/* -------- the end -------- */

static void look_at_workload(struct agent *a)
{
	if (!a->queue || !dispatch_workloads(a->queue))
		life_post(a, LIFE_CLEARED, NULL);
}

static void shut_down(struct agent *a, const struct life_cause *cause)
{
	struct lifecycle *l = a->life;

	l->end = cause->end;
	l->stop_ns = clock_mono_ns();
	startup_end(a);
	eventlog_tell(a->eventlog, OWN_ENDING, json_pack("{so}", "why", json_new_text(cause->why)));
	watch_end(a, cause->why);
	burns_end(a);
	if (a->queue)
		dispatch_end(a->queue, cause->why);
	look_at_workload(a);
}

void life_shut_down(struct agent *a, const char *why)
{
	life_post(a, LIFE_SHUTDOWN, &(struct life_cause){ .why = why });
}

static void drop(struct agent *a, const struct life_cause *cause)
{
	guardlink_drop(a->link);
}

/* Nothing that was held for us is left. */
static bool is_free(const struct agent *a)
{
	return a->end == AGENT_ENDED || a->end == AGENT_UNREAD;
}

static double ms_since(uint64_t ns)
{
	return (double)(clock_mono_ns() - ns) / (double)NS_PER_MS;
}

static void answer_clients(struct agent *a)
{
	struct lifecycle *l = a->life;

	/* From here on the next agent may come; the guard takes only one of an instance. */
	guardlink_hang_up(a->link);
	ctl_unlisten(a->ctl);
	for (size_t i = 0; i < l->n_clients; i++)
		ctl_answer(l->clients[i],
			   json_pack("{s:i, s:b, s:f, s:I, s:s*}", "pid", (int)a->view.pid,
				     "released", is_free(a), "took_ms", ms_since(l->stop_ns),
				     "tasks_running",
				     (json_int_t)(a->queue ? dispatch_outliving(a->queue) : 0),
				     "unseen", a->queue ? dispatch_unseen(a->queue) : NULL));
	l->n_clients = 0;
}

static void flush(struct agent *a, enum agent_end end)
{
	a->end = end;
	startup_end(a);
	meter_end(a);
	answer_clients(a);
	a->life->flush_ns = clock_mono_ns();
}

static void say_free(struct agent *a)
{
	double ms = ms_since(a->life->stop_ns);
	size_t running = a->queue ? dispatch_outliving(a->queue) : 0;

	if (!running)
		eventlog_say(a->eventlog, LOG_LEVEL_INFO, "all is free after %.0f ms", ms);
	else
		eventlog_say(
			a->eventlog, LOG_LEVEL_INFO,
			"what was held is free after %.0f ms; %zu task%s on, and the next agent "
			"takes %s over",
			ms, running, running == 1 ? " runs" : "s run",
			running == 1 ? "it" : "them");
}

static void finish(struct agent *a, const struct life_cause *cause)
{
	say_free(a);
	flush(a, a->life->end);
}

static void give_up(struct agent *a, const struct life_cause *cause)
{
	(void)err_set(a->e, cause->code, "%s", cause->why);
	agentlog_log(a->agentlog, LOG_LEVEL_ERROR, "%s", cause->why);
	flush(a, cause->end);
}

/* Where the agent is all that keeps a job alive, a burn has its last word before the job is over.
 */
static void flush_step(struct agent *a, const struct life_cause *cause)
{
	const uint64_t waited_ms = (clock_mono_ns() - a->life->flush_ns) / NS_PER_MS;
	bool done = agentlog_is_flushed(a->agentlog) && ctl_is_quiet(a->ctl) &&
		    (!a->queue || dispatch_is_quiet(a->queue));

	if ((done || waited_ms > FLUSH_LIMIT_MS) && (!a->burning || waited_ms > BURN_LIMIT_MS))
		uv_stop(&a->loop);
}

void life_add_client(struct agent *a, struct ctl_client *client)
{
	struct lifecycle *l = a->life;

	if (a->view.life.phase == LIFE_FLUSHING) { /* it came meanwhile */
		ctl_answer(client, json_pack("{s:i, s:b}", "pid", (int)a->view.pid, "released",
					     is_free(a)));
		return;
	}
	l->clients[l->n_clients++] = client; /* no more clients than there is room for */
}

void life_forget_client(struct agent *a, struct ctl_client *client)
{
	struct lifecycle *l = a->life;

	for (size_t i = 0; i < l->n_clients; i++)
		if (l->clients[i] == client)
			l->clients[i--] = l->clients[--l->n_clients];
}

/* -------- by itself: --for, --until, --lifetime -------- */

static void say_notice(struct agent *a, const struct deadline *d, uint64_t left_ms)
{
	uint64_t ends_ns = deadline_wall_ns(d, clock_boot_ns(), clock_wall_ns());
	char ends[CLOCK_TEXT_MAX];

	eventlog_tell(a->eventlog, OWN_DEADLINE,
		      json_pack("{sf ss ss}", "left_s", (double)left_ms / 1e3, "ends",
				clock_format_iso(ends_ns, ends), "then", deadline_what_then(d)));
}

static void look_at_deadline(struct agent *a, struct deadline *d)
{
	char why[DEADLINE_TEXT_MAX];
	uint64_t left = deadline_left_ms(d, clock_boot_ns(), clock_wall_ns());

	d->over = !left;
	if (!left && d->then)
		life_drain(a, d->then, deadline_why(d, why));
	else if (!left)
		life_shut_down(a, deadline_why(d, why));
	else if (!d->noticed && left <= d->notice_ms) {
		d->noticed = true;
		say_notice(a, d, left);
	}
}

static void arm_deadlines(struct lifecycle *l);

static void on_deadline(uv_timer_t *timer)
{
	struct lifecycle *l = timer->data;

	for (size_t i = 0; i < DEADLINE_MAX; i++)
		if (deadline_is_awaited(&l->a->view.deadlines[i]))
			look_at_deadline(l->a, &l->a->view.deadlines[i]);
	arm_deadlines(l);
}

static void arm_deadlines(struct lifecycle *l)
{
	uint64_t wait = deadlines_wait_ms(l->a->view.deadlines, clock_boot_ns(), clock_wall_ns());

	if (wait != UINT64_MAX && !view_is_ending(&l->a->view))
		(void)uv_timer_start(&l->deadline_timer, on_deadline, wait, 0);
}

void life_deadlines_changed(struct agent *a)
{
	(void)uv_timer_stop(&a->life->deadline_timer);
	arm_deadlines(a->life);
}

void life_job_ends(struct agent *a, uint64_t left_ms)
{
	deadline_set_job(a->view.deadlines, left_ms, a->c->leave_ms, clock_boot_ns());
	arm_deadlines(a->life);
}

/* -------- ready -------- */

static void become_ready(struct agent *a, const struct life_cause *cause)
{
	startup_announce(a);
	if (a->queue)
		dispatch_start(a->queue);
	if (a->view.life.how != DRAIN_NOT &&
	    !a->life->pause) /* what it was told to hold, it was told before */
		life_tell_policy(a);
	deadline_begin_for(a->view.deadlines, a->c, clock_boot_ns());
	arm_deadlines(a->life);
}

/* -------- idle shutdown: --on-empty -------- */

static void set_released(struct agent *a, bool released)
{
	char time[UNIT_TEXT_MAX];

	a->view.life.released = released;
	if (!a->c->policy.hold)
		return;
	if (released)
		eventlog_say(
			a->eventlog, LOG_LEVEL_INFO,
			"the queue has been empty for %s: nothing is held until there are tasks",
			unit_format_duration_exact(a->c->empty_ms, time));
	else
		eventlog_say(a->eventlog, LOG_LEVEL_INFO, "resumed: tasks are waiting");
	life_tell_policy(a);
}

static void act_on_empty(struct agent *a)
{
	char why[PROTO_TEXT_MAX], time[UNIT_TEXT_MAX];

	if (a->c->on_empty == EMPTY_RELEASE && !a->view.life.released)
		set_released(a, true);
	if (a->c->on_empty == EMPTY_EXIT && dispatch_may_leave(a->queue))
		life_drain(a, DRAIN_WAIT,
			   str_print(why, sizeof(why), "the queue has been empty for %s",
				     unit_format_duration_exact(a->c->empty_ms, time)));
}

/* What cannot be seen now is not empty, and not full again either. */
static bool is_known(const struct agent *a)
{
	const struct msg_guard *g = &a->view.guard;
	/* In its job there are none to be seen. */
	bool none = (a->c->devices && !a->c->devices[0]) || (g->n_unseen && g->n_devices);

	return a->view.life.phase == LIFE_SERVING && !a->life->pause && a->view.guard_up &&
	       (none || g->flags & GUARD_SEES) && dispatch_is_known(a->queue);
}

void life_look_idle(struct agent *a)
{
	struct life_view *v = &a->view.life;
	uint64_t now = clock_mono_ns();

	if (!a->queue || a->c->on_empty == EMPTY_HOLD || !is_known(a))
		return;
	if (!dispatch_is_empty(a->queue) || a->burning) {
		v->empty_ns = 0;
		if (v->released)
			set_released(a, false);
		return;
	}
	if (!v->empty_ns)
		v->empty_ns = now;
	if (now - v->empty_ns >= a->c->empty_ms * NS_PER_MS)
		act_on_empty(a);
}

void life_look(struct agent *a)
{
	if (a->view.life.phase == LIFE_CLEARING)
		look_at_workload(a);
	look_at_drain(a);
	life_look_idle(a);
}

/* -------- Ctrl-Z -------- */

/*
 * What is held would stay so with nobody to ask for it back. So everything is let go of first, then
 * we stop as any program does, and the guard is told anew when we are continued.
 */

static void on_pause(uv_signal_t *handle, int signum);

/* Stop as the terminal wants it; back when we are continued, or at once where no shell waits. */
static void stop_here(struct agent *a)
{
	struct lifecycle *l = a->life;
	uv_signal_t *tstp = &l->signals[SLOT_TSTP];

	(void)uv_timer_stop(&l->pause_timer);
	(void)uv_signal_stop(tstp); /* with it the default comes back */
	(void)raise(SIGTSTP);
	(void)uv_signal_start(tstp, on_pause, SIGTSTP);
	l->pause = PAUSE_NO;
	if (a->queue)
		dispatch_pause(a->queue, false);
	uv_update_time(&a->loop); /* the stop does not count */
	if (!view_is_ready(&a->view)) {
		wait_for_late(l, SEE_LIMIT_MS);
		return;
	}
	eventlog_say(a->eventlog, LOG_LEVEL_INFO, "resumed: holding as before");
	life_tell_policy(a);
}

static void on_pause_step(uv_timer_t *timer)
{
	struct lifecycle *l = timer->data;
	struct agent *a = l->a;
	uint64_t waited = clock_mono_ns() - l->pause_ns;

	if (view_is_ending(&a->view)) {
		l->pause = PAUSE_NO;
		(void)uv_timer_stop(timer);
	} else if ((l->pause == PAUSE_FREE && agentlog_is_flushed(a->agentlog) &&
		    !(a->queue && dispatch_workloads(a->queue))) ||
		   waited > STOP_LIMIT_MS * NS_PER_MS) {
		stop_here(a);
	}
}

static void on_pause(uv_signal_t *handle, int signum)
{
	struct lifecycle *l = handle->data;
	struct agent *a = l->a;

	if (view_is_ending(&a->view) || l->pause)
		return;
	l->pause_ns = clock_mono_ns();
	/* Before it is ready nothing is held, and nothing without a guard. */
	l->pause = view_is_ready(&a->view) && guardlink_is_up(a->link) ? PAUSE_ASKED : PAUSE_FREE;
	if (view_is_ready(&a->view))
		eventlog_say(
			a->eventlog, LOG_LEVEL_INFO,
			"stopped (Ctrl-Z): letting go of everything until it is continued (fg)");
	if (l->pause == PAUSE_ASKED)
		guardlink_drop(a->link);
	if (a->queue)
		dispatch_pause(a->queue, true);
	(void)uv_timer_start(&l->pause_timer, on_pause_step, FLUSH_STEP_MS, FLUSH_STEP_MS);
}

void life_dropped(struct agent *a)
{
	/* Where it ends meanwhile, that asks again. */
	if (a->life->pause == PAUSE_ASKED && !view_is_ending(&a->view))
		a->life->pause = PAUSE_FREE;
	else
		life_post(a, LIFE_DROPPED, NULL);
}

/* -------- all of it -------- */

void life_post(struct agent *a, enum life_event event, const struct life_cause *cause)
{
	static void (*const actions[])(struct agent * a, const struct life_cause *cause) = {
		[LIFE_BECOME_READY] = become_ready,
		[LIFE_GIVE_UP] = give_up,
		[LIFE_TELL] = tell,
		[LIFE_RESEND_LATER] = resend_later,
		[LIFE_RESEND] = resend,
		[LIFE_BEGIN_DRAIN] = begin_drain,
		[LIFE_STOP_TASKS] = stop_tasks,
		[LIFE_SHUT_DOWN] = shut_down,
		[LIFE_DROP] = drop,
		[LIFE_FINISH] = finish,
		[LIFE_FLUSH_STEP] = flush_step,
	};
	_Static_assert(ARRAY_LEN(actions) == LIFE_ACTION_MAX, "every action");
	struct life_step step = life_step(a->view.life.phase, event);

	if (step.next != a->view.life.phase)
		enter(a, step.next);
	if (step.action)
		actions[step.action](a, cause);
}

/* -------- the engine says that our job ends -------- */

/*
 * SIGTERM: now, and a second one says no more. SIGUSR1 and SIGUSR2 are warnings: where it is known
 * that the job ends soon nothing more is started, and what runs has until the deadline; else nobody
 * knows how long before the end they come (a preemption, a deletion).
 */
static void on_engine(uv_signal_t *handle, int signum)
{
	struct agent *a = ((struct lifecycle *)handle->data)->a;
	const struct deadline *d = &a->view.deadlines[DEADLINE_JOB];
	uint64_t left = deadline_left_ms(d, clock_boot_ns(), clock_wall_ns());
	bool soon = deadline_is_awaited(d) && left <= a->c->leave_ms;
	char why[PROTO_TEXT_MAX];

	(void)str_print(why, sizeof(why), "the engine says that the job ends (SIG%s)",
			signal_name(signum));
	if (signum != SIGTERM && soon) {
		life_drain(a, DRAIN_WAIT, why);
		return;
	}
	if (signum == SIGTERM)
		a->view.life.grace_ms = TERM_GRACE_MS;
	if (a->view.life.how == DRAIN_EXPIRE && a->queue)
		dispatch_stop_all(a->queue);
	life_drain(a, DRAIN_EXPIRE, why);
}

static void on_signal(uv_signal_t *handle, int signum)
{
	struct lifecycle *l = handle->data;

	/* Told twice: now. The guard has been told already and goes on letting go. */
	if (l->stop_ns)
		_exit(128 + signum);
	life_shut_down(l->a, signum == SIGINT	 ? "interrupted"
			     : signum == SIGTERM ? "terminated"
						 : "hung up");
}

static void start_signals(struct lifecycle *l)
{
	static const int numbers[SLOT_MAX] = { SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGUSR1, SIGUSR2 };
	bool job = l->a->c->job;

	(void)signal(SIGPIPE, SIG_IGN);
	if (l->a->c->ignore_hangup)
		(void)signal(SIGHUP, SIG_IGN);
	for (size_t i = 0; i < SLOT_MAX; i++) {
		/* What nohup or a shell's `&` has ignored stays so; SIGTERM always ends it. */
		bool wanted = numbers[i] == SIGTERM || !proc_ignores(numbers[i]);

		/* Nobody could continue us in the background. */
		if (i == SLOT_TSTP && l->a->c->ignore_hangup)
			wanted = false;
		(void)uv_signal_init(&l->a->loop, &l->signals[i]);
		l->signals[i].data = l;
		/* Outside of a job they are nobody's word to us. */
		if (i >= SLOT_USR1)
			wanted = job;
		if (wanted)
			(void)uv_signal_start(&l->signals[i],
					      i == SLOT_TSTP ? on_pause
					      : job && (i == SLOT_TERM || i >= SLOT_USR1)
						      ? on_engine
						      : on_signal,
					      numbers[i]);
	}
}

struct lifecycle *lifecycle_new(struct agent *a)
{
	struct lifecycle *l = xcalloc(1, sizeof(*l));
	uv_timer_t *timers[] = { &l->timer, &l->deadline_timer, &l->pause_timer };

	l->a = a;
	start_signals(l);
	for (size_t i = 0; i < ARRAY_LEN(timers); i++) {
		(void)uv_timer_init(&a->loop, timers[i]);
		timers[i]->data = l;
	}
	l->handles = SLOT_MAX + ARRAY_LEN(timers);
	return l;
}

void lifecycle_start(struct agent *a)
{
	enter(a, LIFE_STARTING);
}

static void on_closed(uv_handle_t *h)
{
	struct lifecycle *l = h->data;

	if (!--l->handles)
		free(l);
}

void lifecycle_close(struct agent *a)
{
	struct lifecycle *l = a->life;

	for (size_t i = 0; i < SLOT_MAX; i++)
		uv_close((uv_handle_t *)&l->signals[i], on_closed);
	uv_close((uv_handle_t *)&l->timer, on_closed);
	uv_close((uv_handle_t *)&l->deadline_timer, on_closed);
	uv_close((uv_handle_t *)&l->pause_timer, on_closed);
}
