/* SPDX-License-Identifier: MIT */

/*
 * Whoever touches a directory of a file server that hangs waits for as long as the server likes. A
 * thread says so for every command; a process of its own looks for who would do something else
 * then, since one that waits for a file server cannot always be ended.
 */

#include "cli/instance.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "spool/instance.h"

#define ANSWER_LIMIT_MS 3000

/* Nothing of the caller's is kept open: he may be waited for by its end. */
static void __attribute__((noreturn)) look_and_exit(const struct cmd_ctx *ctx)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct spool *sp = NULL;

	for (int fd = 0; fd < 3; fd++)
		if (dup2(null, fd) < 0)
			_exit(126);
	(void)instance_open(ctx, SPOOL_LOOK, &sp, NULL);
	_exit(0); /* whatever it was told, it was told something */
}

/* The other end is closed by the end of whoever has it. */
static bool ends_in_time(int fd)
{
	uint64_t until = clock_mono_ns() + ANSWER_LIMIT_MS * NS_PER_MS, now;
	struct pollfd p = { .fd = fd, .events = POLLIN };

	while ((now = clock_mono_ns()) < until) {
		int r = poll(&p, 1, (int)((until - now) / NS_PER_MS) + 1);

		if (r > 0 || (r < 0 && errno != EINTR))
			return true;
	}
	return false;
}

bool instance_answers(const struct cmd_ctx *ctx)
{
	int fds[2];
	pid_t child;
	bool ended;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return true;
	child = fork();
	if (child == 0)
		look_and_exit(ctx);
	(void)fd_close(fds[1]);
	ended = child < 0 || ends_in_time(fds[0]);
	(void)fd_close(fds[0]);
	if (child > 0 && !ended)
		(void)kill(child, SIGKILL); /* it goes when it can */
	else if (child > 0)
		(void)waitpid(child, NULL, 0);
	return ended;
}

void instance_tell_silent(const char *dir, const char *and_then)
{
	cmd_warn("note",
		 "the queue in %s has not answered for %d seconds; its "
		 "file server may hang. %s",
		 dir, ANSWER_LIMIT_MS / 1000, and_then);
}

struct instance_note {
	const char *dir;
	pthread_t thread;
	int fds[2]; /* nothing is written; the second end is closed when it is over */
};

static void *listen_for_end(void *data)
{
	struct instance_note *s = data;

	if (!ends_in_time(s->fds[0]))
		instance_tell_silent(s->dir, "This waits until it does");
	return NULL;
}

struct instance_note *instance_note_begin(const char *dir)
{
	struct instance_note *s = xcalloc(1, sizeof(*s));

	s->dir = dir;
	if (pipe2(s->fds, O_CLOEXEC) < 0) {
		free(s);
		return NULL;
	}
	if (pthread_create(&s->thread, NULL, listen_for_end, s) == 0)
		return s;
	(void)fd_close(s->fds[0]);
	(void)fd_close(s->fds[1]);
	free(s);
	return NULL;
}

struct instance_note *instance_note_end(struct instance_note *s)
{
	if (!s)
		return NULL;
	(void)fd_close(s->fds[1]);
	(void)pthread_join(s->thread, NULL);
	(void)fd_close(s->fds[0]);
	free(s);
	return NULL;
}

/* ---- which one ---- */

char *instance_option(const struct cmd_ctx *ctx)
{
	static const struct {
		enum setting_id id;
		const char *option;
	} all[] = { { SET_ROOT, " --root" }, { SET_INSTANCE, " -i" } };
	struct strbuf b = STRBUF_INIT;

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		if (settings_origin(ctx->settings, all[i].id)->layer != SETTING_FROM_COMMAND_LINE)
			continue;
		strbuf_adds(&b, all[i].option);
		strbuf_add_word(&b, settings_str(ctx->settings, all[i].id));
	}
	return strbuf_take(&b);
}

char *instance_dir(const struct cmd_ctx *ctx)
{
	cleanup_free char *root = spool_root(settings_str(ctx->settings, SET_ROOT));

	return xasprintf("%s/%s", root, settings_str(ctx->settings, SET_INSTANCE));
}

int instance_open_quietly(const struct cmd_ctx *ctx, unsigned int flags, struct spool **ret,
			  struct err *e)
{
	cleanup_free char *root = spool_root(settings_str(ctx->settings, SET_ROOT));
	struct spool_trust trust = trust_from_settings(ctx->settings);

	return spool_open(root, settings_str(ctx->settings, SET_INSTANCE), &trust, flags, ret, e);
}

int instance_open(const struct cmd_ctx *ctx, unsigned int flags, struct spool **ret, struct err *e)
{
	cleanup_free char *dir = instance_dir(ctx);
	struct instance_note *s = instance_note_begin(dir);
	int r = instance_open_quietly(ctx, flags, ret, e);

	(void)instance_note_end(s);
	return r;
}

/* Who has misspelt a name sees those that there are. */
static void tell_no_queue(const char *root, const char *instance)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	struct text_list names = { .n = 0 };

	strbuf_addf(&b, "nothing was submitted to instance \"%s\" yet", instance);
	(void)spool_instances(root, &names, NULL);
	for (size_t i = 0; i < names.n; i++)
		strbuf_addf(&b, "%s%s",
			    i ? ", " : "; in this directory there are: ", names.texts[i]);
	text_list_clear(&names);
	cmd_warn("note", "%s", strbuf_str(&b));
}

int instance_open_if_there(const struct cmd_ctx *ctx, unsigned int flags, struct spool **ret,
			   struct err *e)
{
	cleanup_free char *root = spool_root(settings_str(ctx->settings, SET_ROOT));
	const char *instance = settings_str(ctx->settings, SET_INSTANCE);
	int r = instance_open(ctx, flags, ret, e);

	if (r != -ENOENT)
		return r;
	if (e)
		*e = (struct err)ERR_INIT;
	tell_no_queue(root, instance);
	return 0;
}

int instance_open_for(const struct cmd_ctx *ctx, size_t first, unsigned int flags,
		      struct spool **ret, struct err *e)
{
	bool all = true;

	for (size_t i = first; i < opts_argc(ctx->opts); i++)
		all = all && strcmp(opts_arg(ctx->opts, i), "all") == 0;
	return (all ? instance_open_if_there : instance_open)(ctx, flags, ret, e);
}
