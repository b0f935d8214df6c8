/* SPDX-License-Identifier: MIT */
#include "agent/report/status_json.h"

#include <string.h>

#include "agent/node/deadline.h"
#include "agent/node/device_health.h"
#include "agent/node/left.h"
#include "agent/node/policy.h"
#include "agent/report/sentence.h"
#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "hold/device_state.h"

static json_t *bytes_json(uint64_t bytes)
{
	return json_integer((json_int_t)bytes);
}

static json_t *age_json(uint64_t then_ns, uint64_t now_ns)
{
	if (!then_ns)
		return json_null();
	return json_real(now_ns > then_ns ? (double)((now_ns - then_ns) / NS_PER_MS) / 1e3 : 0.0);
}

static json_t *time_json(uint64_t wall_ns)
{
	char text[CLOCK_TEXT_MAX];

	return wall_ns ? json_string(clock_format_iso(wall_ns, text)) : json_null();
}

static json_t *text_json(const char *text)
{
	return text[0] ? json_string(text) : json_null();
}

static void set(json_t *o, const char *key, json_t *value)
{
	(void)json_object_set_new(o, key, value);
}

/* -------- the phase in a sentence -------- */

static void say_blind(const struct view *v, struct strbuf *b)
{
	struct tally n;

	view_tally(v, &n);
	strbuf_addf(b, "cannot see the GPUs, so nothing is held%s: %s",
		    n.unseen || n.uses[VIEW_BY_TASK] ? ", and tasks alone use them" : "",
		    v->guard.trouble[0] ? v->guard.trouble : "NVML has not answered yet");
}

static void say_starting(const struct view *v, struct strbuf *b)
{
	strbuf_addf(b, "no guard yet%s%s", v->trouble[0] ? ": " : "", v->trouble);
}

static void say_watching(const struct view *v, struct strbuf *b)
{
	strbuf_adds(b, v->life.released
			       ? "nothing is held until there are tasks: the queue is empty"
			       : "watching; told to hold nothing");
}

static void say_draining(const struct view *v, struct strbuf *b)
{
	strbuf_addf(b, "%s: nothing more is started or held; it ends when the tasks that run have",
		    v->life.why);
}

static void say_releasing(const struct view *v, struct strbuf *b)
{
	strbuf_adds(b, "letting go of everything");
}

static unsigned int min_uint(unsigned int a, unsigned int b)
{
	return a < b ? a : b;
}

char *status_device_use(const struct view *v, const struct dev_status *d, char buf[STATUS_USE_MAX])
{
	static const char *const words[] = {
		[VIEW_RESERVED] = "reserved:",
		[VIEW_BY_TASK] = "in use by",
		[VIEW_JUST_FREED] = "just freed by",
	};
	char id[LEASE_TEXT_MAX];
	enum view_use use = view_use_of(d);
	bool own = strcmp(d->lease_instance, v->c->instance) == 0;

	if (use == VIEW_UNUSED)
		return NULL;
	return str_print(buf, STATUS_USE_MAX, "%s %s%s%s", words[use], lease_id_text(&d->lease, id),
			 own ? "" : " of ", own ? "" : d->lease_instance);
}

/* What is put before a part: nothing before the first one. */
static const char *joint(const struct strbuf *b)
{
	return b->len ? "; " : "";
}

static void say_tasks(const struct tally *n, struct strbuf *b)
{
	char size[UNIT_TEXT_MAX];
	unsigned int reserved = n->uses[VIEW_RESERVED];
	unsigned int used = n->uses[VIEW_BY_TASK] + n->uses[VIEW_JUST_FREED];

	if (used)
		strbuf_addf(b, "%s%u in use", joint(b), used);
	if (reserved)
		strbuf_addf(b, "%s%u reserved", joint(b), reserved);
	if (n->held_bytes[VIEW_RESERVED])
		strbuf_addf(b, " (%s held for %s)",
			    unit_format_gib(n->held_bytes[VIEW_RESERVED], size),
			    reserved == 1 ? "its task" : "their tasks");
}

/*
 * "3 of 4 GPUs held (351.9 GiB); 1 busy" and its like. What tasks have or wait for counts as
 * theirs, and what is held there is told with it.
 */
static void say_counts(const struct view *v, struct strbuf *b)
{
	static const enum dev_state others[] = { DEV_HOLDING, DEV_YIELDING, DEV_IDLE, DEV_BUSY,
						 DEV_LEFT,    DEV_LENDING,  DEV_LENT };
	char size[UNIT_TEXT_MAX];
	struct tally n;

	view_tally(v, &n);
	if (v->c->workload)
		strbuf_addf(b, "the workload runs on %u of %u GPUs", n.workloads, view_devices(v));
	else if (n.unused[DEV_HELD])
		strbuf_addf(b, "%u of %u GPUs held (%s)", n.unused[DEV_HELD], view_devices(v),
			    unit_format_gib(n.held_bytes[VIEW_UNUSED], size));
	else if (!n.held_bytes[VIEW_RESERVED])
		strbuf_adds(b, "nothing held");
	say_tasks(&n, b);
	n.unused[DEV_LENT] -= min_uint(n.unused[DEV_LENT], n.workloads);
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (n.unused[others[i]])
			strbuf_addf(b, "; %u %s", n.unused[others[i]], dev_state_name(others[i]));
	if (n.unseen)
		strbuf_addf(b, "; %u unseen", n.unseen);
	if (n.held_by_others)
		strbuf_addf(b, "; %u held by other instances", n.held_by_others);
}

/* One sentence: "holding 3 of 4 GPUs (351.9 GiB); 1 busy". buf of PROTO_TEXT_MAX; returns it. */
static char *phase_sentence(const struct view *v, char *buf)
{
	static void (*const say[])(const struct view *v, struct strbuf *b) = {
		[PHASE_STARTING] = say_starting,   [PHASE_BLIND] = say_blind,
		[PHASE_WATCHING] = say_watching,   [PHASE_WAITING] = say_counts,
		[PHASE_HOLDING] = say_counts,	   [PHASE_DRAINING] = say_draining,
		[PHASE_RELEASING] = say_releasing,
	};
	_Static_assert(ARRAY_LEN(say) == PHASE_MAX, "a sentence for every phase");
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	say[view_phase(v)](v, &b);
	(void)str_copy(buf, PROTO_TEXT_MAX, strbuf_str(&b));
	return buf;
}

/* -------- the parts of the document -------- */

static json_t *lifetime_json(const struct view *v)
{
	const struct deadline *d = &v->deadlines[DEADLINE_LIFETIME];
	uint64_t boot = clock_boot_ns(), wall = clock_wall_ns();
	json_t *o;

	if (!d->at_ns)
		return json_null();
	o = json_object();
	set(o, "whole_s", json_real((double)d->whole_ms / 1e3));
	set(o, "left_s", json_real((double)deadline_left_ms(d, boot, wall) / 1e3));
	set(o, "ends", time_json(deadline_wall_ns(d, boot, wall)));
	set(o, "then", json_string(d->then == DRAIN_REQUEUE ? "stop" : "drain"));
	return o;
}

json_t *status_agent(const struct view *v)
{
	uint64_t now = clock_mono_ns();
	json_t *o = json_object();

	set(o, "pid", json_integer(v->pid));
	set(o, "version", json_string(TENURE_VERSION));
	set(o, "since", time_json(v->started_wall_ns));
	set(o, "uptime_s", age_json(v->started_ns, now));
	set(o, "until", time_json(v->until_wall_ns));
	set(o, "lifetime", lifetime_json(v));
	set(o, "on_empty", json_string(on_empty_name(v->c->on_empty)));
	set(o, "empty_for_s", json_real((double)v->c->empty_ms / 1e3));
	set(o, "empty_s", age_json(v->life.empty_ns, now));
	set(o, "dev_dir", json_string(v->c->dev_dir));
	set(o, "root", text_json(v->c->root ? v->c->root : ""));
	set(o, "log", json_string(v->log_path));
	set(o, "events", json_string(v->event_path));
	return o;
}

static json_t *guard_json(const struct view *v, uint64_t now)
{
	const struct msg_guard *g = &v->guard;
	json_t *o = json_object();

	set(o, "connected", json_boolean(v->guard_up));
	set(o, "trouble", text_json(v->guard_up ? g->trouble : v->trouble));
	if (!v->guard_up)
		return o;
	set(o, "pid", json_integer(g->pid));
	set(o, "since", time_json(g->started_wall_ns));
	set(o, "sees", json_boolean(g->flags & GUARD_SEES));
	set(o, "inotify", json_boolean(g->flags & GUARD_INOTIFY));
	set(o, "memory_locked", json_boolean(g->flags & GUARD_LOCKED));
	set(o, "pid_class", json_string(pid_class_name(g->pid_class)));
	set(o, "driver", text_json(g->driver));
	set(o, "devices", json_integer(g->n_devices));
	set(o, "late_ms", json_real((double)g->late_ns / (double)NS_PER_MS));
	set(o, "look_ms", json_real((double)g->look_ns / (double)NS_PER_MS));
	set(o, "late_looks", json_integer(g->n_late));
	set(o, "age_s", age_json(v->heard_ns, now));
	return o;
}

/* The job of an engine that it runs in. */
static json_t *job_json(const struct view *v)
{
	const struct engine_here *job = v->c->job;
	json_t *o;

	if (!job)
		return json_null();
	o = json_object();
	set(o, "engine", json_string(job->engine));
	set(o, "id", text_json(job->id));
	set(o, "key", json_string(job->key));
	set(o, "restarts", json_integer(job->restarts));
	set(o, "deadline", time_json(v->job_end_ns));
	set(o, "unseen", json_integer(v->guard.n_unseen));
	set(o, "others", json_integer(v->guard.n_others));
	return o;
}

static json_t *known(const struct dev_status *d, uint32_t what, json_t *value)
{
	if (d->known & what)
		return value;
	json_decref(value);
	return json_null();
}

static void add_figures(json_t *o, const struct dev_status *d)
{
	set(o, "memory_total_bytes", known(d, KNOWN_MEM, bytes_json(d->mem_total)));
	set(o, "memory_used_bytes", known(d, KNOWN_MEM, bytes_json(d->mem_used)));
	set(o, "memory_free_bytes", known(d, KNOWN_MEM, bytes_json(d->mem_free)));
	set(o, "utilisation", known(d, KNOWN_UTIL, json_integer(d->util)));
	set(o, "power_w", known(d, KNOWN_POWER, json_real((double)d->power_mw / 1e3)));
	set(o, "power_limit_w",
	    known(d, KNOWN_POWER_LIMIT, json_real((double)d->power_limit_mw / 1e3)));
	set(o, "temperature_c", known(d, KNOWN_TEMP, json_integer(d->temp_c)));
	set(o, "processes", known(d, KNOWN_PROCS, json_integer(d->n_procs)));
	set(o, "vacant", json_boolean(d->flags & DEVICE_VACANT));
}

/* Indices of the cards that NVLink joins with it. */
static json_t *peers_json(const struct view *v, const struct dev_status *d)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < v->n_slots; i++)
		if (v->seen[i] && d->peers[i / 64] >> (i % 64) & 1)
			(void)json_array_append_new(list, json_integer(v->devices[i].index));
	return list;
}

static json_t *xids_json(const struct dev_status *d)
{
	json_t *list = json_array();

	for (size_t i = 0; i < ARRAY_LEN(d->xids) && d->xids[i].n; i++)
		(void)json_array_append_new(list,
					    json_pack("{s:i, s:i}", "xid", (int)d->xids[i].xid, "n",
						      (int)d->xids[i].n));
	return list;
}

/* What the load of a hold of ours is to reach. */
static json_t *band_json(const struct view *v, const struct dev_status *d)
{
	if (d->load == LOAD_NONE || strcmp(d->instance, v->c->instance) != 0)
		return json_null();
	return json_pack("[i, i]", (int)v->policy.util_low, (int)v->policy.util_high);
}

json_t *status_device(const struct view *v, const struct dev_status *d, struct eventlog *names,
		      uint64_t now)
{
	cleanup_strbuf struct strbuf reason = STRBUF_INIT;
	char buf[STATUS_USE_MAX];
	const char *use = status_device_use(v, d, buf);
	json_t *o = json_object();

	dev_reason_text(&d->reason, eventlog_names(names), &reason);
	set(o, "gpu", json_integer(d->index));
	set(o, "mig", d->mig >= 0 ? json_integer(d->mig) : json_null());
	set(o, "uuid", json_string(d->uuid));
	set(o, "name", json_string(d->name));
	set(o, "state", json_string(dev_state_shown(d->state, d->flags)));
	set(o, "reason", text_json(strbuf_str(&reason)));
	set(o, "reason_code", json_string(dev_reason_code_name(d->reason.code)));
	set(o, "held_for",
	    d->reason.code == DEV_REASON_HELD ? json_string(d->reason.text) : json_null());
	set(o, "use", use ? json_string(use) : json_null());
	set(o, "xid", d->xid ? json_integer(d->xid) : json_null());
	set(o, "xids", xids_json(d));
	set(o, "quarantine", json_null());
	set(o, "left_to", json_null());
	set(o, "left_until", json_null());
	set(o, "for_s", age_json(d->since_ns, now));
	set(o, "hold_in_s", d->hold_at_ns > now ? age_json(now, d->hold_at_ns) : json_null());
	set(o, "instance", text_json(d->instance));
	set(o, "held_bytes", bytes_json(d->held_bytes));
	set(o, "target_bytes", bytes_json(d->target_bytes));
	add_figures(o, d);
	set(o, "holder_pid", d->holder_pid ? json_integer(d->holder_pid) : json_null());
	set(o, "load", json_string(load_kind_name(d->load)));
	set(o, "duty", json_real((double)d->duty_permille / 10.0));
	set(o, "utilisation_band", band_json(v, d));
	set(o, "yields", bytes_json(d->yields));
	set(o, "nvlink", peers_json(v, d));
	set(o, "age_s", age_json(d->looked_ns, now));
	return o;
}

/* When it is started there, as far as that is known; 0. */
static uint64_t workload_due(const struct view *v, uint32_t slot)
{
	const struct view_workload *w = &v->workloads[slot];
	const struct dev_status *d = &v->devices[slot];
	uint64_t due;

	if (w->there || d->state != DEV_IDLE || !d->idle_since_ns)
		return 0;
	due = d->idle_since_ns + v->policy.idle_for_ms * NS_PER_MS;
	return due > w->next_ns ? due : w->next_ns;
}

/* A device on which the workload runs is lent, as the guard sees it. */
static void add_workload(json_t *o, const struct view *v, uint32_t slot, uint64_t now)
{
	const struct view_workload *w = &v->workloads[slot];
	const char *reason = json_string_value(json_object_get(o, "reason"));
	uint64_t due = workload_due(v, slot);
	const char *last = w->refused ? " cannot start: " : " ended at once: ";
	char text[PROTO_TEXT_MAX * 2], wait[UNIT_TEXT_MAX];
	json_t *j = json_pack("{ss si ss}", "state", w->state, "starts", (int)w->starts, "last_end",
			      w->text);

	set(j, "pid", w->pid ? json_integer(w->pid) : json_null());
	set(j, "for_s", age_json(w->since_ns, now));
	set(j, "next_in_s", due > now ? age_json(now, due) : json_null());
	set(o, "workload", j);
	if (w->runs) {
		set(o, "state", json_string("workload"));
		set(o, "for_s", age_json(w->since_ns, now));
		(void)str_print(text, sizeof(text), "the workload: PID %d, start %u", (int)w->pid,
				w->starts);
	} else if (due > now) {
		(void)str_print(text, sizeof(text), "%s%sthe workload%s%s%s in %s",
				reason ? reason : "", reason ? "; " : "",
				w->next_ns > now ? last : "", w->next_ns > now ? w->text : "",
				w->next_ns > now ? "; again" : "",
				unit_format_duration((due - now) / NS_PER_MS + 999, wait));
	} else {
		return;
	}
	set(o, "reason", json_string(text));
}

static void add_reason(json_t *o, const char *text)
{
	const char *reason = json_string_value(json_object_get(o, "reason"));
	cleanup_free char *both = reason ? xasprintf("%s; %s", reason, text) : xstrdup(text);

	set(o, "reason", json_string(both));
}

static void add_quarantine(json_t *o, const char *text)
{
	set(o, "quarantine", json_string(text));
	add_reason(o, text);
}

static void add_left(json_t *o, const struct view_left *left)
{
	char words[LEFT_WORDS_MAX];

	set(o, "left_to", json_new_text(left->user));
	set(o, "left_until", time_json(left->until_wall_ns));
	add_reason(o, left_words(left->user, left->uid, left->until_wall_ns, words));
}

json_t *status_device_at(const struct view *v, uint32_t slot, struct eventlog *names, uint64_t now)
{
	const struct view_left *left = view_left_of(v, v->devices[slot].uuid);
	json_t *o = status_device(v, &v->devices[slot], names, now);

	set(o, "health", health_json(&v->health[slot], now));
	if (v->c->workload)
		add_workload(o, v, slot, now);
	if (v->quarantine && v->quarantine[slot].text[0])
		add_quarantine(o, v->quarantine[slot].text);
	if (left)
		add_left(o, left);
	return o;
}

static json_t *devices_json(const struct view *v, struct eventlog *names, uint64_t now)
{
	json_t *a = json_array();

	for (uint32_t i = 0; i < v->n_slots; i++)
		if (v->seen[i])
			(void)json_array_append_new(a, status_device_at(v, i, names, now));
	return a;
}

static json_t *yields_json(const struct view *v, const struct user_names *names)
{
	json_t *a = json_array();
	size_t n = v->n_yields < VIEW_YIELDS ? v->n_yields : VIEW_YIELDS;

	for (size_t i = v->n_yields - n; i < v->n_yields; i++) {
		const struct view_yield *y = &v->yields[i % VIEW_YIELDS];
		json_t *o = sentence_event_json(&y->event, y->mig, v->guard.pid, names);

		set(o, "text", json_string(y->line));
		(void)json_array_append_new(a, o);
	}
	return a;
}

static json_t *tail_json(const struct agentlog *j)
{
	json_t *a = json_array();
	const char *line;

	for (size_t i = 0; (line = agentlog_tail(j, i)); i++)
		(void)json_array_append_new(a, json_string(line));
	return a;
}

static json_t *status_of(const struct view *v, struct agentlog *j, struct eventlog *names,
			 bool devices)
{
	char trouble[ERR_TEXT_MAX];
	uint64_t now = clock_mono_ns();
	char sentence[PROTO_TEXT_MAX];
	cleanup_strbuf struct strbuf policy = STRBUF_INIT;
	struct hold_policy wanted = v->policy;
	json_t *o = json_object();

	wanted.hold = v->c->policy.hold;
	policy_describe(&wanted, v, &policy);
	set(o, "format", json_integer(STATUS_FORMAT));
	set(o, "instance", json_string(v->c->instance));
	set(o, "host", json_string(v->self->host));
	set(o, "time", time_json(clock_wall_ns()));
	set(o, "phase", json_string(phase_name(view_phase(v))));
	set(o, "sentence", json_string(phase_sentence(v, sentence)));
	set(o, "policy", json_string(strbuf_str(&policy)));
	set(o, "agent", status_agent(v));
	set(o, "job", job_json(v));
	set(o, "guard", guard_json(v, now));
	if (devices)
		set(o, "devices", devices_json(v, names, now));
	set(o, "yields", yields_json(v, eventlog_names(names)));
	set(o, "log", tail_json(j));
	set(o, "lines_lost", bytes_json(agentlog_lost(j)));
	set(o, "log_trouble", text_json(agentlog_trouble(j, trouble, sizeof(trouble))));
	return o;
}

json_t *status_json(const struct view *v, struct agentlog *j, struct eventlog *names)
{
	return status_of(v, j, names, true);
}

json_t *status_json_but_devices(const struct view *v, struct agentlog *j, struct eventlog *names)
{
	return status_of(v, j, names, false);
}

json_t *status_ping(const struct view *v)
{
	json_t *o = json_object();

	set(o, "pid", json_integer(v->pid));
	set(o, "instance", json_string(v->c->instance));
	set(o, "since", time_json(v->started_wall_ns));
	set(o, "since_ns", bytes_json(v->started_wall_ns));
	set(o, "phase", json_string(phase_name(view_phase(v))));
	set(o, "root", text_json(v->c->root ? v->c->root : ""));
	return o;
}
