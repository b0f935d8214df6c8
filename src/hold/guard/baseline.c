/* SPDX-License-Identifier: MIT */
#include "hold/guard/baseline.h"

static uint64_t above(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static uint64_t apart(uint64_t a, uint64_t b)
{
	return above(a, b) + above(b, a);
}

void baseline_begin(struct baseline *s, uint64_t used, bool placeholder, uint64_t own)
{
	s->others = placeholder ? above(used, own ? own : s->context) : used;
}

static uint64_t unexplained(const struct baseline *s, uint64_t seen, uint64_t own, uint64_t held)
{
	uint64_t context = s->context ? s->context : BASELINE_CONTEXT_BYTES;

	return above(seen, s->others + (own ? own : held + context) + s->slack);
}

uint64_t baseline_early(const struct baseline *s, uint64_t seen, uint64_t own, uint64_t held)
{
	return s->learnt ? unexplained(s, seen, own, held) : 0;
}

void baseline_doubt(struct baseline *s)
{
	s->learnt = false;
}

uint64_t baseline_excess(struct baseline *s, uint64_t seen, uint64_t own, uint64_t held)
{
	uint64_t excess = unexplained(s, seen, own, held);

	if (excess >= BASELINE_RISE_BYTES && s->slack + excess <= BASELINE_SLACK_BYTES &&
	    apart(excess, s->odd) < BASELINE_RISE_BYTES) {
		s->slack += excess;
		excess = 0;
	}
	s->odd = excess;
	if (excess >= BASELINE_RISE_BYTES)
		return excess;
	if (!own && !s->context)
		s->context = above(seen, s->others + held);
	s->learnt = true;
	/* The next figure, after growing, starts from here. */
	s->others = above(seen, own ? own + s->slack : held + s->context + s->slack);
	return 0;
}

void figure_off(struct figure *f)
{
	f->is = FIGURE_OFF;
	f->at_ns = f->steady_ns = f->used = 0;
}

void figure_due(struct figure *f, uint64_t at_ns, uint64_t steady_ns)
{
	f->is = FIGURE_DUE;
	f->at_ns = at_ns;
	f->steady_ns = steady_ns;
	f->used = 0;
}

bool figure_awaited(const struct figure *f)
{
	return f->is == FIGURE_DUE || f->is == FIGURE_ASKED;
}

void figure_take(struct figure *f, uint64_t used)
{
	f->is = FIGURE_TAKEN;
	f->used = used;
}
