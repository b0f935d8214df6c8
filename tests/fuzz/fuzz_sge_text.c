/* SPDX-License-Identifier: MIT */

/* What Grid Engine's commands, and a site's wrappers of them, may print: each reader takes all of
 * it. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/sge_script.h"
#include "engine/sge_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_jobs(const char *text)
{
	struct engine_jobs jobs = { .n = 0 };
	struct sge_run run;

	if (sge_parse_jobs(text, "", "gpu", true, &jobs, NULL) == 0) {
		for (size_t i = 0; i < jobs.n; i++)
			if (!jobs.all[i].id || !jobs.all[i].name ||
			    jobs.all[i].state >= ENGINE_JOB_STATE_MAX)
				abort();
		if (jobs.n && sge_find_run(text, jobs.all[0].id, &run, NULL) == 0)
			free(run.queue);
	} else if (jobs.n) {
		abort();
	}
	/* The answers to two commands are read one after the other. */
	engine_jobs_add(&jobs)->id = xstrdup("13");
	sge_add_reasons(text, &jobs);
	engine_jobs_clear(&jobs);
}

static void read_nodes(const char *text, bool per_slot)
{
	struct engine_nodes nodes = { .n = 0 };

	if (sge_parse_nodes(text, "gpu", per_slot, "gpu_arch", &nodes, NULL) < 0 && nodes.n)
		abort();
	for (size_t i = 0; i < nodes.n; i++) {
		sge_set_capacity(&nodes.all[i], 4);
		if (!nodes.all[i].name || nodes.all[i].blocked > nodes.all[i].free ||
		    (!nodes.all[i].usable && nodes.all[i].free))
			abort();
	}
	engine_nodes_clear(&nodes);
}

static void read_rest(const char *text)
{
	struct strbuf words = STRBUF_INIT;
	char *id = NULL, *name = NULL;
	unsigned int total;
	bool per_slot;

	if (sge_submitted_id(text, &id) == 0 && id[strspn(id, "0123456789")])
		abort();
	(void)sge_refusal_of(1, text);
	(void)sge_job_state(text);
	(void)sge_cancel_is_fine(text);
	sge_scheduling_info(text, &words);
	sge_verification(text, &words);
	(void)sge_parse_capacity(text, "gpu_card", &total);
	(void)sge_parse_complex(text, "gpu", &name, &per_slot);
	(void)sge_queue_limit(text);
	(void)sge_seconds(text);
	(void)sge_time(text);
	(void)sge_host_matches("qa-*", text);
	(void)sge_lists_host(text, "qa-a10-023");
	free(id);
	free(name);
	strbuf_clear(&words);
}

/* A variable of a job's environment, beside what makes it a job. */
static void read_variable(const char *text)
{
	const char *const env[] = { text, "JOB_ID=17", "SGE_ROOT=/x", "SGE_TASK_ID=undefined",
				    NULL };
	struct engine_here here;

	if (sge_inside(env, &here, NULL) == 0)
		engine_here_clear(&here);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_free char *text = xmalloc(size + 1);

	(void)memcpy(text, data, size);
	text[size] = '\0';
	read_jobs(text);
	read_nodes(text, false);
	read_nodes(text, true);
	read_rest(text);
	read_variable(text);
	return 0;
}
