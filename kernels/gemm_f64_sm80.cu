/* SPDX-License-Identifier: MIT */
/* tenure_gemm_f64 (gemm_f64.h) for compute capability 8.0 and later, with the instruction of 8.0. */
#include "gemm_f64.h"

DEVICE void multiply_8(double *d, double a, double b)
{
	asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
		     : "+d"(d[0]), "+d"(d[1])
		     : "d"(a), "d"(b));
}

DEVICE void multiply(double *d, const double *a, const double *b)
{
	multiply_8(d, a[0], b[0]);
	multiply_8(d + 2, a[1], b[0]);
	multiply_8(d, a[2], b[1]);
	multiply_8(d + 2, a[3], b[1]);
}
