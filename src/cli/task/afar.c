/* SPDX-License-Identifier: MIT */

/*
 * One order for each agent, with all that it is to end, and all orders before the first answer is
 * waited for: however many nodes there are, it takes as long as the slowest one.
 */

#include "cli/task/afar.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "cli/ask_agent.h"
#include "cli/ordering.h"
#include "cli/peers.h"
#include "cli/task/outcome.h"

#define TOLD_MAX 5
#define ROUNDS	 3 /* of orders, for what has moved meanwhile */

struct stopping_afar {
	char agent[NAME_AGENT_MAX + 1];
	size_t n;
	struct order_task *tasks;
	struct task_name *names; /* of them */
};

/* What an agent does not run that had its claim: it has ended, waits again, or another one has it.
 */
struct moved {
	char agent[NAME_AGENT_MAX + 1];
	struct order_task task;
	struct task_name name;
};

struct asking {
	struct stopping *s;
	struct peers peers;
	size_t n_moved;
	struct moved *moved;
	struct err *e;
	int code; /* of the first that went wrong; the text of the last is in e */
};

static struct stopping_afar *afar_of(struct stopping *s, const char *agent)
{
	struct stopping_afar *a;

	for (size_t i = 0; i < s->n_afar; i++)
		if (strcmp(s->afar[i].agent, agent) == 0 && s->afar[i].n < ORDER_TASKS_MAX)
			return &s->afar[i];
	s->afar = xrealloc(s->afar, s->n_afar + 1, sizeof(*s->afar));
	a = &s->afar[s->n_afar++];
	*a = (struct stopping_afar){ .n = 0 };
	(void)str_copy(a->agent, sizeof(a->agent), agent);
	return a;
}

void afar_add(struct stopping *s, const char *agent, const struct task_name *n)
{
	struct stopping_afar *a = afar_of(s, agent);

	for (size_t i = 0; i < a->n; i++)
		if (a->tasks[i].id == n->id && a->tasks[i].element == n->element)
			return; /* by two words, or two looks */
	a->tasks = xrealloc(a->tasks, a->n + 1, sizeof(*a->tasks));
	a->names = xrealloc(a->names, a->n + 1, sizeof(*a->names));
	a->tasks[a->n] = (struct order_task){ n->id, n->element };
	a->names[a->n++] = *n;
}

static void fail(struct asking *q, int code, const char *text)
{
	if (q->code && q->e)
		(void)cmd_fail(CMD_FAILED, q->e->text);
	(void)err_set(q->e, code, "%s", text);
	q->code = q->code ? q->code : code;
}

/* "task 42 runs", "tasks 42, 43.1 and 7 more run" */
static void name_tasks(const struct stopping_afar *a, struct strbuf *b)
{
	size_t told = a->n <= TOLD_MAX + 1 ? a->n : TOLD_MAX;
	char id[ORDER_ID_MAX];

	strbuf_adds(b, a->n == 1 ? "task " : "tasks ");
	for (size_t i = 0; i < told; i++)
		strbuf_addf(b, "%s%s", i ? ", " : "", order_format_task(&a->tasks[i], id));
	if (told < a->n)
		strbuf_addf(b, " and %zu more", a->n - told);
	strbuf_adds(b, a->n == 1 ? " runs" : " run");
}

/* Nobody who could end them answers. taken: somebody has the order. */
static void say_silent(struct asking *q, const struct stopping_afar *a, bool taken)
{
	const struct peer *p = peers_find(&q->peers, a->agent);
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	cleanup_free char *sign = peer_sign(p);
	const char *host = p && p->beat.who.host[0] ? p->beat.who.host : a->agent;
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
			    ", of this node, which does not run (%s): tenure on starts it "
			    "again and takes %s over; then stop %s",
			    sign, them, them);
	else if (!p || p->state == PEER_OFF || p->said_gone)
		strbuf_addf(&b,
			    ", which is not there any more (%s): tenure on there starts one "
			    "that takes %s over; then stop %s",
			    sign, them, them);
	else
		strbuf_addf(&b,
			    ", which does not answer (%s). If that node hangs or is cut off, try "
			    "again when it is back; if it does not exist any more: tenure "
			    "shutdown --gone %s",
			    sign, a->agent);
	fail(q, -EHOSTUNREACH, strbuf_str(&b));
}

static void tell(struct asking *q, const struct stopping_afar *a, size_t i, const char *what)
{
	char id[ORDER_ID_MAX];

	if (!q->s->quiet)
		printf("%s%s%s %s %s\n", order_format_task(&a->tasks[i], id),
		       a->names[i].name[0] ? " " : "", a->names[i].name, what, a->agent);
}

static void add_moved(struct asking *q, const struct stopping_afar *a, size_t i)
{
	struct moved *m;

	q->moved = xrealloc(q->moved, q->n_moved + 1, sizeof(*q->moved));
	m = &q->moved[q->n_moved++];
	*m = (struct moved){ .task = a->tasks[i], .name = a->names[i] };
	(void)str_copy(m->agent, sizeof(m->agent), a->agent);
}

static void tell_results(struct asking *q, const struct stopping_afar *a, const json_t *answer)
{
	const json_t *tasks = json_object_get(answer, "tasks");
	char id[ORDER_ID_MAX];

	for (size_t i = 0; i < a->n; i++) {
		struct err why = ERR_INIT;
		const json_t *one = json_object_get(tasks, order_format_task(&a->tasks[i], id));
		int r = ordering_code(one, &why);
		cleanup_free char *text = xasprintf("task %s on %s: %s", id, a->agent, why.text);

		if (r == 0) {
			tell(q, a, i, q->s->now ? "is killed by" : "is told to end by");
			stopping_warn_unwritten(
				&a->names[i], json_string_value(json_object_get(one, "unwritten")));
		} else if (r == -ENOENT) {
			add_moved(q, a, i);
		} else {
			fail(q, r, text);
		}
	}
	(void)fflush(stdout);
}

static void on_answer(void *user, const struct ordered *one, const json_t *answer)
{
	struct asking *q = user;
	const struct stopping_afar *a = one->data;
	struct err why = ERR_INIT;
	int r = answer ? ordering_code(answer, &why) : 0;
	cleanup_free char *text = xasprintf("the agent %s: %s", a->agent, why.text);

	if (!answer)
		say_silent(q, a, one->state == ORDERED_TAKEN);
	else if (r < 0)
		fail(q, r, text);
	else
		tell_results(q, a, answer);
}

/* One that cannot be sent keeps none of the others from it. */
static void send_all(struct asking *q, struct ordering *o)
{
	struct stopping *s = q->s;

	for (size_t i = 0; i < s->n_afar; i++) {
		struct stopping_afar *a = &s->afar[i];
		struct err why = ERR_INIT;
		int r;
		const struct peer *p = peers_find(&q->peers, a->agent);
		struct order order = { .command = ORDER_STOP,
				       .n = a->n,
				       .tasks = a->tasks,
				       .now = s->now,
				       .sweep = s->sweep_gpus ? SPEC_CLEAN_GPU : SPEC_CLEAN_NONE };

		if (!p || p->state == PEER_OFF || (p->here && p->state == PEER_GONE)) {
			say_silent(q, a, false);
			continue;
		}
		r = ordering_send(o, a->agent, &order, a, &why);
		if (r < 0)
			fail(q, r, why.text);
	}
}

/* Those of other nodes are asked and waited for. */
static void ask_afar(struct asking *q)
{
	struct stopping *s = q->s;
	struct ordering o = { .sp = s->sp };
	struct err why = ERR_INIT;
	int r = peers_read(s->ctx, s->sp, &q->peers, &why);

	if (r == 0)
		send_all(q, &o);
	else
		fail(q, r, why.text);
	ask_agent_to_look(s->ctx);
	ordering_wait(&o, s->afar_ms, on_answer, q);
	ordering_clear(&o);
	peers_clear(&q->peers);
}

static void clear_afar(struct stopping *s)
{
	for (size_t i = 0; i < s->n_afar; i++) {
		free(s->afar[i].tasks);
		free(s->afar[i].names);
	}
	free(take_ptr(s->afar));
	s->n_afar = 0;
}

/* Where it is now it is stopped as if it had been found there; that may be under another agent. */
static void stop_moved(struct asking *q, const struct moved *m)
{
	char id[ORDER_ID_MAX];
	struct err why = ERR_INIT;
	int r = stop_word(q->s, order_format_task(&m->task, id), &why);

	if (r == -ENOENT && !q->s->quiet)
		outcome_say(&q->s->said, 0, "%s%s%s does not run any more under %s\n", id,
			    m->name.name[0] ? " " : "", m->name.name, m->agent);
	else if (r < 0 && r != -ENOENT)
		fail(q, r, why.text);
}

static void commit(struct asking *q)
{
	struct err *e = &q->s->unsynced;

	stopping_commit(q->s);
	if (e->code)
		fail(q, e->code, e->text);
	*e = (struct err)ERR_INIT;
}

static void look_again(struct asking *q, bool last)
{
	char id[ORDER_ID_MAX];

	for (size_t i = 0; i < q->n_moved; i++) {
		const struct moved *m = &q->moved[i];
		cleanup_free char *text =
			xasprintf("task %s is %s's, which does not know it yet, or any more; try "
				  "again",
				  order_format_task(&m->task, id), m->agent);

		if (last)
			fail(q, -EBUSY, text);
		else
			stop_moved(q, m);
	}
	free(take_ptr(q->moved));
	q->n_moved = 0;
	commit(q);
}

int stopping_finish(struct stopping *s, struct err *e)
{
	struct asking q = { .s = s, .e = e };

	/* What could not be synced here is no reason to let others run on. */
	commit(&q);
	for (int round = 1; s->n_afar; round++) {
		ask_afar(&q);
		clear_afar(s);
		look_again(&q, round == ROUNDS);
	}
	return q.code;
}
