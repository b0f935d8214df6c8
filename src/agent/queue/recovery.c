/* SPDX-License-Identifier: MIT */
#include "agent/queue/recovery.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/queue/learning.h"
#include "agent/queue/planview.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "spool/batch.h"
#include "spool/heartbeat.h"
#include "spool/instance.h"
#include "spool/lane.h"
#include "spool/recover.h"
#include "task/adopt.h"
#include "task/cgroup.h"
#include "task/claim_names.h"
#include "task/orphans.h"

#define RECORD_MAX    65536
#define VOID_LIFE_NS  (24 * 3600 * NS_PER_S)
#define OPEN_AGAIN_MS 5000  /* the disk may come, or become writable */
#define LOOK_FIRST_MS 1000  /* what could not be told is looked at again after this, ... */
#define LOOK_LAST_MS  60000 /* ... twice as long each time, and this at most */
#define KEY_MAX	      (SPEC_NAME_MAX + 64)
#define NOWHERE	      "unknown" /* the name of a task whose description is gone */

/* One that counts as running in the plan. */
struct unsettled {
	struct unsettled *next;
	struct sched_ref ref;
};

struct recovery {
	struct recovery_parts p;
	const struct recovery_ops *ops;
	void *user;
	uv_timer_t timer;	     /* opens the spool again, or looks at the unknown again */
	char key[KEY_MAX];	     /* of the spool, for names_token(); once it is open */
	char *cgroup;		     /* to make tasks' own ones in; NULL: none is delegated */
	struct dead_claims unknown;  /* claims of which it could not be told what they are */
	struct unsettled *unsettled; /* what they are for */
	uint64_t look_ms;
	struct finding *reclaiming; /* the job that takes claims; NULL: there is none */
	bool open, stopped;
};

/* What a job finds. */
struct finding {
	struct spool_job job;
	struct recovery *r;
	bool again;		 /* it was told before what cannot be told */
	struct dead_claims dead; /* that are taken over */
	char key[KEY_MAX];
	size_t n;
	struct adoptee *all;
	struct dead_claims unknown; /* that cannot be told now, or could not be brought on */
	size_t n_unsure;
	struct task_name *unsure; /* their names; of an element with what its batch's name says */
	struct text_list lanes;	  /* that are this agent's */
	struct strbuf notes;	  /* lines to be told */
	char *cgroup;
	int watch_fd; /* dirwatch_add(), for pending/ */
	struct err e; /* with code: there is no queue */
	int code;
};

/* ---- what a claim is, on the spooler's thread ---- */

/* What the calls of recovery are about. */
struct finder {
	struct finding *o;
	struct spool_place *place;
};

/* What a verdict is about: an empty claim may have been filled since it was judged. */
static enum dead_how judged_as(const struct claim *c)
{
	return c->who.agent[0] ? HOLDER_DEAD : CLAIM_NEVER_WRITTEN;
}

/* It cannot be told now whether anything of it runs: nothing is decided, and it is asked again. */
static enum liveness not_known(struct finder *f, const struct claim *c, const char *why)
{
	if (!f->o->again)
		strbuf_addf(&f->o->notes, "task %llu: %s; looking again\n",
			    (unsigned long long)c->name.id, why);
	dead_claims_add(&f->o->unknown, c->path, judged_as(c));
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
	int code = spool_read(f->place->spool, heartbeat_end_path(&c->name, path), RECORD_MAX,
			      &text, &len, &e);

	/* It may have come after a look of ours that is still believed. */
	if (code == -ENOENT) {
		int listed = spool_lists(f->place->spool, SPOOL_AGENTS, strrchr(path, '/') + 1, &e);

		return listed ? not_known(f, c,
					  listed < 0 ? e.text
						     : "the record of its end cannot be read yet")
			      : LIVENESS_DEAD;
	}
	if (spool_is_bad(code) || (code == 0 && end_record_parse(text, len, &r, &e) < 0)) {
		strbuf_addf(&f->o->notes, "task %llu: the record of its end is in bad/: %s\n",
			    (unsigned long long)c->name.id, e.text);
		(void)spool_refuse(f->place->spool, path, e.text, NULL);
		return LIVENESS_DEAD;
	}
	if (code == 0) {
		(void)names_token(f->o->key, &c->name, r.token);
		code = end_record_write(f->o->r->p.run_dir, &r, false, &e);
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
	if (adopt_settle(token, &id, f->o->r->p.run_dir, &found, &e) < 0)
		return not_known(f, c, e.text);
	(void)fd_close(found.fd);
	if (found.bad_record)
		strbuf_addf(&f->o->notes,
			    "task %llu: the record of its end cannot be read; it is kept as "
			    "%s/%s" RECORD_BAD_END "\n",
			    (unsigned long long)c->name.id, f->o->r->p.run_dir, token);
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
	struct heartbeat b;

	return strcmp(c->who.agent, f->place->self.agent) != 0 &&
	       heartbeat_read(f->place->spool, heartbeat_agent_path(c->who.agent, path), &b, NULL,
			      NULL) == 0 &&
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
		return heartbeat_each_agent(f->place->spool, is_other, f, NULL) == 0
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

static bool is_listed(const struct dead_claims *list, const char *path, enum dead_how how)
{
	for (size_t i = 0; i < list->n; i++)
		if (list->all[i].how == how && strcmp(list->all[i].path, path) == 0)
			return true;
	return false;
}

static enum liveness life_of_dead(void *data, const struct claim *c)
{
	struct finder *f = data;

	if (is_listed(&f->o->dead, c->path, judged_as(c)))
		return look_behind(f, c);
	return is_listed(&f->o->dead, c->path, OWN_UNJUDGED) ? life_of(f, c) : LIVENESS_UNKNOWN;
}

/* What was judged already is not judged anew: its holder was silent for long enough. */
static void failed_one(void *data, const char *path)
{
	struct finding *o = ((struct finder *)data)->o;
	enum dead_how how = HOLDER_DEAD;

	while (how < OWN_UNJUDGED && !is_listed(&o->dead, path, how))
		how++;
	dead_claims_add(&o->unknown, path, how);
}

static void adopt_one(void *data, const struct claim *c, const struct task_spec *spec)
{
	struct finder *f = data;
	struct finding *o = f->o;

	o->all = xrealloc(o->all, o->n + 1, sizeof(*o->all));
	o->all[o->n++] = (struct adoptee){ .claim = *c,
					   .tries = c->attempt ? c->attempt - 1 : 0,
					   .spec = spec ? spec_for_element(spec, 0) : NULL,
					   .elsewhere = c->who.boot[0] && !is_of_this_boot(f, c) };
	/* A process of another boot is none of ours. */
	o->all[o->n - 1].claim.started = c->started && is_of_this_boot(f, c);
}

/* When it has been filed, on_end_settle() finds that. */
static void end_one(void *data, const struct claim *c, const struct task_spec *spec,
		    const struct spool_end *end)
{
	struct finder *f = data;
	const struct on_end_by *by = &f->place->on_end;
	const struct on_end_facts facts = { .end = end,
					    .result = end->result == RESULT_CANCELLED ? "stopped"
										      : "lost" };
	struct err e = ERR_INIT;

	if (!spec_is_gang(spec) && on_end_is_wanted(by, spec) &&
	    on_end_promise(f->place->spool, by, spec, &c->name, &facts, &e) < 0)
		strbuf_addf(&f->o->notes,
			    "task %llu: the command that is to follow its end is not run: %s\n",
			    (unsigned long long)c->name.id, e.text);
}

static void tell_one(void *data, const char *text)
{
	strbuf_addf(&((struct finder *)data)->o->notes, "%s\n", text);
}

static int name_spool(struct finding *o, const struct spool *sp)
{
	char key[SPOOL_KEY_MAX];
	int r = spool_key(sp, key, &o->e);

	if (r == 0)
		(void)str_print(o->key, sizeof(o->key), "%s.%s", o->r->p.c->instance, key);
	return r;
}

static int open_place(struct finding *o, struct spool_place *p)
{
	const struct agent_config *c = o->r->p.c;
	int r = spool_open(c->root, c->instance, &c->trust, SPOOL_CREATE, &p->spool, &o->e);

	p->pool = c->pool;
	p->pool_only = c->pool_only;
	if (r == 0)
		r = name_spool(o, p->spool);
	if (r == 0)
		r = claimer_self(p->spool, o->r->p.agent, &p->self, &o->e);
	if (r == 0)
		p->on_end = (struct on_end_by){ .agent = o->r->p.agent,
						.instance = c->instance,
						.node = c->node_name ? c->node_name : p->self.host,
						.dir = spool_path_of(p->spool),
						.command = c->on_end };
	if (r == 0)
		r = endlog_open(p->spool, o->r->p.agent, &p->events, &o->e);
	if (r == 0)
		r = fs_mkdirs(o->r->p.run_dir, 0700, &o->e);
	if (r == 0)
		end_record_clear_voids(o->r->p.run_dir, VOID_LIFE_NS);
	return r;
}

static bool name_of(const struct dead_claim *claim, struct task_name *ret)
{
	const char *slash = strrchr(claim->path, '/');

	return slash && name_parse(slash + 1, ret);
}

/* Which lane they are in, and whether that one has a limit, is known of their batches. */
static void name_unknown(struct finding *o, const struct scan *s)
{
	o->unsure = xcalloc(o->unknown.n + 1, sizeof(*o->unsure));
	for (size_t i = 0; i < o->unknown.n; i++) {
		struct task_name *n = &o->unsure[o->n_unsure], claim;
		const struct scan_task *batch;

		if (!name_of(&o->unknown.all[i], &claim))
			continue;
		batch = claim.element ? scan_find(s, claim.id, 0) : NULL;
		*n = batch ? batch->name : claim;
		n->element = claim.element;
		o->n_unsure++;
	}
}

/* ---- what the spool says of one that is adopted ---- */

/* The file of a batch. */
struct batch_file {
	uint64_t id;
	struct task_name name;
	char path[SPOOL_PATH_MAX];
};

static int is_batch(void *data, const struct task_name *n, const char *dir)
{
	struct batch_file *f = data;
	char file[NAME_FILE_MAX];

	if (n->id != f->id || n->element || !n->count)
		return 0;
	f->name = *n;
	(void)str_print(f->path, sizeof(f->path), "%s/%s", dir, name_format(n, file));
	return 1;
}

/* It may have been stopped, or have ended, while one of its elements runs on. 1; 0: it is nowhere;
 * -errno. */
static int find_batch(const struct spool *sp, const struct scan *s, struct batch_file *f,
		      struct err *e)
{
	static const enum spool_dir dirs[] = { SPOOL_CANCELLED, SPOOL_FAILED, SPOOL_DONE };
	const struct scan_task *t = scan_find(s, f->id, 0);

	return t ? is_batch(f, &t->name, spool_dir_name(t->dir))
		 : scan_dirs(sp, dirs, ARRAY_LEN(dirs), is_batch, f, e);
}

/* An element that was tried before may ask for more than its batch. Its agent may have put it back
 * already, and its file stayed: what the next attempt is to ask for is not its own. */
static int find_memory(const struct spool *sp, const struct task_name *n, struct adoptee *a,
		       struct err *e)
{
	struct batch *b = NULL;
	uint64_t memory, epoch = a->claim.name.epoch;
	int r = epoch ? batch_open(sp, n, NULL, &b, e) : 0;

	memory = !b			 ? 0
		 : spec_is_gang(a->spec) ? batch_memory_most(b)
					 : batch_memory_in(b, a->claim.name.element, epoch);
	if (memory)
		a->spec->memory = memory;
	(void)batch_close(b);
	return r;
}

static int find_spec(struct adoptee *a, const struct spool *sp, const struct scan *s, struct err *e)
{
	struct batch_file f = { .id = a->claim.name.id };
	struct task_file read;
	int r = find_batch(sp, s, &f, e);

	if (r > 0)
		r = spool_confirm(sp, f.path, task_file_read(sp, f.path, &read, e), e);
	else if (r == 0)
		r = -ENOENT;
	if (r < 0)
		return r == -ENOENT || r == -EINVAL ? 0 : r;
	if (a->claim.name.element <= f.name.count) {
		a->spec = spec_for_element(read.spec, a->claim.name.element);
		r = find_memory(sp, &f.name, a, e);
	}
	task_file_clear(&read);
	return r;
}

int adoptee_fill(struct adoptee *a, const struct spool *sp, const struct scan *s, struct err *e)
{
	int r = claim_devices(sp, &a->claim, &a->devices, e);

	if (r == 0 && !a->spec)
		r = find_spec(a, sp, s, e);
	if (r == 0 && !a->spec) {
		a->spec = spec_new();
		a->spec->name = xstrdup(NOWHERE);
		a->spec->gpus = a->devices.n;
	}
	return r;
}

void adoptee_clear(struct adoptee *a)
{
	a->spec = spec_free(a->spec);
	text_list_clear(&a->devices);
}

/* Those that cannot be read now keep what they have, and are looked at again. */
static void fill_all(struct finder *f)
{
	struct finding *o = f->o;
	struct scan *s = scan_new(f->place->spool, 0);
	struct err e = ERR_INIT;
	int seen = scan_update(s, NULL, NULL, &e);
	size_t kept = 0;

	for (size_t i = 0; i < o->n; i++) {
		struct adoptee *a = &o->all[i];

		if (seen == 0 && adoptee_fill(a, f->place->spool, s, &e) == 0) {
			learning_fill(f->place, a->spec); /* about what it was started with */
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
	text_list_add(&((struct finding *)data)->lanes, key);
}

static void open_work(struct spool_job *job, struct spool_place *p)
{
	struct finding *o = (struct finding *)job;
	struct finder f = { .o = o, .place = p };
	struct recover_calls calls = { .life = life_of,
				       .adopt = adopt_one,
				       .failed = failed_one,
				       .ends = end_one,
				       .tell = tell_one,
				       .data = &f };
	cleanup_free char *pending = NULL;
	struct recover_counts counts;

	o->code = open_place(o, p);
	if (o->code == 0)
		o->code = recover_run(p->spool, &p->self, p->events, &calls, &counts, &o->e);
	if (o->code == 0)
		o->code = lane_each_of(p->spool, o->r->p.agent, found_lane, o, &o->e);
	if (o->code < 0) { /* the place is as before, and it may be tried again */
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

static void reclaim_work(struct spool_job *job, struct spool_place *p)
{
	struct finding *o = (struct finding *)job;
	struct finder f = { .o = o, .place = p };
	struct recover_calls calls = { .life = life_of_dead,
				       .adopt = adopt_one,
				       .failed = failed_one,
				       .ends = end_one,
				       .tell = tell_one,
				       .data = &f };
	struct recover_counts counts;

	o->code = recover_claims(p->spool, &p->self, p->events, &calls, &counts, &o->e);
	fill_all(&f);
}

static void free_finding(struct finding *o)
{
	for (size_t i = 0; i < o->n; i++)
		adoptee_clear(&o->all[i]);
	free(o->all);
	text_list_clear(&o->lanes);
	dead_claims_clear(&o->dead);
	dead_claims_clear(&o->unknown);
	free(o->unsure);
	free(o->cgroup);
	strbuf_clear(&o->notes);
	free(o);
}

/* ---- what is not settled, on the loop ---- */

static bool is_about(const struct dead_claims *claims, struct sched_ref ref)
{
	struct task_name n;

	for (size_t i = 0; i < claims->n; i++)
		if (name_of(&claims->all[i], &n) && n.id == ref.id && n.element == ref.element)
			return true;
	return false;
}

/* Those that are known by now, before they are adopted: the planner knows each but once. */
static void end_unsettled(struct recovery *r, const struct finding *found)
{
	for (struct unsettled **at = &r->unsettled; *at;) {
		struct unsettled *u = *at;

		if (is_about(&r->unknown, u->ref) || is_about(&found->unknown, u->ref)) {
			at = &u->next;
			continue;
		}
		*at = u->next;
		(void)sched_end(r->p.plan, u->ref);
		r->ops->settled(r->user, u->ref.id);
		free(u);
	}
}

static void begin_unsettled(struct recovery *r, const struct task_name *n)
{
	struct sched_task t;
	struct unsettled *u;

	sched_task_from_spec(n, NULL, &t);
	t.lane = planview_lane(r->p.plan, n->lane);
	t.gpus = t.gpus > 0;
	t.preemptible = false; /* nobody could carry that out */
	/* -EEXIST: one of our own attempts has it, or it is not settled already. */
	if (sched_adopt(r->p.plan, &t, (struct devset){ { 0 } }, clock_mono_ns(), NULL) < 0)
		return;
	u = xcalloc(1, sizeof(*u));
	u->ref = planview_ref(n);
	u->next = r->unsettled;
	r->unsettled = u;
}

bool recovery_may_run(const struct recovery *r, uint32_t lane, uint64_t array)
{
	struct sched_task t;

	for (const struct unsettled *u = r->unsettled; u; u = u->next)
		if (lane ? sched_get(r->p.plan, u->ref, &t) == 0 && t.lane == lane
			 : u->ref.id == array)
			return true;
	return false;
}

/* ---- what was found, on the loop ---- */

static void on_look_again(uv_timer_t *timer);

/* What was found, and what is to be looked at again. */
static void take_found(struct recovery *r, struct finding *o)
{
	eventlog_say_lines(r->p.eventlog, LOG_LEVEL_WARNING, strbuf_str(&o->notes));
	end_unsettled(r, o);
	for (size_t i = 0; i < o->n; i++)
		if (!r->ops->owns(r->user, planview_ref(&o->all[i].claim.name)))
			r->ops->adopt(r->user, &o->all[i]);
	for (size_t i = 0; i < o->n_unsure; i++)
		begin_unsettled(r, &o->unsure[i]);
	for (size_t i = 0; i < o->unknown.n; i++)
		dead_claims_add(&r->unknown, o->unknown.all[i].path, o->unknown.all[i].how);
	if (!r->unknown.n) {
		r->look_ms = 0;
	} else if (!r->stopped && !uv_is_active((uv_handle_t *)&r->timer)) {
		r->look_ms = r->look_ms ? r->look_ms * 2 : LOOK_FIRST_MS;
		r->look_ms = r->look_ms < LOOK_LAST_MS ? r->look_ms : LOOK_LAST_MS;
		(void)uv_timer_start(&r->timer, on_look_again, r->look_ms, 0);
	}
}

static struct finding *new_finding(struct recovery *r,
				   void (*work)(struct spool_job *job, struct spool_place *p),
				   void (*done)(struct spool_job *job))
{
	struct finding *o = xcalloc(1, sizeof(*o));

	o->job = (struct spool_job){ .work = work, .done = done };
	o->r = r;
	(void)str_copy(o->key, sizeof(o->key), r->key);
	return o;
}

static void on_open_again(uv_timer_t *timer)
{
	recovery_start(timer->data);
}

static void open_done(struct spool_job *job)
{
	struct finding *o = (struct finding *)job;
	struct recovery *r = o->r;

	if (o->code < 0) {
		r->ops->no_queue(r->user, o->e.text);
		if (!r->stopped)
			(void)uv_timer_start(&r->timer, on_open_again, OPEN_AGAIN_MS, 0);
	} else {
		r->open = true;
		(void)str_copy(r->key, sizeof(r->key), o->key);
		r->cgroup = take_ptr(o->cgroup);
		r->ops->opened(r->user, r->cgroup);
		take_found(r, o);
		r->ops->recovered(r->user, &o->lanes);
	}
	free_finding(o);
}

void recovery_start(struct recovery *r)
{
	struct finding *o = new_finding(r, open_work, open_done);

	o->watch_fd = r->p.watch->fd;
	spooler_do(r->p.spooler, &o->job);
}

static void reclaim_done(struct spool_job *job)
{
	struct finding *o = (struct finding *)job;
	struct recovery *r = o->r;

	r->reclaiming = NULL;
	if (o->code < 0)
		eventlog_say(r->p.eventlog, LOG_LEVEL_ERROR,
			     "what ran on another node cannot be taken over: %s", o->e.text);
	for (size_t i = 0; o->code < 0 && o->again && i < o->dead.n; i++)
		dead_claims_add(&o->unknown, o->dead.all[i].path, o->dead.all[i].how);
	take_found(r, o);
	free_finding(o);
	r->ops->reclaimed(r->user);
}

/* Takes the claims. */
static void reclaim(struct recovery *r, struct dead_claims *claims, bool again)
{
	struct finding *o = new_finding(r, reclaim_work, reclaim_done);

	r->reclaiming = o;
	o->again = again;
	o->dead = *claims;
	*claims = (struct dead_claims){ 0 };
	spooler_do(r->p.spooler, &o->job);
}

/* Whatever the verdict on it is. */
static bool is_unknown(const struct recovery *r, const char *path)
{
	for (size_t i = 0; i < r->unknown.n; i++)
		if (strcmp(r->unknown.all[i].path, path) == 0)
			return true;
	return false;
}

/* An attempt is there before its claim is made, and until its end is committed: what this agent
 * claimed and no attempt has is nobody's, unless it is being looked at again. */
static bool is_looked_after(const struct recovery *r, const struct dead_claim *c)
{
	struct task_name n;

	return c->how == OWN_UNJUDGED &&
	       (is_unknown(r, c->path) ||
		(name_of(c, &n) && r->ops->owns(r->user, planview_ref(&n))));
}

void recovery_reclaim(struct recovery *r, const struct dead_claims *claims)
{
	struct dead_claims left = { 0 };

	for (size_t i = 0; i < claims->n; i++)
		if (!is_looked_after(r, &claims->all[i]))
			dead_claims_add(&left, claims->all[i].path, claims->all[i].how);
	if (left.n && r->open && !r->reclaiming && !r->stopped)
		reclaim(r, &left, false);
	dead_claims_clear(&left);
}

static void on_look_again(uv_timer_t *timer)
{
	struct recovery *r = timer->data;

	if (r->stopped)
		return;
	if (r->reclaiming)
		(void)uv_timer_start(&r->timer, on_look_again, LOOK_FIRST_MS, 0);
	else
		reclaim(r, &r->unknown, true);
}

/* ---- from outside ---- */

struct recovery *recovery_new(uv_loop_t *loop, const struct recovery_parts *parts,
			      const struct recovery_ops *ops, void *user)
{
	struct recovery *r = xcalloc(1, sizeof(*r));

	r->p = *parts;
	r->ops = ops;
	r->user = user;
	(void)uv_timer_init(loop, &r->timer);
	r->timer.data = r;
	return r;
}

const char *recovery_key(const struct recovery *r)
{
	return r->key;
}

/* Whether a claim of it is just being taken. */
static bool is_reclaiming(const struct recovery *r, uint64_t id)
{
	const struct finding *o = r->reclaiming;
	struct task_name n;

	for (size_t i = 0; o && i < o->dead.n; i++)
		if (name_of(&o->dead.all[i], &n) && n.id == id)
			return true;
	return false;
}

bool recovery_may_have(const struct recovery *r, uint64_t id)
{
	return !r->open || is_reclaiming(r, id) || recovery_may_run(r, 0, id);
}

bool recovery_is_settled(const struct recovery *r)
{
	return !r->unknown.n && !r->reclaiming;
}

void recovery_stop(struct recovery *r)
{
	r->stopped = true;
	(void)uv_timer_stop(&r->timer);
}

static void on_closed(uv_handle_t *h)
{
	free(h->data);
}

void recovery_free(struct recovery *r)
{
	dead_claims_clear(&r->unknown);
	while (r->unsettled) {
		struct unsettled *gone = r->unsettled;

		r->unsettled = gone->next;
		free(gone);
	}
	free(r->cgroup);
	uv_close((uv_handle_t *)&r->timer, on_closed);
}
