/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_NODE_DEADLINE_H
#define TENURE_AGENT_NODE_DEADLINE_H

/*
 * When an agent that nobody ends does so by itself: --for and --until, and --lifetime, which first
 * sees to its tasks; and before the job of an engine ends in which it runs. What is counted from a
 * start goes by a clock that no step changes and that goes on while the machine is suspended:
 * whoever is promised the GPUs after a day does not care that we slept. --until is a time by
 * people's clocks. Pure: the clocks are arguments.
 */

#include <stdbool.h>

#include "agent/node/config.h"
#include "base/strbuf.h"

enum deadline_id { DEADLINE_FOR, DEADLINE_UNTIL, DEADLINE_LIFETIME, DEADLINE_JOB, DEADLINE_MAX };
enum deadline_clock { DEADLINE_BOOT, DEADLINE_WALL }; /* clock_boot_ns(), clock_wall_ns() */

struct deadline {
	enum deadline_id id;
	enum deadline_clock clock;
	uint64_t at_ns;	     /* 0: there is none */
	uint64_t whole_ms;   /* so long after its start */
	uint64_t notice_ms;  /* so long before it is told */
	enum drain_how then; /* DRAIN_NOT: shut down at once */
	bool noticed, over;  /* told, or not to be; and it was acted upon */
};

#define DEADLINE_TEXT_MAX 96

/* At the agent's start: all but --for, which counts from when it holds. */
void deadlines_begin(struct deadline all[DEADLINE_MAX], const struct agent_config *c,
		     uint64_t boot_ns);
void deadline_begin_for(struct deadline all[DEADLINE_MAX], const struct agent_config *c,
			uint64_t boot_ns);
/* The job ends in so long: the agent begins to leave leave_ms before that. Again: another time. */
void deadline_set_job(struct deadline all[DEADLINE_MAX], uint64_t left_ms, uint64_t leave_ms,
		      uint64_t boot_ns);
/* How long to wait before the engine is asked once more when the job ends, left_ms before the agent
 * begins to leave and asked_ms after it was last asked (UINT64_MAX: it never was). UINT64_MAX: not
 * any more. */
uint64_t deadline_ask_ms(uint64_t left_ms, uint64_t asked_ms);
bool deadline_is_awaited(const struct deadline *d);
/* 0: it is due. */
uint64_t deadline_left_ms(const struct deadline *d, uint64_t boot_ns, uint64_t wall_ns);
/* By the wall clock as it is set now. */
uint64_t deadline_wall_ns(const struct deadline *d, uint64_t boot_ns, uint64_t wall_ns);
/* Until one of them, or its notice, may be due: a loop's timer stands still while the machine is
 * suspended, and the wall clock may be stepped, so it is never long. UINT64_MAX: there is none. */
uint64_t deadlines_wait_ms(const struct deadline all[DEADLINE_MAX], uint64_t boot_ns,
			   uint64_t wall_ns);

/* "the time is up". buf of DEADLINE_TEXT_MAX, which is returned. */
const char *deadline_why(const struct deadline *d, char *buf);
/* "what runs then may end, and nothing more is started" */
const char *deadline_what_then(const struct deadline *d);
/* "Auto-shutdown at: 2026-11-24 10:00:00 (24h)", in the words that perpetual-motion's users know,
 * and may search for. buf of DEADLINE_TEXT_MAX, which is returned. */
const char *deadline_announce(const struct deadline *d, uint64_t boot_ns, uint64_t wall_ns,
			      char *buf);
/* " Auto-shutdown at: ... (24h): what runs then ...", or nothing. */
void deadline_describe(const struct deadline *d, uint64_t boot_ns, uint64_t wall_ns,
		       struct strbuf *out);

#endif
