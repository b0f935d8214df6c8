/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_BURN_JUDGE_H
#define TENURE_AGENT_BURN_JUDGE_H

/*
 * What is to be thought of devices that were burnt (hold/burn.h). Pure: from what holders have
 * found, and what NVML has said meanwhile, follow a verdict for each device and the reasons for it.
 *
 * Bad is what no good card does: a wrong result, memory that does not keep what was written, a
 * speed below that of its like, copies that arrive wrong, heat or hardware that slows it down, and
 * what makes any card bad (gpu/card_sign.h). The limit of its power is none of them.
 */

#include <stdbool.h>
#include <stdint.h>

#include "agent/burn/curve.h"
#include "base/textlist.h"
#include "gpu/health.h"
#include "hold/burn.h"
#include "hold/proto.h"

#define BURN_SLOW_PERMILLE  900		   /* of the median of its model, or of the known figure */
#define BURN_SPEED_LEAST    (NS_PER_S / 2) /* of products, or of memory, to speak of a speed */
#define BURN_THROTTLE_LEAST NS_PER_S
#define BURN_THROTTLE_SHARE 20 /* and at least a 20th of the time */
#define BURN_COPIES_LEAST   4  /* of a way, to speak of a speed */
/* Copies are slower than those of its like, or than what its link carries: two cards that share a
 * way to the host's memory have a half each, which is no fault of theirs. */
#define BURN_COPY_PERMILLE 450

enum burn_verdict {
	BURN_GOOD,
	BURN_BAD,
	BURN_UNTESTED, /* it could not be, or not long enough */
	BURN_YIELDED,  /* somebody needed it before the end, and nothing was wrong until then */
	BURN_VERDICT_MAX
};

/* What was seen of one device. */
struct burnt {
	struct dev_status dev;	       /* the last that the guard said of it */
	struct gpu_health now;	       /* the last that the guard said */
	struct gpu_health first, last; /* before and after all; known 0: not read */
	struct burn_report found;
	uint64_t began_ns, ended_ns; /* of the test; 0: not yet */
	uint64_t seen_ns;	     /* that are in the sums below */
	uint64_t throttled_ns[64];   /* by bit of NVML's word */
	double watt_seconds;
	uint32_t watts_most, temp_first, temp_most;
	uint32_t clock_least;  /* MHz of the multiprocessors, while it was tested; 0: not known */
	uint32_t xid;	       /* of the card, reported meanwhile; 0: none */
	uint8_t yielded, lost; /* 0 or not: no bool, because it comes from other nodes as bytes */
	uint8_t load;	       /* enum burn_load, that was asked for */
	char trouble[320];     /* why it was not tested, or not to the end; empty: it was */
	struct burn_curve curve;
};

struct burn_judgement {
	enum burn_verdict verdict;
	double tflops;	  /* 0: no products */
	double gb_per_s;  /* of memory, read and written; 0: it was not tested */
	double of_median; /* speed against its like; 0: there is nothing to compare with */
	bool slope_known;
	double slope_c_per_min;		 /* of its temperature at the end */
	const struct burn_link *slowest; /* of its copies to other devices; NULL: there were none */
	double copies[BURN_WAY_MAX];	 /* GB/s over PCIe; 0: there were none, or too few */
	struct text_list reasons;	 /* for what it is; for people */
	struct text_list notes;		 /* what else is worth knowing */
};

/* Judge all n devices of one report, of however many nodes; ret has n entries.
 * burn_judgement_clear() each. */
void burn_judge(const struct burnt *devices, uint32_t n, struct burn_judgement *ret);
void burn_judgement_clear(struct burn_judgement *j);

/* GB/s of a way of copies; 0: there were too few to tell. */
double burn_copy_speed(const struct burn_copies *c, enum burn_way way);

/* "good", "bad", "not tested", "yielded". */
const char *burn_verdict_name(enum burn_verdict v);

/* 0 all are good; 1 one is bad; 3 one could not be tested, or there are none; 4 one was yielded. */
int burn_exit_code(const struct burn_judgement *j, uint32_t n);

#endif
