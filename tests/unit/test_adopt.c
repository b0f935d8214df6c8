/* SPDX-License-Identifier: MIT */

/* What is left of a task that another agent started: its shim, the record of its end, or nothing.
 * The shim is this process, as far as its name goes. */

#include "unit.h"

#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/endpoint.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/sock.h"
#include "base/str.h"
#include "task/adopt.h"
#include "task/shproto.h"

#define TOKEN "unit-test-42.1"

static char place[64], records[80];
static struct endpoint name;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static int setup(void **state)
{
	(void)str_copy(place, sizeof(place), "/tmp/tenure-adopt-XXXXXX");
	if (!mkdtemp(place) || setenv("TENURE_RUNTIME_DIR", place, 1) < 0)
		return -1;
	(void)str_print(records, sizeof(records), "%s/records", place);
	name = (struct endpoint)ENDPOINT_NONE;
	return prctl(PR_SET_NAME, SHIM_COMM);
}

static int teardown(void **state)
{
	endpoint_close(&name);
	return nftw(place, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void take_name(void)
{
	char buf[SHPROTO_NAME_MAX];

	assert_int_equal(endpoint_open(&name, shim_socket_name(buf, TOKEN), NULL), 0);
}

static void leave_record(const char *token)
{
	struct task_record r = { .end = { .outcome = TASK_EXITED, .exit_code = 3 } };

	(void)str_copy(r.token, sizeof(r.token), token);
	assert_int_equal(end_record_write(records, &r, false, NULL), 0);
}

static void leave_bad_record(void)
{
	cleanup_free char *path = xasprintf("%s/" TOKEN ".json", records);

	assert_int_equal(end_record_dir_make(records, NULL), 0);
	assert_int_equal(fs_write_atomic(path, "", 0, 0600, NULL), 0);
}

static struct adopted find(const struct shim_id *id)
{
	struct adopted a;
	struct err e = ERR_INIT;

	if (adopt_find(TOKEN, id, records, &a, &e) < 0)
		fail_msg("%s", e.text);
	return a;
}

static const struct shim_id unknown;

static struct shim_id ourselves(void)
{
	struct shim_id id = { .boot_id = "" };

	assert_int_equal(proc_identify(getpid(), &id.proc), 0);
	assert_int_equal(boot_id_read(id.boot_id, sizeof(id.boot_id)), 0);
	return id;
}

static void nobody_and_no_record_is_lost(void **state)
{
	const struct adopted a = find(&unknown);

	assert_int_equal(a.found, ADOPT_LOST);
	assert_int_equal(a.fd, -1);
	assert_false(a.bad_record);
}

static void a_record_is_its_end(void **state)
{
	struct adopted a;

	leave_record(TOKEN);
	a = find(&unknown);
	assert_int_equal(a.found, ADOPT_ENDED);
	assert_int_equal(a.record.end.exit_code, 3);
	assert_int_equal(a.fd, -1);
	/* Of another task it is none. */
	leave_record("unit-test-42.2");
	assert_int_equal(end_record_remove(records, TOKEN), 0);
	assert_int_equal(find(&unknown).found, ADOPT_LOST);
}

/* It has the name, and is asked how it stands; a record of it is not asked for. */
static void a_shim_that_lives_is_asked(void **state)
{
	const struct shim_id id = ourselves();
	const struct shim_id *ids[] = { &unknown, &id };
	union shmsg m;

	take_name();
	leave_record(TOKEN);
	for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
		struct adopted a = find(ids[i]);
		cleanup_fd int far = sock_accept(name.fd, NULL);

		assert_int_equal(a.found, ADOPT_LIVES);
		assert_int_equal(a.proc.pid, getpid());
		assert_true(a.proc.start == id.proc.start);
		assert_int_equal(shmsg_recv(far, &m), SHMSG_ASK);
		(void)close(a.fd);
	}
}

/* A PID alone is never believed. */
static void another_process_has_its_name(void **state)
{
	struct shim_id ids[3] = { ourselves(), ourselves(), ourselves() };

	take_name();
	ids[0].proc.start++;
	ids[1].proc.pid++;
	(void)str_copy(ids[2].boot_id, sizeof(ids[2].boot_id), "of-another-boot");
	for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
		const struct adopted a = find(&ids[i]);

		assert_int_equal(a.found, ADOPT_OTHER);
		assert_int_equal(a.fd, -1);
	}
	/* Nor is one that is no shim. */
	assert_int_equal(prctl(PR_SET_NAME, "something"), 0);
	assert_int_equal(find(&unknown).found, ADOPT_OTHER);
	/* Until its own is safe it has the fork server's. */
	assert_int_equal(prctl(PR_SET_NAME, FORK_SERVER_COMM), 0);

	struct adopted a = find(&unknown);

	assert_int_equal(a.found, ADOPT_LIVES);
	(void)close(a.fd);
}

static void what_is_no_token_is_refused(void **state)
{
	static const char *const tokens[] = { "", "../x", ".x", "a/b", "a b" };

	for (size_t i = 0; i < ARRAY_LEN(tokens); i++) {
		struct adopted a;
		struct err e = ERR_INIT;

		assert_int_equal(adopt_find(tokens[i], &unknown, records, &a, &e), -EINVAL);
		assert_non_null(strstr(e.text, "is not a token"));
		assert_int_equal(a.fd, -1);
	}
}

/* ---- for good ---- */

/* A start that an agent before us asked for may still be on its way: it comes too late then. */
static void what_is_lost_never_begins(void **state)
{
	struct adopted a;

	assert_int_equal(adopt_settle(TOKEN, &unknown, records, &a, NULL), 0);
	assert_int_equal(a.found, ADOPT_LOST);
	assert_true(end_record_is_void(records, TOKEN));
	assert_false(a.bad_record);
}

static void what_is_found_may_begin(void **state)
{
	struct adopted a;

	leave_record(TOKEN);
	assert_int_equal(adopt_settle(TOKEN, &unknown, records, &a, NULL), 0);
	assert_int_equal(a.found, ADOPT_ENDED);
	assert_false(end_record_is_void(records, TOKEN));
	take_name();
	assert_int_equal(adopt_settle(TOKEN, &unknown, records, &a, NULL), 0);
	assert_int_equal(a.found, ADOPT_LIVES);
	assert_false(end_record_is_void(records, TOKEN));
	(void)close(a.fd);
}

/* As a power loss may leave it. */
static void a_record_that_cannot_be_read_counts_as_none(void **state)
{
	struct adopted a;
	struct err e = ERR_INIT;

	leave_bad_record();
	assert_int_equal(adopt_find(TOKEN, &unknown, records, &a, &e), -EBADMSG);
	assert_int_equal(adopt_settle(TOKEN, &unknown, records, &a, &e), 0);
	assert_int_equal(a.found, ADOPT_LOST);
	assert_true(a.bad_record);
	assert_false(end_record_exists(records, TOKEN));
	assert_true(end_record_is_void(records, TOKEN));
}

/* Its name can have been lost, and what it runs goes on. */
static void a_process_that_lives_is_not_lost(void **state)
{
	struct shim_id id = ourselves();
	struct adopted a;
	struct err e = ERR_INIT;

	assert_int_equal(adopt_settle(TOKEN, &id, records, &a, &e), -EAGAIN);
	assert_non_null(strstr(e.text, "cannot be found under its name"));
	assert_false(end_record_is_void(records, TOKEN));
	/* One that has that number now is another one. */
	id.proc.start++;
	assert_int_equal(adopt_settle(TOKEN, &id, records, &a, &e), 0);
	assert_int_equal(a.found, ADOPT_LOST);
}

/* Who has just been killed frees its name a moment before it is gone. */
static void a_process_that_is_just_going_is_waited_for(void **state)
{
	struct shim_id id = { .boot_id = "" };
	struct adopted a;
	uint64_t began;
	int r;
	pid_t pid = fork();

	if (pid == 0) {
		(void)usleep(100000);
		_exit(0);
	}
	assert_int_equal(proc_identify(pid, &id.proc), 0);
	began = clock_mono_ns();
	while ((r = adopt_settle(TOKEN, &id, records, &a, NULL)) == -EAGAIN) {
		assert_true(clock_mono_ns() - began >= 400 * NS_PER_MS); /* it had none to end in */
		began = clock_mono_ns();
	}
	assert_int_equal(r, 0);
	assert_int_equal(a.found, ADOPT_LOST);
	assert_int_equal(waitpid(pid, NULL, WNOHANG), pid);
}

/* ---- all of them ---- */

static void count_token(void *data, const char *token)
{
	*(unsigned int *)data += strcmp(token, TOKEN) == 0;
}

static void each_shim_of_this_node_is_found(void **state)
{
	unsigned int n = 0;

	assert_int_equal(adopt_each(count_token, &n), 0);
	assert_int_equal(n, 0);
	take_name();
	assert_int_equal(adopt_each(count_token, &n), 0);
	assert_int_equal(n, 1);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nobody_and_no_record_is_lost),
		TEST(a_record_is_its_end),
		TEST(a_shim_that_lives_is_asked),
		TEST(another_process_has_its_name),
		TEST(what_is_no_token_is_refused),
		TEST(what_is_lost_never_begins),
		TEST(what_is_found_may_begin),
		TEST(a_record_that_cannot_be_read_counts_as_none),
		TEST(a_process_that_lives_is_not_lost),
		TEST(a_process_that_is_just_going_is_waited_for),
		TEST(each_shim_of_this_node_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
