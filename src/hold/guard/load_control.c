/* SPDX-License-Identifier: MIT */
#include "hold/guard/load_control.h"

#define DEAD_BAND    1	/* per cent: NVML's figure is a whole number */
#define GAIN_DIVISOR 4	/* a quarter of the difference a second: the figure trails by up to one */
#define DUTY_MIN     20 /* below that the launches cost more than they show */
#define DUTY_MAX     1000

uint32_t loadctl_step(uint32_t duty_permille, uint32_t util, uint32_t low, uint32_t target,
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
