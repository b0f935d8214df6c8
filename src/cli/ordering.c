/* SPDX-License-Identifier: MIT */
#include "cli/ordering.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"

#define LOOK_US	 50000
#define TAKEN_MS 3000 /* who has taken an order answers it at once */

int ordering_send(struct ordering *o, const char *agent, const struct order *order, void *data,
		  struct err *e)
{
	struct ordered one = { .state = ORDERED_SENT, .data = data };
	json_t *doc = order_json(order);
	int r = control_send(o->sp, agent, doc, one.path, e);

	if (r < 0) {
		json_decref(doc);
		return r;
	}
	one.order = doc;
	(void)str_copy(one.agent, sizeof(one.agent), agent);
	o->all = xrealloc(o->all, o->n + 1, sizeof(*o->all));
	o->all[o->n++] = one;
	return 0;
}

static int nothing(void *data, const char *file, unsigned char type)
{
	return 1;
}

/* Its agent began just then, and obeys nothing that was there before it. */
static bool send_again(struct ordering *o, struct ordered *one, const json_t *answer)
{
	return ordering_code(answer, NULL) == -EAGAIN &&
	       control_send(o->sp, one->agent, one->order, one->path, NULL) == 0;
}

/* How many are still waited for. */
static size_t look(struct ordering *o, ordering_fn fn, void *user)
{
	size_t left = 0;

	/* Opening the directory is what makes a network filesystem see what is new in it. */
	(void)spool_each(o->sp, spool_dir_name(SPOOL_CONTROL), nothing, NULL, NULL);
	for (size_t i = 0; i < o->n; i++) {
		struct ordered *one = &o->all[i];
		json_t *answer = NULL;

		if (one->state == ORDERED_ANSWERED || one->state == ORDERED_IGNORED)
			continue;
		if (control_answer_read(o->sp, one->path, &answer, NULL) != 0) {
			left++;
			continue;
		}
		if (send_again(o, one, answer)) {
			left++;
		} else {
			one->state = ORDERED_ANSWERED;
			fn(user, one, answer);
		}
		json_decref(answer);
	}
	return left;
}

static size_t look_until(struct ordering *o, uint64_t limit_ms, ordering_fn fn, void *user)
{
	uint64_t end_ns = clock_mono_ns() + limit_ms * NS_PER_MS;
	size_t left;

	while ((left = look(o, fn, user)) && clock_mono_ns() < end_ns)
		(void)usleep(LOOK_US);
	return left;
}

void ordering_wait(struct ordering *o, uint64_t limit_ms, ordering_fn fn, void *user)
{
	bool taken = false;

	if (!look_until(o, limit_ms, fn, user))
		return;
	for (size_t i = 0; i < o->n; i++) {
		struct ordered *one = &o->all[i];

		if (one->state != ORDERED_SENT)
			continue;
		one->state = control_take_back(o->sp, one->path) ? ORDERED_IGNORED : ORDERED_TAKEN;
		taken = taken || one->state == ORDERED_TAKEN;
	}
	if (taken)
		(void)look_until(o, TAKEN_MS, fn, user);
	for (size_t i = 0; i < o->n; i++)
		if (o->all[i].state != ORDERED_ANSWERED)
			fn(user, &o->all[i], NULL);
}

void ordering_clear(struct ordering *o)
{
	for (size_t i = 0; i < o->n; i++) {
		if (o->all[i].state != ORDERED_ANSWERED)
			(void)control_give_up(o->sp, o->all[i].path);
		json_decref(o->all[i].order);
	}
	free(take_ptr(o->all));
	o->n = 0;
}

int ordering_code(const json_t *answer, struct err *e)
{
	const json_t *code = json_object_get(answer, "code");
	const char *why = json_string_value(json_object_get(answer, "error"));
	int r = json_is_integer(code) ? (int)json_integer_value(code) : -EPROTO;

	return r < 0 ? err_set(e, r, "%s", why ? why : "it refused") : 0;
}
