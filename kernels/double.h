/* SPDX-License-Identifier: MIT */
#ifndef TENURE_KERNELS_DOUBLE_H
#define TENURE_KERNELS_DOUBLE_H

/*
 * A product in double precision is compared with what the host knows by words of 32 bits, as all
 * others are: each element is folded into one.
 */
#include "device.h"

/*
 * Every bit of the number is in it: one that is wrong is never overlooked. The exponent of single
 * precision is all ones for what is no number or infinite, and for nothing else. The host does the
 * same (hold/holder/product.c).
 */
DEVICE u32 fold(double x)
{
	const u64 bits = __builtin_bit_cast(u64, x);
	const u32 high = (u32)(bits >> 32), low = (u32)bits;
	const u32 mixed = high ^ (low << 13 | low >> 19);

	if ((high & 0x7ff00000) == 0x7ff00000)
		return bits << 12 ? 0x7fc00000 : 0x7f800000;
	return (mixed ^ (mixed >> 30 & 1) << 7) & 0xbfffffff;
}

#endif
