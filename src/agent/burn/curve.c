/* SPDX-License-Identifier: MIT */
#include "agent/burn/curve.h"

#include <math.h>
#include <stddef.h>

#include "base/mem.h"

#define SLOPE_LEAST 5 /* samples */

bool burn_curve_wants(const struct burn_curve *c, uint64_t at_ms)
{
	return at_ms <= UINT32_MAX && (!c->n || at_ms >= c->s[c->n - 1].at_ms + c->period_ms);
}

/* Two become one, at the time of the later one. */
static struct burn_sample mean(const struct burn_sample *a, const struct burn_sample *b)
{
	static const struct {
		uint32_t known;
		size_t at;
	} figures[] = {
		{ SAMPLE_POWER, offsetof(struct burn_sample, power_w) },
		{ SAMPLE_CLOCK, offsetof(struct burn_sample, clock_mhz) },
		{ SAMPLE_TEMP, offsetof(struct burn_sample, temp_c) },
		{ SAMPLE_UTIL, offsetof(struct burn_sample, util) },
		{ SAMPLE_TFLOPS, offsetof(struct burn_sample, tflops) },
		{ SAMPLE_MEMORY, offsetof(struct burn_sample, gb_per_s) },
	};
	struct burn_sample m = *b;

	for (size_t i = 0; i < ARRAY_LEN(figures); i++) {
		const float x = *(const float *)((const char *)a + figures[i].at);
		float *y = (float *)((char *)&m + figures[i].at);

		if (a->known & figures[i].known)
			*y = m.known & figures[i].known ? (x + *y) / 2 : x;
	}
	m.known |= a->known;
	return m;
}

void burn_curve_add(struct burn_curve *c, const struct burn_sample *s)
{
	if (!c->period_ms)
		c->period_ms = BURN_SAMPLE_MS;
	c->s[c->n++] = *s;
	if (c->n < BURN_SAMPLES)
		return;
	for (uint32_t i = 0; i < BURN_SAMPLES / 2; i++)
		c->s[i] = mean(&c->s[2 * i], &c->s[2 * i + 1]);
	c->n = BURN_SAMPLES / 2;
	c->period_ms *= 2;
}

void burn_curve_end(struct burn_curve *c)
{
	if (c->n >= BURN_SAMPLES)
		c->n = BURN_SAMPLES - 1;
	for (uint32_t i = 0; i < c->n; i++) {
		struct burn_sample *s = &c->s[i];

		if (!isfinite(s->power_w) || !isfinite(s->clock_mhz) || !isfinite(s->temp_c) ||
		    !isfinite(s->util) || !isfinite(s->tflops) || !isfinite(s->gb_per_s))
			*s = (struct burn_sample){ .at_ms = s->at_ms };
		if (i && s->at_ms < c->s[i - 1].at_ms)
			s->at_ms = c->s[i - 1].at_ms;
	}
}

/* Sums over the samples of the last quarter, times in minutes. */
struct sums {
	double n, t, y, tt, ty, yy, first_ms;
};

static struct sums sums_of_end(const struct burn_curve *c, double end_ms)
{
	struct sums s = { .first_ms = end_ms };
	const double from_ms = end_ms - end_ms / 4;

	for (uint32_t i = 0; i < c->n; i++) {
		const double t = (c->s[i].at_ms - from_ms) / 60e3, y = c->s[i].temp_c;

		if (t < 0 || !(c->s[i].known & SAMPLE_TEMP))
			continue;
		if (c->s[i].at_ms < s.first_ms)
			s.first_ms = c->s[i].at_ms;
		s.n++;
		s.t += t;
		s.y += y;
		s.tt += t * t;
		s.ty += t * y;
		s.yy += y * y;
	}
	return s;
}

bool burn_curve_slope(const struct burn_curve *c, double *ret_c_per_min, double *ret_error)
{
	const double end_ms = c->n ? c->s[c->n - 1].at_ms : 0;
	const struct sums s = sums_of_end(c, end_ms);
	const double tt = s.n * s.tt - s.t * s.t, ty = s.n * s.ty - s.t * s.y;
	const double yy = s.n * s.yy - s.y * s.y;
	double rest;

	if (s.n < SLOPE_LEAST || end_ms - s.first_ms < BURN_SLOPE_MS || tt <= 0)
		return false;
	*ret_c_per_min = ty / tt;
	rest = (yy - ty * ty / tt) / tt / (s.n - 2);
	*ret_error = rest > 0 ? sqrt(rest) : 0;
	return *ret_error <= BURN_SLOPE_ERROR || *ret_error <= fabs(*ret_c_per_min) / 4;
}
