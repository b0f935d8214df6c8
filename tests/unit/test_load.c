/* SPDX-License-Identifier: MIT */

/* Load: the size of the products, and the control of the duty against a simulated card. */

#include "unit.h"

#include "hold/guard/load_control.h"
#include "hold/holder/load.h"
#include "hold/holder/product.h"

static void test_gemm_n(void **state)
{
	static const struct {
		uint64_t gib;
		uint32_t n;
	} cases[] = { { 24, 14336 }, { 48, 20480 }, { 80, 26624 } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(product_side(cases[i].gib << 30), cases[i].n);
	assert_int_equal(product_side(0), 2048);
	for (uint64_t g = 1; g < 512; g++) {
		uint32_t n = product_side(g << 30);

		assert_int_equal(n % 2048, 0);
		assert_true(n <= product_side((g + 1) << 30));
		assert_true(load_gemm_bytes(n) > (size_t)n * n * 8);
	}
	assert_true(load_gemm_bytes(26624) < 8ULL << 30);
}

/* However large the hold is, the product is that of the card; in a small one it is smaller. */
static void test_gemm_fits_into_the_hold(void **state)
{
	const uint64_t total = 141ULL << 30;
	uint32_t n = product_side(total);

	assert_int_equal(load_gemm_fit(total, 124ULL << 30), n);
	assert_int_equal(load_gemm_fit(total, load_gemm_bytes(n)), n);
	assert_int_equal(load_gemm_fit(total, load_gemm_bytes(n) - 1), n - 2048);
	assert_int_equal(load_gemm_fit(total, load_gemm_bytes(2048)), 2048);
	assert_int_equal(load_gemm_fit(total, load_gemm_bytes(2048) - 1), 0);
	assert_int_equal(load_gemm_fit(0, 0), 0);
}

/*
 * What NVML would report: the mean duty of the last `window` seconds, times a gain (a kernel that
 * takes a bit longer than asked for, or a card that is shared), in whole per cent.
 */
static uint32_t plant(const uint32_t *duties, int now, int window, double gain)
{
	double sum = 0;

	for (int i = 0; i < window; i++)
		sum += duties[now - i > 0 ? now - i : 0];

	double util = sum / window / 10 * gain;

	return util > 100 ? 100 : (uint32_t)(util + 0.5);
}

static void run_loop(uint32_t start, int window, double gain, uint32_t target)
{
	uint32_t duties[120] = { start };
	uint32_t low = target - 25, high = target + 10;

	for (int t = 1; t < 120; t++) {
		uint32_t util = plant(duties, t - 1, window, gain);

		duties[t] = load_control_step(duties[t - 1], util, low, target, high);
		assert_in_range(duties[t], 20, 1000);
		if (t > 40)
			assert_in_range(util, target - 5, target + 5);
	}
}

static void test_converges(void **state)
{
	static const double gains[] = { 0.9, 1.0, 1.1 };
	static const uint32_t targets[] = { 30, 50, 75, 85 };

	for (uint32_t start = 20; start <= 1000; start += 70)
		for (int window = 1; window <= 2; window++)
			for (size_t g = 0; g < 3; g++)
				for (size_t t = 0; t < 4; t++)
					run_loop(start, window, gains[g], targets[t]);
}

static void test_limits(void **state)
{
	/* It cannot be reached: at the limit, and no further. */
	uint32_t up = 500, down = 500;

	for (int i = 0; i < 50; i++) {
		up = load_control_step(up, 0, 50, 75, 85);
		down = load_control_step(down, 100, 50, 75, 85);
	}
	assert_int_equal(up, 1000);
	assert_int_equal(down, 20);
	/* Near the target nothing changes; outside the band it goes twice as fast. */
	assert_int_equal(load_control_step(500, 76, 50, 75, 85), 500);
	assert_int_equal(load_control_step(500, 74, 50, 75, 85), 500);
	assert_int_equal(load_control_step(500, 55, 50, 75, 85), 550);
	assert_int_equal(load_control_step(500, 35, 50, 75, 85), 700);
	assert_int_equal(load_control_step(500, 95, 50, 75, 85), 400);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gemm_n),
		cmocka_unit_test(test_gemm_fits_into_the_hold),
		cmocka_unit_test(test_converges),
		cmocka_unit_test(test_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
