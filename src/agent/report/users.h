/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_REPORT_USERS_H
#define TENURE_AGENT_REPORT_USERS_H

/*
 * Names of users, looked up off the loop's thread because a directory service can hang. The guard
 * says "uid 1234" (hold/proto.h); this puts the name there once it is known.
 */

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

struct users;

/* found(user) is called from the loop after each look-up. */
struct users *users_new(uv_loop_t *loop, void (*found)(void *user), void *user);

/*
 * Copy text to buf with every "uid N" whose name is known replaced. False: a name is not known yet;
 * its look-up is on its way. buf may be NULL when only that is asked.
 */
bool users_put_names(struct users *u, const char *text, char *buf, size_t size);

/* As agentlog_free(): -EBUSY while a look-up hangs. */
int users_free(struct users *u);

#endif
