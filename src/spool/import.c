/* SPDX-License-Identifier: MIT */
#include "spool/import.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "base/units.h"
#include "spool/transit.h"

struct spool_spec *import_spec(const struct command_block *b, const struct command_set *set,
			       const char *work_dir, const char *noter, const char *state)
{
	struct spool_spec *s = spec_new();

	s->script = command_block_script(b, work_dir, noter, state);
	s->name = xasprintf("q%s-line%u", b->queue, b->line);
	s->lane = xasprintf(IMPORT_LANE "%s", b->queue);
	s->cwd = xstrdup(work_dir);
	s->memory = b->mem_bytes ? b->mem_bytes : MIB; /* 0 GB: wherever there is room at all */
	s->shared = true;
	s->rules = set->maximize ? SPEC_RULES_COMPETE_MAX : SPEC_RULES_COMPETE;
	s->retries = SPEC_FOREVER;
	s->retry_every = set->retry_every ? set->retry_every : 1;
	/* Without a back-off it is tried again at the next look, as by the older tool. */
	s->backoff = set->retry_every ? set->backoff_ms : set->check_ms;
	return s;
}

/* Those that are in already go again; what waits paused cannot have started. */
static void take_back(const struct spool *sp, struct spool_spec *const *specs, size_t n,
		      const uint64_t *ids)
{
	for (size_t i = 0; i < n; i++) {
		char file[NAME_FILE_MAX], path[SPOOL_PATH_MAX];
		struct task_name name;

		name_of_spec(specs[i], ids[i], &name);
		name.flags |= NAME_PAUSED;
		(void)spool_unlink(sp, spool_path(SPOOL_PENDING, name_format(&name, file), path),
				   NULL);
	}
}

/* In their order, so that a lane begins with its first. Gone: somebody has stopped it meanwhile. */
static int let_go(const struct spool *sp, struct spool_spec *const *specs, size_t n,
		  const uint64_t *ids, struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		struct task_name name;
		int r;

		if (specs[i]->paused)
			continue;
		name_of_spec(specs[i], ids[i], &name);
		name.flags |= NAME_PAUSED;
		r = transit_pause(sp, &name, false, e);
		if (r < 0)
			return err_wrap(e,
					"the tasks are in the queue, but wait for tenure resume");
	}
	return spool_sync(sp, spool_dir_name(SPOOL_PENDING), e) < 0 ? SUBMIT_NOT_DURABLE : 0;
}

int import_submit(const struct spool *sp, struct spool_spec *const *specs, size_t n,
		  uint64_t *ret_ids, struct err *e)
{
	bool durable = true;

	for (size_t i = 0; i < n; i++) {
		bool paused = specs[i]->paused;
		int r;

		specs[i]->paused = true;
		r = submit_task(sp, specs[i], &ret_ids[i], e);
		specs[i]->paused = paused;
		if (r < 0) {
			take_back(sp, specs, i, ret_ids);
			return r;
		}
		durable = durable && r == 0;
	}

	int r = let_go(sp, specs, n, ret_ids, e);

	return r < 0 ? r : durable ? r : SUBMIT_NOT_DURABLE;
}
