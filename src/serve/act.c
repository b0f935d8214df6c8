/* SPDX-License-Identifier: MIT */
#include "serve/act.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "model/model.h"
#include "serve/call.h"
#include "serve/keys.h"
#include "serve/options.h"
#include "serve/serve.h"

#define TASK_MAX 48

/* ---- what all of them do ---- */

static char *task_text(const struct request *r, char buf[TASK_MAX])
{
	return str_print(buf, TASK_MAX, r->element ? "%" PRIu64 ".%u" : "%" PRIu64, r->task,
			 r->element);
}

/* The command's object, or its lines under a name. */
static void answer_output(struct request *r, const struct call *c, const char *list)
{
	json_t *doc = list ? json_pack("{s:o}", list, call_lines(c)) : call_object(c);

	if (call_refused(c, r)) {
		json_decref(doc);
		return;
	}
	if (doc)
		(r->task ? answer_task : answer_json)(&r->answer, MHD_HTTP_OK, doc);
	else
		answer_problem(&r->answer, MHD_HTTP_INTERNAL_SERVER_ERROR,
			       "tenure %s printed no JSON", c->args[0]);
}

/* ---- whether there is what a command has failed about ---- */

/* Nothing is said to be missing where the queue cannot be read. */
static bool has_trouble(struct serve *s)
{
	const struct model_snapshot *m = model_get(s->model);
	bool trouble = m->queue_trouble[0];

	m = model_put(m);
	return trouble;
}

/* By a command that looks, which fails where there is none, or prints nothing. */
static bool is_shown(struct serve *s, const struct request *r, struct call look)
{
	bool shown;

	look.output = -1;
	call_run(s, r, &look);
	shown = look.code != CMD_FAILED && !(look.code == CMD_OK && !look.text[0]);
	call_clear(&look);
	return shown;
}

static bool has_task(struct serve *s, const struct request *r)
{
	char task[TASK_MAX];

	return is_shown(s, r,
			(struct call){ .args = { "show", "--json", "--", task_text(r, task) } });
}

static bool has_lane(struct serve *s, const struct request *r)
{
	cleanup_free char *lane = xasprintf("--lane=%s", r->name);

	return is_shown(s, r,
			(struct call){ .args = { "list", "--json", "--all", "--limit=1", lane } });
}

static bool is_among(const json_t *list, const char *key, const char *name)
{
	const json_t *one;
	size_t i;

	json_array_foreach(list, i, one)
	{
		const char *its = json_get_str(one, key);

		if (its && strcmp(its, name) == 0)
			return true;
	}
	return false;
}

static bool has_allocation(struct serve *s, const struct request *r)
{
	struct call look = { .args = { "allocs", "--json" }, .output = -1 };
	json_t *doc;
	bool found;

	call_run(s, r, &look);
	doc = call_object(&look);
	found = !doc || is_among(json_object_get(doc, "allocations"), "name", r->name);
	json_decref(doc);
	call_clear(&look);
	return found;
}

static bool has_pool(struct serve *s, const struct request *r)
{
	const struct model_snapshot *m = model_get(s->model);
	bool found = is_among(m->pools, "pool", r->name);

	m = model_put(m);
	return found;
}

static bool has_ask(struct serve *s, const struct request *r)
{
	const struct model_snapshot *m = model_get(s->model);
	uint64_t ask = 0;
	bool found = !m->connected;
	const json_t *one;
	size_t i;

	(void)str_to_u64(r->name, &ask);
	json_array_foreach(json_object_get(m->status, "asks"), i, one)
	{
		found = found || json_get_u64(one, "ask") == ask;
	}
	m = model_put(m);
	return found;
}

typedef bool (*has_fn)(struct serve *s, const struct request *r);

/* A command fails in the same way where there is no such thing and where it cannot be done now. */
static bool refused(struct serve *s, struct request *r, const struct call *c, has_fn has)
{
	if (c->code == CMD_FAILED && has && !has_trouble(s) && !has(s, r)) {
		answer_problem(&r->answer, MHD_HTTP_NOT_FOUND, "%s", c->error);
		return true;
	}
	return call_refused(c, r);
}

/* ---- by commands ---- */

/* To look at a task fails where there is none. */
static void read_by(struct serve *s, struct request *r, struct call c, const char *list)
{
	c.output = -1;
	call_run(s, r, &c);
	if (c.code == CMD_FAILED && r->task && !has_trouble(s))
		answer_problem(&r->answer, MHD_HTTP_NOT_FOUND, "%s", c.error);
	else
		answer_output(r, &c, list);
	call_clear(&c);
}

/* What it has printed and said, as sentences; about what there is to be. */
static void do_by(struct serve *s, struct request *r, struct call c, has_fn has)
{
	c.output = -1;
	call_run(s, r, &c);
	model_look(s->model);
	if (!refused(s, r, &c, has)) {
		size_t len = strlen(c.text);

		c.text[len - (len && c.text[len - 1] == '\n')] = '\0';
		answer_json(&r->answer, MHD_HTTP_OK,
			    json_pack("{s:o, s:o}", "text", json_new_text(c.text), "notes",
				      json_new_text(c.error)));
	}
	call_clear(&c);
}

/* Where there is nothing to say. False: there is a problem. */
static bool says_nothing(struct request *r)
{
	static const struct request_member none[] = { { 0 } };
	json_t *doc = request_members(r, none);

	json_decref(doc);
	return doc;
}

/* ---- looking ---- */

void act_instances(struct serve *s, struct request *r)
{
	read_by(s, r, (struct call){ .args = { "instances", "--json" } }, "instances");
}

void act_show(struct serve *s, struct request *r)
{
	char task[TASK_MAX];

	read_by(s, r, (struct call){ .args = { "show", "--json", "--", task_text(r, task) } },
		NULL);
}

void act_why(struct serve *s, struct request *r)
{
	char task[TASK_MAX];

	read_by(s, r, (struct call){ .args = { "why", "--json", "--", task_text(r, task) } }, NULL);
}

void act_allocations(struct serve *s, struct request *r)
{
	read_by(s, r, (struct call){ .args = { "allocs", "--json" } }, NULL);
}

/* ---- doing ---- */

/* null takes back what the command line said before a file, and here nothing was said. */
static bool has_no_null(struct request *r, const json_t *doc)
{
	const json_t *value;
	const char *key;

	json_object_foreach((json_t *)(uintptr_t)doc, key, value)
	{
		cleanup_free char *shown = utf8_clean(xstrdup(key));

		if (!json_is_null(value))
			continue;
		answer_problem(&r->answer, MHD_HTTP_UNPROCESSABLE_CONTENT,
			       "%.80s: null is no value; leave it out", shown);
		return false;
	}
	return true;
}

/* An object without keys but for "command" or "argv" would be an element of a batch. Its members
 * are in order, so that the same is the same for keys.h. */
static char *line_of(json_t *doc)
{
	char *text, *line;

	if (!json_object_get(doc, "gpus"))
		(void)json_object_set_new(doc, "gpus", json_integer(1));
	text = json_dumps(doc, JSON_COMPACT | JSON_SORT_KEYS | TIME_DIGITS);
	line = xasprintf("%s\n", text ? text : "");
	free(text);
	return line;
}

/* Whoever has sent one object knows of no lines. */
static void drop_place(char *error)
{
	static const char place[] = "standard input, line 1: ";

	if (str_has_prefix(error, place))
		(void)memmove(error, error + strlen(place), strlen(error + strlen(place)) + 1);
}

static void answer_submitted(struct request *r, const struct call *c)
{
	json_t *doc;

	drop_place(c->error);
	doc = call_refused(c, r) ? NULL : call_object(c);

	if (!doc) {
		if (!r->answer.status)
			answer_problem(&r->answer, MHD_HTTP_INTERNAL_SERVER_ERROR,
				       "tenure submit printed no JSON");
		return;
	}
	if (c->error[0])
		(void)json_object_set_new(doc, "notes", json_new_text(c->error));
	answer_header(&r->answer, MHD_HTTP_HEADER_LOCATION, "/api/v1/tasks/%" PRIu64,
		      json_get_u64(doc, "id"));
	answer_json(&r->answer, MHD_HTTP_CREATED, doc);
}

/* The environment of whoever started us says nothing about a task that came by HTTP. */
void act_submit(struct serve *s, struct request *r)
{
	cleanup_free char *home = fs_home_dir();
	json_t *doc = request_object(r);
	cleanup_free char *line = doc && has_no_null(r, doc) ? line_of(doc) : NULL;
	const char *key = request_header(r, "Idempotency-Key");
	struct call c = { .args = { "submit", "--json", "--no-env", "--cwd", home, "--from", "-" },
			  .input = line,
			  .output = -1 };

	json_decref(doc);
	if (!line)
		return;
	if (!key || keys_run(s, r, key, &c)) {
		if (!key)
			call_run(s, r, &c);
		answer_submitted(r, &c);
	}
	model_look(s->model);
	call_clear(&c);
}

void act_stop(struct serve *s, struct request *r)
{
	char task[TASK_MAX];
	static const struct request_member members[] = { { "now", REQUEST_FLAG }, { 0 } };
	json_t *doc = request_members(r, members);
	bool now = json_get_flag(doc, "now");

	if (doc)
		do_by(s, r,
		      (struct call){ .args = { "stop", now ? "--now" : "--no-now", "--",
					       task_text(r, task) } },
		      has_task);
	json_decref(doc);
}

void act_retry(struct serve *s, struct request *r)
{
	char task[TASK_MAX];

	if (says_nothing(r))
		do_by(s, r, (struct call){ .args = { "retry", "--", task_text(r, task) } },
		      has_task);
}

void act_priority(struct serve *s, struct request *r)
{
	char task[TASK_MAX], priority[TASK_MAX];
	static const struct request_member members[] = { { "priority", REQUEST_NUMBER, true },
							 { 0 } };
	json_t *doc = request_members(r, members);

	if (doc) {
		(void)str_print(priority, sizeof(priority), "%" PRIu64,
				json_get_u64(doc, "priority"));
		do_by(s, r,
		      (struct call){ .args = { "priority", "--", priority, task_text(r, task) } },
		      has_task);
	}
	json_decref(doc);
}

void act_pause(struct serve *s, struct request *r)
{
	char task[TASK_MAX];

	if (says_nothing(r))
		do_by(s, r, (struct call){ .args = { "pause", "--", task_text(r, task) } },
		      has_task);
}

void act_resume(struct serve *s, struct request *r)
{
	char task[TASK_MAX];

	if (says_nothing(r))
		do_by(s, r, (struct call){ .args = { "resume", "--", task_text(r, task) } },
		      has_task);
}

void act_pause_lane(struct serve *s, struct request *r)
{
	if (says_nothing(r))
		do_by(s, r, (struct call){ .args = { "pause", "--lane", "--", r->name } },
		      has_lane);
}

void act_resume_lane(struct serve *s, struct request *r)
{
	if (says_nothing(r))
		do_by(s, r, (struct call){ .args = { "resume", "--lane", "--", r->name } },
		      has_lane);
}

/* {yes, stop, message}: as `tenure answer`. */
void act_answer(struct serve *s, struct request *r)
{
	static const struct request_member members[] = { { "yes", REQUEST_FLAG, true },
							 { "stop", REQUEST_FLAG },
							 { "message", REQUEST_TEXT },
							 { 0 } };
	json_t *doc = request_members(r, members);
	uint64_t ask;

	if (doc && (str_to_u64(r->name, &ask) < 0 || ask == 0))
		answer_problem(&r->answer, MHD_HTTP_NOT_FOUND, "an ask has a number");
	else if (doc)
		do_by(s, r,
		      (struct call){ .args = { "answer",
					       json_get_flag(doc, "stop") ? "--stop" : "--no-stop",
					       "--", r->name,
					       json_get_flag(doc, "yes") ? "yes" : "no",
					       json_get_str(doc, "message") } },
		      has_ask);
	json_decref(doc);
}

/* ---- the policy ---- */

static const struct opt no_hold_row = { .name = "no-hold", .spec = { VALUE_FLAG } };

/* Of what is held, and when. */
static const struct setting *find_policy(const char *key)
{
	const struct setting *row = setting_find(key);

	return row && row->groups & SETTING_GROUP_HOLD && !(row->groups & SETTING_GROUP_SERVE)
		       ? row
		       : NULL;
}

static int refuse_policy(const char *key, struct err *e)
{
	const char *names[SET_MAX + 1];
	cleanup_free char *shown = utf8_clean(xstrdup(key));
	const char *near;
	size_t n = 0;

	for (int id = 0; id < SET_MAX; id++)
		if (find_policy(setting_row((enum setting_id)id)->key))
			names[n++] = setting_row((enum setting_id)id)->key;
	names[n] = NULL;
	near = str_nearest(key, names);
	return err_set(e, -EINVAL, "\"%.80s\" is no setting of what is held%s%s%s", shown,
		       near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

/* null: what files say counts again. */
static int add_policy(struct text_list *argv, const char *key, const json_t *value, struct err *e)
{
	bool hold = strcmp(key, "hold") == 0;
	const struct setting *row = hold ? NULL : find_policy(key);

	if (!hold && !row)
		return refuse_policy(key, e);
	if (json_is_null(value))
		text_list_take(argv, xasprintf("--forget=%s", hold ? no_hold_row.name : key));
	else if (!hold)
		return options_add(argv, &row->opt, value, e);
	else if (!json_is_boolean(value))
		return err_set(e, -EINVAL, "hold: true or false is expected");
	else
		return options_add(argv, &no_hold_row,
				   json_is_true(value) ? json_false() : json_true(), e);
	return 0;
}

/* {code, changed, fixed} of the command */
static void answer_changed(struct request *r, const struct call *c)
{
	json_t *doc = call_refused(c, r) ? NULL : call_object(c);

	if (!r->answer.status)
		answer_json(&r->answer, MHD_HTTP_OK,
			    json_pack("{s:O?, s:o}", "changed", json_object_get(doc, "changed"),
				      "notes", json_new_text(c->error)));
	json_decref(doc);
}

/* As `tenure reload` with these options: those of before go on to count. */
void act_change_hold(struct serve *s, struct request *r)
{
	struct call c = { .args = { "reload", "--json" }, .output = -1 };
	struct text_list argv = { .n = 0 };
	json_t *doc = request_object(r), *value;
	struct err e = ERR_INIT;
	const char *key;
	int code = 0;

	json_object_foreach(doc, key, value)
	{
		if (code == 0)
			code = add_policy(&argv, key, value, &e);
	}
	if (code < 0)
		answer_problem(&r->answer, MHD_HTTP_UNPROCESSABLE_CONTENT, "%s", e.text);
	if (doc && code == 0) {
		c.more = &argv;
		call_run(s, r, &c);
		answer_changed(r, &c);
		model_look(s->model);
		call_clear(&c);
	}
	text_list_clear(&argv);
	json_decref(doc);
}

/* ---- pools ---- */

#define ENGINE_WORDS "options" /* what stands behind -- */

static const struct opt *find_up(const char *member)
{
	static const char *const not_here[] = { "pool" }; /* name */

	for (const struct opt *row = cmd_up.opts; row->name; row++)
		if (options_is(row, member))
			return strcmp(row->name, not_here[0]) == 0 ? NULL : row;
	return NULL;
}

static int add_engine_words(struct text_list *argv, const json_t *list, struct err *e)
{
	const json_t *word;
	size_t i;

	if (!json_is_array(list))
		return err_set(e, -EINVAL, ENGINE_WORDS ": a list of texts is expected");
	text_list_add(argv, "--");
	json_array_foreach(list, i, word)
	{
		if (!json_is_string(word))
			return err_set(e, -EINVAL, ENGINE_WORDS ": a list of texts is expected");
		text_list_add(argv, json_string_value(word));
	}
	return 0;
}

/* As options, and the engine's own words behind them. null takes back what was said before; but no
 * GPUs at all are more likely a slip, and are said by 0. */
static int add_pool(struct text_list *argv, json_t *doc, struct err *e)
{
	const json_t *words = json_object_get(doc, ENGINE_WORDS);
	json_t *value;
	const char *key;
	int r = 0;

	json_object_foreach(doc, key, value)
	{
		const struct opt *row = find_up(key);
		cleanup_free char *shown = utf8_clean(xstrdup(key));

		if (strcmp(key, "name") == 0 && json_is_string(value))
			text_list_take(argv, xasprintf("--pool=%s", json_string_value(value)));
		else if (row && json_is_null(value) && strcmp(row->name, "gpus") != 0)
			r = options_take_back(argv, row, e);
		else if (row)
			r = options_add(argv, row, value, e);
		else if (strcmp(key, ENGINE_WORDS) != 0)
			r = err_set(e, -EINVAL,
				    "\"%.80s\" is nothing that a pool has; tenure up --help shows "
				    "what one has, with _ for each -",
				    shown);
		if (r < 0)
			return r;
	}
	return words ? add_engine_words(argv, words, e) : 0;
}

void act_up(struct serve *s, struct request *r)
{
	struct text_list argv = { .n = 0 };
	json_t *doc = request_object(r);
	struct err e = ERR_INIT;

	if (doc && add_pool(&argv, doc, &e) < 0)
		answer_problem(&r->answer, MHD_HTTP_UNPROCESSABLE_CONTENT, "%s", e.text);
	else if (doc)
		do_by(s, r, (struct call){ .args = { "up" }, .more = &argv }, NULL);
	text_list_clear(&argv);
	json_decref(doc);
}

void act_down(struct serve *s, struct request *r)
{
	cleanup_free char *pool = xasprintf("--pool=%s", r->name);
	bool at_once = request_query_flag(r, "now");

	do_by(s, r, (struct call){ .args = { "down", pool, at_once ? "--now" : "--no-now" } },
	      has_pool);
}

void act_tick(struct serve *s, struct request *r)
{
	if (says_nothing(r))
		do_by(s, r, (struct call){ .args = { "tick" } }, NULL);
}

/* ---- allocations ---- */

/* It waits for nothing: what becomes of it is in the list. */
void act_allocate(struct serve *s, struct request *r)
{
	static const struct request_member members[] = { { "name", REQUEST_TEXT, true },
							 { "gpus", REQUEST_NUMBER },
							 { "for", REQUEST_TEXT },
							 { 0 } };
	json_t *doc = request_members(r, members);
	const char *name = json_get_str(doc, "name"), *period = json_get_str(doc, "for");
	const json_t *gpus = json_object_get(doc, "gpus");
	cleanup_free char *n = xasprintf("--gpus=%lld", (long long)json_integer_value(gpus));
	cleanup_free char *how_long = xasprintf("--for=%s", period ? period : "");
	struct call c = { .args = { "alloc", "--json", "--wait=0s" }, .output = -1 };
	size_t i = 3;

	if (!doc)
		return;
	if (gpus)
		c.args[i++] = n;
	if (period)
		c.args[i++] = how_long;
	c.args[i++] = "--";
	c.args[i] = name;
	call_run(s, r, &c);
	model_look(s->model);
	answer_output(r, &c, NULL);
	call_clear(&c);
	json_decref(doc);
}

void act_release(struct serve *s, struct request *r)
{
	do_by(s, r, (struct call){ .args = { "release", "--", r->name } }, has_allocation);
}
