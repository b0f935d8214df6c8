/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_NODE_QUARANTINE_H
#define TENURE_AGENT_NODE_QUARANTINE_H

/*
 * Devices that are kept from tasks because tasks have failed there with errors of the device. Pure,
 * but for the two functions that read and write its file.
 *
 * The rule. An outcome blames its device where the end of the log says that the device failed
 * (data/device-patterns), or the driver has reported such an error while the task ran there. Two
 * different tasks within an hour shut a device, if they are of two programs (names), or of one that
 * has ended well on another device within a day. What a program says on one device counts for
 * nothing if it says the same on another one within that hour: then it is the program, or the node.
 * A device that was shut by such is opened again when that comes out. So one broken program shuts
 * nothing for good, wherever it goes and however often it is tried.
 *
 *	trusted		gets tasks
 *	shut		gets none: for an hour, after a relapse for twice as long each
 *			time, a day at most
 *	probation	gets tasks: one that ends well makes it trusted, one that fails
 *			with such an error shuts it
 *
 * A person's word, or a check of its health that it passes, makes it trusted; a check that it fails
 * shuts it until one of these says otherwise. After a reboot what was shut is on probation. It is
 * about tasks alone: a hold there does no harm. A device for which the driver has reported an error
 * is not used before it was reset (hold/guard/xid.h); this is what is remembered beyond that.
 *
 * All agents of a user on a node share one file; each of them joins what it knows to it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define QUARANTINE_UUID_MAX 96
#define QUARANTINE_NAME_MAX 65
#define QUARANTINE_WORD_MAX 64
#define QUARANTINE_TEXT_MAX 200
#define QUARANTINE_DEVICES  128
#define QUARANTINE_OUTCOMES 192

enum quarantine_state {
	QUARANTINE_TRUSTED,
	QUARANTINE_SHUT,
	QUARANTINE_PROBATION,
	QUARANTINE_STATE_MAX
};

enum quarantine_event {
	QUARANTINE_BLAMED,    /* the rule holds */
	QUARANTINE_EXCUSED,   /* it does not hold any more */
	QUARANTINE_FAILED,    /* one outcome that blames it */
	QUARANTINE_WENT_WELL, /* a task has ended well there */
	QUARANTINE_TIME_IS_OVER,
	QUARANTINE_REBOOT,
	QUARANTINE_PERSON,  /* says that it is to be used */
	QUARANTINE_HEALTHY, /* a check of its health has passed */
	QUARANTINE_SICK,    /* or has failed */
	QUARANTINE_EVENT_MAX
};

/* How a task ended on a device. */
struct quarantine_outcome {
	char uuid[QUARANTINE_UUID_MAX];
	char name[QUARANTINE_NAME_MAX]; /* of the program, as its task is called */
	char task[QUARANTINE_WORD_MAX]; /* "default 42.7" */
	char what[QUARANTINE_WORD_MAX]; /* the error that blames the device; "": it ended well */
	uint64_t ended_ns;		/* wall */
};

struct quarantine_device {
	char uuid[QUARANTINE_UUID_MAX];
	enum quarantine_state state;
	uint64_t changed_ns; /* wall */
	uint64_t until_ns;   /* shut until then; 0: until it is said */
	unsigned int times;  /* that it was shut within a day of being trusted again */
	bool by_tasks;	     /* shut by the rule */
	char reason[QUARANTINE_TEXT_MAX];
};

struct quarantine {
	char boot[64];
	size_t n_devices, n_outcomes;
	struct quarantine_device devices[QUARANTINE_DEVICES];	 /* that were shut once, by UUID */
	struct quarantine_outcome outcomes[QUARANTINE_OUTCOMES]; /* the last one last */
};

/* boot: NULL is this machine's. */
struct quarantine *quarantine_new(const char *boot);
struct quarantine *quarantine_free(struct quarantine *q);

/* A task has ended; what follows of it. */
void quarantine_note(struct quarantine *q, const struct quarantine_outcome *o, uint64_t now_ns);
/* What time brings. */
void quarantine_tick(struct quarantine *q, uint64_t now_ns);
/* PERSON, HEALTHY, SICK with its reason. */
void quarantine_say(struct quarantine *q, const char *uuid, enum quarantine_event event,
		    const char *reason, uint64_t now_ns);
/* NULL: it was never shut. */
const struct quarantine_device *quarantine_find(const struct quarantine *q, const char *uuid);
/* "in quarantine until 2026-11-24 22:10:00: why", "on probation: why"; "" where it is trusted.
 * Returns buf. */
#define QUARANTINE_WORDS_MAX 300
char *quarantine_words(const struct quarantine_device *d, char buf[QUARANTINE_WORDS_MAX]);
/* The rule, and in words; reason: QUARANTINE_TEXT_MAX. */
bool quarantine_blames(const struct quarantine *q, const char *uuid, uint64_t now_ns, char *reason);

/* What is in that text, of this file or another's, is joined: of a device the last word counts. A
 * text that is none changes nothing. */
void quarantine_join(struct quarantine *q, const char *text, size_t len, uint64_t now_ns);
/* The caller frees it. */
char *quarantine_text(const struct quarantine *q);

/* The caller frees it. */
char *quarantine_path(const char *state_dir, const char *host);
/* The file is joined to q, and has what q has then. 0 or -errno. May hang with its filesystem. */
int quarantine_sync(struct quarantine *q, const char *path, uint64_t now_ns, struct err *e);
/* Only read; there may be none. */
int quarantine_load(struct quarantine *q, const char *path, uint64_t now_ns, struct err *e);

#endif
