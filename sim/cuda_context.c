/* SPDX-License-Identifier: MIT */

/* Contexts: the primary one of each device, created ones, and the stack of the calling thread. */
#include "cuda_sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STACK_MAX 32

static __thread struct {
	int depth;
	struct CUctx_st *items[STACK_MAX];
} stack;

struct CUctx_st *cu_current(void)
{
	return stack.depth > 0 ? stack.items[stack.depth - 1] : NULL;
}

bool cu_context_known(const struct CUctx_st *ctx)
{
	for (const struct CUctx_st *c = cu.contexts; c; c = c->next) {
		if (c == ctx)
			return true;
	}
	return false;
}

/* Register a context of this process on dev in the machine. */
static CUresult machine_add(int dev)
{
	struct sim_machine *m = cu.m;
	struct sim_dev *d = &m->devs[dev];
	struct sim_proc *p;
	CUresult res = CUDA_SUCCESS;

	if (sim_lock(m) < 0)
		return CUDA_ERROR_UNKNOWN;
	sim_reap(m, true);
	p = sim_proc(m, getpid(), true);
	if (!p)
		res = CUDA_ERROR_OPERATING_SYSTEM;
	else if (d->lost || d->compute_mode == CU_COMPUTEMODE_PROHIBITED ||
		 (d->compute_mode == CU_COMPUTEMODE_EXCLUSIVE_PROCESS && !p->use[dev].contexts &&
		  sim_has_context(m, dev)))
		res = CUDA_ERROR_DEVICE_UNAVAILABLE;
	else if (sim_mem_free(m, dev) < m->timing[SIM_T_CTX_BYTES])
		res = CUDA_ERROR_OUT_OF_MEMORY;
	if (res == CUDA_SUCCESS) {
		(void)sim_energy_mj(m, dev);
		if (p->use[dev].contexts++ == 0)
			p->use[dev].visible_ns = sim_now_ns() + sim_cost_ns(m, SIM_T_PID_VISIBLE);
	}
	sim_unlock(m);
	return res;
}

static void machine_remove(int dev)
{
	struct sim_proc *p;

	if (sim_lock(cu.m) < 0)
		return;
	p = sim_proc(cu.m, getpid(), false);
	(void)sim_energy_mj(cu.m, dev);
	if (p && p->use[dev].contexts && --p->use[dev].contexts == 0)
		p->use[dev].visible_ns = 0;
	cu.m->last_context_ns = sim_now_ns();
	sim_unlock(cu.m);
}

static bool host_warm(void)
{
	bool warm = false;

	if (sim_lock(cu.m) == 0) {
		warm = sim_host_has_context(cu.m);
		sim_unlock(cu.m);
	}
	return warm;
}

/* What an H100 says at first. */
static void default_limits(struct CUctx_st *ctx)
{
	ctx->limits[CU_LIMIT_STACK_SIZE] = 1024;
	ctx->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 8650752;
	ctx->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 * SIM_MIB;
	ctx->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
	ctx->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
	ctx->limits[CU_LIMIT_PERSISTING_L2_CACHE_SIZE] = 0;
}

static CUresult context_new(CUdevice ordinal, bool primary, unsigned int flags,
			    struct CUctx_st **ret)
{
	struct CUctx_st *ctx;
	int dev = cu.visible[ordinal];
	bool warm = host_warm();
	CUresult res = machine_add(dev);

	if (res != CUDA_SUCCESS)
		return res;
	ctx = calloc(1, sizeof(*ctx));
	if (!ctx) {
		machine_remove(dev);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	cu_start_phase(sim_cost_ns(cu.m, warm ? SIM_T_CTX_WARM : SIM_T_CTX_COLD),
		       (int)cu.m->timing[SIM_T_CTX_OPENS_CTL],
		       (int)cu.m->timing[SIM_T_CTX_OPENS_NODE], dev);
	ctx->ordinal = ordinal;
	ctx->dev = dev;
	ctx->primary = primary;
	ctx->refs = primary ? 0 : 1; /* a primary one's are counted as they are retained */
	ctx->flags = flags;
	ctx->id = __atomic_add_fetch(&cu.context_ids, 1, __ATOMIC_RELAXED);
	default_limits(ctx);
	ctx->standard.ctx = ctx;
	ctx->standard.tail = &ctx->standard.head;
	*ret = ctx;
	return CUDA_SUCCESS;
}

/* Wait for its work, give everything back, forget it. */
static void context_drop(struct CUctx_st *ctx)
{
	cu_context_wait(ctx);
	cu_context_clear(ctx);
	cu_pool_trim(ctx);
	sim_driver_call(cu.m, sim_cost_ns(cu.m, SIM_T_CTX_DESTROY));
	(void)pthread_mutex_lock(&cu.lock);
	for (struct CUctx_st **c = &cu.contexts; *c; c = &(*c)->next) {
		if (*c == ctx) {
			*c = ctx->next;
			break;
		}
	}
	cu_modules_drop(ctx);
	cu_streams_drop(ctx);
	(void)pthread_mutex_unlock(&cu.lock);
	machine_remove(ctx->dev);
	while (!ctx->primary && cu_current() == ctx)
		stack.depth--;
	ctx->dead = true; /* not freed: it may be current in another thread */
}

static bool ordinal_valid(CUdevice d)
{
	return d >= 0 && d < cu.nvisible;
}

/* One thread at a time makes a device's primary context; the others wait for it. */
static pthread_mutex_t primary_lock = PTHREAD_MUTEX_INITIALIZER;

CU_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *ret, CUdevice d)
{
	struct CUctx_st *ctx;
	CUresult res = CUDA_SUCCESS;

	CU_ENTER(NEEDS_INIT);
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (!ordinal_valid(d))
		return CUDA_ERROR_INVALID_DEVICE;
	(void)pthread_mutex_lock(&primary_lock);
	ctx = cu.primary[d];
	if (!ctx) {
		res = context_new(d, true, 0, &ctx);
		if (res == CUDA_SUCCESS) {
			(void)pthread_mutex_lock(&cu.lock);
			ctx->next = cu.contexts;
			cu.contexts = ctx;
			(void)pthread_mutex_unlock(&cu.lock);
			cu.primary[d] = ctx;
		}
	}
	if (res == CUDA_SUCCESS) {
		ctx->refs++;
		*ret = ctx;
	}
	(void)pthread_mutex_unlock(&primary_lock);
	return res;
}

static CUresult primary_release(CUdevice d, bool all)
{
	struct CUctx_st *ctx;

	if (!ordinal_valid(d))
		return CUDA_ERROR_INVALID_DEVICE;
	(void)pthread_mutex_lock(&primary_lock);
	ctx = cu.primary[d];
	if (!ctx) {
		(void)pthread_mutex_unlock(&primary_lock);
		return all ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
	}
	if (all || --ctx->refs == 0) {
		cu.primary[d] = NULL;
		context_drop(ctx);
	}
	(void)pthread_mutex_unlock(&primary_lock);
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice d)
{
	CU_ENTER(NEEDS_INIT);
	return primary_release(d, false);
}
CU_ALIAS(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2);

CU_EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice d)
{
	CU_ENTER(NEEDS_INIT);
	return primary_release(d, true);
}
CU_ALIAS(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2);

CU_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice d, unsigned int *flags, int *active)
{
	CU_ENTER(NEEDS_INIT);
	if (!ordinal_valid(d))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!flags || !active)
		return CUDA_ERROR_INVALID_VALUE;
	(void)pthread_mutex_lock(&primary_lock);
	*flags = cu.primary[d] ? cu.primary[d]->flags : 0;
	*active = cu.primary[d] != NULL;
	(void)pthread_mutex_unlock(&primary_lock);
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice d, unsigned int flags)
{
	CU_ENTER(NEEDS_INIT);
	return ordinal_valid(d) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CU_ALIAS(cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags_v2);

CU_EXPORT CUresult cuCtxCreate_v2(CUcontext *ret, unsigned int flags, CUdevice d)
{
	struct CUctx_st *ctx;
	CUresult res;

	CU_ENTER(NEEDS_INIT);
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (!ordinal_valid(d))
		return CUDA_ERROR_INVALID_DEVICE;
	if (stack.depth == STACK_MAX)
		return CUDA_ERROR_UNKNOWN;
	res = context_new(d, false, flags, &ctx);
	if (res != CUDA_SUCCESS)
		return res;
	(void)pthread_mutex_lock(&cu.lock);
	ctx->next = cu.contexts;
	cu.contexts = ctx;
	(void)pthread_mutex_unlock(&cu.lock);
	stack.items[stack.depth++] = ctx;
	*ret = ctx;
	return CUDA_SUCCESS;
}

static bool context_valid(const struct CUctx_st *ctx)
{
	bool known;

	(void)pthread_mutex_lock(&cu.lock);
	known = cu_context_known(ctx);
	(void)pthread_mutex_unlock(&cu.lock);
	return known;
}

CU_EXPORT CUresult cuCtxDestroy_v2(CUcontext ctx)
{
	CU_ENTER(NEEDS_INIT);
	if (!context_valid(ctx) || ctx->primary)
		return CUDA_ERROR_INVALID_CONTEXT;
	context_drop(ctx);
	return CUDA_SUCCESS;
}

/*
 * The count of users of old. As the driver does it (580): a primary context is let through and not
 * counted, and cuCtxDestroy() does not ask for the count.
 */
CU_EXPORT CUresult cuCtxAttach(CUcontext *ret, unsigned int flags)
{
	CU_ENTER(NEEDS_CONTEXT);
	if (!ret || flags)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = cu_current();
	if (!(*ret)->primary)
		__atomic_add_fetch(&(*ret)->refs, 1, __ATOMIC_RELAXED);
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuCtxDetach(CUcontext ctx)
{
	CU_ENTER(NEEDS_CONTEXT);
	if (ctx != cu_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!ctx->primary && __atomic_sub_fetch(&ctx->refs, 1, __ATOMIC_RELAXED) == 0)
		context_drop(ctx);
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
	CU_ENTER(NEEDS_INIT);
	if (!context_valid(ctx) || stack.depth == STACK_MAX)
		return CUDA_ERROR_INVALID_CONTEXT;
	stack.items[stack.depth++] = ctx;
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *ret)
{
	CU_ENTER(NEEDS_CONTEXT);
	if (ret)
		*ret = cu_current();
	stack.depth--;
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuCtxSetCurrent(CUcontext ctx)
{
	CU_ENTER(NEEDS_INIT);
	if (!ctx) {
		stack.depth -= stack.depth > 0;
		return CUDA_SUCCESS;
	}
	if (!context_valid(ctx))
		return CUDA_ERROR_INVALID_CONTEXT;
	stack.depth += stack.depth == 0;
	stack.items[stack.depth - 1] = ctx;
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuCtxGetCurrent(CUcontext *ret)
{
	CU_ENTER(NEEDS_INIT);
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = cu_current();
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuCtxGetDevice(CUdevice *ret)
{
	CU_ENTER(NEEDS_CONTEXT);
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = cu_current()->ordinal;
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuCtxGetFlags(unsigned int *flags)
{
	CU_ENTER(NEEDS_CONTEXT);
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = cu_current()->flags;
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
	CU_ENTER(NEEDS_INIT);
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = 3020;
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	CU_ENTER(NEEDS_CONTEXT);
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return CUDA_SUCCESS;
}

/* Newer shapes: what they say of a context beside its flags (kind of sharing) changes nothing. */
CU_EXPORT CUresult cuCtxCreate_v3(CUcontext *ret, void *affinity, int n, unsigned int flags,
				  CUdevice d)
{
	CU_ENTER(NEEDS_INIT);
	return affinity || n ? CUDA_ERROR_NOT_SUPPORTED : cuCtxCreate_v2(ret, flags, d);
}

CU_EXPORT CUresult cuCtxCreate_v4(CUcontext *ret, void *params, unsigned int flags, CUdevice d)
{
	CU_ENTER(NEEDS_INIT);
	return params ? CUDA_ERROR_NOT_SUPPORTED : cuCtxCreate_v2(ret, flags, d);
}

CU_EXPORT CUresult cuCtxGetDevice_v2(CUdevice *ret, CUcontext ctx)
{
	CU_ENTER(NEEDS_INIT);
	ctx = ctx ? ctx : cu_current();
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (!context_valid(ctx))
		return CUDA_ERROR_INVALID_CONTEXT;
	*ret = ctx->ordinal;
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuCtxGetId(CUcontext ctx, unsigned long long *id)
{
	CU_ENTER(NEEDS_INIT);
	ctx = ctx ? ctx : cu_current();
	if (!id)
		return CUDA_ERROR_INVALID_VALUE;
	if (!context_valid(ctx))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	*id = ctx->id;
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuCtxSetFlags(unsigned int flags)
{
	CU_ENTER(NEEDS_CONTEXT);
	cu_current()->flags = flags;
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuCtxGetLimit(size_t *ret, CUlimit which)
{
	CU_ENTER(NEEDS_CONTEXT);
	if (!ret || (unsigned int)which >= CU_LIMIT_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (which == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH)
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	*ret = cu_current()->limits[which];
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuCtxSetLimit(CUlimit which, size_t value)
{
	CU_ENTER(NEEDS_CONTEXT);
	if ((unsigned int)which >= CU_LIMIT_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (which == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH)
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	cu_current()->limits[which] = value;
	return CUDA_SUCCESS;
}

/* Hints about caches and banks of shared memory: taken, and of no effect on cards of today. */
CU_EXPORT CUresult cuCtxGetCacheConfig(int *config)
{
	CU_ENTER(NEEDS_CONTEXT);
	if (!config)
		return CUDA_ERROR_INVALID_VALUE;
	*config = 0;
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuCtxSetCacheConfig(int config)
{
	CU_ENTER(NEEDS_CONTEXT);
	return config < 0 || config > 3 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CU_EXPORT CUresult cuCtxGetSharedMemConfig(int *config)
{
	CU_ENTER(NEEDS_CONTEXT);
	if (!config)
		return CUDA_ERROR_INVALID_VALUE;
	*config = 1;
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuCtxSetSharedMemConfig(int config)
{
	CU_ENTER(NEEDS_CONTEXT);
	return config < 0 || config > 2 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CU_EXPORT CUresult cuCtxResetPersistingL2Cache(void)
{
	CU_ENTER(NEEDS_CONTEXT);
	return CUDA_SUCCESS;
}

/* Nobody profiles here; the calls only say where it would begin and end. */
CU_EXPORT CUresult cuProfilerStart(void)
{
	CU_ENTER(NEEDS_CONTEXT);
	return CUDA_SUCCESS;
}
CU_ALIAS(cuProfilerStop, cuProfilerStart);

/* Two devices reach each other's memory over NVLink, else through the host. */
static bool are_peers(CUdevice one, CUdevice other)
{
	return one != other && cu.m->devs[cu.visible[one]].nvlink >> cu.visible[other] & 1;
}

CU_EXPORT CUresult cuDeviceCanAccessPeer(int *can, CUdevice d, CUdevice peer)
{
	CU_ENTER(NEEDS_INIT);
	if (!cu_device(d) || !cu_device(peer))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!can)
		return CUDA_ERROR_INVALID_VALUE;
	*can = are_peers(d, peer);
	return CUDA_SUCCESS;
}

/* CU_DEVICE_P2P_ATTRIBUTE_*: 1 the link's rank, 2 access, 3 native atomics, 4 arrays. */
CU_EXPORT CUresult cuDeviceGetP2PAttribute(int *value, int attribute, CUdevice d, CUdevice peer)
{
	CU_ENTER(NEEDS_INIT);
	if (!cu_device(d) || !cu_device(peer))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!value || d == peer || attribute < 1 || attribute > 4)
		return CUDA_ERROR_INVALID_VALUE;
	*value = attribute != 1 && are_peers(d, peer);
	return CUDA_SUCCESS;
}

static CUresult peer_access(struct CUctx_st *peer, bool on)
{
	struct CUctx_st *ctx = cu_current();
	uint64_t bit;

	if (!context_valid(peer))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!are_peers(ctx->ordinal, peer->ordinal))
		return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	bit = 1ULL << peer->dev;
	if (!(ctx->peers & bit) != on)
		return on ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
			  : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
	ctx->peers ^= bit;
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
	CU_ENTER(NEEDS_CONTEXT);
	return flags ? CUDA_ERROR_INVALID_VALUE : peer_access(peer, true);
}

CU_EXPORT CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
	CU_ENTER(NEEDS_CONTEXT);
	return peer_access(peer, false);
}

static CUresult synchronize(struct CUctx_st *ctx)
{
	cu_context_wait(ctx);
	cu_pool_trim(ctx);
	return cu.m->devs[ctx->dev].lost ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

CU_EXPORT CUresult cuCtxSynchronize(void)
{
	CU_ENTER(NEEDS_CONTEXT);
	return synchronize(cu_current());
}

CU_EXPORT CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
	CU_ENTER(NEEDS_INIT);
	ctx = ctx ? ctx : cu_current();
	return context_valid(ctx) ? synchronize(ctx) : CUDA_ERROR_INVALID_CONTEXT;
}
