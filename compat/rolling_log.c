/* SPDX-License-Identifier: MIT */
#include "compat/rolling_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/strbuf.h"

#define LOG_MAX	  (10UL << 20)
#define LOGS_KEPT 5

static void rotate(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0 || (unsigned long)st.st_size < LOG_MAX)
		return;
	for (int i = LOGS_KEPT; i > 0; i--) {
		cleanup_free char *to = xasprintf("%s.%d", path, i);
		cleanup_free char *from = i > 1 ? xasprintf("%s.%d", path, i - 1) : xstrdup(path);

		(void)rename(from, to);
	}
}

int rolling_log_say(const char *path, const char *level, const char *text)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	char when[CLOCK_TEXT_MAX];
	int fd, r;

	strbuf_addf(&b, "%s - %s - %s\n", clock_format_local(clock_wall_ns(), when), level, text);
	(void)fputs(strbuf_str(&b), stdout);
	(void)fflush(stdout);
	rotate(path);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	r = fd < 0 ? -errno : fs_write_all(fd, b.data, b.len);
	(void)fd_close(fd);
	return r;
}
