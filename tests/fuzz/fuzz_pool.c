/* SPDX-License-Identifier: MIT */

/* Files of pools/: what whoever may write there can put in. A pool that is accepted is written so
 * that it is read as the same one. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "pool/job.h"
#include "pool/pool.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_pool(const char *text, size_t len)
{
	struct pool p, again;
	struct err e = ERR_INIT;

	if (pool_parse("main", text, len, &p, &e) < 0) {
		if (!e.text[0])
			abort();
		pool_clear(&p);
		return;
	}

	cleanup_free char *shown = pool_text(&p);

	if (pool_cap(&p) > POOL_JOBS_MAX ||
	    pool_parse("main", shown, strlen(shown), &again, &e) < 0)
		abort();

	cleanup_free char *shown_again = pool_text(&again);

	if (strcmp(shown, shown_again) != 0)
		abort();
	pool_clear(&p);
	pool_clear(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pool_state st;
	struct pool_job job;

	check_pool((const char *)data, size);
	(void)pool_state_parse((const char *)data, size, &st);
	if (pool_job_parse((const char *)data, size, &job) == 0 &&
	    (job.phase >= POOL_JOB_PHASE_MAX || job.state >= ENGINE_JOB_STATE_MAX))
		abort();
	return 0;
}
