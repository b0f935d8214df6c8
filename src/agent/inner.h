/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_INNER_H
#define TENURE_AGENT_INNER_H

/*
 * The inside of the agent, for the files that make it up: agent.c (start and teardown), ready.c
 * (from the guard's first word to the answer for who started it), heard.c (what the guard says),
 * asked.c (what clients ask), pause.c (Ctrl-Z), lifetime.c, leaving.c (first the tasks, then the
 * agent), ending.c. All of it on the loop.
 */

#include <uv.h>

#include "agent/agent.h"
#include "agent/ctl.h"
#include "agent/node/guardlink.h"
#include "agent/node/selfcopy.h"
#include "agent/node/view.h"
#include "agent/report/agentlog.h"
#include "agent/report/eventlog.h"
#include "agent/report/users.h"
#include "agent/tasks.h"
#include "spool/name.h"

#define STOP_LIMIT_MS	1000 /* DROPPED is due; then we go on without it */
#define FLUSH_STEP_MS	5
#define SEE_LIMIT_MS	20000 /* a guard that starts may have to wake the driver up */
#define OFF_CLIENTS_MAX CTL_CLIENTS_MAX

enum signal_slot { SLOT_INT, SLOT_TERM, SLOT_HUP, SLOT_TSTP, SLOT_MAX };

struct agent {
	const struct agent_config *c;
	uv_loop_t loop;
	struct view view;
	char host[256];
	char name[NAME_AGENT_MAX + 1];
	struct node_self self;

	unsigned int looks_without_devices;

	struct guardlink *link;
	struct tasks *queue; /* NULL: it runs no tasks */
	struct agentlog *agentlog;
	struct users *users;
	struct eventlog *eventlog;
	struct ctl *ctl;
	struct program_copy program;

	uv_signal_t signals[SLOT_MAX];
	uv_timer_t end_timer;	/* --for, --until */
	uv_timer_t phase_timer; /* what is due in this part of the life */
	uv_timer_t table_timer; /* the first table is shown then at the latest */
	uv_timer_t files_timer; /* until it is known whether the files can be written */
	uv_timer_t watch_timer;
	uint64_t end_ns;       /* monotonic, --for */
	uv_timer_t life_timer; /* --lifetime */
	bool life_noticed;

	uint64_t told_ns;	       /* the policy was given to the link */
	uint64_t ready_ns;	       /* the guard took it */
	bool fresh[PROTO_DEVICES_MAX]; /* looked at since */
	bool table_due, silent, unread;
	uint64_t watched_ns, unseen_ns;
	uint64_t stop_ns, flush_ns;
	uv_timer_t pause_timer; /* Ctrl-Z */
	uint64_t pause_ns;
	bool pausing, dropped;
	bool workload_ends;	   /* then the rest */
	struct asked_later *asked; /* not answered yet: asked.c */
	uv_timer_t asked_timer;	   /* who waits for an answer gets one in time */
	struct ctl_client *off_clients[OFF_CLIENTS_MAX];
	size_t n_off;

	bool ended;
	enum agent_end end;
	struct err *e;
};

#endif
