/* SPDX-License-Identifier: MIT */
#include "hold/guard/load_control.h"

#include "base/clock.h"
#include "hold/guard/holder_process.h"
#include "hold/guard/timings.h"

#define DEAD_BAND    1	/* per cent: NVML's figure is a whole number */
#define GAIN_DIVISOR 4	/* a quarter of the difference a second: the figure trails by up to one */
#define DUTY_MIN     20 /* below that the launches cost more than they show */
#define DUTY_MAX     1000

uint32_t load_control_step(uint32_t duty_permille, uint32_t util, uint32_t low, uint32_t target,
			   uint32_t high)
{
	int difference = (int)target - (int)util;
	int step = difference * 10 / GAIN_DIVISOR;

	if (difference >= -DEAD_BAND && difference <= DEAD_BAND)
		return duty_permille;
	if (util < low || util > high)
		step *= 2;

	int duty = (int)duty_permille + step;

	return (uint32_t)(duty < DUTY_MIN ? DUTY_MIN : duty > DUTY_MAX ? DUTY_MAX : duty);
}

void load_control_on_look(struct device *d, const struct hold_policy *p)
{
	uint64_t now = clock_mono_ns(), begun = d->since_ns;

	/* The figure trails: what it says just after a rest is still about the rest. */
	if (d->load.phase_ns > begun)
		begun = d->load.phase_ns;
	if (d->state != DEV_HELD || !d->sample.complete || d->load.resting ||
	    p->load == LOAD_NONE || p->load == LOAD_BURN ||
	    !(d->sample.look.valid & GPU_VALID_UTIL) || now - begun < LOAD_TRAIL_NS)
		return;
	d->load.duty_permille = load_control_step(d->load.duty_permille, d->sample.look.util,
						  p->util_low, p->util, p->util_high);
	holder_tell_load(d, p, (enum load_kind)p->load);
}

void load_control_on_time(struct device *d, const struct hold_policy *p, uint64_t now_ns)
{
	if (d->state != DEV_HELD)
		return;
	if (p->rest_ms) {
		uint64_t phase_ms = d->load.resting ? p->rest_ms : p->work_ms;

		if (now_ns - d->load.phase_ns >= phase_ms * NS_PER_MS) {
			d->load.resting = !d->load.resting;
			d->load.phase_ns = now_ns;
			d->dirty = true;
		}
	} else {
		d->load.resting = false;
	}
	holder_tell_load(d, p, d->load.resting ? LOAD_NONE : (enum load_kind)p->load);
}
