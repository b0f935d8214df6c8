/* SPDX-License-Identifier: MIT */
#ifndef TENURE_ALLOC_KEEPER_H
#define TENURE_ALLOC_KEEPER_H

/*
 * What runs in an allocation: it waits for orders (alloc/alloc.h) and runs them one after another,
 * each with the devices that the allocation has then. It is the first process of a task, so its
 * shim ends it with all that it has started, and keeps its claim.
 *
 * When the devices change (TENURE_GPUS_FILE, which the agent rewrites), its program is told as it
 * has asked: see enum alloc_change. A program that was running when the task went back to the queue
 * (a node that was lost, a preemption) begins anew with the next attempt.
 */

/* What the agent starts: "/proc/self/exe keeper ROOT INSTANCE ID RUN_DIR NAME TRUST ACCEPTED"; the
 * last two are of struct spool_trust. It gives itself a name that says what it is. */
/* Where the loader finds its libraries is the agent's, and nothing of its programs'. */
#define LIBRARIES_ENV "LD_LIBRARY_PATH"

#define KEEPER_VERB  "keeper"
#define KEEPER_ARGV0 "tenure-alloc:"
#define KEEPER_WORDS 8

int keeper_begin(int argc, char **argv);
/* The same under that name. */
int keeper_main(int argc, char **argv);

#endif
