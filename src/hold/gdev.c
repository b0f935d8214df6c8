/* SPDX-License-Identifier: MIT */
/*
 * One device in the guard.
 *
 * Everything that happens to it becomes an event of the state table (state.c); step() does what the
 * table says. The yield path is: gdev_on_sight() -> gjudge() -> step(EV_FOREIGN) -> RELEASE is on
 * its way to the holder. Nothing else is done before that: no look-up of names, no record, no
 * socket but the holder's. What there is to tell is told when the memory is free.
 */
#include "hold/gdev.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/sock.h"
#include "base/str.h"
#include "hold/gclient.h"
#include "hold/gevent.h"
#include "hold/gholder.h"
#include "hold/gjudge.h"
#include "hold/glease.h"
#include "hold/loadctl.h"
#include "hold/own.h"

#define SETTLE_NS      (300 * NS_PER_MS) /* after a hold: then the memory figure is that of the hold */
#define LINGER_NS      (2 * NS_PER_S) /* context kept after a yield: the newcomer starts undisturbed */
#define HOLDING_LIMIT  (30 * NS_PER_S)	 /* to make a context and take the memory */
#define FREEING_LIMIT  NS_PER_S		 /* to free it; seen: 40-330 ms */
#define HURRY_LIMIT    (500 * NS_PER_MS) /* the same where all has to be gone within a second */
#define BEATS_LIMIT    10		 /* of a holder that holds, unanswered: 5 s */
#define ENDING_LIMIT   (2 * NS_PER_S)	 /* to end the process */
#define GROW_NS	       (5 * NS_PER_S)	 /* between two tries to take what is missing */
#define WHILE_CHECK_NS NS_PER_S		 /* looks at a device that a promise wants held */
#define BLOCK_NS       (60 * NS_PER_S)	 /* after a failed hold, doubled up to 16 times that */

void gdev_say(struct gdev *d, const char *fmt, ...)
{
	char text[PROTO_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!strcmp(text, d->reason))
		return;
	(void)str_copy(d->reason, sizeof(d->reason), text);
	d->reason_pid = 0;
	d->dirty = true;
}

/* Up to a quarter of ms more, so that two of us on two accounts never answer each other in step. */
static uint64_t with_jitter(uint64_t ms, uint16_t random)
{
	return (ms + ms * random / (4 * UINT16_MAX)) * NS_PER_MS;
}

static void draw_jitter(struct gdev *d)
{
	if (getrandom(&d->jitter, sizeof(d->jitter), GRND_NONBLOCK) != sizeof(d->jitter))
		d->jitter = (uint16_t)clock_mono_ns();
}

void gdev_reset_idle(struct gdev *d, uint64_t now_ns)
{
	d->idle_since_ns = now_ns;
	d->dirty = true;
}

/* The idle time that is asked of d before it is held. */
static uint64_t wait_for(const struct guard *g, const struct gdev *d)
{
	const struct hold_policy *p = gdev_policy(g, d);

	if (d->yielded)
		return with_jitter(p->rehold_ms, d->jitter);
	if (d->owner < 0 || d->came_home || d->hold_while)
		return 0;
	return p->idle_for_ms * NS_PER_MS;
}

static void set_wait(struct guard *g, struct gdev *d)
{
	d->wait_ns = wait_for(g, d);
}

static void enter(struct guard *g, struct gdev *d, enum dev_state next)
{
	uint64_t now = clock_mono_ns();

	if (next == d->state)
		return;

	/* What nobody selects is nobody's news. */
	bool quiet = d->state == DEV_LEFT || (next == DEV_LEFT && d->owner < 0) ||
		     (d->state == DEV_YIELDING && d->letting_go.kind == EVENT_RELEASE) ||
		     (d->state == DEV_LENT && next == DEV_IDLE);

	d->state = next;
	d->since_ns = now;
	d->dirty = true;
	d->came_home = d->came_home && next == DEV_IDLE;
	if (next == DEV_BUSY)
		draw_jitter(d);
	if (next == DEV_IDLE) {
		d->announced = true;
		d->who_pid = 0;
		d->idle_since_ns = now;
		set_wait(g, d);
		if (now < d->blocked_until_ns)
			gdev_say(d, "%s", d->blocked_why);
		else
			gdev_say(d, "nothing foreign");
	}
	if ((next == DEV_IDLE || next == DEV_BUSY || next == DEV_LEFT) && !quiet)
		(void)gevent_add(g, d, EVENT_STATE, "%s: %s", dev_state_name(next), d->reason);
}

static void act(struct gdev *d, enum dev_action action)
{
	uint64_t now = clock_mono_ns();

	switch (action) {
	case ACT_RELEASE:
		gholder_tell(d, HOLDER_RELEASE);
		d->holder.asked_ns = now;
		d->settled_used = 0;
		d->settle_at_ns = 0;
		break;
	case ACT_SETTLE:
		/* A newcomer's start would wait for our context's end; nobody's does otherwise. */
		d->holder.end_at_ns = now + (d->letting_go.kind == EVENT_YIELD ? LINGER_NS : 0);
		break;
	case ACT_KEEP:
		d->holder.kept = true;
		break;
	case ACT_KILL:
		gholder_kill(d);
		break;
	case ACT_START:
	case ACT_NONE:
	case ACT_MAX:
		break;
	}
}

/* Apply one event. True when the table had a step for it. */
static bool step(struct guard *g, struct gdev *d, enum dev_event event)
{
	enum dev_state before = d->state;
	struct dev_step s = dev_state_step(d->state, event);

	act(d, s.action);
	enter(g, d, s.next);
	return s.next != before || s.action != ACT_NONE;
}

void gdev_unlock(struct gdev *d)
{
	if (!d->holder.pid && !d->n_leases)
		d->lock_fd = fd_close(d->lock_fd);
}

bool gdev_lock(struct gdev *d, struct err *e)
{
	struct err other = ERR_INIT;
	char name[108];
	uid_t uid;

	if (d->lock_fd >= 0)
		return true;
	(void)str_print(name, sizeof(name), "tenure/dev/%s", d->id.uuid);
	/* Nobody is ever accepted there: whoever connects learns whose it is, and goes. */
	d->lock_fd = sock_listen(name, &other);
	if (d->lock_fd >= 0)
		return true;
	if (sock_listener_uid(name, &uid) == 0)
		(void)err_set(e, -EBUSY, "tenure of uid %u has it", (unsigned int)uid);
	else
		(void)err_set(e, -EBUSY, "tenure of another user has it");
	return false;
}

/* --- what is seen --- */

/* Begin the record of letting go; told when the memory is free. */
static void begin_record(struct gdev *d, enum event_kind kind, uint64_t verdict_ns)
{
	d->letting_go = (struct guard_event){ .kind = kind };
	d->verdict_ns = verdict_ns;
}

static void on_foreign(struct guard *g, struct gdev *d, enum verdict v, const struct gpu_proc *who)
{
	enum event_kind kind = v == SEEN_UNFIT ? EVENT_RELEASE : EVENT_YIELD;

	if (d->state == DEV_HOLDING || d->state == DEV_HELD) {
		act(d, ACT_RELEASE); /* first of all */
		begin_record(d, kind, d->sight.look.end_ns);
		if (v == SEEN_FOREIGN) {
			d->yields++;
			d->yielded = true;
			d->unlisted_yield = !who;
			d->unlisted_ns = d->sight.look.end_ns;
		}
	}
	if (who)
		gjudge_name(g, d, who);
	else
		d->who_pid = 0;
	if (!who && v == SEEN_FOREIGN)
		d->reason_pid = -1;
	if (d->state == DEV_HOLDING || d->state == DEV_HELD)
		enter(g, d, DEV_YIELDING);
	else
		(void)step(g, d, EV_FOREIGN);
}

/*
 * Somebody foreign on a device that is lent. While the task itself was not seen there it was they
 * who came, and the record says so.
 */
static void on_neighbour(struct guard *g, struct gdev *d, const struct gpu_proc *who)
{
	if (!who)
		return;
	gjudge_name(g, d, who);
	if (d->state == DEV_LENDING && d->n_awaited && d->letting_go.kind == EVENT_LENT) {
		d->letting_go.kind = EVENT_YIELD;
		d->yields++;
	}
}

void gdev_lend(struct guard *g, struct gdev *d)
{
	const struct glease *l = glease_first(g, d);
	char id[LEASE_TEXT_MAX];
	struct guard_event *ev;

	if (gdev_occupied(d) || d->state == DEV_LENT || !l)
		return;
	d->before = d->sight.look.procs;
	d->check = false;
	gdev_say(d, "lent to task %s", lease_id_text(&l->id, id));
	(void)step(g, d, EV_LEND);
	ev = gevent_add(g, d, EVENT_LENT, "%s", d->reason);
	ev->lease = l->id;
}

static bool wants_hold(const struct gclient *owner)
{
	return owner && owner->policy.hold && !owner->dropping && !owner->silent;
}

/* Its owner, or a lease, wants it held, so that a context of ours on it has a future. */
static bool has_future(struct guard *g, const struct gdev *d)
{
	return !g->quit_ns && (d->hold_while || (wants_hold(gdev_owner(g, d)) && !d->left));
}

/* Our context beside the task is there until the task shows, or for the hold that follows. */
static void drop_placeholder(struct guard *g, struct gdev *d)
{
	const struct glease *l = glease_first(g, d);

	bool hurry = d->owner < 0 || gdev_owner(g, d)->dropping;

	if (!d->holder.kept || d->holder.end_at_ns || (d->n_awaited && !hurry) ||
	    (has_future(g, d) && !(l && l->flags & LEASE_ALONE)))
		return;
	d->holder.end_at_ns = clock_mono_ns();
}

/* The last task on it is over. With nobody else there it is idle and, if wanted, held at once. */
static void come_home(struct guard *g, struct gdev *d, enum verdict v, const struct gpu_proc *who)
{
	struct guard_event *ev;
	char id[LEASE_TEXT_MAX];

	ev = gevent_add(g, d, EVENT_RETURNED, "back from task %s", lease_id_text(&d->last, id));
	ev->lease = d->last;
	ev->took_ns = clock_mono_ns() - d->last_over_ns;
	if (v == SEEN_CLEAR) {
		d->came_home = true;
		d->yielded = false;
		d->who_pid = 0;
		(void)step(g, d, EV_RETURNED);
		if (d->owner >= 0)
			gclient_consider(g, gdev_owner(g, d));
		return;
	}
	if (v == SEEN_FOREIGN && who)
		gjudge_name(g, d, who);
	(void)step(g, d, EV_AWAY);
	if (d->holder.kept) /* a newcomer's start would wait for its end */
		d->holder.end_at_ns = clock_mono_ns() + LINGER_NS;
}

static void say_lent(struct guard *g, struct gdev *d, const struct gpu_proc *neighbour)
{
	const struct glease *l = glease_first(g, d);
	char id[LEASE_TEXT_MAX], beside[96] = "", text[64] = "";

	if (!l)
		return;
	if (neighbour)
		(void)str_print(beside, sizeof(beside), "; beside it PID %d", (int)neighbour->pid);
	if (l->stage == LEASE_OVER)
		(void)str_print(text, sizeof(text),
				l->n_procs ? ", which is over; PID %d of it is left"
					   : ", which is over",
				(int)l->proc);
	gdev_say(d, "lent to task %s%s%s", lease_id_text(&l->id, id), text, beside);
}

static void on_lent(struct guard *g, struct gdev *d, enum verdict v, const struct gpu_proc *who)
{
	if (!d->n_leases) {
		come_home(g, d, v, who);
		return;
	}
	drop_placeholder(g, d);
	say_lent(g, d, v == SEEN_FOREIGN ? who : NULL);
}

/* What is in use but for the owner's exceptions. */
static uint64_t used_but_excused(const struct gdev *d)
{
	uint64_t used = d->sight.look.used;

	return used - (d->excused_bytes < used ? d->excused_bytes : used);
}

/* Memory of our holder as the driver lists it; 0: it does not say. */
static uint64_t listed_bytes(const struct gdev *d)
{
	const struct gpu_procs *procs = &d->sight.look.procs;

	for (uint32_t i = 0; i < procs->n; i++)
		if (procs->p[i].pid == d->holder.listed_pid && !procs->p[i].graphics &&
		    procs->p[i].used_known)
			return procs->p[i].used_bytes;
	return 0;
}

static void note_settled(struct guard *g, struct gdev *d)
{
	uint64_t seen = used_but_excused(d), excess;

	if (d->state != DEV_HELD || !d->settle_at_ns || d->sight.look.begin_ns < d->settle_at_ns)
		return;
	excess = settle_excess(&d->settle, seen, listed_bytes(d), d->holder.held);
	d->settled_used = gjudge_may_hide(g) ? seen - excess : seen;
	d->settle_at_ns = 0;
	if (d->settled_used < seen)
		eyes_look_now(g->eyes, d->slot); /* that one is the verdict */
}

/* Until the refresh clock turns the device stays busy; its reason must not. */
static void say_gone(struct gdev *d)
{
	if (d->reason_pid > 0)
		gdev_say(d, "PID %d is gone", (int)d->reason_pid);
	else if (d->reason_pid < 0)
		gdev_say(d, "who used its memory is gone");
	d->who_pid = 0;
}

static void on_clear(struct guard *g, struct gdev *d)
{
	struct gclient *owner = gdev_owner(g, d);

	if (d->state == DEV_HELD) {
		own_learn(g, d, &d->sight.look);
		note_settled(g, d);
	}
	if (d->state == DEV_BUSY && !d->check)
		say_gone(d);
	/* The idle clock starts at a check; a rise is seen at any look. */
	if (d->state == DEV_BUSY && d->check) {
		d->who_pid = 0;
		(void)step(g, d, EV_CLEAR);
		if (owner && !owner->policy.hold)
			gdev_say(d, "nothing foreign; watched only");
	}
}

static void control_load(struct guard *g, struct gdev *d)
{
	const struct hold_policy *p = &gdev_owner(g, d)->policy;

	uint64_t now = clock_mono_ns(), begun = d->since_ns;

	/* The figure trails: what it says just after a rest is still about the rest. */
	if (d->load.phase_ns > begun)
		begun = d->load.phase_ns;
	if (d->state != DEV_HELD || !d->sight.complete || d->load.resting || p->load == LOAD_NONE ||
	    !(d->sight.look.valid & GPU_VALID_UTIL) || now - begun < 3 * NS_PER_S)
		return;
	d->load.duty_permille = loadctl_step(d->load.duty_permille, d->sight.look.util, p->util_low,
					     p->util, p->util_high);
	gholder_tell_load(d, (enum load_kind)p->load, d->load.duty_permille);
}

/* A task of ours came: let go as for a newcomer, and record it as what it is. */
static void on_ours(struct guard *g, struct gdev *d, const struct gpu_proc *who)
{
	const struct glease *l;
	char id[LEASE_TEXT_MAX];

	if (!gdev_holds(d))
		return;
	act(d, ACT_RELEASE); /* first of all */
	begin_record(d, EVENT_LENT, d->sight.look.end_ns);
	enter(g, d, DEV_LENDING);
	l = glease_first(g, d);
	if (l)
		d->letting_go.lease = l->id;
	if (who)
		gjudge_name(g, d, who);
	else
		gjudge_note_hint(g, d, l ? l->asked_ns : 0);
	gdev_say(d, "lent to task %s", l ? lease_id_text(&l->id, id) : "?");
}

static void on_verdict(struct guard *g, struct gdev *d, enum verdict v, const struct gpu_proc *who)
{
	if (v == SEEN_OURS)
		on_ours(g, d, who);
	else if (v == SEEN_CLEAR)
		on_clear(g, d);
	else if (d->state == DEV_LENDING || d->state == DEV_LENT)
		on_neighbour(g, d, who);
	else
		on_foreign(g, d, v, who);
}

void gdev_on_sight(struct guard *g, struct gdev *d)
{
	const struct gpu_proc *who;

	if (d->sight.code < 0) {
		if (!d->failing)
			(void)gevent_add(g, d, EVENT_LOST, "cannot see it: %s", d->sight.trouble);
		d->failing = true;
		gdev_blind(g, d, d->sight.trouble);
		return;
	}
	if (d->failing)
		(void)gevent_add(g, d, EVENT_BACK, "can be seen again");
	d->failing = false;
	if (d->state == DEV_LEFT && !d->n_leases) {
		d->dirty = true;
		return;
	}

	/* What was seen while its last holder lived is about that: the memory, too. */
	if (d->gone_ns && d->sight.look.begin_ns <= d->gone_ns && !d->holder.pid) {
		d->dirty = true;
		return;
	}

	enum verdict v = gjudge(g, d, &who);

	d->clear = v == SEEN_CLEAR;
	on_verdict(g, d, v, who);
	gjudge_note_hidden(g, d, v, who);
	if (d->n_leases)
		glease_on_sight(g, d, v);
	if (d->state == DEV_LENT)
		on_lent(g, d, v, who);
	else if (d->n_running)
		gdev_lend(g, d);
	if (!d->announced && d->state == DEV_BUSY && v != SEEN_CLEAR) {
		d->announced = true;
		(void)gevent_add(g, d, EVENT_STATE, "busy: %s", d->reason);
	}
	if (d->owner >= 0)
		control_load(g, d);
	d->dirty = true;
}

void gdev_blind(struct guard *g, struct gdev *d, const char *reason)
{
	if (d->state == DEV_HOLDING || d->state == DEV_HELD)
		begin_record(d, EVENT_BLIND, clock_mono_ns());
	if (d->holder.kept && !d->holder.end_at_ns)
		d->holder.end_at_ns = clock_mono_ns();
	if (d->state == DEV_LEFT)
		return;
	d->yielded = d->yielded || gdev_occupied(d);
	d->who_pid = 0;
	gdev_say(d, "cannot be seen: %s", reason);
	if (d->state == DEV_IDLE || gdev_occupied(d))
		(void)step(g, d, EV_BLIND);
}

/* --- what the policies want --- */

static void turn_cycle(struct guard *g, struct gdev *d, uint64_t now)
{
	const struct hold_policy *p = &gdev_owner(g, d)->policy;

	if (d->state != DEV_HELD)
		return;
	if (p->rest_ms) {
		uint64_t phase_ms = d->load.resting ? p->rest_ms : p->work_ms;

		if (now - d->load.phase_ns >= phase_ms * NS_PER_MS) {
			d->load.resting = !d->load.resting;
			d->load.phase_ns = now;
		}
	} else {
		d->load.resting = false;
	}
	gholder_tell_load(d, d->load.resting ? LOAD_NONE : (enum load_kind)p->load,
			  d->load.duty_permille);
}

void gdev_adapt(struct guard *g, struct gdev *d, const struct hold_policy *before)
{
	const struct hold_policy *p = &gdev_owner(g, d)->policy;

	if (p->util != before->util)
		d->load.duty_permille = p->util * 10U;
	if (p->load != before->load || p->util != before->util)
		d->load.phase_ns = clock_mono_ns();
	if (!p->rest_ms)
		d->load.resting = false;
	if (memcmp(&p->memory, &before->memory, sizeof(p->memory)) != 0) {
		d->settled_used = 0;
		d->settle_at_ns = 0;
		gholder_tell_amount(d, &p->memory);
	}
	turn_cycle(g, d, clock_mono_ns());
}

void gdev_unwant(struct guard *g, struct gdev *d, const char *reason)
{
	if (d->state != DEV_HOLDING && d->state != DEV_HELD)
		return;
	begin_record(d, EVENT_RELEASE, clock_mono_ns());
	gdev_say(d, "%s", reason);
	(void)step(g, d, EV_UNWANTED);
}

static void describe_left(const struct guard *g, const struct gdev *d, char *buf, size_t size)
{
	const struct gclient *c = d->leaver >= 0 ? &g->clients[d->leaver] : NULL;

	if (c)
		(void)str_print(buf, size, "left for others by %s (leave %u)", c->instance,
				c->policy.leave);
	else
		(void)str_copy(buf, size, "not selected");
}

/* Let go of it if need be, and then leave it alone; called again until that is done. */
static void leave(struct guard *g, struct gdev *d)
{
	char why[PROTO_TEXT_MAX];

	if (d->hold_while || d->state == DEV_LENDING || d->state == DEV_LENT)
		return;
	describe_left(g, d, why, sizeof(why));
	gdev_unwant(g, d, why);
	if (gdev_occupied(d))
		return;
	gdev_say(d, "%s", why);
	if (d->state != DEV_LEFT)
		(void)step(g, d, EV_LEAVE);
}

/* It is somebody's business again. */
static void take(struct guard *g, struct gdev *d)
{
	const char *unfit = gpu_unfit(&d->id, &d->sight.look);

	if (d->state != DEV_LEFT)
		return;
	d->announced = false;
	gdev_say(d, "%s", unfit ? unfit : "not looked at yet");
	(void)step(g, d, EV_TAKE);
}

void gdev_assign(struct guard *g, struct gdev *d, int owner, int leaver)
{
	bool left = owner < 0 || leaver >= 0;
	bool changed = d->owner != owner;

	if (changed) {
		d->owner = owner;
		d->yielded = false;
		d->dirty = true;
	}
	d->left = left;
	d->leaver = leaver;
	if (left)
		leave(g, d);
	if (!left)
		take(g, d);
	if (d->state == DEV_IDLE)
		set_wait(g, d);
}

bool gdev_ripe(struct guard *g, const struct gdev *d, uint64_t now_ns)
{
	const struct gclient *owner = gdev_owner(g, d);

	/* What an orphan holds is kept for its next agent; nothing new is held for nobody. */
	bool wanted = d->hold_while || (wants_hold(owner) && !owner->orphan_until_ns);

	return wanted && !g->quit_ns && d->present && d->state == DEV_IDLE &&
	       (!d->holder.pid || (d->holder.kept && !d->holder.ending)) &&
	       now_ns >= d->blocked_until_ns && now_ns - d->idle_since_ns >= d->wait_ns;
}

uint64_t gdev_hold_at(struct guard *g, const struct gdev *d)
{
	const struct gclient *owner = gdev_owner(g, d);
	uint64_t at;

	if (!wants_hold(owner) || owner->orphan_until_ns || d->left || g->quit_ns)
		return 0;
	if (d->state == DEV_IDLE)
		at = d->idle_since_ns + d->wait_ns;
	else if (d->state == DEV_BUSY && d->clear)
		at = owner->tick_ns + wait_for(g, d);
	else
		return 0;
	return at > d->blocked_until_ns ? at : d->blocked_until_ns;
}

static void hold_failed(struct guard *g, struct gdev *d, const char *why)
{
	unsigned int doubled = d->failures < 4 ? d->failures : 4;
	bool held = d->holder.held > 0; /* it had the memory, and said so */

	d->failures++;
	d->blocked_until_ns = clock_mono_ns() + (BLOCK_NS << doubled);
	(void)gevent_add(g, d, EVENT_FAILED,
			 held ? "%s, and is ended (held again in %u min at the earliest)"
			      : "not held: %s (next try in %u min)",
			 why, (unsigned int)((BLOCK_NS << doubled) / NS_PER_S / 60));
	(void)str_print(d->blocked_why, sizeof(d->blocked_why), "%s: %s",
			held ? "was held, and is not held again yet" : "could not be held", why);
	d->who_pid = 0; /* whoever is there is named again by the next look */
	gdev_say(d, "%s", d->blocked_why);
}

/* The amount may come to nothing with what is free just now. True, and the reason, when it does. */
static bool nothing_to_take(struct guard *g, struct gdev *d)
{
	const struct mem_amount *m = &gdev_policy(g, d)->memory;

	if (!(d->sight.look.valid & GPU_VALID_MEM) || mem_amount_bytes(m, d->sight.look.free) > 0)
		return false;
	if (m->kind == MEM_ALL_BUT)
		gdev_say(d, "idle; nothing to hold: %.1f GiB are free, and %.1f GiB are to stay so",
			 in_gib(d->sight.look.free), in_gib(m->bytes));
	else
		gdev_say(d, "idle; nothing to hold: no memory is free");
	return true;
}

void gdev_hold(struct guard *g, struct gdev *d)
{
	struct err e = ERR_INIT;
	bool again = d->holder.kept;

	if (nothing_to_take(g, d))
		return;
	if (!gdev_lock(d, &e)) {
		gdev_say(d, "%s", e.text);
		return;
	}
	d->before = d->sight.look.procs;
	/* A context that is there already is ours, and not what was before. */
	settle_begin(&d->settle, used_but_excused(d) - listed_bytes(d));
	if (again) {
		gholder_again(g, d);
	} else if (gholder_start(g, d, &e) < 0) {
		gdev_unlock(d);
		hold_failed(g, d, e.text);
		return;
	}
	d->settled_used = 0;
	d->settle_at_ns = 0;
	gdev_say(d, again ? "holder PID %d takes the memory again" : "holder PID %d starts",
		 (int)d->holder.pid);
	(void)gevent_add(g, d, EVENT_START, "%s", d->reason);
	(void)step(g, d, EV_READY);
}

/* --- what the holder says --- */

static void tell_let_go(struct guard *g, struct gdev *d, uint64_t freed_ns, uint64_t bytes)
{
	static const char *const words[EVENT_KIND_MAX] = { [EVENT_YIELD] = "yielded to",
							   [EVENT_RELEASE] = "let go:",
							   [EVENT_BLIND] = "let go:",
							   [EVENT_LENT] = "handed over:" };
	struct guard_event *rec = &d->letting_go;
	uint64_t took = freed_ns > d->verdict_ns ? freed_ns - d->verdict_ns : 0;
	struct guard_event *ev =
		gevent_add(g, d, (enum event_kind)rec->kind, "%s %s",
			   words[rec->kind] ? words[rec->kind] : "let go:", d->reason);

	ev->bytes = bytes;
	ev->pid = rec->kind == EVENT_YIELD || rec->kind == EVENT_LENT ? d->who_pid : 0;
	if (rec->kind == EVENT_LENT)
		ev->lease = rec->lease;
	if (ev->pid && d->who_uid != UINT32_MAX) {
		(void)str_print(ev->user, sizeof(ev->user), "uid %u", d->who_uid);
		(void)str_copy(ev->command, sizeof(ev->command), d->who_comm);
	}
	ev->hint_to_verdict_ns = rec->hint_to_verdict_ns;
	ev->verdict_to_freed_ns = took;
}

static void say_held(struct guard *g, struct gdev *d)
{
	const struct glease *l = glease_first(g, d);
	char id[LEASE_TEXT_MAX];

	if (l)
		gdev_say(d, "held for task %s of %s", lease_id_text(&l->id, id), l->instance);
	else
		gdev_say(d, "held for %s",
			 gdev_owner(g, d) ? gdev_owner(g, d)->instance : "nobody");
}

static void on_held(struct guard *g, struct gdev *d, const struct holder_msg *m)
{
	struct guard_event *ev;
	bool first = d->state == DEV_HOLDING;
	const char *how = first			      ? "held %.1f GiB"
			  : m->bytes > d->holder.held ? "grew to %.1f GiB"
						      : "holds %.1f GiB now";

	d->holder.held = m->bytes;
	d->holder.wanted = m->wanted;
	d->settled_used = 0;
	d->settle_at_ns = m->at_ns + SETTLE_NS;
	d->settle_asked = false;
	d->grow_at_ns = m->at_ns + GROW_NS;
	(void)step(g, d, EV_HELD);
	if (d->state != DEV_HELD)
		return;
	d->failures = 0;
	d->yielded = false;
	eyes_look_now(g->eyes, d->slot);
	say_held(g, d);
	ev = gevent_add(g, d, EVENT_HELD, how, in_gib(m->bytes));
	ev->bytes = m->bytes;
	ev->took_ns = first ? m->at_ns - d->holder.started_ns : 0;
	d->dirty = true;
}

static void on_freed(struct guard *g, struct gdev *d, const struct holder_msg *m)
{
	if (!gdev_letting_go(d))
		return;
	d->holder.held = 0;
	tell_let_go(g, d, m->at_ns, m->bytes);
	(void)step(g, d, EV_FREED);
}

static void on_message(struct guard *g, struct gdev *d, const struct holder_msg *m)
{
	d->holder.unanswered = 0;
	switch (m->type) {
	case HOLDER_BEAT:
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
	default:
		gholder_kill(d);
	}
}

void gdev_on_holder(struct guard *g, struct gdev *d)
{
	struct holder_msg m;
	ssize_t n;

	while ((n = sock_recv(d->holder.fd, &m, sizeof(m))) == (ssize_t)sizeof(m))
		on_message(g, d, &m);
	if (n == -EAGAIN)
		return;
	/* Its end of the socket is closed: the process is on its way out, or is not what we
	 * started. */
	d->holder.fd = fd_close(d->holder.fd);
	gholder_kill(d);
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
static void on_holder_lost(struct guard *g, struct gdev *d, const char *how)
{
	uint64_t now = clock_mono_ns();

	d->yielded = true;
	d->check = true; /* who wanted it is seen at any time; the wait begins now */
	if (now < d->blocked_until_ns)
		return;
	gdev_say(d, "%s", how);
	(void)gevent_add(g, d, EVENT_FAILED, "%s", how);
	d->blocked_until_ns = now + gdev_policy(g, d)->rehold_ms * NS_PER_MS;
	(void)str_copy(d->blocked_why, sizeof(d->blocked_why), how);
}

void gdev_on_child(struct guard *g, struct gdev *d)
{
	char how[96];
	int status;
	uint64_t now = clock_mono_ns();

	/* What it said before it ended comes first, and it may say it until it has. */
	if (!gholder_has_ended(d))
		return;
	if (d->holder.fd >= 0)
		gdev_on_holder(g, d);
	pid_t listed = d->holder.listed_pid ? d->holder.listed_pid : d->holder.pid;

	if (!gholder_reap(d, &status))
		return;
	d->gone_pid = listed;
	d->gone_ns = clock_mono_ns();
	gdev_unlock(d);
	d->settled_used = 0;
	describe_end(how, sizeof(how), status);
	if (gdev_letting_go(d))
		tell_let_go(g, d, clock_mono_ns(), 0);
	if (d->state == DEV_HOLDING && now >= d->blocked_until_ns)
		hold_failed(g, d, how);
	if (d->state == DEV_HELD)
		on_holder_lost(g, d, how);
	(void)gevent_add(g, d, EVENT_GONE, "holder and context are gone");
	(void)step(g, d, EV_GONE);
	eyes_look_now(g->eyes, d->slot);
}

/* --- what time brings --- */

/* What its holder is killed for just now, or NULL. */
static const char *overdue(struct guard *g, const struct gdev *d, uint64_t now)
{
	bool hurry = g->quit_ns || (d->owner >= 0 && gdev_owner(g, d)->dropping);
	uint64_t took = now - d->since_ns;

	if (d->state == DEV_HOLDING && took >= HOLDING_LIMIT)
		return "its holder hangs in the driver";
	if ((d->state == DEV_HELD || d->holder.kept) && d->holder.unanswered > BEATS_LIMIT)
		return "its holder did not answer any more";
	if (gdev_letting_go(d) && took >= (hurry ? HURRY_LIMIT : FREEING_LIMIT))
		return "its holder did not let go in time";
	return NULL;
}

static void check_limits(struct guard *g, struct gdev *d, uint64_t now)
{
	const char *why;

	if (d->holder.ending && now > d->holder.end_at_ns + ENDING_LIMIT) {
		gholder_kill(d);
		return;
	}
	why = overdue(g, d, now);
	if (!why)
		return;
	if (d->holder.kept) {
		gholder_kill(d); /* it holds nothing */
		return;
	}
	if (!gdev_letting_go(d))
		begin_record(d, EVENT_FAILED, now);
	/* Without a context it holds nothing yet: a slow start of CUDA is no failure of its. */
	if ((!gdev_letting_go(d) || d->holder.ready) &&
	    (!d->blocked_until_ns || now > d->blocked_until_ns))
		hold_failed(g, d, why);
	(void)step(g, d, EV_STUCK);
}

/* Take what could not be had at first. Never while anything foreign is there, or may be. */
static void grow(struct guard *g, struct gdev *d, uint64_t now)
{
	const uint64_t worth_it = 512ULL << 20;

	if (d->state != DEV_HELD || now < d->grow_at_ns || g->hint_on || d->rise_since_ns ||
	    !d->settled_used || d->holder.held + worth_it > d->holder.wanted ||
	    d->sight.look.free < worth_it)
		return;
	d->grow_at_ns = now + GROW_NS;
	d->settled_used = 0;
	d->settle_at_ns = now + SETTLE_NS;
	d->settle_asked = false;
	gholder_tell(d, HOLDER_GROW);
}

/* Looks that wait for a moment and not for news: a figure to take, a rise that has lasted. */
static void look_when_due(struct guard *g, struct gdev *d, uint64_t now)
{
	if (d->settle_at_ns && now >= d->settle_at_ns && !d->settle_asked) {
		d->settle_asked = true;
		eyes_look_now(g->eyes, d->slot);
	}
	/* The eyes look at what moves every 2 ms and tell what is new: that nothing is has no news.
	 */
	if (d->state == DEV_HELD && now >= gjudge_rise_due(g, d)) {
		if (eyes_sight(g->eyes, d->slot, 0, &d->sight))
			gdev_on_sight(g, d);
		if (d->state == DEV_HELD && d->rise_since_ns)
			eyes_look_now(g->eyes, d->slot); /* or they do not look so often any more */
	}
}

/* A device that is held for a promise has no refresh clock. */
static void hold_while(struct guard *g, struct gdev *d, uint64_t now)
{
	if (!d->hold_while || gdev_occupied(d) || d->state == DEV_LENT)
		return;
	if (gdev_ripe(g, d, now)) {
		gdev_hold(g, d);
	} else if (now >= d->while_check_ns) {
		d->while_check_ns = now + WHILE_CHECK_NS;
		d->check = true;
		eyes_look_now(g->eyes, d->slot);
	}
}

void gdev_want_while(struct guard *g, struct gdev *d, bool wanted)
{
	if (wanted == d->hold_while)
		return;
	d->hold_while = wanted;
	d->while_check_ns = 0;
	if (wanted)
		take(g, d);
	if (d->state == DEV_IDLE)
		set_wait(g, d);
	if (wanted)
		hold_while(g, d, clock_mono_ns());
	else if (gdev_holds(d) && !has_future(g, d) && !d->n_awaited)
		gdev_unwant(g, d, "the task that it was held for does not come");
}

void gdev_on_time(struct guard *g, struct gdev *d, uint64_t now_ns)
{
	/* A newcomer's quiet start is not worth more than an agent that was told to end at once. */
	if (d->holder.end_at_ns > now_ns && d->owner >= 0 && gdev_owner(g, d)->dropping)
		d->holder.end_at_ns = now_ns;
	if (d->holder.pid && d->holder.end_at_ns && now_ns >= d->holder.end_at_ns &&
	    !d->holder.ending)
		gholder_tell(d, HOLDER_END);
	if (d->holder.pid) {
		gholder_beat(d, now_ns);
		check_limits(g, d, now_ns);
	}
	look_when_due(g, d, now_ns);
	hold_while(g, d, now_ns);
	if (d->left)
		leave(g, d);
	if (d->state == DEV_LENT || d->state == DEV_IDLE)
		drop_placeholder(g, d);
	if (d->owner >= 0) {
		turn_cycle(g, d, now_ns);
		grow(g, d, now_ns);
	}
}
