/* SPDX-License-Identifier: MIT */
#include "hold/guard/hold.h"

#include <errno.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/sock.h"
#include "base/str.h"
#include "hold/guard/device.h"
#include "hold/guard/event_ring.h"
#include "hold/guard/holder_process.h"
#include "hold/guard/ledger.h"
#include "hold/guard/limits.h"
#include "hold/guard/load_control.h"
#include "hold/guard/timings.h"
#include "hold/guard/verdict.h"

static const char not_in_time[] = "its holder did not let go in time";

/* --- wanted, and when --- */

static bool wants_hold(const struct client *owner)
{
	return owner && owner->policy.hold && !owner->dropping && !owner->silent;
}

bool hold_has_future(struct guard *g, const struct device *d)
{
	return !g->quit_ns && !d->seen.xid &&
	       (d->ledger.promise.wanted || (wants_hold(device_owner(g, d)) && !device_is_left(d)));
}

bool hold_ripe(struct guard *g, const struct device *d, uint64_t now_ns)
{
	const struct client *owner = device_owner(g, d);

	/* What is held is kept for an awaited agent; nothing new is held for nobody. */
	bool wanted = d->ledger.promise.wanted || (wants_hold(owner) && !owner->awaited_until_ns);

	return wanted && !g->quit_ns && d->present && d->state == DEV_IDLE &&
	       (!d->holder.pid || (d->holder.kept && !d->holder.ending)) &&
	       now_ns >= d->hold.blocked_until_ns && now_ns >= d->ledger.chain_until_ns &&
	       now_ns - d->hold.idle_since_ns >= d->hold.wait_ns;
}

uint64_t hold_at(struct guard *g, const struct device *d)
{
	const struct client *owner = device_owner(g, d);
	uint64_t at;

	if (!wants_hold(owner) || owner->awaited_until_ns || device_is_left(d) || g->quit_ns)
		return 0;
	if (d->state == DEV_IDLE)
		at = d->hold.idle_since_ns + d->hold.wait_ns;
	else if (d->state == DEV_BUSY && d->seen.room == ROOM_HOLD)
		at = owner->tick_ns + device_wait(g, d);
	else
		return 0;
	if (at < d->ledger.chain_until_ns)
		at = d->ledger.chain_until_ns;
	return at > d->hold.blocked_until_ns ? at : d->hold.blocked_until_ns;
}

/* --- the memory figure of a hold --- */

void hold_note_settled(struct guard *g, struct device *d)
{
	uint64_t seen = verdict_used(d), excess;

	if (d->state != DEV_HELD || !figure_awaited(&d->figure) ||
	    d->sample.look.begin_ns < d->figure.at_ns)
		return;
	excess = baseline_excess(&d->figure.baseline, seen, verdict_own_bytes(d), d->holder.held);
	figure_take(&d->figure, verdict_may_hide(g) ? seen - excess : seen);
	if (d->figure.used < seen)
		eyes_look_now(g->eyes, d->slot); /* that one is the verdict */
}

/* --- the start --- */

/* Who tests a device is told that it cannot be: that it is tried again is no use to him. */
static uint64_t tell_failed(struct guard *g, struct device *d, bool held, const char *why)
{
	const unsigned int doubled = d->hold.failures < 4 ? d->hold.failures : 4;
	const struct client *owner = device_owner(g, d);
	const uint64_t again_ns = BLOCK_NS << doubled;

	if (owner && client_burns(owner)) {
		(void)event_add(g, d, EVENT_FAILED, held ? "%s" : "not held: %s", why);
		return owner->policy.rehold_ms * NS_PER_MS;
	}
	(void)event_add(g, d, EVENT_FAILED,
			held ? "%s, and is ended (held again in %u min at the earliest)"
			     : "not held: %s (next try in %u min)",
			why, (unsigned int)(again_ns / NS_PER_S / 60));
	return again_ns;
}

static void hold_failed(struct guard *g, struct device *d, const char *why)
{
	bool held = d->holder.held > 0; /* it had the memory, and said so */

	d->hold.blocked_until_ns = clock_mono_ns() + tell_failed(g, d, held, why);
	d->hold.failures++;
	(void)str_print(d->hold.blocked_why, sizeof(d->hold.blocked_why), "%s: %s",
			held ? "was held, and is not held again yet" : "could not be held", why);
	d->said.who_pid = 0; /* whoever is there is named again by the next look */
	device_say(d, "%s", d->hold.blocked_why);
}

/* The amount may come to nothing with what is free just now. True, and the reason, when it does. */
static bool nothing_to_take(struct guard *g, struct device *d)
{
	const struct mem_amount *m = &device_policy(g, d)->memory;

	if (!(d->sample.look.valid & GPU_VALID_MEM) || mem_amount_bytes(m, d->sample.look.free) > 0)
		return false;
	if (m->kind == MEM_ALL_BUT)
		device_say(d,
			   "idle; nothing to hold: %.1f GiB are free, and %.1f GiB are to stay so",
			   in_gib(d->sample.look.free), in_gib(m->bytes));
	else
		device_say(d, "idle; nothing to hold: no memory is free");
	return true;
}

void hold_begin(struct guard *g, struct device *d)
{
	struct err e = ERR_INIT;
	struct dev_reason why;
	bool again = d->holder.kept;

	if (nothing_to_take(g, d))
		return;
	if (!device_may_hold(d, &why)) {
		device_say_reason(d, &why);
		return;
	}
	d->hold.before = d->sample.look.procs;
	/* A context that is there already is ours, and not what was before. */
	baseline_begin(&d->figure.baseline, verdict_used(d), again, verdict_own_bytes(d));
	if (again) {
		holder_again(g, d);
	} else if (holder_start(g, d, &e) < 0) {
		device_unlock(d);
		hold_failed(g, d, e.text);
		return;
	}
	figure_off(&d->figure);
	device_say(d, again ? "holder PID %d takes the memory again" : "holder PID %d starts",
		   (int)d->holder.pid);
	(void)event_add_reason(g, d, EVENT_START, "");
	(void)device_step(g, d, EV_READY);
}

void hold_adapt(struct guard *g, struct device *d, const struct hold_policy *before)
{
	const struct hold_policy *p = &device_owner(g, d)->policy;

	if (p->util != before->util)
		d->load.duty_permille = p->util * 10U;
	if (p->load != before->load || p->util != before->util)
		d->load.phase_ns = clock_mono_ns();
	if (!p->rest_ms)
		d->load.resting = false;
	if (p->burn.id != before->burn.id)
		holder_close_burn(d);
	if (memcmp(&p->memory, &before->memory, sizeof(p->memory)) != 0) {
		figure_off(&d->figure);
		holder_tell_amount(d, &p->memory);
	}
	load_control_on_time(d, p, clock_mono_ns());
}

/* --- what the holder says --- */

static void tell_let_go(struct guard *g, struct device *d, uint64_t freed_ns, uint64_t bytes)
{
	static const char *const leads[EVENT_KIND_MAX] = { [EVENT_YIELD] = "yielded to ",
							   [EVENT_RELEASE] = "released: ",
							   [EVENT_BLIND] = "released: ",
							   [EVENT_LENT] = "handed over: " };
	struct guard_event *rec = &d->hold.letting_go;
	uint64_t took = freed_ns > d->hold.verdict_ns ? freed_ns - d->hold.verdict_ns : 0;
	struct guard_event *ev =
		event_add_reason(g, d, (enum event_kind)rec->kind,
				 leads[rec->kind] ? leads[rec->kind] : "released: ");

	ev->bytes = bytes;
	ev->pid = rec->kind == EVENT_YIELD || rec->kind == EVENT_LENT ? d->said.who_pid : 0;
	if (rec->kind == EVENT_LENT)
		ev->lease = rec->lease;
	if (ev->pid && d->said.who_uid != UINT32_MAX) {
		ev->uid = d->said.who_uid;
		(void)str_copy(ev->command, sizeof(ev->command), d->said.who_comm);
	}
	ev->hint_to_verdict_ns = rec->hint_to_verdict_ns;
	ev->verdict_to_freed_ns = took;
	if (rec->kind == EVENT_LENT)
		event_share(g, ev, rec->instance);
}

void hold_say_held(struct guard *g, struct device *d)
{
	const struct lease *l = ledger_first(g, d);
	struct dev_reason r = { .code = DEV_REASON_HELD, .uid = DEV_REASON_NO_UID };
	char id[LEASE_TEXT_MAX];

	if (d->state != DEV_HELD)
		return;
	if (l)
		(void)str_print(r.text, sizeof(r.text), "%s of %s%s", lease_id_text(&l->id, id),
				l->instance,
				l->flags & LEASE_RESERVED ? ", which waits for more" : "");
	else
		(void)str_copy(r.text, sizeof(r.text),
			       device_owner(g, d) ? device_owner(g, d)->instance : "nobody");
	device_say_reason(d, &r);
}

static void on_held(struct guard *g, struct device *d, const struct holder_msg *m)
{
	struct guard_event *ev;
	bool first = d->state == DEV_HOLDING;
	const char *how = first			      ? "held %.1f GiB"
			  : m->bytes > d->holder.held ? "grew to %.1f GiB"
						      : "holds %.1f GiB now";

	d->holder.held = m->bytes;
	d->holder.wanted = m->wanted;
	figure_due(&d->figure, m->at_ns + BASELINE_NS, m->at_ns);
	d->hold.grow_at_ns = m->at_ns + GROW_NS;
	(void)device_step(g, d, EV_HELD);
	if (d->state != DEV_HELD)
		return;
	d->hold.failures = 0;
	d->hold.yielded = false;
	eyes_look_now(g->eyes, d->slot);
	hold_say_held(g, d);
	ev = event_add(g, d, EVENT_HELD, how, in_gib(m->bytes));
	ev->bytes = m->bytes;
	ev->took_ns = first ? m->at_ns - d->holder.started_ns : 0;
	d->dirty = true;
}

/* The longest of late: what one takes depends on who else has the driver's lock. */
static void note_free_time(struct device *d, uint64_t freed_ns)
{
	uint64_t took = freed_ns > d->holder.asked_ns ? freed_ns - d->holder.asked_ns : 0;

	d->hold.free_ns -= d->hold.free_ns / 4;
	if (took > d->hold.free_ns)
		d->hold.free_ns = took;
}

static void on_freed(struct guard *g, struct device *d, const struct holder_msg *m)
{
	if (!device_letting_go(d))
		return;
	d->holder.held = 0;
	note_free_time(d, m->at_ns);
	tell_let_go(g, d, m->at_ns, m->bytes);
	(void)device_step(g, d, EV_FREED);
}

/* To the client whose burn it is, or was: the last word of one comes when the device is not its own
 * any more. Dropped where it does not fit, as the next one tells more. */
static void tell_burn(struct guard *g, struct device *d, const struct holder_msg *told)
{
	const struct burn_report *found = &told->found;
	struct msg_burn m = { .head = PROTO_HEAD(MSG_BURN, struct msg_burn), .slot = d->slot };

	m.found = *found;
	CLIENTS_EACH(g, c)
		if (c->fd >= 0 && c->has_policy && found->id && c->policy.burn.id == found->id)
			(void)sock_send(c->fd, &m, sizeof(m));
	if (told->code)
		d->load.closing_id = 0;
}

static void on_window(struct device *d, const struct holder_msg *m)
{
	d->holder.window = m->peers.windows[0];
	d->holder.window.slot = d->slot;
}

static bool has_window(const struct device *d)
{
	return d->holder.pid && d->holder.window.bytes && device_holds(d);
}

/* The window of a device that is let go of is none any more. That it is still open somewhere keeps
 * nobody waiting: its holder has freed it, and whoever has it open closes it when told. */
void hold_tell_windows(struct guard *g)
{
	struct burn_peers all = { .n = 0 };

	DEVICES_EACH(g, d) {
		if (has_window(d) && d->slot < BURN_PEERS_MAX)
			all.windows[all.n++] = d->holder.window;
	}
	if (memcmp(&all, &g->windows, sizeof(all)) == 0)
		return;
	g->windows = all;
	DEVICES_EACH(g, d) {
		all.own = 0;
		while (all.own < all.n && all.windows[all.own].slot != d->slot)
			all.own++;
		holder_tell_peers(d, &all);
	}
}

static void on_message(struct guard *g, struct device *d, const struct holder_msg *m)
{
	d->holder.unanswered = 0;
	switch (m->type) {
	case HOLDER_HEARTBEAT:
		break;
	case HOLDER_READY:
		d->holder.ready = true;
		break;
	case HOLDER_HELD:
		on_held(g, d, m);
		break;
	case HOLDER_FREED:
		on_freed(g, d, m);
		break;
	case HOLDER_FAILED:
		hold_failed(g, d, m->text);
		break;
	case HOLDER_BURN:
		tell_burn(g, d, m);
		break;
	case HOLDER_WINDOW:
		on_window(d, m);
		break;
	default:
		holder_kill(d);
	}
}

void hold_on_holder(struct guard *g, struct device *d)
{
	struct holder_msg m;
	ssize_t n;

	while ((n = sock_recv(d->holder.fd, &m, sizeof(m))) > 0 && holder_msg_take(&m, n) == 0)
		on_message(g, d, &m);
	if (n == -EAGAIN)
		return;
	/* Its end of the socket is closed: the process is on its way out, or is not what we
	 * started. */
	d->holder.fd = fd_close(d->holder.fd);
	holder_kill(d);
}

static void describe_end(char *buf, size_t size, int status)
{
	if (WIFSIGNALED(status))
		(void)str_print(buf, size, "its holder was ended by signal %d", WTERMSIG(status));
	else if (WEXITSTATUS(status) == HOLDER_EXIT_ALONE)
		(void)str_print(buf, size, "its holder let go, because the guard was stopped");
	else
		(void)str_print(buf, size, "its holder ended (exit code %d)", WEXITSTATUS(status));
}

/* Somebody ended it: that is a wish to have the device, so wait as after a yield. */
static void on_holder_lost(struct guard *g, struct device *d, const char *how)
{
	uint64_t now = clock_mono_ns();

	d->hold.yielded = true;
	d->hold.check = true; /* who wanted it is seen at any time; the wait begins now */
	if (now < d->hold.blocked_until_ns)
		return;
	device_say(d, "%s", how);
	(void)event_add(g, d, EVENT_FAILED, "%s", how);
	d->hold.blocked_until_ns = now + device_policy(g, d)->rehold_ms * NS_PER_MS;
	(void)str_copy(d->hold.blocked_why, sizeof(d->hold.blocked_why), how);
}

void hold_on_child(struct guard *g, struct device *d)
{
	char how[96];
	int status;
	uint64_t now = clock_mono_ns();

	/* What it said before it ended comes first, and it may say it until it has. */
	if (!holder_has_ended(d))
		return;
	if (d->holder.fd >= 0)
		hold_on_holder(g, d);
	pid_t listed = d->holder.listed_pid ? d->holder.listed_pid : d->holder.pid;

	if (!holder_reap(d, &status))
		return;
	g->assign_due = true;
	d->hold.gone_pid = listed;
	d->hold.gone_ns = clock_mono_ns();
	device_unlock(d);
	figure_off(&d->figure);
	describe_end(how, sizeof(how), status);
	if (device_letting_go(d))
		tell_let_go(g, d, clock_mono_ns(), 0);
	if (d->state == DEV_HOLDING && now >= d->hold.blocked_until_ns)
		hold_failed(g, d, how);
	if (d->state == DEV_HELD)
		on_holder_lost(g, d, how);
	(void)event_add(g, d, EVENT_GONE, "holder and context are gone");
	(void)device_step(g, d, EV_GONE);
	eyes_look_now(g->eyes, d->slot);
}

/* --- what time brings --- */

/*
 * All that let go at the same time queue for one lock of the driver, and nobody sees whose turn it
 * is. So each has its share of the time that passes: the last of n that take t each has waited for
 * n * t then, and its shares are t/n + t/(n-1) + ... + t, which is below 4 t up to 30 devices.
 */
static void pass_freeing_time(const struct guard *g, struct device *d, uint64_t now)
{
	uint64_t turn =
		now - d->hold.turn_ns < FREEING_TURN_NS ? now - d->hold.turn_ns : FREEING_TURN_NS;
	unsigned int n = 0;

	DEVICES_EACH(g, other)
		n += device_letting_go(other);
	d->holder.freeing_ns += turn / n;
}

/*
 * A holder that was told to let go and will not: killed, the kernel takes the memory back within
 * 0.2 s, so the newcomer is to wait no longer than it takes to be sure. One that is stopped is so
 * at once. One that runs is only slow.
 */
static const char *will_not_free(const struct device *d, struct holder_proc *h, uint64_t now)
{
	struct proc_peek p = { .state = '?' };
	uint64_t limit = FREEING_TIMES * (d->hold.free_ns ? d->hold.free_ns : FREEING_FIRST_NS);

	if (now - h->peeked_ns < PEEK_NS)
		return NULL;
	h->peeked_ns = now;
	(void)proc_peek(h->pid, &p);
	if (p.state == 'T')
		return "its holder was stopped and could not let go";
	limit = limit > FREEING_LEAST_NS ? limit : FREEING_LEAST_NS;
	return h->freeing_ns >= limit && p.state != 'R' ? not_in_time : NULL;
}

/* What its holder is killed for just now, or NULL. */
static const char *overdue(struct guard *g, struct device *d, uint64_t now)
{
	bool hurry = g->quit_ns || (d->owner >= 0 && device_owner(g, d)->dropping);
	uint64_t took = now - d->since_ns;

	if (d->state == DEV_HOLDING && took >= HOLDING_NS)
		return "its holder hangs in the driver";
	if ((d->state == DEV_HELD || d->holder.kept) && d->holder.unanswered > HEARTBEATS_MAX)
		return "its holder did not answer any more";
	if (!device_letting_go(d))
		return NULL;
	if ((hurry && took >= FREEING_HURRY_NS) || d->holder.freeing_ns >= FREEING_NS)
		return not_in_time;
	return d->holder.ready ? will_not_free(d, &d->holder, now) : NULL;
}

void hold_check_limits(struct guard *g, struct device *d, uint64_t now)
{
	const char *why;

	if (d->holder.ending && now > d->holder.end_at_ns + ENDING_NS) {
		holder_kill(d);
		return;
	}
	if (device_letting_go(d))
		pass_freeing_time(g, d, now);
	why = overdue(g, d, now);
	if (!why)
		return;
	holder_kill(d); /* first of all */
	if (d->holder.kept)
		return; /* it holds nothing */
	if (!device_letting_go(d))
		device_record(d, EVENT_FAILED, now);
	/* Without a context it holds nothing yet: a slow start of CUDA is no failure of its. */
	if ((!device_letting_go(d) || d->holder.ready) &&
	    (!d->hold.blocked_until_ns || now > d->hold.blocked_until_ns))
		hold_failed(g, d, why);
	(void)device_step(g, d, EV_STUCK);
}

void hold_grow(struct guard *g, struct device *d, uint64_t now)
{
	const uint64_t worth_it = 512ULL << 20;

	if (d->state != DEV_HELD || now < d->hold.grow_at_ns || g->hint_on ||
	    d->seen.rise_since_ns || d->figure.is != FIGURE_TAKEN ||
	    d->holder.held + worth_it > d->holder.wanted || d->sample.look.free < worth_it)
		return;
	d->hold.grow_at_ns = now + GROW_NS;
	figure_due(&d->figure, now + BASELINE_NS, 0);
	holder_tell(d, HOLDER_GROW);
}

/* Where our context is kept the memory is taken at once: who came since the last look would get
 * none. So a device that has just become ripe is looked at, and held with the answer. */
void hold_promised(struct guard *g, struct device *d, uint64_t now)
{
	bool was_ripe = d->ledger.promise.ripe;

	d->ledger.promise.ripe = false;
	if (!d->ledger.promise.wanted || device_occupied(d) || d->state == DEV_LENT)
		return;
	d->ledger.promise.ripe = hold_ripe(g, d, now);
	if (d->ledger.promise.ripe && now < d->sample.look.end_ns + PROMISED_FRESH_NS) {
		const struct client *c = client_find(g, ledger_first(g, d)->instance);

		if (!c || !c->has_policy || !limit_hold(g, c, d))
			hold_begin(g, d);
	} else if (now >= d->ledger.promise.check_ns || (d->ledger.promise.ripe && !was_ripe)) {
		d->ledger.promise.check_ns = now + PROMISED_LOOK_NS;
		d->hold.check = true;
		eyes_look_now(g->eyes, d->slot);
	}
}

void hold_want_promised(struct guard *g, struct device *d, bool wanted)
{
	if (wanted == d->ledger.promise.wanted)
		return;
	d->ledger.promise.wanted = wanted;
	d->ledger.promise.check_ns = 0;
	if (wanted)
		device_take(g, d);
	if (d->state == DEV_IDLE)
		device_set_wait(g, d);
	if (wanted)
		hold_promised(g, d, clock_mono_ns());
	else if (device_holds(d) && !hold_has_future(g, d) && !d->ledger.n_awaited)
		device_unwant(g, d, "the task that it was held for does not come");
}
