/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TASK_FORK_SERVER_H
#define TENURE_TASK_FORK_SERVER_H

/*
 * The fork server: a small process, one for each agent, that forks a shim for each task.
 *
 * An agent is large, has threads and open files; to fork it costs more than a short task takes. The
 * fork server is executed once, opens nothing and starts no thread, so a fork of it is cheap, and
 * what it forks has nothing to undo. It reads nothing of what it passes on, so no task can break
 * it.
 *
 * It is a subreaper: what a shim leaves that is killed comes to it and not to init, whatever
 * sessions and environment that has made itself. The agent ends it (task/orphans.h). When the agent
 * has gone (end of file), the fork server starts nothing more, stays until its last shim has ended,
 * and ends such orphans itself: SIGTERM, and SIGKILL ten seconds later. When it ends first, the
 * agent sees the end of file and starts another (task/shim_client.h).
 */

/* A row of programs[], for argv[0] that begins with "tenure-shims:". */
int fork_server_main(int argc, char **argv);

#endif
