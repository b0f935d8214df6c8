/* SPDX-License-Identifier: MIT */

/*
 * An agent for tests: starts a fork server and shims, says what it is told on standard input, one
 * order a line, and prints what it hears as one JSON object a line.
 *
 *	taskdrv EXE
 *	  fork_server                     start a fork server (again)
 *	  start {"token": .., "argv": [..], "log": PATH, "run_dir": .., "record_dir": .., ...}
 *	  go TOKEN [NAME=VALUE ..]        cancel TOKEN    ask TOKEN    ack TOKEN    drop TOKEN
 *	  stop TOKEN SIGNAL GRACE_MS SCOPE                gpu TOKEN BYTES PERMILLE
 *	  adopt TOKEN RECORD_DIR PID START                each
 *	  orphans TOKEN SIGNAL GRACE_MS   ends them, and says when
 *	  sweep gpu|python list|end PATTERN|- [PID ..]
 *	taskdrv EXE bench N WIDE PROGRAM DIR [go]   microseconds per task, beside posix_spawn
 */

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "task/adopt.h"
#include "task/orphans.h"
#include "task/shim_client.h"
#include "task/sweep.h"

#define TASKS_MAX 256
#define WIDE_MAX  16

struct task {
	char token[TASK_TOKEN_MAX];
	int conn;
};

struct driver {
	int exe_fd;
	char key[32]; /* as of a spool of its own: the orphans of others are not its to end */
	struct fork_server fork_server;
	struct task tasks[TASKS_MAX];
	size_t n;
};

static void put(json_t *o)
{
	cleanup_free char *text = json_dumps(o, JSON_COMPACT);

	puts(text ? text : "{}");
	(void)fflush(stdout);
	json_decref(o);
}

static void say(const char *event, const char *token, int code, const char *text)
{
	put(json_pack("{ss ss si ss}", "event", event, "token", token, "code", code, "text", text));
}

static struct task *find(struct driver *d, const char *token)
{
	for (size_t i = 0; i < d->n; i++)
		if (d->tasks[i].conn >= 0 && strcmp(d->tasks[i].token, token) == 0)
			return &d->tasks[i];
	return NULL;
}

static void add_task(struct driver *d, const char *token, int conn)
{
	if (d->n == TASKS_MAX)
		exit(3);
	(void)str_copy(d->tasks[d->n].token, TASK_TOKEN_MAX, token);
	d->tasks[d->n++].conn = conn;
}

/* ---- orders ---- */

static const char **texts_of(const json_t *array, uint32_t *ret_n)
{
	size_t n = json_array_size(array);
	const char **v = xcalloc(n + 1, sizeof(*v));

	for (size_t i = 0; i < n; i++)
		v[i] = json_string_value(json_array_get(array, i));
	*ret_n = (uint32_t)n;
	return v;
}

static const char *text_in(const json_t *o, const char *name)
{
	return json_string_value(json_object_get(o, name));
}

static uint64_t num_in(const json_t *o, const char *name, uint64_t otherwise)
{
	const json_t *v = json_object_get(o, name);

	return json_is_integer(v) ? (uint64_t)json_integer_value(v) : otherwise;
}

static void start(struct driver *d, const char *text)
{
	json_t *o = json_loads(text, 0, NULL);
	struct err e = ERR_INIT;

	if (!o)
		exit(3);

	struct launch_spec s = {
		.token = text_in(o, "token"),
		.title = text_in(o, "title"),
		.shown = text_in(o, "shown"),
		.node = text_in(o, "node"),
		.cwd = text_in(o, "cwd"),
		.run_dir = text_in(o, "run_dir"),
		.record_dir = text_in(o, "record_dir"),
		.script_name = text_in(o, "script_name"),
		.cgroup = text_in(o, "cgroup"),
		.heartbeat_dir = text_in(o, "heartbeat_dir"),
		.heartbeat_file = text_in(o, "heartbeat_file"),
		.heartbeat_agent = text_in(o, "heartbeat_agent"),
		.claim = text_in(o, "claim"),
		.script = text_in(o, "script"),
		.log_limit = num_in(o, "log_limit", 0),
		.timeout_ms = num_in(o, "timeout_ms", 0),
		.heartbeat_ms = num_in(o, "heartbeat_ms", 0),
		.fence_timeout_ms = num_in(o, "fence_timeout_ms", 0),
		.grace_ms = (uint32_t)num_in(o, "grace_ms", 2000),
		.stop_signal = (int32_t)num_in(o, "stop_signal", 0),
		.umask = (uint32_t)num_in(o, "umask", 022),
		.flags = (uint32_t)num_in(o, "flags", 0),
	};
	cleanup_free const char **argv = texts_of(json_object_get(o, "argv"), &s.n_argv);
	cleanup_free const char **env = texts_of(json_object_get(o, "env"), &s.n_env);

	s.argv = argv;
	s.env = env;
	s.script_bytes = s.script ? strlen(s.script) : 0;

	cleanup_fd int log = open(text_in(o, "log"), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	int conn = shim_client_start(&d->fork_server, &s, log, &e);

	if (conn < 0)
		say("failed", s.token ? s.token : "", conn, e.text);
	else
		add_task(d, s.token, conn);
	json_decref(o);
}

static void adopt(struct driver *d, const char *token, char *const *w)
{
	static const char *const names[] = { "lives", "ended", "lost", "other" };
	struct shim_id id = { .proc.pid = (pid_t)strtol(w[1], NULL, 10),
			      .proc.start = strtoull(w[2], NULL, 10) };
	struct adopted a;
	struct err e = ERR_INIT;
	int r = adopt_find(token, &id, w[0], &a, &e);

	if (r < 0) {
		say("adopt-failed", token, r, e.text);
		return;
	}
	if (a.fd >= 0)
		add_task(d, token, a.fd);
	say("adopt", token, (int)a.record.end.outcome, names[a.found]);
}

static void put_each(void *data, const char *token)
{
	say("each", token, 0, "");
}

static void end_orphans(const char *token, char *const *w)
{
	struct orphans *o = orphans_begin(token, (int)strtol(w[0], NULL, 10),
					  (uint32_t)strtoul(w[1], NULL, 10));
	int r, first = -1;

	/* Some process that is long in execve() says nothing: again, as an agent does. */
	while ((r = orphans_step(o)) > 0 || r == -EAGAIN) {
		first = first < 0 && r > 0 ? r : first;
		(void)usleep(5000);
	}
	say("orphans", token, first < 0 ? 0 : first, r < 0 ? strerror(-r) : "gone");
	orphans_free(o);
}

/* sweep gpu|python list|end PATTERN|- [PID ..] */
static void sweep(char *const *w)
{
	pid_t pids[32];
	const char *spare[] = { w[2] };
	struct sweep_rules rules = { .what = strcmp(w[0], "gpu") == 0 ? SWEEP_GPU : SWEEP_PYTHON,
				     .pids = pids,
				     .spare = spare,
				     .n_spare = strcmp(w[2], "-") != 0 };
	struct sweep_list list = { 0 };

	for (size_t i = 3; w[i] && rules.n_pids < ARRAY_LEN(pids); i++)
		pids[rules.n_pids++] = (pid_t)strtol(w[i], NULL, 10);
	(void)sweep_look(&rules, &list, NULL);
	for (size_t i = 0; i < list.n; i++)
		say("sweep", "", list.items[i].proc.id.pid,
		    sweep_verdict_text(list.items[i].verdict));
	if (strcmp(w[1], "end") == 0) {
		struct sweeper *s = sweep_begin(&rules, &list, SIGTERM, 300);

		while (sweep_step(s) > 0)
			(void)usleep(5000);
		sweep_free(s);
	}
	sweep_list_clear(&list);
	say("swept", "", 0, "");
}

static size_t count(char *const *w)
{
	size_t n = 0;

	while (w[n])
		n++;
	return n;
}

static int to_task(struct task *t, const char *verb, char *const *w)
{
	if (strcmp(verb, "go") == 0)
		return shim_client_go(t->conn, "GPU 0 (test)", (const char *const *)w, count(w));
	if (strcmp(verb, "cancel") == 0)
		return shim_client_cancel(t->conn);
	if (strcmp(verb, "ask") == 0)
		return shim_client_ask(t->conn);
	if (strcmp(verb, "ack") == 0)
		return shim_client_ack(t->conn);
	if (strcmp(verb, "stop") == 0)
		return shim_client_stop(t->conn, (int)strtol(w[0], NULL, 10),
					(enum stop_scope)strtol(w[2], NULL, 10),
					(uint32_t)strtoul(w[1], NULL, 10));
	if (strcmp(verb, "gpu") == 0)
		return shim_client_gpu(t->conn, strtoull(w[0], NULL, 10),
				       (uint32_t)strtoul(w[1], NULL, 10));
	if (strcmp(verb, "drop") == 0)
		t->conn = fd_close(t->conn);
	return 0;
}

static void new_fork_server(struct driver *d)
{
	struct err e = ERR_INIT;

	if (fork_server_start(&d->fork_server, d->exe_fd, &e) < 0)
		say("failed", "", e.code, e.text);
	else
		say("fork_server", "", d->fork_server.pid, "");
}

static void order(struct driver *d, char *line)
{
	char *w[64] = { NULL }, *save = NULL;
	size_t n = 0;

	if (str_has_prefix(line, "start ")) {
		start(d, line + strlen("start "));
		return;
	}
	for (char *p = strtok_r(line, " \n", &save); p && n < 63; p = strtok_r(NULL, " \n", &save))
		w[n++] = p;
	if (n == 0)
		return;
	if (strcmp(w[0], "fork_server") == 0) {
		new_fork_server(d);
	} else if (strcmp(w[0], "each") == 0) {
		(void)adopt_each(put_each, NULL);
		say("each-done", "", 0, "");
	} else if (n >= 4 && strcmp(w[0], "sweep") == 0) {
		sweep(w + 1);
	} else if (n >= 5 && strcmp(w[0], "adopt") == 0) {
		adopt(d, w[1], w + 2);
	} else if (n >= 4 && strcmp(w[0], "orphans") == 0) {
		end_orphans(w[1], w + 2);
	} else if (n >= 2) {
		struct task *t = find(d, w[1]);
		int r = t ? to_task(t, w[0], w + 2) : -ENOENT;

		if (r < 0)
			say("failed", w[1], r, w[0]);
	}
}

/* ---- news ---- */

static const char *const type_names[SHMSG_TYPE_MAX] = {
	[SHMSG_PREPARED] = "prepared",
	[SHMSG_STARTED] = "started",
	[SHMSG_STATUS] = "status",
	[SHMSG_ENDED] = "ended",
};

static void put_status(const char *event, const struct shmsg_status *s)
{
	put(json_pack("{ss ss ss si sI si si sI}", "event", event, "token", s->token, "state",
		      shim_state_name(s->state), "pid", (int)s->shim_pid, "start",
		      (json_int_t)s->shim_start, "task", (int)s->task_pid, "log_errno",
		      (int)s->log_errno, "run_ns", (json_int_t)s->run_ns));
}

static void put_ended(const char *token, const struct task_end *e)
{
	put(json_pack("{ss ss ss ss si si si si si si sI sI sI sI ss}", "event", "ended", "token",
		      token, "outcome", task_outcome_name(e->outcome), "cause",
		      task_cause_name(e->cause), "exit_code", (int)e->exit_code, "signal",
		      (int)e->signal, "leftovers", (int)e->leftovers, "killed", (int)e->killed,
		      "log_errno", (int)e->log_errno, "record_errno", (int)e->record_errno,
		      "run_ns", (json_int_t)e->run_ns, "leader_ns", (json_int_t)e->leader_ns, "cut",
		      (json_int_t)e->log_cut_bytes, "rss", (json_int_t)e->max_rss_bytes, "text",
		      e->text));
}

static void news(struct task *t)
{
	union shmsg m;
	int type;

	while ((type = shmsg_recv(t->conn, &m)) > 0) {
		if (type == SHMSG_ENDED)
			put_ended(t->token, &m.ended.end);
		else
			put_status(type_names[type] ? type_names[type] : "?", &m.status);
	}
	if (type == -EAGAIN)
		return;
	t->conn = fd_close(t->conn);
	say("gone", t->token, type, "");
}

static int drive(struct driver *d)
{
	static char line[1 << 20];
	size_t len = 0;

	for (;;) {
		struct pollfd fds[TASKS_MAX + 1] = { { .fd = 0, .events = POLLIN } };

		for (size_t i = 0; i < d->n; i++)
			fds[i + 1] = (struct pollfd){ .fd = d->tasks[i].conn, .events = POLLIN };

		size_t n = d->n;

		if (poll(fds, n + 1, -1) < 0)
			return 1;
		for (size_t i = 0; i < n; i++)
			if (fds[i + 1].revents && d->tasks[i].conn >= 0)
				news(&d->tasks[i]);
		if (!fds[0].revents)
			continue;

		ssize_t got = read(0, line + len, sizeof(line) - 1 - len);

		if (got <= 0)
			return 0;
		len += (size_t)got;
		for (char *nl; (nl = memchr(line, '\n', len));) {
			size_t used = (size_t)(nl + 1 - line);

			*nl = '\0';
			order(d, line);
			(void)memmove(line, line + used, len - used);
			len -= used;
		}
	}
}

/* ---- what a task costs ---- */

static double spawn_loop(const char *program, int n)
{
	uint64_t t0 = clock_mono_ns();
	char name[] = "true";
	char *const argv[] = { name, NULL };

	for (int i = 0; i < n; i++) {
		pid_t pid;

		if (posix_spawn(&pid, program, NULL, NULL, argv, environ) != 0)
			exit(1);
		(void)waitpid(pid, NULL, 0);
	}
	return (double)(clock_mono_ns() - t0);
}

static double spawn_wide(const char *program, int n, int wide)
{
	uint64_t t0 = clock_mono_ns();
	pid_t pids[WIDE_MAX];

	for (int i = 0; i < wide; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			(void)spawn_loop(program, n / wide);
			_exit(0);
		}
	}
	for (int i = 0; i < wide; i++)
		(void)waitpid(pids[i], NULL, 0);
	return (double)(clock_mono_ns() - t0) / n / 1000;
}

static int bench_start(struct driver *d, const char *program, const char *dir, int i,
		       uint32_t flags)
{
	char token[TASK_TOKEN_MAX], log[512];
	const char *argv[] = { program, NULL };
	struct launch_spec s = { .token = str_print(token, sizeof(token), "bench-%d", i),
				 .title = token,
				 .cwd = "/",
				 .run_dir = dir,
				 .record_dir = dir,
				 .argv = argv,
				 .n_argv = 1,
				 .env = (const char *const *)environ,
				 .log_limit = 1UL << 30,
				 .umask = 022,
				 .flags = flags };
	struct err e = ERR_INIT;

	while (environ[s.n_env])
		s.n_env++;

	cleanup_fd int log_fd = open(str_print(log, sizeof(log), "%s/%s.log", dir, token),
				     O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	int conn = shim_client_start(&d->fork_server, &s, log_fd, &e);

	if (conn < 0)
		(void)fprintf(stderr, "%s\n", e.text);
	return conn;
}

/* The file of the record is removed, as an agent does; the log stays. */
static bool bench_news(int conn, const char *dir, int i)
{
	union shmsg m;
	char token[TASK_TOKEN_MAX];
	int type;

	while ((type = shmsg_recv(conn, &m)) > 0) {
		if (type == SHMSG_PREPARED)
			(void)shim_client_go(conn, "", NULL, 0);
		if (type != SHMSG_ENDED)
			continue;
		if (m.ended.end.outcome != TASK_EXITED || m.ended.end.exit_code)
			exit(1);
		(void)end_record_remove(dir, str_print(token, sizeof(token), "bench-%d", i));
		return true;
	}
	if (type != -EAGAIN)
		exit(1);
	return false;
}

static double shim_wide(struct driver *d, const char *program, const char *dir, int n, int wide,
			uint32_t flags, int base)
{
	struct pollfd fds[WIDE_MAX];
	int ids[WIDE_MAX], started = 0, ended = 0;
	uint64_t t0 = clock_mono_ns();

	for (int i = 0; i < wide; i++)
		fds[i] = (struct pollfd){ .fd = -1, .events = POLLIN };
	while (ended < n) {
		for (int i = 0; i < wide && started < n; i++)
			if (fds[i].fd < 0) {
				ids[i] = base + started++;
				fds[i].fd = bench_start(d, program, dir, ids[i], flags);
			}
		if (poll(fds, (nfds_t)wide, 5000) <= 0)
			exit(1);
		for (int i = 0; i < wide; i++)
			if (fds[i].revents && bench_news(fds[i].fd, dir, ids[i])) {
				fds[i].fd = fd_close(fds[i].fd);
				ended++;
			}
	}
	return (double)(clock_mono_ns() - t0) / n / 1000;
}

static int bench(struct driver *d, char **w)
{
	int n = (int)strtol(w[0], NULL, 10), wide = (int)strtol(w[1], NULL, 10);
	uint32_t flags = w[4] ? LAUNCH_GO : 0;

	wide = wide > WIDE_MAX ? WIDE_MAX : wide;

	for (int round = 0; round < 3; round++) {
		double floor_us = spawn_wide(w[2], n, wide);
		double shim_us = shim_wide(d, w[2], w[3], n, wide, flags, round * n);

		printf("posix_spawn %.1f us, shim %.1f us, difference %.1f us\n", floor_us, shim_us,
		       shim_us - floor_us);
	}
	return 0;
}

int main(int argc, char **argv)
{
	static struct driver d = { .fork_server = FORK_SERVER_NONE };

	if (argc < 2)
		return 2;
	(void)signal(SIGPIPE, SIG_IGN);
	d.exe_fd = open(argv[1], O_RDONLY | O_CLOEXEC);
	d.fork_server.key = str_print(d.key, sizeof(d.key), "taskdrv-%d", (int)getpid());
	if (argc > 6 && strcmp(argv[2], "bench") == 0) {
		struct err e = ERR_INIT;

		if (fork_server_start(&d.fork_server, d.exe_fd, &e) < 0)
			return 1;
		return bench(&d, argv + 3);
	}
	new_fork_server(&d);
	return drive(&d);
}
