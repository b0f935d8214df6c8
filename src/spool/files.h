/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_FILES_H
#define TENURE_SPOOL_FILES_H

/*
 * The file calls of an instance (spool/instance.h opens one), all relative to its directory. There
 * is no lock: what must happen once is a rename or an O_EXCL create that only one can win.
 *
 * All calls can hang on a network filesystem. Errors are negative errno; the text names what was
 * being done and the path below the instance.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/err.h"
#include "spool/name.h"

#define SPOOL_PATH_MAX (NAME_FILE_MAX + 64)

struct spool;

enum spool_dir {
	SPOOL_PENDING,
	SPOOL_RUNNING,
	SPOOL_FAILED,
	SPOOL_CANCELLED,
	SPOOL_DONE, /* one directory per day below it */
	SPOOL_ENDS, /* what happened to elements: one file per batch and agent */
	SPOOL_IDS,
	SPOOL_LANES,
	SPOOL_LOGS,
	SPOOL_CONTROL,
	SPOOL_AGENTS,
	SPOOL_EVENTS,
	SPOOL_POOLS,  /* what is wanted of engines (pool/pool.h) */
	SPOOL_ALLOCS, /* allocations: what is to run in them (alloc/alloc.h) */
	SPOOL_GANGS,  /* which agents run a task on several nodes together (spool/gang.h) */
	SPOOL_BURNS,  /* tests of the devices of all nodes at once (agent/burn/part.h) */
	SPOOL_ON_END, /* commands that are to be run for what has ended (spool/on_end.h) */
	SPOOL_TMP,
	SPOOL_BAD,
	SPOOL_DIR_MAX
};

/* "pending" and so on. */
const char *spool_dir_name(enum spool_dir dir);
/* Of a path in the instance, "done/2026-11-21" and the like; SPOOL_DIR_MAX: in none of them. */
enum spool_dir spool_dir_of(const char *path);
/* "pending/FILE" in buf (SPOOL_PATH_MAX bytes). */
char *spool_path(enum spool_dir dir, const char *file, char *buf);
/* One of the directories, which a copy without empty ones, and an instance that an older version
 * has made, may lack. 0, also where it is there, or -errno. */
int spool_make_dir(const struct spool *sp, enum spool_dir dir, struct err *e);
/* "done/2026-11-21" of a moment, local time. */
char *spool_day_path(uint64_t wall_ns, char *buf);

/* Renames, and after any error looks whether it happened all the same (lost answers of a network
 * filesystem): 0, or -errno; -ENOENT: from is not there (any more), somebody else was first. */
int spool_rename(const struct spool *sp, const char *from, const char *to, struct err *e);
/* The same to a name that others may take, too: then an error is an error, because what is there
 * may be theirs. */
int spool_take(const struct spool *sp, const char *from, const char *to, struct err *e);
/* That nothing is there any more is 0, and is made sure of: -EIO where the directory still lists
 * it. */
int spool_unlink(const struct spool *sp, const char *path, struct err *e);
/* The same, and no more than the call says: 0, -ENOENT or another -errno. For what nothing depends
 * on, where a cache that answers from what it remembers is to make no error. */
int spool_remove(const struct spool *sp, const char *path);
/* 0 or -errno; a link is not followed. */
int spool_stat(const struct spool *sp, const char *path, struct stat *ret);
bool spool_exists(const struct spool *sp, const char *path);
/* It is known not to be in its directory: neither by its name nor in the list of names, of which a
 * cache or a file server that has lost its way would have to hide both. False also where that
 * cannot be told. */
bool spool_is_gone(const struct spool *sp, const char *path);
/* The same of any path, below an instance or not. */
bool spool_is_no_path(const char *path);
/* What a call about a path has given, where -ENOENT decides something for good: -EIO instead, and
 * why, while it is not known that the path is gone. */
int spool_confirm(const struct spool *sp, const char *path, int r, struct err *e);
/* What a call about one of the directories of what has ended has given, or about a day of done/: 0
 * in place of -ENOENT, where it is known that there is no such directory. It is as good as an empty
 * one: copies of a queue (rsync -m, an archive) may lack those that were. */
int spool_or_empty(const struct spool *sp, const char *dir, int r);
/*
 * What other nodes do may be hidden for a while from a look at a name, in either direction, where
 * the filesystem keeps what it was told (negative, entry and attribute caches). These ask again,
 * for where that decides: spool_is_there_now() opens the directory and the file, or reads the
 * directory, as spool_lists() does (1, 0 or -errno); spool_stat_now() gives a file's size as it is.
 */
bool spool_is_there_now(const struct spool *sp, enum spool_dir dir, const char *file);
int spool_lists(const struct spool *sp, enum spool_dir dir, const char *file, struct err *e);
int spool_stat_now(int dir_fd, const char *path, struct stat *ret);
/*
 * What was written into an open file is on its way to the file server, where others read it, before
 * anything else is done: it may have stayed in this node's memory, and so may the error that there
 * was no room for it. 0 or -errno.
 */
int spool_send(const struct spool *sp, int fd);
/* A file, or what a directory has: it survives a power loss from now on. */
int spool_sync(const struct spool *sp, const char *path, struct err *e);
/*
 * The same of directories of the instance, with what is below done/, for however many files were
 * renamed, made or removed there. dirs: SPOOL_BIT() of each.
 */
#define SPOOL_BIT(dir) (1u << (dir))
int spool_sync_dirs(const struct spool *sp, unsigned int dirs, struct err *e);
/* Everything, with what was written into files, on the whole filesystem: for very many of them.
 * Where no_syncfs is set (spool/own.h) it does nothing, and who writes them syncs each. */
int spool_sync_all(const struct spool *sp, struct err *e);
/*
 * The same, with all names, in a process of its own, which begins with a fork() on this thread: it
 * may take minutes and cannot be interrupted. It closes all descriptors but its own, and writes an
 * int into the pipe, 0 or an errno. 0, or -errno.
 */
int spool_sync_child(const struct spool *sp, pid_t *ret_child, int *ret_pipe);
/* Creates path exclusively with the data, fsynced if asked. On error nothing is left, unless it
 * cannot be removed either. -EEXIST. */
int spool_write_new(const struct spool *sp, const char *path, const void *data, size_t len,
		    bool durable, struct err *e);
/* Over path, through tmp/ and a rename; not fsynced: for what can be made again. */
int spool_replace(const struct spool *sp, const char *path, const void *data, size_t len,
		  struct err *e);
/*
 * A file in tmp/ becomes path, in the instance's directory, and survives a power loss; never over
 * one that is there: a cache may hide for a while what somebody else has made. 0: it is there,
 * whoever made it.
 */
int spool_put_once(const struct spool *sp, const char *tmp, const char *path, struct err *e);
/* Appends with one write; a part that was written before an error is taken away again. */
int spool_append(int fd, const void *data, size_t len);
/*
 * Open path, of which no part may be a symbolic link; it never waits, whatever lies there. For
 * directories, and for files that are made (O_EXCL). What root makes in the queue of another user
 * becomes that user's. The descriptor, or -errno: -ELOOP or -ENOTDIR where there is a link.
 */
int spool_openat(const struct spool *sp, const char *path, int flags);
/* A directory; 0 also where there is something of that name. */
int spool_mkdirat(const struct spool *sp, const char *path, struct err *e);
/* The text of such an error; returns it. */
int spool_open_failed(const struct spool *sp, const char *path, int errnum, struct err *e);
/*
 * The same for a regular file of a trusted owner, to read or to write it; a link, another kind of
 * file, and what belongs to somebody else are refused: spool_is_bad(). ret (or NULL) says how it
 * is.
 */
int spool_open_file(const struct spool *sp, const char *path, int flags, struct stat *ret,
		    struct err *e);
/* An error of spool_open_file() that is about what lies there, not about reading it. */
bool spool_is_bad(int r);
/*
 * The same of a file of ours, which only we make (O_CREAT): what lies in its place and is none goes
 * to bad/ with its reason, so that it stops nothing.
 */
int spool_open_own(const struct spool *sp, const char *path, int flags, struct stat *ret,
		   struct err *e);
/* The whole of such a file; terminated. -EFBIG, and as above. */
int spool_read(const struct spool *sp, const char *path, size_t max, char **ret, size_t *ret_len,
	       struct err *e);
/* The same, and how the file is that was read. */
int spool_read_stat(const struct spool *sp, const char *path, size_t max, char **ret,
		    size_t *ret_len, struct stat *ret_stat, struct err *e);
/* One of us, or whom the setting accept_owners names. */
bool spool_accepts(const struct spool *sp, uid_t uid);
/* A file of that owner counts here: he is accepted, or everybody is who can write here. */
bool spool_trusts(const struct spool *sp, uid_t owner);
/* A name in tmp/ that nobody else uses. buf: SPOOL_PATH_MAX bytes. */
char *spool_tmp_path(const struct spool *sp, const char *what, uint64_t id, char *buf);
/*
 * What time it is by the clock of who keeps the files, with which times of files are to be
 * compared: no two nodes need have the same. It makes a file and removes it. 0 or -errno. The
 * second one is for who can do with this node's own clock, where there is no other one, or nothing
 * can be written.
 */
int spool_now(const struct spool *sp, uint64_t *ret_ns, struct err *e);
uint64_t spool_now_or_ours(const struct spool *sp);
/* what, for the file of an ended task that is being removed. The next `tenure prune` finishes what
 * one that was interrupted has left. */
#define SPOOL_PRUNED "prune"
/* Puts path into bad/ with a file FILE.reason beside it. */
int spool_refuse(const struct spool *sp, const char *path, const char *reason, struct err *e);

/*
 * Calls fn for each entry of a directory but those that begin with a dot. A value other than 0 ends
 * it and is returned.
 */
typedef int (*spool_entry_fn)(void *data, const char *file, unsigned char type);
int spool_each(const struct spool *sp, const char *dir, spool_entry_fn fn, void *data,
	       struct err *e);

/*
 * Files that are appended to, a line per record, and may be large: read a block at a time, so that
 * it takes the same memory however long they are. What a power loss left in them (bytes of 0, a
 * line without an end) is passed over, as are lines over LINES_MAX bytes.
 *
 *	off_t offset = 0;
 *	r = lines_read(sp, "events/n7.tasks.jsonl", &offset, on_line, data, &e);
 *	... later the same again, for what has come since
 */
#define LINES_MAX 65536

/* Without the newline; the text is not terminated, and valid during the call. */
typedef void (*lines_fn)(void *data, const char *line, size_t len);

/* *offset moves behind the last line that has an end. 0; -ENOENT; -EPERM: of somebody who is not
 * trusted; -EINVAL: no regular file; -errno, then *offset is behind what was told. */
int lines_read(const struct spool *sp, const char *path, off_t *offset, lines_fn fn, void *data,
	       struct err *e);

#endif
