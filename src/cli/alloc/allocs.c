/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "cli/alloc/live.h"
#include "cli/commands.h"
#include "cli/instance.h"
#include "cli/table.h"
#include "cli/task/why.h"
#include "spool/instance.h"

/* "for 5m 03s" */
static void add_since(struct strbuf *b, const char *word, uint64_t since_ns)
{
	uint64_t now_ns = clock_wall_ns();
	char text[UNIT_TEXT_MAX];

	if (since_ns && since_ns <= now_ns)
		strbuf_addf(b, "%s%s", word,
			    unit_format_duration((now_ns - since_ns) / NS_PER_S * 1000, text));
}

static void add_program(const struct cmd_ctx *ctx, const struct spool *sp,
			const struct live_alloc *a, struct strbuf *b)
{
	const struct alloc_state *st = &a->state;
	cleanup_free char *program = live_alloc_program(sp, a);
	cleanup_free char *option = instance_option(ctx);

	switch (st->phase) {
	case ALLOC_RUNNING:
		strbuf_addf(b, "%s", program);
		add_since(b, ", for ", st->began_ns);
		break;
	case ALLOC_ENDED:
		strbuf_addf(b, "%s has ended (%s %u)", program[0] ? program : "its program",
			    st->exit >= NAME_SIGNALLED ? "signal" : "exit code",
			    st->exit & (NAME_SIGNALLED - 1));
		if (st->error[0])
			strbuf_addf(b, ": %s", st->error);
		break;
	case ALLOC_WAITING:
	case ALLOC_PHASE_MAX:
		strbuf_addf(b, "nothing; tenure start%s %s -- COMMAND", option, a->task.name.name);
		break;
	}
}

static void add_row(const struct cmd_ctx *ctx, const struct spool *sp, struct table *t,
		    const struct live_alloc *a)
{
	const struct task_name *n = &a->task.name;
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	struct task_place place;
	char id[24], gpus[24];
	bool runs = live_alloc_runs(a);

	if (runs)
		add_program(ctx, sp, a, &b);
	else if (select_by_id(sp, n->id, 0, &place, NULL) == 0)
		(void)why_of(ctx, sp, &place, &b, NULL);
	table_add(t, runs ? TERM_GREEN : TABLE_PLAIN, n->name,
		  str_print(id, sizeof(id), "%" PRIu64, n->id),
		  str_print(gpus, sizeof(gpus), "%u", live_alloc_gpus(a)),
		  runs ? a->state.gpus : "-", runs && n->agent[0] ? n->agent : "-", strbuf_str(&b));
}

static void print_table(const struct cmd_ctx *ctx, const struct spool *sp,
			const struct live_allocs *l)
{
	static const struct table_column columns[] = {
		{ "NAME", .cut = 8 },
		{ "ID", true },
		{ "GPUS", true },
		{ "WHICH", .cut = 8 },
		{ "NODE", .cut = 8 },
		{ "WHAT RUNS" },
		{ 0 },
	};
	struct table *t = table_new(columns);

	for (size_t i = 0; i < l->n; i++)
		add_row(ctx, sp, t, &l->all[i]);
	table_print(t, stdout);
	(void)table_free(t);
}

static void print_sum(const struct cmd_ctx *ctx, const struct live_allocs *l)
{
	struct alloc_limits limits = live_limits(ctx->settings);
	unsigned int n = 0;
	char most[32] = "";

	for (size_t i = 0; i < l->n; i++)
		n += live_alloc_counts(&l->all[i]);
	if (limits.total)
		(void)str_print(most, sizeof(most), " of %u", limits.total);
	printf("%zu allocation%s with %u%s GPUs\n", l->n, l->n == 1 ? "" : "s", n, most);
}

static void print_json(const struct cmd_ctx *ctx, const struct spool *sp,
		       const struct live_allocs *l)
{
	struct alloc_limits limits = live_limits(ctx->settings);
	json_t *all = json_array();

	for (size_t i = 0; sp && i < l->n; i++)
		(void)json_array_append_new(all, live_alloc_json(sp, &l->all[i]));
	cmd_print_json(json_pack("{s:o, s:{s:I, s:I, s:I, s:I}}", "allocations", all, "limits",
				 "max_total_gpus", (json_int_t)limits.total, "max_manual_gpus",
				 (json_int_t)limits.manual, "max_gpus_per_task",
				 (json_int_t)limits.per_alloc, "base_gpus",
				 (json_int_t)limits.base));
}

static int run_allocs(const struct cmd_ctx *ctx, struct err *e)
{
	struct live_allocs live = { .n = 0 };
	struct spool *sp = NULL;
	bool json = opts_flag(ctx->opts, "json");
	int r = instance_open_if_there(ctx, SPOOL_LOOK, &sp, e);

	if (r == 0 && sp)
		r = live_allocs_read(sp, &live, e);
	if (r == 0 && json)
		print_json(ctx, sp, &live);
	else if (r == 0 && live.n) {
		print_table(ctx, sp, &live);
		print_sum(ctx, &live);
	} else if (r == 0 && sp)
		printf("Nothing is allocated in instance \"%s\"; tenure alloc NAME -g N takes GPUs.\n",
		       spool_instance(sp));
	live_allocs_clear(&live);
	sp = spool_close(sp);
	return r;
}

static const struct cmd_example allocs_examples[] = {
	{ "tenure allocs", "who has which GPUs, and what runs there" },
	{ 0 },
};

const struct cmd cmd_allocs = {
	.name = "allocs",
	.group = ALLOC_GROUP,
	.summary = "allocations, and what runs in them",
	.description = "Those that have their GPUs, and those that wait, with the reason. Works "
		       "without an agent.",
	.examples = allocs_examples,
	.flags = CMD_JSON,
	.setting_groups = SETTING_GROUP_QUEUE | SETTING_GROUP_AGENT | SETTING_GROUP_ALLOC,
	.run = run_allocs,
};
