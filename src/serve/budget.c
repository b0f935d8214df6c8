/* SPDX-License-Identifier: MIT */
#include "serve/budget.h"

#include "base/clock.h"

#define MOST ((int64_t)(BUDGET_MS * NS_PER_MS))

void budget_begin(struct budget *b, uint64_t now_ns)
{
	*b = (struct budget){ .left_ns = MOST, .at_ns = now_ns };
}

bool budget_left(struct budget *b, uint64_t now_ns)
{
	b->left_ns += (int64_t)((now_ns - b->at_ns) / BUDGET_PART);
	if (b->left_ns > MOST)
		b->left_ns = MOST;
	b->at_ns = now_ns;
	return b->left_ns > 0;
}

void budget_take(struct budget *b, uint64_t used_ns)
{
	b->left_ns -= (int64_t)used_ns;
}
