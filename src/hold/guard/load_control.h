/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_GUARD_LOAD_CONTROL_H
#define TENURE_HOLD_GUARD_LOAD_CONTROL_H

/*
 * The load of a hold. Once a second the utilisation that NVML reports is compared with the band;
 * inside low..high and near the target nothing changes, outside the duty follows. With a rest the
 * load works and rests in turn.
 */

#include "hold/guard/types.h"

/*
 * Pure: the duty for the next second. duty in thousandths of the time; util, low, target, high in
 * per cent. Below low the step is doubled ("faster"); above high it is, too ("slower"). 20..1000.
 */
uint32_t load_control_step(uint32_t duty_permille, uint32_t util, uint32_t low, uint32_t target,
			   uint32_t high);

/* d, which is held by policy p, was looked at: the duty follows the utilisation. */
void load_control_on_look(struct device *d, const struct hold_policy *p);

/* Time has passed: the load of d, if that is held by policy p, works or rests. */
void load_control_on_time(struct device *d, const struct hold_policy *p, uint64_t now_ns);

#endif
