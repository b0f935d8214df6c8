/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/ask_agent.h"
#include "cli/commands.h"
#include "cli/print_json.h"
#include "cli/term.h"

#define OFF_LIMIT_MS 10000 /* the agent itself gives up after one second */
#define END_LIMIT_MS 3000  /* it writes its last lines */

static const struct opt off_opts[] = {
	{ .name = "json", .spec = { VALUE_FLAG }, .help = "print JSON" },
	{ 0 },
};

/*
 * The agent answers while it still writes its last lines. Its end is that of the process, or, where
 * its PID means nothing here (another PID namespace), that of the socket.
 */
static void wait_end(int pid, int sock)
{
	cleanup_fd int pidfd = pid > 0 ? pidfd_open(pid, 0) : -1;
	struct pollfd p = { .fd = pidfd >= 0 ? pidfd : sock, .events = POLLIN };

	while (poll(&p, 1, END_LIMIT_MS) < 0 && errno == EINTR)
		;
}

static int run_off(const struct cmd_ctx *ctx, struct err *e)
{
	json_t *doc = NULL;
	cleanup_fd int fd = -1;
	int code = ask_agent(ctx, CTL_OFF, OFF_LIMIT_MS, &doc, &fd, e);

	if (code != CMD_OK)
		return code;

	int pid = (int)json_integer_value(json_object_get(doc, "pid"));
	double ms = json_real_value(json_object_get(doc, "took_ms"));

	wait_end(pid, fd);

	if (!json_is_true(json_object_get(doc, "released"))) {
		(void)err_set(
			e, -ETIMEDOUT,
			"the agent (PID %d) has ended, and the guard did not confirm that all "
			"is free; it lets go by itself in at most 10 s",
			pid);
		code = CMD_FAILED;
	} else if (opts_flag(ctx->opts, "json")) {
		print_json_line(json_incref(doc));
	} else {
		cleanup_free char *text = xasprintf(
			"Everything is free after %.0f ms; the agent (PID %d) has ended.", ms, pid);

		term_print_wrapped(stdout, text, 0);
	}
	json_decref(doc);
	return code;
}

static const struct cmd_example off_examples[] = {
	{ "tenure off", "let go of everything and end the agent" },
	{ "tenure off --instance night", "the same for another instance" },
	{ 0 },
};

const struct cmd cmd_off = {
	.name = "off",
	.group = "Holding GPUs",
	.summary = "let go of everything and end the agent of this node",
	.description = "Comes back when all memory is free and the agent has ended. Also ends a "
		       "`tenure hold` in another terminal.",
	.examples = off_examples,
	.opts = off_opts,
	.setting_groups = SETTING_GROUP_AGENT,
	.run = run_off,
};
