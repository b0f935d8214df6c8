/* SPDX-License-Identifier: MIT */
#ifndef TENURE_ENGINE_SCO_TEXT_H
#define TENURE_ENGINE_SCO_TEXT_H

/*
 * SCO ACP (SenseCore), what is said to `sco` and what it answers. Pure; sco.c runs it.
 *
 * There is no manual in reach: what is known comes from scripts of its users. So nothing here
 * relies on a column, an exit status or the case of a word alone, and an answer that is neither
 * what is known nor an error of a known kind is an error of its own, never "no jobs".
 *
 * The flags of `sco acp jobs create` stand in the job's script as comments, "#SCO --flag=value", as
 * Slurm's and Grid Engine's do: a pool's own options go there, ours can be dropped, and --dry-run
 * shows all of them. What is submitted is the one command `exec bash SCRIPT`.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/strbuf.h"
#include "base/textlist.h"
#include "engine/engine.h"
#include "engine/keys.h"

extern const struct engine_key sco_keys[];

/* Of a template where the request brings one, with {name}, {title}, {token}, {gpus}, {dir} and
 * {output} in quotes, {directives}, {options}, {setup} (where it prints and begins), {agent} and
 * {launch}, which is "exec" and the agent. 0; -EINVAL: e names each setting that is missing, or
 * what does not fit. */
int sco_text_script(const struct engine_request *req, struct strbuf *script, struct err *e);

/*
 * argv of a command, without its last words: "sco", "acp", "jobs", verb, "--workspace-name=..".
 * words: "acp jobs list". 0; -EINVAL: no workspace was said.
 */
int sco_text_command(const struct text_list *settings, const char *words, struct text_list *argv,
		     struct err *e);
/* The flags of a script ("#SCO --wait") as words, and "--command=exec bash 'FILE' 'NAME'". */
void sco_text_add_flags(const char *script, const char *file, const char *name,
			struct text_list *argv);
/* "acp jobs delete" or "acp jobs stop", by the pool's end=. */
const char *sco_text_end(const struct text_list *settings);

enum engine_job_state sco_text_state(const char *word);
/* The words of those that are not over, to NULL. */
extern const char *const sco_text_live_states[];

/*
 * The jobs of a list, or the one of a description, whose name begins so ("" takes all). Where the
 * server has given a name of its own, ours is found in the command that it runs. 0 and
 * *listed, how many there were of all names; -EBADMSG: that is no such list; e says what it is.
 */
int sco_text_jobs(const char *text, size_t len, const char *prefix, struct engine_jobs *jobs,
		  size_t *listed, struct err *e);

/* "job pt-1a2b3c submitted successfully": the id, which the caller frees; NULL: nothing of it. */
char *sco_text_created(const char *text);
/* What a failure's text means for a job that was to be submitted: ENGINE_REFUSED, ENGINE_UNSURE,
 * -EDQUOT: no quota is free now; -EACCES: nobody is logged in; -ECONNREFUSED: nothing was sent. */
int sco_text_refusal(const char *text);
/* It knows no such job. */
bool sco_text_is_unknown_job(const char *text);
/* It speaks of a failure, whatever the exit status was. */
bool sco_text_is_failure(const char *text);
/* Where the cause is told: on stdout, as stderr has only that the component failed. One line. */
const char *sco_text_cause(const char *out, const char *err, size_t *ret_len);

/* The GPUs of `aec2 clusters usage`: 0; -EBADMSG. */
int sco_text_usage(const char *text, unsigned int *total, unsigned int *idle, struct err *e);
/* "pt-1a2b-worker-0 (pending)" of get-workers' table; NULL: it has no worker. The caller frees it.
 */
char *sco_text_worker(const char *text);

/* What the variables of a container say: 0; -ENOENT. */
int sco_text_inside(const char *const *variables, struct engine_here *ret, struct err *e);

#endif
