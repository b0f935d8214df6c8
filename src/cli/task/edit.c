/* SPDX-License-Identifier: MIT */

/* Tasks that wait, otherwise: by this process's own renames. */

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/units.h"
#include "cli/agent_client.h"
#include "cli/commands.h"
#include "cli/instance.h"
#include "cli/task/aftercheck.h"
#include "cli/task/outcome.h"
#include "cli/task/roomcheck.h"
#include "cli/task/submit_options.h"
#include "spool/instance.h"
#include "spool/record.h"
#include "spool/task_text.h"
#include "spool/transit.h"

/* What an edit is asked for. */
struct edits {
	json_t *set;		    /* by the keys of a task; null: as if it had not been said */
	struct text_list variables; /* of the environment */
};

static json_t *begin_of(const char *text, struct err *e)
{
	char time[CLOCK_TEXT_MAX];
	uint64_t ns;

	if (strcasecmp(text, "now") == 0)
		return json_integer(0);
	return unit_parse_time(text, clock_wall_ns(), &ns, e) < 0
		       ? NULL
		       : json_string(clock_format_iso(ns, time));
}

/* A list of words as a person writes it for a shell, with more than one of them. */
static int write_as_json(const char *key, const char *text, struct err *e)
{
	cleanup_free char *copy = xstrdup(text), *shown = NULL;
	json_t *words = json_array();
	char *save = NULL;

	for (char *w = strtok_r(copy, " \t", &save); w; w = strtok_r(NULL, " \t", &save))
		(void)json_array_append_new(words, json_string(w));
	shown = json_dumps(words, 0);
	json_decref(words);
	return err_set(e, -EINVAL, "%s is a list of words; write it as JSON: '%s=%s'", key, key,
		       shown ? shown : "[..]");
}

/* A list that is written as JSON is the list; NULL with e where it cannot be read. */
static json_t *list_of(const char *key, const char *text, struct err *e)
{
	struct task_spec *scratch = spec_new();
	json_error_t je;
	json_t *list = json_loads(text, 0, &je);
	int r = list ? spec_set_json(scratch, key, list, e)
		     : err_set(e, -EINVAL, "%s: not JSON: %s", key, je.text);

	(void)spec_free(scratch);
	if (r == 0)
		return list;
	json_decref(list);
	return NULL;
}

/* Nothing means what it is if unsaid; everything else is written as an option of submit. */
static json_t *value_of(const char *key, const char *text, struct err *e)
{
	const struct task_option *row = task_option_find(key);
	bool words = strcmp(key, "argv") == 0 || strcmp(key, "args") == 0;
	json_t *none = json_null();

	if (!text[0] || strcmp(text, "null") == 0)
		return spec_check_key(key, e) < 0 ? NULL : none;
	if (strcmp(key, "begin") == 0)
		return begin_of(text, e);
	if (text[0] == '[' && row && value_is(row->opt.spec.type, VALUE_IS_MANY))
		return list_of(key, text, e);
	if (words && strpbrk(text, " \t")) {
		(void)write_as_json(key, text, e);
		return NULL;
	}
	return spec_value(key, text, e);
}

/* A variable that is set; the others of the task stay. */
static int add_variable(struct edits *edits, const char *text, struct err *e)
{
	if (json_object_get(edits->set, "env"))
		return err_set(e, -EINVAL, "env: give either the whole list or single variables");
	if (strchr(text, '=') <= text)
		return err_set(e, -EINVAL, "env: \"%.80s\" is not NAME=VALUE; env=LR=0.1 sets one",
			       text);
	text_list_add(&edits->variables, text);
	return 0;
}

static int add_assignment(struct edits *edits, const char *text, struct err *e)
{
	const char *eq = strchr(text, '=');
	cleanup_free char *key = xstrdup(text);
	json_t *value;

	if (!eq || eq == text)
		return err_set(e, -EINVAL, "\"%s\" is no KEY=VALUE; an example is memory=30G",
			       text);
	key[eq - text] = '\0';
	/* As the option is written, too. */
	if (task_option_find(key))
		(void)str_copy(key, strlen(key) + 1, task_option_find(key)->key);
	if (strcmp(key, "env") == 0 && eq[1] && eq[1] != '[' && strcmp(eq + 1, "null") != 0)
		return add_variable(edits, eq + 1, e);
	if (json_object_get(edits->set, key) || (strcmp(key, "env") == 0 && edits->variables.n))
		return err_set(e, -EINVAL, "%s is given twice", key);
	value = value_of(key, eq + 1, e);
	return value ? json_object_set_new(edits->set, key, value) : -EINVAL;
}

/* The first that an allocation is made with, by limits and names that `alloc` looks at; NULL. */
static const char *find_fixed(const json_t *set)
{
	static const char *const keys[] = { "name", "gpus", "gpus_min", "gpus_max", "pool" };

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (json_object_get(set, keys[i]))
			return keys[i];
	return NULL;
}

/* What follows from the task as it is now: a name, and its variables, with those that are set in
 * the place of what they were. */
static int complete_edit(void *data, const struct task_spec *now, json_t *set, struct err *e)
{
	static const struct value_spec bytes = { VALUE_BYTES };
	const struct edits *edits = data;
	const char *name = json_get_str(set, "name");
	struct text_list env;

	if (now->allocation && find_fixed(set))
		return err_set(
			e, -EINVAL,
			"%s: of an allocation that cannot be changed: tenure release %s, and "
			"tenure alloc asks for another one",
			find_fixed(set), now->name ? now->name : "NAME");
	/* A script stays what it is when the task gets another name. */
	if (name && now->name && spec_needs_script_name(now, name))
		(void)json_object_set_new(set, "script_name", json_string(now->name));
	if (!edits->variables.n)
		return 0;
	env = text_list_copy(&now->env);

	for (size_t i = 0; i < edits->variables.n; i++)
		text_list_set_variable(&env, edits->variables.texts[i]);

	int r = json_object_set_new(set, "env", value_file_json(&bytes, &env));

	text_list_clear(&env);
	return r < 0 ? err_set(e, -ENOMEM, "no memory for the environment") : 0;
}

static bool has_flagged(const json_t *set, unsigned int flag)
{
	const struct task_option *row;

	for (size_t i = 0; (row = task_option_at(i)); i++)
		if (row->flags & flag && json_object_get(set, row->key))
			return true;
	return false;
}

/* Of what was asked for, the keys with a flag into a task. */
static int set_flagged(struct task_spec *spec, const json_t *set, unsigned int flag, struct err *e)
{
	const struct task_option *row;
	int r = 0;

	for (size_t i = 0; (row = task_option_at(i)) && r == 0; i++) {
		const json_t *value = row->flags & flag ? json_object_get(set, row->key) : NULL;

		r = value ? spec_set_json(spec, row->key, value, e) : 0;
	}
	return r;
}

static int edit_waiting(const struct spool *sp, struct task_name *n, struct edits *edits,
			struct err *e)
{
	struct transit_edit edit = { .set = json_copy(edits->set), .data = edits };
	struct task_spec *spec = spec_new();
	const struct task_option *row;
	uint64_t priority, begin_s;

	/* What the name of the file says, and not the task in it. */
	int r = set_flagged(spec, edits->set, OPTION_IN_NAME, e);

	for (size_t i = 0; (row = task_option_at(i)); i++)
		if (row->flags & OPTION_IN_NAME)
			(void)json_object_del(edit.set, row->key);
	priority = (uint64_t)spec->priority;
	begin_s = spec->begin / NS_PER_S;
	edit.complete = edits->variables.n || find_fixed(edits->set) ? complete_edit : NULL;
	edit.priority = json_object_get(edits->set, "priority") ? &priority : NULL;
	edit.begin_s = json_object_get(edits->set, "begin") ? &begin_s : NULL;
	edit.paused = json_object_get(edits->set, "paused") ? &spec->paused : NULL;
	if (r == 0)
		r = transit_edit(sp, n, &edit, e);
	json_decref(edit.set);
	(void)spec_free(spec);
	return r;
}

/* Of the GPUs that it will ask for; what else it asks of them it said before. */
static int check_room(const struct cmd_ctx *ctx, const struct spool *sp, const char *path,
		      const json_t *set, struct err *e)
{
	struct task_file t = { .spec = NULL };
	int r;

	/* It may move just now, which is the business of who renames it. */
	if (!has_flagged(set, OPTION_ROOM) || task_file_read(sp, path, &t, NULL) < 0)
		return 0;
	r = set_flagged(t.spec, set, OPTION_ROOM, e);
	if (r == 0)
		r = room_check(ctx, sp, t.spec, e);
	task_file_clear(&t);
	/* How many it asks for is not what is changed. */
	if (r == -ERANGE && !json_object_get(set, "gpus")) {
		*e = (struct err)ERR_INIT;
		r = 0;
	}
	return r;
}

/* As what is submitted. */
static int check_edit(const struct cmd_ctx *ctx, const struct spool *sp, uint64_t id,
		      const char *path, const json_t *set, struct err *e)
{
	struct task_spec *spec = spec_new();
	struct after_check after = { .sp = sp };
	int r = set_flagged(spec, set, OPTION_AS_NEW, e);

	if (r == 0)
		r = spec_check_new(spec, e);
	if (r == 0)
		r = check_room(ctx, sp, path, set, e);
	if (r == 0)
		r = after_check(&after, id, spec, e);
	after_check_clear(&after);
	(void)spec_free(spec);
	return r < 0 ? err_wrap(e, "not changed") : 0;
}

static int cannot_edit(const struct task_place *p, struct err *e)
{
	char text[SELECT_END_MAX];

	if (p->dir == SPOOL_RUNNING)
		return err_set(e, -EBUSY,
			       "task %" PRIu64 " (%s) runs; only a task that waits can be edited",
			       p->name.id, p->name.name);
	return err_set(e, -EBUSY,
		       "task %" PRIu64 " (%s) %s; only a task that waits can be edited (tenure "
		       "retry %" PRIu64 " requeues it)",
		       p->name.id, p->name.name, select_format_end(p, text), p->name.id);
}

/* One look. 0, TRANSIT_GONE, TRANSIT_HELD, or negative. */
static int try_edit(const struct cmd_ctx *ctx, const struct spool *sp, const char *word,
		    struct edits *edits, struct task_place *p, struct err *e)
{
	int r = select_one(sp, word, p, e);

	if (r == 0 && p->element)
		return err_set(e, -EINVAL,
			       "%s is an element; only task %" PRIu64 " as a whole can be edited",
			       word, p->name.id);
	if (r == 0 && p->dir != SPOOL_PENDING)
		return cannot_edit(p, e);
	if (r == 0)
		r = transit_await(sp, &p->name, CHANGE_HELD_MS, e);
	if (r == 0)
		r = check_edit(ctx, sp, p->name.id, p->path, edits->set, e);
	return r == 0 ? edit_waiting(sp, &p->name, edits, e) : r;
}

static int edit(const struct cmd_ctx *ctx, const struct spool *sp, const char *word,
		struct edits *edits, struct err *e)
{
	struct outcome said = { .dirs = 0 };
	struct task_place p;
	char id[SELECT_ID_MAX];
	int r = TRANSIT_GONE;

	word = select_take_last(sp, word, id, e);
	if (!word)
		return -ENOENT;
	for (int look = 0; look < CHANGE_LOOKS && r == TRANSIT_GONE; look++) {
		if (look)
			change_pause(look);
		r = try_edit(ctx, sp, word, edits, &p, e);
	}
	if (r > 0)
		return change_busy(&p.name, e);
	if (r == 0)
		outcome_say(&said, SPOOL_BIT(SPOOL_PENDING), "%" PRIu64 " %s is changed\n",
			    p.name.id, p.name.name);
	return r == 0 ? outcome_commit(sp, &said, r, e) : r;
}

static int run_edit(const struct cmd_ctx *ctx, struct err *e)
{
	struct edits edits = { .set = json_object() };
	struct spool *sp = NULL;
	int r = 0;

	for (size_t i = 1; i < opts_argc(ctx->opts) && r == 0; i++)
		r = add_assignment(&edits, opts_arg(ctx->opts, i), e);
	if (r < 0) {
		r = CMD_USAGE;
	} else {
		r = instance_open(ctx, 0, &sp, e);
		if (r == 0)
			r = edit(ctx, sp, opts_arg(ctx->opts, 0), &edits, e);
		sp = spool_close(sp);
		agent_look(ctx);
	}
	json_decref(edits.set);
	text_list_clear(&edits.variables);
	return r;
}

/* What is an option of submit is a key here. */
static void explain_option(const char *option, struct err *e)
{
	const struct task_option *row;

	for (size_t i = 0; (row = task_option_at(i)); i++) {
		const struct opt *opt = &row->opt;

		if (opt->name && (option[1] == '-' ? strcmp(option + 2, opt->name) == 0
						   : option[1] == opt->short_name && !option[2]))
			(void)err_set(e, -EINVAL,
				      "edit has no option %s; here it is written KEY=VALUE: %s=%s",
				      option, row->key, opt->arg ? opt->arg : "true");
	}
}

static const struct cmd_example edit_examples[] = {
	{ "tenure edit 42 memory=30G gpus=2", "task 42 needs more than was said" },
	{ "tenure edit 42 after=40,41 begin=18:30", "when others are done, and not before" },
	{ "tenure edit 42 lane= env=LR=0.1", "out of its lane, and with another LR" },
	{ 0 },
};

const struct cmd cmd_edit = {
	.name = "edit",
	.group = QUEUE_GROUP,
	.summary = "change a task that waits",
	.args = "ID|NAME|last KEY=VALUE..",
	.words = { WORDS_TASKS, WORDS_TASK_KEYS },
	.min_args = 2,
	.description =
		"The keys are those of a task's file (docs/spool.md), which are the options of submit "
		"and what to run: gpus, memory, lane, name, priority, retries, timeout. Of an array "
		"or another batch they are for the elements that have not started. KEY= (or "
		"KEY=null) is the same as never to have said it: lane= takes it out of its lane. "
		"env=NAME=VALUE sets one variable and may be repeated. Lists of words are written as "
		"JSON, and are the whole list then: 'args=[\"--epochs\", \"3\"]'.",
	.examples = edit_examples,
	.setting_groups = SETTING_GROUP_QUEUE | SETTING_GROUP_AGENT,
	.run = run_edit,
	.explain = explain_option,
};
