/* SPDX-License-Identifier: MIT */

/* cuInit, the entry check of every function, errors, and cuGetProcAddress. */
#include "cuda_sim.h"

#include <dlfcn.h>
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
		sim_sleep_ns(step - held);
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
	if (sim_lock(&m->data) < 0)
		return CUDA_ERROR_UNKNOWN;
	sim_reap(m, false);
	cost = init_cost(m);
	sim_unlock(&m->data);
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

/* This very library, also where the program loaded it with RTLD_LOCAL. */
static void *own_handle(void)
{
	Dl_info info;

	if (!dladdr((const void *)results, &info))
		return NULL;
	return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
}

CU_EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version,
				       uint64_t flags, CUdriverProcAddressQueryResult *status)
{
	static const char *const suffixes[] = { "_v2", "" };
	void *self = own_handle(), *found = NULL;
	char name[160];

	CU_ENTER(NEEDS_NOTHING);
	if (!symbol || !function || !self)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; !found && i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		(void)snprintf(name, sizeof(name), "%s%s", symbol, suffixes[i]);
		found = dlsym(self, name);
	}
	(void)dlclose(self);
	*function = found;
	if (status)
		*status =
			found ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return found || status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CU_EXPORT CUresult cuGetProcAddress(const char *symbol, void **function, int version,
				    uint64_t flags);

CU_EXPORT CUresult cuGetProcAddress(const char *symbol, void **function, int version,
				    uint64_t flags)
{
	return cuGetProcAddress_v2(symbol, function, version, flags, NULL);
}
