/* SPDX-License-Identifier: MIT */

/*
 * What a plan costs, and a forecast, by the clock of the machine: figures of docs/benchmarks.md.
 *
 *	plan [ROUNDS]
 *
 * A node plans for itself: of 1,000 nodes with 8 GPUs each there are 1,000 plans, on as many
 * machines, each over all tasks that wait. So a plan is over one node's devices, and what is looked
 * at here is 8 of them, and 128, the most that a node may have, with 10,000 tasks that wait:
 * of few shapes, as tasks of a name are, and of as many as there are tasks.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/units.h"
#include "sched/forecast.h"
#include "sched/plan.h"

#define KINDS	20
#define ACTIONS 4096

static struct sched_device devices[SCHED_DEVICES_MAX];
static struct sched_action actions[ACTIONS];

static struct sched_view view_of(size_t n)
{
	for (size_t i = 0; i < n; i++)
		devices[i] = (struct sched_device){ .index = (unsigned int)i,
						    .model = "NVIDIA H200",
						    .state = SCHED_DEV_IDLE,
						    .mem_known = true,
						    .total_bytes = 140 * GIB,
						    .free_bytes = 140 * GIB };
	return (struct sched_view){ .devices = devices, .n_devices = n, .now_ns = NS_PER_S };
}

/* least: of the memory that they ask for, in GiB. */
static struct sched_queue *queue_of(size_t n, size_t shapes, bool shared, size_t least)
{
	struct sched_queue *q = sched_queue_new();

	for (size_t i = 1; i <= n; i++) {
		struct sched_task t = { .id = i,
					.order = i,
					.kind = i % KINDS + 1,
					.gpus = i % 7 ? 1 : 4,
					.shared = shared,
					.mem_bytes = (least + i % shapes * 100 / shapes) * GIB +
						     i % shapes * MIB };

		if (sched_add(q, &t, NULL) < 0)
			abort();
	}
	return q;
}

static int by_value(const void *a, const void *b)
{
	return compare_u64(a, b);
}

static void tell(const char *what, uint64_t *ns, size_t n)
{
	qsort(ns, n, sizeof(*ns), by_value);
	printf("%-62s median %8.3f ms   longest %8.3f ms\n", what,
	       (double)ns[n / 2] / (double)NS_PER_MS, (double)ns[n - 1] / (double)NS_PER_MS);
}

/* The devices are full, and one task after another ends: a plan each. */
static void bench_plan(const char *what, size_t n_devices, size_t shapes, bool shared, size_t least,
		       size_t rounds)
{
	struct sched_view view = view_of(n_devices);
	struct sched_queue *q = queue_of(10000, shapes, shared, least);
	struct sched_out out = { .actions = actions, .cap = ACTIONS };
	uint64_t *ns = xcalloc(rounds, sizeof(*ns)), oldest = 1;

	sched_plan(q, &view, &out);
	for (size_t i = 0; i < rounds; i++) {
		while (sched_end(q, (struct sched_ref){ oldest, 0 }) < 0 && oldest < 10000)
			oldest++;
		oldest++;
		view.now_ns += NS_PER_S;

		uint64_t begun = clock_mono_ns();

		sched_plan(q, &view, &out);
		ns[i] = clock_mono_ns() - begun;
	}
	tell(what, ns, rounds);
	free(ns);
	(void)sched_queue_free(q);
}

static void bench_forecast(const char *what, size_t n_devices, size_t shapes, size_t rounds)
{
	static struct forecast_time known[KINDS];
	const struct forecast_times times = { KINDS, known };
	struct sched_view view = view_of(n_devices);
	struct sched_queue *q = queue_of(1000 + n_devices, shapes, false, 20);
	struct sched_out out = { .actions = actions, .cap = ACTIONS };
	uint64_t *ns = xcalloc(rounds, sizeof(*ns));
	struct forecast f = { .what = FORECAST_NOTHING };

	for (size_t i = 0; i < KINDS; i++)
		known[i] = (struct forecast_time){ i + 1, (i + 1) * MS_PER_MIN,
						   (i + 2) * 2 * MS_PER_MIN };
	sched_plan(q, &view, &out);
	for (size_t i = 0; i < rounds; i++) {
		uint64_t begun = clock_mono_ns();

		f = sched_forecast(q, &view, &times, (struct sched_ref){ 1000 + n_devices, 0 });
		ns[i] = clock_mono_ns() - begun;
	}
	tell(what, ns, rounds);
	printf("    the last of them starts in %.1f to %.1f h\n", (double)f.low_ms / MS_PER_H,
	       (double)f.high_ms / MS_PER_H);
	free(ns);
	(void)sched_queue_free(q);
}

static void count(void *user, struct sched_ref ref, const struct forecast *f)
{
	++*(size_t *)user;
}

/* Of all that wait at once, as `tenure list --when` asks. */
static void bench_forecast_all(const char *what, size_t n_tasks, size_t rounds)
{
	static struct forecast_time known[KINDS];
	const struct forecast_times times = { KINDS, known };
	struct sched_view view = view_of(8);
	struct sched_queue *q = queue_of(n_tasks + 8, 20, false, 20);
	struct sched_out out = { .actions = actions, .cap = ACTIONS };
	uint64_t *ns = xcalloc(rounds, sizeof(*ns));
	size_t n = 0;

	for (size_t i = 0; i < KINDS; i++)
		known[i] = (struct forecast_time){ i + 1, (i + 1) * MS_PER_MIN,
						   (i + 2) * 2 * MS_PER_MIN };
	sched_plan(q, &view, &out);
	for (size_t i = 0; i < rounds; i++) {
		uint64_t begun = clock_mono_ns();

		n = 0;
		(void)sched_forecast_all(q, &view, &times, count, &n);
		ns[i] = clock_mono_ns() - begun;
	}
	tell(what, ns, rounds);
	printf("    of %zu tasks\n", n);
	free(ns);
	(void)sched_queue_free(q);
}

int main(int argc, char **argv)
{
	size_t rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 200;

	rounds = rounds ? rounds : 1;
	bench_plan("plan, 8 GPUs, 10,000 tasks of 20 shapes", 8, 20, false, 20, rounds);
	bench_plan("plan, 8 GPUs, 10,000 tasks of 10,000 shapes", 8, 10000, false, 20, rounds);
	bench_plan("plan, 8 shared GPUs, 10,000 tasks of 10,000 shapes", 8, 10000, true, 20,
		   rounds);
	bench_plan("plan, 8 GPUs, the same, none of which fits here", 8, 10000, false, 200, rounds);
	bench_plan("plan, 128 GPUs, 10,000 tasks of 10,000 shapes", 128, 10000, false, 20, rounds);
	bench_forecast("forecast, 8 GPUs, 1,000 tasks of 20 shapes", 8, 20, rounds / 10 + 1);
	bench_forecast("forecast, 8 GPUs, 1,000 tasks of 1,000 shapes", 8, 1000, rounds / 10 + 1);
	bench_forecast_all("forecast of all of 1,000 tasks, 8 GPUs", 1000, rounds / 10 + 1);
	bench_forecast_all("forecast of all of 4,900 tasks, 8 GPUs", 4900, rounds / 10 + 1);
	return 0;
}
