/* SPDX-License-Identifier: MIT */
#include "agent/report/outq.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

#define GROUP_NS (20 * NS_PER_MS)

struct line {
	struct line *next;
	unsigned int channel;
	size_t len;
	char text[];
};

struct outq {
	uv_loop_t *loop;
	const struct outq_ops *ops;
	void *user;
	size_t max_bytes, bytes; /* waiting, not yet handed to the job */
	uint64_t lost, lost_unsaid;
	struct line *first, **last;
	/* The job's own while busy; the loop's thread keeps away. */
	bool busy, closing;
	uv_work_t work;
	struct line *batch;
	uint64_t batch_lost;
	bool batch_closes;
	uint64_t written_ns;
};

struct outq *outq_new(uv_loop_t *loop, size_t max_bytes, const struct outq_ops *ops, void *user)
{
	struct outq *q = xcalloc(1, sizeof(*q));

	q->loop = loop;
	q->ops = ops;
	q->user = user;
	q->max_bytes = max_bytes;
	q->last = &q->first;
	q->work.data = q;
	return q;
}

static void write_batch(uv_work_t *work)
{
	struct outq *q = work->data;

	if (q->batch_lost)
		q->ops->lost(q->user, q->batch_lost);
	for (struct line *l = q->batch; l; l = l->next)
		q->ops->put(q->user, l->channel, l->text, l->len);
	if (q->batch_closes) {
		q->ops->close(q->user);
		return;
	}
	/* Where lines come one after another the next ones are written together. */
	if (clock_mono_ns() - q->written_ns < GROUP_NS)
		(void)usleep(GROUP_NS / NS_PER_US);
	q->written_ns = clock_mono_ns();
}

static void free_lines(struct line *l)
{
	while (l) {
		struct line *next = l->next;

		free(l);
		l = next;
	}
}

static void start_batch(struct outq *q);

static void batch_done(uv_work_t *work, int status)
{
	struct outq *q = work->data;

	free_lines(take_ptr(q->batch));
	q->busy = false;
	if (q->first || (q->closing && !q->batch_closes))
		start_batch(q);
}

static void start_batch(struct outq *q)
{
	q->batch = q->first;
	q->batch_lost = q->lost_unsaid;
	q->batch_closes = q->closing;
	q->first = NULL;
	q->last = &q->first;
	q->bytes = 0;
	q->lost_unsaid = 0;
	q->busy = uv_queue_work(q->loop, &q->work, write_batch, batch_done) == 0;
}

void outq_add(struct outq *q, unsigned int channel, const char *line, size_t len)
{
	if (q->bytes + len > q->max_bytes) {
		q->lost++;
		q->lost_unsaid++;
		return;
	}

	struct line *l = xmalloc(sizeof(*l) + len + 1);

	*l = (struct line){ .channel = channel, .len = len };
	(void)memcpy(l->text, line, len);
	l->text[len] = '\0';
	*q->last = l;
	q->last = &l->next;
	q->bytes += len;
	if (!q->busy)
		start_batch(q);
}

void outq_close(struct outq *q)
{
	q->closing = q->ops->close;
	if (q->closing && !q->busy)
		start_batch(q);
}

uint64_t outq_lost(const struct outq *q)
{
	return q->lost;
}

bool outq_is_empty(const struct outq *q)
{
	return !q->busy && !q->first;
}

int outq_free(struct outq *q)
{
	if (q->busy)
		return -EBUSY;
	free_lines(q->first);
	free(q);
	return 0;
}
