/* SPDX-License-Identifier: MIT */

/* What the kernel does to a line whose other side ends. */

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit.h"

#include "base/mem.h"
#include "base/sock.h"

/* Its last words count, whether or not it had read ours. */
static void test_last_words(void **state)
{
	for (int unread = 0; unread < 2; unread++) {
		int pair[2];
		uint32_t word = 0;

		assert_int_equal(
			socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair),
			0);
		assert_int_equal(sock_recv(pair[0], &word, sizeof(word)), -EAGAIN);
		if (unread)
			assert_int_equal(sock_send(pair[0], &(uint32_t){ 1 }, 4), 0);
		assert_int_equal(sock_send(pair[1], &(uint32_t){ 2 }, 4), 0);
		assert_int_equal(sock_send(pair[1], &(uint32_t){ 3 }, 4), 0);
		(void)close(pair[1]);
		assert_int_equal(sock_recv(pair[0], &word, sizeof(word)), 4);
		assert_int_equal(word, 2);
		assert_int_equal(sock_recv(pair[0], &word, sizeof(word)), 4);
		assert_int_equal(word, 3);
		assert_int_equal(sock_recv(pair[0], &word, sizeof(word)), 0);
		assert_int_equal(sock_recv(pair[0], &word, sizeof(word)), 0);
		(void)close(pair[0]);
	}
}

/* Whether or not it had read ours, it is gone to who sends. */
static void test_nobody_to_send_to(void **state)
{
	for (int unread = 0; unread < 2; unread++) {
		int pair[2];

		assert_int_equal(
			socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair),
			0);
		if (unread)
			assert_int_equal(sock_send(pair[0], &(uint32_t){ 1 }, 4), 0);
		(void)close(pair[1]);
		assert_int_equal(sock_send(pair[0], &(uint32_t){ 2 }, 4), -EPIPE);
		assert_int_equal(sock_send(pair[0], &(uint32_t){ 3 }, 4), -EPIPE);
		(void)close(pair[0]);
	}
}

static void test_who_listens(void **state)
{
	struct err e = ERR_INIT;
	char name[64];
	struct ucred who;

	(void)snprintf(name, sizeof(name), "tenure/test/%d", (int)getpid());
	assert_int_equal(sock_listener(name, &who), -ECONNREFUSED);

	int fd = sock_listen(name, &e);

	assert_true(fd >= 0);
	assert_int_equal(sock_listen(name, &e), -EADDRINUSE);
	assert_int_equal(sock_listener(name, &who), 0);
	assert_int_equal(who.uid, geteuid());
	assert_int_equal(who.pid, getpid());
	(void)close(fd);
}

static void test_split_address(void **state)
{
	static const struct {
		const char *where, *host, *port; /* host NULL: it is none */
	} rows[] = {
		{ "127.0.0.1:8470", "127.0.0.1", "8470" },
		{ "8470", "127.0.0.1", "8470" },
		{ ":0", "127.0.0.1", "0" },
		{ "[::1]:65535", "::1", "65535" },
		{ "gpus.lab:080", "gpus.lab", "80" },
		{ "", NULL, NULL },
		{ "none", NULL, NULL },
		{ "127.0.0.1:", NULL, NULL },
		{ "127.0.0.1:65536", NULL, NULL },
		{ "127.0.0.1:-1", NULL, NULL },
		{ "::1:80", NULL, NULL },
		{ "[]:80", NULL, NULL },
	};
	char host[SOCK_HOST_MAX], port[SOCK_PORT_MAX];
	char longest[SOCK_HOST_MAX + 8];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(sock_split_address(rows[i].where, host, port), !!rows[i].host);
		if (rows[i].host) {
			assert_string_equal(host, rows[i].host);
			assert_string_equal(port, rows[i].port);
		}
	}
	(void)memset(longest, 'a', sizeof(longest));
	(void)memcpy(longest + SOCK_HOST_MAX, ":1", 3);
	assert_false(sock_split_address(longest, host, port));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_split_address),
		cmocka_unit_test(test_last_words),
		cmocka_unit_test(test_nobody_to_send_to),
		cmocka_unit_test(test_who_listens),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
