/* SPDX-License-Identifier: MIT */

/*
 * The input as a journal of a batch, as events of an agent and as the records of a task: whatever
 * numbers are in it, only what a name can have comes out, and a fold changes nothing of what they
 * say. Its first byte is the number of the batch's elements.
 */

#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "spool/batch.h"
#include "spool/endlog.h"
#include "spool/files.h"
#include "spool/own.h"
#include "spool/task_text.h"
#include "spool/transit.h"
#include "spool/usage.h"
#include "spool_dir.h"

#define TASK "{\"argv\":[\"x\"]}\n"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct spool *sp;

static void look_at_all(struct batch *b, uint64_t count)
{
	struct batch_counts n = batch_counts(b);
	unsigned int attempts;
	uint64_t epoch;

	fuzz_check(n.waiting + n.running + n.done + n.failed + n.cancelled == count);
	for (uint64_t i = 0; i < count + 2; i++) {
		(void)batch_state(b, i, &epoch, &attempts);
		fuzz_check(epoch <= NAME_EPOCH_MAX);
		fuzz_check(i && i <= count ? true : !batch_again_of(b, i));
		batch_mark_running(b, i, 0);
	}
	fuzz_check(batch_next(b, 0) <= count);
}

static void try_batch(uint64_t count)
{
	struct task_name n = { .priority = 500, .id = 1, .count = count, .name = "x" };
	struct batch *b = NULL;

	fuzz_check(batch_open(sp, &n, NULL, &b, NULL) == 0);
	look_at_all(b, count);
	n.count = count / 2 + 1;
	batch_set_name(b, &n);
	fuzz_check(batch_refresh(b, NULL) == 0);
	look_at_all(b, n.count);
	(void)batch_close(b);
}

static void on_event(void *data, const struct endlog_line *ev)
{
	fuzz_check(ev->id && ev->id <= NAME_ID_MAX && ev->element <= SPEC_ELEMENTS_MAX);
	fuzz_check(ev->epoch <= NAME_EPOCH_MAX && ev->end.exit <= NAME_EXIT_MAX);
	fuzz_check(!ev->requeue || ev->epoch);
}

static void on_line(void *data, const char *line, size_t len)
{
	json_t *o = json_loadb(line, len, 0, NULL);

	usage_add(data, o);
	json_decref(o);
}

static char *spec_now(struct task_history *ret)
{
	struct err e = ERR_INIT;
	struct task_file t;
	char *text;

	if (task_file_read(sp, "running/x", &t, &e) < 0) {
		fuzz_check(e.text[0]);
		return NULL;
	}
	text = spec_text(t.spec, &e);
	fuzz_check(text != NULL);
	*ret = t.history;
	task_file_clear(&t);
	return text;
}

static void try_fold(const uint8_t *data, size_t size)
{
	cleanup_free char *text = xmalloc(sizeof(TASK) + size);
	struct claim c = { .path = "running/x", .record_bytes = SIZE_MAX };
	const struct spool_again again = { .attempts = 3, .reason = "again" };
	struct task_history was, is;

	(void)memcpy(text, TASK, sizeof(TASK) - 1);
	(void)memcpy(text + sizeof(TASK) - 1, data, size);
	text[sizeof(TASK) - 1 + size] = '\0';
	fuzz_put(c.path, text, sizeof(TASK) - 1 + size);

	cleanup_free char *before = spec_now(&was);

	if (!before || was.epoch == NAME_EPOCH_MAX)
		return;
	c.name.epoch = was.epoch;
	fuzz_check(transit_append_requeue(sp, &c, record_requeue(&again, was.epoch + 1, 1), NULL) ==
		   0);

	cleanup_free char *after = spec_now(&is);

	/* An edit with an epoch is none of ours. */
	fuzz_check(strstr(text, "edit") || memchr(data, '\0', size) ||
		   (after && strcmp(before, after) == 0));
	fuzz_check(!after || (is.attempts == 3 && is.epoch == was.epoch + 1));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct usage u = { .asked = SPEC_ALL };
	off_t offset = 0;

	if (!sp) {
		sp = fuzz_spool();
		fuzz_check(mkdirat(sp->fd, "ends/1", 0700) == 0);
	}
	if (!size)
		return 0;
	fuzz_put("ends/1/other", data + 1, size - 1);
	fuzz_put("events/other.tasks.jsonl", data + 1, size - 1);
	try_batch(data[0] + 1);
	fuzz_check(endlog_read_old(sp, on_event, NULL, NULL) == 0);
	fuzz_check(lines_read(sp, "ends/1/other", &offset, on_line, &u, NULL) == 0);
	fuzz_check(u.seconds >= 0 && u.gpu_seconds >= 0);
	try_fold(data + 1, size - 1);
	return 0;
}
