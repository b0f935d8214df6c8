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
#include "hold/gevent.h"
#include "hold/gholder.h"
#include "hold/gjudge.h"
#include "hold/loadctl.h"
#include "hold/own.h"

#define SETTLE_NS     (300 * NS_PER_MS) /* after a hold: then the memory figure is that of the hold */
#define LINGER_NS     (2 * NS_PER_S) /* context kept after a yield: the newcomer starts undisturbed */
#define HOLDING_LIMIT (30 * NS_PER_S)	/* to make a context and take the memory */
#define FREEING_LIMIT NS_PER_S		/* to free it; seen: 40-330 ms */
#define HURRY_LIMIT   (500 * NS_PER_MS) /* the same where all has to be gone within a second */
#define BEATS_LIMIT   10		/* of a holder that holds, unanswered: 5 s */
#define ENDING_LIMIT  (2 * NS_PER_S)	/* to end the process */
#define GROW_NS	      (5 * NS_PER_S)	/* between two tries to take what is missing */
#define BLOCK_NS      (60 * NS_PER_S)	/* after a failed hold, doubled up to 16 times that */

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
	d->dirty = true;
}

/* Up to a quarter of ms more, so that two of us on two accounts never answer each other in step. */
static uint64_t with_jitter(uint64_t ms)
{
	uint16_t random = 0;

	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
		random = (uint16_t)clock_mono_ns();
	return (ms + ms * random / (4 * UINT16_MAX)) * NS_PER_MS;
}

void gdev_reset_idle(struct gdev *d, uint64_t now_ns)
{
	d->idle_since_ns = now_ns;
	d->dirty = true;
}

static void set_wait(struct guard *g, struct gdev *d)
{
	const struct gclient *owner = gdev_owner(g, d);

	if (!owner)
		d->wait_ns = 0;
	else if (d->yielded)
		d->wait_ns = with_jitter(owner->policy.rehold_ms);
	else
		d->wait_ns = owner->policy.idle_for_ms * NS_PER_MS;
}

static void enter(struct guard *g, struct gdev *d, enum dev_state next)
{
	uint64_t now = clock_mono_ns();

	if (next == d->state)
		return;

	/* What nobody selects is nobody's news. */
	bool quiet = d->state == DEV_LEFT || (next == DEV_LEFT && d->owner < 0) ||
		     (d->state == DEV_YIELDING && d->letting_go.kind == EVENT_RELEASE);

	d->state = next;
	d->since_ns = now;
	d->dirty = true;
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

static void unlock_device(struct gdev *d)
{
	d->lock_fd = fd_close(d->lock_fd);
}

/* Take @tenure/dev/UUID, so that two tenures never hold one device. False: somebody has it. */
static bool lock_device(struct gdev *d)
{
	struct err e = ERR_INIT;
	char name[108];

	if (d->lock_fd >= 0)
		return true;
	d->lock_fd = sock_bind(str_print(name, sizeof(name), "tenure/dev/%s", d->id.uuid), &e);
	if (d->lock_fd >= 0)
		return true;
	gdev_say(d, "tenure of another user or instance holds it");
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
		}
	}
	if (who)
		gjudge_name(g, d, who);
	else
		d->who_pid = 0;
	if (d->state == DEV_HOLDING || d->state == DEV_HELD)
		enter(g, d, DEV_YIELDING);
	else
		(void)step(g, d, EV_FOREIGN);
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

static void on_clear(struct guard *g, struct gdev *d)
{
	struct gclient *owner = gdev_owner(g, d);

	if (d->state == DEV_HELD) {
		own_learn(g, d, &d->sight.look);
		note_settled(g, d);
	}
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
	if (d->state == DEV_LEFT) {
		d->dirty = true;
		return;
	}

	/* What was seen while its last holder lived is about that: the memory, too. */
	if (d->gone_ns && d->sight.look.begin_ns <= d->gone_ns && !d->holder.pid) {
		d->dirty = true;
		return;
	}

	enum verdict v = gjudge(g, d, &who);

	if (v == SEEN_CLEAR)
		on_clear(g, d);
	else
		on_foreign(g, d, v, who);
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

/* Let go of it if need be, and then leave it alone; called again until that is done. */
static void leave(struct guard *g, struct gdev *d)
{
	gdev_unwant(g, d, "left for others");
	if (gdev_occupied(d))
		return;
	gdev_say(d, d->owner >= 0 ? "left for others" : "not selected");
	if (d->state != DEV_LEFT)
		(void)step(g, d, EV_LEAVE);
}

void gdev_assign(struct guard *g, struct gdev *d, int owner, bool left)
{
	bool changed = d->owner != owner;

	if (changed) {
		d->owner = owner;
		d->yielded = false;
		d->dirty = true;
	}
	d->left = left;
	if (left)
		leave(g, d);
	if (!left && d->state == DEV_LEFT) {
		const char *unfit = gpu_unfit(&d->id, &d->sight.look);

		d->announced = false;
		gdev_say(d, "%s", unfit ? unfit : "not looked at yet");
		(void)step(g, d, EV_TAKE);
	}
	if (d->state == DEV_IDLE)
		set_wait(g, d);
}

bool gdev_ripe(struct guard *g, const struct gdev *d, uint64_t now_ns)
{
	const struct gclient *owner = gdev_owner(g, d);

	return owner && !g->quit_ns && d->present && owner->policy.hold && !owner->dropping &&
	       !owner->silent && d->state == DEV_IDLE && !d->holder.pid &&
	       now_ns >= d->blocked_until_ns && now_ns - d->idle_since_ns >= d->wait_ns;
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
	const struct mem_amount *m = &gdev_owner(g, d)->policy.memory;

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

	if (nothing_to_take(g, d) || !lock_device(d))
		return;
	d->before = d->sight.look.procs;
	if (gholder_start(g, d, &e) < 0) {
		unlock_device(d);
		hold_failed(g, d, e.text);
		return;
	}
	d->settled_used = 0;
	d->settle_at_ns = 0;
	settle_begin(&d->settle, used_but_excused(d));
	gdev_say(d, "holder PID %d starts", (int)d->holder.pid);
	(void)gevent_add(g, d, EVENT_START, "%s", d->reason);
	(void)step(g, d, EV_READY);
}

/* --- what the holder says --- */

static void tell_let_go(struct guard *g, struct gdev *d, uint64_t freed_ns, uint64_t bytes)
{
	static const char *const words[EVENT_KIND_MAX] = {
		[EVENT_YIELD] = "yielded to", [EVENT_RELEASE] = "let go:", [EVENT_BLIND] = "let go:"
	};
	struct guard_event *rec = &d->letting_go;
	uint64_t took = freed_ns > d->verdict_ns ? freed_ns - d->verdict_ns : 0;
	struct guard_event *ev =
		gevent_add(g, d, (enum event_kind)rec->kind, "%s %s",
			   words[rec->kind] ? words[rec->kind] : "let go:", d->reason);

	ev->bytes = bytes;
	ev->pid = rec->kind == EVENT_YIELD ? d->who_pid : 0;
	if (ev->pid && d->who_uid != UINT32_MAX) {
		(void)str_print(ev->user, sizeof(ev->user), "uid %u", d->who_uid);
		(void)str_copy(ev->command, sizeof(ev->command), d->who_comm);
	}
	ev->hint_to_verdict_ns = rec->hint_to_verdict_ns;
	ev->verdict_to_freed_ns = took;
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
	gdev_say(d, "held for %s", gdev_owner(g, d) ? gdev_owner(g, d)->instance : "nobody");
	ev = gevent_add(g, d, EVENT_HELD, how, in_gib(m->bytes));
	ev->bytes = m->bytes;
	ev->took_ns = first ? m->at_ns - d->holder.started_ns : 0;
	d->dirty = true;
}

static void on_freed(struct guard *g, struct gdev *d, const struct holder_msg *m)
{
	if (d->state != DEV_YIELDING)
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
	unlock_device(d);
	d->settled_used = 0;
	describe_end(how, sizeof(how), status);
	if (d->state == DEV_YIELDING)
		tell_let_go(g, d, clock_mono_ns(), 0);
	if (d->state == DEV_HOLDING && now >= d->blocked_until_ns)
		hold_failed(g, d, how);
	if (d->state == DEV_HELD) {
		/* Somebody ended it: that is a wish to have the device, so wait as after a yield.
		 */
		d->yielded = true;
		if (now >= d->blocked_until_ns) {
			gdev_say(d, "%s", how);
			(void)gevent_add(g, d, EVENT_FAILED, "%s", how);
		}
	}
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
	if (d->state == DEV_HELD && d->holder.unanswered > BEATS_LIMIT)
		return "its holder did not answer any more";
	if (d->state == DEV_YIELDING && took >= (hurry ? HURRY_LIMIT : FREEING_LIMIT))
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
	if (d->state != DEV_YIELDING)
		begin_record(d, EVENT_FAILED, now);
	/* Without a context it holds nothing yet: a slow start of CUDA is no failure of its. */
	if ((d->state != DEV_YIELDING || d->holder.ready) &&
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
	if (d->state == DEV_HELD && d->rise_since_ns && now - d->rise_since_ns >= GJUDGE_RISE_NS)
		eyes_look_now(g->eyes, d->slot);
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
	if (d->left)
		leave(g, d);
	if (d->owner >= 0) {
		turn_cycle(g, d, now_ns);
		grow(g, d, now_ns);
	}
}
