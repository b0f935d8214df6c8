/* SPDX-License-Identifier: MIT */
#include "agent/report/joblogs.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

struct found {
	char *name;
	int64_t changed_s;
};

static int by_age(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	return x->changed_s == y->changed_s ? 0 : x->changed_s > y->changed_s ? -1 : 1;
}

/* The newest first. */
static struct found *find_all(DIR *d, const char *mark, size_t *ret_n)
{
	struct found *all = NULL;
	const struct dirent *entry;
	struct stat st;

	*ret_n = 0;
	while ((entry = readdir(d))) {
		if (!strstr(entry->d_name, mark) ||
		    fstatat(dirfd(d), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !S_ISREG(st.st_mode))
			continue;
		all = xgrow(all, *ret_n, sizeof(*all));
		all[(*ret_n)++] = (struct found){ xstrdup(entry->d_name), st.st_mtim.tv_sec };
	}
	if (*ret_n)
		qsort(all, *ret_n, sizeof(*all), by_age);
	return all;
}

void joblogs_prune(const char *dir, const char *mark, size_t keep, uint64_t age_s)
{
	int64_t limit_s = (int64_t)(clock_wall_ns() / NS_PER_S) - (int64_t)age_s;
	DIR *d = opendir(dir);
	struct found *all;
	size_t n;

	if (!d)
		return;
	all = find_all(d, mark, &n);
	for (size_t i = 0; i < n; i++) {
		if (i >= keep && all[i].changed_s < limit_s)
			(void)unlinkat(dirfd(d), all[i].name, 0);
		free(all[i].name);
	}
	free(all);
	(void)closedir(d);
}
