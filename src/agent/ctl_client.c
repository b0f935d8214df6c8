/* SPDX-License-Identifier: MIT */
#include "agent/ctl_client.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/endpoint.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/sock.h"
#include "base/strbuf.h"

#define ANSWER_MAX    (8UL * 1024 * 1024)
#define PATIENCE_MS   1000 /* then it may be that the agent cannot answer */
#define ROOM_LIMIT_MS 5000 /* for a place in its queue, which many may stand in */
#define BELL_LIMIT_MS 500

/* The process that listens at the other end, as far as it can be seen from here; 0: unknown. */
static pid_t agent_pid(int fd)
{
	struct ucred cred = { .pid = 0 };
	socklen_t len = sizeof(cred);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 ? cred.pid : 0;
}

static bool is_stopped(pid_t pid)
{
	struct proc_peek peek;

	return pid > 0 && proc_peek(pid, &peek) == 0 && (peek.state == 'T' || peek.state == 't');
}

/* Wait for one packet. Its size; 0: the agent is gone; -ETIMEDOUT; -errno. */
static ssize_t wait_packet(int fd, struct ctl_chunk *chunk, uint64_t deadline_ns)
{
	for (;;) {
		ssize_t n = sock_recv(fd, chunk, sizeof(*chunk));
		uint64_t now = clock_mono_ns();
		struct pollfd p = { .fd = fd, .events = POLLIN };

		if (n != -EAGAIN)
			return n;
		if (now >= deadline_ns || is_stopped(agent_pid(fd)))
			return -ETIMEDOUT;

		uint64_t wait_ms = (deadline_ns - now) / NS_PER_MS + 1;

		if (poll(&p, 1, (int)(wait_ms < PATIENCE_MS ? wait_ms : PATIENCE_MS)) < 0 &&
		    errno != EINTR)
			return -errno;
	}
}

static int does_not_answer(pid_t pid, struct err *e)
{
	if (is_stopped(pid))
		return err_set(
			e, -ETIMEDOUT,
			"the agent (PID %d) is stopped (Ctrl-Z, or SIGSTOP), and holds nothing "
			"after 10 s; fg in its terminal or kill -CONT %d resumes it and has it do "
			"what it was asked, kill -KILL %d ends it",
			(int)pid, (int)pid, (int)pid);
	return err_set(e, -ETIMEDOUT, "the agent (PID %d) does not answer; kill %d ends it",
		       (int)pid, (int)pid);
}

static int speaks_another(int fd, struct err *e)
{
	return err_set(
		e, -EPROTO,
		"the agent (PID %d) speaks another version of tenure; end it with the program "
		"that started it, or in order with kill %d",
		(int)agent_pid(fd), (int)agent_pid(fd));
}

static int read_answer(int fd, uint64_t deadline_ns, struct strbuf *text, struct err *e)
{
	struct ctl_chunk chunk = { .last = 0 };

	while (!chunk.last) {
		ssize_t n = wait_packet(fd, &chunk, deadline_ns);

		if (n == -ETIMEDOUT)
			return does_not_answer(agent_pid(fd), e);
		if (n == 0)
			return err_set(e, -EPIPE, "the agent ended while it was asked");
		if (!ctl_is_chunk(&chunk, n) || text->len + chunk.size > ANSWER_MAX)
			return speaks_another(fd, e);
		strbuf_add(text, chunk.data, chunk.size);
	}
	return 0;
}

int ctl_ask(const char *name, enum ctl_verb verb, int timeout_ms, json_t **ret, int *ret_fd,
	    struct err *e)
{
	const struct ctl_request req = { .verb = verb };

	return ctl_ask_about(name, &req, timeout_ms, ret, ret_fd, e);
}

static int send_payload(int fd, const char *payload)
{
	struct ctl_chunk chunk = { .magic = CTL_MAGIC, .version = CTL_VERSION, .last = 1 };

	chunk.size = (uint32_t)strlen(payload);
	(void)memcpy(chunk.data, payload, chunk.size);
	return sock_send(fd, &chunk, CTL_CHUNK_HEAD + chunk.size);
}

static int ask(const char *name, const struct ctl_request *asked, const char *payload,
	       int timeout_ms, json_t **ret, int *ret_fd, struct err *e)
{
	struct ctl_request req = *asked;
	uint64_t deadline = clock_mono_ns() + (uint64_t)timeout_ms * NS_PER_MS;
	cleanup_strbuf struct strbuf text = STRBUF_INIT;
	cleanup_fd int fd = endpoint_connect(name, ROOM_LIMIT_MS, e);

	if (fd < 0)
		return fd;
	req.magic = CTL_MAGIC;
	req.version = CTL_VERSION;

	int r = sock_send(fd, &req, sizeof(req));

	if (r == 0 && payload)
		r = send_payload(fd, payload);
	if (r < 0)
		return err_sys(e, -r, "ask the agent");
	r = read_answer(fd, deadline, &text, e);
	if (r < 0)
		return r;

	json_t *doc = json_loadb(strbuf_str(&text), text.len, 0, NULL);

	if (!doc)
		return err_set(e, -EPROTO, "the agent's answer is not JSON");
	*ret = doc;
	if (ret_fd)
		*ret_fd = take_fd(fd);
	return 0;
}

int ctl_ask_about(const char *name, const struct ctl_request *asked, int timeout_ms, json_t **ret,
		  int *ret_fd, struct err *e)
{
	return ask(name, asked, NULL, timeout_ms, ret, ret_fd, e);
}

int ctl_ask_with(const char *name, enum ctl_verb verb, const char *payload, int timeout_ms,
		 json_t **ret, struct err *e)
{
	const struct ctl_request req = { .verb = verb, .payload = (uint32_t)strlen(payload) };

	if (strlen(payload) > CTL_PAYLOAD_MAX)
		return err_set(e, -E2BIG, "that is more than %u bytes, and the agent takes no more",
			       CTL_PAYLOAD_MAX);
	return ask(name, &req, payload, timeout_ms, ret, NULL, e);
}

/* ---- watching ---- */

struct ctl_watch {
	int fd;
	struct strbuf text; /* of a document that is not whole yet */
	bool heard;
	uint64_t heard_ns; /* last; before that: opened */
};

int ctl_watch_open(const char *name, struct ctl_watch **ret, struct err *e)
{
	const struct ctl_request req = { .magic = CTL_MAGIC,
					 .version = CTL_VERSION,
					 .verb = CTL_WATCH };
	cleanup_fd int fd = endpoint_connect(name, ROOM_LIMIT_MS, e);
	int r;

	if (fd < 0)
		return fd;
	r = sock_send(fd, &req, sizeof(req));
	if (r < 0)
		return err_sys(e, -r, "ask the agent");
	*ret = xcalloc(1, sizeof(**ret));
	(*ret)->fd = take_fd(fd);
	(*ret)->text = (struct strbuf)STRBUF_INIT;
	(*ret)->heard_ns = clock_mono_ns();
	return 0;
}

int ctl_watch_fd(const struct ctl_watch *w)
{
	return w->fd;
}

static int watch_ended(const struct ctl_watch *w, struct err *e)
{
	if (!w->heard) /* an agent that does not know the verb says nothing */
		return speaks_another(w->fd, e);
	return err_set(e, -EPIPE, "the agent has ended, or has cut us off");
}

int ctl_watch_next(struct ctl_watch *w, json_t **ret, struct err *e)
{
	struct ctl_chunk chunk = { .last = 0 };

	while (!chunk.last) {
		ssize_t n = sock_recv(w->fd, &chunk, sizeof(chunk));

		if (n == -EAGAIN)
			return 0;
		if (n <= 0)
			return watch_ended(w, e);
		if (!ctl_is_chunk(&chunk, n) || w->text.len + chunk.size > ANSWER_MAX)
			return speaks_another(w->fd, e);
		strbuf_add(&w->text, chunk.data, chunk.size);
		w->heard = true;
		w->heard_ns = clock_mono_ns();
	}
	*ret = json_loadb(strbuf_str(&w->text), w->text.len, 0, NULL);
	strbuf_reset(&w->text);
	return *ret ? 1 : err_set(e, -EPROTO, "what the agent tells is not JSON");
}

int ctl_watch_silence(const struct ctl_watch *w, struct err *e)
{
	if (clock_mono_ns() - w->heard_ns < CTL_SILENT_MS * NS_PER_MS)
		return 0;
	return does_not_answer(agent_pid(w->fd), e);
}

struct ctl_watch *ctl_watch_close(struct ctl_watch *w)
{
	if (!w)
		return NULL;
	(void)fd_close(w->fd);
	strbuf_clear(&w->text);
	free(w);
	return NULL;
}

void ctl_ring(const char *name, enum ctl_verb verb)
{
	const struct ctl_request req = { .magic = CTL_MAGIC, .version = CTL_VERSION, .verb = verb };
	cleanup_fd int fd = endpoint_connect(name, BELL_LIMIT_MS, NULL);

	if (fd >= 0)
		(void)sock_send(fd, &req, sizeof(req));
}
