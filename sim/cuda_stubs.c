/* SPDX-License-Identifier: MIT */

/*
 * What CUDA's driver API documents and nobody simulates: it is there, so that a program that is
 * linked against it starts, says NOT_SUPPORTED and writes nothing. The stubs are weak: a definition
 * elsewhere in this library goes before them. No declaration of the real functions may be seen
 * here. Beside them the list of all symbols with their versions, which cuGetProcAddress() asks.
 */
#include "cuda_names.h"
#include "cuda_sim.h"

#include <string.h>

#define STUB(name, version)                                                                        \
	CU_EXPORT __attribute__((weak)) CUresult name(void);                                       \
	CU_EXPORT __attribute__((weak)) CUresult name(void)                                        \
	{                                                                                          \
		CU_ENTER(NEEDS_NOTHING);                                                           \
		return CUDA_ERROR_NOT_SUPPORTED;                                                   \
	}
CUDA_NAMES(STUB)

static const struct {
	const char *name;
	int version;
	CUresult (*function)(void);
} symbols[] = {
#define SYMBOL_ROW(name, version) { #name, version, name },
	CUDA_NAMES(SYMBOL_ROW)
};

/* The symbol is that function in some shape: the name alone, or with _v2 and so on behind it. */
static bool is_shape_of(const char *symbol, const char *function)
{
	size_t len = strlen(function);
	const char *rest = symbol + len;

	if (strncmp(symbol, function, len) != 0)
		return false;
	return *rest == '\0' || (rest[0] == '_' && rest[1] == 'v' && rest[2] && !rest[3]);
}

/* "cuMemAlloc_v2" names a shape, and no function. */
static bool names_a_shape(const char *function)
{
	size_t len = strlen(function);

	return len > 3 && function[len - 3] == '_' && function[len - 2] == 'v';
}

enum cu_symbol_result cu_symbol_find(const char *function, int version, void **ret)
{
	enum cu_symbol_result result = CU_SYMBOL_UNKNOWN;
	int best = -1;

	*ret = NULL;
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		if (!is_shape_of(symbols[i].name, function) || names_a_shape(function))
			continue;
		if (result == CU_SYMBOL_UNKNOWN)
			result = CU_SYMBOL_TOO_NEW;
		if (symbols[i].version > version || symbols[i].version <= best)
			continue;
		best = symbols[i].version;
		memcpy(ret, &symbols[i].function, sizeof(*ret));
		result = CU_SYMBOL_FOUND;
	}
	return result;
}
