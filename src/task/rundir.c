/* SPDX-License-Identifier: MIT */
#include "task/rundir.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

static int check(const char *path, struct err *e)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return err_sys(e, errno, "look at %s", path);
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || st.st_mode & (S_IWGRP | S_IWOTH))
		return err_set(e, -EPERM, "%s is not a directory that only we may write in", path);
	return 0;
}

/* The caller frees it. NULL: there is none. */
static char *above_of(const char *dir)
{
	const char *slash = strrchr(dir, '/');

	return slash && slash != dir ? xasprintf("%.*s", (int)(slash - dir), dir) : NULL;
}

int rundir_check(const char *dir, struct err *e)
{
	cleanup_free char *above = above_of(dir);
	int r = check(dir, e);

	return r == 0 && above ? check(above, e) : r;
}

static int make(const char *dir, struct err *e)
{
	return mkdir(dir, 0700) < 0 && errno != EEXIST ? err_sys(e, errno, "make directory %s", dir)
						       : 0;
}

int rundir_make(const char *dir, struct err *e)
{
	cleanup_free char *above = above_of(dir);
	int r = above ? make(above, e) : 0;

	if (r == 0)
		r = make(dir, e);
	return r < 0 ? r : rundir_check(dir, e);
}
