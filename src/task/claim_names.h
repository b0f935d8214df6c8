/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TASK_CLAIM_NAMES_H
#define TENURE_TASK_CLAIM_NAMES_H

/* What spool, shim and clients call by a claim's name without asking each other. */

#include "spool/files.h"
#include "spool/name.h"
#include "task/end_record.h"

/*
 * The name of a claim's shim: the same for every agent that asks. key tells this spool from all
 * others, earlier ones of the same name included. buf: TASK_TOKEN_MAX.
 */
char *names_token(const char *key, const struct task_name *n, char *buf);
/* What all names of that spool's shims begin with, and those of no other: "KEY-". buf:
 * TASK_TOKEN_MAX. */
char *names_tokens_of(const char *key, char *buf);
/* How much of such a name that is; 0: it is none. */
size_t names_spool_of_token(const char *token);
/* "logs/42.7-train.2.log". buf: SPOOL_PATH_MAX. */
char *names_log_path(const struct task_name *n, const char *name, unsigned int attempt, char *buf);

#endif
