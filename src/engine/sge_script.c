/* SPDX-License-Identifier: MIT */
#include "engine/sge_script.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/script.h"

#define MARK "#$"
/* What the script of ours says to the agent. */
#define GPUS_VARIABLE  "TENURE_SGE_GPUS"
#define END_VARIABLE   "TENURE_SGE_END" /* seconds since the epoch */
#define START_VARIABLE "TENURE_SGE_START"
#define GRANT_PREFIX   "SGE_HGR_" /* Univa's and Altair's: which ones of a resource */

const struct engine_key sge_keys[] = {
	{ "queue", "the queue, with its group of hosts: gpu@@crc_gpu", NULL, false },
	{ "complex", "the resource that counts GPUs", "gpu", false },
	{ "count", "whether that counts by \"job\" or by \"slot\"", "job", false },
	{ "pe", "the parallel environment in which several slots are had", NULL, false },
	{ "memory", "the resource that is memory, of each slot", NULL, false },
	{ "types", "where GPUs of which type are: a10=qa-a10-*,h100=@csecri_h100", NULL, false },
	{ "type_complex", "the resource that says the type of GPUs", NULL, false },
	{ "root", "SGE_ROOT, where the environment has none", NULL, false },
	{ "cell", "SGE_CELL, where the environment has none", NULL, false },
	{ "qsub", "the command that submits", "qsub", false },
	{ NULL, NULL, NULL, false },
};

const char *sge_setting(const struct text_list *settings, const char *name)
{
	return engine_key_value(sge_keys, settings, name);
}

bool sge_next_type(const char **rest, char **ret_type, char **ret_hosts)
{
	while (*rest && **rest) {
		const char *p = *rest + strspn(*rest, ", ");
		size_t n = strcspn(p, ", "), type = strcspn(p, "=");

		*rest = p + n;
		if (!n || type + 1 >= n || !type)
			continue;
		*ret_type = xasprintf("%.*s", (int)type, p);
		*ret_hosts = xasprintf("%.*s", (int)(n - type - 1), p + type + 1);
		return true;
	}
	return false;
}

bool sge_is_dropped(const struct engine_request *req, const char *option)
{
	for (size_t i = 0; req->drop && i < req->drop->n; i++)
		if (str_has_prefix(option, req->drop->texts[i]))
			return true;
	return false;
}

/* -------- what it asks for -------- */

struct asked {
	unsigned int slots, gpus; /* gpus: as they stand behind -l, for the job or for each slot */
	uint64_t h_rt_s, s_rt_s;  /* 0: not said */
	uint64_t mem_mib;	  /* for each slot */
};

static struct asked what_is_asked(const struct engine_request *req)
{
	const char *count = sge_setting(req->settings, "count");
	uint64_t mem = req->mem_mib;
	struct asked a = { .slots = 1, .gpus = req->gpus, .h_rt_s = req->minutes * 60 };

	if (!mem)
		mem = ENGINE_MEM_PER_GPU_MIB * (uint64_t)(req->gpus ? req->gpus : 1);
	if (sge_setting(req->settings, "pe")) {
		a.slots = req->cpus ? req->cpus : ENGINE_CPUS_PER_GPU * req->gpus;
		if (strcmp(count, "slot") == 0 && req->gpus) {
			a.slots = req->gpus;
			a.gpus = 1;
		}
		a.slots = a.slots ? a.slots : 1;
	}
	a.mem_mib = (mem + a.slots - 1) / a.slots;
	if (req->warn_s && a.h_rt_s > req->warn_s)
		a.s_rt_s = a.h_rt_s - req->warn_s;
	return a;
}

static void add_hms(struct strbuf *b, uint64_t s)
{
	strbuf_addf(b, "%llu:%llu:%llu", (unsigned long long)(s / 3600),
		    (unsigned long long)(s / 60 % 60), (unsigned long long)(s % 60));
}

/* Where GPUs of the wanted type are, by the setting "types"; NULL. The caller frees it. */
static char *hosts_of_type(const struct engine_request *req)
{
	const char *rest = sge_setting(req->settings, "types");
	char *type, *hosts;

	while (req->type && sge_next_type(&rest, &type, &hosts)) {
		bool is_it = strcmp(type, req->type) == 0;

		free(type);
		if (is_it)
			return hosts;
		free(hosts);
	}
	return NULL;
}

/* "qa-a10-*&!(qa-a10-023|qa-a10-023.*)": hosts that have the type, without those that are not
 * wanted, whichever way the cluster writes their names. */
static void add_hosts(struct strbuf *b, const struct engine_request *req)
{
	cleanup_free char *hosts = hosts_of_type(req);
	size_t excluded = req->exclude ? req->exclude->n : 0;

	if (hosts && hosts[0] != '@')
		strbuf_adds(b, hosts);
	if (excluded && b->len)
		strbuf_addc(b, '&');
	for (size_t i = 0; i < excluded; i++) {
		const char *node = req->exclude->texts[i];
		int n = (int)strcspn(node, ".");

		strbuf_addf(b, "%s%.*s|%.*s.*", i ? "|" : "!(", n, node, n, node);
	}
	if (excluded)
		strbuf_addc(b, ')');
}

/* "gpu@@crc_gpu": the pool's queue, on the group of hosts that has the type. */
static void add_queue(struct strbuf *b, const struct engine_request *req)
{
	const char *queue = sge_setting(req->settings, "queue");
	cleanup_free char *hosts = hosts_of_type(req);

	if (hosts && hosts[0] == '@')
		strbuf_addf(b, "%.*s@%s", queue ? (int)strcspn(queue, "@") : 1, queue ? queue : "*",
			    hosts);
	else if (queue)
		strbuf_adds(b, queue);
}

/* -------- directives -------- */

/* What qsub takes as it is: $ and , mean something to it, what is before a colon were a host. */
static bool is_plain(const char *path)
{
	return !strpbrk(path, "$,:'\"\\\t");
}

/* As qsub reads it: quoted where there is a space in it. */
static void add_path(struct strbuf *b, const char *path)
{
	strbuf_addf(b, strchr(path, ' ') ? "'%s'" : "%s", path);
}

static void add_limits(struct strbuf *b, const struct engine_request *req, const struct asked *a)
{
	const char *memory = sge_setting(req->settings, "memory");
	const char *type_complex = sge_setting(req->settings, "type_complex");
	cleanup_free char *hosts = hosts_of_type(req);
	cleanup_strbuf struct strbuf text = STRBUF_INIT;

	if (a->gpus)
		script_add_directive(b, MARK, req, "-l %s=%u",
				     sge_setting(req->settings, "complex"), a->gpus);
	if (a->h_rt_s) {
		add_hms(&text, a->h_rt_s);
		script_add_directive(b, MARK, req, "-l h_rt=%s", strbuf_str(&text));
	}
	if (a->s_rt_s) {
		strbuf_reset(&text);
		add_hms(&text, a->s_rt_s);
		script_add_directive(b, MARK, req, "-l s_rt=%s", strbuf_str(&text));
	}
	if (memory)
		script_add_directive(b, MARK, req, "-l %s=%lluM", memory,
				     (unsigned long long)a->mem_mib);
	if (req->type && type_complex && !hosts)
		script_add_directive(b, MARK, req, "-l %s=%s", type_complex, req->type);
	strbuf_reset(&text);
	add_hosts(&text, req);
	if (text.len)
		script_add_directive(b, MARK, req, "-l h='%s'", strbuf_str(&text));
}

static void add_directives(struct strbuf *b, const struct engine_request *req,
			   const struct asked *a)
{
	const char *pe = sge_setting(req->settings, "pe");
	cleanup_strbuf struct strbuf queue = STRBUF_INIT, dir = STRBUF_INIT, out = STRBUF_INIT;

	add_queue(&queue, req);
	/* Of others the script takes care itself: add_setup(). */
	add_path(&dir, is_plain(req->dir) ? req->dir : "/");
	add_path(&out, is_plain(req->output) ? req->output : "/dev/null");
	script_add_directive(b, MARK, req, "-S /bin/sh");
	script_add_directive(b, MARK, req, "-N %s", req->name);
	if (queue.len)
		script_add_directive(b, MARK, req, "-q %s", strbuf_str(&queue));
	if (pe)
		script_add_directive(b, MARK, req, "-pe %s %u", pe, a->slots);
	add_limits(b, req, a);
	if (req->after)
		script_add_directive(b, MARK, req, "-hold_jid %s", req->after);
	script_add_directive(b, MARK, req, "-notify");
	script_add_directive(b, MARK, req, "-r n");
	script_add_directive(b, MARK, req, "-wd %s", strbuf_str(&dir));
	script_add_directive(b, MARK, req, "-j y");
	script_add_directive(b, MARK, req, "-o %s", strbuf_str(&out));
	script_add_directive(b, MARK, req, "-ac token=%s", req->token);
}

static void add_setup(struct strbuf *b, const struct engine_request *req, const struct asked *a)
{
	if (!is_plain(req->output)) {
		strbuf_adds(b, "exec >>");
		strbuf_add_quoted(b, req->output);
		strbuf_adds(b, " 2>&1 || exit\n");
	}
	if (!is_plain(req->dir)) {
		strbuf_adds(b, "cd ");
		strbuf_add_quoted(b, req->dir);
		strbuf_adds(b, " || exit\n");
	}
	strbuf_addf(b,
		    "export " GPUS_VARIABLE "=%u\n"
		    "export " START_VARIABLE "=$(date +%%s)\n",
		    req->gpus);
	if (a->h_rt_s)
		strbuf_addf(b, "export " END_VARIABLE "=$((" START_VARIABLE " + %llu))\n",
			    (unsigned long long)a->h_rt_s);
}

/* -------- what cannot be -------- */

/* Options that would take the job from us: it could not be found again, or would be several. */
static const struct {
	const char *option, *instead;
} not_yours[] = {
	{ "-N", "jobs are found again by their names" },
	{ "-t", "the pool's own number of nodes makes several jobs" },
	{ "-sync", "it would wait for the job's end" },
	{ "-now", "the job would be taken back where nothing is free at once" },
	{ "-w", "nothing might be submitted" },
	{ "-verify", "nothing would be submitted" },
	{ "-b", "the job runs an agent" },
	{ "-o", "the pool shows the job's output, and has to know where it is" },
	{ "-C", "the lines of ours would not be read" },
};

/* One of the words of a line. */
static bool has_word(const char *line, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = line; (p = strstr(p, word)); p += n)
		if ((p == line || isspace((unsigned char)p[-1])) &&
		    (!p[n] || isspace((unsigned char)p[n])))
			return true;
	return false;
}

static int check_options(const struct text_list *options, struct err *e)
{
	for (size_t i = 0; options && i < options->n; i++) {
		const char *line = options->texts[i];

		if (strchr(line, '\n'))
			return err_set(e, -EINVAL, "an option of qsub is one line");
		if (str_has_prefix(line, MARK))
			line += strlen(MARK) + strspn(line + strlen(MARK), " \t");
		else if (line[0] == '#')
			continue;
		for (size_t k = 0; k < ARRAY_LEN(not_yours); k++)
			if (has_word(line, not_yours[k].option))
				return err_set(e, -EINVAL,
					       "\"%s\": %s is not for a pool's jobs: %s", line,
					       not_yours[k].option, not_yours[k].instead);
	}
	return 0;
}

static int check_request(const struct engine_request *req, struct err *e)
{
	const char *count = sge_setting(req->settings, "count");
	cleanup_free char *hosts = hosts_of_type(req);
	int r = engine_keys_check("sge", sge_keys, req->settings, e);

	if (r < 0)
		return r;
	if (!req->name[0] || isdigit((unsigned char)req->name[0]) ||
	    strpbrk(req->name, "\n\t\r /:@\\*?"))
		return err_set(e, -EINVAL,
			       "Grid Engine does not take \"%s\" for a job's name: it begins with "
			       "a letter, and has no spaces, colons, slashes, @, * and ?",
			       req->name);
	if (strcmp(count, "job") != 0 && strcmp(count, "slot") != 0)
		return err_set(e, -EINVAL,
			       "count=%s: GPUs are counted by \"job\" or by \"slot\" (the column "
			       "\"consumable\" of qconf -sc says JOB or YES)",
			       count);
	if (req->type && !hosts && !sge_setting(req->settings, "type_complex"))
		return err_set(
			e, -EINVAL,
			"where GPUs of type \"%s\" are, Grid Engine does not know: set "
			"types=%s=HOSTS (a name with *, or a group @NAME), or type_complex=NAME, "
			"the resource that says it",
			req->type, req->type);
	if (strpbrk(req->dir, "\r\n") || strpbrk(req->output, "\r\n"))
		return err_set(e, -EINVAL, "a job's directory has a newline in its name");
	return check_options(req->options, e);
}

/* -------- the script -------- */

/* A site's own template; its names are listed in docs/cluster.md. */
static int fill(const struct engine_request *req, const struct asked *a, struct strbuf *script,
		struct err *e)
{
	cleanup_strbuf struct strbuf directives = STRBUF_INIT, options = STRBUF_INIT;
	cleanup_strbuf struct strbuf setup = STRBUF_INIT, agent = STRBUF_INIT;
	cleanup_strbuf struct strbuf time = STRBUF_INIT, queue = STRBUF_INIT;
	char gpus[16], slots[16], minutes[24];

	add_directives(&directives, req, a);
	script_add_options(&options, MARK, req);
	add_setup(&setup, req, a);
	script_add_agent(&agent, "exec", req);
	add_queue(&queue, req);
	if (a->h_rt_s)
		add_hms(&time, a->h_rt_s);

	const struct script_value values[] = {
		{ "directives", strbuf_str(&directives) },
		{ "options", strbuf_str(&options) },
		{ "setup", strbuf_str(&setup) },
		{ "agent", strbuf_str(&agent) },
		{ "launch", strbuf_str(&agent) }, /* as with other engines */
		{ "name", req->name },
		{ "title", req->title ? req->title : req->name },
		{ "token", req->token },
		{ "queue", strbuf_str(&queue) },
		{ "complex", sge_setting(req->settings, "complex") },
		{ "gpus", str_print(gpus, sizeof(gpus), "%u", req->gpus) },
		{ "slots", str_print(slots, sizeof(slots), "%u", a->slots) },
		{ "type", req->type ? req->type : "" },
		{ "time", strbuf_str(&time) },
		{ "minutes",
		  str_print(minutes, sizeof(minutes), "%llu", (unsigned long long)req->minutes) },
		{ "dir", req->dir },
		{ "output", req->output },
		{ NULL, NULL },
	};

	return script_fill(req->template_text, values, script, e);
}

int sge_render(const struct engine_request *req, struct strbuf *script, struct err *e)
{
	struct asked a = what_is_asked(req);
	int r = check_request(req, e);

	if (r < 0)
		return r;
	if (req->template_text)
		return fill(req, &a, script, e);
	strbuf_adds(script, "#!/bin/sh\n");
	add_directives(script, req, &a);
	script_add_options(script, MARK, req);
	add_setup(script, req, &a);
	script_add_agent(script, "exec", req);
	return 0;
}

/* -------- inside -------- */

/* "0 2", "gpu1 gpu3": the numbers, with commas between them; how many. */
static unsigned int add_numbers(struct strbuf *b, const char *text)
{
	unsigned int n = 0;

	while (*text) {
		size_t digits = strspn(text, "0123456789");

		if (digits) {
			if (n++)
				strbuf_addc(b, ',');
			strbuf_add(b, text, digits);
			text += digits;
		} else {
			text++;
		}
	}
	return n;
}

/* The variable in which newer Grid Engines say which GPUs a job has: SGE_HGR_gpu_card. */
static const char *granted(const char *const *env)
{
	for (; *env; env++) {
		const char *value = strchr(*env, '=');

		if (value && str_has_prefix(*env, GRANT_PREFIX)) {
			cleanup_free char *name = xasprintf("%.*s", (int)(value - *env), *env);

			if (strcasestr(name, "gpu") || strcasestr(name, "cuda"))
				return value + 1;
		}
	}
	return NULL;
}

static unsigned int count_words(const char *list)
{
	unsigned int n = *list ? 1 : 0;

	for (; *list; list++)
		n += *list == ',';
	return n;
}

static void take_gpus(const char *const *env, struct engine_here *here)
{
	const char *visible = script_variable(env, "CUDA_VISIBLE_DEVICES=");
	const char *given = granted(env);
	const char *count = script_variable(env, GPUS_VARIABLE "=");
	struct strbuf b = STRBUF_INIT;
	uint64_t n = 0;

	if (visible && *visible)
		strbuf_adds(&b, visible);
	else if (given)
		(void)add_numbers(&b, given);
	if (b.len)
		here->gpus = strbuf_take(&b);
	strbuf_clear(&b);
	if (count && str_to_u64(count, &n) == 0 && n < UINT32_MAX)
		here->n_gpus = (unsigned int)n;
	else if (here->gpus)
		here->n_gpus = count_words(here->gpus);
}

/* How often a job was restarted Grid Engine does not say, but whether (RESTARTED is 1 from then
 * on): when it has begun tells one run from another. */
static char *key_of(const char *const *env, const char *id, unsigned int restarts)
{
	const char *cell = script_variable(env, "SGE_CELL=");
	const char *start = script_variable(env, START_VARIABLE "=");
	struct strbuf b = STRBUF_INIT;
	uint64_t start_s;

	strbuf_adds(&b, "sge.");
	if (cell && strcmp(cell, "default") != 0) {
		for (; *cell; cell++)
			strbuf_addc(&b, isalnum((unsigned char)*cell)
						? (char)tolower((unsigned char)*cell)
						: '-');
		strbuf_addc(&b, '.');
	}
	strbuf_adds(&b, id);
	if (restarts)
		strbuf_addf(&b, ".%u", restarts);
	if (restarts && start && str_to_u64(start, &start_s) == 0)
		strbuf_addf(&b, ".%llu", (unsigned long long)start_s);
	return strbuf_take(&b);
}

int sge_inside(const char *const *env, struct engine_here *ret, struct err *e)
{
	const char *id = script_variable(env, "JOB_ID=");
	const char *root = script_variable(env, "SGE_ROOT=");
	const char *task = script_variable(env, "SGE_TASK_ID=");
	const char *node = script_variable(env, "HOSTNAME=");
	const char *restarted = script_variable(env, "RESTARTED=");
	const char *end = script_variable(env, END_VARIABLE "=");
	uint64_t number, restarts = 0, end_s = 0;

	/* People have a JOB_ID of their own, and a login has SGE_ROOT: SGE_TASK_ID is there in each
	 * job, and "undefined" in most. */
	if (!id || str_to_u64(id, &number) < 0 || !root || !*root || !task)
		return err_set(e, -ENOENT, "this is no job of Grid Engine");
	if (!restarted || str_to_u64(restarted, &restarts) < 0 || restarts > UINT32_MAX)
		restarts = 0;
	if (!end || str_to_u64(end, &end_s) < 0 || end_s > UINT32_MAX)
		end_s = 0;
	*ret = (struct engine_here){
		.engine = "sge",
		.node = node && *node ? xstrdup(node) : NULL,
		.restarts = (unsigned int)restarts,
		.end_ns = end_s * NS_PER_S,
	};
	/* One of an array has the array's number. */
	ret->id =
		task && isdigit((unsigned char)*task) ? xasprintf("%s.%s", id, task) : xstrdup(id);
	ret->key = key_of(env, ret->id, ret->restarts);
	take_gpus(env, ret);
	return 0;
}
