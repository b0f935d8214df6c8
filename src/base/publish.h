/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_PUBLISH_H
#define TENURE_BASE_PUBLISH_H

/*
 * The running program on a disk that other machines see, so that they run the very same one:
 * ROOT/.tenure/bin/tenure-VERSION-HASH, where HASH is the beginning of its SHA-256. There is one
 * copy of each program, made once and then only read: whoever runs from it never finds another file
 * under its name. All calls can hang on a network filesystem.
 */

#include "base/err.h"
#include "base/sha256.h"

#define PUBLISH_HASH_DIGITS 12

/*
 * 0 and the path of the copy, which the caller frees. It is made where it is not there, or where
 * what has its name is damaged, and its content is compared in either case. Several hosts may do so
 * at once: one of them makes it, and the others take that one.
 *
 * What lies there runs with the rights of who starts it, so directories and the file have to be the
 * effective user's or root's, and nobody else may write to them: of what is ours the group loses
 * its right, which `chmod -R g+w` on a project's disk gives it. Where .tenure is another user's,
 * because several share the root, it is .tenure-UID. -EPERM: so is that; -errno.
 */
int program_publish(const char *root, char **ret_path, struct err *e);

/* The path that it would have, and nothing is made; the caller frees it. 0 or -errno. */
int program_publish_path(const char *root, char **ret_path, struct err *e);

/* The SHA-256 of the running program, which tells builds of one version apart. */
int program_hash(char ret[SHA256_HEX_MAX], struct err *e);

/*
 * What has to be said of such a copy: what it needs beside the C library, which other machines may
 * lack, or that programs on that disk cannot be run here. NULL: nothing. The caller frees it.
 */
char *program_publish_note(const char *path);

#endif
