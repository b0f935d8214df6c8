/* SPDX-License-Identifier: MIT */

/*
 * What comes over the sockets of a shim, a holder and an agent; the first byte says over which.
 * What is taken has its texts terminated and its numbers in range.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/ctl.h"
#include "base/mem.h"
#include "hold/holder_proto.h"
#include "task/shproto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ENDS(text) (memchr(text, '\0', sizeof(text)) != NULL)

static bool is_sound(const union shmsg *m)
{
	switch (m->head.type) {
	case SHMSG_PREPARED:
	case SHMSG_STARTED:
	case SHMSG_STATUS:
		return ENDS(m->status.boot_id) && ENDS(m->status.token);
	case SHMSG_GO:
		return ENDS(m->go.devices) && ENDS(m->go.env) &&
		       m->go.env_bytes <= sizeof(m->go.env);
	case SHMSG_ENDED:
		return ENDS(m->ended.end.text);
	default:
		return m->head.type && m->head.type < SHMSG_TYPE_MAX;
	}
}

static void take_shim(const uint8_t *data, size_t size)
{
	union shmsg *m = xmalloc(sizeof(*m));

	if (size <= sizeof(*m)) {
		(void)memcpy(m, data, size);
		if (shmsg_take(m, size) == 0 && !is_sound(m))
			abort();
	}
	free(m);
}

static bool has_sound_burn(const struct holder_msg *m)
{
	if (m->peers.n > BURN_PEERS_MAX || m->peers.own > m->peers.n ||
	    m->found.n_links > BURN_PEERS_MAX || m->found.copies.records > BURN_RECORDS)
		return false;
	for (uint32_t i = 0; i < m->peers.n; i++)
		if (m->peers.windows[i].slot >= BURN_PEERS_MAX)
			return false;
	for (uint32_t i = 0; i < m->found.n_links; i++)
		if (m->found.links[i].copies.records > BURN_RECORDS)
			return false;
	return true;
}

static void take_holder(const uint8_t *data, size_t size)
{
	struct holder_msg m = { .version = 0 };

	(void)memcpy(&m, data, size < sizeof(m) ? size : sizeof(m));
	if (holder_msg_take(&m, (ssize_t)size) < 0)
		return;
	if (size != sizeof(m) || !has_sound_burn(&m) || !ENDS(m.text) || m.load >= LOAD_MAX ||
	    m.duty_permille > 1000 || mem_amount_bytes(&m.amount, 1ULL << 37) > 1ULL << 37)
		abort();
}

static void take_request(const uint8_t *data, size_t size)
{
	struct ctl_request m = { .magic = 0 };

	(void)memcpy(&m, data, size < sizeof(m) ? size : sizeof(m));
	if (ctl_is_request(&m, (ssize_t)size) && (!m.verb || m.verb >= CTL_VERB_MAX))
		abort();
}

static void take_chunk(const uint8_t *data, size_t size)
{
	struct ctl_chunk *m = xcalloc(1, sizeof(*m));
	size_t n = size < sizeof(*m) ? size : sizeof(*m);

	(void)memcpy(m, data, n);
	if (ctl_is_chunk(m, (ssize_t)n) && m->size > sizeof(m->data))
		abort();
	free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const takers[])(const uint8_t *data, size_t size) = { take_shim, take_holder,
									    take_request,
									    take_chunk };

	if (size)
		takers[data[0] % ARRAY_LEN(takers)](data + 1, size - 1);
	return 0;
}
