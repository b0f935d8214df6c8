/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_PROC_H
#define TENURE_BASE_PROC_H

/*
 * A process is a PID *and* its start time: the kernel gives a PID to somebody else as soon as it is
 * free. All reads are from /proc and never block on anything but the kernel.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct proc_id {
	pid_t pid;
	uint64_t start; /* /proc/PID/stat field 22, clock ticks since boot */
};

/* 0 and *ret; -ESRCH: there is no such process; -errno. */
int proc_identify(pid_t pid, struct proc_id *ret);

/* That very process still runs (a zombie does not). */
bool proc_alive(const struct proc_id *id);

/* Parent of pid, or -ESRCH / -errno. */
pid_t proc_parent(pid_t pid);

/*
 * The user name ("alice", or "uid 1234" where it has none) and the command line of a process, both
 * cut to size and with unprintable bytes replaced; empty where they cannot be read.
 */
void proc_describe(pid_t pid, char *user, size_t user_size, char *command, size_t command_size);

/* Path of the process in the unified cgroup hierarchy ("/user.slice/..."). 0, or -errno. */
int proc_cgroup(pid_t pid, char *buf, size_t size);

#endif
