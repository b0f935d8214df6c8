/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SERVE_PROM_H
#define TENURE_SERVE_PROM_H

/*
 * Figures in Prometheus' text format (0.0.4) or in OpenMetrics (1.0). A family is begun once, then
 * all of its samples follow:
 *
 *	prom_family(&p, "tenure_yields", PROM_COUNTER, "Devices that were let go for a newcomer.");
 *	prom_sample(&p, n, "uuid", uuid, NULL);
 *
 * Names are in base units and without a counter's `_total`, an info's `_info`, which are added.
 */

#include <stdbool.h>

#include "base/strbuf.h"

#define PROM_BUCKETS 16

enum prom_type {
	PROM_GAUGE,
	PROM_COUNTER,
	PROM_INFO,
	PROM_HISTOGRAM,
	PROM_AS_IT_IS, /* a counter by the name that others gave it */
};

struct prom {
	struct strbuf text;
	bool open; /* OpenMetrics */
	const char *name;
	enum prom_type type;
};

struct prom_histogram {
	const double *bounds;		 /* ends with 0 */
	double counts[PROM_BUCKETS + 1]; /* the last one: beyond all bounds */
	double sum, n;
};

void prom_family(struct prom *p, const char *name, enum prom_type type, const char *help);
/* Labels are pairs of texts, and end with NULL; one whose text is NULL is left out. */
void prom_sample(struct prom *p, double value, ...) __attribute__((sentinel));
void prom_histogram(struct prom *p, const struct prom_histogram *h);
void prom_end(struct prom *p);

void prom_observe(struct prom_histogram *h, double value);

#endif
