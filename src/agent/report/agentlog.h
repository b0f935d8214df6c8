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
 * carry the host's name; those of an agent in a job of an engine carry the job's, too, and few of
 * them are kept (report/joblogs.h). All writing, and the making of the directories, happens off the
 * loop's thread; a full disk or a home that hangs costs lines, which are counted, and nothing
 * else. The last lines are kept in memory for `tenure status`.
 */

#include <jansson.h>
#include <stdbool.h>
#include <uv.h>

#include "base/log.h"

#define AGENTLOG_TAIL 10

struct agentlog;

struct agentlog_config {
	const char *state_dir; /* all strings are copied */
	const char *instance;
	const char *host;
	const char *job; /* of an engine, whose agent it is (engine/engine.h); NULL */
	enum log_level level;
	/* Lines for somebody who watches, on a pool thread; NULL: nobody does. */
	void (*show)(const char *line);
	void (*warn)(const char *line); /* the same for warnings */
};

struct agentlog *agentlog_new(uv_loop_t *loop, const struct agentlog_config *config);
/* A line "TIME LEVEL text" in the log, and in the tail. */
void agentlog_log(struct agentlog *j, enum log_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* One line of the event file, an object in JSON. */
void agentlog_event(struct agentlog *j, const char *line);
/* One line for who watches (config.show, config.warn). They come out in this order. */
void agentlog_show(struct agentlog *j, const char *line);
void agentlog_warn(struct agentlog *j, const char *line);

const char *agentlog_log_path(const struct agentlog *j);
const char *agentlog_event_path(const struct agentlog *j);
/* The i-th of the last lines, oldest first; NULL behind the last. */
const char *agentlog_tail(const struct agentlog *j, size_t i);
/* Lines that were lost: files that could not be written, queues that ran over. */
uint64_t agentlog_lost(const struct agentlog *j);
/*
 * Why a file could not be opened, "" when both could or nothing was written yet. Both are opened
 * with the first line. Returns buf.
 */
char *agentlog_trouble(struct agentlog *j, char *buf, size_t size);

bool agentlog_is_flushed(const struct agentlog *j);
/* No more lines are expected; the loop has to run until it is flushed. */
void agentlog_close(struct agentlog *j);
/* After agentlog_close(). -EBUSY: a write or the end of a file hangs; nothing is freed, the process
 * is expected to end. */
int agentlog_free(struct agentlog *j);

#endif
