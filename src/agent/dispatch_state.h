/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_DISPATCH_STATE_H
#define TENURE_AGENT_DISPATCH_STATE_H

/*
 * The struct of the instance's tasks on this node, for the files that work on it: dispatch (the
 * plan), stops, leases, nodes (other agents, and what ran before). What each of them does is
 * declared in its own header; here is what several of them need.
 */

#include <jansson.h>
#include <limits.h>

#include "agent/attempt/attempt.h"
#include "agent/attempt/sweep.h"
#include "agent/attempt/workload.h"
#include "agent/queue/groupcommit.h"
#include "agent/queue/lanes.h"
#include "agent/queue/node_watch.h"
#include "agent/queue/orderbox.h"
#include "agent/queue/recovery.h"
#include "agent/queue/spoolwatch.h"
#include "agent/reserving.h"
#include "sched/forecast.h"

struct dispatch_ops {
	/* Orders of control/, and one of control.json. */
	const struct orderbox_ops *orders;
	void (*file_order)(void *user, const struct control_order *o);
	/* What waits, runs or has ended is another. */
	void (*changed)(void *user);
	/* What an attempt has used is about to be written down; it runs, or has other devices. */
	void (*closing)(void *user, struct attempt *a);
	void (*moved)(void *user);
	/* A task is over, after it is filed; or it is known now what ran before. */
	void (*over)(void *user);
	/* The last day of the devices, where others are due to be told of it, as the agent tells it
	 * its clients; last: it ends now. A new reference, or NULL. */
	json_t *(*history)(void *user, bool last);
};

/* It only rises. */
enum dispatch_mode {
	DISPATCH_RUN,	/* it plans, and starts what the plan says */
	DISPATCH_DRAIN, /* nothing more is started: the agent drains, or another has our name */
	DISPATCH_END,	/* nor is anything planned: the agent ends */
};

struct dispatch {
	uv_loop_t *loop;
	const struct agent_config *c;
	const struct node_self *self;
	char *spool_dir;
	char run_dir[PATH_MAX]; /* nodes_find_places() */
	struct attempt_place place;
	struct sweep_place sweeping;
	struct spooler *spooler;
	struct node_watch *node_watch;
	struct recovery *recovery;
	struct pool_ticks *ticks;
	struct gangs *gangs;
	struct on_end *on_end;
	struct spoolwatch *spoolwatch;
	unsigned int told_devices; /* in the last heartbeat */
	uint32_t told_seen;	   /* devices that the status beside it tells of */
	struct sched_queue *plan;
	struct stops *stops;
	size_t n_times;
	struct forecast_time *times; /* how long runs take, as far as is known */
	size_t n_after;
	struct forecast_after *after; /* who waits for whom, by rising ids */
	struct orderbox *orderbox;
	struct lanes lanes;
	struct text_list wide_lanes; /* whose width was set */
	uv_timer_t plan_timer;
	uv_timer_cb on_plan;
	struct groupcommit *groupcommit;
	uv_timer_t lease_timer; /* running tasks of which the guard could not take the lease */
	unsigned int handles;
	size_t n_leases;
	struct msg_lease_state *leases; /* as the guard told them when the line came up */
	size_t n_early;
	struct msg_lease_taken *early; /* of tasks that are not taken over yet; leases_adopted() */
	bool leases_known;
	struct reserving reserving;
	struct workload *workload;
	struct device_trust *trust;
	struct devset growing; /* devices that a running task is about to get: no workload there */
	bool unwatched;	       /* nobody sees who comes: no workload */
	bool paused;	       /* the agent is about to stop, or is stopped (Ctrl-Z) */
	enum dispatch_mode mode;
	char why[ERR_TEXT_MAX]; /* nothing more is started */
	int claim_code;		/* why nothing could be claimed last; 0 */
	uint64_t n_done, n_failed, n_retried;
	const struct dispatch_ops *ops;
	void *user;
};

/* Start nothing more; what runs runs on. Again: with another reason. */
void dispatch_drain(struct dispatch *q, const char *why);
/* There is a queue. */
bool dispatch_is_open(const struct dispatch *q);
/* Those that run, or are about to. */
size_t dispatch_running(const struct dispatch *q);
/* Of these, those that run on without this agent: not a rank that waits for the others, whose shim
 * ends with its agent. */
size_t dispatch_outliving(const struct dispatch *q);
/* Devices of attempts. */
struct devset dispatch_busy_devices(const struct dispatch *q);
/* A plan in the next turn of the loop. */
void dispatch_plan_soon(struct dispatch *q);

#endif
