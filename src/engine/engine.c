/* SPDX-License-Identifier: MIT */
#include "engine/engine.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/enumstr.h"
#include "base/mem.h"
#include "base/str.h"

static const struct engine *const engines[] = {
	&engine_slurm, &engine_sge, &engine_sco, &engine_k8s, &engine_local,
};

const struct engine *engine_at(size_t i)
{
	return i < ARRAY_LEN(engines) ? engines[i] : NULL;
}

const struct engine *engine_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(engines); i++)
		if (strcmp(engines[i]->name, name) == 0)
			return engines[i];
	return NULL;
}

int engine_inside(const char *const *variables, const struct engine **ret,
		  struct engine_here *ret_here, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(engines); i++) {
		int r = engines[i]->inside(variables, ret_here, e);

		if (r != -ENOENT) {
			*ret = engines[i];
			return r;
		}
	}
	return err_set(e, -ENOENT, "this is in no job of an engine");
}

char *engine_job_key(const char *const *variables)
{
	static const char assignment[] = ENGINE_KEY_VARIABLE "=";
	const char *told = NULL;
	struct engine_here here = { .engine = NULL };
	const struct engine *engine;
	char *key = NULL;

	for (const char *const *v = variables; *v && !told; v++)
		if (str_has_prefix(*v, assignment))
			told = *v + strlen(assignment);
	if (told)
		return told[0] ? xstrdup(told) : NULL;
	if (engine_inside(variables, &engine, &here, NULL) == 0)
		key = take_ptr(here.key);
	engine_here_clear(&here);
	return key;
}

const char *engine_job_state_name(unsigned int state)
{
	static const char *const names[] = {
		[ENGINE_JOB_WAITING] = "waiting",     [ENGINE_JOB_HELD] = "held",
		[ENGINE_JOB_STARTING] = "starting",   [ENGINE_JOB_RUNNING] = "running",
		[ENGINE_JOB_SUSPENDED] = "suspended", [ENGINE_JOB_ENDING] = "ending",
		[ENGINE_JOB_DONE] = "done",	      [ENGINE_JOB_EXPIRED] = "expired",
		[ENGINE_JOB_CANCELLED] = "cancelled", [ENGINE_JOB_FAILED] = "failed",
		[ENGINE_JOB_UNKNOWN] = "unknown",
	};
	_Static_assert(ARRAY_LEN(names) == ENGINE_JOB_STATE_MAX, "a name for every state");

	return enum_name(names, ARRAY_LEN(names), state);
}

bool engine_job_is_over(enum engine_job_state state)
{
	return state == ENGINE_JOB_DONE || state == ENGINE_JOB_EXPIRED ||
	       state == ENGINE_JOB_CANCELLED || state == ENGINE_JOB_FAILED;
}

struct engine_job *engine_jobs_add(struct engine_jobs *jobs)
{
	jobs->all = xgrow(jobs->all, jobs->n, sizeof(*jobs->all));
	jobs->all[jobs->n] = (struct engine_job){ .id = NULL };
	return &jobs->all[jobs->n++];
}

void engine_jobs_clear(struct engine_jobs *jobs)
{
	for (size_t i = 0; i < jobs->n; i++) {
		free(jobs->all[i].id);
		free(jobs->all[i].name);
		free(jobs->all[i].node);
		free(jobs->all[i].reason);
	}
	free(take_ptr(jobs->all));
	jobs->n = 0;
}

struct engine_node *engine_nodes_add(struct engine_nodes *nodes)
{
	nodes->all = xgrow(nodes->all, nodes->n, sizeof(*nodes->all));
	nodes->all[nodes->n] = (struct engine_node){ .name = NULL };
	return &nodes->all[nodes->n++];
}

void engine_nodes_clear(struct engine_nodes *nodes)
{
	for (size_t i = 0; i < nodes->n; i++) {
		free(nodes->all[i].name);
		free(nodes->all[i].type);
		free(nodes->all[i].why);
	}
	free(take_ptr(nodes->all));
	nodes->n = 0;
}

void engine_here_clear(struct engine_here *here)
{
	free(take_ptr(here->id));
	free(take_ptr(here->key));
	free(take_ptr(here->node));
	free(take_ptr(here->gpus));
}

/* -------- names -------- */

#define JOB_NAME_BYTES 63 /* of a Kubernetes label; others take more */

static char name_char(char c)
{
	return isalnum((unsigned char)c) ? (char)tolower((unsigned char)c) : '-';
}

/* Appends text as small letters, digits and "-", at most room bytes of it. */
static void add_name_part(struct strbuf *b, const char *text, size_t room)
{
	for (; *text && room; text++, room--)
		strbuf_addc(b, name_char(*text));
}

bool engine_name_begins(const char *name, const char *prefix)
{
	while (*prefix && *name && name_char(*name) == name_char(*prefix)) {
		name++;
		prefix++;
	}
	return !*prefix;
}

const char *engine_job_name(const char *prefix, const char *instance, const char *token, char *buf)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	/* So that names of several tokens, and none, differ at their ends alone. */
	size_t tail = ENGINE_TOKEN_MAX + 1;

	if (!isalpha((unsigned char)prefix[0]))
		strbuf_addc(&b, 't');
	add_name_part(&b, prefix, JOB_NAME_BYTES / 2);
	strbuf_addc(&b, '-');
	add_name_part(&b, instance, JOB_NAME_BYTES - tail - b.len);
	strbuf_addf(&b, "-%s", token);
	return str_print(buf, ENGINE_JOB_NAME_MAX, "%s", strbuf_str(&b));
}
