/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_AGENT_HISTORY_H
#define TENURE_SPOOL_AGENT_HISTORY_H

/*
 * The last day of an agent's devices, for others to read: agents/AGENT,history, beside its status
 * and with the same life, one JSON object that is replaced every ten minutes or so.
 *
 *	{"format":1,"agent":"n7","version":"0.9","time":..,"from":..,"step_s":600,"n":145,
 *	 "devices":[{"uuid":"GPU-..","gpu":0,"mig":1,"state":[130,null,15,"held"],"util":[..],
 *	 "power_w":[..],"temp_c":[..],"mem_used":[..],"mem_ours":[..],"task":[..]}, ..]}
 *
 * A column is runs: how many steps, and what each of them has; all its runs together are n steps,
 * of which the first begins at `from`. A column that is not there is one of nulls. What a step has
 * is said in docs/json.md (`tenure devices --history --json`), whose document is what goes in and
 * what comes out. Times are seconds since the epoch, by the clock of the agent's node.
 *
 * Nothing in the file is believed that was not checked. Reading and writing may hang.
 */

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "spool/files.h"

#define AGENT_HISTORY_FORMAT	  1
#define AGENT_HISTORY_STEP_S	  600
#define AGENT_HISTORY_DAY_S	  86400
#define AGENT_HISTORY_BYTES_MAX	  (2UL << 20)
#define AGENT_HISTORY_DEVICES_MAX 128
#define AGENT_HISTORY_POINTS_MAX                                                                   \
	17000			  /* steps of all devices: what an agent tells, and one each       \
				   */
#define AGENT_HISTORY_AHEAD_S 300 /* clocks of two nodes differ by no more */

/* "agents/node7,history". buf: SPOOL_PATH_MAX bytes; returns it. */
char *agent_history_path(const char *agent, char *buf);

/* What goes into the file, of the agent's document about its devices; the caller frees it. Pure. */
char *agent_history_text(const char *agent, const char *version, const json_t *doc);
/*
 * The document again: now, seconds, step_s and devices; and of whom: node, version (null: not
 * told). 0; -EINVAL, and e names what is wrong; -EPROTO: of a later format. path is for the text of
 * an error, now_s the time here. A new reference. Pure.
 */
int agent_history_parse(const char *path, const char *text, size_t len, uint64_t now_s,
			json_t **ret, struct err *e);

/* Replaces the file of that agent. Not synced: it can be made again. 0 or -errno. */
int agent_history_write(const struct spool *sp, const char *agent, const char *text, struct err *e);
/* As agent_history_parse(); -ENOENT: it has written none, as agents of earlier versions, and one
 * that has just begun; -EFBIG, -errno. */
int agent_history_read(const struct spool *sp, const char *agent, uint64_t now_s, json_t **ret,
		       struct err *e);

#endif
