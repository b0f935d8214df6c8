/* SPDX-License-Identifier: MIT */
#include "agent/queue/pauses.h"

#include <string.h>

#include "base/mem.h"

static size_t find(const struct text_list *lanes, const char *lane)
{
	size_t i = 0;

	while (i < lanes->n && strcmp(lanes->texts[i], lane) != 0)
		i++;
	return i;
}

bool pauses_add(struct pauses *p, struct sched_queue *q, const char *lane, const char *reason)
{
	size_t i = find(&p->lanes, lane);

	if (i < p->lanes.n && strcmp(p->reasons.texts[i], reason) == 0)
		return false;
	sched_lane_pause(q, sched_lane(q, lane), reason);
	if (i < p->lanes.n) {
		free(p->reasons.texts[i]);
		p->reasons.texts[i] = xstrdup(reason);
		return false;
	}
	text_list_add(&p->lanes, lane);
	text_list_add(&p->reasons, reason);
	return true;
}

bool pauses_set(struct pauses *p, struct sched_queue *q, const struct text_list *lanes,
		const struct text_list *reasons)
{
	struct pauses old = *p;
	bool changed = false;

	*p = (struct pauses){ .lanes = { 0 } };
	for (size_t i = 0; i < old.lanes.n; i++)
		if (find(lanes, old.lanes.texts[i]) == lanes->n) {
			sched_lane_pause(q, sched_lane(q, old.lanes.texts[i]), NULL);
			changed = true;
		}
	for (size_t i = 0; i < lanes->n; i++) {
		size_t k = find(&old.lanes, lanes->texts[i]);

		text_list_add(&p->lanes, lanes->texts[i]);
		text_list_add(&p->reasons, reasons->texts[i]);
		if (k < old.lanes.n && strcmp(old.reasons.texts[k], reasons->texts[i]) == 0)
			continue;
		sched_lane_pause(q, sched_lane(q, lanes->texts[i]), reasons->texts[i]);
		changed = true;
	}
	pauses_clear(&old);
	return changed;
}

void pauses_clear(struct pauses *p)
{
	text_list_clear(&p->lanes);
	text_list_clear(&p->reasons);
}
