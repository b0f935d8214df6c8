/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_BATCH_H
#define TENURE_SPOOL_BATCH_H

/*
 * Arrays, sweeps and lists of commands: one file in pending/ until every element has ended. What
 * happened to elements is in ends/ID/AGENT, one file per agent that ran some, a line per end or
 * requeue. Cost and memory per element do not grow with their number.
 *
 *	r = batch_open(sp, &name, "node7", &b, &e);
 *	batch_mark_running(b, element, epoch)		for each that scan.h finds in running/
 *	while ((element = batch_next(b, now)))
 *		r = batch_claim(b, element, &who, &claim, &e);
 *	batch_end() or batch_requeue(); when batch_is_over(): batch_commit()
 */

#include "spool/claim.h"
#include "spool/endlog.h"

struct batch;

struct batch_counts {
	uint64_t waiting, running, done, failed, cancelled;
};

/* n: the batch as it is in pending/ (or, to read only, anywhere). agent NULL: to read only. */
int batch_open(const struct spool *sp, const struct task_name *n, const char *agent,
	       struct batch **ret, struct err *e);
struct batch *batch_close(struct batch *b);

/*
 * Claims that were given up and could not be removed: nobody runs these elements, and no other
 * agent takes them back, because their agent lives. Each batch_refresh() tries again; the caller
 * that closes the batch takes over what is left and goes on trying.
 */
void batch_take_undone(struct batch *b, struct text_list *to);
void batch_remove_undone(const struct spool *sp, struct text_list *undone);
/* Its file was renamed (priority, pause, edit). With another number of elements nothing is known of
 * any until batch_refresh(). */
void batch_set_name(struct batch *b, const struct task_name *n);
const struct task_name *batch_name(const struct batch *b);

/* Read what other agents have written since. */
int batch_refresh(struct batch *b, struct err *e);
/* The same past what this node's caches say, for a caller that decides by it; not for a batch that
 * is only read. */
int batch_refresh_now(struct batch *b, struct err *e);
void batch_mark_running(struct batch *b, uint64_t element, uint64_t epoch);
/*
 * Elements that another agent claimed and gave back without a record are requeued: those that are
 * taken for running, while is_there() finds no file of them in running/, and the journals have no
 * end.
 */
typedef bool (*batch_claimed_fn)(void *data, uint64_t element);
int batch_check_running(struct batch *b, batch_claimed_fn is_there, void *data, struct err *e);
/* How often, since batch_open(), an element was requeued by what others did. */
uint64_t batch_returned(const struct batch *b);

/* Of an element that the batch does not have all calls are harmless: it cannot be claimed, what
 * ended is only removed from running/, and its state is BATCH_CANCELLED. */

/* An element that waits and may start now, in order; those to be tried again first. 0: none. */
uint64_t batch_next(struct batch *b, uint64_t now_wall_ns);
/* 0, CLAIM_LOST (the element or the whole batch: refresh, look at the queue), or negative. */
int batch_claim(struct batch *b, uint64_t element, const struct claimer *who, struct claim *ret,
		struct err *e);
/* The same for one that is to be ended at once instead of run: a paused batch is no bar. */
int batch_claim_to_end(struct batch *b, uint64_t element, const struct claimer *who,
		       struct claim *ret, struct err *e);

/* An element that was claimed to be ended could not be: it waits again, unless its end is written
 * already. */
void batch_give_back(struct batch *b, const struct claim *c);

/* Another agent has taken the element back meanwhile: this end changes nothing. */
#define BATCH_SUPERSEDED 1
/* ev may be NULL. To be repeated on error. batch_end() may also be BATCH_SUPERSEDED. */
int batch_end(struct batch *b, struct endlog *ev, const struct claim *c,
	      const struct spool_end *end, struct err *e);
int batch_requeue(struct batch *b, struct endlog *ev, const struct claim *c,
		  const struct spool_again *again, struct err *e);

/* An ended element waits again because its owner asks for it. To be called while nobody can claim
 * any, that is, while the batch's file is held (transit.h). Durable after batch_sync(). -ERANGE:
 * the batch does not have it. */
int batch_retry(struct batch *b, uint64_t element, const char *reason, struct err *e);
/* The back-off of an element that waits ends; all else that is known of it stays. */
int batch_skip_backoff(struct batch *b, uint64_t element, struct err *e);
int batch_sync(struct batch *b, struct err *e);

struct batch_counts batch_counts(const struct batch *b);
bool batch_is_over(const struct batch *b);
/* Failed where some element has, else cancelled where some was. */
enum task_result batch_result(const struct batch *b);
/* The batch's file to done/, failed/ or cancelled/. */
int batch_commit(struct batch *b, struct err *e);

/* What is known of an element: where it stands, its epoch, attempts that count. */
enum batch_state { BATCH_WAITING, BATCH_RUNNING, BATCH_DONE, BATCH_FAILED, BATCH_CANCELLED };
enum batch_state batch_state(const struct batch *b, uint64_t element, uint64_t *ret_epoch,
			     unsigned int *ret_attempts);
/* How an element that was tried before waits, or runs, again; NULL: it has not been requeued. Valid
 * until the next change of the batch. */
struct batch_again {
	uint64_t epoch;
	unsigned int attempts;
	uint64_t not_before_ns; /* wall; 0: at once */
	uint64_t noted_ns;	/* wall, when that was */
	uint64_t memory;	/* that it asks for, bytes per GPU; 0: as the batch does */
	const char *reason;
};
const struct batch_again *batch_again_of(const struct batch *b, uint64_t element);
/* The memory that its attempt of that epoch asks for, which may be the one before the last; 0: as
 * the batch does. */
uint64_t batch_memory_in(const struct batch *b, uint64_t element, uint64_t epoch);
/* The most that any element asks for by now: the ranks of a gang are one program, so that all get
 * what one of them needs. 0: none asks for more than the batch does. */
uint64_t batch_memory_most(const struct batch *b);

/* ends/ID and what is in it. */
int batch_forget(const struct spool *sp, uint64_t id, struct err *e);

#endif
