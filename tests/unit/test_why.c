/* SPDX-License-Identifier: MIT */

/* Why a task waits, as the files of the spool alone tell it, where no agent can be asked. */

#include <stdlib.h>
#include <string.h>

#include "spool_world.h"
#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/task/why.h"
#include "spool/instance.h"
#include "spool/lane.h"

#define BEGIN_S 4102444800 /* 2100-01-01 */

/* codes: those of the reasons, with commas. */
static void expect(const struct spool *sp, uint64_t id, const char *text, const char *codes)
{
	struct strbuf b = STRBUF_INIT, said = STRBUF_INIT;
	json_t *reasons = json_array(), *r;
	struct task_place p;
	size_t i;

	assert_int_equal(select_by_id(sp, id, 0, &p, NULL), 0);
	why_known(sp, &p, &b, reasons);
	assert_string_equal(strbuf_str(&b), text);
	json_array_foreach(reasons, i, r) strbuf_addf(
		&said, "%s%s", i ? "," : "", json_string_value(json_object_get(r, "code")));
	assert_string_equal(strbuf_str(&said), codes);
	strbuf_clear(&b);
	why_known(sp, &p, &b, NULL);
	assert_string_equal(strbuf_str(&b), text);
	strbuf_clear(&b);
	strbuf_clear(&said);
	json_decref(reasons);
}

static uint64_t add(const struct spool *sp, const char *keys)
{
	cleanup_free char *json = xasprintf("{%s\"name\":\"t\",\"argv\":[\"true\"]}", keys);

	return submit(sp, json);
}

static void end(const struct spool *sp, uint64_t id, enum task_result result)
{
	struct claimer me = self(sp, "n1");
	struct claim c = claim(sp, id, &me);
	struct spool_end how = done(&c);

	how.result = result;
	assert_int_equal(transit_end(sp, NULL, &c, &how, NULL), 0);
}

static void nothing_is_said_of_what_is_ready(void **state)
{
	struct spool *sp = open_spool();

	expect(sp, add(sp, ""), "", "");
	spool_close(sp);
}

static void what_keeps_it_is_told_all_together(void **state)
{
	struct spool *sp = open_spool();
	char when[CLOCK_TEXT_MAX];
	cleanup_free char *keys =
		xasprintf("\"paused\":true,\"lane\":\"week\",\"begin\":%ld,", BEGIN_S);
	uint64_t id = add(sp, keys);
	cleanup_free char *text = xasprintf(
		"is paused; `tenure resume %llu` resumes it; its lane week is paused: 3 failures; "
		"`tenure resume week` resumes it; is not to begin before %s",
		(unsigned long long)id, clock_format_local(BEGIN_S * NS_PER_S, when));

	assert_int_equal(lane_pause(sp, "week", "3 failures", NULL), 0);
	expect(sp, id, text, "paused,lane-paused,begin");
	expect(sp, add(sp, "\"lane\":\"other\","), "", "");
	spool_close(sp);
}

/* 1 is done, 2 has failed, 3 waits. */
static void each_task_that_it_waits_for(void **state)
{
	static const struct {
		const char *keys, *text, *codes;
	} cases[] = {
		{ "\"after\":[1],", "", "" },
		{ "\"after\":[3],", "waits until task 3 has ended well (it is pending)",
		  "depends" },
		{ "\"after\":[2],", "can never run: task 2, which it needs, has not ended well",
		  "never" },
		{ "\"after\":[1,2,3],",
		  "can never run: task 2, which it needs, has not ended well; waits until task 3 has "
		  "ended well (it is pending)",
		  "never,depends" },
		{ "\"after_any\":[1,2],", "", "" },
		{ "\"after_any\":[3],", "waits until task 3 has ended (it is pending)", "depends" },
		{ "\"after\":[999],",
		  "can never run: task 999, which it needs, is not there any more", "never" },
		{ "\"after_any\":[999],",
		  "can never run: task 999, which it needs, is not there any more", "never" },
	};
	struct spool *sp = open_spool();

	for (uint64_t id = 1; id <= 3; id++)
		assert_int_equal(add(sp, ""), id);
	end(sp, 1, RESULT_DONE);
	end(sp, 2, RESULT_FAILED);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		expect(sp, add(sp, cases[i].keys), cases[i].text, cases[i].codes);
	spool_close(sp);
}

static void what_its_last_attempt_said(void **state)
{
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "n1");
	uint64_t id = add(sp, "\"lane\":\"week\",");
	struct claim c = claim(sp, id, &me);
	struct spool_again again = { .attempts = 1, .reason = "exit code 1, try 1 of 3" };

	assert_int_equal(transit_requeue(sp, NULL, &c, &again, NULL), 0);
	expect(sp, id, "was requeued (exit code 1, try 1 of 3)", "requeued");
	/* Its lane is paused for the same. */
	assert_int_equal(lane_pause(sp, "week", "exit code 1, try 1 of 3; paused", NULL), 0);
	expect(sp, id,
	       "its lane week is paused: exit code 1, try 1 of 3; paused; `tenure resume week` "
	       "resumes it",
	       "lane-paused");
	spool_close(sp);
}

static void a_file_that_cannot_be_read(void **state)
{
	struct spool *sp = open_spool();
	uint64_t id = add(sp, "");
	struct strbuf b = STRBUF_INIT;
	json_t *reasons = json_array();
	struct task_place p;

	assert_int_equal(select_by_id(sp, id, 0, &p, NULL), 0);
	put(sp, p.path, "{\"argv\":[\"true\"]");
	why_known(sp, &p, &b, reasons);
	assert_true(str_has_prefix(strbuf_str(&b), "cannot start, because /"));
	assert_non_null(strstr(strbuf_str(&b), p.path));
	assert_non_null(strstr(strbuf_str(&b), " cannot be read: "));
	assert_string_equal(json_string_value(json_object_get(json_array_get(reasons, 0), "code")),
			    "unreadable");
	strbuf_clear(&b);
	json_decref(reasons);
	/* Its name says that it has elements, and it has none. */
	put(sp, p.path, "{\"argv\":[\"true\"],\"name\":\"t\"}\n");
	p.name.count = 7;
	why_known(sp, &p, &b, NULL);
	assert_non_null(
		strstr(strbuf_str(&b), "by its name it has 7 elements, by what is in it 0"));
	strbuf_clear(&b);
	spool_close(sp);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, spool_setup, spool_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nothing_is_said_of_what_is_ready), TEST(what_keeps_it_is_told_all_together),
		TEST(each_task_that_it_waits_for),	TEST(what_its_last_attempt_said),
		TEST(a_file_that_cannot_be_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
