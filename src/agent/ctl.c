/* SPDX-License-Identifier: MIT */

/*
 * libuv gives a handle back in its close callback, so a client and the server each count those that
 * are open; the last callback frees the struct. A listener is a struct of its own, because its
 * descriptor changes when the socket had to be put back. Nobody reads more of a client than its one
 * request.
 *
 * Somebody of our own user may connect and connect. So there is a pace at which clients are
 * accepted, and those that wait have their turn one after another. A request is read as soon as its
 * client is accepted, and where there is no room, who has not asked goes first, of that process
 * that has the most of such connections.
 */

#include "agent/ctl.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/endpoint.h"
#include "base/mem.h"
#include "base/sock.h"

#define PACE_MS	  100
#define PACE_MOST 128 /* so many are accepted in that time */
#define TURN_MOST 64  /* so many documents are sent to who watches, and then it is others' turn */

struct ctl_client {
	struct ctl *ctl;
	struct ctl_client *next; /* the one that came before it */
	pid_t pid;
	uv_poll_t poll;
	uv_timer_t timer; /* a request, and progress with the answer, are due */
	int fd, open_handles;
	bool asked, closing;
	bool streams;		    /* text is one of many documents; NULL: it has all so far */
	char *text;		    /* the answer; NULL before it */
	struct ctl_request request; /* verb 0: it has not come */
	char *payload;
	size_t len, sent;
};

struct listener {
	struct ctl *ctl;
	uv_poll_t poll;
	int fd;
};

struct ctl {
	uv_loop_t *loop;
	const struct ctl_ops *ops;
	void *user;
	struct endpoint_keeper *keeper;
	struct listener *listener; /* NULL: the name was given back */
	uv_poll_t news;		   /* of the keeper */
	uv_timer_t pace;
	unsigned int accepted; /* since the pace timer fired last */
	int open_handles;      /* but for those of clients */
	bool closing;
	struct ctl_client *clients;
	size_t n_clients; /* but for those that are just being closed */
};

static void free_ctl_if_done(struct ctl *ctl)
{
	if (ctl->closing && !ctl->open_handles && !ctl->clients)
		free(ctl);
}

static void unlink_client(struct ctl_client *c)
{
	struct ctl_client **p = &c->ctl->clients;

	while (*p != c)
		p = &(*p)->next;
	*p = c->next;
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
	free(c->payload);
	free(c);
	free_ctl_if_done(ctl);
}

static void close_client(struct ctl_client *c)
{
	if (c->closing)
		return;
	c->closing = true;
	c->ctl->n_clients--;
	if (c->asked && (c->streams || !c->text))
		c->ctl->ops->gone(c->ctl->user, c);
	uv_close((uv_handle_t *)&c->poll, on_client_closed);
	uv_close((uv_handle_t *)&c->timer, on_client_closed);
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
static void on_pace(uv_timer_t *timer);

/* All of it, or as much as the client takes now. */
static void send_text(struct ctl_client *c)
{
	while (c->sent < c->len)
		if (!send_chunk(c))
			break;
}

/* False: there is nothing for it now. */
static bool take_next(struct ctl_client *c)
{
	free(c->text);
	c->text = c->ctl->ops->next(c->ctl->user, c);
	c->len = c->text ? strlen(c->text) : 0;
	c->sent = 0;
	return c->text != NULL;
}

static void on_client_slow(uv_timer_t *timer);

/* Of a busy client no more than a turn's at once: the poll comes back to it. */
static void send_stream(struct ctl_client *c)
{
	size_t sent = c->sent;
	unsigned int n = 0;

	do
		send_text(c);
	while (!c->closing && c->sent == c->len && ++n < TURN_MOST && take_next(c));
	if (c->closing)
		return;
	if (c->sent == c->len)
		(void)uv_timer_stop(&c->timer);
	else if (n || c->sent != sent || !uv_is_active((uv_handle_t *)&c->timer))
		(void)uv_timer_start(&c->timer, on_client_slow, CTL_SLOW_MS, 0);
	(void)uv_poll_start(&c->poll,
			    c->sent < c->len || n == TURN_MOST ? UV_READABLE | UV_WRITABLE
							       : UV_READABLE,
			    on_client);
}

/*
 * After the whole answer the socket stays open until the client closes it, or we end: that is how
 * `off` sees when the agent is gone.
 */
static void send_answer(struct ctl_client *c)
{
	send_text(c);
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

/* The kernel says that there is room only when there is much: who reads little by little has read
 * something all the same. */
static bool takes_more(struct ctl_client *c)
{
	size_t sent = c->sent;

	if (c->text && !c->closing)
		send_text(c);
	return !c->closing && c->sent != sent;
}

static void on_client_slow(uv_timer_t *timer)
{
	struct ctl_client *c = timer->data;

	if (takes_more(c)) {
		(c->streams ? send_stream : send_answer)(c);
		return;
	}
	if (c->streams && !c->closing)
		c->ctl->ops->slow(c->ctl->user, c);
	close_client(c);
}

bool ctl_is_request(const struct ctl_request *req, ssize_t n)
{
	return n == sizeof(*req) && req->magic == CTL_MAGIC && req->version == CTL_VERSION &&
	       req->verb && req->verb < CTL_VERB_MAX && req->payload <= CTL_PAYLOAD_MAX;
}

bool ctl_is_chunk(const struct ctl_chunk *chunk, ssize_t n)
{
	return n >= (ssize_t)CTL_CHUNK_HEAD && chunk->magic == CTL_MAGIC &&
	       chunk->version == CTL_VERSION && (size_t)n == CTL_CHUNK_HEAD + chunk->size;
}

static void pass_request(struct ctl_client *c)
{
	c->asked = true;
	(void)uv_timer_stop(&c->timer);
	c->ctl->ops->request(c->ctl->user, c, &c->request);
}

static void take_payload(struct ctl_client *c)
{
	struct ctl_chunk chunk;
	ssize_t n = sock_recv(c->fd, &chunk, sizeof(chunk));

	if (n == -EAGAIN)
		return;
	if (!ctl_is_chunk(&chunk, n) || chunk.size != c->request.payload) {
		close_client(c);
		return;
	}
	c->payload = xasprintf("%.*s", (int)chunk.size, chunk.data);
	pass_request(c);
}

static void take_request(struct ctl_client *c)
{
	struct ctl_request req;
	ssize_t n;

	if (c->request.verb && !c->asked) {
		take_payload(c);
		return;
	}
	n = sock_recv(c->fd, &req, sizeof(req));
	if (n == -EAGAIN)
		return;
	if (c->asked || !ctl_is_request(&req, n)) {
		close_client(c);
		return;
	}
	c->request = req;
	if (req.payload)
		take_payload(c);
	else
		pass_request(c);
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
		(c->streams ? send_stream : send_answer)(c);
}

static bool is_half_open(const struct ctl_client *c)
{
	return !c->closing && !c->asked;
}

static size_t half_open_of(const struct ctl *ctl, pid_t pid)
{
	size_t n = 0;

	for (const struct ctl_client *c = ctl->clients; c; c = c->next)
		n += is_half_open(c) && c->pid == pid;
	return n;
}

/* Cut off who is worth least, if there is such a one: has not asked, or has its whole answer. */
static bool make_room(struct ctl *ctl)
{
	struct ctl_client *victim = NULL;
	size_t most = 0;

	for (struct ctl_client *c = ctl->clients; c; c = c->next) {
		size_t n = is_half_open(c) ? half_open_of(ctl, c->pid) : 0;

		if (n && n >= most) { /* the list goes from the newest to the oldest */
			victim = c;
			most = n;
		} else if (!most && !c->closing && !c->streams && c->text && c->sent == c->len) {
			victim = c;
		}
	}
	if (victim)
		close_client(victim);
	return victim != NULL;
}

static void add_client(struct ctl *ctl, int fd, pid_t pid)
{
	struct ctl_client *c = xcalloc(1, sizeof(*c));

	c->ctl = ctl;
	c->fd = fd;
	c->pid = pid;
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
	take_request(c);
}

/* All that wait, or as many as the pace and our descriptors allow: then the pace timer resumes. */
static void accept_clients(struct ctl *ctl)
{
	pid_t pid = 0;

	for (; ctl->accepted < PACE_MOST; ctl->accepted++) {
		int fd = sock_accept(ctl->listener->fd, &pid);

		if (fd == -EPERM || fd == -ECONNABORTED)
			continue; /* another user; it was dropped */
		if (fd == -EAGAIN)
			return;
		if (fd < 0)
			break; /* no descriptor is left; who waits would wake us at once again */
		if (ctl->n_clients < CTL_CLIENTS_MAX || make_room(ctl))
			add_client(ctl, fd, pid);
		else
			(void)fd_close(fd);
	}
	(void)uv_poll_stop(&ctl->listener->poll);
}

static void on_listener(uv_poll_t *poll, int status, int events)
{
	struct listener *l = poll->data;

	if (!uv_is_active((uv_handle_t *)&l->ctl->pace))
		(void)uv_timer_start(&l->ctl->pace, on_pace, PACE_MS, 0);
	accept_clients(l->ctl);
}

static void on_pace(uv_timer_t *timer)
{
	struct ctl *ctl = timer->data;

	ctl->accepted = 0;
	if (ctl->listener)
		(void)uv_poll_start(&ctl->listener->poll, UV_READABLE, on_listener);
}

static void on_listener_closed(uv_handle_t *h)
{
	struct listener *l = h->data;
	struct ctl *ctl = l->ctl;

	(void)fd_close(l->fd);
	free(l);
	ctl->open_handles--;
	free_ctl_if_done(ctl);
}

static void drop_listener(struct ctl *ctl)
{
	struct listener *l = ctl->listener;

	ctl->listener = NULL;
	if (l)
		uv_close((uv_handle_t *)&l->poll, on_listener_closed);
}

/* Takes fd over, in place of the one before. */
static int listen_on(struct ctl *ctl, int fd)
{
	struct listener *l = xcalloc(1, sizeof(*l));

	l->ctl = ctl;
	l->fd = fd;
	if (uv_poll_init(ctl->loop, &l->poll, fd) < 0) {
		(void)fd_close(fd);
		free(l);
		return -EIO;
	}
	l->poll.data = l;
	ctl->open_handles++;
	drop_listener(ctl);
	ctl->listener = l;
	(void)uv_poll_start(&l->poll, UV_READABLE, on_listener);
	return 0;
}

/* The socket's file was tidied away, and is back; or somebody else has the name by now. */
static void on_news(uv_poll_t *poll, int status, int events)
{
	struct ctl *ctl = poll->data;
	int r;

	while (ctl->listener && (r = endpoint_keeper_take(ctl->keeper)) != -EAGAIN) {
		if (r < 0) {
			ctl->ops->lost(ctl->user);
		} else {
			accept_clients(ctl);
			(void)listen_on(ctl, r);
		}
	}
}

static void on_handle_closed(uv_handle_t *h)
{
	struct ctl *ctl = h->data;

	ctl->open_handles--;
	free_ctl_if_done(ctl);
}

int ctl_listen(uv_loop_t *loop, const char *name, const struct ctl_ops *ops, void *user,
	       struct ctl **ret, struct err *e)
{
	struct endpoint_keeper *keeper;
	int fd, r = endpoint_keep(name, &keeper, &fd, e);

	if (r < 0)
		return r;

	struct ctl *ctl = xcalloc(1, sizeof(*ctl));

	ctl->loop = loop;
	ctl->ops = ops;
	ctl->user = user;
	ctl->keeper = keeper;
	if (uv_poll_init(loop, &ctl->news, endpoint_keeper_fd(keeper)) < 0) {
		endpoint_release(keeper);
		(void)fd_close(fd);
		free(ctl);
		return err_set(e, -EIO, "cannot watch the socket %s", name);
	}
	(void)uv_timer_init(loop, &ctl->pace);
	ctl->open_handles = 2;
	ctl->news.data = ctl->pace.data = ctl;
	(void)uv_poll_start(&ctl->news, UV_READABLE, on_news);
	if (listen_on(ctl, fd) < 0) {
		ctl_close(ctl);
		return err_set(e, -EIO, "cannot watch the socket %s", name);
	}
	*ret = ctl;
	return 0;
}

const char *ctl_payload(const struct ctl_client *c)
{
	return c->payload ? c->payload : "";
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

void ctl_unlisten(struct ctl *ctl)
{
	if (!ctl->keeper)
		return;
	(void)uv_poll_stop(&ctl->news);
	uv_close((uv_handle_t *)&ctl->news, on_handle_closed);
	uv_close((uv_handle_t *)&ctl->pace, on_handle_closed);
	drop_listener(ctl);
	endpoint_release(take_ptr(ctl->keeper));
}

void ctl_stream(struct ctl_client *c)
{
	c->streams = true;
	ctl_stream_more(c);
}

void ctl_stream_more(struct ctl_client *c)
{
	if (!c->closing && c->sent == c->len) /* else it goes on when that has been taken */
		send_stream(c);
}

pid_t ctl_client_pid(const struct ctl_client *c)
{
	return c->pid;
}

bool ctl_is_quiet(const struct ctl *ctl)
{
	for (const struct ctl_client *c = ctl->clients; c; c = c->next)
		if (!c->closing && !c->streams && c->text && c->sent < c->len)
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
