/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_BURN_PART_H
#define TENURE_AGENT_BURN_PART_H

/*
 * A burn of several nodes. There is no way between them but the spool, so each of them tells there
 * what it has seen of its devices, as it is, and who has asked for the burn judges all of them
 * together:
 *
 *	burns/NAME		the heartbeat of who asks (spool/heartbeat.h); who finds that it is
 *				gone, or has stood still for BURN_SILENT_MS, ends its part
 *	burns/NAME,AGENT	what the node of that agent has seen, replaced once a second
 *
 * The latter is read by the same version of this program alone: it has facts as they are in memory
 * (struct burnt), with the size and the version in front. What is read is bounded and terminated.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/burn/run.h"
#include "spool/files.h"
#include "spool/record.h"

#define BURN_SILENT_MS 60000 /* nothing is heard for so long: it has gone */

/* A new name, which nobody else has. ret: SPEC_NAME_MAX + 1 bytes; returns it. */
char *burn_call_name(const struct spool *sp, char *ret);
/* "burns/NAME", "burns/NAME,AGENT". buf: SPOOL_PATH_MAX bytes; return it. */
char *burn_call_path(const char *name, char *buf);
char *burn_part_path(const char *name, const char *agent, char *buf);
/* What was left behind by who could not remove it. */
void burn_remove_old(const struct spool *sp);

/* ---- on a node ---- */

/*
 * A thread of its own writes what it is told, and looks whether the burn is still wanted: the
 * filesystem may hang, and the guard waits for nobody.
 */
struct burn_part;

int burn_part_begin(const struct spool *sp, const char *name, const char *agent,
		    struct burn_part **ret, struct err *e);
/* How it stands; copied. */
void burn_part_tell(struct burn_part *p, const struct burn_state *state);
bool burn_part_is_wanted(struct burn_part *p);
/* The last word: what came of it, and with a negative code why nothing did. Waits some seconds for
 * it to be written. Returns NULL. */
struct burn_part *burn_part_end(struct burn_part *p, const struct burn_state *state, int code,
				const char *why);

/* ---- by who has asked ---- */

struct burn_told {
	uint64_t count; /* one higher each time */
	struct claimer who;
	bool over;
	int code;
	char why[256]; /* with a negative code; else empty */
	uint64_t for_ns;
	uint32_t n;
	struct burnt *devices; /* times are moved to the clock of this node */
};

/* 0; -ENOENT: it has told nothing yet; -EPROTO: another version has; -EINVAL: it makes no sense;
 * -errno. To be cleared. */
int burn_told_read(const struct spool *sp, const char *name, const char *agent,
		   struct burn_told *ret, struct err *e);
void burn_told_clear(struct burn_told *t);
/* The same of bytes. Pure: now_ns is monotonic. */
int burn_told_parse(const void *data, size_t len, uint64_t now_ns, struct burn_told *ret,
		    struct err *e);
/* What is told of n devices; the caller frees it. told->devices is not looked at. */
void *burn_told_text(const struct burn_told *told, const struct burnt *devices, uint64_t now_ns,
		     size_t *ret_len);

#endif
