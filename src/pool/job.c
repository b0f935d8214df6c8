/* SPDX-License-Identifier: MIT */
#include "pool/job.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/enumstr.h"
#include "base/fs.h"
#include "base/hash.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/utf8.h"
#include "pool/pool.h"
#include "spool/instance.h"

#define RANDOM_LEN 6
#define JOB_KIND   ".job"
#define TAIL_READ  4096

static const char *const phase_names[] = { [POOL_JOB_SUBMITTING] = "submitting",
					   [POOL_JOB_SUBMITTED] = "submitted",
					   [POOL_JOB_ENDED] = "ended" };
_Static_assert(ARRAY_LEN(phase_names) == POOL_JOB_PHASE_MAX, "a name for every phase");

static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567"; /* 32 */

int pool_job_mark(const struct spool *sp, const char *pool, char ret[POOL_MARK_LEN + 1],
		  struct err *e)
{
	char key[SPOOL_KEY_MAX];
	int r = spool_key(sp, key, e);
	cleanup_free char *text = r == 0 ? xasprintf("%s/%s", key, pool) : NULL;
	uint32_t h = text ? hash_fnv32(HASH_FNV32, text) : 0;

	for (size_t i = 0; i < POOL_MARK_LEN; i++, h /= 26)
		ret[i] = letters[h % 26];
	ret[POOL_MARK_LEN] = '\0';
	return r;
}

void pool_job_token(const char *mark, char ret[ENGINE_TOKEN_MAX + 1])
{
	unsigned char random[RANDOM_LEN];
	char tail[RANDOM_LEN + 1] = "";

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		abort(); /* so few bytes are never cut, and the kernel has it since 3.17 */
	for (size_t i = 0; i < RANDOM_LEN; i++)
		tail[i] = letters[random[i] % 32];
	(void)str_print(ret, ENGINE_TOKEN_MAX + 1, "%s%s", mark, tail);
}

bool pool_job_is_token(const char *text)
{
	size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789");

	return n > 0 && n <= ENGINE_TOKEN_MAX && !text[n] && text[0] >= 'a';
}

char *pool_job_file(const char *token, const char *kind, char *buf)
{
	return str_print(buf, 32, "%s.%s", token, kind);
}

static bool is_id(const char *text)
{
	static const char known[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    ".:_+[]-";

	return text[0] != '-' && !text[strspn(text, known)];
}

/* What stands in a record beside phase and state. */
static const struct {
	const char *name;
	enum { TEXT, NUMBER, BIG, SUM, FLAG } kind;
	size_t at, size; /* of a text; of a number the most */
} keys[] = {
#define JOB_TEXT(name, field)                                                                      \
	{                                                                                          \
		name, TEXT, offsetof(struct pool_job, field),                                      \
			sizeof(((struct pool_job *)0)->field)                                      \
	}
#define JOB_KEY(name, kind, field, most)                                                           \
	{                                                                                          \
		name, kind, offsetof(struct pool_job, field), most                                 \
	}
	JOB_TEXT("engine", engine),
	JOB_TEXT("id", id),
	JOB_TEXT("node", node),
	JOB_TEXT("agent", agent),
	JOB_TEXT("reason", reason),
	JOB_TEXT("after", after),
	JOB_KEY("gpus", NUMBER, gpus, POOL_GPUS_MAX),
	JOB_KEY("shape", SUM, shape, 0),
	JOB_KEY("submitted", BIG, submitted_s, 0),
	JOB_KEY("began", BIG, began_s, 0),
	JOB_KEY("ended", BIG, ended_s, 0),
	JOB_KEY("start_ns", BIG, start_ns, 0),
	JOB_KEY("end_ns", BIG, end_ns, 0),
	JOB_KEY("asked_ns", BIG, asked_ns, 0),
	JOB_KEY("named", FLAG, named, 0),
	JOB_KEY("first", FLAG, first, 0),
	JOB_KEY("stay", FLAG, stay, 0),
	JOB_KEY("lost", FLAG, lost, 0),
	JOB_KEY("cancelled", FLAG, cancelled, 0),
};

static void read_key(const json_t *doc, size_t i, struct pool_job *job)
{
	void *at = (char *)job + keys[i].at;
	const char *name = keys[i].name;

	switch (keys[i].kind) {
	case TEXT:
		json_get_text(doc, name, at, keys[i].size);
		break;
	case NUMBER:
		*(unsigned int *)at = json_get_small(doc, name, (unsigned int)keys[i].size);
		break;
	case BIG:
		*(uint64_t *)at = json_get_u64(doc, name);
		break;
	case SUM:
		*(uint32_t *)at = (uint32_t)json_get_u64(doc, name);
		break;
	case FLAG:
		*(bool *)at = json_get_flag(doc, name);
		break;
	}
}

static json_t *key_json(const struct pool_job *job, size_t i)
{
	const void *at = (const char *)job + keys[i].at;

	switch (keys[i].kind) {
	case TEXT:
		return json_new_text(at);
	case NUMBER:
		return json_integer(*(const unsigned int *)at);
	case BIG:
		return json_integer((json_int_t) * (const uint64_t *)at);
	case SUM:
		return json_integer(*(const uint32_t *)at);
	case FLAG:
		return json_boolean(*(const bool *)at);
	}
	return json_null();
}

int pool_job_parse(const char *text, size_t len, struct pool_job *ret)
{
	json_t *doc = json_loadb(text, len, 0, NULL);
	const char *phase = json_get_str(doc, "phase");
	unsigned int n = 0;
	int r = json_is_object(doc) && phase
			? enum_parse(phase_names, ARRAY_LEN(phase_names), phase, &n, NULL)
			: -EINVAL;

	*ret = (struct pool_job){ .phase = (enum pool_job_phase)n };
	ret->state = (enum engine_job_state)json_get_small(doc, "state", ENGINE_JOB_STATE_MAX - 1);
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		read_key(doc, i, ret);
	if (!is_id(ret->id)) /* it becomes a word of a command */
		r = -EINVAL;
	json_decref(doc);
	return r;
}

static char *job_text(const struct pool_job *job)
{
	json_t *doc = json_object();
	char *text;

	(void)json_object_set_new(
		doc, "phase",
		json_string(enum_name(phase_names, ARRAY_LEN(phase_names), job->phase)));
	(void)json_object_set_new(doc, "state", json_integer(job->state));
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		(void)json_object_set_new(doc, keys[i].name, key_json(job, i));
	text = json_dumps(doc, JSON_INDENT(2));
	json_decref(doc);
	return text ? text : xstrdup("{}");
}

int pool_job_write(const struct spool *sp, const char *pool, const struct pool_job *job,
		   bool durable, struct err *e)
{
	char path[SPOOL_PATH_MAX], file[32];
	cleanup_free char *text = job_text(job);
	int r;

	(void)pool_path_of(pool, pool_job_file(job->token, "job", file), path);
	r = spool_replace(sp, path, text, strlen(text), e);
	if (r == 0 && durable)
		r = spool_sync(sp, path, e);
	if (r == 0 && durable)
		r = spool_sync_dirs(sp, SPOOL_BIT(SPOOL_POOLS), e);
	return r;
}

/* ---- all of a pool ---- */

struct pool_job *pool_jobs_add(struct pool_jobs *jobs)
{
	jobs->all = xgrow(jobs->all, jobs->n, sizeof(*jobs->all));
	jobs->all[jobs->n] = (struct pool_job){ .phase = POOL_JOB_SUBMITTING };
	return &jobs->all[jobs->n++];
}

void pool_jobs_clear(struct pool_jobs *jobs)
{
	free(take_ptr(jobs->all));
	jobs->n = 0;
}

struct reading {
	const struct spool *sp;
	const char *pool;
	struct pool_jobs *jobs;
	struct err *e;
};

/* The token of "POOL,TOKEN.job"; false: another file. */
static bool token_of(const char *file, const char *pool, char ret[ENGINE_TOKEN_MAX + 1])
{
	size_t n = strlen(pool), len = strlen(file), tail = strlen(JOB_KIND);

	if (strncmp(file, pool, n) != 0 || file[n] != ',' || !str_has_suffix(file, JOB_KIND) ||
	    len < n + 1 + tail || len - n - 1 - tail > ENGINE_TOKEN_MAX)
		return false;
	(void)str_print(ret, ENGINE_TOKEN_MAX + 1, "%.*s", (int)(len - n - 1 - tail), file + n + 1);
	return pool_job_is_token(ret);
}

int pool_job_read(const struct spool *sp, const char *pool, const char *token, struct pool_job *ret,
		  struct err *e)
{
	char path[SPOOL_PATH_MAX], file[32];
	cleanup_free char *text = NULL;
	size_t len;
	int r;

	(void)pool_path_of(pool, pool_job_file(token, "job", file), path);
	r = spool_read(sp, path, POOL_FILE_MAX, &text, &len, e);
	r = spool_confirm(sp, path, r, e);
	if (r == -ELOOP || r == -EFBIG)
		r = -EINVAL;
	if (r == 0)
		r = pool_job_parse(text, len, ret);
	if (r == 0)
		(void)str_copy(ret->token, sizeof(ret->token), token);
	return r;
}

static int read_one(void *data, const char *file, unsigned char type)
{
	const struct reading *g = data;
	char path[SPOOL_PATH_MAX], token[ENGINE_TOKEN_MAX + 1];
	struct pool_job job;
	int r;

	(void)type;
	if (!token_of(file, g->pool, token))
		return 0;
	r = pool_job_read(g->sp, g->pool, token, &job, g->e);
	if (r == -ENOENT)
		return 0; /* it was removed meanwhile */
	if (r == -EINVAL) {
		(void)spool_refuse(g->sp, spool_path(SPOOL_POOLS, file, path),
				   "it is no record of a job", NULL);
		return 0;
	}
	if (r == 0)
		*pool_jobs_add(g->jobs) = job;
	return r;
}

static int by_age(const void *a, const void *b)
{
	const struct pool_job *x = a, *y = b;

	if (x->submitted_s != y->submitted_s)
		return x->submitted_s < y->submitted_s ? -1 : 1;
	return strcmp(x->token, y->token);
}

int pool_jobs_read(const struct spool *sp, const char *pool, struct pool_jobs *ret, struct err *e)
{
	struct err none = ERR_INIT;
	struct reading g = { .sp = sp, .pool = pool, .jobs = ret, .e = e ? e : &none };
	int r = spool_each(sp, spool_dir_name(SPOOL_POOLS), read_one, &g, e);

	if (ret->n)
		qsort(ret->all, ret->n, sizeof(*ret->all), by_age);
	return pool_none(sp, r) ? 0 : r;
}

void pool_jobs_prune(const struct spool *sp, const char *pool, const struct pool_jobs *jobs,
		     size_t keep)
{
	static const char *const kinds[] = { "sh", "out", "job" };
	char path[SPOOL_PATH_MAX], file[32];
	size_t ended = 0;

	for (size_t i = jobs->n; i-- > 0;) {
		if (jobs->all[i].phase != POOL_JOB_ENDED || ++ended <= keep)
			continue;
		for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
			(void)pool_job_file(jobs->all[i].token, kinds[k], file);
			(void)spool_remove(sp, pool_path_of(pool, file, path));
		}
	}
}

char *pool_job_tail(const struct spool *sp, const char *pool, const char *token, size_t max)
{
	char path[SPOOL_PATH_MAX], file[32], buf[TAIL_READ + 1];
	struct stat st;
	cleanup_fd int fd =
		spool_open_file(sp, pool_path_of(pool, pool_job_file(token, "out", file), path),
				O_RDONLY, &st, NULL);
	ssize_t n;
	char *text;

	if (fd < 0)
		return NULL;
	n = pread(fd, buf, TAIL_READ, st.st_size > TAIL_READ ? st.st_size - TAIL_READ : 0);
	while (n > 0 && strchr(" \n\r\t", buf[n - 1]))
		n--;
	if (n <= 0)
		return NULL;
	buf[n] = '\0';
	for (ssize_t i = 0; i < n; i++)
		buf[i] = buf[i] ? buf[i] : '?';
	text = buf + ((size_t)n > max ? (size_t)n - max : 0);
	/* The rest of a character that is cut there. */
	for (int i = 0;
	     i < 3 && st.st_size > buf + n - text && ((unsigned char)*text & 0xc0) == 0x80; i++)
		text++;
	/* A line is told whole, or not at all, but for the last one. */
	if (text != buf && strchr(text, '\n'))
		text = strchr(text, '\n') + 1;
	return utf8_clean(xstrdup(text));
}
