/* SPDX-License-Identifier: MIT */
#include "hold/event.h"

#include "base/mem.h"

static const char *const kind_names[] = {
	[EVENT_NOTE] = "note",	       [EVENT_START] = "starting",  [EVENT_HELD] = "held",
	[EVENT_YIELD] = "yield",       [EVENT_RELEASE] = "release", [EVENT_BLIND] = "blind",
	[EVENT_GONE] = "gone",	       [EVENT_FAILED] = "failed",   [EVENT_LOST] = "lost",
	[EVENT_BACK] = "back",	       [EVENT_STATE] = "state",	    [EVENT_LENT] = "lent",
	[EVENT_RETURNED] = "returned",
};
_Static_assert(ARRAY_LEN(kind_names) == EVENT_KIND_MAX, "a name for every kind");

const char *event_kind_name(uint32_t kind)
{
	return kind < EVENT_KIND_MAX ? kind_names[kind] : "?";
}
