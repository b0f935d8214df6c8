/* SPDX-License-Identifier: MIT */
#include "serve/server.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "serve/serve.h"
#include "serve/webfile.h"

#define DAEMONS_MAX 8
#define HEAD_BYTES  (32UL * 1024)
#define CROWDED	    (SERVER_CONNECTIONS / 4 * 3)
#define QUERIES	    32 /* parameters of the URL that are told apart; no route has as many */

enum connection_state {
	CONNECTION_READING, /* nothing, or a request that is not complete */
	CONNECTION_WORKING, /* the answer is being made */
	CONNECTION_WRITING, /* it is being taken */
	CONNECTION_STREAMING,
};

struct connection {
	int fd;
	bool local;
	bool stranger; /* a process of another user, on the Unix socket */
	enum connection_state state;
	uint64_t since_ns;	/* in this state */
	unsigned char peer[16]; /* of struct budget_payer */
	struct connection *prev, *next;
};

struct listener {
	struct server *server;
	struct MHD_Daemon *mhd;
	bool local;
	size_t connected;
};

struct server {
	struct serve *serve;
	const struct route *routes;
	struct listener listeners[DAEMONS_MAX];
	size_t n_listeners;
	pthread_mutex_t lock; /* of what follows */
	struct connection *oldest, *newest;
};

/* ---- connections ---- */

static void list_remove(struct server *sv, struct connection *c)
{
	*(c->prev ? &c->prev->next : &sv->oldest) = c->next;
	*(c->next ? &c->next->prev : &sv->newest) = c->prev;
}

static void list_append(struct server *sv, struct connection *c)
{
	c->next = NULL;
	c->prev = sv->newest;
	*(sv->newest ? &sv->newest->next : &sv->oldest) = c;
	sv->newest = c;
}

/* The list is in the order of since_ns. */
static void set_state(struct server *sv, struct connection *c, enum connection_state state)
{
	(void)pthread_mutex_lock(&sv->lock);
	list_remove(sv, c);
	c->state = state;
	c->since_ns = clock_mono_ns();
	list_append(sv, c);
	(void)pthread_mutex_unlock(&sv->lock);
}

/* libmicrohttpd closes it when it has noticed, and not before on_connection() was told. */
static void cut_off(const struct connection *c)
{
	(void)shutdown(c->fd, SHUT_RDWR);
}

static bool is_stranger(int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 || cred.uid != geteuid();
}

static void take_peer(struct MHD_Connection *mhd, struct connection *c)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	const struct sockaddr *addr = info ? info->client_addr : NULL;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;

	if (addr && addr->sa_family == AF_INET) {
		(void)memcpy(&v4, addr, sizeof(v4));
		c->peer[10] = c->peer[11] = 0xff;
		(void)memcpy(c->peer + 12, &v4.sin_addr, sizeof(v4.sin_addr));
	} else if (addr && addr->sa_family == AF_INET6) {
		bool mapped;

		(void)memcpy(&v6, addr, sizeof(v6));
		mapped = IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr);
		(void)memcpy(c->peer, &v6.sin6_addr, mapped ? 16 : 8);
	}
}

static void make_room(struct server *sv, bool local)
{
	for (struct connection *c = sv->oldest; c; c = c->next) {
		if (c->state != CONNECTION_READING || c->local != local || c->fd < 0)
			continue;
		cut_off(c);
		c->fd = -1;
		return;
	}
}

static void begin_connection(struct listener *l, struct MHD_Connection *mhd, void **ret)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct server *sv = l->server;
	struct connection *c = xcalloc(1, sizeof(*c));

	c->fd = info ? info->connect_fd : -1;
	c->local = l->local;
	c->stranger = l->local && is_stranger(c->fd);
	take_peer(mhd, c);
	c->since_ns = clock_mono_ns();
	(void)pthread_mutex_lock(&sv->lock);
	if (++l->connected > CROWDED)
		make_room(sv, l->local);
	list_append(sv, c);
	(void)pthread_mutex_unlock(&sv->lock);
	*ret = c;
}

static void on_connection(void *cls, struct MHD_Connection *mhd, void **context,
			  enum MHD_ConnectionNotificationCode code)
{
	struct listener *l = cls;
	struct server *sv = l->server;
	struct connection *c = *context;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		begin_connection(l, mhd, context);
		return;
	}
	(void)pthread_mutex_lock(&sv->lock);
	l->connected--;
	list_remove(sv, c);
	(void)pthread_mutex_unlock(&sv->lock);
	free(c);
}

static const uint64_t limits_ms[] = {
	[CONNECTION_READING] = SERVER_READ_MS,
	[CONNECTION_WRITING] = SERVER_WRITE_MS,
};

void server_pulse(struct server *sv)
{
	uint64_t now;

	(void)pthread_mutex_lock(&sv->lock);
	now = clock_mono_ns(); /* not before any since_ns */
	for (struct connection *c = sv->oldest; c; c = c->next) {
		uint64_t limit_ms = c->state < ARRAY_LEN(limits_ms) ? limits_ms[c->state] : 0;

		if (!limit_ms || c->fd < 0 || now - c->since_ns < limit_ms * NS_PER_MS)
			continue;
		cut_off(c);
		c->fd = -1;
	}
	(void)pthread_mutex_unlock(&sv->lock);
}

/* ---- what they may use ---- */

static bool may_ask(struct request *r)
{
	if (budget_left(&r->serve->budget, &r->payer, clock_mono_ns()))
		return true;
	answer_problem(&r->answer, MHD_HTTP_TOO_MANY_REQUESTS,
		       "too much is asked at once; try again in a second");
	answer_header(&r->answer, MHD_HTTP_HEADER_RETRY_AFTER, "1");
	return false;
}

/* ---- the head of a request ---- */

struct counts {
	size_t hosts, lengths; /* headers that say which host is meant, how long the body is */
};

static enum MHD_Result count_value(void *cls, enum MHD_ValueKind kind, const char *key,
				   const char *value)
{
	struct counts *n = cls;

	(void)kind;
	(void)value;
	n->hosts += strcasecmp(key, MHD_HTTP_HEADER_HOST) == 0;
	n->lengths += strcasecmp(key, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0 ||
		      strcasecmp(key, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0;
	return MHD_YES;
}

static struct counts count_headers(const struct request *r)
{
	struct counts n = { 0 };

	(void)MHD_get_connection_values(r->mhd, MHD_HEADER_KIND, count_value, &n);
	return n;
}

static struct access_claim claim_of(const struct request *r, bool local, size_t n_hosts)
{
	return (struct access_claim){
		.host = request_header(r, MHD_HTTP_HEADER_HOST),
		.origin = request_header(r, MHD_HTTP_HEADER_ORIGIN),
		.fetch_site = request_header(r, "Sec-Fetch-Site"),
		.authorization = request_header(r, MHD_HTTP_HEADER_AUTHORIZATION),
		.cookie = request_header(r, MHD_HTTP_HEADER_COOKIE),
		.local = local,
		.n_hosts = n_hosts,
	};
}

/* Who asks, and by a cookie or not. */
static bool find_right(struct server *sv, struct request *r, const struct access_claim *c,
		       const struct connection *conn)
{
	struct access_tokens tokens;
	bool cookie;

	serve_tokens(sv->serve, &tokens);
	r->right = r->payer.right = access_right(c, &tokens, &cookie);
	(void)memcpy(r->payer.peer, conn->peer, sizeof(conn->peer));
	return cookie;
}

static bool admit_right(struct request *r, const struct access_claim *c, bool cookie)
{
	unsigned int flags = r->route->flags;

	if (!(flags & ROUTE_OPEN) && r->right == ACCESS_NONE) {
		answer_problem(&r->answer, MHD_HTTP_UNAUTHORIZED,
			       "%s; tenure web prints the address with the token",
			       c->authorization || c->cookie ? "this token is not valid here"
							     : "a token is needed");
		answer_header(&r->answer, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
	} else if ((flags & ROUTE_WRITE) && !(flags & ROUTE_OPEN) && r->right != ACCESS_WRITE) {
		answer_problem(&r->answer, MHD_HTTP_FORBIDDEN,
			       "with this token one can look, and change nothing");
	} else if ((flags & ROUTE_WRITE) && !access_origin_allowed(c, cookie)) {
		answer_problem(&r->answer, MHD_HTTP_FORBIDDEN,
			       "a page of another origin must not change anything here");
	}
	return !r->answer.status;
}

/* By its head alone; else r has the answer. */
static bool admit(struct server *sv, struct request *r, const struct connection *conn,
		  const char *method, const char *path)
{
	const char *coding = request_header(r, MHD_HTTP_HEADER_TRANSFER_ENCODING);
	struct counts n = count_headers(r);
	struct access_claim c = claim_of(r, conn->local, n.hosts);
	bool cookie = find_right(sv, r, &c, conn);

	r->secure = c.origin && str_has_prefix(c.origin, "https://");
	/* libmicrohttpd would take what follows as a body without an end. */
	if (coding && strcasecmp(coding, "chunked") != 0) {
		answer_problem(&r->answer, MHD_HTTP_NOT_IMPLEMENTED,
			       "of transfer codings only chunked is known here");
		answer_header(&r->answer, MHD_HTTP_HEADER_CONNECTION, "close");
		return false;
	}
	/* A proxy may see the end of it elsewhere, and what follows as a request of somebody else.
	 */
	if (n.lengths > 1) {
		answer_problem(&r->answer, MHD_HTTP_BAD_REQUEST,
			       "it is said more than once how long the body is");
		answer_header(&r->answer, MHD_HTTP_HEADER_CONNECTION, "close");
		return false;
	}
	if (conn->stranger) {
		answer_problem(&r->answer, MHD_HTTP_FORBIDDEN, "this socket is another user's");
		return false;
	}
	if (!access_host_allowed(&c, &sv->serve->hosts)) {
		answer_problem(&r->answer, MHD_HTTP_MISDIRECTED_REQUEST,
			       "the request is for another host than this one; a name of it is "
			       "allowed by the setting listen_hosts");
		return false;
	}
	if (!may_ask(r))
		return false;
	r->route = webfile_route(path);
	if (!r->route)
		r->route = request_route(r, sv->routes, method, path);
	else if (!request_method_is(method, r->route->method))
		request_refuse_method(r, r->route->method);
	if (!r->route || r->answer.status || !admit_right(r, &c, cookie))
		return false;
	/* A page is opened with whatever stands behind its path. */
	return (!r->route->path[0] && !str_has_prefix(path, "/api/")) || request_queries_known(r);
}

/* ---- the rest of it ---- */

static bool take_body(struct request *r, const char *data, size_t size)
{
	if (r->body.len + size > REQUEST_BODY_MAX) {
		answer_problem(&r->answer, MHD_HTTP_CONTENT_TOO_LARGE,
			       "at most %lu bytes can be sent", REQUEST_BODY_MAX);
		return false;
	}
	strbuf_add(&r->body, data, size);
	return true;
}

static bool too_large(const struct request *r)
{
	const char *text = request_header(r, MHD_HTTP_HEADER_CONTENT_LENGTH);
	uint64_t n;

	return text && (str_to_u64(text, &n) < 0 || n > REQUEST_BODY_MAX);
}

static struct connection *connection_of(struct MHD_Connection *mhd)
{
	return MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

/*
 * Before the parameters of a URL are looked at. libmicrohttpd notes each of them in the memory of
 * the connection, and has none left for an answer where they are many: so the rest are made part of
 * the last one, which is refused with a word (request_queries_known()). The URL is a piece of that
 * memory, which it is about to take apart itself.
 */
static void *on_url(void *cls, const char *url, struct MHD_Connection *mhd)
{
	char *at = strchr((char *)(uintptr_t)url, '?');
	struct request *r = NULL;
	size_t n = 0;

	(void)cls;
	(void)mhd;
	while (at && (at = strchr(at + 1, '&'))) {
		if (++n < QUERIES)
			continue;
		*at = '\001';
		if (!r)
			r = xcalloc(1, sizeof(*r));
		r->many_queries = true;
	}
	return r;
}

/* r: of on_url(), or NULL. */
static struct request *begin(struct server *sv, struct MHD_Connection *mhd, struct request *r,
			     const char *path, const char *method)
{
	r = r ? r : xcalloc(1, sizeof(*r));
	r->serve = sv->serve;
	r->mhd = mhd;
	r->method = method;
	r->path = path;
	if (admit(sv, r, connection_of(mhd), method, path) && too_large(r))
		(void)take_body(r, "", REQUEST_BODY_MAX + 1);
	return r;
}

static enum MHD_Result finish(struct server *sv, struct request *r)
{
	if (!r->answer.status)
		answer_problem(&r->answer, MHD_HTTP_INTERNAL_SERVER_ERROR, "there is no answer");
	r->state = REQUEST_DONE;
	set_state(sv, connection_of(r->mhd),
		  r->answer.stream ? CONNECTION_STREAMING : CONNECTION_WRITING);
	return answer_send(&r->answer, r->mhd);
}

static void work(void *data)
{
	struct request *r = data;
	uint64_t began = budget_thread_ns();

	if (may_ask(r)) /* those before it in the line may have used it all */
		r->route->answer(r->serve, r);
	budget_take(&r->serve->budget, &r->payer, budget_thread_ns() - began);
	budget_served(&r->serve->budget, &r->payer);
	r->state = REQUEST_DONE;
	MHD_resume_connection(r->mhd);
}

/* MHD_YES, and it is put aside; or the answer. */
static enum MHD_Result hand_over(struct server *sv, struct request *r)
{
	struct budget *b = &sv->serve->budget;
	bool may = budget_wait(b, &r->payer);

	r->state = REQUEST_WORKING;
	set_state(sv, connection_of(r->mhd), CONNECTION_WORKING);
	MHD_suspend_connection(r->mhd);
	if (may && workers_do(sv->serve->workers, work, r) == 0)
		return MHD_YES;
	if (may)
		budget_served(b, &r->payer);
	MHD_resume_connection(r->mhd);
	r->state = REQUEST_DONE;
	answer_problem(&r->answer, MHD_HTTP_SERVICE_UNAVAILABLE,
		       "too much waits to be done; try again in a second");
	answer_header(&r->answer, MHD_HTTP_HEADER_RETRY_AFTER, "1");
	return MHD_YES;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *mhd, const char *url,
				  const char *method, const char *version, const char *upload,
				  size_t *upload_size, void **con_cls)
{
	struct listener *l = cls;
	struct server *sv = l->server;
	struct request *r = *con_cls;
	uint64_t began = budget_thread_ns();
	enum MHD_Result done = MHD_YES;

	(void)version;
	if (!r || !r->mhd) {
		r = *con_cls = begin(sv, mhd, r, url, method);
		if (r->answer.status)
			done = finish(sv, r);
	} else if (*upload_size) {
		if (!r->answer.status)
			(void)take_body(r, upload, *upload_size);
		*upload_size = 0;
	} else if (r->state == REQUEST_DONE || r->answer.status) {
		done = finish(sv, r);
	} else if (r->route->flags & ROUTE_SLOW) {
		done = hand_over(sv, r);
	} else {
		r->route->answer(r->serve, r);
		done = finish(sv, r);
	}
	budget_take(&sv->serve->budget, &r->payer, budget_thread_ns() - began);
	return done;
}

static void on_completed(void *cls, struct MHD_Connection *mhd, void **con_cls,
			 enum MHD_RequestTerminationCode why)
{
	struct listener *l = cls;
	struct request *r = *con_cls;

	(void)why;
	if (!r)
		return;
	set_state(l->server, connection_of(mhd), CONNECTION_READING);
	answer_clear(&r->answer);
	strbuf_clear(&r->body);
	free(r);
	*con_cls = NULL;
}

/* A path that ends in the middle of what was sent would be another one: a NUL becomes a byte that
 * no path and no value has. */
static size_t unescape(void *cls, struct MHD_Connection *mhd, char *text)
{
	size_t n = MHD_http_unescape(text);

	(void)cls;
	(void)mhd;
	for (size_t i = 0; i < n; i++)
		if (!text[i])
			text[i] = '\001';
	return n;
}

/* ---- life ---- */

struct server *server_new(struct serve *s, const struct route *routes)
{
	struct server *sv = xcalloc(1, sizeof(*sv));

	sv->serve = s;
	sv->routes = routes;
	budget_begin(&s->budget);
	(void)pthread_mutex_init(&sv->lock, NULL);
	return sv;
}

/* Those that are connected stay. */
static void quiesce(struct server *sv, bool local)
{
	for (size_t i = 0; i < sv->n_listeners; i++)
		if (sv->listeners[i].local == local)
			(void)fd_close(MHD_quiesce_daemon(sv->listeners[i].mhd));
}

int server_listen(struct server *sv, int fd, bool local, struct err *e)
{
	cleanup_fd int own = fd;
	struct listener *l = &sv->listeners[sv->n_listeners];

	if (sv->n_listeners == DAEMONS_MAX)
		return err_set(e, -EMFILE, "the socket was removed too often");
	*l = (struct listener){ .server = sv, .local = local };
	l->mhd = MHD_start_daemon(
		MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC, 0, NULL,
		NULL, on_request, l, MHD_OPTION_LISTEN_SOCKET, own, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned int)SERVER_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, SERVER_SLOW_S,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, HEAD_BYTES, MHD_OPTION_STRICT_FOR_CLIENT, 1,
		MHD_OPTION_NOTIFY_CONNECTION, on_connection, l, MHD_OPTION_NOTIFY_COMPLETED,
		on_completed, l, MHD_OPTION_UNESCAPE_CALLBACK, unescape, NULL,
		MHD_OPTION_URI_LOG_CALLBACK, on_url, NULL, MHD_OPTION_END);
	if (!l->mhd)
		return err_set(e, -EIO, "libmicrohttpd does not start");
	quiesce(sv, local);
	sv->n_listeners++;
	(void)take_fd(own); /* it closes it in the end */
	return 0;
}

struct server *server_free(struct server *sv)
{
	if (!sv)
		return NULL;
	for (size_t i = 0; i < sv->n_listeners; i++)
		MHD_stop_daemon(sv->listeners[i].mhd);
	free(sv);
	return NULL;
}
