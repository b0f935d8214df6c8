/* SPDX-License-Identifier: MIT */
#ifndef TENURE_ENGINE_SGE_TEXT_H
#define TENURE_ENGINE_SGE_TEXT_H

/*
 * What Grid Engine's commands print. Pure.
 *
 * The commands' XML is no XML that one could rely on (quotes of both kinds, attributes that are not
 * escaped, elements of one name in two places), so it is not parsed as such: what is looked for is
 * elements by their names. A document that does not end is refused, since jobs that are missing in
 * one count as ended.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/strbuf.h"
#include "engine/engine.h"

/* -------- qsub, qdel -------- */

/* What qsub printed of a job that it took, "7", "5.1-3:1" or "Your job 7 ("name") has been
 * submitted", among whatever a site's wrapper says besides. 0 and its id, which the caller frees;
 * -ENOENT: there is none in it. */
int sge_submitted_id(const char *text, char **ret_id);

enum sge_refusal {
	SGE_REFUSED,	/* it does not want such a job */
	SGE_NO_CLUSTER, /* nothing tells the command where its cluster is */
	SGE_BUSY,	/* no more of this user's for now */
	SGE_NO_CONTACT, /* it has not heard of it */
	SGE_UNSURE,	/* it may have it: the answer did not come */
};

/* What a failed qsub, or another command of it, means: by its exit status and what it said. */
enum sge_refusal sge_refusal_of(int status, const char *text);

/* The line that says that the qmaster was not reached, which is never the first one: true. */
bool sge_contact_line(const char *text, struct strbuf *ret);

/* -------- jobs -------- */

/* All letters of a state, "qw", "hqw", "Eqw", "dr", "Rt", .. */
enum engine_job_state sge_job_state(const char *letters);

/*
 * `qstat -u USER -r -xml`: appends the jobs whose names begin so. end_ns is their start and the
 * h_rt that they asked for. Reasons are not in it. GPUs are what they asked of complex_name
 * (NULL: unknown), for each slot where it counts so. One of an array is "7.3". 0; -EINVAL: this is
 * no such document, or not all of it.
 */
int sge_parse_jobs(const char *xml, const char *prefix, const char *complex_name, bool per_slot,
		   struct engine_jobs *ret, struct err *e);
/* `qstat -j ID,ID,..`: why a job is in an error state, else why it waits, put into the job of that
 * number. */
void sge_add_reasons(const char *text, struct engine_jobs *jobs);
/* The same of one job: the lines of "scheduling info", appended as one line. */
void sge_scheduling_info(const char *text, struct strbuf *words);

/* A job that runs. queue ("gpu@qa-a10-023") is the caller's to free. limit_s: the h_rt that it
 * asked for; 0: none. */
struct sge_run {
	char *queue;
	uint64_t start_ns, limit_s;
};

/* The same document: the job of that number. 0; -ENOENT: it does not run; -EINVAL. */
int sge_find_run(const char *xml, const char *id, struct sge_run *ret, struct err *e);

/* What one line of qdel means: the job is gone or going, or there was none. */
bool sge_cancel_is_fine(const char *line);
/* `qsub -w v`: why no queue takes the job, appended as one line. */
void sge_verification(const char *text, struct strbuf *words);

/* -------- what there is -------- */

/*
 * `qstat -u '*' -f -r -F COMPLEX,.. -xml`: a node for each host that has the resource, in order of
 * their names. Capacity is what is free and what its running jobs have asked for, which
 * sge_set_capacity() corrects where qconf may be asked. per_slot: the resource counts per slot.
 * type_complex: a text resource that names the type; NULL. 0 or -EINVAL.
 */
int sge_parse_nodes(const char *xml, const char *complex_name, bool per_slot,
		    const char *type_complex, struct engine_nodes *ret, struct err *e);
/* The capacity that `qconf -se HOST` tells: 0 and *ret; -ENOENT. */
int sge_parse_capacity(const char *text, const char *complex_name, unsigned int *ret);
void sge_set_capacity(struct engine_node *node, unsigned int total);
/* `qconf -sc`: what a complex is called, by its name or its shortcut. 0; -ENOENT. The name is the
 * caller's to free. */
int sge_parse_complex(const char *text, const char *name, char **ret_name, bool *ret_per_slot);
/* `qconf -sq QUEUE`: its h_rt in seconds; 0: it has no limit, or none is told. */
uint64_t sge_queue_limit(const char *text);

/* A pattern with *, of a host's name with its domain or without it. */
bool sge_host_matches(const char *pattern, const char *host);
/* A list of names, by white space: that host is among them. */
bool sge_lists_host(const char *list, const char *host);

/* "8:0:0", "28800", "INFINITY": seconds; 0: no limit, or no time. */
uint64_t sge_seconds(const char *text);
/* "2026-11-21T02:43:08" in local time, or as milliseconds, or "11/21/2026 02:43:08": wall ns; 0. */
uint64_t sge_time(const char *text);

#endif
