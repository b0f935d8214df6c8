/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_REPORT_EVENTLOG_H
#define TENURE_AGENT_REPORT_EVENTLOG_H

/*
 * What happened, told once and in order: to the log, to the event file, to who watches, and into
 * the view. An event that speaks of a user whose name is not known yet waits a moment for it, and
 * those behind it wait too.
 */

#include <uv.h>

#include "agent/node/view.h"
#include "agent/report/agentlog.h"

#define EVENTLOG_NAME_WAIT_MS 300 /* a directory service that takes longer is not waited for */

struct eventlog;

struct eventlog_config {
	struct view *view; /* all of them stay the caller's, and live longer */
	struct agentlog *agentlog;
	bool json; /* who watches gets JSON lines */
	/* The name of a user was found. */
	void (*named)(void *user);
	void *user;
};

struct eventlog *eventlog_new(uv_loop_t *loop, const struct eventlog_config *config);
/* An event from the guard. */
void eventlog_take(struct eventlog *n, const struct guard_event *ev);
/* For sentences: the names of users as far as they are known; the others are looked up. Valid as
 * long as n. */
const struct user_names *eventlog_names(struct eventlog *n);
/* False: the reason speaks of a user whose name is not known yet; its look-up is on its way. */
bool eventlog_knows(struct eventlog *n, const struct dev_reason *r);
/* A sentence of the agent's own. */
void eventlog_say(struct eventlog *n, enum log_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The same of a task: what became of it, as members that programs read. outcome: "done", "failed",
 * "requeued", "stopped". */
void eventlog_say_outcome(struct eventlog *n, enum log_level level, uint64_t task, uint32_t element,
			  const char *outcome, const char *line);
/* The same of another kind, with members of its own, whose reference is taken over. */
void eventlog_say_kind(struct eventlog *n, enum log_level level, const char *kind, json_t *more,
		       const char *line);
/* The same with each line of text. */
void eventlog_say_lines(struct eventlog *n, enum log_level level, const char *text);
/*
 * Only for who watches: a line, or in JSON an object of that kind with the members of more, whose
 * reference is taken over.
 */
void eventlog_show(struct eventlog *n, const char *kind, const char *line, json_t *more);
/*
 * For who watches, the states before this time (CLOCK_REALTIME) have been told otherwise: a table
 * of the devices comes, or came.
 */
void eventlog_states_from(struct eventlog *n, uint64_t wall_ns);
/* Tell what waits; nothing more is expected. */
void eventlog_close(struct eventlog *n);
/* When the loop has closed its timer. -EBUSY: a look-up hangs; nothing is freed, the process is
 * expected to end. */
int eventlog_free(struct eventlog *n);

#endif
