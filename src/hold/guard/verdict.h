/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_GUARD_VERDICT_H
#define TENURE_HOLD_GUARD_VERDICT_H

/*
 * What a look at one device means: is anything foreign there, and who is it. Makes no driver call
 * and tells nobody; d->sample is what was seen, d->said.reason gets the phrase for people.
 */

#include "hold/guard/types.h"

/*
 * Memory that rose is foreign after a while, whatever the lists say. A newcomer is listed 16 ms
 * after its context's memory moved (H200), and nothing but a program makes a context: tools that
 * only look take no memory of the device. So what is as large as a context waits UNLISTED_NS for
 * its PID, which leaves the time to let go before it allocates; what is less waits RISE_NS.
 */
#define VERDICT_CONTEXT_BYTES (32ULL << 20)

enum verdict {
	SEEN_CLEAR,
	SEEN_FOREIGN, /* process, or memory of one */
	SEEN_UNFIT,   /* not to be held, whoever uses it */
	SEEN_OURS,    /* a task that was granted uses it while it is held */
};

/*
 * The verdict on d's last look. *ret_who is the foreign process, or NULL where only memory shows.
 * The reason is set for everything but SEEN_CLEAR, except where a process is the cause:
 * verdict_name() does that later, because it reads /proc. With SEEN_OURS *ret_who is the task's
 * process; foreign ones come before it.
 */
enum verdict verdict_of(struct guard *g, struct device *d, const struct gpu_proc **ret_who);

/* The same but for what is unfit to be held, and for holds: is anybody in the way of a task? */
enum verdict verdict_foreign(struct guard *g, struct device *d, const struct gpu_proc **ret_who);

/* Set d->who_* and the reason to that process; how long it was on its way goes to the record. */
void verdict_name(struct guard *g, struct device *d, const struct gpu_proc *who);

/* Where who came is not known: how long device nodes had been opened since_ns on. */
void verdict_note_hint(const struct guard *g, struct device *d, uint64_t since_ns);

/* Memory in use but for the owner's exceptions; that of our holder as the driver lists it, or 0
 * where it does not. */
uint64_t verdict_used(const struct device *d);
uint64_t verdict_own_bytes(const struct device *d);

/* Somebody may be here who is in no list. */
bool verdict_may_hide(const struct guard *g);

/* When the rise that is going on is the verdict; UINT64_MAX: nothing rises on d. */
uint64_t verdict_rise_due(const struct guard *g, const struct device *d);

/*
 * d was looked at, and this is the verdict: was memory in use, on and on, that no listed process
 * explains? Then processes are hidden from us here, and memory is the witness from now on.
 */
void verdict_note_hidden(struct guard *g, struct device *d, enum verdict v,
			 const struct gpu_proc *who);

#endif
