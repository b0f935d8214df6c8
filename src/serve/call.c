/* SPDX-License-Identifier: MIT */
#include "serve/call.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/spawn.h"
#include "base/str.h"
#include "cli/cmd.h"
#include "serve/serve.h"

#define LOOK_MS 10
#define SAYS	"tenure: "

extern char **environ;

/* A file in memory: whoever fills it never waits for a reader. */
static int memory_file(const char *text)
{
	cleanup_fd int fd = memfd_create("tenure-serve", MFD_CLOEXEC);

	if (fd >= 0 && text &&
	    (fs_write_all(fd, text, strlen(text)) < 0 || lseek(fd, 0, SEEK_SET) < 0))
		return -1;
	return take_fd(fd);
}

static char *text_of(int fd)
{
	char *text = NULL;
	size_t n;

	if (fd < 0 || lseek(fd, 0, SEEK_SET) < 0 ||
	    fs_read_open(fd, "the output", CALL_OUTPUT_MAX, &text, &n, NULL) < 0)
		return xstrdup("");
	return text;
}

static uint64_t processor_ns(const struct rusage *u)
{
	return (uint64_t)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) * NS_PER_S +
	       (uint64_t)(u->ru_utime.tv_usec + u->ru_stime.tv_usec) * NS_PER_US;
}

/* Where the kernel has no pidfd it is looked at. */
static int wait_end(pid_t pid, unsigned int limit_ms, struct rusage *used)
{
	cleanup_fd int fd = proc_open(pid);
	uint64_t end = clock_mono_ns() + limit_ms * NS_PER_MS;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int status;

	if (fd >= 0)
		(void)poll(&p, 1, (int)limit_ms);
	while (wait4(pid, &status, WNOHANG, used) != pid) {
		if (clock_mono_ns() >= end) {
			(void)kill(-pid, SIGKILL);
			while (wait4(pid, &status, 0, used) < 0 && errno == EINTR)
				;
			return -ETIMEDOUT;
		}
		(void)nanosleep(&(struct timespec){ .tv_nsec = (long)(LOOK_MS * NS_PER_MS) }, NULL);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : CMD_FAILED;
}

/* "tenure: a sentence\nin lines\ntenure: another" is "a sentence in lines; another". */
static char *sentences(char *text)
{
	struct strbuf b = STRBUF_INIT;
	char *rest = NULL;

	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		bool begins = str_has_prefix(line, SAYS);

		line += begins ? strlen(SAYS) : strspn(line, " ");
		strbuf_addf(&b, "%s%s", !b.len ? "" : begins ? "; " : " ", line);
	}
	return strbuf_take(&b);
}

void call_run(struct serve *s, const struct request *r, struct call *c)
{
	size_t n = c->more ? c->more->n : 0, at = 0;
	cleanup_free const char **argv = xcalloc(1 + CALL_ARGS_MAX + n + 1, sizeof(char *));
	cleanup_fd int in = c->input ? memory_file(c->input) : -1;
	cleanup_fd int out = c->output < 0 ? memory_file(NULL) : -1;
	cleanup_fd int err = memory_file(NULL);
	struct spawn spawn = SPAWN_INIT;
	struct rusage used = { 0 };
	pid_t pid;

	argv[at++] = "tenure";
	for (size_t i = 0; i < CALL_ARGS_MAX && c->args[i]; i++)
		argv[at++] = c->args[i];
	for (size_t i = 0; i < n; i++)
		argv[at++] = c->more->texts[i];
	spawn.path = s->program;
	spawn.argv = (char *const *)(uintptr_t)argv;
	spawn.env = environ;
	spawn.fds[0] = in;
	spawn.fds[1] = c->output < 0 ? out : c->output;
	spawn.fds[2] = err;
	spawn.session = true;
	pid = spawn_start(&spawn);
	c->code = pid < 0 ? (int)pid : wait_end(pid, CALL_LIMIT_MS, &used);
	budget_take(&s->budget, &r->payer, processor_ns(&used));
	c->text = text_of(out);

	cleanup_free char *said = text_of(err);

	c->error = sentences(said);
}

void call_clear(struct call *c)
{
	free(c->text);
	free(c->error);
	c->text = c->error = NULL;
}

bool call_refused(const struct call *c, struct request *r)
{
	static const unsigned int statuses[] = {
		[CMD_FAILED] = MHD_HTTP_CONFLICT,
		[CMD_USAGE] = MHD_HTTP_UNPROCESSABLE_CONTENT,
		[CMD_NOTHING_RUNS] = MHD_HTTP_SERVICE_UNAVAILABLE,
		[CMD_DENIED] = MHD_HTTP_FORBIDDEN,
	};

	if (c->code == CMD_OK)
		return false;
	if (c->code == -ETIMEDOUT)
		answer_problem(&r->answer, MHD_HTTP_GATEWAY_TIMEOUT,
			       "tenure %s did not end in %d s; whether it has done anything is not "
			       "known",
			       c->args[0], CALL_LIMIT_MS / 1000);
	else if (c->code < 0)
		answer_problem(&r->answer, MHD_HTTP_INTERNAL_SERVER_ERROR,
			       "tenure %s could not be started: %s", c->args[0],
			       strerror(-c->code));
	else
		answer_problem(&r->answer,
			       (size_t)c->code < ARRAY_LEN(statuses)
				       ? statuses[c->code]
				       : MHD_HTTP_INTERNAL_SERVER_ERROR,
			       "%s", c->error[0] ? c->error : "it has failed");
	return true;
}

json_t *call_object(const struct call *c)
{
	json_t *doc = json_loads(c->text, 0, NULL);

	if (json_is_object(doc))
		return doc;
	json_decref(doc);
	return NULL;
}

json_t *call_lines(const struct call *c)
{
	json_t *list = json_array();

	for (const char *p = c->text; *p;) {
		size_t n = strcspn(p, "\n");
		json_t *doc = json_loadb(p, n, 0, NULL);

		if (doc)
			(void)json_array_append_new(list, doc);
		p += n + (p[n] == '\n');
	}
	return list;
}
