/* SPDX-License-Identifier: MIT */

/*
 * A real hold through all the parts: an agent of an instance of its own, started from this program,
 * that holds 256 MiB for two seconds. Its events come as JSON lines.
 */

#include "cli/doctor_launch.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/ctl_client.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "hold/names.h"

#define LAUNCH_LIMIT_MS 30000
#define ADVICE		"tenure status --instance doctor, and the agent's log, tell more"

struct launch {
	char uuid[GPU_UUID_MAX];
	char instance[32];
	char name[SOCKET_NAME_MAX];
	pid_t pid;
	FILE *out;
	double held_ms;
	uint64_t bytes;
	char last[256]; /* the last thing it said */
};

static const struct gpu_device *find_idle(const struct machine *m)
{
	for (uint32_t i = 0; m && i < m->list.n; i++)
		if (!m->devices[i].reason[0] && !m->devices[i].ours)
			return &m->list.d[i];
	return NULL;
}

static int spawn(struct launch *l, const char *dev_dir, int out_fd)
{
	const char *const words[] = { "tenure",	    "hold",	"--instance", l->instance, "--gpus",
				      l->uuid,	    "--memory", "256M",	      "--leave",   "0",
				      "--idle-for", "0",	"--refresh",  "100ms",	   "--for",
				      "3s",	    "--json",	"--dev-dir",  dev_dir,	   NULL };
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

/* The guard learns how process lists work here at its first look at a holder. */
static void learn_class(struct doctor *d, const struct launch *l)
{
	json_t *doc = NULL;

	for (int i = 0; i < 20 && d->pid_class == PIDS_UNKNOWN; i++) {
		if (ctl_ask(l->name, CTL_STATUS, 1000, &doc, NULL, NULL) < 0)
			return;

		const char *name = json_string_value(
			json_object_get(json_object_get(doc, "guard"), "pid_class"));

		for (unsigned int c = 0; name && c < PID_CLASS_MAX; c++)
			if (strcmp(name, pid_class_name(c)) == 0)
				d->pid_class = (enum pid_class)c;
		json_decref(doc);
		(void)usleep(50000);
	}
}

static void take_line(struct doctor *d, struct launch *l, const char *line)
{
	json_t *o = json_loads(line, 0, NULL);
	const char *kind = json_string_value(json_object_get(o, "event"));
	const char *text = json_string_value(json_object_get(o, "text"));

	(void)str_copy(l->last, sizeof(l->last), text ? text : line);
	l->last[strcspn(l->last, "\n")] = '\0';
	if (kind && strcmp(kind, "held") == 0) {
		l->held_ms = json_number_value(json_object_get(o, "took_ms"));
		l->bytes = (uint64_t)json_integer_value(json_object_get(o, "bytes"));
		learn_class(d, l);
	}
	json_decref(o);
}

/* Its exit status, or -1 when it had to be killed. Ends by itself: --for. */
static int follow(struct doctor *d, struct launch *l)
{
	uint64_t end = clock_mono_ns() + LAUNCH_LIMIT_MS * NS_PER_MS;
	char line[2048];
	int status = 0;

	for (;;) {
		struct pollfd p = { .fd = fileno(l->out), .events = POLLIN };
		uint64_t now = clock_mono_ns();

		/* Lines come one write each, so that fgets() finds a whole one or waits briefly. */
		if (now >= end || poll(&p, 1, (int)((end - now) / NS_PER_MS) + 1) <= 0) {
			(void)kill(l->pid, SIGTERM);
			break;
		}
		if (!fgets(line, sizeof(line), l->out))
			break;
		take_line(d, l, line);
	}
	while (waitpid(l->pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void report(struct doctor *d, const struct launch *l, int status)
{
	if (l->bytes && status == CMD_OK)
		doctor_find(d, FINDING_OK, "launch", NULL,
			    "held %.0f MiB on %s in %.0f ms, and let go of it",
			    (double)l->bytes / (1024.0 * 1024.0), l->uuid, l->held_ms);
	else
		doctor_find(d, FINDING_FAIL, "launch", ADVICE,
			    "a hold on %s did not come about: %s", l->uuid,
			    l->last[0] ? l->last : "it said nothing");
}

void doctor_check_launch(struct doctor *d)
{
	const struct gpu_device *dev = find_idle(d->machine);
	struct launch l = { 0 };
	int ends[2];

	if (!dev) {
		doctor_find(d, FINDING_WARN, "launch", "try again when one is idle",
			    "no device is idle, so none was tried");
		return;
	}
	(void)str_copy(l.uuid, sizeof(l.uuid), dev->uuid);
	(void)str_print(l.instance, sizeof(l.instance), "doctor-%d", (int)getpid());
	(void)agent_socket_name(l.name, sizeof(l.name), l.instance, d->dev_dir);
	if (pipe(ends) < 0)
		return;

	int r = spawn(&l, d->dev_dir, ends[1]);

	(void)fd_close(ends[1]);
	l.out = fdopen(ends[0], "r");
	if (r < 0 || !l.out) {
		doctor_find(d, FINDING_FAIL, "launch", ADVICE, "cannot start tenure hold: %s",
			    strerror(-r));
		return;
	}
	r = follow(d, &l);
	(void)fclose(l.out);
	report(d, &l, r);
}
