/* SPDX-License-Identifier: MIT */
#include "agent/report/sentence.h"

#include <inttypes.h>
#include <string.h>

#include "agent/node/policy.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/units.h"
#include "hold/device_state.h"

/* "gpu 2", "gpu 2/1" for MIG instance 1 of card 2; mig is -1 for a whole card. */
static void add_label(uint32_t index, int32_t mig, struct strbuf *out)
{
	strbuf_addf(out, "gpu %" PRIu32, index);
	if (mig >= 0)
		strbuf_addf(out, "/%" PRId32, mig);
}

/* Latencies are told in the unit in which they are usually thought of. */
static void add_ms(uint64_t ns, struct strbuf *out)
{
	if (ns < 10 * NS_PER_MS)
		strbuf_addf(out, "%.1f ms", (double)ns / (double)NS_PER_MS);
	else
		strbuf_addf(out, "%.0f ms", (double)ns / (double)NS_PER_MS);
}

/* "" where it is not known; by its number while its name is not. */
static const char *user_of(const struct guard_event *ev, const struct user_names *names,
			   char buf[UNIT_TEXT_MAX])
{
	const char *name = NULL;

	if (ev->uid == DEV_REASON_NO_UID)
		return "";
	if (names)
		name = names->name(names->user, ev->uid);
	return name ? name : str_print(buf, UNIT_TEXT_MAX, "uid %" PRIu32, ev->uid);
}

static void add_who(const struct guard_event *ev, const struct user_names *names,
		    struct strbuf *out)
{
	char number[UNIT_TEXT_MAX];
	const char *sep = "", *who = user_of(ev, names, number);

	if (!ev->pid) {
		strbuf_adds(out, "somebody's memory");
		return;
	}
	strbuf_addf(out, "PID %d", (int)ev->pid);
	if (!who[0] && !ev->command[0])
		return;
	strbuf_adds(out, " (");
	if (who[0]) {
		strbuf_adds(out, who);
		sep = ", ";
	}
	if (ev->command[0])
		strbuf_addf(out, "%s%s", sep, ev->command);
	strbuf_addc(out, ')');
}

static void tell_text(const struct guard_event *ev, const struct hold_policy *p,
		      const struct user_names *names, struct strbuf *out)
{
	size_t before = out->len;

	dev_reason_text(&ev->reason, names, out);
	if (out->len == before)
		strbuf_adds(out, event_kind_name(ev->kind));
}

static void tell_held(const struct guard_event *ev, const struct hold_policy *p,
		      const struct user_names *names, struct strbuf *out)
{
	char size[UNIT_TEXT_MAX];

	if (!ev->took_ns) { /* it was held before, and holds another amount now */
		tell_text(ev, p, names, out);
		return;
	}
	strbuf_addf(out, "held %s in %.2f s (", unit_format_gib(ev->bytes, size),
		    (double)ev->took_ns / (double)NS_PER_S);
	policy_describe_load(p, out);
	strbuf_addc(out, ')');
}

/* How long the holder was in the way. */
static void add_times(const struct guard_event *ev, struct strbuf *out)
{
	strbuf_adds(out, ": ");
	if (ev->hint_to_verdict_ns) {
		strbuf_adds(out, "seen after ");
		add_ms(ev->hint_to_verdict_ns, out);
		strbuf_adds(out, ", ");
	}
	strbuf_adds(out, "free after ");
	add_ms(ev->verdict_to_freed_ns, out);
	if (ev->hint_to_verdict_ns)
		strbuf_adds(out, " more");
}

static void tell_yield(const struct guard_event *ev, const struct hold_policy *p,
		       const struct user_names *names, struct strbuf *out)
{
	strbuf_adds(out, "yielded to ");
	add_who(ev, names, out);
	add_times(ev, out);
}

/* Where nothing was held there was nothing to wait for. */
static void tell_lent(const struct guard_event *ev, const struct hold_policy *p,
		      const struct user_names *names, struct strbuf *out)
{
	tell_text(ev, p, names, out);
	if (ev->bytes)
		add_times(ev, out);
}

typedef void (*tell_fn)(const struct guard_event *ev, const struct hold_policy *p,
			const struct user_names *names, struct strbuf *out);

/* How an event is told, and whether people want to read it. */
static const struct {
	tell_fn tell; /* NULL: the guard's own text */
	bool news;
} kinds[] = {
	[EVENT_NOTE] = { NULL, true },	    [EVENT_START] = { NULL, false },
	[EVENT_HELD] = { tell_held, true }, [EVENT_YIELD] = { tell_yield, true },
	[EVENT_RELEASE] = { NULL, true },   [EVENT_BLIND] = { NULL, true },
	[EVENT_GONE] = { NULL, false },	    [EVENT_FAILED] = { NULL, true },
	[EVENT_LOST] = { NULL, true },	    [EVENT_BACK] = { NULL, true },
	[EVENT_STATE] = { NULL, true },	    [EVENT_LENT] = { tell_lent, true },
	[EVENT_RETURNED] = { NULL, false },
};
_Static_assert(ARRAY_LEN(kinds) == EVENT_KIND_MAX, "a way to tell every kind of event");

bool sentence_is_news(uint32_t kind)
{
	return kind >= EVENT_KIND_MAX || kinds[kind].news;
}

void sentence_event(const struct guard_event *ev, int32_t mig, const struct hold_policy *policy,
		    const struct user_names *names, struct strbuf *out)
{
	tell_fn tell = ev->kind < EVENT_KIND_MAX ? kinds[ev->kind].tell : NULL;

	if (ev->slot >= 0) {
		add_label(ev->index, mig, out);
		strbuf_adds(out, "  ");
	}
	(tell ? tell : tell_text)(ev, policy, names, out);
}

void sentence_device(const struct dev_status *dev, const char *own, uint64_t now_ns,
		     const struct user_names *names, struct strbuf *out)
{
	char time[UNIT_TEXT_MAX], size[UNIT_TEXT_MAX];
	cleanup_strbuf struct strbuf why = STRBUF_INIT;

	add_label(dev->index, dev->mig, out);
	if (dev->state == DEV_HELD && dev->instance[0] && strcmp(dev->instance, own) != 0) {
		strbuf_addf(out, "  not ours: held for instance %s", dev->instance);
		return;
	}
	strbuf_addf(out, "  %s", dev_state_shown(dev->state, dev->flags & DEVICE_UNSEEN));
	if (dev->held_bytes)
		strbuf_addf(out, " %s", unit_format_gib(dev->held_bytes, size));
	dev_reason_text(&dev->reason, names, &why);
	if (why.len)
		strbuf_addf(out, ": %s", strbuf_str(&why));
	if (dev->hold_at_ns > now_ns)
		strbuf_addf(out, "%s to be held%s%s in %s", why.len ? ";" : ":",
			    strcmp(dev->instance, own) == 0 ? "" : " for ",
			    strcmp(dev->instance, own) == 0 ? "" : dev->instance,
			    unit_format_duration((dev->hold_at_ns - now_ns) / NS_PER_MS, time));
}

static void set_text(json_t *o, const char *key, const char *text)
{
	if (text[0])
		(void)json_object_set_new(o, key, json_string(text));
}

static void set_ms(json_t *o, const char *key, uint64_t ns)
{
	(void)json_object_set_new(o, key, json_real((double)ns / (double)NS_PER_MS));
}

static void set_task(json_t *o, const struct lease_id *id)
{
	if (id->task == LEASE_WORKLOAD) {
		(void)json_object_set_new(o, "workload", json_true());
		return;
	}
	(void)json_object_set_new(o, "task", json_integer((json_int_t)id->task));
	if (id->element)
		(void)json_object_set_new(o, "element", json_integer(id->element));
}

static void set_figures(json_t *o, const struct guard_event *ev)
{
	if (ev->bytes)
		(void)json_object_set_new(o, "bytes", json_integer((json_int_t)ev->bytes));
	if ((ev->kind == EVENT_HELD || ev->kind == EVENT_RETURNED) && ev->took_ns)
		set_ms(o, "took_ms", ev->took_ns);
	if (ev->lease.task)
		set_task(o, &ev->lease);
	if (ev->kind != EVENT_YIELD && ev->kind != EVENT_LENT)
		return;
	(void)json_object_set_new(o, "pid", ev->pid ? json_integer(ev->pid) : json_null());
	if (ev->hint_to_verdict_ns)
		set_ms(o, "hint_to_verdict_ms", ev->hint_to_verdict_ns);
	set_ms(o, "verdict_to_freed_ms", ev->verdict_to_freed_ns);
}

json_t *sentence_event_json(const struct guard_event *ev, int32_t mig, int32_t guard_pid,
			    const struct user_names *names, const char *line)
{
	char time[CLOCK_TEXT_MAX], number[UNIT_TEXT_MAX];
	json_t *o = json_object();

	set_text(o, "time", clock_format_iso(ev->wall_ns, time));
	set_text(o, "event", event_kind_name(ev->kind));
	(void)json_object_set_new(o, "seq", json_integer((json_int_t)ev->seq));
	(void)json_object_set_new(o, "guard", json_integer(guard_pid));
	set_text(o, "instance", ev->instance);
	if (ev->slot >= 0) {
		(void)json_object_set_new(o, "gpu", json_integer(ev->index));
		if (mig >= 0)
			(void)json_object_set_new(o, "mig", json_integer(mig));
		set_text(o, "uuid", ev->uuid);
		set_text(o, "state", dev_state_name(ev->state));
	}
	set_figures(o, ev);
	set_text(o, "user", user_of(ev, names, number));
	set_text(o, "command", ev->command);
	set_text(o, "text", line);
	return o;
}
