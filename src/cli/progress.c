/* SPDX-License-Identifier: MIT */
#include "cli/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "cli/term.h"

#define SHOWN_AFTER_NS NS_PER_S
#define EACH_NS	       (100 * NS_PER_MS)
#define BAR	       20
#define ERASE	       "\r\033[K"

struct progress progress_begin(const char *what, uint64_t total)
{
	uint64_t now = clock_mono_ns();

	return (struct progress){ .what = what,
				  .total = total,
				  .begin_ns = now,
				  .next_ns = term_has_screen(STDERR_FILENO) ? now + SHOWN_AFTER_NS
									    : UINT64_MAX };
}

/* As long as the rest takes at the pace so far. */
static void add_left(const struct progress *p, uint64_t done, uint64_t now, struct strbuf *b)
{
	double left_s = (double)(now - p->begin_ns) / (double)NS_PER_S * (double)(p->total - done) /
			(double)done;
	char text[UNIT_TEXT_MAX];

	strbuf_addf(b, ", %s left",
		    unit_format_duration((uint64_t)(left_s + 0.5) * MS_PER_S, text));
}

void progress_at(struct progress *p, uint64_t done)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	uint64_t now, full;

	if (p->next_ns == UINT64_MAX || !done || done > p->total)
		return;
	now = clock_mono_ns();
	if (now < p->next_ns)
		return;
	p->next_ns = now + EACH_NS;
	full = done * BAR / p->total;
	strbuf_addf(&b, ERASE "%s  [", p->what);
	for (uint64_t i = 0; i < BAR; i++)
		strbuf_addc(&b, i < full ? '#' : ' ');
	strbuf_addf(&b, "] %3" PRIu64 "%%  %" PRIu64 " of %" PRIu64, done * 100 / p->total, done,
		    p->total);
	add_left(p, done, now, &b);
	/* A line that is wrapped could not be erased. */
	if (b.len - (sizeof(ERASE) - 1) >= term_columns(STDERR_FILENO))
		b.len = sizeof(ERASE) - 1 + term_columns(STDERR_FILENO) - 1;
	(void)fflush(stdout);
	(void)fprintf(stderr, "%.*s", (int)b.len, strbuf_str(&b));
	(void)fflush(stderr);
	p->drawn = true;
}

void progress_end(struct progress *p)
{
	if (p->drawn)
		(void)fputs(ERASE, stderr);
	p->drawn = false;
	p->next_ns = UINT64_MAX;
}
