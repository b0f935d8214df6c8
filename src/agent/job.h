/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_JOB_H
#define TENURE_AGENT_JOB_H

/*
 * The job of an engine that the agent runs in, and when it ends: by what its environment says, else
 * by what the engine answers, which is asked off the loop's thread and again where that fails; and
 * never later than --time after the agent's start, unless the engine has given the job more time
 * since it was first heard of: it is asked once an hour, and last before the agent begins to leave.
 * The lifecycle is told (life_job_ends()), and the status says it.
 */

struct agent;
struct agent_job;

/* NULL: it runs in no job. */
struct agent_job *agent_job_new(struct agent *a);
/* The view and the parts that are told are there. */
void agent_job_start(struct agent_job *j);
/* Its memory goes with its handles in the loop, unless the engine is being asked: then the process
 * is expected to end. j may be NULL. */
void agent_job_close(struct agent_job *j);

#endif
