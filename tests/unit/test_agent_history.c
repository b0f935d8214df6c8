/* SPDX-License-Identifier: MIT */

/* The last day of a node's devices, as its agent leaves it in the queue, and how that is read. */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "spool_world.h"
#include "unit.h"

#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "spool/agent_history.h"
#include "spool/heartbeat.h"
#include "spool/instance.h"

#define NOW 1700000000

static json_t *parsed(const char *text)
{
	json_error_t e;
	json_t *o = json_loads(text, 0, &e);

	if (!o)
		fail_msg("%s: %s", text, e.text);
	return o;
}

static void assert_same(const json_t *a, const json_t *b)
{
	if (!json_equal(a, b))
		fail_msg("%s\nis not\n%s", json_dumps(a, JSON_SORT_KEYS),
			 json_dumps(b, JSON_SORT_KEYS));
}

/* As the agent tells its clients. */
static const char told[] =
	"{\"code\":0,\"now\":1700000000,\"seconds\":86400,\"step_s\":600,\"lost\":0,\"devices\":["
	"{\"uuid\":\"GPU-1\",\"gpu\":0,\"mig\":null,\"samples\":{"
	"\"t\":[1699998600,1699999200,1699999800],\"state\":[null,\"held\",\"held\"],"
	"\"util\":[null,75,75],\"power_w\":[null,140.5,141.5],\"temp_c\":[null,60,61],"
	"\"mem_used\":[null,82678120448,82678120448],\"mem_ours\":[null,0,0],"
	"\"task\":[null,null,null]}},"
	"{\"uuid\":\"MIG-2\",\"gpu\":1,\"mig\":3,\"samples\":{"
	"\"t\":[1699998600,1699999200,1699999800],\"state\":[\"task\",\"task\",null],"
	"\"util\":[0,0,null],\"power_w\":[null,null,null],\"temp_c\":[null,null,null],"
	"\"mem_used\":[1,2,null],\"mem_ours\":[null,null,null],\"task\":[7,7,null]}}]}";

/* The same but for what only its own clients need, and of whom it is. */
static json_t *expected(void)
{
	json_t *o = parsed(told);

	(void)json_object_del(o, "code");
	(void)json_object_del(o, "lost");
	(void)json_object_set_new(o, "node", json_string("n7"));
	(void)json_object_set_new(o, "version", json_string("0.9"));
	(void)json_object_set_new(o, "seconds", json_integer(1400));
	return o;
}

static void what_is_written_is_read(void **state)
{
	struct spool *sp = open_spool();
	json_t *doc = parsed(told), *want = expected(), *got = NULL;
	cleanup_free char *text = agent_history_text("n7", "0.9", doc);

	assert_int_equal(agent_history_write(sp, "n7", text, NULL), 0);
	assert_int_equal(agent_history_read(sp, "n7", NOW, &got, NULL), 0);
	assert_same(got, want);
	json_decref(got);
	assert_int_equal(agent_history_read(sp, "n8", NOW, &got, NULL), -ENOENT);
	json_decref(doc);
	json_decref(want);
	(void)spool_close(sp);
}

static void equal_steps_are_one_run_and_nulls_are_left_out(void **state)
{
	json_t *doc = parsed(told), *o;
	cleanup_free char *text = agent_history_text("n7", "0.9", doc);

	o = parsed(text);
	json_t *want =
		parsed("{\"format\":1,\"agent\":\"n7\",\"version\":\"0.9\",\"time\":1700000000,"
		       "\"from\":1699998600,\"step_s\":600,\"n\":3,\"devices\":["
		       "{\"uuid\":\"GPU-1\",\"gpu\":0,\"state\":[1,null,2,\"held\"],"
		       "\"util\":[1,null,2,75],\"power_w\":[1,null,1,140.5,1,141.5],"
		       "\"temp_c\":[1,null,1,60,1,61],\"mem_used\":[1,null,2,82678120448],"
		       "\"mem_ours\":[1,null,2,0]},"
		       "{\"uuid\":\"MIG-2\",\"gpu\":1,\"mig\":3,\"state\":[2,\"task\",1,null],"
		       "\"util\":[2,0,1,null],\"mem_used\":[1,1,1,2,1,null],"
		       "\"task\":[2,7,1,null]}]}");

	assert_same(o, want);
	json_decref(o);
	json_decref(want);
	json_decref(doc);
}

static void without_devices_there_are_no_steps(void **state)
{
	json_t *doc =
		parsed("{\"now\":1700000000,\"seconds\":86400,\"step_s\":600,\"devices\":[]}");
	cleanup_free char *text = agent_history_text("n7", "0.9", doc);
	json_t *got = NULL;

	assert_int_equal(agent_history_parse("f", text, strlen(text), NOW, &got, NULL), 0);
	assert_int_equal(json_array_size(json_object_get(got, "devices")), 0);
	json_decref(got);
	json_decref(doc);
}

/* A member of a file that is sound, with another value; "": it is not there. */
static char *with(const char *key, const char *value)
{
	json_t *doc = parsed(told), *o, *at;
	cleanup_free char *text = agent_history_text("n7", "0.9", doc);
	bool of_device = !strncmp(key, "d.", 2);
	char *changed;

	o = parsed(text);
	at = of_device ? json_array_get(json_object_get(o, "devices"), 0) : o;
	key += of_device ? 2 : 0;
	if (value[0])
		(void)json_object_set_new(at, key, json_loads(value, JSON_DECODE_ANY, NULL));
	else
		(void)json_object_del(at, key);
	changed = json_dumps(o, 0);
	json_decref(o);
	json_decref(doc);
	return changed;
}

static int parse(const char *text, struct err *e)
{
	json_t *got = NULL;
	int r = agent_history_parse("f", text, strlen(text), NOW, &got, e);

	json_decref(got);
	return r;
}

static void bad_input_is_told_by_name(void **state)
{
	static const struct {
		const char *key, *value, *why;
	} rows[] = {
		{ "format", "", "f: format: it is missing" },
		{ "format", "0", "f: format: it is no such number" },
		{ "agent", "", "f: agent: it is no name" },
		{ "agent", "\"../x\"", "f: agent: it is no name" },
		{ "agent", "\"a1234567890123456789012345678901234567890\"",
		  "f: agent: it is no name" },
		{ "version", "7", "f: version: it is no version" },
		{ "version", "\"12345678901234567890123456789012\"",
		  "f: version: it is no version" },
		{ "time", "\"now\"", "f: time: it is no such number" },
		{ "time", "1.5e9", "f: time: it is no such number" },
		{ "time", "-1", "f: time: it is no such number" },
		{ "time", "1700000301", "f: time: it is yet to come" },
		{ "from", "1700000001", "f: from: it is no such number" },
		{ "from", "1600000000", "f: n: the steps are of more than a day" },
		{ "step_s", "0", "f: step_s: it is no such number" },
		{ "step_s", "86401", "f: step_s: it is no such number" },
		{ "step_s", "86400", "f: n: the steps are of more than a day, or yet to come" },
		{ "n", "4", "f: n: the steps are of more than a day, or yet to come" },
		{ "n", "9223372036854775807", "f: n: it is no such number" },
		{ "n", "2", "f: devices[0].state: it has a run of no such length" },
		{ "devices", "", "f: devices: it is no list" },
		{ "devices", "{}", "f: devices: it is no list" },
		{ "devices", "[7]", "f: devices[0].device: it is no object" },
		{ "d.uuid", "", "f: devices[0].uuid: it is no UUID" },
		{ "d.uuid", "\"\"", "f: devices[0].uuid: it is no UUID" },
		{ "d.gpu", "-1", "f: devices[0].gpu: it is no such number" },
		{ "d.mig", "\"1\"", "f: devices[0].mig: it is no such number" },
		{ "d.state", "7", "f: devices[0].state: it is no list of runs" },
		{ "d.state", "[3]", "f: devices[0].state: it is no list of runs" },
		{ "d.state", "[3,7]", "f: devices[0].state: it has what is no such value" },
		{ "d.state", "[3,\"<b>\"]", "f: devices[0].state: it has what is no such value" },
		{ "d.state", "[3,\"aaaaaaaaaaaaaaaa\"]",
		  "f: devices[0].state: it has what is no such value" },
		{ "d.state", "[2,\"held\"]", "f: devices[0].state: it has too few steps" },
		{ "d.state", "[4,\"held\"]",
		  "f: devices[0].state: it has a run of no such length" },
		{ "d.state", "[0,null,3,null]",
		  "f: devices[0].state: it has a run of no such length" },
		{ "d.state", "[-1,null]", "f: devices[0].state: it has a run of no such length" },
		{ "d.util", "[3,101]", "f: devices[0].util: it has what is no such value" },
		{ "d.util", "[3,\"a\"]", "f: devices[0].util: it has what is no such value" },
		{ "d.power_w", "[3,-1]", "f: devices[0].power_w: it has what is no such value" },
		{ "d.power_w", "[3,1e9]", "f: devices[0].power_w: it has what is no such value" },
		{ "d.task", "[3,[]]", "f: devices[0].task: it has what is no such value" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_free char *text = with(rows[i].key, rows[i].value);
		struct err e = ERR_INIT;
		int r = parse(text, &e);

		if (r != -EINVAL || !str_has_prefix(e.text, rows[i].why))
			fail_msg("%s %s: %d, %s", rows[i].key, rows[i].value, r, e.text);
	}
}

static void what_is_no_document_is_told(void **state)
{
	static const char *const texts[] = {
		"", "[]", "nothing", "{\"format\":1", "{\"a\":1,\"a\":2}", "\xff\xfe"
	};

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct err e = ERR_INIT;

		assert_int_equal(parse(texts[i], &e), -EINVAL);
		assert_true(str_has_prefix(e.text, "f is no history of an agent: "));
	}
}

static void a_later_format_is_not_guessed_at(void **state)
{
	cleanup_free char *text = with("format", "2");
	struct err e = ERR_INIT;

	assert_int_equal(parse(text, &e), -EPROTO);
	assert_string_equal(e.text, "f is of a later version of tenure (format 2)");
}

static void what_a_later_version_adds_is_passed_over(void **state)
{
	cleanup_free char *more = with("new", "[1]");
	cleanup_free char *column = with("d.fan", "[3,1]");
	cleanup_free char *word = with("d.state", "[3,\"asleep\"]");

	assert_int_equal(parse(more, NULL), 0);
	assert_int_equal(parse(column, NULL), 0);
	assert_int_equal(parse(word, NULL), 0);
}

/* What a clock of another node is ahead by is no lie. */
static void a_clock_that_is_a_little_ahead(void **state)
{
	cleanup_free char *text = with("time", "1700000300");

	assert_int_equal(parse(text, NULL), 0);
}

/* Few bytes can ask for much memory. */
static void more_steps_than_there_is_room_for(void **state)
{
	struct strbuf b = STRBUF_INIT;
	struct err e = ERR_INIT;

	strbuf_adds(&b, "{\"format\":1,\"agent\":\"a\",\"time\":1700000000,\"from\":1699913600,"
			"\"step_s\":10,\"n\":8640,\"devices\":[");
	for (int i = 0; i < 2; i++)
		strbuf_addf(&b, "%s{\"uuid\":\"G%d\",\"gpu\":0}", i ? "," : "", i);
	strbuf_adds(&b, "]}");
	assert_int_equal(parse(strbuf_str(&b), &e), -EINVAL);
	assert_string_equal(e.text, "f: devices: there are too many");
	strbuf_clear(&b);
}

static void a_file_that_is_too_large_is_not_read(void **state)
{
	struct spool *sp = open_spool();
	cleanup_free char *path = xasprintf("%s/agents/n7,history", spool_path_of(sp));
	struct err e = ERR_INIT;
	json_t *got = NULL;

	put(sp, "agents/n7,history", "{}");
	assert_int_equal(truncate(path, (off_t)1 << 40), 0);
	assert_int_equal(agent_history_read(sp, "n7", NOW, &got, &e), -EFBIG);
	assert_non_null(strstr(e.text, "agents/n7,history is larger than "));
	(void)spool_close(sp);
}

static int add_agent(void *data, const char *agent)
{
	strbuf_addf(data, "%s ", agent);
	return 0;
}

static void it_is_taken_for_no_agent(void **state)
{
	struct spool *sp = open_spool();
	struct strbuf b = STRBUF_INIT;

	put(sp, "agents/a", "{\"agent\":\"a\"}");
	put(sp, "agents/a,history", "{}");
	assert_int_equal(heartbeat_each_agent(sp, add_agent, &b, NULL), 0);
	assert_string_equal(strbuf_str(&b), "a ");
	strbuf_clear(&b);
	(void)spool_close(sp);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, spool_setup, spool_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_written_is_read),
		TEST(equal_steps_are_one_run_and_nulls_are_left_out),
		TEST(without_devices_there_are_no_steps),
		TEST(bad_input_is_told_by_name),
		TEST(what_is_no_document_is_told),
		TEST(a_later_format_is_not_guessed_at),
		TEST(what_a_later_version_adds_is_passed_over),
		TEST(a_clock_that_is_a_little_ahead),
		TEST(more_steps_than_there_is_room_for),
		TEST(a_file_that_is_too_large_is_not_read),
		TEST(it_is_taken_for_no_agent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
