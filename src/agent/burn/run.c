/* SPDX-License-Identifier: MIT */
#include "agent/burn/run.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "agent/burn/judge.h"
#include "agent/node/guardlink.h"
#include "agent/node/selfcopy.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/nofile.h"
#include "base/proc.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "hold/device_state.h"

/* To the guard: one burn of a user at a time. No instance can be called so, and people read it:
 * "held for tenure burn". */
#define INSTANCE	"tenure burn"
#define TICK_MS		250
#define SELECT_NS	(3 * NS_PER_S)	/* for the guard to say which devices are ours */
#define START_NS	(20 * NS_PER_S) /* for a device to be held and its kernels to be compiled */
#define FREED_NS	(5 * NS_PER_S)	/* at least, for one that others use to be left by them */
#define SILENCE_NS	(10 * NS_PER_S) /* no report of a device that is held: its load hangs */
#define STILL_NS	(5 * NS_PER_S)	/* between two looks: the guard waits for ten */
#define END_NS		(5 * NS_PER_S)	/* for the guard to take everything back */
#define HEALTH_LEAST_NS (BURN_THROTTLE_LEAST + BURN_THROTTLE_LEAST / 2)
#define HEALTH_WAIT_NS	(5 * NS_PER_S) /* behind its time, for the guard to look what slows it */
#define LAST_NS		(2 * NS_PER_S) /* for the last word of a holder that was ended */

static const int signals[] = { SIGINT, SIGTERM, SIGHUP };

struct run {
	const struct burn_order *order;
	struct burn_state *state;
	bool (*tick)(void *user, const struct burn_state *state);
	void *user;
	struct err *e;
	int code;
	uv_loop_t loop;
	uv_timer_t timer;
	uv_signal_t signals[ARRAY_LEN(signals)];
	struct guardlink *link;
	struct agent_config config;
	struct node_self self;
	int32_t of_slot[PROTO_DEVICES_MAX];  /* position in state->devices; -1: not selected */
	uint64_t told_ns[PROTO_DEVICES_MAX]; /* by position: the last report */
	uint64_t looked_ns[PROTO_DEVICES_MAX];
	uint64_t health_ns[PROTO_DEVICES_MAX]; /* clocks and what slows them were told first */
	bool held[PROTO_DEVICES_MAX];	       /* by position: since we came */
	struct burn_report sampled[PROTO_DEVICES_MAX]; /* what was found at the last sample */
	uint64_t accepted_ns;			       /* the guard took the policy; 0: not yet */
	uint64_t ending_ns;			       /* told to give all back */
	uint64_t timer_ns;			       /* the last look */
	bool closing;
};

/* A burn may wait for a directory service; the guard may not. */
static const char *name_of(void *user, uint32_t uid)
{
	static char name[64];

	return user_name(uid, name, sizeof(name));
}

/* The caller frees it. */
static char *reason_text(const struct dev_reason *reason)
{
	const struct user_names names = { .name = name_of };
	struct strbuf text = STRBUF_INIT;

	dev_reason_text(reason, &names, &text);
	return strbuf_take(&text);
}

static bool is_ended(const struct burnt *d)
{
	return d->ended_ns || d->trouble[0] || d->yielded || d->lost;
}

static void end_device(struct burnt *d)
{
	if (!d->ended_ns)
		d->ended_ns = clock_mono_ns();
}

static void set_trouble(struct burnt *d, const char *why)
{
	if (!d->trouble[0])
		(void)str_copy(d->trouble, sizeof(d->trouble), why);
	end_device(d);
}

/* -------- the end -------- */

static void on_closed_link(void *user)
{
	struct run *r = user;

	r->link = NULL;
}

static void on_closed_handle(uv_handle_t *handle)
{
}

static void close_all(struct run *r)
{
	if (r->closing)
		return;
	r->closing = true;
	guardlink_close(r->link, on_closed_link);
	uv_close((uv_handle_t *)&r->timer, on_closed_handle);
	for (size_t i = 0; i < ARRAY_LEN(signals); i++)
		uv_close((uv_handle_t *)&r->signals[i], on_closed_handle);
}

/*
 * What is held goes back to whoever of our instances wants it, without being let go; so first
 * nothing is wanted any more, and what is left is dropped.
 */
static void begin_end(struct run *r)
{
	struct hold_policy none = r->order->policy;

	if (r->ending_ns)
		return;
	r->ending_ns = clock_mono_ns();
	none.hold = 0;
	none.load = LOAD_NONE;
	none.burn.exclusive = 0; /* which is said of a burn alone */
	if (r->accepted_ns)
		guardlink_set_policy(r->link, &none);
	guardlink_drop(r->link);
}

static void end_all(struct run *r, const char *why)
{
	for (uint32_t i = 0; i < r->state->n; i++)
		if (!is_ended(&r->state->devices[i]))
			set_trouble(&r->state->devices[i], why);
	begin_end(r);
}

/* What was found until then is told, and is not lost. */
static void fail_run(struct run *r, int code, const char *why)
{
	if (r->code == 0 && !r->state->n && !r->ending_ns)
		r->code = err_set(r->e, code, "%s", why);
	end_all(r, why);
}

static void interrupt(struct run *r)
{
	if (r->code == 0 && !r->state->n && !r->ending_ns)
		r->code = err_set(r->e, -EINTR, "it was interrupted before it could begin");
	end_all(r, "it was interrupted before its time was over");
}

/* Stopped, or in a machine that was: what the guard says of that is true and explains nothing. */
static void look_at_clock(struct run *r)
{
	if (clock_mono_ns() - r->timer_ns >= STILL_NS && !r->ending_ns)
		end_all(r, "this command stood still, and the guard tests nothing for nobody");
}

static void on_signal(uv_signal_t *handle, int number)
{
	interrupt(handle->data);
}

/* -------- what the guard says -------- */

static void on_welcome(void *user, const struct msg_guard *guard, bool started)
{
}

static void on_policy_reply(void *user, int code, const char *text)
{
	struct run *r = user;

	if (code < 0)
		fail_run(r, code, text);
	else if (!r->accepted_ns)
		r->accepted_ns = clock_mono_ns();
}

static bool is_selected(const struct run *r, const struct dev_status *dev)
{
	return strcmp(dev->instance, INSTANCE) == 0 && dev->state != DEV_LEFT &&
	       !(dev->flags & DEVICE_MIG_CARD);
}

/* The sums of what was seen last, for the time since then, while it is tested: what stays as it is
 * is told once. */
static void add_seen(struct run *r, uint32_t at)
{
	struct burnt *d = &r->state->devices[at];
	const struct dev_status *dev = &d->dev;
	const uint64_t now = clock_mono_ns(), before = r->looked_ns[at];
	const uint64_t ns = before ? now - before : 0;

	if (!d->began_ns || is_ended(d))
		return;
	r->looked_ns[at] = now;
	d->seen_ns += ns;
	for (unsigned int bit = 0; bit < 64 && d->now.known & HEALTH_THROTTLE; bit++)
		if (d->now.throttle & UINT64_C(1) << bit)
			d->throttled_ns[bit] += ns;
	if (dev->known & KNOWN_POWER) {
		d->watt_seconds += dev->power_mw / 1e3 * (double)ns / 1e9;
		if (dev->power_mw / 1000 > d->watts_most)
			d->watts_most = dev->power_mw / 1000;
	}
	if (dev->known & KNOWN_TEMP) {
		d->temp_first = d->temp_first ? d->temp_first : dev->temp_c;
		if (dev->temp_c > d->temp_most)
			d->temp_most = dev->temp_c;
	}
}

static int32_t add_device(struct run *r)
{
	r->state->devices[r->state->n].load = r->order->policy.burn.load;
	return (int32_t)r->state->n++;
}

static int32_t position_of(struct run *r, uint32_t slot, const struct dev_status *dev)
{
	if (r->of_slot[slot] < 0 && r->accepted_ns && !r->ending_ns && is_selected(r, dev))
		r->of_slot[slot] = add_device(r);
	return r->of_slot[slot];
}

static void on_device(void *user, uint32_t slot, const struct dev_status *dev)
{
	struct run *r = user;
	const int32_t at = position_of(r, slot, dev);

	if (at < 0)
		return;
	add_seen(r, (uint32_t)at);
	r->state->devices[at].dev = *dev;
	if (dev->xid)
		r->state->devices[at].xid = dev->xid;
}

static void on_health(void *user, uint32_t slot, const struct gpu_health *health)
{
	struct run *r = user;
	struct burnt *d = r->of_slot[slot] < 0 ? NULL : &r->state->devices[r->of_slot[slot]];

	if (!d || is_ended(d))
		return;
	add_seen(r, (uint32_t)r->of_slot[slot]);
	d->now = *health;
	/* What slows it was read, and not before the load. */
	if (d->began_ns && !r->health_ns[r->of_slot[slot]] &&
	    health->read_ns[HEALTH_PART_CLOCKS] >= d->began_ns)
		r->health_ns[r->of_slot[slot]] = clock_mono_ns();
	if (d->began_ns && health->known & HEALTH_CLOCK_SM &&
	    (!d->clock_least || health->clock_sm_mhz < d->clock_least))
		d->clock_least = health->clock_sm_mhz;
}

/* A holder knows the slots of others; people know their numbers. */
static void name_links(const struct run *r, struct burnt *d)
{
	for (uint32_t i = 0; i < d->found.n_links; i++) {
		struct burn_link *l = &d->found.links[i];
		const uint32_t slot = l->slot < PROTO_DEVICES_MAX ? l->slot : 0;

		l->gpu =
			r->of_slot[slot] < 0 ? slot : r->state->devices[r->of_slot[slot]].dev.index;
		l->nvlink = d->dev.peers[slot / 64] >> slot % 64 & 1;
	}
}

static void on_burn(void *user, uint32_t slot, const struct burn_report *found)
{
	struct run *r = user;
	struct burnt *d = r->of_slot[slot] < 0 ? NULL : &r->state->devices[r->of_slot[slot]];

	/* A holder of the burn before may have a last word. */
	if (!d || found->id != r->order->policy.burn.id)
		return;
	/* So may ours, soon after the end; a later one that has failed has begun with nothing. */
	if (d->trouble[0] && clock_mono_ns() - d->ended_ns > LAST_NS)
		return;
	d->found = *found;
	name_links(r, d);
	if (is_ended(d))
		return;
	r->told_ns[r->of_slot[slot]] = clock_mono_ns();
	if (!d->began_ns && (found->n || found->memory_ns || found->words || found->copies.words))
		d->began_ns = clock_mono_ns();
}

static struct burnt *find(struct run *r, const char *uuid)
{
	for (uint32_t i = 0; i < r->state->n; i++)
		if (!strcmp(r->state->devices[i].dev.uuid, uuid))
			return &r->state->devices[i];
	return NULL;
}

/*
 * "yielded to PID 77 (alice, python)" is "to PID 77 (alice, python)" behind the verdict. Who wanted
 * the device for the test alone is told that it was not tested as it was to be.
 */
static void yield_device(struct burnt *d, const struct guard_event *ev, bool exclusive)
{
	struct dev_reason to = ev->reason;
	cleanup_free char *whom = NULL;

	(void)str_copy(to.lead, sizeof(to.lead),
		       exclusive ? "it was not left alone: yielded to " : "to ");
	whom = reason_text(&to);
	d->yielded = !exclusive;
	set_trouble(d, whom);
}

static void on_event(void *user, const struct guard_event *ev)
{
	struct run *r = user;
	struct burnt *d = find(r, ev->uuid);
	cleanup_free char *why = NULL;

	look_at_clock(r);
	if (!d || is_ended(d) || r->ending_ns)
		return;
	if (ev->kind == EVENT_YIELD || ev->kind == EVENT_LENT)
		yield_device(d, ev, r->order->policy.burn.exclusive);
	if (ev->kind == EVENT_LOST)
		d->lost = true;
	if (ev->kind == EVENT_HELD)
		r->held[d - r->state->devices] = true;
	/* What was not held for us yet may be what the burn before had, which is let go. */
	if (ev->kind != EVENT_FAILED && ev->kind != EVENT_BLIND && ev->kind != EVENT_LOST &&
	    (ev->kind != EVENT_RELEASE || (!d->began_ns && !r->held[d - r->state->devices])))
		return;
	why = reason_text(&ev->reason);
	set_trouble(d, why);
}

static void on_guard(void *user, const struct msg_guard *guard)
{
	struct run *r = user;

	if (guard->trouble[0] && !r->ending_ns)
		fail_run(r, -EIO, guard->trouble);
}

static void on_dropped(void *user)
{
	close_all(user);
}

static void on_lost(void *user, const char *why)
{
	cleanup_free char *text = xasprintf("the guard %s", why);

	fail_run(user, -EIO, text);
}

static void on_failed(void *user, const struct err *why)
{
	fail_run(user, why->code < 0 ? why->code : -EIO, why->text);
}

static const struct guardlink_ops ops = {
	.welcome = on_welcome,
	.policy_reply = on_policy_reply,
	.device = on_device,
	.health = on_health,
	.burn = on_burn,
	.event = on_event,
	.guard = on_guard,
	.dropped = on_dropped,
	.lost = on_lost,
	.failed = on_failed,
};

/* -------- what time brings -------- */

/* What it did since the sample before, in the time that it took. */
static void sample_speed(struct burn_sample *s, const struct burn_report *was,
			 const struct burn_report *now)
{
	const uint64_t product_ns = now->product_ns - was->product_ns;
	const uint64_t memory_ns = now->memory_ns - was->memory_ns;

	if (now->product_ns > was->product_ns) {
		s->known |= SAMPLE_TFLOPS;
		s->tflops = (float)((double)(now->gflop - was->gflop) / (double)product_ns * 1e6);
	}
	if (now->memory_ns > was->memory_ns) {
		s->known |= SAMPLE_MEMORY;
		s->gb_per_s = (float)((double)(now->memory_bytes - was->memory_bytes) /
				      (double)memory_ns);
	}
}

static void take_sample(struct run *r, uint32_t at, uint64_t now)
{
	struct burnt *d = &r->state->devices[at];
	struct burn_sample s = { .at_ms = (uint32_t)((now - d->began_ns) / NS_PER_MS),
				 .power_w = (float)(d->dev.power_mw / 1e3),
				 .clock_mhz = (float)d->now.clock_sm_mhz,
				 .temp_c = (float)d->dev.temp_c,
				 .util = (float)d->dev.util };

	s.known |= d->dev.known & KNOWN_POWER ? SAMPLE_POWER : 0;
	s.known |= d->dev.known & KNOWN_TEMP ? SAMPLE_TEMP : 0;
	s.known |= d->dev.known & KNOWN_UTIL ? SAMPLE_UTIL : 0;
	s.known |= d->now.known & HEALTH_CLOCK_SM ? SAMPLE_CLOCK : 0;
	sample_speed(&s, &r->sampled[at], &d->found);
	r->sampled[at] = d->found;
	burn_curve_add(&d->curve, &s);
}

/*
 * Its time is over, and what slows it was looked at for a part of that. A guard that has no time
 * for such a look is waited for, up to HEALTH_WAIT_NS.
 */
static bool is_tested(const struct run *r, uint32_t at, uint64_t now)
{
	const uint64_t for_ns = r->state->for_ns, health_ns = r->health_ns[at];
	const uint64_t tested_ns = now - r->state->devices[at].began_ns;
	const uint64_t least =
		for_ns / 4 < HEALTH_LEAST_NS ? for_ns / 4 : (uint64_t)HEALTH_LEAST_NS;

	return tested_ns >= for_ns &&
	       ((health_ns && now >= health_ns + least) || tested_ns >= for_ns + HEALTH_WAIT_NS);
}

/* For how long it is waited until the test of a device has begun. What others use is waited for as
 * long as the others are tested: who asks for one second is not kept for twenty. */
static uint64_t patience_ns(const struct run *r, const struct burnt *d)
{
	const uint64_t for_ns = r->state->for_ns > FREED_NS ? r->state->for_ns : FREED_NS;
	const bool used = d->dev.state == DEV_BUSY || d->dev.state == DEV_LENT;

	return used && for_ns < START_NS ? for_ns : START_NS;
}

static void look_at_device(struct run *r, uint32_t at, uint64_t now)
{
	struct burnt *d = &r->state->devices[at];
	cleanup_free char *why = NULL;

	if (is_ended(d))
		return;
	add_seen(r, at);
	if (d->began_ns && burn_curve_wants(&d->curve, (now - d->began_ns) / NS_PER_MS))
		take_sample(r, at, now);
	if (d->began_ns && is_tested(r, at, now))
		end_device(d);
	else if (d->began_ns && now - r->told_ns[at] >= SILENCE_NS)
		set_trouble(d, "its test has stopped telling how it goes on");
	if (d->began_ns || now - r->accepted_ns < patience_ns(r, d))
		return;
	why = reason_text(&d->dev.reason);
	if (d->dev.state == DEV_HELD || d->dev.state == DEV_HOLDING)
		set_trouble(d, "its test has not begun in time");
	else
		set_trouble(d, why);
}

static bool is_over(const struct run *r, uint64_t now)
{
	if (!r->accepted_ns || (!r->state->n && now - r->accepted_ns < SELECT_NS))
		return false;
	for (uint32_t i = 0; i < r->state->n; i++)
		if (!is_ended(&r->state->devices[i]))
			return false;
	return true;
}

static void on_timer(uv_timer_t *timer)
{
	struct run *r = timer->data;
	const uint64_t now = clock_mono_ns();

	guardlink_heartbeat(r->link, true);
	look_at_clock(r);
	r->timer_ns = now;
	for (uint32_t i = 0; r->accepted_ns && !r->ending_ns && i < r->state->n; i++)
		look_at_device(r, i, now);
	if (!r->ending_ns && is_over(r, now))
		begin_end(r);
	r->state->over = r->ending_ns;
	if (r->code == 0 && !r->tick(r->user, r->state))
		interrupt(r);
	/* It may have begun to end since `now`. */
	if (r->ending_ns && clock_mono_ns() - r->ending_ns > END_NS)
		close_all(r);
}

static void start(struct run *r)
{
	(void)uv_timer_init(&r->loop, &r->timer);
	r->timer.data = r;
	r->timer_ns = clock_mono_ns();
	(void)uv_timer_start(&r->timer, on_timer, TICK_MS, TICK_MS);
	for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
		(void)uv_signal_init(&r->loop, &r->signals[i]);
		r->signals[i].data = r;
		/* What nohup or a shell's `&` has ignored stays so; SIGTERM always ends it. */
		if (signals[i] == SIGTERM || !proc_ignores(signals[i]))
			(void)uv_signal_start(&r->signals[i], on_signal, signals[i]);
	}
	r->link = guardlink_new(&r->loop, &r->config, &r->self, &ops, r);
	guardlink_set_policy(r->link, &r->order->policy);
	guardlink_start(r->link);
}

int burn_run(const struct burn_order *order, struct burn_state *state,
	     bool (*tick)(void *user, const struct burn_state *state), void *user, struct err *e)
{
	struct run *r = xcalloc(1, sizeof(*r));
	struct selfcopy copy;
	int code = selfcopy_make(&copy, e);

	if (code == 0 && uv_loop_init(&r->loop) < 0)
		code = err_set(e, -EIO, "no event loop can be made");
	if (code < 0) {
		free(r);
		return code;
	}
	*state = (struct burn_state){ .for_ns = order->for_ms * NS_PER_MS };
	r->order = order;
	r->state = state;
	r->tick = tick;
	r->user = user;
	r->e = e;
	r->config = (struct agent_config){ .instance = INSTANCE,
					   .dev_dir = order->dev_dir,
					   .job = order->job,
					   .devices = order->given,
					   .n_devices = order->n_given };
	r->self = (struct node_self){ .host = "", .program_fd = copy.fd, .nofile = nofile_raise() };
	for (size_t i = 0; i < ARRAY_LEN(r->of_slot); i++)
		r->of_slot[i] = -1;
	start(r);
	(void)uv_run(&r->loop, UV_RUN_DEFAULT);
	(void)uv_loop_close(&r->loop);
	(void)fd_close(copy.fd);
	code = r->code;
	free(r);
	return code;
}
