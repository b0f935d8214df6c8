/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_NODE_LEFT_H
#define TENURE_AGENT_NODE_LEFT_H

/*
 * Devices that our user has left to users who asked for them (agent/asks.h), as they are remembered
 * in `state_dir/left-INSTANCE-HOST.json`: an agent that starts anew keeps the promise of the one
 * before it, and commands that need no agent can say whom a device is left to.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define LEFT_MAX       64
#define LEFT_UUID_MAX  96
#define LEFT_TEXT_MAX  201
#define LEFT_NS	       (600 * NS_PER_S) /* a device is left to somebody for so long at most */
#define LEFT_WORDS_MAX 128

struct left_device {
	uint64_t ask; /* its number */
	uid_t uid;    /* to whom */
	int gpu, mig;
	uint64_t asked_wall_ns, until_wall_ns;
	char uuid[LEFT_UUID_MAX];
	char message[LEFT_TEXT_MAX], answer[LEFT_TEXT_MAX];
};

/* The caller frees it. */
char *left_path(const char *state_dir, const char *instance, const char *host);
/* A name in state_dir is of such a file, of whatever instance and host: several may share it, and a
 * device is known by its UUID. */
bool left_is_file(const char *name);
/* Those whose time is not over at now, at most LEFT_MAX of them; how many, also where there is no
 * file, or -errno with e. May hang with its filesystem. */
int left_read(const char *path, uint64_t now_wall_ns, struct left_device *ret, struct err *e);
/* Without any there is no file then. 0 or -errno. */
int left_write(const char *path, const struct left_device *all, size_t n, struct err *e);

/* "left to bob, who asked for it, until 14:20"; user: NULL is "uid 1000". Returns buf. */
char *left_words(const char *user, uid_t uid, uint64_t until_wall_ns, char buf[LEFT_WORDS_MAX]);
/* "14:20", local. Returns buf. */
#define LEFT_TIME_MAX 8
char *left_time(uint64_t until_wall_ns, char buf[LEFT_TIME_MAX]);

#endif
