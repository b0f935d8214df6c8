/* SPDX-License-Identifier: MIT */

/* `tenure import`: what a command.txt says becomes tasks. The compete command calls it, too. */

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/instance.h"
#include "cli/progress.h"
#include "cli/task/outcome.h"
#include "cli/task/submit_inherit.h"
#include "compat/command_txt/import.h"
#include "spool/instance.h"

#define FILE_MAX (8UL << 20)

static const struct opt import_opts[] = {
	{ .name = "config",
	  .words = WORDS_FILES,
	  .spec = { VALUE_STRING },
	  .arg = "FILE",
	  .help = "the config.yaml that belongs to it" },
	{ .name = "dry-run",
	  .short_name = 'n',
	  .spec = { VALUE_FLAG },
	  .help = "show the scripts, submit nothing" },
	{ .name = "json", .spec = { VALUE_FLAG }, .help = "print JSON, one object per line" },
	{ .name = "state",
	  .words = WORDS_FILES,
	  .spec = { VALUE_PATH },
	  .arg = "FILE",
	  .help = "keep this uni_id.json, as compete does",
	  .flags = OPT_HIDDEN },
	{ .name = "noter",
	  .words = WORDS_FILES,
	  .spec = { VALUE_PATH },
	  .arg = "PROGRAM",
	  .help = "what keeps it",
	  .flags = OPT_HIDDEN },
	{ 0 },
};

struct import {
	struct command_file file;
	struct command_set set;
	struct task_spec **specs;
	char *dir, *work_dir; /* of the file; of the commands */
};

static void clear(struct import *im)
{
	for (size_t i = 0; im->specs && i < im->file.n; i++)
		(void)spec_free(im->specs[i]);
	free(im->specs);
	command_file_clear(&im->file);
	command_set_clear(&im->set);
	free(im->dir);
	free(im->work_dir);
}

static int read_files(struct import *im, const char *path, const char *config, struct err *e)
{
	cleanup_free char *text = NULL, *set = NULL;
	size_t len;
	int r = fs_read_file(path, FILE_MAX, &text, &len, e);

	if (r == 0)
		r = command_file_parse(path, text, len, &im->file, e);
	if (r < 0 || !config)
		return r;
	r = fs_read_file(config, FILE_MAX, &set, &len, e);
	return r == 0 ? command_set_parse(config, set, len, &im->set, e) : r;
}

/* The older scheduler's own directory, where its files are. */
static int find_dirs(struct import *im, const char *path, const char *config, struct err *e)
{
	cleanup_free char *copy = xstrdup(config ? config : path);

	im->dir = realpath(dirname(copy), NULL);
	if (!im->dir)
		return err_sys(e, errno, "%s", copy);
	im->work_dir = command_set_work_dir(&im->set, im->dir, e);
	if (!im->work_dir)
		return config ? err_wrap(e, "%s", config) : -EINVAL;
	return 0;
}

static int make_specs(const struct cmd_ctx *ctx, struct import *im, struct err *e)
{
	const char *path = opts_arg(ctx->opts, 0);
	int r = 0;

	im->specs = xcalloc(im->file.n, sizeof(*im->specs));
	for (size_t i = 0; i < im->file.n && r == 0; i++) {
		im->specs[i] =
			import_spec(&im->file.blocks[i], &im->set, im->work_dir,
				    opts_text(ctx->opts, "noter"), opts_text(ctx->opts, "state"));
		submitter_environment(im->specs[i]);
		submitter_umask(im->specs[i]);
		r = spec_check(im->specs[i], e);
		if (r < 0)
			(void)err_wrap(e, "%s:%u", path, im->file.blocks[i].line);
	}
	return r;
}

static void show(const struct cmd_ctx *ctx, const struct import *im, const uint64_t *ids)
{
	for (size_t i = 0; i < im->file.n; i++) {
		const struct task_spec *s = im->specs[i];

		if (!opts_flag(ctx->opts, "json")) {
			printf("%" PRIu64 " %s\n", ids[i], s->name);
			continue;
		}

		json_t *o =
			json_pack("{s:I, s:s, s:s, s:I}", "id", (json_int_t)ids[i], "name", s->name,
				  "lane", s->lane, "line", (json_int_t)im->file.blocks[i].line);

		(void)json_dumpf(o, stdout, JSON_COMPACT);
		(void)putchar('\n');
		json_decref(o);
	}
}

/* Which GPUs is the agent's business; without it the two keys would be lost silently. */
static void tell_gpus(const struct import *im)
{
	if (im->set.all_gpus && !im->set.left)
		return;
	cmd_warn(
		"note",
		"which GPUs are used is said where the agent is started: --gpus %s --leave %" PRIu64,
		im->set.all_gpus ? "all" : im->set.gpus, im->set.left);
}

static void on_step(void *user, size_t done, size_t total)
{
	progress_at(user, done);
}

static int submit(const struct cmd_ctx *ctx, struct import *im, struct err *e)
{
	struct progress progress = progress_begin("importing", im->file.n);
	cleanup_free uint64_t *ids = xcalloc(im->file.n, sizeof(*ids));
	struct spool *sp = NULL;
	bool in = false;
	int r = instance_open(ctx, SPOOL_CREATE, &sp, e), told;

	for (size_t i = 0; i < im->file.n && r == 0; i++)
		submitter_name(im->specs[i], sp);
	if (r == 0)
		r = import_submit(sp, im->specs, im->file.n, ids, &in, on_step, &progress, e);
	progress_end(&progress);
	sp = spool_close(sp);
	if (r < 0 && !in)
		return err_wrap(e, "nothing submitted");
	show(ctx, im, ids);
	told = outcome_tell_made(ids, im->file.n, r < 0 ? r : 0, e);
	if (!opts_given(ctx->opts, "state"))
		tell_gpus(im);
	if (r == SUBMIT_NOT_DURABLE)
		cmd_warn("warning", "the tasks are in the queue, but may not survive a power loss");
	return told;
}

static int run_import(const struct cmd_ctx *ctx, struct err *e)
{
	const char *path = opts_arg(ctx->opts, 0), *config = opts_text(ctx->opts, "config");
	struct import im = { .file = { .n = 0 } };
	int r;

	command_set_default(&im.set);
	r = read_files(&im, path, config, e);
	if (r == 0)
		r = find_dirs(&im, path, config, e);
	if (r == 0)
		r = make_specs(ctx, &im, e);
	if (r == 0 && opts_flag(ctx->opts, "dry-run"))
		for (size_t i = 0; i < im.file.n; i++)
			printf("%s%s", i ? "\n" : "", im.specs[i]->script);
	else if (r == 0)
		r = submit(ctx, &im, e);
	clear(&im);
	return r == -EINVAL ? CMD_USAGE : r;
}

static const struct cmd_example import_examples[] = {
	{ "tenure import command.txt --config config.yaml", "a task for each block" },
	{ "tenure import -n command.txt", "what would be run" },
	{ 0 },
};

const struct cmd cmd_import = {
	.name = "import",
	.group = QUEUE_GROUP,
	.summary = "submit the tasks of a command.txt (of compete)",
	.args = "FILE",
	.words = { WORDS_FILES },
	.min_args = 1,
	.max_args = 1,
	.description =
		"Its queue 3 is the lane q3, its memory is GB on one GPU, which others may use, too; tasks "
		"that fail are tried again for ever. All of the tasks are submitted, or none. "
		"docs/compat.md tells how the files are read.",
	.examples = import_examples,
	.opts = import_opts,
	.setting_groups = SETTING_GROUP_QUEUE,
	.run = run_import,
};
