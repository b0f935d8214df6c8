/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_HELPERS_H
#define TENURE_AGENT_HELPERS_H

/*
 * Programs that the agent starts beside itself and that watch it by its socket: who tells people
 * (tenure-notify). It starts them again when they have ended, each time after a longer pause, and
 * tells what they print. It waits for nothing of them: one that hangs, is stopped or is killed
 * changes nothing for agent, guard and tasks. They end by themselves when the agent has.
 */

struct agent;
struct helpers;

/* Of agent_config.helpers; NULL where there are none. */
struct helpers *helpers_start(struct agent *a);
/* Its memory goes with its handles in the loop. */
void helpers_close(struct helpers *h);

#endif
