/* SPDX-License-Identifier: MIT */
#include "agent/startup.h"

#include <stdlib.h>
#include <string.h>

#include "agent/dispatch.h"
#include "agent/dispatch_state.h"
#include "agent/node/policy.h"
#include "agent/parts.h"
#include "agent/report/agentlog.h"
#include "agent/report/eventlog.h"
#include "agent/report/sentence.h"
#include "agent/report/status_json.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "hold/device_state.h"

#define FILES_LIMIT_MS 3000
#define FILES_STEP_MS  2
#define STEP_MOST_NS   (50 * NS_PER_MS) /* what is longer was no step of ours: we stood still */
#define TABLE_WAIT_MS  1500		/* all devices are due; then those that came are shown */

struct startup {
	struct agent *a;
	uv_timer_t table_timer; /* the first table is shown then at the latest */
	uv_timer_t files_timer; /* until it is known whether the files can be written */
	unsigned int handles;
	uint64_t told_ns;	       /* the policy was given to the guard */
	bool fresh[PROTO_DEVICES_MAX]; /* looked at since */
	bool table_due;
	uint64_t stepped_ns, waited_ns; /* for the files */
};

/*
 * A person who picked some does not want to read about the others, nor twice about one whose hold
 * has been told before the last device was looked at.
 */
static bool is_no_news(const struct agent *a, uint32_t slot)
{
	const struct dev_status *dev = &a->view.devices[slot];
	bool ours = strcmp(dev->instance, a->c->instance) == 0;

	if (dev->state == DEV_HELD && ours)
		return dev->since_ns >= a->startup->told_ns;
	return (dev->state == DEV_LEFT && !dev->instance[0]) || !view_is_selected(&a->view, slot);
}

static void show_table(struct agent *a)
{
	uint64_t now = clock_mono_ns();

	a->startup->table_due = false;
	(void)uv_timer_stop(&a->startup->table_timer);
	for (uint32_t i = 0; i < a->view.n_slots; i++) {
		cleanup_strbuf struct strbuf line = STRBUF_INIT;
		const struct dev_status *dev = &a->view.devices[i];

		if (!a->view.seen[i])
			continue;
		if (!a->c->show_json && is_no_news(a, i))
			continue;
		sentence_device(dev, a->c->instance, now, eventlog_names(a->eventlog), &line);
		eventlog_show(a->eventlog, "device", strbuf_str(&line),
			      status_device(&a->view, dev, a->eventlog, now));
	}
	eventlog_states_from(a->eventlog, clock_wall_ns());
}

static void on_table_late(uv_timer_t *timer)
{
	const struct startup *s = timer->data;

	show_table(s->a);
}

/* A name that is not known yet is worth a moment; on_table_late() ends the wait. */
static bool table_complete(struct agent *a)
{
	for (uint32_t i = 0; i < a->view.guard.n_devices && i < PROTO_DEVICES_MAX; i++)
		if (!a->startup->fresh[i] ||
		    !eventlog_knows(a->eventlog, &a->view.devices[i].reason))
			return false;
	return true;
}

void startup_look(struct agent *a)
{
	if (a->startup->table_due && table_complete(a))
		show_table(a);
}

void startup_end(struct agent *a)
{
	a->startup->table_due = false;
	(void)uv_timer_stop(&a->startup->table_timer);
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
	if (a->c->ready && a->queue && dispatch_unseen(a->queue))
		strbuf_addf(out, "there is no queue: %s; it goes on trying\n",
			    dispatch_unseen(a->queue));
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
	return !a->queue || dispatch_is_open(a->queue) || dispatch_unseen(a->queue);
}

/* What it does, and when it ends. */
static void describe(const struct view *v, struct strbuf *out)
{
	policy_describe(&v->policy, v, out);
	policy_describe_end(v->until_wall_ns, out);
	policy_describe_empty(v->c, out);
	deadline_describe(&v->deadlines[DEADLINE_LIFETIME], clock_boot_ns(), clock_wall_ns(), out);
}

static void count_step(struct startup *s)
{
	uint64_t now = clock_mono_ns(), took = now - s->stepped_ns;

	s->stepped_ns = now;
	s->waited_ns += took < STEP_MOST_NS ? took : STEP_MOST_NS;
}

/*
 * Whether the files can be written is known when something has been; a disk that hangs is not
 * waited for.
 */
static void on_files_step(uv_timer_t *timer)
{
	struct agent *a = ((const struct startup *)timer->data)->a;
	cleanup_strbuf struct strbuf text = STRBUF_INIT, warnings = STRBUF_INIT;
	char trouble[ERR_TEXT_MAX];

	count_step(a->startup);
	if ((!agentlog_is_flushed(a->agentlog) || !queue_is_settled(a)) &&
	    a->startup->waited_ns < FILES_LIMIT_MS * NS_PER_MS)
		return;
	(void)uv_timer_stop(timer);
	collect_warnings(a, &warnings);
	warn(a, strbuf_str(&warnings));
	describe(&a->view, &text);
	if (a->c->ready)
		a->c->ready(a->c->user, strbuf_str(&text), strbuf_str(&warnings),
			    !agentlog_trouble(a->agentlog, trouble, sizeof(trouble))[0]);
}

static void say_lifetime(struct agent *a)
{
	const struct deadline *d = &a->view.deadlines[DEADLINE_LIFETIME];
	char text[DEADLINE_TEXT_MAX], start[CLOCK_TEXT_MAX];

	if (!d->at_ns)
		return;
	eventlog_say(a->eventlog, LOG_LEVEL_INFO, "Started at: %s",
		     clock_format_local(a->view.started_wall_ns, start));
	eventlog_say(a->eventlog, LOG_LEVEL_INFO, "%s",
		     deadline_announce(d, clock_boot_ns(), clock_wall_ns(), text));
}

void startup_announce(struct agent *a)
{
	struct startup *s = a->startup;
	cleanup_strbuf struct strbuf text = STRBUF_INIT;

	describe(&a->view, &text);
	agentlog_log(a->agentlog, LOG_LEVEL_INFO, "%s", strbuf_str(&text));
	eventlog_show(a->eventlog, "start", strbuf_str(&text), status_agent(&a->view));
	eventlog_states_from(a->eventlog, UINT64_MAX);
	say_lifetime(a);
	s->stepped_ns = clock_mono_ns();
	(void)uv_timer_start(&s->files_timer, on_files_step, 0, FILES_STEP_MS);
	(void)memset(s->fresh, 0, sizeof(s->fresh));
	s->table_due = true;
	(void)uv_timer_start(&s->table_timer, on_table_late, TABLE_WAIT_MS, 0);
}

void startup_policy_told(struct agent *a)
{
	a->startup->told_ns = clock_mono_ns();
}

void startup_on_device(struct agent *a, uint32_t slot)
{
	const struct dev_status *dev = &a->view.devices[slot];

	/* What is left for others is not looked at for us. */
	a->startup->fresh[slot] =
		dev->state == DEV_LEFT ||
		(dev->looked_ns >= a->startup->told_ns && !(dev->flags & DEVICE_UNJUDGED));
	startup_look(a);
}

struct startup *startup_new(struct agent *a)
{
	struct startup *s = xcalloc(1, sizeof(*s));
	uv_timer_t *timers[] = { &s->table_timer, &s->files_timer };

	s->a = a;
	for (size_t i = 0; i < ARRAY_LEN(timers); i++) {
		(void)uv_timer_init(&a->loop, timers[i]);
		timers[i]->data = s;
	}
	s->handles = ARRAY_LEN(timers);
	return s;
}

static void on_closed(uv_handle_t *h)
{
	struct startup *s = h->data;

	if (!--s->handles)
		free(s);
}

void startup_close(struct agent *a)
{
	struct startup *s = take_ptr(a->startup);

	uv_close((uv_handle_t *)&s->table_timer, on_closed);
	uv_close((uv_handle_t *)&s->files_timer, on_closed);
}
