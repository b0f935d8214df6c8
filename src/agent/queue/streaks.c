/* SPDX-License-Identifier: MIT */
#include "agent/queue/streaks.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "spool/spec.h"

struct streak {
	struct streak *next;
	char lane[SPEC_NAME_MAX + 1]; /* "": the task of that id */
	uint64_t id;
	struct retry_streak streak;
};

struct retry_streak *streaks_get(struct streaks *all, const char *lane, uint64_t id)
{
	struct streak *s = all->first;

	lane = lane ? lane : "";
	while (s && (strcmp(s->lane, lane) != 0 || (!lane[0] && s->id != id)))
		s = s->next;
	if (!s) {
		s = xcalloc(1, sizeof(*s));
		(void)str_copy(s->lane, sizeof(s->lane), lane);
		s->id = id;
		s->next = all->first;
		all->first = s;
	}
	return &s->streak;
}

void streaks_drop(struct streaks *all, uint64_t id)
{
	for (struct streak **s = &all->first; *s; s = &(*s)->next)
		if (!(*s)->lane[0] && (*s)->id == id) {
			struct streak *gone = *s;

			*s = gone->next;
			free(gone);
			return;
		}
}

void streaks_clear(struct streaks *all)
{
	while (all->first) {
		struct streak *s = all->first;

		all->first = s->next;
		free(s);
	}
}
