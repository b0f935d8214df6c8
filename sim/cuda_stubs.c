/* SPDX-License-Identifier: MIT */

/*
 * What CUDA's driver API documents and nobody simulates: it is there, so that a program that is
 * linked against it starts, says NOT_SUPPORTED and writes nothing. The stubs are weak: a definition
 * elsewhere in this library goes before them. No declaration of the real functions may be seen
 * here.
 */
#include "cuda_names.h"
#include "cuda_sim.h"

#define STUB(name)                                                                                 \
	CU_EXPORT __attribute__((weak)) CUresult name(void);                                       \
	CU_EXPORT __attribute__((weak)) CUresult name(void)                                        \
	{                                                                                          \
		CU_ENTER(NEEDS_NOTHING);                                                           \
		return CUDA_ERROR_NOT_SUPPORTED;                                                   \
	}
CUDA_NAMES(STUB)
