/* SPDX-License-Identifier: MIT */

/*
 * stop -> the workload, if there is one, has ended -> DROPPED or one second -> flush for two
 * seconds -> the loop ends. Who asked for it with `tenure off` is answered between the last two.
 */

#include "agent/ending.h"

#include <errno.h>

#include "agent/ready.h"
#include "base/clock.h"

#define FLUSH_LIMIT_MS 2000  /* the last lines get so long */
#define CLOCK_CHECK_MS 10000 /* the wall clock may be stepped while we wait for --until */

static void on_flush_step(uv_timer_t *timer)
{
	struct agent *a = timer->data;
	bool done = agentlog_is_flushed(a->agentlog) && ctl_is_quiet(a->ctl) &&
		    (!a->queue || tasks_are_quiet(a->queue));

	if (done || clock_mono_ns() - a->flush_ns > FLUSH_LIMIT_MS * NS_PER_MS)
		uv_stop(&a->loop);
}

static void answer_off(struct agent *a)
{
	double ms = (double)(clock_mono_ns() - a->stop_ns) / (double)NS_PER_MS;

	/* From here on the next agent may come; the guard takes only one of an instance. */
	guardlink_hang_up(a->link);
	ctl_unlisten(a->ctl);
	for (size_t i = 0; i < a->n_off; i++)
		ctl_answer(a->off_clients[i],
			   json_pack("{s:i, s:b, s:f, s:I, s:s*}", "pid", (int)a->view.pid,
				     "released", a->end == AGENT_ENDED, "took_ms", ms,
				     "tasks_running",
				     (json_int_t)(a->queue ? tasks_running(a->queue) : 0), "unseen",
				     a->queue ? tasks_unseen(a->queue) : NULL));
	a->n_off = 0;
}

void ending_finish(struct agent *a, enum agent_end end)
{
	if (a->ended)
		return;
	a->ended = true;
	a->end = end;
	ready_show_none(a);
	answer_off(a);
	a->flush_ns = clock_mono_ns();
	(void)uv_timer_start(&a->phase_timer, on_flush_step, 0, FLUSH_STEP_MS);
}

void ending_give_up(struct agent *a, enum agent_end end, int code, const char *text)
{
	if (a->ended)
		return;
	(void)err_set(a->e, code, "%s", text);
	agentlog_log(a->agentlog, LOG_LEVEL_ERROR, "%s", text);
	ending_finish(a, end);
}

static void on_stop_late(uv_timer_t *timer)
{
	struct agent *a = timer->data;

	ending_give_up(
		a, AGENT_FAILED, -ETIMEDOUT,
		"the guard did not confirm within a second that all is free; it lets go by itself "
		"in at most 10 s (nvidia-smi shows what is left as tenure-hold)");
}

static void let_go(struct agent *a)
{
	a->workload_ends = false;
	(void)uv_timer_start(&a->phase_timer, on_stop_late, STOP_LIMIT_MS, 0);
	guardlink_drop(a->link);
}

/* Its shim goes on ending it. */
static void on_workload_late(uv_timer_t *timer)
{
	let_go(timer->data);
}

void ending_stop(struct agent *a, const char *why)
{
	if (a->view.stopping || a->ended)
		return;
	a->view.stopping = true;
	ready_show_none(a);
	a->stop_ns = clock_mono_ns();
	eventlog_say(a->eventlog, LOG_LEVEL_INFO, "%s: letting go of everything", why);
	if (a->queue)
		tasks_end(a->queue);
	if (a->queue && tasks_workloads(a->queue)) {
		a->workload_ends = true;
		(void)uv_timer_start(&a->phase_timer, on_workload_late,
				     a->c->workload_grace_ms + STOP_LIMIT_MS, 0);
	} else {
		let_go(a);
	}
}

void ending_look(struct agent *a)
{
	if (a->workload_ends && !tasks_workloads(a->queue))
		let_go(a);
}

static void on_end_timer(uv_timer_t *timer)
{
	struct agent *a = timer->data;

	if (a->end_ns && clock_mono_ns() >= a->end_ns)
		ending_stop(a, "the time is up");
	else if (a->c->until_wall_ns && clock_wall_ns() >= a->c->until_wall_ns)
		ending_stop(a, "the time has come");
	else
		ending_arm(a);
}

void ending_arm(struct agent *a)
{
	uint64_t wait = UINT64_MAX, now = clock_mono_ns(), wall = clock_wall_ns();

	if (a->end_ns)
		wait = a->end_ns > now ? (a->end_ns - now) / NS_PER_MS + 1 : 0;
	if (a->c->until_wall_ns) {
		uint64_t left = a->c->until_wall_ns > wall
					? (a->c->until_wall_ns - wall) / NS_PER_MS + 1
					: 0;

		left = left < CLOCK_CHECK_MS ? left : CLOCK_CHECK_MS;
		wait = left < wait ? left : wait;
	}
	if (wait != UINT64_MAX)
		(void)uv_timer_start(&a->end_timer, on_end_timer, wait, 0);
}

void ending_add_client(struct agent *a, struct ctl_client *client)
{
	if (a->ended) { /* it came while we were flushing */
		ctl_answer(client, json_pack("{s:i, s:b}", "pid", (int)a->view.pid, "released",
					     a->end == AGENT_ENDED));
		return;
	}
	a->off_clients[a->n_off++] = client; /* no more clients than there is room for */
}

void ending_forget_client(struct agent *a, struct ctl_client *client)
{
	for (size_t i = 0; i < a->n_off; i++)
		if (a->off_clients[i] == client)
			a->off_clients[i--] = a->off_clients[--a->n_off];
}
