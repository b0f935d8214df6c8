/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TASK_CGROUP_H
#define TENURE_TASK_CGROUP_H

/*
 * Where the user owns a cgroup v2 (systemd's Delegate=yes, a container of his own), each task gets
 * one in it: KILL is then a single write that no fork can escape. It is a help, never needed: a
 * cgroup that cannot be made is done without.
 */

#include "base/err.h"

/* Of the names of their directories; behind it comes the token. */
#define CGROUP_PREFIX "tenure-"

struct cgroup {
	char *dir; /* NULL: none */
};

/*
 * The cgroup v2 directory of this process, if cgroups can be made in it and processes moved there.
 * Root can everywhere, so there it has to be delegated as systemd marks it (user.delegate or
 * trusted.delegate), because a manager's own cgroups are not ours to divide. 0 and *ret (the caller
 * frees it); -ENOENT: there is no unified hierarchy; -EACCES: it is not ours; -errno. Asked once,
 * by the agent.
 */
int cgroup_find(char **ret);

/* Make parent/tenure-TOKEN. The descriptor of its cgroup.procs, or -errno. */
int cgroup_make(struct cgroup *cg, const char *parent, const char *token);

/* Those that are left of shims that were killed, once nobody is in them. */
void cgroup_clear(const char *parent);

/* KILL to everybody in it, at once. */
void cgroup_kill(const struct cgroup *cg);

/* Once everybody has left it. */
void cgroup_remove(struct cgroup *cg);

#endif
