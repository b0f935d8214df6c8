/* SPDX-License-Identifier: MIT */

/*
 * One loop with a short step, and a thread that does what can hang with a file server: it looks for
 * orders, writes the state, and the log. The loop gives it one errand at a time and never waits for
 * one for long. While the server does not answer there are no orders, because they are files there;
 * what runs is told of its devices, ended when its time is over and reaped all the same, and the
 * keeper ends when its shim says so.
 */

#include "alloc/keeper.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/signame.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "spool/instance.h"
#include "task/program.h"
#include "task/shproto.h"
#include "task/tree.h"
#include "task/worker.h"

#define STEP_MS	      100
#define LOOK_MS	      500  /* at orders and devices */
#define SETTLE_MS     200  /* for lines that are to stand before what a program prints */
#define LAST_MS	      1000 /* for the last ones, and the last state */
#define LINES_MAX     65536
#define GPUS_FILE_MAX 65536
#define GPUS_FILE_ENV "TENURE_GPUS_FILE"
#define VISIBLE_ENV   "CUDA_VISIBLE_DEVICES"

extern char **environ;

/* What the thread is asked, and answers: its own while it is busy. */
struct errand {
	struct strbuf lines; /* for the log */
	bool look;	     /* at the spool, too */
	bool write;	     /* st, which is to be in the spool */
	struct alloc_state st;
	enum { ASK_NOTHING, ASK_ORDER, ASK_WHETHER } ask; /* for that order; whether it is there */
	unsigned int order;
	/* Answers: */
	bool opened; /* the queue, just now: st is what stands there */
	int code;    /* of opening, or writing; what failed: */
	struct err e;
	int order_code; /* 0; -ENOENT: there is none; -errno */
	struct err order_e;
	struct task_spec *spec;
};

struct keeper {
	const char *root, *instance, *run_dir, *name;
	uint64_t id;
	struct spool_trust trust;
	struct text_list accepted;
	struct spool *sp; /* the thread's */
	struct errand errand;
	_Atomic bool busy;     /* the thread is */
	bool sent;	       /* an errand, whose answer was not looked at yet */
	sem_t asked;	       /* for the thread: there is one */
	int done_fd;	       /* readable when it is over; -1: there is no thread yet */
	struct strbuf lines;   /* for the next errand */
	bool open;	       /* the queue is */
	struct alloc_state st; /* as it is, or is to be, in the spool */
	bool unwritten;
	bool resume;   /* the program of st.order was running when the last attempt ended */
	int told_code; /* of the last failure to look or to write: it is told once */
	/* What runs: */
	struct task_spec *spec; /* NULL: nothing does */
	enum alloc_change change;
	const char *hook; /* of spec */
	struct program program;
	pid_t leader;
	int status;
	bool leader_gone;
	/* It is being ended, and begins anew, or another one does: */
	bool ending, again;
	struct ender ender;
	uint64_t kill_at_ns;
	bool told;	/* the whole task is to end */
	bool untold;	/* of other devices: SIGUSR1 would end the program yet */
	pid_t hook_pid; /* 0: none runs */
	uint64_t hook_until_ns;
	char gpus[ALLOC_GPUS_MAX]; /* that it was last told of */
};

/* A line of the log of the task, which is standard output. */
static void __attribute__((format(printf, 2, 3))) say(struct keeper *k, const char *fmt, ...)
{
	char when[CLOCK_TEXT_MAX];
	va_list ap;

	if (k->lines.len > LINES_MAX)
		return;
	strbuf_addf(&k->lines, "[tenure %s] ", clock_format_local(clock_wall_ns(), when));
	va_start(ap, fmt);
	strbuf_addv(&k->lines, fmt, ap);
	va_end(ap);
	strbuf_addc(&k->lines, '\n');
}

static void say_failure(struct keeper *k, int code, const struct err *e)
{
	if (code != k->told_code && code < 0)
		say(k, "%s; trying again", e->text);
	k->told_code = code;
}

/* ---- the thread ---- */

static void write_lines(struct strbuf *lines)
{
	(void)fs_write_all(STDOUT_FILENO, strbuf_str(lines), lines->len);
	strbuf_clear(lines);
}

static int open_queue(struct keeper *k, struct errand *a)
{
	int r = spool_open(k->root, k->instance, &k->trust, 0, &k->sp, &a->e);

	if (r == 0)
		r = alloc_state_read(k->sp, k->id, &a->st, &a->e);
	if (r < 0)
		k->sp = spool_close(k->sp);
	a->opened = r == 0;
	return r;
}

static void do_errand(struct keeper *k)
{
	struct errand *a = &k->errand;

	write_lines(&a->lines);
	if (a->look && !k->sp)
		a->code = open_queue(k, a);
	else if (a->write)
		a->code = alloc_state_write(k->sp, k->id, &a->st, &a->e);
	if (a->ask == ASK_ORDER)
		a->order_code = alloc_order_read(k->sp, k->id, a->order, &a->spec, &a->order_e);
	else if (a->ask == ASK_WHETHER)
		a->order_code = alloc_order_exists(k->sp, k->id, a->order) ? 0 : -ENOENT;
}

static void *serve_errands(void *data)
{
	struct keeper *k = data;
	const uint64_t one = 1;

	for (;;) {
		while (sem_wait(&k->asked) < 0)
			continue;
		do_errand(k);
		k->busy = false;
		(void)!write(k->done_fd, &one, sizeof(one));
	}
	return NULL;
}

static int begin_thread(struct keeper *k)
{
	k->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (k->done_fd < 0 || sem_init(&k->asked, 0, 0) < 0)
		return -errno;
	return worker_thread(serve_errands, k);
}

static bool is_idle(const struct keeper *k)
{
	return !k->busy && !k->sent;
}

/* With what is to be written; look: at the spool as well, and for the order that comes next. */
static void send_errand(struct keeper *k, bool look)
{
	struct errand *a = &k->errand;

	*a = (struct errand){ .lines = k->lines, .look = look, .ask = ASK_NOTHING };
	k->lines = (struct strbuf)STRBUF_INIT;
	if (look && k->open) {
		a->write = k->unwritten;
		a->st = k->st;
		k->unwritten = false;
		a->order = k->st.order + !k->resume;
		a->ask = k->resume || !k->leader ? ASK_ORDER
			 : k->ending		 ? ASK_NOTHING
						 : ASK_WHETHER;
	}
	k->busy = k->sent = true;
	(void)sem_post(&k->asked);
}

static void wait_for_thread(struct keeper *k, uint64_t limit_ms)
{
	uint64_t end_ns = clock_mono_ns() + limit_ms * NS_PER_MS, count, now;
	struct pollfd p = { .fd = k->done_fd, .events = POLLIN };

	while (k->busy && (now = clock_mono_ns()) < end_ns)
		if (poll(&p, 1, (int)((end_ns - now) / NS_PER_MS) + 1) > 0)
			(void)!read(k->done_fd, &count, sizeof(count));
}

static void write_state(struct keeper *k)
{
	k->unwritten = true;
}

static void state_is(struct keeper *k, enum alloc_phase phase)
{
	k->st.phase = phase;
	if (phase != ALLOC_RUNNING)
		k->st.pid = 0;
	write_state(k);
}

/* ---- its devices ---- */

/* Lines "INDEX UUID": as CUDA_VISIBLE_DEVICES names them, which has indices or UUIDs. */
static void read_gpus(char *text, char ret[ALLOC_GPUS_MAX])
{
	const char *visible = getenv(VISIBLE_ENV);
	bool by_uuid = visible && visible[0] && strchr("GM", visible[0]);
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	char *save = NULL;

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *uuid = strchr(line, ' ');

		if (!uuid)
			continue;
		*uuid++ = '\0';
		strbuf_addf(&b, "%s%s", b.len ? "," : "", by_uuid ? uuid : line);
	}
	(void)str_copy(ret, ALLOC_GPUS_MAX, strbuf_str(&b));
}

/* Those that it has now. */
static void look_at_gpus(char ret[ALLOC_GPUS_MAX])
{
	const char *path = getenv(GPUS_FILE_ENV), *visible = getenv(VISIBLE_ENV);
	cleanup_free char *text = NULL;
	size_t len;

	if (path && fs_read_file(path, GPUS_FILE_MAX, &text, &len, NULL) == 0)
		read_gpus(text, ret);
	else
		(void)str_copy(ret, ALLOC_GPUS_MAX, visible ? visible : "");
}

/* ---- an order ---- */

/* What the agent has told the allocation of itself, an order does not change. */
static bool is_ours(const char *assignment)
{
	char name[64];

	if (str_has_prefix(assignment, VISIBLE_ENV "=") ||
	    str_has_prefix(assignment, "CUDA_DEVICE_ORDER="))
		return true;
	(void)str_print(name, sizeof(name), "%.*s", (int)strcspn(assignment, "="), assignment);
	return str_has_prefix(name, "TENURE_") && getenv(name);
}

/* What the allocation was given, with what the order says; the devices are those of now. */
static void make_env(const struct keeper *k, struct text_list *env)
{
	for (char **v = environ; *v; v++)
		if (!str_has_prefix(*v, TASK_TOKEN_ENV "=") &&
		    !str_has_prefix(*v, LIBRARIES_ENV "="))
			text_list_add(env, *v);
	for (size_t i = 0; i < k->spec->env.n; i++) {
		cleanup_free char *v = alloc_fill_in(k->spec->env.texts[i], k->gpus, k->name);

		if (!is_ours(v))
			text_list_set_variable(env, v);
	}

	cleanup_free char *visible = xasprintf("%s=%s", VISIBLE_ENV, k->gpus);

	text_list_set_variable(env, visible);
}

static void fill_in(const struct keeper *k, const struct text_list *from, struct text_list *to)
{
	for (size_t i = 0; i < from->n; i++)
		text_list_take(to, alloc_fill_in(from->texts[i], k->gpus, k->name));
}

static void make_argv(const struct keeper *k, struct text_list *argv)
{
	if (k->spec->commands.n) {
		text_list_add(argv, "/bin/sh");
		text_list_add(argv, "-c");
		text_list_take(argv, alloc_fill_in(k->spec->commands.texts[0], k->gpus, k->name));
	} else {
		fill_in(k, k->spec->script ? &k->spec->args : &k->spec->argv, argv);
	}
}

static char *show_words(const struct keeper *k, const struct text_list *argv)
{
	struct strbuf b = STRBUF_INIT;

	if (k->spec->script)
		strbuf_adds(&b, k->spec->script_name ? k->spec->script_name : "script");
	for (size_t i = 0; i < argv->n; i++)
		strbuf_add_word_in_line(&b, argv->texts[i]);
	return strbuf_take(&b);
}

/* 0 and its first process, or negative. */
static int start_program(struct keeper *k, const struct text_list *argv,
			 const struct text_list *env, struct err *e)
{
	const char *home = getenv("HOME");
	const struct launch_spec launch = {
		.token = getenv(TASK_TOKEN_ENV) ? getenv(TASK_TOKEN_ENV) : "allocation",
		.cwd = k->spec->cwd ? k->spec->cwd
		       : home	    ? home
				    : "/",
		.run_dir = k->run_dir,
		.script = k->spec->script,
		.script_bytes = k->spec->script ? strlen(k->spec->script) : 0,
		.script_name = k->spec->script_name ? k->spec->script_name : k->spec->name,
		.argv = (const char *const *)argv->texts,
		.n_argv = (uint32_t)argv->n,
		.env = (const char *const *)env->texts,
		.n_env = (uint32_t)env->n,
		.umask = k->spec->umask != SPEC_NO_UMASK ? (uint32_t)k->spec->umask : 022,
		.flags = getenv("TENURE_JOB_KEY") ? LAUNCH_IN_JOB : 0,
	};
	struct gate gate = { .is = GATE_OPEN };
	int r = program_prepare(&k->program, &launch, e);
	pid_t pid = r;

	if (r == 0) {
		program_set_env(&k->program, &launch, NULL, 0);
		pid = program_start(&k->program, &launch, &gate, STDOUT_FILENO, -1, e);
	}
	k->leader = pid > 0 ? pid : 0;
	return pid > 0 ? 0 : pid;
}

static void program_over(struct keeper *k)
{
	program_clear(&k->program);
	ender_clear(&k->ender);
	k->spec = spec_free(k->spec);
	k->leader = 0;
	k->ending = k->leader_gone = k->untold = false;
}

static void not_started(struct keeper *k, const struct err *e)
{
	say(k, "order %u cannot be run: %s", k->st.order, e->text);
	(void)str_copy(k->st.error, sizeof(k->st.error), e->text);
	k->st.exit = (unsigned int)k->program.exit_code;
	k->st.ended_ns = clock_wall_ns();
	program_over(k);
	state_is(k, ALLOC_ENDED);
}

/* It is there, and is none. */
static bool is_refused(int code)
{
	return code == -EINVAL || code == -EFBIG || spool_is_bad(code);
}

/* What came of what was to be written. */
static void note_answer(struct keeper *k)
{
	const struct errand *a = &k->errand;
	bool other = a->order_code < 0 && a->order_code != -ENOENT && !is_refused(a->order_code);

	k->sent = false;
	if (!a->look)
		return;
	say_failure(k,
		    a->code < 0 ? a->code
		    : other	? a->order_code
				: 0,
		    a->code < 0 ? &a->e : &a->order_e);
	k->unwritten = k->unwritten || (a->write && a->code < 0);
}

/* Lines that are there stand in the log before what comes now, where that answers. */
static void settle(struct keeper *k, bool state, uint64_t limit_ms)
{
	wait_for_thread(k, limit_ms);
	if (k->busy)
		return;
	if (k->sent) {
		note_answer(k);
		k->errand.spec = spec_free(k->errand.spec);
	}
	if (!k->lines.len && !(state && k->unwritten))
		return;
	send_errand(k, state && k->open);
	wait_for_thread(k, limit_ms);
}

/* What k->spec says, with the devices of now. */
static void run_spec(struct keeper *k)
{
	struct text_list argv = { .n = 0 }, env = { .n = 0 };
	struct err e = ERR_INIT;
	int r;

	look_at_gpus(k->gpus);
	make_argv(k, &argv);
	make_env(k, &env);

	cleanup_free char *shown = show_words(k, &argv);

	say(k, "order %u: %s, on GPU %s", k->st.order, shown, k->gpus[0] ? k->gpus : "(none)");
	k->status = 0;
	k->leader_gone = k->ending = k->again = false;
	ender_begin(&k->ender);
	k->st.error[0] = '\0';
	k->st.exit = 0;
	k->st.ended_ns = 0;
	(void)str_copy(k->st.gpus, sizeof(k->st.gpus), k->gpus);
	settle(k, false, SETTLE_MS);
	r = start_program(k, &argv, &env, &e);
	if (r < 0) {
		not_started(k, &e);
	} else {
		k->st.pid = k->leader;
		k->st.began_ns = clock_wall_ns();
		state_is(k, ALLOC_RUNNING);
	}
	text_list_clear(&argv);
	text_list_clear(&env);
}

static void refuse_order(struct keeper *k, const struct err *e)
{
	k->program.exit_code = EXIT_CANNOT_RUN;
	not_started(k, e);
}

/* The order that was looked for is what is to run, if there is one. */
static void take_order(struct keeper *k, struct errand *a)
{
	if (a->order_code < 0 && !is_refused(a->order_code))
		return;
	k->st.order = a->order;
	if (a->order_code < 0) {
		refuse_order(k, &a->order_e);
		return;
	}
	k->spec = take_ptr(a->spec);
	(void)alloc_parse_change(k->spec->on_change, &k->change, &k->hook, NULL);
	run_spec(k);
}

/* ---- its end ---- */

static int stop_signal(const struct keeper *k)
{
	int sig = k->spec->signal ? signal_parse(k->spec->signal, NULL) : SIGTERM;

	return sig > 0 ? sig : SIGTERM;
}

static void end_program(struct keeper *k, bool again)
{
	k->again = again;
	if (k->ending)
		return;
	k->ending = true;
	k->kill_at_ns = clock_mono_ns() + k->spec->grace * NS_PER_MS;
}

static void end_pass(struct keeper *k)
{
	ender_pass_below_us(&k->ender, clock_mono_ns() >= k->kill_at_ns ? SIGKILL : stop_signal(k));
}

static unsigned int exit_of(int status)
{
	return WIFSIGNALED(status) ? NAME_SIGNALLED + (unsigned int)WTERMSIG(status)
				   : (unsigned int)WEXITSTATUS(status);
}

static void say_end(struct keeper *k, const char *what, unsigned int code)
{
	say(k, "%s has ended (%s %u)", what, code >= NAME_SIGNALLED ? "signal" : "exit code",
	    code & (NAME_SIGNALLED - 1));
}

static void on_hook_end(struct keeper *k, unsigned int code)
{
	k->hook_pid = 0;
	if (code)
		say_end(k, "the hook", code);
}

/* All of it has ended. */
static void on_program_end(struct keeper *k)
{
	unsigned int code = exit_of(k->status);
	bool again = k->again && k->ending;
	char order[32];

	if (k->told) /* what the task's next attempt begins anew */
		return;
	if (again) {
		struct task_spec *spec = take_ptr(k->spec);

		program_over(k);
		k->spec = spec;
		k->st.restarts++;
		run_spec(k);
		return;
	}
	(void)str_print(order, sizeof(order), "order %u", k->st.order);
	say_end(k, order, code);
	k->st.exit = code;
	k->st.ended_ns = clock_wall_ns();
	program_over(k);
	state_is(k, ALLOC_ENDED);
}

static void reap(struct keeper *k)
{
	int status;
	pid_t pid = 0;

	for (int n = 0; n < REAP_AT_ONCE && (pid = waitpid(-1, &status, WNOHANG)) > 0; n++) {
		if (pid == k->hook_pid)
			on_hook_end(k, exit_of(status));
		if (pid != k->leader)
			continue;
		k->status = status;
		k->leader_gone = true;
	}
	if (pid < 0 && errno == ECHILD && k->leader)
		on_program_end(k);
}

/* ---- other devices than it has ---- */

static void run_hook(struct keeper *k)
{
	cleanup_free char *pid = xasprintf("%d", (int)k->leader);
	const char *const words[] = { "/bin/sh", "-c", k->hook };
	struct text_list env = { .n = 0 }, argv = { .n = 0 };
	struct program p;
	struct err e = ERR_INIT;
	struct gate gate = { .is = GATE_OPEN };

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		text_list_take(&argv, alloc_fill_in(words[i], k->gpus, k->name));
	make_env(k, &env);

	cleanup_free char *variable = xasprintf("TENURE_PROGRAM_PID=%s", pid);

	text_list_set_variable(&env, variable);

	const struct launch_spec launch = {
		.token = getenv(TASK_TOKEN_ENV) ? getenv(TASK_TOKEN_ENV) : "allocation",
		.cwd = k->spec->cwd ? k->spec->cwd : "/",
		.argv = (const char *const *)argv.texts,
		.n_argv = (uint32_t)argv.n,
		.env = (const char *const *)env.texts,
		.n_env = (uint32_t)env.n,
		.umask = 022,
	};
	int r = program_prepare(&p, &launch, &e);

	if (r == 0) {
		program_set_env(&p, &launch, NULL, 0);
		r = program_start(&p, &launch, &gate, STDOUT_FILENO, -1, &e);
	}
	if (r < 0)
		say(k, "the hook cannot be run: %s", e.text);
	k->hook_pid = r > 0 ? r : 0;
	k->hook_until_ns = clock_mono_ns() + k->spec->grace * NS_PER_MS;
	program_clear(&p);
	text_list_clear(&argv);
	text_list_clear(&env);
}

/* It has its session, as all that program_start() starts. */
static void limit_hook(struct keeper *k)
{
	char limit[UNIT_TEXT_MAX];

	if (!k->hook_pid || clock_mono_ns() < k->hook_until_ns)
		return;
	say(k, "the hook has not ended within its --grace, %s, and is killed",
	    unit_format_duration(k->spec->grace, limit));
	(void)kill(-k->hook_pid, SIGKILL);
	k->hook_until_ns = UINT64_MAX;
}

/* A child that was not waited for: the PID is its own. A shell, or a program that is just
 * beginning, would be ended by the signal. */
static void try_signal(struct keeper *k)
{
	k->untold = !k->leader_gone && proc_ends_by(k->leader, SIGUSR1) != 0;
	if (!k->leader_gone && !k->untold)
		(void)kill(k->leader, SIGUSR1);
}

static void tell_by_signal(struct keeper *k)
{
	try_signal(k);
	if (k->untold)
		say(k,
		    "SIGUSR1 would end PID %d, which does not catch it: it is sent when it does "
		    "(a script has to exec its program); $" GPUS_FILE_ENV " has the GPUs",
		    (int)k->leader);
}

static void on_gpus(struct keeper *k, const char *gpus)
{
	say(k, "the GPUs are %s now (%s before): %s", gpus, k->gpus,
	    k->change == ALLOC_RESTART	? "the program is started again"
	    : k->change == ALLOC_SIGNAL ? "it is told by SIGUSR1"
					: "its hook is run");
	(void)str_copy(k->gpus, sizeof(k->gpus), gpus);
	if (k->change == ALLOC_RESTART) {
		end_program(k, true);
		return;
	}
	(void)str_copy(k->st.gpus, sizeof(k->st.gpus), gpus);
	write_state(k);
	if (k->change == ALLOC_HOOK)
		run_hook(k);
	else
		tell_by_signal(k);
}

static void watch_gpus(struct keeper *k)
{
	char gpus[ALLOC_GPUS_MAX];

	if (k->ending || k->resume || k->hook_pid) /* one hook after another */
		return;
	if (k->leader && k->untold)
		try_signal(k);
	look_at_gpus(gpus);
	if (k->leader && strcmp(gpus, k->gpus) != 0) {
		on_gpus(k, gpus);
	} else if (!k->leader && strcmp(gpus, k->st.gpus) != 0) {
		(void)str_copy(k->st.gpus, sizeof(k->st.gpus), gpus);
		write_state(k);
	}
}

/* ---- its life ---- */

static void on_open(struct keeper *k, const struct alloc_state *st)
{
	k->open = true;
	k->st = *st;
	(void)str_copy(k->st.host, sizeof(k->st.host), spool_host(k->sp));
	look_at_gpus(k->st.gpus);
	k->resume = st->phase == ALLOC_RUNNING;
	if (k->resume)
		say(k, "the program of order %u was running when its attempt ended", st->order);
	else if (st->phase == ALLOC_WAITING)
		say(k, "%s waits; tenure start %s -- COMMAND runs something on GPU %s", k->name,
		    k->name, k->st.gpus);
	if (!k->resume)
		write_state(k);
}

/* An errand is over: what came of the order that it looked for. */
static void on_answer(struct keeper *k)
{
	struct errand a = k->errand; /* the next one may be sent in between */
	int r = a.order_code;

	k->errand.spec = NULL;
	note_answer(k);
	if (a.opened)
		on_open(k, &a.st);
	if (a.ask == ASK_ORDER && k->resume) {
		k->resume = r < 0 && r != -ENOENT && !is_refused(r);
		take_order(k, &a);
	} else if (a.ask == ASK_ORDER && !k->leader) {
		take_order(k, &a);
	} else if (a.ask == ASK_WHETHER && r == 0 && k->leader && !k->ending) {
		end_program(k, false);
	}
	a.spec = spec_free(a.spec);
}

/* The state and lines are not to wait for the next look, unless something fails there. */
static void look(struct keeper *k, uint64_t *look_at_ns)
{
	bool due = clock_mono_ns() >= *look_at_ns, write;

	if (k->sent && !k->busy)
		on_answer(k);
	write = k->unwritten && k->open && !k->told_code;
	if (due && k->open)
		watch_gpus(k);
	if (is_idle(k) && (due || write || k->lines.len))
		send_errand(k, due || write);
	if (due)
		*look_at_ns = clock_mono_ns() + LOOK_MS * NS_PER_MS;
}

static int set_up_signals(void)
{
	static const int ends[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGCHLD };
	sigset_t set;

	/* Warnings of an engine, which the agent acts upon. */
	(void)signal(SIGUSR1, SIG_IGN);
	(void)signal(SIGUSR2, SIG_IGN);

	(void)sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_LEN(ends); i++)
		(void)sigaddset(&set, ends[i]);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -1;
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Its shim has told the whole tree, the program as well. */
static void hear(struct keeper *k, int fd)
{
	struct signalfd_siginfo si;

	while (read(fd, &si, sizeof(si)) == sizeof(si))
		k->told = k->told || si.ssi_signo != SIGCHLD;
}

static int serve(struct keeper *k, int fd)
{
	uint64_t look_at_ns = 0;

	while (!k->told || k->leader) {
		struct pollfd p[] = { { .fd = fd, .events = POLLIN },
				      { .fd = k->done_fd, .events = POLLIN } };
		uint64_t count;

		(void)poll(p, ARRAY_LEN(p), STEP_MS);
		(void)!read(k->done_fd, &count, sizeof(count));
		hear(k, fd);
		reap(k);
		if (k->told && k->leader_gone)
			break;
		if (k->told)
			continue;
		if (k->ending && k->leader)
			end_pass(k);
		limit_hook(k);
		look(k, &look_at_ns);
	}
	settle(k, true, LAST_MS);
	return 128 + SIGTERM;
}

int keeper_begin(int argc, char **argv)
{
	char name[160];

	if (argc != KEEPER_WORDS) {
		(void)fputs(
			"tenure: keeper is what an agent starts in an allocation; tenure alloc\n",
			stderr);
		return 2;
	}
	argv[0] =
		str_print(name, sizeof(name), KEEPER_ARGV0 " %s, waits for tenure start", argv[5]);
	(void)execv("/proc/self/exe", argv);
	return keeper_main(argc, argv);
}

int keeper_main(int argc, char **argv)
{
	struct keeper k = { .st = { .phase = ALLOC_WAITING }, .done_fd = -1 };
	char *save = NULL;
	int fd, r;

	if (argc != KEEPER_WORDS || str_to_u64(argv[3], &k.id) < 0)
		return 2;
	k.root = argv[1];
	k.instance = argv[2];
	k.run_dir = argv[4];
	k.name = argv[5];
	for (char *w = strtok_r(argv[7], ",", &save); w; w = strtok_r(NULL, ",", &save))
		text_list_add(&k.accepted, w);
	k.trust =
		(struct spool_trust){ .accepted = &k.accepted,
				      .setting = strcmp(argv[6], "directory") == 0 ? TRUST_DIRECTORY
										   : TRUST_OWNER };
	(void)prctl(PR_SET_NAME, "tenure-alloc");
	fd = set_up_signals();
	r = fd < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 ? -errno : begin_thread(&k);
	if (r < 0) {
		say(&k, "cannot begin: %s", strerror(-r));
		write_lines(&k.lines);
		return 1;
	}
	return serve(&k, fd);
}
