/* SPDX-License-Identifier: MIT */
#include "cli/alloc/alloc_make.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/json_get.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "cli/alloc/alloc_pool.h"
#include "cli/alloc/listed.h"
#include "cli/alloc/live.h"
#include "cli/event_file.h"
#include "cli/instance.h"
#include "cli/node/pool_call.h"
#include "cli/task/roomcheck.h"
#include "cli/task/submit_inherit.h"
#include "spool/submit.h"
#include "spool/task_text.h"

#define LOCK_NAME "allocs"

static int check_name(const struct cmd_ctx *ctx, const struct live_allocs *l, const char *name,
		      struct err *e)
{
	const struct live_alloc *a = live_allocs_find(l, name, NULL);
	cleanup_free char *has = a && live_alloc_runs(a) ? live_alloc_has(a) : NULL;

	if (!a || strcmp(a->task.name.name, name) != 0)
		return 0;

	cleanup_free char *option = instance_option(ctx);
	unsigned int gpus = live_alloc_gpus(a);

	return err_set(e, -EEXIST,
		       "%s is an allocation already (task %" PRIu64
		       ": %s%u GPU%s%s%s); tenure release%s %s gives it back",
		       name, a->task.name.id, has ? "" : "waits for ", gpus, gpus == 1 ? "" : "s",
		       has ? ", " : "", has ? has : "", option, name);
}

/* ---- who is denied what ---- */

/* As alloc_check_limits() tells it: an allocation's own job under its name. */
static json_t *who_has(const struct live_allocs *live, const struct listed *listed)
{
	json_t *all = json_array();

	for (size_t i = 0; i < live->n; i++)
		(void)json_array_append_new(
			all,
			json_pack("{s:o, s:I}", "name", json_new_text(live->all[i].task.name.name),
				  "gpus", (json_int_t)live_alloc_counts(&live->all[i])));
	for (size_t i = 0; i < listed->n; i++) {
		const struct alloc_job *job = &listed->jobs[i];

		if (!job->of)
			(void)json_array_append_new(
				all,
				json_pack("{s:o, s:o, s:s, s:o}", "name", json_new_text(job->name),
					  "gpus",
					  job->known ? json_integer(job->gpus) : json_null(),
					  "engine", job->engine, "job", json_new_text(job->id)));
	}
	return all;
}

void alloc_tell_denied(const struct cmd_ctx *ctx, const char *name, unsigned int gpus,
		       struct alloc_denial *d, const char *text)
{
	bool limit = d->reason && strcmp(d->reason, "limit") == 0;
	char user[64], host[256] = "";

	if (d->reason) {
		(void)gethostname(host, sizeof(host) - 1);
		event_file_add(
			ctx, LOG_LEVEL_WARNING, "refused",
			json_pack("{s:o, s:I, s:o, s:o, s:s, s:o, s:o, s:o, s:o}", "name",
				  json_new_text(name), "gpus", (json_int_t)gpus, "user",
				  json_new_text(user_name(geteuid(), user, sizeof(user))), "host",
				  json_new_text(host), "reason", d->reason, "setting",
				  limit ? json_string(d->limit.setting) : json_null(), "limit",
				  limit ? json_integer(d->limit.limit) : json_null(), "has",
				  limit ? json_integer(d->limit.has) : json_null(), "who",
				  d->who ? json_incref(d->who) : json_null()),
			text);
	}
	json_decref(d->who);
	*d = (struct alloc_denial){ .reason = NULL };
}

static int deny(struct alloc_denial *d, int r, const struct live_allocs *live,
		const struct listed *listed)
{
	if (r == -EDQUOT) {
		d->reason = "limit";
		json_decref(d->who);
		d->who = who_has(live, listed);
	}
	return r;
}

/* ---- limits ---- */

/* Beside what the engines list. A list of a minute ago is not the last word: what was released
 * since may be all that is missing. The base looks again by itself. */
static int check_listed(const struct cmd_ctx *ctx, const struct spool *sp,
			const struct live_allocs *live, const struct alloc_limits *limits,
			unsigned int gpus, enum alloc_kind kind, struct alloc_denial *d,
			struct err *e)
{
	static const uint64_t ages[] = { INVENTORY_MAX_AGE_MS, INVENTORY_RETRY_MS };
	bool manual = kind == ALLOC_MANUAL, again = true;
	int r = 0;

	for (size_t i = 0; again && i < ARRAY_LEN(ages); i++) {
		struct listed listed;

		listed_read(ctx, sp, live, ages[i], manual && i == 0, &listed);
		r = live_allocs_check(live, listed.jobs, listed.n, limits, kind, gpus, &d->limit,
				      e);
		again = r == -EDQUOT && manual && listed.cached;
		if (!again)
			(void)deny(d, r, live, &listed);
		listed_clear(&listed);
	}
	return r;
}

/* GPUs of a node of its own: as many as it may have, because a job cannot grow. */
static unsigned int node_gpus(const struct task_spec *s, bool own_pool)
{
	if (!own_pool)
		return 0;
	return (unsigned int)(s->gpus_max ? s->gpus_max : s->gpus);
}

/* What it begins with counts beside the others, or all of its own node; what it may grow to is one
 * allocation's. */
static int check_limits(const struct cmd_ctx *ctx, const struct spool *sp,
			const struct live_allocs *live, const struct task_spec *s,
			enum alloc_kind kind, bool own_pool, struct alloc_denial *d, struct err *e)
{
	const struct alloc_limits limits = live_limits(ctx->settings);
	const struct alloc_limits each = { .per_alloc = limits.per_alloc };
	const struct alloc_has nothing = { .n = 0 };
	const struct listed none = { .n = 0 };
	unsigned int gpus = own_pool ? node_gpus(s, own_pool) : (unsigned int)s->gpus;
	int r = alloc_check_limits(&each, &nothing, kind, (unsigned int)s->gpus_max, &d->limit, e);

	if (r == 0)
		r = live_allocs_check(live, NULL, 0, &limits, kind, gpus, &d->limit, e);
	if (r < 0 || !limits.total)
		return deny(d, r, live, &none);
	return check_listed(ctx, sp, live, &limits, gpus, kind, d, e);
}

static int check(const struct cmd_ctx *ctx, const struct spool *sp, const struct task_spec *s,
		 enum alloc_kind kind, bool own_pool, struct alloc_denial *d, struct err *e)
{
	struct live_allocs live = { .n = 0 };
	int r = live_allocs_read(sp, &live, e);

	if (r == 0 && s->name)
		r = check_name(ctx, &live, s->name, e);
	if (r == 0)
		r = check_limits(ctx, sp, &live, s, kind, own_pool, d, e);
	if (r == 0 && kind == ALLOC_MANUAL && !own_pool) {
		r = room_check(ctx, sp, s, e);
		d->reason = r == -ERANGE ? "room" : NULL;
	}
	live_allocs_clear(&live);
	return r;
}

static int name_it(struct task_spec *s, const struct alloc_mark *mark, struct err *e)
{
	char name[32];

	if (s->name)
		return 0;
	(void)str_print(name, sizeof(name), "base-%" PRIu64, mark->id);
	return spec_set_text(s, "name", name, e);
}

int alloc_make(const struct cmd_ctx *ctx, const struct spool *sp, struct task_spec *s,
	       enum alloc_kind kind, bool own_pool, uint64_t *ret_id, struct alloc_denial *d,
	       struct err *e)
{
	struct alloc_mark mark = { .kind = kind, .gpus = node_gpus(s, own_pool) };
	struct pool_owner owner;
	int r = pool_call_own(sp, LOCK_NAME, &owner, e);

	if (r < 0)
		return r;
	r = check(ctx, sp, s, kind, own_pool, d, e);
	if (r == 0)
		r = submit_new_id(sp, &mark.id, e);
	if (r == 0)
		r = name_it(s, &mark, e);
	if (r == 0 && own_pool)
		r = spec_set_text(s, "pool", alloc_pool_name(mark.id, mark.pool), e);
	if (r == 0)
		r = alloc_mark_write(sp, &mark, e);
	if (r == 0) {
		submitter_name(s, sp);
		r = submit_task_as(sp, s, mark.id, e);
	}
	pool_disown(sp, &owner);
	*ret_id = mark.id;
	return r;
}
