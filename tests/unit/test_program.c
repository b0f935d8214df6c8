/* SPDX-License-Identifier: MIT */

/* From a description to a running first process: what is run, with which words and variables, and
 * what is said where it cannot be. */

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "task/program.h"
#include "task/shproto.h"

static char dir[64], run_dir[72]; /* run_dir: in a directory that is ours alone */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static int setup(void **state)
{
	(void)str_copy(dir, sizeof(dir), "/tmp/tenure-program-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	(void)str_print(run_dir, sizeof(run_dir), "%s/run", dir);
	return mkdir(run_dir, 0700);
}

static int teardown(void **state)
{
	return nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* A file in dir, of that mode. */
static char *put(const char *name, const char *text, mode_t mode)
{
	char *path = xasprintf("%s/%s", dir, name);
	cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(fs_write_all(fd, text, strlen(text)), 0);
	assert_int_equal(fchmod(fd, mode), 0);
	return path;
}

static struct launch_spec spec_of(const char *const *argv)
{
	struct launch_spec s = {
		.token = "default-42", .cwd = "/", .run_dir = run_dir, .umask = 022
	};

	s.argv = argv;
	while (argv && argv[s.n_argv])
		s.n_argv++;
	return s;
}

static struct launch_spec script_of(const char *text, const char *name)
{
	struct launch_spec s = spec_of(NULL);

	s.script = text;
	s.script_bytes = strlen(text);
	s.script_name = name;
	return s;
}

/* ---- what is run ---- */

static void expect_words(const struct program *p, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		assert_string_equal(p->argv[i], words[i]);
	assert_null(p->argv[n]);
}

static void a_command_is_run_as_it_is(void **state)
{
	static const char *const argv[] = { "echo", "a b", "", NULL };
	const struct launch_spec s = spec_of(argv);
	struct program p;

	assert_int_equal(program_prepare(&p, &s, NULL), 0);
	expect_words(&p, argv, 3);
	assert_null(p.file);
	assert_false(p.guessed);
	program_clear(&p);
}

static void a_script_is_a_file_behind_its_interpreter(void **state)
{
	static const struct {
		const char *text, *name;
		const char *words[2]; /* before the file */
		const char *base;     /* of the file */
		bool guessed;
	} cases[] = {
		{ "#!/bin/sh\nx", "job.sh", { "/bin/sh" }, "job.sh", false },
		{ "#! /bin/sh \nx", "job.sh", { "/bin/sh" }, "job.sh", false },
		/* One word of the rest, as the kernel does it. */
		{ "#!/usr/bin/env python3 -u\nx",
		  NULL,
		  { "/usr/bin/env", "python3 -u" },
		  "script",
		  false },
		{ "#!/bin/sh", "no-newline", { "/bin/sh" }, "no-newline", false },
		{ "echo", "train.py", { "python3" }, "train.py", true },
		{ "echo", "train", { "/bin/sh" }, "train", true },
		{ "", "empty.sh", { "/bin/sh" }, "empty.sh", true },
		{ "\177ELF..", "binary", { NULL }, "binary", false },
		/* A name that would leave its directory, or is none. */
		{ "x", "../x", { "/bin/sh" }, "script", true },
		{ "x", "..", { "/bin/sh" }, "script", true },
		{ "x", ".", { "/bin/sh" }, "script", true },
		{ "x", "", { "/bin/sh" }, "script", true },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct launch_spec s = script_of(cases[i].text, cases[i].name);
		static const char *const argv[] = { "--lr", "0.1" };
		cleanup_free char *file = xasprintf("%s/default-42/%s", run_dir, cases[i].base);
		cleanup_free char *text = NULL;
		const char *words[5] = { NULL };
		struct err e = ERR_INIT;
		struct program p;
		size_t n = 0, len;

		s.argv = argv;
		s.n_argv = 2;
		if (program_prepare(&p, &s, &e) < 0)
			fail_msg("case %zu: %s", i, e.text);
		for (; n < 2 && cases[i].words[n]; n++)
			words[n] = cases[i].words[n];
		words[n++] = file;
		words[n++] = "--lr";
		words[n++] = "0.1";
		expect_words(&p, words, n);
		assert_int_equal(p.guessed, cases[i].guessed);
		assert_int_equal(fs_read_file(file, 100, &text, &len, &e), 0);
		assert_string_equal(text, cases[i].text);
		program_clear(&p);
		assert_int_equal(access(file, F_OK), -1);
		assert_null(p.argv);
	}
}

static void a_script_that_cannot_be_run_says_why(void **state)
{
	static const struct {
		const char *text, *says;
		int code, exit_code;
	} cases[] = {
		{ "#!\nx", "names no interpreter", -EINVAL, EXIT_CANNOT_RUN },
		{ "#!   \nx", "names no interpreter", -EINVAL, EXIT_CANNOT_RUN },
		{ "#!/bin/sh\r\nx", "CR LF", -EINVAL, EXIT_CANNOT_RUN },
		{ "#!/no/such/sh -e\nx", "/no/such/sh does not exist", -ENOENT, EXIT_NOT_FOUND },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct launch_spec s = script_of(cases[i].text, "x");
		struct err e = ERR_INIT;
		struct program p;

		assert_int_equal(program_prepare(&p, &s, &e), cases[i].code);
		assert_non_null(strstr(e.text, cases[i].says));
		assert_int_equal(p.exit_code, cases[i].exit_code);
		assert_false(p.not_its_fault);
		program_clear(&p);
	}
}

static void a_first_line_has_a_limit(void **state)
{
	cleanup_free char *text = xasprintf("#!/bin/sh %05000d\n", 0);
	struct launch_spec s = script_of(text, "x");
	struct err e = ERR_INIT;
	struct program p;

	assert_int_equal(program_prepare(&p, &s, &e), -EINVAL);
	assert_non_null(strstr(e.text, "longer than 4096 bytes"));
	program_clear(&p);
}

/* One that a shim has left that was killed. */
static void a_file_that_is_there_is_replaced(void **state)
{
	struct launch_spec s = script_of("new", "x");
	cleanup_free char *sub = xasprintf("%s/default-42", run_dir), *text = NULL, *old = NULL;
	struct program p;
	size_t len;

	assert_int_equal(mkdir(sub, 0700), 0);
	old = put("run/default-42/x", "an old and longer one", 0400);
	assert_int_equal(program_prepare(&p, &s, NULL), 0);
	assert_int_equal(fs_read_file(p.file, 100, &text, &len, NULL), 0);
	assert_string_equal(text, "new");
	program_clear(&p);
}

/* Others could put a script of theirs there; that is nothing of the task's. */
static void a_directory_of_others_is_not_used(void **state)
{
	struct launch_spec s = script_of("x", "x");
	struct err e = ERR_INIT;
	struct program p;

	assert_int_equal(chmod(run_dir, 0770), 0);
	assert_int_equal(program_prepare(&p, &s, &e), -EPERM);
	assert_true(p.not_its_fault);
	program_clear(&p);
	assert_int_equal(chmod(run_dir, 0700), 0);
}

/* ---- variables ---- */

static const char *value_of(const struct program *p, const char *name)
{
	const char *found = NULL;
	size_t n = strlen(name);

	for (size_t i = 0; p->envp[i]; i++)
		if (strncmp(p->envp[i], name, n) == 0 && p->envp[i][n] == '=') {
			assert_null(found); /* once */
			found = p->envp[i] + n + 1;
		}
	return found;
}

static void variables_of_go_win_and_the_token_over_all(void **state)
{
	static const char *const argv[] = { "true", NULL };
	static const char *const env[] = { "A=1", "AB=2", "B=3", TASK_TOKEN_ENV "=forged",
					   "PATH=/first" };
	static const char *const more[] = { "A=9", "C=", TASK_TOKEN_ENV "=forged", "PATH=/x:/y" };
	struct launch_spec s = spec_of(argv);
	struct program p;

	s.env = env;
	s.n_env = ARRAY_LEN(env);
	assert_int_equal(program_prepare(&p, &s, NULL), 0);
	program_set_env(&p, &s, NULL, 0);
	assert_string_equal(value_of(&p, "A"), "1");
	assert_string_equal(value_of(&p, TASK_TOKEN_ENV), "default-42");
	assert_string_equal(p.path_env, "/first");
	program_set_env(&p, &s, more, ARRAY_LEN(more));
	assert_string_equal(value_of(&p, "A"), "9");
	assert_string_equal(value_of(&p, "AB"), "2");
	assert_string_equal(value_of(&p, "B"), "3");
	assert_string_equal(value_of(&p, "C"), "");
	assert_string_equal(value_of(&p, TASK_TOKEN_ENV), "default-42");
	assert_string_equal(p.path_env, "/x:/y");
	program_clear(&p);
}

static void without_a_path_there_is_one(void **state)
{
	static const char *const argv[] = { "true", NULL };
	static const char *const env[] = { "MYPATH=/x" };
	struct launch_spec s = spec_of(argv);
	struct program p;

	s.env = env;
	s.n_env = 1;
	assert_int_equal(program_prepare(&p, &s, NULL), 0);
	program_set_env(&p, &s, NULL, 0);
	assert_string_equal(p.path_env, PROGRAM_PATH);
	program_clear(&p);
}

/* ---- the start ---- */

/* What it wrote; its exit code, or what program_start() said. */
static int run(const struct launch_spec *s, const char *const *more, size_t n_more, char *out,
	       size_t size, struct program *p, struct err *e)
{
	char log_path[80];
	struct gate gate = { GATE_OPEN };
	int status, r = program_prepare(p, s, e);
	cleanup_fd int log = -1;
	ssize_t n;
	pid_t pid;

	assert_int_equal(r, 0);
	program_set_env(p, s, more, n_more);
	(void)str_print(log_path, sizeof(log_path), "%s/log", dir);
	log = open(log_path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
	assert_true(log >= 0);
	pid = program_start(p, s, &gate, log, -1, e);
	if (pid < 0)
		return (int)pid;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	n = pread(log, out, size - 1, 0);
	assert_true(n >= 0);
	out[n] = '\0';
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void it_runs_with_its_words_and_variables(void **state)
{
	static const char *const argv[] = {
		"/bin/sh", "-c",  "echo \"$A-$1\"; pwd; umask; cat; echo err >&2; exit 7",
		"sh",	   "one", NULL
	};
	static const char *const more[] = { "A=x" };
	struct launch_spec s = spec_of(argv);
	struct program p;
	char out[200];

	s.umask = 077;
	assert_int_equal(run(&s, more, 1, out, sizeof(out), &p, NULL), 7);
	/* Nothing is to be read; output and errors are the log. */
	assert_string_equal(out, "x-one\n/\n0077\nerr\n");
	program_clear(&p);
}

/* Its session is its own, and no descriptor of ours is there. */
static void it_has_nothing_of_ours(void **state)
{
	static const char *const argv[] = {
		"/bin/sh", "-c",
		"read x x x x x sid x < /proc/$$/stat; [ $sid = $$ ] || exit 1; "
		"for fd in 3 4 5 6 7 8 9 $OURS; do "
		"[ ! -e /proc/$$/fd/$fd ] || exit $fd; done",
		NULL
	};
	const struct launch_spec s = spec_of(argv);
	cleanup_fd int ours = open("/dev/null", O_RDONLY); /* not closed by exec alone */
	cleanup_free char *number = xasprintf("OURS=%d", ours);
	const char *more[] = { number };
	struct program p;
	char out[10];

	assert_true(ours >= 3);
	assert_int_equal(run(&s, more, 1, out, sizeof(out), &p, NULL), 0);
	program_clear(&p);
}

static void a_script_is_run_with_its_arguments(void **state)
{
	struct launch_spec s = script_of("#!/bin/sh\necho \"${0##*/} $*\"\n", "job.sh");
	static const char *const argv[] = { "a", "b c" };
	struct program p;
	char out[200];

	s.argv = argv;
	s.n_argv = 2;
	assert_int_equal(run(&s, NULL, 0, out, sizeof(out), &p, NULL), 0);
	assert_string_equal(out, "job.sh a b c\n");
	program_clear(&p);
}

static void commands_are_looked_for_along_the_path(void **state)
{
	static const char *const argv[] = { "tool", "x", NULL };
	const struct launch_spec s = spec_of(argv);
	cleanup_free char *first = xasprintf("%s/first", dir),
			  *second = xasprintf("%s/second", dir);
	cleanup_free char *path = xasprintf("PATH=/none:%s:%s", first, second);
	cleanup_free char *no = NULL, *yes = NULL;
	const char *more[] = { path };
	struct err e = ERR_INIT;
	struct program p;
	char out[200];

	assert_int_equal(mkdir(first, 0700) + mkdir(second, 0700), 0);
	assert_int_equal(run(&s, more, 1, out, sizeof(out), &p, &e), -ENOENT);
	assert_int_equal(p.exit_code, EXIT_NOT_FOUND);
	assert_non_null(strstr(e.text, "there is no command \"tool\" in PATH"));
	program_clear(&p);
	/* One that may not be run is the reason only where no other is found. */
	no = put("first/tool", "#!/bin/sh\necho first\n", 0600);
	e = (struct err)ERR_INIT;
	assert_int_equal(run(&s, more, 1, out, sizeof(out), &p, &e), -EACCES);
	assert_int_equal(p.exit_code, EXIT_CANNOT_RUN);
	assert_false(p.not_its_fault);
	program_clear(&p);
	/* Without a first line it is the shell's, as in a shell. */
	yes = put("second/tool", "echo second $1\n", 0700);
	assert_int_equal(run(&s, more, 1, out, sizeof(out), &p, &e), 0);
	assert_string_equal(out, "second x\n");
	program_clear(&p);
}

static void what_cannot_be_started_says_why(void **state)
{
	static const char *const none[] = { "/no/such/program", NULL };
	static const char *const directory[] = { "/", NULL };
	static const char *const fine[] = { "/bin/true", NULL };
	cleanup_free char *bad = put("bad", "#!/no/such/interpreter\n", 0700);
	const char *const broken[] = { bad, NULL };
	const struct {
		const char *const *argv;
		const char *cwd, *says;
		int code, exit_code;
	} cases[] = {
		{ none, "/", "/no/such/program", -ENOENT, EXIT_NOT_FOUND },
		{ directory, "/", "is it a file, executable", -EACCES, EXIT_CANNOT_RUN },
		{ broken, "/", "exists, but not its interpreter", -ENOENT, EXIT_NOT_FOUND },
		{ fine, "/no/such", "enter the working directory /no/such", -ENOENT,
		  EXIT_CANNOT_RUN },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct launch_spec s = spec_of(cases[i].argv);
		struct err e = ERR_INIT;
		struct program p;
		char out[10];

		s.cwd = cases[i].cwd;
		assert_int_equal(run(&s, NULL, 0, out, sizeof(out), &p, &e), cases[i].code);
		assert_non_null(strstr(e.text, cases[i].says));
		assert_int_equal(p.exit_code, cases[i].exit_code);
		assert_false(p.not_its_fault);
		program_clear(&p);
		/* No child is left. */
		assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	}
}

/* A PATH of many words is no help in a sentence. */
static void a_long_path_is_not_told(void **state)
{
	static const char *const argv[] = { "nosuchtool", NULL };
	const struct launch_spec s = spec_of(argv);
	cleanup_free char *path = xasprintf("PATH=/%0200d", 0);
	const char *more[] = { path };
	struct err e = ERR_INIT;
	struct program p;
	char out[10];

	assert_int_equal(run(&s, more, 1, out, sizeof(out), &p, &e), -ENOENT);
	assert_non_null(strstr(e.text, "there is no command \"nosuchtool\" in PATH"));
	assert_null(strstr(e.text, "0000"));
	program_clear(&p);
}

/* Whoever comes first decides whether it starts. */
static void a_gate_that_was_shut_lets_nothing_start(void **state)
{
	static const char *const argv[] = { "/bin/true", NULL };
	const struct launch_spec s = spec_of(argv);
	struct gate gate = { GATE_OPEN };
	struct err e = ERR_INIT;
	struct program p;
	pid_t pid;

	assert_int_equal(program_prepare(&p, &s, NULL), 0);
	program_set_env(&p, &s, NULL, 0);
	assert_true(gate_shut(&gate));
	assert_true(gate_shut(&gate)); /* it stays so */
	assert_int_equal(program_start(&p, &s, &gate, STDERR_FILENO, -1, &e), -ECANCELED);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	gate = (struct gate){ GATE_OPEN };
	pid = program_start(&p, &s, &gate, STDERR_FILENO, -1, &e);
	assert_true(pid > 0);
	assert_false(gate_shut(&gate));
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	program_clear(&p);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_command_is_run_as_it_is),
		TEST(a_script_is_a_file_behind_its_interpreter),
		TEST(a_script_that_cannot_be_run_says_why),
		TEST(a_first_line_has_a_limit),
		TEST(a_file_that_is_there_is_replaced),
		TEST(a_directory_of_others_is_not_used),
		TEST(variables_of_go_win_and_the_token_over_all),
		TEST(without_a_path_there_is_one),
		TEST(it_runs_with_its_words_and_variables),
		TEST(it_has_nothing_of_ours),
		TEST(a_script_is_run_with_its_arguments),
		TEST(commands_are_looked_for_along_the_path),
		TEST(what_cannot_be_started_says_why),
		TEST(a_long_path_is_not_told),
		TEST(a_gate_that_was_shut_lets_nothing_start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
