/* SPDX-License-Identifier: MIT */

/*
 * The table of keys, and the checks of a whole task. What a key's text or JSON is reads and writes
 * task_text.c, which stands on the table.
 */

#include "spool/task_spec.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/units.h"
#include "base/value.h"
#include "spool/elements.h"

static const char *const cleans[] = { "none", "gpu", "python", NULL };
static const char *const rule_names[] = { "tenure", "compete", "compete-max", NULL };

static const char group_needs[] = "What it needs", group_scales[] = "How it grows and shrinks",
		  group_order[] = "When and in which order", group_many[] = "Many at once";
static const char group_fails[] = "When it fails or is stopped", group_runs[] = "How it runs";

const char *const task_option_groups[] = { group_needs, group_scales, group_order, group_many,
					   group_fails, group_runs,   NULL };

#define AT(field) .offset = offsetof(struct task_spec, field)

static const struct task_option rows[] = {
	{ .key = "version",
	  AT(version),
	  .def = SPEC_VERSION,
	  .flags = OPTION_NOT_IN_LINE,
	  .opt = { .spec = { VALUE_UINT, .min = 1, .max = SPEC_VERSION },
		   .help = "of this format" } },
	{ .key = "name",
	  AT(name),
	  .flags = OPTION_AS_NEW,
	  .opt = { .name = "name",
		   .short_name = 'n',
		   .spec = { VALUE_TASK_NAME, .max = SPEC_NAME_MAX },
		   .arg = "NAME",
		   .group = group_order,
		   .help = "what to call it (default: the script or the program)" } },
	{ .key = "gpus",
	  AT(gpus),
	  .def = 1,
	  .flags = OPTION_ROOM | OPTION_AS_NEW,
	  .opt = { .name = "gpus",
		   .short_name = 'g',
		   .spec = { VALUE_COUNT, .max = SPEC_GPUS_MAX, .word = "all" },
		   .arg = "N",
		   .def = "1",
		   .group = group_needs,
		   .help = "GPUs: a number (0 too) or all" } },
	{ .key = "nodes",
	  .help = "run on so many nodes at once, with those GPUs on each",
	  AT(nodes),
	  .flags = OPTION_AS_NEW,
	  .opt = { .name = "nodes",
		   .spec = { VALUE_UINT, .min = 1, .max = SPEC_NODES_MAX },
		   .arg = "N",
		   .group = group_needs,
		   .help = "run on N nodes at once, with -g GPUs on each" } },
	{ .key = "memory",
	  AT(memory),
	  .flags = OPTION_ROOM,
	  .opt = { .name = "memory",
		   .short_name = 'm',
		   .spec = { VALUE_SIZE, .word = "auto" },
		   .arg = "SIZE",
		   .group = group_needs,
		   .help = "memory that it needs on each GPU: 20G, or auto: what runs of its name "
			   "needed" } },
	{ .key = "shared",
	  AT(shared),
	  .opt = { .name = "shared",
		   .spec = { VALUE_FLAG },
		   .group = group_needs,
		   .help = "others may be on its GPUs while that memory is free" } },
	{ .key = "model",
	  AT(model),
	  .flags = OPTION_ROOM,
	  .opt = { .name = "model",
		   .spec = { VALUE_TEXT, .max = 256 },
		   .arg = "PATTERN",
		   .group = group_needs,
		   .help = "only on GPUs with such a name: '*H200*'" } },
	{ .key = "gpus_min",
	  .help = "while it is idle it gives GPUs back, down to so many (default: gpus)",
	  AT(gpus_min),
	  .opt = { .name = "gpus-min",
		   .spec = { VALUE_UINT, .max = SPEC_GPUS_MAX },
		   .arg = "N",
		   .group = group_scales,
		   .help = "while it is idle it gives GPUs back, down to N (default: --gpus)" } },
	{ .key = "gpus_max",
	  .help = "while it is busy it gets more GPUs, up to so many; 0: never",
	  AT(gpus_max),
	  .opt = { .name = "gpus-max",
		   .spec = { VALUE_UINT, .max = SPEC_GPUS_MAX },
		   .arg = "N",
		   .group = group_scales,
		   .help = "while it is busy it gets more GPUs, up to N; $TENURE_GPUS_FILE lists them" } },
	{ .key = "scale_up",
	  AT(scale_up),
	  .def = SPEC_SCALE_UP,
	  .opt = { .name = "scale-up",
		   .spec = { VALUE_PERCENT, .min = 1, .max = 999 },
		   .arg = "PERCENT",
		   .def = "80%",
		   .group = group_scales,
		   .help = "busy is a mean utilisation above this" } },
	{ .key = "scale_down",
	  AT(scale_down),
	  .def = SPEC_SCALE_DOWN,
	  .opt = { .name = "scale-down",
		   .spec = { VALUE_PERCENT, .max = 999 },
		   .arg = "PERCENT",
		   .def = "30%",
		   .group = group_scales,
		   .help = "idle is a mean utilisation below this; 0: it never is" } },
	{ .key = "scale_window",
	  AT(scale_window),
	  .def = MS_PER_MIN,
	  .opt = { .name = "scale-window",
		   .spec = { VALUE_DURATION, .min = MS_PER_S, .max = MS_PER_DAY },
		   .arg = "DURATION",
		   .def = "1m",
		   .group = group_scales,
		   .help = "the time of which that is the mean" } },
	{ .key = "scale_cooldown",
	  AT(scale_cooldown),
	  .def = 5 * MS_PER_MIN,
	  .opt = { .name = "scale-cooldown",
		   .spec = { VALUE_DURATION, .max = MS_PER_DAY },
		   .arg = "DURATION",
		   .def = "5m",
		   .group = group_scales,
		   .help = "from its start, and from each change, to the next one at least" } },
	{ .key = "pool",
	  AT(pool),
	  .flags = OPTION_AS_NEW,
	  .opt = { .name = "pool",
		   .words = WORDS_POOLS,
		   .spec = { VALUE_TASK_NAME, .max = SPEC_NAME_MAX },
		   .arg = "NAME",
		   .group = group_needs,
		   .help = "only on nodes of that pool (tenure up)" } },
	{ .key = "priority",
	  AT(priority),
	  .def = SPEC_PRIORITY,
	  .flags = OPTION_IN_NAME,
	  .opt = { .name = "priority",
		   .short_name = 'p',
		   .spec = { VALUE_UINT, .max = SPEC_PRIORITY_MAX },
		   .arg = "N",
		   .def = "500",
		   .group = group_order,
		   .help = "lower runs first" } },
	{ .key = "lane",
	  AT(lane),
	  .flags = OPTION_AS_NEW,
	  .opt = { .name = "lane",
		   .words = WORDS_LANES,
		   .short_name = 'l',
		   .spec = { VALUE_TASK_NAME, .max = SPEC_NAME_MAX },
		   .arg = "NAME",
		   .group = group_order,
		   .help = "tasks of a lane run one after another" } },
	{ .key = "retries",
	  AT(retries),
	  .opt = { .name = "retries",
		   .short_name = 'r',
		   .spec = { VALUE_COUNT, .max = 1000000, .word = "forever" },
		   .arg = "N",
		   .def = "0",
		   .group = group_fails,
		   .help = "attempts after a failure: a number or forever" } },
	{ .key = "retry_every",
	  AT(retry_every),
	  .def = 3,
	  .opt = { .name = "retry-every",
		   .spec = { VALUE_UINT, .min = 1, .max = 1000000 },
		   .arg = "N",
		   .def = "3",
		   .group = group_fails,
		   .help = "failures before the back-off" } },
	{ .key = "backoff",
	  AT(backoff),
	  .def = 10 * MS_PER_MIN,
	  .opt = { .name = "backoff",
		   .spec = { VALUE_DURATION, .max = 365 * MS_PER_DAY },
		   .arg = "DURATION",
		   .def = "10m",
		   .group = group_fails,
		   .help = "pause after so many failures" } },
	{ .key = "retry_memory",
	  AT(retry_memory),
	  .opt = { .name = "retry-memory",
		   .spec = { VALUE_FACTOR, .min = 1000, .max = 100000 },
		   .arg = "FACTOR",
		   .group = group_fails,
		   .help = "ask for so much more memory after it ran out: x1.5" } },
	{ .key = "no_requeue",
	  AT(no_requeue),
	  .opt = { .name = "no-requeue",
		   .spec = { VALUE_FLAG },
		   .group = group_fails,
		   .help = "failed, not run again, when its node goes away" } },
	{ .key = "timeout",
	  .help = "end an attempt after that time",
	  AT(timeout),
	  .opt = { .name = "timeout",
		   .spec = { VALUE_DURATION, .max = 3650 * MS_PER_DAY },
		   .arg = "DURATION",
		   .group = group_fails,
		   .help = "end an attempt after that time: 90m, 1h30m, or as Slurm says it: MM:SS, "
			   "H:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS" } },
	{ .key = "after",
	  .help = "ids that must be done first",
	  AT(after),
	  .flags = OPTION_AS_NEW,
	  .opt = { .name = "after",
		   .words = WORDS_TASK_IDS,
		   .spec = { VALUE_IDS, .min = 1, .word = "last" },
		   .arg = "ID,..",
		   .group = group_order,
		   .help = "when these are done; last: what you submitted last; may be repeated" } },
	{ .key = "after_any",
	  .help = "ids that must have ended first, well or not",
	  AT(after_any),
	  .flags = OPTION_AS_NEW,
	  .opt = { .name = "after-any",
		   .words = WORDS_TASK_IDS,
		   .spec = { VALUE_IDS, .min = 1, .word = "last" },
		   .arg = "ID,..",
		   .group = group_order,
		   .help = "when these have ended, well or not; last as above" } },
	{ .key = "array",
	  AT(array),
	  .opt = { .name = "array",
		   .spec = { VALUE_RANGE, .max = SPEC_ELEMENTS_MAX },
		   .arg = "A-B%N",
		   .group = group_many,
		   .help = "once per index, N at once: 1-100%4" } },
	{ .key = "sweep",
	  .help = "once per combination: NAME=A,B or NAME=1..5",
	  AT(sweep),
	  .opt = { .name = "sweep",
		   .spec = { VALUE_TEXTS, .max = SWEEP_PARAMETERS_MAX },
		   .arg = "NAME=A,B",
		   .group = group_many,
		   .help = "once per combination: lr=0.1,0.01 or seed=1..5; may be repeated" } },
	{ .key = "preemptible",
	  AT(preemptible),
	  .opt = { .name = "preemptible",
		   .spec = { VALUE_FLAG },
		   .group = group_fails,
		   .help = "preempted by people and other tasks: ended, and run again" } },
	{ .key = "signal",
	  AT(signal),
	  .opt = { .name = "signal",
		   .spec = { VALUE_SIGNAL },
		   .arg = "NAME",
		   .group = group_fails,
		   .help = "the first signal when it is stopped: USR1 (default TERM)" } },
	{ .key = "grace",
	  AT(grace),
	  .def = 30 * MS_PER_S,
	  .opt = { .name = "grace",
		   .spec = { VALUE_DURATION, .max = MS_PER_DAY },
		   .arg = "DURATION",
		   .def = "30s",
		   .group = group_fails,
		   .help = "from that signal to KILL" } },
	{ .key = "env",
	  .help = "environment: NAME=VALUE",
	  AT(env),
	  .flags = OPTION_REPLACES,
	  .opt = { .name = "env",
		   .spec = { VALUE_BYTES, .max = SPEC_LIST_MAX },
		   .arg = "NAME=VALUE",
		   .group = group_runs,
		   .help = "set a variable; may be repeated" } },
	{ .key = "cwd",
	  .help = "directory to run in; the home directory",
	  AT(cwd),
	  .flags = OPTION_SUBMITTER,
	  .opt = { .name = "cwd",
		   .spec = { VALUE_BYTES_PATH, .max = 4096 },
		   .arg = "DIR",
		   .group = group_runs,
		   .flags = OPT_AS_TEXT,
		   .help = "directory to run in, also relative to this one (default: this one)" } },
	{ .key = "output",
	  .help = "file that what it prints is appended to; its log",
	  AT(output),
	  .flags = OPTION_SUBMITTER,
	  .opt = { .name = "output",
		   .short_name = 'o',
		   .words = WORDS_FILES,
		   .spec = { VALUE_BYTES_PATH, .max = 4096 },
		   .arg = "PATH",
		   .group = group_runs,
		   .flags = OPT_AS_TEXT,
		   .help = "append what it prints to that file, also relative to --cwd, and not to its "
			   "log; %j is its id, %A without the element, %a the index, %x its name, %N "
			   "the node, %u the user" } },
	{ .key = "error",
	  .help = "the same for standard error alone; as output",
	  AT(error),
	  .flags = OPTION_SUBMITTER,
	  .opt = { .name = "error",
		   .short_name = 'e',
		   .words = WORDS_FILES,
		   .spec = { VALUE_BYTES_PATH, .max = 4096 },
		   .arg = "PATH",
		   .group = group_runs,
		   .flags = OPT_AS_TEXT,
		   .help = "the same for its standard error alone (default: as --output)" } },
	{ .key = "on_end",
	  AT(on_end),
	  .flags = OPTION_AS_EDIT,
	  .opt = { .name = "on-end",
		   .spec = { VALUE_TEXT, .max = 4096 },
		   .arg = "CMD",
		   .group = group_fails,
		   .help = "run that command in /bin/sh when it has ended, well or not, and will not "
			   "be tried again; TENURE_RESULT and others say how" } },
	{ .key = "umask",
	  AT(umask),
	  .def = SPEC_NO_UMASK,
	  .opt = { .spec = { VALUE_OCTAL, .max = 0777 },
		   .help = "mask of the modes of its files: 022; the agent's" } },
	{ .key = "begin",
	  .help = "not before this time",
	  AT(begin),
	  .flags = OPTION_IN_NAME,
	  .opt = { .name = "begin",
		   .spec = { VALUE_TIME },
		   .arg = "TIME",
		   .group = group_order,
		   .help = "not before: 18:30, noon, midnight, +1h30m, tomorrow, \"tomorrow 08:00\", "
			   "2026-11-22, \"2026-11-22 08:00\"; now and today begin at once" } },
	{ .key = "paused",
	  AT(paused),
	  .flags = OPTION_IN_NAME,
	  .opt = { .name = "paused",
		   .spec = { VALUE_FLAG },
		   .group = group_order,
		   .help = "wait for tenure resume" } },
	{ .key = "clean",
	  AT(clean),
	  .opt = { .name = "clean",
		   .spec = { VALUE_CHOICE, .choices = cleans },
		   .arg = "WHAT",
		   .def = "none",
		   .group = group_fails,
		   .help = "what else of ours is ended with it" } },
	{ .key = "script",
	  AT(script),
	  .opt = { .spec = { VALUE_TEXT, .max = SPEC_SCRIPT_MAX }, .help = "text of a script" } },
	{ .key = "script_name",
	  AT(script_name),
	  .opt = { .spec = { VALUE_TASK_NAME, .max = SPEC_NAME_MAX },
		   .help = "its file's name, where that is not the task's" } },
	{ .key = "args",
	  AT(args),
	  .opt = { .spec = { VALUE_BYTES, .max = SPEC_LIST_MAX },
		   .help = "the script's arguments" } },
	{ .key = "argv",
	  AT(argv),
	  .opt = { .spec = { VALUE_BYTES, .max = SPEC_LIST_MAX },
		   .help = "a program and its arguments" } },
	{ .key = "commands",
	  AT(commands),
	  .flags = OPTION_NOT_IN_LINE | OPTION_OWN_ENTRY,
	  .opt = { .spec = { VALUE_TEXTS, .max = SPEC_ELEMENTS_MAX },
		   .help = "one shell command per element" } },
	{ .key = "allocation",
	  AT(allocation),
	  .flags = OPTION_NOT_IN_LINE,
	  .opt = { .spec = { VALUE_FLAG },
		   .help = "it keeps its GPUs, and runs what `tenure start` says" } },
	{ .key = "on_change",
	  AT(on_change),
	  .flags = OPTION_NOT_IN_LINE,
	  .opt = { .spec = { VALUE_TEXT, .max = 4096 },
		   .help = "of what runs in an allocation whose GPUs change: restart, signal, or "
			   "hook: and a command (restart)" } },
	{ .key = "host",
	  AT(host),
	  .flags = OPTION_NOT_IN_LINE,
	  .opt = { .spec = { VALUE_TEXT, .max = 256 }, .help = "where it was submitted" } },
	{ .key = "user",
	  AT(user),
	  .flags = OPTION_NOT_IN_LINE,
	  .opt = { .spec = { VALUE_TEXT, .max = 256 }, .help = "who submitted it" } },
	{ .key = "uid",
	  AT(uid),
	  .flags = OPTION_NOT_IN_LINE,
	  .opt = { .spec = { VALUE_UINT, .max = UINT32_MAX }, .help = "the submitter's number" } },
	{ .key = "submitted",
	  AT(submitted),
	  .flags = OPTION_NOT_IN_LINE,
	  .opt = { .spec = { VALUE_TIME }, .help = "when" } },
	{ .key = "rules",
	  .help = "compete: free memory is the only condition on others' use",
	  AT(rules),
	  .opt = { .name = "rules",
		   .spec = { VALUE_CHOICE, .choices = rule_names },
		   .arg = "RULES",
		   .group = group_runs,
		   .flags = OPT_HIDDEN,
		   .help = "compete: free memory is the only condition on others' use" } },
	{ .key = "raw",
	  AT(raw),
	  .flags = OPTION_NOT_IN_LINE,
	  .opt = { .spec = { VALUE_FLAG }, .help = "came as a bare script" } },
};

const struct task_option *task_option_at(size_t i)
{
	return i < ARRAY_LEN(rows) ? &rows[i] : NULL;
}

const struct task_option *task_option_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *key = rows[i].key, *p = name;

		for (; *key && (*key == *p || (*key == '_' && *p == '-')); key++)
			p++;
		if (!*key && !*p)
			return &rows[i];
	}
	return NULL;
}

const struct task_option *task_option_of_key(const char *key)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (strcmp(rows[i].key, key) == 0)
			return &rows[i];
	return NULL;
}

struct task_spec *spec_new(void)
{
	struct task_spec *s = xcalloc(1, sizeof(*s));

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (value_is(rows[i].opt.spec.type, VALUE_IS_NUMBER))
			*(uint64_t *)task_option_field(s, &rows[i]) = rows[i].def;
	return s;
}

struct task_spec *spec_free(struct task_spec *s)
{
	if (!s)
		return NULL;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		value_clear_field(rows[i].opt.spec.type, task_option_field(s, &rows[i]));
	free(s);
	return NULL;
}

bool spec_needs_script_name(const struct task_spec *s, const char *file)
{
	return s->script && s->name && !s->script_name && strcmp(file, s->name) != 0;
}

struct task_spec *spec_for_element(const struct task_spec *s, uint64_t element)
{
	struct task_spec *c = xcalloc(1, sizeof(*c));

	*c = *s;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const void *from = (const char *)s + rows[i].offset;
		const struct text_list *entries = from;
		void *to = task_option_field(c, &rows[i]);

		if (!(rows[i].flags & OPTION_OWN_ENTRY)) {
			value_copy_field(rows[i].opt.spec.type, to, from);
			continue;
		}
		*(struct text_list *)to = (struct text_list){ .n = 0 };
		if (element >= 1 && element <= entries->n)
			text_list_add(to, entries->texts[element - 1]);
	}
	return c;
}

void spec_learn(struct task_spec *s, uint64_t bytes)
{
	if (s->memory != SPEC_AUTO)
		return;
	s->memory = bytes;
	s->shared = s->shared && bytes;
	s->learned = true;
}

static int unknown_key(const char *key, struct err *e)
{
	const char *names[ARRAY_LEN(rows) + 1] = { NULL };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		names[i] = rows[i].key;

	const char *near = str_nearest(key, names);

	if (near)
		return err_set(e, -EINVAL, "unknown key \"%.80s\"; did you mean \"%s\"?", key,
			       near);
	return err_set(e, -EINVAL, "unknown key \"%.80s\"; docs/spool.md lists them", key);
}

int spec_check_key(const char *key, struct err *e)
{
	return task_option_of_key(key) ? 0 : unknown_key(key, e);
}

static int check_env(const struct task_spec *s, struct err *e)
{
	for (size_t i = 0; i < s->env.n; i++) {
		const char *eq = strchr(s->env.texts[i], '=');

		if (!eq || eq == s->env.texts[i])
			return err_set(e, -EINVAL, "env: \"%.80s\" is not NAME=VALUE",
				       s->env.texts[i]);
	}
	return 0;
}

static int check_outputs(const struct task_spec *s, struct err *e)
{
	const char *const paths[][2] = { { "output", s->output }, { "error", s->error } };

	for (size_t i = 0; i < ARRAY_LEN(paths); i++)
		if (paths[i][1] && output_path(paths[i][1], NULL, NULL, e) < 0)
			return err_wrap(e, "%s", paths[i][0]);
	return 0;
}

static int check_what(const struct task_spec *s, struct err *e)
{
	int n = (s->script != NULL) + (s->argv.n > 0) + (s->commands.n > 0);

	if (s->allocation && n)
		return err_set(
			e, -EINVAL,
			"allocation: what runs in it is said by tenure start, not by the task");
	if (!s->allocation && n != 1)
		return err_set(e, -EINVAL, "%s; give exactly one of script, argv and commands",
			       n ? "it says more than once what to run"
				 : "it does not say what to run");
	if (s->args.n && !s->script)
		return err_set(e, -EINVAL, "args: only a script has them; put them into argv");
	if (s->argv.n && !s->argv.texts[0][0])
		return err_set(e, -EINVAL, "argv: the program's name is empty");
	return 0;
}

/* Of what is run, where nobody has said a name. */
static void make_up_name(struct task_spec *s)
{
	char name[SPEC_NAME_MAX + 1];

	if (s->commands.n)
		ident_make_command_name(s->commands.texts[0], name);
	else
		ident_make_task_name(s->argv.n ? s->argv.texts[0] : "task", name);
	s->name = xstrdup(name);
	s->unnamed = !s->argv.n;
}

bool spec_is_gang(const struct task_spec *s)
{
	return s->nodes > 1;
}

int spec_count(const struct task_spec *s, uint64_t *ret, struct err *e)
{
	if (s->sweep.n)
		return sweep_count(&s->sweep, ret, e);
	*ret = spec_is_gang(s) ? s->nodes
	       : s->array.set  ? s->array.to - s->array.from + 1
			       : s->commands.n;
	return 0;
}

/* All its ranks run at once, so what lets one after another run is nothing for them. */
static int check_gang(const struct task_spec *s, struct err *e)
{
	const struct {
		bool said;
		const char *why;
	} against[] = {
		{ s->commands.n || s->array.set || s->sweep.n,
		  "a task on several nodes is no array, sweep or list of commands" },
		{ s->lane, "a task on several nodes has no lane" },
		{ s->gpus == SPEC_ALL, "say with gpus how many GPUs it needs on each node; \"all\" "
				       "may be another number on each" },
		{ s->gpus_max, "the GPUs of a task on several nodes do not change (gpus_max)" },
		{ s->allocation, "an allocation is on one node" },
	};

	for (size_t i = 0; spec_is_gang(s) && i < ARRAY_LEN(against); i++)
		if (against[i].said)
			return err_set(e, -EINVAL, "nodes: %s", against[i].why);
	return 0;
}

/* The thresholds, for what has so many devices at least. Up to twice as many share the work. */
static int check_thresholds(const struct task_spec *s, uint64_t least, struct err *e)
{
	char up[UNIT_TEXT_MAX], down[UNIT_TEXT_MAX], then[UNIT_TEXT_MAX];
	uint64_t spread = 1000 * least / (least + 1);

	(void)unit_format_permille((unsigned int)s->scale_up, up);
	(void)unit_format_permille((unsigned int)s->scale_down, down);
	if (s->scale_down >= s->scale_up)
		return err_set(
			e, -EINVAL,
			"scale_down: %s is not below scale_up (%s): it would grow and shrink "
			"by turns",
			down, up);
	if (s->gpus_max > least && spread <= s->scale_down)
		return err_set(e, -EINVAL,
			       "scale_down: with %s it could never grow: what keeps %" PRIu64
			       " GPU%s wholly busy keeps one more at %s; say less than that",
			       down, least, least == 1 ? "" : "s",
			       unit_format_permille((unsigned int)spread, then));
	return 0;
}

/* How it grows and shrinks: what contradicts itself, or would have no effect. */
static int check_scaling(const struct task_spec *s, struct err *e)
{
	uint64_t least = s->gpus_min ? s->gpus_min : s->gpus;
	bool said = s->gpus_min || s->scale_up != SPEC_SCALE_UP ||
		    s->scale_down != SPEC_SCALE_DOWN || s->scale_window != MS_PER_MIN ||
		    s->scale_cooldown != 5 * MS_PER_MIN;

	if (!s->gpus_max)
		return said ? err_set(e, -EINVAL, "%s: say with gpus_max how many GPUs it may have",
				      s->gpus_min ? "gpus_min"
						  : "scale_up, scale_down, "
						    "scale_window and scale_cooldown")
			    : 0;
	if (!s->gpus || s->gpus == SPEC_ALL)
		return err_set(e, -EINVAL,
			       "gpus_max: say with gpus, as a number, how many it begins with");
	if (s->gpus_max < s->gpus)
		return err_set(e, -EINVAL,
			       "gpus_max: %" PRIu64 " is less than the %" PRIu64
			       " that gpus asks for",
			       s->gpus_max, s->gpus);
	if (s->gpus_min > s->gpus)
		return err_set(e, -EINVAL,
			       "gpus_min: %" PRIu64 " is more than the %" PRIu64
			       " that gpus asks for",
			       s->gpus_min, s->gpus);
	if (s->shared || s->rules != SPEC_RULES_TENURE)
		return err_set(e, -EINVAL,
			       "gpus_max: how busy a GPU is that others may use says nothing of "
			       "this task; it cannot be %s",
			       s->shared ? "shared" : "one by the rules of compete");
	return check_thresholds(s, least, e);
}

int spec_check(struct task_spec *s, struct err *e)
{
	int many = (s->commands.n > 0) + s->array.set + (s->sweep.n > 0);
	uint64_t count;
	int r = check_what(s, e);

	if (r == 0 && many > 1)
		r = err_set(e, -EINVAL, "only one of array, sweep and commands can be given");
	if (r == 0)
		r = check_gang(s, e);
	if (r == 0)
		r = check_env(s, e);
	if (r == 0)
		r = check_outputs(s, e);
	if (r == 0)
		r = spec_count(s, &count, e);
	if (r == 0)
		r = check_scaling(s, e);
	if (r == 0 && s->shared && !s->memory)
		r = err_set(e, -EINVAL, "shared: say with memory how much it needs on a device");
	if (r == 0 && s->pool && !s->gpus) /* which node starts it is told by its name alone */
		r = err_set(e, -EINVAL, "pool: only a task with GPUs can name one");
	if (r == 0 && s->allocation && (s->array.set || s->sweep.n))
		r = err_set(e, -EINVAL,
			    "allocation: it is one task; array and sweep are not for it");
	if (r == 0 && !s->name)
		make_up_name(s);
	return r;
}

static int check_word(const char *key, const char *name, struct err *e)
{
	if (!name || !ident_is_word(name))
		return 0;
	if (strcmp(name, "all") == 0)
		return err_set(e, -EINVAL, "%s: \"all\" means every task; take another name", key);
	if (strcmp(name, "last") == 0)
		return err_set(e, -EINVAL,
			       "%s: \"last\" means the task that you submitted last; take another "
			       "name",
			       key);
	return err_set(e, -EINVAL, "%s: \"%s\" would be taken for the id of a task; take a name",
		       key, name);
}

/* What would have no effect; dashes: "--" where it is told in the words of options. */
static int check_retry_memory(const struct task_spec *s, const char *dashes, struct err *e)
{
	if (!s->retry_memory || (s->memory && s->retries))
		return 0;
	return err_set(e, -EINVAL, "%sretry%cmemory: say with %s%s", dashes, dashes[0] ? '-' : '_',
		       dashes,
		       s->memory ? "retries how often it is tried again"
				 : "memory how much it needs at first");
}

int spec_check_options(const struct task_spec *s, struct err *e)
{
	int r = check_retry_memory(s, "--", e);

	return r == 0 ? spec_check_new(s, e) : r;
}

int spec_check_new(const struct task_spec *s, struct err *e)
{
	int r = check_word("name", s->name, e);

	if (r == 0)
		r = check_word("lane", s->lane, e);
	return r == 0 ? check_retry_memory(s, "", e) : r;
}
