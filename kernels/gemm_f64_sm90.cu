/* SPDX-License-Identifier: MIT */
/* tenure_gemm_f64 (gemm_f64.h) for compute capability 9.0 and later, whose instruction is larger. */
#include "gemm_f64.h"

DEVICE void multiply(double *d, const double *a, const double *b)
{
	asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 "
		     "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
		     : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
		     : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
}
