/* SPDX-License-Identifier: MIT */

/* What shows of another process. This one has no CUDA until then. */
#include "facts.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

/* Whether pid is in the list; learns the layout from what a pattern shows was written. */
static int list_has(pid_t pid)
{
	static unsigned char buf[128 * 32];
	unsigned int n = 128;
	size_t written = sizeof(buf);

	memset(buf, 0xcd, sizeof(buf));
	if (nvml.nvmlDeviceGetComputeRunningProcesses_v3(dev, &n, buf) != NVML_SUCCESS)
		return -1;
	while (written > 0 && buf[written - 1] == 0xcd)
		written--;
	if (n > 0 && !layout)
		layout = (written / n + 7) / 8 * 8;
	for (unsigned int i = 0; layout && i < n; i++) {
		unsigned int listed;

		memcpy(&listed, buf + i * layout, sizeof(listed));
		if (listed == (unsigned int)pid)
			return 1;
	}
	return 0;
}

void fact_process_list(void)
{
	unsigned long long before = used_bytes(), during;
	struct child c;
	double t0;

	if (!child_start(&c, "hold", NULL) || strcmp(c.line, "0") != 0) {
		ok(false, "another process can have a context and 512 MiB (\"%s\")", c.line);
		return;
	}
	during = used_bytes();
	ok(during >= before + 512 * MIB, "its memory shows in NVML: %llu MiB more",
	   (during - before) / MIB);
	pids_seen = list_has(c.pid) == 1;
	if (layout)
		ok(layout == 16 || layout == 24 || layout == 32, "_v3 writes %zu bytes an entry",
		   layout);
	else
		skip("layout of the process list", "the list is empty");
	if (pids_seen)
		ok(true, "its PID is in the list");
	else
		skip("its PID is in the list", "PIDs are hidden or translated here");
	child_end(&c, 0);
	for (t0 = now_ms(); now_ms() - t0 < 3000 && used_bytes() > before + 64 * MIB;)
		(void)usleep(2000);
	ok(used_bytes() <= before + 64 * MIB, "after its end the memory is free (%.0f ms)",
	   now_ms() - t0);
	if (pids_seen)
		ok(list_has(c.pid) == 0, "and its PID is gone");
}

/* Whoever has waited for a process finds neither it nor its memory, however soon it looks. */
void fact_gone_once_waited_for(void)
{
	unsigned long long before = used_bytes();
	int listed = 0, used = 0, rounds = 10;

	for (int i = 0; i < rounds; i++) {
		struct child c;

		if (!child_start(&c, "hold", NULL)) {
			ok(false, "a child to kill");
			return;
		}
		(void)list_has(c.pid);
		child_end(&c, SIGKILL);
		listed += list_has(c.pid) == 1;
		used += used_bytes() > before + 64 * MIB;
	}
	if (pids_seen)
		ok(listed == 0, "who was killed and waited for is in no list: %d of %d are", listed,
		   rounds);
	else
		skip("who was killed and waited for is in no list", "PIDs are hidden here");
	ok(used == 0, "and uses no memory: %d of %d do", used, rounds);
}

void fact_sigkill(void)
{
	unsigned long long before = used_bytes();
	struct child c;
	double t0;

	if (!child_start(&c, "hold", NULL)) {
		ok(false, "a child to kill");
		return;
	}
	child_end(&c, SIGKILL);
	for (t0 = now_ms(); now_ms() - t0 < 5000 && used_bytes() > before + 64 * MIB;)
		(void)usleep(2000);
	ok(used_bytes() <= before + 64 * MIB, "kill -9 gives the memory back (%.0f ms)",
	   now_ms() - t0);
}

static void expect_visible(const char *env, const char *expected, const char *what)
{
	struct child c;
	bool said = child_start(&c, "list", env);

	ok(said && strcmp(c.line, expected) == 0, "%s: sees \"%.60s\"", what, c.line);
	child_end(&c, 0);
}

void fact_visible_devices(void)
{
	char env[200], expected[200];

	(void)snprintf(expected, sizeof(expected), "1 %s", uuid);
	(void)snprintf(env, sizeof(env), "CUDA_VISIBLE_DEVICES=%s", uuid);
	expect_visible(env, expected, "CUDA_VISIBLE_DEVICES=UUID");
	(void)snprintf(env, sizeof(env), "CUDA_VISIBLE_DEVICES=%.12s", uuid);
	expect_visible(env, expected, "a prefix of the UUID");
	(void)snprintf(env, sizeof(env), "CUDA_VISIBLE_DEVICES=%s,-1,0", uuid);
	expect_visible(env, expected, "the list ends at -1");
	expect_visible("CUDA_VISIBLE_DEVICES=", "0", "an empty list");
	expect_visible("CUDA_VISIBLE_DEVICES=-1", "0", "-1 alone");
	expect_visible("CUDA_VISIBLE_DEVICES=GPU-ffffffff-not", "0", "an unknown UUID");
}

void fact_inotify(void)
{
	const char *dir = getenv("TENURE_DEV_DIR") ? getenv("TENURE_DEV_DIR") : "/dev";
	int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK), opens = 0;
	char path[300], buf[4096] __attribute__((aligned(8)));
	struct child c;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "%s/nvidiactl", dir);
	if (fd < 0 || inotify_add_watch(fd, path, IN_OPEN) < 0) {
		skip("inotify sees a start", strerror(errno));
		if (fd >= 0)
			(void)close(fd);
		return;
	}
	(void)child_start(&c, "list", NULL);
	child_end(&c, 0);
	while ((n = read(fd, buf, sizeof(buf))) > 0) {
		for (char *p = buf; p < buf + n;) {
			const struct inotify_event *ev = (const struct inotify_event *)(void *)p;

			opens += (ev->mask & IN_OPEN) != 0;
			p += sizeof(*ev) + ev->len;
		}
	}
	(void)close(fd);
	ok(opens > 0, "a start of CUDA opens nvidiactl where inotify sees it (%d events)", opens);
}
