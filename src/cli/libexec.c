/* SPDX-License-Identifier: MIT */
#include "cli/libexec.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/textlist.h"

static const char *const places[] = { "", "../libexec/tenure/" };

char *libexec_own(const char *path)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n <= 0)
		return NULL;
	self[n] = '\0';
	*strrchr(self, '/') = '\0';
	return xasprintf("%s/%s", self, path);
}

char *libexec_find(const char *name, const char *needs, struct err *e)
{
	cleanup_free char *own = libexec_own("");

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		cleanup_free char *path = xasprintf("%s%s%s", own ? own : "", places[i], name);

		if (access(path, X_OK) == 0)
			return take_ptr(path);
	}
	(void)err_set(
		e, -ENOENT,
		"%s is not installed: it is neither in %s nor in %s../libexec/tenure. It is built "
		"where %s is there; install that, then build and install tenure again",
		name, own ? own : "?", own ? own : "?", needs);
	return NULL;
}

/* Row by row, as it was understood. */
static void add_options(struct text_list *argv, const struct opts *o)
{
	for (size_t i = 0; i < opts_n_rows(o); i++) {
		const struct opt *row = opts_row(o, i);

		if (!opts_given(o, row->name))
			continue;
		if (row->spec.type == VALUE_FLAG)
			text_list_take(argv,
				       xasprintf("--%s%s", opts_flag(o, row->name) ? "" : "no-",
						 row->name));
		else
			text_list_take(argv,
				       xasprintf("--%s=%s", row->name, opts_text(o, row->name)));
	}
}

int libexec_run(const struct cmd_ctx *ctx, const char *name, const char *needs, struct err *e)
{
	cleanup_free char *path = libexec_find(name, needs, e);
	cleanup_free char *program = libexec_own("tenure");
	struct text_list argv = { .n = 0 };
	int r;

	if (!path)
		return -ENOENT;
	text_list_add(&argv, name);
	if (program)
		text_list_take(&argv, xasprintf("--program=%s", program));
	add_options(&argv, ctx->opts);
	text_list_take(&argv, NULL);
	(void)execv(path, argv.texts);
	r = err_sys(e, errno, "start %s", path);
	text_list_clear(&argv);
	return r;
}

void libexec_hand_on(const struct cmd_ctx *ctx)
{
	for (size_t i = 0; i < SET_MAX; i++) {
		const struct setting *row = setting_row((enum setting_id)i);

		/* How it is served is nothing that they, or an agent, are to be told. */
		if (row->groups & SETTING_GROUP_SERVE)
			continue;
		if (row->opt.env && opts_has(ctx->opts, row->opt.name) &&
		    opts_given(ctx->opts, row->opt.name))
			(void)setenv(row->opt.env, opts_text(ctx->opts, row->opt.name), 1);
	}
}
