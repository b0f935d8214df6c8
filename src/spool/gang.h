/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_GANG_H
#define TENURE_SPOOL_GANG_H

/*
 * Gangs: tasks on several nodes, whose elements are the ranks of one program. A generation of one
 * is a try to start all of them together; it has its number in the names of its files:
 *
 *	gangs/42,g3		the call: which agent is to run which rank, and the epoch that the
 *				rank's element had then; and which version of the task
 *	gangs/42,g3,r0		what the agent of rank 0 has answered last
 *	gangs/42,g3,word	the leader's word: go, with the address of rank 0; or not, and why
 *	gangs/42,g3,end		after go: the ranks are to end, why, and whether they run again
 *
 * The leader is the agent with the lowest name of those that live. An answer is replaced by one
 * agent alone; all other files are made exclusively and never change, so that where two agents take
 * themselves for the leader for a moment, the first word counts, for both. The highest generation
 * of a gang counts; a word about another one means nothing any more. A rank belongs to a generation
 * by the epoch of its element: it is over when its claim was given back, whoever has done that.
 *
 *	gang_read_all(sp, &all, &e)
 *	gang_call(), gang_say(), gang_end()	the leader
 *	gang_answer()				an agent, of its own rank
 *	gang_remove()				the leader, of generations that are over
 */

#include "spool/files.h"
#include "spool/record.h"

#define GANG_ADDRESS_MAX 255

enum gang_answer {
	GANG_SILENT,
	GANG_READY, /* its devices are granted and its shim waits for the word */
	GANG_BEGUN, /* its program was started */
	GANG_REFUSES,
	GANG_ANSWER_MAX
};

struct gang_reply {
	enum gang_answer answer;
	char address[GANG_ADDRESS_MAX + 1]; /* of rank 0, with GANG_READY */
	unsigned int port;
	char reason[RECORD_REASON_MAX]; /* of GANG_REFUSES */
};

struct gang_rank {
	char agent[NAME_AGENT_MAX + 1];
	uint64_t epoch; /* of its element, when it was called */
	struct gang_reply reply;
};

/* One generation. */
struct gang {
	uint64_t id, generation;
	uint64_t epoch, edits; /* as its task's file was called: all ranks run what that said */
	size_t n;	       /* 0: what was called cannot be read */
	struct gang_rank *ranks;
	bool decided, go; /* the word, and whether it is go */
	bool ended, again;
	char address[GANG_ADDRESS_MAX + 1]; /* of the word */
	unsigned int port;
	char reason[RECORD_REASON_MAX]; /* of a word that is not go, or of the end */
};

struct gangs_read {
	size_t n;
	struct gang *all; /* rising by id, the highest generation of each */
};

/* 0, also where there are none, or negative: then *ret is empty. */
int gang_read_all(const struct spool *sp, struct gangs_read *ret, struct err *e);
void gang_clear(struct gangs_read *r);
/* NULL: nothing of it was called. */
const struct gang *gang_find(const struct gangs_read *r, uint64_t id);
/* It may be started, or run: neither withdrawn nor ended. */
bool gang_stands(const struct gang *g);
/* The rank that it has for that agent, or -1. */
int gang_rank_of(const struct gang *g, const char *agent);

/* Each is 0 where the file is there, whoever has made it; what counts is what is read afterwards.
 */
int gang_call(const struct spool *sp, const struct gang *g, struct err *e);
/* g: its id and generation; go: with address and port; else its reason. */
int gang_say(const struct spool *sp, const struct gang *g, bool go, struct err *e);
int gang_end(const struct spool *sp, const struct gang *g, bool again, struct err *e);

int gang_answer(const struct spool *sp, const struct gang *g, size_t rank,
		const struct gang_reply *reply, struct err *e);
/* All files of the gang's generations below that one; UINT64_MAX: of all. */
int gang_remove(const struct spool *sp, uint64_t id, uint64_t below, struct err *e);

/* How the element's attempt of that epoch ended, as the journal of an agent tells it: true with its
 * record, and the agent's name. A requeue is told as RESULT_FAILED. */
struct gang_ending {
	char agent[NAME_AGENT_MAX + 1];
	bool requeued;
	bool outside;	      /* of a requeue: struct spool_again has it */
	struct spool_end end; /* of a requeue: its reason, ended_ns, and where it began begun_ns and
				 attempt */
};
bool gang_how_it_ended(const struct spool *sp, uint64_t id, uint64_t element, uint64_t epoch,
		       struct gang_ending *ret);

/* ---- for this room, and for fuzzing ---- */

enum gang_file { GANG_FILE_CALL, GANG_FILE_ANSWER, GANG_FILE_WORD, GANG_FILE_END, GANG_FILE_MAX };
/* False: it is the name of no such file. rank: of GANG_FILE_ANSWER. */
bool gang_file_parse(const char *file, uint64_t *id, uint64_t *generation, enum gang_file *kind,
		     size_t *rank);
/* The text of one file into g, whose ranks it makes (GANG_FILE_CALL) or fills. False: it is none.
 */
bool gang_text_parse(enum gang_file kind, size_t rank, const char *text, size_t len,
		     struct gang *g);

#endif
