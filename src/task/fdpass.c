/* SPDX-License-Identifier: MIT */
#include "task/fdpass.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
	struct cmsghdr head;
	char room[CMSG_SPACE(FDPASS_MAX * sizeof(int))];
};

int fdpass_send(int sock, const void *buf, size_t size, const int *fds, size_t n_fds)
{
	union control control = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)buf, .iov_len = size };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = CMSG_SPACE(n_fds * sizeof(int)) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	ssize_t n;

	if (n_fds > FDPASS_MAX)
		return -EINVAL;
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
	if (n_fds)
		(void)memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
	do
		n = sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == ECONNRESET) /* it ended, and had not read all */
		return -EPIPE;
	if (n < 0)
		return errno == ENOBUFS || errno == ETOOMANYREFS ? -EAGAIN : -errno;
	return 0;
}

/* How many came; those for which there is no room are closed. */
static size_t take_fds(struct msghdr *msg, int *fds, size_t room)
{
	size_t came = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;

		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		for (size_t i = 0; i < n; i++) {
			int fd;

			(void)memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (came < room)
				fds[came] = fd;
			else
				(void)close(fd);
			came++;
		}
	}
	return came;
}

ssize_t fdpass_recv(int sock, void *buf, size_t size, int *fds, size_t n_fds)
{
	union control control;
	struct iovec iov = { .iov_base = buf, .iov_len = size };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	ssize_t n;

	do
		n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == ECONNRESET ? 0 : -errno;

	size_t came = take_fds(&msg, fds, n_fds);

	if (n > 0 && came == n_fds && !(msg.msg_flags & (MSG_CTRUNC | MSG_TRUNC)))
		return n;
	for (size_t i = 0; i < came && i < n_fds; i++)
		(void)close(fds[i]);
	return n > 0 ? -EPROTO : 0;
}
