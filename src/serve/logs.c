/* SPDX-License-Identifier: MIT */
#include "serve/logs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/model.h"
#include "serve/call.h"
#include "serve/serve.h"
#include "task/logplace.h"

#define TYPE	    "text/plain; charset=utf-8"
#define LOOK_MS	    250
#define TASK_MAX    48
#define ATTEMPT_MAX 100000

/* ---- which file ---- */

/* "logs/42-train.3.log" is that of the third attempt. False: the name is not like that. */
static bool of_attempt(char **path, uint64_t attempt)
{
	static const char suffix[] = ".log";
	char *dot;

	if (!str_has_suffix(*path, suffix))
		return false;
	(*path)[strlen(*path) - strlen(suffix)] = '\0';
	dot = strrchr(*path, '.');
	if (!dot)
		return false;
	*dot = '\0';

	char *other = xasprintf("%s.%" PRIu64 "%s", *path, attempt, suffix);

	free(*path);
	*path = other;
	return true;
}

/* The attempt that writes a log. */
struct writer {
	bool runs;
	uint64_t epoch, as_of_ns; /* that was so then */
};

/* The path of its log, the caller's, or NULL, and the problem is the answer. */
static char *find(struct serve *s, struct request *r, uint64_t attempt, struct writer *ret)
{
	char task[TASK_MAX];
	struct call c = { .args = { "show", "--json", "--", task }, .output = -1 };
	json_t *doc;
	char *path = NULL;

	(void)str_print(task, sizeof(task), r->element ? "%" PRIu64 ".%u" : "%" PRIu64, r->task,
			r->element);
	call_run(s, r, &c);
	doc = c.code == CMD_OK ? call_object(&c) : NULL;
	ret->runs = strcmp(json_get_str(doc, "state") ?: "", "running") == 0;
	ret->epoch = json_get_u64(doc, "epoch");
	ret->as_of_ns = clock_mono_ns();
	if (json_get_str(doc, "log")) {
		const char *log = json_get_str(doc, "log");

		path = log[0] == '/' ? xstrdup(log) : xasprintf("%s/%s", s->spool_dir, log);
	}
	if (path && attempt) {
		cleanup_free char *latest = xstrdup(path);

		if (!of_attempt(&path, attempt)) {
			free(path);
			path = NULL;
		}
		ret->runs = ret->runs && path && strcmp(path, latest) == 0;
	}
	if (!path)
		answer_problem(&r->answer, MHD_HTTP_NOT_FOUND, "%s",
			       doc ? "it has no log: it has not run yet, or its log is gone"
				   : c.error);
	json_decref(doc);
	call_clear(&c);
	return path;
}

static int open_log(struct request *r, const char *path, uint64_t *ret_size)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		answer_problem(&r->answer, MHD_HTTP_NOT_FOUND, "there is no such log");
		return -1;
	}
	*ret_size = (uint64_t)st.st_size;
	return take_fd(fd);
}

/* ---- a range ---- */

/* "bytes=FIRST-LAST", "bytes=FIRST-", "bytes=-N". 1: there is one; 0: none that we know, which is
 * as good as none; -ERANGE: nothing of the file is in it. */
static int take_range(const char *text, uint64_t size, uint64_t *first, uint64_t *n)
{
	char from[24], to[24] = "";
	const char *dash;
	uint64_t last = size ? size - 1 : 0;

	if (!text || !str_has_prefix(text, "bytes=") || strchr(text, ',') ||
	    !(dash = strchr(text, '-')))
		return 0;
	text += strlen("bytes=");
	if (dash < text || (size_t)(dash - text) >= sizeof(from))
		return 0;
	(void)str_copy(from, (size_t)(dash - text) + 1, text);
	(void)str_copy(to, sizeof(to), dash + 1);
	if (!from[0]) { /* the last N bytes */
		if (str_to_u64(to, n) < 0)
			return 0;
		*n = *n < size ? *n : size;
		*first = size - *n;
		return *n ? 1 : -ERANGE;
	}
	if (str_to_u64(from, first) < 0 || (to[0] && str_to_u64(to, &last) < 0) ||
	    (to[0] && last < *first))
		return 0;
	if (*first >= size)
		return -ERANGE;
	*n = (last < size ? last + 1 : size) - *first;
	return 1;
}

static char *read_part(int fd, uint64_t first, uint64_t n, size_t *ret_len)
{
	char *buf = xmalloc(n + 1);
	size_t len = 0;
	ssize_t got = 1;

	while (len < n && got > 0) {
		got = pread(fd, buf + len, n - len, (off_t)(first + len));
		len += got > 0 ? (size_t)got : 0;
	}
	*ret_len = len;
	return buf;
}

/* More than LOGS_PIECE is told in ranges, which the client may ask for. */
static void answer_part(struct request *r, int fd, uint64_t size)
{
	uint64_t first = 0, n = size;
	int ranged = take_range(request_header(r, MHD_HTTP_HEADER_RANGE), size, &first, &n);
	size_t len;

	if (ranged == -ERANGE) {
		answer_problem(&r->answer, MHD_HTTP_RANGE_NOT_SATISFIABLE,
			       "the log has %" PRIu64 " bytes", size);
		answer_header(&r->answer, MHD_HTTP_HEADER_CONTENT_RANGE, "bytes */%" PRIu64, size);
		return;
	}
	ranged = ranged || n > LOGS_PIECE;
	n = n < LOGS_PIECE ? n : LOGS_PIECE;

	char *text = read_part(fd, first, n, &len);

	answer_text(&r->answer, ranged ? MHD_HTTP_PARTIAL_CONTENT : MHD_HTTP_OK, TYPE, text, len);
	answer_header(&r->answer, MHD_HTTP_HEADER_ACCEPT_RANGES, "bytes");
	if (ranged)
		answer_header(&r->answer, MHD_HTTP_HEADER_CONTENT_RANGE,
			      "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, first,
			      first + (len ? len - 1 : 0), size);
}

/* ---- following ---- */

/* Two have it: the stream, and now and then a worker that reads. */
struct follow {
	pthread_mutex_t lock;
	struct serve *serve;
	int fd;
	uint64_t task, element;
	struct logplace place; /* the worker's */
	struct writer writer;
	struct strbuf text; /* read, and not sent yet */
	bool reading, left; /* a worker has it; the stream has not any more */
	bool over;	    /* the attempt was, before the last look found nothing more */
	uint64_t looked_ns; /* and found nothing more */
};

static void drop(struct follow *f)
{
	(void)fd_close(f->fd);
	strbuf_clear(&f->text);
	(void)pthread_mutex_destroy(&f->lock);
	free(f);
}

/* The attempt, not the task: the next one has a log of its own. What was read of the queue before
 * it was seen running tells nothing. */
static bool is_over(struct follow *f)
{
	const struct model_snapshot *m = model_get(f->serve->model);
	const struct row *row = model_find(m, f->task, f->element);

	if (m->read && m->read_from_ns > f->writer.as_of_ns)
		f->writer.runs = f->writer.runs && row && row->state == TASKSTATE_RUNNING &&
				 row->name.epoch == f->writer.epoch;
	m = model_put(m);
	return !f->writer.runs;
}

static void read_on(void *data)
{
	struct follow *f = data;
	bool over = is_over(f);
	char *buf = xmalloc(LOGPLACE_PART);
	ssize_t n = logplace_read(f->fd, &f->place, buf);
	bool left;

	(void)pthread_mutex_lock(&f->lock);
	if (n > 0)
		strbuf_add(&f->text, buf, (size_t)n);
	f->over = n <= 0 && over;
	f->looked_ns = n > 0 ? 0 : clock_mono_ns();
	f->reading = false;
	left = f->left;
	(void)pthread_mutex_unlock(&f->lock);
	free(buf);
	if (left)
		drop(f);
}

static bool follow_more(void *data, struct strbuf *b)
{
	struct follow *f = data;
	bool goes_on;

	(void)pthread_mutex_lock(&f->lock);
	strbuf_add(b, strbuf_str(&f->text), f->text.len);
	strbuf_reset(&f->text);
	goes_on = !f->over;
	(void)pthread_mutex_unlock(&f->lock);
	return goes_on;
}

static bool follow_ready(void *data)
{
	struct follow *f = data;
	bool ready;

	(void)pthread_mutex_lock(&f->lock);
	ready = f->text.len || f->over;
	if (!ready && !f->reading && clock_mono_ns() - f->looked_ns >= LOOK_MS * NS_PER_MS)
		f->reading = workers_do(f->serve->workers, read_on, f) == 0;
	(void)pthread_mutex_unlock(&f->lock);
	return ready;
}

static void follow_gone(void *data)
{
	struct follow *f = data;
	bool reading;

	(void)pthread_mutex_lock(&f->lock);
	f->left = true;
	reading = f->reading;
	(void)pthread_mutex_unlock(&f->lock);
	if (!reading)
		drop(f);
}

static void answer_follow(struct serve *s, struct request *r, int fd, uint64_t first,
			  struct writer writer)
{
	static const struct stream_source source = { follow_more, follow_ready, follow_gone };
	struct follow *f = xcalloc(1, sizeof(*f));
	struct MHD_Response *stream;

	(void)pthread_mutex_init(&f->lock, NULL);
	f->serve = s;
	f->fd = fd;
	f->task = r->task;
	f->element = r->element;
	logplace_begin(fd, &f->place, (off_t)first);
	f->writer = writer;
	stream = streams_add(s->streams, r->mhd, &source, f);
	if (!stream) {
		drop(f);
		answer_problem(&r->answer, MHD_HTTP_SERVICE_UNAVAILABLE,
			       "there are %d streams already", STREAMS_MAX);
		answer_header(&r->answer, MHD_HTTP_HEADER_RETRY_AFTER, "5");
		return;
	}
	answer_stream(&r->answer, TYPE, stream);
}

void logs_answer(struct serve *s, struct request *r)
{
	bool follow = request_query_flag(r, "follow");
	uint64_t attempt, size, from;
	struct writer writer;
	cleanup_fd int fd = -1;

	if (request_query_num(r, "attempt", 0, ATTEMPT_MAX, &attempt) < 0 ||
	    request_query_num(r, "from", 0, UINT64_MAX / 2, &from) < 0)
		return;
	if (request_query(r, "from") && !follow) {
		answer_problem(&r->answer, MHD_HTTP_BAD_REQUEST,
			       "from goes with follow=true; of what is there the header Range asks "
			       "for a part");
		return;
	}

	cleanup_free char *path = find(s, r, attempt, &writer);

	if (path)
		fd = open_log(r, path, &size);
	if (fd < 0)
		return;
	if (follow)
		answer_follow(s, r, take_fd(fd), from < size ? from : size, writer);
	else
		answer_part(r, fd, size);
}
