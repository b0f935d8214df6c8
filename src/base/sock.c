/* SPDX-License-Identifier: MIT */
#include "base/sock.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"

bool sock_split_address(const char *where, char host[SOCK_HOST_MAX], char port[SOCK_PORT_MAX])
{
	const char *colon = strrchr(where, ':');
	const char *number = colon ? colon + 1 : where;
	size_t n = colon ? (size_t)(colon - where) : 0;
	bool bracket = n >= 2 && where[0] == '[' && where[n - 1] == ']';
	uint64_t value;

	if (str_to_u64(number, &value) < 0 || value > UINT16_MAX || n >= SOCK_HOST_MAX)
		return false;
	(void)str_print(port, SOCK_PORT_MAX, "%u", (unsigned int)value);
	(void)str_copy(host, SOCK_HOST_MAX, "127.0.0.1");
	if (bracket)
		(void)str_copy(host, n - 1, where + 1);
	else if (n)
		(void)str_copy(host, n + 1, where);
	return host[0] && (bracket || !strchr(host, ':'));
}

/* A new socket, and the abstract name as its address. */
static int new_socket(const char *name, struct sockaddr_un *sa, socklen_t *len, struct err *e)
{
	size_t n = strlen(name);

	if (n + 1 > sizeof(sa->sun_path))
		return err_set(e, -ENAMETOOLONG, "socket name @%s is too long", name);
	*sa = (struct sockaddr_un){ .sun_family = AF_UNIX };
	(void)memcpy(sa->sun_path + 1, name, n);
	*len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);

	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return fd < 0 ? err_sys(e, errno, "socket") : fd;
}

static int sock_bind(const char *name, struct err *e)
{
	struct sockaddr_un sa;
	socklen_t len;
	cleanup_fd int fd = new_socket(name, &sa, &len, e);

	if (fd >= 0 && bind(fd, (struct sockaddr *)&sa, len) < 0)
		return err_sys(e, errno, "bind @%s", name);
	return take_fd(fd);
}

int sock_listen(const char *name, struct err *e)
{
	cleanup_fd int fd = sock_bind(name, e);

	if (fd >= 0 && listen(fd, SOCK_BACKLOG) < 0)
		return err_sys(e, errno, "listen on @%s", name);
	return take_fd(fd);
}

static int peer_is_us(int fd, pid_t *ret_pid)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return -errno;
	if (cred.uid != geteuid())
		return -EPERM;
	if (ret_pid)
		*ret_pid = cred.pid;
	return 0;
}

int sock_connect(const char *name, struct err *e)
{
	struct sockaddr_un sa;
	socklen_t len;
	cleanup_fd int fd = new_socket(name, &sa, &len, e);

	if (fd < 0)
		return take_fd(fd);
	if (connect(fd, (struct sockaddr *)&sa, len) < 0)
		return err_sys(e, errno, "connect to @%s", name);

	int r = peer_is_us(fd, NULL);

	return r < 0 ? err_set(e, r, "@%s belongs to another user", name) : take_fd(fd);
}

int sock_listener(const char *name, struct ucred *ret)
{
	struct sockaddr_un sa;
	struct ucred cred;
	socklen_t len, cred_len = sizeof(cred);
	cleanup_fd int fd = new_socket(name, &sa, &len, NULL);

	if (fd < 0)
		return fd;
	if (connect(fd, (struct sockaddr *)&sa, len) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &cred_len) < 0)
		return -errno;
	*ret = cred;
	return 0;
}

int sock_accept(int listen_fd, pid_t *ret_pid)
{
	cleanup_fd int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return -errno;

	int r = peer_is_us(fd, ret_pid);

	return r < 0 ? r : take_fd(fd);
}

int sock_send(int fd, const void *buf, size_t size)
{
	ssize_t n;

	do
		n = send(fd, buf, size, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n >= 0)
		return 0;
	/* It is told so of a side that ended with messages of ours unread. */
	return errno == ENOBUFS ? -EAGAIN : errno == ECONNRESET ? -EPIPE : -errno;
}

bool sock_has_room(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };

	return poll(&p, 1, 0) > 0;
}

ssize_t sock_recv(int fd, void *buf, size_t size)
{
	bool reset = false;
	ssize_t n;

	/*
	 * A side that ends with messages of ours unread resets the line, and the kernel tells that
	 * before what it had sent. It tells it once, so the next call has the message.
	 */
	for (;;) {
		n = recv(fd, buf, size, MSG_DONTWAIT | MSG_TRUNC);
		if (n < 0 && errno == ECONNRESET && !reset)
			reset = true;
		else if (n >= 0 || errno != EINTR)
			break;
	}
	if (n < 0)
		return reset || errno == ECONNRESET ? 0 : -errno;
	return (size_t)n > size ? -EMSGSIZE : n;
}
