/* SPDX-License-Identifier: MIT */
#include "timing.h"

#define US 1000ULL
#define MS (1000ULL * US)

/*
 * "measured" figures were taken on hosts with one and four H200, driver 580.159, Linux 6.18, with
 * bare C programs; docs/hardware.md tells how. A warm host is one that has a context somewhere.
 * cuInit and context together give a newcomer's start: 156-160 ms on a card that is held or has
 * another context, 300-400 ms on one without while others are held, 340-380 ms on a cold host.
 */
const struct sim_timing sim_timings[SIM_T_MAX] = {
	[SIM_T_INIT_WARM] = { "init-warm", 57 * MS, "ns", true,
			      "measured: 56-57 ms on a card with a context, four-card host" },
	[SIM_T_INIT_CARD_COLD] = { "init-card-cold", 240 * MS, "ns", true,
				   "measured: 220-307 ms on a card without, others held" },
	[SIM_T_INIT_COLD] = { "init-cold", 205 * MS, "ns", true, "measured: cuInit 110-210 ms" },
	[SIM_T_CTX_WARM] = { "context-warm", 105 * MS, "ns", true, "measured: 103-118 ms" },
	[SIM_T_CTX_COLD] = { "context-cold", 150 * MS, "ns", true,
			     "first allocation on a cold host after 340-380 ms, less cuInit" },
	[SIM_T_PID_VISIBLE] = { "pid-visible", 16 * MS, "ns", true,
				"measured: its memory shows 16 ms before its PID" },
	[SIM_T_START_SLICE] = { "start-slice", 400 * US, "ns", true,
				"NVML lists take 90-440 us, up to 7 ms, while a process starts" },
	[SIM_T_START_ALONE] = { "start-alone", 75, "%", false,
				"measured: contexts of 1, 2, 4, 8 starts at once take 140, 229, "
				"438, 906 ms (H100)" },
	[SIM_T_ALLOC_CALL] = { "alloc-call", 300 * US, "ns", true,
			       "130 GB in large pieces: 5-20 ms" },
	[SIM_T_FREE_CALL] = { "free-call", 1600 * US, "ns", true,
			      "264-413 pieces take 450-910 ms" },
	[SIM_T_FREE_PER_GIB] = { "free-per-gib", 310 * US, "ns", true,
				 "130 GB in few large pieces take 40-65 ms" },
	[SIM_T_EXIT_TEARDOWN] = { "exit-teardown", 140 * MS, "ns", true,
				  "SIGKILL of a holder: 140-200 ms; by size, for 130 GiB" },
	[SIM_T_CTX_DESTROY] = { "context-destroy", 60 * MS, "ns", true, "estimate" },
	[SIM_T_SCRUB_PER_GIB] = { "scrub-per-gib", 2147 * US, "ns", true,
				  "measured: roughly 500 GB/s" },
	[SIM_T_MODULE_LOAD] = { "module-load", 2 * MS, "ns", true,
				"PTX load 0.1 ms cached to 82 ms first" },
	[SIM_T_NVML_INIT] = { "nvml-init", 20 * MS, "ns", true, "nvidia-smi as a child: 22-33 ms" },
	[SIM_T_NVML_CALL] = { "nvml-call", 0, "ns", true,
			      "the list takes 5 us when quiet: that is what the code costs itself" },
	[SIM_T_NVML_CALL_STARTING] = { "nvml-call-starting", 90 * US, "ns", true,
				       "mean 90-440 us while a process starts" },
	[SIM_T_LOCK_SLOW] = { "lock-slow", 0, "ns", false, "`ctl lock slow MS`: a fault" },
	[SIM_T_KERNEL] = { "kernel", 1 * MS, "ns", false, "kernels that do not say how long" },
	[SIM_T_UTIL_WINDOW] = { "util-window", 500 * MS, "ns", false,
				"NVML documents 1/6 s to 1 s" },
	[SIM_T_POWER_WINDOW] = { "power-window", 200 * MS, "ns", false,
				 "average over some 100 ms on recent cards" },
	[SIM_T_INIT_OPENS_CTL] = { "init-opens-ctl", 20, "opens", false,
				   "measured: 31 of nvidiactl in one start" },
	[SIM_T_INIT_OPENS_NODE] = { "init-opens-node", 5, "opens", false,
				    "measured: 5-6 of every other card within 75 ms" },
	[SIM_T_CTX_OPENS_CTL] = { "context-opens-ctl", 10, "opens", false, "31 less cuInit's" },
	[SIM_T_CTX_OPENS_NODE] = { "context-opens-node", 9, "opens", false,
				   "15 of its own card, the last with the first allocation" },
	[SIM_T_NVML_OPENS_CTL] = { "nvml-opens-ctl", 5, "opens", false, "measured: nvidia-smi" },
	[SIM_T_NVML_OPENS_NODE] = { "nvml-opens-node", 3, "opens", false, "measured: nvidia-smi" },
	[SIM_T_CTX_BYTES] = { "context-bytes", 512 * 1024 * 1024ULL, "bytes", false,
			      "a context costs 0.5 GB of the card" },
	[SIM_T_PINNED_BYTES] = { "pinned-bytes", 2 * 1024 * 1024ULL, "bytes", false,
				 "a choice: the most of the host's memory that one call pins" },
	[SIM_T_IPC_BYTES] = { "ipc-bytes", 32 * 1024 * 1024ULL, "bytes", false,
			      "a choice: the largest allocation that others can open" },
};
