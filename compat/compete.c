/* SPDX-License-Identifier: MIT */

/*
 * `compete`: what main.py did, with tenure below. `tenure import` makes tasks of command.txt,
 * `tenure agent --no-hold` runs them, this tells in between how the queues stand. The instance
 * belongs to the directory, so one that was killed goes on where it was. Tasks call it as well,
 * with --begin and --end, to keep logs/uni_id.json.
 *
 * Exit codes: 0 all is done, or told to end; 1 it could not begin, broke down, or its queue is
 * gone; 2 usage.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/settings.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "compat/about.h"
#include "compat/command_txt/commandset.h"
#include "compat/command_txt/import.h"
#include "compat/compete_tenure.h"
#include "compat/program.h"
#include "compat/rolling_log.h"
#include "compat/unistate.h"
#include "spool/instance.h"
#include "spool/scan.h"
#include "spool/submit.h"
#include "spool/transit.h"

#define CONFIG_MAX    (10UL << 20)
#define STOP_LIMIT_MS 60000 /* a task has 30 s to end by itself */
#define LOOK_MS	      200   /* from a word of the agent to a look at the queue */
#define AGENT_TRIES   3

#define INFO	"INFO"
#define WARNING "WARNING"
#define ERROR	"ERROR"

enum exit_code { EXIT_OK, EXIT_FAILED, EXIT_USAGE };

/* Of tenure: to start an agent once more does not help. */
enum agent_code { AGENT_USAGE = 2, AGENT_DENIED = 4 };

static volatile sig_atomic_t told;
static volatile sig_atomic_t obeyed_max = 2; /* one signal more ends this at once */

struct lane {
	char name[SPEC_NAME_MAX + 1];
	unsigned int waiting, running;
};

/* The log of a task's latest attempt. */
struct output {
	uint64_t id, attempt;
	char *file;
	bool awaited, told; /* the attempt has begun, and its file is not there yet; it was said */
};

struct compete {
	struct command_set set;
	char *self, *tenure, *dir, *log, *state;
	char *reading; /* the file that is there while the command file is being read */
	char instance[SPEC_NAME_MAX + 1];
	char *root;
	struct spool *sp;
	struct child agent;
	uint64_t agent_ns;    /* mono, when it was started */
	unsigned int unbegun; /* so many in a row were started and have not said that they began */
	uint64_t first;	      /* id of this run */
	size_t waited;	      /* as last seen */
	size_t done, failed;
	uint64_t head;	/* of what waits, while nothing runs */
	char *head_why; /* as last told */
	bool shown;	/* how it stands, at least once */
	size_t n_outputs;
	struct output *outputs;
};

/* ---- the log ---- */

static void __attribute__((format(printf, 3, 4)))
say(const struct compete *c, const char *level, const char *fmt, ...)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	va_list ap;

	va_start(ap, fmt);
	strbuf_addv(&b, fmt, ap);
	va_end(ap);
	(void)rolling_log_say(c->log, level, strbuf_str(&b));
}

/* ---- tenure as a child ---- */

static void on_text(void *user, const char *line)
{
	strbuf_addf(user, "%s\n", line);
}

/* What it prints goes the way of our own lines. */
static void on_line(void *user, const char *line)
{
	static const struct {
		const char *begin, *level;
	} kinds[] = { { "tenure: note: ", INFO },
		      { "tenure: warning: ", WARNING },
		      { "tenure: ", ERROR } };

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (str_has_prefix(line, kinds[i].begin)) {
			say(user, kinds[i].level, "%s", line + strlen(kinds[i].begin));
			return;
		}
	say(user, INFO, "%s", line);
}

/* Its exit code; what it prints is told, or kept in ret. */
static int run_tenure(struct compete *c, char *const *argv, struct strbuf *ret)
{
	struct child ch;

	if (child_start(&ch, c->tenure, argv) < 0)
		return EXIT_FAILED;
	return ret ? child_wait(&ch, on_text, ret) : child_wait(&ch, on_line, c);
}

/* ---- where the output of tasks is ---- */

/* "42-train.2.log": task 42, in its second attempt. False: it is no log of a task. */
static bool parse_log(const char *file, uint64_t *id, uint64_t *attempt)
{
	size_t digits = strspn(file, "0123456789"), len = strlen(file);
	cleanup_free char *copy = xstrdup(file);
	char *dot;

	if (!digits || file[digits] != '-' || len < digits + 5 ||
	    strcmp(file + len - 4, ".log") != 0)
		return false;
	copy[digits] = '\0';
	copy[len - strlen(".log")] = '\0';
	dot = strrchr(copy + digits + 1, '.');
	return dot && str_to_u64(copy, id) == 0 && str_to_u64(dot + 1, attempt) == 0;
}

static struct output *output_of(struct compete *c, uint64_t id)
{
	for (size_t i = 0; i < c->n_outputs; i++)
		if (c->outputs[i].id == id)
			return &c->outputs[i];
	return NULL;
}

static void say_output(const struct compete *c, const char *level, const struct output *o)
{
	if (o && o->file)
		say(c, level, "task %" PRIu64 ": its output is in %s/logs/%s", o->id,
		    spool_path_of(c->sp), o->file);
}

static int take_log(void *data, const char *file, unsigned char type)
{
	struct compete *c = data;
	uint64_t id, attempt;
	struct output *o = parse_log(file, &id, &attempt) ? output_of(c, id) : NULL;

	if (!o || attempt <= o->attempt)
		return 0;
	free(o->file);
	o->file = xstrdup(file);
	o->attempt = attempt;
	o->awaited = false;
	return 0;
}

/* The files of attempts that have begun, once they are there. */
static void find_outputs(struct compete *c)
{
	bool any = false;

	for (size_t i = 0; i < c->n_outputs; i++)
		any = any || c->outputs[i].awaited;
	if (!any || spool_each(c->sp, spool_dir_name(SPOOL_LOGS), take_log, c, NULL) < 0)
		return;
	for (size_t i = 0; i < c->n_outputs; i++)
		if (!c->outputs[i].awaited && !c->outputs[i].told) {
			say_output(c, INFO, &c->outputs[i]);
			c->outputs[i].told = true;
		}
}

static void await_output(struct compete *c, uint64_t id)
{
	struct output *o = output_of(c, id);

	if (!o) {
		c->outputs = xrealloc(c->outputs, c->n_outputs + 1, sizeof(*c->outputs));
		o = &c->outputs[c->n_outputs++];
		*o = (struct output){ .id = id };
	}
	o->awaited = true;
	o->told = false;
}

/* ---- what the agent says ---- */

/* What the agent tells of itself and its tasks. */
static void tell_agent_event(struct compete *c, const char *text, const json_t *event)
{
	const char *word = json_string_value(json_object_get(event, "level"));
	const char *outcome = json_string_value(json_object_get(event, "outcome"));
	bool failed = outcome && strcmp(outcome, "failed") == 0;
	bool again = outcome && strcmp(outcome, "requeued") == 0;
	const char *level = failed || (word && strcmp(word, "error") == 0)    ? ERROR
			    : again || (word && strcmp(word, "warning") == 0) ? WARNING
									      : INFO;

	find_outputs(c);
	say(c, level, "%s", text);
	if (failed || again)
		say_output(
			c, level,
			output_of(c, (uint64_t)json_integer_value(json_object_get(event, "task"))));
}

/* A line of the agent: an event, or what it printed before there were any. */
static void on_event(void *user, const char *line)
{
	static const char *const trouble[] = { "failed", "lost", "blind" };
	static const char *const quiet[] = { "returned", "starting", "gone",
					     "held",	 "release",  "task-started" };
	json_t *event = line[0] == '{' ? json_loads(line, 0, NULL) : NULL;
	const char *kind = json_string_value(json_object_get(event, "event"));
	const char *text = json_string_value(json_object_get(event, "text"));
	const json_t *task = json_object_get(event, "task");
	const char *level = INFO;
	struct compete *c = user;
	bool shown = true;

	for (size_t i = 0; kind && i < ARRAY_LEN(trouble); i++)
		level = strcmp(kind, trouble[i]) == 0 ? WARNING : level;
	for (size_t i = 0; kind && i < ARRAY_LEN(quiet); i++)
		shown = shown && strcmp(kind, quiet[i]) != 0;
	if (kind && strcmp(kind, "start") == 0)
		c->unbegun = 0;
	/* How each was at the start is shown by its device event. */
	if (kind && strcmp(kind, "state") == 0)
		shown = clock_mono_ns() > c->agent_ns + NS_PER_S;
	if (!kind || !text)
		on_line(c, line);
	else if (shown && json_object_get(event, "level") && !json_object_get(event, "seq"))
		tell_agent_event(c, text, event);
	else if (shown)
		say(c, level, "%s", text);
	if (kind && strcmp(kind, "lent") == 0 && json_is_integer(task))
		await_output(c, (uint64_t)json_integer_value(task));
	json_decref(event);
}

static int import(struct compete *c, const char *commands, const char *config)
{
	char *argv[] = { (char[]){ "tenure" },
			 (char[]){ "import" },
			 (char[]){ "--state" },
			 c->state,
			 (char[]){ "--noter" },
			 c->self,
			 config ? (char[]){ "--config" } : (char[]){ "--" },
			 (char *)(uintptr_t)(config ? config : commands),
			 config ? (char[]){ "--" } : NULL,
			 (char *)(uintptr_t)commands,
			 NULL };

	return run_tenure(c, argv, NULL);
}

static bool start_agent(struct compete *c)
{
	char left[24];
	char *argv[] = { (char[]){ "tenure" },
			 (char[]){ "agent" },
			 (char[]){ "--json" },
			 (char[]){ "--no-hold" },
			 (char[]){ "--refresh" },
			 (char[]){ "1s" },
			 (char[]){ "--leave" },
			 str_print(left, sizeof(left), "%" PRIu64, c->set.left),
			 (char[]){ "--gpus" },
			 c->set.all_gpus ? (char[]){ "all" } : c->set.gpus,
			 NULL };

	c->agent_ns = clock_mono_ns();
	c->unbegun++;
	return child_start(&c->agent, c->tenure, argv) == 0;
}

/* The older tool passed over what its list named and the machine had not. Without any GPU there can
 * be no agent. */
static int pick_gpus(struct compete *c, struct err *e)
{
	char *argv[] = { (char[]){ "tenure" }, (char[]){ "devices" }, (char[]){ "--json" }, NULL };
	cleanup_strbuf struct strbuf text = STRBUF_INIT;
	cleanup_free char *out = NULL;
	char *here;
	int r;

	if (run_tenure(c, argv, &text) != 0)
		return err_set(e, -ENODEV, "%.*s", (int)(text.len ? text.len - 1 : 0),
			       strbuf_str(&text));
	if (c->set.all_gpus)
		return 0;
	r = compete_gpus_here(c->set.gpus, strbuf_str(&text), &here, &out, e);
	if (r < 0)
		return r;
	free(c->set.gpus);
	c->set.gpus = here;
	if (out)
		say(c, WARNING, "compete_gpus: GPU %s is not here", out);
	return 0;
}

/* ---- how it stands ---- */

static int count_ended(void *data, const struct task_name *n, const char *dir)
{
	struct compete *c = data;

	*(spool_dir_of(dir) == SPOOL_DONE ? &c->done : &c->failed) += n->id >= c->first;
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

	c->head = 0;
	if (scan_update(s, NULL, NULL, NULL) < 0)
		n = 1; /* not known: it goes on */
	else
		c->waited = scan_count(s, SPOOL_PENDING);
	while ((t = scan_next(s, &iter))) {
		struct lane *l = lane_of(lanes, n_lanes, t->name.lane);

		if (t->dir == SPOOL_PENDING && stop)
			(void)transit_cancel(c->sp, &t->name, "compete was ended", NULL);
		l->waiting += t->dir == SPOOL_PENDING && !stop;
		l->running += t->dir == SPOOL_RUNNING;
		n += t->dir == SPOOL_RUNNING || !stop;
		c->first = c->first && c->first < t->name.id ? c->first : t->name.id;
		if (t->dir == SPOOL_PENDING && (!c->head || t->name.id < c->head))
			c->head = t->name.id;
	}
	(void)scan_free(s);
	return n;
}

/* Why nothing runs, whenever that changes. */
static void show_why(struct compete *c, size_t running)
{
	char id[24];
	char *argv[] = { (char[]){ "tenure" }, (char[]){ "why" },
			 str_print(id, sizeof(id), "%" PRIu64, c->head), NULL };
	struct strbuf text = STRBUF_INIT;
	cleanup_free char *why = NULL;

	if (c->shown && !running && c->head && run_tenure(c, argv, &text) == 0) {
		for (char *p = text.data; *p; p++)
			*p = *p == '\n' && p[1] ? ' ' : *p == '\n' ? '\0' : *p;
		why = strbuf_take(&text);
	}
	strbuf_clear(&text);
	if (why && !str_same_but_figures(c->head_why, why))
		say(c, INFO, "%s", why);
	free(c->head_why);
	c->head_why = take_ptr(why);
}

/* As the command.txt has it. */
static const char *queue_name(const char *lane)
{
	size_t len = strlen(IMPORT_LANE);

	return str_has_prefix(lane, IMPORT_LANE) && lane[len] ? lane + len : lane;
}

static size_t show(struct compete *c)
{
	struct lane *lanes = NULL;
	size_t n_lanes = 0, waiting = 0, running = 0, n = look(c, false, &lanes, &n_lanes);

	c->done = c->failed = 0;
	(void)scan_ended(c->sp, count_ended, c, NULL);
	for (size_t i = 0; i < n_lanes; i++) {
		say(c, INFO, "queue %s: %s, %u pending", queue_name(lanes[i].name),
		    lanes[i].running ? "busy" : "idle", lanes[i].waiting);
		waiting += lanes[i].waiting;
		running += lanes[i].running;
	}
	say(c, INFO, "pending: %zu, running: %zu, completed: %zu, failed: %zu", waiting, running,
	    c->done, c->failed);
	free(lanes);
	show_why(c, running);
	c->shown = true; /* at first there is no agent yet that could say why */
	return n;
}

/* ---- the run ---- */

static void on_signal(int number)
{
	static const char text[] = "compete: told again: it ends at once, and its agent with it\n";

	if (told >= obeyed_max) {
		(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
		_exit(EXIT_FAILED);
	}
	told = told + 1;
}

/* Whether nothing waits or runs any more. */
static bool is_over(struct compete *c)
{
	struct lane *lanes = NULL;
	size_t n_lanes = 0, n = look(c, false, &lanes, &n_lanes);

	free(lanes);
	return n == 0;
}

/* Until then, or until the agent has told the end of the last task. */
static void pause_ms(struct compete *c, uint64_t ms)
{
	uint64_t now = clock_mono_ns(), end = now + ms * NS_PER_MS, look_ns = UINT64_MAX;

	for (; !told && now < end; now = clock_mono_ns()) {
		struct pollfd p = { .fd = c->agent.pid ? c->agent.fd : -1, .events = POLLIN };

		(void)poll(&p, 1, 50);
		if (child_hear(&c->agent, on_event, c))
			look_ns = now + LOOK_MS * NS_PER_MS;
		find_outputs(c);
		if (now < look_ns)
			continue;
		look_ns = UINT64_MAX;
		if (is_over(c))
			return;
	}
}

static void end_agent(struct compete *c)
{
	if (!c->agent.pid)
		return;
	(void)kill(c->agent.pid, SIGTERM);
	(void)child_wait(&c->agent, on_event, c);
}

/* False: it cannot be had. */
static bool keep_agent(struct compete *c)
{
	int code;

	if (!child_ended(&c->agent, &code))
		return true;
	c->agent.pid = 0;
	(void)child_wait(&c->agent, on_event, c);
	if (code == AGENT_USAGE || code == AGENT_DENIED || c->unbegun == AGENT_TRIES) {
		say(c, ERROR, "there can be no agent; what waits is run by the next start");
		return false;
	}
	say(c, WARNING, "the agent has ended; it is started again");
	pause_ms(c, 1000);
	return told || start_agent(c);
}

/* ---- without a queue ---- */

static size_t count_left(struct compete *c, struct strbuf *names)
{
	char *argv[] = { (char[]){ "tenure" }, (char[]){ "status" }, (char[]){ "--json" }, NULL };
	cleanup_strbuf struct strbuf text = STRBUF_INIT;
	int code = run_tenure(c, argv, &text);

	strbuf_clear(names);
	return code == EXIT_OK ? compete_left(strbuf_str(&text), names) : 0;
}

/* The agent tells them; that they have ended it cannot write anywhere. */
static size_t stop_left(struct compete *c, struct strbuf *names)
{
	char *argv[] = { (char[]){ "tenure" }, (char[]){ "off" }, (char[]){ "--stop-tasks" },
			 NULL };
	uint64_t end = clock_mono_ns() + STOP_LIMIT_MS * NS_PER_MS;
	cleanup_strbuf struct strbuf unheard = STRBUF_INIT;
	struct child off;
	size_t n;

	say(c, INFO, "stopping: tasks are stopped");
	if (child_start(&off, c->tenure, argv) < 0)
		return count_left(c, names);
	while ((n = count_left(c, names)) && told < 2 && clock_mono_ns() < end)
		(void)poll(NULL, 0, 100);
	(void)kill(off.pid, SIGTERM);
	(void)child_wait(&off, on_text, &unheard);
	return n;
}

/* What runs has nobody who needs it to end, unless that was asked for. */
static int end_without_queue(struct compete *c)
{
	cleanup_strbuf struct strbuf names = STRBUF_INIT, unheard = STRBUF_INIT;
	size_t n;

	obeyed_max = 1;
	say(c, ERROR, "its queue in %s is gone; as last seen, %zu task%s waited in it",
	    spool_path_of(c->sp), c->waited, c->waited == 1 ? "" : "s");
	n = told ? stop_left(c, &names) : count_left(c, &names);
	if (n)
		say(c, WARNING,
		    "%zu task%s still run%s, and nothing will say how %s: %s; kill and such a PID "
		    "ends one with all of its processes",
		    n, n == 1 ? "" : "s", n == 1 ? "s" : "", n == 1 ? "it ends" : "they end",
		    strbuf_str(&names));
	else
		say(c, INFO, "none of its tasks is known to run");
	if (c->agent.pid) {
		(void)kill(c->agent.pid, SIGTERM);
		(void)child_wait(&c->agent, on_text, &unheard);
	}
	return EXIT_FAILED;
}

static void stop_all(struct compete *c, bool now)
{
	char *argv[] = { (char[]){ "tenure" }, (char[]){ "stop" }, (char[]){ "all" },
			 now ? (char[]){ "--now" } : NULL, NULL };

	(void)run_tenure(c, argv, NULL);
}

/* A second signal takes the grace time away. */
static void stop_tasks(struct compete *c)
{
	uint64_t end = clock_mono_ns() + STOP_LIMIT_MS * NS_PER_MS;
	struct lane *lanes = NULL;
	size_t n_lanes = 0, n;
	int obeyed = 0;

	say(c, INFO, "stopping: tasks are stopped");
	while ((n = look(c, true, &lanes, &n_lanes)) && clock_mono_ns() < end) {
		if (spool_was_removed(c->sp) || !keep_agent(c))
			break;

		int signals = told; /* another may come while the first is passed on */

		if (obeyed < signals)
			stop_all(c, signals > 1);
		obeyed = signals;
		(void)poll(NULL, 0, 100);
		(void)child_hear(&c->agent, on_event, c);
	}
	free(lanes);
	if (n && !spool_was_removed(c->sp))
		say(c, WARNING, "%zu task%s still run%s; tenure list -i %s shows them", n,
		    n == 1 ? "" : "s", n == 1 ? "s" : "", c->instance);
}

static int run(struct compete *c)
{
	while (!told && !spool_was_removed(c->sp)) {
		if (!show(c)) {
			say(c, INFO, "all tasks have ended");
			break;
		}
		pause_ms(c, c->set.check_ms);
		if (!told && !spool_was_removed(c->sp) && !keep_agent(c))
			return EXIT_FAILED;
	}
	if (told && !spool_was_removed(c->sp))
		stop_tasks(c);
	if (spool_was_removed(c->sp))
		return end_without_queue(c);
	end_agent(c);
	return EXIT_OK;
}

/* ---- the beginning ---- */

static int read_config(struct compete *c, const char *path, struct err *e)
{
	cleanup_free char *text = NULL;
	size_t len;
	int r;

	command_set_default(&c->set);
	if (!path)
		return 0;
	r = fs_read_file(path, CONFIG_MAX, &text, &len, e);
	return r == 0 ? command_set_parse(path, text, len, &c->set, e) : r;
}

static int find_spool(struct compete *c, struct err *e)
{
	struct settings *s = settings_new();
	int r;

	(void)str_print(c->instance, sizeof(c->instance), "compete-%08x",
			hash_fnv32(HASH_FNV32, c->dir));
	settings_need(s, SETTING_GROUP_QUEUE);
	r = settings_load(s, NULL, e);
	if (r == 0) {
		struct spool_trust trust = trust_from_settings(s);

		c->root = spool_root(settings_str(s, SET_ROOT));
		r = spool_open(c->root, c->instance, &trust, SPOOL_CREATE, &c->sp, e);
		(void)setenv("TENURE_ROOT", c->root, 1);
		(void)setenv("TENURE_INSTANCE", c->instance, 1);
	}
	(void)settings_free(s);
	return r;
}

static int prepare(struct compete *c, const char *commands, struct err *e)
{
	cleanup_free char *full = realpath(commands, NULL);
	cleanup_free char *logs = NULL, *lock = NULL;
	int fd;

	struct stat st;

	if (!full || stat(full, &st) < 0)
		return err_sys(e, errno, "%s", commands);
	if (!S_ISREG(st.st_mode))
		return err_set(e, -EINVAL, "%s is no file", commands);
	*strrchr(full, '/') = '\0';
	c->dir = xstrdup(full[0] ? full : "/");
	logs = xasprintf("%s/logs", c->dir);
	lock = xasprintf("%s/.compete.lock", logs);
	c->log = xasprintf("%s/compete_gpu.log", logs);
	c->state = xasprintf("%s/uni_id.json", logs);
	c->reading = xasprintf("%s/.compete.reading", logs);
	if (fs_mkdirs(logs, 0755, e) < 0)
		return e->code;
	fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600); /* ours to the end */
	if (fd < 0)
		return err_sys(e, errno, "open %s", lock);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return err_set(e, -EBUSY, "compete runs in %s already", c->dir);
	return find_spool(c, e);
}

/* How many tasks wait or run. One that was killed while it read, or could not let all go that it
 * had read, leaves some that wait paused. */
static size_t left_over(struct compete *c)
{
	bool half = access(c->reading, F_OK) == 0;
	struct lane *lanes = NULL;
	size_t n_lanes = 0, n;

	if (half)
		(void)look(c, true, &lanes, &n_lanes);
	if (half)
		(void)unlink(c->reading);
	n = look(c, false, &lanes, &n_lanes);
	free(lanes);
	return n;
}

/* All of its tasks, or none: also where this is killed half-way. The mark of that stays where they
 * are not all free: what waits paused then goes with the next start. */
static int read_commands(struct compete *c, const char *commands, const char *config)
{
	struct err e = ERR_INIT;
	int code = EXIT_FAILED;

	(void)submit_new_id(c->sp, &c->first, NULL); /* what ended before is not counted */
	if (fs_write_atomic(c->reading, "", 0, 0600, &e) < 0)
		say(c, ERROR, "%s", e.text);
	else
		code = import(c, commands, config);
	if (code == EXIT_OK)
		(void)unlink(c->reading);
	return code;
}

static void say_begin(struct compete *c)
{
	cleanup_free char *left =
		c->set.left ? xasprintf(", the last %" PRIu64 " left to others", c->set.left)
			    : xstrdup("");

	say(c, INFO, "instance %s, gpus %s%s", c->instance, c->set.all_gpus ? "all" : c->set.gpus,
	    left);
}

static int work(struct compete *c, const char *commands, const char *config)
{
	const struct sigaction sa = { .sa_handler = on_signal };
	struct err e = ERR_INIT;
	size_t n;

	(void)sigaction(SIGTERM, &sa, NULL);
	if (!proc_ignores(SIGINT))
		(void)sigaction(SIGINT, &sa, NULL);
	if (pick_gpus(c, &e) < 0) {
		say(c, ERROR, "%s", e.text);
		return EXIT_FAILED;
	}
	n = left_over(c);
	if (n) {
		say(c, INFO, "going on with %zu task%s of a run that was not ended; %s is not read",
		    n, n == 1 ? "" : "s", commands);
	} else {
		int code = read_commands(c, commands, config);

		if (code)
			return code;
	}
	say_begin(c);
	return start_agent(c) ? run(c) : EXIT_FAILED;
}

static int note(int argc, char **argv)
{
	struct err e = ERR_INIT;
	uint64_t code;

	if (strcmp(argv[1], "--end") == 0 && argc >= 5 && str_to_u64(argv[4], &code) == 0)
		return unistate_end(argv[2], argv[3], (int)(code & 255), argc > 5);
	if (argc != 4)
		return EXIT_USAGE;
	if (unistate_begin(argv[2], argv[3], getppid(), &e) < 0)
		(void)fprintf(stderr, "compete: %s\n", e.text);
	return 0;
}

static const struct opt help_opts[] = {
	{ .name = "help", .short_name = 'h', .spec = { VALUE_FLAG }, .help = "show this help" },
	{ 0 },
};

static const struct about about = {
	.name = "compete",
	.summary = "run the tasks of a command.txt on the GPUs that have room",
	.takes_files = true,
	.usages =
		(const struct about_row[]){
			{ "[COMMAND_FILE [CONFIG_FILE]]",
			  "read them, run all, and show how it stands" },
			{ 0 },
		},
	.description =
		"Without them command.txt and config.yaml of this directory are read. It runs in the "
		"foreground and ends when all is done, or by Ctrl-C, which stops the tasks: they have "
		"30 seconds, and none after a second Ctrl-C; a third one ends it at once. One that was killed leaves its tasks "
		"running; the next start goes on with them, and does not read the command file again.\n"
		"\n"
		"The tasks are in a queue of tenure, whose name is in the first lines: tenure list -i NAME "
		"shows them, tenure logs -i NAME ID what one has printed.",
	.opts = help_opts,
	.examples =
		(const struct about_row[]){
			{ "compete", "command.txt and config.yaml of this directory" },
			{ "compete week.txt", "another command file, with config.yaml beside it" },
			{ 0 },
		},
	.files =
		(const struct about_row[]){
			{ "command.txt",
			  "the tasks: their queue, their commands, and the memory they need; "
			  "tenure help import has both ways to write one" },
			{ "config.yaml",
			  "which GPUs, how many of them are left to others, when to try again" },
			{ "logs/compete_gpu.log",
			  "what it prints; beside the command file, like the next one" },
			{ "logs/uni_id.json",
			  "the state of each attempt, kept for and by the scripts" },
			{ 0 },
		},
	.exits =
		(const struct about_row[]){
			{ "0", "all has ended, or it was told to end" },
			{ "1", "it could not begin, broke down, or its queue was removed" },
			{ "2", "a mistake in what was typed, or in the command file" },
			{ 0 },
		},
	.see =
		(const struct about_row[]){
			{ "tenure-import", "1" },
			{ "tenure-list", "1" },
			{ "tenure-logs", "1" },
			{ 0 },
		},
};

static int usage(void)
{
	cleanup_free char *text = about_help(&about);

	(void)fputs(text, stdout);
	return EXIT_OK;
}

static void clear(struct compete *c)
{
	char *const texts[] = { c->self,  c->tenure,  c->dir,  c->log,
				c->state, c->reading, c->root, c->head_why };

	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		free(texts[i]);
	for (size_t i = 0; i < c->n_outputs; i++)
		free(c->outputs[i].file);
	free(c->outputs);
	c->sp = spool_close(c->sp);
	command_set_clear(&c->set);
}

int main(int argc, char **argv)
{
	const char *commands = argc > 1 ? argv[1] : "command.txt";
	struct compete c = { .first = 0 };
	struct err e = ERR_INIT;
	int code = EXIT_FAILED;

	if (argc > 1 && (strcmp(argv[1], "--begin") == 0 || strcmp(argv[1], "--end") == 0))
		return note(argc, argv);
	if (about_prints(&about, argc, argv))
		return EXIT_OK;
	if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
		return usage();
	if (argc > 3 || commands[0] == '-') {
		(void)fprintf(
			stderr,
			"compete: it takes a command file and a config file (see compete --help)\n");
		return EXIT_USAGE;
	}
	c.self = realpath("/proc/self/exe", NULL);
	c.tenure = program_find("tenure");

	int r = prepare(&c, commands, &e);
	cleanup_free char *own = r == 0 ? xasprintf("%s/config.yaml", c.dir) : NULL;
	const char *config = argc > 2 ? argv[2] : own && access(own, F_OK) == 0 ? own : NULL;

	if (r == 0)
		r = read_config(&c, config, &e);
	if (r == 0)
		code = work(&c, commands, config);
	else if (c.sp) /* the log is ours */
		say(&c, ERROR, "%s", e.text);
	else
		(void)fprintf(stderr, "compete: %s\n", e.text);
	clear(&c);
	return code;
}
