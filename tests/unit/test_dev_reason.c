/* SPDX-License-Identifier: MIT */

/* What the guard says as a code with arguments, as the sentence that people read. */

#include <string.h>

#include "unit.h"

#include "base/mem.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "hold/dev_reason.h"

static const char *name_of(void *user, uint32_t uid)
{
	unsigned int *asked = user;

	++*asked;
	return uid == 1000 ? "alice" : NULL;
}

static void expect(const struct dev_reason *r, const struct user_names *names, const char *text)
{
	struct strbuf b = STRBUF_INIT;

	dev_reason_text(r, names, &b);
	assert_string_equal(strbuf_str(&b), text);
	strbuf_clear(&b);
}

static void test_each_code(void **state)
{
	static const struct {
		struct dev_reason r;
		const char *numbers, *names;
		bool user;
	} rows[] = {
		{ { .uid = 1000, .text = "no other processes" },
		  "no other processes",
		  "no other processes",
		  false },
		{ { .code = DEV_REASON_PROCESS, .pid = 77, .uid = 1000, .comm = "python" },
		  "PID 77 (uid 1000, python)",
		  "PID 77 (alice, python)",
		  true },
		{ { .code = DEV_REASON_PROCESS, .pid = 77, .uid = DEV_REASON_NO_UID },
		  "PID 77",
		  "PID 77",
		  false },
		{ { .code = DEV_REASON_PROCESS,
		    .pid = 77,
		    .uid = 7,
		    .comm = "python",
		    .flags = DEV_REASON_BYTES,
		    .bytes = GIB * 7 / 2 },
		  "PID 77 (uid 7, python), 3.5 GiB",
		  "PID 77 (uid 7, python), 3.5 GiB",
		  true },
		{ { .code = DEV_REASON_PROCESS,
		    .pid = 77,
		    .uid = 1000,
		    .comm = "python",
		    .flags = DEV_REASON_BYTES },
		  "PID 77 (uid 1000, python) just started",
		  "PID 77 (alice, python) just started",
		  true },
		{ { .code = DEV_REASON_TENURE, .pid = 77, .uid = 1000 },
		  "tenure of uid 1000 (PID 77)",
		  "tenure of alice (PID 77)",
		  true },
		{ { .code = DEV_REASON_LOCKED, .uid = 1000 },
		  "tenure of uid 1000 has it",
		  "tenure of alice has it",
		  true },
		{ { .code = DEV_REASON_LOCKED, .uid = DEV_REASON_NO_UID },
		  "tenure of another user has it",
		  "tenure of another user has it",
		  false },
		{ { .code = DEV_REASON_MEMORY, .text = "3.0 GiB in use" },
		  "3.0 GiB in use",
		  "3.0 GiB in use",
		  false },
		{ { .code = DEV_REASON_HELD, .text = "night" },
		  "held for night",
		  "held for night",
		  false },
		{ { .code = DEV_REASON_LEFT, .text = "night (leave 1)" },
		  "left for others by night (leave 1)",
		  "left for others by night (leave 1)",
		  false },
		{ { .code = DEV_REASON_NOT_SELECTED }, "not selected", "not selected", false },
		{ { .code = 4711, .uid = 1000, .text = "news" }, "news", "news", false },
	};
	unsigned int asked = 0;
	const struct user_names names = { .name = name_of, .user = &asked };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		expect(&rows[i].r, NULL, rows[i].numbers);
		asked = 0;
		expect(&rows[i].r, &names, rows[i].names);
		assert_int_equal(dev_reason_has_user(&rows[i].r), rows[i].user);
		assert_int_equal(asked > 0, rows[i].user);
	}
}

static void test_names_of_codes(void **state)
{
	static const char *const names[] = { "text",   "process", "tenure", "locked",
					     "memory", "held",	  "left",   "not-selected" };

	assert_int_equal(ARRAY_LEN(names), DEV_REASON_MAX);
	for (uint32_t code = 0; code < DEV_REASON_MAX; code++)
		assert_string_equal(dev_reason_code_name(code), names[code]);
	assert_string_equal(dev_reason_code_name(DEV_REASON_MAX), "text");
}

static void test_what_comes_before(void **state)
{
	struct dev_reason r = {
		.code = DEV_REASON_PROCESS, .pid = 77, .uid = DEV_REASON_NO_UID, .lead = "taken by "
	};

	dev_reason_lead(&r, "GPU %u: ", 3U);
	expect(&r, NULL, "GPU 3: taken by PID 77");
	dev_reason_lead(&r, "%s", "words that are longer than all of the room");
	assert_int_equal(strlen(r.lead), sizeof(r.lead) - 1);
}

static void test_a_refusal(void **state)
{
	struct dev_reason r;

	memset(&r, 'x', sizeof(r));
	assert_int_equal(dev_reason_set(&r, -16, "leased to task %d", 7), -16);
	expect(&r, NULL, "leased to task 7");
	assert_false(dev_reason_has_user(&r));
	assert_int_equal(dev_reason_set(NULL, -16, "nobody asks"), -16);
}

/* Another program may send anything, and a process may be called anything. */
static void test_not_ours(void **state)
{
	struct dev_reason r;

	memset(&r, 'x', sizeof(r));
	dev_reason_end(&r);
	assert_int_equal(strlen(r.comm), sizeof(r.comm) - 1);
	assert_int_equal(strlen(r.lead), sizeof(r.lead) - 1);
	assert_int_equal(strlen(r.text), sizeof(r.text) - 1);
	expect(&(struct dev_reason){ .code = DEV_REASON_PROCESS, .pid = 7, .comm = "a\xff\x1b[1m" },
	       NULL, "PID 7 (uid 0, a??[1m)");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_code),	  cmocka_unit_test(test_names_of_codes),
		cmocka_unit_test(test_what_comes_before), cmocka_unit_test(test_a_refusal),
		cmocka_unit_test(test_not_ours),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
