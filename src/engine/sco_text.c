/* SPDX-License-Identifier: MIT */
#include "engine/sco_text.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/script.h"

#define MARK	     "#SCO"
#define JOB_VARIABLE "TENURE_SCO_JOB="
#define GPUS_MAX     4096
#define SHOWN	     200 /* bytes of an answer that nobody understands */

/* -------- settings and flags -------- */

const struct engine_key sco_keys[] = {
	{ "workspace", "the workspace's name", NULL, true },
	{ "aec2", "the name of the computing cluster", NULL, true },
	{ "image", "the URL of the container's image", NULL, true },
	{ "spec", "the worker's specification, such as N6lS.Iu.I80.{gpus}", NULL, true },
	{ "mounts", "VOLUME:MOUNT of the shared disk, or none where it is mounted anyway", NULL,
	  true },
	{ "framework", "pytorch, tensorflow, senseparrots or mpi", "pytorch", false },
	{ "priority", "NORMAL, HIGH or HIGHEST", NULL, false },
	{ "quota_type", "reserved or spot", NULL, false },
	{ "vpc_id", "the network of a public cluster", NULL, false },
	{ "az", "the zone of a public cluster", NULL, false },
	{ "wait", "yes: jobs queue for quota at the server", NULL, false },
	{ "profile", "sco's own profile", NULL, false },
	{ "end", "delete or stop: how a job is ended", "delete", false },
	{ NULL, NULL, NULL, false },
};

static const struct {
	const char *key, *flag;
} flags[] = {
	{ "workspace", "--workspace-name" },
	{ "aec2", "--aec2-name" },
	{ "image", "--container-image-url" },
	{ "framework", "--training-framework" },
	{ "mounts", "--storage-mount" },
	{ "priority", "--priority" },
	{ "quota_type", "--quota-type" },
	{ "vpc_id", "--vpc-id" },
	{ "az", "--az" },
};

static const char *value(const struct text_list *settings, const char *key)
{
	return engine_key_value(sco_keys, settings, key);
}

static bool is_yes(const char *text)
{
	return text && (strcasecmp(text, "yes") == 0 || strcasecmp(text, "true") == 0 ||
			strcmp(text, "1") == 0);
}

/* "N6lS.Iu.I80.8", "n6ls.iu.i40.4.32c512g": 8, 4; 0 where it does not say. */
static uint64_t spec_gpus(const char *spec)
{
	uint64_t n;

	for (int i = 0; i < 3; i++) {
		spec = strchr(spec, '.');
		if (!spec)
			return 0;
		spec++;
	}

	cleanup_free char *count = xasprintf("%.*s", (int)strcspn(spec, "."), spec);

	return str_to_u64(count, &n) == 0 ? n : 0;
}

/* With the pool's figures for {gpus} and {type}; a specification that has others is refused. */
static int add_spec(const struct engine_request *req, struct strbuf *ret, struct err *e)
{
	const char *spec = value(req->settings, "spec");
	cleanup_free char *gpus = xasprintf("%u", req->gpus);
	const struct script_value values[] = { { "gpus", gpus },
					       { "type", req->type ? req->type : "" },
					       { NULL, NULL } };
	int r = script_fill(spec, values, ret, e);

	if (r < 0)
		return err_wrap(e, "spec=%s", spec);
	if (strstr(spec, "{type}") && !req->type)
		return err_set(e, -EINVAL, "spec=%s has {type}, and the pool has no --type", spec);
	if (req->type && !strstr(spec, "{type}"))
		return err_set(
			e, -EINVAL,
			"spec=%s says which GPUs these are: write {type} in it, or leave out "
			"--type %s",
			spec, req->type);

	uint64_t n = spec_gpus(strbuf_str(ret));

	if (n && n != req->gpus)
		return err_set(e, -EINVAL,
			       "spec=%s has %llu GPUs, and a node of the pool has %u: write {gpus} "
			       "in its place",
			       spec, (unsigned long long)n, req->gpus);
	return 0;
}

static int check_request(const struct engine_request *req, struct err *e)
{
	const char *end;
	int r = engine_keys_check("sco", sco_keys, req->settings, e);

	if (r < 0)
		return r;
	if (strcmp(value(req->settings, "aec2"), "public") == 0 &&
	    !(value(req->settings, "vpc_id") && value(req->settings, "az")))
		return err_set(e, -EINVAL, "aec2=public needs vpc_id= and az= too");
	end = value(req->settings, "end");
	if (strcmp(end, "delete") != 0 && strcmp(end, "stop") != 0)
		return err_set(e, -EINVAL, "end=%s: it is delete or stop", end);
	if (req->cpus || req->mem_mib)
		return err_set(e, -EINVAL,
			       "the spec says how many processors and how much memory a worker "
			       "has");
	return 0;
}

/* Lists are asked for by the first word of the name, which what people read has to begin with. */
static const char *display_name(const struct engine_request *req)
{
	size_t n = strcspn(req->name, "-");

	return strncmp(req->title, req->name, n) == 0 ? req->title : req->name;
}

static void add_flags(struct strbuf *b, const struct engine_request *req, const char *spec)
{
	script_add_directive(b, MARK, req, "--name=%s", req->name);
	script_add_directive(b, MARK, req, "--job-name=%s", display_name(req));
	for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
		const char *text = value(req->settings, flags[i].key);

		if (text && !(strcmp(flags[i].key, "mounts") == 0 && strcmp(text, "none") == 0))
			script_add_directive(b, MARK, req, "%s=%s", flags[i].flag, text);
	}
	script_add_directive(b, MARK, req, "--worker-spec=%s", spec);
	script_add_directive(b, MARK, req, "--worker-nodes=1");
	if (is_yes(value(req->settings, "wait")))
		script_add_directive(b, MARK, req, "--wait");
}

static const char own_template[] = "#!/bin/bash\n{directives}{options}{setup}{launch}\n";

static char *quoted(const char *word)
{
	struct strbuf b = STRBUF_INIT;

	strbuf_add_quoted(&b, word);
	return strbuf_take(&b);
}

/* Flags that would take the job from us: it could not be found again, or would be several. */
static const struct {
	const char *flag, *instead;
} not_yours[] = {
	{ "--name", "jobs are found again by their names" },
	{ "--job-name", "jobs are listed by it" },
	{ "--command", "the job runs an agent" },
	{ "--worker-nodes", "a job is one node, and the pool's own number makes several" },
	{ "--worker-spec", "the setting spec= says it" },
	{ "--workspace-name", "the setting workspace= says it, to all commands" },
};

static int check_options(const struct text_list *options, struct err *e)
{
	for (size_t i = 0; options && i < options->n; i++) {
		const char *line = options->texts[i];

		if (str_has_prefix(line, MARK))
			line += strlen(MARK);
		else if (line[0] == '#')
			continue;
		line += strspn(line, " \t");
		if (line[0] != '-')
			return err_set(e, -EINVAL,
				       "\"%s\" is no flag of sco: one begins with -, and has its "
				       "value in the same word: '--retry-times 1'",
				       line);
		for (size_t k = 0; k < ARRAY_LEN(not_yours); k++) {
			size_t n = strlen(not_yours[k].flag);

			if (strncmp(line, not_yours[k].flag, n) == 0 &&
			    strchr("= \t", line[n])) /* or its end */
				return err_set(e, -EINVAL,
					       "\"%s\": %s is not for a pool's jobs: %s", line,
					       not_yours[k].flag, not_yours[k].instead);
		}
	}
	return 0;
}

int sco_text_script(const struct engine_request *req, struct strbuf *script, struct err *e)
{
	cleanup_strbuf struct strbuf spec = STRBUF_INIT, directives = STRBUF_INIT,
				     options = STRBUF_INIT, agent = STRBUF_INIT;
	cleanup_free char *dir = quoted(req->dir), *output = quoted(req->output), *launch = NULL;
	cleanup_free char *setup = NULL;
	cleanup_free char *gpus = xasprintf("%u", req->gpus);
	int r = check_request(req, e);

	if (r == 0)
		r = check_options(req->options, e);
	if (r == 0)
		r = add_spec(req, &spec, e);
	if (r < 0)
		return r;
	add_flags(&directives, req, strbuf_str(&spec));
	script_add_options(&options, MARK, req);
	for (const char *const *word = req->agent; *word; word++)
		strbuf_add_word(&agent, *word);
	launch = xasprintf("exec %s", strbuf_str(&agent));
	setup = xasprintf("exec >>%s 2>&1\ncd %s || exit\nexport " JOB_VARIABLE "%s\n", output, dir,
			  req->name);
	return script_fill(req->template_text ? req->template_text : own_template,
			   (const struct script_value[]){ { "name", req->name },
							  { "title", req->title },
							  { "token", req->token },
							  { "gpus", gpus },
							  { "dir", dir },
							  { "output", output },
							  { "directives", strbuf_str(&directives) },
							  { "options", strbuf_str(&options) },
							  { "agent", strbuf_str(&agent) },
							  { "setup", setup },
							  { "launch", launch },
							  { NULL, NULL } },
			   script, e);
}

int sco_text_command(const struct text_list *settings, const char *words, struct text_list *argv,
		     struct err *e)
{
	const char *workspace = value(settings, "workspace"), *profile = value(settings, "profile");

	text_list_add(argv, "sco");
	while (*words) {
		size_t n = strcspn(words, " ");

		text_list_take(argv, xasprintf("%.*s", (int)n, words));
		words += n + (words[n] == ' ');
	}
	if (profile)
		text_list_take(argv, xasprintf("--profile=%s", profile));
	/* Clusters belong to no workspace. */
	if (strcmp(argv->texts[1], "acp") != 0)
		return 0;
	if (!workspace)
		return err_set(e, -EINVAL,
			       "sco needs to be told workspace= (the workspace's name)");
	text_list_take(argv, xasprintf("--workspace-name=%s", workspace));
	return 0;
}

const char *sco_text_end(const struct text_list *settings)
{
	return strcmp(value(settings, "end"), "stop") == 0 ? "acp jobs stop" : "acp jobs delete";
}

void sco_text_add_flags(const char *script, const char *file, const char *name,
			struct text_list *argv)
{
	struct strbuf command = STRBUF_INIT;

	for (const char *line = script; *line;) {
		size_t n = strcspn(line, "\n"), mark = strlen(MARK " ");

		if (str_has_prefix(line, MARK " --") &&
		    !str_has_prefix(line, MARK " --workspace-name")) {
			const char *flag = line + mark;
			size_t len = n - mark, word = strcspn(flag, "= \n");

			/* "--retry-times 1": two words. */
			text_list_take(
				argv,
				xasprintf("%.*s", (int)(flag[word] == ' ' ? word : len), flag));
			if (flag[word] == ' ')
				text_list_take(argv, xasprintf("%.*s", (int)(len - word - 1),
							       flag + word + 1));
		}
		line += n + (line[n] == '\n');
	}
	strbuf_adds(&command, "--command=exec bash ");
	strbuf_add_quoted(&command, file);
	strbuf_addc(&command, ' ');
	strbuf_adds(&command, name);
	text_list_take(argv, strbuf_take(&command));
}

/* -------- states -------- */

static const struct {
	const char *word;
	enum engine_job_state state;
} states[] = {
	{ "INIT", ENGINE_JOB_WAITING },
	{ "WAITING", ENGINE_JOB_WAITING },
	{ "WAIT_QUOTA", ENGINE_JOB_WAITING },
	{ "QUEUEING", ENGINE_JOB_WAITING },
	{ "PENDING", ENGINE_JOB_WAITING },
	{ "CREATING", ENGINE_JOB_WAITING },
	{ "PULLING", ENGINE_JOB_STARTING },
	{ "STARTING", ENGINE_JOB_STARTING },
	{ "RECOVERING", ENGINE_JOB_STARTING },
	{ "RUNNING", ENGINE_JOB_RUNNING },
	{ "RESTARTING", ENGINE_JOB_RUNNING },
	{ "SUCCEEDED", ENGINE_JOB_DONE },
	{ "COMPLETED", ENGINE_JOB_DONE },
	{ "FAILED", ENGINE_JOB_FAILED },
	{ "ERROR", ENGINE_JOB_FAILED },
	{ "SUSPENDING", ENGINE_JOB_ENDING },
	/* Stopped by somebody, or a spot job whose place was taken. */
	{ "SUSPENDED", ENGINE_JOB_EXPIRED },
	{ "STOPPED", ENGINE_JOB_EXPIRED },
	{ "DELETING", ENGINE_JOB_ENDING },
	{ "DELETED", ENGINE_JOB_CANCELLED },
	{ "CANCELLED", ENGINE_JOB_CANCELLED },
};

enum engine_job_state sco_text_state(const char *word)
{
	for (size_t i = 0; i < ARRAY_LEN(states); i++)
		if (strcasecmp(states[i].word, word) == 0)
			return states[i].state;
	return ENGINE_JOB_UNKNOWN;
}

const char *const sco_text_live_states[] = {
	"INIT",	    "WAITING",	  "WAIT_QUOTA", "QUEUEING",   "PENDING",    "CREATING", "PULLING",
	"STARTING", "RECOVERING", "RUNNING",	"RESTARTING", "SUSPENDING", "DELETING", NULL,
};

/* -------- lists -------- */

/* In "exec bash '/mnt/..,TOKEN.sh' NAME", where the server has given a name of its own. */
static char *name_in_command(const char *command, const char *prefix)
{
	const char *p = command;

	while (*prefix && (p = strstr(p, prefix))) {
		size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyz0123456789-");

		if (p > command && p[-1] == ' ')
			return xasprintf("%.*s", (int)n, p);
		p++;
	}
	return NULL;
}

static char *our_name(const json_t *job, const char *prefix)
{
	const char *name = json_get_str(job, "name");
	const char *command =
		json_get_str(json_array_get(json_object_get(job, "roles"), 0), "startup_script");

	if (engine_name_begins(name, prefix))
		return xstrdup(name);
	return command ? name_in_command(command, prefix) : NULL;
}

/* By the specification of its workers. */
static void read_gpus(const json_t *object, struct engine_job *job)
{
	const json_t *role = json_array_get(json_object_get(object, "roles"), 0);
	const json_t *spec = json_array_get(json_object_get(role, "resource_spec"), 0);
	const char *name = json_get_str(spec, "name");
	unsigned int replicas = json_get_small(spec, "replicas", GPUS_MAX);
	uint64_t n = name ? spec_gpus(name) : 0;

	job->gpus_known = n && n <= GPUS_MAX;
	if (job->gpus_known)
		job->gpus = (unsigned int)n * (replicas ? replicas : 1);
}

static void add_job(const json_t *object, const char *prefix, struct engine_jobs *jobs)
{
	const char *id = json_get_str(object, "name"), *word = json_get_str(object, "state");
	const char *more = json_get_str(object, "message");
	char *name = id && id[0] ? our_name(object, prefix) : NULL;
	struct engine_job *job;

	if (!name)
		return;
	word = word ? word : "";
	job = engine_jobs_add(jobs);
	job->id = xstrdup(id);
	job->name = name;
	job->state = sco_text_state(word);
	read_gpus(object, job);
	if (job->state != ENGINE_JOB_RUNNING && job->state != ENGINE_JOB_DONE)
		job->reason = more && more[0] ? xasprintf("%s: %s", word, more) : xstrdup(word);
}

static const json_t *list_of(const json_t *answer)
{
	static const char *const names[] = { "jobs", "training_jobs" };

	if (json_is_array(answer))
		return answer;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (json_is_array(json_object_get(answer, names[i])))
			return json_object_get(answer, names[i]);
	return NULL;
}

static bool says(const char *text, const char *const *words)
{
	for (; *words; words++)
		if (strcasestr(text, *words))
			return true;
	return false;
}

bool sco_text_is_failure(const char *text)
{
	static const char *const words[] = { "error",	"fail",	   "denied",  "unauth", "invalid",
					     "timeout", "refused", "expired", "log in", "login",
					     "unable",	"cannot",  "exceed",  "panic",	NULL };

	return says(text, words);
}

/* With nothing to list `sco` says so in a sentence, whose words nobody has written down. What
 * speaks of a failure is none of these. */
static bool is_none(const char *text)
{
	static const char *const nothing[] = { "no ", "not found", "empty", "0 job", "none", NULL };

	return !sco_text_is_failure(text) && says(text, nothing);
}

/* "[ {", "[]" or "{ "": no "[INFO] .." of a log. */
static bool begins_json(const char *p, const char *end)
{
	char open = p < end ? *p++ : '\0';

	while (p < end && isspace((unsigned char)*p))
		p++;
	return p < end && ((open == '[' && (*p == '{' || *p == ']')) ||
			   (open == '{' && (*p == '"' || *p == '}')));
}

/* Where JSON begins: a line of it, for a notice may stand in front. NULL: there is none. */
static const char *json_in(const char *text, size_t *len)
{
	const char *end = text + *len;

	for (const char *p = text; p < end;) {
		const char *next = memchr(p, '\n', (size_t)(end - p));

		while (p < end && (*p == ' ' || *p == '\t' || *p == '\r'))
			p++;
		if (begins_json(p, end)) {
			*len = (size_t)(end - p);
			return p;
		}
		p = next ? next + 1 : end;
	}
	return NULL;
}

static int no_list(const char *text, struct err *e)
{
	size_t n;
	const char *line = sco_text_cause(text, "", &n);

	return err_set(e, -EBADMSG, "sco's answer is no list of jobs: %.*s",
		       (int)(n < SHOWN ? n : SHOWN), n ? line : "(nothing)");
}

int sco_text_jobs(const char *text, size_t len, const char *prefix, struct engine_jobs *jobs,
		  size_t *listed, struct err *e)
{
	const char *start = json_in(text, &len);
	const json_t *list, *object;
	json_error_t wrong;
	json_t *answer;
	size_t i;

	*listed = 0;
	if (!start)
		return is_none(text) ? 0 : no_list(text, e);
	answer = json_loadb(start, len, JSON_DISABLE_EOF_CHECK, &wrong);
	if (!answer)
		return err_set(e, -EBADMSG, "sco's list of jobs breaks off in line %d: %s",
			       wrong.line, wrong.text);
	list = list_of(answer);
	if (!list && !json_get_str(answer, "name")) {
		json_decref(answer);
		return no_list(text, e);
	}
	if (!list)
		add_job(answer, prefix, jobs);
	*listed = list ? json_array_size(list) : 1;
	json_array_foreach(list, i, object) add_job(object, prefix, jobs);
	json_decref(answer);
	return 0;
}

/* -------- sentences -------- */

static bool is_id_char(char c)
{
	return islower((unsigned char)c) || isdigit((unsigned char)c) || c == '-';
}

static char *word_at(const char *p)
{
	size_t n = 0;

	while (is_id_char(p[n]))
		n++;
	return n ? xasprintf("%.*s", (int)n, p) : NULL;
}

char *sco_text_created(const char *text)
{
	const char *done = strcasestr(text, " submitted successfully"), *p;

	if (!done)
		return NULL;
	for (p = done; p > text && is_id_char(p[-1]); p--)
		;
	if (p < done)
		return word_at(p);
	p = strstr(text, "pt-");
	return p ? word_at(p) : NULL;
}

int sco_text_refusal(const char *text)
{
	static const struct {
		const char *words[12];
		int code;
	} kinds[] = {
		{ { "quota", "insufficient", "stock", NULL }, -EDQUOT },
		/* An earlier try of ours has come through. */
		{ { "already exist", "already_exist", "alreadyexist", "duplicate", NULL },
		  ENGINE_UNSURE },
		/* Nothing was sent. */
		{ { "connection refused", "no such host", "no route to host", "dial tcp", NULL },
		  -ECONNREFUSED },
		{ { "timeout", "timed out", "deadline exceeded", "connection", "unavailable",
		    "internal error", "bad gateway", "eof", NULL },
		  ENGINE_UNSURE },
		{ { "unauth", "log in", "login", "access key", "token", "credential", NULL },
		  -EACCES },
		{ { "invalid", "illegal", "not found", "not exist", "unknown flag", "required",
		    "unsupported", "forbidden", "permission", "denied", "not allowed", NULL },
		  ENGINE_REFUSED },
	};

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (says(text, kinds[i].words))
			return kinds[i].code;
	return ENGINE_UNSURE;
}

bool sco_text_is_unknown_job(const char *text)
{
	static const char *const words[] = { "not found", "not exist",	     "no such",
					     "404",	  "already deleted", NULL };

	return says(text, words);
}

static bool is_blank(const char *line, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isspace((unsigned char)line[i]))
			return false;
	return true;
}

/* The first line that speaks of a failure, else the last one that is not blank. */
static const char *telling_line(const char *text, size_t *ret_len)
{
	static const char *const words[] = { "error", "fail", "exceed", "denied", "invalid", NULL };
	const char *last = "";

	*ret_len = 0;
	while (*text) {
		size_t n = strcspn(text, "\r\n");
		cleanup_free char *line = xasprintf("%.*s", (int)(n < SHOWN ? n : SHOWN), text);

		if (!is_blank(text, n)) {
			last = text;
			*ret_len = n;
			if (says(line, words))
				break;
		}
		text += n;
		text += strspn(text, "\r\n");
	}
	return last;
}

const char *sco_text_cause(const char *out, const char *err, size_t *ret_len)
{
	const char *line = telling_line(out, ret_len);

	return *ret_len ? line : telling_line(err, ret_len);
}

/* -------- tables -------- */

/* Numbers behind a word of a line, whatever the columns are drawn with. */
static size_t numbers_behind(const char *line, size_t n, const char *word, double *ret, size_t most)
{
	cleanup_free char *text = xasprintf("%.*s", (int)n, line);
	const char *p = strcasestr(text, word);
	size_t found = 0;

	for (p = p ? p + strlen(word) : ""; *p && found < most;) {
		char *end;

		if (!isdigit((unsigned char)*p)) {
			p++;
			continue;
		}
		ret[found++] = strtod(p, &end);
		p = end;
	}
	return found;
}

static bool is_count(double number)
{
	return number >= 0 && number <= 1000 * GPUS_MAX;
}

int sco_text_usage(const char *text, unsigned int *total, unsigned int *idle, struct err *e)
{
	double numbers[3];

	for (const char *line = text; *line;) {
		size_t n = strcspn(line, "\n");

		if (numbers_behind(line, n, "GPU_NUMBER", numbers, 3) == 3 &&
		    is_count(numbers[0]) && is_count(numbers[2])) {
			*total = (unsigned int)numbers[0];
			*idle = (unsigned int)numbers[2];
			return 0;
		}
		line += n + (line[n] == '\n');
	}
	return err_set(e, -EBADMSG, "sco's usage of the cluster has no line GPU_NUMBER");
}

static const char *phase_in(const char *line)
{
	static const char *const phases[] = { "running",  "ready",     "pending", "creating",
					      "starting", "succeeded", "failed",  "stopped",
					      "deleted",  NULL };

	for (size_t i = 0; phases[i]; i++)
		if (strcasestr(line, phases[i]))
			return phases[i];
	return NULL;
}

char *sco_text_worker(const char *text)
{
	for (const char *line = text; *line;) {
		size_t n = strcspn(line, "\n");
		cleanup_free char *row = xasprintf("%.*s", (int)n, line);
		const char *mark = strstr(row, "worker-"), *begin = mark;

		if (mark && isdigit((unsigned char)mark[strlen("worker-")])) {
			while (begin > row && is_id_char(begin[-1]))
				begin--;

			cleanup_free char *name = word_at(begin);
			const char *phase = phase_in(row);

			return phase ? xasprintf("%s (%s)", name, phase) : xstrdup(name);
		}
		line += n + (line[n] == '\n');
	}
	return NULL;
}

/* -------- inside -------- */

static bool has_own_variables(const char *const *variables)
{
	for (; *variables; variables++)
		if (str_has_prefix(*variables, "SENSECORE_"))
			return true;
	return false;
}

/* "pt-1a2b3c-worker-0": the job, where nothing of ours has told its name. */
static char *job_of_host(const char *host)
{
	const char *worker = host ? strstr(host, "-worker-") : NULL;

	return worker ? xasprintf("%.*s", (int)(worker - host), host)
		      : xstrdup(host ? host : "job");
}

int sco_text_inside(const char *const *variables, struct engine_here *ret, struct err *e)
{
	const char *name = script_variable(variables, JOB_VARIABLE);
	const char *host = script_variable(variables, "HOSTNAME=");
	const char *count = script_variable(variables, "SENSECORE_ACCELERATE_DEVICE_COUNT=");
	const char *gpus = script_variable(variables, "CUDA_VISIBLE_DEVICES=");
	uint64_t n = 0;

	if (!has_own_variables(variables) && !(name && name[0]))
		return err_set(e, -ENOENT, "no SENSECORE_ variable: this is in no job of SCO ACP");
	if (count && (str_to_u64(count, &n) < 0 || n > GPUS_MAX))
		count = NULL, n = 0;
	*ret = (struct engine_here){ .engine = "sco", .n_gpus = (unsigned int)n };
	ret->id = name && name[0] ? xstrdup(name) : job_of_host(host);
	ret->key = xasprintf("sco.%s", ret->id);
	for (char *p = ret->key; *p; p++)
		*p = isalnum((unsigned char)*p) || *p == '.' ? (char)tolower((unsigned char)*p)
							     : '-';
	ret->node = host && host[0] ? xstrdup(host) : NULL;
	/* It has none, and says so. */
	ret->gpus = gpus && gpus[0] ? xstrdup(gpus) : count && !n ? xstrdup("") : NULL;
	return 0;
}
