/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_TASKLEASE_H
#define TENURE_AGENT_TASKLEASE_H

/*
 * What the guard says about leases, to the runs and whoever else has some: the tasks_on_*() of
 * tasks.h that are about it. A lease is given back when nobody knows of it and its shim is gone,
 * never before: a shim that nobody speaks with now runs all the same.
 */

#include "agent/tasksin.h"

/* Of those that the guard told of: what was left by who is gone. */
void tasks_drop_stray_leases(struct tasks *q);

#endif
