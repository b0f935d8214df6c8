/* SPDX-License-Identifier: MIT */
#include "cli/notifier.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/helpers.h"
#include "base/config.h"
#include "base/fs.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/settings.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "cli/libexec.h"
#include "notify/config.h"
#include "spool/heartbeat.h"

/* As agents name their files: by the host, and in jobs by their own name. */
static char *outbox_path(const struct cmd_ctx *ctx, const char *state)
{
	char host[256] = "", name[NAME_AGENT_MAX + 1];

	if (gethostname(host, sizeof(host) - 1) < 0 || !host[0])
		(void)str_copy(host, sizeof(host), "localhost");
	(void)heartbeat_agent_name(settings_str(ctx->settings, SET_NODE_NAME), host, ctx->job,
				   name);
	return xasprintf("%s/%s/notify/%s.json", state, settings_str(ctx->settings, SET_INSTANCE),
			 ctx->job ? name : host);
}

static const char config_option[] = "--config=";

static const enum setting_layer layers[] = { SETTING_FROM_INSTANCE, SETTING_FROM_USER,
					     SETTING_FROM_SITE };

void notifier_add_options(const struct cmd_ctx *ctx, const char *state_dir, struct text_list *argv)
{
	cleanup_strbuf struct strbuf files = STRBUF_INIT;
	cleanup_free char *outbox = outbox_path(ctx, state_dir);

	for (size_t i = 0; i < ARRAY_LEN(layers); i++) {
		const char *file = settings_file(ctx->settings, layers[i]);

		if (file)
			strbuf_addf(&files, "%s%s", files.len ? ":" : "", file);
	}
	text_list_take(argv, xasprintf("%s%s", config_option, strbuf_str(&files)));
	text_list_take(argv, xasprintf("--outbox=%s", outbox));
	text_list_take(argv, xasprintf("--instance=%s", settings_str(ctx->settings, SET_INSTANCE)));
}

/* Whether one of the files says whom to tell. A mistake in it is the notifier's to tell. */
static bool is_configured(const struct cmd_ctx *ctx)
{
	bool found = false;

	for (size_t i = 0; i < ARRAY_LEN(layers) && !found; i++) {
		const char *file = settings_file(ctx->settings, layers[i]);
		bool own = layers[i] != SETTING_FROM_SITE;
		struct err e = ERR_INIT;
		json_t *block = NULL;

		if (file && config_read_block(file, own, SETTINGS_NOTIFY, &block, &e) != -ENOENT)
			found = block || e.code == -EINVAL;
		json_decref(block);
	}
	return found;
}

/* A rule of the files names the event of free GPUs. */
static bool names_free(const struct text_list *argv)
{
	struct notify_config c;
	struct err e = ERR_INIT;
	bool ret = false;

	for (size_t i = 0; i < argv->n; i++)
		if (str_has_prefix(argv->texts[i], config_option)) {
			ret = notify_config_read(argv->texts[i] + strlen(config_option), &c, NULL,
						 &e) == 0 &&
			      notify_config_names(&c, "free");
			notify_config_clear(&c);
		}
	return ret;
}

json_t *notifier_spec(const struct cmd_ctx *ctx, const char *state_dir)
{
	cleanup_free char *program = NULL;
	struct text_list argv = { .n = 0 };
	json_t *words = json_array();
	bool tells_free;
	struct err e = ERR_INIT;

	if (!is_configured(ctx)) {
		json_decref(words);
		return NULL;
	}
	program = libexec_find(NOTIFIER_PROGRAM, NOTIFIER_NEEDS, &e);
	if (!program)
		cmd_warn("warning", "nobody is told of what happens: %s", e.text);
	notifier_add_options(ctx, state_dir, &argv);
	text_list_add(&argv, "run");
	for (size_t i = 0; i < argv.n; i++)
		(void)json_array_append_new(words, json_new_text(argv.texts[i]));
	tells_free = names_free(&argv);
	text_list_clear(&argv);
	return json_pack("{ss ss? ss? sb sb so}", "name", NOTIFIER_PROGRAM, "program", program,
			 "trouble", program ? NULL : e.text, "watches", 1, HELPER_TELLS_FREE,
			 tells_free, "argv", words);
}

/* The event on standard input. */
static int feed(json_t *event, struct err *e)
{
	cleanup_free char *text = json_dumps(event, JSON_COMPACT | NUMBER_DIGITS);
	cleanup_fd int fd = memfd_create("event", MFD_CLOEXEC);
	int r = fd < 0 ? -errno : text ? fs_write_all(fd, text, strlen(text)) : -EINVAL;

	if (r == 0 && (lseek(fd, 0, SEEK_SET) < 0 || dup2(fd, STDIN_FILENO) < 0))
		r = -errno;
	return r < 0 ? err_sys(e, -r, "the event cannot be handed on") : 0;
}

int notifier_mail(const struct cmd_ctx *ctx, const char *state_dir, const char *email,
		  json_t *event, struct err *e)
{
	cleanup_free char *program = libexec_find(NOTIFIER_PROGRAM, NOTIFIER_NEEDS, e);
	struct text_list argv = { .n = 0 };
	int r = program ? feed(event, e) : -ENOENT;

	json_decref(event);
	if (r < 0)
		return r;
	text_list_add(&argv, NOTIFIER_PROGRAM);
	notifier_add_options(ctx, state_dir, &argv);
	text_list_take(&argv, xasprintf("--email=%s", email));
	text_list_add(&argv, "send");
	text_list_take(&argv, NULL);
	(void)execv(program, argv.texts);
	r = err_sys(e, errno, "start %s", program);
	text_list_clear(&argv);
	return r;
}
