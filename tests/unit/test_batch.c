/* SPDX-License-Identifier: MIT */

/* Numbers of elements that do not fit their batch, from names, journals and callers. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "spool/batch.h"
#include "spool/batch_retry.h"
#include "spool/instance.h"
#include "spool/own.h"
#include "spool/recover.h"
#include "spool/scan.h"
#include "spool/transit.h"
#include "spool_world.h"

#define FAR 1000000 /* elements that a batch of three does not have */

static struct spool *sp;
static struct batch *b;
static struct task_name name; /* of b */

static int setup(void **state)
{
	struct scan_task t;

	assert_int_equal(spool_setup(state), 0);
	sp = open_spool();
	assert_true(get(sp, submit(sp, "{\"script\":\"x\",\"array\":\"1-3\"}"), &t));
	name = t.name;
	assert_int_equal(batch_open(sp, &name, "me", &b, NULL), 0);
	return 0;
}

static int teardown(void **state)
{
	b = batch_close(b);
	sp = spool_close(sp);
	return spool_teardown(state);
}

static void put_new(const char *path, const char *text)
{
	struct err e = ERR_INIT;

	if (spool_write_new(sp, path, text, strlen(text), false, &e) < 0)
		fail_msg("%s", e.text);
}

/* Whatever a caller asks of an element that the batch does not have. */
static void check_outside(uint64_t element)
{
	struct claimer me = self(sp, "me");
	struct claim c = { .name = { .id = name.id, .element = element }, .who = me };
	struct spool_end end = { .result = RESULT_DONE };
	const struct spool_again again = { .attempts = 1 };
	unsigned int attempts;
	uint64_t epoch;
	struct err e = ERR_INIT;

	batch_mark_running(b, element, 0);
	assert_int_equal(batch_state(b, element, &epoch, &attempts), BATCH_CANCELLED);
	assert_int_equal(epoch + attempts, 0);
	assert_null(batch_again_of(b, element));
	assert_int_equal(batch_claim(b, element, &me, &c, &e), CLAIM_LOST);
	assert_int_equal(batch_retry(b, element, "x", &e), -ERANGE);
	(void)str_print(c.path, sizeof(c.path), "running/%llu.%llu,e0", (unsigned long long)name.id,
			(unsigned long long)element);
	assert_false(spool_exists(sp, c.path));
	/* One that has run all the same leaves nothing behind. */
	put_new(c.path, "");
	assert_int_equal(batch_end(b, NULL, &c, &end, &e), 0);
	assert_false(spool_exists(sp, c.path));
	put_new(c.path, "");
	assert_int_equal(batch_requeue(b, NULL, &c, &again, &e), 0);
	assert_false(spool_exists(sp, c.path));
}

static void test_outside(void **state)
{
	check_outside(0);
	check_outside(4);
	check_outside(FAR);
	assert_int_equal(batch_counts(b).waiting, 3);
}

/* Whoever reads the claim knows whether something may run under it. */
static void check_tool(uint64_t element, bool tool)
{
	struct task_history h = { .claimed = false };
	struct claimer me = self(sp, "me");
	cleanup_free char *text = NULL;
	struct claim c;
	size_t len;

	me.tool = tool;
	assert_int_equal(batch_claim_to_end(b, element, &me, &c, NULL), 0);
	assert_int_equal(spool_read(sp, c.path, SPEC_TEXT_MAX, &text, &len, NULL), 0);
	history_read(text, len, &h, NULL);
	assert_true(h.claimed);
	assert_int_equal(h.claimer.tool, tool);
	assert_string_equal(h.claimer.agent, "me");
}

static void test_claim_of_a_tool(void **state)
{
	check_tool(1, true);
	check_tool(2, false);
}

/* The batch got another number of elements under our hands. */
static void test_other_count(void **state)
{
	struct claimer me = self(sp, "me");
	struct spool_end end = { .result = RESULT_DONE };
	struct task_name other = name;
	struct err e = ERR_INIT;
	struct claim c;

	assert_int_equal(batch_claim(b, 2, &me, &c, &e), 0);
	assert_int_equal(batch_end(b, NULL, &c, &end, &e), 0);
	other.count = 90000;
	batch_set_name(b, &other);
	assert_int_equal(batch_refresh(b, &e), 0);
	assert_int_equal(batch_counts(b).waiting, 89999);
	assert_int_equal(batch_counts(b).done, 1);
	batch_mark_running(b, 90000, 0);
	assert_int_equal(batch_counts(b).running, 1);
	other.count = 2;
	batch_set_name(b, &other);
	assert_int_equal(batch_refresh(b, &e), 0);
	assert_int_equal(batch_counts(b).waiting, 1);
	assert_int_equal(batch_counts(b).done, 1);
	assert_int_equal(batch_next(b, 0), 1);
	check_outside(3);
}

/* Lines of a journal with numbers that nothing can have. */
static void test_bad_journal(void **state)
{
	static const char lines[] =
		"{\"event\":\"end\",\"epoch\":0,\"result\":\"done\",\"element\":4}\n"
		"{\"event\":\"end\",\"epoch\":0,\"result\":\"done\",\"element\":-1}\n"
		"{\"event\":\"requeue\",\"epoch\":-1,\"element\":1}\n"
		"{\"event\":\"requeue\",\"epoch\":9223372036854775807,\"element\":1}\n"
		"{\"event\":\"end\",\"epoch\":9223372036854775807,\"result\":\"done\",\"element\":2}\n"
		"{\"event\":\"requeue\",\"epoch\":1,\"element\":1000000}\n"
		"[1]\nnull\n\n"
		"{\"event\":\"end\",\"epoch\":0,\"result\":\"failed\",\"element\":3}\n";
	char path[SPOOL_PATH_MAX];
	unsigned int attempts;
	uint64_t epoch;
	struct err e = ERR_INIT;

	(void)str_print(path, sizeof(path), "ends/%llu", (unsigned long long)name.id);
	assert_int_equal(mkdirat(sp->fd, path, 0700), 0);
	(void)str_print(path, sizeof(path), "ends/%llu/other", (unsigned long long)name.id);
	put_new(path, lines);
	assert_int_equal(batch_refresh(b, &e), 0);
	assert_int_equal(batch_counts(b).waiting, 2);
	assert_int_equal(batch_counts(b).failed, 1);
	assert_int_equal(batch_state(b, 1, &epoch, &attempts), BATCH_WAITING);
	assert_int_equal(epoch, 0);
}

/* A journal is as long as its name says and holds nothing: no room is made for that. */
static void test_hole(void **state)
{
	char path[SPOOL_PATH_MAX];
	struct err e = ERR_INIT;
	int fd;

	(void)str_print(path, sizeof(path), "ends/%llu", (unsigned long long)name.id);
	assert_int_equal(mkdirat(sp->fd, path, 0700), 0);
	(void)str_print(path, sizeof(path), "ends/%llu/other", (unsigned long long)name.id);
	fd = openat(sp->fd, path, O_RDWR | O_CREAT | O_APPEND, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 300 << 20), 0);
	assert_int_equal(
		dprintf(fd,
			"\n{\"event\":\"end\",\"epoch\":0,\"result\":\"done\",\"element\":1}\n") >
			0,
		1);
	(void)close(fd);
	assert_int_equal(batch_refresh(b, &e), 0);
	assert_int_equal(batch_counts(b).done, 1);
}

static enum liveness all_dead(void *data, const struct claim *c)
{
	return LIVENESS_DEAD;
}

/* What lies in running/ of an element that there is not goes, and the rest is recovered. */
static void test_recover_outside(void **state)
{
	static const struct recover_calls dead = { .life = all_dead };
	struct spool_end end = { .result = RESULT_DONE, .attempt = 1 };
	struct claimer me = self(sp, "me");
	struct recover_counts n;
	struct endlog *ev = NULL;
	struct err e = ERR_INIT;
	struct claim c;

	put_new("running/1.1000000,e0", "");
	assert_int_equal(batch_claim(b, 1, &me, &c, &e), 0);
	(void)str_copy(sp->boot, sizeof(sp->boot), "an-earlier-boot");
	assert_int_equal(endlog_open(sp, "me", &ev, &e), 0);
	assert_int_equal(endlog_add_end(ev, name.id, FAR, &end, &e), 0);
	assert_int_equal(endlog_add_end(ev, name.id, 4, &end, &e), 0);
	ev = endlog_close(ev);
	sp = spool_close(sp);
	b = batch_close(b);
	sp = open_spool();
	assert_int_equal(recover_run(sp, &me, NULL, &dead, &n, &e), 0);
	assert_int_equal(n.problems + n.filed, 0);
	assert_int_equal(n.requeued, 1);
	assert_false(spool_exists(sp, "running/1.1000000,e0"));
	assert_int_equal(batch_open(sp, &name, "me", &b, NULL), 0);
	assert_int_equal(batch_counts(b).waiting, 3);
}

static int edit(struct task_name *n, const char *json, struct err *e)
{
	json_t *set = json_loads(json, 0, NULL);
	int r = transit_edit(sp, n, &(struct transit_edit){ .set = set }, e);

	json_decref(set);
	return r;
}

/* What an element is, and how many there are, stays; how many at once may change. */
static void test_edit(void **state)
{
	static const char *const bad[] = { "{\"array\":\"1-900000\"}", "{\"array\":\"2-4\"}",
					   "{\"array\":\"1-2\"}", "{\"sweep\":[\"a=1,2,3\"]}",
					   "{\"commands\":[\"a\"]}" };
	struct scan_task single;
	struct err e = ERR_INIT;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(edit(&name, bad[i], &e), -EINVAL);
		assert_non_null(strstr(e.text, "submit"));
	}
	assert_int_equal(edit(&name, "{\"array\":\"1-3%2\",\"memory\":\"1G\"}", &e), 0);
	assert_true(name.count == 3 && name.flags == NAME_LIMIT);
	assert_true(get(sp, submit(sp, "{\"argv\":[\"true\"]}"), &single));
	assert_int_equal(edit(&single.name, "{\"array\":\"1-3\"}", &e), -EINVAL);
	assert_int_equal(edit(&single.name, "{\"gpus\":2}", &e), 0);
}

/* What runs, and before which listing of a directory it ends; 0: before none. */
static struct claim running;
static unsigned int listings, end_at;

int __real_scan_dir(const struct spool *s, const char *dir, scan_name_fn fn, void *data,
		    struct err *e);
int __wrap_scan_dir(const struct spool *s, const char *dir, scan_name_fn fn, void *data,
		    struct err *e);

static void end_running(void)
{
	struct spool_end end = { .result = RESULT_DONE, .epoch = running.name.epoch };

	assert_int_equal(batch_end(b, NULL, &running, &end, NULL), 0);
}

int __wrap_scan_dir(const struct spool *s, const char *dir, scan_name_fn fn, void *data,
		    struct err *e)
{
	if (++listings == end_at)
		end_running();
	return __real_scan_dir(s, dir, fn, data, e);
}

/* Since then it waits in a back-off, by our clock. */
static void fail_once(uint64_t element)
{
	const struct spool_again again = { .attempts = 1,
					   .not_before_ns = clock_wall_ns() + 3600 * NS_PER_S };
	struct claimer me = self(sp, "me");
	struct claim c;

	assert_int_equal(batch_claim(b, element, &me, &c, NULL), 0);
	assert_int_equal(batch_requeue(b, NULL, &c, &again, NULL), 0);
}

static enum batch_state state_of(uint64_t element, uint64_t *ret_epoch)
{
	struct batch *now = NULL;
	enum batch_state state;
	unsigned int attempts;

	assert_int_equal(batch_open(sp, &name, NULL, &now, NULL), 0);
	state = batch_state(now, element, ret_epoch, &attempts);
	(void)batch_close(now);
	return state;
}

/* By the clock of the node that claimed it the back-off was over. */
static void claim_again(uint64_t element)
{
	struct claimer me = self(sp, "me");

	assert_int_equal(batch_claim(b, element, &me, &running, NULL), 0);
	assert_int_equal(running.name.epoch, 1);
}

/* What ends a back-off is not for what runs: that would run a second time, and its end count for
 * nothing. */
static void test_hasten_of_what_runs(void **state)
{
	const struct task_name before = name;
	uint64_t epoch;

	fail_once(1);
	claim_again(1);
	assert_int_equal(batch_retry_waiting(sp, &name, "resume-x", NULL), BATCH_RETRY_NONE);
	assert_int_equal(name.epoch, before.epoch);

	fail_once(2);
	assert_int_equal(batch_retry_waiting(sp, &name, "resume-x", NULL), 0);
	assert_int_equal(name.epoch, before.epoch + 1);
	assert_int_equal(state_of(1, &epoch), BATCH_WAITING);
	assert_int_equal(epoch, 1);
	assert_int_equal(state_of(2, &epoch), BATCH_WAITING);
	assert_int_equal(epoch, 2);
	end_running();
	assert_int_equal(state_of(1, &epoch), BATCH_DONE);
}

/* It ends after the journals have been read, and before running/ is. */
static void test_hasten_of_what_ends(void **state)
{
	uint64_t epoch;

	fail_once(1);
	fail_once(2);
	claim_again(1);
	listings = 0;
	end_at = 2; /* the first look is at whether there is anything to be done */
	assert_int_equal(batch_retry_waiting(sp, &name, "resume-x", NULL), 0);
	end_at = 0;
	assert_int_equal(listings, 2);
	assert_int_equal(state_of(1, &epoch), BATCH_DONE);
	assert_int_equal(epoch, 1);
	assert_int_equal(state_of(2, &epoch), BATCH_WAITING);
	assert_int_equal(epoch, 2);
}

static size_t lines_of(const char *path)
{
	cleanup_free char *text = NULL;
	size_t len, n = 0;

	assert_int_equal(spool_read(sp, path, SPEC_TEXT_MAX, &text, &len, NULL), 0);
	for (size_t i = 0; i < len; i++)
		n += text[i] == '\n';
	return n;
}

/* Their files in running/ could not be removed, or the agent was killed before: what is told again,
 * by it or the one after it, is in the journal once. */
static void test_told_again(void **state)
{
	const struct spool_again again = { .attempts = 1 };
	struct spool_end end = { .result = RESULT_FAILED, .begun_ns = clock_wall_ns() };
	struct claimer me = self(sp, "me");
	struct claim c[3];
	struct err e = ERR_INIT;
	unsigned int attempts;
	uint64_t epoch;

	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(batch_claim(b, i + 1, &me, &c[i], &e), 0);
	for (int told = 0; told < 3; told++) {
		if (told == 2) {
			b = batch_close(b);
			assert_int_equal(batch_open(sp, &name, "me", &b, NULL), 0);
		}
		assert_int_equal(batch_end(b, NULL, &c[0], &end, &e), 0);
		assert_int_equal(batch_requeue(b, NULL, &c[1], &again, &e), 0);
		assert_int_equal(batch_end(b, NULL, &c[2], &end, &e), 0);
	}
	assert_int_equal(lines_of("ends/1/me"), 3);
	assert_int_equal(batch_state(b, 2, &epoch, &attempts), BATCH_WAITING);
	assert_true(epoch == 1 && attempts == 1);

	/* An end of an epoch that is over stands there, too, and changes nothing. */
	assert_int_equal(batch_end(b, NULL, &c[1], &end, &e), BATCH_SUPERSEDED);
	assert_int_equal(lines_of("ends/1/me"), 4);
	assert_int_equal(batch_state(b, 2, &epoch, &attempts), BATCH_WAITING);
}

/* Who reads the journals may come to a later requeue first. */
static void test_memory(void **state)
{
	static const char *const lines[] = {
		"{\"event\":\"requeue\",\"element\":2,\"epoch\":1,\"attempts\":1,\"memory\":5}\n",
		"{\"event\":\"requeue\",\"element\":2,\"epoch\":2,\"attempts\":1}\n",
		"{\"event\":\"requeue\",\"element\":2,\"epoch\":3,\"attempts\":2,\"memory\":8}\n",
		"{\"event\":\"requeue\",\"element\":2,\"epoch\":4,\"attempts\":2}\n",
	};
	static const int orders[][4] = { { 0, 1, 2, 3 }, { 3, 2, 1, 0 }, { 2, 0, 3, 1 } };
	static const uint64_t expected[] = { 0, 5, 5, 8, 8 };
	char path[SPOOL_PATH_MAX];

	assert_int_equal(batch_memory_in(b, 2, 4), 0);
	assert_int_equal(batch_memory_most(b), 0);
	assert_int_equal(batch_refresh_now(b, NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(orders); i++) {
		b = batch_close(b);
		assert_int_equal(batch_open(sp, &name, "me", &b, NULL), 0);
		for (size_t k = 0; k < 4; k++) {
			put_new(str_print(path, sizeof(path), "ends/1/n%zu", k),
				lines[orders[i][k]]);
			assert_int_equal(batch_refresh(b, NULL), 0);
		}
		for (uint64_t epoch = 0; epoch < ARRAY_LEN(expected); epoch++)
			assert_int_equal(batch_memory_in(b, 2, epoch), expected[epoch]);
		assert_int_equal(batch_again_of(b, 2)->memory, 8);
		assert_int_equal(batch_memory_most(b), 8);
		assert_int_equal(batch_again_of(b, 2)->epoch, 4);
		for (size_t k = 0; k < 4; k++)
			assert_int_equal(
				spool_unlink(sp, str_print(path, sizeof(path), "ends/1/n%zu", k),
					     NULL),
				0);
	}
	assert_int_equal(batch_memory_in(b, FAR, 1), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_outside),
		TEST(test_claim_of_a_tool),
		TEST(test_other_count),
		TEST(test_bad_journal),
		TEST(test_hole),
		TEST(test_told_again),
		TEST(test_memory),
		TEST(test_recover_outside),
		TEST(test_edit),
		TEST(test_hasten_of_what_runs),
		TEST(test_hasten_of_what_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
