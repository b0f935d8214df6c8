/* SPDX-License-Identifier: MIT */

/*
 * The input as control.json, which older tools write, and as a file in control/, by which a client
 * on another node orders something: what is taken is whole, what is refused lies in bad/ with a
 * reason, and neither stays where it would be read again.
 */

#include <fcntl.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "spool/control.h"

#define ORDER "control/n1,1.json"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char root[64];
static struct spool *sp;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void clear(void)
{
	sp = spool_close(sp);
	(void)nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void check(bool good)
{
	if (!good)
		abort();
}

static void begin(void)
{
	(void)str_print(root, sizeof(root), "%s/tenure-fuzz-XXXXXX",
			access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	check(mkdtemp(root) && spool_open(root, "default", NULL, SPOOL_CREATE, &sp, NULL) == 0 &&
	      atexit(clear) == 0);
}

static bool is_there(const char *path)
{
	return faccessat(sp->fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void put(const char *path, const uint8_t *data, size_t size)
{
	(void)unlinkat(sp->fd, path, 0);
	check(spool_write_new(sp, path, data, size, false, NULL) == 0);
}

static void try_file(const uint8_t *data, size_t size)
{
	/* As if it had been seen like this a long time ago: nobody is writing it any more. */
	struct control_look look = { .size = 0 };
	struct control_order order = { .task = NULL };
	struct err e = ERR_INIT;
	struct stat st;

	put("control.json", data, size);
	check(fstatat(sp->fd, "control.json", &st, 0) == 0);
	look.size = st.st_size;
	look.mtime_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000 + (uint64_t)st.st_mtim.tv_nsec;

	int r = control_file_take(sp, &look, &order, &e);

	check(!is_there("control.json"));
	if (r == 0) {
		check(order.command < CONTROL_COMMAND_MAX && order.sweep <= SPEC_CLEAN_MAX);
		check((order.command == CONTROL_STOP) == (order.task != NULL));
	} else {
		check(r == 1 && e.text[0]);
	}
	free(order.task);
}

static void try_order(const uint8_t *data, size_t size)
{
	char sent[SPOOL_PATH_MAX];
	struct err e = ERR_INIT;
	struct order o;
	json_t *answer = NULL;

	put(ORDER, data, size);

	int r = control_next(sp, "n1", &o, sent, &e);

	check(!is_there(ORDER));
	if (r == 0) {
		check(strcmp(sent, ORDER) == 0);
		check(control_answer(sp, sent, json_pack("{s:i}", "code", 0), &e) == 0);
		order_clear(&o);
	} else {
		check(r == 1 && e.text[0]);
	}
	/* Who sent it is told in either case. */
	check(control_answer_read(sp, ORDER, &answer, &e) == 0 && json_object_get(answer, "code"));
	check((json_integer_value(json_object_get(answer, "code")) == 0) == (r == 0));
	json_decref(answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!sp)
		begin();
	try_file(data, size);
	try_order(data, size);
	return 0;
}
