/* SPDX-License-Identifier: MIT */
#include "agent/node/device_health.h"

#include <stdbool.h>

#include "base/clock.h"
#include "base/mem.h"
#include "gpu/card_sign.h"
#include "gpu/nvml_abi.h"

static void set(json_t *o, const char *key, json_t *value)
{
	(void)json_object_set_new(o, key, value);
}

static json_t *known(const struct gpu_health *h, uint64_t what, json_t *value)
{
	if (h->known & what)
		return value;
	json_decref(value);
	return json_null();
}

static json_t *count(uint64_t n)
{
	return json_integer((json_int_t)n);
}

static void set_count(json_t *o, const char *key, const struct gpu_health *h, uint64_t what,
		      uint64_t n)
{
	set(o, key, known(h, what, count(n)));
}

static json_t *throttle_json(const struct gpu_health *h)
{
	json_t *a = json_array();
	const char *name;

	for (unsigned int i = 0; (name = health_throttle(h->throttle, i, NULL)); i++)
		(void)json_array_append_new(a, json_string(name));
	return known(h, HEALTH_THROTTLE, a);
}

static json_t *faults_json(const struct gpu_health *h)
{
	struct card_signs signs;
	json_t *a = json_array();

	card_signs(NULL, h, CARD_ALL, &signs);
	for (uint32_t i = 0; i < signs.n; i++)
		(void)json_array_append_new(a, json_string(card_sign_word(signs.s[i].code)));
	return a;
}

static json_t *ecc_json(const struct gpu_health *h)
{
	static const char *const names[HEALTH_ECC_MAX] = {
		[ECC_VOLATILE_CORRECTED] = "volatile_corrected",
		[ECC_VOLATILE_UNCORRECTED] = "volatile_uncorrected",
		[ECC_AGGREGATE_CORRECTED] = "aggregate_corrected",
		[ECC_AGGREGATE_UNCORRECTED] = "aggregate_uncorrected",
	};
	json_t *o = json_object();

	for (size_t i = 0; i < HEALTH_ECC_MAX; i++)
		set_count(o, names[i], h, (uint64_t)HEALTH_ECC << i, h->ecc[i]);
	return o;
}

static json_t *rows_json(const struct gpu_health *h)
{
	return known(h, HEALTH_ROWS,
		     json_pack("{s:I, s:I, s:b, s:b}", "corrected", (json_int_t)h->rows_corrected,
			       "uncorrected", (json_int_t)h->rows_uncorrected, "pending",
			       h->rows_pending, "failed", h->rows_failed));
}

static json_t *recovery_json(const struct gpu_health *h)
{
	static const char *const words[] = {
		[NVML_GPU_RECOVERY_ACTION_NONE] = "none",
		[NVML_GPU_RECOVERY_ACTION_GPU_RESET] = "reset",
		[NVML_GPU_RECOVERY_ACTION_NODE_REBOOT] = "reboot",
		[NVML_GPU_RECOVERY_ACTION_DRAIN_P2P] = "drain-p2p",
		[NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET] = "drain-and-reset",
		[NVML_GPU_RECOVERY_ACTION_RECOVER_IMEX] = "recover-imex",
		[NVML_GPU_RECOVERY_ACTION_BUS_RESET] = "bus-reset",
		[NVML_GPU_RECOVERY_ACTION_SYSTEM_REBOOT] = "reboot",
	};

	return known(h, HEALTH_RECOVERY,
		     json_string(h->recovery < ARRAY_LEN(words) ? words[h->recovery] : "unknown"));
}

static json_t *fabric_json(const struct gpu_health *h)
{
	const char *word = h->fabric_state == NVML_GPU_FABRIC_STATE_NOT_STARTED	  ? "not-started"
			   : h->fabric_state == NVML_GPU_FABRIC_STATE_IN_PROGRESS ? "in-progress"
			   : h->fabric_status == NVML_SUCCESS			  ? "completed"
										  : "failed";

	return known(h, HEALTH_FABRIC, json_string(word));
}

static json_t *pcie_json(const struct gpu_health *h)
{
	json_t *o = json_object();

	set_count(o, "generation", h, HEALTH_PCIE_GEN, h->pcie_gen);
	set_count(o, "generation_max", h, HEALTH_PCIE_GEN_MAX, h->pcie_gen_max);
	set_count(o, "width", h, HEALTH_PCIE_WIDTH, h->pcie_width);
	set_count(o, "width_max", h, HEALTH_PCIE_WIDTH_MAX, h->pcie_width_max);
	set_count(o, "replays", h, HEALTH_PCIE_REPLAYS, h->pcie_replays);
	return o;
}

static json_t *links_json(const struct gpu_health *h)
{
	static const char *const names[HEALTH_LINK_ERROR_MAX] = {
		[LINK_REPLAYS] = "replays",
		[LINK_RECOVERIES] = "recoveries",
		[LINK_CRC_FLIT] = "crc_flit",
		[LINK_CRC_DATA] = "crc_data",
	};
	json_t *o = json_object(), *down = json_array();

	for (unsigned int i = 0; i < 32; i++)
		if (h->links >> i & 1 && !(h->links_up >> i & 1))
			(void)json_array_append_new(down, count(i));
	set(o, "links", count((uint64_t)__builtin_popcount(h->links)));
	set(o, "up", count((uint64_t)__builtin_popcount(h->links_up)));
	set(o, "down", down);
	for (size_t i = 0; i < HEALTH_LINK_ERROR_MAX; i++)
		set_count(o, names[i], h, (uint64_t)HEALTH_LINK_ERRORS << i, h->link_errors[i]);
	return known(h, HEALTH_LINKS, o);
}

/* Of the part that was read first of these; null where one was not read at all. */
static json_t *age_json(const struct gpu_health *h, enum health_part from, enum health_part to,
			uint64_t now_ns)
{
	uint64_t oldest = UINT64_MAX;

	for (unsigned int i = from; i <= to; i++)
		if (h->read_ns[i] < oldest)
			oldest = h->read_ns[i];
	if (!oldest)
		return json_null();
	return json_real(now_ns > oldest ? (double)((now_ns - oldest) / NS_PER_MS) / 1e3 : 0.0);
}

json_t *health_json(const struct gpu_health *h, uint64_t now_ns)
{
	bool any = false;
	json_t *o;

	for (size_t i = 0; i < HEALTH_PART_MAX; i++)
		any = any || h->read_ns[i];
	if (!any)
		return json_null();
	o = json_object();
	set(o, "faults", faults_json(h));
	set(o, "energy_j", known(h, HEALTH_ENERGY, json_real((double)h->energy_mj / 1e3)));
	set_count(o, "clock_sm_mhz", h, HEALTH_CLOCK_SM, h->clock_sm_mhz);
	set_count(o, "clock_sm_max_mhz", h, HEALTH_CLOCK_SM_MAX, h->clock_sm_max_mhz);
	set_count(o, "clock_memory_mhz", h, HEALTH_CLOCK_MEM, h->clock_mem_mhz);
	set_count(o, "clock_memory_max_mhz", h, HEALTH_CLOCK_MEM_MAX, h->clock_mem_max_mhz);
	set_count(o, "performance_state", h, HEALTH_PSTATE, h->pstate);
	set(o, "throttle", throttle_json(h));
	set(o, "ecc", ecc_json(h));
	set(o, "rows", rows_json(h));
	set(o, "recovery_action", recovery_json(h));
	set(o, "fabric", fabric_json(h));
	set(o, "pcie", pcie_json(h));
	set(o, "nvlink", links_json(h));
	set(o, "age_s", age_json(h, HEALTH_PART_ENERGY, HEALTH_PART_CLOCKS, now_ns));
	set(o, "counters_age_s", age_json(h, HEALTH_PART_ECC, HEALTH_PART_LINK_ERRORS, now_ns));
	return o;
}
