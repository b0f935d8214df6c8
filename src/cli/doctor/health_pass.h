/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_DOCTOR_HEALTH_PASS_H
#define TENURE_CLI_DOCTOR_HEALTH_PASS_H

/*
 * One look at how the cards of this machine are, for `tenure health`, within a hard limit of time.
 *
 * A driver can hang, and then nothing helps whoever is inside a call of it. So a child asks it, and
 * writes what it finds, and what it is about to ask, into memory that it shares with us. Where it
 * has not ended in time it is killed, and left alone if it does not end even then: it has nothing
 * open of ours but a pipe, so nobody waits for it. What it had found until then is there.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"
#include "gpu/device.h"
#include "gpu/health.h"
#include "gpu/missing.h"

enum health_stage {
	STAGE_LOAD,  /* NVML's library */
	STAGE_START, /* NVML itself */
	STAGE_LIST,
	STAGE_LOOK,  /* at a card */
	STAGE_AGAIN, /* whether what is so now stays so */
	STAGE_NODES, /* of devices, and what the kernel says */
	STAGE_CUDA,  /* --cuda: on a card, or on several at once */
	STAGE_DONE
};

enum health_trial {
	TRIAL_NONE, /* not asked for */
	TRIAL_BUSY, /* it was left alone, and why is in trial_words */
	TRIAL_RUNS,
	TRIAL_GOOD,
	TRIAL_BAD,	 /* why is in trial_words */
	TRIAL_IMPOSSIBLE /* here, whatever the card is like: why is in trial_words */
};

/* A card, not its instances of MIG. */
struct health_card {
	struct gpu_device dev;
	bool selected;
	bool seen;	   /* it was looked at, well or not */
	bool persistence;  /* it is on, or not known */
	char trouble[160]; /* nothing is seen of it: why */
	struct gpu_health health;
	char users[160]; /* who uses it, where it should be nobody (order); empty: nobody */
	bool stays;	 /* what is so now (CARD_MOMENT, users) was so for two seconds */
	uint32_t xid;	 /* in the kernel's log; 0: none */
	uint64_t xid_us;
	_Atomic int trial; /* enum health_trial */
	char trial_words[160];
	uint64_t trial_compared, trial_ns;
};

#define HEALTH_WORDS_MAX 16 /* of --gpus, that name nothing; there may be more */

struct health_pass {
	uint64_t until_ns; /* CLOCK_MONOTONIC: the end of all */
	_Atomic int stage; /* enum health_stage */
	_Atomic int at;	   /* index of the card that is asked; -1: none */
	int code;	   /* 0, or why NVML cannot be asked, in trouble */
	char trouble[256];
	char driver[80];      /* version; empty: not known */
	bool log_read;	      /* of the kernel */
	uint64_t log_from_us; /* as struct xid_log has it */
	uint32_t n;
	struct health_card cards[GPU_DEVICES_MAX];
	struct gpu_list list;
	bool failed_selected[GPU_DEVICES_MAX]; /* of list.failed */
	uint32_t n_missing;
	struct gpu_missing missing[GPU_DEVICES_MAX];
	uint32_t n_unknown;
	char unknown[HEALTH_WORDS_MAX][GPU_UUID_MAX];
	/* Of the parent: */
	bool timed_out;
	bool died;	  /* the child was ended by something else than us */
	int signal;	  /* by which; 0: by none */
	uint64_t took_ns; /* all of it */
};

struct health_order {
	const struct gpu_picks *picks; /* NULL: all */
	bool cuda;
	bool free; /* nobody is to use them */
	uint64_t timeout_ms;
	uint64_t idle_below; /* bytes in use, above which a card is somebody's */
	const char *dev_dir;
};

/* 0 and *ret, which health_pass_free() takes back, also where no child can be made (code); -errno:
 * there is no memory for it. */
int health_pass_run(const struct health_order *order, struct health_pass **ret, struct err *e);
struct health_pass *health_pass_free(struct health_pass *p);

#endif
