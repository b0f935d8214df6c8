/* SPDX-License-Identifier: MIT */
/*
 * The guard: its loop.
 *
 * One thread, one poll(); the eyes are another (eyes.c), so that nothing here ever stands in a
 * driver call. What can be slow is somewhere else: names of users are the agent's business, logs
 * are the agent's, files are nobody's. The executable is a copy in memory, the working directory is
 * /, memory is locked where the limit allows it: a file system that hangs does not stop a yield.
 *
 * How often the eyes look:
 *   held, and a hint is on   every HINT_LOOK_NS in turn over the held devices
 *   held                     every HELD_LOOK_NS, each, at its memory: a newcomer through a node
 *                            that inotify does not see is noticed in time as well (eyes.c)
 *   yields                   every YIELDING_LOOK_NS
 *   used by a task of ours   every USED_LOOK_NS, at its memory: how much that is (usage.c)
 *   otherwise                every IDLE_LOOK_NS, for the figures; the refresh clock checks
 *                            besides
 * and every 2 ms, whatever the period, while memory has moved just now (eyes.c), but for what
 * yields to somebody who is known.
 *
 * Eyes that are stuck in one look for STUCK_NS see nothing, so everything is let go (invariant 3).
 */
#include "hold/guard/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cost.h"
#include "base/endpoint.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "hold/endpoint_names.h"
#include "hold/guard/assign.h"
#include "hold/guard/client.h"
#include "hold/guard/dev_status.h"
#include "hold/guard/device.h"
#include "hold/guard/event_ring.h"
#include "hold/guard/hold.h"
#include "hold/guard/holder_process.h"
#include "hold/guard/lease.h"
#include "hold/guard/ledger.h"
#include "hold/guard/look.h"
#include "hold/guard/timings.h"
#include "hold/guard/types.h"
#include "hold/guard/verdict.h"
#include "hold/guard/xid.h"

/* Every call of ours would queue in front of the release. */

/* Where each descriptor of the poll set belongs. */
enum { POLL_LISTEN, POLL_NAME, POLL_SIGNAL, POLL_EYES, POLL_HINTS, POLL_FIRST };
#define POLL_MAX (POLL_FIRST + GUARD_CLIENTS_MAX + GPU_DEVICES_MAX + GUARD_LEASES_MAX)

struct poll_set {
	struct pollfd p[POLL_MAX];
	struct client *client[POLL_MAX];
	struct device *dev[POLL_MAX];
	struct lease *lease[POLL_MAX];
	nfds_t n;
};

/* --- devices come, go and are seen --- */

static void take_peers(struct guard *g, struct device *d)
{
	struct eyes_peers peers = eyes_peers(g->eyes, d->slot);

	if (!memcmp(&peers, &d->seen.peers, sizeof(peers)))
		return;
	d->seen.peers = peers;
	d->dirty = true;
}

/* Pick up devices that the eyes have numbered since; true when others can be selected. */
static bool take_devices(struct guard *g)
{
	uint32_t n = eyes_count(g->eyes);
	bool news = n != g->n_devs;

	for (uint32_t i = 0; i < n; i++) {
		struct device *d = &g->devs[i];

		if (i >= g->n_devs)
			*d = (struct device){ .slot = i,
					      .owner = -1,
					      .leaver = -1,
					      .hold = { .lock_fd = -1 },
					      .holder = { .fd = -1 },
					      .state = DEV_LEFT,
					      .since_ns = clock_mono_ns(),
					      .said = { .who_uid = UINT32_MAX,
							.reason = { .code = DEV_REASON_NOT_SELECTED,
								    .uid = DEV_REASON_NO_UID } } };

		bool was_present = d->present, was_card = d->id.mig_parent;

		d->present = eyes_device(g->eyes, i, &d->id);
		news = news || d->present != was_present || d->id.mig_parent != was_card;
		take_peers(g, d);
		d->seen.lost = d->seen.lost || !d->present;
		if (!d->present && d->state != DEV_LEFT) {
			d->hold.check = false; /* nobody will look, so nothing may wait for it */
			look_blind(g, d, "it is not there any more");
		}
	}
	g->n_devs = n;
	return news;
}

/* Pages of ours must not have to be read back from a file system that hangs. */
static void lock_memory(struct guard *g)
{
	if (mlockall(MCL_CURRENT | MCL_ONFAULT) == 0)
		g->flags |= GUARD_LOCKED;
}

/* True when NVML's first answer is there: it can be said now what there is. */
static bool note_trouble(struct guard *g)
{
	bool ready = eyes_ready(g->eyes), first = ready && !g->ready;
	char text[PROTO_TEXT_MAX];
	int code = eyes_trouble(g->eyes, text, sizeof(text));
	bool same = code == g->trouble_code;

	if (!ready || (same && !strcmp(text, g->trouble) && !first))
		return false;
	g->trouble_code = code;
	(void)str_copy(g->trouble, sizeof(g->trouble), text);
	g->flags = code < 0 ? g->flags & ~(uint32_t)GUARD_SEES : g->flags | GUARD_SEES;
	event_guard_changed(g);
	if (first || same)
		return first;
	if (code < 0) {
		(void)event_add(g, NULL, EVENT_LOST, "NVML was lost: %s", text);
	} else {
		(void)event_add(g, NULL, EVENT_BACK, "NVML works");
		lock_memory(g); /* its code may be another one */
	}
	DEVICES_EACH(g, d)
		d->seen.lost = d->seen.lost || code < 0;
	return false;
}

static bool all_looked_at(const struct guard *g)
{
	DEVICES_EACH(g, d)
		if (d->present && !d->sample.seq)
			return false;
	return g->ready;
}

static void take_samples(struct guard *g)
{
	for (uint32_t i = 0; i < g->n_devs; i++) {
		struct device *d = &g->devs[i];

		if (!eyes_sample(g->eyes, i, d->sample.seq, &d->sample))
			continue;
		look_on_sample(g, d);
		/* A look that failed has no times, and nothing else will come of it. */
		if (d->hold.check &&
		    (d->sample.code < 0 ||
		     (d->sample.checked &&
		      (d->holder.pid || d->sample.look.begin_ns > d->hold.gone_ns)))) {
			d->hold.check = false;
			if (d->owner >= 0)
				client_consider(g, device_owner(g, d));
		}
	}
}

static void on_eyes(struct guard *g)
{
	eyes_ack(g->eyes);
	take_samples(g); /* first what is urgent: verdicts on devices that we know */
	xid_guard_take(g);

	bool first = note_trouble(g);

	if (take_devices(g)) {
		assign_all(g);
		event_guard_changed(g);
		take_samples(g); /* they may have been looked at before we knew them */
	}
	if (first) {
		lock_memory(g); /* NVML's code is there now */
		g->ready = true;
		client_on_ready(g);
	}
	g->looked = g->looked || all_looked_at(g);
}

static void check_stuck(struct guard *g)
{
	if (cost_turn(&g->look, eyes_look_began_ns(g->eyes), clock_mono_ns(), TURN_MOST_NS) <
	    STUCK_NS)
		return;
	DEVICES_EACH(g, d)
		if (d->state == DEV_HOLDING || d->state == DEV_HELD)
			look_blind(g, d, "NVML does not answer");
}

/* Somebody may come, or a task of ours that our context waits for. */
static bool watched(const struct device *d)
{
	return device_occupied(d) || (d->ledger.n_awaited && d->holder.kept);
}

static uint64_t look_period(const struct guard *g, const struct device *d, unsigned int n_held)
{
	if (device_letting_go(d))
		return YIELDING_LOOK_NS;
	if (d->ledger.n_over)
		return OVER_LOOK_NS;
	if (!watched(d) && d->ledger.n_preemptible)
		return g->hint_on ? PREEMPTIBLE_HINT_NS : PREEMPTIBLE_LOOK_NS;
	if (!watched(d))
		return d->ledger.n_running ? USED_LOOK_NS : IDLE_LOOK_NS;
	if (!g->hint_on)
		return HELD_LOOK_NS;
	/* One every HINT_LOOK_NS, in turn; of very many a few more. */
	n_held = n_held > HINT_HELD_MAX ? HINT_HELD_MAX : n_held;
	return HINT_LOOK_NS * (n_held > 2 ? n_held : 2);
}

/*
 * It yields to somebody who is known: a look tells nothing before the memory is free, and would
 * stand in the driver behind the release, while somebody else comes to another device. Who it is
 * has to be found out yet where memory alone was the verdict, and beside a task of ours.
 */
static bool is_calm(const struct device *d)
{
	return d->state == DEV_YIELDING && d->said.who_pid > 0 && !d->ledger.n_leases;
}

static void set_periods(struct guard *g)
{
	unsigned int n_held = 0;

	eyes_set_hint(g->eyes, g->hint_on);
	DEVICES_EACH(g, d)
		n_held += watched(d);
	for (uint32_t i = 0; i < g->n_devs; i++)
		eyes_set_period(g->eyes, i, look_period(g, &g->devs[i], n_held),
				is_calm(&g->devs[i]));
}

static void update_hint(struct guard *g, uint64_t now)
{
	bool on = hints_active(&g->hints, now);

	if (g->hint_on && !on)
		for (uint32_t i = 0; i < g->n_devs; i++)
			if (!device_occupied(&g->devs[i]))
				eyes_look_now(g->eyes, i); /* whoever came is listed by now */
	g->hint_on = on;
}

/* --- signals --- */

static void begin_quit(struct guard *g)
{
	if (g->quit_ns)
		return;
	g->quit_ns = clock_mono_ns() + QUIT_NS;
	DEVICES_EACH(g, d) {
		device_unwant(g, d, "the guard is shutting down");
		holder_tell(d, HOLDER_END);
		d->holder.end_at_ns = clock_mono_ns();
	}
}

static void on_signal(struct guard *g)
{
	struct signalfd_siginfo info;

	while (read(g->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo != SIGCHLD) {
			begin_quit(g);
			continue;
		}
		DEVICES_EACH(g, d)
			if (d->holder.pid)
				hold_on_child(g, d);
	}
}

/* --- the loop --- */

static void add_poll(struct poll_set *set, int fd, struct client *c, struct device *d)
{
	set->p[set->n] = (struct pollfd){ .fd = fd, .events = POLLIN };
	set->lease[set->n] = NULL;
	set->client[set->n] = c;
	set->dev[set->n++] = d;
}

static void fill_poll(struct guard *g, struct poll_set *set)
{
	set->n = 0;
	add_poll(set, g->listen_fd, NULL, NULL);
	set->p[POLL_LISTEN].events = clock_mono_ns() < g->accept_ns ? 0 : POLLIN;
	add_poll(set, endpoint_keeper_fd(g->keeper), NULL, NULL);
	add_poll(set, g->signal_fd, NULL, NULL);
	add_poll(set, eyes_fd(g->eyes), NULL, NULL);
	add_poll(set, g->hints.fd, NULL, NULL);
	DEVICES_EACH(g, d)
		if (d->holder.fd >= 0)
			add_poll(set, d->holder.fd, NULL, d);
	CLIENTS_EACH(g, c) {
		if (c->fd < 0)
			continue;
		add_poll(set, c->fd, c, NULL);
		set->p[set->n - 1].events = c->full ? POLLOUT : POLLIN;
	}
	LEASES_EACH(g, l)
		if (l->pidfd >= 0) {
			add_poll(set, l->pidfd, NULL, NULL);
			set->lease[set->n - 1] = l;
		}
}

/*
 * The file of our socket was tidied away. It is back, or another guard is found in its place: then
 * there are two, and this one ends. Our agents go to the other one, and tell it what runs.
 */
static void on_name(struct guard *g)
{
	int r = endpoint_keeper_take(g->keeper);

	if (r >= 0) {
		client_accept(g);
		(void)fd_close(g->listen_fd);
		g->listen_fd = r;
	} else if (r == -EADDRINUSE) {
		(void)event_add(g, NULL, EVENT_NOTE,
				"another guard is found in the place of this one (PID %d), "
				"which ends",
				(int)getpid());
		begin_quit(g);
	}
}

static void dispatch(struct guard *g, const struct poll_set *set)
{
	/* In the order of urgency, but that a verdict knows of the hint before it. A client or
	 * device may have gone meanwhile: its fd says so. */
	bool hint = (set->p[POLL_HINTS].revents || set->p[POLL_EYES].revents) &&
		    hints_read(&g->hints, clock_mono_ns());

	if (set->p[POLL_EYES].revents)
		on_eyes(g);
	if (hint && !g->hint_on) {
		g->hint_on = true;
		set_periods(g);
	}
	for (nfds_t i = POLL_FIRST; i < set->n; i++) {
		if (!set->p[i].revents)
			continue;
		if (set->dev[i] && set->dev[i]->holder.fd == set->p[i].fd)
			hold_on_holder(g, set->dev[i]);
		if (set->client[i] && set->client[i]->used && set->client[i]->fd == set->p[i].fd)
			client_on_readable(g, set->client[i]);
		if (set->lease[i] && set->lease[i]->used && set->lease[i]->pidfd == set->p[i].fd)
			lease_on_shim(g, set->lease[i]);
	}
	if (set->p[POLL_SIGNAL].revents)
		on_signal(g);
	if (set->p[POLL_LISTEN].revents) {
		client_accept(g);
		g->accept_ns = clock_mono_ns() + ACCEPT_NS;
	}
	if (set->p[POLL_NAME].revents)
		on_name(g);
}

static void tell_clients(struct guard *g, uint64_t now, uint64_t *tell_ns)
{
	bool all = now >= *tell_ns;
	bool dirty = false;

	DEVICES_EACH(g, d)
		dirty = dirty || d->dirty;
	if (all) {
		eyes_set_watched(g->eyes, status_watched(g));
		status_take_health(g);
	}
	CLIENTS_EACH(g, c) {
		if (c->fd < 0 || !c->instance[0])
			continue;
		if (all || dirty)
			status_tell_devices(g, c, all);
		if (all && !g->n_devs) /* it is to hear something */
			status_tell_guard(g, c, MSG_GUARD);
		event_tell(g, c);
		lease_tell(g, c);
		if (all)
			status_tell_health(g, c);
	}
	DEVICES_EACH(g, d)
		d->dirty = false;
	if (all)
		*tell_ns = now + TELL_NS;
}

static bool under_way(const struct guard *g)
{
	if (g->hint_on || g->quit_ns)
		return true;
	DEVICES_EACH(g, d) {
		if (d->state == DEV_HOLDING || device_letting_go(d) || d->holder.end_at_ns ||
		    figure_awaited(&d->figure) || d->ledger.n_over)
			return true;
	}
	return false;
}

/* How long the loop may wait: until something is due that no descriptor tells of. */
static int turn_ms(const struct guard *g)
{
	uint64_t now = clock_mono_ns();
	uint64_t wait_ms = under_way(g) ? TURN_BUSY_MS : TURN_QUIET_MS;

	if (now < g->accept_ns)
		wait_ms = (g->accept_ns - now) / NS_PER_MS + 1; /* the next one may wait already */
	DEVICES_EACH(g, d) {
		uint64_t due = d->state == DEV_HELD ? verdict_rise_due(g, d) : UINT64_MAX;

		if (d->ledger.chain_until_ns > now && d->ledger.chain_until_ns < due)
			due = d->ledger.chain_until_ns;
		if (due < now + wait_ms * NS_PER_MS)
			wait_ms = due > now ? (due - now) / NS_PER_MS + 1 : 1;
	}
	return (int)wait_ms;
}

static bool tells_again(uint64_t told_ns, uint64_t now)
{
	return !told_ns || now >= told_ns + LATE_AGAIN_NS;
}

/*
 * Where looks come late, newcomers are noticed late. The figures are told when that is first so,
 * then now and then, and when they or the driver have become twice as bad. In words only where the
 * driver does not explain it: on a card it answers late whenever a program starts (H100: 125 ms).
 */
static void look_at_delay(struct guard *g, uint64_t now)
{
	struct eyes_delay d = eyes_take_delay(g->eyes), *all = &g->delay;

	g->delay_ns = now + DELAY_NS;
	all->n_late += d.n_late;
	if (d.late_ns > all->late_ns)
		all->late_ns = d.late_ns;
	if (d.took_ns > all->took_ns)
		all->took_ns = d.took_ns;
	if (d.late_ns > EYES_LATE_NS &&
	    (all->late_ns > 2 * g->told.late_ns || all->took_ns > 2 * g->told.took_ns ||
	     tells_again(g->late_told_ns, now))) {
		g->late_told_ns = now;
		g->told = *all;
		event_guard_changed(g);
	}
	if (d.late_ns > d.took_ns + EYES_LATE_NS &&
	    (d.late_ns > 2 * g->said || tells_again(g->late_said_ns, now))) {
		g->late_said_ns = now;
		g->said = d.late_ns;
		(void)event_add(g, NULL, EVENT_NOTE,
				"a look at what is held came %llu ms late, since no processor was "
				"free: whoever comes is noticed so much later",
				(unsigned long long)(d.late_ns / NS_PER_MS));
	}
}

static void on_time(struct guard *g)
{
	uint64_t now = clock_mono_ns();

	if (g->outdated)
		begin_quit(g);
	DEVICES_EACH(g, d)
		look_on_time(g, d, now);
	assign_again(g);
	if (now >= g->turn_away_ns) {
		DEVICES_EACH(g, d)
			device_turn_away(d);
		g->turn_away_ns = now + TURN_AWAY_NS;
	}
	if (now >= g->delay_ns)
		look_at_delay(g, now);
	if (now >= g->shims_ns) {
		lease_look_at_shims(g);
		g->shims_ns = now + SHIMS_NS;
	}
	CLIENTS_EACH(g, c)
		client_on_time(g, c, now);
	if (now >= g->rescan_ns) {
		hints_rescan(&g->hints, g->dev_dir);
		if (!(g->flags & GUARD_INOTIFY) != !g->hints.n_watches) {
			g->flags ^= GUARD_INOTIFY;
			event_guard_changed(g);
		}
		g->rescan_ns = now + RESCAN_NS;
	}
	check_stuck(g);
	hold_tell_windows(g);
	update_hint(g, now);
	set_periods(g);
}

static bool any_holder(const struct guard *g)
{
	DEVICES_EACH(g, d)
		if (d->holder.pid)
			return true;
	return false;
}

static bool finished(const struct guard *g)
{
	if (g->quit_ns)
		return !any_holder(g) || clock_mono_ns() >= g->quit_ns;
	if (client_any(g) || any_holder(g) || ledger_count(g, NULL))
		return false;
	/* One that cannot see may be so by its environment: the next agent starts another. */
	return (g->greeted && g->trouble_code < 0) || clock_mono_ns() - g->born_ns > LONELY_NS;
}

static void loop(struct guard *g)
{
	struct poll_set set;
	uint64_t tell_ns = 0;

	while (!finished(g)) {
		fill_poll(g, &set);
		if (poll(set.p, set.n, turn_ms(g)) > 0)
			dispatch(g, &set);
		on_time(g);
		tell_clients(g, clock_mono_ns(), &tell_ns);
	}
}

/* --- start --- */

static int open_signals(struct err *e)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGHUP);
	(void)sigaddset(&set, SIGCHLD);
	/* Before any thread is started: threads inherit the mask. */
	(void)sigprocmask(SIG_BLOCK, &set, NULL);

	int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);

	return fd < 0 ? err_sys(e, errno, "signalfd") : fd;
}

static int guard_open(struct guard *g, struct err *e)
{
	char name[SOCKET_NAME_MAX];
	struct err hint_err = ERR_INIT;
	int r;

	g->signal_fd = open_signals(e);
	if (g->signal_fd < 0)
		return g->signal_fd;
	r = endpoint_keep(
		guard_socket_name(name, sizeof(name), g->dev_dir, g->job[0] ? g->job : NULL),
		&g->keeper, &g->listen_fd, e);
	if (r < 0)
		return r;
	g->born_ns = clock_mono_ns();
	g->self_fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	if (g->self_fd < 0)
		return err_sys(e, errno, "open /proc/self/exe");
	policy_defaults(&g->plain);
	g->started_wall_ns = clock_wall_ns();
	g->hidden_possible = proc_in_namespace();
	hints_open(&g->hints, g->dev_dir, &hint_err);
	if (g->hints.n_watches)
		g->flags |= GUARD_INOTIFY;

	r = eyes_open(&g->eyes, g->granted.only ? &g->granted : NULL, e);
	if (r < 0)
		return r;
	lock_memory(g);
	return 0;
}

static void parse_arguments(struct guard *g, int argc, char **argv)
{
	const char *dir = "/dev", *devices = NULL;
	uint64_t count = 0;

	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--dev-dir"))
			dir = argv[i + 1];
		else if (!strcmp(argv[i], "--job"))
			(void)str_copy(g->job, sizeof(g->job), argv[i + 1]);
		else if (!strcmp(argv[i], "--devices"))
			devices = argv[i + 1];
		else if (!strcmp(argv[i], "--count"))
			(void)str_to_u64(argv[i + 1], &count);
	}
	granted_parse(&g->granted, devices, (uint32_t)(count < UINT32_MAX ? count : UINT32_MAX));

	cleanup_free char *real = fs_real_dir(dir, "/dev");

	(void)str_copy(g->dev_dir, sizeof(g->dev_dir), real);
}

int guard_main(int argc, char **argv)
{
	/* On the heap and never freed: it is large, and lives as long as the process. */
	struct guard *g = xcalloc(1, sizeof(*g));
	struct err e = ERR_INIT;

	(void)prctl(PR_SET_NAME, "tenure-guard");
	/* An engine warns all processes of a job so, holders too, and the agent acts upon it. */
	(void)signal(SIGUSR1, SIG_IGN);
	(void)signal(SIGUSR2, SIG_IGN);
	proc_be_prompt(); /* and so are eyes and holders */
	parse_arguments(g, argc, argv);
	if (chdir("/") < 0)
		return 1;

	int r = guard_open(g, &e);

	if (r < 0) {
		(void)fprintf(stderr, "tenure guard: %s\n", e.text);
		return r == -EADDRINUSE ? 3 : 1;
	}
	loop(g);
	/*
	 * From here on a new agent has to start a new guard. Holders that are left end with us.
	 * NVML is not shut down in order: that takes a while, and hangs where the driver does.
	 */
	(void)fd_close(g->listen_fd);
	endpoint_release(g->keeper);
	_exit(0);
}
