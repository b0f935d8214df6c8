/* SPDX-License-Identifier: MIT */
#ifndef TENURE_NOTIFY_TRANSFER_H
#define TENURE_NOTIFY_TRANSFER_H

/* What mail and webhook share of libcurl. */

#include <curl/curl.h>

#include "base/err.h"
#include "notify/config.h"

/* With the channel's limits and certificates. The caller's; NULL with e. */
CURL *transfer_new(const struct channel *ch, struct err *e);
/* 0, or -errno with what libcurl's code means to the person who reads it. */
int transfer_run(CURL *curl, const struct channel *ch, struct err *e);

#endif
