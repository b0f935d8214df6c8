/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TESTS_ATTEMPT_WORLD_H
#define TENURE_TESTS_ATTEMPT_WORLD_H

/*
 * What an attempt meets, by the word of the test: the spooler's thread, the fork server, one shim,
 * the guard, the clocks and timers. Nothing happens by itself: a job is done by world_job(), a
 * timer fires by world_timer(), and what the shim says is read by world_say(). For programs that
 * are linked with --wrap of all that (tests/meson.build).
 */

#include <stdbool.h>
#include <stdint.h>

#include "agent/attempt/attempt.h"
#include "agent/attempt/commit.h"
#include "agent/node/view.h"
#include "task/adopt.h"
#include "task/shproto.h"

#define WORLD_GPUS 2

struct world {
	uv_loop_t loop;
	struct agent_config config;
	struct node_self self;
	struct view view;
	struct attempt_place place;
	uint64_t mono_ns, boot_ns; /* added to the clocks */
	/* The spooler: jobs in their order, of which the first may have been worked at already. */
	struct spool_job *jobs[16];
	unsigned int n_jobs, n_later; /* n_later: ever given with spooler_do_later() */
	bool worked;
	/* What jobs find. */
	int claim_code;	  /* of the claim itself */
	int note_code;	  /* of claim_started() */
	int confirm_code; /* the claim's file as it is looked for after an error */
	int commit_code;
	bool gpus, preemptible, no_log;
	uint64_t gpus_max, nodes;
	enum adopt_found found;
	int look_code;
	struct task_end record; /* with ADOPT_ENDED */
	unsigned int n_claims, n_notes, n_commits, n_looks, n_records_removed;
	char noted[128]; /* the devices of the last note, with commas */
	int file_code;	 /* of TENURE_GPUS_FILE */
	unsigned int n_files;
	char file[256];		 /* what it says */
	struct commit committed; /* the last one; its texts are not to be looked at */
	char committed_why[RECORD_REASON_MAX], committed_text[TASK_TEXT_MAX];
	void (*on_commit)(void);
	/* The fork server. */
	int fork_code, shim_code; /* shim_code: 0: there is one */
	unsigned int n_launched;
	uint32_t spec_flags;
	uint64_t go_until_ns;
	char visible[64]; /* CUDA_VISIBLE_DEVICES of what was launched */
	/* The connection that is open now. */
	uv_poll_t *poll;
	uv_poll_cb on_poll;
	char go_env[128]; /* the first text of the last GO; "" where it had none */
	unsigned int n_go, n_stop, n_requeue, n_cancel, n_adopt, n_ack, n_gpu;
	uint32_t grace_ms; /* of the last stop */
	int talk_code;	   /* of what is said to the shim */
	/* The guard. */
	unsigned int n_lease, n_grant, n_unlease, n_unlease_one;
	char unleased_uuid[96]; /* of the last one that was given back alone */
	int link_code;
	struct msg_lease lease; /* the last one */
	struct lease_id granted, unleased;
	struct proc_id granted_to;
	/* The loop. */
	uv_timer_t *timer;
	uv_timer_cb on_timer;
	uint64_t timer_ms;
	uv_work_t *work; /* of a thread of the pool */
	uv_after_work_cb after_work;
	int orphans; /* that are left */
	uint32_t orphans_grace_ms, orphans_hurry_ms;
	bool sweeps; /* something else is to be swept */
	void (*on_swept)(void *user);
	void *swept_user;
	char said[512]; /* the last sentence */
	unsigned int n_said;
};

extern struct world w;

void world_begin(void);
void world_end(void);
/* Lets the loop close what was let go of. */
void world_turn(void);

/* The first job goes as far as its work, or is done. False: there is none. */
bool world_work(void);
bool world_job(void);
/* All jobs, and those that come of them. */
void world_jobs(void);
bool world_timer(void);
/* A look at orphans. */
bool world_orphans(void);

bool world_connected(void);
/* The shim says so. m: NULL: nothing more than that. */
void world_say(enum shmsg_type type, const union shmsg *m);
void world_say_status(enum shmsg_type type, enum shim_state state, pid_t pid);
void world_say_end(const struct task_end *end);
/* Its end is read. */
void world_hang_up(void);

struct task_end world_exited(int code);

#endif
