/* SPDX-License-Identifier: MIT */
#ifndef TENURE_ENGINE_SLURM_TEXT_H
#define TENURE_ENGINE_SLURM_TEXT_H

/*
 * What is written to Slurm and read from it, pure. Measured with 22.05.8; docs/cluster.md has the
 * commands and their traps.
 */

#include "engine/engine.h"
#include "engine/keys.h"

/* What the commands are asked to print. Free text is last, because it may hold the separator. */
#define SLURM_JOBS_FORMAT "%i|%T|%N|%S|%e|%D|%b|%j|%r"
#define SLURM_ASKED_FORMAT                                                                         \
	"JobArrayID:|,NumNodes:|,NumTasks:|,tres-per-job:|,tres-per-node:|,tres-per-socket:|,"     \
	"tres-per-task:|"
#define SLURM_NODES_FORMAT                                                                         \
	"NodeList:|,StateLong:|,CPUsState:|,AllocMem:|,Memory:|,Gres:|,GresUsed:|,Reason:|"
/* Times are asked for in seconds since the epoch: no time zone, and no hour that comes twice. */
#define SLURM_TIME_FORMAT "SLURM_TIME_FORMAT=%s"

/* The script of a job, or the site's own filled in. 0; -EINVAL: the user's options or settings are
 * not Slurm's, or would take the job from us. */
int slurm_script(const struct engine_request *req, struct strbuf *script, struct err *e);
/* What a pool may set: cluster, partition. */
extern const struct engine_key slurm_keys[];

/* The id in what `sbatch --parsable` prints, "12" or "12;cluster", or in a wrapper's "Submitted
 * batch job 12". The caller frees it; NULL: there is none. */
char *slurm_read_id(const char *out);
/* What sbatch, which has failed, means by what it says: ENGINE_REFUSED, ENGINE_UNSURE; -EAGAIN:
 * Slurm has too much to do now. */
int slurm_read_refusal(const char *said);
/* The errors that a command of Slurm's prints, "a; b": without them there is nothing. */
void slurm_read_errors(const char *said, struct strbuf *ret);
/* What `sbatch --test-only` says: 0, when such a job would start and the same in words; -EBADMSG.
 */
int slurm_read_test(const char *said, uint64_t *ret_ns, struct strbuf *words, struct err *e);

/* squeue's lines of SLURM_JOBS_FORMAT: those whose names begin with prefix. 0; -EBADMSG: there is
 * something, and none of it is a job. */
int slurm_read_jobs(const char *out, const char *prefix, struct engine_jobs *ret, struct err *e);
/* squeue's lines of SLURM_ASKED_FORMAT: how many GPUs those jobs asked for of which that is not
 * known
 * (`--gpus`, which %b does not tell). 0; -EBADMSG as above. */
int slurm_read_asked(const char *out, struct engine_jobs *jobs, struct err *e);
/* reason: as squeue prints it; NULL */
enum engine_job_state slurm_job_state(const char *word, const char *reason);
/* Seconds since the epoch, or local time as 2026-11-21T02:28:31: ns; 0: "N/A", "NONE" and what is
 * no time. */
uint64_t slurm_read_time(const char *word);

/* sinfo's lines of SLURM_NODES_FORMAT. A node in several partitions is listed several times, and
 * told once; one that has GPUs of two types is told once for each; one without GPUs is not. 0;
 * -EBADMSG as above. */
int slurm_read_nodes(const char *out, struct engine_nodes *ret, struct err *e);
/* The same from `scontrol -d -o show node`, for versions whose sinfo does not tell what is used. */
int slurm_read_nodes_long(const char *out, struct engine_nodes *ret, struct err *e);

/* The job in an environment: 0; -ENOENT. */
int slurm_here(const char *const *variables, struct engine_here *ret, struct err *e);

#endif
