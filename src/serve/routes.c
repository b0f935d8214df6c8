/* SPDX-License-Identifier: MIT */
#include "serve/routes.h"

#include "serve/session.h"

#define API "/api/v1"

const struct route routes[] = {
	{ "GET", API "/health", 0, session_health },
	{ "POST", API "/session", ROUTE_OPEN | ROUTE_WRITE | ROUTE_SLOW, session_begin },
	{ "GET", API "/session", 0, session_show },
	{ "DELETE", API "/session", ROUTE_OPEN | ROUTE_WRITE, session_end },
	{ 0 },
};
