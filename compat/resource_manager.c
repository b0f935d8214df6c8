/* SPDX-License-Identifier: MIT */

/*
 * `gpu-resource-manager`: what gpu_resource_manager.py did, with tenure below: `tenure nodes`
 * looks, `tenure alloc`, `start` and `release` do. It has nothing of its own to lose: who has what
 * is in tenure's queue, so any number of them may run at once.
 *
 * Exit codes: 0; 1 it did not work, or was refused; 2 usage, or a mistake in the config.
 */
#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/opts.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "compat/about.h"
#include "compat/manager_config.h"
#include "compat/program.h"
#include "compat/rolling_log.h"

#define CONFIG	   "gpu_manager_config.json"
#define LOG	   "gpu_manager.log"
#define INSTANCE   "resource-manager"
#define OUTPUT_MAX (64UL << 20)
#define RULE_WIDE  "============================================================"
#define RULE	   "----------------------------------------"
#define NO_AGENT   3 /* exit code of tenure status */
#define WAIT	   "10s"
#define PREFIX	   "NDFS_" /* of the names of its jobs */

#define INFO	"INFO"
#define WARNING "WARNING"
#define ERROR	"ERROR"

enum exit_code { EXIT_OK, EXIT_FAILED, EXIT_USAGE };

static volatile sig_atomic_t told;
static bool unlogged; /* that was said */

/* Told twice it does not wait for what it is just asking. */
static void on_signal(int signum)
{
	if (told)
		_exit(EXIT_FAILED);
	told = signum;
}

struct manager {
	struct manager_config config;
	char *tenure, *instance;
	unsigned int gpus;  /* --gpus; 0: not said */
	const char *engine; /* whose nodes they are; NULL: of this machine, once that is known */
	bool engine_known;
	char id[32]; /* of this process among the monitors */
	/* As last told: */
	long free;
	char *allocations;
	bool failed, base_failed, agentless;
	bool monitors;
};

static void __attribute__((format(printf, 2, 3))) say(const char *level, const char *fmt, ...)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	va_list ap;
	int r;

	va_start(ap, fmt);
	strbuf_addv(&b, fmt, ap);
	va_end(ap);
	r = rolling_log_say(LOG, level, strbuf_str(&b));
	if (r < 0 && !unlogged) {
		unlogged = true; /* once */
		(void)fprintf(stderr, "gpu-resource-manager: cannot write %s: %s\n", LOG,
			      strerror(-r));
	}
}

/* ---- tenure as a child ---- */

struct answer {
	int code; /* of its exit */
	char *out, *err;
};

static void answer_clear(struct answer *a)
{
	free(a->out);
	free(a->err);
	*a = (struct answer){ .code = 0 };
}

static char *read_back(int fd)
{
	char *text = NULL;
	size_t len;

	(void)lseek(fd, 0, SEEK_SET);
	if (fs_read_open(fd, "what tenure has said", OUTPUT_MAX, &text, &len, NULL) < 0)
		text = xstrdup("");
	return text;
}

/* "tenure: text\ntenure: more" as one line, "text; more". Takes it; the caller frees what is
 * returned. */
static char *make_line(char *text)
{
	static const char front[] = "tenure: ";
	struct strbuf b = STRBUF_INIT;
	char *save = NULL;

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		strbuf_addf(&b, "%s%s", b.len ? "; " : "",
			    str_has_prefix(line, front) ? line + strlen(front) : line);
	free(text);
	return strbuf_take(&b);
}

static struct answer ask(const struct manager *m, const struct text_list *words)
{
	cleanup_free char **argv = xcalloc(words->n + 2, sizeof(char *));
	cleanup_fd int out = memfd_create("out", MFD_CLOEXEC), err = -1;
	struct answer a = { .code = EXIT_FAILED };
	int status = 0;
	pid_t pid;

	err = memfd_create("err", MFD_CLOEXEC);
	argv[0] = m->tenure;
	for (size_t i = 0; i < words->n; i++)
		argv[i + 1] = words->texts[i];
	(void)fflush(NULL);
	pid = out >= 0 && err >= 0 ? fork() : -1;
	if (pid == 0) {
		if (m->monitors) /* Ctrl-C is for the monitor, which ends when it has its answer */
			(void)setpgid(0, 0);
		(void)unsetenv("COLUMNS"); /* a sentence is a line */
		if (dup2(out, STDOUT_FILENO) >= 0 && dup2(err, STDERR_FILENO) >= 0)
			(void)execvp(argv[0], argv);
		(void)dprintf(STDERR_FILENO, "cannot run %s: %s\n", argv[0], strerror(errno));
		_exit(127);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		if (told && !m->monitors) /* it says what becomes of what it waits for */
			(void)kill(pid, told);
	if (pid > 0)
		a.code = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILED;
	a.out = pid > 0 ? read_back(out) : xstrdup("");
	a.err = pid > 0 ? read_back(err) : xstrdup(strerror(errno));
	a.err = make_line(a.err);
	(void)fd_close(err);
	return a;
}

/* "alloc", "--instance=..", and what follows. */
static struct text_list words_of(const struct manager *m, const char *command)
{
	struct text_list words = { .n = 0 };

	text_list_add(&words, command);
	text_list_take(&words, xasprintf("--instance=%s", m->instance));
	return words;
}

/* What the command says with --json; NULL: it does not work, or not for now, and a->err says why.
 * The words are used up. */
static json_t *ask_words(const struct manager *m, struct text_list *words, struct answer *a)
{
	json_t *doc;

	text_list_add(words, "--json");
	*a = ask(m, words);
	/* With an error it says what it knew before: that is not how it is now. */
	doc = a->code == 0 ? json_loads(a->out, 0, NULL) : NULL;
	if (!doc && !a->err[0]) {
		free(a->err);
		a->err = xasprintf("tenure %s says nothing", words->texts[0]);
	}
	text_list_clear(words);
	return doc;
}

static json_t *ask_json(const struct manager *m, const char *command, struct answer *a)
{
	struct text_list words = words_of(m, command);

	return ask_words(m, &words, a);
}

#define ENGINE_ENV "TENURE_ENGINE"

/* Where nothing says whose nodes they are, it is who has those that `tenure nodes` shows: this
 * machine, or an engine, which what is asked from now on is told, too. */
static void take_engine(struct manager *m, const json_t *nodes)
{
	const char *name =
		json_get_str(json_array_get(json_object_get(nodes, "engines"), 0), "engine");

	if (m->engine_known || !name)
		return;
	m->engine_known = true;
	if (strcmp(name, "local") == 0)
		return;
	(void)setenv(ENGINE_ENV, name, 1);
	m->engine = getenv(ENGINE_ENV);
}

/* False: nobody can be asked, and a->err says why. */
static bool find_engine(struct manager *m, struct answer *a)
{
	json_t *nodes;

	if (m->engine_known)
		return true;
	nodes = ask_json(m, "nodes", a);
	take_engine(m, nodes);
	json_decref(nodes);
	return m->engine_known;
}

static void add_number(struct text_list *words, const char *name, unsigned int n)
{
	text_list_take(words, xasprintf("--%s=%u", name, n));
}

/* What the config does not say is tenure's own, which has the same defaults, or what a site says.
 */
static void add_limit(struct text_list *words, const char *name, unsigned int n)
{
	if (n != MANAGER_UNSET)
		add_number(words, name, n);
}

/* What jobs of the cluster are called, and by what those of others count, as with the older tool.
 */
static void add_prefix(const struct manager *m, struct text_list *words)
{
	if (m->engine && !getenv("TENURE_JOB_PREFIX"))
		text_list_add(words, "--prefix=" PREFIX);
}

/* The automatic base: it is the monitor's, as with the older tool. What this one wants counts for
 * three times as long as it is between two looks, so nothing stays of one that was killed. */
#define BASE_LEAST_S 180

static void look_after_base(struct manager *m)
{
	struct text_list words = words_of(m, "tick");
	unsigned int most = m->config.max_total;
	unsigned int wanted =
		m->config.max_auto == MANAGER_UNSET ? MANAGER_AUTO : m->config.max_auto;
	unsigned int for_s = (unsigned int)(m->config.interval_s * 3) + 1;
	struct answer a;
	char *save = NULL;

	add_number(&words, "base-gpus", most && wanted > most ? most : wanted);
	text_list_take(&words, xasprintf("--base-by=manager-%s", m->id));
	text_list_take(&words,
		       xasprintf("--base-for=%us", for_s > BASE_LEAST_S ? for_s : BASE_LEAST_S));
	add_limit(&words, "max-total-gpus", most);
	add_prefix(m, &words);
	a = ask(m, &words);
	text_list_clear(&words);
	for (char *line = strtok_r(a.out, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		say(INFO, "%s", line);
	/* An instance that is not there yet has none, and lacks none. */
	if (a.code && wanted && !m->base_failed && !told)
		say(ERROR, "automatic base: %s", a.err);
	m->base_failed = a.code != 0;
	answer_clear(&a);
}

/* Whether anything runs the queue of this node; on a cluster the engine's jobs do. */
static bool has_agent(const struct manager *m)
{
	struct text_list words = words_of(m, "status");
	struct answer a = { .code = 0 };
	bool has;

	if (!m->engine)
		a = ask(m, &words);
	has = a.code != NO_AGENT;
	text_list_clear(&words);
	answer_clear(&a);
	return has;
}

static void ensure_agent(const struct manager *m)
{
	struct text_list words;
	struct answer a;
	json_t *done;

	if (has_agent(m))
		return;
	words = words_of(m, "on");
	text_list_add(&words, "--no-hold");
	done = ask_words(m, &words, &a);
	/* It tells no PID where somebody else was quicker, whose agent was told the same. */
	if (json_object_get(done, "pid"))
		say(INFO, "the agent of this node was started (tenure off -i %s ends it)",
		    m->instance);
	else if (!done && !has_agent(m))
		say(ERROR, "the agent of this node cannot be started: %s", a.err);
	json_decref(done);
	answer_clear(&a);
}

/* It may have been ended on purpose, so it is not started again by itself. */
static void tell_agent(struct manager *m)
{
	bool has = has_agent(m);

	if (!has && !m->agentless)
		say(WARNING,
		    "the agent of this node does not run any more, so nothing is started: "
		    "tenure on -i %s --no-hold starts it, as the next --allocate does",
		    m->instance);
	m->agentless = !has;
}

/* ---- what there is ---- */

struct node_sum {
	const char *name; /* of the document */
	long total, free, allocated;
};

struct picture {
	json_t *nodes, *allocs; /* NULL: unknown */
	size_t n;
	struct node_sum *all;
	long total, free, allocated;
};

static struct node_sum *sum_of(struct picture *p, const char *name)
{
	for (size_t i = 0; i < p->n; i++)
		if (strcmp(p->all[i].name, name) == 0)
			return &p->all[i];
	p->all = xgrow(p->all, p->n, sizeof(*p->all));
	p->all[p->n] = (struct node_sum){ .name = name };
	return &p->all[p->n++];
}

static long number_of(const json_t *o, const char *key)
{
	return (long)json_get_num(o, key);
}

/* A node with two types of GPUs is there twice. */
static void add_nodes(struct picture *p, const json_t *engine)
{
	const json_t *node;
	size_t i;

	json_array_foreach(json_object_get(engine, "nodes"), i, node)
	{
		const char *name = json_get_str(node, "name");
		struct node_sum *s = sum_of(p, name ? name : "?");

		s->total += number_of(node, "total");
		s->free += number_of(node, "free");
		s->allocated += number_of(node, "total") - number_of(node, "free");
	}
}

static void picture_clear(struct picture *p)
{
	json_decref(p->nodes);
	json_decref(p->allocs);
	free(p->all);
	*p = (struct picture){ .n = 0 };
}

/* "qa-a10-024" of "qa-a10-024-slurm.17.0": the node on which it is, whose agent is one of a job.
 * NULL: it waits. The caller frees it. */
static char *node_of(const struct manager *m, const json_t *alloc)
{
	const char *agent = json_get_str(alloc, "agent");
	cleanup_free char *mark = xasprintf("-%s.", m->engine ? m->engine : "");
	const char *job = agent && m->engine ? strstr(agent, mark) : NULL;

	return agent ? xasprintf("%.*s", (int)(job ? (size_t)(job - agent) : strlen(agent)), agent)
		     : NULL;
}

/* 0, or why not is said. */
static int look(struct manager *m, struct picture *ret, struct answer *a)
{
	const json_t *engine;
	size_t i;

	*ret = (struct picture){ .nodes = ask_json(m, "nodes", a) };
	if (!ret->nodes)
		return -EIO;
	take_engine(m, ret->nodes);
	answer_clear(a);
	ret->allocs = ask_json(m, "allocs", a);
	if (!ret->allocs)
		return -EIO;
	json_array_foreach(json_object_get(ret->nodes, "engines"), i, engine)
		add_nodes(ret, engine);
	for (i = 0; i < ret->n; i++) {
		ret->total += ret->all[i].total;
		ret->free += ret->all[i].free;
		ret->allocated += ret->all[i].allocated;
	}
	return 0;
}

/* ---- --status ---- */

/* "Task training_task_1: 2 GPUs on qa-a10-024 (running)" */
static char *task_line(const struct manager *m, const json_t *alloc)
{
	const char *name = json_get_str(alloc, "name");
	cleanup_free char *node = node_of(m, alloc);
	const char *phase = json_get_str(alloc, "phase");
	long n = number_of(alloc, "gpus");
	bool runs = node && phase && strcmp(phase, "running") == 0;

	return xasprintf("Task %s: %ld GPU%s%s%s (%s)", name ? name : "?", n, n == 1 ? "" : "s",
			 node ? " on " : "", node ? node : "",
			 runs	? "running"
			 : node ? "allocated"
				: "waiting");
}

static void print_picture(const struct manager *m, const struct picture *p)
{
	const json_t *all = json_object_get(p->allocs, "allocations"), *one;
	size_t i;

	printf("%s\nGPU Resource Manager Status\n%s\n", RULE_WIDE, RULE_WIDE);
	printf("Total Nodes: %zu\nTotal GPUs: %ld\nFree GPUs: %ld\nAllocated GPUs: %ld\nActive "
	       "Tasks: %zu\n",
	       p->n, p->total, p->free, p->allocated, json_array_size(all));
	printf("\nNode Details:\n%s\n", RULE);
	for (i = 0; i < p->n; i++)
		printf("%s: %ld/%ld free (%ld allocated)\n", p->all[i].name, p->all[i].free,
		       p->all[i].total, p->all[i].allocated);
	printf("\nTask Allocations:\n%s\n", RULE);
	json_array_foreach(all, i, one)
	{
		cleanup_free char *line = task_line(m, one);

		puts(line);
	}
}

static int show_status(struct manager *m, const char *task)
{
	struct picture p;
	struct answer a = { .code = 0 };
	int r = look(m, &p, &a);

	if (r == 0)
		print_picture(m, &p);
	else
		say(ERROR, "%s", a.err);
	picture_clear(&p);
	answer_clear(&a);
	return r == 0 ? EXIT_OK : EXIT_FAILED;
}

/* ---- --allocate, --release, --start-program ---- */

/* Its own maximum does not let a task grow beyond max_gpus_per_task. */
static void add_scaling(const struct manager_config *c, unsigned int gpus, struct text_list *words)
{
	unsigned int each = c->max_per_task == MANAGER_UNSET ? MANAGER_PER_TASK : c->max_per_task;
	unsigned int most = each && each < c->max_gpus ? each : c->max_gpus;
	unsigned int least = c->min_gpus && c->min_gpus < gpus ? c->min_gpus : gpus;

	most = most < gpus ? gpus : most;
	if (!c->auto_scale || !c->scaling || most == least)
		return;
	add_number(words, "gpus-max", most);
	add_number(words, "gpus-min", least);
	text_list_take(words, xasprintf("--scale-up=%g%%", c->up * 100));
	text_list_take(words, xasprintf("--scale-down=%g%%", c->down * 100));
}

static int tell_allocated(const struct manager *m, const char *task, const struct answer *a)
{
	json_t *doc = json_loads(a->out, 0, NULL);
	cleanup_free char *node = node_of(m, doc);
	const char *devices = json_get_str(doc, "devices");
	const char *reason = json_get_str(doc, "reason");
	long n = number_of(doc, "gpus");

	if (node)
		say(INFO, "Allocated %ld GPU%s (%s) on %s for task %s", n, n == 1 ? "" : "s",
		    devices ? devices : "", node, task);
	else
		say(INFO, "Task %s %s", task, reason ? reason : "waits");
	json_decref(doc);
	return EXIT_OK;
}

static int allocate(struct manager *m, const char *task)
{
	const struct manager_config *c = &m->config;
	struct text_list words = words_of(m, "alloc");
	struct answer a = { .code = 0 };
	int code = EXIT_FAILED;

	unsigned int gpus = m->gpus ? m->gpus : c->min_gpus ? c->min_gpus : 1;

	if (!find_engine(m, &a)) {
		say(ERROR, "Task %s: %s", task, a.err);
		answer_clear(&a);
		text_list_clear(&words);
		return EXIT_FAILED;
	}
	answer_clear(&a);
	ensure_agent(m);
	text_list_add(&words, "--json");
	text_list_add(&words, "--wait=" WAIT);
	add_number(&words, "gpus", gpus);
	if (!m->engine) /* whose job would have to have all the GPUs from the beginning */
		add_scaling(c, gpus, &words);
	add_limit(&words, "max-gpus-per-task", c->max_per_task);
	add_limit(&words, "max-total-gpus", c->max_total);
	add_limit(&words, "max-manual-gpus", c->max_manual);
	add_prefix(m, &words);
	if (m->engine)
		text_list_take(&words, xasprintf("--engine=%s", m->engine));
	text_list_add(&words, task);
	a = ask(m, &words);
	if (a.code == 0)
		code = tell_allocated(m, task, &a);
	else
		say(WARNING, "Task %s: %s", task, a.err);
	answer_clear(&a);
	text_list_clear(&words);
	return code;
}

static int told_of(const char *done, const char *task, struct answer *a)
{
	int code = a->code == 0 ? EXIT_OK : EXIT_FAILED;

	a->out = make_line(a->out);
	if (code == EXIT_OK)
		say(INFO, "%s: %s", done, a->out);
	else
		say(ERROR, "Task %s: %s", task, a->err);
	answer_clear(a);
	return code;
}

static int release(struct manager *m, const char *task)
{
	struct text_list words = words_of(m, "release");
	struct answer a;

	text_list_add(&words, task);
	a = ask(m, &words);
	text_list_clear(&words);
	return told_of("Released", task, &a);
}

/* The template's command is for a shell, as it was typed; its arguments are words. */
static int start_program(struct manager *m, const char *task)
{
	const struct manager_config *c = &m->config;
	struct text_list words = words_of(m, "start");
	struct answer a;

	if (!c->command) {
		say(ERROR, "Task %s: program_template.command is not set in %s", task, CONFIG);
		text_list_clear(&words);
		return EXIT_USAGE;
	}
	for (size_t i = 0; i < c->env.n; i++)
		text_list_take(&words, xasprintf("--env=%s", c->env.texts[i]));
	text_list_add(&words, task);
	text_list_add(&words, "--");
	text_list_add(&words, "/bin/sh");
	text_list_add(&words, "-c");
	text_list_take(&words, xasprintf("%s \"$@\"", c->command));
	text_list_add(&words, task);
	for (size_t i = 0; i < c->args.n; i++)
		text_list_add(&words, c->args.texts[i]);
	a = ask(m, &words);
	text_list_clear(&words);
	return told_of("Started", task, &a);
}

/* ---- the monitor ---- */

/* The event of it, for programs (docs/json.md), and its mail. */
static void tell_event(const struct manager *m, const struct picture *p)
{
	const char *email = m->config.notify ? m->config.email : NULL;
	struct text_list words = words_of(m, "tell-free");
	struct answer a;

	add_number(&words, "threshold", m->config.notify_from);
	if (email)
		text_list_take(&words, xasprintf("--email=%s", email));
	for (size_t i = 0; i < p->n; i++)
		if (p->all[i].free)
			text_list_take(&words, xasprintf("%s=%ld", p->all[i].name, p->all[i].free));
	a = ask(m, &words);
	a.out[strcspn(a.out, "\n")] = '\0';
	if (email && a.code == 0)
		say(INFO, "Mail: %s", a.out);
	else if (email)
		say(WARNING, "no mail was sent to %s: %s", email, a.err[0] ? a.err : a.out);
	else if (a.code || a.err[0])
		say(WARNING, "the event of it: %s", a.err);
	answer_clear(&a);
	text_list_clear(&words);
}

/* A mail server may let us wait, and the monitor goes on looking meanwhile: a child waits. */
static void tell_event_aside(const struct manager *m, const struct picture *p)
{
	pid_t pid;

	while (waitpid(-1, NULL, WNOHANG) > 0)
		; /* those of earlier ones; who asks waits for its own */
	(void)fflush(NULL);
	pid = m->config.notify && m->config.email ? fork() : -1;
	if (pid > 0)
		return;
	tell_event(m, p);
	if (pid == 0) {
		(void)fflush(NULL);
		_exit(0);
	}
}

static void tell_free(struct manager *m, const struct picture *p)
{
	const struct manager_config *c = &m->config;
	bool was = m->free >= (long)c->notify_from, is = p->free >= (long)c->notify_from;

	if (p->free != m->free)
		say(INFO, "Free GPUs: %ld of %ld on %zu node%s", p->free, p->total, p->n,
		    p->n == 1 ? "" : "s");
	for (size_t i = 0; is && !was && i < p->n; i++)
		if (p->all[i].free)
			say(INFO, "GPU available: %ld on %s", p->all[i].free, p->all[i].name);
	if (is && !was && p->free)
		tell_event_aside(m, p);
	m->free = p->free;
}

static void tell_allocations(struct manager *m, const struct picture *p)
{
	const json_t *all = json_object_get(p->allocs, "allocations"), *one;
	struct strbuf b = STRBUF_INIT;
	size_t i;

	json_array_foreach(all, i, one)
	{
		cleanup_free char *line = task_line(m, one);

		strbuf_addf(&b, "%s\n", line);
		if (!m->allocations || !strstr(m->allocations, line))
			say(INFO, "%s", line);
	}
	free(m->allocations);
	m->allocations = strbuf_take(&b);
}

static void monitor_once(struct manager *m)
{
	struct picture p;
	struct answer a = { .code = 0 };

	if (look(m, &p, &a) == 0) {
		tell_agent(m);
		tell_free(m, &p);
		tell_allocations(m, &p);
		m->failed = false;
	} else if (!m->failed) { /* once, not every time */
		say(ERROR, "%s", a.err);
		m->failed = true;
	}
	picture_clear(&p);
	answer_clear(&a);
}

static int monitor(struct manager *m, const char *task)
{
	struct sigaction act = { .sa_handler = on_signal };
	struct answer a = { .code = 0 };

	(void)sigaction(SIGINT, &act, NULL);
	(void)sigaction(SIGTERM, &act, NULL);
	(void)str_print(m->id, sizeof(m->id), "%llx-%d", (unsigned long long)clock_wall_ns(),
			(int)getpid());
	m->monitors = true;
	say(INFO, "GPU Resource Manager started, it looks every %g s", m->config.interval_s);
	if (m->config.notify && !m->config.email)
		say(WARNING,
		    "notification: it is enabled, and email is not set in %s: a line \"GPU "
		    "available\" is written here, and no mail is sent",
		    CONFIG);
	if (find_engine(m, &a))
		ensure_agent(m);
	answer_clear(&a);
	m->free = -1;
	while (!told) {
		if (m->engine_known)
			look_after_base(m);
		monitor_once(m);
		if (!told)
			(void)poll(NULL, 0, (int)(m->config.interval_s * 1e3));
	}
	m->config.max_auto = 0; /* nobody looks after it any more */
	if (m->engine_known)
		look_after_base(m);
	say(INFO, "GPU Resource Manager stopped; what was allocated by hand stays so");
	return EXIT_OK;
}

/* ---- the command line ---- */

static const struct opt rows[] = {
	{ .name = "status",
	  .spec = { VALUE_FLAG },
	  .help = "print the nodes, their free GPUs, and what is allocated" },
	{ .name = "allocate",
	  .spec = { VALUE_STRING },
	  .arg = "ID",
	  .help = "allocate GPUs for a task of that name" },
	{ .name = "gpus",
	  .spec = { VALUE_UINT, .min = 1, .max = 4096 },
	  .arg = "N",
	  .help = "with --allocate: so many (default: scaling.min_gpus)" },
	{ .name = "release",
	  .spec = { VALUE_STRING },
	  .arg = "ID",
	  .help = "end what runs there, and give its GPUs back" },
	{ .name = "start-program",
	  .spec = { VALUE_STRING },
	  .arg = "ID",
	  .help = "run the program_template of the config on the GPUs of that task" },
	{ .name = "config",
	  .words = WORDS_FILES,
	  .spec = { VALUE_STRING },
	  .arg = "FILE",
	  .def = CONFIG,
	  .help = "the config" },
	{ .name = "help", .short_name = 'h', .spec = { VALUE_FLAG }, .help = "print this" },
	{ 0 },
};

static const struct {
	const char *option;
	int (*run)(struct manager *m, const char *task);
} acts[] = {
	{ "status", show_status },
	{ "allocate", allocate },
	{ "release", release },
	{ "start-program", start_program },
};

static const struct about_row usages[] = {
	{ "", "monitor: say what is free and what is allocated when it changes" },
	{ "--status", "look once" },
	{ "--allocate ID [--gpus N]", "allocate GPUs" },
	{ "--start-program ID", "run the configured program there" },
	{ "--release ID", "give them back" },
	{ 0 },
};

static const struct about_row examples[] = {
	{ "gpu-resource-manager &", "the monitor" },
	{ "gpu-resource-manager --allocate exp_train --gpus 4", "four GPUs for exp_train" },
	{ "gpu-resource-manager --start-program exp_train", "the program of the config on them" },
	{ "gpu-resource-manager --release exp_train", "and they are free again" },
	{ 0 },
};

static const struct about_row files[] = {
	{ CONFIG, "the config in this directory: JSON, in which comments may stand" },
	{ "/etc/tenure/config.yaml", "a site's limits: max_total_gpus" },
	{ LOG, "what was done and what failed; at 10 MiB it becomes .1, up to .5" },
	{ 0 },
};

static const struct about_row exits[] = {
	{ "0", "it worked" },
	{ "1", "it did not, or was refused; the reason was printed" },
	{ "2", "wrong usage, or a mistake in the config" },
	{ 0 },
};

static const struct about_row see[] = { { "tenure", "1" }, { 0 } };

static const struct about about = {
	.name = "gpu-resource-manager",
	.summary = "allocate GPUs for tasks, and run programs on them",
	.usages = usages,
	.description =
		"The commands of gpu_resource_manager.py, over tenure: allocations are those of the "
		"instance resource-manager (or TENURE_INSTANCE), and tenure allocs, why and logs know them. On a "
		"machine of its own the agent of that instance is started when it is needed; on a cluster "
		"each allocation is a job of its own. TENURE_ENGINE says which it is (local, slurm, sge, ..); "
		"without it, it is what tenure nodes shows.",
	.opts = rows,
	.examples = examples,
	.files = files,
	.exits = exits,
	.see = see,
};

static int __attribute__((format(printf, 1, 2))) fail(const char *fmt, ...)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	va_list ap;

	va_start(ap, fmt);
	strbuf_addv(&b, fmt, ap);
	va_end(ap);
	(void)fprintf(stderr, "gpu-resource-manager: %s\n", strbuf_str(&b));
	return EXIT_USAGE;
}

static int read_config(struct manager *m, const struct opts *o)
{
	cleanup_strbuf struct strbuf notes = STRBUF_INIT;
	struct err e = ERR_INIT;
	char *save = NULL, *text;
	const char *path = opts_value(o, "config")->str;
	int r = manager_config_read(path, opts_given(o, "config"), &m->config, &notes, &e);

	if (r < 0) {
		say(ERROR, "%s", e.text);
		return EXIT_USAGE;
	}
	text = strbuf_take(&notes);
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		say(WARNING, "%s: %s", path, line);
	free(text);
	return EXIT_OK;
}

/* One of the acts, or the monitor. */
static int act_of(struct manager *m, const struct opts *o)
{
	const char *first = NULL, *task;
	int which = -1;

	for (size_t i = 0; i < ARRAY_LEN(acts); i++) {
		if (!opts_given(o, acts[i].option))
			continue;
		if (first)
			return fail("--%s and --%s: one of them at a time", first, acts[i].option);
		first = acts[i].option;
		which = (int)i;
	}
	if (opts_given(o, "gpus") && (!first || strcmp(first, "allocate") != 0))
		return fail("--gpus goes with --allocate");
	if (opts_given(o, "gpus"))
		m->gpus = (unsigned int)opts_value(o, "gpus")->num;
	if (which < 0)
		return monitor(m, NULL);
	task = opts_text(o, first);
	/* Or tenure would take it for an option of its own. */
	if (task && task[0] == '-')
		return fail("--%s: \"%s\" is not the ID of a task; one does not begin with a dash",
			    first, task);
	return acts[which].run(m, task);
}

static int run_command(int argc, char **argv)
{
	struct manager m = { .tenure = program_find("tenure") };
	struct sigaction act = { .sa_handler = on_signal };
	const char *instance = getenv("TENURE_INSTANCE");
	struct opts *o = opts_new();
	struct err e = ERR_INIT;
	int code = EXIT_OK;

	(void)sigaction(SIGINT, &act, NULL);
	(void)sigaction(SIGTERM, &act, NULL);
	m.instance = xstrdup(instance && instance[0] ? instance : INSTANCE);
	m.engine = getenv(ENGINE_ENV);
	m.engine_known = m.engine && m.engine[0];
	if (!m.engine_known || strcmp(m.engine, "local") == 0)
		m.engine = NULL;
	opts_add_rows(o, rows);
	if (opts_parse(o, argc, argv, OPTS_DEFAULT, &e) < 0) {
		code = fail("%s", e.text);
	} else if (opts_flag(o, "help")) {
		cleanup_free char *text = about_help(&about);

		(void)fputs(text, stdout);
	} else if (opts_argc(o)) {
		code = fail("it takes options only (see --help)");
	} else {
		code = read_config(&m, o);
		code = code == EXIT_OK ? act_of(&m, o) : code;
	}
	(void)opts_free(o);
	manager_config_clear(&m.config);
	free(m.tenure);
	free(m.instance);
	free(m.allocations);
	return code;
}

int main(int argc, char **argv)
{
	struct err e = ERR_INIT;
	int code = about_prints(&about, argc, argv) ? EXIT_OK : run_command(argc, argv);

	if (fs_close_stdout(&e) < 0 && code == EXIT_OK) {
		(void)fprintf(stderr, "gpu-resource-manager: %s\n", e.text);
		return EXIT_FAILED;
	}
	return code;
}
