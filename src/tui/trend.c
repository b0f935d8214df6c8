/* SPDX-License-Identifier: MIT */
#include "tui/trend.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"

static uint32_t step_of(uint64_t now_ns)
{
	return (uint32_t)(now_ns / NS_PER_S / TREND_STEP_S);
}

void trends_clear(struct trends *t)
{
	free(t->all);
	*t = (struct trends){ 0 };
}

const struct trend *trends_find(const struct trends *t, const char *uuid)
{
	for (size_t i = 0; uuid && i < t->n; i++)
		if (strcmp(t->all[i].uuid, uuid) == 0)
			return &t->all[i];
	return NULL;
}

static struct trend *meet(struct trends *t, const char *uuid)
{
	struct trend *found = (struct trend *)(uintptr_t)trends_find(t, uuid);

	if (found || !uuid || t->n == TREND_DEVICES)
		return found;
	t->all = xrealloc(t->all, t->n + 1, sizeof(*t->all));
	found = &t->all[t->n++];
	*found = (struct trend){ .n = 0 };
	(void)str_copy(found->uuid, sizeof(found->uuid), uuid);
	return found;
}

static void put(struct trend *t, uint32_t at, unsigned int util)
{
	t->at[at % TREND_STEPS] = at;
	t->util[at % TREND_STEPS] = (unsigned char)util;
}

void trends_sample(struct trends *t, const json_t *devices, uint64_t now_ns)
{
	uint32_t at = step_of(now_ns);
	const json_t *d;
	size_t i;

	json_array_foreach(devices, i, d)
	{
		struct trend *one = meet(t, json_get_str(d, "uuid"));

		if (!one || !json_is_number(json_object_get(d, "utilisation")))
			continue;
		if (one->now != at)
			one->now = at, one->n = one->sum = 0;
		one->n++;
		one->sum += json_get_small(d, "utilisation", 100);
		put(one, at, one->sum / one->n);
	}
}

static void take_column(struct trend *t, const json_t *samples, uint64_t step_s)
{
	const json_t *times = json_object_get(samples, "t"), *time;
	size_t i;

	json_array_foreach(times, i, time)
	{
		const json_t *util = json_array_get(json_object_get(samples, "util"), i);
		double percent = json_number_value(util);
		uint64_t from = (uint64_t)json_integer_value(time) / TREND_STEP_S;

		if (!json_is_number(util) || percent < 0 || percent > 100)
			continue;
		for (uint64_t at = from; at < from + step_s / TREND_STEP_S; at++)
			if (t->at[at % TREND_STEPS] < at)
				put(t, (uint32_t)at, (unsigned int)percent);
	}
}

void trends_take(struct trends *t, const json_t *history)
{
	uint64_t step_s = json_get_u64(history, "step_s");
	const json_t *d;
	size_t i;

	json_array_foreach(json_object_get(history, "devices"), i, d)
	{
		struct trend *one = meet(t, json_get_str(d, "uuid"));

		if (one && step_s <= TREND_STEPS * TREND_STEP_S)
			take_column(one, json_object_get(d, "samples"), step_s);
	}
}

unsigned int trend_before(const struct trend *t, uint64_t now_ns, size_t steps)
{
	uint32_t at = step_of(now_ns);

	if (!t || steps >= TREND_STEPS || steps >= at)
		return TREND_UNKNOWN;
	at -= (uint32_t)steps;
	return t->at[at % TREND_STEPS] == at ? t->util[at % TREND_STEPS] : TREND_UNKNOWN;
}
