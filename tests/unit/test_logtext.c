/* SPDX-License-Identifier: MIT */

/* What a shim writes before and behind a task's output, and how an end is told in one phrase. What
 * is left of a log without that is test_logfile's. */

#include "unit.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "task/logtext.h"

#define STARTED (1795266619ULL * NS_PER_S) /* 2026-11-21 14:10:19 UTC */

static void expect_header(const struct launch_spec *s, const struct program *p, const char *expect)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	logtext_header(&b, s, p, "", STARTED);
	assert_string_equal(strbuf_str(&b), expect);
}

static void a_header_has_a_line_for_what_is_known(void **state)
{
	static const char *argv[] = { "train", "two words", "it's", "a\nb", NULL };
	const struct launch_spec s = { .title = "task 42 train, attempt 1",
				       .node = "n7",
				       .cwd = "/home/me" };
	const struct program p = { .argv = argv };
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	logtext_header(&b, &s, &p, "GPU 0, 1", STARTED);
	assert_non_null(strstr(strbuf_str(&b), "=== tenure    task 42 train, attempt 1\n"));
	assert_non_null(strstr(strbuf_str(&b), "\n=== command   train 'two words' "));
	assert_non_null(strstr(strbuf_str(&b), "\n=== node      n7\n"));
	assert_non_null(strstr(strbuf_str(&b), "\n=== devices   GPU 0, 1\n"));
	assert_non_null(strstr(strbuf_str(&b), "\n=== directory /home/me\n"));
	assert_non_null(strstr(strbuf_str(&b), "\n=== started   2026-11-21 "));
	/* A word of several lines makes none. */
	size_t lines = 0;

	for (const char *c = strbuf_str(&b); *c; c++)
		lines += *c == '\n';
	assert_int_equal(lines, 6);
}

static void what_is_not_known_has_no_line(void **state)
{
	static const char *argv[] = { "true", NULL };
	const struct launch_spec s = { .title = "task 1 true", .cwd = "/", .node = "" };
	cleanup_free char *expect = NULL;
	char when[CLOCK_TEXT_MAX];

	expect = xasprintf("=== tenure    task 1 true\n=== command   true\n=== directory /\n"
			   "=== started   %s\n",
			   clock_format_local(STARTED, when));
	expect_header(&s, &(struct program){ .argv = argv }, expect);
}

/* The file of a script lies in a directory of ours; what the script does not say is told. */
static void a_script_is_shown_by_its_name(void **state)
{
	static char file[] = "/var/tmp/tenure-1000/default-42/train.py";
	static const char *argv[] = { "python3", file, "--lr", "0.1", NULL };
	const struct program p = { .argv = argv, .file = file, .guessed = true };
	const struct launch_spec s = { .title = "t", .cwd = "/", .script = "x" };
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	logtext_header(&b, &s, &p, "", STARTED);
	assert_non_null(strstr(strbuf_str(&b),
			       "=== command   python3 train.py --lr 0.1 (the script has no #! line "
			       "that says what runs it)\n"));
}

/* As it was submitted; of a script only where it could not be prepared. */
static void a_command_is_shown_as_it_was_submitted(void **state)
{
	static const char *argv[] = { "sh", "-c", "x", NULL };
	const struct program prepared = { .argv = argv }, not_prepared = { .argv = NULL };
	static const struct {
		const char *script;
		bool prepared;
		const char *line;
	} cases[] = {
		{ NULL, true, "=== command   make run\n" },
		{ NULL, false, "=== command   make run\n" },
		{ "text", true, "=== command   sh -c x\n" },
		{ "text", false, "=== command   make run\n" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct launch_spec s = {
			.title = "t", .cwd = "/", .shown = "make run", .script = cases[i].script
		};
		cleanup_strbuf struct strbuf b = STRBUF_INIT;

		logtext_header(&b, &s, cases[i].prepared ? &prepared : &not_prepared, "", STARTED);
		assert_non_null(strstr(strbuf_str(&b), cases[i].line));
	}
}

/* ---- the end ---- */

static void an_end_is_one_phrase(void **state)
{
	static const struct {
		struct task_end end;
		const char *how;
	} cases[] = {
		{ { .outcome = TASK_EXITED }, "exit code 0" },
		{ { .outcome = TASK_EXITED, .exit_code = 3, .cause = CAUSE_STOP },
		  "exit code 3, because it was stopped" },
		{ { .outcome = TASK_SIGNALLED, .signal = 9, .cause = CAUSE_TIMEOUT },
		  "signal 9 (Killed), because its time was over" },
		{ { .outcome = TASK_SIGNALLED, .signal = 15, .cause = CAUSE_REQUEUE },
		  "signal 15 (Terminated), because it was stopped, to be requeued" },
		{ { .outcome = TASK_NOT_STARTED, .exit_code = 127, .text = "there is no x" },
		  "not started: there is no x" },
		{ { .outcome = TASK_EXITED, .cause = CAUSE_STOP, .leader_first = 1 },
		  "exit code 0; what its command left behind was ended, because it was stopped" },
		/* That is the spec's own wish. */
		{ { .outcome = TASK_EXITED, .cause = CAUSE_SELF, .leader_first = 1 },
		  "exit code 0" },
		/* Of a newer shim. */
		{ { .outcome = TASK_EXITED, .cause = TASK_CAUSE_MAX }, "exit code 0" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cleanup_strbuf struct strbuf b = STRBUF_INIT;

		logtext_how(&b, &cases[i].end);
		assert_string_equal(strbuf_str(&b), cases[i].how);
	}
}

/* Every outcome and cause has words, also one that is not known here. */
static void every_end_has_words(void **state)
{
	for (uint32_t outcome = 0; outcome <= TASK_OUTCOME_MAX; outcome++)
		for (uint32_t cause = 0; cause <= TASK_CAUSE_MAX; cause++) {
			const struct task_end end = { .outcome = outcome,
						      .cause = cause,
						      .signal = 9 };
			cleanup_strbuf struct strbuf b = STRBUF_INIT;

			logtext_how(&b, &end);
			assert_true(b.len > 0);
			assert_null(strchr(strbuf_str(&b), '\n'));
		}
}

static void expect_trailer(const struct task_end *end, const char *line)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	logtext_trailer(&b, end);
	if (!strstr(strbuf_str(&b), line))
		fail_msg("no \"%s\" in:\n%s", line, strbuf_str(&b));
}

static void a_trailer_tells_times(void **state)
{
	static const struct {
		uint64_t ns;
		const char *line;
	} cases[] = {
		{ 0, "\n=== ran       0.000s, " },
		{ 1234 * NS_PER_MS + 999, "\n=== ran       1.234s, " },
		{ 59999 * NS_PER_MS, "\n=== ran       59.999s, " },
		{ 60 * NS_PER_S, "\n=== ran       1m 0s, " },
		{ 3600 * NS_PER_S, "\n=== ran       1h 0m 0s, " },
		{ 90061 * NS_PER_S, "\n=== ran       1d 1h 1m 1s, " },
		{ 864000 * NS_PER_S, "\n=== ran       10d 0h 0m 0s, " },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		expect_trailer(&(struct task_end){ .outcome = TASK_EXITED, .run_ns = cases[i].ns },
			       cases[i].line);
	expect_trailer(&(struct task_end){ .outcome = TASK_EXITED,
					   .user_ns = NS_PER_S,
					   .system_ns = NS_PER_S / 2,
					   .max_rss_bytes = 3 << 19 },
		       ", processor 1.500s, largest process 1.5 MiB\n");
}

static void a_trailer_tells_of_gpus_and_others(void **state)
{
	struct task_end end = { .outcome = TASK_EXITED,
				.gpu_peak_bytes = 3ULL << 29,
				.gpu_util_permille = 853,
				.leftovers = 2 };
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	expect_trailer(&end, "=== gpu       peak memory 1.5 GiB, mean utilisation 85%\n");
	expect_trailer(&end, "=== left      2 processes of other users still run\n");
	/* Not of what used none. */
	end.gpu_peak_bytes = end.leftovers = 0;
	logtext_trailer(&b, &end);
	assert_null(strstr(strbuf_str(&b), "=== gpu"));
	assert_null(strstr(strbuf_str(&b), "=== left"));
}

/* However it comes in pieces. */
static void a_terminal_gets_text_and_colours_alone(void **state)
{
	static const struct {
		const char *log, *shown;
	} all[] = {
		{ "plain\ttext\r\n", "plain\ttext\r\n" },
		{ "10%\r20%\033[K\r\033[1Kdone\n", "10%\r20%\033[K\r\033[1Kdone\n" },
		{ "\033[1;38:2::1:2:3mred\033[0m", "\033[1;38:2::1:2:3mred\033[0m" },
		{ "\033[31mleft on", "\033[31mleft on\033[0m" },
		{ "a\033]0;EVIL\007b\033]2;EVIL\033\\c", "abc" },
		{ "\033[?6h\033[?1003h\033[2J\033[>4;2m\033[6n\033[5;5r\033[!px", "x" },
		{ "\033P1;2|EVIL\033\\\033_EVIL\033\\\033^EVIL\033\\x", "x" },
		{ "\033c\033(0\033#8\0337\033=x", "x" },
		/* One that does not end takes no line more, and a wrong one nothing behind it. */
		{ "\033]0;never ends\nx", "\nx" },
		{ "\033[12\nx\033\033[1mb\033[m", "\nx\033[1mb\033[m" },
		{ "\033]0;a\033[?6hb", "b" },
		{ "\a\b\016\017\177\v\fx", "x" },
		/* C1, as characters and as bytes. */
		{ "\xc2\x9b?6hx\xc2\x9d"
		  "0;EVIL\ay\xc2\x85z",
		  "xyz" },
		{ "\x9bx\xe4\xff", "?x??" },
		{ "\xe5\xa5\xbd \xf0\x9f\x98\x80 \xc3\xa9",
		  "\xe5\xa5\xbd \xf0\x9f\x98\x80 \xc3\xa9" },
		{ "\xe2\x80\xae\xe5\xa5x\xe5\033[1m\033[m", "??x?\033[1m\033[m" },
		{ "cut \xe5\xa5", "cut ?" },
		{ "cut \033[3", "cut " },
		/* Of no length that one of a colour has. */
		{ "\033[111111111111111111111111111111111111111111111111111111111111111111111111mx",
		  "x" },
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		size_t len = strlen(all[i].log);

		for (size_t step = 1; step <= len; step++) {
			cleanup_strbuf struct strbuf b = STRBUF_INIT;
			struct logtext_safe s = { 0 };

			for (size_t at = 0; at < len; at += step)
				logtext_safe_add(&s, all[i].log + at,
						 at + step < len ? step : len - at, &b);
			logtext_safe_end(&s, &b);
			assert_string_equal(strbuf_str(&b), all[i].shown);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_header_has_a_line_for_what_is_known),
		cmocka_unit_test(what_is_not_known_has_no_line),
		cmocka_unit_test(a_script_is_shown_by_its_name),
		cmocka_unit_test(a_command_is_shown_as_it_was_submitted),
		cmocka_unit_test(an_end_is_one_phrase),
		cmocka_unit_test(every_end_has_words),
		cmocka_unit_test(a_trailer_tells_times),
		cmocka_unit_test(a_trailer_tells_of_gpus_and_others),
		cmocka_unit_test(a_terminal_gets_text_and_colours_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
