/* SPDX-License-Identifier: MIT */

/* Descriptors over a socket: as many as are expected, or none that stays open. */

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "task/fdpass.h"

static int pair[2];

static int setup(void **state)
{
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair);
}

static int teardown(void **state)
{
	(void)close(pair[0]);
	(void)close(pair[1]);
	return 0;
}

/* The next descriptor that would be opened: none was left open if it stays the same. */
static int next_fd(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	(void)close(fd);
	return fd;
}

static void what_is_sent_arrives_with_its_files(void **state)
{
	int pipe_fds[2], got[2] = { -1, -1 };
	char buf[10], c = 0;

	assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
	assert_int_equal(fdpass_send(pair[0], "hello", 5, pipe_fds, 2), 0);
	assert_int_equal(fdpass_recv(pair[1], buf, sizeof(buf), got, 2), 5);
	assert_memory_equal(buf, "hello", 5);
	/* They are the same files, and are not inherited. */
	assert_int_equal(write(got[1], "x", 1), 1);
	assert_int_equal(read(pipe_fds[0], &c, 1), 1);
	assert_int_equal(c, 'x');
	for (int i = 0; i < 2; i++) {
		assert_true(fcntl(got[i], F_GETFD) & FD_CLOEXEC);
		(void)close(got[i]);
		(void)close(pipe_fds[i]);
	}
}

static void a_message_may_have_none(void **state)
{
	char buf[10];

	assert_int_equal(fdpass_send(pair[0], "x", 1, NULL, 0), 0);
	assert_int_equal(fdpass_recv(pair[1], buf, sizeof(buf), NULL, 0), 1);
}

static void another_number_of_files_is_refused_and_they_are_closed(void **state)
{
	const int fds[FDPASS_MAX] = { 0, 0, 0, 0 };
	int got[FDPASS_MAX], free_fd = next_fd();
	char buf[10];

	for (size_t sent = 0; sent <= FDPASS_MAX; sent++)
		for (size_t wanted = 0; wanted <= 2; wanted++) {
			if (sent == wanted)
				continue;
			assert_int_equal(fdpass_send(pair[0], "x", 1, fds, sent), 0);
			assert_int_equal(fdpass_recv(pair[1], buf, sizeof(buf), got, wanted),
					 -EPROTO);
			assert_int_equal(next_fd(), free_fd);
		}
}

static void a_message_that_is_too_long_is_refused(void **state)
{
	const int fd = 0;
	int got, free_fd = next_fd();
	char buf[4];

	assert_int_equal(fdpass_send(pair[0], "hello", 5, &fd, 1), 0);
	assert_int_equal(fdpass_recv(pair[1], buf, sizeof(buf), &got, 1), -EPROTO);
	assert_int_equal(next_fd(), free_fd);
}

static void the_other_side_is_gone(void **state)
{
	char buf[4];

	(void)close(pair[0]);
	assert_int_equal(fdpass_recv(pair[1], buf, sizeof(buf), NULL, 0), 0);
	assert_int_equal(fdpass_send(pair[1], "x", 1, NULL, 0), -EPIPE);
	pair[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Nobody waits for who does not read. */
static void a_slow_reader_is_told_of(void **state)
{
	char data[1024] = { 0 };
	int r = 0;

	for (int i = 0; i < 100000 && r == 0; i++)
		r = fdpass_send(pair[0], data, sizeof(data), NULL, 0);
	assert_int_equal(r, -EAGAIN);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_sent_arrives_with_its_files),
		TEST(a_message_may_have_none),
		TEST(another_number_of_files_is_refused_and_they_are_closed),
		TEST(a_message_that_is_too_long_is_refused),
		TEST(the_other_side_is_gone),
		TEST(a_slow_reader_is_told_of),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
