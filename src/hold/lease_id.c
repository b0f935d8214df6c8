/* SPDX-License-Identifier: MIT */
#include "hold/lease_id.h"

#include <stddef.h>

#include "base/str.h"

char *lease_id_text(const struct lease_id *id, char buf[LEASE_TEXT_MAX])
{
	char element[16] = "", attempt[24] = "";

	if (id->task == LEASE_WORKLOAD)
		return str_print(buf, LEASE_TEXT_MAX, "the workload");
	if (id->element)
		(void)str_print(element, sizeof(element), ".%u", id->element);
	if (id->attempt > 1)
		(void)str_print(attempt, sizeof(attempt), " (attempt %u)", id->attempt);
	return str_print(buf, LEASE_TEXT_MAX, "task %llu%s%s", (unsigned long long)id->task,
			 element, attempt);
}
