/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_USAGE_H
#define TENURE_SPOOL_USAGE_H

/*
 * What the attempts of a task, or of a batch's elements, have used together, from their records: an
 * `end`, a `requeue`, or a `past`, which stands for many (transit.c). A record without a beginning
 * counts nothing: the attempt never came to run, or it is not known when it was interrupted.
 */

#include "spool/record.h"

struct usage {
	/* Given. */
	uint64_t asked;	   /* devices that an attempt had which does not say it, or SPEC_ALL */
	uint64_t since_ns; /* only what ended since; wall */
	uint64_t until_ns; /* and not later; 0: ever */
	/* Found. */
	double seconds, gpu_seconds;
	uint64_t ended_ns; /* the last; wall */
	unsigned int gpus; /* the most at once; of which the records know */
	bool unknown;	   /* ... and of one they do not */
	uint64_t peak_bytes;
	double busy, watched;	   /* GPU-seconds, for the mean of the utilisation */
	double energy_j, energy_s; /* and of how many GPU-seconds that is */
	double empty_s, seen_s;	   /* GPU-seconds without a process or idle, of so many */
	/* Of the last record, which may stand there twice. */
	uint64_t last_begun_ns;
	json_int_t last_element;
};

/* Any record, or NULL; one that tells of no use changes nothing. */
void usage_add(struct usage *u, const json_t *record);
/* Its numbers as keys of a `past`. */
void usage_put(const struct usage *u, json_t *past);

#endif
