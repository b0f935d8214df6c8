/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/units.h"

struct num_case {
	const char *text;
	int r;
	uint64_t num;
	const char *error; /* part of the text */
};

static const struct num_case sizes[] = {
	{ "38G", 0, 38 * GIB },
	{ "1.5G", 0, 3 * GIB / 2 },
	{ "0.5g", 0, GIB / 2 },
	{ "512M", 0, 512 * MIB },
	{ "512MiB", 0, 512 * MIB },
	{ "512MB", 0, 512 * MIB },
	{ " 2 T ", 0, 2 * TIB },
	{ "7B", 0, 7 },
	{ "0", 0, 0 },
	{ "0.0", 0, 0 },
	{ "38", -EINVAL, 0, "\"38\" has no unit; did you mean 38G?" },
	{ "1.5", -EINVAL, 0, "did you mean 1.5G?" },
	{ "", -EINVAL, 0, "not a size" },
	{ "G", -EINVAL, 0, "not a size" },
	{ "-1G", -EINVAL, 0, "not a size" },
	{ "38X", -EINVAL, 0, "not a size" },
	{ "38GG", -EINVAL, 0, "not a size" },
	{ "38 G 2", -EINVAL, 0, "not a size" },
	{ "1.G", -EINVAL, 0, "not a size" },
	{ "1e9", -EINVAL, 0, "not a size" },
	{ "8388608T", -ERANGE, 0, "too large" },
	{ "99999999999999999999G", -ERANGE, 0, "too large" },
};

static const struct num_case durations[] = {
	{ "90s", 0, 90000 },
	{ "5m", 0, 300000 },
	{ "2h", 0, 2 * MS_PER_H },
	{ "1d", 0, MS_PER_DAY },
	{ "250ms", 0, 250 },
	{ "1.5h", 0, 90 * MS_PER_MIN },
	{ "1h30m", 0, 90 * MS_PER_MIN },
	{ "1h 05m", 0, 65 * MS_PER_MIN },
	{ "10 min", 0, 10 * MS_PER_MIN },
	{ "0", 0, 0 },
	{ "5", -EINVAL, 0, "\"5\" has no unit; did you mean 5m?" },
	{ "1h30", -EINVAL, 0, "did you mean 1h30m?" },
	{ "", -EINVAL, 0, "not a duration" },
	{ "m", -EINVAL, 0, "not a duration" },
	{ "5x", -EINVAL, 0, "not a duration" },
	{ "-5m", -EINVAL, 0, "not a duration" },
	{ "5m,", -EINVAL, 0, "not a duration" },
	{ "9999999999999999d", -ERANGE, 0, "too large" },
	{ "2 hours", 0, 2 * MS_PER_H },
	/* As Slurm writes them. */
	{ "1:00:00", 0, MS_PER_H },
	{ "90:30", 0, 90 * MS_PER_MIN + 30 * MS_PER_S },
	{ "2-00", 0, 2 * MS_PER_DAY },
	{ "1-12:30", 0, MS_PER_DAY + 12 * MS_PER_H + 30 * MS_PER_MIN },
	{ "1-02:03:04", 0, MS_PER_DAY + 2 * MS_PER_H + 3 * MS_PER_MIN + 4 * MS_PER_S },
	{ "1:00:00:00", -EINVAL, 0, "MM:SS, H:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS" },
	{ "1:", -EINVAL, 0, "MM:SS" },
	{ ":30", -EINVAL, 0, "MM:SS" },
	{ "1-", -EINVAL, 0, "MM:SS" },
	{ "1-2-3", -EINVAL, 0, "MM:SS" },
	{ "1:2-3", -EINVAL, 0, "MM:SS" },
	{ "1-0:0:0:0", -EINVAL, 0, "MM:SS" },
	{ "1h:30", -EINVAL, 0, "MM:SS" },
	{ "9999999999:00", -ERANGE, 0, "too large" },
};

static const struct num_case slurm_limits[] = {
	{ "90", 0, 90 * MS_PER_MIN }, { "1:30", 0, 90 * MS_PER_S },  { "1-00", 0, MS_PER_DAY },
	{ "", -EINVAL, 0, "MM:SS" },  { "1h", -EINVAL, 0, "MM:SS" },
};

static void check_nums(const struct num_case *cases, size_t n,
		       int (*parse)(const char *, uint64_t *, struct err *))
{
	for (size_t i = 0; i < n; i++) {
		const struct num_case *c = &cases[i];
		struct err e = ERR_INIT;
		uint64_t num = 12345;
		int r = parse(c->text, &num, &e);

		if (r != c->r || num != (c->r ? 12345 : c->num) ||
		    (c->error && !strstr(e.text, c->error)))
			fail_msg("\"%s\" gave %d, %llu, %s", c->text, r, (unsigned long long)num,
				 e.text);
	}
}

static void test_sizes(void **state)
{
	check_nums(sizes, ARRAY_LEN(sizes), unit_parse_size);
}

static void test_durations(void **state)
{
	check_nums(durations, ARRAY_LEN(durations), unit_parse_duration);
	check_nums(slurm_limits, ARRAY_LEN(slurm_limits), unit_parse_slurm_limit);
}

static void test_mem(void **state)
{
	static const struct {
		const char *text;
		int r;
		struct mem_spec spec;
		uint64_t of_100g;
	} cases[] = {
		{ "38G", 0, { MEM_SPEC_BYTES, 38 * GIB, 0 }, 38 * GIB },
		{ "88%", 0, { MEM_SPEC_SHARE, 0, 880 }, 88 * GIB },
		{ "87.5 %", 0, { MEM_SPEC_SHARE, 0, 875 }, 175 * GIB / 2 },
		{ "all-2G", 0, { MEM_SPEC_ALL_BUT, 2 * GIB, 0 }, 98 * GIB },
		{ "all - 2G", 0, { MEM_SPEC_ALL_BUT, 2 * GIB, 0 }, 98 * GIB },
		{ "all-200G", 0, { MEM_SPEC_ALL_BUT, 200 * GIB, 0 }, 0 },
		{ "all", 0, { MEM_SPEC_ALL_BUT, 0, 0 }, 100 * GIB },
		{ "38", -EINVAL },
		{ "101%", -ERANGE },
		{ "all-2", -EINVAL },
		{ "all+2G", -EINVAL },
		{ "most", -EINVAL },
		{ "", -EINVAL },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct mem_spec spec = { 0 };
		struct err e = ERR_INIT;
		int r = unit_parse_mem(cases[i].text, &spec, &e);

		if (r != cases[i].r)
			fail_msg("\"%s\" gave %d: %s", cases[i].text, r, e.text);
		assert_true(r == 0 || e.text[0]);
		assert_memory_equal(&spec, &cases[i].spec, sizeof(spec));
		if (r == 0)
			assert_in_range(mem_spec_bytes(&spec, 100 * GIB), cases[i].of_100g,
					cases[i].of_100g + 1000);
	}
}

static void test_percent_and_band(void **state)
{
	unsigned int permille = 1;
	struct util_band band;

	assert_int_equal(unit_parse_percent("75", &permille, NULL), 0);
	assert_int_equal(permille, 750);
	assert_int_equal(unit_parse_percent("87.5%", &permille, NULL), 0);
	assert_int_equal(permille, 875);
	assert_int_equal(unit_parse_percent("100.1", &permille, NULL), -ERANGE);
	assert_int_equal(unit_parse_percent("75%%", &permille, NULL), -EINVAL);
	assert_int_equal(unit_parse_percent("99999999999999999999", &permille, NULL), -EINVAL);

	assert_int_equal(unit_parse_band("50,70,85", &band, NULL), 0);
	assert_int_equal(band.low, 50);
	assert_int_equal(band.floor, 70);
	assert_int_equal(band.ceiling, 85);
	assert_int_equal(unit_parse_band("50 %, 70%,85%", &band, NULL), 0);

	static const char *const bad[] = { "",	       "50,70",	    "85,70,50", "50,70,101",
					   "50,70,70", "50,70,85,", "50 70 85", "a,b,c" };

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(unit_parse_band(bad[i], &band, NULL), -EINVAL);
}

static void gpus_as_text(const struct gpu_picks *list, char *buf, size_t size)
{
	size_t len = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < list->n; i++) {
		const struct gpu_pick *p = &list->picks[i];

		if (p->by_uuid)
			(void)snprintf(buf + len, size - len, "%s;", p->uuid);
		else
			(void)snprintf(buf + len, size - len, "%u;", p->index);
		len = strlen(buf);
	}
}

static void test_gpus(void **state)
{
	static const struct {
		const char *text;
		int r;
		const char *want; /* of the picks, or in the error */
	} cases[] = {
		{ "0", 0, "0;" },
		{ "0,1", 0, "0;1;" },
		{ "0 1 2", 0, "0;1;2;" },
		{ "3,0-2,1", 0, "3;0;1;2;" },
		{ "all", 0, "" },
		{ "GPU-1a2b", 0, "GPU-1a2b;" },
		{ "MIG-41b35014-745b-5bc6-90b2-d5da4ca84b54, 1", 0,
		  "MIG-41b35014-745b-5bc6-90b2-d5da4ca84b54;1;" },
		{ "MIG-GPU-8932f937/1/0", 0, "MIG-GPU-8932f937/1/0;" },
		{ "", -EINVAL },
		{ ",", -EINVAL },
		{ "all,0", -EINVAL },
		{ "0 , 1", 0, "0;1;" },
		{ "0,,1", -EINVAL, "\"0,,1\" has a comma with no GPU beside it" },
		{ "0, ,1", -EINVAL, "comma with no GPU" },
		{ ",0", -EINVAL, "comma with no GPU" },
		{ "0, ", -EINVAL, "comma with no GPU" },
		{ "3-1", -EINVAL, "\"3-1\" runs backwards; did you mean 1-3?" },
		{ "0-999", -ERANGE, "numbered from 0 to at most 255" },
		{ "gpu0", -EINVAL, "did you mean 0?" },
		{ "0,cuda:12", -EINVAL, "\"cuda:12\" names no GPU; did you mean 12?" },
		{ "0-", -EINVAL, "write indices" },
		{ "-1", -EINVAL },
		{ "2-1", -EINVAL },
		{ "256", -ERANGE },
		{ "1.0", -EINVAL },
		{ "0x1", -EINVAL },
		{ "GPU-", -EINVAL },
		{ "GPU-1;rm", -EINVAL },
		{ "cuda:0", -EINVAL },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct gpu_picks list = { 0 };
		char got[256];
		struct err e = ERR_INIT;
		int r = unit_parse_gpus(cases[i].text, &list, &e);

		if (r != cases[i].r || (r < 0 && cases[i].want && !strstr(e.text, cases[i].want)))
			fail_msg("\"%s\" gave %d: %s", cases[i].text, r, e.text);
		if (r == 0) {
			gpus_as_text(&list, got, sizeof(got));
			assert_string_equal(got, cases[i].want);
			assert_int_equal(list.all, strcmp(cases[i].text, "all") == 0);
		}
		gpu_picks_clear(&list);
	}
	assert_true(unit_is_gpu_word("0-3"));
	assert_true(unit_is_gpu_word("0,"));
	assert_false(unit_is_gpu_word(","));
	assert_false(unit_is_gpu_word("status"));
	assert_false(unit_is_gpu_word("--json"));
}

/* 2026-11-21 12:00 in the zone that tests/meson.build sets: Central Europe, without tzdata. */
#define NOON (1795258800ULL * NS_PER_S)

static void test_times(void **state)
{
	static const struct {
		const char *text;
		int r;
		int64_t after_noon_s;
	} cases[] = {
		{ "18:30", 0, 6 * 3600 + 1800 },
		{ "12:00", 0, 86400 },
		{ "08:00", 0, 20 * 3600 },
		{ "2026-11-22 08:00", 0, 20 * 3600 },
		{ "2026-11-22T08:00:30", 0, 20 * 3600 + 30 },
		{ "2026-11-22T08:00:00+01:00", 0, 20 * 3600 },
		{ "2026-11-22T07:00:00Z", 0, 20 * 3600 },
		{ "2026-11-22T07:00:00.250Z", 0, 20 * 3600 },
		{ "2026-11-22", 0, 12 * 3600 },
		/* The other side of a change of the clocks: one hour more than days * 24. */
		{ "2027-07-01 12:00", 0, 222 * 86400 - 3600 },
		{ "2026-11-21 08:00", -ERANGE },
		{ "4052-11-22T08:00:00Z", -ERANGE }, /* more nanoseconds than there is room for */
		{ "2255-03-14 16:00", 0, 7204737600 },
		{ "2027-02-30 08:00", -EINVAL },
		{ "25:00", -EINVAL },
		{ "+1h30m", 0, 5400 },
		{ "+ 90s", 0, 90 },
		{ "+1:00:00", 0, 3600 },
		{ "now", 0, 0 },
		{ "now+2hours", 0, 7200 },
		{ "now + 1d", 0, 86400 },
		{ "today", 0, 0 },
		{ "today 18:30", 0, 6 * 3600 + 1800 },
		{ "today 08:00", -ERANGE },
		{ "tomorrow", 0, 12 * 3600 },
		{ "tomorrow 08:00", 0, 20 * 3600 },
		{ "tomorrow  noon", 0, 86400 },
		{ "midnight", 0, 12 * 3600 },
		{ "noon", 0, 86400 },
		{ "tomorrows", -EINVAL },
		{ "tomorrow morning", -EINVAL },
		{ "nowhere", -EINVAL },
		{ "+5", -EINVAL },
		{ "+", -EINVAL },
		{ "-1h", -EINVAL },
		{ "now-1h", -EINVAL },
		{ "+9999999d", -ERANGE },
		{ "Noon", 0, 86400 },
		{ "Tomorrow", 0, 12 * 3600 },
		{ "NOW", 0, 0 },
		{ "yesterday", -ERANGE },
		{ "", -EINVAL },
		{ "18:30x", -EINVAL },
		{ "2026-11-22T08:00+99:00", -EINVAL },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint64_t ns = 0;
		struct err e = ERR_INIT;
		int r = unit_parse_time(cases[i].text, NOON, &ns, &e);
		int64_t after = (int64_t)(ns / NS_PER_S) - (int64_t)(NOON / NS_PER_S);

		if (r != cases[i].r || (r == 0 && after != cases[i].after_noon_s))
			fail_msg("\"%s\" gave %d, %lld: %s", cases[i].text, r, (long long)after,
				 e.text);
	}
}

static void test_past(void **state)
{
	static const struct {
		const char *text;
		int r;
		int64_t before_noon_s;
	} cases[] = {
		{ "7d", 0, 7 * 86400 },
		{ "12h", 0, 12 * 3600 },
		{ "now", 0, 0 },
		{ "08:00", 0, 4 * 3600 },
		{ "12:00", 0, 0 },
		{ "18:30", 0, 86400 - 6 * 3600 - 1800 },
		{ "today", 0, 12 * 3600 },
		{ "Today 08:00", 0, 4 * 3600 },
		{ "yesterday", 0, 36 * 3600 },
		{ "Yesterday 18:30", 0, 86400 - 6 * 3600 - 1800 },
		{ "midnight", 0, 12 * 3600 },
		{ "2026-11-20", 0, 36 * 3600 },
		{ "2026-11-21 08:00", 0, 4 * 3600 },
		{ "today 18:30", -ERANGE },
		{ "tomorrow", -ERANGE },
		{ "+1h", -ERANGE },
		{ "2099-01-01", -ERANGE },
		{ "soon", -EINVAL },
		{ "7", -EINVAL },
		{ "", -EINVAL },
		{ "yesterday evening", -EINVAL },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint64_t ns = 0;
		struct err e = ERR_INIT;
		int r = unit_parse_past(cases[i].text, NOON, &ns, &e);
		int64_t before = (int64_t)(NOON / NS_PER_S) - (int64_t)(ns / NS_PER_S);

		if (r != cases[i].r || (r == 0 && before != cases[i].before_noon_s))
			fail_msg("\"%s\" gave %d, %lld: %s", cases[i].text, r, (long long)before,
				 e.text);
	}
}

static void test_formats(void **state)
{
	char b[UNIT_TEXT_MAX];
	static const uint64_t sizes_exact[] = { 0, 1, 1024, 1536 * MIB, 38 * GIB, 3 * TIB, 1025 };
	static const uint64_t durations_exact[] = { 0, 1, 90000, 65 * MS_PER_MIN,
						    2 * MS_PER_DAY + 1 };

	assert_string_equal(unit_format_gib(38 * GIB, b), "38.0 GiB");
	assert_string_equal(unit_format_gib(GIB / 2, b), "0.5 GiB");
	assert_string_equal(unit_format_gib(12 * KIB, b), "12 KiB");
	assert_string_equal(unit_format_gib(0, b), "0.0 GiB");
	assert_string_equal(unit_format_duration(0, b), "0s");
	assert_string_equal(unit_format_duration(250, b), "250ms");
	assert_string_equal(unit_format_duration(303000, b), "5m 03s");
	assert_string_equal(unit_format_duration(65 * MS_PER_MIN, b), "1h 05m");
	assert_string_equal(unit_format_duration(51 * MS_PER_H, b), "2d 3h");
	assert_string_equal(unit_format_size_exact(1536 * MIB, b), "1.5G");
	assert_string_equal(unit_format_size_exact(72192 * MIB, b), "70.5G");
	assert_string_equal(unit_format_size_exact(70 * GIB + 128 * MIB, b), "70.125G");
	assert_string_equal(unit_format_size_exact(70 * GIB + 64 * MIB, b), "71744M");
	assert_string_equal(unit_format_size_exact(1025, b), "1025B");
	assert_string_equal(unit_format_duration_exact(90 * MS_PER_MIN, b), "1h30m");
	for (size_t i = 0; i < ARRAY_LEN(sizes_exact); i++) {
		uint64_t back = 1;

		assert_int_equal(
			unit_parse_size(unit_format_size_exact(sizes_exact[i], b), &back, NULL), 0);
		assert_int_equal(back, sizes_exact[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(durations_exact); i++) {
		uint64_t back = 1;

		assert_int_equal(
			unit_parse_duration(unit_format_duration_exact(durations_exact[i], b),
					    &back, NULL),
			0);
		assert_int_equal(back, durations_exact[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes), cmocka_unit_test(test_durations),
		cmocka_unit_test(test_mem),   cmocka_unit_test(test_percent_and_band),
		cmocka_unit_test(test_gpus),  cmocka_unit_test(test_times),
		cmocka_unit_test(test_past),  cmocka_unit_test(test_formats),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
