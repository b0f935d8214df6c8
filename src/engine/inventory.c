/* SPDX-License-Identifier: MIT */
/*
 * The file is looked at first without a lock: that is all that most callers do. Who finds it too
 * old takes the lock, looks again, since somebody may have asked meanwhile, and asks. The answer
 * replaces the file as a whole, so nobody ever reads half of one. A failure is remembered beside
 * the last answer, so that twenty terminals do not ask twenty times what does not answer.
 *
 * Times are of the wall clock, because processes of several boots and nodes read the file. One that
 * lies ahead of now says that a clock was set, and what it says of an age is not believed.
 */
#include "engine/inventory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "engine/node_sums.h"
#include "engine/script.h"

#define FORMAT	      1
#define SUM_LEN	      16 /* digits of the digest in a file's name */
#define GPUS_MOST     65536
#define NODE_NAME_MAX 256
#define WHY_MAX	      512
#define NODES	      "nodes-" /* the names of the files begin so */
#define JOBS	      "jobs-"
#define KEPT_S	      (7 * 86400ULL)
#define PAUSE_MS      20

/* -------- what is remembered, as text -------- */

static json_t *node_json(const struct engine_node *node)
{
	json_t *o = json_object();

	(void)json_object_set_new(o, "name", json_new_text(node->name));
	if (node->type)
		(void)json_object_set_new(o, "type", json_new_text(node->type));
	if (node->why)
		(void)json_object_set_new(o, "why", json_new_text(node->why));
	(void)json_object_set_new(o, "total", json_integer(node->total));
	(void)json_object_set_new(o, "used", json_integer(node->used));
	(void)json_object_set_new(o, "free", json_integer(node->free));
	(void)json_object_set_new(o, "blocked", json_integer(node->blocked));
	(void)json_object_set_new(o, "usable", json_boolean(node->usable));
	(void)json_object_set_new(o, "unknown", json_boolean(node->unknown));
	return o;
}

static json_t *job_json(const struct engine_job *job)
{
	json_t *o = json_object();

	(void)json_object_set_new(o, "id", json_new_text(job->id));
	(void)json_object_set_new(o, "name", json_new_text(job->name));
	if (job->node)
		(void)json_object_set_new(o, "node", json_new_text(job->node));
	(void)json_object_set_new(o, "state", json_string(engine_job_state_name(job->state)));
	if (job->gpus_known)
		(void)json_object_set_new(o, "gpus", json_integer(job->gpus));
	return o;
}

char *inventory_text(const struct inventory *inventory)
{
	json_t *doc = json_object(), *nodes = json_array(), *jobs = json_array();
	char *text;

	for (size_t i = 0; i < inventory->nodes.n; i++)
		(void)json_array_append_new(nodes, node_json(&inventory->nodes.all[i]));
	for (size_t i = 0; i < inventory->jobs.n; i++)
		(void)json_array_append_new(jobs, job_json(&inventory->jobs.all[i]));
	(void)json_object_set_new(doc, "format", json_integer(FORMAT));
	(void)json_object_set_new(doc, "known", json_boolean(inventory->known));
	(void)json_object_set_new(doc, "asked", json_integer((json_int_t)inventory->asked_ns));
	(void)json_object_set_new(doc, "failed", json_integer((json_int_t)inventory->failed_ns));
	(void)json_object_set_new(doc, "code", json_integer(inventory->code));
	(void)json_object_set_new(doc, "error", json_new_text(inventory->error));
	(void)json_object_set_new(doc, "nodes", nodes);
	(void)json_object_set_new(doc, "jobs", jobs);
	text = json_dumps(doc, JSON_COMPACT);
	json_decref(doc);
	return text ? text : xstrdup("");
}

/* NULL where there is none. */
static char *new_text(const json_t *o, const char *key)
{
	char text[WHY_MAX];

	if (!json_get_str(o, key))
		return NULL;
	json_get_text(o, key, text, sizeof(text));
	return xstrdup(text);
}

static bool read_node(const json_t *o, struct engine_nodes *nodes)
{
	const char *name = json_get_str(o, "name");
	struct engine_node *node;

	if (!name || !name[0] || strlen(name) > NODE_NAME_MAX)
		return false;
	node = engine_nodes_add(nodes);
	node->name = new_text(o, "name");
	node->type = new_text(o, "type");
	node->why = new_text(o, "why");
	node->total = json_get_small(o, "total", GPUS_MOST);
	node->used = json_get_small(o, "used", GPUS_MOST);
	node->free = json_get_small(o, "free", GPUS_MOST);
	node->blocked = json_get_small(o, "blocked", GPUS_MOST);
	node->usable = json_get_flag(o, "usable");
	node->unknown = json_get_flag(o, "unknown");
	return node->used <= node->total && node->free <= node->total - node->used &&
	       node->blocked <= node->free;
}

static bool read_nodes(const json_t *list, struct engine_nodes *nodes)
{
	bool ok = json_is_array(list);

	for (size_t i = 0; ok && i < json_array_size(list); i++)
		ok = read_node(json_array_get(list, i), nodes);
	return ok;
}

static enum engine_job_state state_of(const char *word)
{
	for (unsigned int i = 0; word && i < ENGINE_JOB_STATE_MAX; i++)
		if (strcmp(engine_job_state_name(i), word) == 0)
			return (enum engine_job_state)i;
	return ENGINE_JOB_UNKNOWN;
}

static bool read_job(const json_t *o, struct engine_jobs *jobs)
{
	const char *id = json_get_str(o, "id"), *name = json_get_str(o, "name");
	struct engine_job *job;

	if (!id || !id[0] || !name || !name[0])
		return false;
	job = engine_jobs_add(jobs);
	job->id = new_text(o, "id");
	job->name = new_text(o, "name");
	job->node = new_text(o, "node");
	job->state = state_of(json_get_str(o, "state"));
	job->gpus_known = json_is_integer(json_object_get(o, "gpus"));
	job->gpus = json_get_small(o, "gpus", GPUS_MOST);
	return true;
}

/* What an older version has written has none. */
static bool read_jobs(const json_t *list, struct engine_jobs *jobs)
{
	bool ok = !list || json_is_array(list);

	for (size_t i = 0; ok && i < json_array_size(list); i++)
		ok = read_job(json_array_get(list, i), jobs);
	return ok;
}

/* The negative errno that it says; anything else is -EIO. */
static int code_of(const json_t *doc)
{
	json_int_t code = json_integer_value(json_object_get(doc, "code"));

	return code < 0 && code > -4096 ? (int)code : -EIO;
}

int inventory_parse(const char *text, size_t len, struct inventory *ret)
{
	json_t *doc = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	bool ok;

	*ret = (struct inventory){ .cached = true,
				   .known = json_get_flag(doc, "known"),
				   .asked_ns = json_get_u64(doc, "asked"),
				   .failed_ns = json_get_u64(doc, "failed") };
	ok = json_get_small(doc, "format", FORMAT + 1) == FORMAT &&
	     read_nodes(json_object_get(doc, "nodes"), &ret->nodes) &&
	     read_jobs(json_object_get(doc, "jobs"), &ret->jobs) &&
	     ret->known == (ret->asked_ns != 0) && (ret->known || (!ret->nodes.n && !ret->jobs.n));
	if (ret->failed_ns) {
		ret->code = code_of(doc);
		json_get_text(doc, "error", ret->error, sizeof(ret->error));
	}
	json_decref(doc);
	if (!ok)
		inventory_clear(ret);
	return ok ? 0 : -EINVAL;
}

void inventory_clear(struct inventory *inventory)
{
	engine_nodes_clear(&inventory->nodes);
	engine_jobs_clear(&inventory->jobs);
	*inventory = (struct inventory){ .known = false };
}

/* -------- what is done about it -------- */

/* A time that lies ahead is none. */
static bool is_within(uint64_t then_ns, uint64_t now_ns, uint64_t age_ms)
{
	return then_ns && then_ns <= now_ns && now_ns - then_ns <= age_ms * NS_PER_MS;
}

enum inventory_step inventory_judge(const struct inventory *known, uint64_t now_ns,
				    uint64_t max_age_ms)
{
	uint64_t age_ms = max_age_ms > INVENTORY_RETRY_MS ? max_age_ms : INVENTORY_RETRY_MS;

	if (known->known && is_within(known->asked_ns, now_ns, age_ms))
		return INVENTORY_USE;
	return is_within(known->failed_ns, now_ns, INVENTORY_RETRY_MS) ? INVENTORY_FAIL
								       : INVENTORY_ASK;
}

/* -------- which file -------- */

/* A file that says where the cluster is may be written anew, or another one put in its place. */
static void add_file(struct strbuf *b, const char *path)
{
	struct stat st;

	if (path[0] == '/' && stat(path, &st) == 0)
		strbuf_addf(b, "%s %" PRIu64 " %lld %llu\n", path, clock_timespec_ns(&st.st_mtim),
			    (long long)st.st_size, (unsigned long long)st.st_ino);
}

/* Of a variable, which may be a list of files. */
static void add_files(struct strbuf *b, const char *value)
{
	while (*value) {
		size_t n = strcspn(value, ":");
		cleanup_free char *path = xasprintf("%.*s", (int)n, value);

		add_file(b, path);
		value += n + (value[n] != '\0');
	}
}

static void add_variables(struct strbuf *b, const struct engine *engine, const char *const *all)
{
	for (const char *const *v = engine->cluster_variables; v && *v; v++) {
		cleanup_free char *assignment = xasprintf("%s=", *v);
		const char *value = script_variable(all, assignment);

		strbuf_addf(b, "%s%s\n", assignment, value ? value : "");
		if (value)
			add_files(b, value);
	}
}

/* The program that PATH has for a command: two versions of a site's tools, two clusters. */
static void add_command(struct strbuf *b, const char *command, const char *const *all)
{
	const char *path = script_variable(all, "PATH=");

	while (path && *path) {
		size_t n = strcspn(path, ":");
		cleanup_free char *file = xasprintf("%.*s/%s", (int)n, path, command);

		if (n && access(file, X_OK) == 0) {
			strbuf_addf(b, "%s\n", file);
			return;
		}
		path += n + (path[n] != '\0');
	}
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void add_settings(struct strbuf *b, const struct text_list *settings)
{
	struct text_list sorted = { .n = 0 };

	for (size_t i = 0; settings && i < settings->n; i++)
		text_list_set_variable(&sorted, settings->texts[i]);
	if (sorted.n)
		qsort(sorted.texts, sorted.n, sizeof(*sorted.texts), by_text);
	for (size_t i = 0; i < sorted.n; i++)
		strbuf_addf(b, "%s\n", sorted.texts[i]);
	text_list_clear(&sorted);
}

/* prefix: of jobs; NULL: of nodes. */
static char *path_of(const struct engine *engine, const struct engine_env *env, const char *prefix,
		     const char *dir)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	char sum[SHA256_HEX_MAX];

	add_settings(&b, env->settings);
	add_variables(&b, engine, env->environ);
	if (engine->cluster_command)
		add_command(&b, engine->cluster_command, env->environ);
	if (engine->cluster_file) {
		cleanup_free char *home = fs_home_dir();
		cleanup_free char *path = xasprintf("%s/%s", home, engine->cluster_file);

		add_file(&b, path);
	}
	if (prefix)
		strbuf_addf(&b, "%s\n", prefix);
	sha256_hex(strbuf_str(&b), b.len, sum);
	return xasprintf("%s/%s%s-%.*s", dir, prefix ? JOBS : NODES, engine->name, SUM_LEN, sum);
}

char *inventory_path(const struct engine *engine, const struct engine_env *env, const char *dir)
{
	return path_of(engine, env, NULL, dir);
}

/* -------- the files -------- */

/* A directory of our own that nobody else can write in: else there is none. */
static bool make_dir(const char *dir)
{
	struct stat st;

	return fs_mkdirs(dir, 0700, NULL) == 0 && stat(dir, &st) == 0 && S_ISDIR(st.st_mode) &&
	       st.st_uid == geteuid() && !(st.st_mode & (S_IWGRP | S_IWOTH));
}

static void load(const char *path, struct inventory *ret)
{
	cleanup_free char *file = xasprintf("%s.json", path), *text = NULL;
	size_t len;

	inventory_clear(ret);
	if (fs_read_own_file(file, INVENTORY_FILE_MAX, &text, &len, NULL) == 0)
		(void)inventory_parse(text, len, ret);
}

/* Clusters and settings that nobody has asked about for long, and what a writer that was killed has
 * left. */
static void prune(const char *dir)
{
	DIR *d = opendir(dir);
	const struct dirent *entry;
	struct stat st;

	while (d && (entry = readdir(d))) {
		if ((str_has_prefix(entry->d_name, NODES) || str_has_prefix(entry->d_name, JOBS)) &&
		    fstatat(dirfd(d), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    clock_timespec_ns(&st.st_mtim) + KEPT_S * NS_PER_S < clock_wall_ns())
			(void)unlinkat(dirfd(d), entry->d_name, 0);
	}
	if (d)
		(void)closedir(d);
}

/* Not synced: it can be asked for again. What cannot be written is asked for again as well. */
static void store(const char *path, const struct inventory *inventory)
{
	cleanup_free char *file = xasprintf("%s.json", path), *tmp = xasprintf("%s.XXXXXX", path);
	cleanup_free char *text = inventory_text(inventory);
	int fd = mkostemp(tmp, O_CLOEXEC); /* 0600 */

	if (fd < 0)
		return;

	int r = fs_write_all(fd, text, strlen(text));

	if (close(fd) < 0 || r < 0 || rename(tmp, file) < 0)
		(void)unlink(tmp);
}

/* What is locked is still the file of that name: forget_lock() takes it away. */
static bool is_named(int fd, const char *file)
{
	struct stat ours, named;

	return fstat(fd, &ours) == 0 && lstat(file, &named) == 0 && ours.st_ino == named.st_ino &&
	       ours.st_dev == named.st_dev;
}

/* A descriptor that has the lock; -1: there are no locks here; -EBUSY: it is not to be had in that
 * time. */
static int lock(const char *path, uint64_t limit_ms)
{
	static const struct timespec pause = { .tv_nsec = PAUSE_MS * (long)NS_PER_MS };
	cleanup_free char *file = xasprintf("%s.lock", path);
	uint64_t end_ns = clock_mono_ns() + limit_ms * NS_PER_MS;

	for (;;) {
		cleanup_fd int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

		if (fd < 0)
			return -1;
		if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
			if (!is_named(fd, file))
				continue;
			(void)futimens(fd, NULL); /* it is in use: prune() */
			return take_fd(fd);
		}
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -1;
		if (clock_mono_ns() > end_ns)
			return -EBUSY;
		(void)nanosleep(&pause, NULL);
	}
}

/* By who has the lock: nothing is remembered of what is not here. */
static void forget_lock(const char *path)
{
	cleanup_free char *file = xasprintf("%s.lock", path);

	(void)unlink(file);
}

/* -------- asking -------- */

static uint64_t age_of(const struct inventory *inventory, uint64_t now_ns)
{
	return inventory->known && inventory->asked_ns < now_ns
		       ? (now_ns - inventory->asked_ns) / NS_PER_MS
		       : 0;
}

static int ask_jobs(const struct engine *engine, const struct engine_env *env, const char *prefix,
		    struct engine_jobs *ret, struct err *e)
{
	struct engine_env with = *env;

	with.gpus = true;
	return engine->jobs(&with, prefix, ret, e);
}

/* What it answers takes the place of what ret has; where it fails, that stays. */
static int ask(const struct engine *engine, const struct engine_env *env, const char *prefix,
	       struct inventory *ret, struct err *e)
{
	struct err why = ERR_INIT;
	struct inventory now = { .known = true };
	int r = prefix ? ask_jobs(engine, env, prefix, &now.jobs, &why)
		       : engine->inventory(env, &now.nodes, &why);

	if (r == 0) {
		now.asked_ns = clock_wall_ns();
		node_sums_tidy(&now.nodes);
		inventory_clear(ret);
		*ret = now;
		return 0;
	}
	engine_nodes_clear(&now.nodes);
	engine_jobs_clear(&now.jobs);
	ret->failed_ns = clock_wall_ns();
	ret->code = r;
	(void)str_copy(ret->error, sizeof(ret->error), why.text);
	return err_set(e, r, "%s", why.text);
}

/* 0 and negative as inventory_read(); 1: it is to be asked. */
static int recall(const char *path, uint64_t max_age_ms, struct inventory *ret, struct err *e)
{
	uint64_t now_ns = clock_wall_ns();
	enum inventory_step step;

	load(path, ret);
	ret->age_ms = age_of(ret, now_ns);
	step = inventory_judge(ret, now_ns, max_age_ms);
	if (step == INVENTORY_FAIL)
		return err_set(e, ret->code, "%s", ret->error);
	return step == INVENTORY_USE ? 0 : 1;
}

/* prefix: as in path_of() */
static int read_or_ask(const struct engine *engine, const struct engine_env *env,
		       const char *prefix, const char *dir, uint64_t max_age_ms,
		       struct inventory *ret, struct err *e)
{
	uint64_t limit_ms = (env->limit_ms ? env->limit_ms : ENGINE_LIMIT_MS) + INVENTORY_WAIT_MS;
	cleanup_free char *path = NULL;
	cleanup_fd int fd = -1;
	int r;

	*ret = (struct inventory){ .known = false };
	if (!dir || !make_dir(dir))
		return ask(engine, env, prefix, ret, e);
	path = path_of(engine, env, prefix, dir);
	r = recall(path, max_age_ms, ret, e);
	if (r != 1)
		return r;
	fd = lock(path, limit_ms);
	if (fd == -EBUSY)
		return err_set(e, -EBUSY,
			       "another process has been asking %s for longer than %" PRIu64
			       " s; try again",
			       engine->name, (uint64_t)(limit_ms / MS_PER_S));
	r = recall(path, max_age_ms, ret, e);
	if (r != 1)
		return r;
	r = ask(engine, env, prefix, ret, e);
	/* That its commands are not here is no answer of a cluster. */
	if (r == -ENOENT && !ret->known) {
		forget_lock(path);
	} else if (r != -ENOENT) {
		store(path, ret);
		prune(dir);
	}
	return r;
}

int inventory_read(const struct engine *engine, const struct engine_env *env, const char *dir,
		   uint64_t max_age_ms, struct inventory *ret, struct err *e)
{
	return read_or_ask(engine, env, NULL, dir, max_age_ms, ret, e);
}

int inventory_read_jobs(const struct engine *engine, const struct engine_env *env,
			const char *prefix, const char *dir, uint64_t max_age_ms,
			struct inventory *ret, struct err *e)
{
	return read_or_ask(engine, env, prefix, dir, max_age_ms, ret, e);
}

void inventory_forget_jobs(const struct engine *engine, const struct engine_env *env,
			   const char *prefix, const char *dir)
{
	cleanup_free char *path = path_of(engine, env, prefix, dir);
	cleanup_free char *file = xasprintf("%s.json", path);

	(void)unlink(file);
}
