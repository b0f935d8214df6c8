/* SPDX-License-Identifier: MIT */

/* The agent's calls about leases, with a guard that is this test: same thread, same loop. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "unit.h"

#include "agent/node/guardlink.h"
#include "base/mem.h"
#include "base/sock.h"
#include "hold/endpoint_names.h"

struct world {
	uv_loop_t loop;
	struct guardlink *link;
	struct endpoint ep;
	int fd;
	unsigned int welcomes, states, known, lost, closed;
	struct msg_lease_reply reply, granted;
	struct msg_lease_taken taken;
	struct msg_unleased unleased;
};

static void on_welcome(void *user, const struct msg_guard *guard, bool started)
{
	((struct world *)user)->welcomes++;
}

static void on_lost(void *user, const char *why)
{
	((struct world *)user)->lost++;
}

static void on_failed(void *user, const struct err *why)
{
	fail_msg("%s", why->text);
}

static void on_lease_state(struct world *w, const struct msg_lease_state *m)
{
	if (m->slot < 0) {
		w->known++;
		return;
	}
	assert_int_equal(w->known, 0);
	w->states++;
}

static void on_lease(void *user, const struct msg_head *m)
{
	struct world *w = user;

	switch (m->type) {
	case MSG_LEASE_REPLY:
		w->reply = *(const struct msg_lease_reply *)(const void *)m;
		break;
	case MSG_GRANTED:
		w->granted = *(const struct msg_lease_reply *)(const void *)m;
		break;
	case MSG_LEASE_TAKEN:
		w->taken = *(const struct msg_lease_taken *)(const void *)m;
		break;
	case MSG_UNLEASED:
		w->unleased = *(const struct msg_unleased *)(const void *)m;
		break;
	case MSG_LEASE_STATE:
		on_lease_state(w, (const void *)m);
		break;
	default:
		fail_msg("message %u is no word on leases", m->type);
	}
}

static const struct guardlink_ops ops = {
	.welcome = on_welcome, .lost = on_lost, .failed = on_failed, .lease = on_lease
};

static void turn(struct world *w)
{
	for (int i = 0; i < 5; i++)
		(void)uv_run(&w->loop, UV_RUN_NOWAIT);
}

/* The next message of the agent, which is to be of that type. */
static void hear(struct world *w, uint16_t type, void *buf, size_t size)
{
	turn(w);
	assert_int_equal(sock_recv(w->fd, buf, size), size);
	assert_int_equal(((struct msg_head *)buf)->type, type);
	assert_int_equal(proto_check(buf, size), 0);
}

static void say(struct world *w, const void *m, size_t size)
{
	assert_int_equal(sock_send(w->fd, m, size), 0);
	turn(w);
}

/* Take the connection that the link makes, up to its HELLO. */
static void take_hello(struct world *w)
{
	struct msg_hello hello;

	w->fd = -1;
	for (int i = 0; i < 200 && w->fd < 0; i++) {
		turn(w);
		w->fd = sock_accept(w->ep.fd, NULL);
		(void)usleep(1000);
	}
	assert_true(w->fd >= 0);
	hear(w, MSG_HELLO, &hello, sizeof(hello));
}

static void welcome(struct world *w)
{
	struct msg_guard m = { .head = PROTO_HEAD(MSG_WELCOME, struct msg_guard), .pid = 1 };

	say(w, &m, sizeof(m));
}

static void leases_end(struct world *w)
{
	struct msg_lease_state m = { .head = PROTO_HEAD(MSG_LEASE_STATE, struct msg_lease_state),
				     .slot = -1 };

	say(w, &m, sizeof(m));
}

static int setup(void **state)
{
	struct world *w = xcalloc(1, sizeof(*w));
	static const struct node_self self = { .program_fd = -1 };
	static struct agent_config config;
	static char dir[64];
	char name[SOCKET_NAME_MAX];
	struct err e = ERR_INIT;

	config = (struct agent_config){ .instance = "test", .dev_dir = dir };
	(void)snprintf(dir, sizeof(dir), "/nowhere/%d", (int)getpid());
	assert_int_equal(
		endpoint_open(&w->ep, guard_socket_name(name, sizeof(name), dir, NULL), &e), 0);
	assert_int_equal(uv_loop_init(&w->loop), 0);
	w->link = guardlink_new(&w->loop, &config, &self, &ops, w);
	guardlink_start(w->link);
	take_hello(w);
	*state = w;
	return 0;
}

static void on_closed(void *user)
{
	((struct world *)user)->closed++;
}

static int teardown(void **state)
{
	struct world *w = *state;

	guardlink_close(w->link, on_closed);
	turn(w);
	assert_int_equal(w->closed, 1);
	assert_int_equal(uv_loop_close(&w->loop), 0);
	(void)fd_close(w->fd);
	endpoint_close(&w->ep);
	free(w);
	return 0;
}

static const struct lease_id id = { .task = 42, .element = 7, .attempt = 2 };

static void test_calls_and_answers(void **state)
{
	struct world *w = *state;
	struct msg_lease lease = { .id = id, .uuid = "GPU-1", .flags = LEASE_SHARED, .bytes = 5 };
	struct proc_id shim = { .pid = 77, .start = 88 };
	struct msg_grant grant;
	struct msg_unlease unlease;
	struct msg_lease_reply reply = {
		.head = PROTO_HEAD(MSG_LEASE_REPLY, struct msg_lease_reply), .id = id
	};
	struct msg_lease_taken taken = {
		.head = PROTO_HEAD(MSG_LEASE_TAKEN, struct msg_lease_taken), .reason.pid = 99
	};
	struct msg_unleased unleased = { .head = PROTO_HEAD(MSG_UNLEASED, struct msg_unleased),
					 .took_ns = 3 };

	assert_int_equal(guardlink_lease(w->link, &lease), -ENOTCONN);
	welcome(w);
	assert_int_equal(w->welcomes, 1);
	/* A guard that has not told of its leases may not know the devices yet. */
	assert_int_equal(guardlink_lease(w->link, &lease), -ENOTCONN);
	leases_end(w);
	assert_int_equal(guardlink_lease(w->link, &lease), 0);
	assert_int_equal(guardlink_grant(w->link, &id, &shim), 0);
	assert_int_equal(guardlink_unlease(w->link, &id), 0);
	(void)memset(&lease, 0, sizeof(lease));
	hear(w, MSG_LEASE, &lease, sizeof(lease));
	assert_string_equal(lease.uuid, "GPU-1");
	assert_memory_equal(&lease.id, &id, sizeof(id));
	hear(w, MSG_GRANT, &grant, sizeof(grant));
	assert_true(grant.pid == 77 && grant.start == 88);
	hear(w, MSG_UNLEASE, &unlease, sizeof(unlease));
	assert_memory_equal(&unlease.id, &id, sizeof(id));

	(void)memset(reply.reason.text, 'x', sizeof(reply.reason.text)); /* not terminated */
	say(w, &reply, sizeof(reply));
	assert_int_equal(strlen(w->reply.reason.text), sizeof(reply.reason.text) - 1);
	reply.head.type = MSG_GRANTED;
	reply.code = -EBUSY;
	say(w, &reply, sizeof(reply));
	assert_int_equal(w->granted.code, -EBUSY);
	(void)memset(taken.reason.comm, 'x', sizeof(taken.reason.comm));
	say(w, &taken, sizeof(taken));
	assert_true(w->taken.reason.pid == 99 &&
		    strlen(w->taken.reason.comm) == sizeof(taken.reason.comm) - 1);
	say(w, &unleased, sizeof(unleased));
	assert_int_equal(w->unleased.took_ns, 3);
}

/* After each welcome the guard's list; orders to the guard before it are not told to the next. */
#define ORDERS 5000U /* far more than a socket takes */

static void test_list_after_each_welcome(void **state)
{
	struct world *w = *state;
	struct msg_lease_state s = { .head = PROTO_HEAD(MSG_LEASE_STATE, struct msg_lease_state) };
	struct msg_unlease unlease;

	welcome(w);
	say(w, &s, sizeof(s));
	s.slot = 1;
	say(w, &s, sizeof(s));
	assert_true(w->states == 2 && w->known == 0);
	s.slot = -1;
	say(w, &s, sizeof(s));
	assert_true(w->states == 2 && w->known == 1);

	/* What this guard did not read is nothing for the next one, which is told all anew. */
	for (unsigned int i = 0; i < ORDERS; i++)
		assert_int_equal(guardlink_unlease(w->link, &id), 0);
	(void)fd_close(w->fd);
	take_hello(w);
	assert_int_equal(w->lost, 1);
	welcome(w);
	leases_end(w);
	assert_int_equal(sock_recv(w->fd, &unlease, sizeof(unlease)), -EAGAIN);
	assert_int_equal(guardlink_unlease(w->link, &id), 0);
	hear(w, MSG_UNLEASE, &unlease, sizeof(unlease));
}

/* In order, and all of them, when the guard reads on. */
static void test_orders_wait_for_the_socket(void **state)
{
	struct world *w = *state;
	struct msg_unlease m;

	welcome(w);
	leases_end(w);
	for (uint64_t i = 1; i <= ORDERS; i++)
		assert_int_equal(guardlink_unlease(w->link, &(struct lease_id){ .task = i }), 0);
	for (uint64_t i = 1; i <= ORDERS; i++) {
		hear(w, MSG_UNLEASE, &m, sizeof(m));
		assert_int_equal(m.id.task, i);
	}
	turn(w);
	assert_int_equal(sock_recv(w->fd, &m, sizeof(m)), -EAGAIN);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_calls_and_answers),
		TEST(test_list_after_each_welcome),
		TEST(test_orders_wait_for_the_socket),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
