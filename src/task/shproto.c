/* SPDX-License-Identifier: MIT */
#include "task/shproto.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/enumstr.h"
#include "base/mem.h"
#include "base/sock.h"
#include "base/str.h"

/* What version 1 began with: less than this was never sent. */
struct shape {
	uint32_t least;
	uint32_t size;
};

#define UNKNOWN_MOST 64 /* messages of types that are not known, at a time */

#define SHAPE(struct_)                                                                             \
	{                                                                                          \
		sizeof(struct_), sizeof(struct_)                                                   \
	}
/* One that has grown: member_ is the first that was added. */
#define GROWN(struct_, member_)                                                                    \
	{                                                                                          \
		offsetof(struct_, member_), sizeof(struct_)                                        \
	}

static const struct shape shapes[SHMSG_TYPE_MAX] = {
	[SHMSG_START] = SHAPE(struct shmsg_plain),
	[SHMSG_PREPARED] = SHAPE(struct shmsg_status),
	[SHMSG_GO] = SHAPE(struct shmsg_go),
	[SHMSG_CANCEL] = SHAPE(struct shmsg_plain),
	[SHMSG_STARTED] = SHAPE(struct shmsg_status),
	[SHMSG_STOP] = SHAPE(struct shmsg_stop),
	[SHMSG_ENDED] = GROWN(struct shmsg_ended, end.leader_first),
	[SHMSG_ACK] = SHAPE(struct shmsg_plain),
	[SHMSG_ASK] = SHAPE(struct shmsg_plain),
	[SHMSG_STATUS] = SHAPE(struct shmsg_status),
	[SHMSG_GPU] = SHAPE(struct shmsg_gpu),
	[SHMSG_LOG] = SHAPE(struct shmsg_plain),
};

static void terminate(union shmsg *m)
{
	switch (m->head.type) {
	case SHMSG_PREPARED:
	case SHMSG_STARTED:
	case SHMSG_STATUS:
		m->status.boot_id[BOOT_ID_MAX - 1] = '\0';
		m->status.token[TASK_TOKEN_MAX - 1] = '\0';
		break;
	case SHMSG_GO:
		m->go.devices[SHPROTO_DEV_MAX - 1] = '\0';
		m->go.env[SHPROTO_ENV_MAX - 1] = '\0';
		break;
	case SHMSG_ENDED:
		m->ended.end.text[TASK_TEXT_MAX - 1] = '\0';
		break;
	default:
		break;
	}
}

int shmsg_take(union shmsg *m, size_t n)
{
	if (n < sizeof(m->head) || m->head.size != n)
		return -EPROTO;
	if (m->head.version != SHPROTO_VERSION)
		return -EPROTONOSUPPORT;
	if (m->head.type == 0)
		return -EPROTO;
	if (m->head.type >= SHMSG_TYPE_MAX)
		return -ENOMSG;

	const struct shape *s = &shapes[m->head.type];

	if (n < s->least)
		return -EPROTO;
	if (n < s->size)
		(void)memset((char *)m + n, 0, s->size - n);
	if (m->head.type == SHMSG_GO && m->go.env_bytes > SHPROTO_ENV_MAX)
		return -EPROTO;
	terminate(m);
	return 0;
}

int shmsg_recv(int fd, union shmsg *m)
{
	/*
	 * A side that closes with something unread resets the connection, and the kernel tells that
	 * before it gives what the side had said; told once, it goes on.
	 */
	bool reset = false;

	for (int i = 0; i < UNKNOWN_MOST; i++) {
		ssize_t n = sock_recv(fd, m, sizeof(*m));

		if (n == 0 && !reset) {
			reset = true;
			continue;
		}
		if (n <= 0)
			return (int)n;

		int r = shmsg_take(m, (size_t)n);

		if (r == 0)
			return m->head.type;
		if (r != -ENOMSG)
			return r;
	}
	return -EAGAIN;
}

void shmsg_close(int fd)
{
	union shmsg m;

	/* Nothing more comes in after this; what is there is read, so that there is no reset. */
	(void)shutdown(fd, SHUT_RD);
	while (sock_recv(fd, &m, sizeof(m)) > 0)
		continue;
	(void)fd_close(fd);
}

char *shim_socket_name(char *buf, const char *token)
{
	return str_print(buf, SHPROTO_NAME_MAX, SHIM_NAME_PREFIX "%s", token);
}

static const char *const state_names[] = {
	[SHIM_PREPARED] = "prepared", [SHIM_RUNNING] = "running", [SHIM_TRAILING] = "trailing",
	[SHIM_STOPPING] = "stopping", [SHIM_KILLING] = "killing", [SHIM_ENDED] = "ended",
	[SHIM_STARTING] = "starting",
};
_Static_assert(ARRAY_LEN(state_names) == SHIM_STATE_MAX, "a name for every state");

const char *shim_state_name(uint32_t state)
{
	return enum_name(state_names, ARRAY_LEN(state_names), state);
}
