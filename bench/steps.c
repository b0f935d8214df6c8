/* SPDX-License-Identifier: MIT */

/*
 * The file steps of a durable submission (docs/spool.md) and nothing else: what `tenure submit` is
 * measured against in bench/queue.
 *
 *	steps INSTANCE_DIR SPEC_FILE [nosync]
 *
 * The name of the pending file is that of a task without lane, `true` on no GPU.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define IDS_KEPT 100

static bool sync_files = true;

static void check(bool good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(1);
}

/* The largest id; how many there are in *n; those below `prune` are removed. */
static unsigned long look_at_ids(int dir, unsigned long prune, unsigned long *n)
{
	DIR *d = fdopendir(openat(dir, "ids", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	unsigned long largest = 0;

	check(d, "ids");
	*n = 0;
	for (struct dirent *de; (de = readdir(d));) {
		unsigned long id = strtoul(de->d_name, NULL, 10);

		largest = id > largest ? id : largest;
		*n += id > 0;
		if (id && id < prune)
			(void)unlinkat(dirfd(d), de->d_name, 0);
	}
	(void)closedir(d);
	return largest;
}

static void sync_dir(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	check(fd >= 0 && (!sync_files || fsync(fd) == 0), name);
	(void)close(fd);
}

static unsigned long new_id(int dir)
{
	unsigned long n, id = look_at_ids(dir, 0, &n) + 1;
	char path[64];
	int fd;

	(void)snprintf(path, sizeof(path), "ids/%lu", id);
	fd = openat(dir, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	check(fd >= 0, path);
	(void)close(fd);
	(void)look_at_ids(dir, 0, &n);
	if (n > 2 * IDS_KEPT)
		(void)look_at_ids(dir, id - IDS_KEPT, &n);
	return id;
}

static size_t read_file(int dir, const char *path, char *buf, size_t size)
{
	int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	ssize_t len = read(fd, buf, size);

	check(fd >= 0 && len > 0, path);
	(void)close(fd);
	return (size_t)len;
}

int main(int argc, char **argv)
{
	static char text[1 << 20], instance[4096];
	char tmp[64], path[64];
	unsigned long id, random;
	size_t len;
	int dir, fd;

	if (argc < 3)
		return 2;
	sync_files = argc < 4;
	dir = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	check(dir >= 0, argv[1]);
	(void)read_file(dir, "instance.json", instance, sizeof(instance));
	len = read_file(AT_FDCWD, argv[2], text, sizeof(text));
	id = new_id(dir);
	check(getrandom(&random, sizeof(random), 0) == (ssize_t)sizeof(random), "getrandom");
	(void)snprintf(tmp, sizeof(tmp), "tmp/submit,%lu,%016lx", id, random);
	(void)snprintf(path, sizeof(path), "pending/00500,%lu,g0,ntrue", id);
	fd = openat(dir, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	check(fd >= 0 && write(fd, text, len) == (ssize_t)len, tmp);
	check(!sync_files || fsync(fd) == 0, tmp);
	(void)close(fd);
	sync_dir(dir, "ids");
	check(renameat(dir, tmp, dir, path) == 0, path);
	sync_dir(dir, "pending");
	printf("%lu\n", id);
	return 0;
}
