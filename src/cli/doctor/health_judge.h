/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_DOCTOR_HEALTH_JUDGE_H
#define TENURE_CLI_DOCTOR_HEALTH_JUDGE_H

/*
 * What follows of a look at the cards of a machine: a verdict for each and for all, and one line of
 * it that fits the reason of a node that is drained. Pure. What makes a card bad is said in
 * gpu/card_sign.h; a card that is missing is bad, and nothing is known where the driver itself
 * cannot be asked.
 */

#include "base/textlist.h"
#include "cli/doctor/health_accepted.h"
#include "cli/doctor/health_pass.h"
#include "gpu/card_sign.h"

#define HEALTH_LINE_MAX 480 /* bytes of the line, its end included */

enum health_verdict { HEALTH_GOOD, HEALTH_BAD, HEALTH_UNTESTED, HEALTH_VERDICT_MAX };

struct health_rules {
	const struct health_accepted *accepted;
	uint64_t xids_ms;	    /* reports of the driver that are older do not count */
	uint64_t now_ns;	    /* CLOCK_MONOTONIC */
	uint64_t expect;	    /* so many cards; 0: nothing was said */
	const uint32_t *agent_xids; /* by card: for which an agent does not use it; 0: none */
};

struct health_judgement {
	enum health_verdict verdict;
	uint32_t n; /* cards that were asked for, and are there */
	char line[HEALTH_LINE_MAX];
	struct text_list reasons; /* of the machine, not of a card: missing ones, the driver */
	struct text_list notes;
	struct health_card_judgement {
		enum health_verdict
			verdict; /* HEALTH_UNTESTED: also of one that was not asked for */
		struct card_signs signs;
		const char *since;	/* what stands behind a number that was counted */
		struct text_list notes; /* what else is worth knowing */
	} cards[GPU_DEVICES_MAX];
};

/* Words of signs are borrowed of p. health_judgement_clear() it. */
void health_judge(const struct health_pass *p, const struct health_rules *rules,
		  struct health_judgement *ret);
void health_judgement_clear(struct health_judgement *j);

/* "good", "bad", "not-tested". */
const char *health_verdict_word(enum health_verdict v);

/* What is safe between the quotes of a shell, in an option of scontrol and in a table: letters,
 * digits, blanks and some marks; all else becomes ?. In place. */
void health_make_safe(char *text);

#endif
