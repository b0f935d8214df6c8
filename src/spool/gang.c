/* SPDX-License-Identifier: MIT */
#include "spool/gang.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "spool/ident.h"
#include "spool/own.h"
#include "spool/task_spec.h"

#define FILE_BYTES_MAX (256UL * 1024) /* a call of SPEC_NODES_MAX ranks has less */
#define GANG_PORT_MAX  65535

static const char *const answers[GANG_ANSWER_MAX] = {
	[GANG_SILENT] = "",
	[GANG_READY] = "ready",
	[GANG_BEGUN] = "begun",
	[GANG_REFUSES] = "refuses",
};

/* ---- names ---- */

/* "gangs/42,g3" and what is behind it. */
static char *path_of(const struct gang *g, enum gang_file kind, size_t rank,
		     char path[SPOOL_PATH_MAX])
{
	static const char *const tails[GANG_FILE_MAX] = {
		[GANG_FILE_CALL] = "",
		[GANG_FILE_ANSWER] = ",r",
		[GANG_FILE_WORD] = ",word",
		[GANG_FILE_END] = ",end",
	};
	char number[24] = "";

	if (kind == GANG_FILE_ANSWER)
		(void)str_print(number, sizeof(number), "%zu", rank);
	return str_print(path, SPOOL_PATH_MAX, "%s/%" PRIu64 ",g%" PRIu64 "%s%s",
			 spool_dir_name(SPOOL_GANGS), g->id, g->generation, tails[kind], number);
}

static bool take_number(const char **at, uint64_t *ret)
{
	size_t len = strspn(*at, "0123456789");
	char digits[24];

	if (!len || len >= sizeof(digits))
		return false;
	(void)str_print(digits, sizeof(digits), "%.*s", (int)len, *at);
	*at += len;
	return str_to_u64(digits, ret) == 0;
}

/* Only what path_of() writes: else a file would be found that is never opened or removed. */
bool gang_file_parse(const char *file, uint64_t *id, uint64_t *generation, enum gang_file *kind,
		     size_t *rank)
{
	char path[SPOOL_PATH_MAX], again[SPOOL_PATH_MAX];
	const char *at = file;
	struct gang g = { .n = 0 };
	uint64_t number = 0;

	if (strlen(file) > NAME_FILE_MAX || !take_number(&at, &g.id) || at[0] != ',' ||
	    at[1] != 'g')
		return false;
	at += 2;
	if (!take_number(&at, &g.generation))
		return false;
	*kind = strcmp(at, ",word") == 0  ? GANG_FILE_WORD
		: strcmp(at, ",end") == 0 ? GANG_FILE_END
		: at[0]			  ? GANG_FILE_ANSWER
					  : GANG_FILE_CALL;
	if (*kind == GANG_FILE_ANSWER) {
		if (strncmp(at, ",r", 2) != 0)
			return false;
		at += 2;
		if (!take_number(&at, &number) || *at || number >= SPEC_NODES_MAX)
			return false;
	}
	*id = g.id;
	*generation = g.generation;
	*rank = (size_t)number;
	return g.id && g.generation &&
	       strcmp(path_of(&g, *kind, *rank, path), spool_path(SPOOL_GANGS, file, again)) == 0;
}

/* ---- to JSON ---- */

static char *call_text(const struct gang *g)
{
	json_t *ranks = json_array();

	for (size_t i = 0; i < g->n; i++)
		(void)json_array_append_new(ranks,
					    json_pack("{s:s, s:I}", "agent", g->ranks[i].agent,
						      "epoch", (json_int_t)g->ranks[i].epoch));
	return record_line(json_pack("{s:o, s:I, s:I, s:f}", "ranks", ranks, "epoch",
				     (json_int_t)g->epoch, "edits", (json_int_t)g->edits, "time",
				     record_seconds(clock_wall_ns())));
}

static char *word_text(const struct gang *g, bool go)
{
	double now = record_seconds(clock_wall_ns());
	json_t *o = go ? json_pack("{s:b, s:s, s:i, s:f}", "go", 1, "address", g->address, "port",
				   (int)g->port, "time", now)
		       : json_pack("{s:b, s:o, s:f}", "go", 0, "reason", json_new_text(g->reason),
				   "time", now);

	return record_line(o);
}

static char *end_text(const struct gang *g, bool again)
{
	return record_line(json_pack("{s:b, s:o, s:f}", "again", again, "reason",
				     json_new_text(g->reason), "time",
				     record_seconds(clock_wall_ns())));
}

static char *answer_text(const struct gang_reply *r)
{
	json_t *o = json_pack("{s:s}", "answer", answers[r->answer]);

	if (r->address[0])
		(void)json_object_set_new(o, "address", json_string(r->address));
	if (r->port)
		(void)json_object_set_new(o, "port", json_integer((json_int_t)r->port));
	if (r->reason[0])
		(void)json_object_set_new(o, "reason", json_new_text(r->reason));
	return record_line(o);
}

/* ---- from JSON ---- */

static bool take_rank(const json_t *o, struct gang_rank *ret)
{
	const char *agent = json_get_str(o, "agent");

	ret->epoch = json_get_u64(o, "epoch");
	return agent && ident_is_name(agent) && str_copy(ret->agent, sizeof(ret->agent), agent) &&
	       ret->epoch <= NAME_EPOCH_MAX;
}

static bool take_call(const json_t *o, struct gang *g)
{
	const json_t *ranks = json_object_get(o, "ranks");
	size_t n = json_array_size(ranks);
	struct gang_rank *all;

	if (!n || n > SPEC_NODES_MAX)
		return false;
	all = xcalloc(n, sizeof(*all));
	for (size_t i = 0; i < n; i++)
		if (!take_rank(json_array_get(ranks, i), &all[i])) {
			free(all);
			return false;
		}
	free(g->ranks);
	g->ranks = all;
	g->n = n;
	g->epoch = json_get_u64(o, "epoch");
	g->edits = json_get_u64(o, "edits");
	return true;
}

/* It becomes a variable of the environment, and a part of a sentence. */
static bool take_address(const json_t *o, char ret[GANG_ADDRESS_MAX + 1], unsigned int *port)
{
	json_get_text(o, "address", ret, GANG_ADDRESS_MAX + 1);
	*port = json_get_small(o, "port", GANG_PORT_MAX + 1);
	return ret[0] && *port && *port <= GANG_PORT_MAX;
}

static bool take_word(const json_t *o, struct gang *g)
{
	const json_t *go = json_object_get(o, "go");

	if (!json_is_boolean(go))
		return false;
	if (json_is_true(go) && !take_address(o, g->address, &g->port))
		return false;
	if (json_is_false(go))
		json_get_text(o, "reason", g->reason, sizeof(g->reason));
	g->go = json_is_true(go);
	g->decided = true;
	return true;
}

static bool take_end(const json_t *o, struct gang *g)
{
	const json_t *again = json_object_get(o, "again");

	if (!json_is_boolean(again))
		return false;
	g->ended = true;
	g->again = json_is_true(again);
	json_get_text(o, "reason", g->reason, sizeof(g->reason));
	return true;
}

static bool take_answer(const json_t *o, struct gang_reply *ret)
{
	const char *word = json_get_str(o, "answer");
	struct gang_reply r = { .answer = GANG_SILENT };

	for (unsigned int i = GANG_READY; word && i < GANG_ANSWER_MAX; i++)
		if (strcmp(word, answers[i]) == 0)
			r.answer = (enum gang_answer)i;
	(void)take_address(o, r.address, &r.port);
	json_get_text(o, "reason", r.reason, sizeof(r.reason));
	*ret = r;
	return r.answer != GANG_SILENT;
}

bool gang_text_parse(enum gang_file kind, size_t rank, const char *text, size_t len, struct gang *g)
{
	json_t *o = json_loadb(text, len, 0, NULL);
	bool good = false;

	if (json_is_object(o) && kind == GANG_FILE_CALL)
		good = take_call(o, g);
	else if (json_is_object(o) && kind == GANG_FILE_WORD)
		good = take_word(o, g);
	else if (json_is_object(o) && kind == GANG_FILE_END)
		good = take_end(o, g);
	else if (json_is_object(o) && rank < g->n)
		good = take_answer(o, &g->ranks[rank].reply);
	json_decref(o);
	return good;
}

/* ---- reading ---- */

struct found {
	uint64_t id, generation;
	enum gang_file kind;
	size_t rank;
};

struct listing {
	size_t n;
	struct found *all;
};

static int list_one(void *data, const char *file, unsigned char type)
{
	struct listing *l = data;
	struct found f;

	if (!gang_file_parse(file, &f.id, &f.generation, &f.kind, &f.rank))
		return 0;
	l->all = xgrow(l->all, l->n, sizeof(*l->all));
	l->all[l->n++] = f;
	return 0;
}

/* By id, the highest generation first, and of that the call. */
static int by_turn(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	if (x->generation != y->generation)
		return x->generation > y->generation ? -1 : 1;
	return x->kind != y->kind ? (int)x->kind - (int)y->kind
				  : (x->rank > y->rank) - (x->rank < y->rank);
}

/* An answer that cannot be read, or is just being replaced, is none for now. A word or an end is
 * more than nothing, even where it cannot be read: then it is no go, and all run again. */
static int read_file(const struct spool *sp, const struct found *f, struct gang *g, struct err *e)
{
	char path[SPOOL_PATH_MAX];
	cleanup_free char *text = NULL;
	size_t len = 0;
	int r = spool_read(sp, path_of(g, f->kind, f->rank, path), FILE_BYTES_MAX, &text, &len, e);

	if (r < 0 && !spool_is_bad(r) && r != -EFBIG) {
		r = spool_confirm(sp, path, r, e);
		return r == -ENOENT || f->kind == GANG_FILE_ANSWER ? 0 : r;
	}
	if (r == 0 && gang_text_parse(f->kind, f->rank, text, len, g))
		return 0;
	if (f->kind == GANG_FILE_WORD)
		g->decided = true;
	if (f->kind == GANG_FILE_END)
		g->ended = g->again = true;
	return 0;
}

int gang_read_all(const struct spool *sp, struct gangs_read *ret, struct err *e)
{
	struct gangs_read all = { .n = 0 };
	struct listing l = { .n = 0 };
	struct gang *g = NULL;
	int r = spool_each(sp, spool_dir_name(SPOOL_GANGS), list_one, &l, e);

	*ret = all;
	if (r == -ENOENT && spool_is_gone(sp, spool_dir_name(SPOOL_GANGS)))
		r = 0;
	if (l.n)
		qsort(l.all, l.n, sizeof(*l.all), by_turn);
	for (size_t i = 0; i < l.n && r == 0; i++) {
		if (!g || g->id != l.all[i].id) {
			all.all = xgrow(all.all, all.n, sizeof(*all.all));
			g = &all.all[all.n++];
			*g = (struct gang){ .id = l.all[i].id, .generation = l.all[i].generation };
		}
		if (g->generation == l.all[i].generation)
			r = read_file(sp, &l.all[i], g, e);
	}
	free(l.all);
	if (r < 0)
		gang_clear(&all);
	*ret = all;
	return r;
}

void gang_clear(struct gangs_read *r)
{
	for (size_t i = 0; i < r->n; i++)
		free(r->all[i].ranks);
	free(r->all);
	*r = (struct gangs_read){ .n = 0 };
}

const struct gang *gang_find(const struct gangs_read *r, uint64_t id)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->all[i].id == id)
			return &r->all[i];
	return NULL;
}

bool gang_stands(const struct gang *g)
{
	return g->n && !(g->decided && !g->go) && !g->ended;
}

int gang_rank_of(const struct gang *g, const char *agent)
{
	for (size_t i = 0; i < g->n; i++)
		if (strcmp(g->ranks[i].agent, agent) == 0)
			return (int)i;
	return -1;
}

/* ---- writing ---- */

/* The file appears with what is in it, where the filesystem has links. */
static int make_once(const struct spool *sp, const char *path, const char *text, struct err *e)
{
	char tmp[SPOOL_PATH_MAX];
	int r = spool_make_dir(sp, SPOOL_GANGS, e);

	if (r == 0)
		r = spool_write_new(sp, spool_tmp_path(sp, "gang", 0, tmp), text, strlen(text),
				    true, e);
	if (r < 0)
		return r;
	r = linkat(sp->fd, tmp, sp->fd, path, 0) < 0 ? -errno : 0;
	(void)unlinkat(sp->fd, tmp, 0);
	if (r == -EPERM || r == -EOPNOTSUPP || r == -ENOSYS || r == -EMLINK)
		r = spool_write_new(sp, path, text, strlen(text), true, e);
	if (r == -EEXIST)
		return 0;
	return r < 0 ? err_sys(e, -r, "make %s/%s", sp->path, path) : 0;
}

int gang_call(const struct spool *sp, const struct gang *g, struct err *e)
{
	cleanup_free char *text = call_text(g);
	char path[SPOOL_PATH_MAX];

	return make_once(sp, path_of(g, GANG_FILE_CALL, 0, path), text, e);
}

int gang_say(const struct spool *sp, const struct gang *g, bool go, struct err *e)
{
	cleanup_free char *text = word_text(g, go);
	char path[SPOOL_PATH_MAX];

	return make_once(sp, path_of(g, GANG_FILE_WORD, 0, path), text, e);
}

int gang_end(const struct spool *sp, const struct gang *g, bool again, struct err *e)
{
	cleanup_free char *text = end_text(g, again);
	char path[SPOOL_PATH_MAX];

	return make_once(sp, path_of(g, GANG_FILE_END, 0, path), text, e);
}

int gang_answer(const struct spool *sp, const struct gang *g, size_t rank,
		const struct gang_reply *reply, struct err *e)
{
	cleanup_free char *text = answer_text(reply);
	char path[SPOOL_PATH_MAX];

	return spool_replace(sp, path_of(g, GANG_FILE_ANSWER, rank, path), text, strlen(text), e);
}

/* The call goes last: what is left when this is interrupted is found again by it. */
int gang_remove(const struct spool *sp, uint64_t id, uint64_t below, struct err *e)
{
	struct listing l = { .n = 0 };
	char path[SPOOL_PATH_MAX];
	int r = spool_each(sp, spool_dir_name(SPOOL_GANGS), list_one, &l, e);

	for (size_t i = 0; i < 2 * l.n && r == 0; i++) {
		const struct found *f = &l.all[i % l.n];
		const struct gang g = { .id = f->id, .generation = f->generation };
		bool last = f->kind == GANG_FILE_CALL;

		if (f->id != id || f->generation >= below || last != (i >= l.n))
			continue;
		r = spool_remove(sp, path_of(&g, f->kind, f->rank, path));
		r = r == -ENOENT ? 0 : r;
	}
	free(l.all);
	return r == -ENOENT ? 0 : r;
}

/* ---- how a rank ended ---- */

struct ending_search {
	const struct spool *sp;
	char dir[SPOOL_PATH_MAX];
	const char *agent;
	uint64_t element, epoch;
	bool found;
	struct gang_ending *ret;
};

static void take_ending(void *data, const char *line, size_t len)
{
	struct ending_search *s = data;
	json_t *o = json_loadb(line, len, 0, NULL);
	const char *event = json_get_str(o, "event");
	uint64_t epoch = json_get_u64(o, "epoch");
	struct gang_ending *ret = s->ret;
	struct spool_again again;

	if (event && json_get_u64(o, "element") == s->element && strcmp(event, "end") == 0 &&
	    epoch == s->epoch && end_from_json(o, &ret->end)) {
		ret->requeued = false;
		s->found = true;
	} else if (event && json_get_u64(o, "element") == s->element &&
		   strcmp(event, "requeue") == 0 && epoch == s->epoch + 1) {
		again_from_json(o, &again);
		ret->requeued = true;
		ret->outside = again.outside;
		ret->end = (struct spool_end){ .result = RESULT_FAILED,
					       .epoch = s->epoch,
					       .attempt = again.begun_ns ? again.attempts + 1 : 0,
					       .begun_ns = again.begun_ns,
					       .ended_ns = record_ns(json_object_get(o, "time")) };
		(void)str_copy(ret->end.reason, sizeof(ret->end.reason), again.reason);
		s->found = true;
	}
	if (s->found && !ret->agent[0])
		(void)str_copy(ret->agent, sizeof(ret->agent), s->agent);
	json_decref(o);
}

static int search_journal(void *data, const char *file, unsigned char type)
{
	struct ending_search *s = data;
	char path[SPOOL_PATH_MAX];
	off_t offset = 0;

	if (!ident_is_name(file) || strlen(file) > NAME_AGENT_MAX)
		return 0;
	s->agent = file;
	(void)lines_read(s->sp, str_print(path, sizeof(path), "%.60s/%s", s->dir, file), &offset,
			 take_ending, s, NULL);
	return s->found;
}

bool gang_how_it_ended(const struct spool *sp, uint64_t id, uint64_t element, uint64_t epoch,
		       struct gang_ending *ret)
{
	struct ending_search s = { .sp = sp, .element = element, .epoch = epoch, .ret = ret };

	*ret = (struct gang_ending){ .agent = "" };
	(void)str_print(s.dir, sizeof(s.dir), "ends/%" PRIu64, id);
	return spool_each(sp, s.dir, search_journal, &s, NULL) == 1;
}
