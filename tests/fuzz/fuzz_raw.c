/* SPDX-License-Identifier: MIT */

/* A file that somebody has put into pending/: its name up to the first newline, then what is in it.
 * What becomes a task of it can be written and read again. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "spool/raw.h"
#include "spool/task_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *nl = size ? memchr(data, '\n', size) : NULL;
	size_t name_len = nl ? (size_t)(nl - data) : 0, len = nl ? size - name_len - 1 : 0, used;
	struct task_spec *s = NULL, *again = NULL;
	struct err e = ERR_INIT;

	/* As long as a file's name can be, and without what none has. */
	if (!nl || !name_len || name_len > 255 || memchr(data, '\0', name_len) ||
	    memchr(data, '/', name_len))
		return 0;

	cleanup_free char *file = xasprintf("%.*s", (int)name_len, (const char *)data);
	cleanup_free char *text = xmalloc(len + 1);

	(void)memcpy(text, nl + 1, len);
	text[len] = '\0'; /* as spool_read() gives it */
	if (raw_parse(file, text, len, &s, &e) < 0) {
		if (s || !e.text[0])
			abort();
		return 0;
	}
	if (!s->name || !ident_is_task_name(s->name) || s->priority > SPEC_PRIORITY_MAX)
		abort();
	if (spec_check_new(s, NULL) == 0) {
		cleanup_free char *json = spec_text(s, NULL);

		if (!json || spec_read(json, strlen(json), &again, &used, &e) < 0 ||
		    strcmp(again->name, s->name) != 0 || again->priority != s->priority)
			abort();
	}
	(void)spec_free(s);
	(void)spec_free(again);
	return 0;
}
