/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_FS_H
#define TENURE_BASE_FS_H

/*
 * Files: read with a bound, write so that a reader sees the old or the new content and a power loss
 * leaves one of them, and the directories of the XDG base directory specification.
 *
 * Errors are negative errno with "open PATH: reason" in e. These calls can hang on a network
 * filesystem: the guard makes none of them after its start.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

/*
 * The whole of a regular file, terminated with a NUL that len does not count. -EFBIG when it is
 * larger than max. The caller frees *ret.
 */
int fs_read_file(const char *path, size_t max, char **ret, size_t *ret_len, struct err *e);
/* The same of a file that nobody but the effective user and root can have written; else -EPERM, and
 * what to do about it. Group members are the user's own choice. */
int fs_read_own_file(const char *path, size_t max, char **ret, size_t *ret_len, struct err *e);

/* The same of what is open, from where it stands to its end; also a pipe. path is for the text. */
int fs_read_open(int fd, const char *path, size_t max, char **ret, size_t *ret_len, struct err *e);

/*
 * On a file server, who replaces a file takes it from those who have it open (-ESTALE): by its name
 * the new one is read. Whether to do so, after a try that has come to r; *tries begins at 0. The
 * calls above that have a path to open do it themselves.
 */
bool fs_reads_again(int r, unsigned int *tries);

/*
 * Write a temporary file beside path, fsync it, rename it over path and fsync the directory. On
 * error path is as it was and the temporary file is gone.
 */
int fs_write_atomic(const char *path, const void *data, size_t len, mode_t mode, struct err *e);
/*
 * The same of a file that is not there yet: -EEXIST where somebody else has made it meanwhile,
 * which is left alone. Only where a filesystem has no links that one is replaced.
 */
int fs_write_new(const char *path, const void *data, size_t len, mode_t mode, struct err *e);

/*
 * The same for a name that a person has given: a link to a file stays one, and what is no file (a
 * pipe, a device) is written to as it is.
 */
int fs_write_report(const char *path, const void *data, size_t len, mode_t mode, struct err *e);
/*
 * Whether that will be possible, as far as can be told before there is anything to write. -EISDIR,
 * -ENOENT, -EACCES and so on; -EINVAL: it is the file that standard output goes to.
 */
int fs_check_report(const char *path, struct err *e);

/* Other kernels than this one may have that file system, too, with caches of their own. */
bool fs_is_shared(int fd);
/* syncfs() reaches who stores it. With FUSE it reaches the kernel alone (linux, fs/fuse/inode.c:
 * of those only virtiofs is told), and who stores it hears of fsync(). */
bool fs_has_syncfs(int fd);

/* fsync a directory, so that names made or renamed in it survive a power loss. */
int fs_sync_dir(const char *path, struct err *e);

/*
 * open() a file where neither it nor the directory that it is in may be a symbolic link. A
 * descriptor, or -errno: -ELOOP where one of them is.
 */
int fs_open_no_link(const char *path, int flags, mode_t mode);

/* Make a directory with those above it; those that are made get the mode. It may exist. */
int fs_mkdirs(const char *path, mode_t mode, struct err *e);

/*
 * A directory of ours alone (mode 0700) where anybody may make one, such as /var/tmp: above/name,
 * or where somebody else has that name above/name.XXXXXX, which the next call finds again. NULL
 * where none can be had; else the caller's.
 */
char *fs_private_dir(const char *above, const char *name);

/* All of the bytes, whatever write(2) takes at once. 0 or -errno. */
int fs_write_all(int fd, const void *data, size_t len);
/* What was printed to stdout so far is written: 0, or -errno where any of it is lost. */
int fs_flush_stdout(struct err *e);
/*
 * For who has nothing to write for long: 0, or stdout is a pipe that nobody reads any more, which
 * is as if it had been written to: SIGPIPE, and where that is ignored -EPIPE.
 */
int fs_stdout_is_read(struct err *e);
/*
 * At the end of main(): close stdout, so that a full disk or a closed pipe does not look like
 * success. 0, or -errno when anything written to it since the start has been lost.
 */
int fs_close_stdout(struct err *e);

/*
 * $XDG_CONFIG_HOME/tenure and so on, with the specification's fall-backs under $HOME (of the
 * password database when HOME is not set). The runtime directory falls back to the state directory.
 * Never NULL; the caller frees it. Nothing is created.
 */
char *fs_config_dir(void);
char *fs_state_dir(void);
char *fs_runtime_dir(void);
char *fs_cache_dir(void); /* of what can be asked for again at any time */
char *fs_home_dir(void);

/*
 * The directory that path leads to under its one name, without links, "." and "//"; well_known
 * where it is that very directory, though it be mounted elsewhere, too. What does not exist is
 * returned as it is. The caller frees it.
 */
char *fs_real_dir(const char *path, const char *well_known);

/* path with the home directory shown as ~, for people. The caller frees it. */
char *fs_show_path(const char *path);

#endif
