/* SPDX-License-Identifier: MIT */
#include "gpu/errors.h"

#include <stddef.h>

static bool can(const struct nvml *n)
{
	return n->event_set_create && n->event_set_free && n->register_events && n->event_wait;
}

void gpu_errors_open(const struct nvml *n, const struct gpu_list *list, struct gpu_errors *ret)
{
	*ret = (struct gpu_errors){ .n = 0 };
	if (!can(n) || n->event_set_create(&ret->set) != NVML_SUCCESS) {
		ret->set = NULL;
		return;
	}
	/* MIG instances have no events of their own; their card tells. */
	for (uint32_t i = 0; i < list->n; i++)
		ret->n += list->d[i].mig < 0 &&
			  n->register_events(list->d[i].handle, nvmlEventTypeXidCriticalError,
					     ret->set) == NVML_SUCCESS;
	if (ret->n == 0)
		gpu_errors_close(n, ret);
}

void gpu_errors_close(const struct nvml *n, struct gpu_errors *errors)
{
	if (errors->set)
		(void)n->event_set_free(errors->set);
	*errors = (struct gpu_errors){ .n = 0 };
}

bool gpu_errors_next(const struct nvml *n, const struct gpu_errors *errors, nvmlDevice_t *ret,
		     uint32_t *ret_xid)
{
	nvmlEventData_t data;

	if (!errors->set || n->event_wait(errors->set, &data, 0) != NVML_SUCCESS)
		return false;
	*ret = data.device;
	*ret_xid = (uint32_t)data.eventData;
	return true;
}
