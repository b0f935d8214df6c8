/* SPDX-License-Identifier: MIT */
#include "compat/command_txt/import.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "base/units.h"
#include "spool/scan.h"
#include "spool/transit.h"

/* For what is called otherwise by now, and for a command that has it. */
#define LOOKS	5
#define HELD_MS 2000

struct task_spec *import_spec(const struct command_block *b, const struct command_set *set,
			      const char *work_dir, const char *noter, const char *state)
{
	struct task_spec *s = spec_new();

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
static void take_back(const struct spool *sp, struct task_spec *const *specs, size_t n,
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

static int is_paused(void *data, const struct task_name *n, const char *dir)
{
	struct task_name *wanted = data;

	if (n->id != wanted->id || !(n->flags & NAME_PAUSED))
		return 0;
	*wanted = *n;
	return 1;
}

/* Another command may give it another name meanwhile, under which it waits on; gone: somebody has
 * stopped it, or let it go. One look does not tell: what is renamed meanwhile may not be listed. */
static int let_one_go(const struct spool *sp, struct task_name *n, struct err *e)
{
	bool there = true;
	int r = transit_pause(sp, n, false, e);

	for (int look = 0; look < LOOKS && r == TRANSIT_GONE; look++) {
		r = scan_dir(sp, spool_dir_name(SPOOL_PENDING), is_paused, n, e);
		if (r < 0)
			return r;
		there = r > 0;
		if (there)
			r = transit_await(sp, n, HELD_MS, e);
		if (r == 0)
			r = there ? transit_pause(sp, n, false, e) : TRANSIT_GONE;
	}
	if (r > 0 && there)
		return err_set(e, -EBUSY, "another command is changing it");
	return r < 0 ? r : 0;
}

/* In their order, so that a lane begins with its first. */
static int let_go(const struct spool *sp, struct task_spec *const *specs, size_t n,
		  const uint64_t *ids, struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		struct task_name name;

		if (specs[i]->paused)
			continue;
		name_of_spec(specs[i], ids[i], &name);
		name.flags |= NAME_PAUSED;
		if (let_one_go(sp, &name, e) < 0)
			return err_wrap(e,
					"the tasks are in the queue, but from %" PRIu64
					" on they wait for tenure resume",
					ids[i]);
	}
	return spool_sync(sp, spool_dir_name(SPOOL_PENDING), e) < 0 ? SUBMIT_NOT_DURABLE : 0;
}

int import_submit(const struct spool *sp, struct task_spec *const *specs, size_t n,
		  uint64_t *ret_ids, bool *ret_in, submit_step_fn step, void *user, struct err *e)
{
	bool durable = true;

	*ret_in = false;
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
		step(user, i + 1, n);
	}

	*ret_in = true;

	int r = let_go(sp, specs, n, ret_ids, e);

	return r < 0 ? r : durable ? r : SUBMIT_NOT_DURABLE;
}
