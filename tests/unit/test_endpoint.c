/* SPDX-License-Identifier: MIT */

/* Names that one process has at a time, in a directory that others tidy up. */

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

#include "base/clock.h"
#include "base/endpoint.h"
#include "base/mem.h"
#include "base/sock.h"

static char place[64], name[64];
static _Atomic int n_refused, n_to_refuse; /* copies of descriptors */

int __real_fcntl64(int fd, int cmd, ...);
int __wrap_fcntl64(int fd, int cmd, ...);

int __wrap_fcntl64(int fd, int cmd, ...)
{
	va_list args;

	va_start(args, cmd);

	long arg = va_arg(args, long);

	va_end(args);
	if (cmd == F_DUPFD_CLOEXEC && n_refused < n_to_refuse) {
		n_refused++;
		errno = EMFILE;
		return -1;
	}
	return __real_fcntl64(fd, cmd, arg);
}

/* Of other threads than the main one: what it waits for has come, and it goes on only after so
 * long; it computes meanwhile, which looks as if it waited for a processor. */
static _Atomic int busy_ms;
static pthread_t main_thread;

int __real_poll(struct pollfd *fds, nfds_t n, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout);

int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout)
{
	int r = __real_poll(fds, n, timeout);
	uint64_t until = clock_mono_ns() + (uint64_t)busy_ms * NS_PER_MS;

	while (r > 0 && busy_ms && !pthread_equal(pthread_self(), main_thread) &&
	       clock_mono_ns() < until)
		;
	return r;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static int n_counted;

static int count_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	n_counted++;
	return 0;
}

static int remove_socket(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return S_ISSOCK(st->st_mode) ? remove(path) : 0;
}

static int setup(void **state)
{
	(void)snprintf(place, sizeof(place), "/tmp/tenure-unit-XXXXXX");
	assert_non_null(mkdtemp(place));
	assert_int_equal(setenv("TENURE_RUNTIME_DIR", place, 1), 0);
	(void)snprintf(name, sizeof(name), "unit-%d/agent", (int)getpid());
	return 0;
}

static int teardown(void **state)
{
	return nftw(place, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static bool is_found(const char *who)
{
	cleanup_fd int fd = endpoint_connect(who, 0, NULL);

	return fd >= 0;
}

static int take(struct endpoint *ep)
{
	return endpoint_open(ep, name, NULL);
}

static void test_one_has_it(void **state)
{
	struct endpoint a, b;
	struct stat st;

	assert_int_equal(endpoint_connect(name, 0, NULL), -ECONNREFUSED);
	assert_int_equal(take(&a), 0);
	assert_int_equal(strncmp(a.dir.path, place, strlen(place)), 0);
	assert_int_equal(stat(a.dir.path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_true(is_found(name));
	assert_int_equal(take(&b), -EADDRINUSE);
	assert_int_equal(endpoint_check(&a, NULL), 0);
	endpoint_close(&a);
	assert_int_equal(endpoint_connect(name, 0, NULL), -ECONNREFUSED);
	assert_int_equal(stat(a.dir.path, &st), -1); /* nothing is left */
	assert_int_equal(take(&b), 0);
	endpoint_close(&b);
}

/* A name of any length has a file. */
static void test_long_names(void **state)
{
	char a[ENDPOINT_NAME_MAX], b[ENDPOINT_NAME_MAX];
	struct endpoint one, two;

	(void)memset(a, 'n', sizeof(a));
	(void)memset(b, 'n', sizeof(b));
	a[sizeof(a) - 1] = b[sizeof(b) - 1] = '\0';
	b[sizeof(b) - 2] = 'm';
	assert_int_equal(endpoint_open(&one, a, NULL), 0);
	assert_false(is_found(b));
	assert_int_equal(endpoint_open(&two, b, NULL), 0);
	assert_true(is_found(a) && is_found(b));
	endpoint_close(&one);
	assert_true(!is_found(a) && is_found(b));
	endpoint_close(&two);
}

/* What a process that was killed leaves behind is nobody's. */
static void test_left_over(void **state)
{
	struct endpoint ep;
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(take(&ep) == 0 ? 7 : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), 7);
	assert_int_equal(endpoint_connect(name, 0, NULL), -ECONNREFUSED);
	assert_int_equal(take(&ep), 0);
	assert_true(is_found(name));
	endpoint_close(&ep);
}

/* Between fork and exec a child has the lock as well, and it is nobody's for that. */
static void test_copy_in_a_child(void **state)
{
	struct endpoint ep;
	int go[2];
	pid_t pid;

	assert_int_equal(take(&ep), 0);
	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		(void)usleep(20000);
		_exit(0);
	}
	endpoint_close(&ep);
	assert_int_equal(take(&ep), 0);
	endpoint_close(&ep);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	(void)close(go[0]);
	(void)close(go[1]);
}

static void lose_all(const struct endpoint *ep)
{
	assert_int_equal(nftw(ep->dir.path, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static void lose_sock(const struct endpoint *ep)
{
	assert_int_equal(unlinkat(ep->dir.fd, ep->file, 0), 0);
}

static void lose_lock(const struct endpoint *ep)
{
	char lock[ENDPOINT_FILE_MAX + 8];

	(void)snprintf(lock, sizeof(lock), "%s.lock", ep->file);
	assert_int_equal(unlinkat(ep->dir.fd, lock, 0), 0);
}

static void lose_dir(const struct endpoint *ep)
{
	char away[SOCKDIR_PATH_MAX + 8];

	(void)snprintf(away, sizeof(away), "%s-away", ep->dir.path);
	assert_int_equal(rename(ep->dir.path, away), 0);
	(void)nftw(away, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* It is put back, and where somebody else was quicker that one has it. */
static void test_tidied_away(void **state)
{
	static void (*const ways[])(const struct endpoint *ep) = { lose_all, lose_sock, lose_lock,
								   lose_dir };

	for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
		struct endpoint ep, other;

		assert_int_equal(take(&ep), 0);
		ways[i](&ep);
		assert_int_equal(endpoint_check(&ep, NULL), 1);
		assert_true(is_found(name));
		assert_int_equal(endpoint_check(&ep, NULL), 0);
		ways[i](&ep);
		if (ways[i] != lose_sock) {
			assert_int_equal(take(&other), 0);
			assert_int_equal(endpoint_check(&ep, NULL), -EADDRINUSE);
			assert_true(is_found(name));
			endpoint_close(&other);
		} else { /* the lock is what counts */
			assert_int_equal(take(&other), -EADDRINUSE);
		}
		endpoint_close(&ep);
	}
}

static void count(void *data, const char *who)
{
	*(int *)data += strcmp(who, name) == 0;
}

static void test_who_is_there(void **state)
{
	struct endpoint ep, dead;
	int n = 0;
	pid_t pid = fork();

	if (pid == 0)
		_exit(endpoint_open(&dead, "unit-dead/agent", NULL) == 0 ? 7 : 1);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(take(&ep), 0);
	assert_int_equal(endpoint_each("unit-", count, &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(faccessat(ep.dir.fd, "unit-dead:agent", F_OK, 0), 0);
	endpoint_tidy();
	assert_int_equal(faccessat(ep.dir.fd, "unit-dead:agent", F_OK, 0), -1);
	assert_int_equal(faccessat(ep.dir.fd, "unit-dead:agent.lock", F_OK, 0), -1);
	assert_true(is_found(name));
	endpoint_close(&ep);
}

/* What is put back is given to who asked for it, as soon as there is a descriptor for that. */
static void test_kept_without_a_free_descriptor(void **state)
{
	struct endpoint_keeper *k;
	int fd;

	n_refused = n_to_refuse = 0;
	assert_int_equal(endpoint_keep(name, &k, &fd, NULL), 0);
	n_to_refuse = 1;
	assert_int_equal(nftw(place, remove_socket, 8, FTW_DEPTH | FTW_PHYS), 0);

	struct pollfd news = { .fd = endpoint_keeper_fd(k), .events = POLLIN };

	assert_int_equal(poll(&news, 1, 10 * ENDPOINT_CHECK_MS), 1);
	assert_int_equal(n_refused, 1);
	(void)close(fd);
	fd = endpoint_keeper_take(k);
	assert_true(fd >= 0);

	cleanup_fd int client = endpoint_connect(name, 0, NULL), accepted = sock_accept(fd, NULL);

	assert_true(client >= 0 && accepted >= 0);
	(void)close(fd);
	endpoint_release(k);
}

/* It is not given up as one that hangs, which would leave its socket to whoever comes next. */
static void test_keeper_without_a_processor(void **state)
{
	struct endpoint_keeper *k;
	int fd;

	assert_int_equal(endpoint_keep(name, &k, &fd, NULL), 0);
	assert_true(is_found(name));
	main_thread = pthread_self();
	busy_ms = 600;
	endpoint_release(k);
	busy_ms = 0;
	(void)close(fd);
	assert_false(is_found(name));
	assert_int_equal(nftw(place, count_one, 8, FTW_DEPTH | FTW_PHYS), 0);
	assert_int_equal(n_counted, 1); /* the place itself */
}

/* Versions before this one have abstract names. */
static void test_older_version(void **state)
{
	struct endpoint ep;
	struct err e = ERR_INIT;
	char old[128];

	(void)snprintf(old, sizeof(old), "tenure/%u/%s", (unsigned int)geteuid(), name);

	int fd = sock_listen(old, &e);

	assert_true(fd >= 0);
	assert_int_equal(take(&ep), -EADDRINUSE);
	assert_true(is_found(name));
	(void)close(fd);
	assert_int_equal(take(&ep), 0);
	endpoint_close(&ep);
}

/* Names and links of others in the way are passed over, in each place. */
static void test_in_the_way(void **state)
{
	struct endpoint ep;
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/tenure-sockets-%u", place, (unsigned int)geteuid());
	for (int i = 0; i < 3; i++) {
		if (i == 0)
			assert_int_equal(close(open(path, O_WRONLY | O_CREAT, 0600)), 0);
		if (i == 1)
			assert_int_equal(symlink(place, path), 0);
		if (i == 2)
			assert_true(mkdir(path, 0700) == 0 && chmod(path, 0750) == 0);
		assert_int_equal(take(&ep), 0);
		assert_string_not_equal(ep.dir.path, path);
		assert_true(is_found(name));
		endpoint_close(&ep);
		assert_int_equal(remove(path), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_one_has_it, setup, teardown),
		cmocka_unit_test_setup_teardown(test_long_names, setup, teardown),
		cmocka_unit_test_setup_teardown(test_left_over, setup, teardown),
		cmocka_unit_test_setup_teardown(test_copy_in_a_child, setup, teardown),
		cmocka_unit_test_setup_teardown(test_tidied_away, setup, teardown),
		cmocka_unit_test_setup_teardown(test_who_is_there, setup, teardown),
		cmocka_unit_test_setup_teardown(test_keeper_without_a_processor, setup, teardown),
		cmocka_unit_test_setup_teardown(test_kept_without_a_free_descriptor, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_older_version, setup, teardown),
		cmocka_unit_test_setup_teardown(test_in_the_way, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
