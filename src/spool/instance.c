/* SPDX-License-Identifier: MIT */
#include "spool/instance.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <jansson.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "spool/own.h"

#define INSTANCE_FILE	  "instance.json"
#define INSTANCE_FILE_MAX 65536
#define OPEN_TRIES	  10
#define OPEN_PAUSE_NS	  5000000
#define KEY_FILE	  "key"
#define KEY_FILE_MAX	  128
#define ENTRY_MAX	  16384 /* bytes of an entry of passwd or group */
#define USER_TEXT_MAX	  128

/* ---- who is trusted ---- */

static bool find_user(const char *word, uid_t *ret)
{
	cleanup_free char *buf = xmalloc(ENTRY_MAX);
	struct passwd pw, *found = NULL;
	uint64_t number;

	if (str_to_u64(word, &number) == 0) {
		*ret = (uid_t)number;
		return number < (uid_t)-1;
	}
	if (getpwnam_r(word, &pw, buf, ENTRY_MAX, &found) != 0 || !found)
		return false;
	*ret = found->pw_uid;
	return true;
}

struct spool_trust trust_from_settings(const struct settings *s)
{
	return (struct spool_trust){ .accepted = &settings_value(s, SET_ACCEPT_OWNERS)->words,
				     .setting = (enum trust_setting)settings_num(s, SET_TRUST) };
}

/* Names that nobody has, which settings_check() refuses, are none. May ask a directory service. */
static void trust_take(struct spool *sp, const struct spool_trust *trust)
{
	const struct text_list *words = trust ? trust->accepted : NULL;
	size_t n = words ? words->n : 0;

	sp->may_trust_all = trust && trust->setting == TRUST_DIRECTORY;
	sp->accepted = xcalloc(n + 1, sizeof(*sp->accepted));
	for (size_t i = 0; i < n; i++)
		if (find_user(words->texts[i], &sp->accepted[sp->n_accepted]))
			sp->n_accepted++;
}

static void trust_clear(struct spool *sp)
{
	free(take_ptr(sp->accepted));
	sp->n_accepted = 0;
}

/*
 * Nobody but its owner is in the group, as where every user has one of his own name. Who has it as
 * his first group is in no list, so the name has to say it; and where there is an access list, the
 * bits of the group are those of everybody in it.
 */
static bool is_private_group(int fd, const struct stat *st)
{
	cleanup_free char *pw_buf = xmalloc(ENTRY_MAX), *gr_buf = xmalloc(ENTRY_MAX);
	struct passwd pw, *user = NULL;
	struct group gr, *group = NULL;

	if (fgetxattr(fd, "system.posix_acl_access", NULL, 0) > 0 ||
	    getpwuid_r(st->st_uid, &pw, pw_buf, ENTRY_MAX, &user) != 0 || !user ||
	    getgrgid_r(st->st_gid, &gr, gr_buf, ENTRY_MAX, &group) != 0 || !group ||
	    strcmp(group->gr_name, user->pw_name) != 0)
		return false;
	for (char **member = group->gr_mem; *member; member++)
		if (strcmp(*member, user->pw_name) != 0)
			return false;
	return true;
}

static bool others_can_write(int fd, const struct stat *st)
{
	return st->st_mode & S_IWOTH || (st->st_mode & S_IWGRP && !is_private_group(fd, st));
}

static char *config_file(void)
{
	cleanup_free char *dir = fs_config_dir();
	cleanup_free char *path = xasprintf("%s/config.yaml", dir);

	return fs_show_path(path);
}

/* The word by which a user is accepted: the name, or the number where there is none. */
static char *user_word(uid_t uid, char buf[USER_TEXT_MAX])
{
	(void)user_name(uid, buf, USER_TEXT_MAX);
	return str_has_prefix(buf, "uid ") ? buf + strlen("uid ") : buf;
}

static int anothers(const char *path, uid_t uid, struct err *e)
{
	char theirs[USER_TEXT_MAX], ours[USER_TEXT_MAX], word_buf[USER_TEXT_MAX];
	const char *word = user_word(uid, word_buf);
	cleanup_free char *config = config_file();

	(void)user_name(uid, theirs, sizeof(theirs));
	(void)user_name(geteuid(), ours, sizeof(ours));
	return err_set(
		e, -EPERM,
		"%s belongs to %s, and what is in it would be run with the rights of %s. Use "
		"a queue of your own (--root DIR, --instance NAME), or, if that is meant, "
		"accept its owner: --accept-owners %s, or accept_owners: %s in %s",
		path, theirs, ours, word, word, config);
}

/* A caller that only looks runs nothing of the instance. */
static int closed_to_us(const char *path, uid_t uid, struct err *e)
{
	char theirs[USER_TEXT_MAX], ours[USER_TEXT_MAX];

	(void)user_name(uid, theirs, sizeof(theirs));
	(void)user_name(geteuid(), ours, sizeof(ours));
	return err_set(e, -EPERM,
		       "%s belongs to %s, and %s may not look into it: use a queue of your own "
		       "elsewhere (--root DIR, --instance NAME)",
		       path, theirs, ours);
}

static int written_by_others(const char *path, mode_t mode, struct err *e)
{
	char ours[USER_TEXT_MAX];
	cleanup_free char *config = config_file();

	return err_set(e, -EPERM,
		       "others can write in %s (mode %04o), and what they put there would be run "
		       "with the rights of %s: chmod go-w %s, or, if everybody who can write there "
		       "is trusted, --trust directory, or trust: directory in %s",
		       path, (unsigned int)mode & 07777, user_name(geteuid(), ours, sizeof(ours)),
		       path, config);
}

/* Its owner may move what is in it, too; but a directory of ours can only be exchanged with another
 * one of ours, so what is asked for is that not everybody can. */
static int root_of_others(const struct spool *sp, const char *root, mode_t mode, struct err *e)
{
	char word[USER_TEXT_MAX];
	cleanup_free char *config = config_file();

	return err_set(
		e, -EPERM,
		"others can write in %s (mode %04o, without the sticky bit), so that they can "
		"put something else in the place of %s: use a directory of your own in it "
		"(--root %s/%s), chmod go-w or +t %s, or, if everybody who can write there is "
		"trusted, --trust directory, or trust: directory in %s",
		root, (unsigned int)mode & 07777, sp->path, root, user_word(geteuid(), word), root,
		config);
}

/*
 * The instance's directory and the one that it is in: 0, or -EPERM with whose it is, what would
 * happen, and how to accept it. SPOOL_LOOK: the directory's owner is accepted.
 */
static int trust_check_dirs(struct spool *sp, int root_fd, const char *root, struct err *e)
{
	struct stat dir, above;

	if (fstat(sp->fd, &dir) < 0)
		return err_sys(e, errno, "stat %s", sp->path);
	sp->owner = dir.st_uid;
	sp->group = dir.st_gid;
	if (!spool_accepts(sp, dir.st_uid))
		return anothers(sp->path, dir.st_uid, e);
	if (sp->looks || sp->may_trust_all)
		return 0;
	if (others_can_write(sp->fd, &dir))
		return written_by_others(sp->path, dir.st_mode, e);
	if (fstat(root_fd, &above) < 0)
		return err_sys(e, errno, "stat %s", root);
	if (!(above.st_mode & S_ISVTX) && others_can_write(root_fd, &above))
		return root_of_others(sp, root, above.st_mode, e);
	return 0;
}

/* The same of a file that decides what is run, instance.json. */
static int trust_check_file(const struct spool *sp, int fd, const char *file, struct err *e)
{
	cleanup_free char *path = xasprintf("%s/%s", sp->path, file);
	struct stat st, dir;

	if (fstat(fd, &st) < 0 || fstat(sp->fd, &dir) < 0)
		return err_sys(e, errno, "stat %s", path);
	if (sp->may_trust_all)
		return 0;
	if (!spool_accepts(sp, st.st_uid))
		return anothers(path, st.st_uid, e);
	/* Where nobody else gets into the directory, the file's own mode does not matter. */
	if (!sp->looks && dir.st_mode & (S_IXGRP | S_IXOTH) && others_can_write(fd, &st))
		return written_by_others(path, st.st_mode, e);
	return 0;
}

/* What cannot even be opened: -EPERM where it is another user's, with the same text, or, for who
 * only looks, one that says that he cannot; else 0. */
static int trust_check_name(const struct spool *sp, int dir_fd, const char *name, struct err *e)
{
	bool is_dir = dir_fd != sp->fd;
	cleanup_free char *path =
		xasprintf("%s%s%s", sp->path, is_dir ? "" : "/", is_dir ? "" : name);
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (sp->looks && st.st_uid != geteuid())
		return closed_to_us(path, st.st_uid, e);
	return spool_accepts(sp, st.st_uid) ? 0 : anothers(path, st.st_uid, e);
}

/* ---- instance.json ---- */

static int write_instance(struct spool *sp, struct err *e)
{
	char path[SPOOL_PATH_MAX];
	json_t *doc = json_pack("{s:i, s:s, s:I, s:s}", "format", SPOOL_FORMAT, "name",
				sp->instance, "owner", (json_int_t)geteuid(), "trust", "owner");
	cleanup_free char *text = json_dumps(doc, JSON_INDENT(2));
	int r;

	json_decref(doc);
	(void)spool_tmp_path(sp, "instance", 0, path);
	r = spool_write_new(sp, path, text, strlen(text), true, e);
	return r == 0 ? spool_put_once(sp, path, INSTANCE_FILE, e) : r;
}

int spool_parse_instance(const char *path, const char *text, size_t len, bool *ret_trusts_all,
			 struct err *e)
{
	json_error_t je;
	json_t *doc = json_loadb(text, len, 0, &je);
	const json_t *owner = json_object_get(doc, "owner");
	json_int_t format = json_integer_value(json_object_get(doc, "format"));
	const char *trust = json_string_value(json_object_get(doc, "trust"));
	bool known = !trust || strcmp(trust, "owner") == 0 || strcmp(trust, "directory") == 0;
	int r = 0;

	if (!doc)
		r = err_set(e, -EINVAL, "%s/" INSTANCE_FILE ": line %d: %s", path, je.line,
			    je.text);
	else if (format != SPOOL_FORMAT)
		r = err_set(e, -EPROTO,
			    "%s is of format %" JSON_INTEGER_FORMAT
			    "; this tenure works with format %d: use the tenure that made it, or "
			    "another instance (--instance NAME)",
			    path, format, SPOOL_FORMAT);
	else if (!known || (owner && !json_is_integer(owner)))
		r = err_set(e, -EINVAL,
			    "%s/" INSTANCE_FILE
			    ": owner is a user's number, trust is \"owner\" or \"directory\"",
			    path);
	else
		*ret_trusts_all = trust && strcmp(trust, "directory") == 0;
	json_decref(doc);
	return r;
}

static int read_instance_once(struct spool *sp, struct err *e)
{
	cleanup_fd int fd = spool_openat(sp, INSTANCE_FILE, O_RDONLY);
	cleanup_free char *text = NULL, *path = xasprintf("%s/" INSTANCE_FILE, sp->path);
	struct stat st;
	size_t len;
	int r;

	if (fd == -EACCES && trust_check_name(sp, sp->fd, INSTANCE_FILE, e) < 0)
		return -EPERM;
	if (fd < 0)
		return fd == -ENOENT ? fd : spool_open_failed(sp, INSTANCE_FILE, -fd, e);
	if (fstat(fd, &st) < 0)
		return err_sys(e, errno, "stat %s/" INSTANCE_FILE, sp->path);
	if (!S_ISREG(st.st_mode))
		return err_set(e, -EINVAL, "%s/" INSTANCE_FILE " is not a regular file", sp->path);
	r = trust_check_file(sp, fd, INSTANCE_FILE, e);
	if (r == 0)
		r = fs_read_open(fd, path, INSTANCE_FILE_MAX, &text, &len, e);
	if (r == 0)
		r = spool_parse_instance(sp->path, text, len, &sp->trust_directory, e);
	/* The instance's own word is not enough. */
	sp->trust_directory = sp->trust_directory && (sp->may_trust_all || sp->looks);
	return r;
}

static int read_instance(struct spool *sp, struct err *e)
{
	unsigned int tries = 0;
	int r;

	do
		r = read_instance_once(sp, e);
	while (fs_reads_again(r, &tries));
	return r;
}

/* ---- opening ---- */

/* Of the first namespace, in which PIDs are the kernel's own (linux/proc_ns.h). */
#define FIRST_PID_NAMESPACE "4026531836"

static void read_boot_id(char *buf)
{
	cleanup_free char *text = NULL;
	char link[64] = "", number[24];
	size_t len;

	buf[0] = '\0';
	if (fs_read_file("/proc/sys/kernel/random/boot_id", 64, &text, &len, NULL) < 0)
		return;
	text[strcspn(text, "\n")] = '\0';
	(void)str_copy(buf, SPOOL_BOOT_MAX, text);
	if (readlink("/proc/self/ns/pid", link, sizeof(link) - 1) < 0 ||
	    sscanf(link, "pid:[%20[0-9]]", number) != 1 || strcmp(number, FIRST_PID_NAMESPACE) == 0)
		return;
	(void)str_print(buf, SPOOL_BOOT_MAX, "%.40s.%s", text, number);
}

/*
 * NFS asks its server at each open; other shared filesystems may answer one from what they
 * remember.
 */
static bool opens_may_be_stale(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) < 0 || (uint32_t)fs.f_type != 0x6969 /* nfs */;
}

static int make_dirs(const struct spool *sp, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < SPOOL_DIR_MAX && r == 0; i++)
		r = spool_make_dir(sp, (enum spool_dir)i, e);
	return r;
}

/* Opens the directory, whoever owns it; *ret_root is its parent. */
static int open_dir(struct spool *sp, const char *root, unsigned int flags, int *ret_root,
		    struct err *e)
{
	int r = flags & SPOOL_CREATE ? fs_mkdirs(root, 0700, e) : 0;
	struct stat st;

	if (r < 0)
		return r;
	*ret_root = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (*ret_root < 0)
		return err_sys(e, errno, "open %s", root);
	if (flags & SPOOL_CREATE && mkdirat(*ret_root, sp->instance, 0700) < 0 && errno != EEXIST &&
	    fstatat(*ret_root, sp->instance, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, errno, "make directory %s", sp->path);
	sp->fd = openat(*ret_root, sp->instance, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (sp->fd >= 0)
		return 0;
	r = -errno;
	if (fstatat(*ret_root, sp->instance, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode))
		return err_set(e, -ELOOP,
			       "%s is a symbolic link, which could lead elsewhere tomorrow; name "
			       "the directory itself (--root DIR, --instance NAME)",
			       sp->path);
	if (r == -EACCES && trust_check_name(sp, *ret_root, sp->instance, e) < 0)
		return -EPERM;
	return err_sys(e, -r, "open %s", sp->path);
}

static int open_instance(struct spool *sp, const char *root, unsigned int flags, struct err *e)
{
	cleanup_fd int root_fd = -1;
	int r = open_dir(sp, root, flags, &root_fd, e);

	if (r == 0)
		r = trust_check_dirs(sp, root_fd, root, e);
	if (r < 0)
		return r;
	sp->network = fs_is_shared(sp->fd);
	sp->no_syncfs = !fs_has_syncfs(sp->fd);
	sp->stale_opens = sp->network && opens_may_be_stale(sp->fd);
	r = read_instance(sp, e);
	if (r != -ENOENT)
		return r;
	if (!(flags & SPOOL_CREATE))
		return r;
	r = make_dirs(sp, e);
	if (r == 0)
		r = write_instance(sp, e);
	r = r == 0 ? read_instance(sp, e) : r;
	return r == -ENOENT ? err_set(e, -EIO,
				      "%s/" INSTANCE_FILE " is not found just after it was made",
				      sp->path)
			    : r;
}

/* Commands take -ENOENT for an empty queue, so it must be certain. */
static int no_instance(const struct spool *sp, const char *root, struct err *e)
{
	bool none = sp->fd < 0 ? spool_is_no_path(sp->path) : spool_is_gone(sp, INSTANCE_FILE);

	if (!none)
		return err_set(e, -EIO, "%s%s is not found, though it is there", sp->path,
			       sp->fd < 0 ? "" : "/" INSTANCE_FILE);
	return err_set(e, -ENOENT,
		       "there is no instance \"%s\" in %s yet (tenure submit makes it; tenure "
		       "instances lists them)",
		       sp->instance, root);
}

/* AGAIN: it was not found, and is there now. */
#define AGAIN 1

static int open_once(const char *root, const char *instance, const struct spool_trust *trust,
		     unsigned int flags, struct spool **ret, struct err *e)
{
	struct spool *sp = xcalloc(1, sizeof(*sp));

	sp->path = xasprintf("%s/%s", root, instance);
	sp->instance = xstrdup(instance);
	read_boot_id(sp->boot);
	if (gethostname(sp->host, sizeof(sp->host) - 1) < 0)
		(void)str_copy(sp->host, sizeof(sp->host), "localhost");
	sp->fd = -1;
	sp->looks = flags & SPOOL_LOOK;
	trust_take(sp, trust);

	int r = open_instance(sp, root, flags, e);

	if (r == -ENOENT && !(flags & SPOOL_CREATE))
		r = no_instance(sp, root, e) == -EIO ? AGAIN : -ENOENT;
	if (r != 0)
		sp = spool_close(sp);
	*ret = sp;
	return r;
}

int spool_open(const char *root, const char *instance, const struct spool_trust *trust,
	       unsigned int flags, struct spool **ret, struct err *e)
{
	static const struct timespec pause = { .tv_nsec = OPEN_PAUSE_NS };
	struct err none = ERR_INIT;
	int r = AGAIN;

	if (!ident_is_name(instance))
		return err_set(e, -EINVAL,
			       "\"%.80s\" is no name of an instance; use up to %d letters, digits "
			       "and . _ + -",
			       instance, SPEC_NAME_MAX);
	/* Who makes it may do so between the two looks; only what goes on is an error. */
	for (int i = 0; i < OPEN_TRIES && r == AGAIN; i++) {
		if (i)
			(void)nanosleep(&pause, NULL);
		r = open_once(root, instance, trust, flags, ret, &none);
	}
	if (r != 0 && e)
		*e = none;
	return r == AGAIN ? -EIO : r;
}

struct spool *spool_close(struct spool *sp)
{
	if (!sp)
		return NULL;
	(void)fd_close(sp->fd);
	trust_clear(sp);
	free(sp->path);
	free(sp->instance);
	free(sp);
	return NULL;
}

bool spool_was_replaced(const struct spool *sp, bool *ret_other)
{
	struct stat open, named;
	bool there = stat(sp->path, &named) == 0;

	if ((!there && errno != ENOENT) || fstat(sp->fd, &open) < 0 ||
	    (there && open.st_dev == named.st_dev && open.st_ino == named.st_ino))
		return false;
	*ret_other = there;
	return true;
}

static bool misses(const struct spool *sp, enum spool_dir dir)
{
	return faccessat(sp->fd, spool_dir_name(dir), F_OK, 0) < 0 && errno == ENOENT;
}

bool spool_was_removed(const struct spool *sp)
{
	struct stat st;

	if (fstat(sp->fd, &st) < 0)
		return errno == ESTALE;
	return !st.st_nlink || (misses(sp, SPOOL_PENDING) && misses(sp, SPOOL_RUNNING));
}

const char *spool_path_of(const struct spool *sp)
{
	return sp->path;
}

const char *spool_instance(const struct spool *sp)
{
	return sp->instance;
}

const char *spool_host(const struct spool *sp)
{
	return sp->host;
}

const char *spool_boot(const struct spool *sp)
{
	return sp->boot;
}

bool spool_is_network(const struct spool *sp)
{
	return sp->network;
}

/* ---- all of them ---- */

char *spool_root(const char *setting)
{
	return setting && setting[0] ? xstrdup(setting) : fs_state_dir();
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int spool_instances(const char *root, struct text_list *ret, struct err *e)
{
	DIR *d = opendir(root);

	if (!d)
		return errno == ENOENT ? 0 : err_sys(e, errno, "open %s", root);
	for (struct dirent *de; (de = readdir(d));) {
		char path[SPOOL_PATH_MAX + NAME_FILE_MAX];

		(void)str_print(path, sizeof(path), "%s/" INSTANCE_FILE, de->d_name);
		/* An instance into which we may not look exists all the same. */
		if (ident_is_name(de->d_name) && strcmp(de->d_name, "lost+found") != 0 &&
		    (faccessat(dirfd(d), path, F_OK, 0) == 0 || errno == EACCES))
			text_list_add(ret, de->d_name);
	}
	(void)closedir(d);
	if (ret->n)
		qsort(ret->texts, ret->n, sizeof(char *), by_text);
	return 0;
}

int spool_use(const char *instance, struct err *e)
{
	cleanup_free char *dir = fs_config_dir();
	cleanup_free char *path = xasprintf("%s/use", dir);
	cleanup_free char *line = xasprintf("%s\n", instance);
	int r = fs_mkdirs(dir, 0700, e);

	return r == 0 ? fs_write_atomic(path, line, strlen(line), 0600, e) : r;
}

/* ---- the key ---- */

int spool_key_read(const struct spool *sp, char ret[SPOOL_KEY_MAX], struct err *e)
{
	cleanup_free char *text = NULL;
	size_t len;
	int r = spool_read(sp, KEY_FILE, KEY_FILE_MAX, &text, &len, e);

	r = spool_confirm(sp, KEY_FILE, r, e);
	if (r < 0)
		return r;
	text[strcspn(text, "\n")] = '\0';
	if (strlen(text) != SPOOL_KEY_MAX - 1 ||
	    strspn(text, "0123456789abcdef") != SPOOL_KEY_MAX - 1)
		return err_set(e, -EINVAL,
			       "%s/" KEY_FILE " is no key; when no task of this instance runs any "
			       "more, remove it: another one is made then",
			       sp->path);
	(void)str_copy(ret, SPOOL_KEY_MAX, text);
	return 0;
}

/* The file has its content when it appears, and only one of several makers makes it. */
static int make_key(const struct spool *sp, struct err *e)
{
	char tmp[SPOOL_PATH_MAX], line[SPOOL_KEY_MAX + 1];
	uint64_t random[2];
	int r;

	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return err_sys(e, errno, "get random numbers");
	(void)str_print(line, sizeof(line), "%016" PRIx64 "%016" PRIx64 "\n", random[0], random[1]);
	r = spool_write_new(sp, spool_tmp_path(sp, "key", 0, tmp), line, strlen(line), true, e);
	/* Without links the last maker wins; tasks are started after this, so none is named. */
	return r == 0 ? spool_put_once(sp, tmp, KEY_FILE, e) : r;
}

int spool_key(const struct spool *sp, char ret[SPOOL_KEY_MAX], struct err *e)
{
	int r = spool_key_read(sp, ret, e);

	if (r != -ENOENT)
		return r;
	r = make_key(sp, e);
	return r == 0 ? spool_key_read(sp, ret, e) : r;
}
