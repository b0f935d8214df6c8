/* SPDX-License-Identifier: MIT */
#include "cli/submitter.h"

#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"

extern char **environ;

/* What another task was told of itself, where `submit` is called by one. */
static bool is_of_a_task(const char *variable)
{
	static const char *const names[] = { "TENURE_TASK_",
					     "TENURE_ATTEMPT=", "TENURE_ARRAY_INDEX=",
					     "TENURE_GPU_MEMORY=", "CUDA_VISIBLE_DEVICES=" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (str_has_prefix(variable, names[i]))
			return true;
	return false;
}

void submitter_environment(struct spool_spec *s)
{
	for (char **v = environ; *v; v++) {
		json_t *text = json_string(*v);

		if (text && strchr(*v, '=') > *v && !is_of_a_task(*v))
			text_list_add(&s->env, *v);
		json_decref(text);
	}
}

void submitter_name(struct spool_spec *s, const struct spool *sp)
{
	char user[64];

	s->host = xstrdup(sp->host);
	s->user = xstrdup(user_name(getuid(), user, sizeof(user)));
	s->uid = getuid();
	s->submitted = clock_wall_ns();
}
