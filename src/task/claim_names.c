/* SPDX-License-Identifier: MIT */
#include "task/claim_names.h"

#include <string.h>

#include "base/hash.h"
#include "base/str.h"

char *names_tokens_of(const char *key, char *buf)
{
	uint32_t sum = hash_fnv32(HASH_FNV32, key); /* long names are cut, and stay apart */

	(void)str_print(buf, TASK_TOKEN_MAX, "%.32s-%08x-", key, sum);
	for (char *p = buf; *p; p++)
		if (*p == '+')
			*p = '_';
	return buf;
}

char *names_token(const char *key, const struct task_name *n, char *buf)
{
	char element[24] = "";
	size_t len = strlen(names_tokens_of(key, buf));

	if (n->element)
		(void)str_print(element, sizeof(element), ".%llu", (unsigned long long)n->element);
	(void)str_print(buf + len, TASK_TOKEN_MAX - len, "%llu%s-e%llu", (unsigned long long)n->id,
			element, (unsigned long long)n->epoch);
	return buf;
}

size_t names_spool_of_token(const char *token)
{
	const char *epoch = strrchr(token, '-'), *id = epoch;

	if (!epoch || epoch[1] != 'e')
		return 0;
	while (id > token && id[-1] != '-')
		id--;
	return (size_t)(id - token);
}

char *names_log_path(const struct task_name *n, const char *name, unsigned int attempt, char *buf)
{
	char element[24] = "";

	if (n->element)
		(void)str_print(element, sizeof(element), ".%llu", (unsigned long long)n->element);
	return str_print(buf, SPOOL_PATH_MAX, "logs/%llu%s-%s.%u.log", (unsigned long long)n->id,
			 element, name, attempt);
}
