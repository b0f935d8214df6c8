/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_GUARD_LOAD_CONTROL_H
#define TENURE_HOLD_GUARD_LOAD_CONTROL_H

/*
 * The load control: pure. Once a second the utilisation that NVML reports is compared with the
 * band; inside low..high and near the target nothing changes, outside the duty follows.
 */

#include <stdint.h>

/*
 * The duty for the next second. duty in thousandths of the time; util, low, target, high in per
 * cent. Below low the step is doubled ("faster"); above high it is, too ("slower"). 20..1000.
 */
uint32_t loadctl_step(uint32_t duty_permille, uint32_t util, uint32_t low, uint32_t target,
		      uint32_t high);

#endif
