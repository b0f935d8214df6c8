/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#include "base/mem.h"
#include "base/str.h"
#include "cli/holding/status.h"

/* What is printed of a document, without a terminal. */
static char *printed(const char *json)
{
	json_error_t je;
	json_t *doc = json_loads(json, 0, &je);
	FILE *out = tmpfile();
	char buf[8192];
	size_t n;

	if (!doc)
		fail_msg("%s: %s", json, je.text);
	assert_non_null(out);
	status_text_print(doc, out);
	json_decref(doc);
	rewind(out);
	n = fread(buf, 1, sizeof(buf) - 1, out);
	buf[n] = '\0';
	(void)fclose(out);
	return xstrdup(buf);
}

/* An agent of another version may say less, or something else: it is unknown, and no more. */
static void test_little(void **state)
{
	static const char *const docs[] = {
		"{}",
		"{\"agent\":[],\"guard\":7,\"queue\":null,\"devices\":{},\"yields\":1,\"log\":\"x\"}",
		"{\"devices\":[{}],\"yields\":[{}],\"log\":[null,7],\"queue\":{\"tasks\":[{}],\"others\":[{}]}}",
	};

	for (size_t i = 0; i < ARRAY_LEN(docs); i++) {
		cleanup_free char *text = printed(docs[i]);

		assert_true(str_has_prefix(text, "tenure ? on ?: ?: "));
		assert_non_null(strstr(text, "\nguard   none: it is being started\n"));
		assert_true(!strstr(text, "\nqueue ") == !strstr(docs[i], "\"tasks\""));
	}
}

/* A document, of which each case changes one member, and a line that must be in its text; "!": that
 * must not. */
static const char whole[] =
	"{\"instance\":\"default\",\"host\":\"n1\",\"phase\":\"holding\",\"sentence\":\"holds 1 of 2 GPUs\","
	"\"policy\":\"88% of each\",\"agent\":{\"pid\":12,\"uptime_s\":3600,\"log\":\"/tmp/a.log\"},"
	"\"guard\":{\"connected\":true,\"pid\":13,\"driver\":\"550.1\",\"sees\":true,\"pid_class\":\"same\","
	"\"inotify\":true,\"age_s\":0.5},"
	"\"queue\":{\"waiting\":2,\"running\":1,\"done\":3,\"failed\":0,"
	"\"retried\":4,\"awaiting_retry\":1,\"tasks\":["
	"{\"id\":42,\"element\":7,\"name\":\"train\",\"state\":\"runs\",\"gpus\":[0,1],\"for_s\":65,\"attempt\":2,"
	"\"log\":\"logs/42.7\"}],\"others\":["
	"{\"agent\":\"beta\",\"host\":\"b.example\",\"state\":\"unknown\",\"draining\":true,\"devices\":4,\"held\":1,"
	"\"lent\":2,\"running\":1,\"quiet_s\":90}]},"
	"\"devices\":["
	"{\"gpu\":0,\"state\":\"held\",\"use\":\"held\",\"for_s\":60,\"held_bytes\":1073741824,"
	"\"target_bytes\":2147483648,\"memory_used_bytes\":1610612736,\"memory_total_bytes\":85899345920,"
	"\"utilisation\":12,\"power_w\":99.6,\"temperature_c\":40,\"load\":\"light\",\"instance\":\"default\","
	"\"reason\":\"held for default\",\"reason_code\":\"held\",\"held_for\":\"default\"},"
	"{\"gpu\":1,\"mig\":3,\"state\":\"busy\",\"reason\":\"python (PID 7)\",\"hold_in_s\":30,\"instance\":\"other\"}],"
	"\"yields\":[{\"time\":\"2026-11-21T14:02:11.123+01:00\",\"text\":\"gpu 1: to python\"}],"
	"\"log\":[\"2026-11-21T14:02:11.123+01:00 info started\",\"another line\"],\"lines_lost\":2,"
	"\"log_trouble\":\"disk full\"}";

static const struct {
	const char *key, *value; /* a path of members with dots; NULL: as it is */
	const char *line;
} cases[] = {
	{ NULL, NULL, "tenure default on n1: holding: holds 1 of 2 GPUs\n" },
	{ NULL, NULL, "\npolicy  88% of each\n" },
	{ NULL, NULL, "\nagent   PID 12, for 1h 00m\n" },
	{ "agent.until", "\"2026-11-22T16:00:00.000+01:00\"",
	  "for 1h 00m, until 2026-11-22 16:00\n" },
	{ "agent.lifetime",
	  "{\"ends\":\"2026-11-22T16:00:00.000+01:00\",\"left_s\":7200,\"then\":\"drain\"}",
	  ", auto-shutdown at 2026-11-22 16:00 (in 2h 00m, drains)\n" },
	{ NULL, NULL, "\nguard   PID 13, driver 550.1, sees, PIDs seen: same\n" },
	{ NULL, NULL, "\n        last heartbeat 0.5 s ago\n" },
	{ "guard.sees", "false", "driver 550.1, does NOT see, PIDs" },
	{ "guard.inotify", "false", "PIDs seen: same, no inotify (polling)\n" },
	{ "guard.trouble", "\"it is slow\"", "\n        it is slow\n        last heartbeat" },
	{ "guard.connected", "false", "\nguard   none: it is being started\n" },
	{ NULL, NULL, "\nqueue   2 wait, 1 run, 3 done, 0 failed, 1 awaiting retry\n" },
	{ "queue.awaiting_retry", "0", "0 awaiting retry\n" },
	{ "queue.draining", "true", "awaiting retry; draining\n" },
	{ "queue.trouble", "\"cannot be read\"", "awaiting retry\n        cannot be read\n" },
	{ "agent.empty_s", "180", "awaiting retry; empty for 3m 00s, ? after -\n" },
	{ NULL, NULL, "\n  task 42.7  train: runs on gpu 0,1 for 1m 05s, attempt 2, logs/42.7\n" },
	{ NULL, NULL,
	  "\nnode    beta (b.example): silent, draining, 4 GPUs (1 held, 2 lent), 1 task runs, last heartbeat "
	  "1m 30s ago\n" },
	{ NULL, NULL, "GPU  STATE     FOR  HELD GiB  USED GiB  UTIL  WATTS  TEMP  LOAD\n" },
	{ NULL, NULL, "  0  held   1m 00s   1.0/2.0  1.5/80.0  12 %    100  40 C  light\n" },
	{ NULL, NULL, "!held for default" }, /* the table says so */
	{ NULL, NULL, "\n  gpu 1/3  python (PID 7); to be held for other in 30s\n" },
	{ NULL, NULL, "\nLast yields:\n  14:02:11  gpu 1: to python\n" },
	{ NULL, NULL,
	  "\nLast lines of /tmp/a.log:\n  2026-11-21 14:02:11 info started\n  another line\n" },
	{ NULL, NULL, "\n  (2 lines could not be written: disk full)\n" },
	{ "yields", "[]", "!Last yields" },
	{ "devices", "[]", "!STATE" },
};

static void test_lines(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		json_t *doc = json_loads(whole, 0, NULL), *at = doc;
		cleanup_free char *json = NULL, *text = NULL;

		assert_non_null(doc);
		if (cases[i].key) {
			const char *dot = strchr(cases[i].key, '.');
			cleanup_free char *first = xasprintf(
				"%.*s", dot ? (int)(dot - cases[i].key) : 0, cases[i].key);

			at = dot ? json_object_get(doc, first) : doc;
			(void)json_object_set_new(
				at, dot ? dot + 1 : cases[i].key,
				json_loads(cases[i].value, JSON_DECODE_ANY, NULL));
		}
		json = json_dumps(doc, 0);
		json_decref(doc);
		text = printed(json);
		if (cases[i].line[0] == '!' ? !!strstr(text, cases[i].line + 1)
					    : !strstr(text, cases[i].line))
			fail_msg("case %zu: \"%s\" in\n%s", i, cases[i].line, text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_little),
		cmocka_unit_test(test_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
