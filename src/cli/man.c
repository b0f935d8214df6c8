/* SPDX-License-Identifier: MIT */

/*
 * Every page is a heading, sections and lists of tagged paragraphs. All text from the tables goes
 * through base/roff.h, so that none of it can be taken for a request; what stands here in quotes
 * is roff already. There is no date in the pages: the same tree gives the same pages.
 *
 * The command is for the build, which puts the pages into build/man. They lie there as under a
 * MANPATH: man1/, man5/.
 */

#include "cli/man.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/roff.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "cli/commands.h"
#include "cli/help.h"

#define MADE_BY "tenure man"

/* -------- options -------- */

static void add_options(struct strbuf *b, const struct opts *o)
{
	struct group_walk w = { .group_of = opts_group_of, .rows = o, .n = opts_n_rows(o) };
	bool settings = false;

	for (size_t i = 0; i < opts_n_rows(o); i++)
		settings = settings || opts_row(o, i)->env;
	roff_section(b, "SH", "OPTIONS");
	if (settings)
		strbuf_adds(b, "What has a variable in brackets is a setting, which config files "
			       "and the environment can give as well; see\n"
			       ".BR tenure.yaml (5).\n");
	while (group_next(&w)) {
		if (w.first)
			roff_section(b, "SS", w.group);
		roff_option(b, opts_row(o, w.i));
	}
}

/* -------- commands -------- */

static void add_usage(struct strbuf *b, const struct cmd *cmd, const char *words)
{
	roff_bold(b, words);
	if (!cmd->subs)
		strbuf_adds(b, " [\\fIOPTIONS\\fR]");
	if (cmd->args) {
		strbuf_addc(b, ' ');
		roff_literal(b, cmd->args);
	}
	strbuf_addc(b, '\n');
}

static void add_usages(struct strbuf *b, const struct cmd *cmd, const char *words)
{
	if (cmd->run) {
		add_usage(b, cmd, words);
		strbuf_adds(b, ".br\n");
	}
	for (size_t i = 0; cmd->subs && cmd->subs[i]; i++) {
		cleanup_free char *below = xasprintf("%s %s", words, cmd->subs[i]->name);

		add_usages(b, cmd->subs[i], below);
	}
}

static void add_examples(struct strbuf *b, const struct cmd_example *examples)
{
	for (; examples && examples->line; examples++) {
		cleanup_free char *line = xasprintf("$ %s", examples->line);

		roff_tagged(b, line, examples->what);
	}
}

static bool same_options(const struct cmd *a, const struct cmd *b)
{
	return a && a->opts == b->opts && a->add_opts == b->add_opts &&
	       a->setting_groups == b->setting_groups;
}

/* A command below another one; before: the one in front of it, or NULL. */
static void add_sub(struct strbuf *b, const struct cmd *cmd, const struct cmd *before,
		    const char *parent)
{
	cleanup_free char *words = xasprintf("%s %s", parent, cmd->name);

	cleanup_free char *title =
		xasprintf("%s%s%s", words, cmd->args ? " " : "", cmd->args ? cmd->args : "");

	roff_section(b, "SS", title);
	roff_text(b, cmd->summary);
	strbuf_adds(b, ".\n");
	if (cmd->description)
		roff_paragraph(b, cmd->description);
	if (!same_options(before, cmd)) {
		struct opts *o = cmd_opts(cmd);

		for (size_t i = 0; i < opts_n_rows(o); i++)
			if (!(opts_row(o, i)->flags & OPT_HIDDEN))
				roff_option(b, opts_row(o, i));
		(void)opts_free(o);
	}
	add_examples(b, cmd->examples);
	for (size_t i = 0; cmd->subs && cmd->subs[i]; i++)
		add_sub(b, cmd->subs[i], i ? cmd->subs[i - 1] : NULL, words);
}

/* The pages of its group, and those that belong to every command. */
static void add_see_also(struct strbuf *b, const struct cmd *cmd)
{
	roff_section(b, "SH", "SEE ALSO");
	roff_reference(b, "tenure", "1", false);
	for (size_t i = 0; commands[i]; i++) {
		cleanup_free char *page = xasprintf("tenure-%s", commands[i]->name);

		if (commands[i] != cmd && !(commands[i]->flags & CMD_HIDDEN) &&
		    strcmp(commands[i]->group, cmd->group) == 0)
			roff_reference(b, page, "1", false);
	}
	roff_reference(b, "tenure.yaml", "5", true);
}

char *manpage_command(const struct cmd *cmd)
{
	struct strbuf b = STRBUF_INIT;
	struct opts *o = cmd_opts(cmd);
	cleanup_free char *page = xasprintf("tenure-%s", cmd->name);
	cleanup_free char *words = xasprintf("tenure %s", cmd->name);

	roff_heading(&b, page, "1", cmd->summary, MADE_BY);
	roff_section(&b, "SH", "SYNOPSIS");
	add_usages(&b, cmd, words);
	if (cmd->description) {
		roff_section(&b, "SH", "DESCRIPTION");
		roff_paragraph(&b, cmd->description);
	}
	if (cmd->subs)
		roff_section(&b, "SH", "COMMANDS");
	for (size_t i = 0; cmd->subs && cmd->subs[i]; i++)
		add_sub(&b, cmd->subs[i], i ? cmd->subs[i - 1] : NULL, words);
	add_options(&b, o);
	if (cmd->variables)
		roff_section(&b, "SH", "ENVIRONMENT OF THE TASK");
	for (const struct cmd_variable *v = cmd->variables; v && v->name; v++)
		roff_tagged(&b, v->name, v->what);
	if (cmd->examples)
		roff_section(&b, "SH", "EXAMPLES");
	add_examples(&b, cmd->examples);
	roff_section(&b, "SH", "EXIT STATUS");
	strbuf_adds(&b, "0 when it worked; the other codes, the same for all commands, are in\n"
			".BR tenure (1).\n");
	add_see_also(&b, cmd);
	(void)opts_free(o);
	return strbuf_take(&b);
}

/* -------- tenure(1) -------- */

static void add_commands(struct strbuf *b)
{
	struct group_walk w = { .group_of = command_group_of, .rows = commands, .n = n_commands() };

	while (group_next(&w)) {
		cleanup_free char *page = xasprintf("tenure-%s", commands[w.i]->name);

		if (w.first)
			roff_section(b, "SS", w.group);
		strbuf_adds(b, ".TP\n");
		roff_reference(b, page, "1", true);
		roff_text(b, commands[w.i]->summary);
		strbuf_addc(b, '\n');
	}
}

static const char overview_description[] =
	"tenure holds GPUs that are idle, with memory and, if asked, load. It yields a GPU as soon "
	"as somebody else's process arrives on it, and holds it again some time after that has "
	"gone. It runs its owner's queue of tasks on the GPUs that are held or free.\n"
	"\n"
	"Your site's policy comes first: hold only what you are allowed to hold.\n"
	"\n"
	"`tenure help COMMAND`, or `COMMAND --help`, shows in short what these pages say.";

static const char overview_options[] =
	"Options come after the command and may be mixed with its arguments: `--name VALUE`, "
	"`--name=VALUE`, `-x VALUE`, `-xVALUE`; `--no-name` turns a flag off; `--` ends them. "
	"`tenure --version` prints the version. Most commands print JSON with `--json`.";

static const struct {
	const char *name, *what;
} places[] = {
	{ "/etc/tenure/config.yaml", "the site's settings, and its limits" },
	{ "$XDG_CONFIG_HOME/tenure/config.yaml",
	  "the user's settings; XDG_CONFIG_HOME is ~/.config where it is not set" },
	{ "$XDG_CONFIG_HOME/tenure/instances/NAME.yaml", "those of one instance" },
	{ "$XDG_STATE_HOME/tenure/INSTANCE/",
	  "the queue, logs and the state; XDG_STATE_HOME is ~/.local/state where it is not set" },
}, variables[] = {
	{ "TENURE_...", "one for each setting, as tenure.yaml(5) lists them" },
	{ "NO_COLOR", "no colour, also on a terminal" },
	{ "COLUMNS", "the width to wrap at where there is no terminal" },
};

static void add_exit_codes(struct strbuf *b)
{
	roff_section(b, "SH", "EXIT STATUS");
	for (size_t i = 0; exit_codes[i].what; i++) {
		char code[16];

		(void)str_print(code, sizeof(code), "%d", (int)exit_codes[i].code);
		roff_tagged(b, code, exit_codes[i].what);
	}
}

char *manpage_overview(void)
{
	struct strbuf b = STRBUF_INIT;

	roff_heading(&b, "tenure", "1",
		     "hold idle NVIDIA GPUs, yield them, and run a queue on them", MADE_BY);
	roff_section(&b, "SH", "SYNOPSIS");
	strbuf_adds(&b, "\\fBtenure\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n");
	roff_section(&b, "SH", "DESCRIPTION");
	roff_paragraph(&b, overview_description);
	roff_section(&b, "SH", "COMMANDS");
	add_commands(&b);
	roff_section(&b, "SH", "OPTIONS");
	roff_paragraph(&b, overview_options);
	add_exit_codes(&b);
	roff_section(&b, "SH", "FILES");
	for (size_t i = 0; i < ARRAY_LEN(places); i++)
		roff_tagged(&b, places[i].name, places[i].what);
	roff_section(&b, "SH", "ENVIRONMENT");
	for (size_t i = 0; i < ARRAY_LEN(variables); i++)
		roff_tagged(&b, variables[i].name, variables[i].what);
	roff_section(&b, "SH", "SEE ALSO");
	roff_reference(&b, "tenure.yaml", "5", false);
	roff_reference(&b, "occupy", "1", false);
	roff_reference(&b, "gpu-sentinel", "1", false);
	roff_reference(&b, "compete", "1", true);
	return strbuf_take(&b);
}

/* -------- tenure.yaml(5) -------- */

static const char settings_description[] =
	"A setting has one name everywhere: `memory: 38G` in a config file, "
	"`TENURE_MEMORY=38G` in the environment, `--memory 38G` as an option. The files are YAML, "
	"or JSON. The first of these that sets it counts:";

static const char *const layers[] = {
	"the command line",
	"the environment",
	"what `tenure use` chose (the instance alone)",
	"the instance's file, $XDG_CONFIG_HOME/tenure/instances/NAME.yaml",
	"the user's file, $XDG_CONFIG_HOME/tenure/config.yaml",
	"the site's file, /etc/tenure/config.yaml",
	"the default",
};

static const char settings_mistakes[] =
	"Mistakes are reported with file, line and column. They never keep commands that let go or "
	"look from working. `tenure config check FILE` looks for them beforehand; `tenure config "
	"show` tells where each value comes from.\n"
	"\n"
	"Sizes are 512M, 38G or 1.5T, in powers of 1024; durations are 90s, 5m, 2h, 1d or 1h30m. A "
	"bare number is refused where a unit is needed.";

static const struct {
	unsigned int flag;
	const char *what;
} setting_rules[] = {
	{ SETTING_LIMIT, "In the site's file it is a limit for everybody." },
	{ SETTING_SITE_ONLY, "Only the site's file may set it." },
	{ SETTING_NOT_IN_INSTANCE, "An instance's file may not set it." },
};

static void add_bound(struct strbuf *b, const char *what, const struct value_spec *spec,
		      uint64_t num)
{
	struct value bound = { .type = spec->type, .num = num };
	cleanup_free char *text = num ? value_format(spec, &bound) : NULL;

	if (!text)
		return;
	strbuf_adds(b, what);
	roff_literal(b, text);
}

static void add_setting(struct strbuf *b, const struct setting *row)
{
	strbuf_adds(b, ".TP\n");
	roff_bold(b, row->key);
	strbuf_addc(b, '\n');
	roff_text(b, row->opt.help);
	strbuf_adds(b, ".\n.br\nType: ");
	roff_text(b, value_hint(row->opt.spec.type));
	roff_choices(b, &row->opt);
	add_bound(b, "; at least ", &row->opt.spec, row->opt.spec.min);
	add_bound(b, "; at most ", &row->opt.spec, row->opt.spec.max);
	strbuf_adds(b, ". Default: ");
	roff_literal(b, row->opt.def && row->opt.def[0] ? row->opt.def : "none");
	strbuf_adds(b, ".\n");
	if (!(row->flags & SETTING_SITE_ONLY)) {
		cleanup_free char *option = xasprintf("--%s", row->opt.name);

		strbuf_addf(b, ".br\nVariable: %s. Option: ", row->opt.env);
		roff_bold(b, option);
		strbuf_adds(b, ".\n");
	}
	for (size_t i = 0; i < ARRAY_LEN(setting_rules); i++)
		if (row->flags & setting_rules[i].flag)
			strbuf_addf(b, ".br\n%s\n", setting_rules[i].what);
}

static const char *setting_group_of(const void *rows, size_t i)
{
	const char *group = setting_row((enum setting_id)i)->opt.group;

	return group ? group : "The site";
}

char *manpage_settings(void)
{
	struct group_walk w = { .group_of = setting_group_of, .n = SET_MAX };
	struct strbuf b = STRBUF_INIT;

	roff_heading(&b, "tenure.yaml", "5", "settings of tenure", MADE_BY);
	roff_section(&b, "SH", "DESCRIPTION");
	roff_paragraph(&b, settings_description);
	for (size_t i = 0; i < ARRAY_LEN(layers); i++) {
		strbuf_addf(&b, ".IP %zu. 4\n", i + 1);
		roff_text(&b, layers[i]);
		strbuf_addc(&b, '\n');
	}
	roff_paragraph(&b, settings_mistakes);
	roff_section(&b, "SH", "EXAMPLE");
	strbuf_adds(&b, ".nf\ngpus: [0, 1]\nmemory: 88%\nidle_for: 5m\nload: light\n.fi\n");
	roff_section(&b, "SH", "SETTINGS");
	while (group_next(&w)) {
		if (w.first)
			roff_section(&b, "SS", w.group);
		add_setting(&b, setting_row((enum setting_id)w.i));
	}
	roff_section(&b, "SH", "SEE ALSO");
	roff_reference(&b, "tenure", "1", false);
	roff_reference(&b, "tenure-config", "1", true);
	return strbuf_take(&b);
}

/* Take the text, and write it to DIR/NAME. */
static int write_page(const char *dir, const char *name, char *text, struct err *e)
{
	cleanup_free char *path = xasprintf("%s/%s", dir, name), *owned = text;

	return fs_write_atomic(path, owned, strlen(owned), 0644, e);
}

static int write_commands(const char *dir, struct err *e)
{
	int r = 0;

	for (size_t i = 0; r == 0 && commands[i]; i++) {
		cleanup_free char *name = xasprintf("man1/tenure-%s.1", commands[i]->name);

		if (!(commands[i]->flags & CMD_HIDDEN))
			r = write_page(dir, name, manpage_command(commands[i]), e);
	}
	return r;
}

static int write_all(const char *dir, struct err *e)
{
	cleanup_free char *man1 = xasprintf("%s/man1", dir), *man5 = xasprintf("%s/man5", dir);
	int r = fs_mkdirs(man1, 0755, e);

	if (r == 0)
		r = fs_mkdirs(man5, 0755, e);
	if (r == 0)
		r = write_page(dir, "man1/tenure.1", manpage_overview(), e);
	if (r == 0)
		r = write_commands(dir, e);
	if (r == 0)
		r = write_page(dir, "man5/tenure.yaml.5", manpage_settings(), e);
	/* The build goes by the directory's time, which files below it do not change. */
	if (r == 0 && utimensat(AT_FDCWD, dir, NULL, 0) < 0)
		r = err_sys(e, errno, "touch %s", dir);
	return r;
}

/* "submit", "tenure-submit", "tenure", "tenure.yaml"; NULL: there is no such page. */
static char *find_page(const char *name)
{
	if (strcmp(name, "tenure") == 0)
		return manpage_overview();
	if (strcmp(name, "tenure.yaml") == 0)
		return manpage_settings();
	if (str_has_prefix(name, "tenure-"))
		name += strlen("tenure-");

	const struct cmd *cmd = cmd_find(commands, name);

	return cmd ? manpage_command(cmd) : NULL;
}

static int run_man(const struct cmd_ctx *ctx, struct err *e)
{
	const char *name = opts_arg(ctx->opts, 0), *dir = opts_text(ctx->opts, "dir");

	if (dir)
		return write_all(dir, e);

	cleanup_free char *page = find_page(name ? name : "tenure");

	if (!page) {
		(void)err_set(e, -ENOENT, "there is no page \"%s\"", name);
		return CMD_USAGE;
	}
	(void)fputs(page, stdout);
	return CMD_OK;
}

static const struct opt man_opts[] = {
	{ .name = "dir",
	  .words = WORDS_DIRS,
	  .spec = { VALUE_STRING },
	  .arg = "DIR",
	  .help = "write all pages to DIR/man1 and DIR/man5" },
	{ 0 },
};

static const struct cmd_example examples[] = {
	{ "tenure man submit | man -l -", "read the page of a command that is not installed" },
	{ "tenure man --dir build/man", "write all pages" },
	{ 0 },
};

const struct cmd cmd_man = {
	.name = "man",
	.group = "About",
	.summary = "print a man page's source",
	.args = "[PAGE]",
	.max_args = 1,
	.description = "Prints tenure(1), tenure.yaml(5) or the page of a command. All of them are "
		       "made from the tables of the commands, options and settings.",
	.examples = examples,
	.opts = man_opts,
	.flags = CMD_NO_SETTINGS | CMD_HIDDEN,
	.run = run_man,
};
