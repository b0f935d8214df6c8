/* SPDX-License-Identifier: MIT */

/*
 * How asks end by time: a colleague's real connection, an agent that is a task on two devices, and
 * a clock that is moved by hand.
 */

#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "agent/ask_wire.h"
#include "agent/asks.h"
#include "agent/attempt/attempt.h"
#include "agent/dispatch.h"
#include "agent/dispatch_state.h"
#include "agent/parts.h"
#include "agent/report/eventlog.h"
#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/sock.h"
#include "base/str.h"

#define COLLEAGUE 65533
#define OTHER	  65532
#define WAIT_MS	  10000

static struct world {
	uint64_t later_ns; /* added to the clock */
	struct agent a;
	struct dispatch queue;
	struct attempt task;
	struct task_spec spec;
	char name[64];
	char state_dir[64];
	uid_t asker;
	unsigned int n_stops, n_plans;
	char ends[8][16]; /* the answers that were told */
	unsigned int n_ends;
} w;

/* ---- what it meets ---- */

uint64_t __real_clock_mono_ns(void);
uint64_t __wrap_clock_mono_ns(void);
uint64_t __wrap_clock_mono_ns(void)
{
	return __real_clock_mono_ns() + w.later_ns;
}

int __wrap_ask_listen(const char *dev_dir, struct err *e);
int __wrap_ask_listen(const char *dev_dir, struct err *e)
{
	(void)dev_dir;
	(void)str_print(w.name, sizeof(w.name), "tenure-test/ask/%d", (int)getpid());
	return sock_listen(w.name, e);
}

int __real_ask_accept(int listen_fd, struct ucred *ret);
int __wrap_ask_accept(int listen_fd, struct ucred *ret);
int __wrap_ask_accept(int listen_fd, struct ucred *ret)
{
	int fd = __real_ask_accept(listen_fd, ret);

	if (fd >= 0)
		ret->uid = w.asker;
	return fd;
}

static const char *name_of(void *user, uid_t uid)
{
	(void)user;
	return uid == COLLEAGUE ? "bob" : NULL;
}

const struct user_names *__wrap_eventlog_names(struct eventlog *n);
const struct user_names *__wrap_eventlog_names(struct eventlog *n)
{
	static const struct user_names names = { .name = name_of };

	(void)n;
	return &names;
}

void __wrap_eventlog_tell(struct eventlog *n, enum own_event kind, json_t *members);
void __wrap_eventlog_tell(struct eventlog *n, enum own_event kind, json_t *members)
{
	(void)n;
	if (kind == OWN_ANSWERED)
		(void)str_copy(w.ends[w.n_ends++], sizeof(w.ends[0]),
			       json_get_str(members, "answer"));
	json_decref(members);
}

void __wrap_eventlog_say(struct eventlog *n, enum log_level level, const char *fmt, ...);
void __wrap_eventlog_say(struct eventlog *n, enum log_level level, const char *fmt, ...)
{
	(void)n;
	(void)level;
	fail_msg("%s", fmt);
}

void __wrap_dispatch_plan_soon(struct dispatch *k);
void __wrap_dispatch_plan_soon(struct dispatch *k)
{
	assert_ptr_equal(k, &w.queue);
	w.n_plans++;
}

void __wrap_spooler_do(struct spooler *s, struct spool_job *job);
void __wrap_spooler_do(struct spooler *s, struct spool_job *job)
{
	(void)s;
	job->work(job, NULL);
	job->done(job);
}

void __wrap_attempt_stop(struct attempt *r, enum end_kind kind, uint32_t grace_ms, const char *why);
void __wrap_attempt_stop(struct attempt *r, enum end_kind kind, uint32_t grace_ms, const char *why)
{
	(void)grace_ms;
	assert_ptr_equal(r, &w.task);
	assert_int_equal(kind, END_PREEMPTED);
	assert_string_equal(why, "given to bob, who asked for GPU 0");
	w.n_stops++;
	w.queue.place.tasks = NULL;
}

/* ---- the agent ---- */

static int begin(void **state)
{
	static char name[] = "train";

	(void)state;
	(void)memset(&w, 0, sizeof(w));
	assert_int_equal(uv_loop_init(&w.a.loop), 0);
	w.asker = COLLEAGUE;
	w.a.config.ask = true;
	w.a.config.dev_dir = "/dev";
	w.a.config.instance = "default";
	(void)str_copy(w.state_dir, sizeof(w.state_dir), "/tmp/tenure-test-asks-XXXXXX");
	assert_non_null(mkdtemp(w.state_dir));
	w.a.config.state_dir = w.state_dir;
	w.a.self.host = "here";
	w.a.c = &w.a.config;
	w.a.queue = &w.queue;
	w.a.view.n_slots = 2;
	for (uint32_t i = 0; i < 2; i++) {
		struct dev_status *d = &w.a.view.devices[i];

		w.a.view.seen[i] = true;
		d->index = i;
		d->mig = -1;
		d->flags = DEVICE_VACANT;
		(void)str_print(d->uuid, sizeof(d->uuid), "GPU-%u", i);
		text_list_add(&w.task.uuids, d->uuid);
	}
	w.spec.name = name;
	w.task.spec = &w.spec;
	w.task.ref.id = 42;
	w.queue.place.tasks = &w.task;
	w.a.asks = asks_new(&w.a);
	return 0;
}

static int finish(void **state)
{
	(void)state;
	asks_close(&w.a);
	(void)uv_run(&w.a.loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&w.a.loop), 0);
	text_list_clear(&w.task.uuids);
	assert_int_equal(rmdir(w.state_dir), 0); /* nothing is left to anybody any more */
	return 0;
}

/* Once a second, in which nothing else happens. */
static void pass_s(uint64_t s)
{
	w.later_ns += s * NS_PER_S;
	asks_look(&w.a);
}

static size_t n_open(void)
{
	json_t *all = asks_report(&w.a);
	size_t n = json_array_size(all);

	json_decref(all);
	return n;
}

/* ---- who asks ---- */

static int connect_here(void)
{
	struct err e = ERR_INIT;
	int fd = sock_connect(w.name, &e);

	assert_true(fd >= 0);
	return fd;
}

/* The agent's turn, until there is something to be read; false: it does not come. */
static bool comes(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	for (int ms = 0; ms < WAIT_MS; ms += 10) {
		(void)uv_run(&w.a.loop, UV_RUN_NOWAIT);
		if (poll(&p, 1, 10) > 0)
			return true;
	}
	return false;
}

static json_t *say(const struct ask_request *req)
{
	cleanup_fd int fd = connect_here();
	char text[ASK_ANSWER_MAX];
	json_t *doc;
	ssize_t n;

	assert_int_equal(sock_send(fd, req, sizeof(*req)), (int)0);
	assert_true(comes(fd));
	n = sock_recv(fd, text, sizeof(text));
	assert_true(n > 0);
	doc = json_loadb(text, (size_t)n, 0, NULL);
	assert_int_equal(json_integer_value(json_object_get(doc, "code")), 0);
	return doc;
}

static void ask_for(const char *uuid)
{
	struct ask_request req = { .magic = ASK_MAGIC, .version = ASK_VERSION, .kind = ASK_PUT };

	(void)str_copy(req.uuid, sizeof(req.uuid), uuid);
	json_decref(say(&req));
}

/* "open", "expired", .. of what is open, or was asked for last. */
static void expect_state(const char *expect)
{
	struct ask_request req = { .magic = ASK_MAGIC, .version = ASK_VERSION, .kind = ASK_LIST };
	json_t *doc = say(&req), *all = json_object_get(doc, "asks");
	json_t *first = json_array_get(all, 0);

	assert_string_equal(json_get_str(first, "state"), expect);
	json_decref(doc);
}

static void grant(void)
{
	json_t *doc = asks_answer(&w.a, "{\"ask\": 0, \"yes\": true}");

	assert_int_equal(json_integer_value(json_object_get(doc, "code")), 0);
	json_decref(doc);
}

static void an_ask_expires_after_an_hour(void **state)
{
	ask_for("GPU-0");
	pass_s(1800);
	ask_for("GPU-1");
	pass_s(1799);
	assert_int_equal(n_open(), 2);
	pass_s(2);
	assert_int_equal(n_open(), 1);
	assert_int_equal(w.n_ends, 1);
	assert_string_equal(w.ends[0], "expired");
	expect_state("open");
	/* Asked again it is the same ask, with the same end. */
	ask_for("GPU-1");
	pass_s(1800);
	assert_int_equal(n_open(), 0);
	assert_int_equal(w.n_ends, 2);
	expect_state("expired");
	/* It can be asked for anew, for another hour. */
	ask_for("GPU-1");
	pass_s(3599);
	assert_int_equal(n_open(), 1);
	pass_s(2);
	assert_int_equal(n_open(), 0);
	assert_int_equal(w.n_stops, 0);
}

static void a_device_that_was_given_is_spared_for_ten_minutes(void **state)
{
	ask_for("GPU-0");
	grant();
	assert_int_equal(w.n_stops, 1);
	assert_int_equal(w.n_plans, 1);
	assert_int_equal(w.a.view.spared->n, 1);
	assert_string_equal(w.a.view.spared->all[0].uuid, "GPU-0");
	assert_string_equal(w.a.view.spared->all[0].user, "bob");
	pass_s(599);
	expect_state("yes");
	assert_int_equal(w.a.view.spared->n, 1);
	assert_int_equal(w.n_plans, 1);
	pass_s(2);
	assert_int_equal(w.a.view.spared->n, 0);
	assert_int_equal(w.n_plans, 2); /* what waits may have it */
	pass_s(4000);
	assert_int_equal(w.n_ends, 1);
	expect_state("lapsed");
}

static void who(uint32_t slot, int pid, uid_t uid)
{
	struct dev_status *d = &w.a.view.devices[slot];

	d->who_pid = pid;
	d->who_uid = uid;
	d->flags = pid ? 0 : DEVICE_VACANT;
	asks_on_device(&w.a);
}

/* It goes on when who was first has not come, and is over when no task comes to the device then. */
static void who_asks_for_what_is_spared_waits(void **state)
{
	ask_for("GPU-0");
	grant();
	w.asker = OTHER;
	ask_for("GPU-0");
	pass_s(300);
	assert_int_equal(n_open(), 1);
	expect_state("open");
	json_t *doc = asks_answer(&w.a, "{\"ask\": 2, \"yes\": true}");
	assert_int_equal(json_integer_value(json_object_get(doc, "code")), -EBUSY);
	json_decref(doc);
	pass_s(301);
	assert_int_equal(w.a.view.spared->n, 0);
	assert_int_equal(n_open(), 1);
	pass_s(1);
	pass_s(1);
	assert_int_equal(n_open(), 0);
	expect_state("free");
}

static void its_ask_ends_when_who_was_first_has_come(void **state)
{
	ask_for("GPU-0");
	grant();
	w.asker = OTHER;
	ask_for("GPU-0");
	who(0, 9, COLLEAGUE);
	assert_int_equal(n_open(), 0);
	expect_state("given");
	w.asker = COLLEAGUE;
	expect_state("used");
}

/* By an agent that starts anew. */
static void a_promise_is_kept(void **state)
{
	ask_for("GPU-0");
	grant();
	asks_close(&w.a);
	(void)uv_run(&w.a.loop, UV_RUN_DEFAULT);
	w.a.asks = asks_new(&w.a);
	assert_int_equal(w.a.view.spared->n, 1);
	expect_state("yes");
	w.queue.place.tasks = &w.task;
	ask_for("GPU-1");
	expect_state("open");
	w.queue.place.tasks = NULL;
	who(0, 9, COLLEAGUE);
	assert_int_equal(w.a.view.spared->n, 0);
}

static void it_is_spared_until_who_asked_has_come(void **state)
{
	ask_for("GPU-0");
	grant();
	pass_s(60);
	who(0, 7, OTHER); /* somebody else does not end it */
	assert_int_equal(w.a.view.spared->n, 1);
	who(0, 0, 0);
	who(1, 8, COLLEAGUE); /* nor the same user elsewhere */
	assert_int_equal(w.a.view.spared->n, 1);
	who(0, 9, COLLEAGUE);
	assert_int_equal(w.a.view.spared->n, 0);
	assert_int_equal(w.n_plans, 2);
}

/* Where the task still ends, its device is busy with a task of ours, whoever is there as well. */
static void while_the_task_still_ends_nobody_has_come(void **state)
{
	ask_for("GPU-0");
	grant();
	w.queue.place.tasks = &w.task;
	who(0, 9, COLLEAGUE);
	assert_int_equal(w.a.view.spared->n, 1);
	w.queue.place.tasks = NULL;
	asks_on_device(&w.a);
	assert_int_equal(w.a.view.spared->n, 0);
}

static void who_says_nothing_is_dropped_after_a_second(void **state)
{
	uint64_t began = clock_mono_ns();
	cleanup_fd int fd = connect_here();
	char byte;

	for (int i = 0; i < 20; i++) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		int n;

		(void)uv_run(&w.a.loop, UV_RUN_NOWAIT);
		n = poll(&p, 1, 10);
		if (clock_mono_ns() - began > NS_PER_S) /* so late it may be */
			break;
		assert_int_equal(n, 0);
	}
	w.later_ns += NS_PER_S;
	assert_true(comes(fd));
	assert_int_equal(sock_recv(fd, &byte, 1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_ask_expires_after_an_hour, begin, finish),
		cmocka_unit_test_setup_teardown(a_device_that_was_given_is_spared_for_ten_minutes,
						begin, finish),
		cmocka_unit_test_setup_teardown(who_asks_for_what_is_spared_waits, begin, finish),
		cmocka_unit_test_setup_teardown(its_ask_ends_when_who_was_first_has_come, begin,
						finish),
		cmocka_unit_test_setup_teardown(a_promise_is_kept, begin, finish),
		cmocka_unit_test_setup_teardown(it_is_spared_until_who_asked_has_come, begin,
						finish),
		cmocka_unit_test_setup_teardown(while_the_task_still_ends_nobody_has_come, begin,
						finish),
		cmocka_unit_test_setup_teardown(who_says_nothing_is_dropped_after_a_second, begin,
						finish),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
