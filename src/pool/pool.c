/* SPDX-License-Identifier: MIT */
#include "pool/pool.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/enumstr.h"
#include "base/hash.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/units.h"
#include "spool/ident.h"
#include "spool/instance.h"

/* ---- the keys of a pool file ---- */

enum kind { UINT, U64, FLAG, TEXT, STRING, TEXTS };

struct key {
	const char *name;
	const char *said; /* by what `up` is told it; NULL: nobody says it */
	enum kind kind;
	size_t at;
	uint64_t min, max; /* of numbers; of a STRING its size */
};

#define KEY(key, said, kind, field, ...)                                                           \
	{                                                                                          \
		key, said, kind, offsetof(struct pool, field), __VA_ARGS__                         \
	}

static const struct key keys[] = {
	KEY("engine", "--engine", STRING, engine, 1, sizeof(((struct pool *)0)->engine)),
	KEY("prefix", "--prefix", STRING, prefix, 1, sizeof(((struct pool *)0)->prefix)),
	KEY("user", NULL, STRING, user, 0, sizeof(((struct pool *)0)->user)),
	KEY("host", NULL, STRING, host, 0, sizeof(((struct pool *)0)->host)),
	KEY("gpus", "--gpus", UINT, gpus, 0, POOL_GPUS_MAX),
	KEY("cpus", "--cpus", UINT, cpus, 0, 4096),
	KEY("mem_mib", "--node-memory", U64, mem_mib, 0, POOL_MEM_MIB_MAX),
	KEY("first", "--nodes", UINT, first, 0, POOL_JOBS_MAX),
	KEY("min", "--min", UINT, min, 0, POOL_JOBS_MAX),
	KEY("max", "--max", UINT, max, 0, POOL_JOBS_MAX),
	KEY("total_gpus", "--total-gpus", UINT, total_gpus, 0, POOL_JOBS_MAX *POOL_GPUS_MAX),
	KEY("time_ms", "--time", U64, time_ms, 0, VALUE_DURATION_MAX),
	KEY("keep_ms", "--keep-for", U64, keep_ms, 0, VALUE_DURATION_MAX),
	KEY("idle_ms", "--idle-exit", U64, idle_ms, 0, VALUE_DURATION_MAX),
	KEY("start_ms", "--start-limit", U64, start_ms, 1000, VALUE_DURATION_MAX),
	KEY("lead_s", "--signal-lead", UINT, lead_s, 0, 86400),
	KEY("relay", "--relay", FLAG, relay, 0, 0),
	KEY("only", "--only", FLAG, only, 0, 0),
	KEY("down", NULL, FLAG, down, 0, 0),
	KEY("type", "--type", TEXT, type, 0, 0),
	KEY("template", "--template", TEXT, template_path, 0, 0),
	KEY("program", NULL, TEXT, program, 0, 0),
	KEY("dir", NULL, TEXT, dir, 0, 0),
	KEY("options", "behind --", TEXTS, options, 0, 0),
	KEY("drop", "--drop", TEXTS, drop, 0, 0),
	KEY("settings", "--set", TEXTS, settings, 0, 0),
	KEY("agent", "--agent-option", TEXTS, agent, 0, 0),
	KEY("asked_ns", NULL, U64, asked_ns, 0, INT64_MAX),
};

static void *field(const struct pool *p, const struct key *k)
{
	return (char *)(uintptr_t)p + k->at;
}

static int bad_number(const struct key *k, struct err *e)
{
	return err_set(e, -EINVAL, "a whole number from %" PRIu64 " to %" PRIu64 " is wanted",
		       k->min, k->max);
}

static int take_number(const struct key *k, const json_t *v, struct pool *p, struct err *e)
{
	json_int_t n = json_integer_value(v);

	if (!json_is_integer(v) || n < 0 || (uint64_t)n < k->min || (uint64_t)n > k->max)
		return bad_number(k, e);
	if (k->kind == UINT)
		*(unsigned int *)field(p, k) = (unsigned int)n;
	else
		*(uint64_t *)field(p, k) = (uint64_t)n;
	return 0;
}

/* Lines of a script are made of these: one with a newline would be two. */
static bool is_line(const char *text)
{
	for (; *text; text++)
		if (iscntrl((unsigned char)*text))
			return false;
	return true;
}

static int take_text(const struct key *k, const json_t *v, struct pool *p, struct err *e)
{
	const char *text = json_string_value(v);

	if (!text || !is_line(text))
		return err_set(e, -EINVAL, "a text of one line in UTF-8 is wanted");
	if (k->kind == TEXT) {
		char **at = field(p, k);

		free(*at);
		*at = text[0] ? xstrdup(text) : NULL;
		return 0;
	}
	if (strlen(text) < k->min || strlen(text) >= k->max)
		return err_set(e, -EINVAL, "a text of %" PRIu64 " to %" PRIu64 " bytes is wanted",
			       k->min, k->max - 1);
	(void)str_copy(field(p, k), k->max, text);
	return 0;
}

static int take_texts(const struct key *k, const json_t *v, struct pool *p, struct err *e)
{
	struct text_list *l = field(p, k);
	const json_t *one;
	size_t i;

	if (!json_is_array(v))
		return err_set(e, -EINVAL, "a list of texts is wanted");
	json_array_foreach(v, i, one)
	{
		const char *text = json_string_value(one);

		if (!text || !is_line(text))
			return err_set(e, -EINVAL,
				       "number %zu: a text of one line in UTF-8 is wanted", i + 1);
		text_list_add(l, text);
	}
	return 0;
}

static int take_value(const struct key *k, const json_t *v, struct pool *p, struct err *e)
{
	switch (k->kind) {
	case UINT:
	case U64:
		return take_number(k, v, p, e);
	case FLAG:
		if (!json_is_boolean(v))
			return err_set(e, -EINVAL, "true or false is wanted");
		*(bool *)field(p, k) = json_is_true(v);
		return 0;
	case TEXTS:
		return take_texts(k, v, p, e);
	case TEXT:
	case STRING:
		break;
	}
	return take_text(k, v, p, e);
}

static json_t *texts_json(const struct text_list *l)
{
	json_t *a = json_array();

	for (size_t i = 0; i < l->n; i++) {
		json_t *text = json_string(l->texts[i]);

		/* What is no UTF-8 is not left out unseen: nobody takes a null for a text. */
		(void)json_array_append_new(a, text ? text : json_null());
	}
	return a;
}

static json_t *pool_value_json(const struct key *k, const struct pool *p)
{
	const void *at = field(p, k);

	switch (k->kind) {
	case UINT:
		return json_integer(*(const unsigned int *)at);
	case U64:
		return json_integer((json_int_t) * (const uint64_t *)at);
	case FLAG:
		return json_boolean(*(const bool *)at);
	case STRING:
		return json_string(at);
	case TEXTS:
		return texts_json(at);
	case TEXT:
		break;
	}
	return json_string(*(char *const *)at);
}

/* ---- a pool ---- */

void pool_clear(struct pool *p)
{
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		if (keys[i].kind == TEXTS)
			text_list_clear(field(p, &keys[i]));
		if (keys[i].kind == TEXT)
			free(take_ptr(*(char **)field(p, &keys[i])));
	}
}

int pool_parse(const char *name, const char *text, size_t len, struct pool *ret, struct err *e)
{
	json_error_t je;
	json_t *doc = json_loadb(text, len, 0, &je);
	int r = 0;

	*ret = (struct pool){
		.prefix = POOL_PREFIX, .max = 1, .idle_ms = POOL_IDLE_MS, .start_ms = POOL_START_MS
	};
	(void)str_copy(ret->name, sizeof(ret->name), name);
	if (!json_is_object(doc))
		r = doc ? err_set(e, -EINVAL, "it is no JSON object")
			: err_set(e, -EINVAL, "line %d: %s", je.line, je.text);
	for (size_t i = 0; i < ARRAY_LEN(keys) && r == 0; i++) {
		const json_t *v = json_object_get(doc, keys[i].name);

		if (v && !json_is_null(v) && (r = take_value(&keys[i], v, ret, e)) < 0)
			(void)err_wrap(e, "%s", keys[i].name);
	}
	json_decref(doc);
	return r == 0 ? pool_check(ret, e) : r;
}

char *pool_text(const struct pool *p)
{
	json_t *doc = json_object();
	char *text;

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (keys[i].kind != TEXT || *(char *const *)field(p, &keys[i]))
			(void)json_object_set_new(doc, keys[i].name, pool_value_json(&keys[i], p));
	text = json_dumps(doc, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
	json_decref(doc);
	return text;
}

/* A job's name begins with it, for all engines. */
static bool is_prefix(const char *text)
{
	if (!isalpha((unsigned char)text[0]))
		return false;
	for (; *text; text++)
		if (!isalnum((unsigned char)*text) && *text != '-')
			return false;
	return true;
}

/* What is written can be read again: a file that cannot would be in everybody's way. */
static int check_values(const struct pool *p, struct err *e)
{
	struct pool again = { .gpus = 0 };
	cleanup_free char *text = pool_text(p);
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(keys) && r == 0; i++) {
		const struct key *k = &keys[i];
		json_t *v;

		if ((k->kind == TEXT && !*(char *const *)field(p, k)) ||
		    (k->kind == STRING && !*(const char *)field(p, k)))
			continue;
		v = pool_value_json(k, p);
		r = v ? take_value(k, v, &again, e)
		      : err_set(e, -EINVAL, "a text of one line in UTF-8 is wanted");
		json_decref(v);
		if (r < 0)
			(void)err_wrap(e, "%s", k->said ? k->said : k->name);
	}
	pool_clear(&again);
	if (r == 0 && (!text || strlen(text) > POOL_FILE_MAX))
		r = err_set(e, -EFBIG, "all that is said of a pool is at most %d bytes",
			    POOL_FILE_MAX);
	return r;
}

int pool_check_limits(const struct pool *p, struct err *e)
{
	if (!pool_is_name(p->name))
		return err_set(e, -EINVAL,
			       "\"%.40s\" is no name of a pool; use up to %d letters, digits and "
			       ". _ -",
			       p->name, POOL_NAME_MAX);
	if (!is_prefix(p->prefix))
		return err_set(e, -EINVAL,
			       "--prefix: a letter, then letters, digits and - are wanted");
	if (!p->max || p->min > p->max)
		return err_set(e, -EINVAL, "--max %u: it is at least 1, and at least --min (%u)",
			       p->max, p->min);
	if (p->program && p->program[0] != '/')
		return err_set(e, -EINVAL, "program: an absolute path is wanted");
	if (p->total_gpus && p->gpus > p->total_gpus)
		return err_set(e, -EINVAL,
			       "a node has %u GPUs (--gpus), and all together may have no more "
			       "than %u (--total-gpus)",
			       p->gpus, p->total_gpus);
	return check_values(p, e);
}

int pool_check_time(const struct pool *p, struct err *e)
{
	uint64_t lead_ms = p->lead_s * MS_PER_S, least_ms;
	char lead[UNIT_TEXT_MAX], whole[UNIT_TEXT_MAX], least[UNIT_TEXT_MAX];

	if (lead_ms < POOL_LEAVE_MS)
		lead_ms = POOL_LEAVE_MS;
	least_ms = lead_ms + MS_PER_MIN;
	if (!p->time_ms || p->time_ms >= least_ms)
		return 0;
	return err_set(
		e, -EINVAL,
		"time: of a job of %s nothing is left for tasks, because its agent leaves %s "
		"before the end (--signal-lead, two minutes at least); %s is the least",
		unit_format_duration_exact(p->time_ms, whole),
		unit_format_duration_exact(lead_ms, lead),
		unit_format_duration_exact(least_ms, least));
}

int pool_check(const struct pool *p, struct err *e)
{
	int r = pool_check_limits(p, e);

	if (r == 0 && !engine_find(p->engine))
		r = err_set(
			e, -EINVAL,
			"--engine: there is no \"%s\" (tenure engines lists those that there are)",
			p->engine);
	return r;
}

bool pool_is_here(const struct spool *sp, const struct pool *p)
{
	return !p->host[0] || strcmp(p->host, spool_host(sp)) == 0;
}

static uint32_t add_text(uint32_t sum, const char *text)
{
	return hash_fnv32(hash_fnv32(sum, text ? text : ""), "\n");
}

static uint32_t add_list(uint32_t sum, const struct text_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		sum = add_text(sum, l->texts[i]);
	return add_text(sum, NULL);
}

uint32_t pool_shape(const struct pool *p)
{
	cleanup_free char *numbers =
		xasprintf("%u %u %llu %llu", p->gpus, p->cpus, (unsigned long long)p->mem_mib,
			  (unsigned long long)p->time_ms);
	uint32_t sum = add_text(add_text(HASH_FNV32, p->engine), numbers);

	sum = add_text(add_text(sum, p->type), p->template_path);
	sum = add_list(add_list(add_list(sum, &p->options), &p->drop), &p->settings);
	return sum ? sum : 1;
}

unsigned int pool_cap(const struct pool *p)
{
	unsigned int by_gpus = p->total_gpus && p->gpus ? p->total_gpus / p->gpus : p->max;

	return by_gpus < p->max ? by_gpus : p->max;
}

/* ---- files ---- */

#define SUFFIX ".json"

bool pool_is_name(const char *name)
{
	return ident_is_name(name) && strlen(name) <= POOL_NAME_MAX && !strchr(name, '+');
}

char *pool_path(const char *name, char *buf)
{
	return str_print(buf, SPOOL_PATH_MAX, "%s/%s" SUFFIX, spool_dir_name(SPOOL_POOLS), name);
}

char *pool_path_of(const char *name, const char *what, char *buf)
{
	return str_print(buf, SPOOL_PATH_MAX, "%s/%s,%s", spool_dir_name(SPOOL_POOLS), name, what);
}

bool pool_none(const struct spool *sp, int r)
{
	return r == -ENOENT && spool_is_gone(sp, spool_dir_name(SPOOL_POOLS));
}

int pool_read(const struct spool *sp, const char *name, struct pool *ret, struct err *e)
{
	char path[SPOOL_PATH_MAX];
	cleanup_free char *text = NULL;
	struct err why = ERR_INIT;
	size_t len;
	int r = spool_read(sp, pool_path(name, path), POOL_FILE_MAX, &text, &len, e);

	*ret = (struct pool){ .gpus = 0 };
	if (!pool_none(sp, r))
		r = spool_confirm(sp, path, r, e);
	if (r == -ENOENT)
		return err_set(e, r, "instance %s has no pool \"%s\" (tenure up makes one)",
			       spool_instance(sp), name);
	if (r < 0)
		return r;
	r = pool_parse(name, text, len, ret, &why);
	if (r < 0)
		(void)err_set(e, r,
			      "%s/%s: %s; correct it, or remove that file and call tenure up %s "
			      "again",
			      spool_path_of(sp), path, why.text, spool_instance(sp));
	return r;
}

int pool_write(const struct spool *sp, const struct pool *p, struct err *e)
{
	char path[SPOOL_PATH_MAX], tmp[SPOOL_PATH_MAX];
	cleanup_free char *text = pool_text(p);
	int r = pool_check(p, e);

	if (r == 0)
		r = spool_make_dir(sp, SPOOL_POOLS, e);
	if (r < 0)
		return r;
	(void)spool_tmp_path(sp, "pool", 0, tmp);
	r = spool_write_new(sp, tmp, text, strlen(text), true, e);
	if (r == 0)
		r = spool_rename(sp, tmp, pool_path(p->name, path), e);
	return r == 0 ? spool_sync_dirs(sp, SPOOL_BIT(SPOOL_POOLS), e) : r;
}

static int add_name(void *data, const char *file, unsigned char type)
{
	char name[POOL_NAME_MAX + 1];
	size_t n = strlen(file);

	(void)type;
	if (!str_has_suffix(file, SUFFIX) || n - strlen(SUFFIX) > POOL_NAME_MAX)
		return 0;
	(void)str_print(name, sizeof(name), "%.*s", (int)(n - strlen(SUFFIX)), file);
	if (pool_is_name(name))
		text_list_add(data, name);
	return 0;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int pool_list(const struct spool *sp, struct text_list *ret, struct err *e)
{
	int r = spool_each(sp, spool_dir_name(SPOOL_POOLS), add_name, ret, e);

	if (ret->n)
		qsort(ret->texts, ret->n, sizeof(*ret->texts), by_text);
	return pool_none(sp, r) ? 0 : r;
}

/* ---- what came of the last tick ---- */

#define STATE "state"

#define COUNT(name, command, member)                                                               \
	{                                                                                          \
		(name), offsetof(struct pool_state, commands[command].member), 1                   \
	}
#define COUNTS(name, command)                                                                      \
	COUNT(name "_commands", command, n), COUNT(name "_errors", command, errors),               \
		COUNT(name "_ms", command, ms)

const char *pool_command_name(unsigned int command)
{
	static const char *const names[] = { [POOL_COMMAND_JOBS] = "jobs",
					     [POOL_COMMAND_SUBMIT] = "submit",
					     [POOL_COMMAND_CANCEL] = "cancel" };

	return enum_name(names, ARRAY_LEN(names), command);
}

static const struct {
	const char *name;
	size_t at, size; /* size 0: unsigned int; 1: uint64_t */
} state_keys[] = {
	{ "ticked", offsetof(struct pool_state, ticked_s), 1 },
	{ "polled", offsetof(struct pool_state, polled_s), 1 },
	{ "tried", offsetof(struct pool_state, tried_s), 1 },
	{ "refusals", offsetof(struct pool_state, refusals), 0 },
	{ "lost", offsetof(struct pool_state, lost), 0 },
	{ "vain", offsetof(struct pool_state, vain), 0 },
	{ "given", offsetof(struct pool_state, given), 0 },
	{ "asked_ns", offsetof(struct pool_state, asked_ns), 1 },
	{ "wanted", offsetof(struct pool_state, wanted), 0 },
	{ "live", offsetof(struct pool_state, live), 0 },
	{ "waiting", offsetof(struct pool_state, waiting), 0 },
	{ "cap", offsetof(struct pool_state, cap), 0 },
	{ "unfit", offsetof(struct pool_state, unfit), 0 },
	COUNTS("jobs", POOL_COMMAND_JOBS),
	COUNTS("submit", POOL_COMMAND_SUBMIT),
	COUNTS("cancel", POOL_COMMAND_CANCEL),
	{ "next", offsetof(struct pool_state, next), sizeof(((struct pool_state *)0)->next) },
	{ "error", offsetof(struct pool_state, error), sizeof(((struct pool_state *)0)->error) },
	{ "pause", offsetof(struct pool_state, pause), sizeof(((struct pool_state *)0)->pause) },
};

bool pool_state_parse(const char *text, size_t len, struct pool_state *ret)
{
	json_t *doc = json_loadb(text, len, 0, NULL);
	bool good = json_is_object(doc);

	*ret = (struct pool_state){ .ticked_s = 0 };
	for (size_t i = 0; i < ARRAY_LEN(state_keys) && good; i++) {
		void *at = (char *)ret + state_keys[i].at;
		const char *name = state_keys[i].name;

		if (state_keys[i].size == 0)
			*(unsigned int *)at = json_get_small(doc, name, POOL_JOBS_MAX * 64);
		else if (state_keys[i].size == 1)
			*(uint64_t *)at = json_get_u64(doc, name);
		else
			json_get_text(doc, name, at, state_keys[i].size);
	}
	ret->paused = good && json_get_flag(doc, "paused");
	json_decref(doc);
	return good;
}

int pool_state_read(const struct spool *sp, const char *name, struct pool_state *ret, struct err *e)
{
	char path[SPOOL_PATH_MAX];
	cleanup_free char *text = NULL;
	struct err why = ERR_INIT;
	size_t len;
	int r = spool_read(sp, pool_path_of(name, STATE, path), POOL_FILE_MAX, &text, &len, &why);

	*ret = (struct pool_state){ .ticked_s = 0 };
	r = spool_confirm(sp, path, r, &why);
	if (r == 0)
		(void)pool_state_parse(text, len, ret);
	if (r == 0 || r == -ENOENT || r == -EFBIG || r == -EINVAL || r == -ELOOP)
		return 0;
	return err_set(e, r, "%s", why.text);
}

int pool_state_write(const struct spool *sp, const char *name, const struct pool_state *st,
		     struct err *e)
{
	char path[SPOOL_PATH_MAX];
	json_t *doc = json_object();
	char *text;
	int r;

	for (size_t i = 0; i < ARRAY_LEN(state_keys); i++) {
		const void *at = (const char *)st + state_keys[i].at;
		json_t *v = state_keys[i].size == 0 ? json_integer(*(const unsigned int *)at)
			    : state_keys[i].size == 1
				    ? json_integer((json_int_t) * (const uint64_t *)at)
				    : json_new_text(at);

		(void)json_object_set_new(doc, state_keys[i].name, v);
	}
	(void)json_object_set_new(doc, "paused", json_boolean(st->paused));
	text = json_dumps(doc, JSON_INDENT(2));
	json_decref(doc);
	r = spool_replace(sp, pool_path_of(name, STATE, path), text, strlen(text), e);
	free(text);
	return r;
}
