/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_CLOCK_H
#define TENURE_BASE_CLOCK_H

/*
 * Two clocks, never mixed. Durations, time-outs and "since" are measured on CLOCK_MONOTONIC, so
 * that a clock step changes nothing; the wall clock is only shown to people and written into
 * records.
 */

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define NS_PER_US 1000ULL
#define NS_PER_MS 1000000ULL
#define NS_PER_S  1000000000ULL

uint64_t clock_mono_ns(void);
uint64_t clock_boot_ns(void); /* monotonic too, and goes on while the machine is suspended */
uint64_t clock_wall_ns(void); /* since the epoch */

/* Those of struct stat too, and what ppoll(), timerfd_settime() and the like want. */
static inline uint64_t clock_timespec_ns(const struct timespec *t)
{
	return (uint64_t)t->tv_sec * NS_PER_S + (uint64_t)t->tv_nsec;
}

static inline struct timespec clock_timespec(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / NS_PER_S),
				  .tv_nsec = (long)(ns % NS_PER_S) };
}

/* A condition whose timed waits end by clock_mono_ns(), whatever becomes of the wall clock. */
static inline void clock_cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(cond, &attr);
	(void)pthread_condattr_destroy(&attr);
}

#define CLOCK_TEXT_MAX 40

/* "2026-11-21 04:17:44" local time, for people. buf holds CLOCK_TEXT_MAX bytes; returns buf. */
const char *clock_format_local(uint64_t wall_ns, char *buf);
/* "2026-11-21T04:17:44.123+01:00", for JSON and logs. Returns buf, of CLOCK_TEXT_MAX bytes. */
const char *clock_format_iso(uint64_t wall_ns, char *buf);

#endif
