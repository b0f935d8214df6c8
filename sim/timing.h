/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SIM_TIMING_H
#define TENURE_SIM_TIMING_H

/*
 * Every figure of the simulated driver's timing, in one table (timing.c): name, default, unit,
 * whether the machine's time scale applies, and where it comes from. The machine keeps its own
 * copy, which `tenure sim ctl timing NAME VALUE` changes.
 */

#include <stdbool.h>
#include <stdint.h>

enum sim_timing_id {
	SIM_T_INIT_WARM,
	SIM_T_INIT_CARD_COLD,
	SIM_T_INIT_COLD,
	SIM_T_CTX_WARM,
	SIM_T_CTX_COLD,
	SIM_T_PID_VISIBLE,
	SIM_T_START_SLICE,
	SIM_T_START_ALONE,
	SIM_T_ALLOC_CALL,
	SIM_T_FREE_CALL,
	SIM_T_FREE_PER_GIB,
	SIM_T_EXIT_TEARDOWN,
	SIM_T_CTX_DESTROY,
	SIM_T_SCRUB_PER_GIB,
	SIM_T_MODULE_LOAD,
	SIM_T_NVML_INIT,
	SIM_T_NVML_CALL,
	SIM_T_NVML_CALL_STARTING,
	SIM_T_LOCK_SLOW,
	SIM_T_KERNEL,
	SIM_T_UTIL_WINDOW,
	SIM_T_POWER_WINDOW,
	SIM_T_INIT_OPENS_CTL,
	SIM_T_INIT_OPENS_NODE,
	SIM_T_CTX_OPENS_CTL,
	SIM_T_CTX_OPENS_NODE,
	SIM_T_NVML_OPENS_CTL,
	SIM_T_NVML_OPENS_NODE,
	SIM_T_CTX_BYTES,
	SIM_T_PINNED_BYTES,
	SIM_T_IPC_BYTES,
	SIM_T_MAX
};

struct sim_timing {
	const char *name;
	uint64_t value; /* times in ns; see unit */
	const char *unit;
	bool scaled; /* multiplied by the machine's time scale */
	const char *source;
};

extern const struct sim_timing sim_timings[SIM_T_MAX];

#endif
