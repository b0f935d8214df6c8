/* SPDX-License-Identifier: MIT */
#include "agent/attempt/gpus_file.h"

#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"

#define TEXT_MAX 65536

const char *gpus_file_path(const char *run_dir, const char *token, char ret[PATH_MAX])
{
	return str_print(ret, PATH_MAX, "%s/%s.gpus", run_dir, token);
}

int gpus_file_write(const char *path, const char *text, struct err *e)
{
	cleanup_free char *before = NULL;
	size_t len;

	if (fs_read_file(path, TEXT_MAX, &before, &len, NULL) == 0 && strcmp(before, text) == 0)
		return 0;
	return fs_write_atomic(path, text, strlen(text), 0600, e);
}

void gpus_file_remove(const char *run_dir, const char *token)
{
	char path[PATH_MAX];

	(void)unlink(gpus_file_path(run_dir, token, path));
}
