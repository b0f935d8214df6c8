/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_REPORT_OUTQ_H
#define TENURE_AGENT_REPORT_OUTQ_H

/*
 * Lines that are written off the loop's thread, because a home directory that hangs, or a terminal
 * that was stopped, must stop nothing else. The queue is bounded: while the writer does not come
 * back, what does not fit is counted, and the writer is told how many there were before the next
 * line.
 *
 * Lines come out in the order in which they went in. One job at a time is in the thread pool.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct outq;

struct outq_ops {
	/* On a pool thread: write one line (without the newline; line[len] is NUL). */
	void (*put)(void *user, unsigned int channel, const char *line, size_t len);
	/* On a pool thread: so many lines were lost because the queue was full. */
	void (*lost)(void *user, uint64_t lines);
	/* On a pool thread, after the last line: outq_close(). May be NULL. */
	void (*close)(void *user);
};

/* user must stay until outq_free() has returned 0. */
struct outq *outq_new(uv_loop_t *loop, size_t max_bytes, const struct outq_ops *ops, void *user);
void outq_add(struct outq *q, unsigned int channel, const char *line, size_t len);
/* From now on what was opened for a line is closed again after it. */
void outq_close(struct outq *q);
/* Lines that were lost since the start. */
uint64_t outq_lost(const struct outq *q);
/* True when all has been written. The loop has to run for that. */
bool outq_is_empty(const struct outq *q);
/*
 * 0: freed. -EBUSY: the writer is still in a write that hangs; nothing is freed then, because that
 * thread uses it, and the process is expected to end.
 */
int outq_free(struct outq *q);

#endif
