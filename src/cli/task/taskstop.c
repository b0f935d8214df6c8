/* SPDX-License-Identifier: MIT */

/*
 * What waits is taken away by this process's own rename (an element by a claim that is ended at
 * once), what runs is ended by the agent that runs it: that of this node is asked at once, others
 * through the spool when all is known that they are to end. A task may start between the look and
 * the rename, so what has moved is looked for again.
 *
 * Of other nodes there is one order for each agent, with all that it is to end, and all orders are
 * sent before the first answer is waited for: however many nodes there are, it takes as long as the
 * slowest one.
 */

#include "cli/task/taskstop.h"
#include "cli/progress.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "cli/agent_client.h"
#include "cli/node_agents.h"
#include "cli/task/outcome.h"
#include "cli/task/taskstate.h"
#include "spool/batch.h"
#include "spool/instance.h"
#include "spool/transit.h"

#define REASON	 "stopped by tenure stop"
#define TOLD_MAX 5
#define ROUNDS	 3 /* of orders to other nodes, for what has moved meanwhile */

/* Where something may have gone from pending/ to. */
#define FILED                                                                                      \
	(SPOOL_BIT(SPOOL_PENDING) | SPOOL_BIT(SPOOL_CANCELLED) | SPOOL_BIT(SPOOL_FAILED) |         \
	 SPOOL_BIT(SPOOL_DONE))

/* What an agent of another node runs, and is to end. */
struct remote_stop {
	char agent[NAME_AGENT_MAX + 1];
	size_t n;
	struct task_name *names;
};

static void tell(struct taskstop *s, const struct task_name *n, uint64_t element, unsigned int dirs,
		 const char *more)
{
	char id[SELECT_ID_MAX];

	s->said.dirs |= dirs;
	if (!s->quiet)
		outcome_say(&s->said, 0, "%s%s%s%s\n", select_format_id(n->id, element, id),
			    n->name[0] ? " " : "", n->name, more);
}

static const char *stopping_text(const struct taskstop *s)
{
	return s->now ? " is killed" : " is stopping";
}

/* What becomes of one that had not started, or not again. */
static const char *cancelled_text(const struct task_name *n)
{
	if (n->count)
		return " is cancelled: no more of its elements are started";
	return n->epoch ? " is cancelled; it waited to run again"
			: " is cancelled; it had not started";
}

static bool is_ours(const struct spool *sp, const char *agent)
{
	char name[SPEC_NAME_MAX + 1];

	ident_make_name(spool_host(sp), name);
	return strncmp(name, agent, NAME_AGENT_MAX) == 0;
}

/* Who was told to end it could not write that down; NULL: it is written. */
static void warn_unwritten(const struct task_name *n, const char *why)
{
	if (why)
		cmd_warn("warning",
			 "the stop of task %" PRIu64 " is not on disk (%s): if its node fails "
			 "before it has ended, it runs again",
			 n->id, why);
}

/* What was said so far is made durable and told. An error is kept in unsynced. */
static void commit(struct taskstop *s)
{
	(void)outcome_commit(s->sp, &s->said, 0, s->unsynced.code ? NULL : &s->unsynced);
}

static struct order stop_order(const struct taskstop *s, struct order_task *tasks, size_t n)
{
	return (struct order){ .command = ORDER_STOP,
			       .n = n,
			       .tasks = tasks,
			       .now = s->now,
			       .sweep = s->sweep_gpus ? SPEC_CLEAN_GPU : SPEC_CLEAN_NONE };
}

/* One that hangs takes seconds for each question, and there may be many: it is asked no more. What
 * waited is gone by then, which nobody should have to wait for either. */
static int ask_agent_here(struct taskstop *s, const struct order *order, json_t **answer,
			  struct err *e)
{
	struct err why = s->silent;
	int r = s->silent.code;

	if (s->said.dirs)
		commit(s);
	if (!r)
		r = agent_ask_about(s->ctx, order, answer, &why);
	if (r == -ETIMEDOUT)
		s->silent = why;
	if (r < 0 && e)
		*e = why;
	return r;
}

static struct remote_stop *remote_of(struct taskstop *s, const char *agent)
{
	struct remote_stop *a;

	for (size_t i = 0; i < s->n_remote; i++)
		if (strcmp(s->remote[i].agent, agent) == 0 && s->remote[i].n < ORDER_TASKS_MAX)
			return &s->remote[i];
	s->remote = xrealloc(s->remote, s->n_remote + 1, sizeof(*s->remote));
	a = &s->remote[s->n_remote++];
	*a = (struct remote_stop){ .n = 0 };
	(void)str_copy(a->agent, sizeof(a->agent), agent);
	return a;
}

/* An element, or a task; taskstop_finish() asks for it. */
static void add_remote(struct taskstop *s, const char *agent, const struct task_name *n)
{
	struct remote_stop *a = remote_of(s, agent);

	for (size_t i = 0; i < a->n; i++)
		if (a->names[i].id == n->id && a->names[i].element == n->element)
			return; /* by two words, or two looks */
	a->names = xgrow(a->names, a->n, sizeof(*a->names));
	a->names[a->n++] = *n;
}

/* The agent here does not know yet what runs under it, as behind its start; the task is one that
 * may. False: that takes too long. */
static bool await_agent_here(struct taskstop *s, int look)
{
	uint64_t now = clock_mono_ns();

	if (!s->until_ns)
		s->until_ns = now + s->remote_ms * NS_PER_MS;
	if (now >= s->until_ns)
		return false;
	change_pause(look);
	return true;
}

/* What was seen in running/ is there no more, whoever had it. */
static bool has_left(const struct taskstop *s, const struct task_name *n)
{
	char path[SPOOL_PATH_MAX], file[NAME_FILE_MAX];

	return spool_is_gone(s->sp, spool_path(SPOOL_RUNNING, name_format(n, file), path));
}

/* 0, TRANSIT_GONE: it runs no more, or negative. */
static int stop_running(struct taskstop *s, const struct task_name *n, struct err *e)
{
	struct order_task task = { n->id, n->element };
	const struct order order = stop_order(s, &task, 1);
	char agent[NAME_AGENT_MAX + 1];
	json_t *answer = NULL;
	int r = ask_agent_here(s, &order, &answer, e);

	for (int look = 0; r == -EAGAIN; look++) {
		taskstate_agent_of(s->sp, n, agent);
		if (!is_ours(s->sp, agent) || has_left(s, n))
			r = -ENOENT;
		else if (await_agent_here(s, look))
			r = ask_agent_here(s, &order, &answer, e);
		else
			break;
	}
	if (r == 0) {
		tell(s, n, n->element, 0, stopping_text(s));
		warn_unwritten(n, json_get_str(answer, "unwritten"));
	}
	json_decref(answer);
	if (r != -ENOENT && r != -ECONNREFUSED)
		return r;
	taskstate_agent_of(s->sp, n, agent);
	if (!agent[0] || (r == -ENOENT && is_ours(s->sp, agent)))
		return TRANSIT_GONE; /* it has ended meanwhile, or is being filed */
	add_remote(s, agent, n);
	return 0;
}

/* ---- an element that waits ---- */

static int end_element(struct batch *b, const struct spool *sp, uint64_t element, struct err *e)
{
	struct spool_end end = { .result = RESULT_CANCELLED, .begun_ns = clock_wall_ns() };
	struct claimer self;
	struct claim c;
	char name[SPEC_NAME_MAX + 1];
	int r;

	claimer_tool_name("stop", spool_host(sp), name);
	r = claimer_self(sp, name, &self, e);
	self.tool = true;
	if (r == 0)
		r = batch_claim_to_end(b, element, &self, &c, e);
	if (r != 0)
		return r;
	end.epoch = c.name.epoch;
	end.ended_ns = clock_wall_ns();
	(void)str_copy(end.reason, sizeof(end.reason), REASON);
	r = batch_end(b, NULL, &c, &end, e);
	if (r < 0) /* or nothing could claim it until this one has expired */
		batch_give_back(b, &c);
	if (r != 0)
		return r == BATCH_SUPERSEDED ? CLAIM_LOST : r;
	r = batch_sync(b, e);
	if (r == 0 && batch_is_over(b))
		r = batch_commit(b, e);
	return r < 0 ? r : 0;
}

/* 0, CLAIM_LOST, or negative. */
static int stop_waiting_element(struct taskstop *s, const struct task_place *p, struct err *e)
{
	char name[SPEC_NAME_MAX + 1];
	struct batch *b = NULL;
	int r;

	claimer_tool_name("stop", spool_host(s->sp), name);
	r = batch_open(s->sp, &p->name, name, &b, e);
	if (r == 0)
		r = end_element(b, s->sp, p->element, e);
	(void)batch_close(b);
	if (r == 0) {
		s->changed = true;
		tell(s, &p->name, p->element, FILED | SPOOL_BIT(SPOOL_ENDS),
		     " is cancelled; it did not run");
	}
	return r;
}

/* 0, TRANSIT_GONE: it waits no more, or under another name, or negative. */
static int stop_where_it_waits(struct taskstop *s, uint64_t id, uint64_t element, struct err *e)
{
	struct task_place p;
	int r = select_by_id(s->sp, id, element, &p, e);

	if (r < 0)
		return r;
	r = taskstate_element_state(s->sp, &p, element, e);
	if (r < 0)
		return r;
	if (r > BATCH_RUNNING || p.dir != SPOOL_PENDING)
		return err_set(e, -ENOENT, "%" PRIu64 ".%" PRIu64 " has ended already: %s",
			       p.name.id, p.element,
			       r == BATCH_DONE	   ? "it is done"
			       : r == BATCH_FAILED ? "it has failed"
						   : "it was stopped");
	r = transit_await(s->sp, &p.name, CHANGE_HELD_MS, e);
	if (r == TRANSIT_HELD)
		return change_busy(&p.name, e);
	return r == 0 ? stop_waiting_element(s, &p, e) : r;
}

static int stop_element(struct taskstop *s, uint64_t id, uint64_t element, struct err *e)
{
	struct task_name n;
	int r;

	for (int look = 0; look < CHANGE_LOOKS; look++) {
		if (select_running_element(s->sp, id, element, &n)) {
			r = stop_running(s, &n, e);
			if (r <= 0)
				return r;
			change_pause(look);
		}
		r = stop_where_it_waits(s, id, element, e);
		if (r <= 0)
			return r;
		change_pause(look);
	}
	return err_set(e, -EBUSY, "%" PRIu64 ".%" PRIu64 " changed just now; try again", id,
		       element);
}

/* ---- tasks ---- */

/* 0, TRANSIT_GONE: it is not where it was, or negative. */
static int stop_one(struct taskstop *s, const struct scan_task *t, struct err *e)
{
	struct task_name n = t->name;
	int r;

	if (t->dir != SPOOL_PENDING)
		return stop_running(s, &n, e);
	/* Who holds it for longer finds that it was stopped. */
	r = transit_await(s->sp, &n, CHANGE_HELD_MS, e);
	if (r == 0 || r == TRANSIT_HELD)
		r = transit_cancel(s->sp, &n, REASON, e);
	if (r == 0) {
		s->changed = true;
		tell(s, &n, 0, FILED, cancelled_text(&n));
	}
	return r;
}

/* Elements have neither name nor lane: those of a batch that is meant go with it. One that cannot
 * be stopped keeps none of the others from it. */
static int stop_elements_of(struct taskstop *s, uint64_t id, struct err *e)
{
	struct task_set all;
	int first = 0, r = select_all(s->sp, &all, e);

	if (r < 0)
		return r;
	for (size_t i = 0; i < all.n; i++) {
		if (all.tasks[i].name.id != id || !all.tasks[i].name.element)
			continue;
		r = stop_one(s, &all.tasks[i], first ? NULL : e);
		first = r < 0 && !first ? r : first;
	}
	free(all.tasks);
	return first;
}

/* One look. 0 or the first error; in any case how many have moved meanwhile. found: the id, where
 * the word is only the beginning of a name. */
static int stop_matching(struct taskstop *s, const char *word, char found[SELECT_ID_MAX],
			 int *ret_moved, struct err *e)
{
	struct task_set m;
	uint64_t id, element;
	bool by_name = strcmp(word, "all") != 0 && ident_parse_id(word, &id, &element) < 0;
	unsigned int flags = SELECT_LANES | SELECT_TELL_ENDED | (found ? 0 : SELECT_EXACT);
	int first = 0, r = select_tasks(s->sp, word, flags, &m, e);

	*ret_moved = 0;
	if (r < 0)
		return r;
	if (m.by_beginning)
		(void)select_format_id(m.tasks[0].name.id, 0, found);
	if (!m.n && !s->quiet)
		select_tell_none(s->sp);
	struct progress progress = progress_begin("stopping", m.n);

	/* What waits first, or it would start in the place of what is ended. */
	for (size_t i = m.n; i-- > 0;) {
		r = stop_one(s, &m.tasks[i], first ? NULL : e);
		if (r == 0 && m.tasks[i].name.count && by_name)
			r = stop_elements_of(s, m.tasks[i].name.id, first ? NULL : e);
		*ret_moved += r > 0;
		first = r < 0 && !first ? r : first; /* the others are stopped all the same */
		progress_at(&progress, m.n - i);
	}
	progress_end(&progress);
	free(m.tasks);
	return first;
}

/* What an agent does not run that had its claim: it has ended, is requeued, or another has it. */
struct moved {
	char agent[NAME_AGENT_MAX + 1];
	struct task_name name;
};

struct asking {
	struct taskstop *s;
	struct node_agents agents;
	size_t n_moved;
	struct moved *moved;
	struct err *e;
	int code; /* of the first that went wrong; the text of the last is in e */
};

static void fail(struct asking *q, int code, const char *text)
{
	if (q->code && q->e)
		(void)cmd_fail(CMD_FAILED, q->e->text);
	(void)err_set(q->e, code, "%s", text);
	q->code = q->code ? q->code : code;
}

/* ---- where the queue does not answer ---- */

/* Whether a word, which is an id where id is not 0, means what runs. */
static bool is_meant(const char *word, uint64_t id, uint64_t element, const struct agent_task *t)
{
	if (id)
		return t->id == id && (!element || t->element == element);
	return strcmp(word, "all") == 0 || (t->name && strcmp(t->name, word) == 0);
}

static int stop_here(struct taskstop *s, const char *word, struct err *e)
{
	struct asking q = { .s = s, .e = e };
	cleanup_free char *none = NULL;
	uint64_t id = 0, element = 0;
	bool found = false, exact = false; /* all that the word can mean */
	const json_t *o;
	size_t i;

	(void)ident_parse_id(word, &id, &element);
	json_array_foreach(s->here, i, o)
	{
		struct agent_task t = agent_task_of(o);
		struct task_name n = { .id = t.id, .element = t.element };
		struct order_task task = { t.id, t.element };
		const struct order order = stop_order(s, &task, 1);
		struct err why = ERR_INIT;
		int r;

		if (!is_meant(word, id, element, &t))
			continue;
		found = true;
		exact = id && t.element == element;
		(void)str_copy(n.name, sizeof(n.name), t.name ? t.name : "");
		r = ask_agent_here(s, &order, NULL, &why);
		if (r == 0)
			tell(s, &n, n.element, 0, stopping_text(s));
		else if (r != -ENOENT) /* else it has ended meanwhile */
			fail(&q, r, why.text);
	}
	commit(s);
	if (q.code || exact)
		return q.code;
	none = xasprintf(found ? "what waits of %s could not be looked for; tell it again when the "
				 "queue answers"
			       : "nothing of %s runs on this node, and more cannot be looked for "
				 "until the queue answers",
			 word);
	return err_set(e, -ETIMEDOUT, "%s", none);
}

int taskstop_word(struct taskstop *s, const char *word, struct err *e)
{
	char found[SELECT_ID_MAX] = "";
	uint64_t id, element;
	int first, moved;

	if (!s->sp)
		return stop_here(s, word, e);
	if (ident_parse_id(word, &id, &element) == 0 && element)
		return stop_element(s, id, element, e);
	first = stop_matching(s, word, found, &moved, e);
	/* When it has ended, the same word may be the beginning of another one's name. */
	word = found[0] ? found : word;
	for (int look = 1; look < CHANGE_LOOKS && moved; look++) {
		int r;

		change_pause(look);
		r = stop_matching(s, word, NULL, &moved, first ? NULL : e);
		if (r == -ENOENT) /* what was left has ended by itself */
			return first;
		first = first ? first : r;
	}
	return first || !moved
		       ? first
		       : err_set(e, -EBUSY, "%d of them changed just now; try again", moved);
}

/* ---- what runs under agents of other nodes ---- */

/* "task 42 runs", "tasks 42, 43.1 and 7 more run" */
static void name_tasks(const struct remote_stop *a, struct strbuf *b)
{
	size_t told = a->n <= TOLD_MAX + 1 ? a->n : TOLD_MAX;
	char id[SELECT_ID_MAX];

	strbuf_adds(b, a->n == 1 ? "task " : "tasks ");
	for (size_t i = 0; i < a->n; i++)
		strbuf_add_some(b, i, told, "%s",
				select_format_id(a->names[i].id, a->names[i].element, id));
	strbuf_add_more(b, a->n, told);
	strbuf_adds(b, a->n == 1 ? " runs" : " run");
}

/* Nobody who could end them answers. taken: somebody has the order. */
static void say_silent(struct asking *q, const struct remote_stop *a, bool taken)
{
	const struct node_agent *p = node_agents_find(&q->agents, a->agent);
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	cleanup_free char *sign = node_agent_sign(p), *silence = p ? node_agent_silence(p) : NULL;
	const char *host = p && p->heartbeat.who.host[0] ? p->heartbeat.who.host : a->agent;
	cleanup_free char *options = agent_options(q->s->ctx->settings, NULL);
	const char *them = a->n == 1 ? "it" : "them";

	name_tasks(a, &b);
	strbuf_addf(&b, " under the agent %s", a->agent);
	if (strcmp(host, a->agent) != 0)
		strbuf_addf(&b, " (host %s)", host);
	if (taken)
		strbuf_addf(&b, ", which has taken the order and has not said what came of it; %s",
			    sign);
	else if (p && p->here)
		strbuf_addf(&b,
			    ", of this node, which does not run (%s): tenure on%s starts it "
			    "again and takes %s over; then stop %s",
			    sign, options, them, them);
	else if (!p || p->state == NODE_AGENT_OFF || p->declared_dead)
		strbuf_addf(&b,
			    ", which is not there any more (%s): tenure on%s there starts "
			    "one that takes %s over; then stop %s",
			    sign, options, them, them);
	else
		strbuf_addf(&b, ", which %s", silence);
	fail(q, -EHOSTUNREACH, strbuf_str(&b));
}

static void tell_there(struct asking *q, const struct remote_stop *a, size_t i, const char *what)
{
	char id[SELECT_ID_MAX];

	if (!q->s->quiet)
		printf("%s%s%s %s %s\n", select_format_id(a->names[i].id, a->names[i].element, id),
		       a->names[i].name[0] ? " " : "", a->names[i].name, what, a->agent);
}

static void add_moved(struct asking *q, const struct remote_stop *a, size_t i)
{
	struct moved *m;

	q->moved = xrealloc(q->moved, q->n_moved + 1, sizeof(*q->moved));
	m = &q->moved[q->n_moved++];
	*m = (struct moved){ .name = a->names[i] };
	(void)str_copy(m->agent, sizeof(m->agent), a->agent);
}

static void tell_results(struct asking *q, const struct remote_stop *a, const json_t *answer)
{
	const json_t *tasks = json_object_get(answer, "tasks");
	char id[SELECT_ID_MAX];

	for (size_t i = 0; i < a->n; i++) {
		struct err why = ERR_INIT;
		const json_t *one = json_object_get(
			tasks, select_format_id(a->names[i].id, a->names[i].element, id));
		int r = agents_answer_code(one, &why);
		cleanup_free char *text = xasprintf("task %s on %s: %s", id, a->agent, why.text);

		if (r == 0) {
			tell_there(q, a, i, q->s->now ? "is killed on" : "is stopping on");
			warn_unwritten(&a->names[i], json_get_str(one, "unwritten"));
		} else if (r == -ENOENT || r == -EAGAIN) {
			add_moved(q, a, i);
		} else {
			fail(q, r, text);
		}
	}
	(void)fflush(stdout);
}

static void on_answer(void *user, const struct agent_called *one, const json_t *answer)
{
	struct asking *q = user;
	const struct remote_stop *a = one->data;
	struct err why = ERR_INIT;
	int r = answer ? agents_answer_code(answer, &why) : 0;
	cleanup_free char *text = xasprintf("the agent %s: %s", a->agent, why.text);

	if (!answer)
		say_silent(q, a, one->state == CALLED_TAKEN);
	else if (r < 0)
		fail(q, r, text);
	else
		tell_results(q, a, answer);
}

/* One that cannot be sent keeps none of the others from it. */
static void send_all(struct asking *q, struct agents_call *o)
{
	struct taskstop *s = q->s;

	for (size_t i = 0; i < s->n_remote; i++) {
		struct remote_stop *a = &s->remote[i];
		struct err why = ERR_INIT;
		int r;
		const struct node_agent *p = node_agents_find(&q->agents, a->agent);
		cleanup_free struct order_task *tasks = xcalloc(a->n, sizeof(*tasks));
		const struct order order = stop_order(s, tasks, a->n);

		if (!p || p->state == NODE_AGENT_OFF || (p->here && p->state == NODE_AGENT_GONE)) {
			say_silent(q, a, false);
			continue;
		}
		for (size_t k = 0; k < a->n; k++)
			tasks[k] = (struct order_task){ a->names[k].id, a->names[k].element };
		r = agents_send(o, a->agent, &order, a, &why);
		if (r < 0)
			fail(q, r, why.text);
	}
}

/* Those of other nodes are asked and waited for. */
static void ask_remote(struct asking *q)
{
	struct taskstop *s = q->s;
	struct agents_call o = { .sp = s->sp };
	struct err why = ERR_INIT;
	int r = node_agents_read(s->ctx, s->sp, &q->agents, &why);

	if (r == 0)
		send_all(q, &o);
	else
		fail(q, r, why.text);
	agent_look(s->ctx);
	agents_wait(&o, s->remote_ms, on_answer, q);
	agents_clear(&o);
	node_agents_clear(&q->agents);
}

/* Where it is now it is stopped as if it had been found there; that may be under another agent. */
static void stop_moved(struct asking *q, const struct moved *m)
{
	char id[SELECT_ID_MAX];
	struct err why = ERR_INIT;
	int r = taskstop_word(q->s, select_format_id(m->name.id, m->name.element, id), &why);

	if (r == -ENOENT && !q->s->quiet)
		outcome_say(&q->s->said, 0, "%s%s%s does not run any more under %s\n", id,
			    m->name.name[0] ? " " : "", m->name.name, m->agent);
	else if (r < 0 && r != -ENOENT)
		fail(q, r, why.text);
}

static void commit_all(struct asking *q)
{
	struct err *e = &q->s->unsynced;

	commit(q->s);
	if (e->code)
		fail(q, e->code, e->text);
	*e = (struct err)ERR_INIT;
}

static void look_again(struct asking *q, bool last)
{
	char id[SELECT_ID_MAX];

	for (size_t i = 0; i < q->n_moved; i++) {
		const struct moved *m = &q->moved[i];
		cleanup_free char *text =
			xasprintf("task %s is %s's, which does not know it yet, or any more; try "
				  "again",
				  select_format_id(m->name.id, m->name.element, id), m->agent);

		if (last)
			fail(q, -EBUSY, text);
		else
			stop_moved(q, m);
	}
	free(take_ptr(q->moved));
	q->n_moved = 0;
	commit_all(q);
}

int taskstop_finish(struct taskstop *s, struct err *e)
{
	struct asking q = { .s = s, .e = e };

	/* What could not be synced here is no reason to let others run on. */
	commit_all(&q);
	for (int round = 1; s->n_remote; round++) {
		ask_remote(&q);
		for (size_t i = 0; i < s->n_remote; i++)
			free(s->remote[i].names);
		free(take_ptr(s->remote));
		s->n_remote = 0;
		look_again(&q, round == ROUNDS);
	}
	return q.code;
}
