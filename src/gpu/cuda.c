/* SPDX-License-Identifier: MIT */
#include "gpu/cuda.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/mem.h"

struct symbol {
	size_t offset;
	const char *name;
	bool optional;
};

#define SYMBOL_ROW_(field, arguments, name_)                                                       \
	{ .offset = offsetof(struct cuda, field), .name = (name_) },
#define OPTIONAL_ROW_(field, arguments, name_)                                                     \
	{ .offset = offsetof(struct cuda, field), .name = (name_), .optional = true },

static const struct symbol symbols[] = { CUDA_SYMBOLS(SYMBOL_ROW_)
						 CUDA_OPTIONAL_SYMBOLS(OPTIONAL_ROW_) };

static const char *const library_names[] = {
	CUDA_SONAME,
	"/usr/local/nvidia/lib64/" CUDA_SONAME,
	"/usr/lib/wsl/lib/" CUDA_SONAME,
	"/run/opengl-driver/lib/" CUDA_SONAME,
};

int cuda_load(struct cuda *c, struct err *e)
{
	*c = (struct cuda){ 0 };
	for (size_t i = 0; i < ARRAY_LEN(library_names) && !c->library; i++)
		c->library = dlopen(library_names[i], RTLD_NOW | RTLD_LOCAL);
	if (!c->library)
		return err_set(e, -ENOENT, "%s is not on this machine's library path", CUDA_SONAME);
	for (size_t i = 0; i < ARRAY_LEN(symbols); i++) {
		void *p = dlsym(c->library, symbols[i].name);

		if (!p && !symbols[i].optional)
			return err_set(e, -ENOSYS, "%s has no %s", CUDA_SONAME, symbols[i].name);
		*(void **)((char *)c + symbols[i].offset) = p;
	}
	return 0;
}

int cuda_result(const struct cuda *c, CUresult code, struct err *e, const char *what)
{
	const char *name = NULL;

	if (code == CUDA_SUCCESS)
		return 0;
	if (c->error_name(code, &name) != CUDA_SUCCESS || !name)
		name = "unknown CUDA error";

	int r = code == CUDA_ERROR_OUT_OF_MEMORY ? -ENOMEM
		: code == CUDA_ERROR_NO_DEVICE	 ? -ENODEV
						 : -EIO;

	return err_set(e, r, "%s: %s (%d)", what, name, (int)code);
}
