/* SPDX-License-Identifier: MIT */
#ifndef TENURE_GPU_MISSING_H
#define TENURE_GPU_MISSING_H

/*
 * Cards that this machine should have and that NVML does not list: by the device nodes, and by the
 * kernel's list of PCI devices. A card that has fallen off the bus may still be counted by NVML,
 * which then cannot ask it (gpu_list's failed ones): those are not told here once more.
 *
 * A node that may not be opened belongs to a card that this container or job does not have. Opening
 * one can hang with the driver.
 */

#include <stdint.h>

#include "gpu/device.h"

struct gpu_missing {
	int32_t minor;	 /* N of /dev/nvidiaN; -1: it was missed in the list of PCI devices */
	char bus_id[16]; /* "0000:5b:00.0"; empty: by its node */
};

/* Where to look. */
struct gpu_places {
	const char *dev_dir; /* of the device nodes */
	const char *pci_dir; /* /sys/bus/pci/devices; NULL where that is not about what we may see
				(a container shows the machine's) */
	const char *driver_dir; /* /proc/driver/nvidia/gpus: what the driver says of each card */
};

/*
 * A PCI device counts that the nvidia driver has, and one of the same kind as a listed card that no
 * driver has; not one that is excluded from use (NVreg_ExcludedGpus), or whose node
 * this job or container does not have. Nodes count but for as many as there are NVIDIA cards that
 * another driver has or that are excluded. The number of those in ret, at most GPU_DEVICES_MAX.
 */
uint32_t gpu_find_missing(const struct gpu_list *list, const struct gpu_places *at,
			  struct gpu_missing *ret);

#endif
