/* SPDX-License-Identifier: MIT */
#include "notify/local.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/units.h"
#include "base/utf8.h"
#include "notify/message.h"
#include "notify/topic.h"

#define PRINTED_MAX 200 /* of what it prints the end is told */

struct program {
	pid_t pid;
	int in, out;
	const char *input;
	size_t left;
	char printed[PRINTED_MAX + 1];
	size_t n_printed;
};

static void __attribute__((noreturn))
become(const struct text_list *words, const struct text_list *env, int in, int out)
{
	struct text_list argv = text_list_copy(words);

	for (size_t i = 0; env && i < env->n; i++)
		(void)putenv(env->texts[i]);
	text_list_take(&argv, NULL);
	(void)signal(SIGPIPE, SIG_DFL);
	if (dup2(in, 0) == 0 && dup2(out, 1) == 1 && dup2(out, 2) == 2 && chdir("/") == 0)
		(void)execvp(argv.texts[0], argv.texts);
	(void)dprintf(out, "%s", strerror(errno));
	_exit(127);
}

static int start(struct program *p, const struct text_list *words, const struct text_list *env)
{
	int in[2], out[2];

	if (pipe2(in, O_CLOEXEC) < 0)
		return -errno;
	if (pipe2(out, O_CLOEXEC) < 0) {
		(void)fd_close(in[0]);
		(void)fd_close(in[1]);
		return -ENFILE;
	}
	p->pid = fork();
	if (p->pid == 0)
		become(words, env, in[0], out[1]);
	(void)fd_close(in[0]);
	(void)fd_close(out[1]);
	p->in = in[1];
	p->out = out[0];
	(void)fcntl(p->in, F_SETFL, O_NONBLOCK);
	(void)fcntl(p->out, F_SETFL, O_NONBLOCK);
	return p->pid < 0 ? -EAGAIN : 0;
}

static void feed(struct program *p)
{
	ssize_t n = p->left ? write(p->in, p->input, p->left) : 0;

	if (n > 0) {
		p->input += n;
		p->left -= (size_t)n;
	}
	/* One that does not want to know it need not read it. */
	if (!p->left || (n < 0 && errno != EAGAIN))
		p->in = fd_close(p->in);
}

/* Keeps the end; false: nothing more comes. */
static bool hear(struct program *p)
{
	char buf[512];
	ssize_t n = read(p->out, buf, sizeof(buf));

	for (ssize_t i = 0; i < n; i++) {
		if (p->n_printed == PRINTED_MAX)
			memmove(p->printed, p->printed + 1, --p->n_printed);
		p->printed[p->n_printed++] = buf[i];
	}
	p->printed[p->n_printed] = '\0';
	return n > 0 || (n < 0 && errno == EAGAIN);
}

/* Its status; -1: it was late. What it has left in the background may keep its output open. */
static int wait_for(struct program *p, uint64_t until_ms)
{
	bool open = true;
	int status;

	for (;;) {
		struct pollfd fds[] = { { .fd = open ? p->out : -1, .events = POLLIN },
					{ .fd = p->in, .events = POLLOUT } };
		uint64_t now = clock_mono_ns() / NS_PER_MS;

		if (waitpid(p->pid, &status, WNOHANG) == p->pid) {
			(void)(open && hear(p));
			return status;
		}
		if (now >= until_ms)
			return -1;
		(void)poll(fds, ARRAY_LEN(fds), open ? 50 : 10);
		if (fds[1].revents)
			feed(p);
		if (fds[0].revents)
			open = hear(p);
	}
}

static int judge(const struct program *p, const char *name, int status, struct err *e)
{
	cleanup_free char *said = xstrdup(p->printed);
	size_t len = strlen(said);

	while (len && strchr(" \n\r\t", said[len - 1]))
		said[--len] = '\0';
	(void)utf8_clean(said);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return err_set(e, -ENOENT, "%s cannot be run: %s", name, said);
	return err_set(e, -EIO, "%s ended with %s %d%s%s", name,
		       WIFEXITED(status) ? "the exit code" : "the signal",
		       WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status),
		       said[0] ? ": " : "", said);
}

int local_run(const struct text_list *words, const struct text_list *env, const char *input,
	      size_t len, uint64_t limit_ms, struct err *e)
{
	struct program p = { .in = -1, .out = -1, .input = input, .left = len };
	char limit[UNIT_TEXT_MAX];
	int status, r = start(&p, words, env);

	if (r < 0)
		return err_sys(e, -r, "%s cannot be run", words->texts[0]);
	status = wait_for(&p, clock_mono_ns() / NS_PER_MS + limit_ms);
	(void)fd_close(p.in);
	(void)fd_close(p.out);
	if (status >= 0)
		return judge(&p, words->texts[0], status, e);
	(void)kill(p.pid, SIGKILL);
	(void)waitpid(p.pid, NULL, 0);
	return err_set(e, -ETIMEDOUT, "%s did not end within %s, and was killed", words->texts[0],
		       unit_format_duration(limit_ms, limit));
}

int local_desktop(const struct channel *ch, const json_t *event, enum delivered *how, struct err *e)
{
	const struct topic *topic = topic_of(event);
	cleanup_strbuf struct strbuf subject = STRBUF_INIT, text = STRBUF_INIT;
	const char *program = ch->program ? ch->program : "notify-send";
	struct text_list words = { .n = 0 };
	int r;

	message_subject(event, &subject);
	message_text(event, &text);
	text_list_add(&words, program);
	text_list_add(&words, "--app-name=tenure");
	text_list_add(&words,
		      topic && topic->urgency >= 4 ? "--urgency=critical" : "--urgency=normal");
	text_list_add(&words, "--");
	text_list_add(&words, strbuf_str(&subject));
	text_list_add(&words, strbuf_str(&text));
	r = local_run(&words, NULL, NULL, 0, ch->time_limit_ms, e);
	text_list_clear(&words);
	if (r < 0 && !ch->program)
		(void)err_wrap(
			e, "notify-send (of the package libnotify-bin, in a session of a desktop)");
	return r;
}

/* TENURE_EVENT_TASK=42 and so on, of what is a text or a number, each in one line. */
static void add_variables(const json_t *event, struct text_list *env)
{
	const char *key;
	const json_t *value;

	json_object_foreach((json_t *)(uintptr_t)event, key, value)
	{
		cleanup_strbuf struct strbuf line = STRBUF_INIT;
		cleanup_free char *text = NULL;

		strbuf_adds(&line, "TENURE_EVENT_");
		for (const char *p = key; *p; p++)
			strbuf_addc(&line, isalnum((unsigned char)*p)
						   ? (char)toupper((unsigned char)*p)
						   : '_');
		if (json_is_string(value))
			text = xstrdup(json_string_value(value));
		else if (json_is_integer(value))
			text = xasprintf("%" JSON_INTEGER_FORMAT, json_integer_value(value));
		if (!text)
			continue;
		strbuf_addf(&line, "=%s", utf8_clean(text));
		text_list_add(env, strbuf_str(&line));
	}
}

int local_command(const struct channel *ch, const json_t *event, enum delivered *how, struct err *e)
{
	cleanup_free char *dump = json_dumps(event, JSON_COMPACT | NUMBER_DIGITS);
	cleanup_free char *input = xasprintf("%s\n", dump ? dump : "{}");
	struct text_list words = { .n = 0 }, env = { .n = 0 };
	int r;

	if (ch->shell) {
		text_list_add(&words, "/bin/sh");
		text_list_add(&words, "-c");
	}
	for (size_t i = 0; i < ch->command.n; i++)
		text_list_add(&words, ch->command.texts[i]);
	add_variables(event, &env);
	r = local_run(&words, &env, input, strlen(input), ch->time_limit_ms, e);
	text_list_clear(&words);
	text_list_clear(&env);
	return r;
}
