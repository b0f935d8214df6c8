/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TESTS_SCHED_BENCH_H
#define TENURE_TESTS_SCHED_BENCH_H

/* A small machine and short ways to say what waits on it, for the tests of the planner. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "unit.h"

#include "base/clock.h"
#include "base/units.h"
#include "sched/plan.h"
#include "sched/queue.h"

#define BENCH_ACTIONS 4096

struct bench {
	struct sched_queue *q;
	struct sched_device d[SCHED_DEVICES_MAX];
	struct sched_view view;
	struct sched_out out;
	struct sched_action actions[BENCH_ACTIONS];
	char text[4096];
};

static inline void bench_open(struct bench *b, size_t n)
{
	memset(b, 0, sizeof(*b));
	b->q = sched_queue_new();
	for (size_t i = 0; i < n; i++)
		b->d[i] = (struct sched_device){
			.index = (unsigned int)i,
			.model = "NVIDIA H200",
			.state = SCHED_DEV_IDLE,
			.mem_known = true,
			.total_bytes = 80 * GIB,
			.free_bytes = 80 * GIB,
		};
	b->view = (struct sched_view){ .devices = b->d, .n_devices = n, .now_ns = NS_PER_S };
	b->out = (struct sched_out){ .actions = b->actions, .cap = BENCH_ACTIONS };
}

static inline void bench_close(struct bench *b)
{
	b->q = sched_queue_free(b->q);
}

static inline void bench_add(struct bench *b, struct sched_task t)
{
	struct err e = ERR_INIT;

	if (!t.order)
		t.order = t.id;
	if (sched_add(b->q, &t, &e) != 0)
		fail_msg("%s", e.text);
}

static inline void bench_say(struct bench *b, const struct sched_action *a)
{
	static const char *const verbs[] = { [SCHED_START] = "start",
					     [SCHED_PREEMPT] = "preempt",
					     [SCHED_RESERVE] = "reserve",
					     [SCHED_UNRESERVE] = "unreserve" };
	size_t n = strlen(b->text);

	n += (size_t)snprintf(b->text + n, sizeof(b->text) - n, "%s%s %llu", n ? "; " : "",
			      verbs[a->kind], (unsigned long long)a->ref.id);
	if (a->ref.element)
		n += (size_t)snprintf(b->text + n, sizeof(b->text) - n, ".%u", a->ref.element);
	devset_each(slot, a->devices) n +=
		(size_t)snprintf(b->text + n, sizeof(b->text) - n, " %u", slot);
}

/* Plans and tells what came out: "start 1 0; reserve 2 1". */
static inline const char *bench_plan(struct bench *b)
{
	sched_plan(b->q, &b->view, &b->out);
	b->text[0] = '\0';
	for (size_t i = 0; i < b->out.n; i++)
		bench_say(b, &b->out.actions[i]);
	return b->text;
}

static inline struct sched_ref ref(uint64_t id)
{
	return (struct sched_ref){ .id = id };
}

#endif
