/* SPDX-License-Identifier: MIT */
#ifndef TENURE_ENGINE_SGE_SCRIPT_H
#define TENURE_ENGINE_SGE_SCRIPT_H

/*
 * Grid Engine's job script, and what is known inside of a job. Pure.
 *
 * Directives are in the script and nowhere else: sites wrap qsub, and what their wrappers look at
 * is the file. The script tells the agent how many GPUs it has and when it ends, because Grid
 * Engine itself does not.
 */

#include <stdbool.h>

#include "base/err.h"
#include "base/strbuf.h"
#include "base/textlist.h"
#include "engine/engine.h"
#include "engine/keys.h"

/* What a pool may say of its cluster: queue, complex, .. (engine/keys.h) */
extern const struct engine_key sge_keys[];

/* The value of one of them, or what stands for it; NULL. */
const char *sge_setting(const struct text_list *settings, const char *name);
/* The next "NAME=HOSTS" of the setting "types": "a10=qa-a10-*,h100=@csecri_h100". Both are the
 * caller's to free. False behind the last. */
bool sge_next_type(const char **rest, char **ret_type, char **ret_hosts);

/* "-terse" and other options of ours that the pool's `drop` names. */
bool sge_is_dropped(const struct engine_request *req, const char *option);

/* As engine.h says of render(). */
int sge_render(const struct engine_request *req, struct strbuf *script, struct err *e);

/* As engine.h says of inside(). */
int sge_inside(const char *const *env, struct engine_here *ret, struct err *e);

#endif
