/* SPDX-License-Identifier: MIT */

/* The eyes' thread over a driver of one card that is made up here, in place of src/gpu. */

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "hold/guard/eyes.h"

#define GIBS	(1ULL << 30)
#define PATIENT 60 /* seconds */
#define CALM_NS (250 * NS_PER_MS)

static struct {
	_Atomic int loads, unloads, starts;
	_Atomic bool mismatch; /* NVML starts only from a library that is loaded after this */
	_Atomic uint64_t used, listed; /* by all, and by the one process; 0: there is none */
	_Atomic uint64_t grows;	       /* at each list */
	_Atomic unsigned int looks, at_depth[GPU_LOOK_ALL + 1];
	struct eyes *_Atomic asked; /* for another look, while one is made: once */
	_Atomic unsigned int parts[HEALTH_PART_MAX], figures;
	_Atomic uint64_t part_ns; /* that each part takes */
} driver;

int __wrap_nvml_load(struct nvml *n, struct err *e);
void __wrap_nvml_unload(struct nvml *n);
int __wrap_nvml_start(struct nvml *n, struct err *e);
void __wrap_nvml_stop(struct nvml *n);
int __wrap_gpu_enumerate(const struct nvml *n, struct gpu_list *ret, struct err *e);
bool __wrap_gpu_list_is_old(const struct nvml *n, const struct gpu_list *list);
int __wrap_gpu_look_at(const struct nvml *n, struct gpu_device *dev, enum gpu_depth depth,
		       struct gpu_look *ret, struct err *e);

int __wrap_nvml_load(struct nvml *n, struct err *e)
{
	*n = (struct nvml){ .library = &driver };
	driver.loads++;
	return 0;
}

void __wrap_nvml_unload(struct nvml *n)
{
	__wrap_nvml_stop(n);
	*n = (struct nvml){ 0 };
	driver.unloads++;
	driver.mismatch = false;
}

int __wrap_nvml_start(struct nvml *n, struct err *e)
{
	driver.starts++;
	if (driver.mismatch)
		return err_set(e, -EIO, "Driver/library version mismatch");
	n->started = true;
	return 0;
}

void __wrap_nvml_stop(struct nvml *n)
{
	n->started = false;
}

int __wrap_gpu_enumerate(const struct nvml *n, struct gpu_list *ret, struct err *e)
{
	*ret = (struct gpu_list){ .n = 1, .n_cards = 1 };
	ret->d[0] = (struct gpu_device){ .uuid = "GPU-1", .mig = -1 };
	return 0;
}

bool __wrap_gpu_list_is_old(const struct nvml *n, const struct gpu_list *list)
{
	return false;
}

int __wrap_gpu_look_at(const struct nvml *n, struct gpu_device *dev, enum gpu_depth depth,
		       struct gpu_look *ret, struct err *e)
{
	*ret = (struct gpu_look){ .valid = GPU_VALID_MEM, .total = 80 * GIBS };
	ret->begin_ns = ret->end_ns = clock_mono_ns();
	driver.used += depth >= GPU_LOOK_QUICK ? driver.grows : 0;
	ret->used = driver.used;
	ret->free = ret->total - ret->used;
	if (driver.listed && depth >= GPU_LOOK_QUICK)
		ret->procs = (struct gpu_procs){
			.n = 1,
			.n_total = 1,
			.p = { { .pid = 7, .used_known = true, .used_bytes = driver.listed } },
		};
	driver.at_depth[depth]++;
	driver.looks++;

	struct eyes *eyes = atomic_exchange(&driver.asked, NULL);

	if (eyes)
		eyes_look_now(eyes, 0);
	return 0;
}

void __wrap_gpu_look_figures(const struct nvml *n, const struct gpu_device *dev,
			     struct gpu_look *ret);
void __wrap_gpu_health_read(const struct nvml *n, const struct gpu_device *dev,
			    enum health_part part, struct gpu_health *h);

void __wrap_gpu_look_figures(const struct nvml *n, const struct gpu_device *dev,
			     struct gpu_look *ret)
{
	ret->valid = GPU_VALID_POWER;
	ret->power_mw = 1000 * ++driver.figures;
}

void __wrap_gpu_health_read(const struct nvml *n, const struct gpu_device *dev,
			    enum health_part part, struct gpu_health *h)
{
	const struct timespec takes = { .tv_nsec = (long)driver.part_ns };

	(void)nanosleep(&takes, NULL);
	h->read_ns[part] = clock_mono_ns();
	h->energy_mj++;
	driver.parts[part]++;
}

static void nap(void)
{
	const struct timespec ms = { .tv_nsec = (long)NS_PER_MS };

	(void)nanosleep(&ms, NULL);
}

/* So many looks are over: another one has begun since. One at which memory has moved counts twice,
 * as the list is read at once. */
static void wait_for_looks(unsigned int n)
{
	uint64_t end = clock_mono_ns() + PATIENT * NS_PER_S;
	unsigned int until = driver.looks + n + 1;

	while (driver.looks < until && clock_mono_ns() < end)
		nap();
	assert_true(driver.looks >= until);
}

static void driver_reset(void)
{
	(void)memset(&driver, 0, sizeof(driver));
}

static struct eyes *open_eyes(void)
{
	struct err e = ERR_INIT;
	struct eyes *eyes;

	assert_int_equal(eyes_open(&eyes, NULL, &e), 0);
	return eyes;
}

static void wait_for_sight(struct eyes *eyes, struct sample *s)
{
	uint64_t end = clock_mono_ns() + PATIENT * NS_PER_S;

	while (!eyes_sample(eyes, 0, s->seq, s) && clock_mono_ns() < end)
		nap();
	assert_true(s->seq);
}

/* A look that is asked for while one is made is not answered by that one, nor when the next would
 * have been. */
static void test_asked_during_a_look(void **state)
{
	struct eyes *eyes;
	struct sample s = { 0 };
	unsigned int looks;

	driver_reset();
	eyes = open_eyes();
	wait_for_sight(eyes, &s);
	eyes_set_period(eyes, 0, UINT64_MAX / 4, false);
	wait_for_looks(0); /* the one that was due already */
	looks = driver.looks;
	driver.asked = eyes;
	eyes_look_now(eyes, 0);

	uint64_t end = clock_mono_ns() + PATIENT * NS_PER_S;

	while (driver.looks < looks + 2 && clock_mono_ns() < end)
		nap();
	assert_int_equal(driver.looks, looks + 2);
	eyes_close(eyes);
}

/* A guard that has not come to the check when the next thing is seen is told of both. */
static void test_check_that_is_followed_by_news(void **state)
{
	struct eyes *eyes;
	struct sample s = { 0 };

	driver_reset();
	eyes = open_eyes();
	wait_for_sight(eyes, &s);
	assert_true(s.checked);
	eyes_set_period(eyes, 0, 2 * NS_PER_MS, false);
	driver.used = GIBS;
	wait_for_looks(2);
	wait_for_sight(eyes, &s); /* what memory moved, and no check */
	driver.used = 2 * GIBS;
	wait_for_looks(2);
	wait_for_sight(eyes, &s);
	assert_false(s.checked);

	unsigned int checks = driver.at_depth[GPU_LOOK_ALL];

	eyes_look_now(eyes, 0);
	wait_for_looks(2);
	assert_int_equal(driver.at_depth[GPU_LOOK_ALL], checks + 1);
	driver.used = 3 * GIBS;
	wait_for_looks(4); /* what moves is seen, and the guard has it */
	wait_for_sight(eyes, &s);
	assert_int_equal(s.look.used, 3 * GIBS);
	assert_true(s.checked);
	assert_true(s.complete); /* its utilisation counts, too */
	driver.used = 4 * GIBS;
	wait_for_looks(4);
	wait_for_sight(eyes, &s);
	assert_int_equal(s.look.used, 4 * GIBS);
	assert_false(s.checked);
	eyes_close(eyes);
}

/* A list may have been read just before memory moved. What the next one says of whose that is, the
 * guard is told without waiting for the second in which it is told anyhow. */
static void test_memory_of_a_process_moves(void **state)
{
	uint64_t end = clock_mono_ns() + PATIENT * NS_PER_S;
	struct eyes *eyes;
	struct sample s = { 0 };
	bool at_once = false;

	driver_reset();
	driver.listed = 1;
	eyes = open_eyes();
	wait_for_sight(eyes, &s);
	eyes_set_period(eyes, 0, 2 * NS_PER_MS, false);
	while (!at_once && clock_mono_ns() < end) { /* that second may just be over */
		driver.listed += GIBS;
		while (s.look.procs.p[0].used_bytes != driver.listed && clock_mono_ns() < end)
			wait_for_sight(eyes, &s);
		at_once = !s.complete;
	}
	assert_true(at_once);
	eyes_close(eyes);
}

/* No look sees much of it. */
static void test_memory_moves_bit_by_bit(void **state)
{
	uint64_t end = clock_mono_ns() + PATIENT * NS_PER_S;
	struct eyes *eyes;
	struct sample s = { 0 };

	driver_reset();
	eyes = open_eyes();
	wait_for_sight(eyes, &s);
	driver.grows = 4ULL << 20;
	eyes_set_period(eyes, 0, 2 * NS_PER_MS, false);
	do
		wait_for_sight(eyes, &s);
	while (s.complete && clock_mono_ns() < end);
	assert_false(s.complete);
	eyes_close(eyes);
}

static void pass(uint64_t ns)
{
	uint64_t end = clock_mono_ns() + ns;

	while (clock_mono_ns() < end)
		nap();
}

/* What moves is looked at every 2 ms, but not where that is the release to a known PID. */
static void test_calm(void **state)
{
	struct eyes *eyes;
	struct sample s = { 0 };
	unsigned int before;
	uint64_t since;

	driver_reset();
	eyes = open_eyes();
	wait_for_sight(eyes, &s);
	eyes_set_period(eyes, 0, 2 * NS_PER_MS, false);
	driver.used = GIBS;
	wait_for_looks(5);
	eyes_set_period(eyes, 0, CALM_NS, true);
	since = clock_mono_ns();
	before = driver.looks;
	driver.used = 2 * GIBS;
	pass(200 * NS_PER_MS);
	/* One was going on, and one may be due; a machine that is busy lets more time pass. */
	assert_in_range(driver.looks - before, 0, 3 + (clock_mono_ns() - since) / CALM_NS);
	/* Asked for it is looked at at once, and often when it is free. */
	before = driver.at_depth[GPU_LOOK_ALL];
	eyes_look_now(eyes, 0);
	wait_for_looks(0);
	assert_int_equal(driver.at_depth[GPU_LOOK_ALL], before + 1);
	eyes_set_period(eyes, 0, 2 * NS_PER_S, false);
	since = clock_mono_ns();
	for (int i = 0; i < 40; i++) { /* 80 s, if each were two behind the one before */
		driver.used += GIBS;
		wait_for_looks(0);
	}
	assert_true(clock_mono_ns() - since < PATIENT * NS_PER_S);
	eyes_close(eyes);
}

static bool all_parts_read(unsigned int times)
{
	for (unsigned int i = 0; i < HEALTH_PART_MAX; i++)
		if (driver.parts[i] < times)
			return false;
	return true;
}

static void wait_for_parts(void)
{
	uint64_t end = clock_mono_ns() + PATIENT * NS_PER_S;

	while (!all_parts_read(1) && clock_mono_ns() < end)
		nap();
	assert_true(all_parts_read(1));
}

/* All there is to know of a card is read once, without a look being late for it, and the guard can
 * have it. */
static void test_health_is_read_between_looks(void **state)
{
	struct eyes *eyes;
	struct sample s = { 0 };
	struct gpu_health h = { 0 };
	uint64_t seq = 0, same;

	driver_reset();
	eyes = open_eyes();
	wait_for_sight(eyes, &s);
	eyes_set_period(eyes, 0, 30 * NS_PER_MS, false);
	wait_for_parts();
	wait_for_looks(1); /* the last part is in */
	assert_true(eyes_health(eyes, 0, &seq, &h));
	assert_int_equal(h.energy_mj, HEALTH_PART_MAX);
	for (unsigned int i = 0; i < HEALTH_PART_MAX; i++)
		assert_true(h.read_ns[i]);
	same = seq;
	assert_false(eyes_health(eyes, 0, &seq, &h));
	assert_int_equal(seq, same);
	assert_int_equal(driver.figures, 0);
	eyes_close(eyes);
}

/* While somebody may be coming nothing but looks is done. */
static void test_health_waits_for_the_end_of_a_hint(void **state)
{
	struct eyes *eyes;

	driver_reset();
	eyes = open_eyes();
	eyes_set_hint(eyes, true);
	while (!eyes_ready(eyes))
		nap();
	wait_for_looks(0);

	unsigned int before = 0, after = 0;

	for (unsigned int i = 0; i < HEALTH_PART_MAX; i++)
		before += driver.parts[i];
	eyes_set_period(eyes, 0, 2 * NS_PER_MS, false);
	wait_for_looks(50);
	for (unsigned int i = 0; i < HEALTH_PART_MAX; i++)
		after += driver.parts[i];
	assert_int_equal(after, before);
	eyes_set_period(eyes, 0, 30 * NS_PER_MS, false);
	eyes_set_hint(eyes, false);
	wait_for_parts();
	eyes_close(eyes);
}

/* One of which it is known that it would make a look late is not begun. */
static void test_health_that_takes_long_has_no_room(void **state)
{
	struct eyes *eyes;
	unsigned int before;
	uint64_t end = clock_mono_ns() + PATIENT * NS_PER_S;

	driver_reset();
	driver.part_ns = 20 * NS_PER_MS;
	eyes = open_eyes();
	eyes_set_watched(eyes, true);
	while (driver.parts[HEALTH_PART_CLOCKS] < 3 && clock_mono_ns() < end)
		nap(); /* at rest, where there are 2 s to the next look */
	eyes_set_period(eyes, 0, 30 * NS_PER_MS, false);
	wait_for_looks(2);
	before = driver.parts[HEALTH_PART_CLOCKS];
	assert_true(before >= 3);
	wait_for_looks(100); /* three seconds: it would be due every two */
	assert_int_equal(driver.parts[HEALTH_PART_CLOCKS], before);
	eyes_close(eyes);
}

static void test_somebody_watches(void **state)
{
	struct eyes *eyes;
	struct sample s = { 0 };
	struct gpu_look look = { .valid = GPU_VALID_TEMP | GPU_VALID_MEM };
	uint64_t end = clock_mono_ns() + PATIENT * NS_PER_S;

	driver_reset();
	eyes = open_eyes();
	wait_for_sight(eyes, &s);
	eyes_set_period(eyes, 0, 30 * NS_PER_MS, false);
	eyes_set_watched(eyes, true);
	while (driver.figures < 3 && clock_mono_ns() < end)
		nap();
	assert_true(driver.figures >= 3);
	assert_true(driver.parts[HEALTH_PART_CLOCKS] >= 2);
	assert_int_equal(driver.parts[HEALTH_PART_ECC], 1);
	wait_for_looks(1);
	eyes_figures(eyes, 0, &look);
	assert_true(look.power_mw >= 3000);
	assert_int_equal(look.valid, GPU_VALID_POWER | GPU_VALID_MEM);
	eyes_set_watched(eyes, false);
	wait_for_looks(1);

	unsigned int before = driver.figures;

	wait_for_looks(40); /* more than a second */
	assert_int_equal(driver.figures, before);
	eyes_close(eyes);
}

/* A driver that was upgraded refuses the library that we have in memory, for ever. */
static void test_driver_that_was_upgraded(void **state)
{
	struct eyes *eyes;
	struct sample s = { 0 };
	char text[200];

	driver_reset();
	driver.mismatch = true;
	eyes = open_eyes();
	while (!eyes_ready(eyes))
		nap();
	assert_int_equal(eyes_trouble(eyes, text, sizeof(text)), -EIO);
	assert_string_equal(text, "Driver/library version mismatch");
	wait_for_sight(eyes, &s);
	assert_int_equal(eyes_trouble(eyes, text, sizeof(text)), 0);
	assert_int_equal(driver.loads, 2);
	eyes_close(eyes);
	assert_int_equal(driver.unloads, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_asked_during_a_look),
		cmocka_unit_test(test_check_that_is_followed_by_news),
		cmocka_unit_test(test_memory_of_a_process_moves),
		cmocka_unit_test(test_memory_moves_bit_by_bit),
		cmocka_unit_test(test_calm),
		cmocka_unit_test(test_health_is_read_between_looks),
		cmocka_unit_test(test_health_waits_for_the_end_of_a_hint),
		cmocka_unit_test(test_health_that_takes_long_has_no_room),
		cmocka_unit_test(test_somebody_watches),
		cmocka_unit_test(test_driver_that_was_upgraded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
