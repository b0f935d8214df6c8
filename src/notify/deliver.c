/* SPDX-License-Identifier: MIT */
#include "notify/deliver.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/units.h"
#include "base/utf8.h"
#include "notify/local.h"
#include "notify/mail.h"
#include "notify/webhook.h"

/* The process ends by itself before that; this is for what hangs. */
#define KILL_AFTER_MS 2000
#define REAP_MS	      200

struct delivery {
	pid_t pid;
	int fd; /* its one record, and its end */
	uint64_t started_ms, deadline_ms;
};

/* What comes through the pipe, at once: smaller than PIPE_BUF. */
struct record {
	int how;
	char text[ERR_TEXT_MAX];
};

static uint64_t now_ms(void)
{
	return clock_mono_ns() / NS_PER_MS;
}

static int deliver_mail(const struct channel *ch, const json_t *event, enum delivered *how,
			struct err *e)
{
	return (ch->server ? mail_by_server : mail_by_sendmail)(ch, event, how, e);
}

int deliver(const struct channel *ch, const json_t *event, enum delivered *how, struct err *e)
{
	static int (*const ways[])(const struct channel *ch, const json_t *event,
				   enum delivered *how, struct err *e) = {
		[CHANNEL_MAIL] = deliver_mail,
		[CHANNEL_WEBHOOK] = webhook_post,
		[CHANNEL_DESKTOP] = local_desktop,
		[CHANNEL_COMMAND] = local_command,
	};
	int r;

	*how = DELIVER_LATER;
	r = ways[ch->type](ch, event, how, e);
	if (r == 0)
		*how = DELIVERED;
	return r;
}

static void __attribute__((noreturn)) run(const struct channel *ch, const json_t *event, int fd)
{
	struct err e = ERR_INIT;
	enum delivered how;
	struct record record = { .how = DELIVER_LATER };

	/* It, and what it starts, form a group that is killed as one. */
	(void)setpgid(0, 0);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)signal(SIGTERM, SIG_DFL);
	(void)signal(SIGPIPE, SIG_IGN);
	if (deliver(ch, event, &how, &e) == 0) {
		cleanup_free char *where = channel_describe(ch);

		(void)str_copy(record.text, sizeof(record.text), where);
	} else {
		(void)str_copy(record.text, sizeof(record.text), e.text);
	}
	record.how = how;
	(void)utf8_clean(record.text);
	(void)!write(fd, &record, sizeof(record));
	_exit(0);
}

struct delivery *delivery_start(const struct channel *ch, const json_t *event,
				struct delivery_result *ret)
{
	int fds[2];
	pid_t pid;

	*ret = (struct delivery_result){ .how = DELIVER_LATER };
	if (pipe2(fds, O_CLOEXEC) < 0) {
		(void)str_print(ret->text, sizeof(ret->text), "no pipe: %s", strerror(errno));
		return NULL;
	}
	pid = fork();
	if (pid == 0)
		run(ch, event, fds[1]);
	(void)fd_close(fds[1]);
	if (pid < 0) {
		(void)str_print(ret->text, sizeof(ret->text), "no process: %s", strerror(errno));
		(void)fd_close(fds[0]);
		return NULL;
	}

	struct delivery *d = xcalloc(1, sizeof(*d));

	(void)setpgid(pid, pid);
	*d = (struct delivery){ .pid = pid, .fd = fds[0], .started_ms = now_ms() };
	d->deadline_ms = d->started_ms + ch->time_limit_ms + KILL_AFTER_MS;
	return d;
}

int delivery_fd(const struct delivery *d)
{
	return d->fd;
}

uint64_t delivery_deadline_ms(const struct delivery *d)
{
	return d->deadline_ms;
}

/* Killed it ends within a moment. One that is in a dead filesystem does not, and is left to init.
 */
static void reap(struct delivery *d)
{
	(void)kill(-d->pid, SIGKILL);
	(void)kill(d->pid, SIGKILL);
	for (int i = 0; i < REAP_MS && waitpid(d->pid, NULL, WNOHANG) == 0; i++)
		(void)poll(NULL, 0, 1);
	(void)fd_close(d->fd);
	free(d);
}

struct delivery *delivery_end(struct delivery *d, struct delivery_result *ret)
{
	struct record record = { .how = DELIVER_LATER };
	char left[UNIT_TEXT_MAX];
	bool late = now_ms() >= d->deadline_ms;

	*ret = (struct delivery_result){ .how = DELIVER_LATER,
					 .took_ms = now_ms() - d->started_ms };
	(void)fcntl(d->fd, F_SETFL, O_NONBLOCK);
	if (read(d->fd, &record, sizeof(record)) == (ssize_t)sizeof(record)) {
		record.text[sizeof(record.text) - 1] = '\0';
		ret->how = (enum delivered)record.how;
		(void)str_copy(ret->text, sizeof(ret->text), record.text);
	} else if (late) {
		(void)str_print(ret->text, sizeof(ret->text),
				"there was no answer within %s, so it was given up",
				unit_format_duration(ret->took_ms, left));
	} else {
		(void)str_print(ret->text, sizeof(ret->text), "it ended without a word");
	}
	reap(d);
	return NULL;
}

struct delivery *delivery_forget(struct delivery *d)
{
	if (d)
		reap(d);
	return NULL;
}
