/* SPDX-License-Identifier: MIT */
#include "base/settings.h"

#include "base/mem.h"
#include "base/nofile.h"

/* By how much they take, as `enum load_kind` of the layer that holds. */
static const char *const loads[] = { "none", "light", "sm", "gemm", NULL };
/* In the order of enum log_level. */
static const char *const levels[] = { "error", "warning", "info", "debug", NULL };

/* In the order of `enum leaving`, without its first. */
static const char *const lifetime_ends[] = { "drain", "stop", NULL };

/* In the order of enum on_empty. */
static const char *const device_names[] = { "index", "uuid", NULL };
static const char *const on_empties[] = { "hold", "release", "exit", NULL };
/* In the order of enum trust_setting. */
static const char *const trusts[] = { "owner", "directory", NULL };
/* In the order of enum sweep_setting. */
static const char *const sweeps[] = { "auto", "none", "gpu", "python", NULL };

static const char holding[] = "What to hold";
static const char when[] = "When to hold";
static const char loading[] = "Load";
static const char others[] = "Other people's work";
static const char node[] = "This node";
static const char ending[] = "When to end";
static const char queue[] = "The queue";
static const char pools[] = "Nodes of an engine";
static const char allocating[] = "Allocations";
static const char stopping[] = "When tasks are stopped";
static const char serving[] = "By HTTP";

#define WORKLOAD_GRACE_MAX 8000 /* tenure off, which waits for it, waits 10 s */
#define ALLOC_MOST	   4096
#define UTIL_MIN	   10 /* permille; below it NVML reads 0 for most windows */

/* One setting: its key, then the members of struct setting that differ from zero. */
#define ROW(key_, env_, name_, type_)                                                              \
	.key = key_, .opt.env = "TENURE_" env_, .opt.name = name_, .opt.spec.type = type_

const struct setting settings_table[] = {
	[SET_GPUS] = { ROW("gpus", "GPUS", "gpus", VALUE_GPUS), .opt.short_name = 'g',
		       .opt.arg = "LIST", .opt.def = "all", .opt.group = holding,
		       .groups = SETTING_GROUP_HOLD | SETTING_GROUP_GPUS,
		       .opt.help =
			       "which GPUs: indices (0,1 or 0 1 or 0-3), UUIDs or the beginnings "
			       "of UUIDs, or all" },
	[SET_LEAVE] = { ROW("leave", "LEAVE", "leave", VALUE_UINT), .opt.arg = "N", .opt.def = "0",
			.opt.group = holding, .groups = SETTING_GROUP_HOLD,
			.opt.spec.max = GPU_PICKS_MAX,
			.opt.help = "leave the last N of them to others; they are never touched" },
	[SET_MEMORY] = { ROW("memory", "MEMORY", "memory", VALUE_MEM), .opt.short_name = 'm',
			 .opt.arg = "AMOUNT", .opt.def = "88%", .opt.group = holding,
			 .groups = SETTING_GROUP_HOLD,
			 .opt.help =
				 "memory to hold on each GPU: a size, a share of what is free, or "
				 "all-SIZE" },
	[SET_IDLE_BELOW] = { ROW("idle_below", "IDLE_BELOW", "idle-below", VALUE_SIZE),
			     .opt.arg = "SIZE", .opt.def = "1G", .opt.group = when,
			     .groups = SETTING_GROUP_HOLD,
			     .opt.help =
				     "a GPU is idle while less than this is used on it and nobody's "
				     "process is there" },
	[SET_IDLE_FOR] = { ROW("idle_for", "IDLE_FOR", "idle-for", VALUE_DURATION),
			   .opt.arg = "DURATION", .opt.def = "5m", .opt.group = when,
			   .groups = SETTING_GROUP_HOLD,
			   .opt.help = "hold after it was idle for so long; 0: at once" },
	[SET_REFRESH] = { ROW("refresh", "REFRESH", "refresh", VALUE_DURATION),
			  .opt.arg = "DURATION", .opt.def = "1m", .opt.group = when,
			  .opt.spec.min = 10, .groups = SETTING_GROUP_HOLD,
			  .opt.help = "how often to look whether a GPU that is not held is idle; "
				      "--idle-for and --rehold-after count from the look that "
				      "finds it so" },
	[SET_TOGETHER] = { ROW("together", "TOGETHER", "together", VALUE_FLAG), .opt.def = "false",
			   .opt.group = when, .groups = SETTING_GROUP_HOLD,
			   .opt.help = "hold only when all the GPUs are idle for the whole time" },
	[SET_REHOLD_AFTER] = { ROW("rehold_after", "REHOLD_AFTER", "rehold-after", VALUE_DURATION),
			       .opt.arg = "DURATION", .opt.def = "1m", .opt.group = when,
			       .groups = SETTING_GROUP_HOLD,
			       .opt.help =
				       "after a yield, hold that GPU again when it was idle for so "
				       "long, and up to a quarter more" },
	[SET_WORK] = { ROW("work", "WORK", "work", VALUE_DURATION), .opt.arg = "DURATION",
		       .opt.def = "0", .opt.group = loading, .groups = SETTING_GROUP_HOLD,
		       .opt.help =
			       "with --rest: run the load for so long, then rest; 0: no cycle" },
	[SET_REST] = { ROW("rest", "REST", "rest", VALUE_DURATION), .opt.arg = "DURATION",
		       .opt.def = "0", .opt.group = loading, .groups = SETTING_GROUP_HOLD,
		       .opt.help = "with --work: stop the load for so long, and keep the memory" },
	[SET_LOAD] = { ROW("load", "LOAD", "load", VALUE_CHOICE), .opt.arg = "KIND",
		       .opt.def = "light", .opt.group = loading, .opt.spec.choices = loads,
		       .groups = SETTING_GROUP_HOLD, .flags = SETTING_LIMIT,
		       .opt.help = "what a held GPU computes" },
	[SET_UTIL] = { ROW("util", "UTIL", "util", VALUE_PERCENT), .opt.arg = "PERCENT",
		       .opt.def = "75", .opt.group = loading, .opt.spec.min = UTIL_MIN,
		       .groups = SETTING_GROUP_HOLD,
		       .opt.help = "utilisation to aim at; a band that is not set goes along" },
	[SET_UTIL_BAND] = { ROW("util_band", "UTIL_BAND", "util-band", VALUE_BAND),
			    .opt.arg = "A,B,C", .opt.def = "50,70,85", .opt.group = loading,
			    .groups = SETTING_GROUP_HOLD,
			    .opt.help =
				    "below A much faster, B to C is right, above C much slower; "
				    "--util, or else the middle of B and C, is aimed at" },
	[SET_IGNORE_PID] = { ROW("ignore_pid", "IGNORE_PID", "ignore-pid", VALUE_UINTS),
			     .opt.arg = "PID", .opt.def = "", .opt.group = others,
			     .groups = SETTING_GROUP_HOLD,
			     .opt.help =
				     "a process beside which to hold all the same; its memory may run "
				     "short" },
	[SET_MY_CGROUP] = { ROW("my_cgroup", "MY_CGROUP", "my-cgroup", VALUE_FLAG),
			    .opt.def = "false", .opt.group = others, .groups = SETTING_GROUP_HOLD,
			    .opt.help = "take the processes of this cgroup for our own" },
	[SET_INSTANCE] = { ROW("instance", "INSTANCE", "instance", VALUE_NAME),
			   .opt.words = WORDS_INSTANCES, .opt.short_name = 'i', .opt.arg = "NAME",
			   .opt.def = "default", .opt.group = node,
			   .flags = SETTING_NOT_IN_INSTANCE,
			   .groups = SETTING_GROUP_NODE | SETTING_GROUP_QUEUE | SETTING_GROUP_AGENT,
			   .opt.help = "the queue and its agents that are meant" },
	[SET_ROOT] = { ROW("root", "ROOT", "root", VALUE_PATH), .opt.arg = "DIR", .opt.group = node,
		       .groups = SETTING_GROUP_QUEUE | SETTING_GROUP_AGENT | SETTING_GROUP_LIFE,
		       .opt.help = "the directory that the queues are in (default "
				   "$XDG_STATE_HOME/tenure)" },
	[SET_ACCEPT_OWNERS] = { ROW("accept_owners", "ACCEPT_OWNERS", "accept-owners", VALUE_WORDS),
				.opt.words = WORDS_USERS, .opt.arg = "USERS", .opt.def = "",
				.opt.group = node,
				.groups = SETTING_GROUP_QUEUE | SETTING_GROUP_AGENT |
					  SETTING_GROUP_LIFE,
				.opt.help =
					"use queues of these users, too, by name or number; what is "
					"in them is run with your rights" },
	[SET_TRUST] = { ROW("trust", "TRUST", "trust", VALUE_CHOICE), .opt.arg = "WHOM",
			.opt.def = "owner", .opt.group = node, .opt.spec.choices = trusts,
			.groups = SETTING_GROUP_QUEUE | SETTING_GROUP_AGENT | SETTING_GROUP_LIFE,
			.opt.help = "whose tasks count in a queue: those of its owner, or, where "
				    "its instance.json says directory, too, of everybody who can "
				    "write there" },
	[SET_STATE_DIR] = { ROW("state_dir", "STATE_DIR", "state-dir", VALUE_PATH),
			    .opt.arg = "DIR", .opt.group = node, .groups = SETTING_GROUP_NODE,
			    .opt.help = "where logs and the state are kept (default "
					"$XDG_STATE_HOME/tenure)" },
	[SET_RUNTIME_DIR] = { ROW("runtime_dir", "RUNTIME_DIR", "runtime-dir", VALUE_PATH),
			      .opt.arg = "DIR", .opt.group = node,
			      .groups = SETTING_GROUP_NODE | SETTING_GROUP_AGENT,
			      .opt.help =
				      "make the private directory of the sockets in there, and not "
				      "in the first fit place of /dev/shm, /run/user/UID, /tmp, "
				      "/var/tmp; all of a user's commands should be told the same" },
	[SET_DEV_DIR] = { ROW("dev_dir", "DEV_DIR", "dev-dir", VALUE_PATH), .opt.arg = "DIR",
			  .opt.def = "/dev", .opt.group = node, .flags = SETTING_REAL_DIR,
			  .groups = SETTING_GROUP_NODE | SETTING_GROUP_AGENT,
			  .opt.help = "the directory of the device nodes" },
	[SET_NODE_NAME] = { ROW("node_name", "NODE_NAME", "node-name", VALUE_NAME),
			    .opt.words = WORDS_NODES, .opt.arg = "NAME", .opt.group = node,
			    .flags = SETTING_NOT_IN_INSTANCE, .groups = SETTING_GROUP_NODE,
			    .opt.help =
				    "what this node is called in the queue (default: the host's "
				    "name); no two nodes may have the same" },
	[SET_BEAT] = { ROW("beat", "BEAT", "beat", VALUE_DURATION), .opt.arg = "DURATION",
		       .opt.def = "10s", .opt.group = node, .opt.spec.min = 50,
		       .groups = SETTING_GROUP_NODE,
		       .opt.help = "how often to write a heartbeat for other nodes" },
	[SET_EXPIRE] = { ROW("expire", "EXPIRE", "expire", VALUE_DURATION), .opt.arg = "DURATION",
			 .opt.def = "5m", .opt.group = node, .opt.spec.min = 500,
			 .groups = SETTING_GROUP_NODE,
			 .opt.help =
				 "without a heartbeat for so long, other nodes take a task over; "
				 "it has ended itself after 4/5 of it. At least 60s and 3 beats on a "
				 "network filesystem" },
	[SET_GANG_WAIT] = { ROW("gang_wait", "GANG_WAIT", "gang-wait", VALUE_DURATION),
			    .opt.arg = "DURATION", .opt.def = "10m", .opt.group = node,
			    .opt.spec.min = 1000, .groups = SETTING_GROUP_NODE,
			    .opt.help =
				    "what is kept free on several nodes for a task that needs them "
				    "at once (--nodes) is let go of when not all of them have it "
				    "after so long; then it is tried again" },
	[SET_GANG_ADDRESS] = { ROW("gang_address", "GANG_ADDRESS", "gang-address", VALUE_TEXT),
			       .opt.arg = "ADDRESS", .opt.group = node,
			       .groups = SETTING_GROUP_NODE,
			       .opt.help =
				       "where the other nodes of a task reach this one, for its "
				       "MASTER_ADDR: an address, a name, or an interface, as ib0 "
				       "(default: the address of the route that leads out)" },
	[SET_GANG_PORTS] = { ROW("gang_ports", "GANG_PORTS", "gang-ports", VALUE_TEXT),
			     .opt.arg = "FIRST-LAST", .opt.def = "20000-29999", .opt.group = node,
			     .groups = SETTING_GROUP_NODE,
			     .opt.help = "of which one is MASTER_PORT where rank 0 of a task on "
					 "several nodes is here; those that the kernel gives to "
					 "connections (ip_local_port_range) only when no other is "
					 "free" },
	[SET_LOG_LIMIT] = { ROW("log_limit", "LOG_LIMIT", "log-limit", VALUE_SIZE),
			    .opt.arg = "SIZE", .opt.def = "1G", .opt.group = node,
			    .groups = SETTING_GROUP_NODE,
			    .opt.help = "keep the beginning and the end of a task's log when it is "
					"larger; 0: all of it" },
	[SET_ON_END] = { ROW("on_end", "ON_END", "on-end", VALUE_STRING), .opt.arg = "CMD",
			 .opt.group = queue, .groups = SETTING_GROUP_LIFE,
			 .opt.help = "run that command in /bin/sh for each task that has ended and "
				     "will not be tried again, after its own (submit --on-end)" },
	[SET_ON_END_LIMIT] = { ROW("on_end_limit", "ON_END_LIMIT", "on-end-limit", VALUE_DURATION),
			       .opt.arg = "DURATION", .opt.def = "5m", .opt.group = queue,
			       .opt.spec.min = 100, .opt.spec.max = MS_PER_DAY,
			       .groups = SETTING_GROUP_LIFE,
			       .opt.help = "what is run so is ended after so long; two at most run "
					   "at once" },
	[SET_CPU_TASKS] = { ROW("cpu_tasks", "CPU_TASKS", "cpu-tasks", VALUE_UINT), .opt.arg = "N",
			    .opt.def = "0", .opt.group = queue, .opt.spec.max = NOFILE_MAX,
			    .groups = SETTING_GROUP_LIFE,
			    .opt.help =
				    "at most N tasks without a GPU (-g 0) run at once; 0: as many as "
				    "this node has processors, but not fewer than 64" },
	[SET_STUCK_AFTER] = { ROW("stuck_after", "STUCK_AFTER", "stuck-after", VALUE_DURATION),
			      .opt.arg = "DURATION", .opt.def = "10m", .opt.group = node,
			      .groups = SETTING_GROUP_LIFE,
			      .opt.help =
				      "a task whose GPU is at 100 % for so long and draws as little as "
				      "an idle one is told of as stuck; 0: none is" },
	[SET_ASK] = { ROW("ask", "ASK", "ask", VALUE_FLAG), .opt.def = "true", .opt.group = node,
		      .groups = SETTING_GROUP_LIFE,
		      .opt.help = "other users of this machine may ask for the GPU of a task "
				  "(tenure ask), and its owner is told; false: they are refused" },
	[SET_VISIBLE_DEVICES] = { ROW("visible_devices", "VISIBLE_DEVICES", "visible-devices",
				      VALUE_CHOICE),
				  .opt.arg = "HOW", .opt.def = "index", .opt.group = node,
				  .opt.spec.choices = device_names, .groups = SETTING_GROUP_NODE,
				  .opt.help =
					  "how CUDA_VISIBLE_DEVICES of a task names its GPUs: index, "
					  "in the order of their PCI addresses, or uuid. Instances of "
					  "MIG are always named by UUID" },
	[SET_LOG_LEVEL] = { ROW("log_level", "LOG_LEVEL", "log-level", VALUE_CHOICE),
			    .opt.arg = "LEVEL", .opt.def = "info", .opt.group = node,
			    .opt.spec.choices = levels, .groups = SETTING_GROUP_NODE,
			    .opt.help = "what is logged" },
	[SET_LIFETIME] = { ROW("lifetime", "LIFETIME", "lifetime", VALUE_DURATION),
			   .opt.arg = "DURATION", .opt.def = "0", .opt.group = ending,
			   .groups = SETTING_GROUP_LIFE,
			   .opt.help = "end so long after the start, and say so then, in tenure "
				       "status, and shortly before; 0: do not" },
	[SET_LIFETIME_END] = { ROW("lifetime_end", "LIFETIME_END", "lifetime-end", VALUE_CHOICE),
			       .opt.arg = "HOW", .opt.def = "drain", .opt.group = ending,
			       .opt.spec.choices = lifetime_ends, .groups = SETTING_GROUP_LIFE,
			       .opt.help = "what becomes of the tasks that run at the end of the "
					   "lifetime: drain waits for them, stop ends and "
					   "requeues them, which does not count as a try" },
	[SET_LIFETIME_NOTICE] = { ROW("lifetime_notice", "LIFETIME_NOTICE", "lifetime-notice",
				      VALUE_DURATION),
				  .opt.arg = "DURATION", .opt.def = "10m", .opt.group = ending,
				  .groups = SETTING_GROUP_LIFE,
				  .opt.help =
					  "so long before the end of the lifetime it is told; 0: "
					  "not" },
	[SET_ON_EMPTY] = { ROW("on_empty", "ON_EMPTY", "on-empty", VALUE_CHOICE), .opt.arg = "WHAT",
			   .opt.def = "hold", .opt.group = ending, .opt.spec.choices = on_empties,
			   .groups = SETTING_GROUP_LIFE,
			   .opt.help =
				   "with an empty queue: hold as otherwise, release what is held "
				   "until there are tasks again, or exit. It is empty while nothing "
				   "runs here and nothing waits that will start here by itself: what "
				   "is paused will not, what waits for a time or a task will" },
	[SET_EMPTY_FOR] = { ROW("empty_for", "EMPTY_FOR", "empty-for", VALUE_DURATION),
			    .opt.arg = "DURATION", .opt.def = "5m", .opt.group = ending,
			    .groups = SETTING_GROUP_LIFE,
			    .opt.help =
				    "it has to be empty for so long, counted from the start at the "
				    "earliest, also where nothing was ever submitted" },
	[SET_WORKLOAD] = { ROW("workload", "WORKLOAD", "workload", VALUE_STRING), .opt.arg = "CMD",
			   .opt.group = loading, .groups = SETTING_GROUP_LIFE,
			   .opt.help =
				   "instead of holding, run this command on each GPU that would be "
				   "held, in /bin/sh and with CUDA_VISIBLE_DEVICES set. It is ended "
				   "when a task needs the GPU or somebody else starts there, and "
				   "started again when the GPU has been idle for --idle-for" },
	[SET_WORKLOAD_GRACE] = { ROW("workload_grace", "WORKLOAD_GRACE", "workload-grace",
				     VALUE_DURATION),
				 .opt.arg = "DURATION", .opt.def = "2s", .opt.group = loading,
				 .opt.spec.max = WORKLOAD_GRACE_MAX, .groups = SETTING_GROUP_LIFE,
				 .opt.help =
					 "between the SIGTERM for the workload and its SIGKILL" },
	[SET_LANE_WIDTH] = { ROW("lane_width", "LANE_WIDTH", "lane-width", VALUE_WORDS),
			     .opt.arg = "LANE=N", .opt.def = "", .opt.group = queue,
			     .groups = SETTING_GROUP_LIFE,
			     .opt.help =
				     "so many tasks of a lane run at once, like week=2; the others "
				     "run one after another" },
	[SET_ENGINE] = { ROW("engine", "ENGINE", "engine", VALUE_NAME), .opt.words = WORDS_ENGINES,
			 .opt.arg = "ENGINE", .opt.group = pools, .groups = SETTING_GROUP_POOL,
			 .opt.help =
				 "whom `tenure up` asks for nodes: slurm, sge, sco, k8s, local" },
	[SET_ENGINE_SETTINGS] = { ROW("engine_settings", "ENGINE_SETTINGS", "engine-settings",
				      VALUE_TEXT),
				  .opt.arg = "TEXT", .opt.group = pools,
				  .groups = SETTING_GROUP_POOL,
				  .opt.help =
					  "KEY=VALUE that the engine needs for every new pool, a "
					  "line each or with ; between them" },
	[SET_ENGINE_OPTIONS] = { ROW("engine_options", "ENGINE_OPTIONS", "engine-options",
				     VALUE_TEXT),
				 .opt.arg = "TEXT", .opt.group = pools,
				 .groups = SETTING_GROUP_POOL,
				 .opt.help =
					 "lines that go into the job scripts of every new pool, "
					 "such as --partition=gpu" },
	[SET_ALLOC_TOTAL] = { ROW("max_total_gpus", "MAX_TOTAL_GPUS", "max-total-gpus", VALUE_UINT),
			      .opt.arg = "N", .opt.def = "8", .opt.group = allocating,
			      .opt.spec.max = ALLOC_MOST, .flags = SETTING_LIMIT,
			      .groups = SETTING_GROUP_ALLOC | SETTING_GROUP_LIFE,
			      .opt.help =
				      "all allocations of an instance together have at most N GPUs; "
				      "0: no limit" },
	[SET_ALLOC_MANUAL] = { ROW("max_manual_gpus", "MAX_MANUAL_GPUS", "max-manual-gpus",
				   VALUE_UINT),
			       .opt.arg = "N", .opt.def = "6", .opt.group = allocating,
			       .opt.spec.max = ALLOC_MOST,
			       .groups = SETTING_GROUP_ALLOC | SETTING_GROUP_LIFE,
			       .opt.help = "those made by hand have at most N; 0: no limit" },
	[SET_ALLOC_EACH] = { ROW("max_gpus_per_task", "MAX_GPUS_PER_TASK", "max-gpus-per-task",
				 VALUE_UINT),
			     .opt.arg = "N", .opt.def = "4", .opt.group = allocating,
			     .opt.spec.max = ALLOC_MOST, .groups = SETTING_GROUP_ALLOC,
			     .opt.help = "one allocation has at most N; 0: no limit" },
	[SET_ALLOC_BASE] = { ROW("base_gpus", "BASE_GPUS", "base-gpus", VALUE_UINT), .opt.arg = "N",
			     .opt.def = "0", .opt.group = allocating, .opt.spec.max = ALLOC_MOST,
			     .groups = SETTING_GROUP_ALLOC | SETTING_GROUP_LIFE,
			     .opt.help =
				     "keep up to N GPUs allocated whenever some are free, for who "
				     "allocates them next" },
	[SET_ALLOC_GPUS] = { ROW("min_gpus", "MIN_GPUS", "min-gpus", VALUE_UINT), .opt.arg = "N",
			     .opt.def = "1", .opt.group = allocating, .opt.spec.min = 1,
			     .opt.spec.max = ALLOC_MOST, .groups = SETTING_GROUP_ALLOC,
			     .opt.help = "GPUs of an allocation that does not say how many" },
	[SET_FREE_THRESHOLD] = { ROW("gpu_available_threshold", "GPU_AVAILABLE_THRESHOLD",
				     "gpu-available-threshold", VALUE_UINT),
				 .opt.arg = "N", .opt.def = "0", .opt.group = allocating,
				 .opt.spec.max = ALLOC_MOST, .groups = SETTING_GROUP_LIFE,
				 .opt.help =
					 "write an event when N GPUs of this node are free, and again "
					 "when there were fewer meanwhile; 0: do not. Without it 1, "
					 "where a rule of notify names the event free" },
	[SET_ALLOC_PREFIX] = { ROW("job_prefix", "JOB_PREFIX", "prefix", VALUE_STRING),
			       .opt.arg = "WORD", .opt.group = allocating,
			       .groups = SETTING_GROUP_ALLOC,
			       .opt.help =
				       "with which the names of allocations' jobs on an engine begin, "
				       "such as NDFS_. All of your jobs there that are called so count "
				       "against max_total_gpus, whoever submitted them; without it those "
				       "of this instance's allocations do, tenure-INSTANCE-alloc-" },
	[SET_ALLOC_PROGRAM] = { ROW("program", "PROGRAM", "program", VALUE_TEXT), .opt.arg = "CMD",
				.opt.group = allocating, .groups = SETTING_GROUP_ALLOC,
				.opt.help =
					"the command that tenure start NAME runs, in /bin/sh; {gpu_list}, "
					"{gpu_count} and {task_id} stand for what it has and is called" },
	[SET_SWEEP] = { ROW("sweep", "SWEEP", "sweep", VALUE_CHOICE), .opt.arg = "WHAT",
			.opt.def = "auto", .opt.group = stopping, .opt.spec.choices = sweeps,
			.groups = SETTING_GROUP_SWEEP,
			.opt.help = "what else of ours is ended when a task is stopped: gpu: what "
				    "stays on its GPUs; python: every other Python process on this "
				    "node; auto: python in a job of submit.sh, none elsewhere" },
	[SET_SWEEP_SPARE] = { ROW("sweep_spare", "SWEEP_SPARE", "sweep-spare", VALUE_WORDS),
			      .opt.arg = "PATTERNS", .opt.def = "", .opt.group = stopping,
			      .groups = SETTING_GROUP_SPARE,
			      .opt.help =
				      "but not those with such a command line: a part of it, or "
				      "a pattern: jupyter,*tensorboard*" },
	[SET_LISTEN] = { ROW("listen", "LISTEN", "listen", VALUE_TEXT), .opt.arg = "ADDRESS",
			 .opt.group = serving, .groups = SETTING_GROUP_SERVE | SETTING_GROUP_HOLD,
			 .opt.help = "serve HTTP on that address and port, as 127.0.0.1:8470, to "
				     "whoever has the token; none: on no port" },
	[SET_LISTEN_HOSTS] = { ROW("listen_hosts", "LISTEN_HOSTS", "listen-hosts", VALUE_WORDS),
			       .opt.arg = "NAMES", .opt.def = "", .opt.group = serving,
			       .groups = SETTING_GROUP_SERVE | SETTING_GROUP_HOLD,
			       .opt.help =
				       "further names that browsers call this machine by, as that of "
				       "a reverse proxy; requests for others are refused" },
	[SET_ALLOW_USERS] = { ROW("allow_users", "ALLOW_USERS", "allow-users", VALUE_WORDS),
			      .opt.words = WORDS_USERS, .opt.arg = "USERS", .opt.def = "",
			      .flags = SETTING_LIMIT | SETTING_SITE_ONLY,
			      .groups = SETTING_GROUP_SITE,
			      .opt.help =
				      "users and @groups who may hold GPUs here; empty: everybody" },
	[SET_MAX_DEVICES] = { ROW("max_devices", "MAX_DEVICES", "max-devices", VALUE_UINT),
			      .opt.arg = "N", .opt.def = "0", .opt.group = holding,
			      .opt.spec.max = GPU_PICKS_MAX, .flags = SETTING_LIMIT,
			      .groups = SETTING_GROUP_HOLD,
			      .opt.help =
				      "hold, and use for tasks, at most N GPUs at a time; 0: no limit" },
};

_Static_assert(ARRAY_LEN(settings_table) == SET_MAX, "every setting has a row");
