/* SPDX-License-Identifier: MIT */
#include "spool/usage.h"

#include <string.h>

#include "base/clock.h"
#include "spool/instance.h"

static bool is_meant(const struct usage *u, uint64_t ended_ns)
{
	return ended_ns >= u->since_ns && (!u->until_ns || ended_ns < u->until_ns);
}

static void add_meter(struct usage *u, const struct spool_use *use)
{
	u->energy_j += (double)use->energy_mj / 1e3;
	u->energy_s += (double)use->energy_ns / (double)NS_PER_S;
	u->empty_s += (double)use->empty_ns / (double)NS_PER_S;
	u->seen_s += (double)use->seen_ns / (double)NS_PER_S;
}

static void add_attempt(struct usage *u, uint64_t begun_ns, uint64_t ended_ns,
			const struct spool_use *use)
{
	bool all = u->asked == SPEC_ALL;
	unsigned int gpus = use->gpus || all ? use->gpus : (unsigned int)u->asked;
	double seconds, gpu_seconds;

	if (!begun_ns || ended_ns <= begun_ns || !is_meant(u, ended_ns))
		return;
	seconds = (double)(ended_ns - begun_ns) / (double)NS_PER_S;
	u->seconds += seconds;
	gpu_seconds = use->gpu_ns ? (double)use->gpu_ns / (double)NS_PER_S : seconds * gpus;
	u->gpu_seconds += gpu_seconds;
	u->gpus = gpus > u->gpus ? gpus : u->gpus;
	u->unknown |= all && !use->gpus;
	u->ended_ns = ended_ns > u->ended_ns ? ended_ns : u->ended_ns;
	add_meter(u, use);
	if (!use->gpu_peak_bytes)
		return;
	u->peak_bytes = use->gpu_peak_bytes > u->peak_bytes ? use->gpu_peak_bytes : u->peak_bytes;
	u->busy += gpu_seconds * use->gpu_util_permille / 1000;
	u->watched += gpu_seconds;
}

static double get_positive(const json_t *o, const char *key)
{
	double v = json_number_value(json_object_get(o, key));

	return v > 0 ? v : 0;
}

static void add_past(struct usage *u, const json_t *o)
{
	struct spool_again most; /* gpus and peak are called as in a requeue */
	uint64_t ended_ns = record_ns(json_object_get(o, "time"));

	if (!is_meant(u, ended_ns))
		return;
	again_from_json(o, &most);
	u->seconds += get_positive(o, "ran_s");
	u->gpu_seconds += get_positive(o, "gpu_s");
	u->busy += get_positive(o, "gpu_busy_s");
	u->watched += get_positive(o, "gpu_watched_s");
	u->gpus = most.use.gpus > u->gpus ? most.use.gpus : u->gpus;
	u->peak_bytes =
		most.use.gpu_peak_bytes > u->peak_bytes ? most.use.gpu_peak_bytes : u->peak_bytes;
	u->unknown |= json_is_true(json_object_get(o, "gpus_unknown"));
	add_meter(u, &most.use);
	u->ended_ns = ended_ns > u->ended_ns ? ended_ns : u->ended_ns;
}

/* Of an attempt whose end was written down again, because what is done behind it had failed. */
static bool is_repeated(struct usage *u, const json_t *o, uint64_t begun_ns)
{
	json_int_t element = json_integer_value(json_object_get(o, "element"));
	bool same = begun_ns && u->last_begun_ns == begun_ns && u->last_element == element;

	u->last_begun_ns = begun_ns;
	u->last_element = element;
	return same;
}

void usage_add(struct usage *u, const json_t *o)
{
	const char *event = json_string_value(json_object_get(o, "event"));
	struct spool_again again;
	struct spool_end end;

	if (event && strcmp(event, "end") == 0 && end_from_json(o, &end)) {
		if (!is_repeated(u, o, end.begun_ns))
			add_attempt(u, end.begun_ns, end.ended_ns, &end.use);
	} else if (event && strcmp(event, "requeue") == 0) {
		again_from_json(o, &again);
		if (!is_repeated(u, o, again.begun_ns))
			add_attempt(u, again.begun_ns, record_ns(json_object_get(o, "time")),
				    &again.use);
	} else if (event && strcmp(event, "past") == 0) {
		add_past(u, o);
	}
}

void usage_put(const struct usage *u, json_t *past)
{
	(void)json_object_set_new(past, "ran_s", json_real(u->seconds));
	(void)json_object_set_new(past, "gpu_s", json_real(u->gpu_seconds));
	if (u->gpus)
		(void)json_object_set_new(past, "gpus", json_integer((json_int_t)u->gpus));
	if (u->unknown)
		(void)json_object_set_new(past, "gpus_unknown", json_true());
	if (u->peak_bytes) {
		(void)json_object_set_new(past, "gpu_peak_bytes",
					  json_integer((json_int_t)u->peak_bytes));
		(void)json_object_set_new(past, "gpu_busy_s", json_real(u->busy));
		(void)json_object_set_new(past, "gpu_watched_s", json_real(u->watched));
	}
	if (u->energy_s > 0) {
		(void)json_object_set_new(past, "gpu_energy_j", json_real(u->energy_j));
		(void)json_object_set_new(past, "gpu_energy_s", json_real(u->energy_s));
	}
	if (u->seen_s > 0) {
		(void)json_object_set_new(past, "gpu_empty_s", json_real(u->empty_s));
		(void)json_object_set_new(past, "gpu_seen_s", json_real(u->seen_s));
	}
	(void)json_object_set_new(past, "time", json_real(record_seconds(u->ended_ns)));
}
