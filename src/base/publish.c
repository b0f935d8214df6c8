/* SPDX-License-Identifier: MIT */
#include "base/publish.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/needs.h"
#include "base/proc.h"
#include "base/strbuf.h"

#define SELF	    "/proc/self/exe"
#define PROGRAM_MAX (1UL << 30)

struct program {
	char *data;
	size_t len;
	char hash[SHA256_HEX_MAX];
};

static bool group_writes(const struct stat *st)
{
	return st->st_mode & S_IWGRP && (st->st_uid == geteuid() || st->st_gid != 0);
}

static bool others_write(const struct stat *st)
{
	return (st->st_uid != geteuid() && st->st_uid != 0) || st->st_mode & S_IWOTH ||
	       group_writes(st);
}

/* As lstat(). What is ours has the mode that we made it with, whatever chmod -R did to all of a
 * project's disk. */
static int stat_mended(const char *path, struct stat *st)
{
	if (lstat(path, st) < 0)
		return -errno;
	if (st->st_uid != geteuid() || !(st->st_mode & S_IWGRP) || st->st_mode & S_IWOTH ||
	    S_ISLNK(st->st_mode) || chmod(path, st->st_mode & 0777 & ~S_IWGRP) < 0)
		return 0;
	return lstat(path, st) < 0 ? -errno : 0;
}

/* 0 where nobody but us and root can replace what is in it. */
static int check_dir(const char *dir, struct err *e)
{
	struct stat st;
	char owner[64];
	int r = stat_mended(dir, &st);

	if (r < 0)
		return err_sys(e, -r, "stat %s", dir);
	if (!S_ISDIR(st.st_mode))
		return err_sys(e, ENOTDIR, "open %s", dir);
	if (!others_write(&st))
		return 0;
	return err_set(
		e, -EPERM,
		"%s belongs to %s%s: a program that lies there is not safe to run; remove it, or "
		"set root to another directory",
		dir, user_name(st.st_uid, owner, sizeof(owner)),
		st.st_mode & S_IWOTH ? ", and everybody may write to it"
		: group_writes(&st)  ? ", and its group may write to it"
				     : "");
}

static int make_dir(const char *dir, struct err *e)
{
	if (mkdir(dir, 0755) < 0 && errno != EEXIST && errno != EROFS)
		return err_sys(e, errno, "make directory %s", dir);
	return check_dir(dir, e);
}

static int make_bin(const char *above, struct err *e)
{
	cleanup_free char *bin = xasprintf("%s/bin", above);
	int r = make_dir(above, e);

	return r == 0 ? make_dir(bin, e) : r;
}

/* 1: the whole of the program is there, and nobody else can change it; 0: it is not; -errno: that
 * cannot be told. */
static int look_once(const char *path, const struct program *p)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	cleanup_free char *data = NULL;
	struct stat st;
	size_t len;

	if (fd < 0)
		return errno == ENOENT || errno == ELOOP || errno == EACCES ? 0 : -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || others_write(&st) || (st.st_mode & 0555) != 0555 ||
	    (size_t)st.st_size != p->len)
		return 0;

	int r = fs_read_open(fd, path, p->len, &data, &len, NULL);

	if (r < 0)
		return r == -EFBIG ? 0 : r;
	return len == p->len && memcmp(data, p->data, len) == 0;
}

static int is_published(const char *path, const struct program *p)
{
	unsigned int tries = 0;
	int r;

	do
		r = look_once(path, p);
	while (fs_reads_again(r, &tries));
	return r;
}

/*
 * One that is not there is made by a link, which never takes the place of what another host has
 * made meanwhile and runs: where files are replaced on a network filesystem, who runs from them
 * loses them. Only what is known to be damaged is replaced.
 */
static int publish(const char *path, const struct program *p, struct err *e)
{
	struct stat st;
	int r = stat_mended(path, &st), there = is_published(path, p);

	if (there < 0)
		return err_sys(e, -there, "read %s", path);
	if (there)
		return 0;
	if (lstat(path, &st) < 0)
		r = fs_write_new(path, p->data, p->len, 0755, e);
	else
		r = fs_write_atomic(path, p->data, p->len, 0755, e);
	/* Whatever was said of it: it may have been done all the same, or by another host. */
	there = is_published(path, p);
	if (there > 0)
		return 0;
	if (r < 0)
		return r;
	return there < 0 ? err_sys(e, -there, "read %s", path)
			 : err_set(e, -EIO, "%s is not what was written there", path);
}

static int read_program(struct program *p, struct err *e)
{
	int r = fs_read_file(SELF, PROGRAM_MAX, &p->data, &p->len, e);

	if (r == 0)
		sha256_hex(p->data, p->len, p->hash);
	return r;
}

int program_hash(char ret[SHA256_HEX_MAX], struct err *e)
{
	struct program p = { .data = NULL };
	int r = read_program(&p, e);

	if (r == 0)
		memcpy(ret, p.hash, sizeof(p.hash));
	free(p.data);
	return r;
}

static char *path_in(const char *above, const struct program *p)
{
	return xasprintf("%s/bin/tenure-" TENURE_VERSION "-%.*s", above, PUBLISH_HASH_DIGITS,
			 p->hash);
}

/* One of the two places. */
static int publish_in(const char *above, const struct program *p, char **ret_path, struct err *e)
{
	cleanup_free char *path = path_in(above, p);
	int r = make_bin(above, e);

	if (r == 0)
		r = publish(path, p, e);
	if (r == 0)
		*ret_path = take_ptr(path);
	return r;
}

int program_publish(const char *root, char **ret_path, struct err *e)
{
	cleanup_free char *shared = xasprintf("%s/.tenure", root);
	cleanup_free char *own = xasprintf("%s-%u", shared, (unsigned int)geteuid());
	struct program p = { .data = NULL };
	struct stat st;
	int r = fs_mkdirs(root, 0700, e);

	if (r == 0)
		r = read_program(&p, e);
	if (r == 0) {
		r = publish_in(shared, &p, ret_path, e);
		if ((r == -EPERM || r == -EACCES || r == -EROFS) && lstat(shared, &st) == 0 &&
		    st.st_uid != geteuid())
			r = publish_in(own, &p, ret_path, e);
	}
	free(p.data);
	return r < 0 ? err_wrap(e, "cannot put the program where other nodes find it") : 0;
}

int program_publish_path(const char *root, char **ret_path, struct err *e)
{
	cleanup_free char *shared = xasprintf("%s/.tenure", root);
	cleanup_free char *own = xasprintf("%s-%u", shared, (unsigned int)geteuid());
	cleanup_free char *path = NULL;
	struct program p = { .data = NULL };
	struct stat st;
	int r = read_program(&p, e);

	if (r == 0)
		path = path_in(shared, &p);
	if (r == 0 && lstat(shared, &st) == 0 && st.st_uid != geteuid() &&
	    is_published(path, &p) <= 0) {
		free(path);
		path = path_in(own, &p);
	}
	*ret_path = take_ptr(path);
	free(p.data);
	return r;
}

char *program_publish_note(const char *path)
{
	struct strbuf b = STRBUF_INIT;
	struct needs needs;
	struct statvfs fs;

	needs_of_program(&needs);
	for (size_t i = 0; i < needs.libraries.n; i++)
		strbuf_add_some(&b, i, 6, "%s", needs.libraries.texts[i]);
	if (needs.libraries.n) {
		strbuf_add_more(&b, needs.libraries.n, 6);
		strbuf_adds(&b, needs.libraries.n == 1 ? " has" : " have");
		strbuf_addf(
			&b,
			" to be on each node for it; the archive of `./bootstrap dist` needs no library");
	}
	needs_clear(&needs);
	if (statvfs(path, &fs) == 0 && fs.f_flag & ST_NOEXEC)
		strbuf_addf(&b, "%sprograms on that disk cannot be run here (it is mounted noexec)",
			    b.len ? "; " : "");
	return b.len ? strbuf_take(&b) : NULL;
}
