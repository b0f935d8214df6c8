/* SPDX-License-Identifier: MIT */

/* What travels and what is kept: records, descriptions, messages. */

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "task/claim_heartbeat.h"
#include "task/end_record.h"
#include "task/launch_spec.h"
#include "task/shproto.h"

static struct task_record example(void)
{
	struct task_record r = { .token = "default-42.1",
				 .boot_id = "598a7758-31c0-4078-bbe6-54be9c958fe0",
				 .shim = { 4711, 1ULL << 40 },
				 .end = { .outcome = TASK_SIGNALLED,
					  .cause = CAUSE_TIMEOUT,
					  .signal = 15,
					  .exit_code = -1,
					  .leftovers = 4000000000U,
					  .started_wall_ns = 1795266619820233099ULL,
					  .run_ns = 1,
					  .log_cut_bytes = 1ULL << 50,
					  .gpu_util_permille = 853,
					  .task_pid = 4712,
					  .text = "a \"quoted\" \\ text" } };

	return r;
}

static void record_survives_its_text(void **state)
{
	struct task_record r = example(), back;
	struct err e = ERR_INIT;
	size_t len;
	cleanup_free char *text = end_record_format(&r, &len);

	assert_int_equal(end_record_parse(text, len, &back, &e), 0);
	assert_memory_equal(&r, &back, sizeof(r));
}

static void record_text_with_odd_bytes_stays_json(void **state)
{
	struct task_record r = example(), back;
	struct err e = ERR_INIT;
	size_t len;

	(void)str_copy(r.end.text, sizeof(r.end.text), "run \xff\xfe\n/x: \x01");

	cleanup_free char *text = end_record_format(&r, &len);

	assert_int_equal(end_record_parse(text, len, &back, &e), 0);
	assert_string_equal(back.end.text, "run ???"
					   "/x: ?");
}

static void bad_records_say_what_is_wrong(void **state)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{ "", "line" },
		{ "[]", "format 1" },
		{ "{\"format\": 2}", "format 1" },
		{ "{\"format\": 1}", "token" },
		{ "{\"format\": 1, \"token\": \"../x\"}", "token" },
		{ "{\"format\": 1, \"token\": \"a\", \"exit_code\": \"0\"}", "exit_code" },
		{ "{\"format\": 1, \"token\": \"a\", \"exit_code\": 4294967296}", "range" },
		{ "{\"format\": 1, \"token\": \"a\", \"run_ns\": -1}", "range" },
		{ "{\"format\": 1, \"token\": \"a\", \"outcome\": \"flown\"}", "outcome" },
		{ "{\"format\": 1, \"token\": \"a\", \"text\": 5}", "text" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct task_record r;
		struct err e = ERR_INIT;

		assert_true(end_record_parse(cases[i].text, strlen(cases[i].text), &r, &e) < 0);
		assert_non_null(strstr(e.text, cases[i].says));
	}
}

static void record_files(void **state)
{
	char dir[] = "/tmp/tenure-record.XXXXXX";
	struct task_record r = example(), back;
	struct err e = ERR_INIT;

	assert_non_null(mkdtemp(dir));
	assert_int_equal(end_record_read(dir, r.token, &back, &e), -ENOENT);
	assert_false(end_record_exists(dir, r.token));
	for (int sync = 0; sync < 2; sync++) {
		assert_int_equal(end_record_write(dir, &r, sync, &e), 0);
		assert_int_equal(end_record_read(dir, r.token, &back, &e), 0);
		assert_memory_equal(&r, &back, sizeof(r));
	}
	assert_true(end_record_exists(dir, r.token));

	/* A file of another name is another task's. */
	cleanup_free char *from = xasprintf("%s/%s.json", dir, r.token);
	cleanup_free char *to = xasprintf("%s/b.json", dir);

	assert_int_equal(rename(from, to), 0);
	assert_int_equal(end_record_read(dir, "b", &back, &e), -EBADMSG);
	assert_int_equal(end_record_read(dir, "../b", &back, &e), -EINVAL);
	assert_int_equal(end_record_remove(dir, "b"), 0);
	assert_int_equal(end_record_remove(dir, "b"), 0);
	assert_int_equal(end_record_remove(dir, "../b"), -EINVAL);
	assert_int_equal(end_record_write("/no/such/dir", &r, false, &e), -ENOENT);
	/* Tidied away, but not by others for others. */
	assert_int_equal(rmdir(dir), 0);

	cleanup_free char *below = xasprintf("%s/records", dir);

	assert_int_equal(end_record_write(below, &r, false, &e), 0);
	assert_int_equal(end_record_read(below, r.token, &back, &e), 0);
	assert_int_equal(end_record_remove(below, r.token), 0);
	assert_int_equal(rmdir(below), 0);
	assert_int_equal(chmod(dir, 0777), 0);
	assert_int_equal(end_record_write(below, &r, false, &e), -EPERM);
	assert_int_equal(rmdir(below), 0);
	assert_int_equal(rmdir(dir), 0);
}

static void tokens(void **state)
{
	char longest[TASK_TOKEN_MAX + 1];

	assert_true(token_valid("default-42.1_A"));
	assert_false(token_valid(""));
	assert_false(token_valid(".x"));
	assert_false(token_valid("a/b"));
	assert_false(token_valid("a b"));
	(void)memset(longest, 'a', TASK_TOKEN_MAX);
	longest[TASK_TOKEN_MAX] = '\0';
	assert_false(token_valid(longest));
	longest[TASK_TOKEN_MAX - 1] = '\0';
	assert_true(token_valid(longest));
}

static const char *const argv[] = { "-x", "", "b c", NULL };
static const char *const env[] = { "A=1", "B=", NULL };

static struct launch_spec example_spec(void)
{
	struct launch_spec s = { .token = "t-1",
				 .title = "task 1",
				 .cwd = "/",
				 .run_dir = "/r",
				 .record_dir = "/d",
				 .argv = argv,
				 .n_argv = 3,
				 .env = env,
				 .n_env = 2,
				 .script = "#!/bin/sh\n\0x",
				 .script_bytes = 12,
				 .timeout_ms = 5,
				 .log_limit = 1 << 30,
				 .umask = 027,
				 .go_until_ns = 7,
				 .flags = LAUNCH_GO };

	return s;
}

static void description_survives_its_file(void **state)
{
	struct launch_spec s = example_spec(), back;
	struct err e = ERR_INIT;
	cleanup_fd int fd = launch_spec_encode(&s, &e);

	assert_true(fd >= 0);
	assert_int_equal(launch_spec_load(fd, &back, &e), 0);
	assert_string_equal(back.token, "t-1");
	assert_string_equal(back.shown, "");
	assert_string_equal(back.cwd, "/");
	assert_int_equal(back.n_argv, 3);
	assert_string_equal(back.argv[1], "");
	assert_string_equal(back.argv[2], "b c");
	assert_null(back.argv[3]);
	assert_string_equal(back.env[1], "B=");
	assert_null(back.env[2]);
	assert_int_equal(back.script_bytes, 12);
	assert_memory_equal(back.script, s.script, 12);
	assert_int_equal(back.umask, 027);
	assert_int_equal(back.go_until_ns, 7);
	assert_int_equal(back.log_limit, 1 << 30);
	launch_spec_clear(&back);
	launch_spec_clear(&back);
}

/* Every shorter file is refused, and so is one that is longer. */
static void cut_descriptions_are_refused(void **state)
{
	struct launch_spec s = example_spec(), back;
	struct err e = ERR_INIT;
	cleanup_fd int fd = launch_spec_encode(&s, &e);
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);

	size_t size = (size_t)st.st_size;

	for (size_t n = 0; n <= size + 1; n++) {
		char *part = xcalloc(1, size + 2);

		assert_true(pread(fd, part, n, 0) >= 0);
		if (n == size) {
			free(part);
			continue;
		}
		assert_int_equal(launch_spec_parse(part, n, &back, &e), -EPROTO);
	}
}

static void what_cannot_be_run_is_not_encoded(void **state)
{
	struct launch_spec cases[7];

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		cases[i] = example_spec();
	cases[0].token = "a/b";
	cases[1].cwd = "relative";
	cases[2].record_dir = NULL;
	cases[3].script = NULL;
	cases[3].n_argv = 0;
	cases[4].stop_signal = 1000;
	cases[5].log_limit = 1;
	cases[6].n_env = LAUNCH_WORDS_MAX + 1;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e = ERR_INIT;

		assert_true(launch_spec_encode(&cases[i], &e) < 0);
		assert_true(e.text[0]);
	}
}

static void messages_of_other_sizes(void **state)
{
	union shmsg m = { .stop = { .head = SHMSG_HEAD(SHMSG_STOP, struct shmsg_stop) } };

	assert_int_equal(shmsg_take(&m, sizeof(m.stop)), 0);
	assert_int_equal(shmsg_take(&m, sizeof(m.stop) - 1), -EPROTO);
	assert_int_equal(shmsg_take(&m, 3), -EPROTO);
	/* A newer side's message has more behind it. */
	m.head.size += 8;
	assert_int_equal(shmsg_take(&m, sizeof(m.stop) + 8), 0);
	m.head.type = SHMSG_TYPE_MAX;
	assert_int_equal(shmsg_take(&m, sizeof(m.stop) + 8), -ENOMSG);
	m.head.type = 0;
	assert_int_equal(shmsg_take(&m, sizeof(m.stop) + 8), -EPROTO);
	m.head.version++;
	assert_int_equal(shmsg_take(&m, sizeof(m.stop) + 8), -EPROTONOSUPPORT);
}

/* A shim of before the last members of struct task_end: they are not known, which is 0. */
static void end_of_an_older_shim(void **state)
{
	const uint32_t size = offsetof(struct shmsg_ended, end.leader_first);
	union shmsg m;

	(void)memset(&m, 'x', sizeof(m));
	m.head = (struct shmsg_head){ .version = SHPROTO_VERSION,
				      .type = SHMSG_ENDED,
				      .size = size };
	assert_int_equal(shmsg_take(&m, size), 0);
	assert_int_equal(m.ended.end.leader_first, 0);
	m.head.size = size - 1;
	assert_int_equal(shmsg_take(&m, size - 1), -EPROTO);
}

static void message_texts_end(void **state)
{
	union shmsg m;

	(void)memset(&m, 'x', sizeof(m));
	m.head = (struct shmsg_head)SHMSG_HEAD(SHMSG_ENDED, struct shmsg_ended);
	assert_int_equal(shmsg_take(&m, sizeof(m.ended)), 0);
	assert_int_equal(strlen(m.ended.end.text), TASK_TEXT_MAX - 1);
	m.head = (struct shmsg_head)SHMSG_HEAD(SHMSG_GO, struct shmsg_go);
	assert_int_equal(shmsg_take(&m, sizeof(m.go)), -EPROTO);
	m.go.env_bytes = SHPROTO_ENV_MAX;
	assert_int_equal(shmsg_take(&m, sizeof(m.go)), 0);
	assert_int_equal(strnlen(m.go.env, SHPROTO_ENV_MAX), SHPROTO_ENV_MAX - 1);
}

/* A heartbeat of the promise's age: 4/5 of it is the fence, and KILL comes at 9/10. */
static void grace_is_what_is_left_of_the_promise(void **state)
{
	static const struct {
		unsigned int age_ms;
		enum claim_state state;
		unsigned int grace_least_ms, grace_most_ms;
	} cases[] = {
		{ 15000, CLAIM_KEPT, 0, 0 },   { 16100, CLAIM_LATE, 1, 1800 },
		{ 17200, CLAIM_LATE, 1, 800 }, { 18100, CLAIM_LATE, 0, 0 },
		{ 19900, CLAIM_LATE, 0, 0 },   { 30000, CLAIM_LATE, 0, 0 },
	};
	const struct launch_spec spec = { .heartbeat_ms = 1000000,
					  .fence_timeout_ms = 20000,
					  .grace_ms = 1500 };
	const struct proc_id self = { 0 };
	struct claim_heartbeat k;
	uint32_t grace_ms;

	assert_int_equal(claim_heartbeat_init(&k, &spec, &self, -1, NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		grace_ms = 0;
		k.kept_ns = clock_boot_ns() - cases[i].age_ms * NS_PER_MS;
		assert_int_equal(claim_heartbeat_look(&k, &grace_ms), cases[i].state);
		assert_in_range(grace_ms, cases[i].grace_least_ms,
				cases[i].grace_most_ms < spec.grace_ms ? cases[i].grace_most_ms
								       : spec.grace_ms);
	}
	k.fence_timeout_ms = 0; /* alone, nothing is late */
	assert_int_equal(claim_heartbeat_look(&k, &grace_ms), CLAIM_KEPT);
	(void)close(k.timer_fd);
}

/* What comes about while a shim waits to try again. */
static const char *moved_from, *moved_to;
static unsigned int waits;
static uint64_t later_ns;

int __wrap_usleep(useconds_t us);
int __wrap_usleep(useconds_t us)
{
	assert_int_equal(us, 1000);
	if (moved_from)
		assert_int_equal(rename(moved_from, moved_to), 0);
	later_ns += 60 * NS_PER_S;
	waits++;
	return 0;
}

uint64_t __real_clock_boot_ns(void);
uint64_t __wrap_clock_boot_ns(void);
uint64_t __wrap_clock_boot_ns(void)
{
	return __real_clock_boot_ns() + later_ns;
}

static void make_file(const char *dir, const char *file)
{
	char path[PATH_MAX];
	int fd = open(str_print(path, sizeof(path), "%s/%s", dir, file), O_CREAT | O_WRONLY, 0600);

	assert_true(fd >= 0);
	(void)close(fd);
}

static bool has_file(const char *dir, const char *file)
{
	char path[PATH_MAX];

	return access(str_print(path, sizeof(path), "%s/%s", dir, file), F_OK) == 0;
}

/* A filesystem that is not mounted, or a directory that is missing, says nothing of the claim. */
static void end_is_left_when_the_spool_is_there(void **state)
{
	static const char *const dirs[] = { "running", "agents", "tmp" };
	char root[] = "/tmp/tenure-keep-XXXXXX", spool[PATH_MAX], away[PATH_MAX], path[PATH_MAX];
	const struct task_record r = example();
	const struct proc_id self = { 0 };
	struct launch_spec spec = { .heartbeat_ms = 1,
				    .heartbeat_dir = spool,
				    .claim = "running/500,1,g0,nx,ca",
				    .heartbeat_file = "agents/1,e0" };
	struct claim_heartbeat k = { .spec = &spec, .self = self };

	assert_non_null(mkdtemp(root));
	(void)str_print(spool, sizeof(spool), "%s/spool", root);
	assert_int_equal(mkdir(spool, 0700), 0);
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		assert_int_equal(
			mkdir(str_print(path, sizeof(path), "%s/%s", spool, dirs[i]), 0700), 0);
	make_file(spool, spec.claim);
	moved_from = away;
	moved_to = path;
	for (size_t i = 0; i <= ARRAY_LEN(dirs); i++) {
		(void)str_print(away, sizeof(away), "%s/away", root);
		(void)str_print(path, sizeof(path), "%s/spool%s%s", root, i ? "/" : "",
				i ? dirs[i - 1] : "");
		assert_int_equal(rename(path, away), 0);
		claim_heartbeat_leave_record(&k, &r);
		assert_int_equal(waits, i + 1);
		assert_true(has_file(spool, "agents/1,e0,end"));
		assert_int_equal(unlink(str_print(away, sizeof(away), "%s/agents/1,e0,end", spool)),
				 0);
	}
	/* It was filed meanwhile. */
	assert_int_equal(unlink(str_print(away, sizeof(away), "%s/%s", spool, spec.claim)), 0);
	claim_heartbeat_leave_record(&k, &r);
	assert_false(has_file(spool, "agents/1,e0,end"));
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		(void)rmdir(str_print(path, sizeof(path), "%s/%s", spool, dirs[i]));
	assert_int_equal(rmdir(spool), 0);
	assert_int_equal(rmdir(root), 0);
	/* Nothing comes back: who waited for it has not waited for so long. */
	moved_from = NULL;
	waits = 0;
	claim_heartbeat_leave_record(&k, &r);
	assert_int_equal(waits, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(record_survives_its_text),
		cmocka_unit_test(record_text_with_odd_bytes_stays_json),
		cmocka_unit_test(bad_records_say_what_is_wrong),
		cmocka_unit_test(record_files),
		cmocka_unit_test(tokens),
		cmocka_unit_test(description_survives_its_file),
		cmocka_unit_test(cut_descriptions_are_refused),
		cmocka_unit_test(what_cannot_be_run_is_not_encoded),
		cmocka_unit_test(messages_of_other_sizes),
		cmocka_unit_test(end_of_an_older_shim),
		cmocka_unit_test(message_texts_end),
		cmocka_unit_test(grace_is_what_is_left_of_the_promise),
		cmocka_unit_test(end_is_left_when_the_spool_is_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
