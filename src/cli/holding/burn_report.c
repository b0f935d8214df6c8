/* SPDX-License-Identifier: MIT */
#include "cli/holding/burn_report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "cli/holding/burn_svg.h"
#include "cli/table.h"
#include "cli/term.h"
#include "hold/device_state.h"

#define CELL   64
#define FORMAT 1

/* For programs. */
static const char *const verdict_words[BURN_VERDICT_MAX] = {
	[BURN_GOOD] = "good",
	[BURN_BAD] = "bad",
	[BURN_UNTESTED] = "not-tested",
	[BURN_YIELDED] = "yielded",
};

static const enum term_style styles[BURN_VERDICT_MAX] = {
	[BURN_GOOD] = TERM_GREEN,
	[BURN_BAD] = TERM_RED,
	[BURN_UNTESTED] = TERM_YELLOW,
	[BURN_YIELDED] = TERM_YELLOW,
};

static const char *label(const struct dev_status *dev, char *buf)
{
	if (dev->index == BURN_NO_INDEX)
		return "-";
	return dev->mig >= 0 ? str_print(buf, CELL, "%u/%d", (unsigned int)dev->index, dev->mig)
			     : str_print(buf, CELL, "%u", (unsigned int)dev->index);
}

static const char *number(double v, const char *format, char *buf)
{
	return v > 0 ? str_print(buf, CELL, format, v) : "-";
}

static double tflops_of(const struct burn_report *f)
{
	return f->product_ns ? (double)f->gflop / (double)f->product_ns * 1e6 : 0;
}

static double gb_of(const struct burn_report *f)
{
	return f->memory_ns ? (double)f->memory_bytes / (double)f->memory_ns : 0;
}

static double seconds_of(const struct burnt *d)
{
	uint64_t end = d->ended_ns ? d->ended_ns : clock_mono_ns();

	return d->began_ns && end > d->began_ns ? (double)(end - d->began_ns) / 1e9 : 0;
}

static const char *progress_word(const struct burnt *d)
{
	if (d->yielded)
		return "yielded";
	if (d->trouble[0])
		return "not tested";
	if (d->ended_ns)
		return "done";
	if (!d->began_ns && d->dev.state == DEV_BUSY)
		return "busy";
	return d->began_ns ? "testing" : "starts";
}

void burn_progress_print(const struct burn_state *state, FILE *out)
{
	static const struct table_column columns[] = {
		{ "GPU", true },
		{ "NAME", .drop = 2 },
		{ "TIME", true },
		{ "TFLOP/s", true },
		{ "GB/s", true },
		{ "WATTS", true, .drop = 1 },
		{ "TEMP", true, .drop = 3 },
		{ "ERRORS", true },
		{ "STATE" },
		{ 0 },
	};
	struct table *t = table_new(columns);

	for (uint32_t i = 0; i < state->n; i++) {
		const struct burnt *d = &state->devices[i];
		const struct dev_status *dev = &d->dev;
		char gpu[CELL], time[CELL], tflops[CELL], gb[CELL], watts[CELL], temp[CELL],
			errors[CELL];
		uint64_t n = burn_report_errors(&d->found);

		table_add(t, n ? TERM_RED : TABLE_PLAIN, label(dev, gpu), dev->name,
			  str_print(time, CELL, "%.0f of %.0f s", seconds_of(d),
				    (double)state->for_ns / 1e9),
			  number(tflops_of(&d->found), "%.1f", tflops),
			  number(gb_of(&d->found), "%.0f", gb),
			  dev->known & KNOWN_POWER ? number(dev->power_mw / 1e3, "%.0f", watts)
						   : "-",
			  dev->known & KNOWN_TEMP ? number(dev->temp_c, "%.0f C", temp) : "-",
			  str_print(errors, CELL, "%llu", (unsigned long long)n), progress_word(d));
	}
	table_print(t, out);
	t = table_free(t);
}

/* Of all devices of a node. */
static void add_node_row(struct table *t, const struct burn_node_progress *n, uint64_t for_ns)
{
	char gpus[CELL], time[CELL], tflops[CELL], watts[CELL], temp[CELL], errors[CELL];
	double seconds = 0, speed = 0, power = 0, hottest = 0;
	uint64_t wrong = 0;

	for (uint32_t i = 0; i < n->n; i++) {
		const struct burnt *d = &n->devices[i];

		seconds = seconds_of(d) > seconds ? seconds_of(d) : seconds;
		speed += tflops_of(&d->found) / n->n;
		power += d->dev.known & KNOWN_POWER ? d->dev.power_mw / 1e3 : 0;
		hottest = d->dev.known & KNOWN_TEMP && d->dev.temp_c > hottest ? d->dev.temp_c
									       : hottest;
		wrong += burn_report_errors(&d->found);
	}
	table_add(t, wrong ? TERM_RED : TABLE_PLAIN, n->name,
		  n->n ? str_print(gpus, CELL, "%u", (unsigned int)n->n) : "-",
		  str_print(time, CELL, "%.0f of %.0f s", seconds, (double)for_ns / 1e9),
		  number(speed, "%.1f", tflops), number(power, "%.0f", watts),
		  number(hottest, "%.0f C", temp),
		  str_print(errors, CELL, "%llu", (unsigned long long)wrong), n->state);
}

void burn_nodes_progress_print(const struct burn_node_progress *nodes, size_t n, uint64_t for_ns,
			       FILE *out)
{
	static const struct table_column columns[] = {
		{ "NODE" },
		{ "GPUS", true },
		{ "TIME", true },
		{ "TFLOP/s", true, .drop = 1 },
		{ "WATTS", true, .drop = 2 },
		{ "HOTTEST", true, .drop = 3 },
		{ "ERRORS", true },
		{ "STATE" },
		{ 0 },
	};
	struct table *t = table_new(columns);

	for (size_t i = 0; i < n; i++)
		add_node_row(t, &nodes[i], for_ns);
	table_print(t, out);
	t = table_free(t);
}

/* -------- for people -------- */

static const struct burn_node *node_of(const struct burn_report_of *r, uint32_t i)
{
	const struct burn_node *n = r->nodes;

	while (i - n->first >= n->n)
		n++;
	return n;
}

static void print_texts(const struct burn_report_of *r, uint32_t at, FILE *out)
{
	const struct burnt *d = &r->devices[at];
	const struct burn_judgement *j = &r->judgements[at];
	char gpu[CELL];
	int indent = fprintf(out, "%s%sgpu %s  %s", r->instance ? node_of(r, at)->name : "",
			     r->instance ? "  " : "", label(&d->dev, gpu),
			     burn_verdict_name(j->verdict));

	(void)fprintf(out, "%s", j->reasons.n || j->notes.n ? ": " : "\n");
	for (size_t i = 0; i < j->reasons.n; i++) {
		(void)fprintf(out, "%*s", i ? indent + 2 : 0, "");
		term_print_wrapped(out, j->reasons.texts[i], (size_t)indent + 2);
	}
	for (size_t i = 0; i < j->notes.n; i++) {
		(void)fprintf(out, "%*s", i || j->reasons.n ? indent + 2 : 0, "");
		term_print_wrapped(out, j->notes.texts[i], (size_t)indent + 2);
	}
}

static double mean_watts(const struct burnt *d)
{
	return d->seen_ns ? d->watt_seconds / ((double)d->seen_ns / 1e9) : 0;
}

/* To it and from it. */
static const char *copies_cell(const struct burn_judgement *j, char *buf)
{
	if (j->copies[BURN_TO] <= 0 || j->copies[BURN_FROM] <= 0)
		return "-";
	return str_print(buf, CELL, "%.1f/%.1f", j->copies[BURN_TO], j->copies[BURN_FROM]);
}

/* The slowest way to another GPU, and which that is. */
static const char *peer_cell(const struct burn_judgement *j, char *buf)
{
	const struct burn_link *l = j->slowest;

	return l ? str_print(buf, CELL, "%.0f to %u", burn_copy_speed(&l->copies, BURN_TO),
			     (unsigned int)l->gpu)
		 : "-";
}

static void add_report_row(struct table *t, const struct burn_report_of *r, uint32_t at)
{
	const struct burnt *d = &r->devices[at];
	const struct burn_judgement *j = &r->judgements[at];
	char gpu[CELL], time[CELL], tflops[CELL], share[CELL], gb[CELL], watts[CELL], temp[CELL],
		compared[CELL], copies[CELL], peer[CELL];

	const char *cells[] = {
		node_of(r, at)->name,
		label(&d->dev, gpu),
		d->dev.name,
		burn_verdict_name(j->verdict),
		str_print(time, CELL, "%.0f s", seconds_of(d)),
		number(j->tflops, "%.1f", tflops),
		number(j->of_median * 100, "%.0f %%", share),
		number(j->gb_per_s, "%.0f", gb),
		copies_cell(j, copies),
		peer_cell(j, peer),
		number(mean_watts(d), "%.0f", watts),
		number(d->temp_most, "%.0f C", temp),
		number((double)(d->found.elements + d->found.words + d->found.copies.words), "%.3g",
		       compared),
	};

	table_add_cells(t, styles[j->verdict], cells + !r->instance);
}

/* Of which nothing is known of any device. */
static void print_trouble(const struct burn_node *n, FILE *out)
{
	int indent = n->n ? 0 : fprintf(out, "%s  not tested: ", n->name);

	if (!n->n)
		term_print_wrapped(out, n->trouble ? n->trouble : "it has no GPU to test",
				   (size_t)indent);
}

void burn_report_print(const struct burn_report_of *r, FILE *out)
{
	static const struct table_column columns[] = {
		{ "NODE" }, /* of several */
		{ "GPU", true },
		{ "NAME", .drop = 6 },
		{ "VERDICT" },
		{ "TESTED", true, .drop = 4 },
		{ "TFLOP/s", true },
		{ "OF ITS LIKE", true, .drop = 5 },
		{ "GB/s", true },
		{ "PCIe GB/s", true, .drop = 3 },
		{ "PEER GB/s", true, .drop = 3 },
		{ "WATTS", true, .drop = 1 },
		{ "HOTTEST", true, .drop = 2 },
		{ "COMPARED", true },
		{ 0 },
	};
	struct table *t = table_new(columns + !r->instance);

	for (uint32_t i = 0; i < r->n; i++)
		add_report_row(t, r, i);
	if (r->n)
		table_print(t, out);
	t = table_free(t);
	for (uint32_t i = 0; i < r->n; i++)
		print_texts(r, i, out);
	for (size_t i = 0; r->instance && i < r->n_nodes; i++)
		print_trouble(&r->nodes[i], out);
}

/* -------- a picture -------- */

static int draw(const struct burn_report_of *r, const char *path, struct err *e)
{
	cleanup_free struct burn_svg_line *lines = xcalloc(r->n ? r->n : 1, sizeof(*lines));
	char(*names)[2 * CELL] = xcalloc(r->n ? r->n : 1, sizeof(*names));
	char time[CLOCK_TEXT_MAX], gpu[CELL];
	cleanup_free char *title =
		xasprintf("tenure burn of %s%s, %s, %s for %.0f s", r->instance ? "instance " : "",
			  r->instance ? r->instance : r->nodes->name,
			  clock_format_local(r->began_wall_ns, time),
			  burn_load_name(r->order->policy.burn.load), (double)r->for_ns / 1e9);
	int code;

	for (uint32_t i = 0; i < r->n; i++) {
		const struct dev_status *dev = &r->devices[i].dev;

		if (r->instance)
			(void)str_print(names[i], sizeof(names[i]), "%s GPU %s",
					node_of(r, i)->name, label(dev, gpu));
		else
			(void)str_print(names[i], sizeof(names[i]), "GPU %s, %s", label(dev, gpu),
					dev->name);
		lines[i] =
			(struct burn_svg_line){ .name = names[i], .curve = &r->devices[i].curve };
	}
	code = burn_svg_write(title, lines, r->n, path, e);
	free(names);
	return code;
}

/* -------- for programs -------- */

static json_t *texts_json(const struct text_list *l)
{
	json_t *list = json_array();

	for (size_t i = 0; i < l->n; i++)
		(void)json_array_append_new(list, json_string(l->texts[i]));
	return list;
}

static json_t *number_json(double v)
{
	return v > 0 ? json_real(v) : json_null();
}

static json_t *products_json(const struct burnt *d, const struct burn_judgement *j)
{
	const struct burn_report *f = &d->found;

	if (!f->n)
		return json_null();
	return json_pack("{s:s, s:s, s:i, s:f, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I}",
			 "precision", precision_name(f->precision), "kernel", f->kernel, "n",
			 (int)f->n, "product_s", (double)f->product_ns / 1e9, "tflops",
			 number_json(j->tflops), "of_its_like", number_json(j->of_median),
			 "compared", (json_int_t)f->elements, "wrong", (json_int_t)f->wrong, "nan",
			 (json_int_t)f->nan, "inf", (json_int_t)f->inf, "repeated",
			 (json_int_t)f->repeated, "reference_wrong",
			 (json_int_t)f->reference_wrong);
}

static json_t *memory_json(const struct burnt *d, const struct burn_judgement *j)
{
	const struct burn_report *f = &d->found;

	if (!f->memory_ns && !f->words)
		return json_null();
	return json_pack("{s:f, s:o, s:i, s:I, s:I, s:I}", "memory_s", (double)f->memory_ns / 1e9,
			 "gb_per_s", number_json(j->gb_per_s), "passes", (int)f->passes, "words",
			 (json_int_t)f->words, "wrong", (json_int_t)f->words_wrong, "repeated",
			 (json_int_t)f->words_repeated);
}

static json_t *copies_json(const struct burnt *d, const struct burn_judgement *j)
{
	const struct burn_copies *f = &d->found.copies;

	if (!f->words)
		return json_null();
	return json_pack(
		"{s:o, s:o, s:o, s:I, s:I, s:I}", "to_gb_per_s", number_json(j->copies[BURN_TO]),
		"from_gb_per_s", number_json(j->copies[BURN_FROM]), "both_gb_per_s",
		number_json(j->copies[BURN_BOTH]), "words", (json_int_t)f->words, "wrong_to",
		(json_int_t)f->wrong[BURN_TO], "wrong_from", (json_int_t)f->wrong[BURN_FROM]);
}

static json_t *peers_json(const struct burnt *d)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < d->found.n_links; i++) {
		const struct burn_link *l = &d->found.links[i];
		const struct burn_copies *c = &l->copies;

		(void)json_array_append_new(
			list,
			json_pack("{s:i, s:b, s:b, s:o, s:o, s:o, s:I, s:I}", "gpu", (int)l->gpu,
				  "nvlink", (int)l->nvlink, "reached", c->code != -EHOSTUNREACH,
				  "to_gb_per_s", number_json(burn_copy_speed(c, BURN_TO)),
				  "from_gb_per_s", number_json(burn_copy_speed(c, BURN_FROM)),
				  "both_gb_per_s", number_json(burn_copy_speed(c, BURN_BOTH)),
				  "words", (json_int_t)c->words, "wrong",
				  (json_int_t)c->wrong[BURN_TO]));
	}
	return list;
}

static json_t *throttled_json(const struct burnt *d)
{
	json_t *all = json_object();

	for (unsigned int bit = 0; bit < 64; bit++) {
		const char *name = health_throttle(UINT64_C(1) << bit, 0, NULL);

		if (name && d->throttled_ns[bit])
			(void)json_object_set_new(all, name,
						  json_real((double)d->throttled_ns[bit] / 1e9));
	}
	return all;
}

static json_t *curve_json(const struct burn_curve *c)
{
	json_t *a = json_array();

	for (uint32_t i = 0; i < c->n; i++) {
		const struct burn_sample *s = &c->s[i];
		const struct {
			const char *key;
			uint32_t known;
			float value;
		} figures[] = {
			{ "power_w", SAMPLE_POWER, s->power_w },
			{ "clock_sm_mhz", SAMPLE_CLOCK, s->clock_mhz },
			{ "temperature_c", SAMPLE_TEMP, s->temp_c },
			{ "utilisation", SAMPLE_UTIL, s->util },
			{ "tflops", SAMPLE_TFLOPS, s->tflops },
			{ "gb_per_s", SAMPLE_MEMORY, s->gb_per_s },
		};
		json_t *o = json_pack("{s:f}", "at_s", s->at_ms / 1e3);

		for (size_t k = 0; k < ARRAY_LEN(figures); k++)
			(void)json_object_set_new(o, figures[k].key,
						  s->known & figures[k].known
							  ? json_real((double)figures[k].value)
							  : json_null());
		(void)json_array_append_new(a, o);
	}
	return a;
}

static json_t *device_json(const struct burnt *d, const struct burn_judgement *j)
{
	json_t *index = d->dev.index == BURN_NO_INDEX ? json_null() : json_integer(d->dev.index);
	json_t *o = json_pack("{s:o, s:o, s:s, s:s, s:s, s:o, s:o, s:f}", "gpu", index, "mig",
			      d->dev.mig >= 0 ? json_integer(d->dev.mig) : json_null(), "uuid",
			      d->dev.uuid, "name", d->dev.name, "verdict",
			      verdict_words[j->verdict], "reasons", texts_json(&j->reasons),
			      "notes", texts_json(&j->notes), "tested_s", seconds_of(d));

	(void)json_object_set_new(o, "products", products_json(d, j));
	(void)json_object_set_new(o, "memory", memory_json(d, j));
	(void)json_object_set_new(o, "copies", copies_json(d, j));
	(void)json_object_set_new(o, "peers", peers_json(d));
	(void)json_object_set_new(o, "power_mean_w", number_json(mean_watts(d)));
	(void)json_object_set_new(o, "power_most_w", number_json(d->watts_most));
	(void)json_object_set_new(o, "temperature_first_c", number_json(d->temp_first));
	(void)json_object_set_new(o, "temperature_most_c", number_json(d->temp_most));
	(void)json_object_set_new(o, "temperature_slope_c_per_min",
				  j->slope_known ? json_real(j->slope_c_per_min) : json_null());
	(void)json_object_set_new(o, "clock_least_mhz", number_json(d->clock_least));
	(void)json_object_set_new(o, "slowed_s", throttled_json(d));
	(void)json_object_set_new(o, "curve", curve_json(&d->curve));
	return o;
}

static json_t *node_json(const struct burn_report_of *r, const struct burn_node *n)
{
	json_t *devices = json_array();

	for (uint32_t i = n->first; i < n->first + n->n; i++)
		(void)json_array_append_new(devices,
					    device_json(&r->devices[i], &r->judgements[i]));
	return json_pack("{s:s, s:o, s:o}", "node", n->name, "devices", devices, "trouble",
			 n->trouble ? json_new_text(n->trouble) : json_null());
}

static json_t *nodes_json(const struct burn_report_of *r)
{
	json_t *nodes = json_array();

	for (size_t i = 0; i < r->n_nodes; i++)
		(void)json_array_append_new(nodes, node_json(r, &r->nodes[i]));
	return nodes;
}

json_t *burn_report_json(const struct burn_report_of *r)
{
	char time[CLOCK_TEXT_MAX];
	json_t *doc = json_pack("{s:i, s:s, s:s, s:f, s:i}", "format", FORMAT, "began",
				clock_format_iso(r->began_wall_ns, time), "load",
				burn_load_name(r->order->policy.burn.load), "for_s",
				(double)r->for_ns / 1e9, "exit_code", burn_report_exit_code(r));
	json_t *node = r->instance ? NULL : node_json(r, r->nodes);

	if (r->instance) {
		(void)json_object_set_new(doc, "instance", json_string(r->instance));
		(void)json_object_set_new(doc, "nodes", nodes_json(r));
	}
	(void)json_object_update(doc, node);
	json_decref(node);
	return doc;
}

int burn_report_exit_code(const struct burn_report_of *r)
{
	const struct burn_judgement none = { .verdict = BURN_UNTESTED };
	int code = burn_exit_code(r->judgements, r->n);

	for (size_t i = 0; i < r->n_nodes && code != 1; i++)
		if (!r->nodes[i].n)
			code = burn_exit_code(&none, 1);
	return code;
}

/* -------- for CI -------- */

static void add_lines(struct strbuf *out, const struct text_list *l, const char *between)
{
	for (size_t i = 0; i < l->n; i++) {
		strbuf_adds(out, i ? between : "");
		strbuf_add_xml(out, l->texts[i]);
	}
}

/* Some who read it show the attribute, and some the text. */
static void add_case(struct strbuf *out, const struct burn_report_of *r, uint32_t i)
{
	const struct burnt *d = &r->devices[i];
	const struct burn_judgement *j = &r->judgements[i];
	const char *word = j->verdict == BURN_BAD ? "failure" : "skipped";
	char gpu[CELL];

	strbuf_addf(out, "  <testcase classname=\"");
	strbuf_add_xml(out, node_of(r, i)->name);
	strbuf_addf(out, "\" name=\"gpu %s ", label(&d->dev, gpu));
	strbuf_add_xml(out, d->dev.uuid);
	strbuf_addf(out, "\" time=\"%.3f\">", seconds_of(d));
	if (j->verdict != BURN_GOOD) {
		strbuf_addf(out, "<%s message=\"", word);
		add_lines(out, &j->reasons, "; ");
		strbuf_adds(out, "\">");
		add_lines(out, &j->reasons, "\n");
		strbuf_addf(out, "</%s>", word);
	}
	if (j->notes.n) {
		strbuf_adds(out, "<system-out>");
		add_lines(out, &j->notes, "\n");
		strbuf_adds(out, "</system-out>");
	}
	strbuf_adds(out, "</testcase>\n");
}

/* Of a node without devices the case is that of the node. */
static void add_suite(struct strbuf *out, const struct burn_report_of *r, const struct burn_node *n)
{
	unsigned int failures = 0, skipped = !n->n;
	char began[CLOCK_TEXT_MAX];
	double seconds = 0;

	for (uint32_t i = n->first; i < n->first + n->n; i++) {
		seconds = fmax(seconds, seconds_of(&r->devices[i]));
		failures += r->judgements[i].verdict == BURN_BAD;
		skipped += r->judgements[i].verdict == BURN_UNTESTED ||
			   r->judgements[i].verdict == BURN_YIELDED;
	}
	strbuf_adds(out, "<testsuite name=\"tenure burn");
	if (r->instance) {
		strbuf_addc(out, ' ');
		strbuf_add_xml(out, n->name);
	}
	strbuf_addf(out,
		    "\" tests=\"%u\" failures=\"%u\" skipped=\"%u\" errors=\"0\" time=\"%.3f\" "
		    "timestamp=\"%s\">\n",
		    (unsigned int)n->n + !n->n, failures, skipped, seconds,
		    clock_format_iso(r->began_wall_ns, began));
	for (uint32_t i = n->first; i < n->first + n->n; i++)
		add_case(out, r, i);
	if (!n->n) {
		strbuf_adds(out, "  <testcase classname=\"");
		strbuf_add_xml(out, n->name);
		strbuf_adds(out, "\" name=\"node\"><skipped message=\"");
		strbuf_add_xml(out, n->trouble ? n->trouble : "it has no GPU to test");
		strbuf_adds(out, "\"/></testcase>\n");
	}
	strbuf_adds(out, "</testsuite>\n");
}

int burn_report_junit(const struct burn_report_of *r, const char *path, struct err *e)
{
	cleanup_strbuf struct strbuf out = STRBUF_INIT;

	strbuf_adds(&out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
	if (r->instance)
		strbuf_adds(&out, "<testsuites>\n");
	for (size_t i = 0; i < r->n_nodes; i++)
		add_suite(&out, r, &r->nodes[i]);
	if (r->instance)
		strbuf_adds(&out, "</testsuites>\n");
	return fs_write_report(path, out.data, out.len, 0644, e);
}

/* -------- all of it -------- */

static int write_files(const struct cmd_ctx *ctx, const struct burn_report_of *r)
{
	static const struct {
		const char *option;
		int (*write)(const struct burn_report_of *r, const char *path, struct err *e);
	} files[] = { { "junit", burn_report_junit }, { "svg", draw } };
	int code = CMD_OK;

	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		const char *path = opts_text(ctx->opts, files[i].option);
		struct err e = ERR_INIT;

		if (path && files[i].write(r, path, &e) < 0)
			code = cmd_fail(BURN_CANNOT_TEST, e.text);
	}
	return code;
}

static int show(const struct cmd_ctx *ctx, const struct burn_report_of *r)
{
	const int unwritten = write_files(ctx, r), verdict = burn_report_exit_code(r);
	const int code = verdict ? verdict : unwritten;
	struct err e = ERR_INIT;

	if (opts_flag(ctx->opts, "json")) {
		json_t *doc = burn_report_json(r);

		(void)json_object_set_new(doc, "exit_code", json_integer(code));
		cmd_print_json(doc);
	} else {
		burn_report_print(r, stdout);
	}
	if (!r->n && !r->instance)
		(void)cmd_fail(code, r->nodes->trouble);
	if (fs_flush_stdout(&e) < 0)
		return cmd_fail(code ? code : BURN_CANNOT_TEST, e.text);
	return code;
}

int burn_report(const struct cmd_ctx *ctx, struct burn_report_of *r)
{
	struct burn_judgement *judgements = xcalloc(r->n ? r->n : 1, sizeof(*judgements));
	int code;

	burn_judge(r->devices, r->n, judgements);
	r->judgements = judgements;
	code = show(ctx, r);
	for (uint32_t i = 0; i < r->n; i++)
		burn_judgement_clear(&judgements[i]);
	free(judgements);
	r->judgements = NULL;
	return code;
}
