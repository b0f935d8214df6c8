/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SERVE_EVENTS_H
#define TENURE_SERVE_EVENTS_H

/*
 * What happens, as Server-Sent Events (HTML, 9.2): each event of the agent with its id, `changed`
 * where there is something new to ask for, `lost` where the client could not be told of all, a
 * comment every STREAM_BEAT_S. Nothing is kept for a client but how far it is.
 */

#include "serve/request.h"

void events_stream(struct serve *s, struct request *r);

#endif
