/* SPDX-License-Identifier: MIT */
#include "agent/report/users.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "base/utf8.h"

#define USERS_MAX 128 /* then the oldest answer is forgotten */
#define NAME_MAX_ 64

struct entry {
	uid_t uid;
	bool known;
	char name[NAME_MAX_];
};

struct users {
	uv_loop_t *loop;
	void (*found)(void *user);
	void *user;
	struct entry entries[USERS_MAX];
	size_t n; /* ever added */
	/* The job's own while busy. */
	bool busy;
	uv_work_t work;
	uid_t job_uid;
	char job_name[NAME_MAX_];
};

struct users *users_new(uv_loop_t *loop, void (*found)(void *user), void *user)
{
	struct users *u = xcalloc(1, sizeof(*u));

	u->loop = loop;
	u->found = found;
	u->user = user;
	u->work.data = u;
	return u;
}

static struct entry *find(struct users *u, uid_t uid)
{
	size_t n = u->n < USERS_MAX ? u->n : USERS_MAX;

	for (size_t i = 0; i < n; i++)
		if (u->entries[i].uid == uid)
			return &u->entries[i];
	return NULL;
}

static void look_up(uv_work_t *work)
{
	struct users *u = work->data;

	(void)user_name(u->job_uid, u->job_name, sizeof(u->job_name));
}

static void start_next(struct users *u);

static void looked_up(uv_work_t *work, int status)
{
	struct users *u = work->data;
	struct entry *en = find(u, u->job_uid);

	u->busy = false;
	if (en) {
		en->known = true;
		(void)str_copy(en->name, sizeof(en->name), u->job_name);
	}
	start_next(u);
	u->found(u->user);
}

static void start_next(struct users *u)
{
	size_t n = u->n < USERS_MAX ? u->n : USERS_MAX;

	for (size_t i = 0; i < n && !u->busy; i++) {
		if (u->entries[i].known)
			continue;
		u->job_uid = u->entries[i].uid;
		u->busy = uv_queue_work(u->loop, &u->work, look_up, looked_up) == 0;
		return;
	}
}

/* The name, or NULL with its look-up on the way. */
static const char *name_of(struct users *u, uid_t uid)
{
	struct entry *en = find(u, uid);

	if (!en) {
		en = &u->entries[u->n++ % USERS_MAX];
		*en = (struct entry){ .uid = uid };
		if (!u->busy)
			start_next(u);
	}
	return en->known ? en->name : NULL;
}

bool users_put_names(struct users *u, const char *text, char *buf, size_t size)
{
	bool all = true;
	size_t used = 0;

	while (*text) {
		const char *what = text;
		size_t len = 1;

		if (str_has_prefix(text, "uid ") && isdigit((unsigned char)text[4])) {
			char *end;
			const char *name = name_of(u, (uid_t)strtoul(text + 4, &end, 10));

			len = (size_t)(end - text);
			if (name)
				what = name;
			all = all && name;
			text = end;
			len = name ? strlen(name) : len;
		} else {
			text++;
		}
		for (size_t i = 0; buf && i < len && used + 1 < size; i++)
			buf[used++] = what[i];
	}
	if (buf) {
		buf[used] = '\0';
		(void)utf8_clean(buf); /* it may have been cut within a character */
	}
	return all;
}

int users_free(struct users *u)
{
	if (u && u->busy)
		return -EBUSY;
	free(u);
	return 0;
}
