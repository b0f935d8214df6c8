/* SPDX-License-Identifier: MIT */

/*
 * How long who connects may take: real sockets, and a clock that stands still unless the test moves
 * it. So each limit holds to the nanosecond, and it is seen at once who is cut off: what shutdown()
 * does to a Unix socket is there at its other end when it returns. libmicrohttpd has a limit of its
 * own, by a clock of its own (SERVER_SLOW_S), which nothing here comes near.
 */

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

#define BODY	 (64UL << 20) /* more than all buffers on the way have room for */
#define WAIT_MS	 60000	      /* for what has to come: a server that says nothing more hangs */
#define READ_NS	 (SERVER_READ_MS * NS_PER_MS)
#define WRITE_NS (SERVER_WRITE_MS * NS_PER_MS)

static uint64_t now_ns = NS_PER_S;

uint64_t __wrap_clock_mono_ns(void);
uint64_t __wrap_clock_mono_ns(void)
{
	return __atomic_load_n(&now_ns, __ATOMIC_RELAXED); /* the server's thread asks, too */
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
static void pass_ns(uint64_t ns)
{
	(void)__atomic_fetch_add(&now_ns, ns, __ATOMIC_RELAXED);
	server_pulse(server);
}

static int connect_here(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (const struct sockaddr *)&address, address_len), 0);
	return fd;
}

/* What has come before can be read all the same. */
static bool is_cut_off(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };

	return poll(&p, 1, 0) > 0;
}

/* What comes next; 0 or negative: it has ended. */
static ssize_t take_some(int fd, char *buf, size_t most)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	assert_int_equal(poll(&p, 1, WAIT_MS), 1); /* that nothing comes is no end */
	return read(fd, buf, most);
}

/* At most so many bytes; less: it has ended. */
static size_t take(int fd, size_t most)
{
	static char buf[1 << 16];
	size_t n = 0;

	while (n < most) {
		size_t want = most - n < sizeof(buf) ? most - n : sizeof(buf);
		ssize_t got = take_some(fd, buf, want);

		if (got <= 0)
			break;
		n += (size_t)got;
	}
	return n;
}

/* Of an answer, with the empty line behind it and nothing more. */
static void take_head(int fd)
{
	static const char end[] = "\r\n\r\n";
	size_t n = 0;

	while (end[n]) {
		char c = 0;

		assert_int_equal(take_some(fd, &c, 1), 1);
		if (c != end[n])
			n = 0;
		n += c == end[n];
	}
}

static void ask(int fd, const char *path)
{
	char head[100];

	(void)str_print(head, sizeof(head), "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
	assert_int_equal(write(fd, head, strlen(head)), (ssize_t)strlen(head));
}

/* One thread serves all, and accepts them in their order: when this one has its answer, those that
 * came before are known. */
static void settle(void)
{
	cleanup_fd int fd = connect_here();

	ask(fd, "/none");
	take_head(fd);
}

static void an_answer_that_nobody_takes_is_cut_off_after_a_minute(void **state)
{
	cleanup_fd int fd = connect_here();
	size_t half = BODY / 2;

	ask(fd, "/large");
	take_head(fd); /* its minute has begun */
	pass_ns(WRITE_NS - 1);
	assert_false(is_cut_off(fd));
	assert_int_equal(take(fd, half), half);
	pass_ns(1);
	assert_true(is_cut_off(fd));
	assert_true(take(fd, BODY) < BODY - half);
}

static void one_that_is_taken_in_time_comes_whole(void **state)
{
	cleanup_fd int fd = connect_here();

	for (int i = 0; i < 3; i++) { /* each answer has a minute of its own */
		ask(fd, "/large");
		take_head(fd);
		pass_ns(WRITE_NS - 1);
		assert_int_equal(take(fd, BODY), BODY);
	}
}

static void a_request_that_does_not_come_is_cut_off_after_ten_seconds(void **state)
{
	cleanup_fd int fd = connect_here();

	assert_int_equal(write(fd, "GET /", 5), 5);
	settle();
	pass_ns(READ_NS - 1);
	assert_false(is_cut_off(fd));
	pass_ns(1);
	assert_true(is_cut_off(fd));
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
