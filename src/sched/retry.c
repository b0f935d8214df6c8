/* SPDX-License-Identifier: MIT */

/*
 * One table says for each kind of end whether it counts as a try and whether the task goes back to
 * the queue whatever its number of retries; the rest is arithmetic. A streak of fast failures ends
 * with an attempt that succeeds or lasts; ends that do not count leave it as it is.
 */
#include "sched/retry.h"

#include <string.h>

#include "base/clock.h"
#include "base/enumstr.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/units.h"

#define TAKEN_MS   1000
#define REFUSED_MS 10000
#define HOW_MAX	   256	/* of a text of the shim's as well */
#define STORM_MS   1000 /* from the end of a fast failure to the next of very many attempts */

struct kind_row {
	const char *name;
	const char *phrase; /* %d is the code, where there is one */
	bool counts;
	bool requeues;	  /* goes back without being a try */
	uint32_t wait_ms; /* then not before that */
	/* What is said of its going back; NULL: as of most. */
	const char *back;
};

static const struct kind_row kinds[] = {
	[END_EXIT] = { "exit", "exit code %d", true, false },
	[END_SIGNAL] = { "signal", "ended by signal %d", true, false },
	[END_OOM] = { "oom", "out of GPU memory (exit code %d)", true, false },
	[END_TIMEOUT] = { "timeout", "over its time limit", true, false },
	/* Who keeps a device from us may not be visible to the planner, which would try it again at
	 * once. */
	[END_TAKEN] = { "taken", "a newcomer took its device before it could start", false, true,
			TAKEN_MS },
	[END_PREEMPTED] = { "preempted", "preempted", false, true },
	[END_LIFETIME] = { "lifetime", "the lifetime of its agent was over", false, true },
	[END_EXPIRED] = { "expired", "expired: the job of its agent ended", false, true },
	[END_NODE_LOST] = { "node-lost", "its node was lost", false, true },
	/* Whether its gang runs again is known when all of it has ended. */
	[END_GANG] = { "gang", "another rank of it has ended", false, true, 0,
		       "; ended with it, not counted as a try" },
	/* What a node is short of now. */
	[END_REFUSED] = { "refused", "it could not be started", false, true, REFUSED_MS },
	[END_STOPPED] = { "stopped", "stopped by its owner", false, false },
};
_Static_assert(ARRAY_LEN(kinds) == END_MAX, "a row for every kind of end");

const char *end_kind_name(unsigned int kind)
{
	return kind < END_MAX ? kinds[kind].name : "?";
}

void retry_defaults(struct retry_policy *p)
{
	*p = (struct retry_policy){
		.retry_every = 3,
		.backoff_ms = 10 * MS_PER_MIN,
		.fast_ms = 10 * MS_PER_S,
		.fast_limit = 3,
	};
}

static uint64_t add_sat(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t ms_to_ns(uint64_t ms)
{
	return ms > UINT64_MAX / NS_PER_MS ? UINT64_MAX : ms * NS_PER_MS;
}

static uint64_t scale(uint64_t bytes, uint32_t permille)
{
	return bytes / 1000 * permille + bytes % 1000 * permille / 1000;
}

/* Never less than it asked for, whatever the devices have, and never more than they are known to
 * have: it would wait for good. */
static void raise_memory(struct retry_verdict *v, const struct retry_policy *p, uint64_t *bytes)
{
	char was[UNIT_TEXT_MAX], is[UNIT_TEXT_MAX];
	uint64_t more = p->oom_permille > 1000 ? scale(*bytes, p->oom_permille) : *bytes;
	bool capped = more > p->oom_cap_bytes;
	size_t len = strlen(v->text);

	if (more == *bytes)
		return;
	if (capped)
		more = p->oom_cap_bytes > *bytes ? p->oom_cap_bytes : *bytes;
	if (more == *bytes)
		str_print(v->text + len, sizeof(v->text) - len,
			  ", with %s per GPU as before, as %s", unit_format_gib(more, is),
			  p->oom_cap_bytes ? "no GPU here has more"
					   : "no GPU can be seen here now");
	else
		str_print(v->text + len, sizeof(v->text) - len, ", with %s per GPU instead of %s%s",
			  unit_format_gib(more, is), unit_format_gib(*bytes, was),
			  capped ? ", all that a GPU here has" : "");
	*bytes = more;
}

static bool fails_at_once(const struct retry_policy *p, struct retry_streak *streak,
			  const struct retry_end *end)
{
	if (!p->fast_ms || !p->fast_limit || p->retries == RETRY_FOREVER)
		return false;
	if (end->begun_ns < streak->paused_ns)
		return false;
	if (end->ran_ms >= p->fast_ms) {
		streak->fast = 0;
		return false;
	}
	return ++streak->fast >= p->fast_limit;
}

/* Nothing pauses a task that retries for ever, and each attempt has a log of its own. */
static uint64_t wait_after(const struct retry_policy *p, uint32_t tries, uint64_t ran_ms)
{
	uint64_t wait_ms = p->retry_every && tries % p->retry_every == 0 ? p->backoff_ms : 0;
	bool storm = p->retries == RETRY_FOREVER && ran_ms < p->fast_ms;

	return storm && wait_ms < STORM_MS ? STORM_MS : wait_ms;
}

static void say_try(struct retry_verdict *v, const char *how, const struct retry_policy *p,
		    uint32_t tries, uint64_t wait_ms)
{
	char wait[UNIT_TEXT_MAX];

	if (p->retries == RETRY_FOREVER)
		str_print(v->text, sizeof(v->text), "%s, try %u", how, tries);
	else
		str_print(v->text, sizeof(v->text), "%s, try %u of %llu", how, tries,
			  (unsigned long long)p->retries + 1);
	if (v->what == RETRY_AGAIN && !v->pause) {
		size_t len = strlen(v->text);

		str_print(v->text + len, sizeof(v->text) - len, wait_ms ? "; next in %s" : "%s",
			  wait_ms ? unit_format_duration(wait_ms, wait) : "; next at once");
	}
}

static void say_pause(struct retry_verdict *v, const struct retry_policy *p,
		      const struct retry_streak *streak)
{
	char within[UNIT_TEXT_MAX];
	size_t len = strlen(v->text);

	str_print(v->text + len, sizeof(v->text) - len,
		  "; paused: %u failures in a row, each within %s of its start", streak->fast,
		  unit_format_duration(p->fast_ms, within));
}

static void decide_failure(struct retry_verdict *v, const char *how, const struct retry_policy *p,
			   struct retry_state *state, struct retry_streak *streak,
			   const struct retry_end *end, uint64_t now_ns)
{
	bool more = !end->last && (p->retries == RETRY_FOREVER || state->tries < p->retries);
	uint64_t wait_ms;

	v->counted = true;
	if (state->tries < UINT32_MAX)
		state->tries++;
	wait_ms = wait_after(p, state->tries, end->ran_ms);
	v->what = more ? RETRY_AGAIN : RETRY_FAILED;
	v->at_ns = more ? add_sat(now_ns, ms_to_ns(wait_ms)) : 0;
	v->pause = fails_at_once(p, streak, end);
	say_try(v, how, p, state->tries, wait_ms);
	if (more && end->kind == END_OOM)
		raise_memory(v, p, &state->mem_bytes);
	if (v->pause) {
		say_pause(v, p, streak);
		*streak = (struct retry_streak){ .paused_ns = now_ns };
	}
}

struct retry_verdict retry_decide(const struct retry_policy *p, struct retry_state *state,
				  struct retry_streak *streak, const struct retry_end *end,
				  uint64_t now_ns)
{
	struct retry_verdict v = { .what = RETRY_DONE };
	const struct kind_row *row = end->kind < END_MAX ? &kinds[end->kind] : &kinds[END_EXIT];
	char how[HOW_MAX], limit[UNIT_TEXT_MAX];

	str_print(how, sizeof(how), row->phrase, end->code);
	if (end->kind == END_TIMEOUT && p->limit_ms) {
		size_t len = strlen(how);

		str_print(how + len, sizeof(how) - len, " of %s",
			  unit_format_duration_exact(p->limit_ms, limit));
	}
	if (end->why && *end->why && (!row->counts || end->kind == END_EXIT))
		str_copy(how, sizeof(how), end->why);
	if (end->kind == END_EXIT && end->code == 0) {
		streak->fast = 0;
		str_copy(v.text, sizeof(v.text), "done");
	} else if (row->counts) {
		decide_failure(&v, how, p, state, streak, end, now_ns);
	} else {
		bool anyway = end->never_ran || end->kind == END_TAKEN;
		bool again = row->requeues && !end->last && (!p->no_requeue || anyway);

		v.what = again ? RETRY_AGAIN : row->requeues ? RETRY_FAILED : RETRY_CANCELLED;
		v.at_ns = again ? add_sat(now_ns, ms_to_ns(row->wait_ms)) : 0;
		str_print(v.text, sizeof(v.text), "%s%s", how,
			  !again      ? ""
			  : row->back ? row->back
				      : "; back in the queue, not counted as a try");
	}
	return v;
}
