/* SPDX-License-Identifier: MIT */

/* Which devices of a node a job was given, by the words of engines. */

#include <string.h>

#include "unit.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "hold/guard/granted.h"

static struct gpu_list list;
static struct granted granted;

static void add_device(uint32_t index, int32_t mig, const char *uuid)
{
	struct gpu_device *d = &list.d[list.n++];

	*d = (struct gpu_device){ .index = index, .mig = mig };
	(void)str_copy(d->uuid, sizeof(d->uuid), uuid);
	list.n_cards += mig < 0;
}

/* Four cards; the third is in MIG mode and has two instances. */
static void make_list(void)
{
	list = (struct gpu_list){ .n = 0 };
	add_device(0, -1, "GPU-a0");
	add_device(1, -1, "GPU-a1");
	add_device(2, -1, "GPU-b2");
	list.d[2].mig_parent = true;
	add_device(2, 0, "MIG-c0");
	add_device(2, 1, "MIG-c1");
	add_device(3, -1, "GPU-b3");
}

static void filter(void)
{
	granted_find(&granted, &list);
	granted_filter(&granted, &list);
}

static void assert_left(const char *want, uint32_t others, uint32_t unseen, const char *words)
{
	struct strbuf b = STRBUF_INIT;

	for (uint32_t i = 0; i < list.n; i++)
		strbuf_addf(&b, "%s%s", i ? " " : "", list.d[i].uuid);
	if (strcmp(strbuf_str(&b), want) != 0 || granted.n_others != others ||
	    granted.n_unseen != unseen)
		fail_msg("%s: %s, %u others, %u unseen", words, strbuf_str(&b), granted.n_others,
			 granted.n_unseen);
	strbuf_clear(&b);
}

static void words_name_devices(void **state)
{
	static const struct {
		const char *words, *left;
		uint32_t others, unseen;
	} rows[] = {
		{ "0,3", "GPU-a0 GPU-b3", 1, 0 },
		{ "3", "GPU-b3", 2, 0 },
		{ "GPU-b3,GPU-a", "GPU-a0 GPU-b3", 1, 0 },
		{ "gpu-A1", "GPU-a1", 2, 0 },
		{ "GPU-a,GPU-a", "GPU-a0 GPU-a1", 1, 0 }, /* two that begin so */
		{ "1,1", "GPU-a1", 2, 1 },
		{ "2", "GPU-b2 MIG-c0 MIG-c1", 3, 0 },
		{ "MIG-c1", "MIG-c1", 3, 0 },
		{ "7,1", "GPU-a1", 2, 1 },
		{ "GPU-zz", "", 3, 1 },
		{ "", "", 3, 0 },
		{ "NoDevFiles", "", 3, 0 },
		{ "-1", "", 3, 0 },
		{ "1,,x", "GPU-a1", 2, 1 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		make_list();
		granted_parse(&granted, rows[i].words, 0);
		assert_true(granted.only);
		filter();
		assert_left(rows[i].left, rows[i].others, rows[i].unseen, rows[i].words);
	}
}

static void none_is_none(void **state)
{
	granted_parse(&granted, "", 0);
	assert_true(granted_none(&granted));
	granted_parse(&granted, "", 2);
	assert_false(granted_none(&granted));
	granted_parse(&granted, "7", 0);
	assert_false(granted_none(&granted));
	granted_parse(&granted, NULL, 0);
	assert_false(granted_none(&granted));
}

static void nothing_said_is_all_there_are(void **state)
{
	granted_parse(&granted, NULL, 0);
	assert_false(granted.only);
}

/* NVML may number the cards otherwise after it was restarted, or hide one for a while. */
static void what_was_found_stays_whatever_its_number(void **state)
{
	make_list();
	granted_parse(&granted, "1", 0);
	filter();
	make_list();
	list.d[0].index = 1;
	list.d[1].index = 0;
	filter();
	assert_left("GPU-a1", 2, 0, "renumbered");
	make_list();
	list.d[1] = list.d[--list.n];
	filter();
	assert_left("", 2, 1, "gone");
}

/* CUDA counts the cards that it may open, and NVML all of the host's. */
static void numbers_are_of_cards_that_are_not_hidden(void **state)
{
	list = (struct gpu_list){ .n = 0 };
	add_device(4, -1, "GPU-a4");
	add_device(5, -1, "GPU-a5");
	list.n_cards = 8;
	granted_parse(&granted, "1", 0);
	filter();
	assert_left("GPU-a5", 1, 0, "hidden");
	/* A card that could not be asked is not hidden. */
	list = (struct gpu_list){ .n_failed = 1 };
	add_device(1, -1, "GPU-a1");
	list.n_cards = 2;
	granted_parse(&granted, "1", 0);
	filter();
	assert_left("GPU-a1", 0, 0, "failed");
}

static void fewer_than_were_counted_are_unseen(void **state)
{
	make_list();
	granted_parse(&granted, NULL, 3);
	assert_true(granted.only);
	filter();
	assert_left("", 3, 3, "none chosen");
	/* Those of a guard before this one. */
	make_list();
	granted_parse(&granted, "GPU-a0,GPU-b3", 3);
	filter();
	assert_left("GPU-a0 GPU-b3", 1, 1, "two chosen");
}

static void assert_unseen(const char *words, const char *want)
{
	struct strbuf b = STRBUF_INIT;

	granted_parse(&granted, words, 0);
	granted_find(&granted, &list);
	granted_filter(&granted, &list);
	granted_add_unseen(&granted, &list);
	for (uint32_t i = 0; i < list.n; i++)
		if (list.d[i].unseen)
			strbuf_addf(&b, "%s%u=%s", b.len ? " " : "", list.d[i].index,
				    list.d[i].uuid);
	assert_string_equal(strbuf_str(&b), want);
	strbuf_clear(&b);
}

static void what_is_not_shown_stands_by_its_name(void **state)
{
	make_list();
	assert_unseen("1,7,GPU-zz,MIG-GPU-a0/1/0", "7=7 4=GPU-zz 5=MIG-GPU-a0/1/0");
	make_list();
	assert_unseen("4,GPU-zz,4", "4=4 5=GPU-zz"); /* nor twice */
	make_list();
	assert_unseen("1,3", "");
	/* One that cannot be asked may be it, and is broken. */
	make_list();
	list.n_failed = 1;
	assert_unseen("1,7", "");
	granted_parse(&granted, "2,0", 0);
	granted_blind(&granted, &list);
	assert_int_equal(list.n, 2);
	assert_true(list.d[0].unseen && list.d[0].index == 2 && granted.n_unseen == 2);
	assert_non_null(gpu_unfit(&list.d[0], &(struct gpu_look){ .valid = 0 }));
	/* Of these nobody knows the names. */
	granted_parse(&granted, NULL, 2);
	granted_blind(&granted, &list);
	assert_true(list.n == 0 && granted.n_unseen == 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_name_devices),
		cmocka_unit_test(none_is_none),
		cmocka_unit_test(nothing_said_is_all_there_are),
		cmocka_unit_test(what_was_found_stays_whatever_its_number),
		cmocka_unit_test(numbers_are_of_cards_that_are_not_hidden),
		cmocka_unit_test(fewer_than_were_counted_are_unseen),
		cmocka_unit_test(what_is_not_shown_stands_by_its_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
