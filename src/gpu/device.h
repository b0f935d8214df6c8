/* SPDX-License-Identifier: MIT */
#ifndef TENURE_GPU_DEVICE_H
#define TENURE_GPU_DEVICE_H

/*
 * The devices of a machine: cards and MIG instances, identified by UUID. What does not change while
 * NVML runs is in struct gpu_device; a struct gpu_look is one look at one device, each figure with
 * a validity bit, because unknown is never 0.
 */

#include <stdbool.h>
#include <stdint.h>

#include "gpu/nvml.h"
#include "gpu/procs.h"

#define GPU_DEVICES_MAX 128
#define GPU_UUID_MAX	NVML_DEVICE_UUID_V2_BUFFER_SIZE
#define GPU_NAME_MAX	NVML_DEVICE_NAME_V2_BUFFER_SIZE

struct gpu_device {
	nvmlDevice_t handle; /* valid until nvml_stop() */
	char uuid[GPU_UUID_MAX];
	char name[GPU_NAME_MAX];
	char bus_id[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE]; /* of the card; empty if unknown */
	uint32_t index;					 /* NVML index of the card */
	int32_t minor;					 /* N of /dev/nvidiaN, or -1 */
	int32_t mig;	      /* MIG instance number on its card, or -1: a whole card */
	bool mig_parent;      /* a card in MIG mode: its instances are the devices */
	bool unseen;	      /* NVML does not show it: hold/guard/granted.h */
	uint64_t rest_bytes;  /* where only v1 memory info exists: used of the resting card */
	uint64_t total_bytes; /* of its memory; 0: not known */
};

/* A card that the driver counts and that could not be asked. */
struct gpu_failed {
	uint32_t index;
	char why[128];
};

struct gpu_list {
	uint32_t n;
	uint32_t n_cards;  /* that the driver counts */
	uint32_t n_failed; /* which are not in d[] */
	struct gpu_failed failed[GPU_DEVICES_MAX];
	struct gpu_device d[GPU_DEVICES_MAX];
};

enum gpu_valid {
	GPU_VALID_MEM = 1 << 0,
	GPU_VALID_PROCS = 1 << 1,
	GPU_VALID_UTIL = 1 << 2,
	GPU_VALID_POWER = 1 << 3,
	GPU_VALID_POWER_LIMIT = 1 << 4,
	GPU_VALID_TEMP = 1 << 5,
	GPU_VALID_MODE = 1 << 6,
	GPU_VALID_DISPLAY = 1 << 7,
	GPU_VALID_PERSISTENCE = 1 << 8,
};

struct gpu_look {
	uint32_t valid;		    /* enum gpu_valid */
	uint32_t failed;	    /* the same: modes that were asked for and could not be told */
	uint64_t begin_ns, end_ns;  /* CLOCK_MONOTONIC around the calls */
	uint64_t total, used, free; /* bytes; used is without the driver's reserve */
	struct gpu_procs procs;
	uint32_t util; /* per cent */
	uint32_t power_mw, power_limit_mw, temp_c;
	nvmlComputeMode_t mode;
	bool display, persistence;
};

enum gpu_depth {
	GPU_LOOK_MEMORY,  /* memory alone: 25 us of processor time on an H200, a list is 40-65 */
	GPU_LOOK_QUICK,	  /* compute processes and memory: what a verdict needs */
	GPU_LOOK_PROCS,	  /* and graphics processes */
	GPU_LOOK_UTIL,	  /* and utilisation, which the load control wants */
	GPU_LOOK_FIGURES, /* and power, temperature: slow on cards with a firmware of their own */
	GPU_LOOK_ALL,	  /* and compute mode, display, persistence: 250 us */
};

/*
 * All devices, cards in NVML order with the instances of a MIG card behind it. 0; -ENODEV: the
 * driver runs and has no device; -EIO. Cards that cannot be asked are left out, unless all are. ret
 * may be refilled after nvml_stop() and nvml_start().
 */
int gpu_enumerate(const struct nvml *n, struct gpu_list *ret, struct err *e);

/*
 * Whether another gpu_enumerate() may give something else: a card was left out, their number is
 * another, a card is in MIG mode (its instances come and go) or has changed that. Asks little: it
 * may be called every few seconds.
 */
bool gpu_list_is_old(const struct nvml *n, const struct gpu_list *list);

/* Pure: the same devices under the same handles. */
bool gpu_list_same(const struct gpu_list *a, const struct gpu_list *b);

/*
 * Look at one device. 0 when memory and, from GPU_LOOK_QUICK on, processes were read (figures
 * beyond those may be missing in valid); -ENODEV: lost; -EPROTO: a struct looks wrong; -EIO: cannot
 * see. May learn dev->rest_bytes.
 */
int gpu_look_at(const struct nvml *n, struct gpu_device *dev, enum gpu_depth depth,
		struct gpu_look *ret, struct err *e);

/* Power, its limit and temperature alone: as in a look of GPU_LOOK_FIGURES. What cannot be read is
 * not valid in ret any more. */
void gpu_look_figures(const struct nvml *n, const struct gpu_device *dev, struct gpu_look *ret);

/* NVLink joins the two cards, directly or through a switch. Instances of MIG it does not join. */
bool gpu_nvlinked(const struct nvml *n, const struct gpu_device *a, const struct gpu_device *b);

/* Pure: why this device is not to be held, whoever uses it; NULL: it may be. */
const char *gpu_unfit(const struct gpu_device *dev, const struct gpu_look *look);

/* The device that text names: NVML index ("2"), UUID, or a prefix of one that fits one device only.
 * The position in the list, or -ENOENT / -ENOTUNIQ with the devices there are in e. */
int gpu_find(const struct gpu_list *list, const char *text, struct err *e);

#endif
