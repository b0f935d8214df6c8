/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_BURN_CURVE_H
#define TENURE_AGENT_BURN_CURVE_H

/*
 * What a device was like in the course of its test: a sample a second, and from the 256th on, which
 * takes the place of two each, half as many. Pure; times are of the test, since it began.
 */

#include <stdbool.h>
#include <stdint.h>

#define BURN_SAMPLES	 256U
#define BURN_SAMPLE_MS	 1000U
#define BURN_SLOPE_MS	 10000U /* of the last quarter, at least, to speak of a slope */
#define BURN_SLOPE_NOTED 1.0	/* C a minute, from which on a card still gets warmer */
#define BURN_SLOPE_ERROR 1.0	/* C a minute, two of which the slope is to be more than that */

enum burn_sample_known {
	SAMPLE_POWER = 1 << 0,
	SAMPLE_CLOCK = 1 << 1,
	SAMPLE_TEMP = 1 << 2,
	SAMPLE_UTIL = 1 << 3,
	SAMPLE_TFLOPS = 1 << 4, /* products were computed since the sample before */
	SAMPLE_MEMORY = 1 << 5, /* memory was read and written since then */
};

struct burn_sample {
	uint32_t at_ms;
	uint32_t known;
	float power_w, clock_mhz, temp_c, util; /* of the multiprocessors; per cent */
	float tflops, gb_per_s;			/* while it did that */
};

struct burn_curve {
	uint32_t n;
	uint32_t period_ms; /* between two samples, at least; 0: there was none */
	struct burn_sample s[BURN_SAMPLES];
};

/* It is time for a sample. */
bool burn_curve_wants(const struct burn_curve *c, uint64_t at_ms);
/* Where burn_curve_wants() says so. */
void burn_curve_add(struct burn_curve *c, const struct burn_sample *s);
/* Bound what came over a file: numbers that are none are not known, times rise. */
void burn_curve_end(struct burn_curve *c);

/*
 * How much warmer it got in a minute at the end, by least squares over the last quarter, and that
 * figure's standard error. False: the quarter was too short, its temperature is not known, or it
 * went up and down with the load (by 15 C on an H100 that computes and rests by turns), so that the
 * error is more than BURN_SLOPE_ERROR and a quarter of the slope.
 */
bool burn_curve_slope(const struct burn_curve *c, double *ret_c_per_min, double *ret_error);

#endif
