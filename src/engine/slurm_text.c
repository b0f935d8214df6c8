/* SPDX-License-Identifier: MIT */
/*
 * Slurm's languages: the script that goes in, the columns that come out. All of it is a function
 * over text, so that what was once printed somewhere can be a test's input.
 *
 * Whatever is not known is let by: a state that a newer version has makes a job "unknown", a line
 * that is none of a table is passed over. Only where nothing at all can be read that is an error,
 * because then "we have no jobs" would be a guess.
 */
#include "engine/slurm_text.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/textlist.h"
#include "base/utf8.h"
#include "engine/script.h"

#define MARK "#SBATCH"

/* -------- the script -------- */

const struct engine_key slurm_keys[] = {
	{ "cluster", "the cluster that all commands ask, where they know several", NULL, false },
	{ "partition", "where jobs go, and whose nodes are counted", NULL, false },
	{ NULL, NULL, NULL, false },
};

/* It becomes part of a line of the script. */
static bool is_word(const char *text)
{
	for (; *text; text++)
		if (isspace((unsigned char)*text) || iscntrl((unsigned char)*text))
			return false;
	return true;
}

static int check_words(const struct engine_request *req, struct err *e)
{
	const char *partition = engine_key_value(slurm_keys, req->settings, "partition");

	if (req->type && !is_word(req->type))
		return err_set(e, -EINVAL, "\"%s\" is no type of GPUs", req->type);
	if (partition && !is_word(partition))
		return err_set(e, -EINVAL, "\"%s\" is no partition", partition);
	for (size_t i = 0; req->exclude && i < req->exclude->n; i++)
		if (!is_word(req->exclude->texts[i]))
			return err_set(e, -EINVAL, "\"%s\" is no node", req->exclude->texts[i]);
	if (strpbrk(req->output, "\n") || strpbrk(req->dir, "\n"))
		return err_set(e, -EINVAL, "a job's directory has a newline in its name");
	return 0;
}

/* Options that would take the job from us: it could not be found again, or would be several. */
static const struct {
	const char *option, *letter;
	const char *instead;
} not_yours[] = {
	{ "--array", "-a", "the pool's own number of nodes makes several jobs" },
	{ "--clusters", "-M", "the key cluster=NAME has all commands ask there" },
	{ "--job-name", "-J", "jobs are found again by their names" },
	{ "--nodes", "-N", "a job is one node, and the pool's own number makes several" },
	{ "--ntasks", "-n", "a job is one agent, which runs the tasks" },
	{ "--wait", "-W", "it would wait for the job's end" },
	{ "--wrap", NULL, "the job runs an agent" },
	{ "--test-only", NULL, "nothing would run" },
};

/* sbatch takes the beginning of an option for it: "--arr=1". What is the beginning of several it
 * refuses, so that these are none of ours to tell apart. */
static bool has_short_form(const char *line, const char *option)
{
	for (const char *p = line; (p = strstr(p, "--")); p += 2) {
		size_t n = strcspn(p, "= \t");

		if ((p == line || isspace((unsigned char)p[-1])) && n > 2 &&
		    strncmp(p, option, n) == 0)
			return true;
	}
	return false;
}

/* line has that option: "--array=1", "--partition=gpu --array 1", "-a1". */
static bool has_option(const char *line, const char *option, const char *letter)
{
	size_t n = strlen(option);

	if (letter && str_has_prefix(line, letter))
		return true;
	for (const char *p = line; (p = strstr(p, option)); p += n)
		if ((p == line || isspace((unsigned char)p[-1])) && p[n] != '-')
			return true;
	return has_short_form(line, option);
}

static int check_options(const struct text_list *options, struct err *e)
{
	for (size_t i = 0; options && i < options->n; i++) {
		const char *line = options->texts[i];

		if (strchr(line, '\n'))
			return err_set(e, -EINVAL, "an option of sbatch is one line");
		if (str_has_prefix(line, MARK))
			line += strlen(MARK);
		else if (line[0] == '#')
			continue;
		line += strspn(line, " \t");
		if (line[0] != '-') /* sbatch would pass over it, and say nothing */
			return err_set(e, -EINVAL,
				       "\"%s\" is no option of sbatch: one begins with --, or with "
				       "- and has its value in the same word: '-p gpu'",
				       line);
		for (size_t k = 0; k < ARRAY_LEN(not_yours); k++)
			if (has_option(line, not_yours[k].option, not_yours[k].letter))
				return err_set(e, -EINVAL,
					       "\"%s\": %s is not for a pool's jobs: %s", line,
					       not_yours[k].option, not_yours[k].instead);
	}
	return 0;
}

/* Of --output, where % begins a pattern. */
static char *literal_pattern(const char *path)
{
	struct strbuf b = STRBUF_INIT;

	for (; *path; path++)
		strbuf_adds(&b, *path == '%' ? "%%" : (const char[]){ *path, '\0' });
	return strbuf_take(&b);
}

/* "--chdir=/a/b"; a value with a space in it in quotes. */
static void add_quoted_directive(struct strbuf *b, const struct engine_request *req,
				 const char *option, const char *value)
{
	cleanup_strbuf struct strbuf word = STRBUF_INIT;

	strbuf_add_word(&word, value);
	script_add_directive(b, MARK, req, "%s=%s", option, strbuf_str(&word));
}

static char *list_of(const struct text_list *l)
{
	struct strbuf b = STRBUF_INIT;

	for (size_t i = 0; l && i < l->n; i++)
		strbuf_addf(&b, "%s%s", i ? "," : "", l->texts[i]);
	return strbuf_take(&b);
}

static unsigned int cpus_of(const struct engine_request *req)
{
	unsigned int gpus = req->gpus ? req->gpus : 1;

	return req->cpus ? req->cpus : gpus * ENGINE_CPUS_PER_GPU;
}

static unsigned long long mem_of(const struct engine_request *req)
{
	unsigned long long gpus = req->gpus ? req->gpus : 1;

	return req->mem_mib ? req->mem_mib : gpus * ENGINE_MEM_PER_GPU_MIB;
}

static void add_gpus(struct strbuf *b, const struct engine_request *req)
{
	if (req->gpus && req->type)
		script_add_directive(b, MARK, req, "--gres=gpu:%s:%u", req->type, req->gpus);
	else if (req->gpus)
		script_add_directive(b, MARK, req, "--gres=gpu:%u", req->gpus);
}

static void add_directives(struct strbuf *b, const struct engine_request *req)
{
	const char *partition = engine_key_value(slurm_keys, req->settings, "partition");
	cleanup_free char *output = literal_pattern(req->output);
	cleanup_free char *exclude = list_of(req->exclude);

	script_add_directive(b, MARK, req, "--job-name=%s", req->name);
	add_quoted_directive(b, req, "--output", output);
	script_add_directive(b, MARK, req, "--open-mode=append");
	add_quoted_directive(b, req, "--chdir", req->dir);
	script_add_directive(b, MARK, req, "--nodes=1");
	script_add_directive(b, MARK, req, "--ntasks=1");
	add_gpus(b, req);
	script_add_directive(b, MARK, req, "--cpus-per-task=%u", cpus_of(req));
	script_add_directive(b, MARK, req, "--mem=%lluM", mem_of(req));
	if (req->minutes)
		script_add_directive(b, MARK, req, "--time=%llu", (unsigned long long)req->minutes);
	if (req->warn_s)
		script_add_directive(b, MARK, req, "--signal=USR1@%u", req->warn_s);
	script_add_directive(b, MARK, req, "--no-requeue");
	if (partition)
		script_add_directive(b, MARK, req, "--partition=%s", partition);
	if (*exclude)
		script_add_directive(b, MARK, req, "--exclude=%s", exclude);
	if (req->after)
		script_add_directive(b, MARK, req, "--dependency=afterany:%s", req->after);
}

/*
 * Under srun, because a batch script gets no signal before it is too late. Since 22.05 srun does
 * not take over how many processors the job has, and a step of one task would get one.
 */
#define LAUNCHER                                                                                   \
	"exec srun --mpi=none --ntasks=1 --kill-on-bad-exit=0 "                                    \
	"${SLURM_CPUS_PER_TASK:+--cpus-per-task=$SLURM_CPUS_PER_TASK}"

static int fill_template(const struct engine_request *req, const char *directives,
			 const char *options, struct strbuf *script, struct err *e)
{
	cleanup_strbuf struct strbuf agent = STRBUF_INIT, launch = STRBUF_INIT;
	cleanup_free char *exclude = list_of(req->exclude);
	char gpus[24], cpus[24], mem[24], minutes[24], warn[24];

	for (const char *const *word = req->agent; *word; word++)
		strbuf_add_word(&agent, *word);
	script_add_agent(&launch, LAUNCHER, req);
	const struct script_value values[] = {
		{ "directives", directives },
		{ "options", options },
		{ "setup", "" }, /* others have something there */
		{ "launch", strbuf_str(&launch) },
		{ "agent", strbuf_str(&agent) },
		{ "name", req->name },
		{ "title", req->title },
		{ "token", req->token },
		{ "gpus", str_print(gpus, sizeof(gpus), "%u", req->gpus) },
		{ "type", req->type ? req->type : "" },
		{ "cpus", str_print(cpus, sizeof(cpus), "%u", cpus_of(req)) },
		{ "mem_mib", str_print(mem, sizeof(mem), "%llu", mem_of(req)) },
		{ "minutes",
		  str_print(minutes, sizeof(minutes), "%llu", (unsigned long long)req->minutes) },
		{ "warn_s", str_print(warn, sizeof(warn), "%u", req->warn_s) },
		{ "dir", req->dir },
		{ "output", req->output },
		{ "exclude", exclude },
		{ NULL, NULL },
	};

	return script_fill(req->template_text, values, script, e);
}

int slurm_script(const struct engine_request *req, struct strbuf *script, struct err *e)
{
	cleanup_strbuf struct strbuf directives = STRBUF_INIT, options = STRBUF_INIT;
	int r = engine_keys_check("slurm", slurm_keys, req->settings, e);

	if (r == 0)
		r = check_options(req->options, e);
	if (r == 0)
		r = check_words(req, e);
	if (r < 0)
		return r;
	add_directives(&directives, req);
	script_add_options(&options, MARK, req);
	if (req->template_text)
		return fill_template(req, strbuf_str(&directives), strbuf_str(&options), script, e);
	strbuf_addf(script, "#!/bin/sh\n%s%s", strbuf_str(&directives), strbuf_str(&options));
	script_add_agent(script, LAUNCHER, req);
	return 0;
}

/* -------- what sbatch says -------- */

/* The number at p, of a job; NULL. */
static char *id_at(const char *p)
{
	size_t n = strspn(p, "0123456789");

	return n && n < ENGINE_JOB_ID_MAX && strchr(";\n \t", p[n]) ? xasprintf("%.*s", (int)n, p)
								    : NULL;
}

char *slurm_read_id(const char *out)
{
	static const char said[] = "Submitted batch job ";
	const char *p = strstr(out, said);
	char *id = p ? id_at(p + sizeof(said) - 1) : NULL;

	/* Sites print greetings before it. */
	for (p = out; *p && !id;) {
		size_t n = strcspn(p, "\n");
		cleanup_free char *line = xasprintf("%.*s", (int)n, p);
		const char *word = line + strspn(line, " \t");

		if (!strchr(word, ' '))
			id = id_at(word);
		p += n + (p[n] == '\n');
	}
	return id;
}

int slurm_read_refusal(const char *said)
{
	static const struct {
		const char *text;
		int means;
	} words[] = {
		{ "Unable to contact slurm controller", ENGINE_UNSURE },
		{ "Socket timed out", ENGINE_UNSURE },
		{ "Zero Bytes were transmitted", ENGINE_UNSURE },
		{ "Transport endpoint is not connected", ENGINE_UNSURE },
		{ "Communication connection failure", ENGINE_UNSURE },
		{ "Connection refused", ENGINE_UNSURE },
		{ "Unexpected message received", ENGINE_UNSURE },
		{ "backup controller in standby", ENGINE_UNSURE },
		{ "temporarily unable to accept job", -EAGAIN },
		{ "Resource temporarily unavailable", -EAGAIN },
		{ "Cannot allocate memory", -EAGAIN },
		{ "Could not establish a configuration source", -EAGAIN },
		{ "Unable to process configuration file", -EAGAIN },
	};

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strcasestr(said, words[i].text))
			return words[i].means;
	return ENGINE_REFUSED;
}

void slurm_read_errors(const char *said, struct strbuf *ret)
{
	static const char *const marks_of_errors[] = { "error: ", "fatal: ", "failure: " };

	while (*said) {
		size_t n = strcspn(said, "\n");
		cleanup_free char *line = utf8_clean(xasprintf("%.*s", (int)n, said));

		for (size_t i = 0; i < ARRAY_LEN(marks_of_errors); i++) {
			const char *p = strstr(line, marks_of_errors[i]);

			if (!p)
				continue;
			strbuf_addf(ret, "%s%s", ret->len ? "; " : "",
				    p + strlen(marks_of_errors[i]));
			break;
		}
		said += n + (said[n] == '\n');
	}
}

/* "sbatch: Job 3 to start at 1795525327 using 4 processors on nodes qa-a10-001 in partition gpu",
 * and behind it "sbatch:   Preempts: 12,13". */
int slurm_read_test(const char *said, uint64_t *ret_ns, struct strbuf *words, struct err *e)
{
	static const char start[] = " to start at ", preempts[] = "Preempts: ";
	const char *p = strstr(said, start);
	char local[CLOCK_TEXT_MAX];

	if (!p)
		return err_set(e, -EBADMSG, "sbatch --test-only does not say when: %.*s",
			       (int)strcspn(said, "\n"), said);
	p += sizeof(start) - 1;

	size_t n = strcspn(p, " \n");
	cleanup_free char *time = xasprintf("%.*s", (int)n, p);

	(void)utf8_clean(time);
	*ret_ns = slurm_read_time(time);
	strbuf_addf(words, "%s%.*s", *ret_ns ? clock_format_local(*ret_ns, local) : time,
		    (int)strcspn(p + n, "\n"), p + n);
	p = strstr(said, preempts);
	if (p)
		strbuf_addf(words, ", which would preempt the jobs %.*s",
			    (int)strcspn(p + sizeof(preempts) - 1, "\n"), p + sizeof(preempts) - 1);
	return 0;
}

/* -------- jobs -------- */

/* Cuts line into n fields at "|"; the last one keeps those that it has. */
static bool cut(char *line, char **fields, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		fields[i] = line;
		if (i + 1 == n)
			break;
		line = strchr(line, '|');
		if (!line)
			return false;
		*line++ = '\0';
	}
	return true;
}

static const char *const nothing[] = { "", "N/A", "None", "none", "(null)", "NONE", "Unknown" };

static char *word_or_null(const char *text)
{
	for (size_t i = 0; i < ARRAY_LEN(nothing); i++)
		if (strcmp(text, nothing[i]) == 0)
			return NULL;
	return xstrdup(text);
}

uint64_t slurm_read_time(const char *word)
{
	struct tm tm = { .tm_isdst = -1 };
	uint64_t s;

	if (str_to_u64(word, &s) < 0) {
		const char *end = strptime(word, "%Y-%m-%dT%H:%M:%S", &tm);
		time_t t = end && !*end ? mktime(&tm) : -1;

		s = t > 0 ? (uint64_t)t : 0;
	}
	return s < UINT64_MAX / NS_PER_S ? s * NS_PER_S : 0;
}

/* Reasons for which a job waits until somebody does something about it. */
static bool is_held(const char *reason)
{
	static const char *const held[] = {
		"JobHeldUser",
		"JobHeldAdmin",
		"JobHoldMaxRequeue",
		"BadConstraints",
		"DependencyNeverSatisfied",
		"InvalidAccount",
		"InvalidQOS",
		"PartitionTimeLimit",
		"AccountNotAllowed",
		"QOSNotAllowed",
		"launch failed requeued held",
		"job requeued in held state",
	};

	for (size_t i = 0; reason && i < ARRAY_LEN(held); i++)
		if (strcasestr(reason, held[i]))
			return true;
	return false;
}

enum engine_job_state slurm_job_state(const char *word, const char *reason)
{
	static const struct {
		const char *word;
		enum engine_job_state state;
	} states[] = {
		{ "PENDING", ENGINE_JOB_WAITING },	{ "REQUEUED", ENGINE_JOB_WAITING },
		{ "REQUEUE_FED", ENGINE_JOB_WAITING },	{ "REQUEUE_HOLD", ENGINE_JOB_HELD },
		{ "RESV_DEL_HOLD", ENGINE_JOB_HELD },	{ "SPECIAL_EXIT", ENGINE_JOB_HELD },
		{ "CONFIGURING", ENGINE_JOB_STARTING }, { "POWER_UP_NODE", ENGINE_JOB_STARTING },
		{ "RUNNING", ENGINE_JOB_RUNNING },	{ "SIGNALING", ENGINE_JOB_RUNNING },
		{ "RESIZING", ENGINE_JOB_RUNNING },	{ "SUSPENDED", ENGINE_JOB_SUSPENDED },
		{ "STOPPED", ENGINE_JOB_SUSPENDED },	{ "COMPLETING", ENGINE_JOB_ENDING },
		{ "STAGE_OUT", ENGINE_JOB_ENDING },	{ "COMPLETED", ENGINE_JOB_DONE },
		{ "TIMEOUT", ENGINE_JOB_EXPIRED },	{ "DEADLINE", ENGINE_JOB_EXPIRED },
		{ "PREEMPTED", ENGINE_JOB_EXPIRED },	{ "CANCELLED", ENGINE_JOB_CANCELLED },
		{ "REVOKED", ENGINE_JOB_CANCELLED },	{ "FAILED", ENGINE_JOB_FAILED },
		{ "BOOT_FAIL", ENGINE_JOB_FAILED },	{ "NODE_FAIL", ENGINE_JOB_FAILED },
		{ "OUT_OF_MEMORY", ENGINE_JOB_FAILED }, { "LAUNCH_FAILED", ENGINE_JOB_FAILED },
	};
	/* "CANCELLED by 1001" */
	size_t n = strcspn(word, " +");

	for (size_t i = 0; i < ARRAY_LEN(states); i++)
		if (strlen(states[i].word) == n && strncmp(states[i].word, word, n) == 0)
			return states[i].state == ENGINE_JOB_WAITING && is_held(reason)
				       ? ENGINE_JOB_HELD
				       : states[i].state;
	return ENGINE_JOB_UNKNOWN;
}

/* "4", "4K". */
static bool read_count(const char *text, unsigned int *ret)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);
	unsigned long unit = *end == 'K' ? 1024 : *end == 'M' ? 1024 * 1024 : 1;

	if (end == text || end[unit > 1] || n > 65536 / unit)
		return false;
	*ret = (unsigned int)(n * unit);
	return true;
}

/* "gpu:a10:4(S:0-1)", "gpu:4": its type, which is inside item, or NULL, and how many. */
static bool read_gres_item(char *item, const char **type, unsigned int *n)
{
	char *words[3] = { item };
	size_t n_words = 1;

	item[strcspn(item, "(")] = '\0';
	for (char *p = item; (p = strchr(p, ':')) && n_words < ARRAY_LEN(words);) {
		*p++ = '\0';
		words[n_words++] = p;
	}
	*type = n_words > 2 ? words[1] : NULL;
	return strcmp(words[0], "gpu") == 0 && n_words > 1 && read_count(words[n_words - 1], n);
}

enum job_field {
	JOB_ID,
	JOB_STATE,
	JOB_NODE,
	JOB_START,
	JOB_END,
	JOB_SIZE, /* nodes */
	JOB_GRES, /* of each node */
	JOB_NAME,
	JOB_REASON,
	JOB_FIELDS
};

/* "gres:gpu:a10:2,gres:gpu:1", "gres/gpu:2": how many of them are asked for. False: it does not
 * tell of any. */
static bool count_gpus(char *text, unsigned int *ret)
{
	char *save = NULL;
	bool any = false;

	*ret = 0;
	for (char *item = strtok_r(text, ",", &save); item; item = strtok_r(NULL, ",", &save)) {
		const char *type;
		unsigned int n;

		if (str_has_prefix(item, "gres:") || str_has_prefix(item, "gres/"))
			item += strlen("gres:");
		if (!read_gres_item(item, &type, &n))
			continue;
		*ret += n;
		any = true;
	}
	return any;
}

/* "2", "1-4": at least so many. */
static unsigned int count_of(const char *text)
{
	unsigned long n = strtoul(text, NULL, 10);

	return n && n <= 65536 ? (unsigned int)n : 1;
}

struct job_lines {
	const char *prefix;
	struct engine_jobs *ret;
};

static bool read_job(char *line, void *into)
{
	const struct job_lines *jobs = into;
	char *f[JOB_FIELDS];

	if (!cut(line, f, JOB_FIELDS) || !f[JOB_ID][0])
		return false;
	if (!engine_name_begins(f[JOB_NAME], jobs->prefix))
		return true;

	struct engine_job *job = engine_jobs_add(jobs->ret);

	job->id = xstrdup(f[JOB_ID]);
	job->name = xstrdup(f[JOB_NAME]);
	job->node = word_or_null(f[JOB_NODE]);
	job->reason = word_or_null(f[JOB_REASON]);
	job->state = slurm_job_state(f[JOB_STATE], job->reason);
	job->start_ns = slurm_read_time(f[JOB_START]);
	job->end_ns = slurm_read_time(f[JOB_END]);
	job->gpus_known = count_gpus(f[JOB_GRES], &job->gpus);
	job->gpus *= count_of(f[JOB_SIZE]);
	return true;
}

/* read() takes each line, or says that it is none of its table. 0; -EBADMSG: there are lines, and
 * it took none. */
static int read_lines(const char *out, bool (*read)(char *line, void *into), void *into,
		      const char *command, struct err *e)
{
	cleanup_free char *odd = NULL;
	size_t taken = 0;

	while (*out) {
		size_t n = strcspn(out, "\n");
		cleanup_free char *line = utf8_clean(xasprintf("%.*s", (int)n, out));
		cleanup_free char *copy = xstrdup(line);

		/* With --clusters each cluster's part has a heading. */
		if (str_has_prefix(line, "CLUSTER: ") || (n && read(line, into)))
			taken++;
		else if (n && !odd)
			odd = take_ptr(copy);
		out += n + (out[n] == '\n');
	}
	if (odd && !taken)
		return err_set(e, -EBADMSG, "%s prints what tenure cannot read: %.200s", command,
			       odd);
	return 0;
}

int slurm_read_jobs(const char *out, const char *prefix, struct engine_jobs *ret, struct err *e)
{
	struct job_lines jobs = { prefix, ret };

	*ret = (struct engine_jobs){ .n = 0 };
	return read_lines(out, read_job, &jobs, "squeue", e);
}

enum ask_field {
	ASK_ID,
	ASK_NODES,
	ASK_TASKS,
	ASK_OF_JOB,
	ASK_OF_NODE,
	ASK_OF_SOCKET,
	ASK_OF_TASK,
	ASK_REST, /* behind the last separator */
	ASK_FIELDS
};

/* What a job asked for in one of four ways. */
static bool read_asked(char *line, void *into)
{
	struct engine_jobs *jobs = into;
	char *f[ASK_FIELDS];

	if (!cut(line, f, ASK_FIELDS) || !f[ASK_ID][0])
		return false;

	const struct {
		char *text;
		unsigned int times;
	} ways[] = {
		{ f[ASK_OF_JOB], 1 },
		{ f[ASK_OF_NODE], count_of(f[ASK_NODES]) },
		{ f[ASK_OF_SOCKET], count_of(f[ASK_NODES]) },
		{ f[ASK_OF_TASK], count_of(f[ASK_TASKS]) },
	};
	unsigned int gpus = 0;

	for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
		unsigned int n;

		if (!gpus && count_gpus(ways[i].text, &n))
			gpus = n * ways[i].times;
	}
	for (size_t i = 0; i < jobs->n; i++)
		if (!jobs->all[i].gpus_known && strcmp(jobs->all[i].id, f[ASK_ID]) == 0) {
			jobs->all[i].gpus = gpus;
			jobs->all[i].gpus_known = true;
		}
	return true;
}

int slurm_read_asked(const char *out, struct engine_jobs *jobs, struct err *e)
{
	return read_lines(out, read_asked, jobs, "squeue", e);
}

/* -------- nodes -------- */

struct gres {
	char *type; /* NULL: it has none */
	unsigned int total, used;
};

#define TYPES_MAX 8 /* of GPUs in one node */

struct node_gpus {
	size_t n;
	struct gres all[TYPES_MAX];
};

static bool same_type(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static struct gres *gres_of(struct node_gpus *gpus, const char *type, bool used)
{
	for (size_t i = 0; i < gpus->n; i++)
		if (same_type(gpus->all[i].type, type))
			return &gpus->all[i];
	if (used) /* what is counted without a type, or with one that the node does not say */
		return gpus->n == 1 ? &gpus->all[0] : NULL;
	if (gpus->n == TYPES_MAX)
		return NULL;
	gpus->all[gpus->n] = (struct gres){ .type = type ? xstrdup(type) : NULL };
	return &gpus->all[gpus->n++];
}

/* "gpu:a10:2(S:0),gpu:t4:2(IDX:0,2),shard:a10:4": commas count outside parentheses only. */
static void read_gres(char *text, bool used, struct node_gpus *gpus)
{
	while (*text) {
		const char *type;
		unsigned int n;
		int depth = 0;
		char *end = text;

		for (; *end && (depth > 0 || *end != ','); end++)
			depth += (*end == '(') - (*end == ')');

		char *next = end + (*end != '\0');

		*end = '\0';
		if (read_gres_item(text, &type, &n)) {
			struct gres *g = gres_of(gpus, type, used);

			if (g && used)
				g->used += n;
			else if (g)
				g->total += n;
		}
		text = next;
	}
}

/* Marks behind a state, and what they say of a node. */
static const struct {
	char mark;
	bool usable;
	const char *why;
} marks[] = {
	{ '*', false, "does not answer" },
	{ '~', true, NULL }, /* it is off to save power, and a job starts it */
	{ '#', true, NULL }, /* it is starting */
	{ '!', false, "is about to go off" },
	{ '%', false, "is going off" },
	{ '$', false, "reserved for maintenance" },
	{ '@', false, "is about to start anew" },
	{ '^', false, "is starting anew" },
	{ '-', false, "planned for another job" },
	{ '+', true, NULL },
};

static const char *const usable_states[] = { "idle", "mixed", "allocated", "completing" };

/* The state in words where no job can get the node; NULL: one can. */
static char *why_unusable(char *state, const char *reason)
{
	cleanup_strbuf struct strbuf why = STRBUF_INIT;
	cleanup_free char *known_reason = word_or_null(reason);
	bool usable = false;
	size_t n = strlen(state);

	for (; n; state[--n] = '\0') {
		size_t i = 0;

		while (i < ARRAY_LEN(marks) && marks[i].mark != state[n - 1])
			i++;
		if (i == ARRAY_LEN(marks))
			break;
		if (!marks[i].usable)
			strbuf_addf(&why, "%s%s", why.len ? ", " : "", marks[i].why);
	}
	for (size_t i = 0; i < ARRAY_LEN(usable_states); i++)
		usable = usable || strcasecmp(state, usable_states[i]) == 0;
	if (usable && !why.len)
		return NULL;
	if (!usable)
		strbuf_addf(&why, "%s%s", why.len ? ", " : "", state);
	if (known_reason)
		strbuf_addf(&why, ": %s", known_reason);
	return strbuf_take(&why);
}

struct node_line {
	char *name, *state, *reason, *gres, *gres_used;
	bool full; /* no processor, or no memory, is left */
};

static void add_node(struct node_line *line, struct engine_nodes *ret)
{
	struct node_gpus gpus = { .n = 0 };
	cleanup_free char *why = why_unusable(line->state, line->reason);

	read_gres(line->gres, false, &gpus);
	read_gres(line->gres_used, true, &gpus);
	for (size_t i = 0; i < gpus.n; i++) {
		const struct gres *g = &gpus.all[i];
		struct engine_node *node = engine_nodes_add(ret);

		node->name = xstrdup(line->name);
		node->type = g->type;
		node->why = why ? xstrdup(why) : NULL;
		node->usable = !why;
		node->total = g->total;
		node->used = g->used < g->total ? g->used : g->total;
		node->free = node->usable ? node->total - node->used : 0;
		node->blocked = line->full ? node->free : 0;
	}
}

/* One of several partitions follows itself in the list, so that looking back finds it at once. */
static bool is_told(const struct engine_nodes *nodes, const char *name)
{
	for (size_t i = nodes->n; i-- > 0;)
		if (strcmp(nodes->all[i].name, name) == 0)
			return true;
	return false;
}

#define LEAST_MIB 1024 /* a process that uses a GPU does not come up with less */

/* Its processors are "allocated/idle/other/total". Where memory is not handed out nothing of it is
 * allocated. What a pool asks for plays no part: the answer is every pool's. */
static bool is_full(const char *cpus, const char *allocated_mib, const char *mib)
{
	uint64_t used, all;
	const char *idle = strchr(cpus, '/');

	if (idle && strtoul(idle + 1, NULL, 10) == 0)
		return true;
	return str_to_u64(allocated_mib, &used) == 0 && str_to_u64(mib, &all) == 0 && used &&
	       (used >= all || all - used < LEAST_MIB);
}

enum node_field {
	NODE_NAME,
	NODE_STATE,
	NODE_CPUS,
	NODE_ALLOCATED,
	NODE_MEMORY,
	NODE_GRES,
	NODE_USED,
	NODE_REASON,
	NODE_FIELDS
};

static bool read_node(char *text, void *into)
{
	struct engine_nodes *ret = into;
	char *f[NODE_FIELDS];

	if (!cut(text, f, NODE_FIELDS) || !f[NODE_NAME][0])
		return false;

	char *reason = f[NODE_REASON];
	size_t n = strlen(reason);
	struct node_line line = { .name = f[NODE_NAME],
				  .state = f[NODE_STATE],
				  .reason = reason,
				  .gres = f[NODE_GRES],
				  .gres_used = f[NODE_USED],
				  .full = is_full(f[NODE_CPUS], f[NODE_ALLOCATED],
						  f[NODE_MEMORY]) };

	if (n && reason[n - 1] == '|')
		reason[n - 1] = '\0';
	if (!is_told(ret, line.name))
		add_node(&line, ret);
	return true;
}

int slurm_read_nodes(const char *out, struct engine_nodes *ret, struct err *e)
{
	*ret = (struct engine_nodes){ .n = 0 };
	return read_lines(out, read_node, ret, "sinfo", e);
}

/* The value of " Key=" in a line of scontrol's, up to the next key; "" where there is none. Values
 * hold spaces. The caller frees it. */
static char *value_of(const char *line, const char *key)
{
	const char *p = strstr(line, key);
	const char *end;

	if (!p)
		return xstrdup("");
	p += strlen(key);
	for (end = p; *end; end++) {
		size_t word = *end == ' ' ? strspn(end + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
							    "abcdefghijklmnopqrstuvwxyz_")
					  : 0;

		if (word && isupper((unsigned char)end[1]) && end[1 + word] == '=')
			break;
	}
	return xasprintf("%.*s", (int)(end - p), p);
}

/* "MIXED+DRAIN" is what sinfo calls draining. */
static const char *short_state(char *state)
{
	static const struct {
		const char *flag, *state;
	} flags[] = {
		{ "+DRAIN", "draining" },	 { "+NOT_RESPONDING", "down*" },
		{ "+MAINTENANCE", "maint" },	 { "+RESERVED", "reserved" },
		{ "+PLANNED", "planned" },	 { "+POWERING_DOWN", "powering_down" },
		{ "+POWERED_DOWN", "idle~" },	 { "+REBOOT", "reboot" },
		{ "+COMPLETING", "completing" }, { "+FAIL", "failing" },
	};

	for (size_t i = 0; i < ARRAY_LEN(flags); i++)
		if (strstr(state, flags[i].flag))
			return flags[i].state;
	state[strcspn(state, "+")] = '\0';
	return state;
}

static bool read_node_long(char *text, void *into)
{
	static const char first[] = "NodeName=";
	struct engine_nodes *ret = into;
	cleanup_free char *state = value_of(text, " State="), *gres = value_of(text, " Gres=");
	cleanup_free char *used = value_of(text, " GresUsed="),
			  *reason = value_of(text, " Reason=");
	cleanup_free char *cpus = value_of(text, " CPUAlloc="), *all = value_of(text, " CPUTot=");
	cleanup_free char *mem = value_of(text, " AllocMem="),
			  *mib = value_of(text, " RealMemory=");
	uint64_t n_cpus = 0, n_all = 0;

	if (!str_has_prefix(text, first))
		return false;

	cleanup_free char *told = xstrdup(short_state(state));
	struct node_line line = { .name = text + sizeof(first) - 1,
				  .state = told,
				  .reason = reason,
				  .gres = gres,
				  .gres_used = used,
				  .full = is_full("", mem, mib) };

	line.name[strcspn(line.name, " ")] = '\0';
	if (str_to_u64(cpus, &n_cpus) == 0 && str_to_u64(all, &n_all) == 0)
		line.full = line.full || n_cpus >= n_all;
	if (!is_told(ret, line.name))
		add_node(&line, ret);
	return true;
}

int slurm_read_nodes_long(const char *out, struct engine_nodes *ret, struct err *e)
{
	*ret = (struct engine_nodes){ .n = 0 };
	return read_lines(out, read_node_long, ret, "scontrol", e);
}

/* -------- from within -------- */

static unsigned int count_list(const char *list)
{
	unsigned int n = *list != '\0';

	for (; *list; list++)
		n += *list == ',';
	return n;
}

/*
 * The numbers of the cards as programs of the job count them. Where the site shows a job only its
 * own (ConstrainDevices) they begin at 0, and SLURM_JOB_GPUS has the node's; where it does not,
 * both are the node's. Without the cards' word from Slurm, CUDA_VISIBLE_DEVICES is somebody else's,
 * who had it in his environment when he submitted.
 */
static void read_granted(const char *const *variables, struct engine_here *ret)
{
	const char *visible = script_variable(variables, "CUDA_VISIBLE_DEVICES=");
	const char *step = script_variable(variables, "SLURM_STEP_GPUS=");
	const char *job = script_variable(variables, "SLURM_JOB_GPUS=");
	const char *count = script_variable(variables, "SLURM_GPUS_ON_NODE=");
	const char *numbers = step && step[0] ? step : job;
	bool granted = numbers || count;
	uint64_t n = 0;

	if (!granted)
		return;
	if (visible && visible[0] && strcmp(visible, "NoDevFiles") != 0)
		numbers = visible;
	if (numbers && numbers[0])
		ret->gpus = xstrdup(numbers);
	if (count && str_to_u64(count, &n) == 0 && n <= UINT16_MAX)
		ret->n_gpus = (unsigned int)n;
	else if (ret->gpus)
		ret->n_gpus = count_list(ret->gpus);
}

int slurm_here(const char *const *variables, struct engine_here *ret, struct err *e)
{
	const char *id = script_variable(variables, "SLURM_JOB_ID=");
	const char *node = script_variable(variables, "SLURMD_NODENAME=");
	const char *restarts = script_variable(variables, "SLURM_RESTART_COUNT=");
	const char *end = script_variable(variables, "SLURM_JOB_END_TIME=");
	uint64_t n = 0;

	/* A shell of salloc's is not on the node, and has no such name. */
	if (!id || !node || !id[0] || id[strspn(id, "0123456789")])
		return err_set(e, -ENOENT, "no job of Slurm's");
	*ret = (struct engine_here){ .engine = "slurm", .id = xstrdup(id), .node = xstrdup(node) };
	if (restarts && str_to_u64(restarts, &n) == 0 && n <= UINT16_MAX)
		ret->restarts = (unsigned int)n;
	ret->key = xasprintf("slurm.%s.%u", id, ret->restarts);
	ret->end_ns = end ? slurm_read_time(end) : 0;
	read_granted(variables, ret);
	return 0;
}
