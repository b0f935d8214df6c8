/* SPDX-License-Identifier: MIT */

/*
 * The window is a ring of slots, each of which sums up the samples of a part of it, so that an hour
 * costs as little as a second. A sample stands for the time since the one before it, at most for
 * SAMPLE_MAX_NS: an agent that was stopped for an hour has not seen an idle hour.
 */
#include "sched/scale.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/enumstr.h"
#include "base/mem.h"
#include "base/units.h"

#define SAMPLE_MAX_NS (5 * NS_PER_S / 2)     /* samples come each second, one may be late */
#define VAIN_MAX_NS   (24 * 3600 * NS_PER_S) /* what is in vain is tried once a day at least */
#define FULL	      1000		     /* permille */

/* ---- samples ---- */

void scale_begin(struct scale *s, uint64_t now_ns)
{
	*s = (struct scale){ .since_ns = now_ns,
			     .sampled_ns = now_ns,
			     .grow_after_ns = s->grow_after_ns,
			     .in_vain = s->in_vain };
}

/* Where a sample goes: so many slots cover the window that the oldest of the ring is not in it. */
static struct scale_slot *slot_at(struct scale *s, const struct scale_rule *rule, uint64_t now_ns)
{
	uint64_t part_ns = rule->window_ms * NS_PER_MS / (SCALE_SLOTS - 2);
	struct scale_slot *slot = &s->slots[s->last];

	if (slot->end_ns && now_ns - slot->begin_ns <= part_ns)
		return slot;
	s->last = (s->last + 1) % SCALE_SLOTS;
	s->slots[s->last] = (struct scale_slot){ .begin_ns = now_ns };
	return &s->slots[s->last];
}

void scale_sample(struct scale *s, const struct scale_rule *rule, uint64_t now_ns,
		  uint32_t util_permille)
{
	uint64_t for_ns = now_ns > s->sampled_ns ? now_ns - s->sampled_ns : 0;
	struct scale_slot *slot;

	if (!for_ns)
		return;
	s->sampled_ns = now_ns;
	if (util_permille > FULL)
		return;
	slot = slot_at(s, rule, now_ns);
	slot->end_ns = now_ns;
	for_ns = for_ns < SAMPLE_MAX_NS ? for_ns : SAMPLE_MAX_NS;
	slot->known_ns += for_ns;
	slot->busy += for_ns * util_permille;
}

uint32_t scale_mean(const struct scale *s, const struct scale_rule *rule, uint64_t now_ns)
{
	uint64_t window_ns = rule->window_ms * NS_PER_MS, known_ns = 0, busy = 0;

	for (unsigned int i = 0; i < SCALE_SLOTS; i++) {
		const struct scale_slot *slot = &s->slots[i];

		if (!slot->end_ns || slot->end_ns + window_ns <= now_ns)
			continue;
		known_ns += slot->known_ns;
		busy += slot->busy;
	}
	if (!known_ns || known_ns < window_ns / 4 * 3)
		return SCALE_UNKNOWN;
	return (uint32_t)((busy + known_ns / 2) / known_ns);
}

/* ---- what was tried ---- */

void scale_wait(struct scale *s, uint64_t until_ns)
{
	if (until_ns > s->grow_after_ns)
		s->grow_after_ns = until_ns;
}

void scale_vain(struct scale *s, const struct scale_rule *rule, uint64_t now_ns)
{
	uint64_t wait_ns = rule->cooldown_ms * NS_PER_MS;

	s->in_vain++;
	for (unsigned int i = 0; i < s->in_vain && wait_ns < VAIN_MAX_NS; i++)
		wait_ns *= 2;
	scale_wait(s, now_ns + (wait_ns < VAIN_MAX_NS ? wait_ns : VAIN_MAX_NS));
}

void scale_used(struct scale *s)
{
	s->in_vain = 0;
}

/* ---- the decision ---- */

/* The same work on other devices: how busy they would be, rounded up. */
static uint32_t spread(uint32_t mean, uint32_t n, uint32_t on)
{
	uint64_t util = ((uint64_t)mean * n + on - 1) / on;

	return util < FULL ? (uint32_t)util : FULL;
}

/* So far from a threshold it has to be after a change, or noise would undo it. */
static uint32_t margin(const struct scale_rule *rule)
{
	return rule->up_permille > rule->down_permille
		       ? (rule->up_permille - rule->down_permille) / 8
		       : 0;
}

static enum scale_verdict when_busy(const struct scale *s, const struct scale_rule *rule,
				    const struct scale_at *at, uint32_t mean)
{
	static const enum scale_verdict rooms[SCALE_ROOM_MAX] = {
		[SCALE_ROOM_FREE] = SCALE_GROW,
		[SCALE_ROOM_NONE] = SCALE_NO_ROOM,
		[SCALE_ROOM_WANTED] = SCALE_WANTED,
		[SCALE_ROOM_LIMIT] = SCALE_LIMIT,
		[SCALE_ROOM_ALLOCATIONS] = SCALE_ALLOCATIONS,
	};

	if (at->n >= rule->max)
		return SCALE_AT_MAX;
	if (spread(mean, at->n, at->n + 1) <= rule->down_permille + margin(rule))
		return SCALE_WOULD_SHRINK;
	if (at->now_ns < s->grow_after_ns)
		return SCALE_IN_VAIN;
	return rooms[at->room];
}

static enum scale_verdict when_idle(const struct scale_rule *rule, const struct scale_at *at,
				    uint32_t mean)
{
	if (at->n <= rule->min || at->n < 2)
		return SCALE_AT_MIN;
	if (spread(mean, at->n, at->n - 1) + margin(rule) >= rule->up_permille)
		return SCALE_WOULD_GROW;
	return at->blind ? SCALE_BLIND : SCALE_SHRINK;
}

enum scale_verdict scale_decide(const struct scale *s, const struct scale_rule *rule,
				const struct scale_at *at)
{
	uint64_t for_ms = (at->now_ns - s->since_ns) / NS_PER_MS;
	uint32_t mean;

	if (at->draining)
		return SCALE_DRAINING;
	/* Whoever would follow a change has to have time left for it. */
	if (at->left_ms < rule->cooldown_ms || at->left_ms < rule->window_ms)
		return SCALE_ENDING;
	if (for_ms < rule->cooldown_ms)
		return SCALE_COOLING;
	if (for_ms < rule->window_ms)
		return SCALE_FILLING;
	if (at->unused && !at->blind && at->n > rule->min && at->n > 1)
		return SCALE_SHRINK_UNUSED;
	mean = scale_mean(s, rule, at->now_ns);
	if (mean == SCALE_UNKNOWN)
		return SCALE_UNSEEN;
	if (mean > rule->up_permille)
		return when_busy(s, rule, at, mean);
	return mean < rule->down_permille ? when_idle(rule, at, mean) : SCALE_WITHIN;
}

/* ---- in words ---- */

const char *scale_verdict_name(enum scale_verdict verdict)
{
	static const char *const names[] = {
		[SCALE_GROW] = "busy",
		[SCALE_SHRINK] = "idle",
		[SCALE_SHRINK_UNUSED] = "unused",
		[SCALE_WITHIN] = "within",
		[SCALE_DRAINING] = "draining",
		[SCALE_ENDING] = "ending",
		[SCALE_COOLING] = "cooling",
		[SCALE_FILLING] = "filling",
		[SCALE_UNSEEN] = "unknown",
		[SCALE_AT_MAX] = "at-max",
		[SCALE_WOULD_SHRINK] = "would-shrink",
		[SCALE_IN_VAIN] = "in-vain",
		[SCALE_NO_ROOM] = "no-room",
		[SCALE_WANTED] = "wanted",
		[SCALE_LIMIT] = "limit",
		[SCALE_ALLOCATIONS] = "allocations",
		[SCALE_AT_MIN] = "at-min",
		[SCALE_WOULD_GROW] = "would-grow",
		[SCALE_BLIND] = "blind",
	};
	_Static_assert(ARRAY_LEN(names) == SCALE_VERDICT_MAX, "every verdict has a name");

	return enum_name(names, ARRAY_LEN(names), verdict);
}

/* "5m", "1h30m": as it was said, or, of what goes by, in whole seconds. */
static void add_time(uint64_t ms, struct strbuf *out)
{
	char text[UNIT_TEXT_MAX];

	strbuf_adds(out, unit_format_duration_exact(
				 ms < MS_PER_S ? ms : (ms + 999) / MS_PER_S * MS_PER_S, text));
}

static void add_share(uint32_t permille, struct strbuf *out)
{
	char text[UNIT_TEXT_MAX];

	strbuf_adds(out, unit_format_permille(permille, text));
}

/* "its GPUs are busy 93.1% of 1m" */
static void add_mean(const struct scale_rule *rule, uint32_t mean, struct strbuf *out)
{
	strbuf_adds(out, "its GPUs are busy ");
	add_share(mean, out);
	strbuf_adds(out, " of ");
	add_time(rule->window_ms, out);
}

static void tell_busy(const struct scale *s, const struct scale_rule *rule,
		      const struct scale_at *at, enum scale_verdict verdict, struct strbuf *out)
{
	uint64_t wait_ms =
		s->grow_after_ns > at->now_ns ? (s->grow_after_ns - at->now_ns) / NS_PER_MS : 0;
	uint32_t mean = scale_mean(s, rule, at->now_ns);

	add_mean(rule, mean, out);
	strbuf_adds(out, ", more than ");
	add_share(rule->up_permille, out);
	switch (verdict) {
	case SCALE_AT_MAX:
		strbuf_addf(out, "; it has the %" PRIu32 " that it may have", rule->max);
		break;
	case SCALE_WOULD_SHRINK:
		strbuf_adds(out, "; with one more they would be ");
		add_share(spread(mean, at->n, at->n + 1), out);
		strbuf_adds(out, ", too near to ");
		add_share(rule->down_permille, out);
		break;
	case SCALE_IN_VAIN:
		strbuf_addf(out, "; %s, and another one is not tried before ",
			    s->in_vain ? "it did not come to the last one that it got"
				       : "the last one could not be had");
		add_time(wait_ms, out);
		break;
	case SCALE_NO_ROOM:
		strbuf_adds(out, "; no other GPU here is free for it");
		break;
	case SCALE_WANTED:
		strbuf_addf(out, "; task %" PRIu64, at->wanted_by.id);
		if (at->wanted_by.element)
			strbuf_addf(out, ".%" PRIu32, at->wanted_by.element);
		strbuf_adds(out, ", which waits, comes first");
		break;
	case SCALE_LIMIT:
		strbuf_adds(out, "; max_devices allows no more");
		break;
	case SCALE_ALLOCATIONS:
		strbuf_adds(out, "; max_total_gpus or max_manual_gpus allows no more");
		break;
	default:
		break;
	}
}

static void tell_idle(const struct scale *s, const struct scale_rule *rule,
		      const struct scale_at *at, enum scale_verdict verdict, struct strbuf *out)
{
	uint32_t mean = scale_mean(s, rule, at->now_ns);

	add_mean(rule, mean, out);
	strbuf_adds(out, ", less than ");
	add_share(rule->down_permille, out);
	if (verdict == SCALE_AT_MIN)
		strbuf_addf(out, "; it keeps %" PRIu32, at->n < 2 ? 1 : rule->min);
	else if (verdict == SCALE_BLIND)
		strbuf_adds(out, "; its processes are not listed here, so nobody would see that "
				 "it leaves one");
	else if (verdict == SCALE_WOULD_GROW) {
		strbuf_adds(out, "; with one less they would be ");
		add_share(spread(mean, at->n, at->n - 1), out);
		strbuf_adds(out, ", too near to ");
		add_share(rule->up_permille, out);
	}
}

static void tell_still(const struct scale *s, const struct scale_rule *rule,
		       const struct scale_at *at, enum scale_verdict verdict, struct strbuf *out)
{
	uint64_t for_ms = (at->now_ns - s->since_ns) / NS_PER_MS;

	switch (verdict) {
	case SCALE_SHRINK_UNUSED:
		strbuf_adds(out, "none of its processes has come to the GPU that it got last");
		break;
	case SCALE_DRAINING:
		strbuf_adds(out, "nothing changes while its node drains");
		break;
	case SCALE_ENDING:
		strbuf_adds(out, "nothing changes any more: its node ends in ");
		add_time(at->left_ms, out);
		break;
	case SCALE_COOLING:
		strbuf_adds(out, "nothing changes within ");
		add_time(rule->cooldown_ms, out);
		strbuf_adds(out, " of its start or its last change, which was ");
		add_time(for_ms, out);
		strbuf_adds(out, " ago");
		break;
	case SCALE_FILLING:
		strbuf_adds(out, "its GPUs have not been watched for ");
		add_time(rule->window_ms, out);
		strbuf_adds(out, " yet");
		break;
	case SCALE_UNSEEN:
		strbuf_adds(out, "how busy its GPUs are is not known");
		break;
	default:
		add_mean(rule, scale_mean(s, rule, at->now_ns), out);
		strbuf_adds(out, ", between ");
		add_share(rule->down_permille, out);
		strbuf_adds(out, " and ");
		add_share(rule->up_permille, out);
	}
}

void scale_text(const struct scale *s, const struct scale_rule *rule, const struct scale_at *at,
		enum scale_verdict verdict, struct strbuf *out)
{
	bool busy =
		verdict == SCALE_GROW || (verdict >= SCALE_AT_MAX && verdict <= SCALE_ALLOCATIONS);
	bool idle = verdict == SCALE_SHRINK || (verdict >= SCALE_AT_MIN && verdict <= SCALE_BLIND);

	(busy ? tell_busy : idle ? tell_idle : tell_still)(s, rule, at, verdict, out);
}
