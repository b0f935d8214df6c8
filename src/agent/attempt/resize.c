/* SPDX-License-Identifier: MIT */
#include "agent/attempt/resize.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/attempt/gpus_file.h"
#include "agent/attempt/lease.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/units.h"

void resize_begin(struct attempt *a)
{
	if (!a->spec->gpus_max || a->resize)
		return;
	a->resize = xcalloc(1, sizeof(*a->resize));
	(void)gpus_file_path(a->place->run_dir, a->token, a->resize->file);
}

/* As it was shown last, also while there is no guard. */
static const struct dev_status *device_of(const struct attempt *a, const char *uuid)
{
	for (uint32_t i = 0; i < PROTO_DEVICES_MAX; i++)
		if (strcmp(a->place->view->devices[i].uuid, uuid) == 0)
			return &a->place->view->devices[i];
	return NULL;
}

char *resize_text(const struct attempt *a, const char *without)
{
	struct strbuf b = STRBUF_INIT;

	for (size_t i = 0; i < a->uuids.n; i++) {
		const struct dev_status *d = device_of(a, a->uuids.texts[i]);

		if (!without || strcmp(a->uuids.texts[i], without) != 0)
			strbuf_addf(&b, "%" PRIu32 " %s\n", d ? d->index : 0, a->uuids.texts[i]);
	}
	return strbuf_take(&b);
}

/* ---- steps ---- */

static void enter(struct resize *r, enum resize_step step)
{
	r->step = step;
	r->since_ns = clock_mono_ns();
}

static void finish(struct attempt *a, enum resize_end end, const char *why)
{
	enter(a->resize, RESIZE_NONE);
	(void)str_copy(a->resize->why, sizeof(a->resize->why), why);
	a->place->owner->resized(a->place->user, a, end);
}

static void about(struct resize *r, const struct dev_status *d, const char *uuid)
{
	(void)str_copy(r->uuid, sizeof(r->uuid), uuid);
	r->index = d ? d->index : 0;
}

/* ---- what it has had ---- */

static uint64_t since_last(const struct attempt *a)
{
	const struct resize *r = a->resize;
	uint64_t from_ns = r->counted_ns ? r->counted_ns : a->started_ns, now_ns = clock_mono_ns();

	return from_ns && now_ns > from_ns ? (now_ns - from_ns) * a->uuids.n : 0;
}

/* Before their number changes. Of one that an agent before us has seen to, it is not known when it
 * had how many: as many as now. */
static void count(struct attempt *a)
{
	struct resize *r = a->resize;

	r->gpu_ns += since_last(a);
	r->counted_ns = clock_mono_ns();
	r->most = resize_most(a);
}

unsigned int resize_most(const struct attempt *a)
{
	unsigned int now = (unsigned int)a->uuids.n;

	return a->resize && a->resize->most > now ? a->resize->most : now;
}

uint64_t resize_gpu_ns(const struct attempt *a)
{
	return a->resize && a->resize->counted_ns ? a->resize->gpu_ns + since_last(a) : 0;
}

/* ---- the lease ---- */

static void add_device(struct attempt *a)
{
	struct resize *r = a->resize;

	count(a);
	text_list_add(&a->uuids, r->uuid);
	devset_add(&a->devices, r->slot);
	devset_add(&a->promised, r->slot);
}

/* It is the guard's to give to others when NVML agrees. */
static void give_back(struct attempt *a)
{
	struct resize *r = a->resize;
	struct text_list left = { 0 };

	count(a);
	for (size_t i = 0; i < a->uuids.n; i++)
		if (strcmp(a->uuids.texts[i], r->uuid) != 0)
			text_list_add(&left, a->uuids.texts[i]);
	text_list_clear(&a->uuids);
	a->uuids = left;
	for (uint32_t i = 0; i < PROTO_DEVICES_MAX; i++) {
		if (strcmp(a->place->view->devices[i].uuid, r->uuid) != 0)
			continue;
		r->slot = i;
		devset_del(&a->devices, i);
		devset_del(&a->promised, i);
	}
	(void)guardlink_unlease_one(a->place->link, &a->lease, r->uuid);
}

/* ---- what is written ---- */

struct resize_job {
	struct spool_job job;
	struct attempt *a;
	struct claim claim;
	struct proc_id shim;
	bool note;			  /* in the claim */
	struct text_list devices, before; /* that it tells then, and tells now */
	char *text;			  /* of the file; NULL: it is not written */
	struct err e;
	int code;
};

static void free_job(struct resize_job *j)
{
	text_list_clear(&j->devices);
	text_list_clear(&j->before);
	free(j->text);
	free(j);
}

static int note(struct resize_job *j, const struct spool *sp, const struct text_list *devices)
{
	int code = claim_started(sp, &j->claim, &j->shim, devices, &j->e);

	return spool_confirm(sp, j->claim.path, code, &j->e);
}

/* The claim first: the program is told of nothing that the next agent would not know of. */
static void write_work(struct spool_job *job, struct spool_place *p)
{
	struct resize_job *j = (struct resize_job *)job;

	if (j->note)
		j->code = note(j, p->spool, &j->devices);
	if (j->code < 0 || !j->text)
		return;
	j->code = gpus_file_write(j->a->resize->file, j->text, &j->e);
	if (j->code < 0 && j->note) {
		struct err told = j->e;

		(void)note(j, p->spool, &j->before);
		j->e = told;
	}
}

static void write_without(struct attempt *a, enum resize_step step, const char *without);

static void written(struct attempt *a, const struct resize_job *j)
{
	struct resize *r = a->resize;

	switch (r->step) {
	case RESIZE_ADDING:
		if (j->code < 0)
			give_back(a);
		finish(a, j->code < 0 ? RESIZE_REFUSED : RESIZE_GROWN, j->e.text);
		break;
	case RESIZE_REMOVING:
		if (j->code < 0)
			finish(a, RESIZE_KEPT, j->e.text);
		else
			enter(r, RESIZE_AWAITING);
		break;
	case RESIZE_RELEASING:
		if (j->code < 0) {
			(void)str_copy(r->why, sizeof(r->why), j->e.text);
			write_without(a, RESIZE_RESTORING, NULL);
			break;
		}
		give_back(a);
		finish(a, RESIZE_SHRUNK, "");
		break;
	case RESIZE_RESTORING:
		finish(a, RESIZE_KEPT, j->code < 0 ? j->e.text : r->why);
		break;
	default:
		enter(r, RESIZE_NONE);
	}
}

static void write_done(struct spool_job *job)
{
	struct resize_job *j = (struct resize_job *)job;
	struct attempt *a = j->a;

	a->resize->job = NULL;
	written(a, j);
	free_job(j);
}

static struct resize_job *new_job(struct attempt *a, enum resize_step step)
{
	struct resize_job *j = xcalloc(1, sizeof(*j));

	j->job = (struct spool_job){ .work = write_work, .done = write_done };
	j->a = a;
	j->claim = a->claim;
	j->shim = a->shim;
	a->resize->job = j;
	enter(a->resize, step);
	return j;
}

/* The file, but for one device. */
static void write_without(struct attempt *a, enum resize_step step, const char *without)
{
	struct resize_job *j = new_job(a, step);

	j->text = resize_text(a, without);
	spooler_do(a->place->spooler, &j->job);
}

/* ---- one more ---- */

void resize_grow(struct attempt *a, unsigned int slot)
{
	const struct dev_status *d = &a->place->view->devices[slot];
	struct msg_lease m = { .id = a->lease,
			       .bytes = a->spec->memory,
			       .flags = attempt_lease_flags(a->spec) };

	about(a->resize, d, d->uuid);
	a->resize->slot = slot;
	enter(a->resize, RESIZE_LEASING);
	(void)str_copy(m.uuid, sizeof(m.uuid), d->uuid);
	if (guardlink_lease(a->place->link, &m) < 0)
		finish(a, RESIZE_REFUSED, "the guard cannot be asked now");
}

static void refused(struct attempt *a, const struct dev_reason *why)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	dev_reason_text(why, eventlog_names(a->place->eventlog), &b);
	finish(a, RESIZE_REFUSED, strbuf_str(&b));
}

bool resize_on_promise(struct attempt *a, const struct msg_lease_reply *m)
{
	struct resize *r = a->resize;

	/* Of no slot: a device that is not there, which may as well be one that it has. */
	if (!r || r->step != RESIZE_LEASING ||
	    (m->slot < 0 ? a->unleased : m->slot != (int32_t)r->slot))
		return false;
	if (m->code < 0) {
		refused(a, &m->reason);
		return true;
	}
	enter(r, RESIZE_GRANTING);
	(void)guardlink_grant(a->place->link, &a->lease, &a->shim);
	return true;
}

bool resize_on_granted(struct attempt *a, const struct msg_lease_reply *m)
{
	struct resize *r = a->resize;
	struct resize_job *j;

	if (!r || r->step != RESIZE_GRANTING)
		return false;
	if (m->code < 0) { /* it is a promise again */
		(void)guardlink_unlease_one(a->place->link, &a->lease, r->uuid);
		refused(a, &m->reason);
		return true;
	}
	if (a->state != AT_RUNNING) { /* it ends */
		(void)guardlink_unlease_one(a->place->link, &a->lease, r->uuid);
		finish(a, RESIZE_REFUSED, "the task ends");
		return true;
	}
	j = new_job(a, RESIZE_ADDING);
	j->note = true;
	j->before = text_list_copy(&a->uuids);
	add_device(a);
	j->devices = text_list_copy(&a->uuids);
	j->text = resize_text(a, NULL);
	spooler_do(a->place->spooler, &j->job);
	return true;
}

bool resize_on_taken(struct attempt *a, const struct msg_lease_taken *m)
{
	struct resize *r = a->resize;

	if (!r || (r->step != RESIZE_LEASING && r->step != RESIZE_GRANTING) ||
	    m->slot != (int32_t)r->slot)
		return false;
	(void)guardlink_unlease_one(a->place->link, &a->lease, r->uuid);
	refused(a, &m->reason);
	return true;
}

/* What was promised is given back where the guard has it still: leases_take_told(). */
void resize_on_guard(struct attempt *a)
{
	struct resize *r = a->resize;

	if (r && (r->step == RESIZE_LEASING || r->step == RESIZE_GRANTING))
		finish(a, RESIZE_REFUSED, "the line to the guard was down");
}

/* ---- one back ---- */

void resize_shrink(struct attempt *a, const char *uuid, enum resize_reason reason)
{
	about(a->resize, device_of(a, uuid), uuid);
	a->resize->reason = reason;
	a->resize->why[0] = '\0';
	write_without(a, RESIZE_REMOVING, a->resize->uuid);
}

void resize_left(struct attempt *a)
{
	struct resize_job *j = new_job(a, RESIZE_RELEASING);

	j->note = true;
	j->before = text_list_copy(&a->uuids);
	for (size_t i = 0; i < a->uuids.n; i++)
		if (strcmp(a->uuids.texts[i], a->resize->uuid) != 0)
			text_list_add(&j->devices, a->uuids.texts[i]);
	spooler_do(a->place->spooler, &j->job);
}

void resize_keep(struct attempt *a)
{
	write_without(a, RESIZE_RESTORING, NULL);
}

void resize_check_file(struct attempt *a)
{
	write_without(a, RESIZE_CHECKING, NULL);
}

void resize_forget(struct attempt *a)
{
	struct resize *r = a->resize;

	if (r && r->job && spooler_take_back(a->place->spooler, &r->job->job))
		free_job(take_ptr(r->job));
}

/* ---- for people ---- */

static const char *step_name(enum resize_step step)
{
	return step == RESIZE_NONE || step == RESIZE_CHECKING ? NULL
	       : step <= RESIZE_ADDING			      ? "growing"
							      : "shrinking";
}

static void tell_step(const struct resize *r, struct strbuf *out)
{
	char time[UNIT_TEXT_MAX];
	uint64_t for_ms = (clock_mono_ns() - r->since_ns) / NS_PER_MS;

	switch (r->step) {
	case RESIZE_LEASING:
	case RESIZE_GRANTING:
	case RESIZE_ADDING:
		strbuf_addf(out, "GPU %u is being added", r->index);
		break;
	case RESIZE_AWAITING:
		strbuf_addf(out, "it was told %s ago to leave GPU %u, and uses it yet",
			    unit_format_duration(for_ms, time), r->index);
		break;
	default:
		strbuf_addf(out, "GPU %u is being given back", r->index);
	}
}

static json_t *last_report(const struct resize_last *l)
{
	char time[CLOCK_TEXT_MAX];

	if (!l->wall_ns)
		return json_null();
	return json_pack("{ss si si si ss ss ss}", "time", clock_format_iso(l->wall_ns, time),
			 "from", (int)l->from, "to", (int)l->to, "gpu", (int)l->index, "uuid",
			 l->uuid, "reason", l->reason, "text", l->text);
}

json_t *resize_report(const struct attempt *a)
{
	const struct resize *r = a->resize;
	cleanup_strbuf struct strbuf text = STRBUF_INIT;
	uint32_t mean;
	json_t *o;

	if (!r || !r->begun)
		return NULL;
	mean = scale_mean(&r->scale, &r->rule, r->at.now_ns);
	if (step_name(r->step))
		tell_step(r, &text);
	else
		scale_text(&r->scale, &r->rule, &r->at, r->verdict, &text);
	o = json_pack("{si si so ss ss so}", "min", (int)r->rule.min, "max", (int)r->rule.max,
		      "utilisation",
		      mean == SCALE_UNKNOWN ? json_null() : json_real((double)mean / 10), "state",
		      step_name(r->step) ?: scale_verdict_name(r->verdict), "text",
		      strbuf_str(&text), "last", last_report(&r->last));
	return o;
}
