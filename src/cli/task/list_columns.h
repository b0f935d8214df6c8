/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_TASK_LIST_COLUMNS_H
#define TENURE_CLI_TASK_LIST_COLUMNS_H

/*
 * The columns of `tenure list`: what each says of a task, and the order that it makes of rows. A
 * row knows little, because there may be very many; a cell is made of all that is known of a task.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/strbuf.h"
#include "cli/table.h"
#include "cli/task/queue_facts.h"
#include "cli/task/taskstate.h"
#include "cli/task/view.h"
#include "spool/scan.h"

struct list_row {
	const struct scan_task *t; /* the caller's; of an element with its batch's name */
	enum taskstate state;
	bool lane_paused;
	uint64_t started_ns; /* where it is sorted by that */
	size_t place;	     /* where it stands unsorted */
};

struct list_column {
	const char *key;
	struct table_column title;
	/* Adds to b, or nothing where there is nothing to say. */
	void (*cell)(const struct queue_facts *facts, const struct task_view *v, struct strbuf *b);
	/* NULL: it is no order. */
	int (*compare)(const struct list_row *a, const struct list_row *b);
	bool of_run;	   /* of what has ended it is in its records */
	bool by_start;	   /* it is an order by started_ns */
	bool may_be_empty; /* and is left so then, without a dash */
};

/* The one with that key, of those that are an order with `to_sort`. NULL with e, which names the
 * option and what it may be. */
const struct list_column *list_column_find(const char *option, const char *key, bool to_sort,
					   struct err *e);

/* Their keys, and of those that are an order, one after the other; NULL behind the last one. */
const char *list_column_at(size_t i);
const char *list_sort_key_at(size_t i);

#endif
