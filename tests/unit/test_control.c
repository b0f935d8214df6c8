/* SPDX-License-Identifier: MIT */

/* Orders as files, and their answers (spool_world.h). */

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "unit.h"

#include "agent/queue/order.h"
#include "base/mem.h"
#include "base/str.h"
#include "spool/control.h"
#include "spool/instance.h"
#include "spool/own.h"
#include "spool_world.h"

static void test_control(void **state)
{
	struct spool *sp = open_spool();
	struct err e = ERR_INIT;
	struct order_task task = { .id = 42, .element = 7 };
	struct order order = { .command = ORDER_STOP, .n = 1, .tasks = &task, .now = true }, got;
	char sent[SPOOL_PATH_MAX], at[SPOOL_PATH_MAX];
	json_t *answer = NULL, *doc = order_json(&order);

	assert_int_equal(control_next(sp, "node1", order_take, &got, at, &e), 1);
	assert_int_equal(control_send(sp, "node1", doc, sent, &e), 0);
	put(sp, "control/node1,x.json", "no json");
	assert_int_equal(control_answer_read(sp, sent, &answer, &e), 1);
	assert_int_equal(control_next(sp, "node", order_take, &got, at, &e), 1);
	assert_int_equal(control_next(sp, "node1", order_take, &got, at, &e), 0);
	assert_true(got.command == ORDER_STOP && got.n == 1 && got.now);
	assert_true(got.tasks[0].id == 42 && got.tasks[0].element == 7);
	order_clear(&got);
	assert_string_equal(at, sent);
	assert_false(control_take_back(sp, sent));
	assert_int_equal(control_answer(sp, at, json_pack("{s:i}", "code", 0), &e), 0);
	assert_int_equal(control_answer_read(sp, sent, &answer, &e), 0);
	assert_int_equal(json_object_size(answer), 1);
	json_decref(answer);

	/* A bad one is kept aside with its reason, and answered. */
	assert_int_equal(control_next(sp, "node1", order_take, &got, at, &e), 1);
	put(sp, "control/node1,y.json", "{\"command\":\"dance\"}");
	assert_int_equal(control_next(sp, "node1", order_take, &got, at, &e), 1);
	assert_non_null(strstr(e.text, "dance"));
	assert_false(spool_exists(sp, "control/node1,x.json") ||
		     spool_exists(sp, "control/node1,y.json"));
	assert_int_equal(count_files(sp, "bad"), 4);
	assert_int_equal(control_answer_read(sp, "control/node1,y.json", &answer, &e), 0);
	assert_int_equal(json_integer_value(json_object_get(answer, "code")), -EINVAL);
	json_decref(answer);

	/* A name without room for a number in tmp/ stops no order behind it. */
	char longest[NAME_FILE_MAX], path[SPOOL_PATH_MAX];

	(void)str_print(longest, sizeof(longest), "node1,%0*d.json",
			(int)(sizeof(longest) - strlen("node1,.json") - 1), 7);
	put(sp, spool_path(SPOOL_CONTROL, longest, path), "no json");
	assert_int_equal(control_next(sp, "node1", order_take, &got, at, &e), 1);
	assert_false(spool_exists(sp, path));
	/* Without tmp/ nothing can be taken, which is no reason to try for ever. */
	assert_int_equal(control_send(sp, "node1", doc, sent, &e), 0);
	assert_int_equal(spool_rename(sp, "tmp", "away", &e), 0);
	assert_int_equal(control_next(sp, "node1", order_take, &got, at, &e), -ENOENT);
	assert_int_equal(spool_rename(sp, "away", "tmp", &e), 0);
	assert_int_equal(control_next(sp, "node1", order_take, &got, at, &e), 0);
	order_clear(&got);

	/* Who has given up takes back what nobody took; who begins does not obey what is old. */
	assert_int_equal(control_send(sp, "node1", doc, sent, &e), 0);
	assert_true(control_take_back(sp, sent));
	assert_int_equal(control_send(sp, "node1", doc, sent, &e), 0);
	put(sp, "control/node10,x.json", "{\"command\":\"shutdown\"}");
	put(sp, "control/node1,a.answer", "{\"code\":0}");
	put(sp, "control/node1,b.answer", "{\"code\":0}");
	assert_int_equal(
		utimensat(sp->fd, "control/node1,b.answer", (struct timespec[2]){ { 0, 0 } }, 0),
		0);
	control_forget(sp, "node1");
	assert_int_equal(control_next(sp, "node1", order_take, &got, at, &e), 1);
	/* Who waits for it is told, and who has not fetched an answer yet may. */
	assert_int_equal(control_answer_read(sp, sent, &answer, &e), 0);
	assert_int_equal(json_integer_value(json_object_get(answer, "code")), -EAGAIN);
	json_decref(answer);
	assert_true(spool_exists(sp, "control/node1,a.answer"));
	assert_false(spool_exists(sp, "control/node1,b.answer"));
	assert_int_equal(control_next(sp, "node10", order_take, &got, at, &e), 0);
	order_clear(&got);
	json_decref(doc);
	sp = spool_close(sp);
}

static struct spool *flooded;
static unsigned int bad_orders;

/* Another one is there before this one is refused. */
static int refuse_and_send(const json_t *doc, void *ret, struct err *e)
{
	char path[SPOOL_PATH_MAX];

	(void)str_print(path, sizeof(path), "control/node1,%u.json", ++bad_orders);
	put(flooded, path, "{}");
	return err_set(e, -EINVAL, "no such command");
}

static void test_bad_orders_come_to_an_end(void **state)
{
	char at[SPOOL_PATH_MAX];
	struct err e = ERR_INIT;

	flooded = open_spool();
	put(flooded, "control/node1,0.json", "{}");
	(void)alarm(120);
	assert_int_equal(control_next(flooded, "node1", refuse_and_send, NULL, at, &e), 1);
	(void)alarm(0);
	assert_int_equal(bad_orders, 64);
	flooded = spool_close(flooded);
}

static void test_control_file(void **state)
{
	static const struct {
		const char *text, *why;
	} bad[] = {
		{ "{\"command\":\"stop_al\"}", "stop_all" },
		{ "{\"command\":\"stop_all\",\"sweep\":\"all\"}", "sweep: " },
		{ "{}", "no command" },
		{ "{\"command\":\"stop", "not a JSON object" },
	};
	struct spool *sp = open_spool();
	struct control_look look = { .size = 0 };
	struct control_order file;
	struct err e = ERR_INIT;

	assert_int_equal(control_file_take(sp, &look, control_order_read, &file, &e), 1);
	put(sp, "control.json", "{\"command\":\"stop\",\"task\":\"train.sh\"}");
	assert_int_equal(control_file_take(sp, &look, control_order_read, &file, &e), 0);
	assert_true(file.command == CONTROL_STOP && file.sweep == SPEC_CLEAN_MAX);
	assert_string_equal(file.task, "train.sh");
	free(file.task);
	put(sp, "control.json", "{\"command\":\"stop_all\",\"sweep\":\"python\"}");
	assert_int_equal(control_file_take(sp, &look, control_order_read, &file, &e), 0);
	assert_true(file.command == CONTROL_STOP_ALL && file.sweep == SPEC_CLEAN_PYTHON);
	assert_null(file.task);

	/* Caught while it is written. */
	put(sp, "control.json", "");
	assert_int_equal(control_file_take(sp, &look, control_order_read, &file, &e), 1);
	put(sp, "control.json", "{\"command\":\"shut");
	look.since_ns = 0;
	assert_int_equal(control_file_take(sp, &look, control_order_read, &file, &e), 1);
	put(sp, "control.json", "{\"command\":\"shutdown\"}");
	assert_int_equal(control_file_take(sp, &look, control_order_read, &file, &e), 0);
	assert_int_equal(file.command, CONTROL_SHUTDOWN);
	assert_int_equal(e.code, 0);
	assert_int_equal(count_files(sp, "bad"), 0);

	/* Only what stays wrong is. */
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		put(sp, "control.json", bad[i].text);
		assert_int_equal(control_file_take(sp, &look, control_order_read, &file, &e), 1);
		assert_true(spool_exists(sp, "control.json"));
		look.since_ns = 0; /* long ago */
		assert_int_equal(control_file_take(sp, &look, control_order_read, &file, &e), 1);
		assert_non_null(strstr(e.text, bad[i].why));
		assert_false(spool_exists(sp, "control.json"));
		assert_int_equal(count_files(sp, "bad"), 2 * (i + 1));
		e = (struct err)ERR_INIT;
	}
	sp = spool_close(sp);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, spool_setup, spool_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_control),
		TEST(test_bad_orders_come_to_an_end),
		TEST(test_control_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
