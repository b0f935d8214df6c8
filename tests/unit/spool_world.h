/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TESTS_SPOOL_WORLD_H
#define TENURE_TESTS_SPOOL_WORLD_H

/* A spool of the test's own, what agents and clients do in it. What fails fails the test. */

#include <stdbool.h>
#include <stdint.h>

#include "spool/batch.h"
#include "spool/scan.h"
#include "spool/transit.h"

/* For cmocka: an empty directory, which is removed. */
int spool_setup(void **state);
int spool_teardown(void **state);
/* The same elsewhere, in the midst of a test. */
int spool_setup_in(const char *dir);
const char *spool_world_root(void);

struct spool *open_spool(void);
uint64_t submit(const struct spool *sp, const char *json);
/* Write a file as a client would, all at once. */
void put(const struct spool *sp, const char *path, const char *text);

/* In a directory of it. */
int count_files(const struct spool *sp, const char *dir);

/* This process, as an agent of that name. */
struct claimer self(const struct spool *sp, const char *agent);
struct claim claim(const struct spool *sp, uint64_t id, const struct claimer *who);
/* How a claimed one ends well. */
struct spool_end done(const struct claim *c);

struct scan *scanned(const struct spool *sp);
/* Whether a task waits or runs, and how it stands. */
bool get(const struct spool *sp, uint64_t id, struct scan_task *ret);
/* How often an id is in done/, failed/ and cancelled/. */
uint64_t ended_times(const struct spool *sp, uint64_t id);
/* As it lies in the queue now; who NULL: to read only. */
struct batch *open_batch(const struct spool *sp, uint64_t id, const char *who);

#endif
