/* SPDX-License-Identifier: MIT */
#include "cli/alloc/live.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"

#define SHOWN_NAMES   8
#define PROGRAM_SHOWN 60

static int add_one(const struct spool *sp, struct live_allocs *l, const struct scan_task *t,
		   const struct alloc_mark *mark, struct err *e)
{
	struct live_alloc *a;

	l->all = xgrow(l->all, l->n, sizeof(*l->all));
	a = &l->all[l->n++];
	*a = (struct live_alloc){ .task = *t, .kind = mark->kind };
	(void)str_copy(a->pool, sizeof(a->pool), mark->pool);
	a->node_gpus = mark->gpus;
	return alloc_state_read(sp, t->name.id, &a->state, e);
}

/* The queue first: a mark is there before its task is. */
int live_allocs_read(const struct spool *sp, struct live_allocs *ret, struct err *e)
{
	struct task_set active = { .n = 0 };
	struct alloc_marks marks = { .n = 0 };
	int r;

	*ret = (struct live_allocs){ .n = 0 };
	r = select_all(sp, &active, e);
	if (r == 0)
		r = alloc_marks_read(sp, &marks, e);
	for (size_t i = 0; i < active.n && r == 0; i++) {
		const struct scan_task *t = &active.tasks[i];
		const struct alloc_mark *mark = alloc_marks_find(&marks, t->name.id);

		if (mark && !t->name.element)
			r = add_one(sp, ret, t, mark, e);
	}
	free(active.tasks);
	alloc_marks_clear(&marks);
	return r;
}

void live_allocs_clear(struct live_allocs *l)
{
	free(l->all);
	*l = (struct live_allocs){ .n = 0 };
}

const struct live_alloc *live_allocs_find(const struct live_allocs *l, const char *word,
					  struct err *e)
{
	cleanup_strbuf struct strbuf names = STRBUF_INIT;
	uint64_t id = 0, element = 0;

	(void)ident_parse_id(word, &id, &element);
	for (size_t i = 0; i < l->n; i++) {
		const struct task_name *n = &l->all[i].task.name;

		if (strcmp(n->name, word) == 0 || (n->id == id && !element))
			return &l->all[i];
		strbuf_add_some(&names, i, SHOWN_NAMES, "%s", n->name);
	}
	strbuf_add_more(&names, l->n, SHOWN_NAMES);
	(void)err_set(e, -ENOENT, "there is no allocation \"%s\"%s%s%s", word,
		      names.len ? "; there are: " : "", strbuf_str(&names),
		      names.len ? "" : " (tenure alloc makes one)");
	return NULL;
}

bool live_alloc_runs(const struct live_alloc *a)
{
	return a->task.dir == SPOOL_RUNNING && a->state.host[0];
}

char *live_alloc_has(const struct live_alloc *a)
{
	const char *gpus = a->state.gpus;

	if (gpus[0] >= '0' && gpus[0] <= '9')
		return xasprintf("GPU %s of %s", gpus,
				 a->task.name.agent[0] ? a->task.name.agent : a->state.host);
	return xasprintf("%u GPU%s of %s", alloc_count_gpus(gpus),
			 alloc_count_gpus(gpus) == 1 ? "" : "s",
			 a->task.name.agent[0] ? a->task.name.agent : a->state.host);
}

char *live_alloc_program(const struct spool *sp, const struct live_alloc *a)
{
	struct task_spec *spec = NULL;
	struct strbuf b = STRBUF_INIT;

	if (!a->state.order ||
	    alloc_order_read(sp, a->task.name.id, a->state.order, &spec, NULL) < 0)
		return xstrdup("");
	if (spec->script)
		strbuf_adds(&b, spec->script_name ? spec->script_name : "a script");
	if (spec->commands.n)
		strbuf_adds(&b, spec->commands.texts[0]);
	for (size_t i = 0; i < spec->argv.n; i++)
		strbuf_add_word_in_line(&b, spec->argv.texts[i]);
	for (size_t i = 0; i < spec->args.n; i++)
		strbuf_add_word_in_line(&b, spec->args.texts[i]);
	(void)spec_free(spec);

	cleanup_free char *whole = strbuf_take(&b);
	char shown[PROGRAM_SHOWN + 1];

	if (str_copy(shown, sizeof(shown), whole))
		return xstrdup(shown);
	return xasprintf("%s..", shown);
}

static json_t *moment(uint64_t ns)
{
	char text[CLOCK_TEXT_MAX];

	return ns ? json_string(clock_format_iso(ns, text)) : json_null();
}

unsigned int live_alloc_gpus(const struct live_alloc *a)
{
	return live_alloc_runs(a) ? alloc_count_gpus(a->state.gpus)
				  : (unsigned int)a->task.name.gpus;
}

unsigned int live_alloc_counts(const struct live_alloc *a)
{
	unsigned int n = live_alloc_gpus(a);

	return a->node_gpus > n ? a->node_gpus : n;
}

json_t *live_alloc_json(const struct spool *sp, const struct live_alloc *a)
{
	const struct task_name *n = &a->task.name;
	const struct alloc_state *st = &a->state;
	cleanup_free char *program = live_alloc_program(sp, a);
	bool runs = live_alloc_runs(a);

	return json_pack(
		"{s:I, s:s, s:s, s:I, s:s, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "id",
		(json_int_t)n->id, "name", n->name, "kind", alloc_kind_name(a->kind), "gpus",
		(json_int_t)live_alloc_gpus(a), "state", runs ? "allocated" : "waiting", "agent",
		runs && n->agent[0] ? json_string(n->agent) : json_null(), "devices",
		runs ? json_new_text(st->gpus) : json_null(), "phase", alloc_phase_name(st->phase),
		"order", st->order ? json_integer(st->order) : json_null(), "program",
		program[0] ? json_new_text(program) : json_null(), "began", moment(st->began_ns),
		"ended", moment(st->ended_ns), "exit",
		st->phase == ALLOC_ENDED ? json_integer(st->exit) : json_null(), "error",
		st->error[0] ? json_new_text(st->error) : json_null());
}

struct alloc_limits live_limits(const struct settings *s)
{
	return (struct alloc_limits){
		.total = (unsigned int)settings_num(s, SET_ALLOC_TOTAL),
		.base = (unsigned int)settings_num(s, SET_ALLOC_BASE),
		.manual = (unsigned int)settings_num(s, SET_ALLOC_MANUAL),
		.per_alloc = (unsigned int)settings_num(s, SET_ALLOC_EACH),
	};
}

int live_allocs_check(const struct live_allocs *l, const struct alloc_job *jobs, size_t n_jobs,
		      const struct alloc_limits *limits, enum alloc_kind kind, unsigned int gpus,
		      struct alloc_refusal *ret, struct err *e)
{
	cleanup_free struct alloc_use *uses = xcalloc(l->n + 1, sizeof(*uses));
	const struct alloc_has has = { .uses = uses, .n = l->n, .jobs = jobs, .n_jobs = n_jobs };

	for (size_t i = 0; i < l->n; i++)
		uses[i] = (struct alloc_use){ .name = l->all[i].task.name.name,
					      .kind = l->all[i].kind,
					      .gpus = live_alloc_counts(&l->all[i]) };
	return alloc_check_limits(limits, &has, kind, gpus, ret, e);
}
