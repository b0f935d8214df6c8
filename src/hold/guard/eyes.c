/* SPDX-License-Identifier: MIT */
/*
 * The eyes' thread.
 *
 * The mutex guards everything but NVML itself, which only the thread touches; no driver call is
 * made with it held. What was seen is copied under it, newest wins: the guard wakes within
 * microseconds, and a process that came and went between two of its looks is gone.
 *
 * When every device fails, NVML itself is lost (driver upgrade, container after daemon-reload): it
 * is shut down and started again every EYES_RESTART_NS, and slots are found again by UUID. Where it
 * does not start, its library is loaded anew each time: the one that we have may be that of the
 * driver before an upgrade, which the new one refuses for ever. A single device that fails is tried
 * again every EYES_RETRY_NS. Which devices there are is asked again while NVML runs: every
 * EYES_RETRY_NS where a card could not be asked, else every EYES_RELIST_NS, because MIG instances
 * come and go; more seldom where that takes long (pause_for()).
 *
 * How the cards are doing (gpu/health.h) is nobody's business who comes: its parts are jobs, of
 * which one is done between two looks where the time to the next one is enough for it twice. What a
 * job takes (base/cost.h) says how long that is, once it is known; one that has had no room for
 * EYES_COUNTERS_NS is thought to take half of that, so that a driver that was slow for a while does
 * not keep it off for good.
 */
#include "hold/guard/eyes.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cost.h"
#include "base/mem.h"
#include "base/str.h"
#include "gpu/xid.h"
#include "hold/guard/granted.h"
#include "hold/guard/timings.h"

#define MOVED_BYTES  (8ULL << 20) /* memory that moved by less is not told at once */
#define RELIST_SHARE 100	  /* it may take one part in so many of the thread's time */
#define HALVED_MAX   32		  /* which leaves nothing of what a job takes */
#define ERRORS_MAX   64		  /* different ones that the guard has not taken yet */
#define READ_MAX     256	  /* of them at once: a program can make thousands */
#define MISSES_MAX   2		  /* looks that fail in a row before we say that we cannot see */

/* A part of gpu/health.h, or the figures of a look while somebody watches. */
enum { JOB_FIGURES = HEALTH_PART_MAX, JOB_MAX };

struct job {
	uint64_t done_ns; /* 0: never */
	struct cost cost;
	uint64_t tight_ns; /* it is due and has no room since; 0: it is not, or has */
	unsigned int halved;
};

struct slot {
	struct gpu_device device;
	bool present;
	uint64_t period_ns, due_ns;
	uint64_t deep_ns, figures_ns, modes_ns, list_ns; /* when those were last read */
	uint64_t alert_until_ns;			 /* its memory moved just now */
	bool calm;					 /* which is no reason to look */
	bool deep_now;
	unsigned int looks;
	unsigned int misses;
	bool joined; /* its peers are known */
	struct eyes_peers peers;
	struct job jobs[JOB_MAX];
	struct gpu_health health;
	uint64_t health_seq;
	struct sample sample;
	struct gpu_look news; /* what the guard was told last, or is yet */
};

struct eyes {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	int fd;
	_Atomic uint64_t look_began_ns; /* 0: no look is going on */
	/* under lock: */
	bool stop, ready;
	bool hint, watched;
	int code;
	char trouble[200], driver[64];
	uint32_t n_others, n_unseen;
	uint32_t n;
	struct slot slots[GPU_DEVICES_MAX];
	uint32_t n_errors;
	struct eyes_error error[ERRORS_MAX];
	struct eyes_delay delay;
	uint64_t errors_ns; /* when they are read next */
	/* of the thread alone: */
	struct nvml nvml;
	struct granted *granted; /* or NULL */
	struct gpu_list list, list_now;
	uint64_t relist_ns; /* when the list is asked for again */
	struct cost relist_cost;
	struct gpu_errors errors;
	uint64_t restart_ns;
	struct gpu_look look;
};

static void notify(struct eyes *eyes)
{
	uint64_t one = 1;
	ssize_t n = write(eyes->fd, &one, sizeof(one));

	(void)n; /* full means that the guard is being woken already */
}

static void set_trouble(struct eyes *eyes, int code, const char *text)
{
	eyes->code = code;
	(void)str_copy(eyes->trouble, sizeof(eyes->trouble), text);
	eyes->ready = true;
	notify(eyes);
}

static struct slot *slot_of(struct eyes *eyes, const struct gpu_device *d)
{
	for (uint32_t i = 0; i < eyes->n; i++)
		if (!strcmp(eyes->slots[i].device.uuid, d->uuid))
			return &eyes->slots[i];
	if (eyes->n == GPU_DEVICES_MAX)
		return NULL;

	struct slot *s = &eyes->slots[eyes->n++];

	*s = (struct slot){ .period_ns = EYES_DEEP_NS };
	return s;
}

/* The card that d is, or is an instance of, is in the list. */
static bool lists_card(const struct gpu_list *list, const struct gpu_device *d)
{
	for (uint32_t i = 0; i < list->n; i++)
		if (list->d[i].mig < 0 && !list->d[i].unseen && list->d[i].index == d->index)
			return true;
	return false;
}

/* eyes->list is filled: give every device its slot. */
static void give_slots(struct eyes *eyes)
{
	if (eyes->granted) {
		eyes->n_others = eyes->granted->n_others;
		eyes->n_unseen = eyes->granted->n_unseen;
	}
	for (uint32_t i = 0; i < eyes->list.n; i++) {
		struct slot *s = slot_of(eyes, &eyes->list.d[i]);

		if (!s)
			continue;

		uint64_t rest_bytes = s->device.rest_bytes;

		s->device = eyes->list.d[i];
		s->device.rest_bytes = rest_bytes;
		s->present = true;
		s->due_ns = 0;
		s->misses = 0;
	}
}

/*
 * The same where NVML filled it. Handles from before it was restarted are not valid any more; while
 * it runs, a card that just could not be asked is still the one it was, and its looks say how it
 * is.
 */
static void take_list(struct eyes *eyes, bool restarted)
{
	for (uint32_t i = 0; i < eyes->n; i++) {
		struct slot *s = &eyes->slots[i];

		s->joined = false;
		if (restarted)
			(void)memset(s->jobs, 0, sizeof(s->jobs));
		s->present = s->present && !restarted && !s->device.unseen &&
			     !lists_card(&eyes->list, &s->device);
	}
	give_slots(eyes);
}

/* Between two times: what takes long is done more seldom, once in an hour, or (UINT64_MAX) not
 * again: what may be for so long that the eyes see nothing lets go what is held. Two long ones, one
 * behind the other, are hardly chance: the third, with which that is known, is not made at once. */
static uint64_t pause_for(const struct cost *c, uint64_t period)
{
	bool twice = c->took_ns[0] > EYES_SELDOM_NS && c->took_ns[1] > EYES_SELDOM_NS;

	if (cost_ns(c) > STUCK_NS / 2)
		return UINT64_MAX;
	if (cost_ns(c) > EYES_SELDOM_NS)
		return EYES_LIMITS_NS;
	if (twice && period < EYES_COUNTERS_NS)
		period = EYES_COUNTERS_NS;
	return cost_rest_ns(c, RELIST_SHARE, period, UINT64_MAX);
}

static void set_relist(struct eyes *eyes)
{
	uint64_t pause =
		pause_for(&eyes->relist_cost, eyes->list.n_failed ? EYES_RETRY_NS : EYES_RELIST_NS);

	eyes->relist_ns = pause == UINT64_MAX ? pause : clock_mono_ns() + pause;
}

/* Which devices there are for us: all of them, or those that were granted. */
static int list_devices(struct eyes *eyes, struct gpu_list *ret, struct err *e)
{
	int r = gpu_enumerate(&eyes->nvml, ret, e);

	if (r == 0 && eyes->granted)
		granted_apply(eyes->granted, &eyes->nvml, ret);
	return r;
}

/* (Re)start NVML, called without the lock. */
static void start_nvml(struct eyes *eyes)
{
	struct err e = ERR_INIT;
	char driver[64] = "";
	int r = eyes->nvml.library ? 0 : nvml_load(&eyes->nvml, &e);

	if (r == 0) {
		gpu_errors_close(&eyes->nvml, &eyes->errors);
		nvml_stop(&eyes->nvml);
		r = nvml_start(&eyes->nvml, &e);
		if (r < 0)
			nvml_unload(&eyes->nvml);
	}
	if (r == 0)
		r = list_devices(eyes, &eyes->list, &e);
	if (r == 0 && eyes->nvml.driver_version)
		(void)eyes->nvml.driver_version(driver, sizeof(driver));
	if (r == 0)
		gpu_errors_open(&eyes->nvml, &eyes->list, &eyes->errors);
	else if (r == -ENOENT && eyes->granted)
		granted_blind(eyes->granted, &eyes->list);

	(void)pthread_mutex_lock(&eyes->lock);
	if (r == -ENOENT && eyes->granted)
		give_slots(eyes);
	if (r == 0) {
		take_list(eyes, true);
		(void)str_copy(eyes->driver, sizeof(eyes->driver), driver);
	}
	set_trouble(eyes, r, r < 0 ? e.text : "");
	(void)pthread_mutex_unlock(&eyes->lock);
	eyes->restart_ns = clock_mono_ns() + EYES_RESTART_NS;
	eyes->relist_cost = (struct cost){ 0 };
	set_relist(eyes);
}

/*
 * Which devices there are now. Asked when no look is due, no hint is on and no memory has moved;
 * where a card takes long to say that it is not there, more seldom, or not again before NVML is
 * started anew. The lock as for look_at().
 */
static void relist(struct eyes *eyes, uint64_t now)
{
	struct err e = ERR_INIT;

	(void)pthread_mutex_unlock(&eyes->lock);
	atomic_store(&eyes->look_began_ns, now);

	bool changed = (gpu_list_is_old(&eyes->nvml, &eyes->list) ||
			(eyes->granted && eyes->granted->n_unseen)) &&
		       list_devices(eyes, &eyes->list_now, &e) == 0;
	bool others = changed && !gpu_list_same(&eyes->list, &eyes->list_now);

	if (changed)
		eyes->list = eyes->list_now;
	if (others) {
		gpu_errors_close(&eyes->nvml, &eyes->errors);
		gpu_errors_open(&eyes->nvml, &eyes->list, &eyes->errors);
	}
	atomic_store(&eyes->look_began_ns, 0);
	(void)pthread_mutex_lock(&eyes->lock);
	if (others) {
		take_list(eyes, false);
		notify(eyes);
	}
	cost_add(&eyes->relist_cost, clock_mono_ns() - now);
	set_relist(eyes);
}

/* Nobody is expected just now. */
static bool is_quiet(const struct eyes *eyes, uint64_t now)
{
	for (uint32_t i = 0; i < eyes->n; i++)
		if (eyes->slots[i].present && now < eyes->slots[i].alert_until_ns)
			return false;
	return !eyes->hint;
}

static bool differs(uint64_t bytes, uint64_t was)
{
	return (bytes > was ? bytes - was : was - bytes) > MOVED_BYTES;
}

/* A list that was read before memory moved has to be followed by one that says whose that is. */
static bool same_procs(const struct gpu_procs *a, const struct gpu_procs *b)
{
	if (a->n != b->n)
		return false;
	for (uint32_t i = 0; i < a->n; i++)
		if (a->p[i].pid != b->p[i].pid || differs(a->p[i].used_bytes, b->p[i].used_bytes))
			return false;
	return true;
}

/* Compared with what was told, and not with the look before: memory may move bit by bit. */
static bool is_news(const struct slot *s, int code, const struct gpu_look *look, bool deep)
{
	if (deep || code != s->sample.code || !s->sample.seq)
		return true;
	if (code < 0)
		return false;
	return differs(look->used, s->news.used) || !same_procs(&look->procs, &s->news.procs);
}

static void keep_modes(struct gpu_look *look, const struct gpu_look *old, uint32_t which)
{
	look->valid |= old->valid & which;
	if (which & GPU_VALID_MODE)
		look->mode = old->mode;
	if (which & GPU_VALID_DISPLAY)
		look->display = old->display;
	if (which & GPU_VALID_PERSISTENCE)
		look->persistence = old->persistence;
}

static void take_figures(struct gpu_look *look, const struct gpu_look *from)
{
	const uint32_t figures = GPU_VALID_POWER | GPU_VALID_POWER_LIMIT | GPU_VALID_TEMP;

	look->valid = (look->valid & ~figures) | (from->valid & figures);
	look->power_mw = from->power_mw;
	look->power_limit_mw = from->power_limit_mw;
	look->temp_c = from->temp_c;
}

/* What this look did not read is still as the last one that did read it says. */
static void keep_figures(struct gpu_look *look, const struct gpu_look *old, enum gpu_depth depth)
{
	const uint32_t modes = GPU_VALID_MODE | GPU_VALID_DISPLAY | GPU_VALID_PERSISTENCE;

	if (depth < GPU_LOOK_UTIL) {
		look->valid |= old->valid & GPU_VALID_UTIL;
		look->util = old->util;
	}
	if (depth < GPU_LOOK_FIGURES)
		take_figures(look, old);
	/* Of a mode hangs whether it is held: one call that failed must not make it fit. */
	keep_modes(look, old, depth < GPU_LOOK_ALL ? modes : look->failed);
}

/* A look that did not ask for them keeps the graphics processes, or they would come and go. */
static void keep_graphics(struct gpu_procs *procs, const struct gpu_procs *old)
{
	for (uint32_t i = 0; i < old->n && procs->n < GPU_PROCS_MAX; i++) {
		if (!old->p[i].graphics)
			continue;
		procs->p[procs->n++] = old->p[i];
		procs->n_total++;
	}
}

/* Take in one look, with the lock held. */
static void take_look(struct eyes *eyes, struct slot *s, int code, enum gpu_depth depth,
		      const char *trouble)
{
	struct gpu_look *look = &eyes->look;
	bool deep = depth >= GPU_LOOK_UTIL;

	if (code < 0 && ++s->misses < MISSES_MAX) {
		s->due_ns = 0; /* once may be chance: look again at once */
		s->deep_now = deep;
		return;
	}
	if (code == 0) {
		s->misses = 0;
		keep_figures(look, &s->sample.look, depth);
	}

	bool news = is_news(s, code, look, deep);

	s->sample.code = code;
	if (code == 0) {
		s->sample.look = *look;
		s->list_ns = look->end_ns;
		if (deep)
			s->deep_ns = look->end_ns;
		if (depth >= GPU_LOOK_FIGURES)
			s->figures_ns = look->end_ns;
		if (depth >= GPU_LOOK_ALL)
			s->modes_ns = look->end_ns;
	} else {
		(void)str_copy(s->sample.trouble, sizeof(s->sample.trouble), trouble);
		s->due_ns = clock_mono_ns() + EYES_RETRY_NS;
	}
	if (news) {
		s->news = s->sample.look;
		s->sample.complete |= deep; /* these until it is taken */
		s->sample.checked |= depth >= GPU_LOOK_ALL;
		s->sample.seq++;
		notify(eyes);
	}
}

static bool is_alert(const struct slot *s, uint64_t now)
{
	return now < s->alert_until_ns && !s->calm;
}

static enum gpu_depth choose_depth(const struct slot *s, uint64_t now)
{
	uint64_t list_every = is_alert(s, now)		    ? 0
			      : s->period_ns < EYES_HINT_NS ? EYES_HINT_LIST_NS
							    : EYES_LIST_NS;

	/* The figures are due in a hint as well: somebody's monitor may keep one on for ever. */
	if (s->deep_now || now - s->modes_ns >= EYES_MODES_NS)
		return GPU_LOOK_ALL;
	if (now - s->deep_ns >= EYES_DEEP_NS)
		return now - s->figures_ns >= EYES_FIGURES_NS ? GPU_LOOK_FIGURES : GPU_LOOK_UTIL;
	if (now - s->list_ns >= list_every)
		return s->looks % 8 ? GPU_LOOK_QUICK : GPU_LOOK_PROCS;
	return GPU_LOOK_MEMORY;
}

/* All devices of one period come due together: one wake-up serves them all. */
static uint64_t next_due(const struct slot *s, uint64_t now)
{
	uint64_t period = is_alert(s, now) && s->period_ns > EYES_ALERT_LOOK_NS ? EYES_ALERT_LOOK_NS
										: s->period_ns;

	return (now / period + 1) * period;
}

/* It is looked at now, or as soon as possible. */
static void note_late(struct eyes *eyes, const struct slot *s, uint64_t now)
{
	bool due = s->due_ns && s->due_ns < now && s->period_ns <= HELD_LOOK_NS;
	uint64_t late = due ? now - s->due_ns : 0;

	if (late > eyes->delay.late_ns)
		eyes->delay.late_ns = late;
	eyes->delay.n_late += late > EYES_LATE_NS;
}

static void note_took(struct eyes *eyes, const struct slot *s, uint64_t took)
{
	if (s->period_ns <= HELD_LOOK_NS && took > eyes->delay.took_ns)
		eyes->delay.took_ns = took;
}

/*
 * Look at one slot: called with the lock held, which is let go of for the driver calls. Memory is
 * the earliest witness: it moves some 16 ms before a newcomer's process is listed (H200, driver
 * 580), and costs half of a list. So it alone is read at most looks, at rest and in a hint; when it
 * moved the list is, at once and then every EYES_ALERT_LOOK_NS. A list of its own now and then is
 * for drivers that do it the other way round.
 */
static void look_at(struct eyes *eyes, struct slot *s)
{
	uint64_t now = clock_mono_ns();
	struct gpu_device device = s->device;
	enum gpu_depth depth = choose_depth(s, now);
	struct err e = ERR_INIT;

	note_late(eyes, s, now);
	s->deep_now = false;
	s->looks++;
	(void)pthread_mutex_unlock(&eyes->lock);
	atomic_store(&eyes->look_began_ns, now);

	int code = gpu_look_at(&eyes->nvml, &device, depth, &eyes->look, &e);
	/* Only this thread writes samples, so that it may read them without the lock. */
	bool moved = code == 0 && s->sample.seq && differs(eyes->look.used, s->sample.look.used);

	if (moved && depth == GPU_LOOK_MEMORY) {
		depth = GPU_LOOK_PROCS;
		code = gpu_look_at(&eyes->nvml, &device, depth, &eyes->look, &e);
	}
	atomic_store(&eyes->look_began_ns, 0);
	(void)pthread_mutex_lock(&eyes->lock);
	note_took(eyes, s, clock_mono_ns() - now);
	s->device.rest_bytes = device.rest_bytes;
	if (moved)
		s->alert_until_ns = now + EYES_ALERT_NS;
	if (!s->deep_now) /* asked for while this one was made: it does not answer that */
		s->due_ns = next_due(s, now);
	if (code == 0 && depth == GPU_LOOK_QUICK)
		keep_graphics(&eyes->look.procs, &s->sample.look.procs);
	if (code < 0 || depth > GPU_LOOK_MEMORY)
		take_look(eyes, s, code, depth, e.text);
}

/* There is nothing that could be asked, and so nothing that speaks against a task. */
static void look_at_unseen(struct eyes *eyes, struct slot *s)
{
	uint64_t now = clock_mono_ns();
	enum gpu_depth depth = choose_depth(s, now);

	s->deep_now = false;
	s->due_ns = now + EYES_DEEP_NS;
	eyes->look = (struct gpu_look){ .begin_ns = now, .end_ns = now };
	take_look(eyes, s, 0, depth, "");
}

static void add_error(struct eyes *eyes, nvmlDevice_t handle, uint32_t xid)
{
	int32_t slot = -1;

	for (uint32_t i = 0; i < eyes->n && slot < 0; i++)
		if (eyes->slots[i].present && eyes->slots[i].device.handle == handle)
			slot = (int32_t)i;
	for (uint32_t i = 0; i < eyes->n_errors; i++)
		if (eyes->error[i].slot == slot && eyes->error[i].xid == xid) {
			eyes->error[i].n++;
			return;
		}
	if (eyes->n_errors < ERRORS_MAX)
		eyes->error[eyes->n_errors++] =
			(struct eyes_error){ .slot = slot, .xid = xid, .n = 1 };
}

/* When no look is due: nobody waits for it. The lock as for look_at(). */
static void read_errors(struct eyes *eyes, uint64_t now)
{
	nvmlDevice_t handles[READ_MAX];
	uint32_t xids[READ_MAX], n = 0;

	eyes->errors_ns = now + EYES_ERRORS_NS;
	(void)pthread_mutex_unlock(&eyes->lock);
	atomic_store(&eyes->look_began_ns, now);
	while (n < READ_MAX && gpu_errors_next(&eyes->nvml, &eyes->errors, &handles[n], &xids[n]))
		n++;
	atomic_store(&eyes->look_began_ns, 0);
	(void)pthread_mutex_lock(&eyes->lock);
	for (uint32_t i = 0; i < n; i++)
		add_error(eyes, handles[i], xids[i]);
	if (n)
		notify(eyes);
}

static struct slot *not_joined(struct eyes *eyes)
{
	for (uint32_t i = 0; i < eyes->n; i++)
		if (eyes->slots[i].present && !eyes->slots[i].joined &&
		    !eyes->slots[i].device.unseen)
			return &eyes->slots[i];
	return NULL;
}

/*
 * Whom NVLink joins with this one. Asked when no look is due, of one slot at a time, because nobody
 * has measured on all machines what it costs. The lock as for look_at(); slots are only added, and
 * only by this thread.
 */
static void join(struct eyes *eyes, struct slot *s)
{
	struct eyes_peers peers = { { 0 } };
	uint32_t n = eyes->n;

	(void)pthread_mutex_unlock(&eyes->lock);
	atomic_store(&eyes->look_began_ns, clock_mono_ns());
	for (uint32_t i = 0; i < n; i++) {
		const struct slot *other = &eyes->slots[i];

		if (other != s && other->present && !other->device.unseen &&
		    gpu_nvlinked(&eyes->nvml, &s->device, &other->device))
			peers.w[i / 64] |= UINT64_C(1) << (i % 64);
	}
	atomic_store(&eyes->look_began_ns, 0);
	(void)pthread_mutex_lock(&eyes->lock);
	s->peers = peers;
	s->joined = true;
	notify(eyes);
}

/* -------- how the cards are doing -------- */

/* So often; 0: not now. */
static uint64_t job_period(const struct eyes *eyes, unsigned int job)
{
	static const struct {
		uint64_t ns, watched_ns;
	} periods[JOB_MAX] = {
		[HEALTH_PART_ENERGY] = { EYES_MOVING_NS, EYES_MOVING_NS },
		[HEALTH_PART_CLOCKS] = { EYES_MOVING_NS, EYES_WATCHED_NS },
		[HEALTH_PART_ECC] = { EYES_COUNTERS_NS, EYES_COUNTERS_NS },
		[HEALTH_PART_ROWS] = { EYES_COUNTERS_NS, EYES_COUNTERS_NS },
		[HEALTH_PART_STATE] = { EYES_COUNTERS_NS, EYES_COUNTERS_NS },
		[HEALTH_PART_PCIE] = { EYES_COUNTERS_NS, EYES_COUNTERS_NS },
		[HEALTH_PART_LINKS] = { EYES_COUNTERS_NS, EYES_COUNTERS_NS },
		[HEALTH_PART_LINK_ERRORS] = { EYES_COUNTERS_NS, EYES_COUNTERS_NS },
		[HEALTH_PART_LIMITS] = { EYES_LIMITS_NS, EYES_LIMITS_NS },
		[JOB_FIGURES] = { 0, EYES_WATCHED_NS },
	};

	return eyes->watched ? periods[job].watched_ns : periods[job].ns;
}

static uint64_t job_due(const struct eyes *eyes, const struct slot *s, unsigned int job)
{
	const struct job *j = &s->jobs[job];
	uint64_t period = job_period(eyes, job), pause = pause_for(&j->cost, period);

	if (!period || pause == UINT64_MAX)
		return UINT64_MAX;
	return j->done_ns ? j->done_ns + pause : 0;
}

/* It can be asked. */
static bool has_health(const struct slot *s)
{
	return s->present && !s->device.unseen && s->device.mig < 0 && s->sample.seq &&
	       s->sample.code == 0;
}

static void note_tight(struct job *j, uint64_t now)
{
	if (j->tight_ns && now - j->tight_ns < EYES_COUNTERS_NS)
		return;
	j->halved += j->tight_ns && j->halved < HALVED_MAX;
	j->tight_ns = now;
}

/* Before the next look, which is due at next_ns. False: there is none for which there is time. */
static bool find_job(struct eyes *eyes, uint64_t now, uint64_t next_ns, struct slot **ret_slot,
		     unsigned int *ret_job)
{
	for (uint32_t i = 0; i < eyes->n; i++) {
		struct slot *s = &eyes->slots[i];

		for (unsigned int job = 0; has_health(s) && job < JOB_MAX; job++) {
			struct job *j = &s->jobs[job];

			if (now < job_due(eyes, s, job))
				continue;
			if (next_ns - now >= 2 * (cost_ns(&j->cost) >> j->halved) + EYES_ROOM_NS) {
				*ret_slot = s;
				*ret_job = job;
				return true;
			}
			note_tight(j, now);
		}
	}
	return false;
}

/* The lock as for look_at(); only this thread writes health and samples. */
static void do_job(struct eyes *eyes, struct slot *s, unsigned int job, uint64_t now)
{
	struct gpu_device device = s->device;
	struct gpu_health health = s->health;
	struct gpu_look read = { .valid = 0 };

	(void)pthread_mutex_unlock(&eyes->lock);
	atomic_store(&eyes->look_began_ns, now);
	if (job == JOB_FIGURES)
		gpu_look_figures(&eyes->nvml, &device, &read);
	else
		gpu_health_read(&eyes->nvml, &device, (enum health_part)job, &health);
	atomic_store(&eyes->look_began_ns, 0);
	(void)pthread_mutex_lock(&eyes->lock);
	if (job == JOB_FIGURES) {
		take_figures(&s->sample.look, &read);
		s->figures_ns = clock_mono_ns(); /* and the next looks need not */
	} else {
		s->health = health;
		s->health_seq++;
	}
	s->jobs[job].done_ns = clock_mono_ns();
	cost_add(&s->jobs[job].cost, s->jobs[job].done_ns - now);
	s->jobs[job].tight_ns = 0;
	s->jobs[job].halved = 0;
}

/* When the next one is due, while somebody waits for it. */
static uint64_t next_watched(const struct eyes *eyes)
{
	uint64_t next = UINT64_MAX;

	for (uint32_t i = 0; eyes->watched && i < eyes->n; i++) {
		const struct slot *s = &eyes->slots[i];
		uint64_t due = has_health(s) ? job_due(eyes, s, JOB_FIGURES) : UINT64_MAX;

		next = due < next ? due : next;
	}
	return next;
}

static struct slot *most_due(struct eyes *eyes)
{
	struct slot *due = NULL;

	for (uint32_t i = 0; i < eyes->n; i++) {
		struct slot *s = &eyes->slots[i];

		if (s->present && (eyes->code == 0 || s->device.unseen) &&
		    (!due || s->due_ns < due->due_ns))
			due = s;
	}
	return due;
}

static bool all_fail(const struct eyes *eyes)
{
	for (uint32_t i = 0; i < eyes->n; i++)
		if (eyes->slots[i].present && !eyes->slots[i].device.unseen &&
		    eyes->slots[i].sample.code == 0)
			return false;
	return true;
}

static void wait_until(struct eyes *eyes, uint64_t at_ns)
{
	struct timespec ts = { .tv_sec = (time_t)(at_ns / NS_PER_S),
			       .tv_nsec = (long)(at_ns % NS_PER_S) };

	(void)pthread_cond_timedwait(&eyes->wake, &eyes->lock, &ts);
}

/* A step of the thread; the lock as for look_at(). */
static void turn(struct eyes *eyes, uint64_t now)
{
	struct slot *s = most_due(eyes), *well;
	bool works = eyes->code == 0;
	unsigned int job;

	if ((!works || all_fail(eyes)) && now >= eyes->restart_ns) {
		(void)pthread_mutex_unlock(&eyes->lock);
		start_nvml(eyes);
		(void)pthread_mutex_lock(&eyes->lock);
	} else if (!s) {
		wait_until(eyes, eyes->restart_ns);
	} else if (s->due_ns <= now && s->device.unseen) {
		look_at_unseen(eyes, s);
	} else if (s->due_ns <= now) {
		look_at(eyes, s);
	} else if (!works) {
		wait_until(eyes, s->due_ns < eyes->restart_ns ? s->due_ns : eyes->restart_ns);
	} else if (now >= eyes->errors_ns && eyes->errors.set) {
		read_errors(eyes, now);
	} else if (now >= eyes->relist_ns && is_quiet(eyes, now)) {
		relist(eyes, now);
	} else if (not_joined(eyes)) {
		join(eyes, not_joined(eyes));
	} else if (is_quiet(eyes, now) && find_job(eyes, now, s->due_ns, &well, &job)) {
		do_job(eyes, well, job, now);
	} else {
		uint64_t watched = is_quiet(eyes, now) ? next_watched(eyes) : UINT64_MAX;

		/* One that is due has no room. */
		wait_until(eyes, watched > now && watched < s->due_ns ? watched : s->due_ns);
	}
}

static void *eyes_thread(void *arg)
{
	struct eyes *eyes = arg;

	(void)prctl(PR_SET_NAME, "tenure-eyes");
	start_nvml(eyes);
	(void)pthread_mutex_lock(&eyes->lock);
	while (!eyes->stop)
		turn(eyes, clock_mono_ns());
	(void)pthread_mutex_unlock(&eyes->lock);
	nvml_stop(&eyes->nvml);
	return NULL;
}

int eyes_open(struct eyes **ret, struct granted *granted, struct err *e)
{
	cleanup_free struct eyes *eyes = xcalloc(1, sizeof(*eyes));

	eyes->granted = granted;

	eyes->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (eyes->fd < 0)
		return err_sys(e, errno, "eventfd");
	(void)pthread_mutex_init(&eyes->lock, NULL);
	clock_cond_init(&eyes->wake);

	int errnum = pthread_create(&eyes->thread, NULL, eyes_thread, eyes);

	if (errnum) {
		(void)fd_close(eyes->fd);
		return err_sys(e, errnum, "thread for NVML");
	}
	*ret = take_ptr(eyes);
	return 0;
}

void eyes_close(struct eyes *eyes)
{
	(void)pthread_mutex_lock(&eyes->lock);
	eyes->stop = true;
	(void)pthread_cond_signal(&eyes->wake);
	(void)pthread_mutex_unlock(&eyes->lock);
	(void)pthread_join(eyes->thread, NULL);
	nvml_unload(&eyes->nvml);
	(void)fd_close(eyes->fd);
	free(eyes);
}

int eyes_fd(const struct eyes *eyes)
{
	return eyes->fd;
}

void eyes_ack(struct eyes *eyes)
{
	uint64_t count;
	ssize_t n = read(eyes->fd, &count, sizeof(count));

	(void)n; /* nothing new: somebody was quicker */
}

bool eyes_ready(struct eyes *eyes)
{
	(void)pthread_mutex_lock(&eyes->lock);

	bool ready = eyes->ready;

	(void)pthread_mutex_unlock(&eyes->lock);
	return ready;
}

int eyes_trouble(struct eyes *eyes, char *text, size_t size)
{
	(void)pthread_mutex_lock(&eyes->lock);

	int code = eyes->code;

	(void)str_copy(text, size, eyes->trouble);
	(void)pthread_mutex_unlock(&eyes->lock);
	return code;
}

void eyes_driver(struct eyes *eyes, char *text, size_t size)
{
	(void)pthread_mutex_lock(&eyes->lock);
	(void)str_copy(text, size, eyes->driver);
	(void)pthread_mutex_unlock(&eyes->lock);
}

void eyes_granted(struct eyes *eyes, uint32_t *ret_others, uint32_t *ret_unseen)
{
	(void)pthread_mutex_lock(&eyes->lock);
	*ret_others = eyes->n_others;
	*ret_unseen = eyes->n_unseen;
	(void)pthread_mutex_unlock(&eyes->lock);
}

uint32_t eyes_count(struct eyes *eyes)
{
	(void)pthread_mutex_lock(&eyes->lock);

	uint32_t n = eyes->n;

	(void)pthread_mutex_unlock(&eyes->lock);
	return n;
}

bool eyes_device(struct eyes *eyes, uint32_t slot, struct gpu_device *ret)
{
	(void)pthread_mutex_lock(&eyes->lock);

	bool present = slot < eyes->n && eyes->slots[slot].present;

	if (slot < eyes->n)
		*ret = eyes->slots[slot].device;
	(void)pthread_mutex_unlock(&eyes->lock);
	return present;
}

struct eyes_peers eyes_peers(struct eyes *eyes, uint32_t slot)
{
	struct eyes_peers peers = { { 0 } };

	(void)pthread_mutex_lock(&eyes->lock);
	if (slot < eyes->n)
		peers = eyes->slots[slot].peers;
	(void)pthread_mutex_unlock(&eyes->lock);
	return peers;
}

struct eyes_delay eyes_take_delay(struct eyes *eyes)
{
	struct eyes_delay delay;

	(void)pthread_mutex_lock(&eyes->lock);
	delay = eyes->delay;
	eyes->delay = (struct eyes_delay){ .n_late = 0 };
	(void)pthread_mutex_unlock(&eyes->lock);
	return delay;
}

bool eyes_sample(struct eyes *eyes, uint32_t slot, uint64_t seq, struct sample *ret)
{
	(void)pthread_mutex_lock(&eyes->lock);

	bool newer = slot < eyes->n && eyes->slots[slot].sample.seq > seq;

	if (newer)
		*ret = eyes->slots[slot].sample;
	if (newer)
		eyes->slots[slot].sample.complete = false;
	if (newer && seq)
		eyes->slots[slot].sample.checked = false;
	(void)pthread_mutex_unlock(&eyes->lock);
	return newer;
}

void eyes_set_period(struct eyes *eyes, uint32_t slot, uint64_t period_ns, bool calm)
{
	(void)pthread_mutex_lock(&eyes->lock);
	if (slot < eyes->n &&
	    (eyes->slots[slot].period_ns != period_ns || eyes->slots[slot].calm != calm)) {
		struct slot *s = &eyes->slots[slot];
		bool calmed = calm && !s->calm && !s->deep_now && !s->misses;
		uint64_t now = clock_mono_ns(), due;

		s->period_ns = period_ns;
		s->calm = calm;
		due = is_alert(s, now) ? next_due(s, now) : now + period_ns;
		if (s->due_ns > due || calmed)
			s->due_ns = due;
		(void)pthread_cond_signal(&eyes->wake);
	}
	(void)pthread_mutex_unlock(&eyes->lock);
}

void eyes_set_hint(struct eyes *eyes, bool on)
{
	(void)pthread_mutex_lock(&eyes->lock);
	eyes->hint = on;
	(void)pthread_mutex_unlock(&eyes->lock);
}

void eyes_set_watched(struct eyes *eyes, bool on)
{
	(void)pthread_mutex_lock(&eyes->lock);
	if (eyes->watched != on)
		(void)pthread_cond_signal(&eyes->wake);
	eyes->watched = on;
	(void)pthread_mutex_unlock(&eyes->lock);
}

void eyes_figures(struct eyes *eyes, uint32_t slot, struct gpu_look *look)
{
	(void)pthread_mutex_lock(&eyes->lock);
	if (slot < eyes->n)
		take_figures(look, &eyes->slots[slot].sample.look);
	(void)pthread_mutex_unlock(&eyes->lock);
}

bool eyes_health(struct eyes *eyes, uint32_t slot, uint64_t *seq, struct gpu_health *ret)
{
	(void)pthread_mutex_lock(&eyes->lock);

	bool newer = slot < eyes->n && eyes->slots[slot].health_seq > *seq;

	if (newer) {
		*ret = eyes->slots[slot].health;
		*seq = eyes->slots[slot].health_seq;
	}
	(void)pthread_mutex_unlock(&eyes->lock);
	return newer;
}

void eyes_look_now(struct eyes *eyes, uint32_t slot)
{
	(void)pthread_mutex_lock(&eyes->lock);
	if (slot < eyes->n) {
		note_late(eyes, &eyes->slots[slot], clock_mono_ns());
		eyes->slots[slot].deep_now = true;
		eyes->slots[slot].due_ns = 0;
		(void)pthread_cond_signal(&eyes->wake);
	}
	(void)pthread_mutex_unlock(&eyes->lock);
}

void eyes_errors_now(struct eyes *eyes)
{
	(void)pthread_mutex_lock(&eyes->lock);
	eyes->errors_ns = 0;
	(void)pthread_cond_signal(&eyes->wake);
	(void)pthread_mutex_unlock(&eyes->lock);
}

bool eyes_next_error(struct eyes *eyes, struct eyes_error *ret)
{
	(void)pthread_mutex_lock(&eyes->lock);

	bool any = eyes->n_errors > 0;

	if (any) {
		*ret = eyes->error[0];
		eyes->n_errors--;
		(void)memmove(eyes->error, eyes->error + 1,
			      eyes->n_errors * sizeof(eyes->error[0]));
	}
	(void)pthread_mutex_unlock(&eyes->lock);
	return any;
}

uint64_t eyes_look_began_ns(const struct eyes *eyes)
{
	return atomic_load(&eyes->look_began_ns);
}
