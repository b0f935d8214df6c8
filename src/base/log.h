/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_LOG_H
#define TENURE_BASE_LOG_H

/*
 * A log file that rotates: PATH, PATH.1 (newer) to PATH.4 (older), each of at most the given size.
 * One process writes a log. Lines are whole or absent, never cut.
 *
 * A log never stops its program. When a line cannot be written (disk full, quota, directory gone)
 * it is counted, and the first line that can be written again is preceded by one that says how many
 * are missing and why. A line is one write(2); on a filesystem that hangs that can block, so a
 * process that must not (the guard) keeps no log of its own.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* The choices of the setting log_level. */
enum log_level {
	LOG_LEVEL_ERROR,
	LOG_LEVEL_WARNING,
	LOG_LEVEL_INFO,
	LOG_LEVEL_DEBUG,
	LOG_LEVEL_MAX
};

/* Before a line of a program that an agent reads, as in sd-daemon(3): it is no trouble. */
#define LOG_INFO_MARK "<6>"

#define LOG_FILE_BYTES (10UL * 1024 * 1024)
#define LOG_FILES      5

struct log;

/*
 * Open or create path (0600) for appending. Always gives a log: when the file cannot be opened now,
 * e says why (-errno is returned) and every line tries again.
 */
int log_open(const char *path, size_t file_bytes, unsigned int files, struct log **ret,
	     struct err *e);
struct log *log_close(struct log *log);

void log_set_level(struct log *log, enum log_level level);
const char *log_level_name(enum log_level level);

/* One line "TIME LEVEL text". A NULL log is allowed: nothing is written. */
void log_print(struct log *log, enum log_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void log_vprint(struct log *log, enum log_level level, const char *fmt, va_list ap)
	__attribute__((format(printf, 3, 0)));

/* One line as it is; a newline is added. For event files (JSON lines). */
void log_line(struct log *log, const char *line, size_t len);

/* Lines that are missing and not yet reported in the file. */
uint64_t log_dropped(const struct log *log);
/* Why the last of them could not: an errno, 0 when none was dropped. */
int log_drop_errno(const struct log *log);

#endif
