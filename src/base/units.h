/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_UNITS_H
#define TENURE_BASE_UNITS_H

/*
 * Sizes, durations, times and device lists as people write them.
 *
 * Units: K, M, G and T are powers of 1024 ("38G", "1.5G", "512MiB"); durations end in ms, s, m, h
 * or d and may be compound ("1h30m", "1h 05m"), or are written as Slurm writes them: MM:SS,
 * H:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS. A bare number is refused where a unit is needed, with a
 * suggestion, because "38" has meant bytes, megabytes and gigabytes to different people. Zero needs
 * no unit.
 *
 * All parsers take the whole text, return 0 or a negative errno (-EINVAL: not understood, -ERANGE:
 * too large) with the text in e, and write *ret only on success. The text quotes the value; the
 * caller puts the name of the option or key in front with err_wrap().
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define KIB 1024ULL
#define MIB (1024ULL * KIB)
#define GIB (1024ULL * MIB)
#define TIB (1024ULL * GIB)

#define MS_PER_S   1000ULL
#define MS_PER_MIN (60ULL * MS_PER_S)
#define MS_PER_H   (60ULL * MS_PER_MIN)
#define MS_PER_DAY (24ULL * MS_PER_H)

/* How much of a device's free memory to hold. */
enum mem_spec_kind {
	MEM_SPEC_BYTES,	  /* "38G": this much */
	MEM_SPEC_SHARE,	  /* "88%": this share of what is free */
	MEM_SPEC_ALL_BUT, /* "all-2G": all that is free but this much; "all" is all but nothing */
	MEM_SPEC_MAX
};

struct mem_spec {
	enum mem_spec_kind kind;
	uint64_t bytes;	       /* MEM_SPEC_BYTES, MEM_SPEC_ALL_BUT */
	unsigned int permille; /* MEM_SPEC_SHARE: 875 is 87.5 % */
};

/* What the specification asks for on a device with so much free memory; may exceed free_bytes. */
uint64_t mem_spec_bytes(const struct mem_spec *spec, uint64_t free_bytes);

/* Utilisation band in per cent: below `low` faster at once; `floor` to `ceiling` is right; above
 * slower. */
struct util_band {
	unsigned int low;
	unsigned int floor;
	unsigned int ceiling;
};

#define GPU_PICK_UUID_MAX 80
#define GPU_PICKS_MAX	  256

/* One device as a person names it: an index of the driver's order, or a UUID or the beginning of
 * one. */
struct gpu_pick {
	bool by_uuid;
	unsigned int index;	      /* when !by_uuid */
	char uuid[GPU_PICK_UUID_MAX]; /* when by_uuid; "GPU-" or "MIG-" in front */
};

/* Owned by whoever holds the struct; gpu_picks_clear() frees what is inside. Order as written. */
struct gpu_picks {
	bool all;
	size_t n;
	struct gpu_pick *picks;
};

void gpu_picks_clear(struct gpu_picks *list);

int unit_parse_size(const char *text, uint64_t *ret_bytes, struct err *e);
int unit_parse_mem(const char *text, struct mem_spec *ret, struct err *e);
int unit_parse_duration(const char *text, uint64_t *ret_ms, struct err *e);
/* What Slurm takes for a time limit (sbatch(1), --time): a bare number is minutes. */
int unit_parse_slurm_limit(const char *text, uint64_t *ret_ms, struct err *e);
/* "75", "75%", "87.5 %": at most 100 %. */
int unit_parse_percent(const char *text, unsigned int *ret_permille, struct err *e);
/* "50,70,85": three rising whole percentages. */
int unit_parse_band(const char *text, struct util_band *ret, struct err *e);
/* "0,1", "0 1 2", "0-3", "GPU-1a2b", "all"; repeated devices are taken once. */
int unit_parse_gpus(const char *text, struct gpu_picks *ret, struct err *e);
/* One word of such a list: what `--gpus 0 1 2` goes on taking. */
bool unit_is_gpu_word(const char *text);
/*
 * A time to come: "18:30", "noon" or "midnight" (the next one), "2026-11-22", "2026-11-22 08:00",
 * "2026-11-22T08:00:00+01:00": local time where no offset is given; "now", "today" (now),
 * "tomorrow" (its midnight), "tomorrow 08:00"; "+1h30m" or "now+1h30m". Upper case does not matter.
 * A moment before now_wall_ns is refused: -ERANGE; what is none: -EINVAL.
 */
int unit_parse_time(const char *text, uint64_t now_wall_ns, uint64_t *ret_wall_ns, struct err *e);
/*
 * A time that has passed: "7d" or "12h" (so long ago), "18:30" (the last one), dates as above, and
 * "today" or "yesterday" (its midnight), "yesterday 18:30". What is yet to come is refused:
 * -ERANGE.
 */
int unit_parse_past(const char *text, uint64_t now_wall_ns, uint64_t *ret_wall_ns, struct err *e);
/* What was parsed with a now of 0 has a date of its own, and so is that moment at any time. */
bool unit_time_is_dated(uint64_t wall_ns);

/* Indices, both ends included, so many of them at once; limit 0: all. */
struct index_range {
	bool set;
	uint64_t from, to, limit;
};

/* "1-100", "1-100%4" (four at once), "7": at most so many indices, and none above UINT32_MAX. */
int unit_parse_range(const char *text, uint64_t most, struct index_range *ret, struct err *e);

#define UNIT_TEXT_MAX 48

/* For people: "38.0 GiB", "0.5 GiB", "12 KiB". All formatters write UNIT_TEXT_MAX bytes, return
 * buf. */
const char *unit_format_gib(uint64_t bytes, char *buf);
/* For people: "0s", "250ms", "42s", "5m 03s", "1h 05m", "2d 3h". */
const char *unit_format_duration(uint64_t ms, char *buf);
/* What the parsers read back as the same value: "38G", "1536M"; "1h30m". */
const char *unit_format_size_exact(uint64_t bytes, char *buf);
const char *unit_format_duration_exact(uint64_t ms, char *buf);
const char *unit_format_mem(const struct mem_spec *spec, char *buf);
const char *unit_format_permille(unsigned int permille, char *buf);	   /* "75%", "87.5%" */
const char *unit_format_range(const struct index_range *range, char *buf); /* "1-100%4" */

#endif
