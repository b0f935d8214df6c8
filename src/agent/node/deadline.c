/* SPDX-License-Identifier: MIT */
#include "agent/node/deadline.h"

#include "base/clock.h"
#include "base/str.h"
#include "base/units.h"
#include "engine/engine.h"

#define CHECK_MS    10000
#define ASK_EACH_MS (3600 * MS_PER_S)
#define ASK_LAST_MS (ENGINE_LIMIT_MS + 5000) /* an answer takes so long at most */

void deadlines_begin(struct deadline all[DEADLINE_MAX], const struct agent_config *c,
		     uint64_t boot_ns)
{
	all[DEADLINE_FOR] = (struct deadline){ .id = DEADLINE_FOR, .noticed = true };
	all[DEADLINE_UNTIL] = (struct deadline){ .id = DEADLINE_UNTIL,
						 .clock = DEADLINE_WALL,
						 .at_ns = c->until_wall_ns,
						 .noticed = true };
	all[DEADLINE_LIFETIME] = (struct deadline){
		.id = DEADLINE_LIFETIME,
		.at_ns = c->lifetime_ms ? boot_ns + c->lifetime_ms * NS_PER_MS : 0,
		.whole_ms = c->lifetime_ms,
		.notice_ms = c->notice_ms,
		.then = c->lifetime_stops ? DRAIN_REQUEUE : DRAIN_WAIT,
		/* Where it is longer than the whole, it has just been told. */
		.noticed = !c->notice_ms || c->notice_ms >= c->lifetime_ms,
	};
	all[DEADLINE_JOB] =
		(struct deadline){ .id = DEADLINE_JOB, .then = DRAIN_EXPIRE, .noticed = true };
}

void deadline_set_job(struct deadline all[DEADLINE_MAX], uint64_t left_ms, uint64_t leave_ms,
		      uint64_t boot_ns)
{
	struct deadline *d = &all[DEADLINE_JOB];

	d->whole_ms = leave_ms;
	d->at_ns = boot_ns + (left_ms > leave_ms ? left_ms - leave_ms : 0) * NS_PER_MS;
	d->over = false;
}

void deadline_begin_for(struct deadline all[DEADLINE_MAX], const struct agent_config *c,
			uint64_t boot_ns)
{
	all[DEADLINE_FOR].whole_ms = c->for_ms;
	all[DEADLINE_FOR].at_ns = c->for_ms ? boot_ns + c->for_ms * NS_PER_MS : 0;
}

bool deadline_is_awaited(const struct deadline *d)
{
	return d->at_ns && !d->over;
}

uint64_t deadline_left_ms(const struct deadline *d, uint64_t boot_ns, uint64_t wall_ns)
{
	uint64_t now = d->clock == DEADLINE_WALL ? wall_ns : boot_ns;

	return d->at_ns > now ? (d->at_ns - now + NS_PER_MS - 1) / NS_PER_MS : 0;
}

uint64_t deadline_ask_ms(uint64_t left_ms, uint64_t asked_ms)
{
	uint64_t wait = left_ms > ASK_LAST_MS ? left_ms - ASK_LAST_MS : 0;

	if (wait > ASK_EACH_MS)
		wait = ASK_EACH_MS;
	if (asked_ms < ENGINE_POLL_MS && wait < ENGINE_POLL_MS - asked_ms)
		wait = ENGINE_POLL_MS - asked_ms;
	return left_ms && wait <= left_ms ? wait : UINT64_MAX;
}

uint64_t deadline_wall_ns(const struct deadline *d, uint64_t boot_ns, uint64_t wall_ns)
{
	return d->clock == DEADLINE_WALL ? d->at_ns : wall_ns + d->at_ns - boot_ns;
}

uint64_t deadlines_wait_ms(const struct deadline all[DEADLINE_MAX], uint64_t boot_ns,
			   uint64_t wall_ns)
{
	uint64_t wait = UINT64_MAX;

	for (size_t i = 0; i < DEADLINE_MAX; i++) {
		const struct deadline *d = &all[i];
		uint64_t left = deadline_left_ms(d, boot_ns, wall_ns);

		if (!deadline_is_awaited(d))
			continue;
		if (!d->noticed) /* one that was due before is told at once */
			left = left > d->notice_ms ? left - d->notice_ms : 0;
		left = left < CHECK_MS ? left : CHECK_MS;
		wait = left < wait ? left : wait;
	}
	return wait;
}

const char *deadline_why(const struct deadline *d, char *buf)
{
	static const char *const texts[] = {
		[DEADLINE_FOR] = "the time is up",
		[DEADLINE_UNTIL] = "the time has come",
		[DEADLINE_LIFETIME] = "the lifetime of %s is over",
		[DEADLINE_JOB] = "the job ends in %s at most",
	};
	char whole[UNIT_TEXT_MAX];

	return str_print(buf, DEADLINE_TEXT_MAX, texts[d->id],
			 unit_format_duration_exact(d->whole_ms, whole));
}

const char *deadline_what_then(const struct deadline *d)
{
	return d->then >= DRAIN_REQUEUE ? "what runs then is stopped and requeued"
					: "what runs then may end, and nothing more is started";
}

/* "24h", as perpetual-motion says it, and not "1d". */
static const char *whole_hours(uint64_t ms, char *buf)
{
	if (ms % MS_PER_H)
		return unit_format_duration_exact(ms, buf);
	return str_print(buf, UNIT_TEXT_MAX, "%lluh", (unsigned long long)(ms / MS_PER_H));
}

const char *deadline_announce(const struct deadline *d, uint64_t boot_ns, uint64_t wall_ns,
			      char *buf)
{
	char end[CLOCK_TEXT_MAX], whole[UNIT_TEXT_MAX];

	return str_print(buf, DEADLINE_TEXT_MAX, "Auto-shutdown at: %s (%s)",
			 clock_format_local(deadline_wall_ns(d, boot_ns, wall_ns), end),
			 whole_hours(d->whole_ms, whole));
}

void deadline_describe(const struct deadline *d, uint64_t boot_ns, uint64_t wall_ns,
		       struct strbuf *out)
{
	char text[DEADLINE_TEXT_MAX];

	if (d->at_ns)
		strbuf_addf(out, " %s: %s.", deadline_announce(d, boot_ns, wall_ns, text),
			    deadline_what_then(d));
}
