/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_ENDPOINT_NAMES_H
#define TENURE_HOLD_ENDPOINT_NAMES_H

/*
 * Names of the endpoints (base/endpoint.h) of this user on this node. The name is the lock, so
 * whoever shares a name shares one guard: the directory of the device nodes is part of it, because
 * a guard that watches /dev and one that watches a simulated machine have nothing in common. /dev
 * itself gives the short, readable name. So is the key of an engine's job (engine/engine.h): what
 * runs in a job has a guard and an agent of its own, which see that job's devices only, and which
 * nobody outside finds by chance.
 *
 *	guard			default/agent
 *	89af...e1/guard		89af...e1/default/agent
 *	@slurm.12/guard		@slurm.12/default/agent
 */

#include <stddef.h>

#include "base/endpoint.h"

#define SOCKET_NAME_MAX ENDPOINT_NAME_MAX

/* Both write SOCKET_NAME_MAX bytes (n says how many there are) and return buf. job: the key of the
 * job; NULL: in none. */
char *guard_socket_name(char *buf, size_t n, const char *dev_dir, const char *job);
char *agent_socket_name(char *buf, size_t n, const char *instance, const char *dev_dir,
			const char *job);

#endif
