/* SPDX-License-Identifier: MIT */
#include "base/sockdir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"

#define PLACES 5

struct place {
	const char *path; /* NULL: there is none */
	bool taken;	  /* by something that is not ours */
};

struct walk {
	const struct sockdir_walk *w;
	char own[48]; /* /run/user/UID */
	char name[48];
	struct place places[PLACES];
	struct place last; /* which is one of some processes and not of others */
};

static void pass_over(const struct walk *k, const char *path, const struct err *e)
{
	if (k->w->unfit)
		k->w->unfit(k->w->data, path, e->text);
}

#define PLACE_MAX (SOCKDIR_PATH_MAX - 64)

static const char *absolute(const char *path)
{
	return path && path[0] == '/' && strlen(path) < PLACE_MAX ? path : NULL;
}

static void name_dir(char *buf, size_t size)
{
	(void)str_print(buf, size, "tenure-sockets-%u", (unsigned int)geteuid());
}

static void list_places(struct walk *k)
{
	const char *xdg = absolute(getenv("XDG_RUNTIME_DIR"));

	(void)str_print(k->own, sizeof(k->own), "/run/user/%u", (unsigned int)geteuid());
	name_dir(k->name, sizeof(k->name));
	k->places[0].path = absolute(getenv("TENURE_RUNTIME_DIR"));
	k->places[1].path = "/dev/shm";
	k->places[2].path = k->own;
	k->places[3].path = "/tmp";
	k->places[4].path = "/var/tmp";
	k->last.path = xdg && strcmp(xdg, k->own) != 0 ? xdg : NULL;
}

static int check(int fd, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_sys(e, errno, "look at it");
	if (st.st_uid != geteuid())
		return err_set(e, -EPERM, "it belongs to uid %u", (unsigned int)st.st_uid);
	if ((st.st_mode & 0777) != 0700)
		return err_set(e, -EPERM, "its mode is %04o and not 0700", st.st_mode & 07777);
	if (fs_is_shared(fd))
		return err_set(e, -EXDEV, "it is not on a file system of this machine alone");
	return 0;
}

/* 0; 1: there is none, and none was to be made; -EPERM: something that is not ours has the name. */
static int open_one(int above_fd, const char *path, const char *name, bool make,
		    struct sockdir *ret, struct err *e)
{
	cleanup_fd int fd = -1;
	int r;

	if (make && mkdirat(above_fd, name, 0700) < 0 && errno != EEXIST)
		return err_sys(e, errno, "make it");
	fd = openat(above_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return 1;
	if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
		return err_set(e, -EPERM, "it is not a directory");
	if (fd < 0 && errno == EACCES)
		return err_set(e, -EPERM, "it cannot be opened, as one of ours can");
	if (fd < 0)
		return err_sys(e, errno, "open it");
	r = check(fd, e);
	if (r < 0)
		return r;
	(void)str_print(ret->path, sizeof(ret->path), "%s/%s", path, name);
	ret->fd = take_fd(fd);
	return 0;
}

int sockdir_check_place(const char *path, struct err *e)
{
	cleanup_fd int above = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct sockdir dir = { .fd = -1 };
	char name[48];
	int r;

	if (!absolute(path))
		return err_set(e, -EINVAL, "its path is not absolute, or has more than %d bytes",
			       PLACE_MAX - 1);
	if (above < 0)
		return err_sys(e, errno, "open it");
	name_dir(name, sizeof(name));
	r = open_one(above, path, name, false, &dir, e);
	(void)fd_close(dir.fd);
	if (r < 0)
		return err_wrap(e, "%s in it", name);
	if (r > 0 && faccessat(above, ".", W_OK | X_OK, AT_EACCESS) < 0)
		return err_sys(e, errno, "make %s in it", name);
	if (fs_is_shared(above))
		return err_set(e, -EXDEV, "it is not on a file system of this machine alone");
	return 0;
}

static int visit(const struct walk *k, struct sockdir *dir)
{
	int r = k->w->found(k->w->data, dir);

	(void)fd_close(dir->fd);
	return r;
}

/* The directory of the plain name there. */
static int try_plain(struct walk *k, struct place *p)
{
	cleanup_fd int above = open(p->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	char path[SOCKDIR_PATH_MAX];
	struct sockdir dir;
	struct err e = ERR_INIT;
	int r;

	(void)str_print(path, sizeof(path), "%s/%s", p->path, k->name);
	if (above < 0) {
		(void)err_sys(&e, errno, "open %s", p->path);
		if (k->w->make)
			pass_over(k, path, &e);
		return 0;
	}
	r = open_one(above, p->path, k->name, k->w->make, &dir, &e);
	if (r == 0)
		return visit(k, &dir);
	p->taken = r == -EPERM;
	if (r < 0)
		pass_over(k, path, &e);
	return 0;
}

/* "tenure-sockets-UID.XXXXXXXX" that was made because the plain name was taken. */
static int try_others(const struct walk *k, const struct place *p)
{
	size_t len = strlen(k->name);
	struct dirent *d;
	DIR *all = opendir(p->path);
	int r = 0;

	while (all && r == 0 && (d = readdir(all))) {
		struct sockdir dir;

		if (!strncmp(d->d_name, k->name, len) && d->d_name[len] == '.' &&
		    open_one(dirfd(all), p->path, d->d_name, false, &dir, NULL) == 0)
			r = visit(k, &dir);
	}
	if (all)
		(void)closedir(all);
	return r;
}

static int make_other(const struct walk *k, const struct place *p)
{
	cleanup_fd int above = open(p->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	char name[64];
	uint32_t number = 0;
	struct sockdir dir;
	struct err e = ERR_INIT;

	if (above < 0 || getrandom(&number, sizeof(number), 0) != sizeof(number))
		return 0;
	(void)str_print(name, sizeof(name), "%s.%08x", k->name, number);
	if (open_one(above, p->path, name, true, &dir, &e) != 0)
		return 0;
	return visit(k, &dir);
}

int sockdir_walk(const struct sockdir_walk *walk)
{
	struct walk k = { .w = walk };
	int r = 0;

	list_places(&k);
	for (size_t i = 0; r == 0 && i < PLACES; i++)
		if (k.places[i].path)
			r = try_plain(&k, &k.places[i]);
	for (size_t i = 0; r == 0 && i < PLACES; i++)
		if (k.places[i].taken)
			r = try_others(&k, &k.places[i]);
	for (size_t i = 0; r == 0 && walk->make && i < PLACES; i++)
		if (k.places[i].taken)
			r = make_other(&k, &k.places[i]);
	if (r == 0 && k.last.path)
		r = try_plain(&k, &k.last);
	return r;
}
