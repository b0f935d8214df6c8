/* SPDX-License-Identifier: MIT */

/*
 * The record comes first, then the line in the events, then the rename: who finds a file in
 * running/ with an end in it only has to rename it. Clients own a pending file for the moment of an
 * edit by renaming it to a name with the flag h, which nobody claims and no other client renames; a
 * forgotten one is ended by whoever meets it, be it another client or an agent.
 */

#include "spool/transit.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "spool/own.h"
#include "spool/scan.h"
#include "spool/task_text.h"
#include "spool/usage.h"

#define COMPACT_BYTES (32UL << 10) /* of records: about a hundred attempts */
#define HOLD_LOOK_US  2000

/* The directories on the way to a file. */
static int make_way(const struct spool *sp, const char *path, struct err *e)
{
	char dir[SPOOL_PATH_MAX];
	int r = 0;

	for (const char *at = strchr(path, '/'); at && r == 0; at = strchr(at + 1, '/')) {
		(void)str_print(dir, sizeof(dir), "%.*s", (int)(at - path), path);
		r = spool_mkdirat(sp, dir, e);
	}
	return r;
}

/* Each day has its directory, made with its first task. */
static int move(const struct spool *sp, const char *from, const char *to, struct err *e)
{
	int r = spool_rename(sp, from, to, e);

	if (r != -ENOENT || spool_is_gone(sp, from))
		return r;
	r = make_way(sp, to, e);
	if (r == 0)
		r = spool_rename(sp, from, to, e);
	/* -ENOENT tells the caller that the task is not there, and must mean nothing else. */
	return r == -ENOENT && !spool_is_gone(sp, from) ? -EIO : r;
}

int transit_commit(const struct spool *sp, const char *from, struct task_name *n,
		   enum task_result result, uint64_t ended_ns, unsigned int exit, struct err *e)
{
	char day[SPOOL_PATH_MAX], to[SPOOL_PATH_MAX], file[NAME_FILE_MAX];
	struct task_name ended = *n;

	ended.agent[0] = '\0';
	ended.begin_s = 0;
	ended.edits = 0;
	ended.flags &= ~(NAME_PAUSED | NAME_EDITED);
	ended.ended_s = ended_ns / NS_PER_S;
	ended.exit = exit;
	if (result == RESULT_DONE)
		(void)spool_day_path(ended_ns, day);
	else
		(void)str_copy(
			day, sizeof(day),
			spool_dir_name(result == RESULT_FAILED ? SPOOL_FAILED : SPOOL_CANCELLED));
	(void)str_print(to, sizeof(to), "%.40s/%s", day, name_format(&ended, file));

	int r = move(sp, from, to, e);

	if (r == 0)
		*n = ended;
	return r;
}

int transit_end(const struct spool *sp, struct endlog *ev, const struct claim *c,
		const struct spool_end *end, struct err *e)
{
	struct task_name n = c->name;
	int r = record_append(sp, c->path, record_end(end), sp->no_syncfs, e);

	if (r == 0 && ev)
		r = endlog_add_end(ev, n.id, 0, end, e);
	return r == 0 ? transit_commit(sp, c->path, &n, end->result, end->ended_ns, end->exit, e)
		      : r;
}

/* ---- records of what is over ---- */

/*
 * A task that is tried for ever gets three records per attempt, and its file is read for each. So
 * what is over becomes one record, a `past`, when there is much of it.
 *
 * In place: the task's own text stays where it is, and the new records are written over the old
 * ones with one call, filled up with empty lines to the same length; then the file is cut. So the
 * task is whole whatever happens, and nothing can come to be where the claim was taken away: a
 * file that replaced this one would bring a claim back that another agent has.
 */
/* Edits stay as they are, one by one; of all other records only the use stays. */
static void sort_records(const char *text, const char *end, struct strbuf *edits, struct usage *u)
{
	for (const char *stop; text < end && (stop = memchr(text, '\n', (size_t)(end - text)));
	     text = stop + 1) {
		json_t *o = json_loadb(text, (size_t)(stop - text), 0, NULL);
		const char *event = json_string_value(json_object_get(o, "event"));

		if (event && strcmp(event, "edit") == 0)
			strbuf_add(edits, text, (size_t)(stop + 1 - text));
		else
			usage_add(u, o);
		json_decref(o);
	}
}

/* The new records behind the task's text, which ends at *ret_used. false: as many, or they are not
 * for us to change. */
static bool compact(const struct claim *c, const char *text, size_t len, const char *requeue,
		    size_t *ret_used, struct strbuf *ret)
{
	struct usage u = { .asked = c->name.gpus };
	struct task_history h = { .epoch = 0 };
	struct task_spec *spec = NULL;
	json_t *past;

	if (spec_read(text, len, &spec, ret_used, NULL) < 0)
		return false;
	history_read(text + *ret_used, len - *ret_used, &h, spec);
	past = record_past(c->name.epoch, h.attempts, h.grown ? spec->memory : 0);
	(void)spec_free(spec);
	strbuf_addc(ret, '\n');
	sort_records(text + *ret_used, text + len, ret, &u);
	usage_put(&u, past);

	cleanup_free char *line = record_line(past);

	strbuf_adds(ret, line);
	strbuf_adds(ret, requeue);
	return h.epoch <= c->name.epoch && ret->len <= (len - *ret_used) / 2;
}

/* durable: nothing else will sync it. */
static int write_over(int fd, const struct strbuf *records, size_t used, size_t len, bool durable)
{
	size_t room = len - used;
	cleanup_free char *block = xmalloc(room);
	struct stat st;
	int r;

	(void)memset(block, '\n', room);
	(void)memcpy(block, records->data, records->len);
	for (size_t done = 0; done < room;) {
		ssize_t n = pwrite(fd, block + done, room - done, (off_t)(used + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		done += (size_t)n;
	}
	/* Where the file cannot be cut, because somebody appends, empty lines stay. */
	r = fdatasync(fd) < 0 ? -errno : 0;
	if (r == 0 && fstat(fd, &st) == 0 && st.st_size == (off_t)len)
		(void)!ftruncate(fd, (off_t)(used + records->len));
	return durable ? r : 0;
}

/* 0: it is done. */
static int try_compact(const struct spool *sp, const struct claim *c, const char *requeue)
{
	cleanup_fd int fd = spool_open_file(sp, c->path, O_RDWR, NULL, NULL);
	cleanup_strbuf struct strbuf records = STRBUF_INIT;
	cleanup_free char *text = NULL;
	size_t len, used;
	int r = fd < 0 ? fd : spool_read(sp, c->path, SPEC_FILE_MAX, &text, &len, NULL);

	if (r < 0)
		return r;
	if (!compact(c, text, len, requeue, &used, &records))
		return -EAGAIN;
	return write_over(fd, &records, used, len, sp->no_syncfs);
}

int transit_append_requeue(const struct spool *sp, const struct claim *c, json_t *requeue,
			   struct err *e)
{
	if (c->record_bytes > COMPACT_BYTES) {
		cleanup_free char *line = record_line(json_incref(requeue));

		if (try_compact(sp, c, line) == 0) {
			json_decref(requeue);
			return 0;
		}
	}
	return record_append(sp, c->path, requeue, sp->no_syncfs, e);
}

/* ---- a claim goes back ---- */

static uint64_t name_seconds(uint64_t ns)
{
	return (ns + NS_PER_S - 1) / NS_PER_S;
}

bool transit_backs_off(const struct task_name *n, const struct task_history *h)
{
	return n->begin_s && h->not_before_ns && n->begin_s == name_seconds(h->not_before_ns);
}

void transit_requeued_name(struct task_name *n, uint64_t not_before_ns)
{
	n->epoch++;
	n->agent[0] = '\0';
	n->begin_s = name_seconds(not_before_ns);
}

int transit_requeue(const struct spool *sp, struct endlog *ev, const struct claim *c,
		    const struct spool_again *again, struct err *e)
{
	char to[SPOOL_PATH_MAX], file[NAME_FILE_MAX];
	struct task_name n = c->name;
	int r;

	transit_requeued_name(&n, again->not_before_ns);
	r = transit_append_requeue(sp, c, record_requeue(again, n.epoch, clock_wall_ns()), e);
	if (r == 0 && ev)
		r = endlog_add_requeue(ev, n.id, 0, n.epoch, again, e);
	return r == 0 ? move(sp, c->path, spool_path(SPOOL_PENDING, name_format(&n, file), to), e)
		      : r;
}

struct later {
	const struct claim *claim;
	char path[SPOOL_PATH_MAX]; /* "": not found */
};

static int is_later(void *data, const struct task_name *n, const char *dir)
{
	struct later *l = data;
	char file[NAME_FILE_MAX];

	if (n->id != l->claim->name.id || n->element || n->epoch <= l->claim->name.epoch)
		return 0;
	(void)str_print(l->path, sizeof(l->path), "%.40s/%s", dir, name_format(n, file));
	return 1;
}

int transit_supersede(const struct spool *sp, const struct claim *c, const struct spool_end *end,
		      struct err *e)
{
	static const enum spool_dir dirs[] = { SPOOL_PENDING, SPOOL_RUNNING, SPOOL_FAILED,
					       SPOOL_CANCELLED, SPOOL_DONE };
	struct later l = { .claim = c };
	json_t *record;
	int r = scan_dirs(sp, dirs, ARRAY_LEN(dirs), is_later, &l, e);

	if (r <= 0)
		return r < 0 ? r : TRANSIT_GONE;
	record = record_end(end);
	(void)json_object_set_new(record, "superseded", json_true());
	return record_append(sp, l.path, record, false, e);
}

/* ---- clients ---- */

static char *pending_path(const struct task_name *n, char *buf)
{
	char file[NAME_FILE_MAX];

	return spool_path(SPOOL_PENDING, name_format(n, file), buf);
}

static int gone_or(int r)
{
	return r == -ENOENT ? TRANSIT_GONE : r;
}

/*
 * Renames a held task as well (others: change_name()), and never to a name that the file had
 * before: a client of a file server that remembers such a name may take a rename for made that
 * was not. Besides, a reader that has seen none of several renames has to see that there is
 * something new.
 */
static int rename_to(const struct spool *sp, struct task_name *n, const struct task_name *to,
		     struct err *e)
{
	char from_path[SPOOL_PATH_MAX], to_path[SPOOL_PATH_MAX];
	struct task_name next = *to;
	int r;

	next.edits = n->edits + 1;
	(void)pending_path(n, from_path);
	(void)pending_path(&next, to_path);
	/* Of two clients that begin an edit one must lose. */
	r = (to->flags & NAME_EDITED ? spool_take : spool_rename)(sp, from_path, to_path, e);
	if (r == 0)
		*n = next;
	return gone_or(r);
}

/* A task that another client holds is not ours to rename: that client would not find it again. */
static int change_name(const struct spool *sp, struct task_name *n, const struct task_name *to,
		       struct err *e)
{
	return n->flags & NAME_EDITED ? TRANSIT_GONE : rename_to(sp, n, to, e);
}

int transit_cancel(const struct spool *sp, const struct task_name *n, const char *reason,
		   struct err *e)
{
	char from[SPOOL_PATH_MAX], to[SPOOL_PATH_MAX], file[NAME_FILE_MAX];
	struct spool_end end = { .result = RESULT_CANCELLED,
				 .epoch = n->epoch,
				 .begun_ns = clock_wall_ns(),
				 .ended_ns = clock_wall_ns() };
	struct task_name ended = *n;
	int r = transit_commit(sp, pending_path(n, from), &ended, RESULT_CANCELLED, end.ended_ns, 0,
			       e);

	if (r < 0)
		return gone_or(r);
	/* The directory says that the task was cancelled; the record only says why. */
	(void)str_copy(end.reason, sizeof(end.reason), reason);
	(void)record_append(sp, spool_path(SPOOL_CANCELLED, name_format(&ended, file), to),
			    record_end(&end), false, NULL);
	return 0;
}

int transit_priority(const struct spool *sp, struct task_name *n, uint64_t priority, struct err *e)
{
	struct task_name to = *n;

	if (priority > SPEC_PRIORITY_MAX)
		return err_set(e, -ERANGE, "a priority is at most %d", SPEC_PRIORITY_MAX);
	to.priority = priority;
	return change_name(sp, n, &to, e);
}

int transit_pause(const struct spool *sp, struct task_name *n, bool paused, struct err *e)
{
	struct task_name to = *n;

	to.flags = paused ? n->flags | NAME_PAUSED : n->flags & ~NAME_PAUSED;
	return change_name(sp, n, &to, e);
}

int transit_begin(const struct spool *sp, struct task_name *n, uint64_t begin_s, struct err *e)
{
	struct task_name to = *n;

	to.begin_s = begin_s;
	return change_name(sp, n, &to, e);
}

int transit_skip_backoff(const struct spool *sp, struct task_name *n, struct err *e)
{
	char path[SPOOL_PATH_MAX];
	struct task_file t;
	bool waits;
	int r;

	if (!n->begin_s)
		return 0;
	r = task_file_read(sp, pending_path(n, path), &t, e);
	if (r < 0)
		return gone_or(r);
	waits = transit_backs_off(n, &t.history);
	task_file_clear(&t);
	return waits ? transit_begin(sp, n, 0, e) : 0;
}

/* Elements that have ended, run or wait are known by their numbers: those stay what they are. Of an
 * array may change how many run at once. */
static int check_elements(const struct index_range *was, uint64_t nodes_were,
			  const struct task_spec *is, const json_t *set, struct err *e)
{
	const struct index_range *now = &is->array;
	bool same = was->set == now->set && was->from == now->from && was->to == now->to;

	if (is->nodes != nodes_were && (is->nodes > 1 || nodes_were > 1))
		return err_set(e, -EINVAL,
			       "on how many nodes a task runs cannot be changed; stop it and "
			       "submit what you want");
	if (same && !json_object_get(set, "sweep") && !json_object_get(set, "commands"))
		return 0;
	return err_set(e, -EINVAL,
		       "which elements a task has cannot be changed (of an array only how many run "
		       "at once); stop it and submit what you want");
}

static int check_edit(struct task_file *t, json_t *set, struct err *e)
{
	struct index_range was = t->spec->array;
	uint64_t nodes_were = t->spec->nodes;
	size_t i = 0;
	const char *key;
	json_t *value;

	for (const struct task_option *o = task_option_at(i); o; o = task_option_at(++i))
		if (o->flags & OPTION_IN_NAME && json_object_get(set, o->key))
			return err_set(e, -EINVAL,
				       "%s: not part of an edit; tenure priority, pause and resume "
				       "change what a file's name says",
				       o->key);
	json_object_foreach(set, key, value)
	{
		int r = spec_set_json(t->spec, key, value, e);

		if (r < 0)
			return r;
	}
	return check_elements(&was, nodes_were, t->spec, set, e) < 0 ? -EINVAL
								     : spec_check(t->spec, e);
}

/* The file is ours, under the name `held`. */
static int edit_held(const struct spool *sp, const struct task_name *held,
		     const struct transit_edit *edit, struct err *e)
{
	char path[SPOOL_PATH_MAX];
	struct task_file t;
	int r = task_file_read(sp, pending_path(held, path), &t, e);

	if (r < 0)
		return r;
	if (edit->complete)
		r = edit->complete(edit->data, t.spec, edit->set, e);
	if (r == 0)
		r = check_edit(&t, edit->set, e);
	if (r == 0)
		r = record_append(sp, path, record_edit(edit->set, clock_wall_ns()), true, e);
	task_file_clear(&t);
	return r;
}

static int put_in_name(struct task_name *n, const struct transit_edit *edit, struct err *e)
{
	if (edit->priority && *edit->priority > SPEC_PRIORITY_MAX)
		return err_set(e, -ERANGE, "a priority is at most %d", SPEC_PRIORITY_MAX);
	n->priority = edit->priority ? *edit->priority : n->priority;
	n->begin_s = edit->begin_s ? *edit->begin_s : n->begin_s;
	if (edit->paused)
		n->flags = *edit->paused ? n->flags | NAME_PAUSED : n->flags & ~NAME_PAUSED;
	return 0;
}

/* like: what the name says that the file does not. */
static int free_held(const struct spool *sp, struct task_name *n, const struct task_name *like,
		     struct err *e)
{
	struct task_name to = *like;
	char path[SPOOL_PATH_MAX];
	struct task_file t;

	int r = task_file_read(sp, pending_path(n, path), &t, e);

	if (r < 0 && r != -EINVAL) /* stays held; who meets it in a minute comes by */
		return gone_or(r);
	/* Whatever was appended, the name must agree with the file as it is now. */
	if (r == 0) {
		name_of_spec(t.spec, n->id, &to);
		to.epoch = n->epoch;
		to.priority = like->priority;
		to.begin_s = like->begin_s;
		to.flags = (to.flags & ~NAME_PAUSED) | (like->flags & NAME_PAUSED);
		task_file_clear(&t);
	}
	to.flags &= ~NAME_EDITED;
	return rename_to(sp, n, &to, e);
}

int transit_free_edit(const struct spool *sp, struct task_name *n, struct err *e)
{
	const struct task_name same = *n;

	return free_held(sp, n, &same, e);
}

int transit_free_forgotten(const struct spool *sp, struct task_name *n, struct err *e)
{
	char path[SPOOL_PATH_MAX];
	struct stat st;

	if (fstatat(sp->fd, pending_path(n, path), &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? TRANSIT_GONE
				       : err_sys(e, errno, "stat %s/%s", sp->path, path);
	/* The rename set the time of change, by the clock of who keeps the file, which is asked
	 * when it may be so far. */
	uint64_t end_s = (uint64_t)st.st_ctim.tv_sec + TRANSIT_HOLD_S;

	if (clock_wall_ns() / NS_PER_S < end_s || spool_now_or_ours(sp) / NS_PER_S < end_s)
		return TRANSIT_HELD;
	return transit_free_edit(sp, n, e);
}

int transit_await(const struct spool *sp, struct task_name *n, unsigned int limit_ms, struct err *e)
{
	uint64_t end_ns = clock_mono_ns() + limit_ms * NS_PER_MS;

	while (n->flags & NAME_EDITED) {
		int r = transit_free_forgotten(sp, n, e);

		if (r != TRANSIT_HELD)
			return r;
		if (clock_mono_ns() >= end_ns)
			return TRANSIT_HELD;
		(void)usleep(HOLD_LOOK_US);
	}
	return 0;
}

int transit_edit(const struct spool *sp, struct task_name *n, const struct transit_edit *edit,
		 struct err *e)
{
	struct task_name held = *n, like = *n;
	int freed, r = put_in_name(&like, edit, e);

	if (r < 0)
		return r;
	if (!edit->complete && !json_object_size(edit->set))
		return change_name(sp, n, &like, e);
	held.flags |= NAME_EDITED;
	r = change_name(sp, n, &held, e);
	if (r != 0)
		return r;
	r = edit_held(sp, n, edit, e);
	/* A task that was not changed is as it was. */
	freed = r < 0 ? transit_free_edit(sp, n, NULL) : free_held(sp, n, &like, e);
	return r == -ENOENT ? TRANSIT_GONE : r < 0 ? r : freed;
}

int transit_hold(const struct spool *sp, struct task_name *n, const char *dir, struct err *e)
{
	char file[NAME_FILE_MAX], from[SPOOL_PATH_MAX], held[SPOOL_PATH_MAX];
	struct task_name to = *n;
	int r;

	if (n->flags & NAME_EDITED)
		return TRANSIT_GONE;

	to.epoch++;
	to.ended_s = 0;
	to.exit = 0;
	to.flags |= NAME_EDITED;
	(void)str_print(from, sizeof(from), "%.40s/%s", dir, name_format(n, file));
	r = spool_take(sp, from, pending_path(&to, held), e);
	if (r == 0)
		*n = to;
	return gone_or(r);
}

int transit_undo_hold(const struct spool *sp, struct task_name *n, const struct task_name *was,
		      const char *dir, int r)
{
	char file[NAME_FILE_MAX], from[SPOOL_PATH_MAX], to[SPOOL_PATH_MAX];

	(void)str_print(to, sizeof(to), "%.40s/%s", dir, name_format(was, file));
	if (move(sp, pending_path(n, from), to, NULL) == 0)
		*n = *was;
	else
		(void)transit_free_edit(sp, n, NULL);
	return gone_or(r);
}

int transit_retry(const struct spool *sp, struct task_name *n, const char *dir, bool durable,
		  struct err *e)
{
	const struct spool_again again = { .reason = "asked for again" };
	const struct task_name was = *n;
	char path[SPOOL_PATH_MAX];
	int r = transit_hold(sp, n, dir, e);

	if (r != 0)
		return r;
	r = record_append(sp, pending_path(n, path),
			  record_requeue(&again, n->epoch, clock_wall_ns()),
			  durable || sp->no_syncfs, e);
	if (r == 0)
		r = transit_free_edit(sp, n, e);
	return r < 0 ? transit_undo_hold(sp, n, &was, dir, r) : r;
}
