/* SPDX-License-Identifier: MIT */
/*
 * Grid Engine (Sun's, Son of, Univa's, Altair's), by its commands qsub, qstat, qdel and qconf.
 *
 * A job is asked for by a file: sites wrap qsub, and their wrappers look at what is in the file.
 * All jobs of the user are one `qstat`; only where one of ours is in an error state a second one
 * asks for the reasons. Nothing is known of a job that has ended, nor of when one that waits will
 * start.
 *
 * What a pool may say of its cluster is sge_keys (engine/sge_script.c, docs/cluster.md).
 */
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/command.h"
#include "engine/engine.h"
#include "engine/script.h"
#include "engine/sge_script.h"
#include "engine/sge_text.h"

#define HOSTS_ASKED_MAX 64 /* by a command each; of more the capacity is what their jobs say */
#define SCRIPT_MODE	0600

/* What changes how names and lists are written. */
static const char *const cleared[] = { "SGE_LONG_", "SGE_SINGLE_LINE=", "SGE_DEBUG_LEVEL=", NULL };

/* -------- its commands -------- */

/* "root=/opt/sge", "cell=site" of the pool, for agents and timers that no login has told. */
static void add_place(struct text_list *set, const struct engine_env *env)
{
	static const char *const names[][2] = { { "root", "SGE_ROOT" }, { "cell", "SGE_CELL" } };

	text_list_add(set, "SGE_SINGLE_LINE=1");
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const char *value = sge_setting(env->settings, names[i][0]);

		if (value)
			text_list_take(set, xasprintf("%s=%s", names[i][1], value));
	}
}

/* Where the commands are below SGE_ROOT, which has a directory for each kind of machine. */
static char *command_dirs(const struct engine_env *env)
{
	const char *root = sge_setting(env->settings, "root");

	if (!root && env->environ)
		root = script_variable(env->environ, "SGE_ROOT=");
	return root ? xasprintf("%s/bin/lx-amd64:%s/bin/lx26-amd64:%s/bin/lx24-amd64:"
				"%s/bin/lx-arm64:%s/bin",
				root, root, root, root, root)
		    : NULL;
}

static int run(const struct engine_env *env, const char *const *argv, struct command_output *ret,
	       struct err *e)
{
	struct text_list set = { .n = 0 };
	cleanup_free char *dirs = command_dirs(env);
	int r;

	add_place(&set, env);
	text_list_take(&set, NULL);
	r = command_run(argv,
			&(struct command){ .environ = env->environ,
					   .clear = cleared,
					   .set = (const char *const *)set.texts,
					   .path = dirs,
					   .limit_ms = env->limit_ms },
			ret, e);
	text_list_clear(&set);
	return r;
}

/*
 * As command_failed(), whose first line is "commlib error" where the qmaster is down; -ENOENT where
 * nothing tells of any cluster.
 */
static int failed(const char *const *argv, const struct command_output *out, int code,
		  struct err *e)
{
	cleanup_strbuf struct strbuf line = STRBUF_INIT;

	if (sge_refusal_of(out->status, strbuf_str(&out->err)) == SGE_NO_CLUSTER) {
		(void)command_failed(argv, out, -ENOENT, e);
		return err_wrap(e,
				"%s is here, and no cluster: SGE_ROOT and SGE_CELL have to name "
				"one, or root= and cell= of the pool",
				argv[0]);
	}
	if (sge_contact_line(strbuf_str(&out->err), &line))
		return err_set(e, code, "%s: %s", argv[0], strbuf_str(&line));
	return command_failed(argv, out, code, e);
}

/* A command that has to end with 0. */
static int run_well(const struct engine_env *env, const char *const *argv,
		    struct command_output *ret, struct err *e)
{
	int r = run(env, argv, ret, e);

	return r == 0 && ret->status != 0 ? failed(argv, ret, -EIO, e) : r;
}

static char *user_name(void)
{
	const struct passwd *pw = getpwuid(geteuid());

	return pw ? xstrdup(pw->pw_name) : xasprintf("%u", (unsigned int)geteuid());
}

static int ask_jobs(const struct engine_env *env, struct command_output *ret, struct err *e)
{
	cleanup_free char *user = user_name();
	/* -s a: a user or a site may have it show less (sge_qstat). */
	const char *const argv[] = { "qstat", "-u", user, "-s", "a", "-r", "-xml", NULL };

	return run_well(env, argv, ret, e);
}

/* `qconf -sc`: what the pool's resource is called. Not everybody may ask: then as the pool calls
 * it. -EINVAL: there is none of that name. */
static int find_complex(const struct engine_env *env, char **ret_name, bool *ret_per_slot,
			struct err *e)
{
	static const char *const argv[] = { "qconf", "-sc", NULL };
	const char *name = sge_setting(env->settings, "complex");
	struct command_output out;
	int r = run_well(env, argv, &out, NULL);

	*ret_per_slot = false;
	if (r < 0 || !strstr(strbuf_str(&out.out), "h_rt"))
		*ret_name = xstrdup(name);
	else if (sge_parse_complex(strbuf_str(&out.out), name, ret_name, ret_per_slot) < 0)
		r = err_set(
			e, -EINVAL,
			"Grid Engine has no resource \"%s\" here: set complex=NAME, of what counts "
			"GPUs (qconf -sc lists them: gpu, gpu_card, ngpus, ..)",
			name);
	command_output_clear(&out);
	return r == -EINVAL ? r : 0;
}

static int sge_probe(const struct engine_env *env, struct err *e)
{
	struct command_output out;
	struct engine_jobs jobs = { .n = 0 };
	char *name = NULL;
	bool per_slot;
	int r = ask_jobs(env, &out, e);

	if (r == 0)
		r = sge_parse_jobs(strbuf_str(&out.out), "", NULL, false, &jobs, e);
	command_output_clear(&out);
	engine_jobs_clear(&jobs);
	if (r == 0)
		r = find_complex(env, &name, &per_slot, e);
	free(name);
	return r;
}

/* -------- a job -------- */

/* What qsub's answer comes to. */
static int understand(const char *const *argv, const struct command_output *out, char **ret_id,
		      struct err *e)
{
	static const int codes[] = {
		[SGE_REFUSED] = ENGINE_REFUSED, [SGE_NO_CLUSTER] = -ENOENT,
		[SGE_BUSY] = -EAGAIN,		[SGE_NO_CONTACT] = -EHOSTUNREACH,
		[SGE_UNSURE] = ENGINE_UNSURE,
	};
	cleanup_free char *all = NULL;
	int code;

	if (out->status == 0) {
		if (sge_submitted_id(strbuf_str(&out->out), ret_id) == 0)
			return 0;
		(void)command_failed(argv, out, -EIO, e);
		(void)err_wrap(e, "no job's number in the answer");
		return ENGINE_UNSURE;
	}
	all = xasprintf("%s\n%s", strbuf_str(&out->out), strbuf_str(&out->err));
	code = command_was_killed(out) ? ENGINE_UNSURE : codes[sge_refusal_of(out->status, all)];
	(void)failed(argv, out, code < 0 ? code : -EIO, e);
	return code;
}

/* Beside the output: "exp,a1b2.sh" of "exp,a1b2.out". */
static char *script_file(const struct engine_request *req)
{
	static const char ending[] = ".out";
	size_t n = strlen(req->output);

	if (str_has_suffix(req->output, ending))
		n -= strlen(ending);
	return xasprintf("%.*s.sh", (int)n, req->output);
}

static int sge_submit(const struct engine_env *env, const struct engine_request *req,
		      const char *script, char **ret_id, struct err *e)
{
	cleanup_free char *file = script_file(req);
	bool terse = !sge_is_dropped(req, "-terse");
	const char *const argv[] = { sge_setting(req->settings, "qsub"), terse ? "-terse" : file,
				     terse ? file : NULL, NULL };
	struct command_output out;
	int r = fs_write_atomic(file, script, strlen(script), SCRIPT_MODE, e);

	if (r < 0)
		return r;
	r = run(env, argv, &out, e);
	if (r == 0)
		r = understand(argv, &out, ret_id, e);
	else if (r == -ETIMEDOUT || r == -EMSGSIZE)
		r = ENGINE_UNSURE;
	command_output_clear(&out);
	return r;
}

/* Of those that wait, or are in an error state. */
static void ask_reasons(const struct engine_env *env, struct engine_jobs *jobs)
{
	cleanup_strbuf struct strbuf ids = STRBUF_INIT;
	struct command_output out;

	for (size_t i = 0; i < jobs->n; i++)
		if (jobs->all[i].state == ENGINE_JOB_HELD ||
		    jobs->all[i].state == ENGINE_JOB_WAITING)
			strbuf_addf(&ids, "%s%s", ids.len ? "," : "", jobs->all[i].id);
	if (!ids.len)
		return;

	const char *const argv[] = { "qstat", "-j", strbuf_str(&ids), NULL };

	/* One that has gone meanwhile makes its status 1; the others are there all the same. */
	if (run(env, argv, &out, NULL) == 0)
		sge_add_reasons(strbuf_str(&out.out), jobs);
	command_output_clear(&out);
}

static int sge_jobs(const struct engine_env *env, const char *prefix, struct engine_jobs *ret,
		    struct err *e)
{
	struct command_output out;
	cleanup_free char *name = NULL;
	bool per_slot = false;
	int r = ask_jobs(env, &out, e);

	*ret = (struct engine_jobs){ .n = 0 };
	/* Where there is no such resource, nobody knows how many they have. */
	if (r == 0 && env->gpus)
		(void)find_complex(env, &name, &per_slot, NULL);
	if (r == 0)
		r = sge_parse_jobs(strbuf_str(&out.out), prefix, name, per_slot, ret, e);
	command_output_clear(&out);
	if (r == 0)
		ask_reasons(env, ret);
	else
		engine_jobs_clear(ret);
	return r;
}

/* The first line that says that something was not done; NULL. */
static const char *complaint(char *text)
{
	char *save = NULL;

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		if (!sge_cancel_is_fine(line))
			return line;
	return NULL;
}

static int sge_cancel(const struct engine_env *env, const struct text_list *ids, struct err *e)
{
	struct text_list words = { .n = 0 };
	struct command_output out;
	int r;

	if (!ids->n)
		return 0;
	text_list_add(&words, "qdel");
	for (size_t i = 0; i < ids->n; i++)
		text_list_add(&words, ids->texts[i]);
	text_list_take(&words, NULL);
	r = run(env, (const char *const *)words.texts, &out, e);
	if (r == 0 && out.status != 0) {
		cleanup_free char *all =
			xasprintf("%s\n%s", strbuf_str(&out.out), strbuf_str(&out.err));
		const char *line = complaint(all);

		/* It says 1 where one of them has ended by itself. */
		if (line || (!out.out.len && !out.err.len))
			r = err_set(e, -EIO, "qdel: %s",
				    line ? line : "it failed and said nothing");
	}
	command_output_clear(&out);
	text_list_clear(&words);
	return r;
}

/* -------- what there is -------- */

static int ask_nodes(const struct engine_env *env, const char *complex_name, bool per_slot,
		     struct engine_nodes *ret, struct err *e)
{
	const char *type = sge_setting(env->settings, "type_complex");
	const char *queue = sge_setting(env->settings, "queue");
	cleanup_free char *wanted =
		type ? xasprintf("%s,%s", complex_name, type) : xstrdup(complex_name);
	const char *const argv[] = { "qstat", "-u",   "*",
				     "-f",    "-r",   "-F",
				     wanted,  "-xml", queue ? "-q" : NULL,
				     queue,   NULL };
	struct command_output out;
	int r = run_well(env, argv, &out, e);

	if (r == 0)
		r = sge_parse_nodes(strbuf_str(&out.out), complex_name, per_slot, type, ret, e);
	command_output_clear(&out);
	return r;
}

/* What hosts have by the configuration, which not everybody may ask, and which nobody asks of very
 * many hosts: what they have in use and free is right in all but odd cases. */
static void ask_capacities(const struct engine_env *env, const char *complex_name,
			   struct engine_nodes *nodes)
{
	if (nodes->n > HOSTS_ASKED_MAX)
		return;
	for (size_t i = 0; i < nodes->n; i++) {
		const char *const argv[] = { "qconf", "-se", nodes->all[i].name, NULL };
		struct command_output out;
		unsigned int total;
		int r = run_well(env, argv, &out, NULL);

		if (r == 0 && sge_parse_capacity(strbuf_str(&out.out), complex_name, &total) == 0)
			sge_set_capacity(&nodes->all[i], total);
		command_output_clear(&out);
		if (r < 0)
			return; /* nor will it answer of the others */
	}
}

/* `qconf -shgrp_resolved @GROUP`: its hosts. */
static char *hosts_of_group(const struct engine_env *env, const char *group)
{
	const char *const argv[] = { "qconf", "-shgrp_resolved", group, NULL };
	struct command_output out;
	char *hosts = run_well(env, argv, &out, NULL) == 0 ? strbuf_take(&out.out) : NULL;

	command_output_clear(&out);
	return hosts;
}

/* Those whose type the pool says, and no resource has said. */
static void set_types(const struct engine_env *env, struct engine_nodes *nodes)
{
	const char *rest = sge_setting(env->settings, "types");
	char *type, *hosts;

	while (sge_next_type(&rest, &type, &hosts)) {
		cleanup_free char *group = hosts[0] == '@' ? hosts_of_group(env, hosts) : NULL;

		for (size_t i = 0; i < nodes->n; i++) {
			struct engine_node *node = &nodes->all[i];

			if (!node->type && (group ? sge_lists_host(group, node->name)
						  : sge_host_matches(hosts, node->name)))
				node->type = xstrdup(type);
		}
		free(type);
		free(hosts);
	}
}

static int sge_inventory(const struct engine_env *env, struct engine_nodes *ret, struct err *e)
{
	cleanup_free char *name = NULL;
	bool per_slot;
	int r = find_complex(env, &name, &per_slot, e);

	*ret = (struct engine_nodes){ .n = 0 };
	if (r == 0)
		r = ask_nodes(env, name, per_slot, ret, e);
	if (r < 0) {
		engine_nodes_clear(ret);
		return r;
	}
	ask_capacities(env, name, ret);
	set_types(env, ret);
	return 0;
}

/* -------- when -------- */

/* "verification: found suitable queue(s)" */
static bool is_suitable(const struct command_output *out)
{
	return out->status == 0 && command_said(out, "found suitable queue");
}

/* `qsub -w v FILE`, which submits nothing: whether such a job could run on the cluster as it is
 * built (v), or as it is used now (p). 0, 1: no; -errno. */
static int verify(const struct engine_env *env, const struct engine_request *req, const char *file,
		  const char *how, struct strbuf *words, struct err *e)
{
	const char *const argv[] = { sge_setting(req->settings, "qsub"), "-w", how, file, NULL };
	struct command_output out;
	int r = run(env, argv, &out, e);

	if (r == 0 && !is_suitable(&out)) {
		cleanup_free char *all =
			xasprintf("%s\n%s", strbuf_str(&out.out), strbuf_str(&out.err));
		enum sge_refusal why = sge_refusal_of(out.status, all);

		if (why != SGE_REFUSED || out.status == 0)
			r = failed(argv, &out, -EIO, e);
		else
			r = 1;
		sge_verification(all, words);
	}
	command_output_clear(&out);
	return r;
}

static int write_script(const struct engine_request *req, char *file, struct err *e)
{
	cleanup_strbuf struct strbuf script = STRBUF_INIT;
	cleanup_fd int fd = -1;
	int r = sge_render(req, &script, e);

	if (r < 0)
		return r;
	fd = mkostemp(file, O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, errno, "create %s", file);
	r = fs_write_all(fd, strbuf_str(&script), script.len);
	if (r < 0) {
		(void)unlink(file);
		return err_sys(e, -r, "write %s", file);
	}
	return 0;
}

/* Of one that is not submitted. */
static int when_submitted(const struct engine_env *env, const struct engine_request *req,
			  uint64_t *ret_ns, struct strbuf *words, struct err *e)
{
	cleanup_strbuf struct strbuf busy = STRBUF_INIT;
	char file[] = "/tmp/tenure-job-XXXXXX";
	int r = write_script(req, file, e);

	if (r < 0)
		return r;
	r = verify(env, req, file, "v", words, e);
	if (r == 1) {
		r = err_set(e, ENGINE_REFUSED, "%s",
			    words->len ? strbuf_str(words) : "no queue takes such a job");
	} else if (r == 0) {
		/* Older ones do not know "p". */
		r = verify(env, req, file, "p", &busy, NULL);
		*ret_ns = r == 0 ? clock_wall_ns() : 0;
		strbuf_adds(words, r == 0   ? "at once"
				   : r == 1 ? "not now, but when what it asks for is free"
					    : "not said");
		r = 0;
	}
	(void)unlink(file);
	return r;
}

static int sge_when(const struct engine_env *env, const struct engine_request *req, const char *id,
		    uint64_t *ret_ns, struct strbuf *words, struct err *e)
{
	const char *const argv[] = { "qstat", "-j", id, NULL };
	struct command_output out;
	int r;

	if (!id)
		return when_submitted(env, req, ret_ns, words, e);
	r = run_well(env, argv, &out, e);
	if (r == 0) {
		sge_scheduling_info(strbuf_str(&out.out), words);
		*ret_ns = 0;
	} else if (r == -EIO && command_said(&out, "do not exist")) {
		r = err_set(e, -ENOENT, "Grid Engine has no job %s any more", id);
	}
	command_output_clear(&out);
	return r;
}

/* -------- on the node -------- */

/* `qconf -sq QUEUE@HOST`: what the queue allows, whatever the job has asked for. */
static uint64_t queue_limit_s(const struct engine_env *env, const char *queue)
{
	const char *const argv[] = { "qconf", "-sq", queue, NULL };
	struct command_output out;
	uint64_t limit =
		run_well(env, argv, &out, NULL) == 0 ? sge_queue_limit(strbuf_str(&out.out)) : 0;

	command_output_clear(&out);
	return limit;
}

static int sge_deadline(const struct engine_env *env, const struct engine_here *here,
			uint64_t *ret_ns, struct err *e)
{
	struct command_output out;
	struct sge_run job;
	int r = ask_jobs(env, &out, e);
	uint64_t limit_s;

	if (r == 0)
		r = sge_find_run(strbuf_str(&out.out), here->id, &job, e);
	command_output_clear(&out);
	/* Many nodes may not ask. Then it is what the script has found. */
	if (r < 0 && here->end_ns) {
		*ret_ns = here->end_ns;
		return 0;
	}
	if (r < 0)
		return r;
	limit_s = queue_limit_s(env, job.queue);
	if (!limit_s || (job.limit_s && job.limit_s < limit_s))
		limit_s = job.limit_s;
	*ret_ns = limit_s ? job.start_ns + limit_s * NS_PER_S : here->end_ns;
	free(job.queue);
	return 0;
}

static const char *const cluster_variables[] = { "SGE_ROOT", "SGE_CELL", "SGE_QMASTER_PORT", NULL };

const struct engine engine_sge = {
	.name = "sge",
	.title = "Grid Engine: jobs by qsub, in a queue with GPUs",
	.follows = true,
	.keys = sge_keys,
	.cluster_variables = cluster_variables,
	.cluster_command = "qstat",
	.probe = sge_probe,
	.render = sge_render,
	.submit = sge_submit,
	.jobs = sge_jobs,
	.cancel = sge_cancel,
	.inventory = sge_inventory,
	.when = sge_when,
	.inside = sge_inside,
	.deadline = sge_deadline,
};
