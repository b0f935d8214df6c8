/* SPDX-License-Identifier: MIT */

/*
 * A run is moved on by three sources: jobs on the spool (claim, note the shim, file the end), the
 * guard's words on its lease, and its shim's messages. Each handler looks at the state it is in, so
 * a word that comes late does nothing.
 *
 * The claim names the agent until the shim is noted in it, so that a crash between the two leaves
 * a claim whose token leads to the shim, if there is one (names_token()).
 *
 * The end: the shim's word gives `end`, the guard's gives `freed`. Both are needed before the task
 * is filed, so that nobody is told that it is over while its devices are still in use (invariant
 * 7).
 */

#include "agent/attempt/attempt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/attempt/claim.h"
#include "agent/attempt/lease.h"
#include "agent/attempt/machine.h"
#include "agent/attempt/runend.h"
#include "agent/attempt/shim.h"
#include "base/strbuf.h"
#include "task/names.h"

#define LAUNCH_RETRY_MS 5
#define ELSEWHERE_MS	1000 /* a limit of which the plan has not heard yet blocks nothing */

static const char *const state_names[] = {
	[AT_CLAIMING] = "claiming", [AT_LEASING] = "leasing", [AT_STARTING] = "starting",
	[AT_GRANTING] = "granting", [AT_RUNNING] = "running", [AT_FREEING] = "freeing",
	[AT_COMMITTING] = "filing",
};

_Static_assert(ARRAY_LEN(state_names) == AT_STATE_MAX, "every state has a name");

/* ---- life of the struct ---- */

static void on_timer_closed(uv_handle_t *h)
{
	struct attempt *r = h->data;

	spec_free(r->spec);
	use_clear(&r->use);
	text_list_clear(&r->uuids);
	free(r);
}

static void release(struct attempt *r)
{
	r->sweeping = sweep_forget(r->sweeping);
	r->remains = orphan_ender_forget(r->remains);
	attempt_shim_hang_up(r);
	r->log_fd = spooler_close_fd(r->place->spooler, r->log_fd);
	uv_close((uv_handle_t *)&r->timer, on_timer_closed);
}

static struct attempt *attempt_new(struct attempt_place *place)
{
	struct attempt *r = xcalloc(1, sizeof(*r));

	r->place = place;
	r->log_fd = -1;
	r->kind = END_MAX;
	r->stop_grace_ms = UINT32_MAX;
	(void)uv_timer_init(place->loop, &r->timer);
	r->timer.data = r;
	return r;
}

struct attempt *attempt_forget(struct attempt *r)
{
	if (r)
		release(r);
	return NULL;
}

void attempt_finish(struct attempt *r)
{
	r->place->over(r->place->user, r, &r->verdict);
	release(r);
}

/* ---- the start ---- */

/* CUDA_VISIBLE_DEVICES, and the same in words. */
static void name_devices(struct attempt *r, struct strbuf *visible, bool *by_index)
{
	struct strbuf text = STRBUF_INIT;

	*by_index = !r->place->by_uuid;
	devset_each(slot, r->devices) *by_index =
		*by_index && r->place->view->devices[slot].mig < 0;
	devset_each(slot, r->devices)
	{
		const struct dev_status *d = &r->place->view->devices[slot];

		if (*by_index)
			strbuf_addf(visible, "%s%u", visible->len ? "," : "", d->index);
		else
			strbuf_addf(visible, "%s%s", visible->len ? "," : "", d->uuid);
		strbuf_addf(&text, "%s%u", text.len ? ", " : "GPU ", d->index);
	}
	(void)str_copy(r->devices_text, sizeof(r->devices_text), strbuf_str(&text));
	strbuf_clear(&text);
}

static void on_launch_again(uv_timer_t *timer)
{
	attempt_launch(timer->data);
}

/* Less than `expire` by far. One that starts later, because the node was suspended or its file
 * system hung, is noted in the claim first, which tells whether it is ours still. */
uint64_t attempt_go_until(const struct attempt *r)
{
	return r->claim_began_ns + r->place->beat_ms * NS_PER_MS;
}

static int ask_for_shim(struct attempt *r, struct err *e)
{
	cleanup_strbuf struct strbuf visible = STRBUF_INIT;
	struct job_with with = { .instance = r->place->instance,
				 .node = r->place->node,
				 .run_dir = r->place->run_dir,
				 .login = &r->place->login,
				 .id = r->ref.id,
				 .element = r->ref.element,
				 .attempt = r->claim.attempt,
				 .memory = r->spec->memory,
				 .log_limit = r->place->log_limit,
				 .spool_dir = r->place->spool_dir,
				 .agent = r->place->agent,
				 .claim = &r->claim,
				 .beat_ms = r->place->beat_ms,
				 .promise_ms = heartbeat_promise_ms(r->place->heartbeat),
				 .cgroup = r->place->cgroup,
				 .go = !r->leased,
				 .go_until_ns = attempt_go_until(r) };
	struct job *j;
	int code;

	name_devices(r, &visible, &with.by_index);
	with.visible = strbuf_str(&visible);
	code = job_make(r->spec, r->token, &with, &j, e);
	if (code < 0)
		return code;
	code = launch_shim(&r->place->mother, job_get(j), r->log_fd, e);
	job_free(j);
	return code;
}

/* Not the task's fault: again soon, with what it has already. */
static void launch_later(struct attempt *r, const struct err *e)
{
	if (!r->retry_ms)
		eventlog_say(r->place->eventlog, LOG_LEVEL_ERROR, "task %llu cannot start yet: %s",
			     (unsigned long long)r->ref.id, e->text);
	r->retry_ms = r->retry_ms ? r->retry_ms * 2 : RETRY_FIRST_MS;
	r->retry_ms = r->retry_ms < RETRY_LAST_MS ? r->retry_ms : RETRY_LAST_MS;
	(void)uv_timer_start(&r->timer, on_launch_again, r->retry_ms, 0);
}

void attempt_launch(struct attempt *r)
{
	struct err e = ERR_INIT;
	int fd;

	r->state = AT_STARTING;
	if (r->place->mother.fd < 0 &&
	    launch_mother(&r->place->mother, r->place->program_fd, &e) < 0) {
		launch_later(r, &e);
		return;
	}
	fd = ask_for_shim(r, &e);
	if (fd == -EPIPE)
		launch_mother_close(&r->place->mother);
	if (fd == -EPIPE || fd == -EAGAIN) {
		(void)uv_timer_start(&r->timer, on_launch_again, LAUNCH_RETRY_MS, 0);
	} else if (fd == -EINVAL || fd == -E2BIG) {
		attempt_not_started(r, e.text);
	} else if (fd < 0) {
		launch_later(r, &e);
	} else {
		r->retry_ms = 0;
		/* Its shim has it. */
		r->log_fd = spooler_close_fd(r->place->spooler, r->log_fd);
		attempt_shim_listen(r, fd);
	}
}
/* ---- the claim ---- */

/* It never came to run, and is in the spool as it was: again after a while. */
static void put_off(struct attempt *r, uint64_t wait_ms, const char *why)
{
	r->verdict = (struct retry_verdict){ .what = RETRY_AGAIN,
					     .at_ns = clock_mono_ns() + wait_ms * NS_PER_MS };
	(void)str_copy(r->verdict.text, sizeof(r->verdict.text), why);
	attempt_finish(r);
}

struct claim_job {
	struct spool_job job;
	struct attempt *r;
	struct claiming t;
};

static void claim_work(struct spool_job *job, struct spool_place *p)
{
	claiming_work(&((struct claim_job *)job)->t, p);
}

/* What a task has to say must not be lost without a word. */
static void say_log_away(const struct attempt *r, const struct log_away *away)
{
	char element[24] = "";

	if (r->ref.element)
		(void)str_print(element, sizeof(element), ".%u", r->ref.element);
	if (away->file[0])
		eventlog_say(r->place->eventlog, LOG_LEVEL_WARNING,
			     "task %llu%s has no log: %s; what it prints is in %s",
			     (unsigned long long)r->ref.id, element, away->error, away->file);
	else
		eventlog_say(r->place->eventlog, LOG_LEVEL_ERROR,
			     "task %llu%s has no log, and what it prints is lost: %s",
			     (unsigned long long)r->ref.id, element, away->error);
}

static void claim_done(struct spool_job *job)
{
	struct attempt *r = ((struct claim_job *)job)->r;
	struct claiming *t = &((struct claim_job *)job)->t;

	r->claim_code = t->code;
	r->place->lanes(r->place->user, &t->lanes);
	if (t->code == 0) {
		r->claim = t->claim;
		r->claim_began_ns = t->began_ns;
		r->spec = take_ptr(t->spec);
		r->tries = t->tries;
		r->log_fd = t->log_fd;
		(void)str_copy(r->log_path, sizeof(r->log_path), t->log_path);
		r->log_away = t->away.error[0] != '\0';
		if (r->log_away)
			say_log_away(r, &t->away);
		(void)names_token(r->place->key, &r->claim.name, r->token);
		if (r->kind == END_STOPPED) /* meanwhile */
			r->place->stopped(r->place->user, r);
		if (r->kind != END_MAX)
			attempt_not_started(r, r->why);
		else
			attempt_lease_ask(r);
	} else if (t->code == CLAIM_ELSEWHERE) {
		put_off(r, ELSEWHERE_MS, "");
	} else if (t->code > 0) {
		r->verdict.what = RETRY_CANCELLED;
		(void)str_copy(r->verdict.text, sizeof(r->verdict.text), t->e.text);
		attempt_finish(r);
	} else {
		put_off(r, RETRY_FIRST_MS * 10, t->e.text);
	}
	free(job);
}

struct attempt *attempt_start(struct attempt_place *place, struct sched_ref ref, uint64_t edits,
			      struct devset devices)
{
	struct attempt *r = attempt_new(place);
	struct claim_job *c = xcalloc(1, sizeof(*c));

	r->ref = ref;
	r->devices = devices;
	c->job = (struct spool_job){ .work = claim_work, .done = claim_done };
	c->r = r;
	c->t.ref = ref;
	c->t.edits = edits;
	c->t.key = place->key;
	c->t.run_dir = place->run_dir;
	spooler_do(place->spooler, &c->job);
	return r;
}

static void set_kind(struct attempt *r, enum end_kind kind, const char *why)
{
	r->kind = kind;
	(void)str_copy(r->why, sizeof(r->why), why);
}

struct attempt *attempt_adopt(struct attempt_place *place, struct adoptee *a, struct devset devices)
{
	const struct claim *claim = &a->claim;
	struct attempt *r = attempt_new(place);

	r->ref = (struct sched_ref){ claim->name.id, (uint32_t)claim->name.element };
	r->claim = *claim;
	r->spec = take_ptr(a->spec);
	r->tries = a->tries;
	r->uuids = a->devices;
	a->devices = (struct text_list){ 0 };
	r->devices = devices;
	r->promised = devices;
	r->leased = r->uuids.n > 0;
	r->adopted = true;
	r->elsewhere = a->elsewhere;
	if (claim->started)
		r->shim = claim->who.proc;
	if (claim->stopped) /* by an agent before us, whose word its shim may not have had */
		set_kind(r, END_STOPPED, ATTEMPT_STOPPED_TEXT);
	r->state = AT_RUNNING;
	(void)names_token(place->key, &claim->name, r->token);
	(void)names_log_path(&claim->name, r->spec->name, claim->attempt, r->log_path);
	attempt_shim_look(r);
	return r;
}

/* ---- from outside ---- */

void attempt_stop(struct attempt *r, enum end_kind kind, uint32_t grace_ms, const char *why)
{
	bool is_filed = r->state == AT_COMMITTING && !uv_is_active((uv_handle_t *)&r->timer);

	/* It has ended; whether it waits again is all that is left to say. */
	if (r->gone && kind != END_STOPPED)
		return;
	if (is_filed) { /* the spooler's thread reads the rest */
		r->stopped_late = true;
		return;
	}
	/* What its owner says is the last word: a task that is about to wait again does not. */
	if (r->kind == END_MAX || kind == END_STOPPED)
		set_kind(r, kind, why);
	r->stop_grace_ms = grace_ms < r->stop_grace_ms ? grace_ms : r->stop_grace_ms;
	orphan_ender_hurry(r->remains, grace_ms);
	if (r->gone || r->state == AT_CLAIMING || r->looking || r->remains)
		return;
	if (r->state == AT_LEASING || (r->state == AT_STARTING && !r->conn))
		attempt_not_started(r, why); /* its shim was not asked for, or could not be */
	else if (r->conn)
		attempt_shim_stop(r);
}

struct sched_ref attempt_ref(const struct attempt *r)
{
	return r->ref;
}

struct devset attempt_devices(const struct attempt *r)
{
	return r->devices;
}

enum attempt_state attempt_state(const struct attempt *r)
{
	return r->state;
}

int attempt_claim_code(const struct attempt *r)
{
	return r->claim_code;
}

const struct claim *attempt_claim(const struct attempt *r)
{
	return r->claim.path[0] ? &r->claim : NULL;
}

const struct spool_spec *attempt_spec(const struct attempt *r)
{
	return r->spec;
}

uint64_t attempt_started_ns(const struct attempt *r)
{
	return r->started_ns;
}

uint64_t attempt_next_memory(const struct attempt *r)
{
	return r->next_memory;
}

bool attempt_was_stopped(const struct attempt *r)
{
	return r->kind == END_STOPPED;
}

bool attempt_was_late(const struct attempt *r)
{
	return r->late;
}

/* Of this claim, and so of no other attempt of the task. */
struct lease_id attempt_lease_id(const struct attempt *r)
{
	return (struct lease_id){ r->ref.id, r->ref.element, (uint32_t)r->claim.name.epoch + 1 };
}

/* It has ended, and is to be seen as running until that is written. */
static json_t *unfiled_report(const struct attempt *r)
{
	unsigned int exit = r->end.outcome == TASK_SIGNALLED
				    ? NAME_SIGNALLED + (unsigned int)r->end.signal
				    : (unsigned int)r->end.exit_code;

	return json_pack("{si sI ss}", "exit", (int)exit, "ended_ns",
			 (json_int_t)r->end.ended_wall_ns, "why", r->unfiled);
}

json_t *attempt_report(const struct attempt *r)
{
	json_t *devices = json_array();

	devset_each(slot, r->devices)(void) json_array_append_new(
		devices, json_integer((json_int_t)r->place->view->devices[slot].index));
	json_t *o = json_pack("{sI sI ss ss* si si sI so ss}", "id", (json_int_t)r->ref.id,
			      "element", (json_int_t)r->ref.element, "state", state_names[r->state],
			      "name", r->spec ? r->spec->name : NULL, "attempt",
			      (int)r->claim.attempt, "pid", (int)r->shim.pid, "started_ns",
			      (json_int_t)r->started_ns, "gpus", devices, "log", r->log_path);
	double for_s = (double)(clock_mono_ns() - r->started_ns) / (double)NS_PER_S;

	/* When an adopted one began is known once its shim has answered. */
	(void)json_object_set_new(o, "for_s", r->started_ns ? json_real(for_s) : json_null());
	if (r->unfiled[0])
		(void)json_object_set_new(o, "unfiled", unfiled_report(r));
	return o;
}
