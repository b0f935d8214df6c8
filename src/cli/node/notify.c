/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/agent_client.h"
#include "cli/agent_setup.h"
#include "cli/commands.h"
#include "cli/libexec.h"
#include "cli/notifier.h"

#define AGENT_LIMIT_MS 2000

/* What is configured is not sent by itself. */
static void add_agent(const struct cmd_ctx *ctx, struct text_list *argv)
{
	struct err why = ERR_INIT;
	json_t *status = NULL;
	int code = agent_ask(ctx, AGENT_VERB(CTL_STATUS), AGENT_LIMIT_MS, &status, NULL, &why);

	if (code == CMD_NOTHING_RUNS)
		text_list_add(argv, "--agent=none");
	else if (code == CMD_OK)
		text_list_add(argv, agent_helper(status, NOTIFIER_PROGRAM) ? "--agent=sends"
									   : "--agent=silent");
	else
		cmd_warn("warning", "whether anything is sent is not known: %s", why.text);
	json_decref(status);
}

static int run(const struct cmd_ctx *ctx, struct err *e)
{
	const char *word = opts_arg(ctx->opts, 0), *channel = opts_arg(ctx->opts, 1);
	cleanup_free char *program = NULL, *state = agent_setup_state_dir(ctx->settings);
	struct text_list argv = { .n = 0 };
	int r;

	if (word && strcmp(word, "test") != 0) {
		(void)err_set(e, -EINVAL,
			      "\"%s\": it is `tenure notify`, or `tenure notify test [CHANNEL]`",
			      word);
		return CMD_USAGE;
	}
	program = libexec_find(NOTIFIER_PROGRAM, NOTIFIER_NEEDS, e);
	if (!program)
		return -ENOENT;
	text_list_add(&argv, NOTIFIER_PROGRAM);
	if (!word)
		add_agent(ctx, &argv);
	notifier_add_options(ctx, state, &argv);
	if (opts_flag(ctx->opts, "json"))
		text_list_add(&argv, "--json");
	text_list_add(&argv, word ? word : "show");
	if (channel)
		text_list_add(&argv, channel);
	text_list_take(&argv, NULL);
	(void)execv(program, argv.texts);
	r = err_sys(e, errno, "start %s", program);
	text_list_clear(&argv);
	return r;
}

static const struct cmd_example examples[] = {
	{ "tenure notify", "the channels, what waits for each, and how the last attempts went" },
	{ "tenure notify test", "send a test by each channel, and say what came of it" },
	{ "tenure notify test mail", "the same by the channel that is called mail" },
	{ NULL },
};

const struct cmd cmd_notify = {
	.name = "notify",
	.group = QUEUE_GROUP,
	.summary = "who is told of what happens, and how that went",
	.args = "[test [CHANNEL]]",
	.max_args = 2,
	.words = { WORDS_TEST },
	.description =
		"People can be told by mail, by a webhook (Slack, Feishu, DingTalk, WeCom, ntfy and "
		"others), on the desktop, or by a command, when a task has failed, a lane is paused, "
		"GPUs are free, a node or a device is lost, and so on. Whom and of what stands in the "
		"block `notify` of a config file; of those of the instance, the user and the site the "
		"first counts that has one.\n\n"
		"An agent tells them while it runs. What cannot be sent waits, also while no agent "
		"runs, and is tried again for a day.\n\n"
		"Secrets are read from files (mode 600) or variables, and are never shown.",
	.examples = examples,
	.setting_groups = SETTING_GROUP_NODE,
	.flags = CMD_JSON,
	.run = run,
};
