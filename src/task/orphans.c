/* SPDX-License-Identifier: MIT */
#include "task/orphans.h"

#include <signal.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "task/end_record.h"
#include "task/tree.h"

struct orphans {
	char token[TASK_TOKEN_MAX];
	struct ender ender;
	struct tree tree;
	int signal;
	uint64_t kill_at_ns;
};

struct orphans *orphans_begin(const char *token, int stop_signal, uint32_t grace_ms)
{
	struct orphans *o = xcalloc(1, sizeof(*o));

	(void)str_copy(o->token, sizeof(o->token), token);
	o->signal = stop_signal ? stop_signal : SIGTERM;
	o->kill_at_ns = clock_mono_ns() + grace_ms * NS_PER_MS;
	ender_begin(&o->ender);
	return o;
}

int orphans_step(struct orphans *o)
{
	int r = tree_scan(&o->tree);

	if (r < 0)
		return r;
	r = tree_keep_token(&o->tree, o->token);
	if (r < 0)
		return r;
	ender_pass(&o->ender, &o->tree, clock_mono_ns() < o->kill_at_ns ? o->signal : SIGKILL);
	return (int)o->ender.ours;
}

int orphans_count(const char *token)
{
	struct tree t = { 0 };
	int n = 0, r = tree_scan(&t);

	if (r == 0)
		r = tree_keep_token(&t, token);
	for (size_t i = 0; r == 0 && i < t.n; i++)
		n += t.procs[i].state != 'Z' && t.procs[i].state != 'X';
	tree_clear(&t);
	return r < 0 ? r : n;
}

void orphans_hurry(struct orphans *o, uint32_t grace_ms)
{
	uint64_t at = clock_mono_ns() + grace_ms * NS_PER_MS;

	o->kill_at_ns = at < o->kill_at_ns ? at : o->kill_at_ns;
}

struct orphans *orphans_free(struct orphans *o)
{
	if (!o)
		return NULL;
	tree_clear(&o->tree);
	ender_clear(&o->ender);
	free(o);
	return NULL;
}
