/* SPDX-License-Identifier: MIT */
#include "alloc/alloc.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/enumstr.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "spool/task_text.h"

#define MARK_MAX  4096
#define STATE_MAX 65536

static const char *const phases[] = {
	[ALLOC_WAITING] = "waiting", [ALLOC_RUNNING] = "running", [ALLOC_ENDED] = "ended"
};
_Static_assert(ARRAY_LEN(phases) == ALLOC_PHASE_MAX, "a name for every phase");

const char *alloc_phase_name(unsigned int phase)
{
	return enum_name(phases, ARRAY_LEN(phases), phase);
}

#define POOL "alloc-"

char *alloc_pool_name(uint64_t id, char *buf)
{
	return str_print(buf, ALLOC_POOL_MAX, POOL "%" PRIu64, id);
}

uint64_t alloc_of_pool(const char *name)
{
	uint64_t id;

	return str_has_prefix(name, POOL) && str_to_u64(name + strlen(POOL), &id) == 0 ? id : 0;
}

/* "allocs/42.json", "allocs/42,state" */
static char *file_path(uint64_t id, const char *what, char *buf)
{
	return str_print(buf, SPOOL_PATH_MAX, "%s/%" PRIu64 "%s", spool_dir_name(SPOOL_ALLOCS), id,
			 what);
}

static char *order_path(uint64_t id, unsigned int n, char *buf)
{
	char what[32];

	return file_path(id, str_print(what, sizeof(what), ",start.%u", n), buf);
}

/* What a call about allocs/ has given: an instance that an older version has made lacks it. */
static int or_none(const struct spool *sp, int r)
{
	return r == -ENOENT && spool_is_gone(sp, spool_dir_name(SPOOL_ALLOCS)) ? 0 : r;
}

/* ---- marks ---- */

int alloc_mark_write(const struct spool *sp, const struct alloc_mark *mark, struct err *e)
{
	cleanup_free char *text =
		xasprintf("{\"version\": 1, \"kind\": \"%s\", \"pool\": \"%s\", \"gpus\": %u}\n",
			  alloc_kind_name(mark->kind), mark->pool, mark->gpus);
	char path[SPOOL_PATH_MAX];
	int r = spool_make_dir(sp, SPOOL_ALLOCS, e);

	if (r == 0)
		r = spool_write_new(sp, file_path(mark->id, ".json", path), text, strlen(text),
				    true, e);
	return r == 0 ? spool_sync_dirs(sp, SPOOL_BIT(SPOOL_ALLOCS), e) : r;
}

/* "42.json", "42,state": its id, and what follows. */
static bool parse_file(const char *file, uint64_t *ret_id, const char **ret_what)
{
	size_t n = strspn(file, "0123456789");
	char digits[24];

	if (!n || n >= sizeof(digits))
		return false;
	(void)str_copy(digits, n + 1, file);
	*ret_what = file + n;
	return str_to_u64(digits, ret_id) == 0 && *ret_id;
}

struct gathering {
	const struct spool *sp;
	struct alloc_marks *marks;
	struct err *e;
};

static int add_mark(void *data, const char *file, unsigned char type)
{
	struct gathering *g = data;
	struct alloc_mark mark = { .kind = ALLOC_MANUAL };
	cleanup_free char *text = NULL;
	char path[SPOOL_PATH_MAX];
	const char *what, *kind;
	size_t len;
	json_t *doc;
	int r;

	if (!parse_file(file, &mark.id, &what) || strcmp(what, ".json") != 0)
		return 0;
	r = spool_read(g->sp, spool_path(SPOOL_ALLOCS, file, path), MARK_MAX, &text, &len, g->e);
	if (r < 0) /* gone meanwhile, or none of ours: it means nothing */
		return spool_is_bad(r) || r == -ENOENT || r == -EFBIG ? 0 : r;
	doc = json_loadb(text, len, 0, NULL);
	kind = json_get_str(doc, "kind");
	if (kind)
		(void)alloc_kind_parse(kind, &mark.kind);
	json_get_text(doc, "pool", mark.pool, sizeof(mark.pool));
	mark.gpus = json_get_small(doc, "gpus", SPEC_GPUS_MAX);
	json_decref(doc);
	g->marks->all = xgrow(g->marks->all, g->marks->n, sizeof(*g->marks->all));
	g->marks->all[g->marks->n++] = mark;
	return 0;
}

int alloc_marks_read(const struct spool *sp, struct alloc_marks *ret, struct err *e)
{
	struct gathering g = { .sp = sp, .marks = ret, .e = e };
	int r;

	*ret = (struct alloc_marks){ .n = 0 };
	r = or_none(sp, spool_each(sp, spool_dir_name(SPOOL_ALLOCS), add_mark, &g, e));
	if (ret->n)
		qsort(ret->all, ret->n, sizeof(*ret->all), compare_u64);
	return r;
}

void alloc_marks_clear(struct alloc_marks *m)
{
	free(m->all);
	*m = (struct alloc_marks){ .n = 0 };
}

const struct alloc_mark *alloc_marks_find(const struct alloc_marks *m, uint64_t id)
{
	return m->n ? bsearch(&id, m->all, m->n, sizeof(*m->all), compare_u64) : NULL;
}

struct forgetting {
	const struct spool *sp;
	const uint64_t *ids;
	size_t n;
	struct err *e;
};

static int forget_one(void *data, const char *file, unsigned char type)
{
	const struct forgetting *f = data;
	char path[SPOOL_PATH_MAX];
	const char *what;
	uint64_t id;

	if (!parse_file(file, &id, &what) || !bsearch(&id, f->ids, f->n, sizeof(id), compare_u64))
		return 0;
	return spool_unlink(f->sp, spool_path(SPOOL_ALLOCS, file, path), f->e);
}

int alloc_forget(const struct spool *sp, const uint64_t *ids, size_t n, struct err *e)
{
	struct forgetting f = { .sp = sp, .ids = ids, .n = n, .e = e };

	return or_none(sp, spool_each(sp, spool_dir_name(SPOOL_ALLOCS), forget_one, &f, e));
}

/* ---- orders ---- */

struct last_order {
	uint64_t id;
	unsigned int n;
};

static int take_order(void *data, const char *file, unsigned char type)
{
	struct last_order *last = data;
	const char *what;
	uint64_t id, n;

	if (parse_file(file, &id, &what) && id == last->id && str_has_prefix(what, ",start.") &&
	    str_to_u64(what + strlen(",start."), &n) == 0 && n <= ALLOC_ORDERS_MAX && n > last->n)
		last->n = (unsigned int)n;
	return 0;
}

int alloc_last_order(const struct spool *sp, uint64_t id, unsigned int *ret, struct err *e)
{
	struct last_order last = { .id = id };
	int r = or_none(sp, spool_each(sp, spool_dir_name(SPOOL_ALLOCS), take_order, &last, e));

	*ret = last.n;
	return r;
}

int alloc_order_write(const struct spool *sp, uint64_t id, unsigned int n,
		      const struct task_spec *spec, struct err *e)
{
	cleanup_free char *text = spec_text(spec, e);
	char path[SPOOL_PATH_MAX];
	int r = text ? spool_make_dir(sp, SPOOL_ALLOCS, e) : -EILSEQ;

	if (r == 0)
		r = spool_write_new(sp, order_path(id, n, path), text, strlen(text), true, e);
	return r == 0 ? spool_sync_dirs(sp, SPOOL_BIT(SPOOL_ALLOCS), e) : r;
}

bool alloc_order_exists(const struct spool *sp, uint64_t id, unsigned int n)
{
	char path[SPOOL_PATH_MAX];

	return spool_exists(sp, order_path(id, n, path));
}

int alloc_order_read(const struct spool *sp, uint64_t id, unsigned int n, struct task_spec **ret,
		     struct err *e)
{
	cleanup_free char *text = NULL;
	char path[SPOOL_PATH_MAX];
	size_t len, used;
	enum alloc_change change;
	int r = spool_read(sp, order_path(id, n, path), SPEC_FILE_MAX, &text, &len, e);

	if (r == 0)
		r = spec_read(text, len, ret, &used, e);
	if (r == 0 && (*ret)->allocation)
		r = err_set(e, -EINVAL, "it does not say what to run");
	else if (r == 0)
		r = alloc_parse_change((*ret)->on_change, &change, &(const char *){ NULL }, e);
	else
		return r;
	if (r < 0)
		*ret = spec_free(*ret);
	return r;
}

int alloc_parse_change(const char *text, enum alloc_change *ret, const char **ret_hook,
		       struct err *e)
{
	*ret_hook = NULL;
	*ret = ALLOC_RESTART;
	if (!text || strcmp(text, "restart") == 0)
		return 0;
	*ret = ALLOC_SIGNAL;
	if (strcmp(text, "signal") == 0)
		return 0;
	*ret = ALLOC_HOOK;
	if (str_has_prefix(text, "hook:") && text[strlen("hook:") + strspn(text + 5, " ")]) {
		*ret_hook = text + strlen("hook:");
		return 0;
	}
	return err_set(
		e, -EINVAL,
		"\"%.80s\" is none of restart, signal and hook:COMMAND, as \"hook:./grow.sh\"",
		text);
}

unsigned int alloc_count_gpus(const char *gpus)
{
	unsigned int n = gpus[0] != '\0';

	for (; *gpus; gpus++)
		n += *gpus == ',';
	return n;
}

char *alloc_fill_in(const char *word, const char *gpus, const char *name)
{
	char count[16];
	const struct {
		const char *key, *value;
	} all[] = {
		{ "{gpu_list}", gpus },
		{ "{gpu_count}", str_print(count, sizeof(count), "%u", alloc_count_gpus(gpus)) },
		{ "{task_id}", name },
	};
	struct strbuf b = STRBUF_INIT;

	while (*word) {
		size_t i = 0;

		while (i < ARRAY_LEN(all) && !str_has_prefix(word, all[i].key))
			i++;
		if (i < ARRAY_LEN(all)) {
			strbuf_adds(&b, all[i].value);
			word += strlen(all[i].key);
		} else {
			strbuf_addc(&b, *word++);
		}
	}
	return strbuf_take(&b);
}

/* ---- the state ---- */

int alloc_state_read(const struct spool *sp, uint64_t id, struct alloc_state *ret, struct err *e)
{
	cleanup_free char *text = NULL;
	char path[SPOOL_PATH_MAX];
	const char *phase;
	unsigned int n = ALLOC_WAITING;
	size_t len = 0;
	json_t *doc;
	int r = spool_read(sp, file_path(id, ",state", path), STATE_MAX, &text, &len, e);

	*ret = (struct alloc_state){ .phase = ALLOC_WAITING };
	if (r < 0)
		return r == -ENOENT || spool_is_bad(r) || r == -EFBIG ? 0 : r;
	doc = json_loadb(text, len, 0, NULL);
	phase = json_get_str(doc, "phase");
	if (phase && enum_parse(phases, ARRAY_LEN(phases), phase, &n, NULL) == 0)
		ret->phase = (enum alloc_phase)n;
	ret->order = json_get_small(doc, "order", ALLOC_ORDERS_MAX);
	ret->restarts = json_get_small(doc, "restarts", UINT32_MAX);
	ret->pid = (pid_t)json_get_small(doc, "pid", INT32_MAX);
	ret->exit = json_get_small(doc, "exit", 2 * NAME_SIGNALLED);
	ret->began_ns = (uint64_t)(json_get_num(doc, "began") * 1e3) * NS_PER_MS;
	ret->ended_ns = (uint64_t)(json_get_num(doc, "ended") * 1e3) * NS_PER_MS;
	json_get_text(doc, "host", ret->host, sizeof(ret->host));
	json_get_text(doc, "gpus", ret->gpus, sizeof(ret->gpus));
	json_get_text(doc, "error", ret->error, sizeof(ret->error));
	json_decref(doc);
	return 0;
}

int alloc_state_write(const struct spool *sp, uint64_t id, const struct alloc_state *st,
		      struct err *e)
{
	json_t *doc = json_pack(
		"{s:s, s:I, s:I, s:I, s:I, s:f, s:f, s:o, s:o, s:o}", "phase",
		alloc_phase_name(st->phase), "order", (json_int_t)st->order, "restarts",
		(json_int_t)st->restarts, "pid", (json_int_t)st->pid, "exit", (json_int_t)st->exit,
		"began", (double)(st->began_ns / NS_PER_MS) / 1e3, "ended",
		(double)(st->ended_ns / NS_PER_MS) / 1e3, "host", json_new_text(st->host), "gpus",
		json_new_text(st->gpus), "error", json_new_text(st->error));
	cleanup_free char *text = json_dumps(doc, JSON_INDENT(2) | JSON_REAL_PRECISION(16));
	char path[SPOOL_PATH_MAX];

	json_decref(doc);
	if (!text)
		return err_set(e, -ENOMEM, "no memory for the state of allocation %" PRIu64, id);
	return spool_replace(sp, file_path(id, ",state", path), text, strlen(text), e);
}
