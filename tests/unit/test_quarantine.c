/* SPDX-License-Identifier: MIT */

/* Which devices get no tasks (agent/node/quarantine.h). */

#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/node/quarantine.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"

#define MIN_NS	(60 * NS_PER_S)
#define HOUR_NS (60 * MIN_NS)
#define DAY_NS	(24 * HOUR_NS)
#define NOW	(UINT64_C(1000) * DAY_NS)
#define BOOT	"boot-a"

/* A task of a program has ended on a device. */
struct row {
	char device;
	const char *program;
	unsigned int task;
	bool bad;
	unsigned int minute;
};

/* The devices that are shut in the end, by their letters, a minute after the last row. */
static const struct {
	const char *label;
	struct row rows[8];
	const char *shut;
} cases[] = {
	{ "nothing", { { 0 } }, "" },
	{ "one failure", { { 'A', "p", 1, true, 0 } }, "" },
	{ "two tasks of two programs",
	  { { 'A', "p", 1, true, 0 }, { 'A', "q", 2, true, 5 } },
	  "A" },
	{ "one task that is tried again",
	  { { 'A', "p", 1, true, 0 }, { 'A', "p", 1, true, 5 }, { 'A', "p", 1, true, 9 } },
	  "" },
	{ "two tasks of one program that never worked",
	  { { 'A', "p", 1, true, 0 }, { 'A', "p", 2, true, 5 }, { 'A', "p", 3, true, 9 } },
	  "" },
	{ "the same, and it has worked elsewhere",
	  { { 'B', "p", 9, false, 0 }, { 'A', "p", 1, true, 1 }, { 'A', "p", 2, true, 5 } },
	  "A" },
	{ "or works elsewhere afterwards",
	  { { 'A', "p", 1, true, 1 }, { 'A', "p", 2, true, 5 }, { 'B', "p", 9, false, 9 } },
	  "A" },
	{ "that it has worked on the same device says nothing",
	  { { 'A', "p", 9, false, 0 }, { 'A', "p", 1, true, 1 }, { 'A', "p", 2, true, 5 } },
	  "" },
	{ "another program's success says nothing",
	  { { 'B', "q", 9, false, 0 }, { 'A', "p", 1, true, 1 }, { 'A', "p", 2, true, 5 } },
	  "" },
	{ "a program that fails everywhere",
	  { { 'A', "p", 1, true, 0 },
	    { 'B', "p", 2, true, 1 },
	    { 'A', "p", 3, true, 2 },
	    { 'B', "p", 4, true, 3 } },
	  "" },
	{ "the same, beside one that fails here alone",
	  { { 'A', "p", 1, true, 0 },
	    { 'B', "p", 2, true, 1 },
	    { 'A', "q", 3, true, 2 },
	    { 'A', "p", 4, true, 3 } },
	  "" },
	{ "two that fail everywhere",
	  { { 'A', "p", 1, true, 0 },
	    { 'B', "p", 2, true, 1 },
	    { 'A', "q", 3, true, 2 },
	    { 'B', "q", 4, true, 3 } },
	  "" },
	{ "what shut it fails elsewhere, too, as comes out later",
	  { { 'B', "p", 9, false, 0 },
	    { 'A', "p", 1, true, 1 },
	    { 'A', "p", 2, true, 2 },
	    { 'B', "p", 3, true, 3 } },
	  "" },
	{ "one of three that shut it does",
	  { { 'A', "p", 1, true, 0 },
	    { 'A', "q", 2, true, 1 },
	    { 'A', "r", 3, true, 2 },
	    { 'B', "p", 4, true, 3 } },
	  "A" },
	{ "longer than an hour apart",
	  { { 'A', "p", 1, true, 0 }, { 'A', "q", 2, true, 61 } },
	  "" },
	{ "others in between end well there",
	  { { 'A', "p", 1, true, 0 }, { 'A', "r", 3, false, 2 }, { 'A', "q", 2, true, 5 } },
	  "A" },
	{ "each on a device of its own",
	  { { 'A', "p", 1, true, 0 }, { 'B', "q", 2, true, 1 } },
	  "" },
	{ "two bad devices",
	  { { 'A', "p", 1, true, 0 },
	    { 'A', "q", 2, true, 1 },
	    { 'B', "r", 3, true, 2 },
	    { 'B', "s", 4, true, 3 } },
	  "AB" },
};

static void uuid_of(char device, char uuid[QUARANTINE_UUID_MAX])
{
	(void)str_print(uuid, QUARANTINE_UUID_MAX, "GPU-%c", device);
}

static void note(struct quarantine *q, const struct row *r)
{
	struct quarantine_outcome o = { .ended_ns = NOW + r->minute * MIN_NS };

	uuid_of(r->device, o.uuid);
	(void)str_copy(o.name, sizeof(o.name), r->program);
	(void)str_print(o.task, sizeof(o.task), "default %u", r->task);
	(void)str_copy(o.what, sizeof(o.what), r->bad ? "an ECC error" : "");
	quarantine_note(q, &o, o.ended_ns);
}

static enum quarantine_state state_of(const struct quarantine *q, char device)
{
	char uuid[QUARANTINE_UUID_MAX];
	const struct quarantine_device *d;

	uuid_of(device, uuid);
	d = quarantine_find(q, uuid);
	return d ? d->state : QUARANTINE_TRUSTED;
}

static void test_rule(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct quarantine *q = quarantine_new(BOOT);
		char shut[8] = "";
		size_t n = 0;

		for (size_t k = 0; k < ARRAY_LEN(cases[i].rows) && cases[i].rows[k].device; k++)
			note(q, &cases[i].rows[k]);
		for (char device = 'A'; device <= 'C'; device++)
			if (state_of(q, device) == QUARANTINE_SHUT)
				shut[n++] = device;
		shut[n] = '\0';
		if (strcmp(shut, cases[i].shut) != 0)
			fail_msg("%s: %s is shut", cases[i].label, n ? shut : "nothing");
		quarantine_free(q);
	}
}

static struct quarantine *shut(void)
{
	struct quarantine *q = quarantine_new(BOOT);

	note(q, &(struct row){ 'A', "p", 1, true, 0 });
	note(q, &(struct row){ 'A', "q", 2, true, 5 });
	assert_int_equal(state_of(q, 'A'), QUARANTINE_SHUT);
	return q;
}

static void test_words(void **state)
{
	char words[QUARANTINE_WORDS_MAX];
	struct quarantine *q = shut();

	(void)quarantine_words(quarantine_find(q, "GPU-A"), words);
	assert_true(str_has_prefix(words, "in quarantine until 197"));
	assert_true(str_has_suffix(words,
				   ": tasks default 1 and default 2 failed on it with an ECC "
				   "error"));
	quarantine_tick(q, NOW + 66 * MIN_NS);
	(void)quarantine_words(quarantine_find(q, "GPU-A"), words);
	assert_true(str_has_prefix(words, "on probation: tasks "));
	quarantine_say(q, "GPU-A", QUARANTINE_SICK, "its memory fails", NOW + 67 * MIN_NS);
	(void)quarantine_words(quarantine_find(q, "GPU-A"), words);
	assert_string_equal(words, "in quarantine: its memory fails");
	assert_string_equal(quarantine_words(quarantine_find(q, "GPU-B"), words), "");
	quarantine_free(q);
}

/* After its time a task that ends well there makes it trusted, one that fails shuts it for longer.
 */
static void test_probation(void **state)
{
	struct quarantine *q = shut();

	note(q, &(struct row){ 'A', "r", 3, false, 6 }); /* it ran there already */
	quarantine_tick(q, NOW + 64 * MIN_NS);
	assert_int_equal(state_of(q, 'A'), QUARANTINE_SHUT);
	quarantine_tick(q, NOW + 65 * MIN_NS);
	assert_int_equal(state_of(q, 'A'), QUARANTINE_PROBATION);
	note(q, &(struct row){ 'A', "p", 4, true, 70 });
	assert_int_equal(state_of(q, 'A'), QUARANTINE_SHUT);
	quarantine_tick(q, NOW + 189 * MIN_NS); /* two hours this time */
	assert_int_equal(state_of(q, 'A'), QUARANTINE_SHUT);
	quarantine_tick(q, NOW + 190 * MIN_NS);
	assert_int_equal(state_of(q, 'A'), QUARANTINE_PROBATION);
	note(q, &(struct row){ 'A', "r", 5, false, 191 });
	assert_int_equal(state_of(q, 'A'), QUARANTINE_TRUSTED);
	assert_string_equal(quarantine_find(q, "GPU-A")->reason,
			    "task default 5 has ended well on it");
	/* What was before counts no more. */
	note(q, &(struct row){ 'A', "p", 6, true, 192 });
	assert_int_equal(state_of(q, 'A'), QUARANTINE_TRUSTED);
	note(q, &(struct row){ 'A', "s", 7, true, 193 });
	assert_int_equal(state_of(q, 'A'), QUARANTINE_SHUT);
	assert_int_equal(quarantine_find(q, "GPU-A")->times, 3);
	quarantine_free(q);
}

/* On probation a program that fails everywhere says nothing, either. */
static void test_probation_of_a_broken_program(void **state)
{
	struct quarantine *q = shut();

	quarantine_tick(q, NOW + 65 * MIN_NS);
	note(q, &(struct row){ 'B', "t", 3, true, 66 });
	note(q, &(struct row){ 'A', "t", 4, true, 67 });
	assert_int_equal(state_of(q, 'A'), QUARANTINE_PROBATION);
	assert_int_equal(state_of(q, 'B'), QUARANTINE_TRUSTED);
	quarantine_free(q);
}

/* A word ends it, and what was before counts no more; so does a check; one that fails has no end.
 */
static void test_what_is_said(void **state)
{
	static const enum quarantine_event good[] = { QUARANTINE_PERSON, QUARANTINE_HEALTHY };

	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct quarantine *q = shut();

		quarantine_say(q, "GPU-A", good[i], "fine", NOW + 6 * MIN_NS);
		assert_int_equal(state_of(q, 'A'), QUARANTINE_TRUSTED);
		note(q, &(struct row){ 'A', "r", 3, true, 7 });
		assert_int_equal(state_of(q, 'A'), QUARANTINE_TRUSTED);
		quarantine_say(q, "GPU-A", QUARANTINE_SICK, "broken", NOW + 8 * MIN_NS);
		assert_int_equal(state_of(q, 'A'), QUARANTINE_SHUT);
		quarantine_tick(q, NOW + 9 * DAY_NS);
		assert_int_equal(state_of(q, 'A'), QUARANTINE_SHUT);
		quarantine_say(q, "GPU-A", good[i], "fine", NOW + 9 * DAY_NS);
		assert_int_equal(state_of(q, 'A'), QUARANTINE_TRUSTED);
		quarantine_free(q);
	}
}

/* What two agents know becomes the same, and the last word counts. */
static void test_join(void **state)
{
	struct quarantine *a = shut(), *b = quarantine_new(BOOT);

	note(b, &(struct row){ 'B', "p", 9, false, 1 });
	note(b, &(struct row){ 'C', "z", 8, false, 5 });
	for (int i = 0; i < 2; i++) {
		cleanup_free char *of_a = quarantine_text(a), *of_b = quarantine_text(b);

		quarantine_join(b, of_a, strlen(of_a), NOW + 6 * MIN_NS);
		quarantine_join(a, of_b, strlen(of_b), NOW + 6 * MIN_NS);
	}
	cleanup_free char *one = quarantine_text(a), *other = quarantine_text(b);

	assert_string_equal(one, other);
	assert_int_equal(state_of(b, 'A'), QUARANTINE_SHUT);
	assert_int_equal(a->n_outcomes, 4);
	quarantine_say(b, "GPU-A", QUARANTINE_PERSON, "mine", NOW + 7 * MIN_NS);
	/* An older word changes nothing. */
	quarantine_join(b, one, strlen(one), NOW + 8 * MIN_NS);
	assert_int_equal(state_of(b, 'A'), QUARANTINE_TRUSTED);

	cleanup_free char *newer = quarantine_text(b);

	quarantine_join(a, newer, strlen(newer), NOW + 8 * MIN_NS);
	assert_int_equal(state_of(a, 'A'), QUARANTINE_TRUSTED);
	/* No text, and no good one, does harm. */
	static const char *const bad[] = {
		"", "x", "[]",
		"{\"devices\":[7,{},{\"uuid\":\"GPU-A\",\"state\":\"?\"}],\"outcomes\":[{}]}"
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		quarantine_join(a, bad[i], strlen(bad[i]), NOW);
	cleanup_free char *same = quarantine_text(a);

	assert_string_equal(same, newer);
	quarantine_free(a);
	quarantine_free(b);
}

static void test_reboot(void **state)
{
	struct quarantine *a = shut(), *b = quarantine_new("boot-b");
	cleanup_free char *text = quarantine_text(a);

	quarantine_join(b, text, strlen(text), NOW + 6 * MIN_NS);
	assert_int_equal(state_of(b, 'A'), QUARANTINE_PROBATION);
	note(b, &(struct row){ 'A', "r", 3, true, 7 });
	assert_int_equal(state_of(b, 'A'), QUARANTINE_SHUT);
	quarantine_free(a);
	quarantine_free(b);
}

static void test_file(void **state)
{
	char dir[] = "/tmp/tenure-quarantine-XXXXXX";
	struct quarantine *a = shut(), *b = quarantine_new(BOOT);

	assert_non_null(mkdtemp(dir));

	cleanup_free char *path = quarantine_path(dir, "n7");

	assert_int_equal(quarantine_load(b, path, NOW, NULL), 0);
	assert_int_equal(quarantine_sync(b, path, NOW, NULL), 0);
	assert_int_not_equal(access(path, F_OK), 0); /* there is nothing to say */
	assert_int_equal(quarantine_sync(a, path, NOW + 6 * MIN_NS, NULL), 0);
	assert_int_equal(quarantine_load(b, path, NOW + 6 * MIN_NS, NULL), 0);
	assert_int_equal(state_of(b, 'A'), QUARANTINE_SHUT);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(dir), 0);
	quarantine_free(a);
	quarantine_free(b);
}

/* However much happens there, it stays within its bounds. */
static void test_bounds(void **state)
{
	struct quarantine *q = quarantine_new(BOOT);
	char program[16];

	for (unsigned int i = 0; i < 2000; i++) {
		(void)str_print(program, sizeof(program), "p%u", i);
		note(q, &(struct row){ (char)(' ' + i % 90), program, i, i % 3 == 0, i % 50 });
	}
	assert_int_equal(q->n_outcomes, QUARANTINE_OUTCOMES);
	for (size_t i = 1; i < q->n_outcomes; i++)
		assert_true(q->outcomes[i - 1].ended_ns <= q->outcomes[i].ended_ns);
	for (unsigned int i = 0; i < 300; i++) {
		(void)str_print(program, sizeof(program), "GPU-%u", i);
		quarantine_say(q, program, QUARANTINE_SICK, "broken", NOW + i);
	}
	assert_int_equal(q->n_devices, QUARANTINE_DEVICES);
	assert_non_null(quarantine_find(q, "GPU-299"));
	quarantine_free(q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rule),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_probation),
		cmocka_unit_test(test_probation_of_a_broken_program),
		cmocka_unit_test(test_what_is_said),
		cmocka_unit_test(test_join),
		cmocka_unit_test(test_reboot),
		cmocka_unit_test(test_file),
		cmocka_unit_test(test_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
