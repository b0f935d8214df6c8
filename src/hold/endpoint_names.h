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
#include <sys/types.h>

#include "base/endpoint.h"

#define SOCKET_NAME_MAX ENDPOINT_NAME_MAX

/* Both write SOCKET_NAME_MAX bytes (n says how many there are) and return buf. job: the key of the
 * job; NULL: in none. */
char *guard_socket_name(char *buf, size_t n, const char *dev_dir, const char *job);
char *agent_socket_name(char *buf, size_t n, const char *instance, const char *dev_dir,
			const char *job);

/*
 * The one name that other users may use: an abstract one (base/sock.h), by which they find the
 * agents of a user, "tenure/ask/1000/89af...e1/0". Anybody can take it, so that an agent has the
 * first one that is free, and who asks looks who has it. The directory is always told by its hash.
 */
#define ASK_SOCKET_BEGIN "tenure/ask/"
char *ask_socket_name(char *buf, size_t n, uid_t uid, const char *dev_dir, unsigned int number);

#endif
