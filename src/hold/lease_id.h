/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_LEASE_ID_H
#define TENURE_HOLD_LEASE_ID_H

/* Whose a device is for a while: what a lease is called between guard and agent, and for people. */

#include <stdint.h>

#define PROTO_INSTANCE_MAX 64

/* Of no task, but of the command that an agent runs where it would hold. */
#define LEASE_WORKLOAD UINT64_MAX

/* Names a lease within its instance: an attempt at an element of a task. */
struct lease_id {
	uint64_t task;	  /* 1.., or LEASE_WORKLOAD */
	uint32_t element; /* 0: the task has none */
	uint32_t attempt;
};

#define LEASE_TEXT_MAX 48
/* "task 42", "task 42.7"; with the attempt where it is not the first: "task 42.7 (attempt 3)"; "the
 * workload". Returns buf. */
char *lease_id_text(const struct lease_id *id, char buf[LEASE_TEXT_MAX]);

#endif
