/* SPDX-License-Identifier: MIT */
#include "cli/task/taskrun.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "base/utf8.h"
#include "cli/task/taskstate.h"
#include "spool/claim.h"
#include "spool/elements.h"
#include "spool/gang.h"
#include "spool/heartbeat.h"
#include "spool/instance.h"
#include "task/adopt.h"
#include "task/claim_names.h"
#include "task/shim_client.h"

#define ANSWER_MS  500
#define PROCS_TOLD 6
#define STEP_S	   3
#define LEFT_MAX   65536 /* bytes */

/* The end of a task is looked for in the spool, not where shims leave it. */
#define NO_RECORDS "/"

static void find_log(const struct spool *sp, const char *name, struct taskrun *run)
{
	(void)names_log_path(&run->name, name, run->attempt, run->log);
	if (!spool_exists(sp, run->log))
		run->log[0] = '\0';
}

/* Who stops one that waits has made no attempt of it; there may have been some before. */
static void take_end(const struct spool_end *end, struct taskrun *run)
{
	run->ended = true;
	run->end = *end;
	run->unstarted = end->result == RESULT_CANCELLED && !end->attempt;
	run->started_ns = run->unstarted ? 0 : end->begun_ns;
	if (end->attempt)
		run->attempt = end->attempt;
}

/* What the records of its claim say. */
static void read_claim(const struct task_history *h, struct taskrun *run)
{
	run->attempt = h->attempts;
	run->who = h->claimer;
	run->started_ns = h->started_ns;
	run->again_ns = h->again_ns;
	run->running = h->claimed;
	run->ending_ns = h->claimed && h->stopped ? h->stopped_ns : 0;
	if (h->ended)
		take_end(&h->end, run);
}

/* The shim's own record, which lies there until an agent files it. */
static void read_left(const struct spool *sp, struct taskrun *run)
{
	char path[SPOOL_PATH_MAX];
	cleanup_free char *text = NULL;
	struct task_record r;
	size_t len;

	if (!run->running ||
	    spool_read(sp, heartbeat_end_path(&run->name, path), LEFT_MAX, &text, &len, NULL) < 0 ||
	    end_record_parse(text, len, &r, NULL) < 0)
		return;
	run->left = r.end.outcome == TASK_EXITED || r.end.outcome == TASK_SIGNALLED ||
		    r.end.outcome == TASK_NOT_STARTED;
	run->left_exit = r.end.outcome == TASK_SIGNALLED
				 ? NAME_SIGNALLED + (unsigned int)r.end.signal
				 : (unsigned int)r.end.exit_code;
	run->left_ns = r.end.ended_wall_ns;
	/* Its agent may have gone before it noted that in the claim. */
	if (run->left && !run->started_ns)
		run->started_ns = r.end.started_wall_ns;
}

char *taskrun_format_left(const struct spool *sp, const char *options, const struct taskrun *run)
{
	bool here = strcmp(run->who.host, spool_host(sp)) == 0;
	char how[TASKSTATE_EXIT_MAX];

	if (run->unfiled[0])
		return xasprintf("has ended (%s), and waits for its agent to commit that, which "
				 "tries again and again: %s",
				 taskstate_format_exit(run->left_exit, how), run->unfiled);
	return xasprintf(
		"has ended (%s), which no agent has committed yet; where none runs: tenure "
		"on%s%s%s",
		taskstate_format_exit(run->left_exit, how), options, here ? "" : " on ",
		here ? "" : run->who.host);
}

/* "has 2 of 1 to 3 GPUs: its GPUs are busy 55% of 1m, between 30% and 80%" */
static void take_scaling(struct taskrun *run, const json_t *task)
{
	const json_t *s = json_object_get(task, "scaling");
	const char *text = json_get_str(s, "text");

	if (!text)
		return;
	(void)str_print(run->scaling, sizeof(run->scaling), "has %zu of %lld to %lld GPUs: %s",
			json_array_size(json_object_get(task, "gpus")),
			(long long)json_integer_value(json_object_get(s, "min")),
			(long long)json_integer_value(json_object_get(s, "max")), text);
	(void)utf8_clean(run->scaling);
}

uint64_t taskrun_since_ns(const struct taskrun *run)
{
	return run->stepped_ns ? run->stepped_ns : run->started_ns;
}

/* What an agent said may be a second old, so only what cannot come of that is a step. */
static void take_step(struct taskrun *run, double for_s)
{
	uint64_t since_ns = clock_wall_ns() - (uint64_t)(for_s * (double)NS_PER_S);
	uint64_t by_ns = since_ns > run->started_ns ? since_ns - run->started_ns
						    : run->started_ns - since_ns;

	run->stepped_ns = by_ns > STEP_S * NS_PER_S ? since_ns : 0;
}

void taskrun_take_agents(struct taskrun *run, const json_t *task)
{
	const json_t *unfiled = json_object_get(task, "unfiled");
	const char *why = json_get_str(unfiled, "why");

	take_scaling(run, task);
	if (run->started_ns && json_is_number(json_object_get(task, "for_s"))) {
		take_step(run, json_get_num(task, "for_s"));
		run->began_ns = json_get_u64(task, "started_ns");
	}
	if (json_object_get(task, "timeout_s"))
		run->timeout_ms = (uint64_t)(json_number_value(json_object_get(task, "timeout_s")) *
					     MS_PER_S);
	if (!why)
		return;
	run->left = true;
	run->left_exit = (unsigned int)json_integer_value(json_object_get(unfiled, "exit"));
	run->left_ns = json_get_u64(unfiled, "ended_ns");
	(void)str_copy(run->unfiled, sizeof(run->unfiled), why);
	(void)utf8_clean(run->unfiled);
}

static void read_running(const struct spool *sp, const struct task_name *n, struct taskrun *run)
{
	char path[SPOOL_PATH_MAX], file[NAME_FILE_MAX];
	cleanup_free char *text = NULL;
	struct task_file t = { .spec = NULL };
	size_t len;

	(void)spool_path(SPOOL_RUNNING, name_format(n, file), path);
	(void)str_copy(run->file, sizeof(run->file), path);
	if (!n->element && task_file_read(sp, path, &t, NULL) < 0)
		return;
	if (n->element && spool_read(sp, path, SPEC_TEXT_MAX, &text, &len, NULL) < 0)
		return;
	if (n->element)
		history_read(text, len, &t.history, NULL);
	read_claim(&t.history, run);
	if (t.spec)
		run->timeout_ms = t.spec->timeout;
	task_file_clear(&t);
}

void taskrun_take_gangs(struct taskrun *run, const struct gangs_read *gangs)
{
	const struct gang *g = gang_find(gangs, run->name.id);
	size_t rank = run->name.element - 1;

	run->mustered = run->running && run->name.element && g && gang_stands(g) && !g->decided &&
			rank < g->n && g->ranks[rank].epoch == run->name.epoch;
}

void taskrun_look_at_gangs(const struct spool *sp, struct taskrun *run)
{
	struct gangs_read gangs;

	if (!run->running || !run->name.element || gang_read_all(sp, &gangs, NULL) < 0)
		return;
	taskrun_take_gangs(run, &gangs);
	gang_clear(&gangs);
}

void taskrun_read_claim(const struct spool *sp, const struct task_name *n, const char *called,
			struct taskrun *ret)
{
	*ret = (struct taskrun){ .name = {
					 .id = n->id, .element = n->element, .epoch = n->epoch } };
	read_running(sp, n, ret);
	read_left(sp, ret);
	if (ret->attempt)
		find_log(sp, called, ret);
}

/* It was ended for another rank of its gang: its last requeue tells of what it has run, and the end
 * that followed was written by the leader. */
static void take_rank(const struct spool *sp, struct taskrun *run)
{
	struct gang_ending was;

	if (run->unstarted || run->end.begun_ns || !run->end.epoch ||
	    !gang_how_it_ended(sp, run->name.id, run->name.element, run->end.epoch - 1, &was))
		return;
	run->started_ns = was.end.begun_ns;
	run->end.ended_ns = was.end.ended_ns;
	(void)str_copy(run->who.agent, sizeof(run->who.agent), was.agent);
}

static void read_element(const struct spool *sp, const struct task_place *place,
			 struct taskrun *run)
{
	struct element_end found;
	unsigned int attempts;
	struct batch *b = NULL;
	enum batch_state state;

	run->name.element = place->element;
	if (batch_open(sp, &place->name, NULL, &b, NULL) < 0)
		return;
	state = batch_state(b, place->element, &run->name.epoch, &attempts);
	run->attempt = attempts;
	(void)batch_close(b);
	if (state <= BATCH_RUNNING) {
		read_running(sp, &run->name, run);
		taskrun_look_at_gangs(sp, run);
		/* It was stopped with its batch: no record tells of it alone. */
		run->unstarted = !run->running && place->dir != SPOOL_PENDING;
		return;
	}
	if (!taskstate_last_end(sp, place->name.id, place->element, &found))
		return;
	take_end(&found.end, run);
	if (!run->unstarted)
		(void)str_copy(run->who.agent, sizeof(run->who.agent), found.agent);
	take_rank(sp, run);
}

void taskrun_read(const struct spool *sp, const struct task_place *place,
		  const struct task_history *h, struct taskrun *ret)
{
	*ret = (struct taskrun){ .name = { .id = place->name.id, .epoch = place->name.epoch } };
	if (place->element) {
		read_element(sp, place, ret);
	} else if (!place->name.count) {
		(void)str_copy(ret->file, sizeof(ret->file), place->path);
		read_claim(h, ret);
	}
	read_left(sp, ret);
	if (ret->attempt)
		find_log(sp, place->name.name, ret);
}

void taskrun_devices(const struct spool *sp, const struct taskrun *run, struct text_list *ret)
{
	struct claim c = { .name = run->name };

	if (!run->file[0] || run->unstarted)
		return;
	(void)str_copy(c.path, sizeof(c.path), run->file);
	(void)claim_devices(sp, &c, ret, NULL);
}

int taskrun_log_away(const struct spool *sp, const struct task_place *place, unsigned int attempt,
		     struct log_away *ret, struct err *e)
{
	struct claim c = { .name = place->name };
	struct taskrun run;

	*ret = (struct log_away){ .error = "" };
	if (!place->element && place->name.count)
		return 0;
	(void)str_copy(c.path, sizeof(c.path), place->path);
	if (place->element) {
		taskrun_read(sp, place, NULL, &run);
		c.name = run.name;
		(void)str_copy(c.path, sizeof(c.path), run.file);
	}
	return c.path[0] ? claim_find_log(sp, &c, attempt, ret, e) : 0;
}

static char *output_of(const char *pattern, const struct output_words *words)
{
	struct strbuf b = STRBUF_INIT;

	if (!pattern || output_path(pattern, words, &b, NULL) < 0) {
		strbuf_clear(&b);
		return NULL;
	}
	return strbuf_take(&b);
}

void taskrun_outputs(const struct spool *sp, const struct task_spec *spec,
		     const struct task_place *place, const struct taskrun *run, char **ret_output,
		     char **ret_error)
{
	const struct output_words words = {
		.id = place->name.id,
		.element = place->element,
		.index = place->element ? element_index(&spec->array, place->element) : 0,
		.name = spec->name,
		.node = run->who.host[0]    ? run->who.host
			: run->who.agent[0] ? run->who.agent
					    : spool_host(sp),
		.user = spec->user,
	};

	*ret_output = output_of(spec->output, &words);
	*ret_error = output_of(spec->error, &words);
}

char *taskrun_format_away(const struct spool *sp, const struct log_away *log)
{
	bool here = strcmp(log->host, spool_host(sp)) == 0;

	if (!log->file[0])
		return xasprintf("its log could not be made, and what it prints is lost: %s",
				 log->error);
	return xasprintf("its log could not be made (%s); what it prints is in %s%s%s", log->error,
			 log->file, here ? "" : " on node ", here ? "" : log->host);
}

/* ---- on this node ---- */

/* The name that the agent has given its shim. */
static bool find_token(const struct spool *sp, const struct task_name *n,
		       char token[TASK_TOKEN_MAX])
{
	char key[SPOOL_KEY_MAX];
	cleanup_free char *whole = NULL;

	if (spool_key_read(sp, key, NULL) < 0)
		return false;
	whole = xasprintf("%s.%s", spool_instance(sp), key);
	(void)names_token(whole, n, token);
	return true;
}

static bool read_status(int fd, struct shmsg_status *ret)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	cleanup_free union shmsg *m = xmalloc(sizeof(*m));

	while (poll(&p, 1, ANSWER_MS) == 1) {
		int type = shmsg_recv(fd, m);

		if (type == SHMSG_STATUS) {
			*ret = m->status;
			return true;
		}
		if (type <= 0)
			return false;
	}
	return false;
}

static bool ask_shim(const struct spool *sp, const struct taskrun *run, struct shmsg_status *ret)
{
	/* The claim names the agent until the shim is noted in it; the token leads to it before. */
	const struct shim_id id = {
		.proc = run->started_ns ? run->who.proc : (struct proc_id){ 0 },
	};
	struct adopted found = { .fd = -1 };
	char token[TASK_TOKEN_MAX];
	bool told = false;

	if (!find_token(sp, &run->name, token) ||
	    adopt_find(token, &id, NO_RECORDS, &found, NULL) < 0)
		return false;
	if (found.found == ADOPT_LIVES)
		told = read_status(found.fd, ret);
	found.fd = fd_close(found.fd);
	return told;
}

bool taskrun_look(const struct spool *sp, const struct taskrun *run, struct taskrun_look *ret)
{
	struct shmsg_status status;

	*ret = (struct taskrun_look){ .started_ns = 0 };
	if (!run->running || strcmp(run->who.host, spool_host(sp)) != 0 ||
	    !ask_shim(sp, run, &status) || !status.started_wall_ns)
		return false;
	ret->started_ns = status.started_wall_ns;
	ret->command_ended = status.leader_ended;
	ret->exit = (unsigned int)status.leader_exit;
	if (tree_scan(&ret->procs) == 0)
		tree_keep_below(&ret->procs, status.shim_pid);
	return true;
}

void taskrun_look_clear(struct taskrun_look *l)
{
	tree_clear(&l->procs);
}

char *taskrun_format_procs(const struct tree *procs)
{
	struct strbuf b = STRBUF_INIT;
	size_t n = 0;

	for (size_t i = 0; i < procs->n; i++) {
		const struct tree_proc *p = &procs->procs[i];

		if (p->state == 'Z')
			continue;
		strbuf_add_some(&b, n, PROCS_TOLD, "%s%d (%s)", n ? "" : "PID ", (int)p->id.pid,
				p->comm);
		n++;
	}
	strbuf_add_more(&b, n, PROCS_TOLD);
	return strbuf_take(&b);
}
