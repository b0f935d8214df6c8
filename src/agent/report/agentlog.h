/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_REPORT_AGENTLOG_H
#define TENURE_AGENT_REPORT_AGENTLOG_H

/*
 * What the agent writes down: a log for people and the events as JSON lines for programs.
 *
 *	<state dir>/<instance>/logs/agent-<host>.log
 *	<state dir>/<instance>/events/<host>.jsonl
 *
 * Both rotate (base/log.h: 10 MB x 5). Several nodes may share the state directory, so the files
 * carry the host's name. All writing, and the making of the directories, happens off the loop's
 * thread (outq.h); a full disk or a home that hangs costs lines, which are counted, and nothing
 * else. The last lines are kept in memory for `tenure status`.
 */

#include <jansson.h>
#include <stdbool.h>
#include <uv.h>

#include "base/log.h"

#define JOURNAL_TAIL 10

struct journal;

struct journal_config {
	const char *state_dir; /* all strings are copied */
	const char *instance;
	const char *host;
	enum log_level level;
	/* Lines for somebody who watches, on a pool thread; NULL: nobody does. */
	void (*show)(const char *line);
	void (*warn)(const char *line); /* the same for warnings */
};

struct journal *journal_new(uv_loop_t *loop, const struct journal_config *config);
/* A line "TIME LEVEL text" in the log, and in the tail. */
void journal_log(struct journal *j, enum log_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* One line of the event file; j keeps nothing of it. */
void journal_event(struct journal *j, const json_t *event);
/* One line for who watches (config.show, config.warn). They come out in this order. */
void journal_show(struct journal *j, const char *line);
void journal_warn(struct journal *j, const char *line);

const char *journal_log_path(const struct journal *j);
const char *journal_event_path(const struct journal *j);
/* The i-th of the last lines, oldest first; NULL behind the last. */
const char *journal_tail(const struct journal *j, size_t i);
/* Lines that were lost: files that could not be written, queues that ran over. */
uint64_t journal_lost(const struct journal *j);
/*
 * Why a file could not be opened, "" when both could or nothing was written yet. Both are opened
 * with the first line. Returns buf.
 */
char *journal_trouble(struct journal *j, char *buf, size_t size);

bool journal_is_flushed(const struct journal *j);
/* No more lines are expected; the loop has to run until it is flushed. */
void journal_close(struct journal *j);
/* After journal_close(). -EBUSY: a write or the end of a file hangs; nothing is freed, the process
 * is expected to end. */
int journal_free(struct journal *j);

#endif
