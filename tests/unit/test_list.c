/* SPDX-License-Identifier: MIT */

/* The rows of `tenure list`, and its JSON, where no agent of this node runs. */

#include <stdlib.h>
#include <string.h>

#include "cli_world.h"
#include "spool_world.h"
#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/task/rows.h"
#include "spool/instance.h"
#include "spool/lane.h"

static struct spool_end ended(const struct claim *c, enum task_result result, unsigned int exit)
{
	struct spool_end end = done(c);

	end.result = result;
	end.exit = exit;
	return end;
}

/*
 * 1 waits, first of all; 2 is paused; 3 waits for 1; 4 is not to start before 2099; 5 is of the
 * paused lane week; 6 runs under n7; 7 many has 5 elements, of which one is done, one has failed
 * and one runs; 8 is done; 9 has failed; 10 was killed; 11 was cancelled; 12 was requeued.
 */
static struct spool *world(void)
{
	static const char *const specs[] = {
		"\"name\":\"first\",\"priority\":1,\"gpus\":2",
		"\"name\":\"paused\",\"paused\":true",
		"\"name\":\"after\",\"after\":[1]",
		"\"name\":\"late\",\"begin\":\"2099-01-01 12:00\"",
		"\"name\":\"in_lane\",\"lane\":\"week\"",
		"\"name\":\"runs\",\"gpus\":\"all\"",
		"\"name\":\"many\",\"array\":\"0-4\"",
		"\"name\":\"good\"",
		"\"name\":\"bad\"",
		"\"name\":\"killed\"",
		"\"name\":\"stopped\"",
		"\"name\":\"again\"",
	};
	struct spool *sp = open_spool();
	struct claimer n1 = self(sp, "n1"), n7 = self(sp, "n7");
	struct spool_again again = { .attempts = 1, .begun_ns = clock_wall_ns() };
	struct claim c;
	struct spool_end end;
	struct scan_task t;
	struct batch *b;

	for (size_t i = 0; i < ARRAY_LEN(specs); i++) {
		cleanup_free char *json = xasprintf("{\"argv\":[\"true\"],%s}", specs[i]);

		assert_int_equal(submit(sp, json), i + 1);
	}
	assert_int_equal(lane_pause(sp, "week", "by me", NULL), 0);
	(void)claim(sp, 6, &n7);
	b = open_batch(sp, 7, "n1");
	for (uint64_t element = 1; element <= 3; element++) {
		assert_int_equal(batch_claim(b, element, &n1, &c, NULL), 0);
		end = ended(&c, element == 1 ? RESULT_DONE : RESULT_FAILED, element == 1 ? 0 : 3);
		if (element < 3)
			assert_int_equal(batch_end(b, NULL, &c, &end, NULL), 0);
	}
	assert_int_equal(batch_sync(b, NULL), 0);
	(void)batch_close(b);
	for (uint64_t id = 8; id <= 10; id++) {
		c = claim(sp, id, &n1);
		end = ended(&c, id == 8 ? RESULT_DONE : RESULT_FAILED,
			    id == 8   ? 0
			    : id == 9 ? 3
				      : NAME_SIGNALLED + 9);
		assert_int_equal(transit_end(sp, NULL, &c, &end, NULL), 0);
	}
	assert_true(get(sp, 11, &t));
	assert_int_equal(transit_cancel(sp, &t.name, "stopped", NULL), 0);
	c = claim(sp, 12, &n1);
	assert_int_equal(transit_requeue(sp, NULL, &c, &again, NULL), 0);
	return sp;
}

static const struct {
	const char *id; /* of a row of list -a */
	const char *row;
} rows[] = {
	{ "1", "pending       1     2  -     first       -  no agent runs" },
	{ "2", "paused      500     1  -     paused      -\n" },
	{ "3", "pending     500     1  -     after       -  after others" },
	{ "4", "pending     500     1  -     late        -  not before 2099-01-01 12:00" },
	{ "5", "paused      500     1  week  in_lane     -  lane week is paused" },
	{ "6", "running     500   all  -     runs        -  on n7" },
	{ "7",
	  "pending     500     1  -     many        -  5 elements: 1 done, 1 failed, 1 running, 2 left, no "
	  "agent runs" },
	{ "7.3", "running     500     1  -     many        -  on n1" },
	{ "8", "done        500     1  -     good        -  2" },
	{ "9", "failed      500     1  -     bad         -  2" },
	{ "12", "pending     500     1  -     again       -  no agent runs, requeued 1x" },
};

static const char *row_of(const char *out, const char *id)
{
	const char *p = out;

	while (*p) {
		const char *word = p + strspn(p, " ");

		if (strncmp(word, id, strlen(id)) == 0 && word[strlen(id)] == ' ')
			return word + strlen(id) + strspn(word + strlen(id), " ");
		p += strcspn(p, "\n");
		p += *p == '\n';
	}
	return "";
}

static void a_row_says_how_a_task_stands(void **state)
{
	struct spool *sp = world();
	struct said s = cli(&cmd_list, "-a");

	assert_int_equal(s.code, 0);
	assert_string_equal(s.err, "");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (!str_has_prefix(row_of(s.out, rows[i].id), rows[i].row))
			fail_msg("%s: \"%.80s\" in\n%s", rows[i].id, row_of(s.out, rows[i].id),
				 s.out);
	assert_non_null(strstr(row_of(s.out, "9"), ", exit 3\n"));
	assert_non_null(strstr(row_of(s.out, "10"), ", signal 9\n"));
	said_clear(&s);
	(void)spool_close(sp);
}

/* Ids in the order of the rows. */
static char *ids(const char *options)
{
	cleanup_free char *line = xasprintf("--json %s", options);
	struct said s = cli(&cmd_list, line);
	char *text = xstrdup("");

	if (s.code != 0 || s.err[0])
		fail_msg("list %s: %d, %s", line, s.code, s.err);
	for (char *save = NULL, *one = strtok_r(s.out, "\n", &save); one;
	     one = strtok_r(NULL, "\n", &save)) {
		json_t *o = json_loads(one, 0, NULL);
		json_int_t element = json_integer_value(json_object_get(o, "element"));
		cleanup_free char *before = text;

		assert_non_null(o);
		text = xasprintf("%s%s%d%s", before, before[0] ? " " : "",
				 (int)json_integer_value(json_object_get(o, "id")),
				 element ? "*" : "");
		json_decref(o);
	}
	said_clear(&s);
	return text;
}

static void what_is_meant_comes_in_the_order_of_starting(void **state)
{
	static const struct {
		const char *options, *ids; /* "*": of an element */
	} cases[] = {
		{ "", "7* 6 1 2 3 4 5 7 12" },
		{ "-s running", "7* 6" },
		{ "-s pending", "1 3 4 7 12" },
		{ "-s paused", "2 5" },
		{ "-s paused,running", "7* 6 2 5" },
		{ "-s done", "8" },
		{ "-s failed,done", "8 9 10" },
		{ "-s cancelled", "11" },
		{ "-l week", "5" },
		{ "-l wee", "" },
		{ "-n late", "4" },
		{ "-n ma", "7* 7" },
		{ "-n any", "" },
		{ "-a -n good", "8" },
		{ "-n good", "" },
		{ "-a -l week -n in", "5" },
	};
	struct spool *sp = world();

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cleanup_free char *got = ids(cases[i].options);

		if (strcmp(got, cases[i].ids) != 0)
			fail_msg("%s: %s", cases[i].options, got);
	}
	(void)spool_close(sp);
}

static void rows_are_sorted_and_cut(void **state)
{
	static const struct {
		const char *options, *ids;
	} cases[] = {
		{ "--limit 3", "7* 6 1" },
		{ "--sort id", "1 2 3 4 5 6 7 7* 12" },
		{ "--sort -id --limit 2", "12 7*" },
		{ "--sort priority,-id -s pending", "1 12 7 4 3" },
		{ "--sort gpus,name -s pending", "3 12 4 7 1" },
		{ "--sort -lane,state,-name -s pending,paused", "5 7 4 1 12 3 2" },
		{ "--sort elapsed -s running", "7* 6" },
		{ "-a --sort exit,id -s failed,done", "8 9 10" },
		{ "-a --sort -exit -s failed,done", "10 9 8" },
	};
	struct spool *sp = world();

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cleanup_free char *got = ids(cases[i].options);

		if (strcmp(got, cases[i].ids) != 0)
			fail_msg("%s: %s", cases[i].options, got);
	}
	(void)spool_close(sp);
}

static void the_last_line_has_the_totals(void **state)
{
	static const struct {
		const char *options, *line;
	} cases[] = {
		{ "", "8 wait (2 paused), 2 run on " },
		{ "-s pending --limit 2", "6 wait, 0 run; the first 2 of 5 rows\n" },
		{ "-s failed", "0 wait, 0 run, 2 have ended\n" },
	};
	struct spool *sp = world();

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct said s = cli(&cmd_list, cases[i].options);
		size_t len = strlen(s.out);

		while (len && (len == strlen(s.out) || s.out[len - 1] != '\n'))
			len--;
		if (!str_has_prefix(s.out + len, cases[i].line))
			fail_msg("%s: %s", cases[i].options, s.out + len);
		said_clear(&s);
	}
	(void)spool_close(sp);
}

static void columns_are_those_that_are_wanted(void **state)
{
	static const struct {
		const char *options, *out;
	} cases[] = {
		{ "--format id,name -n late", "ID  NAME\n 4  late\n" },
		{ "--format name,reason,begin -n late",
		  "NAME  REASON                          NOT BEFORE\n"
		  "late  not before 2099-01-01 12:00:00  2099-01-01 12:00:00\n" },
		{ "--format id,exit,elements -s failed",
		  "ID      EXIT  ELEMENTS\n 9         3  -\n10  signal 9  -\n" },
		{ "--format node,id,elapsed,limit,devices -n runs",
		  "NODE  ID  ELAPSED  LIMIT  DEVICES\nn7     6        -      -  -\n" },
	};
	struct spool *sp = world();

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct said s = cli(&cmd_list, cases[i].options);

		if (strcmp(s.out, cases[i].out) != 0)
			fail_msg("%s:\n%s", cases[i].options, s.out);
		said_clear(&s);
	}
	(void)spool_close(sp);
}

static void a_column_that_is_none_is_refused(void **state)
{
	static const struct {
		const char *options, *err;
	} cases[] = {
		{ "--format id,nmae",
		  "--format: \"nmae\" is none of its words: did you mean name; they" },
		{ "--sort -iid", "--sort: \"iid\" is none of its words: did you mean id; they" },
		{ "--sort reason", "--sort: \"reason\" is none of its words" },
		{ "--format id --json", "--format is for the table" },
		{ "--limit 0", "--limit" },
		{ "--every 1ms", "--every" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct said s = cli(&cmd_list, cases[i].options);

		assert_int_equal(s.code, CMD_USAGE);
		if (!strstr(s.err, cases[i].err))
			fail_msg("%s: %s", cases[i].options, s.err);
		said_clear(&s);
	}
}

/* The members of a line, but for times. */
static void a_line_of_json_has_what_there_is(void **state)
{
	static const struct {
		const char *options, *want;
	} cases[] = {
		{ "-n first",
		  "{\"id\":1,\"state\":\"pending\",\"name\":\"first\",\"lane\":null,\"priority\":1,"
		  "\"gpus\":2,\"elements\":0,\"reason\":{\"code\":\"no-agent\",\"text\":\"no agent "
		  "runs\"}}" },
		{ "-n in_lane",
		  "{\"id\":5,\"state\":\"paused\",\"name\":\"in_lane\",\"lane\":\"week\",\"priority\":500,"
		  "\"gpus\":1,\"elements\":0,\"lane_paused\":true,\"reason\":{\"code\":\"lane-paused\",\"text\":"
		  "\"lane week is paused\"}}" },
		{ "-n many -s pending",
		  "{\"id\":7,\"state\":\"pending\",\"name\":\"many\",\"lane\":null,\"priority\":500,"
		  "\"gpus\":1,\"elements\":5,\"counts\":{\"waiting\":2,\"running\":1,\"done\":1,"
		  "\"failed\":1,\"cancelled\":0},\"reason\":{\"code\":\"no-agent\",\"text\":\"no agent "
		  "runs\"}}" },
		{ "-n many -s running",
		  "{\"id\":7,\"state\":\"running\",\"name\":\"many\",\"lane\":null,\"priority\":500,"
		  "\"gpus\":1,\"elements\":0,\"element\":3,\"agent\":\"n1\"}" },
		{ "-n runs",
		  "{\"id\":6,\"state\":\"running\",\"name\":\"runs\",\"lane\":null,\"priority\":500,"
		  "\"gpus\":\"all\",\"elements\":0,\"agent\":\"n7\"}" },
		{ "-s done",
		  "{\"id\":8,\"state\":\"done\",\"name\":\"good\",\"lane\":null,\"priority\":500,"
		  "\"gpus\":1,\"elements\":0,\"exit\":0}" },
		/* What was stopped before it started has no exit code. */
		{ "-s cancelled",
		  "{\"id\":11,\"state\":\"cancelled\",\"name\":\"stopped\",\"lane\":null,"
		  "\"priority\":500,\"gpus\":1,\"elements\":0,\"exit\":null}" },
	};
	struct spool *sp = world();

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cleanup_free char *line = xasprintf("--json %s", cases[i].options);
		struct said s = cli(&cmd_list, line);
		json_t *got = json_loads(s.out, 0, NULL),
		       *want = json_loads(cases[i].want, 0, NULL);

		assert_non_null(want);
		(void)json_object_del(got, "ended");
		if (!json_equal(got, want))
			fail_msg("%s: %s", line, s.out);
		json_decref(got);
		json_decref(want);
		said_clear(&s);
	}
	(void)spool_close(sp);
}

static void nothing_is_said_to_be_nothing(void **state)
{
	static const struct {
		const char *options, *out;
	} cases[] = {
		{ "",
		  "Nothing in instance \"default\" waits or runs (-a: also what has ended).\n" },
		{ "-a", "Nothing in instance \"default\".\n" },
		{ "-s failed", "No task in instance \"default\" is as asked for.\n" },
		{ "-l week",
		  "No task in instance \"default\" is as asked for, of those that wait or run (-a: also "
		  "what has ended).\n" },
		{ "--json", "" },
	};
	struct spool *sp = open_spool();

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct said s = cli(&cmd_list, cases[i].options);

		assert_int_equal(s.code, 0);
		assert_string_equal(s.out, cases[i].out);
		said_clear(&s);
	}
	(void)spool_close(sp);
}

static void a_state_that_is_none_is_refused(void **state)
{
	static const char *const options[] = { "-s nothing", "-s done,nothing", "-s Done" };

	for (size_t i = 0; i < ARRAY_LEN(options); i++) {
		struct said s = cli(&cmd_list, options[i]);

		assert_int_equal(s.code, CMD_USAGE);
		assert_string_equal(s.out, "");
		assert_non_null(strstr(s.err,
				       "\" is none of pending, paused, running, done, failed, "
				       "cancelled\n"));
		said_clear(&s);
	}
}

/* -------- rows whose JSON is kept -------- */

#define NOW_NS (4102444800ULL * NS_PER_S)

static struct rows read_rows(struct rows_index *x, const struct rows *before)
{
	const struct rows_said said = { .unserved = true };
	struct rows read;

	assert_int_equal(rows_read(x, &said, &read, NULL), 0);
	rows_keep_json(&read, before);
	return read;
}

static char *text_of(const struct rows *r, const struct row *row)
{
	struct strbuf b = STRBUF_INIT;

	row_add_json(r, row, NOW_NS, &b);
	return strbuf_take(&b);
}

/* Made anew, whatever is kept. */
static char *new_text_of(const struct row *row)
{
	const struct rows none = { .n = 0 };
	struct row copy = *row;

	copy.json_at = copy.json_len = 0;
	return text_of(&none, &copy);
}

/* In what is kept of them, which whoever takes it has then, too. */
static void mark(struct rows *r)
{
	for (size_t i = 0; i < r->n; i++) {
		char *key = strstr(r->json + r->all[i].json_at, "\"id\"");

		assert_non_null(key);
		key[1] = 'I';
	}
}

static bool is_marked(const char *text)
{
	return strstr(text, "\"Id\"") != NULL;
}

static bool is_made_anew(const struct row *row)
{
	static const struct {
		uint64_t id, element;
	} changed[] = { { 1, 0 }, { 3, 0 }, { 5, 0 }, { 7, 0 }, { 7, 4 }, { 12, 0 } };

	for (size_t i = 0; i < ARRAY_LEN(changed); i++)
		if (row->name.id == changed[i].id && row->name.element == changed[i].element)
			return true;
	return false;
}

/* 1 is paused, 3 has another priority, 5's lane goes on, 12 runs, and so does 7.4, of which 7
 * tells. */
static void change(const struct spool *sp)
{
	struct claimer n1 = self(sp, "n1");
	struct scan_task t;
	struct claim c;
	struct batch *b;

	assert_true(get(sp, 1, &t));
	assert_int_equal(transit_pause(sp, &t.name, true, NULL), 0);
	assert_true(get(sp, 3, &t));
	assert_int_equal(transit_priority(sp, &t.name, 7, NULL), 0);
	assert_int_equal(lane_resume(sp, "week", NULL), 0);
	(void)claim(sp, 12, &n1);
	b = open_batch(sp, 7, "n1");
	assert_int_equal(batch_claim(b, 4, &n1, &c, NULL), 0);
	(void)batch_close(b);
}

static void json_is_kept_of_rows_that_stay_as_they_are(void **state)
{
	struct spool *sp = world();
	struct rows_index *x = rows_index_new(sp);
	struct rows first = read_rows(x, NULL), second;

	assert_int_equal(first.n, 9);
	for (size_t i = 0; i < first.n; i++) {
		cleanup_free char *kept = text_of(&first, &first.all[i]);
		cleanup_free char *made = new_text_of(&first.all[i]);

		assert_true(first.all[i].json_len > 0);
		assert_string_equal(kept, made);
	}
	mark(&first);
	change(sp);
	second = read_rows(x, &first);
	assert_int_equal(second.n, 10);
	for (size_t i = 0; i < second.n; i++) {
		cleanup_free char *kept = text_of(&second, &second.all[i]);
		cleanup_free char *made = new_text_of(&second.all[i]);

		assert_int_equal(is_marked(kept), !is_made_anew(&second.all[i]));
		if (!is_marked(kept))
			assert_string_equal(kept, made);
	}
	rows_clear(&first);
	rows_clear(&second);
	x = rows_index_free(x);
	(void)spool_close(sp);
}

/* It is another word each time, so that it is never kept. */
static void how_long_it_runs_is_said_as_of_now(void **state)
{
	static const struct {
		const char *member; /* of its run */
		const char *text;
	} cases[] = {
		{ "agent", "{\"id\":1,\"agent\":7,\"ran_s\":61.005}" },
		{ "left_exit", "{\"id\":1,\"left_exit\":7}" },
		{ "unfiled", "{\"id\":1,\"unfiled\":7}" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct rows all = { .n = 1, .all = xcalloc(1, sizeof(*all.all)) };
		cleanup_free char *text = NULL;

		all.all[0] = (struct row){ .started_ns = 1,
					   .began_ns = (int64_t)(NOW_NS - 61005 * NS_PER_MS) };
		all.all[0].run = json_pack("{si si}", "id", 1, cases[i].member, 7);
		rows_keep_json(&all, NULL);
		text = text_of(&all, &all.all[0]);
		assert_string_equal(text, cases[i].text);
		rows_clear(&all);
	}
}

static void no_more_json_is_kept_than_there_is_room_for(void **state)
{
	enum { N = 40 };
	struct rows all = { .n = N, .all = xcalloc(N, sizeof(*all.all)) };
	cleanup_strbuf struct strbuf why = STRBUF_INIT;
	size_t kept = 0, bytes = 0;

	strbuf_pad(&why, 'x', ROWS_JSON_MAX / 32);
	for (size_t i = 0; i < N; i++)
		all.all[i] = (struct row){ .name = { .id = i + 1, .name = "t" },
					   .reason = json_pack("{ss ss}", "code", "c", "text",
							       strbuf_str(&why)) };
	rows_keep_json(&all, NULL);
	for (size_t i = 0; i < N; i++) {
		cleanup_free char *text = text_of(&all, &all.all[i]);
		cleanup_free char *made = new_text_of(&all.all[i]);

		kept += all.all[i].json_len > 0;
		bytes += all.all[i].json_len;
		assert_string_equal(text, made);
	}
	assert_int_equal(kept, 32);
	assert_true(bytes <= ROWS_JSON_MAX + 2 * ROWS_JSON_MAX / 32);
	rows_clear(&all);
}

int main(void)
{
#define IN_A_SPOOL(fn) cmocka_unit_test_setup_teardown(fn, cli_setup, cli_teardown)
	const struct CMUnitTest tests[] = {
		IN_A_SPOOL(a_row_says_how_a_task_stands),
		IN_A_SPOOL(what_is_meant_comes_in_the_order_of_starting),
		IN_A_SPOOL(rows_are_sorted_and_cut),
		IN_A_SPOOL(the_last_line_has_the_totals),
		IN_A_SPOOL(columns_are_those_that_are_wanted),
		IN_A_SPOOL(a_column_that_is_none_is_refused),
		IN_A_SPOOL(a_line_of_json_has_what_there_is),
		IN_A_SPOOL(nothing_is_said_to_be_nothing),
		IN_A_SPOOL(a_state_that_is_none_is_refused),
		IN_A_SPOOL(json_is_kept_of_rows_that_stay_as_they_are),
		cmocka_unit_test(how_long_it_runs_is_said_as_of_now),
		cmocka_unit_test(no_more_json_is_kept_than_there_is_room_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
