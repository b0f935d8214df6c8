/* SPDX-License-Identifier: MIT */

/*
 * The agents of an instance: whose name is whose, who is there, who is not any more, and whose
 * claims are nobody's. In virtual time: a look is made by look(), on this thread, and the next one
 * is due by next(). Other nodes are the files that they would write (spool_world.h).
 */

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/queue/node_watch.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "spool/agent_history.h"
#include "spool/agent_status.h"
#include "spool/own.h"
#include "spool/transit.h"
#include "spool_world.h"

#define BEAT_MS	  10000
#define EXPIRE_MS 300000
#define FOREIGN	  "11111111-2222-4333-8444-555555555555" /* the boot of another node */

/* ---- time, the loop, and what is told ---- */

static struct {
	uint64_t now_ns; /* the clock */
	bool network;	 /* the spool's filesystem */
	uv_work_t *work; /* a look that is under way */
	uv_after_work_cb after;
	uv_timer_t *timer;
	uv_timer_cb on_timer;
	uint64_t wait_ms;
	unsigned int named, no_spool, clashes, left;
	struct heartbeat fill;
	const char *status;  /* of the agent; NULL: none */
	const char *history; /* the same; NULL: it is not due */
	bool last;	     /* it was asked for with the last look */
	struct err e;	     /* of the last clash, or no_spool */
	struct text_list dead;
	enum dead_how how; /* of the last one */
	struct strbuf said;
} world;

uint64_t __wrap_clock_boot_ns(void);
uint64_t __wrap_clock_boot_ns(void)
{
	return world.now_ns;
}

bool __wrap_spool_is_network(const struct spool *sp);
bool __wrap_spool_is_network(const struct spool *sp)
{
	return world.network;
}

int __wrap_uv_queue_work(uv_loop_t *loop, uv_work_t *req, uv_work_cb fn, uv_after_work_cb after);
int __wrap_uv_queue_work(uv_loop_t *loop, uv_work_t *req, uv_work_cb fn, uv_after_work_cb after)
{
	assert_null(world.work); /* one at a time */
	world.work = req;
	world.after = after;
	fn(req);
	return 0;
}

int __wrap_uv_timer_start(uv_timer_t *t, uv_timer_cb cb, uint64_t timeout, uint64_t repeat);
int __wrap_uv_timer_start(uv_timer_t *t, uv_timer_cb cb, uint64_t timeout, uint64_t repeat)
{
	world.timer = t;
	world.on_timer = cb;
	world.wait_ms = timeout;
	return 0;
}

void __wrap_eventlog_say(struct eventlog *n, enum log_level level, const char *fmt, ...);
void __wrap_eventlog_say(struct eventlog *n, enum log_level level, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	strbuf_addv(&world.said, fmt, args);
	va_end(args);
	strbuf_addc(&world.said, '\n');
}

void __wrap_eventlog_say_lines(struct eventlog *n, enum log_level level, const char *text);
void __wrap_eventlog_say_lines(struct eventlog *n, enum log_level level, const char *text)
{
	strbuf_adds(&world.said, text);
}

void __wrap_eventlog_tell(struct eventlog *n, enum own_event kind, json_t *members);
void __wrap_eventlog_tell(struct eventlog *n, enum own_event kind, json_t *members)
{
	sentence_own(kind, members, &world.said);
	strbuf_addc(&world.said, '\n');
	json_decref(members);
}

static void fill(void *user, struct heartbeat *b)
{
	*b = world.fill;
}

static char *status(void *user)
{
	return world.status ? xstrdup(world.status) : NULL;
}

static char *history(void *user, bool last)
{
	world.last = last;
	return world.history ? xstrdup(world.history) : NULL;
}

static void named(void *user)
{
	world.named++;
}

static void no_spool(void *user, const struct err *e)
{
	world.no_spool++;
	world.e = *e;
}

static void clash(void *user, const struct err *e)
{
	world.clashes++;
	world.e = *e;
}

static void dead(void *user, const struct dead_claims *claims)
{
	for (size_t i = 0; i < claims->n; i++) {
		text_list_add(&world.dead, claims->all[i].path);
		world.how = claims->all[i].how;
	}
}

static void left(void *user)
{
	world.left++;
}

static const struct node_watch_ops ops = { .fill = fill,
					   .status = status,
					   .history = history,
					   .named = named,
					   .no_spool = no_spool,
					   .clash = clash,
					   .dead = dead,
					   .left = left };

/* ---- an agent that watches ---- */

static uv_loop_t loop;
static struct agent_config config;
static const struct node_self self_alpha = { .host = "alpha.example", .name = "alpha" };
static struct node_watch *watch;
static struct spool *sp; /* the test's own */

static int setup(void **state)
{
	if (spool_setup(state) < 0 || uv_loop_init(&loop) < 0)
		return -1;
	memset(&world, 0, sizeof(world));
	world.now_ns = 1000 * NS_PER_S;
	config = (struct agent_config){ .root = spool_world_root(),
					.instance = "default",
					.heartbeat_ms = BEAT_MS,
					.expire_ms = EXPIRE_MS };
	watch = node_watch_new(&loop, &config, &self_alpha, NULL, &ops, NULL);
	sp = open_spool();
	return 0;
}

/* What was found is told. */
static void look(void)
{
	uv_work_t *work = world.work;

	assert_non_null(work);
	world.work = NULL;
	world.after(work, 0);
}

static int teardown(void **state)
{
	while (world.work)
		look();
	assert_int_equal(node_watch_free(watch), 0);
	(void)uv_run(&loop, UV_RUN_DEFAULT);
	text_list_clear(&world.dead);
	strbuf_clear(&world.said);
	sp = spool_close(sp);
	if (uv_loop_close(&loop) < 0)
		return -1;
	return spool_teardown(state);
}

/* After so long as it wanted to wait. */
static void next(void)
{
	world.now_ns += world.wait_ms * NS_PER_MS;
	world.on_timer(world.timer);
	look();
}

static void begin(void)
{
	node_watch_start(watch);
	look();
}

/* Until the name is its own. */
static void begin_named(void)
{
	begin();
	assert_int_equal(world.named, 1);
}

static struct heartbeat of(const char *agent)
{
	char path[SPOOL_PATH_MAX];
	struct heartbeat b;

	assert_int_equal(heartbeat_read(sp, heartbeat_agent_path(agent, path), &b, NULL, NULL), 0);
	return b;
}

static bool has_file(const char *agent)
{
	char path[SPOOL_PATH_MAX];

	return spool_exists(sp, heartbeat_agent_path(agent, path));
}

static void put_heartbeat(const char *agent, const struct heartbeat *b)
{
	char path[SPOOL_PATH_MAX];

	assert_int_equal(heartbeat_write(sp, heartbeat_agent_path(agent, path), b, NULL), 0);
}

/* Of another node, whose heartbeats we see over the network. */
static struct heartbeat foreign(uint64_t count, uint64_t fence_timeout_ms)
{
	struct heartbeat b = { .count = count,
			       .who = { .boot = FOREIGN, .host = "beta", .proc = { 12, 345 } },
			       .devices = 8,
			       .fence_timeout_ms = fence_timeout_ms };

	return b;
}

/* As many looks as see it stand still for so long. */
static void stand_still(uint64_t ms)
{
	for (uint64_t gone = 0; gone < ms; gone += BEAT_MS)
		next();
}

static void expect_state(const char *agent, const char *state)
{
	json_t *all = node_watch_report(watch);
	const char *found = NULL;
	json_t *one;
	size_t i;

	json_array_foreach(all, i, one) if (strcmp(json_string_value(json_object_get(one, "agent")),
						   agent) == 0) found =
		json_string_value(json_object_get(one, "state"));
	if (!state)
		assert_null(found);
	else if (!found || strcmp(found, state) != 0)
		fail_msg("%s is %s, and not %s", agent, found ? found : "not there", state);
	json_decref(all);
}

/* ---- its own heartbeat ---- */

static void a_name_that_is_free_is_taken_at_once(void **state)
{
	struct heartbeat b;

	world.fill = (struct heartbeat){ .devices = 4, .held = 2, .running = 1 };
	begin();
	assert_int_equal(world.named, 1);
	b = of("alpha");
	assert_int_equal(b.who.proc.pid, getpid());
	assert_int_equal(b.devices, 4);
	assert_int_equal(b.held, 2);
	assert_true(b.count == 1 && !b.ended);
	/* Alone it promises nothing, so a filesystem that hangs ends nothing. */
	assert_int_equal(b.fence_timeout_ms, 0);
	assert_int_equal(world.wait_ms, BEAT_MS);
	world.fill.draining = true;
	next();
	b = of("alpha");
	assert_true(b.count == 2 && b.draining);
	assert_int_equal(world.named, 1);
}

/* The next job is to take over what runs, though nobody else is there when the node is lost. */
static void one_in_a_job_promises_though_it_is_alone(void **state)
{
	static const struct engine_here job = { .engine = "local" };

	config.job = &job;
	begin();
	assert_int_equal(of("alpha").fence_timeout_ms, EXPIRE_MS);
}

static void a_shim_in_a_job_promises_though_its_agent_is_alone(void **state)
{
	cleanup_free char *dir = xasprintf("%s/default", spool_world_root());
	struct heartbeat b = { .who = self(sp, "alpha") };

	put(sp, "running/claim", "");
	assert_int_equal(heartbeat_keep(dir, "running/claim", "agents/1,e0", &b, 7000, false), 0);
	assert_int_equal(b.fence_timeout_ms, 0);
	assert_int_equal(heartbeat_keep(dir, "running/claim", "agents/1,e0", &b, 7000, true), 0);
	assert_int_equal(b.fence_timeout_ms, 7000);
}

static void what_has_changed_is_told_at_once(void **state)
{
	begin_named();
	world.fill.devices = 8;
	node_watch_soon(watch);
	look();
	assert_int_equal(of("alpha").devices, 8);
	/* While a look is under way the next one follows it. */
	node_watch_soon(watch);
	world.fill.devices = 9;
	node_watch_soon(watch);
	assert_false(node_watch_are_quiet(watch));
	look();
	look();
	assert_int_equal(of("alpha").devices, 9);
	assert_true(node_watch_are_quiet(watch));
}

/* The file beside the heartbeat, as it is there; the caller frees it. */
static char *status_of(const char *agent)
{
	char path[SPOOL_PATH_MAX], *text = NULL;
	size_t len;

	return spool_read(sp, agent_status_path(agent, path), 1000, &text, &len, NULL) == 0 ? text
											    : NULL;
}

static void expect_status(const char *agent, const char *want)
{
	cleanup_free char *text = status_of(agent);

	if (want ? !text || strcmp(text, want) != 0 : text != NULL)
		fail_msg("%s has left %s, and not %s", agent, text ? text : "nothing",
			 want ? want : "nothing");
}

static void its_status_is_written_when_it_is_another_one(void **state)
{
	char path[SPOOL_PATH_MAX];
	struct capacity_node *nodes = NULL;

	world.status = "one";
	begin();
	expect_status("alpha", "one");
	/* What has not changed is not written again. */
	put(sp, agent_status_path("alpha", path), "kept");
	next();
	expect_status("alpha", "kept");
	world.status = "two";
	next();
	expect_status("alpha", "two");
	/* Somebody had taken it for dead, and it goes on as it was. */
	assert_int_equal(unlinkat(sp->fd, agent_status_path("alpha", path), 0), 0);
	next();
	expect_status("alpha", "two");
	/* The agent has one name, and nobody takes the other file for an agent. */
	assert_int_equal(node_watch_nodes(watch, &nodes), 0);
	free(nodes);
	node_watch_end(watch, false);
	look();
	expect_status("alpha", NULL);
	assert_int_equal(count_files(sp, "agents"), 0);
}

static void the_status_of_one_that_is_gone_goes_with_its_name(void **state)
{
	char path[SPOOL_PATH_MAX];
	struct heartbeat b = { .count = 3, .ended = true, .who = self(sp, "beta") };

	(void)str_copy(b.who.boot, sizeof(b.who.boot), FOREIGN);
	assert_int_equal(heartbeat_write(sp, heartbeat_agent_path("beta", path), &b, NULL), 0);
	put(sp, agent_status_path("beta", path), "its");
	begin();
	assert_false(has_file("beta"));
	expect_status("beta", NULL);
}

static char *history_of(const char *agent)
{
	char path[SPOOL_PATH_MAX], *text = NULL;
	size_t len;

	return spool_read(sp, agent_history_path(agent, path), 1000, &text, &len, NULL) == 0 ? text
											     : NULL;
}

static void expect_history(const char *agent, const char *want)
{
	cleanup_free char *text = history_of(agent);

	if (want ? !text || strcmp(text, want) != 0 : text != NULL)
		fail_msg("%s has left %s, and not %s", agent, text ? text : "nothing",
			 want ? want : "nothing");
}

static void the_day_of_its_devices_is_written_when_it_is_due(void **state)
{
	begin();
	expect_history("alpha", NULL);
	world.history = "one";
	next();
	expect_history("alpha", "one");
	assert_false(world.last);
	world.history = NULL;
	next();
	expect_history("alpha", "one");
	/* What runs on keeps its name, and what it was used for until then. */
	world.history = "two";
	node_watch_end(watch, true);
	look();
	assert_true(world.last);
	expect_history("alpha", "two");
}

static void it_goes_with_the_name(void **state)
{
	char path[SPOOL_PATH_MAX];
	struct heartbeat b = { .count = 3, .ended = true, .who = self(sp, "beta") };

	(void)str_copy(b.who.boot, sizeof(b.who.boot), FOREIGN);
	assert_int_equal(heartbeat_write(sp, heartbeat_agent_path("beta", path), &b, NULL), 0);
	put(sp, agent_history_path("beta", path), "its");
	world.history = "one";
	begin();
	expect_history("beta", NULL);
	expect_history("alpha", "one");
	node_watch_end(watch, false);
	look();
	assert_int_equal(count_files(sp, "agents"), 0);
}

/* It is said once, the heartbeat goes on, and the newest one is written as soon as that can be. */
static void a_day_that_cannot_be_written_waits(void **state)
{
	char path[SPOOL_PATH_MAX];
	cleanup_free char *dir =
		xasprintf("%s/%s", spool_path_of(sp), agent_history_path("alpha", path));
	uint64_t count;

	begin();
	assert_int_equal(mkdir(dir, 0700), 0);
	world.history = "one";
	next();
	assert_non_null(strstr(strbuf_str(&world.said), "alpha,history"));
	strbuf_clear(&world.said);
	world.history = "two";
	count = of("alpha").count;
	next();
	world.history = NULL;
	next();
	assert_int_equal(of("alpha").count, count + 2);
	assert_string_equal(strbuf_str(&world.said), "");
	assert_int_equal(rmdir(dir), 0);
	next();
	expect_history("alpha", "two");
}

static void its_name_goes_with_it_unless_something_runs_on(void **state)
{
	begin_named();
	node_watch_end(watch, true);
	look();
	assert_true(of("alpha").ended);
	node_watch_end(watch, false); /* that was its last word */
	assert_true(node_watch_are_quiet(watch));
	assert_true(has_file("alpha"));
}

static void its_name_goes_with_it(void **state)
{
	begin_named();
	node_watch_end(watch, false);
	look();
	assert_false(has_file("alpha"));
	assert_true(node_watch_are_quiet(watch));
}

/* ---- whose the name is ---- */

/* An agent before us, of this boot, that does not run any more. */
static void a_dead_one_of_this_node_has_no_name(void **state)
{
	struct heartbeat b = { .count = 17 };

	b.who = self(sp, "alpha");
	b.who.proc.start++;
	put_heartbeat("alpha", &b);
	begin_named();
	assert_int_equal(of("alpha").count, 18); /* it is seen to move */
}

static void one_that_has_ended_has_no_name(void **state)
{
	struct heartbeat b = foreign(17, 0);

	b.ended = true;
	world.network = true;
	put_heartbeat("alpha", &b);
	begin_named();
}

/* On a disk of this node it was before this kernel was started. */
static void one_of_another_boot_on_our_disk_has_no_name(void **state)
{
	const struct heartbeat b = foreign(17, 0);

	put_heartbeat("alpha", &b);
	begin_named();
}

/* It may be ending; if not, it has the name, and is waited for. */
static void one_that_lives_on_this_node_has_the_name(void **state)
{
	struct heartbeat b = { .count = 17 };

	b.who = self(sp, "alpha");
	assert_int_equal(proc_identify(getppid(), &b.who.proc), 0);
	put_heartbeat("alpha", &b);
	begin();
	assert_int_equal(world.named + world.clashes, 0);
	while (!world.clashes) {
		assert_true(world.wait_ms <= 200);
		next();
	}
	assert_true(world.now_ns >= 1002 * NS_PER_S && world.now_ns < 1003 * NS_PER_S);
	assert_int_equal(world.e.code, -EADDRINUSE);
	assert_non_null(strstr(world.e.text, "another agent on this node"));
	assert_int_equal(of("alpha").count, 17); /* nothing was written */
	b.ended = true;
	put_heartbeat("alpha", &b);
	next();
	assert_int_equal(world.named, 1);
}

static void one_whose_heartbeat_moves_has_the_name(void **state)
{
	struct heartbeat b = foreign(17, 0);

	world.network = true;
	put_heartbeat("alpha", &b);
	begin();
	next();
	assert_int_equal(world.named + world.clashes, 0);
	b.count++;
	put_heartbeat("alpha", &b);
	next();
	assert_int_equal(world.clashes, 1);
	assert_non_null(strstr(world.e.text, "another node, with the host name beta"));
}

/* Nobody has written it for three heartbeats. */
static void one_whose_heartbeat_stands_still_has_not(void **state)
{
	const struct heartbeat b = foreign(17, 0);

	world.network = true;
	put_heartbeat("alpha", &b);
	begin();
	while (!world.named) {
		assert_true(world.now_ns < 1031 * NS_PER_S);
		next();
	}
	assert_true(world.now_ns >= 1030 * NS_PER_S);
	assert_int_equal(world.clashes, 0);
}

/* Two that began in the same moment: the order of boots says who stays, and who does not ends. */
static void one_that_was_overtaken_gives_way_once(void **state)
{
	struct heartbeat b = foreign(17, 0);

	world.network = true;
	begin_named();
	(void)str_copy(b.who.boot, sizeof(b.who.boot), "00000000-0000-4000-8000-000000000000");
	put_heartbeat("alpha", &b);
	next();
	assert_int_equal(world.clashes, 1);
	assert_int_equal(of("alpha").count, 17);
	assert_true(node_watch_are_quiet(watch));
	node_watch_soon(watch);
	assert_true(node_watch_are_quiet(watch));
}

static void one_that_overtook_stays(void **state)
{
	struct heartbeat b = foreign(17, 0);

	world.network = true;
	begin_named();
	(void)str_copy(b.who.boot, sizeof(b.who.boot), "ffffffff-ffff-4fff-8fff-ffffffffffff");
	put_heartbeat("alpha", &b);
	next();
	assert_int_equal(world.clashes, 0);
	assert_int_equal(of("alpha").who.proc.pid, getpid());
}

/* ---- others ---- */

static void while_its_heartbeat_moves_it_is_alive(void **state)
{
	struct heartbeat b = foreign(17, EXPIRE_MS);
	struct capacity_node *nodes;

	world.network = true;
	put_heartbeat("beta", &b);
	begin_named();
	expect_state("beta", "alive");
	/* Whoever is not alone promises. */
	assert_int_equal(of("alpha").fence_timeout_ms, EXPIRE_MS);
	assert_int_equal(node_watch_fence_timeout_ms(watch), EXPIRE_MS);
	for (int i = 0; i < 100; i++) {
		b.count++;
		put_heartbeat("beta", &b);
		next();
	}
	expect_state("beta", "alive");
	assert_int_equal(node_watch_nodes(watch, &nodes), 1);
	assert_string_equal(nodes[0].agent, "beta");
	assert_int_equal(nodes[0].devices, 8);
	free(nodes);
	assert_int_equal(world.left, 0);
}

static void one_that_is_silent_for_long_is_gone(void **state)
{
	const struct heartbeat b = foreign(17, EXPIRE_MS);
	struct capacity_node *nodes;

	world.network = true;
	put_heartbeat("beta", &b);
	begin_named();
	stand_still(EXPIRE_MS - BEAT_MS);
	expect_state("beta", "alive");
	assert_int_equal(world.left, 0);
	stand_still(3 * BEAT_MS);
	assert_int_equal(world.left, 1);
	assert_int_equal(node_watch_nodes(watch, &nodes), 0);
	free(nodes);
	/* Nothing of it is left, so it is forgotten. */
	assert_false(has_file("beta"));
	assert_non_null(strstr(strbuf_str(&world.said), "the agent beta is not there any more"));
	next();
	expect_state("beta", NULL);
	assert_int_equal(world.left, 1);
}

/* A promise of longer is kept for longer. */
static void its_own_promise_counts_where_it_is_longer(void **state)
{
	const struct heartbeat b = foreign(17, 2 * EXPIRE_MS);

	world.network = true;
	put_heartbeat("beta", &b);
	begin_named();
	stand_still(EXPIRE_MS + 10 * BEAT_MS);
	expect_state("beta", "alive");
	stand_still(EXPIRE_MS);
	assert_int_equal(world.left, 1);
}

/* Alone it promised nothing, so what it has may run on, cut off: only a person knows better. */
static void one_that_promised_nothing_is_unknown(void **state)
{
	const struct heartbeat b = foreign(17, 0);
	char path[SPOOL_PATH_MAX];

	world.network = true;
	put_heartbeat("beta", &b);
	begin_named();
	stand_still(EXPIRE_MS + 3 * BEAT_MS);
	expect_state("beta", "unknown");
	assert_true(has_file("beta"));
	stand_still(10 * EXPIRE_MS);
	expect_state("beta", "unknown");
	assert_int_equal(heartbeat_write(sp, heartbeat_declared_dead_path("beta", path), &b, NULL),
			 0);
	next();
	expect_state("beta", "gone");
	next();
	assert_false(has_file("beta"));
	assert_false(spool_exists(sp, path));
}

static void one_that_has_ended_is_off(void **state)
{
	struct heartbeat b = foreign(17, 0);

	b.ended = true;
	world.network = true;
	put_heartbeat("beta", &b);
	begin_named();
	expect_state("beta", "off");
	assert_false(has_file("beta"));
	assert_string_equal(strbuf_str(&world.said), "");
}

/* Empty, or torn: it is there, and nothing more is known. */
static void a_file_that_says_nothing_is_there(void **state)
{
	world.network = true;
	put(sp, "agents/beta", "");
	begin_named();
	expect_state("beta", "alive");
	assert_int_equal(of("alpha").fence_timeout_ms, EXPIRE_MS);
	stand_still(EXPIRE_MS + 3 * BEAT_MS);
	expect_state("beta", "unknown");
}

/* ---- claims ---- */

/* As the agent beta claims it, on its node. */
static struct claim claimed(uint64_t id)
{
	struct claimer beta = self(sp, "beta");

	(void)str_copy(beta.boot, sizeof(beta.boot), FOREIGN);
	return claim(sp, id, &beta);
}

static void what_a_dead_agent_had_is_told(void **state)
{
	const struct heartbeat b = foreign(17, EXPIRE_MS);
	const struct claim c = claimed(submit(sp, "{\"argv\":[\"true\"]}"));

	world.network = true;
	put_heartbeat("beta", &b);
	begin_named();
	stand_still(EXPIRE_MS);
	assert_int_equal(world.dead.n, 0);
	stand_still(3 * BEAT_MS);
	assert_true(world.dead.n > 0);
	assert_string_equal(world.dead.texts[0], c.path);
	assert_int_equal(world.how, HOLDER_DEAD);
	/* As long as it is there its agent is remembered. */
	expect_state("beta", "gone");
	assert_true(has_file("beta"));
}

/* Its shim keeps the claim alive, which a dead agent's task has for itself. */
static void a_shim_speaks_for_its_task(void **state)
{
	const struct heartbeat b = foreign(17, EXPIRE_MS);
	const struct claim c = claimed(submit(sp, "{\"argv\":[\"true\"]}"));
	struct heartbeat shim = foreign(1, EXPIRE_MS);
	char path[SPOOL_PATH_MAX];

	world.network = true;
	put_heartbeat("beta", &b);
	begin_named();
	(void)heartbeat_claim_path(&c.name, path);
	for (int i = 0; i < 50; i++) {
		shim.count++;
		assert_int_equal(heartbeat_write(sp, path, &shim, NULL), 0);
		next();
	}
	expect_state("beta", "gone");
	assert_int_equal(world.dead.n, 0);
	stand_still(EXPIRE_MS + 3 * BEAT_MS);
	assert_true(world.dead.n > 0);
}

/* It has left the record of its end there: nobody waits for it to be silent. */
static void an_end_that_was_left_is_told(void **state)
{
	const struct heartbeat b = foreign(17, 0);
	const struct claim c = claimed(submit(sp, "{\"argv\":[\"true\"]}"));
	char path[SPOOL_PATH_MAX];

	world.network = true;
	put_heartbeat("beta", &b);
	begin_named();
	stand_still(EXPIRE_MS + 3 * BEAT_MS);
	assert_int_equal(world.dead.n, 0);
	/* It is said, once, what a person can do. */
	assert_non_null(strstr(strbuf_str(&world.said), "tenure shutdown --gone beta"));
	world.said.len = 0;
	next();
	assert_int_equal(world.said.len, 0);
	put(sp, heartbeat_end_path(&c.name, path), "{}");
	next();
	assert_int_equal(world.dead.n, 1);
	assert_int_equal(world.how, HOLDER_DEAD);
}

/* Nobody has written down for long whose it is. */
static void a_claim_of_an_element_that_stays_empty(void **state)
{
	world.network = true;
	put(sp, "running/7.1,e0", "");
	begin_named();
	stand_still(EXPIRE_MS);
	assert_int_equal(world.dead.n, 0);
	stand_still(3 * BEAT_MS);
	assert_true(world.dead.n > 0);
	assert_string_equal(world.dead.texts[0], "running/7.1,e0");
	assert_int_equal(world.how, CLAIM_NEVER_WRITTEN);
}

/* Whether an attempt has it is for who is told to know. */
static void a_claim_of_its_own_that_stays(void **state)
{
	const struct claimer alpha = self(sp, "alpha");
	const struct claim c = claim(sp, submit(sp, "{\"argv\":[\"true\"]}"), &alpha);

	begin_named();
	stand_still(EXPIRE_MS);
	assert_int_equal(world.dead.n, 0);
	stand_still(3 * BEAT_MS);
	assert_true(world.dead.n > 0);
	assert_string_equal(world.dead.texts[0], c.path);
	assert_int_equal(world.how, OWN_UNJUDGED);
}

/* ---- the place ---- */

static void a_spool_that_cannot_be_opened_is_tried_again(void **state)
{
	static char root[80];

	(void)str_print(root, sizeof(root), "%s/file/below", spool_world_root());
	put(sp, "../file", "x");
	config.root = root;
	begin();
	assert_int_equal(world.no_spool, 1);
	assert_true(world.e.text[0]);
	assert_int_equal(world.wait_ms, 5000);
	next();
	assert_int_equal(world.no_spool, 2);
	assert_int_equal(world.named, 0);
	config.root = spool_world_root();
	next();
	assert_int_equal(world.named, 1);
}

/* What is submitted goes elsewhere; that is said once. */
static void a_queue_that_was_moved_is_told_of(void **state)
{
	cleanup_free char *from = xasprintf("%s/default", spool_world_root());
	cleanup_free char *to = xasprintf("%s/moved", spool_world_root());

	begin_named();
	assert_int_equal(rename(from, to), 0);
	next();
	assert_non_null(strstr(strbuf_str(&world.said), "was moved or removed"));
	world.said.len = 0;
	next();
	assert_int_equal(world.said.len, 0);
	assert_int_equal(rename(to, from), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_name_that_is_free_is_taken_at_once),
		TEST(one_in_a_job_promises_though_it_is_alone),
		TEST(a_shim_in_a_job_promises_though_its_agent_is_alone),
		TEST(what_has_changed_is_told_at_once),
		TEST(its_status_is_written_when_it_is_another_one),
		TEST(the_status_of_one_that_is_gone_goes_with_its_name),
		TEST(the_day_of_its_devices_is_written_when_it_is_due),
		TEST(it_goes_with_the_name),
		TEST(a_day_that_cannot_be_written_waits),
		TEST(its_name_goes_with_it_unless_something_runs_on),
		TEST(its_name_goes_with_it),
		TEST(a_dead_one_of_this_node_has_no_name),
		TEST(one_that_has_ended_has_no_name),
		TEST(one_of_another_boot_on_our_disk_has_no_name),
		TEST(one_that_lives_on_this_node_has_the_name),
		TEST(one_whose_heartbeat_moves_has_the_name),
		TEST(one_whose_heartbeat_stands_still_has_not),
		TEST(one_that_was_overtaken_gives_way_once),
		TEST(one_that_overtook_stays),
		TEST(while_its_heartbeat_moves_it_is_alive),
		TEST(one_that_is_silent_for_long_is_gone),
		TEST(its_own_promise_counts_where_it_is_longer),
		TEST(one_that_promised_nothing_is_unknown),
		TEST(one_that_has_ended_is_off),
		TEST(a_file_that_says_nothing_is_there),
		TEST(what_a_dead_agent_had_is_told),
		TEST(a_shim_speaks_for_its_task),
		TEST(an_end_that_was_left_is_told),
		TEST(a_claim_of_an_element_that_stays_empty),
		TEST(a_claim_of_its_own_that_stays),
		TEST(a_spool_that_cannot_be_opened_is_tried_again),
		TEST(a_queue_that_was_moved_is_told_of),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
