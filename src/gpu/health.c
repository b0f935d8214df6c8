/* SPDX-License-Identifier: MIT */

/*
 * What fills one number by a call of its own is a row of `numbers` or `clocks`; the others have a
 * function for their part. No call here is worth waiting for, so each part is few calls, and who
 * looks at devices may do something else between two parts.
 *
 * Sums of errors over all links come by one call where the driver has it, and else link by link.
 */
#include "gpu/health.h"

#include <stddef.h>

#include "base/clock.h"
#include "base/mem.h"
#include "gpu/device.h"
#include "gpu/nvml.h"

typedef nvmlReturn_t (*number_fn)(nvmlDevice_t, unsigned int *);
typedef nvmlReturn_t (*clock_fn)(nvmlDevice_t, nvmlClockType_t, unsigned int *);

static const struct number {
	uint32_t known;
	enum health_part part;
	size_t call; /* of struct nvml, a number_fn */
	size_t to;   /* of struct gpu_health */
} numbers[] = {
#define NUMBER(bit, part, call, to)                                                                \
	{                                                                                          \
		HEALTH_##bit, HEALTH_PART_##part, offsetof(struct nvml, call),                     \
			offsetof(struct gpu_health, to)                                            \
	}
	NUMBER(PSTATE, CLOCKS, pstate, pstate),
	NUMBER(PCIE_REPLAYS, PCIE, pcie_replays, pcie_replays),
	NUMBER(PCIE_GEN, PCIE, pcie_generation, pcie_gen),
	NUMBER(PCIE_WIDTH, PCIE, pcie_width, pcie_width),
	NUMBER(PCIE_GEN_MAX, LIMITS, pcie_generation_max, pcie_gen_max),
	NUMBER(PCIE_WIDTH_MAX, LIMITS, pcie_width_max, pcie_width_max),
};

static const struct clock {
	uint32_t known;
	enum health_part part;
	nvmlClockType_t type;
	size_t call; /* of struct nvml, a clock_fn */
	size_t to;
} clocks[] = {
#define CLOCK(bit, part, type, call, to)                                                           \
	{                                                                                          \
		HEALTH_##bit, HEALTH_PART_##part, NVML_CLOCK_##type, offsetof(struct nvml, call),  \
			offsetof(struct gpu_health, to)                                            \
	}
	CLOCK(CLOCK_SM, CLOCKS, SM, clock, clock_sm_mhz),
	CLOCK(CLOCK_MEM, CLOCKS, MEM, clock, clock_mem_mhz),
	CLOCK(CLOCK_SM_MAX, LIMITS, SM, clock_max, clock_sm_max_mhz),
	CLOCK(CLOCK_MEM_MAX, LIMITS, MEM, clock_max, clock_mem_max_mhz),
};

static void set_known(struct gpu_health *h, uint64_t what, bool known)
{
	h->known = known ? h->known | what : h->known & ~what;
}

static void read_numbers(const struct nvml *n, nvmlDevice_t d, enum health_part part,
			 struct gpu_health *h)
{
	unsigned int value = 0;

	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		const struct number *row = &numbers[i];
		number_fn call = *(const number_fn *)((const char *)n + row->call);
		bool told = row->part == part && call && call(d, &value) == NVML_SUCCESS;

		if (row->part == part)
			set_known(h, row->known, told);
		if (told)
			*(uint32_t *)((char *)h + row->to) = value;
	}
	for (size_t i = 0; i < ARRAY_LEN(clocks); i++) {
		const struct clock *row = &clocks[i];
		clock_fn call = *(const clock_fn *)((const char *)n + row->call);
		bool told = row->part == part && call && call(d, row->type, &value) == NVML_SUCCESS;

		if (row->part == part)
			set_known(h, row->known, told);
		if (told)
			*(uint32_t *)((char *)h + row->to) = value;
	}
	if (h->known & HEALTH_PSTATE && h->pstate >= NVML_PSTATE_UNKNOWN)
		set_known(h, HEALTH_PSTATE, false);
}

static void read_energy(const struct nvml *n, nvmlDevice_t d, struct gpu_health *h)
{
	unsigned long long mj = 0;

	set_known(h, HEALTH_ENERGY, n->energy && n->energy(d, &mj) == NVML_SUCCESS);
	h->energy_mj = mj;
}

static void read_throttle(const struct nvml *n, nvmlDevice_t d, struct gpu_health *h)
{
	unsigned long long bits = 0;

	set_known(h, HEALTH_THROTTLE, n->throttle && n->throttle(d, &bits) == NVML_SUCCESS);
	h->throttle = bits;
}

static void read_ecc(const struct nvml *n, nvmlDevice_t d, struct gpu_health *h)
{
	static const struct {
		nvmlMemoryErrorType_t type;
		nvmlEccCounterType_t since;
	} asked[HEALTH_ECC_MAX] = {
		[ECC_VOLATILE_CORRECTED] = { NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_VOLATILE_ECC },
		[ECC_VOLATILE_UNCORRECTED] = { NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
					       NVML_VOLATILE_ECC },
		[ECC_AGGREGATE_CORRECTED] = { NVML_MEMORY_ERROR_TYPE_CORRECTED,
					      NVML_AGGREGATE_ECC },
		[ECC_AGGREGATE_UNCORRECTED] = { NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
						NVML_AGGREGATE_ECC },
	};

	for (size_t i = 0; i < HEALTH_ECC_MAX; i++) {
		unsigned long long count = 0;

		set_known(h, (uint64_t)HEALTH_ECC << i,
			  n->ecc_errors && n->ecc_errors(d, asked[i].type, asked[i].since,
							 &count) == NVML_SUCCESS);
		h->ecc[i] = count;
	}
}

static bool read_remapped(const struct nvml *n, nvmlDevice_t d, struct gpu_health *h)
{
	unsigned int corrected = 0, uncorrected = 0, pending = 0, failed = 0;

	if (!n->remapped_rows ||
	    n->remapped_rows(d, &corrected, &uncorrected, &pending, &failed) != NVML_SUCCESS)
		return false;
	h->rows_corrected = corrected;
	h->rows_uncorrected = uncorrected;
	h->rows_pending = pending != 0;
	h->rows_failed = failed != 0;
	return true;
}

/* Which has no room for the addresses, as nobody wants them. */
static uint32_t count_pages(const struct nvml *n, nvmlDevice_t d, nvmlPageRetirementCause_t cause)
{
	unsigned int count = 0;
	nvmlReturn_t code = n->retired_pages ? n->retired_pages(d, cause, &count, NULL)
					     : NVML_ERROR_NOT_SUPPORTED;

	return code == NVML_SUCCESS || code == NVML_ERROR_INSUFFICIENT_SIZE ? count : 0;
}

static bool read_retired(const struct nvml *n, nvmlDevice_t d, struct gpu_health *h)
{
	nvmlEnableState_t pending = NVML_FEATURE_DISABLED;

	if (!n->retired_pending || n->retired_pending(d, &pending) != NVML_SUCCESS)
		return false;
	h->rows_corrected =
		count_pages(n, d, NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS);
	h->rows_uncorrected = count_pages(n, d, NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR);
	h->rows_pending = pending == NVML_FEATURE_ENABLED;
	h->rows_failed = 0;
	return true;
}

static void read_rows(const struct nvml *n, nvmlDevice_t d, struct gpu_health *h)
{
	set_known(h, HEALTH_ROWS, read_remapped(n, d, h) || read_retired(n, d, h));
}

/* A card without any is one of which that is known. */
static void read_links(const struct nvml *n, nvmlDevice_t d, struct gpu_health *h)
{
	nvmlReturn_t code = n->nvlink_state ? NVML_SUCCESS : NVML_ERROR_FUNCTION_NOT_FOUND;

	h->links = h->links_up = 0;
	for (unsigned int i = 0; n->nvlink_state && i < NVML_NVLINK_MAX_LINKS; i++) {
		nvmlEnableState_t up = NVML_FEATURE_DISABLED;

		code = n->nvlink_state(d, i, &up);
		if (code == NVML_SUCCESS) {
			h->links |= 1U << i;
			h->links_up |= up == NVML_FEATURE_ENABLED ? 1U << i : 0;
		} else if (code != NVML_ERROR_INVALID_ARGUMENT &&
			   (code != NVML_ERROR_NOT_SUPPORTED || i == 0)) {
			break; /* it tells nothing of any link */
		}
	}
	set_known(h, HEALTH_LINKS,
		  code == NVML_SUCCESS || code == NVML_ERROR_NOT_SUPPORTED ||
			  code == NVML_ERROR_INVALID_ARGUMENT);
}

static const struct {
	unsigned int field;
	nvmlNvLinkErrorCounter_t counter;
} link_errors[HEALTH_LINK_ERROR_MAX] = {
	[LINK_REPLAYS] = { NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL,
			   NVML_NVLINK_ERROR_DL_REPLAY },
	[LINK_RECOVERIES] = { NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL,
			      NVML_NVLINK_ERROR_DL_RECOVERY },
	[LINK_CRC_FLIT] = { NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL,
			    NVML_NVLINK_ERROR_DL_CRC_FLIT },
	[LINK_CRC_DATA] = { NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL,
			    NVML_NVLINK_ERROR_DL_CRC_DATA },
};

/* False: it has no whole number. */
static bool field_number(const nvmlFieldValue_t *f, uint64_t *ret)
{
	if (f->nvmlReturn != NVML_SUCCESS)
		return false;
	switch (f->valueType) {
	case NVML_VALUE_TYPE_UNSIGNED_INT:
		*ret = f->value.uiVal;
		return true;
	case NVML_VALUE_TYPE_UNSIGNED_LONG:
		*ret = f->value.ulVal;
		return true;
	case NVML_VALUE_TYPE_UNSIGNED_LONG_LONG:
		*ret = f->value.ullVal;
		return true;
	default:
		return false;
	}
}

static void read_state(const struct nvml *n, nvmlDevice_t d, struct gpu_health *h)
{
	nvmlFieldValue_t f = { .fieldId = NVML_FI_DEV_GET_GPU_RECOVERY_ACTION,
			       .nvmlReturn = NVML_ERROR_NOT_SUPPORTED };
	nvmlGpuFabricInfo_t fabric = { .state = NVML_GPU_FABRIC_STATE_NOT_SUPPORTED };
	uint64_t action = 0;

	set_known(h, HEALTH_RECOVERY,
		  n->field_values && n->field_values(d, 1, &f) == NVML_SUCCESS &&
			  field_number(&f, &action));
	h->recovery = (uint32_t)action;
	set_known(h, HEALTH_FABRIC,
		  n->fabric_info && n->fabric_info(d, &fabric) == NVML_SUCCESS &&
			  fabric.state != NVML_GPU_FABRIC_STATE_NOT_SUPPORTED);
	h->fabric_state = fabric.state;
	h->fabric_status = fabric.status;
}

/* Of the links that are up; one that does not tell leaves the sum unknown. */
static bool sum_of_links(const struct nvml *n, nvmlDevice_t d, const struct gpu_health *h,
			 nvmlNvLinkErrorCounter_t counter, uint64_t *ret)
{
	*ret = 0;
	for (unsigned int i = 0; i < NVML_NVLINK_MAX_LINKS; i++) {
		unsigned long long count = 0;

		if (!(h->links_up >> i & 1))
			continue;
		if (n->nvlink_errors(d, i, counter, &count) != NVML_SUCCESS)
			return false;
		*ret += count;
	}
	return true;
}

static void read_link_errors(const struct nvml *n, nvmlDevice_t d, struct gpu_health *h)
{
	nvmlFieldValue_t f[HEALTH_LINK_ERROR_MAX] = { { .fieldId = 0 } };
	bool any = h->known & HEALTH_LINKS && h->links, fields;

	for (size_t i = 0; i < HEALTH_LINK_ERROR_MAX; i++) {
		f[i].fieldId = link_errors[i].field;
		f[i].nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
	}
	fields = any && n->field_values &&
		 n->field_values(d, HEALTH_LINK_ERROR_MAX, f) == NVML_SUCCESS;
	for (size_t i = 0; i < HEALTH_LINK_ERROR_MAX; i++) {
		bool told = fields && field_number(&f[i], &h->link_errors[i]);

		if (!told && any && h->links_up && n->nvlink_errors)
			told = sum_of_links(n, d, h, link_errors[i].counter, &h->link_errors[i]);
		set_known(h, (uint64_t)HEALTH_LINK_ERRORS << i, told);
	}
}

void gpu_health_read(const struct nvml *n, const struct gpu_device *dev, enum health_part part,
		     struct gpu_health *h)
{
	static void (*const parts[HEALTH_PART_MAX])(const struct nvml *n, nvmlDevice_t d,
						    struct gpu_health *h) = {
		[HEALTH_PART_ENERGY] = read_energy,
		[HEALTH_PART_CLOCKS] = read_throttle,
		[HEALTH_PART_ECC] = read_ecc,
		[HEALTH_PART_ROWS] = read_rows,
		[HEALTH_PART_STATE] = read_state,
		[HEALTH_PART_LINKS] = read_links,
		[HEALTH_PART_LINK_ERRORS] = read_link_errors,
	};

	if (dev->mig >= 0 || dev->unseen)
		return;
	if (parts[part])
		parts[part](n, dev->handle, h);
	if (dev->mig_parent) /* whose links are not used in that mode */
		set_known(h, HEALTH_FABRIC, false);
	read_numbers(n, dev->handle, part, h);
	h->read_ns[part] = clock_mono_ns();
}

void gpu_health_read_all(const struct nvml *n, const struct gpu_device *dev, struct gpu_health *h)
{
	for (unsigned int part = 0; part < HEALTH_PART_MAX; part++)
		gpu_health_read(n, dev, part, h);
}

/* -------- what it means -------- */

static const struct {
	uint64_t bit;
	bool fault;
	const char *name;
} throttles[] = {
	{ nvmlClocksEventReasonGpuIdle, false, "idle" },
	{ nvmlClocksEventReasonApplicationsClocks, false, "applications-clocks" },
	{ nvmlClocksEventReasonSwPowerCap, false, "power-cap" },
	{ nvmlClocksThrottleReasonHwSlowdown, true, "hw-slowdown" },
	{ nvmlClocksEventReasonSyncBoost, false, "sync-boost" },
	{ nvmlClocksEventReasonSwThermalSlowdown, true, "thermal" },
	{ nvmlClocksThrottleReasonHwThermalSlowdown, true, "hw-thermal" },
	{ nvmlClocksThrottleReasonHwPowerBrakeSlowdown, true, "power-brake" },
	{ nvmlClocksEventReasonDisplayClockSetting, false, "display-clocks" },
};

const char *health_throttle(uint64_t bits, unsigned int i, bool *ret_fault)
{
	for (size_t k = 0; k < ARRAY_LEN(throttles); k++) {
		if (!(bits & throttles[k].bit) || i-- > 0)
			continue;
		if (ret_fault)
			*ret_fault = throttles[k].fault;
		return throttles[k].name;
	}
	return NULL;
}
