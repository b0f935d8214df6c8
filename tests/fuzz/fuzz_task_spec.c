/* SPDX-License-Identifier: MIT */

/* The input as a task file, and its first line as the name of one. What is accepted must come back
 * unchanged. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "spool/record.h"
#include "spool/task_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_name(const char *text)
{
	cleanup_free char *file = xstrdup(text);
	char again[NAME_FILE_MAX];
	struct task_name n;

	file[strcspn(file, "\n")] = '\0';
	if (name_parse(file, &n) && strcmp(name_format(&n, again), file) != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_free char *text = xmalloc(size + 1);
	struct task_file f, g;
	struct err e = ERR_INIT;

	(void)memcpy(text, data, size);
	text[size] = '\0';
	try_name(text);
	if (task_file_parse(text, size, &f, &e) < 0) {
		if (!e.text[0])
			abort();
		return 0;
	}

	cleanup_free char *line = spec_text(f.spec, &e);

	if (!line || task_file_parse(line, strlen(line), &g, &e) < 0)
		abort();

	cleanup_free char *again = spec_text(g.spec, &e);

	if (!again || strcmp(line, again) != 0)
		abort();
	task_file_clear(&f);
	task_file_clear(&g);
	return 0;
}
