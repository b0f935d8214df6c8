/* SPDX-License-Identifier: MIT */
#include "agent/burn/part.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "base/utf8.h"
#include "hold/dev_reason.h"
#include "spool/claim.h"
#include "spool/heartbeat.h"
#include "spool/ident.h"
#include "spool/instance.h"

#define LOOK_NS	    NS_PER_S
#define SOON_NS	    (NS_PER_S / 5)
#define LAST_NS	    (10 * NS_PER_S) /* for the last word to be written */
#define OLD_NS	    (3600 * NS_PER_S)
#define MAGIC	    "burnt 1"
#define VERSION_MAX 32

/* In front of the devices. */
struct part_head {
	char magic[8];
	char version[VERSION_MAX];
	uint32_t size; /* of a struct burnt */
	uint32_t n;
	uint64_t count;
	uint64_t now_ns, for_ns; /* monotonic, of the node; of a test */
	int32_t code;
	uint32_t over;
	char why[256];
	struct claimer who;
};

#define BYTES_MAX (sizeof(struct part_head) + PROTO_DEVICES_MAX * sizeof(struct burnt))

/* -------- names -------- */

char *burn_call_name(const struct spool *sp, char *ret)
{
	char host[SPEC_NAME_MAX + 1], tmp[SPOOL_PATH_MAX];
	const char *number = strrchr(spool_tmp_path(sp, "burn", 0, tmp), ',');

	ident_make_name(spool_host(sp), host);
	return str_print(ret, SPEC_NAME_MAX + 1, "%.40s-%s", host, number ? number + 1 : "0");
}

char *burn_call_path(const char *name, char *buf)
{
	return spool_path(SPOOL_BURNS, name, buf);
}

char *burn_part_path(const char *name, const char *agent, char *buf)
{
	char file[SPOOL_PATH_MAX];

	return spool_path(SPOOL_BURNS, str_print(file, sizeof(file), "%s,%s", name, agent), buf);
}

struct removal {
	const struct spool *sp;
	uint64_t now_ns;
};

static int remove_old(void *data, const char *file, unsigned char type)
{
	const struct removal *r = data;
	char path[SPOOL_PATH_MAX];
	struct stat st;

	if (strlen(file) < NAME_FILE_MAX &&
	    spool_stat(r->sp, spool_path(SPOOL_BURNS, file, path), &st) == 0 &&
	    clock_timespec_ns(&st.st_mtim) + OLD_NS < r->now_ns)
		(void)spool_remove(r->sp, path);
	return 0;
}

void burn_remove_old(const struct spool *sp)
{
	struct removal r = { .sp = sp, .now_ns = spool_now_or_ours(sp) };

	(void)spool_each(sp, spool_dir_name(SPOOL_BURNS), remove_old, &r, NULL);
}

/* -------- what is told -------- */

void *burn_told_text(const struct burn_told *told, const struct burnt *devices, uint64_t now_ns,
		     size_t *ret_len)
{
	struct part_head head = { .magic = MAGIC,
				  .version = TENURE_VERSION,
				  .size = sizeof(struct burnt),
				  .n = told->n,
				  .count = told->count,
				  .now_ns = now_ns,
				  .for_ns = told->for_ns,
				  .code = told->code,
				  .over = told->over,
				  .who = told->who };
	const size_t n = told->n * sizeof(struct burnt);
	char *text = xmalloc(sizeof(head) + n);

	(void)str_copy(head.why, sizeof(head.why), told->why);
	(void)memcpy(text, &head, sizeof(head));
	if (n)
		(void)memcpy(text + sizeof(head), devices, n);
	*ret_len = sizeof(head) + n;
	return text;
}

static void end_text(char *text, size_t size)
{
	text[size - 1] = '\0';
	(void)utf8_clean(text);
}

static uint64_t moved(uint64_t ns, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t ago = ns < from_ns ? from_ns - ns : 0;

	return !ns ? 0 : ago < to_ns ? to_ns - ago : 1;
}

static void end_burnt(struct burnt *d, uint64_t from_ns, uint64_t to_ns)
{
	end_text(d->dev.uuid, sizeof(d->dev.uuid));
	end_text(d->dev.name, sizeof(d->dev.name));
	end_text(d->dev.instance, sizeof(d->dev.instance));
	end_text(d->dev.lease_instance, sizeof(d->dev.lease_instance));
	end_text(d->trouble, sizeof(d->trouble));
	dev_reason_end(&d->dev.reason);
	burn_report_end(&d->found);
	burn_curve_end(&d->curve);
	if (!isfinite(d->watt_seconds) || d->watt_seconds < 0)
		d->watt_seconds = 0;
	d->began_ns = moved(d->began_ns, from_ns, to_ns);
	d->ended_ns = moved(d->ended_ns, from_ns, to_ns);
}

static int check_head(const struct part_head *h, size_t len, struct err *e)
{
	if (strncmp(h->version, TENURE_VERSION, sizeof(h->version)) != 0 ||
	    h->size != sizeof(struct burnt))
		return err_set(
			e, -EPROTO, "its tenure is another version (%.*s) than this one (%s)",
			(int)strnlen(h->version, sizeof(h->version)), h->version, TENURE_VERSION);
	if (h->n > PROTO_DEVICES_MAX || len != sizeof(*h) + h->n * sizeof(struct burnt))
		return err_set(e, -EINVAL, "what it tells is cut off, or damaged");
	return 0;
}

int burn_told_parse(const void *data, size_t len, uint64_t now_ns, struct burn_told *ret,
		    struct err *e)
{
	struct part_head h;
	int r;

	if (len < sizeof(h) || memcmp(data, MAGIC, sizeof(MAGIC)) != 0)
		return err_set(e, -EINVAL, "what it tells is nothing that a burn tells");
	(void)memcpy(&h, data, sizeof(h));
	end_text(h.version, sizeof(h.version));
	r = check_head(&h, len, e);
	if (r < 0)
		return r;
	end_text(h.why, sizeof(h.why));
	end_text(h.who.agent, sizeof(h.who.agent));
	end_text(h.who.host, sizeof(h.who.host));
	end_text(h.who.boot, sizeof(h.who.boot));
	*ret = (struct burn_told){ .count = h.count,
				   .who = h.who,
				   .over = h.over != 0,
				   .code = h.code,
				   .for_ns = h.for_ns,
				   .n = h.n,
				   .devices = xcalloc(h.n ? h.n : 1, sizeof(struct burnt)) };
	(void)str_copy(ret->why, sizeof(ret->why), h.why);
	(void)memcpy(ret->devices, (const char *)data + sizeof(h), h.n * sizeof(struct burnt));
	for (uint32_t i = 0; i < h.n; i++)
		end_burnt(&ret->devices[i], h.now_ns, now_ns);
	return 0;
}

int burn_told_read(const struct spool *sp, const char *name, const char *agent,
		   struct burn_told *ret, struct err *e)
{
	char path[SPOOL_PATH_MAX];
	cleanup_free char *text = NULL;
	size_t len;
	int r = spool_read(sp, burn_part_path(name, agent, path), BYTES_MAX, &text, &len, e);

	return r < 0 ? r : burn_told_parse(text, len, clock_mono_ns(), ret, e);
}

void burn_told_clear(struct burn_told *t)
{
	free(take_ptr(t->devices));
	t->n = 0;
}

/* -------- on a node -------- */

struct burn_part {
	const struct spool *sp;
	char call[SPOOL_PATH_MAX], path[SPOOL_PATH_MAX];
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t news;
	/* Under the lock. */
	struct burn_told told;
	struct burnt devices[PROTO_DEVICES_MAX];
	bool unwanted, done; /* done: the last word is written, or nobody waits for it */
	/* The thread's own. */
	struct heartbeat_watch *watch;
	struct heartbeat caller; /* as it was read last */
};

/*
 * False: whoever wanted it has gone, or wants it no more. *ret_there: somebody reads the last word.
 * The file of one who has gone is removed, by which the other nodes learn of it, too.
 */
static bool is_wanted(struct burn_part *p, bool *ret_there)
{
	struct heartbeat b = { .count = 0 };
	struct liveness_facts f = { .local_files = !spool_is_network(p->sp),
				    .expire_ms = BURN_SILENT_MS };
	int r = heartbeat_read(p->sp, p->call, &b, NULL, NULL);

	*ret_there = r != -ENOENT || !spool_is_gone(p->sp, p->call);
	if (!*ret_there || (r == 0 && b.ended))
		return false;
	/* A look at which it cannot be read is one at which nothing has moved. */
	if (r == 0)
		p->caller = b;
	heartbeat_watch_begin(p->watch, clock_mono_ns());
	f.silent_ms = heartbeat_watch_see(p->watch, p->call, p->caller.count);
	heartbeat_watch_finish(p->watch);
	f.same_node = strcmp(p->caller.who.boot, spool_boot(p->sp)) == 0;
	f.runs = f.same_node && proc_alive(&p->caller.who.proc);
	f.same_kernel = heartbeat_same_kernel(p->caller.who.boot, spool_boot(p->sp));
	if (liveness_judge(&f) == LIVENESS_ALIVE)
		return true;
	*ret_there = false;
	(void)spool_remove(p->sp, p->call);
	return false;
}

static bool write_part(struct burn_part *p)
{
	cleanup_free void *text = NULL;
	size_t len;
	bool last;

	(void)pthread_mutex_lock(&p->lock);
	p->told.count++;
	last = p->told.over;
	text = burn_told_text(&p->told, p->devices, clock_mono_ns(), &len);
	(void)pthread_mutex_unlock(&p->lock);
	return spool_replace(p->sp, p->path, text, len, NULL) == 0 && last;
}

/* Until it is time for the next look, or for the last word. */
static void wait_for_news(struct burn_part *p)
{
	const bool over = p->told.over;
	struct timespec until = clock_timespec(clock_mono_ns() + (over ? SOON_NS : LOOK_NS));

	while (p->told.over == over && pthread_cond_timedwait(&p->news, &p->lock, &until) == 0)
		;
}

static void *run(void *data)
{
	struct burn_part *p = data;

	for (bool done = false; !done;) {
		bool there, wanted = is_wanted(p, &there);
		bool written = there && write_part(p);

		/* Nobody reads it, and nobody would remove it. */
		if (!there)
			(void)spool_remove(p->sp, p->path);
		(void)pthread_mutex_lock(&p->lock);
		p->unwanted = p->unwanted || !wanted;
		done = p->done = written || (!there && p->told.over);
		(void)pthread_cond_broadcast(&p->news);
		if (!done)
			wait_for_news(p);
		(void)pthread_mutex_unlock(&p->lock);
	}
	return NULL;
}

static int start_thread(struct burn_part *p)
{
	sigset_t all, before;
	int r;

	/* Signals are the loop's. */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&p->thread, NULL, run, p);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -r;
}

int burn_part_begin(const struct spool *sp, const char *name, const char *agent,
		    struct burn_part **ret, struct err *e)
{
	struct burn_part *p = xcalloc(1, sizeof(*p));
	int r = claimer_self(sp, agent, &p->told.who, e);

	p->sp = sp;
	p->watch = heartbeat_watch_new(LOOK_NS / NS_PER_MS);
	(void)burn_call_path(name, p->call);
	(void)burn_part_path(name, agent, p->path);
	(void)pthread_mutex_init(&p->lock, NULL);
	clock_cond_init(&p->news);
	if (r == 0 && (r = start_thread(p)) < 0)
		(void)err_sys(e, -r, "start a thread");
	if (r < 0) {
		p->watch = heartbeat_watch_free(p->watch);
		free(p);
		return r;
	}
	*ret = p;
	return 0;
}

static void take(struct burn_part *p, const struct burn_state *state)
{
	p->told.n = state->n;
	p->told.for_ns = state->for_ns;
	(void)memcpy(p->devices, state->devices, state->n * sizeof(*p->devices));
}

void burn_part_tell(struct burn_part *p, const struct burn_state *state)
{
	(void)pthread_mutex_lock(&p->lock);
	take(p, state);
	(void)pthread_mutex_unlock(&p->lock);
}

bool burn_part_is_wanted(struct burn_part *p)
{
	bool wanted;

	(void)pthread_mutex_lock(&p->lock);
	wanted = !p->unwanted;
	(void)pthread_mutex_unlock(&p->lock);
	return wanted;
}

struct burn_part *burn_part_end(struct burn_part *p, const struct burn_state *state, int code,
				const char *why)
{
	struct timespec until = clock_timespec(clock_mono_ns() + LAST_NS);
	bool done;

	(void)pthread_mutex_lock(&p->lock);
	take(p, state);
	p->told.code = code;
	(void)str_copy(p->told.why, sizeof(p->told.why), why);
	p->told.over = true;
	(void)pthread_cond_broadcast(&p->news);
	while (!p->done && pthread_cond_timedwait(&p->news, &p->lock, &until) == 0)
		;
	done = p->done;
	(void)pthread_mutex_unlock(&p->lock);
	if (!done)
		return NULL; /* it hangs in the filesystem, and what it uses stays */
	(void)pthread_join(p->thread, NULL);
	(void)pthread_cond_destroy(&p->news);
	(void)pthread_mutex_destroy(&p->lock);
	p->watch = heartbeat_watch_free(p->watch);
	free(p);
	return NULL;
}
