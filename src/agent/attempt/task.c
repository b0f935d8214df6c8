/* SPDX-License-Identifier: MIT */
#include "agent/attempt/task.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/attempt/claim.h"
#include "agent/attempt/commit.h"
#include "agent/attempt/gpus_file.h"
#include "agent/attempt/resize.h"
#include "agent/attempt/shim.h"
#include "agent/attempt/steps.h"
#include "agent/queue/planview.h"
#include "alloc/keeper.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/units.h"
#include "task/claim_names.h"

#define LAUNCH_LAST_MS	   60000 /* between two tries, at most */
#define NOTE_LAST_MS	   10000
#define UNCLAIMED_MS	   10000 /* then the plan may try it again */
#define ELSEWHERE_MS	   1000	 /* a limit of which the plan has not heard yet blocks nothing */
#define HEARTBEAT_SLACK_MS 1000	 /* a shim begins before its task does */

/* ---- the claim ---- */

static void tell_trouble(const struct attempt *a, const char *what, const char *why,
			 const char *file)
{
	eventlog_tell_trouble(a->place->eventlog, a->ref.id, a->ref.element, what, why, file);
}

/* What a task has to say must not be lost without a word. */
static void say_log_away(const struct attempt *a, const struct log_away *away)
{
	tell_trouble(a, away->file[0] ? "log-elsewhere" : "log", away->error,
		     away->file[0] ? away->file : NULL);
}

static void take_claim(struct attempt *a, struct claiming *c)
{
	a->claim = c->claim;
	a->claim_began_ns = c->began_ns;
	a->spec = take_ptr(c->spec);
	a->tries = c->tries;
	a->log_fd = c->log_fd;
	(void)str_copy(a->log_path, sizeof(a->log_path), c->log_path);
	a->log_away = c->away.error[0] != '\0';
	if (a->log_away)
		say_log_away(a, &c->away);
}

/* Of this claim, and so of no other attempt of the task. */
static void name_it(struct attempt *a)
{
	a->lease =
		(struct lease_id){ a->ref.id, a->ref.element, (uint32_t)a->claim.name.epoch + 1 };
	(void)names_token(a->place->key, &a->claim.name, a->token);
	resize_begin(a);
}

/* It never came to run, and is in the spool as it was. */
static void not_claimed(struct attempt *a, const struct claiming *c)
{
	uint64_t wait_ms = c->code == CLAIM_ELSEWHERE ? ELSEWHERE_MS : UNCLAIMED_MS;

	if (c->code > 0 && c->code != CLAIM_ELSEWHERE)
		a->verdict.what = RETRY_CANCELLED;
	else
		a->verdict =
			(struct retry_verdict){ .what = RETRY_AGAIN,
						.at_ns = clock_mono_ns() + wait_ms * NS_PER_MS };
	if (c->code != CLAIM_ELSEWHERE)
		(void)str_copy(a->verdict.text, sizeof(a->verdict.text), c->e.text);
	attempt_event(a, ON_UNCLAIMED, NULL);
}

static void claim_done(struct spool_job *job)
{
	struct claiming *c = (struct claiming *)job;
	struct attempt *a = job->user;

	a->claim_code = c->code;
	a->place->owner->lanes(a->place->user, &c->lanes);
	if (c->code == 0) {
		take_claim(a, c);
		name_it(a);
		if (a->end_kind == END_STOPPED) /* meanwhile */
			a->place->owner->stopped(a->place->user, a);
		attempt_event(a,
			      a->end_kind != END_MAX	 ? ON_DOOMED
			      : devset_count(a->devices) ? ON_CLAIMED
							 : ON_CLAIMED_BARE,
			      NULL);
	} else {
		not_claimed(a, c);
	}
	free(job);
}

/* ---- the note in the claim ---- */

struct note_job {
	struct spool_job job;
	struct attempt *a;
	struct claim claim;
	char *gpus; /* for its file; NULL: it has none */
	struct err e;
	int code, file_code;
};

static void free_note(struct note_job *n)
{
	free(n->gpus);
	free(n);
}

static void note_work(struct spool_job *job, struct spool_place *p)
{
	struct note_job *n = (struct note_job *)job;

	if (n->gpus)
		n->file_code = gpus_file_write(n->a->resize->file, n->gpus, &n->e);
	n->code = claim_started(p->spool, &n->claim, &n->a->shim, &n->a->uuids, &n->e);
	n->code = spool_confirm(p->spool, n->claim.path, n->code, &n->e);
}

static void note_done(struct spool_job *job)
{
	struct note_job *n = (struct note_job *)job;
	struct attempt *a = n->a;
	/* Within a heartbeat of the claim it is ours, whether or not that could be written. */
	bool unsure = n->code < 0 && clock_boot_ns() > attempt_shim_go_until(a);

	a->note = NULL;
	a->claim = n->claim;
	unsure |= n->file_code < 0; /* its program would look for it in vain */
	if (n->code == -ENOENT)	    /* we were away for so long that others took it */
		attempt_stop(a, END_NODE_LOST, 0, "the task was given to another node");
	else
		attempt_event(a, unsure ? ON_NOTE_FAILED : ON_NOTED, &n->e);
	free_note(n);
}

/* From now on the claim lives as long as its shim. */
static void note(struct attempt *a, bool waits)
{
	struct note_job *n = xcalloc(1, sizeof(*n));

	n->job = (struct spool_job){ .work = note_work, .done = note_done };
	n->a = a;
	n->claim = a->claim;
	n->gpus = a->resize ? resize_text(a, NULL) : NULL;
	a->note = &n->job;
	/* Until it is noted its token leads to the shim. */
	(waits ? spooler_do : spooler_do_later)(a->place->spooler, &n->job);
}

static void note_later(struct attempt *a, const struct err *e)
{
	if (attempt_later(a, NOTE_LAST_MS))
		tell_trouble(a, "start", e->text, NULL);
}

/* ---- on its way ---- */

/* Whatever else its start met: no rank runs without the word of its gang's leader. */
static bool waits_for_ranks(const struct attempt *a)
{
	return spec_is_gang(a->spec);
}

/* A program for several nodes that runs on one finds what it would find there. That a port was free
 * is all that is known of it: whoever else binds it first has it. */
static struct rank_place only_rank(const struct attempt *a)
{
	const struct agent_config *c = a->place->c;
	const struct port_range of = { c->gang_port_first, c->gang_port_last };
	const struct port_range kernels = rendezvous_kernels_ports();
	int fd = -1, port = rendezvous_take_port(&of, &kernels, &fd);

	(void)fd_close(fd);
	return (struct rank_place){ .nodes = 1,
				    .gpus = a->uuids.n,
				    .address = "127.0.0.1",
				    .port = port > 0 ? (unsigned int)port : of.first };
}

static void describe(const struct attempt *a, struct launch_with *w)
{
	w->login = &a->place->login;
	w->id = a->ref.id;
	w->element = a->ref.element;
	w->attempt = a->claim.attempt;
	w->memory = a->spec->memory;
	w->gpus_file = a->resize ? a->resize->file : NULL;
	if (a->spec->nodes == 1)
		w->rank = only_rank(a);
	w->spool_dir = a->place->spool_dir;
	w->root = a->place->c->root;
	w->trust = &a->place->c->trust;
	w->libraries = getenv(LIBRARIES_ENV);
	w->agent = a->place->self->name;
	w->claim = &a->claim;
	w->heartbeat_ms = a->place->c->heartbeat_ms;
	w->fence_timeout_ms = node_watch_fence_timeout_ms(a->place->node_watch);
	w->cgroup = a->place->cgroup;
	w->go = !a->leased && !waits_for_ranks(a);
	w->go_until_ns = attempt_shim_go_until(a);
}

static void launch_failed(struct attempt *a, int code, const struct err *e)
{
	if (code == -EINVAL || code == -E2BIG) {
		(void)str_copy(a->why, sizeof(a->why), e->text);
		attempt_event(a, ON_DOOMED, NULL);
	} else if (attempt_later(a, LAUNCH_LAST_MS)) { /* not its fault: with what it has already */
		tell_trouble(a, "start", e->text, NULL);
	}
}

static void moved(struct attempt *a)
{
	a->place->owner->moved(a->place->user, a);
}

/* Who comes before the task wins, and beside a preemptible one; it is ended where it was started
 * already, and comes again. */
static void taken(struct attempt *a, const struct msg_lease_taken *m)
{
	struct dev_reason why = m->reason;
	bool preempted = a->shown == AT_RUNNING && a->spec->preemptible;

	if (preempted)
		dev_reason_lead(&why, "preempted: GPU %u was ",
				a->place->view->devices[m->slot].index);
	attempt_stop_for(a, preempted ? END_PREEMPTED : END_TAKEN, &why);
}

static void started(struct attempt *a, pid_t task_pid)
{
	a->place->owner->started(a->place->user, a);
}

static void unseen(const struct attempt *a, const struct err *e)
{
	tell_trouble(a, "unseen", e->text, NULL);
}

/* ---- the end ---- */

static void not_committed(struct attempt *a, const struct commit *c)
{
	if (a->place->commit_code != c->code) /* once, not for each */
		tell_trouble(a, "end", c->e.text, NULL);
	a->place->commit_code = c->code;
	attempt_event(a, ON_COMMIT_FAILED, &c->e);
}

static void committed(struct attempt *a, const struct commit *c)
{
	a->place->commit_code = 0;
	a->verdict = c->verdict;
	a->late = c->superseded;
	if (a->late)
		a->verdict.what = RETRY_CANCELLED;
	a->tries = c->state.tries;
	a->next_memory = c->next_memory;
	a->failed = c->failed;
	a->followed = c->followed;
	if (c->unfollowed.code)
		tell_trouble(a, "on-end", c->unfollowed.text, NULL);
	(void)str_copy(a->fault, sizeof(a->fault), c->fault);
	*a->place->owner->streak(a->place->user, a) = c->streak;
	attempt_shim_acknowledge(a);
	attempt_event(a, ON_COMMITTED, NULL);
}

static void commit_done(struct spool_job *job)
{
	struct commit *c = (struct commit *)job;

	(c->code < 0 && c->code != -ENOENT ? not_committed : committed)(job->user, c);
	free(c);
}

/* The guard's last word may have come after the shim's. */
static void take_use(struct attempt *a)
{
	uint64_t peak_bytes;
	uint32_t util_permille;

	use_sum(&a->use, &peak_bytes, &util_permille);
	if (peak_bytes < a->end.gpu_peak_bytes || !a->use.n)
		return;
	a->end.gpu_peak_bytes = peak_bytes;
	a->end.gpu_util_permille = util_permille;
}

/* On the monotonic clock, which does not count the time in which the node slept. */
static uint64_t claimed_at(const struct attempt *a)
{
	uint64_t ago_ns = clock_boot_ns() - a->claim_began_ns, now_ns = clock_mono_ns();

	return a->adopted || ago_ns > now_ns ? 0 : now_ns - ago_ns;
}

#define PORT_MS 120000 /* who has failed later than that had the port */

/* Between its choice and its use somebody else may take the port of rank 0. Then that its program
 * has failed says nothing of it, and all ranks meet elsewhere. */
static void look_at_port(struct attempt *a, struct retry_end *end)
{
	bool failed = (end->kind == END_EXIT && end->code != 0) || end->kind == END_SIGNAL;

	if (a->go_port && failed && a->end.run_ns / NS_PER_MS < PORT_MS)
		a->port_taken = a->port_taken || rendezvous_is_taken(a->go_port);
	if (!a->port_taken || !failed)
		return;
	(void)str_print(a->why, sizeof(a->why), "somebody else has its port %u (MASTER_PORT)",
			a->go_port);
	end->kind = END_TAKEN;
	end->why = a->why;
}

/* "0,1"; of very many the first ones. */
static void name_gpus(const struct attempt *a, char buf[COMMIT_GPUS_MAX])
{
	size_t len = 0;

	buf[0] = '\0';
	devset_each(slot, a->devices) if (len + 16 < COMMIT_GPUS_MAX)
	{
		(void)str_print(buf + len, COMMIT_GPUS_MAX - len, "%s%u", len ? "," : "",
				a->place->view->devices[slot].index);
		len += strlen(buf + len);
	}
}

/* One job at a time, and never with others: what its owner says is written before it or after it,
 * by the order in which it was said. */
static void commit(struct attempt *a)
{
	struct commit *c = xmalloc(sizeof(*c));
	bool again = a->retry_ms; /* it was tried before */

	a->place->owner->closing(a->place->user, a);
	take_use(a);
	if (a->note && spooler_take_back(a->place->spooler, a->note))
		free_note((struct note_job *)take_ptr(a->note)); /* whose it is matters no more */
	resize_forget(a);
	*c = (struct commit){
		.job = { .work = commit_work, .done = commit_done, .user = a },
		.claim = a->claim,
		.spec = a->spec,
		.end = &a->end,
		.gpus = resize_most(a),
		.gpu_ns = resize_gpu_ns(a),
		.most_bytes = use_most(&a->use),
		.meter = a->use.meter,
		.room_bytes = planview_room(a->place->view, a->spec->model),
		.ended = commit_judge(&a->end, a->end_kind, attempt_why(a)),
		.token = a->token,
		.run_dir = a->place->run_dir,
		.log_path = a->log_path,
		.uuids = &a->uuids,
		.log_away = a->adopted || a->log_away,
		.heartbeats = a->adopted || a->end.run_ns / NS_PER_MS + HEARTBEAT_SLACK_MS >
						    a->place->c->heartbeat_ms,
		.state = { .tries = a->tries, .mem_bytes = a->spec->memory },
		.streak = *a->place->owner->streak(a->place->user, a),
		.now_ns = clock_mono_ns(),
		.now_wall_ns = clock_wall_ns(),
		.told = again,
	};
	name_gpus(a, c->gpus_text);
	look_at_port(a, &c->ended);
	c->ended.begun_ns = claimed_at(a);
	spooler_do(a->place->spooler, &c->job);
	if (c->ended.kind == END_EXIT && c->ended.code == 0 && !again)
		a->place->owner->succeeded(a->place->user, a);
}

/* Out of the list first: whoever is told may ask what runs. */
static void over(struct attempt *a)
{
	struct attempt **at = &a->place->tasks;

	while (*at != a)
		at = &(*at)->next;
	*at = a->next;
	a->place->owner->over(a->place->user, a, &a->verdict);
}

static const struct attempt_ops task_ops = {
	.describe = describe,
	.note = note,
	.note_later = note_later,
	.launch_failed = launch_failed,
	.moved = moved,
	.taken = taken,
	.waits_for_ranks = waits_for_ranks,
	.started = started,
	.unseen = unseen,
	.commit = commit,
	.over = over,
	.requeues = true,
	.sweeps = true,
};

struct attempt *attempt_by_ref(const struct attempt_place *place, struct sched_ref ref)
{
	struct attempt *a = place->tasks;

	while (a && (a->ref.id != ref.id || a->ref.element != ref.element))
		a = a->next;
	return a;
}

static struct attempt *task_new(struct attempt_place *place, struct sched_ref ref)
{
	struct attempt *a = attempt_new(place, &task_ops, attempt_steps);

	a->ref = ref;
	a->next = place->tasks;
	place->tasks = a;
	return a;
}

struct attempt *attempt_start(struct attempt_place *place, struct sched_ref ref, uint64_t edits,
			      struct devset devices)
{
	struct attempt *a = task_new(place, ref);
	struct claiming *c = xcalloc(1, sizeof(*c));

	a->devices = devices;
	c->job = (struct spool_job){ .work = claiming_work, .done = claim_done, .user = a };
	c->ref = ref;
	c->edits = edits;
	c->end_ns = place->view->deadlines[DEADLINE_JOB].at_ns;
	c->key = place->key;
	c->run_dir = place->run_dir;
	spooler_do(place->spooler, &c->job);
	return a;
}

struct attempt *attempt_adopt(struct attempt_place *place, struct adoptee *t, struct devset devices)
{
	struct attempt *a = task_new(place, planview_ref(&t->claim.name));

	a->claim = t->claim;
	a->spec = take_ptr(t->spec);
	a->tries = t->tries;
	a->uuids = t->devices;
	t->devices = (struct text_list){ 0 };
	a->devices = a->promised = devices;
	a->leased = a->uuids.n > 0;
	a->adopted = true;
	a->elsewhere = t->elsewhere;
	if (a->claim.started)
		a->shim = a->claim.who.proc;
	if (a->claim.stopped) { /* by an agent before us, whose word its shim may not have had */
		a->end_kind = END_STOPPED;
		(void)str_copy(a->why, sizeof(a->why), ATTEMPT_STOPPED_TEXT);
	}
	name_it(a);
	(void)names_log_path(&a->claim.name, a->spec->name, a->claim.attempt, a->log_path);
	attempt_adopted(a);
	return a;
}

/* ---- what people are told ---- */

/* It has ended, and is to be seen as running until that is written. */
static json_t *uncommitted_report(const struct attempt *a)
{
	unsigned int exit = a->end.outcome == TASK_SIGNALLED
				    ? NAME_SIGNALLED + (unsigned int)a->end.signal
				    : (unsigned int)a->end.exit_code;

	return json_pack("{si sI ss}", "exit", (int)exit, "ended_ns",
			 (json_int_t)a->end.ended_wall_ns, "why", a->uncommitted);
}

json_t *attempt_report(const struct attempt *a)
{
	double for_s = (double)(clock_mono_ns() - a->started_ns) / (double)NS_PER_S;
	json_t *devices = json_array(), *scaling = resize_report(a), *o;

	devset_each(slot, a->devices)(void)
		json_array_append_new(devices, view_label_json(&a->place->view->devices[slot]));
	o = json_pack("{sI sI ss ss* si si sI so ss}", "id", (json_int_t)a->ref.id, "element",
		      (json_int_t)a->ref.element, "state", attempt_state_name(a->shown), "name",
		      a->spec ? a->spec->name : NULL, "attempt", (int)a->claim.attempt, "pid",
		      (int)a->shim.pid, "started_ns", (json_int_t)a->started_ns, "gpus", devices,
		      "log", a->log_path);
	/* When an adopted one began is known once its shim has answered. */
	(void)json_object_set_new(o, "for_s", a->started_ns ? json_real(for_s) : json_null());
	if (a->spec && a->spec->timeout)
		(void)json_object_set_new(o, "timeout_s",
					  json_real((double)a->spec->timeout / MS_PER_S));
	if (scaling)
		(void)json_object_set_new(o, "scaling", scaling);
	if (a->uncommitted[0])
		(void)json_object_set_new(o, "unfiled", uncommitted_report(a));
	return o;
}
