/* SPDX-License-Identifier: MIT */
#include "serve/budget.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

#define MOST ((int64_t)(BUDGET_MS * NS_PER_MS))

/* One second of a processor in so many. */
static const unsigned int parts[] = {
	[ACCESS_NONE] = 8,
	[ACCESS_READ] = 4,
	[ACCESS_WRITE] = 2,
};
_Static_assert(ARRAY_LEN(parts) == ACCESS_MAX, "a share for every right");

void budget_begin(struct budget *b)
{
	(void)memset(b, 0, sizeof(*b));
	(void)pthread_mutex_init(&b->lock, NULL);
}

static struct budget_account *find(struct budget *b, const struct budget_payer *p)
{
	struct budget_account *all = b->accounts[p->right];

	for (size_t i = 0; i < BUDGET_PAYERS; i++)
		if (all[i].asked_ns && memcmp(all[i].peer, p->peer, sizeof(p->peer)) == 0)
			return &all[i];
	return NULL;
}

/* Nobody's, or that of whoever has asked nothing for longest: but rather of one that does not wait.
 */
static struct budget_account *take_over(struct budget *b, const struct budget_payer *p)
{
	struct budget_account *all = b->accounts[p->right], *found = &all[0];

	for (size_t i = 1; i < BUDGET_PAYERS; i++)
		if (!all[i].waiting != !found->waiting ? !all[i].waiting
						       : all[i].asked_ns < found->asked_ns)
			found = &all[i];
	if (!found->asked_ns)
		found->left_ns = MOST;
	found->waiting = 0;
	(void)memcpy(found->peer, p->peer, sizeof(p->peer));
	return found;
}

/* Who shares in it, with the one that asks now. */
static unsigned int count_active(const struct budget *b, const struct budget_account *asks,
				 enum access_right right, uint64_t now_ns)
{
	const struct budget_account *all = b->accounts[right];
	unsigned int n = 0;

	for (size_t i = 0; i < BUDGET_PAYERS; i++)
		n += &all[i] == asks ||
		     (all[i].asked_ns && all[i].asked_ns + BUDGET_ACTIVE_MS * NS_PER_MS > now_ns);
	return n;
}

bool budget_left(struct budget *b, const struct budget_payer *p, uint64_t now_ns)
{
	struct budget_account *a;
	bool left;

	(void)pthread_mutex_lock(&b->lock);
	a = find(b, p);
	if (!a)
		a = take_over(b, p);
	/* Another thread may have read the clock later, and come first. */
	if (a->asked_ns && now_ns > a->at_ns) {
		uint64_t part = (uint64_t)parts[p->right] * count_active(b, a, p->right, now_ns);

		a->left_ns += (int64_t)((now_ns - a->at_ns) / part);
	}
	a->at_ns = now_ns > a->at_ns ? now_ns : a->at_ns;
	a->asked_ns = a->at_ns ? a->at_ns : 1;
	a->left_ns = a->left_ns < MOST ? a->left_ns : MOST;
	left = a->left_ns > 0;
	(void)pthread_mutex_unlock(&b->lock);
	return left;
}

/* One whose account was taken over meanwhile owes it no more. */
void budget_take(struct budget *b, const struct budget_payer *p, uint64_t used_ns)
{
	struct budget_account *a;

	(void)pthread_mutex_lock(&b->lock);
	a = find(b, p);
	if (a)
		a->left_ns -= (int64_t)used_ns;
	(void)pthread_mutex_unlock(&b->lock);
}

bool budget_wait(struct budget *b, const struct budget_payer *p)
{
	struct budget_account *a;
	bool may;

	(void)pthread_mutex_lock(&b->lock);
	a = find(b, p);
	may = !a || a->waiting < BUDGET_WAITING;
	if (a && may)
		a->waiting++;
	(void)pthread_mutex_unlock(&b->lock);
	return may;
}

void budget_served(struct budget *b, const struct budget_payer *p)
{
	struct budget_account *a;

	(void)pthread_mutex_lock(&b->lock);
	a = find(b, p);
	if (a && a->waiting)
		a->waiting--;
	(void)pthread_mutex_unlock(&b->lock);
}

uint64_t budget_thread_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return clock_timespec_ns(&t);
}
