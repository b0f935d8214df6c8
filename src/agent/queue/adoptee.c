/* SPDX-License-Identifier: MIT */
#include "agent/queue/adoptee.h"

#include <errno.h>

#include "base/mem.h"
#include "base/str.h"
#include "spool/batch.h"

#define NOWHERE "unknown" /* the name of a task whose description is gone */

/* The file of a batch. */
struct found {
	uint64_t id;
	struct task_name name;
	char path[SPOOL_PATH_MAX];
};

static int is_batch(void *data, const struct task_name *n, const char *dir)
{
	struct found *f = data;
	char file[NAME_FILE_MAX];

	if (n->id != f->id || n->element || !n->count)
		return 0;
	f->name = *n;
	(void)str_print(f->path, sizeof(f->path), "%s/%s", dir, name_format(n, file));
	return 1;
}

/* It may have been stopped, or have ended, while one of its elements runs on. 1; 0: it is nowhere;
 * -errno. */
static int find_batch(const struct spool *sp, const struct scan *s, struct found *f, struct err *e)
{
	static const enum spool_dir dirs[] = { SPOOL_CANCELLED, SPOOL_FAILED, SPOOL_DONE };
	const struct scan_task *t = scan_find(s, f->id, 0);

	return t ? is_batch(f, &t->name, spool_dir_name(t->dir))
		 : scan_dirs(sp, dirs, ARRAY_LEN(dirs), is_batch, f, e);
}

/* An element that was tried before may ask for more than its batch. Its agent may have put it back
 * already, and its file stayed: what the next attempt is to ask for is not its own. */
static int find_memory(const struct spool *sp, const struct task_name *n, struct adoptee *a,
		       struct err *e)
{
	struct batch *b = NULL;
	uint64_t memory, epoch = a->claim.name.epoch;
	int r = epoch ? batch_open(sp, n, NULL, &b, e) : 0;

	memory = b ? batch_memory_in(b, a->claim.name.element, epoch) : 0;
	if (memory)
		a->spec->memory = memory;
	(void)batch_close(b);
	return r;
}

static int find_spec(struct adoptee *a, const struct spool *sp, const struct scan *s, struct err *e)
{
	struct found f = { .id = a->claim.name.id };
	struct task_file read;
	int r = find_batch(sp, s, &f, e);

	if (r > 0)
		r = spool_confirm(sp, f.path, task_file_read(sp, f.path, &read, e), e);
	else if (r == 0)
		r = -ENOENT;
	if (r < 0)
		return r == -ENOENT || r == -EINVAL ? 0 : r;
	if (a->claim.name.element <= f.name.count) {
		a->spec = spec_for_element(read.spec, a->claim.name.element);
		r = find_memory(sp, &f.name, a, e);
	}
	task_file_clear(&read);
	return r;
}

static struct spool_spec *guess_spec(const struct adoptee *a)
{
	struct spool_spec *s = spec_new();

	s->name = xstrdup(NOWHERE);
	s->gpus = a->devices.n;
	return s;
}

int adoptee_fill(struct adoptee *a, const struct spool *sp, const struct scan *s, struct err *e)
{
	int r = claim_devices(sp, &a->claim, &a->devices, e);

	if (r == 0 && !a->spec)
		r = find_spec(a, sp, s, e);
	if (r == 0 && !a->spec)
		a->spec = guess_spec(a);
	return r;
}

void adoptee_clear(struct adoptee *a)
{
	a->spec = spec_free(a->spec);
	text_list_clear(&a->devices);
}
