/* SPDX-License-Identifier: MIT */
#include "models.h"

#include <stddef.h>
#include <string.h>

/*
 * Memory, multiprocessors, capability, power limit, clocks, bus and cache are the data sheets'; the
 * H200's powers and reserve are measured (idle 80 W, context 121 W, 232 W at 75 % of a spinning
 * full grid, 690 W in matrix products), those of the others are that card's scaled to their power
 * limits.
 */
const struct sim_model sim_models[] = {
	{ "h200", "NVIDIA H200", 143771, 615,  132,    9,    0,	    700,  80,	121,
	  148,	  569,		 1980,	 3201, 0x2335, 6144, 61440, true, true, true },
	{ "h100", "NVIDIA H100 80GB HBM3",
	  81559,  551,
	  132,	  9,
	  0,	  700,
	  70,	  118,
	  148,	  569,
	  1980,	  2619,
	  0x2330, 5120,
	  51200,  true,
	  true,	  true },
	{ "a100-80", "NVIDIA A100-SXM4-80GB",
	  81920,     520,
	  108,	     8,
	  0,	     400,
	  56,	     76,
	  85,	     310,
	  1410,	     1593,
	  0x20b2,    5120,
	  40960,     true,
	  true,	     true },
	{ "a100-40", "NVIDIA A100-SXM4-40GB",
	  40960,     420,
	  108,	     8,
	  0,	     400,
	  48,	     66,
	  85,	     320,
	  1410,	     1215,
	  0x20b0,    5120,
	  40960,     true,
	  true,	     true },
	{ "l40s", "NVIDIA L40S", 46068, 500,  142,    8,   9,	  350,	32,    80,
	  74,	  262,		 2520,	9001, 0x26b9, 384, 98304, true, false, false },
	{ "a10", "NVIDIA A10", 23028, 310,  72,	    8,	 6,    150,  16,    55,
	  31,	 92,	       1695,  6251, 0x2236, 384, 6144, true, false, false },
	{ "rtx4090", "NVIDIA GeForce RTX 4090",
	  24564,     370,
	  128,	     8,
	  9,	     450,
	  20,	     62,
	  95,	     370,
	  3105,	     10501,
	  0x2684,    384,
	  73728,     false,
	  false,     false },
	{ "v100", "Tesla V100-SXM2-32GB",
	  32768,  320,
	  80,	  7,
	  0,	  300,
	  25,	  55,
	  63,	  238,
	  1530,	  877,
	  0x1db5, 4096,
	  6144,	  true,
	  false,  true },
	{ NULL },
};

const struct sim_model *sim_model_find(const char *key)
{
	for (const struct sim_model *model = sim_models; model->key; model++) {
		if (strcmp(model->key, key) == 0)
			return model;
	}
	return NULL;
}
