/* SPDX-License-Identifier: MIT */

/*
 * `compete`: what main.py did, with tenure below. `tenure import` makes tasks of command.txt,
 * `tenure agent --no-hold` runs them, this tells in between how the queues stand. The instance
 * belongs to the directory, so one that was killed goes on where it was. Tasks call it as well,
 * with
 * --begin and --end, to keep logs/uni_id.json.
 *
 * Exit codes: 0 all is done, or told to end; 1 it could not begin, or broke down; 2 usage.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/settings.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "compat/unistate.h"
#include "spool/commandset.h"
#include "spool/scan.h"
#include "spool/submit.h"
#include "spool/transit.h"

#define LOG_MAX	      (10UL << 20)
#define LOGS_KEPT     5
#define STOP_LIMIT_MS 30000

enum exit_code { EXIT_OK, EXIT_FAILED, EXIT_USAGE };

static volatile sig_atomic_t told;

struct lane {
	char name[SPEC_NAME_MAX + 1];
	unsigned int waiting, running;
};

struct compete {
	struct command_set set;
	char *self, *tenure, *dir, *log, *state;
	char instance[SPEC_NAME_MAX + 1];
	char *root;
	struct spool *sp;
	pid_t agent;
	uint64_t first; /* id of this run */
	size_t done, failed;
};

/* ---- the log ---- */

static void rotate(const struct compete *c)
{
	struct stat st;

	if (stat(c->log, &st) < 0 || (unsigned long)st.st_size < LOG_MAX)
		return;
	for (int i = LOGS_KEPT; i > 0; i--) {
		cleanup_free char *to = xasprintf("%s.%d", c->log, i);
		cleanup_free char *from =
			i > 1 ? xasprintf("%s.%d", c->log, i - 1) : xstrdup(c->log);

		(void)rename(from, to);
	}
}

static void __attribute__((format(printf, 2, 3))) say(const struct compete *c, const char *fmt, ...)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	char when[CLOCK_TEXT_MAX];
	va_list ap;
	int fd;

	strbuf_addf(&b, "%s - INFO - ", clock_format_local(clock_wall_ns(), when));
	va_start(ap, fmt);
	strbuf_addv(&b, fmt, ap);
	va_end(ap);
	strbuf_addc(&b, '\n');
	(void)fputs(strbuf_str(&b), stdout);
	(void)fflush(stdout);
	rotate(c);
	fd = open(c->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd >= 0)
		(void)fs_write_all(fd, b.data, b.len);
	(void)fd_close(fd);
}

/* ---- tenure as a child ---- */

static pid_t start(const struct compete *c, char *const *argv)
{
	pid_t self = getpid(), pid;

	(void)fflush(NULL);
	pid = fork();
	if (pid)
		return pid;
	/* A Ctrl-C reaches us, and we end it. */
	if (setpgid(0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != self)
		_exit(1);
	(void)setenv("TENURE_ROOT", c->root, 1);
	(void)setenv("TENURE_INSTANCE", c->instance, 1);
	(void)execvp(c->tenure, argv);
	(void)fprintf(stderr, "compete: cannot run %s: %s\n", c->tenure, strerror(errno));
	_exit(127);
}

static int wait_code(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return 1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static int import(const struct compete *c, const char *commands, const char *config)
{
	char *argv[] = { (char[]){ "tenure" },
			 (char[]){ "import" },
			 (char *)(uintptr_t)commands,
			 (char[]){ "--state" },
			 c->state,
			 (char[]){ "--noter" },
			 c->self,
			 config ? (char[]){ "--config" } : NULL,
			 (char *)(uintptr_t)config,
			 NULL };
	pid_t pid = start(c, argv);

	return pid < 0 ? EXIT_FAILED : wait_code(pid);
}

static bool start_agent(struct compete *c)
{
	char left[24];
	char *argv[] = { (char[]){ "tenure" },
			 (char[]){ "agent" },
			 (char[]){ "--no-hold" },
			 (char[]){ "--refresh" },
			 (char[]){ "1s" },
			 (char[]){ "--leave" },
			 str_print(left, sizeof(left), "%" PRIu64, c->set.left),
			 (char[]){ "--gpus" },
			 c->set.all_gpus ? (char[]){ "all" } : c->set.gpus,
			 NULL };

	c->agent = start(c, argv);
	return c->agent > 0;
}

/* ---- how it stands ---- */

static int count_failed(void *data, const struct task_name *n, const char *dir)
{
	struct compete *c = data;

	c->failed += n->id >= c->first;
	return 0;
}

static int count_done(void *data, const struct task_name *n, const char *dir)
{
	struct compete *c = data;

	c->done += n->id >= c->first;
	return 0;
}

static struct lane *lane_of(struct lane **lanes, size_t *n, const char *name)
{
	for (size_t i = 0; i < *n; i++)
		if (strcmp((*lanes)[i].name, name) == 0)
			return &(*lanes)[i];
	*lanes = xrealloc(*lanes, *n + 1, sizeof(**lanes));
	(*lanes)[*n] = (struct lane){ .waiting = 0 };
	(void)str_copy((*lanes)[*n].name, sizeof((*lanes)[*n].name), name);
	return &(*lanes)[(*n)++];
}

/* Each that waits or runs; with stop those that wait are cancelled. How many there are. */
static size_t look(struct compete *c, bool stop, struct lane **lanes, size_t *n_lanes)
{
	struct scan *s = scan_new(c->sp, 0);
	const struct scan_task *t;
	size_t iter = 0, n = 0;

	if (scan_update(s, NULL, NULL, NULL) < 0)
		n = 1; /* not known: it goes on */
	while ((t = scan_next(s, &iter))) {
		struct lane *l = lane_of(lanes, n_lanes, t->name.lane);

		if (t->dir == SPOOL_PENDING && stop)
			(void)transit_cancel(c->sp, &t->name, "compete was ended", NULL);
		l->waiting += t->dir == SPOOL_PENDING && !stop;
		l->running += t->dir == SPOOL_RUNNING;
		n += t->dir == SPOOL_RUNNING || !stop;
		c->first = c->first && c->first < t->name.id ? c->first : t->name.id;
	}
	(void)scan_free(s);
	return n;
}

static size_t show(struct compete *c)
{
	struct lane *lanes = NULL;
	size_t n_lanes = 0, waiting = 0, running = 0, n = look(c, false, &lanes, &n_lanes);

	c->done = c->failed = 0;
	(void)scan_done(c->sp, count_done, c, NULL);
	(void)scan_dir(c->sp, "failed", count_failed, c, NULL);
	(void)scan_dir(c->sp, "cancelled", count_failed, c, NULL);
	for (size_t i = 0; i < n_lanes; i++) {
		say(c, "queue %s: %s, %u pending", lanes[i].name,
		    lanes[i].running ? "busy" : "idle", lanes[i].waiting);
		waiting += lanes[i].waiting;
		running += lanes[i].running;
	}
	say(c, "pending: %zu, running: %zu, completed: %zu, failed: %zu", waiting, running, c->done,
	    c->failed);
	free(lanes);
	return n;
}

/* ---- the run ---- */

static void on_signal(int number)
{
	told = 1;
}

static void pause_ms(uint64_t ms)
{
	for (uint64_t end = clock_mono_ns() + ms * NS_PER_MS; !told && clock_mono_ns() < end;)
		(void)poll(NULL, 0, 50);
}

static void end_agent(struct compete *c)
{
	if (c->agent <= 0)
		return;
	(void)kill(c->agent, SIGTERM);
	(void)wait_code(c->agent);
	c->agent = 0;
}

static void stop_tasks(struct compete *c)
{
	static const char order[] = "{\"command\":\"stop_all\"}";
	uint64_t end = clock_mono_ns() + STOP_LIMIT_MS * NS_PER_MS;
	struct lane *lanes = NULL;
	size_t n_lanes = 0;

	say(c, "told to end: tasks are stopped");
	for (bool first = true; look(c, true, &lanes, &n_lanes) && clock_mono_ns() < end;
	     first = false) {
		if (first)
			(void)spool_replace(c->sp, "control.json", order, strlen(order), NULL);
		(void)poll(NULL, 0, 100);
	}
	free(lanes);
}

static int run(struct compete *c)
{
	while (!told) {
		int status;

		if (!show(c)) {
			say(c, "all tasks have ended");
			break;
		}
		pause_ms(c->set.check_ms);
		if (!told && waitpid(c->agent, &status, WNOHANG) == c->agent) {
			say(c, "the agent has ended; it is started again");
			pause_ms(1000);
			if (!told && !start_agent(c))
				return EXIT_FAILED;
		}
	}
	if (told)
		stop_tasks(c);
	end_agent(c);
	return EXIT_OK;
}

/* ---- the beginning ---- */

static char *beside(const char *self, const char *name)
{
	cleanup_free char *dir = xstrdup(self);
	static const char *const places[] = { "", "../" };

	*strrchr(dir, '/') = '\0';
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		char *path = xasprintf("%s/%s%s", dir, places[i], name);
		struct stat st;

		if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
			return path;
		free(path);
	}
	return xstrdup(name);
}

static int read_config(struct compete *c, const char *path, struct err *e)
{
	cleanup_free char *text = NULL;
	size_t len;
	int r;

	command_set_default(&c->set);
	if (!path)
		return 0;
	r = fs_read_file(path, LOG_MAX, &text, &len, e);
	return r == 0 ? command_set_parse(path, text, len, &c->set, e) : r;
}

static int find_spool(struct compete *c, struct err *e)
{
	struct settings *s = settings_new();
	uint32_t sum = 2166136261U; /* FNV-1a of the directory */
	int r;

	for (const char *p = c->dir; *p; p++)
		sum = (sum ^ (unsigned char)*p) * 16777619U;
	(void)str_print(c->instance, sizeof(c->instance), "compete-%08x", sum);
	settings_need(s, SETTING_GROUP_QUEUE);
	r = settings_load(s, NULL, e);
	if (r == 0) {
		c->root = spool_root(settings_str(s, SET_ROOT));
		r = spool_open(c->root, c->instance, SPOOL_CREATE, &c->sp, e);
	}
	(void)settings_free(s);
	return r;
}

static int prepare(struct compete *c, const char *commands, struct err *e)
{
	cleanup_free char *full = realpath(commands, NULL);
	cleanup_free char *logs = NULL, *lock = NULL;
	int fd;

	if (!full)
		return err_sys(e, errno, "%s", commands);
	*strrchr(full, '/') = '\0';
	c->dir = xstrdup(full[0] ? full : "/");
	logs = xasprintf("%s/logs", c->dir);
	lock = xasprintf("%s/.compete.lock", logs);
	c->log = xasprintf("%s/compete_gpu.log", logs);
	c->state = xasprintf("%s/uni_id.json", logs);
	if (fs_mkdirs(logs, 0755, e) < 0)
		return e->code;
	fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600); /* ours to the end */
	if (fd < 0)
		return err_sys(e, errno, "open %s", lock);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return err_set(e, -EBUSY, "compete runs in %s already", c->dir);
	return find_spool(c, e);
}

static int work(struct compete *c, const char *commands, const char *config)
{
	const struct sigaction sa = { .sa_handler = on_signal };
	struct lane *lanes = NULL;
	size_t n_lanes = 0, n = look(c, false, &lanes, &n_lanes);

	free(lanes);
	(void)sigaction(SIGTERM, &sa, NULL);
	if (!proc_ignores(SIGINT))
		(void)sigaction(SIGINT, &sa, NULL);
	if (n) {
		say(c, "going on with %zu task%s of a run that was not ended; %s is not read", n,
		    n == 1 ? "" : "s", commands);
	} else {
		int code;

		(void)submit_new_id(c->sp, &c->first, NULL); /* what ended before is not counted */
		code = import(c, commands, config);
		if (code)
			return code;
	}
	say(c, "instance %s, gpus %s, the last %" PRIu64 " left to others", c->instance,
	    c->set.all_gpus ? "all" : c->set.gpus, c->set.left);
	return start_agent(c) ? run(c) : EXIT_FAILED;
}

static int note(int argc, char **argv)
{
	struct err e = ERR_INIT;
	uint64_t code;

	if (strcmp(argv[1], "--end") == 0 && argc == 5 && str_to_u64(argv[4], &code) == 0)
		return unistate_end(argv[2], argv[3], (int)(code & 255));
	if (argc != 4)
		return EXIT_USAGE;
	if (unistate_begin(argv[2], argv[3], getppid(), &e) < 0)
		(void)fprintf(stderr, "compete: %s\n", e.text);
	return 0;
}

static int usage(void)
{
	(void)printf(
		"compete: run the tasks of a command.txt on the GPUs that have room\n\n"
		"Usage:\n  compete [COMMAND_FILE [CONFIG_FILE]]\n\n"
		"Without them command.txt and config.yaml of this directory are read. It ends\n"
		"when all is done, or by Ctrl-C, which stops the tasks. logs/ beside the\n"
		"command file has compete_gpu.log and uni_id.json.\n");
	return 0;
}

int main(int argc, char **argv)
{
	const char *commands = argc > 1 ? argv[1] : "command.txt";
	struct compete c = { .agent = 0 };
	struct err e = ERR_INIT;
	int code = EXIT_FAILED;

	if (argc > 1 && (strcmp(argv[1], "--begin") == 0 || strcmp(argv[1], "--end") == 0))
		return note(argc, argv);
	if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
		return usage();
	if (argc > 3 || commands[0] == '-') {
		(void)fprintf(stderr, "compete: it takes a command file and a config file\n");
		return EXIT_USAGE;
	}
	c.self = realpath("/proc/self/exe", NULL);
	c.tenure = beside(c.self ? c.self : "/", "tenure");

	int r = prepare(&c, commands, &e);
	cleanup_free char *own = r == 0 ? xasprintf("%s/config.yaml", c.dir) : NULL;
	const char *config = argc > 2 ? argv[2] : own && access(own, F_OK) == 0 ? own : NULL;

	if (r == 0)
		r = read_config(&c, config, &e);
	if (r == 0)
		code = work(&c, commands, config);
	else
		(void)fprintf(stderr, "compete: %s\n", e.text);
	c.sp = spool_close(c.sp);
	command_set_clear(&c.set);
	return code;
}
