/* SPDX-License-Identifier: MIT */

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "task/logfile.h"
#include "task/logtext.h"

#define LIMIT (1UL << 20)
#define LINE  64

static int open_log(const char *dir)
{
	char path[64];

	(void)str_print(path, sizeof(path), "%s/tenure-log.XXXXXX", dir);

	int fd = mkostemp(path, O_APPEND | O_CLOEXEC);

	assert_true(fd >= 0);
	(void)unlink(path);
	return fd;
}

static void write_lines(int fd, unsigned int from, unsigned int to)
{
	char line[LINE + 8]; /* the compiler allows for longer numbers */

	for (unsigned int i = from; i < to; i++) {
		(void)snprintf(line, sizeof(line), "%08u%*s\n", i, LINE - 9, "x");
		assert_int_equal(write(fd, line, LINE), LINE);
	}
}

static char *content(int fd, size_t *ret)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);

	char *text = xcalloc(1, (size_t)st.st_size + 1);

	assert_int_equal(pread(fd, text, (size_t)st.st_size, 0), st.st_size);
	*ret = (size_t)st.st_size;
	return text;
}

/* 16 times the limit, looked at after each eighth of it, in each way there is. */
static void keeps_head_and_tail(const char *dir, enum log_cut first)
{
	cleanup_fd int fd = open_log(dir);
	struct logfile l;
	unsigned int step = LIMIT / 8 / LINE, n = 0;
	size_t len;

	logfile_init(&l, fd, LIMIT, 1);
	l.how = first;
	for (int i = 0; i < 128; i++, n += step) {
		struct stat st;

		write_lines(fd, n, n + step);
		logfile_look(&l, (uint64_t)(i + 2) * NS_PER_MS);
		assert_int_equal(fstat(fd, &st), 0);
		assert_true((uint64_t)st.st_blocks * 512 <= LIMIT + LIMIT / 4);
	}
	logfile_finish(&l);

	cleanup_free char *text = content(fd, &len);

	assert_int_equal(l.errnum, 0);
	assert_int_equal(strlen(text), len);
	assert_true(len <= LIMIT);
	assert_int_equal(strncmp(text, "00000000 ", 9), 0);
	assert_int_equal(len + l.cut, (uint64_t)n * LINE);

	char last[16];

	(void)snprintf(last, sizeof(last), "%08u ", n - 1);
	assert_int_equal(strncmp(text + len - LINE, last, 9), 0);

	const char *mark = strstr(text, "\n[tenure: ");

	assert_non_null(mark);
	assert_null(strstr(mark + 1, "\n[tenure: "));
	assert_ptr_equal(mark + 128, text + LIMIT / 4);
}

static void each_way_keeps_head_and_tail(void **state)
{
	for (uint32_t how = LOG_COLLAPSE; how < LOG_CUT_MAX; how++) {
		keeps_head_and_tail("/dev/shm", (enum log_cut)how);
		keeps_head_and_tail("/var/tmp", (enum log_cut)how);
	}
}

/* Who had read up to a line finds it after a cut; if it was cut out, what is behind the mark. */
static void a_reader_finds_its_place(void **state)
{
	const uint64_t read_lines[] = { 2 * LIMIT / LINE, LIMIT / 2 / LINE };

	for (uint32_t i = 0; i < 2 * LOG_CUT_MAX; i++) {
		cleanup_fd int fd = open_log(i / 2 == LOG_PUNCH ? "/dev/shm" : "/var/tmp");
		char seen[LINE + 1], next[LINE + 1] = "", expect[16];
		uint64_t at = read_lines[i % 2] * LINE;
		size_t len = LINE;
		struct logfile l;

		logfile_init(&l, fd, LIMIT, 1);
		l.how = i / 2;
		write_lines(fd, 0, 2 * LIMIT / LINE);
		assert_int_equal(pread(fd, seen, LINE, (off_t)(at - LINE)), LINE);
		logfile_look(&l, NS_PER_S);
		write_lines(fd, 2 * LIMIT / LINE, 2 * LIMIT / LINE + 10);
		logfile_finish(&l);
		at = logfile_find(fd, at, seen, &len);
		assert_int_equal(len, i % 2 ? 0 : LINE);
		assert_int_equal(pread(fd, next, LINE, (off_t)at), LINE);
		(void)snprintf(expect, sizeof(expect), "%08u ",
			       (unsigned int)(i % 2 ? (l.cut + LIMIT / 4) / LINE : read_lines[0]));
		assert_memory_equal(next, expect, 9);
	}
}

static void under_the_limit_nothing_is_touched(void **state)
{
	cleanup_fd int fd = open_log("/var/tmp");
	struct logfile l;

	logfile_init(&l, fd, LIMIT, 1);
	write_lines(fd, 0, LIMIT / LINE);
	logfile_look(&l, NS_PER_S);
	assert_int_equal(l.cut, 0);
	assert_int_equal(l.edit_fd, -1);
	assert_true(l.next_ns <= NS_PER_S + 20 * NS_PER_MS);
	/* Nothing more comes: the looks become rare. */
	logfile_look(&l, 2 * NS_PER_S);
	assert_int_equal(l.next_ns, 3 * NS_PER_S);
}

static void what_is_no_file_has_no_limit(void **state)
{
	cleanup_fd int fd = open("/dev/null", O_RDWR | O_APPEND | O_CLOEXEC);
	struct logfile l;

	logfile_init(&l, fd, LIMIT, 1);
	logfile_look(&l, NS_PER_S);
	assert_true(l.next_ns == UINT64_MAX);
	logfile_finish(&l);
	assert_int_equal(l.errnum, 0);
}

static void a_log_made_shorter_by_its_owner(void **state)
{
	cleanup_fd int fd = open_log("/dev/shm");
	struct logfile l;

	logfile_init(&l, fd, LIMIT, 1);
	l.how = LOG_PUNCH;
	write_lines(fd, 0, 2 * LIMIT / LINE);
	logfile_look(&l, NS_PER_S);
	assert_true(l.hole > 0);
	assert_int_equal(ftruncate(fd, 0), 0);
	write_lines(fd, 0, 10);
	logfile_finish(&l);

	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 10 * LINE);
	assert_int_equal(l.errnum, 0);
}

static void a_failed_write_is_kept(void **state)
{
	cleanup_fd int fd = open("/dev/full", O_RDWR | O_APPEND | O_CLOEXEC);
	struct logfile l;

	logfile_init(&l, fd, 0, 1);
	logfile_write(&l, "x", 1);
	assert_int_equal(l.errnum, ENOSPC);
}

/* A header as a shim writes it, of a command that has the words that are looked for. */
static void add_header(struct strbuf *b)
{
	static const char *argv[] = { "grep", "CUDA out of memory\n=== started   x", NULL };
	static const struct program program = { .argv = argv };
	static const struct launch_spec spec = { .title = "task 1 grep, attempt 1",
						 .cwd = "/",
						 .argv = argv,
						 .n_argv = ARRAY_LEN(argv) - 1 };

	logtext_header(b, &spec, &program, "GPU 0", 0);
}

static void output_is_behind_the_last_header(void **state)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	static const char others[] = "=== x\nhalf of it\n=== started   by itself\n";

	assert_int_equal(logtext_output_at("", 0), 0);
	assert_int_equal(logtext_output_at(others, strlen(others)), 0);
	strbuf_adds(&b, "=== comma"); /* nothing more yet */
	assert_int_equal(logtext_output_at(b.data, b.len), 0);
	for (size_t i = 0; i < 2; i++) {
		b.len = 0;
		for (size_t k = 0; k <= i; k++) {
			strbuf_adds(&b, k ? "out\n=== ended     now, exit code 1\n" : "");
			add_header(&b);
		}

		size_t at = b.len;

		strbuf_adds(&b, others);
		/* Its beginning may be cut off, within the command as well. */
		for (size_t cut = 0; cut < 60; cut++)
			assert_int_equal(logtext_output_at(b.data + cut, b.len - cut), at - cut);
	}
}

/* What is left of a log that comes in pieces of that many bytes. */
static void expect_plain(const struct strbuf *log, size_t piece, const char *expect)
{
	cleanup_strbuf struct strbuf out = STRBUF_INIT;
	struct logtext_plain p;

	logtext_plain_begin(&p, "task 1 ");
	for (size_t at = 0; at < log->len; at += piece)
		logtext_plain_add(&p, log->data + at, log->len - at < piece ? log->len - at : piece,
				  &out);
	logtext_plain_end(&p, &out);
	assert_string_equal(strbuf_str(&out), expect);
}

static void only_our_own_lines_are_left_out(void **state)
{
	static const struct task_end end = { .outcome = TASK_EXITED, .gpu_peak_bytes = 1UL << 30 };
	static const char then[] = "=== then      preempted; back in the queue\n";
	cleanup_strbuf struct strbuf other = STRBUF_INIT, own = STRBUF_INIT, log = STRBUF_INIT,
				     both = STRBUF_INIT;

	/* The log of another task, and what a program makes up. */
	strbuf_adds(&other, "=== tenure    task 2 cat, attempt 1\n=== started   now\nout\n");
	logtext_trailer(&other, &end);
	strbuf_adds(&own, "=== RESULTS ===\nloss 1\n=== ended     epoch 1\n===\n");
	strbuf_adds(&own, strbuf_str(&other));
	strbuf_adds(&own, "=== tenure    task 1 is its own\n=== ran       well\n=== ");
	strbuf_adds(&both, strbuf_str(&own));
	strbuf_addc(&both, '\n');
	strbuf_adds(&both, strbuf_str(&own));

	/* It was preempted, and its shim was killed; each time it went on in the same log. */
	add_header(&log);
	strbuf_adds(&log, strbuf_str(&own));
	strbuf_addc(&log, '\n');
	logtext_trailer(&log, &end);
	strbuf_adds(&log, then);
	add_header(&log);
	strbuf_adds(&log, then);
	add_header(&log);
	strbuf_adds(&log, strbuf_str(&own));
	for (size_t piece = 1; piece < 40; piece++)
		expect_plain(&log, piece, strbuf_str(&both));
	strbuf_addc(&log, '\n');
	strbuf_addc(&both, '\n');
	logtext_trailer(&log, &end);
	expect_plain(&log, log.len, strbuf_str(&both));
	expect_plain(&log, 7, strbuf_str(&both));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_way_keeps_head_and_tail),
		cmocka_unit_test(a_reader_finds_its_place),
		cmocka_unit_test(under_the_limit_nothing_is_touched),
		cmocka_unit_test(what_is_no_file_has_no_limit),
		cmocka_unit_test(a_log_made_shorter_by_its_owner),
		cmocka_unit_test(a_failed_write_is_kept),
		cmocka_unit_test(output_is_behind_the_last_header),
		cmocka_unit_test(only_our_own_lines_are_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
