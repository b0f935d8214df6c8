/* SPDX-License-Identifier: MIT */

/* A file of gangs/: its name on the first line, what is in it behind that. What is accepted is
 * within the bounds that others rely on. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "spool/gang.h"
#include "spool/ident.h"
#include "spool/task_spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct gang *g)
{
	if (g->n > SPEC_NODES_MAX || (g->n > 0) != (g->ranks != NULL))
		abort();
	for (size_t i = 0; i < g->n; i++)
		if (!ident_is_name(g->ranks[i].agent) || g->ranks[i].epoch > NAME_EPOCH_MAX ||
		    g->ranks[i].reply.answer >= GANG_ANSWER_MAX)
			abort();
	if (g->go && (!g->decided || !g->address[0] || !g->port || g->port > 65535))
		abort();
	if (strchr(g->address, '\n') || strchr(g->reason, '\n'))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *end = memchr(data, '\n', size);
	size_t len = end ? (size_t)(end - (const char *)data) : size;
	cleanup_free char *name = xmalloc(len + 1);
	struct gang g = { .n = 0 };
	enum gang_file kind;
	uint64_t id, generation;
	size_t rank;

	(void)memcpy(name, data, len);
	name[len] = '\0';
	if (gang_file_parse(name, &id, &generation, &kind, &rank) &&
	    (!id || !generation || kind >= GANG_FILE_MAX || rank >= SPEC_NODES_MAX))
		abort();
	if (!end)
		return 0;
	/* As a call first, so that there are ranks whose answers can be read. */
	for (unsigned int k = 0; k < GANG_FILE_MAX; k++) {
		(void)gang_text_parse((enum gang_file)k, k ? 1 : 0, end + 1, size - len - 1, &g);
		check(&g);
	}
	free(g.ranks);
	return 0;
}
