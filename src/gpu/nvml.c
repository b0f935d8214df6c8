/* SPDX-License-Identifier: MIT */
#include "gpu/nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>

#include "base/mem.h"

#define NAMES_MAX 3

struct symbol {
	bool required;
	size_t offset;
	const char *names[NAMES_MAX + 1];
};

#define SYMBOL_ROW_(required_, field, result, arguments, ...)                                      \
	{ .required = (required_),                                                                 \
	  .offset = offsetof(struct nvml, field),                                                  \
	  .names = { __VA_ARGS__, NULL } },

static const struct symbol symbols[] = { NVML_SYMBOLS(SYMBOL_ROW_) };

/* Places that are not on the loader's path on some systems: containers, WSL, NixOS. */
static const char *const library_names[] = {
	NVML_SONAME,
	"/usr/local/nvidia/lib64/" NVML_SONAME,
	"/usr/lib/wsl/lib/" NVML_SONAME,
	"/run/opengl-driver/lib/" NVML_SONAME,
};

static int resolve(struct nvml *n, const struct symbol *s, struct err *e)
{
	for (const char *const *name = s->names; *name; name++) {
		void *p = dlsym(n->library, *name);

		if (!p)
			continue;
		*(void **)((char *)n + s->offset) = p;
		if (s->offset == offsetof(struct nvml, compute_procs))
			n->procs_symbol = *name;
		return 0;
	}
	if (s->required)
		return err_set(e, -ENOSYS, "%s has no %s: a driver newer than 450 is needed",
			       NVML_SONAME, s->names[0]);
	return 0;
}

int nvml_load(struct nvml *n, struct err *e)
{
	*n = (struct nvml){ 0 };
	for (size_t i = 0; i < ARRAY_LEN(library_names) && !n->library; i++)
		n->library = dlopen(library_names[i], RTLD_NOW | RTLD_LOCAL);
	if (!n->library)
		return err_set(e, -ENOENT, "no NVIDIA driver found: %s is not on the library path",
			       NVML_SONAME);
	for (size_t i = 0; i < ARRAY_LEN(symbols); i++) {
		int r = resolve(n, &symbols[i], e);

		if (r < 0) {
			nvml_unload(n);
			return r;
		}
	}
	return 0;
}

void nvml_unload(struct nvml *n)
{
	nvml_stop(n);
	if (n->library)
		(void)dlclose(n->library);
	*n = (struct nvml){ 0 };
}

const char *nvml_text(const struct nvml *n, nvmlReturn_t code)
{
	static _Thread_local char number[32];
	const char *text = n->error_string ? n->error_string(code) : NULL;

	if (text && text[0])
		return text;
	(void)snprintf(number, sizeof(number), "NVML error %d", (int)code);
	return number;
}

static const struct {
	nvmlReturn_t code;
	int result;
} results[] = {
	{ NVML_ERROR_GPU_IS_LOST, -ENODEV },	    { NVML_ERROR_GPU_NOT_FOUND, -ENODEV },
	{ NVML_ERROR_RESET_REQUIRED, -ENODEV }, /* it is as good as gone until then */
	{ NVML_ERROR_NO_PERMISSION, -EACCES },	    { NVML_ERROR_NOT_SUPPORTED, -ENOSYS },
	{ NVML_ERROR_FUNCTION_NOT_FOUND, -ENOSYS },
};

int nvml_result(const struct nvml *n, nvmlReturn_t code, struct err *e, const char *what)
{
	int r = -EIO;

	if (code == NVML_SUCCESS)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(results); i++)
		if (results[i].code == code)
			r = results[i].result;
	return err_set(e, r, "%s: %s", what, nvml_text(n, code));
}

int nvml_start(struct nvml *n, struct err *e)
{
	if (n->started)
		return 0;

	int r = nvml_result(n, n->init(), e, "NVML does not start");

	n->started = r == 0;
	return r;
}

void nvml_stop(struct nvml *n)
{
	if (n->started)
		(void)n->shutdown();
	n->started = false;
}
