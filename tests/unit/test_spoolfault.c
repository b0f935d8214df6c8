/* SPDX-License-Identifier: MIT */

/*
 * Every file call of the spool (the linker wraps them: tests/meson.build) fails once, or from some
 * call on all that write do, or is the last one of its process, for every N. Afterwards the spool
 * is opened again and recovered, and the rest is run: what was acknowledged has ended exactly once,
 * what was not acknowledged at most once, and nothing was claimed again after it had ended.
 */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "spool/batch.h"
#include "spool/batch_retry.h"
#include "spool/instance.h"
#include "spool/raw.h"
#include "spool/recover.h"
#include "spool/scan.h"
#include "spool/submit.h"
#include "spool/task_text.h"
#include "spool/transit.h"
#include "spool_world.h"

enum fault { FAULT_NONE, FAULT_ONCE, FAULT_FULL, FAULT_EXIT, FAULT_OTHER };

#define IDS_MAX	     16
#define ELEMENTS_MAX 4
#define EXIT_CODE    99

/* Shared with the process that is ended. */
struct ledger {
	bool acknowledged[IDS_MAX];
	unsigned int ended[IDS_MAX][ELEMENTS_MAX];
	unsigned int again[IDS_MAX][ELEMENTS_MAX]; /* claims after an end */
	bool raw_taken;
};

static struct ledger *ledger;
static enum fault fault;
static unsigned int calls, fail_at, fail_errno;
static bool keep_files;		/* none can be removed */
static void (*of_others)(void); /* what another process does before that call */

static bool fails(bool writes)
{
	calls++;
	if (fault == FAULT_NONE || calls < fail_at)
		return false;
	if (fault == FAULT_EXIT)
		_exit(EXIT_CODE);
	if (fault == FAULT_FULL ? !writes : calls != fail_at)
		return false;
	if (fault == FAULT_OTHER) {
		fault = FAULT_NONE;
		of_others();
		return false;
	}
	errno = (int)fail_errno;
	return true;
}

#define WRAP(type, name, writes, params, args)                                                     \
	type __real_##name params;                                                                 \
	type __wrap_##name params;                                                                 \
	type __wrap_##name params                                                                  \
	{                                                                                          \
		return fails(writes) ? (type)-1 : __real_##name args;                              \
	}

WRAP(int, openat64, flags &O_CREAT, (int fd, const char *path, int flags, mode_t mode),
     (fd, path, flags, mode))
WRAP(int, open64, flags &O_CREAT, (const char *path, int flags, mode_t mode), (path, flags, mode))
WRAP(ssize_t, write, true, (int fd, const void *data, size_t len), (fd, data, len))
WRAP(ssize_t, read, false, (int fd, void *data, size_t len), (fd, data, len))
WRAP(ssize_t, pread64, false, (int fd, void *data, size_t len, off_t at), (fd, data, len, at))
WRAP(int, fsync, true, (int fd), (fd))
WRAP(int, fdatasync, true, (int fd), (fd))
WRAP(int, renameat, false, (int fd, const char *from, int to_fd, const char *to),
     (fd, from, to_fd, to))
WRAP(int, unlinkat, false, (int fd, const char *path, int flags),
     (keep_files ? -1 : fd, path, flags))
WRAP(int, mkdirat, true, (int fd, const char *path, mode_t mode), (fd, path, mode))
WRAP(int, fstatat64, false, (int fd, const char *path, struct stat *st, int flags),
     (fd, path, st, flags))
WRAP(int, faccessat, false, (int fd, const char *path, int mode, int flags),
     (fd, path, mode, flags))
WRAP(int, ftruncate64, false, (int fd, off_t size), (fd, size))

static const char *others_key; /* there when a link fails, made by another process, ... */
static int link_errno;	       /* ... and why it does */

int __real_linkat(int from_fd, const char *from, int to_fd, const char *to, int flags);
int __wrap_linkat(int from_fd, const char *from, int to_fd, const char *to, int flags);
int __wrap_linkat(int from_fd, const char *from, int to_fd, const char *to, int flags)
{
	if (!others_key)
		return fails(true) ? -1 : __real_linkat(from_fd, from, to_fd, to, flags);

	int fd = __real_openat64(to_fd, to, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_int_equal(__real_write(fd, others_key, strlen(others_key)), strlen(others_key));
	(void)close(fd);
	errno = link_errno;
	return -1;
}

/* Files are opened, and directories read, with calls that have no name in the C library. */
static bool fails_syscall(long number)
{
	return (number == SYS_openat2 || number == SYS_getdents64) && fails(false);
}

WRAP_SYSCALL(fails_syscall)

/* As open_spool() and submit() do, where that may fail. */
static struct spool *try_open(struct err *e)
{
	struct spool *sp = NULL;

	(void)spool_open(spool_world_root(), "default", NULL, SPOOL_CREATE, &sp, e);
	return sp;
}

static void try_submit(const struct spool *sp, const char *json)
{
	struct task_spec *s = NULL;
	struct err e = ERR_INIT;
	uint64_t id = 0;
	size_t used;

	assert_int_equal(spec_read(json, strlen(json), &s, &used, &e), 0);
	if (submit_task(sp, s, &id, &e) >= 0)
		ledger->acknowledged[id] = true;
	(void)spec_free(s);
}

static void ended(const struct claim *c)
{
	ledger->ended[c->name.id][c->name.element]++;
}

static void began(const struct claim *c)
{
	if (ledger->ended[c->name.id][c->name.element])
		ledger->again[c->name.id][c->name.element]++;
}

/* As an agent would: what fails is tried once more, then left to the next recovery. */
static const struct spool_again again = { .attempts = 1, .reason = "again" };

static void run_task(const struct spool *sp, struct endlog *ev, const struct task_name *n,
		     const struct claimer *me)
{
	struct err e = ERR_INIT;
	struct task_file f;
	struct claim c;
	int r;

	if (claim_task(sp, n, me, &f, &c, &e) != 0)
		return;
	began(&c);
	task_file_clear(&f);
	(void)claim_started(sp, &c, &me->proc, NULL, &e);
	if (c.attempt == 1) {
		if (transit_requeue(sp, ev, &c, &again, &e) < 0)
			(void)transit_requeue(sp, ev, &c, &again, &e);
		return;
	}

	struct spool_end end = done(&c);

	r = transit_end(sp, ev, &c, &end, &e);
	if (r < 0)
		r = transit_end(sp, ev, &c, &end, &e);
	if (r == 0)
		ended(&c);
}

static void run_element(struct batch *b, struct endlog *ev, const struct claim *c)
{
	struct spool_end end = done(c);
	struct err e = ERR_INIT;
	int r;

	began(c);
	if (c->name.element == 2 && c->attempt == 1) {
		if (batch_requeue(b, ev, c, &again, &e) < 0)
			(void)batch_requeue(b, ev, c, &again, &e);
		return;
	}
	r = batch_end(b, ev, c, &end, &e);
	if (r < 0)
		r = batch_end(b, ev, c, &end, &e);
	if (r == 0)
		ended(c);
}

static void run_batch(const struct spool *sp, struct endlog *ev, const struct task_name *n,
		      const struct claimer *me)
{
	struct batch *b = NULL;
	struct err e = ERR_INIT;
	uint64_t element;
	struct claim c;

	if (batch_open(sp, n, me->agent, &b, &e) < 0)
		return;
	for (int i = 0; i < 20 && (element = batch_next(b, 0)); i++)
		if (batch_claim(b, element, me, &c, &e) == 0)
			run_element(b, ev, &c);
	if (batch_is_over(b))
		(void)batch_commit(b, &e);
	(void)batch_close(b);
}

static void run_all(const struct spool *sp, const char *agent)
{
	struct claimer me;
	struct endlog *ev = NULL;
	struct err e = ERR_INIT;
	struct scan *s = scan_new(sp, 0);
	uint64_t id, part;

	if (claimer_self(sp, agent, &me, &e) < 0 || endlog_open(sp, agent, &ev, &e) < 0) {
		(void)endlog_close(ev);
		(void)scan_free(s);
		return;
	}
	if (raw_import(sp, "5_raw.sh", agent, &id, &e) == 0)
		ledger->raw_taken = true;
	for (int round = 0; round < 4; round++) {
		const struct scan_task *t;
		size_t iter = 0;

		(void)scan_update(s, NULL, NULL, &e);
		while ((t = scan_next(s, &iter)))
			if (t->dir == SPOOL_PENDING)
				(t->name.count ? run_batch : run_task)(sp, ev, &t->name, &me);
		(void)endlog_sync(ev, &e);
		if (endlog_cut(ev, &part, &e) == 0)
			(void)endlog_drop(ev, part, &e);
	}
	(void)endlog_close(ev);
	(void)scan_free(s);
}

/* What may go wrong at each call. */
static void scenario(void)
{
	struct err e = ERR_INIT;
	struct spool *sp = try_open(&e);
	struct scan_task t;
	struct scan *s;

	if (!sp)
		return;
	try_submit(sp, "{\"script\":\"a\",\"no_requeue\":true,\"retries\":1}");
	try_submit(sp, "{\"script\":\"b\",\"array\":\"1-3\"}");
	try_submit(sp, "{\"script\":\"c\",\"name\":\"c\"}");
	s = scan_new(sp, 0);
	(void)scan_update(s, NULL, NULL, &e);
	if (scan_find(s, 3, 0)) {
		json_t *set = json_pack("{s:i}", "gpus", 2);

		t = *scan_find(s, 3, 0);
		(void)transit_edit(sp, &t.name, &(struct transit_edit){ .set = set }, &e);
		(void)transit_priority(sp, &t.name, 9, &e);
		json_decref(set);
	}
	(void)scan_free(s);
	run_all(sp, "node1");
	(void)spool_close(sp);
}

static enum liveness all_dead(void *data, const struct claim *c)
{
	return LIVENESS_DEAD;
}

static int count_id(void *data, const struct task_name *n, const char *dir)
{
	((unsigned int *)data)[n->id < IDS_MAX ? n->id : 0]++;
	return 0;
}

/* An edit that was cut off is freed after a minute; here at once. */
static void free_edits(const struct spool *sp)
{
	struct scan *s = scanned(sp);
	const struct scan_task *t;
	size_t iter = 0;

	while ((t = scan_next(s, &iter))) {
		struct task_name n = t->name;

		if (n.flags & NAME_EDITED)
			assert_int_equal(transit_free_edit(sp, &n, NULL), 0);
	}
	(void)scan_free(s);
}

static void check(unsigned int n)
{
	static const struct recover_calls hooks = { .life = all_dead };
	unsigned int found[IDS_MAX] = { 0 }, left = 0;
	struct err e = ERR_INIT;
	struct recover_counts counts;
	struct claimer me;
	struct spool *sp;

	fault = FAULT_NONE;
	sp = try_open(&e);
	if (!sp)
		fail_msg("call %u: %s", n, e.text);
	me = self(sp, "node1");
	if (recover_run(sp, &me, NULL, &hooks, &counts, &e) < 0 || counts.problems)
		fail_msg("call %u: recovery: %s", n, e.text);
	free_edits(sp);
	run_all(sp, "node1");

	struct scan *s = scanned(sp);

	left = (unsigned int)(scan_count(s, SPOOL_PENDING) + scan_count(s, SPOOL_RUNNING));
	(void)scan_free(s);
	assert_int_equal(scan_ended(sp, count_id, found, &e), 0);
	if (left)
		fail_msg("call %u: %u files are left", n, left);
	for (unsigned int id = 1; id < IDS_MAX; id++) {
		if (found[id] > 1 || (ledger->acknowledged[id] && !found[id]))
			fail_msg("call %u: task %u ended %u times", n, id, found[id]);
		for (unsigned int i = 0; i < ELEMENTS_MAX; i++)
			if (ledger->again[id][i])
				fail_msg("call %u: %u.%u was run again after its end", n, id, i);
	}
	if (spool_exists(sp, "pending/5_raw.sh"))
		fail_msg("call %u: the bare file was not taken", n);
	(void)spool_close(sp);
}

static void prepare(void)
{
	struct spool *sp;

	(void)memset(ledger, 0, sizeof(*ledger));
	/* Thousands of fsyncs: in memory where that is possible. */
	assert_int_equal(spool_setup_in(access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"), 0);
	fault = FAULT_NONE;
	sp = open_spool();
	put(sp, "pending/5_raw.sh", "echo\n");
	(void)spool_close(sp);
}

/*
 * How many calls the scenario makes: a scan reads a directory once more that has changed within a
 * tick of the file system's clock, so by the time that others take from us it is some more or
 * fewer.
 */
static unsigned int count_calls(void)
{
	unsigned int least = UINT_MAX;

	for (int i = 0; i < 5; i++) {
		prepare();
		calls = 0;
		scenario();
		if (calls < least)
			least = calls;
		check(0);
		(void)spool_teardown(NULL);
	}
	assert_true(least > 150);
	return least;
}

static void prepare_fault(enum fault what, unsigned int n, unsigned int errnum)
{
	prepare();
	fault = what;
	fail_at = n;
	fail_errno = errnum;
	calls = 0;
}

/* The exit code of a process of its own. */
static int scenario_exit(void)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		scenario();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* One that makes fewer calls this time does not come to the nth, and is done once more. */
static void killed_at(unsigned int n)
{
	int code = 0;

	for (int i = 0; i < 20 && code == 0; i++) {
		prepare_fault(FAULT_EXIT, n, 0);
		code = scenario_exit();
		check(n);
		(void)spool_teardown(NULL);
	}
	assert_int_equal(code, EXIT_CODE);
}

static void each_call(enum fault what, unsigned int errnum)
{
	unsigned int total = count_calls();

	for (unsigned int n = 1; n <= total; n++) {
		if (what == FAULT_EXIT) {
			killed_at(n);
			continue;
		}
		prepare_fault(what, n, errnum);
		scenario();
		check(n);
		(void)spool_teardown(NULL);
	}
}

/* Commands take an instance that is not there for an empty queue: one call that says so of one that
 * is there is no proof. */
static void test_open_is_no_proof(void **state)
{
	cleanup_free char *below = NULL;
	bool made = true;

	prepare();
	below = xasprintf("%s/none/below/", spool_world_root());
	for (unsigned int k = 1; made; k++) {
		struct spool *sp = NULL;
		struct err e = ERR_INIT;
		int r;

		fault = FAULT_ONCE;
		fail_errno = ENOENT;
		fail_at = k;
		calls = 0;
		r = spool_open(spool_world_root(), "default", NULL, 0, &sp, &e);
		fault = FAULT_NONE;
		made = calls >= k;
		if (r == -ENOENT || (r < 0 && !e.text[0]))
			fail_msg("call %u: %s", k, e.text);
		sp = spool_close(sp);
		assert_int_equal(spool_open(spool_world_root(), "other", NULL, 0, &sp, &e),
				 -ENOENT);
		assert_int_equal(spool_open(below, "default", NULL, 0, &sp, &e), -ENOENT);
	}
	(void)spool_teardown(NULL);
}

/* The names of shims that run are made from it. */
static void test_key_stays(void **state)
{
	static const char other[] = "0123456789abcdef0123456789abcdef";
	char key[SPOOL_KEY_MAX], now[SPOOL_KEY_MAX];
	struct err e = ERR_INIT;
	struct spool *sp;
	bool made = true;

	prepare();
	sp = open_spool();
	assert_int_equal(spool_key_read(sp, key, &e), -ENOENT);
	others_key = other;
	link_errno = EIO;
	assert_int_equal(spool_key(sp, key, &e), -EIO);
	others_key = NULL;
	assert_int_equal(spool_key(sp, key, &e), 0);
	assert_string_equal(key, other);
	link_errno = EPERM; /* the file system has none */
	for (unsigned int k = 1; made; k++) {
		fault = FAULT_ONCE;
		fail_errno = ENOENT;
		fail_at = k;
		calls = 0;
		others_key = other;
		(void)spool_key(sp, now, &e);
		others_key = NULL;
		fault = FAULT_NONE;
		made = calls >= k;
		assert_int_equal(spool_key(sp, now, &e), 0);
		assert_string_equal(now, key);
	}
	sp = spool_close(sp);
	(void)spool_teardown(NULL);
}

/* A claim that was given up and could not be removed is somebody else's once it has been. */
static void test_undone_claim(void **state)
{
	struct batch *b = NULL, *other = NULL;
	struct err e = ERR_INIT;
	struct claimer one, two;
	struct claim lost, held;
	struct task_name n;
	struct scan_task t;
	struct spool *sp;

	prepare();
	sp = open_spool();
	assert_true(get(sp, submit(sp, "{\"script\":\"b\",\"array\":\"1-3\"}"), &t));
	n = t.name;
	one = self(sp, "one");
	two = self(sp, "two");
	assert_int_equal(batch_open(sp, &n, "one", &b, &e), 0);
	assert_int_equal(transit_priority(sp, &n, 9, &e), 0); /* it is called otherwise now */
	keep_files = true;
	assert_int_equal(batch_claim(b, 1, &one, &lost, &e), CLAIM_LOST);
	assert_true(spool_exists(sp, "running/1.1,e0"));
	(void)batch_refresh(b, &e);
	keep_files = false;

	/* Recovery of another agent was faster, and it has claimed the element. */
	assert_int_equal(spool_unlink(sp, "running/1.1,e0", &e), 0);
	assert_int_equal(batch_open(sp, &n, "two", &other, &e), 0);
	assert_int_equal(batch_claim(other, 1, &two, &held, &e), 0);
	(void)batch_refresh(b, &e);
	assert_true(spool_exists(sp, held.path));

	keep_files = true;
	assert_int_equal(batch_claim(b, 2, &one, &lost, &e), CLAIM_LOST);
	assert_true(spool_exists(sp, "running/1.2,e0"));
	keep_files = false;
	(void)batch_refresh(b, &e);
	assert_false(spool_exists(sp, "running/1.2,e0"));

	/* One call says that something is not there that is: that is no proof. */
	for (unsigned int k = 1; k <= 40; k++) {
		keep_files = true;
		assert_int_equal(batch_claim(b, 2, &one, &lost, &e), CLAIM_LOST);
		assert_true(spool_exists(sp, "running/1.2,e0"));
		keep_files = false;
		fault = FAULT_ONCE;
		fail_errno = ENOENT;
		fail_at = k;
		calls = 0;
		(void)batch_refresh(b, &e);
		fault = FAULT_NONE;
		(void)batch_refresh(b, &e);
		assert_false(spool_exists(sp, "running/1.2,e0"));
	}

	/* Who takes over what is left when the batch is closed does away with it. */
	struct text_list undone = { 0 };

	keep_files = true;
	assert_int_equal(batch_claim(b, 2, &one, &lost, &e), CLAIM_LOST);
	batch_take_undone(b, &undone);
	b = batch_close(b);
	batch_remove_undone(sp, &undone);
	assert_true(undone.n && spool_exists(sp, "running/1.2,e0"));
	keep_files = false;
	batch_remove_undone(sp, &undone);
	assert_true(!undone.n && !spool_exists(sp, "running/1.2,e0"));
	text_list_clear(&undone);
	other = batch_close(other);
	sp = spool_close(sp);
	(void)spool_teardown(NULL);
}

static int note_name(void *data, const struct task_name *n, const char *dir)
{
	*(struct task_name *)data = *n;
	return 1;
}

/* Whether a task is in a directory, and how it is called there. */
static bool is_in(const struct spool *sp, const char *dir, struct task_name *ret)
{
	return scan_dir(sp, dir, note_name, ret, NULL) == 1;
}

/* A task, or a batch of three, that has failed. */
static struct spool *prepare_failed(const char *json, struct task_name *ret)
{
	struct spool_end end = { .result = RESULT_FAILED, .exit = 1, .ended_ns = clock_wall_ns() };
	struct err e = ERR_INIT;
	struct batch *b = NULL;
	struct claimer me;
	struct task_file f;
	struct claim c;
	struct spool *sp;

	prepare();
	sp = open_spool();
	(void)submit(sp, json);
	assert_true(is_in(sp, "pending", ret));
	me = self(sp, "one");
	if (!ret->count) {
		assert_int_equal(claim_task(sp, ret, &me, &f, &c, &e), 0);
		task_file_clear(&f);
		assert_int_equal(transit_end(sp, NULL, &c, &end, &e), 0);
	} else {
		assert_int_equal(batch_open(sp, ret, "one", &b, &e), 0);
		for (uint64_t i = 1; i <= ret->count; i++) {
			assert_int_equal(batch_claim(b, i, &me, &c, &e), 0);
			assert_int_equal(batch_end(b, NULL, &c, &end, &e), 0);
		}
		assert_int_equal(batch_commit(b, &e), 0);
		(void)batch_close(b);
	}
	assert_true(is_in(sp, "failed", ret));
	return sp;
}

static bool is_any(void *data, uint64_t element, enum batch_state state)
{
	return true;
}

static int retry(const struct spool *sp, struct task_name *n, struct err *e)
{
	uint64_t revived = 0;
	int r = n->count ? batch_retry_ended(sp, n, "failed", "two", is_any, NULL, &revived, e)
			 : transit_retry(sp, n, "failed", true, e);

	assert_true(r != 0 || revived == n->count);
	return r;
}

/* true: the call was made. */
static bool retry_failing_at(const char *json, unsigned int k, unsigned int errnum)
{
	char file[NAME_FILE_MAX], called[NAME_FILE_MAX];
	struct task_name was, n, found;
	struct err e = ERR_INIT;
	struct spool *sp = prepare_failed(json, &was);
	bool made;
	int r;

	n = was;
	fault = FAULT_ONCE;
	fail_errno = errnum;
	fail_at = k;
	calls = 0;
	r = retry(sp, &n, &e);
	fault = FAULT_NONE;
	made = calls >= k;
	if (r < 0) {
		if (is_in(sp, "pending", &found) || !is_in(sp, "failed", &found))
			fail_msg("call %u: it is to run, although: %s", k, e.text);
		assert_string_equal(name_format(&found, file), name_format(&was, called));
		assert_string_equal(name_format(&n, file), called);
		r = retry(sp, &n, &e);
	}
	assert_int_equal(r, 0);
	assert_true(is_in(sp, "pending", &found) && !is_in(sp, "failed", &was));
	assert_true(found.epoch == 1 && !(found.flags & NAME_EDITED));
	sp = spool_close(sp);
	(void)spool_teardown(NULL);
	return made;
}

static const char *const failed_ones[] = { "{\"script\":\"a\"}",
					   "{\"script\":\"b\",\"array\":\"1-3\"}" };

/* Who is told that it failed tries again, or lets it be: it must not run all the same. */
static void test_retry_that_fails(void **state)
{
	static const unsigned int errors[] = { ENOSPC, EIO };

	for (size_t i = 0; i < ARRAY_LEN(failed_ones) * ARRAY_LEN(errors); i++)
		for (unsigned int k = 1;
		     retry_failing_at(failed_ones[i / 2], k, errors[i % ARRAY_LEN(errors)]); k++)
			continue;
}

static struct spool *of_other;

static void cancel(void)
{
	struct task_name n;

	if (is_in(of_other, "pending", &n))
		assert_int_equal(transit_cancel(of_other, &n, "by a test", NULL), 0);
}

/* What is stopped while it is asked for again is somebody else's, and that is no error. */
static void test_retry_of_stopped(void **state)
{
	struct task_name n;
	struct err e = ERR_INIT;
	bool made = true;
	int r;

	for (size_t i = 0; i < ARRAY_LEN(failed_ones); i++, made = true)
		for (unsigned int k = 1; made; k++) {
			of_other = prepare_failed(failed_ones[i], &n);
			fault = FAULT_OTHER;
			of_others = cancel;
			fail_at = k;
			calls = 0;
			r = retry(of_other, &n, &e);
			made = fault == FAULT_NONE;
			fault = FAULT_NONE;
			if (r != 0 && r != TRANSIT_GONE)
				fail_msg("call %u: %s", k, e.text);
			of_other = spool_close(of_other);
			(void)spool_teardown(NULL);
		}
}

static void test_eio(void **state)
{
	each_call(FAULT_ONCE, EIO);
}

static void test_nospace_once(void **state)
{
	each_call(FAULT_ONCE, ENOSPC);
}

static void test_full(void **state)
{
	each_call(FAULT_FULL, ENOSPC);
}

static void test_killed(void **state)
{
	each_call(FAULT_EXIT, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_open_is_no_proof), cmocka_unit_test(test_key_stays),
		cmocka_unit_test(test_undone_claim),	 cmocka_unit_test(test_eio),
		cmocka_unit_test(test_nospace_once),	 cmocka_unit_test(test_full),
		cmocka_unit_test(test_killed),		 cmocka_unit_test(test_retry_that_fails),
		cmocka_unit_test(test_retry_of_stopped),
	};

	ledger = mmap(NULL, sizeof(*ledger), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	return ledger == MAP_FAILED ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
