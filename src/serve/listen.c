/* SPDX-License-Identifier: MIT */
#include "serve/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/sock.h"
#include "base/str.h"

#define SUFFIX	".http"
#define BACKLOG 1024 /* who comes while it is full tries again after a second */

/* ---- the Unix socket ---- */

static char *file_of(const struct listen_unix *l, char file[ENDPOINT_FILE_MAX + 8])
{
	return str_print(file, ENDPOINT_FILE_MAX + 8, "%s" SUFFIX, l->ep.file);
}

static bool is_there(const struct listen_unix *l)
{
	char file[ENDPOINT_FILE_MAX + 8];
	struct stat st;

	return fstatat(l->ep.dir.fd, file_of(l, file), &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       st.st_dev == l->id.dev && st.st_ino == l->id.ino;
}

/* We have the name, so what is there is left over. An address has room for 107 bytes, so it goes
 * through the directory's descriptor. */
static int open_socket(struct listen_unix *l, int *ret_fd, struct err *e)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	char file[ENDPOINT_FILE_MAX + 8];
	cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct stat st;

	(void)file_of(l, file);
	(void)str_print(l->path, sizeof(l->path), "%s/%s", l->ep.dir.path, file);
	(void)str_print(sa.sun_path, sizeof(sa.sun_path), "/proc/self/fd/%d/%s", l->ep.dir.fd,
			file);
	(void)unlinkat(l->ep.dir.fd, file, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 || listen(fd, BACKLOG) < 0 ||
	    fchmodat(l->ep.dir.fd, file, 0600, 0) < 0 ||
	    fstatat(l->ep.dir.fd, file, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, errno, "listen on %s", l->path);
	l->id = (struct endpoint_file){ .dev = st.st_dev, .ino = st.st_ino };
	*ret_fd = take_fd(fd);
	return 0;
}

int listen_unix_open(struct listen_unix *l, const char *name, int *ret_fd, struct err *e)
{
	int r = endpoint_open(&l->ep, name, e);

	if (r == 0)
		r = open_socket(l, ret_fd, e);
	if (r < 0)
		endpoint_close(&l->ep);
	return r;
}

int listen_unix_check(struct listen_unix *l, int *ret_fd, struct err *e)
{
	int r = endpoint_check(&l->ep, e);

	if (r < 0 || (r == 0 && is_there(l)))
		return r;
	r = open_socket(l, ret_fd, e);
	return r < 0 ? r : 1;
}

void listen_unix_close(struct listen_unix *l)
{
	char file[ENDPOINT_FILE_MAX + 8];

	if (is_there(l))
		(void)unlinkat(l->ep.dir.fd, file_of(l, file), 0);
	endpoint_close(&l->ep);
}

void listen_unix_tell(struct listen_unix *l, const char *text)
{
	for (;;) {
		cleanup_fd int fd = sock_accept(l->ep.fd, NULL);

		if (fd == -EPERM)
			continue;
		if (fd < 0)
			return;
		(void)sock_send(fd, text, strlen(text));
	}
}

/* ---- the port ---- */

static bool is_loopback(const struct sockaddr *sa)
{
	if (sa->sa_family == AF_INET6) {
		struct sockaddr_in6 in6;

		memcpy(&in6, sa, sizeof(in6));
		return IN6_IS_ADDR_LOOPBACK(&in6.sin6_addr);
	}

	struct sockaddr_in in;

	memcpy(&in, sa, sizeof(in));
	return ntohl(in.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

/* All addresses of the machine. */
static bool is_any(const struct sockaddr *sa)
{
	if (sa->sa_family == AF_INET6) {
		struct sockaddr_in6 in6;

		memcpy(&in6, sa, sizeof(in6));
		return IN6_IS_ADDR_UNSPECIFIED(&in6.sin6_addr);
	}

	struct sockaddr_in in;

	memcpy(&in, sa, sizeof(in));
	return in.sin_addr.s_addr == htonl(INADDR_ANY);
}

static void add_own_name(struct text_list *hosts)
{
	char name[HOST_NAME_MAX + 1] = "";

	if (gethostname(name, sizeof(name) - 1) == 0 && name[0])
		text_list_add(hosts, name);
}

static int bind_one(const struct addrinfo *ai, int *ret_fd)
{
	cleanup_fd int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int on = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(fd, ai->ai_addr, ai->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0)
		return -errno;
	*ret_fd = take_fd(fd);
	return 0;
}

/* The address that it has got, whose port may have been left to the kernel. */
static char *address_of(int fd, const char *host)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	char port[NI_MAXSERV] = "";

	(void)getsockname(fd, (struct sockaddr *)&sa, &len);
	(void)getnameinfo((struct sockaddr *)&sa, len, NULL, 0, port, sizeof(port), NI_NUMERICSERV);
	return xasprintf("%s:%s", host, port);
}

int listen_tcp(const char *where, int *ret_fd, char **ret_address, struct text_list *hosts,
	       bool *ret_open, struct err *e)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
	char host[SOCK_HOST_MAX], port[SOCK_PORT_MAX];
	struct addrinfo *list = NULL;
	bool any, six;
	int r;

	if (!sock_split_address(where, host, port))
		return err_set(e, -EINVAL,
			       "\"%s\" is no address to listen on; write it like 127.0.0.1:8470",
			       where);
	r = getaddrinfo(host, port, &hints, &list);
	if (r != 0)
		return err_set(e, -EINVAL, "cannot listen on %s: %s", where, gai_strerror(r));
	r = bind_one(list, ret_fd);
	*ret_open = !is_loopback(list->ai_addr);
	any = is_any(list->ai_addr);
	six = list->ai_family == AF_INET6;
	freeaddrinfo(list);
	if (r < 0)
		return err_sys(e, -r, "cannot listen on %s", where);

	cleanup_free char *shown = any ? xstrdup(six ? "[::1]" : "127.0.0.1")
				       : xasprintf(strchr(host, ':') ? "[%s]" : "%s", host);

	if (any)
		add_own_name(hosts);
	text_list_add(hosts, shown);
	*ret_address = address_of(*ret_fd, shown);
	return 0;
}
