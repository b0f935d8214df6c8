/* SPDX-License-Identifier: MIT */
#ifndef TENURE_COMPAT_OCCUPY_DAEMON_H
#define TENURE_COMPAT_OCCUPY_DAEMON_H

/* The process behind `occupy on`: runs tenure, writes the log, ends at SIGTERM. */

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "compat/occupy_files.h"

#define OCCUPY_INSTANCE "occupy"
/* The end of the log's last line, where that is known. */
#define OCCUPY_FREED "Stopped; all GPU memory is free"

struct occupy_wants {
	const char *gpus; /* "0,1" */
	double memory_gb;
	double threshold_gb;
	uint64_t wait_ms, refresh_ms, compute_ms, sleep_ms;
	bool no_compute;
	/* Do not wait for all of them to be idle: each is taken when nobody is on it. */
	bool at_once;
};

/*
 * Start it in the background. 0 and its PID once tenure has begun, or -errno with the reason; the
 * caller holds occupy_files_lock().
 */
int occupy_daemon_start(const struct occupy_wants *w, const struct occupy_files *f, pid_t *ret_pid,
			struct err *e);

#endif
