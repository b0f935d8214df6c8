/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "cli/agent_client.h"
#include "cli/commands.h"
#include "cli/holding/status_text.h"

#define STATUS_LIMIT_MS 5000

static int run_status(const struct cmd_ctx *ctx, struct err *e)
{
	json_t *doc = NULL;
	int code = agent_ask(ctx, CTL_STATUS, STATUS_LIMIT_MS, &doc, NULL, e);

	if (code != CMD_OK)
		return code;
	if (opts_flag(ctx->opts, "json")) {
		cmd_print_json(json_incref(doc));
	} else {
		status_text_print(doc, stdout);
	}
	json_decref(doc);
	return CMD_OK;
}

static const struct cmd_example status_examples[] = {
	{ "tenure status", "what is held, what is not and why, the last yields" },
	{ "tenure status --json", "the same for programs" },
	{ "tenure status || tenure on", "start it where it does not run: exit code 3" },
	{ 0 },
};

const struct cmd cmd_status = {
	.name = "status",
	.group = "Holding GPUs",
	.summary = "what the agent of this node does: devices, reasons, yields, log",
	.description =
		"Each device with its state and the reason for it, how long it has been in it, "
		"the memory held, what the GPU reports, then the last yields with their "
		"latencies and the end of the log. Exit code 3 when no agent runs.",
	.examples = status_examples,
	.flags = CMD_JSON,
	.setting_groups = SETTING_GROUP_AGENT,
	.run = run_status,
};
