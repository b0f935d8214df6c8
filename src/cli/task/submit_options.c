/* SPDX-License-Identifier: MIT */

/*
 * The options are the keys of a task, which has the table (spool/task_spec.h). What only a client
 * can know is added: what to run, the directory and the environment (submit_inherit.c).
 */

#include "cli/task/submit_options.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "cli/agent_client.h"
#include "cli/cmd.h"
#include "cli/instance.h"
#include "cli/progress.h"
#include "cli/task/aftercheck.h"
#include "cli/task/roomcheck.h"
#include "cli/task/sbatch_lines.h"
#include "cli/task/submit_inherit.h"
#include "cli/task/tenure_lines.h"
#include "spool/elements.h"
#include "spool/instance.h"
#include "spool/submit.h"
#include "spool/task_text.h"

/* A word that the shell would run. */
static bool is_program(const char *word)
{
	cleanup_free char *path = xstrdup(getenv("PATH") ? getenv("PATH") : "/usr/bin:/bin");
	char *save = NULL;

	for (char *dir = strtok_r(path, ":", &save); dir && !strchr(word, '/');
	     dir = strtok_r(NULL, ":", &save)) {
		cleanup_free char *file = xasprintf("%s/%s", dir, word);

		if (access(file, X_OK) == 0)
			return true;
	}
	return false;
}

static int open_script(const char *path, struct err *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd >= 0)
		return fd;
	if (errno == ENOENT && is_program(path))
		return err_set(
			e, -ENOENT,
			"there is no script \"%s\" here; a command comes behind --: -- %s ...",
			path, path);
	return err_sys(e, errno, "script: open %s", path);
}

static int check_script(const char *text, size_t len, const char *shown, struct err *e)
{
	if (memchr(text, '\0', len))
		return err_set(e, -EINVAL,
			       "%s is a program, not a script; submit it as a command: tenure "
			       "submit -- %s",
			       shown, shown);
	return len ? 0 : err_set(e, -EINVAL, "%s is empty", shown);
}

static const char *const output_keys[] = { "output", "error" };

/* Those that are said there and not in what comes first. */
static int take_outputs(struct task_spec *s, const struct opts *o, const struct opts *first,
			struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(output_keys) && r == 0; i++)
		if (opts_given(o, output_keys[i]) && !(first && opts_given(first, output_keys[i])))
			r = submitter_output(s, output_keys[i], opts_text(o, output_keys[i]), e);
	return r;
}

/* What the script's own lines ask for; the command line goes before them. */
static int take_lines(struct task_spec *s, const struct opts *o, const char *shown, struct err *e)
{
	static const char *const not_there[] = { "from", "no-env", "json" };
	struct opts *lines = NULL;
	int r = tenure_lines_parse(submit_add_opts, s->script, shown, &lines, e);

	for (size_t i = 0; lines && r == 0 && i < ARRAY_LEN(not_there); i++)
		if (opts_given(lines, not_there[i]))
			r = err_set(e, -EINVAL,
				    "%s: --%s is for the command line, not for #TENURE lines",
				    shown, not_there[i]);
	if (lines && r == 0 && opts_given(lines, "cwd") && !opts_given(o, "cwd"))
		r = submitter_directory(s, opts_text(lines, "cwd"), e);
	if (lines && r == 0) /* those of the command line are relative to that, too */
		r = take_outputs(s, o, NULL, e);
	if (lines && r == 0)
		r = take_outputs(s, lines, o, e);
	if (lines && r == 0)
		r = spec_take_options_behind(s, lines, o, e);
	if (r == 0)
		sbatch_take(s, o, lines, s->script);
	(void)opts_free(lines);
	return r;
}

/* A file; or what comes from standard input or another pipe, whose name says nothing of it. */
static int take_script(struct task_spec *s, const struct opts *o, const char *path, bool lines,
		       struct err *e)
{
	bool standard = strcmp(path, "-") == 0;
	const char *shown = standard ? "standard input" : path;
	int fd = standard ? dup(STDIN_FILENO) : open_script(path, e);
	char name[SPEC_NAME_MAX + 1];
	struct stat st;
	size_t len;
	int r;

	if (fd < 0)
		return standard ? err_sys(e, errno, "read standard input") : fd;
	if (isatty(fd))
		cmd_warn("note", "the script is read from here; Ctrl-D ends it");
	if (standard || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		path = "script";
	ident_make_task_name(path, name);
	r = fs_read_open(fd, shown, SPEC_SCRIPT_MAX, &s->script, &len, e);
	(void)close(fd);
	if (r < 0)
		return err_wrap(e, "script");
	r = check_script(s->script, len, shown, e);
	if (r < 0)
		return r;
	if (lines)
		r = take_lines(s, o, shown, e);
	if (r < 0)
		return r;
	if (!s->name)
		s->name = xstrdup(name);
	if (spec_needs_script_name(s, name))
		s->script_name = xstrdup(name);
	return 0;
}

/* A script with its arguments, or the words of a command, from the first-th argument on. */
static int take_words(struct task_spec *s, const struct opts *o, size_t first, bool lines,
		      struct err *e)
{
	bool command = opts_dashes(o);
	int r = command ? 0 : take_script(s, o, opts_arg(o, first), lines, e);

	for (size_t i = command ? first : first + 1; i < opts_argc(o) && r == 0; i++)
		r = spec_set_text(s, command ? "argv" : "args", opts_arg(o, i), e);
	return r;
}

/* What it runs, from the arguments: a script, a command, or the lines of files, which may be tasks
 * of their own in *ret instead. The other options are in s already. 0, or negative: nothing good
 * was given. */
static int take_payload(struct task_spec *s, const struct opts *o, struct spec_list *ret,
			struct err *e)
{
	const struct value *from = opts_value(o, "from");
	size_t n = opts_argc(o);

	if (from && n)
		return err_set(e, -EINVAL, "with --from nothing else can be given to run");
	if (from)
		return lines_take_files(s, &from->words, ret, e);
	if (!n)
		return err_set(e, -EINVAL,
			       "say what to run: a script (- is standard input), or -- and a "
			       "command, or --from FILE");
	return take_words(s, o, 0, true, e);
}

int submit_take_run(const struct cmd_ctx *ctx, size_t first, struct task_spec *s, struct err *e)
{
	int r;

	if (!opts_flag(ctx->opts, "no-env"))
		submitter_environment(s);
	submitter_umask(s);
	r = submitter_directory(s, opts_text(ctx->opts, "cwd"), e);
	if (r == 0)
		r = spec_take_options(s, ctx->opts, e);
	return r == 0 && opts_argc(ctx->opts) > first ? take_words(s, ctx->opts, first, false, e)
						      : r;
}

/* What is no key of a task, behind which of them it is shown. */
static const struct {
	const char *behind;
	struct opt opt;
} own_opts[] = {
	{ "sweep",
	  { .name = "from",
	    .words = WORDS_FILES,
	    .spec = { VALUE_TEXTS },
	    .arg = "FILE",
	    .group = "Many at once",
	    .help = "a command per line, or JSON lines; - is the standard input; may be repeated" } },
	{ "env",
	  { .name = "no-env",
	    .spec = { VALUE_FLAG },
	    .group = "How it runs",
	    .help = "do not take this environment along; HOME, USER, LOGNAME, SHELL and a plain PATH are there all the same" } },
	{ NULL,
	  { .name = "json", .spec = { VALUE_FLAG }, .group = "Output", .help = "print JSON" } },
};

static void add_own_opts(struct opts *o, const char *behind)
{
	for (size_t i = 0; i < ARRAY_LEN(own_opts); i++)
		if (behind ? own_opts[i].behind && strcmp(own_opts[i].behind, behind) == 0
			   : !own_opts[i].behind)
			opts_add_row(o, &own_opts[i].opt);
}

void submit_add_opts(struct opts *o)
{
	const struct task_option *row;

	for (const char *const *group = task_option_groups; *group; group++)
		for (size_t i = 0; (row = task_option_at(i)); i++) {
			if (!row->opt.name || row->opt.group != *group)
				continue;
			opts_add_row(o, &row->opt);
			add_own_opts(o, row->key);
		}
	add_own_opts(o, NULL);
}

const struct cmd_variable submit_variables[] = {
	{ "CUDA_VISIBLE_DEVICES",
	  "the GPUs that it got, by index (with CUDA_DEVICE_ORDER=PCI_BUS_ID) or UUID; empty "
	  "with --gpus 0" },
	{ "TENURE_GPUS_FILE",
	  "with --gpus-max: a file with a line \"INDEX UUID\" for each GPU that it has now; another "
	  "one takes its place when that changes" },
	{ "TENURE_TASK_ID", "its id: 42, or 42.7 for an element" },
	{ "TENURE_ARRAY_INDEX",
	  "of an element: the index, from the A of --array A-B on; else its number, from 1 on" },
	{ "TENURE_ATTEMPT", "1, and one more each time that it runs again" },
	{ "TENURE_GPU_MEMORY",
	  "bytes per GPU that it asks for now, which --retry-memory raises; 0: not said" },
	{ "TENURE_INSTANCE", "the instance whose queue it is from" },
	{ "TENURE_JOB_KEY", "the job of an engine in which its agent runs, where it does" },
	{ "NAME", "of each --sweep NAME=..: the value of this element" },
	{ "HOME, USER, LOGNAME, SHELL, PATH",
	  "as at a login, where they are not taken along or set with --env" },
	{ 0 },
};

/* Of s, or of the lines that are tasks of their own: *ret has all of them. */
static int make_specs(const struct cmd_ctx *ctx, struct task_spec *s, struct spec_list *ret,
		      struct err *e)
{
	int r;

	if (!opts_flag(ctx->opts, "no-env"))
		submitter_environment(s);
	submitter_umask(s);
	r = submitter_directory(s, opts_text(ctx->opts, "cwd"), e);
	if (r == 0)
		r = spec_take_options(s, ctx->opts, e);
	if (r == 0) /* for lines that are tasks of their own */
		r = take_outputs(s, ctx->opts, NULL, e);
	if (r == 0)
		r = take_payload(s, ctx->opts, ret, e);
	if (r < 0 || ret->n) {
		(void)spec_free(s);
		return r;
	}
	spec_list_add(ret, s);
	r = spec_check(s, e);
	return r == 0 ? spec_check_options(s, e) : r;
}

/* Lines are many, and most of them ask for the same: it is looked and told once. */
static bool same_room(const struct task_spec *a, const struct task_spec *b)
{
	return a->gpus == b->gpus && a->memory == b->memory &&
	       strcmp(a->model ? a->model : "", b->model ? b->model : "") == 0;
}

static int check_places(const struct cmd_ctx *ctx, const struct spool *sp,
			const struct spec_list *specs, struct err *e)
{
	struct after_check after = { .sp = sp };
	int r = 0;

	for (size_t i = 0; i < specs->n && r == 0; i++) {
		if (!i || !same_room(specs->specs[i - 1], specs->specs[i]))
			r = room_check(ctx, sp, specs->specs[i], e);
		if (r == 0)
			r = after_check(&after, 0, specs->specs[i], e);
		if (r < 0 && specs->n > 1)
			(void)err_wrap(e, "task %zu", i + 1);
	}
	after_check_clear(&after);
	return r;
}

/* In tasks: each is written, and then moved. */
static void on_step(void *user, size_t done, size_t total)
{
	struct progress *p = user;

	progress_at(p, done * p->total / total);
}

static int submit(const struct cmd_ctx *ctx, size_t most, struct submitted *ret, struct err *e)
{
	struct spool *sp = NULL;
	struct progress progress;
	int r;

	*ret = (struct submitted){ .n = 0 };
	if (make_specs(ctx, spec_new(), &ret->specs, e) < 0)
		return CMD_USAGE;
	if (ret->specs.n > most) {
		(void)err_set(e, -EINVAL,
			      "its lines are %zu tasks of their own, which tenure submit takes",
			      ret->specs.n);
		return CMD_USAGE;
	}
	r = instance_open(ctx, SPOOL_CREATE, &sp, e);
	for (size_t i = 0; r == 0 && i < ret->specs.n; i++)
		r = after_take_last(sp, ret->specs.specs[i], e);
	if (r == 0)
		r = check_places(ctx, sp, &ret->specs, e);
	ret->ids = xcalloc(ret->specs.n, sizeof(*ret->ids));
	for (size_t i = 0; r == 0 && i < ret->specs.n; i++)
		submitter_name(ret->specs.specs[i], sp);
	progress = progress_begin("submitting", ret->specs.n);
	if (r == 0) /* or SUBMIT_NOT_DURABLE; negative: those before it are in the queue */
		r = submit_tasks(sp, ret->specs.specs, ret->specs.n, ret->ids, &ret->n, on_step,
				 &progress, e);
	progress_end(&progress);
	ret->sp = sp;
	if (ret->n) {
		agent_look(ctx);
		ret->id = ret->ids[0];
		ret->spec = ret->specs.specs[0];
	}
	if (r < 0)
		return err_wrap(e, ret->n ? "not submitted, after %zu that were" : "not submitted",
				ret->n);
	if (r == SUBMIT_NOT_DURABLE)
		cmd_warn("warning", "%s\nit is in the queue, but may not survive a power loss",
			 e->text);
	return 0;
}

int submit_from_options(const struct cmd_ctx *ctx, struct submitted *ret, struct err *e)
{
	return submit(ctx, 1, ret, e);
}

int submit_all_from_options(const struct cmd_ctx *ctx, struct submitted *ret, struct err *e)
{
	return submit(ctx, SIZE_MAX, ret, e);
}

void submitted_clear(struct submitted *s)
{
	s->sp = spool_close(s->sp);
	spec_list_clear(&s->specs);
	free(take_ptr(s->ids));
}
