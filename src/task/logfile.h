/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TASK_LOGFILE_H
#define TENURE_TASK_LOGFILE_H

/*
 * A task's log: the file that is its standard output and error.
 *
 * Nothing stands between the task and its file, so a limit cannot be kept at the write: the shim
 * looks at the size now and then, sooner the faster it grows, and takes pieces out of the middle
 * when it is past the limit. What stays is a quarter of the limit from the beginning, one line that
 * says how much is missing, and at least half of the limit from the end. While the task runs the
 * file is at most the limit plus what is written between two looks (20 ms at the fastest).
 *
 * How a piece is taken out, the first that the filesystem can: FALLOC_FL_COLLAPSE_RANGE (ext4, xfs:
 * the file becomes shorter); FALLOC_FL_PUNCH_HOLE (tmpfs, btrfs, newer NFS: the space is free but
 * the hole reads as zeros, so it is closed by a copy at the end, when nobody writes any more); a
 * copy of the end to the place and truncation (others: lines that are written in that moment are
 * lost with the rest).
 *
 * Errors never stop a task: the last one is kept in errnum.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum log_cut { LOG_COLLAPSE, LOG_PUNCH, LOG_COPY, LOG_CUT_MAX };

struct logfile {
	int fd;		/* the task's, O_APPEND; not owned */
	int edit_fd;	/* the same file for writing in place; -1 until needed */
	int errnum;	/* of the last failure, 0 */
	uint32_t how;	/* enum log_cut */
	uint64_t limit; /* 0: none */
	uint64_t size;	/* as of the last look */
	uint64_t cut;	/* bytes taken out so far */
	uint64_t hole;	/* of them still in the file, as zeros */
	uint64_t looked_ns;
	uint64_t next_ns; /* monotonic time of the next look; UINT64_MAX: never */
};

/* limit in bytes; only regular files have one. */
void logfile_init(struct logfile *l, int fd, uint64_t limit, uint64_t now_ns);
/* Append. */
void logfile_write(struct logfile *l, const char *text, uint64_t len);
/* Whether the last byte is not a newline; true where that cannot be seen. */
int logfile_in_line(const struct logfile *l);
/* Look at the size, cut, and decide when to look again. */
void logfile_look(struct logfile *l, uint64_t now_ns);
/* Nobody else writes any more: a last look, close the hole. */
void logfile_finish(struct logfile *l);

/* Whether a log there is cut at one stroke; else what follows may have to be copied, bit by bit. */
bool logfile_collapses(int fd);

/*
 * For who reads a log while it is cut: where to resume, when the *len bytes of `seen`, which were
 * read last, are not before `at` any more. That is behind them, wherever they are now; or, where
 * they have been cut out as well, behind the line that says so, and *len is 0 then.
 */
uint64_t logfile_find(int fd, uint64_t at, const char *seen, size_t *len);

#endif
