/* SPDX-License-Identifier: MIT */

/* The input as one of the small files that agents read of each other: a heartbeat, who has a
 * lane, instance.json. What is accepted is fit to be shown and to be part of a path. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "spool/heartbeat.h"
#include "spool/instance.h"
#include "spool/lane.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *text, size_t room)
{
	cleanup_free char *copy = xstrdup(text);

	if (strlen(text) >= room || strcmp(utf8_clean(copy), text) != 0)
		abort();
}

static void read_heartbeat(const char *text, size_t size)
{
	struct err e = ERR_INIT;
	struct heartbeat b;

	if (heartbeat_parse("agents/n1", text, size, &b, &e) < 0) {
		if (!e.text[0])
			abort();
		return;
	}
	if (!b.count || b.who.proc.pid < 0 || b.devices > INT32_MAX || b.running > INT32_MAX)
		abort();
	check_text(b.who.agent, sizeof(b.who.agent));
	check_text(b.who.host, sizeof(b.who.host));
	check_text(b.who.boot, sizeof(b.who.boot));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char agent[NAME_AGENT_MAX + 1];
	struct err e = ERR_INIT;
	bool trusts_all = false;
	/* Of the exact size, so that a read behind it is seen. */
	cleanup_free char *text = xmalloc(size + 1);

	(void)memcpy(text, data, size);
	text[size] = '\0';
	read_heartbeat(text, size);
	lane_owner_parse(text, size, agent);
	if (agent[0] && !ident_is_name(agent))
		abort();
	if (spool_parse_instance("/q/default", text, size, &trusts_all, &e) < 0 &&
	    (trusts_all || !e.text[0]))
		abort();
	return 0;
}
