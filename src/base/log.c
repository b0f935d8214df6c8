/* SPDX-License-Identifier: MIT */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/enumstr.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/strbuf.h"

struct log {
	char *path;
	size_t file_bytes;
	unsigned int files;
	enum log_level level;
	int fd;
	size_t size; /* of the file, as far as we wrote it */
	uint64_t dropped;
	int drop_errno;
};

static const char *const level_names[] = {
	[LOG_LEVEL_ERROR] = "error",
	[LOG_LEVEL_WARNING] = "warning",
	[LOG_LEVEL_INFO] = "info",
	[LOG_LEVEL_DEBUG] = "debug",
};
_Static_assert(ARRAY_LEN(level_names) == LOG_LEVEL_MAX, "every level has a name");

const char *log_level_name(enum log_level level)
{
	return enum_name(level_names, ARRAY_LEN(level_names), (unsigned int)level);
}

static int open_file(struct log *log)
{
	struct stat st;

	log->fd = fd_close(log->fd);
	log->fd = fs_open_no_link(log->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK,
				  0600);
	if (log->fd < 0)
		return log->fd;
	if (fstat(log->fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		log->fd = fd_close(log->fd);
		return -EINVAL;
	}
	log->size = (size_t)st.st_size;
	return 0;
}

int log_open(const char *path, size_t file_bytes, unsigned int files, struct log **ret,
	     struct err *e)
{
	struct log *log = xcalloc(1, sizeof(*log));

	log->path = xstrdup(path);
	log->file_bytes = file_bytes;
	log->files = files;
	log->level = LOG_LEVEL_INFO;
	log->fd = -1;
	*ret = log;

	int r = open_file(log);

	return r < 0 ? err_sys(e, -r, "open log %s", path) : 0;
}

struct log *log_close(struct log *log)
{
	if (!log)
		return NULL;
	log->fd = fd_close(log->fd);
	free(log->path);
	free(log);
	return NULL;
}

void log_set_level(struct log *log, enum log_level level)
{
	if (log)
		log->level = level;
}

uint64_t log_dropped(const struct log *log)
{
	return log ? log->dropped : 0;
}

int log_drop_errno(const struct log *log)
{
	return log && log->dropped ? log->drop_errno : 0;
}

/* PATH.3 becomes PATH.4 and so on; the last falls off. */
static void rotate(struct log *log)
{
	for (unsigned int i = log->files; i-- > 1;) {
		cleanup_free char *to = xasprintf("%s.%u", log->path, i);
		cleanup_free char *from =
			i > 1 ? xasprintf("%s.%u", log->path, i - 1) : xstrdup(log->path);

		(void)rename(from, to); /* what does not exist yet has nothing to move */
	}
	if (log->files < 2)
		(void)unlink(log->path);
	(void)open_file(log);
}

/* The file that we write is still the one of that name: somebody may have moved or removed it. */
static bool still_there(const struct log *log)
{
	struct stat ours, named;

	return fstat(log->fd, &ours) == 0 && stat(log->path, &named) == 0 &&
	       ours.st_ino == named.st_ino && ours.st_dev == named.st_dev;
}

/* The whole line or nothing: what a full disk took of it is cut off again. */
static int append(struct log *log, const char *data, size_t len)
{
	ssize_t n;

	if (log->fd < 0 || !still_there(log)) {
		int r = open_file(log);

		if (r < 0)
			return r;
	}
	if (log->size && log->size + len > log->file_bytes)
		rotate(log);
	if (log->fd < 0)
		return -EIO;
	do {
		n = write(log->fd, data, len);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if ((size_t)n < len) {
		(void)!ftruncate(log->fd, (off_t)log->size);
		return -ENOSPC;
	}
	log->size += len;
	return 0;
}

static int report_dropped(struct log *log)
{
	char time[CLOCK_TEXT_MAX], line[256], reason[128];

	int n = snprintf(line, sizeof(line), "%s warning %" PRIu64 " lines are missing here: %s\n",
			 clock_format_iso(clock_wall_ns(), time), log->dropped,
			 strerror_r(log->drop_errno, reason, sizeof(reason)));
	int r = append(log, line, (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1);

	if (r == 0)
		log->dropped = 0;
	return r;
}

void log_line(struct log *log, const char *line, size_t len)
{
	if (!log)
		return;

	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	int r = log->dropped ? report_dropped(log) : 0;

	if (r == 0) {
		strbuf_add(&b, line, len);
		strbuf_addc(&b, '\n');
		r = append(log, b.data, b.len);
	}
	if (r < 0) {
		log->dropped++;
		log->drop_errno = -r;
	}
}

void log_vprint(struct log *log, enum log_level level, const char *fmt, va_list ap)
{
	char time[CLOCK_TEXT_MAX];
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	if (!log || level > log->level)
		return;
	strbuf_addf(&b, "%s %s ", clock_format_iso(clock_wall_ns(), time), log_level_name(level));

	size_t start = b.len;

	strbuf_addv(&b, fmt, ap);
	/* What others wrote (a process's name) must not forge a line. */
	for (size_t i = start; i < b.len; i++) {
		if ((unsigned char)b.data[i] < ' ')
			b.data[i] = ' ';
	}
	log_line(log, b.data, b.len);
}

void log_print(struct log *log, enum log_level level, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_vprint(log, level, fmt, ap);
	va_end(ap);
}
