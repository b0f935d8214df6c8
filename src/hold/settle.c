/* SPDX-License-Identifier: MIT */
#include "hold/settle.h"

void settle_begin(struct settle *s, uint64_t used)
{
	s->others = used;
}

static uint64_t above(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static uint64_t apart(uint64_t a, uint64_t b)
{
	return above(a, b) + above(b, a);
}

uint64_t settle_excess(struct settle *s, uint64_t seen, uint64_t own, uint64_t held)
{
	uint64_t context = s->context ? s->context : SETTLE_CONTEXT_BYTES;
	uint64_t ours = (own ? own : held + context) + s->slack;
	uint64_t excess = above(seen, s->others + ours);

	if (excess >= SETTLE_RISE_BYTES && s->slack + excess <= SETTLE_SLACK_BYTES &&
	    apart(excess, s->odd) < SETTLE_RISE_BYTES) {
		s->slack += excess;
		excess = 0;
	}
	s->odd = excess;
	if (excess >= SETTLE_RISE_BYTES)
		return excess;
	if (!own && !s->context)
		s->context = above(seen, s->others + held);
	/* The next figure, after growing, starts from here. */
	s->others = above(seen, own ? own + s->slack : held + s->context + s->slack);
	return 0;
}
