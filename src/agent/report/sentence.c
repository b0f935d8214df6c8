/* SPDX-License-Identifier: MIT */
#include "agent/report/sentence.h"

#include <inttypes.h>
#include <string.h>

#include "agent/node/policy.h"
#include "base/clock.h"
#include "base/json_get.h"
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

/* -------- the agent's own: of their members -------- */

static const char *text_of(const json_t *m, const char *key)
{
	const char *text = json_get_str(m, key);

	return text ? text : "";
}

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

/* "task 42.7" */
static void add_task(const json_t *m, struct strbuf *out)
{
	uint64_t element = json_get_u64(m, "element");

	strbuf_addf(out, "task %" PRIu64, json_get_u64(m, "task"));
	if (element)
		strbuf_addf(out, ".%" PRIu64, element);
}

/* ": why", where that is known. */
static void add_why(const json_t *m, struct strbuf *out)
{
	if (text_of(m, "why")[0])
		strbuf_addf(out, ": %s", text_of(m, "why"));
}

static void tell_agent_started(const json_t *m, struct strbuf *out)
{
	strbuf_addf(out, "the agent has started: PID %" PRIu64 ", tenure %s",
		    json_get_u64(m, "pid"), text_of(m, "version"));
}

static void tell_deadline(const json_t *m, struct strbuf *out)
{
	char left[UNIT_TEXT_MAX], ends[CLOCK_TEXT_MAX] = "";
	uint64_t ms = (uint64_t)(json_get_num(m, "left_s") * 1e3);
	const char *iso = text_of(m, "ends"); /* "2026-11-25T18:30:00.000+01:00" */

	if (strlen(iso) >= 19)
		(void)str_print(ends, sizeof(ends), "%.10s %.8s", iso, iso + 11);
	strbuf_addf(out, "auto-shutdown in %s, at %s: %s",
		    unit_format_duration((ms + 999) / 1000 * 1000, left), ends, text_of(m, "then"));
}

static void tell_draining(const json_t *m, struct strbuf *out)
{
	uint64_t running = json_get_u64(m, "running");

	strbuf_addf(out, "%s: nothing more is started or held", text_of(m, "why"));
	if (running)
		strbuf_addf(out, "; what runs (%" PRIu64 " task%s) %s", running, plural(running),
			    text_of(m, "then"));
}

static void tell_ending(const json_t *m, struct strbuf *out)
{
	strbuf_addf(out, "%s: letting go of everything", text_of(m, "why"));
}

static void tell_guard_lost(const json_t *m, struct strbuf *out)
{
	strbuf_addf(out, "%s: nothing is held until the next one is up", text_of(m, "why"));
}

static void tell_guard_found(const json_t *m, struct strbuf *out)
{
	strbuf_addf(out, "%s guard (PID %" PRIu64 "); it is told again what to hold",
		    json_get_flag(m, "started") ? "started a new" : "found a",
		    json_get_u64(m, "pid"));
}

static void tell_node_lost(const json_t *m, struct strbuf *out)
{
	strbuf_addf(out, "the agent %s is gone", text_of(m, "agent"));
	add_why(m, out);
}

static void tell_task_started(const json_t *m, struct strbuf *out)
{
	const json_t *gpus = json_object_get(m, "gpus");
	uint64_t attempt = json_get_u64(m, "attempt");

	add_task(m, out);
	strbuf_addf(out, " (%s) has started", text_of(m, "name"));
	strbuf_adds(out, json_array_size(gpus) ? " on GPU " : "");
	json_add_list(gpus, ",", out);
	if (attempt > 1)
		strbuf_addf(out, ", try %" PRIu64, attempt);
}

static void tell_task_adopted(const json_t *m, struct strbuf *out)
{
	add_task(m, out);
	strbuf_addf(out, " runs on (%s)", text_of(m, "name"));
}

/* "task 42.7 (train) is requeued: exit code 1, try 2 of 4; next in 10m" */
static void tell_task_ended(const json_t *m, struct strbuf *out)
{
	static const struct {
		const char *outcome, *words;
	} all[] = { { "done", "is done" },
		    { "failed", "has failed" },
		    { "requeued", "is requeued" },
		    { "stopped", "was stopped" } };
	const char *outcome = text_of(m, "outcome"), *name = text_of(m, "name");

	add_task(m, out);
	if (name[0])
		strbuf_addf(out, " (%s)", name);
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (strcmp(outcome, all[i].outcome) == 0)
			strbuf_addf(out, " %s", all[i].words);
	if (strcmp(outcome, "done") != 0)
		add_why(m, out);
}

static void tell_task_paused(const json_t *m, struct strbuf *out)
{
	add_task(m, out);
	strbuf_addf(out, " is paused; tenure resume %" PRIu64 " resumes it",
		    json_get_u64(m, "task"));
}

static void tell_task_refused(const json_t *m, struct strbuf *out)
{
	add_task(m, out);
	strbuf_adds(out, " is in bad/");
	add_why(m, out);
}

/* What cannot be done, around its task and around why. */
static const struct trouble {
	const char *what, *before, *after, *last;
} troubles[] = {
	{ "start", "", " cannot start yet: ", "" },
	{ "plan", "", " cannot be planned: ", "" },
	{ "unseen", "the state of ", " is unknown: ", "; looking again" },
	{ "end", "the end of ", " cannot be recorded: ", "; trying again" },
	{ "late", "the end of ", " came too late: ", "" },
	{ "stop", "the stop of ", " cannot be recorded (",
	  "): if this node fails before it has ended, it runs again" },
	{ "on-end", "the command that follows ", " is not run: ", "" },
	{ "log", "", " has no log, and what it prints is lost: ", "" },
	{ "log-elsewhere", "", " has no log: ", "; what it prints is in " },
};

static void tell_task_trouble(const json_t *m, struct strbuf *out)
{
	const char *what = text_of(m, "what");

	for (size_t i = 0; i < ARRAY_LEN(troubles); i++) {
		const struct trouble *t = &troubles[i];

		if (strcmp(what, t->what) != 0)
			continue;
		strbuf_adds(out, t->before);
		add_task(m, out);
		strbuf_addf(out, "%s%s%s%s", t->after, text_of(m, "why"), t->last,
			    text_of(m, "file"));
	}
}

/* "task 7 (train) seems stuck on GPU 3: .." */
static void tell_stuck(const json_t *m, struct strbuf *out)
{
	char time[UNIT_TEXT_MAX];

	add_task(m, out);
	strbuf_addf(out,
		    " (%s) seems stuck: GPU %" PRIu64 " is at %" PRIu64
		    " %% for %s, and draws %.0f W of %.0f, as one that only waits; one of its "
		    "processes may be gone",
		    text_of(m, "name"), json_get_u64(m, "gpu"), json_get_u64(m, "utilisation"),
		    unit_format_duration((uint64_t)(json_get_num(m, "for_s") * 1e3), time),
		    json_get_num(m, "power_w"), json_get_num(m, "power_limit_w"));
}

static void tell_lane_paused(const json_t *m, struct strbuf *out)
{
	const char *lane = text_of(m, "lane");

	strbuf_addf(out, "lane %s is paused; tenure resume %s resumes it", lane, lane);
}

/* "task 7 has 2 GPUs now, and had 1: GPU 3 was added, because .." */
static void tell_scaled(const json_t *m, struct strbuf *out)
{
	uint64_t from = json_get_u64(m, "from"), to = json_get_u64(m, "to");

	add_task(m, out);
	strbuf_addf(out,
		    " has %" PRIu64 " GPU%s now, and had %" PRIu64 ": GPU %" PRIu64
		    " was %s, because %s",
		    to, plural(to), from, json_get_u64(m, "gpu"),
		    to > from ? "added" : "given back", text_of(m, "because"));
}

static void tell_allocation(const json_t *m, const char *word, struct strbuf *out)
{
	uint64_t gpus = json_get_u64(m, "gpus");

	strbuf_addf(out, "allocation %s (", text_of(m, "name"));
	add_task(m, out);
	strbuf_addf(out, ") %s %" PRIu64 " GPU%s", word, gpus, plural(gpus));
}

static void tell_allocated(const json_t *m, struct strbuf *out)
{
	tell_allocation(m, "has", out);
}

static void tell_released(const json_t *m, struct strbuf *out)
{
	tell_allocation(m, "has given back", out);
}

/* "2 GPUs are free: 2 on node7 (GPU 0,1)" */
static void tell_free(const json_t *m, struct strbuf *out)
{
	const json_t *gpus = json_object_get(m, "gpus"), *gpu, *node;
	uint64_t n = json_get_u64(m, "free");
	size_t i;

	strbuf_addf(out, "%" PRIu64 " GPU%s free: ", n, n == 1 ? " is" : "s are");
	json_array_foreach(json_object_get(m, "nodes"), i, node)
		strbuf_addf(out, "%s%" PRIu64 " on %s", i ? ", " : "", json_get_u64(node, "free"),
			    text_of(node, "node"));
	json_array_foreach(gpus, i, gpu) strbuf_addf(out, "%s%" JSON_INTEGER_FORMAT,
						     i ? "," : " (GPU ", json_integer_value(gpu));
	strbuf_adds(out, json_array_size(gpus) ? ")" : "");
}

static void tell_quarantine(const json_t *m, struct strbuf *out)
{
	const char *state = text_of(m, "quarantine"), *reason = text_of(m, "reason");
	uint64_t gpu = json_get_u64(m, "gpu");

	strbuf_addf(out, "GPU %" PRIu64 " ", gpu);
	if (strcmp(state, "shut") == 0)
		strbuf_addf(
			out,
			"gets no tasks, it is in quarantine: %s; tenure devices --trust %" PRIu64
			" ends that",
			reason, gpu);
	else if (strcmp(state, "probation") == 0)
		strbuf_adds(out,
			    "gets tasks again, on probation: the next one that fails on it with "
			    "an error of the GPU puts it back into quarantine");
	else
		strbuf_addf(out, "is trusted again%s%s", reason[0] ? ": " : "", reason);
}

static void add_asker(const json_t *m, struct strbuf *out)
{
	const char *user = json_get_str(m, "user");

	if (user)
		strbuf_adds(out, user);
	else
		strbuf_addf(out, "uid %" PRIu64, json_get_u64(m, "uid"));
}

/* "bob asks for GPU 3, which task 42 (train) has: "..." (tenure answer 1 yes, or no)" */
static void tell_asked(const json_t *m, struct strbuf *out)
{
	const char *message = text_of(m, "message");
	uint64_t id = json_get_u64(m, "ask");

	add_asker(m, out);
	strbuf_addf(out, " asks for GPU %" PRIu64 ", which ", json_get_u64(m, "gpu"));
	if (json_get_u64(m, "task")) {
		add_task(m, out);
		if (text_of(m, "name")[0])
			strbuf_addf(out, " (%s)", text_of(m, "name"));
		strbuf_adds(out, " has");
	} else {
		strbuf_addf(out, "is left to %s", text_of(m, "left_to"));
	}
	if (message[0])
		strbuf_addf(out, ": \"%s\"", message);
	strbuf_adds(out, " (");
	if (json_get_u64(m, "task"))
		strbuf_addf(out, "tenure answer %" PRIu64 " yes requeues it, ", id);
	strbuf_addf(out, "tenure answer %" PRIu64 " no refuses)", id);
}

static void tell_answered(const json_t *m, struct strbuf *out)
{
	static const struct {
		const char *answer, *words;
	} all[] = { { "yes", "gets it" },
		    { "no", "does not get it" },
		    { "free", "need not be answered: no task has it any more" },
		    { "expired", "had no answer for an hour" },
		    { "given", "does not get it: another user asked first, and has come to it" } };
	const char *message = text_of(m, "message");

	add_asker(m, out);
	strbuf_addf(out, ", who asked for GPU %" PRIu64 ", ", json_get_u64(m, "gpu"));
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (strcmp(text_of(m, "answer"), all[i].answer) == 0)
			strbuf_adds(out, all[i].words);
	if (message[0])
		strbuf_addf(out, ": \"%s\"", message);
}

static void tell_meter(const json_t *m, struct strbuf *out)
{
	const json_t *gpus = json_object_get(m, "gpus"), *gpu;
	size_t i;

	strbuf_addf(out, "in %.0f s ", json_get_num(m, "for_s"));
	json_array_foreach(gpus, i, gpu)
	{
		strbuf_addf(out, "%sGPU %" PRIu64 " was held %.0f s", i ? "; " : "",
			    json_get_u64(gpu, "gpu"), json_get_num(gpu, "held_s"));
		if (json_is_number(json_object_get(gpu, "held_energy_j")))
			strbuf_addf(out, " (%.1f kJ)", json_get_num(gpu, "held_energy_j") / 1e3);
		if (json_get_num(gpu, "yielded_s") > 0)
			strbuf_addf(out, " and yielded %.0f s", json_get_num(gpu, "yielded_s"));
	}
}

/* -------- all kinds -------- */

/* A warning, and a piece of news for those that end in this way. */
static enum log_level level_of_end(const json_t *m)
{
	return strcmp(text_of(m, "outcome"), "failed") == 0 ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO;
}

static enum log_level level_of_trouble(const json_t *m)
{
	const char *what = text_of(m, "what");

	return strcmp(what, "late") == 0 || strcmp(what, "log-elsewhere") == 0 ? LOG_LEVEL_WARNING
									       : LOG_LEVEL_ERROR;
}

static enum log_level level_of_quarantine(const json_t *m)
{
	return strcmp(text_of(m, "quarantine"), "trusted") == 0 ? LOG_LEVEL_INFO
								: LOG_LEVEL_WARNING;
}

typedef void (*tell_guard_fn)(const struct guard_event *ev, const struct hold_policy *p,
			      const struct user_names *names, struct strbuf *out);
typedef void (*tell_own_fn)(const json_t *members, struct strbuf *out);

static const struct {
	enum log_level level;
	tell_guard_fn guard; /* NULL: in its own text */
	tell_own_fn own;
	const char *name;				   /* NULL: event_kind_name() */
	enum log_level (*level_of)(const json_t *members); /* NULL: level */
} kinds[] = {
	[EVENT_NOTE] = { LOG_LEVEL_INFO },
	[EVENT_START] = { LOG_LEVEL_DEBUG },
	[EVENT_HELD] = { LOG_LEVEL_INFO, tell_held },
	[EVENT_YIELD] = { LOG_LEVEL_INFO, tell_yield },
	[EVENT_RELEASE] = { LOG_LEVEL_INFO },
	[EVENT_BLIND] = { LOG_LEVEL_WARNING },
	[EVENT_GONE] = { LOG_LEVEL_DEBUG },
	[EVENT_FAILED] = { LOG_LEVEL_WARNING },
	[EVENT_LOST] = { LOG_LEVEL_WARNING },
	[EVENT_BACK] = { LOG_LEVEL_INFO },
	[EVENT_STATE] = { LOG_LEVEL_INFO },
	[EVENT_LENT] = { LOG_LEVEL_INFO, tell_lent },
	[EVENT_RETURNED] = { LOG_LEVEL_DEBUG },
	[OWN_AGENT] = { LOG_LEVEL_INFO, NULL, NULL, "agent" },
	[OWN_AGENT_STARTED] = { LOG_LEVEL_DEBUG, NULL, tell_agent_started, "agent-started" },
	[OWN_DEADLINE] = { LOG_LEVEL_WARNING, NULL, tell_deadline, "deadline" },
	[OWN_DRAINING] = { LOG_LEVEL_INFO, NULL, tell_draining, "draining" },
	[OWN_ENDING] = { LOG_LEVEL_INFO, NULL, tell_ending, "ending" },
	[OWN_GUARD_LOST] = { LOG_LEVEL_WARNING, NULL, tell_guard_lost, "guard-lost" },
	[OWN_GUARD_FOUND] = { LOG_LEVEL_INFO, NULL, tell_guard_found, "guard-found" },
	[OWN_NODE_LOST] = { LOG_LEVEL_WARNING, NULL, tell_node_lost, "node-lost" },
	[OWN_TASK_STARTED] = { LOG_LEVEL_INFO, NULL, tell_task_started, "task-started" },
	[OWN_TASK_ADOPTED] = { LOG_LEVEL_INFO, NULL, tell_task_adopted, "task-adopted" },
	[OWN_TASK_ENDED] = { LOG_LEVEL_INFO, NULL, tell_task_ended, "task-ended", level_of_end },
	[OWN_TASK_PAUSED] = { LOG_LEVEL_WARNING, NULL, tell_task_paused, "task-paused" },
	[OWN_TASK_REFUSED] = { LOG_LEVEL_WARNING, NULL, tell_task_refused, "task-refused" },
	[OWN_TASK_TROUBLE] = { LOG_LEVEL_ERROR, NULL, tell_task_trouble, "task-trouble",
			       level_of_trouble },
	[OWN_STUCK] = { LOG_LEVEL_WARNING, NULL, tell_stuck, "stuck" },
	[OWN_LANE_PAUSED] = { LOG_LEVEL_WARNING, NULL, tell_lane_paused, "lane-paused" },
	[OWN_SCALED] = { LOG_LEVEL_INFO, NULL, tell_scaled, "scaled" },
	[OWN_ALLOCATED] = { LOG_LEVEL_INFO, NULL, tell_allocated, "allocated" },
	[OWN_RELEASED] = { LOG_LEVEL_INFO, NULL, tell_released, "released" },
	[OWN_FREE] = { LOG_LEVEL_INFO, NULL, tell_free, "free" },
	[OWN_QUARANTINE] = { LOG_LEVEL_WARNING, NULL, tell_quarantine, "quarantine",
			     level_of_quarantine },
	[OWN_ASKED] = { LOG_LEVEL_WARNING, NULL, tell_asked, "asked" },
	[OWN_ANSWERED] = { LOG_LEVEL_INFO, NULL, tell_answered, "answered" },
	[OWN_METER] = { LOG_LEVEL_DEBUG, NULL, tell_meter, "meter" },
};
_Static_assert(ARRAY_LEN(kinds) == OWN_EVENT_MAX, "a way to tell every kind of event");

const char *sentence_kind(uint32_t kind)
{
	if (kind < EVENT_KIND_MAX)
		return event_kind_name(kind);
	return kinds[kind < OWN_EVENT_MAX ? kind : OWN_AGENT].name;
}

enum log_level sentence_level(uint32_t kind, const json_t *members)
{
	if (kind >= OWN_EVENT_MAX)
		return LOG_LEVEL_INFO;
	return kinds[kind].level_of ? kinds[kind].level_of(members) : kinds[kind].level;
}

void sentence_own(enum own_event kind, const json_t *members, struct strbuf *out)
{
	if (kind < OWN_EVENT_MAX && kinds[kind].own)
		kinds[kind].own(members, out);
}

void sentence_event(const struct guard_event *ev, int32_t mig, const struct hold_policy *policy,
		    const struct user_names *names, struct strbuf *out)
{
	tell_guard_fn tell = ev->kind < EVENT_KIND_MAX ? kinds[ev->kind].guard : NULL;

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
	strbuf_addf(out, "  %s", dev_state_shown(dev->state, dev->flags));
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
			    const struct user_names *names)
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
	return o;
}
