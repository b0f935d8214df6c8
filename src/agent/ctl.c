/* SPDX-License-Identifier: MIT */

/*
 * libuv gives a handle back in its close callback, so a client and the server each own one
 * uv_poll_t (and a client a timer) and count those that are open; the last callback frees the
 * struct. Nobody reads more of a client than its one request.
 */

#include "agent/ctl.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/mem.h"
#include "base/sock.h"

struct ctl_client {
	struct ctl *ctl;
	struct ctl_client *next;
	uv_poll_t poll;
	uv_timer_t timer; /* a request, and progress with the answer, are due */
	int fd, open_handles;
	bool asked, closing;
	char *text; /* the answer; NULL before it */
	size_t len, sent;
};

struct ctl {
	uv_loop_t *loop;
	const struct ctl_ops *ops;
	void *user;
	uv_poll_t poll;
	int fd;
	bool listening, closing;
	struct ctl_client *clients;
	size_t n_clients;
};

static void free_ctl_if_done(struct ctl *ctl)
{
	if (ctl->closing && !ctl->listening && !ctl->clients)
		free(ctl);
}

static void unlink_client(struct ctl_client *c)
{
	struct ctl_client **p = &c->ctl->clients;

	while (*p != c)
		p = &(*p)->next;
	*p = c->next;
	c->ctl->n_clients--;
}

static void on_client_closed(uv_handle_t *h)
{
	struct ctl_client *c = h->data;
	struct ctl *ctl = c->ctl;

	if (--c->open_handles > 0)
		return;
	c->fd = fd_close(c->fd);
	unlink_client(c);
	free(c->text);
	free(c);
	free_ctl_if_done(ctl);
}

static void close_client(struct ctl_client *c)
{
	if (c->closing)
		return;
	c->closing = true;
	if (c->asked && !c->text)
		c->ctl->ops->gone(c->ctl->user, c);
	uv_close((uv_handle_t *)&c->poll, on_client_closed);
	uv_close((uv_handle_t *)&c->timer, on_client_closed);
}

static void on_client_slow(uv_timer_t *timer)
{
	close_client(timer->data);
}

/* The next piece of the answer. False: the client takes no more now, or is gone. */
static bool send_chunk(struct ctl_client *c)
{
	struct ctl_chunk chunk = { .magic = CTL_MAGIC, .version = CTL_VERSION };
	size_t left = c->len - c->sent;

	chunk.size = (uint32_t)(left < CTL_CHUNK ? left : CTL_CHUNK);
	chunk.last = chunk.size == left;
	(void)memcpy(chunk.data, c->text + c->sent, chunk.size);

	int r = sock_send(c->fd, &chunk, CTL_CHUNK_HEAD + chunk.size);

	if (r == 0)
		c->sent += chunk.size;
	else if (r != -EAGAIN)
		close_client(c);
	return r == 0;
}

static void on_client(uv_poll_t *poll, int status, int events);

/*
 * After the whole answer the socket stays open until the client closes it, or we end: that is how
 * `off` sees when the agent is gone.
 */
static void send_answer(struct ctl_client *c)
{
	while (c->sent < c->len)
		if (!send_chunk(c))
			break;
	if (c->closing)
		return;
	if (c->sent < c->len) {
		(void)uv_timer_start(&c->timer, on_client_slow, CTL_SLOW_MS, 0);
		(void)uv_poll_start(&c->poll, UV_READABLE | UV_WRITABLE, on_client);
	} else {
		(void)uv_timer_stop(&c->timer);
		(void)uv_poll_start(&c->poll, UV_READABLE, on_client);
	}
}

bool ctl_is_request(const struct ctl_request *req, ssize_t n)
{
	return n == sizeof(*req) && req->magic == CTL_MAGIC && req->version == CTL_VERSION &&
	       req->verb && req->verb < CTL_VERB_MAX;
}

bool ctl_is_chunk(const struct ctl_chunk *chunk, ssize_t n)
{
	return n >= (ssize_t)CTL_CHUNK_HEAD && chunk->magic == CTL_MAGIC &&
	       chunk->version == CTL_VERSION && (size_t)n == CTL_CHUNK_HEAD + chunk->size;
}

static void take_request(struct ctl_client *c)
{
	struct ctl_request req;
	ssize_t n = sock_recv(c->fd, &req, sizeof(req));

	if (n == -EAGAIN)
		return;
	if (c->asked || !ctl_is_request(&req, n)) {
		close_client(c);
		return;
	}
	c->asked = true;
	(void)uv_timer_stop(&c->timer);
	c->ctl->ops->request(c->ctl->user, c, &req);
}

static void on_client(uv_poll_t *poll, int status, int events)
{
	struct ctl_client *c = poll->data;

	if (status < 0) {
		close_client(c);
		return;
	}
	if (events & UV_READABLE)
		take_request(c);
	if (!c->closing && c->text && (events & UV_WRITABLE))
		send_answer(c);
}

static void add_client(struct ctl *ctl, int fd)
{
	struct ctl_client *c = xcalloc(1, sizeof(*c));

	c->ctl = ctl;
	c->fd = fd;
	if (uv_poll_init(ctl->loop, &c->poll, fd) < 0) {
		(void)fd_close(fd);
		free(c);
		return;
	}
	(void)uv_timer_init(ctl->loop, &c->timer);
	c->poll.data = c->timer.data = c;
	c->open_handles = 2;
	c->next = ctl->clients;
	ctl->clients = c;
	ctl->n_clients++;
	(void)uv_timer_start(&c->timer, on_client_slow, CTL_SLOW_MS, 0);
	(void)uv_poll_start(&c->poll, UV_READABLE, on_client);
}

static void on_listener(uv_poll_t *poll, int status, int events)
{
	struct ctl *ctl = poll->data;

	for (;;) {
		int fd = sock_accept(ctl->fd, NULL);

		if (fd == -EPERM || fd == -ECONNABORTED)
			continue; /* another user; it was dropped */
		if (fd < 0)
			return;
		if (ctl->n_clients >= CTL_CLIENTS_MAX)
			(void)fd_close(fd);
		else
			add_client(ctl, fd);
	}
}

int ctl_listen(uv_loop_t *loop, const char *name, const struct ctl_ops *ops, void *user,
	       struct ctl **ret, struct err *e)
{
	cleanup_fd int fd = sock_listen(name, e);

	if (fd < 0)
		return fd;

	struct ctl *ctl = xcalloc(1, sizeof(*ctl));

	ctl->loop = loop;
	ctl->ops = ops;
	ctl->user = user;
	if (uv_poll_init(loop, &ctl->poll, fd) < 0) {
		free(ctl);
		return err_set(e, -EIO, "cannot watch the socket @%s", name);
	}
	ctl->poll.data = ctl;
	ctl->listening = true;
	ctl->fd = take_fd(fd);
	(void)uv_poll_start(&ctl->poll, UV_READABLE, on_listener);
	*ret = ctl;
	return 0;
}

void ctl_answer(struct ctl_client *c, json_t *doc)
{
	c->text = json_dumps(doc, JSON_COMPACT);
	json_decref(doc);
	if (!c->text)
		c->text = xstrdup("{}");
	c->len = strlen(c->text);
	send_answer(c);
}

static void on_listener_closed(uv_handle_t *h)
{
	struct ctl *ctl = h->data;

	ctl->listening = false;
	free_ctl_if_done(ctl);
}

void ctl_unlisten(struct ctl *ctl)
{
	if (ctl->fd < 0)
		return;
	uv_close((uv_handle_t *)&ctl->poll, on_listener_closed);
	ctl->fd = fd_close(ctl->fd);
}

bool ctl_is_quiet(const struct ctl *ctl)
{
	for (const struct ctl_client *c = ctl->clients; c; c = c->next)
		if (!c->closing && c->text && c->sent < c->len)
			return false;
	return true;
}

void ctl_close(struct ctl *ctl)
{
	struct ctl_client *next;

	ctl->closing = true;
	ctl_unlisten(ctl);
	for (struct ctl_client *c = ctl->clients; c; c = next) {
		next = c->next;
		close_client(c);
	}
	free_ctl_if_done(ctl);
}
