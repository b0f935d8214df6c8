/* SPDX-License-Identifier: MIT */

/* What one look at the heartbeats in agents/ says of who serves an instance. */

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spool_world.h"
#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/settings.h"
#include "base/str.h"
#include "cli/node_agents.h"
#include "spool/instance.h"

#define EXPIRE "5m"

static bool network; /* what the filesystem is */

bool __wrap_spool_is_network(const struct spool *sp);

bool __wrap_spool_is_network(const struct spool *sp)
{
	return network;
}

enum place { HERE, NEIGHBOUR /* another container of this kernel */, ELSEWHERE };

static const struct sign {
	const char *agent;
	enum place place;
	bool process_gone;
	bool ended;
	uint64_t fence_s, silent_s;
	bool declared_dead;
	enum node_agent_state network, local; /* on such a filesystem */
} signs[] = {
	/* Here its process decides, however old its file is. */
	{ "here", HERE, .network = NODE_AGENT_ALIVE, .local = NODE_AGENT_ALIVE },
	{ "here-old", HERE, .silent_s = 86400, .network = NODE_AGENT_ALIVE,
	  .local = NODE_AGENT_ALIVE },
	{ "here-dead", HERE, true, .network = NODE_AGENT_GONE, .local = NODE_AGENT_GONE },
	{ "here-said", HERE, .declared_dead = true, .network = NODE_AGENT_ALIVE,
	  .local = NODE_AGENT_ALIVE },
	/* A directory that no other kernel has open knows of no other node that lives. */
	{ "there", ELSEWHERE, .network = NODE_AGENT_ALIVE, .local = NODE_AGENT_GONE },
	{ "there-dead", ELSEWHERE, true, .network = NODE_AGENT_ALIVE, .local = NODE_AGENT_GONE },
	{ "there-later", ELSEWHERE, .silent_s = 290, .network = NODE_AGENT_ALIVE,
	  .local = NODE_AGENT_GONE },
	{ "there-silent", ELSEWHERE, .silent_s = 310, .network = NODE_AGENT_UNKNOWN,
	  .local = NODE_AGENT_GONE },
	/* It has promised to end what it runs by then. */
	{ "there-fenced", ELSEWHERE, .silent_s = 310, .fence_s = 60, .network = NODE_AGENT_GONE,
	  .local = NODE_AGENT_GONE },
	{ "there-fenced-long", ELSEWHERE, .silent_s = 310, .fence_s = 900,
	  .network = NODE_AGENT_ALIVE, .local = NODE_AGENT_GONE },
	{ "there-said", ELSEWHERE, .silent_s = 310, .declared_dead = true,
	  .network = NODE_AGENT_GONE, .local = NODE_AGENT_GONE },
	{ "there-ended", ELSEWHERE, .ended = true, .network = NODE_AGENT_OFF,
	  .local = NODE_AGENT_OFF },
	{ "near", NEIGHBOUR, .network = NODE_AGENT_ALIVE, .local = NODE_AGENT_ALIVE },
	{ "near-silent", NEIGHBOUR, .silent_s = 310, .network = NODE_AGENT_GONE,
	  .local = NODE_AGENT_GONE },
};

/* A process that is not there any more. */
static struct proc_id dead(void)
{
	struct proc_id id;
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(0);
	assert_true(pid > 0);
	assert_int_equal(proc_identify(pid, &id), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return id;
}

static void make_old(const struct spool *sp, const char *path, uint64_t s)
{
	cleanup_free char *whole = xasprintf("%s/%s", spool_path_of(sp), path);
	struct timespec times[2] = { clock_timespec(clock_wall_ns() - s * NS_PER_S) };

	times[1] = times[0];
	assert_int_equal(utimensat(AT_FDCWD, whole, times, 0), 0);
}

static void set_boot(struct claimer *who, enum place place, const char *boot)
{
	if (place == NEIGHBOUR)
		(void)str_print(who->boot, sizeof(who->boot), "%.*s.another",
				(int)strcspn(boot, "."), boot);
	else if (place == ELSEWHERE)
		(void)str_copy(who->boot, sizeof(who->boot), "another-kernel");
}

static void leave(const struct spool *sp, const struct sign *s)
{
	struct heartbeat b = { .count = 7,
			       .who = self(sp, s->agent),
			       .fence_timeout_ms = s->fence_s * MS_PER_S,
			       .ended = s->ended,
			       .devices = 4,
			       .held = 3,
			       .running = 1 };
	char path[SPOOL_PATH_MAX];

	if (s->process_gone)
		b.who.proc = dead();
	set_boot(&b.who, s->place, spool_boot(sp));
	assert_int_equal(heartbeat_write(sp, heartbeat_agent_path(s->agent, path), &b, NULL), 0);
	make_old(sp, path, s->silent_s);
	if (s->declared_dead)
		assert_int_equal(
			heartbeat_write(sp, heartbeat_declared_dead_path(s->agent, path), &b, NULL),
			0);
}

static struct cmd_ctx context(void)
{
	static const struct setting_origin origin = { .layer = SETTING_FROM_COMMAND_LINE };
	struct cmd_ctx ctx = { .settings = settings_new() };

	assert_int_equal(settings_set(ctx.settings, SET_EXPIRE, EXPIRE, &origin, NULL), 0);
	/* No agent that runs on this machine is of those nodes. */
	assert_int_equal(settings_set(ctx.settings, SET_DEV_DIR, spool_world_root(), &origin, NULL),
			 0);
	return ctx;
}

static struct node_agents agents_of(const struct spool *sp)
{
	struct cmd_ctx ctx = context();
	struct node_agents all;

	assert_int_equal(node_agents_read(&ctx, sp, &all, NULL), 0);
	ctx.settings = settings_free(ctx.settings);
	return all;
}

static void the_state_of_an_agent_follows_from_where_it_is(void **state)
{
	struct spool *sp = open_spool();

	for (size_t i = 0; i < ARRAY_LEN(signs); i++)
		leave(sp, &signs[i]);
	for (int local = 0; local <= 1; local++) {
		struct node_agents all;

		network = !local;
		all = agents_of(sp);
		assert_int_equal(all.n, ARRAY_LEN(signs));
		for (size_t i = 0; i < ARRAY_LEN(signs); i++) {
			const struct node_agent *p = node_agents_find(&all, signs[i].agent);
			enum node_agent_state want = local ? signs[i].local : signs[i].network;

			assert_non_null(p);
			if (p->state != want)
				fail_msg("%s is %s instead of %s", p->agent,
					 node_agent_state_name(p->state),
					 node_agent_state_name(want));
			assert_int_equal(p->here, signs[i].place == HERE);
			assert_int_equal(p->declared_dead, signs[i].declared_dead);
		}
		node_agents_clear(&all);
	}
	(void)spool_close(sp);
}

/* Who came back on another boot is not whom somebody has declared dead. */
static void what_was_declared_dead_is_one_boot_of_it(void **state)
{
	static const struct sign was = { "there", ELSEWHERE, .declared_dead = true };
	struct spool *sp = open_spool();
	struct heartbeat b;
	struct node_agents all;
	char path[SPOOL_PATH_MAX];

	network = true;
	leave(sp, &was);
	(void)heartbeat_agent_path("there", path);
	assert_int_equal(heartbeat_read(sp, path, &b, NULL, NULL), 0);
	(void)str_copy(b.who.boot, sizeof(b.who.boot), "its-next-kernel");
	assert_int_equal(heartbeat_write(sp, path, &b, NULL), 0);
	all = agents_of(sp);
	assert_int_equal(all.n, 1);
	assert_false(all.all[0].declared_dead);
	assert_int_equal(all.all[0].state, NODE_AGENT_ALIVE);
	node_agents_clear(&all);
	(void)spool_close(sp);
}

/* Of a file that is no heartbeat the name is known, and that nobody knows more. */
static void an_unreadable_heartbeat_is_an_agent_of_which_nothing_is_known(void **state)
{
	static const char *const texts[] = { "", "{", "[]", "{\"agent\":\"x\"}", "\x01\xff" };
	struct spool *sp = open_spool();

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		cleanup_free char *sign = NULL;
		struct node_agents all;
		json_t *o;

		put(sp, "agents/x", texts[i]);
		all = agents_of(sp);
		assert_int_equal(all.n, 1);
		assert_string_equal(all.all[0].agent, "x");
		assert_int_equal(all.all[0].state, NODE_AGENT_UNKNOWN);
		sign = node_agent_sign(&all.all[0]);
		assert_string_equal(sign, "it has left no heartbeat");
		o = node_agent_json(&all.all[0]);
		assert_true(json_is_null(json_object_get(o, "age_s")));
		json_decref(o);
		node_agents_clear(&all);
	}
	(void)spool_close(sp);
}

static void agents_come_by_their_names_and_are_found_by_them(void **state)
{
	static const struct sign some[] = { { "m" }, { "z" }, { "a" }, { "b10" }, { "b1" } };
	static const char *const sorted[] = { "a", "b1", "b10", "m", "z" };
	struct spool *sp = open_spool();
	struct node_agents all;

	for (size_t i = 0; i < ARRAY_LEN(some); i++)
		leave(sp, &some[i]);
	all = agents_of(sp);
	for (size_t i = 0; i < ARRAY_LEN(sorted); i++)
		assert_string_equal(all.all[i].agent, sorted[i]);
	assert_ptr_equal(node_agents_find(&all, "b10"), &all.all[2]);
	assert_null(node_agents_find(&all, "b"));
	assert_null(node_agents_find(&all, ""));
	node_agents_clear(&all);
	assert_null(node_agents_find(&all, "a"));
	(void)spool_close(sp);
}

static void its_last_sign_is_told_with_its_age(void **state)
{
	static const struct sign some[] = { { "a", ELSEWHERE, .silent_s = 200 },
					    { "b", ELSEWHERE, .silent_s = 7200, .ended = true } };
	static const char *const texts[] = { "its last heartbeat was 3m 2", /* and 0 s, or more */
					     "it ended 2h 00m" };
	cleanup_free char *none = node_agent_sign(NULL);
	struct spool *sp = open_spool();
	struct node_agents all;

	assert_string_equal(none, "it has left no heartbeat");
	for (size_t i = 0; i < ARRAY_LEN(some); i++)
		leave(sp, &some[i]);
	network = true;
	all = agents_of(sp);
	for (size_t i = 0; i < ARRAY_LEN(some); i++) {
		cleanup_free char *sign = node_agent_sign(&all.all[i]);

		if (!str_has_prefix(sign, texts[i]) || !strstr(sign, " ago, at "))
			fail_msg("%s", sign);
	}
	node_agents_clear(&all);
	(void)spool_close(sp);
}

static void an_agent_is_told_of_by_its_members(void **state)
{
	static const struct sign one = { "a", ELSEWHERE, .silent_s = 200 };
	struct spool *sp = open_spool();
	struct node_agents all;
	json_t *o, *want;
	double age;

	network = true;
	leave(sp, &one);
	all = agents_of(sp);
	(void)str_copy(all.all[0].heartbeat.who.host, SPOOL_HOST_MAX, "a.example");
	o = node_agent_json(&all.all[0]);
	age = json_real_value(json_object_get(o, "age_s"));
	assert_true(age >= 200 && age < 260);
	(void)json_object_del(o, "age_s");
	want = json_pack("{ss ss ss sb si si si si si sb sb sn sn}", "agent", "a", "host",
			 "a.example", "state", "alive", "here", 0, "devices", 4, "held", 3, "idle",
			 0, "lent", 0, "running", 1, "draining", 0, "ended", 0, "version", "job");
	assert_true(json_equal(o, want));
	json_decref(want);
	json_decref(o);
	node_agents_clear(&all);
	(void)spool_close(sp);
}

/* One that serves is another node's that sends heartbeats: of this node's its socket tells. */
static void an_instance_is_served_by_one_that_lives(void **state)
{
	static const struct sign not [] = { { "here", HERE },
					    { "ended", ELSEWHERE, .ended = true },
					    { "silent", ELSEWHERE, .silent_s = 310 },
					    { "said", ELSEWHERE, .declared_dead = true } };
	static const struct sign one = { "there", ELSEWHERE };
	struct cmd_ctx ctx = context();
	struct spool *sp = open_spool();

	network = true;
	assert_false(node_agents_one_serves(&ctx, sp));
	for (size_t i = 0; i < ARRAY_LEN(not ); i++)
		leave(sp, &not [i]);
	assert_false(node_agents_one_serves(&ctx, sp));
	leave(sp, &one);
	assert_true(node_agents_one_serves(&ctx, sp));
	ctx.settings = settings_free(ctx.settings);
	(void)spool_close(sp);
}

int main(void)
{
#define IN_A_SPOOL(fn) cmocka_unit_test_setup_teardown(fn, spool_setup, spool_teardown)
	const struct CMUnitTest tests[] = {
		IN_A_SPOOL(the_state_of_an_agent_follows_from_where_it_is),
		IN_A_SPOOL(what_was_declared_dead_is_one_boot_of_it),
		IN_A_SPOOL(an_unreadable_heartbeat_is_an_agent_of_which_nothing_is_known),
		IN_A_SPOOL(agents_come_by_their_names_and_are_found_by_them),
		IN_A_SPOOL(its_last_sign_is_told_with_its_age),
		IN_A_SPOOL(an_agent_is_told_of_by_its_members),
		IN_A_SPOOL(an_instance_is_served_by_one_that_lives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
