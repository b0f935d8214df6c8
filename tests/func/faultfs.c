/* SPDX-License-Identifier: MIT */

/*
 * A file system that passes everything on to a directory, as a network file system would that has
 * its bad days:
 *
 *	faultfs DIRECTORY MOUNTPOINT [negative=S] [entry=S] [attr=S] [dirs]
 *		[seed=N] [control=SOCKET]
 *
 * Several mounts of one directory are several clients of one server. What a client remembers, and
 * for how many seconds: that a name is not there (negative), what a name is (entry), size and times
 * (attr), and, as long as the time of change that it knows is the same, listings (dirs); nothing
 * unless asked. Stopped with SIGSTOP it is a client whose server does not answer.
 *
 * At the socket each line is an order, answered with "ok" once it is in force, or with what is
 * wrong with it:
 *
 *	rule OPS ACTION PERMILLE [PATTERN]
 *			one more, for so many of a thousand calls, of paths that are as the shell
 *			pattern says (/pending/a; of a rename, both with a space between)
 *	clear		no rules; what hangs goes on
 *	counts		"ok", how many calls there were, and how many of them met a rule
 *
 *	OPS		names of enum op with commas between them, or reads, writes, all
 *	ACTION
 *	error=N		the call is not made, and answered with that errno
 *	lie=N		it is made, and answered with that errno all the same
 *	again		it is made, and answered as if it had been sent twice because its first
 *			answer got lost
 *	delay=MS	it is made so much later
 *	hang		it waits for the next `clear`; who is killed meanwhile dies, as with NFS
 *	stuck		it waits for the next `clear`, and so does whoever asks, killed or not
 */
#define FUSE_USE_VERSION 31

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <fuse.h>
#include <fuse_lowlevel.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <unistd.h>

#define RULES_MAX 16
#define POLL_US	  30000

enum op {
	OP_GETATTR,
	OP_OPEN,
	OP_READ,
	OP_READDIR,
	OP_STATFS,
	OP_CREATE,
	OP_WRITE,
	OP_FSYNC,
	OP_FLUSH,
	OP_MKDIR,
	OP_UNLINK,
	OP_RMDIR,
	OP_RENAME,
	OP_LINK,
	OP_SYMLINK,
	OP_CHMOD,
	OP_CHOWN,
	OP_TRUNCATE,
	OP_UTIMENS,
	OP_MAX
};

static const char *const op_names[] = {
	[OP_GETATTR] = "getattr", [OP_OPEN] = "open",	  [OP_READ] = "read",
	[OP_READDIR] = "readdir", [OP_STATFS] = "statfs", [OP_CREATE] = "create",
	[OP_WRITE] = "write",	  [OP_FSYNC] = "fsync",	  [OP_FLUSH] = "flush",
	[OP_MKDIR] = "mkdir",	  [OP_UNLINK] = "unlink", [OP_RMDIR] = "rmdir",
	[OP_RENAME] = "rename",	  [OP_LINK] = "link",	  [OP_SYMLINK] = "symlink",
	[OP_CHMOD] = "chmod",	  [OP_CHOWN] = "chown",	  [OP_TRUNCATE] = "truncate",
	[OP_UTIMENS] = "utimens",
};

#define READS                                                                                      \
	(1u << OP_GETATTR | 1u << OP_OPEN | 1u << OP_READ | 1u << OP_READDIR | 1u << OP_STATFS)
#define ALL    ((1u << OP_MAX) - 1)
#define WRITES (ALL & ~READS)

enum action { ACTION_ERROR, ACTION_LIE, ACTION_AGAIN, ACTION_DELAY, ACTION_HANG, ACTION_STUCK };

struct rule {
	unsigned int ops;
	enum action action;
	int value; /* errno, or milliseconds */
	unsigned int permille;
	char pattern[128];
};

static int root_fd;
static double negative_s, entry_s, attr_s;
static bool cache_dirs;
static const char *control_path;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct rule rules[RULES_MAX];
static int n_rules;
static unsigned long long seed;
static atomic_uint generation; /* of the rules: `clear` makes a new one */
static atomic_ullong calls, met;

#define AT(path)     ((path)[1] ? (path) + 1 : ".")
#define RESULT(call) ((call) < 0 ? -errno : 0)

/* ---- faults ---- */

/* splitmix64, under the mutex */
static unsigned int below_thousand(void)
{
	unsigned long long z = seed += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return (unsigned int)((z ^ z >> 31) % 1000);
}

static bool find_rule(enum op op, const char *path, struct rule *ret, unsigned int *ret_generation)
{
	bool found = false;

	(void)pthread_mutex_lock(&mutex);
	for (int i = 0; i < n_rules && !found; i++) {
		if (!(rules[i].ops & 1u << op) ||
		    fnmatch(rules[i].pattern, path ? path : "", 0) != 0 ||
		    below_thousand() >= rules[i].permille)
			continue;
		*ret = rules[i];
		found = true;
	}
	*ret_generation = atomic_load(&generation);
	(void)pthread_mutex_unlock(&mutex);
	(void)atomic_fetch_add(&calls, 1);
	if (found)
		(void)atomic_fetch_add(&met, 1);
	return found;
}

/* Whoever asks has been killed: the kernel says so of every signal, so it is looked at. */
static bool is_killed(pid_t pid)
{
	char path[64], line[256];
	unsigned long long pending;
	bool killed = true;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return true;
	killed = false;
	while (fgets(line, sizeof(line), f))
		if ((sscanf(line, "SigPnd: %llx", &pending) == 1 ||
		     sscanf(line, "ShdPnd: %llx", &pending) == 1) &&
		    pending & 1ULL << 8)
			killed = true;
	(void)fclose(f);
	return killed;
}

/* What to answer instead of making the call (negative), or 0; then *ret_after is what to do to its
 * answer. */
static int before(enum op op, const char *path, struct rule *ret_after)
{
	unsigned int begun;
	struct rule r;

	*ret_after = (struct rule){ .action = ACTION_DELAY };
	if (!find_rule(op, path, &r, &begun))
		return 0;
	switch (r.action) {
	case ACTION_ERROR:
		return -r.value;
	case ACTION_DELAY:
		(void)usleep((useconds_t)r.value * 1000);
		return 0;
	case ACTION_HANG:
	case ACTION_STUCK:
		while (atomic_load(&generation) == begun) {
			if (r.action == ACTION_HANG && is_killed(fuse_get_context()->pid))
				return -EINTR;
			(void)usleep(POLL_US);
		}
		return 0;
	case ACTION_LIE:
	case ACTION_AGAIN:
		*ret_after = r;
		return 0;
	}
	return 0;
}

/* The answer to a call that was made, with this result. */
static int after(enum op op, const struct rule *r, bool exclusive, int result)
{
	if (result < 0 || r->action == ACTION_DELAY)
		return result;
	if (r->action == ACTION_LIE)
		return -r->value;
	switch (op) {
	case OP_UNLINK:
	case OP_RMDIR:
	case OP_RENAME:
		return -ENOENT;
	case OP_MKDIR:
	case OP_LINK:
	case OP_SYMLINK:
		return -EEXIST;
	case OP_CREATE:
		return exclusive ? -EEXIST : result;
	default:
		return result;
	}
}

#define DO(op, path, call)                                                                         \
	({                                                                                         \
		struct rule after_it_;                                                             \
		int r_ = before(op, path, &after_it_);                                             \
                                                                                                   \
		r_ == 0 ? after(op, &after_it_, false, call) : r_;                                 \
	})

/* ---- calls ---- */

static int p_getattr(const char *path, struct stat *st, struct fuse_file_info *fi)
{
	if (fi && fi->fh)
		return DO(OP_GETATTR, path, RESULT(fstat((int)fi->fh, st)));
	return DO(OP_GETATTR, path, RESULT(fstatat(root_fd, AT(path), st, AT_SYMLINK_NOFOLLOW)));
}

static int open_as(enum op op, const char *path, int flags, mode_t mode, struct fuse_file_info *fi)
{
	struct rule after_it;
	int fd, r = before(op, path, &after_it);

	if (r < 0)
		return r;
	fd = openat(root_fd, AT(path), (flags & ~O_NOFOLLOW) | O_CLOEXEC, mode);
	r = after(op, &after_it, (flags & O_EXCL) != 0, fd < 0 ? -errno : 0);
	if (r == 0)
		fi->fh = (uint64_t)fd;
	else if (fd >= 0)
		(void)close(fd);
	return r;
}

static int p_open(const char *path, struct fuse_file_info *fi)
{
	return open_as(OP_OPEN, path, fi->flags, 0, fi);
}

static int p_create(const char *path, mode_t mode, struct fuse_file_info *fi)
{
	return open_as(OP_CREATE, path, fi->flags | O_CREAT, mode, fi);
}

static int p_release(const char *path, struct fuse_file_info *fi)
{
	return RESULT(close((int)fi->fh));
}

static int p_flush(const char *path, struct fuse_file_info *fi)
{
	return DO(OP_FLUSH, path, 0);
}

static int result_of(ssize_t n)
{
	return n < 0 ? -errno : (int)n;
}

static int p_read(const char *path, char *buf, size_t size, off_t at, struct fuse_file_info *fi)
{
	return DO(OP_READ, path, result_of(pread((int)fi->fh, buf, size, at)));
}

static int p_write(const char *path, const char *buf, size_t size, off_t at,
		   struct fuse_file_info *fi)
{
	return DO(OP_WRITE, path, result_of(pwrite((int)fi->fh, buf, size, at)));
}

static _Thread_local bool opens_dir;

static int p_opendir(const char *path, struct fuse_file_info *fi)
{
	opens_dir = cache_dirs;
	return open_as(OP_OPEN, path, O_RDONLY | O_DIRECTORY, 0, fi);
}

/* libfuse before 3.15 does not hand on what opendir() says of caching: so that is said where its
 * answer is sent, by the thread that made the call. */
__attribute__((visibility("default"))) int fuse_reply_open(fuse_req_t req,
							   const struct fuse_file_info *fi)
{
	int (*next)(fuse_req_t, const struct fuse_file_info *) =
		(__typeof__(next))dlsym(RTLD_NEXT, "fuse_reply_open");
	struct fuse_file_info told = *fi;

	if (opens_dir)
		told.cache_readdir = told.keep_cache = 1;
	opens_dir = false;
	return next(req, &told);
}

static int list(int dir_fd, void *buf, fuse_fill_dir_t fill)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!dir) {
		int r = -errno;

		if (fd >= 0)
			(void)close(fd);
		return r;
	}
	while ((entry = readdir(dir)))
		(void)fill(buf, entry->d_name, NULL, 0, 0);
	(void)closedir(dir);
	return 0;
}

static int p_readdir(const char *path, void *buf, fuse_fill_dir_t fill, off_t at,
		     struct fuse_file_info *fi, enum fuse_readdir_flags flags)
{
	return DO(OP_READDIR, path, list((int)fi->fh, buf, fill));
}

static int p_mkdir(const char *path, mode_t mode)
{
	return DO(OP_MKDIR, path, RESULT(mkdirat(root_fd, AT(path), mode)));
}

static int p_unlink(const char *path)
{
	return DO(OP_UNLINK, path, RESULT(unlinkat(root_fd, AT(path), 0)));
}

static int p_rmdir(const char *path)
{
	return DO(OP_RMDIR, path, RESULT(unlinkat(root_fd, AT(path), AT_REMOVEDIR)));
}

static int p_rename(const char *from, const char *to, unsigned int flags)
{
	char both[2 * 4096];

	(void)snprintf(both, sizeof(both), "%s %s", from, to);
	return DO(OP_RENAME, both, RESULT(renameat2(root_fd, AT(from), root_fd, AT(to), flags)));
}

static int p_link(const char *from, const char *to)
{
	return DO(OP_LINK, to, RESULT(linkat(root_fd, AT(from), root_fd, AT(to), 0)));
}

static int p_symlink(const char *what, const char *to)
{
	return DO(OP_SYMLINK, to, RESULT(symlinkat(what, root_fd, AT(to))));
}

static int p_readlink(const char *path, char *buf, size_t size)
{
	ssize_t n = readlinkat(root_fd, AT(path), buf, size - 1);

	if (n >= 0)
		buf[n] = '\0';
	return n < 0 ? -errno : 0;
}

static int p_chmod(const char *path, mode_t mode, struct fuse_file_info *fi)
{
	return DO(OP_CHMOD, path, RESULT(fchmodat(root_fd, AT(path), mode, 0)));
}

static int p_chown(const char *path, uid_t uid, gid_t gid, struct fuse_file_info *fi)
{
	return DO(OP_CHOWN, path,
		  RESULT(fchownat(root_fd, AT(path), uid, gid, AT_SYMLINK_NOFOLLOW)));
}

static int truncate_it(const char *path, off_t size, struct fuse_file_info *fi)
{
	int fd = fi && fi->fh ? (int)fi->fh : openat(root_fd, AT(path), O_WRONLY | O_CLOEXEC);
	int r = fd < 0 ? -errno : RESULT(ftruncate(fd, size));

	if (fd >= 0 && !(fi && fi->fh))
		(void)close(fd);
	return r;
}

static int p_truncate(const char *path, off_t size, struct fuse_file_info *fi)
{
	return DO(OP_TRUNCATE, path, truncate_it(path, size, fi));
}

static int p_utimens(const char *path, const struct timespec ts[2], struct fuse_file_info *fi)
{
	return DO(OP_UTIMENS, path, RESULT(utimensat(root_fd, AT(path), ts, AT_SYMLINK_NOFOLLOW)));
}

static int p_fsync(const char *path, int data, struct fuse_file_info *fi)
{
	return DO(OP_FSYNC, path, RESULT(data ? fdatasync((int)fi->fh) : fsync((int)fi->fh)));
}

static int p_statfs(const char *path, struct statvfs *st)
{
	return DO(OP_STATFS, path, RESULT(fstatvfs(root_fd, st)));
}

/* ---- orders ---- */

static bool parse_ops(char *text, unsigned int *ret)
{
	char *save = NULL;

	for (char *one = strtok_r(text, ",", &save); one; one = strtok_r(NULL, ",", &save)) {
		unsigned int bit = strcmp(one, "all") == 0	? ALL
				   : strcmp(one, "reads") == 0	? READS
				   : strcmp(one, "writes") == 0 ? WRITES
								: 0;

		for (int i = 0; i < OP_MAX && !bit; i++)
			bit = strcmp(one, op_names[i]) == 0 ? 1u << i : 0;
		if (!bit)
			return false;
		*ret |= bit;
	}
	return *ret != 0;
}

static const char *add_rule(char *ops, const char *action, unsigned int permille,
			    const char *pattern)
{
	static const struct {
		const char *name;
		enum action action;
	} actions[] = { { "error=", ACTION_ERROR }, { "lie=", ACTION_LIE },
			{ "again", ACTION_AGAIN },  { "delay=", ACTION_DELAY },
			{ "hang", ACTION_HANG },    { "stuck", ACTION_STUCK } };
	struct rule r = { .permille = permille };
	bool known = false;

	if (n_rules == RULES_MAX)
		return "there are too many rules";
	if (!parse_ops(ops, &r.ops))
		return "there is no such call";
	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]) && !known; i++) {
		size_t n = strlen(actions[i].name);

		known = strncmp(action, actions[i].name, n) == 0;
		r.action = actions[i].action;
		r.value = atoi(action + n);
	}
	if (!known)
		return "there is no such action";
	(void)snprintf(r.pattern, sizeof(r.pattern), "%s", pattern);
	rules[n_rules++] = r;
	return "ok";
}

static void obey(char *line, char *answer, size_t size)
{
	char ops[256], action[32], pattern[128] = "*";
	const char *said = "not an order";
	unsigned int permille;

	(void)pthread_mutex_lock(&mutex);
	if (sscanf(line, "rule %255s %31s %u %127s", ops, action, &permille, pattern) >= 3) {
		said = add_rule(ops, action, permille, pattern);
	} else if (strncmp(line, "clear", strlen("clear")) == 0) {
		n_rules = 0;
		(void)atomic_fetch_add(&generation, 1);
		said = "ok";
	} else if (strncmp(line, "counts", strlen("counts")) == 0) {
		said = "ok";
	}
	(void)snprintf(answer, size, "%s %llu %llu\n", said, atomic_load(&calls),
		       atomic_load(&met));
	(void)pthread_mutex_unlock(&mutex);
}

static void *serve_orders(void *user)
{
	int listener = *(int *)user;

	for (;;) {
		char line[512] = "", answer[512];
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0)
			continue;
		if (read(fd, line, sizeof(line) - 1) > 0) {
			obey(line, answer, sizeof(answer));
			(void)!write(fd, answer, strlen(answer));
		}
		(void)close(fd);
	}
	return NULL;
}

static void listen_for_orders(void)
{
	static int listener;
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	pthread_t thread;

	if (snprintf(a.sun_path, sizeof(a.sun_path), "%s", control_path) >=
	    (int)sizeof(a.sun_path)) {
		(void)fprintf(stderr, "faultfs: %s is too long\n", control_path);
		exit(1);
	}
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listener < 0 || bind(listener, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    listen(listener, 8) < 0 || pthread_create(&thread, NULL, serve_orders, &listener)) {
		perror(control_path);
		exit(1);
	}
}

/* ---- the mount ---- */

static void *p_init(struct fuse_conn_info *conn, struct fuse_config *cfg)
{
	cfg->attr_timeout = attr_s;
	cfg->entry_timeout = entry_s;
	cfg->negative_timeout = negative_s;
	cfg->use_ino = 1;
	cfg->hard_remove = 1; /* else open files stay under other names */
	cfg->nullpath_ok = 0; /* rules go by paths */
	if (control_path)
		listen_for_orders();
	return NULL;
}

static const struct fuse_operations operations = {
	.init = p_init,
	.getattr = p_getattr,
	.open = p_open,
	.create = p_create,
	.release = p_release,
	.flush = p_flush,
	.read = p_read,
	.write = p_write,
	.opendir = p_opendir,
	.readdir = p_readdir,
	.releasedir = p_release,
	.mkdir = p_mkdir,
	.unlink = p_unlink,
	.rmdir = p_rmdir,
	.rename = p_rename,
	.link = p_link,
	.symlink = p_symlink,
	.readlink = p_readlink,
	.chmod = p_chmod,
	.chown = p_chown,
	.truncate = p_truncate,
	.utimens = p_utimens,
	.fsync = p_fsync,
	.fsyncdir = p_fsync,
	.statfs = p_statfs,
};

static bool parse_option(const char *text)
{
	if (strcmp(text, "dirs") == 0)
		cache_dirs = true;
	else if (strncmp(text, "control=", strlen("control=")) == 0)
		control_path = text + strlen("control=");
	else
		return sscanf(text, "negative=%lf", &negative_s) == 1 ||
		       sscanf(text, "entry=%lf", &entry_s) == 1 ||
		       sscanf(text, "attr=%lf", &attr_s) == 1 ||
		       sscanf(text, "seed=%llu", &seed) == 1;
	return true;
}

int main(int argc, char **argv)
{
	char name[] = "faultfs", foreground[] = "-f";
	/* What hangs must not keep others from being served. */
	char threads[] = "-omax_idle_threads=100,max_threads=100000";
	char *arguments[] = { name, foreground, argc > 2 ? argv[2] : NULL, threads, NULL };

	if (argc < 3)
		return 2;
	for (int i = 3; i < argc; i++)
		if (!parse_option(argv[i])) {
			(void)fprintf(stderr, "faultfs: there is no option %s\n", argv[i]);
			return 2;
		}
	root_fd = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root_fd < 0) {
		perror(argv[1]);
		return 1;
	}
	(void)umask(0);
	return fuse_main(fuse_version() >= FUSE_MAKE_VERSION(3, 12) ? 4 : 3, arguments, &operations,
			 NULL);
}
