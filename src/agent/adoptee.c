/* SPDX-License-Identifier: MIT */
#include "agent/adoptee.h"

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

/* It may have been stopped, or have ended, while one of its elements runs on. */
static bool find_batch(const struct spool *sp, const struct scan *s, struct found *f)
{
	const struct scan_task *t = scan_find(s, f->id, 0);

	if (t)
		return is_batch(f, &t->name, spool_dir_name(t->dir)) == 1;
	return scan_dir(sp, spool_dir_name(SPOOL_CANCELLED), is_batch, f, NULL) == 1 ||
	       scan_dir(sp, spool_dir_name(SPOOL_FAILED), is_batch, f, NULL) == 1 ||
	       scan_done(sp, is_batch, f, NULL) == 1;
}

/* An element that was tried before may ask for more than its batch. */
static void find_memory(const struct spool *sp, const struct task_name *n, struct adoptee *a)
{
	struct batch *b = NULL;
	const struct batch_again *again;

	if (a->claim.name.epoch == 0 || batch_open(sp, n, NULL, &b, NULL) < 0)
		return;
	again = batch_again_of(b, a->claim.name.element);
	if (again && again->memory)
		a->spec->memory = again->memory;
	(void)batch_close(b);
}

static void find_spec(struct adoptee *a, const struct spool *sp, const struct scan *s)
{
	struct found f = { .id = a->claim.name.id };
	struct task_file read;

	if (!find_batch(sp, s, &f) || task_file_read(sp, f.path, &read, NULL) < 0)
		return;
	if (a->claim.name.element <= f.name.count) {
		a->spec = spec_for_element(read.spec, a->claim.name.element);
		find_memory(sp, &f.name, a);
	}
	task_file_clear(&read);
}

static struct spool_spec *guess_spec(const struct adoptee *a)
{
	struct spool_spec *s = spec_new();

	s->name = xstrdup(NOWHERE);
	s->gpus = a->devices.n;
	return s;
}

void adoptee_fill(struct adoptee *a, const struct spool *sp, const struct scan *s)
{
	(void)claim_devices(sp, &a->claim, &a->devices, NULL);
	if (!a->spec)
		find_spec(a, sp, s);
	if (!a->spec)
		a->spec = guess_spec(a);
}

void adoptee_clear(struct adoptee *a)
{
	a->spec = spec_free(a->spec);
	text_list_clear(&a->devices);
}
