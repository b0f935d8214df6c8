/* SPDX-License-Identifier: MIT */

/*
 * tenure-serve: HTTP for one instance (docs/http.md). A program of its own, so that `tenure` needs
 * no library for it, and that nothing which comes in by a network is in the agent: it asks, as any
 * other client does, and whatever becomes of it changes nothing for agent, guard and tasks.
 *
 * Threads: this one looks at files, clocks and signals; one per socket has the connections
 * (server.c); some workers do what may take its time (workers.c).
 */

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/spawn.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "cli/agent_client.h"
#include "cli/agent_setup.h"
#include "cli/commands.h"
#include "cli/instance.h"
#include "cli/libexec.h"
#include "cli/node/serve.h"
#include "hold/endpoint_names.h"
#include "model/model.h"
#include "serve/history.h"
#include "serve/keys.h"
#include "serve/listen.h"
#include "serve/metrics.h"
#include "serve/routes.h"
#include "serve/serve.h"
#include "serve/server.h"

#define PULSE_MS      100
#define CHECK_MS      1000
#define TOKENS_MS     2000
#define END_LIMIT_MS  2000
#define OPEN_LIMIT_MS 3000 /* longer than END_LIMIT_MS of the one before it */
#define NICE	      10
#define TIDY_S	      600

struct program {
	struct serve serve;
	struct server *server;
	struct listen_unix unix_socket;
	int signal_fd;
	int end_fd; /* it ends when that does, which is of the agent; -1 */
	uint64_t checked_ns, tokens_ns;
	uint64_t tidied_ns;
	bool renewing; /* the tokens, by a worker */
};

static int open_signals(struct err *e)
{
	sigset_t set;
	int fd;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGHUP);
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd >= 0 ? fd : err_sys(e, errno, "signalfd");
}

/* Installed it is in libexec/tenure, and `tenure` in bin. */
static char *find_program(const struct cmd_ctx *ctx, struct err *e)
{
	static const char *const places[] = { "tenure", "../../bin/tenure" };
	const char *given = opts_text(ctx->opts, "program");

	if (given)
		return xstrdup(given);
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		cleanup_free char *path = libexec_own(places[i]);

		if (path && access(path, X_OK) == 0)
			return take_ptr(path);
	}
	(void)err_set(e, -ENOENT, "the program tenure is not found; start this as tenure serve");
	return NULL;
}

/* ---- the sockets ---- */

static void add_hosts(struct serve *s)
{
	static const char *const own[] = { "localhost", "127.0.0.1", "[::1]" };
	const struct value *more = settings_value(s->ctx->settings, SET_LISTEN_HOSTS);

	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		text_list_add(&s->hosts, own[i]);
	for (size_t i = 0; i < more->words.n; i++)
		text_list_add(&s->hosts, more->words.texts[i]);
}

/* Others can reach it. */
static void warn_of_others(const struct program *p, const char *where)
{
	const struct text_list *hosts = &p->serve.hosts;
	cleanup_strbuf struct strbuf names = STRBUF_INIT;

	for (size_t i = 0; i < hosts->n; i++)
		strbuf_addf(&names, "%s%s", i ? ", " : "", hosts->texts[i]);
	cmd_warn("warning",
		 "whoever can reach %s sees what is said there, the token as well: it is not "
		 "encrypted. Listen on 127.0.0.1, and use ssh -L or a reverse proxy with TLS. It "
		 "answers to %s; what else this machine is called goes into listen_hosts",
		 where, strbuf_str(&names));
}

static int open_port(struct program *p, struct err *e)
{
	const char *where = settings_listen(p->serve.ctx->settings);
	bool open = false;
	int fd = -1, r;

	if (!where)
		return 0;
	r = web_token(false, true, p->serve.tokens.write, e);
	if (r == 0)
		r = listen_tcp(where, &fd, &p->serve.listens, &p->serve.hosts, &open, e);
	if (r == 0)
		r = server_listen(p->server, fd, false, e);
	if (r == 0 && open)
		warn_of_others(p, where);
	return r;
}

static int open_unix(struct program *p, struct err *e)
{
	char name[SOCKET_NAME_MAX];
	int fd = -1;
	int r = listen_unix_open(&p->unix_socket, serve_socket_name(p->serve.ctx, name), &fd, e);
	cleanup_free char *options = agent_options(p->serve.ctx->settings, NULL);

	if (r == -EADDRINUSE)
		return err_set(e, r, "instance %s is served already; tenure web%s tells where",
			       p->serve.instance, options);
	return r < 0 ? r : server_listen(p->server, fd, true, e);
}

/* The one before it, of an agent that has just ended, may have them for a moment yet. */
static int open_sockets(struct program *p, struct err *e)
{
	uint64_t end = clock_mono_ns() + (p->end_fd >= 0 ? OPEN_LIMIT_MS : 0) * NS_PER_MS;
	struct pollfd over = { .fd = p->end_fd };
	bool has_unix = false;
	int r;

	for (;;) {
		*e = (struct err)ERR_INIT;
		r = has_unix ? 0 : open_unix(p, e);
		has_unix = r == 0;
		if (r == 0)
			r = open_port(p, e);
		if (r != -EADDRINUSE || clock_mono_ns() >= end || poll(&over, 1, PULSE_MS) > 0)
			return r;
	}
}

static void print_sockets(const struct program *p)
{
	cleanup_free char *options = agent_options(p->serve.ctx->settings, NULL);

	if (p->end_fd >= 0) { /* it has all of the agent's options, whoever gave them */
		printf(LOG_INFO_MARK "http://%s/ (tenure web opens it)\n", p->serve.listens);
		(void)fflush(stdout);
		return;
	}
	printf("socket %s\n", p->unix_socket.path);
	if (p->serve.listens)
		printf("listen http://%s/ (tenure web%s has the address with the token)\n",
		       p->serve.listens, options);
	(void)fflush(stdout);
}

static void tell_newcomers(struct program *p)
{
	json_t *doc = json_pack("{s:i, s:s, s:s*}", "pid", (int)getpid(), "socket",
				p->unix_socket.path, "listen", p->serve.listens);
	cleanup_free char *text = json_dumps(doc, JSON_COMPACT);

	json_decref(doc);
	if (text)
		listen_unix_tell(&p->unix_socket, text);
}

/* ---- the loop ---- */

static int check_unix(struct program *p, struct err *e)
{
	int fd = -1;
	int r = listen_unix_check(&p->unix_socket, &fd, e);

	if (r == 1)
		r = server_listen(p->server, fd, true, e);
	return r == -EADDRINUSE || r == -EMFILE ? r : 0;
}

/* What is in files and changes seldom. */
static void renew(void *data)
{
	struct program *p = data;
	uint64_t now = clock_mono_ns();

	if (!p->tidied_ns || now - p->tidied_ns >= TIDY_S * NS_PER_S) {
		p->tidied_ns = now;
		keys_tidy(&p->serve);
	}
	serve_reload_tokens(&p->serve);
	__atomic_store_n(&p->renewing, false, __ATOMIC_RELEASE);
}

static int on_time(struct program *p, struct err *e)
{
	uint64_t now = clock_mono_ns();
	int r = 0;

	streams_pulse(p->serve.streams);
	metrics_pulse(p->serve.metrics);
	server_pulse(p->server);
	if (now - p->tokens_ns >= TOKENS_MS * NS_PER_MS &&
	    !__atomic_load_n(&p->renewing, __ATOMIC_ACQUIRE)) {
		p->tokens_ns = now;
		p->renewing = true;
		if (workers_do(p->serve.workers, renew, p) < 0)
			p->renewing = false;
	}
	if (now - p->checked_ns >= CHECK_MS * NS_PER_MS) {
		p->checked_ns = now;
		r = check_unix(p, e);
	}
	return r;
}

static int loop(struct program *p, struct err *e)
{
	for (;;) {
		struct pollfd fds[] = {
			{ .fd = p->signal_fd, .events = POLLIN },
			{ .fd = p->unix_socket.ep.fd, .events = POLLIN },
			{ .fd = model_fd(p->serve.model), .events = POLLIN },
			{ .fd = p->end_fd },
		};
		int r = poll(fds, ARRAY_LEN(fds), PULSE_MS);

		if (r < 0 && errno != EINTR)
			return err_sys(e, errno, "poll");
		if (r > 0 && (fds[0].revents || fds[3].revents))
			return 0;
		if (r > 0 && fds[1].revents)
			tell_newcomers(p);
		if (r > 0 && fds[2].revents)
			model_put(model_get(p->serve.model)); /* which makes it quiet */
		r = on_time(p, e);
		if (r < 0)
			return r;
	}
}

static int start(struct program *p, struct err *e)
{
	struct serve *s = &p->serve;
	int r;

	(void)spawn_reserve(); /* before anything of the spool is open */
	s->program = find_program(s->ctx, e);
	p->signal_fd = open_signals(e);
	if (!s->program || p->signal_fd < 0)
		return e->code;
	add_hosts(s);
	serve_reload_tokens(s);
	s->streams = streams_new();
	r = workers_new(&s->workers, e);
	if (r == 0)
		r = model_new(s->ctx, MODEL_ENDED | MODEL_JSON, &s->model, e);
	if (r < 0)
		return r;
	s->metrics = metrics_new(s);
	p->server = server_new(s, routes);
	return open_sockets(p, e);
}

/* A worker that hangs in a file system keeps nobody: the process ends, with all that it has. */
static void stop(struct program *p)
{
	if (p->serve.streams)
		streams_end(p->serve.streams);
	p->serve.workers = workers_free(p->serve.workers, END_LIMIT_MS);
	if (p->unix_socket.ep.fd >= 0)
		listen_unix_close(&p->unix_socket);
}

static void forget_environment(void)
{
	for (int id = 0; id < SET_MAX; id++) {
		const struct setting *row = setting_row((enum setting_id)id);

		if (row->groups & SETTING_GROUP_SERVE && row->opt.env)
			(void)unsetenv(row->opt.env);
	}
}

static int run(const struct cmd_ctx *ctx, struct err *e)
{
	static struct program p = { .unix_socket.ep = ENDPOINT_NONE,
				    .signal_fd = -1,
				    .end_fd = -1 };
	int r;

	p.serve.ctx = ctx;
	p.end_fd = opts_flag(ctx->opts, SERVE_WITH_AGENT) ? STDIN_FILENO : -1;
	p.serve.instance = settings_str(ctx->settings, SET_INSTANCE);
	p.serve.started_ns = clock_mono_ns();
	p.serve.state_dir = agent_setup_state_dir(ctx->settings);
	p.serve.spool_dir = instance_dir(ctx);
	(void)pthread_mutex_init(&p.serve.tokens_lock, NULL);
	(void)pthread_mutex_init(&p.serve.keys_lock, NULL);
	p.serve.history = history_seat_new();
	libexec_hand_on(ctx);
	/* A command that changes an agent would take them for what that is to be told. */
	if (p.end_fd < 0)
		forget_environment();
	/* Whoever floods us is not to be noticed elsewhere. */
	(void)setpriority(PRIO_PROCESS, 0, NICE);
	r = start(&p, e);
	if (r == 0) {
		print_sockets(&p);
		r = loop(&p, e);
	}
	stop(&p);
	if (r < 0) { /* and all that the thread reads goes with us */
		p.serve.model = model_free(p.serve.model);
		return r;
	}
	(void)fflush(NULL);
	_exit(CMD_OK);
}

int main(int argc, char **argv)
{
	struct cmd row = cmd_serve;

	row.run = run;
	return cmd_run(&row, "tenure", argc, argv);
}
