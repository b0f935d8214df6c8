/* SPDX-License-Identifier: MIT */

/*
 * One scan reads /proc/PID/stat of every process, with parent, session and start time in one line;
 * a glance reads PID/status, which has less and never waits. Everything else is done on that
 * picture. It is sorted, so that a parent is found by bisection, and each process is judged once
 * (the marks), however deep the tree.
 *
 * Callers: the shim (its own descendants), the agent (orphans of a shim that was killed), sweep.
 */

#include "task/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/utf8.h"
#include "task/cgroup.h"
#include "task/claim_names.h"
#include "task/shproto.h"

#define AGENT_COMM "tenure"

static ssize_t read_at(int proc_fd, const char *path, char *buf, size_t size)
{
	cleanup_fd int fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;

	ssize_t n = read(fd, buf, size - 1);

	if (n < 0)
		return -errno;
	buf[n] = '\0';
	return n;
}

int tree_parse_stat(char *text, pid_t pid, struct tree_proc *ret)
{
	/* The name in parentheses may hold spaces and parentheses: fields start after the last. */
	char *name = strchr(text, '('), *p = strrchr(text, ')');
	unsigned long long start;

	if (!name || !p || p < name ||
	    sscanf(p + 1,
		   " %c %d %*d %d %d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
		   &ret->state, &ret->parent, &ret->session, &ret->tty, &start) != 5)
		return -EIO;
	*p = '\0';
	(void)str_copy(ret->comm, sizeof(ret->comm), name + 1);
	(void)utf8_clean(ret->comm);
	ret->id = (struct proc_id){ .pid = pid, .start = start };
	return 0;
}

static int read_stat(int proc_fd, pid_t pid, struct tree_proc *ret)
{
	char path[32], buf[1024];

	(void)str_print(path, sizeof(path), "%d/stat", (int)pid);

	ssize_t n = read_at(proc_fd, path, buf, sizeof(buf));

	return n < 0 ? (int)n : tree_parse_stat(buf, pid, ret);
}

/* The text behind a key at the beginning of a line, or NULL. */
static const char *line_of(const char *text, const char *key)
{
	size_t len = strlen(key);

	for (const char *p = text; p; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (strncmp(p, key, len) == 0)
			return p + len;
	}
	return NULL;
}

/* A name has no line of its own in it: the kernel writes the end of a line as \n. */
int tree_parse_status(const char *text, pid_t pid, struct tree_proc *ret)
{
	const char *name = line_of(text, "Name:\t"), *state = line_of(text, "State:\t"),
		   *parent = line_of(text, "PPid:\t"), *session = line_of(text, "NSsid:\t");
	struct tree_proc p = { .id.pid = pid };

	if (!name || !state || !*state || !parent || sscanf(parent, "%d", &p.parent) != 1)
		return -EIO;
	/* It stands behind the groups, which can be more than is read. */
	if (session && sscanf(session, "%d", &p.session) != 1)
		p.session = 0;
	p.state = *state;
	(void)str_print(p.comm, sizeof(p.comm), "%.*s", (int)strcspn(name, "\n"), name);
	(void)utf8_clean(p.comm);
	*ret = p;
	return 0;
}

#define STATUS_MAX 4096 /* what is needed of it stands in front */

static ssize_t read_status_text(pid_t pid, char *buf)
{
	char path[32];

	(void)str_print(path, sizeof(path), "/proc/%d/status", (int)pid);
	return read_at(AT_FDCWD, path, buf, STATUS_MAX);
}

/* A child of ours that nobody has waited for. A tree that forks without end leaves thousands, and
 * since Linux 5.13 to ask for that costs a tenth of what it costs to read a status. */
static bool is_ended_child(pid_t pid)
{
	siginfo_t si = { .si_pid = 0 };

	return waitid(P_PID, (id_t)pid, &si, WEXITED | WNOHANG | WNOWAIT) == 0 && si.si_pid == pid;
}

static int read_status(int proc_fd, pid_t pid, struct tree_proc *ret)
{
	char buf[STATUS_MAX];
	ssize_t n = is_ended_child(pid) ? -ESRCH : read_status_text(pid, buf);

	return n < 0 ? (int)n : tree_parse_status(buf, pid, ret);
}

static int by_pid(const void *a, const void *b)
{
	pid_t x = ((const struct tree_proc *)a)->id.pid, y = ((const struct tree_proc *)b)->id.pid;

	return (x > y) - (x < y);
}

static void add(struct tree *t, const struct tree_proc *p)
{
	if (t->n == t->room) {
		t->room = t->room ? 2 * t->room : 256;
		t->procs = xrealloc(t->procs, t->room, sizeof(*t->procs));
	}
	t->procs[t->n++] = *p;
}

typedef int (*read_fn)(int proc_fd, pid_t pid, struct tree_proc *ret);

static int take_picture(struct tree *t, read_fn read_one)
{
	DIR *dir = opendir("/proc");
	struct dirent *d;
	int r = 0;

	if (!dir)
		return -errno;
	t->n = 0;
	while ((d = readdir(dir))) {
		uint64_t pid;
		struct tree_proc p;

		if (str_to_u64(d->d_name, &pid) != 0)
			continue;
		r = read_one(dirfd(dir), (pid_t)pid, &p);
		if (proc_is_no_answer(r))
			break;
		if (r == 0)
			add(t, &p);
		r = 0;
	}
	(void)closedir(dir);
	if (r < 0)
		return r;
	if (t->n)
		qsort(t->procs, t->n, sizeof(*t->procs), by_pid);
	return 0;
}

int tree_scan(struct tree *t)
{
	return take_picture(t, read_stat);
}

int tree_glance(struct tree *t)
{
	return take_picture(t, read_status);
}

const struct tree_proc *tree_find(const struct tree *t, pid_t pid)
{
	struct tree_proc key = { .id.pid = pid };

	return t->n ? bsearch(&key, t->procs, t->n, sizeof(key), by_pid) : NULL;
}

bool tree_descends(const struct tree *t, const struct tree_proc *p, pid_t root)
{
	/* The picture is not of one moment: parents may seem to go in a circle. */
	for (size_t steps = 0; p && steps <= t->n; steps++) {
		if (p->id.pid == root)
			return true;
		p = tree_find(t, p->parent);
	}
	return false;
}

enum mark { MARK_NONE, MARK_OPEN, MARK_IN, MARK_OUT };

/* Whether i is in: by its own mark, or as its nearest marked ancestor. All on the way get it. */
static enum mark settle(const struct tree *t, enum mark *marks, size_t i)
{
	enum mark m = MARK_OUT;
	size_t at = i;

	for (;;) {
		if (marks[at] != MARK_NONE) {
			m = marks[at] == MARK_IN ? MARK_IN : MARK_OUT;
			break;
		}
		marks[at] = MARK_OPEN;

		const struct tree_proc *up = tree_find(t, t->procs[at].parent);

		if (!up)
			break;
		at = (size_t)(up - t->procs);
	}
	for (at = i; marks[at] == MARK_OPEN || marks[at] == MARK_NONE;) {
		marks[at] = m;

		const struct tree_proc *up = tree_find(t, t->procs[at].parent);

		if (!up)
			break;
		at = (size_t)(up - t->procs);
	}
	return m;
}

/* Keep what is marked or descends from what is. */
static void keep_marked(struct tree *t, enum mark *marks)
{
	size_t kept = 0;

	for (size_t i = 0; i < t->n; i++)
		marks[i] = settle(t, marks, i);
	for (size_t i = 0; i < t->n; i++)
		if (marks[i] == MARK_IN)
			t->procs[kept++] = t->procs[i];
	t->n = kept;
}

void tree_keep_below(struct tree *t, pid_t root)
{
	cleanup_free enum mark *marks = xcalloc(t->n + 1, sizeof(*marks));
	size_t kept = 0;

	for (size_t i = 0; i < t->n; i++)
		if (t->procs[i].id.pid == root)
			marks[i] = MARK_IN;
	keep_marked(t, marks);
	for (size_t i = 0; i < t->n; i++)
		if (t->procs[i].id.pid != root)
			t->procs[kept++] = t->procs[i];
	t->n = kept;
}

enum tree_env tree_parse_env(const char *env, size_t len, const char *name_value, size_t kin)
{
	enum tree_env found = TREE_ENV_NONE;

	for (const char *p = env; p < env + len; p += strlen(p) + 1) {
		if (strcmp(p, name_value) == 0)
			return TREE_ENV_SAME;
		if (kin && strncmp(p, name_value, kin) == 0)
			found = TREE_ENV_KIN;
	}
	return found;
}

/* enum tree_env; or what proc_environ() says where that is no answer, or it has ended. */
static int env_of(pid_t pid, const char *name_value, size_t kin)
{
	cleanup_free char *env = NULL;
	size_t len;
	int r = proc_environ(pid, &env, &len);

	if (r < 0)
		return proc_is_no_answer(r) || r == -ESRCH ? r : TREE_ENV_NONE;
	return tree_parse_env(env, len, name_value, kin);
}

int tree_has_env(pid_t pid, const char *name_value)
{
	int r = env_of(pid, name_value, 0);

	return r < 0 && r != -ESRCH ? r : r == TREE_ENV_SAME;
}

/* Everything in a session that a process of the task is in; sessions of others cannot be: the shim
 * makes one for each task. The session of a process that only inherited the token by hand is told
 * by its leader, which is older than the task and has no token. */
static bool session_is_ours(const struct tree *t, const bool *has, const struct tree_proc *p)
{
	const struct tree_proc *leader = tree_find(t, p->session);

	if (leader)
		return has[leader - t->procs];
	for (size_t i = 0; i < t->n; i++)
		if (has[i] && t->procs[i].session == p->session)
			return true;
	return false;
}

/* In the cgroup that was made for it (task/cgroup.h), whatever its environment says. */
static bool in_cgroup(pid_t pid, const char *token)
{
	char path[2048];
	cleanup_free char *name = xasprintf("/" CGROUP_PREFIX "%s", token);
	const char *at = proc_cgroup(pid, path, sizeof(path)) < 0 ? NULL : strstr(path, name);

	return at && (!at[strlen(name)] || at[strlen(name)] == '/');
}

/* What a fork server has besides its shims came to it when one of them was killed. What is another
 * task's (NULL: that does not matter) is as its parent is. */
static void mark_orphans(const struct tree *t, pid_t server, const bool *anothers, enum mark *marks)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct tree_proc *p = &t->procs[i];
		/* One that begins still has its fork server's name. */
		bool shim =
			strcmp(p->comm, SHIM_COMM) == 0 || strcmp(p->comm, FORK_SERVER_COMM) == 0;

		if (p->parent != server)
			continue;
		if (shim && p->state != 'Z')
			marks[i] = MARK_OUT;
		else if (!anothers || !anothers[i])
			marks[i] = MARK_IN;
	}
}

void tree_keep_orphans(struct tree *t, pid_t server)
{
	cleanup_free enum mark *marks = xcalloc(t->n + 1, sizeof(*marks));

	mark_orphans(t, server, NULL, marks);
	keep_marked(t, marks);
}

/* Ours, or one of the token's spool without an agent: then nobody else ends its orphans but itself.
 * Those of before did not tell of which spool they are. */
static bool is_fork_server(const struct tree *t, const struct tree_proc *p, const char *token)
{
	const struct tree_proc *parent = tree_find(t, p->parent);
	cleanup_free char *of = NULL;
	int r;

	if (strcmp(p->comm, FORK_SERVER_COMM) != 0 || p->state == 'Z' ||
	    proc_is_of(p->id.pid, getuid()) <= 0)
		return false;
	if (p->parent == getpid())
		return true;
	if (parent && strcmp(parent->comm, AGENT_COMM) == 0)
		return false;
	of = xasprintf(FORK_SERVER_OF_ENV "=%.*s", (int)names_spool_of_token(token), token);
	r = env_of(p->id.pid, of, sizeof(FORK_SERVER_OF_ENV));
	return r != TREE_ENV_KIN && r != -ESRCH;
}

static void mark_ancestors_out(const struct tree *t, enum mark *marks)
{
	const struct tree_proc *p = tree_find(t, getpid());

	for (size_t steps = 0; p && steps <= t->n; steps++) {
		marks[p - t->procs] = MARK_OUT;
		p = tree_find(t, p->parent);
	}
}

int tree_keep_token(struct tree *t, const char *token)
{
	cleanup_free enum mark *marks = xcalloc(t->n + 1, sizeof(*marks));
	cleanup_free bool *has = xcalloc(t->n + 1, sizeof(*has));
	cleanup_free bool *anothers = xcalloc(t->n + 1, sizeof(*anothers));
	cleanup_free char *name_value = xasprintf("%s=%s", TASK_TOKEN_ENV, token);
	size_t spool = names_spool_of_token(token),
	       kin = spool ? sizeof(TASK_TOKEN_ENV) + spool : 0;
	uid_t us = getuid();

	for (size_t i = 0; i < t->n; i++) {
		pid_t pid = t->procs[i].id.pid;
		int r = proc_is_of(pid, us);

		if (r == 0)
			continue;
		if (r > 0)
			r = env_of(pid, name_value, kin);
		if (r < 0 && r != -ESRCH)
			return r;
		has[i] = r == TREE_ENV_SAME || in_cgroup(pid, token);
		anothers[i] = r == TREE_ENV_KIN && !has[i];
	}
	for (size_t i = 0; i < t->n; i++)
		if (is_fork_server(t, &t->procs[i], token))
			mark_orphans(t, t->procs[i].id.pid, anothers, marks);
	for (size_t i = 0; i < t->n; i++)
		if (has[i] || (session_is_ours(t, has, &t->procs[i]) &&
			       proc_is_of(t->procs[i].id.pid, us) > 0))
			marks[i] = MARK_IN;
	mark_ancestors_out(t, marks);
	keep_marked(t, marks);
	return 0;
}

void tree_clear(struct tree *t)
{
	free(t->procs);
	*t = (struct tree){ 0 };
}

/* Of a glance. A child of whoever is a parent in the tree is in the tree as well. */
static int signal_child(const struct tree_proc *p, int sig)
{
	cleanup_fd int fd = proc_open(p->id.pid);
	char buf[STATUS_MAX];
	struct tree_proc now;
	uid_t uid;

	if (fd < 0 && !proc_lacks_call(fd))
		return fd;
	/* From here a descriptor is one process; which one is seen now. */
	ssize_t n = read_status_text(p->id.pid, buf);

	if (n < 0)
		return proc_is_no_answer((int)n) ? (int)n : -ESRCH;
	if (tree_parse_status(buf, p->id.pid, &now) < 0 || !proc_parse_user(buf, &uid) ||
	    now.state == 'Z' || now.state == 'X')
		return -ESRCH;
	if (now.parent != p->parent)
		return -EAGAIN;
	return uid == getuid() ? proc_signal_fd(fd, p->id.pid, sig) : -EPERM;
}

int tree_signal(const struct tree_proc *p, int sig)
{
	if (p->id.pid <= 1 || p->id.pid == getpid())
		return -EPERM;
	if (!p->id.start)
		return signal_child(p, sig);

	int r = proc_is_of(p->id.pid, getuid());

	if (r > 0)
		return proc_signal(&p->id, sig);
	if (r == 0)
		r = proc_runs(&p->id);
	return r < 0 ? r : r > 0 ? -EPERM : -ESRCH;
}

void ender_begin(struct ender *en)
{
	ender_clear(en);
}

void ender_clear(struct ender *en)
{
	free(en->told);
	*en = (struct ender){ .reap = en->reap, .data = en->data };
}

static int by_id(const void *a, const void *b)
{
	const struct proc_id *x = a, *y = b;

	return x->pid != y->pid ? (x->pid > y->pid) - (x->pid < y->pid)
				: (x->start > y->start) - (x->start < y->start);
}

/* Nobody is met twice in one pass: what it has added so far need not be looked at. */
static bool was_told(const struct ender *en, const struct proc_id *id)
{
	return en->n_sorted && bsearch(id, en->told, en->n_sorted, sizeof(*id), by_id);
}

static void sort_told(struct ender *en)
{
	if (en->n_told > en->n_sorted)
		qsort(en->told, en->n_told, sizeof(*en->told), by_id);
	en->n_sorted = en->n_told;
}

static void note_told(struct ender *en, const struct proc_id *id)
{
	if (en->n_told == en->room) {
		en->room = en->room ? 2 * en->room : 16;
		en->told = xrealloc(en->told, en->room, sizeof(*en->told));
	}
	en->told[en->n_told++] = *id;
}

#define REAP_EACH 16U /* processes, from one call of reap to the next */

static void note_met(struct ender *en)
{
	if (en->reap && en->met++ % REAP_EACH == 0)
		en->reap(en->data);
}

static void end_one(struct ender *en, const struct tree_proc *p, int sig)
{
	bool first = !was_told(en, &p->id);
	int r = first || sig == SIGKILL ? tree_signal(p, sig) : 0;

	en->late = en->late || r == -ESRCH || r == -EAGAIN;
	if (r == -ESRCH)
		return;
	if (r == -EPERM) {
		en->others++;
		return;
	}
	en->ours++;
	if (r < 0 || !first) /* it could not be told now: in the next pass, then */
		return;
	note_told(en, &p->id);
	if (sig == SIGKILL)
		en->kills++;
	else
		(void)tree_signal(p, SIGCONT);
}

void ender_pass(struct ender *en, const struct tree *t, int sig)
{
	uint32_t kills = en->kills;

	/* KILL is counted afresh: it is another thing to be told. */
	if (sig != en->last_sig)
		en->n_told = en->n_sorted = 0;
	en->last_sig = sig;
	en->ours = 0;
	en->others = 0;
	en->late = false;
	for (size_t i = 0; i < t->n; i++) {
		note_met(en);
		if (t->procs[i].state != 'Z' && t->procs[i].state != 'X')
			end_one(en, &t->procs[i], sig);
	}
	en->outrun = sig == SIGKILL && (en->late || (en->n_sorted && en->kills > kills));
	sort_told(en);
}

#define HUNT_BYTES 512 /* of a directory at a time, some twenty names: nobody is seen late */
#define HUNT_DEPTH 64

/* As getdents64() fills it, which the C library has no header for. */
struct dir_entry {
	uint64_t inode;
	int64_t offset;
	uint16_t size;
	uint8_t type;
	char name[];
};

/* Its ancestors as they are now: of a picture one could be gone, and its PID another's. */
static bool descends_now(const struct tree_proc *p, pid_t root)
{
	struct tree_proc up = *p;

	for (int steps = 0; up.parent != root; steps++)
		if (up.parent <= 1 || steps == HUNT_DEPTH ||
		    read_status(AT_FDCWD, up.parent, &up) < 0)
			return false;
	return true;
}

static void hunt_one(struct ender *en, pid_t pid)
{
	char buf[STATUS_MAX];
	struct tree_proc p;
	uid_t uid;

	note_met(en);
	if (!is_ended_child(pid) && read_status_text(pid, buf) > 0 &&
	    tree_parse_status(buf, pid, &p) == 0 && proc_parse_user(buf, &uid) && uid == getuid() &&
	    p.state != 'Z' && p.state != 'X' && descends_now(&p, getpid()))
		end_one(en, &p, SIGKILL);
}

void ender_hunt(struct ender *en)
{
	cleanup_fd int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_Alignas(struct dir_entry) char buf[HUNT_BYTES];
	const struct dir_entry *d;
	uint32_t ours = en->ours, others = en->others;
	long n;

	while (proc >= 0 && (n = syscall(SYS_getdents64, proc, buf, sizeof(buf))) > 0)
		for (long at = 0; at < n; at += d->size) {
			uint64_t pid;

			d = (const struct dir_entry *)(const void *)(buf + at);
			if (str_to_u64(d->name, &pid) == 0)
				hunt_one(en, (pid_t)pid);
		}
	sort_told(en);
	en->ours = ours;
	en->others = others;
}

void ender_pass_below_us(struct ender *en, int sig)
{
	struct tree t = { 0 };

	if (tree_glance(&t) == 0) {
		tree_keep_below(&t, getpid());
		ender_pass(en, &t, sig);
		if (en->outrun) {
			const uint32_t kills = en->kills;

			ender_hunt(en);
			en->outrun = en->kills > kills;
		}
	}
	tree_clear(&t);
}
