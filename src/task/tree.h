/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TASK_TREE_H
#define TENURE_TASK_TREE_H

/*
 * Find the processes of a task, and signal them, without any privilege.
 *
 * A living shim is a child subreaper, so descent from it is the whole truth: a child that makes a
 * session of its own or forks twice comes back to it as its child. Where the shim was killed, its
 * task's processes hang on its fork server, which is one as well, and what that has besides shims
 * are "orphans". Where it was killed, too, they hang on init, and are found by the token in the
 * environment they were started with, or their cgroup, and then by their descent and their session
 * from there.
 *
 *	struct tree t = { 0 };
 *	r = tree_scan(&t);                     every process of the node, once
 *	tree_keep_below(&t, pid);              or tree_keep_token(&t, token)
 *	for (...) tree_signal(&t.procs[i], SIGTERM);
 *	tree_clear(&t);
 *
 * A scan is a picture that is old when it is done: whoever ends a tree repeats scan and signal
 * until nobody is found (struct ender does it). tree_keep_token() reads environments, which can
 * wait for the memory of a process that hangs: not for an event loop's thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/proc.h"

struct tree_proc {
	struct proc_id id; /* its start is 0 in a glance */
	pid_t parent;
	pid_t session;
	int tty;    /* its terminal as a device number, 0: none; not in a glance */
	char state; /* R, S, D, Z, ... */
	char comm[16];
};

/* Sorted by PID. */
struct tree {
	struct tree_proc *procs;
	size_t n;
	size_t room;
};

/* What files in /proc say, as they are read; for fuzzing. */
/* PID/stat, which is changed; 0 or -EIO. */
int tree_parse_stat(char *text, pid_t pid, struct tree_proc *ret);
/* PID/status, all that is in a glance; 0 or -EIO. */
int tree_parse_status(const char *text, pid_t pid, struct tree_proc *ret);
/* PID/environ, len bytes and a NUL: whether it has NAME=VALUE, or something else that begins with
 * the first kin characters of that (0: this is not asked). */
enum tree_env { TREE_ENV_NONE, TREE_ENV_KIN, TREE_ENV_SAME };
enum tree_env tree_parse_env(const char *env, size_t len, const char *name_value, size_t kin);

/* Replace what is in t by all processes of the node, threads not counted. 0 or -errno. It can wait:
 * see tree_glance(). */
int tree_scan(struct tree *t);

/*
 * The same for who must never wait: an event loop that has to end a task in time. PID/stat waits,
 * in newer kernels, for a process that is in execve() and closes a file there whose server does not
 * answer, whoever's that process is; PID/status waits for nobody. It has no start time and no
 * terminal, and no session before Linux 4.1 (0).
 */
int tree_glance(struct tree *t);

/* Keep what descends from root; root itself is not kept. */
void tree_keep_below(struct tree *t, pid_t root);

/* Keep what a fork server has besides its shims, and what descends from that. */
void tree_keep_orphans(struct tree *t, pid_t server);

/* Keep the processes of our user with TENURE_TASK_TOKEN=token in their environment or in the
 * token's cgroup, what descends from them, and what of our user is in a session of theirs; and the
 * orphans of our fork server and of those of the same spool without an agent, except what has the
 * token of another task of the spool: that has a grace of its own. Never ourselves or our
 * ancestors. 0, or -errno: one could not be looked at, for want of descriptors or memory, or as it
 * stays in execve() (-EAGAIN): a file that does not answer, or a busy machine. */
int tree_keep_token(struct tree *t, const char *token);

/* The process of that PID, or NULL. */
const struct tree_proc *tree_find(const struct tree *t, pid_t pid);

/* p is root or descends from it, in this picture. */
bool tree_descends(const struct tree *t, const struct tree_proc *p, pid_t root);

/* The process was started with NAME=VALUE: 1; 0, also where it has ended, or is not ours to read;
 * or what proc_is_no_answer(). */
int tree_has_env(pid_t pid, const char *name_value);

void tree_clear(struct tree *t);

/*
 * Signal that very process, as proc_signal() does. 0; -ESRCH: it is gone, or a zombie, or its PID
 * belongs to another now; -EPERM: it runs as another user, so it is not ours to signal (sudo, a
 * daemon). One of a glance is told by its parent: -EAGAIN where it has another one by now.
 */
int tree_signal(const struct tree_proc *p, int sig);

/*
 * End a tree: first a signal and a grace, then KILL, each as often as somebody new appears.
 *
 *	ender_begin(&en);
 *	every few ms: scan, keep; ender_pass(&en, &t, SIGTERM or SIGKILL); done when en.ours is 0
 *
 * The first signal goes once to each process, with SIGCONT behind it, so that a stopped one gets
 * it. KILL goes to everybody in every pass: a process that has it pending cannot fork any more, so
 * one that forks runs out of parents, unless it is faster than the passes: that is hunted.
 */
struct ender {
	struct proc_id *told; /* have had the first signal; sorted between two passes */
	size_t n_sorted;      /* of those the ones of earlier passes */
	size_t n_told;
	size_t room;
	uint32_t kills;	 /* sent in all passes, once for each process */
	uint32_t ours;	 /* of the last pass: still run and are ours to end */
	uint32_t others; /* of the last pass: not ours to signal */
	bool late; /* of the last pass: somebody in the picture was gone, or another's child */
	/* Of the last pass, with KILL: it was late, or some came after others. Behind a hunt: that
	 * has found somebody to kill. */
	bool outrun;
	uint32_t met; /* processes, those that have ended as well, in all passes */
	int last_sig;
	/* Of who waits for those that end (or NULL), during a pass: a tree that forks as fast as it
	 * can leaves more of them than a pass gets over, until there is no PID left. */
	void (*reap)(void *data);
	void *data;
};

/* Children that have ended are waited for in such numbers, and then the loop looks at what else
 * there is: a tree that forks fast has left more meanwhile. */
#define REAP_AT_ONCE 1000

/* Nobody was told yet; reap and data stay. */
void ender_begin(struct ender *en);
void ender_pass(struct ender *en, const struct tree *t, int sig);
/*
 * Where a pass says that it is outrun: KILL at once whoever descends from us, each as soon as it is
 * seen, in the order of PIDs. What it forks in this moment has a higher one and is met later. A
 * pass over a picture comes too late for a process that lives for some ms and leaves another one.
 * This one may miss somebody: what is left is told by the next pass. Waits for nobody, as
 * tree_glance().
 */
void ender_hunt(struct ender *en);
/* A pass over a glance at what descends from us, and a hunt where it is outrun. */
void ender_pass_below_us(struct ender *en, int sig);
void ender_clear(struct ender *en);

#endif
