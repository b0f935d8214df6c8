/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TUI_LISTING_H
#define TENURE_TUI_LISTING_H

/*
 * The rows of the queue in the order and choice of who looks. They are sorted once for each reading
 * of the queue, not for each frame of it. Pure.
 */

#include <stdbool.h>
#include <stdint.h>

#include "model/model.h"

enum listing_sort { SORT_PLAN, SORT_ID, SORT_NAME, SORT_TIME, SORT_MAX };

struct listing_wanted {
	enum listing_sort sort;
	bool ended;	 /* what has ended stands behind them */
	char filter[64]; /* names, lanes, ids and nodes that contain it; "": all */
};

/* The last one. Zeroed: none. */
struct listing {
	struct listing_wanted wanted;
	/* What it is of. */
	uint64_t read_ns;
	const struct row *rows, *ended;
	size_t n_rows, n_ended;

	/* Of all that wait or run, whatever is chosen: of a batch its elements. */
	size_t n, running, waiting;
	const struct row **all;
};

void listing_clear(struct listing *o);
/* Makes it that of the snapshot, whose rows it points to: good as long as that is. */
void listing_of(struct listing *o, const struct model_snapshot *s,
		const struct listing_wanted *wanted);

#endif
