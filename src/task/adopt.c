/* SPDX-License-Identifier: MIT */
#include "task/adopt.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/endpoint.h"
#include "base/mem.h"
#include "base/str.h"
#include "task/shim_client.h"
#include "task/shproto.h"

#define GOING_NS      (500 * NS_PER_MS)
#define GOING_STEP_US 5000
#define TURN_MS	      500 /* for a shim whom many connect to at once */

/* It has its fork server's name until its own is safe. 1, 0, or -errno. */
static int is_a_shim(pid_t pid)
{
	char path[48], name[32] = "";
	cleanup_fd int fd = open(str_print(path, sizeof(path), "/proc/%d/comm", (int)pid),
				 O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	if (read(fd, name, sizeof(name) - 1) <= 0)
		return 0;
	name[strcspn(name, "\n")] = '\0';
	return strcmp(name, SHIM_COMM) == 0 || strcmp(name, FORK_SERVER_COMM) == 0;
}

/* The process that listens is the one we think of: 1, 0, or -errno. */
static int is_that_shim(int fd, const struct shim_id *id, struct proc_id *ret)
{
	char boot_id[BOOT_ID_MAX];
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return -errno;
	if (id->boot_id[0] && boot_id_read(boot_id, sizeof(boot_id)) == 0 &&
	    strcmp(boot_id, id->boot_id) != 0)
		return 0;
	if (id->proc.pid && id->proc.pid != cred.pid)
		return 0;

	int r = proc_identify(cred.pid, ret);

	if (r == -EMFILE || r == -ENFILE)
		return r;
	if (r < 0 || (id->proc.start && ret->start != id->proc.start))
		return 0;
	return is_a_shim(cred.pid);
}

static int find_record(const char *token, const char *record_dir, struct adopted *ret,
		       struct err *e)
{
	int r = end_record_read(record_dir, token, &ret->record, e);

	if (r < 0 && r != -ENOENT)
		return r;
	ret->found = r == 0 ? ADOPT_ENDED : ADOPT_LOST;
	return 0;
}

int adopt_find(const char *token, const struct shim_id *id, const char *record_dir,
	       struct adopted *ret, struct err *e)
{
	char name[SHPROTO_NAME_MAX];

	*ret = (struct adopted){ .fd = -1 };
	if (!token_valid(token))
		return err_set(e, -EINVAL, "\"%s\" is not a token", token);

	cleanup_fd int fd = endpoint_connect(shim_socket_name(name, token), TURN_MS, e);

	if (fd == -ECONNREFUSED)
		return find_record(token, record_dir, ret, e);
	if (fd == -EPERM) {
		ret->found = ADOPT_OTHER;
		return 0;
	}
	if (fd < 0)
		return fd;

	int r = is_that_shim(fd, id, &ret->proc);

	if (r < 0)
		return err_sys(e, -r, "look at who has the name of %s", token);
	if (!r) {
		ret->found = ADOPT_OTHER;
		return 0;
	}
	r = shim_client_ask(fd);

	/* It ended in this moment, after its record. */
	if (r == -EPIPE)
		return find_record(token, record_dir, ret, e);
	if (r < 0)
		return err_sys(e, -r, "ask the shim of %s", token);
	ret->found = ADOPT_LIVES;
	ret->fd = take_fd(fd);
	return 0;
}

/* Who has just been killed frees its name a moment before it is gone. */
static bool goes_away(const struct proc_id *proc)
{
	uint64_t until = clock_mono_ns() + GOING_NS;

	while (proc_alive(proc)) {
		if (clock_mono_ns() > until)
			return false;
		(void)usleep(GOING_STEP_US);
	}
	return true;
}

int adopt_settle(const char *token, const struct shim_id *id, const char *record_dir,
		 struct adopted *ret, struct err *e)
{
	bool bad;
	int r = adopt_find(token, id, record_dir, ret, e);

	bad = r == -EBADMSG;
	if (bad && end_record_set_aside(record_dir, token, e) == 0)
		r = adopt_find(token, id, record_dir, ret, e);
	if (r < 0 || ret->found != ADOPT_LOST)
		return r;
	if (id->proc.pid && !goes_away(&id->proc))
		return err_set(e, -EAGAIN,
			       "its shim (PID %d) lives, and cannot be found under its name %s",
			       (int)id->proc.pid, token);
	r = end_record_void(record_dir, token, e);
	if (r == 0)
		r = adopt_find(token, id, record_dir, ret, e);
	ret->bad_record = bad;
	return r;
}

struct each {
	void (*fn)(void *data, const char *token);
	void *data;
};

static void tell_token(void *data, const char *name)
{
	const struct each *e = data;

	if (token_valid(name + strlen(SHIM_NAME_PREFIX)))
		e->fn(e->data, name + strlen(SHIM_NAME_PREFIX));
}

int adopt_each(void (*fn)(void *data, const char *token), void *data)
{
	struct each e = { .fn = fn, .data = data };

	return endpoint_each(SHIM_NAME_PREFIX, tell_token, &e);
}
