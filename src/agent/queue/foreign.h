/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_QUEUE_FOREIGN_H
#define TENURE_AGENT_QUEUE_FOREIGN_H

/* What other tools, and people with cp and mv, leave in a spool: bare files in pending/, and
 * control.json. For jobs of the spooler. */

#include <stdbool.h>

#include "agent/queue/order.h"
#include "agent/queue/spool_place.h"
#include "base/strbuf.h"
#include "spool/control.h"

/* After all has been read: takes what is there, and notes it, a line each. True: control.json had
 * an order, whose part on what waits is done. */
bool foreign_look(struct spool_place *place, struct strbuf *notes, struct control_order *ret);
/* After that: a bare file waits to become a task, or has become one that the next reading finds.
 * What is tried in vain counts for SCAN_RAW_WAIT_NS. */
bool foreign_waits(const struct spool_place *place);
/* What the place remembers for it. */
void foreign_forget(struct spool_place *place);

#endif
