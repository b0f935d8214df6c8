/* SPDX-License-Identifier: MIT */

/*
 * Numbers are read as an integer part and nine digits of fraction and scaled with integers, so that
 * "1.5G" is exact and nothing depends on the locale's decimal point. Every parser works on a cursor
 * that it must bring to the end of the text; what is left over is the error.
 */

#include "base/units.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"

#define FRACTION_ONE 1000000000ULL

struct decimal {
	uint64_t whole;
	uint64_t fraction; /* of FRACTION_ONE */
	size_t len;	   /* of the text that was read, for suggestions */
};

static const char *skip_blanks(const char *p)
{
	while (*p == ' ' || *p == '\t')
		p++;
	return p;
}

/* Digits with an optional fraction at *pp. Moves *pp behind them. */
static int read_decimal(const char **pp, struct decimal *ret)
{
	const char *p = *pp;
	struct decimal d = { 0 };
	uint64_t place = FRACTION_ONE / 10;

	if (!isdigit((unsigned char)*p))
		return -EINVAL;
	for (; isdigit((unsigned char)*p); p++) {
		if (__builtin_mul_overflow(d.whole, 10, &d.whole) ||
		    __builtin_add_overflow(d.whole, (uint64_t)(*p - '0'), &d.whole))
			return -ERANGE;
	}
	if (*p == '.') {
		p++;
		if (!isdigit((unsigned char)*p))
			return -EINVAL;
		for (; isdigit((unsigned char)*p); p++, place /= 10)
			d.fraction += place * (uint64_t)(*p - '0');
	}
	d.len = (size_t)(p - *pp);
	*pp = p;
	*ret = d;
	return 0;
}

static int scale(const struct decimal *d, uint64_t unit, uint64_t *ret)
{
	unsigned __int128 v = (unsigned __int128)d->whole * unit +
			      (unsigned __int128)d->fraction * unit / FRACTION_ONE;

	if (v > INT64_MAX)
		return -ERANGE;
	*ret = (uint64_t)v;
	return 0;
}

static bool is_zero(const struct decimal *d)
{
	return d->whole == 0 && d->fraction == 0;
}

static int not_a_size(const char *text, struct err *e)
{
	return err_set(e, -EINVAL, "\"%s\" is not a size; write it like 38G, 1.5G or 512M", text);
}

static int too_large(const char *text, struct err *e)
{
	return err_set(e, -ERANGE, "\"%s\" is too large", text);
}

/* K, M, G, T with an optional iB or B; B alone. 0 when there is no such unit. */
static uint64_t read_size_unit(const char **pp)
{
	static const char letters[] = "KMGT";
	const char *p = *pp, *at;
	uint64_t unit = 1;

	if (*p && (at = strchr(letters, toupper((unsigned char)*p)))) {
		unit = 1ULL << (10 * (at - letters + 1));
		p++;
		if (p[0] == 'i' && (p[1] == 'B' || p[1] == 'b'))
			p += 2;
		else if (p[0] == 'B' || p[0] == 'b')
			p++;
	} else if (*p == 'B') {
		p++;
	} else {
		return 0;
	}
	*pp = p;
	return unit;
}

int unit_parse_size(const char *text, uint64_t *ret_bytes, struct err *e)
{
	const char *p = skip_blanks(text);
	struct decimal d;
	int r = read_decimal(&p, &d);

	if (r == -ERANGE)
		return too_large(text, e);
	if (r < 0)
		return not_a_size(text, e);
	p = skip_blanks(p);

	uint64_t unit = read_size_unit(&p);

	if (!unit && !*p && is_zero(&d))
		unit = 1;
	if (!unit && !*p)
		return err_set(e, -EINVAL, "\"%s\" has no unit; did you mean %.*sG?", text,
			       (int)d.len, skip_blanks(text));
	if (!unit || *skip_blanks(p))
		return not_a_size(text, e);
	if (scale(&d, unit, ret_bytes) < 0)
		return too_large(text, e);
	return 0;
}

uint64_t mem_spec_bytes(const struct mem_spec *spec, uint64_t free_bytes)
{
	switch (spec->kind) {
	case MEM_SPEC_SHARE:
		return free_bytes / 1000 * spec->permille +
		       free_bytes % 1000 * spec->permille / 1000;
	case MEM_SPEC_ALL_BUT:
		return free_bytes > spec->bytes ? free_bytes - spec->bytes : 0;
	case MEM_SPEC_BYTES:
	case MEM_SPEC_MAX:
		break;
	}
	return spec->bytes;
}

int unit_parse_mem(const char *text, struct mem_spec *ret, struct err *e)
{
	struct mem_spec spec = { .kind = MEM_SPEC_BYTES };
	const char *p = skip_blanks(text);
	int r;

	if (strncasecmp(p, "all", 3) == 0) {
		spec.kind = MEM_SPEC_ALL_BUT;
		p = skip_blanks(p + 3);
		if (*p && *p != '-')
			return err_set(e, -EINVAL, "\"%s\" is not an amount; did you mean all-2G?",
				       text);
		r = *p ? unit_parse_size(p + 1, &spec.bytes, e) : 0;
	} else if (strchr(p, '%')) {
		spec.kind = MEM_SPEC_SHARE;
		r = unit_parse_percent(p, &spec.permille, e);
	} else if (isdigit((unsigned char)*p)) {
		r = unit_parse_size(p, &spec.bytes, e);
	} else {
		r = err_set(e, -EINVAL,
			    "\"%s\" is not an amount; write it like 38G, 88%% or all-2G", text);
	}
	if (r < 0)
		return r;
	*ret = spec;
	return 0;
}

/* Longest first where one begins like the other. */
static const struct duration_unit {
	const char *name;
	uint64_t ms;
} duration_units[] = {
	{ "ms", 1 },	       { "seconds", MS_PER_S },	  { "sec", MS_PER_S },
	{ "s", MS_PER_S },     { "min", MS_PER_MIN },	  { "m", MS_PER_MIN },
	{ "h", MS_PER_H },     { "days", MS_PER_DAY },	  { "day", MS_PER_DAY },
	{ "d", MS_PER_DAY },   { "minutes", MS_PER_MIN }, { "minute", MS_PER_MIN },
	{ "hours", MS_PER_H }, { "hour", MS_PER_H },
};

static uint64_t read_duration_unit(const char **pp)
{
	size_t len = 0;

	while (isalpha((unsigned char)(*pp)[len]))
		len++;
	for (size_t i = 0; i < ARRAY_LEN(duration_units); i++) {
		const char *name = duration_units[i].name;

		if (strlen(name) == len && strncmp(*pp, name, len) == 0) {
			*pp += len;
			return duration_units[i].ms;
		}
	}
	return 0;
}

static int not_a_duration(const char *text, struct err *e)
{
	return err_set(e, -EINVAL, "\"%s\" is not a duration; write it like 90s, 5m, 1h30m or 2d",
		       text);
}

static int not_a_limit(const char *text, struct err *e)
{
	return err_set(
		e, -EINVAL,
		"\"%s\" is not a duration; with : or - it is MM:SS, H:MM:SS, D-HH, D-HH:MM or "
		"D-HH:MM:SS",
		text);
}

int unit_parse_slurm_limit(const char *text, uint64_t *ret_ms, struct err *e)
{
	static const uint64_t units[] = { 24 * 3600, 3600, 60, 1 };
	const char *p = skip_blanks(text), *dash = strchr(p, '-');
	uint64_t parts[ARRAY_LEN(units)], s = 0;
	size_t n = 0, first;

	for (; *p; p += *p != '\0') {
		size_t len = strspn(p, "0123456789");

		if (!len || n == ARRAY_LEN(parts))
			return not_a_limit(text, e);
		if (len > 9)
			return too_large(text, e);
		parts[n++] = strtoull(p, NULL, 10);
		p += len;
		if (*p && (!p[1] || (*p == '-' ? p != dash || n != 1 : *p != ':')))
			return not_a_limit(text, e);
	}
	/* Without days three parts begin with hours, fewer with minutes. */
	first = dash ? 0 : n == 3 ? 1 : 2;
	if (!n || n + first > ARRAY_LEN(units))
		return not_a_limit(text, e);
	for (size_t i = 0; i < n; i++)
		s += parts[i] * units[first + i];
	*ret_ms = s * MS_PER_S;
	return 0;
}

/* Of digits and what stands between them there, and more than a number. */
static bool looks_like_slurm(const char *p)
{
	size_t digits = strspn(p, "0123456789");

	return strchr(p, ':') || (digits && p[digits] == '-');
}

int unit_parse_duration(const char *text, uint64_t *ret_ms, struct err *e)
{
	const char *p = skip_blanks(text);
	uint64_t total = 0;

	if (!*p)
		return not_a_duration(text, e);
	if (looks_like_slurm(p))
		return unit_parse_slurm_limit(text, ret_ms, e);
	while (*p) {
		const char *start = p;
		struct decimal d;
		uint64_t part;
		int r = read_decimal(&p, &d);

		if (r < 0)
			return r == -ERANGE ? too_large(text, e) : not_a_duration(text, e);
		p = skip_blanks(p);

		uint64_t unit = read_duration_unit(&p);

		if (!unit && !*p && is_zero(&d))
			unit = 1;
		if (!unit && !*p)
			return err_set(e, -EINVAL, "\"%s\" has no unit; did you mean %.*s%.*sm?",
				       text, (int)(start - skip_blanks(text)), skip_blanks(text),
				       (int)d.len, start);
		if (!unit)
			return not_a_duration(text, e);
		if (scale(&d, unit, &part) < 0 || __builtin_add_overflow(total, part, &total) ||
		    total > INT64_MAX)
			return too_large(text, e);
		p = skip_blanks(p);
	}
	*ret_ms = total;
	return 0;
}

int unit_parse_percent(const char *text, unsigned int *ret_permille, struct err *e)
{
	const char *p = skip_blanks(text);
	struct decimal d;
	uint64_t permille;

	if (read_decimal(&p, &d) < 0)
		return err_set(e, -EINVAL, "\"%s\" is not a percentage; write it like 75%%", text);
	p = skip_blanks(p);
	if (*p == '%')
		p = skip_blanks(p + 1);
	if (*p)
		return err_set(e, -EINVAL, "\"%s\" is not a percentage; write it like 75%%", text);
	if (scale(&d, 10, &permille) < 0 || permille > 1000)
		return err_set(e, -ERANGE, "\"%s\" is more than 100%%", text);
	*ret_permille = (unsigned int)permille;
	return 0;
}

int unit_parse_band(const char *text, struct util_band *ret, struct err *e)
{
	unsigned int v[3];
	const char *p = skip_blanks(text);

	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		struct decimal d;

		if (read_decimal(&p, &d) < 0 || d.fraction || d.whole > 100)
			goto bad;
		v[i] = (unsigned int)d.whole;
		p = skip_blanks(p);
		if (*p == '%')
			p = skip_blanks(p + 1);
		if (i + 1 < ARRAY_LEN(v) && *p++ != ',')
			goto bad;
		p = skip_blanks(p);
	}
	if (*p || v[0] > v[1] || v[1] >= v[2])
		goto bad;
	*ret = (struct util_band){ .low = v[0], .floor = v[1], .ceiling = v[2] };
	return 0;
bad:
	return err_set(e, -EINVAL,
		       "\"%s\" is not a band; write three rising percentages like 50,70,85", text);
}

void gpu_picks_clear(struct gpu_picks *list)
{
	free(list->picks);
	*list = (struct gpu_picks){ 0 };
}

static bool is_uuid_word(const char *word)
{
	if (strncasecmp(word, "GPU-", 4) != 0 && strncasecmp(word, "MIG-", 4) != 0)
		return false;
	if (!isxdigit((unsigned char)word[4]) && strncasecmp(word + 4, "GPU-", 4) != 0)
		return false;
	return word[4 + strspn(word + 4, "0123456789abcdefABCDEFGPU-/")] == '\0' &&
	       strlen(word) < GPU_PICK_UUID_MAX;
}

static int read_index(const char **pp, unsigned int *ret)
{
	unsigned int index = 0;

	if (!isdigit((unsigned char)**pp))
		return -EINVAL;
	for (; isdigit((unsigned char)**pp); (*pp)++) {
		index = index * 10 + (unsigned int)(**pp - '0');
		if (index >= GPU_PICKS_MAX)
			return -ERANGE;
	}
	*ret = index;
	return 0;
}

static int no_gpu(const char *word, struct err *e)
{
	const char *digits = word + strcspn(word, "0123456789");
	bool number = *digits && digits != word && !digits[strspn(digits, "0123456789")];

	/* "gpu0", "cuda:0" */
	if (number && (strncasecmp(word, "gpu", 3) == 0 || strncasecmp(word, "cuda", 4) == 0))
		return err_set(e, -EINVAL, "\"%s\" names no GPU; did you mean %s?", word, digits);
	return err_set(e, -EINVAL,
		       "\"%s\" names no GPU; write indices (0,1 or 0-3), a UUID that begins with "
		       "GPU- or MIG-, or all",
		       word);
}

/* "3" or "0-3". */
static int read_index_range(const char *word, unsigned int *ret_first, unsigned int *ret_last,
			    struct err *e)
{
	const char *p = word;
	unsigned int first, last;
	int r = read_index(&p, &first);

	last = first;
	if (r == 0 && *p == '-') {
		p++;
		r = read_index(&p, &last);
	}
	if (r == -ERANGE)
		return err_set(e, r, "\"%s\": GPUs are numbered from 0 to at most %d", word,
			       GPU_PICKS_MAX - 1);
	if (r < 0 || *p)
		return no_gpu(word, e);
	if (last < first)
		return err_set(e, -EINVAL, "\"%s\" runs backwards; did you mean %u-%u?", word, last,
			       first);
	*ret_first = first;
	*ret_last = last;
	return 0;
}

static void gpu_list_add(struct gpu_picks *list, const struct gpu_pick *pick)
{
	for (size_t i = 0; i < list->n; i++) {
		const struct gpu_pick *have = &list->picks[i];

		if (have->by_uuid == pick->by_uuid && have->index == pick->index &&
		    strcmp(have->uuid, pick->uuid) == 0)
			return;
	}
	list->picks = xrealloc(list->picks, list->n + 1, sizeof(*list->picks));
	list->picks[list->n++] = *pick;
}

static int gpu_list_add_word(struct gpu_picks *list, const char *word, struct err *e)
{
	struct gpu_pick pick = { 0 };
	unsigned int first = 0, last = 0;

	if (strcasecmp(word, "all") == 0) {
		list->all = true;
		return 0;
	}
	if (is_uuid_word(word)) {
		pick.by_uuid = true;
		(void)str_copy(pick.uuid, sizeof(pick.uuid), word);
		gpu_list_add(list, &pick);
	} else {
		int r = read_index_range(word, &first, &last, e);

		if (r < 0)
			return r;
		for (pick.index = first; pick.index <= last; pick.index++)
			gpu_list_add(list, &pick);
	}
	if (list->n > GPU_PICKS_MAX)
		return err_set(e, -ERANGE, "more than %d GPUs are named", GPU_PICKS_MAX);
	return 0;
}

/* Nothing between two commas, or before or behind one, is most likely a variable that was empty. */
static bool has_empty_item(const char *text)
{
	bool item = false, comma = false;

	for (; *text; text++) {
		if (*text == ',' && !item)
			return true;
		comma = *text == ',' || (comma && (*text == ' ' || *text == '\t'));
		item = *text != ',' && (item || (*text != ' ' && *text != '\t'));
	}
	return comma;
}

bool unit_is_gpu_word(const char *text)
{
	struct gpu_picks list;
	cleanup_free char *word = xstrdup(text);
	size_t len = strlen(word);

	/* "0, 1, 2" that a shell has taken apart. */
	if (len > 1 && word[len - 1] == ',')
		word[len - 1] = '\0';
	if (unit_parse_gpus(word, &list, NULL) < 0)
		return false;
	gpu_picks_clear(&list);
	return true;
}

int unit_parse_gpus(const char *text, struct gpu_picks *ret, struct err *e)
{
	struct gpu_picks list = { 0 };
	cleanup_free char *copy = xstrdup(text);
	char *save = NULL;
	int r = 0;

	for (char *w = strtok_r(copy, ", \t", &save); w && r == 0;
	     w = strtok_r(NULL, ", \t", &save))
		r = gpu_list_add_word(&list, w, e);
	if (r == 0 && !list.all && list.n == 0)
		r = err_set(e, -EINVAL, "no GPU is named; write 0,1 or all");
	else if (r == 0 && has_empty_item(text))
		r = err_set(e, -EINVAL, "\"%s\" has a comma with no GPU beside it", text);
	if (r == 0 && list.all && list.n > 0)
		r = err_set(e, -EINVAL, "\"%s\": all says it already, name no others", text);
	if (r < 0) {
		gpu_picks_clear(&list);
		return r;
	}
	*ret = list;
	return 0;
}

#define DATE_MIN_S 1000000000ULL /* 2001: a time of day alone lies before it */
#define TIME_MAX_S 9000000000 /* in nanoseconds it fits an int64_t, and no name has more digits */

static const char *const time_formats[] = {
	"%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d",
};

/* "Z", "+01:00", "+0100" at p, nothing behind it. */
static bool read_offset(const char *p, long *ret_s)
{
	int h, m, n = 0;
	char sign;

	if (strcmp(p, "Z") == 0) {
		*ret_s = 0;
		return true;
	}
	if (strlen(p) < 5 || (sscanf(p, "%c%2d:%2d%n", &sign, &h, &m, &n) != 3 &&
			      sscanf(p, "%c%2d%2d%n", &sign, &h, &m, &n) != 3))
		return false;
	if ((sign != '+' && sign != '-') || p[n] || h < 0 || h > 14 || m < 0 || m > 59)
		return false;
	*ret_s = (h * 3600L + m * 60L) * (sign == '-' ? -1 : 1);
	return true;
}

/* A date with a time of day. 0, or -EINVAL when the text is none or the day does not exist. */
static int read_date(const char *text, time_t *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(time_formats); i++) {
		struct tm tm = { .tm_isdst = -1 };
		const char *rest = strptime(text, time_formats[i], &tm);
		long offset = 0;
		int day = tm.tm_mday;

		if (!rest)
			continue;
		if (rest[0] == '.' && isdigit((unsigned char)rest[1]))
			rest += 1 + strspn(rest + 1, "0123456789");

		bool zoned = *rest && read_offset(rest, &offset);

		if (*rest && !zoned)
			continue;

		time_t t = zoned ? timegm(&tm) - offset : mktime(&tm);

		if (t == (time_t)-1 || tm.tm_mday != day)
			return -EINVAL;
		*ret = t;
		return 0;
	}
	return -EINVAL;
}

/* "18:30", "noon": the time of day in tm. */
static int read_time_of_day(const char *text, struct tm *tm)
{
	static const char *const formats[] = { "%H:%M:%S", "%H:%M" };
	bool noon = strcasecmp(text, "noon") == 0;

	tm->tm_hour = noon ? 12 : 0;
	tm->tm_min = tm->tm_sec = 0;
	if (noon || strcasecmp(text, "midnight") == 0)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(formats); i++) {
		struct tm found = *tm;
		const char *rest = strptime(text, formats[i], &found);

		if (rest && !*rest) {
			*tm = found;
			return 0;
		}
	}
	return -EINVAL;
}

static time_t days_on(struct tm *tm, int days)
{
	tm->tm_mday += days;
	tm->tm_isdst = -1;
	return mktime(tm);
}

/* "18:30": today's; tomorrow's when that has passed, or, of the past, yesterday's when it has not.
 */
static int read_clock(const char *text, time_t now, bool past, time_t *ret)
{
	struct tm tm;

	(void)localtime_r(&now, &tm);
	if (read_time_of_day(text, &tm) < 0)
		return -EINVAL;
	*ret = days_on(&tm, 0);
	if (past ? *ret > now : *ret <= now)
		*ret = days_on(&tm, past ? -1 : 1);
	return 0;
}

/* A day is its midnight, or with a time of day behind it that; to come, "today" is now. */
static int read_day(const char *text, time_t now, bool past, time_t *ret)
{
	static const struct {
		const char *word;
		int from_today;
	} days[] = { { "yesterday", -1 }, { "today", 0 }, { "tomorrow", 1 } };
	struct tm tm;

	(void)localtime_r(&now, &tm);
	for (size_t i = 0; i < ARRAY_LEN(days); i++) {
		size_t len = strlen(days[i].word);
		const char *rest = text + len;

		if (strncasecmp(text, days[i].word, len) != 0 || (*rest && *rest != ' '))
			continue;
		rest = skip_blanks(rest);
		if (!*rest && !days[i].from_today && !past) {
			*ret = now;
			return 0;
		}
		if (read_time_of_day(*rest ? rest : "midnight", &tm) < 0)
			return -EINVAL;
		*ret = days_on(&tm, days[i].from_today);
		return 0;
	}
	return -EINVAL;
}

/* "now", "+1h30m", "now+1h30m". 1: it is none of them. */
static int read_from_now(const char *text, time_t now, time_t *ret, struct err *e)
{
	const char *p = strncasecmp(text, "now", 3) == 0 ? skip_blanks(text + 3) : text;
	uint64_t ms = 0;
	int r;

	if (p == text && *p != '+')
		return 1;
	if (*p && *p != '+')
		return 1;
	r = *p ? unit_parse_duration(p + 1, &ms, e) : 0;
	if (r < 0)
		return err_wrap(e, "\"%s\"", text);
	if (ms / MS_PER_S > TIME_MAX_S)
		return too_large(text, e);
	*ret = now + (time_t)(ms / MS_PER_S);
	return 0;
}

/* 0: it is now or counted from there; 1: another moment; negative. */
static int read_moment(const char *text, time_t now, bool past, time_t *ret, struct err *e)
{
	int r = read_from_now(text, now, ret, e);

	if (r <= 0)
		return r;
	if (read_clock(text, now, past, ret) < 0 && read_day(text, now, past, ret) < 0 &&
	    read_date(text, ret) < 0)
		return err_set(e, -EINVAL, "\"%s\" is not a time; write it like %s", text,
			       past ? "7d, 12h (so long ago), 08:00, today, yesterday, \"yesterday "
				      "08:00\", 2026-11-20 or \"2026-11-20 08:00\""
				    : "18:30, +1h30m, tomorrow, \"tomorrow 08:00\" or "
				      "\"2026-11-22 08:00\"");
	return 1;
}

int unit_parse_time(const char *text, uint64_t now_wall_ns, uint64_t *ret_wall_ns, struct err *e)
{
	time_t now = (time_t)(now_wall_ns / NS_PER_S), t = now;
	const char *p = skip_blanks(text);
	int r = read_moment(p, now, false, &t, e);

	if (r < 0)
		return r;
	if (t < now || (t == now && r && strncasecmp(p, "today", 5) != 0))
		return err_set(e, -ERANGE, "\"%s\" has passed", text);
	if (t > TIME_MAX_S)
		return err_set(e, -ERANGE, "\"%s\" is after the year 2255", text);
	*ret_wall_ns = (uint64_t)t * NS_PER_S;
	return 0;
}

int unit_parse_past(const char *text, uint64_t now_wall_ns, uint64_t *ret_wall_ns, struct err *e)
{
	time_t now = (time_t)(now_wall_ns / NS_PER_S), t = now;
	uint64_t ms;
	int r;

	/* 08:00 is one of the day here. */
	if (!strchr(text, ':') && unit_parse_duration(text, &ms, NULL) == 0) {
		*ret_wall_ns = ms < now_wall_ns / NS_PER_MS ? now_wall_ns - ms * NS_PER_MS : 0;
		return 0;
	}
	r = read_moment(skip_blanks(text), now, true, &t, e);
	if (r < 0)
		return r;
	if (t > now)
		return err_set(e, -ERANGE, "\"%s\" is yet to come", text);
	*ret_wall_ns = t > 0 ? (uint64_t)t * NS_PER_S : 0;
	return 0;
}

bool unit_time_is_dated(uint64_t wall_ns)
{
	return wall_ns >= DATE_MIN_S * NS_PER_S;
}

const char *unit_format_gib(uint64_t bytes, char *buf)
{
	if (bytes && bytes < 10 * MIB)
		return str_print(buf, UNIT_TEXT_MAX, "%" PRIu64 " KiB",
				 (uint64_t)((bytes + KIB - 1) / KIB));
	return str_print(buf, UNIT_TEXT_MAX, "%.1f GiB", (double)bytes / (double)GIB);
}

const char *unit_format_duration(uint64_t ms, char *buf)
{
	uint64_t s = ms / MS_PER_S, m = s / 60, h = m / 60, d = h / 24;

	if (ms && ms < MS_PER_S)
		return str_print(buf, UNIT_TEXT_MAX, "%" PRIu64 "ms", ms);
	if (!m)
		return str_print(buf, UNIT_TEXT_MAX, "%" PRIu64 "s", s);
	if (!h)
		return str_print(buf, UNIT_TEXT_MAX, "%" PRIu64 "m %02" PRIu64 "s", m, s % 60);
	if (!d)
		return str_print(buf, UNIT_TEXT_MAX, "%" PRIu64 "h %02" PRIu64 "m", h, m % 60);
	return str_print(buf, UNIT_TEXT_MAX, "%" PRIu64 "d %" PRIu64 "h", d, h % 24);
}

/* 72192 of a unit as "70.5" of the next, where few digits say it exactly. */
static bool format_fraction(uint64_t n, char letter, char *buf)
{
	int digits = 1;

	for (uint64_t scale = 10; scale <= 1000 && n > 1024 && n < UINT64_MAX / 1000;
	     scale *= 10, digits++) {
		if (n * scale % 1024)
			continue;
		n = n * scale / 1024;
		(void)str_print(buf, UNIT_TEXT_MAX, "%" PRIu64 ".%0*" PRIu64 "%c", n / scale,
				digits, n % scale, letter);
		return true;
	}
	return false;
}

const char *unit_format_size_exact(uint64_t bytes, char *buf)
{
	static const char letters[] = "BKMGT";
	size_t i = 0;

	if (!bytes)
		return str_print(buf, UNIT_TEXT_MAX, "0");
	while (letters[i + 1] && bytes % 1024 == 0) {
		bytes /= 1024;
		i++;
	}
	if (letters[i + 1] && format_fraction(bytes, letters[i + 1], buf))
		return buf;
	return str_print(buf, UNIT_TEXT_MAX, "%" PRIu64 "%c", bytes, letters[i]);
}

const char *unit_format_duration_exact(uint64_t ms, char *buf)
{
	static const struct duration_unit units[] = {
		{ "d", MS_PER_DAY }, { "h", MS_PER_H }, { "m", MS_PER_MIN },
		{ "s", MS_PER_S },   { "ms", 1 },
	};
	size_t len = 0;

	if (!ms)
		return str_print(buf, UNIT_TEXT_MAX, "0");
	for (size_t i = 0; i < ARRAY_LEN(units) && ms; i++) {
		if (ms < units[i].ms)
			continue;
		(void)str_print(buf + len, UNIT_TEXT_MAX - len, "%" PRIu64 "%s", ms / units[i].ms,
				units[i].name);
		len = strlen(buf);
		ms %= units[i].ms;
	}
	return buf;
}

const char *unit_format_permille(unsigned int permille, char *buf)
{
	if (permille % 10 == 0)
		return str_print(buf, UNIT_TEXT_MAX, "%u%%", permille / 10);
	return str_print(buf, UNIT_TEXT_MAX, "%u.%u%%", permille / 10, permille % 10);
}

const char *unit_format_mem(const struct mem_spec *spec, char *buf)
{
	char size[UNIT_TEXT_MAX];

	switch (spec->kind) {
	case MEM_SPEC_SHARE:
		return unit_format_permille(spec->permille, buf);
	case MEM_SPEC_ALL_BUT:
		if (!spec->bytes)
			return str_print(buf, UNIT_TEXT_MAX, "all");
		return str_print(buf, UNIT_TEXT_MAX, "all-%s",
				 unit_format_size_exact(spec->bytes, size));
	case MEM_SPEC_BYTES:
	case MEM_SPEC_MAX:
		break;
	}
	return unit_format_size_exact(spec->bytes, buf);
}

/* A number that is a part of a text. */
static int parse_part(const char *text, size_t len, uint64_t *ret)
{
	char part[24];

	if (!len || len >= sizeof(part))
		return -EINVAL;
	(void)str_copy(part, len + 1, text);
	return str_to_u64(part, ret);
}

int unit_parse_range(const char *text, uint64_t most, struct index_range *ret, struct err *e)
{
	struct index_range a = { .set = true };
	size_t percent = strcspn(text, "%");
	size_t dash = strcspn(text, "-%");
	bool single = text[dash] != '-';
	int r = parse_part(text, dash, &a.from);

	a.to = a.from;
	if (r == 0 && !single)
		r = parse_part(text + dash + 1, percent - dash - 1, &a.to);
	if (r == 0 && text[percent])
		r = str_to_u64(text + percent + 1, &a.limit) < 0 || !a.limit ? -EINVAL : 0;
	if (r < 0)
		return err_set(
			e, -EINVAL,
			"\"%.80s\" is no range of indices; write 1-100, or 1-100%%4 for four at once",
			text);
	if (a.to < a.from)
		return err_set(e, -EINVAL, "\"%.80s\" ends before it begins", text);
	if (a.to - a.from >= most || a.to > UINT32_MAX)
		return err_set(e, -ERANGE, "\"%.80s\" has more than %" PRIu64 " elements", text,
			       most);
	*ret = a;
	return 0;
}

const char *unit_format_range(const struct index_range *range, char *buf)
{
	if (!range->limit)
		return str_print(buf, UNIT_TEXT_MAX, "%" PRIu64 "-%" PRIu64, range->from,
				 range->to);
	return str_print(buf, UNIT_TEXT_MAX, "%" PRIu64 "-%" PRIu64 "%%%" PRIu64, range->from,
			 range->to, range->limit);
}
