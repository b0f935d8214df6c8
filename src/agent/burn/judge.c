/* SPDX-License-Identifier: MIT */
#include "agent/burn/judge.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/enumstr.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "gpu/card_sign.h"
#include "gpu/nvml_abi.h"

#define POWER_PERMILLE 950  /* of another limit of power: less is another one */
#define PASSES_WHOLE   2    /* the first one only writes */
#define KNOWN_N_LEAST  8192 /* of n x n: from there on larger products are no faster */

/*
 * Figures of single good cards, for one that has none of its kind beside it: TFLOP/s of the
 * products of `tenure burn`, by the name that NVML gives (docs/benchmarks.md says when and where).
 */
static const struct known_speed {
	const char *name;
	uint32_t watts; /* the limit of power with which it was so */
	double tflops[PRECISION_MAX];
} known_speeds[] = {
	{ "NVIDIA H100 80GB HBM3",
	  700,
	  { [PRECISION_F16] = 681,
	    [PRECISION_BF16] = 690,
	    [PRECISION_TF32] = 385,
	    [PRECISION_E4M3] = 1358,
	    [PRECISION_F32] = 44,
	    [PRECISION_F64] = 44.7 } },
	{ "NVIDIA H200",
	  700,
	  { [PRECISION_F16] = 679,
	    [PRECISION_BF16] = 672,
	    [PRECISION_TF32] = 380,
	    [PRECISION_E4M3] = 1330 } },
};

static const char *const verdict_names[] = {
	[BURN_GOOD] = "good",
	[BURN_BAD] = "bad",
	[BURN_UNTESTED] = "not tested",
	[BURN_YIELDED] = "yielded",
};
_Static_assert(ARRAY_LEN(verdict_names) == BURN_VERDICT_MAX, "a name for every verdict");

const char *burn_verdict_name(enum burn_verdict v)
{
	return enum_name(verdict_names, BURN_VERDICT_MAX, v);
}

static bool was_tested(const struct burnt *d)
{
	return d->found.elements > 0 || d->found.words > 0 || d->found.copies.words > 0;
}

/* -------- results -------- */

/* The number; of one in double precision there is only a word of its bits. */
static void print_word(char *buf, size_t size, uint32_t precision, uint32_t word)
{
	float number;

	(void)memcpy(&number, &word, sizeof(number));
	if (precision == PRECISION_F64)
		(void)str_print(buf, size, "bits %08x", word);
	else
		(void)str_print(buf, size, "%.9g", (double)number);
}

static void say_record(struct text_list *l, const struct burnt *d)
{
	const struct burn_record *r = &d->found.record[0];
	char got[16], want[16];

	if (!d->found.records || !d->found.n)
		return;
	print_word(got, sizeof(got), d->found.precision, r->got);
	print_word(want, sizeof(want), d->found.precision, r->want);
	text_list_addf(l, "the first: %s in the place of %s, at row %llu, column %llu of %u x %u",
		       got, want, (unsigned long long)(r->at / d->found.n),
		       (unsigned long long)(r->at % d->found.n), (unsigned int)d->found.n,
		       (unsigned int)d->found.n);
}

static void judge_products(const struct burnt *d, struct burn_judgement *j)
{
	const struct burn_report *f = &d->found;
	const unsigned long long n = f->elements;

	if (f->reference_wrong)
		text_list_addf(
			&j->reasons,
			"%llu words that results are compared with have changed in its memory: results "
			"that are wrong by them say nothing more",
			(unsigned long long)f->reference_wrong);
	if (f->wrong)
		text_list_addf(&j->reasons, "%llu of %llu results are wrong",
			       (unsigned long long)f->wrong, n);
	if (f->nan)
		text_list_addf(&j->reasons, "%llu of %llu results are no numbers (NaN)",
			       (unsigned long long)f->nan, n);
	if (f->inf)
		text_list_addf(&j->reasons, "%llu of %llu results are infinite",
			       (unsigned long long)f->inf, n);
	if (f->wrong || f->nan || f->inf)
		say_record(&j->notes, d);
	if (f->repeated)
		text_list_addf(&j->notes,
			       "%llu times the same wrong result came again at the same place",
			       (unsigned long long)f->repeated);
}

/*
 * A kernel that has worked before and ends so now has met memory, instructions or addresses that
 * are not what they were; NVIDIA's reports of it (XID 13, 31) blame the program. One that fails
 * from the beginning may be at odds with the driver, and copies with another device with that one.
 */
static void judge_kernels(const struct burnt *d, struct burn_judgement *j)
{
	static const struct {
		uint32_t code;
		const char *what;
	} errors[] = { { 214, "an uncorrectable ECC error" },
		       { 700, "an illegal memory access" },
		       { 714, "an error of the hardware's stack" },
		       { 715, "an illegal instruction" },
		       { 716, "a misaligned address" },
		       { 717, "an invalid address space" },
		       { 718, "an invalid program counter" },
		       { 719, "a failed launch" } };

	for (size_t i = 0; was_tested(d) && i < ARRAY_LEN(errors); i++)
		if (errors[i].code == d->found.cuda)
			text_list_addf(&j->reasons,
				       "a kernel that had worked before has ended with %s (CUDA "
				       "error %u)",
				       errors[i].what, (unsigned int)errors[i].code);
}

static void judge_memory(const struct burnt *d, struct burn_judgement *j)
{
	const struct burn_report *f = &d->found;

	if (!f->words_wrong)
		return;
	text_list_addf(&j->reasons, "%llu of %llu words of memory were not what was written",
		       (unsigned long long)f->words_wrong, (unsigned long long)f->words);
	if (f->word_records)
		text_list_addf(&j->notes,
			       "the first: %08x in the place of %08x (bits %08x), %llu bytes into "
			       "what was held",
			       f->word[0].got, f->word[0].want, f->word[0].got ^ f->word[0].want,
			       (unsigned long long)f->word[0].at);
	if (f->words_repeated)
		text_list_addf(&j->notes, "%llu of them again where they were wrong before",
			       (unsigned long long)f->words_repeated);
}

static void judge_copies(const struct burnt *d, struct burn_judgement *j)
{
	const struct burn_copies *f = &d->found.copies;
	const unsigned long long n = f->words;

	for (int way = 0; way < BURN_BOTH; way++)
		if (f->wrong[way])
			text_list_addf(&j->reasons,
				       "%llu of %llu words were copied %s it wrong over PCIe",
				       (unsigned long long)f->wrong[way], n,
				       way == BURN_TO ? "to" : "from");
	if (f->records)
		text_list_addf(
			&j->notes,
			"the first: %08x in the place of %08x (bits %08x), %llu bytes into a copy",
			f->record[0].got, f->record[0].want, f->record[0].got ^ f->record[0].want,
			(unsigned long long)f->record[0].at);
	if (f->code)
		text_list_addf(&j->notes, "no copies over PCIe were tested: %s",
			       f->code == -ENOMEM ? "no memory of the host could be pinned for them"
			       : f->code == -ENOSPC ? "what is held is too small for them"
						    : "the driver has refused what they need");
}

/* -------- speed -------- */

/* 0: there were too few to tell. */
static double tflops_of(const struct burnt *d)
{
	return d->found.product_ns >= BURN_SPEED_LEAST
		       ? (double)d->found.gflop / (double)d->found.product_ns * 1e6
		       : 0;
}

static double memory_speed_of(const struct burnt *d)
{
	return d->found.memory_ns >= BURN_SPEED_LEAST
		       ? (double)d->found.memory_bytes / (double)d->found.memory_ns
		       : 0;
}

double burn_copy_speed(const struct burn_copies *c, enum burn_way way)
{
	return c->copies[way] >= BURN_COPIES_LEAST ? (double)c->bytes_per_s[way] / 1e9 : 0;
}

static double copy_speed(const struct burnt *d, enum burn_way way)
{
	return burn_copy_speed(&d->found.copies, way);
}

static double speed_to(const struct burnt *d)
{
	return copy_speed(d, BURN_TO);
}

static double speed_from(const struct burnt *d)
{
	return copy_speed(d, BURN_FROM);
}

static double speed_of_both(const struct burnt *d)
{
	return copy_speed(d, BURN_BOTH);
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static bool same_model(const struct burnt *a, const struct burnt *b)
{
	return strcmp(a->dev.name, b->dev.name) == 0;
}

/* Where only some nodes have NVIDIA's library, what differs are the kernels. */
static bool same_model_and_kernel(const struct burnt *a, const struct burnt *b)
{
	return same_model(a, b) && strcmp(a->found.kernel, b->found.kernel) == 0;
}

/* Of an even number it is the faster one in the middle, so that of two the slower one is measured
 * by the other. 0: there is but one. */
static double median(double *speeds, uint32_t n)
{
	if (n < 2)
		return 0;
	qsort(speeds, n, sizeof(speeds[0]), compare_doubles);
	return speeds[n / 2];
}

/* Of those of its like that were tested, this one included; 0: it is alone. */
static double median_of(const struct burnt *devices, uint32_t n, const struct burnt *d,
			bool (*like)(const struct burnt *, const struct burnt *),
			double (*speed)(const struct burnt *))
{
	cleanup_free double *speeds = xcalloc(n, sizeof(*speeds));
	uint32_t k = 0;

	for (uint32_t i = 0; i < n; i++)
		if (like(&devices[i], d) && speed(&devices[i]) > 0)
			speeds[k++] = speed(&devices[i]);
	return median(speeds, k);
}

static const struct known_speed *known_speed(const struct burnt *d)
{
	for (size_t i = 0; i < ARRAY_LEN(known_speeds); i++)
		if (!strcmp(known_speeds[i].name, d->dev.name) &&
		    d->found.precision < PRECISION_MAX &&
		    known_speeds[i].tflops[d->found.precision] > 0)
			return &known_speeds[i];
	return NULL;
}

/* Its limit of power is lower: that somebody has set it so is no fault of the card. */
static bool is_limited(const struct burnt *d, double watts)
{
	return d->dev.known & KNOWN_POWER_LIMIT &&
	       d->dev.power_limit_mw / 1e3 * 1000 < watts * POWER_PERMILLE;
}

static double highest_limit(const struct burnt *devices, uint32_t n, const struct burnt *d)
{
	double watts = 0;

	for (uint32_t i = 0; i < n; i++)
		if (same_model(&devices[i], d) && devices[i].dev.known & KNOWN_POWER_LIMIT)
			watts = fmax(watts, devices[i].dev.power_limit_mw / 1e3);
	return watts;
}

/* What was compared came mostly from launches that have no time (burn.h). */
static void say_not_timed(double timed, double compared, const char *what, struct burn_judgement *j)
{
	if (compared > 0 && timed * 4 < compared) /* what is compared twice counts twice */
		text_list_addf(&j->notes,
			       "the speed of its %s is not judged: this host was late to ask for "
			       "most of them",
			       what);
}

static void say_not_judged(const struct burnt *devices, uint32_t n, const struct burnt *d,
			   struct burn_judgement *j)
{
	uint32_t like = 0;

	for (uint32_t i = 0; i < n; i++)
		like += same_model(&devices[i], d);
	text_list_addf(&j->notes,
		       like > 1 ? "its speed is not judged: no other %s here was tested long "
				  "enough with the same kernel, and no figure of that is known"
				: "its speed is not judged: it is the only %s here, and no figure "
				  "of that is known",
		       d->dev.name);
}

/* Why a good card may be slower than what its model is known for; NULL: for nothing that is seen.
 * The caller frees it. */
static char *excuse_of(const struct burnt *d, const struct known_speed *k)
{
	const int clocks = __builtin_ctzll(nvmlClocksEventReasonApplicationsClocks);
	const uint64_t set_ns = d->throttled_ns[clocks];

	if (is_limited(d, k->watts))
		return xasprintf("its power is limited to %.0f W, and that was at %u W",
				 d->dev.power_limit_mw / 1e3, (unsigned int)k->watts);
	if (d->found.n < KNOWN_N_LEAST)
		return xasprintf("in so little memory there is room for products of %u x %u only",
				 (unsigned int)d->found.n, (unsigned int)d->found.n);
	if (set_ns > d->seen_ns / 2)
		return xasprintf("for %.0f of %.0f s it ran at clocks that somebody has set",
				 (double)set_ns / 1e9, (double)d->seen_ns / 1e9);
	return NULL;
}

/* Of a card that is alone, and where all of its model here may be slow. */
static void judge_known_speed(const struct burnt *d, double median, struct burn_judgement *j)
{
	const struct known_speed *k = known_speed(d);
	const double known = k ? k->tflops[d->found.precision] : 0;
	const bool slow = j->tflops * 1000 < known * BURN_SLOW_PERMILLE;
	cleanup_free char *excuse = slow ? excuse_of(d, k) : NULL;

	if (!k || (median > 0 && j->of_median * 1000 < BURN_SLOW_PERMILLE))
		return;
	if (excuse) {
		text_list_addf(&j->notes,
			       "its speed is not compared with what this model is known for: %s",
			       excuse);
		return;
	}
	if (!(median > 0))
		j->of_median = j->tflops / known;
	if (slow)
		text_list_addf(&j->reasons,
			       "%.1f TFLOP/s: %.0f %% of what this model is known for (%.1f)",
			       j->tflops, j->tflops / known * 100, known);
}

static void judge_product_speed(const struct burnt *devices, uint32_t n, const struct burnt *d,
				struct burn_judgement *j)
{
	const double median = median_of(devices, n, d, same_model_and_kernel, tflops_of);
	const double watts = highest_limit(devices, n, d);

	if (!(j->tflops > 0)) {
		say_not_timed((double)d->found.gflop * 1e9,
			      (double)d->found.elements * 2 * d->found.n, "products", j);
		return;
	}
	if (median > 0)
		j->of_median = j->tflops / median;
	if (median > 0 && j->of_median * 1000 < BURN_SLOW_PERMILLE) {
		text_list_addf(&j->reasons,
			       "%.1f TFLOP/s: %.0f %% of the median of its model (%.1f)", j->tflops,
			       j->of_median * 100, median);
		if (is_limited(d, watts))
			text_list_addf(&j->notes,
				       "its power is limited to %.0f W, that of others of its "
				       "model to %.0f W",
				       d->dev.power_limit_mw / 1e3, watts);
	}
	judge_known_speed(d, median, j);
	if (!(median > 0) && !known_speed(d))
		say_not_judged(devices, n, d, j);
}

static void judge_speed(const struct burnt *devices, uint32_t n, const struct burnt *d,
			struct burn_judgement *j)
{
	const double median = median_of(devices, n, d, same_model, memory_speed_of);

	judge_product_speed(devices, n, d, j);
	if (!(j->gb_per_s > 0))
		say_not_timed((double)d->found.memory_bytes, (double)d->found.words * 4,
			      "passes over memory", j);
	if (median > 0 && j->gb_per_s > 0 && j->gb_per_s * 1000 < median * BURN_SLOW_PERMILLE)
		text_list_addf(&j->reasons,
			       "memory at %.0f GB/s: %.0f %% of the median of its model (%.0f)",
			       j->gb_per_s, j->gb_per_s / median * 100, median);
}

/* What a link carries one way at most, in GB/s. 0: that generation is not known. */
static double link_speed(uint32_t generation, uint32_t width)
{
	static const double lanes[] = { 0, 0.25, 0.5, 0.985, 1.969, 3.938, 7.563 };

	return generation < ARRAY_LEN(lanes) ? lanes[generation] * width : 0;
}

/* The link as it was when it worked hardest: a card that rests lowers its generation. */
static uint32_t link_generation(const struct burnt *d)
{
	const struct gpu_health *looks[] = { &d->first, &d->now, &d->last };
	uint32_t most = 0;

	for (size_t i = 0; i < ARRAY_LEN(looks); i++)
		if (looks[i]->known & HEALTH_PCIE_GEN && looks[i]->pcie_gen > most)
			most = looks[i]->pcie_gen;
	return most;
}

static uint32_t link_width(const struct burnt *d)
{
	return d->last.known & HEALTH_PCIE_WIDTH ? d->last.pcie_width : 0;
}

static void judge_copy_speed(const struct burnt *devices, uint32_t n, const struct burnt *d,
			     struct burn_judgement *j)
{
	static const struct {
		const char *way;
		double (*speed)(const struct burnt *d);
	} rows[BURN_WAY_MAX] = {
		[BURN_TO] = { "to it", speed_to },
		[BURN_FROM] = { "from it", speed_from },
		[BURN_BOTH] = { "both ways at once", speed_of_both },
	};
	const double link = link_speed(link_generation(d), link_width(d));

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const double speed = rows[i].speed(d),
			     median = median_of(devices, n, d, same_model, rows[i].speed);
		const double against = median > 0 ? median : link;

		if (speed > 0 && against > 0 && speed * 1000 < against * BURN_COPY_PERMILLE)
			text_list_addf(&j->reasons,
				       "copies %s over PCIe at %.1f GB/s: %.0f %% of %s (%.1f)",
				       rows[i].way, speed, speed / against * 100,
				       median > 0 ? "the median of its model"
						  : "what its link carries",
				       against);
	}
}

/* -------- other devices -------- */

/* Of one way over all NVLinks of cards of its model; 0: there is but one. */
static double median_of_links(const struct burnt *devices, uint32_t n, const struct burnt *d,
			      enum burn_way way)
{
	cleanup_free double *speeds = xcalloc(n, BURN_PEERS_MAX * sizeof(*speeds));
	uint32_t k = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct burn_report *f = &devices[i].found;

		for (uint32_t l = 0; l < f->n_links; l++)
			if (!strcmp(devices[i].dev.name, d->dev.name) && f->links[l].nvlink &&
			    burn_copy_speed(&f->links[l].copies, way) > 0)
				speeds[k++] = burn_copy_speed(&f->links[l].copies, way);
	}
	return median(speeds, k);
}

static void judge_link_speed(const struct burnt *devices, uint32_t n, const struct burnt *d,
			     const struct burn_link *l, struct burn_judgement *j)
{
	static const char *const ways[BURN_WAY_MAX] = {
		[BURN_TO] = "to", [BURN_FROM] = "from", [BURN_BOTH] = "to and from"
	};

	for (int way = 0; l->nvlink && way < BURN_WAY_MAX; way++) {
		const double speed = burn_copy_speed(&l->copies, (enum burn_way)way);
		const double median = median_of_links(devices, n, d, (enum burn_way)way);

		if (speed > 0 && median > 0 && speed * 1000 < median * BURN_COPY_PERMILLE)
			text_list_addf(
				&j->reasons,
				"copies %s GPU %u over NVLink at %.1f GB/s: %.0f %% of the median of "
				"such links here (%.1f)",
				ways[way], (unsigned int)l->gpu, speed, speed / median * 100,
				median);
	}
}

static bool is_slower(const struct burn_link *l, const struct burn_link *than)
{
	const double speed = burn_copy_speed(&l->copies, BURN_TO);

	return speed > 0 && (!than || speed < burn_copy_speed(&than->copies, BURN_TO));
}

static void judge_links(const struct burnt *devices, uint32_t n, const struct burnt *d,
			struct burn_judgement *j)
{
	unsigned int apart = 0;

	for (uint32_t i = 0; i < d->found.n_links; i++) {
		const struct burn_link *l = &d->found.links[i];

		if (l->copies.wrong[BURN_TO])
			text_list_addf(
				&j->reasons,
				"%llu of %llu words went wrong on the way to GPU %u and back",
				(unsigned long long)l->copies.wrong[BURN_TO],
				(unsigned long long)l->copies.words, (unsigned int)l->gpu);
		apart += !l->copies.words && l->copies.code == -EHOSTUNREACH;
		judge_link_speed(devices, n, d, l, j);
		if (is_slower(l, j->slowest))
			j->slowest = l;
	}
	if (apart)
		text_list_addf(
			&j->notes,
			"no copies to %u other GPU%s were tested: the driver does not let memory of "
			"theirs be opened from here",
			apart, apart > 1 ? "s" : "");
}

/*
 * Errors of NVLink. What is sent again makes copies slow where it is too much; that a link goes
 * down and is brought up again is a fault. LINK_CRC_DATA says nothing of a card: it counts what the
 * code for correction mends on each lane, between two H100 in good order (driver 580) 200 times a
 * second while copies run and 6 at rest, where nothing is repeated and nvidia-smi says no error.
 */
static void judge_link_errors(const struct burnt *d, struct burn_judgement *j)
{
	static const struct {
		const char *what;
		bool fault;
	} rows[HEALTH_LINK_ERROR_MAX] = {
		[LINK_REPLAYS] = { "transfers over NVLink had to be repeated", false },
		[LINK_RECOVERIES] = { "times a link of NVLink had to be brought up again", true },
		[LINK_CRC_FLIT] = { "units arrived wrong over NVLink, and again", false },
		[LINK_CRC_DATA] = { NULL, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const uint64_t bit = (uint64_t)HEALTH_LINK_ERRORS << i;
		const uint64_t before = d->first.link_errors[i], after = d->last.link_errors[i];

		if (rows[i].what && d->first.known & d->last.known & bit && after > before)
			text_list_addf(rows[i].fault ? &j->reasons : &j->notes, "%llu %s",
				       (unsigned long long)(after - before), rows[i].what);
	}
}

/* -------- what NVML has said -------- */

static void judge_throttling(const struct burnt *d, struct burn_judgement *j)
{
	for (unsigned int bit = 0; bit < 64; bit++) {
		const uint64_t ns = d->throttled_ns[bit];
		bool fault = false;
		const char *name = health_throttle(UINT64_C(1) << bit, 0, &fault);

		if (!name || !fault || ns < BURN_THROTTLE_LEAST ||
		    ns < d->seen_ns / BURN_THROTTLE_SHARE)
			continue;
		text_list_addf(&j->reasons, "slowed down for %.0f of %.0f s: %s", (double)ns / 1e9,
			       (double)d->seen_ns / 1e9, name);
	}
}

/* That a card still gets warmer at the end is worth knowing, and bad where it was too hot already.
 */
static void judge_slope(const struct burnt *d, struct burn_judgement *j)
{
	const uint64_t hot =
		d->throttled_ns[__builtin_ctzll(nvmlClocksEventReasonSwThermalSlowdown)] +
		d->throttled_ns[__builtin_ctzll(nvmlClocksThrottleReasonHwThermalSlowdown)];
	double error = 0;

	j->slope_known = burn_curve_slope(&d->curve, &j->slope_c_per_min, &error);
	if (!j->slope_known || j->slope_c_per_min - 2 * error < BURN_SLOPE_NOTED)
		return;
	if (hot >= BURN_THROTTLE_LEAST)
		text_list_addf(
			&j->reasons,
			"still %.1f C a minute warmer at the end, and slowed down by heat already",
			j->slope_c_per_min);
	else
		text_list_addf(&j->notes, "still %.1f C a minute warmer at the end",
			       j->slope_c_per_min);
}

static void judge_links_up(const struct burnt *devices, uint32_t n, const struct burnt *d,
			   struct card_signs *signs)
{
	cleanup_free const struct gpu_health **like = xcalloc(n, sizeof(*like));
	uint32_t k = 0;

	for (uint32_t i = 0; i < n; i++)
		if (same_model(&devices[i], d) && devices[i].last.known & HEALTH_LINKS)
			like[k++] = &devices[i].last;
	card_sign_links(&d->last, like, k, signs);
}

/* What makes any card bad (gpu/card_sign.h). That it was hot is judged by how long it was. */
static void judge_signs(const struct burnt *devices, uint32_t n, const struct burnt *d,
			struct burn_judgement *j)
{
	const uint64_t corrected = (uint64_t)HEALTH_ECC << ECC_VOLATILE_CORRECTED;
	struct card_signs signs;

	card_signs(&d->first, &d->last, CARD_STATE | CARD_COUNT, &signs);
	judge_links_up(devices, n, d, &signs);
	if (d->xid)
		card_signs_add(&signs, &(struct card_sign){ .code = SIGN_XID, .n = d->xid });
	if (d->lost)
		card_signs_add(&signs, &(struct card_sign){ .code = SIGN_LOST });
	for (uint32_t i = 0; i < signs.n; i++) {
		struct strbuf text = STRBUF_INIT;

		card_sign_text(&signs.s[i], NULL, &text);
		text_list_take(&j->reasons, strbuf_take(&text));
	}
	if (d->first.known & d->last.known & corrected &&
	    d->last.ecc[ECC_VOLATILE_CORRECTED] > d->first.ecc[ECC_VOLATILE_CORRECTED])
		text_list_addf(&j->notes, "%llu memory errors that ECC has corrected",
			       (unsigned long long)(d->last.ecc[ECC_VOLATILE_CORRECTED] -
						    d->first.ecc[ECC_VOLATILE_CORRECTED]));
}

/* -------- what there was no time for -------- */

static void say_untested(const struct burnt *d, struct burn_judgement *j)
{
	const struct burn_report *f = &d->found;
	const enum burn_load load = (enum burn_load)d->load;
	const struct {
		bool missing;
		const char *what;
	} rows[] = {
		{ burn_has_products(load) && !f->elements, "no result of a product was compared" },
		{ (load == BURN_MEMORY || load == BURN_MIXED) && f->passes < PASSES_WHOLE,
		  "not all of its memory was compared" },
		{ burn_copies_to_peers(load) && !f->copies.words && !f->copies.code,
		  "no copies were compared" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].missing)
			text_list_addf(&j->notes, "%s: the time was too short", rows[i].what);
}

/* -------- the verdict -------- */

static enum burn_verdict verdict_of(const struct burnt *d, const struct burn_judgement *j)
{
	if (j->reasons.n)
		return BURN_BAD;
	if (d->yielded)
		return BURN_YIELDED;
	return d->trouble[0] || !was_tested(d) ? BURN_UNTESTED : BURN_GOOD;
}

static void judge_one(const struct burnt *devices, uint32_t n, const struct burnt *d,
		      struct burn_judgement *j)
{
	*j = (struct burn_judgement){ .tflops = tflops_of(d),
				      .gb_per_s = memory_speed_of(d),
				      .copies = { speed_to(d), speed_from(d), speed_of_both(d) } };
	judge_products(d, j);
	judge_kernels(d, j);
	judge_memory(d, j);
	judge_copies(d, j);
	if (was_tested(d))
		judge_speed(devices, n, d, j);
	judge_copy_speed(devices, n, d, j);
	judge_links(devices, n, d, j);
	judge_link_errors(d, j);
	judge_throttling(d, j);
	judge_slope(d, j);
	judge_signs(devices, n, d, j);
	j->verdict = verdict_of(d, j);
	if (d->trouble[0])
		text_list_add(j->verdict == BURN_BAD ? &j->notes : &j->reasons, d->trouble);
	else if (j->verdict == BURN_UNTESTED)
		text_list_addf(&j->reasons, "the time was too short for a single result");
	else
		say_untested(d, j);
}

void burn_judge(const struct burnt *devices, uint32_t n, struct burn_judgement *ret)
{
	for (uint32_t i = 0; i < n; i++)
		judge_one(devices, n, &devices[i], &ret[i]);
}

void burn_judgement_clear(struct burn_judgement *j)
{
	text_list_clear(&j->reasons);
	text_list_clear(&j->notes);
}

int burn_exit_code(const struct burn_judgement *j, uint32_t n)
{
	static const struct {
		enum burn_verdict verdict;
		int code;
	} codes[] = { { BURN_BAD, 1 }, { BURN_UNTESTED, 3 }, { BURN_YIELDED, 4 } };

	for (size_t k = 0; k < ARRAY_LEN(codes); k++)
		for (uint32_t i = 0; i < n; i++)
			if (j[i].verdict == codes[k].verdict)
				return codes[k].code;
	return n ? 0 : 3;
}
