/* SPDX-License-Identifier: MIT */
#include "agent/attempt/claim.h"

#include <fcntl.h>

#include "agent/queue/index.h"
#include "agent/queue/learning.h"
#include "agent/queue/waiting.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "spool/gang.h"
#include "spool/instance.h"
#include "task/claim_names.h"
#include "task/end_record.h"

/* The planner starts nothing that does not end in time, but of some tasks it knows the name alone.
 * True: this one does not; it is told. */
static bool is_too_late(const struct claiming *k, struct spool_place *p, const struct task_name *n)
{
	char path[SPOOL_PATH_MAX], name[NAME_FILE_MAX];
	struct task_file file;
	uint64_t now = clock_boot_ns(), timeout_ms;

	if (!k->end_ns || !index_name_says_all(p, n) ||
	    task_file_read(p->spool, spool_path(SPOOL_PENDING, name_format(n, name), path), &file,
			   NULL) < 0)
		return false;
	timeout_ms = file.spec->timeout;
	task_file_clear(&file);
	if (!timeout_ms || (k->end_ns > now && timeout_ms <= (k->end_ns - now) / NS_PER_MS))
		return false;
	place_note_timeout(p, n->id);
	return true;
}

static int claim_single(struct claiming *k, struct spool_place *p)
{
	const struct scan_task *t = scan_find(p->scan, k->ref.id, 0);
	struct task_name was;
	struct task_file file;
	int code;

	if (!t || t->dir != SPOOL_PENDING)
		return CLAIM_LOST;
	was = t->name;
	if (is_too_late(k, p, &was))
		return CLAIM_LOST; /* it waits, and is read */
	code = claim_task(p->spool, &was, &p->self, &file, &k->claim, &k->e);
	if (code < 0)
		place_undo_claim(p, &was);
	if (code != 0)
		return code;
	place_undo_forget(p, was.id);
	scan_note(p->scan, SPOOL_PENDING, &was, false);
	scan_note(p->scan, SPOOL_RUNNING, &k->claim.name, true);
	k->spec = take_ptr(file.spec);
	k->tries = k->claim.attempt - 1;
	task_file_clear(&file);
	return 0;
}

/* A rank is for the agent that the gang's generation of now names, for no other attempt than the
 * one that was called, and of the version that was: else ranks of one program would ask for other
 * things, where one was claimed before an edit and one after it. After the claim, since the
 * generation may have been another before. */
static int check_call(const struct claiming *k, const struct spool_place *p, struct err *e)
{
	struct gangs_read all;
	int r = gang_read_all(p->spool, &all, e);
	const struct gang *g = r == 0 ? gang_find(&all, k->ref.id) : NULL;
	const struct scan_task *t = scan_find(p->scan, k->ref.id, 0);
	size_t rank = k->ref.element - 1;

	if (r == 0 && !(g && gang_stands(g) && rank < g->n && t && g->epoch == t->name.epoch &&
			g->edits == k->edits && strcmp(g->ranks[rank].agent, p->self.agent) == 0 &&
			g->ranks[rank].epoch == k->claim.name.epoch))
		r = CLAIM_LOST;
	gang_clear(&all);
	return r;
}

/* A gang is tried as often as its rank that failed most often. */
static unsigned int tries_of_gang(const struct place_batch *b)
{
	unsigned int most = 0, attempts;
	uint64_t epoch;

	for (uint64_t i = 1; i <= b->spec->nodes; i++) {
		(void)batch_state(b->batch, i, &epoch, &attempts);
		most = attempts > most ? attempts : most;
	}
	return most;
}

static int claim_element(struct claiming *k, struct spool_place *p)
{
	struct place_batch *b = place_batch(p, k->ref.id, &k->e);
	const struct batch_again *again;
	uint64_t epoch, memory;
	int code;

	if (!b) /* it is gone, or cannot be read now */
		return k->e.code == -ENOENT ? CLAIM_LOST : k->e.code;
	code = batch_claim(b->batch, k->ref.element, &p->self, &k->claim, &k->e);
	/* It was the last one, and who ended it did not see that the others are over. */
	if (code == CLAIM_LOST && batch_is_over(b->batch) &&
	    waiting_file(b->batch, p, k->ref.id, NULL) == 0)
		place_forget_batch(p, k->ref.id);
	if (code != 0)
		return code;
	if (spec_is_gang(b->spec))
		code = check_call(k, p, &k->e);
	/* Where a second attempt would be wrong, the first must be known after a power loss. */
	if (code == 0 && b->spec->no_requeue)
		code = claim_keep(p->spool, &k->claim, &k->e);
	if (code != 0) {
		batch_give_back(b->batch, &k->claim);
		return code;
	}
	(void)batch_state(b->batch, k->ref.element, &epoch, &k->tries);
	if (spec_is_gang(b->spec))
		k->tries = tries_of_gang(b);
	k->spec = spec_for_element(b->spec, k->ref.element);
	again = batch_again_of(b->batch, k->ref.element);
	memory = spec_is_gang(b->spec) ? batch_memory_most(b->batch) : again ? again->memory : 0;
	if (memory)
		k->spec->memory = memory;
	return 0;
}

/* Where the log cannot be: beside what its shim leaves, on a disk of this node. */
static int open_away(struct claiming *k, const struct spool_place *p, const struct err *why)
{
	char token[TASK_TOKEN_MAX];
	struct err e = ERR_INIT;
	int fd = end_record_open_log(k->run_dir, names_token(k->key, &k->claim.name, token),
				     O_RDWR | O_CREAT | O_APPEND, k->away.file, &e);

	if (fd < 0)
		(void)str_print(k->away.error, sizeof(k->away.error), "%s; %s", why->text, e.text);
	else
		(void)str_copy(k->away.error, sizeof(k->away.error), why->text);
	(void)str_copy(k->away.host, sizeof(k->away.host), spool_host(p->spool));
	(void)claim_log_away(p->spool, &k->claim, &k->away, NULL); /* the agent says it as well */
	return fd;
}

/* Its log; nothing that is wrong with that, a full disk for one, keeps a task from running. */
static int open_log(struct claiming *k, const struct spool_place *p)
{
	struct err e = ERR_INIT;
	int fd;

	(void)names_log_path(&k->claim.name, k->spec->name, k->claim.attempt, k->log_path);
	fd = spool_open_own(p->spool, k->log_path, O_RDWR | O_CREAT | O_APPEND, NULL, &e);
	if (fd < 0)
		fd = open_away(k, p, &e);
	return fd >= 0 ? fd : open("/dev/null", O_RDWR | O_CLOEXEC);
}

/* Whose turn it is to start tasks of its lane. What was edited since it was planned is planned
 * anew. */
static int take_lanes(struct claiming *k, struct spool_place *p)
{
	const struct scan_task *t = scan_find(p->scan, k->ref.id, 0);
	int code;

	if (!t || t->dir != SPOOL_PENDING || t->name.edits != k->edits)
		return CLAIM_LOST;
	code = lanes_claim(p, &t->name, &k->lanes, &k->e);
	return code == LANE_ELSEWHERE ? CLAIM_ELSEWHERE : code;
}

void claiming_work(struct spool_job *job, struct spool_place *p)
{
	struct claiming *k = (struct claiming *)job;

	k->began_ns = clock_boot_ns();
	k->code = take_lanes(k, p);
	if (k->code == 0)
		k->code = k->ref.element ? claim_element(k, p) : claim_single(k, p);
	if (k->code != 0)
		return;
	learning_fill(p, k->spec);
	k->log_fd = open_log(k, p);
}
