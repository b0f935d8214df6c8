/* SPDX-License-Identifier: MIT */

/*
 * A small state machine over one socket, one timer and at most one child:
 *
 *	RESTING --timer--> CONNECTING --connected--> GREETING --WELCOME--> UP
 *	   ^                   | (starts a guard, tries every 10 ms)  |       |
 *	   +------- failed ----+--------------------------------------+       |
 *	                       ^----------------- lost -----------------------+
 *
 * What is to be said of holding is kept as wishes (the policy, the drop) and not as a queue: a
 * message that the guard does not take now is sent when the socket is writable again, in the newest
 * version. Orders about leases are a queue, bounded, and dropped with the line: the ledger is the
 * guard's, and what it says after a WELCOME is where the agent resumes.
 */

#include "agent/node/guardlink.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/endpoint.h"
#include "base/mem.h"
#include "base/nofile.h"
#include "base/sock.h"
#include "base/spawn.h"
#include "base/str.h"
#include "base/utf8.h"
#include "base/value.h"
#include "hold/endpoint_names.h"

#define RETRY_MS       10    /* between two tries to reach a guard that is starting */
#define TURN_MS	       100   /* where many ask the guard: for our turn, which the loop waits for */
#define START_LIMIT_MS 5000  /* a guard that does not listen by then does not come */
#define RESPAWN_MS     500   /* a guard that ended at once is not started more often */
#define GREETING_MS    3000  /* an answer to HELLO is due */
#define REST_MIN_MS    1000  /* after a failure, doubled each time ... */
#define REST_MAX_MS    15000 /* ... up to this */
#define STAYED_MS      5000  /* a guard that was up for so long was not a broken one */
#define OUTDATED_MS    10000 /* in which one of another version lets go, and ends */
#define OUTDATED_LOOK  100
#define PACKETS_A_TURN 64 /* before other handles of the loop have their turn */
#define ORDERS_FIRST   64 /* twice as many each time there is no room */

enum link_state { LINK_RESTING, LINK_CONNECTING, LINK_GREETING, LINK_UP, LINK_CLOSING };

union order {
	struct msg_head head;
	struct msg_lease lease;
	struct msg_grant grant;
	struct msg_unlease unlease;
	struct msg_reserve reserve;
};

_Static_assert(VALUE_NAME_MAX < PROTO_INSTANCE_MAX, "whole, so that no two are one to the guard");

struct guardlink {
	uv_loop_t *loop;
	const struct guardlink_ops *ops;
	void *user;
	char name[SOCKET_NAME_MAX];
	const struct agent_config *c;
	const struct node_self *self;

	enum link_state state;
	uv_timer_t timer;
	uv_poll_t *poll; /* NULL while there is no socket; freed in its close callback */
	int fd;

	pid_t child;  /* the guard that we started and did not reap, or 0 */
	bool started; /* since the last failure */
	char child_end[64];
	bool crowded;		     /* the last try found its queue of newcomers full */
	uint64_t round_ns, spawn_ns; /* monotonic: start of this round of tries, last start */
	uint64_t rest_ms, again_ms, up_ns;
	uint64_t outdated_ns; /* since when one of another version is there; 0: none is */

	struct hold_policy policy;
	bool has_policy, policy_due, drop_due, drop_asked;
	bool policy_open; /* the guard has one, and has not answered yet */

	union order *orders; /* a ring; NULL until the first one */
	uint32_t orders_at, n_orders, orders_room;

	int32_t guard_pid;   /* whose events these are */
	uint64_t last_event; /* the last one seen of it */
	bool leases_known;   /* it has told which there are */
	uint64_t heard_ns;
	struct text_list chosen; /* devices of the job, where the guard has chosen them */

	void (*closed)(void *user);
};

static const char guard_gone[] = "is gone";

static uint64_t round_ms(const struct guardlink *l)
{
	return (clock_mono_ns() - l->round_ns) / NS_PER_MS;
}

static void on_timer(uv_timer_t *timer);
static void on_poll(uv_poll_t *poll, int status, int events);

static void enter(struct guardlink *l, enum link_state state, uint64_t timer_ms)
{
	l->state = state;
	if (timer_ms == UINT64_MAX)
		(void)uv_timer_stop(&l->timer);
	else
		(void)uv_timer_start(&l->timer, on_timer, timer_ms, 0);
}

static void on_poll_closed(uv_handle_t *h)
{
	free(h);
}

static void drop_socket(struct guardlink *l)
{
	if (l->poll) {
		(void)uv_poll_stop(l->poll);
		uv_close((uv_handle_t *)l->poll, on_poll_closed);
		l->poll = NULL;
	}
	l->fd = fd_close(l->fd);
}

/* Start over with the tries: now, or after a rest. */
static void begin_round(struct guardlink *l, uint64_t in_ms)
{
	drop_socket(l);
	l->round_ns = 0;
	enter(l, in_ms ? LINK_RESTING : LINK_CONNECTING, in_ms);
}

static void finish_drop(struct guardlink *l)
{
	if (!l->drop_asked)
		return;
	l->drop_asked = l->drop_due = false;
	l->ops->dropped(l->user);
}

/* Nothing is held where there is no guard (invariant 2), so a drop that was asked for is done. */
static void fail(struct guardlink *l, const struct err *why)
{
	l->rest_ms = l->rest_ms ? l->rest_ms * 2 : REST_MIN_MS;
	if (l->rest_ms > REST_MAX_MS)
		l->rest_ms = REST_MAX_MS;
	begin_round(l, l->rest_ms);
	finish_drop(l);
	if (l->state != LINK_CLOSING)
		l->ops->failed(l->user, why);
}

/*
 * How soon to look for a guard again after one was lost: at once, because nothing is held
 * meanwhile, but ever later when guards do not stay, so that a broken one does not keep two
 * processes busy.
 */
static uint64_t again_ms(struct guardlink *l)
{
	bool stayed = clock_mono_ns() - l->up_ns > STAYED_MS * NS_PER_MS;

	l->again_ms = stayed || !l->again_ms ? RETRY_MS : l->again_ms * 2;
	if (l->again_ms > REST_MAX_MS)
		l->again_ms = REST_MAX_MS;
	return l->again_ms;
}

static void lose(struct guardlink *l, const char *why)
{
	bool was_up = l->state == LINK_UP;
	struct err e = ERR_INIT;

	l->n_orders = 0;

	/* A guard that was just ending took our connection to its grave: another one has to be
	 * started. */
	if (l->state == LINK_GREETING && why == guard_gone && l->round_ns &&
	    round_ms(l) <= START_LIMIT_MS) {
		drop_socket(l);
		enter(l, LINK_CONNECTING, RETRY_MS);
		return;
	}

	if (!was_up) {
		(void)err_set(&e, -EPROTO, "the guard: %s", why);
		fail(l, &e);
		return;
	}
	begin_round(l, again_ms(l));
	l->policy_due = l->has_policy;
	finish_drop(l);
	if (l->state != LINK_CLOSING)
		l->ops->lost(l->user, why);
}

static void want_events(struct guardlink *l)
{
	int events = UV_READABLE;

	if (l->policy_due || l->drop_due || l->n_orders)
		events |= UV_WRITABLE;
	(void)uv_poll_start(l->poll, events, on_poll);
}

/* One message of those that are due; false: the socket takes no more now, or is gone. */
static bool send_one(struct guardlink *l, bool *due, const void *msg, size_t size)
{
	int r = sock_send(l->fd, msg, size);

	if (r == 0)
		*due = false;
	/* Other errors show on the reading side as well, which tells them once. */
	return r == 0;
}

static void send_orders(struct guardlink *l)
{
	while (l->n_orders) {
		const union order *o = &l->orders[l->orders_at];

		if (sock_send(l->fd, o, o->head.size) < 0)
			return;
		l->orders_at = (l->orders_at + 1) % l->orders_room;
		l->n_orders--;
	}
}

static void send_due(struct guardlink *l)
{
	static const struct msg_plain drop = { .head = PROTO_HEAD(MSG_DROP, struct msg_plain) };

	if (l->state != LINK_UP)
		return;
	if (l->policy_due) {
		struct msg_policy *m = xcalloc(1, sizeof(*m));

		m->head = (struct msg_head)PROTO_HEAD(MSG_POLICY, struct msg_policy);
		m->policy = l->policy;
		if (send_one(l, &l->policy_due, m, sizeof(*m)))
			l->policy_open = true;
		free(m);
	}
	send_orders(l);
	if (l->drop_due && !l->policy_due)
		(void)send_one(l, &l->drop_due, &drop, sizeof(drop));
	want_events(l);
}

static void greet(struct guardlink *l, int fd)
{
	struct msg_hello hello = { .head = PROTO_HEAD(MSG_HELLO, struct msg_hello),
				   .guard_pid = l->guard_pid,
				   .last_event = l->last_event };
	struct err e = ERR_INIT;

	l->fd = fd;
	l->poll = xcalloc(1, sizeof(*l->poll));
	l->poll->data = l;
	/* uv_poll_init() fails only for descriptors that epoll cannot take; a socket it can. */
	if (uv_poll_init(l->loop, l->poll, fd) < 0) {
		free(take_ptr(l->poll));
		(void)err_set(&e, -EIO, "cannot watch the guard's socket");
		fail(l, &e);
		return;
	}
	enter(l, LINK_GREETING, GREETING_MS);
	want_events(l);
	(void)str_copy(hello.instance, sizeof(hello.instance), l->c->instance);
	if (sock_send(l->fd, &hello, sizeof(hello)) < 0)
		lose(l, guard_gone);
}

/* -------- finding or starting a guard -------- */

/* Where the engine says only how many devices the job was given, those that an earlier guard has
 * chosen stay. */
static void add_devices(const struct guardlink *l, struct text_list *argv)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	char count[16];

	for (size_t i = 0; i < l->chosen.n; i++)
		strbuf_addf(&b, "%s%s", i ? "," : "", l->chosen.texts[i]);
	if (l->c->devices || l->chosen.n) {
		text_list_add(argv, "--devices");
		text_list_add(argv, l->c->devices ? l->c->devices : strbuf_str(&b));
	}
	if (l->c->n_devices && !l->c->devices) {
		text_list_add(argv, "--count");
		text_list_add(argv, str_print(count, sizeof(count), "%u", l->c->n_devices));
	}
}

/*
 * `tenure guard --dev-dir DIR` from our copy, and in a job `--job KEY`: its own session, cwd /,
 * stdio /dev/null, our environment. It is our child. The PID, or -errno.
 */
static pid_t start_guard(const struct guardlink *l, struct err *e)
{
	struct text_list argv = { .n = 0 };
	struct spawn s = SPAWN_INIT;
	pid_t pid;

	text_list_add(&argv, "tenure");
	text_list_add(&argv, "guard");
	text_list_add(&argv, "--dev-dir");
	text_list_add(&argv, l->c->dev_dir);
	if (l->c->job) {
		text_list_add(&argv, "--job");
		text_list_add(&argv, l->c->job->key);
	}
	add_devices(l, &argv);
	text_list_take(&argv, NULL);
	s.program = l->self->program_fd;
	s.argv = argv.texts;
	s.env = environ;
	s.session = true;
	pid = spawn_start(&s);
	text_list_clear(&argv);
	return pid < 0 ? err_sys(e, -pid, "start the guard") : pid;
}

/* Whether it has ended; it is reaped then, and why says how ("exit status 1", "signal 9"). Never
 * waits. */
static bool guard_ended(pid_t pid, char *why, size_t why_size)
{
	int status;
	pid_t r = waitpid(pid, &status, WNOHANG);

	if (r == 0)
		return false;
	if (r < 0)
		(void)str_copy(why, why_size, "unknown end");
	else if (WIFSIGNALED(status))
		(void)str_print(why, why_size, "signal %d", WTERMSIG(status));
	else
		(void)str_print(why, why_size, "exit status %d", WEXITSTATUS(status));
	return true;
}

static void reap(struct guardlink *l)
{
	if (l->child && guard_ended(l->child, l->child_end, sizeof(l->child_end)))
		l->child = 0;
}

/* Nobody listens: have a guard started, and say whether to go on trying. */
static bool ensure_guard(struct guardlink *l, struct err *e)
{
	uint64_t now = clock_mono_ns();

	reap(l);
	if (round_ms(l) > START_LIMIT_MS) {
		if (l->child)
			(void)err_set(e, -ETIMEDOUT, "the guard (PID %d) does not listen (%s)",
				      (int)l->child, l->name);
		else
			(void)err_set(e, -ETIMEDOUT, "the guard does not stay up: %s",
				      l->child_end);
		return false;
	}
	if (l->child || (l->spawn_ns && now - l->spawn_ns < RESPAWN_MS * NS_PER_MS))
		return true;

	pid_t pid = start_guard(l, e);

	if (pid < 0)
		return false;
	nofile_set_of(pid, l->self->nofile);
	l->child = pid;
	l->started = true;
	l->spawn_ns = now;
	return true;
}

static void try_connect(struct guardlink *l)
{
	struct err e = ERR_INIT;
	/* Who does not wait for his turn has no place in the kernel's queue before those who do. */
	int fd = endpoint_connect(l->name, l->crowded ? TURN_MS : 0, &e);

	l->crowded = fd == -EAGAIN;
	if (!l->round_ns)
		l->round_ns = clock_mono_ns();
	if (fd >= 0) {
		greet(l, fd);
		return;
	}
	/* EAGAIN: it listens, and its queue of newcomers is full. */
	if ((fd == -ECONNREFUSED && ensure_guard(l, &e)) ||
	    (fd == -EAGAIN && round_ms(l) <= START_LIMIT_MS)) {
		enter(l, LINK_CONNECTING, RETRY_MS);
		return;
	}
	fail(l, &e);
}

static void on_timer(uv_timer_t *timer)
{
	struct guardlink *l = timer->data;

	if (l->state == LINK_GREETING)
		lose(l, "did not answer the greeting");
	else if (l->state == LINK_RESTING || l->state == LINK_CONNECTING)
		try_connect(l);
}

/* -------- what the guard says -------- */

/* Texts of the guard are those of others in part: the names of processes. */
#define END(field) ((field)[sizeof(field) - 1] = '\0', (void)utf8_clean(field))

static void take_welcome(struct guardlink *l, void *msg)
{
	struct msg_guard *m = msg;

	END(m->driver);
	END(m->trouble);
	if (l->state != LINK_GREETING) {
		l->ops->guard(l->user, m);
		return;
	}
	if (m->pid != l->guard_pid)
		l->last_event = 0;
	l->guard_pid = m->pid;
	l->rest_ms = l->outdated_ns = 0;
	l->up_ns = clock_mono_ns();
	enter(l, LINK_UP, UINT64_MAX);

	bool started = l->started;

	l->started = l->leases_known = l->policy_open = false;
	l->policy_due = l->has_policy;
	l->ops->welcome(l->user, m, started);
	if (l->state == LINK_UP)
		send_due(l);
}

static void take_refused(struct guardlink *l, void *msg)
{
	struct msg_text *m = msg;
	struct err e = ERR_INIT;

	END(m->text);
	(void)err_set(&e, m->code < 0 ? m->code : -EPROTO, "the guard refuses: %s", m->text);
	fail(l, &e);
}

static void take_policy_reply(struct guardlink *l, void *msg)
{
	struct msg_text *m = msg;

	END(m->text);
	l->policy_open = false;
	l->ops->policy_reply(l->user, m->code, m->text);
}

static void take_device(struct guardlink *l, void *msg)
{
	struct msg_device *m = msg;

	END(m->dev.uuid);
	END(m->dev.name);
	END(m->dev.instance);
	dev_reason_end(&m->dev.reason);
	END(m->dev.lease_instance);
	if (l->c->n_devices && !l->c->devices && !(m->dev.flags & DEVICE_MIG_CARD) &&
	    m->dev.mig < 0 && !text_list_has(&l->chosen, m->dev.uuid))
		text_list_add(&l->chosen, m->dev.uuid);
	if (m->slot < PROTO_DEVICES_MAX)
		l->ops->device(l->user, m->slot, &m->dev);
}

static void take_health(struct guardlink *l, void *msg)
{
	const struct msg_health *m = msg;

	if (m->slot < PROTO_DEVICES_MAX && l->ops->health)
		l->ops->health(l->user, m->slot, &m->health);
}

static void take_burn(struct guardlink *l, void *msg)
{
	struct msg_burn *m = msg;

	burn_report_end(&m->found);
	if (m->slot < PROTO_DEVICES_MAX && l->ops->burn)
		l->ops->burn(l->user, m->slot, &m->found);
}

static void take_event(struct guardlink *l, void *msg)
{
	struct guard_event *ev = &((struct msg_event *)msg)->event;

	END(ev->uuid);
	END(ev->instance);
	dev_reason_end(&ev->reason);
	END(ev->command);
	if (ev->seq <= l->last_event)
		return; /* told again after a new connection */
	l->last_event = ev->seq;
	l->ops->event(l->user, ev);
}

/* All words on leases go to one op, after their strings and slots were seen to. */
static void take_lease(struct guardlink *l, void *msg)
{
	struct msg_lease_reply *reply = msg; /* of both kinds */
	struct msg_lease_taken *taken = msg;
	struct msg_lease_state *state = msg;
	struct msg_unleased *unleased = msg;

	switch (reply->head.type) {
	case MSG_LEASE_REPLY:
	case MSG_GRANTED:
		dev_reason_end(&reply->reason);
		break;
	case MSG_LEASE_TAKEN:
		dev_reason_end(&taken->reason);
		if (taken->slot < 0 || taken->slot >= PROTO_DEVICES_MAX)
			return;
		break;
	case MSG_UNLEASED:
		END(unleased->uuid);
		break;
	case MSG_LEASE_STATE:
		END(state->uuid);
		l->leases_known = state->slot < 0;
		break;
	}
	if (l->ops->lease)
		l->ops->lease(l->user, msg);
}

static void take_dropped(struct guardlink *l, void *msg)
{
	finish_drop(l);
}

static void (*const takers[MSG_TYPE_MAX])(struct guardlink *l, void *msg) = {
	[MSG_WELCOME] = take_welcome, [MSG_GUARD] = take_welcome,
	[MSG_REFUSED] = take_refused, [MSG_POLICY_REPLY] = take_policy_reply,
	[MSG_DEVICE] = take_device,   [MSG_EVENT] = take_event,
	[MSG_DROPPED] = take_dropped, [MSG_LEASE_REPLY] = take_lease,
	[MSG_GRANTED] = take_lease,   [MSG_LEASE_TAKEN] = take_lease,
	[MSG_UNLEASED] = take_lease,  [MSG_LEASE_STATE] = take_lease,
	[MSG_LEASE_USE] = take_lease, [MSG_HEALTH] = take_health,
	[MSG_BURN] = take_burn,
};

/* Before WELCOME only an answer to HELLO makes sense; after it, no second one does. */
static bool expected(const struct guardlink *l, uint16_t type)
{
	bool greeting = type == MSG_WELCOME || type == MSG_REFUSED;

	return takers[type] && greeting == (l->state == LINK_GREETING);
}

/* Our greeting has told it to end, unless it serves others, as after an upgrade under tasks. */
static void on_other_version(struct guardlink *l)
{
	uint64_t now = clock_mono_ns();

	l->outdated_ns = l->outdated_ns ? l->outdated_ns : now;
	if (l->state != LINK_GREETING || now - l->outdated_ns > OUTDATED_MS * NS_PER_MS) {
		l->outdated_ns = 0;
		lose(l, "is of another version of tenure, and agents of that use it: end them "
			"(tenure off, for each of tenure instances)");
		return;
	}
	drop_socket(l);
	l->round_ns = 0;
	enter(l, LINK_CONNECTING, OUTDATED_LOOK);
	finish_drop(l); /* it holds nothing of ours */
}

static void take_packet(struct guardlink *l, void *buf, size_t n)
{
	int r = proto_check(buf, n);
	struct msg_head head;

	if (r == -EPROTONOSUPPORT) {
		on_other_version(l);
		return;
	}
	(void)memcpy(&head, buf, n < sizeof(head) ? n : sizeof(head));
	if (r < 0 || !expected(l, head.type)) {
		lose(l, "sent a message that makes no sense");
		return;
	}
	l->heard_ns = clock_mono_ns();
	takers[head.type](l, buf);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct guardlink *l = poll->data;
	uint64_t buf[(PROTO_MSG_MAX + 7) / 8]; /* aligned for every message */

	for (int i = 0; i < PACKETS_A_TURN && l->poll == poll; i++) {
		ssize_t n = sock_recv(l->fd, buf, sizeof(buf));

		if (n == -EAGAIN)
			break;
		if (n == -EMSGSIZE)
			lose(l, "sent a message that makes no sense");
		else if (n <= 0)
			lose(l, guard_gone);
		else
			take_packet(l, buf, (size_t)n);
	}
	if (l->poll == poll && (events & UV_WRITABLE))
		send_due(l);
}

/* -------- from outside -------- */

struct guardlink *guardlink_new(uv_loop_t *loop, const struct agent_config *c,
				const struct node_self *self, const struct guardlink_ops *ops,
				void *user)
{
	struct guardlink *l = xcalloc(1, sizeof(*l));

	l->loop = loop;
	l->ops = ops;
	l->user = user;
	l->fd = -1;
	l->c = c;
	l->self = self;
	(void)guard_socket_name(l->name, sizeof(l->name), c->dev_dir, agent_job_key(c));
	(void)uv_timer_init(loop, &l->timer);
	l->timer.data = l;
	return l;
}

void guardlink_start(struct guardlink *l)
{
	begin_round(l, 0);
}

void guardlink_set_policy(struct guardlink *l, const struct hold_policy *policy)
{
	l->policy = *policy;
	l->has_policy = l->policy_due = true;
	l->drop_asked = l->drop_due = false;
	send_due(l);
}

bool guardlink_policy_is_open(const struct guardlink *l)
{
	return l->policy_due || l->policy_open;
}

void guardlink_heartbeat(struct guardlink *l, bool watched)
{
	const struct msg_heartbeat heartbeat = {
		.head = PROTO_HEAD(MSG_HEARTBEAT, struct msg_heartbeat),
		.flags = watched ? HEARTBEAT_WATCHED : 0,
	};

	if (l->state == LINK_UP)
		(void)sock_send(l->fd, &heartbeat,
				sizeof(heartbeat)); /* full: what is in it says as much */
}

static void on_drop_without_guard(uv_timer_t *timer)
{
	finish_drop(timer->data);
}

void guardlink_drop(struct guardlink *l)
{
	l->drop_asked = l->drop_due = true;
	l->has_policy = l->policy_due = false;
	if (l->state == LINK_UP)
		send_due(l);
	else if (l->state != LINK_GREETING) /* then it goes out after WELCOME */
		(void)uv_timer_start(&l->timer, on_drop_without_guard, 0, 0);
}

static void grow_orders(struct guardlink *l)
{
	uint32_t room = l->orders_room ? 2 * l->orders_room : ORDERS_FIRST;
	union order *orders = xcalloc(room, sizeof(*orders));

	for (uint32_t i = 0; i < l->n_orders; i++)
		orders[i] = l->orders[(l->orders_at + i) % l->orders_room];
	free(l->orders);
	l->orders = orders;
	l->orders_at = 0;
	l->orders_room = room;
}

static int add_order(struct guardlink *l, const void *msg, size_t size)
{
	if (l->state != LINK_UP || !l->leases_known)
		return -ENOTCONN;
	if (l->n_orders == l->orders_room)
		grow_orders(l);
	(void)memcpy(&l->orders[(l->orders_at + l->n_orders++) % l->orders_room], msg, size);
	send_due(l);
	return 0;
}

int guardlink_lease(struct guardlink *l, const struct msg_lease *lease)
{
	struct msg_lease m = *lease;

	m.head = (struct msg_head)PROTO_HEAD(MSG_LEASE, struct msg_lease);
	return add_order(l, &m, sizeof(m));
}

int guardlink_grant(struct guardlink *l, const struct lease_id *id, const struct proc_id *shim)
{
	struct msg_grant m = { .head = PROTO_HEAD(MSG_GRANT, struct msg_grant),
			       .id = *id,
			       .pid = shim->pid,
			       .start = shim->start };

	return add_order(l, &m, sizeof(m));
}

int guardlink_unlease(struct guardlink *l, const struct lease_id *id)
{
	struct msg_unlease m = { .head = PROTO_HEAD(MSG_UNLEASE, struct msg_unlease), .id = *id };

	return add_order(l, &m, sizeof(m));
}

int guardlink_unlease_one(struct guardlink *l, const struct lease_id *id, const char *uuid)
{
	struct msg_unlease m = { .head = PROTO_HEAD(MSG_UNLEASE, struct msg_unlease), .id = *id };

	(void)str_copy(m.uuid, sizeof(m.uuid), uuid);
	return add_order(l, &m, sizeof(m));
}

int guardlink_reserve(struct guardlink *l, const struct lease_id *id, const char *uuid)
{
	struct msg_reserve m = { .head = PROTO_HEAD(MSG_RESERVE, struct msg_reserve), .id = *id };

	(void)str_copy(m.uuid, sizeof(m.uuid), uuid);
	return add_order(l, &m, sizeof(m));
}

bool guardlink_is_up(const struct guardlink *l)
{
	return l->state == LINK_UP;
}

uint64_t guardlink_heard_ns(const struct guardlink *l)
{
	return l->heard_ns;
}

static void on_timer_closed(uv_handle_t *h)
{
	struct guardlink *l = h->data;
	void (*closed)(void *user) = l->closed;
	void *user = l->user;

	free(l->orders);
	text_list_clear(&l->chosen);
	free(l);
	closed(user);
}

void guardlink_hang_up(struct guardlink *l)
{
	drop_socket(l);
	l->n_orders = 0;
	enter(l, LINK_CLOSING, UINT64_MAX);
}

void guardlink_close(struct guardlink *l, void (*closed)(void *user))
{
	drop_socket(l);
	reap(l);
	l->state = LINK_CLOSING;
	l->closed = closed;
	uv_close((uv_handle_t *)&l->timer, on_timer_closed);
}
