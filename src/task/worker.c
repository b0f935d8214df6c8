/* SPDX-License-Identifier: MIT */
#include "task/worker.h"

#include <errno.h>
#include <limits.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/nofile.h"
#include "task/fdpass.h"
#include "task/shproto.h"

#define STACK_BYTES (256UL * 1024)
#define STANDARD    3U /* descriptors 0 to 2 */

void worker_own_files(const int *keep, size_t n)
{
	unsigned int from = STANDARD;

	/* It closes nothing there; unshare(2) is what containers often forbid. */
	if (syscall(SYS_close_range, UINT_MAX, UINT_MAX, CLOSE_RANGE_UNSHARE) < 0 &&
	    unshare(CLONE_FILES) < 0)
		return;
	for (;;) {
		unsigned int next = UINT_MAX;

		for (size_t i = 0; i < n; i++)
			if (keep[i] >= 0 && (unsigned int)keep[i] >= from &&
			    (unsigned int)keep[i] < next)
				next = (unsigned int)keep[i];
		if (next == UINT_MAX)
			break;
		if (next > from)
			nofile_close(from, next - 1);
		from = next + 1;
	}
	nofile_close(from, UINT_MAX);
}

int worker_thread(void *(*fn)(void *data), void *data)
{
	pthread_attr_t attr;
	pthread_t thread;
	int r = pthread_attr_init(&attr);

	if (r != 0)
		return -r;
	(void)pthread_attr_setstacksize(&attr, STACK_BYTES);
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	r = pthread_create(&thread, &attr, fn, data);
	(void)pthread_attr_destroy(&attr);
	return -r;
}

static int take_log(int conn_fd)
{
	union shmsg m;
	int fd;
	ssize_t n = fdpass_recv(conn_fd, &m, sizeof(m), &fd, 1);

	if (n <= 0)
		return n < 0 ? (int)n : -EPIPE;
	if (shmsg_take(&m, (size_t)n) == 0 && m.head.type == SHMSG_LOG)
		return fd;
	(void)close(fd);
	return -EPROTO;
}

static void *work(void *data)
{
	struct worker *w = data;
	const int first[] = { w->conn_fd, w->wake_fd };
	const uint64_t one = 1;

	/* The log must not come into the table of the others. */
	worker_own_files(first, ARRAY_LEN(first));
	w->log_fd = take_log(w->conn_fd);

	const int keep[] = { w->wake_fd, w->log_fd };

	worker_own_files(keep, ARRAY_LEN(keep));
	(void)sem_post(&w->ready);
	for (;;) {
		while (sem_wait(&w->told) < 0)
			continue;
		w->fn(w->data);
		w->busy = false;
		(void)!write(w->wake_fd, &one, sizeof(one));
	}
	return NULL;
}

int worker_begin(struct worker *w, int conn_fd, struct err *e)
{
	int r;

	*w = (struct worker){ .conn_fd = conn_fd, .log_fd = -EBADF };
	w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->wake_fd < 0)
		return err_sys(e, errno, "make a task's eventfd");
	if (sem_init(&w->told, 0, 0) < 0 || sem_init(&w->ready, 0, 0) < 0)
		return err_sys(e, errno, "make a task's semaphore");
	r = worker_thread(work, w);
	return r < 0 ? err_sys(e, -r, "start a task's thread") : 0;
}

int worker_ready(struct worker *w, struct err *e)
{
	while (sem_wait(&w->ready) < 0)
		continue;
	return w->log_fd < 0 ? err_sys(e, -w->log_fd, "get the task's log") : 0;
}

bool worker_idle(const struct worker *w)
{
	return !w->busy;
}

void worker_do(struct worker *w, work_fn fn, void *data)
{
	w->fn = fn;
	w->data = data;
	w->since_ns = clock_mono_ns();
	w->busy = true;
	(void)sem_post(&w->told);
}

void worker_heard(const struct worker *w)
{
	uint64_t count;

	(void)!read(w->wake_fd, &count, sizeof(count));
}
