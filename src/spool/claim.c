/* SPDX-License-Identifier: MIT */
#include "spool/claim.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"
#include "spool/own.h"
#include "spool/task_text.h"

#define TOOL_HOST 30 /* of a host's name */

void claimer_tool_name(const char *tool, const char *host, char ret[SPEC_NAME_MAX + 1])
{
	cleanup_free char *name = xasprintf("%s-%.*s", tool, TOOL_HOST, host);

	if (strlen(host) > TOOL_HOST) {
		free(name);
		name = xasprintf("%s-%.*s-%08" PRIx32, tool, TOOL_HOST - 9, host,
				 hash_fnv32(HASH_FNV32, host));
	}
	ident_make_name(name, ret);
}

int claimer_self(const struct spool *sp, const char *agent, struct claimer *ret, struct err *e)
{
	struct claimer c = { .host = "" };

	if (!ident_is_name(agent) || strlen(agent) > NAME_AGENT_MAX)
		return err_set(e, -EINVAL, "\"%.80s\" is no name of an agent", agent);
	(void)str_copy(c.agent, sizeof(c.agent), agent);
	(void)str_copy(c.host, sizeof(c.host), sp->host);
	(void)str_copy(c.boot, sizeof(c.boot), sp->boot);

	int r = proc_identify(getpid(), &c.proc);

	if (r < 0)
		return err_sys(e, -r, "identify this process");
	*ret = c;
	return 0;
}

/* The file goes back to where it was. Where that fails it stays claimed, and e keeps its first
 * reason. */
static int give_back(const struct spool *sp, const char *running, const char *pending, int r)
{
	(void)spool_rename(sp, running, pending, NULL);
	return r;
}

static bool file_is_bad(int r)
{
	return r == -EINVAL || r == -ERANGE || r == -EFBIG || r == -EPERM || r == -EILSEQ ||
	       r == -ELOOP;
}

/* Until the file is read only its name is known; from then on name and file must agree, or one
 * of them lies. */
static int check_name(const struct task_name *n, const struct task_spec *spec, struct err *e)
{
	struct task_name want;

	name_of_spec(spec, n->id, &want);
	if (want.gpus != n->gpus || want.count != n->count || strcmp(want.lane, n->lane) != 0 ||
	    strcmp(want.name, n->name) != 0)
		return err_set(e, -EINVAL,
			       "the file's name does not agree with the task in it (gpus, number "
			       "of elements, lane and name must)");
	return 0;
}

static int sync_claim(const struct spool *sp, struct err *e)
{
	int r = spool_sync(sp, "running", e);

	return r == 0 ? spool_sync(sp, "pending", e) : r;
}

static int read_claimed(const struct spool *sp, const struct task_name *n, const char *path,
			struct task_file *ret, struct err *e)
{
	int r = task_file_read(sp, path, ret, e);

	if (r < 0)
		return r;
	r = check_name(n, ret->spec, e);
	if (r < 0)
		task_file_clear(ret);
	return r;
}

/* The record of a claim that was given back, or that a power loss took back, stands for the next
 * one: nothing is known to have failed. */
static unsigned int next_attempt(const struct task_history *h)
{
	return h->claimed && h->attempts ? h->attempts : h->attempts + 1;
}

int claim_task(const struct spool *sp, const struct task_name *n, const struct claimer *who,
	       struct task_file *ret_file, struct claim *ret, struct err *e)
{
	char file[NAME_FILE_MAX], from[SPOOL_PATH_MAX];
	struct claim c = { .name = *n, .who = *who, .claimed_ns = clock_wall_ns() };
	struct task_file t;

	(void)spool_path(SPOOL_PENDING, name_format(n, file), from);
	(void)str_copy(c.name.agent, sizeof(c.name.agent), who->agent);
	/* An ended task that somebody has moved back by hand. */
	c.name.ended_s = 0;
	c.name.exit = 0;
	(void)spool_path(SPOOL_RUNNING, name_format(&c.name, file), c.path);

	if (n->flags & (NAME_EDITED | NAME_PAUSED))
		return CLAIM_LOST;
	/* Our view of the queue was old. Without this look, the look after a failed rename
	 * would find that file. */
	if (spool_exists(sp, c.path))
		return CLAIM_LOST;

	int r = spool_rename(sp, from, c.path, e);

	if (r < 0)
		return r == -ENOENT ? CLAIM_LOST : r;
	r = read_claimed(sp, n, c.path, &t, e);
	if (r < 0 && file_is_bad(r)) {
		cleanup_free char *why = xstrdup(e ? e->text : "it cannot be read");

		return spool_refuse(sp, c.path, why, NULL) < 0 ? give_back(sp, c.path, from, r)
							       : CLAIM_REFUSED;
	}
	if (r < 0)
		return give_back(sp, c.path, from, r);
	c.attempt = next_attempt(&t.history);
	c.record_bytes = t.history.bytes;
	/* Where a second run would be wrong, the claim of the first must be known after a
	 * power loss. */
	r = record_append(sp, c.path, record_claim(who, n->epoch, c.attempt, c.claimed_ns),
			  t.spec->no_requeue, e);
	if (r == 0 && t.spec->no_requeue)
		r = sync_claim(sp, e);
	if (r < 0) {
		task_file_clear(&t);
		return give_back(sp, c.path, from, r);
	}
	*ret_file = t;
	*ret = c;
	return 0;
}

int claim_keep(const struct spool *sp, const struct claim *c, struct err *e)
{
	int r = spool_sync(sp, c->path, e);

	return r == 0 ? spool_sync(sp, "running", e) : r;
}

int claim_started(const struct spool *sp, struct claim *c, const struct proc_id *shim,
		  const struct text_list *devices, struct err *e)
{
	json_t *record = record_start(shim, devices, c->name.epoch, clock_wall_ns());
	int r = record_append(sp, c->path, record, false, e);

	if (r == 0) {
		c->who.proc = *shim;
		c->started = true;
	}
	return r;
}

int claim_stopped(const struct spool *sp, const struct claim *c, struct err *e)
{
	json_t *record = record_stop(c->name.epoch, clock_wall_ns());
	int r = spool_confirm(sp, c->path, record_append(sp, c->path, record, true, e), e);

	/* The claim is synced as well: a power loss that takes the claim back would take this
	 * record with it. */
	return r == 0 ? spool_sync(sp, "running", e) : r;
}

int claim_log_away(const struct spool *sp, const struct claim *c, const struct log_away *log,
		   struct err *e)
{
	return record_append(sp, c->path,
			     record_log(log, c->name.epoch, c->attempt, clock_wall_ns()), false, e);
}

/* The file of a claim; *ret_at: where its records begin. */
static int read_records(const struct spool *sp, const struct claim *c, char **ret, size_t *ret_len,
			size_t *ret_at, struct err *e)
{
	struct task_spec *spec = NULL;
	int r = spool_read(sp, c->path, SPEC_FILE_MAX, ret, ret_len, e);

	*ret_at = 0;
	if (r == 0 && !c->name.element) /* its records come behind the task */
		r = spec_read(*ret, *ret_len, &spec, ret_at, e);
	spec_free(spec);
	return r;
}

int claim_devices(const struct spool *sp, const struct claim *c, struct text_list *ret,
		  struct err *e)
{
	cleanup_free char *text = NULL;
	size_t len, at;
	int r = read_records(sp, c, &text, &len, &at, e);

	if (r == 0)
		history_devices(text + at, len - at, c->name.epoch, ret);
	return r;
}

int claim_find_log(const struct spool *sp, const struct claim *c, unsigned int attempt,
		   struct log_away *ret, struct err *e)
{
	cleanup_free char *text = NULL;
	size_t len, at;
	int r = read_records(sp, c, &text, &len, &at, e);

	return r < 0 ? r : history_log(text + at, len - at, attempt, ret);
}
