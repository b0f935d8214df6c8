/* SPDX-License-Identifier: MIT */
#include "agent/node/quarantine.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"

#define HOUR_NS	  (3600 * NS_PER_S)
#define DAY_NS	  (24 * HOUR_NS)
#define WINDOW_NS HOUR_NS /* in which outcomes count together */
#define TASKS	  2	  /* that many shut it */
#define FILE_MAX  (1UL << 20)

static const char *const state_names[] = { [QUARANTINE_TRUSTED] = "trusted",
					   [QUARANTINE_SHUT] = "shut",
					   [QUARANTINE_PROBATION] = "probation" };
_Static_assert(ARRAY_LEN(state_names) == QUARANTINE_STATE_MAX, "a name for every state");

#define STAYS QUARANTINE_STATE_MAX
#define T     QUARANTINE_TRUSTED
#define S     QUARANTINE_SHUT
#define P     QUARANTINE_PROBATION

static const enum quarantine_state steps[QUARANTINE_STATE_MAX][QUARANTINE_EVENT_MAX] = {
	/*                BLAMED EXCUSED FAILED  WELL   TIME   REBOOT PERSON HEALTHY SICK */
	[T] = { S, STAYS, STAYS, STAYS, STAYS, STAYS, STAYS, STAYS, S },
	[S] = { STAYS, T, STAYS, STAYS, P, P, T, T, S },
	[P] = { S, STAYS, S, T, STAYS, STAYS, T, T, S },
};

char *quarantine_words(const struct quarantine_device *d, char buf[QUARANTINE_WORDS_MAX])
{
	char until[CLOCK_TEXT_MAX];

	buf[0] = '\0';
	if (d && d->state == QUARANTINE_SHUT && d->until_ns)
		return str_print(buf, QUARANTINE_WORDS_MAX, "in quarantine until %s: %s",
				 clock_format_local(d->until_ns, until), d->reason);
	if (d && d->state == QUARANTINE_SHUT)
		return str_print(buf, QUARANTINE_WORDS_MAX, "in quarantine: %s", d->reason);
	if (d && d->state == QUARANTINE_PROBATION)
		return str_print(buf, QUARANTINE_WORDS_MAX, "on probation: %s", d->reason);
	return buf;
}

struct quarantine *quarantine_new(const char *boot)
{
	struct quarantine *q = xcalloc(1, sizeof(*q));
	cleanup_free char *own = NULL;
	size_t len;

	if (!boot && fs_read_file("/proc/sys/kernel/random/boot_id", 64, &own, &len, NULL) == 0)
		own[strcspn(own, "\n")] = '\0';
	(void)str_copy(q->boot, sizeof(q->boot), boot ? boot : own ? own : "");
	return q;
}

struct quarantine *quarantine_free(struct quarantine *q)
{
	free(q);
	return NULL;
}

const struct quarantine_device *quarantine_find(const struct quarantine *q, const char *uuid)
{
	for (size_t i = 0; i < q->n_devices; i++)
		if (!strcmp(q->devices[i].uuid, uuid))
			return &q->devices[i];
	return NULL;
}

static void forget_oldest(struct quarantine *q)
{
	size_t oldest = 0;

	for (size_t i = 1; i < q->n_devices; i++)
		if (q->devices[i].changed_ns < q->devices[oldest].changed_ns)
			oldest = i;
	q->n_devices--;
	(void)memmove(&q->devices[oldest], &q->devices[oldest + 1],
		      (q->n_devices - oldest) * sizeof(*q->devices));
}

static struct quarantine_device *get(struct quarantine *q, const char *uuid)
{
	size_t at = 0;

	while (at < q->n_devices && strcmp(q->devices[at].uuid, uuid) < 0)
		at++;
	if (at < q->n_devices && !strcmp(q->devices[at].uuid, uuid))
		return &q->devices[at];
	if (q->n_devices == QUARANTINE_DEVICES) {
		forget_oldest(q);
		return get(q, uuid);
	}
	(void)memmove(&q->devices[at + 1], &q->devices[at],
		      (q->n_devices - at) * sizeof(*q->devices));
	q->n_devices++;
	q->devices[at] = (struct quarantine_device){ .state = QUARANTINE_TRUSTED };
	(void)str_copy(q->devices[at].uuid, sizeof(q->devices[at].uuid), uuid);
	return &q->devices[at];
}

/* ---- the rule ---- */

static bool is_bad(const struct quarantine_outcome *o)
{
	return o->what[0];
}

static bool is_within(uint64_t at_ns, uint64_t now_ns, uint64_t span_ns)
{
	return at_ns <= now_ns ? now_ns - at_ns <= span_ns : at_ns - now_ns <= span_ns;
}

/* The same program has said so of another device. */
static bool is_excused(const struct quarantine *q, const struct quarantine_outcome *o)
{
	for (size_t i = 0; i < q->n_outcomes; i++) {
		const struct quarantine_outcome *other = &q->outcomes[i];

		if (is_bad(other) && !strcmp(other->name, o->name) &&
		    strcmp(other->uuid, o->uuid) != 0 &&
		    is_within(other->ended_ns, o->ended_ns, WINDOW_NS))
			return true;
	}
	return false;
}

static bool works_elsewhere(const struct quarantine *q, const struct quarantine_outcome *o)
{
	for (size_t i = 0; i < q->n_outcomes; i++) {
		const struct quarantine_outcome *other = &q->outcomes[i];

		if (!is_bad(other) && !strcmp(other->name, o->name) &&
		    strcmp(other->uuid, o->uuid) != 0 &&
		    is_within(other->ended_ns, o->ended_ns, DAY_NS))
			return true;
	}
	return false;
}

/* What speaks against a device, around a moment. */
struct evidence {
	const struct quarantine_outcome *first, *second; /* of two tasks */
	bool two_programs, absolved;			 /* a program of them works elsewhere */
	unsigned int excused;
};

static void weigh(const struct quarantine *q, const struct quarantine_outcome *o,
		  struct evidence *v)
{
	if (is_excused(q, o)) {
		v->excused++;
		return;
	}
	v->absolved = v->absolved || works_elsewhere(q, o);
	if (!v->first)
		v->first = o;
	else if (strcmp(v->first->task, o->task) != 0 && !v->second)
		v->second = o;
	v->two_programs = v->two_programs || strcmp(v->first->name, o->name) != 0;
}

/* What was before it got tasks again does not count any more. */
static struct evidence evidence_at(const struct quarantine *q, const char *uuid, uint64_t now_ns)
{
	const struct quarantine_device *d = quarantine_find(q, uuid);
	uint64_t since = d && d->state != QUARANTINE_SHUT ? d->changed_ns : 0;
	struct evidence v = { .first = NULL };

	for (size_t i = 0; i < q->n_outcomes; i++) {
		const struct quarantine_outcome *o = &q->outcomes[i];

		if (is_bad(o) && !strcmp(o->uuid, uuid) && o->ended_ns > since &&
		    is_within(o->ended_ns, now_ns, WINDOW_NS))
			weigh(q, o, &v);
	}
	return v;
}

static bool holds(const struct evidence *v)
{
	_Static_assert(TASKS == 2, "first and second");
	return v->second && (v->two_programs || v->absolved);
}

bool quarantine_blames(const struct quarantine *q, const char *uuid, uint64_t now_ns, char *reason)
{
	struct evidence v = evidence_at(q, uuid, now_ns);

	if (!holds(&v))
		return false;
	(void)str_print(reason, QUARANTINE_TEXT_MAX,
			"tasks %.40s and %.40s failed on it with %.30s%s%.30s", v.first->task,
			v.second->task, v.first->what,
			strcmp(v.first->what, v.second->what) != 0 ? " and " : "",
			strcmp(v.first->what, v.second->what) != 0 ? v.second->what : "");
	return true;
}

/* ---- states ---- */

static uint64_t shut_for(unsigned int times)
{
	uint64_t ns = HOUR_NS;

	while (--times > 0 && ns < DAY_NS)
		ns *= 2;
	return ns < DAY_NS ? ns : DAY_NS;
}

static void shut(struct quarantine_device *d, enum quarantine_event event, uint64_t now_ns)
{
	bool relapse = d->times && is_within(d->changed_ns, now_ns, DAY_NS);

	d->times = relapse ? d->times + 1 : 1;
	d->by_tasks = event != QUARANTINE_SICK;
	d->until_ns = d->by_tasks ? now_ns + shut_for(d->times) : 0;
}

static void step(struct quarantine *q, const char *uuid, enum quarantine_event event,
		 const char *reason, uint64_t now_ns)
{
	const struct quarantine_device *known = quarantine_find(q, uuid);
	enum quarantine_state next = steps[known ? known->state : QUARANTINE_TRUSTED][event];
	struct quarantine_device *d;

	if (next == STAYS)
		return;
	d = get(q, uuid);
	if (next == QUARANTINE_SHUT)
		shut(d, event, now_ns);
	else
		d->until_ns = 0;
	if (event == QUARANTINE_PERSON || event == QUARANTINE_HEALTHY ||
	    event == QUARANTINE_EXCUSED)
		d->times = 0;
	d->state = next;
	d->changed_ns = now_ns > d->changed_ns ? now_ns : d->changed_ns + 1;
	if (reason)
		(void)str_copy(d->reason, sizeof(d->reason), reason);
}

void quarantine_say(struct quarantine *q, const char *uuid, enum quarantine_event event,
		    const char *reason, uint64_t now_ns)
{
	step(q, uuid, event, reason, now_ns);
}

void quarantine_tick(struct quarantine *q, uint64_t now_ns)
{
	for (size_t i = 0; i < q->n_devices; i++) {
		const struct quarantine_device *d = &q->devices[i];

		if (d->state == QUARANTINE_SHUT && d->until_ns && now_ns >= d->until_ns)
			step(q, d->uuid, QUARANTINE_TIME_IS_OVER, NULL, now_ns);
	}
}

/* ---- outcomes ---- */

static void remove_outcome(struct quarantine *q, size_t at)
{
	q->n_outcomes--;
	(void)memmove(&q->outcomes[at], &q->outcomes[at + 1],
		      (q->n_outcomes - at) * sizeof(*q->outcomes));
}

/* Of what went well the last time of a program on a device is all that counts. */
static bool replaces(const struct quarantine_outcome *new, const struct quarantine_outcome *old)
{
	if (strcmp(new->uuid, old->uuid) != 0 || strcmp(new->name, old->name) != 0 ||
	    is_bad(new) != is_bad(old))
		return false;
	return !is_bad(new) || (!strcmp(new->task, old->task) &&
				new->ended_ns / NS_PER_S == old->ended_ns / NS_PER_S);
}

static int cmp_outcomes(const struct quarantine_outcome *a, const struct quarantine_outcome *b)
{
	int d = (a->ended_ns > b->ended_ns) - (a->ended_ns < b->ended_ns);

	d = d ? d : strcmp(a->uuid, b->uuid);
	d = d ? d : strcmp(a->task, b->task);
	return d ? d : strcmp(a->what, b->what);
}

/* In the order in which they ended, the same in all agents; false: a later one says the same. */
static bool add_outcome(struct quarantine *q, const struct quarantine_outcome *o)
{
	size_t at;

	for (size_t i = 0; i < q->n_outcomes; i++) {
		if (!replaces(o, &q->outcomes[i]))
			continue;
		if (q->outcomes[i].ended_ns >= o->ended_ns)
			return false;
		remove_outcome(q, i);
		break;
	}
	if (q->n_outcomes == QUARANTINE_OUTCOMES)
		remove_outcome(q, 0);
	for (at = q->n_outcomes; at > 0 && cmp_outcomes(&q->outcomes[at - 1], o) > 0; at--)
		q->outcomes[at] = q->outcomes[at - 1];
	q->outcomes[at] = *o;
	q->n_outcomes++;
	return true;
}

/* Those of which it comes out now that it was the program. */
static void look_for_excused(struct quarantine *q, uint64_t now_ns)
{
	for (size_t i = 0; i < q->n_devices; i++) {
		const struct quarantine_device *d = &q->devices[i];
		struct evidence v;

		if (d->state != QUARANTINE_SHUT || !d->by_tasks)
			continue;
		v = evidence_at(q, d->uuid, d->changed_ns);
		if (v.excused && !holds(&v))
			step(q, d->uuid, QUARANTINE_EXCUSED,
			     "what failed there has failed elsewhere, too", now_ns);
	}
}

void quarantine_note(struct quarantine *q, const struct quarantine_outcome *o, uint64_t now_ns)
{
	char reason[QUARANTINE_TEXT_MAX];

	if (!add_outcome(q, o))
		return;
	if (!is_bad(o)) {
		(void)str_print(reason, sizeof(reason), "task %.60s has ended well on it", o->task);
		step(q, o->uuid, QUARANTINE_WENT_WELL, reason, now_ns);
	} else if (!is_excused(q, o)) {
		(void)str_print(reason, sizeof(reason), "task %.60s failed on it with %.60s, again",
				o->task, o->what);
		step(q, o->uuid, QUARANTINE_FAILED, reason, now_ns);
	}
	/* What works elsewhere may be known only now. */
	for (size_t i = 0; i < q->n_outcomes; i++) {
		const char *uuid = q->outcomes[i].uuid;

		if (is_bad(&q->outcomes[i]) && !strcmp(q->outcomes[i].name, o->name) &&
		    quarantine_blames(q, uuid, now_ns, reason))
			step(q, uuid, QUARANTINE_BLAMED, reason, now_ns);
	}
	look_for_excused(q, now_ns);
}

/* ---- the file ---- */

static json_t *device_json(const struct quarantine_device *d)
{
	return json_pack("{s:s, s:s, s:I, s:I, s:i, s:b, s:s}", "uuid", d->uuid, "state",
			 state_names[d->state], "changed_ns", (json_int_t)d->changed_ns, "until_ns",
			 (json_int_t)d->until_ns, "times", (int)d->times, "by_tasks", d->by_tasks,
			 "reason", d->reason);
}

static json_t *outcome_json(const struct quarantine_outcome *o)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:I}", "uuid", o->uuid, "name", o->name, "task",
			 o->task, "what", o->what, "ended_ns", (json_int_t)o->ended_ns);
}

char *quarantine_text(const struct quarantine *q)
{
	json_t *devices = json_array(), *outcomes = json_array(), *o;
	char *text;

	for (size_t i = 0; i < q->n_devices; i++)
		(void)json_array_append_new(devices, device_json(&q->devices[i]));
	for (size_t i = 0; i < q->n_outcomes; i++)
		(void)json_array_append_new(outcomes, outcome_json(&q->outcomes[i]));
	o = json_pack("{s:s, s:o, s:o}", "boot", q->boot, "devices", devices, "outcomes", outcomes);
	text = o ? json_dumps(o, JSON_INDENT(1)) : NULL;
	json_decref(o);
	return text ? text : xstrdup("{}");
}

static bool device_from_json(const json_t *o, struct quarantine_device *ret)
{
	const char *state = json_get_str(o, "state");

	*ret = (struct quarantine_device){ .state = QUARANTINE_STATE_MAX,
					   .changed_ns = json_get_u64(o, "changed_ns"),
					   .until_ns = json_get_u64(o, "until_ns"),
					   .times = json_get_small(o, "times", 1000),
					   .by_tasks = json_get_flag(o, "by_tasks") };
	json_get_text(o, "uuid", ret->uuid, sizeof(ret->uuid));
	json_get_text(o, "reason", ret->reason, sizeof(ret->reason));
	for (unsigned int i = 0; state && i < QUARANTINE_STATE_MAX; i++)
		if (!strcmp(state, state_names[i]))
			ret->state = (enum quarantine_state)i;
	return ret->uuid[0] && ret->state != QUARANTINE_STATE_MAX;
}

/* A moment that is yet to come, by a clock that was set back, is now: or nothing could be said
 * after it. */
static uint64_t past(uint64_t at_ns, uint64_t now_ns)
{
	return at_ns < now_ns ? at_ns : now_ns;
}

static void join_device(struct quarantine *q, const json_t *o, bool rebooted, uint64_t now_ns)
{
	struct quarantine_device d, *own;

	if (!device_from_json(o, &d))
		return;
	d.changed_ns = past(d.changed_ns, now_ns);
	own = get(q, d.uuid);
	if (own->changed_ns < d.changed_ns)
		*own = d;
	if (rebooted)
		step(q, d.uuid, QUARANTINE_REBOOT, NULL, now_ns);
}

static void join_outcome(struct quarantine *q, const json_t *o, uint64_t now_ns)
{
	struct quarantine_outcome c = { .ended_ns = past(json_get_u64(o, "ended_ns"), now_ns) };

	json_get_text(o, "uuid", c.uuid, sizeof(c.uuid));
	json_get_text(o, "name", c.name, sizeof(c.name));
	json_get_text(o, "task", c.task, sizeof(c.task));
	json_get_text(o, "what", c.what, sizeof(c.what));
	if (c.uuid[0] && c.name[0] && c.task[0])
		(void)add_outcome(q, &c);
}

void quarantine_join(struct quarantine *q, const char *text, size_t len, uint64_t now_ns)
{
	json_t *o = json_loadb(text, len, 0, NULL), *one;
	const char *boot = json_get_str(o, "boot");
	bool rebooted = boot && strcmp(boot, q->boot) != 0;
	size_t i;

	json_array_foreach(json_object_get(o, "devices"), i, one)
		join_device(q, one, rebooted, now_ns);
	json_array_foreach(json_object_get(o, "outcomes"), i, one) join_outcome(q, one, now_ns);
	json_decref(o);
}

char *quarantine_path(const char *state_dir, const char *host)
{
	return xasprintf("%s/quarantine-%s.json", state_dir, host);
}

static int read_file(struct quarantine *q, const char *path, uint64_t now_ns, char **ret_text,
		     struct err *e)
{
	size_t len;
	int r = fs_read_own_file(path, FILE_MAX, ret_text, &len, e);

	if (r < 0) {
		*ret_text = NULL;
		return r == -ENOENT ? 0 : r;
	}
	quarantine_join(q, *ret_text, len, now_ns);
	return 0;
}

int quarantine_load(struct quarantine *q, const char *path, uint64_t now_ns, struct err *e)
{
	cleanup_free char *was = NULL;

	return read_file(q, path, now_ns, &was, e);
}

int quarantine_sync(struct quarantine *q, const char *path, uint64_t now_ns, struct err *e)
{
	cleanup_free char *was = NULL;
	int r = read_file(q, path, now_ns, &was, e);
	cleanup_free char *text = quarantine_text(q);

	if (r < 0 || (was && !strcmp(was, text)) || (!was && !q->n_devices && !q->n_outcomes))
		return r;
	return fs_write_atomic(path, text, strlen(text), 0600, e);
}
