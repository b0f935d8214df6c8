/* SPDX-License-Identifier: MIT */
#include "compat/compete_left.h"

#include <jansson.h>
#include <stdbool.h>
#include <string.h>

/* Of what has ended it only remains to write that down. */
static bool has_ended(const json_t *task)
{
	const char *state = json_string_value(json_object_get(task, "state"));

	return state && strcmp(state, "filing") == 0;
}

static void add(struct strbuf *b, const json_t *task)
{
	const char *name = json_string_value(json_object_get(task, "name"));

	strbuf_addf(b, "%s%lld%s%s (PID %lld)", b->len ? ", " : "",
		    (long long)json_integer_value(json_object_get(task, "id")), name ? " " : "",
		    name ? name : "", (long long)json_integer_value(json_object_get(task, "pid")));
}

size_t compete_left(const char *status, struct strbuf *names)
{
	const char *begin = strchr(status, '{'); /* behind notes, if there are any */
	json_t *doc = begin ? json_loads(begin, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
	const json_t *task, *tasks = json_object_get(json_object_get(doc, "queue"), "tasks");
	size_t i, n = 0;

	json_array_foreach(tasks, i, task)
	{
		if (has_ended(task))
			continue;
		add(names, task);
		n++;
	}
	json_decref(doc);
	return n;
}
