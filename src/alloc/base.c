/* SPDX-License-Identifier: MIT */
#include "alloc/base.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"

#define WISH	      "base,"
#define WISH_MAX      4096
#define WISH_GPUS_MAX 4096
#define WISH_S_MAX    (365U * 24 * 3600)

/* One that waits and had its time; all of them, when nobody wants any more. */
static bool may_withdraw(const struct base_at *at, unsigned int kept)
{
	return at->waits > (kept ? at->young : 0);
}

enum base_step base_decide(const struct base_at *at)
{
	unsigned int kept = at->kept > at->wanted ? at->kept : at->wanted;

	if (at->has + at->waits > kept) {
		if (may_withdraw(at, kept))
			return BASE_WITHDRAW;
		return at->has > kept ? BASE_GIVE : BASE_REST;
	}
	if (!at->wanted) /* what is free for it whoever wants it knows */
		return BASE_REST;
	if (may_withdraw(at, kept) && (at->others_wait || at->free < at->waits))
		return BASE_WITHDRAW;
	if (at->has && at->others_wait && at->apart)
		return BASE_GIVE;
	if (at->has + at->waits < at->wanted && !at->others_wait && at->free > at->waits &&
	    at->room > at->waits)
		return BASE_ADD;
	return BASE_REST;
}

/* ---- who wants how many ---- */

struct wishes {
	const struct spool *sp;
	uint64_t now_ns; /* by the file server's clock; 0: not asked for yet */
	unsigned int most;
	struct err *e;
};

struct wish {
	unsigned int gpus, for_s;
	uint64_t end_ns;
};

static char *wish_path(const char *who, char *buf)
{
	return str_print(buf, SPOOL_PATH_MAX, "%s/" WISH "%s", spool_dir_name(SPOOL_ALLOCS), who);
}

/* What is none means nothing. 0, -ENOENT or -errno. */
static int read_wish(const struct spool *sp, const char *path, struct wish *ret, struct err *e)
{
	cleanup_free char *text = NULL;
	struct stat st;
	size_t len;
	json_t *doc;
	int r = spool_read_stat(sp, path, WISH_MAX, &text, &len, &st, e);

	*ret = (struct wish){ .gpus = 0 };
	if (r < 0)
		return spool_is_bad(r) || r == -EFBIG ? 0 : r;
	doc = json_loadb(text, len, 0, NULL);
	ret->gpus = json_get_small(doc, "gpus", WISH_GPUS_MAX);
	ret->for_s = json_get_small(doc, "for_s", WISH_S_MAX);
	ret->end_ns = clock_timespec_ns(&st.st_mtim) + ret->for_s * NS_PER_S;
	json_decref(doc);
	return 0;
}

int base_want(const struct spool *sp, const char *who, unsigned int gpus, unsigned int for_s,
	      struct err *e)
{
	char path[SPOOL_PATH_MAX];
	struct wish before = { .gpus = 0 };
	int r = read_wish(sp, wish_path(who, path), &before, e);

	if (!gpus)
		return r == -ENOENT ? 0 : spool_unlink(sp, path, e);
	/* The same again only when half of that time is over. */
	if (r == 0 && before.gpus == gpus && before.for_s == for_s &&
	    spool_now_or_ours(sp) + for_s * NS_PER_S / 2 < before.end_ns)
		return 0;

	cleanup_free char *text =
		xasprintf("{\"version\": 1, \"gpus\": %u, \"for_s\": %u}\n", gpus, for_s);

	r = spool_make_dir(sp, SPOOL_ALLOCS, e);
	return r == 0 ? spool_replace(sp, path, text, strlen(text), e) : r;
}

static int add_wish(void *data, const char *file, unsigned char type)
{
	struct wishes *w = data;
	char path[SPOOL_PATH_MAX];
	struct wish wish;
	int r;

	(void)type;
	if (!str_has_prefix(file, WISH))
		return 0;
	r = read_wish(w->sp, spool_path(SPOOL_ALLOCS, file, path), &wish, w->e);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (!w->now_ns)
		w->now_ns = spool_now_or_ours(w->sp);
	if (wish.end_ns <= w->now_ns)
		return spool_unlink(w->sp, path, w->e);
	if (wish.gpus > w->most)
		w->most = wish.gpus;
	return 0;
}

/* In an instance that an older version has made there is no such directory. */
static int each_file(const struct spool *sp, spool_entry_fn fn, void *data, struct err *e)
{
	int r = spool_each(sp, spool_dir_name(SPOOL_ALLOCS), fn, data, e);

	return r == -ENOENT && spool_is_gone(sp, spool_dir_name(SPOOL_ALLOCS)) ? 0 : r;
}

int base_wanted(const struct spool *sp, unsigned int *ret, struct err *e)
{
	struct wishes w = { .sp = sp, .e = e };
	int r = each_file(sp, add_wish, &w, e);

	*ret = w.most;
	return r;
}

static int find_wish(void *data, const char *file, unsigned char type)
{
	(void)data;
	(void)type;
	return str_has_prefix(file, WISH);
}

bool base_is_known(const struct spool *sp)
{
	return each_file(sp, find_wish, NULL, NULL) > 0;
}
