/* SPDX-License-Identifier: MIT */
#ifndef TENURE_ENGINE_NODE_SUMS_H
#define TENURE_ENGINE_NODE_SUMS_H

/*
 * What the nodes of a cluster add up to, all together and by type of GPU. Pure.
 *
 *	node_sums_tidy(&nodes);
 *	node_sums_of(&nodes, ours, &sums);
 *	node_sums_clear(&sums);
 *
 * Each GPU is one of five things, so the five add up to the total: free (a job could get it now),
 * blocked (free, and no processor or memory of its node is left), allocated (some job has it),
 * unavailable (nobody has it, and its node takes no jobs), and unknown (which of these is not for
 * us to see). Ours are among the allocated ones.
 */

#include <stdbool.h>

#include "engine/engine.h"

struct node_sum {
	unsigned int nodes, total, free, blocked, allocated, unavailable, unknown, ours;
};

struct node_type_sum {
	const char *type; /* the nodes'; NULL: the engine names none */
	struct node_sum sum;
};

struct node_sums {
	struct node_sum all; /* a node with several types counts once */
	size_t n_types;
	struct node_type_sum *types; /* by their names, the one without a name last */
};

/* In the order of names, numbers in them by their value: "n2" before "n10". What an engine has
 * listed again under the same name and type is left out, whatever it says the second time. */
void node_sums_tidy(struct engine_nodes *nodes);
/* One row of a tidy list; ours: how many of its allocated GPUs are. */
struct node_sum node_sums_row(const struct engine_node *node, unsigned int ours);
/* ours: a number for each row; NULL: none are. sums refers to texts of nodes. */
void node_sums_of(const struct engine_nodes *nodes, const unsigned int *ours,
		  struct node_sums *ret);
void node_sums_clear(struct node_sums *sums);

/* Two names of one host: engines write it with its domain or without, in capitals or not. */
bool node_sums_same_host(const char *a, const char *b);

#endif
