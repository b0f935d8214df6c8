/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SIM_MODELS_H
#define TENURE_SIM_MODELS_H

/* The cards that can be simulated, one row each (models.c). */

#include <stdbool.h>
#include <stdint.h>

struct sim_model {
	const char *key;  /* --model KEY */
	const char *name; /* as NVML shows it */
	uint32_t mem_mib;
	uint32_t
		reserved_mib; /* what the driver keeps: "used" of an empty card in v1 memory info */
	uint32_t sm_count;
	int cc_major, cc_minor;
	uint32_t limit_w, idle_w, context_w;
	uint32_t spin_w, tensor_w; /* added by a full grid of spinning warps, of tensor products */
	uint32_t clock_sm_mhz, clock_mem_mhz;
	uint32_t pci_device_id;
	uint32_t bus_bits, l2_kib; /* memory interface, second-level cache */
	bool ecc;
	bool mig;
	bool nvlink; /* joined with all of its kind, by a switch */
};

extern const struct sim_model sim_models[]; /* ends with key == NULL; the first is the default */

/* NULL where there is none. */
const struct sim_model *sim_model_find(const char *key);

#endif
