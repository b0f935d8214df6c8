/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_ATTEMPT_LOGIN_H
#define TENURE_AGENT_ATTEMPT_LOGIN_H

/*
 * What a task has that was submitted without an environment, a directory or a umask (--no-env, a
 * bare script, another program's file): what cron gives, and the umask that the agent was started
 * with. Read once, because the directory service may hang.
 */

#include "spool/task_spec.h"

struct login {
	struct text_list env; /* HOME, USER, LOGNAME, SHELL, PATH */
	char *home;	      /* "/" where the home directory is not there */
	uint32_t umask;	      /* the agent's own */
};

void login_read(struct login *ret);
void login_clear(struct login *l);

#endif
