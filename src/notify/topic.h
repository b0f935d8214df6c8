/* SPDX-License-Identifier: MIT */
#ifndef TENURE_NOTIFY_TOPIC_H
#define TENURE_NOTIFY_TOPIC_H

/*
 * What people can be told of. A topic is a kind of event (docs/json.md), or those of a kind that
 * have a member of that value: `task-failed` is `task-ended` with the outcome `failed`. Pure.
 */

#include <jansson.h>
#include <stdbool.h>

struct topic {
	const char *name;
	const char *event;	 /* its kind */
	const char *key, *value; /* that it has; NULL: all of the kind */
	bool told;		 /* also where there are no rules */
	unsigned int urgency;	 /* 1 (lowest) to 5, as ntfy has it */
	const char *title;	 /* for the subject of a mail */
};

/* Of which the event is; NULL: of none. */
const struct topic *topic_of(const json_t *event);
/* The first of that name, or whose name matches the pattern ("task-*"); NULL: none does. */
const struct topic *topic_find(const char *pattern);
/* The i-th, NULL behind the last. Several rows may have one name. */
const struct topic *topic_row(size_t i);
/* The one nearest to a word, for "did you mean"; NULL: none is near. */
const char *topic_nearest(const char *word);

#endif
