/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TESTS_UNIT_H
#define TENURE_TESTS_UNIT_H

/* cmocka needs these in this order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
