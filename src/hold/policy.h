/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_POLICY_H
#define TENURE_HOLD_POLICY_H

/*
 * What an instance wants held: the settings of docs/design.md section 4 in the form in which they
 * travel from the agent to the guard. Plain old data of fixed size; policy_check() is called by the
 * receiver on everything that came over a socket (invariant 8).
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "hold/burn.h"

#define POLICY_GPUS_MAX	  64 /* entries of the device selection */
#define POLICY_GPU_TEXT	  64 /* one entry: index, UUID or prefix of one */
#define POLICY_IGNORE_MAX 32

enum load_kind {
	LOAD_NONE,  /* memory only */
	LOAD_LIGHT, /* one thread that naps: utilisation at no measurable power */
	LOAD_SM,    /* one warp on every multiprocessor */
	LOAD_GEMM,  /* tensor-core products: utilisation, SM activity and power */
	LOAD_BURN,  /* all of the device, tested (hold/burn.h); no setting has it */
	LOAD_MAX
};

enum mem_kind {
	MEM_BYTES,    /* that many bytes */
	MEM_PERMILLE, /* a share of what is free when the hold starts, in thousandths */
	MEM_ALL_BUT,  /* all that is free less that many bytes */
	MEM_KIND_MAX
};

struct mem_amount {
	uint32_t kind;	   /* enum mem_kind */
	uint32_t permille; /* 1..1000, with MEM_PERMILLE */
	uint64_t bytes;	   /* with the other two */
};

struct hold_policy {
	uint8_t hold;	   /* 0: only watch, hold nothing */
	uint8_t all;	   /* every device; gpus[] is not looked at */
	uint8_t together;  /* hold when all selected devices are idle, not each on its own */
	uint8_t my_cgroup; /* processes of the agent's own cgroup are not foreign */
	uint8_t load;	   /* enum load_kind */
	uint8_t util_low;  /* per cent; below: more load */
	uint8_t util;	   /* per cent; aimed at */
	uint8_t util_high; /* per cent; above: less load */
	uint32_t leave; /* this many of the selected devices, the last ones, are left for others */
	uint32_t max_devices;  /* at most this many are held for this instance or used by its tasks
				  at a time; 0 = no limit */
	uint32_t site_devices; /* the same for all instances together: the site's limit */
	struct burn_test burn; /* with LOAD_BURN */
	struct mem_amount memory;
	uint64_t idle_below_bytes; /* a device that uses more than this is not idle */
	uint64_t idle_for_ms;	   /* idle for so long before it is held; 0 = at once */
	uint64_t refresh_ms;	   /* how often a device that is not held is looked at */
	uint64_t work_ms, rest_ms; /* load cycle; rest_ms == 0: no rest */
	uint64_t rehold_ms;	   /* after a yield: idle for so long before it is held again */
	uint32_t n_gpus;	   /* 0..POLICY_GPUS_MAX */
	uint32_t n_ignore;	   /* 0..POLICY_IGNORE_MAX */
	int32_t ignore_pids[POLICY_IGNORE_MAX]; /* the owner's explicit exceptions */
	/* Their start times (base/proc.h): the next one of that number is not meant. 0: a number of
	 * another PID namespace, of which no more can be known. */
	uint64_t ignore_starts[POLICY_IGNORE_MAX];
	char gpus[POLICY_GPUS_MAX][POLICY_GPU_TEXT];
};

/* The defaults of the options: all devices, 88 % of free, idle below 1 GiB for 5 minutes, ... */
void policy_defaults(struct hold_policy *p);

/* Everything is in range and terminated. 0, or -EINVAL with the field and its limits in e. */
int policy_check(const struct hold_policy *p, struct err *e);

/* "none", "light", "sm", "gemm", "burn"; "?" out of range. */
const char *load_kind_name(uint32_t kind);
/* Of those that can be set. 0 and *ret, or -EINVAL with the known names in e. */
int load_kind_parse(const char *name, uint8_t *ret, struct err *e);

/* Bytes to hold on a device with free_bytes free; never more than free_bytes. */
uint64_t mem_amount_bytes(const struct mem_amount *m, uint64_t free_bytes);

#endif
