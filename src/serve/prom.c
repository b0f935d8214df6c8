/* SPDX-License-Identifier: MIT */
#include "serve/prom.h"

#include <stdarg.h>
#include <stddef.h>

void prom_family(struct prom *p, const char *name, enum prom_type type, const char *help)
{
	static const char *const open_types[] = { "gauge", "counter", "info", "histogram",
						  "counter" };
	static const char *const text_types[] = { "gauge", "counter", "gauge", "histogram",
						  "counter" };
	static const char *const suffixes[] = { "", "_total", "_info", "", "" };
	const char *suffix = p->open ? "" : suffixes[type];

	p->name = name;
	p->type = type;
	strbuf_addf(&p->text, "# HELP %s%s %s\n# TYPE %s%s %s\n", name, suffix, help, name, suffix,
		    (p->open ? open_types : text_types)[type]);
}

static void add_label(struct strbuf *b, const char *name, const char *value, bool first)
{
	strbuf_addf(b, "%s%s=\"", first ? "{" : ",", name);
	for (const char *c = value; *c; c++) {
		if (*c == '\n')
			strbuf_adds(b, "\\n");
		else if (*c == '"' || *c == '\\')
			strbuf_addf(b, "\\%c", *c);
		else
			strbuf_addc(b, *c);
	}
	strbuf_addc(b, '"');
}

void prom_sample(struct prom *p, double value, ...)
{
	static const char *const suffixes[] = { "", "_total", "_info", "", "" };
	bool first = true;
	va_list ap;

	strbuf_addf(&p->text, "%s%s", p->name, suffixes[p->type]);
	va_start(ap, value);
	for (const char *name; (name = va_arg(ap, const char *));) {
		const char *text = va_arg(ap, const char *);

		if (!text)
			continue;
		add_label(&p->text, name, text, first);
		first = false;
	}
	va_end(ap);
	strbuf_addf(&p->text, "%s %.17g\n", first ? "" : "}", value);
}

void prom_histogram(struct prom *p, const struct prom_histogram *h)
{
	double so_far = 0;

	for (size_t i = 0; h->bounds[i] > 0; i++) {
		so_far += h->counts[i];
		strbuf_addf(&p->text, "%s_bucket{le=\"%g%s\"} %.17g\n", p->name, h->bounds[i],
			    h->bounds[i] == (double)(long)h->bounds[i] ? ".0" : "", so_far);
	}
	strbuf_addf(&p->text, "%s_bucket{le=\"+Inf\"} %.17g\n%s_sum %.17g\n%s_count %.17g\n",
		    p->name, h->n, p->name, h->sum, p->name, h->n);
}

void prom_end(struct prom *p)
{
	if (p->open)
		strbuf_adds(&p->text, "# EOF\n");
}

void prom_observe(struct prom_histogram *h, double value)
{
	size_t i = 0;

	while (h->bounds[i] > 0 && value > h->bounds[i])
		i++;
	h->counts[h->bounds[i] > 0 ? i : PROM_BUCKETS]++;
	h->sum += value;
	h->n++;
}
