/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TASK_ON_END_RUN_H
#define TENURE_TASK_ON_END_RUN_H

/*
 * The program that runs the commands that follow the end of a task (spool/on_end.h), in a session
 * of its own: it goes on when its agent ends. It touches no file but what it was given:
 *
 *	tenure on-end FILE LIMIT_MS LOG_LIMIT
 *	0: what FILE says; 1: for its agent: a line for each command that fails; 2: the log;
 *	3: the directory of FILE, which it removes from there at last
 *
 * Its environment is what a login has, for what the task's own does not set. Commands are run one
 * after another, each with all of its processes, and all of them within the limit.
 */

#define ON_END_VERB "on-end"

int on_end_main(int argc, char **argv);

#endif
