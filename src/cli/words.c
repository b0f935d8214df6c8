/* SPDX-License-Identifier: MIT */

/*
 * All is done by a child: settings, queues and sockets may lie where nothing answers. The parent
 * waits for a moment, and passes on what the child has printed when it has ended well.
 */

#include "cli/words.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc/alloc.h"
#include "base/clock.h"
#include "base/completion.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "cli/agent_client.h"
#include "cli/commands.h"
#include "cli/instance.h"
#include "cli/machine.h"
#include "cli/node_agents.h"
#include "engine/engine.h"
#include "pool/pool.h"
#include "spool/scan.h"

#define PATIENCE_MS    700  /* of all of it */
#define AGENT_LIMIT_MS 300  /* then the driver is asked for its devices */
#define ENDED_MAX      2000 /* the last ones */
#define OUTPUT_MAX     (16UL << 20)
#define FIRST_USER     1000 /* lower numbers are of the system */

struct words {
	const struct cmd_ctx *ctx;
	struct spool *sp; /* NULL: there is no queue */
	const char *beginning;
	struct text_list seen; /* what was offered and may come again, sorted at its end */
};

/* -------- one word -------- */

/* A word that a terminal must not get is no word: cleaned it would mean something else. */
static void offer(const struct words *w, const char *word, const char *meaning)
{
	cleanup_free char *clean = xstrdup(word), *text = xstrdup(meaning ? meaning : "");

	if (!word[0] || !str_has_prefix(word, w->beginning) || strcmp(utf8_clean(clean), word) != 0)
		return;
	(void)printf("%s\t%s\n", word, utf8_clean(text));
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* For what may come more than once: offered by offer_seen(), once each. */
static void see(struct words *w, const char *word)
{
	if (word[0])
		text_list_add(&w->seen, word);
}

static void offer_seen(struct words *w, const char *meaning)
{
	if (w->seen.n)
		qsort(w->seen.texts, w->seen.n, sizeof(*w->seen.texts), by_text);
	for (size_t i = 0; i < w->seen.n; i++)
		if (!i || strcmp(w->seen.texts[i], w->seen.texts[i - 1]) != 0)
			offer(w, w->seen.texts[i], meaning);
	text_list_clear(&w->seen);
}

/* -------- tasks -------- */

#define OFFER_IDS   (1u << 0)
#define OFFER_NAMES (1u << 1)
#define OFFER_LANES (1u << 2)
#define OFFER_ALL   (1u << 3) /* the word */
#define OFFER_LAST  (1u << 4) /* the word */
#define OF_ACTIVE   (1u << 5)
#define OF_ENDED    (1u << 6)

static const unsigned int wanted[WORDS_MAX] = {
	[WORDS_TASKS] = OFFER_IDS | OFFER_NAMES | OFFER_LAST | OF_ACTIVE,
	[WORDS_TASKS_LANES] =
		OFFER_IDS | OFFER_NAMES | OFFER_LANES | OFFER_ALL | OFFER_LAST | OF_ACTIVE,
	[WORDS_ANY_TASKS] = OFFER_IDS | OFFER_NAMES | OFFER_LAST | OF_ACTIVE | OF_ENDED,
	[WORDS_ENDED_TASKS] =
		OFFER_IDS | OFFER_NAMES | OFFER_LANES | OFFER_ALL | OFFER_LAST | OF_ENDED,
	[WORDS_TASK_IDS] = OFFER_IDS | OFFER_LAST | OF_ACTIVE,
	[WORDS_TASK_NAMES] = OFFER_NAMES | OF_ACTIVE,
	[WORDS_ANY_TASK_NAMES] = OFFER_NAMES | OF_ACTIVE | OF_ENDED,
	[WORDS_LANES] = OFFER_LANES | OF_ACTIVE | OF_ENDED,
};

struct found {
	size_t n;
	struct task_name *all;
	size_t max; /* 0: no bound */
};

static int find_one(void *data, const struct task_name *n, const char *dir)
{
	struct found *f = data;

	if (f->max && f->n >= f->max)
		return 1;
	f->all = xrealloc(f->all, f->n + 1, sizeof(*f->all));
	f->all[f->n++] = *n;
	return 0;
}

static void find_active(const struct words *w, struct found *ret)
{
	struct scan *s = scan_new(w->sp, 0);
	const struct scan_task *t;
	size_t iter = 0;

	if (scan_update(s, NULL, NULL, NULL) == 0) {
		ret->all = xcalloc(scan_count(s, SPOOL_PENDING) + scan_count(s, SPOOL_RUNNING) + 1,
				   sizeof(*ret->all));
		while ((t = scan_next(s, &iter)))
			ret->all[ret->n++] = t->name;
	}
	(void)scan_free(s);
}

static int add_day(void *data, const char *file, unsigned char type)
{
	text_list_add(data, file);
	return 0;
}

/* What failed or was stopped waits for a decision and comes first; then what is done, from the last
 * day on. */
static void find_ended(const struct words *w, struct found *ret)
{
	static const enum spool_dir dirs[] = { SPOOL_FAILED, SPOOL_CANCELLED };
	struct text_list days = { .n = 0 };

	ret->max = ret->n + ENDED_MAX;
	(void)scan_dirs(w->sp, dirs, ARRAY_LEN(dirs), find_one, ret, NULL);
	(void)spool_each(w->sp, spool_dir_name(SPOOL_DONE), add_day, &days, NULL);
	if (days.n)
		qsort(days.texts, days.n, sizeof(*days.texts), by_text);
	for (size_t i = days.n; i-- > 0 && ret->n < ret->max;) {
		cleanup_free char *dir =
			xasprintf("%s/%s", spool_dir_name(SPOOL_DONE), days.texts[i]);

		(void)scan_dir(w->sp, dir, find_one, ret, NULL);
	}
	text_list_clear(&days);
}

/* The latest first, and the elements of a batch behind it. */
static int by_id(const void *a, const void *b)
{
	const struct task_name *x = a, *y = b;

	if (x->id != y->id)
		return x->id > y->id ? -1 : 1;
	return x->element < y->element ? -1 : x->element > y->element;
}

static void offer_id(const struct words *w, const struct task_name *n, const char *name)
{
	char id[48];

	if (n->element)
		(void)str_print(id, sizeof(id), "%" PRIu64 ".%" PRIu64, n->id, n->element);
	else
		(void)str_print(id, sizeof(id), "%" PRIu64, n->id);
	offer(w, id, name);
}

static void offer_tasks(struct words *w, enum opt_words kind)
{
	unsigned int what = wanted[kind];
	struct found f = { .n = 0 };
	const char *name = "";

	if (what & OF_ACTIVE)
		find_active(w, &f);
	if (what & OF_ENDED)
		find_ended(w, &f);
	if (f.n)
		qsort(f.all, f.n, sizeof(*f.all), by_id);
	for (size_t i = 0; i < f.n && what & OFFER_IDS; i++) {
		name = f.all[i].element ? name : f.all[i].name;
		offer_id(w, &f.all[i], name);
	}
	for (size_t i = 0; i < f.n && what & OFFER_NAMES; i++)
		see(w, f.all[i].name);
	offer_seen(w, "task");
	for (size_t i = 0; i < f.n && what & OFFER_LANES; i++)
		see(w, f.all[i].lane);
	offer_seen(w, "lane");
	if (what & OFFER_ALL && f.n)
		offer(w, "all", "everything");
	if (what & OFFER_LAST && f.n)
		offer(w, "last", "the one that you submitted last");
	free(f.all);
}

static void offer_allocs(struct words *w, enum opt_words kind)
{
	struct alloc_marks marks = { .n = 0 };
	struct found f = { .n = 0 };

	find_active(w, &f);
	if (alloc_marks_read(w->sp, &marks, NULL) == 0)
		for (size_t i = 0; i < f.n; i++)
			if (!f.all[i].element && alloc_marks_find(&marks, f.all[i].id))
				see(w, f.all[i].name);
	offer_seen(w, "allocation");
	alloc_marks_clear(&marks);
	free(f.all);
}

static void offer_pools(struct words *w, enum opt_words kind)
{
	struct text_list names = { .n = 0 };

	(void)pool_list(w->sp, &names, NULL);
	for (size_t i = 0; i < names.n; i++)
		offer(w, names.texts[i], "pool");
	text_list_clear(&names);
}

static void offer_nodes(struct words *w, enum opt_words kind)
{
	struct node_agents agents;

	if (node_agents_read(w->ctx, w->sp, &agents, NULL) == 0)
		for (size_t i = 0; i < agents.n; i++)
			offer(w, agents.all[i].agent, node_agent_state_name(agents.all[i].state));
	node_agents_clear(&agents);
}

/* -------- what needs no queue -------- */

static void offer_instances(struct words *w, enum opt_words kind)
{
	cleanup_free char *root = spool_root(settings_str(w->ctx->settings, SET_ROOT));
	struct text_list names = { .n = 0 };

	(void)spool_instances(root, &names, NULL);
	for (size_t i = 0; i < names.n; i++)
		offer(w, names.texts[i], "queue");
	text_list_clear(&names);
}

/* A MIG instance has no index of its own. */
static void offer_gpu(const struct words *w, unsigned int index, bool mig, const char *name,
		      const char *uuid)
{
	cleanup_free char *gpu = xasprintf("%u", index);
	cleanup_free char *meaning = xasprintf("GPU %u, %s", index, name);

	if (!mig)
		offer(w, gpu, name);
	offer(w, uuid, meaning);
}

/* As the agent knows them; else, where none runs, as the driver does. */
static void offer_gpus(struct words *w, enum opt_words kind)
{
	json_t *status = agent_status(w->ctx, AGENT_LIMIT_MS, NULL), *d;
	const json_t *devices = json_object_get(status, "devices");
	struct machine *m = NULL;
	size_t i;

	json_array_foreach(devices, i, d)
	{
		const char *name = json_get_str(d, "name"), *uuid = json_get_str(d, "uuid");
		bool mig = json_is_integer(json_object_get(d, "mig"));

		offer_gpu(w, (unsigned int)json_get_u64(d, "gpu"), mig, name ? name : "",
			  uuid ? uuid : "");
	}
	if (!json_array_size(devices) && machine_look(0, &m, NULL) == 0)
		for (uint32_t n = 0; n < m->list.n; n++) {
			const struct gpu_device *dev = &m->list.d[n];

			offer_gpu(w, dev->index, dev->mig >= 0, dev->name, dev->uuid);
		}
	(void)machine_free(m);
	json_decref(status);
}

static void offer_engines(struct words *w, enum opt_words kind)
{
	const struct engine *engine;

	for (size_t i = 0; (engine = engine_at(i)); i++)
		offer(w, engine->name, "engine");
}

static void offer_users(struct words *w, enum opt_words kind)
{
	const struct passwd *one;

	while ((one = getpwent()))
		if (!one->pw_uid || one->pw_uid >= FIRST_USER)
			see(w, one->pw_name);
	endpwent();
	offer_seen(w, "user");
}

static void offer_keys(struct words *w, enum opt_words kind)
{
	const struct task_option *row;

	for (size_t i = 0; (row = task_option_at(i)); i++) {
		cleanup_free char *word = xasprintf("%s=", row->key);

		if (!(row->opt.flags & OPT_HIDDEN))
			offer(w, word, row->help ? row->help : row->opt.help);
	}
}

/* -------- the command -------- */

static const struct offer {
	void (*offer)(struct words *w, enum opt_words kind);
	bool queue; /* it needs one */
} offers[WORDS_MAX] = {
	[WORDS_TASKS] = { offer_tasks, true },
	[WORDS_TASKS_LANES] = { offer_tasks, true },
	[WORDS_ANY_TASKS] = { offer_tasks, true },
	[WORDS_ENDED_TASKS] = { offer_tasks, true },
	[WORDS_TASK_IDS] = { offer_tasks, true },
	[WORDS_TASK_NAMES] = { offer_tasks, true },
	[WORDS_ANY_TASK_NAMES] = { offer_tasks, true },
	[WORDS_LANES] = { offer_tasks, true },
	[WORDS_ALLOCS] = { offer_allocs, true },
	[WORDS_POOLS] = { offer_pools, true },
	[WORDS_NODES] = { offer_nodes, true },
	[WORDS_INSTANCES] = { offer_instances },
	[WORDS_GPUS] = { offer_gpus },
	[WORDS_ENGINES] = { offer_engines },
	[WORDS_USERS] = { offer_users },
	[WORDS_TASK_KEYS] = { offer_keys },
};

static int run_words(const struct cmd_ctx *ctx, struct err *e)
{
	const char *beginning = opts_arg(ctx->opts, 1);
	struct words w = { .ctx = ctx, .beginning = beginning ? beginning : "" };
	enum opt_words kind = completion_words_of(opts_arg(ctx->opts, 0));
	const struct offer *row = kind < WORDS_MAX ? &offers[kind] : &(struct offer){ 0 };
	int r = 0;

	if (!row->offer)
		return CMD_USAGE;
	if (row->queue)
		r = instance_open(ctx, SPOOL_LOOK, &w.sp, e);
	if (r == 0)
		row->offer(&w, kind);
	w.sp = spool_close(w.sp);
	return r;
}

static const struct cmd cmd_words = {
	.name = WORDS_VERB,
	.summary = "words for completions",
	.args = "KIND [BEGINNING]",
	.min_args = 1,
	.max_args = 2,
	.setting_groups = SETTING_GROUP_NODE | SETTING_GROUP_QUEUE | SETTING_GROUP_AGENT,
	.run = run_words,
};

/* -------- in a moment, or not at all -------- */

static int run_child(int out, int argc, char **argv)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int r;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0 ||
	    dup2(out, STDOUT_FILENO) < 0)
		return CMD_FAILED;
	r = cmd_run(&cmd_words, "tenure", argc, argv);
	return fflush(stdout) == 0 ? r : CMD_FAILED;
}

/* All that comes before the deadline. Whether that is all that there is. */
static bool read_all(int fd, uint64_t deadline_ns, struct strbuf *ret)
{
	char buf[65536];

	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		uint64_t now = clock_mono_ns();
		ssize_t n;

		if (now >= deadline_ns || ret->len > OUTPUT_MAX)
			return false;
		if (poll(&p, 1, (int)((deadline_ns - now) / NS_PER_MS) + 1) <= 0)
			continue;
		n = read(fd, buf, sizeof(buf));
		if (n <= 0)
			return n == 0;
		strbuf_add(ret, buf, (size_t)n);
	}
}

int words_main(int argc, char **argv)
{
	uint64_t deadline_ns = clock_mono_ns() + PATIENCE_MS * NS_PER_MS;
	cleanup_strbuf struct strbuf text = STRBUF_INIT;
	int ends[2], status = 0;
	pid_t child;
	bool all;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return CMD_FAILED;
	child = fork();
	if (child == 0)
		_exit(run_child(ends[1], argc, argv));
	(void)close(ends[1]);
	if (child < 0)
		return CMD_FAILED;
	all = read_all(ends[0], deadline_ns, &text);
	if (!all) /* and where it hangs it cannot be waited for */
		(void)kill(child, SIGKILL);
	else if (waitpid(child, &status, 0) < 0 || status)
		all = false;
	if (all)
		(void)fwrite(strbuf_str(&text), 1, text.len, stdout);
	return all && fflush(stdout) == 0 ? CMD_OK : CMD_FAILED;
}
