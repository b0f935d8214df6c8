/* SPDX-License-Identifier: MIT */

/* `tell-free`: the event that GPUs are free, of a program that watches a cluster. */

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "cli/agent_setup.h"
#include "cli/commands.h"
#include "cli/event_file.h"
#include "cli/notifier.h"

#define SHOWN_NODES 8

static const struct opt tell_free_opts[] = {
	{ .name = "threshold",
	  .spec = { VALUE_UINT, .max = 1000000 },
	  .arg = "N",
	  .def = "1",
	  .help = "so many had to be free" },
	{ .name = "email",
	  .spec = { VALUE_STRING },
	  .arg = "ADDRESS",
	  .help = "mail it there, too, by the first channel for mail of the block `notify`, or by "
		  "sendmail" },
	{ 0 },
};

/* "qa-a10-024=2": true. */
static bool add_node(const char *word, json_t *nodes, uint64_t *all, struct strbuf *words)
{
	const char *equals = strrchr(word, '=');
	cleanup_free char *name = equals ? xasprintf("%.*s", (int)(equals - word), word) : NULL;
	uint64_t n;

	if (!name || !name[0] || str_to_u64(equals + 1, &n) < 0 || n > 1000000)
		return false;
	strbuf_add_some(words, json_array_size(nodes), SHOWN_NODES, "%" PRIu64 " on %s", n, name);
	(void)json_array_append_new(
		nodes, json_pack("{s:o, s:I}", "node", json_new_text(name), "free", (json_int_t)n));
	*all += n;
	return true;
}

/* For a mail. Takes the reference to more. */
static json_t *event_of(const struct cmd_ctx *ctx, json_t *more, const char *text)
{
	char time[CLOCK_TEXT_MAX];

	(void)json_object_set_new(more, "time",
				  json_string(clock_format_iso(clock_wall_ns(), time)));
	(void)json_object_set_new(more, "event", json_string("free"));
	(void)json_object_set_new(more, "level", json_string("info"));
	(void)json_object_set_new(more, "instance",
				  json_new_text(settings_str(ctx->settings, SET_INSTANCE)));
	(void)json_object_set_new(more, "text", json_new_text(text));
	return more;
}

static int run_tell_free(const struct cmd_ctx *ctx, struct err *e)
{
	uint64_t threshold = opts_value(ctx->opts, "threshold")->num, all = 0;
	cleanup_strbuf struct strbuf words = STRBUF_INIT;
	cleanup_free char *text = NULL, *state = agent_setup_state_dir(ctx->settings);
	const char *email = opts_text(ctx->opts, "email");
	json_t *nodes = json_array(), *more;

	for (size_t i = 0; i < opts_argc(ctx->opts); i++)
		if (!add_node(opts_arg(ctx->opts, i), nodes, &all, &words)) {
			json_decref(nodes);
			(void)err_set(e, -EINVAL, "\"%s\" is no NODE=N", opts_arg(ctx->opts, i));
			return CMD_USAGE;
		}
	strbuf_add_more(&words, json_array_size(nodes), SHOWN_NODES);
	text = xasprintf("%" PRIu64 " GPU%s free: %s", all, all == 1 ? " is" : "s are",
			 strbuf_str(&words));
	more = json_pack("{s:I, s:I, s:o}", "free", (json_int_t)all, "threshold",
			 (json_int_t)threshold, "nodes", nodes);
	event_file_add(ctx, LOG_LEVEL_INFO, "free", json_incref(more), text);
	if (email)
		return notifier_mail(ctx, state, email, event_of(ctx, more, text), e);
	json_decref(more);
	return CMD_OK;
}

static const struct cmd_example tell_free_examples[] = {
	{ "tenure tell-free --threshold 2 qa-a10-024=1 qa-a10-025=1", "two GPUs on two nodes" },
	{ 0 },
};

const struct cmd cmd_tell_free = {
	.name = "tell-free",
	.group = ALLOC_GROUP,
	.summary = "write the event that GPUs of a cluster are free",
	.args = "NODE=N..",
	.min_args = 1,
	.description = "For programs that watch a cluster, as gpu-resource-manager does. An agent "
		       "that watches its own GPUs (gpu_available_threshold) writes it itself.",
	.examples = tell_free_examples,
	.opts = tell_free_opts,
	.setting_groups = SETTING_GROUP_QUEUE,
	.flags = CMD_HIDDEN,
	.run = run_tell_free,
};
