/* SPDX-License-Identifier: MIT */

/* What is remembered of an engine's nodes, and when it is asked again. */

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "spool_world.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/inventory.h"

/* -------- an engine -------- */

static struct fake {
	unsigned int asked, free, asked_jobs;
	int fails; /* negative errno */
} fake;

static int fake_inventory(const struct engine_env *env, struct engine_nodes *ret, struct err *e)
{
	struct engine_node *n;

	(void)env;
	fake.asked++;
	if (fake.fails)
		return err_set(e, fake.fails, "sinfo: no answer %u", fake.asked);
	*ret = (struct engine_nodes){ .n = 0 };
	for (int twice = 0; twice < 2; twice++) {
		n = engine_nodes_add(ret);
		n->name = xstrdup("n1");
		n->type = xstrdup("a10");
		n->total = 4;
		n->free = fake.free;
		n->used = 4 - fake.free;
		n->usable = true;
	}
	return 0;
}

/* One whose GPUs it does not say, and one that it knows of. */
static int fake_jobs(const struct engine_env *env, const char *prefix, struct engine_jobs *ret,
		     struct err *e)
{
	assert_true(env->gpus);
	fake.asked_jobs++;
	if (fake.fails)
		return err_set(e, fake.fails, "squeue: no answer");
	*ret = (struct engine_jobs){ .n = 0 };
	for (int i = 0; i < 2; i++) {
		struct engine_job *job = engine_jobs_add(ret);

		job->id = xasprintf("%d", i);
		job->name = xasprintf("%s%d", prefix, i);
		job->node = i ? xstrdup("n1") : NULL;
		job->state = i ? ENGINE_JOB_RUNNING : ENGINE_JOB_HELD;
		job->gpus_known = i;
		job->gpus = i ? 4 : 0;
	}
	return 0;
}

static const char *const variables[] = { "FAKE_CONF", NULL };
static const struct engine engine = { .name = "fake",
				      .cluster_variables = variables,
				      .cluster_command = "sinfo",
				      .jobs = fake_jobs,
				      .inventory = fake_inventory };

static const char *const plain[] = { "PATH=/nowhere", "FAKE_CONF=/a", NULL };

struct world {
	char *dir, *path;
	struct engine_env env;
	struct inventory got;
	struct err e;
};

static int set_up(void **state)
{
	struct world *w = xcalloc(1, sizeof(*w));

	if (spool_setup(state) < 0)
		return -1;
	fake = (struct fake){ .free = 3 };
	w->env = (struct engine_env){ .environ = plain, .limit_ms = 1 };
	w->dir = xasprintf("%s/cache/tenure", spool_world_root());
	w->path = inventory_path(&engine, &w->env, w->dir);
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	inventory_clear(&w->got);
	free(w->dir);
	free(w->path);
	free(w);
	*state = NULL;
	return spool_teardown(state);
}

/* With an answer that is at most so old. */
static int ask(struct world *w, uint64_t max_age_ms)
{
	inventory_clear(&w->got);
	w->e = (struct err)ERR_INIT;
	return inventory_read(&engine, &w->env, w->dir, max_age_ms, &w->got, &w->e);
}

static char *file_of(const struct world *w)
{
	return xasprintf("%s.json", w->path);
}

static void write_text(const struct world *w, const char *text, size_t len)
{
	cleanup_free char *file = file_of(w);
	int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0 && write(fd, text, len) == (ssize_t)len);
	assert_int_equal(close(fd), 0);
}

static char *read_text(const struct world *w, size_t *ret_len)
{
	cleanup_free char *file = file_of(w);
	char *text = NULL;

	assert_int_equal(fs_read_file(file, INVENTORY_FILE_MAX, &text, ret_len, NULL), 0);
	return text;
}

/* What is remembered, so many ms before now (0: none); known: there is an answer. */
static void put_aged(const struct world *w, bool known, int64_t asked_ms, int64_t failed_ms)
{
	uint64_t now = clock_wall_ns();
	struct inventory inv = { .known = known, .code = -EIO, .error = "sinfo: of before" };
	cleanup_free char *text = NULL;
	struct engine_node *n;

	if (known) {
		inv.asked_ns = now - (uint64_t)(asked_ms * (int64_t)NS_PER_MS);
		n = engine_nodes_add(&inv.nodes);
		n->name = xstrdup("old");
		n->total = n->used = 2;
	}
	if (failed_ms)
		inv.failed_ns = now - (uint64_t)(failed_ms * (int64_t)NS_PER_MS);
	text = inventory_text(&inv);
	write_text(w, text, strlen(text));
	inventory_clear(&inv);
}

/* -------- the rule -------- */

static void when_the_engine_is_asked(void **state)
{
	static const uint64_t now = 1000000, s = 1000; /* ms */
	static const struct {
		uint64_t asked, failed, max_age; /* ms; 0: never */
		enum inventory_step step;
	} cases[] = {
		{ 0, 0, 60 * s, INVENTORY_ASK },
		{ now, 0, 60 * s, INVENTORY_USE },
		{ now - 60 * s, 0, 60 * s, INVENTORY_USE },
		{ now - 60 * s - 1, 0, 60 * s, INVENTORY_ASK },
		{ now + 1, 0, 60 * s, INVENTORY_ASK }, /* from the future */
		/* --fresh: never more often than every 5 s. */
		{ now - 5 * s, 0, 5 * s, INVENTORY_USE },
		{ now - 6 * s, 0, 5 * s, INVENTORY_ASK },
		{ now - 4 * s, 0, 0, INVENTORY_USE },
		/* One that has just failed. */
		{ 0, now - 4 * s, 60 * s, INVENTORY_FAIL },
		{ 0, now - 6 * s, 60 * s, INVENTORY_ASK },
		{ 0, now + 1, 60 * s, INVENTORY_ASK },
		{ now - 90 * s, now - 4 * s, 60 * s, INVENTORY_FAIL },
		{ now - 30 * s, now - 4 * s, 60 * s, INVENTORY_USE },
		{ now - 30 * s, now - 4 * s, 5 * s, INVENTORY_FAIL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct inventory known = { .known = cases[i].asked != 0,
					   .asked_ns = cases[i].asked * NS_PER_MS,
					   .failed_ns = cases[i].failed * NS_PER_MS };
		enum inventory_step step =
			inventory_judge(&known, now * NS_PER_MS, cases[i].max_age);

		if (step != cases[i].step)
			fail_msg("case %zu: %d", i, (int)step);
	}
}

/* -------- the files -------- */

static void an_answer_is_remembered(void **state)
{
	struct world *w = *state;
	cleanup_free char *file = file_of(w);
	struct stat st;

	assert_int_equal(ask(w, INVENTORY_MAX_AGE_MS), 0);
	assert_false(w->got.cached);
	assert_int_equal(w->got.nodes.n, 1); /* which the engine has listed twice */
	fake.free = 0;
	assert_int_equal(ask(w, INVENTORY_MAX_AGE_MS), 0);
	assert_true(w->got.cached && w->got.known);
	assert_int_equal(fake.asked, 1);
	assert_int_equal(w->got.nodes.all[0].free, 3);
	assert_string_equal(w->got.nodes.all[0].type, "a10");
	assert_true(w->got.age_ms < INVENTORY_MAX_AGE_MS);
	assert_int_equal(stat(w->dir, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(stat(file, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
}

static void an_old_answer_is_asked_for_again(void **state)
{
	struct world *w = *state;

	assert_int_equal(ask(w, INVENTORY_MAX_AGE_MS), 0);
	put_aged(w, true, INVENTORY_MAX_AGE_MS + 1000, 0);
	assert_int_equal(ask(w, INVENTORY_MAX_AGE_MS), 0);
	assert_int_equal(fake.asked, 2);
	assert_string_equal(w->got.nodes.all[0].name, "n1"); /* the other one is forgotten */
	put_aged(w, true, 30000, 0);
	assert_int_equal(ask(w, INVENTORY_MAX_AGE_MS), 0);
	assert_string_equal(w->got.nodes.all[0].name, "old");
	assert_int_equal(ask(w, INVENTORY_RETRY_MS), 0);
	assert_int_equal(fake.asked, 3);
	assert_int_equal(ask(w, INVENTORY_RETRY_MS), 0); /* again at once */
	assert_int_equal(fake.asked, 3);
}

static void an_answer_from_the_future_is_none(void **state)
{
	struct world *w = *state;

	assert_int_equal(ask(w, INVENTORY_MAX_AGE_MS), 0);
	put_aged(w, true, -3600000, 0);
	assert_int_equal(ask(w, INVENTORY_MAX_AGE_MS), 0);
	assert_int_equal(fake.asked, 2);
	assert_string_equal(w->got.nodes.all[0].name, "n1");
}

/* Each beginning of a file, and other garbage. */
static void a_file_that_is_not_whole_is_none(void **state)
{
	static const char *const broken[] = {
		"",
		"{}",
		"[]",
		"null",
		"{\"format\":1}",
		"{\"format\":2,\"known\":true,\"asked\":1,\"nodes\":[]}",
		"{\"format\":1,\"known\":true,\"asked\":0,\"nodes\":[]}",
		"{\"format\":1,\"known\":false,\"asked\":5,\"nodes\":[]}",
		"{\"format\":1,\"known\":true,\"asked\":5,\"nodes\":[{}]}",
		"{\"format\":1,\"known\":true,\"asked\":5,\"nodes\":[{\"name\":\"\"}]}",
		"{\"format\":1,\"known\":true,\"asked\":5,\"nodes\":[{\"name\":\"a\",\"used\":1}]}",
		"{\"format\":1,\"known\":true,\"asked\":5,\"nodes\":[{\"name\":\"a\",\"total\":1,"
		"\"free\":2}]}",
		"{\"format\":1,\"known\":true,\"asked\":5,\"nodes\":[{\"name\":\"a\",\"total\":1,"
		"\"blocked\":1}]}",
	};
	struct world *w = *state;
	struct inventory got;
	size_t len;

	assert_int_equal(ask(w, INVENTORY_MAX_AGE_MS), 0);

	cleanup_free char *text = read_text(w, &len);

	assert_int_equal(inventory_parse(text, len, &got), 0);
	inventory_clear(&got);
	for (size_t cut = 0; cut < len; cut++)
		assert_int_equal(inventory_parse(text, cut, &got), -EINVAL);
	for (size_t i = 0; i < ARRAY_LEN(broken); i++)
		if (inventory_parse(broken[i], strlen(broken[i]), &got) != -EINVAL)
			fail_msg("taken: %s", broken[i]);
	write_text(w, text, len / 2);
	assert_int_equal(ask(w, INVENTORY_MAX_AGE_MS), 0);
	assert_int_equal(fake.asked, 2);
	write_text(w, text, len);
	assert_int_equal(ask(w, INVENTORY_MAX_AGE_MS), 0);
	assert_int_equal(fake.asked, 2);
}

static void what_others_may_have_written_is_none(void **state)
{
	struct world *w = *state;
	cleanup_free char *file = file_of(w);

	assert_int_equal(ask(w, INVENTORY_MAX_AGE_MS), 0);
	assert_int_equal(chmod(file, 0666), 0);
	assert_int_equal(ask(w, INVENTORY_MAX_AGE_MS), 0);
	assert_int_equal(fake.asked, 2);
	if (geteuid() == 0) { /* only root can give it away */
		assert_int_equal(chown(file, 12345, (gid_t)-1), 0);
		assert_int_equal(ask(w, INVENTORY_MAX_AGE_MS), 0);
		assert_int_equal(fake.asked, 3);
	}
	/* Nothing is written, or believed, in a directory of that kind. */
	fake.asked = 0;
	assert_int_equal(chmod(w->dir, 0777), 0);
	assert_int_equal(ask(w, INVENTORY_MAX_AGE_MS), 0);
	assert_int_equal(ask(w, INVENTORY_MAX_AGE_MS), 0);
	assert_int_equal(fake.asked, 2);
}

static void without_a_directory_the_engine_is_asked_each_time(void **state)
{
	struct world *w = *state;
	cleanup_free char *file = xasprintf("%s/file", spool_world_root());
	cleanup_free char *below = xasprintf("%s/file/tenure", spool_world_root());
	const char *const dirs[] = { NULL, below };

	assert_int_equal(fs_write_atomic(file, "", 0, 0600, NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		inventory_clear(&w->got);
		assert_int_equal(inventory_read(&engine, &w->env, dirs[i], INVENTORY_MAX_AGE_MS,
						&w->got, &w->e),
				 0);
		assert_true(w->got.known && !w->got.cached);
		assert_int_equal(fake.asked, i + 1);
	}
}

/* Configurations change, and each has files of its own. */
static void what_nobody_has_asked_for_in_a_week_goes(void **state)
{
	static const struct {
		const char *name;
		time_t days;
		bool stays;
	} files[] = {
		{ "nodes-slurm-0123.json", 8, false }, { "nodes-slurm-0123.lock", 8, false },
		{ "nodes-sge-4567.json", 6, true },    { "nodes-sge-89.x7Ab2Z", 30, false },
		{ "something-else", 30, true },
	};
	struct world *w = *state;
	time_t now = time(NULL);

	assert_int_equal(fs_mkdirs(w->dir, 0700, NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		cleanup_free char *path = xasprintf("%s/%s", w->dir, files[i].name);
		const struct timespec then[2] = { { .tv_sec = now - files[i].days * 86400 },
						  { .tv_sec = now - files[i].days * 86400 } };

		assert_int_equal(fs_write_atomic(path, "", 0, 0600, NULL), 0);
		assert_int_equal(utimensat(AT_FDCWD, path, then, 0), 0);
	}
	assert_int_equal(ask(w, INVENTORY_MAX_AGE_MS), 0);
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		cleanup_free char *path = xasprintf("%s/%s", w->dir, files[i].name);

		if ((access(path, F_OK) == 0) != files[i].stays)
			fail_msg("%s", files[i].name);
	}
	assert_int_equal(ask(w, INVENTORY_MAX_AGE_MS), 0);
	assert_int_equal(fake.asked, 1);
}

/* -------- failures -------- */

static void what_fails_shows_the_answer_of_before(void **state)
{
	struct world *w = *state;

	assert_int_equal(ask(w, INVENTORY_MAX_AGE_MS), 0);
	put_aged(w, true, 300000, 0);
	fake.fails = -ETIMEDOUT;
	assert_int_equal(ask(w, INVENTORY_MAX_AGE_MS), -ETIMEDOUT);
	assert_string_equal(w->e.text, "sinfo: no answer 2");
	assert_true(w->got.known && w->got.cached);
	assert_string_equal(w->got.nodes.all[0].name, "old");
	assert_true(w->got.age_ms >= 300000);
	/* And is not asked again at once, whoever wants to know. */
	assert_int_equal(ask(w, 0), -ETIMEDOUT);
	assert_string_equal(w->e.text, "sinfo: no answer 2");
	assert_int_equal(fake.asked, 2);
	put_aged(w, true, 300000, INVENTORY_RETRY_MS + 1000);
	fake.fails = 0;
	assert_int_equal(ask(w, INVENTORY_MAX_AGE_MS), 0);
	assert_string_equal(w->got.nodes.all[0].name, "n1");
	assert_int_equal(w->got.failed_ns, 0);
}

static void what_has_never_answered_fails(void **state)
{
	struct world *w = *state;
	cleanup_free char *file = file_of(w);

	fake.fails = -EIO;
	assert_int_equal(ask(w, INVENTORY_MAX_AGE_MS), -EIO);
	assert_false(w->got.known);
	assert_int_equal(ask(w, INVENTORY_MAX_AGE_MS), -EIO);
	assert_int_equal(fake.asked, 1);
	assert_int_equal(w->got.nodes.n, 0);
	/* Commands that are not there are no answer: they may be, a module later. */
	assert_int_equal(unlink(file), 0);
	fake.fails = -ENOENT;
	assert_int_equal(ask(w, INVENTORY_MAX_AGE_MS), -ENOENT);
	assert_int_equal(access(file, F_OK), -1);

	/* Nor is a lock left of them. */
	cleanup_free char *lock = xasprintf("%s.lock", w->path);

	assert_int_equal(access(lock, F_OK), -1);
	fake.fails = 0;
	assert_int_equal(ask(w, INVENTORY_MAX_AGE_MS), 0);
	assert_int_equal(access(lock, F_OK), 0);
}

/* -------- jobs -------- */

static int ask_jobs(struct world *w, const char *prefix)
{
	inventory_clear(&w->got);
	return inventory_read_jobs(&engine, &w->env, prefix, w->dir, INVENTORY_MAX_AGE_MS, &w->got,
				   &w->e);
}

static void jobs_are_remembered_by_their_prefix(void **state)
{
	struct world *w = *state;

	for (int i = 0; i < 3; i++) {
		if (i == 2)
			inventory_forget_jobs(&engine, &w->env, "t-", w->dir);
		assert_int_equal(ask_jobs(w, "t-"), 0);
		assert_int_equal(fake.asked_jobs, i == 2 ? 2 : 1);
		assert_true(w->got.cached == (i == 1));
		assert_int_equal(w->got.jobs.n, 2);
		assert_string_equal(w->got.jobs.all[0].name, "t-0");
		assert_int_equal(w->got.jobs.all[0].state, ENGINE_JOB_HELD);
		assert_null(w->got.jobs.all[0].node);
		assert_false(w->got.jobs.all[0].gpus_known);
		assert_string_equal(w->got.jobs.all[1].id, "1");
		assert_string_equal(w->got.jobs.all[1].node, "n1");
		assert_true(w->got.jobs.all[1].gpus_known && w->got.jobs.all[1].gpus == 4);
	}
	assert_int_equal(ask_jobs(w, "u-"), 0);
	assert_string_equal(w->got.jobs.all[0].name, "u-0");
	assert_int_equal(fake.asked_jobs, 3);
	/* Nodes are another question. */
	assert_int_equal(ask(w, INVENTORY_MAX_AGE_MS), 0);
	assert_int_equal(w->got.jobs.n, 0);
	fake.fails = -EIO;
	assert_int_equal(ask_jobs(w, "v-"), -EIO);
	assert_false(w->got.known);
	assert_int_equal(w->got.jobs.n, 0);
}

static void who_asks_is_waited_for_but_not_for_ever(void **state)
{
	struct world *w = *state;
	cleanup_free char *name = xasprintf("%s.lock", w->path);
	int fd;

	assert_int_equal(ask(w, INVENTORY_MAX_AGE_MS), 0);
	put_aged(w, true, 300000, 0);
	fd = open(name, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0);
	assert_int_equal(ask(w, INVENTORY_MAX_AGE_MS), -EBUSY);
	assert_non_null(strstr(w->e.text, "another process has been asking fake"));
	assert_string_equal(w->got.nodes.all[0].name, "old");
	assert_int_equal(fake.asked, 1);
	assert_int_equal(close(fd), 0);
	assert_int_equal(ask(w, INVENTORY_MAX_AGE_MS), 0);
	assert_int_equal(fake.asked, 2);
}

/* -------- which file -------- */

static void each_cluster_has_a_file_of_its_own(void **state)
{
	static const char *const other[] = { "PATH=/nowhere", "FAKE_CONF=/b", NULL };
	static const char *const more[] = { "PATH=/nowhere", "HOST=n7", "FAKE_CONF=/a", NULL };
	char *ab[] = { xstrdup("partition=a"), xstrdup("cluster=b") };
	char *ba[] = { ab[1], ab[0] };
	const struct text_list one = { 2, ab }, turned = { 2, ba };
	struct world *w = *state;
	struct engine_env env = w->env;

	env.environ = other;
	cleanup_free char *elsewhere = inventory_path(&engine, &env, w->dir);

	env.environ = more;
	cleanup_free char *same = inventory_path(&engine, &env, w->dir);

	env.settings = &one;
	cleanup_free char *set = inventory_path(&engine, &env, w->dir);

	env.settings = &turned;
	cleanup_free char *set_too = inventory_path(&engine, &env, w->dir);

	assert_true(str_has_prefix(w->path, w->dir));
	assert_string_equal(same, w->path);
	assert_string_not_equal(elsewhere, w->path);
	assert_string_not_equal(set, w->path);
	assert_string_equal(set, set_too);
	free(ab[0]);
	free(ab[1]);
}

/* A file that a variable names may be another one a moment later, under the same name. */
static void a_configuration_that_was_replaced_is_another_cluster(void **state)
{
	struct world *w = *state;
	cleanup_free char *conf = xasprintf("%s/conf", spool_world_root());
	cleanup_free char *variable = xasprintf("FAKE_CONF=%s", conf);
	const char *const env[] = { variable, NULL };
	struct engine_env with = { .environ = env };

	assert_int_equal(fs_write_atomic(conf, "a", 1, 0600, NULL), 0);
	cleanup_free char *first = inventory_path(&engine, &with, w->dir);

	assert_int_equal(fs_write_atomic(conf, "ab", 2, 0600, NULL), 0);
	cleanup_free char *second = inventory_path(&engine, &with, w->dir);

	assert_string_not_equal(first, second);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(when_the_engine_is_asked),
		TEST(an_answer_is_remembered),
		TEST(an_old_answer_is_asked_for_again),
		TEST(an_answer_from_the_future_is_none),
		TEST(a_file_that_is_not_whole_is_none),
		TEST(what_others_may_have_written_is_none),
		TEST(without_a_directory_the_engine_is_asked_each_time),
		TEST(what_nobody_has_asked_for_in_a_week_goes),
		TEST(what_fails_shows_the_answer_of_before),
		TEST(what_has_never_answered_fails),
		TEST(jobs_are_remembered_by_their_prefix),
		TEST(who_asks_is_waited_for_but_not_for_ever),
		TEST(each_cluster_has_a_file_of_its_own),
		TEST(a_configuration_that_was_replaced_is_another_cluster),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
