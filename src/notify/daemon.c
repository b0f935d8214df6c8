/* SPDX-License-Identifier: MIT */

/*
 * A loop around poll(): the agent's watch, and a process for each channel that is being told
 * (deliver.h). An event is taken once, in the order of the ids: one that does not follow the last
 * one is held back for a moment while the event file is read, where those between them are.
 *
 * What was taken and the outbox are saved together, before anything is told, so that after a crash
 * an event may come twice, but none is lost.
 */

#include "notify/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/ctl_client.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "notify/config.h"
#include "notify/deliver.h"
#include "notify/missed.h"
#include "notify/outbox.h"

#define STEP_MS	      1000 /* configs are looked at, and a full disk is tried again */
#define GAP_MS	      3000 /* the file lags behind: it is written by a thread of the agent */
#define GAP_STEP_MS   200
#define LAST_WORDS_MS 5000 /* after the end of the agent */
#define LOCK_STEP_MS  100

struct daemon {
	const struct daemon_config *c;
	struct notify_config config;
	char *stamp; /* of its files, when it was read */
	struct outbox *outbox;
	struct ctl_watch *watch;
	int64_t agent_pid;
	char instance[128], node[256];
	bool announced;		/* the agent has said that it ends */
	bool fresh;		/* nothing was ever taken: only what comes counts */
	json_t *held_back;	/* events that do not follow what was taken */
	uint64_t gap_ms;	/* since then; 0: there is no gap */
	uint64_t last_words_ms; /* until then; 0: the agent runs */
	bool disk_full;
	struct delivery *deliveries[CHANNELS_MAX];
	size_t sending[CHANNELS_MAX];
};

static volatile sig_atomic_t told_to_end;

static void on_end(int signum)
{
	told_to_end = 1;
}

static uint64_t mono_ms(void)
{
	return clock_mono_ns() / NS_PER_MS;
}

static uint64_t wall_ms(void)
{
	return clock_wall_ns() / NS_PER_MS;
}

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vfprintf(stderr, fmt, ap);
	va_end(ap);
	(void)fputc('\n', stderr);
}

/* -------- events -------- */

static void route(struct daemon *d, const json_t *event)
{
	for (size_t i = 0; i < d->config.n_channels; i++)
		if (notify_config_wants(&d->config, &d->config.channels[i], event))
			outbox_add(d->outbox, &d->config.channels[i], event, wall_ms());
}

static void take(void *user, json_t *event)
{
	struct daemon *d = user;
	const char *kind = json_get_str(event, "event");

	route(d, event);
	if (kind && strcmp(kind, "ending") == 0)
		outbox_set_agent(d->outbox, NULL);
	outbox_set_cursor(d->outbox, json_get_str(event, "id"));
}

static void read_missed(struct daemon *d)
{
	cleanup_free char *after = xstrdup(outbox_cursor(d->outbox));

	missed_events(d->c->events, after, take, d);
}

/* Those that follow now, or all of them: nothing more is to be found. */
static void take_held_back(struct daemon *d, bool all)
{
	while (json_array_size(d->held_back)) {
		json_t *event = json_array_get(d->held_back, 0);
		const char *id = json_get_str(event, "id"), *last = outbox_cursor(d->outbox);

		if (event_id_before(last, id)) {
			if (!all && !event_id_follows(last, id))
				return;
			take(d, event);
		}
		(void)json_array_remove(d->held_back, 0);
	}
	d->gap_ms = 0;
}

static void close_gap(struct daemon *d)
{
	if (!d->gap_ms)
		return;
	read_missed(d);
	take_held_back(d, mono_ms() >= d->gap_ms + GAP_MS);
}

static void on_event(struct daemon *d, json_t *event)
{
	const char *id = json_get_str(event, "id"), *last = outbox_cursor(d->outbox);

	if (!id || !event_id_before(last, id))
		return;
	if (!d->gap_ms && (event_id_follows(last, id) || d->fresh)) {
		take(d, event);
		return;
	}
	(void)json_array_append(d->held_back, event);
	if (!d->gap_ms)
		d->gap_ms = mono_ms();
}

/* An agent is gone that has not said so. */
static void tell_lost(struct daemon *d, int64_t pid, const char *what_now)
{
	char time[CLOCK_TEXT_MAX];
	cleanup_free char *text =
		xasprintf("the agent on %s (PID %lld) has ended without a word: %s", d->node,
			  (long long)pid, what_now);
	json_t *event =
		json_pack("{ss ss ss ss ss sI ss}", "time", clock_format_iso(clock_wall_ns(), time),
			  "event", "agent-lost", "level", "error", "instance", d->instance, "node",
			  d->node, "pid", (json_int_t)pid, "text", text);

	route(d, event);
	json_decref(event);
	outbox_set_agent(d->outbox, NULL);
}

/* Whoever killed the agent before this one may have killed who would have told of it, too. */
static void look_at_the_one_before(struct daemon *d, const json_t *agent)
{
	const json_t *before = outbox_agent(d->outbox);
	const char *was = json_get_str(before, "since"), *is = json_get_str(agent, "since");

	if (before && was && is && strcmp(was, is) != 0)
		tell_lost(d, (int64_t)json_get_u64(before, "pid"),
			  "so has the program that would have told of it; another agent runs now");
	outbox_set_agent(d->outbox, json_pack("{sI ss?}", "pid",
					      (json_int_t)json_get_u64(agent, "pid"), "since", is));
}

static void on_snapshot(struct daemon *d, const json_t *doc)
{
	const json_t *status = json_object_get(doc, "status");
	json_t *events = json_object_get(doc, "events"), *event;
	int64_t pid = (int64_t)json_get_u64(json_object_get(status, "agent"), "pid");
	size_t i;

	if (d->agent_pid && d->agent_pid != pid) {
		d->last_words_ms = 1; /* another one, which has a helper of its own */
		return;
	}
	d->agent_pid = pid;
	json_get_text(status, "instance", d->instance, sizeof(d->instance));
	json_get_text(status, "host", d->node, sizeof(d->node));
	d->fresh = !outbox_cursor(d->outbox)[0];
	if (!d->fresh)
		read_missed(d);
	look_at_the_one_before(d, json_object_get(status, "agent"));
	json_array_foreach(events, i, event) on_event(d, event);
	d->fresh = false;
}

static void on_document(struct daemon *d, const json_t *doc)
{
	const char *what = json_get_str(doc, "watch");

	if (!what)
		return;
	if (strcmp(what, "snapshot") == 0)
		on_snapshot(d, doc);
	else if (strcmp(what, "event") == 0)
		on_event(d, json_object_get(doc, "event"));
	else if (strcmp(what, "end") == 0)
		d->announced = true;
}

/* -------- the agent -------- */

static void on_gone(struct daemon *d)
{
	struct err e = ERR_INIT;

	d->watch = ctl_watch_close(d->watch);
	/* It may have cut us off while we were stopped. */
	if (!d->announced && ctl_watch_open(d->c->socket, &d->watch, &e) == 0)
		return;
	d->watch = NULL;
	d->last_words_ms = mono_ms() + LAST_WORDS_MS;
	read_missed(d);
	take_held_back(d, true);
	if (!d->announced && d->agent_pid)
		tell_lost(d, d->agent_pid,
			  "tasks that run go on, and nothing is held or started until there is one "
			  "again");
	outbox_set_agent(d->outbox, NULL);
}

static void hear(struct daemon *d)
{
	struct err e = ERR_INIT;
	json_t *doc = NULL;
	int r;

	while ((r = ctl_watch_next(d->watch, &doc, &e)) > 0) {
		on_document(d, doc);
		json_decref(doc);
	}
	if (r < 0)
		on_gone(d);
}

/* -------- channels -------- */

static void finish(struct daemon *d, size_t i)
{
	const struct channel *ch = &d->config.channels[i];
	struct delivery_result result;

	d->deliveries[i] = delivery_end(d->deliveries[i], &result);
	outbox_result(d->outbox, ch, d->sending[i], &result, wall_ms());
	if (result.how != DELIVERED)
		say("channel %s: not sent%s: %s", ch->name,
		    result.how == DELIVER_REFUSED ? ", and not tried again" : "", result.text);
}

static void begin(struct daemon *d, size_t i)
{
	const struct channel *ch = &d->config.channels[i];
	struct delivery_result result;
	json_t *message = outbox_due(d->outbox, ch, wall_ms(), &d->sending[i]);

	if (!message)
		return;
	d->deliveries[i] = delivery_start(ch, message, &result);
	json_decref(message);
	if (!d->deliveries[i])
		outbox_result(d->outbox, ch, d->sending[i], &result, wall_ms());
}

static void save(struct daemon *d)
{
	struct err e = ERR_INIT;
	bool failed = outbox_save(d->outbox, &e) < 0;

	if (failed && !d->disk_full)
		say("the outbox cannot be written, so what waits is in memory alone and would be "
		    "lost with this process: %s",
		    e.text);
	if (!failed && d->disk_full)
		say("the outbox can be written again");
	d->disk_full = failed;
}

static void run_channels(struct daemon *d)
{
	uint64_t now = mono_ms();

	for (size_t i = 0; i < d->config.n_channels; i++)
		if (d->deliveries[i] && now >= delivery_deadline_ms(d->deliveries[i]))
			finish(d, i);
	if (!outbox_is_saved(d->outbox))
		save(d);
	for (size_t i = 0; i < d->config.n_channels; i++)
		if (!d->deliveries[i])
			begin(d, i);
}

static bool is_sending(const struct daemon *d)
{
	for (size_t i = 0; i < d->config.n_channels; i++)
		if (d->deliveries[i])
			return true;
	return false;
}

/* -------- the config -------- */

/* What tells whether one of the files, of which the first with a block counts, is another now. */
static char *stamp_of(const char *files)
{
	cleanup_free char *copy = xstrdup(files);
	struct strbuf b = STRBUF_INIT;
	char *rest = NULL;

	for (char *path = strtok_r(copy, ":", &rest); path; path = strtok_r(NULL, ":", &rest)) {
		struct stat st = { .st_ino = 0 };

		(void)stat(path, &st);
		strbuf_addf(&b, "%ju %jd %jd.%09ld;", (uintmax_t)st.st_ino, (intmax_t)st.st_size,
			    (intmax_t)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
	}
	return strbuf_take(&b);
}

/* A mistake in a new one leaves the old one in force. */
static void look_at_config(struct daemon *d)
{
	cleanup_free char *stamp = is_sending(d) ? NULL : stamp_of(d->c->files), *file = NULL;
	struct notify_config config;
	struct err e = ERR_INIT;
	int r;

	if (!stamp || strcmp(stamp, d->stamp) == 0)
		return;
	free(d->stamp);
	d->stamp = take_ptr(stamp);
	r = notify_config_read(d->c->files, &config, &file, &e);
	if (r < 0) {
		say("the config has changed, and is not used: %s", e.text);
		return;
	}
	if (r == 0)
		say("the config has changed: %zu channels (%s)", config.n_channels, file);
	else
		say("no config has a block `notify` any more: nobody is told");
	notify_config_clear(&d->config);
	d->config = config;
}

/* -------- the loop -------- */

static int timeout_ms(const struct daemon *d)
{
	uint64_t now = mono_ms(), wall = wall_ms(), least = STEP_MS;

	if (d->gap_ms)
		least = GAP_STEP_MS;
	for (size_t i = 0; i < d->config.n_channels; i++) {
		uint64_t due = outbox_due_at(d->outbox, &d->config.channels[i]), left = STEP_MS;

		if (d->deliveries[i] && delivery_deadline_ms(d->deliveries[i]) < now + STEP_MS)
			left = delivery_deadline_ms(d->deliveries[i]) > now
				       ? delivery_deadline_ms(d->deliveries[i]) - now
				       : 0;
		else if (!d->deliveries[i] && due < wall + STEP_MS)
			left = due > wall ? due - wall : 0;
		if (left < least)
			least = left;
	}
	return (int)least;
}

static void wait_and_hear(struct daemon *d)
{
	struct pollfd fds[CHANNELS_MAX + 1];
	size_t n = d->config.n_channels;

	for (size_t i = 0; i < n; i++)
		fds[i] = (struct pollfd){ .fd = d->deliveries[i] ? delivery_fd(d->deliveries[i])
								 : -1,
					  .events = POLLIN };
	fds[n] = (struct pollfd){ .fd = d->watch ? ctl_watch_fd(d->watch) : -1, .events = POLLIN };
	if (poll(fds, n + 1, timeout_ms(d)) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		if (fds[i].revents)
			finish(d, i);
	if (fds[n].revents)
		hear(d);
}

static bool is_over(const struct daemon *d)
{
	if (!d->last_words_ms)
		return false;
	if (mono_ms() >= d->last_words_ms)
		return true;
	for (size_t i = 0; i < d->config.n_channels; i++)
		if (d->deliveries[i] ||
		    outbox_due_at(d->outbox, &d->config.channels[i]) <= wall_ms())
			return false;
	return true;
}

static void loop(struct daemon *d)
{
	uint64_t looked = mono_ms();

	while (!told_to_end && !is_over(d)) {
		close_gap(d);
		run_channels(d);
		wait_and_hear(d);
		if (mono_ms() >= looked + STEP_MS) {
			look_at_config(d);
			looked = mono_ms();
		}
	}
}

/* The helper of an agent that has just ended may still have its last words to say. */
static int lock(const char *outbox, struct err *e)
{
	cleanup_free char *path = xasprintf("%s.lock", outbox), *dir = xstrdup(outbox);
	char *slash = strrchr(dir, '/');
	int fd;

	if (slash)
		*slash = '\0';
	(void)fs_mkdirs(dir, 0700, e); /* the next call says what is wrong */
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0) {
		say("%s: %s; it goes on without", path, strerror(errno));
		return -1;
	}
	while (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK && !told_to_end)
		(void)poll(NULL, 0, LOCK_STEP_MS);
	return fd;
}

static int prepare(struct daemon *d, struct err *e)
{
	int r;

	d->stamp = stamp_of(d->c->files);
	r = notify_config_read(d->c->files, &d->config, NULL, e);
	if (r)
		return r < 0 ? r : err_set(e, -ENOENT, "no config has a block `notify`");
	if (outbox_load(d->outbox, e) < 0)
		say("%s", e->text);
	r = ctl_watch_open(d->c->socket, &d->watch, e);
	return r;
}

int daemon_run(const struct daemon_config *c, struct err *e)
{
	struct daemon d = { .c = c, .outbox = outbox_new(c->outbox), .held_back = json_array() };
	cleanup_fd int lock_fd = -1;
	int r;

	(void)sigaction(SIGTERM, &(struct sigaction){ .sa_handler = on_end }, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)setvbuf(stderr, NULL, _IOLBF, 0);
	lock_fd = lock(c->outbox, e);
	r = prepare(&d, e);
	if (r == 0)
		loop(&d);
	for (size_t i = 0; i < CHANNELS_MAX; i++)
		d.deliveries[i] = delivery_forget(d.deliveries[i]);
	save(&d);
	d.watch = ctl_watch_close(d.watch);
	json_decref(d.held_back);
	notify_config_clear(&d.config);
	free(d.stamp);
	d.outbox = outbox_free(d.outbox);
	return r;
}
