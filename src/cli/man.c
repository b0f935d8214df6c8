/* SPDX-License-Identifier: MIT */

/*
 * `man`: for the build, which puts the pages into build/man. They lie there as under a
 * MANPATH: man1/, man5/.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/manpage.h"

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
