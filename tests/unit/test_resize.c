/* SPDX-License-Identifier: MIT */

/* A task that runs gets one device more, or gives one back: step by step, and what fails in each of
 * them. The world and the task are those of attempt_task.h; GPU-0 is the first device. */

#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/attempt/gpus_file.h"
#include "agent/attempt/lease.h"
#include "agent/attempt/resize.h"
#include "attempt_task.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"

/* With so many devices, of two. */
static void runs(unsigned int gpus)
{
	at_begin();
	w.gpus_max = 2;
	at_start(gpus);
	world_jobs();
	for (unsigned int i = 0; i < gpus; i++)
		at_promise((int)i, 0);
	world_say_status(SHMSG_PREPARED, SHIM_PREPARED, 4);
	world_jobs();
	at_grant(0);
	world_say_status(SHMSG_STARTED, SHIM_RUNNING, 4);
	at_expect("running");
	assert_string_equal(w.file, gpus == 1 ? "0 GPU-0\n" : "0 GPU-0\n1 GPU-1\n");
}

static void has(const char *uuids)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	for (size_t i = 0; i < attempt->uuids.n; i++)
		strbuf_addf(&b, "%s%s", i ? "," : "", attempt->uuids.texts[i]);
	assert_string_equal(strbuf_str(&b), uuids);
	assert_int_equal(devset_count(attempt->devices), attempt->uuids.n);
	assert_int_equal(devset_count(attempt->promised), attempt->uuids.n);
	at_expect("running");
}

static bool promised(int slot, int code)
{
	const struct msg_lease_reply m = { .slot = slot, .code = code, .reason.text = "in use" };

	return resize_on_promise(attempt, &m);
}

static bool granted(int code)
{
	const struct msg_lease_reply m = { .slot = -1, .code = code, .reason.text = "in use" };

	return resize_on_granted(attempt, &m);
}

static void ended(enum resize_end end, const char *why)
{
	assert_int_equal(told.n_resized, 1);
	assert_int_equal(told.resized, end);
	assert_string_equal(attempt->resize->why, why);
	assert_int_equal(attempt->resize->step, RESIZE_NONE);
	told.n_resized = 0;
}

/* Until the claim and the file are to be written. */
static void grow(void)
{
	resize_grow(attempt, 1);
	assert_string_equal(w.lease.uuid, "GPU-1");
	assert_int_equal(w.lease.pid, 0);
	assert_true(promised(1, 0));
	assert_int_equal(w.granted_to.pid, attempt->shim.pid);
	assert_true(granted(0));
	assert_int_equal(w.n_jobs, 1);
}

/* It runs on to its end, which is recorded. */
static void finish(unsigned int gpus)
{
	at_exit(0);
	for (unsigned int i = 0; i < gpus; i++)
		at_unlease((int)i);
	world_jobs();
	assert_int_equal(told.n_over, 1);
	assert_int_equal(told.verdict.what, RETRY_DONE);
	at_end();
}

/* ---- one more ---- */

static void it_gets_one_more(void **state)
{
	runs(1);
	grow();
	assert_string_equal(w.noted, "GPU-0"); /* nobody is told before the claim tells it */
	assert_string_equal(w.file, "0 GPU-0\n");
	world_jobs();
	assert_string_equal(w.noted, "GPU-0,GPU-1");
	assert_string_equal(w.file, "0 GPU-0\n1 GPU-1\n");
	ended(RESIZE_GROWN, "");
	has("GPU-0,GPU-1");
	/* A new guard is told of both. */
	w.n_lease = 0;
	attempt_on_guard(attempt);
	assert_int_equal(w.n_lease, 2);
	at_promise(0, 0);
	at_promise(1, 0);
	has("GPU-0,GPU-1");
	assert_int_equal(w.n_unlease_one, 0);
	finish(2);
}

static void the_guard_refuses(void **state)
{
	runs(1);
	resize_grow(attempt, 1);
	assert_false(promised(0, -EBUSY)); /* of another device */
	assert_true(promised(1, -EBUSY));
	ended(RESIZE_REFUSED, "in use");
	assert_int_equal(w.n_unlease_one, 0); /* there is nothing to give back */
	/* Words that come late are for nobody. */
	assert_false(promised(1, 0));
	assert_false(granted(0));
	resize_grow(attempt, 1);
	assert_true(promised(1, 0));
	assert_true(granted(-EBUSY));
	ended(RESIZE_REFUSED, "in use");
	assert_string_equal(w.unleased_uuid, "GPU-1");
	has("GPU-0");
	w.link_code = -ENOTCONN;
	resize_grow(attempt, 1);
	ended(RESIZE_REFUSED, "the guard cannot be asked now");
	w.link_code = 0;
	finish(1);
}

static void a_device_that_is_not_there(void **state)
{
	runs(1);
	resize_grow(attempt, 1);
	assert_true(promised(-1, -ENODEV));
	ended(RESIZE_REFUSED, "in use");
	has("GPU-0");
	finish(1);
}

static void the_claim_cannot_be_written(void **state)
{
	runs(1);
	grow();
	w.note_code = -ENOSPC;
	world_jobs();
	assert_int_equal(told.resized, RESIZE_REFUSED);
	assert_string_equal(w.unleased_uuid, "GPU-1");
	assert_string_equal(w.file, "0 GPU-0\n"); /* its program never heard of it */
	has("GPU-0");
	w.note_code = 0;
	finish(1);
}

static void the_file_cannot_be_written(void **state)
{
	runs(1);
	grow();
	w.file_code = -ENOSPC;
	world_jobs();
	assert_int_equal(told.resized, RESIZE_REFUSED);
	assert_non_null(strstr(attempt->resize->why, "write"));
	assert_string_equal(w.noted, "GPU-0"); /* taken back */
	assert_string_equal(w.unleased_uuid, "GPU-1");
	has("GPU-0");
	finish(1);
}

static void somebody_comes_first(void **state)
{
	const struct msg_lease_taken at_0 = { .slot = 0, .reason.text = "taken by PID 9" },
				     at_1 = { .slot = 1, .reason.text = "taken by PID 9" };

	runs(1);
	assert_false(resize_on_taken(attempt, &at_1));
	resize_grow(attempt, 1);
	assert_false(resize_on_taken(attempt, &at_0));
	assert_true(resize_on_taken(attempt, &at_1));
	ended(RESIZE_REFUSED, "taken by PID 9");
	assert_string_equal(w.unleased_uuid, "GPU-1");
	resize_grow(attempt, 1);
	assert_true(promised(1, 0));
	assert_true(resize_on_taken(attempt, &at_1));
	ended(RESIZE_REFUSED, "taken by PID 9");
	has("GPU-0");
	finish(1);
}

static void the_guard_is_a_new_one(void **state)
{
	runs(1);
	resize_grow(attempt, 1);
	w.n_lease = 0;
	resize_on_guard(attempt);
	attempt_on_guard(attempt);
	ended(RESIZE_REFUSED, "the line to the guard was down");
	assert_int_equal(w.n_lease, 1);
	assert_string_equal(w.lease.uuid, "GPU-0"); /* what it has is leased again, and no more */
	at_promise(0, 0);
	has("GPU-0");
	/* What is granted is its own already. */
	grow();
	w.n_lease = 0;
	resize_on_guard(attempt);
	attempt_on_guard(attempt);
	assert_int_equal(told.n_resized, 0);
	assert_int_equal(w.n_lease, 2);
	at_promise(0, 0);
	at_promise(1, 0);
	world_jobs();
	ended(RESIZE_GROWN, "");
	has("GPU-0,GPU-1");
	finish(2);
}

static void it_ends_while_it_grows(void **state)
{
	/* Before the grant. */
	runs(1);
	resize_grow(attempt, 1);
	assert_true(promised(1, 0));
	at_exit(0);
	assert_true(granted(0));
	assert_int_equal(told.resized, RESIZE_REFUSED);
	assert_string_equal(w.unleased_uuid, "GPU-1");
	at_unlease(1); /* which is not for its end */
	at_expect("freeing");
	at_unlease(0);
	world_jobs();
	assert_int_equal(told.n_over, 1);
	at_end();
	/* Before it is written, and while it is. */
	for (int worked = 0; worked <= 1; worked++) {
		runs(1);
		grow();
		if (worked)
			assert_true(world_work());
		at_exit(0);
		at_unlease(0);
		at_expect("freeing");
		at_unlease(1);
		world_jobs();
		assert_int_equal(told.n_over, 1);
		at_end();
	}
}

/* ---- one back ---- */

static void it_gives_one_back(void **state)
{
	runs(2);
	resize_shrink(attempt, "GPU-1", RESIZE_IDLE);
	world_jobs();
	assert_string_equal(w.file, "0 GPU-0\n"); /* first of all */
	assert_string_equal(w.noted, "GPU-0,GPU-1");
	assert_int_equal(attempt->resize->step, RESIZE_AWAITING);
	has("GPU-0,GPU-1");
	assert_int_equal(w.n_unlease_one, 0);
	resize_left(attempt);
	assert_int_equal(w.n_unlease_one, 0); /* not before the claim tells */
	world_jobs();
	assert_string_equal(w.noted, "GPU-0");
	assert_string_equal(w.unleased_uuid, "GPU-1");
	ended(RESIZE_SHRUNK, "");
	has("GPU-0");
	/* That is free now changes nothing of the task. */
	{
		struct msg_unleased m = { .slot = 1, .uuid = "GPU-1" };

		attempt_on_unleased(attempt, &m);
		m.slot = -1;
		attempt_on_unleased(attempt, &m);
	}
	has("GPU-0");
	finish(1);
}

static void it_does_not_leave_it(void **state)
{
	runs(2);
	resize_shrink(attempt, "GPU-0", RESIZE_IDLE);
	world_jobs();
	assert_string_equal(w.file, "1 GPU-1\n");
	resize_keep(attempt);
	world_jobs();
	assert_string_equal(w.file, "0 GPU-0\n1 GPU-1\n");
	ended(RESIZE_KEPT, "");
	has("GPU-0,GPU-1");
	assert_int_equal(w.n_unlease_one, 0);
	finish(2);
}

static void what_cannot_be_written_is_kept(void **state)
{
	runs(2);
	w.file_code = -ENOSPC;
	resize_shrink(attempt, "GPU-1", RESIZE_IDLE);
	world_jobs();
	assert_int_equal(told.resized, RESIZE_KEPT);
	assert_non_null(strstr(attempt->resize->why, "write"));
	w.file_code = 0;
	resize_shrink(attempt, "GPU-1", RESIZE_IDLE);
	world_jobs();
	w.note_code = -ENOSPC;
	resize_left(attempt);
	world_jobs();
	assert_int_equal(told.n_resized, 2);
	assert_int_equal(told.resized, RESIZE_KEPT);
	assert_non_null(strstr(attempt->resize->why, "running/7"));
	assert_string_equal(w.file, "0 GPU-0\n1 GPU-1\n");
	assert_int_equal(w.n_unlease_one, 0);
	has("GPU-0,GPU-1");
	w.note_code = 0;
	finish(2);
}

static void it_ends_while_it_shrinks(void **state)
{
	for (int step = 0; step <= 2; step++) {
		runs(2);
		resize_shrink(attempt, "GPU-1", RESIZE_IDLE);
		if (step > 0)
			world_jobs();
		if (step > 1)
			resize_left(attempt);
		finish(2);
	}
}

/* ---- the file ---- */

int __real_gpus_file_write(const char *path, const char *text, struct err *e);

static void the_file_is_replaced(void **state)
{
	char dir[] = "/tmp/tenure-test-XXXXXX", path[PATH_MAX];
	cleanup_free char *text = NULL;
	struct stat first, second;
	struct err e = ERR_INIT;
	size_t len;

	assert_non_null(mkdtemp(dir));
	(void)gpus_file_path(dir, "token", path);
	assert_int_equal(__real_gpus_file_write(path, "0 GPU-0\n", &e), 0);
	assert_int_equal(stat(path, &first), 0);
	/* What it says already is no news. */
	assert_int_equal(__real_gpus_file_write(path, "0 GPU-0\n", &e), 0);
	assert_int_equal(stat(path, &second), 0);
	assert_int_equal(first.st_ino, second.st_ino);
	assert_int_equal(__real_gpus_file_write(path, "0 GPU-0\n1 GPU-1\n", &e), 0);
	assert_int_equal(stat(path, &second), 0);
	assert_int_not_equal(first.st_ino, second.st_ino);
	assert_int_equal(second.st_mode & 0777, 0600);
	assert_int_equal(fs_read_file(path, 4096, &text, &len, &e), 0);
	assert_string_equal(text, "0 GPU-0\n1 GPU-1\n");
	gpus_file_remove(dir, "token");
	assert_int_equal(stat(path, &second), -1);
	gpus_file_remove(dir, "token");
	assert_int_equal(rmdir(dir), 0);
}

/* Nothing begins before its program can find it. */
static void no_file_no_start(void **state)
{
	at_begin();
	w.gpus_max = 2;
	at_start_starting();
	w.file_code = -ENOSPC;
	world_say_status(SHMSG_PREPARED, SHIM_PREPARED, 4);
	world_jobs();
	assert_int_equal(w.n_grant, 0);
	assert_int_equal(w.n_go, 0);
	w.file_code = 0;
	assert_true(world_timer());
	world_jobs();
	assert_string_equal(w.file, "0 GPU-0\n");
	assert_int_equal(w.n_grant, 1);
	at_grant(0);
	world_say_status(SHMSG_STARTED, SHIM_RUNNING, 4);
	finish(1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_gets_one_more),
		cmocka_unit_test(the_guard_refuses),
		cmocka_unit_test(a_device_that_is_not_there),
		cmocka_unit_test(the_claim_cannot_be_written),
		cmocka_unit_test(the_file_cannot_be_written),
		cmocka_unit_test(somebody_comes_first),
		cmocka_unit_test(the_guard_is_a_new_one),
		cmocka_unit_test(it_ends_while_it_grows),
		cmocka_unit_test(it_gives_one_back),
		cmocka_unit_test(it_does_not_leave_it),
		cmocka_unit_test(what_cannot_be_written_is_kept),
		cmocka_unit_test(it_ends_while_it_shrinks),
		cmocka_unit_test(the_file_is_replaced),
		cmocka_unit_test(no_file_no_start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
