/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SERVE_SESSION_H
#define TENURE_SERVE_SESSION_H

/* A browser's session, which is its cookie (access.h), and whether all is well. */

#include "serve/request.h"

void session_health(struct serve *s, struct request *r);
/* {token}: the cookie for it. */
void session_begin(struct serve *s, struct request *r);
void session_show(struct serve *s, struct request *r);
void session_end(struct serve *s, struct request *r);

#endif
