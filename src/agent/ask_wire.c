/* SPDX-License-Identifier: MIT */
#include "agent/ask_wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/sock.h"
#include "base/str.h"
#include "base/utf8.h"
#include "hold/endpoint_names.h"

#define CALL_MS	   1000
#define CONNECT_MS 300 /* where so many wait that there is no room */
#define NAMES_MOST 1024
#define LINE_MOST  512

bool ask_is_request(struct ask_request *req, ssize_t n)
{
	if (n != sizeof(*req) || req->magic != ASK_MAGIC || req->version != ASK_VERSION ||
	    !req->kind || req->kind >= ASK_KIND_MAX)
		return false;
	if (!memchr(req->uuid, 0, sizeof(req->uuid)) ||
	    strnlen(req->message, sizeof(req->message)) > ASK_MESSAGE_MAX)
		return false;
	(void)utf8_clean(req->uuid);
	(void)utf8_clean(req->message);
	return true;
}

int ask_listen(const char *dev_dir, struct err *e)
{
	char name[SOCKET_NAME_MAX];
	int fd = -EADDRINUSE;

	for (unsigned int i = 0; i < ASK_NAMES_MAX && fd == -EADDRINUSE; i++) {
		*e = (struct err)ERR_INIT;
		fd = sock_listen(ask_socket_name(name, sizeof(name), geteuid(), dev_dir, i), e);
	}
	return fd;
}

int ask_accept(int listen_fd, struct ucred *ret)
{
	cleanup_fd int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	socklen_t len = sizeof(*ret);

	if (fd < 0)
		return -errno;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret, &len) < 0)
		return -ECONNABORTED;
	return take_fd(fd);
}

/* ---- who asks ---- */

uid_t ask_name_uid(const char *name)
{
	char number[16];
	uint64_t uid;

	if (!str_has_prefix(name, ASK_SOCKET_BEGIN))
		return ASK_ANYBODY;
	name += strlen(ASK_SOCKET_BEGIN);
	(void)str_print(number, sizeof(number), "%.*s", (int)strcspn(name, "/"), name);
	return str_to_u64(number, &uid) < 0 || uid >= UINT32_MAX ? ASK_ANYBODY : (uid_t)uid;
}

/* A name that we would give. */
static bool is_name(const char *name, const char *dev_dir, uid_t uid)
{
	uid_t its = ask_name_uid(name);
	char ours[SOCKET_NAME_MAX];

	if (its == ASK_ANYBODY || (uid != ASK_ANYBODY && its != uid))
		return false;
	for (unsigned int i = 0; i < ASK_NAMES_MAX; i++)
		if (!strcmp(name, ask_socket_name(ours, sizeof(ours), its, dev_dir, i)))
			return true;
	return false;
}

void ask_names(const char *dev_dir, uid_t uid, struct text_list *ret)
{
	FILE *f = fopen("/proc/net/unix", "re");
	char line[LINE_MOST];

	while (f && ret->n < NAMES_MOST && fgets(line, sizeof(line), f)) {
		char *at = strstr(line, " @" ASK_SOCKET_BEGIN);
		unsigned int flags = 0;

		/* Listening ones only: a connection has its listener's name. */
		if (!at || sscanf(line, "%*s %*s %*s %x", &flags) != 1 || !(flags & 0x10000))
			continue;
		at += 2;
		at[strcspn(at, "\n")] = '\0';
		if (is_name(at, dev_dir, uid))
			text_list_add(ret, at);
	}
	if (f)
		(void)fclose(f);
}

/* In the queue of who waits, where there is one. */
static int connect_to(const char *name, struct ucred *ret)
{
	const struct timeval limit = { .tv_usec = CONNECT_MS * 1000 };
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	socklen_t len = sizeof(*ret);
	size_t n = strlen(name);
	cleanup_fd int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (n + 1 > sizeof(sa.sun_path))
		return -ENAMETOOLONG;
	(void)memcpy(sa.sun_path + 1, name, n);
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (connect(fd, (const struct sockaddr *)&sa,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n)) < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret, &len) < 0 ||
	    fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	return take_fd(fd);
}

static int receive(int fd, json_t **ret)
{
	uint64_t until = clock_mono_ns() + CALL_MS * NS_PER_MS;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	cleanup_free char *text = xmalloc(ASK_ANSWER_MAX);
	ssize_t n = -EAGAIN;

	while (n == -EAGAIN && clock_mono_ns() < until) {
		(void)poll(&p, 1, CALL_MS / 10);
		n = sock_recv(fd, text, ASK_ANSWER_MAX);
	}
	if (n == 0 || n == -EAGAIN)
		return -EAGAIN; /* dropped: too many ask */
	if (n < 0)
		return (int)n;
	*ret = json_loadb(text, (size_t)n, 0, NULL);
	if (!json_is_object(*ret)) {
		json_decref(*ret);
		*ret = NULL;
		return -EPROTO;
	}
	return 0;
}

int ask_call(const char *name, const struct ask_request *req, json_t **ret, uid_t *ret_squatter)
{
	struct ucred who;
	cleanup_fd int fd = connect_to(name, &who);
	int r;

	if (fd < 0)
		return fd;
	if (who.uid != ask_name_uid(name)) {
		*ret_squatter = who.uid;
		return -EPERM;
	}
	r = sock_send(fd, req, sizeof(*req));
	/* One that was dropped may have been told why. */
	return r < 0 && r != -EPIPE ? r : receive(fd, ret);
}
