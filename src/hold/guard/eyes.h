/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_GUARD_EYES_H
#define TENURE_HOLD_GUARD_EYES_H

/*
 * The guard's eyes: a thread that does all talking to NVML, so that the guard itself never stands
 * in a driver call. Any such call may queue for the driver's lock behind a starting program, or
 * hang.
 *
 * The guard says how often each device is to be looked at; the eyes look at one device at a time,
 * at the one that is due longest, and tell by eventfd when something is new: other processes,
 * memory that moved, an error, or a second has passed. They start NVML, start it again when it was
 * lost, ask now and then which devices there are, and number the devices: a slot belongs to one
 * UUID for as long as the guard lives.
 *
 * All calls below are for the guard's thread.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "gpu/device.h"
#include "gpu/health.h"

struct eyes;

/* What was last seen of one device. */
struct sample {
	uint64_t seq;  /* raised with every look that is told; 0: never looked at */
	int code;      /* 0, or why there is no look: -ENODEV lost, -EPROTO, -EIO */
	bool complete; /* utilisation was read since the last one was taken: GPU_LOOK_UTIL */
	bool checked;  /* modes were, since then: GPU_LOOK_ALL */
	struct gpu_look look;
	char trouble[200]; /* with code: what a person should read */
};

/* Start the thread. 0 and *ret, or -errno. NVML that does not start is no error here:
 * eyes_trouble(). granted: all others are as if they were not there; it is the thread's from here
 * on, and outlives the eyes. NULL: there are no others.
 */
struct granted;
int eyes_open(struct eyes **ret, struct granted *granted, struct err *e);

/* End the thread and free. Not called while a look hangs: the process then ends instead. */
void eyes_close(struct eyes *eyes);

/* Readable when there is something new; eyes_ack() before looking. */
int eyes_fd(const struct eyes *eyes);
void eyes_ack(struct eyes *eyes);

/* NVML was tried: that takes seconds where no driver is kept awake, and for ever where it hangs.
 * Until then there are no slots, and no trouble. eyes_fd() tells. */
bool eyes_ready(struct eyes *eyes);

/* 0 while NVML works; else what is wrong, in text. */
int eyes_trouble(struct eyes *eyes, char *text, size_t size);

/* Driver version, empty when unknown. */
void eyes_driver(struct eyes *eyes, char *text, size_t size);

/* Cards that are there and were not granted; devices that were, and are not there. */
void eyes_granted(struct eyes *eyes, uint32_t *ret_others, uint32_t *ret_unseen);

/* Slots in use; a slot's device (false: it is not there just now). */
uint32_t eyes_count(struct eyes *eyes);
bool eyes_device(struct eyes *eyes, uint32_t slot, struct gpu_device *ret);

/* Slots whose cards NVLink joins with that one; empty until that was asked, after the start. */
struct eyes_peers {
	uint64_t w[GPU_DEVICES_MAX / 64];
};
struct eyes_peers eyes_peers(struct eyes *eyes, uint32_t slot);

/* Take a copy of what was last seen of slot. False: nothing newer than seq. With 0 what there is
 * can be had again, and none of it counts as taken. */
bool eyes_sample(struct eyes *eyes, uint32_t slot, uint64_t seq, struct sample *ret);

/* Look at slot every period_ns from now on; the first look not later than in period_ns. A period
 * below EYES_HINT_NS (timings.h) means that somebody may be coming: processes are listed more often
 * then. calm: nor more often where its memory moves, which is a reason else. */
void eyes_set_period(struct eyes *eyes, uint32_t slot, uint64_t period_ns, bool calm);

/* Somebody may be coming: nothing but looks is done meanwhile. */
void eyes_set_hint(struct eyes *eyes, bool on);

/* Look at slot as soon as possible, as deep as possible. */
void eyes_look_now(struct eyes *eyes, uint32_t slot);

/* An error report of the driver that came once or more often since it was last asked for. */
struct eyes_error {
	int32_t slot; /* of the card, or -1: of one that has no slot */
	uint32_t xid;
	uint32_t n;
};

/* The oldest that was not asked for yet. False: there is none. Read once a second, and as soon as
 * no look is due when something has ended that one may have ended. */
bool eyes_next_error(struct eyes *eyes, struct eyes_error *ret);
void eyes_errors_now(struct eyes *eyes);

/*
 * How slot is doing, as far as it was read: false: nothing of it was read anew since seq, which is
 * then left as it is. Energy and clocks are read every EYES_MOVING_NS, counters of errors every
 * EYES_COUNTERS_NS, a few calls at a time, and only while nothing else is to be done: before a look
 * that is due, in a hint and where memory moves they wait. Nobody is woken for it.
 */
bool eyes_health(struct eyes *eyes, uint32_t slot, uint64_t *seq, struct gpu_health *ret);

/* Somebody watches: clocks, power and temperature are read every EYES_WATCHED_NS, in the same way;
 * power and temperature are put into look, which is one of slot. */
void eyes_set_watched(struct eyes *eyes, bool on);
void eyes_figures(struct eyes *eyes, uint32_t slot, struct gpu_look *look);

/* How well they keep their time, of devices for whose sake somebody may be hurt: those that are
 * looked at every HELD_LOOK_NS or more often. */
struct eyes_delay {
	uint64_t late_ns; /* the worst: from when a look was due to when it began */
	uint64_t took_ns; /* the longest that the driver took for one */
	uint32_t n_late;  /* looks that began later than EYES_LATE_NS */
};

/* Since this was asked last. */
struct eyes_delay eyes_take_delay(struct eyes *eyes);

/* Of the look that is going on, monotonic; 0: none is. */
uint64_t eyes_look_began_ns(const struct eyes *eyes);

#endif
