/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_ATTEMPT_RENDEZVOUS_H
#define TENURE_AGENT_ATTEMPT_RENDEZVOUS_H

/*
 * Where the ranks of a program on several nodes meet: an address of rank 0's node, a port there
 * that nobody has, and the variables by which torchrun, torch.distributed and others find both.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/textlist.h"

#define RENDEZVOUS_ADDRESS_MAX 256

struct port_range {
	unsigned int first, last; /* last 0: none */
};

struct rank_place {
	unsigned int nodes, rank; /* rank: of the node, from 0 */
	uint64_t gpus;		  /* on each node; 0: one process on each */
	const char *address;	  /* of rank 0 */
	unsigned int port;
};

/* MASTER_ADDR, MASTER_PORT, NODE_RANK, NNODES, WORLD_SIZE, and torchrun's own, PET_*. */
void rank_env(const struct rank_place *p, struct text_list *env);

/*
 * One of those ports, at random, that could be bound on all addresses. It stays bound until ret_fd
 * is closed, so that nobody else takes it. One of `others` only where no other one is free. The
 * port; -EADDRINUSE: all are taken; -errno.
 */
int rendezvous_take_port(const struct port_range *of, const struct port_range *others, int *ret_fd);
/* Those that the kernel gives to connections by itself (ip_local_port_range): one of them may be
 * taken between its choice and its use. */
struct port_range rendezvous_kernels_ports(void);

/* Somebody listens there. What a program that has ended leaves of its connections (TIME_WAIT) is
 * nobody. */
bool rendezvous_is_taken(unsigned int port);

/*
 * The address under which other nodes reach this one. said: the setting gang_address, the name of
 * an interface or anything that they can resolve; NULL: the address of the route that leads out,
 * else of the first interface that is up, else 127.0.0.1. No name is resolved: that may hang, and
 * many nodes resolve their own name to a loopback address. Returns ret.
 */
const char *rendezvous_address(const char *said, char ret[RENDEZVOUS_ADDRESS_MAX]);

#endif
