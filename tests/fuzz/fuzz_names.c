/* SPDX-License-Identifier: MIT */

/* The input as the name of a file in the spool: of a task, of a lane's owner, of a bare file that
 * an agent has taken. What is read is what would be written, or two names meant one thing. */

#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "spool/lane.h"
#include "spool/raw.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_task(const char *file)
{
	char again[NAME_FILE_MAX];
	struct task_name n;

	if (!name_parse(file, &n))
		return;
	if (!n.id || n.id > NAME_ID_MAX || n.epoch > NAME_EPOCH_MAX)
		abort();
	if (strlen(n.name) > SPEC_NAME_MAX || strlen(n.lane) > SPEC_NAME_MAX ||
	    strlen(n.agent) > NAME_AGENT_MAX)
		abort();
	if (strcmp(name_format(&n, again), file) != 0)
		abort();
}

static void read_lane(const char *file)
{
	char key[LANE_KEY_MAX];
	cleanup_free char *again = NULL;
	uint64_t epoch;

	if (!lane_file_parse(file, key, &epoch))
		return;
	again = xasprintf("%s,e%" PRIu64, key, epoch);
	if (strcmp(again, file) != 0)
		abort();
}

static void read_raw(const char *file)
{
	char agent[NAME_AGENT_MAX + 1];
	const char *own;
	uint64_t id;

	own = raw_tmp_parse(file, agent, &id);
	if (own && (own < file || own > file + strlen(file) || !agent[0] || !id ||
		    id > NAME_ID_MAX || strchr(agent, ',')))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_free char *file = xmalloc(size + 1);
	uint64_t id, element;

	(void)memcpy(file, data, size);
	file[size] = '\0';
	read_task(file);
	read_lane(file);
	read_raw(file);
	if (ident_parse_id(file, &id, &element) == 0 && (!id || id > NAME_ID_MAX))
		abort();
	return 0;
}
