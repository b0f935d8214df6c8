/* SPDX-License-Identifier: MIT */
#include "compat/program.h"

#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

static bool is_program(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

char *program_find(const char *name)
{
	static const char *const places[] = { "", "../" };
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n > 0) {
		self[n] = '\0';
		*strrchr(self, '/') = '\0';
	}
	for (size_t i = 0; n > 0 && i < ARRAY_LEN(places); i++) {
		cleanup_free char *path = xasprintf("%s/%s%s", self, places[i], name);

		if (is_program(path))
			return take_ptr(path);
	}
	return xstrdup(name);
}
