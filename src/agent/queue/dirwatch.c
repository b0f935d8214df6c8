/* SPDX-License-Identifier: MIT */
#include "agent/queue/dirwatch.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/mem.h"

#define CHANGES                                                                                    \
	(IN_ATTRIB | IN_CREATE | IN_MODIFY | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO |             \
	 IN_DELETE_SELF | IN_MOVE_SELF)
#define EVENTS_BYTES 4096
#define READS	     8 /* in one turn of the loop: what they tell may make more */

int dirwatch_add(int fd, const char *path)
{
	if (fd < 0)
		return -EMFILE;
	return inotify_add_watch(fd, path, CHANGES | IN_ONLYDIR | IN_DONT_FOLLOW) < 0 ? -errno : 0;
}

static void on_events(uv_poll_t *poll, int status, int events)
{
	struct dirwatch *w = poll->data;
	char buf[EVENTS_BYTES] __attribute__((aligned(__alignof__(struct inotify_event))));
	ssize_t n;

	/* Whoever is told may stop it. */
	for (int i = 0; i < READS && w->fd >= 0 && (n = read(w->fd, buf, sizeof(buf))) > 0; i++)
		for (ssize_t at = 0; at < n && w->fd >= 0;) {
			const struct inotify_event *e = (const void *)(buf + at);

			at += (ssize_t)(sizeof(*e) + e->len);
			if (!(e->mask & IN_IGNORED))
				w->changed(w->user, e->len ? e->name : NULL);
		}
}

struct dirwatch *dirwatch_new(uv_loop_t *loop, struct spooler *spooler,
			      void (*changed)(void *user, const char *file), void *user)
{
	struct dirwatch *w = xcalloc(1, sizeof(*w));

	*w = (struct dirwatch){ .spooler = spooler, .changed = changed, .user = user };
	w->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (w->fd < 0)
		return w;
	(void)uv_poll_init(loop, &w->poll, w->fd);
	w->poll.data = w;
	(void)uv_poll_start(&w->poll, UV_READABLE, on_events);
	uv_unref((uv_handle_t *)&w->poll);
	return w;
}

static void on_closed(uv_handle_t *h)
{
	free(h->data);
}

/* Its end lets go of the directories, so that is for the spooler's thread, too. */
void dirwatch_stop(struct dirwatch *w)
{
	if (w->fd < 0)
		return;
	(void)uv_poll_stop(&w->poll);
	w->fd = spooler_close_fd(w->spooler, w->fd);
}

struct dirwatch *dirwatch_free(struct dirwatch *w)
{
	if (w->poll.data)
		uv_close((uv_handle_t *)&w->poll, on_closed);
	else
		free(w);
	return NULL;
}
