/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_TASK_LOGREADER_H
#define TENURE_CLI_TASK_LOGREADER_H

/* The logs of a task's attempts, shown as they are or followed while they grow. */

#include <stdio.h>

#include "cli/task/select.h"
#include "cli/task/watch.h"

struct logreader {
	const struct spool *sp;
	uint64_t id, element;
	unsigned int attempt; /* 0: the latest */
	bool ended;	      /* and so waits for no log */
	bool plain;	      /* without the header and the trailer around the output */
	bool safe;	      /* for a terminal, which gets no more than colours (logtext_safe) */
	bool on_end;	      /* what the commands that followed its end have printed */
	bool has_elements;    /* and each of these has its own */
	bool is_rank;	      /* of a task on several nodes, which has them as a whole */
	bool optional;	      /* to have ended without one is no error */
	FILE *out;
	const char *label;  /* of several: shown where the output passes to this one */
	const char **shown; /* the label that was shown last */
	/* Asked between two looks; other than 0 ends logreader_follow() with that. NULL: never. */
	int (*turn)(void *data);
	/* Told once each time that the task has waited for half a second. NULL: nobody. */
	void (*waits)(void *data, const struct logreader *t, const struct task_place *place);
	void *data;
};

/* What is there now. -ENOENT: it has no log. */
int logreader_show(const struct logreader *t, struct err *e);
/* Until the task has ended and all is shown: 0; what turn() said; or negative. */
int logreader_follow(const struct logreader *t, struct taskwatch *w, struct err *e);
/* Of several at once, until all have ended. -ENOENT: one has no log, and all others were shown; see
 * optional. Of the turn()s the first one's is asked. */
int logreader_follow_all(const struct logreader *t, struct taskwatch **w, size_t n, struct err *e);

#endif
