/* SPDX-License-Identifier: MIT */
#include "agent/allocations.h"

#include <inttypes.h>
#include <jansson.h>

#include "base/strbuf.h"

static void tell(struct dispatch *q, const struct attempt *r, const char *event, const char *word)
{
	cleanup_strbuf struct strbuf line = STRBUF_INIT;
	json_t *uuids = json_array();

	for (size_t i = 0; i < r->uuids.n; i++)
		(void)json_array_append_new(uuids, json_string(r->uuids.texts[i]));
	strbuf_addf(&line, "allocation %s (task %" PRIu64 ") %s %zu GPU%s", r->spec->name,
		    r->ref.id, word, r->uuids.n, r->uuids.n == 1 ? "" : "s");
	eventlog_say_kind(q->place.eventlog, LOG_LEVEL_INFO, event,
			  json_pack("{s:I, s:s, s:i, s:o}", "task", (json_int_t)r->ref.id, "name",
				    r->spec->name, "gpus", (int)r->uuids.n, "uuids", uuids),
			  strbuf_str(&line));
}

void allocations_on_started(struct dispatch *q, const struct attempt *r)
{
	if (r->spec && r->spec->allocation && !r->adopted)
		tell(q, r, "allocated", "has");
}

void allocations_on_over(struct dispatch *q, const struct attempt *r)
{
	if (r->spec && r->spec->allocation && r->started_ns)
		tell(q, r, "released", "has given back");
}
