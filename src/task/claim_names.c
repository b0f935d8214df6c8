/* SPDX-License-Identifier: MIT */
#include "task/claim_names.h"

#include "base/hash.h"
#include "base/str.h"

char *names_token(const char *key, const struct task_name *n, char *buf)
{
	char element[24] = "";
	uint32_t sum = hash_fnv32(HASH_FNV32, key); /* long names are cut, and stay apart */

	if (n->element)
		(void)str_print(element, sizeof(element), ".%llu", (unsigned long long)n->element);
	(void)str_print(buf, TASK_TOKEN_MAX, "%.32s-%08x-%llu%s-e%llu", key, sum,
			(unsigned long long)n->id, element, (unsigned long long)n->epoch);
	for (char *p = buf; *p; p++)
		if (*p == '+')
			*p = '_';
	return buf;
}

char *names_log_path(const struct task_name *n, const char *name, unsigned int attempt, char *buf)
{
	char element[24] = "";

	if (n->element)
		(void)str_print(element, sizeof(element), ".%llu", (unsigned long long)n->element);
	return str_print(buf, SPOOL_PATH_MAX, "logs/%llu%s-%s.%u.log", (unsigned long long)n->id,
			 element, name, attempt);
}
