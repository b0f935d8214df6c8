/* SPDX-License-Identifier: MIT */

/*
 * Devices as CUDA sees them. The ordinals are an order of their own: fastest first unless
 * CUDA_DEVICE_ORDER=PCI_BUS_ID, and cut down by CUDA_VISIBLE_DEVICES, whose rules are the
 * documented ones: indexes into that order, UUIDs or prefixes of them, and the list ends at the
 * first entry that names nothing. A card in MIG mode is not a device; of MIG instances a process
 * gets one.
 */
#include "cuda_sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static uint64_t speed(const struct sim_dev *d)
{
	return (uint64_t)d->sm_count * d->clock_sm_mhz;
}

/* All that could be visible, in CUDA's order. */
static int candidates(int *ret)
{
	const char *order = getenv("CUDA_DEVICE_ORDER");
	bool by_bus = order && strcmp(order, "PCI_BUS_ID") == 0;
	int n = 0;

	for (int dev = 0; dev < cu.m->ncards; dev++) {
		int at = n;

		if (cu.m->devs[dev].mig || cu.m->devs[dev].lost)
			continue;
		while (!by_bus && at > 0 &&
		       speed(&cu.m->devs[ret[at - 1]]) < speed(&cu.m->devs[dev])) {
			ret[at] = ret[at - 1];
			at--;
		}
		ret[at] = dev;
		n++;
	}
	if (n == 0 && cu.m->ndevs > cu.m->ncards)
		ret[n++] = cu.m->ncards;
	return n;
}

static int by_uuid(const char *token)
{
	size_t len = strlen(token);
	int found = -1;

	for (int dev = 0; dev < cu.m->ndevs; dev++) {
		if (strncasecmp(cu.m->devs[dev].uuid, token, len) != 0 || cu.m->devs[dev].mig)
			continue;
		if (found >= 0)
			return -1; /* a prefix of two */
		found = dev;
	}
	return found >= 0 && !cu.m->devs[found].lost ? found : -1;
}

/* The device a token names, -1: none. */
static int resolve(const char *token, const int *all, int nall)
{
	char *end;
	long index;

	if (strncmp(token, "GPU-", 4) == 0 || strncmp(token, "MIG-", 4) == 0)
		return by_uuid(token);
	index = strtol(token, &end, 10);
	if (end == token || *end != '\0' || index < 0 || index >= nall)
		return -1;
	return all[index];
}

static bool already(int dev)
{
	for (int i = 0; i < cu.nvisible; i++) {
		if (cu.visible[i] == dev)
			return true;
	}
	return false;
}

void cu_visible_devices(void)
{
	const char *env = getenv("CUDA_VISIBLE_DEVICES");
	char list[2048], *save = NULL;
	int all[SIM_DEV_MAX], nall = candidates(all), dev;

	cu.nvisible = 0;
	if (!env) {
		memcpy(cu.visible, all, sizeof(all));
		cu.nvisible = nall;
		return;
	}
	(void)snprintf(list, sizeof(list), "%s", env);
	for (char *t = strtok_r(list, ", ", &save); t; t = strtok_r(NULL, ", ", &save)) {
		dev = resolve(t, all, nall);
		if (dev < 0)
			return;
		if (already(dev)) {
			cu.nvisible = 0; /* a device named twice: none is visible */
			return;
		}
		cu.visible[cu.nvisible++] = dev;
		if (cu.m->devs[dev].parent >= 0) {
			cu.visible[0] = cu.visible[cu.nvisible - 1];
			cu.nvisible = 1;
			return;
		}
	}
}

struct sim_dev *cu_device(CUdevice d)
{
	return d >= 0 && d < cu.nvisible ? &cu.m->devs[cu.visible[d]] : NULL;
}

CU_EXPORT CUresult cuDeviceGetCount(int *count)
{
	CU_ENTER(NEEDS_INIT);
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = cu.nvisible;
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuDeviceGet(CUdevice *d, int ordinal)
{
	CU_ENTER(NEEDS_INIT);
	if (!d)
		return CUDA_ERROR_INVALID_VALUE;
	if (!cu_device(ordinal))
		return CUDA_ERROR_INVALID_DEVICE;
	*d = ordinal;
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuDeviceGetName(char *name, int len, CUdevice d)
{
	CU_ENTER(NEEDS_INIT);
	if (!cu_device(d))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!name || len <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	(void)snprintf(name, (size_t)len, "%s", cu_device(d)->name);
	return CUDA_SUCCESS;
}

static void uuid_bytes(const char *text, CUuuid *ret)
{
	const char *p = strchr(text, '-');
	unsigned int byte;

	memset(ret, 0, sizeof(*ret));
	for (int i = 0; p && i < 16; i++) {
		while (*p == '-')
			p++;
		if (sscanf(p, "%2x", &byte) != 1)
			return;
		ret->bytes[i] = (char)byte;
		p += 2;
	}
}

CU_EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice d)
{
	CU_ENTER(NEEDS_INIT);
	if (!cu_device(d))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!uuid)
		return CUDA_ERROR_INVALID_VALUE;
	uuid_bytes(cu_device(d)->uuid, uuid);
	return CUDA_SUCCESS;
}

/* The old call gives the card's UUID for a MIG instance. */
CU_EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice d)
{
	CU_ENTER(NEEDS_INIT);
	if (!cu_device(d))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!uuid)
		return CUDA_ERROR_INVALID_VALUE;
	uuid_bytes(cu_device(d)->parent >= 0 ? cu.m->devs[cu_device(d)->parent].uuid
					     : cu_device(d)->uuid,
		   uuid);
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice d)
{
	CU_ENTER(NEEDS_INIT);
	if (!cu_device(d))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	*bytes = cu_device(d)->mem_total - cu_device(d)->mem_reserved;
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuDeviceGetPCIBusId(char *text, int len, CUdevice d)
{
	CU_ENTER(NEEDS_INIT);
	if (!cu_device(d))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!text || len < 13)
		return CUDA_ERROR_INVALID_VALUE;
	(void)snprintf(text, (size_t)len, "0000:%02x:00.0", cu_device(d)->pci_bus);
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice *d, const char *text)
{
	unsigned int domain, bus;

	CU_ENTER(NEEDS_INIT);
	if (!d || !text)
		return CUDA_ERROR_INVALID_VALUE;
	if (sscanf(text, "%x:%x:", &domain, &bus) != 2)
		return CUDA_ERROR_INVALID_VALUE;
	for (int i = 0; i < cu.nvisible; i++) {
		if (cu_device(i)->pci_bus == bus && domain == 0) {
			*d = i;
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_INVALID_DEVICE;
}
