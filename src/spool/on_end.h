/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_ON_END_H
#define TENURE_SPOOL_ON_END_H

/*
 * Commands that are to be run when a task has ended: its own (`submit --on-end`) and that of the
 * agent (the setting on_end). Each is run at most once; it is lost by a power loss, or by the end
 * of what runs it, alone. A file in on_end/ says in its name how far that is:
 *
 *	42.7,e1,n7		written before the end of the task, by the agent that writes that
 *	42.7,e1,n7,due		the end is in the spool: the agent may begin
 *	42.7,e1,n7,begun	it has; who runs them removes the file (task/on_end_run.h)
 *
 *	r = on_end_promise(sp, by, spec, &name, &facts, &e);
 *	... the end is written ...
 *	on_end_due(sp, by, &name)  or, where somebody else had filed it,  on_end_withdraw()
 *	while (on_end_begin(sp, by, &ret)) run it
 *	on_end_settle(sp, by, ..)	what an agent that is gone has left
 *
 * What the file says is all that is needed, so that whoever runs it reads nothing else.
 */

#include "base/strbuf.h"
#include "spool/record.h"
#include "spool/scan.h"

/* Of an agent. */
struct on_end_by {
	const char *agent, *instance, *node;
	const char *dir;     /* the instance's directory */
	const char *command; /* for all tasks; NULL: none */
	uint64_t limit_ms;   /* so long they may take; for on_end_settle() */
};

/* What has ended, beside its spec and its name. */
struct on_end_facts {
	const struct spool_end *end;
	const char *result;	       /* "done", "failed", "timeout", "stopped" or "lost" */
	bool whole;		       /* a gang: it has no exit status of its own */
	const char *gpus;	       /* indices, as "0,1"; or NULL */
	const struct text_list *uuids; /* or NULL */
	const char *log;	       /* in the instance's directory; NULL: it has none */
	double run_s;		       /* how long it ran; 0: not at all */
};

bool on_end_is_wanted(const struct on_end_by *by, const struct task_spec *spec);
/* n: of its claim, or of a gang; its id, element and epoch count. */
int on_end_promise(const struct spool *sp, const struct on_end_by *by, const struct task_spec *spec,
		   const struct task_name *n, const struct on_end_facts *facts, struct err *e);
int on_end_due(const struct spool *sp, const struct on_end_by *by, const struct task_name *n,
	       struct err *e);
/* The same of a gang, which two agents may have filed: -EEXIST for who comes later. */
int on_end_due_whole(const struct spool *sp, const struct on_end_by *by, const struct task_name *n,
		     struct err *e);
void on_end_withdraw(const struct spool *sp, const struct on_end_by *by, const struct task_name *n);

/* Where it prints to, beside the log of the attempt: "logs/42.7-train.2.on-end.log". log NULL or
 * "": of what has none. The caller frees it. */
char *on_end_log(uint64_t id, const char *name, const char *log);

/* What is begun; the caller frees text. */
struct on_end_begun {
	char *text;		   /* for who runs it */
	char file[NAME_FILE_MAX];  /* in on_end/, to be removed */
	char log[SPOOL_PATH_MAX];  /* where it prints to */
	char title[NAME_FILE_MAX]; /* "task 42.7 train" */
};
void on_end_begun_clear(struct on_end_begun *b);
/* The next one of ours that is due. 1; 0: there is none; or negative. *left: so many are due beside
 * it. One that cannot be read goes to bad/. */
int on_end_begin(const struct spool *sp, const struct on_end_by *by, struct on_end_begun *ret,
		 size_t *left, struct err *e);

/*
 * What agents that are gone have left, and we before we were started anew. s: what waits and runs
 * now. Notes: a line for each command that was cut off, or that nobody can tell of.
 */
int on_end_settle(const struct spool *sp, const struct on_end_by *by, const struct scan *s,
		  struct strbuf *notes, struct err *e);

#endif
