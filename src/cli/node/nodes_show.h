/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_NODE_NODES_SHOW_H
#define TENURE_CLI_NODE_NODES_SHOW_H

/* What `tenure nodes` prints: for people, and as JSON (docs/json.md). Nothing is read here. */

#include <jansson.h>

#include "cli/node/nodes_machine.h"
#include "cli/node/nodes_ours.h"
#include "engine/inventory.h"

/* The nodes of one engine, as it was asked with these settings; of engine_local this machine. */
struct nodes_section {
	const struct engine *engine;
	struct text_list settings;
	struct inventory inventory;  /* known: there is something to show */
	struct node_devices devices; /* of this machine */
	unsigned int *ours;	     /* by row of inventory.nodes */
	int r;			     /* 0, or why the engine did not answer now, with: */
	struct err e;
};

struct nodes_shown {
	const struct ours *ours;
	const struct nodes_section *sections;
	size_t n;
	const char *type; /* only such GPUs are there; NULL: all */
	bool only_free;	  /* of rows those are shown of which a job could get a GPU */
	size_t lines; /* of a screen that shows nothing else, so its top has to stay; 0: of none */
};

void nodes_print(const struct nodes_shown *shown);
/* A new reference. */
json_t *nodes_json(const struct nodes_shown *shown);

#endif
