/* SPDX-License-Identifier: MIT */

/*
 * Streams, events, launches. Nothing runs: a launch is an interval of time, published in the
 * machine so that everybody's NVML sees the device busy. No thread keeps time. Each stream is a
 * queue of planned intervals, and whoever looks at it first brings it up to date (stream_advance):
 * what has ended leaves the queue; a kernel whose stop word has become non-zero ends now, and what
 * is queued behind it moves forward.
 *
 * A kernel whose name begins with "tenure_" takes (stop word, nanoseconds, ...); any other takes
 * the machine's `kernel` time.
 *
 * The program is late with what it asks for as much as the machine that it runs on has to do, and
 * the times of copies would tell of that. So a copy behind an event, and an event behind a copy,
 * are where they would be if they had been asked for at once, unless the program has waited for
 * the stream in between.
 *
 * Everything here is under cu.lock, except waiting.
 */
#include "cuda_sim.h"

#include <stdlib.h>
#include <string.h>

#define QUEUE_MAX 1024	 /* launches queued in a stream before a launch waits */
#define POLL_NS	  200000 /* how soon a set stop word is noticed by a waiter */

struct CUstream_st *cu_stream_find(CUstream stream)
{
	struct CUctx_st *ctx = cu_current();

	if (!stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD)
		return ctx ? &ctx->standard : NULL;
	for (struct CUstream_st *s = cu.streams; s; s = s->next) {
		if (s == stream)
			return s;
	}
	return NULL;
}

static void plan(struct CUstream_st *s, uint64_t now)
{
	uint64_t at = s->last_end_ns;

	for (struct cu_launch *l = s->head; l; l = l->next) {
		l->start_ns = at > l->earliest_ns ? at : l->earliest_ns;
		l->end_ns = l->start_ns + l->duration_ns;
		if (l->stop && *l->stop && l->end_ns > now)
			l->end_ns = l->start_ns > now ? l->start_ns : now;
		if (l->seq)
			sim_busy_set(cu.m, s->ctx->dev, l->seq, l->start_ns, l->end_ns);
		at = l->end_ns;
	}
}

/* Bring the queue up to now. */
static void stream_advance(struct CUstream_st *s)
{
	uint64_t now = sim_now_ns();

	if (!s->head || sim_lock(cu.m) < 0)
		return;
	plan(s, now);
	sim_unlock(cu.m);
	while (s->head && s->head->end_ns <= now) {
		struct cu_launch *l = s->head;

		s->head = l->next;
		s->last_end_ns = l->end_ns;
		s->queued--;
		if (l->event) {
			l->event->pending = NULL;
			l->event->reached_ns = l->end_ns;
		}
		free(l);
	}
	if (!s->head)
		s->tail = &s->head;
}

static uint64_t stream_end(const struct CUstream_st *s)
{
	uint64_t end = s->last_end_ns;

	for (const struct cu_launch *l = s->head; l; l = l->next)
		end = l->end_ns;
	return end;
}

/* How long until the first of what is queued ends; 0: the queue is empty. */
static uint64_t stream_wait_step(struct CUstream_st *s)
{
	uint64_t now;

	stream_advance(s);
	if (!s->head)
		return 0;
	now = sim_now_ns();
	if (s->head->stop)
		return s->head->end_ns > now + POLL_NS ? POLL_NS : s->head->end_ns - now + 1;
	return s->head->end_ns > now ? s->head->end_ns - now : 1;
}

static void stream_wait(struct CUstream_st *s, int until_queued)
{
	uint64_t ns;

	for (;;) {
		(void)pthread_mutex_lock(&cu.lock);
		ns = stream_wait_step(s);
		if (s->queued <= until_queued)
			ns = 0;
		(void)pthread_mutex_unlock(&cu.lock);
		if (ns == 0)
			return;
		sim_sleep_ns(ns < 1000000 ? ns : 1000000);
	}
}

/* One queued stream of ctx, NULL: all are empty. cu.lock held. */
static struct CUstream_st *busy_stream(struct CUctx_st *ctx)
{
	stream_advance(&ctx->standard);
	if (ctx->standard.head)
		return &ctx->standard;
	for (struct CUstream_st *s = cu.streams; s; s = s->next) {
		if (s->ctx != ctx)
			continue;
		stream_advance(s);
		if (s->head)
			return s;
	}
	return NULL;
}

void cu_context_wait(struct CUctx_st *ctx)
{
	struct CUstream_st *s;
	uint64_t ns;

	while (ctx) {
		(void)pthread_mutex_lock(&cu.lock);
		s = busy_stream(ctx);
		ns = s ? stream_wait_step(s) : 0;
		(void)pthread_mutex_unlock(&cu.lock);
		if (!s)
			return;
		sim_sleep_ns(ns < 1000000 ? ns : 1000000);
	}
}

static void stream_empty(struct CUstream_st *s)
{
	while (s->head) {
		struct cu_launch *l = s->head;

		s->head = l->next;
		if (l->event)
			l->event->pending = NULL;
		free(l);
	}
	s->tail = &s->head;
	s->queued = 0;
}

void cu_streams_drop(struct CUctx_st *ctx)
{
	struct CUstream_st **at = &cu.streams;

	stream_empty(&ctx->standard);
	while (*at) {
		struct CUstream_st *s = *at;

		if (s->ctx != ctx) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		stream_empty(s);
		free(s);
	}
}

/* Blocking streams and the default stream wait for each other. */
static uint64_t implicit_order(const struct CUstream_st *s)
{
	uint64_t at = 0, end;
	bool standard = s == &s->ctx->standard;

	if (s->flags & CU_STREAM_NON_BLOCKING)
		return 0;
	if (!standard)
		return stream_end(&s->ctx->standard);
	for (const struct CUstream_st *o = cu.streams; o; o = o->next) {
		if (o->ctx != s->ctx || o->flags & CU_STREAM_NON_BLOCKING)
			continue;
		end = stream_end(o);
		at = end > at ? end : at;
	}
	return at;
}

/* Append and plan; takes l. prompt: whenever it is asked for. cu.lock held. */
static void enqueue(struct CUstream_st *s, struct cu_launch *l, bool prompt)
{
	uint64_t now = prompt ? 0 : sim_now_ns(), order, end;

	stream_advance(s);
	order = implicit_order(s);
	l->earliest_ns = l->earliest_ns > now ? l->earliest_ns : now;
	l->earliest_ns = order > l->earliest_ns ? order : l->earliest_ns;
	end = stream_end(s);
	l->start_ns = end > l->earliest_ns ? end : l->earliest_ns;
	l->end_ns = l->start_ns + l->duration_ns;
	*s->tail = l;
	s->tail = &l->next;
	s->queued++;
}

struct launch_params {
	uint64_t stop, duration_ns;
};

static bool read_params(const struct CUfunc_st *f, void **params, void **extra,
			struct launch_params *ret)
{
	const uint8_t *buffer = NULL;

	if (strncmp(f->name, "tenure_", 7) != 0 || f->nparams < 2)
		return false;
	if (params) {
		memcpy(&ret->stop, params[0], 8);
		memcpy(&ret->duration_ns, params[1], 8);
		return true;
	}
	for (; extra && extra[0] != CU_LAUNCH_PARAM_END; extra += 2) {
		if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
			buffer = extra[1];
	}
	if (!buffer)
		return false;
	memcpy(&ret->stop, buffer, 8);
	memcpy(&ret->duration_ns, buffer + 8, 8);
	return true;
}

/* Added board power: threads in flight for spinning, multiprocessors in use for tensor products. */
static uint32_t launch_power(const struct CUfunc_st *f, const struct sim_dev *d, uint64_t blocks,
			     uint64_t threads)
{
	static const char *const tensor[] = { "gemm", "mma", "matmul" };
	double share = (double)(blocks * threads) / (double)(d->sm_count * 1024ULL);
	double sms = (double)blocks / d->sm_count;

	for (size_t i = 0; i < sizeof(tensor) / sizeof(tensor[0]); i++) {
		if (strstr(f->name, tensor[i]))
			return (uint32_t)(d->tensor_mw * (sms < 1 ? sms : 1));
	}
	return (uint32_t)(d->spin_mw * (share < 1 ? share : 1));
}

/* The stop word of a kernel: mapped host memory. 1: fine, also none; 0: the address is nowhere. */
static bool find_stop(uint64_t addr, const volatile uint32_t **ret)
{
	struct cu_block *b = addr ? cu_block_find(addr, 4) : NULL;

	*ret = NULL;
	if (!b)
		return addr == 0;
	if (b->host)
		*ret = (const volatile uint32_t *)(void *)(b->host + (addr - b->addr));
	return true;
}

static CUresult launch(struct CUfunc_st *f, struct CUstream_st *s, uint64_t blocks,
		       uint64_t threads, const struct launch_params *lp)
{
	struct sim_dev *d = &cu.m->devs[s->ctx->dev];
	struct cu_launch *l = calloc(1, sizeof(*l));

	if (!l)
		return CUDA_ERROR_OUT_OF_MEMORY;
	l->duration_ns = lp->duration_ns;
	if (!find_stop(lp->stop, &l->stop)) {
		free(l);
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	}
	enqueue(s, l, false);
	s->last = LAST_KERNEL;
	if (sim_lock(cu.m) == 0) {
		(void)sim_energy_mj(cu.m, s->ctx->dev);
		l->seq = sim_busy_add(cu.m, s->ctx->dev, l->start_ns, l->end_ns,
				      launch_power(f, d, blocks, threads));
		sim_unlock(cu.m);
	}
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned int gx, unsigned int gy,
				  unsigned int gz, unsigned int bx, unsigned int by,
				  unsigned int bz, unsigned int shared, CUstream stream,
				  void **params, void **extra)
{
	struct launch_params lp = { 0, cu.m ? cu.m->timing[SIM_T_KERNEL] : 0 };
	uint64_t blocks = (uint64_t)gx * gy * gz, threads = (uint64_t)bx * by * bz;
	struct CUstream_st *s;
	struct CUfunc_st *f;
	CUresult res;

	CU_ENTER(NEEDS_CONTEXT);
	if (!blocks || !threads || threads > 1024)
		return CUDA_ERROR_INVALID_VALUE;
	if (cu.m->devs[cu_current()->dev].lost)
		return CUDA_ERROR_LAUNCH_FAILED;
	(void)pthread_mutex_lock(&cu.lock);
	s = cu_stream_find(stream);
	f = cu_function_find(function);
	(void)pthread_mutex_unlock(&cu.lock);
	if (!s || !f)
		return CUDA_ERROR_INVALID_HANDLE;
	if ((f->nparams > 0 && !params && !extra) || shared > (unsigned int)f->shared_most)
		return CUDA_ERROR_INVALID_VALUE;
	if (read_params(f, params, extra, &lp))
		lp.duration_ns =
			(uint64_t)((double)lp.duration_ns *
				   cu_kernel_part(f, &cu.m->devs[cu_current()->dev], params));
	stream_wait(s, QUEUE_MAX);
	(void)pthread_mutex_lock(&cu.lock);
	res = launch(f, s, blocks, threads, &lp);
	(void)pthread_mutex_unlock(&cu.lock);
	if (res == CUDA_SUCCESS)
		cu_kernel_leaves(f, &cu.m->devs[cu_current()->dev], (unsigned int)threads, params);
	return res;
}

CUresult cu_stream_busy(CUstream stream, uint64_t ns)
{
	struct cu_launch *l = calloc(1, sizeof(*l));
	struct CUstream_st *s;

	if (!l)
		return CUDA_ERROR_OUT_OF_MEMORY;
	l->duration_ns = ns;
	(void)pthread_mutex_lock(&cu.lock);
	s = cu_stream_find(stream);
	if (s) {
		enqueue(s, l, s->last != LAST_KERNEL);
		s->last = LAST_COPY;
	}
	(void)pthread_mutex_unlock(&cu.lock);
	if (s)
		return CUDA_SUCCESS;
	free(l);
	return CUDA_ERROR_INVALID_HANDLE;
}

CU_EXPORT CUresult cuStreamCreateWithPriority(CUstream *ret, unsigned int flags, int priority)
{
	struct CUstream_st *s;

	CU_ENTER(NEEDS_CONTEXT);
	if (!ret || flags > CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	s = calloc(1, sizeof(*s));
	if (!s)
		return CUDA_ERROR_OUT_OF_MEMORY;
	s->ctx = cu_current();
	s->id = __atomic_add_fetch(&cu.context_ids, 1, __ATOMIC_RELAXED);
	s->flags = flags;
	s->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
	s->tail = &s->head;
	(void)pthread_mutex_lock(&cu.lock);
	s->next = cu.streams;
	cu.streams = s;
	(void)pthread_mutex_unlock(&cu.lock);
	*ret = s;
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuStreamCreate(CUstream *ret, unsigned int flags)
{
	CU_ENTER(NEEDS_CONTEXT);
	return cuStreamCreateWithPriority(ret, flags, 0);
}

/* Destroying does not wait: what is queued goes on, in the default stream's queue where it was. */
CU_EXPORT CUresult cuStreamDestroy_v2(CUstream stream)
{
	struct CUstream_st *s = NULL;

	CU_ENTER(NEEDS_CONTEXT);
	(void)pthread_mutex_lock(&cu.lock);
	for (struct CUstream_st **at = &cu.streams; *at; at = &(*at)->next) {
		if (*at == stream) {
			s = *at;
			*at = s->next;
			stream_advance(s);
			stream_empty(s);
			break;
		}
	}
	(void)pthread_mutex_unlock(&cu.lock);
	free(s);
	return s ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CU_ALIAS(cuStreamDestroy, cuStreamDestroy_v2);

CU_EXPORT CUresult cuStreamQuery(CUstream stream)
{
	struct CUstream_st *s;
	bool idle = false;

	CU_ENTER(NEEDS_CONTEXT);
	(void)pthread_mutex_lock(&cu.lock);
	s = cu_stream_find(stream);
	if (s) {
		stream_advance(s);
		idle = !s->head;
	}
	(void)pthread_mutex_unlock(&cu.lock);
	return !s ? CUDA_ERROR_INVALID_HANDLE : idle ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CU_EXPORT CUresult cuStreamSynchronize(CUstream stream)
{
	struct CUstream_st *s;

	CU_ENTER(NEEDS_CONTEXT);
	(void)pthread_mutex_lock(&cu.lock);
	s = cu_stream_find(stream);
	(void)pthread_mutex_unlock(&cu.lock);
	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	stream_wait(s, 0);
	(void)pthread_mutex_lock(&cu.lock);
	s->last = LAST_KERNEL; /* what comes now was not asked for before */
	(void)pthread_mutex_unlock(&cu.lock);
	cu_pool_trim(cu_current());
	return CUDA_SUCCESS;
}

/* What a stream has, read under the lock. */
#define STREAM_GETTER(function, type, expression)                                                  \
	CU_EXPORT CUresult function(CUstream stream, type *ret)                                    \
	{                                                                                          \
		struct CUstream_st *s;                                                             \
                                                                                                   \
		CU_ENTER(NEEDS_CONTEXT);                                                           \
		(void)pthread_mutex_lock(&cu.lock);                                                \
		s = cu_stream_find(stream);                                                        \
		if (s && ret)                                                                      \
			*ret = (expression);                                                       \
		(void)pthread_mutex_unlock(&cu.lock);                                              \
		if (!s)                                                                            \
			return CUDA_ERROR_INVALID_HANDLE;                                          \
		return ret ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;                              \
	}
STREAM_GETTER(cuStreamGetPriority, int, s->priority)
STREAM_GETTER(cuStreamGetFlags, unsigned int, s->flags)
STREAM_GETTER(cuStreamGetCtx, CUcontext, s->ctx)
STREAM_GETTER(cuStreamGetDevice, CUdevice, s->ctx->ordinal)
STREAM_GETTER(cuStreamGetId, unsigned long long, s->id)
STREAM_GETTER(cuStreamIsCapturing, int, 0) /* graphs are not simulated */

/* The mode of captures is per thread, and there are none: 0 is the default. */
CU_EXPORT CUresult cuThreadExchangeStreamCaptureMode(int *mode)
{
	static __thread int current;
	int before = current;

	CU_ENTER(NEEDS_INIT);
	if (!mode || *mode < 0 || *mode > 2)
		return CUDA_ERROR_INVALID_VALUE;
	current = *mode;
	*mode = before;
	return CUDA_SUCCESS;
}

/* The program's function is called by whoever put it there, when the stream has come so far. */
CU_EXPORT CUresult cuLaunchHostFunc(CUstream stream, void (*function)(void *), void *data)
{
	CUresult res;

	CU_ENTER(NEEDS_CONTEXT);
	if (!function)
		return CUDA_ERROR_INVALID_VALUE;
	res = cuStreamSynchronize(stream);
	if (res == CUDA_SUCCESS)
		function(data);
	return res;
}

CU_EXPORT CUresult cuStreamAddCallback(CUstream stream,
				       void (*function)(CUstream, CUresult, void *), void *data,
				       unsigned int flags)
{
	CUresult res;

	CU_ENTER(NEEDS_CONTEXT);
	if (!function || flags)
		return CUDA_ERROR_INVALID_VALUE;
	res = cuStreamSynchronize(stream);
	if (res == CUDA_SUCCESS)
		function(stream, res, data);
	return res;
}

/* cu.lock held */
static struct CUevent_st *event_find(CUevent event)
{
	for (struct CUevent_st *e = cu.events; e; e = e->next) {
		if (e == event)
			return e;
	}
	return NULL;
}

CU_EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
	struct CUstream_st *s;
	struct CUevent_st *e;
	struct cu_launch *l;

	CU_ENTER(NEEDS_CONTEXT);
	l = calloc(1, sizeof(*l));
	if (!l)
		return CUDA_ERROR_OUT_OF_MEMORY;
	(void)pthread_mutex_lock(&cu.lock);
	s = cu_stream_find(stream);
	e = event_find(event);
	if (s && e && e->recorded) {
		l->earliest_ns = e->pending ? e->pending->end_ns : e->reached_ns;
		enqueue(s, l, true);
		s->last = LAST_EVENT;
		l = NULL;
	}
	(void)pthread_mutex_unlock(&cu.lock);
	free(l);
	return s && e ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CU_EXPORT CUresult cuEventCreate(CUevent *ret, unsigned int flags)
{
	struct CUevent_st *e;

	CU_ENTER(NEEDS_CONTEXT);
	if (!ret || flags > 7)
		return CUDA_ERROR_INVALID_VALUE;
	e = calloc(1, sizeof(*e));
	if (!e)
		return CUDA_ERROR_OUT_OF_MEMORY;
	e->flags = flags;
	(void)pthread_mutex_lock(&cu.lock);
	e->next = cu.events;
	cu.events = e;
	(void)pthread_mutex_unlock(&cu.lock);
	*ret = e;
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuEventDestroy_v2(CUevent event)
{
	struct CUevent_st *e = NULL;

	CU_ENTER(NEEDS_INIT);
	(void)pthread_mutex_lock(&cu.lock);
	for (struct CUevent_st **at = &cu.events; *at; at = &(*at)->next) {
		if (*at == event) {
			e = *at;
			*at = e->next;
			if (e->pending)
				e->pending->event = NULL;
			break;
		}
	}
	(void)pthread_mutex_unlock(&cu.lock);
	free(e);
	return e ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CU_ALIAS(cuEventDestroy, cuEventDestroy_v2);

CU_EXPORT CUresult cuEventRecord(CUevent event, CUstream stream)
{
	struct CUstream_st *s;
	struct CUevent_st *e;
	struct cu_launch *l;

	CU_ENTER(NEEDS_CONTEXT);
	l = calloc(1, sizeof(*l));
	if (!l)
		return CUDA_ERROR_OUT_OF_MEMORY;
	(void)pthread_mutex_lock(&cu.lock);
	s = cu_stream_find(stream);
	e = event_find(event);
	if (s && e) {
		if (e->pending)
			e->pending->event = NULL;
		l->event = e;
		e->pending = l;
		e->recorded = true;
		enqueue(s, l, s->last == LAST_COPY);
		s->last = LAST_EVENT;
		l = NULL;
		stream_advance(s);
	}
	(void)pthread_mutex_unlock(&cu.lock);
	free(l);
	return s && e ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CU_EXPORT CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags)
{
	CU_ENTER(NEEDS_CONTEXT);
	return flags > 1 ? CUDA_ERROR_INVALID_VALUE : cuEventRecord(event, stream);
}

static void all_advance(void)
{
	for (struct CUctx_st *c = cu.contexts; c; c = c->next)
		stream_advance(&c->standard);
	for (struct CUstream_st *s = cu.streams; s; s = s->next)
		stream_advance(s);
}

CU_EXPORT CUresult cuEventQuery(CUevent event)
{
	struct CUevent_st *e;
	bool pending = false;

	CU_ENTER(NEEDS_INIT);
	(void)pthread_mutex_lock(&cu.lock);
	e = event_find(event);
	if (e) {
		all_advance();
		pending = e->pending != NULL;
	}
	(void)pthread_mutex_unlock(&cu.lock);
	return !e ? CUDA_ERROR_INVALID_HANDLE : pending ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

CU_EXPORT CUresult cuEventSynchronize(CUevent event)
{
	CUresult res;

	CU_ENTER(NEEDS_INIT);
	while ((res = cuEventQuery(event)) == CUDA_ERROR_NOT_READY)
		sim_sleep_ns(POLL_NS);
	if (cu_current())
		cu_pool_trim(cu_current());
	return res;
}

CU_EXPORT CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
	struct CUevent_st *a, *b;
	CUresult res = CUDA_SUCCESS;

	CU_ENTER(NEEDS_INIT);
	(void)pthread_mutex_lock(&cu.lock);
	all_advance();
	a = event_find(start);
	b = event_find(end);
	if (!ms)
		res = CUDA_ERROR_INVALID_VALUE;
	else if (!a || !b || !a->recorded || !b->recorded ||
		 (a->flags | b->flags) & CU_EVENT_DISABLE_TIMING)
		res = CUDA_ERROR_INVALID_HANDLE;
	else if (a->pending || b->pending)
		res = CUDA_ERROR_NOT_READY;
	else
		*ms = (float)((double)b->reached_ns - (double)a->reached_ns) / 1e6f;
	(void)pthread_mutex_unlock(&cu.lock);
	return res;
}
CU_ALIAS(cuEventElapsedTime_v2, cuEventElapsedTime);
