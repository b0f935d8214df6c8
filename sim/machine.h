/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SIM_MACHINE_H
#define TENURE_SIM_MACHINE_H

/*
 * The simulated machine: one file, mapped by every process that uses it.
 *
 * `tenure sim` creates it, the simulated libcuda and libnvidia-ml map it (environment TENURE_SIM
 * holds its path), `tenure sim ctl` changes it while it runs. Nothing here allocates, prints or
 * exits, and nothing but libc and pthread is needed: the code is loaded into programs that are not
 * ours.
 *
 * One process-shared robust mutex, data, guards every field; it is held for microseconds, never
 * over a sleep. A process that dies with it leaves it to the next (EOWNERDEAD). One that is stopped
 * (SIGSTOP) with it goes on until it has let go: a real driver's call is in the kernel, where no
 * process is stopped.
 *
 * The driver's lock is no mutex but a time: until when the calls that were made keep it. A call
 * that costs time adds its own and waits until then, so that the calls of all processes queue
 * behind each other in the order in which they were made, as on the real thing, and whoever is
 * stopped or killed meanwhile keeps nobody waiting for longer. Memory is free when the call that
 * frees it is over, whenever its process comes to run again.
 *
 * Times are CLOCK_MONOTONIC nanoseconds; sizes are bytes; functions that say "locked" want data
 * held.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "timing.h"

#define SIM_MAGIC     0x6d69736572756e74ULL /* "tnuresim" */
#define SIM_VERSION   10
#define SIM_DEV_MAX   64 /* cards and MIG instances together */
#define SIM_PROC_MAX  256
#define SIM_BUSY_MAX  4096 /* remembered launches of one device: over 1 s of 1 ms kernels */
#define SIM_XID_MAX   64
#define SIM_FAULT_MAX 16
#define SIM_GIVE_MAX  64 /* calls at a time that free memory */
#define SIM_LINK_MAX  18 /* of NVLink, of one card */

#define NS_PER_S 1000000000ULL

#define SIM_MIB (1024ULL * 1024)
#define SIM_GIB (1024ULL * SIM_MIB)

enum sim_pid_mode {
	SIM_PIDS_SAME, /* one PID namespace: everybody sees everybody */
	SIM_PIDS_HOST, /* the lists show the host's PIDs: real PID + SIM_PID_OFFSET */
	SIM_PIDS_OWN,  /* processes of the other PID namespace are missing (TENURE_SIM_NEIGHBOUR=1)
			*/
	SIM_PIDS_NONE, /* the lists are empty */
	SIM_PIDS_MAX
};

#define SIM_PID_OFFSET 1000000

enum sim_nvml_state {
	SIM_NVML_OK,
	SIM_NVML_LOST, /* every call fails with NVML_ERROR_UNKNOWN */
};

/* What was launched: the device is busy from start to end. */
struct sim_busy {
	uint64_t seq; /* 0: never used */
	uint64_t start_ns;
	uint64_t end_ns;
	int32_t pid;
	uint32_t power_mw; /* what it adds to the board's power while it runs */
};

/* What goes wrong with a card by and by; all of it is 0 in a new one (`ctl health`). */
struct sim_health {
	uint32_t heat_c; /* that its cooling leaves in it, beside what its power explains */
	uint32_t ecc_corrected, ecc_uncorrected;	   /* since the driver was loaded */
	uint32_t ecc_corrected_ever, ecc_uncorrected_ever; /* before that */
	uint32_t rows_corrected, rows_uncorrected, rows_pending, rows_failed;
	uint32_t pcie_replays, pcie_lanes_lost;
	uint32_t pcie_rests; /* while nobody uses it: 1: generation 1; 2: and one lane */
	uint32_t recovery;   /* NVML_GPU_RECOVERY_ACTION_.. */
	uint32_t fabric;     /* 0: as it should be; NVML_GPU_FABRIC_STATE_.., 3: with an error */
	uint32_t links_down; /* a bit for each */
	uint32_t link_replays, link_recoveries, link_crc_flit, link_crc_data;
	/* What `tenure burn` is to find: that many at each look. */
	uint32_t wrong_results, nan_results, inf_results, wrong_words, wrong_reference;
	uint32_t slowness; /* per cent that its kernels do less in their time */
	uint32_t copies_in_wrong, copies_out_wrong; /* words of each copy over PCIe */
	uint32_t copies_peer_wrong;		    /* of each to another card, or from it */
	uint32_t pcie_slowness, link_slowness;	    /* per cent */
};

struct sim_dev {
	char uuid[64];
	char name[96];
	int32_t parent; /* device number of the card, of a MIG instance; -1 for a card */
	int32_t minor;	/* N of nvidiaN, of a card */
	uint32_t gi_id, ci_id;
	uint32_t sm_count;
	int32_t cc_major, cc_minor;
	uint32_t pci_bus, pci_device_id;
	uint64_t nvlink; /* cards that NVLink joins with it, a bit each */
	uint32_t limit_mw, idle_mw, context_mw, spin_mw, tensor_mw;
	uint32_t clock_sm_mhz, clock_mem_mhz;
	uint32_t bus_bits, l2_kib;
	uint64_t mem_total;
	uint64_t mem_reserved; /* the driver's part of mem_total */
	uint64_t mem_foreign;  /* in use by nobody visible (`ctl foreign-memory`) */
	uint64_t dirty_bytes;  /* freed and not yet scrubbed, at dirty_ns */
	uint64_t dirty_ns;
	int32_t dirty_pid; /* who freed it, -1 several: its owner gets it back without scrubbing */
	uint32_t compute_mode;
	bool mig, display, lost, mig_capable, nvlink_board, ecc;
	struct sim_health health;
	uint64_t energy_uj, energy_ns; /* counted up to energy_ns */
	uint64_t busy_seq;
	struct sim_busy busy[SIM_BUSY_MAX];
};

/* What one process has on one device. */
struct sim_use {
	uint32_t contexts;
	uint64_t bytes;	     /* allocations, without what the contexts cost */
	uint64_t visible_ns; /* the PID is in the lists from then on; 0: no context */
};

struct sim_proc {
	int32_t pid;	 /* 0: free slot; as its own PID namespace has it */
	uint64_t pid_ns; /* which that is: inode of /proc/self/ns/pid */
	bool neighbour;
	uint64_t start_ticks; /* field 22 of /proc/PID/stat */
	struct sim_use use[SIM_DEV_MAX];
};

struct sim_xid {
	int32_t dev;
	uint32_t xid;
};

struct sim_fault {
	char function[64]; /* "" is a free slot; matches with and without _vN */
	int64_t after;	   /* the after-th call fails; -1 every call */
	int32_t error;
	bool hang; /* calls wait until the fault is gone */
};

/* Memory that is free from then on. */
struct sim_give {
	uint64_t due_ns;
	uint64_t bytes;
	int32_t dev, proc; /* proc is its slot */
};

struct sim_machine {
	uint64_t magic;
	uint32_t version;
	uint32_t size; /* of this structure: another build's file is refused */
	char dir[256];
	char nodes[272];	 /* directory of the device nodes */
	char nodes_private[272]; /* the same for TENURE_SIM_NODES=private */
	char driver_version[32];
	int32_t cuda_version;
	double scale; /* 0 as fast as possible .. 1 as measured */
	uint64_t timing[SIM_T_MAX];

	pthread_mutex_t data;
	uint64_t data_ns;	  /* PID namespace of who has it, or had it last */
	uint64_t driver_until_ns; /* the driver's lock is kept until then */
	uint32_t ngives;
	struct sim_give gives[SIM_GIVE_MAX];
	uint32_t pid_mode, nvml, proc_layout;
	int32_t ndevs, ncards; /* cards come first */
	uint64_t reaped_ns;
	uint64_t start_line_ns;	    /* processes that start do most of it one after another */
	uint64_t starting_until_ns; /* some process is starting: driver calls are slower */
	uint64_t last_context_ns;   /* when the host last had a context: warm or cold */
	uint32_t xid_seq;	    /* futex; XID n is xids[n % SIM_XID_MAX] */
	struct sim_xid xids[SIM_XID_MAX];
	uint32_t nfaults;
	struct sim_fault faults[SIM_FAULT_MAX];
	struct sim_proc procs[SIM_PROC_MAX];
	struct sim_dev devs[SIM_DEV_MAX];
};

uint64_t sim_now_ns(void);
void sim_sleep_ns(uint64_t ns);

/* Map the file at path. 0 and *ret, or negative errno (-EPROTO: not a machine of this build). */
int sim_map(const char *path, struct sim_machine **ret);
/* The machine of environment TENURE_SIM, mapped once per library. NULL: there is none. */
struct sim_machine *sim_machine_get(void);
/* Create the file with an initialised, empty machine and map it. 0 or negative errno. */
int sim_create(const char *path, struct sim_machine **ret);

/* 0, or negative errno (the mutex is broken). */
int sim_lock(struct sim_machine *m);
void sim_unlock(struct sim_machine *m);

/* The scaled length of a timing. */
uint64_t sim_cost_ns(const struct sim_machine *m, enum sim_timing_id id);
/* A driver call: queue behind the driver's lock and keep it for ns (scaled) + `lock slow`. */
void sim_driver_call(struct sim_machine *m, uint64_t ns);
/* The same in two steps: when it is over, by sim_now_ns(). Locked. Whoever has the time waits then,
 * unlocked. */
uint64_t sim_driver_take(struct sim_machine *m, uint64_t ns);
void sim_sleep_until(uint64_t until_ns);
/* The part of a start that only one process at a time is in; calls of others come in between. */
void sim_start_alone(struct sim_machine *m, uint64_t ns);
/* Somebody starts until now + ns: NVML calls made meanwhile are slower. */
void sim_starting(struct sim_machine *m, uint64_t ns);

/* Fault injection at the entry of every exported function. 0, or the error to return. Waits on
 * hang. */
int sim_fault(struct sim_machine *m, const char *function);

/* Forget dead processes; their memory is free. At most once a millisecond unless force. Locked. */
void sim_reap(struct sim_machine *m, bool force);
/* Forget the dead that use dev: whoever has waited for a process sees neither it nor its memory any
 * more, as on a card. Locked. */
void sim_reap_card(struct sim_machine *m, int dev);
/* The slot of pid, NULL where it has none. With create: registered, NULL only when full. Locked. */
struct sim_proc *sim_proc(struct sim_machine *m, pid_t pid, bool create);

/* Its PID as the caller's PID namespace has it; 0: it has none there. Locked. */
pid_t sim_proc_pid(const struct sim_machine *m, const struct sim_proc *p);

/* Devices by number. A card's figures include its MIG instances. All locked. */
bool sim_is_card_of(const struct sim_machine *m, int dev, int member);
uint64_t sim_proc_bytes(const struct sim_machine *m, const struct sim_proc *p, int dev);
uint64_t sim_mem_used(const struct sim_machine *m, int dev); /* without the driver's reserve */
uint64_t sim_mem_free(const struct sim_machine *m, int dev);
bool sim_has_context(const struct sim_machine *m, int dev);
bool sim_host_has_context(const struct sim_machine *m);

/*
 * Account an allocation. 0 and *ret_wait_ns: how long the caller waits, unlocked, until what it got
 * is scrubbed. -ENOMEM: the card is full. Locked.
 */
int sim_mem_take(struct sim_machine *m, int dev, struct sim_proc *p, uint64_t bytes,
		 uint64_t *ret_wait_ns);
void sim_mem_give(struct sim_machine *m, int dev, struct sim_proc *p, uint64_t bytes);
/* The same at due_ns. False: there are too many; the caller does it then. Locked. */
bool sim_mem_give_at(struct sim_machine *m, int dev, struct sim_proc *p, uint64_t bytes,
		     uint64_t due_ns);
/* Of those that are due; sim_lock() does it. Locked. */
void sim_mem_settle(struct sim_machine *m);
/* p is gone: nothing of it is to come. Locked. */
void sim_mem_forget(struct sim_machine *m, const struct sim_proc *p);

/* Lanes of a card's slot, the generation of its bus (by the data sheets: 3 up to Turing, 4 for
 * Ampere and Ada, 5 for Hopper), and what it carries one way, in bytes per second: seven eighths of
 * what lanes and generation promise, as measured on an H200. */
#define SIM_PCIE_LANES 16
unsigned int sim_pcie_generation(const struct sim_dev *d);
double sim_pcie_rate(const struct sim_dev *d);
/* By generation of the boards that have NVLink: 6 links of Volta, 12 of Ampere, 18 of Hopper; and
 * what all that are up carry one way, seven eighths of 25 GB/s each. */
unsigned int sim_links(const struct sim_dev *d);
double sim_link_rate(const struct sim_dev *d);

/* Publish a launch; returns its sequence number for sim_busy_set(), which moves it. Locked. */
uint64_t sim_busy_add(struct sim_machine *m, int dev, uint64_t start_ns, uint64_t end_ns,
		      uint32_t power_mw);
void sim_busy_set(struct sim_machine *m, int dev, uint64_t seq, uint64_t start_ns, uint64_t end_ns);
/* Time in [from, to) during which something of pid (0: anybody) ran on dev. Locked. */
uint64_t sim_busy_ns(const struct sim_machine *m, int dev, uint64_t from, uint64_t to, pid_t pid);
/* Mean board power in mW over the last power window, and the energy counter in mJ. Locked. */
uint32_t sim_power_mw(struct sim_machine *m, int dev);
uint64_t sim_energy_mj(struct sim_machine *m, int dev);

/* Report an XID on dev and wake the waiters. Locked. */
void sim_xid_add(struct sim_machine *m, int dev, uint32_t xid);

/* Open a node ("nvidiactl", "nvidia0") n times, every second descriptor stays open. */
void sim_open_nodes(struct sim_machine *m, const char *node, int n);
/* Open one node and return the descriptor, negative errno on failure. */
int sim_open_node(struct sim_machine *m, const char *node);

#endif
