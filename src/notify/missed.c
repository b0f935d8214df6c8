/* SPDX-License-Identifier: MIT */
#include "notify/missed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_get.h"
#include "base/log.h"
#include "base/mem.h"

struct id {
	unsigned long long start, n;
};

static struct id read_id(const char *text)
{
	struct id id = { 0, 0 };
	char *end;

	id.start = strtoull(text, &end, 10);
	if (*end == '.')
		id.n = strtoull(end + 1, NULL, 10);
	return id;
}

bool event_id_before(const char *a, const char *b)
{
	struct id x = read_id(a), y = read_id(b);

	if (!a[0] || !b[0])
		return !a[0] && b[0];
	return x.start < y.start || (x.start == y.start && x.n < y.n);
}

bool event_id_follows(const char *a, const char *b)
{
	struct id x = read_id(a), y = read_id(b);

	return x.start == y.start && x.n + 1 == y.n;
}

static void read_file(const char *path, const char *after, void (*take)(void *user, json_t *event),
		      void *user)
{
	FILE *file = fopen(path, "re");
	cleanup_free char *line = NULL;
	size_t size = 0;

	if (!file)
		return;
	while (getline(&line, &size, file) > 0) {
		json_t *event = json_loads(line, 0, NULL);
		const char *id = json_get_str(event, "id");

		if (id && event_id_before(after, id))
			take(user, event);
		json_decref(event);
	}
	(void)fclose(file);
}

void missed_events(const char *path, const char *after, void (*take)(void *user, json_t *event),
		   void *user)
{
	for (unsigned int i = LOG_FILES; i-- > 1;) {
		cleanup_free char *old = xasprintf("%s.%u", path, i);

		read_file(old, after, take, user);
	}
	read_file(path, after, take, user);
}
