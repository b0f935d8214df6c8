/* SPDX-License-Identifier: MIT */

/*
 * A hash table of tasks by id and element, and a generation: what an update does not meet again is
 * gone. running/, which is small, is read before and after pending/, so that a task is met
 * whichever way it goes meanwhile; where it was met last is where it is. A name that changes while
 * its directory is read may not be met at all: so pending/ is read once more where it has changed
 * meanwhile and something that was there is missed, or nothing was known yet; and a task is only
 * gone when two updates in a row did not meet it.
 *
 * Files of other users are looked at one by one only where others can write: in a directory that is
 * its owner's alone every file was put there by him.
 */

#include "spool/scan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "spool/own.h"

#define NOTES_MAX	4096
#define ROUNDS_MAX	3
#define TICK_NS		(10 * NS_PER_MS) /* of a kernel, at most */
#define SETTLED_S	2		 /* so old a change is no part of a tick that goes on */
#define AGAIN_DOUBLINGS 6 /* a bare file that cannot be taken is tried every minute at last */

/* A name's numbers as they are, and its texts one behind the other: most are short, and there may
 * be very many. */
struct entry {
	uint64_t id, element;
	uint32_t seen;	/* generation */
	uint8_t dir;	/* enum spool_dir */
	uint8_t at[2];	/* of name and agent in texts; lane is first */
	uint8_t n_text; /* bytes */
	uint8_t numbers[NAME_NUMBERS];
	char texts[];
};

struct raw {
	char *file;
	int64_t size;
	uint64_t ino, mtime_ns, ctime_ns;
	uint64_t first_ns; /* mono: there since then, however it has changed */
	uint64_t since_ns; /* mono: so since then, */
	uint64_t until_ns; /* as it was when it was looked at last, and not a moment more */
	uint64_t again_ns; /* mono: not before then */
	unsigned int failures;
	uint32_t seen;
	bool given;
};

/* The task that scan_find() and scan_next() gave last. */
struct given {
	struct scan_task found, next;
};

/* When something last came or went in a directory. */
struct changes {
	struct timespec pending, running;
};

struct scan {
	const struct spool *sp;
	struct given *given;
	unsigned int flags;
	size_t n, size; /* size: a power of two, or 0 */
	struct entry **slots;
	size_t counts[SPOOL_DIR_MAX];
	size_t held;
	uint32_t generation;
	struct changes read; /* of the directories when they were read last, where settled */
	bool settled;	     /* everything of then is known: while they stay so, so does all */
	uint64_t settle_ns;
	size_t n_raws;
	struct raw *raws;
	struct strbuf notes;
};

struct scan *scan_new(const struct spool *sp, unsigned int flags)
{
	struct scan *s = xcalloc(1, sizeof(*s));

	s->sp = sp;
	s->flags = flags;
	s->settle_ns = NS_PER_S;
	s->given = xcalloc(1, sizeof(*s->given));
	return s;
}

struct scan *scan_free(struct scan *s)
{
	if (!s)
		return NULL;
	for (size_t i = 0; i < s->size; i++)
		free(s->slots[i]);
	for (size_t i = 0; i < s->n_raws; i++)
		free(s->raws[i].file);
	free(s->given);
	free(s->slots);
	free(s->raws);
	strbuf_clear(&s->notes);
	free(s);
	return NULL;
}

/* ---- the table: open addressing, removal moves the followers back ---- */

static size_t slot_of(const struct scan *s, uint64_t id, uint64_t element)
{
	uint64_t h = (id * 0x9e3779b97f4a7c15ULL) ^ (element * 0xc2b2ae3d27d4eb4fULL);

	return (size_t)(h ^ h >> 32) & (s->size - 1);
}

static size_t find_slot(const struct scan *s, uint64_t id, uint64_t element)
{
	size_t i = slot_of(s, id, element);

	while (s->slots[i] && (s->slots[i]->id != id || s->slots[i]->element != element))
		i = (i + 1) & (s->size - 1);
	return i;
}

static struct entry *find(const struct scan *s, uint64_t id, uint64_t element)
{
	return s->size ? s->slots[find_slot(s, id, element)] : NULL;
}

static struct entry *pack(const struct task_name *n, enum spool_dir dir, uint32_t seen)
{
	const char *const texts[] = { n->lane, n->name, n->agent };
	size_t lens[ARRAY_LEN(texts)], at = 0;
	struct entry *entry;

	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		at += lens[i] = strlen(texts[i]) + 1;
	entry = xmalloc(sizeof(*entry) + at);
	*entry = (struct entry){ .id = n->id,
				 .element = n->element,
				 .seen = seen,
				 .dir = (uint8_t)dir,
				 .at = { (uint8_t)lens[0], (uint8_t)(lens[0] + lens[1]) },
				 .n_text = (uint8_t)at };
	(void)memcpy(entry->numbers, n, NAME_NUMBERS);
	at = 0;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		(void)memcpy(entry->texts + at, texts[i], lens[i]);
		at += lens[i];
	}
	return entry;
}

static void unpack(const struct entry *entry, struct scan_task *ret)
{
	struct task_name *n = &ret->name;

	(void)memcpy(n, entry->numbers, NAME_NUMBERS);
	(void)memcpy(n->lane, entry->texts, entry->at[0]);
	(void)memcpy(n->name, entry->texts + entry->at[0], entry->at[1] - entry->at[0]);
	(void)memcpy(n->agent, entry->texts + entry->at[1], entry->n_text - entry->at[1]);
	ret->dir = (enum spool_dir)entry->dir;
}

static bool is_named(const struct entry *entry, const struct task_name *n)
{
	return memcmp(entry->numbers, n, NAME_NUMBERS) == 0 && strcmp(entry->texts, n->lane) == 0 &&
	       strcmp(entry->texts + entry->at[0], n->name) == 0 &&
	       strcmp(entry->texts + entry->at[1], n->agent) == 0;
}

static void grow(struct scan *s)
{
	struct entry **old = s->slots;
	size_t old_size = s->size;

	s->size = old_size ? 2 * old_size : 256;
	s->slots = xcalloc(s->size, sizeof(*s->slots));
	for (size_t i = 0; i < old_size; i++)
		if (old[i])
			s->slots[find_slot(s, old[i]->id, old[i]->element)] = old[i];
	free(old);
}

static bool is_held(const struct entry *entry)
{
	unsigned int flags;

	(void)memcpy(&flags, entry->numbers + offsetof(struct task_name, flags), sizeof(flags));
	return flags & NAME_EDITED;
}

static void remove_slot(struct scan *s, size_t hole)
{
	s->counts[s->slots[hole]->dir]--;
	s->held -= is_held(s->slots[hole]);
	s->n--;
	free(take_ptr(s->slots[hole]));
	for (size_t i = (hole + 1) & (s->size - 1); s->slots[i]; i = (i + 1) & (s->size - 1)) {
		struct entry *e = s->slots[i];

		s->slots[i] = NULL;
		s->slots[find_slot(s, e->id, e->element)] = e;
	}
}

/* A new name of a task that is in the table, or a new task. */
static void put(struct scan *s, enum spool_dir dir, const struct task_name *n)
{
	struct entry **slot;

	if (2 * (s->n + 1) > s->size)
		grow(s);
	slot = &s->slots[find_slot(s, n->id, n->element)];
	if (*slot) {
		s->counts[(*slot)->dir]--;
		s->held -= is_held(*slot);
	} else {
		s->n++;
	}
	free(*slot);
	*slot = pack(n, dir, s->generation);
	s->counts[dir]++;
	s->held += is_held(*slot);
}

const struct scan_task *scan_find(const struct scan *s, uint64_t id, uint64_t element)
{
	const struct entry *entry = find(s, id, element);

	if (entry)
		unpack(entry, &s->given->found);
	return entry ? &s->given->found : NULL;
}

size_t scan_count(const struct scan *s, enum spool_dir dir)
{
	return s->counts[dir];
}

size_t scan_held(const struct scan *s)
{
	return s->held;
}

/* What of an entry says where it stands; small, because there may be very many. */
struct rank {
	uint64_t order; /* what runs, and then by priority */
	uint64_t id, element;
	const struct entry *entry;
};

static struct rank rank_of(const struct entry *entry)
{
	uint64_t priority;

	(void)memcpy(&priority, entry->numbers + offsetof(struct task_name, priority),
		     sizeof(priority));
	return (struct rank){ .order = (entry->dir == SPOOL_RUNNING ? 0 : SPEC_PRIORITY_MAX + 1) +
				       priority,
			      .id = entry->id,
			      .element = entry->element,
			      .entry = entry };
}

static int by_rank(const void *a, const void *b)
{
	const struct rank *x = a, *y = b;

	if (x->order != y->order)
		return x->order < y->order ? -1 : 1;
	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return x->element < y->element ? -1 : x->element > y->element;
}

size_t scan_list(const struct scan *s, struct scan_task **ret)
{
	cleanup_free struct rank *ranks = xcalloc(s->n + 1, sizeof(*ranks));
	size_t n = 0;

	for (size_t i = 0; i < s->size; i++)
		if (s->slots[i])
			ranks[n++] = rank_of(s->slots[i]);
	qsort(ranks, n, sizeof(*ranks), by_rank);
	*ret = xrealloc(NULL, n + 1, sizeof(**ret));
	for (size_t i = 0; i < n; i++)
		unpack(ranks[i].entry, &(*ret)[i]);
	return n;
}

const struct scan_task *scan_next(const struct scan *s, size_t *iter)
{
	while (*iter < s->size) {
		const struct entry *entry = s->slots[(*iter)++];

		if (!entry)
			continue;
		unpack(entry, &s->given->next);
		return &s->given->next;
	}
	return NULL;
}

void scan_note(struct scan *s, enum spool_dir dir, const struct task_name *n, bool there)
{
	const struct entry *entry = find(s, n->id, n->element);

	if (there) {
		put(s, dir, n);
	} else if (entry && entry->dir == dir && is_named(entry, n)) {
		remove_slot(s, find_slot(s, n->id, n->element));
		s->settled = false; /* it may be there, to be told anew */
	}
}

/* ---- bare files ---- */

/* What programs call a file that they still write, or an editor's copy. */
static bool is_unfinished(const char *file)
{
	static const char *const tails[] = { "~", ".tmp", ".part", ".swp", ".filepart" };

	for (size_t i = 0; i < ARRAY_LEN(tails); i++)
		if (str_has_suffix(file, tails[i]))
			return true;
	return false;
}

static int by_file(const void *a, const void *b)
{
	return strcmp(((const struct raw *)a)->file, ((const struct raw *)b)->file);
}

/*
 * True: it is not as it was, or not the same. One that comes again under the name of one that was
 * taken, before a reading has missed that, may be as large and as old: cp -p, ln, rsync -t. But all
 * of them set its ctime, or it is another file. We only ever take one away, so that its ctime does
 * not change by us.
 */
static bool note_stat(struct raw *raw, const struct stat *st)
{
	uint64_t mtime_ns = clock_timespec_ns(&st->st_mtim),
		 ctime_ns = clock_timespec_ns(&st->st_ctim);
	bool same = raw->size == st->st_size && raw->ino == st->st_ino &&
		    raw->mtime_ns == mtime_ns && raw->ctime_ns == ctime_ns;

	raw->size = st->st_size;
	raw->ino = st->st_ino;
	raw->mtime_ns = mtime_ns;
	raw->ctime_ns = ctime_ns;
	return !same;
}

static void saw_raw(struct scan *s, const char *file, size_t n_known)
{
	struct raw key = { .file = (char *)(uintptr_t)file };
	struct raw *raw = n_known ? bsearch(&key, s->raws, n_known, sizeof(key), by_file) : NULL;
	char path[SPOOL_PATH_MAX];
	struct stat st;
	uint64_t now = clock_mono_ns();

	if (is_unfinished(file) ||
	    spool_stat_now(s->sp->fd, spool_path(SPOOL_PENDING, file, path), &st) < 0)
		return;

	if (!raw) {
		s->raws = xgrow(s->raws, s->n_raws, sizeof(*raw));
		raw = &s->raws[s->n_raws++];
		*raw = (struct raw){ .file = xstrdup(file), .size = -1, .first_ns = now };
	}
	raw->until_ns = now;
	if (note_stat(raw, &st)) {
		raw->since_ns = raw->until_ns = clock_mono_ns();
		raw->given = false;
		raw->failures = 0;
		raw->again_ns = 0;
	}
	raw->seen = s->generation;
}

static void sort_raws(struct scan *s)
{
	if (s->n_raws)
		qsort(s->raws, s->n_raws, sizeof(*s->raws), by_file);
}

static void drop_unseen_raws(struct scan *s)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->n_raws; i++) {
		if (s->raws[i].seen == s->generation)
			s->raws[kept++] = s->raws[i];
		else
			free(s->raws[i].file);
	}
	/* The room for them grows at powers of two. */
	if (kept != s->n_raws) {
		size_t size = 1;

		while (size < kept)
			size *= 2;
		s->raws = xrealloc(s->raws, size, sizeof(*s->raws));
	}
	s->n_raws = kept;
	sort_raws(s);
}

const char *scan_raw_ripe(struct scan *s)
{
	uint64_t now = clock_mono_ns();

	for (size_t i = 0; i < s->n_raws; i++) {
		struct raw *raw = &s->raws[i];

		if (raw->given || raw->seen != s->generation || now < raw->again_ns ||
		    raw->until_ns < raw->since_ns + s->settle_ns)
			continue;
		raw->given = true;
		return raw->file;
	}
	return NULL;
}

unsigned int scan_raw_again(struct scan *s, const char *file)
{
	for (size_t i = 0; i < s->n_raws; i++) {
		struct raw *raw = &s->raws[i];

		if (strcmp(raw->file, file) != 0)
			continue;
		raw->failures += raw->failures < AGAIN_DOUBLINGS;
		raw->again_ns = clock_mono_ns() + (s->settle_ns << raw->failures);
		raw->given = false;
		return raw->failures;
	}
	return 0;
}

bool scan_raw_waits(const struct scan *s)
{
	uint64_t now = clock_mono_ns();

	for (size_t i = 0; i < s->n_raws; i++)
		if (!s->raws[i].given && s->raws[i].seen == s->generation &&
		    now - s->raws[i].first_ns < SCAN_RAW_WAIT_NS)
			return true;
	return false;
}

void scan_set_settle(struct scan *s, uint64_t settle_ns)
{
	s->settle_ns = settle_ns;
}

const char *scan_notes(const struct scan *s)
{
	return strbuf_str(&s->notes);
}

/* ---- reading ---- */

struct update {
	struct scan *s;
	enum spool_dir dir;
	bool check_owner;
	size_t n_raws; /* known before this round, sorted */
	scan_change_fn fn;
	void *data;
};

static void tell(const struct update *u, enum scan_change change, const struct scan_task *t)
{
	if (u->fn)
		u->fn(u->data, change, t);
}

static bool others_can_write(const struct spool *sp, const char *dir)
{
	struct stat st;

	return fstatat(sp->fd, dir, &st, 0) < 0 || st.st_mode & 0022 ||
	       !spool_trusts(sp, st.st_uid);
}

static bool counts_here(const struct update *u, const char *file)
{
	struct scan *s = u->s;
	char path[SPOOL_PATH_MAX];
	struct stat st;

	if (!u->check_owner)
		return true;
	(void)spool_path(u->dir, file, path);
	if (fstatat(s->sp->fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	if (spool_trusts(s->sp, st.st_uid))
		return true;
	if (s->notes.len < NOTES_MAX)
		strbuf_addf(&s->notes,
			    "%s is ignored: it belongs to user %u, who is not trusted here (trust "
			    "in instance.json)\n",
			    path, (unsigned int)st.st_uid);
	return false;
}

static void tell_name(const struct update *u, enum scan_change change, const struct task_name *n)
{
	struct scan_task t = { .name = *n, .dir = u->dir };

	tell(u, change, &t);
}

static void saw_task(struct update *u, const struct task_name *n)
{
	struct scan *s = u->s;
	struct entry *entry = find(s, n->id, n->element);
	struct scan_task was;

	if (!entry) {
		put(s, u->dir, n);
		tell_name(u, SCAN_ADDED, n);
		return;
	}
	unpack(entry, &was);
	/* Of two names the later one counts: the task was renamed between the readings. */
	if (entry->seen == s->generation && was.dir == u->dir && n->epoch < was.name.epoch)
		return;
	entry->seen = s->generation;
	if (was.dir == u->dir && is_named(entry, n))
		return;
	put(s, u->dir, n);
	tell_name(u, SCAN_CHANGED, n);
}

/* Not all filesystems say it in the listing; what cannot be asked counts as a file. */
static bool is_file(const struct update *u, const char *file, unsigned char type)
{
	char path[SPOOL_PATH_MAX];
	struct stat st;

	if (type != DT_UNKNOWN)
		return type == DT_REG;
	return fstatat(u->s->sp->fd, spool_path(u->dir, file, path), &st, AT_SYMLINK_NOFOLLOW) <
		       0 ||
	       S_ISREG(st.st_mode);
}

/* Something that lies in the place of a claim would seem to be somebody's for ever. */
static void put_aside(const struct update *u, const char *file)
{
	char path[SPOOL_PATH_MAX];

	(void)spool_path(u->dir, file, path);
	if (spool_refuse(u->s->sp, path, "it is no regular file", NULL) == 0 &&
	    u->s->notes.len < NOTES_MAX)
		strbuf_addf(&u->s->notes, "%s is no regular file, and in bad/ now\n", path);
}

static int saw_file(void *data, const char *file, unsigned char type)
{
	struct update *u = data;
	bool agent = u->s->flags & SCAN_RAW, named, regular;
	struct task_name n;

	named = name_parse(file, &n);
	regular = named && is_file(u, file, type);
	if (regular) {
		if (counts_here(u, file))
			saw_task(u, &n);
	} else if (named && agent && u->dir == SPOOL_RUNNING) {
		put_aside(u, file);
	} else if (u->dir == SPOOL_PENDING && u->s->flags & SCAN_RAW) {
		if (counts_here(u, file))
			saw_raw(u->s, file, u->n_raws);
	}
	return 0;
}

/* True: everything that is in the index was met in this update. */
static bool drop_unseen(struct update *u)
{
	struct scan *s = u->s;
	bool all = true;

	for (size_t i = 0; i < s->size; i++) {
		/* The follower that moves into the hole is looked at, too. */
		while (s->slots[i] && s->generation - s->slots[i]->seen > 1) {
			struct scan_task gone;

			unpack(s->slots[i], &gone);
			remove_slot(s, i);
			tell(u, SCAN_REMOVED, &gone);
		}
		all = all && (!s->slots[i] || s->slots[i]->seen == s->generation);
	}
	return all;
}

static int read_dir(struct update *u, enum spool_dir dir, struct err *e)
{
	const struct scan *s = u->s;

	u->dir = dir;
	u->check_owner = others_can_write(s->sp, spool_dir_name(dir));
	return spool_each(s->sp, spool_dir_name(dir), saw_file, u, e);
}

static struct changes changed_at(const struct spool *sp)
{
	struct changes at = { 0 };
	struct stat st;

	if (spool_stat_now(sp->fd, spool_dir_name(SPOOL_PENDING), &st) == 0)
		at.pending = st.st_mtim;
	if (spool_stat_now(sp->fd, spool_dir_name(SPOOL_RUNNING), &st) == 0)
		at.running = st.st_mtim;
	return at;
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* Of those in pending/ that are known. */
static bool misses_one(const struct scan *s)
{
	for (size_t i = 0; i < s->size; i++)
		if (s->slots[i] && s->slots[i]->dir == SPOOL_PENDING &&
		    s->slots[i]->seen != s->generation)
			return true;
	return false;
}

/*
 * Whether one in pending/ may have been renamed before it was met. A directory's time is as coarse
 * as a tick: what has changed in the last one may have changed since. Who knows nothing yet cannot
 * tell that one is missed, and goes by that time alone, since most of those come straight behind a
 * change.
 */
static bool may_hide_one(const struct scan *s, const struct timespec *before,
			 const struct timespec *after, uint64_t began_ns)
{
	bool changed = !same_time(before, after);

	if (s->generation == 1)
		return changed;
	return (changed || clock_timespec_ns(before) + TICK_NS > began_ns) && misses_one(s);
}

/*
 * A task that is claimed meanwhile is found in running/, one that comes back in pending/. One that
 * does both, as one that fails at once and is tried again at once, may be missed in each: so where
 * both have changed meanwhile they are read again, a few times. One that is renamed may be missed
 * in pending/.
 */
static int read_dirs(struct update *u, struct err *e)
{
	int r = read_dir(u, SPOOL_RUNNING, e);

	for (int round = 0; round < ROUNDS_MAX && r == 0; round++) {
		struct changes before = changed_at(u->s->sp), after;
		uint64_t began_ns = clock_wall_ns();
		bool again;

		strbuf_reset(&u->s->notes); /* once is enough */
		u->n_raws = u->s->n_raws;
		r = read_dir(u, SPOOL_PENDING, e);
		if (r == 0)
			r = read_dir(u, SPOOL_RUNNING, e);
		after = changed_at(u->s->sp);
		again = !same_time(&before.pending, &after.pending) &&
			!same_time(&before.running, &after.running);
		if (!again && round == 0)
			again = may_hide_one(u->s, &before.pending, &after.pending, began_ns);
		if (!again)
			break;
		sort_raws(u->s);
	}
	return r;
}

/* The time of a directory is as coarse as a tick, so it only says something once that tick is
 * over. */
static bool is_long_ago(const struct timespec *at, uint64_t now_s)
{
	return at->tv_sec > 0 && (uint64_t)at->tv_sec + SETTLED_S < now_s;
}

/* With very many tasks reading the names is nearly all that an idle agent does. What other kernels
 * write, whose owner is looked at, or which bare files are still being written, is read each time.
 */
static bool can_settle(const struct scan *s, const struct changes *at, uint64_t now_s)
{
	return !s->sp->network && !s->n_raws && is_long_ago(&at->pending, now_s) &&
	       is_long_ago(&at->running, now_s) &&
	       !others_can_write(s->sp, spool_dir_name(SPOOL_PENDING)) &&
	       !others_can_write(s->sp, spool_dir_name(SPOOL_RUNNING));
}

int scan_update(struct scan *s, scan_change_fn fn, void *data, struct err *e)
{
	struct update u = { .s = s, .fn = fn, .data = data };
	struct changes before = changed_at(s->sp);
	uint64_t now_s = clock_wall_ns() / NS_PER_S;
	bool all;
	int r;

	if (s->settled && can_settle(s, &before, now_s) &&
	    same_time(&before.pending, &s->read.pending) &&
	    same_time(&before.running, &s->read.running))
		return 0;
	s->settled = false;
	s->generation++;
	r = read_dirs(&u, e);
	if (r < 0) {
		s->generation--; /* nothing is gone because it could not be read */
		return r;
	}
	all = drop_unseen(&u);
	drop_unseen_raws(s);
	s->read = before;
	s->settled = all && can_settle(s, &before, now_s);
	return 0;
}

bool scan_was_read(const struct scan *s)
{
	return s->generation > 0;
}

uint32_t scan_generation(const struct scan *s)
{
	return s->generation;
}

int scan_look(struct scan *s, const char *file, scan_change_fn fn, void *data)
{
	struct update u = { .s = s, .dir = SPOOL_PENDING, .fn = fn, .data = data };
	char path[SPOOL_PATH_MAX];
	const struct entry *entry;
	struct task_name n;
	bool known, there;

	if (file[0] == '.')
		return 0;
	if (!name_parse(file, &n))
		return s->flags & SCAN_RAW ? SCAN_UNSURE : 0;
	entry = find(s, n.id, n.element);
	known = entry && entry->dir == SPOOL_PENDING && is_named(entry, &n);
	there = spool_exists(s->sp, spool_path(SPOOL_PENDING, file, path));
	if (known == there)
		return 0;
	if (known)
		return SCAN_UNSURE;
	u.check_owner = others_can_write(s->sp, spool_dir_name(SPOOL_PENDING));
	if (counts_here(&u, file))
		saw_task(&u, &n);
	return 0;
}

struct each_name {
	scan_name_fn fn;
	void *data;
	const char *dir;
	const struct spool *sp;
	struct err *e;
};

static int pass_name(void *data, const char *file, unsigned char type)
{
	const struct each_name *each = data;
	struct task_name n;

	return name_parse(file, &n) ? each->fn(each->data, &n, each->dir) : 0;
}

int scan_dir(const struct spool *sp, const char *dir, scan_name_fn fn, void *data, struct err *e)
{
	struct each_name each = { .fn = fn, .data = data, .dir = dir };

	return spool_or_empty(sp, dir, spool_each(sp, dir, pass_name, &each, e));
}

static int pass_day(void *data, const char *file, unsigned char type)
{
	const struct each_name *each = data;
	char dir[SPOOL_PATH_MAX];

	if (type != DT_DIR && type != DT_UNKNOWN)
		return 0;
	return scan_dir(each->sp, spool_path(SPOOL_DONE, file, dir), each->fn, each->data, each->e);
}

static int scan_done(const struct spool *sp, scan_name_fn fn, void *data, struct err *e)
{
	struct each_name each = { .fn = fn, .data = data, .sp = sp, .e = e };

	return spool_or_empty(sp, spool_dir_name(SPOOL_DONE),
			      spool_each(sp, spool_dir_name(SPOOL_DONE), pass_day, &each, e));
}

int scan_dirs(const struct spool *sp, const enum spool_dir *dirs, size_t n, scan_name_fn fn,
	      void *data, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++)
		r = dirs[i] == SPOOL_DONE ? scan_done(sp, fn, data, e)
					  : scan_dir(sp, spool_dir_name(dirs[i]), fn, data, e);
	return r;
}

int scan_ended(const struct spool *sp, scan_name_fn fn, void *data, struct err *e)
{
	static const enum spool_dir ended[] = { SPOOL_FAILED, SPOOL_CANCELLED, SPOOL_DONE };

	return scan_dirs(sp, ended, ARRAY_LEN(ended), fn, data, e);
}
