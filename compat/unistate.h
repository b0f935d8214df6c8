/* SPDX-License-Identifier: MIT */
#ifndef TENURE_COMPAT_UNISTATE_H
#define TENURE_COMPAT_UNISTATE_H

/*
 * logs/uni_id.json of the older scheduler: { UNI_ID: {"pid":..,"state":..,"retry_count":..}, .. }.
 * Scripts write it, too: it is read again before each change, only the keys of that uni_id change,
 * and it is renamed into place. Our own writers wait for each other (PATH.lock).
 */

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"

/* Merges the keys (released) into the entry. A file that is no JSON is left alone: -EINVAL. */
int unistate_set(const char *path, const char *uni_id, json_t *keys, struct err *e);
/* The entry: a new reference, or NULL. */
json_t *unistate_get(const char *path, const char *uni_id);

/*
 * What a task's script calls. Begin: it runs, as that process. End: its commands are over with that
 * exit code; waits while anything of the task goes on, or a process that the script has named, and
 * returns what the task ends with: what the state says, or the code where nobody has said anything.
 * told: it was told to end, so nothing is waited for.
 */
int unistate_begin(const char *path, const char *uni_id, pid_t pid, struct err *e);
int unistate_end(const char *path, const char *uni_id, int code, bool told);

#endif
