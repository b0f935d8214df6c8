/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_OTHERTOOLS_H
#define TENURE_AGENT_OTHERTOOLS_H

/* What other tools, and people with cp and mv, leave in a spool: bare files in pending/, and
 * control.json. For jobs of the spooler. */

struct backlog;
struct spool_place;

/* After all has been read: takes what is there. Fills the orders and the notes. */
void othertools_look(struct backlog *b, struct spool_place *place);
/* What the place remembers for it. */
void othertools_forget(struct spool_place *place);

#endif
