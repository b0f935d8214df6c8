/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SERVE_LOGS_H
#define TENURE_SERVE_LOGS_H

/*
 * What a task has printed: a range of bytes (RFC 9110, one range), LOGS_PIECE at most in one
 * answer, or with ?follow as a stream that ends with the task. Files are read by workers.
 */

#include "serve/request.h"

#define LOGS_PIECE (8UL << 20)

void logs_answer(struct serve *s, struct request *r);

#endif
