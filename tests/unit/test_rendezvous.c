/* SPDX-License-Identifier: MIT */

/* Where the ranks of a program on several nodes meet. */

#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "agent/attempt/rendezvous.h"
#include "base/mem.h"

static int bind_to(unsigned int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return fd_close(fd);
	return fd;
}

/* Two ports beside each other that are free now. */
static unsigned int free_pair(int fds[2])
{
	for (unsigned int port = 31000; port < 32000; port += 2) {
		fds[0] = bind_to(port);
		fds[1] = bind_to(port + 1);
		if (fds[0] >= 0 && fds[1] >= 0)
			return port;
		fds[0] = fd_close(fds[0]);
		fds[1] = fd_close(fds[1]);
	}
	return 0;
}

/* Of a pair the other one; of none that are free none; and what is taken stays so until it is let
 * go of. */
static void a_port_that_is_taken_is_passed_over(void **state)
{
	int fds[2], fd = -1, again = -1;
	unsigned int port = free_pair(fds);
	const struct port_range pair = { port, port + 1 }, none = { 0, 0 };

	assert_true(port > 0);
	assert_int_equal(rendezvous_take_port(&pair, &none, &fd), -EADDRINUSE);
	fds[1] = fd_close(fds[1]);
	assert_int_equal(rendezvous_take_port(&pair, &none, &fd), port + 1);
	assert_int_equal(bind_to(port + 1), -1);
	assert_int_equal(rendezvous_take_port(&pair, &none, &again), -EADDRINUSE);
	fd = fd_close(fd);
	assert_int_equal(rendezvous_take_port(&pair, &none, &again), port + 1);
	(void)fd_close(again);
	(void)fd_close(fds[0]);
}

/* Those that the kernel gives to connections are taken last. */
static void some_ports_are_taken_last(void **state)
{
	int fds[2], fd = -1;
	unsigned int port = free_pair(fds);
	const struct port_range pair = { port, port + 1 }, first = { port, port }, both = pair;

	assert_true(port > 0);
	fds[0] = fd_close(fds[0]);
	fds[1] = fd_close(fds[1]);
	for (int i = 0; i < 16; i++) { /* it is a matter of chance else */
		assert_int_equal(rendezvous_take_port(&pair, &first, &fd), port + 1);
		fd = fd_close(fd);
	}
	fds[1] = bind_to(port + 1);
	assert_int_equal(rendezvous_take_port(&pair, &first, &fd), port);
	fd = fd_close(fd);
	assert_int_equal(rendezvous_take_port(&pair, &both, &fd), port);
	fd = fd_close(fd);
	fds[1] = fd_close(fds[1]);
}

static void the_kernel_says_which_it_gives(void **state)
{
	struct port_range r = rendezvous_kernels_ports();

	assert_true(r.first > 0 && r.first <= r.last && r.last <= 65535);
}

static void who_listens_has_the_port(void **state)
{
	int fds[2];
	unsigned int port = free_pair(fds);

	assert_int_equal(listen(fds[0], 1), 0);
	assert_true(rendezvous_is_taken(port));
	fds[1] = fd_close(fds[1]);
	assert_false(rendezvous_is_taken(port + 1));
	(void)fd_close(fds[0]);
}

static void what_a_rank_is_told(void **state)
{
	static const char *const expect[] = {
		"MASTER_ADDR=10.0.0.1",
		"MASTER_PORT=23456",
		"NNODES=2",
		"NODE_RANK=1",
		"WORLD_SIZE=16",
		"PET_NNODES=2",
		"PET_NODE_RANK=1",
		"PET_MASTER_ADDR=10.0.0.1",
		"PET_MASTER_PORT=23456",
		"PET_NPROC_PER_NODE=8",
	};
	struct rank_place p = {
		.nodes = 2, .rank = 1, .gpus = 8, .address = "10.0.0.1", .port = 23456
	};
	struct text_list env = { .n = 0 };

	rank_env(&p, &env);
	assert_int_equal(env.n, ARRAY_LEN(expect));
	for (size_t i = 0; i < env.n; i++)
		assert_string_equal(env.texts[i], expect[i]);
	text_list_clear(&env);
	p.gpus = 0; /* one process on each node */
	rank_env(&p, &env);
	assert_true(text_list_has(&env, "WORLD_SIZE=2"));
	assert_true(text_list_has(&env, "PET_NPROC_PER_NODE=1"));
	text_list_clear(&env);
}

static void an_address_is_one_that_others_can_use(void **state)
{
	char address[RENDEZVOUS_ADDRESS_MAX], of_lo[RENDEZVOUS_ADDRESS_MAX];
	struct in6_addr a;

	assert_string_equal(rendezvous_address("node7-ib.example", address), "node7-ib.example");
	assert_string_equal(rendezvous_address("lo", of_lo), "127.0.0.1");
	(void)rendezvous_address(NULL, address);
	assert_true(inet_pton(AF_INET, address, &a) == 1 || inet_pton(AF_INET6, address, &a) == 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_port_that_is_taken_is_passed_over),
		cmocka_unit_test(some_ports_are_taken_last),
		cmocka_unit_test(the_kernel_says_which_it_gives),
		cmocka_unit_test(who_listens_has_the_port),
		cmocka_unit_test(what_a_rank_is_told),
		cmocka_unit_test(an_address_is_one_that_others_can_use),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
