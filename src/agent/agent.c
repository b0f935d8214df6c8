/* SPDX-License-Identifier: MIT */

/*
 * One loop, and the parts on it (agent/parts.h). Everything that can hang is elsewhere: files, the
 * terminal and names of users in the thread pool (agentlog, eventlog), the GPUs in the guard.
 *
 * Who has the socket's name is the agent of its instance: that is the lock. What happens from there
 * to the end of the loop is the lifecycle's.
 */

#include "agent/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "agent/allocations.h"
#include "agent/asks.h"
#include "agent/burns.h"
#include "agent/ctl.h"
#include "agent/ctl_client.h"
#include "agent/dispatch.h"
#include "agent/dispatch_state.h"
#include "agent/guard_events.h"
#include "agent/helpers.h"
#include "agent/history.h"
#include "agent/job.h"
#include "agent/lifecycle.h"
#include "agent/meter.h"
#include "agent/node/guardlink.h"
#include "agent/node/selfcopy.h"
#include "agent/parts.h"
#include "agent/queue/planview.h"
#include "agent/reload.h"
#include "agent/report/agentlog.h"
#include "agent/report/eventlog.h"
#include "agent/scaling.h"
#include "agent/startup.h"
#include "agent/task_events.h"
#include "agent/verbs.h"
#include "agent/watch.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/nofile.h"
#include "base/proc.h"
#include "base/spawn.h"
#include "base/str.h"
#include "hold/endpoint_names.h"
#include "spool/heartbeat.h"

#define CLOSE_LIMIT_MS 500
#define WATCH_MS       1000 /* also how often the guard hears from us: hold/proto.h */

#define ASKED_MS 3000 /* who has asked may ask again so soon */

/* One that is ending has the workload's grace, a second for the guard, and half a one to flush. */
#define ENDING_LIMIT_MS 12000
#define ENDING_STEP_MS	200
#define GONE_STEP_US	10000
#define PING_LIMIT_MS	5000 /* one that starts is not there at once; a stopped one is told apart */

/* Files, terminal, names: each may hang, and the spool will want some, too. */
#define POOL_THREADS "8"

/* -------- the watch -------- */

/* `tenure hold | head -1`: whoever watched it is gone, and would not know what it still holds. */
static bool reader_is_gone(const struct agent *a)
{
	struct pollfd p = { .fd = a->c->show_fd };
	struct statx st;

	/* Of a file neither its state nor whether it is ready is asked for: its server may hang. */
	return a->c->show &&
	       statx(p.fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &st) == 0 &&
	       (S_ISFIFO(st.stx_mode) || S_ISSOCK(st.stx_mode)) && poll(&p, 1, 0) == 1 &&
	       (p.revents & (POLLERR | POLLHUP));
}

/* A simulated machine, or a container's directory of devices; twice, since it may be made anew. */
static bool devices_are_gone(struct agent *a)
{
	bool gone = strcmp(a->c->dev_dir, "/dev") != 0 && access(a->c->dev_dir, F_OK) < 0 &&
		    errno == ENOENT;

	a->looks_without_devices = gone ? a->looks_without_devices + 1 : 0;
	return a->looks_without_devices > 1;
}

/* Who asks again and again for the status watches as well. */
static bool is_watched(const struct agent *a)
{
	return watch_any(a) ||
	       (a->asked_ns && clock_mono_ns() - a->asked_ns < ASKED_MS * NS_PER_MS);
}

static void on_watch(uv_timer_t *timer)
{
	struct agent *a = timer->data;

	guardlink_heartbeat(a->link, is_watched(a));
	life_look_idle(a);
	if (!view_is_ending(&a->view) && devices_are_gone(a))
		life_shut_down(
			a,
			"the directory of its devices (dev_dir) is gone, and the machine with it");
	if (!view_is_ending(&a->view) && reader_is_gone(a))
		life_post(a, LIFE_SHUTDOWN,
			  &(struct life_cause){ .end = AGENT_UNREAD,
						.why = "nobody reads what it prints any more" });
	watchdog_look(a, WATCH_MS);
	if (a->queue) {
		scaling_look(a->queue);
		task_events_look_stuck(&a->queue->place, a->stuck);
	}
	allocations_look_free(a, false);
	asks_look(a);
	history_look(a);
	meter_look(a);
}

static void on_names_found(void *user)
{
	struct agent *a = user;

	startup_look(a);
	watch_devices(a); /* who is there has a name now */
}

/* -------- start and teardown -------- */

/* Who has the name, as far as it answers. */
struct runner {
	bool draining, ending;
	int pid;
	char since[CLOCK_TEXT_MAX];
};

/* 0, or as ctl_ask(). One that is ending has ended, or a while has gone by, when this returns. */
static int look_at_runner(const char *name, struct runner *ret, struct err *e)
{
	json_t *doc = NULL;
	cleanup_fd int fd = -1;
	const char *phase;
	json_int_t since;
	int r = ctl_ask(name, CTL_PING, PING_LIMIT_MS, &doc, &fd, e);

	if (r < 0)
		return r;
	phase = json_string_value(json_object_get(doc, "phase"));
	since = json_integer_value(json_object_get(doc, "since_ns"));
	*ret = (struct runner){
		.draining = phase && !strcmp(phase, phase_name(PHASE_DRAINING)),
		.ending = phase && !strcmp(phase, phase_name(PHASE_RELEASING)),
		.pid = (int)json_integer_value(json_object_get(doc, "pid")),
		.since = "an unknown time",
	};
	if (since > 0)
		(void)clock_format_local((uint64_t)since, ret->since);
	json_decref(doc);
	if (ret->ending)
		(void)poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, ENDING_STEP_MS);
	return 0;
}

static void say_running(const struct agent_config *c, const struct runner *who, struct err *e)
{
	(void)err_set(e, -EADDRINUSE,
		      who->draining
			      ? "tenure is still running for instance %s: PID %d, since %s; it "
				"ends when its tasks have (tenure status%s shows them, tenure "
				"off%s ends it now and lets them run on)"
			      : "tenure is already running for instance %s: PID %d, since %s "
				"(tenure status%s shows it, tenure off%s ends it)",
		      c->instance, who->pid, who->since, c->options, c->options);
}

/* An agent that lets go and ends is not one that runs: `off` of another terminal, then `on`. */
static enum agent_end take_lock(struct agent *a)
{
	uint64_t until = clock_mono_ns() + ENDING_LIMIT_MS * NS_PER_MS;
	char name[SOCKET_NAME_MAX];
	struct runner who;
	int r;

	(void)agent_socket_name(name, sizeof(name), a->c->instance, a->c->dev_dir,
				agent_job_key(a->c));
	for (;;) {
		*a->e = (struct err)ERR_INIT;
		r = ctl_listen(&a->loop, name, &verbs_socket, a, &a->ctl, a->e);
		if (r != -EADDRINUSE)
			return r < 0 ? AGENT_FAILED : AGENT_ENDED;
		r = look_at_runner(name, &who, a->e);
		if (clock_mono_ns() >= until)
			break;
		if (r == -ECONNREFUSED || r == -EPIPE)
			(void)usleep(GONE_STEP_US);
		else if (r < 0 || !who.ending)
			break;
	}
	if (r == 0)
		say_running(a->c, &who, a->e);
	else
		(void)err_wrap(a->e, "tenure is already running for instance %s", a->c->instance);
	return AGENT_RUNNING;
}

static void on_task_over(void *user)
{
	life_look(user);
}

static void on_closing(void *user, struct attempt *r)
{
	meter_close_attempt(user, r);
}

static void on_moved(void *user)
{
	meter_look(user);
}

static void on_tasks_changed(void *user)
{
	watch_queue(user);
}

static void on_happened(void *user)
{
	watch_happened(user);
}

static json_t *on_history_due(void *user, bool last)
{
	return history_to_share(user, last);
}

static void start_parts(struct agent *a)
{
	static const struct dispatch_ops ops = { .over = on_task_over,
						 .history = on_history_due,
						 .changed = on_tasks_changed,
						 .closing = on_closing,
						 .moved = on_moved,
						 .orders = &verbs_orders,
						 .file_order = verbs_file_order };
	struct view *v = &a->view;
	struct agentlog_config jc = { .state_dir = a->c->state_dir,
				      .instance = a->c->instance,
				      /* On a node there may be more of them than one in jobs. */
				      .host = a->c->job ? a->self.name : a->self.host,
				      .job = agent_job_key(a->c),
				      .level = a->c->log_level,
				      .show = a->c->show,
				      .warn = a->c->warn };

	a->agentlog = agentlog_new(&a->loop, &jc);
	a->eventlog = eventlog_new(&a->loop, &(struct eventlog_config){ .view = v,
									.agentlog = a->agentlog,
									.json = a->c->show_json,
									.named = on_names_found,
									.happened = on_happened,
									.user = a });
	a->link = guardlink_new(&a->loop, a->c, &a->self, &guard_events_ops, a);
	*v = (struct view){ .c = a->c,
			    .self = &a->self,
			    .log_path = agentlog_log_path(a->agentlog),
			    .event_path = agentlog_event_path(a->agentlog),
			    .pid = getpid(),
			    .started_wall_ns = clock_wall_ns(),
			    .started_ns = clock_mono_ns(),
			    .policy = a->c->policy,
			    .cpu_slots = planview_cpu_slots(a->c->cpu_tasks, nofile_soft()) };
	if (a->c->root)
		a->queue = dispatch_new(&a->loop, v, a->eventlog, a->link, &ops, a);
	v->workloads = a->queue ? dispatch_workload_view(a->queue) : NULL;
	v->quarantine = a->queue ? dispatch_quarantine_view(a->queue) : NULL;
	deadlines_begin(v->deadlines, a->c, clock_boot_ns());
	v->until_wall_ns = a->c->until_wall_ns;
	if (a->c->for_ms &&
	    (!v->until_wall_ns || v->started_wall_ns + a->c->for_ms * NS_PER_MS < v->until_wall_ns))
		v->until_wall_ns = v->started_wall_ns + a->c->for_ms * NS_PER_MS;
	agentlog_log(a->agentlog, LOG_LEVEL_INFO, "tenure %s, agent of instance %s on %s, PID %d",
		     TENURE_VERSION, v->c->instance, v->self->host, (int)v->pid);
	eventlog_tell(a->eventlog, OWN_AGENT_STARTED,
		      json_pack("{si ss}", "pid", (int)v->pid, "version", TENURE_VERSION));
	if (a->program.place == COPY_NONE)
		agentlog_log(
			a->agentlog, LOG_LEVEL_WARNING,
			"no copy of the program can be executed here (%s), so the guard runs from "
			"the installed one and hangs if that one's filesystem does; tenure doctor "
			"says what to do",
			a->program.reason);
}

static void on_link_closed(void *user)
{
	struct agent *a = user;

	a->link = NULL;
}

static void on_close_limit(uv_timer_t *timer)
{
	*(bool *)timer->data = true;
}

/* Until all that is being closed is, or something hangs in a thread of the pool. */
static void run_out(uv_loop_t *loop)
{
	bool over = false;
	uv_timer_t limit;

	(void)uv_timer_init(loop, &limit);
	limit.data = &over;
	(void)uv_timer_start(&limit, on_close_limit, CLOSE_LIMIT_MS, 0);
	uv_unref((uv_handle_t *)&limit);
	while (!over && uv_run(loop, UV_RUN_ONCE))
		;
	uv_close((uv_handle_t *)&limit, NULL);
	(void)uv_run(loop, UV_RUN_NOWAIT);
}

/* True when all is freed; false: something hangs in a thread of the pool. */
static bool close_parts(struct agent *a)
{
	burns_close(a);

	bool spool_closed = !a->queue || dispatch_free(a->queue) == 0;

	eventlog_close(a->eventlog);
	agentlog_close(a->agentlog);
	guardlink_close(a->link, on_link_closed);
	agent_job_close(a->job);
	helpers_close(take_ptr(a->helpers));
	asks_close(a);
	verbs_close(a);
	reload_close(a);
	ctl_close(a->ctl);
	watch_close(a);
	history_close(a);
	startup_close(a);
	lifecycle_close(a);
	uv_close((uv_handle_t *)&a->watch_timer, NULL);

	run_out(&a->loop);
	a->program.fd = fd_close(a->program.fd);
	return spool_closed && history_free(a->history) == 0 && agentlog_free(a->agentlog) == 0 &&
	       eventlog_free(a->eventlog) == 0 && uv_loop_close(&a->loop) == 0;
}

static enum agent_end run_parts(struct agent *a)
{
	a->life = lifecycle_new(a);
	a->startup = startup_new(a);
	a->watchdog = watchdog_new();
	a->verbs = verbs_new(a);
	a->reload = reload_new(a);
	a->history = history_new(a);
	a->meter = meter_new();
	a->watch = watch_new(a);
	(void)uv_timer_init(&a->loop, &a->watch_timer);
	a->watch_timer.data = a;
	lifecycle_start(a);
	(void)uv_timer_start(&a->watch_timer, on_watch, WATCH_MS, WATCH_MS);
	start_parts(a);
	a->asks = asks_new(a);
	guardlink_start(a->link);
	a->job = agent_job_new(a);
	agent_job_start(a->job);
	a->helpers = helpers_start(a, a->given);
	(void)uv_run(&a->loop, UV_RUN_DEFAULT);
	if (!close_parts(a))
		a->c->stuck(a->c->user, a->end, a->e);
	free(a->watchdog);
	a->meter = meter_free(a->meter);
	return a->end;
}

enum agent_end agent_run(const struct agent_config *config, struct err *e)
{
	struct agent *a = xcalloc(1, sizeof(*a));
	enum agent_end end;

	a->config = *config;
	a->c = &a->config;
	a->e = e;
	if (gethostname(a->host, sizeof(a->host) - 1) < 0 || !a->host[0])
		(void)str_copy(a->host, sizeof(a->host), "localhost");
	(void)heartbeat_agent_name(config->node_name, a->host, agent_job_key(config), a->name);
	a->self.host = a->host;
	a->self.name = a->name;
	(void)setenv("UV_THREADPOOL_SIZE", POOL_THREADS, 0);
	/* Each task that runs has a descriptor here. */
	a->self.nofile = nofile_raise();
	(void)spawn_reserve(); /* before anything of the spool is open */
	if (selfcopy_make(&a->program, e) < 0 || uv_loop_init(&a->loop) < 0) {
		free(a);
		return AGENT_FAILED;
	}
	a->self.program_fd = a->program.fd;
	end = take_lock(a);
	if (end == AGENT_ENDED) {
		end = run_parts(a);
	} else {
		(void)uv_loop_close(&a->loop);
		a->program.fd = fd_close(a->program.fd);
	}
	free(a);
	return end;
}
