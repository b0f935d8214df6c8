/* SPDX-License-Identifier: MIT */

/*
 * A newcomer: what a bare CUDA program does in its first moments, timed from its start.
 *
 * It is the worst case for whoever holds the card: cuInit, a context, and at once most of the card
 * in one cuMemAlloc, which it does not repeat unless told: with --retry every 5 ms, with --spin
 * without a pause, from a line on stdin on (it says "ready" when its context is there). Result: one
 * JSON object per device on stdout, times in ms since the process started (from the kernel's record
 * of it, so the loader's time counts). It finds libcuda.so.1 like any program and needs nothing
 * else, on real machines too.
 *
 * Exit code: 0 all allocations succeeded, 1 one did not, 2 usage, 3 no driver or no device.
 */
#include <dlfcn.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gpu/cuda_abi.h"

#define SYMBOLS(X)                                                                                 \
	X(cuInit, (unsigned int))                                                                  \
	X(cuDeviceGetCount, (int *))                                                               \
	X(cuDeviceGet, (CUdevice *, int))                                                          \
	X(cuDeviceGetUuid, (CUuuid *, CUdevice))                                                   \
	X(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                                       \
	X(cuCtxSetCurrent, (CUcontext))                                                            \
	X(cuMemGetInfo_v2, (size_t *, size_t *))                                                   \
	X(cuMemAlloc_v2, (CUdeviceptr *, size_t))                                                  \
	X(cuMemsetD8_v2, (CUdeviceptr, unsigned char, size_t))                                     \
	X(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t))                                          \
	X(cuGetErrorName, (CUresult, const char **))

static struct {
#define MEMBER(name, args) CUresult(*name) args;
	SYMBOLS(MEMBER)
} cuda;

struct want {
	const char *device; /* ordinal or UUID prefix; NULL: the first */
	double share;	    /* of what is free; 0: bytes */
	size_t bytes;
	double stay_s;
	bool retry, spin, touch, all, no_alloc;
};

static double start_offset_ms;

static double mono_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_BOOTTIME, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static double since_start_ms(void)
{
	return mono_ms() - start_offset_ms;
}

/*
 * The time this process spent before main(): the kernel's start time has a resolution of 10 ms, too
 * coarse; the CPU time used until now is nearly all of it.
 */
static void clock_start(void)
{
	struct timespec cpu;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	start_offset_ms = mono_ms() - ((double)cpu.tv_sec * 1e3 + (double)cpu.tv_nsec / 1e6);
}

static int load(void)
{
	void *lib = dlopen(CUDA_SONAME, RTLD_NOW);

	if (!lib) {
		(void)fprintf(stderr, "newcomer: %s\n", dlerror());
		return -1;
	}
#define LOOK_UP(name, args)                                                                        \
	*(void **)&cuda.name = dlsym(lib, #name);                                                  \
	if (!cuda.name) {                                                                          \
		(void)fprintf(stderr, "newcomer: libcuda lacks %s\n", #name);                      \
		return -1;                                                                         \
	}
	SYMBOLS(LOOK_UP)
	return 0;
}

static const char *error_name(CUresult r)
{
	const char *name = NULL;

	return cuda.cuGetErrorName(r, &name) == CUDA_SUCCESS && name ? name : "?";
}

static int usage(void)
{
	(void)fputs("usage: newcomer [--device I|UUID] [--take 90%|2G] [--stay SECONDS] [--retry]\n"
		    "                [--spin] [--touch] [--all-devices] [--no-alloc]\n",
		    stderr);
	return 2;
}

static bool parse_take(const char *text, struct want *w)
{
	char *end;
	double n = strtod(text, &end);

	if (end == text || !(n > 0)) /* nor is nan */
		return false;
	if (strcmp(end, "%") == 0) {
		w->share = n / 100;
		return n <= 100;
	}
	w->share = 0;
	switch (*end) {
	case 'T':
		n *= 1024;
		__attribute__((fallthrough));
	case 'G':
		n *= 1024;
		__attribute__((fallthrough));
	case 'M':
		w->bytes = (size_t)(n * 1024 * 1024);
		return true;
	default:
		return false;
	}
}

static int parse(int argc, char **argv, struct want *w)
{
	static const struct option options[] = {
		{ "device", required_argument, NULL, 'd' },
		{ "take", required_argument, NULL, 't' },
		{ "stay", required_argument, NULL, 's' },
		{ "retry", no_argument, NULL, 'r' },
		{ "spin", no_argument, NULL, 'S' },
		{ "touch", no_argument, NULL, 'T' },
		{ "all-devices", no_argument, NULL, 'a' },
		{ "no-alloc", no_argument, NULL, 'n' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'd')
			w->device = optarg;
		else if (c == 't' && !parse_take(optarg, w))
			return usage();
		else if (c == 's')
			w->stay_s = strtod(optarg, NULL);
		else if (c == '?')
			return usage();
		w->retry |= c == 'r' || c == 'S';
		w->spin |= c == 'S';
		w->touch |= c == 'T';
		w->all |= c == 'a';
		w->no_alloc |= c == 'n';
	}
	return optind < argc ? usage() : 0;
}

static void uuid_text(CUdevice d, char *buf, size_t size)
{
	CUuuid u;
	int n = snprintf(buf, size, "GPU");

	if (cuda.cuDeviceGetUuid(&u, d) != CUDA_SUCCESS)
		memset(&u, 0, sizeof(u));
	for (int i = 0; i < 16; i++)
		n += snprintf(buf + n, size - (size_t)n, "%s%02x",
			      i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			      (unsigned char)u.bytes[i]);
}

static CUdevice find_device(const struct want *w, int count)
{
	char uuid[64], *end;
	long n;

	if (!w->device)
		return 0;
	n = strtol(w->device, &end, 10);
	if (*end == '\0')
		return n >= 0 && n < count ? (CUdevice)n : -1;
	for (int d = 0; d < count; d++) {
		uuid_text(d, uuid, sizeof(uuid));
		if (strncmp(uuid, w->device, strlen(w->device)) == 0)
			return d;
	}
	return -1;
}

/* Every byte set, and a sample of them read back. */
static bool touch(CUdeviceptr p, size_t bytes)
{
	unsigned char got;

	if (cuda.cuMemsetD8_v2(p, 0xa5, bytes) != CUDA_SUCCESS)
		return false;
	for (size_t i = 0; i < 16; i++) {
		if (cuda.cuMemcpyDtoH_v2(&got, p + (bytes - 1) / 15 * i, 1) != CUDA_SUCCESS ||
		    got != 0xa5)
			return false;
	}
	return true;
}

struct result {
	double context_ms, free_ms, alloc_ms, done_ms;
	size_t free_bytes, total_bytes, bytes;
	CUresult first, last;
	int retries;
	bool touched;
};

/* The context is there; the first allocation comes when a line does. */
static void wait_for_word(void)
{
	char line[8];

	(void)puts("ready");
	(void)fflush(stdout);
	(void)!fgets(line, sizeof(line), stdin);
}

static void allocate(const struct want *w, struct result *r)
{
	CUdeviceptr p = 0;

	r->bytes = w->share > 0 ? (size_t)((double)r->total_bytes * w->share) : w->bytes;
	if (w->spin)
		wait_for_word();
	r->first = r->last = cuda.cuMemAlloc_v2(&p, r->bytes);
	r->alloc_ms = since_start_ms();
	while (r->last != CUDA_SUCCESS && w->retry && since_start_ms() < 60000) {
		if (!w->spin)
			(void)usleep(5000);
		r->retries++;
		r->last = cuda.cuMemAlloc_v2(&p, r->bytes);
	}
	if (r->last == CUDA_SUCCESS && w->touch)
		r->touched = touch(p, r->bytes);
	r->done_ms = since_start_ms();
}

static void arrive(const struct want *w, CUdevice d, double init_ms)
{
	struct result r = { 0 };
	char uuid[64];
	CUcontext ctx;

	uuid_text(d, uuid, sizeof(uuid));
	r.first = r.last = cuda.cuDevicePrimaryCtxRetain(&ctx, d);
	if (r.first == CUDA_SUCCESS)
		r.first = r.last = cuda.cuCtxSetCurrent(ctx);
	r.context_ms = since_start_ms();
	if (r.first == CUDA_SUCCESS)
		r.first = r.last = cuda.cuMemGetInfo_v2(&r.free_bytes, &r.total_bytes);
	r.free_ms = since_start_ms();
	if (r.first == CUDA_SUCCESS && !w->no_alloc)
		allocate(w, &r);
	(void)printf("{\"pid\": %d, \"device\": %d, \"uuid\": \"%s\", \"init_ms\": %.1f, "
		     "\"context_ms\": %.1f, \"free_seen_ms\": %.1f, \"free_bytes\": %zu, "
		     "\"total_bytes\": %zu, \"bytes\": %zu, \"alloc_ms\": %.1f, \"result\": %d, "
		     "\"result_name\": \"%s\", \"retries\": %d, \"last_result\": %d, "
		     "\"touched\": %s, \"done_ms\": %.1f}\n",
		     (int)getpid(), d, uuid, init_ms, r.context_ms, r.free_ms, r.free_bytes,
		     r.total_bytes, r.bytes, r.alloc_ms, (int)r.first, error_name(r.first),
		     r.retries, (int)r.last, r.touched ? "true" : "false", r.done_ms);
	(void)fflush(stdout);
	if (r.last != CUDA_SUCCESS || (w->touch && !w->no_alloc && !r.touched))
		exit(1);
}

int main(int argc, char **argv)
{
	struct want w = { .share = 0.9 };
	int count = 0, r;
	double init_ms;
	CUdevice first;
	CUresult res;

	clock_start();
	r = parse(argc, argv, &w);
	if (r)
		return r;
	if (load() < 0)
		return 3;
	res = cuda.cuInit(0);
	init_ms = since_start_ms();
	if (res == CUDA_SUCCESS)
		res = cuda.cuDeviceGetCount(&count);
	first = find_device(&w, count);
	if (res != CUDA_SUCCESS || first < 0 || count == 0) {
		(void)printf("{\"pid\": %d, \"init_ms\": %.1f, \"result\": %d, \"result_name\": "
			     "\"%s\", \"devices\": %d}\n",
			     (int)getpid(), init_ms, (int)res, error_name(res), count);
		return 3;
	}
	for (CUdevice d = w.all ? 0 : first; d < (w.all ? count : first + 1); d++)
		arrive(&w, d, init_ms);
	if (w.stay_s > 0)
		(void)usleep((useconds_t)(w.stay_s * 1e6));
	return 0;
}
