/* SPDX-License-Identifier: MIT */

/*
 * What NVML documents and nobody simulates: it is there, so that a program that is linked against
 * it starts, says NOT_SUPPORTED and writes nothing. The stubs are weak: a definition elsewhere in
 * this library goes before them. No declaration of the real functions may be seen here.
 */
#include "nvml_names.h"
#include "nvml_sim.h"

#define STUB(name)                                                                                 \
	NV_EXPORT __attribute__((weak)) nvmlReturn_t name(void);                                   \
	NV_EXPORT __attribute__((weak)) nvmlReturn_t name(void)                                    \
	{                                                                                          \
		NV_ENTER();                                                                        \
		(void)m;                                                                           \
		return NVML_ERROR_NOT_SUPPORTED;                                                   \
	}
NVML_NAMES(STUB)
