/* SPDX-License-Identifier: MIT */
#include "cli/silence.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/ask_agent.h"
#include "cli/queue.h"
#include "spool/instance.h"

#define ANSWER_LIMIT_MS 3000

/* ---- is there an answer? ---- */

/* Nothing of the caller's is kept open: he may be waited for by its end. */
static void __attribute__((noreturn)) look(const struct cmd_ctx *ctx)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct spool *sp = NULL;

	for (int fd = 0; fd < 3; fd++)
		if (dup2(null, fd) < 0)
			_exit(126);
	(void)queue_open(ctx, SPOOL_LOOK, &sp, NULL);
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

bool silence_is_broken(const struct cmd_ctx *ctx)
{
	int fds[2];
	pid_t child;
	bool ended;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return true;
	child = fork();
	if (child == 0)
		look(ctx);
	(void)fd_close(fds[1]);
	ended = child < 0 || ends_in_time(fds[0]);
	(void)fd_close(fds[0]);
	if (child > 0 && !ended)
		(void)kill(child, SIGKILL); /* it goes when it can */
	else if (child > 0)
		(void)waitpid(child, NULL, 0);
	return ended;
}

static void tell_silence(const char *dir, const char *and_then)
{
	cleanup_free char *text = xasprintf("the queue in %s has not answered for %d seconds; its "
					    "file server may hang. %s",
					    dir, ANSWER_LIMIT_MS / 1000, and_then);

	cmd_warn("note", text);
}

struct silence {
	const char *dir;
	pthread_t thread;
	int fds[2]; /* nothing is written; the second end is closed when it is over */
};

static void *listen_for_end(void *data)
{
	struct silence *s = data;

	if (!ends_in_time(s->fds[0]))
		tell_silence(s->dir, "This waits until it does");
	return NULL;
}

struct silence *silence_begin(const char *dir)
{
	struct silence *s = xcalloc(1, sizeof(*s));

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

struct silence *silence_end(struct silence *s)
{
	if (!s)
		return NULL;
	(void)fd_close(s->fds[1]);
	(void)pthread_join(s->thread, NULL);
	(void)fd_close(s->fds[0]);
	free(s);
	return NULL;
}

/* ---- the agent here ---- */

struct asked {
	const struct cmd_ctx *ctx;
	struct ctl_request req;
	json_t *tasks; /* that run here */
	struct err *e;
	int code;
};

static void fail(struct asked *a, int code, const char *text)
{
	if (a->code)
		(void)cmd_fail(CMD_FAILED, a->e->text);
	a->code = err_set(a->e, code, "%s", text);
}

/* What a word means among what runs here. */
struct meant {
	const char *word;
	uint64_t id, element; /* id 0: it is a name */
	bool all;
	size_t n;    /* tasks that it means */
	bool exact;  /* and these are all that it can mean */
	bool failed; /* one of them was not told */
};

static bool is_meant(const struct meant *m, uint64_t id, uint64_t element, const char *name)
{
	if (m->id)
		return id == m->id && (!m->element || element == m->element);
	return m->all || (name && strcmp(name, m->word) == 0);
}

static void stop_one(struct asked *a, struct meant *m, const json_t *task)
{
	uint64_t id = (uint64_t)json_integer_value(json_object_get(task, "id"));
	uint64_t element = (uint64_t)json_integer_value(json_object_get(task, "element"));
	const char *name = json_string_value(json_object_get(task, "name"));
	char text[QUEUE_ID_MAX];
	struct err e = ERR_INIT;
	int r;

	if (!is_meant(m, id, element, name))
		return;
	m->n++;
	m->exact = m->id && element == m->element;
	a->req.task = id;
	a->req.element = (uint32_t)element;
	r = ask_agent_about(a->ctx, &a->req, NULL, &e);
	if (r == -ENOENT)
		return; /* it has ended meanwhile */
	if (r < 0) {
		m->failed = true;
		fail(a, r, e.text);
		return;
	}
	printf("%s%s%s%s\n", queue_format_id(id, element, text), name ? " " : "", name ? name : "",
	       a->req.now ? " is killed" : " is told to end");
}

static void stop_meant(struct asked *a, const char *word)
{
	struct meant m = { .word = word, .all = strcmp(word, "all") == 0 };
	cleanup_free char *none = NULL;
	json_t *task;
	size_t i;

	if (ident_parse_id(word, &m.id, &m.element) < 0)
		m.id = 0;
	json_array_foreach(a->tasks, i, task) stop_one(a, &m, task);
	if (m.failed || (m.n && m.exact))
		return;
	none = xasprintf(m.n ? "what waits of %s could not be looked for; tell it again when the "
			       "queue answers"
			     : "nothing of %s runs on this node, and more cannot be looked for "
			       "until the queue answers",
			 word);
	fail(a, -ETIMEDOUT, none);
}

int silence_stop(const struct cmd_ctx *ctx, bool now, unsigned int sweep, struct err *e)
{
	cleanup_free char *dir = queue_dir(ctx);
	struct asked a = { .ctx = ctx,
			   .req = { .verb = CTL_STOP, .now = now, .sweep = sweep },
			   .e = e };
	json_t *doc = NULL;

	tell_silence(dir, "What runs on this node is told to end by the agent here; if the node "
			  "fails before that is so, it runs again");
	if (ask_agent(ctx, CTL_STATUS, ANSWER_LIMIT_MS, &doc, NULL, e) != CMD_OK)
		return e->code ? e->code : -ECONNREFUSED;
	a.tasks = json_object_get(json_object_get(doc, "queue"), "tasks");
	for (size_t i = 0; i < opts_argc(ctx->opts); i++)
		stop_meant(&a, opts_arg(ctx->opts, i));
	json_decref(doc);
	return a.code;
}
