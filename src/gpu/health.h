/* SPDX-License-Identifier: MIT */
#ifndef TENURE_GPU_HEALTH_H
#define TENURE_GPU_HEALTH_H

/*
 * How a card is doing: what it has used, how fast it runs and what keeps it from running faster,
 * and what it has counted of errors. None of it says whose the card is, so none of it is part of a
 * look (gpu/device.h): it is read in parts of a few calls each, by whoever has the time for one.
 *
 * Each figure has a validity bit: a driver that is too old, a card that has no such thing, and a
 * call that failed leave it unknown, which is never 0. An instance of MIG has none of them; those
 * of its card are not its own.
 *
 * The struct travels in MSG_HEALTH (hold/proto.h) as it is. Energy in mJ since the driver was
 * loaded, clocks in MHz, times CLOCK_MONOTONIC.
 */

#include <stdbool.h>
#include <stdint.h>

struct nvml;
struct gpu_device;

enum health_known {
	HEALTH_ENERGY = 1 << 0,
	HEALTH_CLOCK_SM = 1 << 1,
	HEALTH_CLOCK_MEM = 1 << 2,
	HEALTH_THROTTLE = 1 << 3,
	HEALTH_PSTATE = 1 << 4,
	HEALTH_CLOCK_SM_MAX = 1 << 5,
	HEALTH_CLOCK_MEM_MAX = 1 << 6,
	HEALTH_PCIE_GEN_MAX = 1 << 7,
	HEALTH_PCIE_WIDTH_MAX = 1 << 8,
	HEALTH_PCIE_REPLAYS = 1 << 9,
	HEALTH_PCIE_GEN = 1 << 10,
	HEALTH_PCIE_WIDTH = 1 << 11,
	HEALTH_ROWS = 1 << 12,
	HEALTH_LINKS = 1 << 13,
	HEALTH_ECC = 1 << 14,	      /* and the next three: enum health_ecc */
	HEALTH_LINK_ERRORS = 1 << 18, /* and the next three: enum health_link_error */
	HEALTH_RECOVERY = 1 << 22,
	HEALTH_FABRIC = 1 << 23, /* it belongs to one */
};

/* What is read at a time; the order is that in which they are shown and read at first. */
enum health_part {
	HEALTH_PART_ENERGY,
	HEALTH_PART_CLOCKS, /* those of now, what keeps them down, performance state */
	HEALTH_PART_ECC,
	HEALTH_PART_ROWS,  /* of memory, remapped, or pages that were retired, before Ampere */
	HEALTH_PART_STATE, /* what its driver asks for, and of its fabric */
	HEALTH_PART_PCIE,
	HEALTH_PART_LINKS, /* of NVLink: one call for each */
	HEALTH_PART_LINK_ERRORS,
	HEALTH_PART_LIMITS, /* what does not change */
	HEALTH_PART_MAX
};

enum health_ecc {
	ECC_VOLATILE_CORRECTED,
	ECC_VOLATILE_UNCORRECTED,
	ECC_AGGREGATE_CORRECTED,
	ECC_AGGREGATE_UNCORRECTED,
	HEALTH_ECC_MAX
};

/* Sums over all links. */
enum health_link_error {
	LINK_REPLAYS,
	LINK_RECOVERIES,
	LINK_CRC_FLIT,
	LINK_CRC_DATA,
	HEALTH_LINK_ERROR_MAX
};

struct gpu_health {
	uint64_t known;			   /* enum health_known */
	uint64_t read_ns[HEALTH_PART_MAX]; /* when a part was read last; 0: never */
	uint64_t energy_mj;
	uint64_t throttle; /* NVML's bits: health_throttle() has their names */
	uint64_t ecc[HEALTH_ECC_MAX];
	uint64_t link_errors[HEALTH_LINK_ERROR_MAX];
	uint32_t clock_sm_mhz, clock_mem_mhz, clock_sm_max_mhz, clock_mem_max_mhz;
	uint32_t pstate; /* 0 is the fastest */
	uint32_t rows_corrected, rows_uncorrected;
	uint32_t rows_pending, rows_failed; /* 0 or 1: a reset is needed; there was no spare row */
	uint32_t pcie_replays, pcie_gen, pcie_gen_max, pcie_width, pcie_width_max;
	uint32_t links, links_up; /* a bit for each that the card has, and that is up */
	uint32_t recovery;	  /* NVML_GPU_RECOVERY_ACTION_.. */
	uint32_t fabric_state;	  /* NVML_GPU_FABRIC_STATE_.. */
	uint32_t fabric_status;	  /* how that ended: an nvmlReturn_t */
};

/* Read one part anew. What cannot be read is not known any more, whatever it was. */
void gpu_health_read(const struct nvml *n, const struct gpu_device *dev, enum health_part part,
		     struct gpu_health *h);
/* All of them. */
void gpu_health_read_all(const struct nvml *n, const struct gpu_device *dev, struct gpu_health *h);

/* Pure: the i-th of the reasons in bits, in the order of the bits; NULL: there are no more. fault:
 * it is a sign that something is wrong with the card or its cooling; idling, the power limit and
 * what somebody has set are none. */
const char *health_throttle(uint64_t bits, unsigned int i, bool *ret_fault);

#endif
