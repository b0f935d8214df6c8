/* SPDX-License-Identifier: MIT */
#include "gpu/cublaslt.h"

#include <dlfcn.h>
#include <errno.h>

#include "base/mem.h"

#define STEM "libcublasLt.so."

static const char *const folders[] = {
	"",
	"/usr/local/cuda/lib64/",
	"/usr/local/cuda/targets/x86_64-linux/lib/",
	"/usr/lib/x86_64-linux-gnu/",
	"/opt/cuda/lib64/",
};

/* The newest first. What is used of it is the same in all of them. */
static const char *const versions[] = { "13", "12", "11" };

static const struct symbol {
	size_t offset;
	const char *name;
} symbols[] = {
#define SYMBOL_ROW_(field, type, arguments, name_)                                                 \
	{ .offset = offsetof(struct cublaslt, field), .name = (name_) },
	CUBLASLT_SYMBOLS(SYMBOL_ROW_)
};

static void *open_library(void)
{
	void *library = NULL;

	for (size_t i = 0; i < ARRAY_LEN(folders); i++)
		for (size_t k = 0; k < ARRAY_LEN(versions) && !library; k++) {
			cleanup_free char *name =
				xasprintf("%s" STEM "%s", folders[i], versions[k]);

			library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
		}
	return library;
}

int cublaslt_load(struct cublaslt *c, struct err *e)
{
	*c = (struct cublaslt){ .library = open_library() };
	if (!c->library)
		return err_set(e, -ENOENT,
			       "no %s11, 12 or 13 is on the library path or in /usr/local/cuda",
			       STEM);
	for (size_t i = 0; i < ARRAY_LEN(symbols); i++) {
		void *p = dlsym(c->library, symbols[i].name);

		if (!p)
			return err_set(e, -ENOSYS, "%s* has no %s", STEM, symbols[i].name);
		*(void **)((char *)c + symbols[i].offset) = p;
	}
	return 0;
}
