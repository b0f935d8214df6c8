/* SPDX-License-Identifier: MIT */

/*
 * Facts about the driver that tenure is built on, each checked by using it.
 *
 * The same program runs on a real machine and on the simulated one (`tenure sim -- facts`): where
 * the two disagree, the simulator is wrong, or the driver has changed. It loads both libraries by
 * SONAME, allocates plainly, never changes a mode or a clock, and needs no more than 1 GiB on a
 * card in use.
 *
 * Output: "ok", "not ok" or "skip" lines with what was seen, then the counts. Exit code 0 when
 * nothing is "not ok". FACTS_DEVICE chooses the device (CUDA ordinal, default 0).
 *
 * What needs another process starts this program again as `facts --child WHAT`: it does its part,
 * writes a line, and stays until its standard input closes.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "gpu/cuda_abi.h"
#include "gpu/nvml_abi.h"

#define MIB (1024ULL * 1024)
#define GIB (1024ULL * MIB)

#define CUDA_SYMBOLS(X)                                                                            \
	X(cuInit, (unsigned int))                                                                  \
	X(cuDriverGetVersion, (int *))                                                             \
	X(cuDeviceGetCount, (int *))                                                               \
	X(cuDeviceGetUuid_v2, (CUuuid *, CUdevice))                                                \
	X(cuDeviceGetName, (char *, int, CUdevice))                                                \
	X(cuDeviceGetAttribute, (int *, CUdevice_attribute, CUdevice))                             \
	X(cuDeviceTotalMem_v2, (size_t *, CUdevice))                                               \
	X(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                                       \
	X(cuDevicePrimaryCtxRelease_v2, (CUdevice))                                                \
	X(cuDevicePrimaryCtxGetState, (CUdevice, unsigned int *, int *))                           \
	X(cuCtxSetCurrent, (CUcontext))                                                            \
	X(cuCtxSynchronize, (void))                                                                \
	X(cuMemGetInfo_v2, (size_t *, size_t *))                                                   \
	X(cuMemAlloc_v2, (CUdeviceptr *, size_t))                                                  \
	X(cuMemFree_v2, (CUdeviceptr))                                                             \
	X(cuMemsetD8_v2, (CUdeviceptr, unsigned char, size_t))                                     \
	X(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t))                                          \
	X(cuMemcpyHtoD_v2, (CUdeviceptr, const void *, size_t))                                    \
	X(cuMemHostAlloc, (void **, size_t, unsigned int))                                         \
	X(cuMemHostGetDevicePointer_v2, (CUdeviceptr *, void *, unsigned int))                     \
	X(cuMemFreeHost, (void *))                                                                 \
	X(cuMemGetAllocationGranularity,                                                           \
	  (size_t *, const CUmemAllocationProp *, CUmemAllocationGranularity_flags))               \
	X(cuMemCreate, (CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *,       \
			unsigned long long))                                                       \
	X(cuMemRelease, (CUmemGenericAllocationHandle))                                            \
	X(cuMemAddressReserve, (CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long))   \
	X(cuMemAddressFree, (CUdeviceptr, size_t))                                                 \
	X(cuMemMap,                                                                                \
	  (CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long))         \
	X(cuMemUnmap, (CUdeviceptr, size_t))                                                       \
	X(cuMemSetAccess, (CUdeviceptr, size_t, const CUmemAccessDesc *, size_t))                  \
	X(cuModuleLoadData, (CUmodule *, const void *))                                            \
	X(cuModuleGetFunction, (CUfunction *, CUmodule, const char *))                             \
	X(cuModuleUnload, (CUmodule))                                                              \
	X(cuLaunchKernel, (CUfunction, unsigned int, unsigned int, unsigned int, unsigned int,     \
			   unsigned int, unsigned int, unsigned int, CUstream, void **, void **))  \
	X(cuStreamCreate, (CUstream *, unsigned int))                                              \
	X(cuStreamDestroy_v2, (CUstream))                                                          \
	X(cuStreamSynchronize, (CUstream))                                                         \
	X(cuStreamQuery, (CUstream))                                                               \
	X(cuEventCreate, (CUevent *, unsigned int))                                                \
	X(cuEventRecord, (CUevent, CUstream))                                                      \
	X(cuEventElapsedTime, (float *, CUevent, CUevent))                                         \
	X(cuEventDestroy_v2, (CUevent))                                                            \
	X(cuGetErrorName, (CUresult, const char **))                                               \
	X(cuGetErrorString, (CUresult, const char **))                                             \
	X(cuGetProcAddress_v2,                                                                     \
	  (const char *, void **, int, uint64_t, CUdriverProcAddressQueryResult *))

#define NVML_SYMBOLS(X)                                                                            \
	X(nvmlInit_v2, (void))                                                                     \
	X(nvmlShutdown, (void))                                                                    \
	X(nvmlSystemGetDriverVersion, (char *, unsigned int))                                      \
	X(nvmlDeviceGetCount_v2, (unsigned int *))                                                 \
	X(nvmlDeviceGetHandleByIndex_v2, (unsigned int, nvmlDevice_t *))                           \
	X(nvmlDeviceGetHandleByUUID, (const char *, nvmlDevice_t *))                               \
	X(nvmlDeviceGetUUID, (nvmlDevice_t, char *, unsigned int))                                 \
	X(nvmlDeviceGetName, (nvmlDevice_t, char *, unsigned int))                                 \
	X(nvmlDeviceGetMinorNumber, (nvmlDevice_t, unsigned int *))                                \
	X(nvmlDeviceGetMemoryInfo, (nvmlDevice_t, nvmlMemory_t *))                                 \
	X(nvmlDeviceGetMemoryInfo_v2, (nvmlDevice_t, nvmlMemory_v2_t *))                           \
	X(nvmlDeviceGetUtilizationRates, (nvmlDevice_t, nvmlUtilization_t *))                      \
	X(nvmlDeviceGetPowerUsage, (nvmlDevice_t, unsigned int *))                                 \
	X(nvmlDeviceGetEnforcedPowerLimit, (nvmlDevice_t, unsigned int *))                         \
	X(nvmlDeviceGetComputeMode, (nvmlDevice_t, nvmlComputeMode_t *))                           \
	X(nvmlDeviceGetComputeRunningProcesses_v3, (nvmlDevice_t, unsigned int *, void *))         \
	X(nvmlDeviceGetProcessUtilization,                                                         \
	  (nvmlDevice_t, nvmlProcessUtilizationSample_t *, unsigned int *, unsigned long long))    \
	X(nvmlEventSetCreate, (nvmlEventSet_t *))                                                  \
	X(nvmlEventSetFree, (nvmlEventSet_t))                                                      \
	X(nvmlDeviceRegisterEvents, (nvmlDevice_t, unsigned long long, nvmlEventSet_t))            \
	X(nvmlEventSetWait_v2, (nvmlEventSet_t, nvmlEventData_t *, unsigned int))

#define CUDA_MEMBER(name, args) CUresult(*name) args;
static struct {
	CUDA_SYMBOLS(CUDA_MEMBER)
} cuda;

#define NVML_MEMBER(name, args) nvmlReturn_t(*name) args;
static struct {
	NVML_SYMBOLS(NVML_MEMBER)
} nvml;
static const char *(*nvml_error)(nvmlReturn_t);

static struct {
	int ok, bad, skipped;
} counts;

static const char *self;
static int ordinal;
static char uuid[64];	 /* of the device that is used */
static nvmlDevice_t dev; /* the same for NVML */
static size_t layout;	 /* bytes of an entry of the _v3 list; 0: not known */
static bool pids_seen;	 /* the list shows our own processes */

static void report(bool good, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void report(bool good, const char *fmt, ...)
{
	va_list ap;

	(void)fputs(good ? "ok     " : "not ok ", stdout);
	va_start(ap, fmt);
	(void)vprintf(fmt, ap);
	va_end(ap);
	(void)putchar('\n');
	(void)fflush(stdout);
	counts.ok += good;
	counts.bad += !good;
}

/* The condition is evaluated before the figures that are shown, because it often produces them. */
#define ok(condition, ...)                                                                         \
	do {                                                                                       \
		bool ok_ = (condition);                                                            \
		report(ok_, __VA_ARGS__);                                                          \
	} while (0)

static void skip(const char *what, const char *why)
{
	(void)printf("skip   %s: %s\n", what, why);
	counts.skipped++;
}

static double now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static int load_cuda(void)
{
	void *lib = dlopen(CUDA_SONAME, RTLD_NOW);

	if (!lib) {
		(void)fprintf(stderr, "facts: %s\n", dlerror());
		return -1;
	}
#define LOOK_UP_CUDA(name, args)                                                                   \
	*(void **)&cuda.name = dlsym(lib, #name);                                                  \
	if (!cuda.name) {                                                                          \
		(void)fprintf(stderr, "facts: libcuda lacks %s\n", #name);                         \
		return -1;                                                                         \
	}
	CUDA_SYMBOLS(LOOK_UP_CUDA)
	return 0;
}

static int load_nvml(void)
{
	void *lib = dlopen(NVML_SONAME, RTLD_NOW);

	if (!lib) {
		(void)fprintf(stderr, "facts: %s\n", dlerror());
		return -1;
	}
#define LOOK_UP_NVML(name, args)                                                                   \
	*(void **)&nvml.name = dlsym(lib, #name);                                                  \
	if (!nvml.name) {                                                                          \
		(void)fprintf(stderr, "facts: NVML lacks %s\n", #name);                            \
		return -1;                                                                         \
	}
	NVML_SYMBOLS(LOOK_UP_NVML)
	*(void **)&nvml_error = dlsym(lib, "nvmlErrorString");
	return nvml_error ? 0 : -1;
}

static void uuid_text(CUdevice d, char *buf, size_t size)
{
	const char *name = "GPU";
	char text[128] = "";
	CUuuid u;
	int n;

	memset(&u, 0, sizeof(u));
	(void)cuda.cuDeviceGetUuid_v2(&u, d);
	if (cuda.cuDeviceGetName(text, sizeof(text), d) == CUDA_SUCCESS && strstr(text, " MIG "))
		name = "MIG";
	n = snprintf(buf, size, "%s", name);
	for (int i = 0; i < 16; i++)
		n += snprintf(buf + n, size - (size_t)n, "%s%02x",
			      i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			      (unsigned char)u.bytes[i]);
}

/* A child: this program again. */
struct child {
	pid_t pid;
	int in, out; /* our ends */
	char line[1024];
};

static bool child_line(struct child *c, int timeout_ms)
{
	double until = now_ms() + timeout_ms;
	size_t len = 0;

	while (len + 1 < sizeof(c->line)) {
		struct pollfd p = { .fd = c->out, .events = POLLIN };
		int left = (int)(until - now_ms());

		if (left <= 0 || poll(&p, 1, left) <= 0 || read(c->out, c->line + len, 1) != 1)
			break;
		if (c->line[len] == '\n') {
			c->line[len] = '\0';
			return true;
		}
		len++;
	}
	c->line[len] = '\0';
	return false;
}

/* env: "NAME=value" for the child, or NULL. False: it did not say anything. */
static bool child_start(struct child *c, const char *what, const char *env)
{
	int in[2], out[2];

	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
		return false;
	c->pid = fork();
	if (c->pid == 0) {
		(void)dup2(in[0], 0);
		(void)dup2(out[1], 1);
		if (env) {
			char name[64];

			(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(env, "="), env);
			(void)setenv(name, strchr(env, '=') + 1, 1);
		}
		(void)execl(self, self, "--child", what, (char *)NULL);
		_exit(127);
	}
	(void)close(in[0]);
	(void)close(out[1]);
	c->in = in[1];
	c->out = out[0];
	return c->pid > 0 && child_line(c, 20000);
}

static void child_end(struct child *c, int sig)
{
	if (sig)
		(void)kill(c->pid, sig);
	(void)close(c->in);
	(void)waitpid(c->pid, NULL, 0);
	(void)close(c->out);
}

static CUresult make_context(void)
{
	CUcontext ctx;
	CUresult r = cuda.cuDevicePrimaryCtxRetain(&ctx, ordinal);

	return r == CUDA_SUCCESS ? cuda.cuCtxSetCurrent(ctx) : r;
}

/* What the child does: "hold" 512 MiB, "list" what it sees. */
static int child_main(const char *what)
{
	char text[64], byte;
	CUdeviceptr p;
	int n = 0;
	CUresult r;

	if (load_cuda() < 0)
		return 1;
	r = cuda.cuInit(0);
	if (strcmp(what, "list") == 0) {
		if (r == CUDA_SUCCESS)
			(void)cuda.cuDeviceGetCount(&n);
		(void)printf("%d", n);
		for (int d = 0; d < n; d++) {
			uuid_text(d, text, sizeof(text));
			(void)printf(" %s", text);
		}
	} else {
		if (r == CUDA_SUCCESS)
			r = make_context();
		if (r == CUDA_SUCCESS)
			r = cuda.cuMemAlloc_v2(&p, 512 * MIB);
		(void)printf("%d", (int)r);
	}
	(void)putchar('\n');
	(void)fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	return 0;
}

static unsigned long long used_bytes(void)
{
	nvmlMemory_t mem = { 0 };

	(void)nvml.nvmlDeviceGetMemoryInfo(dev, &mem);
	return mem.used;
}

/* ---- NVML alone ---- */

static void fact_versions(void)
{
	char version[NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE] = "";
	int cuda_version = 0;

	ok(nvml.nvmlSystemGetDriverVersion(version, sizeof(version)) == NVML_SUCCESS && version[0],
	   "the driver has a version: %s", version);
	ok(cuda.cuDriverGetVersion(&cuda_version) == CUDA_SUCCESS && cuda_version >= 11000,
	   "CUDA has a version, before cuInit: %d", cuda_version);
	ok(nvml.nvmlSystemGetDriverVersion(version, 2) == NVML_ERROR_INSUFFICIENT_SIZE,
	   "too short a buffer is INSUFFICIENT_SIZE");
}

static void fact_errors(void)
{
	const char *name = NULL, *text = NULL;

	ok(cuda.cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &name) == CUDA_SUCCESS && name &&
		   strcmp(name, "CUDA_ERROR_OUT_OF_MEMORY") == 0,
	   "error 2 is CUDA_ERROR_OUT_OF_MEMORY");
	ok(cuda.cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text) == CUDA_SUCCESS && text && *text,
	   "it has a text: %s", text ? text : "-");
	ok(cuda.cuGetErrorName((CUresult)123456, &name) == CUDA_ERROR_INVALID_VALUE,
	   "an unknown error is INVALID_VALUE");
	ok(strlen(nvml_error(NVML_ERROR_NOT_SUPPORTED)) > 0, "NVML errors have texts: %s",
	   nvml_error(NVML_ERROR_NOT_SUPPORTED));
}

static void fact_enumeration(void)
{
	unsigned int n = 0, minor;
	char text[96];
	nvmlDevice_t d, same;
	bool good = nvml.nvmlDeviceGetCount_v2(&n) == NVML_SUCCESS;

	ok(good && n > 0, "NVML lists %u cards", n);
	ok(nvml.nvmlDeviceGetHandleByIndex_v2(n, &d) == NVML_ERROR_INVALID_ARGUMENT,
	   "index %u is INVALID_ARGUMENT", n);
	for (unsigned int i = 0; i < n; i++) {
		good = nvml.nvmlDeviceGetHandleByIndex_v2(i, &d) == NVML_SUCCESS &&
		       nvml.nvmlDeviceGetUUID(d, text, sizeof(text)) == NVML_SUCCESS &&
		       nvml.nvmlDeviceGetHandleByUUID(text, &same) == NVML_SUCCESS && same == d &&
		       nvml.nvmlDeviceGetMinorNumber(d, &minor) == NVML_SUCCESS;
		ok(good, "card %u: UUID and back, minor number (%s)", i, text);
	}
	ok(nvml.nvmlDeviceGetHandleByUUID("GPU-00000000-0000-0000-0000-000000000000", &d) ==
		   NVML_ERROR_NOT_FOUND,
	   "an unknown UUID is NOT_FOUND");
}

static void fact_memory_versions(void)
{
	nvmlMemory_v2_t v2 = { .version = nvmlMemory_v2 };
	nvmlMemory_t v1 = { 0 };
	bool good = nvml.nvmlDeviceGetMemoryInfo(dev, &v1) == NVML_SUCCESS;

	ok(good && v1.total == v1.used + v1.free, "v1: total = used + free (used %llu MiB)",
	   v1.used / MIB);
	if (nvml.nvmlDeviceGetMemoryInfo_v2(dev, &v2) != NVML_SUCCESS) {
		skip("memory info v2", "not in this driver");
		return;
	}
	ok(v2.total == v1.total, "v2 has the same total");
	ok(v2.total == v2.reserved + v2.used + v2.free,
	   "v2: total = reserved + used + free (reserved %llu, used %llu MiB)", v2.reserved / MIB,
	   v2.used / MIB);
	ok(v1.used >= v2.used + v2.reserved - 16 * MIB, "v1 counts the reserve as used");
	v2.version = 0;
	ok(nvml.nvmlDeviceGetMemoryInfo_v2(dev, &v2) != NVML_SUCCESS,
	   "v2 without its version fails");
}

static void fact_small_figures(void)
{
	nvmlUtilization_t util = { 0 };
	unsigned int mw = 0, limit = 0;
	nvmlComputeMode_t mode;
	nvmlReturn_t r = nvml.nvmlDeviceGetUtilizationRates(dev, &util);

	ok((r == NVML_SUCCESS && util.gpu <= 100) || r == NVML_ERROR_NOT_SUPPORTED,
	   "utilisation is 0 to 100 or NOT_SUPPORTED (%s, %u)", nvml_error(r), util.gpu);
	r = nvml.nvmlDeviceGetPowerUsage(dev, &mw);
	if (r == NVML_SUCCESS && nvml.nvmlDeviceGetEnforcedPowerLimit(dev, &limit) == NVML_SUCCESS)
		ok(mw > 0 && mw <= limit * 3 / 2, "power %u mW of %u", mw, limit);
	else
		skip("power", nvml_error(r));
	ok(nvml.nvmlDeviceGetComputeMode(dev, &mode) == NVML_SUCCESS, "compute mode is readable");
}

static void fact_events(void)
{
	nvmlEventData_t data;
	nvmlEventSet_t set;
	nvmlReturn_t r;
	double t0;

	if (nvml.nvmlEventSetCreate(&set) != NVML_SUCCESS) {
		skip("events", "no event set");
		return;
	}
	r = nvml.nvmlDeviceRegisterEvents(dev, nvmlEventTypeXidCriticalError, set);
	if (r == NVML_SUCCESS) {
		t0 = now_ms();
		r = nvml.nvmlEventSetWait_v2(set, &data, 50);
		ok(r == NVML_ERROR_TIMEOUT && now_ms() - t0 >= 40,
		   "waiting for an XID ends with TIMEOUT (%s after %.0f ms)", nvml_error(r),
		   now_ms() - t0);
	} else {
		skip("XID events", nvml_error(r));
	}
	(void)nvml.nvmlEventSetFree(set);
}

static void fact_process_use_not_found(void)
{
	/* The driver's ring has 72 entries; an H200 (driver 580) refuses a buffer of 64 even for
	 * none. */
	nvmlProcessUtilizationSample_t samples[256];
	unsigned int n = 256;
	struct timespec ts;
	nvmlReturn_t r;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	r = nvml.nvmlDeviceGetProcessUtilization(dev, samples, &n,
						 (unsigned long long)ts.tv_sec * 1000000 +
							 (unsigned long long)ts.tv_nsec / 1000);
	if (r == NVML_ERROR_NOT_SUPPORTED)
		skip("process utilisation", nvml_error(r));
	else
		ok(r == NVML_ERROR_NOT_FOUND || (r == NVML_SUCCESS && n == 0),
		   "nobody used it since just now is NOT_FOUND (%s)", nvml_error(r));
}

/* ---- with another process ---- */

/* Whether pid is in the list; learns the layout from what a pattern shows was written. */
static int list_has(pid_t pid)
{
	static unsigned char buf[128 * 32];
	unsigned int n = 128;
	size_t written = sizeof(buf);

	memset(buf, 0xcd, sizeof(buf));
	if (nvml.nvmlDeviceGetComputeRunningProcesses_v3(dev, &n, buf) != NVML_SUCCESS)
		return -1;
	while (written > 0 && buf[written - 1] == 0xcd)
		written--;
	if (n > 0 && !layout)
		layout = (written / n + 7) / 8 * 8;
	for (unsigned int i = 0; layout && i < n; i++) {
		unsigned int listed;

		memcpy(&listed, buf + i * layout, sizeof(listed));
		if (listed == (unsigned int)pid)
			return 1;
	}
	return 0;
}

static void fact_process_list(void)
{
	unsigned long long before = used_bytes(), during;
	struct child c;
	double t0;

	if (!child_start(&c, "hold", NULL) || strcmp(c.line, "0") != 0) {
		ok(false, "another process can have a context and 512 MiB (\"%s\")", c.line);
		return;
	}
	during = used_bytes();
	ok(during >= before + 512 * MIB, "its memory shows in NVML: %llu MiB more",
	   (during - before) / MIB);
	pids_seen = list_has(c.pid) == 1;
	if (layout)
		ok(layout == 16 || layout == 24 || layout == 32, "_v3 writes %zu bytes an entry",
		   layout);
	else
		skip("layout of the process list", "the list is empty");
	if (pids_seen)
		ok(true, "its PID is in the list");
	else
		skip("its PID is in the list", "PIDs are hidden or translated here");
	child_end(&c, 0);
	for (t0 = now_ms(); now_ms() - t0 < 3000 && used_bytes() > before + 64 * MIB;)
		(void)usleep(2000);
	ok(used_bytes() <= before + 64 * MIB, "after its end the memory is free (%.0f ms)",
	   now_ms() - t0);
	if (pids_seen)
		ok(list_has(c.pid) == 0, "and its PID is gone");
}

static void fact_sigkill(void)
{
	unsigned long long before = used_bytes();
	struct child c;
	double t0;

	if (!child_start(&c, "hold", NULL)) {
		ok(false, "a child to kill");
		return;
	}
	child_end(&c, SIGKILL);
	for (t0 = now_ms(); now_ms() - t0 < 5000 && used_bytes() > before + 64 * MIB;)
		(void)usleep(2000);
	ok(used_bytes() <= before + 64 * MIB, "kill -9 gives the memory back (%.0f ms)",
	   now_ms() - t0);
}

static void expect_visible(const char *env, const char *expected, const char *what)
{
	struct child c;
	bool said = child_start(&c, "list", env);

	ok(said && strcmp(c.line, expected) == 0, "%s: sees \"%.60s\"", what, c.line);
	child_end(&c, 0);
}

static void fact_visible_devices(void)
{
	char env[200], expected[200];

	(void)snprintf(expected, sizeof(expected), "1 %s", uuid);
	(void)snprintf(env, sizeof(env), "CUDA_VISIBLE_DEVICES=%s", uuid);
	expect_visible(env, expected, "CUDA_VISIBLE_DEVICES=UUID");
	(void)snprintf(env, sizeof(env), "CUDA_VISIBLE_DEVICES=%.12s", uuid);
	expect_visible(env, expected, "a prefix of the UUID");
	(void)snprintf(env, sizeof(env), "CUDA_VISIBLE_DEVICES=%s,-1,0", uuid);
	expect_visible(env, expected, "the list ends at -1");
	expect_visible("CUDA_VISIBLE_DEVICES=", "0", "an empty list");
	expect_visible("CUDA_VISIBLE_DEVICES=-1", "0", "-1 alone");
	expect_visible("CUDA_VISIBLE_DEVICES=GPU-ffffffff-not", "0", "an unknown UUID");
}

static void fact_inotify(void)
{
	const char *dir = getenv("TENURE_DEV_DIR") ? getenv("TENURE_DEV_DIR") : "/dev";
	int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK), opens = 0;
	char path[300], buf[4096] __attribute__((aligned(8)));
	struct child c;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "%s/nvidiactl", dir);
	if (fd < 0 || inotify_add_watch(fd, path, IN_OPEN) < 0) {
		skip("inotify sees a start", strerror(errno));
		if (fd >= 0)
			(void)close(fd);
		return;
	}
	(void)child_start(&c, "list", NULL);
	child_end(&c, 0);
	while ((n = read(fd, buf, sizeof(buf))) > 0) {
		for (char *p = buf; p < buf + n;) {
			const struct inotify_event *ev = (const struct inotify_event *)(void *)p;

			opens += (ev->mask & IN_OPEN) != 0;
			p += sizeof(*ev) + ev->len;
		}
	}
	(void)close(fd);
	ok(opens > 0, "a start of CUDA opens nvidiactl where inotify sees it (%d events)", opens);
}

/* ---- CUDA in this process ---- */

static void fact_before_init(void)
{
	int n;

	ok(cuda.cuDeviceGetCount(&n) == CUDA_ERROR_NOT_INITIALIZED,
	   "before cuInit a call is NOT_INITIALIZED");
}

static void fact_cuda_devices(void)
{
	char text[64];
	nvmlDevice_t d;
	int n = 0, sms = 0, major = 0;
	size_t total = 0;

	ok(cuda.cuInit(0) == CUDA_SUCCESS && cuda.cuDeviceGetCount(&n) == CUDA_SUCCESS && n > 0,
	   "cuInit, %d devices", n);
	for (int i = 0; i < n; i++) {
		uuid_text(i, text, sizeof(text));
		ok(nvml.nvmlDeviceGetHandleByUUID(text, &d) == NVML_SUCCESS,
		   "CUDA device %d is known to NVML by its UUID", i);
	}
	(void)cuda.cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, ordinal);
	(void)cuda.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
					ordinal);
	(void)cuda.cuDeviceTotalMem_v2(&total, ordinal);
	ok(sms > 0 && major >= 5 && total > GIB, "%d multiprocessors, capability %d.x, %zu MiB",
	   sms, major, total / (size_t)MIB);
}

static void fact_context(void)
{
	unsigned int flags;
	size_t avail, total;
	int active = -1;

	ok(cuda.cuMemGetInfo_v2(&avail, &total) == CUDA_ERROR_INVALID_CONTEXT,
	   "without a context a call is INVALID_CONTEXT");
	ok(cuda.cuDevicePrimaryCtxGetState(ordinal, &flags, &active) == CUDA_SUCCESS && active == 0,
	   "the primary context is not active at first");
	ok(make_context() == CUDA_SUCCESS, "and can be had");
	ok(cuda.cuDevicePrimaryCtxGetState(ordinal, &flags, &active) == CUDA_SUCCESS && active == 1,
	   "then it is active");
	ok(cuda.cuMemGetInfo_v2(&avail, &total) == CUDA_SUCCESS && avail < total,
	   "free memory %zu of %zu MiB", avail / (size_t)MIB, total / (size_t)MIB);
}

static void fact_alloc_visible(void)
{
	unsigned long long before = used_bytes(), with, after;
	CUdeviceptr p = 0;
	bool good = cuda.cuMemAlloc_v2(&p, 256 * MIB) == CUDA_SUCCESS;

	with = used_bytes();
	good = good && cuda.cuMemFree_v2(p) == CUDA_SUCCESS;
	after = used_bytes();
	ok(good && with >= before + 256 * MIB && with < before + 320 * MIB &&
		   after < before + 64 * MIB,
	   "256 MiB show and vanish: %llu, %llu, %llu MiB", before / MIB, with / MIB, after / MIB);
	ok(cuda.cuMemFree_v2(p) == CUDA_ERROR_INVALID_VALUE, "freeing twice is INVALID_VALUE");
}

static void fact_oom(void)
{
	size_t avail = 0, total = 0;
	CUdeviceptr p = 0, q = 0;
	CUresult r;

	(void)cuda.cuMemGetInfo_v2(&avail, &total);
	r = cuda.cuMemAlloc_v2(&p, avail + 64 * (size_t)MIB);
	ok(r == CUDA_ERROR_OUT_OF_MEMORY, "more than is free is OUT_OF_MEMORY (%d)", (int)r);
	r = cuda.cuMemAlloc_v2(&q, 2 * MIB);
	ok(r == CUDA_SUCCESS, "and does no harm: the next allocation succeeds");
	(void)cuda.cuMemFree_v2(q);
}

static void fact_contents(void)
{
	unsigned char in[1000], out[1000], byte = 0;
	CUdeviceptr p = 0;
	bool good = cuda.cuMemAlloc_v2(&p, 8 * MIB) == CUDA_SUCCESS;

	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (unsigned char)(i * 7);
	good = good && cuda.cuMemsetD8_v2(p, 0x5a, 8 * MIB) == CUDA_SUCCESS &&
	       cuda.cuMemcpyHtoD_v2(p + 2 * MIB - 500, in, sizeof(in)) == CUDA_SUCCESS &&
	       cuda.cuMemcpyDtoH_v2(out, p + 2 * MIB - 500, sizeof(out)) == CUDA_SUCCESS &&
	       cuda.cuMemcpyDtoH_v2(&byte, p + 7 * MIB + 3, 1) == CUDA_SUCCESS;
	ok(good && memcmp(in, out, sizeof(in)) == 0 && byte == 0x5a,
	   "memory keeps what is written");
	(void)cuda.cuMemFree_v2(p);
}

static void fact_mapped_host(void)
{
	CUdeviceptr p = 0;
	uint32_t got = 0;
	void *host = NULL;
	bool good = cuda.cuMemHostAlloc(&host, 4096, CU_MEMHOSTALLOC_DEVICEMAP) == CUDA_SUCCESS &&
		    cuda.cuMemHostGetDevicePointer_v2(&p, host, 0) == CUDA_SUCCESS;

	if (good)
		*(volatile uint32_t *)host = 0x600df00d;
	good = good && cuda.cuMemcpyDtoH_v2(&got, p, 4) == CUDA_SUCCESS;
	ok(good && got == 0x600df00d, "mapped host memory is the device's memory, too");
	ok(host && cuda.cuMemFreeHost(host) == CUDA_SUCCESS, "and can be freed");
}

static const char ptx[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
			  "// an entry that does nothing\n"
			  ".visible .entry facts_nothing(.param .u64 p)\n{\n\tret;\n}\n";

static void fact_modules(void)
{
	uint64_t arg = 0;
	void *params[] = { &arg };
	CUfunction f = NULL;
	CUmodule m = NULL;
	CUresult r;

	r = cuda.cuModuleLoadData(&m, "this is no program");
	ok(r == CUDA_ERROR_INVALID_IMAGE || r == CUDA_ERROR_INVALID_PTX ||
		   r == CUDA_ERROR_NO_BINARY_FOR_GPU,
	   "garbage is refused (%d)", (int)r);
	r = cuda.cuModuleLoadData(&m, ptx);
	if (r != CUDA_SUCCESS) {
		ok(false, "PTX loads (%d)", (int)r);
		return;
	}
	ok(cuda.cuModuleGetFunction(&f, m, "facts_nobody") == CUDA_ERROR_NOT_FOUND,
	   "an unknown function is NOT_FOUND");
	ok(cuda.cuModuleGetFunction(&f, m, "facts_nothing") == CUDA_SUCCESS,
	   "a known one is found");
	r = cuda.cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL);
	ok(r == CUDA_SUCCESS && cuda.cuCtxSynchronize() == CUDA_SUCCESS, "it runs (%d)", (int)r);
	r = cuda.cuLaunchKernel(f, 1, 1, 1, 2048, 1, 1, 0, NULL, params, NULL);
	ok(r == CUDA_ERROR_INVALID_VALUE, "2048 threads in a block are INVALID_VALUE (%d)", (int)r);
	ok(cuda.cuModuleUnload(m) == CUDA_SUCCESS, "the module unloads");
}

static void fact_streams(void)
{
	CUstream s = NULL;
	CUevent a = NULL, b = NULL;
	float ms = -1;
	bool good = cuda.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS &&
		    cuda.cuEventCreate(&a, CU_EVENT_DEFAULT) == CUDA_SUCCESS &&
		    cuda.cuEventCreate(&b, CU_EVENT_DEFAULT) == CUDA_SUCCESS;

	good = good && cuda.cuEventRecord(a, s) == CUDA_SUCCESS &&
	       cuda.cuEventRecord(b, s) == CUDA_SUCCESS &&
	       cuda.cuStreamSynchronize(s) == CUDA_SUCCESS;
	ok(good && cuda.cuStreamQuery(s) == CUDA_SUCCESS &&
		   cuda.cuEventElapsedTime(&ms, a, b) == CUDA_SUCCESS && ms >= 0 && ms < 100,
	   "streams and events work (%.3f ms apart)", (double)ms);
	(void)cuda.cuEventDestroy_v2(a);
	(void)cuda.cuEventDestroy_v2(b);
	ok(cuda.cuStreamDestroy_v2(s) == CUDA_SUCCESS, "and can be destroyed");
}

static void fact_vmm(void)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED };
	CUmemAccessDesc access = { .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle h = 0;
	unsigned long long before = used_bytes(), with;
	size_t unit = 0, size;
	CUdeviceptr p = 0;
	bool good;

	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = ordinal;
	access.location = prop.location;
	good = cuda.cuMemGetAllocationGranularity(&unit, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM) ==
		       CUDA_SUCCESS &&
	       unit > 0;
	ok(good, "the granularity of pieces is %zu KiB", unit / 1024);
	size = (256 * (size_t)MIB + unit - 1) / unit * unit;
	good = good && cuda.cuMemCreate(&h, size, &prop, 0) == CUDA_SUCCESS &&
	       cuda.cuMemAddressReserve(&p, size, 0, 0, 0) == CUDA_SUCCESS &&
	       cuda.cuMemMap(p, size, 0, h, 0) == CUDA_SUCCESS &&
	       cuda.cuMemSetAccess(p, size, &access, 1) == CUDA_SUCCESS &&
	       cuda.cuMemsetD8_v2(p, 1, size) == CUDA_SUCCESS;
	ok(good, "a piece can be created, mapped and written");
	good = good && cuda.cuMemRelease(h) == CUDA_SUCCESS;
	with = used_bytes();
	ok(good && with >= before + 256 * MIB, "a released piece stays while it is mapped");
	good = good && cuda.cuMemUnmap(p, size) == CUDA_SUCCESS;
	ok(good && used_bytes() < before + 64 * MIB, "unmapped, it is free");
	ok(good && cuda.cuMemAddressFree(p, size) == CUDA_SUCCESS, "the address can be given back");
}

/* Milliseconds for freeing n pieces of size; negative: they cannot be had. */
static double free_time(int n, size_t size)
{
	static CUdeviceptr p[256];
	double t0;
	int got = 0;

	while (got < n && cuda.cuMemAlloc_v2(&p[got], size) == CUDA_SUCCESS)
		got++;
	(void)cuda.cuCtxSynchronize();
	t0 = now_ms();
	for (int i = 0; i < got; i++)
		(void)cuda.cuMemFree_v2(p[i]);
	return got == n ? now_ms() - t0 : -1;
}

static void fact_few_pieces(void)
{
	size_t avail = 0, total = 0, all;
	double few, many;

	(void)cuda.cuMemGetInfo_v2(&avail, &total);
	all = avail / 2 < 16 * GIB ? avail / 2 : 16 * GIB;
	few = free_time(4, all / 4);
	many = free_time(256, all / 256);
	if (few < 0 || many < 0)
		skip("few pieces are freed faster",
		     avail ? "the pieces cannot be had" : "no context, or no free memory");
	else if (many < 5)
		skip("few pieces are freed faster", "too quick to tell");
	else
		ok(many > 1.5 * few,
		   "freeing 4 pieces of %zu MiB takes %.1f ms, 256 pieces %.1f ms",
		   all / 4 / (size_t)MIB, few, many);
}

static void fact_proc_address(void)
{
	CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	void *f = NULL;

	ok(cuda.cuGetProcAddress_v2("cuMemAlloc", &f, 12000, 0, &status) == CUDA_SUCCESS && f &&
		   status == CU_GET_PROC_ADDRESS_SUCCESS,
	   "cuGetProcAddress finds cuMemAlloc");
	f = (void *)&f;
	(void)cuda.cuGetProcAddress_v2("cuNobodyHasThis", &f, 12000, 0, &status);
	ok(!f || status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, "and says what it does not find");
}

static void fact_release(void)
{
	unsigned int flags;
	int active = -1;

	ok(cuda.cuDevicePrimaryCtxRelease_v2(ordinal) == CUDA_SUCCESS &&
		   cuda.cuDevicePrimaryCtxGetState(ordinal, &flags, &active) == CUDA_SUCCESS &&
		   active == 0,
	   "a released primary context is gone");
}

/* The device of FACTS_DEVICE, found through a child so that this process has no CUDA yet. */
static bool find_device(void)
{
	struct child c;
	char *save = NULL, *word;
	bool said = child_start(&c, "list", NULL);

	child_end(&c, 0);
	word = said ? strtok_r(c.line, " ", &save) : NULL;
	for (int i = 0; word && i <= ordinal; i++)
		word = strtok_r(NULL, " ", &save);
	if (!word)
		return false;
	(void)snprintf(uuid, sizeof(uuid), "%s", word);
	return nvml.nvmlDeviceGetHandleByUUID(uuid, &dev) == NVML_SUCCESS;
}

typedef void fact(void);

int main(int argc, char **argv)
{
	static fact *const facts[] = {
		fact_versions,
		fact_errors,
		fact_enumeration,
		fact_memory_versions,
		fact_small_figures,
		fact_events,
		fact_process_use_not_found,
		/* the next start other processes; this one has no CUDA until then */
		fact_process_list,
		fact_sigkill,
		fact_visible_devices,
		fact_inotify,
		/* CUDA here, in this order */
		fact_before_init,
		fact_cuda_devices,
		fact_context,
		fact_alloc_visible,
		fact_oom,
		fact_contents,
		fact_mapped_host,
		fact_modules,
		fact_streams,
		fact_vmm,
		fact_few_pieces,
		fact_proc_address,
		fact_release,
	};
	const char *chosen = getenv("FACTS_DEVICE");

	self = "/proc/self/exe";
	ordinal = chosen ? (int)strtol(chosen, NULL, 10) : 0;
	if (argc == 3 && strcmp(argv[1], "--child") == 0)
		return child_main(argv[2]);
	(void)signal(SIGPIPE, SIG_IGN);
	if (load_cuda() < 0 || load_nvml() < 0)
		return 2;
	if (nvml.nvmlInit_v2() != NVML_SUCCESS || !find_device()) {
		(void)fprintf(stderr, "facts: no device\n");
		return 2;
	}
	(void)printf("# device %d, %s\n", ordinal, uuid);
	for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++)
		facts[i]();
	(void)nvml.nvmlShutdown();
	(void)printf("# %d ok, %d not ok, %d skipped\n", counts.ok, counts.bad, counts.skipped);
	return counts.bad ? 1 : 0;
}
