/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include "agent/allocations.h"
#include "base/mem.h"

/* Once when there are so many, and again after there were fewer: not by what is free for a moment.
 */
static void free_gpus_are_told_of_once(void **state)
{
	static const struct {
		unsigned int threshold;
		const char *free, *told; /* a digit and a sign for each look */
	} cases[] = {
		{ 2, "222222", ".!...." },   /* also those that were free at first */
		{ 2, "011222", "....!." },   /* it has to be so for two looks */
		{ 2, "1212122", "......!" }, /* between two tasks */
		{ 2, "234321223", ".!.....!." }, { 1, "1102110", ".!..!.." }, { 8, "7777", "...." },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		unsigned int looks = 0;

		for (size_t k = 0; cases[i].free[k]; k++) {
			bool told = allocations_step_free(
				&looks, (unsigned int)(cases[i].free[k] - '0'), cases[i].threshold);

			if (told != (cases[i].told[k] == '!'))
				fail_msg("case %zu, look %zu: %d", i, k, told);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(free_gpus_are_told_of_once) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
