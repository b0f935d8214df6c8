/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_TASK_TASKRUN_H
#define TENURE_CLI_TASK_TASKRUN_H

/*
 * What an attempt of a task, or of an element, has, or had: from the records of its claim and of
 * its end. Nobody is asked for it, so it is the same whether an agent runs or not.
 *
 *	taskrun_read(sp, &place, &file.history, &run);
 *	if (run.attempt && !run.ended_ns && taskrun_look(sp, &run, &look)) ...
 *	taskrun_look_clear(&look);
 */

#include <jansson.h>

#include "cli/task/select.h"
#include "spool/gang.h"
#include "spool/record.h"
#include "task/tree.h"

struct taskrun {
	unsigned int attempt; /* 0: nothing of it has run */
	bool running;
	struct task_name name; /* of the claim: id, element, epoch */
	struct claimer who;    /* texts empty and numbers 0 where they are not known */
	uint64_t started_ns;   /* wall; 0: not known */
	uint64_t began_ns;     /* CLOCK_MONOTONIC, as the agent here says; 0: it does not */
	uint64_t stepped_ns; /* taskrun_since_ns(), where the clock was set since; 0: it was not */
	uint64_t timeout_ms; /* how long it may run; 0: none, or of an element not known */
	uint64_t again_ns;   /* wall, when that went back to the queue; 0: it has not */
	uint64_t ending_ns;  /* wall, since its owner has told it to end; 0: he has not */
	bool mustered;	     /* with running: a rank that has its GPUs, and waits for the others */
	bool ended;
	bool unstarted;			 /* it was stopped while it waited */
	struct spool_end end;		 /* with ended */
	bool left;			 /* with running: it has ended, and waits for */
	unsigned int left_exit;		 /* one to commit it: status, or NAME_SIGNALLED + signal */
	uint64_t left_ns;		 /* wall */
	char unfiled[RECORD_REASON_MAX]; /* with left: why the agent cannot commit it; or "" */
	char scaling[512]; /* how it grows and shrinks, as the agent that runs it says; or "" */
	char log[SPOOL_PATH_MAX];  /* "": there is none in the spool; taskrun_log_away() */
	char file[SPOOL_PATH_MAX]; /* with its records; "": they are gone, as of an ended element */
};

/* place as of select_one(); h: of its file, of which an element has none. */
void taskrun_read(const struct spool *sp, const struct task_place *place,
		  const struct task_history *h, struct taskrun *ret);

/* The same of what is in running/ under that name; called: as it, or its batch, is called. */
void taskrun_read_claim(const struct spool *sp, const struct task_name *n, const char *called,
			struct taskrun *ret);

/* Whether it waits for the other ranks is not read with its claim: by what was read of all gangs,
 * and where one task is looked at. */
void taskrun_take_gangs(struct taskrun *run, const struct gangs_read *gangs);
void taskrun_look_at_gangs(const struct spool *sp, struct taskrun *run);

/* When it has started by the clock as it is now, from which its time is counted: where the agent
 * that runs it tells for how long, it is not what the clock was then. 0: not known. */
uint64_t taskrun_since_ns(const struct taskrun *run);

/* What the agent that runs it says of it (of taskview_agents(); NULL: nothing) is added. */
void taskrun_take_agents(struct taskrun *run, const json_t *task);

/* "has ended (exit code 0), which no agent has committed yet; where none runs: tenure on -i other
 * on n1", of one that is left, or why its agent cannot commit that. options: of its agent
 * (agent_options()). The caller frees it. */
char *taskrun_format_left(const struct spool *sp, const char *options, const struct taskrun *run);

/* The UUIDs of its devices, added to a list; none where they are not known. */
void taskrun_devices(const struct spool *sp, const struct taskrun *run, struct text_list *ret);

/*
 * Whether its log could not be made, and where it prints to then; attempt 0: the last one. 1, 0, or
 * negative. Of an element that is known as long as it runs.
 */
int taskrun_log_away(const struct spool *sp, const struct task_place *place, unsigned int attempt,
		     struct log_away *ret, struct err *e);
/* The files that it prints to, with its names in them; NULL where that is its log. Of what has no
 * attempt yet as they would be here. The caller frees both. */
void taskrun_outputs(const struct spool *sp, const struct task_spec *spec,
		     const struct task_place *place, const struct taskrun *run, char **ret_output,
		     char **ret_error);
/* "its log could not be made (..); what it prints is in .., on node n7". The caller frees it. */
char *taskrun_format_away(const struct spool *sp, const struct log_away *log);

/* What its shim, where it runs on this node, says, and what /proc does. */
struct taskrun_look {
	uint64_t started_ns; /* wall */
	bool command_ended;  /* what runs still is what it has left behind */
	unsigned int exit;   /* of the command then: status, or NAME_SIGNALLED + signal */
	struct tree procs;
};

/* false: it does not run here, or not any more. */
bool taskrun_look(const struct spool *sp, const struct taskrun *run, struct taskrun_look *ret);
void taskrun_look_clear(struct taskrun_look *l);

/* "PID 12 (python), 17 (sleep) and 3 more". The caller frees it. */
char *taskrun_format_procs(const struct tree *procs);

#endif
