/* SPDX-License-Identifier: MIT */

#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "task/tree.h"

static struct tree picture(const struct tree_proc *procs, size_t n)
{
	struct tree t = { .procs = xcalloc(n, sizeof(*procs)), .n = n, .room = n };

	(void)memcpy(t.procs, procs, n * sizeof(*procs));
	return t;
}

#define PROC(pid_, parent_)                                                                        \
	{                                                                                          \
		.id = { (pid_), 1 }, .parent = (parent_), .state = 'S'                             \
	}

static void descent_is_found_whatever_the_order(void **state)
{
	/* 9 -> 20 -> 3 -> 50; 7 is a sibling; 60 and 61 go in a circle. */
	static const struct tree_proc procs[] = { PROC(1, 0),	PROC(3, 20), PROC(7, 1),
						  PROC(9, 1),	PROC(20, 9), PROC(50, 3),
						  PROC(60, 61), PROC(61, 60) };
	struct tree t = picture(procs, ARRAY_LEN(procs));

	assert_true(tree_descends(&t, tree_find(&t, 50), 9));
	assert_false(tree_descends(&t, tree_find(&t, 7), 9));
	assert_false(tree_descends(&t, tree_find(&t, 60), 9));
	tree_keep_below(&t, 9);
	assert_int_equal(t.n, 3);
	assert_int_equal(t.procs[0].id.pid, 3);
	assert_int_equal(t.procs[1].id.pid, 20);
	assert_int_equal(t.procs[2].id.pid, 50);
	tree_clear(&t);
}

static void nobody_descends_from_who_is_gone(void **state)
{
	static const struct tree_proc procs[] = { PROC(1, 0), PROC(3, 2) };
	struct tree t = picture(procs, ARRAY_LEN(procs));

	tree_keep_below(&t, 99);
	assert_int_equal(t.n, 0);
	tree_clear(&t);
	tree_keep_below(&t, 1);
	assert_int_equal(t.n, 0);
}

static pid_t child(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		(void)pause();
		_exit(0);
	}
	return pid;
}

static void a_signal_goes_to_that_process_only(void **state)
{
	pid_t pid = child();
	struct tree t = { 0 };

	assert_int_equal(tree_scan(&t), 0);

	struct tree_proc p = *tree_find(&t, pid), wrong = p;

	assert_int_equal(p.parent, getpid());
	wrong.id.start++;
	assert_int_equal(tree_signal(&wrong, SIGKILL), -ESRCH);
	assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
	assert_int_equal(tree_signal(&p, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(tree_signal(&p, SIGKILL), -ESRCH);
	p.id.pid = 1;
	assert_int_equal(tree_signal(&p, 0), -EPERM);
	assert_true(proc_identify(getpid(), &p.id) == 0);
	assert_int_equal(tree_signal(&p, 0), -EPERM);
	tree_clear(&t);
}

/* Of a glance a process is known by its parent. */
static void a_glance_has_no_start(void **state)
{
	pid_t pid = child();
	struct tree t = { 0 }, scan = { 0 };

	assert_int_equal(tree_glance(&t), 0);
	assert_int_equal(tree_scan(&scan), 0);

	struct tree_proc p = *tree_find(&t, pid), wrong = p;
	const struct tree_proc *same = tree_find(&scan, pid);

	assert_int_equal(p.id.start, 0);
	assert_int_equal(p.parent, getpid());
	assert_int_equal(p.session, same->session);
	assert_string_equal(p.comm, same->comm);
	wrong.parent = 1;
	assert_int_equal(tree_signal(&wrong, SIGKILL), -EAGAIN);
	assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
	tree_keep_below(&t, getpid());
	assert_int_equal(t.n, 1);
	assert_int_equal(tree_signal(&t.procs[0], SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(tree_signal(&p, SIGKILL), -ESRCH);
	tree_clear(&t);
	tree_clear(&scan);
}

static void a_status_is_read_as_it_is_written(void **state)
{
	static const struct {
		const char *text;
		int r;
		struct tree_proc want;
	} cases[] = {
		{ "Name:\ta) b\nUmask:\t0022\nState:\tD (disk sleep)\nPid:\t7\nPPid:\t5\nNSsid:\t3\t1\n",
		  0,
		  { .parent = 5, .session = 3, .state = 'D', .comm = "a) b" } },
		{ "Name:\tx\nState:\tR (running)\nPPid:\t1\nGroups:\t1 2 3",
		  0,
		  { .parent = 1, .state = 'R', .comm = "x" } },
		{ "Name:\tx\nState:\tR\nPPid:\t1\nNSsid:\t",
		  0,
		  { .parent = 1, .state = 'R', .comm = "x" } },
		{ "Name:\tPPid:\t4\nState:\tR\nPPid:\t1\n",
		  0,
		  { .parent = 1, .state = 'R', .comm = "PPid: 4" } },
		{ "Name:\tx\nState:\tR\n", -EIO, { .parent = 0 } },
		{ "Name:\tx\nPPid:\t1\n", -EIO, { .parent = 0 } },
		{ "State:\tR\nPPid:\t1\n", -EIO, { .parent = 0 } },
		{ "Name:\tx\nState:\tR\nPPid:\tx\n", -EIO, { .parent = 0 } },
		{ "Name:\tx\nState:\t", -EIO, { .parent = 0 } },
		{ "", -EIO, { .parent = 0 } },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct tree_proc p = { 0 };

		assert_int_equal(tree_parse_status(cases[i].text, 7, &p), cases[i].r);
		if (cases[i].r < 0)
			continue;
		assert_int_equal(p.id.pid, 7);
		assert_int_equal(p.parent, cases[i].want.parent);
		assert_int_equal(p.session, cases[i].want.session);
		assert_int_equal(p.state, cases[i].want.state);
		assert_string_equal(p.comm, cases[i].want.comm);
	}
}

static void the_size_of_an_environment_is_read(void **state)
{
#define STAT_HEAD  "7 (a) b) R 1 7 7 0 -1 4194304 9 0 0 0 7 4 0 0 20 0 1 0 3065304 "
#define STAT_REST  " 14073556 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 500 600 "
#define IN_EXECVE  STAT_HEAD "253952 0 18446744073709551615 0 0" STAT_REST
#define PROGRAM(m) STAT_HEAD m " 30 18446744073709551615 4096 8192" STAT_REST
	static const struct {
		const char *text;
		int r;
		size_t size;
	} cases[] = {
		{ PROGRAM("253952") "700 2151 0\n", 0, 1451 },
		{ PROGRAM("253952") "700 700 0\n", 0, 0 },
		{ PROGRAM("0") "0 0 0\n", -ESRCH, 0 },
		{ IN_EXECVE "0 0 0\n", -EAGAIN, 0 },
		{ IN_EXECVE "700 700 0\n", -EAGAIN, 0 },
		{ PROGRAM("253952") "700 600 0\n", -EAGAIN, 0 },
		{ "7 (sh) S 1 7 7", -ENODATA, 0 },
		{ "7", -ENODATA, 0 },
		{ "", -ENODATA, 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		size_t size = 0;

		assert_int_equal(proc_parse_environ_size(cases[i].text, &size), cases[i].r);
		assert_int_equal(size, cases[i].size);
	}
}

static void an_ender_tells_each_once(void **state)
{
	pid_t pid = child();
	struct tree t = { 0 };
	struct ender en = { 0 };

	ender_begin(&en);
	assert_int_equal(tree_scan(&t), 0);
	tree_keep_below(&t, getpid());
	assert_int_equal(t.n, 1);
	ender_pass(&en, &t, SIGWINCH);
	ender_pass(&en, &t, SIGWINCH);
	assert_int_equal(en.n_told, 1);
	assert_int_equal(en.ours, 1);
	assert_int_equal(en.kills, 0);
	ender_pass(&en, &t, SIGKILL);
	assert_int_equal(en.kills, 1);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	ender_pass(&en, &t, SIGKILL);
	assert_int_equal(en.ours, 0);
	assert_int_equal(en.kills, 1);
	ender_clear(&en);
	tree_clear(&t);
}

static void pass_over_ours(struct ender *en, int sig)
{
	struct tree t = { 0 };

	assert_int_equal(tree_glance(&t), 0);
	tree_keep_below(&t, getpid());
	ender_pass(en, &t, sig);
	tree_clear(&t);
}

static void an_ender_that_is_outrun_says_so(void **state)
{
	struct ender en = { 0 };
	pid_t pid = child(), later;

	pass_over_ours(&en, SIGWINCH);
	later = child();
	pass_over_ours(&en, SIGWINCH);
	assert_false(en.outrun); /* there is time for that */
	pass_over_ours(&en, SIGKILL);
	assert_false(en.outrun); /* all of them are new to it */
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(waitpid(later, NULL, 0), later);
	pass_over_ours(&en, SIGKILL);
	assert_false(en.outrun);
	pid = child();
	pass_over_ours(&en, SIGKILL);
	assert_true(en.outrun);
	assert_int_equal(en.kills, 3);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	pass_over_ours(&en, SIGKILL);
	assert_false(en.outrun);
	ender_clear(&en);
}

/* Of a tree that forks fast a pass tells nobody, and there seems to be nobody to tell. */
static void an_ender_that_comes_too_late_is_outrun(void **state)
{
	const int signals[] = { SIGTERM, SIGKILL, SIGKILL };
	struct ender en = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
		pid_t pid = child();
		struct tree t = { 0 };

		assert_int_equal(tree_glance(&t), 0);
		tree_keep_below(&t, getpid());
		assert_int_equal(t.n, 1);
		if (i == 2) /* it is there, but its parent was another one */
			t.procs[0].parent = getpid() + 1;
		else if (kill(pid, SIGKILL) == 0)
			assert_int_equal(waitpid(pid, NULL, 0), pid);
		ender_pass(&en, &t, signals[i]);
		assert_int_equal(en.outrun, signals[i] == SIGKILL);
		assert_int_equal(en.kills, 0);
		tree_clear(&t);
		if (i == 2 && kill(pid, SIGKILL) == 0)
			assert_int_equal(waitpid(pid, NULL, 0), pid);
	}
	ender_clear(&en);
}

static void count_call(void *data)
{
	++*(unsigned int *)data;
}

/* Its child and that one's child, and none of those above. */
static void a_hunt_is_for_what_descends_from_us(void **state)
{
	unsigned int calls = 0;
	struct ender en = { .ours = 7, .others = 8, .reap = count_call, .data = &calls };
	int ends[2], status;
	char c;
	pid_t beside = child(), hunter;

	assert_int_equal(pipe(ends), 0);
	hunter = fork();
	if (hunter == 0) {
		(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
		if (fork() == 0) {
			(void)!write(ends[1], "", child() > 0); /* both have the pipe */
			(void)pause();
		}
		(void)close(ends[1]);
		(void)!read(ends[0], &c, 1);
		while (en.kills < 2)
			ender_hunt(&en);
		for (int i = 0; i < 2; i++)
			if (wait(&status) < 0 || !WIFSIGNALED(status))
				_exit(1);
		_exit(read(ends[0], &c, 1) != 0 || !calls || en.ours != 7 || en.others != 8 ||
		      en.kills != 2);
	}
	(void)close(ends[1]);
	assert_int_equal(waitpid(hunter, &status, 0), hunter);
	assert_int_equal(status, 0);
	assert_int_equal(waitpid(beside, NULL, WNOHANG), 0);
	assert_int_equal(kill(beside, SIGKILL), 0);
	assert_int_equal(waitpid(beside, NULL, 0), beside);
	(void)close(ends[0]);
	ender_clear(&en);
}

/* Without a descriptor nothing can be looked at, and nobody is gone for that. */
static void what_cannot_be_seen_is_not_gone(void **state)
{
	pid_t pid = child();
	struct tree t = { 0 };
	struct ender en = { 0 };
	struct proc_id id, other = { .pid = pid };
	struct rlimit was, none = { 0 };

	ender_begin(&en);
	assert_int_equal(proc_identify(pid, &id), 0);
	assert_int_equal(tree_scan(&t), 0);
	tree_keep_below(&t, getpid());
	assert_int_equal(t.n, 1);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	none.rlim_max = was.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_true(proc_alive(&id));
	assert_int_equal(proc_runs(&id), -EMFILE);
	assert_int_equal(tree_signal(&t.procs[0], SIGKILL), -EMFILE);
	ender_pass(&en, &t, SIGKILL);
	assert_int_equal(en.ours, 1);
	assert_int_equal(tree_keep_token(&t, "token"), -EMFILE);
	assert_int_equal(tree_scan(&t), -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(proc_runs(&id), 1);
	assert_int_equal(proc_runs(&other), 0);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_false(proc_alive(&id));
	ender_clear(&en);
	tree_clear(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(descent_is_found_whatever_the_order),
		cmocka_unit_test(nobody_descends_from_who_is_gone),
		cmocka_unit_test(a_signal_goes_to_that_process_only),
		cmocka_unit_test(a_glance_has_no_start),
		cmocka_unit_test(a_status_is_read_as_it_is_written),
		cmocka_unit_test(the_size_of_an_environment_is_read),
		cmocka_unit_test(an_ender_tells_each_once),
		cmocka_unit_test(an_ender_that_is_outrun_says_so),
		cmocka_unit_test(an_ender_that_comes_too_late_is_outrun),
		cmocka_unit_test(a_hunt_is_for_what_descends_from_us),
		cmocka_unit_test(what_cannot_be_seen_is_not_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
