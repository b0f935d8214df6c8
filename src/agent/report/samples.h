/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_REPORT_SAMPLES_H
#define TENURE_AGENT_REPORT_SAMPLES_H

/*
 * What a device was used for, and how much, over the last day: a sample every SAMPLE_S seconds, in
 * a ring in memory and in a file of the same layout. A sample has its place by its time, so neither
 * has a beginning or an end that could be wrong, and what no agent saw is a gap.
 *
 * The file is checked whenever it is used, and nothing of it is believed without: its owner, its
 * kind, its size, its head, and each sample's sum and time. What is not ours or is damaged is
 * replaced. The functions on files may hang, and are for threads of the pool; all others are pure.
 *
 * Times are seconds since the epoch, divided by SAMPLE_S.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/node/view.h"
#include "base/err.h"

#define SAMPLE_S     10
#define SAMPLES_MAX  8640 /* a day */
#define SAMPLES_PATH 512

/* What it was, most of the time. The later ones say more than those before, where two are equal. */
enum sample_state {
	SAMPLE_GAP,   /* no agent saw it */
	SAMPLE_BLIND, /* nobody could see it: no guard, or no driver */
	SAMPLE_LEFT,  /* for others, who did not use it */
	SAMPLE_IDLE,
	SAMPLE_HELD,
	SAMPLE_WORKLOAD,
	SAMPLE_TASK,
	SAMPLE_FOREIGN, /* somebody else's */
	SAMPLE_FAULT,	/* it had an error (XID), for which it is not used */
	SAMPLE_STATE_MAX
};

const char *sample_state_name(unsigned int state);

#define SAMPLE_NO_UTIL	UINT8_MAX
#define SAMPLE_NO_TEMP	UINT8_MAX
#define SAMPLE_NO_POWER UINT16_MAX
#define SAMPLE_NO_MEM	UINT32_MAX

struct sample {
	uint32_t at;	   /* 0: there is none */
	uint16_t sum;	   /* of the rest */
	uint8_t state;	   /* enum sample_state */
	uint8_t util;	   /* per cent */
	uint16_t power_dw; /* tenths of a watt */
	uint8_t temp_c;
	uint8_t pad;
	uint32_t used_mib, ours_mib;
	uint32_t element;
	uint64_t task; /* that had it, or 0; element as in an order */
};

/* While a sample is not complete: looks once a second. */
struct sample_sums {
	uint32_t at;
	unsigned int looks[SAMPLE_STATE_MAX];
	unsigned int n_util, n_power, n_used, n_ours;
	uint64_t util, power_mw, used, ours;
	uint32_t temp_c, n_temp; /* the highest */
	uint64_t task;
	uint32_t element;
};

/* What the device in that slot is just now; of one that is not seen SAMPLE_BLIND. */
enum sample_state sample_state_of(const struct view *v, uint32_t slot);
/* One more look; slot -1: it is not seen. */
void sample_add(struct sample_sums *s, const struct view *v, int slot);
/* The sample that they make. */
struct sample sample_of(const struct sample_sums *s);

struct sample_ring {
	struct sample s[SAMPLES_MAX];
};

/* Take in what is sound of it, and not from before or after the day that ends now. True: it was. */
bool samples_put(struct sample_ring *ring, const struct sample *s, uint32_t now);

/* --- files --- */

/* Write one into its file, which is made, or replaced, where it has to be. 0 or -errno with e. */
int samples_write(const char *path, const struct sample *s, struct err *e);
/* All that is sound in the file; none where it is not there, or is not ours. 0 or -errno. */
int samples_read(const char *path, struct sample_ring *ret, uint32_t now, struct err *e);

/* Removes the files of that directory that are ours and were not written to for a day: those of
 * devices that are gone. What else lies there stays, and so does what cannot be removed. */
void samples_sweep(const char *dir, uint32_t now);

/* --- answers --- */

#define SAMPLES_POINTS_MAX 16384 /* of an answer, over all devices */

/* So many points of step seconds as fit an answer about n devices; both as they will be. */
void samples_bound(unsigned int n_devices, uint64_t *seconds, uint64_t *step_s);
/*
 * Columns of the device's last seconds in steps of step_s, both from samples_bound(): means of the
 * figures, the state that it was in for most of a step, and null where there is nothing; the last
 * step may not be over. New reference.
 */
json_t *samples_json(const struct sample_ring *ring, uint64_t now_s, uint64_t seconds,
		     uint64_t step_s);

#endif
