/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SERVE_KEYS_H
#define TENURE_SERVE_KEYS_H

/*
 * Idempotency-Key: who did not hear the answer asks again with the same key, and what was asked is
 * not done twice, also when tenure serve was killed meanwhile. Each key has a file in the state
 * directory, serve-keys/HASH: what was asked, as a hash, in its first line; behind it the command
 * itself writes what it prints, and has it locked (flock) while it runs; what it said besides, as
 * a JSON text, is a line more. So the file says all, whoever is left to read it:
 *
 *	it has an answer	the same answer again
 *	it is locked		it is being done: 409, try again
 *	neither			the command came to nothing before it said a word: 409, for whoever
 *				uses another key after a look at the list
 *
 * Files go after a day.
 */

#include "serve/call.h"

#define KEYS_LIVE_S (24 * 3600)

struct serve;

/* Run the command for the key. True: c is as call_run() leaves it, now or at that time; false:
 * the answer is made. By a worker. */
bool keys_run(struct serve *s, struct request *r, const char *key, struct call *c);
/* Remove old files. By a worker, now and then. */
void keys_tidy(const struct serve *s);

#endif
