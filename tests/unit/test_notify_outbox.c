/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "unit.h"

#include "base/json_get.h"
#include "base/units.h"
#include "notify/missed.h"
#include "notify/outbox.h"

#define START 1000000000000ULL /* ms: virtual time */

static struct channel channel(void)
{
	static char name[] = "c";

	return (struct channel){ .name = name, .per_hour = 100, .retry_ms = 1000 };
}

static void add(struct outbox *o, const struct channel *ch, const char *text, uint64_t at)
{
	json_t *event = json_pack("{ss ss}", "event", "test", "text", text);

	outbox_add(o, ch, event, at);
	json_decref(event);
}

/* The text of what is due, or NULL; *n: of how many events. */
static const char *due(struct outbox *o, const struct channel *ch, uint64_t at, size_t *n)
{
	static char text[256];
	json_t *message = outbox_due(o, ch, at, n);

	if (message)
		json_get_text(message, "text", text, sizeof(text));
	json_decref(message);
	return message ? text : NULL;
}

static void went(struct outbox *o, const struct channel *ch, size_t n, enum delivered how,
		 uint64_t at)
{
	outbox_result(o, ch, n, &(struct delivery_result){ .how = how, .text = "so" }, at);
}

static void test_in_order_and_each_by_itself(void **state)
{
	struct outbox *o = outbox_new("/nowhere/x");
	struct channel ch = channel();
	size_t n;

	assert_null(due(o, &ch, START, &n));
	add(o, &ch, "a", START);
	add(o, &ch, "b", START);
	assert_string_equal(due(o, &ch, START, &n), "a");
	went(o, &ch, n, DELIVERED, START);
	assert_string_equal(due(o, &ch, START, &n), "b");
	went(o, &ch, n, DELIVERED, START);
	assert_null(due(o, &ch, START, &n));
	assert_true(outbox_due_at(o, &ch) == UINT64_MAX);
	o = outbox_free(o);
}

static void test_back_off_doubles_up_to_an_hour_and_ends_after_a_day(void **state)
{
	struct outbox *o = outbox_new("/nowhere/x");
	struct channel ch = channel();
	uint64_t at = START, wait = 1000;
	unsigned int tries = 0;
	size_t n;

	add(o, &ch, "a", START);
	while (due(o, &ch, at, &n)) {
		went(o, &ch, n, DELIVER_LATER, at);
		assert_true(outbox_due_at(o, &ch) == at + wait);
		assert_null(due(o, &ch, at + wait - 1, &n)); /* and dropped, when it is too old */
		at += wait;
		wait = 2 * wait < OUTBOX_WAIT_MAX_MS ? 2 * wait : OUTBOX_WAIT_MAX_MS;
		tries++;
	}
	assert_true(at > START + OUTBOX_AGE_MS && at <= START + OUTBOX_AGE_MS + MS_PER_H);
	assert_in_range(tries, 24, 48);
	assert_int_equal(json_get_u64(outbox_channel(o, "c"), "dropped"), 1);
	o = outbox_free(o);
}

static void test_what_had_to_wait_comes_as_one(void **state)
{
	struct outbox *o = outbox_new("/nowhere/x");
	struct channel ch = channel();
	size_t n;

	for (char text[] = "a"; text[0] < 'f'; text[0]++)
		add(o, &ch, text, START);
	assert_string_equal(due(o, &ch, START, &n), "a");
	went(o, &ch, n, DELIVER_LATER, START);
	assert_true(strncmp(due(o, &ch, START + 1000, &n), "5 events", 8) == 0 && n == 5);
	went(o, &ch, n, DELIVERED, START + 1000);
	assert_null(due(o, &ch, START + 1000, &n));
	o = outbox_free(o);
}

static void test_a_refused_one_is_not_in_the_way(void **state)
{
	struct outbox *o = outbox_new("/nowhere/x");
	struct channel ch = channel();
	size_t n;

	add(o, &ch, "bad", START);
	add(o, &ch, "good", START);
	assert_string_equal(due(o, &ch, START, &n), "bad");
	went(o, &ch, n, DELIVER_REFUSED, START);
	assert_string_equal(due(o, &ch, START + 1000, &n), "good");
	o = outbox_free(o);
}

static void test_digest_and_limit(void **state)
{
	struct outbox *o = outbox_new("/nowhere/x");
	struct channel ch = channel();
	json_t *message;
	size_t n;

	ch.digest_ms = 60000;
	add(o, &ch, "a", START);
	add(o, &ch, "b", START + 59000);
	assert_null(due(o, &ch, START + 59999, &n));
	assert_true(due(o, &ch, START + 60000, &n) && n == 2);
	went(o, &ch, n, DELIVERED, START + 60000);
	ch.digest_ms = 0;
	ch.per_hour = 2; /* of which one has been sent */
	for (unsigned int i = 0; i < 4; i++)
		add(o, &ch, "c", START + 60000);
	message = outbox_due(o, &ch, START + 60000, &n);
	assert_int_equal(json_get_u64(message, "dropped"), 3);
	json_decref(message);
	add(o, &ch, "d", START + 60000); /* dropped while it is told */
	went(o, &ch, n, DELIVERED, START + 60000);
	assert_int_equal(json_get_u64(outbox_channel(o, "c"), "dropped"), 1);
	assert_null(due(o, &ch, START + 60000, &n));
	add(o, &ch, "e", START + 60000 + MS_PER_H);
	assert_string_equal(due(o, &ch, START + 60000 + MS_PER_H, &n), "e");
	o = outbox_free(o);
}

static void test_bounded_and_what_is_sent_stays(void **state)
{
	struct outbox *o = outbox_new("/nowhere/x");
	struct channel ch = channel();
	size_t n;

	ch.per_hour = 1000;
	add(o, &ch, "first", START);
	assert_string_equal(due(o, &ch, START, &n), "first");
	for (unsigned int i = 0; i < OUTBOX_WAITING_MAX + 10; i++)
		add(o, &ch, i == 10 ? "next" : "x", START);
	assert_int_equal(json_array_size(json_object_get(outbox_channel(o, "c"), "waiting")),
			 OUTBOX_WAITING_MAX);
	went(o, &ch, n, DELIVERED, START);
	assert_int_equal(json_get_u64(outbox_channel(o, "c"), "dropped"), 11);
	assert_string_equal(due(o, &ch, START, &n), "x");
	o = outbox_free(o);
}

static void test_a_clock_that_is_set_back(void **state)
{
	struct outbox *o = outbox_new("/nowhere/x");
	struct channel ch = channel();
	size_t n;

	add(o, &ch, "a", START - 7 * MS_PER_DAY);
	assert_non_null(due(o, &ch, START - 7 * MS_PER_DAY + 1, &n));
	went(o, &ch, n, DELIVER_LATER, START);
	assert_non_null(due(o, &ch, START - 7 * MS_PER_DAY + 2, &n));
	o = outbox_free(o);
}

static void test_ids(void **state)
{
	assert_true(event_id_before("", "1.0") && event_id_before("1.9", "1.10") &&
		    event_id_before("9.5", "10.0"));
	assert_false(event_id_before("1.9", "1.9") || event_id_before("2.0", "1.9") ||
		     event_id_before("", ""));
	assert_true(event_id_follows("5.9", "5.10"));
	assert_false(event_id_follows("5.9", "5.11") || event_id_follows("5.9", "6.0") ||
		     event_id_follows("", "5.0"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_in_order_and_each_by_itself),
		cmocka_unit_test(test_back_off_doubles_up_to_an_hour_and_ends_after_a_day),
		cmocka_unit_test(test_what_had_to_wait_comes_as_one),
		cmocka_unit_test(test_a_refused_one_is_not_in_the_way),
		cmocka_unit_test(test_digest_and_limit),
		cmocka_unit_test(test_bounded_and_what_is_sent_stays),
		cmocka_unit_test(test_a_clock_that_is_set_back),
		cmocka_unit_test(test_ids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
