/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TESTS_UNIT_H
#define TENURE_TESTS_UNIT_H

/* cmocka needs these in this order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/*
 * What has no name in the C library, if the program is linked with --wrap=syscall
 * (tests/meson.build): fails(number) is asked before each call, and sets errno where it says true.
 */
#define WRAP_SYSCALL(fails)                                                                        \
	long __real_syscall(long number, ...);                                                     \
	long __wrap_syscall(long number, ...);                                                     \
	long __wrap_syscall(long number, ...)                                                      \
	{                                                                                          \
		long args[4];                                                                      \
		va_list list;                                                                      \
                                                                                                   \
		va_start(list, number);                                                            \
		for (size_t i = 0; i < sizeof(args) / sizeof(args[0]); i++)                        \
			args[i] = va_arg(list, long);                                              \
		va_end(list);                                                                      \
		if (fails(number))                                                                 \
			return -1;                                                                 \
		return __real_syscall(number, args[0], args[1], args[2], args[3]);                 \
	}

#endif
