/* SPDX-License-Identifier: MIT */
#include "agent/remains.h"

#include <signal.h>
#include <unistd.h>

#define STEP_US 10000

int remains_find(const char *token, const struct shim_id *id, const char *run_dir,
		 uint32_t grace_ms, struct adopted *ret, struct err *e)
{
	int r = adopt_settle(token, id, run_dir, ret, e);

	if (r < 0 || ret->found != ADOPT_LOST)
		return r;

	struct orphans * or = orphans_begin(token, SIGTERM, grace_ms);

	while (orphans_step(or) > 0)
		(void)usleep(STEP_US);
	orphans_free(or);
	return 0;
}
