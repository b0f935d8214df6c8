/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_DEV_REASON_H
#define TENURE_HOLD_DEV_REASON_H

/*
 * Why a device is as it is, why a lease is refused, what an event is about: a code with its
 * arguments, as the guard sends it, and the sentence that people read.
 *
 * The guard knows a user by number alone: to look a name up can hang on a directory service. So the
 * number is an argument, and whoever makes the sentence gives a function for the name.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

enum dev_reason_code {
	DEV_REASON_TEXT,	 /* text is the sentence */
	DEV_REASON_PROCESS,	 /* "PID 77 (alice, python), 3.4 GiB" */
	DEV_REASON_TENURE,	 /* "tenure of alice (PID 77)": a holder that is not ours */
	DEV_REASON_LOCKED,	 /* "tenure of alice has it": that user's guard has its name */
	DEV_REASON_MEMORY,	 /* memory that no listed process explains; text is the sentence */
	DEV_REASON_HELD,	 /* "held for night": text is for whom */
	DEV_REASON_LEFT,	 /* "left for others by night (leave 1)": text is by whom */
	DEV_REASON_NOT_SELECTED, /* "not selected" */
	DEV_REASON_MAX
};

enum dev_reason_flags {
	DEV_REASON_BYTES = 1 << 0, /* what the process uses is known; 0 = it has just started */
};

#define DEV_REASON_NO_UID UINT32_MAX

/* Part of the messages between guard and agent (hold/proto.h). */
struct dev_reason {
	uint32_t code;	/* enum dev_reason_code */
	uint32_t flags; /* enum dev_reason_flags */
	int32_t pid;	/* of DEV_REASON_PROCESS and DEV_REASON_TENURE, else 0 */
	uint32_t uid;	/* of these and DEV_REASON_LOCKED; DEV_REASON_NO_UID: not known */
	uint64_t bytes; /* with DEV_REASON_BYTES */
	char comm[16];	/* of the process, or empty */
	char lead[40];	/* what comes before the sentence: "busy: ", "GPU 1: taken by " */
	char text[240];
};

/* The name of a user; NULL while it is not known: then it is "uid 1234". */
typedef const char *(*user_name_fn)(void *user, uint32_t uid);

struct user_names {
	user_name_fn name;
	void *user;
};

/* ret becomes DEV_REASON_TEXT; NULL is allowed. Returns code, which is for the caller. */
int dev_reason_set(struct dev_reason *ret, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Put words before the sentence; what is there already stays behind them. */
void dev_reason_lead(struct dev_reason *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* A message of another program is not trusted to end its texts. */
void dev_reason_end(struct dev_reason *r);

/* It speaks of a user, so the sentence has a name in it. */
bool dev_reason_has_user(const struct dev_reason *r);
/* The sentence. names may be NULL: users are shown by number. */
void dev_reason_text(const struct dev_reason *r, const struct user_names *names,
		     struct strbuf *out);
/* "text", "process", "tenure", "locked", "memory", "held", "left", "not-selected"; "text" for what
 * a later version may have. */
const char *dev_reason_code_name(uint32_t code);

#endif
