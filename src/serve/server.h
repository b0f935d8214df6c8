/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SERVE_SERVER_H
#define TENURE_SERVE_SERVER_H

/*
 * The sockets, by libmicrohttpd: who may connect, how much and how slowly they may ask, and each
 * request from its head to its answer (request.h).
 *
 * Bounds, so that nobody costs more than a bit of memory for a while: SERVER_CONNECTIONS on each
 * socket, and beyond three quarters of them each newcomer ends the one that has waited longest
 * without asking anything; a request has to have come SERVER_READ_MS after its connection or the
 * answer before, however it trickles; an answer that is no stream is taken within SERVER_WRITE_MS;
 * heads of 32 KiB, bodies of 1 MiB; and of a processor each may use what budget.h leaves it, beyond
 * which it is told to come again (429).
 */

#include <stdbool.h>

#include "base/err.h"
#include "serve/request.h"

#define SERVER_CONNECTIONS 640
#define SERVER_READ_MS	   10000
#define SERVER_WRITE_MS	   60000
#define SERVER_SLOW_S	   15U

struct serve;
struct server;

struct server *server_new(struct serve *s, const struct route *routes);
/* Serve on fd, which it takes over. local: a Unix socket, for processes of our user alone. What it
 * served on before as such goes on with those who are connected. 0 or negative. */
int server_listen(struct server *sv, int fd, bool local, struct err *e);
/* To be called often: ends who is too slow. */
void server_pulse(struct server *sv);
/* After streams_end() and workers_free(). */
struct server *server_free(struct server *sv);

#endif
