/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SERVE_BUDGET_H
#define TENURE_SERVE_BUDGET_H

/*
 * How much of a processor requests may use, with the workers and the commands that work for them.
 * Each right (access.h) has a share of its own, so that nobody with less right keeps anybody with
 * more from it: whoever may steer has one half, those who look on a quarter, those who have not
 * said who they are an eighth. Those of one right who have asked in the last BUDGET_ACTIVE_MS have
 * the same part of it, by the address that they come from. Each has BUDGET_MS at once. What a
 * request took is known when it was answered, so those under way may overdraw it.
 *
 *	budget_left(b, &payer, now)	or it is told to come again
 *	budget_wait(b, &payer)		before it waits for a worker; budget_served() afterwards
 *	budget_take(b, &payer, used)
 *
 * BUDGET_PAYERS addresses of each right are told apart. One more takes the place of that which has
 * asked nothing for longest, with its debts, so that many addresses are worth no more than those.
 * For any thread.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "serve/access.h"

#define BUDGET_MS	 2000
#define BUDGET_PAYERS	 16
#define BUDGET_ACTIVE_MS 5000
#define BUDGET_WAITING	 16 /* requests of one that wait for a worker, or have one */

/* Who asks. Of an IPv6 address the network alone (64 bits), an IPv4 address is mapped into one; all
 * zeros: by the Unix socket. */
struct budget_payer {
	enum access_right right;
	unsigned char peer[16];
};

struct budget_account {
	unsigned char peer[16];
	int64_t left_ns;
	uint64_t at_ns;	   /* left_ns is as of then */
	uint64_t asked_ns; /* last; 0: never, and nobody has it */
	unsigned int waiting;
};

struct budget {
	pthread_mutex_t lock;
	struct budget_account accounts[ACCESS_MAX][BUDGET_PAYERS];
};

void budget_begin(struct budget *b);
bool budget_left(struct budget *b, const struct budget_payer *p, uint64_t now_ns);
void budget_take(struct budget *b, const struct budget_payer *p, uint64_t used_ns);
/* False: enough of its requests wait already. */
bool budget_wait(struct budget *b, const struct budget_payer *p);
void budget_served(struct budget *b, const struct budget_payer *p);
/* What this thread has used of a processor, since it began. */
uint64_t budget_thread_ns(void);

#endif
