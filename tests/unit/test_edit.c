/* SPDX-License-Identifier: MIT */

/* What `tenure edit` makes of KEY=VALUE, and of which tasks. */

#include <stdlib.h>
#include <string.h>

#include "cli_world.h"
#include "spool_world.h"
#include "unit.h"

#include "base/mem.h"
#include "base/str.h"
#include "cli/task/select.h"
#include "spool/instance.h"
#include "spool/record.h"
#include "spool/task_text.h"

/* 1 train waits, with 20G, in lane week, with two variables; 2 is done; 3 runs; 4 is an array; 5
 * waits for 1. */
static struct spool *world(void)
{
	static const char *const specs[] = {
		("{\"argv\":[\"true\"],\"name\":\"train\",\"memory\":\"20G\",\"lane\":\"week\","
		 "\"env\":[\"LR=1\",\"SEED=2\"]}"),
		"{\"argv\":[\"true\"],\"name\":\"ended\"}",
		"{\"argv\":[\"true\"],\"name\":\"running\"}",
		"{\"argv\":[\"true\"],\"name\":\"many\",\"array\":\"1-3\"}",
		"{\"argv\":[\"true\"],\"name\":\"later\",\"after\":[1]}",
		"{\"argv\":[\"true\"],\"name\":\"ranks\",\"nodes\":2}",
	};
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "n1");
	struct claim c;
	struct spool_end end;

	for (size_t i = 0; i < ARRAY_LEN(specs); i++)
		assert_int_equal(submit(sp, specs[i]), i + 1);
	c = claim(sp, 2, &me);
	end = done(&c);
	assert_int_equal(transit_end(sp, NULL, &c, &end, NULL), 0);
	c = claim(sp, 3, &me);
	return sp;
}

/* What a task says by now, without its version and without what an edit is not about. */
static json_t *spec_now(const struct spool *sp, uint64_t id, struct task_name *ret)
{
	struct task_place p;
	struct task_file f;
	json_t *o;

	assert_int_equal(select_by_id(sp, id, 0, &p, NULL), 0);
	assert_int_equal(task_file_read(sp, p.path, &f, NULL), 0);
	*ret = p.name;
	o = spec_json(f.spec);
	task_file_clear(&f);
	(void)json_object_del(o, "version");
	(void)json_object_del(o, "argv");
	return o;
}

#define TRAIN "\"name\":\"train\","
#define G20   "\"memory\":\"20G\","
#define WEEK  "\"lane\":\"week\","
#define ENV   "\"env\":[\"LR=1\",\"SEED=2\"]"

/* Edits of task 1, and what it says then. */
static const struct {
	const char *words, *want;
} good[] = {
	{ "memory=30G", "{" TRAIN WEEK "\"memory\":\"30G\"," ENV "}" },
	{ "memory=30G gpus=2", "{" TRAIN WEEK "\"memory\":\"30G\",\"gpus\":2," ENV "}" },
	{ "gpus=all", "{" TRAIN G20 WEEK "\"gpus\":\"all\"," ENV "}" },
	/* Nothing is what it would be without having been said. */
	{ "memory=", "{" TRAIN WEEK ENV "}" },
	{ "memory=null lane=null", "{" TRAIN ENV "}" },
	{ "env=", "{" TRAIN G20 "\"lane\":\"week\"}" },
	/* As the option is written, too. */
	{ "no-requeue=yes", "{" TRAIN G20 WEEK "\"no_requeue\":true," ENV "}" },
	{ "retry-every=7 retries=2",
	  "{" TRAIN G20 WEEK "\"retry_every\":7,\"retries\":2," ENV "}" },
	/* One variable takes the place of what it was; a list is the whole list. */
	{ "env=LR=0.1", "{" TRAIN G20 WEEK "\"env\":[\"LR=0.1\",\"SEED=2\"]}" },
	{ "env=NEW= env=LR=", "{" TRAIN G20 WEEK "\"env\":[\"LR=\",\"SEED=2\",\"NEW=\"]}" },
	{ "'env=[\"A=b c\"]'", "{" TRAIN G20 WEEK "\"env\":[\"A=b c\"]}" },
	/* A text with '=' in it is a text. */
	{ "model=a=b", "{" TRAIN G20 WEEK "\"model\":\"a=b\"," ENV "}" },
	{ "after=2,3", "{" TRAIN G20 WEEK "\"after\":[2,3]," ENV "}" },
	{ "name=other", "{\"name\":\"other\"," G20 WEEK ENV "}" },
};

static void what_is_written_is_what_the_task_says_then(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		cleanup_free char *line = xasprintf("1 %s", good[i].words), *text = NULL;
		json_t *want = json_loads(good[i].want, 0, NULL), *now;
		struct task_name name;
		struct spool *sp;
		struct said s;

		assert_int_equal(cli_setup(state), 0);
		sp = world();
		s = cli(&cmd_edit, line);
		assert_non_null(want);
		if (s.code != 0 || !str_has_prefix(s.out, "1 ") || s.err[0])
			fail_msg("%s: %d, %s%s", line, s.code, s.out, s.err);
		now = spec_now(sp, 1, &name);
		text = json_dumps(now, JSON_COMPACT);
		if (!json_equal(now, want))
			fail_msg("%s: %s", line, text);
		assert_string_equal(name.name, json_string_value(json_object_get(want, "name")));
		json_decref(now);
		json_decref(want);
		said_clear(&s);
		(void)spool_close(sp);
		assert_int_equal(cli_teardown(state), 0);
	}
}

/* Priority, pause and the time before which it is not to start are in the file's name. */
static void what_the_name_says_is_changed_there(void **state)
{
	struct spool *sp = world();
	struct said s = cli(&cmd_edit, "train priority=3 paused=yes '-' begin=2099-01-01");
	struct task_name name;
	json_t *now;

	assert_int_equal(s.code,
			 CMD_USAGE); /* "-" is no KEY=VALUE, and nothing is done by halves */
	said_clear(&s);
	s = cli(&cmd_edit, "train priority=3 paused=yes begin=2099-01-01");
	assert_int_equal(s.code, 0);
	assert_string_equal(s.out, "1 train is changed\n");
	said_clear(&s);
	now = spec_now(sp, 1, &name);
	assert_int_equal(name.priority, 3);
	assert_true(name.flags & NAME_PAUSED);
	assert_true(name.begin_s > 4000000000);
	json_decref(now);
	s = cli(&cmd_edit, "train priority= paused=no begin=now");
	assert_int_equal(s.code, 0);
	said_clear(&s);
	now = spec_now(sp, 1, &name);
	assert_int_equal(name.priority, SPEC_PRIORITY);
	assert_false(name.flags & NAME_PAUSED);
	assert_int_equal(name.begin_s, 0);
	json_decref(now);
	(void)spool_close(sp);
}

static const struct {
	const char *line;
	int code;
	const char *error;
} bad[] = {
	/* Of the words. */
	{ "1", CMD_USAGE, "usage: tenure edit ID|NAME|last KEY=VALUE.." },
	{ "1 memory", CMD_USAGE, "\"memory\" is no KEY=VALUE; an example is memory=30G" },
	{ "1 =30G", CMD_USAGE, "\"=30G\" is no KEY=VALUE" },
	{ "1 memroy=30G", CMD_USAGE, "unknown key \"memroy\"; did you mean \"memory\"?" },
	{ "1 memroy=", CMD_USAGE, "unknown key \"memroy\"; did you mean \"memory\"?" },
	{ "1 memory=30G memory=20G", CMD_USAGE, "memory is given twice" },
	{ "1 retry-every=1 retry_every=2", CMD_USAGE, "retry_every is given twice" },
	{ "1 env=A=1 env=[]", CMD_USAGE, "env is given twice" },
	{ "1 env=[] env=A=1", CMD_USAGE, "env: give either the whole list or single variables" },
	{ "1 env=A", CMD_USAGE, "env: \"A\" is not NAME=VALUE; env=LR=0.1 sets one" },
	{ "1 env==1", CMD_USAGE, "env: \"=1\" is not NAME=VALUE" },
	{ "1 --memory=30G", CMD_USAGE,
	  "edit has no option --memory; here it is written KEY=VALUE: "
	  "memory=SIZE" },
	{ "1 -m 30G", CMD_USAGE,
	  "edit has no option -m; here it is written KEY=VALUE: memory=SIZE" },
	{ "1 --paused", CMD_USAGE, "KEY=VALUE: paused=true" },
	{ "1 --nothing", CMD_USAGE, "unknown option --nothing" },
	/* Of the values. */
	{ "1 memory=30", CMD_USAGE, "memory: " },
	{ "1 gpus=-1", CMD_USAGE, "gpus: must be a whole number or all" },
	{ "1 gpus=2000", CMD_USAGE, "gpus: " },
	{ "1 shared=perhaps", CMD_USAGE, "shared: " },
	{ "1 begin=yesterday", CMD_USAGE, "\"yesterday\"" },
	{ "1 'argv=sh -c'", CMD_USAGE,
	  "argv is a list of words; write it as JSON: "
	  "'argv=[\"sh\", \"-c\"]'" },
	{ "1 argv=[", CMD_USAGE, "argv: not JSON: " },
	{ "1 argv=[7]", CMD_USAGE, "argv: " },
	/* Of the task. */
	{ "9 gpus=2", CMD_FAILED, "there is no task 9" },
	{ "tra.1 gpus=2", CMD_FAILED, "no task in instance \"default\" is called \"tra.1\"" },
	{ "4.1 gpus=2", CMD_FAILED, "4.1 is an element; only task 4 as a whole can be edited" },
	{ "3 gpus=2", CMD_FAILED, "task 3 (running) runs; only a task that waits can be edited" },
	{ "2 gpus=2", CMD_FAILED, "task 2 (ended) has ended already: done, " },
	{ "week gpus=2", CMD_FAILED, "\"week\" is a lane, and one task is needed here" },
	/* As what is submitted. */
	{ "1 name=7", CMD_FAILED, "not changed: name: \"7\" would be taken for the id of a task" },
	{ "1 lane=all", CMD_FAILED,
	  "not changed: lane: \"all\" means every task; take another name" },
	{ "1 after=9", CMD_FAILED, "not changed: there is no task 9 to wait for" },
	{ "1 after=5", CMD_FAILED, "not changed: task 1 would wait for itself: 1 -> 5 -> 1" },
	{ "1 script=x", CMD_FAILED, "it says more than once what to run" },
	{ "1 argv=", CMD_FAILED, "it does not say what to run" },
	{ "1 memory= shared=yes", CMD_FAILED,
	  "shared: say with memory how much it needs on a device" },
	{ "4 array=1-4", CMD_FAILED, "which elements a task has cannot be changed" },
	{ "4 commands=[\"a\"]", CMD_FAILED,
	  "which elements a task has cannot be changed (of an array only how many run at once)" },
	{ "6 nodes=3", CMD_FAILED, "on how many nodes a task runs cannot be changed" },
	{ "6 nodes=", CMD_FAILED, "on how many nodes a task runs cannot be changed" },
	{ "1 nodes=2 lane=", CMD_FAILED, "on how many nodes a task runs cannot be changed" },
	{ "6 gpus=all", CMD_FAILED, "nodes: say with gpus how many GPUs it needs on each node" },
};

static void what_is_wrong_changes_nothing(void **state)
{
	struct spool *sp = world();
	struct task_name was, is;
	json_t *before = spec_now(sp, 1, &was), *after;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct said s = cli(&cmd_edit, bad[i].line);

		if (s.code != bad[i].code || s.out[0] || !strstr(s.err, bad[i].error))
			fail_msg("%s: %d, %s%s", bad[i].line, s.code, s.out, s.err);
		said_clear(&s);
	}
	after = spec_now(sp, 1, &is);
	assert_true(json_equal(before, after));
	assert_string_equal(is.name, was.name);
	assert_int_equal(is.flags, was.flags);
	json_decref(before);
	json_decref(after);
	(void)spool_close(sp);
}

/* A script that has no #! line is run by what its name says, which an edit does not change. */
static void another_name_is_no_other_interpreter(void **state)
{
	struct spool *sp = open_spool();
	uint64_t id = submit(sp, "{\"script\":\"print(1)\",\"name\":\"a.py\"}");
	struct said s;
	struct task_name name;
	json_t *now;

	assert_int_equal(id, 1);
	s = cli(&cmd_edit, "1 name=b");
	assert_int_equal(s.code, 0);
	said_clear(&s);
	now = spec_now(sp, 1, &name);
	assert_string_equal(json_string_value(json_object_get(now, "script_name")), "a.py");
	assert_string_equal(name.name, "b");
	json_decref(now);
	(void)spool_close(sp);
}

int main(void)
{
#define IN_A_SPOOL(fn) cmocka_unit_test_setup_teardown(fn, cli_setup, cli_teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_what_the_task_says_then),
		IN_A_SPOOL(what_the_name_says_is_changed_there),
		IN_A_SPOOL(what_is_wrong_changes_nothing),
		IN_A_SPOOL(another_name_is_no_other_interpreter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
