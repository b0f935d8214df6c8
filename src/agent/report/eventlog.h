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
#include "agent/report/sentence.h"

#define EVENTLOG_RECENT	      512 /* so many events are kept in memory */
#define EVENTLOG_NAME_WAIT_MS 300 /* a directory service that takes longer is not waited for */

struct eventlog;

struct eventlog_config {
	struct view *view; /* all of them stay the caller's, and live longer */
	struct agentlog *agentlog;
	bool json; /* who watches gets JSON lines */
	/* The name of a user was found. */
	void (*named)(void *user);
	/* There is one event more: eventlog_recent(). */
	void (*happened)(void *user);
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
/* A sentence of the agent's own about itself. */
void eventlog_say(struct eventlog *n, enum log_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The same with each line of text. */
void eventlog_say_lines(struct eventlog *n, enum log_level level, const char *text);
/*
 * Something has happened: an event of that kind, which is not OWN_AGENT, with the members that
 * docs/json.md has for it, whose reference is taken over. Its level and sentence follow of them.
 */
void eventlog_tell(struct eventlog *n, enum own_event kind, json_t *members);
/* OWN_TASK_TROUBLE; what: "start", "end", .. as in docs/json.md. file: "log-elsewhere" has one;
 * else NULL. */
void eventlog_tell_trouble(struct eventlog *n, uint64_t task, uint32_t element, const char *what,
			   const char *why, const char *file);
/*
 * Only for who watches: a line, or in JSON an object of that kind with the members of more, whose
 * reference is taken over.
 */
void eventlog_show(struct eventlog *n, const char *kind, const char *line, json_t *more);
/* How many events there have been, all of them also in the event file. */
uint64_t eventlog_count(const struct eventlog *n);
/* The i-th event of all, from 0, as its line in the event file; valid until the next one. NULL: it
 * is not kept any more, or has not happened. */
const char *eventlog_recent(const struct eventlog *n, uint64_t i);
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
