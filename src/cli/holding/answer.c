/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/ask_wire.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/agent_client.h"
#include "cli/commands.h"

#define LIMIT_MS 5000

static const struct opt answer_opts[] = {
	{ .name = "stop",
	  .spec = { VALUE_FLAG },
	  .help = "with yes: what is never requeued there (--no-requeue, an allocation) is stopped" },
	{ 0 },
};

struct said {
	uint64_t id; /* 0: the one that is open */
	bool yes;
	const char *message;
};

/* "[ID] yes|no [MESSAGE]" */
static int read_words(const struct opts *o, struct said *ret, struct err *e)
{
	size_t at = 0;
	const char *word = opts_arg(o, 0);

	*ret = (struct said){ .message = "" };
	if (word && str_to_u64(word, &ret->id) == 0)
		word = opts_arg(o, ++at);
	ret->yes = word && !strcmp(word, "yes");
	if (!word || (!ret->yes && strcmp(word, "no") != 0))
		return err_set(e, -EINVAL, "say yes or no: tenure answer %s",
			       at ? "ID yes" : "yes, or tenure answer no"),
		       CMD_USAGE;
	if (opts_arg(o, at + 1))
		ret->message = opts_arg(o, at + 1);
	if (opts_argc(o) > at + 2)
		return err_set(e, -EINVAL, "a message is one argument: put it into quotes"),
		       CMD_USAGE;
	if (strlen(ret->message) > ASK_MESSAGE_MAX)
		return err_set(e, -E2BIG, "the message has %zu bytes, and may have %d",
			       strlen(ret->message), ASK_MESSAGE_MAX),
		       CMD_USAGE;
	return 0;
}

/* What is not requeued is stopped by its owner's order, as by tenure stop. */
static int stop_tasks(const struct cmd_ctx *ctx, const json_t *tasks, struct err *e)
{
	const json_t *one;
	size_t i;
	int r = 0;

	json_array_foreach(tasks, i, one)
	{
		struct order_task task = { .id = json_get_u64(one, "task"),
					   .element = json_get_u64(one, "element") };
		const struct order o = { .command = ORDER_STOP, .n = 1, .tasks = &task };
		json_t *doc = NULL;
		char id[ORDER_ID_MAX];

		r = r == 0 ? agent_ask_about(ctx, &o, &doc, e) : r;
		if (r == 0)
			printf("task %s is stopped\n", order_format_task(&task, id));
		json_decref(doc);
	}
	return r;
}

static void say_requeued(const json_t *tasks)
{
	const json_t *one;
	size_t i;

	json_array_foreach(tasks, i, one)
	{
		const struct order_task task = { .id = json_get_u64(one, "task"),
						 .element = json_get_u64(one, "element") };
		char id[ORDER_ID_MAX];

		printf("task %s is requeued, not counted as a try\n", order_format_task(&task, id));
	}
}

static int answer(const struct cmd_ctx *ctx, const json_t *doc, const struct said *said,
		  struct err *e)
{
	uint64_t gpu = json_get_u64(doc, "gpu");

	if (!said->yes) {
		printf("they are told that GPU %llu stays yours\n", (unsigned long long)gpu);
		return CMD_OK;
	}
	say_requeued(json_object_get(doc, "requeued"));
	printf("GPU %llu is left to them until they have come, for 10 minutes at most\n",
	       (unsigned long long)gpu);
	return stop_tasks(ctx, json_object_get(doc, "stop"), e);
}

static int run_answer(const struct cmd_ctx *ctx, struct err *e)
{
	cleanup_free char *text = NULL;
	json_t *doc = NULL;
	struct said said;
	int r = read_words(ctx->opts, &said, e);

	if (r != 0)
		return r;
	doc = json_pack("{sI sb sb so}", "ask", (json_int_t)said.id, "yes", said.yes, "stop",
			opts_flag(ctx->opts, "stop"), "message", json_new_text(said.message));
	text = json_dumps(doc, JSON_COMPACT);
	json_decref(doc);
	doc = NULL;
	r = agent_ask_with(ctx, CTL_ANSWER, text, LIMIT_MS, &doc, e);
	if (r == CMD_OK)
		r = agents_answer_code(doc, e) < 0 ? CMD_FAILED : answer(ctx, doc, &said, e);
	json_decref(doc);
	return r;
}

static const struct cmd_example answer_examples[] = {
	{ "tenure answer yes", "somebody asks for a GPU: requeue the task that has it" },
	{ "tenure answer no \"tonight, at ten\"", "refuse, and say why" },
	{ "tenure answer 2 yes --stop", "of several asks the one with number 2; a task that must "
					"not be requeued ends" },
	{ 0 },
};

const struct cmd cmd_answer = {
	.name = "answer",
	.group = "This machine",
	.summary = "answer who asks for a GPU that a task of yours has",
	.args = "[ID] yes|no [MESSAGE]",
	.words = { WORDS_ANSWERS, WORDS_ANSWERS },
	.min_args = 1,
	.max_args = 3,
	.description =
		"tenure status lists who asks. By yes the tasks on that GPU are requeued, as where "
		"they are preempted: that is no try. Tasks of this instance stay away from it until "
		"who asked has come to it, for ten minutes at most.\n\n"
		"What must not be requeued (--no-requeue, an allocation) stays, and is stopped with "
		"--stop alone. Who asked is told in any case, with your message.",
	.examples = answer_examples,
	.opts = answer_opts,
	.setting_groups = SETTING_GROUP_AGENT,
	.run = run_answer,
};
