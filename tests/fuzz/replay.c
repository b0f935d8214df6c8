/* SPDX-License-Identifier: MIT */

/* Feeds every file of the named directories and files to a fuzz entry, so that what was once found
 * stays found in the normal run of the tests. */

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/mem.h"

#define INPUT_MAX (1UL << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
	cleanup_free char *text = NULL;
	struct err e = ERR_INIT;
	size_t len;

	if (fs_read_file(path, INPUT_MAX, &text, &len, &e) < 0) {
		(void)fprintf(stderr, "%s\n", e.text);
		return -1;
	}

	/* A copy of the exact size, so that a sanitizer sees a read behind it. */
	uint8_t *data = xmalloc(len);

	(void)memcpy(data, text, len);
	(void)LLVMFuzzerTestOneInput(data, len);
	free(data);
	return 0;
}

static int replay_dir(const char *dir, size_t *n)
{
	DIR *d = opendir(dir);
	struct dirent *de;
	int r = 0;

	if (!d) {
		perror(dir);
		return -1;
	}
	while ((de = readdir(d)) && r == 0) {
		if (de->d_name[0] == '.')
			continue;

		cleanup_free char *path = xasprintf("%s/%s", dir, de->d_name);

		r = replay_file(path);
		(*n)++;
	}
	(void)closedir(d);
	return r;
}

int main(int argc, char **argv)
{
	size_t n = 0;

	for (int i = 1; i < argc; i++) {
		if (replay_dir(argv[i], &n) < 0)
			return 1;
	}
	if (n == 0) {
		(void)fprintf(stderr, "no input\n");
		return 1;
	}
	printf("%zu inputs\n", n);
	return 0;
}
