/* SPDX-License-Identifier: MIT */
#include "cli/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/json_get.h"
#include "base/mem.h"
#include "base/sockdir.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "cli/term.h"
#include "engine/engine.h"

#define PREFIX strlen("tenure: ")

static const struct opt help_row = {
	.name = "help",
	.short_name = 'h',
	.spec = { VALUE_FLAG },
	.group = "General",
	.help = "show this help",
};

static const struct opt json_row = {
	.name = "json",
	.spec = { VALUE_FLAG },
	.help = "print JSON",
};

static const struct opt json_lines_row = {
	.name = "json",
	.spec = { VALUE_FLAG },
	.help = "print JSON, one object per line",
};

/* What was typed, and names of files, are in such texts as they are: nothing of them may reach the
 * terminal that it does not show. */
static void print_message(enum term_style style, const char *text)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	for (const char *p = text; *p;) {
		size_t n = strcspn(p, "\n");
		cleanup_free char *line = xasprintf("%.*s", (int)n, p);

		strbuf_adds(&b, utf8_clean(line));
		p += n;
		if (*p == '\n')
			strbuf_addc(&b, *p++);
	}
	(void)fprintf(stderr, "%stenure:%s ", term_on(STDERR_FILENO, style),
		      term_off(STDERR_FILENO));
	term_print_wrapped(stderr, strbuf_str(&b), PREFIX);
}

int cmd_fail(int code, const char *text)
{
	(void)fflush(stdout);
	print_message(TERM_RED, text);
	return code;
}

void cmd_warn(const char *kind, const char *fmt, ...)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	va_list ap;

	va_start(ap, fmt);
	strbuf_addv(&b, fmt, ap);
	va_end(ap);
	for (const char *p = strbuf_str(&b); *p;) {
		size_t n = strcspn(p, "\n");
		cleanup_free char *line = xasprintf("%s: %.*s", kind, (int)n, p);

		print_message(TERM_YELLOW, line);
		p += n + (p[n] == '\n');
	}
}

const struct cmd *cmd_find(const struct cmd *const *list, const char *name)
{
	for (; list && *list; list++) {
		if (strcmp((*list)->name, name) == 0)
			return *list;
	}
	return NULL;
}

/*
 * What is suggested is often typed without a second look, so what ends something has to be all but
 * what was typed: "stpo" and "stopp" are stop, "top" and "step" are not.
 */
static bool is_slip_of(const char *word, const char *name)
{
	size_t same = 0;

	while (word[same] && word[same] == name[same])
		same++;
	if (!same || str_distance(word, name) > 1)
		return strlen(word) > 2 && str_has_prefix(name, word);
	return strlen(word) != strlen(name) || word[same] == name[same + 1];
}

char *cmd_suggest(const struct cmd *const *list, const char *name)
{
	size_t n = 0;

	while (list[n])
		n++;

	cleanup_free const char **names = xcalloc(n + 1, sizeof(char *));
	size_t shown = 0;

	for (size_t i = 0; i < n; i++) {
		bool meant = !(list[i]->flags & CMD_ENDS) || is_slip_of(name, list[i]->name);

		if (!(list[i]->flags & CMD_HIDDEN) && meant)
			names[shown++] = list[i]->name;
	}

	const char *near = str_nearest(name, names);

	return near ? xasprintf("; did you mean %s?", near) : xstrdup("");
}

static void dump(json_t *doc, size_t flags)
{
	(void)json_dumpf(doc, stdout, flags | NUMBER_DIGITS);
	(void)putchar('\n');
	json_decref(doc);
}

void cmd_print_json(json_t *doc)
{
	dump(doc, JSON_INDENT(2));
}

void cmd_print_json_line(json_t *doc)
{
	dump(doc, JSON_COMPACT);
}

struct opts *cmd_opts(const struct cmd *cmd)
{
	struct opts *o = opts_new();

	opts_add_rows(o, cmd->opts);
	if (cmd->add_opts)
		cmd->add_opts(o);
	if (cmd->flags & (CMD_JSON | CMD_JSON_LINES))
		opts_add_row(o, cmd->flags & CMD_JSON ? &json_row : &json_lines_row);
	for (int id = 0; id < SET_MAX; id++) {
		const struct setting *row = setting_row((enum setting_id)id);

		if (row->groups & cmd->setting_groups)
			opts_add_row(o, &row->opt);
	}
	opts_add_row(o, &help_row);
	return o;
}

/* A line that begins with head, and goes on below what follows that. */
static void add_item(struct strbuf *b, const char *head, const char *text, size_t width)
{
	strbuf_adds(b, head);
	strbuf_add_wrapped(b, text, strlen(head), width);
}

static void add_synopsis(struct strbuf *b, const struct cmd *cmd, const char *parent, size_t width)
{
	if (cmd->run) {
		cleanup_free char *head = xasprintf("  %s %s ", parent, cmd->name);
		cleanup_free char *rest = xasprintf("[OPTIONS]%s%s", cmd->args ? " " : "",
						    cmd->args ? cmd->args : "");

		add_item(b, head, rest, width);
	}
	for (size_t i = 0; cmd->subs && cmd->subs[i]; i++) {
		const struct cmd *sub = cmd->subs[i];

		strbuf_addf(b, "  %s %s %s%s%s\n", parent, cmd->name, sub->name,
			    sub->args ? " " : "", sub->args ? sub->args : "");
	}
}

static void add_subs(struct strbuf *b, const struct cmd *const *subs, size_t width)
{
	strbuf_adds(b, "\nCommands:\n");
	for (; *subs; subs++) {
		cleanup_free char *head = xasprintf("  %-12s ", (*subs)->name);

		if (!((*subs)->flags & CMD_HIDDEN))
			add_item(b, head, (*subs)->summary, width);
	}
}

/* A command stays on its line, so that it can be copied. */
static void add_examples(struct strbuf *b, const struct cmd_example *examples, size_t width)
{
	strbuf_adds(b, "\nExamples:\n");
	for (; examples->line; examples++) {
		strbuf_addf(b, "  $ %s\n", examples->line);
		add_item(b, "      ", examples->what, width);
	}
}

static void add_variables(struct strbuf *b, const struct cmd_variable *v, size_t width)
{
	strbuf_adds(b, "\nIn the task's environment:\n");
	for (; v->name; v++) {
		strbuf_addf(b, "  %s\n", v->name);
		strbuf_pad(b, ' ', 6);
		strbuf_add_wrapped(b, v->what, 6, width);
	}
}

char *cmd_help_text(const struct cmd *cmd, const char *parent)
{
	struct opts *o = cmd_opts(cmd);
	struct strbuf b = STRBUF_INIT;
	size_t width = term_width(STDOUT_FILENO);

	cleanup_free char *title = xasprintf("%s %s: %s", parent, cmd->name, cmd->summary);

	strbuf_add_wrapped(&b, title, 0, width);
	strbuf_adds(&b, "\nUsage:\n");
	add_synopsis(&b, cmd, parent, width);
	if (cmd->description) {
		strbuf_addc(&b, '\n');
		strbuf_add_wrapped(&b, cmd->description, 0, width);
	}
	if (cmd->subs)
		add_subs(&b, cmd->subs, width);
	if (cmd->examples)
		add_examples(&b, cmd->examples, width);

	cleanup_free char *options = opts_help(o, width);

	strbuf_addf(&b, "\n%s", options);
	if (cmd->variables)
		add_variables(&b, cmd->variables, width);
	(void)opts_free(o);
	return strbuf_take(&b);
}

static int check_args(const struct cmd *cmd, const char *parent, const struct opts *o,
		      struct err *e)
{
	size_t n = opts_argc(o), max = cmd->max_args;
	bool any = cmd->args && !cmd->max_args;

	if (n < cmd->min_args)
		return err_set(e, -EINVAL, "usage: %s %s %s (%s %s --help tells more)", parent,
			       cmd->name, cmd->args ? cmd->args : "", parent, cmd->name);
	if (!any && n > max)
		return err_set(e, -EINVAL, "unexpected argument \"%s\"; see %s %s --help",
			       opts_arg(o, max), parent, cmd->name);
	return 0;
}

/* The settings for this command: 0, or an exit code with e set. */
static int load_settings(const struct cmd *cmd, const struct opts *o, struct settings *s,
			 struct err *e)
{
	cleanup_strbuf struct strbuf unknown = STRBUF_INIT;
	bool holds = cmd->setting_groups & SETTING_GROUP_HOLD;
	int r = settings_set_from_opts(s, o, e);

	/* Who only asks or ends something is not kept from it by how it would be held. */
	if (!holds)
		settings_need(s, cmd->setting_groups);
	if (r == 0)
		r = settings_load(s, NULL, e);
	if (r == 0 && (holds || cmd->setting_groups & SETTING_GROUP_ALLOC))
		r = settings_check(s, e);
	if (r < 0)
		return r == -EPERM ? CMD_DENIED : CMD_USAGE;
	cmd_warn("warning", "%s", settings_faults(s));
	cmd_warn("note", "%s", settings_notes(s));
	settings_environment_notes(&unknown);
	cmd_warn("warning", "%s", strbuf_str(&unknown));
	if ((cmd->flags & CMD_HOLDS) && settings_check_user(s, e) < 0)
		return CMD_DENIED;
	return 0;
}

/*
 * Who names a place for the sockets means to be found there, or to find somebody: in another one
 * there may be nobody, and `on` would start a second agent. What a file or the environment says may
 * be older than this machine, and letting go must work all the same.
 */
static int take_runtime_dir(const struct cmd *cmd, const struct settings *s, struct err *e)
{
	const char *dir = settings_str(s, SET_RUNTIME_DIR);
	bool named = settings_origin(s, SET_RUNTIME_DIR)->layer == SETTING_FROM_COMMAND_LINE;
	struct err why = ERR_INIT;

	if (!dir)
		return 0;
	if (named || cmd->flags & CMD_HOLDS)
		(void)sockdir_check_place(dir, &why);
	if (why.code && named) {
		(void)err_set(e, -EINVAL, "--runtime-dir: %s cannot have the sockets: %s", dir,
			      why.text);
		return CMD_USAGE;
	}
	if (why.code) {
		cleanup_free char *where = settings_origin_text(s, SET_RUNTIME_DIR);
		cmd_warn("warning",
			 "runtime_dir (%s): %s cannot have the sockets, which go elsewhere: %s",
			 where, dir, why.text);
	}
	/* For base/sockdir.h, here and in all that is started from here. */
	(void)setenv("TENURE_RUNTIME_DIR", dir, 1);
	return 0;
}

static int run_loaded(const struct cmd *cmd, const struct opts *o, struct err *e)
{
	cleanup_free char *job = engine_job_key((const char *const *)environ);
	struct cmd_ctx ctx = { .cmd = cmd, .opts = o, .job = job };
	int r = 0;

	if (!(cmd->flags & CMD_NO_SETTINGS)) {
		ctx.settings = settings_new();
		r = load_settings(cmd, o, ctx.settings, e);
		if (r == 0)
			*e = (struct err)
				ERR_INIT; /* files that need not be there leave their text */
	}
	if (r == 0 && ctx.settings)
		r = take_runtime_dir(cmd, ctx.settings, e);
	if (r == 0)
		r = cmd->run(&ctx, e);
	if (r < 0)
		r = r == -EPERM ? CMD_DENIED : CMD_FAILED;
	ctx.settings = settings_free(ctx.settings);
	return r;
}

static int run_parsed(const struct cmd *cmd, const char *parent, struct opts *o, int argc,
		      char **argv)
{
	enum opts_mode mode = cmd->flags & CMD_STOP_AT_WORD ? OPTS_STOP_AT_WORD : OPTS_DEFAULT;
	struct err e = ERR_INIT;
	int r = opts_parse(o, argc, argv, mode, &e);

	if (r == 0 && opts_flag(o, "help")) {
		cleanup_free char *text = cmd_help_text(cmd, parent);

		(void)fputs(text, stdout);
		return CMD_OK;
	}
	if (r < 0 && cmd->explain && opts_unknown(o))
		cmd->explain(opts_unknown(o), &e);
	if (r == 0)
		r = check_args(cmd, parent, o, &e);
	if (r < 0)
		return cmd_fail(CMD_USAGE, e.text);
	r = run_loaded(cmd, o, &e);
	return r != CMD_OK && e.text[0] ? cmd_fail(r, e.text) : r;
}

/* A command that has only subs, called without a good one. */
static int needs_sub(const struct cmd *cmd, const char *parent, const char *given)
{
	if (!given || strcmp(given, "--help") == 0 || strcmp(given, "-h") == 0) {
		cleanup_free char *text = cmd_help_text(cmd, parent);

		(void)fputs(text, given ? stdout : stderr);
		return given ? CMD_OK : CMD_USAGE;
	}

	cleanup_free char *near = cmd_suggest(cmd->subs, given);
	cleanup_free char *text = xasprintf("%s has no command \"%s\"%s", cmd->name, given, near);

	return cmd_fail(CMD_USAGE, text);
}

int cmd_run(const struct cmd *cmd, const char *parent, int argc, char **argv)
{
	const struct cmd *sub = argc > 1 ? cmd_find(cmd->subs, argv[1]) : NULL;

	if (sub) {
		cleanup_free char *words = xasprintf("%s %s", parent, cmd->name);

		return cmd_run(sub, words, argc - 1, argv + 1);
	}
	if (!cmd->run)
		return needs_sub(cmd, parent, argc > 1 ? argv[1] : NULL);

	struct opts *o = cmd_opts(cmd);
	int r = run_parsed(cmd, parent, o, argc, argv);

	(void)opts_free(o);
	return r;
}
