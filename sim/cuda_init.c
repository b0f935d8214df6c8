/* SPDX-License-Identifier: MIT */

/* cuInit, the entry check of every function, errors, and cuGetProcAddress. */
#include "cuda_sim.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct cu_process cu = { .lock = PTHREAD_MUTEX_INITIALIZER };

CUresult cu_enter(const char *function, enum cu_needs needs)
{
	int err;

	if (cu.m) {
		err = sim_fault(cu.m, function);
		if (err)
			return (CUresult)err;
	}
	if (needs == NEEDS_NOTHING)
		return CUDA_SUCCESS;
	if (cu.pid == 0 || cu.pid != getpid()) /* nor does CUDA survive a fork */
		return CUDA_ERROR_NOT_INITIALIZED;
	if (needs == NEEDS_CONTEXT && !cu_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	if (needs == NEEDS_CONTEXT && cu_current()->dead)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	return CUDA_SUCCESS;
}

static void open_step(int done, int total, int opens, const char *node)
{
	int n = opens * (done + 1) / total - opens * done / total;

	sim_open_nodes(cu.m, node, n);
}

void cu_start_phase(uint64_t ns, int ctl_opens, int node_opens, int dev)
{
	const int steps = 20;
	uint64_t slice = sim_cost_ns(cu.m, SIM_T_START_SLICE), step = ns / steps;
	uint64_t alone = step * cu.m->timing[SIM_T_START_ALONE] / 100;
	char node[32];

	sim_starting(cu.m, ns);
	for (int i = 0; i < steps; i++) {
		uint64_t held = i == steps / 2 ? 8 * slice : slice;

		open_step(i, steps, ctl_opens, "nvidiactl");
		for (int k = 0; k < cu.m->ncards; k++) {
			if (dev >= 0 && !sim_is_card_of(cu.m, k, dev))
				continue;
			(void)snprintf(node, sizeof(node), "nvidia%d", cu.m->devs[k].minor);
			open_step(i, steps, node_opens, node);
		}
		held = held < step ? held : step;
		sim_driver_call(cu.m, held);
		alone = alone < step - held ? alone : step - held;
		sim_start_alone(cu.m, alone);
		sim_sleep_ns(step - held - alone);
	}
}

/* A card on which nobody has a context has to be woken first. */
static enum sim_timing_id init_cost(struct sim_machine *m)
{
	if (!sim_host_has_context(m))
		return SIM_T_INIT_COLD;
	for (int i = 0; i < cu.nvisible; i++)
		if (!sim_has_context(m, cu.visible[i]))
			return SIM_T_INIT_CARD_COLD;
	return SIM_T_INIT_WARM;
}

CU_EXPORT CUresult cuInit(unsigned int flags)
{
	struct sim_machine *m = sim_machine_get();
	enum sim_timing_id cost;

	cu.m = m;
	CU_ENTER(NEEDS_NOTHING);
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (!m)
		return CUDA_ERROR_NO_DEVICE;
	if (cu.pid == getpid())
		return CUDA_SUCCESS;
	if (cu.pid)
		return CUDA_ERROR_NOT_INITIALIZED;
	cu_visible_devices();
	if (sim_lock(m) < 0)
		return CUDA_ERROR_UNKNOWN;
	sim_reap(m, false);
	cost = init_cost(m);
	sim_unlock(m);
	cu_start_phase(sim_cost_ns(m, cost), (int)m->timing[SIM_T_INIT_OPENS_CTL],
		       (int)m->timing[SIM_T_INIT_OPENS_NODE], -1);
	if (cu.nvisible == 0)
		return CUDA_ERROR_NO_DEVICE;
	cu.pid = getpid();
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuDriverGetVersion(int *version)
{
	struct sim_machine *m = sim_machine_get();

	CU_ENTER(NEEDS_NOTHING);
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = m ? m->cuda_version : 13000;
	return CUDA_SUCCESS;
}

static const struct {
	CUresult value;
	const char *name, *text;
} results[] = {
#define RESULT_ROW(name, value, text) { name, #name, text },
	CUDA_RESULT_LIST(RESULT_ROW)
};

CU_EXPORT CUresult cuGetErrorName(CUresult error, const char **name)
{
	for (size_t i = 0; name && i < sizeof(results) / sizeof(results[0]); i++) {
		if (results[i].value == error) {
			*name = results[i].name;
			return CUDA_SUCCESS;
		}
	}
	if (name)
		*name = NULL;
	return CUDA_ERROR_INVALID_VALUE;
}

CU_EXPORT CUresult cuGetErrorString(CUresult error, const char **text)
{
	for (size_t i = 0; text && i < sizeof(results) / sizeof(results[0]); i++) {
		if (results[i].value == error) {
			*text = results[i].text;
			return CUDA_SUCCESS;
		}
	}
	if (text)
		*text = NULL;
	return CUDA_ERROR_INVALID_VALUE;
}

/* -1 stands for the newest; no program may ask for more than this driver is. */
static bool version_fits(int *version)
{
	int newest = cu.m ? cu.m->cuda_version : 13000;

	if (*version < 0)
		*version = newest;
	return *version <= newest;
}

/*
 * As the driver does it (580): what is not found is no error here, only a null pointer and a
 * status. Of the two kinds of default stream there is one.
 */
CU_EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version,
				       uint64_t flags, CUdriverProcAddressQueryResult *status)
{
	static const CUdriverProcAddressQueryResult said[] = {
		[CU_SYMBOL_FOUND] = CU_GET_PROC_ADDRESS_SUCCESS,
		[CU_SYMBOL_UNKNOWN] = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND,
		[CU_SYMBOL_TOO_NEW] = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT,
	};
	enum cu_symbol_result result;

	CU_ENTER(NEEDS_NOTHING);
	if (!symbol || !function || flags > CU_GET_PROC_ADDRESS_FLAGS || !version_fits(&version))
		return CUDA_ERROR_INVALID_VALUE;
	result = cu_symbol_find(symbol, version, function);
	if (status)
		*status = said[result];
	return CUDA_SUCCESS;
}

/* The shape of CUDA 11.3: without a status, what is not found is an error, nothing is written. */
CU_EXPORT CUresult cuGetProcAddress(const char *symbol, void **function, int version,
				    uint64_t flags);

CU_EXPORT CUresult cuGetProcAddress(const char *symbol, void **function, int version,
				    uint64_t flags)
{
	CUdriverProcAddressQueryResult status;
	void *found;
	CUresult res =
		cuGetProcAddress_v2(symbol, function ? &found : NULL, version, flags, &status);

	if (res == CUDA_SUCCESS && status != CU_GET_PROC_ADDRESS_SUCCESS)
		res = CUDA_ERROR_NOT_FOUND;
	if (res == CUDA_SUCCESS)
		*function = found;
	return res;
}
