/* SPDX-License-Identifier: MIT */
#include "agent/opening.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/remains.h"
#include "agent/runjob.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "spool/beat.h"
#include "spool/key.h"
#include "spool/laneowner.h"
#include "spool/recover.h"
#include "task/cgroup.h"

#define ORPHAN_GRACE_MS 10000 /* of a task whose shim was killed while no agent was there */
#define RECORD_MAX	65536
#define VOID_LIFE_NS	(24 * 3600 * NS_PER_S)

/* What the calls of recovery are about. */
struct finder {
	struct opening *o;
	struct spool_place *place;
	const struct text_list *dead; /* of opening_reclaim() */
};

/* What the shim of a claim of this node left: its process, its record, or the task's processes. */
static enum recover_life look_for_shim(struct finder *f, const struct claim *c)
{
	struct err e = ERR_INIT;
	char token[TASK_TOKEN_MAX];
	struct adopted found;

	(void)runjob_token(f->o->key, &c->name, token);
	if (remains_find(token, &(struct shim_id){ 0 }, f->o->run_dir, ORPHAN_GRACE_MS, &found,
			 &e) < 0) {
		strbuf_addf(&f->o->notes, "task %llu: %s\n", (unsigned long long)c->name.id,
			    e.text);
		return RECOVER_UNKNOWN;
	}
	(void)fd_close(found.fd);
	return found.found == ADOPT_LIVES || found.found == ADOPT_ENDED ? RECOVER_ALIVE
									: RECOVER_DEAD;
}

/* An agent of this node with another name (other devices) speaks for its own claims. */
static bool is_anothers(const struct finder *f, const struct claim *c)
{
	char path[SPOOL_PATH_MAX];
	struct beat b;

	return strcmp(c->who.agent, f->place->self.agent) != 0 &&
	       beat_read(f->place->spool, beat_agent_path(c->who.agent, path), &b, NULL, NULL) ==
		       0 &&
	       strcmp(b.who.boot, f->place->spool->boot) == 0 && !b.ended &&
	       proc_alive(&b.who.proc);
}

/*
 * The claim's process is the shim, or the agent where the shim was not noted yet; both may be gone
 * and the shim's record there, which is to be filed. What only its children are left of is ended.
 */
static enum recover_life life_of(void *data, const struct claim *c)
{
	struct finder *f = data;
	enum recover_life life = recover_life_here(f->place->spool, &c->who);
	bool ours = strcmp(c->who.agent, f->place->self.agent) == 0;

	if (is_anothers(f, c))
		return RECOVER_UNKNOWN;
	/* Of an earlier boot of this node: nobody else has our name. */
	if (ours && life == RECOVER_UNKNOWN)
		life = RECOVER_DEAD;
	if ((c->who.proc.pid && life != RECOVER_DEAD) || !ours)
		return life;
	return look_for_shim(f, c);
}

/* The record that a shim of another node left in the spool becomes one of ours. */
static bool import_end(struct finder *f, const struct claim *c)
{
	char path[SPOOL_PATH_MAX];
	cleanup_free char *text = NULL;
	struct task_record r;
	struct err e = ERR_INIT;
	size_t len;
	int code = spool_read(f->place->spool, beat_end_path(&c->name, path), RECORD_MAX, &text,
			      &len, &e);

	if (code == -ENOENT)
		return false;
	if (code == 0)
		code = record_parse(text, len, &r, &e);
	if (code == 0) {
		(void)runjob_token(f->o->key, &c->name, r.token);
		code = record_write(f->o->run_dir, &r, false, &e);
	}
	if (code < 0)
		strbuf_addf(&f->o->notes, "task %llu: the record of its end: %s\n",
			    (unsigned long long)c->name.id, e.text);
	return code == 0;
}

static enum recover_life life_of_dead(void *data, const struct claim *c)
{
	struct finder *f = data;

	for (size_t i = 0; i < f->dead->n; i++) {
		if (strcmp(f->dead->texts[i], c->path) != 0)
			continue;
		if (strcmp(c->who.boot, f->place->spool->boot) == 0)
			return look_for_shim(f, c);
		return import_end(f, c) ? RECOVER_ALIVE : RECOVER_DEAD;
	}
	return RECOVER_UNKNOWN;
}

static void adopt_one(void *data, const struct claim *c, const struct spool_spec *spec)
{
	struct opening *o = ((struct finder *)data)->o;

	o->all = xrealloc(o->all, o->n + 1, sizeof(*o->all));
	o->all[o->n++] = (struct adoptee){ .claim = *c,
					   .tries = c->attempt ? c->attempt - 1 : 0,
					   .spec = spec ? spec_for_element(spec, 0) : NULL };
}

static void tell_one(void *data, const char *text)
{
	strbuf_addf(&((struct finder *)data)->o->notes, "%s\n", text);
}

static int name_spool(struct opening *o, const struct spool *sp)
{
	char key[SPOOL_KEY_MAX];
	int r = spool_key(sp, key, &o->e);

	if (r == 0)
		(void)str_print(o->key, sizeof(o->key), "%s.%s", o->instance, key);
	return r;
}

static int open_place(struct opening *o, struct spool_place *p)
{
	int r = spool_open(o->root, o->instance, SPOOL_CREATE, &p->spool, &o->e);

	if (r == 0)
		r = name_spool(o, p->spool);
	if (r == 0)
		r = claimer_self(p->spool, o->agent, &p->self, &o->e);
	if (r == 0)
		r = events_open(p->spool, o->agent, &p->events, &o->e);
	if (r == 0)
		r = fs_mkdirs(o->run_dir, 0700, &o->e);
	if (r == 0)
		record_clear_voids(o->run_dir, VOID_LIFE_NS);
	return r;
}

/* An element that was tried before may ask for more than its batch. */
static void find_memory(const struct spool *sp, const struct task_name *n, struct adoptee *a)
{
	struct batch *b = NULL;
	const struct batch_again *again;

	if (a->claim.name.epoch == 0 || batch_open(sp, n, NULL, &b, NULL) < 0)
		return;
	again = batch_again_of(b, a->claim.name.element);
	if (again && again->memory)
		a->spec->memory = again->memory;
	(void)batch_close(b);
}

/* Of elements recovery knows no spec: it is their batch's. */
static void find_specs(struct opening *o, struct spool_place *p)
{
	struct scan *s = scan_new(p->spool, 0);
	char path[SPOOL_PATH_MAX], file[NAME_FILE_MAX];

	(void)scan_update(s, NULL, NULL, NULL);
	for (size_t i = 0; i < o->n; i++) {
		struct adoptee *a = &o->all[i];
		const struct scan_task *t = scan_find(s, a->claim.name.id, 0);
		struct task_file read;

		if (a->spec || !t)
			continue;
		(void)spool_path(t->dir, name_format(&t->name, file), path);
		if (task_file_read(p->spool, path, &read, NULL) < 0)
			continue;
		a->spec = spec_for_element(read.spec, a->claim.name.element);
		find_memory(p->spool, &t->name, a);
		task_file_clear(&read);
	}
	scan_free(s);
}

static void found_lane(void *data, const char *key)
{
	text_list_add(&((struct opening *)data)->lanes, key);
}

void opening_work(struct opening *o, struct spool_place *p)
{
	struct finder f = { .o = o, .place = p };
	struct recover_calls calls = {
		.life = life_of, .adopt = adopt_one, .tell = tell_one, .data = &f
	};
	struct recover_counts counts;

	o->code = open_place(o, p);
	if (o->code == 0)
		o->code = recover_run(p->spool, &p->self, p->events, &calls, &counts, &o->e);
	if (o->code < 0) {
		p->events = events_close(p->events);
		p->spool = spool_close(p->spool);
		return;
	}
	find_specs(o, p);
	(void)lane_each_of(p->spool, o->agent, found_lane, o, NULL);
	if (cgroup_find(&o->cgroup) == 0)
		cgroup_clear(o->cgroup);
	p->scan = scan_new(p->spool, SCAN_RAW);
	o->pending = xasprintf("%s/pending", p->spool->path);
}

void opening_reclaim(struct opening *o, struct spool_place *p, const struct text_list *dead)
{
	struct finder f = { .o = o, .place = p, .dead = dead };
	struct recover_calls calls = {
		.life = life_of_dead, .adopt = adopt_one, .tell = tell_one, .data = &f
	};
	struct recover_counts counts;

	o->code = recover_claims(p->spool, &p->self, p->events, &calls, &counts, &o->e);
	find_specs(o, p);
}

void opening_clear(struct opening *o)
{
	for (size_t i = 0; i < o->n; i++)
		spec_free(o->all[i].spec);
	free(o->all);
	free(o->pending);
	text_list_clear(&o->lanes);
	free(o->cgroup);
	strbuf_clear(&o->notes);
}
