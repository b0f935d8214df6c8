/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include "alloc/base.h"
#include "base/mem.h"

#define AT(...)                                                                                    \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}

static void steps_are_a_table(void **state)
{
	static const struct {
		const char *what;
		struct base_at at;
		enum base_step step;
	} cases[] = {
		{ "none is wanted", AT(.free = 4, .room = 8), BASE_REST },
		{ "one is free", AT(.wanted = 2, .free = 1, .room = 8), BASE_ADD },
		{ "the one that is free is for one that waits",
		  AT(.wanted = 2, .waits = 1, .free = 1, .room = 8), BASE_REST },
		{ "one more than that is", AT(.wanted = 2, .waits = 1, .free = 2, .room = 8),
		  BASE_ADD },
		{ "it has all", AT(.wanted = 2, .has = 2, .free = 4, .room = 8), BASE_REST },
		{ "nothing is free", AT(.wanted = 2, .has = 1, .room = 8), BASE_REST },
		{ "others come first", AT(.wanted = 2, .free = 4, .room = 8, .others_wait = true),
		  BASE_REST },
		{ "others wait, and so does one of it",
		  AT(.wanted = 2, .waits = 1, .free = 4, .room = 8, .others_wait = true),
		  BASE_WITHDRAW },
		{ "one was preempted, and nothing is free",
		  AT(.wanted = 2, .has = 1, .waits = 1, .room = 8), BASE_WITHDRAW },
		{ "the limit of all allocations", AT(.wanted = 2, .free = 4), BASE_REST },
		{ "less is wanted than before", AT(.wanted = 1, .has = 2, .free = 4, .room = 8),
		  BASE_GIVE },
		{ "and one waits", AT(.wanted = 1, .has = 1, .waits = 1, .free = 4, .room = 8),
		  BASE_WITHDRAW },
		{ "the base is switched off", AT(.has = 1, .free = 4, .room = 8), BASE_GIVE },
		{ "somebody else wants more", AT(.wanted = 1, .kept = 2, .has = 2, .room = 8),
		  BASE_REST },
		{ "somebody else wants what is not there yet",
		  AT(.wanted = 1, .kept = 2, .has = 1, .free = 4, .room = 8), BASE_REST },
		{ "who wants none himself does not know what is free for it",
		  AT(.kept = 2, .waits = 2, .others_wait = true, .room = 8), BASE_REST },
		{ "others wait for what the planner gives them",
		  AT(.wanted = 2, .has = 2, .others_wait = true, .room = 8), BASE_REST },
		{ "others wait, and its GPUs are jobs of their own",
		  AT(.wanted = 2, .has = 2, .others_wait = true, .apart = true, .room = 8),
		  BASE_GIVE },
		/* Jobs of an engine that were asked for a moment ago. */
		{ "others wait, and its job has not had its time",
		  AT(.wanted = 2, .waits = 1, .young = 1, .others_wait = true, .apart = true,
		     .room = 8),
		  BASE_REST },
		{ "one of two has",
		  AT(.wanted = 2, .waits = 2, .young = 1, .others_wait = true, .apart = true,
		     .room = 8),
		  BASE_WITHDRAW },
		{ "less is wanted, and what waits is young",
		  AT(.wanted = 1, .waits = 2, .young = 2, .apart = true, .room = 8), BASE_REST },
		{ "it goes on with what it has too many of",
		  AT(.wanted = 1, .has = 2, .waits = 1, .young = 1, .apart = true, .room = 8),
		  BASE_GIVE },
		{ "one that runs is not given for one that is young",
		  AT(.wanted = 1, .has = 1, .waits = 1, .young = 1, .apart = true, .room = 8),
		  BASE_REST },
		{ "nobody wants any more", AT(.waits = 1, .young = 1, .apart = true, .room = 8),
		  BASE_WITHDRAW },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (base_decide(&cases[i].at) != cases[i].step)
			fail_msg("%s: %d", cases[i].what, base_decide(&cases[i].at));
}

/* Whatever comes and goes: it settles, and never has more than it is to have. */
static void it_settles(void **state)
{
	(void)state;
	for (unsigned int wanted = 0; wanted < 4; wanted++)
		for (unsigned int gpus = 0; gpus < 6; gpus++) {
			struct base_at at = { .wanted = wanted, .has = 3, .free = gpus, .room = 8 };
			enum base_step step;
			unsigned int steps = 0;

			while ((step = base_decide(&at)) != BASE_REST && ++steps < 20) {
				at.has += (step == BASE_ADD) - (step == BASE_GIVE);
				at.free += (step == BASE_GIVE) - (step == BASE_ADD);
			}
			assert_true(steps < 20);
			assert_true(at.has == wanted || (at.has < wanted && !at.free));
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(steps_are_a_table),
		cmocka_unit_test(it_settles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
