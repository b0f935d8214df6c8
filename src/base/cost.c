/* SPDX-License-Identifier: MIT */
#include "base/cost.h"

#include <string.h>

#include "base/mem.h"

void cost_add(struct cost *c, uint64_t took_ns)
{
	(void)memmove(c->took_ns + 1, c->took_ns, sizeof(c->took_ns) - sizeof(c->took_ns[0]));
	c->took_ns[0] = took_ns;
}

uint64_t cost_ns(const struct cost *c)
{
	uint64_t least = c->took_ns[0];

	for (size_t i = 1; i < ARRAY_LEN(c->took_ns); i++)
		least = c->took_ns[i] < least ? c->took_ns[i] : least;
	return least;
}

uint64_t cost_rest_ns(const struct cost *c, uint64_t share, uint64_t least_ns, uint64_t most_ns)
{
	uint64_t takes = cost_ns(c), rest = takes * share, last = c->took_ns[0];

	most_ns = takes > most_ns ? takes : most_ns;
	rest = rest < most_ns ? rest : most_ns;
	last = last < COST_LAST_NS ? last : COST_LAST_NS;
	least_ns = last > least_ns ? last : least_ns;
	return rest > least_ns ? rest : least_ns;
}

uint64_t cost_turn(struct cost_turns *t, uint64_t began_ns, uint64_t now_ns, uint64_t most_ns)
{
	uint64_t turn;

	if (began_ns != t->began_ns)
		*t = (struct cost_turns){ .began_ns = began_ns, .last_ns = began_ns };
	turn = began_ns && now_ns > t->last_ns ? now_ns - t->last_ns : 0;
	t->took_ns += turn < most_ns ? turn : most_ns;
	t->last_ns = now_ns;
	return t->took_ns;
}
