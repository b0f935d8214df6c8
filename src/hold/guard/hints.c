/* SPDX-License-Identifier: MIT */
#include "hold/guard/hints.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "hold/guard/timings.h"

#define READS 4 /* of some 500 events each, in one turn of the guard */

#define WATCHED (IN_OPEN | IN_CLOSE_WRITE | IN_CLOSE_NOWRITE)

/* nvidiactl, nvidia-uvm, nvidia0, nvidia1, ... */
static bool is_node(const char *name)
{
	if (!str_has_prefix(name, "nvidia"))
		return false;
	name += strlen("nvidia");
	return !strcmp(name, "ctl") || !strcmp(name, "-uvm") || isdigit((unsigned char)name[0]);
}

void hints_rescan(struct hints *h, const char *dir)
{
	struct dirent *entry;
	int n = 0;
	DIR *d;

	if (h->fd < 0)
		h->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	h->errnum = h->fd < 0 ? errno : 0;
	d = h->fd < 0 ? NULL : opendir(dir);
	if (!d)
		return;
	while ((entry = readdir(d))) {
		cleanup_free char *path = NULL;

		if (!is_node(entry->d_name))
			continue;
		path = xasprintf("%s/%s", dir, entry->d_name);
		/* A node that is watched already keeps its watch. */
		if (inotify_add_watch(h->fd, path, WATCHED) >= 0)
			n++;
		else
			h->errnum = errno;
	}
	(void)closedir(d);
	h->n_watches = n;
}

void hints_open(struct hints *h, const char *dir, struct err *e)
{
	*h = (struct hints){ .fd = -1 };
	hints_rescan(h, dir);
	if (h->n_watches == 0 && h->errnum == EMFILE)
		(void)err_set(e, -EMFILE, "no inotify instance is left for this user");
	else if (h->n_watches == 0 && h->errnum)
		(void)err_sys(e, h->errnum, "inotify");
	else if (h->n_watches == 0)
		(void)err_set(e, -ENOENT, "no device nodes to watch in %s", dir);
}

const char *hints_advice(const struct hints *h)
{
	if (h->errnum == EMFILE)
		return "raise sysctl fs.inotify.max_user_instances, or end programs that use them up";
	if (h->errnum == ENOSPC)
		return "raise sysctl fs.inotify.max_user_watches";
	return "if the nodes are a copy of the host's, bind-mount those instead";
}

void hints_close(struct hints *h)
{
	h->fd = fd_close(h->fd);
}

void hints_count(struct hints *h, uint32_t mask, uint64_t now_ns)
{
	if (mask & IN_Q_OVERFLOW)
		mask = IN_OPEN; /* so much happened that events were lost: assume the worst */
	if (mask & IN_OPEN) {
		if (!h->first_ns)
			h->first_ns = now_ns;
		h->opens_ns[h->n_opens++ % HINT_OPENS] = now_ns;
		h->last_ns = now_ns;
		h->balance++;
	} else if (mask & (IN_CLOSE_WRITE | IN_CLOSE_NOWRITE) && h->first_ns) {
		h->balance--;
	}
}

uint64_t hints_open_since(const struct hints *h, uint64_t since_ns)
{
	uint64_t first = 0;

	for (uint64_t i = 0; i < HINT_OPENS && i < h->n_opens; i++) {
		uint64_t at = h->opens_ns[i];

		if (at >= since_ns && (!first || at < first))
			first = at;
	}
	return first;
}

bool hints_read(struct hints *h, uint64_t now_ns)
{
	char buf[8192] __attribute__((aligned(__alignof__(struct inotify_event))));
	bool opened = false;
	ssize_t n;

	/* Anybody can open nodes faster than this reads of it; the rest is for the next turn. */
	for (int i = 0; i < READS && (n = read(h->fd, buf, sizeof(buf))) > 0; i++) {
		for (ssize_t at = 0; at < n;) {
			struct inotify_event event;

			(void)memcpy(&event, buf + at, sizeof(event));
			hints_count(h, event.mask, now_ns);
			opened = opened || event.mask & (IN_OPEN | IN_Q_OVERFLOW);
			at += (ssize_t)(sizeof(event) + event.len);
		}
	}
	return opened;
}

bool hints_active(struct hints *h, uint64_t now_ns)
{
	if (!h->first_ns)
		return false;

	uint64_t tail = h->balance <= 0 ? HINT_BALANCED_NS : HINT_TAIL_NS;

	if (now_ns - h->last_ns < tail)
		return true;
	h->first_ns = 0;
	h->balance = 0;
	return false;
}
