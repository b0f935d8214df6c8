/* SPDX-License-Identifier: MIT */

/* Orders to agents: what is understood, and that everything else is refused. */

#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/queue/order.h"
#include "base/mem.h"

static void test_there_and_back(void **state)
{
	static const char *const texts[] = {
		"{\"command\":\"stop\",\"tasks\":[\"42\"]}",
		"{\"command\":\"stop\",\"tasks\":[\"42\",\"43.7\"],\"now\":true,\"sweep\":\"gpu\"}",
		"{\"command\":\"why\",\"tasks\":[\"43.7\"]}",
		"{\"command\":\"shutdown\"}",
		"{\"command\":\"shutdown\",\"how\":\"drain\"}",
		"{\"command\":\"shutdown\",\"how\":\"stop_tasks\"}",
		"{\"command\":\"burn\",\"burn\":\"n7-1f\",\"for_ms\":60000,\"options\":[]}",
		("{\"command\":\"burn\",\"burn\":\"n7-1f\",\"for_ms\":1,\"options\":[\"--exclusive\","
		 "\"--load=tensor\"]}"),
	};

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		json_t *doc = json_loads(texts[i], 0, NULL);
		struct err e = ERR_INIT;
		struct order o;

		assert_int_equal(order_read(doc, &o, &e), 0);

		json_t *again = order_json(&o);

		assert_true(json_equal(doc, again));
		json_decref(again);
		json_decref(doc);
		order_clear(&o);
	}
}

static void test_bad_ones(void **state)
{
	static const struct {
		const char *text, *why;
	} rows[] = {
		{ "{}", "no command" },
		{ "{\"command\":\"stopp\",\"tasks\":[\"1\"]}", "stop" },
		{ "{\"command\":1}", "command: " },
		{ "{\"command\":\"stop\"}", "stop needs tasks" },
		{ "{\"command\":\"stop\",\"tasks\":[]}", "tasks: " },
		{ "{\"command\":\"stop\",\"tasks\":\"1\"}", "tasks: " },
		{ "{\"command\":\"stop\",\"tasks\":[1]}", "tasks: " },
		{ "{\"command\":\"stop\",\"tasks\":[\"1\",\"all\"]}", "\"all\" is no id" },
		{ "{\"command\":\"stop\",\"tasks\":[\"1.4294967296\"]}", "is no id" },
		{ "{\"command\":\"stop\",\"tasks\":[\"../1\"]}", "is no id" },
		{ "{\"command\":\"stop\",\"tasks\":[\"1\"],\"now\":1}", "now: " },
		{ "{\"command\":\"stop\",\"tasks\":[\"1\"],\"sweep\":\"all\"}", "sweep: " },
		{ "{\"command\":\"stop\",\"tasks\":[\"1\"],\"how\":\"drain\"}", "no key of" },
		{ "{\"command\":\"stop\",\"tasks\":[\"1\"],\"dry\":true}", "\"dry\" is no key" },
		{ "{\"command\":\"why\",\"tasks\":[\"1\",\"2\"]}", "about one" },
		{ "{\"command\":\"burn\",\"for_ms\":1}", "burn needs a name" },
		{ "{\"command\":\"burn\",\"burn\":\"n\"}", "and a time" },
		{ "{\"command\":\"burn\",\"burn\":\"../n\",\"for_ms\":1}", "burn: a name" },
		{ "{\"command\":\"burn\",\"burn\":\"n,x\",\"for_ms\":1}", "burn: a name" },
		{ "{\"command\":\"burn\",\"burn\":\"n\",\"for_ms\":0}", "for_ms: " },
		{ "{\"command\":\"burn\",\"burn\":\"n\",\"for_ms\":2592000001}", "for_ms: " },
		{ "{\"command\":\"burn\",\"burn\":\"n\",\"for_ms\":1,\"options\":\"--exclusive\"}",
		  "options: a list" },
		{ "{\"command\":\"burn\",\"burn\":\"n\",\"for_ms\":1,\"options\":[\"sh\"]}",
		  "\"sh\" is no option" },
		{ "{\"command\":\"burn\",\"burn\":\"n\",\"for_ms\":1,\"options\":[\"--\"]}",
		  "is no option" },
		{ "{\"command\":\"burn\",\"burn\":\"n\",\"for_ms\":1,\"tasks\":[\"1\"]}",
		  "\"tasks\" is no key" },
		{ "{\"command\":\"shutdown\",\"how\":\"gently\"}", "how: " },
		{ "{\"command\":\"shutdown\",\"tasks\":[\"1\"]}", "no key of" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		json_t *doc = json_loads(rows[i].text, 0, NULL);
		struct err e = ERR_INIT;
		struct order o;

		assert_non_null(doc);
		assert_int_equal(order_read(doc, &o, &e), -EINVAL);
		if (!strstr(e.text, rows[i].why))
			fail_msg("%s: %s", rows[i].text, e.text);
		json_decref(doc);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_there_and_back),
		cmocka_unit_test(test_bad_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
