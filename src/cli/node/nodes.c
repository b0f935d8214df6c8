/* SPDX-License-Identifier: MIT */

/*
 * What is free on the nodes of a cluster. The engine is asked by the one command that counts its
 * nodes, and its answer is shared by all of a user's commands for a minute (engine/inventory.h);
 * what is ours among it is read from the files of his queues (nodes_ours.h).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/node/nodes_show.h"
#include "cli/screen.h"
#include "engine/engine.h"
#include "engine/inventory.h"
#include "engine/keys.h"
#include "sched/fit.h"

extern char **environ;

#define ENGINES_MAX	 16
#define KEYS_MAX	 32
#define SECTIONS_MAX	 16
#define MACHINE_PAUSE_MS 2000
#define WORDS_MAX	 (KEYS_MAX + 1)

/* One look at all of it. */
struct look {
	const struct cmd_ctx *ctx;
	char *cache;
	const char *type;
	uint64_t max_age_ms, pause_ms;
	bool found; /* the engines were not named by anybody: whoever answers here */
	struct ours ours;
	size_t n;
	struct nodes_section sections[SECTIONS_MAX];
};

/* -------- which engines -------- */

static bool same_settings(const struct text_list *a, const struct text_list *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (!text_list_has(b, a->texts[i]))
			return false;
	return true;
}

/* Once for all pools that say the same. */
static void add_section(struct look *l, const struct engine *engine,
			const struct text_list *settings)
{
	/* This machine is the same whatever a pool says of it. */
	static const struct text_list none = { .n = 0 };

	if (engine == &engine_local)
		settings = &none;
	for (size_t i = 0; i < l->n; i++)
		if (l->sections[i].engine == engine &&
		    same_settings(&l->sections[i].settings, settings))
			return;
	if (l->n < SECTIONS_MAX)
		l->sections[l->n++] =
			(struct nodes_section){ .engine = engine,
						.settings = text_list_copy(settings) };
}

/* Those of this instance's pools; engine NULL: of any engine. */
static void add_pools(struct look *l, const struct engine *engine)
{
	for (size_t i = 0; i < l->ours.pools.n; i++) {
		const struct pool_shown *p = &l->ours.pools.all[i];
		const struct engine *its = engine_find(p->pool.engine);

		if (its && (!engine || its == engine) && !p->error && !pools_is_over(p) &&
		    strcmp(p->instance, l->ours.instance) == 0)
			add_section(l, its, &p->pool.settings);
	}
}

/* What the settings' files say of that engine, or, with NULL, of the one that they name. */
static bool read_configured(const struct look *l, const struct engine *engine,
			    const struct engine **ret_engine, struct text_list *ret)
{
	const char *name = settings_str(l->ctx->settings, SET_ENGINE);
	const struct engine *its = name ? engine_find(name) : NULL;

	if (!its || (engine && its != engine))
		return false;
	*ret_engine = its;
	text_list_add_lines(ret, settings_str(l->ctx->settings, SET_ENGINE_SETTINGS));
	return true;
}

/* What a job needs, an inventory does not. */
static int check_keys(const struct engine *eng, const struct text_list *settings, struct err *e)
{
	struct engine_key keys[KEYS_MAX] = { { .name = NULL } };

	for (size_t i = 0; eng->keys && eng->keys[i].name && i + 1 < KEYS_MAX; i++) {
		keys[i] = eng->keys[i];
		keys[i].needed = false;
	}
	return engine_keys_check(eng->name, keys, settings, e) < 0 ? CMD_USAGE : CMD_OK;
}

static int unknown_engine(const char *name, struct err *e)
{
	const char *names[ENGINES_MAX] = { NULL };
	cleanup_strbuf struct strbuf known = STRBUF_INIT;
	const char *near;

	for (size_t i = 0; engine_at(i) && i + 1 < ENGINES_MAX; i++) {
		names[i] = engine_at(i)->name;
		strbuf_addf(&known, "%s%s", i ? ", " : "", names[i]);
	}
	near = str_nearest(name, names);
	(void)err_set(e, -EINVAL, "there is no engine \"%s\"%s%s; there are %s", name,
		      near ? ": did you mean " : "", near ? near : "", strbuf_str(&known));
	return CMD_USAGE;
}

/* The one that was named, with the settings that were, or those of its pools. */
static int choose_named(struct look *l, const char *name, struct err *e)
{
	const struct opts *opts = l->ctx->opts;
	const struct engine *engine = engine_find(name), *configured;
	struct text_list settings = { .n = 0 };
	int r = CMD_OK;

	if (!engine)
		return unknown_engine(name, e);
	if (opts_argc(opts) == 1)
		add_pools(l, engine);
	if (l->n)
		return CMD_OK;
	(void)read_configured(l, engine, &configured, &settings);
	for (size_t i = 1; i < opts_argc(opts); i++)
		text_list_set_variable(&settings, opts_arg(opts, i));
	if (opts_argc(opts) > 1)
		r = check_keys(engine, &settings, e);
	if (r == CMD_OK)
		add_section(l, engine, &settings);
	text_list_clear(&settings);
	return r;
}

static void choose(struct look *l)
{
	struct text_list settings = { .n = 0 };
	const struct engine *engine;

	add_pools(l, NULL);
	if (!l->n && read_configured(l, NULL, &engine, &settings))
		add_section(l, engine, &settings);
	text_list_clear(&settings);
	l->found = !l->n;
	for (size_t i = 0; l->found && (engine = engine_at(i)); i++)
		if (engine != &engine_local)
			add_section(l, engine, &(const struct text_list){ .n = 0 });
}

/* -------- what they have -------- */

static void section_clear(struct nodes_section *s)
{
	text_list_clear(&s->settings);
	inventory_clear(&s->inventory);
	node_devices_clear(&s->devices);
	free(take_ptr(s->ours));
}

/* Without what is of another type. */
static void keep_type(struct nodes_section *s, const char *type)
{
	struct engine_nodes kept = { .n = 0 }, *nodes = &s->inventory.nodes;
	size_t n = 0;

	for (size_t i = 0; i < nodes->n; i++) {
		struct engine_node *node = &nodes->all[i];

		if (!fit_model(type, node->type))
			continue;
		*engine_nodes_add(&kept) = *node;
		*node = (struct engine_node){ .name = NULL };
	}
	engine_nodes_clear(nodes);
	*nodes = kept;
	for (size_t i = 0; i < s->devices.n; i++)
		if (fit_model(type, s->devices.all[i].name))
			s->devices.all[n++] = s->devices.all[i];
	s->devices.n = n;
}

static void read_machine(struct look *l, struct nodes_section *s)
{
	s->r = node_devices_read(l->ctx, &s->devices, &s->e);
	s->inventory = (struct inventory){ .known = s->r == 0, .asked_ns = clock_wall_ns() };
	if (s->r == 0 && l->type)
		keep_type(s, l->type);
	node_devices_sum(&s->devices, &s->inventory.nodes, &s->ours);
}

static void read_engine(struct look *l, struct nodes_section *s)
{
	const struct engine_env env = { .environ = (const char *const *)environ,
					.settings = &s->settings };
	char ago[UNIT_TEXT_MAX];

	s->r = inventory_read(s->engine, &env, l->cache, l->max_age_ms, &s->inventory, &s->e);
	if (s->r < 0)
		(void)err_wrap(&s->e, "cannot count the GPUs of %s", s->engine->name);
	if (s->r < 0 && s->inventory.known) {
		cleanup_free char *text = xasprintf(
			"%s; what is shown is what it said %s ago", s->e.text,
			unit_format_duration(s->inventory.age_ms / MS_PER_S * MS_PER_S, ago));

		(void)err_set(&s->e, s->r, "%s", text);
	}
	if (l->type)
		keep_type(s, l->type);
	s->ours = ours_on(&l->ours, s->engine->name, &s->inventory.nodes);
}

/* Of one that has not answered: its commands, and what tells them where it is, are here. One that
 * wants to be told more first (-EINVAL) is nobody's yet. */
static bool is_here(const struct nodes_section *s)
{
	const struct engine_env env = { .environ = (const char *const *)environ,
					.settings = &s->settings };

	return s->r != -ENOENT && s->r != -EINVAL && s->engine->probe(&env, NULL) != -ENOENT;
}

/* Of those that were tried only who has answered, now or before, stays, and where none has, this
 * machine. Those that fail are told of, and are no failure of the command. */
static void keep_found(struct look *l)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++) {
		struct nodes_section *s = &l->sections[i];

		if (s->inventory.known) {
			l->sections[n++] = *s;
			continue;
		}
		if (is_here(s))
			cmd_warn("note", "%s", s->e.text);
		section_clear(s);
	}
	l->n = n;
	if (n)
		return;
	add_section(l, &engine_local, &(const struct text_list){ .n = 0 });
	read_machine(l, &l->sections[0]);
	if (l->sections[0].r < 0)
		(void)err_wrap(&l->sections[0].e,
			       "no engine answers here (tenure engines says why)");
}

static int look(struct look *l, struct err *e)
{
	const char *name = opts_arg(l->ctx->opts, 0);
	int r = CMD_OK;

	ours_read(l->ctx, &l->ours);
	if (name)
		r = choose_named(l, name, e);
	else
		choose(l);
	for (size_t i = 0; r == CMD_OK && i < l->n; i++) {
		struct nodes_section *s = &l->sections[i];

		if (s->engine == &engine_local)
			read_machine(l, s);
		else
			read_engine(l, s);
	}
	if (r == CMD_OK && l->found)
		keep_found(l);
	return r;
}

static void forget(struct look *l)
{
	for (size_t i = 0; i < l->n; i++)
		section_clear(&l->sections[i]);
	l->n = 0;
	ours_clear(&l->ours);
}

/* -------- what is said of it -------- */

static void show(const struct look *l)
{
	const struct nodes_shown shown = { .ours = &l->ours,
					   .sections = l->sections,
					   .n = l->n,
					   .type = l->type,
					   .only_free = opts_flag(l->ctx->opts, "free"),
					   .lines = screen_lines(l->ctx) };

	if (!opts_flag(l->ctx->opts, "json"))
		nodes_print(&shown);
	else if (screen_is_asked(l->ctx))
		cmd_print_json_line(nodes_json(&shown));
	else
		cmd_print_json(nodes_json(&shown));
}

/* CMD_OK, or CMD_FAILED with what is wrong with the last of those that fail; the others are warned
 * of. */
static int tell_failures(const struct look *l, struct err *e)
{
	const struct nodes_section *last = NULL;

	for (size_t i = 0; i < l->n; i++) {
		if (l->sections[i].r == 0)
			continue;
		if (last)
			cmd_warn("warning", "%s", last->e.text);
		last = &l->sections[i];
	}
	if (!last)
		return CMD_OK;
	(void)err_set(e, last->r, "%s", last->e.text);
	return CMD_FAILED;
}

/* Until the answer of an engine is too old. */
static uint64_t pace_of(void *user)
{
	const struct look *l = user;

	return l->pause_ms;
}

static void set_pace(struct look *l)
{
	uint64_t ms = INVENTORY_MAX_AGE_MS;

	for (size_t i = 0; i < l->n; i++) {
		const struct nodes_section *s = &l->sections[i];
		uint64_t age_ms = s->r < 0 ? 0 : s->inventory.age_ms;
		uint64_t left = s->engine == &engine_local || age_ms > INVENTORY_MAX_AGE_MS
					? 0
					: INVENTORY_MAX_AGE_MS - age_ms;

		ms = left < ms ? left : ms;
	}
	l->pause_ms = ms > MACHINE_PAUSE_MS ? ms : MACHINE_PAUSE_MS;
}

static int look_once(void *user, struct err *e)
{
	struct look *l = user;
	int r = look(l, e);

	if (r == CMD_OK)
		show(l);
	if (r == CMD_OK)
		r = tell_failures(l, e);
	set_pace(l);
	forget(l);
	l->max_age_ms = INVENTORY_MAX_AGE_MS; /* once it was as fresh as was asked for */
	return r;
}

static int run_nodes(const struct cmd_ctx *ctx, struct err *e)
{
	cleanup_free char *cache = fs_cache_dir();
	const struct value *type = opts_value(ctx->opts, "type");
	struct look *l = xcalloc(1, sizeof(*l));
	int r;

	*l = (struct look){ .ctx = ctx,
			    .cache = cache,
			    .type = type && type->str && type->str[0] ? type->str : NULL,
			    .max_age_ms = opts_flag(ctx->opts, "fresh") ? INVENTORY_RETRY_MS
									: INVENTORY_MAX_AGE_MS };
	r = screen_is_asked(ctx) ? screen_watch_paced(ctx, look_once, pace_of, l, e)
				 : look_once(l, e);
	free(l);
	return r;
}

static const struct opt nodes_opts[] = {
	{ .name = "type",
	  .spec = { VALUE_TEXT, .max = 256 },
	  .arg = "PATTERN",
	  .help = "only GPUs of such a type, counted and listed: a10, '*H200*', a10,a40" },
	{ .name = "free",
	  .spec = { VALUE_FLAG },
	  .help = "list only nodes of which a job could get a GPU now; all are counted" },
	SCREEN_OPTS_PACED("2s for this machine, a minute for an engine"),
	{ .name = "fresh",
	  .spec = { VALUE_FLAG },
	  .help = "ask the engine anew if its answer is more than 5 s old, and not a minute" },
	{ 0 },
};

static const struct cmd_example nodes_examples[] = {
	{ "tenure nodes", "what is free on the nodes of this queue's engine, or on this machine" },
	{ "tenure nodes --free --type a10", "the nodes of which a job could get an A10 now" },
	{ "tenure nodes slurm partition=long", "those of one partition" },
	{ "tenure nodes sge queue=gpu@@crc_gpu complex=gpu_card",
	  "the hosts of a group, where GPUs are counted by that resource" },
	{ "tenure nodes --watch", "the same again and again" },
	{ "tenure nodes --json", "for programs" },
	{ 0 },
};

const struct cmd cmd_nodes = {
	.name = "nodes",
	.group = QUEUE_GROUP,
	.summary = "what is free on each node of a cluster, and what is ours",
	.args = "[ENGINE [KEY=VALUE...]]",
	.words = { WORDS_ENGINES },
	.max_args = WORDS_MAX,
	.description =
		"Without ENGINE: the engines of this queue's pools, as these are set; without pools "
		"the one that the settings name, else every one that answers here; where none does, "
		"this machine (which is also \"local\"). KEY=VALUE are what a pool would set "
		"(docs/cluster.md).\n\n"
		"\"Free\" GPUs a job could get now. \"Blocked\" ones are free, and no job gets them, "
		"because no processor or no memory of their node is left. \"Out of use\": nobody has "
		"them, and their node takes no jobs; the reason stands behind it. \"Ours\": of the "
		"allocated ones those that jobs of your pools have, and agents of yours. Nodes stand in "
		"the order of their names. A node that has GPUs of two types has two lines and counts "
		"once.\n\n"
		"The engine is asked by one command, whose answer is kept for a minute for all of your "
		"commands (~/.cache/tenure); how old it is is shown. Where it does not answer, what it "
		"said last is shown, with the error, and the exit code is 1.",
	.examples = nodes_examples,
	.opts = nodes_opts,
	.flags = CMD_JSON,
	.setting_groups = SETTING_GROUP_QUEUE,
	.run = run_nodes,
};
