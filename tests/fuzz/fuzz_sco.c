/* SPDX-License-Identifier: MIT */

/* Any bytes as what `sco` prints, whichever of its commands was asked: read, or refused with a
 * reason; a job that is found has the name that was asked for. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "engine/sco_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_jobs(const char *text, size_t size)
{
	struct engine_jobs jobs = { .n = 0 };
	struct err e = ERR_INIT;
	size_t listed;
	int r = sco_text_jobs(text, size, "ydj-", &jobs, &listed, &e);

	if (r < 0 && (!e.text[0] || jobs.n))
		abort();
	for (size_t i = 0; i < jobs.n; i++)
		if (!jobs.all[i].id || !str_has_prefix(jobs.all[i].name, "ydj-"))
			abort();
	engine_jobs_clear(&jobs);
}

static void try_script(const char *text)
{
	struct text_list argv = { .n = 0 };

	sco_text_add_flags(text, "/f.sh", "ydj-a-b", &argv);
	for (size_t i = 0; i < argv.n; i++)
		if (strchr(argv.texts[i], '\n'))
			abort();
	text_list_clear(&argv);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_free char *text = xmalloc(size + 1);
	struct err e = ERR_INIT;
	unsigned int total, idle;
	size_t n;

	(void)memcpy(text, data, size);
	text[size] = '\0';
	try_jobs(text, size);
	try_script(text);

	cleanup_free char *id = sco_text_created(text), *worker = sco_text_worker(text);
	const char *line = sco_text_cause(text, "", &n);

	if ((id && !id[0]) || (worker && !strstr(worker, "worker-")) ||
	    memchr(line, '\n', n) != NULL)
		abort();
	(void)sco_text_refusal(text);
	if (sco_text_usage(text, &total, &idle, &e) < 0 && !e.text[0])
		abort();
	return 0;
}
