/* SPDX-License-Identifier: MIT */

/*
 * Modules: the PTX text is read for what a launch needs, the names and parameters of its entries,
 * and for what a real load would refuse. Binary images (cubin, fat binary) are not simulated.
 */
#include "cuda_sim.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PTX_NEWEST 90 /* ISA 9.0 comes with CUDA 13.0 */

struct CUfunc_st *cu_function_find(CUfunction function)
{
	for (struct CUmod_st *m = cu.modules; m; m = m->next) {
		for (struct CUfunc_st *f = m->functions; f; f = f->next) {
			if (f == function)
				return f;
		}
	}
	return NULL;
}

static void module_free(struct CUmod_st *module)
{
	while (module->functions) {
		struct CUfunc_st *f = module->functions;

		module->functions = f->next;
		free(f);
	}
	free(module);
}

void cu_modules_drop(struct CUctx_st *ctx)
{
	struct CUmod_st **at = &cu.modules;

	while (*at) {
		struct CUmod_st *module = *at;

		if (module->ctx == ctx) {
			*at = module->next;
			module_free(module);
		} else {
			at = &module->next;
		}
	}
}

/* A copy of the text with comments blanked. NULL: out of memory. */
static char *without_comments(const char *text)
{
	char *copy = strdup(text);

	for (char *p = copy; p && *p; p++) {
		char *end;

		if (p[0] == '/' && p[1] == '/')
			end = strchr(p, '\n');
		else if (p[0] == '/' && p[1] == '*')
			end = strstr(p + 2, "*/");
		else
			continue;
		end = end ? end : p + strlen(p);
		memset(p, ' ', (size_t)(end - p));
		if (end[0] == '*')
			end[0] = end[1] = ' ';
		p = *end ? end : end - 1;
	}
	return copy;
}

static const char *skip_space(const char *p)
{
	while (isspace((unsigned char)*p))
		p++;
	return p;
}

/* ".param .u64 .ptr .global .align 4 name[8]": the size of the first type in it. */
static size_t param_bytes(const char *p, const char *end)
{
	for (; p < end; p++) {
		if (p[0] == '.' && strchr("usbf", p[1]) && isdigit((unsigned char)p[2]))
			return (size_t)strtoul(p + 2, NULL, 10) / 8;
	}
	return 0;
}

static const char *read_params(const char *p, struct CUfunc_st *f)
{
	const char *close = strchr(p, ')');

	while (close && p < close) {
		const char *param = strstr(p, ".param"), *end;

		if (!param || param > close)
			break;
		end = strchr(param, ',');
		end = end && end < close ? end : close;
		f->nparams++;
		f->params_bytes += param_bytes(param + 6, end);
		p = end;
	}
	return close;
}

/* ".entry NAME (params) {" at p, after the directive. NULL: no such thing there. */
static const char *read_entry(const char *p, struct CUmod_st *module)
{
	struct CUfunc_st *f = calloc(1, sizeof(*f));
	size_t len = 0;

	if (!f)
		return NULL;
	p = skip_space(p);
	while (isalnum((unsigned char)p[len]) || p[len] == '_' || p[len] == '$' || p[len] == '%')
		len++;
	if (len == 0 || len >= sizeof(f->name)) {
		free(f);
		return NULL;
	}
	memcpy(f->name, p, len);
	f->shared_most = CU_SHARED_UNASKED;
	f->module = module;
	f->next = module->functions;
	module->functions = f;
	p = skip_space(p + len);
	return *p == '(' ? read_params(p, f) : p;
}

static bool balanced(const char *text)
{
	int depth = 0;

	for (; *text; text++) {
		depth += *text == '{';
		depth -= *text == '}';
		if (depth < 0)
			return false;
	}
	return depth == 0;
}

static CUresult read_ptx(const char *text, const struct sim_dev *dev, struct CUmod_st *module)
{
	const int has = dev->cc_major * 10 + dev->cc_minor;
	const char *p = skip_space(text), *target;
	int major, minor, sm;
	char only = 0; /* "sm_90a" is for 9.0 alone */

	if (sscanf(p, ".version %d.%d", &major, &minor) != 2)
		return CUDA_ERROR_INVALID_IMAGE;
	if (major * 10 + minor > PTX_NEWEST)
		return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
	target = strstr(p, ".target");
	if (!target || sscanf(target, ".target sm_%d%c", &sm, &only) < 1 || !balanced(p))
		return CUDA_ERROR_INVALID_PTX;
	if (only == 'a' ? sm != has : sm > has)
		return CUDA_ERROR_INVALID_PTX;
	for (p = strstr(p, ".entry"); p; p = strstr(p, ".entry")) {
		p = read_entry(p + 6, module);
		if (!p)
			return CUDA_ERROR_INVALID_PTX;
	}
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuModuleLoadData(CUmodule *ret, const void *image)
{
	struct CUctx_st *ctx = cu_current();
	const unsigned char *magic = image;
	struct CUmod_st *module;
	CUresult res;
	char *text;

	CU_ENTER(NEEDS_CONTEXT);
	if (!ret || !image)
		return CUDA_ERROR_INVALID_VALUE;
	if (memcmp(magic, "\177ELF", 4) == 0 || memcmp(magic, "\x50\xed\x55\xba", 4) == 0)
		return CUDA_ERROR_NOT_SUPPORTED;
	module = calloc(1, sizeof(*module));
	text = without_comments(image);
	res = module && text ? read_ptx(text, &cu.m->devs[ctx->dev], module)
			     : CUDA_ERROR_OUT_OF_MEMORY;
	free(text);
	if (res != CUDA_SUCCESS) {
		if (module)
			module_free(module);
		return res;
	}
	sim_driver_call(cu.m, sim_cost_ns(cu.m, SIM_T_MODULE_LOAD));
	module->ctx = ctx;
	(void)pthread_mutex_lock(&cu.lock);
	module->next = cu.modules;
	cu.modules = module;
	(void)pthread_mutex_unlock(&cu.lock);
	*ret = module;
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuModuleLoadDataEx(CUmodule *ret, const void *image, unsigned int n,
				      int *options, void **values)
{
	CU_ENTER(NEEDS_CONTEXT);
	return cuModuleLoadData(ret, image);
}

CU_EXPORT CUresult cuModuleUnload(CUmodule module)
{
	CUresult res = CUDA_ERROR_INVALID_HANDLE;

	CU_ENTER(NEEDS_CONTEXT);
	cu_context_wait(cu_current());
	(void)pthread_mutex_lock(&cu.lock);
	for (struct CUmod_st **at = &cu.modules; *at; at = &(*at)->next) {
		if (*at == module) {
			*at = module->next;
			module_free(module);
			res = CUDA_SUCCESS;
			break;
		}
	}
	(void)pthread_mutex_unlock(&cu.lock);
	return res;
}

CU_EXPORT CUresult cuModuleGetFunction(CUfunction *ret, CUmodule module, const char *name)
{
	struct CUfunc_st *f = NULL;
	struct CUmod_st *m;

	CU_ENTER(NEEDS_CONTEXT);
	if (!ret || !name)
		return CUDA_ERROR_INVALID_VALUE;
	(void)pthread_mutex_lock(&cu.lock);
	for (m = cu.modules; m && m != module; m = m->next)
		;
	for (f = m ? m->functions : NULL; f && strcmp(f->name, name) != 0; f = f->next)
		;
	(void)pthread_mutex_unlock(&cu.lock);
	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!f)
		return CUDA_ERROR_NOT_FOUND;
	*ret = f;
	return CUDA_SUCCESS;
}

static bool function_known(CUfunction function)
{
	bool known;

	(void)pthread_mutex_lock(&cu.lock);
	known = cu_function_find(function) != NULL;
	(void)pthread_mutex_unlock(&cu.lock);
	return known;
}

CU_EXPORT CUresult cuFuncGetAttribute(int *value, CUfunction_attribute id, CUfunction function)
{
	CU_ENTER(NEEDS_CONTEXT);
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	if (!function_known(function))
		return CUDA_ERROR_INVALID_HANDLE;
	switch ((unsigned int)id) {
	case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		*value = 1024;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
	case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
	case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
		*value = 0;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		*value = function->shared_most;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

CU_EXPORT CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute id, int value)
{
	const struct CUctx_st *ctx = cu_current();

	CU_ENTER(NEEDS_CONTEXT);
	if (!function_known(function))
		return CUDA_ERROR_INVALID_HANDLE;
	if (id != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
		return CUDA_SUCCESS;
	if (value < 0 || value > cu_shared_most(&cu.m->devs[ctx->dev]))
		return CUDA_ERROR_INVALID_VALUE;
	function->shared_most = value;
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function,
							       int threads, size_t shared)
{
	CU_ENTER(NEEDS_CONTEXT);
	if (!blocks || threads <= 0 || threads > 1024)
		return CUDA_ERROR_INVALID_VALUE;
	if (!function_known(function))
		return CUDA_ERROR_INVALID_HANDLE;
	*blocks = 2048 / ((threads + 31) / 32 * 32);
	return CUDA_SUCCESS;
}

/* Modules are read when they are loaded; programs expect to hear CUDA's default since 12.2. */
CU_EXPORT CUresult cuModuleGetLoadingMode(int *mode)
{
	CU_ENTER(NEEDS_INIT);
	if (!mode)
		return CUDA_ERROR_INVALID_VALUE;
	*mode = CU_MODULE_LAZY_LOADING;
	return CUDA_SUCCESS;
}
