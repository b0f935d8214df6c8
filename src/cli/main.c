/* SPDX-License-Identifier: MIT */

/*
 * One executable, several programs: `tenure` is the command line; the processes that it starts for
 * itself are told apart by argv[0], because that is what process lists show to other people.
 */

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/node/selfcopy.h"
#include "alloc/keeper.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/words.h"
#include "hold/guard/guard.h"
#include "hold/holder/holder.h"
#include "task/fork_server.h"
#include "task/on_end_run.h"

const struct cmd *const commands[] = {
	&cmd_hold,	&cmd_burn,    &cmd_on,	   &cmd_reload,	    &cmd_off,	    &cmd_shutdown,
	&cmd_status,	&cmd_events,  &cmd_agent,  &cmd_submit,	    &cmd_run_task,  &cmd_list,
	&cmd_show,	&cmd_why,     &cmd_logs,   &cmd_top,	    &cmd_wait,	    &cmd_stop,
	&cmd_priority,	&cmd_pause,   &cmd_resume, &cmd_retry,	    &cmd_edit,	    &cmd_history,
	&cmd_alloc,	&cmd_start,   &cmd_allocs, &cmd_release,    &cmd_instances, &cmd_nodes,
	&cmd_notify,	&cmd_engines, &cmd_use,	   &cmd_up,	    &cmd_down,	    &cmd_tell_free,
	&cmd_burn_part, &cmd_tick,    &cmd_import, &cmd_sweep,	    &cmd_prune,	    &cmd_devices,
	&cmd_serve,	&cmd_web,     &cmd_ask,	   &cmd_answer,	    &cmd_doctor,    &cmd_health,
	&cmd_version,	&cmd_config,  &cmd_help,   &cmd_completion, &cmd_sim,	    &cmd_man,
	NULL,
};

/*
 * A program of its own inside this executable, chosen by the beginning of argv[0], or, for one that
 * only we start, by the word behind it. A row with neither ends the table.
 */
static const struct program {
	const char *argv0_prefix;
	const char *verb;
	int (*run)(int argc, char **argv);
} programs[] = {
	{ .argv0_prefix = "tenure-hold:", .run = holder_main },
	{ .argv0_prefix = "tenure-shims:", .run = fork_server_main },
	{ .argv0_prefix = COPY_TRY_ARGV0, .run = selfcopy_try_main },
	{ .argv0_prefix = KEEPER_ARGV0, .run = keeper_main },
	{ .verb = "guard", .run = guard_main },
	{ .verb = KEEPER_VERB, .run = keeper_begin },
	{ .verb = ON_END_VERB, .run = on_end_main },
	{ .verb = WORDS_VERB, .run = words_main },
	{ 0 },
};

/* What other programs call what we have. */
static const struct {
	const char *word, *command;
} synonyms[] = {
	{ "salloc", "alloc" }, { "allocate", "alloc" },	 { "gpus", "devices" },
	{ "monitor", "top" },  { "htop", "top" },	 { "watch", "status" },
	{ "info", "devices" }, { "check", "doctor" },	 { "settings", "config" },
	{ "ls", "list" },      { "ps", "list" },	 { "queue", "list" },
	{ "squeue", "list" },  { "jobs", "list" },	 { "tail", "logs" },
	{ "cat", "logs" },     { "output", "logs" },	 { "kill", "stop" },
	{ "cancel", "stop" },  { "scancel", "stop" },	 { "rm", "stop" },
	{ "delete", "stop" },  { "sbatch", "submit" },	 { "add", "submit" },
	{ "srun", "run" },     { "continue", "resume" }, { "suspend", "pause" },
	{ "rerun", "retry" },  { "sinfo", "nodes" },	 { "clusters", "engines" },
	{ "qhost", "nodes" },  { "change", "edit" },	 { "modify", "edit" },
};

static char *suggestion(const char *name)
{
	static const char *const options[] = { "--help", "--version", NULL };

	if (name[0] == '-') {
		const char *near = str_nearest(name, options);

		return near ? xasprintf("there is no option %s; did you mean %s?", name, near)
			    : xasprintf("%s: options come after the command, like tenure status "
					"--json; tenure --help lists the commands",
					name);
	}
	for (size_t i = 0; i < ARRAY_LEN(synonyms); i++)
		if (strcmp(synonyms[i].word, name) == 0)
			return xasprintf("there is no command \"%s\"; did you mean %s? (tenure "
					 "--help lists them)",
					 name, synonyms[i].command);

	cleanup_free char *near = cmd_suggest(commands, name);

	return xasprintf("there is no command \"%s\"%s (tenure --help lists them)", name, near);
}

static int unknown_command(const char *name)
{
	cleanup_free char *text = suggestion(name);

	return cmd_fail(CMD_USAGE, text);
}

static int run_command(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : NULL;

	if (!name) {
		help_overview(stderr);
		return CMD_USAGE;
	}
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
		help_overview(stdout);
		return CMD_OK;
	}
	if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
		puts("tenure " TENURE_VERSION);
		return CMD_OK;
	}

	const struct cmd *cmd = cmd_find(commands, name);

	return cmd ? cmd_run(cmd, "tenure", argc - 1, argv + 1) : unknown_command(name);
}

/* A file that we open must never become somebody's standard output. */
static void fill_standard_fds(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
			_exit(CMD_FAILED);
}

int main(int argc, char **argv)
{
	fill_standard_fds();

	const char *self = argc > 0 ? argv[0] : "";

	for (const struct program *p = programs; p->run; p++) {
		if (p->argv0_prefix && str_has_prefix(self, p->argv0_prefix))
			return p->run(argc, argv);
		if (p->verb && argc > 1 && strcmp(argv[1], p->verb) == 0)
			return p->run(argc - 1, argv + 1);
	}

	struct err e = ERR_INIT;
	int r = run_command(argc, argv);

	if (fs_close_stdout(&e) < 0 && r == CMD_OK)
		return cmd_fail(CMD_FAILED, e.text);
	return r;
}
