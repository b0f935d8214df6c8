/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/units.h"
#include "spool/elements.h"
#include "spool/name.h"
#include "spool/raw.h"
#include "spool/task_spec.h"
#include "spool/task_text.h"

static int parse(const char *text, struct task_spec **ret, struct err *e)
{
	size_t used;

	*e = (struct err)ERR_INIT;
	return spec_read(text, strlen(text), ret, &used, e);
}

static void test_round_trip(void **state)
{
	static const char text[] =
		"{\n \"name\": \"train.sh\", \"gpus\": \"all\", \"memory\": \"20G\",\n"
		" \"shared\": true, \"priority\": 7, \"lane\": \"week\", \"retries\": \"forever\",\n"
		" \"backoff\": 90, \"timeout\": \"1h30m\", \"after\": [3, 4], \"after_any\": [5],\n"
		" \"array\": \"1-100%4\", \"env\": [\"A=1,2\", \"B=\"], \"cwd\": \"/tmp\", \"umask\": \"0027\",\n"
		" \"begin\": \"2026-11-22T08:00:00+01:00\", \"retry_memory\": 1.5,\n"
		" \"clean\": \"gpu\", \"rules\": \"compete\", \"script\": \"echo \\u00e9\\n\"}\n{\"x\":1}";
	struct task_spec *s = NULL, *again = NULL;
	struct err e = ERR_INIT;
	size_t used = 0;

	assert_int_equal(spec_read(text, strlen(text), &s, &used, &e), 0);
	assert_string_equal(text + used, "\n{\"x\":1}");
	assert_true(s->gpus == SPEC_ALL && s->memory == 20 * GIB && s->shared);
	assert_true(s->retries == SPEC_FOREVER && s->backoff == 90000 && s->timeout == 5400000);
	assert_int_equal(s->retry_every, 3);
	assert_int_equal(s->after.n, 2);
	assert_int_equal(s->array.limit, 4);
	assert_int_equal(s->retry_memory, 1500);
	assert_int_equal(s->umask, 027);
	assert_string_equal(s->env.texts[0], "A=1,2");
	assert_true(s->begin == 1795330800ULL * NS_PER_S);

	cleanup_free char *line = spec_text(s, &e);

	assert_non_null(line);
	assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
	assert_int_equal(parse(line, &again, &e), 0);

	cleanup_free char *twice = spec_text(again, &e);

	assert_string_equal(line, twice);
	(void)spec_free(s);
	(void)spec_free(again);
}

static void test_refused(void **state)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{ "", "not JSON" },
		{ "[1]", "JSON object" },
		{ "{\"script\":\"x\",\"version\":2}", "version" },
		{ "{\"script\":\"x\",\"gpu\":2}", "did you mean \"gpus\"" },
		{ "{\"script\":\"x\",\"gpus\":-1}", "gpus: " },
		{ "{\"script\":\"x\",\"gpus\":5000}", "gpus: 5000 is out of range" },
		{ "{\"script\":\"x\",\"gpus\":\"some\"}", "gpus: must be a whole number or all" },
		{ "{\"script\":\"x\",\"name\":\"../x\"}", "name: \"../x\" is not a name" },
		{ "{\"script\":\"x\",\"name\":\"a,b\"}", "is not a name" },
		{ "{\"script\":\"x\",\"name\":\"\"}", "is not a name" },
		{ "{\"script\":\"x\",\"lane\":\".\"}", "lane: " },
		{ "{\"script\":\"x\",\"memory\":\"20\"}", "memory: " },
		{ "{\"script\":\"x\",\"shared\":1}", "shared: must be true or false" },
		{ "{\"script\":\"x\",\"shared\":true}", "shared: say with memory" },
		{ "{\"script\":\"x\",\"after\":[0]}", "after: entry 1: 0 is less than 1" },
		{ "{\"script\":\"x\",\"array\":\"9-1\"}", "array: \"9-1\" ends before" },
		{ "{\"script\":\"x\",\"array\":\"1-9%0\"}", "array: " },
		{ "{\"script\":\"x\",\"array\":\"0-1000000\"}", "more than 1000000 elements" },
		{ "{\"script\":\"x\",\"sweep\":[\"lr\"]}", "sweep: \"lr\" is not NAME=" },
		{ "{\"script\":\"x\",\"sweep\":[\"a=1..2000\",\"b=1..2000\"]}", "combinations" },
		{ "{\"script\":\"x\",\"array\":\"1-2\",\"sweep\":[\"a=1\"]}", "only one of array" },
		{ "{\"script\":\"x\",\"nodes\":2,\"array\":\"1-2\"}", "nodes: a task on several" },
		{ "{\"commands\":[\"x\"],\"nodes\":2}", "nodes: a task on several" },
		{ "{\"script\":\"x\",\"nodes\":2,\"lane\":\"l\"}", "has no lane" },
		{ "{\"script\":\"x\",\"nodes\":2,\"gpus\":\"all\"}", "nodes: say with gpus" },
		{ "{\"script\":\"x\",\"nodes\":2,\"gpus_max\":2}", "do not change" },
		{ "{\"nodes\":2,\"allocation\":true}", "an allocation is on one node" },
		{ "{\"script\":\"x\",\"env\":[\"=v\"]}", "env: " },
		{ "{\"script\":\"x\",\"umask\":22}", "umask: must be a text of octal digits" },
		{ "{\"script\":\"x\",\"umask\":\"028\"}", "umask: must be" },
		{ "{\"script\":\"x\",\"umask\":\"1000\"}", "umask: must be" },
		{ "{\"script\":\"x\",\"umask\":\"\"}", "umask: must be" },
		{ "{\"script\":\"x\",\"cwd\":\"here\"}", "cwd: \"here\" is not an absolute path" },
		{ "{\"script\":\"x\",\"signal\":\"FOO\"}", "signal: \"FOO\" is no signal; write" },
		{ "{\"script\":\"x\",\"signal\":\"SIG\"}", "is no signal" },
		{ "{\"script\":\"x\",\"signal\":0}", "\"0\" is no signal" },
		{ "{\"script\":\"x\",\"signal\":1.5}", "must be the name of a signal" },
		{ "{\"script\":\"x\",\"retry_memory\":0.5}",
		  "retry_memory: 0.5 is out of range, 1 to 100" },
		{ "{\"script\":\"x\",\"grace\":\"2d\"}", "grace: 2d is out of range, 0 to 1d" },
		{ "{\"script\":\"x\",\"clean\":\"all\"}", "clean: must be one of none, gpu" },
		{ "{\"script\":\"x\",\"gpus\":2,\"gpus_max\":1}",
		  "gpus_max: 1 is less than the 2 that gpus asks for" },
		{ "{\"script\":\"x\",\"gpus\":\"all\",\"gpus_max\":8}", "gpus_max: say with gpus" },
		{ "{\"script\":\"x\",\"gpus\":0,\"gpus_max\":8}", "gpus_max: say with gpus" },
		{ "{\"script\":\"x\",\"gpus_max\":4,\"gpus_min\":2}",
		  "gpus_min: 2 is more than the 1 that gpus asks for" },
		{ "{\"script\":\"x\",\"gpus_min\":1}", "gpus_min: say with gpus_max" },
		{ "{\"script\":\"x\",\"scale_window\":5}", "say with gpus_max how many GPUs" },
		{ "{\"script\":\"x\",\"gpus_max\":4,\"scale_down\":80}",
		  "scale_down: 80% is not below scale_up (80%): it would grow and shrink by turns" },
		{ "{\"script\":\"x\",\"gpus_max\":4,\"scale_up\":20}",
		  "scale_down: 30% is not below scale_up (20%)" },
		{ "{\"script\":\"x\",\"gpus_max\":4,\"scale_down\":50}",
		  "scale_down: with 50% it could never grow: what keeps 1 GPU wholly busy keeps one "
		  "more at 50%; say less than that" },
		{ "{\"script\":\"x\",\"gpus_max\":4,\"gpus\":2,\"gpus_min\":2,\"scale_down\":70}",
		  "what keeps 2 GPUs wholly busy keeps one more at 66.6%" },
		{ "{\"script\":\"x\",\"gpus_max\":4,\"shared\":true,\"memory\":\"1G\"}",
		  "it cannot be shared" },
		{ "{\"script\":\"x\",\"gpus_max\":4,\"rules\":\"compete\"}",
		  "it cannot be one by the rules of compete" },
		{ "{\"script\":\"x\",\"argv\":[\"y\"]}", "more than once what to run" },
		{ "{\"gpus\":1}", "does not say what to run" },
		{ "{\"argv\":[\"\"]}", "argv: " },
		{ "{\"argv\":[1]}", "argv: entry 1 must be a text" },
		{ "{\"argv\":[\"x\"],\"args\":[\"x\"]}", "args: " },
		{ "{\"script\":\"a\\u0000b\"}", "not JSON" },
		{ "{\"script\":\"x\",\"script\":\"y\"}", "not JSON" },
		{ "{\"script\":\"x\",\"backoff\":1e300}", "backoff: " },
		{ "{\"script\":\"x\",\"begin\":1.5}", "begin: a number is seconds since 1970" },
		{ "{\"script\":\"x\",\"begin\":\"4052-11-22T08:00:00Z\"}", "after the year 2255" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct task_spec *s = NULL;
		struct err e;
		int r = parse(cases[i].text, &s, &e);

		if (r >= 0 || !strstr(e.text, cases[i].says))
			fail_msg("%s: %d \"%s\", not \"%s\"", cases[i].text, r, e.text,
				 cases[i].says);
	}
}

static void test_text(void **state)
{
	static const char *const no_numbers[] = { "nan", "inf", "-INF", "x1e400" };
	static const char *const no_ids[] = { "1,,2", ",", "", " ", "1,", ",1", "1;2" };
	struct task_spec *s = spec_new();
	struct err e = ERR_INIT;

	assert_int_equal(spec_set_text(s, "env", "A=1,2", &e), 0);
	assert_int_equal(spec_set_text(s, "env", "B=x=y", &e), 0);
	assert_int_equal(spec_set_text(s, "after", "3,4 5", &e), 0);
	assert_int_equal(spec_set_text(s, "after", " 6 , 7 ", &e), 0);
	assert_int_equal(s->after.n, 5);
	assert_int_equal(s->after.nums[4], 7);
	for (size_t i = 0; i < ARRAY_LEN(no_ids); i++) {
		assert_int_equal(spec_set_text(s, "after", no_ids[i], &e), -EINVAL);
		assert_non_null(strstr(e.text, "must be the id of a task"));
	}
	assert_int_equal(spec_set_text(s, "retries", "forever", &e), 0);
	assert_int_equal(spec_set_text(s, "retry_memory", "x1.5", &e), 0);
	assert_int_equal(spec_set_text(s, "preemptible", "true", &e), 0);
	assert_int_equal(s->env.n, 2);
	assert_string_equal(s->env.texts[1], "B=x=y");
	assert_int_equal(s->after.n, 5);
	assert_int_equal(s->retry_memory, 1500);
	assert_true(s->preemptible);
	assert_int_equal(spec_set_text(s, "priority", "low", &e), -EINVAL);
	for (size_t i = 0; i < ARRAY_LEN(no_numbers); i++) {
		assert_int_equal(spec_set_text(s, "retry_memory", no_numbers[i], &e), -EINVAL);
		assert_string_equal(e.text, "retry_memory: must be a number like 1.5");
		assert_int_equal(spec_set_text(s, "priority", no_numbers[i], &e), -EINVAL);
		assert_string_equal(e.text, "priority: must be a whole number");
		assert_null(spec_value("retries", no_numbers[i], &e));
		assert_string_equal(e.text, "retries: must be a whole number or forever");
	}
	assert_int_equal(spec_set_text(s, "env", "\xff=1", &e), 0);
	assert_string_equal(s->env.texts[2], "\xff=1");
	assert_int_equal(spec_set_text(s, "cwd", "/\xff", &e), 0);
	assert_string_equal(s->cwd, "/\xff");
	assert_int_equal(spec_set_text(s, "cwd", "\xff", &e), -EINVAL);
	assert_int_equal(spec_set_text(s, "sweep", "A=\xff", &e), -EINVAL);
	s->script = xstrdup("\xff");
	assert_null(spec_text(s, &e));
	assert_non_null(strstr(e.text, "script: not UTF-8"));
	(void)spec_free(s);
}

static void test_signals(void **state)
{
	static const char *const same[] = { "USR1", "SIGUSR1", "usr1", "sigusr1", "10" };
	struct task_spec *s = spec_new();
	struct err e = ERR_INIT;

	for (size_t i = 0; i < ARRAY_LEN(same); i++) {
		assert_int_equal(spec_set_text(s, "signal", "KILL", &e), 0);
		assert_int_equal(spec_set_text(s, "signal", same[i], &e), 0);
		assert_string_equal(s->signal, "USR1");
	}
	assert_int_equal(spec_set_text(s, "signal", "65", &e), -EINVAL);
	assert_string_equal(s->signal, "USR1");
	(void)spec_free(s);
	assert_int_equal(parse("{\"script\":\"x\",\"signal\":2}", &s, &e), 0);
	assert_string_equal(s->signal, "INT");
	(void)spec_free(s);
}

static void test_elements(void **state)
{
	struct task_spec *s = NULL;
	char name[SPEC_NAME_MAX + 1], value[16];
	struct err e;
	uint64_t n;

	assert_int_equal(
		parse("{\"script\":\"x\",\"sweep\":[\"lr=0.1,0.01,\",\"seed=5..6\"]}", &s, &e), 0);
	assert_int_equal(spec_count(s, &n, &e), 0);
	assert_int_equal(n, 6);
	assert_true(element_parameter(&s->sweep, 4, 0, name, value, sizeof(value)));
	assert_string_equal(name, "lr");
	assert_string_equal(value, "0.01");
	assert_true(element_parameter(&s->sweep, 4, 1, name, value, sizeof(value)));
	assert_string_equal(value, "6");
	assert_true(element_parameter(&s->sweep, 5, 0, name, value, sizeof(value)));
	assert_string_equal(value, "");
	assert_false(element_parameter(&s->sweep, 5, 2, name, value, sizeof(value)));
	(void)spec_free(s);
	assert_int_equal(parse("{\"script\":\"x\",\"array\":\"10-19\"}", &s, &e), 0);
	assert_int_equal(spec_count(s, &n, &e), 0);
	assert_int_equal(n, 10);
	assert_int_equal(element_index(&s->array, 1), 10);
	(void)spec_free(s);
}

static void test_null(void **state)
{
	struct task_spec *s = NULL, *plain = NULL;
	struct err e;
	const struct task_option *key;

	assert_int_equal(
		parse("{\"script\":\"x\",\"lane\":null,\"after\":null,\"gpus\":null}", &s, &e), 0);
	assert_true(!s->lane && !s->after.n && s->gpus == 1);
	(void)spec_free(s);
	assert_int_equal(
		parse("{\"script\":\"x\",\"after\":[1],\"lane\":\"l\",\"gpus\":\"all\",\"shared\":true,"
		      "\"memory\":\"1G\",\"array\":\"1-2\",\"env\":[\"A=1\"],\"retries\":3,"
		      "\"signal\":\"INT\",\"clean\":\"gpu\",\"begin\":\"2026-11-22T08:00:00+01:00\"}",
		      &s, &e),
		0);
	for (size_t i = 0; (key = task_option_at(i)); i++)
		assert_int_equal(spec_set_json(s, key->key, json_null(), &e), 0);
	plain = spec_new();

	cleanup_free char *text = spec_text(s, &e), *wanted = spec_text(plain, &e);

	assert_string_equal(text, wanted);
	assert_int_equal(spec_set_json(s, "gpu", json_null(), &e), -EINVAL);
	(void)spec_free(s);
	(void)spec_free(plain);
}

static int count_sweep(const char *const *texts, size_t n_texts, uint64_t *ret, struct err *e)
{
	struct task_spec *s = spec_new();
	int r;

	for (size_t i = 0; i < n_texts && texts[i]; i++)
		text_list_add(&s->sweep, texts[i]);
	*e = (struct err)ERR_INIT;
	r = spec_count(s, ret, e);
	(void)spec_free(s);
	return r;
}

static void test_sweeps(void **state)
{
	static const struct {
		const char *texts[2];
		uint64_t n;
		const char *says;
	} cases[] = {
		{ { "lr=0.1,0.01" }, 2 },
		{ { "a=1..5", "_b2=x" }, 5 },
		{ { "dir=../a,../b" }, 2 },
		{ { "dir=.,.." }, 2 },
		{ { "dir=./,../" }, 2 },
		{ { "dir=../a" }, 1 },
		{ { "lr=1e-3" }, 1 },
		{ { "flag=,--amp" }, 2 },
		{ { "v=1.2.3" }, 1 },
		{ { "lr=5..1" }, 0, "\"lr=5..1\" ends before it begins" },
		{ { "lr=1..5..2" }, 0, "cannot be read" },
		{ { "a=0.1..0.5" }, 0, "is of whole numbers" },
		{ { "a=1e-5..1e-3" }, 0, "cannot be read" },
		{ { "a=-3..3" }, 0, "cannot be read" },
		{ { "a=1,3..5" }, 0, "a range stands alone" },
		{ { "a=1.." }, 0, "cannot be read" },
		{ { "a=1..10000000" }, 0, "more than 1000000 values" },
		{ { "lr=." }, 0, "cannot be read" },
		{ { "lr=.." }, 0, "cannot be read" },
		{ { "lr=" }, 0, "has no value" },
		{ { "2lr=1" }, 0, "\"2lr\" cannot be the name of a variable" },
		{ { "batch-size=1,2" }, 0, "\"batch-size\" cannot be the name" },
		{ { "=1" }, 0, "cannot be the name" },
		{ { "lr=1,2", "lr=3" }, 0, "\"lr\" is given twice" },
		{ { "lr=1,2", "l=3" }, 2 },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e;
		uint64_t n = 0;
		int r = count_sweep(cases[i].texts, 2, &n, &e);

		if (cases[i].says ? r >= 0 || !strstr(e.text, cases[i].says)
				  : r < 0 || n != cases[i].n)
			fail_msg("%s: %d, %llu, \"%s\"", cases[i].texts[0], r,
				 (unsigned long long)n, e.text);
	}
}

static void test_names(void **state)
{
	static const char *const good[] = {
		"00500,42,ntrain.sh",
		"00100,43,g2,x100000,fpd,t1763730000,lweek,nsweep",
		"99999,9999999999,e999999,v999999999,gall,fs,n_",
		"00500,42,e1,g0,ntrain.sh,cnode7",
		"00500,42,l\u591c\u95f4,n\u8bad\u7ec3.sh",
		"00500,42,ntrain.sh,u1763730000,z0",
		"00500,42,ntrain.sh,u1763730000,z265",
		"42.7,e1",
	};
	static const char *const bad[] = {
		"",
		"train.sh",
		"500,42,nx",
		"00500,42",
		"00500,0,nx",
		"00500,42,n",
		"00500,42,nx,",
		"00500,42,g1,nx",
		"00500,42,e0,nx",
		"00500,42,ly,g2,nx",
		"00500,42,nx,cnode7,u1763730000,z0",
		"00500,42,v0,nx",
		"00500,42,v1,e1,nx",
		"00500,42,v1000000000,nx",
		"00500,42,na/b",
		"00500,42,n.x",
		"00500,42,fzp,nx",
		"00500,42,fdp,nx",
		"00500,042,nx",
		"00500,42,x1000001,nx",
		"42.0,e0",
		"42.7",
		"42.7,e1x",
		"00500,42,nx,z1",
		"00500,42,g,nx",
		"00500,42,nx,u5",
		"00500,99999999999,nx",
		"00500,42,nx,qy",
		"00500,42,n\xe8\xae",
		"00500,42,na\u202eb",
		"00500,42,nx,c\u8bad",
	};
	struct task_name n, longest = { .priority = 99999,
					.id = NAME_ID_MAX,
					.epoch = NAME_EPOCH_MAX,
					.edits = NAME_EPOCH_MAX,
					.gpus = SPEC_GPUS_MAX,
					.count = SPEC_ELEMENTS_MAX,
					.begin_s = NAME_ID_MAX,
					.flags = 0xff };
	cleanup_free char *overlong = NULL;
	char buf[NAME_FILE_MAX];

	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		if (!name_parse(good[i], &n))
			fail_msg("%s is a name", good[i]);
		assert_string_equal(name_format(&n, buf), good[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (name_parse(bad[i], &n))
			fail_msg("%s is no name", bad[i]);
	(void)memset(longest.lane, 'l', SPEC_NAME_MAX);
	(void)memset(longest.name, 'n', SPEC_NAME_MAX);
	(void)memset(longest.agent, 'a', NAME_AGENT_MAX);
	assert_true(strlen(name_format(&longest, buf)) < NAME_FILE_MAX - 1);
	assert_true(name_parse(buf, &n));
	/* Shorter than it would be written: its priority has one digit, and its end no status. */
	overlong = xasprintf("1%.*s,u9999999999", (int)strlen(buf) - 7, strchr(buf, ','));
	assert_int_equal(strlen(overlong), NAME_FILE_MAX - 1);
	assert_false(name_parse(overlong, &n));
	longest.agent[0] = '\0';
	longest.begin_s = 0;
	longest.ended_s = NAME_ID_MAX;
	longest.exit = 300;
	assert_true(name_parse(name_format(&longest, buf), &n));
	assert_int_equal(n.exit, 300);
}

static void test_made_names(void **state)
{
	static const char *const cases[][2] = {
		{ "/a/b/train.sh", "train.sh" },
		{ "..", "task" },
		{ "", "task" },
		{ "a,b c", "a_b_c" },
		{ "-x", "x" },
		{ "\xc3\xa9", "__" },
		{ "python3", "python3" },
		{ "/a/b/", "_a_b_" },
	};
	char name[SPEC_NAME_MAX + 1];

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		ident_make_name(cases[i][0], name);
		assert_true(ident_is_name(name));
		if (i < 7)
			assert_string_equal(name, cases[i][1]);
	}
}

static void test_names_of_commands(void **state)
{
	static const char *const cases[][2] = {
		{ "python train.py --lr 1", "python" },
		{ "A=1 B='x' ./run.sh 3", "run.sh" },
		{ "'python' '-c' 'x=1'", "python" },
		{ "cd x && make", "cd" },
		{ "(sleep 1; echo)", "sleep" },
		{ "./a=b/c", "c" },
		{ "A=1", "task" },
		{ "$PROG x", "_PROG" },
		{ ";", "task" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct task_spec *s = spec_new();
		struct err e = ERR_INIT;

		text_list_add(&s->commands, cases[i][0]);
		text_list_add(&s->commands, "other");
		assert_int_equal(spec_check(s, &e), 0);
		assert_string_equal(s->name, cases[i][1]);
		(void)spec_free(s);
	}
}

static void test_raw(void **state)
{
	static const struct {
		const char *file, *text, *name;
		uint64_t priority;
	} cases[] = {
		{ "001_train.sh", "echo", "train.sh", 1 },
		{ "train.sh", "echo", "train.sh", 500 },
		{ "42.sh", "echo", "42.sh", 42 },
		{ "7", "echo", "task_7", 7 },
		{ "all", "echo", "task_all", 500 },
		{ "20261121_run.sh", "echo", "20261121_run.sh", 500 },
		{ "my task.sh", "echo", "my_task.sh", 500 },
		{ "1_\u8bad\u7ec3.sh", "echo", "\u8bad\u7ec3.sh", 1 },
		{ "x.json", "{\"argv\":[\"true\"],\"priority\":3}\n", "true", 3 },
	};
	struct task_spec *s = NULL;
	struct err e = ERR_INIT;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(
			raw_parse(cases[i].file, cases[i].text, strlen(cases[i].text), &s, &e), 0);
		assert_string_equal(s->name, cases[i].name);
		assert_int_equal(s->priority, cases[i].priority);
		assert_true(s->raw);
		(void)spec_free(s);
	}
	assert_int_equal(raw_parse("a", "", 0, &s, &e), -EINVAL);
	assert_int_equal(raw_parse("a",
				   "\x7f"
				   "ELF\0",
				   5, &s, &e),
			 -EINVAL);
	assert_int_equal(raw_parse("a.json", "{\"argv\":[\"x\"]} x", 17, &s, &e), -EINVAL);
}

static void test_output_path(void **state)
{
	static const struct output_words words = {
		.id = 42, .element = 7, .index = 9, .name = "train", .node = "n7", .user = "bob"
	};
	static const char *const bad[] = { "/x/%", "/x/%q", "/%J" };
	struct strbuf b = STRBUF_INIT;

	assert_int_equal(output_path("/%u/%x-%j.%A_%a@%N 100%%", &words, &b, NULL), 0);
	assert_string_equal(strbuf_str(&b), "/bob/train-42.7.42_9@n7 100%");
	strbuf_clear(&b);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err e = ERR_INIT;

		assert_int_equal(output_path(bad[i], NULL, NULL, &e), -EINVAL);
		assert_non_null(strstr(e.text, "stands for nothing; there are %j (id)"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_output_path), cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_refused),	    cmocka_unit_test(test_text),
		cmocka_unit_test(test_elements),    cmocka_unit_test(test_names),
		cmocka_unit_test(test_made_names),  cmocka_unit_test(test_raw),
		cmocka_unit_test(test_signals),	    cmocka_unit_test(test_null),
		cmocka_unit_test(test_sweeps),	    cmocka_unit_test(test_names_of_commands),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
