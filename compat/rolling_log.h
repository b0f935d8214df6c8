/* SPDX-License-Identifier: MIT */
#ifndef TENURE_COMPAT_ROLLING_LOG_H
#define TENURE_COMPAT_ROLLING_LOG_H

/* A log as Python's RotatingFileHandler keeps one: at 10 MiB PATH becomes PATH.1, up to PATH.5. */

#include <stddef.h>

/* "2026-11-24 20:41:07 - INFO - text" on standard output and at the end of the log, which is opened
 * anew for each line. 0; -errno: it is not in the log. */
int rolling_log_say(const char *path, const char *level, const char *text);

#endif
