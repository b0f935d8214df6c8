/* SPDX-License-Identifier: MIT */
#include "spool_dir.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "spool/instance.h"
#include "spool/own.h"

static char root[64];
static struct spool *sp;

void fuzz_check(bool good)
{
	if (!good)
		abort();
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void clear(void)
{
	sp = spool_close(sp);
	(void)nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

struct spool *fuzz_spool(void)
{
	if (sp)
		return sp;
	(void)str_print(root, sizeof(root), "%s/tenure-fuzz-XXXXXX",
			access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	fuzz_check(mkdtemp(root) &&
		   spool_open(root, "default", NULL, SPOOL_CREATE, &sp, NULL) == 0 &&
		   atexit(clear) == 0);
	return sp;
}

void fuzz_put(const char *path, const void *data, size_t size)
{
	(void)unlinkat(fuzz_spool()->fd, path, 0);
	fuzz_check(spool_write_new(fuzz_spool(), path, data, size, false, NULL) == 0);
}
