/* SPDX-License-Identifier: MIT */
#include "spool_world.h"

#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "unit.h"

#include "base/clock.h"
#include "base/str.h"
#include "spool/instance.h"
#include "spool/submit.h"
#include "spool/task_text.h"

static char root[64];

const char *spool_world_root(void)
{
	return root;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

int spool_setup_in(const char *dir)
{
	(void)str_print(root, sizeof(root), "%s/tenure-spool-XXXXXX", dir);
	return mkdtemp(root) ? 0 : -1;
}

int spool_setup(void **state)
{
	return spool_setup_in("/tmp");
}

int spool_teardown(void **state)
{
	return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

struct spool *open_spool(void)
{
	struct err e = ERR_INIT;
	struct spool *sp = NULL;

	if (spool_open(root, "default", NULL, SPOOL_CREATE, &sp, &e) < 0)
		fail_msg("%s", e.text);
	return sp;
}

uint64_t submit(const struct spool *sp, const char *json)
{
	struct task_spec *s = NULL;
	struct err e = ERR_INIT;
	uint64_t id = 0;
	size_t used;

	if (spec_read(json, strlen(json), &s, &used, &e) < 0 || submit_task(sp, s, &id, &e) < 0)
		fail_msg("%s", e.text);
	(void)spec_free(s);
	return id;
}

struct claimer self(const struct spool *sp, const char *agent)
{
	struct claimer c;

	assert_int_equal(claimer_self(sp, agent, &c, NULL), 0);
	return c;
}

struct scan *scanned(const struct spool *sp)
{
	struct scan *s = scan_new(sp, 0);
	struct err e = ERR_INIT;

	if (scan_update(s, NULL, NULL, &e) < 0)
		fail_msg("%s", e.text);
	return s;
}

bool get(const struct spool *sp, uint64_t id, struct scan_task *ret)
{
	struct scan *s = scanned(sp);
	const struct scan_task *t = scan_find(s, id, 0);

	if (t)
		*ret = *t;
	(void)scan_free(s);
	return t != NULL;
}

struct claim claim(const struct spool *sp, uint64_t id, const struct claimer *who)
{
	struct err e = ERR_INIT;
	struct scan_task t;
	struct task_file f;
	struct claim c;

	assert_true(get(sp, id, &t));
	assert_int_equal(t.dir, SPOOL_PENDING);
	if (claim_task(sp, &t.name, who, &f, &c, &e) != 0)
		fail_msg("%s", e.text);
	task_file_clear(&f);
	return c;
}

struct spool_end done(const struct claim *c)
{
	return (struct spool_end){ .result = RESULT_DONE,
				   .epoch = c->name.epoch,
				   .attempt = c->attempt,
				   .begun_ns = clock_wall_ns(),
				   .ended_ns = clock_wall_ns() };
}

static int count_id(void *data, const struct task_name *n, const char *dir)
{
	uint64_t *want = data;

	want[1] += n->id == want[0];
	return 0;
}

uint64_t ended_times(const struct spool *sp, uint64_t id)
{
	uint64_t want[2] = { id, 0 };

	assert_int_equal(scan_ended(sp, count_id, want, NULL), 0);
	return want[1];
}

static int count_file(void *data, const char *file, unsigned char type)
{
	(*(int *)data)++;
	return 0;
}

int count_files(const struct spool *sp, const char *dir)
{
	int n = 0;

	assert_int_equal(spool_each(sp, dir, count_file, &n, NULL), 0);
	return n;
}

void put(const struct spool *sp, const char *path, const char *text)
{
	assert_int_equal(spool_replace(sp, path, text, strlen(text), NULL), 0);
}

struct batch *open_batch(const struct spool *sp, uint64_t id, const char *who)
{
	struct batch *b = NULL;
	struct err e = ERR_INIT;
	struct scan_task t;

	assert_true(get(sp, id, &t));
	if (batch_open(sp, &t.name, who, &b, &e) < 0)
		fail_msg("%s", e.text);
	return b;
}
