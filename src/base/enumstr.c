/* SPDX-License-Identifier: MIT */
#include "base/enumstr.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"

const char *enum_name(const char *const *names, size_t n, unsigned int value)
{
	return value < n && names[value] ? names[value] : "?";
}

int enum_parse(const char *const *names, size_t n, const char *name, unsigned int *ret,
	       struct err *e)
{
	cleanup_free const char **known = xcalloc(n + 1, sizeof(char *));
	cleanup_strbuf struct strbuf all = STRBUF_INIT;
	size_t n_known = 0;

	for (size_t i = 0; i < n; i++) {
		if (!names[i])
			continue;
		if (strcmp(names[i], name) == 0) {
			*ret = (unsigned int)i;
			return 0;
		}
		strbuf_addf(&all, "%s%s", n_known ? ", " : "", names[i]);
		known[n_known++] = names[i];
	}

	const char *near = str_nearest(name, known);

	return err_set(e, -EINVAL, "\"%s\" is not one of %s%s%s%s", name, strbuf_str(&all),
		       near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}
