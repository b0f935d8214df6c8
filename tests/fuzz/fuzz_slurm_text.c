/* SPDX-License-Identifier: MIT */

/* What Slurm's commands, and a site's wrappers of them, may print: each reader takes all of it. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/slurm_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_jobs(const char *text)
{
	struct engine_jobs jobs;
	struct err e = ERR_INIT;

	if (slurm_read_jobs(text, "", &jobs, &e) < 0 && (jobs.n || !e.text[0]))
		abort();
	for (size_t i = 0; i < jobs.n; i++)
		if (!jobs.all[i].id[0] || !jobs.all[i].name ||
		    jobs.all[i].state >= ENGINE_JOB_STATE_MAX)
			abort();
	if (slurm_read_asked(text, &jobs, &e) < 0 && !e.text[0])
		abort();
	engine_jobs_clear(&jobs);
}

static void read_nodes(const char *text,
		       int (*read)(const char *out, struct engine_nodes *ret, struct err *e))
{
	struct engine_nodes nodes;
	struct err e = ERR_INIT;

	if (read(text, &nodes, &e) < 0 && (nodes.n || !e.text[0]))
		abort();
	for (size_t i = 0; i < nodes.n; i++) {
		const struct engine_node *n = &nodes.all[i];

		if (!n->name || n->used > n->total || n->free > n->total - n->used ||
		    n->blocked > n->free || n->usable != !n->why || (!n->usable && n->free))
			abort();
	}
	engine_nodes_clear(&nodes);
}

static void read_sbatch(const char *text)
{
	cleanup_free char *id = slurm_read_id(text);
	cleanup_strbuf struct strbuf errors = STRBUF_INIT, words = STRBUF_INIT;
	uint64_t ns;

	if (id && (!id[0] || id[strspn(id, "0123456789")]))
		abort();
	slurm_read_errors(text, &errors);
	if (strchr(strbuf_str(&errors), '\n'))
		abort();
	(void)slurm_read_refusal(text);
	if (slurm_read_test(text, &ns, &words, NULL) == 0 && strchr(strbuf_str(&words), '\n'))
		abort();
	(void)slurm_read_time(text);
}

/* A variable of a job's environment, beside what makes it a job. */
static void read_variable(const char *text)
{
	const char *const environ_[] = { text, "SLURM_JOB_ID=1", "SLURMD_NODENAME=n",
					 "SLURM_JOB_GPUS=0,1", NULL };
	struct engine_here here = { .engine = NULL };

	if (slurm_here(environ_, &here, NULL) == 0 && (!here.id || !here.key || !here.node))
		abort();
	engine_here_clear(&here);
}

/* The user's own line: the script has no more lines for it than one. */
static void read_option(const char *text)
{
	const char *const agent[] = { "tenure", NULL };
	char *line = xstrdup(text);
	struct text_list options = { 1, &line };
	struct engine_request req = { .name = "t-1",
				      .title = "t",
				      .token = "1",
				      .dir = "/",
				      .output = "/out",
				      .agent = agent,
				      .options = &options };
	cleanup_strbuf struct strbuf script = STRBUF_INIT;
	size_t lines = 0;

	if (slurm_script(&req, &script, NULL) == 0) {
		for (const char *p = strbuf_str(&script); *p; p++)
			lines += *p == '\n';
		if (lines != 12)
			abort();
	}
	free(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_free char *text = xmalloc(size + 1);

	(void)memcpy(text, data, size);
	text[size] = '\0';
	read_jobs(text);
	read_nodes(text, slurm_read_nodes);
	read_nodes(text, slurm_read_nodes_long);
	read_sbatch(text);
	read_variable(text);
	read_option(text);
	return 0;
}
