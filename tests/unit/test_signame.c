/* SPDX-License-Identifier: MIT */

/* Signals by name, and what one does to a process. */

#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/proc.h"
#include "base/signame.h"
#include "base/str.h"

static void a_signal_has_many_names(void **state)
{
	static const struct {
		const char *text;
		int signum;
	} cases[] = {
		{ "USR1", SIGUSR1 },	{ "SIGUSR1", SIGUSR1 }, { "usr1", SIGUSR1 },
		{ "SigUsr1", SIGUSR1 }, { "TERM", SIGTERM },	{ "15", SIGTERM },
		{ "9", SIGKILL },	{ "HUP", SIGHUP },	{ "1", SIGHUP },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(signal_parse(cases[i].text, NULL), cases[i].signum);
}

static void what_is_no_signal_says_so(void **state)
{
	static const char *const cases[] = { "",    "0",	  "-1",	       "999",
					     "SIG", "SIGSIGTERM", "TER",       "TERMX",
					     "15s", " 15",	  "4294967311" };

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cleanup_free char *quoted = xasprintf("\"%s\" is no signal", cases[i]);
		struct err e = ERR_INIT;

		assert_int_equal(signal_parse(cases[i], &e), -EINVAL);
		assert_true(str_has_prefix(e.text, quoted));
	}
}

/* What is written down is read back; a real-time signal has no name, nor has what is none. */
static void names_are_read_back(void **state)
{
	unsigned int named = 0;

	for (int i = -1; i <= NSIG; i++) {
		const char *name = signal_name(i);

		if (!name)
			continue;
		named++;
		assert_true(i > 0 && i < NSIG);
		assert_int_equal(signal_parse(name, NULL), i);
	}
	assert_true(named >= 31);
	assert_string_equal(signal_name(SIGUSR1), "USR1");
	assert_null(signal_name(0));
	assert_null(signal_name(SIGRTMIN + 1));
}

/* Of a process that has one handler (USR1), ignores one (HUP) and blocks one (USR2). */
static void some_signals_end_a_process(void **state)
{
	static const char text[] = "Name:\tsh\nSigQ:\t0/1\nSigPnd:\t0000000000000201\n"
				   "SigBlk:\t0000000000000800\nSigIgn:\t0000000000000001\n"
				   "SigCgt:\t0000000180000200\n";

	assert_int_equal(proc_parse_ends_by(text, SIGUSR1), 0);
	assert_int_equal(proc_parse_ends_by(text, SIGUSR2), 0);
	assert_int_equal(proc_parse_ends_by(text, SIGHUP), 0);
	assert_int_equal(proc_parse_ends_by(text, SIGTERM), 1);
	assert_int_equal(proc_parse_ends_by("Name:\tsh\nSigBlk:\t0\nSigIgn:\t0\n", SIGTERM),
			 -EINVAL);
	assert_int_equal(proc_parse_ends_by("", SIGTERM), -EINVAL);
	assert_int_equal(proc_ends_by(getpid(), SIGUSR1), 1);
	assert_true(signal(SIGUSR1, SIG_IGN) == SIG_DFL);
	assert_int_equal(proc_ends_by(getpid(), SIGUSR1), 0);
	assert_true(signal(SIGUSR1, SIG_DFL) == SIG_IGN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_signal_has_many_names),
		cmocka_unit_test(what_is_no_signal_says_so),
		cmocka_unit_test(names_are_read_back),
		cmocka_unit_test(some_signals_end_a_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
