/* SPDX-License-Identifier: MIT */
#include "base/proc.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/utf8.h"

#define PROMPT_SLICE_NS 100000			/* the shortest that the kernel takes */
#define FLAG_EXITING	0x4U			/* PF_EXITING of the kernel's sched.h */
#define PENDING_KILL	(1ULL << (SIGKILL - 1)) /* sent, and the process has not come to it yet */

#define ENVIRON_MAX	(4UL * 1024 * 1024)
#define ENVIRON_TRIES	100
#define ENVIRON_STEP_US 1000

/* Inode of the first PID namespace, fixed in the kernel (PROC_PID_INIT_INO). */
#define FIRST_PID_NAMESPACE 0xEFFFFFFCU

/* Read up to size - 1 bytes of /proc/pid/name; terminated. Bytes read, or -errno. */
static ssize_t read_proc(pid_t pid, const char *name, char *buf, size_t size)
{
	char path[64];

	(void)str_print(path, sizeof(path), "/proc/%d/%s", (int)pid, name);

	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;

	ssize_t n = read(fd, buf, size - 1);

	if (n < 0)
		return -errno;
	buf[n] = '\0';
	return n;
}

int proc_parse_stat(char *text, struct proc_peek *ret)
{
	/* The command in parentheses may hold spaces and such: fields start after the last. */
	char *open_paren = strchr(text, '('), *p = strrchr(text, ')');
	int parent;
	unsigned int flags;
	unsigned long long start, pending = 0;

	if (!p || !open_paren || p < open_paren ||
	    sscanf(p + 1,
		   " %c %d %*d %*d %*d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu"
		   " %*u %*d %*u %*u %*u %*u %*u %*u %llu",
		   &ret->state, &parent, &flags, &start, &pending) < 4)
		return -EIO;
	ret->ending = flags & FLAG_EXITING || pending & PENDING_KILL;
	*p = '\0';
	(void)str_copy(ret->comm, sizeof(ret->comm), open_paren + 1);
	(void)utf8_clean(ret->comm);
	ret->parent = parent;
	ret->start = start;
	return 0;
}

static int read_stat(pid_t pid, struct proc_peek *ret)
{
	char buf[1024];
	ssize_t n = read_proc(pid, "stat", buf, sizeof(buf));

	return n < 0 ? (int)n : proc_parse_stat(buf, ret);
}

int proc_peek(pid_t pid, struct proc_peek *ret)
{
	char path[64];
	struct stat st;
	int r = read_stat(pid, ret);

	(void)str_print(path, sizeof(path), "/proc/%d", (int)pid);
	ret->uid = stat(path, &st) < 0 ? (uid_t)-1 : st.st_uid;
	return r;
}

int proc_identify(pid_t pid, struct proc_id *ret)
{
	struct proc_peek st;
	int r = read_stat(pid, &st);

	if (r < 0)
		return r;
	*ret = (struct proc_id){ .pid = pid, .start = st.start };
	return 0;
}

int proc_runs(const struct proc_id *id)
{
	struct proc_peek st;
	int r = read_stat(id->pid, &st);

	if (r == -EMFILE || r == -ENFILE || r == -ENOMEM)
		return r;
	return r == 0 && st.start == id->start && st.state != 'Z' && st.state != 'X';
}

bool proc_alive(const struct proc_id *id)
{
	return proc_runs(id) != 0;
}

int proc_open(pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0U);

	/* EINVAL: a thread has that number now, or nobody could have it. */
	return fd >= 0 ? fd : errno == EINVAL ? -ESRCH : -errno;
}

bool proc_lacks_call(int r)
{
	return r == -ENOSYS || r == -EPERM;
}

int proc_signal_fd(int fd, pid_t pid, int sig)
{
	if (fd >= 0 && syscall(SYS_pidfd_send_signal, fd, sig, NULL, 0U) == 0)
		return 0;
	if (fd >= 0 && !proc_lacks_call(-errno))
		return -errno;
	return kill(pid, sig) < 0 ? -errno : 0;
}

int proc_signal(const struct proc_id *id, int sig)
{
	if (id->pid <= 1)
		return -EPERM;

	cleanup_fd int fd = proc_open(id->pid);

	if (fd < 0 && !proc_lacks_call(fd))
		return fd;
	/* From here a descriptor is one process; that it is the right one is seen now. */
	int r = proc_runs(id);

	if (r <= 0)
		return r < 0 ? r : -ESRCH;
	return proc_signal_fd(fd, id->pid, sig);
}

pid_t proc_parent(pid_t pid)
{
	struct proc_peek st;
	int r = read_stat(pid, &st);

	return r < 0 ? r : st.parent;
}

char *proc_program(pid_t pid, char *buf, size_t size)
{
	char path[48], target[4096];

	(void)str_print(path, sizeof(path), "/proc/%d/exe", (int)pid);

	ssize_t n = readlink(path, target, sizeof(target) - 1);

	target[n < 0 ? 0 : n] = '\0';

	const char *slash = strrchr(target, '/');

	(void)str_copy(buf, size, slash ? slash + 1 : target);
	return buf;
}

bool proc_is_python(pid_t pid, const char *comm)
{
	static const char *const names[] = { "python", "pypy" };
	char program[256];

	(void)proc_program(pid, program, sizeof(program));
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (str_has_prefix(program, names[i]) || str_has_prefix(comm, names[i]))
			return true;
	return false;
}

bool proc_is_no_answer(int r)
{
	return r == -EMFILE || r == -ENFILE || r == -ENOMEM || r == -EAGAIN;
}

bool proc_parse_user(const char *text, uid_t *ret)
{
	const char *p = strstr(text, "\nUid:");
	unsigned int uid;

	if (!p || sscanf(p + 5, "%u", &uid) != 1)
		return false;
	*ret = uid;
	return true;
}

int proc_is_of(pid_t pid, uid_t user)
{
	char text[4096]; /* it stands in front */
	uid_t uid;
	ssize_t n = read_proc(pid, "status", text, sizeof(text));

	if (n < 0)
		return proc_is_no_answer((int)n) ? (int)n : 0;
	return proc_parse_user(text, &uid) && uid == user;
}

int proc_parse_environ_size(const char *stat, size_t *ret)
{
	const char *p = strrchr(stat, ')');
	unsigned long long memory, code_end, start, end;

	if (!p ||
	    sscanf(p + 1,
		   " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d "
		   "%*d %*u %llu %*d %*u %*u %llu %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*d "
		   "%*d %*u %*u %*u %*u %*d %*u %*u %*u %*u %*u %llu %llu",
		   &memory, &code_end, &start, &end) != 4)
		return -ENODATA;
	if (!memory)
		return -ESRCH;
	/* It is what execve() sets last. */
	if (!code_end || end < start)
		return -EAGAIN;
	*ret = (size_t)(end - start);
	return 0;
}

/* pid: as the name of a directory. */
static int environ_size(const char *pid, size_t *ret)
{
	char path[48], text[1024];
	cleanup_fd int fd =
		open(str_print(path, sizeof(path), "/proc/%s/stat", pid), O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	text[n] = '\0';
	return proc_parse_environ_size(text, ret);
}

/* What was read is shorter than the kernel says, which some kernels never do (gVisor): 1, 0. Else
 * -errno, and what was read says nothing; -ESRCH: the process has ended. */
static int environ_is_cut(pid_t pid, size_t len)
{
	char name[16];
	size_t whole;
	int r = environ_size(str_print(name, sizeof(name), "%d", (int)pid), &whole);

	if (r == 0)
		return len != whole;
	if (r != -EAGAIN)
		return r == -ENODATA ? 0 : r;
	r = environ_size("self", &whole);
	return r == 0 ? 1 : proc_is_no_answer(r) && r != -EAGAIN ? r : 0;
}

int proc_environ(pid_t pid, char **ret, size_t *ret_len)
{
	char path[48];

	(void)str_print(path, sizeof(path), "/proc/%d/environ", (int)pid);
	for (int i = 0; i < ENVIRON_TRIES; i++) {
		cleanup_free char *text = NULL;
		int r = fs_read_file(path, ENVIRON_MAX, &text, ret_len, NULL);

		if (r == 0)
			r = environ_is_cut(pid, *ret_len);
		if (r < 0)
			return r == -ENOENT ? -ESRCH : r;
		if (r == 0) {
			*ret = take_ptr(text);
			return 0;
		}
		(void)usleep(ENVIRON_STEP_US);
	}
	return -EAGAIN;
}

uint64_t proc_start_mono_ns(uint64_t start)
{
	struct timespec boot, mono;
	long hz = sysconf(_SC_CLK_TCK);
	int64_t tick = (int64_t)NS_PER_S / (hz > 0 ? hz : 100);

	(void)clock_gettime(CLOCK_BOOTTIME, &boot);
	(void)clock_gettime(CLOCK_MONOTONIC, &mono);

	/* The two clocks differ by the time that the machine was suspended. */
	int64_t suspended =
		(boot.tv_sec - mono.tv_sec) * (int64_t)NS_PER_S + boot.tv_nsec - mono.tv_nsec;
	int64_t at = (int64_t)start * tick - suspended;

	return at > 0 ? (uint64_t)at : 0;
}

uint32_t proc_umask(void)
{
	static const char key[] = "\nUmask:";
	char text[256]; /* it is the second line */
	const char *at = NULL;

	if (read_proc(getpid(), "status", text, sizeof(text)) > 0)
		at = strstr(text, key);
	return at ? (uint32_t)strtoul(at + strlen(key), NULL, 8) & 0777 : 022;
}

char *user_name(uid_t uid, char *buf, size_t size)
{
	char scratch[4096];
	struct passwd pw, *found = NULL;

	if (getpwuid_r(uid, &pw, scratch, sizeof(scratch), &found) == 0 && found)
		(void)str_copy(buf, size, found->pw_name);
	else
		(void)str_print(buf, size, "uid %u", (unsigned int)uid);
	return utf8_clean(buf);
}

uid_t proc_describe(pid_t pid, char *command, size_t command_size)
{
	char buf[1024], path[64];
	struct stat st;
	ssize_t n = read_proc(pid, "cmdline", buf, sizeof(buf));

	if (n <= 0)
		n = read_proc(pid, "comm", buf, sizeof(buf));
	if (n < 0)
		n = 0;
	for (ssize_t i = 0; i < n; i++)
		if (!isprint((unsigned char)buf[i]))
			buf[i] = ' ';
	while (n > 0 && buf[n - 1] == ' ')
		n--;
	buf[n] = '\0';
	(void)str_copy(command, command_size, buf);
	(void)str_print(path, sizeof(path), "/proc/%d", (int)pid);
	return stat(path, &st) < 0 ? (uid_t)-1 : st.st_uid;
}

/* As in the kernel's linux/sched/types.h, which C libraries define differently or not at all. */
struct sched_params {
	uint32_t size;
	uint32_t policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime_ns;
	uint64_t deadline_ns;
	uint64_t period_ns;
};

void proc_be_prompt(void)
{
	struct sched_params p = { .size = sizeof(p) };

	if (syscall(SYS_sched_getattr, 0, &p, sizeof(p), 0) < 0 || p.policy != SCHED_OTHER)
		return;
	p.runtime_ns = PROMPT_SLICE_NS;
	(void)syscall(SYS_sched_setattr, 0, &p, 0);
}

static void each_fd(void (*fn)(int fd, int but), int but)
{
	DIR *d = opendir("/proc/self/fd");
	const struct dirent *entry;
	uint64_t fd;

	while (d && (entry = readdir(d)))
		if (str_to_u64(entry->d_name, &fd) == 0 && fd > STDERR_FILENO &&
		    (int)fd != dirfd(d))
			fn((int)fd, but);
	if (d)
		(void)closedir(d);
}

static void set_cloexec(int fd, int but)
{
	(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
}

static void close_one(int fd, int but)
{
	if (fd != but)
		(void)close(fd);
}

void proc_fds_keep_private(void)
{
	each_fd(set_cloexec, -1);
}

void proc_fds_close(int but)
{
	each_fd(close_one, but);
}

bool proc_ignores(int signum)
{
	struct sigaction now;

	return sigaction(signum, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

int proc_parse_ends_by(const char *text, int signum)
{
	static const char *const masks[] = { "\nSigBlk:", "\nSigIgn:", "\nSigCgt:" };
	unsigned long long mask;
	bool ends = true;

	for (size_t i = 0; i < ARRAY_LEN(masks); i++) {
		const char *line = strstr(text, masks[i]);

		if (!line || sscanf(line + strlen(masks[i]), "%llx", &mask) != 1)
			return -EINVAL;
		ends = ends && !(mask >> (signum - 1) & 1);
	}
	return ends;
}

int proc_ends_by(pid_t pid, int signum)
{
	char text[16384]; /* groups stand before that, and may be many */
	ssize_t n = read_proc(pid, "status", text, sizeof(text));

	return n < 0 ? (int)n : proc_parse_ends_by(text, signum);
}

int proc_parse_cgroup(char *text, char *buf, size_t size)
{
	char *save = NULL;

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		if (str_has_prefix(line, "0::"))
			return str_copy(buf, size, line + 3) ? 0 : -ENAMETOOLONG;
	return -ENOENT;
}

int proc_cgroup(pid_t pid, char *buf, size_t size)
{
	char text[4096];
	ssize_t n = read_proc(pid, "cgroup", text, sizeof(text));

	return n < 0 ? (int)n : proc_parse_cgroup(text, buf, size);
}

bool proc_in_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 && st.st_ino != FIRST_PID_NAMESPACE;
}

bool proc_in_container(void)
{
	return access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0 ||
	       getenv("container") || getenv("KUBERNETES_SERVICE_HOST");
}
