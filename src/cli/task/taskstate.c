/* SPDX-License-Identifier: MIT */
#include "cli/task/taskstate.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/enumstr.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "cli/task/select.h"
#include "spool/files.h"
#include "spool/instance.h"
#include "spool/record.h"

#define TOLD_MAX	5
#define LAST_RECORD_MAX 4096

static const char *const names[] = {
	"pending", "paused", "running", "done", "failed", "cancelled"
};
_Static_assert(ARRAY_LEN(names) == TASKSTATE_MAX, "a name for every state");

const char *taskstate_name(unsigned int state)
{
	return enum_name(names, ARRAY_LEN(names), state);
}

enum taskstate taskstate_of(const struct task_name *n, enum spool_dir dir)
{
	switch (dir) {
	case SPOOL_RUNNING:
		return TASKSTATE_RUNNING;
	case SPOOL_DONE:
		return TASKSTATE_DONE;
	case SPOOL_FAILED:
		return TASKSTATE_FAILED;
	case SPOOL_CANCELLED:
		return TASKSTATE_CANCELLED;
	default:
		return n->flags & NAME_PAUSED ? TASKSTATE_PAUSED : TASKSTATE_PENDING;
	}
}

void taskstate_of_gang(uint64_t id, const struct gangs_read *gangs, enum taskstate *state)
{
	const struct gang *g = gang_find(gangs, id);

	if (*state == TASKSTATE_PENDING && g && g->go && gang_stands(g))
		*state = TASKSTATE_RUNNING;
}

typedef void (*end_fn)(void *data, const struct element_end *end);

struct reading {
	const struct spool *sp;
	const char *dir, *agent;
	end_fn fn;
	void *data;
};

static void read_line(void *data, const char *line, size_t len)
{
	const struct reading *r = data;
	struct element_end found = { .element = 0 };
	json_t *o = json_loadb(line, len, 0, NULL);

	found.element = json_get_u64(o, "element");
	(void)str_copy(found.agent, sizeof(found.agent), r->agent);
	if (found.element && end_from_json(o, &found.end))
		r->fn(r->data, &found);
	json_decref(o);
}

static int read_journal(void *data, const char *file, unsigned char type)
{
	struct reading *r = data;
	char path[SPOOL_PATH_MAX];
	off_t offset = 0;

	r->agent = file;
	(void)str_print(path, sizeof(path), "%.60s/%s", r->dir, file);
	(void)lines_read(r->sp, path, &offset, read_line, r, NULL);
	return 0;
}

static void each_end(const struct spool *sp, uint64_t id, end_fn fn, void *data)
{
	char dir[SPOOL_PATH_MAX];
	struct reading r = { .sp = sp, .dir = dir, .fn = fn, .data = data };

	(void)str_print(dir, sizeof(dir), "ends/%" PRIu64, id);
	(void)spool_each(sp, dir, read_journal, &r, NULL);
}

struct search {
	uint64_t element;
	struct element_end *ret;
	bool found;
};

static void keep_last(void *data, const struct element_end *end)
{
	struct search *s = data;

	if (end->element != s->element || (s->found && end->end.epoch < s->ret->end.epoch))
		return;
	*s->ret = *end;
	s->found = true;
}

bool taskstate_last_end(const struct spool *sp, uint64_t id, uint64_t element,
			struct element_end *ret)
{
	struct search s = { .element = element, .ret = ret };

	each_end(sp, id, keep_last, &s);
	return s.found;
}

struct collecting {
	const struct batch *batch;
	struct element_ends *ret;
};

static void keep_failed(void *data, const struct element_end *end)
{
	struct collecting *c = data;
	unsigned int attempts;
	uint64_t epoch;

	if (end->end.result != RESULT_FAILED ||
	    batch_state(c->batch, end->element, &epoch, &attempts) != BATCH_FAILED)
		return;
	c->ret->ends = xgrow(c->ret->ends, c->ret->n, sizeof(*c->ret->ends));
	c->ret->ends[c->ret->n++] = *end;
}

static int by_element(const void *a, const void *b)
{
	const struct element_end *x = a, *y = b;

	if (x->element != y->element)
		return x->element < y->element ? -1 : 1;
	return x->end.epoch < y->end.epoch ? -1 : x->end.epoch > y->end.epoch;
}

int taskstate_failed(const struct spool *sp, const struct task_name *batch,
		     struct element_ends *ret, struct err *e)
{
	struct collecting c = { .ret = ret };
	struct batch *b = NULL;
	int r = batch_open(sp, batch, NULL, &b, e);
	size_t kept = 0;

	*ret = (struct element_ends){ .n = 0 };
	if (r < 0)
		return r;
	c.batch = b;
	each_end(sp, batch->id, keep_failed, &c);
	(void)batch_close(b);
	if (!ret->n)
		return 0;
	/* One that was tried again after it had failed is told of more than once. */
	qsort(ret->ends, ret->n, sizeof(*ret->ends), by_element);
	for (size_t i = 0; i < ret->n; i++)
		if (i + 1 == ret->n || ret->ends[i].element != ret->ends[i + 1].element)
			ret->ends[kept++] = ret->ends[i];
	ret->n = kept;
	return 0;
}

/* The last record of a file of failed/; NULL. */
static json_t *last_record(const struct spool *sp, const struct task_name *n)
{
	char name[NAME_FILE_MAX], text[LAST_RECORD_MAX + 1];
	cleanup_free char *path = xasprintf("failed/%s", name_format(n, name));
	cleanup_fd int fd = spool_openat(sp, path, O_RDONLY);
	off_t size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
	off_t from = size > LAST_RECORD_MAX ? size - LAST_RECORD_MAX : 0;
	ssize_t len = size > 0 ? pread(fd, text, LAST_RECORD_MAX, from) : 0;
	char *line;

	while (len > 0 && text[len - 1] == '\n')
		len--;
	text[len > 0 ? len : 0] = '\0';
	line = strrchr(text, '\n');
	return json_loads(line ? line + 1 : text, 0, NULL);
}

char *taskstate_why_failed(const struct spool *sp, const struct task_name *n,
			   char buf[RECORD_REASON_MAX])
{
	static const char *const plain[] = { "exit code ", "ended by signal " };
	json_t *end;
	char *tries;

	buf[0] = '\0';
	end = last_record(sp, n);
	json_get_text(end, "reason", buf, RECORD_REASON_MAX);
	json_decref(end);
	for (size_t i = 0; i < ARRAY_LEN(plain); i++)
		if (str_has_prefix(buf, plain[i]))
			buf[0] = '\0';
	tries = strstr(buf, ", try ");
	if (tries)
		*tries = '\0';
	return buf;
}

char *taskstate_format_exit(unsigned int exit, char buf[TASKSTATE_EXIT_MAX])
{
	return str_print(buf, TASKSTATE_EXIT_MAX, "%s %u",
			 exit >= NAME_SIGNALLED ? "signal" : "exit code",
			 exit & (NAME_SIGNALLED - 1));
}

char *taskstate_format_failed(uint64_t id, const struct element_ends *failed)
{
	struct strbuf b = STRBUF_INIT;
	char how[TASKSTATE_EXIT_MAX];

	for (size_t i = 0; i < failed->n; i++) {
		const struct spool_end *end = &failed->ends[i].end;

		strbuf_add_some(&b, i, TOLD_MAX, "%" PRIu64 ".%" PRIu64 " (%s)", id,
				failed->ends[i].element,
				end->exit ? taskstate_format_exit(end->exit, how) : end->reason);
	}
	strbuf_add_more(&b, failed->n, TOLD_MAX);
	return strbuf_take(&b);
}

/* ---- how it stands ---- */

int taskstate_element_state(const struct spool *sp, const struct task_place *place,
			    uint64_t element, struct err *e)
{
	struct batch *b = NULL;
	unsigned int attempts;
	uint64_t epoch;
	int r = batch_open(sp, &place->name, NULL, &b, e);

	if (r == 0)
		r = (int)batch_state(b, element, &epoch, &attempts);
	(void)batch_close(b);
	return r;
}

int taskstate_counts(const struct spool *sp, const struct task_name *batch,
		     const struct task_set *active, struct batch_counts *ret, struct err *e)
{
	struct batch *b = NULL;
	int r = batch_open(sp, batch, NULL, &b, e);

	if (r < 0)
		return r;
	/* What runs comes first. */
	for (size_t i = 0; i < active->n && active->tasks[i].dir == SPOOL_RUNNING; i++)
		if (active->tasks[i].name.id == batch->id && active->tasks[i].name.element)
			batch_mark_running(b, active->tasks[i].name.element,
					   active->tasks[i].name.epoch);
	*ret = batch_counts(b);
	if (batch->ended_s) { /* stopped as a whole */
		ret->cancelled += ret->waiting;
		ret->waiting = 0;
	}
	(void)batch_close(b);
	return 0;
}

bool taskstate_has_begun(const struct spool *sp, const struct task_name *n,
			 struct batch_counts *ret)
{
	struct task_set active = { .n = 0 };
	bool read = select_all(sp, &active, NULL) == 0 &&
		    taskstate_counts(sp, n, &active, ret, NULL) == 0;

	free(active.tasks);
	return read && ret->running + ret->done + ret->failed;
}

void taskstate_take_counts(enum taskstate *state, const struct batch_counts *n)
{
	if (*state == TASKSTATE_PENDING && !n->waiting && n->running)
		*state = TASKSTATE_RUNNING;
}

uint64_t taskstate_waiting(const struct task_name *n, const struct batch_counts *counts)
{
	return counts ? counts->waiting : n->count ? n->count : 1;
}

json_t *taskstate_counts_json(const struct batch_counts *n)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I}", "waiting", (json_int_t)n->waiting, "running",
			 (json_int_t)n->running, "done", (json_int_t)n->done, "failed",
			 (json_int_t)n->failed, "cancelled", (json_int_t)n->cancelled);
}

bool taskstate_claimer(const struct spool *sp, const struct task_name *n, struct claimer *ret)
{
	char path[SPOOL_PATH_MAX], file[NAME_FILE_MAX];
	cleanup_free char *text = NULL;
	struct task_history h = { .claimed = false };
	size_t len;

	(void)spool_path(SPOOL_RUNNING, name_format(n, file), path);
	if (spool_read(sp, path, SPEC_FILE_MAX, &text, &len, NULL) < 0)
		return false;
	history_read(text, len, &h, NULL);
	if (h.claimed)
		*ret = h.claimer;
	return h.claimed;
}

void taskstate_agent_of(const struct spool *sp, const struct task_name *n,
			char agent[NAME_AGENT_MAX + 1])
{
	struct claimer who;
	bool read = !n->agent[0] && taskstate_claimer(sp, n, &who);

	(void)str_copy(agent, NAME_AGENT_MAX + 1, read ? who.agent : n->agent);
}
