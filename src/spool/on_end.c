/* SPDX-License-Identifier: MIT */

/*
 * Three names of a file are three states, and each step is one rename that only one process can
 * make. The promise comes before the end is written and is worth nothing without it, so an agent
 * that was killed between the two leaves one of which the queue tells whether it is due: the task
 * has ended with that epoch, or it has not, or it waits again with a later one.
 *
 * It is at most once on purpose. A command copies results, sends a message, or submits what comes
 * next, and what was begun and then cut off is better told than done twice.
 */

#include "spool/on_end.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/signame.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/value.h"
#include "spool/batch.h"
#include "spool/elements.h"
#include "spool/heartbeat.h"
#include "spool/instance.h"

#define FILE_LIMIT (1UL << 20)
#define ENV_LIMIT  (512UL * 1024)  /* of a larger one only what is ours is kept */
#define SPARE_NS   (20 * NS_PER_S) /* beyond its limit: to end what it has started */
#define VALUE_SIZE 4096

enum state { PROMISED, DUE, BEGUN, STATE_MAX };

static const char *const endings[STATE_MAX] = {
	[PROMISED] = "", [DUE] = ",due", [BEGUN] = ",begun"
};

struct entry {
	uint64_t id, element, epoch;
	char agent[NAME_AGENT_MAX + 1];
	enum state state;
};

static char *path_of(const struct entry *n, enum state state, char *buf)
{
	char element[24] = "", file[NAME_FILE_MAX];

	if (n->element)
		(void)str_print(element, sizeof(element), ".%" PRIu64, n->element);
	(void)str_print(file, sizeof(file), "%" PRIu64 "%s,e%" PRIu64 ",%s%s", n->id, element,
			n->epoch, n->agent, endings[state]);
	return spool_path(SPOOL_ON_END, file, buf);
}

static struct entry entry_of(const struct on_end_by *by, const struct task_name *n)
{
	struct entry x = { .id = n->id, .element = n->element, .epoch = n->epoch };

	(void)str_copy(x.agent, sizeof(x.agent), by->agent);
	return x;
}

/* False: it is none of these files. */
static bool parse(const char *file, struct entry *ret)
{
	struct entry n = { .id = 0 };
	int used = 0;

	if (sscanf(file, "%" SCNu64 "%n", &n.id, &used) != 1)
		return false;
	file += used;
	if (*file == '.' && sscanf(file, ".%" SCNu64 "%n", &n.element, &used) == 1)
		file += used;
	if (sscanf(file, ",e%" SCNu64 ",%n", &n.epoch, &used) != 1)
		return false;
	file += used;

	size_t len = strcspn(file, ",");

	if (!len || len >= sizeof(n.agent))
		return false;
	(void)str_copy(n.agent, len + 1, file);
	while (n.state < STATE_MAX && strcmp(file + len, endings[n.state]) != 0)
		n.state++;
	if (n.state == STATE_MAX || !ident_is_name(n.agent) || n.id > NAME_ID_MAX ||
	    n.epoch > NAME_EPOCH_MAX)
		return false;
	*ret = n;
	return true;
}

/* ---- what is written ---- */

bool on_end_is_wanted(const struct on_end_by *by, const struct task_spec *spec)
{
	return (spec && spec->on_end) || by->command;
}

static void add(struct text_list *env, const char *name, const char *value)
{
	cleanup_free char *text = xasprintf("%s=%s", name, value);

	text_list_set_variable(env, text);
}

static void add_number(struct text_list *env, const char *name, uint64_t value)
{
	char text[24];

	add(env, name, str_print(text, sizeof(text), "%" PRIu64, value));
}

static void add_exit(struct text_list *env, unsigned int exit)
{
	char number[24];
	const char *name = exit > NAME_SIGNALLED ? signal_name((int)(exit - NAME_SIGNALLED)) : NULL;

	if (exit <= NAME_SIGNALLED)
		add_number(env, "TENURE_EXIT_CODE", exit);
	else
		add(env, "TENURE_SIGNAL",
		    name ? name : str_print(number, sizeof(number), "%u", exit - NAME_SIGNALLED));
}

static void add_devices(struct text_list *env, const struct on_end_facts *f)
{
	cleanup_strbuf struct strbuf uuids = STRBUF_INIT;

	for (size_t i = 0; f->uuids && i < f->uuids->n; i++)
		strbuf_addf(&uuids, "%s%s", i ? "," : "", f->uuids->texts[i]);
	add(env, "TENURE_GPUS", f->gpus ? f->gpus : "");
	add(env, "TENURE_GPU_UUIDS", strbuf_str(&uuids));
	/* What it had may be another's by now. */
	add(env, "CUDA_VISIBLE_DEVICES", "");
}

static void add_facts(struct text_list *env, const struct on_end_by *by,
		      const struct task_spec *spec, const struct task_name *n,
		      const struct on_end_facts *f)
{
	cleanup_free char *log = f->log ? xasprintf("%s/%s", by->dir, f->log) : xstrdup("");
	char text[64];

	if (n->element)
		(void)str_print(text, sizeof(text), "%" PRIu64 ".%" PRIu64, n->id, n->element);
	else
		(void)str_print(text, sizeof(text), "%" PRIu64, n->id);
	add(env, "TENURE_TASK_ID", text);
	add(env, "TENURE_TASK_NAME", spec->name);
	add(env, "TENURE_INSTANCE", by->instance);
	add(env, "TENURE_NODE", by->node);
	if (spec->lane)
		add(env, "TENURE_LANE", spec->lane);
	add(env, "TENURE_RESULT", f->result);
	add(env, "TENURE_REASON", f->end->reason);
	if (!f->whole) {
		add_number(env, "TENURE_ATTEMPT", f->end->attempt);
		add(env, "TENURE_ELAPSED", str_print(text, sizeof(text), "%.3f", f->run_s));
		add(env, "TENURE_LOG", log);
		add_devices(env, f);
		if (f->run_s > 0)
			add_exit(env, f->end->exit);
	}
	if (n->element && !f->whole)
		add_number(env, "TENURE_ARRAY_INDEX", element_index(&spec->array, n->element));
}

static json_t *env_of(const struct on_end_by *by, const struct task_spec *spec,
		      const struct task_name *n, const struct on_end_facts *f)
{
	static const struct value_spec bytes = { VALUE_BYTES, .max = SPEC_LIST_MAX };
	cleanup_free char *value = xmalloc(VALUE_SIZE);
	struct text_list env = { .n = 0 };
	char name[SPEC_NAME_MAX + 1];
	size_t size = 0;
	json_t *list;

	for (size_t i = 0; i < spec->env.n; i++)
		size += strlen(spec->env.texts[i]);
	for (size_t i = 0; size <= ENV_LIMIT && i < spec->env.n; i++)
		text_list_add(&env, spec->env.texts[i]);
	for (size_t i = 0;
	     n->element && element_parameter(&spec->sweep, n->element, i, name, value, VALUE_SIZE);
	     i++)
		add(&env, name, value);
	add_facts(&env, by, spec, n, f);
	list = value_file_json(&bytes, &env);
	text_list_clear(&env);
	return list;
}

char *on_end_log(uint64_t id, const char *name, const char *log)
{
	size_t len = log ? strlen(log) : 0;

	if (len > strlen(".log") && str_has_suffix(log, ".log"))
		return xasprintf("%.*s.on-end.log", (int)(len - strlen(".log")), log);
	return xasprintf("%s/%" PRIu64 "-%s.on-end.log", spool_dir_name(SPOOL_LOGS), id, name);
}

static json_t *bytes_of(const char *text)
{
	static const struct value_spec one = { VALUE_BYTES_PATH, .max = SPOOL_PATH_MAX };

	return text ? value_file_json(&one, &text) : NULL;
}

int on_end_promise(const struct spool *sp, const struct on_end_by *by, const struct task_spec *spec,
		   const struct task_name *n, const struct on_end_facts *f, struct err *e)
{
	cleanup_free char *log = on_end_log(n->id, spec->name, f->log), *text = NULL;
	struct entry x = entry_of(by, n);
	char path[SPOOL_PATH_MAX], title[SPEC_NAME_MAX + 64], element[24] = "";
	json_t *commands = json_array(), *o;

	if (n->element)
		(void)str_print(element, sizeof(element), ".%" PRIu64, n->element);
	(void)str_print(title, sizeof(title), "task %" PRIu64 "%s %s", n->id, element, spec->name);
	if (spec->on_end)
		(void)json_array_append_new(commands, json_string(spec->on_end));
	if (by->command)
		(void)json_array_append_new(commands, json_string(by->command));
	o = json_pack("{so so so so* so so}", "title", json_new_text(title), "commands", commands,
		      "env", env_of(by, spec, n, f), "cwd", bytes_of(spec->cwd), "log",
		      json_new_text(log), "umask",
		      spec->umask == SPEC_NO_UMASK ? json_null()
						   : json_integer((json_int_t)spec->umask));
	text = json_dumps(o, JSON_COMPACT);
	json_decref(o);
	if (!text)
		return err_set(e, -EINVAL, "the command that is to follow it cannot be written");

	int r = spool_make_dir(sp, SPOOL_ON_END, e);

	if (r == 0)
		r = spool_replace(sp, path_of(&x, PROMISED, path), text, strlen(text), e);
	return r;
}

/* Of a gang whoever finds that all ranks are over files the whole, and two may, by renames to the
 * same name: so who makes this file first has it. It goes with the journals of the task. */
static int take_whole(const struct spool *sp, const struct task_name *n, struct err *e)
{
	char path[SPOOL_PATH_MAX];

	(void)str_print(path, sizeof(path), "%s/%" PRIu64 "/on_end,e%" PRIu64,
			spool_dir_name(SPOOL_ENDS), n->id, n->epoch);
	return spool_write_new(sp, path, "", 0, false, e);
}

int on_end_due_whole(const struct spool *sp, const struct on_end_by *by, const struct task_name *n,
		     struct err *e)
{
	int r = take_whole(sp, n, e);

	if (r == 0)
		return on_end_due(sp, by, n, e);
	if (r == -EEXIST)
		on_end_withdraw(sp, by, n);
	return r;
}

int on_end_due(const struct spool *sp, const struct on_end_by *by, const struct task_name *n,
	       struct err *e)
{
	struct entry x = entry_of(by, n);
	char from[SPOOL_PATH_MAX], to[SPOOL_PATH_MAX];

	return spool_rename(sp, path_of(&x, PROMISED, from), path_of(&x, DUE, to), e);
}

void on_end_withdraw(const struct spool *sp, const struct on_end_by *by, const struct task_name *n)
{
	struct entry x = entry_of(by, n);
	char path[SPOOL_PATH_MAX];

	(void)spool_remove(sp, path_of(&x, PROMISED, path));
}

/* ---- what is due ---- */

struct listing {
	struct entry *all;
	size_t n;
};

static int list_one(void *data, const char *file, unsigned char type)
{
	struct listing *l = data;
	struct entry x;

	if (!parse(file, &x))
		return 0;
	l->all = xgrow(l->all, l->n, sizeof(*l->all));
	l->all[l->n++] = x;
	return 0;
}

/* An instance of before has no such directory until something is in it. */
static int list(const struct spool *sp, struct listing *ret, struct err *e)
{
	struct err why = ERR_INIT;
	int r = spool_each(sp, spool_dir_name(SPOOL_ON_END), list_one, ret, &why);

	if (r == -ENOENT)
		return 0;
	if (r < 0 && e)
		*e = why;
	return r;
}

static int by_task(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return x->element < y->element ? -1 : x->element > y->element;
}

void on_end_begun_clear(struct on_end_begun *b)
{
	free(take_ptr(b->text));
}

/* It is opened below the instance, and is nothing but a file in logs/. */
static bool is_log(const char *path)
{
	const char *file = strchr(path, '/');

	return spool_dir_of(path) == SPOOL_LOGS && file && file[1] && file[1] != '.' &&
	       !strchr(file + 1, '/');
}

static int read_begun(const struct spool *sp, const char *path, struct on_end_begun *b,
		      struct err *e)
{
	size_t len;
	int r = spool_read(sp, path, FILE_LIMIT, &b->text, &len, e);
	json_t *o;

	if (r < 0)
		return r;
	o = json_loadb(b->text, len, 0, NULL);
	json_get_text(o, "log", b->log, sizeof(b->log));
	json_get_text(o, "title", b->title, sizeof(b->title));
	json_decref(o);
	if (is_log(b->log))
		return 0;
	on_end_begun_clear(b);
	return err_set(e, -EINVAL, "%s does not say what is to be run", path);
}

/* 1; 0: it was none, or is somebody else's by now; or negative. */
static int begin(const struct spool *sp, const struct entry *x, struct on_end_begun *ret,
		 struct err *e)
{
	char due[SPOOL_PATH_MAX], begun[SPOOL_PATH_MAX];
	struct on_end_begun b = { .text = NULL };
	int r = read_begun(sp, path_of(x, DUE, due), &b, e);

	if (r == -EINVAL || spool_is_bad(r) || r == -EFBIG)
		return spool_refuse(sp, due, e->text, e);
	if (r == 0)
		r = spool_take(sp, due, path_of(x, BEGUN, begun), e);
	if (r < 0) {
		on_end_begun_clear(&b);
		return r == -ENOENT ? 0 : r;
	}
	(void)str_copy(b.file, sizeof(b.file), strchr(begun, '/') + 1);
	*ret = b;
	return 1;
}

int on_end_begin(const struct spool *sp, const struct on_end_by *by, struct on_end_begun *ret,
		 size_t *left, struct err *e)
{
	struct listing l = { .n = 0 };
	size_t n = 0;
	int r = list(sp, &l, e);

	for (size_t i = 0; i < l.n; i++)
		if (l.all[i].state == DUE && strcmp(l.all[i].agent, by->agent) == 0)
			l.all[n++] = l.all[i];
	if (n)
		qsort(l.all, n, sizeof(*l.all), by_task);
	for (size_t i = 0; i < n && r == 0; i++) {
		r = begin(sp, &l.all[i], ret, e);
		*left = n - i - 1;
	}
	if (!n)
		*left = 0;
	free(l.all);
	return r;
}

/* ---- what others have left ---- */

struct settling {
	const struct spool *sp;
	const struct on_end_by *by;
	const struct scan *s;
	struct strbuf *notes;
	struct entry *open; /* promised, and their tasks neither wait nor run */
	struct task_name *found;
	size_t n_open;
};

static bool is_of_the_gone(const struct settling *t, const char *agent)
{
	char path[SPOOL_PATH_MAX];

	return spool_is_gone(t->sp, heartbeat_agent_path(agent, path));
}

/* It is ours from now on, and is run next. */
static void make_due(const struct settling *t, const struct entry *x)
{
	struct entry ours = *x;
	char from[SPOOL_PATH_MAX], to[SPOOL_PATH_MAX];

	(void)str_copy(ours.agent, sizeof(ours.agent), t->by->agent);
	(void)spool_take(t->sp, path_of(x, x->state, from), path_of(&ours, DUE, to), NULL);
}

static void drop(const struct settling *t, const struct entry *x)
{
	char path[SPOOL_PATH_MAX];

	(void)spool_remove(t->sp, path_of(x, x->state, path));
}

/* Who runs it removes the file, whatever becomes of its agent; so he is gone, too. */
static void look_at_begun(const struct settling *t, const struct entry *x, uint64_t now_ns)
{
	char path[SPOOL_PATH_MAX];
	struct on_end_begun b = { .text = NULL };
	struct stat st;
	uint64_t since_ns;

	(void)path_of(x, BEGUN, path);
	if (spool_stat(t->sp, path, &st) < 0 || read_begun(t->sp, path, &b, NULL) < 0)
		return;
	since_ns = (uint64_t)st.st_ctim.tv_sec * NS_PER_S + (uint64_t)st.st_ctim.tv_nsec;
	if (now_ns > since_ns + t->by->limit_ms * NS_PER_MS + SPARE_NS) {
		strbuf_addf(t->notes,
			    "%s: the command that followed its end was cut off, and is not run "
			    "again; its output is %s\n",
			    b.title, b.log);
		drop(t, x);
	}
	on_end_begun_clear(&b);
}

/* Of an element that is what its batch says, wherever that lies. */
static void look_at_element(const struct settling *t, const struct entry *x,
			    const struct task_name *batch)
{
	struct batch *b = NULL;
	unsigned int attempts;
	uint64_t epoch;
	enum batch_state state;

	if (batch_open(t->sp, batch, NULL, &b, NULL) < 0)
		return;
	state = batch_state(b, x->element, &epoch, &attempts);
	if (state >= BATCH_DONE && epoch == x->epoch)
		make_due(t, x);
	else if (epoch > x->epoch)
		drop(t, x);
	(void)batch_close(b);
}

static int find_open(void *data, const struct task_name *n, const char *dir)
{
	struct settling *t = data;

	for (size_t i = 0; i < t->n_open; i++)
		if (t->open[i].id == n->id && !n->element)
			t->found[i] = *n;
	return 0;
}

/* What has ended is in directories that may be large: they are read once for all. */
static int look_at_ended(struct settling *t, struct err *e)
{
	int r;

	if (!t->n_open)
		return 0;
	t->found = xcalloc(t->n_open, sizeof(*t->found));
	r = scan_ended(t->sp, find_open, t, e);
	for (size_t i = 0; i < t->n_open && r == 0; i++) {
		const struct entry *x = &t->open[i];
		const struct task_name *n = &t->found[i];

		if (!n->id || (!x->element && n->epoch != x->epoch))
			drop(t, x);
		else if (x->element)
			look_at_element(t, x, n);
		else
			make_due(t, x);
	}
	free(t->found);
	return r;
}

static void look_at_promise(struct settling *t, const struct entry *x)
{
	const struct scan_task *whole = scan_find(t->s, x->id, 0);

	if (!whole) {
		t->open = xgrow(t->open, t->n_open, sizeof(*t->open));
		t->open[t->n_open++] = *x;
	} else if (!x->element) {
		if (whole->name.epoch > x->epoch)
			drop(t, x);
	} else if (!scan_find(t->s, x->id, x->element)) {
		look_at_element(t, x, &whole->name);
	}
}

int on_end_settle(const struct spool *sp, const struct on_end_by *by, const struct scan *s,
		  struct strbuf *notes, struct err *e)
{
	struct settling t = { .sp = sp, .by = by, .s = s, .notes = notes };
	struct listing l = { .n = 0 };
	int r = list(sp, &l, e);
	uint64_t now_ns = r == 0 && l.n ? spool_now_or_ours(sp) : 0;

	for (size_t i = 0; i < l.n && r == 0; i++) {
		const struct entry *x = &l.all[i];
		bool ours = strcmp(x->agent, by->agent) == 0;

		if (!ours && !is_of_the_gone(&t, x->agent))
			continue;
		if (x->state == PROMISED)
			look_at_promise(&t, x);
		else if (x->state == BEGUN)
			look_at_begun(&t, x, now_ns);
		else if (!ours)
			make_due(&t, x);
	}
	if (r == 0)
		r = look_at_ended(&t, e);
	free(t.open);
	free(l.all);
	return r;
}
