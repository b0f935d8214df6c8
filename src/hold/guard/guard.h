/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_GUARD_GUARD_H
#define TENURE_HOLD_GUARD_GUARD_H

/*
 * The guard: one per node and user. `tenure guard --dev-dir DIR` is started by the first agent that
 * needs it, from a copy in memory, and ends by itself when the last instance has gone; with `--job
 * KEY` one per job of an engine, which looks at the devices that this was given: `--devices LIST`,
 * as CUDA_VISIBLE_DEVICES writes them, `--count N`, those among them or others. See guard.c.
 * Returns the exit code: 0, 1 (cannot run), 3 (another guard of this user runs).
 */
int guard_main(int argc, char **argv);

#endif
