/* SPDX-License-Identifier: MIT */

/*
 * The loop's thread has the rings in memory, and what is to be written; a job takes that along and
 * has it for itself until it is done. A device that is new is read before anything of it is
 * written.
 */
#include "agent/history.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "agent/parts.h"
#include "agent/report/eventlog.h"
#include "agent/report/samples.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "spool/agent_history.h"

#define WAITING_MAX 512		      /* samples that wait for the disk; more are lost */
#define SWEEP_STEPS (3600 / SAMPLE_S) /* between two looks for files of devices that are gone */
#define HANGS_NS    (60 * NS_PER_S)   /* a job that takes longer is told of */
#define SHARE_NS    (AGENT_HISTORY_STEP_S * NS_PER_S)

struct device_history {
	char uuid[96];
	uint32_t gpu;
	int32_t mig;
	struct sample_sums sums;
	struct sample_ring ring;
};

/* A sample for a device's file; at 0: the file is read. */
struct errand {
	char uuid[96];
	struct sample sample;
	struct sample_ring *read; /* what was in it; the job's, then the loop's */
};

struct history {
	struct agent *a;
	/* For the job: the agent's own may be others after a reload. */
	bool here; /* the devices are this machine's */
	char *state_dir, *instance;
	unsigned int n;
	struct device_history *all[PROTO_DEVICES_MAX];
	uint64_t lost, lost_told; /* samples that are in no file */
	bool trouble;		  /* was told */
	uint64_t shared_ns;	  /* history_to_share() gave the day of so many devices then */
	unsigned int n_shared;
	unsigned int n_waiting;
	struct errand waiting[WAITING_MAX];
	/* The job's while busy. */
	bool busy, closing;
	uint64_t began_ns;
	uv_work_t work;
	char dir[SAMPLES_PATH];
	uint32_t now, swept;
	unsigned int n_errands, failed;
	struct errand errands[WAITING_MAX];
	struct err why;
};

/* -------- on a thread of the pool -------- */

/* The instance's directory may be a queue, on a file system that is away now: another one must not
 * be made in its place. */
static int is_there(const struct history *h, struct err *e)
{
	cleanup_free char *dir = xasprintf("%s/%s", h->state_dir, h->instance);

	return access(dir, F_OK) == 0 ? 0 : err_sys(e, errno, "open %s", dir);
}

/*
 * Beside the records of tasks' ends. A directory of device nodes that is not the system's is
 * another machine, simulated as a rule: what was seen on it is kept with its other files.
 */
static int find_dir(struct history *h)
{
	cleanup_free char *name = xasprintf("tenure-%u", (unsigned int)getuid());
	cleanup_free char *local = h->here ? fs_private_dir("/var/tmp", name) : NULL;
	struct err e = ERR_INIT;
	int r;

	if (h->dir[0])
		return 0;
	(void)str_print(h->dir, sizeof(h->dir), local ? "%s/%s/samples" : "%s/%s/run/samples",
			local ? local : h->state_dir, h->instance);
	r = local ? 0 : is_there(h, &e);
	if (r == 0)
		r = fs_mkdirs(h->dir, 0700, &e);
	if (r < 0) {
		h->why = e;
		h->dir[0] = '\0';
	}
	return r;
}

/* A UUID of MIG may have slashes. */
static char *path_of(const struct history *h, const char *uuid, char path[SAMPLES_PATH])
{
	char name[96];

	(void)str_copy(name, sizeof(name), uuid);
	for (char *p = name; *p; p++)
		if (*p == '/' || (p == name && *p == '.'))
			*p = '_';
	return str_print(path, SAMPLES_PATH, "%s/%s", h->dir, name);
}

static void run_errand(struct history *h, struct errand *one)
{
	char path[SAMPLES_PATH];
	struct err e = ERR_INIT;
	int r;

	(void)path_of(h, one->uuid, path);
	if (one->sample.at) {
		r = samples_write(path, &one->sample, &e);
		h->failed += r < 0;
	} else {
		one->read = xcalloc(1, sizeof(*one->read));
		r = samples_read(path, one->read, h->now, &e);
	}
	if (r < 0)
		h->why = e;
}

static void work(uv_work_t *w)
{
	struct history *h = w->data;
	bool found = find_dir(h) == 0;

	h->failed = 0;
	if (found && (h->now < h->swept || h->now >= h->swept + SWEEP_STEPS)) {
		samples_sweep(h->dir, h->now);
		h->swept = h->now;
	}
	for (unsigned int i = 0; i < h->n_errands; i++) {
		if (found)
			run_errand(h, &h->errands[i]);
		else
			h->failed += h->errands[i].sample.at != 0;
	}
}

/* -------- on the loop -------- */

static struct device_history *find(struct history *h, const char *uuid)
{
	for (unsigned int i = 0; i < h->n; i++)
		if (!strcmp(h->all[i]->uuid, uuid))
			return h->all[i];
	return NULL;
}

/* What the agent before has seen; what this one has seen meanwhile stays. */
static void take_read(struct history *h, struct errand *one)
{
	struct device_history *d = find(h, one->uuid);

	for (size_t i = 0; d && one->read && i < SAMPLES_MAX; i++)
		if (!d->ring.s[i].at)
			(void)samples_put(&d->ring, &one->read->s[i], h->now);
	free(take_ptr(one->read));
}

static void tell_trouble(struct history *h, const char *why)
{
	if (h->trouble)
		return;
	h->trouble = true;
	eventlog_say(
		h->a->eventlog, LOG_LEVEL_WARNING,
		"the history of the GPUs cannot be kept on disk: %s; this agent has it in memory "
		"and goes on, but the next one will have gaps",
		why);
}

static void tell_back(struct history *h)
{
	if (!h->trouble)
		return;
	h->trouble = false;
	eventlog_say(
		h->a->eventlog, LOG_LEVEL_INFO,
		"the history of the GPUs is kept on disk again; %llu samples of 10 s are not in it",
		(unsigned long long)(h->lost - h->lost_told));
	h->lost_told = h->lost;
}

static void start_job(struct history *h);

static void done(uv_work_t *w, int status)
{
	struct history *h = w->data;
	bool failed = h->why.text[0] != '\0';

	h->busy = false;
	h->lost += h->failed;
	for (unsigned int i = 0; i < h->n_errands; i++)
		take_read(h, &h->errands[i]);
	h->n_errands = 0;
	if (h->closing)
		return;
	if (failed)
		tell_trouble(h, h->why.text);
	else
		tell_back(h);
	start_job(h);
}

static void start_job(struct history *h)
{
	if (h->busy || !h->n_waiting)
		return;
	(void)memcpy(h->errands, h->waiting, h->n_waiting * sizeof(h->waiting[0]));
	h->n_errands = h->n_waiting;
	h->n_waiting = 0;
	h->now = (uint32_t)(clock_wall_ns() / NS_PER_S / SAMPLE_S);
	h->why = (struct err)ERR_INIT;
	h->work.data = h;
	h->began_ns = clock_mono_ns();
	h->busy = uv_queue_work(&h->a->loop, &h->work, work, done) == 0;
}

static void add_errand(struct history *h, const struct device_history *d,
		       const struct sample *sample)
{
	struct errand *one = &h->waiting[h->n_waiting];

	if (h->n_waiting == WAITING_MAX) {
		h->lost++;
		return;
	}
	h->n_waiting++;
	*one = (struct errand){ .read = NULL };
	(void)str_copy(one->uuid, sizeof(one->uuid), d->uuid);
	if (sample)
		one->sample = *sample;
}

static struct device_history *meet(struct history *h, const struct dev_status *dev)
{
	struct device_history *d = find(h, dev->uuid);

	if (!d && h->n < PROTO_DEVICES_MAX) {
		d = h->all[h->n++] = xcalloc(1, sizeof(*d));
		(void)str_copy(d->uuid, sizeof(d->uuid), dev->uuid);
		add_errand(h, d, NULL);
	}
	if (d) {
		d->gpu = dev->index;
		d->mig = dev->mig;
	}
	return d;
}

/* The sample that is complete; a clock that was set has left others out, or begins some anew. */
static void finish(struct history *h, struct device_history *d, uint32_t at)
{
	struct sample one;

	if (d->sums.at && d->sums.at != at) {
		one = sample_of(&d->sums);
		(void)samples_put(&d->ring, &one, at);
		add_errand(h, d, &one);
	}
	if (d->sums.at != at)
		d->sums = (struct sample_sums){ .at = at };
}

void history_look(struct agent *a)
{
	struct history *h = a->history;
	const struct view *v = &a->view;
	uint32_t at = (uint32_t)(clock_wall_ns() / NS_PER_S / SAMPLE_S);
	int slots[PROTO_DEVICES_MAX];

	for (size_t i = 0; i < ARRAY_LEN(slots); i++)
		slots[i] = -1;
	for (uint32_t i = 0; i < v->n_slots; i++) {
		const struct device_history *d;

		if (!v->seen[i] || view_is_mig_card(v, i))
			continue;
		d = meet(h, &v->devices[i]);
		for (unsigned int k = 0; d && k < h->n; k++)
			if (h->all[k] == d)
				slots[k] = (int)i;
	}
	for (unsigned int k = 0; k < h->n; k++) {
		finish(h, h->all[k], at);
		sample_add(&h->all[k]->sums, v, slots[k]);
	}
	if (h->busy && clock_mono_ns() - h->began_ns > HANGS_NS)
		tell_trouble(h, "its disk does not answer");
	start_job(h);
}

json_t *history_report(const struct agent *a, uint64_t seconds, uint64_t step_s)
{
	const struct history *h = a->history;
	uint64_t now_s = clock_wall_ns() / NS_PER_S;
	json_t *devices = json_array();

	samples_bound(h->n, &seconds, &step_s);
	for (unsigned int i = 0; i < h->n; i++) {
		const struct device_history *d = h->all[i];
		json_t *o = json_pack("{ss si}", "uuid", d->uuid, "gpu", (int)d->gpu);

		(void)json_object_set_new(o, "mig",
					  d->mig >= 0 ? json_integer(d->mig) : json_null());
		(void)json_object_set_new(o, "samples",
					  samples_json(&d->ring, now_s, seconds, step_s));
		(void)json_array_append_new(devices, o);
	}
	return json_pack("{si sI sI sI sI so}", "code", 0, "now", (json_int_t)now_s, "seconds",
			 (json_int_t)seconds, "step_s", (json_int_t)step_s, "lost",
			 (json_int_t)h->lost, "devices", devices);
}

json_t *history_to_share(struct agent *a, bool last)
{
	struct history *h = a->history;
	uint64_t now = clock_mono_ns();
	/* Of a device that is new what was before is not read yet. */
	bool others = h->n != h->n_shared && !h->busy && !h->n_waiting;

	if (!h->n || !(last || others || now - h->shared_ns >= SHARE_NS))
		return NULL;
	h->shared_ns = now;
	h->n_shared = h->n;
	return history_report(a, AGENT_HISTORY_DAY_S, AGENT_HISTORY_STEP_S);
}

struct history *history_new(struct agent *a)
{
	struct history *h = xcalloc(1, sizeof(*h));

	h->a = a;
	h->shared_ns = clock_mono_ns();
	h->here = strcmp(a->c->dev_dir, "/dev") == 0;
	h->state_dir = xstrdup(a->c->state_dir);
	h->instance = xstrdup(a->c->instance);
	return h;
}

void history_close(struct agent *a)
{
	a->history->closing = true;
}

int history_free(struct history *h)
{
	if (h->busy)
		return -EBUSY;
	for (unsigned int i = 0; i < h->n; i++)
		free(h->all[i]);
	free(h->state_dir);
	free(h->instance);
	free(h);
	return 0;
}
