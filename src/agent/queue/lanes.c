/* SPDX-License-Identifier: MIT */
#include "agent/queue/lanes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "sched/queue.h"

#define KEEP_MS	  2000 /* a lane's next task comes at once, if there is one that can start */
#define BLOCK_MS  3000 /* then the plan may try again */
#define BLOCK_MAX 256

/* The epochs of what is ours belong to the spooler's jobs. */
struct place_lane {
	struct place_lane *next;
	char key[LANE_KEY_MAX];
	uint64_t epoch;
};

struct lanes_owner {
	struct lanes_owner *next;
	char key[LANE_KEY_MAX];
	bool ours;	   /* or blocked: another agent has it */
	uint64_t since_ns; /* blocked, or idle; 0: it is in use */
};

/* ---- on the spooler's thread ---- */

static struct place_lane *epoch_of(struct spool_place *p, const char *key)
{
	struct place_lane *l = p->lanes;

	while (l && strcmp(l->key, key) != 0)
		l = l->next;
	if (l)
		return l;
	l = xcalloc(1, sizeof(*l));
	(void)str_copy(l->key, sizeof(l->key), key);
	l->epoch = LANE_NONE;
	l->next = p->lanes;
	p->lanes = l;
	return l;
}

static void forget_epoch(struct spool_place *p, const char *key)
{
	for (struct place_lane **l = &p->lanes; *l; l = &(*l)->next)
		if (strcmp((*l)->key, key) == 0) {
			struct place_lane *gone = *l;

			*l = gone->next;
			free(gone);
			return;
		}
}

void lanes_forget_epochs(struct spool_place *p)
{
	while (p->lanes)
		forget_epoch(p, p->lanes->key);
}

static int take_one(struct spool_place *p, const char *key, struct lanes_met *m, char *ret_key,
		    struct err *e)
{
	struct place_lane *l = epoch_of(p, key);
	int r = lane_take(p->spool, key, p->self.agent, &l->epoch, m->owner, e);

	if (r <= 0) /* after an error its file may name us all the same: it is let go of */
		(void)str_copy(ret_key, LANE_KEY_MAX, key);
	if (r != 0)
		forget_epoch(p, key);
	if (r == LANE_ELSEWHERE)
		(void)str_copy(m->blocked, sizeof(m->blocked), key);
	return r;
}

int lanes_claim(struct spool_place *p, const struct task_name *n, struct lanes_met *m,
		struct err *e)
{
	char array[LANE_KEY_MAX];
	int r = 0;

	*m = (struct lanes_met){ .id = n->id };
	if (n->lane[0])
		r = take_one(p, n->lane, m, m->keys[0], e);
	if (r == 0 && n->flags & NAME_LIMIT)
		r = take_one(p, lane_of_array(n->id, array), m, m->keys[1], e);
	return r;
}

struct release_job {
	struct spool_job job;
	char key[LANE_KEY_MAX];
	int code;
};

static void release_work(struct spool_job *job, struct spool_place *p)
{
	struct release_job *r = (struct release_job *)job;
	struct place_lane *l = epoch_of(p, r->key);
	char owner[NAME_AGENT_MAX + 1];
	uint64_t id;
	bool gone =
		r->key[0] == '%' && str_to_u64(r->key + 1, &id) == 0 && !scan_find(p->scan, id, 0);

	/* Found after a restart: it is ours, and its epoch is not known yet. */
	r->code = lane_take(p->spool, r->key, p->self.agent, &l->epoch, owner, NULL);
	if (r->code == 0)
		r->code = lane_release(p->spool, r->key, p->self.agent, l->epoch, gone, NULL);
	else if (r->code == LANE_ELSEWHERE && !owner[0]) /* whose it is could not be seen */
		r->code = -EAGAIN;
	forget_epoch(p, r->key);
}

/* ---- on the loop ---- */

static void plan_again(const struct lanes *lanes)
{
	if (lanes->changed)
		lanes->changed(lanes->user);
}

static struct lanes_owner *entry_of(struct lanes *lanes, const char *key)
{
	struct lanes_owner *l = lanes->owners;

	while (l && strcmp(l->key, key) != 0)
		l = l->next;
	if (l)
		return l;
	l = xcalloc(1, sizeof(*l));
	(void)str_copy(l->key, sizeof(l->key), key);
	l->next = lanes->owners;
	lanes->owners = l;
	return l;
}

/* Nothing of it is planned for that reason; NULL: it is again. */
static void block(struct lanes *lanes, const char *key, const char *why)
{
	uint64_t id;

	if (key[0] == '%' && str_to_u64(key + 1, &id) == 0)
		sched_array_block(lanes->plan, id, why);
	else
		sched_lane_block(lanes->plan, sched_lane(lanes->plan, key), why);
}

void lanes_found(struct lanes *lanes, const char *key)
{
	struct lanes_owner *l = entry_of(lanes, key);

	/* An earlier claim of the same plan may have met its last owner. */
	if (!l->ours) {
		block(lanes, key, NULL);
		plan_again(lanes);
	}
	l->ours = true;
	l->since_ns = clock_mono_ns();
}

void lanes_met(struct lanes *lanes, const struct lanes_met *m)
{
	char why[BLOCK_MAX];

	for (size_t i = 0; i < ARRAY_LEN(m->keys); i++)
		if (m->keys[i][0])
			lanes_found(lanes, m->keys[i]);
	if (!m->blocked[0])
		return;

	struct lanes_owner *l = entry_of(lanes, m->blocked);

	l->ours = false;
	l->since_ns = clock_mono_ns();
	block(lanes, l->key,
	      m->owner[0] ? str_print(why, sizeof(why),
				      "the agent %s starts them, one node at a time", m->owner)
			  : "another node takes it just now");
}

static bool is_used(const struct lanes *lanes, const struct lanes_owner *l)
{
	uint32_t lane = l->key[0] == '%' ? 0 : sched_lane(lanes->plan, l->key);
	uint64_t id = 0;

	if (!lane)
		(void)str_to_u64(l->key + 1, &id);
	return lanes->runs && lanes->runs(lanes->user, lane, id);
}

/* Its file may name us still, and then no other agent starts anything of it: once more. */
static void release_done(struct spool_job *job)
{
	struct release_job *r = (struct release_job *)job;

	if (r->code < 0)
		lanes_found(job->user, r->key);
	free(r);
}

static void release(struct lanes *lanes, const char *key)
{
	struct release_job *j = xcalloc(1, sizeof(*j));

	(void)str_copy(j->key, sizeof(j->key), key);
	j->job = (struct spool_job){ .work = release_work, .done = release_done, .user = lanes };
	spooler_do(lanes->spooler, &j->job);
}

/* False: it is done with. */
static bool look_at(struct lanes *lanes, struct lanes_owner *l, uint64_t now)
{
	uint64_t limit_ms = l->ours ? KEEP_MS : BLOCK_MS;

	if (l->ours && is_used(lanes, l)) {
		l->since_ns = 0;
		return true;
	}
	l->since_ns = l->since_ns ? l->since_ns : now;
	if (now - l->since_ns < limit_ms * NS_PER_MS)
		return true;
	if (l->ours) {
		release(lanes, l->key);
	} else {
		block(lanes, l->key, NULL);
		plan_again(lanes);
	}
	return false;
}

void lanes_look(struct lanes *lanes)
{
	uint64_t now = clock_mono_ns();

	for (struct lanes_owner **l = &lanes->owners; *l;) {
		struct lanes_owner *one = *l;

		if (look_at(lanes, one, now)) {
			l = &one->next;
			continue;
		}
		*l = one->next;
		free(one);
	}
}

/* ---- pauses, as the planner was told of them ---- */

static size_t find_text(const struct text_list *list, const char *text)
{
	size_t i = 0;

	while (i < list->n && strcmp(list->texts[i], text) != 0)
		i++;
	return i;
}

bool lanes_pause(struct lanes *lanes, const char *lane, const char *reason)
{
	size_t i = find_text(&lanes->paused, lane);

	if (i < lanes->paused.n && strcmp(lanes->reasons.texts[i], reason) == 0)
		return false;
	sched_lane_pause(lanes->plan, sched_lane(lanes->plan, lane), reason);
	if (i < lanes->paused.n) {
		free(lanes->reasons.texts[i]);
		lanes->reasons.texts[i] = xstrdup(reason);
		return false;
	}
	text_list_add(&lanes->paused, lane);
	text_list_add(&lanes->reasons, reason);
	return true;
}

bool lanes_set_paused(struct lanes *lanes, const struct text_list *paused,
		      const struct text_list *reasons)
{
	struct text_list old = lanes->paused, old_reasons = lanes->reasons;
	bool changed = false;

	lanes->paused = lanes->reasons = (struct text_list){ 0 };
	for (size_t i = 0; i < old.n; i++)
		if (find_text(paused, old.texts[i]) == paused->n) {
			sched_lane_pause(lanes->plan, sched_lane(lanes->plan, old.texts[i]), NULL);
			changed = true;
		}
	for (size_t i = 0; i < paused->n; i++) {
		const char *lane = paused->texts[i], *reason = reasons->texts[i];
		size_t k = find_text(&old, lane);

		text_list_add(&lanes->paused, lane);
		text_list_add(&lanes->reasons, reason);
		if (k < old.n && strcmp(old_reasons.texts[k], reason) == 0)
			continue;
		sched_lane_pause(lanes->plan, sched_lane(lanes->plan, lane), reason);
		changed = true;
	}
	text_list_clear(&old);
	text_list_clear(&old_reasons);
	return changed;
}

/* ---- failures in a row ---- */

struct lanes_streak {
	struct lanes_streak *next;
	char lane[SPEC_NAME_MAX + 1]; /* "": the task of that id */
	uint64_t id;
	struct retry_streak streak;
};

struct retry_streak *lanes_streak(struct lanes *lanes, const char *lane, uint64_t id)
{
	struct lanes_streak *s = lanes->streaks;

	lane = lane ? lane : "";
	while (s && (strcmp(s->lane, lane) != 0 || (!lane[0] && s->id != id)))
		s = s->next;
	if (!s) {
		s = xcalloc(1, sizeof(*s));
		(void)str_copy(s->lane, sizeof(s->lane), lane);
		s->id = id;
		s->next = lanes->streaks;
		lanes->streaks = s;
	}
	return &s->streak;
}

void lanes_streak_drop(struct lanes *lanes, uint64_t id)
{
	for (struct lanes_streak **s = &lanes->streaks; *s; s = &(*s)->next)
		if (!(*s)->lane[0] && (*s)->id == id) {
			struct lanes_streak *gone = *s;

			*s = gone->next;
			free(gone);
			return;
		}
}

void lanes_clear(struct lanes *lanes)
{
	while (lanes->owners) {
		struct lanes_owner *gone = lanes->owners;

		lanes->owners = gone->next;
		free(gone);
	}
	while (lanes->streaks) {
		struct lanes_streak *gone = lanes->streaks;

		lanes->streaks = gone->next;
		free(gone);
	}
	text_list_clear(&lanes->paused);
	text_list_clear(&lanes->reasons);
}
