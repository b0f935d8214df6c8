/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_REPORT_SUBCOMMAND_H
#define TENURE_AGENT_REPORT_SUBCOMMAND_H

/*
 * A command of this program that the agent runs as a process of its own, because it may hang in a
 * driver, in /proc, in a filesystem or in what an engine does not answer. What it prints is told, a
 * line at a time. One that takes too long must hang: it is killed, and waited for no more.
 */

#include <uv.h>

#include "agent/node/config.h"
#include "agent/report/eventlog.h"
#include "base/textlist.h"

struct subcommand_place {
	const struct node_self *self;
	uv_loop_t *loop;
	struct eventlog *eventlog;
};

struct subcommand;

/*
 * words: what follows "tenure", the first being the command, by which its lines are told. done is
 * called from the loop, once, and then it is gone: when it has ended, or after limit_ms. NULL: it
 * cannot be started (which is told), and done is not called. The place's parts must outlive it, the
 * words need not.
 */
struct subcommand *subcommand_start(const struct subcommand_place *place,
				    const struct text_list *words, unsigned int limit_ms,
				    void (*done)(void *user), void *user);
/* The same with files of its own as 0, 2 and 3 (-1: as above), this environment, and a session of
 * its own, in which it goes on when the agent ends. */
struct subcommand_files {
	int in, errors, third; /* they stay the caller's */
	char *const *env;
};
struct subcommand *subcommand_start_with(const struct subcommand_place *place,
					 const struct text_list *words,
					 const struct subcommand_files *files,
					 unsigned int limit_ms, void (*done)(void *user),
					 void *user);
/* The setting's words for a command that works with the agent's queue: where it is, and whom the
 * agent was told to trust. Files and the environment say the rest to any command. */
void subcommand_add_queue(struct text_list *words, const struct agent_config *c);
/* It is told to end (SIGTERM), and goes on until it does. */
void subcommand_end(const struct subcommand *s);
/* The agent ends and it goes on, unheard. Returns NULL. */
struct subcommand *subcommand_leave(struct subcommand *s);
/* It goes on, and nobody is called. Returns NULL. */
struct subcommand *subcommand_forget(struct subcommand *s);

#endif
