/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SIM_CUDA_SIM_H
#define TENURE_SIM_CUDA_SIM_H

/*
 * Inside the simulated libcuda: what a process has, and how an exported function begins.
 *
 * Every exported function starts with CU_ENTER(needs): it refuses where CUDA would (not
 * initialised, in a forked child, no context), and is where injected faults strike. Handles are
 * pointers to the structures below; they are looked up before use, so that a stale one gives an
 * error and no crash.
 *
 * cu.lock guards everything of the process and is never held over a sleep. It comes before the
 * machine's data lock; the machine's driver lock is never taken with it held.
 */

#include "gpu/cuda_abi.h"
#include "machine.h"

#define CU_EXPORT __attribute__((visibility("default")))

/* A second name for one function. gcc wants its attributes repeated, clang has no word for it. */
#if __has_attribute(copy)
#define CU_ALIAS_OF(of) alias(#of), copy(of)
#else
#define CU_ALIAS_OF(of) alias(#of)
#endif
#define CU_ALIAS(name, of) extern CU_EXPORT __typeof__(of) name __attribute__((CU_ALIAS_OF(of)))

enum cu_needs { NEEDS_NOTHING, NEEDS_INIT, NEEDS_CONTEXT };

#define CU_ENTER(needs)                                                                            \
	do {                                                                                       \
		CUresult enter_ = cu_enter(__func__, needs);                                       \
		if (enter_ != CUDA_SUCCESS)                                                        \
			return enter_;                                                             \
	} while (0)

#define CU_PAGE (2 * SIM_MIB) /* granularity of the card's memory */

/* One kernel or marker in a stream. */
struct cu_launch {
	struct cu_launch *next;
	uint64_t earliest_ns;
	uint64_t duration_ns;
	uint64_t start_ns, end_ns; /* as planned now */
	uint64_t seq;		   /* in the device's ring; 0 for a marker */
	const volatile uint32_t *stop;
	struct CUevent_st *event;
};

struct CUstream_st {
	struct CUstream_st *next;
	unsigned long long id;
	struct CUctx_st *ctx;
	unsigned int flags;
	int priority;
	int queued;
	uint64_t last_end_ns;				  /* of what has left the queue */
	enum { LAST_KERNEL, LAST_EVENT, LAST_COPY } last; /* what was queued last */
	struct cu_launch *head, **tail;
};

struct CUevent_st {
	struct CUevent_st *next;
	unsigned int flags;
	bool recorded;
	struct cu_launch *pending; /* NULL when reached */
	uint64_t reached_ns;
};

struct CUctx_st {
	struct CUctx_st *next;
	int ordinal;
	int dev; /* the machine's number */
	bool primary, dead;
	unsigned int flags;
	int refs; /* a primary context's retains; else what cuCtxDetach() counts down */
	unsigned long long id;
	uint64_t peers; /* devices (the machine's numbers) whose memory it reaches */
	size_t limits[CU_LIMIT_MAX];
	struct CUstream_st standard;
};

struct CUfunc_st {
	struct CUfunc_st *next;
	struct CUmod_st *module;
	char name[256];
	int nparams;
	size_t params_bytes;
	int shared_most; /* bytes that a launch may ask for itself */
};

struct CUmod_st {
	struct CUmod_st *next;
	struct CUctx_st *ctx;
	struct CUfunc_st *functions;
};

/* A page of device memory: a repeated word until somebody writes less than a page into it. */
struct cu_page {
	uint8_t *data;
	uint32_t word;
};

enum cu_kind {
	CU_DEVICE,     /* cuMemAlloc(), and what cuMemMap() has mapped */
	CU_POOLED,     /* cuMemAllocAsync() */
	CU_MANAGED,    /* cuMemAllocManaged() */
	CU_PINNED,     /* cuMemHostAlloc() */
	CU_REGISTERED, /* cuMemHostRegister(): the program's own */
	CU_OPENED,     /* cuIpcOpenMemHandle(): another process's */
};

/* Memory with an address that the device knows. Device memory has pages, the rest host. */
struct cu_block {
	enum cu_kind kind;
	unsigned int flags; /* of host memory */
	uint64_t id;
	struct cu_block *next;
	CUdeviceptr addr;
	size_t size;
	uint64_t charged; /* what the card was charged; 0 for small and pooled pieces and host
			     memory */
	struct CUctx_st *ctx;
	uint8_t *host;
	bool is_small;
	struct cu_page *pages;
	bool shared; /* cuIpcGetMemHandle() has made a file of it, which is mapped at host */
	int far_dev; /* CU_OPENED: the device (the machine's number) that it is on */
};

/* A device's pool: what is charged to the card and what of it is allocated now. */
struct CUmemPoolHandle_st {
	uint64_t reserved, reserved_high, used, used_high, threshold;
};

struct cu_process {
	pthread_mutex_t lock;
	struct sim_machine *m;
	pid_t pid; /* 0 until cuInit succeeded */
	int nvisible;
	int visible[SIM_DEV_MAX];
	bool allocated[SIM_DEV_MAX];	   /* the first allocation opens the node once more */
	uint64_t small_bytes[SIM_DEV_MAX]; /* pieces that share pages */
	struct CUmemPoolHandle_st pools[SIM_DEV_MAX];
	uint64_t next_addr, block_ids, context_ids;
	struct CUctx_st *contexts;
	struct CUctx_st *primary[SIM_DEV_MAX];
	struct CUstream_st *streams;
	struct CUevent_st *events;
	struct CUmod_st *modules;
	struct cu_block *blocks;
};

extern struct cu_process cu;

CUresult cu_enter(const char *function, enum cu_needs needs);

/*
 * The newest shape of a function of the API that a program of that CUDA version knows. *ret is NULL
 * unless it is found.
 */
enum cu_symbol_result { CU_SYMBOL_FOUND, CU_SYMBOL_UNKNOWN, CU_SYMBOL_TOO_NEW };
enum cu_symbol_result cu_symbol_find(const char *function, int version, void **ret);

/* Fill cu.visible from CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER. */
void cu_visible_devices(void);

/* The device of an ordinal; NULL: this process has none of that number. */
struct sim_dev *cu_device(CUdevice d);

/*
 * A part of a process's start: opens spread over ns, with short stretches of the driver's lock. dev
 * is the one whose node is opened, -1 all cards.
 */
void cu_start_phase(uint64_t ns, int ctl_opens, int node_opens, int dev);

/* The calling thread's context; NULL: none. */
struct CUctx_st *cu_current(void);
/* With cu.lock held. */
bool cu_context_known(const struct CUctx_st *ctx);
struct CUstream_st *cu_stream_find(CUstream stream); /* also the standard ones; NULL: unknown */
struct CUfunc_st *cu_function_find(CUfunction function);
/* Shared memory that a block can have on that device: what it has unasked, and at most. */
#define CU_SHARED_UNASKED 49152
int cu_shared_most(const struct sim_dev *d);
struct cu_block *cu_block_find(CUdeviceptr addr, size_t size);
void cu_block_link(struct cu_block *b);

/* Memory of either side, without waiting for anything. */
CUresult cu_write(CUdeviceptr to, const void *from, size_t n);
CUresult cu_read(void *to, CUdeviceptr from, size_t n);
CUresult cu_fill(CUdeviceptr at, uint32_t word, size_t n); /* with that word, again and again */

/* Which part of its time f works on dev, 0 to 1. */
double cu_kernel_part(const struct CUfunc_st *f, const struct sim_dev *dev, void **params);
/* f was launched on dev with blocks of so many threads: what it leaves in memory. */
void cu_kernel_leaves(const struct CUfunc_st *f, const struct sim_dev *dev, unsigned int threads,
		      void **params);

/* A copy of ns is queued, which is never late behind an event. CUDA_ERROR_INVALID_HANDLE: there is
 * no such stream. */
CUresult cu_stream_busy(CUstream stream, uint64_t ns);

/* The end of what was opened; of the file of what is shared. */
CUresult cu_block_close(CUdeviceptr addr);
void cu_ipc_unlink(const struct cu_block *b);

/* Wait, without any lock, until all that was launched in ctx has ended. */
void cu_context_wait(struct CUctx_st *ctx);

/* Give back everything of ctx, with the cost of freeing it piece by piece. */
void cu_context_clear(struct CUctx_st *ctx);
void cu_streams_drop(struct CUctx_st *ctx);
void cu_modules_drop(struct CUctx_st *ctx);

/* Account size bytes on ctx's device and wait until they are clean. */
CUresult cu_charge(struct CUctx_st *ctx, uint64_t bytes);
void cu_uncharge(struct CUctx_st *ctx, uint64_t bytes);
bool cu_is_device_address(CUdeviceptr addr);

/*
 * The pool of device dev (the machine's number). take: how much the card has to be charged for
 * another size bytes; where that fails, undo. give: back to the pool. All with cu.lock held. trim:
 * give back to the card what the pool keeps for nothing, without the lock.
 */
uint64_t cu_pool_take(int dev, uint64_t size);
void cu_pool_undo(int dev, uint64_t size, uint64_t charge);
void cu_pool_give(int dev, uint64_t size);
void cu_pool_trim(struct CUctx_st *ctx);
CUmemoryPool cu_pool_of(CUdevice d);
CUdevice cu_pool_device(CUmemoryPool pool); /* -1: no such pool */

/* A fresh range of device addresses. */
CUdeviceptr cu_address(size_t size);
void cu_pages_free(struct cu_block *b);

#endif
