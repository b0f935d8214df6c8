/* SPDX-License-Identifier: MIT */

/* A file for `submit --from`. Either all its lines are elements of one task, or each is a task that
 * can be written and read again. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "cli/task/lines.h"
#include "spool/task_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_task(const struct task_spec *s)
{
	cleanup_free char *json = spec_text(s, NULL);
	struct task_spec *again = NULL;
	struct err e = ERR_INIT;
	size_t used;

	if (!json || spec_read(json, strlen(json), &again, &used, &e) < 0)
		abort();
	(void)spec_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_fd int fd = memfd_create("lines", MFD_CLOEXEC);
	cleanup_free char *path = xasprintf("/proc/self/fd/%d", fd);
	const struct text_list files = { .n = 1, .texts = &path };
	struct task_spec *s = spec_new();
	struct spec_list tasks = { .n = 0 };
	struct err e = ERR_INIT;

	if (fd < 0 || fs_write_all(fd, data, size) < 0)
		abort();
	if (lines_take_files(s, &files, &tasks, &e) < 0) {
		if (!strstr(e.text, path))
			abort();
	} else if (!tasks.n == !s->commands.n) {
		abort();
	} else {
		for (size_t i = 0; i < tasks.n; i++)
			check_task(tasks.specs[i]);
	}
	spec_list_clear(&tasks);
	(void)spec_free(s);
	return 0;
}
