/* SPDX-License-Identifier: MIT */
#include "notify/topic.h"

#include <fnmatch.h>
#include <string.h>

#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"

static const struct topic topics[] = {
	{ "task-failed", "task-ended", "outcome", "failed", true, 4, "a task has failed" },
	{ "task-done", "task-ended", "outcome", "done", false, 3, "a task is done" },
	{ "task-retrying", "task-ended", "outcome", "requeued", false, 3, "a task is tried again" },
	{ "task-stopped", "task-ended", "outcome", "stopped", false, 2, "a task was stopped" },
	{ "task-started", "task-started", NULL, NULL, false, 2, "a task has started" },
	{ "task-paused", "task-paused", NULL, NULL, true, 4, "a task is paused" },
	{ "task-refused", "task-refused", NULL, NULL, true, 4, "a task is not fit" },
	{ "task-trouble", "task-trouble", NULL, NULL, false, 4, "trouble with a task" },
	{ "lane-paused", "lane-paused", NULL, NULL, true, 4, "a lane is paused" },
	{ "stuck", "stuck", NULL, NULL, true, 4, "a task seems stuck" },
	{ "deadline", "deadline", NULL, NULL, true, 4, "the end is near" },
	{ "draining", "draining", NULL, NULL, false, 3, "an agent is draining" },
	{ "agent-started", "agent-started", NULL, NULL, false, 2, "an agent has started" },
	{ "agent-ending", "ending", NULL, NULL, false, 3, "an agent ends" },
	{ "agent-lost", "agent-lost", NULL, NULL, true, 5, "an agent is lost" },
	{ "node-lost", "node-lost", NULL, NULL, true, 5, "a node is lost" },
	{ "guard-lost", "guard-lost", NULL, NULL, true, 4, "the guard is lost" },
	{ "guard-found", "guard-found", NULL, NULL, false, 2, "the guard is back" },
	{ "device-fault", "lost", NULL, NULL, true, 5, "a device is lost" },
	{ "device-fault", "quarantine", "quarantine", "shut", true, 4,
	  "a device is in quarantine" },
	{ "device-fault", "failed", NULL, NULL, true, 4, "a device could not be held" },
	{ "device-back", "back", NULL, NULL, false, 3, "a device is back" },
	{ "device-back", "quarantine", NULL, NULL, false, 3, "a device gets tasks again" },
	{ "blind", "blind", NULL, NULL, true, 4, "a device cannot be seen" },
	{ "asked", "asked", NULL, NULL, true, 4, "somebody asks for a GPU" },
	{ "answered", "answered", NULL, NULL, false, 2, "an ask for a GPU is over" },
	{ "free", "free", NULL, NULL, true, 3, "GPUs are free" },
	{ "held", "held", NULL, NULL, false, 2, "a GPU is held" },
	{ "yielded", "yield", NULL, NULL, false, 2, "a GPU was yielded" },
	{ "scaled", "scaled", NULL, NULL, false, 2, "a task has other GPUs" },
	{ "allocated", "allocated", NULL, NULL, false, 3, "an allocation has its GPUs" },
	{ "released", "released", NULL, NULL, false, 2, "an allocation has ended" },
	{ "test", "test", NULL, NULL, false, 3, "a test" },
};

const struct topic *topic_row(size_t i)
{
	return i < ARRAY_LEN(topics) ? &topics[i] : NULL;
}

const struct topic *topic_of(const json_t *event)
{
	const char *kind = json_get_str(event, "event");

	for (size_t i = 0; kind && i < ARRAY_LEN(topics); i++) {
		const struct topic *t = &topics[i];
		const char *value = t->key ? json_get_str(event, t->key) : NULL;

		if (strcmp(kind, t->event) == 0 &&
		    (!t->key || (value && strcmp(value, t->value) == 0)))
			return t;
	}
	return NULL;
}

const struct topic *topic_find(const char *pattern)
{
	for (size_t i = 0; i < ARRAY_LEN(topics); i++)
		if (fnmatch(pattern, topics[i].name, 0) == 0)
			return &topics[i];
	return NULL;
}

const char *topic_nearest(const char *word)
{
	const char *names[ARRAY_LEN(topics) + 1] = { NULL };

	for (size_t i = 0; i < ARRAY_LEN(topics); i++)
		names[i] = topics[i].name;
	return str_nearest(word, names);
}
