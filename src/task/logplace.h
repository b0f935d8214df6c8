/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TASK_LOGPLACE_H
#define TENURE_TASK_LOGPLACE_H

/*
 * Reading on in a log that is cut meanwhile (task/logfile.h).
 *
 * A log that is past its limit has its middle cut out while we read: what follows comes nearer to
 * the beginning, or a hole is left. So the last bytes that were read are read again each time, and
 * looked for where they are not before our place any more. It may also be cut while a part is read,
 * of which the end is from elsewhere then: each part is read twice.
 */

#include <stddef.h>
#include <sys/types.h>

#define LOGPLACE_SEEN 256   /* enough to find our place in a log that was cut */
#define LOGPLACE_PART 65536 /* is read at once, at most */

/* Begins with zeros, or by logplace_begin(). */
struct logplace {
	off_t at;   /* the next byte */
	off_t size; /* of the file, when it was read last */
	char seen[LOGPLACE_SEEN];
	size_t n_seen; /* so many of it are the last bytes before at */
};

/* From there on. */
void logplace_begin(int fd, struct logplace *p, off_t at);
/* The next bytes: how many, with buf, LOGPLACE_PART bytes; 0: there are none yet; -errno. It may
 * take two seconds where the end of the log is just being copied to its front. */
ssize_t logplace_read(int fd, struct logplace *p, char *buf);

#endif
