/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_TASK_SPEC_H
#define TENURE_SPOOL_TASK_SPEC_H

/*
 * What a submission says. One table (task_spec.c) has a row for every key: its name, type, range,
 * default, the option of `tenure submit` that sets it, and how it is copied. JSON, the options and
 * their help, docs/spool.md and what an element of a batch is follow it. How it is read and written
 * is in task_text.h.
 *
 *	struct task_spec *s = spec_new();
 *	r = spec_check(s, &e);		what no key can check alone
 *	s = spec_free(s);
 *
 * Units: bytes, milliseconds, nanoseconds of the wall clock.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/opts.h"
#include "base/textlist.h"
#include "base/value.h"
#include "spool/ident.h"

#define SPEC_VERSION	  1
#define SPEC_FILE_MAX	  (64UL << 20) /* bytes of a task file that is read */
#define SPEC_SCRIPT_MAX	  (8UL << 20)
#define SPEC_TEXT_MAX	  VALUE_TEXT_MAX
#define SPEC_LIST_MAX	  VALUE_LIST_MAX
#define SPEC_PRIORITY_MAX 99999
#define SPEC_PRIORITY	  500
#define SPEC_GPUS_MAX	  1024
#define SPEC_SCALE_UP	  800 /* permille: the thresholds of the resource manager's document */
#define SPEC_SCALE_DOWN	  300
#define SPEC_NODES_MAX	  1024
#define SPEC_ALL	  VALUE_WORD /* of gpus: every device of the node */
#define SPEC_FOREVER	  VALUE_WORD /* of retries */
#define SPEC_AUTO	  VALUE_WORD /* of memory: what runs of its name have needed */
#define SPEC_NO_UMASK	  UINT64_MAX /* not said */

enum spec_clean { SPEC_CLEAN_NONE, SPEC_CLEAN_GPU, SPEC_CLEAN_PYTHON, SPEC_CLEAN_MAX };
enum spec_rules {
	SPEC_RULES_TENURE,
	SPEC_RULES_COMPETE,	/* free memory counts, and no other Python of ours is there */
	SPEC_RULES_COMPETE_MAX, /* free memory alone */
	SPEC_RULES_MAX
};

/* All pointers are owned by the struct; a text that was not given is NULL. */
struct task_spec {
	uint64_t version;
	/* What it needs. */
	uint64_t gpus;	 /* 0, a number or SPEC_ALL */
	uint64_t nodes;	 /* the same program on so many at once, gpus on each; 0: not said */
	uint64_t memory; /* bytes per GPU; 0: not said; SPEC_AUTO: spool/learned.h has it */
	bool learned;	 /* memory was SPEC_AUTO, and is what was learned: spec_learn() */
	bool shared;	 /* others may be on its devices: free memory is the condition */
	char *model;	 /* pattern of the device's name */
	char *pool;	 /* only on nodes of that pool of an engine */
	/* How it grows and shrinks while it runs. */
	uint64_t gpus_min;	       /* devices that it keeps; 0: as many as gpus says */
	uint64_t gpus_max;	       /* and may have; 0: their number does not change */
	uint64_t scale_up, scale_down; /* permille of utilisation */
	uint64_t scale_window;	       /* ms, of which that is the mean */
	uint64_t scale_cooldown;       /* ms, from its start and each change to the next */
	/* When and in which order. */
	uint64_t priority; /* lower first */
	char *lane, *name;
	bool unnamed;			   /* spec_check() made the name up */
	struct uint_list after, after_any; /* done well / ended in any way */
	uint64_t begin;			   /* wall ns; 0: at once */
	bool paused;
	/* What a failure means. */
	uint64_t retries;      /* further attempts, or SPEC_FOREVER */
	uint64_t retry_every;  /* failures before the back-off */
	uint64_t backoff;      /* ms */
	uint64_t retry_memory; /* permille by which memory grows after it ran out; 0: not */
	bool no_requeue;       /* failed, not requeued, when its node went away */
	/* How it ends. */
	uint64_t timeout; /* ms; 0: none */
	bool preemptible;
	char *signal;	/* first signal, NULL: TERM */
	uint64_t grace; /* ms until KILL */
	uint64_t clean; /* enum spec_clean */
	/* What is run: exactly one of script, argv, commands, allocation. */
	char *script;	   /* text; args are its arguments */
	char *script_name; /* or NULL: the name; see spec_needs_script_name() */
	struct text_list args, argv, commands;
	bool allocation; /* none of them yet: it has its devices, and waits for `start` */
	struct index_range array;
	struct text_list sweep; /* "lr=0.1,0.01", "seed=1..5" */
	struct text_list env;	/* "K=V" */
	char *cwd;
	uint64_t umask;	 /* or SPEC_NO_UMASK */
	char *on_change; /* of what runs in an allocation: what is done when its devices change,
			    see alloc/alloc.h; NULL: it is restarted */
	/* Who submitted it, and by which rules others' use counts. */
	char *host, *user;
	uint64_t uid;
	char *output, *error; /* files that its own are; NULL: its log */
	char *on_end;	      /* command for /bin/sh that is run when it has ended; NULL: none */
	uint64_t submitted;   /* wall ns */
	uint64_t rules;	      /* enum spec_rules */
	bool raw;	      /* came as a bare script */
};

struct task_spec *spec_new(void); /* all defaults */
struct task_spec *spec_free(struct task_spec *s);

/*
 * Whether the task has to say the name of the script's file, which is not its own: its log begins
 * with that, the script sees it as $0, and without a #! line it is run by python3 where it ends in
 * .py.
 */
bool spec_needs_script_name(const struct task_spec *s, const char *file);

/* A copy of what one element (from 1) is: its own command alone where there are many. The caller
 * frees it. */
struct task_spec *spec_for_element(const struct task_spec *s, uint64_t element);

/*
 * A task that says "auto" asks for so much memory, which runs of its name have needed. bytes 0:
 * nothing is known of them, and it is as if it had said nothing, so that it shares no device.
 */
void spec_learn(struct task_spec *s, uint64_t bytes);

/* ---- the rows ---- */

#define OPTION_IN_NAME	   (1u << 0) /* the name of a task's file says it as well */
#define OPTION_NOT_IN_LINE (1u << 1) /* not for a line of `submit --from` to say */
#define OPTION_ROOM	   (1u << 2) /* what it asks of devices */
#define OPTION_AS_NEW	   (1u << 3) /* an edit is checked as what is submitted */
#define OPTION_OWN_ENTRY   (1u << 4) /* of a list, an element has its own entry alone */
#define OPTION_REPLACES	   (1u << 5) /* "K=V": in the place of what K was */
#define OPTION_SUBMITTER                                                                           \
	(1u << 6) /* its option means something where the submitter is, who reads it */
#define OPTION_AS_EDIT                                                                             \
	(1u << 7) /* written as an edit behind the task, which a tenure that does not know it      \
		   * passes over: it would refuse the task for the key */

struct task_option {
	const char *key;  /* in JSON and in the documentation */
	struct opt opt;	  /* of `submit`; name NULL: there is none. Its spec is the key's, too */
	const char *help; /* of the key, where the option's help means something else */
	size_t offset;	  /* of the field in struct task_spec */
	uint64_t def;	  /* of a number: what opt.def says */
	unsigned int flags;
};

/* NULL behind the last. */
const struct task_option *task_option_at(size_t i);
/* By its key or its option: "no_requeue" and "no-requeue" are the same. NULL: there is none. */
const struct task_option *task_option_find(const char *name);
/* By its key alone. NULL: there is none. */
const struct task_option *task_option_of_key(const char *key);
static inline void *task_option_field(struct task_spec *s, const struct task_option *row)
{
	return (char *)s + row->offset;
}

/* The headings of the options in the order in which they are shown; ends with NULL. */
extern const char *const task_option_groups[];

/* -EINVAL with a suggestion: there is no such key. */
int spec_check_key(const char *key, struct err *e);
/* A gang: its elements are the ranks of one program, and run all at once or not at all. */
bool spec_is_gang(const struct task_spec *s);
/* How many elements it has; 0: it is a single task. -EINVAL: a sweep that cannot be read; -ERANGE:
 * too many. */
int spec_count(const struct task_spec *s, uint64_t *ret, struct err *e);
/* What no key can check alone; a missing name is made from what is run. */
int spec_check(struct task_spec *s, struct err *e);
/* What a task is refused for that is submitted now, while one that is in a queue stays one: a name
 * that no command could be given, and what would have no effect. */
int spec_check_new(const struct task_spec *s, struct err *e);
/* The same in the words of the options. */
int spec_check_options(const struct task_spec *s, struct err *e);

#endif
