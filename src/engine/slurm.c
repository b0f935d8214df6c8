/* SPDX-License-Identifier: MIT */
/*
 * Slurm by its own commands: sbatch, squeue, scancel, sinfo, and scontrol where sinfo is too old.
 * slurm_text.c has what goes in and what comes out; here is who is asked what, and what an answer
 * is worth. A command that ends with 0 and an error's text has failed: Slurm's own do not do that,
 * wrappers of sites do.
 */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/textlist.h"
#include "engine/command.h"
#include "engine/engine.h"
#include "engine/keys.h"
#include "engine/script.h"
#include "engine/slurm_text.h"

/* What a user, or the job that we are in, sets for these commands: formats, partitions, the job's
 * own size. */
static const char *const cleared[] = { "SLURM_",   "SBATCH_", "SQUEUE_", "SINFO_",
				       "SCANCEL_", "SALLOC_", "SRUN_",	 NULL };
/* But by these they find their controller. */
static const char *const kept[] = { "SLURM_CONF=", "SLURM_CONF_SERVER=", "SLURM_JWT=" };
static const char *const cluster_variables[] = { "SLURM_CONF", "SLURM_CONF_SERVER", NULL };

#define OTHER_PLACES "/usr/local/bin:/opt/slurm/bin:/usr/local/slurm/bin"

struct asked {
	struct text_list argv; /* to NULL */
	struct command_output out;
};

static void asked_clear(struct asked *a)
{
	text_list_clear(&a->argv);
	command_output_clear(&a->out);
}

#define cleanup_asked __attribute__((cleanup(asked_clear)))

/* More words of a command that is not complete yet. */
static void add_words(struct asked *a, const char *const *words)
{
	for (; *words; words++)
		text_list_add(&a->argv, *words);
}

/* The command with the pool's cluster. */
static void begin(struct asked *a, const struct engine_env *env, const char *command)
{
	const char *cluster = engine_key_value(slurm_keys, env->settings, "cluster");

	*a = (struct asked){ .argv = { .n = 0 } };
	text_list_add(&a->argv, command);
	if (cluster)
		text_list_take(&a->argv, xasprintf("--clusters=%s", cluster));
}

static bool is_silent(const struct strbuf *b)
{
	return strspn(strbuf_str(b), " \t\n") == b->len;
}

static const char *command_of(const struct asked *a)
{
	return a->argv.texts[0];
}

/* What it said, in e; code, or -ENOENT where nothing tells it of any Slurm. */
static int failed(const struct asked *a, int code, struct err *e)
{
	cleanup_strbuf struct strbuf errors = STRBUF_INIT;

	if (command_said(&a->out, "Could not establish a configuration source"))
		return err_set(e, -ENOENT,
			       "%s is here, and no configuration: neither SLURM_CONF nor "
			       "/etc/slurm/slurm.conf names one",
			       command_of(a));

	slurm_read_errors(strbuf_str(&a->out.err), &errors);
	if (errors.len)
		return err_set(e, code, "%s: %s", command_of(a), strbuf_str(&errors));
	return command_failed((const char *const *)a->argv.texts, &a->out, code, e);
}

/* Runs it: 0, whatever its status. hands_on: to a job, its environment. */
static int run(struct asked *a, const struct engine_env *env, const char *input, bool hands_on,
	       struct err *e)
{
	const char *set[ARRAY_LEN(kept) + 2];
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
		const char *value = script_variable(env->environ, kept[i]);

		if (value)
			set[n++] = value - strlen(kept[i]);
	}
	if (!hands_on)
		set[n++] = SLURM_TIME_FORMAT;
	set[n] = NULL;

	const struct command how = { .environ = env->environ,
				     .clear = cleared,
				     .set = set,
				     .input = input,
				     .path = OTHER_PLACES,
				     .keep_language = hands_on,
				     .limit_ms = env->limit_ms };

	text_list_take(&a->argv, NULL);
	return command_run((const char *const *)a->argv.texts, &how, &a->out, e);
}

/* Runs it, and it has to succeed. */
static int ask(struct asked *a, const struct engine_env *env, struct err *e)
{
	int r = run(a, env, NULL, false, e);

	if (r < 0)
		return r;
	if (a->out.status != 0 ||
	    (is_silent(&a->out.out) && strcasestr(strbuf_str(&a->out.err), "error")))
		return failed(a, -EIO, e);
	return 0;
}

static int slurm_probe(const struct engine_env *env, struct err *e)
{
	cleanup_asked struct asked there = { .argv = { .n = 0 } }, a = { .argv = { .n = 0 } };
	int r;

	begin(&there, env, "sbatch");
	add_words(&there, (const char *const[]){ "--version", NULL });
	r = run(&there, env, NULL, false, e);
	if (r < 0)
		return r;
	begin(&a, env, "sinfo");
	add_words(&a, (const char *const[]){ "-h", "-o", "%R", NULL });
	return ask(&a, env, e);
}

/* -------- submit -------- */

static int slurm_submit(const struct engine_env *env, const struct engine_request *req,
			const char *script, char **ret_id, struct err *e)
{
	cleanup_asked struct asked a = { .argv = { .n = 0 } };
	char *id;
	int r;

	begin(&a, env, "sbatch");
	/* The name is said here, too, where no template can forget it: by it the job is found. */
	add_words(&a, (const char *const[]){ "--parsable", "--job-name", req->name, NULL });
	r = run(&a, env, script, true, e);
	if (r == -ETIMEDOUT || r == -EMSGSIZE)
		return ENGINE_UNSURE;
	if (r < 0)
		return r;
	id = slurm_read_id(strbuf_str(&a.out.out));
	if (id && a.out.status == 0) {
		*ret_id = id;
		return 0;
	}
	/* With a status that is no success, without its number, or where sbatch was killed, there
	 * may be a job all the same. */
	r = id || a.out.status == 0 || command_was_killed(&a.out)
		    ? ENGINE_UNSURE
		    : slurm_read_refusal(strbuf_str(&a.out.err));
	free(id);
	(void)failed(&a, -EIO, e);
	return r;
}

/* -------- jobs -------- */

static bool lacks_gpus(const struct engine_jobs *jobs)
{
	for (size_t i = 0; i < jobs->n; i++)
		if (!jobs->all[i].gpus_known && !engine_job_is_over(jobs->all[i].state))
			return true;
	return false;
}

/* squeue of all jobs of this user. */
static int ask_jobs(struct asked *a, const struct engine_env *env, const char *option,
		    const char *format, struct err *e)
{
	begin(a, env, "squeue");
	add_words(a, (const char *const[]){ "-h", "-r", "-t", "all", option, format, "-u", NULL });
	text_list_take(&a->argv, xasprintf("%u", (unsigned int)geteuid()));
	return ask(a, env, e);
}

static int slurm_jobs(const struct engine_env *env, const char *prefix, struct engine_jobs *ret,
		      struct err *e)
{
	cleanup_asked struct asked a = { .argv = { .n = 0 } }, more = { .argv = { .n = 0 } };
	int r;

	*ret = (struct engine_jobs){ .n = 0 };
	r = ask_jobs(&a, env, "-o", SLURM_JOBS_FORMAT, e);
	if (r == 0)
		r = slurm_read_jobs(strbuf_str(&a.out.out), prefix, ret, e);
	/* A version that lacks one of these words leaves them unknown. */
	if (r == 0 && env->gpus && lacks_gpus(ret) &&
	    ask_jobs(&more, env, "-O", SLURM_ASKED_FORMAT, NULL) == 0)
		(void)slurm_read_asked(strbuf_str(&more.out.out), ret, NULL);
	return r;
}

/* What one job is doing; -ESRCH: it is not listed any more. */
static int one_job(const struct engine_env *env, const char *id, struct engine_jobs *ret,
		   struct err *e)
{
	cleanup_asked struct asked a = { .argv = { .n = 0 } };
	int r;

	*ret = (struct engine_jobs){ .n = 0 };
	begin(&a, env, "squeue");
	add_words(&a, (const char *const[]){ "-h", "-t", "all", "-o", SLURM_JOBS_FORMAT, "-j", id,
					     NULL });
	r = ask(&a, env, e);
	if (r == 0)
		r = slurm_read_jobs(strbuf_str(&a.out.out), "", ret, e);
	if (r < 0 ? command_said(&a.out, "Invalid job id") : ret->n == 0)
		return err_set(e, -ESRCH, "Slurm does not list the job %s any more", id);
	return r;
}

/* Every line of it says that the job has ended already. */
static bool only_ended(const char *said)
{
	static const char *const ended[] = { "Invalid job id", "already completing or completed",
					     "No error" };
	bool any = false;

	while (*said) {
		size_t n = strcspn(said, "\n");
		cleanup_free char *line = xasprintf("%.*s", (int)n, said);
		bool is = false;

		for (size_t i = 0; i < ARRAY_LEN(ended); i++)
			is = is || strcasestr(line, ended[i]);
		if (n && !is)
			return false;
		any = any || is;
		said += n + (said[n] == '\n');
	}
	return any;
}

static int slurm_cancel(const struct engine_env *env, const struct text_list *ids, struct err *e)
{
	cleanup_asked struct asked a = { .argv = { .n = 0 } };
	int r;

	if (!ids->n)
		return 0;
	begin(&a, env, "scancel");
	for (size_t i = 0; i < ids->n; i++)
		text_list_add(&a.argv, ids->texts[i]);
	r = ask(&a, env, e);
	if (r == 0 && command_said(&a.out, "error:"))
		return failed(&a, -EIO, e);
	return r < 0 && only_ended(strbuf_str(&a.out.err)) ? 0 : r;
}

/* -------- what there is, and when -------- */

static int slurm_inventory(const struct engine_env *env, struct engine_nodes *ret, struct err *e)
{
	const char *partition = engine_key_value(slurm_keys, env->settings, "partition");
	cleanup_asked struct asked a = { .argv = { .n = 0 } }, old = { .argv = { .n = 0 } };
	int r;

	*ret = (struct engine_nodes){ .n = 0 };
	begin(&a, env, "sinfo");
	add_words(&a, (const char *const[]){ "-h", "-N", "-O", SLURM_NODES_FORMAT, NULL });
	if (partition)
		add_words(&a, (const char *const[]){ "-p", partition, NULL });
	r = ask(&a, env, e);
	if (r == 0)
		return slurm_read_nodes(strbuf_str(&a.out.out), ret, e);
	if (!command_said(&a.out, "format specification"))
		return r;
	begin(&old, env, "scontrol");
	add_words(&old, (const char *const[]){ "-d", "-o", "show", "node", NULL });
	r = ask(&old, env, e);
	return r < 0 ? r : slurm_read_nodes_long(strbuf_str(&old.out.out), ret, e);
}

static int when_of_job(const struct engine_env *env, const char *id, uint64_t *ret_ns,
		       struct strbuf *words, struct err *e)
{
	struct engine_jobs jobs;
	int r = one_job(env, id, &jobs, e);

	if (r == 0) {
		*ret_ns = jobs.all[0].start_ns;
		strbuf_adds(words, jobs.all[0].reason ? jobs.all[0].reason
						      : engine_job_state_name(jobs.all[0].state));
	}
	engine_jobs_clear(&jobs);
	return r;
}

static int slurm_when(const struct engine_env *env, const struct engine_request *req,
		      const char *id, uint64_t *ret_ns, struct strbuf *words, struct err *e)
{
	cleanup_asked struct asked a = { .argv = { .n = 0 } };
	cleanup_strbuf struct strbuf script = STRBUF_INIT;
	int r;

	if (id)
		return when_of_job(env, id, ret_ns, words, e);
	r = slurm_script(req, &script, e);
	if (r < 0)
		return r;
	begin(&a, env, "sbatch");
	add_words(&a, (const char *const[]){ "--test-only", NULL });
	r = run(&a, env, strbuf_str(&script), false, e);
	if (r < 0)
		return r;
	if (a.out.status == 0)
		return slurm_read_test(strbuf_str(&a.out.err), ret_ns, words, e);
	r = slurm_read_refusal(strbuf_str(&a.out.err));
	(void)failed(&a, -EIO, e);
	return r == ENGINE_UNSURE ? -EAGAIN : r;
}

static int slurm_deadline(const struct engine_env *env, const struct engine_here *here,
			  uint64_t *ret_ns, struct err *e)
{
	struct engine_jobs jobs;
	int r = one_job(env, here->id, &jobs, e);

	if (r == 0)
		*ret_ns = jobs.all[0].end_ns;
	engine_jobs_clear(&jobs);
	return r;
}

const struct engine engine_slurm = {
	.name = "slurm",
	.title = "Slurm, by sbatch, squeue, scancel and sinfo",
	.follows = true,
	.keys = slurm_keys,
	.cluster_variables = cluster_variables,
	.cluster_command = "sinfo",
	.probe = slurm_probe,
	.render = slurm_script,
	.submit = slurm_submit,
	.jobs = slurm_jobs,
	.cancel = slurm_cancel,
	.inventory = slurm_inventory,
	.when = slurm_when,
	.inside = slurm_here,
	.deadline = slurm_deadline,
};
