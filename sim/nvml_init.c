/* SPDX-License-Identifier: MIT */

/* Initialisation, entry checks, and what is about the system and not about a device. */
#include "nvml_sim.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FD_MAX (SIM_DEV_MAX + 1)

static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;
static int users; /* nvmlInit calls less nvmlShutdown calls */
static int held[FD_MAX], nheld;

static struct nvmlDevice_st handles[SIM_DEV_MAX];

nvmlDevice_t nv_handle(int dev)
{
	handles[dev].dev = dev;
	return &handles[dev];
}

nvmlReturn_t nv_enter(const char *function, struct sim_machine **ret)
{
	struct sim_machine *m = sim_machine_get();
	int err;

	if (!m)
		return NVML_ERROR_UNINITIALIZED;
	err = sim_fault(m, function);
	if (err)
		return (nvmlReturn_t)err;
	if (__atomic_load_n(&users, __ATOMIC_RELAXED) == 0)
		return NVML_ERROR_UNINITIALIZED;
	if (m->nvml != SIM_NVML_OK)
		return NVML_ERROR_UNKNOWN;
	*ret = m;
	return NVML_SUCCESS;
}

static bool mig_has_it(const struct sim_machine *m, int dev, enum nv_kind kind)
{
	if (m->devs[dev].parent >= 0)
		return kind == NV_ANY;
	return !m->devs[dev].mig || kind != NV_NO_MIG;
}

nvmlReturn_t nv_device(struct sim_machine *m, nvmlDevice_t handle, enum nv_kind kind, int *ret)
{
	bool starting = sim_now_ns() < m->starting_until_ns;
	int dev;

	if (handle < handles || handle >= handles + SIM_DEV_MAX)
		return NVML_ERROR_INVALID_ARGUMENT;
	dev = (int)(handle - handles);
	if (dev >= m->ndevs)
		return NVML_ERROR_INVALID_ARGUMENT;
	sim_driver_call(m, sim_cost_ns(m, starting ? SIM_T_NVML_CALL_STARTING : SIM_T_NVML_CALL));
	if (m->devs[dev].lost || (m->devs[dev].parent >= 0 && m->devs[m->devs[dev].parent].lost))
		return NVML_ERROR_GPU_IS_LOST;
	if (!mig_has_it(m, dev, kind))
		return NVML_ERROR_NOT_SUPPORTED;
	if (sim_lock(m) < 0)
		return NVML_ERROR_UNKNOWN;
	sim_reap(m, false);
	*ret = dev;
	return NVML_SUCCESS;
}

nvmlReturn_t nv_text(char *to, unsigned int room, const char *text)
{
	size_t len = strlen(text);

	if (!to)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (len >= room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	memcpy(to, text, len + 1);
	return NVML_SUCCESS;
}

static int64_t wall_offset_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec - (int64_t)sim_now_ns();
}

unsigned long long nv_wall_us(uint64_t mono_ns)
{
	return (unsigned long long)(((int64_t)mono_ns + wall_offset_ns()) / 1000);
}

uint64_t nv_mono_ns(unsigned long long wall_us)
{
	int64_t ns = (int64_t)(wall_us * 1000ULL) - wall_offset_ns();

	return wall_us == 0 || ns < 0 ? 0 : (uint64_t)ns;
}

/* As nvidia-smi is seen to do: nodes are opened several times over the start, one of each stays. */
static void open_all(struct sim_machine *m)
{
	uint64_t opens = m->timing[SIM_T_NVML_OPENS_CTL],
		 node_opens = m->timing[SIM_T_NVML_OPENS_NODE];
	uint64_t step = sim_cost_ns(m, SIM_T_NVML_INIT) / (opens ? opens : 1);
	char node[32];
	int fd;

	for (uint64_t i = 0; i < opens; i++) {
		for (int k = -1; k < m->ncards; k++) {
			(void)snprintf(node, sizeof(node), k < 0 ? "nvidiactl" : "nvidia%d",
				       k < 0 ? 0 : m->devs[k].minor);
			if (k >= 0 && i >= node_opens)
				continue;
			fd = sim_open_node(m, node);
			if (fd >= 0 && i == 0 && nheld < FD_MAX)
				held[nheld++] = fd;
			else if (fd >= 0)
				(void)close(fd);
		}
		sim_driver_call(m, step / 10);
		sim_sleep_ns(step - step / 10);
	}
}

static nvmlReturn_t init(const char *function)
{
	struct sim_machine *m = sim_machine_get();
	int err;

	if (!m)
		return NVML_ERROR_DRIVER_NOT_LOADED;
	err = sim_fault(m, function);
	if (err)
		return (nvmlReturn_t)err;
	if (m->nvml != SIM_NVML_OK)
		return NVML_ERROR_UNKNOWN;
	(void)pthread_mutex_lock(&init_lock);
	if (users == 0)
		open_all(m);
	__atomic_fetch_add(&users, 1, __ATOMIC_RELAXED);
	(void)pthread_mutex_unlock(&init_lock);
	return NVML_SUCCESS;
}

NV_EXPORT nvmlReturn_t nvmlInit(void)
{
	return init(__func__);
}

NV_EXPORT nvmlReturn_t nvmlInit_v2(void)
{
	return init(__func__);
}

NV_EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
	return init(__func__);
}

NV_EXPORT nvmlReturn_t nvmlShutdown(void)
{
	nvmlReturn_t res = NVML_SUCCESS;

	(void)pthread_mutex_lock(&init_lock);
	if (users == 0)
		res = NVML_ERROR_UNINITIALIZED;
	else if (__atomic_sub_fetch(&users, 1, __ATOMIC_RELAXED) == 0)
		while (nheld > 0)
			(void)close(held[--nheld]);
	(void)pthread_mutex_unlock(&init_lock);
	return res;
}

NV_EXPORT const char *nvmlErrorString(nvmlReturn_t result)
{
	switch (result) {
#define ERROR_CASE(name, value, text)                                                              \
	case name:                                                                                 \
		return text;
		NVML_RETURN_LIST(ERROR_CASE)
	}
	return "Unknown Error";
}

NV_EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int room)
{
	NV_ENTER();
	return nv_text(version, room, m->driver_version);
}

NV_EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int room)
{
	char text[64];

	NV_ENTER();
	(void)snprintf(text, sizeof(text), "%d.%s", m->cuda_version / 1000, m->driver_version);
	return nv_text(version, room, text);
}

NV_EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
	NV_ENTER();
	if (!version)
		return NVML_ERROR_INVALID_ARGUMENT;
	*version = m->cuda_version;
	return NVML_SUCCESS;
}
NV_ALIAS(nvmlSystemGetCudaDriverVersion_v2, nvmlSystemGetCudaDriverVersion);

NV_EXPORT nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int room)
{
	char path[40], text[512];
	ssize_t n;
	int fd;

	NV_ENTER();
	if (!name || !room)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (m->pid_mode == SIM_PIDS_HOST && pid > SIM_PID_OFFSET)
		pid -= SIM_PID_OFFSET;
	(void)snprintf(path, sizeof(path), "/proc/%u/cmdline", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NVML_ERROR_NOT_FOUND;
	n = read(fd, text, sizeof(text) - 1);
	(void)close(fd);
	if (n <= 0)
		return NVML_ERROR_NOT_FOUND;
	text[n] = '\0';
	return nv_text(name, room, text);
}

NV_EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
	NV_ENTER();
	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*count = (unsigned int)m->ncards;
	return NVML_SUCCESS;
}
NV_ALIAS(nvmlDeviceGetCount, nvmlDeviceGetCount_v2);

NV_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *ret)
{
	NV_ENTER();
	if (!ret || index >= (unsigned int)m->ncards)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (m->devs[index].lost)
		return NVML_ERROR_GPU_IS_LOST;
	*ret = nv_handle((int)index);
	return NVML_SUCCESS;
}
NV_ALIAS(nvmlDeviceGetHandleByIndex, nvmlDeviceGetHandleByIndex_v2);

NV_EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *ret)
{
	NV_ENTER();
	if (!uuid || !ret)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (int dev = 0; dev < m->ndevs; dev++) {
		if (strcmp(m->devs[dev].uuid, uuid) == 0) {
			*ret = nv_handle(dev);
			return m->devs[dev].lost ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
		}
	}
	return NVML_ERROR_NOT_FOUND;
}

NV_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvmlDevice_t *ret)
{
	unsigned int domain, bus;

	NV_ENTER();
	if (!id || !ret || sscanf(id, "%x:%x:", &domain, &bus) != 2)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (int dev = 0; dev < m->ncards; dev++) {
		if (m->devs[dev].pci_bus == bus && domain == 0) {
			*ret = nv_handle(dev);
			return NVML_SUCCESS;
		}
	}
	return NVML_ERROR_NOT_FOUND;
}
NV_ALIAS(nvmlDeviceGetHandleByPciBusId, nvmlDeviceGetHandleByPciBusId_v2);
