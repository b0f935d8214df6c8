/* SPDX-License-Identifier: MIT */
#include "agent/ready.h"

#include <errno.h>
#include <string.h>

#include "agent/emptied.h"
#include "agent/ending.h"
#include "agent/lifetime.h"
#include "agent/node/policy.h"
#include "agent/report/sentence.h"
#include "agent/report/status.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "hold/state.h"

#define FILES_LIMIT_MS 200
#define FILES_STEP_MS  2
#define TABLE_WAIT_MS  1500 /* all devices are due; then those that came are shown */

static void on_see_late(uv_timer_t *timer)
{
	ending_give_up(timer->data, AGENT_FAILED, -ETIMEDOUT,
		       "the guard does not say whether it sees GPUs; try tenure doctor");
}

void ready_wait(struct agent *a)
{
	(void)uv_timer_start(&a->phase_timer, on_see_late, SEE_LIMIT_MS, 0);
}

/*
 * A person who picked some does not want to read about the others, nor twice about one whose hold
 * has been told before the last device was looked at.
 */
static bool is_no_news(const struct agent *a, uint32_t slot)
{
	const struct dev_status *dev = &a->view.devices[slot];
	bool ours = strcmp(dev->instance, a->c->instance) == 0;

	if (dev->state == DEV_HELD && ours)
		return dev->since_ns >= a->told_ns;
	return (dev->state == DEV_LEFT && !dev->instance[0]) || !view_is_selected(&a->view, slot);
}

static void show_table(struct agent *a)
{
	uint64_t now = clock_mono_ns();

	a->table_due = false;
	(void)uv_timer_stop(&a->table_timer);
	for (uint32_t i = 0; i < a->view.n_slots; i++) {
		cleanup_strbuf struct strbuf line = STRBUF_INIT;
		const struct dev_status *dev = &a->view.devices[i];
		char named[PROTO_TEXT_MAX * 2];

		if (!a->view.seen[i])
			continue;
		if (!a->c->show_json && is_no_news(a, i))
			continue;
		sentence_device(dev, a->c->instance, now, &line);
		(void)users_put_names(a->users, strbuf_str(&line), named, sizeof(named));
		eventlog_show(a->eventlog, "device", named,
			      status_device(&a->view, dev, a->users, now));
	}
	eventlog_states_from(a->eventlog, clock_wall_ns());
}

static void on_table_late(uv_timer_t *timer)
{
	show_table(timer->data);
}

/* A name that is not known yet is worth a moment; on_table_late() ends the wait. */
static bool table_complete(struct agent *a)
{
	for (uint32_t i = 0; i < a->view.guard.n_devices && i < PROTO_DEVICES_MAX; i++)
		if (!a->fresh[i] || !users_put_names(a->users, a->view.devices[i].reason, NULL, 0))
			return false;
	return true;
}

void ready_look(struct agent *a)
{
	if (a->table_due && table_complete(a))
		show_table(a);
}

void ready_show_none(struct agent *a)
{
	a->table_due = false;
	(void)uv_timer_stop(&a->table_timer);
}

/* What somebody should know before they go away, one sentence per line. */
static void collect_warnings(struct agent *a, struct strbuf *out)
{
	char trouble[ERR_TEXT_MAX];

	policy_warn(&a->view.policy, a->view.guard.n_devices, out);
	if (out->len)
		agentlog_log(a->agentlog, LOG_LEVEL_WARNING, "%s", strbuf_str(out));
	if (agentlog_trouble(a->agentlog, trouble, sizeof(trouble))[0])
		strbuf_addf(out,
			    "log and events are not written: %s; it goes on without. --state-dir "
			    "names another place for them\n",
			    trouble);
	/* Who watches is told at once. */
	if (a->c->ready && a->queue && tasks_unseen(a->queue))
		strbuf_addf(out, "there is no queue: %s; it goes on trying\n",
			    tasks_unseen(a->queue));
}

static void warn(struct agent *a, const char *lines)
{
	while (*lines) {
		size_t n = strcspn(lines, "\n");
		cleanup_free char *line = xasprintf("%.*s", (int)n, lines);

		agentlog_warn(a->agentlog, line);
		lines += n + (lines[n] == '\n');
	}
}

/* Whether there is a queue, and else why, so that whoever waits for us is told. */
static bool queue_is_settled(const struct agent *a)
{
	return !a->queue || tasks_are_open(a->queue) || tasks_unseen(a->queue);
}

/*
 * Whether the files can be written is known when something has been; a disk that hangs is not
 * waited for.
 */
static void on_files_step(uv_timer_t *timer)
{
	struct agent *a = timer->data;
	cleanup_strbuf struct strbuf text = STRBUF_INIT, warnings = STRBUF_INIT;
	char trouble[ERR_TEXT_MAX];

	if ((!agentlog_is_flushed(a->agentlog) || !queue_is_settled(a)) &&
	    clock_mono_ns() - a->ready_ns < FILES_LIMIT_MS * NS_PER_MS)
		return;
	(void)uv_timer_stop(timer);
	collect_warnings(a, &warnings);
	warn(a, strbuf_str(&warnings));
	policy_describe(&a->view.policy, &a->view, &text);
	policy_describe_end(a->view.until_wall_ns, &text);
	emptied_describe(&a->view, &text);
	lifetime_describe(&a->view, &text);
	if (a->c->ready)
		a->c->ready(a->c->user, strbuf_str(&text), strbuf_str(&warnings),
			    !agentlog_trouble(a->agentlog, trouble, sizeof(trouble))[0]);
}

void ready_become(struct agent *a)
{
	cleanup_strbuf struct strbuf text = STRBUF_INIT;

	a->view.ready = true;
	a->ready_ns = clock_mono_ns();
	policy_describe(&a->view.policy, &a->view, &text);
	policy_describe_end(a->view.until_wall_ns, &text);
	emptied_describe(&a->view, &text);
	lifetime_describe(&a->view, &text);
	agentlog_log(a->agentlog, LOG_LEVEL_INFO, "%s", strbuf_str(&text));
	eventlog_show(a->eventlog, "start", strbuf_str(&text), status_agent(&a->view));
	eventlog_states_from(a->eventlog, UINT64_MAX);
	lifetime_announce(a);
	(void)uv_timer_start(&a->files_timer, on_files_step, 0, FILES_STEP_MS);
	(void)memset(a->fresh, 0, sizeof(a->fresh));
	a->table_due = true;
	(void)uv_timer_stop(&a->phase_timer); /* of ready_wait() */
	(void)uv_timer_start(&a->table_timer, on_table_late, TABLE_WAIT_MS, 0);
	if (a->queue)
		tasks_start(a->queue);
	if (a->c->for_ms)
		a->end_ns = clock_mono_ns() + a->c->for_ms * NS_PER_MS;
	ending_arm(a);
}
