/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "cli/agent_setup.h"
#include "cli/commands.h"
#include "cli/table.h"
#include "notify/config.h"

static int show_json(const struct settings *s)
{
	json_t *all = json_object();

	for (int i = 0; i < SET_MAX; i++) {
		enum setting_id id = (enum setting_id)i;
		const struct setting *row = setting_row(id);
		const struct setting_origin *origin = settings_origin(s, id);
		const struct value *v = settings_value(s, id);
		cleanup_free char *from = settings_origin_text(s, id);
		cleanup_free char *text = v ? value_format(&row->opt.spec, v) : NULL;
		json_t *value = v ? value_json(&row->opt.spec, v) : json_null();
		json_t *one =
			json_pack("{s:o, s:s?, s:s}", "value", value, "text", text, "origin", from);

		if (origin->file)
			(void)json_object_set_new(one, "file", json_string(origin->file));
		if (origin->line)
			(void)json_object_set_new(one, "line", json_integer(origin->line));
		(void)json_object_set_new(all, row->key, one);
	}
	cmd_print_json(all);
	return CMD_OK;
}

/* "user config line 12": the file is told once, below. */
static char *short_origin(const struct settings *s, enum setting_id id)
{
	const struct setting_origin *origin = settings_origin(s, id);

	return origin->file
		       ? xasprintf("%s line %d", setting_layer_name(origin->layer), origin->line)
		       : settings_origin_text(s, id);
}

/* The files that something comes from. */
static void print_files(const struct settings *s)
{
	static const enum setting_layer layers[] = { SETTING_FROM_INSTANCE, SETTING_FROM_USE,
						     SETTING_FROM_USER, SETTING_FROM_SITE };

	for (size_t i = 0; i < ARRAY_LEN(layers); i++) {
		bool used = false;

		for (int id = 0; id < SET_MAX; id++)
			used = used || settings_origin(s, (enum setting_id)id)->layer == layers[i];

		const char *file = settings_file(s, layers[i]);
		cleanup_free char *shown = used && file ? fs_show_path(file) : NULL;

		if (shown)
			printf("%s: %s\n", setting_layer_name(layers[i]), shown);
	}
}

static int run_show(const struct cmd_ctx *ctx, struct err *e)
{
	static const struct table_column columns[] = { { "KEY" }, { "VALUE" }, { "FROM" }, { 0 } };

	if (opts_flag(ctx->opts, "json"))
		return show_json(ctx->settings);

	struct table *t = table_new(columns);

	for (int i = 0; i < SET_MAX; i++) {
		enum setting_id id = (enum setting_id)i;
		const struct setting *row = setting_row(id);
		const struct value *v = settings_value(ctx->settings, id);
		cleanup_free char *text = v ? value_format(&row->opt.spec, v) : NULL;
		cleanup_free char *from = short_origin(ctx->settings, id);
		bool set = settings_origin(ctx->settings, id)->layer != SETTING_FROM_DEFAULT;

		table_add(t, set ? TERM_BOLD : TABLE_PLAIN, row->key, text && text[0] ? text : NULL,
			  from);
	}
	table_print(t, stdout);
	(void)table_free(t);
	print_files(ctx->settings);
	return CMD_OK;
}

/* The block that says whom to tell; a file that cannot be read is told of without it. */
static void check_notify(const char *path, struct strbuf *faults)
{
	cleanup_free char *shown = fs_show_path(path);
	struct notify_config c = { .n_channels = 0 };
	struct err e = ERR_INIT;
	json_t *block = NULL;

	if (config_read_block(path, false, SETTINGS_NOTIFY, &block, &e) == 0 && block &&
	    notify_config_parse(block, &c, &e) < 0)
		strbuf_addf(faults, "%s: %s\n", shown, e.text);
	notify_config_clear(&c);
	json_decref(block);
}

static int run_check(const struct cmd_ctx *ctx, struct err *e)
{
	bool site = opts_flag(ctx->opts, "site");
	cleanup_strbuf struct strbuf unknown = STRBUF_INIT, faults = STRBUF_INIT;

	settings_environment_notes(&unknown);
	cmd_warn("warning", "%s", strbuf_str(&unknown));
	for (size_t i = 0; i < opts_argc(ctx->opts); i++) {
		const char *path = opts_arg(ctx->opts, i);
		size_t before = faults.len;

		(void)settings_check_file(path, site ? SETTING_FROM_SITE : SETTING_FROM_USER,
					  agent_setup_rules, &faults);
		check_notify(path, &faults);
		if (faults.len == before)
			printf("%s: ok\n", path);
	}
	for (char *save = NULL, *line = faults.len ? strtok_r(faults.data, "\n", &save) : NULL;
	     line; line = strtok_r(NULL, "\n", &save))
		(void)cmd_fail(CMD_USAGE, line);
	return faults.len ? CMD_USAGE : CMD_OK;
}

static int run_path(const struct cmd_ctx *ctx, struct err *e)
{
	static const struct {
		enum setting_layer layer;
		const char *name;
	} layers[] = {
		{ SETTING_FROM_INSTANCE, "instance" },
		{ SETTING_FROM_USER, "user" },
		{ SETTING_FROM_SITE, "site" },
	};
	static const struct table_column columns[] = {
		{ "LAYER" }, { "STATE" }, { "FILE" }, { 0 }
	};
	struct table *t = table_new(columns);

	for (size_t i = 0; i < ARRAY_LEN(layers); i++) {
		const char *file = settings_file(ctx->settings, layers[i].layer);

		table_add(t, TABLE_PLAIN, layers[i].name,
			  file && access(file, F_OK) == 0 ? "read" : "none there", file);
	}
	table_print(t, stdout);
	(void)table_free(t);
	return CMD_OK;
}

static const struct opt show_opts[] = {
	{ .name = "json", .spec = { VALUE_FLAG }, .group = "Output", .help = "print JSON" },
	{ 0 },
};

static const struct opt check_opts[] = {
	{ .name = "site",
	  .spec = { VALUE_FLAG },
	  .help = "check it as the site's file, which may set limits" },
	{ 0 },
};

#define ALL_SETTINGS (SETTING_GROUP_HOLD | SETTING_GROUP_NODE | SETTING_GROUP_QUEUE)

static const struct cmd_example show_examples[] = {
	{ "tenure config show", "every setting, its value and where it comes from" },
	{ "tenure config show --memory 38G", "how it would be with that option" },
	{ "tenure config show --json | jq .memory.text", "for scripts" },
	{ 0 },
};

static const struct cmd config_show = {
	.name = "show",
	.summary = "show every setting and where its value comes from",
	.description =
		"A value comes from the command line, else the environment, the instance's config, "
		"the user's config, the site's config, or the default. A site's limits hold "
		"for all of them.",
	.examples = show_examples,
	.opts = show_opts,
	.setting_groups = ALL_SETTINGS,
	.run = run_show,
};

static const struct cmd_example check_examples[] = {
	{ "tenure config check ~/.config/tenure/config.yaml", "look for mistakes before using it" },
	{ 0 },
};

static const struct cmd config_check = {
	.name = "check",
	.summary = "check config files",
	.args = "FILE...",
	.words = { WORDS_FILES, WORDS_FILES },
	.min_args = 1,
	.description =
		"Reads the files and says all that is wrong with them, each with its line and column, "
		"or ok.",
	.examples = check_examples,
	.opts = check_opts,
	.flags = CMD_NO_SETTINGS,
	.run = run_check,
};

static const struct cmd_example path_examples[] = {
	{ "tenure config path -i night",
	  "where the files of the instance \"night\" are looked for" },
	{ 0 },
};

static const struct cmd config_path = {
	.name = "path",
	.summary = "show which files are read",
	.examples = path_examples,
	.setting_groups = SETTING_GROUP_NODE,
	.run = run_path,
};

static const struct cmd *const subs[] = { &config_show, &config_check, &config_path, NULL };

static const struct cmd_example config_examples[] = {
	{ "tenure config show", "every setting, its value and where it comes from" },
	{ "tenure config check FILE", "look for mistakes in a file" },
	{ 0 },
};

const struct cmd cmd_config = {
	.name = "config",
	.group = "Settings",
	.summary = "show the settings, check config files",
	.description =
		"Settings are lines like `memory: 38G` in YAML (or JSON) in "
		"$XDG_CONFIG_HOME/tenure/config.yaml. The same names work in the environment "
		"(TENURE_MEMORY=38G) and as options (--memory 38G).",
	.examples = config_examples,
	.subs = subs,
};
