/* SPDX-License-Identifier: MIT */
/*
 * Clients, their policies and their refresh clocks.
 *
 * The refresh clock: once per `refresh` every device of an instance that is not held is checked,
 * and only such a check starts an idle clock, while anything foreign that is seen at any other time
 * resets it. When the idle clock has run out the device is checked again and held. With `together`
 * all of them have to be idle.
 */
#include "hold/guard/client.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/sock.h"
#include "base/str.h"
#include "hold/guard/assign.h"
#include "hold/guard/dev_status.h"
#include "hold/guard/device.h"
#include "hold/guard/event_ring.h"
#include "hold/guard/hold.h"
#include "hold/guard/lease.h"
#include "hold/guard/ledger.h"
#include "hold/guard/limits.h"
#include "hold/guard/requests.h"
#include "hold/guard/timings.h"
#include "hold/guard/xid.h"

#define HALF_OPEN_MAX 4 /* of one process */

static void send_text(struct client *c, enum msg_type type, int code, const char *text)
{
	struct msg_text m = { .head = PROTO_HEAD(MSG_REFUSED, struct msg_text), .code = code };

	m.head.type = (uint16_t)type;
	(void)str_copy(m.text, sizeof(m.text), text);
	if (c->fd >= 0)
		(void)sock_send(c->fd, &m, sizeof(m));
}

static void forget(struct guard *g, struct client *c)
{
	char instance[PROTO_INSTANCE_MAX];

	(void)str_copy(instance, sizeof(instance), c->instance);
	(void)fd_close(c->fd);
	*c = (struct client){ .fd = -1 };
	if (instance[0] && !client_find(g, instance))
		lease_drop_promises(g, instance);
	assign_all(g);
}

/* The agent is gone. With a policy it is waited for; without one there is nothing to keep. */
static void on_gone(struct guard *g, struct client *c)
{
	c->fd = fd_close(c->fd);
	lease_end_untold(g, c->instance);
	if ((!c->has_policy && !ledger_count(g, c->instance)) || c->dropping) {
		forget(g, c);
		return;
	}
	c->begun = c->has_policy;
	c->awaited_until_ns = clock_mono_ns() + GUARD_AWAIT_MS * NS_PER_MS;
	(void)event_add(g, NULL, EVENT_NOTE,
			"the agent of %s (PID %d) is gone; its holds are kept for %u s",
			c->instance, (int)c->pid, GUARD_AWAIT_MS / 1000);
}

static bool is_half_open(const struct client *c)
{
	return c->used && !c->instance[0];
}

/* Who has waited longest before it says HELLO, of all or of one process; n: how many there are. */
static struct client *oldest_half_open(struct guard *g, pid_t pid, unsigned int *ret_n)
{
	struct client *oldest = NULL;

	*ret_n = 0;
	CLIENTS_EACH(g, c) {
		if (!is_half_open(c) || (pid && c->pid != pid))
			continue;
		++*ret_n;
		if (!oldest || c->came_ns < oldest->came_ns)
			oldest = c;
	}
	return oldest;
}

/* A process has a few connections that say nothing; beyond them its oldest one goes. */
static struct client *find_room(struct guard *g, pid_t pid)
{
	unsigned int n;
	struct client *c = oldest_half_open(g, pid, &n);

	if (n >= HALF_OPEN_MAX)
		forget(g, c);
	for (size_t i = 0; i < GUARD_CLIENTS_MAX; i++)
		if (!g->clients[i].used)
			return &g->clients[i];
	c = oldest_half_open(g, 0, &n);
	if (c)
		forget(g, c);
	return c;
}

void client_accept(struct guard *g)
{
	pid_t pid = 0;
	int fd = sock_accept(g->listen_fd, &pid);
	struct client *c = fd >= 0 ? find_room(g, pid) : NULL;
	uint64_t now = clock_mono_ns();

	if (c)
		*c = (struct client){
			.used = true, .fd = fd, .pid = pid, .listened_ns = now, .came_ns = now
		};
	else
		(void)fd_close(fd);
}

/* --- messages --- */

/* A new agent of an instance that is waited for takes its place, holds and all. */
static struct client *adopt(struct client *awaited, struct client *c)
{
	awaited->fd = c->fd;
	awaited->pid = c->pid;
	awaited->awaited_until_ns = 0;
	awaited->dropping = false;
	awaited->silent = false;
	awaited->full = false;
	awaited->silent_ns = 0;
	awaited->listened_ns = clock_mono_ns();
	*c = (struct client){ .fd = -1 };
	return awaited;
}

static void on_hello(struct guard *g, struct client *c, struct msg_hello *m)
{
	struct client *other;

	if (c->instance[0]) {
		on_gone(g, c); /* once is enough, and its devices are those of its first name */
		return;
	}

	g->greeted = true;
	m->instance[PROTO_INSTANCE_MAX - 1] = '\0';
	other = client_find(g, m->instance);
	if (other == c) /* the empty name */
		other = NULL;
	if (other && other->fd >= 0) {
		char text[128];

		send_text(c, MSG_REFUSED, -EBUSY,
			  str_print(text, sizeof(text), "an agent of %s runs already (PID %d)",
				    m->instance, (int)other->pid));
		forget(g, c);
		return;
	}
	if (other)
		c = adopt(other, c);
	(void)str_copy(c->instance, sizeof(c->instance), m->instance);
	c->returned = m->guard_pid != 0;
	/* One that knows no guard yet goes on where the agent before it was told last. */
	if (m->guard_pid == getpid())
		c->next_event = m->last_event + 1;
	else if (!other) /* what was before it came is not its business */
		c->next_event = m->guard_pid ? 1 : g->last_event + 1;
	status_tell_guard(g, c, MSG_WELCOME);
	lease_tell_all(g, c);
	status_tell_devices(g, c, true);
	(void)memset(c->health_due, 0xff, sizeof(c->health_due));
	event_tell(g, c);
}

/* What can be known of it before a hold: more than the device has, or nothing left of it. */
static int check_fits(const struct device *d, const struct mem_amount *m, struct err *e)
{
	const double gib = (double)(1ULL << 30);
	uint64_t total = d->id.total_bytes; /* which is there before the first look */

	if (d->id.mig_parent || !total)
		return 0;
	if (m->kind == MEM_BYTES && m->bytes > total)
		return err_set(e, -ERANGE, "memory: %.1f GiB asked for, GPU %u (%s) has %.1f GiB",
			       (double)m->bytes / gib, d->id.index, d->id.name,
			       (double)total / gib);
	if (m->kind == MEM_ALL_BUT && m->bytes >= total)
		return err_set(e, -ERANGE,
			       "memory: all but %.1f GiB leaves nothing to hold, GPU %u (%s) has "
			       "%.1f GiB",
			       (double)m->bytes / gib, d->id.index, d->id.name,
			       (double)total / gib);
	return 0;
}

/*
 * A name that fits nothing is refused, but not of an agent that was with a guard before: that one
 * has taken it, so the card is away and may come back. The others are held meanwhile.
 */
static int check_selection(struct guard *g, const struct client *c, struct hold_policy *p,
			   struct err *e)
{
	struct selection sel;
	int r = policy_check(p, e);

	if (r < 0)
		return r;
	/* A job may have been given none, or what it was given may still be in use by others. */
	if (g->n_devs == 0 && !c->returned && !granted_none(&g->granted) &&
	    (!g->granted.only || g->trouble[0]))
		return err_set(e, -ENODEV, "%s", g->trouble[0] ? g->trouble : "no GPU can be seen");
	r = assign_select(g, p, &sel, e);
	if (r < 0 && !c->returned)
		return r;
	if (r < 0)
		(void)event_add(g, NULL, EVENT_NOTE, "the policy of %s: %s", c->instance, e->text);
	r = 0;
	for (uint32_t i = 0; p->hold && r == 0 && i < sel.n; i++)
		r = check_fits(&g->devs[sel.slots[i]], &p->memory, e);
	return r;
}

/* In a container of its own everything is in "/": that would make every newcomer ours. */
static void take_cgroup(struct guard *g, struct client *c)
{
	if (proc_cgroup(c->pid, c->cgroup, sizeof(c->cgroup)) == 0 && strcmp(c->cgroup, "/") != 0)
		return;
	c->cgroup[0] = '\0'; /* the agent says so (agent/node/policy.c) */
}

/* A new policy of an instance whose devices are held under another: they follow at once. */
static void apply_to_held(struct guard *g, struct client *c, const struct hold_policy *before)
{
	DEVICES_EACH(g, d) {
		if (device_owner(g, d) != c || (d->state != DEV_HOLDING && d->state != DEV_HELD))
			continue;
		if (!c->policy.hold && !d->ledger.promise.wanted)
			device_unwant(g, d, "watched only from now on");
		else
			hold_adapt(g, d, before);
	}
	limit_trim(g, c);
}

static void on_policy(struct guard *g, struct client *c, const struct hold_policy *asked)
{
	struct hold_policy policy = *asked;
	struct err e = ERR_INIT;
	int r = check_selection(g, c, &policy, &e);

	send_text(c, MSG_POLICY_REPLY, r, r < 0 ? e.text : "");
	if (r < 0)
		return;

	const struct hold_policy before = c->policy;
	bool anew = !c->begun; /* and neither after a pause, nor in the place of one that died */

	c->policy = policy;
	if (!c->has_policy)
		c->asked = ++g->n_asked;
	c->has_policy = c->begun = true;
	c->dropping = false;
	c->cgroup[0] = '\0';
	if (policy.my_cgroup)
		take_cgroup(g, c);
	assign_all(g);
	DEVICES_EACH(g, d)
		d->dirty = true; /* somebody wants to know how all of them stand now */
	c->tick_ns = 0;
	for (uint32_t i = 0; anew && i < g->n_devs; i++)
		if (assign_selects(g, c, &g->devs[i])) /* whoever has it by now */
			xid_guard_forget(g, &g->devs[i], "tenure was started anew");
	apply_to_held(g, c, &before);
}

void client_on_ready(struct guard *g)
{
	DEVICES_EACH(g, d)
		d->dirty = true; /* they are told before the leases */
	CLIENTS_EACH(g, c) {
		if (!c->policy_waits)
			continue;
		c->policy_waits = false;
		on_policy(g, c, &c->policy);
	}
}

/* Of what its policy holds, but for what is promised to a task of another instance by now. */
static void let_go(struct guard *g, const struct client *c, const char *why)
{
	DEVICES_EACH(g, d)
		if (device_owner(g, d) == c && !d->ledger.promise.wanted)
			device_unwant(g, d, why);
}

static void on_drop(struct guard *g, struct client *c)
{
	c->dropping = true;
	c->policy_waits = false;
	lease_drop_promises(g, c->instance);
	lease_client_changed(g, c);
	let_go(g, c, "on request");
}

/*
 * An agent that is stopped can neither be told nor end its holds, so for the time being it is as
 * good as dead (invariant 2). Time that we were stopped ourselves is nobody's silence.
 */
static void listen_to(struct guard *g, struct client *c, uint64_t now)
{
	uint64_t turn = now - c->listened_ns;
	struct proc_peek agent = { .state = '?' };

	c->listened_ns = now;
	c->silent_ns += turn < NS_PER_S ? turn : NS_PER_S;
	if (c->fd < 0 || (!c->has_policy && !ledger_count(g, c->instance)) || c->dropping ||
	    c->silent || c->silent_ns < GUARD_AWAIT_MS * NS_PER_MS)
		return;
	c->silent = true;
	(void)proc_peek(c->pid, &agent);
	(void)event_add(g, NULL, EVENT_NOTE,
			"the agent of %s (PID %d) %s; nothing is held until it resumes",
			c->instance, (int)c->pid,
			agent.state == 'T' || agent.state == 't' ? "is stopped"
								 : "does not answer");
	lease_drop_silent(g, c);
	lease_client_changed(g, c);
	let_go(g, c, "its agent does not answer");
}

static void on_heard(struct guard *g, struct client *c)
{
	c->silent_ns = 0;
	if (!c->silent)
		return;
	c->silent = false;
	c->tick_ns = 0;
	lease_client_changed(g, c);
	(void)event_add(g, NULL, EVENT_NOTE, "the agent of %s (PID %d) has resumed", c->instance,
			(int)c->pid);
}

static void take_policy(struct guard *g, struct client *c, const struct hold_policy *asked)
{
	if (g->ready) {
		on_policy(g, c, asked);
		return;
	}
	c->policy = *asked;
	c->policy_waits = true;
}

/* Each of these may forget c, or have another take its place: nobody touches it after them. */
static void on_message(struct guard *g, struct client *c, void *m)
{
	uint16_t type = ((const struct msg_head *)m)->type;

	on_heard(g, c);
	if (!c->instance[0] && type != MSG_HELLO) {
		forget(g, c); /* must introduce itself first */
		return;
	}
	switch (type) {
	case MSG_HELLO:
		on_hello(g, c, m);
		break;
	case MSG_POLICY:
		take_policy(g, c, &((const struct msg_policy *)m)->policy);
		break;
	case MSG_DROP:
		on_drop(g, c);
		break;
	case MSG_HEARTBEAT:
		if (((const struct msg_heartbeat *)m)->flags & HEARTBEAT_WATCHED)
			c->watched_ns = clock_mono_ns();
		break;
	case MSG_LEASE:
		request_lease(g, c, m);
		break;
	case MSG_GRANT:
		request_grant(g, c, m);
		break;
	case MSG_UNLEASE:
		request_unlease(g, c, m);
		break;
	case MSG_RESERVE:
		request_reserve(g, c, m);
		break;
	default:
		on_gone(g, c);
	}
}

/* After an upgrade: the leases of tasks, which keep us here for as long as they run, are told anew
 * to the guard that comes after us. */
static const char *make_way(struct guard *g)
{
	CLIENTS_EACH(g, c)
		if (c->fd >= 0 && c->instance[0])
			return "this guard is of another version; it ends when its agents do";
	g->outdated = true;
	return "this guard is of another version, and ends now";
}

void client_on_readable(struct guard *g, struct client *c)
{
	char buf[PROTO_MSG_MAX] __attribute__((aligned(8)));
	ssize_t n;

	/* It asks once: an answer that cannot be sent would be waited for as long as it lives. */
	c->full = !sock_has_room(c->fd);
	if (c->full)
		return;
	n = sock_recv(c->fd, buf, sizeof(buf));

	if (n == -EAGAIN)
		return;
	if (n <= 0) {
		on_gone(g, c);
		return;
	}

	int r = proto_check(buf, (size_t)n);

	if (r == 0) {
		on_message(g, c, buf);
		return;
	}
	send_text(c, MSG_REFUSED, r, r == -EPROTONOSUPPORT ? make_way(g) : "not a message of ours");
	on_gone(g, c);
}

/* --- what time brings --- */

/* With `together`: one that is busy sets all clocks back. True: all are idle or held. */
static bool all_ripe(struct guard *g, struct client *c, uint64_t now)
{
	bool ripe = true, busy = false;

	DEVICES_EACH(g, d) {
		if (!client_owns(g, c, d) || d->state == DEV_LEFT || d->state == DEV_LENT ||
		    device_occupied(d))
			continue;
		busy = busy || d->state == DEV_BUSY;
		ripe = ripe && hold_ripe(g, d, now);
	}
	for (uint32_t i = 0; busy && i < g->n_devs; i++)
		if (client_owns(g, c, &g->devs[i]) && g->devs[i].state == DEV_IDLE)
			device_reset_idle(&g->devs[i], now);
	return ripe && !busy;
}

/*
 * Holders start one at a time: each start queues for the driver's lock, so four at once are no
 * sooner there (1.1 s on four H200, as one after another) and would slow everybody else's start
 * meanwhile. One that hangs is not waited for.
 */
static bool any_starting(const struct guard *g, uint64_t now)
{
	DEVICES_EACH(g, d)
		if (d->state == DEV_HOLDING && now < d->holder.started_ns + START_TURN_NS)
			return true;
	return false;
}

void client_consider(struct guard *g, struct client *c)
{
	uint64_t now = clock_mono_ns();

	DEVICES_EACH(g, d)
		if (client_owns(g, c, d) && d->hold.check)
			return; /* not all of them were looked at yet */
	if (c->policy.together && !all_ripe(g, c, now))
		return;
	DEVICES_EACH(g, d) {
		if (!client_owns(g, c, d) || !hold_ripe(g, d, now))
			continue;
		if (limit_hold(g, c, d))
			continue;
		if (any_starting(g, now)) {
			c->waiting = true;
			return;
		}
		hold_begin(g, d);
	}
}

static void check_devices(struct guard *g, struct client *c)
{
	DEVICES_EACH(g, d) {
		if (!client_owns(g, c, d) || !d->present || device_occupied(d) ||
		    d->state == DEV_LEFT || d->state == DEV_LENT)
			continue;
		d->hold.check = true;
		eyes_look_now(g->eyes, d->slot);
	}
}

/* What is due is held then, and not only at the next turn of the refresh clock. */
static void check_due(struct guard *g, struct client *c, uint64_t now)
{
	bool any = false;

	DEVICES_EACH(g, d) {
		uint64_t due = client_owns(g, c, d) && d->state == DEV_IDLE ? hold_at(g, d) : 0;

		if (!due || now < due || d->hold.due_ns == due || d->hold.check || !d->present)
			continue;
		any = true;
		d->hold.due_ns = due; /* once: what else stands in the way takes its time */
		d->hold.check = true;
		eyes_look_now(g->eyes, d->slot);
	}
	if (any && c->policy.together)
		check_devices(g, c);
}

/* What is held for a task of another instance is that one's business; a burn has a last word. */
static bool any_holder(const struct guard *g, const struct client *c)
{
	DEVICES_EACH(g, d) {
		if (d->load.closing_id && d->load.closing_id == c->policy.burn.id)
			return true;
		if (client_owns(g, c, d) && d->holder.pid && !d->ledger.promise.wanted)
			return true;
	}
	return false;
}

void client_on_time(struct guard *g, struct client *c, uint64_t now_ns)
{
	if (c->dropping && !any_holder(g, c)) {
		struct msg_plain m = { .head = PROTO_HEAD(MSG_DROPPED, struct msg_plain) };

		event_tell(g, c);
		/* It has not read what goes before, which must not overtake that: the next turn
		 * tells. */
		if (c->fd >= 0 &&
		    (c->next_event <= g->last_event || sock_send(c->fd, &m, sizeof(m)) == -EAGAIN))
			return;
		c->dropping = false;
		c->has_policy = false;
		assign_all(g);
		if (c->fd < 0)
			forget(g, c);
		return;
	}
	if (c->awaited_until_ns && now_ns >= c->awaited_until_ns) {
		c->awaited_until_ns = 0;
		on_drop(g, c);
		return;
	}
	if (is_half_open(c) && now_ns - c->came_ns > HELLO_NS) {
		forget(g, c);
		return;
	}
	listen_to(g, c, now_ns);
	if (c->has_policy && !c->dropping && now_ns >= c->tick_ns) {
		c->tick_ns = now_ns + c->policy.refresh_ms * NS_PER_MS;
		check_devices(g, c);
	}
	if (c->has_policy && !c->dropping)
		check_due(g, c, now_ns);
	if (c->waiting && !any_starting(g, now_ns)) {
		c->waiting = false;
		check_devices(g, c); /* what was seen before the wait is old */
	}
	if (c->guard_dirty)
		status_tell_guard(g, c, MSG_GUARD);
}

bool client_any(const struct guard *g)
{
	CLIENTS_EACH(g, c)
		return true;
	return false;
}
