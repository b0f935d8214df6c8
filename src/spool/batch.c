/* SPDX-License-Identifier: MIT */

/*
 * One byte per element, and a short list of those that were requeued. An element is over, or has a
 * new epoch, from the moment in which the line is in the journal; its file in running/ goes after
 * that. So a claim is: create running/ID.ELEMENT,eEPOCH exclusively, then read what is new in the
 * journals. If the element is over or has a later epoch by then, or the batch's file is gone from
 * pending/ (stopped), the claim is given up. Whoever had created that file before us had written
 * the journal before he removed it, so that a stale view of ours is found out.
 *
 * Readers remember how far they have read each journal. A journal's lines are JSON; a cut line at
 * its end is left for the next time.
 *
 * Numbers of elements come from names, from journals and from callers who may know another number
 * of them: each is compared with the room that there is before it counts.
 */

#include "spool/batch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "spool/files.h"
#include "spool/own.h"
#include "spool/transit.h"

#define CLAIM_BYTES_MAX 65536 /* of an element's file: a claim and its start */

struct journal {
	char agent[NAME_AGENT_MAX + 1];
	off_t offset;
};

struct grown {
	uint64_t epoch, memory;
};

struct requeued {
	uint64_t element;
	struct batch_again again;
	char *reason;	       /* the text of again.reason */
	struct grown grown[2]; /* by the last requeue that said so, and by the one before */
};

struct batch {
	const struct spool *sp;
	struct task_name name;
	char dir[SPOOL_PATH_MAX]; /* ends/ID */
	char own[SPOOL_PATH_MAX]; /* "": to read only */
	int own_fd;
	uint64_t count;	 /* elements that there is room for */
	uint8_t *states; /* enum batch_state, from element 1 */
	uint64_t counts[BATCH_CANCELLED + 1];
	uint64_t next; /* no element below it waits, but requeued ones */
	uint64_t returned;
	bool made; /* dir is there */
	/* Claims that were given up and could not be removed: in turns the path of one and what we
	 * wrote into it. */
	struct text_list undone;
	size_t n_requeued;
	struct requeued *requeued;
	uint32_t *which; /* of an element: its place among them, from 1; NULL before the first */
	size_t n_journals;
	struct journal *journals;
};

static bool has(const struct batch *b, uint64_t element)
{
	return element && element <= b->count;
}

static void set_state(struct batch *b, uint64_t element, enum batch_state state)
{
	b->counts[b->states[element]]--;
	b->counts[state]++;
	b->states[element] = (uint8_t)state;
}

static struct requeued *find_requeued(const struct batch *b, uint64_t element)
{
	return b->which && has(b, element) && b->which[element]
		       ? &b->requeued[b->which[element] - 1]
		       : NULL;
}

const struct batch_again *batch_again_of(const struct batch *b, uint64_t element)
{
	const struct requeued *q = find_requeued(b, element);

	return q ? &q->again : NULL;
}

uint64_t batch_memory_in(const struct batch *b, uint64_t element, uint64_t epoch)
{
	const struct requeued *q = find_requeued(b, element);

	for (size_t i = 0; q && i < ARRAY_LEN(q->grown); i++)
		if (q->grown[i].epoch <= epoch)
			return q->grown[i].memory;
	return 0;
}

uint64_t batch_memory_most(const struct batch *b)
{
	uint64_t most = 0;

	for (size_t i = 0; i < b->n_requeued; i++)
		most = b->requeued[i].again.memory > most ? b->requeued[i].again.memory : most;
	return most;
}

static uint64_t epoch_of(const struct batch *b, uint64_t element)
{
	const struct requeued *q = find_requeued(b, element);

	return q ? q->again.epoch : 0;
}

static struct requeued *add_requeued(struct batch *b, uint64_t element)
{
	if (!b->which)
		b->which = xcalloc(b->count + 1, sizeof(*b->which));
	b->requeued = xgrow(b->requeued, b->n_requeued, sizeof(*b->requeued));
	b->requeued[b->n_requeued++] = (struct requeued){ .element = element };
	b->which[element] = (uint32_t)b->n_requeued;
	return &b->requeued[b->n_requeued - 1];
}

/* ---- journals ---- */

/* The end with the highest epoch counts, whatever the order in which journals are read. */
static void learn_end(struct batch *b, uint64_t element, const struct spool_end *end)
{
	if (!has(b, element) || end->epoch < epoch_of(b, element))
		return;
	if (end->epoch > epoch_of(b, element)) {
		struct requeued *q = find_requeued(b, element);

		q = q ? q : add_requeued(b, element);
		q->again.epoch = end->epoch;
	}
	set_state(b, element, BATCH_DONE + (enum batch_state)end->result);
}

/* The memory of a requeue holds until a later requeue names another, whichever of them is read
 * first. */
static void learn_memory(struct requeued *q, uint64_t epoch, uint64_t memory)
{
	struct grown *last = &q->grown[0], *before = &q->grown[1];

	if (memory && epoch > last->epoch) {
		*before = *last;
		*last = (struct grown){ epoch, memory };
	} else if (memory && epoch > before->epoch && epoch < last->epoch) {
		*before = (struct grown){ epoch, memory };
	}
	q->again.memory = last->memory;
}

static void learn_requeue(struct batch *b, uint64_t element, uint64_t epoch,
			  const struct spool_again *again, uint64_t noted_ns)
{
	struct requeued *q = find_requeued(b, element);

	if (q)
		learn_memory(q, epoch, again->memory);
	if (!has(b, element) || epoch <= epoch_of(b, element))
		return;
	if (!q) {
		q = add_requeued(b, element);
		learn_memory(q, epoch, again->memory);
	}
	q->again.epoch = epoch;
	q->again.not_before_ns = again->not_before_ns;
	q->again.noted_ns = noted_ns;
	q->again.attempts = again->attempts;
	free(q->reason);
	q->again.reason = q->reason = xstrdup(again->reason);
	set_state(b, element, BATCH_WAITING);
}

static void learn(struct batch *b, const json_t *o)
{
	const char *event = json_string_value(json_object_get(o, "event"));
	uint64_t element = (uint64_t)json_integer_value(json_object_get(o, "element"));
	uint64_t epoch = (uint64_t)json_integer_value(json_object_get(o, "epoch"));
	struct spool_again again;
	struct spool_end end;

	if (!event || epoch > NAME_EPOCH_MAX)
		return;
	if (strcmp(event, "end") == 0 && end_from_json(o, &end)) {
		learn_end(b, element, &end);
	} else if (strcmp(event, "requeue") == 0) {
		b->returned += has(b, element) && epoch > epoch_of(b, element);
		again_from_json(o, &again);
		learn_requeue(b, element, epoch, &again, record_ns(json_object_get(o, "time")));
	}
}

static void learn_line(void *data, const char *line, size_t len)
{
	json_t *o = json_loadb(line, len, 0, NULL);

	learn(data, o);
	json_decref(o);
}

static struct journal *journal_of(struct batch *b, const char *agent)
{
	for (size_t i = 0; i < b->n_journals; i++)
		if (strcmp(b->journals[i].agent, agent) == 0)
			return &b->journals[i];
	b->journals = xrealloc(b->journals, b->n_journals + 1, sizeof(*b->journals));

	struct journal *j = &b->journals[b->n_journals++];

	*j = (struct journal){ .offset = 0 };
	(void)str_copy(j->agent, sizeof(j->agent), agent);
	return j;
}

static int read_journal(void *data, const char *file, unsigned char type)
{
	struct batch *b = data;
	char path[SPOOL_PATH_MAX];
	struct journal *j;
	struct stat st;
	int r;

	if (!ident_is_name(file) || strlen(file) > NAME_AGENT_MAX)
		return 0;
	(void)str_print(path, sizeof(path), "%.60s/%s", b->dir, file);
	j = journal_of(b, file);
	r = spool_stat_now(b->sp->fd, path, &st);
	if (r < 0) /* of what is listed: it goes with the whole batch only */
		return r == -ENOENT ? -EIO : r;
	if (st.st_size <= j->offset) /* most of them, most of the time */
		return 0;
	r = lines_read(b->sp, path, &j->offset, learn_line, b, NULL);
	return r == -EINVAL || r == -EPERM || r == -ELOOP ? 0 : r; /* it does not count */
}

/* The file under that name may be the claim of another agent by now, which runs the element.
 * It is ours as long as it holds what we wrote, which names the process and the time. */
static int remove_claim(const struct spool *sp, const char *path, const char *line)
{
	cleanup_free char *text = NULL;
	size_t len;
	int r = spool_confirm(sp, path, spool_read(sp, path, CLAIM_BYTES_MAX, &text, &len, NULL),
			      NULL);

	if (r == 0 && strcmp(text, line) != 0)
		return 0;
	if (r == 0)
		r = spool_unlink(sp, path, NULL);
	return r == -ENOENT ? 0 : r;
}

static void add_undone(struct text_list *undone, const char *path, const char *line)
{
	text_list_add(undone, path);
	text_list_add(undone, line);
}

void batch_remove_undone(const struct spool *sp, struct text_list *undone)
{
	struct text_list all = *undone;

	*undone = (struct text_list){ 0 };
	for (size_t i = 0; i < all.n; i += 2)
		if (remove_claim(sp, all.texts[i], all.texts[i + 1]) < 0)
			add_undone(undone, all.texts[i], all.texts[i + 1]);
	text_list_clear(&all);
}

void batch_take_undone(struct batch *b, struct text_list *to)
{
	for (size_t i = 0; i < b->undone.n; i++)
		text_list_add(to, b->undone.texts[i]);
	text_list_clear(&b->undone);
}

/* The directory may be made between the two looks of a client that is told that it is not there. */
static int read_journals(struct batch *b, struct err *e)
{
	int seen = 0, r = 0;

	for (int tries = 0; tries < 2; tries++) {
		seen = spool_each(b->sp, b->dir, read_journal, b, e);
		r = spool_confirm(b->sp, b->dir, seen, e);
		if (r == seen)
			break;
	}
	return r;
}

int batch_refresh(struct batch *b, struct err *e)
{
	struct err why = ERR_INIT;
	int r;

	batch_remove_undone(b->sp, &b->undone);
	r = read_journals(b, &why);
	/* An agent that serves the batch removes what somebody has put in the place of
	 * ends/ID. */
	if ((r == -ENOTDIR || r == -ELOOP) && b->own[0])
		r = spool_refuse(b->sp, b->dir, why.text, &why) == 0 ? -ENOENT : r;
	if (r == -ENOENT)
		return 0; /* nothing has started */
	if (r < 0)
		return why.text[0] ? err_set(e, r, "%s", why.text)
				   : err_sys(e, -r, "read %s/%s", b->sp->path, b->dir);
	return 0;
}

static int make_dir(struct batch *b, struct err *e)
{
	if (b->made)
		return 0;

	int r = spool_mkdirat(b->sp, b->dir, e);

	b->made = r == 0;
	return r;
}

/* To make the directory asks whoever keeps it, while a look may be answered from a cache of this
 * node: "not there" is no proof then that nothing has started. */
int batch_refresh_now(struct batch *b, struct err *e)
{
	int r = make_dir(b, e);

	return r == 0 ? batch_refresh(b, e) : r;
}

static int open_own(struct batch *b, struct err *e)
{
	int r = b->own_fd < 0 ? make_dir(b, e) : 0;

	if (r < 0 || b->own_fd >= 0)
		return r;
	b->own_fd = spool_open_own(b->sp, b->own, O_RDWR | O_APPEND | O_CREAT, NULL, e);
	return b->own_fd < 0 ? b->own_fd : 0;
}

/* Appends a line to our journal. It is learnt together with everything that the others have
 * written. */
static int write_own(struct batch *b, json_t *record, uint64_t element, struct err *e)
{
	(void)json_object_set_new(record, "element", json_integer((json_int_t)element));

	cleanup_free char *line = record_line(record);
	int r = open_own(b, e);

	if (r < 0)
		return r;
	r = spool_append(b->own_fd, line, strlen(line));
	if (r == 0) /* others read it once the claim is gone */
		r = spool_send(b->sp, b->own_fd);
	if (r < 0)
		return err_sys(e, -r, "append to %s/%s", b->sp->path, b->own);
	return 0;
}

/* ---- the batch ---- */

/* From now on nothing is known of any element. */
static void begin(struct batch *b, uint64_t count)
{
	for (size_t i = 0; i < b->n_requeued; i++)
		free(b->requeued[i].reason);
	free(b->requeued);
	free(b->which);
	free(b->states);
	free(b->journals);
	b->requeued = NULL;
	b->which = NULL;
	b->journals = NULL;
	b->n_requeued = b->n_journals = 0;
	b->count = count;
	b->states = xcalloc(count + 1, 1);
	(void)memset(b->counts, 0, sizeof(b->counts));
	b->counts[BATCH_WAITING] = count;
	b->next = 1;
}

int batch_open(const struct spool *sp, const struct task_name *n, const char *agent,
	       struct batch **ret, struct err *e)
{
	struct batch *b = xcalloc(1, sizeof(*b));

	b->sp = sp;
	b->name = *n;
	b->own_fd = -1;
	begin(b, n->count);
	(void)str_print(b->dir, sizeof(b->dir), "ends/%" PRIu64, n->id);
	if (agent)
		(void)str_print(b->own, sizeof(b->own), "ends/%" PRIu64 "/%s", n->id, agent);

	int r = batch_refresh(b, e);

	if (r < 0)
		b = batch_close(b);
	*ret = b;
	return r;
}

struct batch *batch_close(struct batch *b)
{
	if (!b)
		return NULL;
	(void)fd_close(b->own_fd);
	text_list_clear(&b->undone);
	begin(b, 0);
	free(b->states);
	free(b);
	return NULL;
}

void batch_set_name(struct batch *b, const struct task_name *n)
{
	b->name = *n;
	if (n->count != b->count)
		begin(b, n->count);
}

const struct task_name *batch_name(const struct batch *b)
{
	return &b->name;
}

void batch_mark_running(struct batch *b, uint64_t element, uint64_t epoch)
{
	if (has(b, element) && b->states[element] == BATCH_WAITING && epoch == epoch_of(b, element))
		set_state(b, element, BATCH_RUNNING);
}

uint64_t batch_next(struct batch *b, uint64_t now_wall_ns)
{
	for (size_t i = 0; i < b->n_requeued; i++)
		if (b->states[b->requeued[i].element] == BATCH_WAITING &&
		    b->requeued[i].again.not_before_ns <= now_wall_ns)
			return b->requeued[i].element;
	/* Requeued elements are passed over: they were looked at above, and may have to wait. */
	while (b->next <= b->count &&
	       (b->states[b->next] != BATCH_WAITING || find_requeued(b, b->next)))
		b->next++;
	return b->next <= b->count ? b->next : 0;
}

static bool still_ours(struct batch *b, uint64_t element, uint64_t epoch, unsigned int bars)
{
	char file[NAME_FILE_MAX];

	return b->states[element] == BATCH_WAITING && epoch_of(b, element) == epoch &&
	       !(b->name.flags & bars) &&
	       spool_is_there_now(b->sp, SPOOL_PENDING, name_format(&b->name, file));
}

/* bars: the flags of the batch's name that nothing is claimed under. */
static int claim_element(struct batch *b, uint64_t element, const struct claimer *who,
			 unsigned int bars, struct claim *ret, struct err *e)
{
	const struct requeued *q = find_requeued(b, element);
	struct claim c = { .name = { .id = b->name.id, .element = element },
			   .who = *who,
			   .attempt = (q ? q->again.attempts : 0) + 1,
			   .claimed_ns = clock_wall_ns() };
	char file[NAME_FILE_MAX];

	if (!has(b, element))
		return CLAIM_LOST;
	c.name.epoch = q ? q->again.epoch : 0;
	(void)spool_path(SPOOL_RUNNING, name_format(&c.name, file), c.path);

	cleanup_free char *line =
		record_line(record_claim(who, c.name.epoch, c.attempt, c.claimed_ns));
	int r = spool_write_new(b->sp, c.path, line, strlen(line), false, e);

	if (r == -EEXIST) {
		batch_mark_running(b, element, c.name.epoch);
		return CLAIM_LOST;
	}
	/* What could not be sent, and not be removed either, may be there later as it was written.
	 * One that is empty may be anybody's. */
	if (r < 0) {
		if (remove_claim(b->sp, c.path, line) < 0)
			add_undone(&b->undone, c.path, line);
		return r;
	}
	r = batch_refresh_now(b, e);
	if (r == 0 && still_ours(b, element, c.name.epoch, bars)) {
		set_state(b, element, BATCH_RUNNING);
		*ret = c;
		return 0;
	}

	if (spool_unlink(b->sp, c.path, NULL) < 0)
		add_undone(&b->undone, c.path, line);
	return r < 0 ? r : CLAIM_LOST;
}

void batch_give_back(struct batch *b, const struct claim *c)
{
	uint64_t element = c->name.element;
	cleanup_free char *line =
		record_line(record_claim(&c->who, c->name.epoch, c->attempt, c->claimed_ns));

	if (remove_claim(b->sp, c->path, line) < 0)
		add_undone(&b->undone, c->path, line);
	if (b->states[element] != BATCH_RUNNING)
		return;
	set_state(b, element, BATCH_WAITING);
	b->next = element < b->next ? element : b->next;
}

int batch_claim(struct batch *b, uint64_t element, const struct claimer *who, struct claim *ret,
		struct err *e)
{
	return claim_element(b, element, who, NAME_EDITED | NAME_PAUSED, ret, e);
}

int batch_claim_to_end(struct batch *b, uint64_t element, const struct claimer *who,
		       struct claim *ret, struct err *e)
{
	return claim_element(b, element, who, NAME_EDITED, ret, e);
}

int batch_check_running(struct batch *b, batch_claimed_fn is_there, void *data, struct err *e)
{
	cleanup_free uint64_t *gone = NULL; /* with their epochs */
	size_t n = 0;
	int r;

	for (uint64_t i = 1; b->counts[BATCH_RUNNING] && i <= b->count; i++) {
		if (b->states[i] != BATCH_RUNNING || is_there(data, i))
			continue;
		gone = xgrow(gone, n, 2 * sizeof(*gone));
		gone[2 * n] = i;
		gone[2 * n++ + 1] = epoch_of(b, i);
	}
	if (!n)
		return 0;
	/* The claimer removes an element's file last, so that whatever ended the element is in
	 * the journal by now. */
	r = batch_refresh_now(b, e);
	for (size_t i = 0; i < n && r == 0; i++) {
		uint64_t element = gone[2 * i];

		if (b->states[element] != BATCH_RUNNING || epoch_of(b, element) != gone[2 * i + 1])
			continue;
		set_state(b, element, BATCH_WAITING);
		b->next = element < b->next ? element : b->next;
		b->returned++;
	}
	return r;
}

uint64_t batch_returned(const struct batch *b)
{
	return b->returned;
}

/* The end is told once more, because a later step had failed, or by the successor of an agent
 * that was killed then. The line is in the journal already, and usage counts each line. */
static int write_end(struct batch *b, uint64_t element, const struct spool_end *end, struct err *e)
{
	int r;

	if (has(b, element) && b->states[element] >= BATCH_DONE &&
	    epoch_of(b, element) == end->epoch)
		return 0;
	r = write_own(b, record_end(end), element, e);
	if (r == 0)
		learn_end(b, element, end);
	return r;
}

static int write_requeue(struct batch *b, uint64_t element, uint64_t epoch,
			 const struct spool_again *again, struct err *e)
{
	int r;

	if (epoch_of(b, element) >= epoch)
		return 0;
	r = write_own(b, record_requeue(again, epoch, clock_wall_ns()), element, e);
	if (r == 0)
		learn_requeue(b, element, epoch, again, clock_wall_ns());
	return r;
}

/* Before the line of the endlog that stands for ours: where it would be left to a syncfs that does
 * nothing. Also of a line that an earlier call has written, or an agent before us. */
static int settle_own(struct batch *b, struct err *e)
{
	int r = b->sp->no_syncfs ? open_own(b, e) : 0;

	if (r < 0 || !b->sp->no_syncfs || fdatasync(b->own_fd) == 0)
		return r;
	return err_sys(e, errno, "sync %s/%s", b->sp->path, b->own);
}

int batch_end(struct batch *b, struct endlog *ev, const struct claim *c,
	      const struct spool_end *end, struct err *e)
{
	int r = write_end(b, c->name.element, end, e);

	/*
	 * It may be the last one, which only the others' journals tell: of two that end the last
	 * elements at once, each writes first and reads then, so that one of them finds the
	 * other's.
	 */
	if (r == 0 && !b->counts[BATCH_WAITING])
		r = batch_refresh(b, e);
	if (r == 0 && ev)
		r = settle_own(b, e);
	if (r == 0 && ev)
		r = endlog_add_end(ev, b->name.id, c->name.element, end, e);
	if (r < 0)
		return r;
	if (unlinkat(b->sp->fd, c->path, 0) == 0)
		return 0;
	if (errno != ENOENT || !spool_is_gone(b->sp, c->path))
		return err_sys(e, errno, "remove %s/%s", b->sp->path, c->path);
	/* The claim was taken away, or the answer to an earlier removal got lost: the journals
	 * tell which. */
	r = batch_refresh_now(b, e);
	return r == 0 && epoch_of(b, c->name.element) > c->name.epoch ? BATCH_SUPERSEDED : r;
}

int batch_requeue(struct batch *b, struct endlog *ev, const struct claim *c,
		  const struct spool_again *again, struct err *e)
{
	uint64_t element = c->name.element, epoch = c->name.epoch + 1;
	int r = write_requeue(b, element, epoch, again, e);

	if (r == 0 && ev)
		r = settle_own(b, e);
	if (r == 0 && ev)
		r = endlog_add_requeue(ev, b->name.id, element, epoch, again, e);
	return r == 0 ? spool_unlink(b->sp, c->path, e) : r;
}

int batch_retry(struct batch *b, uint64_t element, const char *reason, struct err *e)
{
	uint64_t epoch = epoch_of(b, element) + 1;
	struct spool_again again = { .attempts = 0 };

	if (!has(b, element))
		return err_set(e, -ERANGE, "task %" PRIu64 " has %" PRIu64 " elements, no %" PRIu64,
			       b->name.id, b->count, element);
	(void)str_copy(again.reason, sizeof(again.reason), reason);
	return write_requeue(b, element, epoch, &again, e);
}

int batch_skip_backoff(struct batch *b, uint64_t element, struct err *e)
{
	const struct requeued *q = find_requeued(b, element);
	struct spool_again again = { .attempts = 0 };
	uint64_t epoch;

	if (!q || b->states[element] != BATCH_WAITING)
		return 0;
	epoch = q->again.epoch + 1;
	again.attempts = q->again.attempts;
	again.memory = q->again.memory;
	(void)str_copy(again.reason, sizeof(again.reason), q->again.reason ? q->again.reason : "");
	return write_requeue(b, element, epoch, &again, e);
}

int batch_sync(struct batch *b, struct err *e)
{
	if (b->own_fd >= 0 && fdatasync(b->own_fd) < 0)
		return err_sys(e, errno, "sync %s/%s", b->sp->path, b->own);
	return b->own_fd >= 0 ? spool_sync(b->sp, b->dir, e) : 0;
}

struct batch_counts batch_counts(const struct batch *b)
{
	return (struct batch_counts){ b->counts[BATCH_WAITING], b->counts[BATCH_RUNNING],
				      b->counts[BATCH_DONE], b->counts[BATCH_FAILED],
				      b->counts[BATCH_CANCELLED] };
}

bool batch_is_over(const struct batch *b)
{
	return b->counts[BATCH_WAITING] + b->counts[BATCH_RUNNING] == 0;
}

enum batch_state batch_state(const struct batch *b, uint64_t element, uint64_t *ret_epoch,
			     unsigned int *ret_attempts)
{
	const struct requeued *q = find_requeued(b, element);

	*ret_epoch = q ? q->again.epoch : 0;
	*ret_attempts = q ? q->again.attempts : 0;
	return has(b, element) ? (enum batch_state)b->states[element] : BATCH_CANCELLED;
}

enum task_result batch_result(const struct batch *b)
{
	return b->counts[BATCH_FAILED]	    ? RESULT_FAILED
	       : b->counts[BATCH_CANCELLED] ? RESULT_CANCELLED
					    : RESULT_DONE;
}

int batch_commit(struct batch *b, struct err *e)
{
	char from[SPOOL_PATH_MAX], file[NAME_FILE_MAX];
	enum task_result result = batch_result(b);
	int r;

	if (b->name.flags & NAME_EDITED) /* somebody asks for elements again */
		return TRANSIT_GONE;
	r = transit_commit(b->sp, spool_path(SPOOL_PENDING, name_format(&b->name, file), from),
			   &b->name, result, clock_wall_ns(), b->counts[BATCH_FAILED] ? 1 : 0, e);

	return r == -ENOENT ? TRANSIT_GONE : r;
}

struct forgetting {
	const struct spool *sp;
	const char *dir;
};

static int forget_journal(void *data, const char *file, unsigned char type)
{
	const struct forgetting *f = data;
	char path[SPOOL_PATH_MAX];

	return spool_unlink(f->sp, str_print(path, sizeof(path), "%.60s/%s", f->dir, file), NULL);
}

int batch_forget(const struct spool *sp, uint64_t id, struct err *e)
{
	char dir[SPOOL_PATH_MAX];
	struct forgetting f = { sp, str_print(dir, sizeof(dir), "ends/%" PRIu64, id) };
	int r = spool_each(sp, dir, forget_journal, &f, e);

	if (r == -ENOENT)
		return 0;
	if (r == 0 && unlinkat(sp->fd, dir, AT_REMOVEDIR) < 0 && errno != ENOENT)
		r = err_sys(e, errno, "remove %s/%s", sp->path, dir);
	return r;
}
