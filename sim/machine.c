/* SPDX-License-Identifier: MIT */

/*
 * The machine's file, its locks and its processes.
 *
 * A process registers itself when it makes its first context. Nobody is told when a process dies;
 * so whoever looks at the machine first forgets the dead (sim_reap): a process is gone when its PID
 * is gone, when another process has it (start time), or when it is a zombie without living threads,
 * since the real driver also frees at exit and not at wait().
 *
 * That reads /proc, which tells nothing of a process in another PID namespace. So each has a lock
 * on its byte of the file `locks` (POSIX: the kernel lets go of it with the process, a fork does
 * not have it, and it says whose it is in the reader's own numbers). Nobody ever closes that file,
 * since that would drop the lock as well.
 */
#include "machine.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

uint64_t sim_now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

void sim_sleep_ns(uint64_t ns)
{
	struct timespec ts = { (time_t)(ns / 1000000000ULL), (long)(ns % 1000000000ULL) };

	if (ns == 0)
		return;
	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, &ts) == EINTR)
		;
}

void sim_sleep_until(uint64_t until_ns)
{
	struct timespec ts = { (time_t)(until_ns / NS_PER_S), (long)(until_ns % NS_PER_S) };

	if (until_ns <= sim_now_ns())
		return;
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

int sim_map(const char *path, struct sim_machine **ret)
{
	struct sim_machine *m;
	struct stat st;
	int fd, err = 0;

	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		err = -errno;
	else if ((uint64_t)st.st_size < sizeof(*m))
		err = -EPROTO;
	m = err ? MAP_FAILED : mmap(NULL, sizeof(*m), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (!err && m == MAP_FAILED)
		err = -errno;
	(void)close(fd);
	if (err)
		return err;
	if (m->magic != SIM_MAGIC || m->version != SIM_VERSION || m->size != sizeof(*m)) {
		(void)munmap(m, sizeof(*m));
		return -EPROTO;
	}
	*ret = m;
	return 0;
}

static struct sim_machine *the_machine;

static void map_once(void)
{
	const char *path = getenv("TENURE_SIM");

	if (path && *path)
		(void)sim_map(path, &the_machine);
}

struct sim_machine *sim_machine_get(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, map_once);
	return the_machine;
}

static int mutex_init(pthread_mutex_t *mutex)
{
	pthread_mutexattr_t attr;
	int err;

	err = pthread_mutexattr_init(&attr);
	if (err)
		return -err;
	(void)pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	(void)pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	err = pthread_mutex_init(mutex, &attr);
	(void)pthread_mutexattr_destroy(&attr);
	return -err;
}

int sim_create(const char *path, struct sim_machine **ret)
{
	struct sim_machine *m;
	int fd, err;

	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, sizeof(*m)) < 0) {
		err = -errno;
		(void)close(fd);
		return err;
	}
	m = mmap(NULL, sizeof(*m), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	err = m == MAP_FAILED ? -errno : 0;
	(void)close(fd);
	if (err)
		return err;
	m->version = SIM_VERSION;
	m->size = sizeof(*m);
	m->proc_layout = 24;
	for (int i = 0; i < SIM_T_MAX; i++)
		m->timing[i] = sim_timings[i].value;
	err = mutex_init(&m->data);
	if (err) {
		(void)munmap(m, sizeof(*m));
		return err;
	}
	m->magic = SIM_MAGIC;
	*ret = m;
	return 0;
}

uint64_t sim_cost_ns(const struct sim_machine *m, enum sim_timing_id id)
{
	if (!sim_timings[id].scaled)
		return m->timing[id];
	return (uint64_t)((double)m->timing[id] * m->scale);
}

/* In the order of the calls: when that line is through with this one. */
static uint64_t queue(uint64_t *line_ns, uint64_t ns)
{
	uint64_t now = sim_now_ns();

	if (*line_ns < now)
		*line_ns = now;
	*line_ns += ns;
	return *line_ns;
}

uint64_t sim_driver_take(struct sim_machine *m, uint64_t ns)
{
	return queue(&m->driver_until_ns, ns + m->timing[SIM_T_LOCK_SLOW]);
}

void sim_start_alone(struct sim_machine *m, uint64_t ns)
{
	uint64_t until;

	if (sim_lock(m) < 0)
		return;
	until = queue(&m->start_line_ns, ns);
	sim_unlock(m);
	sim_sleep_until(until);
}

void sim_driver_call(struct sim_machine *m, uint64_t ns)
{
	uint64_t until;

	if (sim_lock(m) < 0)
		return;
	until = sim_driver_take(m, ns);
	sim_unlock(m);
	sim_sleep_until(until);
}

void sim_starting(struct sim_machine *m, uint64_t ns)
{
	uint64_t until = sim_now_ns() + ns;

	if (sim_lock(m) < 0)
		return;
	if (until > m->starting_until_ns)
		m->starting_until_ns = until;
	sim_unlock(m);
}

/* "cuMemAlloc" names cuMemAlloc_v2 too, which is what programs really call. */
static bool fault_matches(const char *fault, const char *function)
{
	size_t n = strlen(fault);

	if (strncmp(fault, function, n) != 0)
		return false;
	return function[n] == '\0' ||
	       (function[n] == '_' && function[n + 1] == 'v' && function[n + 3] == '\0');
}

/* One look at the faults. Positive: the error; 0 none; -EAGAIN: hanging. Locked. */
static int fault_look(struct sim_machine *m, const char *function)
{
	for (int i = 0; i < SIM_FAULT_MAX; i++) {
		struct sim_fault *f = &m->faults[i];

		if (!f->function[0] || !fault_matches(f->function, function))
			continue;
		if (f->hang)
			return -EAGAIN;
		if (f->after < 0)
			return f->error;
		if (--f->after > 0)
			continue;
		f->function[0] = '\0';
		m->nfaults--;
		return f->error;
	}
	return 0;
}

int sim_fault(struct sim_machine *m, const char *function)
{
	int r;

	while (__atomic_load_n(&m->nfaults, __ATOMIC_RELAXED) > 0) {
		if (sim_lock(m) < 0)
			return 0;
		r = fault_look(m, function);
		sim_unlock(m);
		if (r != -EAGAIN)
			return r;
		sim_sleep_ns(5000000);
	}
	return 0;
}

struct proc_stat {
	char state;
	long threads;
	uint64_t start_ticks;
};

/* /proc/PID/stat: the fields after the last ')'. 0, or negative errno (gone). */
static int proc_stat_read(pid_t pid, struct proc_stat *ret)
{
	char path[40], buf[1024], *p;
	unsigned long long start;
	ssize_t n;
	int fd;

	if (pid == getpid()) /* the mounted /proc may be that of another PID namespace */
		(void)snprintf(path, sizeof(path), "/proc/self/stat");
	else
		(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = read(fd, buf, sizeof(buf) - 1);
	(void)close(fd);
	if (n <= 0)
		return -ESRCH;
	buf[n] = '\0';
	p = strrchr(buf, ')');
	if (!p || sscanf(p + 1,
			 " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld "
			 "%*d %llu",
			 &ret->state, &ret->threads, &start) != 3)
		return -EIO;
	ret->start_ticks = start;
	return 0;
}

/* Where the caller is. */
struct world {
	uint64_t pid_ns;
	bool proc_fits; /* /proc shows this namespace */
};

static struct world world_here(void)
{
	struct world w = { 0 };
	struct stat st;
	char self[32], pid[32];
	ssize_t n = readlink("/proc/self", self, sizeof(self) - 1);

	if (stat("/proc/self/ns/pid", &st) == 0)
		w.pid_ns = st.st_ino;
	self[n > 0 ? n : 0] = '\0';
	(void)snprintf(pid, sizeof(pid), "%d", (int)getpid());
	w.proc_fits = strcmp(self, pid) == 0;
	return w;
}

/* The file of the locks, opened once and never closed. Negative: there is none. */
static int locks_fd(const struct sim_machine *m)
{
	static int fd = -1;
	char path[300];

	if (fd < 0) {
		(void)snprintf(path, sizeof(path), "%s/locks", m->dir);
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	}
	return fd;
}

static struct flock lock_of(const struct sim_machine *m, const struct sim_proc *p)
{
	return (struct flock){
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = p - m->procs, .l_len = 1
	};
}

/* Somebody has p's lock. *ret_pid: who, 0 where that cannot be said here. */
static bool is_locked(const struct sim_machine *m, const struct sim_proc *p, pid_t *ret_pid)
{
	struct flock lock = lock_of(m, p);

	*ret_pid = 0;
	if (fcntl(locks_fd(m), F_GETLK, &lock) < 0)
		return true; /* nobody can say that it is gone */
	if (lock.l_type == F_UNLCK)
		return false;
	*ret_pid = lock.l_pid > 0 ? lock.l_pid : 0;
	return true;
}

/* ---- the lock ---- */

#define LOCK_PATIENCE_NS (200 * 1000000ULL) /* then whoever has it is looked at */

static struct timespec time_of(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / NS_PER_S),
				  .tv_nsec = (long)(ns % NS_PER_S) };
}

static int wait_for_lock(pthread_mutex_t *mutex, uint64_t ns)
{
#if __GLIBC_PREREQ(2, 30)
	struct timespec until = time_of(sim_now_ns() + ns);

	return pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &until);
#else /* by the time of day: it is waited for longer or shorter where that is set meanwhile */
	struct timespec now, until;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	until = time_of((uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec + ns);
	return pthread_mutex_timedlock(mutex, &until);
#endif
}

static int lock_within(pthread_mutex_t *mutex, uint64_t ns)
{
	int err = wait_for_lock(mutex, ns);

	if (err == EOWNERDEAD) {
		(void)pthread_mutex_consistent(mutex);
		err = 0;
	}
	return err;
}

/*
 * It was stopped in the midst of a call, and goes on to the end of that. The lock word of a robust
 * mutex is its owner's thread, by which kill() finds the process.
 */
static int lock_from_stopped(struct sim_machine *m)
{
	pid_t pid = (pid_t)((unsigned int)m->data.__data.__lock & FUTEX_TID_MASK);
	struct world here = world_here();
	struct proc_stat st;
	int err;

	if (!pid || m->data_ns != here.pid_ns || !here.proc_fits || proc_stat_read(pid, &st) < 0 ||
	    st.state != 'T' || kill(pid, SIGCONT) < 0)
		return ETIMEDOUT;
	err = lock_within(&m->data, LOCK_PATIENCE_NS);
	(void)kill(pid, SIGSTOP);
	return err;
}

int sim_lock(struct sim_machine *m)
{
	static uint64_t pid_ns; /* the same at each thread's first call */
	int err;

	if (!pid_ns)
		pid_ns = world_here().pid_ns;
	while ((err = lock_within(&m->data, LOCK_PATIENCE_NS)) == ETIMEDOUT &&
	       (err = lock_from_stopped(m)) == ETIMEDOUT)
		continue;
	if (err)
		return -err;
	m->data_ns = pid_ns;
	sim_mem_settle(m);
	return 0;
}

void sim_unlock(struct sim_machine *m)
{
	(void)pthread_mutex_unlock(&m->data);
}

pid_t sim_proc_pid(const struct sim_machine *m, const struct sim_proc *p)
{
	struct world here = world_here();
	pid_t pid;

	if (p->pid_ns == here.pid_ns)
		return p->pid;
	return is_locked(m, p, &pid) ? pid : 0;
}

static bool proc_alive(const struct sim_machine *m, const struct sim_proc *p,
		       const struct world *here)
{
	struct proc_stat st;
	pid_t pid;
	int r;

	if (p->pid_ns != here->pid_ns || (!here->proc_fits && p->pid != getpid()))
		return is_locked(m, p, &pid);
	r = proc_stat_read(p->pid, &st);
	/* With hidepid the processes of others are not in /proc: their lock tells. */
	if (r == -ENOENT || r == -ESRCH)
		return is_locked(m, p, &pid);
	if (r < 0)
		return true;
	if (st.start_ticks != p->start_ticks)
		return false;
	return (st.state != 'Z' && st.state != 'X') || st.threads > 1;
}

/* Forget p. Its memory is free at once, and dirty; the driver is busy tearing it down. */
static void proc_forget(struct sim_machine *m, struct sim_proc *p)
{
	uint64_t bytes = 0;

	for (int dev = 0; dev < m->ndevs; dev++) {
		struct sim_use *u = &p->use[dev];

		if (!u->visible_ns && !u->bytes)
			continue;
		(void)sim_energy_mj(m, dev);
		bytes += u->bytes;
		sim_mem_give(m, dev, p, u->bytes);
		if (u->contexts)
			m->last_context_ns = sim_now_ns();
		for (int i = 0; i < SIM_BUSY_MAX; i++) {
			struct sim_busy *b = &m->devs[dev].busy[i];

			if (b->seq && b->pid == p->pid && b->end_ns > sim_now_ns())
				b->end_ns = sim_now_ns();
		}
	}
	sim_mem_forget(m, p);
	memset(p, 0, sizeof(*p));
	if (bytes)
		m->starting_until_ns = sim_now_ns() + sim_cost_ns(m, SIM_T_EXIT_TEARDOWN) *
							      (bytes / SIM_MIB) / 133120;
}

void sim_reap(struct sim_machine *m, bool force)
{
	uint64_t now = sim_now_ns();
	struct world here;

	if (!force && now - m->reaped_ns < 1000000)
		return;
	m->reaped_ns = now;
	here = world_here();
	for (int i = 0; i < SIM_PROC_MAX; i++) {
		struct sim_proc *p = &m->procs[i];

		if (p->pid && !proc_alive(m, p, &here))
			proc_forget(m, p);
	}
}

static bool proc_uses(const struct sim_machine *m, const struct sim_proc *p, int dev)
{
	for (int i = 0; i < m->ndevs; i++)
		if (sim_is_card_of(m, dev, i) && (p->use[i].visible_ns || p->use[i].bytes))
			return true;
	return false;
}

void sim_reap_card(struct sim_machine *m, int dev)
{
	struct world here = { 0 };

	for (int i = 0; i < SIM_PROC_MAX; i++) {
		struct sim_proc *p = &m->procs[i];

		if (!p->pid || !proc_uses(m, p, dev))
			continue;
		if (!here.pid_ns)
			here = world_here();
		if (!proc_alive(m, p, &here))
			proc_forget(m, p);
	}
}

struct sim_proc *sim_proc(struct sim_machine *m, pid_t pid, bool create)
{
	struct sim_proc *spare = NULL;
	struct world here = world_here();
	struct proc_stat st;
	struct flock lock;
	const char *neighbour;

	for (int i = 0; i < SIM_PROC_MAX; i++) {
		if (m->procs[i].pid == pid && m->procs[i].pid_ns == here.pid_ns)
			return &m->procs[i];
		if (!m->procs[i].pid && !spare)
			spare = &m->procs[i];
	}
	if (!create || !spare || proc_stat_read(pid, &st) < 0)
		return NULL;
	neighbour = getenv("TENURE_SIM_NEIGHBOUR");
	memset(spare, 0, sizeof(*spare));
	lock = lock_of(m, spare);
	(void)fcntl(locks_fd(m), F_SETLK, &lock);
	spare->pid = (int32_t)pid;
	spare->pid_ns = here.pid_ns;
	spare->start_ticks = st.start_ticks;
	spare->neighbour = neighbour && *neighbour == '1';
	return spare;
}

void sim_xid_add(struct sim_machine *m, int dev, uint32_t xid)
{
	m->xids[(m->xid_seq + 1) % SIM_XID_MAX] = (struct sim_xid){ dev, xid };
	__atomic_store_n(&m->xid_seq, m->xid_seq + 1, __ATOMIC_RELEASE);
	(void)syscall(SYS_futex, &m->xid_seq, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

int sim_open_node(struct sim_machine *m, const char *node)
{
	const char *which = getenv("TENURE_SIM_NODES");
	char path[400];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%s",
		       which && strcmp(which, "private") == 0 ? m->nodes_private : m->nodes, node);
	fd = open(path, O_RDWR | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

void sim_open_nodes(struct sim_machine *m, const char *node, int n)
{
	for (int i = 0; i < n; i++) {
		int fd = sim_open_node(m, node);

		if (fd >= 0 && i % 2 == 1)
			(void)close(fd);
	}
}
