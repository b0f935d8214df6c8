/* SPDX-License-Identifier: MIT */

/* The process list: three sizes of one struct under one name, and what is no list at all. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#include "base/mem.h"
#include "gpu/procs.h"

#define ROOM (256 * 32)

/* Like a driver: n entries of size bytes, pid at 0, used bytes at 8; padding is left as it is. */
static void write_list(unsigned char *buf, size_t size, uint32_t n, const uint32_t *pids,
		       uint64_t used)
{
	memset(buf, GPU_PROCS_PATTERN, ROOM);
	for (uint32_t i = 0; i < n; i++) {
		unsigned char *entry = buf + i * size;
		uint32_t all = UINT32_MAX;
		uint64_t protected_bytes = 0;

		memcpy(entry, &pids[i], 4);
		memcpy(entry + 8, &used, 8);
		if (size >= 24) {
			memcpy(entry + 16, &all, 4);
			memcpy(entry + 20, &all, 4);
		}
		if (size == 32)
			memcpy(entry + 24, &protected_bytes, 8);
	}
}

static const size_t layouts[] = { 16, 24, 32 };

static void test_layouts(void **state)
{
	unsigned char buf[ROOM];
	uint32_t pids[128];

	for (uint32_t i = 0; i < 128; i++)
		pids[i] = 1000 + i * 7;
	for (size_t l = 0; l < 3; l++) {
		for (uint32_t n = 1; n <= 128; n++) {
			struct gpu_procs list = { 0 };

			write_list(buf, layouts[l], n, pids, 5ULL << 30);
			assert_int_equal(gpu_procs_stride(buf, ROOM, n), layouts[l]);
			assert_int_equal(gpu_procs_decode(&list, buf, ROOM, n, n % 2), 0);
			assert_int_equal(list.n, n);
			assert_int_equal(list.stride, layouts[l]);
			assert_int_equal(list.p[n - 1].pid, pids[n - 1]);
			assert_int_equal(list.p[n - 1].used_bytes, 5ULL << 30);
			assert_true(list.p[0].used_known);
			assert_int_equal(list.p[0].graphics, n % 2);
		}
	}
}

/* Zeroes at the end of an entry, or bytes of the pattern's value in it, are part of it. */
static void test_odd_values(void **state)
{
	unsigned char buf[ROOM];
	const uint32_t pids[] = { 0x5a5a5, 42 };
	uint64_t pattern;

	memset(&pattern, GPU_PROCS_PATTERN, sizeof(pattern));
	for (size_t l = 0; l < 3; l++) {
		write_list(buf, layouts[l], 2, pids, 0);
		assert_int_equal(gpu_procs_stride(buf, ROOM, 2), layouts[l]);
	}
	/* The 24-byte struct ends in two words that may be left unwritten in part. */
	write_list(buf, 24, 2, pids, 1 << 20);
	memset(buf + 24 + 20, GPU_PROCS_PATTERN, 4);
	assert_int_equal(gpu_procs_stride(buf, ROOM, 2), 24);
}

static void test_empty(void **state)
{
	unsigned char buf[ROOM];
	struct gpu_procs list = { 0 };

	memset(buf, GPU_PROCS_PATTERN, ROOM);
	assert_int_equal(gpu_procs_stride(buf, ROOM, 0), 0);
	assert_int_equal(gpu_procs_decode(&list, buf, ROOM, 0, false), 0);
	assert_int_equal(list.n, 0);
	/* It says none and writes some. */
	buf[3] = 0;
	assert_int_equal(gpu_procs_stride(buf, ROOM, 0), -EPROTO);
}

static void test_garbage(void **state)
{
	unsigned char buf[ROOM];
	const uint32_t one[] = { 1234 }, zero[] = { 0 }, wild[] = { 0x7fffffff };
	const uint32_t mixed[] = { 1234, 0 };
	struct gpu_procs list = { 0 };

	memset(buf, GPU_PROCS_PATTERN, ROOM);
	assert_int_equal(gpu_procs_stride(buf, ROOM, 1), -EPROTO); /* says one, wrote none */
	for (size_t l = 0; l < 3; l++) {
		write_list(buf, layouts[l], 1, zero, 0);
		assert_int_equal(gpu_procs_stride(buf, ROOM, 1), -EPROTO);
		write_list(buf, layouts[l], 1, wild, 0);
		assert_int_equal(gpu_procs_stride(buf, ROOM, 1), -EPROTO);
		write_list(buf, layouts[l], 2, mixed, 1);
		assert_int_equal(gpu_procs_decode(&list, buf, ROOM, 2, false), -EPROTO);
		/* More than it says. */
		write_list(buf, layouts[l], 2, (const uint32_t[]){ 5, 6 }, 1);
		assert_true(gpu_procs_stride(buf, ROOM, 1) < 0 || layouts[l] == 16);
	}
	/* A size that never was. */
	write_list(buf, 40, 3, (const uint32_t[]){ 1, 2, 3 }, 1);
	assert_int_equal(gpu_procs_stride(buf, ROOM, 3), -EPROTO);
	/* More entries than the buffer has room for. */
	memset(buf, 1, ROOM);
	assert_int_equal(gpu_procs_stride(buf, ROOM, ROOM), -EPROTO);
	assert_int_equal(gpu_procs_stride(buf, ROOM, UINT32_MAX), -EPROTO);
	assert_int_equal(gpu_procs_decode(&list, buf, 8, 1, false), -EPROTO);
	assert_int_equal(list.n, 0);
	write_list(buf, 24, 1, one, 1);
	assert_int_equal(gpu_procs_stride(buf, ROOM, 1), 24);
}

static void test_unknown_memory(void **state)
{
	unsigned char buf[ROOM];
	const uint32_t pids[] = { 77 };
	struct gpu_procs list = { 0 };

	write_list(buf, 24, 1, pids, UINT64_MAX);
	assert_int_equal(gpu_procs_decode(&list, buf, ROOM, 1, false), 0);
	assert_false(list.p[0].used_known);
	assert_int_equal(list.p[0].used_bytes, 0);
}

static void test_more_than_is_kept(void **state)
{
	unsigned char buf[ROOM];
	uint32_t pids[200];
	struct gpu_procs list = { 0 };

	for (uint32_t i = 0; i < 200; i++)
		pids[i] = i + 1;
	write_list(buf, 24, 200, pids, 1);
	assert_int_equal(gpu_procs_decode(&list, buf, ROOM, 200, false), 0);
	assert_int_equal(list.n, GPU_PROCS_MAX);
	assert_int_equal(list.n_total, 200);
	/* A second list goes behind the first. */
	assert_int_equal(gpu_procs_decode(&list, buf, ROOM, 200, true), 0);
	assert_int_equal(list.n_total, 400);
	assert_false(list.p[GPU_PROCS_MAX - 1].graphics);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_layouts),	       cmocka_unit_test(test_odd_values),
		cmocka_unit_test(test_empty),	       cmocka_unit_test(test_garbage),
		cmocka_unit_test(test_unknown_memory), cmocka_unit_test(test_more_than_is_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
