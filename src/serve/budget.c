/* SPDX-License-Identifier: MIT */
#include "serve/budget.h"

#include "base/clock.h"

#define MOST ((int64_t)(BUDGET_MS * NS_PER_MS))

void budget_begin(struct budget *b, uint64_t now_ns)
{
	*b = (struct budget){ .left_ns = MOST, .at_ns = now_ns };
	(void)pthread_mutex_init(&b->lock, NULL);
}

bool budget_left(struct budget *b, uint64_t now_ns)
{
	bool left;

	(void)pthread_mutex_lock(&b->lock);
	if (now_ns > b->at_ns) { /* another thread may have read the clock later, and come first */
		b->left_ns += (int64_t)((now_ns - b->at_ns) / BUDGET_PART);
		b->at_ns = now_ns;
	}
	if (b->left_ns > MOST)
		b->left_ns = MOST;
	left = b->left_ns > 0;
	(void)pthread_mutex_unlock(&b->lock);
	return left;
}

void budget_take(struct budget *b, uint64_t used_ns)
{
	(void)pthread_mutex_lock(&b->lock);
	b->left_ns -= (int64_t)used_ns;
	(void)pthread_mutex_unlock(&b->lock);
}

uint64_t budget_thread_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return clock_timespec_ns(&t);
}
