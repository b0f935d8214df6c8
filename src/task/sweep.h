/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TASK_SWEEP_H
#define TENURE_TASK_SWEEP_H

/*
 * Clear away what its owner does not want to keep: a broader broom than a task's tree, so it can
 * always show first what it would do.
 *
 *	SWEEP_GPU     what stays on the given PIDs' list (the processes on a task's devices)
 *	SWEEP_PYTHON  every Python process on this node
 *
 * Both only ever end processes of our own user. Always spared are we and our ancestors, what runs
 * under a tenure process (below an agent, a guard or a shim, or with the token of a shim that
 * lives), and what matches a pattern; SWEEP_PYTHON also spares sessions with a terminal, in which
 * somebody works, and other jobs of an engine that share the node. Orphans of a shim that was
 * killed are not spared.
 *
 *	sweep_look(&rules, &list, &e);   shows; nothing is signalled
 *	s = sweep_begin(&rules, &list, SIGTERM, 5000);
 *	every few ms: sweep_step(s), until it says 0
 *
 * It reads environments and command lines, which can wait for a process that hangs: not on an event
 * loop's thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"
#include "task/tree.h"

enum sweep_what { SWEEP_GPU, SWEEP_PYTHON, SWEEP_WHAT_MAX };

/* The setting `sweep`; the same order. */
enum sweep_setting { SWEEP_SET_AUTO, SWEEP_SET_NONE, SWEEP_SET_GPU, SWEEP_SET_PYTHON };

/* Several at once, as bits. */
#define SWEEP_BIT(what) (1u << (what))

/*
 * What the setting stands for. Auto is python inside of a job or container that submit.sh has made,
 * which is told by this variable in the environment: there nothing else of the user's runs. Else it
 * is nothing.
 */
#define SWEEP_JOB_ENV "TENURE_SUBMIT_JOB"
unsigned int sweep_of_setting(unsigned int setting);
/* "gpu", "python" */
const char *sweep_what_name(unsigned int what);

struct sweep_rules {
	enum sweep_what what;
	const pid_t *pids; /* SWEEP_GPU */
	size_t n_pids;
	const char *const *spare; /* shell patterns for the command line; without any of *?[ a part
				     of it is enough */
	size_t n_spare;
	/* Whether a process is in a job of an engine that is not the one we are in: 1, 0, or what
	 * proc_is_no_answer(). NULL: none is. data: of_job. */
	int (*in_other_job)(const void *of_job, pid_t pid);
	const void *of_job;
};

enum sweep_verdict {
	SWEEP_END,
	SWEEP_SELF,	/* we, or an ancestor of ours */
	SWEEP_TENURE,	/* under a tenure process */
	SWEEP_JOB,	/* in another job of an engine */
	SWEEP_TERMINAL, /* in a session with a terminal */
	SWEEP_PATTERN,	/* matches rules.spare */
	SWEEP_USER,	/* another user's */
	SWEEP_MACHINE,	/* we are on a machine of our own (tenure sim), and it is not */
	SWEEP_VERDICT_MAX
};

struct sweep_item {
	struct tree_proc proc;
	enum sweep_verdict verdict;
	bool unsure; /* whether the verdict spares it cannot be told, so that it does for now */
	char command[160];
};

struct sweep_list {
	struct sweep_item *items;
	size_t n;
	size_t room;
};

/* Everything that the rules are about, with what would be done. 0 or -errno. */
int sweep_look(const struct sweep_rules *rules, struct sweep_list *ret, struct err *e);
void sweep_list_clear(struct sweep_list *l);
/* "would end", "spared: in a session with a terminal", ... */
const char *sweep_verdict_text(enum sweep_verdict v);

/*
 * End what a list says is to be ended, and what that starts while it ends; not what its owner
 * starts meanwhile. The rules, by which the list was made, are not copied; the list may go.
 */
struct sweeper;
struct sweeper *sweep_begin(const struct sweep_rules *rules, const struct sweep_list *list,
			    int stop_signal, uint32_t grace_ms);
/* How many still run; 0: done; -errno. */
int sweep_step(struct sweeper *s);
struct sweeper *sweep_free(struct sweeper *s);

#endif
