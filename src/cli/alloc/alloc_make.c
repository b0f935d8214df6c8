/* SPDX-License-Identifier: MIT */
#include "cli/alloc/alloc_make.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/alloc/alloc_pool.h"
#include "cli/alloc/listed.h"
#include "cli/alloc/live.h"
#include "cli/instance.h"
#include "cli/node/pool_call.h"
#include "cli/task/roomcheck.h"
#include "cli/task/submit_inherit.h"
#include "spool/submit.h"

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

/* Beside what the engines list. A list of a minute ago is not the last word: what was released
 * since may be all that is missing. The base looks again by itself. */
static int check_listed(const struct cmd_ctx *ctx, const struct spool *sp,
			const struct live_allocs *live, const struct alloc_limits *limits,
			unsigned int gpus, enum alloc_kind kind, struct alloc_refusal *ret,
			struct err *e)
{
	static const uint64_t ages[] = { INVENTORY_MAX_AGE_MS, INVENTORY_RETRY_MS };
	bool manual = kind == ALLOC_MANUAL, again = true;
	int r = 0;

	for (size_t i = 0; again && i < ARRAY_LEN(ages); i++) {
		struct listed listed;

		listed_read(ctx, sp, live, ages[i], manual && i == 0, &listed);
		r = live_allocs_check(live, listed.jobs, listed.n, limits, kind, gpus, ret, e);
		again = r == -EDQUOT && manual && listed.cached;
		listed_clear(&listed);
	}
	return r;
}

/* What it begins with counts beside the others; what it may grow to is one allocation's. */
static int check_limits(const struct cmd_ctx *ctx, const struct spool *sp,
			const struct live_allocs *live, const struct task_spec *s,
			enum alloc_kind kind, struct alloc_refusal *ret, struct err *e)
{
	const struct alloc_limits limits = live_limits(ctx->settings);
	const struct alloc_limits each = { .per_alloc = limits.per_alloc };
	const struct alloc_has nothing = { .n = 0 };
	unsigned int gpus = (unsigned int)s->gpus;
	int r = alloc_check_limits(&each, &nothing, kind, (unsigned int)s->gpus_max, ret, e);

	if (r == 0)
		r = live_allocs_check(live, NULL, 0, &limits, kind, gpus, ret, e);
	return r == 0 && limits.total ? check_listed(ctx, sp, live, &limits, gpus, kind, ret, e)
				      : r;
}

static int check(const struct cmd_ctx *ctx, const struct spool *sp, const struct task_spec *s,
		 enum alloc_kind kind, bool own_pool, struct err *e)
{
	struct live_allocs live = { .n = 0 };
	struct alloc_refusal refusal;
	int r = live_allocs_read(sp, &live, e);

	if (r == 0 && s->name)
		r = check_name(ctx, &live, s->name, e);
	if (r == 0)
		r = check_limits(ctx, sp, &live, s, kind, &refusal, e);
	if (r == 0 && kind == ALLOC_MANUAL && !own_pool)
		r = room_check(ctx, sp, s, e);
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
	       enum alloc_kind kind, bool own_pool, uint64_t *ret_id, struct err *e)
{
	struct alloc_mark mark = { .kind = kind };
	struct pool_owner owner;
	int r = pool_call_own(sp, LOCK_NAME, &owner, e);

	if (r < 0)
		return r;
	r = check(ctx, sp, s, kind, own_pool, e);
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
