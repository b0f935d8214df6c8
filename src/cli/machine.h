/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_MACHINE_H
#define TENURE_CLI_MACHINE_H

/*
 * One look at the GPUs of this machine, for the commands that need no agent. NVML is asked from
 * here, so a driver that hangs keeps the command waiting; nothing else waits for it.
 */

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"
#include "cli/cmd.h"
#include "gpu/device.h"
#include "gpu/health.h"

struct machine_device {
	struct gpu_look look;
	struct gpu_health health; /* after machine_read_health() */
	int code;		  /* 0, or why there is no look */
	char trouble[200];
	bool ours;	  /* a holder of this user is on it */
	bool mig_card;	  /* its instances are the devices */
	char reason[200]; /* why it is not idle; empty: it is */
	/* Why it gets no tasks, or is tried (agent/node/quarantine.h); empty: it is trusted, or
	 * machine_take_quarantine() was not called. */
	char quarantine[300];
	/* To whom our user has left it (agent/node/left.h), in words; empty: to nobody, or
	 * machine_take_left() was not called. */
	char left[128];
};

struct machine {
	struct nvml nvml;
	struct gpu_list list;
	struct machine_device devices[GPU_DEVICES_MAX]; /* in the order of list */
	char driver[80], version[80];			/* of the driver, of NVML; may be empty */
};

/*
 * Load NVML and look at everything; a device uses more than idle_below bytes = not idle. 0 and
 * *ret; -ENOENT (no library), -ENODEV (no GPU), -EIO and so on with e.
 */
int machine_look(uint64_t idle_below, struct machine **ret, struct err *e);
/* Some 40 calls of the driver more for each card. */
void machine_read_health(struct machine *m);
struct machine *machine_free(struct machine *m);

/*
 * The same figures of each card by a process of its own, for who has to go on where the driver
 * hangs. Where there is no NVML there are none. 0 and *ret, or -ETIMEDOUT and so on with e.
 */
struct machine_figures {
	uint32_t n;
	struct {
		char uuid[GPU_UUID_MAX];
		struct gpu_health health;
	} cards[GPU_DEVICES_MAX];
};
int machine_ask_health(uint64_t limit_ms, struct machine_figures **ret, struct err *e);
/* NULL: there are none of that card. */
const struct gpu_health *machine_find_health(const struct machine_figures *f, const char *uuid);
struct machine_figures *machine_figures_free(struct machine_figures *f);

/* What this user's agents remember of devices that failed. The caller frees the path. */
char *machine_quarantine_path(const struct cmd_ctx *ctx);
/* What cannot be read says nothing. */
void machine_take_quarantine(const struct cmd_ctx *ctx, struct machine *m);

/* The same of devices that are left to who asked for them, by any instance. */
void machine_take_left(const struct cmd_ctx *ctx, struct machine *m);

/* Whose process this is, for people. */
struct machine_process {
	char user[64];
	char program[16]; /* its short name, as the guard says it */
	char command[128];
	bool holder; /* one of tenure's, of whatever user */
	bool ours;   /* and of this user */
};

void machine_describe(const struct gpu_proc *p, struct machine_process *ret);

/* "busy", "held", "idle", "mig": its instances are the devices. */
const char *machine_state_name(const struct machine_device *d);

#define MACHINE_FORMAT 1

json_t *machine_json(const struct machine *m);

const char *machine_mode_name(nvmlComputeMode_t mode);

#endif
