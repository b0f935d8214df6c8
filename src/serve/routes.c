/* SPDX-License-Identifier: MIT */
#include "serve/routes.h"

#include "serve/act.h"
#include "serve/events.h"
#include "serve/history.h"
#include "serve/logs.h"
#include "serve/look.h"
#include "serve/metrics.h"
#include "serve/session.h"

#define API "/api/v1"

const struct route routes[] = {
	{ "GET", "/metrics", 0, metrics_answer, { "names" } },
	{ "GET", API "/health", 0, session_health },
	{ "POST", API "/session", ROUTE_OPEN | ROUTE_WRITE | ROUTE_SLOW, session_begin },
	{ "GET", API "/session", 0, session_show },
	{ "DELETE", API "/session", ROUTE_OPEN | ROUTE_WRITE, session_end },
	{ "GET", API "/status", 0, look_status },
	{ "GET", API "/devices", 0, look_devices },
	{ "GET", API "/devices/history", ROUTE_SLOW, history_answer, { "since", "step" } },
	{ "GET", API "/devices/{device}/history", ROUTE_SLOW, history_answer, { "since", "step" } },
	{ "GET", API "/yields", ROUTE_SLOW, history_yields, { "since", "limit" } },
	{ "GET", API "/hold", 0, look_hold },
	{ "PATCH", API "/hold", ROUTE_WRITE | ROUTE_SLOW, act_change_hold },
	{ "GET", API "/asks", 0, look_asks },
	{ "POST", API "/asks/{name}/answer", ROUTE_WRITE | ROUTE_SLOW, act_answer },
	{ "GET", API "/nodes", 0, look_nodes },
	{ "GET", API "/nodes/{node}/history", ROUTE_SLOW, history_of_node, { "since" } },
	{ "GET", API "/pools", 0, look_pools },
	{ "POST", API "/pools", ROUTE_WRITE | ROUTE_SLOW, act_up },
	{ "POST", API "/pools/tick", ROUTE_WRITE | ROUTE_SLOW, act_tick },
	{ "DELETE", API "/pools/{name}", ROUTE_WRITE | ROUTE_SLOW, act_down, { "now" } },
	{ "GET", API "/instances", ROUTE_SLOW, act_instances },
	{ "GET", API "/events", 0, events_stream, { "last" } },
	{ "GET",
	  API "/tasks",
	  0,
	  look_tasks,
	  { "limit", "cursor", "state", "lane", "name", "ended" } },
	{ "POST", API "/tasks", ROUTE_WRITE | ROUTE_SLOW, act_submit },
	{ "GET", API "/tasks/{task}", ROUTE_SLOW, act_show },
	{ "GET", API "/tasks/{task}/why", ROUTE_SLOW, act_why },
	{ "GET",
	  API "/tasks/{task}/log",
	  ROUTE_SLOW,
	  logs_answer,
	  { "attempt", "follow", "from" } },
	{ "POST", API "/tasks/{task}/stop", ROUTE_WRITE | ROUTE_SLOW, act_stop },
	{ "POST", API "/tasks/{task}/retry", ROUTE_WRITE | ROUTE_SLOW, act_retry },
	{ "POST", API "/tasks/{task}/priority", ROUTE_WRITE | ROUTE_SLOW, act_priority },
	{ "POST", API "/tasks/{task}/pause", ROUTE_WRITE | ROUTE_SLOW, act_pause },
	{ "POST", API "/tasks/{task}/resume", ROUTE_WRITE | ROUTE_SLOW, act_resume },
	{ "POST", API "/lanes/{name}/pause", ROUTE_WRITE | ROUTE_SLOW, act_pause_lane },
	{ "POST", API "/lanes/{name}/resume", ROUTE_WRITE | ROUTE_SLOW, act_resume_lane },
	{ "GET", API "/allocations", ROUTE_SLOW, act_allocations },
	{ "POST", API "/allocations", ROUTE_WRITE | ROUTE_SLOW, act_allocate },
	{ "DELETE", API "/allocations/{name}", ROUTE_WRITE | ROUTE_SLOW, act_release },
	{ 0 },
};
