/* SPDX-License-Identifier: MIT */

/* A burn: the sizes of its products, and what is thought of what it finds. */

#include "unit.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "agent/burn/judge.h"
#include "agent/burn/part.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "gpu/nvml_abi.h"
#include "hold/holder/burn.h"
#include "hold/holder/copies.h"
#include "hold/holder/cublas.h"
#include "hold/holder/peers.h"
#include "hold/holder/product.h"

#define GIB_ (1ULL << 30)

static void test_products_fit(void **state)
{
	for (int p = 0; p < PRECISION_MAX; p++) {
		const uint64_t bytes = precision_bytes((uint32_t)p);
		uint32_t before = 0;

		for (uint64_t gib = 1; gib <= 192; gib++) {
			uint32_t n =
				burn_product_n(gib * GIB_, gib * GIB_ / 10 * 9, (enum precision)p);

			assert_int_equal(n % 256, 0);
			assert_true(n >= 1024 && n >= before);
			assert_true(2ULL * n * n * bytes + 8ULL * n * n < gib * GIB_);
			before = n;
		}
	}
	/* In a small hold of a large card the product is what has room. */
	assert_int_equal(burn_product_n(141 * GIB_, 127 * GIB_, PRECISION_BF16), 17408);
	assert_in_range(burn_product_n(141 * GIB_, GIB_, PRECISION_BF16), 1024, 17407);
	assert_int_equal(burn_product_n(141 * GIB_, 1 << 20, PRECISION_BF16), 0);
	assert_int_equal(burn_product_n(141 * GIB_, 0, PRECISION_E4M3), 0);
}

/* What a sum of n products of random numbers of both signs comes to stays far below 2^24. */
static void test_sums_are_exact(void **state)
{
	for (uint32_t n = 1024; n <= 40960; n += 1024) {
		double r = burn_range(n, PRECISION_TF32);
		double sigma2 = n * (r * (r + 1) / 3) * (r * (r + 1) / 3);

		assert_true(r >= 1 && r <= 255);
		assert_true(sigma2 * 25 < 16777216.0 * 16777216.0); /* five sigma */
	}
	assert_true(burn_range(1024, PRECISION_F16) >= burn_range(40960, PRECISION_F16));
	assert_int_equal(burn_range(17408, PRECISION_E4M3), 4);
	/* In double precision far below 2^53, and in numbers that are not to be had in single. */
	for (uint32_t n = 1024; n <= 40960; n += 1024) {
		double r = burn_range(n, PRECISION_F64);

		assert_true(r > 16777216.0 / 16 && r * r / 3 * sqrt(n) * 5 < 9007199254740992.0);
	}
}

static void test_precisions(void **state)
{
	struct burn_test t = { .precision = PRECISION_BEST };
	struct err e = ERR_INIT;

	assert_int_equal(burn_precision(BURN_MIXED, PRECISION_BEST, 75), PRECISION_F16);
	assert_int_equal(burn_precision(BURN_TENSOR, PRECISION_BEST, 80), PRECISION_BF16);
	assert_int_equal(burn_precision(BURN_TENSOR, PRECISION_TF32, 70), PRECISION_TF32);
	assert_int_equal(burn_precision(BURN_FP64, PRECISION_BEST, 90), PRECISION_F64);
	assert_int_equal(burn_precision(BURN_FP32, PRECISION_BF16, 90), PRECISION_F32);
	assert_int_equal(burn_test_check(&t, &e), 0);
	t.precision = PRECISION_MAX;
	assert_int_equal(burn_test_check(&t, &e), -EINVAL);
}

/* A double is compared by a word of it: no bit is overlooked, and no number is taken for NaN. */
static void test_words_of_products(void **state)
{
	static const int64_t sums[] = { 0, 1, -1, 3, 16777217, -123456789012, (1LL << 53) - 1 };

	assert_int_equal(product_word(PRECISION_F16, 1), 0x3f800000);
	assert_int_equal(product_word(PRECISION_F32, -2), 0xc0000000);
	assert_int_equal(product_word(PRECISION_F64, 0), 0);
	for (size_t i = 0; i < ARRAY_LEN(sums); i++) {
		const uint32_t word = product_word(PRECISION_F64, sums[i]);

		assert_true((word & 0x7f800000) != 0x7f800000);
		/* The next number differs in a few low bits of a mantissa. */
		assert_true(word != product_word(PRECISION_F64, sums[i] + 1));
		assert_true(word != product_word(PRECISION_F64, -sums[i] - 1));
	}
}

static void test_windows(void **state)
{
	const uint64_t mib = 1 << 20;

	/* 25 GB/s: 100 MB in 4 ms. */
	assert_int_equal(copies_window(25 * mib, mib, 32 * mib), 32 * mib);
	assert_int_equal(copies_window(25 * mib, mib, 256 * mib), 95 * mib);
	/* A narrow link of the first generation, a time that nobody took, a small place. */
	assert_int_equal(copies_window(2 * mib, 8 * NS_PER_MS, 32 * mib), mib);
	assert_int_equal(copies_window(2 * mib, 800 * NS_PER_MS, 32 * mib), mib);
	assert_int_equal(copies_window(2 * mib, 0, 32 * mib), 2 * mib);
	assert_int_equal(copies_window(25 * mib, mib, mib), mib);
}

/* In each turn everybody has one partner, who has him, and after all of them each has met each. */
static void test_tournament(void **state)
{
	for (uint32_t n = 0; n <= BURN_PEERS_MAX; n++) {
		bool met[BURN_PEERS_MAX][BURN_PEERS_MAX] = { { false } };

		for (uint64_t turn = 0; turn < n + n % 2; turn++)
			for (uint32_t me = 0; me < n; me++) {
				uint32_t partner = peers_partner(n, me, turn);

				assert_true(partner <= n && partner != me);
				if (partner == n)
					continue;
				assert_int_equal(peers_partner(n, partner, turn), me);
				met[me][partner] = true;
			}
		for (uint32_t i = 0; i < n * n; i++)
			assert_true(met[i / n][i % n] || i / n == i % n);
	}
	assert_int_equal(peers_partner(4, 7, 0), 4); /* who is not there has none */
	assert_int_equal(peers_partner(2, 1, UINT64_MAX), 0);
}

static struct burnt good(const char *name, double tflops)
{
	struct burnt d = { .began_ns = NS_PER_S,
			   .ended_ns = 61 * NS_PER_S,
			   .seen_ns = 60 * NS_PER_S };

	(void)str_copy(d.dev.name, sizeof(d.dev.name), name);
	d.dev.mig = -1;
	d.found = (struct burn_report){ .product_ns = NS_PER_S,
					.gflop = (uint64_t)(tflops * 1000),
					.elements = 1000000,
					.n = 16384,
					.precision = PRECISION_BF16,
					.copies = { .copies = { 100, 100, 100 },
						    .bytes_per_s = { 55600000000, 55600000000,
								     83300000000 },
						    .words = 1000 } };
	d.first.known = d.last.known = HEALTH_PCIE_GEN | HEALTH_PCIE_WIDTH | HEALTH_PCIE_WIDTH_MAX;
	d.first.pcie_gen = d.last.pcie_gen = 5;
	d.last.pcie_width = d.last.pcie_width_max = 16;
	return d;
}

static bool has(const struct text_list *l, const char *part)
{
	for (size_t i = 0; i < l->n; i++)
		if (strstr(l->texts[i], part))
			return true;
	return false;
}

static void set_throttled(struct burnt *d, uint64_t bit, uint64_t ns)
{
	d->throttled_ns[__builtin_ctzll(bit)] = ns;
}

#define CASES(X)                                                                                   \
	X(wrong, d->found.wrong = 3, BURN_BAD, "3 of 1000000 results are wrong")                   \
	X(nan, d->found.nan = 1, BURN_BAD, "1 of 1000000 results are no numbers (NaN)")            \
	X(inf, d->found.inf = 1, BURN_BAD, "1 of 1000000 results are infinite")                    \
	X(reference, d->found.reference_wrong = 2, BURN_BAD, "2 words that results are compared")  \
	X(words, d->found.words_wrong = 1, BURN_BAD, "1 of 0 words of memory")                     \
	X(slow, d->found.gflop = 500000, BURN_BAD, "74 % of what this model is known for (672.0)") \
	X(slow_because_small, (d->found.gflop = 500000, d->found.n = 4096), BURN_GOOD, NULL)       \
	X(slow_because_set,                                                                        \
	  (d->found.gflop = 500000,                                                                \
	   set_throttled(d, nvmlClocksEventReasonApplicationsClocks, 50 * NS_PER_S)),              \
	  BURN_GOOD, NULL)                                                                         \
	X(slow_although_set_for_a_while,                                                           \
	  (d->found.gflop = 500000,                                                                \
	   set_throttled(d, nvmlClocksEventReasonApplicationsClocks, 20 * NS_PER_S)),              \
	  BURN_BAD, "74 % of what this model is known for")                                        \
	X(fast_enough, d->found.gflop = 620000, BURN_GOOD, NULL)                                   \
	X(hot, set_throttled(d, nvmlClocksThrottleReasonHwThermalSlowdown, 4 * NS_PER_S),          \
	  BURN_BAD, "slowed down for 4 of 60 s: hw-thermal")                                       \
	X(hot_for_a_moment,                                                                        \
	  set_throttled(d, nvmlClocksThrottleReasonHwThermalSlowdown, 2 * NS_PER_S), BURN_GOOD,    \
	  NULL)                                                                                    \
	X(power_cap, set_throttled(d, nvmlClocksEventReasonSwPowerCap, 60 * NS_PER_S), BURN_GOOD,  \
	  NULL)                                                                                    \
	X(xid, d->xid = 79, BURN_BAD, "reported XID 79 (GPU has fallen off the bus)")              \
	X(kernel,                                                                                  \
	  (d->found.cuda = 700, (void)str_copy(d->trouble, sizeof(d->trouble), "burn: failed")),   \
	  BURN_BAD, "ended with an illegal memory access (CUDA error 700)")                        \
	X(first_kernel,                                                                            \
	  (d->found = (struct burn_report){ .cuda = 715 },                                         \
	   (void)str_copy(d->trouble, sizeof(d->trouble), "burn: failed")),                        \
	  BURN_UNTESTED, "burn: failed")                                                           \
	X(other_error,                                                                             \
	  (d->found.cuda = 2, (void)str_copy(d->trouble, sizeof(d->trouble), "no memory")),        \
	  BURN_UNTESTED, "no memory")                                                              \
	X(lost, d->lost = true, BURN_BAD, "it is gone")                                            \
	X(yielded, d->yielded = true, BURN_YIELDED, NULL)                                          \
	X(trouble, (void)str_copy(d->trouble, sizeof(d->trouble), "busy: PID 7"), BURN_UNTESTED,   \
	  "busy: PID 7")                                                                           \
	X(nothing, d->found = (struct burn_report){ 0 }, BURN_UNTESTED, "too short")               \
	X(wrong_in, d->found.copies.wrong[BURN_TO] = 2, BURN_BAD,                                  \
	  "2 of 1000 words were copied to it")                                                     \
	X(wrong_out, d->found.copies.wrong[BURN_FROM] = 1, BURN_BAD,                               \
	  "1 of 1000 words were copied from")                                                      \
	X(slow_copies, d->found.copies.bytes_per_s[BURN_TO] /= 3, BURN_BAD,                        \
	  "29 % of what its link carries (63.0)")                                                  \
	X(shared_link, d->found.copies.bytes_per_s[BURN_BOTH] /= 2, BURN_GOOD, NULL)               \
	X(few_copies,                                                                              \
	  (d->found.copies.bytes_per_s[BURN_TO] /= 3, d->found.copies.copies[BURN_TO] = 3),        \
	  BURN_GOOD, NULL)                                                                         \
	X(unknown_link,                                                                            \
	  (d->found.copies.bytes_per_s[BURN_TO] /= 9, d->first.known = d->last.known = 0),         \
	  BURN_GOOD, NULL)                                                                         \
	X(rested_link, d->last.pcie_gen = 1, BURN_GOOD, NULL)                                      \
	X(no_host_memory, d->found.copies = (struct burn_copies){ .code = -ENOMEM }, BURN_GOOD,    \
	  NULL)                                                                                    \
	X(copies_alone, (d->found.elements = 0, d->found.product_ns = 0), BURN_GOOD, NULL)         \
	X(yielded_and_wrong, (d->yielded = true, d->found.wrong = 1), BURN_BAD, "results are wrong")

#define MAKE(name, change, verdict, reason)                                                        \
	static void make_##name(struct burnt *d)                                                   \
	{                                                                                          \
		change;                                                                            \
	}
CASES(MAKE)

/* What was hardly timed has no speed, and that is said; what was hardly tested is no late host's.
 */
static void test_what_was_not_timed(void **state)
{
	struct burnt d = good("NVIDIA H200", 672);
	struct burn_judgement j;

	d.found.gflop = 5;
	d.found.product_ns = NS_PER_MS;
	d.found.words = 1000000;
	d.found.memory_bytes = 500000;
	for (int late = 1; late >= 0; late--) {
		burn_judge(&d, 1, &j);
		assert_int_equal(j.verdict, BURN_GOOD);
		assert_int_equal(has(&j.notes, "speed of its products is not judged"), late);
		assert_int_equal(has(&j.notes, "passes over memory is not judged"), late);
		burn_judgement_clear(&j);
		d.found.gflop = 30;
		d.found.memory_bytes = 4000000;
	}
}

static void test_verdicts(void **state)
{
#define ROW(name, change, verdict, reason) { #name, make_##name, verdict, reason },
	static const struct {
		const char *name;
		void (*make)(struct burnt *d);
		enum burn_verdict verdict;
		const char *reason;
	} cases[] = { CASES(ROW) };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct burnt d = good("NVIDIA H200", 672);
		struct burn_judgement j;

		cases[i].make(&d);
		burn_judge(&d, 1, &j);
		if (j.verdict != cases[i].verdict ||
		    (cases[i].reason && !has(&j.reasons, cases[i].reason)))
			fail_msg("%s: %s, %s", cases[i].name, burn_verdict_name(j.verdict),
				 j.reasons.n ? j.reasons.texts[0] : "no reason");
		burn_judgement_clear(&j);
	}
}

/* Against the median of its own model, with whatever others there are. */
static void test_stragglers(void **state)
{
	struct burnt d[5] = { good("A", 100), good("A", 102), good("A", 80), good("B", 50),
			      good("A", 101) };
	struct burn_judgement j[5];

	/* One that was given away after a moment is no measure for others, nor measured by them. */
	d[4].found.product_ns /= 4;
	d[4].yielded = true;
	burn_judge(d, 5, j);
	assert_true(j[4].tflops == 0 && j[4].verdict == BURN_YIELDED);
	assert_true(has(&j[2].reasons, "80 % of the median of its model (100.0)"));
	for (int i = 0; i < 5; i++)
		burn_judgement_clear(&j[i]);
	d[4] = good("A", 101);
	burn_judge(d, 5, j);
	for (int i = 0; i < 5; i++)
		assert_int_equal(j[i].verdict, i == 2 ? BURN_BAD : BURN_GOOD);
	assert_true(has(&j[2].reasons, "80.0 TFLOP/s: 79 % of the median of its model (101.0)"));
	assert_true(has(&j[3].notes, "it is the only B here"));
	assert_true(j[3].of_median == 0);
	assert_int_equal(burn_exit_code(j, 5), 1);
	for (int i = 0; i < 5; i++)
		burn_judgement_clear(&j[i]);
}

/* Of two the slower one is measured by the other; and where all are slow they are no measure. */
static void test_two_of_a_model(void **state)
{
	struct burnt d[3] = { good("A", 100), good("A", 88), good("NVIDIA H200", 672) };
	struct burn_judgement j[3];

	burn_judge(d, 3, j);
	assert_int_equal(j[0].verdict, BURN_GOOD);
	assert_int_equal(j[1].verdict, BURN_BAD);
	assert_true(has(&j[1].reasons, "88.0 TFLOP/s: 88 % of the median of its model (100.0)"));
	for (int i = 0; i < 3; i++)
		burn_judgement_clear(&j[i]);
	for (int i = 0; i < 3; i++)
		d[i] = good("NVIDIA H200", 400);
	d[2].found.gflop = 200000;
	burn_judge(d, 3, j);
	for (int i = 0; i < 3; i++)
		assert_int_equal(j[i].verdict, BURN_BAD);
	assert_true(j[0].of_median == 1);
	assert_true(has(&j[0].reasons, "400.0 TFLOP/s: 60 % of what this model is known for"));
	assert_int_equal(j[2].reasons.n, 1);
	assert_true(has(&j[2].reasons, "200.0 TFLOP/s: 50 % of the median of its model"));
	for (int i = 0; i < 3; i++)
		burn_judgement_clear(&j[i]);
}

/* A limit of power that somebody has set makes a good card slow. */
static void test_limited_power(void **state)
{
	struct burnt d[3] = { good("NVIDIA H200", 400), good("NVIDIA H200", 672),
			      good("NVIDIA H200", 672) };
	struct burn_judgement j[3];

	for (int i = 0; i < 3; i++) {
		d[i].dev.known |= KNOWN_POWER_LIMIT;
		d[i].dev.power_limit_mw = i ? 700000 : 400000;
	}
	burn_judge(d, 1, j);
	assert_int_equal(j[0].verdict, BURN_GOOD);
	assert_true(j[0].of_median == 0);
	assert_true(has(&j[0].notes, "its power is limited to 400 W, and that was at 700 W"));
	burn_judgement_clear(&j[0]);
	/* Beside others it is a straggler, and why is said. */
	burn_judge(d, 3, j);
	assert_int_equal(j[0].verdict, BURN_BAD);
	assert_true(has(&j[0].notes, "limited to 400 W, that of others of its model to 700 W"));
	assert_int_equal(j[1].notes.n, 0);
	for (int i = 0; i < 3; i++)
		burn_judgement_clear(&j[i]);
}

static void test_what_there_was_no_time_for(void **state)
{
	struct burnt d = good("A", 100);
	struct burn_judgement j;

	d.load = BURN_MIXED;
	d.found.elements = d.found.copies.words = 0;
	d.found.words = 7;
	d.found.passes = 1;
	burn_judge(&d, 1, &j);
	assert_int_equal(j.verdict, BURN_GOOD);
	assert_true(has(&j.notes, "no result of a product was compared: the time was too short"));
	assert_true(has(&j.notes, "not all of its memory was compared: the time was too short"));
	assert_true(has(&j.notes, "no copies were compared: the time was too short"));
	burn_judgement_clear(&j);
	d.load = BURN_MEMORY;
	d.found.passes = 2;
	burn_judge(&d, 1, &j);
	assert_false(has(&j.notes, "the time was too short"));
	burn_judgement_clear(&j);
}

/* Copies are compared with their like before they are with their link, and so is the width of that.
 */
static void test_links(void **state)
{
	struct burnt d[3] = { good("A", 100), good("A", 100), good("A", 100) };
	struct burn_judgement j[3];

	d[2].found.copies.bytes_per_s[BURN_FROM] /= 4;
	burn_judge(d, 3, j);
	assert_int_equal(j[0].verdict, BURN_GOOD);
	assert_true(has(
		&j[2].reasons,
		"copies from it over PCIe at 13.9 GB/s: 25 % of the median of its model (55.6)"));
	assert_true(j[0].copies[BURN_TO] > 55 && j[0].copies[BURN_BOTH] > 83);
	for (int i = 0; i < 3; i++)
		burn_judgement_clear(&j[i]);
	/* All are slow where four share a way to the host, and that is as it is to be. */
	for (int i = 0; i < 3; i++) {
		d[i] = good("A", 100);
		d[i].found.copies.bytes_per_s[BURN_TO] /= 4;
	}
	d[0].found.copies.code = -ENOSPC;
	burn_judge(d, 3, j);
	for (int i = 0; i < 3; i++)
		assert_int_equal(j[i].verdict, BURN_GOOD);
	assert_true(has(&j[0].notes, "no copies over PCIe were tested: what is held is too small"));
	for (int i = 0; i < 3; i++)
		burn_judgement_clear(&j[i]);
}

static struct burn_link link_to(uint32_t gpu, uint64_t gb)
{
	return (struct burn_link){ .slot = gpu,
				   .gpu = gpu,
				   .nvlink = 1,
				   .copies = { .copies = { 20, 20, 20 },
					       .bytes_per_s = { gb * 1000000000, gb * 1000000000,
								gb * 2000000000 },
					       .words = 1000 } };
}

static void test_peers(void **state)
{
	const uint64_t recoveries = (uint64_t)HEALTH_LINK_ERRORS << LINK_RECOVERIES;
	const uint64_t replays = (uint64_t)HEALTH_LINK_ERRORS << LINK_REPLAYS;
	const uint64_t data = (uint64_t)HEALTH_LINK_ERRORS << LINK_CRC_DATA;
	struct burnt d[3] = { good("A", 100), good("A", 100), good("A", 100) };
	struct burn_judgement j[3];

	for (uint32_t i = 0; i < 3; i++) {
		d[i].found.n_links = 2;
		d[i].found.links[0] = link_to((i + 1) % 3, 390);
		d[i].found.links[1] = link_to((i + 2) % 3, 400);
	}
	d[1].found.links[1].copies.bytes_per_s[BURN_FROM] = 100000000000;
	d[2].found.links[0].copies.wrong[BURN_TO] = 7;
	d[2].first.known = d[2].last.known = recoveries | replays;
	d[2].last.link_errors[LINK_RECOVERIES] = 1;
	d[2].last.link_errors[LINK_REPLAYS] = 16;
	/* As two H100 in good order had it. */
	d[0].first.known = d[0].last.known = data;
	d[0].last.link_errors[LINK_CRC_DATA] = 1592;
	burn_judge(d, 3, j);
	assert_int_equal(j[0].verdict, BURN_GOOD);
	assert_int_equal(j[0].notes.n, 0);
	assert_true(j[0].slowest == &d[0].found.links[0]);
	assert_int_equal(j[1].reasons.n, 1);
	assert_true(has(&j[1].reasons, "copies from GPU 0 over NVLink at 100.0 GB/s: 26 % of"));
	assert_true(has(&j[2].reasons, "7 of 1000 words went wrong on the way to GPU 0 and back"));
	assert_true(has(&j[2].reasons, "1 times a link of NVLink had to be brought up again"));
	assert_true(has(&j[2].notes, "16 transfers over NVLink had to be repeated"));
	for (int i = 0; i < 3; i++)
		burn_judgement_clear(&j[i]);
	/* What cannot be reached is no fault, nor is a way over the host that is slower. */
	d[0].found.links[0] = (struct burn_link){ .gpu = 1, .copies.code = -EHOSTUNREACH };
	d[0].found.links[1] = link_to(2, 10);
	d[0].found.links[1].nvlink = 0;
	burn_judge(d, 1, j);
	assert_int_equal(j[0].verdict, BURN_GOOD);
	assert_true(has(&j[0].notes, "no copies to 1 other GPU were tested"));
	burn_judgement_clear(&j[0]);
}

#define MANY (PROTO_DEVICES_MAX + 3)

/* Of several nodes there may be more than any one has; the last are judged as the first. */
static void test_more_than_a_node_has(void **state)
{
	struct burnt *d = xcalloc(MANY, sizeof(*d));
	struct burn_judgement *j = xcalloc(MANY, sizeof(*j));

	for (uint32_t i = 0; i < MANY; i++) {
		d[i] = good(i < PROTO_DEVICES_MAX ? "B" : "A", 100);
		d[i].found.n_links = 1;
		d[i].found.links[0] = link_to(0, 400);
	}
	d[MANY - 1].found.links[0].copies.bytes_per_s[BURN_FROM] = 100000000000;
	d[MANY - 2].found.gflop /= 2;
	burn_judge(d, MANY, j);
	for (uint32_t i = 0; i < MANY; i++)
		assert_int_equal(j[i].verdict, i < MANY - 2 ? BURN_GOOD : BURN_BAD);
	assert_true(has(&j[MANY - 1].reasons, "copies from GPU 0 over NVLink at 100.0 GB/s"));
	assert_true(has(&j[MANY - 2].reasons, "50 % of the median of its model"));
	for (uint32_t i = 0; i < MANY; i++)
		burn_judgement_clear(&j[i]);
	free(j);
	free(d);
}

static void test_counters(void **state)
{
	const uint64_t uncorrected = (uint64_t)HEALTH_ECC << ECC_VOLATILE_UNCORRECTED;
	struct burnt d = good("NVIDIA H200", 672);
	struct burn_judgement j;

	/* What was there before is not of this test; what is not known says nothing. */
	d.first.known = d.last.known = uncorrected | HEALTH_ROWS | HEALTH_PCIE_REPLAYS;
	d.first.ecc[ECC_VOLATILE_UNCORRECTED] = d.last.ecc[ECC_VOLATILE_UNCORRECTED] = 7;
	d.first.rows_uncorrected = d.last.rows_uncorrected = 2;
	d.last.pcie_replays = 16;
	burn_judge(&d, 1, &j);
	assert_int_equal(j.verdict, BURN_GOOD);
	burn_judgement_clear(&j);
	d.last.ecc[ECC_VOLATILE_UNCORRECTED] = 9;
	d.last.rows_uncorrected = 3;
	d.last.pcie_replays = 17;
	d.last.rows_pending = d.last.rows_failed = 1;
	burn_judge(&d, 1, &j);
	assert_int_equal(j.verdict, BURN_BAD);
	assert_int_equal(j.reasons.n, 5);
	assert_true(has(&j.reasons, "2 uncorrected ECC errors"));
	burn_judgement_clear(&j);
	d.first.known = 0;
	burn_judge(&d, 1, &j);
	assert_int_equal(j.reasons.n, 2); /* the two that are so whenever they began */
	burn_judgement_clear(&j);
}

static void add_temps(struct burn_curve *c, uint32_t n, double at_first, double per_minute)
{
	for (uint32_t i = 0; i < n; i++) {
		struct burn_sample s = { .at_ms = i * 1000, .known = SAMPLE_TEMP };

		s.temp_c = (float)(at_first + per_minute * i / 60);
		if (burn_curve_wants(c, s.at_ms))
			burn_curve_add(c, &s);
	}
}

static void test_curve_is_bounded(void **state)
{
	struct burn_curve c = { .n = 0 };
	const uint32_t seconds = 100000;

	assert_true(burn_curve_wants(&c, 0));
	for (uint32_t i = 0; i < seconds; i++) {
		struct burn_sample s = { .at_ms = i * 1000,
					 .known = SAMPLE_POWER | (i % 2 ? SAMPLE_TFLOPS : 0),
					 .power_w = (float)i,
					 .tflops = 700 };

		if (!burn_curve_wants(&c, s.at_ms))
			continue;
		burn_curve_add(&c, &s);
		assert_in_range(c.n, 1, BURN_SAMPLES - 1);
	}
	/* It goes from the beginning to the end, in even steps. */
	assert_in_range(c.n, BURN_SAMPLES / 2, BURN_SAMPLES - 1);
	assert_in_range(c.s[0].at_ms, 0, 2 * c.period_ms);
	assert_in_range(c.s[c.n - 1].at_ms, (seconds - 1) * 1000 - 2 * c.period_ms, seconds * 1000);
	for (uint32_t i = 1; i < c.n; i++) {
		assert_int_equal(c.s[i].at_ms - c.s[i - 1].at_ms, c.period_ms);
		assert_true(c.s[i].power_w > c.s[i - 1].power_w);
		assert_true(!(c.s[i].known & SAMPLE_TFLOPS) ||
			    (c.s[i].tflops > 699 && c.s[i].tflops < 701));
	}
	assert_false(burn_curve_wants(&c, UINT64_MAX));
	/* What comes over a file. */
	c.n = UINT32_MAX;
	c.s[3].temp_c = (float)NAN;
	c.s[5].at_ms = 0;
	burn_curve_end(&c);
	assert_int_equal(c.n, BURN_SAMPLES - 1);
	assert_int_equal(c.s[3].known, 0);
	assert_int_equal(c.s[5].at_ms, c.s[4].at_ms);
}

/* Of an H100 that computed and rested by turns (a mixed burn of a minute): by least squares alone
 * it is 15 C a minute warmer at the end. */
static void test_ups_and_downs_are_no_slope(void **state)
{
	static const uint8_t temps[] = {
		60, 60, 60, 60, 75, 65, 61, 70, 71, 72, 62, 73, 74, 74, 66, 61, 71, 72, 72, 63,
		72, 73, 74, 74, 61, 74, 74, 74, 66, 73, 73, 74, 74, 61, 74, 75, 74, 65, 68, 70,
		72, 72, 61, 73, 74, 74, 65, 60, 69, 71, 72, 62, 72, 73, 73, 67, 60, 73, 73, 73,
	};
	struct burnt d = good("NVIDIA H100 80GB HBM3", 676);
	struct burn_judgement j;

	for (uint32_t i = 0; i < ARRAY_LEN(temps); i++)
		burn_curve_add(&d.curve, &(struct burn_sample){ .at_ms = i * 1000,
								.known = SAMPLE_TEMP,
								.temp_c = temps[i] });
	burn_judge(&d, 1, &j);
	assert_false(j.slope_known);
	assert_int_equal(j.verdict, BURN_GOOD);
	assert_int_equal(j.notes.n, 0);
	burn_judgement_clear(&j);
	/* What is steep is seen through them. */
	for (uint32_t i = 0; i < d.curve.n; i++)
		d.curve.s[i].temp_c += (float)i * 2;
	burn_judge(&d, 1, &j);
	assert_true(j.slope_known);
	assert_int_equal(j.notes.n, 1);
	burn_judgement_clear(&j);
}

static void test_slope_of_temperature(void **state)
{
	struct burn_curve c = { .n = 0 };
	struct burnt d = good("NVIDIA H200", 672);
	struct burn_judgement j;
	double slope = 0, error = 0;

	assert_false(burn_curve_slope(&c, &slope, &error));
	add_temps(&c, 30, 40, 3.1); /* 7 s of it are too few */
	assert_false(burn_curve_slope(&c, &slope, &error));
	c.n = 0;
	add_temps(&c, 121, 40, 3.1);
	assert_true(burn_curve_slope(&c, &slope, &error));
	assert_true(slope > 3.09 && slope < 3.11);
	/* Only the end counts: it has settled. */
	c.n = 0;
	for (uint32_t i = 0; i <= 200; i++)
		burn_curve_add(&c,
			       &(struct burn_sample){ .at_ms = i * 1000,
						      .known = SAMPLE_TEMP,
						      .temp_c = i < 100 ? 40 + (float)i / 4 : 65 });
	assert_true(burn_curve_slope(&c, &slope, &error));
	assert_true(fabs(slope) < 0.01);
	for (uint32_t i = 0; i < c.n; i++)
		c.s[i].known = 0;
	assert_false(burn_curve_slope(&c, &slope, &error));

	add_temps(&d.curve, 121, 40, 3.1);
	burn_judge(&d, 1, &j);
	assert_int_equal(j.verdict, BURN_GOOD);
	assert_true(has(&j.notes, "still 3.1 C a minute warmer at the end"));
	burn_judgement_clear(&j);
	/* Slowed down by heat for less than a 20th of the time, and it will be more. */
	set_throttled(&d, nvmlClocksEventReasonSwThermalSlowdown, 2 * NS_PER_S);
	burn_judge(&d, 1, &j);
	assert_int_equal(j.verdict, BURN_BAD);
	assert_true(has(&j.reasons, "slowed down by heat already"));
	burn_judgement_clear(&j);
	d.curve = (struct burn_curve){ .n = 0 };
	add_temps(&d.curve, 121, 80, -1);
	burn_judge(&d, 1, &j);
	assert_int_equal(j.verdict, BURN_GOOD);
	assert_int_equal(j.notes.n, 0);
	burn_judgement_clear(&j);
}

/* A card whose node has NVIDIA's library is not compared with one that has not. */
static void test_kernels_apart(void **state)
{
	struct burnt d[3] = { good("NVIDIA A10", 70), good("NVIDIA A10", 70),
			      good("NVIDIA A10", 40) };
	struct burn_judgement j[3];

	(void)str_copy(d[2].found.kernel, sizeof(d[2].found.kernel), "8.0");
	burn_judge(d, 3, j);
	assert_int_equal(j[2].verdict, BURN_GOOD);
	assert_true(j[2].of_median == 0 && j[0].of_median == 1);
	for (size_t i = 0; i < ARRAY_LEN(j); i++)
		burn_judgement_clear(&j[i]);
}

/* Pieces of some 5 ms: halves and doubles of what there is, never for a small difference. */
static void test_bands(void **state)
{
	assert_int_equal(cublas_bands(16, 0), 16); /* not known yet */
	assert_int_equal(cublas_bands(16, NS_PER_MS / 10), 8);
	assert_int_equal(cublas_bands(1, NS_PER_MS / 10), 1);
	assert_int_equal(cublas_bands(4, 3 * NS_PER_MS), 4);
	assert_int_equal(cublas_bands(4, 9 * NS_PER_MS), 4);
	assert_int_equal(cublas_bands(4, 11 * NS_PER_MS), 8);
	assert_int_equal(cublas_bands(16, NS_PER_S), 16);
}

static void test_exit_codes(void **state)
{
	struct burn_judgement j[4] = { { .verdict = BURN_GOOD },
				       { .verdict = BURN_YIELDED },
				       { .verdict = BURN_UNTESTED },
				       { .verdict = BURN_BAD } };

	assert_int_equal(burn_exit_code(j, 1), 0);
	assert_int_equal(burn_exit_code(j, 2), 4);
	assert_int_equal(burn_exit_code(j, 3), 3);
	assert_int_equal(burn_exit_code(j, 4), 1);
	assert_int_equal(burn_exit_code(j, 0), 3);
}

/* What a node tells is told again as it was, with its times by our clock. */
static void test_a_part_is_told(void **state)
{
	struct burnt devices[2] = { good("A", 100), good("A", 80) };
	struct burn_told told = { .count = 7, .over = true, .code = -EBUSY, .for_ns = 5, .n = 2 };
	struct burn_told got;
	struct err e = ERR_INIT;
	size_t len;

	(void)str_copy(told.why, sizeof(told.why), "another burn runs");
	(void)str_copy(told.who.boot, sizeof(told.who.boot), "b");
	devices[1].ended_ns = 0;
	devices[1].began_ns = 90 * NS_PER_S;

	cleanup_free char *text = burn_told_text(&told, devices, 100 * NS_PER_S, &len);

	assert_int_equal(burn_told_parse(text, len, 1000 * NS_PER_S, &got, &e), 0);
	assert_true(got.count == 7 && got.over && got.code == -EBUSY && got.for_ns == 5);
	assert_string_equal(got.why, "another burn runs");
	assert_string_equal(got.who.boot, "b");
	assert_int_equal(got.n, 2);
	assert_string_equal(got.devices[1].dev.name, "A");
	assert_int_equal(got.devices[1].found.gflop, 80000);
	assert_int_equal(got.devices[0].ended_ns, 961 * NS_PER_S);
	assert_int_equal(got.devices[1].began_ns, 990 * NS_PER_S);
	assert_int_equal(got.devices[1].ended_ns, 0);
	burn_told_clear(&got);
	/* However much is missing, and whatever is behind it. */
	for (size_t n = 0; n < len; n++)
		assert_int_equal(burn_told_parse(text, n, 1, &got, &e), -EINVAL);
}

static void expect_wrong(const char *text, size_t len, size_t at, char with, int code)
{
	cleanup_free char *wrong = xmalloc(len);
	struct burn_told got;
	struct err e = ERR_INIT;

	(void)memcpy(wrong, text, len);
	wrong[at] = with;
	assert_int_equal(burn_told_parse(wrong, len, 1, &got, &e), code);
}

static void test_bad_parts(void **state)
{
	struct burnt d = good("A", 100);
	struct burn_told told = { .n = 1 }, got;
	struct err e = ERR_INIT;
	size_t len;

	d.watt_seconds = NAN;
	(void)memset(d.trouble, 'x', sizeof(d.trouble));
	(void)memset(d.dev.name, '\033', sizeof(d.dev.name));
	d.found.records = d.found.word_records = UINT32_MAX;

	cleanup_free char *text = burn_told_text(&told, &d, 1, &len);

	expect_wrong(text, len, 0, 'B', -EINVAL); /* the magic */
	expect_wrong(text, len, 8, 'v', -EPROTO); /* the version */
	expect_wrong(text, len, 40, 1, -EPROTO);  /* the size of a device */
	expect_wrong(text, len, 44, 2, -EINVAL);  /* how many there are */
	assert_int_equal(burn_told_parse(text, len, 1, &got, &e), 0);
	assert_true(got.devices[0].watt_seconds == 0);
	assert_int_equal(strlen(got.devices[0].trouble), sizeof(d.trouble) - 1);
	assert_null(strchr(got.devices[0].dev.name, '\033'));
	assert_int_equal(got.devices[0].found.records, BURN_RECORDS);
	burn_told_clear(&got);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_products_fit),
		cmocka_unit_test(test_sums_are_exact),
		cmocka_unit_test(test_verdicts),
		cmocka_unit_test(test_what_was_not_timed),
		cmocka_unit_test(test_stragglers),
		cmocka_unit_test(test_two_of_a_model),
		cmocka_unit_test(test_limited_power),
		cmocka_unit_test(test_what_there_was_no_time_for),
		cmocka_unit_test(test_counters),
		cmocka_unit_test(test_curve_is_bounded),
		cmocka_unit_test(test_slope_of_temperature),
		cmocka_unit_test(test_ups_and_downs_are_no_slope),
		cmocka_unit_test(test_exit_codes),
		cmocka_unit_test(test_precisions),
		cmocka_unit_test(test_words_of_products),
		cmocka_unit_test(test_kernels_apart),
		cmocka_unit_test(test_bands),
		cmocka_unit_test(test_a_part_is_told),
		cmocka_unit_test(test_bad_parts),
		cmocka_unit_test(test_windows),
		cmocka_unit_test(test_links),
		cmocka_unit_test(test_peers),
		cmocka_unit_test(test_more_than_a_node_has),
		cmocka_unit_test(test_tournament),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
