/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_NODE_NODES_MACHINE_H
#define TENURE_CLI_NODE_NODES_MACHINE_H

/*
 * This machine as a cluster of one node: what its agent says of the devices, which knows whose task
 * is on one, or where none runs, one look at the driver.
 */

#include "cli/cmd.h"
#include "engine/engine.h"

enum node_device_state {
	NODE_DEVICE_FREE,
	NODE_DEVICE_HELD, /* by us, with nothing to run */
	NODE_DEVICE_TASK, /* of ours */
	NODE_DEVICE_BUSY, /* with somebody else's process */
	NODE_DEVICE_OUT,  /* not to be seen, or in quarantine */
	NODE_DEVICE_STATE_MAX
};

struct node_device {
	int gpu, mig; /* mig -1: it is a whole card */
	char uuid[96], name[96];
	enum node_device_state state;
	char text[300]; /* whose, or why; "" */
};

struct node_devices {
	size_t n;
	struct node_device *all;
};

/* "free", "held", "task", "busy", "out" */
const char *node_device_state_name(enum node_device_state state);

/* 0; negative with e: no GPU can be seen. node_devices_clear() in each case. */
int node_devices_read(const struct cmd_ctx *ctx, struct node_devices *ret, struct err *e);
void node_devices_clear(struct node_devices *d);
/* A row of this host for each name of theirs, tidy, and how many of the row's are ours: the caller
 * frees *ret_ours. */
void node_devices_sum(const struct node_devices *d, struct engine_nodes *ret,
		      unsigned int **ret_ours);

#endif
