/* SPDX-License-Identifier: MIT */

/* The history of a device: what a sample says, what is believed of a file, and what is answered. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

#include "agent/report/samples.h"
#include "base/mem.h"

#define NOW   UINT32_C(176000000) /* a sample's time */
#define NOW_S (UINT64_C(10) * NOW)
#define GIBS  (UINT64_C(1) << 30)

static struct view *view_of(uint32_t state, uint32_t flags)
{
	struct view *v = xcalloc(1, sizeof(*v));

	v->guard_up = v->seen[0] = true;
	v->n_slots = 1;
	v->guard.flags = GUARD_SEES;
	v->devices[0] = (struct dev_status){
		.state = state,
		.flags = flags,
		.known = KNOWN_MEM | KNOWN_UTIL | KNOWN_POWER | KNOWN_TEMP,
		.util = 50,
		.power_mw = 120000,
		.temp_c = 40,
		.mem_used = 4 * GIBS,
	};
	return v;
}

static void give_to_task(struct view *v)
{
	v->devices[0].n_leases = 1;
	v->devices[0].lease = (struct lease_id){ .task = 7, .element = 3 };
	v->devices[0].lease_stage = LEASE_USED;
}

static void test_states(void **state)
{
	struct view *v = view_of(DEV_BUSY, 0);
	struct view_workload runs = { .runs = true };

	assert_int_equal(sample_state_of(v, 0), SAMPLE_FOREIGN);
	v->devices[0].flags = DEVICE_VACANT; /* not idle for long enough yet, and nobody is there */
	assert_int_equal(sample_state_of(v, 0), SAMPLE_IDLE);
	v->devices[0].state = DEV_HOLDING;
	assert_int_equal(sample_state_of(v, 0), SAMPLE_HELD);
	v->devices[0].state = DEV_YIELDING;
	assert_int_equal(sample_state_of(v, 0), SAMPLE_FOREIGN);
	v->devices[0].state = DEV_LEFT;
	v->devices[0].flags = 0;
	assert_int_equal(sample_state_of(v, 0), SAMPLE_LEFT);
	v->devices[0].n_procs = 1;
	assert_int_equal(sample_state_of(v, 0), SAMPLE_FOREIGN);
	v->devices[0].state = DEV_BUSY;
	v->devices[0].xid = 79;
	assert_int_equal(sample_state_of(v, 0), SAMPLE_FAULT);
	give_to_task(v);
	assert_int_equal(sample_state_of(v, 0), SAMPLE_TASK);
	v->workloads = &runs;
	assert_int_equal(sample_state_of(v, 0), SAMPLE_WORKLOAD);
	v->workloads = NULL;
	v->devices[0].n_leases = v->devices[0].xid = 0;
	v->devices[0].known = 0;
	assert_int_equal(sample_state_of(v, 0), SAMPLE_BLIND);
	v->devices[0].known = KNOWN_MEM;
	v->guard.flags = 0;
	assert_int_equal(sample_state_of(v, 0), SAMPLE_BLIND);
	v->guard_up = false;
	assert_int_equal(sample_state_of(v, 0), SAMPLE_BLIND);
	free(v);
}

/* Means of what was known; the state that it was in for most of the time. */
static void test_sample_of_several_looks(void **state)
{
	struct view *v = view_of(DEV_HELD, DEVICE_VACANT);
	struct sample_sums s = { .at = NOW };
	struct sample one;

	v->devices[0].held_bytes = 3 * GIBS;
	sample_add(&s, v, 0);
	v->devices[0].util = 100;
	v->devices[0].temp_c = 60;
	v->devices[0].known &= ~(uint32_t)KNOWN_POWER;
	sample_add(&s, v, 0);
	sample_add(&s, v, -1);
	one = sample_of(&s);
	assert_int_equal(one.at, NOW);
	assert_int_equal(one.state, SAMPLE_HELD);
	assert_int_equal(one.util, 75);
	assert_int_equal(one.power_dw, 1200);
	assert_int_equal(one.temp_c, 60);
	assert_int_equal(one.used_mib, 4096);
	assert_int_equal(one.ours_mib, 3072);
	assert_int_equal(one.task, 0);
	free(v);
}

static void test_sample_of_a_task(void **state)
{
	struct view *v = view_of(DEV_BUSY, DEVICE_VACANT);
	struct sample_sums s = { .at = NOW };
	struct sample one;

	give_to_task(v);
	sample_add(&s, v, 0);
	one = sample_of(&s);
	assert_int_equal(one.state, SAMPLE_TASK);
	assert_int_equal(one.task, 7);
	assert_int_equal(one.element, 3);
	assert_int_equal(one.ours_mib, 4096);
	/* Somebody is beside it: how much of it is ours is not known. */
	v->devices[0].flags = 0;
	s = (struct sample_sums){ .at = NOW };
	sample_add(&s, v, 0);
	one = sample_of(&s);
	assert_int_equal(one.ours_mib, SAMPLE_NO_MEM);
	assert_int_equal(one.used_mib, 4096);
	free(v);
}

static struct sample sample_at(uint32_t at, enum sample_state state, unsigned int util)
{
	struct view *v = view_of(DEV_BUSY, 0);
	struct sample_sums s = { .at = at };

	v->devices[0].util = util;
	sample_add(&s, v, 0);
	(void)memset(s.looks, 0, sizeof(s.looks));
	s.looks[state] = 1;
	free(v);
	return sample_of(&s);
}

static void test_ring_takes_the_last_day_alone(void **state)
{
	struct sample_ring *ring = xcalloc(1, sizeof(*ring));
	struct sample one = sample_at(NOW, SAMPLE_IDLE, 1);

	assert_true(samples_put(ring, &one, NOW));
	assert_false(samples_put(ring, &one, NOW - 1)); /* of a time to come */
	assert_true(samples_put(ring, &one, NOW + SAMPLES_MAX - 1));
	assert_false(samples_put(ring, &one, NOW + SAMPLES_MAX));
	one.util++;
	assert_false(samples_put(ring, &one, NOW)); /* its sum is another */
	free(ring);
}

static char *path_in(const char *dir, char path[128])
{
	(void)snprintf(path, 128, "%s/ring", dir);
	return path;
}

static struct sample_ring *ring_in(const char *path, uint32_t now)
{
	struct sample_ring *ring = xcalloc(1, sizeof(*ring));
	struct err e = ERR_INIT;

	assert_int_equal(samples_read(path, ring, now, &e), 0);
	return ring;
}

static unsigned int count_in(const char *path, uint32_t now)
{
	struct sample_ring *ring = ring_in(path, now);
	unsigned int n = 0;

	for (size_t i = 0; i < SAMPLES_MAX; i++)
		n += ring->s[i].at != 0;
	free(ring);
	return n;
}

static void write_one(const char *path, uint32_t at)
{
	struct sample one = sample_at(at, SAMPLE_HELD, 75);
	struct err e = ERR_INIT;

	assert_int_equal(samples_write(path, &one, &e), 0);
}

static void test_file_survives_and_goes_round(void **state)
{
	char dir[] = "/tmp/tenure-samples-XXXXXX", path[128];
	struct sample_ring *ring;
	struct stat st;

	assert_non_null(mkdtemp(dir));
	(void)path_in(dir, path);
	assert_int_equal(count_in(path, NOW), 0); /* it is not there */
	write_one(path, NOW - SAMPLES_MAX);
	write_one(path, NOW - 1);
	write_one(path, NOW);
	assert_int_equal(count_in(path, NOW), 2); /* the first one's place is the last one's */
	ring = ring_in(path, NOW);
	assert_int_equal(ring->s[NOW % SAMPLES_MAX].util, 75);
	free(ring);
	assert_int_equal(count_in(path, NOW + SAMPLES_MAX - 1), 1);
	assert_int_equal(count_in(path, NOW + 2 * SAMPLES_MAX), 0); /* a day without an agent */
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(st.st_size, 32 + 32 * SAMPLES_MAX);
	(void)unlink(path);
	(void)rmdir(dir);
}

static void damage(const char *path, off_t at)
{
	int fd = open(path, O_WRONLY);

	assert_int_equal(pwrite(fd, "\xa5", 1, at), 1);
	(void)close(fd);
}

/* One byte of it, wherever that is: the sample is gone, or the file is made anew. */
static void test_what_is_damaged_is_not_believed(void **state)
{
	const off_t sample = (off_t)(32 + 32 * (NOW % SAMPLES_MAX));
	char dir[] = "/tmp/tenure-samples-XXXXXX", path[128];

	assert_non_null(mkdtemp(dir));
	(void)path_in(dir, path);
	for (off_t i = 0; i < 32; i++) {
		write_one(path, NOW);
		assert_int_equal(count_in(path, NOW), 1);
		damage(path, sample + i);
		assert_int_equal(count_in(path, NOW), 0);
	}
	write_one(path, NOW);
	damage(path, 0);
	assert_int_equal(count_in(path, NOW), 0);
	write_one(path, NOW - 1); /* in a new one */
	assert_int_equal(count_in(path, NOW), 1);
	assert_int_equal(truncate(path, 100), 0);
	assert_int_equal(count_in(path, NOW), 0);
	write_one(path, NOW);
	assert_int_equal(count_in(path, NOW), 1);
	(void)unlink(path);
	(void)rmdir(dir);
}

/* What has the name and is no file of ours is replaced, and what it points at stays as it is. */
static void test_what_is_in_its_place(void **state)
{
	char dir[] = "/tmp/tenure-samples-XXXXXX", path[128], other[128];
	struct stat st;
	int fd;

	assert_non_null(mkdtemp(dir));
	(void)path_in(dir, path);
	(void)snprintf(other, sizeof(other), "%s/other", dir);
	write_one(other, NOW);
	assert_int_equal(symlink(other, path), 0);
	assert_int_equal(count_in(path, NOW), 0);
	write_one(path, NOW - 5);
	assert_int_equal(lstat(path, &st), 0);
	assert_true(S_ISREG(st.st_mode));
	assert_int_equal(count_in(other, NOW), 1);
	assert_int_equal(unlink(path), 0);

	assert_int_equal(link(other, path), 0); /* somebody may have it open under another name */
	assert_int_equal(count_in(path, NOW), 0);
	write_one(path, NOW - 5);
	assert_int_equal(stat(other, &st), 0);
	assert_int_equal(st.st_nlink, 1);
	assert_int_equal(unlink(path), 0);

	assert_int_equal(mkfifo(path, 0600), 0); /* and nobody waits for its other end */
	assert_int_equal(count_in(path, NOW), 0);
	write_one(path, NOW);
	assert_int_equal(unlink(path), 0);

	assert_int_equal(mkdir(path, 0700), 0);
	write_one(path, NOW);
	assert_int_equal(count_in(path, NOW), 1);
	assert_int_equal(unlink(path), 0);

	fd = open(path, O_WRONLY | O_CREAT, 0600);
	assert_true(fd >= 0);
	(void)close(fd);
	write_one(path, NOW);
	assert_int_equal(count_in(path, NOW), 1);
	(void)unlink(path);
	(void)unlink(other);
	(void)rmdir(dir);
}

/* Of a device that is gone nothing is left after a day; what is not ours is not touched. */
static void test_files_of_devices_that_are_gone(void **state)
{
	static const struct {
		const char *name;
		bool ring, old, stays;
	} cases[] = { { "GPU-gone", true, true, false },
		      { "GPU-here", true, false, true },
		      { "notes.txt", false, true, true },
		      { ".hidden", true, true, true } };
	const struct timespec old[2] = { { .tv_sec = (time_t)(NOW_S - 86400 - 20) },
					 { .tv_sec = (time_t)(NOW_S - 86400 - 20) } };
	const struct timespec young[2] = { { .tv_sec = (time_t)(NOW_S - 86000) },
					   { .tv_sec = (time_t)(NOW_S - 86000) } };
	char dir[] = "/tmp/tenure-samples-XXXXXX";

	assert_non_null(mkdtemp(dir));
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cleanup_free char *path = xasprintf("%s/%s", dir, cases[i].name);
		cleanup_fd int fd = -1;

		if (cases[i].ring)
			write_one(path, NOW - 9000);
		else
			fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		assert_int_equal(utimensat(AT_FDCWD, path, cases[i].old ? old : young, 0), 0);
	}
	samples_sweep(dir, NOW);
	samples_sweep("/nowhere/at/all", NOW);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cleanup_free char *path = xasprintf("%s/%s", dir, cases[i].name);

		assert_int_equal(access(path, F_OK) == 0, cases[i].stays);
		(void)unlink(path);
	}
	assert_int_equal(rmdir(dir), 0);
}

static void test_errors_are_told(void **state)
{
	struct sample one = sample_at(NOW, SAMPLE_HELD, 75);
	struct err e = ERR_INIT;

	assert_int_equal(samples_write("/nowhere/at/all/ring", &one, &e), -ENOENT);
	assert_non_null(strstr(e.text, "/nowhere/at/all/ring"));
	assert_int_equal(samples_write("/dev/full/ring", &one, &e), -ENOTDIR);
}

static void test_bounds(void **state)
{
	static const struct {
		unsigned int devices;
		uint64_t seconds, step, ret_seconds, ret_step;
	} rows[] = {
		{ 1, 0, 0, 86400, 10 },	      { 1, 3600, 0, 3600, 10 },
		{ 1, 3600, 11, 3600, 20 },    { 8, 0, 0, 86400, 50 },
		{ 8, 3600, 10, 3600, 10 },    { 128, 0, 0, 86400, 680 },
		{ 0, 1000000, 1, 86400, 10 }, { 1, 60, UINT64_MAX, 60, 86400 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		uint64_t seconds = rows[i].seconds, step = rows[i].step;

		samples_bound(rows[i].devices, &seconds, &step);
		assert_int_equal(seconds, rows[i].ret_seconds);
		assert_int_equal(step, rows[i].ret_step);
	}
}

static const json_t *at(const json_t *o, const char *column, size_t i)
{
	return json_array_get(json_object_get(o, column), i);
}

static void test_answer_in_steps(void **state)
{
	struct sample_ring *ring = xcalloc(1, sizeof(*ring));
	const struct sample all[] = {
		sample_at(NOW - 6, SAMPLE_IDLE, 0),  sample_at(NOW - 5, SAMPLE_HELD, 60),
		sample_at(NOW - 4, SAMPLE_HELD, 90), sample_at(NOW - 1, SAMPLE_IDLE, 10),
		sample_at(NOW, SAMPLE_FOREIGN, 20),
	};
	json_t *o;

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		assert_true(samples_put(ring, &all[i], NOW));
	o = samples_json(ring, NOW_S + 10, 70, 10); /* the one of NOW is complete then */
	assert_int_equal(json_array_size(json_object_get(o, "t")), 7);
	assert_int_equal(json_integer_value(at(o, "t", 0)), (NOW - 6) * UINT64_C(10));
	assert_string_equal(json_string_value(at(o, "state", 1)), "held");
	assert_int_equal(json_integer_value(at(o, "util", 2)), 90);
	assert_true(json_is_null(at(o, "state", 3)));
	assert_true(json_is_null(at(o, "util", 3)));
	assert_true(json_is_null(at(o, "power_w", 3)));
	assert_true(json_is_null(at(o, "task", 1)));
	assert_int_equal(json_integer_value(at(o, "mem_used", 6)), 4 * GIBS);
	json_decref(o);
	/* In thirds: NOW is a multiple of 30 s no more than of 10, so steps begin where they do. */
	o = samples_json(ring, NOW_S, 60, 30);
	for (size_t i = 0; i < json_array_size(json_object_get(o, "t")); i++)
		assert_int_equal(json_integer_value(at(o, "t", i)) % 30, 0);
	json_decref(o);
	o = samples_json(ring, NOW_S, 100, 200);
	assert_string_equal(json_string_value(at(o, "state", 0)), "held");
	json_decref(o);
	free(ring);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_states),
		cmocka_unit_test(test_sample_of_several_looks),
		cmocka_unit_test(test_sample_of_a_task),
		cmocka_unit_test(test_ring_takes_the_last_day_alone),
		cmocka_unit_test(test_file_survives_and_goes_round),
		cmocka_unit_test(test_what_is_damaged_is_not_believed),
		cmocka_unit_test(test_what_is_in_its_place),
		cmocka_unit_test(test_files_of_devices_that_are_gone),
		cmocka_unit_test(test_errors_are_told),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_answer_in_steps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
