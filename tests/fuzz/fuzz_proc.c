/* SPDX-License-Identifier: MIT */

/* What /proc may say of a process, whose owner chooses its name and its environment: stat, status,
 * environ and cgroup. */

#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/proc.h"
#include "base/utf8.h"
#include "task/tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *copy_of(const uint8_t *data, size_t size)
{
	char *text = xmalloc(size + 1);

	(void)memcpy(text, data, size);
	text[size] = '\0';
	return text;
}

/* Both readers of a stat see the same process in it. */
static void read_stat(const uint8_t *data, size_t size)
{
	cleanup_free char *one = copy_of(data, size), *two = copy_of(data, size), *shown = NULL;
	struct proc_peek peek = { .parent = 0 };
	struct tree_proc p;

	if (tree_parse_stat(two, 1, &p) < 0)
		return;
	if (proc_parse_stat(one, &peek) < 0)
		return;
	if (peek.start != p.id.start || peek.parent != p.parent || strcmp(peek.comm, p.comm) != 0)
		abort();
	shown = xstrdup(peek.comm);
	if (strlen(peek.comm) >= sizeof(peek.comm) || strcmp(utf8_clean(shown), peek.comm) != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_free char *text = copy_of(data, size), *lines = copy_of(data, size);
	char cgroup[64] = "";
	struct tree_proc p;
	size_t env;
	uid_t uid;

	read_stat(data, size);
	(void)proc_parse_environ_size(text, &env);
	(void)proc_parse_user(text, &uid);
	(void)tree_parse_status(text, 1, &p);
	(void)proc_parse_ends_by(text, SIGUSR1);
	if (tree_parse_env(text, size, "A=1", 0) && !memmem(text, size, "A=1", 3))
		abort();
	if (proc_parse_cgroup(lines, cgroup, sizeof(cgroup)) == 0 &&
	    (strlen(cgroup) >= sizeof(cgroup) || strchr(cgroup, '\n')))
		abort();
	return 0;
}
