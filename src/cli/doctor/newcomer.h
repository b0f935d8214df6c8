/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_DOCTOR_NEWCOMER_H
#define TENURE_CLI_DOCTOR_NEWCOMER_H

/*
 * The newcomer of `doctor --launch`: a child that starts CUDA on one device like any program, asks
 * for memory once, stays for a moment and ends. It is not one of tenure's processes, so a guard
 * treats it like anybody's.
 *
 *	newcomer_start(uuid, bytes, &n, e);
 *	newcomer_end(&n, limit_ms, &report);
 */

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct newcomer {
	pid_t pid; /* 0: not started */
	int fd;	   /* its report comes here */
};

struct newcomer_report {
	int32_t code;		/* 0, or negative: text says what failed */
	uint64_t alloc_wall_ns; /* just before its first allocation */
	uint64_t start_ns;	/* from its first call of the driver until then */
	char text[160];
};

/* bytes: what it allocates. The calling process must not have started CUDA itself. 0 or -errno. */
int newcomer_start(const char *uuid, uint64_t bytes, struct newcomer *ret, struct err *e);

/* Wait up to limit_ms for the report, then end it in any case, and reap it. 0, -ETIMEDOUT, or
 * -EPIPE: it ended without one. */
int newcomer_end(struct newcomer *n, int limit_ms, struct newcomer_report *ret);

#endif
