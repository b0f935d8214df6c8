/* SPDX-License-Identifier: MIT */
#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static uint64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	(void)clock_gettime(id, &ts);
	return clock_timespec_ns(&ts);
}

uint64_t clock_mono_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

uint64_t clock_boot_ns(void)
{
	return clock_ns(CLOCK_BOOTTIME);
}

uint64_t clock_wall_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

const char *clock_format_local(uint64_t wall_ns, char *buf)
{
	time_t sec = (time_t)(wall_ns / NS_PER_S);
	struct tm tm;

	(void)localtime_r(&sec, &tm);
	(void)strftime(buf, CLOCK_TEXT_MAX, "%Y-%m-%d %H:%M:%S", &tm);
	return buf;
}

const char *clock_format_iso(uint64_t wall_ns, char *buf)
{
	time_t sec = (time_t)(wall_ns / NS_PER_S);
	struct tm tm;
	char date[24], zone[8];

	(void)localtime_r(&sec, &tm);
	(void)strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
	(void)strftime(zone, sizeof(zone), "%z", &tm);
	(void)snprintf(buf, CLOCK_TEXT_MAX, "%s.%03u%.3s:%.2s", date,
		       (unsigned int)(wall_ns % NS_PER_S / NS_PER_MS), zone, zone + 3);
	return buf;
}
