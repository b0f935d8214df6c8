/* SPDX-License-Identifier: MIT */

/* What `tenure submit` makes of its options and arguments: the task that lies in the queue then. */

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli_world.h"
#include "spool_world.h"
#include "unit.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/task/select.h"
#include "spool/instance.h"
#include "spool/record.h"
#include "spool/task_text.h"

/* What task id says, without what every task says of its submitter. */
static json_t *submitted_spec(const struct spool *sp, uint64_t id)
{
	static const char *const own[] = { "version",	"host",	 "user", "uid",
					   "submitted", "umask", "cwd",	 "env" };
	struct task_place p;
	struct task_file f;
	json_t *o;

	assert_int_equal(select_by_id(sp, id, 0, &p, NULL), 0);
	assert_int_equal(task_file_read(sp, p.path, &f, NULL), 0);
	o = spec_json(f.spec);
	task_file_clear(&f);
	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		(void)json_object_del(o, own[i]);
	return o;
}

#define TRUE "\"argv\":[\"true\"],\"name\":\"true\""

static const struct {
	const char *words, *want;
} good[] = {
	{ "-- true", "{" TRUE "}" },
	{ "-- sh -c 'exit 3'", "{\"argv\":[\"sh\",\"-c\",\"exit 3\"],\"name\":\"sh\"}" },
	{ "-- true --gpus 2", "{\"argv\":[\"true\",\"--gpus\",\"2\"],\"name\":\"true\"}" },
	{ "-g 2 -m 20G -- true", "{" TRUE ",\"gpus\":2,\"memory\":\"20G\"}" },
	{ "-g all -- true", "{" TRUE ",\"gpus\":\"all\"}" },
	{ "-g 0 -- true", "{" TRUE ",\"gpus\":0}" },
	{ "-n x -l week -p 3 -- true",
	  "{\"argv\":[\"true\"],\"name\":\"x\",\"lane\":\"week\",\"priority\":3}" },
	/* What it would be without being said is not written. */
	{ "-g 1 -p 500 --retry-every 3 --backoff 10m -- true", "{" TRUE "}" },
	{ "-r forever --backoff 90s -- true",
	  "{" TRUE ",\"retries\":\"forever\",\"backoff\":\"1m30s\"}" },
	{ "-r 2 -m 1G --retry-memory x1.5 -- true",
	  "{" TRUE ",\"retries\":2,\"memory\":\"1G\",\"retry_memory\":1.5}" },
	{ "--timeout 2h --grace 5s --signal usr1 -- true",
	  "{" TRUE ",\"timeout\":\"2h\",\"grace\":\"5s\",\"signal\":\"USR1\"}" },
	{ "--array 0-9%4 -- true", "{" TRUE ",\"array\":\"0-9%4\"}" },
	{ "--sweep lr=0.1,0.2 --sweep seed=1..3 -- true",
	  "{" TRUE ",\"sweep\":[\"lr=0.1,0.2\",\"seed=1..3\"]}" },
	{ "--no-requeue -- true", "{" TRUE ",\"no_requeue\":true}" },
	{ "--paused --preemptible -- true", "{" TRUE ",\"paused\":true,\"preemptible\":true}" },
	{ "--paused --no-paused -- true", "{" TRUE "}" },
	{ "script.sh", "{\"script\":\"#!/bin/sh\\necho $1\\n\",\"name\":\"script.sh\"}" },
	{ "./script.sh a 'b c'",
	  "{\"script\":\"#!/bin/sh\\necho $1\\n\",\"name\":\"script.sh\",\"args\":[\"a\",\"b c\"]}" },
	{ "-n x script.sh",
	  "{\"script\":\"#!/bin/sh\\necho $1\\n\",\"name\":\"x\",\"script_name\":\"script.sh\"}" },
	/* Without a #! line its name says by what it is run. */
	{ "job.py", "{\"script\":\"print(1)\\n\",\"name\":\"job.py\"}" },
	{ "-n x job.py", "{\"script\":\"print(1)\\n\",\"name\":\"x\",\"script_name\":\"job.py\"}" },
	{ "--from lines", "{\"commands\":[\"echo a\",\"echo b\"],\"name\":\"echo\"}" },
	{ "-g 2 --from lines",
	  "{\"commands\":[\"echo a\",\"echo b\"],\"name\":\"echo\",\"gpus\":2}" },
};

static const struct {
	const char *words;
	int code;
	const char *error;
} bad[] = {
	{ "", CMD_USAGE, "say what to run: a script (- is standard input), or -- and a command" },
	{ "--", CMD_USAGE, "say what to run" },
	{ "-- ''", CMD_USAGE, "argv: the program's name is empty" },
	{ "nothing.sh", CMD_USAGE, "script: open nothing.sh: No such file or directory" },
	{ "true", CMD_USAGE,
	  "there is no script \"true\" here; a command comes behind --: -- true ..." },
	{ "empty.sh", CMD_USAGE, "empty.sh is empty" },
	{ "binary", CMD_USAGE,
	  "binary is a program, not a script; submit it as a command: tenure submit "
	  "-- binary" },
	{ ".", CMD_USAGE, "script" },
	{ "--from lines -- true", CMD_USAGE, "with --from nothing else can be given to run" },
	{ "--from none", CMD_USAGE, "open none: No such file" },
	{ "--from empty.sh", CMD_USAGE, "empty.sh has no command in it" },
	{ "-g x -- true", CMD_USAGE, "--gpus: " },
	{ "-m 20 -- true", CMD_USAGE, "--memory: " },
	{ "-p 100000 -- true", CMD_USAGE, "--priority: " },
	{ "--signal HUH -- true", CMD_USAGE, "--signal: " },
	{ "--env 1A=x -- true", CMD_USAGE, "--env: \"1A\" cannot be the name of a variable" },
	{ "--env A -- true", CMD_USAGE, "env: \"A\" is not NAME=VALUE" },
	{ "--sweep lr -- true", CMD_USAGE, "sweep: " },
	{ "--array 0-3 --sweep lr=1,2 -- true", CMD_USAGE,
	  "only one of array, sweep and commands can be given" },
	{ "--shared -- true", CMD_USAGE, "shared: say with memory how much it needs on a device" },
	{ "--retry-memory x2 -- true", CMD_USAGE,
	  "--retry-memory: say with --memory how much it needs at first" },
	{ "--retry-memory x2 -m 1G -- true", CMD_USAGE,
	  "--retry-memory: say with --retries how often it is tried again" },
	{ "-n 7 -- true", CMD_USAGE,
	  "name: \"7\" would be taken for the id of a task; take a name" },
	{ "-l all -- true", CMD_USAGE, "lane: \"all\" means every task; take another name" },
	{ "--cwd script.sh -- true", CMD_USAGE, "--cwd: script.sh is no directory" },
	{ "--cwd nowhere -- true", CMD_USAGE, "--cwd: find the directory \"nowhere\"" },
	{ "--after 99 -- true", CMD_FAILED, "not submitted: there is no task 99 to wait for" },
	{ "--gpu 3 -- true", CMD_USAGE, "unknown option --gpu; did you mean --gpus?" },
};

static char here[PATH_MAX];

/* In a directory with some files, where the tasks are to run. */
static int setup(void **state)
{
	static const struct {
		const char *file, *text;
		size_t len;
	} files[] = { { "script.sh", "#!/bin/sh\necho $1\n", 18 },
		      { "job.py", "print(1)\n", 9 },
		      { "lines", "echo a\n# no\necho b\n", 19 },
		      { "empty.sh", "", 0 },
		      { "binary",
			"\x7f"
			"ELF\0\1\2",
			7 } };
	int r = cli_setup(state);
	cleanup_free char *dir = xasprintf("%s/work", spool_world_root());

	assert_non_null(getcwd(here, sizeof(here)));
	assert_int_equal(fs_mkdirs(dir, 0700, NULL), 0);
	assert_int_equal(chdir(dir), 0);
	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		assert_int_equal(
			fs_write_atomic(files[i].file, files[i].text, files[i].len, 0600, NULL), 0);
	return r;
}

static int teardown(void **state)
{
	assert_int_equal(chdir(here), 0);
	return cli_teardown(state);
}

static void options_are_keys_of_the_task(void **state)
{
	struct spool *sp = open_spool();

	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		cleanup_free char *id = xasprintf("%zu\n", i + 1), *text = NULL;
		struct said s = cli(&cmd_submit, good[i].words);
		json_t *want = json_loads(good[i].want, 0, NULL), *got;

		assert_non_null(want);
		if (s.code != 0 || strcmp(s.out, id) != 0 || s.err[0])
			fail_msg("submit %s: %d, %s%s", good[i].words, s.code, s.out, s.err);
		got = submitted_spec(sp, i + 1);
		text = json_dumps(got, JSON_COMPACT);
		if (!json_equal(got, want))
			fail_msg("submit %s: %s", good[i].words, text);
		json_decref(got);
		json_decref(want);
		said_clear(&s);
	}
	(void)spool_close(sp);
}

static void what_is_wrong_is_not_submitted(void **state)
{
	struct spool *sp = open_spool();

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct said s = cli(&cmd_submit, bad[i].words);

		if (s.code != bad[i].code || s.out[0] || !strstr(s.err, bad[i].error))
			fail_msg("submit %s: %d, %s%s", bad[i].words, s.code, s.out, s.err);
		said_clear(&s);
	}
	assert_int_equal(count_files(sp, "pending"), 0);
	(void)spool_close(sp);
}

static bool has_variable(const struct task_spec *s, const char *assignment)
{
	for (size_t i = 0; i < s->env.n; i++)
		if (strcmp(s->env.texts[i], assignment) == 0)
			return true;
	return false;
}

static void read_spec(const struct spool *sp, uint64_t id, struct task_file *ret)
{
	struct task_place p;

	assert_int_equal(select_by_id(sp, id, 0, &p, NULL), 0);
	assert_int_equal(task_file_read(sp, p.path, ret, NULL), 0);
}

static void the_environment_is_taken_along(void **state)
{
	struct spool *sp = open_spool();
	cleanup_free char *work = realpath(".", NULL);
	struct task_file f;
	struct said s;

	(void)setenv("LR", "1", 1);
	s = cli(&cmd_submit, "-- true");
	said_clear(&s);
	read_spec(sp, 1, &f);
	assert_true(has_variable(f.spec, "LR=1"));
	assert_string_equal(f.spec->cwd, work);
	assert_int_equal(f.spec->uid, getuid());
	assert_string_equal(f.spec->host, spool_host(sp));
	task_file_clear(&f);

	/* One that is set takes its place, whatever is in it. */
	s = cli(&cmd_submit, "--env LR=0.1,0.2 --env NEW= --cwd /tmp -- true");
	said_clear(&s);
	read_spec(sp, 2, &f);
	assert_true(has_variable(f.spec, "LR=0.1,0.2") && has_variable(f.spec, "NEW="));
	assert_false(has_variable(f.spec, "LR=1"));
	assert_string_equal(f.spec->cwd, "/tmp");
	task_file_clear(&f);

	s = cli(&cmd_submit, "--no-env --env A=1 -- true");
	said_clear(&s);
	read_spec(sp, 3, &f);
	assert_int_equal(f.spec->env.n, 1);
	assert_true(has_variable(f.spec, "A=1"));
	task_file_clear(&f);
	(void)unsetenv("LR");
	(void)spool_close(sp);
}

static void json_tells_what_it_became(void **state)
{
	struct spool *sp = open_spool();
	struct said s = cli(&cmd_submit, "--json --array 0-4 -n many -- true");

	assert_int_equal(s.code, 0);
	assert_string_equal(
		s.out, "{\"id\":1,\"name\":\"many\",\"instance\":\"default\",\"elements\":5}\n");
	said_clear(&s);
	(void)spool_close(sp);
}

int main(void)
{
#define IN_A_SPOOL(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		IN_A_SPOOL(options_are_keys_of_the_task),
		IN_A_SPOOL(what_is_wrong_is_not_submitted),
		IN_A_SPOOL(the_environment_is_taken_along),
		IN_A_SPOOL(json_tells_what_it_became),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
