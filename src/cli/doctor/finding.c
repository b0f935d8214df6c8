/* SPDX-License-Identifier: MIT */
#include "cli/doctor/finding.h"

#include <stdarg.h>

#include "base/enumstr.h"
#include "base/mem.h"
#include "base/strbuf.h"

static const char *const level_names[] = {
	[FINDING_OK] = "ok",
	[FINDING_NOTE] = "note",
	[FINDING_WARN] = "warn",
	[FINDING_FAIL] = "FAIL",
};
_Static_assert(ARRAY_LEN(level_names) == FINDING_LEVEL_MAX, "a name for every level");

const char *finding_level_name(unsigned int level)
{
	return enum_name(level_names, ARRAY_LEN(level_names), level);
}

void doctor_find(struct doctor *d, enum finding_level level, const char *check, const char *advice,
		 const char *fmt, ...)
{
	cleanup_strbuf struct strbuf text = STRBUF_INIT;
	va_list ap;

	va_start(ap, fmt);
	strbuf_addv(&text, fmt, ap);
	va_end(ap);
	d->failed = d->failed || level == FINDING_FAIL;
	(void)json_array_append_new(d->findings,
				    json_pack("{s:s, s:s, s:s, s:s?}", "check", check, "result",
					      finding_level_name(level), "text", strbuf_str(&text),
					      "advice", advice));
}
