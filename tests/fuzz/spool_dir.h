/* SPDX-License-Identifier: MIT */
#ifndef TENURE_FUZZ_SPOOL_DIR_H
#define TENURE_FUZZ_SPOOL_DIR_H

/* A spool for entries whose input is a file in it. */

#include <stdbool.h>
#include <stddef.h>

#include "spool/files.h"

/* Ends the program, which is what a fuzzer sees. */
void fuzz_check(bool good);
/* Made in memory with the first call, removed at the end. */
struct spool *fuzz_spool(void);
/* In place of what is there. */
void fuzz_put(const char *path, const void *data, size_t size);

#endif
