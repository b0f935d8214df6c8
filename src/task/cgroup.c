/* SPDX-License-Identifier: MIT */
#include "task/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"

#define CGROUP2_MAGIC_NUMBER 0x63677270

/* Where the unified hierarchy is: alone, or beside the old ones. */
static const char *root(void)
{
	static const char *const roots[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };
	struct statfs fs;

	for (size_t i = 0; i < ARRAY_LEN(roots); i++)
		if (statfs(roots[i], &fs) == 0 && fs.f_type == CGROUP2_MAGIC_NUMBER)
			return roots[i];
	return NULL;
}

static bool is_delegated(const char *dir)
{
	char value[2];

	return (getxattr(dir, "user.delegate", value, sizeof(value)) == 1 ||
		getxattr(dir, "trusted.delegate", value, sizeof(value)) == 1) &&
	       value[0] == '1';
}

int cgroup_find(char **ret)
{
	const char *top = root();
	char path[2048];

	if (!top)
		return -ENOENT;

	int r = proc_cgroup(getpid(), path, sizeof(path));

	if (r < 0)
		return r;

	cleanup_free char *dir = xasprintf("%s%s", top, path[1] ? path : "");
	cleanup_free char *procs = xasprintf("%s/cgroup.procs", dir);

	if (access(dir, W_OK) < 0 || access(procs, W_OK) < 0)
		return -errno;
	if (geteuid() == 0 && !is_delegated(dir))
		return -EACCES;
	*ret = take_ptr(dir);
	return 0;
}

int cgroup_make(struct cgroup *cg, const char *parent, const char *token)
{
	cleanup_free char *dir = xasprintf("%s/" CGROUP_PREFIX "%s", parent, token);
	cleanup_free char *procs = xasprintf("%s/cgroup.procs", dir);

	if (mkdir(dir, 0755) < 0 && errno != EEXIST)
		return -errno;

	int fd = open(procs, O_WRONLY | O_CLOEXEC);

	if (fd < 0) {
		fd = -errno;
		(void)rmdir(dir);
		return fd;
	}
	cg->dir = take_ptr(dir);
	return fd;
}

void cgroup_clear(const char *parent)
{
	DIR *d = opendir(parent);
	const struct dirent *entry;

	/* One that somebody is in stays: EBUSY. */
	while (d && (entry = readdir(d)))
		if (str_has_prefix(entry->d_name, CGROUP_PREFIX))
			(void)unlinkat(dirfd(d), entry->d_name, AT_REMOVEDIR);
	if (d)
		(void)closedir(d);
}

void cgroup_kill(const struct cgroup *cg)
{
	if (!cg->dir)
		return;

	cleanup_free char *path = xasprintf("%s/cgroup.kill", cg->dir);
	cleanup_fd int fd = open(path, O_WRONLY | O_CLOEXEC);

	/* Kernels before 5.14 have no such file; the passes over the tree do it then. */
	if (fd >= 0)
		(void)!write(fd, "1", 1);
}

void cgroup_remove(struct cgroup *cg)
{
	if (cg->dir)
		(void)rmdir(cg->dir);
	free(cg->dir);
	cg->dir = NULL;
}
