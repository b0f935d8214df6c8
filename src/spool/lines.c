/* SPDX-License-Identifier: MIT */
#include "spool/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

#define BLOCK_MAX (2 * LINES_MAX)

struct block {
	char *text;
	size_t len;
	off_t at;     /* of text in the file */
	bool passing; /* in a line that is too long */
};

static void tell(const char *line, size_t len, lines_fn fn, void *data)
{
	while (len && *line == '\0') {
		line++;
		len--;
	}
	if (len && len <= LINES_MAX)
		fn(data, line, len);
}

/* Tells the whole lines of a block, and keeps the rest at its beginning. */
static void take_lines(struct block *b, off_t *offset, lines_fn fn, void *data)
{
	size_t at = 0;

	for (char *stop; (stop = memchr(b->text + at, '\n', b->len - at));) {
		size_t next = (size_t)(stop - b->text) + 1;

		if (!b->passing)
			tell(b->text + at, next - 1 - at, fn, data);
		b->passing = false;
		at = next;
		*offset = b->at + (off_t)at;
	}
	/* It is read again from its beginning if it has no end yet, which then costs time alone. */
	if (b->len - at > LINES_MAX || b->passing) {
		b->passing = true;
		at = b->len;
	}
	(void)memmove(b->text, b->text + at, b->len - at);
	b->len -= at;
	b->at += (off_t)at;
}

/* Mostly there is a line or two to read. */
static int read_on(int fd, off_t end, off_t *offset, lines_fn fn, void *data)
{
	size_t size = end - *offset < BLOCK_MAX ? (size_t)(end - *offset) : BLOCK_MAX;
	cleanup_free char *text = xmalloc(size);
	struct block b = { .text = text, .at = *offset };

	while (b.at + (off_t)b.len < end) {
		ssize_t n = pread(fd, b.text + b.len, size - b.len, b.at + (off_t)b.len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		b.len += (size_t)n;
		take_lines(&b, offset, fn, data);
	}
	return 0;
}

int lines_read(const struct spool *sp, const char *path, off_t *offset, lines_fn fn, void *data,
	       struct err *e)
{
	struct stat st;
	cleanup_fd int fd = spool_open_file(sp, path, O_RDONLY, &st, e);
	int r;

	if (fd < 0)
		return fd;
	if (st.st_size <= *offset)
		return 0;
	r = read_on(fd, st.st_size, offset, fn, data);
	return r < 0 ? err_sys(e, -r, "read %s/%s", sp->path, path) : 0;
}
