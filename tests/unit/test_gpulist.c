/* SPDX-License-Identifier: MIT */

/* When the list of devices is to be asked for again, by a driver of two cards. */

#include <stdint.h>
#include <stdio.h>

#include "unit.h"

#include "base/mem.h"
#include "gpu/device.h"

static unsigned int n_cards;
static bool lost, mig;

static nvmlReturn_t count(unsigned int *ret)
{
	*ret = n_cards;
	return NVML_SUCCESS;
}

static nvmlReturn_t by_index(unsigned int index, nvmlDevice_t *ret)
{
	*ret = (nvmlDevice_t)(uintptr_t)(index + 1);
	return lost && index == 1 ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

static nvmlReturn_t uuid(nvmlDevice_t handle, char *ret, unsigned int size)
{
	(void)snprintf(ret, size, "GPU-%u", (unsigned int)(uintptr_t)handle);
	return NVML_SUCCESS;
}

static nvmlReturn_t name(nvmlDevice_t handle, char *ret, unsigned int size)
{
	return NVML_ERROR_UNKNOWN;
}

static nvmlReturn_t mig_mode(nvmlDevice_t handle, unsigned int *current, unsigned int *pending)
{
	*current = *pending = mig && (uintptr_t)handle == 1;
	return NVML_SUCCESS;
}

/* The second one cannot tell. */
static nvmlReturn_t memory(nvmlDevice_t handle, nvmlMemory_t *ret)
{
	*ret = (nvmlMemory_t){ .total = 80UL << 30, .free = 79UL << 30, .used = 1UL << 30 };
	return (uintptr_t)handle == 2 ? NVML_ERROR_UNKNOWN : NVML_SUCCESS;
}

static const struct nvml driver = { .count = count,
				    .by_index = by_index,
				    .uuid = uuid,
				    .name = name,
				    .mig_mode = mig_mode,
				    .memory = memory };

/* A change is found, and listing anew takes it in: whether there is more to ask then. */
static bool changes(struct gpu_list *list)
{
	cleanup_free struct gpu_list *now = xcalloc(1, sizeof(*now));
	struct err e = ERR_INIT;

	assert_true(gpu_list_is_old(&driver, list));
	assert_int_equal(gpu_enumerate(&driver, now, &e), 0);
	assert_false(gpu_list_same(list, now));
	*list = *now;
	return gpu_list_is_old(&driver, list);
}

static void test_list(void **state)
{
	cleanup_free struct gpu_list *list = xcalloc(1, sizeof(*list));
	struct err e = ERR_INIT;

	n_cards = 2;
	lost = true;
	assert_int_equal(gpu_enumerate(&driver, list, &e), 0);
	assert_true(gpu_list_is_old(&driver, list));
	lost = false;
	assert_false(changes(list));
	assert_int_equal(list->n, 2);
	assert_int_equal(list->d[0].total_bytes, 80UL << 30);
	assert_int_equal(list->d[1].total_bytes, 0);
	n_cards = 3;
	assert_false(changes(list));
	/* One that is known answers for itself, by its looks. */
	lost = true;
	assert_false(gpu_list_is_old(&driver, list));
	lost = false;
	mig = true;
	assert_true(changes(list)); /* instances come and go */
	mig = false;
	assert_false(changes(list));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_list) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
