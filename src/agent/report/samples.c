/* SPDX-License-Identifier: MIT */

/*
 * The file: a head of one sample's size, then SAMPLES_MAX samples, each at its time modulo that. It
 * is of this machine's byte order, since it never leaves it. A sample is written by one pwrite() of
 * 32 bytes that lie within one sector: after a power loss it is the old one, the new one, or its
 * sum is wrong.
 */
#include "agent/report/samples.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"

#define RING_MAGIC   0x736d706c6e746e31ULL /* "1ntnlpms" */
#define RING_VERSION 1

struct ring_head {
	uint64_t magic;
	uint32_t version;
	uint32_t sample_s;
	uint32_t sample_size;
	uint32_t n;
	uint64_t pad;
};

#define FILE_SIZE ((off_t)(sizeof(struct ring_head) + sizeof(struct sample_ring)))

_Static_assert(sizeof(struct sample) == 32 && sizeof(struct ring_head) == 32,
	       "a sample never crosses a sector");
_Static_assert(SAMPLES_MAX *SAMPLE_S == 24 * 3600, "a day");

static const struct ring_head head_of_ours = { .magic = RING_MAGIC,
					       .version = RING_VERSION,
					       .sample_s = SAMPLE_S,
					       .sample_size = sizeof(struct sample),
					       .n = SAMPLES_MAX };

static const char *const state_names[] = {
	[SAMPLE_GAP] = "gap",	[SAMPLE_BLIND] = "blind",     [SAMPLE_LEFT] = "left",
	[SAMPLE_IDLE] = "idle", [SAMPLE_HELD] = "held",	      [SAMPLE_WORKLOAD] = "workload",
	[SAMPLE_TASK] = "task", [SAMPLE_FOREIGN] = "foreign", [SAMPLE_FAULT] = "fault",
};
_Static_assert(ARRAY_LEN(state_names) == SAMPLE_STATE_MAX, "a name for every state");

const char *sample_state_name(unsigned int state)
{
	return state < SAMPLE_STATE_MAX ? state_names[state] : "?";
}

/* -------- one sample -------- */

/* Fletcher's, over all bytes but its own. */
static uint16_t sum_of(const struct sample *s)
{
	struct sample copy = *s;
	const unsigned char *p = (const unsigned char *)&copy;
	unsigned int a = 1, b = 0;

	copy.sum = 0;
	for (size_t i = 0; i < sizeof(copy); i++) {
		a = (a + p[i]) % 255;
		b = (b + a) % 255;
	}
	return (uint16_t)(b << 8 | a);
}

enum sample_state sample_state_of(const struct view *v, uint32_t slot)
{
	const struct dev_status *d = &v->devices[slot];

	if (!v->guard_up || !v->seen[slot])
		return SAMPLE_BLIND;
	if (v->workloads && v->workloads[slot].runs)
		return SAMPLE_WORKLOAD;
	if (view_use_of(d) == VIEW_BY_TASK)
		return SAMPLE_TASK;
	if (d->state == DEV_HOLDING || d->state == DEV_HELD)
		return SAMPLE_HELD;
	if (d->xid)
		return SAMPLE_FAULT;
	if (!(v->guard.flags & GUARD_SEES) || !(d->known & KNOWN_MEM))
		return SAMPLE_BLIND;
	if (d->state == DEV_LEFT &&
	    !d->n_leases) /* nobody is judged there, but processes are listed */
		return d->n_procs ? SAMPLE_FOREIGN : SAMPLE_LEFT;
	if (d->state == DEV_YIELDING || (!(d->flags & DEVICE_VACANT) && !d->n_leases))
		return SAMPLE_FOREIGN;
	return SAMPLE_IDLE;
}

/* Where a task is alone, all that is in use is its; beside somebody else nobody knows here. */
static bool ours_of(const struct dev_status *d, enum sample_state state, uint64_t *ret)
{
	bool task = state == SAMPLE_TASK || state == SAMPLE_WORKLOAD;

	*ret = task ? d->mem_used : d->held_bytes;
	return !task || (d->known & KNOWN_MEM && d->flags & DEVICE_VACANT);
}

void sample_add(struct sample_sums *s, const struct view *v, int slot)
{
	const struct dev_status *d = slot < 0 ? NULL : &v->devices[slot];
	enum sample_state state = d ? sample_state_of(v, (uint32_t)slot) : SAMPLE_BLIND;
	uint64_t ours;

	s->looks[state]++;
	if (!d || state == SAMPLE_BLIND)
		return;
	if (d->known & KNOWN_UTIL) {
		s->util += d->util;
		s->n_util++;
	}
	if (d->known & KNOWN_POWER) {
		s->power_mw += d->power_mw;
		s->n_power++;
	}
	if (d->known & KNOWN_MEM) {
		s->used += d->mem_used;
		s->n_used++;
	}
	if (d->known & KNOWN_TEMP) {
		s->temp_c = d->temp_c > s->temp_c ? d->temp_c : s->temp_c;
		s->n_temp++;
	}
	if (ours_of(d, state, &ours)) {
		s->ours += ours;
		s->n_ours++;
	}
	if (state == SAMPLE_TASK) {
		s->task = d->lease.task;
		s->element = d->lease.element;
	}
}

/* Most of them; where two are equal the one that says more. */
static enum sample_state most_of(const unsigned int *n)
{
	enum sample_state best = SAMPLE_GAP;

	for (unsigned int i = 0; i < SAMPLE_STATE_MAX; i++)
		if (n[i] && n[i] >= n[best])
			best = i;
	return best;
}

static uint64_t mean_of(uint64_t sum, unsigned int n, uint64_t unknown)
{
	uint64_t mean = n ? (sum + n / 2) / n : unknown;

	return mean < unknown ? mean : n ? unknown - 1 : unknown;
}

struct sample sample_of(const struct sample_sums *s)
{
	struct sample one = {
		.at = s->at,
		.state = (uint8_t)most_of(s->looks),
		.util = (uint8_t)mean_of(s->util, s->n_util, SAMPLE_NO_UTIL),
		.power_dw = (uint16_t)mean_of(s->power_mw / 100, s->n_power, SAMPLE_NO_POWER),
		.temp_c = (uint8_t)mean_of(s->temp_c, s->n_temp ? 1 : 0, SAMPLE_NO_TEMP),
		.used_mib = (uint32_t)mean_of(s->used >> 20, s->n_used, SAMPLE_NO_MEM),
		.ours_mib = (uint32_t)mean_of(s->ours >> 20, s->n_ours, SAMPLE_NO_MEM),
		.element = s->task ? s->element : 0,
		.task = s->task,
	};

	one.sum = sum_of(&one);
	return one;
}

/* The day that ends with now, which is the last sample's time at most. */
static bool is_of_the_day(uint32_t at, uint32_t now)
{
	return at && at <= now && now - at < SAMPLES_MAX;
}

bool samples_put(struct sample_ring *ring, const struct sample *s, uint32_t now)
{
	if (!is_of_the_day(s->at, now) || s->state == SAMPLE_GAP || s->state >= SAMPLE_STATE_MAX ||
	    s->sum != sum_of(s))
		return false;
	ring->s[s->at % SAMPLES_MAX] = *s;
	return true;
}

/* -------- files -------- */

/* A regular file of ours, with one name, and as large as it has to be. */
static bool is_ours(int fd)
{
	struct ring_head head;
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
	       st.st_nlink == 1 && st.st_size == FILE_SIZE &&
	       pread(fd, &head, sizeof(head), 0) == (ssize_t)sizeof(head) &&
	       memcmp(&head, &head_of_ours, sizeof(head)) == 0;
}

/* 0 and *ret; -ENOENT: it is not there, or not ours; -errno. */
static int open_ours(const char *path, int flags, int *ret)
{
	/* One that is a pipe must keep nobody waiting. */
	cleanup_fd int fd = open(path, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd < 0)
		return errno == ELOOP || errno == EISDIR || errno == ENXIO ? -ENOENT : -errno;
	if (!is_ours(fd))
		return -ENOENT;
	*ret = take_fd(fd);
	return 0;
}

/* Beside it, and then in its place: whoever reads meanwhile has one or the other. */
static int replace(const char *path, int *ret, struct err *e)
{
	cleanup_free char *fresh = xasprintf("%s.new", path);
	cleanup_fd int fd = -1;
	struct stat st;

	(void)unlink(fresh);
	fd = open(fresh, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, errno, "make %s", fresh);
	if (ftruncate(fd, FILE_SIZE) < 0 ||
	    pwrite(fd, &head_of_ours, sizeof(head_of_ours), 0) != (ssize_t)sizeof(head_of_ours)) {
		int errnum = errno ? errno : ENOSPC;

		(void)unlink(fresh);
		return err_sys(e, errnum, "write %s", fresh);
	}
	/* A directory that somebody has put there is in the way of a file. */
	if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
		(void)rmdir(path);
	if (rename(fresh, path) < 0) {
		int errnum = errno;

		(void)unlink(fresh);
		return err_sys(e, errnum, "put %s in its place", path);
	}
	*ret = take_fd(fd);
	return 0;
}

int samples_write(const char *path, const struct sample *s, struct err *e)
{
	off_t at = (off_t)(sizeof(struct ring_head) + s->at % SAMPLES_MAX * sizeof(*s));
	cleanup_fd int fd = -1;
	int r = open_ours(path, O_RDWR, &fd);
	ssize_t n;

	if (r == -ENOENT)
		r = replace(path, &fd, e);
	else if (r < 0)
		(void)err_sys(e, -r, "open %s", path);
	if (r < 0)
		return r;
	errno = 0;
	n = pwrite(fd, s, sizeof(*s), at);
	return n == (ssize_t)sizeof(*s) ? 0 : err_sys(e, errno ? errno : ENOSPC, "write %s", path);
}

int samples_read(const char *path, struct sample_ring *ret, uint32_t now, struct err *e)
{
	struct sample_ring *all;
	cleanup_fd int fd = -1;
	int r = open_ours(path, O_RDONLY, &fd);
	ssize_t n;

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return err_sys(e, -r, "open %s", path);
	all = xmalloc(sizeof(*all));
	n = pread(fd, all, sizeof(*all), sizeof(struct ring_head));
	for (size_t i = 0; n == (ssize_t)sizeof(*all) && i < SAMPLES_MAX; i++)
		if (all->s[i].at % SAMPLES_MAX == i)
			(void)samples_put(ret, &all->s[i], now);
	r = n < 0 ? err_sys(e, errno, "read %s", path) : 0;
	free(all);
	return r;
}

static bool is_stale(const char *path, uint32_t now)
{
	cleanup_fd int fd = -1;
	struct stat st;

	return open_ours(path, O_RDONLY, &fd) == 0 && fstat(fd, &st) == 0 &&
	       (uint64_t)st.st_mtime / SAMPLE_S + SAMPLES_MAX < now;
}

void samples_sweep(const char *dir, uint32_t now)
{
	DIR *d = opendir(dir);
	const struct dirent *entry;

	while (d && (entry = readdir(d))) {
		cleanup_free char *path = xasprintf("%s/%s", dir, entry->d_name);

		if (entry->d_name[0] != '.' && is_stale(path, now))
			(void)unlink(path);
	}
	if (d)
		(void)closedir(d);
}

/* -------- answers -------- */

void samples_bound(unsigned int n_devices, uint64_t *seconds, uint64_t *step_s)
{
	const uint64_t day = (uint64_t)SAMPLES_MAX * SAMPLE_S;
	uint64_t room = SAMPLES_POINTS_MAX / (n_devices ? n_devices : 1), least;

	if (!*seconds || *seconds > day)
		*seconds = day;
	least = (*seconds + room - 1) / room;
	if (*step_s < least)
		*step_s = least;
	if (*step_s > day)
		*step_s = day;
	*step_s = (*step_s + SAMPLE_S - 1) / SAMPLE_S * SAMPLE_S;
	if (!*step_s)
		*step_s = SAMPLE_S;
}

/* What the samples of a step come to. */
struct point {
	unsigned int n[SAMPLE_STATE_MAX];
	unsigned int n_util, n_power_dw, n_temp_c, n_used_mib, n_ours_mib;
	uint64_t util, power_dw, temp_c, used_mib, ours_mib;
	uint64_t task; /* the last one */
};

static void add_to_point(struct point *p, const struct sample *s)
{
	p->n[s->state]++;
#define ADD_KNOWN(member, unknown)                                                                 \
	do {                                                                                       \
		if (s->member != (unknown)) {                                                      \
			p->member += s->member;                                                    \
			p->n_##member++;                                                           \
		}                                                                                  \
	} while (0)
	ADD_KNOWN(util, SAMPLE_NO_UTIL);
	ADD_KNOWN(power_dw, SAMPLE_NO_POWER);
	ADD_KNOWN(temp_c, SAMPLE_NO_TEMP);
	ADD_KNOWN(used_mib, SAMPLE_NO_MEM);
	ADD_KNOWN(ours_mib, SAMPLE_NO_MEM);
#undef ADD_KNOWN
	if (s->task)
		p->task = s->task;
}

static json_t *mean_json(uint64_t sum, unsigned int n, uint64_t times)
{
	return n ? json_integer((json_int_t)((sum * times + n / 2) / n)) : json_null();
}

enum column {
	COL_T,
	COL_STATE,
	COL_UTIL,
	COL_POWER,
	COL_TEMP,
	COL_USED,
	COL_OURS,
	COL_TASK,
	COL_MAX
};

static void append_point(json_t *const *columns, uint64_t t, const struct point *p)
{
	enum sample_state state = most_of(p->n);
	json_t *const values[COL_MAX] = {
		[COL_T] = json_integer((json_int_t)t),
		[COL_STATE] =
			state == SAMPLE_GAP ? json_null() : json_string(sample_state_name(state)),
		[COL_UTIL] = mean_json(p->util, p->n_util, 1),
		[COL_POWER] = p->n_power_dw ? json_real((double)(p->power_dw / p->n_power_dw) / 10)
					    : json_null(),
		[COL_TEMP] = mean_json(p->temp_c, p->n_temp_c, 1),
		[COL_USED] = mean_json(p->used_mib, p->n_used_mib, 1 << 20),
		[COL_OURS] = mean_json(p->ours_mib, p->n_ours_mib, 1 << 20),
		[COL_TASK] = p->task ? json_integer((json_int_t)p->task) : json_null(),
	};

	for (size_t i = 0; i < COL_MAX; i++)
		(void)json_array_append_new(columns[i], values[i]);
}

json_t *samples_json(const struct sample_ring *ring, uint64_t now_s, uint64_t seconds,
		     uint64_t step_s)
{
	static const char *const names[COL_MAX] = {
		[COL_T] = "t",		 [COL_STATE] = "state", [COL_UTIL] = "util",
		[COL_POWER] = "power_w", [COL_TEMP] = "temp_c", [COL_USED] = "mem_used",
		[COL_OURS] = "mem_ours", [COL_TASK] = "task",
	};
	uint32_t now = (uint32_t)(now_s / SAMPLE_S);
	json_t *columns[COL_MAX], *o = json_object();

	for (size_t i = 0; i < COL_MAX; i++) {
		columns[i] = json_array();
		(void)json_object_set_new(o, names[i], columns[i]);
	}
	for (uint64_t t = (now_s - seconds) / step_s * step_s; t + SAMPLE_S <= now_s; t += step_s) {
		struct point p = { { 0 } };

		for (uint64_t at = t / SAMPLE_S; at < (t + step_s) / SAMPLE_S; at++) {
			const struct sample *s = &ring->s[at % SAMPLES_MAX];

			if (s->at == at && is_of_the_day(s->at, now))
				add_to_point(&p, s);
		}
		append_point(columns, t, &p);
	}
	return o;
}
