/* SPDX-License-Identifier: MIT */

/* Which of the devices on which a task fits it gets. Boards are written as a text: devices that
 * have the same letter are joined by NVLink, a digit is one alone. */

#include "unit.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "sched/choose.h"

#define GIBS (1ULL << 30)

static struct board *board_of(const char *groups)
{
	struct board *b = xcalloc(1, sizeof(*b));

	b->n = (unsigned int)strlen(groups);
	for (unsigned int i = 0; i < b->n; i++) {
		b->d[i].group = (unsigned int)groups[i] * SCHED_DEVICES_MAX +
				(isdigit((unsigned char)groups[i]) ? i : 0);
		b->d[i].now.total_bytes = 80 * GIBS;
		b->d[i].now.room_bytes = (int64_t)(80 * GIBS);
		for (unsigned int k = 0; k < b->n; k++)
			if (k != i && groups[k] == groups[i] && !isdigit((unsigned char)groups[i]))
				devset_add(&b->d[i].peers, k);
	}
	return b;
}

/* Slots as a text: "013". */
static struct devset set_of(const char *slots)
{
	struct devset s = { { 0 } };

	for (; *slots; slots++)
		devset_add(&s, (unsigned int)(*slots - '0'));
	return s;
}

static void expect_of(const struct board *b, bool shared, uint64_t mem_bytes,
		      const char *candidates, unsigned int n, const char *expect)
{
	const struct shape s = { .shared = shared, .mem_bytes = mem_bytes };
	struct devset got = choose_devices(b, &s, set_of(candidates), n);
	char text[SCHED_DEVICES_MAX + 1] = "", *p = text;

	devset_each(slot, got) *p++ = (char)('0' + slot);
	if (strcmp(text, expect) != 0)
		fail_msg("%u of %s are %s, and not %s", n, candidates, text, expect);
}

static void expect_alone(const struct board *b, const char *candidates, unsigned int n,
			 const char *expect)
{
	expect_of(b, false, 0, candidates, n, expect);
}

/* ---- alone ---- */

static void between_equals_the_first_ones(void **state)
{
	cleanup_free struct board *b = board_of("0000");

	expect_alone(b, "0123", 1, "0");
	expect_alone(b, "0123", 3, "012");
	expect_alone(b, "23", 1, "2");
	expect_alone(b, "31", 2, "13");
	expect_alone(b, "0123", 0, "");
	expect_alone(b, "0123", 4, "0123");
}

/* There is no gap in which somebody could slip in. */
static void held_ones_first(void **state)
{
	cleanup_free struct board *b = board_of("0000");

	b->d[2].held = b->d[3].held = true;
	expect_alone(b, "0123", 1, "2");
	expect_alone(b, "0123", 2, "23");
	expect_alone(b, "0123", 3, "023");
}

static void those_that_nobody_else_uses_first(void **state)
{
	cleanup_free struct board *b = board_of("000");

	b->d[0].now.foreign = true;
	b->d[0].held = true;
	expect_alone(b, "012", 1, "1");
	expect_alone(b, "012", 3, "012");
}

/* The large ones stay for who needs them. */
static void the_least_memory_first(void **state)
{
	cleanup_free struct board *b = board_of("000");

	b->d[1].now.total_bytes = 40 * GIBS;
	b->d[0].held = true;
	expect_alone(b, "012", 1, "1");
	expect_alone(b, "012", 2, "01");
}

static void what_is_joined_stays_together(void **state)
{
	cleanup_free struct board *b = board_of("aabb");

	expect_alone(b, "0123", 2, "01");
	expect_alone(b, "123", 2, "23"); /* of the first pair one is taken */
	expect_alone(b, "12", 2, "12");	 /* there is no better way */
	b->d[3].held = true;
	expect_alone(b, "0123", 2, "23");
}

/* All from the smallest group that has enough, so that larger ones stay whole. */
static void the_smallest_group_that_has_enough(void **state)
{
	cleanup_free struct board *b = board_of("aaaabb0");

	expect_alone(b, "0123456", 1, "6");
	expect_alone(b, "0123456", 2, "45");
	expect_alone(b, "0123456", 3, "012");
	expect_alone(b, "0123456", 4, "0123");
	/* A hold is no reason to break one. */
	b->d[0].held = true;
	expect_alone(b, "0123456", 1, "6");
	expect_alone(b, "0123456", 2, "45");
}

/* Where none has enough, from the largest on, and the rest from the smallest that has it. */
static void more_than_any_group_has(void **state)
{
	cleanup_free struct board *b = board_of("aabbb0");

	expect_alone(b, "012345", 4, "2345");
	expect_alone(b, "012345", 5, "01234");
	expect_alone(b, "012345", 6, "012345");
}

/* Within a group: those that are linked to what was taken, and least to what stays. */
static void a_chain_is_taken_from_its_end(void **state)
{
	cleanup_free struct board *b = board_of("aaaa");

	/* 1 - 0 - 3 - 2 */
	b->d[0].peers = set_of("13");
	b->d[1].peers = set_of("0");
	b->d[2].peers = set_of("3");
	b->d[3].peers = set_of("02");
	expect_alone(b, "0123", 1, "1");
	expect_alone(b, "0123", 2, "01");
	expect_alone(b, "0123", 3, "013");
	expect_alone(b, "023", 2, "03");
}

/* ---- shared ---- */

static void expect_shared(const struct board *b, uint64_t gib, const char *candidates,
			  unsigned int n, const char *expect)
{
	expect_of(b, true, gib * GIBS, candidates, n, expect);
}

/* Where ours are already, and the least room is left behind: the others stay whole. */
static void who_says_how_much_is_packed(void **state)
{
	cleanup_free struct board *b = board_of("0000");

	b->d[1].now.runs = 1;
	b->d[1].now.room_bytes = (int64_t)(40 * GIBS);
	b->d[2].now.runs = 3;
	b->d[2].now.room_bytes = (int64_t)(60 * GIBS);
	b->d[3].now.room_bytes = (int64_t)(20 * GIBS); /* of others */
	expect_shared(b, 10, "0123", 1, "1");
	expect_shared(b, 10, "023", 1, "2");
	expect_shared(b, 10, "03", 1, "3");
	expect_shared(b, 10, "0123", 3, "123");
}

/* Else where the fewest are. */
static void who_does_not_is_spread(void **state)
{
	cleanup_free struct board *b = board_of("000");

	b->d[0].now.runs = 2;
	b->d[1].now.runs = 1;
	expect_shared(b, 0, "012", 1, "2");
	expect_shared(b, 0, "012", 2, "12");
	b->d[2].now.runs = 5;
	expect_shared(b, 0, "012", 1, "1");
}

static void beside_others_last(void **state)
{
	cleanup_free struct board *b = board_of("000");

	b->d[0].now.foreign = true;
	b->d[0].now.runs = 1;
	b->d[0].now.room_bytes = (int64_t)(10 * GIBS);
	expect_shared(b, 5, "012", 1, "1");
	expect_shared(b, 0, "012", 1, "1");
	expect_shared(b, 5, "0", 1, "0");
}

/* A pair is not broken for it where that can be helped; then a hold decides. */
static void a_pair_is_left_whole(void **state)
{
	cleanup_free struct board *b = board_of("aa000");

	b->d[1].held = true;
	expect_shared(b, 5, "01234", 1, "2");
	b->d[4].held = true;
	expect_shared(b, 5, "01234", 1, "4");
	expect_shared(b, 5, "01", 1, "1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(between_equals_the_first_ones),
		cmocka_unit_test(held_ones_first),
		cmocka_unit_test(those_that_nobody_else_uses_first),
		cmocka_unit_test(the_least_memory_first),
		cmocka_unit_test(what_is_joined_stays_together),
		cmocka_unit_test(the_smallest_group_that_has_enough),
		cmocka_unit_test(more_than_any_group_has),
		cmocka_unit_test(a_chain_is_taken_from_its_end),
		cmocka_unit_test(who_says_how_much_is_packed),
		cmocka_unit_test(who_does_not_is_spread),
		cmocka_unit_test(beside_others_last),
		cmocka_unit_test(a_pair_is_left_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
