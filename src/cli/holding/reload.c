/* SPDX-License-Identifier: MIT */

/*
 * `reload`, and `on` where an agent runs: other settings for it (agent/reload.h). Files and options
 * are read here, and the agent gets what comes of them: so nothing that hangs or is wrong in a file
 * ever meets the agent.
 *
 * Variables are those of the shell in which the agent was started, or was last told `on` with
 * options, as it says itself: who has it read its files again may be anywhere.
 */

#include "cli/holding/reload.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/reload.h"
#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/agent_client.h"
#include "cli/commands.h"
#include "cli/serving.h"
#include "cli/term.h"
#include "hold/endpoint_names.h"

#define LIMIT_MS      10000 /* the guard has to agree */
#define AGAIN_MS      2000
#define AGAIN_STEP_US 50000

/* Which agent is meant, and where things are, is nothing that could change. */
#define WHICH_GROUPS (SETTING_GROUP_QUEUE | SETTING_GROUP_AGENT)

static bool is_about_serving(const json_t *changed)
{
	static const char *const heads[] = { "listen", SERVE_PROGRAM };
	json_t *text;
	size_t i;

	json_array_foreach(changed, i, text)
	{
		for (size_t h = 0; h < ARRAY_LEN(heads); h++)
			if (str_has_prefix(json_string_value(text), heads[h]))
				return true;
	}
	return false;
}

static int print_changes(const struct cmd_ctx *ctx, const json_t *answer, struct err *e)
{
	const json_t *changed = json_object_get(answer, "changed");
	const json_t *fixed = json_object_get(answer, "fixed");
	cleanup_strbuf struct strbuf why = STRBUF_INIT;
	json_t *text;
	size_t i;

	if (opts_flag(ctx->opts, "json"))
		cmd_print_json(json_deep_copy(answer));
	else if (!json_array_size(changed) && !json_array_size(fixed))
		puts("Nothing has changed: the agent goes by all of that already.");
	json_array_foreach(changed, i, text)
	{
		if (!opts_flag(ctx->opts, "json"))
			term_print_wrapped(stdout, json_string_value(text), 0);
	}
	if (!opts_flag(ctx->opts, "json") && is_about_serving(changed))
		serving_tell(ctx);
	json_array_foreach(fixed, i, text)
	{
		strbuf_addf(&why, "%s%s", i ? "\n" : "", json_string_value(text));
	}
	if (!json_array_size(fixed))
		return CMD_OK;
	(void)err_set(e, -EBUSY, "%s", strbuf_str(&why));
	return CMD_FAILED;
}

/* What the guard was told a moment ago it has to answer first. */
static int ask_again(const char *name, const char *given, json_t **ret, struct err *e)
{
	uint64_t end = clock_mono_ns() + AGAIN_MS * NS_PER_MS;
	int code;

	for (;;) {
		code = ctl_ask_with(name, CTL_RELOAD, given, LIMIT_MS, ret, e);
		if (code < 0 || json_integer_value(json_object_get(*ret, "code")) != -EAGAIN ||
		    clock_mono_ns() >= end)
			return code;
		json_decref(take_ptr(*ret));
		(void)usleep(AGAIN_STEP_US);
	}
}

/* The agent has ended between two questions, or does so now. */
static bool is_gone(int code)
{
	return code == -EPIPE || code == -ECONNRESET || code == -ECONNREFUSED || code == -ESHUTDOWN;
}

/* The agent is told what r has. */
static int tell_agent(const struct cmd_ctx *ctx, const struct agent_setup *r, struct err *e)
{
	char name[SOCKET_NAME_MAX];
	json_t *answer = NULL;
	int code, said;

	(void)agent_socket_name(name, sizeof(name), r->config.instance, r->config.dev_dir,
				ctx->job);
	code = ask_again(name, r->given, &answer, e);
	if (code == -EPIPE)
		(void)err_set(e, code,
			      "the agent ended while it was asked, or is of a version that cannot "
			      "change its settings; tenure off, then tenure on");
	if (code < 0)
		return CMD_FAILED;
	said = (int)json_integer_value(json_object_get(answer, "code"));
	if (said < 0) {
		const char *why = json_get_str(answer, "error");

		(void)err_set(e, said, "%s", why ? why : "the agent refuses");
		code = said == -EBUSY || said == -EAGAIN || said == -ESHUTDOWN ? CMD_FAILED
									       : CMD_USAGE;
	} else {
		code = print_changes(ctx, answer, e);
	}
	json_decref(answer);
	return code;
}

static bool says_how(const struct cmd_ctx *ctx)
{
	static const char *const own[] = { "no-hold", "for", "until" };
	bool found = false;

	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		found = found || opts_given(ctx->opts, own[i]);
	for (int id = 0; id < SET_MAX; id++) {
		const struct setting *row = setting_row((enum setting_id)id);
		bool which = row->groups & WHICH_GROUPS || id == SET_STATE_DIR;

		if (row->groups & AGENT_SETTING_GROUPS && !which)
			found = found || opts_given(ctx->opts, row->opt.name);
	}
	return found;
}

int reload_with_options(const struct cmd_ctx *ctx, bool *ret_done, struct err *e)
{
	struct agent_setup r = { 0 };
	struct err none = ERR_INIT;
	json_t *doc = NULL;
	int code;

	*ret_done = says_how(ctx) &&
		    agent_ask(ctx, AGENT_VERB(CTL_PING), LIMIT_MS, &doc, NULL, &none) == CMD_OK &&
		    json_get_str(doc, "phase") && strcmp(json_get_str(doc, "phase"), "releasing");
	json_decref(doc);
	if (!*ret_done)
		return CMD_OK;
	code = agent_setup_prepare(ctx, &r, e);
	if (code == CMD_OK)
		code = tell_agent(ctx, &r, e);
	agent_setup_clear(&r);
	/* It ends: whoever wants one that runs starts it, and that waits until this one is gone. */
	if (code == CMD_FAILED && is_gone(e->code)) {
		*e = (struct err)ERR_INIT;
		*ret_done = false;
		return CMD_OK;
	}
	return code;
}

/* ---- reload ---- */

#define FORGET	"forget"
#define ALL	"all"
#define NO_HOLD "no-hold"

/* "util-band" as it is called in files. */
static char *key_of(const char *name)
{
	char *key = xstrdup(name);

	for (char *p = key; *p; p++)
		*p = *p == '-' ? '_' : *p;
	return key;
}

/* --forget names that option, by its name or as it is called in files. */
static bool is_forgotten(const struct cmd_ctx *ctx, const char *key)
{
	const struct value *v =
		opts_given(ctx->opts, FORGET) ? opts_value(ctx->opts, FORGET) : NULL;
	bool found = false;

	for (size_t i = 0; v && i < v->words.n && !found; i++) {
		cleanup_free char *word = key_of(v->words.texts[i]);

		found = strcmp(word, key) == 0 || strcmp(word, ALL) == 0;
	}
	return found;
}

static int check_forget(const struct cmd_ctx *ctx, struct err *e)
{
	const struct value *v =
		opts_given(ctx->opts, FORGET) ? opts_value(ctx->opts, FORGET) : NULL;

	for (size_t i = 0; v && i < v->words.n; i++) {
		const char *word = v->words.texts[i];
		cleanup_free char *key = key_of(word);

		if (!setting_find(key) && strcmp(key, AGENT_SETUP_NO_HOLD) != 0 &&
		    strcmp(key, ALL) != 0) {
			(void)err_set(e, -EINVAL,
				      "--forget %s: that is no option of tenure on; write it like "
				      "memory, util-band or all",
				      word);
			return CMD_USAGE;
		}
	}
	return CMD_OK;
}

static bool is_said_here(const struct cmd_ctx *ctx, const struct setting *row)
{
	return opts_has(ctx->opts, row->opt.name) && opts_given(ctx->opts, row->opt.name);
}

static void tell_variable(enum setting_id id, const char *text)
{
	const struct setting *row = setting_row(id);
	bool is_fixed = reload_is_fixed(id);

	cmd_warn("note",
		 "%s=%s does not count here: the agent has the variables of its own start; %s%s "
		 "changes it",
		 row->opt.env, text, is_fixed ? "tenure off, then tenure on" : "tenure reload --",
		 is_fixed ? "" : row->opt.name);
}

/* Those of the agent, but for what says which agent is meant. An agent of before tells none. */
static void take_variables(const struct cmd_ctx *ctx, const json_t *variables, struct settings *s)
{
	const char *texts[SET_MAX] = { NULL };

	for (int id = 0; variables && id < SET_MAX; id++) {
		const struct setting *row = setting_row((enum setting_id)id);
		const char *here = settings_variable(ctx->settings, (enum setting_id)id);
		const char *its = json_get_str(variables, row->key);

		texts[id] = here ? here : its;
		if (row->groups & WHICH_GROUPS || !(row->groups & AGENT_SETTING_GROUPS) ||
		    row->flags & SETTING_SITE_ONLY)
			continue;
		texts[id] = is_forgotten(ctx, row->key) ? NULL : its;
		if (here && !is_said_here(ctx, row) && (!its || strcmp(here, its) != 0))
			tell_variable((enum setting_id)id, here);
	}
	if (variables)
		settings_set_variables(s, texts);
}

/* Settings as the agent's command line had them, over its variables and files as they are now, and
 * what is said here over those. */
static int read_anew(const struct cmd_ctx *ctx, const json_t *agent, struct settings *s,
		     struct err *e)
{
	const struct setting_origin from = { .layer = SETTING_FROM_COMMAND_LINE };
	int r = settings_set_from_opts(s, ctx->opts, e);
	json_t *options = json_object_get(agent, "options"), *text;
	const char *key;

	take_variables(ctx, json_object_get(agent, "variables"), s);
	json_object_foreach(options, key, text)
	{
		const struct setting *row = setting_find(key);

		if (r == 0 && row && json_is_string(text) && !is_forgotten(ctx, key) &&
		    !is_said_here(ctx, row))
			r = settings_set(s, (enum setting_id)(row - settings_table),
					 json_string_value(text), &from, e);
	}
	if (r == 0)
		r = settings_load(s, NULL, e);
	if (r == 0)
		r = settings_check(s, e);
	cmd_warn("warning", "%s", settings_faults(s));
	cmd_warn("note", "%s", settings_notes(s));
	return r < 0 ? r == -EPERM ? CMD_DENIED : CMD_USAGE : CMD_OK;
}

/* The words of a `tenure on` that is told so, but for settings. */
static struct text_list words_of_on(const struct cmd_ctx *ctx, const json_t *options)
{
	static const char *const ends[] = { "for", "until" };
	bool no_hold = json_is_true(json_object_get(options, AGENT_SETUP_NO_HOLD)) &&
		       !is_forgotten(ctx, AGENT_SETUP_NO_HOLD);
	struct text_list words = { .n = 0 };

	if (opts_given(ctx->opts, NO_HOLD))
		no_hold = opts_flag(ctx->opts, NO_HOLD);
	text_list_add(&words, cmd_on.name);
	if (no_hold)
		text_list_add(&words, "--" NO_HOLD);
	for (size_t i = 0; i < ARRAY_LEN(ends); i++)
		if (opts_given(ctx->opts, ends[i]))
			text_list_take(&words, xasprintf("--%s=%s", ends[i],
							 opts_text(ctx->opts, ends[i])));
	return words;
}

static int reload_as(const struct cmd_ctx *ctx, const json_t *options, struct settings *s,
		     struct err *e)
{
	struct text_list words = words_of_on(ctx, options);
	struct opts *o = cmd_opts(&cmd_on);
	struct cmd_ctx on = { .cmd = &cmd_on, .opts = o, .settings = s, .job = ctx->job };
	struct agent_setup r = { 0 };
	int code =
		opts_parse(o, (int)words.n, words.texts, OPTS_DEFAULT, e) < 0 ? CMD_USAGE : CMD_OK;

	if (code == CMD_OK)
		code = agent_setup_prepare(&on, &r, e);
	if (code == CMD_OK)
		code = tell_agent(ctx, &r, e);
	agent_setup_clear(&r);
	(void)opts_free(o);
	text_list_clear(&words);
	return code;
}

static int run_reload(const struct cmd_ctx *ctx, struct err *e)
{
	struct settings *s = settings_new();
	json_t *doc = NULL, *options;
	int code = check_forget(ctx, e);

	if (code == CMD_OK)
		code = agent_ask(ctx, AGENT_VERB(CTL_PING), LIMIT_MS, &doc, NULL, e);
	options = json_object_get(doc, "options");
	if (code == CMD_OK && !options) {
		(void)err_set(e, -ENOTSUP,
			      "the agent is of a version that cannot change its settings; tenure "
			      "off, then tenure on");
		code = CMD_FAILED;
	}
	if (code == CMD_OK)
		code = read_anew(ctx, doc, s, e);
	if (code == CMD_OK)
		code = reload_as(ctx, options, s, e);
	s = settings_free(s);
	json_decref(doc);
	return code;
}

static const struct opt forget_row = {
	.name = FORGET,
	.spec = { VALUE_WORDS },
	.arg = "OPTIONS",
	.help = "options, and variables, of before that are to count no more, by name, or all of them: "
		"memory,load; what files say counts then",
};

/* Those that a running agent can change, but for which one is meant. */
static void add_opts(struct opts *o)
{
	opts_add_row(o, &forget_row);
	opts_add_rows(o, agent_setup_opts_change);
	for (int id = 0; id < SET_MAX; id++) {
		const struct setting *row = setting_row((enum setting_id)id);

		if (row->groups & AGENT_SETTING_GROUPS && !(row->groups & WHICH_GROUPS) &&
		    !reload_is_fixed((enum setting_id)id))
			opts_add_row(o, &row->opt);
	}
}

static const struct cmd_example examples[] = {
	{ "tenure reload", "the config files have changed: the agent follows, holds stay" },
	{ "tenure reload --memory 40G",
	  "and 40 GiB from now on; its other options count as before" },
	{ "tenure reload --forget memory", "as much as the files say" },
	{ "tenure on --memory 40G", "that option alone, and none of those of before" },
	{ 0 },
};

const struct cmd cmd_reload = {
	.name = "reload",
	.group = "Holding GPUs",
	.summary = "have the agent of this node read the config files again, or change its options",
	.description =
		"Prints a line for each setting that changes, with the value before and after. What "
		"is held stays held: memory, load and times change in place. What a running agent "
		"cannot change (where its files and sockets are, its name, beat, expire, "
		"workload, sweep_spare, on_end, log_level) is named, and the rest changes all the same. With "
		"a mistake in a file, or where the guard refuses, nothing changes, and the reason is "
		"said. The options that the agent was started with, or last got from tenure on, go "
		"before the files as ever, and those that are given here are added to them. Variables "
		"(TENURE_MEMORY) are those of where it was started, too, and not those of here.\n\n"
		"A SIGHUP to the agent that tenure on has started does the same, and its log has what "
		"came of it.",
	.examples = examples,
	.add_opts = add_opts,
	.setting_groups = SETTING_GROUP_QUEUE | SETTING_GROUP_AGENT,
	.flags = CMD_HOLDS | CMD_JSON,
	.run = run_reload,
};
