/* SPDX-License-Identifier: MIT */
#include "agent/burns.h"

#include <errno.h>

#include "agent/dispatch_state.h"
#include "agent/parts.h"
#include "agent/report/subcommand.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "base/units.h"

#define SPARE_MS 120000 /* to begin and to end, and to say so */

static void on_ended(void *user)
{
	struct agent *a = user;

	a->burning = NULL;
}

static json_t *refuse(int code, const char *why)
{
	return json_pack("{s:i, s:s}", "code", code, "error", why);
}

static void add_devices(struct text_list *words, const struct hold_policy *p)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	for (uint32_t i = 0; !p->all && i < p->n_gpus; i++)
		strbuf_addf(&b, "%s%s", i ? "," : "--gpus=", p->gpus[i]);
	if (b.len)
		text_list_add(words, strbuf_str(&b));
}

json_t *burns_begin(struct agent *a, const struct order *o)
{
	struct text_list words = { .n = 0 };
	const uint64_t limit_ms = o->for_ms + SPARE_MS;

	if (view_is_ending(&a->view))
		return refuse(-ESHUTDOWN, "its agent is about to end");
	if (a->burning)
		return refuse(-EBUSY, "another burn runs there");
	text_list_add(&words, BURN_PART_VERB);
	text_list_add(&words, o->burn);
	text_list_add(&words, a->queue->self->name);
	subcommand_add_queue(&words, a->c);
	text_list_take(&words, xasprintf("--dev-dir=%s", a->c->dev_dir));
	text_list_take(&words, xasprintf("--for=%llums", (unsigned long long)o->for_ms));
	add_devices(&words, &a->c->policy);
	for (size_t i = 0; i < o->options.n; i++)
		text_list_add(&words, o->options.texts[i]);
	a->burning = subcommand_start(&a->queue->sweeping.run, &words, (unsigned int)limit_ms,
				      on_ended, a);
	text_list_clear(&words);
	return a->burning ? json_pack("{s:i}", "code", 0)
			  : refuse(-EIO, "its agent cannot start a process");
}

void burns_end(struct agent *a)
{
	subcommand_end(a->burning);
}

void burns_close(struct agent *a)
{
	burns_end(a);
	a->burning = subcommand_leave(a->burning);
}
