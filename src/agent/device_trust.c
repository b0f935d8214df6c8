/* SPDX-License-Identifier: MIT */
#include "agent/device_trust.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/node/quarantine.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"

#define LOOK_S 5  /* between two looks at the file */
#define SAVE_S 60 /* until what went well is written, which nothing waits for */

/* A report is told with the device: until it was looked at so long behind the end, or is none. */
#define REPORT_NS      (3 * NS_PER_S)
#define REPORT_MOST_NS (30 * NS_PER_S)

_Static_assert(sizeof(((struct view_quarantine *)0)->text) == QUARANTINE_WORDS_MAX, "it has room");

/* A task that failed and has not said why: the driver's report of an error may be read later. One
 * that comes when the next task has the device is of that. */
struct unjudged {
	struct quarantine_outcome o;
	uint64_t over_ns; /* monotonic */
};

struct device_trust {
	const struct view *view;
	struct spooler *spooler;
	struct eventlog *eventlog;
	void (*changed)(void *user);
	void *user;
	struct quarantine *q;
	char *path;
	struct stat seen; /* of the file, when it was read last */
	bool syncing, unsaved;
	bool urgent; /* what is not saved is to be at once */
	bool ending; /* all is urgent */
	unsigned int since_look_s, since_save_s;
	struct {
		char uuid[QUARANTINE_UUID_MAX];
		enum quarantine_state state;
	} told[PROTO_DEVICES_MAX]; /* by slot: what was said of it last */
	size_t n_unjudged;
	struct unjudged *unjudged;
	struct view_quarantine shown[PROTO_DEVICES_MAX];
};

/* ---- what is shown ---- */

static json_t *members(const struct dev_status *dev, const struct quarantine_device *d)
{
	static const char *const states[] = { [QUARANTINE_TRUSTED] = "trusted",
					      [QUARANTINE_SHUT] = "shut",
					      [QUARANTINE_PROBATION] = "probation" };
	char until[CLOCK_TEXT_MAX];
	json_t *o = json_pack("{s:i, s:s, s:s, s:s, s:o}", "gpu", (int)dev->index, "uuid", d->uuid,
			      "quarantine", states[d->state], "reason", d->reason, "until",
			      d->until_ns ? json_string(clock_format_iso(d->until_ns, until))
					  : json_null());

	if (o && dev->mig >= 0)
		(void)json_object_set_new(o, "mig", json_integer(dev->mig));
	return o ? o : json_object();
}

static void say(const struct device_trust *t, const struct dev_status *dev,
		const struct quarantine_device *d)
{
	eventlog_tell(t->eventlog, OWN_QUARANTINE, members(dev, d));
}

static void show(struct view_quarantine *s, const struct quarantine_device *d)
{
	*s = (struct view_quarantine){ .shut = d && d->state == QUARANTINE_SHUT };
	(void)quarantine_words(d, s->text);
	if (s->shut)
		(void)str_copy(s->reason, sizeof(s->reason), d->reason);
}

/* Slots are given anew by a new guard. */
static void show_all(struct device_trust *t)
{
	bool changed = false;

	for (uint32_t i = 0; i < t->view->n_slots; i++) {
		const struct dev_status *dev = &t->view->devices[i];
		const struct quarantine_device *d = quarantine_find(t->q, dev->uuid);
		enum quarantine_state is = d ? d->state : QUARANTINE_TRUSTED;
		bool same = !strcmp(t->told[i].uuid, dev->uuid);

		changed = changed || t->shown[i].shut != (is == QUARANTINE_SHUT);
		if (d && is != (same ? t->told[i].state : QUARANTINE_TRUSTED))
			say(t, dev, d);
		(void)str_copy(t->told[i].uuid, sizeof(t->told[i].uuid), dev->uuid);
		t->told[i].state = is;
		show(&t->shown[i], d);
	}
	if (changed)
		t->changed(t->user);
}

/* ---- its file ---- */

struct sync_job {
	struct spool_job job;
	struct device_trust *t;
	struct quarantine *q; /* a copy */
	const char *path;
	struct stat seen;
	bool unsaved, done;
};

static bool is_as_seen(const char *path, const struct stat *seen)
{
	struct stat st;

	return stat(path, &st) == 0 ? st.st_ino == seen->st_ino && st.st_size == seen->st_size &&
					      st.st_mtim.tv_sec == seen->st_mtim.tv_sec &&
					      st.st_mtim.tv_nsec == seen->st_mtim.tv_nsec
				    : seen->st_ino == 0;
}

static void sync_work(struct spool_job *job, struct spool_place *p)
{
	struct sync_job *s = (struct sync_job *)job;

	if (!s->unsaved && is_as_seen(s->path, &s->seen))
		return;
	s->done = quarantine_sync(s->q, s->path, clock_wall_ns(), NULL) == 0;
	if (stat(s->path, &s->seen) < 0)
		s->seen = (struct stat){ .st_ino = 0 };
}

static void sync_file(struct device_trust *t);

static void sync_done(struct spool_job *job)
{
	struct sync_job *s = (struct sync_job *)job;
	struct device_trust *t = s->t;

	t->syncing = false;
	if (s->done) {
		cleanup_free char *text = quarantine_text(s->q);

		quarantine_join(t->q, text, strlen(text), clock_wall_ns());
		t->seen = s->seen;
		show_all(t);
	} else if (s->unsaved) {
		t->unsaved = t->urgent = true;
	}
	s->q = quarantine_free(s->q);
	if (t->urgent && !(s->unsaved && !s->done)) /* what failed is tried with the next look */
		sync_file(t);
	free(s);
}

static void sync_file(struct device_trust *t)
{
	struct sync_job *s;

	if (t->syncing)
		return;
	s = xcalloc(1, sizeof(*s));
	s->job = (struct spool_job){ .work = sync_work, .done = sync_done };
	s->t = t;
	s->q = quarantine_new(t->q->boot);
	*s->q = *t->q;
	s->path = t->path;
	s->seen = t->seen;
	s->unsaved = t->unsaved && (t->urgent || t->since_save_s >= SAVE_S);
	if (s->unsaved) {
		t->unsaved = t->urgent = false;
		t->since_save_s = 0;
	}
	t->syncing = true;
	t->since_look_s = 0;
	spooler_do(t->spooler, &s->job);
}

/* ---- what is heard ---- */

static const struct dev_status *device_of(const struct view *v, const char *uuid)
{
	for (uint32_t i = 0; i < v->n_slots; i++)
		if (!strcmp(v->devices[i].uuid, uuid))
			return &v->devices[i];
	return NULL;
}

/* What the driver has reported of it. */
static uint32_t xid_of(const struct view *v, const char *uuid)
{
	const struct dev_status *dev = device_of(v, uuid);

	return dev ? dev->xid : 0;
}

/* A log that speaks of a device does not say which of several. */
static bool what_failed(const struct device_trust *t, const struct attempt *a, const char *uuid,
			char what[QUARANTINE_WORD_MAX])
{
	uint32_t xid = xid_of(t->view, uuid);

	what[0] = '\0';
	if (!a->failed)
		return false;
	if (xid)
		(void)str_print(what, QUARANTINE_WORD_MAX, "XID %u", xid);
	else if (a->uuids.n == 1)
		(void)str_copy(what, QUARANTINE_WORD_MAX, a->fault);
	return what[0];
}

static void await_report(struct device_trust *t, const struct quarantine_outcome *o)
{
	t->unjudged = xrealloc(t->unjudged, t->n_unjudged + 1, sizeof(*t->unjudged));
	t->unjudged[t->n_unjudged++] = (struct unjudged){ .o = *o, .over_ns = clock_mono_ns() };
}

static bool may_be_told(const struct device_trust *t, const struct unjudged *u)
{
	const struct dev_status *dev = device_of(t->view, u->o.uuid);

	return (!dev || dev->looked_ns < u->over_ns + REPORT_NS) &&
	       clock_mono_ns() < u->over_ns + REPORT_MOST_NS;
}

/* What is known by now; what blames nothing in time is forgotten. */
static void judge_late(struct device_trust *t)
{
	uint64_t now = clock_wall_ns();
	size_t left = 0, n = t->n_unjudged;

	for (size_t i = 0; i < n; i++) {
		struct unjudged u = t->unjudged[i];
		uint32_t xid = xid_of(t->view, u.o.uuid);

		if (xid) {
			(void)str_print(u.o.what, sizeof(u.o.what), "XID %u", xid);
			quarantine_note(t->q, &u.o, now);
			t->unsaved = t->urgent = true;
		} else if (may_be_told(t, &u)) {
			t->unjudged[left++] = u;
		}
	}
	t->n_unjudged = left;
	if (left < n && t->urgent)
		sync_file(t);
}

void device_trust_on_granted(struct device_trust *t, const struct attempt *a)
{
	size_t left = 0, n;

	judge_late(t);
	n = t->n_unjudged;
	for (size_t i = 0; i < n; i++)
		if (!text_list_has(&a->uuids, t->unjudged[i].o.uuid))
			t->unjudged[left++] = t->unjudged[i];
	t->n_unjudged = left;
}

void device_trust_on_over(struct device_trust *t, const struct attempt *a, bool well)
{
	uint64_t now = clock_wall_ns();
	struct quarantine_outcome o = { .ended_ns = now };
	bool some = false;

	if (!a->spec)
		return;
	(void)str_copy(o.name, sizeof(o.name), a->spec->name);
	(void)str_print(o.task, sizeof(o.task), a->ref.element ? "%.30s %llu.%u" : "%.30s %llu",
			t->view->c->instance, (unsigned long long)a->ref.id, a->ref.element);
	for (size_t i = 0; i < a->uuids.n; i++) {
		bool bad = what_failed(t, a, a->uuids.texts[i], o.what);

		(void)str_copy(o.uuid, sizeof(o.uuid), a->uuids.texts[i]);
		if (a->failed && !bad)
			await_report(t, &o);
		if (!bad && !well)
			continue;
		quarantine_note(t->q, &o, now);
		some = some || bad || quarantine_find(t->q, o.uuid);
	}
	t->unsaved = t->unsaved || a->uuids.n;
	if (!some && !(t->ending && t->unsaved))
		return;
	show_all(t);
	t->urgent = true;
	sync_file(t);
}

void device_trust_look(struct device_trust *t)
{
	judge_late(t);
	show_all(t);
}

void device_trust_watch(struct device_trust *t)
{
	quarantine_tick(t->q, clock_wall_ns());
	judge_late(t);
	show_all(t);
	t->since_look_s++;
	t->since_save_s++;
	if (t->since_look_s >= LOOK_S)
		sync_file(t);
}

const struct view_quarantine *device_trust_view(const struct device_trust *t)
{
	return t->shown;
}

/* ---- its life ---- */

struct device_trust *device_trust_new(const struct view *view, struct spooler *spooler,
				      struct eventlog *eventlog, void (*changed)(void *user),
				      void *user)
{
	struct device_trust *t = xcalloc(1, sizeof(*t));

	t->view = view;
	t->spooler = spooler;
	t->eventlog = eventlog;
	t->changed = changed;
	t->user = user;
	t->path = quarantine_path(view->c->state_dir, view->self->host);
	t->q = quarantine_new(NULL);
	sync_file(t);
	return t;
}

void device_trust_end(struct device_trust *t)
{
	t->ending = true;
	judge_late(t);
	t->urgent = t->unsaved;
	if (t->urgent)
		sync_file(t);
}

void device_trust_free(struct device_trust *t)
{
	free(t->unjudged);
	t->q = quarantine_free(t->q);
	free(t->path);
	free(t);
}
