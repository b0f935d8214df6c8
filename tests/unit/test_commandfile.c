/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

#include "base/mem.h"
#include "base/units.h"
#include "compat/command_txt/commandfile.h"
#include "compat/command_txt/commandset.h"
#include "compat/command_txt/import.h"

/* The manual's own examples. */
static const char standard[] = "# comment\n"
			       "# another\n\n"
			       "# task 1: queue 1\n"
			       "command1\n"
			       "command2\n"
			       "command3\n"
			       "1,20\n\n"
			       "# task 2\n"
			       "command1\r\n"
			       "  command2  \r\n"
			       "12 , 7.5 # GB\r\n";
static const char optimised[] =
	"\xef\xbb\xbf# car\n"
	"1 #\xe9\x98\x9f\xe5\x88\x97ID\n"
	"\"rm -rf {work_dir}/experiments/car196/knowledge_base\"\n"
	"\"bash {work_dir}/scripts/set_hyperparameters.sh --experience_number 8\"\n"
	"\"bash {work_dir}/scripts/run_pipeline.sh car --uni_id {uni_id}\"\n"
	"20 #\xe5\x89\xa9\xe4\xbd\x99\xe6\x98\xbe\xe5\xad\x98\n"
	"\n\n"
	"2\n"
	"# inside\n"
	"'echo \"a b\"' # say\n"
	"\"/opt/a b/run\" \"c\"\n"
	"\"bash -c \"echo x\"\"\n"
	"\"echo \\\"q\\\" \\n\"\n"
	"20GB";

static int parse(const char *text, struct command_file *f, struct err *e)
{
	*e = (struct err)ERR_INIT;
	return command_file_parse("command.txt", text, strlen(text), f, e);
}

static void test_standard(void **state)
{
	struct command_file f;
	struct err e;

	assert_int_equal(parse(standard, &f, &e), 0);
	assert_int_equal(f.n, 2);
	assert_int_equal(f.blocks[0].line, 5);
	assert_string_equal(f.blocks[0].queue, "1");
	assert_int_equal(f.blocks[0].commands.n, 3);
	assert_true(f.blocks[0].mem_bytes == 20 * GIB);
	assert_string_equal(f.blocks[1].queue, "12");
	assert_string_equal(f.blocks[1].commands.texts[1], "command2");
	assert_true(f.blocks[1].mem_bytes == 7 * GIB + GIB / 2);
	command_file_clear(&f);
}

static void test_optimised(void **state)
{
	struct command_file f;
	struct err e;

	assert_int_equal(parse(optimised, &f, &e), 0);
	assert_int_equal(f.n, 2);
	assert_int_equal(f.blocks[0].line, 2);
	assert_int_equal(f.blocks[0].commands.n, 3);
	assert_string_equal(f.blocks[0].commands.texts[0],
			    "rm -rf {work_dir}/experiments/car196/knowledge_base");

	char **c = f.blocks[1].commands.texts;

	assert_int_equal(f.blocks[1].commands.n, 4);
	assert_string_equal(c[0], "echo \"a b\"");
	assert_string_equal(c[1], "\"/opt/a b/run\" \"c\"");
	assert_string_equal(c[2], "bash -c \"echo x\"");
	assert_string_equal(c[3], "echo \"q\" \\n");
	assert_true(f.blocks[1].mem_bytes == 20 * GIB);
	command_file_clear(&f);
}

/* No blank line between them, both ways in one file, the comma of a Chinese keyboard. */
static void test_mixed(void **state)
{
	struct command_file f;
	struct err e;

	assert_int_equal(parse("1\na\n20\nb\n2\xef\xbc\x8c"
			       "5\n3\nc\n0 G#x",
			       &f, &e),
			 0);
	assert_int_equal(f.n, 3);
	assert_string_equal(f.blocks[1].queue, "2");
	assert_int_equal(f.blocks[2].line, 6);
	assert_true(f.blocks[1].mem_bytes == 5 * GIB && f.blocks[2].mem_bytes == 0);
	command_file_clear(&f);
}

static void test_mistakes(void **state)
{
	static const struct {
		const char *text, *error;
	} rows[] = {
		{ "", "command.txt: there is no task" },
		{ "# nothing\n\n", "command.txt: there is no task" },
		{ "1\npython a.py\n\n2\nb\n20\n", "command.txt:1: this task has no last line with "
						  "its memory" },
		{ "a\n1,20\n\npython a.py\n", "command.txt:4: this task has no last line with its "
					      "queue and memory" },
		{ "\n1\n20\n", "command.txt:2: this task has no command" },
		{ "1,20\n", "command.txt:1: this task has no command" },
		{ "a\n1,200000\n", "command.txt:1: " },
		{ "a\nx,20\n", "command.txt:1: " },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct command_file f;
		struct err e;

		assert_int_equal(parse(rows[i].text, &f, &e), -EINVAL);
		assert_int_equal(strncmp(e.text, rows[i].error, strlen(rows[i].error)), 0);
		assert_int_equal(f.n, 0);
	}

	struct command_file f;
	struct err e = ERR_INIT;

	assert_int_equal(command_file_parse("f", "a\0b", 3, &f, &e), -EINVAL);
}

static char *output_of(const char *script)
{
	char path[] = "/tmp/commandfile-XXXXXX", buf[4096];
	int fd = mkstemp(path);
	cleanup_free char *line = xasprintf("/bin/sh %s 2>&1; echo code $?", path);
	FILE *p;
	size_t n;

	assert_true(fd >= 0);
	assert_true(write(fd, script, strlen(script)) == (ssize_t)strlen(script));
	assert_int_equal(close(fd), 0);
	p = popen(line, "re");
	assert_non_null(p);
	n = fread(buf, 1, sizeof(buf) - 1, p);
	buf[n] = '\0';
	(void)pclose(p);
	(void)unlink(path);
	return xstrdup(buf);
}

static void test_script(void **state)
{
	struct command_file f;
	struct err e;

	(void)setenv("TENURE_TASK_ID", "42", 1);
	(void)setenv("TENURE_ATTEMPT", "3", 1);
	assert_int_equal(parse("x=1; cd /; echo '{work_dir}' it\\'s\n"
			       "echo \"[$x]\" '<{uni_id}>' ${HOME:+h} {other}\n"
			       "(exit 7)\necho never\n1,2\n",
			       &f, &e),
			 0);

	cleanup_free char *script = command_block_script(&f.blocks[0], "/a b'c", NULL, NULL);
	cleanup_free char *out = output_of(script);

	assert_non_null(strstr(out, "\n[] <42-3-"));
	assert_non_null(strstr(out, "h {other}\n"));
	assert_non_null(strstr(out, "+ (exit 7)\ncode 7\n"));
	command_file_clear(&f);
}

/* Told to end while it says that it begins, it does nothing, and says that it was stopped. */
static void test_script_told_to_end_at_its_beginning(void **state)
{
	char noter[] = "/tmp/tenure-noter-XXXXXX";
	static const char text[] = "#!/bin/sh\necho \"said $1 $2 $4 $5\"\n"
				   "[ $1 = --end ] || kill -TERM $PPID\n";
	struct command_file f;
	struct err e;
	int fd = mkstemp(noter);

	assert_true(fd >= 0 && fchmod(fd, 0700) == 0);
	assert_true(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	assert_int_equal(close(fd), 0);
	assert_int_equal(parse("echo never\n1,2\n", &f, &e), 0);

	cleanup_free char *script = command_block_script(&f.blocks[0], "/", noter, "/s");
	cleanup_free char *out = output_of(script);

	(void)unlink(noter);
	assert_non_null(strstr(out, "said --begin /s  \n"));
	assert_non_null(strstr(out, "said --end /s 0 stopped\n"));
	assert_null(strstr(out, "never"));
	command_file_clear(&f);
}

static void test_set(void **state)
{
	static const char text[] =
		"# as the manual has it\n"
		"check_time: 10  # seconds\nmaximize_resource_utilization: false\n"
		"compete_gpus: [0, 1, 2, 3]\nuse_all_gpus: False\ngpu_left: 2\n"
		"retry_config:\n  max_retry_before_backoff: 5\n  backoff_duration: 1200\n"
		"work_dir: \"../\"\n";
	struct command_set c;
	struct err e = ERR_INIT;

	assert_int_equal(command_set_parse("config.yaml", text, strlen(text), &c, &e), 0);
	assert_true(c.check_ms == 10000 && !c.maximize && !c.all_gpus && c.left == 2);
	assert_string_equal(c.gpus, "0,1,2,3");
	assert_true(c.retry_every == 5 && c.backoff_ms == 1200000);
	assert_string_equal(c.work_dir, "../");
	command_set_clear(&c);

	static const char empty[] = "work_dir: null\ncheck_time: 0.5\nretry_config:\n";

	assert_int_equal(command_set_parse("c", empty, strlen(empty), &c, &e), 0);
	assert_true(c.check_ms == 500 && c.all_gpus && !c.left && c.retry_every == 3);
	assert_true(c.backoff_ms == 600000 && !c.gpus && !c.work_dir);
	command_set_clear(&c);

	/* A list alone counts; "all" is to be said to go beyond it. */
	static const struct {
		const char *text;
		bool all;
	} lists[] = { { "compete_gpus: [1]\n", false },
		      { "compete_gpus: []\n", true },
		      { "use_all_gpus: true\ncompete_gpus: [1]\n", true } };

	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		assert_int_equal(
			command_set_parse("c", lists[i].text, strlen(lists[i].text), &c, &e), 0);
		assert_int_equal(c.all_gpus, lists[i].all);
		command_set_clear(&c);
	}
}

static void test_set_mistakes(void **state)
{
	static const struct {
		const char *text, *error;
	} rows[] = {
		{ "gpu_left: -1\n", "c.yaml:1:11: gpu_left: " },
		{ "\nchek_time: 5\n", "c.yaml:2:1: there is no key \"chek_time\"; did you mean "
				      "check_time?" },
		{ "check_time: 0\n", "c.yaml:1:13: check_time: " },
		{ "check_time: nan\n", "c.yaml:1:13: check_time: " },
		{ "use_all_gpus: perhaps\n", "c.yaml:1:15: use_all_gpus: " },
		{ "compete_gpus: [0, a]\n", "c.yaml:1:16: compete_gpus: " },
		{ "retry_config:\n  backoff: 3\n", "c.yaml:2:3: there is no key" },
		{ "retry_config:\n  a:\n    b: 1\n", "c.yaml:" },
		{ "use_all_gpus: false\n", "c.yaml: use_all_gpus is false" },
		{ "a: [\n", "c.yaml:" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct command_set c;
		struct err e = ERR_INIT;
		int r = command_set_parse("c.yaml", rows[i].text, strlen(rows[i].text), &c, &e);

		if (r != -EINVAL || strncmp(e.text, rows[i].error, strlen(rows[i].error)) != 0)
			fail_msg("row %zu: %d %s", i, r, e.text);
		command_set_clear(&c);
	}
}

static void test_work_dir(void **state)
{
	char top[] = "/tmp/workdir-XXXXXX";

	assert_non_null(mkdtemp(top));

	cleanup_free char *dir = xasprintf("%s/scripts", top);
	cleanup_free char *work = xasprintf("%s/scripts/work", top);
	const char *const rows[][2] = {
		{ NULL, top },
		{ "../", top },
		{ "work", work },
		{ "/usr", "/usr" },
	};
	struct command_set c = { .left = 0 };
	struct err e = ERR_INIT;

	assert_int_equal(mkdir(dir, 0700), 0);
	assert_int_equal(mkdir(work, 0700), 0);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		c.work_dir = rows[i][0] ? xstrdup(rows[i][0]) : NULL;
		cleanup_free char *got = command_set_work_dir(&c, dir, &e);

		assert_string_equal(got, rows[i][1]);
		command_set_clear(&c);
	}
	c.work_dir = xstrdup("nowhere");
	assert_null(command_set_work_dir(&c, dir, &e));
	assert_non_null(strstr(e.text, "nowhere"));
	command_set_clear(&c);
	(void)rmdir(work);
	(void)rmdir(dir);
	(void)rmdir(top);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_standard),
		cmocka_unit_test(test_optimised),
		cmocka_unit_test(test_mixed),
		cmocka_unit_test(test_mistakes),
		cmocka_unit_test(test_script),
		cmocka_unit_test(test_script_told_to_end_at_its_beginning),
		cmocka_unit_test(test_set),
		cmocka_unit_test(test_set_mistakes),
		cmocka_unit_test(test_work_dir),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
