/* SPDX-License-Identifier: MIT */
#include "pool/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "pool/pool.h"

#define MARK_MAX  512
#define EPOCH_MAX 999999999ULL

struct highest {
	const char *prefix; /* "NAME,owner,e" */
	uint64_t epoch;	    /* 0: there is none */
};

static bool epoch_of(const char *file, const char *prefix, uint64_t *ret)
{
	return str_has_prefix(file, prefix) && str_to_u64(file + strlen(prefix), ret) == 0 &&
	       *ret >= 1 && *ret < EPOCH_MAX;
}

static int take_highest(void *data, const char *file, unsigned char type)
{
	struct highest *h = data;
	uint64_t epoch;

	(void)type;
	if (epoch_of(file, h->prefix, &epoch) && epoch > h->epoch)
		h->epoch = epoch;
	return 0;
}

static int find_highest(const struct spool *sp, const char *prefix, uint64_t *ret, struct err *e)
{
	struct highest h = { .prefix = prefix };
	int r = spool_each(sp, spool_dir_name(SPOOL_POOLS), take_highest, &h, e);

	*ret = h.epoch;
	return r;
}

static uint64_t mtime_s(const struct stat *st)
{
	return clock_timespec_ns(&st->st_mtim) / NS_PER_S;
}

static char *owner_path(const char *prefix, uint64_t epoch, char *buf)
{
	return str_print(buf, SPOOL_PATH_MAX, "%s/%s%" PRIu64, spool_dir_name(SPOOL_POOLS), prefix,
			 epoch);
}

/* By what stands in it, its process was one of ours here and is gone. */
static bool is_gone_here(const struct spool *sp, const char *mark)
{
	char boot[SPOOL_BOOT_MAX] = "";
	int pid = 0;

	return sscanf(mark, "%*s %d %*s %63s", &pid, boot) == 2 && pid > 1 &&
	       strcmp(boot, spool_boot(sp)) == 0 && kill(pid, 0) < 0 && errno == ESRCH;
}

/* Its owner has refreshed it lately. It is opened for its times, too: what stat() knows of it on
 * NFS may be a minute old, and an owner that has long left would be believed in. */
static bool is_kept(const struct spool *sp, const char *path, uint64_t now_s)
{
	struct stat st;
	cleanup_fd int fd = spool_open_file(sp, path, O_RDONLY, &st, NULL);
	char mark[MARK_MAX] = "";

	if (fd < 0 || mtime_s(&st) + POOL_OWNER_MS / 1000 <= now_s)
		return false;
	return pread(fd, mark, sizeof(mark) - 1, 0) < 0 || !is_gone_here(sp, mark);
}

static int take(const struct spool *sp, const char *prefix, uint64_t epoch, struct pool_owner *ret,
		struct err *e)
{
	char lower[SPOOL_PATH_MAX];
	uint64_t now_highest = 0, random = 0;
	int r;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		abort(); /* so few bytes are never cut, and the kernel has it since 3.17 */
	(void)str_print(ret->mark, sizeof(ret->mark), "%s %d %llx %s\n", spool_host(sp),
			(int)getpid(), (unsigned long long)random, spool_boot(sp));
	(void)owner_path(prefix, epoch, ret->path);
	r = spool_write_new(sp, ret->path, ret->mark, strlen(ret->mark), false, e);
	if (r == -EEXIST)
		return POOL_BUSY;
	if (r == 0)
		r = find_highest(sp, prefix, &now_highest, e);
	if (r == 0 && now_highest > epoch)
		r = POOL_BUSY; /* our list was an old one */
	if (r != 0) {
		(void)spool_remove(sp, ret->path);
		return r;
	}
	if (epoch > 1)
		(void)spool_remove(sp, owner_path(prefix, epoch - 1, lower));
	return 0;
}

int pool_own(const struct spool *sp, const char *pool, struct pool_owner *ret, struct err *e)
{
	char prefix[POOL_NAME_MAX + 16], path[SPOOL_PATH_MAX];
	uint64_t epoch = 0, now_ns = 0;
	int r = spool_now(sp, &now_ns, e);

	ret->now_s = now_ns / NS_PER_S;
	(void)str_print(prefix, sizeof(prefix), "%s,owner,e", pool);
	if (r == 0)
		r = find_highest(sp, prefix, &epoch, e);
	ret->epoch = epoch;
	if (r < 0)
		return r;
	if (epoch && is_kept(sp, owner_path(prefix, epoch, path), ret->now_s))
		return POOL_BUSY;
	return take(sp, prefix, epoch + 1, ret, e);
}

/* It is that very file: another owner's may have its name by now. The descriptor, or negative. */
static int open_own(const struct spool *sp, const struct pool_owner *owner)
{
	cleanup_fd int fd = spool_open_file(sp, owner->path, O_RDWR, NULL, NULL);
	char text[sizeof(owner->mark)] = "";

	if (fd < 0 || pread(fd, text, sizeof(text) - 1, 0) < 0 || strcmp(text, owner->mark) != 0)
		return -ESTALE;
	return take_fd(fd);
}

bool pool_owns(const struct spool *sp, const struct pool_owner *owner)
{
	cleanup_fd int fd = open_own(sp, owner);

	return fd >= 0 && futimens(fd, NULL) == 0;
}

/* The file stays, for its number: one that began anew would meet who still believes in an old one.
 */
void pool_disown(const struct spool *sp, const struct pool_owner *owner)
{
	static const struct timespec long_ago[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };
	cleanup_fd int fd = open_own(sp, owner);

	if (fd >= 0 && ftruncate(fd, 0) == 0)
		(void)futimens(fd, long_ago);
}
