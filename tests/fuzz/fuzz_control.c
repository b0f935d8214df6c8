/* SPDX-License-Identifier: MIT */

/*
 * The input as control.json, which older tools write, and as a file in control/, by which a client
 * on another node orders something: what is taken is whole, what is refused is told with a reason,
 * and neither stays where it would be read again.
 */

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/queue/order.h"
#include "spool/control.h"
#include "spool/own.h"
#include "spool_dir.h"

#define ORDER "control/n1,1.json"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct spool *sp;

static bool is_there(const char *path)
{
	return faccessat(sp->fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void try_file(const uint8_t *data, size_t size)
{
	/* As if it had been seen like this a long time ago: nobody is writing it any more. */
	struct control_look look = { .size = 0 };
	struct control_order order = { .task = NULL };
	struct err e = ERR_INIT;
	struct stat st;

	fuzz_put("control.json", data, size);
	fuzz_check(fstatat(sp->fd, "control.json", &st, 0) == 0);
	look.size = st.st_size;
	look.mtime_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000 + (uint64_t)st.st_mtim.tv_nsec;

	int r = control_file_take(sp, &look, control_order_read, &order, &e);

	fuzz_check(!is_there("control.json"));
	if (r == 0) {
		fuzz_check(order.command < CONTROL_COMMAND_MAX && order.sweep <= SPEC_CLEAN_MAX);
		fuzz_check((order.command == CONTROL_STOP) == (order.task != NULL));
	} else {
		fuzz_check(r == 1 && e.text[0]);
	}
	free(order.task);
}

static void try_order(const uint8_t *data, size_t size)
{
	char sent[SPOOL_PATH_MAX];
	struct err e = ERR_INIT;
	struct order o;
	json_t *answer = NULL;

	fuzz_put(ORDER, data, size);

	int r = control_next(sp, "n1", order_take, &o, sent, &e);

	fuzz_check(!is_there(ORDER));
	if (r == 0) {
		fuzz_check(strcmp(sent, ORDER) == 0);
		fuzz_check(control_answer(sp, sent, json_pack("{s:i}", "code", 0), &e) == 0);
		order_clear(&o);
	} else {
		fuzz_check(r == 1 && e.text[0]);
	}
	/* Who sent it is told in either case. */
	fuzz_check(control_answer_read(sp, ORDER, &answer, &e) == 0 &&
		   json_object_get(answer, "code"));
	fuzz_check((json_integer_value(json_object_get(answer, "code")) == 0) == (r == 0));
	json_decref(answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	sp = fuzz_spool();
	try_file(data, size);
	try_order(data, size);
	return 0;
}
