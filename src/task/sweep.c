/* SPDX-License-Identifier: MIT */

/*
 * One picture of the node (task/tree.h), and for each process the rules concern the first verdict
 * of a table that spares it. What is expensive, or can wait (environment, command line, program
 * file), is read only for processes that got that far.
 */

#include "task/sweep.h"

#include <errno.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "task/adopt.h"
#include "task/shproto.h"

#define DEV_DIR_ENV "TENURE_DEV_DIR" /* the variable of the setting */

/* Tokens of the shims that live. */
struct tokens {
	char (*v)[TASK_TOKEN_MAX];
	size_t n;
};

struct look {
	const struct sweep_rules *rules;
	struct tree tree;
	struct tokens live;
	bool *tenure;  /* by index in tree: a process of this program, of our user */
	char *machine; /* "TENURE_DEV_DIR=..." of those on these devices; NULL: this machine */
};

/* Guards and fork servers run from a copy in memory; replaced files have " (deleted)" behind. */
static bool is_tenure(const struct tree_proc *p)
{
	char name[256];

	(void)proc_program(p->id.pid, name, sizeof(name));
	if (str_has_prefix(name, "memfd:tenure"))
		return true;
	return strcmp(name, "tenure") == 0 || strcmp(name, "tenure (deleted)") == 0;
}

static const char *const what_names[] = { [SWEEP_GPU] = "gpu", [SWEEP_PYTHON] = "python" };

_Static_assert(ARRAY_LEN(what_names) == SWEEP_WHAT_MAX, "everything has a name");

const char *sweep_what_name(unsigned int what)
{
	return what < SWEEP_WHAT_MAX ? what_names[what] : "?";
}

unsigned int sweep_of_setting(unsigned int setting)
{
	const char *job = getenv(SWEEP_JOB_ENV);

	switch ((enum sweep_setting)setting) {
	case SWEEP_SET_AUTO:
		return job && *job ? SWEEP_BIT(SWEEP_PYTHON) : 0;
	case SWEEP_SET_GPU:
		return SWEEP_BIT(SWEEP_GPU);
	case SWEEP_SET_PYTHON:
		return SWEEP_BIT(SWEEP_PYTHON);
	case SWEEP_SET_NONE:
		break;
	}
	return 0;
}

static uid_t owner(pid_t pid)
{
	struct proc_peek peek;

	return proc_peek(pid, &peek) < 0 ? (uid_t)-1 : peek.uid;
}

static bool concerns(const struct look *l, const struct tree_proc *p)
{
	if (p->state == 'Z' || p->state == 'X')
		return false;
	if (l->rules->what == SWEEP_PYTHON)
		return proc_is_python(p->id.pid, p->comm);
	for (size_t i = 0; i < l->rules->n_pids; i++)
		if (l->rules->pids[i] == p->id.pid)
			return true;
	return false;
}

static int of_another(const struct look *l, const struct sweep_item *it)
{
	return owner(it->proc.id.pid) != getuid();
}

/*
 * Who was told of a directory of device nodes of its own is on a machine of its own (tenure sim),
 * and none outside is any business of its.
 */
static int of_another_machine(const struct look *l, const struct sweep_item *it)
{
	int r = l->machine ? tree_has_env(it->proc.id.pid, l->machine) : 1;

	return r < 0 ? r : !r;
}

static int of_ourselves(const struct look *l, const struct sweep_item *it)
{
	return tree_descends(&l->tree, tree_find(&l->tree, getpid()), it->proc.id.pid);
}

static int of_tenure(const struct look *l, const struct sweep_item *it)
{
	const struct tree_proc *p = tree_find(&l->tree, it->proc.id.pid);
	char name_value[TASK_TOKEN_MAX + 32];
	int r = 0;

	for (size_t steps = 0; p && steps <= l->tree.n; steps++) {
		if (l->tenure[p - l->tree.procs])
			return true;
		p = tree_find(&l->tree, p->parent);
	}
	for (size_t i = 0; r == 0 && i < l->live.n; i++) {
		(void)str_print(name_value, sizeof(name_value), "%s=%s", TASK_TOKEN_ENV,
				l->live.v[i]);
		r = tree_has_env(it->proc.id.pid, name_value);
	}
	return r;
}

static int of_another_job(const struct look *l, const struct sweep_item *it)
{
	if (l->rules->what != SWEEP_PYTHON || !l->rules->in_other_job)
		return 0;
	return l->rules->in_other_job(l->rules->of_job, it->proc.id.pid);
}

static int of_terminal(const struct look *l, const struct sweep_item *it)
{
	return l->rules->what == SWEEP_PYTHON && it->proc.tty != 0;
}

static int of_pattern(const struct look *l, const struct sweep_item *it)
{
	for (size_t i = 0; i < l->rules->n_spare; i++) {
		const char *pattern = l->rules->spare[i];

		if (strpbrk(pattern, "*?[") ? fnmatch(pattern, it->command, 0) == 0
					    : strstr(it->command, pattern) != NULL)
			return true;
	}
	return false;
}

static const struct rule {
	enum sweep_verdict verdict;
	/* 1, 0, or what proc_is_no_answer(): this time it does */
	int (*spares)(const struct look *l, const struct sweep_item *it);
} rules_in_order[] = {
	{ SWEEP_USER, of_another },
	{ SWEEP_SELF, of_ourselves },
	{ SWEEP_MACHINE, of_another_machine },
	{ SWEEP_JOB, of_another_job },
	{ SWEEP_TERMINAL, of_terminal },
	{ SWEEP_PATTERN, of_pattern },
	{ SWEEP_TENURE, of_tenure },
};

static const char *const verdict_texts[] = {
	[SWEEP_END] = "to be ended",
	[SWEEP_SELF] = "spared: it is this program or started it",
	[SWEEP_TENURE] = "spared: it runs under tenure",
	[SWEEP_JOB] = "spared: it is of another job",
	[SWEEP_TERMINAL] = "spared: its session has a terminal",
	[SWEEP_PATTERN] = "spared: it matches a pattern to be spared",
	[SWEEP_USER] = "left alone: another user's",
	[SWEEP_MACHINE] = "left alone: outside of this machine (TENURE_DEV_DIR)",
};
_Static_assert(ARRAY_LEN(verdict_texts) == SWEEP_VERDICT_MAX, "a text for every verdict");

const char *sweep_verdict_text(enum sweep_verdict v)
{
	return v < SWEEP_VERDICT_MAX ? verdict_texts[v] : "?";
}

static void judge(const struct look *l, struct sweep_item *it)
{
	it->verdict = SWEEP_END;
	for (size_t i = 0; i < ARRAY_LEN(rules_in_order); i++) {
		int r = rules_in_order[i].spares(l, it);

		if (!r)
			continue;
		it->verdict = rules_in_order[i].verdict;
		it->unsure = r < 0;
		return;
	}
}

static void add_token(void *data, const char *token)
{
	struct tokens *t = data;

	t->v = xrealloc(t->v, t->n + 1, sizeof(*t->v));
	(void)str_copy(t->v[t->n++], sizeof(*t->v), token);
}

static void add_item(struct sweep_list *list, const struct sweep_item *it)
{
	if (list->n == list->room) {
		list->room = list->room ? 2 * list->room : 32;
		list->items = xrealloc(list->items, list->room, sizeof(*list->items));
	}
	list->items[list->n++] = *it;
}

static void look_clear(struct look *l)
{
	tree_clear(&l->tree);
	free(l->live.v);
	free(l->tenure);
	free(l->machine);
}

/* The picture, and in it the processes of this program. */
static int look_begin(struct look *l)
{
	const char *nodes = getenv(DEV_DIR_ENV);
	int r = tree_scan(&l->tree);

	if (r < 0)
		return r;
	l->machine = nodes && *nodes ? xasprintf("%s=%s", DEV_DIR_ENV, nodes) : NULL;
	l->tenure = xcalloc(l->tree.n + 1, sizeof(*l->tenure));
	for (size_t i = 0; i < l->tree.n; i++) {
		const struct tree_proc *p = &l->tree.procs[i];

		/* Who made this machine is outside of it, and all in it descend from that. */
		l->tenure[i] = p->id.pid != getpid() && owner(p->id.pid) == getuid() &&
			       is_tenure(p) &&
			       (!l->machine || tree_has_env(p->id.pid, l->machine) != 0);
	}
	return adopt_each(add_token, &l->live);
}

int sweep_look(const struct sweep_rules *rules, struct sweep_list *ret, struct err *e)
{
	struct look l = { .rules = rules };
	int r = look_begin(&l);

	ret->n = 0;
	for (size_t i = 0; r == 0 && i < l.tree.n; i++) {
		struct sweep_item it = { .proc = l.tree.procs[i] };

		if (!concerns(&l, &it.proc))
			continue;
		(void)proc_describe(it.proc.id.pid, it.command, sizeof(it.command));
		judge(&l, &it);
		add_item(ret, &it);
	}
	look_clear(&l);
	return r < 0 ? err_sys(e, -r, "list the processes") : 0;
}

void sweep_list_clear(struct sweep_list *l)
{
	free(l->items);
	*l = (struct sweep_list){ 0 };
}

struct sweeper {
	const struct sweep_rules *rules;
	struct sweep_list list;
	struct proc_id *meant; /* of the list that it began with, and what these have started */
	size_t n_meant;
	struct ender ender;
	int signal;
	uint64_t kill_at_ns;
};

static void mean(struct sweeper *s, const struct proc_id *id)
{
	s->meant = xrealloc(s->meant, s->n_meant + 1, sizeof(*s->meant));
	s->meant[s->n_meant++] = *id;
}

struct sweeper *sweep_begin(const struct sweep_rules *rules, const struct sweep_list *list,
			    int stop_signal, uint32_t grace_ms)
{
	struct sweeper *s = xcalloc(1, sizeof(*s));

	s->rules = rules;
	s->signal = stop_signal ? stop_signal : SIGTERM;
	s->kill_at_ns = clock_mono_ns() + grace_ms * NS_PER_MS;
	for (size_t i = 0; i < list->n; i++)
		if (list->items[i].verdict == SWEEP_END)
			mean(s, &list->items[i].proc.id);
	ender_begin(&s->ender);
	return s;
}

/*
 * Who starts while others still take their grace is not meant, unless they have started it. The
 * time of a start says nothing about that: it is known to a hundredth of a second, in which one
 * process ends and its owner starts the next.
 */
static bool is_meant(struct sweeper *s, const struct tree_proc *p)
{
	for (size_t i = 0; i < s->n_meant; i++) {
		const struct proc_id *m = &s->meant[i];

		if (p->id.pid == m->pid && p->id.start == m->start)
			return true;
		if (p->parent != m->pid && p->session != m->pid)
			continue;
		mean(s, &p->id);
		return true;
	}
	return false;
}

int sweep_step(struct sweeper *s)
{
	struct tree t = { 0 };
	int r = sweep_look(s->rules, &s->list, NULL), unsure = 0;

	if (r < 0)
		return r;
	t.procs = xcalloc(s->list.n + 1, sizeof(*t.procs));
	for (size_t i = 0; i < s->list.n; i++) {
		const struct sweep_item *it = &s->list.items[i];

		if (!(it->verdict == SWEEP_END || it->unsure) || !is_meant(s, &it->proc))
			continue;
		if (it->unsure)
			unsure++;
		else
			t.procs[t.n++] = it->proc;
	}
	ender_pass(&s->ender, &t, clock_mono_ns() < s->kill_at_ns ? s->signal : SIGKILL);
	tree_clear(&t);
	return (int)s->ender.ours + unsure;
}

struct sweeper *sweep_free(struct sweeper *s)
{
	if (!s)
		return NULL;
	sweep_list_clear(&s->list);
	free(s->meant);
	ender_clear(&s->ender);
	free(s);
	return NULL;
}
