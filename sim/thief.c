/* SPDX-License-Identifier: MIT */

/*
 * A thief: looks at one card every millisecond as the scripts do that grab idle GPUs, and starts a
 * program when the card looks free.
 *
 *	thief [--device N] [--every MS] [--want empty|free|either] [--free PERCENT] [--for S]
 *	      [-- COMMAND ARGS]
 *
 * empty: no process is listed. free: so much of the memory is free. Without a COMMAND it only
 * counts; with one it starts it whenever the card looks as wanted and the last one has ended, and
 * one that exits with 0 has been successful. Ends after S seconds or with SIGTERM or SIGINT, then
 * prints one JSON object: polls, the longest pause between two of them, and how often, how long at
 * most and how long in all the card looked empty, and free. A line "ready" comes before the first
 * poll. With SIGUSR1 it looks away, a line "away" says so, and with SIGUSR2 it looks again: stopped
 * by SIGSTOP it might have a lock of the driver. Runs on real machines too.
 *
 * Exit code: 0, 2 usage, 3 no driver or no device.
 */
#include <dlfcn.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "gpu/nvml_abi.h"

#define SYMBOLS(X)                                                                                 \
	X(nvmlInit_v2, (void))                                                                     \
	X(nvmlDeviceGetHandleByIndex_v2, (unsigned int, nvmlDevice_t *))                           \
	X(nvmlDeviceGetMemoryInfo, (nvmlDevice_t, nvmlMemory_t *))                                 \
	X(nvmlDeviceGetComputeRunningProcesses_v2,                                                 \
	  (nvmlDevice_t, unsigned int *, nvmlProcessInfo_v2_t *))

static struct {
#define MEMBER(name, args) nvmlReturn_t(*name) args;
	SYMBOLS(MEMBER)
} nvml;

enum { WANT_NOTHING = 0, WANT_EMPTY = 1, WANT_FREE = 2 };

/* A stretch of time in which the card looked so. */
struct windows {
	const char *name;
	bool open;
	double since_ms, longest_ms, all_ms;
	unsigned long n;
};

struct thief {
	unsigned int device;
	double every_ms, for_s, share;
	unsigned int want;
	char **command;
	nvmlDevice_t handle;
	struct windows empty, free;
	unsigned long polls, tries, successes;
	double longest_pause_ms;
	pid_t child;
};

static volatile sig_atomic_t stopped, away;

static void on_signal(int sig)
{
	if (sig == SIGUSR1 || sig == SIGUSR2)
		away = sig == SIGUSR1;
	else
		stopped = 1;
}

static double now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static int load(void)
{
	void *lib = dlopen(NVML_SONAME, RTLD_NOW);

	if (!lib) {
		(void)fprintf(stderr, "thief: %s\n", dlerror());
		return -1;
	}
#define LOOK_UP(name, args)                                                                        \
	*(void **)&nvml.name = dlsym(lib, #name);                                                  \
	if (!nvml.name) {                                                                          \
		(void)fprintf(stderr, "thief: NVML lacks %s\n", #name);                            \
		return -1;                                                                         \
	}
	SYMBOLS(LOOK_UP)
	return 0;
}

static int usage(void)
{
	(void)fputs("usage: thief [--device N] [--every MS] [--want empty|free|either]\n"
		    "             [--free PERCENT] [--for SECONDS] [-- COMMAND ARGS]\n",
		    stderr);
	return 2;
}

static unsigned int parse_want(const char *text)
{
	if (!strcmp(text, "empty"))
		return WANT_EMPTY;
	if (!strcmp(text, "free"))
		return WANT_FREE;
	return !strcmp(text, "either") ? WANT_EMPTY | WANT_FREE : WANT_NOTHING;
}

static int parse(int argc, char **argv, struct thief *t)
{
	static const struct option options[] = {
		{ "device", required_argument, NULL, 'd' },
		{ "every", required_argument, NULL, 'e' },
		{ "want", required_argument, NULL, 'w' },
		{ "free", required_argument, NULL, 'f' },
		{ "for", required_argument, NULL, 's' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'd')
			t->device = (unsigned int)strtoul(optarg, NULL, 10);
		else if (c == 'e')
			t->every_ms = strtod(optarg, NULL);
		else if (c == 'f')
			t->share = strtod(optarg, NULL) / 100;
		else if (c == 's')
			t->for_s = strtod(optarg, NULL);
		else if (c == 'w')
			t->want = parse_want(optarg);
		else
			return usage();
	}
	t->command = optind < argc ? argv + optind : NULL;
	return t->every_ms > 0 && t->want ? 0 : usage();
}

static void note(struct windows *w, bool now_open, double now)
{
	if (now_open && !w->open) {
		w->n++;
		w->since_ms = now;
	}
	if (w->open) {
		double last = now - w->since_ms;

		w->longest_ms = last > w->longest_ms ? last : w->longest_ms;
		w->all_ms += now_open ? 0 : last;
	}
	w->open = now_open;
}

static bool looks_free(struct thief *t, double now)
{
	nvmlProcessInfo_v2_t list[64];
	unsigned int n = 64;
	nvmlMemory_t mem;

	if (nvml.nvmlDeviceGetComputeRunningProcesses_v2(t->handle, &n, list) != NVML_SUCCESS ||
	    nvml.nvmlDeviceGetMemoryInfo(t->handle, &mem) != NVML_SUCCESS)
		return false;
	note(&t->empty, n == 0, now);
	note(&t->free, (double)mem.free >= (double)mem.total * t->share, now);
	return ((t->want & WANT_EMPTY) && t->empty.open) || ((t->want & WANT_FREE) && t->free.open);
}

static void reap(struct thief *t, int flags)
{
	int status;

	if (!t->child || waitpid(t->child, &status, flags) != t->child)
		return;
	t->successes += WIFEXITED(status) && WEXITSTATUS(status) == 0;
	t->child = 0;
}

static void try_it(struct thief *t)
{
	if (t->child || !t->command)
		return;
	t->tries++;
	t->child = fork();
	if (t->child == 0) {
		(void)dup2(STDERR_FILENO, STDOUT_FILENO);
		(void)execvp(t->command[0], t->command);
		_exit(127);
	}
}

static double look_away(struct thief *t, double last)
{
	note(&t->empty, false, last);
	note(&t->free, false, last);
	(void)puts("away");
	(void)fflush(stdout);
	while (away && !stopped) {
		(void)usleep(500);
		reap(t, WNOHANG);
	}
	return now_ms();
}

static void watch(struct thief *t)
{
	double begun = now_ms(), last = begun;

	while (!stopped && (t->for_s <= 0 || last - begun < t->for_s * 1e3)) {
		if (away)
			last = look_away(t, last);

		double now = now_ms();
		bool mine = looks_free(t, now);

		t->polls++;
		if (now - last > t->longest_pause_ms)
			t->longest_pause_ms = now - last;
		last = now;
		reap(t, WNOHANG);
		if (mine)
			try_it(t);
		(void)usleep((useconds_t)(t->every_ms * 1e3));
	}
	note(&t->empty, false, last);
	note(&t->free, false, last);
	reap(t, 0);
}

static void print_windows(const struct windows *w)
{
	(void)printf(", \"%s\": {\"times\": %lu, \"longest_ms\": %.2f, \"all_ms\": %.2f}", w->name,
		     w->n, w->longest_ms, w->all_ms);
}

int main(int argc, char **argv)
{
	struct thief t = { .every_ms = 1,
			   .share = 0.9,
			   .want = WANT_EMPTY | WANT_FREE,
			   .empty = { .name = "empty" },
			   .free = { .name = "free" } };
	struct sigaction stop = { .sa_handler = on_signal };
	int r = parse(argc, argv, &t);

	if (r)
		return r;
	(void)sigaction(SIGTERM, &stop, NULL);
	(void)sigaction(SIGINT, &stop, NULL);
	(void)sigaction(SIGUSR1, &stop, NULL);
	(void)sigaction(SIGUSR2, &stop, NULL);
	if (load() < 0 || nvml.nvmlInit_v2() != NVML_SUCCESS ||
	    nvml.nvmlDeviceGetHandleByIndex_v2(t.device, &t.handle) != NVML_SUCCESS)
		return 3;
	(void)puts("ready");
	(void)fflush(stdout);
	watch(&t);
	(void)printf("{\"polls\": %lu, \"longest_pause_ms\": %.2f, \"tries\": %lu, "
		     "\"successes\": %lu",
		     t.polls, t.longest_pause_ms, t.tries, t.successes);
	print_windows(&t.empty);
	print_windows(&t.free);
	(void)puts("}");
	return 0;
}
