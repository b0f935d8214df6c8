/* SPDX-License-Identifier: MIT */
#include "pool/tick.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "base/utf8.h"
#include "pool/demand.h"
#include "pool/job.h"
#include "pool/owner.h"
#include "pool/plan.h"
#include "pool/request.h"
#include "spool/agent_status.h"
#include "spool/control.h"
#include "spool/heartbeat.h"

#define ENDED_KEPT    20
#define EXCLUDED_MOST 8
#define BUSY_STEP_MS  200
#define NOT_ASKED     3	 /* the engine was not, besides what submit() gives */
#define UNLISTED_S    60 /* an engine may take so long to list what it has just taken */
#define POLL_SOON_S   5	 /* it is asked so often at most where an agent is silent */
#define TAIL_MAX      200
#define TAKE_BACK_S   600 /* from `up`: by then who has not taken an order will not */

struct tick {
	const struct spool *sp;
	const struct pool_caller *caller;
	const struct engine *engine;
	struct engine_env env;
	struct pool pool;
	struct pool_owner owner;
	struct pool_jobs jobs;
	bool *live;		   /* by job, of those that there were at the beginning */
	bool *serves;		   /* by job: its agent has not expired, and starts tasks */
	struct demand_node *nodes; /* whose agents live */
	size_t n_nodes;
	char mark[POOL_MARK_LEN + 1];
	unsigned int strange;
	bool overtaken; /* somebody else has taken the pool over meanwhile */
	bool absent;	/* the engine's commands are not on this node */
	struct pool_report *report;
};

/* ---- what it says ---- */

static void say(struct tick *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void say(struct tick *t, const char *fmt, ...)
{
	struct strbuf *said = &t->report->said;
	size_t begin = said->len;
	va_list ap;

	va_start(ap, fmt);
	strbuf_addv(said, fmt, ap);
	va_end(ap);
	said->len = begin + strlen(utf8_clean(said->data + begin));
	strbuf_addc(said, '\n');
}

static void set_error(struct tick *t, const struct err *e)
{
	(void)str_copy(t->report->state.error, sizeof(t->report->state.error), e->text);
}

/* A node without the engine's commands does nothing, and leaves the rest to another one. */
static void engine_failed(struct tick *t, int r, const struct err *e)
{
	if (r == -ENOENT)
		t->absent = true;
	set_error(t, e);
}

/* r: what came of it. */
static int count_command(struct tick *t, enum pool_command command, uint64_t began_ns, int r)
{
	struct pool_count *c = &t->report->state.commands[command];

	if (r == -ENOENT)
		return r;
	c->n++;
	c->errors += r != 0;
	c->ms += (clock_mono_ns() - began_ns) / NS_PER_MS;
	return r;
}

static void save(struct tick *t, const struct pool_job *job)
{
	struct err e = ERR_INIT;

	if (pool_job_write(t->sp, t->pool.name, job, false, &e) < 0)
		set_error(t, &e);
}

static void end_job(struct tick *t, struct pool_job *job, const char *reason)
{
	cleanup_free char *tail = NULL;

	job->phase = POOL_JOB_ENDED;
	job->ended_s = t->owner.now_s;
	if (reason && reason[0])
		(void)str_copy(job->reason, sizeof(job->reason), reason);
	job->lost = !job->agent[0] && !job->cancelled && job->state != ENGINE_JOB_EXPIRED &&
		    job->state != ENGINE_JOB_CANCELLED;
	if (job->lost) {
		tail = pool_job_tail(t->sp, t->pool.name, job->token, TAIL_MAX);
		pool_note_lost(&t->report->state, job, tail);
		say(t, "job %s ended%s%s, and its agent had not reported%s%s", job->id,
		    job->reason[0] ? ": " : "", job->reason, tail ? "; it printed: " : "",
		    tail ? tail : "");
	}
	if (job->agent[0])
		control_forget_as(t->sp, job->agent, job->token);
	save(t, job);
}

/* ---- agents ---- */

static struct pool_job *find_token(struct tick *t, const char *token)
{
	for (size_t i = 0; i < t->jobs.n; i++)
		if (strcmp(t->jobs.all[i].token, token) == 0)
			return &t->jobs.all[i];
	return NULL;
}

/* Its process was one of ours here, and is gone. */
static bool is_gone_here(const struct tick *t, const struct heartbeat *b)
{
	return strcmp(b->who.boot, spool_boot(t->sp)) == 0 && !proc_alive(&b->who.proc);
}

/* Its heartbeat is fresh, by the clock of who keeps the files; what it has; and it is not silent.
 */
static bool is_alive(const struct tick *t, const char *agent, struct heartbeat *ret, bool *heard)
{
	uint64_t silent_ms = t->caller->silent_ms, written_ns = 0, age_s;
	char path[SPOOL_PATH_MAX];

	*heard = false;
	if (heartbeat_read(t->sp, heartbeat_agent_path(agent, path), ret, &written_ns, NULL) < 0 ||
	    ret->ended)
		return false;
	age_s = t->owner.now_s > written_ns / NS_PER_S ? t->owner.now_s - written_ns / NS_PER_S : 0;
	*heard = !silent_ms || (age_s * 1000 < silent_ms + 1000 && !is_gone_here(t, ret));
	return age_s < t->caller->expire_ms / 1000;
}

static void report_job(struct tick *t, struct pool_job *job, const struct agent_status *s)
{
	(void)str_copy(job->agent, sizeof(job->agent), s->agent);
	(void)str_copy(job->node, sizeof(job->node), s->host);
	job->end_ns = s->end_ns;
	if (!job->id[0])
		(void)str_copy(job->id, sizeof(job->id), s->job);
	job->phase = POOL_JOB_SUBMITTED;
	job->state = ENGINE_JOB_RUNNING;
	job->reason[0] = '\0';
	if (!job->began_s)
		job->began_s = t->owner.now_s;
	pool_note_reported(&t->report->state);
	save(t, job);
}

/* The engine has begun a job once more whose agent had left or was lost (Slurm requeues after a
 * preemption, Kubernetes replaces a pod): it is one of the pool's again. */
static bool is_begun_again(const struct pool_job *job, const struct agent_status *s)
{
	return job->phase == POOL_JOB_ENDED && strcmp(job->agent, s->agent) != 0;
}

static void reopen_job(struct pool_job *job)
{
	job->agent[0] = '\0';
	job->began_s = job->ended_s = 0;
	job->lost = job->cancelled = false;
	job->phase = POOL_JOB_SUBMITTED;
}

static void add_node(struct tick *t, unsigned int gpus, bool ours)
{
	t->nodes = xgrow(t->nodes, t->n_nodes, sizeof(*t->nodes));
	t->nodes[t->n_nodes++] = (struct demand_node){ .gpus = gpus, .ours = ours };
}

/* Nothing runs there but what names that pool. */
static bool is_closed(const struct tick *t, const char *pool)
{
	struct pool p = { .gpus = 0 };
	bool closed = pool[0] && strcmp(pool, t->pool.name) != 0 &&
		      pool_read(t->sp, pool, &p, NULL) == 0 && p.only;

	pool_clear(&p);
	return closed;
}

static int look_at_agent(void *data, const char *agent)
{
	struct tick *t = data;
	struct agent_status *s = xcalloc(1, sizeof(*s));
	struct heartbeat b;
	bool heard, alive = is_alive(t, agent, &b, &heard);
	struct pool_job *job = NULL;

	if (agent_status_read(t->sp, agent, s, NULL) == 0 && s->token[0])
		job = find_token(t, s->token);
	if (job && alive && is_begun_again(job, s))
		reopen_job(job);
	if (job && !job->agent[0] && job->phase != POOL_JOB_ENDED)
		report_job(t, job, s);
	if (job && job->agent[0] && s->end_ns && s->end_ns != job->end_ns) {
		job->end_ns = s->end_ns; /* the engine has given it more time, or less */
		save(t, job);
	}
	if (job && alive && job->began_s && t->owner.now_s >= job->began_s + POOL_VAIN_S)
		pool_note_useful(&t->report->state);
	if (job && alive && heard)
		t->live[job - t->jobs.all] = true;
	if (alive && !b.draining && job)
		t->serves[job - t->jobs.all] = heard || !is_gone_here(t, &b);
	else if (alive && !b.draining)
		add_node(t, is_closed(t, s->pool) ? 0 : b.held + b.idle, false);
	free(s);
	return 0;
}

/* Of one that is silent the engine may have said by now that its job is over. */
static void add_own_nodes(struct tick *t)
{
	for (size_t i = 0; i < t->jobs.n; i++)
		if (t->serves[i] && (t->live[i] || t->jobs.all[i].phase != POOL_JOB_ENDED))
			add_node(t, t->jobs.all[i].gpus, true);
}

/* A job that was of no use is likely to be followed by another one. */
static void judge_use(struct tick *t, const struct pool_job *job)
{
	struct pool_state *st = &t->report->state;
	uint64_t there_s = job->began_s ? t->owner.now_s - job->began_s : 0;
	cleanup_free char *tail = NULL;

	if (t->caller->n_ended || there_s >= POOL_VAIN_S) {
		pool_note_useful(st);
		return;
	}
	if (t->pool.down || job->cancelled)
		return;
	tail = pool_job_tail(t->sp, t->pool.name, job->token, TAIL_MAX);
	pool_note_vain(st, job, tail, t->owner.now_s);
}

/* Whoever asks was the agent of a job, and may have been for too short a time to be seen. */
static void end_own(struct tick *t)
{
	struct pool_job *job = t->caller->token ? find_token(t, t->caller->token) : NULL;

	if (!job || job->phase == POOL_JOB_ENDED)
		return;
	if (!job->agent[0])
		(void)str_copy(job->agent, sizeof(job->agent), spool_host(t->sp));
	pool_note_reported(&t->report->state);
	judge_use(t, job);
	t->live[job - t->jobs.all] = false;
	end_job(t, job, "its agent has left");
}

/* An agent that left has ended its job with it, whatever the engine still says. */
static void end_left(struct tick *t)
{
	for (size_t i = 0; i < t->jobs.n; i++) {
		struct pool_job *job = &t->jobs.all[i];
		char path[SPOOL_PATH_MAX];
		struct heartbeat b;
		int r;

		if (job->phase == POOL_JOB_ENDED || !job->agent[0] || t->live[i])
			continue;
		r = heartbeat_read(t->sp, heartbeat_agent_path(job->agent, path), &b, NULL, NULL);
		if ((r == 0 && b.ended) || (r == -ENOENT && spool_is_gone(t->sp, path)))
			end_job(t, job, "its agent has left");
	}
}

static enum demand_owner whose(void *data, const char *agent)
{
	const struct tick *t = data;
	enum demand_owner owner = DEMAND_OTHERS;

	for (size_t i = 0; i < t->jobs.n; i++)
		if (strcmp(t->jobs.all[i].agent, agent) == 0)
			owner = t->live[i] ? DEMAND_OURS : DEMAND_OURS_LOST;
	return owner;
}

/* ---- what the engine says ---- */

/* Nothing is known of it at the engine any more. */
static void miss_job(struct tick *t, struct pool_job *job)
{
	if (job->phase == POOL_JOB_ENDED || t->live[job - t->jobs.all] ||
	    job->submitted_s + UNLISTED_S > t->owner.now_s)
		return;
	if (job->phase == POOL_JOB_SUBMITTING)
		job->cancelled = true; /* it never was a job */
	end_job(t, job,
		job->phase == POOL_JOB_SUBMITTING ? "the engine never had it"
						  : "the engine lists it no more");
}

static void update_job(struct tick *t, struct pool_job *job, const struct engine_job *said)
{
	struct pool_job was = *job;

	if (job->phase == POOL_JOB_ENDED)
		return;
	job->phase = POOL_JOB_SUBMITTED;
	job->state = said->state;
	job->start_ns = said->start_ns;
	(void)str_copy(job->id, sizeof(job->id), said->id);
	if (said->node)
		(void)str_copy(job->node, sizeof(job->node), said->node);
	(void)str_copy(job->reason, sizeof(job->reason), said->reason ? said->reason : "");
	if (said->state == ENGINE_JOB_RUNNING && !job->began_s)
		job->began_s = t->owner.now_s;
	if (engine_job_is_over(said->state))
		end_job(t, job, job->reason[0] ? NULL : engine_job_state_name(said->state));
	else if (memcmp(&was, job, sizeof(was)) != 0)
		save(t, job);
}

/* The token is the end of a job's name. */
static const char *token_of(const char *name)
{
	const char *dash = strrchr(name, '-');

	return dash && pool_job_is_token(dash + 1) ? dash + 1 : "";
}

/* Else something that the job has left, or started, is called as the job itself. */
static bool is_it(const struct pool_job *job, const struct engine_job *said)
{
	return !job->named || strcmp(job->id, said->id) == 0;
}

static void take_listing(struct tick *t, const struct engine_jobs *listed)
{
	cleanup_free bool *seen = xcalloc(t->jobs.n + 1, sizeof(*seen));

	t->strange = 0;
	for (size_t i = 0; i < listed->n; i++) {
		struct pool_job *job = find_token(t, token_of(listed->all[i].name));

		if (job && is_it(job, &listed->all[i])) {
			seen[job - t->jobs.all] = true;
			update_job(t, job, &listed->all[i]);
		} else if (!job) {
			t->strange += str_has_prefix(token_of(listed->all[i].name), t->mark) &&
				      !engine_job_is_over(listed->all[i].state);
		}
	}
	for (size_t i = 0; i < t->jobs.n; i++)
		if (!seen[i])
			miss_job(t, &t->jobs.all[i]);
}

/* "tenure-exp1-", with which the names of all its jobs begin. */
static char *name_prefix(const struct tick *t)
{
	char buf[ENGINE_JOB_NAME_MAX];
	cleanup_free char *title = xasprintf("%s-%s", spool_instance(t->sp), t->pool.name);

	(void)engine_job_name(t->pool.prefix, title, "", buf);
	return xstrdup(buf);
}

static bool must_ask(const struct tick *t)
{
	for (size_t i = 0; i < t->jobs.n; i++)
		if (t->jobs.all[i].phase != POOL_JOB_ENDED && !t->live[i])
			return true;
	return false;
}

/* Who calls has no time, and an agent that was there says nothing. */
static bool is_silent(const struct tick *t, size_t i)
{
	const struct pool_job *job = &t->jobs.all[i];

	return t->caller->silent_ms && job->phase != POOL_JOB_ENDED && job->agent[0] && !t->live[i];
}

/* Between two questions. A person who wants it to end, where nobody knows the id of what may be
 * there, asks at once, and one who waits for a node behind a silent agent soon: that one's job
 * counts as a node until the engine has it no more. */
static uint64_t poll_gap_s(const struct tick *t)
{
	uint64_t gap_s = ENGINE_POLL_MS / 1000;

	for (size_t i = 0; i < t->jobs.n; i++) {
		if (t->pool.down && !t->caller->by_agent &&
		    t->jobs.all[i].phase == POOL_JOB_SUBMITTING)
			return 0;
		if (is_silent(t, i))
			gap_s = POLL_SOON_S;
	}
	return gap_s;
}

static void ask_engine(struct tick *t)
{
	struct pool_state *st = &t->report->state;
	cleanup_free char *prefix = name_prefix(t);
	struct engine_jobs listed = { .n = 0 };
	struct err e = ERR_INIT;
	uint64_t began = clock_mono_ns();
	int r;

	if (!must_ask(t) || st->polled_s + poll_gap_s(t) > t->owner.now_s)
		return;
	st->polled_s = t->owner.now_s;
	r = count_command(t, POOL_COMMAND_JOBS, began,
			  t->engine->jobs(&t->env, prefix, &listed, &e));
	if (r == 0)
		take_listing(t, &listed);
	else
		engine_failed(t, r, &e);
	engine_jobs_clear(&listed);
}

/* ---- a job more ---- */

/* The script is kept beside the record, for people. */
static int write_script(struct tick *t, const char *token, const struct strbuf *script,
			struct err *e)
{
	char path[SPOOL_PATH_MAX], file[32];

	return spool_replace(t->sp,
			     pool_path_of(t->pool.name, pool_job_file(token, "sh", file), path),
			     strbuf_str(script), script->len, e);
}

/* It was never asked for. */
static void forget_job(struct tick *t, struct pool_job *job)
{
	static const char *const kinds[] = { "sh", "job" };
	char path[SPOOL_PATH_MAX], file[32];

	job->phase = POOL_JOB_ENDED;
	job->cancelled = true;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		(void)pool_job_file(job->token, kinds[i], file);
		(void)spool_remove(t->sp, pool_path_of(t->pool.name, file, path));
	}
}

/* What came of asking for it. */
static void settle_submission(struct tick *t, struct pool_job *job, int r, const char *id,
			      const struct err *e)
{
	struct pool_state *st = &t->report->state;

	if (r == 0) {
		job->phase = POOL_JOB_SUBMITTED;
		(void)str_copy(job->id, sizeof(job->id), id);
		job->named = true;
		pool_note_submitted(st);
		t->report->submitted++;
		say(t, "submitted job %s (%s)", job->id, t->engine->name);
	} else if (r == NOT_ASKED) {
		forget_job(t, job);
		return;
	} else if (r == -ENOENT) {
		forget_job(t, job);
		engine_failed(t, r, e);
		return;
	} else {
		set_error(t, e);
		(void)str_copy(job->reason, sizeof(job->reason), e->text);
		pool_note_refused(st, t->owner.now_s);
	}
	if (r == ENGINE_UNSURE) {
		say(t,
		    "%s has not said whether it took a job: %s; it is looked up before another "
		    "one is submitted",
		    t->engine->name, e->text);
		return; /* the record stays as it is */
	}
	if (r != 0) {
		job->phase = POOL_JOB_ENDED;
		job->ended_s = t->owner.now_s;
		job->cancelled = true;
		t->report->refused++;
		say(t, "%s takes no job: %s", t->engine->name, e->text);
	}
	save(t, job);
}

static bool has_text(const struct text_list *l, const char *text)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->texts[i], text) == 0)
			return true;
	return false;
}

/*
 * Where agents have not come up since `up` was called: elsewhere they may. But only if one has come
 * up on some other node: else it is what the pool asks for that is wrong, and no node but the last
 * would show why.
 */
static void avoid_nodes(const struct tick *t, struct pool_request *q)
{
	struct text_list bad = { .n = 0 };
	bool good = false;

	for (size_t i = t->jobs.n; i-- > 0 && bad.n < EXCLUDED_MOST;) {
		const struct pool_job *job = &t->jobs.all[i];

		if (job->lost && job->node[0] && job->asked_ns == t->pool.asked_ns &&
		    !has_text(&bad, job->node))
			text_list_add(&bad, job->node);
	}
	for (size_t i = 0; i < t->jobs.n; i++)
		good = good || (t->jobs.all[i].agent[0] && t->jobs.all[i].node[0] &&
				!has_text(&bad, t->jobs.all[i].node));
	if (good)
		q->exclude = bad;
	else
		text_list_clear(&bad);
	q->req.exclude = &q->exclude;
}

static int submit(struct tick *t, const struct pool_request *q, const struct strbuf *script,
		  char **id, struct err *e)
{
	uint64_t began = clock_mono_ns();

	return count_command(t, POOL_COMMAND_SUBMIT, began,
			     t->engine->submit(&t->env, &q->req, strbuf_str(script), id, e));
}

/* With the nodes that are avoided it wants none: maybe there are no others. */
static int submit_somewhere(struct tick *t, struct pool_request *q, struct strbuf *script,
			    char **id, struct err *e)
{
	int r = submit(t, q, script, id, e);

	if (r != ENGINE_REFUSED || !q->exclude.n)
		return r;
	text_list_clear(&q->exclude);
	strbuf_clear(script);
	r = t->engine->render(&q->req, script, e);
	if (r == 0)
		r = write_script(t, q->req.token, script, e);
	return r == 0 ? submit(t, q, script, id, e) : -EIO;
}

/* before: the job whose place it takes; NULL. */
static bool submit_one(struct tick *t, bool first, const struct pool_job *before)
{
	cleanup_strbuf struct strbuf script = STRBUF_INIT;
	cleanup_free char *id = NULL;
	struct pool_job was = before ? *before : (struct pool_job){ .gpus = 0 };
	struct pool_job *job = pool_jobs_add(&t->jobs);
	struct err e = ERR_INIT;
	struct pool_request q;
	int r;

	(void)str_copy(job->after, sizeof(job->after), was.token);
	job->asked_ns = t->pool.asked_ns;
	pool_job_token(t->mark, job->token);
	(void)str_copy(job->engine, sizeof(job->engine), t->engine->name);
	job->gpus = t->pool.gpus;
	job->shape = pool_shape(&t->pool);
	job->first = first;
	job->submitted_s = t->owner.now_s;
	r = pool_request_make(spool_instance(t->sp), &t->pool, t->caller, job->token, &q, &e);
	avoid_nodes(t, &q);
	if (t->engine->follows && was.id[0])
		q.req.after = was.id;
	if (r == 0)
		r = t->engine->render(&q.req, &script, &e);
	if (r == 0)
		r = write_script(t, job->token, &script, &e);
	if (r == 0)
		r = pool_job_write(t->sp, t->pool.name, job, true, &e);
	if (r == -ENOENT) /* a file of ours; it says nothing of the engine */
		r = -EIO;
	if (r == 0 && !pool_owns(t->sp, &t->owner)) {
		t->overtaken = true;
		r = NOT_ASKED;
	}
	if (r == 0)
		r = submit_somewhere(t, &q, &script, &id, &e);
	settle_submission(t, job, r, id, &e);
	pool_request_clear(&q);
	return r == 0;
}

/* ---- one less ---- */

/* False: they are there still. */
static bool cancel_some(struct tick *t, const struct pool_decision *d)
{
	struct text_list ids = { .n = 0 };
	uint64_t began = clock_mono_ns();
	struct err e = ERR_INIT;

	for (size_t i = 0; i < d->n_cancel; i++)
		if (t->jobs.all[d->cancel[i]].id[0])
			text_list_add(&ids, t->jobs.all[d->cancel[i]].id);
	if (!ids.n)
		return true;
	if (count_command(t, POOL_COMMAND_CANCEL, began, t->engine->cancel(&t->env, &ids, &e)) <
	    0) {
		set_error(t, &e);
		text_list_clear(&ids);
		return false;
	}
	text_list_clear(&ids);
	for (size_t i = 0; i < d->n_cancel; i++) {
		struct pool_job *job = &t->jobs.all[d->cancel[i]];
		bool late = job->began_s && !t->pool.down && !job->agent[0];

		if (!job->id[0])
			continue;
		say(t, "cancelled job %s: %s", job->id, d->why[i]);
		t->report->cancelled++;
		(void)str_copy(job->reason, sizeof(job->reason), d->why[i]);
		job->cancelled = !late;
		end_job(t, job, NULL);
		job->cancelled = true;
		save(t, job);
	}
	return true;
}

/* ---- all of it ---- */

/* Whoever serves a pool that is down ends when its tasks have; one that came up later, too. One
 * that is just beginning, or begins anew, takes no order that was there before: so it is told until
 * its heartbeat says that it drains. */
static void tell_agents(struct tick *t)
{
	json_t *order = json_pack("{s:s, s:s}", "command", "shutdown", "how", "drain");

	for (size_t i = 0; i < t->jobs.n; i++) {
		const struct pool_job *job = &t->jobs.all[i];

		if (job->phase != POOL_JOB_ENDED && t->live[i] && t->serves[i])
			(void)control_send_as(t->sp, job->agent, job->token, order, NULL);
	}
	json_decref(order);
}

/* Of a pool that has come up again what was not taken yet holds no more. */
static void take_back(struct tick *t)
{
	if (t->owner.now_s > t->pool.asked_ns / NS_PER_S + TAKE_BACK_S)
		return;
	for (size_t i = 0; i < t->jobs.n; i++)
		if (t->jobs.all[i].agent[0])
			control_forget_as(t->sp, t->jobs.all[i].agent, t->jobs.all[i].token);
}

/* All that waits is left to an agent that does not answer, and nobody looks again by himself. */
static void tell_silent(struct tick *t, const struct demand *demand)
{
	const struct pool_job *silent = NULL;

	if (t->pool.down || !demand->ready)
		return;
	for (size_t i = 0; i < t->jobs.n; i++) {
		if (t->jobs.all[i].phase == POOL_JOB_ENDED)
			continue;
		if (!is_silent(t, i))
			return;
		silent = &t->jobs.all[i];
	}
	if (silent)
		say(t,
		    "the agent of job %s does not answer, and %s has not said, %llu s ago, that "
		    "the job is over; tenure tick %s asks again",
		    silent->id, t->engine->name,
		    (unsigned long long)(t->owner.now_s - t->report->state.polled_s),
		    spool_instance(t->sp));
}

static void stay_changed(void *user, struct pool_job *job)
{
	save(user, job);
}

static void act(struct tick *t, const struct pool_decision *d)
{
	unsigned int first = d->first;

	if (!cancel_some(t, d))
		return;
	for (unsigned int i = 0; i < d->submit; i++) {
		bool is_first = first > 0;

		if (!submit_one(t, is_first, NULL))
			return;
		first -= is_first;
	}
	for (size_t i = 0; i < d->n_follow; i++)
		if (!submit_one(t, false, &t->jobs.all[d->follow[i]]))
			return;
}

static int look(struct tick *t, struct demand *ret, struct err *e)
{
	int r = heartbeat_each_agent(t->sp, look_at_agent, t, e);

	if (r < 0)
		return r;
	end_own(t);
	end_left(t);
	ask_engine(t);
	add_own_nodes(t);
	return demand_read(t->sp, &t->pool, clock_wall_ns(), whose, t, t->nodes, t->n_nodes, ret,
			   e);
}

/* The numbers after what was done, for who looks at them until the next one. */
static void recount(struct tick *t)
{
	struct pool_state *st = &t->report->state;

	st->waiting = 0;
	for (size_t i = 0; i < t->jobs.n; i++)
		st->waiting += t->jobs.all[i].phase != POOL_JOB_ENDED && !t->jobs.all[i].agent[0];
}

static int run(struct tick *t, struct err *e)
{
	struct pool_decision d = { .submit = 0 };
	struct demand demand;
	struct pool_view v = { .pool = &t->pool, .jobs = &t->jobs };
	struct pool_state *st = &t->report->state;
	int r;

	r = pool_state_read(t->sp, t->pool.name, st, e);
	if (!st->refusals && !st->vain) /* what was said stays true until it is tried again */
		st->error[0] = '\0';
	st->ticked_s = t->owner.now_s;
	if (r == 0)
		r = pool_job_mark(t->sp, t->pool.name, t->mark, e);
	if (r == 0)
		r = pool_jobs_read(t->sp, t->pool.name, &t->jobs, e);
	if (r == 0)
		pool_jobs_prune(t->sp, t->pool.name, &t->jobs, ENDED_KEPT);
	t->live = xcalloc(t->jobs.n + 1, sizeof(*t->live));
	t->serves = xcalloc(t->jobs.n + 1, sizeof(*t->serves));
	v.live = t->live;
	if (r == 0)
		r = look(t, &demand, e);
	if (r < 0)
		return r;
	v.needed = demand.nodes;
	v.more = demand.more;
	st->unfit = (unsigned int)(demand.unfit < POOL_JOBS_MAX ? demand.unfit : POOL_JOBS_MAX);
	v.strange = t->strange;
	v.follows = t->engine->follows;
	v.now_s = t->owner.now_s;
	pool_plan(&v, st, &d);
	if (!t->pool.down)
		take_back(t);
	else if (t->caller->by_agent)
		tell_agents(t);
	if (!d.submit)
		tell_silent(t, &demand);
	act(t, &d);
	pool_plan_stay(&t->jobs, t->pool.down ? 0 : pool_kept(&t->pool, t->owner.now_s),
		       stay_changed, t);
	recount(t);
	pool_say_next(&v, st);
	if (t->overtaken || (t->absent && t->caller->by_agent))
		return 0;
	return pool_state_write(t->sp, t->pool.name, st, e);
}

/* As pool_own(), for as long as the caller has patience. */
static int own_in_time(struct tick *t, struct err *e)
{
	uint64_t until_ns = clock_mono_ns() + t->caller->patience_ms * NS_PER_MS;
	int r = pool_own(t->sp, t->pool.name, &t->owner, e);
	uint64_t first = t->owner.epoch;

	while (r == POOL_BUSY && clock_mono_ns() < until_ns) {
		(void)usleep(BUSY_STEP_MS * 1000);
		r = pool_own(t->sp, t->pool.name, &t->owner, e);
	}
	t->report->begun = r == POOL_BUSY && t->owner.epoch > first;
	return r;
}

static int read_pool(struct tick *t, const char *name, struct err *e)
{
	int r;

	pool_clear(&t->pool);
	r = pool_read(t->sp, name, &t->pool, e);
	if (r == 0)
		t->engine = engine_find(t->pool.engine);
	return r;
}

/* As its owner. Until it was ours somebody else may have changed it, or forgotten it. */
static int run_owned(struct tick *t, const char *name, struct err *e)
{
	int r = read_pool(t, name, e);

	if (r == -ENOENT) {
		(void)spool_remove(t->sp, t->owner.path);
		return r;
	}
	if (r == 0)
		r = run(t, e);
	pool_disown(t->sp, &t->owner);
	return r;
}

int pool_tick(const struct spool *sp, const char *name, const struct pool_caller *caller,
	      struct pool_report *ret, struct err *e)
{
	struct tick *t = xcalloc(1, sizeof(*t));
	int r;

	*ret = (struct pool_report){ .busy = false };
	t->sp = sp;
	t->caller = caller;
	t->report = ret;
	t->env = (struct engine_env){ .environ = caller->environ, .settings = &t->pool.settings };
	r = read_pool(t, name, e);
	ret->elsewhere = r == 0 && !pool_is_here(sp, &t->pool);
	if (r == 0 && !ret->elsewhere) {
		r = own_in_time(t, e);
		ret->busy = r == POOL_BUSY;
	}
	if (r == 0 && !ret->elsewhere)
		r = run_owned(t, name, e);
	if (ret->busy || ret->elsewhere) {
		(void)pool_state_read(sp, name, &ret->state, NULL);
		r = 0;
	}
	pool_jobs_clear(&t->jobs);
	pool_clear(&t->pool);
	free(t->live);
	free(t->serves);
	free(t->nodes);
	free(t);
	return r;
}

void pool_report_clear(struct pool_report *report)
{
	strbuf_clear(&report->said);
}

void pool_tick_all(const struct spool *sp, const struct pool_caller *caller)
{
	struct text_list names = { .n = 0 };

	(void)pool_list(sp, &names, NULL);
	for (size_t i = 0; i < names.n; i++) {
		struct pool_report report;

		(void)pool_tick(sp, names.texts[i], caller, &report, NULL);
		pool_report_clear(&report);
	}
	text_list_clear(&names);
}

/* ---- the last one ---- */

struct forgetting {
	const struct spool *sp;
	const char *name, *owner;
	struct err *e;
};

/* "NAME,state", "NAME,TOKEN.job" */
static int forget_file(void *data, const char *file, unsigned char type)
{
	const struct forgetting *f = data;
	size_t n = strlen(f->name);
	char path[SPOOL_PATH_MAX];

	(void)type;
	if (strncmp(file, f->name, n) != 0 || file[n] != ',')
		return 0;
	(void)spool_path(SPOOL_POOLS, file, path);
	return strcmp(path, f->owner) == 0 ? 0 : spool_unlink(f->sp, path, f->e);
}

int pool_forget(const struct spool *sp, const char *name, struct err *e)
{
	struct pool_owner owner;
	struct forgetting f = { .sp = sp, .name = name, .owner = owner.path, .e = e };
	char path[SPOOL_PATH_MAX];
	int r = pool_own(sp, name, &owner, e);

	if (r != 0)
		return r;
	r = spool_each(sp, spool_dir_name(SPOOL_POOLS), forget_file, &f, e);
	/* Last of all what it is found by, or a part would stay for ever. */
	if (r == 0)
		r = spool_unlink(sp, pool_path(name, path), e);
	if (r == 0)
		r = spool_unlink(sp, owner.path, e);
	else
		pool_disown(sp, &owner);
	return r;
}
