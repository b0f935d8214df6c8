/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SERVE_METRICS_H
#define TENURE_SERVE_METRICS_H

/*
 * /metrics: what the model knows now, and what was counted since this program began, by the events
 * that came since (a scraper takes a restart for what it is, a counter that begins anew).
 *
 * ?names=dcgm gives what dcgm-exporter gives, by its names, labels and units, as far as it is known
 * here, for dashboards that were made for that.
 */

#include "serve/request.h"

struct metrics;
struct model;

struct metrics *metrics_new(struct serve *s);
/* Often: counts what has happened meanwhile. */
void metrics_pulse(struct metrics *m);
void metrics_answer(struct serve *s, struct request *r);

#endif
