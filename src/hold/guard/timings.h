/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_GUARD_TIMINGS_H
#define TENURE_HOLD_GUARD_TIMINGS_H

/*
 * Every time that the guard waits, looks again or gives up, with its reason. What both ends of a
 * socket count is with the messages: GUARD_AWAIT_MS in hold/proto.h, HOLDER_HEARTBEAT_MS and
 * HOLDER_ALONE_MS in hold/holder_proto.h. What a person may choose is a setting.
 */

#include "base/clock.h"
#include "hold/holder_proto.h"
#include "hold/proto.h"

/* --- how often a device is looked at: guard.c says it to the eyes --- */

#define HINT_LOOK_NS  (2 * NS_PER_MS)  /* somebody may come: so often, in turn over what is held */
#define HINT_HELD_MAX 14	       /* of so many; of more the turn is a little longer */
#define EYES_HINT_NS  (30 * NS_PER_MS) /* a period below that is a hint to the eyes */
#define HELD_LOOK_NS  EYES_HINT_NS
#define USED_LOOK_NS  (250 * NS_PER_MS) /* by a task of ours */
#define IDLE_LOOK_NS  (2 * NS_PER_S)
/* Every call of ours would queue in front of the release. */
#define YIELDING_LOOK_NS    (250 * NS_PER_MS)
#define PREEMPTIBLE_LOOK_NS NS_PER_S	      /* who comes beside a preemptible task? */
#define PREEMPTIBLE_HINT_NS (100 * NS_PER_MS) /* the same while a hint is on */
#define OVER_LOOK_NS	    (5 * NS_PER_MS)   /* a task is over and its processes are listed yet */
#define STUCK_NS	    (500 * NS_PER_MS) /* eyes that are in one look for so long see nothing */

/* --- the eyes by themselves --- */

#define EYES_RESTART_NS	   (2 * NS_PER_S)    /* between two tries to start NVML */
#define EYES_RETRY_NS	   (2 * NS_PER_S)    /* between two looks at a device that failed */
#define EYES_DEEP_NS	   NS_PER_S	     /* utilisation is read, and the guard told, so often */
#define EYES_FIGURES_NS	   (5 * NS_PER_S)    /* power, temperature */
#define EYES_MODES_NS	   (10 * NS_PER_S)   /* compute mode, display */
#define EYES_LIST_NS	   (500 * NS_PER_MS) /* processes, at rest; memory is read at every look */
#define EYES_HINT_LIST_NS  (20 * NS_PER_MS)  /* the same while a hint is on */
#define EYES_ALERT_NS	   (400 * NS_PER_MS) /* after its memory moved a device is looked at ... */
#define EYES_ALERT_LOOK_NS (2 * NS_PER_MS)   /* ... so often, with its list */
#define EYES_ERRORS_NS	   NS_PER_S	   /* between two readings of the driver's error reports */
#define EYES_RELIST_NS	   (10 * NS_PER_S) /* between two questions which devices there are */
#define EYES_WATCHED_NS	   NS_PER_S	   /* clocks, power, temperature while somebody watches */
#define EYES_MOVING_NS	   (10 * NS_PER_S) /* energy and clocks, else */
#define EYES_COUNTERS_NS   (60 * NS_PER_S) /* errors of memory, links, PCIe */
#define EYES_LIMITS_NS	   (3600 * NS_PER_S) /* what does not change */
#define EYES_ROOM_NS	   NS_PER_MS	     /* to the next look at least, for such a reading */
#define EYES_LATE_NS	   (60 * NS_PER_MS)  /* what comes later than that is told */
#define EYES_SELDOM_NS	   (100 * NS_PER_MS) /* what takes longer is asked once in an hour */

/* --- hints (hints.h) --- */

#define HINT_TAIL_NS	 (3 * NS_PER_S)	   /* after the last open */
#define HINT_BALANCED_NS (300 * NS_PER_MS) /* the same once opens and closes balance */

/* --- what memory says (verdict.h) --- */

#define RISE_NS	       NS_PER_S		/* memory that rose is foreign after that */
#define UNLISTED_NS    (30 * NS_PER_MS) /* the same where it is as large as a context */
#define HIDDEN_REST_NS NS_PER_S /* who ends is not listed any more, and is cleaned up after */
#define HIDDEN_HELD_NS (200 * NS_PER_MS) /* listed after 16 ms; later where many start at once */

/* --- the way to a hold --- */

#define START_TURN_NS	  (2 * NS_PER_S)    /* a holder that starts has its turn for so long */
#define HOLDING_NS	  (30 * NS_PER_S)   /* to make a context and take the memory, at most */
#define LISTED_NS	  (200 * NS_PER_MS) /* a holder that has its memory is listed: 30-115 ms */
#define BASELINE_NS	  (300 * NS_PER_MS) /* from a hold to its memory figure */
#define GROW_NS		  (5 * NS_PER_S)    /* between two tries to take what is missing */
#define BLOCK_NS	  (60 * NS_PER_S)   /* after a failed hold, doubled up to 16 times that */
#define PROMISED_LOOK_NS  NS_PER_S	    /* looks at a device that a promise wants held */
#define PROMISED_FRESH_NS (50 * NS_PER_MS)  /* what was seen before is not what is there */
#define LOAD_TRAIL_NS	  (3 * NS_PER_S)    /* the utilisation is that of the load by then */
/*
 * Anybody can take the name of a device and keep it. So it is heeded for as long as another user's
 * tenure takes to be seen on the device; after that whoever has it is not there.
 */
#define NAME_HEEDED_NS (30 * NS_PER_S)

/* --- the way out of it --- */

/* To free memory. Seen: 40-65 ms, 135 with a newcomer who starts; longer without a processor. */
#define FREEING_NS	 NS_PER_S
#define FREEING_HURRY_NS (500 * NS_PER_MS) /* the same where all has to be gone within a second */
#define FREEING_FIRST_NS (75 * NS_PER_MS)  /* what it takes, before it was measured */
#define FREEING_TIMES	 4		   /* what takes so many times that never ends */
#define FREEING_LEAST_NS (300 * NS_PER_MS) /* but no sooner */
#define FREEING_TURN_NS	 (60 * NS_PER_MS)  /* what is longer was no turn of ours: we did not run */
#define PEEK_NS		 (50 * NS_PER_MS)  /* between two looks at what such a holder is doing */
#define LINGER_NS	 (2 * NS_PER_S)	   /* a context after a yield: the start of the newcomer */
#define ENDING_NS	 (2 * NS_PER_S)	   /* to end the process */
#define HEARTBEATS_MAX	 10		   /* of a holder that holds, unanswered */
/* The driver has given back what a killed holder had after 0.2 s; 0.35 s with its guard. */
#define DYING_NS (5 * NS_PER_S)

/* --- tasks --- */

#define CHAIN_NS       (60 * NS_PER_MS)	 /* for the agent to plan and to claim what comes next */
#define CHAIN_START_NS (500 * NS_PER_MS) /* for it to start that, from the promise to the grant */
#define REST_WAIT_NS   (2 * NS_PER_S)	 /* memory that stays longer is not of a task that ended */
#define FAILING_NS     (30 * NS_PER_S)	 /* a card that fails for so long is not waited for */
#define SHIMS_NS       (100 * NS_PER_MS) /* between two looks at shims that have no pidfd */
#define USAGE_TELL_NS  NS_PER_S
#define USAGE_PEAK_NS  (20 * NS_PER_MS) /* the same while it grows */
/* NVML's utilisation is a mean over the time before a look, up to that long (1/6 s to 1 s). */
#define UTIL_MEAN_NS NS_PER_S

/* --- the loop and its clients --- */

#define TURN_BUSY_MS  50 /* it turns at least so often while something is under way */
#define TURN_QUIET_MS 250
#define TURN_MOST_NS  (310 * NS_PER_MS) /* what is longer was no turn of ours: we did not run */
#define TELL_NS	      NS_PER_S		/* every client hears of every device so often */
#define DELAY_NS      NS_PER_S		/* between two questions how late the eyes were */
#define LATE_AGAIN_NS (600 * NS_PER_S)	/* that they were is not told sooner, if not far later */
#define XID_AGAIN_NS  (60 * NS_PER_S)	/* the same error of one device is not told sooner */
#define ACCEPT_NS     (5 * NS_PER_MS)	/* between two clients: somebody may connect and connect */
#define TURN_AWAY_NS  (100 * NS_PER_MS) /* between two answers on the names of devices */
#define WATCHED_NS    (3 * NS_PER_S)  /* somebody watches, after the last heartbeat that said so */
#define HELLO_NS      (10 * NS_PER_S) /* for a client to introduce itself */
#define RESCAN_NS     (10 * NS_PER_S) /* for device nodes that have come */
#define LONELY_NS     (2 * NS_PER_S)  /* a guard that no agent has greeted ends after that */
#define QUIT_NS	      (900 * NS_PER_MS) /* one that was told to end */

/* --- what has to be so --- */

_Static_assert(EYES_HINT_NS > HINT_LOOK_NS * HINT_HELD_MAX && EYES_HINT_NS <= HELD_LOOK_NS,
	       "the period of a held device tells the eyes of a hint");
_Static_assert(EYES_ALERT_LOOK_NS < EYES_HINT_LIST_NS,
	       "what moves is listed more often than what may move");
_Static_assert(UNLISTED_NS < RISE_NS, "a context is noticed before less than that");
_Static_assert(FREEING_LEAST_NS < FREEING_HURRY_NS && FREEING_HURRY_NS < FREEING_NS &&
		       FREEING_HURRY_NS < QUIT_NS,
	       "a guard that ends has freed the memory by then");
_Static_assert(HOLDER_ALONE_MS % HOLDER_HEARTBEAT_MS == 0 && HOLDER_ALONE_MS > HOLDER_HEARTBEAT_MS,
	       "a holder misses heartbeats and no part of one");
_Static_assert(HOLDER_ALONE_MS < HEARTBEATS_MAX * HOLDER_HEARTBEAT_MS &&
		       HEARTBEATS_MAX * HOLDER_HEARTBEAT_MS < GUARD_AWAIT_MS,
	       "a holder without a guard goes first, then one that does not answer, then all holds "
	       "of an agent that is gone");

#endif
