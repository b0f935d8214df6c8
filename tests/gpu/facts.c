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
#include "facts.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct cuda_symbols cuda;
struct nvml_symbols nvml;
const char *(*nvml_error)(nvmlReturn_t);

static struct {
	int ok, bad, skipped;
} counts;

int ordinal;
char uuid[64];
nvmlDevice_t dev;
size_t layout;
bool pids_seen;

void report(bool good, const char *fmt, ...)
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

void skip(const char *what, const char *why)
{
	(void)printf("skip   %s: %s\n", what, why);
	counts.skipped++;
}

double now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

int load_cuda(void)
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

void uuid_text(CUdevice d, char *buf, size_t size)
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

unsigned long long used_bytes(void)
{
	nvmlMemory_t mem = { 0 };

	(void)nvml.nvmlDeviceGetMemoryInfo(dev, &mem);
	return mem.used;
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
		fact_board,
		fact_events,
		fact_process_use_not_found,
		/* the next start other processes; this one has no CUDA until then */
		fact_process_list,
		fact_gone_once_waited_for,
		fact_sigkill,
		fact_visible_devices,
		fact_inotify,
		/* CUDA here, in this order */
		fact_before_init,
		fact_cuda_devices,
		fact_attributes,
		fact_context,
		fact_alloc_visible,
		fact_oom,
		fact_contents,
		fact_pointers,
		fact_mapped_host,
		fact_modules,
		fact_streams,
		fact_vmm,
		fact_few_pieces,
		fact_proc_address,
		fact_release,
	};
	const char *chosen = getenv("FACTS_DEVICE");

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
