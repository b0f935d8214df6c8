/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_NODE_SERVE_H
#define TENURE_CLI_NODE_SERVE_H

/* What `tenure serve`, `tenure web` and the program that serves agree on. */

#include "cli/serving.h"

#define SERVE_TOLD_MAX 4096 /* bytes of what it tells of itself */

/* The endpoint (base/endpoint.h) of the one that serves this instance; buf: SOCKET_NAME_MAX. */
char *serve_socket_name(const struct cmd_ctx *ctx, char *buf);

#endif
