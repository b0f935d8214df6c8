/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_DOCTOR_HEALTH_ACCEPTED_H
#define TENURE_CLI_DOCTOR_HEALTH_ACCEPTED_H

/*
 * What somebody has seen and accepted of the cards of a machine (`tenure health --accept`): what
 * was counted by then does not make them bad. A file of JSON, written whole. What is in it counts
 * until the machine is started anew, and a card's until its counters begin anew, which its counter
 * of energy shows as well: they are of the driver, and it forgets them then.
 */

#include <stdbool.h>
#include <stdint.h>

#include "cli/doctor/health_pass.h"

struct health_accepted {
	uint32_t n; /* of this start of the machine */
	struct health_accepted_card {
		char uuid[GPU_UUID_MAX];
		uint64_t mono_ns;	    /* when, as the kernel's log counts */
		struct gpu_health counters; /* of these only what was counted is known */
	} cards[GPU_DEVICES_MAX];
};

/* 0, also where there is no file; -errno, -EPROTO: it cannot be read, and e; then nothing is
 * accepted. */
int health_accepted_read(const char *path, struct health_accepted *ret, struct err *e);
/* What was found of the cards that were selected and seen; of others what is there stays. */
int health_accepted_write(const char *path, const struct health_pass *p, struct err *e);

/* What was accepted of a card; NULL: nothing that still counts. */
const struct health_accepted_card *health_accepted_of(const struct health_accepted *a,
						      const struct health_card *c);

/* Its errors of memory were known then. */
bool health_accepted_has_errors(const struct health_accepted_card *a);

#endif
