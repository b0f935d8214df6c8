/* SPDX-License-Identifier: MIT */

/*
 * A poller like nvidia-smi: starts NVML, looks at every card and its processes, prints, ends. It is
 * what wakes a watcher of the device nodes without ever being in a process list. Runs on real
 * machines too. Exit code: 0, or 1 when NVML or a device failed.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "gpu/nvml_abi.h"

#define SYMBOLS(X)                                                                                 \
	X(nvmlInit_v2, (void))                                                                     \
	X(nvmlShutdown, (void))                                                                    \
	X(nvmlDeviceGetCount_v2, (unsigned int *))                                                 \
	X(nvmlDeviceGetHandleByIndex_v2, (unsigned int, nvmlDevice_t *))                           \
	X(nvmlDeviceGetUUID, (nvmlDevice_t, char *, unsigned int))                                 \
	X(nvmlDeviceGetName, (nvmlDevice_t, char *, unsigned int))                                 \
	X(nvmlDeviceGetMemoryInfo, (nvmlDevice_t, nvmlMemory_t *))                                 \
	X(nvmlDeviceGetUtilizationRates, (nvmlDevice_t, nvmlUtilization_t *))                      \
	X(nvmlDeviceGetPowerUsage, (nvmlDevice_t, unsigned int *))                                 \
	X(nvmlDeviceGetComputeRunningProcesses_v2,                                                 \
	  (nvmlDevice_t, unsigned int *, nvmlProcessInfo_v2_t *))                                  \
	X(nvmlSystemGetProcessName, (unsigned int, char *, unsigned int))

static struct {
#define MEMBER(name, args) nvmlReturn_t(*name) args;
	SYMBOLS(MEMBER)
} nvml;
static const char *(*error_string)(nvmlReturn_t);

static int load(void)
{
	void *lib = dlopen(NVML_SONAME, RTLD_NOW);

	if (!lib) {
		(void)fprintf(stderr, "nvsmi: %s\n", dlerror());
		return -1;
	}
#define LOOK_UP(name, args)                                                                        \
	*(void **)&nvml.name = dlsym(lib, #name);                                                  \
	if (!nvml.name) {                                                                          \
		(void)fprintf(stderr, "nvsmi: NVML lacks %s\n", #name);                            \
		return -1;                                                                         \
	}
	SYMBOLS(LOOK_UP)
	*(void **)&error_string = dlsym(lib, "nvmlErrorString");
	return error_string ? 0 : -1;
}

static void show_processes(unsigned int index, nvmlDevice_t dev)
{
	nvmlProcessInfo_v2_t list[64];
	unsigned int n = 64;
	char name[256];

	if (nvml.nvmlDeviceGetComputeRunningProcesses_v2(dev, &n, list) != NVML_SUCCESS)
		return;
	for (unsigned int i = 0; i < n; i++) {
		if (nvml.nvmlSystemGetProcessName(list[i].pid, name, sizeof(name)) != NVML_SUCCESS)
			(void)snprintf(name, sizeof(name), "-");
		(void)printf("  %u  pid %u  %llu MiB  %s\n", index, list[i].pid,
			     list[i].usedGpuMemory / 1048576, name);
	}
}

static nvmlReturn_t show(unsigned int index)
{
	char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE] = "-",
	     name[NVML_DEVICE_NAME_V2_BUFFER_SIZE] = "-";
	nvmlUtilization_t util = { 0 };
	nvmlMemory_t mem = { 0 };
	unsigned int mw = 0;
	nvmlDevice_t dev;
	nvmlReturn_t r = nvml.nvmlDeviceGetHandleByIndex_v2(index, &dev);

	if (r != NVML_SUCCESS) {
		(void)printf("%u  %s\n", index, error_string(r));
		return r;
	}
	(void)nvml.nvmlDeviceGetUUID(dev, uuid, sizeof(uuid));
	(void)nvml.nvmlDeviceGetName(dev, name, sizeof(name));
	(void)nvml.nvmlDeviceGetMemoryInfo(dev, &mem);
	(void)nvml.nvmlDeviceGetPowerUsage(dev, &mw);
	(void)printf("%u  %s  %llu / %llu MiB  %u W  ", index, name, mem.used / 1048576,
		     mem.total / 1048576, mw / 1000);
	if (nvml.nvmlDeviceGetUtilizationRates(dev, &util) == NVML_SUCCESS)
		(void)printf("%u%%  %s\n", util.gpu, uuid);
	else
		(void)printf("N/A  %s\n", uuid);
	show_processes(index, dev);
	return r;
}

int main(void)
{
	unsigned int count = 0;
	nvmlReturn_t r;
	int bad = 0;

	if (load() < 0)
		return 1;
	r = nvml.nvmlInit_v2();
	if (r == NVML_SUCCESS)
		r = nvml.nvmlDeviceGetCount_v2(&count);
	if (r != NVML_SUCCESS) {
		(void)fprintf(stderr, "nvsmi: %s\n", error_string(r));
		return 1;
	}
	for (unsigned int i = 0; i < count; i++)
		bad |= show(i) != NVML_SUCCESS;
	(void)nvml.nvmlShutdown();
	return bad;
}
