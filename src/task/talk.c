/* SPDX-License-Identifier: MIT */
#include "task/talk.h"

#include <errno.h>
#include <string.h>

#include "base/sock.h"
#include "base/str.h"

int talk_recv(int conn, union shmsg *m)
{
	return shmsg_recv(conn, m);
}

int talk_go(int conn, const char *devices, const char *const *env, size_t n_env)
{
	struct shmsg_go m = { .head = SHMSG_HEAD(SHMSG_GO, struct shmsg_go) };

	(void)str_copy(m.devices, sizeof(m.devices), devices ? devices : "");
	for (size_t i = 0; i < n_env; i++) {
		size_t n = strlen(env[i]) + 1;

		if (n > sizeof(m.env) - m.env_bytes)
			return -E2BIG;
		(void)memcpy(m.env + m.env_bytes, env[i], n);
		m.env_bytes += (uint32_t)n;
	}
	return sock_send(conn, &m, sizeof(m));
}

static int send_plain(int conn, uint16_t type)
{
	struct shmsg_plain m = { .head = SHMSG_HEAD(type, struct shmsg_plain) };

	return sock_send(conn, &m, sizeof(m));
}

int talk_cancel(int conn)
{
	return send_plain(conn, SHMSG_CANCEL);
}

int talk_ask(int conn)
{
	return send_plain(conn, SHMSG_ASK);
}

int talk_gpu(int conn, uint64_t peak_bytes, uint32_t util_permille)
{
	struct shmsg_gpu m = { .head = SHMSG_HEAD(SHMSG_GPU, struct shmsg_gpu),
			       .peak_bytes = peak_bytes,
			       .util_permille = util_permille };

	return sock_send(conn, &m, sizeof(m));
}

int talk_adopt(int conn)
{
	int r = talk_ask(conn);

	/* Whatever is said but ASK shows an agent; this changes nothing, also for an older shim. */
	return r < 0 ? r : talk_gpu(conn, 0, 0);
}

int talk_ack(int conn)
{
	return send_plain(conn, SHMSG_ACK);
}

int talk_requeue(int conn, uint32_t grace_ms)
{
	struct shmsg_stop m = { .head = SHMSG_HEAD(SHMSG_STOP, struct shmsg_stop),
				.scope = STOP_TREE,
				.grace_ms = grace_ms,
				.requeue = 1 };

	return sock_send(conn, &m, sizeof(m));
}

int talk_stop(int conn, int signal, enum stop_scope scope, uint32_t grace_ms)
{
	struct shmsg_stop m = { .head = SHMSG_HEAD(SHMSG_STOP, struct shmsg_stop),
				.signal = signal,
				.scope = scope,
				.grace_ms = grace_ms };

	return sock_send(conn, &m, sizeof(m));
}
