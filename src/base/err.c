/* SPDX-License-Identifier: MIT */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

/* A text that filled the room may end within a character. */
static void mend_cut(struct err *e)
{
	e->text[utf8_whole(e->text, strlen(e->text))] = '\0';
}

int err_set(struct err *e, int code, const char *fmt, ...)
{
	if (!e)
		return code;

	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
	mend_cut(e);
	e->code = code;
	return code;
}

int err_sys(struct err *e, int errnum, const char *fmt, ...)
{
	if (!e)
		return -errnum;

	va_list ap;
	char reason[128];

	va_start(ap, fmt);
	(void)vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);

	size_t len = strlen(e->text);
	/* The GNU variant returns the string, which may or may not be the buffer. */
	const char *text = strerror_r(errnum, reason, sizeof(reason));

	(void)snprintf(e->text + len, sizeof(e->text) - len, ": %s", text);
	mend_cut(e);
	e->code = -errnum;
	return -errnum;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
	if (!e)
		return -EIO;

	va_list ap;
	char inner[ERR_TEXT_MAX];

	(void)memcpy(inner, e->text, sizeof(inner));
	va_start(ap, fmt);
	(void)vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);

	size_t len = strlen(e->text);

	(void)snprintf(e->text + len, sizeof(e->text) - len, ": %s", inner);
	mend_cut(e);
	return e->code = e->code ? e->code : -EIO; /* who failed has not said why */
}
