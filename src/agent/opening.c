/* SPDX-License-Identifier: MIT */
#include "agent/opening.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/queue/dirwatch.h"
#include "agent/queue/heartbeat.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "spool/heartbeat.h"
#include "spool/instance.h"
#include "spool/lane.h"
#include "spool/recover.h"
#include "task/adopt.h"
#include "task/cgroup.h"
#include "task/names.h"

#define RECORD_MAX   65536
#define VOID_LIFE_NS (24 * 3600 * NS_PER_S)

/* What the calls of recovery are about. */
struct finder {
	struct opening *o;
	struct spool_place *place;
	const struct text_list *dead; /* of opening_reclaim() */
};

/* What a verdict is about: an empty claim may have been filled since it was judged. */
static char *judged_name(const struct claim *c)
{
	return xasprintf("%s%s", c->path, c->who.agent[0] ? "" : HEARTBEAT_EMPTY);
}

/* It cannot be told now whether anything of it runs: nothing is decided, and it is asked again. */
static enum liveness not_known(struct finder *f, const struct claim *c, const char *why)
{
	if (!f->o->again)
		strbuf_addf(&f->o->notes, "task %llu: %s; looking again\n",
			    (unsigned long long)c->name.id, why);
	cleanup_free char *judged = judged_name(c);

	text_list_add(&f->o->unknown, judged);
	return LIVENESS_UNKNOWN;
}

/* The record that a shim left in the spool becomes one of ours, if there is one. */
static enum liveness import_end(struct finder *f, const struct claim *c)
{
	char path[SPOOL_PATH_MAX];
	cleanup_free char *text = NULL;
	struct task_record r;
	struct err e = ERR_INIT;
	size_t len;
	int code = spool_read(f->place->spool, beat_end_path(&c->name, path), RECORD_MAX, &text,
			      &len, &e);

	/* It may have come after a look of ours that is still believed. */
	if (code == -ENOENT) {
		int listed = spool_lists(f->place->spool, SPOOL_AGENTS, strrchr(path, '/') + 1, &e);

		return listed ? not_known(f, c,
					  listed < 0 ? e.text
						     : "the record of its end cannot be read yet")
			      : LIVENESS_DEAD;
	}
	if (spool_is_bad(code) || (code == 0 && record_parse(text, len, &r, &e) < 0)) {
		strbuf_addf(&f->o->notes, "task %llu: the record of its end is in bad/: %s\n",
			    (unsigned long long)c->name.id, e.text);
		(void)spool_refuse(f->place->spool, path, e.text, NULL);
		return LIVENESS_DEAD;
	}
	if (code == 0) {
		(void)names_token(f->o->key, &c->name, r.token);
		code = record_write(f->o->run_dir, &r, false, &e);
	}
	return code < 0 ? not_known(f, c, e.text) : LIVENESS_ALIVE;
}

static bool is_of_this_boot(const struct finder *f, const struct claim *c)
{
	return strcmp(c->who.boot, spool_boot(f->place->spool)) == 0;
}

/*
 * What the shim of a claim left: its process, its record, or the task's processes, which whoever
 * adopts it ends while the queue goes on. Whose the claim is does not matter: every agent of a
 * spool gives a shim the same name.
 */
static enum liveness look_for_shim(struct finder *f, const struct claim *c)
{
	struct shim_id id = { .boot_id = "" };
	struct err e = ERR_INIT;
	char token[TASK_TOKEN_MAX];
	struct adopted found;
	int left;

	if (c->started && is_of_this_boot(f, c))
		id.proc = c->who.proc;
	(void)names_token(f->o->key, &c->name, token);
	if (adopt_settle(token, &id, f->o->run_dir, &found, &e) < 0)
		return not_known(f, c, e.text);
	(void)fd_close(found.fd);
	if (found.bad_record)
		strbuf_addf(&f->o->notes,
			    "task %llu: the record of its end cannot be read; it is kept as "
			    "%s/%s" RECORD_BAD_END "\n",
			    (unsigned long long)c->name.id, f->o->run_dir, token);
	if (found.found == ADOPT_OTHER)
		return not_known(f, c, "a process that is not its shim has its name");
	if (found.found != ADOPT_LOST)
		return LIVENESS_ALIVE;
	left = orphans_count(token);
	if (left < 0) {
		(void)err_sys(&e, -left, "look for its processes");
		return not_known(f, c, e.text);
	}
	return left ? LIVENESS_ALIVE : import_end(f, c);
}

/* An agent with another name that lives, or may, speaks for its own claims. */
static bool is_anothers(const struct finder *f, const struct claim *c)
{
	char path[SPOOL_PATH_MAX];
	struct beat b;

	return strcmp(c->who.agent, f->place->self.agent) != 0 &&
	       beat_read(f->place->spool, beat_agent_path(c->who.agent, path), &b, NULL, NULL) ==
		       0 &&
	       !b.ended && recover_life_here(f->place->spool, &b.who) != LIVENESS_DEAD;
}

/* What a claim that was judged dead left on this node; of others only the record can be seen. */
static enum liveness look_behind(struct finder *f, const struct claim *c)
{
	bool ours = strcmp(c->who.agent, f->place->self.agent) == 0;

	return ours || is_of_this_boot(f, c) ? look_for_shim(f, c) : import_end(f, c);
}

static int is_other(void *data, const char *agent)
{
	return strcmp(agent, ((const struct finder *)data)->place->self.agent) != 0;
}

/*
 * The claim's process is the shim, or the agent where the shim was not noted yet; both may be gone
 * and the shim's record there, which is to be filed. What only its children are left of is ended.
 */
static enum liveness life_of(void *data, const struct claim *c)
{
	struct finder *f = data;
	enum liveness life = recover_life_here(f->place->spool, &c->who);
	bool ours = strcmp(c->who.agent, f->place->self.agent) == 0;

	/* Somebody may be writing it; whether he lives is judged by the looks that follow. */
	if (!c->who.agent[0])
		return beat_each_agent(f->place->spool, is_other, f, NULL) == 0
			       ? look_for_shim(f, c)
			       : LIVENESS_UNKNOWN;
	if (recover_taken_over(c, f->place->self.agent))
		return look_behind(f, c);
	if (is_anothers(f, c))
		return LIVENESS_UNKNOWN;
	if (life == LIVENESS_ALIVE && c->started)
		return LIVENESS_ALIVE;
	/* Of an earlier boot of this node, or an agent that is just ending: nobody else has our
	 * name. */
	if (!ours && life != LIVENESS_DEAD)
		return LIVENESS_UNKNOWN;
	return look_for_shim(f, c);
}

static bool is_listed(const struct text_list *list, const char *text)
{
	for (size_t i = 0; list && i < list->n; i++)
		if (strcmp(list->texts[i], text) == 0)
			return true;
	return false;
}

static enum liveness life_of_dead(void *data, const struct claim *c)
{
	struct finder *f = data;
	cleanup_free char *judged = judged_name(c);
	cleanup_free char *unjudged = xasprintf("%s" HEARTBEAT_UNJUDGED, c->path);

	if (is_listed(f->dead, judged))
		return look_behind(f, c);
	return is_listed(f->dead, unjudged) ? life_of(f, c) : LIVENESS_UNKNOWN;
}

/* What was judged already is not judged anew: its holder was silent for long enough. */
static void failed_one(void *data, const char *path)
{
	struct finder *f = data;
	cleanup_free char *empty = xasprintf("%s" HEARTBEAT_EMPTY, path);
	cleanup_free char *unjudged = xasprintf("%s" HEARTBEAT_UNJUDGED, path);

	text_list_add(&f->o->unknown, is_listed(f->dead, path)	  ? path
				      : is_listed(f->dead, empty) ? empty
								  : unjudged);
}

static void adopt_one(void *data, const struct claim *c, const struct spool_spec *spec)
{
	struct finder *f = data;
	struct opening *o = f->o;

	o->all = xrealloc(o->all, o->n + 1, sizeof(*o->all));
	o->all[o->n++] = (struct adoptee){ .claim = *c,
					   .tries = c->attempt ? c->attempt - 1 : 0,
					   .spec = spec ? spec_for_element(spec, 0) : NULL,
					   .elsewhere = c->who.boot[0] && !is_of_this_boot(f, c) };
	/* A process of another boot is none of ours. */
	o->all[o->n - 1].claim.started = c->started && is_of_this_boot(f, c);
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
	int r = spool_open(o->root, o->instance, o->trust, SPOOL_CREATE, &p->spool, &o->e);

	if (r == 0)
		r = name_spool(o, p->spool);
	if (r == 0)
		r = claimer_self(p->spool, o->agent, &p->self, &o->e);
	if (r == 0)
		r = endlog_open(p->spool, o->agent, &p->events, &o->e);
	if (r == 0)
		r = fs_mkdirs(o->run_dir, 0700, &o->e);
	if (r == 0)
		record_clear_voids(o->run_dir, VOID_LIFE_NS);
	return r;
}

bool opening_claim_name(const char *unknown, struct task_name *ret)
{
	cleanup_free char *path = xstrdup(unknown);
	char *unjudged = strstr(path, HEARTBEAT_UNJUDGED);

	path[unjudged ? (size_t)(unjudged - path) : strcspn(path, HEARTBEAT_EMPTY)] = '\0';

	const char *slash = strrchr(path, '/');

	return slash && name_parse(slash + 1, ret);
}

/* Which lane they are in, and whether that one has a limit, is known of their batches. */
static void name_unknown(struct opening *o, const struct scan *s)
{
	o->unsure = xcalloc(o->unknown.n + 1, sizeof(*o->unsure));
	for (size_t i = 0; i < o->unknown.n; i++) {
		struct task_name *n = &o->unsure[o->n_unsure], claim;
		const struct scan_task *batch;

		if (!opening_claim_name(o->unknown.texts[i], &claim))
			continue;
		batch = claim.element ? scan_find(s, claim.id, 0) : NULL;
		*n = batch ? batch->name : claim;
		n->element = claim.element;
		o->n_unsure++;
	}
}

/* Those that cannot be read now keep what they have, and are looked at again. */
static void fill_all(struct finder *f)
{
	struct opening *o = f->o;
	struct scan *s = scan_new(f->place->spool, 0);
	struct err e = ERR_INIT;
	int seen = scan_update(s, NULL, NULL, &e);
	size_t kept = 0;

	for (size_t i = 0; i < o->n; i++) {
		struct adoptee *a = &o->all[i];

		if (seen == 0 && adoptee_fill(a, f->place->spool, s, &e) == 0) {
			o->all[kept++] = *a;
			continue;
		}
		(void)not_known(f, &a->claim, e.text);
		adoptee_clear(a);
	}
	o->n = kept;
	name_unknown(o, s);
	scan_free(s);
}

static void found_lane(void *data, const char *key)
{
	text_list_add(&((struct opening *)data)->lanes, key);
}

void opening_work(struct opening *o, struct spool_place *p)
{
	struct finder f = { .o = o, .place = p };
	struct recover_calls calls = { .life = life_of,
				       .adopt = adopt_one,
				       .failed = failed_one,
				       .tell = tell_one,
				       .data = &f };
	cleanup_free char *pending = NULL;
	struct recover_counts counts;

	o->code = open_place(o, p);
	if (o->code == 0)
		o->code = recover_run(p->spool, &p->self, p->events, &calls, &counts, &o->e);
	if (o->code == 0)
		o->code = lane_each_of(p->spool, o->agent, found_lane, o, &o->e);
	if (o->code < 0) {
		p->events = endlog_close(p->events);
		p->spool = spool_close(p->spool);
		return;
	}
	fill_all(&f);
	if (cgroup_find(&o->cgroup) == 0)
		cgroup_clear(o->cgroup);
	p->scan = scan_new(p->spool, SCAN_RAW);
	pending = xasprintf("%s/%s", spool_path_of(p->spool), spool_dir_name(SPOOL_PENDING));
	(void)dirwatch_add(o->watch_fd, pending); /* before it is read */
}

void opening_reclaim(struct opening *o, struct spool_place *p, const struct text_list *dead)
{
	struct finder f = { .o = o, .place = p, .dead = dead };
	struct recover_calls calls = { .life = life_of_dead,
				       .adopt = adopt_one,
				       .failed = failed_one,
				       .tell = tell_one,
				       .data = &f };
	struct recover_counts counts;

	o->code = recover_claims(p->spool, &p->self, p->events, &calls, &counts, &o->e);
	fill_all(&f);
}

void opening_clear(struct opening *o)
{
	for (size_t i = 0; i < o->n; i++)
		adoptee_clear(&o->all[i]);
	free(o->all);
	text_list_clear(&o->lanes);
	text_list_clear(&o->unknown);
	free(o->unsure);
	free(o->cgroup);
	strbuf_clear(&o->notes);
}
