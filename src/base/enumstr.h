/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_ENUMSTR_H
#define TENURE_BASE_ENUMSTR_H

/*
 * Names of enum values: an array of names indexed by the value (holes are NULL).
 *
 *	static const char *const names[] = { [STATE_IDLE] = "idle", [STATE_HELD] = "held" };
 *	text = enum_name(names, ARRAY_LEN(names), state);
 */

#include <stddef.h>

#include "base/err.h"

/* The name; "?" where there is none. Never NULL. */
const char *enum_name(const char *const *names, size_t n, unsigned int value);

/* 0 and *ret; -EINVAL with the known names, and the nearest, in e. */
int enum_parse(const char *const *names, size_t n, const char *name, unsigned int *ret,
	       struct err *e);

#endif
