/* SPDX-License-Identifier: MIT */

/* What an agent leaves of itself beside its heartbeat, and how that is read. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "spool_world.h"
#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "spool/agent_status.h"
#include "spool/heartbeat.h"
#include "spool/instance.h"

static const struct agent_status full = {
	.agent = "n7-slurm.12",
	.host = "n7",
	.version = "0.9",
	.began_ns = 1000 * NS_PER_S,
	.engine = "slurm",
	.job = "12_3",
	.restarts = 1,
	.token = "k3x9",
	.pool = "night",
	.end_ns = 2000 * NS_PER_S + 500 * NS_PER_MS,
	.unseen = 1,
	.only = true,
	.knows_gangs = true,
	.free = 1,
	.n_devices = 2,
	.devices = { { .uuid = "GPU-1",
		       .model = "NVIDIA A10",
		       .state = "held",
		       .mem_bytes = 24ULL << 30,
		       .shut = true },
		     { .uuid = "GPU-2", .state = "idle" } },
};

static void what_is_written_is_read(void **state)
{
	struct spool *sp = open_spool();
	cleanup_free char *text = agent_status_text(&full);
	struct agent_status s = { .n_devices = 77 };

	assert_int_equal(agent_status_write(sp, full.agent, text, NULL), 0);
	assert_int_equal(agent_status_read(sp, full.agent, &s, NULL), 0);
	assert_memory_equal(&s, &full, sizeof(s));
	assert_int_equal(agent_status_read(sp, "n8", &s, NULL), -ENOENT);
	(void)spool_close(sp);
}

static void what_is_not_known_is_not_there(void **state)
{
	static const struct agent_status little = { .agent = "n7" };
	cleanup_free char *text = agent_status_text(&little);

	assert_string_equal(text, "{\"agent\":\"n7\",\"devices\":[]}");
}

static void bad_input_is_told_by_name(void **state)
{
	static const struct {
		const char *text, *why;
	} rows[] = {
		{ "", "f is no status of an agent: " },
		{ "[]", "f is no status of an agent: no object" },
		{ "{}", "f: agent: it is missing" },
		{ "{\"agent\":7}", "f: agent: it is no text" },
		{ "{\"agent\":\"../x\"}", "f: agent: it is no name" },
		{ "{\"agent\":\"a1234567890123456789012345678901234567890\"}",
		  "f: agent: it is too long" },
		{ "{\"agent\":\"a\",\"token\":\"K\"}", "f: token: it is no token" },
		{ "{\"agent\":\"a\",\"token\":\"a12345678901234567\"}",
		  "f: token: it is too long" },
		{ "{\"agent\":\"a\",\"pool\":\"a/b\"}", "f: pool: it is no name" },
		{ "{\"agent\":\"a\",\"began\":\"x\"}", "f: began: it is no time" },
		{ "{\"agent\":\"a\",\"deadline\":-1}", "f: deadline: it is no time" },
		{ "{\"agent\":\"a\",\"restarts\":-1}", "f: restarts: it is no such number" },
		{ "{\"agent\":\"a\",\"restarts\":1.5}", "f: restarts: it is no such number" },
		{ "{\"agent\":\"a\",\"free\":129}", "f: free: it is no such number" },
		{ "{\"agent\":\"a\",\"unseen\":129}", "f: unseen: it is no such number" },
		{ "{\"agent\":\"a\",\"devices\":{}}", "f: devices: it is no list" },
		{ "{\"agent\":\"a\",\"devices\":[7]}", "f: devices[0].device: it is no object" },
		{ "{\"agent\":\"a\",\"devices\":[{\"uuid\":\"G\"},{}]}",
		  "f: devices[1].uuid: it is missing" },
		{ "{\"agent\":\"a\",\"devices\":[{\"uuid\":\"G\",\"memory\":-1}]}",
		  "f: devices[0].memory: it is no such number" },
	};
	struct agent_status s;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err e = ERR_INIT;
		int r = agent_status_parse("f", rows[i].text, strlen(rows[i].text), &s, &e);

		if (r != -EINVAL || !str_has_prefix(e.text, rows[i].why))
			fail_msg("%s: %d, %s", rows[i].text, r, e.text);
	}
}

static void more_devices_than_there_is_room_for(void **state)
{
	struct strbuf b = STRBUF_INIT;
	struct err e = ERR_INIT;
	struct agent_status s;

	strbuf_adds(&b, "{\"agent\":\"a\",\"devices\":[{\"uuid\":\"G\"}");
	for (int i = 0; i < AGENT_STATUS_DEVICES_MAX; i++)
		strbuf_adds(&b, ",{\"uuid\":\"G\"}");
	strbuf_adds(&b, "]}");
	assert_int_equal(agent_status_parse("f", b.data, b.len, &s, &e), -EINVAL);
	assert_string_equal(e.text, "f: devices: there are too many");
	strbuf_clear(&b);
}

static void what_a_later_version_adds_is_passed_over(void **state)
{
	static const char text[] =
		"{\"agent\":\"a\",\"new\":[1],\"devices\":[{\"uuid\":\"G\",\"x\":1}]}";
	struct agent_status s;

	assert_int_equal(agent_status_parse("f", text, strlen(text), &s, NULL), 0);
	assert_int_equal(s.n_devices, 1);
}

static int add_name(void *data, const struct agent_status *s)
{
	strbuf_addf(data, "%s ", s->agent);
	return strcmp(s->agent, "c") == 0 ? 5 : 0;
}

static int add_agent(void *data, const char *agent)
{
	strbuf_addf(data, "%s ", agent);
	return 0;
}

/* Each file of agents/ is one thing: nobody takes a status for an agent, or a heartbeat for one. */
static void each_is_found_and_none_is_taken_for_an_agent(void **state)
{
	struct spool *sp = open_spool();
	struct strbuf b = STRBUF_INIT;

	put(sp, "agents/a", "{\"agent\":\"a\"}");
	put(sp, "agents/a,status", "{\"agent\":\"a\"}");
	put(sp, "agents/b,status", "nothing");
	put(sp, "agents/1,e0", "{\"agent\":\"a\"}");
	assert_int_equal(agent_status_each(sp, add_name, &b, NULL), 0);
	assert_string_equal(strbuf_str(&b), "a ");
	strbuf_clear(&b);
	assert_int_equal(heartbeat_each_agent(sp, add_agent, &b, NULL), 0);
	assert_string_equal(strbuf_str(&b), "a ");
	put(sp, "agents/c,status", "{\"agent\":\"c\"}");
	assert_int_equal(agent_status_each(sp, add_name, &b, NULL), 5);
	strbuf_clear(&b);
	(void)spool_close(sp);
}

static void tokens(void **state)
{
	static const char *const good[] = { "a", "k3x9", "a123456789012345" };
	static const char *const bad[] = { "", "3a", "A", "a-b", "a1234567890123456", "\xc3\xa4" };

	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		assert_true(agent_status_is_token(good[i]));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(agent_status_is_token(bad[i]));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, spool_setup, spool_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_written_is_read),
		TEST(what_is_not_known_is_not_there),
		TEST(bad_input_is_told_by_name),
		TEST(more_devices_than_there_is_room_for),
		TEST(what_a_later_version_adds_is_passed_over),
		TEST(each_is_found_and_none_is_taken_for_an_agent),
		TEST(tokens),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
