/* SPDX-License-Identifier: MIT */
#ifndef TENURE_NOTIFY_OUTBOX_H
#define TENURE_NOTIFY_OUTBOX_H

/*
 * What is still to be told, to each channel, and how far the events have been read: one file, which
 * is replaced as a whole, so that an event is either not read yet or in the outbox. Of each channel
 * it knows when it may be tried next and how much it has been told in the last hour, how its last
 * attempts went, and how many messages were dropped, which the next one says.
 *
 * Pure but for outbox_load() and outbox_save(); times are milliseconds of the wall clock, since
 * they have to mean the same to the next process.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "notify/config.h"
#include "notify/delivered.h"

#define OUTBOX_WAITING_MAX 200		     /* per channel; then the oldest is dropped */
#define OUTBOX_AGE_MS	   (24 * 3600000ULL) /* what could not be told for so long is dropped */
#define OUTBOX_WAIT_MAX_MS (3600000ULL)	     /* between two attempts */
#define OUTBOX_TOGETHER	   3		     /* so many that had to wait come as one message */

struct outbox;

struct outbox *outbox_new(const char *path);
struct outbox *outbox_free(struct outbox *o);
/* 0 also where there is no such file; negative: it cannot be read, and is as good as empty. */
int outbox_load(struct outbox *o, struct err *e);
/* Where it has changed. Negative: it stays in memory, and is tried again by the next call. */
int outbox_save(struct outbox *o, struct err *e);
bool outbox_is_saved(const struct outbox *o);

/* The id of the last event that was taken; "": none was. */
const char *outbox_cursor(const struct outbox *o);
void outbox_set_cursor(struct outbox *o, const char *id);
/* The agent that is listened to, {pid, since}, borrowed; NULL: none, or its end was announced or
 * told. One that a notifier finds here was there when the one before it ended. */
const json_t *outbox_agent(const struct outbox *o);
/* Takes the reference; NULL: none. */
void outbox_set_agent(struct outbox *o, json_t *agent);

void outbox_add(struct outbox *o, const struct channel *ch, const json_t *event, uint64_t now_ms);
/* A message that is to be sent now, of the first *ret_n events that wait; the caller's reference.
 * NULL: none is. */
json_t *outbox_due(struct outbox *o, const struct channel *ch, uint64_t now_ms, size_t *ret_n);
/* When there may be one; UINT64_MAX: nothing waits. */
uint64_t outbox_due_at(const struct outbox *o, const struct channel *ch);
/* How the attempt with the first n events went. */
void outbox_result(struct outbox *o, const struct channel *ch, size_t n,
		   const struct delivery_result *result, uint64_t now_ms);

/* For `tenure notify`: waiting, dropped, next_ms, ok and error of a channel, {} of one that is not
 * there. Borrowed. */
json_t *outbox_channel(const struct outbox *o, const char *name);

#endif
