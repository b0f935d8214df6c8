/* SPDX-License-Identifier: MIT */
#include "place_world.h"

#include "unit.h"

#include "agent/queue/depends.h"
#include "agent/queue/index.h"
#include "spool_world.h"

struct spool_place open_place(const char *agent)
{
	struct spool_place p = { .spool = open_spool() };

	p.self = self(p.spool, agent);
	p.scan = scan_new(p.spool, SCAN_RAW);
	look_around(&p);
	return p;
}

void look_around(struct spool_place *p)
{
	assert_int_equal(scan_update(p->scan, NULL, NULL, NULL), 0);
}

void close_place(struct spool_place *p)
{
	index_forget(p);
	place_close(p);
}
