/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_PAUSE_H
#define TENURE_AGENT_PAUSE_H

/* Ctrl-Z. */

#include "agent/inner.h"

/* Not where nobody could continue us: in the background, or where Ctrl-Z is ignored on purpose. */
void pause_start(struct agent *a);

#endif
