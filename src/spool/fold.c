/* SPDX-License-Identifier: MIT */

/*
 * In place: the task's own text stays where it is, and the new records are written over the old
 * ones with one call, filled up with empty lines to the same length; then the file is cut. So the
 * task is whole whatever happens, and nothing can come to be where the claim was taken away: a
 * file that replaced this one would bring a claim back that another agent has.
 */

#include "spool/fold.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "spool/usage.h"

#define FOLD_BYTES (32UL << 10) /* of records: about a hundred attempts */

/* Edits stay as they are, one by one; of all else the use alone. */
static void sort_records(const char *text, const char *end, struct strbuf *edits, struct usage *u)
{
	for (const char *stop; text < end && (stop = memchr(text, '\n', (size_t)(end - text)));
	     text = stop + 1) {
		json_t *o = json_loadb(text, (size_t)(stop - text), 0, NULL);
		const char *event = json_string_value(json_object_get(o, "event"));

		if (event && strcmp(event, "edit") == 0)
			strbuf_add(edits, text, (size_t)(stop + 1 - text));
		else
			usage_add(u, o);
		json_decref(o);
	}
}

/* The new records behind the task's text, which ends at *ret_used. false: as many, or they are not
 * for us to change. */
static bool fold(const struct claim *c, const char *text, size_t len, const char *requeue,
		 size_t *ret_used, struct strbuf *ret)
{
	struct usage u = { .asked = c->name.gpus };
	struct task_history h = { .epoch = 0 };
	struct spool_spec *spec = NULL;
	json_t *past;

	if (spec_read(text, len, &spec, ret_used, NULL) < 0)
		return false;
	history_read(text + *ret_used, len - *ret_used, &h, spec);
	past = record_past(c->name.epoch, h.attempts, h.grown ? spec->memory : 0);
	(void)spec_free(spec);
	strbuf_addc(ret, '\n');
	sort_records(text + *ret_used, text + len, ret, &u);
	usage_put(&u, past);

	cleanup_free char *line = record_line(past);

	strbuf_adds(ret, line);
	strbuf_adds(ret, requeue);
	return h.epoch <= c->name.epoch && ret->len <= (len - *ret_used) / 2;
}

static int write_over(int fd, const struct strbuf *records, size_t used, size_t len)
{
	size_t room = len - used;
	cleanup_free char *block = xmalloc(room);
	struct stat st;

	(void)memset(block, '\n', room);
	(void)memcpy(block, records->data, records->len);
	for (size_t done = 0; done < room;) {
		ssize_t n = pwrite(fd, block + done, room - done, (off_t)(used + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		done += (size_t)n;
	}
	/* What is not cut, because somebody appends, are empty lines. */
	if (fdatasync(fd) == 0 && fstat(fd, &st) == 0 && st.st_size == (off_t)len)
		(void)!ftruncate(fd, (off_t)(used + records->len));
	return 0;
}

/* 0: it is done. */
static int try_fold(const struct spool *sp, const struct claim *c, const char *requeue)
{
	cleanup_fd int fd = spool_open_file(sp, c->path, O_RDWR, NULL, NULL);
	cleanup_strbuf struct strbuf records = STRBUF_INIT;
	cleanup_free char *text = NULL;
	size_t len, used;
	int r = fd < 0 ? fd : spool_read(sp, c->path, SPEC_FILE_MAX, &text, &len, NULL);

	if (r < 0)
		return r;
	return fold(c, text, len, requeue, &used, &records) ? write_over(fd, &records, used, len)
							    : -EAGAIN;
}

int fold_requeue(const struct spool *sp, const struct claim *c, json_t *requeue, struct err *e)
{
	if (c->record_bytes > FOLD_BYTES) {
		cleanup_free char *line = record_line(json_incref(requeue));

		if (try_fold(sp, c, line) == 0) {
			json_decref(requeue);
			return 0;
		}
	}
	return record_append(sp, c->path, requeue, false, e);
}
