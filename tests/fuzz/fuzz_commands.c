/* SPDX-License-Identifier: MIT */

/* Any bytes as a command.txt and as the config.yaml beside it: read, or refused with a reason. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "compat/command_txt/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_config(const char *text, size_t size)
{
	struct err e = ERR_INIT;
	struct command_set set;

	if (command_set_parse("f", text, size, &set, &e) < 0 && strncmp(e.text, "f:", 2) != 0)
		abort();
	command_set_clear(&set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_free char *text = xmalloc(size + 1);
	struct command_set set;
	struct command_file f;
	struct err e = ERR_INIT;

	(void)memcpy(text, data, size);
	text[size] = '\0';
	try_config(text, size);
	if (command_file_parse("f", text, size, &f, &e) < 0) {
		if (strncmp(e.text, "f:", 2) != 0)
			abort();
		return 0;
	}
	command_set_default(&set);
	for (size_t i = 0; i < f.n; i++) {
		struct task_spec *s = import_spec(&f.blocks[i], &set, "/w", "/n", "/s");

		if (!f.blocks[i].commands.n || !s->script || !ident_is_task_name(s->name))
			abort();
		(void)spec_free(s);
	}
	command_file_clear(&f);
	return 0;
}
