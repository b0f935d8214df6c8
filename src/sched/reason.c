/* SPDX-License-Identifier: MIT */

/*
 * A row for each code: its name, how it is told, and which arguments programs get. Devices with the
 * same words are named together.
 */
#include "sched/reason.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/units.h"

static const char *plural(uint32_t n)
{
	return n > 1 ? "s" : "";
}

static void add_ref(struct strbuf *out, struct sched_ref t)
{
	strbuf_addf(out, t.element ? "task %" PRIu64 ".%" PRIu32 : "task %" PRIu64, t.id,
		    t.element);
}

/* ---- what is on a device ---- */

typedef void (*device_fn)(const struct reason_device *d, const struct reason_words *words,
			  struct strbuf *out);

static void say_foreign(const struct reason_device *d, const struct reason_words *words,
			struct strbuf *out)
{
	cleanup_strbuf struct strbuf who = STRBUF_INIT;
	bool is_who = !words || !words->who || words->who(words->user, d->slot, &who);

	if (!is_who && who.len)
		strbuf_addf(out, "busy: %s", strbuf_str(&who));
	else
		strbuf_addf(out, "taken by %s", who.len ? strbuf_str(&who) : "somebody else");
}

static void say_lent(const struct reason_device *d, const struct reason_words *words,
		     struct strbuf *out)
{
	if (!d->instance) {
		strbuf_adds(out, "lent to another task");
		return;
	}
	strbuf_adds(out, !d->other.id ? "with the workload" : d->waits ? "held for " : "used by ");
	if (d->other.id)
		add_ref(out, d->other);
	strbuf_addf(out, " of instance %s", d->instance);
}

static void say_ours(const struct reason_device *d, const struct reason_words *words,
		     struct strbuf *out)
{
	if (!d->known) {
		strbuf_adds(out, "used by another task");
	} else if (!d->other.id) {
		strbuf_adds(out, "with the workload, which any task preempts");
	} else {
		strbuf_adds(out, "used by ");
		add_ref(out, d->other);
	}
}

static void say_memory(const struct reason_device *d, const struct reason_words *words,
		       struct strbuf *out)
{
	char size[UNIT_TEXT_MAX];

	strbuf_addf(out, "with only %s to give", unit_format_gib(d->bytes, size));
}

static void say_small(const struct reason_device *d, const struct reason_words *words,
		      struct strbuf *out)
{
	char size[UNIT_TEXT_MAX];

	strbuf_addf(out, "with only %s of memory", unit_format_gib(d->bytes, size));
}

static void say_kept(const struct reason_device *d, const struct reason_words *words,
		     struct strbuf *out)
{
	strbuf_adds(out, "kept for ");
	add_ref(out, d->other);
}

static void say_faulty(const struct reason_device *d, const struct reason_words *words,
		       struct strbuf *out)
{
	strbuf_addf(out, "with an error (XID %" PRIu32 ")", d->xid);
}

static void say_quarantined(const struct reason_device *d, const struct reason_words *words,
			    struct strbuf *out)
{
	strbuf_adds(out, "in quarantine");
	if (d->text && d->text[0])
		strbuf_addf(out, " (%s)", d->text);
}

/* "14:20", which is soon. */
static const char *time_of_day(uint64_t wall_ns, char *buf)
{
	return clock_format_local(wall_ns, buf) + strlen("2026-11-26 ");
}

static void say_left(const struct reason_device *d, const struct reason_words *words,
		     struct strbuf *out)
{
	char time[CLOCK_TEXT_MAX];

	if (d->text)
		strbuf_addf(out, "left to %s, who asked for it, until %.5s", d->text,
			    time_of_day(d->until_wall_ns, time));
	else
		strbuf_adds(out, "left for others");
}

static void say_model(const struct reason_device *d, const struct reason_words *words,
		      struct strbuf *out)
{
	strbuf_addf(out, "not of its model (%s)", d->model);
}

static const struct {
	const char *name;
	const char *text; /* "": not worth a word */
	device_fn say;	  /* instead of text */
} causes[] = {
	[CAUSE_NONE] = { "free", "", NULL },
	[CAUSE_EXCLUDED] = { "not-selected", "", NULL },
	[CAUSE_LEFT] = { "left", NULL, say_left },
	[CAUSE_UNSEEN] = { "unseen", "not to be seen", NULL },
	[CAUSE_PROHIBITED] = { "prohibited", "in compute mode PROHIBITED", NULL },
	[CAUSE_FAULTY] = { "faulty", NULL, say_faulty },
	[CAUSE_QUARANTINED] = { "quarantined", NULL, say_quarantined },
	[CAUSE_MODEL] = { "model", NULL, say_model },
	[CAUSE_SMALL] = { "small", NULL, say_small },
	[CAUSE_FOREIGN] = { "foreign", NULL, say_foreign },
	[CAUSE_LENT] = { "lent", NULL, say_lent },
	[CAUSE_TESTED] = { "tested", "tested by tenure burn --exclusive", NULL },
	[CAUSE_OURS] = { "task", NULL, say_ours },
	[CAUSE_PYTHON] = { "own-python", "used by another Python process of yours", NULL },
	[CAUSE_PROCESS] = { "one-process", "in use, and for one process at a time", NULL },
	[CAUSE_BLIND] = { "memory-unknown", "of which the free memory is not known", NULL },
	[CAUSE_MEMORY] = { "memory", NULL, say_memory },
	[CAUSE_KEPT] = { "kept", NULL, say_kept },
};
_Static_assert(ARRAY_LEN(causes) == CAUSE_MAX, "words for every cause");

static void say_device(const struct reason_device *d, const struct reason_words *words,
		       struct strbuf *out)
{
	if (d->held_for_it)
		strbuf_adds(out, "held for it");
	else if (causes[d->cause].say)
		causes[d->cause].say(d, words, out);
	else
		strbuf_adds(out, causes[d->cause].text);
}

/* ", GPU 1, 3 and 4 left for others": those from `first` on with the same words. */
static void add_alike(const struct reason *r, struct strbuf *said, size_t first, struct strbuf *out)
{
	cleanup_free char *words = strbuf_take(&said[first]);
	size_t left = 1, n = 0;

	for (size_t i = first + 1; i < r->n_devices; i++)
		left += said[i].len && !strcmp(strbuf_str(&said[i]), words);
	for (size_t i = first; i < r->n_devices; i++) {
		if (i > first && (!said[i].len || strcmp(strbuf_str(&said[i]), words) != 0))
			continue;
		strbuf_addf(out, "%s%u",
			    !n		    ? ", GPU "
			    : n + 1 == left ? " and "
					    : ", ",
			    r->devices[i].index);
		strbuf_clear(&said[i]);
		said[i] = (struct strbuf)STRBUF_INIT;
		n++;
	}
	strbuf_addf(out, " %s", words);
}

/* There is no room for a holder beside the task, so nobody keeps others from such a device. */
static void add_one_process(const struct reason *r, struct strbuf *out)
{
	unsigned int n = 0;

	for (size_t i = 0; i < r->n_devices; i++)
		if (r->devices[i].one_process)
			strbuf_addf(out, n++ ? ", %u" : "; before a task nothing is held on GPU %u",
				    r->devices[i].index);
	if (n)
		strbuf_adds(out, " (compute mode EXCLUSIVE_PROCESS)");
}

static void add_devices(const struct reason *r, const struct reason_words *words,
			struct strbuf *out)
{
	struct strbuf *said = xcalloc(r->n_devices ? r->n_devices : 1, sizeof(*said));

	for (size_t i = 0; i < r->n_devices; i++)
		say_device(&r->devices[i], words, &said[i]);
	for (size_t i = 0; i < r->n_devices; i++)
		if (said[i].len)
			add_alike(r, said, i, out);
	free(said);
	add_one_process(r, out);
}

/* ---- codes ---- */

enum reason_args {
	ARG_OTHER = 1 << 0,
	ARG_LANE = 1 << 1,
	ARG_TEXT = 1 << 2,
	ARG_MS = 1 << 3,
	ARG_WANT = 1 << 4,
	ARG_FREE = 1 << 5,
	ARG_USABLE = 1 << 6,
	ARG_TOTAL = 1 << 7,
	ARG_RUNNING = 1 << 8,
	ARG_LIMIT = 1 << 9,
	ARG_DEVICES = 1 << 10,
	ARG_WHERE = 1 << 11,
	ARG_BEGIN = 1 << 12,
};

typedef void (*code_fn)(const struct reason *r, const struct reason_words *words,
			struct strbuf *out);

#define TELLS(name_)                                                                               \
	static void name_(const struct reason *r, const struct reason_words *words,                \
			  struct strbuf *out)

TELLS(tell_runs)
{
	char ran[UNIT_TEXT_MAX];

	strbuf_addf(out, "has run for %s%s", unit_format_duration(r->ms, ran),
		    r->preempting ? ", and was told to make room for another task" : "");
}

TELLS(tell_never)
{
	strbuf_addf(out, "can never run: %s",
		    r->text ? r->text : "a task that it needs has failed");
}

TELLS(tell_changing)
{
	strbuf_adds(out, "is being changed by a command, and waits until that is done; if it was "
			 "interrupted, for a minute");
}

TELLS(tell_paused)
{
	strbuf_addf(out, "is paused; `tenure resume %" PRIu64 "` resumes it", r->task.id);
}

TELLS(tell_depends)
{
	if (!r->other.id) {
		strbuf_adds(out, r->text ? r->text : "waits for another task to end");
		return;
	}
	strbuf_addf(out, "waits until task %" PRIu64 " has ended%s", r->other.id,
		    r->well ? " well" : "");
	if (r->text)
		strbuf_addf(out, " (it is %s)", r->text);
	if (r->more)
		strbuf_addf(out, ", and for %" PRIu32 " more", r->more);
}

TELLS(tell_broken)
{
	strbuf_addf(out, "task %" PRIu64 ", which it needs, %s", r->other.id, r->text);
}

TELLS(tell_loop)
{
	strbuf_addf(out, "it waits for itself: %s", r->text);
}

TELLS(tell_begin)
{
	char when[CLOCK_TEXT_MAX];

	strbuf_addf(out, "is not to begin before %s", clock_format_local(r->wall_ns, when));
}

TELLS(tell_gang)
{
	strbuf_adds(out, r->text ? r->text : "waits until all its ranks can start at once");
}

TELLS(tell_lane_paused)
{
	strbuf_addf(out, "its lane %s is paused: %s; `tenure resume %s` resumes it", r->lane,
		    r->text, r->lane);
}

TELLS(tell_lane_elsewhere)
{
	strbuf_addf(out, "waits for its lane %s: %s", r->lane, r->text);
}

TELLS(tell_array_elsewhere)
{
	strbuf_addf(out, "waits for its array: %s", r->text);
}

TELLS(tell_backoff)
{
	char left[UNIT_TEXT_MAX];

	strbuf_addf(out, "waits %s before its next attempt", unit_format_duration(r->ms, left));
}

TELLS(tell_lane_full)
{
	strbuf_addf(out,
		    "waits in lane %s until one of it has ended: %" PRIu32
		    " run, which is its width",
		    r->lane, r->running);
}

TELLS(tell_lane_task)
{
	strbuf_addf(out, "waits in lane %s until ", r->lane);
	add_ref(out, r->other);
	strbuf_adds(out, " has ended");
}

TELLS(tell_lane_behind)
{
	strbuf_addf(out, "waits in lane %s behind ", r->lane);
	add_ref(out, r->other);
}

TELLS(tell_array_full)
{
	strbuf_addf(out,
		    "waits until one of its array has ended: %" PRIu32 " run, which is its limit",
		    r->running);
}

TELLS(tell_pool)
{
	strbuf_adds(out, "waits for another node: by its pool it is not for this one");
}

TELLS(tell_too_late)
{
	char limit[UNIT_TEXT_MAX], end[CLOCK_TEXT_MAX];

	strbuf_addf(out,
		    "is not started on this node any more: it may run for %s (timeout), and what "
		    "runs in the job of this agent is stopped at %s",
		    unit_format_duration_exact(r->ms, limit), clock_format_local(r->wall_ns, end));
}

TELLS(tell_cpu_slots)
{
	strbuf_addf(out, "waits until one of %" PRIu32 " tasks without a GPU has ended",
		    r->running);
}

TELLS(tell_few_gpus)
{
	strbuf_addf(out,
		    "cannot run on this node: it needs %" PRIu32 " GPUs, and there %s %" PRIu32
		    " here",
		    r->want, r->total == 1 ? "is" : "are", r->total);
}

TELLS(tell_max_devices)
{
	strbuf_addf(out,
		    "cannot run on this node as it is: it needs %" PRIu32
		    " GPU%s, max_devices leaves %" PRIu32 " to this instance",
		    r->want, plural(r->want), r->limit);
}

TELLS(tell_max_now)
{
	strbuf_addf(out,
		    "waits for %" PRIu32 " GPU%s: max_devices leaves %" PRIu32
		    " to this instance, and its tasks have %" PRIu32,
		    r->want, plural(r->want), r->limit, r->running);
}

TELLS(tell_no_fit)
{
	strbuf_addf(out,
		    "cannot run on this node as it is: it needs %" PRIu32 " GPU%s, %" PRIu32
		    " of %" PRIu32 " would do",
		    r->want, plural(r->want), r->usable, r->total);
	add_devices(r, words, out);
}

TELLS(tell_gpus)
{
	strbuf_addf(out, "waits for %" PRIu32 " GPU%s: %" PRIu32 " of %" PRIu32 " free", r->want,
		    plural(r->want), r->free, r->usable);
	add_devices(r, words, out);
}

TELLS(tell_array_behind)
{
	strbuf_adds(out, "waits behind ");
	add_ref(out, r->other);
	strbuf_adds(out, ", which comes first in its array");
}

TELLS(tell_next_plan)
{
	strbuf_adds(out, "can start, and will with the next plan");
}

TELLS(tell_draining)
{
	strbuf_addf(out, "the agent on %s starts nothing more: %s", r->where, r->text);
}

TELLS(tell_read_again)
{
	strbuf_addf(out, "its file cannot be read (%s), and is read again", r->text);
}

TELLS(tell_unreadable)
{
	strbuf_addf(out, "cannot start, because %s cannot be read: %s", r->where, r->text);
}

TELLS(tell_requeued)
{
	strbuf_adds(out, "was requeued");
}

TELLS(tell_ready)
{
	strbuf_adds(out, "is ready to start");
}

TELLS(tell_no_agent)
{
	strbuf_addf(out, "no agent of instance %s serves this queue here: %s starts one", r->where,
		    r->text);
}

/* ---- a few words ---- */

typedef void (*brief_fn)(const struct reason *r, struct strbuf *out);

#define BRIEFLY(name_) static void name_(const struct reason *r, struct strbuf *out)

static void add_id(struct strbuf *out, struct sched_ref t)
{
	strbuf_addf(out, t.element ? "%" PRIu64 ".%" PRIu32 : "%" PRIu64, t.id, t.element);
}

BRIEFLY(brief_never)
{
	strbuf_addf(out, "can never run: %s", r->text ? r->text : "a task that it needs failed");
}

BRIEFLY(brief_depends)
{
	strbuf_adds(out, "after ");
	if (r->other.id)
		add_id(out, r->other);
	else
		strbuf_adds(out, "others");
	if (r->more)
		strbuf_addf(out, " and %" PRIu32 " more", r->more);
}

BRIEFLY(brief_begin)
{
	char when[CLOCK_TEXT_MAX];

	strbuf_addf(out, "not before %s", clock_format_local(r->wall_ns, when));
}

BRIEFLY(brief_lane_paused)
{
	strbuf_addf(out, "lane %s is paused", r->lane);
}

BRIEFLY(brief_lane_elsewhere)
{
	strbuf_addf(out, "another node has lane %s", r->lane);
}

BRIEFLY(brief_backoff)
{
	char left[UNIT_TEXT_MAX];

	strbuf_addf(out, "next attempt in %s", unit_format_duration(r->ms, left));
}

BRIEFLY(brief_lane_full)
{
	strbuf_addf(out, "%" PRIu32 " of lane %s run", r->running, r->lane);
}

BRIEFLY(brief_lane)
{
	strbuf_addf(out, "behind ");
	add_id(out, r->other);
	strbuf_addf(out, " in lane %s", r->lane);
}

BRIEFLY(brief_array_full)
{
	strbuf_addf(out, "%" PRIu32 " of its array run%s", r->running, r->running == 1 ? "s" : "");
}

BRIEFLY(brief_cpu_slots)
{
	strbuf_addf(out, "%" PRIu32 " without a GPU run%s", r->running, r->running == 1 ? "s" : "");
}

BRIEFLY(brief_few_gpus)
{
	strbuf_addf(out, "needs %" PRIu32 " GPU%s, %" PRIu32 " %s here", r->want, plural(r->want),
		    r->total, r->total == 1 ? "is" : "are");
}

BRIEFLY(brief_max_devices)
{
	strbuf_addf(out, "needs %" PRIu32 " GPU%s, max_devices leaves %" PRIu32, r->want,
		    plural(r->want), r->limit);
}

BRIEFLY(brief_max_now)
{
	strbuf_addf(out, "max_devices: %" PRIu32 " of %" PRIu32 " in use", r->running, r->limit);
}

/* What is left to somebody is free to see, and not to be had. */
static void brief_left(const struct reason *r, struct strbuf *out)
{
	for (size_t i = 0; i < r->n_devices; i++) {
		const struct reason_device *d = &r->devices[i];
		char time[CLOCK_TEXT_MAX];

		if (d->cause == CAUSE_LEFT && d->text)
			strbuf_addf(out, ", GPU %u is left to %s until %.5s", d->index, d->text,
				    time_of_day(d->until_wall_ns, time));
	}
}

BRIEFLY(brief_no_fit)
{
	strbuf_addf(out, "needs %" PRIu32 " GPU%s, %" PRIu32 " of %" PRIu32 " would do", r->want,
		    plural(r->want), r->usable, r->total);
	brief_left(r, out);
}

BRIEFLY(brief_gpus)
{
	strbuf_addf(out, "needs %" PRIu32 " GPU%s, %" PRIu32 " %s free", r->want, plural(r->want),
		    r->free, r->free == 1 ? "is" : "are");
	brief_left(r, out);
}

BRIEFLY(brief_array_behind)
{
	strbuf_adds(out, "behind ");
	add_id(out, r->other);
}

static const struct {
	const char *name;
	code_fn tell;
	unsigned int args; /* enum reason_args, for programs */
	const char *brief;
	brief_fn briefly; /* instead of brief */
} codes[] = {
	[REASON_RUNS] = { "runs", tell_runs, ARG_MS, "runs" },
	[REASON_NEVER] = { "never", tell_never, ARG_OTHER | ARG_TEXT, NULL, brief_never },
	[REASON_CHANGING] = { "changing", tell_changing, 0, "is being changed" },
	[REASON_PAUSED] = { "paused", tell_paused, 0, "paused" },
	[REASON_DEPENDS] = { "depends", tell_depends, ARG_OTHER | ARG_TEXT, NULL, brief_depends },
	[REASON_DEPENDS_BROKEN] = { "depends-broken", tell_broken, ARG_OTHER | ARG_TEXT,
				    "what it needs has failed" },
	[REASON_DEPENDS_LOOP] = { "depends-loop", tell_loop, ARG_TEXT, "waits for itself" },
	[REASON_BEGIN] = { "begin", tell_begin, ARG_BEGIN, NULL, brief_begin },
	[REASON_GANG] = { "gang", tell_gang, ARG_TEXT, "its ranks start at once" },
	[REASON_LANE_PAUSED] = { "lane-paused", tell_lane_paused, ARG_LANE | ARG_TEXT, NULL,
				 brief_lane_paused },
	[REASON_LANE_ELSEWHERE] = { "lane-elsewhere", tell_lane_elsewhere, ARG_LANE | ARG_TEXT,
				    NULL, brief_lane_elsewhere },
	[REASON_ARRAY_ELSEWHERE] = { "array-elsewhere", tell_array_elsewhere, ARG_TEXT,
				     "another node has its array" },
	[REASON_BACKOFF] = { "backoff", tell_backoff, ARG_MS, NULL, brief_backoff },
	[REASON_LANE_FULL] = { "lane-full", tell_lane_full, ARG_LANE | ARG_RUNNING, NULL,
			       brief_lane_full },
	[REASON_LANE_TASK] = { "lane-task", tell_lane_task, ARG_LANE | ARG_OTHER, NULL,
			       brief_lane },
	[REASON_LANE_BEHIND] = { "lane-behind", tell_lane_behind, ARG_LANE | ARG_OTHER, NULL,
				 brief_lane },
	[REASON_ARRAY_FULL] = { "array-full", tell_array_full, ARG_RUNNING, NULL,
				brief_array_full },
	[REASON_POOL] = { "pool", tell_pool, 0, "for nodes of another pool" },
	[REASON_TOO_LATE] = { "too-late", tell_too_late, ARG_MS | ARG_BEGIN,
			      "runs longer than this node is there" },
	[REASON_CPU_SLOTS] = { "cpu-slots", tell_cpu_slots, ARG_RUNNING, NULL, brief_cpu_slots },
	[REASON_FEW_GPUS] = { "few-gpus", tell_few_gpus, ARG_WANT | ARG_TOTAL, NULL,
			      brief_few_gpus },
	[REASON_MAX_DEVICES] = { "max-devices", tell_max_devices, ARG_WANT | ARG_LIMIT, NULL,
				 brief_max_devices },
	[REASON_MAX_NOW] = { "max-devices-now", tell_max_now, ARG_WANT | ARG_LIMIT | ARG_RUNNING,
			     NULL, brief_max_now },
	[REASON_NO_FIT] = { "no-fit", tell_no_fit, ARG_WANT | ARG_USABLE | ARG_TOTAL | ARG_DEVICES,
			    NULL, brief_no_fit },
	[REASON_GPUS] = { "gpus", tell_gpus, ARG_WANT | ARG_FREE | ARG_USABLE | ARG_DEVICES, NULL,
			  brief_gpus },
	[REASON_ARRAY_BEHIND] = { "array-behind", tell_array_behind, ARG_OTHER, NULL,
				  brief_array_behind },
	[REASON_NEXT_PLAN] = { "next-plan", tell_next_plan, 0, "can start" },
	[REASON_DRAINING] = { "draining", tell_draining, ARG_WHERE | ARG_TEXT,
			      "its agent starts nothing more" },
	[REASON_READ_AGAIN] = { "read-again", tell_read_again, ARG_TEXT, "its file is read again" },
	[REASON_UNREADABLE] = { "unreadable", tell_unreadable, ARG_WHERE | ARG_TEXT,
				"its file cannot be read" },
	[REASON_REQUEUED] = { "requeued", tell_requeued, 0, "was requeued" },
	[REASON_READY] = { "ready", tell_ready, 0, "ready" },
	[REASON_NO_AGENT] = { "no-agent", tell_no_agent, ARG_WHERE | ARG_TEXT, "no agent runs" },
};
_Static_assert(ARRAY_LEN(codes) == REASON_MAX, "a row for every code");

const char *reason_code_name(enum reason_code code)
{
	return (unsigned int)code < REASON_MAX ? codes[code].name : "?";
}

static const char *ordinal(uint64_t n)
{
	uint64_t ten = n % 100 / 10, one = n % 10;

	return ten == 1 || one > 3 || !one ? "th" : one == 1 ? "st" : one == 2 ? "nd" : "rd";
}

void reason_text(const struct reason *r, const struct reason_words *words, struct strbuf *out)
{
	codes[r->code].tell(r, words, out);
	if (r->note)
		strbuf_addf(out, " (%s)", r->note);
	if (r->place)
		strbuf_addf(out, "; %" PRIu64 "%s in order", r->place, ordinal(r->place));
}

void reason_brief(const struct reason *r, struct strbuf *out)
{
	if (codes[r->code].briefly)
		codes[r->code].briefly(r, out);
	else
		strbuf_adds(out, codes[r->code].brief);
}

bool reason_repeats(const char *text, const char *note)
{
	return text && note && strstr(text, note);
}

/* ---- for programs ---- */

static void set(json_t *o, const char *key, json_t *value)
{
	if (value)
		(void)json_object_set_new(o, key, value);
}

static void set_ref(json_t *o, struct sched_ref t)
{
	set(o, "task", json_integer((json_int_t)t.id));
	if (t.element)
		set(o, "element", json_integer((json_int_t)t.element));
}

static json_t *device_json(const struct reason_device *d, const struct reason_words *words)
{
	cleanup_strbuf struct strbuf said = STRBUF_INIT;
	json_t *o = json_pack("{s:i, s:s}", "gpu", (int)d->index, "cause",
			      d->held_for_it ? "held-for-it" : causes[d->cause].name);

	if (d->other.id)
		set_ref(o, d->other);
	if (d->instance)
		set(o, "instance", json_string(d->instance));
	if (d->cause == CAUSE_MEMORY || d->cause == CAUSE_SMALL)
		set(o, "bytes", json_integer((json_int_t)d->bytes));
	if (d->xid)
		set(o, "xid", json_integer((json_int_t)d->xid));
	say_device(d, words, &said);
	if (said.len)
		set(o, "text", json_string(strbuf_str(&said)));
	return o;
}

static json_t *devices_json(const struct reason *r, const struct reason_words *words)
{
	json_t *a = json_array();

	for (size_t i = 0; i < r->n_devices; i++)
		if (r->devices[i].cause != CAUSE_EXCLUDED)
			(void)json_array_append_new(a, device_json(&r->devices[i], words));
	return a;
}

static void set_number(json_t *o, const char *key, unsigned int args, unsigned int arg, uint64_t n)
{
	if (args & arg)
		set(o, key, json_integer((json_int_t)n));
}

json_t *reason_json(const struct reason *r, const struct reason_words *words)
{
	unsigned int args = codes[r->code].args;
	char time[CLOCK_TEXT_MAX];
	json_t *o = json_pack("{s:s}", "code", codes[r->code].name);

	if (args & ARG_OTHER && r->other.id)
		set_ref(o, r->other);
	if (args & ARG_LANE)
		set(o, "lane", json_string(r->lane));
	if (args & ARG_WHERE && r->where)
		set(o, "where", json_string(r->where));
	if (args & ARG_TEXT && r->text)
		set(o, "text", json_string(r->text));
	if (args & ARG_MS)
		set(o, "seconds", json_real((double)r->ms / 1000.0));
	if (args & ARG_BEGIN)
		set(o, "time", json_string(clock_format_iso(r->wall_ns, time)));
	set_number(o, "want", args, ARG_WANT, r->want);
	set_number(o, "free", args, ARG_FREE, r->free);
	set_number(o, "usable", args, ARG_USABLE, r->usable);
	set_number(o, "total", args, ARG_TOTAL, r->total);
	set_number(o, "running", args, ARG_RUNNING, r->running);
	set_number(o, "limit", args, ARG_LIMIT, r->limit);
	if (args & ARG_DEVICES)
		set(o, "devices", devices_json(r, words));
	if (r->note)
		set(o, "note", json_string(r->note));
	if (r->place)
		set(o, "place", json_integer((json_int_t)r->place));
	return o;
}
