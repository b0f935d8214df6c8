/* SPDX-License-Identifier: MIT */

/*
 * The board: who made which piece, on which processors it is near, its links, and how healthy its
 * memory is. The values are those of an H100 in a virtual machine (driver 580.159), where a model
 * does not say otherwise; the health is that of a new card.
 */
#include "nvml_sim.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WORD_BITS (8 * sizeof(unsigned long))

/* Cards for games have no serial number, no part number and no ECC. */
static bool is_data_centre(const struct sim_dev *d)
{
	return strstr(d->name, "GeForce") == NULL;
}

/* A number that is the card's own and the same at each call: from its UUID. */
static unsigned long long own_number(const struct sim_dev *d)
{
	unsigned long long n = 1469598103934665603ULL;

	for (const char *p = d->uuid; *p; p++)
		n = (n ^ (unsigned char)*p) * 1099511628211ULL;
	return n;
}

/* What only some boards have: NOT_SUPPORTED elsewhere. */
#define GETTERS(X)                                                                                 \
	X(nvmlDeviceGetMemoryBusWidth, unsigned int, d->bus_bits, true)                            \
	X(nvmlDeviceGetMultiGpuBoard, unsigned int, 0, true)                                       \
	X(nvmlDeviceGetPcieSpeed, unsigned int, 1000u << sim_pcie_generation(d), true)             \
	X(nvmlDeviceGetPcieLinkMaxSpeed, unsigned int, sim_pcie_generation(d), true)               \
	X(nvmlDeviceGetPcieReplayCounter, unsigned int, d->health.pcie_replays, true)              \
	X(nvmlDeviceGetIrqNum, unsigned int, 41 + (unsigned int)dev, true)                         \
	X(nvmlDeviceGetNumFans, unsigned int, is_data_centre(d) ? 0 : 2, true)                     \
	X(nvmlDeviceGetPowerManagementMode, nvmlEnableState_t, NVML_FEATURE_ENABLED, true)         \
	X(nvmlDeviceGetPowerState, nvmlPstates_t, NVML_PSTATE_0, true)                             \
	X(nvmlDeviceGetDefaultEccMode, nvmlEnableState_t, NVML_FEATURE_ENABLED, d->ecc)            \
	X(nvmlDeviceGetInforomConfigurationChecksum, unsigned int, (unsigned int)own_number(d),    \
	  is_data_centre(d))

#define GETTER_FUNCTION(name, type, expression, supported)                                         \
	NV_EXPORT nvmlReturn_t name(nvmlDevice_t handle, type *value)                              \
	{                                                                                          \
		struct sim_dev *d;                                                                 \
		NV_DEVICE(handle, NV_CARD);                                                        \
		d = &m->devs[dev];                                                                 \
		(void)d;                                                                           \
		if (!value)                                                                        \
			NV_RETURN(NVML_ERROR_INVALID_ARGUMENT);                                    \
		if (!(supported))                                                                  \
			NV_RETURN(NVML_ERROR_NOT_SUPPORTED);                                       \
		*value = (expression);                                                             \
		NV_RETURN(NVML_SUCCESS);                                                           \
	}
GETTERS(GETTER_FUNCTION)

/* Thirteen digits. */
NV_EXPORT nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t handle, char *text, unsigned int room)
{
	char serial[16];

	NV_DEVICE(handle, NV_CARD);
	if (!is_data_centre(&m->devs[dev]))
		NV_RETURN(NVML_ERROR_NOT_SUPPORTED);
	(void)snprintf(serial, sizeof(serial), "165%010llu",
		       own_number(&m->devs[dev]) % 10000000000ULL);
	NV_RETURN(nv_text(text, room, serial));
}

/* The first byte goes with the architecture: 96 is Hopper's. */
NV_EXPORT nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t handle, char *text, unsigned int room)
{
	char version[24];
	const struct sim_dev *d;

	NV_DEVICE(handle, NV_CARD);
	d = &m->devs[dev];
	(void)snprintf(version, sizeof(version), "%s.00.DA.00.0C",
		       d->cc_major >= 9	  ? "96"
		       : d->cc_major == 7 ? "88"
		       : d->cc_minor == 0 ? "92"
		       : d->cc_minor == 9 ? "95"
					  : "94");
	NV_RETURN(nv_text(text, room, version));
}

NV_EXPORT nvmlReturn_t nvmlDeviceGetBoardPartNumber(nvmlDevice_t handle, char *text,
						    unsigned int room)
{
	char part[24];

	NV_DEVICE(handle, NV_CARD);
	if (!is_data_centre(&m->devs[dev]))
		NV_RETURN(NVML_ERROR_NOT_SUPPORTED);
	(void)snprintf(part, sizeof(part), "692-2G%03u-0200-000",
		       m->devs[dev].pci_device_id % 1000);
	NV_RETURN(nv_text(text, room, part));
}

NV_EXPORT nvmlReturn_t nvmlDeviceGetInforomImageVersion(nvmlDevice_t handle, char *text,
							unsigned int room)
{
	char version[24];

	NV_DEVICE(handle, NV_CARD);
	if (!is_data_centre(&m->devs[dev]))
		NV_RETURN(NVML_ERROR_NOT_SUPPORTED);
	(void)snprintf(version, sizeof(version), "G%03u.0200.00.05",
		       m->devs[dev].pci_device_id % 1000);
	NV_RETURN(nv_text(text, room, version));
}

/* One NUMA node, so every card is near every processor that is online. */
static nvmlReturn_t all_processors(unsigned int words, unsigned long *set)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	if (!words || !set)
		return NVML_ERROR_INVALID_ARGUMENT;
	memset(set, 0, words * sizeof(*set));
	for (size_t i = 0; i < (size_t)n && i < words * WORD_BITS; i++)
		set[i / WORD_BITS] |= 1UL << i % WORD_BITS;
	return NVML_SUCCESS;
}

NV_EXPORT nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t handle, unsigned int words,
						unsigned long *set)
{
	NV_DEVICE(handle, NV_ANY);
	NV_RETURN(all_processors(words, set));
}

/* scope: 0 the NUMA node, 1 the socket */
NV_EXPORT nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t handle, unsigned int words,
							   unsigned long *set, unsigned int scope)
{
	NV_DEVICE(handle, NV_ANY);
	NV_RETURN(scope > 1 ? NVML_ERROR_INVALID_ARGUMENT : all_processors(words, set));
}

NV_EXPORT nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t handle, unsigned int words,
						   unsigned long *set, unsigned int scope)
{
	NV_DEVICE(handle, NV_ANY);
	if (!words || !set || scope > 1)
		NV_RETURN(NVML_ERROR_INVALID_ARGUMENT);
	memset(set, 0, words * sizeof(*set));
	set[0] = 1;
	NV_RETURN(NVML_SUCCESS);
}

NV_EXPORT nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t handle, nvmlEnableState_t *current,
					    nvmlEnableState_t *pending)
{
	NV_DEVICE(handle, NV_CARD);
	if (!current || !pending)
		NV_RETURN(NVML_ERROR_INVALID_ARGUMENT);
	if (!m->devs[dev].ecc)
		NV_RETURN(NVML_ERROR_NOT_SUPPORTED);
	*current = *pending = NVML_FEATURE_ENABLED;
	NV_RETURN(NVML_SUCCESS);
}

static unsigned long long ecc_errors(const struct sim_health *h, unsigned int error,
				     unsigned int counter)
{
	unsigned long long now = error ? h->ecc_uncorrected : h->ecc_corrected;

	return counter ? now + (error ? h->ecc_uncorrected_ever : h->ecc_corrected_ever) : now;
}

/* error: 0 corrected, 1 not; counter: 0 since the driver was loaded, 1 in the card's life. */
NV_EXPORT nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t handle, unsigned int error,
						   unsigned int counter, unsigned long long *count)
{
	NV_DEVICE(handle, NV_CARD);
	if (!count || error > 1 || counter > 1)
		NV_RETURN(NVML_ERROR_INVALID_ARGUMENT);
	if (!m->devs[dev].ecc)
		NV_RETURN(NVML_ERROR_NOT_SUPPORTED);
	*count = ecc_errors(&m->devs[dev].health, error, counter);
	NV_RETURN(NVML_SUCCESS);
}

/* location: 2 is the device's memory, 7 SRAM; the others are of cards before Ampere. */
NV_EXPORT nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t handle, unsigned int error,
						       unsigned int counter, unsigned int location,
						       unsigned long long *count)
{
	NV_DEVICE(handle, NV_CARD);
	if (!count || error > 1 || counter > 1 || location > 7)
		NV_RETURN(NVML_ERROR_INVALID_ARGUMENT);
	if (!m->devs[dev].ecc || (location != 2 && location != 7))
		NV_RETURN(NVML_ERROR_NOT_SUPPORTED);
	/* All of them are of the memory. */
	*count = location == 2 ? ecc_errors(&m->devs[dev].health, error, counter) : 0;
	NV_RETURN(NVML_SUCCESS);
}

/* Rows of memory are remapped since Ampere; before that pages were retired. */
static bool remaps_rows(const struct sim_dev *d)
{
	return d->cc_major >= 8 && d->ecc;
}

NV_EXPORT nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t handle, unsigned int *corrected,
						 unsigned int *uncorrected, unsigned int *pending,
						 unsigned int *failed)
{
	NV_DEVICE(handle, NV_CARD);
	if (!corrected || !uncorrected || !pending || !failed)
		NV_RETURN(NVML_ERROR_INVALID_ARGUMENT);
	if (!remaps_rows(&m->devs[dev]))
		NV_RETURN(NVML_ERROR_NOT_SUPPORTED);
	*corrected = m->devs[dev].health.rows_corrected;
	*uncorrected = m->devs[dev].health.rows_uncorrected;
	*pending = m->devs[dev].health.rows_pending;
	*failed = m->devs[dev].health.rows_failed;
	NV_RETURN(NVML_SUCCESS);
}

/* Banks by what of their spare rows is left: all, much, some, little, nothing. */
NV_EXPORT nvmlReturn_t nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t handle, unsigned int *banks)
{
	static const unsigned int new_card[] = { 2560, 0, 0, 0, 0 };

	NV_DEVICE(handle, NV_CARD);
	if (!banks)
		NV_RETURN(NVML_ERROR_INVALID_ARGUMENT);
	if (!remaps_rows(&m->devs[dev]))
		NV_RETURN(NVML_ERROR_NOT_SUPPORTED);
	memcpy(banks, new_card, sizeof(new_card));
	NV_RETURN(NVML_SUCCESS);
}

NV_EXPORT nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t handle, unsigned int cause,
						 unsigned int *count, unsigned long long *addresses)
{
	NV_DEVICE(handle, NV_CARD);
	if (!count || cause > 1)
		NV_RETURN(NVML_ERROR_INVALID_ARGUMENT);
	if (!m->devs[dev].ecc || remaps_rows(&m->devs[dev]))
		NV_RETURN(NVML_ERROR_NOT_SUPPORTED);

	const struct sim_health *h = &m->devs[dev].health;
	const unsigned int retired = cause ? h->rows_uncorrected : h->rows_corrected;
	const bool fits = retired <= *count && (addresses || !retired);

	for (unsigned int i = 0; fits && i < retired; i++)
		addresses[i] = 0x10000ULL * (i + 1);
	*count = retired;
	NV_RETURN(fits ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE);
}

NV_EXPORT nvmlReturn_t nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t handle,
							      nvmlEnableState_t *pending)
{
	NV_DEVICE(handle, NV_CARD);
	if (!pending)
		NV_RETURN(NVML_ERROR_INVALID_ARGUMENT);
	if (!m->devs[dev].ecc || remaps_rows(&m->devs[dev]))
		NV_RETURN(NVML_ERROR_NOT_SUPPORTED);
	*pending = m->devs[dev].health.rows_pending ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
	NV_RETURN(NVML_SUCCESS);
}

/* They lead to a switch, which is there where more than one card is. */
NV_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t handle, unsigned int link,
						nvmlEnableState_t *up)
{
	const struct sim_dev *d;

	NV_DEVICE(handle, NV_NO_MIG);
	d = &m->devs[dev];
	if (!sim_links(d))
		NV_RETURN(NVML_ERROR_NOT_SUPPORTED);
	if (!up || link >= sim_links(d))
		NV_RETURN(NVML_ERROR_INVALID_ARGUMENT);
	*up = d->nvlink && !(d->health.links_down >> link & 1) ? NVML_FEATURE_ENABLED
							       : NVML_FEATURE_DISABLED;
	NV_RETURN(NVML_SUCCESS);
}

/* All errors are those of the first link. */
static unsigned long long link_errors(const struct sim_health *h, unsigned int link,
				      unsigned int counter)
{
	const uint32_t counts[] = { h->link_replays, h->link_recoveries, h->link_crc_flit,
				    h->link_crc_data };

	return link ? 0 : counts[counter];
}

NV_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t handle, unsigned int link,
						       unsigned int counter,
						       unsigned long long *count)
{
	const struct sim_dev *d;

	NV_DEVICE(handle, NV_NO_MIG);
	d = &m->devs[dev];
	if (!sim_links(d))
		NV_RETURN(NVML_ERROR_NOT_SUPPORTED);
	if (!count || link >= sim_links(d) || counter > NVML_NVLINK_ERROR_DL_CRC_DATA)
		NV_RETURN(NVML_ERROR_INVALID_ARGUMENT);
	*count = link_errors(&d->health, link, counter);
	NV_RETURN(NVML_SUCCESS);
}

static void tell_field(nvmlFieldValue_t *f, nvmlValueType_t type)
{
	f->valueType = type;
	f->timestamp = (long long)nv_wall_us(sim_now_ns());
	f->latencyUsec = 0;
}

/* Of all fields only the errors of NVLink and what the driver asks for. */
static nvmlReturn_t field_value(const struct sim_dev *d, nvmlFieldValue_t *f)
{
	static const struct {
		unsigned int field, counter;
	} fields[] = {
		{ NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL, NVML_NVLINK_ERROR_DL_REPLAY },
		{ NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL, NVML_NVLINK_ERROR_DL_RECOVERY },
		{ NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL, NVML_NVLINK_ERROR_DL_CRC_FLIT },
		{ NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL, NVML_NVLINK_ERROR_DL_CRC_DATA },
	};

	if (f->fieldId == NVML_FI_DEV_GET_GPU_RECOVERY_ACTION) {
		tell_field(f, NVML_VALUE_TYPE_UNSIGNED_INT);
		f->value.uiVal = d->health.recovery;
		return NVML_SUCCESS;
	}
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		if (fields[i].field != f->fieldId || !sim_links(d))
			continue;
		tell_field(f, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG);
		f->value.ullVal = link_errors(&d->health, 0, fields[i].counter);
		return NVML_SUCCESS;
	}
	return NVML_ERROR_NOT_SUPPORTED;
}

NV_EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t handle, int n, nvmlFieldValue_t *f)
{
	NV_DEVICE(handle, NV_ANY);
	if (n < 1 || !f)
		NV_RETURN(NVML_ERROR_INVALID_ARGUMENT);
	for (int i = 0; i < n; i++)
		f[i].nvmlReturn = field_value(&m->devs[dev], &f[i]);
	NV_RETURN(NVML_SUCCESS);
}

/* Of Hopper's boards with a switch, where the fabric manager has set all up. */
NV_EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t handle, nvmlGpuFabricInfo_t *info)
{
	const struct sim_dev *d;
	uint32_t wrong;

	NV_DEVICE(handle, NV_CARD);
	if (!info)
		NV_RETURN(NVML_ERROR_INVALID_ARGUMENT);
	d = &m->devs[dev];
	wrong = d->health.fabric;
	memset(info, 0, sizeof(*info));
	if (d->cc_major >= 9 && d->nvlink)
		info->state = (unsigned char)(wrong ? wrong : NVML_GPU_FABRIC_STATE_COMPLETED);
	if (wrong == NVML_GPU_FABRIC_STATE_COMPLETED)
		info->status = NVML_ERROR_UNKNOWN;
	NV_RETURN(NVML_SUCCESS);
}
