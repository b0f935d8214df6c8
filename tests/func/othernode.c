/* SPDX-License-Identifier: MIT */

/*
 * For LD_PRELOAD: the process is one of another node, as far as two agents of one instance can tell
 * on this machine. OTHER_NODE=NAME,NUMBER is its host's name and the namespace of its PIDs, which
 * is what tells containers on one kernel apart.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int gethostname(char *name, size_t size)
{
	const char *node = getenv("OTHER_NODE");

	(void)snprintf(name, size, "%.*s", node ? (int)strcspn(node, ",") : 4,
		       node ? node : "node");
	return 0;
}

ssize_t readlink(const char *path, char *buf, size_t size)
{
	ssize_t (*next)(const char *, char *, size_t) =
		(ssize_t(*)(const char *, char *, size_t))dlsym(RTLD_NEXT, "readlink");
	const char *node = getenv("OTHER_NODE");
	const char *number = node ? strchr(node, ',') : NULL;
	char text[64];
	int n;

	if (!number || strcmp(path, "/proc/self/ns/pid") != 0)
		return next(path, buf, size);
	n = snprintf(text, sizeof(text), "pid:[%s]", number + 1);
	(void)memcpy(buf, text, (size_t)n < size ? (size_t)n : size);
	return (size_t)n < size ? n : (ssize_t)size;
}
