/* SPDX-License-Identifier: MIT */

/*
 * `occupy on` forks twice and waits at a pipe for one struct news: tenure has begun, or why not. A
 * pipe that ends without one means that the daemon died.
 *
 * The log keeps the lines of the original while it waits for GPUs: what each of them uses, and
 * whether they are ready. What happens to a GPU later is told in tenure's words behind "GPU N:".
 */
#include "compat/occupy_daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/nofile.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "compat/hold_child.h"
#include "gpu/device.h"

#define ARGS_MAX       32
#define GRANULE	       (2ULL * MIB) /* memory comes in these; never less than what was asked for */
#define FIRST_LOOK_MS  300	    /* the guard has looked at every GPU by then */
#define NEWS_FD	       3
#define PHASE_SLACK_MS 200 /* the status is some time behind */
#define START_LIMIT_MS 30000

/* What an occupied GPU does in turn. */
enum phase { PHASE_NONE, PHASE_COMPUTE, PHASE_SLEEP };

struct daemon {
	const struct occupy_wants *wants;
	struct hold_child *child;
	int log, news;
	bool stopping;
	char trouble[512];   /* the last line that was no event; of the end, once it is told to */
	uint64_t refresh_ns; /* when the next look is due */
	struct {
		enum phase phase; /* as last told */
		uint64_t since_ns;
	} phases[GPU_DEVICES_MAX]; /* by the places in the status */
};

struct news {
	int32_t pid; /* 0: it did not start */
	char text[512];
};

static void __attribute__((format(printf, 3, 4)))
say(struct daemon *d, const char *level, const char *fmt, ...)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	char time[CLOCK_TEXT_MAX];
	va_list ap;

	strbuf_addf(&b, "%s - %s - ", clock_format_local(clock_wall_ns(), time), level);
	va_start(ap, fmt);
	strbuf_addv(&b, fmt, ap);
	va_end(ap);
	strbuf_addc(&b, '\n');
	/* A full disk is no reason to hold any longer or shorter. */
	(void)fs_write_all(d->log, b.data, b.len);
}

static void send_news(struct daemon *d, pid_t pid, const char *text)
{
	struct news n = { .pid = (int32_t)pid };

	if (d->news < 0)
		return;
	(void)str_copy(n.text, sizeof(n.text), text);
	(void)fs_write_all(d->news, &n, sizeof(n));
	d->news = fd_close(d->news);
}

/* -------- what tenure says -------- */

static void on_event(void *user, const char *kind, const char *text, const json_t *event)
{
	static const char *const warnings[] = { "failed", "lost", "blind" };
	const json_t *gpu = json_object_get(event, "gpu");
	const char *level = "INFO", *what = strstr(text, "  ");
	struct daemon *d = user;

	if (strcmp(kind, "start") == 0) {
		/* It was not refused, as it may be until here: what was there before goes now. */
		if (d->news >= 0 && ftruncate(d->log, 0) < 0)
			say(d, "WARNING", "The log could not be emptied: %s", strerror(errno));
		say(d, level, "%s", text);
		hold_child_tick_in(d->child, d->wants->refresh_ms < FIRST_LOOK_MS
						     ? d->wants->refresh_ms
						     : FIRST_LOOK_MS);
		send_news(d, getpid(), "");
		return;
	}
	if (strcmp(kind, "device") == 0 || strcmp(kind, "gone") == 0 ||
	    strcmp(kind, "starting") == 0 || (strcmp(kind, "state") == 0 && d->stopping))
		return;
	for (size_t i = 0; i < ARRAY_LEN(warnings); i++)
		if (strcmp(kind, warnings[i]) == 0)
			level = "WARNING";
	if (gpu && what) /* "gpu 0  held ..." */
		say(d, level, "GPU %.*s: %s", (int)(what - text - 4), text + 4, what + 2);
	else
		say(d, level, "%s", text);
	/* Which phase it is in, the status knows by then. */
	if (strcmp(kind, "held") == 0 && !d->stopping)
		hold_child_tick_in(d->child, FIRST_LOOK_MS);
}

static void on_line(void *user, const char *line)
{
	struct daemon *d = user;

	(void)str_copy(d->trouble, sizeof(d->trouble), line);
	say(d, "ERROR", "%s", line);
}

static void on_stop(void *user)
{
	struct daemon *d = user;

	d->stopping = true;
	d->trouble[0] = '\0';
	say(d, "INFO", "Told to stop, freeing everything");
}

/* -------- the look at every refresh -------- */

static bool is_held(const char *state)
{
	return strcmp(state, "held") == 0 || strcmp(state, "holding") == 0;
}

static void device_label(const json_t *dev, char label[UNIT_TEXT_MAX])
{
	const json_t *mig = json_object_get(dev, "mig");

	(void)str_print(label, UNIT_TEXT_MAX, "GPU %d",
			(int)json_integer_value(json_object_get(dev, "gpu")));
	if (json_is_integer(mig))
		(void)str_print(label + strlen(label), UNIT_TEXT_MAX - strlen(label), "/%d",
				(int)json_integer_value(mig));
}

/* One GPU that is not held. True: it is ready. */
static bool say_device(struct daemon *d, const json_t *dev, const char *state)
{
	const char *reason = json_get_str(dev, "reason");
	const json_t *used = json_object_get(dev, "memory_used_bytes");
	double gb = (double)json_integer_value(used) / (double)GIB;
	bool idle = strcmp(state, "idle") == 0;
	char label[UNIT_TEXT_MAX];

	device_label(dev, label);
	if (!json_is_null(used))
		say(d, "INFO", "%s: %.2fGB used (threshold: %gGB)", label, gb,
		    d->wants->threshold_gb);
	if (!idle && (json_is_null(used) || gb < d->wants->threshold_gb))
		say(d, "INFO", "%s: %s", label, reason ? reason : state);
	return idle;
}

static void say_ready(struct daemon *d, bool ready, double wait_s)
{
	char time[UNIT_TEXT_MAX];

	say(d, "INFO", "GPU ready check result: %s", ready ? "True" : "False");
	if (!ready)
		say(d, "INFO", "GPU(s) not ready (high usage detected), waiting...");
	else if (wait_s > 0)
		say(d, "INFO", "GPU(s) ready, occupying in %s unless that changes",
		    unit_format_duration((uint64_t)(wait_s * 1e3), time));
}

/* What an occupied GPU does now. */
static void say_phase(struct daemon *d, size_t i, const json_t *dev, uint64_t now)
{
	const char *load = json_get_str(dev, "load");
	const char *state = json_get_str(dev, "state");
	bool held = state && strcmp(state, "held") == 0;
	bool computes = load && strcmp(load, "none") != 0;
	enum phase phase = PHASE_NONE;
	char label[UNIT_TEXT_MAX], length[UNIT_TEXT_MAX];

	if (held && (computes || d->phases[i].phase != PHASE_NONE))
		phase = computes ? PHASE_COMPUTE : PHASE_SLEEP;
	if (phase == d->phases[i].phase)
		return;
	d->phases[i].phase = phase;
	d->phases[i].since_ns = now;
	device_label(dev, label);
	if (phase == PHASE_SLEEP)
		say(d, "INFO", "%s: compute phase over, sleeping for %s; the memory is kept", label,
		    unit_format_duration(d->wants->sleep_ms, length));
	else if (phase == PHASE_COMPUTE && d->wants->sleep_ms)
		say(d, "INFO", "%s: compute phase, for %s", label,
		    unit_format_duration(d->wants->compute_ms, length));
	else if (phase == PHASE_COMPUTE)
		say(d, "INFO", "%s: compute phase, without a pause", label);
}

/* The end of the first phase that ends; what is late is looked at every second. */
static uint64_t next_phase(const struct daemon *d, uint64_t now)
{
	uint64_t first = UINT64_MAX;

	for (size_t i = 0; d->wants->sleep_ms && i < ARRAY_LEN(d->phases); i++) {
		uint64_t ms = d->phases[i].phase == PHASE_SLEEP ? d->wants->sleep_ms
								: d->wants->compute_ms;
		uint64_t end = d->phases[i].since_ns + (ms + PHASE_SLACK_MS) * NS_PER_MS;

		if (d->phases[i].phase == PHASE_NONE)
			continue;
		end = end > now ? end : now + NS_PER_S;
		first = end < first ? end : first;
	}
	return first;
}

static bool computes(const struct daemon *d)
{
	return !d->wants->no_compute && d->wants->compute_ms;
}

static bool is_picked(const struct gpu_picks *picks, const json_t *dev)
{
	const char *uuid = json_get_str(dev, "uuid");
	bool picked = picks->all;

	for (size_t i = 0; i < picks->n; i++) {
		const struct gpu_pick *p = &picks->picks[i];

		picked = picked || (p->by_uuid ? uuid && str_has_prefix(uuid, p->uuid)
					       : p->index == json_get_u64(dev, "gpu"));
	}
	return picked;
}

/* Those of ours that another instance of the same user has: they come when that one lets go. */
static void say_others(struct daemon *d, const json_t *status)
{
	struct gpu_picks picks;
	const json_t *dev;
	char label[UNIT_TEXT_MAX];
	size_t i;

	if (unit_parse_gpus(d->wants->gpus, &picks, NULL) < 0)
		return;
	json_array_foreach(json_object_get(status, "devices"), i, dev)
	{
		const char *state = json_get_str(dev, "state");
		const char *instance = json_get_str(dev, "instance");

		if (!state || !instance || strcmp(instance, OCCUPY_INSTANCE) == 0 ||
		    !is_picked(&picks, dev))
			continue;
		device_label(dev, label);
		say(d, "INFO", "%s: tenure's instance %s has it (%s)", label, instance, state);
	}
	gpu_picks_clear(&picks);
}

static void say_waiting(struct daemon *d, const json_t *status)
{
	bool ready = true, waits = false;
	const json_t *dev;
	double wait_s = 0;
	size_t i;

	json_array_foreach(json_object_get(status, "devices"), i, dev)
	{
		const char *state = json_get_str(dev, "state");
		const char *instance = json_get_str(dev, "instance");

		if (!state || !instance || strcmp(instance, OCCUPY_INSTANCE) != 0 || is_held(state))
			continue;
		waits = true;
		ready = say_device(d, dev, state) && ready;
		wait_s = fmax(wait_s, json_get_num(dev, "hold_in_s"));
	}
	if (waits)
		say_ready(d, ready, wait_s);
	say_others(d, status);
}

static void on_tick(void *user)
{
	struct daemon *d = user;
	json_t *status = hold_child_status(d->child), *dev;
	uint64_t now = clock_mono_ns(), next;
	size_t i;

	if (now >= d->refresh_ns) {
		d->refresh_ns = now + d->wants->refresh_ms * NS_PER_MS;
		say_waiting(d, status);
	}
	json_array_foreach(json_object_get(status, "devices"), i, dev)
	{
		const char *instance = json_get_str(dev, "instance");

		if (computes(d) && i < ARRAY_LEN(d->phases) && instance &&
		    strcmp(instance, OCCUPY_INSTANCE) == 0)
			say_phase(d, i, dev, now);
	}
	json_decref(status);
	next = next_phase(d, now);
	next = next < d->refresh_ns ? next : d->refresh_ns;
	hold_child_tick_in(d->child, (next - now) / NS_PER_MS + 1);
}

/* -------- its life -------- */

struct args {
	size_t n;
	char *v[ARGS_MAX];
};

static void add(struct args *a, const char *name, char *value)
{
	a->v[a->n++] = xstrdup(name);
	if (value)
		a->v[a->n++] = value;
}

static char *ms_text(uint64_t ms)
{
	return xasprintf("%" PRIu64 "ms", ms);
}

static void fill_args(const struct occupy_wants *w, struct args *a)
{
	uint64_t bytes = (uint64_t)ceil(w->memory_gb * (double)GIB);
	double threshold = w->threshold_gb > 0 ? w->threshold_gb : 1;

	bytes = (bytes + GRANULE - 1) / GRANULE * GRANULE;
	add(a, "--gpus", xstrdup(w->gpus));
	add(a, "--memory", xasprintf("%" PRIu64 "M", (uint64_t)(bytes / MIB)));
	add(a, "--idle-below", xasprintf("%" PRIu64 "K", (uint64_t)ceil(threshold * (double)MIB)));
	add(a, "--idle-for", ms_text(w->at_once ? 0 : w->wait_ms));
	add(a, "--refresh", ms_text(w->refresh_ms));
	if (!w->at_once) {
		add(a, "--together", NULL);
		add(a, "--rehold-after", ms_text(w->wait_ms));
	}
	if (w->no_compute || w->compute_ms == 0) {
		add(a, "--load", xstrdup("none"));
	} else if (w->sleep_ms > 0) {
		add(a, "--work", ms_text(w->compute_ms));
		add(a, "--rest", ms_text(w->sleep_ms));
	}
}

static void args_clear(struct args *a)
{
	for (size_t i = 0; i < a->n; i++)
		free(a->v[i]);
}

static int open_std(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0 || chdir("/") < 0)
		return -errno;
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (dup2(null, fd) < 0)
			return -errno;
	return 0;
}

/* Nothing of the caller's stays open, its lock included, but the pipe for the news. */
static int close_others(int news)
{
	int fd = dup3(news, NEWS_FD, O_CLOEXEC);

	if (news == NEWS_FD)
		fd = news;
	nofile_close(NEWS_FD + 1, ~0U);
	return fd;
}

static int run(struct daemon *d, const struct occupy_files *f, struct err *e)
{
	static const struct hold_child_ops ops = { on_event, on_line, on_tick, on_stop, true };
	struct args a = { 0 };
	int r = open_std();

	if (r < 0)
		return err_sys(e, -r, "/dev/null");
	d->log = open(f->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (d->log < 0)
		return err_sys(e, errno, "open %s", f->log);
	d->child = hold_child_new(OCCUPY_INSTANCE, e);
	if (!d->child)
		return e->code;
	r = occupy_files_claim(f, e);
	if (r == 0) {
		fill_args(d->wants, &a);
		r = hold_child_run(d->child, a.v, &ops, d, e);
		args_clear(&a);
		occupy_files_unclaim(f);
	}
	(void)hold_child_free(d->child);
	return r;
}

static void __attribute__((noreturn))
be_daemon(const struct occupy_wants *w, const struct occupy_files *f, int news)
{
	struct daemon d = { .wants = w, .log = -1, .news = close_others(news) };
	struct err e = ERR_INIT;
	int r = run(&d, f, &e);

	if (r < 0)
		(void)str_copy(d.trouble, sizeof(d.trouble), e.text);
	if (r == 0)
		say(&d, "INFO", OCCUPY_FREED);
	else if (d.stopping)
		say(&d, "WARNING", "Stopped; whether all GPU memory is free is not known: %s",
		    d.trouble[0] ? d.trouble
				 : "tenure did not say so; what is left goes by itself in at "
				   "most 10 s");
	else
		say(&d, "ERROR", "Stopped: %s", d.trouble[0] ? d.trouble : "tenure ended");
	send_news(&d, 0, d.trouble[0] ? d.trouble : "tenure ended while it started");
	_exit(r == 0 ? 0 : 1);
}

static int wait_news(int fd, pid_t *ret_pid, struct err *e)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct news n;
	ssize_t got;

	if (poll(&p, 1, START_LIMIT_MS) == 0)
		return err_set(
			e, -ETIMEDOUT,
			"tenure does not come up; it goes on trying. \"occupy status\" shows "
			"how far it is, \"occupy off\" ends it");
	do
		got = read(fd, &n, sizeof(n));
	while (got < 0 && errno == EINTR);
	if (got != sizeof(n))
		return err_set(e, -EPIPE, "it ended while it started; its log may tell why");
	if (!n.pid)
		return err_set(e, -EIO, "%s", n.text);
	*ret_pid = n.pid;
	return 0;
}

int occupy_daemon_start(const struct occupy_wants *w, const struct occupy_files *f, pid_t *ret_pid,
			struct err *e)
{
	int ends[2], status;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, errno, "pipe");
	(void)fflush(NULL);

	cleanup_fd int read_end = ends[0];
	pid_t pid = fork();

	if (pid == 0) {
		(void)fd_close(read_end);
		if (setsid() < 0)
			_exit(1);
		pid = fork();
		if (pid == 0)
			be_daemon(w, f, ends[1]);
		_exit(pid < 0);
	}
	(void)fd_close(ends[1]);
	if (pid < 0)
		return err_sys(e, errno, "fork");
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return wait_news(read_end, ret_pid, e);
}
