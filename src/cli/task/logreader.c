/* SPDX-License-Identifier: MIT */

/*
 * The latest attempt is that whose log was written to last: when a task is retried, its
 * attempts are counted from 1 again. Who follows is shown each attempt that begins meanwhile, in
 * the order in which they were written to last, however quickly one ends after another. It may be
 * cut while it is read (task/logplace.h).
 */

#include "cli/task/logreader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "cli/task/select.h"
#include "cli/task/taskrun.h"
#include "spool/instance.h"
#include "spool/record.h"
#include "task/logplace.h"
#include "task/logtext.h"

#define SEARCHES    20
#define QUIET_TURNS 8
#define WAITS_MS    500
#define TURN_NS	    (100 * NS_PER_MS)

struct reader {
	const struct logreader *t;
	int fd;
	bool looked; /* so that what is found now has begun meanwhile */
	char path[SPOOL_PATH_MAX];
	bool follows;
	bool more;	 /* it is not read to its end yet */
	bool over;	 /* the task has ended: what it has not printed to is not waited for */
	char *output;	 /* the file of its own that is read; NULL: its log */
	bool told_error; /* where what it prints to standard error is */
	char *away;	 /* what was said last of one that is not in the spool */
	struct text_list shown; /* paths of those before */
	struct logplace place;
	struct logtext_plain plain;
	struct logtext_safe safe;
};

struct finding {
	const struct reader *r;
	char own[SELECT_ID_MAX + 1]; /* "42.7-" */
	struct timespec after;	     /* what was written before that is of no interest */
	char path[SPOOL_PATH_MAX];
	struct timespec written;
};

/* "42.7-train.sh.2.log": 2 */
static unsigned int attempt_of(const char *file)
{
	size_t len = strlen(file), tail = strlen(".log");
	char number[16];
	uint64_t n;
	const char *dot;

	if (len < tail || strcmp(file + len - tail, ".log") != 0)
		return 0;
	dot = file + len - tail;
	while (dot > file && dot[-1] != '.')
		dot--;
	(void)str_print(number, sizeof(number), "%.*s", (int)(file + len - tail - dot), dot);
	return str_to_u64(number, &n) < 0 ? 0 : (unsigned int)n;
}

static bool is_newer(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec >= b->tv_nsec;
}

static bool was_shown(const struct reader *r, const char *path)
{
	for (size_t i = 0; i < r->shown.n; i++)
		if (strcmp(r->shown.texts[i], path) == 0)
			return true;
	return strcmp(r->path, path) == 0;
}

/* The latest one; of those that have come since the last look, the first. */
static bool is_wanted(const struct finding *f, const char *path, const struct timespec *written)
{
	if (!f->r->looked)
		return is_newer(written, &f->written);
	return is_newer(written, &f->after) && !was_shown(f->r, path) &&
	       (!f->path[0] || !is_newer(written, &f->written));
}

/* Whether it is one of those that are meant. What follows an end is "42.7-train.sh.2.on-end.log",
 * and of a task on several nodes as a whole "42-train.sh.on-end.log". */
static bool is_meant(const struct logreader *t, const char *file)
{
	static const char on_end[] = ".on-end.log";
	cleanup_free char *log = xstrdup(file);
	unsigned int attempt;

	if (t->on_end && !str_has_suffix(file, on_end))
		return false;
	if (t->on_end)
		(void)str_copy(log + strlen(file) - strlen(on_end), strlen(".log") + 1, ".log");
	attempt = attempt_of(log);
	return (attempt || t->on_end) && (!t->attempt || t->attempt == attempt);
}

static int look_at_log(void *data, const char *file, unsigned char type)
{
	struct finding *f = data;
	const struct logreader *t = f->r->t;
	char path[SPOOL_PATH_MAX];
	struct stat st;

	if (!str_has_prefix(file, f->own) || !is_meant(t, file))
		return 0;
	(void)spool_path(SPOOL_LOGS, file, path);
	if (spool_stat(t->sp, path, &st) < 0 || !S_ISREG(st.st_mode) ||
	    !is_wanted(f, path, &st.st_mtim))
		return 0;
	f->written = st.st_mtim;
	(void)str_copy(f->path, sizeof(f->path), path);
	return 0;
}

static void show_label(const struct logreader *t)
{
	if (!t->label || *t->shown == t->label)
		return;
	(void)fprintf(t->out, "%s==> %s <==\n", *t->shown ? "\n" : "", t->label);
	*t->shown = t->label;
}

static void put(struct reader *r, const char *data, size_t len)
{
	cleanup_strbuf struct strbuf safe = STRBUF_INIT;

	if (!len)
		return;
	show_label(r->t);
	if (!r->t->safe) {
		(void)fwrite(data, 1, len, r->t->out);
		return;
	}
	logtext_safe_add(&r->safe, data, len, &safe);
	(void)fwrite(strbuf_str(&safe), 1, safe.len, r->t->out);
}

/* Nothing more of this log is shown. */
static void end_log(struct reader *r)
{
	cleanup_strbuf struct strbuf rest = STRBUF_INIT;

	logtext_plain_end(&r->plain, &rest);
	put(r, strbuf_str(&rest), rest.len);
	strbuf_reset(&rest);
	logtext_safe_end(&r->safe, &rest);
	(void)fwrite(strbuf_str(&rest), 1, rest.len, r->t->out);
	r->fd = fd_close(r->fd);
}

static int open_log(struct reader *r, const char *path, int fd)
{
	char id[SELECT_ID_MAX], title[SELECT_ID_MAX + 8];

	if (r->path[0])
		text_list_add(&r->shown, r->path);
	end_log(r);
	r->fd = fd;
	(void)str_copy(r->path, sizeof(r->path), path);
	r->place = (struct logplace){ .at = 0 };
	(void)select_format_id(r->t->id, r->t->element, id);
	logtext_plain_begin(&r->plain, str_print(title, sizeof(title), "task %s ", id));
	return 1;
}

/* A record in the spool names it: a regular file of whom the spool believes. */
static int open_named(const struct spool *sp, const struct log_away *log, struct err *e)
{
	cleanup_fd int fd = -1;
	struct stat st;

	if (!log->file[0] || strcmp(log->host, spool_host(sp)) != 0)
		return err_set(e, -ENOENT, "it is there, and not here");
	fd = open(log->file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, errno, "open %s", log->file);
	if (!S_ISREG(st.st_mode) || !spool_trusts(sp, st.st_uid))
		return err_set(e, -EPERM, "%s is no log of this user's", log->file);
	return take_fd(fd);
}

/* The one of an attempt whose log could not be made, which is said once. 1: it is another one than
 * before; 0: none, or it was said; -ENOENT: it cannot be had here, for who does not follow. */
static int find_away(struct reader *r, struct err *e)
{
	const struct logreader *t = r->t;
	struct err why = ERR_INIT;
	struct task_place place;
	struct log_away log;
	char id[SELECT_ID_MAX], *text;
	int fd;

	if (select_by_id(t->sp, t->id, t->element, &place, NULL) < 0 ||
	    taskrun_log_away(t->sp, &place, t->attempt, &log, NULL) != 1)
		return 0;
	text = taskrun_format_away(t->sp, &log);
	if (r->away && strcmp(r->away, text) == 0) {
		free(text);
		return 0;
	}
	free(r->away);
	r->away = text;
	fd = open_named(t->sp, &log, &why);
	(void)select_format_id(t->id, t->element, id);
	if (fd < 0 && !r->follows)
		return err_set(e, -ENOENT, "task %s: %s%s%s", id, text, log.file[0] ? "; " : "",
			       log.file[0] ? why.text : "");
	(void)fflush(t->out);
	(void)fprintf(stderr, "tenure: warning: task %s: %s\n", id, text);
	r->looked = true;
	return fd < 0 ? 0 : open_log(r, strrchr(log.file, '/'), fd);
}

/* Of a task that prints to files of its own: their paths, or NULL. The caller frees them. */
static void find_outputs(const struct logreader *t, char **ret_output, char **ret_error)
{
	struct task_place place;
	struct task_file file;
	struct taskrun run;

	*ret_output = *ret_error = NULL;
	if (select_by_id(t->sp, t->id, t->element, &place, NULL) < 0 ||
	    task_file_read(t->sp, place.path, &file, NULL) < 0)
		return;
	if (file.spec->output || file.spec->error) {
		taskrun_read(t->sp, &place, &file.history, &run);
		taskrun_outputs(t->sp, file.spec, &place, &run, ret_output, ret_error);
	}
	task_file_clear(&file);
}

/* What is shown has not what it prints to standard error, unless that file is empty and stays so.
 */
static void tell_error(struct reader *r, const char *output, const char *error)
{
	char id[SELECT_ID_MAX];
	struct stat st;

	if (!error || r->told_error || (output && strcmp(output, error) == 0) ||
	    (!r->follows && (stat(error, &st) < 0 || !st.st_size)))
		return;
	r->told_error = true;
	(void)fflush(r->t->out);
	(void)fprintf(stderr, "tenure: note: what task %s prints to standard error is in %s\n",
		      select_format_id(r->t->id, r->t->element, id), error);
}

/* Where it prints to a file of its own that is read in the place of its log at path, whose
 * descriptor is taken over. Attempts, and other tasks, go on in the same file. */
static int open_output(struct reader *r, const char *path, int log_fd)
{
	cleanup_free char *output = NULL, *error = NULL;
	cleanup_fd int log = log_fd, fd = -1;
	struct stat st;

	find_outputs(r->t, &output, &error);
	tell_error(r, output, error);
	if (!output)
		return open_log(r, path, take_fd(log));
	if (r->output && r->fd >= 0 && strcmp(r->output, output) == 0) {
		text_list_add(&r->shown, r->path);
		(void)str_copy(r->path, sizeof(r->path), path);
		return 0;
	}
	fd = open(output, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)))
		fd = fd_close(fd);
	if (fd < 0 && r->follows && !r->over) /* it has not begun to print yet */
		return 0;
	free(r->output);
	r->output = fd < 0 ? NULL : take_ptr(output);
	return open_log(r, path, fd < 0 ? take_fd(log) : take_fd(fd));
}

/* 1: it has (another) one now. */
static int find_log(struct reader *r, struct err *e)
{
	struct finding f = { .r = r };
	char id[SELECT_ID_MAX];
	struct stat st;
	int code;

	code = r->t->on_end ? 0 : find_away(r, e);
	if (code)
		return code;
	if (r->fd >= 0 && fstat(r->fd, &st) == 0)
		f.after = st.st_mtim;
	(void)str_print(f.own, sizeof(f.own), "%s-", select_format_id(r->t->id, r->t->element, id));
	code = spool_each(r->t->sp, spool_dir_name(SPOOL_LOGS), look_at_log, &f, e);
	r->looked = true;
	/* Where that could not be made, others cannot be read; who follows may not know it yet. */
	if (code < 0 && (r->away || r->follows))
		code = 0;
	if (code < 0 || !f.path[0])
		return code < 0 ? code : 0;
	code = spool_open_file(r->t->sp, f.path, O_RDONLY, NULL, e);
	if (code >= 0 && r->t->on_end)
		return open_log(r, f.path, code);
	return code < 0 ? code : open_output(r, f.path, code);
}

static void reader_clear(struct reader *r)
{
	end_log(r);
	text_list_clear(&r->shown);
	free(r->output);
	free(r->away);
}

static void put_part(struct reader *r, const char *data, size_t len)
{
	cleanup_strbuf struct strbuf own = STRBUF_INIT;

	if (!r->t->plain) {
		put(r, data, len);
		return;
	}
	logtext_plain_add(&r->plain, data, len, &own);
	put(r, strbuf_str(&own), own.len);
}

/* Who has something else to do meanwhile is kept no longer than a turn: a task may print faster
 * than a terminal takes it. */
static int copy_more(struct reader *r, struct err *e)
{
	const uint64_t until = clock_mono_ns() + TURN_NS;
	char buf[LOGPLACE_PART];
	ssize_t n = 0;

	r->more = false;
	while (!r->more && r->fd >= 0 && (n = logplace_read(r->fd, &r->place, buf)) > 0) {
		errno = 0;
		put_part(r, buf, (size_t)n);
		if (ferror(r->t->out))
			return err_sys(e, errno ? errno : EIO, "write the output");
		r->more = r->follows && r->t->turn && clock_mono_ns() >= until;
	}
	if (n < 0)
		return err_sys(e, (int)-n, "read %s/%s", spool_path_of(r->t->sp), r->path);
	return fflush(r->t->out) == 0 ? 0 : err_sys(e, errno, "write the output");
}

static int no_log(const struct logreader *t, bool ended, struct err *e)
{
	char id[SELECT_ID_MAX];

	(void)select_format_id(t->id, t->element, id);
	if (t->attempt)
		return err_set(e, -ENOENT, "task %s has no log of attempt %u", id, t->attempt);
	if (t->on_end && t->is_rank)
		return err_set(e, -ENOENT,
			       "what followed the end of task %s followed that of all its ranks: "
			       "tenure logs --on-end %" PRIu64,
			       id, t->id);
	if (t->on_end)
		return err_set(e, -ENOENT,
			       "no command has followed an end of task %s so far (submit --on-end, "
			       "tenure on --on-end)%s%s%s",
			       id, t->has_elements ? "; elements have their own, as " : "",
			       t->has_elements ? id : "", t->has_elements ? ".1" : "");
	if (ended)
		return err_set(e, -ENOENT,
			       "task %s has no log: it was stopped before it started, or its log "
			       "was removed or could not be made (tenure show %s)",
			       id, id);
	return err_set(
		e, -ENOENT,
		"task %s has no log, as it has not run yet (tenure why %s tells why; -f waits "
		"for it)",
		id, id);
}

int logreader_show(const struct logreader *t, struct err *e)
{
	struct reader r = { .t = t, .fd = -1 };
	int code = find_log(&r, e);

	if (code == 0)
		code = no_log(t, t->ended, e);
	if (code > 0)
		code = copy_more(&r, e);
	reader_clear(&r);
	return code;
}

/* When to read the directory, which may be large: for a while after the task has moved, and where
 * its log stands still. */
struct pace {
	char path[SPOOL_PATH_MAX];
	enum taskstate state;
	unsigned int searches, quiet;
	off_t at;
};

static bool is_time_to_search(struct pace *p, const struct reader *r, const struct taskwatch *w)
{
	const struct task_place *place = taskwatch_place(w);

	p->quiet = r->place.at == p->at ? p->quiet + 1 : 0;
	p->at = r->place.at;
	if (strcmp(p->path, place->path) != 0 || p->state != taskwatch_state(w)) {
		(void)str_copy(p->path, sizeof(p->path), place->path);
		p->state = taskwatch_state(w);
		p->searches = SEARCHES;
	}
	if (p->searches)
		p->searches--;
	return p->searches || p->quiet % QUIET_TURNS == QUIET_TURNS - 1;
}

struct follower {
	struct reader r;
	struct pace pace;
	struct taskwatch *w;
	uint64_t tell_ns; /* when to say that it waits; 0: it does not, UINT64_MAX: it was said */
	bool search;	  /* it is time to */
	bool over;
};

/* Most tasks wait for a moment only. */
static void look_whether_it_waits(struct follower *f)
{
	const struct logreader *t = f->r.t;
	bool waits = taskwatch_state(f->w) != TASKSTATE_RUNNING; /* paused, too */
	uint64_t now = clock_mono_ns();

	if (!t->waits || !waits) {
		f->tell_ns = 0;
	} else if (!f->tell_ns) {
		f->tell_ns = now + WAITS_MS * NS_PER_MS;
	} else if (now >= f->tell_ns) {
		f->tell_ns = UINT64_MAX;
		t->waits(t->data, t, taskwatch_place(f->w));
	}
}

static void begin_to_follow(struct follower *f, const struct logreader *t, struct taskwatch *w)
{
	*f = (struct follower){ .r = { .t = t, .fd = -1, .follows = true },
				.pace = { .searches = SEARCHES },
				.w = w };
}

/* Its first log is opened when there is one; nothing is shown yet. 0 or negative. */
static int look_at_it(struct follower *f, struct err *e)
{
	int code, ended = taskwatch_look(f->w, e); /* before the last read */

	if (ended < 0)
		return ended;
	f->r.over = ended;
	f->search = ended || is_time_to_search(&f->pace, &f->r, f->w);
	code = f->search && f->r.fd < 0 ? find_log(&f->r, e) : 0;
	return code < 0 ? code : 0;
}

/* What is new of it, as of the look. 0 or negative. */
static int show_new(struct follower *f, struct err *e)
{
	bool ended = f->r.over;
	int code = copy_more(&f->r, e);

	if (code == 0 && f->search && (ended || f->r.fd >= 0))
		while (!f->r.more && (code = find_log(&f->r, e)) > 0 &&
		       (code = copy_more(&f->r, e)) == 0)
			;
	f->over = ended && !f->r.more;
	if (f->over)
		end_log(&f->r);
	if (code == 0 && !ended)
		look_whether_it_waits(f);
	return code;
}

int logreader_follow(const struct logreader *t, struct taskwatch *w, struct err *e)
{
	struct follower f;
	int code = 0;

	begin_to_follow(&f, t, w);
	while (code == 0 && !f.over) {
		code = look_at_it(&f, e);
		if (code == 0)
			code = show_new(&f, e);
		if (code == 0 && !f.over) {
			if (!f.r.more)
				taskwatch_pause(w);
			code = t->turn ? t->turn(t->data) : 0;
		}
	}
	reader_clear(&f.r);
	return code;
}

/* The last one first: what ran before another is found with it, and shown before it, however long
 * we are kept from looking meanwhile. */
static int look_at_all(struct follower *all, size_t n, struct err *e)
{
	int code = 0;

	while (n-- && code == 0)
		if (!all[n].over)
			code = look_at_it(&all[n], e);
	return code;
}

int logreader_follow_all(const struct logreader *t, struct taskwatch **w, size_t n, struct err *e)
{
	cleanup_free struct follower *all = xcalloc(n, sizeof(*all));
	size_t left = n, from = 0;
	int code = 0;

	for (size_t i = 0; i < n; i++)
		begin_to_follow(&all[i], &t[i], w[i]);
	while (code == 0 && left) {
		struct taskwatch *lives = NULL;
		bool more = false;

		code = look_at_all(all, n, e);
		for (size_t i = from; i < n && code == 0 && !more; i++) {
			if (all[i].over)
				continue;
			code = show_new(&all[i], e);
			left -= all[i].over;
			lives = all[i].over ? lives : w[i];
			more = all[i].r.more;
			from = more ? i : 0; /* nobody's line is cut for another's */
		}
		if (code == 0 && lives) {
			if (!more)
				taskwatch_pause(lives);
			code = t->turn ? t->turn(t->data) : 0;
			if (code == 0 && t->out == stdout)
				code = fs_stdout_is_read(e);
		}
	}
	for (size_t i = 0; i < n; i++) {
		if (code == 0 && !t[i].optional && !all[i].r.path[0])
			code = no_log(&t[i], true, e);
		reader_clear(&all[i].r);
	}
	return code;
}
