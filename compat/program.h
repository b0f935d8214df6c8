/* SPDX-License-Identifier: MIT */
#ifndef TENURE_COMPAT_PROGRAM_H
#define TENURE_COMPAT_PROGRAM_H

/* Our program of that name: beside this one where it is installed, above it in a build directory,
 * else whatever PATH has. The caller frees it. */
char *program_find(const char *name);

#endif
