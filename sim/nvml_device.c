/* SPDX-License-Identifier: MIT */

/*
 * What NVML tells about a device. The calls that fill one number are rows of GETTERS: name, type,
 * expression (of m, dev and d = &m->devs[dev]), and whether MIG has it.
 */
#include "nvml_sim.h"

#include <stdio.h>
#include <string.h>

#define IDLE_CLOCK_MHZ 345

/* In degrees C: the software slows a card down from the first on, the hardware from the second. */
enum { HOT_SHUTDOWN = 92, HOT_HARDWARE = 89, HOT_MEMORY = 95, HOT_SOFTWARE = 87 };

static unsigned int util_percent(const struct sim_machine *m, int dev, uint64_t now,
				 uint64_t window)
{
	uint64_t busy = sim_busy_ns(m, dev, now - window, now, 0);

	return (unsigned int)((busy * 100 + window / 2) / window);
}

static unsigned int temperature(struct sim_machine *m, int dev)
{
	/* 26 degrees at rest, 68 at the power limit: what an air-conditioned room shows */
	return 26 + (unsigned int)(42ULL * sim_power_mw(m, dev) / m->devs[dev].limit_mw) +
	       m->devs[dev].health.heat_c;
}

static bool running(const struct sim_machine *m, int dev)
{
	return sim_has_context(m, dev);
}

/* A card that runs at the limit of its power says so, and one that is too hot. */
static unsigned long long throttle_reasons(struct sim_machine *m, int dev)
{
	const struct sim_dev *d = &m->devs[dev];
	unsigned int degrees = temperature(m, dev);
	unsigned long long bits =
		running(m, dev) ? nvmlClocksEventReasonNone : nvmlClocksEventReasonGpuIdle;

	if (sim_power_mw(m, dev) >= d->limit_mw / 100 * 98)
		bits |= nvmlClocksEventReasonSwPowerCap;
	if (degrees >= HOT_SOFTWARE)
		bits |= nvmlClocksEventReasonSwThermalSlowdown;
	if (degrees >= HOT_HARDWARE)
		bits |= nvmlClocksThrottleReasonHwSlowdown |
			nvmlClocksThrottleReasonHwThermalSlowdown;
	return bits;
}

/* By a tenth for each degree that it is too hot; the hardware halves it at once. */
static unsigned int sm_clock(struct sim_machine *m, int dev)
{
	unsigned int degrees = temperature(m, dev), mhz = m->devs[dev].clock_sm_mhz;

	if (!running(m, dev))
		return IDLE_CLOCK_MHZ;
	if (degrees >= HOT_HARDWARE)
		return mhz / 2;
	return degrees >= HOT_SOFTWARE ? mhz - mhz / 10 * (degrees - HOT_SOFTWARE + 1) : mhz;
}

/* Some seconds after somebody used it. */
static bool link_rests(const struct sim_machine *m, int dev)
{
	return m->devs[dev].health.pcie_rests && !sim_has_context(m, dev) &&
	       sim_now_ns() - m->last_context_ns > 5 * NS_PER_S;
}

/* nvmlBrandType_t */
static unsigned int brand(const struct sim_dev *d)
{
	enum { TESLA = 2, GEFORCE = 5, NVIDIA = 14 };

	if (strstr(d->name, "GeForce"))
		return GEFORCE;
	return strncmp(d->name, "Tesla", strlen("Tesla")) == 0 ? TESLA : NVIDIA;
}

/* NVML_DEVICE_ARCH_*, by the compute capability */
static unsigned int architecture(const struct sim_dev *d)
{
	enum { VOLTA = 5, TURING, AMPERE, ADA, HOPPER };

	if (d->cc_major == 7)
		return d->cc_minor >= 5 ? TURING : VOLTA;
	if (d->cc_major == 8)
		return d->cc_minor == 9 ? ADA : AMPERE;
	return d->cc_major == 9 ? HOPPER : UINT32_MAX;
}

#define THROTTLE_REASONS                                                                           \
	(nvmlClocksEventReasonGpuIdle | nvmlClocksEventReasonSwPowerCap |                          \
	 nvmlClocksEventReasonSwThermalSlowdown | nvmlClocksThrottleReasonHwSlowdown |             \
	 nvmlClocksThrottleReasonHwThermalSlowdown)

#define GETTERS(X)                                                                                 \
	X(nvmlDeviceGetPowerUsage, unsigned int, sim_power_mw(m, dev), NV_CARD)                    \
	X(nvmlDeviceGetTotalEnergyConsumption, unsigned long long, sim_energy_mj(m, dev), NV_CARD) \
	X(nvmlDeviceGetEnforcedPowerLimit, unsigned int, d->limit_mw, NV_CARD)                     \
	X(nvmlDeviceGetPowerManagementLimit, unsigned int, d->limit_mw, NV_CARD)                   \
	X(nvmlDeviceGetPowerManagementDefaultLimit, unsigned int, d->limit_mw, NV_CARD)            \
	X(nvmlDeviceGetMinorNumber, unsigned int, (unsigned int)d->minor, NV_CARD)                 \
	X(nvmlDeviceGetNumGpuCores, unsigned int, d->sm_count * 128, NV_CARD)                      \
	X(nvmlDeviceGetComputeMode, nvmlComputeMode_t, (nvmlComputeMode_t)d->compute_mode, NV_ANY) \
	X(nvmlDeviceGetPersistenceMode, nvmlEnableState_t, NVML_FEATURE_ENABLED, NV_CARD)          \
	X(nvmlDeviceGetDisplayMode, nvmlEnableState_t, (nvmlEnableState_t)d->display, NV_CARD)     \
	X(nvmlDeviceGetDisplayActive, nvmlEnableState_t, (nvmlEnableState_t)d->display, NV_CARD)   \
	X(nvmlDeviceGetPerformanceState, nvmlPstates_t, NVML_PSTATE_0, NV_CARD)                    \
	X(nvmlDeviceGetSupportedEventTypes, unsigned long long, nvmlEventTypeXidCriticalError,     \
	  NV_CARD)                                                                                 \
	X(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, throttle_reasons(m, dev), \
	  NV_CARD)                                                                                 \
	X(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, throttle_reasons(m, dev),    \
	  NV_CARD)                                                                                 \
	X(nvmlDeviceGetSupportedClocksThrottleReasons, unsigned long long, THROTTLE_REASONS,       \
	  NV_CARD)                                                                                 \
	X(nvmlDeviceGetMaxMigDeviceCount, unsigned int, d->mig_capable ? 7 : 0, NV_CARD)           \
	X(nvmlDeviceGetBrand, unsigned int, brand(d), NV_ANY)                                      \
	X(nvmlDeviceGetArchitecture, unsigned int, architecture(d), NV_ANY)                        \
	X(nvmlDeviceGetBoardId, unsigned int, (unsigned int)d->pci_bus << 8, NV_CARD)              \
	X(nvmlDeviceGetMaxPcieLinkGeneration, unsigned int, sim_pcie_generation(d), NV_CARD)       \
	X(nvmlDeviceGetGpuMaxPcieLinkGeneration, unsigned int, sim_pcie_generation(d), NV_CARD)    \
	X(nvmlDeviceGetCurrPcieLinkGeneration, unsigned int,                                       \
	  link_rests(m, dev) ? 1 : sim_pcie_generation(d), NV_CARD)                                \
	X(nvmlDeviceGetMaxPcieLinkWidth, unsigned int, SIM_PCIE_LANES, NV_CARD)                    \
	X(nvmlDeviceGetCurrPcieLinkWidth, unsigned int,                                            \
	  link_rests(m, dev) && d->health.pcie_rests > 1                                           \
		  ? 1                                                                              \
		  : SIM_PCIE_LANES - d->health.pcie_lanes_lost,                                    \
	  NV_CARD)                                                                                 \
	X(nvmlDeviceIsMigDeviceHandle, unsigned int, d->parent >= 0, NV_ANY)

#define GETTER_FUNCTION(name, type, expression, kind)                                              \
	NV_EXPORT nvmlReturn_t name(nvmlDevice_t handle, type *value)                              \
	{                                                                                          \
		struct sim_dev *d;                                                                 \
		NV_DEVICE(handle, kind);                                                           \
		d = &m->devs[dev];                                                                 \
		(void)d;                                                                           \
		if (!value)                                                                        \
			NV_RETURN(NVML_ERROR_INVALID_ARGUMENT);                                    \
		*value = (expression);                                                             \
		NV_RETURN(NVML_SUCCESS);                                                           \
	}
GETTERS(GETTER_FUNCTION)

NV_EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t handle, char *text, unsigned int room)
{
	NV_DEVICE(handle, NV_ANY);
	NV_RETURN(nv_text(text, room, m->devs[dev].uuid));
}

NV_EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t handle, char *text, unsigned int room)
{
	NV_DEVICE(handle, NV_ANY);
	NV_RETURN(nv_text(text, room, m->devs[dev].name));
}

NV_EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t handle, unsigned int *index)
{
	NV_DEVICE(handle, NV_ANY);
	if (!index)
		NV_RETURN(NVML_ERROR_INVALID_ARGUMENT);
	*index = m->devs[dev].parent >= 0 ? m->devs[dev].gi_id - 1 : (unsigned int)dev;
	NV_RETURN(NVML_SUCCESS);
}

NV_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t handle, nvmlPciInfo_t *pci)
{
	NV_DEVICE(handle, NV_ANY);
	if (!pci)
		NV_RETURN(NVML_ERROR_INVALID_ARGUMENT);
	memset(pci, 0, sizeof(*pci));
	pci->bus = m->devs[dev].pci_bus;
	pci->pciDeviceId = m->devs[dev].pci_device_id << 16 | 0x10de;
	pci->pciSubSystemId = 0x16be10de;
	(void)snprintf(pci->busId, sizeof(pci->busId), "%08X:%02X:%02X.0", 0u, pci->bus, 0u);
	(void)snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "%04X:%02X:%02X.0", 0u, pci->bus,
		       0u);
	NV_RETURN(NVML_SUCCESS);
}
NV_ALIAS(nvmlDeviceGetPciInfo_v2, nvmlDeviceGetPciInfo_v3);

/* v1 has no field for the reserve and counts it as used. */
NV_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t handle, nvmlMemory_t *mem)
{
	NV_DEVICE(handle, NV_ANY);
	if (!mem)
		NV_RETURN(NVML_ERROR_INVALID_ARGUMENT);
	sim_reap_card(m, dev);
	mem->total = m->devs[dev].mem_total;
	mem->free = sim_mem_free(m, dev);
	mem->used = mem->total - mem->free;
	NV_RETURN(NVML_SUCCESS);
}

NV_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t handle, nvmlMemory_v2_t *mem)
{
	NV_DEVICE(handle, NV_ANY);
	if (!mem)
		NV_RETURN(NVML_ERROR_INVALID_ARGUMENT);
	if (mem->version != nvmlMemory_v2)
		NV_RETURN(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	sim_reap_card(m, dev);
	mem->total = m->devs[dev].mem_total;
	mem->reserved = m->devs[dev].mem_reserved;
	mem->free = sim_mem_free(m, dev);
	mem->used = mem->total - mem->free - mem->reserved;
	NV_RETURN(NVML_SUCCESS);
}

NV_EXPORT nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t handle, nvmlBAR1Memory_t *mem)
{
	NV_DEVICE(handle, NV_CARD);
	if (!mem)
		NV_RETURN(NVML_ERROR_INVALID_ARGUMENT);
	mem->bar1Total = 256 * SIM_GIB;
	mem->bar1Used = 2 * SIM_MIB;
	mem->bar1Free = mem->bar1Total - mem->bar1Used;
	NV_RETURN(NVML_SUCCESS);
}

NV_EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t handle, nvmlUtilization_t *util)
{
	NV_DEVICE(handle, NV_NO_MIG);
	if (!util)
		NV_RETURN(NVML_ERROR_INVALID_ARGUMENT);
	util->gpu = util_percent(m, dev, sim_now_ns(), m->timing[SIM_T_UTIL_WINDOW]);
	util->memory = util->gpu / 4;
	NV_RETURN(NVML_SUCCESS);
}

NV_EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t handle,
						nvmlTemperatureSensors_t sensor,
						unsigned int *value)
{
	NV_DEVICE(handle, NV_CARD);
	if (!value || sensor != NVML_TEMPERATURE_GPU)
		NV_RETURN(NVML_ERROR_INVALID_ARGUMENT);
	*value = temperature(m, dev);
	NV_RETURN(NVML_SUCCESS);
}

NV_EXPORT nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t handle,
							 nvmlTemperatureThresholds_t which,
							 unsigned int *value)
{
	static const unsigned int thresholds[] = { HOT_SHUTDOWN, HOT_HARDWARE, HOT_MEMORY,
						   HOT_SOFTWARE };

	NV_DEVICE(handle, NV_CARD);
	if (!value || (size_t)which >= sizeof(thresholds) / sizeof(thresholds[0]))
		NV_RETURN(NVML_ERROR_INVALID_ARGUMENT);
	*value = thresholds[which];
	NV_RETURN(NVML_SUCCESS);
}

NV_EXPORT nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t handle, nvmlClockType_t type,
						 unsigned int *mhz)
{
	NV_DEVICE(handle, NV_CARD);
	if (!mhz || type >= NVML_CLOCK_COUNT)
		NV_RETURN(NVML_ERROR_INVALID_ARGUMENT);
	*mhz = type == NVML_CLOCK_MEM ? m->devs[dev].clock_mem_mhz : m->devs[dev].clock_sm_mhz;
	NV_RETURN(NVML_SUCCESS);
}

NV_EXPORT nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t handle, nvmlClockType_t type,
					      unsigned int *mhz)
{
	NV_DEVICE(handle, NV_CARD);
	if (!mhz || type >= NVML_CLOCK_COUNT)
		NV_RETURN(NVML_ERROR_INVALID_ARGUMENT);
	if (type == NVML_CLOCK_MEM)
		*mhz = m->devs[dev].clock_mem_mhz;
	else
		*mhz = sm_clock(m, dev);
	NV_RETURN(NVML_SUCCESS);
}

NV_EXPORT nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t handle,
								    unsigned int *min,
								    unsigned int *max)
{
	NV_DEVICE(handle, NV_CARD);
	if (!min || !max)
		NV_RETURN(NVML_ERROR_INVALID_ARGUMENT);
	*max = m->devs[dev].limit_mw;
	*min = *max * 2 / 7;
	NV_RETURN(NVML_SUCCESS);
}

NV_EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t handle, int *major,
							  int *minor)
{
	NV_DEVICE(handle, NV_ANY);
	if (!major || !minor)
		NV_RETURN(NVML_ERROR_INVALID_ARGUMENT);
	*major = m->devs[dev].cc_major;
	*minor = m->devs[dev].cc_minor;
	NV_RETURN(NVML_SUCCESS);
}

/* Whoever is joined by NVLink can do all the rest as well. */
NV_EXPORT nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t one, nvmlDevice_t other,
					      nvmlGpuP2PCapsIndex_t index,
					      nvmlGpuP2PStatus_t *status)
{
	int peer = other ? other->dev : -1;

	NV_DEVICE(one, NV_NO_MIG);
	if (!status || index > NVML_P2P_CAPS_INDEX_PROP || peer < 0 || peer == dev)
		NV_RETURN(NVML_ERROR_INVALID_ARGUMENT);
	if (m->devs[peer].parent >= 0 || m->devs[peer].mig)
		NV_RETURN(NVML_ERROR_NOT_SUPPORTED);
	*status = m->devs[dev].nvlink >> peer & 1 ? NVML_P2P_STATUS_OK
						  : NVML_P2P_STATUS_NOT_SUPPORTED;
	NV_RETURN(NVML_SUCCESS);
}

NV_EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t handle, unsigned int *current,
					    unsigned int *pending)
{
	NV_DEVICE(handle, NV_CARD);
	if (!current || !pending)
		NV_RETURN(NVML_ERROR_INVALID_ARGUMENT);
	if (!m->devs[dev].mig_capable)
		NV_RETURN(NVML_ERROR_NOT_SUPPORTED);
	*current = *pending = m->devs[dev].mig ? NVML_DEVICE_MIG_ENABLE : NVML_DEVICE_MIG_DISABLE;
	NV_RETURN(NVML_SUCCESS);
}

NV_EXPORT nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t handle, unsigned int index,
							   nvmlDevice_t *ret)
{
	NV_DEVICE(handle, NV_CARD);
	if (!ret)
		NV_RETURN(NVML_ERROR_INVALID_ARGUMENT);
	if (!m->devs[dev].mig_capable)
		NV_RETURN(NVML_ERROR_NOT_SUPPORTED);
	for (int i = m->ncards; i < m->ndevs; i++) {
		if (m->devs[i].parent == dev && index-- == 0) {
			*ret = nv_handle(i);
			NV_RETURN(NVML_SUCCESS);
		}
	}
	NV_RETURN(NVML_ERROR_NOT_FOUND);
}

NV_EXPORT nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t handle,
								    nvmlDevice_t *ret)
{
	NV_DEVICE(handle, NV_ANY);
	if (!ret || m->devs[dev].parent < 0)
		NV_RETURN(NVML_ERROR_INVALID_ARGUMENT);
	*ret = nv_handle(m->devs[dev].parent);
	NV_RETURN(NVML_SUCCESS);
}

static nvmlReturn_t instance_id(const struct sim_dev *d, uint32_t id, unsigned int *ret)
{
	if (!ret)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (d->parent < 0)
		return NVML_ERROR_NOT_SUPPORTED;
	*ret = id;
	return NVML_SUCCESS;
}

NV_EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t handle, unsigned int *id)
{
	NV_DEVICE(handle, NV_ANY);
	NV_RETURN(instance_id(&m->devs[dev], m->devs[dev].gi_id, id));
}

NV_EXPORT nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t handle, unsigned int *id)
{
	NV_DEVICE(handle, NV_ANY);
	NV_RETURN(instance_id(&m->devs[dev], m->devs[dev].ci_id, id));
}

NV_EXPORT nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t handle, nvmlDeviceAttributes_t *attr)
{
	const struct sim_dev *d;

	NV_DEVICE(handle, NV_ANY);
	d = &m->devs[dev];
	if (!attr)
		NV_RETURN(NVML_ERROR_INVALID_ARGUMENT);
	if (d->parent < 0)
		NV_RETURN(NVML_ERROR_NOT_SUPPORTED);
	memset(attr, 0, sizeof(*attr));
	attr->multiprocessorCount = d->sm_count;
	attr->sharedCopyEngineCount = 1;
	attr->gpuInstanceSliceCount = attr->computeInstanceSliceCount =
		d->sm_count * 7 / m->devs[d->parent].sm_count + 1;
	attr->memorySizeMB = d->mem_total / SIM_MIB;
	NV_RETURN(NVML_SUCCESS);
}
NV_ALIAS(nvmlDeviceGetAttributes, nvmlDeviceGetAttributes_v2);
