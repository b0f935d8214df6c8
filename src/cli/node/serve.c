/* SPDX-License-Identifier: MIT */

/*
 * `serve` becomes tenure-serve, which has the library for HTTP. `web` asks the one that runs where
 * it listens: it tells that in one packet to whoever connects to its name, {pid, listen, socket}.
 */

#include "cli/node/serve.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/endpoint.h"
#include "base/fs.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/sock.h"
#include "base/str.h"
#include "cli/agent_client.h"
#include "cli/commands.h"
#include "cli/libexec.h"
#include "cli/term.h"
#include "cli/web_token.h"
#include "hold/endpoint_names.h"

#define GROUP	      "Elsewhere than on a terminal"
#define TELL_LIMIT_MS 5000 /* it gives way to whatever else runs */
#define START_IT      "tenure serve --listen 127.0.0.1:8470"
#define START_BOTH    "tenure on --listen 127.0.0.1:8470"

char *serve_socket_name(const struct cmd_ctx *ctx, char *buf)
{
	char agent[SOCKET_NAME_MAX];

	(void)agent_socket_name(agent, sizeof(agent), settings_str(ctx->settings, SET_INSTANCE),
				settings_str(ctx->settings, SET_DEV_DIR), ctx->job);
	*strrchr(agent, '/') = '\0';
	return str_print(buf, SOCKET_NAME_MAX, "%s/serve", agent);
}

/* ---- serve ---- */

static int run_serve(const struct cmd_ctx *ctx, struct err *e)
{
	return libexec_run(ctx, SERVE_PROGRAM, SERVE_NEEDS, e);
}

static const struct opt serve_opts[] = {
	LIBEXEC_OPT,
	{ .name = SERVE_WITH_AGENT,
	  .spec = { VALUE_FLAG },
	  .flags = OPT_HIDDEN,
	  .help = "end when standard input does" },
	{ 0 },
};

static const struct cmd_example serve_examples[] = {
	{ "tenure serve", "for programs of yours on this machine, by a Unix socket" },
	{ START_IT, "for a browser, too; tenure web has the address with the token" },
	{ START_BOTH, "the same by the agent, which starts it again where it ends" },
	{ "curl --unix-socket PATH http://localhost/api/v1/health", "ask it; it prints the PATH" },
	{ 0 },
};

const struct cmd cmd_serve = {
	.name = "serve",
	.group = GROUP,
	.summary = "serve what there is to see, and to do, by HTTP",
	.description =
		"In the foreground, until it is told to end (Ctrl-C). It is a client like any "
		"other: it works with an agent and without one, and nothing else depends on it. "
		"On its Unix socket it serves processes of your user alone; on a port whoever has "
		"the token, which is in the file web-token of the config directory. /api/v1/"
		"openapi.json describes all that can be asked.",
	.examples = serve_examples,
	.opts = serve_opts,
	.setting_groups = SETTING_GROUP_SERVE | SETTING_GROUP_AGENT | SETTING_GROUP_QUEUE,
	.run = run_serve,
};

/* ---- web ---- */

/* The agent has it served, but not just now: why. False: it does not. */
static bool ask_agent(const struct cmd_ctx *ctx, struct err *e)
{
	struct err none = ERR_INIT;
	json_t *status = agent_status(ctx, TELL_LIMIT_MS, &none);
	const json_t *h = serving_helper(status);
	const char *why = json_get_str(h, "trouble");

	if (h)
		(void)err_set(e, -EAGAIN, "the agent of instance %s has it served, but not now: %s",
			      settings_str(ctx->settings, SET_INSTANCE),
			      why ? why : "it is just starting; try again");
	json_decref(status);
	return h;
}

static json_t *ask_where(const struct cmd_ctx *ctx, struct err *e)
{
	char name[SOCKET_NAME_MAX], text[SERVE_TOLD_MAX];
	cleanup_fd int fd = endpoint_connect(serve_socket_name(ctx, name), TELL_LIMIT_MS, e);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	json_t *doc = NULL;
	ssize_t n;

	cleanup_free char *options = agent_options(ctx->settings, NULL);

	if (fd == -ECONNREFUSED && !ask_agent(ctx, e))
		(void)err_set(e, -ECONNREFUSED,
			      "nothing serves instance %s here; start it: " START_IT
			      "%s, or with the agent: " START_BOTH "%s",
			      settings_str(ctx->settings, SET_INSTANCE), options, options);
	if (fd < 0)
		return NULL;
	n = poll(&p, 1, TELL_LIMIT_MS) > 0 ? sock_recv(fd, text, sizeof(text)) : -ETIMEDOUT;
	if (n > 0)
		doc = json_loadb(text, (size_t)n, 0, NULL);
	if (!doc)
		(void)err_set(e, -EPROTO, "tenure serve runs, and does not answer");
	return doc;
}

/* A browser's command line is seen by everybody, so the address with the token is in a file that
 * leads to it. */
static int write_page(const char *url, char **ret, struct err *e)
{
	cleanup_free char *dir = fs_runtime_dir();
	cleanup_free char *path = xasprintf("%s/web.html", dir);
	cleanup_free char *page =
		xasprintf("<!DOCTYPE html><meta charset=\"utf-8\"><title>tenure</title>"
			  "<meta http-equiv=\"refresh\" content=\"0; url=%s\">\n",
			  url);
	int r = fs_mkdirs(dir, 0700, e);

	if (r == 0)
		r = fs_write_atomic(path, page, strlen(page), 0600, e);
	if (r == 0)
		*ret = take_ptr(path);
	return r;
}

static bool can_open(void)
{
	return isatty(STDOUT_FILENO) && !getenv("SSH_CONNECTION") &&
	       (getenv("DISPLAY") || getenv("WAYLAND_DISPLAY"));
}

/* 0: the desktop has taken it. */
static int open_page(const char *url)
{
	cleanup_free char *page = NULL;
	int status = 0;
	pid_t pid;

	if (write_page(url, &page, NULL) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		(void)execlp("xdg-open", "xdg-open", page, (char *)NULL);
		_exit(127);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

static int tell_url(const struct cmd_ctx *ctx, const char *listens, const char *token)
{
	const char *port = strrchr(listens, ':') + 1;
	cleanup_free char *url = xasprintf("http://%s/#token=%s", listens, token);

	if (opts_flag(ctx->opts, "json")) {
		cmd_print_json_line(json_pack("{s:s}", "url", url));
		return CMD_OK;
	}
	if (!opts_flag(ctx->opts, "print") && can_open() && open_page(url) == 0) {
		printf("The page is in your browser: http://%s/\n", listens);
		return CMD_OK;
	}
	puts(url);
	if (getenv("SSH_CONNECTION"))
		cmd_warn("note",
			 "from your own machine: ssh -L %s:%s HOST, with this machine's name for "
			 "HOST; then open that address there",
			 port, listens);
	return CMD_OK;
}

static int run_web(const struct cmd_ctx *ctx, struct err *e)
{
	char token[WEB_TOKEN_MAX];
	json_t *doc = ask_where(ctx, e);
	const char *listens = json_get_str(doc, "listen");
	cleanup_free char *options = agent_options(ctx->settings, NULL);
	int r = doc ? 0 : e->code == -ECONNREFUSED ? CMD_NOTHING_RUNS : CMD_FAILED;

	if (r == 0 && !listens)
		r = err_set(
			e, -ENOENT,
			"tenure serve (PID %d) listens on no port; end it and start it as: " START_IT
			"%s",
			(int)json_integer_value(json_object_get(doc, "pid")), options);
	if (r == 0)
		r = web_token(opts_flag(ctx->opts, "read-only"), true, token, e);
	if (r == 0)
		r = tell_url(ctx, listens, token);
	json_decref(doc);
	return r;
}

static const struct opt web_opts[] = {
	{ .name = "read-only",
	  .spec = { VALUE_FLAG },
	  .help = "with the token of those who can look, and change nothing" },
	{ .name = "print", .spec = { VALUE_FLAG }, .help = "print the address, open nothing" },
	{ 0 },
};

static const struct cmd_example web_examples[] = {
	{ "tenure web", "open the page, or print its address where there is no desktop" },
	{ "tenure web --read-only", "an address to give to somebody who is to look" },
	{ 0 },
};

const struct cmd cmd_web = {
	.name = "web",
	.group = GROUP,
	.summary = "open the page that tenure serve serves",
	.description =
		"The address has a token behind its #, which a browser sends nobody: the page "
		"gives it back for a cookie, and takes it out of the address. Who has the address "
		"can do what you can do with tenure; to take it back remove the file web-token, "
		"or web-token-read, of the config directory.",
	.examples = web_examples,
	.opts = web_opts,
	.flags = CMD_JSON_LINES,
	.setting_groups = SETTING_GROUP_AGENT,
	.run = run_web,
};
