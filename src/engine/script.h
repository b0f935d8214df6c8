/* SPDX-License-Identifier: MIT */
#ifndef TENURE_ENGINE_SCRIPT_H
#define TENURE_ENGINE_SCRIPT_H

/*
 * Job scripts, as far as all engines have them in common. Pure.
 *
 *	#!/bin/sh
 *	#SBATCH --job-name=..		script_add_directive(), unless the request drops it
 *	#SBATCH --partition=..		script_add_options(): the user's own lines, as he wrote them
 *	exec srun .. AGENT ..		script_add_agent()
 *
 * A template of a site's (req->template_text) stands in place of the whole: script_fill() puts
 * values for {name}.
 */

#include <stdbool.h>

#include "base/err.h"
#include "engine/engine.h"

/* "#SBATCH --mem=5G\n"; nothing where one of req->drop is the beginning of the text. mark:
 * "#SBATCH" */
void script_add_directive(struct strbuf *script, const char *mark, const struct engine_request *req,
			  const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* The user's lines: one that is a directive already, or begins with #, stands as it is, another one
 * gets the mark. mark NULL: the engine has no directives, and each is a line of shell. */
void script_add_options(struct strbuf *script, const char *mark, const struct engine_request *req);
/* "exec srun --mpi=none '/abs/tenure' 'agent' ..\n" */
void script_add_agent(struct strbuf *script, const char *launcher,
		      const struct engine_request *req);

struct script_value {
	const char *name, *value;
};

/* values ends with a NULL name. 0; -EINVAL: the template has a {name} that there is none of; e
 * names it and those that there are. "{{" stands for "{". */
int script_fill(const char *template_text, const struct script_value *values, struct strbuf *script,
		struct err *e);

/* The value behind "NAME=" in an environment; NULL. */
const char *script_variable(const char *const *variables, const char *assignment);

#endif
