/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_AGENT_STATUS_H
#define TENURE_SPOOL_AGENT_STATUS_H

/*
 * What an agent is and has, for others to read: agents/AGENT,status, beside its heartbeat, one JSON
 * object that is replaced when something in it has changed, at most once a heartbeat; where it has
 * devices their figures have, so it is as old as the heartbeat. Who lives is told by the heartbeat
 * alone; a status says what the one that wrote it had then. It goes with the heartbeat's file.
 *
 *	{"agent":"n7-slurm.12","host":"n7","version":"0.9","began":..,"engine":"slurm","job":"12",
 *	 "restarts":0,"token":"k3x9","pool":"night","deadline":..,"free":1,
 *	 "seen":..,"devices":[{"uuid":"GPU-..","model":"NVIDIA A10","memory":..,"state":"held",
 *	 "gpu":0,"used":..,"held":..,"util":75,"power":141,"limit":150,"temp":61,"for":3600,
 *	 "use":"reserved: task 7"}, ..]}
 *
 * What is not known, or is not so (an agent in no job), is not there. Times are seconds since the
 * epoch, as in records, power is in watts, and `for` is how many seconds it was in that state then.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "spool/files.h"
#include "spool/name.h"

#define AGENT_STATUS_BYTES_MAX	 65536
#define AGENT_STATUS_DEVICES_MAX 128
#define AGENT_STATUS_VERSION_MAX 31
#define AGENT_STATUS_ENGINE_MAX	 15
#define AGENT_STATUS_JOB_MAX	 127
#define AGENT_STATUS_TOKEN_MAX	 16 /* lower-case letters and digits; the first is a letter */
#define AGENT_STATUS_UUID_MAX	 95
#define AGENT_STATUS_MODEL_MAX	 95
#define AGENT_STATUS_STATE_MAX	 15
#define AGENT_STATUS_USE_MAX	 95

enum agent_status_knows {
	AGENT_STATUS_GPU = 1 << 0,
	AGENT_STATUS_MIG = 1 << 1, /* it is an instance of MIG */
	AGENT_STATUS_USED = 1 << 2,
	AGENT_STATUS_HELD = 1 << 3,
	AGENT_STATUS_UTIL = 1 << 4,
	AGENT_STATUS_POWER = 1 << 5,
	AGENT_STATUS_LIMIT = 1 << 6,
	AGENT_STATUS_TEMP = 1 << 7,
	AGENT_STATUS_FOR = 1 << 8,
};

struct agent_status_device {
	char uuid[AGENT_STATUS_UUID_MAX + 1];
	char model[AGENT_STATUS_MODEL_MAX + 1];
	char state[AGENT_STATUS_STATE_MAX + 1]; /* "idle", "held", "lent", .. as `status` says it */
	uint64_t mem_bytes;			/* 0: not known */
	char use[AGENT_STATUS_USE_MAX + 1];	/* as `status` says it; "": no task has it */
	uint64_t used_bytes, held_bytes, for_s;
	unsigned int knows; /* of what is above and below, enum agent_status_knows */
	unsigned int gpu, mig, util, power_w, limit_w, temp_c;
	unsigned int xid; /* for which it is not used; 0: none */
	bool shut;	  /* no task comes to it: it is in quarantine */
};

/* Texts are "" where there is none. About 48 KiB: no ownership, and none is needed on a hot path.
 */
struct agent_status {
	char agent[NAME_AGENT_MAX + 1];
	char host[SPOOL_HOST_MAX];
	char version[AGENT_STATUS_VERSION_MAX + 1];
	uint64_t began_ns;   /* wall */
	uint64_t seen_ns;    /* wall, of its node: the devices as they were then; 0: its version
			      * tells nothing of how much they are used */
	uint64_t written_ns; /* wall, of whoever keeps the file that it was read from; else 0 */
	char engine[AGENT_STATUS_ENGINE_MAX + 1]; /* of the job that it runs in */
	char job[AGENT_STATUS_JOB_MAX + 1];	  /* its id, as the engine writes it */
	unsigned int restarts;			  /* of the job, by its engine */
	char token[AGENT_STATUS_TOKEN_MAX + 1];	  /* that it was given with --token */
	char pool[SPEC_NAME_MAX + 1];		  /* --pool */
	uint64_t end_ns;			  /* wall: the job's end; 0: none is known */
	unsigned int unseen; /* devices that the job was given and that are not visible to it */
	bool only;	     /* it runs none but tasks that name its pool */
	bool knows_gangs;    /* it takes part in tasks on several nodes (spool/gang.h), and says: */
	unsigned int free;   /* devices that such a task could have now */
	unsigned int n_devices;
	struct agent_status_device devices[AGENT_STATUS_DEVICES_MAX];
};

bool agent_status_is_token(const char *text);

/* "agents/node7,status". buf: SPOOL_PATH_MAX bytes; returns it. */
char *agent_status_path(const char *agent, char *buf);
/* What goes into the file; the caller frees it. */
char *agent_status_text(const struct agent_status *s);
/* The text of one: 0; -EINVAL, and e names what is wrong. path is for the text of an error. Pure.
 */
int agent_status_parse(const char *path, const char *text, size_t len, struct agent_status *ret,
		       struct err *e);

/* Replaces the file of that agent by a text of agent_status_text(). Not synced: it can be made
 * again. 0 or -errno. */
int agent_status_write(const struct spool *sp, const char *agent, const char *text, struct err *e);
/* 0; -ENOENT: it has left none, as agents of before; -EINVAL, -EFBIG, -errno. */
int agent_status_read(const struct spool *sp, const char *agent, struct agent_status *ret,
		      struct err *e);

/* "NVIDIA A10 (22.5 GiB)" of each kind that it has and b does not name yet, with a comma between.
 */
void agent_status_add_kinds(const struct agent_status *s, struct strbuf *b);

/* Those that can be read, ended ones too. A value of fn other than 0 ends it and is returned. */
typedef int (*agent_status_fn)(void *data, const struct agent_status *s);
int agent_status_each(const struct spool *sp, agent_status_fn fn, void *data, struct err *e);

#endif
