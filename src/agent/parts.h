/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_PARTS_H
#define TENURE_AGENT_PARTS_H

/*
 * The agent's parts, for those of them that need each other. A part's own state is known to its
 * file alone; what all may read is the configuration and the view, which few write. All of it on
 * the loop.
 */

#include <jansson.h>
#include <uv.h>

#include "agent/node/config.h"
#include "agent/node/selfcopy.h"
#include "agent/node/stuck.h"
#include "agent/node/view.h"
#include "spool/name.h"

struct agent {
	const struct agent_config *c; /* &config */
	struct agent_config config;   /* agent/reload.c alone writes to it */
	struct node_self self;
	uv_loop_t loop;
	struct view view;

	struct guardlink *link;
	struct dispatch *queue; /* NULL: it runs no tasks */
	struct agentlog *agentlog;
	struct eventlog *eventlog;
	struct ctl *ctl;
	struct startup *startup;
	struct lifecycle *life;
	struct watchdog *watchdog;
	struct history *history;
	struct meter *meter;
	struct verbs *verbs;
	struct asks *asks; /* NULL: it runs no tasks */
	struct reload *reload;
	json_t *given; /* the document that it goes by (reload.h), whose reload is; NULL */
	struct watch *watch;
	struct agent_job *job;	    /* NULL: it runs in none */
	struct subcommand *burning; /* a burn that was ordered (agent/burns.h); NULL: none is */
	struct helpers *helpers;    /* NULL: it is just starting, or has ended */

	uint64_t asked_ns; /* somebody asked for the status last */

	/* agent.c's own. */
	char host[256];
	char name[NAME_AGENT_MAX + 1];
	struct selfcopy program;
	uv_timer_t watch_timer;
	unsigned int looks_without_devices;
	struct stuck stuck[PROTO_DEVICES_MAX]; /* task_events_look_stuck() */
	unsigned int free_looks;	       /* allocations_look_free() */
	/* Of agent_run(), as the lifecycle sets them. */
	enum agent_end end;
	struct err *e;
};

#endif
