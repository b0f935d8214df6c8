/* SPDX-License-Identifier: MIT */

/*
 * One loop, one struct. Everything that can hang is elsewhere: files, the terminal and names of
 * users in the thread pool (journal, users), the GPUs in the guard.
 *
 * Life: lock (the socket's name) -> guard -> policy taken = ready -> ... -> stop -> DROPPED or one
 * second -> flush for half a second -> end. Before it is ready anything that fails ends the agent,
 * because somebody waits for the answer; after it nothing does, what fails is told and tried again.
 *
 * Ctrl-Z: what is held would stay so with nobody to ask for it back. So everything is let go of
 * first, then we stop as any program does, and the guard is told anew when we are continued.
 */

#include "agent/agent.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "agent/ctl.h"
#include "agent/ctl_client.h"
#include "agent/guardlink.h"
#include "agent/guardspawn.h"
#include "agent/journal.h"
#include "agent/news.h"
#include "agent/report.h"
#include "agent/sentence.h"
#include "agent/tasks.h"
#include "agent/users.h"
#include "agent/view.h"
#include "agent/wants.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "hold/names.h"
#include "hold/state.h"
#include "spool/name.h"

#define STOP_LIMIT_MS	1000 /* DROPPED is due; then we end without it */
#define FLUSH_LIMIT_MS	500  /* the last lines get so long */
#define FLUSH_STEP_MS	5
#define SEE_LIMIT_MS	20000 /* a guard that starts may have to wake the driver up */
#define FILES_LIMIT_MS	200
#define FILES_STEP_MS	2
#define TABLE_WAIT_MS	1500  /* all devices are due; then those that came are shown */
#define WATCH_MS	1000  /* also how often the guard hears from us: hold/proto.h */
#define SILENCE_MS	10000 /* the guard speaks once a second */
#define REFUSED_WAIT_MS 30000 /* a policy that was refused later is sent again */
#define CLOCK_CHECK_MS	10000 /* the wall clock may be stepped while we wait for --until */
#define OFF_CLIENTS_MAX CTL_CLIENTS_MAX

/* Files, terminal, names: each may hang, and the spool will want some, too. */
#define POOL_THREADS "8"

enum signal_slot { SLOT_INT, SLOT_TERM, SLOT_HUP, SLOT_TSTP, SLOT_MAX };

struct agent {
	const struct agent_config *c;
	uv_loop_t loop;
	struct view view;
	char host[256];
	char name[NAME_AGENT_MAX + 1]; /* in the spool: the host, as far as it is a name */

	struct guardlink *link;
	struct tasks *queue; /* NULL: it runs no tasks */
	struct journal *journal;
	struct users *users;
	struct news *news;
	struct ctl *ctl;
	int program_fd;

	uv_signal_t signals[SLOT_MAX];
	uv_timer_t end_timer;	/* --for, --until */
	uv_timer_t phase_timer; /* what is due in this part of the life */
	uv_timer_t files_timer; /* until it is known whether the files can be written */
	uv_timer_t watch_timer;
	uint64_t end_ns; /* monotonic, --for */

	uint64_t told_ns;	       /* the policy was given to the link */
	uint64_t ready_ns;	       /* the guard took it */
	bool fresh[PROTO_DEVICES_MAX]; /* looked at since */
	bool table_due, silent, unread;
	uint64_t watched_ns;
	uint64_t stop_ns, flush_ns;
	uv_timer_t pause_timer; /* Ctrl-Z */
	uint64_t pause_ns;
	bool pausing, dropped;
	struct ctl_client *off_clients[OFF_CLIENTS_MAX];
	size_t n_off;

	bool ended;
	enum agent_end end;
	struct err *e;
};

/* -------- the end -------- */

static void on_flush_step(uv_timer_t *timer)
{
	struct agent *a = timer->data;
	bool done = journal_is_flushed(a->journal) && ctl_is_quiet(a->ctl);

	if (done || clock_mono_ns() - a->flush_ns > FLUSH_LIMIT_MS * NS_PER_MS)
		uv_stop(&a->loop);
}

static void answer_off(struct agent *a)
{
	double ms = (double)(clock_mono_ns() - a->stop_ns) / (double)NS_PER_MS;

	ctl_unlisten(a->ctl); /* from here on the next agent may come */
	for (size_t i = 0; i < a->n_off; i++)
		ctl_answer(a->off_clients[i],
			   json_pack("{s:i, s:b, s:f, s:I}", "pid", (int)a->view.pid, "released",
				     a->end == AGENT_ENDED, "took_ms", ms, "tasks_running",
				     (json_int_t)(a->queue ? tasks_running(a->queue) : 0)));
	a->n_off = 0;
}

static void finish(struct agent *a, enum agent_end end)
{
	if (a->ended)
		return;
	a->ended = true;
	a->end = end;
	a->table_due = false; /* its timer is ours from now on */
	answer_off(a);
	a->flush_ns = clock_mono_ns();
	(void)uv_timer_start(&a->phase_timer, on_flush_step, 0, FLUSH_STEP_MS);
}

/* Before it is ready: end with this error. */
static void give_up(struct agent *a, enum agent_end end, int code, const char *text)
{
	if (a->ended)
		return;
	(void)err_set(a->e, code, "%s", text);
	journal_log(a->journal, LOG_LEVEL_ERROR, "%s", text);
	finish(a, end);
}

static void on_stop_late(uv_timer_t *timer)
{
	struct agent *a = timer->data;

	give_up(a, AGENT_FAILED, -ETIMEDOUT,
		"the guard did not confirm within a second that all is free; it lets go by itself "
		"in at most 10 s (nvidia-smi shows what is left as tenure-hold)");
}

static void stop(struct agent *a, const char *why)
{
	if (a->view.stopping || a->ended)
		return;
	a->view.stopping = true;
	a->table_due = false; /* its timer is ours from now on */
	a->stop_ns = clock_mono_ns();
	news_say(a->news, LOG_LEVEL_INFO, "%s: letting go of everything", why);
	(void)uv_timer_start(&a->phase_timer, on_stop_late, STOP_LIMIT_MS, 0);
	if (a->queue)
		tasks_end(a->queue);
	guardlink_drop(a->link);
}

/* -------- timers and signals -------- */

static void on_pause(uv_signal_t *handle, int signum);

static void on_signal(uv_signal_t *handle, int signum)
{
	struct agent *a = handle->data;

	/* Told twice: now. The guard has been told already and goes on letting go. */
	if (a->view.stopping)
		_exit(128 + signum);
	stop(a, signum == SIGINT ? "interrupted" : signum == SIGTERM ? "terminated" : "hung up");
}

static void tell_policy(struct agent *a);
static void on_see_late(uv_timer_t *timer);

/* Stop as the terminal wants it; back when we are continued, or at once where no shell waits. */
static void stop_here(struct agent *a)
{
	uv_signal_t *tstp = &a->signals[SLOT_TSTP];

	(void)uv_timer_stop(&a->pause_timer);
	(void)uv_signal_stop(tstp); /* with it the default comes back */
	(void)raise(SIGTSTP);
	(void)uv_signal_start(tstp, on_pause, SIGTSTP);
	a->pausing = false;
	uv_update_time(&a->loop);
	if (!a->view.ready) {
		(void)uv_timer_start(&a->phase_timer, on_see_late, SEE_LIMIT_MS, 0);
		return;
	}
	news_say(a->news, LOG_LEVEL_INFO, "continued: holding as before");
	tell_policy(a);
}

static void on_pause_step(uv_timer_t *timer)
{
	struct agent *a = timer->data;
	uint64_t waited = clock_mono_ns() - a->pause_ns;

	if (a->view.stopping || a->ended) {
		a->pausing = false;
		(void)uv_timer_stop(timer);
	} else if ((a->dropped && journal_is_flushed(a->journal)) ||
		   waited > STOP_LIMIT_MS * NS_PER_MS) {
		stop_here(a);
	}
}

static void on_pause(uv_signal_t *handle, int signum)
{
	struct agent *a = handle->data;

	if (a->view.stopping || a->ended || a->pausing)
		return;
	a->pausing = true;
	a->pause_ns = clock_mono_ns();
	a->dropped = !a->view.ready || !guardlink_is_up(a->link); /* nothing is held then */
	if (a->view.ready)
		news_say(a->news, LOG_LEVEL_INFO,
			 "stopped (Ctrl-Z): letting go of everything until it is continued (fg)");
	if (!a->dropped)
		guardlink_drop(a->link);
	(void)uv_timer_start(&a->pause_timer, on_pause_step, FLUSH_STEP_MS, FLUSH_STEP_MS);
}

static void arm_end(struct agent *a);

static void on_end_timer(uv_timer_t *timer)
{
	struct agent *a = timer->data;

	if (a->end_ns && clock_mono_ns() >= a->end_ns)
		stop(a, "the time is up");
	else if (a->c->until_wall_ns && clock_wall_ns() >= a->c->until_wall_ns)
		stop(a, "the time has come");
	else
		arm_end(a);
}

static void arm_end(struct agent *a)
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

/* `tenure hold | head -1`: whoever watched it is gone, and would not know what it still holds. */
static bool reader_is_gone(const struct agent *a)
{
	struct pollfd p = { .fd = a->c->show_fd };
	struct stat st;

	return a->c->show && fstat(p.fd, &st) == 0 &&
	       (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)) && poll(&p, 1, 0) == 1 &&
	       (p.revents & (POLLERR | POLLHUP));
}

static void on_watch(uv_timer_t *timer)
{
	struct agent *a = timer->data;
	uint64_t heard = guardlink_heard_ns(a->link), now = clock_mono_ns();

	guardlink_beat(a->link);
	if (!a->view.stopping && !a->ended && reader_is_gone(a)) {
		a->unread = true;
		stop(a, "nobody reads what it prints any more");
	}

	bool slept = now - a->watched_ns > 2 * WATCH_MS * NS_PER_MS; /* what it said waits still */
	bool silent = guardlink_is_up(a->link) && now - heard > SILENCE_MS * NS_PER_MS;
	struct proc_peek guard = { .state = '?' };

	a->watched_ns = now;
	if (slept)
		return;
	if (silent && !a->silent)
		(void)proc_peek(a->view.guard.pid, &guard);

	if (silent && !a->silent)
		news_say(a->news, LOG_LEVEL_WARNING,
			 guard.state == 'T' ? "the guard (PID %d) has been stopped for %llu s, so "
					      "nothing is held; kill -CONT lets it go on"
					    : "the guard (PID %d) has not spoken for %llu s",
			 (int)a->view.guard.pid, (unsigned long long)((now - heard) / NS_PER_S));
	else if (!silent && a->silent)
		news_say(a->news, LOG_LEVEL_INFO, "the guard speaks again");
	a->silent = silent;
}

static void on_see_late(uv_timer_t *timer)
{
	give_up(timer->data, AGENT_FAILED, -ETIMEDOUT,
		"the guard does not say whether it sees GPUs; try tenure doctor");
}

/* -------- the devices at the start -------- */

static void on_table_late(uv_timer_t *timer);

/*
 * A person who picked some does not want to read about the others, nor twice about one whose hold
 * has been told before the last device was looked at.
 */
static bool is_no_news(const struct agent *a, uint32_t slot)
{
	const struct dev_status *dev = &a->view.devices[slot];
	bool ours = strcmp(dev->instance, a->view.instance) == 0;

	if (dev->state == DEV_HELD && ours)
		return dev->since_ns >= a->told_ns;
	return (dev->state == DEV_LEFT && !dev->instance[0]) || !view_is_selected(&a->view, slot);
}

static void show_table(struct agent *a)
{
	uint64_t now = clock_mono_ns();

	a->table_due = false;
	(void)uv_timer_stop(&a->phase_timer);
	for (uint32_t i = 0; i < a->view.n_slots; i++) {
		cleanup_strbuf struct strbuf line = STRBUF_INIT;
		const struct dev_status *dev = &a->view.devices[i];
		char named[PROTO_TEXT_MAX * 2];

		if (!a->view.seen[i])
			continue;
		if (!a->c->show_json && is_no_news(a, i))
			continue;
		sentence_device(dev, a->view.instance, now, &line);
		(void)users_put_names(a->users, strbuf_str(&line), named, sizeof(named));
		news_show(a->news, "device", named, report_device(dev, a->users, now));
	}
	news_states_from(a->news, clock_wall_ns());
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

/* What somebody should know before they go away, one sentence per line. */
static void collect_warnings(struct agent *a, struct strbuf *out)
{
	char trouble[ERR_TEXT_MAX];

	wants_warn(&a->view.policy, a->view.guard.n_devices, out);
	if (out->len)
		journal_log(a->journal, LOG_LEVEL_WARNING, "%s", strbuf_str(out));
	if (journal_trouble(a->journal, trouble, sizeof(trouble))[0])
		strbuf_addf(out,
			    "log and events are not written: %s; it goes on without. --state-dir "
			    "names another place for them\n",
			    trouble);
}

static void warn(struct agent *a, const char *lines)
{
	while (*lines) {
		size_t n = strcspn(lines, "\n");
		cleanup_free char *line = xasprintf("%.*s", (int)n, lines);

		journal_warn(a->journal, line);
		lines += n + (lines[n] == '\n');
	}
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

	if (!journal_is_flushed(a->journal) &&
	    clock_mono_ns() - a->ready_ns < FILES_LIMIT_MS * NS_PER_MS)
		return;
	(void)uv_timer_stop(timer);
	collect_warnings(a, &warnings);
	warn(a, strbuf_str(&warnings));
	wants_describe(&a->view.policy, &a->view, &text);
	wants_describe_end(a->view.until_wall_ns, &text);
	if (a->c->ready)
		a->c->ready(a->c->user, strbuf_str(&text), strbuf_str(&warnings),
			    !journal_trouble(a->journal, trouble, sizeof(trouble))[0]);
}

static void become_ready(struct agent *a)
{
	cleanup_strbuf struct strbuf text = STRBUF_INIT;

	a->view.ready = true;
	a->ready_ns = clock_mono_ns();
	wants_describe(&a->view.policy, &a->view, &text);
	wants_describe_end(a->view.until_wall_ns, &text);
	journal_log(a->journal, LOG_LEVEL_INFO, "%s", strbuf_str(&text));
	news_show(a->news, "start", strbuf_str(&text), report_agent(&a->view));
	news_states_from(a->news, UINT64_MAX);
	(void)uv_timer_start(&a->files_timer, on_files_step, 0, FILES_STEP_MS);
	(void)memset(a->fresh, 0, sizeof(a->fresh));
	a->table_due = true;
	(void)uv_timer_start(&a->phase_timer, on_table_late, TABLE_WAIT_MS, 0);
	if (a->queue)
		tasks_start(a->queue);
	if (a->c->for_ms)
		a->end_ns = clock_mono_ns() + a->c->for_ms * NS_PER_MS;
	arm_end(a);
}

/* -------- what the guard says -------- */

static void tell_policy(struct agent *a)
{
	a->told_ns = clock_mono_ns();
	guardlink_set_policy(a->link, &a->view.policy);
}

static void look_at_guard(struct agent *a, const struct msg_guard *g)
{
	char text[PROTO_TEXT_MAX + 128];

	a->view.guard = *g;
	if (a->view.ready || a->view.stopping)
		return;
	if (g->flags & GUARD_SEES) {
		if (!g->n_devices)
			give_up(a, AGENT_NO_GPUS, -ENODEV,
				"there are no GPUs on this node; to try tenure without one: tenure "
				"sim --gpus 4 -- tenure hold");
		else
			tell_policy(a);
		return;
	}
	if (g->trouble[0])
		give_up(a, AGENT_NO_GPUS, -ENODEV,
			str_print(text, sizeof(text),
				  "cannot see any GPU: %s; tenure doctor tells more", g->trouble));
}

static void on_welcome(void *user, const struct msg_guard *g, bool started)
{
	struct agent *a = user;

	a->view.guard_up = true;
	a->view.n_slots = 0;
	a->view.trouble[0] = '\0';
	(void)memset(a->view.seen, 0, sizeof(a->view.seen));
	if (a->view.ready)
		news_say(a->news, LOG_LEVEL_INFO,
			 "%s guard (PID %d); it is told again what to hold",
			 started ? "started a new" : "found a", (int)g->pid);
	else
		journal_log(a->journal, LOG_LEVEL_INFO, "%s guard: PID %d, driver %s",
			    started ? "started a" : "found a", (int)g->pid,
			    g->driver[0] ? g->driver : "unknown");
	look_at_guard(a, g);
}

static void on_guard(void *user, const struct msg_guard *g)
{
	look_at_guard(user, g);
}

static void on_resend(uv_timer_t *timer)
{
	struct agent *a = timer->data;

	if (!a->view.stopping)
		guardlink_set_policy(a->link, &a->view.policy);
}

static void on_policy_reply(void *user, int code, const char *text)
{
	struct agent *a = user;

	if (a->view.stopping || a->ended)
		return;
	if (code == 0 && !a->view.ready)
		become_ready(a);
	if (code == 0)
		return;
	if (!a->view.ready) {
		give_up(a, AGENT_REFUSED, code < 0 ? code : -EINVAL, text);
		return;
	}
	news_say(a->news, LOG_LEVEL_ERROR, "the guard does not take the policy: %s", text);
	(void)uv_timer_start(&a->phase_timer, on_resend, REFUSED_WAIT_MS, 0);
}

static void on_device(void *user, uint32_t slot, const struct dev_status *dev)
{
	struct agent *a = user;

	a->view.devices[slot] = *dev;
	a->view.seen[slot] = true;
	/* What is left for others is not looked at for us. */
	a->fresh[slot] = dev->looked_ns >= a->told_ns || dev->state == DEV_LEFT;
	if (slot >= a->view.n_slots)
		a->view.n_slots = slot + 1;
	(void)users_put_names(a->users, dev->reason, NULL, 0); /* so that it is known when asked */
	if (a->table_due && table_complete(a))
		show_table(a);
	if (a->queue)
		tasks_look(a->queue);
}

static void on_event(void *user, const struct guard_event *ev)
{
	struct agent *a = user;

	news_take(a->news, ev);
}

static void on_dropped(void *user)
{
	struct agent *a = user;

	if (a->ended)
		return;
	if (a->pausing && !a->view.stopping) {
		a->dropped = true;
		return;
	}
	news_say(a->news, LOG_LEVEL_INFO, "all is free after %.0f ms",
		 (double)(clock_mono_ns() - a->stop_ns) / (double)NS_PER_MS);
	finish(a, AGENT_ENDED);
}

static void on_lost(void *user, const char *why)
{
	struct agent *a = user;

	a->view.guard_up = false;
	(void)str_print(a->view.trouble, sizeof(a->view.trouble), "the guard (PID %d) %s",
			(int)a->view.guard.pid, why);
	for (uint32_t i = 0; i < a->view.n_slots; i++)
		a->view.seen[i] = false;
	news_say(a->news, LOG_LEVEL_WARNING, "%s: nothing is held until the next one is up",
		 a->view.trouble);
}

static void on_failed(void *user, const struct err *why)
{
	struct agent *a = user;
	bool again = strcmp(a->view.trouble, why->text) == 0;

	a->view.guard_up = false;
	(void)str_copy(a->view.trouble, sizeof(a->view.trouble), why->text);
	if (!a->view.ready)
		give_up(a, AGENT_FAILED, why->code, why->text);
	else if (!again && !a->ended)
		news_say(a->news, LOG_LEVEL_WARNING, "%s; trying again", why->text);
}

static void on_lease_reply(void *user, const struct msg_lease_reply *m)
{
	struct agent *a = user;

	if (a->queue)
		tasks_on_promise(a->queue, m);
}

static void on_granted(void *user, const struct msg_lease_reply *m)
{
	struct agent *a = user;

	if (a->queue)
		tasks_on_granted(a->queue, m);
}

static void on_lease_taken(void *user, const struct msg_lease_taken *m)
{
	struct agent *a = user;

	if (a->queue)
		tasks_on_taken(a->queue, m);
}

static void on_unleased(void *user, const struct msg_unleased *m)
{
	struct agent *a = user;

	if (a->queue)
		tasks_on_unleased(a->queue, m);
}

static void on_lease_state(void *user, const struct msg_lease_state *m)
{
	struct agent *a = user;

	if (a->queue)
		tasks_on_lease_state(a->queue, m);
}

static void on_leases_known(void *user)
{
	struct agent *a = user;

	if (a->queue)
		tasks_on_leases_known(a->queue);
}

static const struct guardlink_ops link_ops = {
	.lease_reply = on_lease_reply,
	.granted = on_granted,
	.lease_taken = on_lease_taken,
	.unleased = on_unleased,
	.lease_state = on_lease_state,
	.leases_known = on_leases_known,
	.welcome = on_welcome,
	.policy_reply = on_policy_reply,
	.device = on_device,
	.event = on_event,
	.guard = on_guard,
	.dropped = on_dropped,
	.lost = on_lost,
	.failed = on_failed,
};

static void on_names_found(void *user)
{
	struct agent *a = user;

	news_names_found(a->news);
	if (a->table_due && table_complete(a))
		show_table(a);
}

/* -------- what clients ask -------- */

static void answer_ping(struct agent *a, struct ctl_client *client, const struct ctl_request *req)
{
	ctl_answer(client, report_ping(&a->view));
}

static void answer_status(struct agent *a, struct ctl_client *client, const struct ctl_request *req)
{
	json_t *doc;

	a->view.heard_ns = guardlink_heard_ns(a->link);
	doc = report_status(&a->view, a->journal, a->users);
	if (a->queue)
		(void)json_object_set_new(doc, "queue", tasks_report(a->queue));
	ctl_answer(client, doc);
}

static void answer_result(struct ctl_client *client, int code, const struct err *e)
{
	ctl_answer(client, code < 0 ? json_pack("{s:i, s:s}", "code", code, "error", e->text)
				    : json_pack("{s:i}", "code", code));
}

static int no_queue(struct err *e)
{
	return err_set(e, -ENOENT,
		       "the agent here runs no tasks (a `tenure hold`); tenure on starts one that "
		       "does");
}

static void rescan(struct agent *a, struct ctl_client *client, const struct ctl_request *req)
{
	struct err e = ERR_INIT;

	if (a->queue)
		tasks_rescan(a->queue);
	answer_result(client, a->queue ? 0 : no_queue(&e), &e);
}

static void drain(struct agent *a, struct ctl_client *client, const struct ctl_request *req)
{
	struct err e = ERR_INIT;

	if (a->queue)
		tasks_drain(a->queue);
	answer_result(client, a->queue ? 0 : no_queue(&e), &e);
}

static void stop_task(struct agent *a, struct ctl_client *client, const struct ctl_request *req)
{
	struct err e = ERR_INIT;
	int r = a->queue ? tasks_stop(a->queue, req->task, req->element, req->now, &e)
			 : no_queue(&e);

	answer_result(client, r, &e);
}

static void answer_why(struct agent *a, struct ctl_client *client, const struct ctl_request *req)
{
	struct err e = ERR_INIT;
	cleanup_free char *why = NULL;
	int r = a->queue ? tasks_why(a->queue, req->task, req->element, &why, &e) : no_queue(&e);

	if (r < 0)
		answer_result(client, r, &e);
	else
		ctl_answer(client, json_pack("{s:i, s:s}", "code", 0, "why", why));
}

static void take_off(struct agent *a, struct ctl_client *client, const struct ctl_request *req)
{
	if (a->ended) { /* it came while we were flushing */
		ctl_answer(client, json_pack("{s:i, s:b}", "pid", (int)a->view.pid, "released",
					     a->end == AGENT_ENDED));
		return;
	}
	a->off_clients[a->n_off++] = client; /* no more clients than there is room for */
	stop(a, "told to end (tenure off)");
}

static void on_request(void *user, struct ctl_client *client, const struct ctl_request *req)
{
	static void (*const verbs[CTL_VERB_MAX])(struct agent * a, struct ctl_client * client,
						 const struct ctl_request *req) = {
		[CTL_PING] = answer_ping, [CTL_STATUS] = answer_status, [CTL_OFF] = take_off,
		[CTL_DRAIN] = drain,	  [CTL_RESCAN] = rescan,	[CTL_STOP] = stop_task,
		[CTL_WHY] = answer_why,
	};

	verbs[req->verb](user, client, req);
}

static void on_client_gone(void *user, struct ctl_client *client)
{
	struct agent *a = user;

	for (size_t i = 0; i < a->n_off; i++)
		if (a->off_clients[i] == client)
			a->off_clients[i--] = a->off_clients[--a->n_off];
}

/* -------- start and teardown -------- */

static void say_running(const struct agent_config *c, const char *name, struct err *e)
{
	json_t *doc = NULL;
	char time[CLOCK_TEXT_MAX] = "an unknown time";
	int pid = 0;

	if (ctl_ask(name, CTL_PING, 1000, &doc, NULL, NULL) == 0) {
		json_t *since = json_object_get(doc, "since_ns");

		pid = (int)json_integer_value(json_object_get(doc, "pid"));
		if (json_integer_value(since) > 0)
			(void)clock_format_local((uint64_t)json_integer_value(since), time);
	}
	json_decref(doc);
	(void)err_set(e, -EADDRINUSE,
		      "tenure is already running for instance %s: PID %d, since %s "
		      "(tenure status shows it, tenure off ends it)",
		      c->instance, pid, time);
}

static enum agent_end take_lock(struct agent *a)
{
	static const struct ctl_ops ops = { .request = on_request, .gone = on_client_gone };
	char name[SOCKET_NAME_MAX];
	int r = ctl_listen(&a->loop,
			   agent_socket_name(name, sizeof(name), a->c->instance, a->c->dev_dir),
			   &ops, a, &a->ctl, a->e);

	if (r != -EADDRINUSE)
		return r < 0 ? AGENT_FAILED : AGENT_ENDED;
	say_running(a->c, name, a->e);
	return AGENT_RUNNING;
}

/* Not where nobody could continue us: in the background, or where Ctrl-Z is ignored on purpose. */
static void start_pause_signal(struct agent *a)
{
	uv_signal_t *tstp = &a->signals[SLOT_TSTP];

	(void)uv_signal_init(&a->loop, tstp);
	tstp->data = a;
	if (!a->c->ignore_hangup && !proc_ignores(SIGTSTP))
		(void)uv_signal_start(tstp, on_pause, SIGTSTP);
}

static void start_signals(struct agent *a)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };

	(void)signal(SIGPIPE, SIG_IGN);
	if (a->c->ignore_hangup)
		(void)signal(SIGHUP, SIG_IGN);
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		(void)uv_signal_init(&a->loop, &a->signals[i]);
		a->signals[i].data = a;
		/* What nohup or a shell's `&` has ignored stays so; SIGTERM always ends it. */
		if (numbers[i] == SIGTERM || !proc_ignores(numbers[i]))
			(void)uv_signal_start(&a->signals[i], on_signal, numbers[i]);
	}
	start_pause_signal(a);
}

static void start_timers(struct agent *a)
{
	uv_timer_t *timers[] = { &a->end_timer, &a->phase_timer, &a->files_timer, &a->watch_timer,
				 &a->pause_timer };

	for (size_t i = 0; i < ARRAY_LEN(timers); i++) {
		(void)uv_timer_init(&a->loop, timers[i]);
		timers[i]->data = a;
	}
	(void)uv_timer_start(&a->phase_timer, on_see_late, SEE_LIMIT_MS, 0);
	(void)uv_timer_start(&a->watch_timer, on_watch, WATCH_MS, WATCH_MS);
}

static void start_parts(struct agent *a)
{
	struct view *v = &a->view;
	struct journal_config jc = { .state_dir = a->c->state_dir,
				     .instance = a->c->instance,
				     .host = a->host,
				     .level = a->c->log_level,
				     .show = a->c->show,
				     .warn = a->c->warn };
	struct guardlink_config lc = { .instance = a->c->instance,
				       .dev_dir = a->c->dev_dir,
				       .program_fd = a->program_fd };

	a->journal = journal_new(&a->loop, &jc);
	a->users = users_new(&a->loop, on_names_found, a);
	a->news = news_new(&a->loop, &(struct news_config){ .view = v,
							    .journal = a->journal,
							    .users = a->users,
							    .json = a->c->show_json });
	a->link = guardlink_new(&a->loop, &lc, &link_ops, a);
	*v = (struct view){ .instance = a->c->instance,
			    .host = a->host,
			    .dev_dir = a->c->dev_dir,
			    .log_path = journal_log_path(a->journal),
			    .event_path = journal_event_path(a->journal),
			    .pid = getpid(),
			    .started_wall_ns = clock_wall_ns(),
			    .started_ns = clock_mono_ns(),
			    .policy = a->c->policy };
	if (a->c->root)
		a->queue = tasks_new(&a->loop, &(struct tasks_config){ .root = a->c->root,
								       .instance = a->c->instance,
								       .agent = a->name,
								       .state_dir = a->c->state_dir,
								       .program_fd = a->program_fd,
								       .log_limit = a->c->log_limit,
								       .view = v,
								       .news = a->news,
								       .link = a->link });
	v->until_wall_ns = a->c->until_wall_ns;
	if (a->c->for_ms &&
	    (!v->until_wall_ns || v->started_wall_ns + a->c->for_ms * NS_PER_MS < v->until_wall_ns))
		v->until_wall_ns = v->started_wall_ns + a->c->for_ms * NS_PER_MS;
	journal_log(a->journal, LOG_LEVEL_INFO, "tenure %s, agent of instance %s on %s, PID %d",
		    TENURE_VERSION, v->instance, v->host, (int)v->pid);
}

static void on_link_closed(void *user)
{
	struct agent *a = user;

	a->link = NULL;
}

/* True when all is freed; false: something hangs in a thread of the pool. */
static bool close_parts(struct agent *a)
{
	uv_timer_t *timers[] = { &a->end_timer, &a->phase_timer, &a->files_timer, &a->watch_timer,
				 &a->pause_timer };

	bool spool_closed = !a->queue || tasks_free(a->queue) == 0;

	news_close(a->news);
	guardlink_close(a->link, on_link_closed);
	ctl_close(a->ctl);
	for (size_t i = 0; i < ARRAY_LEN(timers); i++)
		uv_close((uv_handle_t *)timers[i], NULL);
	for (int i = 0; i < SLOT_MAX; i++)
		uv_close((uv_handle_t *)&a->signals[i], NULL);

	uint64_t start = clock_mono_ns();

	while (uv_run(&a->loop, UV_RUN_NOWAIT) &&
	       clock_mono_ns() - start < FLUSH_LIMIT_MS * NS_PER_MS)
		(void)usleep(1000);
	a->program_fd = fd_close(a->program_fd);
	return spool_closed && journal_free(a->journal) == 0 && users_free(a->users) == 0 &&
	       uv_loop_close(&a->loop) == 0;
}

static enum agent_end run_parts(struct agent *a)
{
	start_signals(a);
	start_timers(a);
	start_parts(a);
	guardlink_start(a->link);
	(void)uv_run(&a->loop, UV_RUN_DEFAULT);
	/*
	 * libuv waits at exit for the threads of its pool; one that hangs in a dead filesystem
	 * would keep us here for ever. The error, if there is one, has been logged where that
	 * works.
	 */
	if (!close_parts(a))
		_exit(a->end == AGENT_ENDED ? EXIT_SUCCESS : EXIT_FAILURE);
	return a->end == AGENT_ENDED && a->unread ? AGENT_UNREAD : a->end;
}

static void name_agent(const char *host, char name[NAME_AGENT_MAX + 1])
{
	char made[SPEC_NAME_MAX + 1];

	spec_make_name(host, made);
	(void)str_print(name, NAME_AGENT_MAX + 1, "%.40s", made);
}

enum agent_end agent_run(const struct agent_config *config, struct err *e)
{
	struct agent *a = xcalloc(1, sizeof(*a));
	enum agent_end end;

	a->c = config;
	a->e = e;
	if (gethostname(a->host, sizeof(a->host) - 1) < 0 || !a->host[0])
		(void)str_copy(a->host, sizeof(a->host), "localhost");
	name_agent(a->host, a->name);
	(void)setenv("UV_THREADPOOL_SIZE", POOL_THREADS, 0);
	a->program_fd = guardspawn_copy_self(e);
	if (a->program_fd < 0 || uv_loop_init(&a->loop) < 0) {
		free(a);
		return AGENT_FAILED;
	}
	end = take_lock(a);
	if (end == AGENT_ENDED) {
		end = run_parts(a);
	} else {
		(void)uv_loop_close(&a->loop);
		a->program_fd = fd_close(a->program_fd);
	}
	free(a);
	return end;
}
