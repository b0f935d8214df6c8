/* SPDX-License-Identifier: MIT */

/* The input as the history that an agent has left beside its heartbeat. What is refused is told;
 * what is accepted is written and read again as the same. */

#include <errno.h>
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "spool/agent_history.h"

#define NOW 1700000000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static json_t *again(const json_t *doc)
{
	const char *version = json_string_value(json_object_get(doc, "version"));
	cleanup_free char *text = agent_history_text(
		json_string_value(json_object_get(doc, "node")), version ? version : "", doc);
	json_t *ret;

	if (agent_history_parse("f", text, strlen(text), NOW, &ret, NULL) < 0)
		abort();
	return ret;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err e = ERR_INIT;
	json_t *doc, *once, *twice;
	int r = agent_history_parse("f", (const char *)data, size, NOW, &doc, &e);

	if (r < 0) {
		if ((r != -EINVAL && r != -EPROTO) || !e.text[0])
			abort();
		return 0;
	}
	once = again(doc);
	twice = again(once);
	if (!json_equal(json_object_get(doc, "devices"), json_object_get(once, "devices")) &&
	    json_array_size(json_object_get(doc, "devices")))
		abort();
	if (!json_equal(once, twice))
		abort();
	json_decref(doc);
	json_decref(once);
	json_decref(twice);
	return 0;
}
