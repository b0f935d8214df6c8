/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/str.h"
#include "pool/demand.h"
#include "pool/job.h"
#include "pool/owner.h"
#include "pool/pool.h"
#include "spool/instance.h"
#include "spool_world.h"

/* ---- pool files ---- */

static int parse(const char *text, struct pool *ret, struct err *e)
{
	return pool_parse("main", text, strlen(text), ret, e);
}

static void what_is_left_out_has_its_default(void **state)
{
	struct pool p;
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(parse("{\"engine\":\"local\",\"gpus\":2}", &p, &e), 0);
	assert_string_equal(p.name, "main");
	assert_string_equal(p.prefix, POOL_PREFIX);
	assert_int_equal(p.gpus, 2);
	assert_int_equal(p.max, 1);
	assert_int_equal(p.idle_ms, POOL_IDLE_MS);
	assert_int_equal(p.start_ms, POOL_START_MS);
	assert_null(p.type);
	pool_clear(&p);
}

static void a_pool_is_read_as_it_was_written(void **state)
{
	static const char text[] =
		"{\"engine\":\"local\",\"prefix\":\"ydj\",\"gpus\":8,\"min\":1,\"max\":4,"
		"\"total_gpus\":16,\"time_ms\":86400000,\"keep_ms\":1000,\"type\":\"a10\","
		"\"program\":\"/bin/t\",\"options\":[\"--partition=gpu\",\"--qos=a b\"],"
		"\"drop\":[\"--mem\"],\"settings\":[\"image=x\"],\"agent\":[\"--load=gemm\"],"
		"\"relay\":true,\"only\":true,\"asked_ns\":5}";
	struct pool p, again;
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(parse(text, &p, &e), 0);

	cleanup_free char *first = pool_text(&p);

	assert_int_equal(parse(first, &again, &e), 0);

	cleanup_free char *second = pool_text(&again);

	assert_string_equal(first, second);
	assert_int_equal(again.options.n, 2);
	assert_string_equal(again.options.texts[1], "--qos=a b");
	assert_true(again.relay);
	assert_true(again.only);
	assert_int_equal(pool_cap(&again), 2);
	pool_clear(&p);
	pool_clear(&again);
}

static void what_is_no_pool_says_why(void **state)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
		{ "", "line" },
		{ "[]", "no JSON object" },
		{ "{\"engine\":\"pbs\"}", "there is no \"pbs\"" },
		{ "{\"engine\":\"local\",\"gpus\":-1}", "gpus: a whole number" },
		{ "{\"engine\":\"local\",\"gpus\":65}", "from 0 to 64" },
		{ "{\"engine\":\"local\",\"max\":100000}", "max: a whole number" },
		{ "{\"engine\":\"local\",\"min\":3,\"max\":2}", "at least --min" },
		{ "{\"engine\":\"local\",\"max\":0}", "--max 0: it is at least 1" },
		{ "{\"engine\":\"local\",\"prefix\":\"1a\"}", "prefix: a letter" },
		{ "{\"engine\":\"local\",\"prefix\":\"a;b\"}", "prefix: a letter" },
		{ "{\"engine\":\"local\",\"program\":\"tenure\"}", "absolute path" },
		{ "{\"engine\":\"local\",\"options\":\"x\"}", "options: a list" },
		{ "{\"engine\":\"local\",\"options\":[\"a\\nb\"]}",
		  "options: number 1: a text of one line" },
		{ "{\"engine\":\"local\",\"type\":\"a\\nb\"}", "type: a text of one line" },
		{ "{\"engine\":\"local\",\"relay\":1}", "relay: true or false" },
		{ "{\"engine\":\"local\",\"gpus\":8,\"total_gpus\":4}", "(--total-gpus)" },
		{ "{\"engine\":\"aaaaaaaaaaaaaaaaaaaaaaaaa\"}", "engine: a text of 1 to" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct pool p;
		struct err e = ERR_INIT;

		assert_int_equal(parse(cases[i].text, &p, &e), -EINVAL);
		if (!strstr(e.text, cases[i].why))
			fail_msg("%s: %s", cases[i].text, e.text);
		pool_clear(&p);
	}
}

/* Nobody could read it, or call `up` and `down`, until it is removed by hand. */
static void what_could_not_be_read_is_not_written(void **state)
{
	static char two_lines[] = "echo a\necho b", no_utf8[] = "\377", type[] = "a\tb";
	char *options[] = { two_lines }, *drop[] = { no_utf8 };
	static const struct pool good = {
		.name = "main", .engine = "local", .prefix = "tenure", .max = 1, .start_ms = 1000
	};
	struct {
		const char *why;
		struct pool p;
	} cases[] = { { "behind --: number 1: a text of one line", good },
		      { "--drop: number 1: a text of one line", good },
		      { "--node-memory: a whole number from 0 to", good },
		      { "--type: a text of one line", good },
		      { "at most 65536 bytes", good } };
	cleanup_free char *large = xcalloc(1, POOL_FILE_MAX + 1);
	struct err e = ERR_INIT;

	(void)state;
	memset(large, 'x', POOL_FILE_MAX);
	assert_int_equal(pool_check(&good, &e), 0);
	cases[0].p.options = (struct text_list){ .n = 1, .texts = options };
	cases[1].p.drop = (struct text_list){ .n = 1, .texts = drop };
	cases[2].p.mem_mib = 1ULL << 31;
	cases[3].p.type = type;
	cases[4].p.dir = large;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_true(pool_check(&cases[i].p, &e) < 0);
		if (!strstr(e.text, cases[i].why))
			fail_msg("%s: %s", cases[i].why, e.text);
	}
}

static void pools_are_listed_and_found(void **state)
{
	struct spool *sp = open_spool();
	struct text_list names = { .n = 0 };
	struct pool p = {
		.engine = "local", .prefix = "tenure", .gpus = 1, .max = 1, .start_ms = 1000
	};
	struct pool got;
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(pool_read(sp, "night", &got, &e), -ENOENT);
	(void)memcpy(p.name, "night", 6);
	assert_int_equal(pool_write(sp, &p, &e), 0);
	(void)memcpy(p.name, "day", 4);
	assert_int_equal(pool_write(sp, &p, &e), 0);
	put(sp, "pools/night,abc.job", "{}"); /* is none */
	assert_int_equal(pool_list(sp, &names, &e), 0);
	assert_int_equal(names.n, 2);
	assert_string_equal(names.texts[0], "day");
	assert_int_equal(pool_read(sp, "night", &got, &e), 0);
	pool_clear(&got);
	text_list_clear(&names);
	sp = spool_close(sp);
}

static void a_state_comes_back_and_garbage_is_none(void **state)
{
	struct spool *sp = open_spool();
	struct pool_state st = {
		.ticked_s = 7, .lost = 2, .paused = true, .next = "n", .pause = "p"
	};
	struct pool_state got;
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(pool_state_write(sp, "main", &st, &e), 0);
	assert_int_equal(pool_state_read(sp, "main", &got, &e), 0);
	assert_memory_equal(&got, &st, sizeof(st));
	put(sp, "pools/main,state", "\xff{");
	assert_int_equal(pool_state_read(sp, "main", &got, &e), 0);
	assert_int_equal(got.ticked_s, 0);
	assert_false(got.paused);
	sp = spool_close(sp);
}

/* ---- records of jobs ---- */

static void records_come_back_oldest_first_and_old_ones_go(void **state)
{
	struct spool *sp = open_spool();
	struct pool_jobs jobs = { .n = 0 };
	struct err e = ERR_INIT;
	char path[SPOOL_PATH_MAX];

	(void)state;
	for (unsigned int i = 0; i < 5; i++) {
		struct pool_job job = { .phase = i < 4 ? POOL_JOB_ENDED : POOL_JOB_SUBMITTED,
					.submitted_s = 100 - i,
					.gpus = i };

		pool_job_token("abc", job.token);
		assert_true(pool_job_is_token(job.token));
		assert_int_equal(pool_job_write(sp, "main", &job, i == 0, &e), 0);
	}
	put(sp, "pools/main,zz.job", "no record");
	put(sp, "pools/mainer,zz.job", "of another pool");
	assert_int_equal(pool_jobs_read(sp, "main", &jobs, &e), 0);
	assert_int_equal(jobs.n, 5);
	assert_int_equal(jobs.all[0].gpus, 4);
	assert_int_equal(jobs.all[4].gpus, 0);
	assert_false(spool_exists(sp, "pools/main,zz.job"));
	pool_jobs_prune(sp, "main", &jobs, 2);
	pool_jobs_clear(&jobs);
	assert_int_equal(pool_jobs_read(sp, "main", &jobs, &e), 0);
	assert_int_equal(jobs.n, 3);
	pool_jobs_clear(&jobs);
	assert_true(spool_exists(sp, spool_path(SPOOL_POOLS, "mainer,zz.job", path)));
	sp = spool_close(sp);
}

/* Another queue of the same name is another one. */
static void tokens_begin_with_the_mark_of_their_pool(void **state)
{
	struct spool *sp = open_spool();
	char mark[POOL_MARK_LEN + 1], again[POOL_MARK_LEN + 1], other[POOL_MARK_LEN + 1];
	char token[ENGINE_TOKEN_MAX + 1];
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(pool_job_mark(sp, "main", mark, &e), 0);
	assert_int_equal(pool_job_mark(sp, "main", again, &e), 0);
	assert_int_equal(pool_job_mark(sp, "other", other, &e), 0);
	assert_string_equal(mark, again);
	assert_string_not_equal(mark, other);
	pool_job_token(mark, token);
	assert_true(pool_job_is_token(token));
	assert_memory_equal(token, mark, POOL_MARK_LEN);
	sp = spool_close(sp);
}

static void the_last_lines_are_told(void **state)
{
	struct spool *sp = open_spool();

	(void)state;
	assert_null(pool_job_tail(sp, "main", "abc", 100));
	put(sp, "pools/main,abc.out", "first line\nsecond\tline\nthe last one\n\n");

	cleanup_free char *whole = pool_job_tail(sp, "main", "abc", 100);
	cleanup_free char *part = pool_job_tail(sp, "main", "abc", 15);

	assert_string_equal(whole, "first line second line the last one");
	assert_string_equal(part, "the last one");
	sp = spool_close(sp);
}

/* What an engine says is in any encoding, and where it is cut, within a character. */
static void words_that_are_no_utf8_are_kept_as_far_as_they_can_be_read(void **state)
{
	struct spool *sp = open_spool();
	static const char printed[] = "12345\303\251 \262\033[1m\0end";
	struct pool_state st = { .ticked_s = 7, .pause = "no \262\273 \033[31mquota" }, got;
	struct pool_job job = { .phase = POOL_JOB_ENDED, .token = "abc", .id = "7", .gpus = 2 };
	struct pool_jobs jobs = { .n = 0 };
	struct err e = ERR_INIT;

	(void)state;
	(void)memset(st.error, 'x', sizeof(st.error) - 2);
	st.error[sizeof(st.error) - 2] = (char)0xe4; /* of a character of three bytes */
	(void)strcpy(job.reason, "\377 not today");
	(void)strcpy(job.node, "n\0331");
	assert_int_equal(pool_state_write(sp, "main", &st, &e), 0);
	assert_int_equal(pool_state_read(sp, "main", &got, &e), 0);
	assert_int_equal(got.ticked_s, 7);
	assert_string_equal(got.pause, "no ?? ?[31mquota");
	assert_int_equal(strlen(got.error), sizeof(st.error) - 2);
	assert_int_equal(pool_job_write(sp, "main", &job, false, &e), 0);
	assert_int_equal(pool_jobs_read(sp, "main", &jobs, &e), 0);
	assert_int_equal(jobs.n, 1);
	assert_string_equal(jobs.all[0].reason, "? not today");
	assert_string_equal(jobs.all[0].node, "n?1");
	assert_string_equal(jobs.all[0].id, "7");
	pool_jobs_clear(&jobs);
	assert_int_equal(spool_replace(sp, "pools/main,abc.out", printed, sizeof(printed) - 1, &e),
			 0);

	cleanup_free char *whole = pool_job_tail(sp, "main", "abc", 100);
	cleanup_free char *part = pool_job_tail(sp, "main", "abc", 11);

	assert_string_equal(whole, "12345\303\251 ??[1m?end");
	assert_string_equal(part, " ??[1m?end");
	sp = spool_close(sp);
}

/* ---- who ticks ---- */

static void one_at_a_time_ticks(void **state)
{
	struct spool *sp = open_spool();
	struct pool_owner one, two;
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(pool_own(sp, "main", &one, &e), 0);
	assert_int_equal(pool_own(sp, "main", &two, &e), POOL_BUSY);
	assert_int_equal(pool_own(sp, "other", &two, &e), 0);
	assert_true(pool_owns(sp, &one));
	pool_disown(sp, &one);
	assert_false(pool_owns(sp, &one));
	assert_int_equal(pool_own(sp, "main", &two, &e), 0);
	sp = spool_close(sp);
}

/* By the time that the file server gives it, whatever this node's clock says. */
static void an_owner_that_died_is_passed_over(void **state)
{
	struct spool *sp = open_spool();
	struct pool_owner one, two;
	struct err e = ERR_INIT;
	cleanup_free char *path = NULL;
	struct timespec old[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };

	(void)state;
	assert_int_equal(pool_own(sp, "main", &one, &e), 0);
	path = xasprintf("%s/%s", spool_path_of(sp), one.path);
	old[0].tv_sec = old[1].tv_sec = (time_t)one.now_s - POOL_OWNER_MS / 1000 + 5;
	assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
	assert_int_equal(pool_own(sp, "main", &two, &e), POOL_BUSY);
	old[0].tv_sec = old[1].tv_sec = (time_t)one.now_s - POOL_OWNER_MS / 1000 - 5;
	assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
	assert_int_equal(pool_own(sp, "main", &two, &e), 0);
	assert_false(pool_owns(sp, &one)); /* it wakes, and does nothing more */
	assert_true(pool_owns(sp, &two));
	sp = spool_close(sp);
}

/* ---- what the queue needs ---- */

static enum demand_owner ours(void *data, const char *agent)
{
	if (strcmp(agent, "lost") == 0)
		return DEMAND_OURS_LOST;
	return strcmp(data, agent) == 0 ? DEMAND_OURS : DEMAND_OTHERS;
}

static struct demand demand_beside(const struct spool *sp, unsigned int gpus,
				   const struct demand_node *nodes, size_t n)
{
	struct pool p = {
		.name = "main", .engine = "local", .gpus = gpus, .max = 100, .time_ms = 3600000
	};
	char node[] = "node1";
	struct demand d;
	struct err e = ERR_INIT;

	assert_int_equal(demand_read(sp, &p, 1000000000ULL * 1000000, ours, node, nodes, n, &d, &e),
			 0);
	return d;
}

/* elsewhere: GPUs that are free on one node that is not the pool's. */
static struct demand demand(const struct spool *sp, unsigned int gpus, unsigned int elsewhere)
{
	struct demand_node other = { .gpus = elsewhere };

	return demand_beside(sp, gpus, &other, elsewhere ? 1 : 0);
}

/* What names a pool asks for its nodes, whatever is free elsewhere, and for those of no other one.
 */
static void what_names_a_pool_is_for_its_nodes(void **state)
{
	struct spool *sp = open_spool();
	static const struct demand_node there[] = { { .gpus = 8 } };
	struct pool p = { .engine = "local", .gpus = 2, .max = 100 };
	char node[] = "node1";
	static const struct {
		const char *pool;
		bool only;
		unsigned int more;
	} cases[] = { { "main", false, 1 },
		      { "main", true, 1 },
		      { "other", false, 0 },
		      { "other", true, 0 } };

	(void)state;
	(void)submit(sp, "{\"commands\":[\"true\"],\"gpus\":2,\"pool\":\"main\"}");
	(void)submit(sp, "{\"commands\":[\"true\"],\"gpus\":2}");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct demand d;

		(void)str_copy(p.name, sizeof(p.name), cases[i].pool);
		p.only = cases[i].only;
		assert_int_equal(demand_read(sp, &p, 1000000000ULL * 1000000, ours, node, there, 1,
					     &d, NULL),
				 0);
		assert_int_equal(d.more, cases[i].more);
		assert_int_equal(d.unfit, 0);
	}
	/* More than a node of it has: nothing to say where most tasks are not for it. */
	(void)submit(sp, "{\"commands\":[\"true\"],\"gpus\":4}");
	p.only = true;
	{
		struct demand d;

		assert_int_equal(
			demand_read(sp, &p, 1000000000ULL * 1000000, ours, node, NULL, 0, &d, NULL),
			0);
		assert_int_equal(d.nodes, 0);
		assert_int_equal(d.unfit, 0);
	}
	sp = spool_close(sp);
}

static void nodes_are_counted_by_what_is_ready(void **state)
{
	struct spool *sp = open_spool();

	(void)state;
	assert_int_equal(demand(sp, 2, 0).nodes, 0);
	(void)submit(sp, "{\"commands\":[\"true\"],\"gpus\":1}");
	assert_int_equal(demand(sp, 2, 0).nodes, 1);
	(void)submit(sp, "{\"commands\":[\"true\"],\"gpus\":2}");
	assert_int_equal(demand(sp, 2, 0).nodes, 2);
	/* What is free elsewhere can take one. */
	assert_int_equal(demand(sp, 2, 1).nodes, 1);
	assert_int_equal(demand(sp, 2, 9).nodes, 0);
	/* More than a node of the pool has. */
	(void)submit(sp, "{\"commands\":[\"true\"],\"gpus\":4}");
	assert_int_equal(demand(sp, 2, 0).nodes, 2);
	assert_int_equal(demand(sp, 2, 0).unfit, 1);
	assert_int_equal(demand(sp, 4, 0).nodes, 2);
	/* Longer than a job of it lasts. */
	(void)submit(sp, "{\"commands\":[\"true\"],\"gpus\":1,\"timeout\":\"59m\"}");
	assert_int_equal(demand(sp, 2, 0).unfit, 2);
	sp = spool_close(sp);
}

/* What a lost node ran waits for another one, though its file is in running/ yet. */
static void what_a_lost_node_ran_needs_another_one(void **state)
{
	static const struct demand_node own[] = { { .gpus = 4, .ours = true } };
	struct spool *sp = open_spool();
	struct claimer lost = self(sp, "lost"), alive = self(sp, "node1");

	(void)state;
	(void)claim(sp, submit(sp, "{\"commands\":[\"true\"],\"gpus\":4}"), &lost);
	assert_int_equal(demand(sp, 4, 0).more, 1);
	assert_int_equal(demand_beside(sp, 4, own, 1).more, 0);
	(void)claim(sp, submit(sp, "{\"commands\":[\"true\"],\"gpus\":4}"), &alive);
	assert_int_equal(demand_beside(sp, 4, own, 1).more, 1);
	sp = spool_close(sp);
}

/* Four free GPUs on two nodes are no place for a task of three. */
static void tasks_have_to_fit_a_node(void **state)
{
	static const struct demand_node apart[] = { { .gpus = 2 }, { .gpus = 2 } };
	static const struct demand_node small[] = { { .gpus = 1, .ours = true } };
	static const struct demand_node own[] = { { .gpus = 4, .ours = true } };
	struct spool *sp = open_spool();
	struct demand d;

	(void)state;
	for (int i = 0; i < 4; i++)
		(void)submit(sp, "{\"commands\":[\"true\"],\"gpus\":3}");
	assert_int_equal(demand(sp, 4, 0).nodes, 4);
	assert_int_equal(demand_beside(sp, 4, apart, 2).more, 4);
	d = demand_beside(sp, 4, own, 1);
	assert_int_equal(d.nodes, 4);
	assert_int_equal(d.more, 3);
	/* A node that is there, and too small, is none of those that are needed. */
	d = demand_beside(sp, 4, small, 1);
	assert_int_equal(d.nodes, 4);
	assert_int_equal(d.more, 4);
	sp = spool_close(sp);
}

/* Each rank of a task on several nodes needs a node of its own, however small it is. */
static void ranks_are_on_a_node_each(void **state)
{
	static const struct demand_node own[] = { { .gpus = 4, .ours = true } };
	static const struct demand_node others[] = { { .gpus = 1 }, { .gpus = 1 }, { .gpus = 1 } };
	struct spool *sp = open_spool();
	struct claimer who = self(sp, "node1");
	struct batch *b;
	struct claim c;
	uint64_t id;

	(void)state;
	id = submit(sp, "{\"script\":\"x\",\"nodes\":3,\"gpus\":1}");
	assert_int_equal(demand(sp, 4, 0).nodes, 3);
	assert_int_equal(demand_beside(sp, 4, own, 1).more, 2);
	/* Others' nodes take all of it, or nothing. */
	assert_int_equal(demand_beside(sp, 4, others, 3).nodes, 0);
	assert_int_equal(demand_beside(sp, 4, others, 2).nodes, 3);
	(void)submit(sp, "{\"script\":\"x\",\"nodes\":2,\"gpus\":1,\"pool\":\"other\"}");
	assert_int_equal(demand_beside(sp, 4, others, 3).nodes, 0);
	/* What a rank leaves free is for other tasks. */
	(void)submit(sp, "{\"commands\":[\"true\"],\"gpus\":3}");
	assert_int_equal(demand(sp, 4, 0).nodes, 3);
	(void)submit(sp, "{\"script\":\"x\",\"nodes\":101}");
	assert_int_equal(demand(sp, 4, 0).unfit, 1);
	/* One that is being started has its nodes. */
	assert_int_equal(demand(sp, 4, 0).ready, 105);
	b = open_batch(sp, id, "node1");
	assert_int_equal(batch_claim(b, 1, &who, &c, NULL), 0);
	b = batch_close(b);
	assert_int_equal(demand(sp, 4, 0).ready, 102);
	sp = spool_close(sp);
}

static void what_may_not_start_asks_for_nothing(void **state)
{
	struct spool *sp = open_spool();
	uint64_t first;
	char text[128];

	(void)state;
	(void)submit(sp, "{\"commands\":[\"true\"],\"gpus\":1,\"paused\":true}");
	assert_int_equal(demand(sp, 1, 0).nodes, 0);
	first = submit(sp, "{\"commands\":[\"true\"],\"gpus\":1}");
	(void)snprintf(text, sizeof(text), "{\"commands\":[\"true\"],\"gpus\":1,\"after\":[%llu]}",
		       (unsigned long long)first);
	(void)submit(sp, text);
	assert_int_equal(demand(sp, 1, 0).nodes, 1);
	/* A lane runs one after another. */
	(void)submit(sp, "{\"commands\":[\"true\"],\"gpus\":1,\"lane\":\"l\"}");
	(void)submit(sp, "{\"commands\":[\"true\"],\"gpus\":1,\"lane\":\"l\"}");
	assert_int_equal(demand(sp, 1, 0).nodes, 2);
	sp = spool_close(sp);
}

static void elements_that_wait_count_and_those_that_run_here(void **state)
{
	static const struct demand_node own[] = { { .gpus = 4, .ours = true } };
	struct spool *sp = open_spool();
	struct claimer who = self(sp, "node1"), other = self(sp, "node2");

	(void)state;
	(void)submit(sp, "{\"script\":\"true\",\"gpus\":1,\"array\":\"1-10\"}");
	assert_int_equal(demand(sp, 4, 0).nodes, 3);
	(void)claim(sp, submit(sp, "{\"commands\":[\"true\"],\"gpus\":4}"), &who);
	assert_int_equal(demand_beside(sp, 4, own, 1).nodes, 4);
	(void)claim(sp, submit(sp, "{\"commands\":[\"true\"],\"gpus\":4}"), &other);
	assert_int_equal(demand_beside(sp, 4, own, 1).nodes, 4);
	sp = spool_close(sp);
}

/* One that runs waits no more: neither here, nor for a pool on whose nodes it does not run. */
static void elements_that_run_are_not_waited_for(void **state)
{
	static const struct demand_node own[] = { { .gpus = 4, .ours = true } };
	struct spool *sp = open_spool();
	uint64_t id = submit(sp, "{\"script\":\"true\",\"gpus\":1,\"array\":\"1-5\"}");
	const char *const agents[] = { "node1", "node1", "node2", "node2", "lost" };
	struct claim c;

	(void)state;
	for (uint64_t i = 1; i <= ARRAY_LEN(agents); i++) {
		struct claimer who = self(sp, agents[i - 1]);
		struct batch *b = open_batch(sp, id, agents[i - 1]);

		assert_int_equal(batch_claim(b, i, &who, &c, NULL), 0);
		b = batch_close(b);
		assert_int_equal(demand_beside(sp, 4, own, 1).ready, ARRAY_LEN(agents) - i);
	}
	assert_int_equal(demand_beside(sp, 4, own, 1).running, 3);
	assert_int_equal(demand_beside(sp, 4, own, 1).nodes, 1);
	assert_int_equal(demand_beside(sp, 4, own, 1).more, 0);
	sp = spool_close(sp);
}

#define WITH_SPOOL(f) cmocka_unit_test_setup_teardown(f, spool_setup, spool_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_left_out_has_its_default),
		cmocka_unit_test(a_pool_is_read_as_it_was_written),
		cmocka_unit_test(what_is_no_pool_says_why),
		cmocka_unit_test(what_could_not_be_read_is_not_written),
		WITH_SPOOL(pools_are_listed_and_found),
		WITH_SPOOL(a_state_comes_back_and_garbage_is_none),
		WITH_SPOOL(records_come_back_oldest_first_and_old_ones_go),
		WITH_SPOOL(tokens_begin_with_the_mark_of_their_pool),
		WITH_SPOOL(the_last_lines_are_told),
		WITH_SPOOL(words_that_are_no_utf8_are_kept_as_far_as_they_can_be_read),
		WITH_SPOOL(one_at_a_time_ticks),
		WITH_SPOOL(an_owner_that_died_is_passed_over),
		WITH_SPOOL(nodes_are_counted_by_what_is_ready),
		WITH_SPOOL(what_names_a_pool_is_for_its_nodes),
		WITH_SPOOL(tasks_have_to_fit_a_node),
		WITH_SPOOL(ranks_are_on_a_node_each),
		WITH_SPOOL(what_a_lost_node_ran_needs_another_one),
		WITH_SPOOL(what_may_not_start_asks_for_nothing),
		WITH_SPOOL(elements_that_wait_count_and_those_that_run_here),
		WITH_SPOOL(elements_that_run_are_not_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
