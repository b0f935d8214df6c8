/* SPDX-License-Identifier: MIT */
#include "spool/life.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"

#define STEP_SLACK 2 /* a look that is later than so many steps counts as that many */

struct seen {
	char key[SPOOL_PATH_MAX];
	uint64_t count;
	uint64_t quiet_ms;
	bool present; /* in this look */
};

struct life_watch {
	uint64_t step_ms, looked_ns;
	uint64_t passed_ms; /* since the last look, as far as it counts */
	size_t n;
	struct seen *all;
};

struct life_watch *life_watch_new(uint64_t step_ms)
{
	struct life_watch *w = xcalloc(1, sizeof(*w));

	w->step_ms = step_ms;
	return w;
}

struct life_watch *life_watch_free(struct life_watch *w)
{
	if (!w)
		return NULL;
	free(w->all);
	free(w);
	return NULL;
}

void life_begin(struct life_watch *w, uint64_t now_ns)
{
	uint64_t most = w->step_ms * STEP_SLACK;
	uint64_t passed = w->looked_ns ? (now_ns - w->looked_ns) / NS_PER_MS : 0;

	w->passed_ms = passed < most ? passed : most;
	w->looked_ns = now_ns;
	for (size_t i = 0; i < w->n; i++)
		w->all[i].present = false;
}

static struct seen *find(const struct life_watch *w, const char *key)
{
	for (size_t i = 0; i < w->n; i++)
		if (strcmp(w->all[i].key, key) == 0)
			return &w->all[i];
	return NULL;
}

uint64_t life_see(struct life_watch *w, const char *key, uint64_t count)
{
	struct seen *s = find(w, key);

	if (!s) {
		w->all = xrealloc(w->all, w->n + 1, sizeof(*w->all));
		s = &w->all[w->n++];
		*s = (struct seen){ .count = count };
		(void)str_copy(s->key, sizeof(s->key), key);
	} else if (s->count != count) {
		s->count = count;
		s->quiet_ms = 0;
	} else if (!s->present) {
		s->quiet_ms += w->passed_ms;
	}
	s->present = true;
	return s->quiet_ms;
}

void life_finish(struct life_watch *w)
{
	size_t kept = 0;

	for (size_t i = 0; i < w->n; i++)
		if (w->all[i].present)
			w->all[kept++] = w->all[i];
	w->n = kept;
}

enum recover_life life_judge(const struct life_facts *f)
{
	if (f->same_node)
		return f->runs ? RECOVER_ALIVE : RECOVER_DEAD;
	if (f->gone || (f->local_files && !f->same_kernel))
		return RECOVER_DEAD;
	if (f->quiet_ms <= (f->promise_ms > f->expire_ms ? f->promise_ms : f->expire_ms))
		return RECOVER_ALIVE;
	return f->promise_ms || f->same_kernel || f->tool ? RECOVER_DEAD : RECOVER_UNKNOWN;
}
