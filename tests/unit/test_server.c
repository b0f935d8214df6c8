/* SPDX-License-Identifier: MIT */

/* How long who connects may take: real sockets, and a clock that is moved by hand. */

#include "unit.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "serve/serve.h"
#include "serve/server.h"

#define BODY	(64UL << 20) /* more than all buffers on the way have room for */
#define WAIT_MS 10000

static uint64_t later_ns;

uint64_t __real_clock_mono_ns(void);
uint64_t __wrap_clock_mono_ns(void);
uint64_t __wrap_clock_mono_ns(void)
{
	return __real_clock_mono_ns() + __atomic_load_n(&later_ns, __ATOMIC_RELAXED);
}

static void answer_large(struct serve *s, struct request *r)
{
	(void)s;
	answer_text(&r->answer, MHD_HTTP_OK, ANSWER_JSON, xcalloc(1, BODY), BODY);
}

static const struct route routes[] = { { "GET", "/large", 0, answer_large }, { 0 } };

static struct serve serve;
static struct server *server;
static struct sockaddr_un address = { .sun_family = AF_UNIX };
static socklen_t address_len;

static int begin(void **state)
{
	struct err e = ERR_INIT;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)state;
	(void)str_print(address.sun_path + 1, sizeof(address.sun_path) - 1, "tenure-test/%d",
			(int)getpid());
	address_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
				  strlen(address.sun_path + 1));
	assert_int_equal(bind(fd, (const struct sockaddr *)&address, address_len), 0);
	assert_int_equal(listen(fd, 8), 0);
	(void)pthread_mutex_init(&serve.tokens_lock, NULL);
	text_list_add(&serve.hosts, "localhost");
	server = server_new(&serve, routes);
	assert_int_equal(server_listen(server, fd, true, &e), 0);
	return 0;
}

static int finish(void **state)
{
	(void)state;
	server = server_free(server);
	text_list_clear(&serve.hosts);
	return 0;
}

/* So much later it is looked at who is too slow. */
static void pass_ms(uint64_t ms)
{
	(void)__atomic_fetch_add(&later_ns, ms * NS_PER_MS, __ATOMIC_RELAXED);
	server_pulse(server);
}

static int connect_here(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (const struct sockaddr *)&address, address_len), 0);
	return fd;
}

/* At most so many bytes; less: it has ended. */
static size_t take(int fd, size_t most)
{
	static char buf[1 << 16];
	size_t n = 0;

	while (n < most) {
		size_t want = most - n < sizeof(buf) ? most - n : sizeof(buf);
		struct pollfd p = { .fd = fd, .events = POLLIN };
		ssize_t got = poll(&p, 1, WAIT_MS) > 0 ? read(fd, buf, want) : -1;

		if (got <= 0)
			break;
		n += (size_t)got;
	}
	return n;
}

static void ask(int fd)
{
	static const char head[] = "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n";

	assert_int_equal(write(fd, head, strlen(head)), (ssize_t)strlen(head));
}

static void an_answer_that_nobody_takes_is_cut_off_after_a_minute(void **state)
{
	cleanup_fd int fd = connect_here();
	size_t half = BODY / 2;

	ask(fd);
	assert_int_equal(take(fd, 100), 100);
	pass_ms(SERVER_WRITE_MS - 10000);
	assert_int_equal(take(fd, half), half);
	pass_ms(10000);
	assert_true(take(fd, BODY) < BODY - half - 100);
}

static void one_that_is_taken_in_time_comes_whole(void **state)
{
	cleanup_fd int fd = connect_here();

	for (int i = 0; i < 3; i++) { /* each answer has a minute of its own */
		ask(fd);
		assert_int_equal(take(fd, 100), 100);
		pass_ms(SERVER_WRITE_MS - 10000);
		assert_true(take(fd, BODY) ==
			    BODY); /* the rest, and some of what is behind the head */
		while (recv(fd, (char[4096]){ 0 }, 4096, MSG_DONTWAIT) > 0)
			;
	}
}

static void a_request_that_does_not_come_is_cut_off_after_ten_seconds(void **state)
{
	cleanup_fd int fd = connect_here();
	struct pollfd p = { .fd = fd, .events = POLLIN };

	assert_int_equal(write(fd, "GET /", 5), 5);
	assert_int_equal(poll(&p, 1, 200), 0); /* until it is known to be there */
	pass_ms(SERVER_READ_MS - 5000);
	assert_int_equal(poll(&p, 1, 200), 0);
	pass_ms(5000);
	assert_int_equal(take(fd, 1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_answer_that_nobody_takes_is_cut_off_after_a_minute),
		cmocka_unit_test(one_that_is_taken_in_time_comes_whole),
		cmocka_unit_test(a_request_that_does_not_come_is_cut_off_after_ten_seconds),
	};

	return cmocka_run_group_tests(tests, begin, finish);
}
