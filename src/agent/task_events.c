/* SPDX-License-Identifier: MIT */
#include "agent/task_events.h"

#include "agent/attempt/device_use.h"
#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"

/* What all of them have. */
static json_t *members(struct sched_ref ref, const struct task_spec *spec)
{
	json_t *o = json_pack("{sI}", "task", (json_int_t)ref.id);

	if (ref.element)
		(void)json_object_set_new(o, "element", json_integer((json_int_t)ref.element));
	if (!spec)
		return o;
	(void)json_object_set_new(o, "name", json_new_text(spec->name));
	if (spec->lane)
		(void)json_object_set_new(o, "lane", json_new_text(spec->lane));
	if (spec->allocation)
		(void)json_object_set_new(o, "allocation", json_true());
	return o;
}

static void add_devices(json_t *o, const struct view *v, const struct attempt *a)
{
	json_t *gpus = json_array(), *uuids = json_array();

	for (uint32_t i = 0; i < v->n_slots; i++)
		if (devset_has(a->devices, i))
			(void)json_array_append_new(gpus, view_label_json(&v->devices[i]));
	for (size_t i = 0; i < a->uuids.n; i++)
		(void)json_array_append_new(uuids, json_string(a->uuids.texts[i]));
	(void)json_object_set_new(o, "gpus", gpus);
	(void)json_object_set_new(o, "uuids", uuids);
}

void task_events_started(const struct attempt_place *p, const struct attempt *a)
{
	json_t *o;

	if (a->adopted) /* it had started before */
		return;
	o = members(a->ref, a->spec);
	add_devices(o, p->view, a);
	(void)json_object_set_new(o, "attempt", json_integer((json_int_t)a->tries + 1));
	(void)json_object_set_new(o, "pid", json_integer(a->shim.pid));
	eventlog_tell(p->eventlog, OWN_TASK_STARTED, o);
}

void task_events_adopted(const struct attempt_place *p, struct sched_ref ref,
			 const struct task_spec *spec)
{
	eventlog_tell(p->eventlog, OWN_TASK_ADOPTED, members(ref, spec));
}

void task_events_taken_back(const struct attempt_place *p, struct sched_ref ref)
{
	json_t *o = members(ref, NULL);

	(void)json_object_set_new(o, "outcome", json_string("stopped"));
	(void)json_object_set_new(o, "why", json_string(ATTEMPT_STOPPED_TEXT));
	eventlog_tell(p->eventlog, OWN_TASK_ENDED, o);
}

/* How its program has ended, and what it used. */
static void add_end(const struct attempt_place *p, json_t *o, const struct attempt *a)
{
	const struct task_end *e = &a->end;
	uint64_t peak;
	uint32_t util;

	/* That it could not be started stands in its log alone. */
	if (a->log_path[0] && (a->started_ns || e->outcome == TASK_NOT_STARTED)) {
		cleanup_free char *path = xasprintf("%s/%s", p->spool_dir, a->log_path);

		(void)json_object_set_new(o, "log", json_new_text(path));
	}
	if (!a->started_ns)
		return;
	(void)json_object_set_new(
		o, "exit", json_integer(e->signal ? SHMSG_SIGNALLED + e->signal : e->exit_code));
	(void)json_object_set_new(o, "ran_s", json_real((double)(e->run_ns / NS_PER_MS) / 1e3));
	use_sum(&a->use, &peak, &util);
	if (peak)
		(void)json_object_set_new(o, "gpu_peak_bytes", json_integer((json_int_t)peak));
}

void task_events_ended(const struct attempt_place *p, const struct attempt *a,
		       const struct retry_verdict *v)
{
	static const char *const outcomes[RETRY_WHAT_MAX] = { [RETRY_DONE] = "done",
							      [RETRY_FAILED] = "failed",
							      [RETRY_AGAIN] = "requeued",
							      [RETRY_CANCELLED] = "stopped" };
	json_t *o = members(a->ref, a->spec);

	(void)json_object_set_new(o, "outcome", json_string(outcomes[v->what]));
	if (v->text[0])
		(void)json_object_set_new(o, "why", json_new_text(v->text));
	add_devices(o, p->view, a);
	add_end(p, o, a);
	eventlog_tell(p->eventlog, OWN_TASK_ENDED, o);
}

static void tell_stuck(const struct attempt_place *p, const struct attempt *a,
		       const struct stuck *s, const struct dev_status *d)
{
	json_t *o = members(a->ref, a->spec);

	(void)json_object_set_new(o, "gpu", json_integer(d->index));
	if (d->mig >= 0)
		(void)json_object_set_new(o, "mig", json_integer(d->mig));
	(void)json_object_set_new(o, "uuid", json_new_text(d->uuid));
	(void)json_object_set_new(
		o, "for_s", json_real((double)((d->looked_ns - s->since_ns) / NS_PER_MS) / 1e3));
	(void)json_object_set_new(o, "utilisation", json_integer(d->util));
	(void)json_object_set_new(o, "power_w", json_real((double)d->power_mw / 1e3));
	(void)json_object_set_new(o, "power_limit_w", json_real((double)d->power_limit_mw / 1e3));
	eventlog_tell(p->eventlog, OWN_STUCK, o);
}

void task_events_look_stuck(const struct attempt_place *p, struct stuck *all)
{
	for (const struct attempt *a = p->tasks; a; a = a->next)
		for (uint32_t i = 0; i < p->view->n_slots; i++) {
			const struct dev_status *d = &p->view->devices[i];

			if (devset_has(a->devices, i) &&
			    stuck_look(&all[i], d, p->view->c->instance,
				       p->view->c->stuck_after_ms))
				tell_stuck(p, a, &all[i], d);
		}
}
