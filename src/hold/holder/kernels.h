/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_HOLDER_KERNELS_H
#define TENURE_HOLD_HOLDER_KERNELS_H

/* The PTX texts under kernels/, made part of the executable by the build. */

extern const char kernel_light[];      /* compute capability 7.0 and later */
extern const char kernel_light_sm50[]; /* 5.0 to 6.2 */
extern const char kernel_gemm[];       /* 7.0 and later */

#endif
