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
	.seen_ns = 1500 * NS_PER_S,
	.only = true,
	.knows_gangs = true,
	.free = 1,
	.n_devices = 2,
	.devices = { { .uuid = "GPU-1",
		       .model = "NVIDIA A10",
		       .state = "held",
		       .mem_bytes = 24ULL << 30,
		       .use = "reserved: task 7",
		       .knows = AGENT_STATUS_GPU | AGENT_STATUS_MIG | AGENT_STATUS_USED |
				AGENT_STATUS_HELD | AGENT_STATUS_UTIL | AGENT_STATUS_POWER |
				AGENT_STATUS_LIMIT | AGENT_STATUS_TEMP | AGENT_STATUS_FOR,
		       .gpu = 3,
		       .mig = 1,
		       .used_bytes = 23ULL << 30,
		       .held_bytes = 22ULL << 30,
		       .util = 75,
		       .power_w = 141,
		       .limit_w = 150,
		       .temp_c = 61,
		       .for_s = 3600,
		       .xid = 79,
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
	assert_true(s.written_ns > 0);
	s.written_ns = 0;
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

/* Nothing is not the same as not known. */
static void a_figure_that_is_nothing_is_there(void **state)
{
	static const struct agent_status idle = {
		.agent = "n7",
		.n_devices = 1,
		.devices = { { .uuid = "G", .knows = AGENT_STATUS_UTIL | AGENT_STATUS_GPU } },
	};
	cleanup_free char *text = agent_status_text(&idle);
	struct agent_status s = { .n_devices = 0 };

	assert_string_equal(
		text, "{\"agent\":\"n7\",\"devices\":[{\"uuid\":\"G\",\"gpu\":0,\"util\":0}]}");
	assert_int_equal(agent_status_parse("f", text, strlen(text), &s, NULL), 0);
	assert_memory_equal(&s.devices[0], &idle.devices[0], sizeof(idle.devices[0]));
}

/* Who decides by a status reads no more than AGENT_STATUS_BYTES_MAX of it, also in earlier
 * versions. */
static void figures_never_make_it_too_long_to_be_read(void **state)
{
	struct agent_status *s = xcalloc(1, sizeof(*s));
	struct agent_status *t = xcalloc(1, sizeof(*t));

	(void)str_copy(s->agent, sizeof(s->agent), "n7");
	s->seen_ns = NS_PER_S;
	s->n_devices = AGENT_STATUS_DEVICES_MAX;
	for (unsigned int i = 0; i < s->n_devices; i++) {
		struct agent_status_device *d = &s->devices[i];

		*d = full.devices[0];
		(void)memset(d->uuid, 'u', sizeof(d->uuid) - 1);
		(void)memset(d->model, 'm', sizeof(d->model) - 1);
		(void)memset(d->use, 'n', sizeof(d->use) - 1);
		d->used_bytes = d->held_bytes = d->for_s = INT64_MAX;
	}

	cleanup_free char *text = agent_status_text(s);

	assert_true(strlen(text) <= AGENT_STATUS_BYTES_MAX);
	assert_int_equal(agent_status_parse("f", text, strlen(text), t, NULL), 0);
	assert_int_equal(t->n_devices, AGENT_STATUS_DEVICES_MAX);
	assert_int_equal(t->seen_ns, 0);
	assert_int_equal(t->devices[0].knows, 0);
	free(s);
	free(t);
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
		{ "{\"agent\":\"a\",\"seen\":[]}", "f: seen: it is no time" },
		{ "{\"agent\":\"a\",\"devices\":[{\"uuid\":\"G\",\"util\":101}]}",
		  "f: devices[0].util: it is no such number" },
		{ "{\"agent\":\"a\",\"devices\":[{\"uuid\":\"G\",\"power\":\"1\"}]}",
		  "f: devices[0].power: it is no such number" },
		{ "{\"agent\":\"a\",\"devices\":[{\"uuid\":\"G\",\"use\":7}]}",
		  "f: devices[0].use: it is no text" },
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
		TEST(a_figure_that_is_nothing_is_there),
		TEST(figures_never_make_it_too_long_to_be_read),
		TEST(bad_input_is_told_by_name),
		TEST(more_devices_than_there_is_room_for),
		TEST(what_a_later_version_adds_is_passed_over),
		TEST(each_is_found_and_none_is_taken_for_an_agent),
		TEST(tokens),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
