/* SPDX-License-Identifier: MIT */

/* `hold` and `agent`: the agent in the foreground. */

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/strbuf.h"
#include "cli/agent_setup.h"
#include "cli/commands.h"
#include "cli/pools.h"
#include "cli/term.h"

#define LAST_WORD_S 1

/*
 * On a thread of the agent's pool, as warn() is, so nothing else of stdio may be used meanwhile.
 * The agent itself notices a reader that went away. A disk that is full ends nothing; stdio
 * remembers it, and main() tells it at the end.
 */
static void put(const struct strbuf *text)
{
	(void)fwrite(text->data, 1, text->len, stdout);
	(void)fflush(stdout);
}

static void show_line(const char *line)
{
	cleanup_strbuf struct strbuf text = STRBUF_INIT;

	strbuf_addf(&text, "%s\n", line);
	put(&text);
}

/*
 * "14:02:11  text": what does not fit a terminal goes under the text. In a pipe an event is a line,
 * whatever $COLUMNS says.
 */
static void show_sentence(const char *line)
{
	size_t indent = strlen("14:02:11  ");
	cleanup_strbuf struct strbuf text = STRBUF_INIT;

	if (strlen(line) > indent) {
		strbuf_add(&text, line, indent);
		line += indent;
	}
	strbuf_add_wrapped(&text, line, indent,
			   isatty(STDOUT_FILENO) ? term_columns(STDOUT_FILENO) : SIZE_MAX);
	put(&text);
}

static void warn(const char *line)
{
	cmd_warn("warning", "%s", line);
}

struct last_word {
	int code;
	const char *text;
};

static void *say(void *data)
{
	struct last_word *w = data;

	(void)cmd_fail(w->code, w->text);
	return NULL;
}

/* Where a file hangs the error output may as well, which is not waited for. */
static void __attribute__((noreturn)) end_stuck(void *user, enum agent_end end, const struct err *e)
{
	struct last_word w = { .code = agent_setup_exit_code(end), .text = e->text };
	const struct timespec until = clock_timespec(clock_mono_ns() + LAST_WORD_S * NS_PER_S);
	pthread_t thread;

	if (w.code != CMD_OK && w.text[0] && pthread_create(&thread, NULL, say, &w) == 0)
		(void)pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until);
	_exit(w.code);
}

static int run_hold(const struct cmd_ctx *ctx, struct err *e)
{
	struct agent_setup r = { 0 };
	int code = agent_setup_prepare(ctx, &r, e);
	uint64_t n_ended = 0;

	if (code == CMD_OK) {
		r.config.show = r.config.show_json ? show_line : show_sentence;
		r.config.show_fd = STDOUT_FILENO;
		r.config.warn = warn;
		r.config.stuck = end_stuck;
		r.config.n_ended = &n_ended;
		code = agent_setup_exit_code(agent_run(&r.config, e));
		if (r.config.pool)
			pools_tick_at_end(ctx, r.config.token, n_ended);
	}
	agent_setup_clear(&r);
	return code;
}

static const struct cmd_example hold_examples[] = {
	{ "tenure hold", "hold every GPU once it has been idle for 5 minutes; Ctrl-C lets go" },
	{ "tenure hold --gpus 0,1 --memory 38G --idle-for 0", "two of them, 38 GiB on each, now" },
	{ "tenure hold --leave 1 --until 18:30", "all but the last one, until the evening" },
	{ "tenure hold --load none --json", "memory only; events as JSON lines" },
	{ 0 },
};

const struct cmd cmd_hold = {
	.name = "hold",
	.group = "Holding GPUs",
	.summary = "hold idle GPUs in the foreground; Ctrl-C lets go of all",
	.description =
		"Holds the GPUs that are idle and lets go of one as soon as somebody else's "
		"process appears on it, before that process asks for memory. Prints one line "
		"per event. Ctrl-C, or a closed terminal, frees everything within a second. Ctrl-Z "
		"does so as well until it is continued; so does the end of whoever reads its "
		"output through a pipe, with exit code 141. Started with nohup it stays when the "
		"terminal is closed.\n"
		"\n"
		"`tenure on` does the same in the background.",
	.examples = hold_examples,
	.opts = agent_setup_opts,
	.setting_groups = HOLD_SETTING_GROUPS,
	.flags = CMD_HOLDS | CMD_JSON_LINES,
	.run = run_hold,
};

static const struct cmd_example agent_examples[] = {
	{ "tenure agent", "what `tenure on` does, without going to the background" },
	{ "tenure agent --on-empty exit --lifetime 12h", "in a job: until there is nothing to do" },
	{ "tenure agent --no-hold", "watch the GPUs, and hold none" },
	{ 0 },
};

const struct cmd cmd_agent = {
	.name = "agent",
	.group = "Holding GPUs",
	.summary = "the agent of this node in the foreground, for service managers",
	.description =
		"One agent serves an instance on a node. It is what `tenure on` starts in the "
		"background; a service manager, or a job of a cluster, runs it like this.",
	.examples = agent_examples,
	.opts = agent_setup_opts_serves,
	.setting_groups = AGENT_SETTING_GROUPS,
	.flags = CMD_HOLDS | CMD_JSON_LINES | CMD_SERVES,
	.run = run_hold,
};
