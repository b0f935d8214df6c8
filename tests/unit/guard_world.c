/* SPDX-License-Identifier: MIT */
#include "guard_world.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/sock.h"
#include "base/str.h"
#include "hold/guard/assign.h"
#include "hold/guard/device.h"
#include "hold/guard/hold.h"
#include "hold/guard/look.h"

/* In place of the C library's: every reading of the wall clock is a year off, to and fro. */
int clock_gettime(clockid_t id, struct timespec *ts)
{
	static _Atomic unsigned int n;
	const time_t year = (time_t)365 * 24 * 3600;
	long r = syscall(SYS_clock_gettime, id, ts);

	if (id == CLOCK_REALTIME)
		ts->tv_sec += n++ % 2 ? year : -year;
	return (int)r;
}

int world_setup(void **state)
{
	struct world *w = xcalloc(1, sizeof(*w));
	struct err e = ERR_INIT;

	w->g = xcalloc(1, sizeof(*w->g));
	w->d = &w->g->devs[0];
	w->g->hints.fd = -1;
	w->g->leases[0].pidfd = -1;
	policy_defaults(&w->g->plain);
	assert_int_equal(eyes_open(&w->g->eyes, NULL, &e), 0);
	w->g->n_devs = 1;
	w->g->ready = w->g->looked = true;
	*w->d = (struct device){ .owner = -1,
				 .leaver = -1,
				 .present = true,
				 .hold = { .lock_fd = -1 },
				 .state = DEV_LEFT,
				 .holder = { .fd = -1 } };
	/* The names of devices are known to the whole machine, on which this may run twice. */
	(void)str_print(w->d->id.uuid, sizeof(w->d->id.uuid), "GPU-%d", (int)getpid());
	w->d->id.mig = -1;
	w->g->clients[0] = (struct client){ .used = true, .fd = -1, .has_policy = true };
	(void)strcpy(w->g->clients[0].instance, "test");
	policy_defaults(&w->g->clients[0].policy);
	w->g->clients[0].policy.idle_for_ms = 0;
	assign_all(w->g);
	assert_int_equal(w->d->state, DEV_BUSY);
	w->far = -1;
	*state = w;
	return 0;
}

int world_teardown(void **state)
{
	struct world *w = *state;

	if (w->holder) {
		(void)kill(w->holder, SIGKILL);
		(void)waitpid(w->holder, NULL, 0);
	}
	(void)fd_close(w->far);
	(void)fd_close(w->d->holder.fd);
	(void)fd_close(w->d->hold.lock_fd);
	(void)fd_close(w->g->leases[0].pidfd);
	eyes_close(w->g->eyes);
	free(w->g);
	free(w);
	return 0;
}

void see(struct world *w, uint64_t used, const pid_t *pids, uint32_t n, uint32_t n_graphics)
{
	struct sample *s = &w->d->sample;

	s->seq++;
	s->code = 0;
	s->complete = true;
	s->look.valid = GPU_VALID_MEM | GPU_VALID_PROCS;
	s->look.begin_ns = s->look.end_ns = clock_mono_ns();
	s->look.total = 80 * GIBS;
	s->look.used = used;
	s->look.free = 80 * GIBS - used;
	s->look.procs = (struct gpu_procs){ .n = n, .n_total = n };
	for (uint32_t i = 0; i < n; i++)
		s->look.procs.p[i] = (struct gpu_proc){ .pid = pids[i],
							.graphics = i >= n - n_graphics,
							.used_known = true,
							.used_bytes = GIBS };
	/* What the holder uses is what it took, and its context. */
	for (uint32_t i = 0; i < n; i++)
		if (pids[i] == w->holder || pids[i] == w->d->holder.listed_pid)
			s->look.procs.p[i].used_bytes += w->d->holder.held;
	look_on_sample(w->g, w->d);
	w->d->hold.check = false;
}

void see_holder(struct world *w, uint64_t used)
{
	see(w, used, &w->holder, 1, 0);
}

uint16_t told(struct world *w)
{
	struct holder_msg m;

	while (sock_recv(w->far, &m, sizeof(m)) == (ssize_t)sizeof(m))
		if (m.type != HOLDER_HEARTBEAT)
			return m.type;
	return 0;
}

void says(struct world *w, enum holder_type type, uint64_t bytes)
{
	struct holder_msg m = { .version = HPROTO_VERSION,
				.type = type,
				.bytes = bytes,
				.wanted = bytes,
				.at_ns = clock_mono_ns() };

	assert_int_equal(sock_send(w->far, &m, sizeof(m)), 0);
	hold_on_holder(w->g, w->d);
}

void start_holder(struct world *w)
{
	int pair[2];

	w->d->hold.before = w->d->sample.look.procs;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	w->holder = fork();
	if (w->holder == 0) {
		/* It has the names of devices open, which a test that fails is not to leave. */
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			(void)pause();
	}
	w->far = pair[1];
	w->d->holder = (struct holder_proc){ .pid = w->holder,
					     .fd = pair[0],
					     .started_ns = clock_mono_ns() };
	w->d->state = DEV_HOLDING;
	w->d->since_ns = clock_mono_ns();
}

void hold(struct world *w)
{
	start_holder(w);
	says(w, HOLDER_READY, 0);
	says(w, HOLDER_HELD, 70 * GIBS);
	assert_int_equal(w->d->state, DEV_HELD);
	see_holder(w, 71 * GIBS);
}

void settle(struct world *w)
{
	assert_true(figure_awaited(&w->d->figure));
	w->d->figure.at_ns = clock_mono_ns();
	w->d->since_ns -= 2 * NS_PER_S;
	see_holder(w, 71 * GIBS);
	assert_int_equal(w->d->figure.used, 71 * GIBS);
}

const char *sentence(const struct dev_reason *r)
{
	static char text[sizeof(struct dev_reason)];
	struct strbuf b = STRBUF_INIT;

	dev_reason_text(r, NULL, &b);
	(void)str_copy(text, sizeof(text), strbuf_str(&b));
	strbuf_clear(&b);
	return text;
}

const struct guard_event *last_event(const struct world *w)
{
	return &w->g->events[w->g->last_event % EVENT_RING];
}
