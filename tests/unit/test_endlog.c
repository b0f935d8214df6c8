/* SPDX-License-Identifier: MIT */

/* The journal of ends and requeues: what may be dropped of it, and what is read of it after a power
 * loss. */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "spool/batch.h"
#include "spool/instance.h"
#include "spool/own.h"
#include "spool/recover.h"
#include "spool_world.h"

#define CURRENT "events/me.tasks.jsonl"

static struct spool *sp;
static struct endlog *ev;
static const struct spool_end good_end = { .result = RESULT_DONE, .attempt = 1 };

/* A disk that fails: what was to be written is lost, though the next sync succeeds. */
static bool disk_fails, keeps;
static off_t on_disk;

int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);
int __wrap_fdatasync(int fd)
{
	static const char lost[4096];
	char path[64];
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	if (!disk_fails) {
		on_disk = st.st_size;
		return __real_fdatasync(fd);
	}
	if (keeps) {
		errno = EIO;
		return -1;
	}
	(void)str_print(path, sizeof(path), "/proc/self/fd/%d", fd);

	int again = open(path, O_WRONLY | O_CLOEXEC);

	assert_true(again >= 0 && st.st_size - on_disk < (off_t)sizeof(lost));
	assert_true(pwrite(again, lost, (size_t)(st.st_size - on_disk), on_disk) >= 0);
	(void)close(again);
	errno = EIO;
	return -1;
}

/* Opens the spool and the journal as an agent does; boot NULL: in this boot. */
static void begin(const char *boot)
{
	struct err e = ERR_INIT;

	sp = open_spool();
	if (boot)
		(void)str_copy(sp->boot, sizeof(sp->boot), boot);
	if (endlog_open(sp, "me", &ev, &e) < 0)
		fail_msg("%s", e.text);
}

static void end(void)
{
	ev = endlog_close(ev);
	sp = spool_close(sp);
}

static int setup(void **state)
{
	assert_int_equal(spool_setup(state), 0);
	begin("an-earlier-boot");
	return 0;
}

static int teardown(void **state)
{
	end();
	return spool_teardown(state);
}

static void add(uint64_t id)
{
	assert_int_equal(endlog_add_end(ev, id, 0, &good_end, NULL), 0);
}

struct told {
	size_t n;
	uint64_t sum, last_epoch;
};

static void on_event(void *data, const struct endlog_line *event)
{
	struct told *t = data;

	t->n++;
	t->sum += event->id;
	t->last_epoch = event->end.epoch;
}

/* Of what another boot would be told. */
static uint64_t sum_of_ids(void)
{
	char boot[SPOOL_BOOT_MAX];
	struct told t = { .n = 0 };

	(void)str_copy(boot, sizeof(boot), sp->boot);
	(void)str_copy(sp->boot, sizeof(sp->boot), "a-later-boot");
	assert_int_equal(endlog_read_old(sp, on_event, &t, NULL), 0);
	(void)str_copy(sp->boot, sizeof(sp->boot), boot);
	return t.sum;
}

/* Only what was there when the part was cut off goes, and only when the caller says so. */
static void test_parts(void **state)
{
	uint64_t part, second;

	assert_false(endlog_is_long(ev));
	assert_int_equal(endlog_cut(ev, &part, NULL), ENDLOG_KEPT); /* there are none */
	add(1);
	assert_int_equal(endlog_cut(ev, &part, NULL), 0);
	assert_int_equal(sum_of_ids(), 1);
	add(10);
	assert_int_equal(sum_of_ids(), 11);
	assert_int_equal(endlog_cut(ev, &second, NULL), 0);
	add(100);
	assert_int_equal(endlog_drop(ev, part, NULL), 0);
	assert_int_equal(sum_of_ids(), 110);
	assert_int_equal(endlog_drop(ev, second, NULL), 0);
	assert_int_equal(sum_of_ids(), 100);
	/* An agent that ended between the two goes on from where it was. */
	assert_int_equal(endlog_cut(ev, &part, NULL), 0);
	assert_true(part > second);
	end();
	begin("an-earlier-boot");
	assert_int_equal(sum_of_ids(), 100);
	add(1000);
	assert_int_equal(endlog_cut(ev, &second, NULL), ENDLOG_KEPT); /* not recovered yet */
	endlog_recovered(ev);
	assert_true(endlog_is_long(ev));
	assert_int_equal(endlog_cut(ev, &second, NULL), 0);
	assert_true(second > part);
	assert_false(endlog_is_long(ev));
	assert_int_equal(endlog_drop(ev, second, NULL), 0);
	assert_int_equal(sum_of_ids(), 0);
}

/* The kernel tells once that something could not be written, and then takes it for written. */
static void test_failed_sync(void **state)
{
	struct stat st;
	off_t size;

	add(1);
	assert_int_equal(endlog_sync(ev, NULL), 0);
	add(10);
	assert_int_equal(fstatat(sp->fd, CURRENT, &st, 0), 0);
	size = st.st_size;
	disk_fails = true;
	assert_int_equal(endlog_sync(ev, NULL), -EIO);
	assert_int_equal(endlog_sync(ev, NULL), -EIO);
	assert_int_equal(sum_of_ids(), 1);
	disk_fails = false;
	assert_int_equal(endlog_sync(ev, NULL), 0);
	assert_int_equal(sum_of_ids(), 11);
	assert_int_equal(fstatat(sp->fd, CURRENT, &st, 0), 0);
	assert_int_equal(st.st_size, size);

	/* Also where more came behind what was lost. */
	add(100);
	disk_fails = true;
	assert_int_equal(endlog_sync(ev, NULL), -EIO);
	add(1000);
	disk_fails = false;
	assert_int_equal(endlog_sync(ev, NULL), 0);
	assert_int_equal(sum_of_ids() % 1000, 111); /* 1000 may be there twice */
}

/* More than is kept of it is lost by the disk: all of it that can be read is written anew, and the
 * file does not grow with each try. */
static void test_failed_sync_of_many(void **state)
{
	struct spool_end long_end = good_end;
	struct stat st;
	off_t size = 0;

	(void)memset(long_end.reason, 'x', sizeof(long_end.reason) - 1);
	for (uint64_t id = 1; size < 5 << 20; id++) {
		assert_int_equal(endlog_add_end(ev, id, 0, &long_end, NULL), 0);
		assert_int_equal(fstatat(sp->fd, CURRENT, &st, 0), 0);
		size = st.st_size;
	}
	disk_fails = keeps = true;
	for (int i = 0; i < 5; i++)
		assert_int_equal(endlog_sync(ev, NULL), -EIO);
	assert_int_equal(fstatat(sp->fd, CURRENT, &st, 0), 0);
	assert_true(st.st_size < 2 * size);
	disk_fails = keeps = false;
	assert_int_equal(endlog_sync(ev, NULL), 0);
	size = st.st_size;
	add(1);
	assert_int_equal(endlog_sync(ev, NULL), 0);
	assert_int_equal(fstatat(sp->fd, CURRENT, &st, 0), 0);
	assert_true(st.st_size > size && st.st_size < size + 4096);
}

/* Above some MiB. */
static void test_many(void **state)
{
	struct spool_end long_end = good_end;
	uint64_t part;

	(void)memset(long_end.reason, 'x', sizeof(long_end.reason) - 1);
	for (int i = 0; i < 20000 && !endlog_is_long(ev); i++)
		assert_int_equal(endlog_add_end(ev, 1, 1, &long_end, NULL), 0);
	assert_true(endlog_is_long(ev));
	assert_int_equal(endlog_cut(ev, &part, NULL), 0);
	assert_false(endlog_is_long(ev));
	add(7);
	assert_false(endlog_is_long(ev));
}

static void recover(struct recover_counts *n)
{
	struct claimer me = self(sp, "me");
	struct err e = ERR_INIT;

	if (recover_run(sp, &me, ev, NULL, n, &e) < 0)
		fail_msg("%s", e.text);
}

static void append(const char *text)
{
	int fd = openat(sp->fd, CURRENT, O_WRONLY | O_APPEND);

	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	(void)close(fd);
}

/* As large as a year makes it, with the hole of a power loss and with lines that say nothing. */
static void test_large(void **state)
{
	uint64_t id = submit(sp, "{\"argv\":[\"true\"]}");
	struct recover_counts n;
	uint64_t part;

	assert_int_equal(id, 1);
	append("{\"event\":\"end\",\"id\":-1,\"epoch\":0,\"result\":\"done\",\"boot\":\"x\"}\n"
	       "{\"event\":\"end\",\"id\":1,\"epoch\":-7,\"element\":-1,\"result\":\"done\",\"boot\":\"x\"}\n"
	       "{\"event\":\"end\",\"id\":1,\"epoch\":99999999999,\"result\":\"done\",\"boot\":\"x\"}\n"
	       "{\"event\":\"requeue\",\"id\":1,\"epoch\":0,\"boot\":\"x\"}\n"
	       "{\"event\":\"end\",\"id\":9");
	assert_int_equal(
		truncate(str_print((char[256]){ 0 }, 256, "%s/%s", sp->path, CURRENT), 300 << 20),
		0);
	add(id); /* which begins on a line of its own */
	end();
	begin(NULL);
	recover(&n);
	assert_int_equal(n.filed, 1);
	assert_int_equal(n.requeued + n.problems, 0);
	assert_true(endlog_is_long(ev));
	assert_int_equal(endlog_cut(ev, &part, NULL), 0);
	assert_int_equal(endlog_drop(ev, part, NULL), 0);
	assert_false(spool_exists(sp, "pending/00500,1,ntrue"));
}

/* What could not be brought to where it belongs is needed again. */
static void test_problem(void **state)
{
	uint64_t id = submit(sp, "{\"argv\":[\"true\"]}"), part;
	struct recover_counts n;

	add(id);
	end();
	begin(NULL);
	/* done/ is no directory at this moment. */
	assert_int_equal(renameat(sp->fd, "done", sp->fd, "away"), 0);
	assert_int_equal(spool_write_new(sp, "done", "", 0, false, NULL), 0);
	recover(&n);
	assert_true(n.problems > 0);
	assert_int_equal(endlog_cut(ev, &part, NULL), ENDLOG_KEPT);
	assert_false(endlog_is_long(ev));
	end();
	begin(NULL);
	assert_int_equal(spool_unlink(sp, "done", NULL), 0);
	assert_int_equal(renameat(sp->fd, "away", sp->fd, "done"), 0);
	recover(&n);
	assert_int_equal(n.problems, 0);
	assert_int_equal(endlog_cut(ev, &part, NULL), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_parts), TEST(test_failed_sync), TEST(test_failed_sync_of_many),
		TEST(test_many),  TEST(test_large),	  TEST(test_problem)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
