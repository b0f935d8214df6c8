/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_GUARD_BASELINE_H
#define TENURE_HOLD_GUARD_BASELINE_H

/*
 * Whose memory is it that is in use just after a hold? Where processes of others may be missing
 * from the lists, a newcomer within the first moments of a hold must not become part of its figure,
 * above which everything is foreign. So what is seen is compared with what explains it: what was in
 * use before, what the driver says of our holder or, where it says nothing, what the holder took
 * and what a context costs. Pure.
 *
 * What the driver uses besides for us is not known beforehand: a small rest that is the same at two
 * holds in a row is ours from then on. So at worst one hold is given up for nothing, and the figure
 * of the first is not taken before everything of ours is there. Once it was (learnt), what is more
 * is somebody's from the moment on that the memory is ours. When that was wrong two are given up.
 */

#include <stdbool.h>
#include <stdint.h>

#define BASELINE_RISE_BYTES    (16ULL << 20) /* less is noise */
#define BASELINE_SLACK_BYTES   (512ULL << 20)
#define BASELINE_CONTEXT_BYTES (1ULL << 30) /* a context at most; 0.5 GiB on an H200 */

struct baseline {
	uint64_t others;  /* in use by what was there before us */
	uint64_t context; /* what ours cost besides the memory that was taken; 0: not known yet */
	uint64_t slack;	  /* used for us, and said to be nobody's */
	uint64_t odd;	  /* what was not explained the last time */
	bool learnt;	  /* context and slack explained all of a hold */
};

/*
 * A hold begins; used bytes are in use. What was learnt stays. placeholder: our context is there
 * already; own is what the driver lists for it, 0 where it does not.
 */
void baseline_begin(struct baseline *s, uint64_t used, bool placeholder, uint64_t own);

/* How many of the seen bytes in use nothing explains, before the figure is taken; 0 where nothing
 * was learnt yet. Arguments as below. */
uint64_t baseline_early(const struct baseline *s, uint64_t seen, uint64_t own, uint64_t held);

/* A hold was given up for what baseline_early() said, which may have been ours. */
void baseline_doubt(struct baseline *s);

/*
 * How many of the seen bytes in use nothing explains; 0: they are the figure of the hold. own: our
 * holder's as the driver lists it, 0 where it does not. held: what our holder says that it took.
 */
uint64_t baseline_excess(struct baseline *s, uint64_t seen, uint64_t own, uint64_t held);

/*
 * The memory figure of a hold: what is in use with our hold alone, above which everything is
 * foreign. It is due some time after the holder has its memory, and a look that takes it is asked
 * for then. Pure.
 */
enum figure_state {
	FIGURE_OFF, /* there is none: nothing is held, or our holder's memory is on its way */
	FIGURE_DUE,
	FIGURE_ASKED, /* due, and the look that takes it was asked for */
	FIGURE_TAKEN,
};

struct figure {
	enum figure_state is;
	uint64_t at_ns;		  /* when it is to be taken */
	uint64_t steady_ns;	  /* our holder neither takes nor frees since; 0: it does */
	uint64_t used;		  /* the figure, once it was taken */
	struct baseline baseline; /* what explains it */
};

/* There is none, and none is due. What was learnt stays. */
void figure_off(struct figure *f);

/* It is to be taken at at_ns. */
void figure_due(struct figure *f, uint64_t at_ns, uint64_t steady_ns);

/* It is due, and was not taken yet. */
bool figure_awaited(const struct figure *f);

void figure_take(struct figure *f, uint64_t used);

#endif
