/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include "hold/guard/baseline.h"

#define MIBS (1ULL << 20)
#define GIBS (1ULL << 30)

/* The driver lists our holder with its memory: everything is known. */
static void test_listed(void **state)
{
	struct baseline s = { 0 };

	baseline_begin(&s, 100 * MIBS, false, 0);
	assert_int_equal(
		baseline_excess(&s, 70 * GIBS + 600 * MIBS, 70 * GIBS + 500 * MIBS, 70 * GIBS), 0);
	/* Growing: from what was in use by others then. */
	assert_int_equal(
		baseline_excess(&s, 75 * GIBS + 610 * MIBS, 75 * GIBS + 500 * MIBS, 75 * GIBS), 0);
	assert_int_equal(
		baseline_excess(&s, 76 * GIBS + 640 * MIBS, 76 * GIBS + 500 * MIBS, 76 * GIBS),
		30 * MIBS);
}

/* It does not: a context is allowed for, and its real price is known from then on. */
static void test_unlisted(void **state)
{
	struct baseline s = { 0 };

	baseline_begin(&s, 0, false, 0);
	assert_int_equal(baseline_excess(&s, 73 * GIBS, 0, 70 * GIBS), 2 * GIBS);
	baseline_begin(&s, 0, false, 0);
	assert_int_equal(baseline_excess(&s, 70 * GIBS + 500 * MIBS, 0, 70 * GIBS), 0);
	assert_int_equal(s.context, 500 * MIBS);
	baseline_begin(&s, 200 * MIBS, false, 0);
	assert_int_equal(baseline_excess(&s, 70 * GIBS + 600 * MIBS, 0, 70 * GIBS),
			 0); /* some left */
	baseline_begin(&s, 0, false, 0);
	assert_int_equal(baseline_excess(&s, 70 * GIBS + 520 * MIBS, 0, 70 * GIBS), 20 * MIBS);
}

/* What the driver itself uses for us is taken for somebody's once, and never again. */
static void test_rest_that_comes_back(void **state)
{
	struct baseline s = { 0 };
	uint64_t own = 70 * GIBS + 500 * MIBS;

	baseline_begin(&s, 0, false, 0);
	assert_int_equal(baseline_excess(&s, own + 90 * MIBS, own, 70 * GIBS), 90 * MIBS);
	baseline_begin(&s, 0, false, 0);
	assert_int_equal(baseline_excess(&s, own + 94 * MIBS, own, 70 * GIBS), 0);
	baseline_begin(&s, 0, false, 0);
	assert_int_equal(baseline_excess(&s, own + 90 * MIBS, own, 70 * GIBS), 0);
	baseline_begin(&s, 0, false, 0);
	assert_int_equal(baseline_excess(&s, own + 194 * MIBS, own, 70 * GIBS), 100 * MIBS);
	/* The same program started twice is none of that. */
	for (int i = 0; i < 3; i++) {
		baseline_begin(&s, 0, false, 0);
		assert_int_equal(baseline_excess(&s, own + 94 * MIBS + 2 * GIBS, own, 70 * GIBS),
				 2 * GIBS);
	}
}

/* Our context that stayed beside a task is not what others use. */
static void test_placeholder(void **state)
{
	struct baseline s = { 0 };

	baseline_begin(&s, 0, false, 0);
	assert_int_equal(baseline_excess(&s, 70 * GIBS + 500 * MIBS, 0, 70 * GIBS), 0);
	baseline_begin(&s, 600 * MIBS, true, 0);
	assert_int_equal(s.others, 100 * MIBS);
	assert_int_equal(baseline_excess(&s, 70 * GIBS + 800 * MIBS, 0, 70 * GIBS), 200 * MIBS);
	baseline_begin(&s, 600 * MIBS, true, 450 * MIBS);
	assert_int_equal(s.others, 150 * MIBS);
}

static void test_early(void **state)
{
	struct baseline s = { 0 };
	uint64_t own = 70 * GIBS + 500 * MIBS;

	baseline_begin(&s, 0, false, 0);
	assert_int_equal(baseline_early(&s, own + 2 * GIBS, own, 70 * GIBS), 0); /* who knows? */
	assert_int_equal(baseline_excess(&s, own, own, 70 * GIBS), 0);
	baseline_begin(&s, 0, false, 0);
	assert_int_equal(baseline_early(&s, own, own, 70 * GIBS), 0);
	assert_int_equal(baseline_early(&s, own + 90 * MIBS, own, 70 * GIBS), 90 * MIBS);
	/* That was ours after all: it is learnt as ever. */
	for (int i = 0; i < 2; i++) {
		baseline_doubt(&s);
		assert_int_equal(baseline_early(&s, own + 90 * MIBS, own, 70 * GIBS), 0);
		assert_int_equal(baseline_excess(&s, own + 90 * MIBS, own, 70 * GIBS),
				 i ? 0 : 90 * MIBS);
		baseline_begin(&s, 0, false, 0);
	}
	assert_int_equal(baseline_early(&s, own + 90 * MIBS, own, 70 * GIBS), 0);
}

/* A figure is due once the holder has its memory, asked for once, and off while that moves. */
static void test_figure(void **state)
{
	struct figure f = { .is = FIGURE_OFF };

	baseline_begin(&f.baseline, 100 * MIBS, false, 0);
	assert_false(figure_awaited(&f));
	figure_due(&f, 500, 200);
	assert_int_equal(f.is, FIGURE_DUE);
	assert_int_equal(f.at_ns, 500);
	assert_int_equal(f.steady_ns, 200);
	assert_true(figure_awaited(&f));
	f.is = FIGURE_ASKED;
	assert_true(figure_awaited(&f));
	figure_take(&f, 71 * GIBS);
	assert_int_equal(f.is, FIGURE_TAKEN);
	assert_int_equal(f.used, 71 * GIBS);
	assert_int_equal(f.steady_ns, 200);
	assert_false(figure_awaited(&f));
	/* The holder takes more: what was taken before is none any more. */
	figure_due(&f, 900, 0);
	assert_int_equal(f.is, FIGURE_DUE);
	assert_int_equal(f.used, 0);
	assert_int_equal(f.steady_ns, 0);
	figure_off(&f);
	assert_false(figure_awaited(&f));
	assert_int_equal(f.at_ns, 0);
	assert_int_equal(f.baseline.others, 100 * MIBS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_listed),
		cmocka_unit_test(test_unlisted),
		cmocka_unit_test(test_rest_that_comes_back),
		cmocka_unit_test(test_placeholder),
		cmocka_unit_test(test_early),
		cmocka_unit_test(test_figure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
