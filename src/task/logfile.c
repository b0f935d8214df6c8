/* SPDX-License-Identifier: MIT */

/*
 * Layout of a log that is past its limit:
 *
 *	0            head            head + hole          size
 *	| kept        .mark|  zeros   | kept, at least tail |
 *
 * head is a quarter of the limit, a multiple of ALIGN; the mark is one line in its last MARK bytes.
 * The hole is empty where the file was collapsed. Cutting takes all between head and the last
 * `tail` bytes, so at least a quarter of the limit each time.
 */

#include "task/logfile.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"

#define ALIGN	   (64UL * 1024)
#define MARK	   128
#define MARK_BEGIN "\n[tenure: "
#define COPY_MAX   (16UL * 1024 * 1024)
#define FIRST_NS   (50 * NS_PER_MS)
#define FAST_NS	   (20 * NS_PER_MS)
#define SLOW_NS	   (1000 * NS_PER_MS)

void logfile_init(struct logfile *l, int fd, uint64_t limit, uint64_t now_ns)
{
	*l = (struct logfile){ .fd = fd,
			       .edit_fd = -1,
			       .limit = limit,
			       .looked_ns = now_ns,
			       .next_ns = limit ? now_ns + FIRST_NS : UINT64_MAX };
}

void logfile_write(struct logfile *l, const char *text, uint64_t len)
{
	int r = fs_write_all(l->fd, text, len);

	if (r < 0)
		l->errnum = -r;
}

int logfile_in_line(const struct logfile *l)
{
	struct stat st;
	char c;

	if (fstat(l->fd, &st) < 0 || !S_ISREG(st.st_mode))
		return 1;
	if (st.st_size == 0)
		return 0;
	return pread(l->fd, &c, 1, st.st_size - 1) != 1 || c != '\n';
}

/* pwrite(2) on a descriptor with O_APPEND appends, so editing needs another one. */
static int open_edit(struct logfile *l)
{
	char path[48];

	if (l->edit_fd >= 0)
		return 0;
	(void)str_print(path, sizeof(path), "/proc/thread-self/fd/%d", l->fd);
	l->edit_fd = open(path, O_RDWR | O_CLOEXEC);
	return l->edit_fd < 0 ? -errno : 0;
}

static uint64_t head_of(const struct logfile *l)
{
	return l->limit / 4 / ALIGN * ALIGN;
}

/* One line, as long as MARK whatever it says, so that a later one fits over it. */
static void put_mark(const struct logfile *l)
{
	char line[MARK + 1];

	(void)memset(line, ' ', MARK);
	(void)str_print(line, MARK,
			MARK_BEGIN "%.1f MiB of output are left out here, the log's limit is %.0f "
				   "MiB]",
			(double)l->cut / (1 << 20), (double)l->limit / (1 << 20));
	line[strlen(line)] = ' ';
	line[MARK - 1] = '\n';
	(void)!pwrite(l->edit_fd, line, MARK, (off_t)(head_of(l) - MARK));
}

/* Move the last n bytes of the file to `to` and end it there. */
static int move_end(const struct logfile *l, uint64_t from, uint64_t to, uint64_t size)
{
	cleanup_free char *buf = xmalloc(1UL << 20);

	while (from < size) {
		size_t want = size - from < 1UL << 20 ? size - from : 1UL << 20;
		ssize_t n = pread(l->edit_fd, buf, want, (off_t)from);

		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		if (pwrite(l->edit_fd, buf, (size_t)n, (off_t)to) != n)
			return errno ? -errno : -EIO;
		from += (uint64_t)n;
		to += (uint64_t)n;
	}
	return ftruncate(l->edit_fd, (off_t)to) < 0 ? -errno : 0;
}

static int cut_collapse(struct logfile *l, uint64_t head, uint64_t end)
{
	if (fallocate(l->edit_fd, FALLOC_FL_COLLAPSE_RANGE, (off_t)head, (off_t)(end - head)) < 0)
		return -errno;
	l->cut += end - head;
	l->size -= end - head;
	return 0;
}

static int cut_punch(struct logfile *l, uint64_t head, uint64_t end)
{
	uint64_t at = head + l->hole;

	if (fallocate(l->edit_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at,
		      (off_t)(end - at)) < 0)
		return -errno;
	l->cut += end - at;
	l->hole += end - at;
	return 0;
}

/* Writers append behind what is copied as soon as the file is shorter. */
static int cut_copy(struct logfile *l, uint64_t head, uint64_t end)
{
	uint64_t from = l->size - end > COPY_MAX ? l->size - COPY_MAX : end;
	int r = move_end(l, from, head, l->size);

	if (r < 0)
		return r;
	l->cut += from - head;
	l->size -= from - head;
	return 0;
}

static int (*const cuts[])(struct logfile *l, uint64_t head, uint64_t end) = {
	[LOG_COLLAPSE] = cut_collapse,
	[LOG_PUNCH] = cut_punch,
	[LOG_COPY] = cut_copy,
};
_Static_assert(ARRAY_LEN(cuts) == LOG_CUT_MAX, "a function for every way");

static void cut(struct logfile *l)
{
	uint64_t head = head_of(l), end = (l->size - l->limit / 2) / ALIGN * ALIGN;
	int r = open_edit(l);

	for (; r == 0 && l->how < LOG_CUT_MAX; l->how++) {
		r = cuts[l->how](l, head, end);
		if (r == 0) {
			put_mark(l);
			return;
		}
		/* A way that works once works always; what else went wrong is not its fault. */
		if (r != -EOPNOTSUPP && r != -EINVAL && r != -ENOSYS)
			break;
		r = l->how + 1 < LOG_CUT_MAX ? 0 : r;
	}
	l->errnum = -r;
	if (l->how >= LOG_CUT_MAX)
		l->limit = 0;
}

static uint64_t next_look(const struct logfile *l, uint64_t grown, uint64_t now_ns)
{
	uint64_t kept = l->size - l->hole;
	uint64_t took = now_ns > l->looked_ns ? now_ns - l->looked_ns : 1;

	if (!grown || kept >= l->limit)
		return now_ns + (grown ? FAST_NS : SLOW_NS);

	/* Half of the time until the limit at this pace. */
	double left = (double)(l->limit - kept) / (double)grown * (double)took / 2;

	if (left > (double)SLOW_NS)
		return now_ns + SLOW_NS;
	return now_ns + (left < (double)FAST_NS ? FAST_NS : (uint64_t)left);
}

void logfile_look(struct logfile *l, uint64_t now_ns)
{
	struct stat st;
	uint64_t before = l->size;

	if (!l->limit || fstat(l->fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		l->next_ns = UINT64_MAX;
		return;
	}
	l->size = (uint64_t)st.st_size;

	uint64_t grown = l->size > before ? l->size - before : 0;

	/* Somebody made the file shorter: there is no hole in it any more that we know of. */
	if (l->size < head_of(l) + l->hole)
		l->hole = 0;
	if (l->size - l->hole > l->limit)
		cut(l);
	l->next_ns = l->limit ? next_look(l, grown, now_ns) : UINT64_MAX;
	l->looked_ns = now_ns;
}

void logfile_finish(struct logfile *l)
{
	if (l->limit)
		logfile_look(l, l->looked_ns);
	if (l->hole) {
		uint64_t head = head_of(l);
		int r = move_end(l, head + l->hole, head, l->size);

		if (r < 0)
			l->errnum = -r;
		else
			l->hole = 0;
	}
	l->edit_fd = fd_close(l->edit_fd);
}

bool logfile_collapses(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 &&
	       (fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == XFS_SUPER_MAGIC);
}

static bool is_at(int fd, uint64_t at, const char *text, size_t len)
{
	cleanup_free char *buf = xmalloc(len);

	return pread(fd, buf, len, (off_t)at) == (ssize_t)len && memcmp(buf, text, len) == 0;
}

/* What is cut is a multiple of ALIGN, except of a very large log (cut_copy()), of which a part is
 * shown twice then. */
uint64_t logfile_find(int fd, uint64_t at, const char *seen, size_t *len)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return at;

	uint64_t size = (uint64_t)st.st_size;
	uint64_t skip = at > size ? (at - size + ALIGN - 1) / ALIGN * ALIGN : 0;

	for (uint64_t to = at - skip; *len && skip <= at && to >= *len; to -= ALIGN) {
		if (is_at(fd, to - *len, seen, *len))
			return to;
		if (to < ALIGN)
			break;
	}
	*len = 0;
	for (uint64_t head = ALIGN; head <= size; head += ALIGN)
		if (is_at(fd, head - MARK, MARK_BEGIN, strlen(MARK_BEGIN)))
			return head;
	return size < at ? size : at;
}
