/* SPDX-License-Identifier: MIT */
#include "spool/heartbeat.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "spool/own.h"

#define STEP_SLACK 2 /* a look that is later than so many steps counts as that many */

char *heartbeat_agent_path(const char *agent, char *buf)
{
	return spool_path(SPOOL_AGENTS, agent, buf);
}

static char *claim_path(const struct task_name *n, const char *suffix, char *buf)
{
	char element[24] = "";

	if (n->element)
		(void)str_print(element, sizeof(element), ".%" PRIu64, n->element);
	return str_print(buf, SPOOL_PATH_MAX, "%s/%" PRIu64 "%s,e%" PRIu64 "%s",
			 spool_dir_name(SPOOL_AGENTS), n->id, element, n->epoch, suffix);
}

char *heartbeat_claim_path(const struct task_name *n, char *buf)
{
	return claim_path(n, "", buf);
}

char *heartbeat_end_path(const struct task_name *n, char *buf)
{
	return claim_path(n, ",end", buf);
}

char *heartbeat_declared_dead_path(const char *agent, char *buf)
{
	return str_print(buf, SPOOL_PATH_MAX, "%s/%s,gone", spool_dir_name(SPOOL_AGENTS), agent);
}

/* The counter stands at the beginning and at the end: a reader between the two sees it. */
static json_t *heartbeat_json(const struct heartbeat *b)
{
	const struct claimer *w = &b->who;
	json_t *o = json_pack("{sI ss ss ss si sI sI sf sb sb}", "beat", (json_int_t)b->count,
			      "agent", w->agent, "host", w->host, "boot", w->boot, "pid",
			      (int)w->proc.pid, "start", (json_int_t)w->proc.start, "promise_ms",
			      (json_int_t)b->fence_timeout_ms, "began", record_seconds(b->began_ns),
			      "ended", b->ended, "draining", b->draining);
	json_t *rest = json_pack("{si si si si si sI}", "devices", (int)b->devices, "held",
				 (int)b->held, "idle", (int)b->idle, "lent", (int)b->lent,
				 "running", (int)b->running, "same", (json_int_t)b->count);

	(void)json_object_update(o, rest);
	json_decref(rest);
	return o;
}

int heartbeat_write(const struct spool *sp, const char *path, const struct heartbeat *b,
		    struct err *e)
{
	char block[HEARTBEAT_BYTES];
	json_t *o = heartbeat_json(b);
	cleanup_free char *text = json_dumps(o, JSON_COMPACT);
	size_t len = text ? strlen(text) : HEARTBEAT_BYTES;

	json_decref(o);
	if (len >= HEARTBEAT_BYTES)
		return err_set(e, -EINVAL, "the heartbeat %s is too long", path);
	(void)memset(block, ' ', sizeof(block));
	(void)memcpy(block, text, len);
	block[HEARTBEAT_BYTES - 1] = '\n';

	int fd = spool_open_own(sp, path, O_WRONLY | O_CREAT, NULL, e);

	if (fd < 0)
		return fd;

	ssize_t n = pwrite(fd, block, sizeof(block), 0);
	int r = n == (ssize_t)sizeof(block) ? 0 : n < 0 ? -errno : -ENOSPC;

	if (close(fd) < 0 && r == 0)
		r = -errno;
	return r < 0 ? err_sys(e, -r, "write the heartbeat %s/%s", sp->path, path) : 0;
}

static void take_heartbeat(const json_t *o, struct heartbeat *b)
{
	*b = (struct heartbeat){
		.count = json_get_u64(o, "beat"),
		.who.proc = { (pid_t)json_get_small(o, "pid", INT32_MAX),
			      json_get_u64(o, "start") },
		.fence_timeout_ms = json_get_u64(o, "promise_ms"),
		.ended = json_is_true(json_object_get(o, "ended")),
		.draining = json_is_true(json_object_get(o, "draining")),
		.devices = json_get_small(o, "devices", INT32_MAX),
		.held = json_get_small(o, "held", INT32_MAX),
		.idle = json_get_small(o, "idle", INT32_MAX),
		.lent = json_get_small(o, "lent", INT32_MAX),
		.running = json_get_small(o, "running", INT32_MAX),
		.began_ns = record_ns(json_object_get(o, "began")),
	};
	json_get_text(o, "agent", b->who.agent, sizeof(b->who.agent));
	json_get_text(o, "host", b->who.host, sizeof(b->who.host));
	json_get_text(o, "boot", b->who.boot, sizeof(b->who.boot));
}

int heartbeat_parse(const char *path, const char *text, size_t len, struct heartbeat *ret,
		    struct err *e)
{
	json_error_t je;
	json_t *o = json_loadb(text, len, 0, &je);
	int r = 0;

	if (!len || (o && json_get_u64(o, "beat") != json_get_u64(o, "same")))
		r = err_set(e, -EAGAIN, "%s is being written", path);
	else if (!json_is_object(o) || !json_get_u64(o, "beat"))
		r = err_set(e, -EINVAL, "%s is no heartbeat: %s", path, o ? "no beat" : je.text);
	else
		take_heartbeat(o, ret);
	json_decref(o);
	return r;
}

int heartbeat_read(const struct spool *sp, const char *path, struct heartbeat *ret,
		   uint64_t *ret_mtime_ns, struct err *e)
{
	cleanup_free char *text = NULL;
	struct stat st;
	size_t len;
	int r = spool_read(sp, path, HEARTBEAT_BYTES, &text, &len, e);

	if (r == 0)
		r = heartbeat_parse(path, text, len, ret, e);
	if (r == 0 && ret_mtime_ns) {
		*ret_mtime_ns = 0;
		if (fstatat(sp->fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
			*ret_mtime_ns = clock_timespec_ns(&st.st_mtim);
	}
	return r;
}

struct each {
	heartbeat_agent_fn fn;
	void *data;
};

static int look(void *data, const char *file, unsigned char type)
{
	const struct each *each = data;

	/* Those of claims have a comma, which no name has. */
	return ident_is_name(file) && strlen(file) <= NAME_AGENT_MAX ? each->fn(each->data, file)
								     : 0;
}

int heartbeat_each_agent(const struct spool *sp, heartbeat_agent_fn fn, void *data, struct err *e)
{
	struct each each = { fn, data };

	return spool_each(sp, spool_dir_name(SPOOL_AGENTS), look, &each, e);
}

#define JOB_MAX 22 /* of a job's key in a name: some of the node's is to be left */

char *heartbeat_agent_name(const char *setting, const char *host, const char *job, char *ret)
{
	char made[SPEC_NAME_MAX + 1], key[JOB_MAX + 1], node[NAME_AGENT_MAX + 1];

	ident_make_name(setting && setting[0] ? setting : host, made);
	if (!job)
		return str_print(ret, NAME_AGENT_MAX + 1, "%.*s", NAME_AGENT_MAX, made);
	(void)hash_short_name(key, JOB_MAX, job);
	(void)hash_short_name(node, NAME_AGENT_MAX - strlen(key) - 1, made);
	return str_print(ret, NAME_AGENT_MAX + 1, "%s-%s", node, key);
}

bool heartbeat_same_kernel(const char *boot, const char *other)
{
	size_t n = strcspn(boot, "."), m = strcspn(other, ".");

	return n && n == m && strncmp(boot, other, n) == 0;
}

/* ---- how long one has been silent ---- */

struct seen {
	char key[SPOOL_PATH_MAX];
	uint64_t count;
	uint64_t silent_ms;
	bool present; /* in this look */
};

struct heartbeat_watch {
	uint64_t step_ms, looked_ns;
	uint64_t passed_ms; /* since the last look, as far as it counts */
	size_t n;
	struct seen *all;
};

struct heartbeat_watch *heartbeat_watch_new(uint64_t step_ms)
{
	struct heartbeat_watch *w = xcalloc(1, sizeof(*w));

	w->step_ms = step_ms;
	return w;
}

struct heartbeat_watch *heartbeat_watch_free(struct heartbeat_watch *w)
{
	if (!w)
		return NULL;
	free(w->all);
	free(w);
	return NULL;
}

void heartbeat_watch_begin(struct heartbeat_watch *w, uint64_t now_ns)
{
	uint64_t most = w->step_ms * STEP_SLACK;
	uint64_t passed = w->looked_ns ? (now_ns - w->looked_ns) / NS_PER_MS : 0;

	w->passed_ms = passed < most ? passed : most;
	w->looked_ns = now_ns;
	for (size_t i = 0; i < w->n; i++)
		w->all[i].present = false;
}

static struct seen *find_seen(const struct heartbeat_watch *w, const char *key)
{
	for (size_t i = 0; i < w->n; i++)
		if (strcmp(w->all[i].key, key) == 0)
			return &w->all[i];
	return NULL;
}

uint64_t heartbeat_watch_see(struct heartbeat_watch *w, const char *key, uint64_t count)
{
	struct seen *s = find_seen(w, key);

	if (!s) {
		w->all = xrealloc(w->all, w->n + 1, sizeof(*w->all));
		s = &w->all[w->n++];
		*s = (struct seen){ .count = count };
		(void)str_copy(s->key, sizeof(s->key), key);
	} else if (s->count != count) {
		s->count = count;
		s->silent_ms = 0;
	} else if (!s->present) {
		s->silent_ms += w->passed_ms;
	}
	s->present = true;
	return s->silent_ms;
}

void heartbeat_watch_finish(struct heartbeat_watch *w)
{
	size_t kept = 0;

	for (size_t i = 0; i < w->n; i++)
		if (w->all[i].present)
			w->all[kept++] = w->all[i];
	w->n = kept;
}

enum liveness liveness_judge(const struct liveness_facts *f)
{
	if (f->same_node)
		return f->runs ? LIVENESS_ALIVE : LIVENESS_DEAD;
	if (f->gone || (f->local_files && !f->same_kernel))
		return LIVENESS_DEAD;
	if (f->silent_ms <
	    (f->fence_timeout_ms > f->expire_ms ? f->fence_timeout_ms : f->expire_ms))
		return LIVENESS_ALIVE;
	return f->fence_timeout_ms || f->same_kernel || f->tool ? LIVENESS_DEAD : LIVENESS_UNKNOWN;
}

/* ---- a shim keeps its claim ---- */

static int is_other(void *data, const char *agent)
{
	return strcmp(agent, data) != 0;
}

/* Some other agent has a file there. */
static bool others_are_there(const struct spool *sp, const char *self)
{
	cleanup_free char *name = xstrdup(self);

	/* What cannot be read may be there. */
	return heartbeat_each_agent(sp, is_other, name, NULL) != 0;
}

static int look_at_claim(const struct spool *sp, const char *claim)
{
	if (faccessat(sp->fd, claim, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	if (errno != ENOENT)
		return -errno;
	return spool_is_gone(sp, claim) ? HEARTBEAT_CLAIM_GONE : -ESTALE;
}

/* The spool of a claim, as much of it as is needed here. ret->fd: the caller's, also after an
 * error. */
static int open_claims_spool(const char *dir, const char *claim, struct spool *ret)
{
	struct stat st;

	*ret = (struct spool){ .trust_directory = true, .path = (char *)(uintptr_t) "" };
	ret->fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (ret->fd < 0 || fstat(ret->fd, &st) < 0)
		return -errno;
	ret->owner = st.st_uid;
	ret->group = st.st_gid;
	return look_at_claim(ret, claim);
}

int heartbeat_keep(const char *dir, const char *claim, const char *file, struct heartbeat *b,
		   uint64_t fence_timeout_ms, bool always)
{
	struct spool sp;
	int r = open_claims_spool(dir, claim, &sp);

	if (r == 0) {
		b->count++;
		b->fence_timeout_ms =
			always || others_are_there(&sp, b->who.agent) ? fence_timeout_ms : 0;
		r = heartbeat_write(&sp, file, b, NULL);
	}
	(void)fd_close(sp.fd);
	return r;
}

int heartbeat_leave_end(const char *dir, const char *claim, const char *path, const char *text,
			size_t len)
{
	struct spool sp;
	int r = open_claims_spool(dir, claim, &sp);

	if (r == 0)
		r = spool_replace(&sp, path, text, len, NULL);
	/* Where the claim is gone while we write, who filed the end may have tidied up before. */
	if (r == 0 && look_at_claim(&sp, claim) == HEARTBEAT_CLAIM_GONE)
		(void)spool_remove(&sp, path);
	(void)fd_close(sp.fd);
	return r;
}
