/* SPDX-License-Identifier: MIT */

/* Lines of the input as the words of a command line, with the rows of all settings. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/opts.h"
#include "base/settings.h"

#define WORDS_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_free char *text = xmalloc(size + 1);
	char *argv[WORDS_MAX], *save = NULL, program[] = "tenure";
	struct opts *o = opts_new();
	struct err e = ERR_INIT;
	int argc = 1;

	(void)memcpy(text, data, size);
	text[size] = '\0';
	argv[0] = program;
	for (char *w = strtok_r(text, "\n", &save); w && argc < WORDS_MAX;
	     w = strtok_r(NULL, "\n", &save))
		argv[argc++] = w;
	for (int id = 0; id < SET_MAX; id++)
		opts_add_row(o, &setting_row((enum setting_id)id)->opt);
	if (opts_parse(o, argc, argv, size % 2 ? OPTS_DEFAULT : OPTS_STOP_AT_WORD, &e) < 0 &&
	    !e.text[0])
		abort();
	(void)opts_free(o);
	return 0;
}
