/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_SETTINGS_H
#define TENURE_BASE_SETTINGS_H

/*
 * The settings: one table (settings_table.c) with a row for each, and the layers that set them. A
 * higher layer wins:
 *
 *	command line > environment (TENURE_*) > tenure use > instance > user > site > default
 *
 * A site's `allow_users`, `max_devices` and `load` are limits. What asks for more than a limit on
 * the command line or in the environment is refused; what does so in a file is lowered to the
 * limit, with a note, because one file often serves many machines.
 *
 *	struct settings *s = settings_new();
 *	struct setting_origin from = { SETTING_FROM_COMMAND_LINE };
 *	settings_set(s, SET_MEMORY, "38G", &from, &e);
 *	settings_load(s, NULL, &e);
 *	ms = settings_num(s, SET_IDLE_FOR);
 *
 * The getters abort on a type that is not the setting's: that is a defect.
 */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/opts.h"
#include "base/strbuf.h"
#include "base/value.h"

enum setting_id {
	SET_GPUS,	   /* gpus */
	SET_LEAVE,	   /* num: devices, from the end, that are left to others */
	SET_MEMORY,	   /* mem */
	SET_IDLE_BELOW,	   /* num: bytes */
	SET_IDLE_FOR,	   /* num: ms, 0 = at once */
	SET_REFRESH,	   /* num: ms */
	SET_TOGETHER,	   /* flag */
	SET_WORK,	   /* num: ms, 0 = without a cycle */
	SET_REST,	   /* num: ms, 0 = no rest */
	SET_LOAD,	   /* num: 0 none, 1 light, 2 sm, 3 gemm */
	SET_UTIL,	   /* num: permille */
	SET_UTIL_BAND,	   /* band; use settings_util_band() */
	SET_REHOLD_AFTER,  /* num: ms after a yield */
	SET_IGNORE_PID,	   /* uints */
	SET_MY_CGROUP,	   /* flag */
	SET_INSTANCE,	   /* str */
	SET_ROOT,	   /* str; NULL: fs_state_dir() */
	SET_ACCEPT_OWNERS, /* words: names or numbers of users */
	SET_TRUST,	   /* num: 0 owner, 1 directory */
	SET_STATE_DIR,	   /* str; NULL: fs_state_dir() */
	SET_RUNTIME_DIR,   /* str; NULL: see base/sockdir.h, which takes it from the environment */
	SET_DEV_DIR,	   /* str */
	SET_NODE_NAME,	   /* str; NULL: the host's name */
	SET_BEAT,	   /* num: ms */
	SET_EXPIRE,	   /* num: ms */
	SET_GANG_WAIT,	   /* num: ms */
	SET_GANG_ADDRESS,  /* str; NULL: looked for */
	SET_GANG_PORTS,	   /* settings_gang_ports() */
	SET_LOG_LIMIT,	   /* num: bytes of a task's log, 0 = no limit */
	SET_ON_END,	   /* str: command when a task has ended; NULL: none */
	SET_ON_END_LIMIT,  /* num: ms */
	SET_CPU_TASKS,	   /* num: tasks without a GPU at once, 0 = by the processors */
	SET_STUCK_AFTER,   /* num: ms that a task looks stuck before it is told; 0 = never */
	SET_ASK,	   /* flag: other users may ask for the GPU of a task */
	SET_VISIBLE_DEVICES, /* num: 0 index, 1 uuid */
	SET_LOG_LEVEL,	     /* num: enum log_level */
	SET_LIFETIME,	     /* num: ms, 0 = for ever */
	SET_LIFETIME_END,    /* num: 0 drain, 1 stop */
	SET_LIFETIME_NOTICE, /* num: ms before its end */
	SET_ON_EMPTY,	     /* num: 0 hold, 1 release, 2 exit */
	SET_EMPTY_FOR,	     /* num: ms */
	SET_WORKLOAD,	     /* str; NULL: none */
	SET_WORKLOAD_GRACE,  /* num: ms */
	SET_LANE_WIDTH,	     /* words; use settings_lane_width() */
	SET_ENGINE,	     /* str; NULL: the one that answers */
	SET_ENGINE_SETTINGS, /* str: KEY=VALUE, separated by newlines or ";" */
	SET_ENGINE_OPTIONS,  /* str: lines of a job's script, likewise */
	SET_ALLOC_TOTAL,     /* num: GPUs of all allocations; 0 = no limit */
	SET_ALLOC_MANUAL,    /* num: of those by hand; likewise */
	SET_ALLOC_EACH,	     /* num: of one of them; likewise */
	SET_ALLOC_BASE,	     /* num: of the automatic base; 0 = none */
	SET_ALLOC_GPUS,	     /* num: of one that does not say how many */
	SET_FREE_THRESHOLD,  /* num: free GPUs that are told of; 0 = none are */
	SET_ALLOC_PREFIX,    /* str: of the names of jobs; NULL: tenure-INSTANCE-alloc- */
	SET_ALLOC_PROGRAM,   /* str: what `start` runs that is told nothing; NULL: nothing */
	SET_SWEEP,	     /* num: 0 auto, 1 none, 2 gpu, 3 python */
	SET_SWEEP_SPARE,     /* words: patterns of command lines */
	SET_LISTEN,	     /* str; use settings_listen() */
	SET_LISTEN_HOSTS,    /* words: names of this host, for a browser */
	SET_ALLOW_USERS,     /* words: user names and @groups; empty = everybody. Site only */
	SET_MAX_DEVICES,     /* num: 0 = no limit */
	SET_MAX
};

/* The one block that a file may have beside its settings: whom to tell, and of what
 * (docs/notify.md). It is no setting: who sends reads it (config_read_block()), of the highest
 * layer that has one. */
#define SETTINGS_NOTIFY "notify"

enum setting_layer {
	SETTING_FROM_DEFAULT,
	SETTING_FROM_SITE,
	SETTING_FROM_USER,
	SETTING_FROM_INSTANCE,
	SETTING_FROM_USE, /* `tenure use NAME`: the instance alone */
	SETTING_FROM_ENVIRONMENT,
	SETTING_FROM_COMMAND_LINE,
	SETTING_LAYER_MAX
};

/* Which commands take a setting as an option. */
#define SETTING_GROUP_HOLD  (1u << 0)
#define SETTING_GROUP_NODE  (1u << 1) /* instance, directories, logging */
#define SETTING_GROUP_SITE  (1u << 2)
#define SETTING_GROUP_GPUS  (1u << 3)  /* which devices */
#define SETTING_GROUP_QUEUE (1u << 4)  /* which queue */
#define SETTING_GROUP_AGENT (1u << 5)  /* which agent */
#define SETTING_GROUP_LIFE  (1u << 6)  /* of an agent that runs tasks */
#define SETTING_GROUP_SWEEP (1u << 7)  /* what is ended with stopped tasks */
#define SETTING_GROUP_SPARE (1u << 8)  /* what is not ended with them */
#define SETTING_GROUP_POOL  (1u << 9)  /* of a new pool: in files and the environment alone */
#define SETTING_GROUP_ALLOC (1u << 10) /* of allocations */
#define SETTING_GROUP_SERVE (1u << 11) /* of what serves HTTP */
#define SETTING_GROUP_ALL   UINT_MAX

#define SETTING_LIMIT		(1u << 0) /* a site's value is a limit for all layers above */
#define SETTING_SITE_ONLY	(1u << 1) /* no other layer may set it */
#define SETTING_NOT_IN_INSTANCE (1u << 2) /* meaningless in an instance's file */
#define SETTING_REAL_DIR	(1u << 3) /* a directory that is known by one name: fs_real_dir() */

struct setting {
	const char *key; /* in files; the environment variable is opt.env, the option opt.name */
	unsigned int groups;
	unsigned int flags;
	struct opt opt;
};

struct setting_origin {
	enum setting_layer layer;
	const char *file; /* of the layers that are files; NULL otherwise */
	int line;	  /* from 1 */
};

struct settings;

/* Where the files are. NULL fields: the usual place. */
struct settings_files {
	const char *site;     /* /etc/tenure/config.yaml */
	const char *user;     /* $XDG_CONFIG_HOME/tenure/config.yaml */
	const char *instance; /* $XDG_CONFIG_HOME/tenure/instances/NAME.yaml */
	const char *use;      /* $XDG_CONFIG_HOME/tenure/use */
};

/* The row of a setting; of a key, or NULL. The table is in the order of enum setting_id. */
const struct setting *setting_row(enum setting_id id);
const struct setting *setting_find(const char *key);

/* All settings at their defaults. */
struct settings *settings_new(void);
struct settings *settings_free(struct settings *s);

/*
 * Set one from a layer; nothing changes when a higher layer has set it already, but the value is
 * checked all the same. origin->file is copied. 0, or -EINVAL (not understood, or
 * not to be set from there) or -ERANGE, with "memory: ..." in e.
 */
int settings_set(struct settings *s, enum setting_id id, const char *text,
		 const struct setting_origin *origin, struct err *e);
/* Take over every setting that was given on the command line (rows of setting_row()->opt). */
int settings_set_from_opts(struct settings *s, const struct opts *o, struct err *e);
/*
 * Read the site's, the user's and the instance's file and the environment, then apply the limits. A
 * file that does not exist is no error; one that cannot be read, or has a mistake, is.
 */
int settings_load(struct settings *s, const struct settings_files *files, struct err *e);
/*
 * Before settings_load(): only settings of these groups are needed. A mistake in another one, or a
 * file that cannot be read at all, is then no error but a fault; limits of other settings are not
 * applied.
 */
void settings_need(struct settings *s, unsigned int groups);
/*
 * What variables say of settings. settings_load() goes by the environment of this process, or,
 * where they were set before, by these: SET_MAX texts, copied, NULL where there is none.
 */
void settings_set_variables(struct settings *s, const char *const *texts);
/* NULL: it has none, or an empty one, which is the same. */
const char *settings_variable(const struct settings *s, enum setting_id id);
/* The faults that settings_load() went on without, one sentence per line; "": there are none. */
const char *settings_faults(const struct settings *s);
/*
 * What no row can check alone: needed settings that only make sense together, after all layers have
 * been read. -EINVAL with the settings and where they come from in e.
 */
int settings_check(const struct settings *s, struct err *e);
/* What can be wrong with settings that were read; not asked where one that it is about was not. */
struct settings_rule {
	int (*check)(const struct settings *s, struct err *e);
	enum setting_id about[2];
};

/*
 * Check one file alone, settings_check() included, as if it were that of the layer, and by more
 * rules of the caller's (behind the last one is one without a function). 0, or negative with every
 * mistake in faults, a line each, with its place where it has one.
 */
int settings_check_file(const char *path, enum setting_layer layer,
			const struct settings_rule *more, struct strbuf *faults);
/* -EPERM with the reason when the site's allow_users leaves this user out. */
int settings_check_user(const struct settings *s, struct err *e);

const struct value *settings_value(const struct settings *s, enum setting_id id);
bool settings_flag(const struct settings *s, enum setting_id id);
uint64_t settings_num(const struct settings *s, enum setting_id id);
/* The site's limit of it, where it has one; 0: none. */
uint64_t settings_limit_num(const struct settings *s, enum setting_id id);
const char *settings_str(const struct settings *s, enum setting_id id);
const struct mem_spec *settings_mem(const struct settings *s, enum setting_id id);
const struct gpu_picks *settings_gpus(const struct settings *s, enum setting_id id);
/* The band to keep: util_band as set, else the default one moved so that it lies around `util`. */
struct util_band settings_util_band(const struct settings *s);

/* The i-th lane that has a width: false behind the last one. name: SETTINGS_LANE_MAX bytes. */
#define SETTINGS_LANE_MAX 256
bool settings_lane_width(const struct settings *s, size_t i, char *name, uint32_t *width);

/* From first to last; the default where what was set is refused by settings_check(). */
void settings_gang_ports(const struct settings *s, unsigned int *first, unsigned int *last);

/* Where to serve HTTP; NULL: on no port. */
const char *settings_listen(const struct settings *s);

const struct setting_origin *settings_origin(const struct settings *s, enum setting_id id);
/* "user config", "command line" */
const char *setting_layer_name(enum setting_layer layer);
/* "user config ~/.config/tenure/config.yaml:12", "command line --memory"; the caller frees it. */
char *settings_origin_text(const struct settings *s, enum setting_id id);
/* What was lowered to a limit, one sentence per line; "" when nothing was. */
const char *settings_notes(const struct settings *s);
/* Variables TENURE_* that are no setting, misspelt ones most likely: one sentence per line. */
void settings_environment_notes(struct strbuf *out);
/* The file that was (or would be) read for a layer that is a file; NULL for others. */
const char *settings_file(const struct settings *s, enum setting_layer layer);

/* The rows, by enum setting_id (settings_table.c); others read them through setting_row(). */
extern const struct setting settings_table[SET_MAX];

#endif
