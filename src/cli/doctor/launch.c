/* SPDX-License-Identifier: MIT */

/*
 * A real hold through all the parts: an agent of an instance of its own, started from this program,
 * that holds 1 GiB; a second later a newcomer, to whom it has to yield; then it is told to end. Its
 * events come as JSON lines.
 *
 * The newcomer is a child that starts CUDA on one device like any program, asks for memory once,
 * stays for a moment and ends. It is not one of tenure's processes, so a guard treats it like
 * anybody's.
 */

#include "cli/doctor/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/ctl_client.h"
#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/units.h"
#include "gpu/cuda.h"
#include "hold/endpoint_names.h"

#define STAY_US	     500000 /* long enough to be found in a list */
#define LIFE_LIMIT_S 30	    /* where nobody ends it and the driver hangs */

struct newcomer {
	pid_t pid; /* 0: not started */
	int fd;	   /* its report comes here */
};

struct newcomer_report {
	int32_t code;		/* 0, or negative: text says what failed */
	uint64_t alloc_wall_ns; /* just before its first allocation */
	uint64_t start_ns;	/* from its first call of the driver until then */
	char text[160];
};

static int allocate(const char *uuid, uint64_t bytes, struct newcomer_report *rep, struct err *e)
{
	struct cuda c = { 0 };
	CUcontext ctx;
	CUdeviceptr at;
	CUdevice dev;
	uint64_t start;
	int r = setenv("CUDA_VISIBLE_DEVICES", uuid, 1) < 0 ? -errno : cuda_load(&c, e);

	if (r < 0)
		return r;
	start = clock_mono_ns();
	r = cuda_result(&c, c.init(0), e, "cuInit");
	if (r == 0)
		r = cuda_result(&c, c.device_get(&dev, 0), e, "cuDeviceGet");
	if (r == 0)
		r = cuda_result(&c, c.ctx_create(&ctx, 0, dev), e, "cuCtxCreate");
	if (r < 0)
		return r;
	rep->start_ns = clock_mono_ns() - start;
	rep->alloc_wall_ns = clock_wall_ns();
	return cuda_result(&c, c.mem_alloc(&at, bytes), e, "its first allocation");
}

static _Noreturn void be_newcomer(const char *uuid, uint64_t bytes, int fd)
{
	struct newcomer_report rep = { 0 };
	struct err e = ERR_INIT;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)alarm(LIFE_LIMIT_S);
	rep.code = allocate(uuid, bytes, &rep, &e);
	(void)str_copy(rep.text, sizeof(rep.text), rep.code < 0 ? e.text : "");
	if (write(fd, &rep, sizeof(rep)) == (ssize_t)sizeof(rep)) /* whole: less than PIPE_BUF */
		(void)usleep(STAY_US);
	_exit(0);
}

/* bytes: what it allocates. This process must not have started CUDA itself. 0 or -errno. */
static int newcomer_start(const char *uuid, uint64_t bytes, struct newcomer *ret, struct err *e)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, errno, "pipe");

	cleanup_fd int read_end = ends[0], write_end = ends[1];
	pid_t pid = fork();

	if (pid < 0)
		return err_sys(e, errno, "start a newcomer");
	if (pid == 0)
		be_newcomer(uuid, bytes, write_end);
	*ret = (struct newcomer){ .pid = pid, .fd = take_fd(read_end) };
	return 0;
}

/* Wait up to limit_ms for the report, then end it in any case, and reap it. 0, -ETIMEDOUT, or
 * -EPIPE: it ended without one. */
static int newcomer_end(struct newcomer *n, int limit_ms, struct newcomer_report *ret)
{
	struct pollfd p = { .fd = n->fd, .events = POLLIN };
	int r = poll(&p, 1, limit_ms) <= 0			 ? -ETIMEDOUT
		: read(n->fd, ret, sizeof(*ret)) == sizeof(*ret) ? 0
								 : -EPIPE;

	if (r < 0)
		(void)kill(n->pid, SIGKILL);
	n->fd = fd_close(n->fd);
	while (waitpid(n->pid, NULL, 0) < 0 && errno == EINTR)
		;
	n->pid = 0;
	return r;
}

#define LAUNCH_LIMIT_MS	  30000
#define SETTLED_MS	  1200	/* after the hold: then memory in use is a witness, too */
#define NEWCOMER_LIMIT_MS 10000 /* why_it_failed() says so */
#define NOTICE_LIMIT_MS	  2000	/* the newcomer has ended by then */
#define TURN_MS		  50
#define WHO_MS		  250  /* between two questions whose the device is */
#define SOON_S		  10.0 /* a hold that is to begin by then would meet the test's */

struct launch {
	char uuid[GPU_UUID_MAX];
	char instance[32];
	char name[SOCKET_NAME_MAX];
	pid_t pid;
	int out_fd;
	char buf[8192]; /* of what it says, the line that is not complete yet */
	size_t len;
	double held_ms;
	uint64_t bytes, held_ns;
	struct newcomer newcomer;
	struct newcomer_report report;
	int newcomer_code;    /* of newcomer_start() or newcomer_end() */
	uint64_t newcomer_ns; /* it has ended; 0: it has not been there */
	bool yielded, failed, told;
	double seen_ms, freed_ms; /* seen_ms < 0: there was no hint */
	uint64_t freed_wall_ns;
	char last[256]; /* the last thing it said; after a failure, that */
	char advice[512];
	char taken[256];   /* before it held anything: by whom; empty: not */
	uint64_t asked_ns; /* that was asked last */
};

static const json_t *row_of(const json_t *devices, const char *uuid)
{
	size_t i;
	json_t *row;

	json_array_foreach(devices, i, row)
	{
		const char *s = json_get_str(row, "uuid");

		if (s && !strcmp(s, uuid))
			return row;
	}
	return NULL;
}

/* Not merely selected by nobody. */
static bool is_left(const json_t *row)
{
	const char *state = json_string_value(json_object_get(row, "state"));
	const char *code = json_string_value(json_object_get(row, "reason_code"));

	return state && code && !strcmp(state, "left") && !strcmp(code, "left");
}

/* By what the agent said of it: it, or one of its tasks, has the device or will in a moment. */
static bool is_wanted(const struct doctor *d, const char *uuid)
{
	const json_t *row = row_of(d->agent_devices, uuid);
	const char *state = json_get_str(row, "state");
	const json_t *soon = json_object_get(row, "hold_in_s");

	if (!state || !strcmp(state, "left"))
		return is_left(row);
	return strcmp(state, "idle") != 0 || json_is_string(json_object_get(row, "use")) ||
	       (json_is_number(soon) && json_number_value(soon) < SOON_S);
}

/* The next one from *at on, which is set behind it. NULL: there is none. */
static const struct gpu_device *next_idle(const struct doctor *d, uint32_t *at)
{
	const struct machine *m = d->machine;

	while (*at < m->list.n) {
		uint32_t i = (*at)++;

		if (!m->devices[i].reason[0] && !m->devices[i].ours &&
		    !is_wanted(d, m->list.d[i].uuid))
			return &m->list.d[i];
	}
	return NULL;
}

static int spawn(struct launch *l, const char *dev_dir, int out_fd)
{
	const char *const words[] = { "tenure",
				      "hold",
				      "--instance",
				      l->instance,
				      "--gpus",
				      l->uuid,
				      "--memory",
				      "1G",
				      "--leave",
				      "0",
				      "--idle-for",
				      "0",
				      "--refresh",
				      "100ms",
				      "--for",
				      "20s",
				      "--rehold-after", /* it may have yielded for somebody else */
				      "2s",
				      "--no-my-cgroup",
				      "--json",
				      "--dev-dir",
				      dev_dir,
				      NULL };
	char *argv[ARRAY_LEN(words)];
	posix_spawn_file_actions_t fa;
	int r;

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		argv[i] = words[i] ? xstrdup(words[i]) : NULL;
	(void)posix_spawn_file_actions_init(&fa);
	(void)posix_spawn_file_actions_adddup2(&fa, out_fd, STDOUT_FILENO);
	(void)posix_spawn_file_actions_adddup2(&fa, out_fd, STDERR_FILENO);
	r = posix_spawn(&l->pid, "/proc/self/exe", &fa, NULL, argv, environ);
	(void)posix_spawn_file_actions_destroy(&fa);
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		free(argv[i]);
	return -r;
}

static void take_class(struct doctor *d, const json_t *doc)
{
	const char *name = json_get_str(json_object_get(doc, "guard"), "pid_class");

	for (unsigned int c = 0; name && c < PID_CLASS_MAX; c++)
		if (strcmp(name, pid_class_name(c)) == 0)
			d->pid_class = (enum pid_class)c;
}

/* The guard learns how process lists work here at its first look at a holder. */
static void learn_class(struct doctor *d, const struct launch *l)
{
	json_t *doc = NULL;

	for (int i = 0; i < 20 && d->pid_class == PIDS_UNKNOWN; i++) {
		if (ctl_ask(l->name, CTL_STATUS, 1000, &doc, NULL, NULL) < 0)
			return;
		take_class(d, doc);
		json_decref(doc);
		(void)usleep(50000);
	}
}

/* Another instance of this user was quicker, or has the device for a task, or leaves it alone. */
static void take_owner(struct launch *l, const json_t *row)
{
	const char *state = json_get_str(row, "state");
	const char *owner = json_get_str(row, "instance");
	const char *use = json_get_str(row, "use");
	bool holds = state && (!strcmp(state, "holding") || !strcmp(state, "held"));

	if (use)
		(void)str_print(l->taken, sizeof(l->taken), "%s", use);
	else if (holds && owner && strcmp(owner, l->instance) != 0)
		(void)str_print(l->taken, sizeof(l->taken), "instance %s holds it", owner);
	else if (is_left(row))
		(void)str_copy(l->taken, sizeof(l->taken), json_get_str(row, "reason"));
}

static void ask_who_has_it(struct doctor *d, struct launch *l, uint64_t now)
{
	json_t *doc = NULL;

	if (now - l->asked_ns < WHO_MS * NS_PER_MS)
		return;
	l->asked_ns = now;
	if (ctl_ask(l->name, CTL_STATUS, 1000, &doc, NULL, NULL) < 0)
		return;
	take_class(d, doc);
	take_owner(l, row_of(json_object_get(doc, "devices"), l->uuid));
	json_decref(doc);
}

/* "2026-11-21T04:17:44.123+01:00": the reader of options takes no milliseconds. */
static uint64_t wall_of(const char *iso)
{
	char text[64];
	uint64_t ns = 0;
	unsigned int ms;

	if (!iso || strlen(iso) < 24 || sscanf(iso + 19, ".%3u", &ms) != 1)
		return 0;
	(void)str_print(text, sizeof(text), "%.19s%s", iso, iso + 23);
	return unit_parse_time(text, 0, &ns, NULL) < 0 ? 0 : ns + ms * NS_PER_MS;
}

static void take_yield(struct launch *l, const json_t *o)
{
	const json_t *seen = json_object_get(o, "hint_to_verdict_ms");

	l->yielded = true;
	l->seen_ms = json_is_number(seen) ? json_number_value(seen) : -1;
	l->freed_ms = json_get_num(o, "verdict_to_freed_ms");
	l->freed_wall_ns = wall_of(json_get_str(o, "time"));
}

static void take_line(struct doctor *d, struct launch *l, const char *line)
{
	json_t *o = json_loads(line, 0, NULL);
	const char *kind = json_get_str(o, "event");
	const char *text = json_get_str(o, "text");

	if (!l->failed)
		(void)str_copy(l->last, sizeof(l->last), text ? text : line);
	l->failed = l->failed || (kind && strcmp(kind, "failed") == 0);
	if (kind && strcmp(kind, "start") == 0 && json_is_string(json_object_get(o, "log")))
		(void)str_print(l->advice, sizeof(l->advice), "its log says more: %s",
				json_get_str(o, "log"));
	if (kind && strcmp(kind, "held") == 0 && !l->bytes) {
		l->held_ms = json_get_num(o, "took_ms");
		l->bytes = json_get_u64(o, "bytes");
		l->held_ns = clock_mono_ns();
		learn_class(d, l);
	}
	if (kind && strcmp(kind, "yield") == 0 && !l->yielded)
		take_yield(l, o);
	json_decref(o);
}

/* False: it has closed its end. */
static bool read_lines(struct doctor *d, struct launch *l)
{
	ssize_t n = read(l->out_fd, l->buf + l->len, sizeof(l->buf) - 1 - l->len);
	char *line = l->buf, *end;

	if (n <= 0)
		return n < 0 && errno == EINTR;
	l->len += (size_t)n;
	l->buf[l->len] = '\0';
	for (; (end = strchr(line, '\n')); line = end + 1) {
		*end = '\0';
		take_line(d, l, line);
	}
	l->len -= (size_t)(line - l->buf);
	(void)memmove(l->buf, line, l->len);
	if (l->len == sizeof(l->buf) - 1)
		l->len = 0; /* no line of ours is that long */
	return true;
}

/* Send the newcomer when the hold has settled, and the agent home when both have been seen. */
static void take_turn(struct doctor *d, struct launch *l, uint64_t end_ns)
{
	uint64_t now = clock_mono_ns();
	struct err e = ERR_INIT;

	if (l->held_ns && !l->newcomer_ns && !l->yielded &&
	    now - l->held_ns >= SETTLED_MS * NS_PER_MS) {
		l->newcomer_code = newcomer_start(l->uuid, l->bytes, &l->newcomer, &e);
		if (l->newcomer_code == 0)
			l->newcomer_code =
				newcomer_end(&l->newcomer, NEWCOMER_LIMIT_MS, &l->report);
		l->newcomer_ns = clock_mono_ns();
	}

	if (!l->held_ns && !l->yielded && !l->told)
		ask_who_has_it(d, l, now);

	bool over = l->yielded || l->failed || l->taken[0] ||
		    (l->newcomer_ns && now > l->newcomer_ns &&
		     now - l->newcomer_ns >= NOTICE_LIMIT_MS * NS_PER_MS);

	if (!l->told && (over || now >= end_ns)) {
		l->told = true;
		(void)kill(l->pid, SIGTERM);
	}
}

/* Its exit status, or -1 when a signal ended it. It ends by itself at the latest: --for. */
static int follow(struct doctor *d, struct launch *l)
{
	uint64_t end = clock_mono_ns() + LAUNCH_LIMIT_MS * NS_PER_MS;
	struct pollfd p = { .fd = l->out_fd, .events = POLLIN };
	int status = 0;

	while (poll(&p, 1, TURN_MS) <= 0 || read_lines(d, l))
		take_turn(d, l, end);
	while (waitpid(l->pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static const char *why_it_failed(const struct launch *l)
{
	if (l->report.text[0])
		return l->report.text;
	if (l->newcomer_code == -ETIMEDOUT)
		return "10 s after its start it had no memory yet, and no answer";
	return l->newcomer_code == -EPIPE ? "it ended without a word" : strerror(-l->newcomer_code);
}

static void report_yield(struct doctor *d, const struct launch *l)
{
	double left_ms = ((double)l->report.alloc_wall_ns - (double)l->freed_wall_ns) / 1e6;
	char seen[80] = "a newcomer was seen, ";

	if (l->seen_ms >= 0)
		(void)str_print(seen, sizeof(seen),
				"a newcomer was seen %.0f ms after its first open, ", l->seen_ms);
	if (!l->newcomer_ns) {
		d->launch = LAUNCH_NONE;
		doctor_find(d, FINDING_NOTE, "yield", "try again when nobody is about to start",
			    "not measured: it yielded to somebody else before the test");
	} else if (l->newcomer_code < 0 || l->report.code < 0) {
		d->launch = LAUNCH_FAILED;
		doctor_find(d, FINDING_FAIL, "yield", l->advice, "the test's newcomer failed: %s",
			    why_it_failed(l));
	} else if (!l->yielded) {
		d->launch = LAUNCH_FAILED;
		doctor_find(d, FINDING_FAIL, "yield", l->advice,
			    "a newcomer started, took %.0f ms to its first allocation, and was not "
			    "noticed",
			    (double)l->report.start_ns / 1e6);
	} else if (left_ms < 0) {
		d->late = true;
		doctor_find(d, FINDING_WARN, "yield",
			    "newcomers that take nearly all of a GPU may have to ask twice",
			    "%sand all was free %.0f ms after its first allocation began", seen,
			    -left_ms);
	} else {
		doctor_find(d, FINDING_OK, "yield", NULL,
			    "%sall was free %.1f ms later, %.0f ms before its first allocation",
			    seen, l->freed_ms, left_ms);
	}
}

static void report(struct doctor *d, const struct launch *l, int status)
{
	char size[UNIT_TEXT_MAX];

	if (!l->bytes && !l->failed && l->yielded && status == CMD_OK) {
		doctor_find(d, FINDING_WARN, "launch", "try again when nobody is about to start",
			    "somebody else came to %s meanwhile, so nothing was tried", l->uuid);
		return;
	}
	if (!l->bytes || status != CMD_OK) {
		d->launch = LAUNCH_FAILED;
		doctor_find(d, FINDING_FAIL, "launch", l->advice[0] ? l->advice : NULL,
			    "a hold on %s did not come about: %s", l->uuid,
			    l->last[0] ? l->last : "it said nothing");
		return;
	}
	d->launch = LAUNCH_OK;
	doctor_find(d, FINDING_OK, "launch", NULL, "held %s on %s in %.0f ms, and let go of it",
		    unit_format_gib(l->bytes, size), l->uuid, l->held_ms);
	report_yield(d, l);
}

/* Hold on dev, and tell how that was. False: it was taken, by whom is in l. */
static bool launch_on(struct doctor *d, const struct gpu_device *dev, struct launch *l)
{
	int ends[2], status = -1;

	*l = (struct launch){ 0 };
	(void)str_copy(l->uuid, sizeof(l->uuid), dev->uuid);
	(void)str_print(l->instance, sizeof(l->instance), "doctor-%d", (int)getpid());
	(void)agent_socket_name(l->name, sizeof(l->name), l->instance, d->dev_dir, d->ctx->job);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return true;

	int r = spawn(l, d->dev_dir, ends[1]);

	(void)fd_close(ends[1]);
	l->out_fd = ends[0];
	if (r == 0)
		status = follow(d, l);
	(void)fd_close(l->out_fd);
	if (r == 0 && l->taken[0] && !l->bytes)
		return false;
	if (r == 0) {
		report(d, l, status);
		return true;
	}
	d->launch = LAUNCH_FAILED;
	doctor_find(d, FINDING_FAIL, "launch", NULL, "cannot start tenure hold: %s", strerror(-r));
	return true;
}

void doctor_check_launch(struct doctor *d)
{
	const struct gpu_device *dev;
	struct launch l = { 0 };
	uint32_t at = 0;

	d->launch = LAUNCH_NONE;
	while ((dev = next_idle(d, &at)))
		if (launch_on(d, dev, &l))
			return;
	if (l.taken[0])
		doctor_find(d, FINDING_WARN, "launch", "try again when one is idle",
			    "%s was idle and was taken meanwhile: %s", l.uuid, l.taken);
	else
		doctor_find(d, FINDING_WARN, "launch", "try again when one is idle",
			    d->agent_devices ? "no device is idle that the agent does not want or "
					       "leave to others, so none was tried"
					     : "no device is idle, so none was tried");
}
