/* SPDX-License-Identifier: MIT */

/* Any bytes as what kubectl prints: read, or refused with a reason; no node has more free GPUs than
 * it has. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "engine/k8s_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_jobs(const char *text, size_t size)
{
	struct engine_jobs jobs = { .n = 0 };
	struct err e = ERR_INIT;
	int r = k8s_text_jobs(text, size, "t-", "nvidia.com/gpu", &jobs, &e);

	if (r < 0 && (!e.text[0] || jobs.n))
		abort();
	for (size_t i = 0; i < jobs.n; i++)
		if (!jobs.all[i].id || !str_has_prefix(jobs.all[i].name, "t-"))
			abort();
	(void)k8s_text_lacks_pods(&jobs);
	k8s_text_events(text, size, &jobs);
	engine_jobs_clear(&jobs);
}

static void try_nodes(const char *text)
{
	struct engine_nodes nodes = { .n = 0 };
	struct err e = ERR_INIT;

	if (k8s_text_nodes(text, &nodes, &e) < 0 && !e.text[0])
		abort();
	k8s_text_use(text, &nodes);
	for (size_t i = 0; i < nodes.n; i++)
		if (nodes.all[i].used > nodes.all[i].total ||
		    nodes.all[i].free > nodes.all[i].total)
			abort();
	engine_nodes_clear(&nodes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_free char *text = xmalloc(size + 1);

	(void)memcpy(text, data, size);
	text[size] = '\0';
	try_jobs(text, size);
	try_nodes(text);

	cleanup_free char *name = k8s_text_created(text);

	if (name && !name[0])
		abort();
	(void)k8s_text_refusal(text);
	(void)k8s_text_is_forbidden(text);
	return 0;
}
