/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_REPORT_JOBLOGS_H
#define TENURE_AGENT_REPORT_JOBLOGS_H

/*
 * The agent of each job of an engine has a name of its own, and leaves files under it. Of jobs that
 * ended long ago few are kept.
 */

#include <stddef.h>
#include <stdint.h>

#define JOBLOGS_KEPT  100
#define JOBLOGS_AGE_S (14 * 86400ULL)

/* Removes files of a directory with mark in their names: those beyond the newest `keep` that have
 * not changed for so long. What cannot be removed stays. */
void joblogs_prune(const char *dir, const char *mark, size_t keep, uint64_t age_s);

#endif
