/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_LINES_H
#define TENURE_SPOOL_LINES_H

/*
 * Files that are appended to, a line per record, and may be large: read a block at a time, so that
 * it takes the same memory however long they are. What a power loss left in them (bytes of 0, a
 * line without an end) is passed over, as are lines over LINES_MAX bytes.
 *
 *	off_t offset = 0;
 *	r = lines_read(sp, "events/n7.tasks.jsonl", &offset, on_line, data, &e);
 *	... later the same again, for what has come since
 */

#include <sys/types.h>

#include "spool/spool.h"

#define LINES_MAX 65536

/* Without the newline; the text is not terminated, and valid during the call. */
typedef void (*lines_fn)(void *data, const char *line, size_t len);

/* *offset moves behind the last line that has an end. 0; -ENOENT; -EPERM: of somebody who is not
 * trusted; -EINVAL: no regular file; -errno, then *offset is behind what was told. */
int lines_read(const struct spool *sp, const char *path, off_t *offset, lines_fn fn, void *data,
	       struct err *e);

#endif
