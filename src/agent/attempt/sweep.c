/* SPDX-License-Identifier: MIT */
#include "agent/attempt/sweep.h"

#include "base/mem.h"
#include "task/sweep.h"

#define LIMIT_MS 30000 /* it ends by itself before that, unless something of it hangs */

unsigned int sweep_of_clean(enum spec_clean clean)
{
	static const unsigned int bits[SPEC_CLEAN_MAX] = {
		[SPEC_CLEAN_GPU] = SWEEP_BIT(SWEEP_GPU),
		[SPEC_CLEAN_PYTHON] = SWEEP_BIT(SWEEP_PYTHON),
	};

	return clean < SPEC_CLEAN_MAX ? bits[clean] : 0;
}

/* An argument with its option. */
static void add(struct text_list *l, const char *option, const char *value)
{
	text_list_take(l, xasprintf("%s=%s", option, value));
}

struct subcommand *sweep_start(const struct sweep_place *place, unsigned int what, const char *gpus,
			       void (*done)(void *user), void *user)
{
	struct text_list words = { .n = 0 };
	struct subcommand *s;

	if (!*gpus)
		what &= ~SWEEP_BIT(SWEEP_GPU);
	if (!what)
		return NULL;
	text_list_add(&words, "sweep");
	for (unsigned int w = 0; w < SWEEP_WHAT_MAX; w++)
		if (what & SWEEP_BIT(w))
			text_list_add(&words, sweep_what_name(w));
	text_list_add(&words, "--end");
	if (what & SWEEP_BIT(SWEEP_GPU))
		add(&words, "--gpus", gpus);
	if (place->c->sweep_spare && *place->c->sweep_spare)
		add(&words, "--sweep-spare", place->c->sweep_spare);
	s = subcommand_start(&place->run, &words, LIMIT_MS, done, user);
	text_list_clear(&words);
	return s;
}
