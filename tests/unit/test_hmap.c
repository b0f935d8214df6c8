/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include "base/hash.h"
#include "base/hmap.h"

#define ITEMS 200

struct item {
	struct hnode hnode; /* first */
	int value;
};

static void test_map(void **state)
{
	struct hmap m = { 0 };
	struct item items[ITEMS] = { 0 };
	size_t n = 0;

	/* Ten different hashes only. */
	for (int i = 0; i < ITEMS; i++) {
		items[i].value = i;
		hmap_insert(&m, &items[i].hnode, (uint64_t)i % 10);
	}
	for (int i = 0; i < ITEMS; i += 2)
		hmap_remove(&m, &items[i].hnode);
	for (struct hnode *h = hmap_find(&m, 3); h; h = hmap_same(h), n++)
		assert_int_equal(((const struct item *)h)->value % 10, 3);
	assert_int_equal(n, ITEMS / 10);
	assert_null(hmap_find(&m, 4));
	n = 0;
	for (struct hnode *h = hmap_next(&m, NULL); h; h = hmap_next(&m, h))
		n++;
	assert_int_equal(n, ITEMS / 2);
	hmap_clear(&m);
	assert_null(hmap_find(&m, 3));
}

/* Names on disk are made of it (hash.h). */
static void hash_of_names_stays(void **state)
{
	char name[17];

	assert_string_equal(hash_short_name(name, 16, "0123456789abcdef"), "0123456789abcdef");
	assert_string_equal(hash_short_name(name, 16, "0123456789abcdefg"), "0123456-0744d6ae");
	assert_int_equal(hash_fnv32(HASH_FNV32, ""), 0x811c9dc5);
	assert_int_equal(hash_fnv32(HASH_FNV32, "a"), 0xe40c292c);
	assert_int_equal(hash_fnv32(HASH_FNV32, "foobar"), 0xbf9cf968);
	assert_int_equal(hash_fnv32(hash_fnv32(HASH_FNV32, "foo"), "bar"), 0xbf9cf968);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_map),
		cmocka_unit_test(hash_of_names_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
