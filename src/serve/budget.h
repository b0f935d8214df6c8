/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SERVE_BUDGET_H
#define TENURE_SERVE_BUDGET_H

/*
 * How much of a processor all requests together may use, with the workers and the commands that
 * work for them: BUDGET_MS at once, and half of one after that. What a request took is known when
 * it was answered, so it may be overdrawn by those that are under way. For any thread.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define BUDGET_MS   2000
#define BUDGET_PART 2 /* one second in so many */

struct budget {
	pthread_mutex_t lock;
	int64_t left_ns;
	uint64_t at_ns;
};

void budget_begin(struct budget *b, uint64_t now_ns);
bool budget_left(struct budget *b, uint64_t now_ns);
void budget_take(struct budget *b, uint64_t used_ns);
/* What this thread has used of a processor, since it began. */
uint64_t budget_thread_ns(void);

#endif
