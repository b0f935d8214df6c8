/* SPDX-License-Identifier: MIT */
#include "spool/agent_history.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "spool/ident.h"

#define SUFFIX	     ",history"
#define UUID_MAX     95
#define VERSION_MAX  31
#define WORD_MAX     15
#define STEP_LEAST_S 10
#define FIGURE_MAX   99999

enum column_kind { COLUMN_WORD, COLUMN_WHOLE, COLUMN_FIGURE };

static const struct column {
	const char *name;
	enum column_kind kind;
	uint64_t max;
} columns[] = {
	{ "state", COLUMN_WORD, 0 },
	{ "util", COLUMN_WHOLE, 100 },
	{ "power_w", COLUMN_FIGURE, FIGURE_MAX },
	{ "temp_c", COLUMN_WHOLE, FIGURE_MAX },
	{ "mem_used", COLUMN_WHOLE, INT64_MAX },
	{ "mem_ours", COLUMN_WHOLE, INT64_MAX },
	{ "task", COLUMN_WHOLE, INT64_MAX },
};

char *agent_history_path(const char *agent, char *buf)
{
	return str_print(buf, SPOOL_PATH_MAX, "%s/%s" SUFFIX, spool_dir_name(SPOOL_AGENTS), agent);
}

static json_t *whole(uint64_t n)
{
	return json_integer((json_int_t)n);
}

static json_t *member(const json_t *o, const char *key)
{
	json_t *v = json_object_get(o, key);

	return v ? json_incref(v) : json_null();
}

/* ---- to the file ---- */

static void put_run(json_t *runs, uint64_t n, json_t *value)
{
	(void)json_array_append_new(runs, whole(n));
	(void)json_array_append(runs, value);
}

/* NULL: there is nothing but nulls. */
static json_t *runs_of(const json_t *values)
{
	json_t *runs = json_array(), *before = NULL, *v;
	uint64_t n = 0;
	size_t i;

	json_array_foreach(values, i, v)
	{
		if (n && !json_equal(v, before)) {
			put_run(runs, n, before);
			n = 0;
		}
		before = v;
		n++;
	}
	if (n && (json_array_size(runs) || !json_is_null(before)))
		put_run(runs, n, before);
	if (json_array_size(runs))
		return runs;
	json_decref(runs);
	return NULL;
}

static json_t *device_text(const json_t *device)
{
	const json_t *samples = json_object_get(device, "samples");
	json_t *o = json_object(), *mig = json_object_get(device, "mig");

	(void)json_object_set_new(o, "uuid", member(device, "uuid"));
	(void)json_object_set_new(o, "gpu", member(device, "gpu"));
	if (json_is_integer(mig))
		(void)json_object_set(o, "mig", mig);
	for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
		json_t *runs = runs_of(json_object_get(samples, columns[i].name));

		if (runs)
			(void)json_object_set_new(o, columns[i].name, runs);
	}
	return o;
}

char *agent_history_text(const char *agent, const char *version, const json_t *doc)
{
	const json_t *all = json_object_get(doc, "devices"), *device;
	const json_t *times =
		json_object_get(json_object_get(json_array_get(all, 0), "samples"), "t");
	json_t *o = json_object(), *devices = json_array(), *from = json_array_get(times, 0);
	char *text;
	size_t i;

	json_array_foreach(all, i, device)
	{
		(void)json_array_append_new(devices, device_text(device));
	}
	(void)json_object_set_new(o, "format", whole(AGENT_HISTORY_FORMAT));
	(void)json_object_set_new(o, "agent", json_new_text(agent));
	(void)json_object_set_new(o, "version", json_new_text(version));
	(void)json_object_set_new(o, "time", member(doc, "now"));
	(void)json_object_set_new(o, "from", from ? json_incref(from) : member(doc, "now"));
	(void)json_object_set_new(o, "step_s", member(doc, "step_s"));
	(void)json_object_set_new(o, "n", whole(json_array_size(times)));
	(void)json_object_set_new(o, "devices", devices);
	text = json_dumps(o, JSON_COMPACT | NUMBER_DIGITS);
	json_decref(o);
	return text ? text : xstrdup("{}");
}

/* ---- from the file ---- */

/* Of whom and where a mistake is told. */
struct parsing {
	const char *path;
	char in[32]; /* "", or "devices[3]." */
	uint64_t from, step_s, n;
	struct err *e;
};

static int wrong(const struct parsing *p, const char *key, const char *what)
{
	return err_set(p->e, -EINVAL, "%s: %s%s: %s", p->path, p->in, key, what);
}

static bool is_whole(const json_t *v, uint64_t max)
{
	return json_is_integer(v) && json_integer_value(v) >= 0 &&
	       (uint64_t)json_integer_value(v) <= max;
}

static int get_whole(const struct parsing *p, const json_t *o, const char *key, uint64_t least,
		     uint64_t max, uint64_t *ret)
{
	const json_t *v = json_object_get(o, key);

	if (!v)
		return wrong(p, key, "it is missing");
	if (!is_whole(v, max) || (uint64_t)json_integer_value(v) < least)
		return wrong(p, key, "it is no such number");
	*ret = (uint64_t)json_integer_value(v);
	return 0;
}

/* A later version may know other states, so any word of that kind is one. */
static bool is_word(const json_t *v)
{
	const char *text = json_string_value(v);

	return text && text[0] && strlen(text) <= WORD_MAX &&
	       !text[strspn(text, "abcdefghijklmnopqrstuvwxyz-")];
}

static bool is_of_column(const struct column *c, const json_t *v)
{
	if (json_is_null(v))
		return true;
	if (c->kind == COLUMN_WORD)
		return is_word(v);
	if (c->kind == COLUMN_WHOLE)
		return is_whole(v, c->max);
	return json_is_number(v) && json_number_value(v) >= 0 &&
	       json_number_value(v) <= (double)c->max;
}

/* As many values as there are steps, in ret. */
static int take_runs(const struct parsing *p, const struct column *c, const json_t *runs,
		     json_t *ret)
{
	size_t size = json_array_size(runs);
	uint64_t left = p->n;

	if (runs && (!json_is_array(runs) || size % 2))
		return wrong(p, c->name, "it is no list of runs");
	for (size_t i = 0; i < size; i += 2) {
		const json_t *n = json_array_get(runs, i);
		json_t *v = json_array_get(runs, i + 1);

		if (!is_whole(n, left) || !json_integer_value(n))
			return wrong(p, c->name, "it has a run of no such length");
		if (!is_of_column(c, v))
			return wrong(p, c->name, "it has what is no such value");
		for (json_int_t k = json_integer_value(n); k > 0; k--)
			(void)json_array_append(ret, v);
		left -= (uint64_t)json_integer_value(n);
	}
	if (runs && left)
		return wrong(p, c->name, "it has too few steps");
	for (; left; left--)
		(void)json_array_append_new(ret, json_null());
	return 0;
}

static int take_samples(const struct parsing *p, const json_t *o, json_t *samples)
{
	json_t *t = json_array();
	int r = 0;

	for (uint64_t i = 0; i < p->n; i++)
		(void)json_array_append_new(t, whole(p->from + i * p->step_s));
	(void)json_object_set_new(samples, "t", t);
	for (size_t i = 0; i < ARRAY_LEN(columns) && r == 0; i++) {
		json_t *values = json_array();

		(void)json_object_set_new(samples, columns[i].name, values);
		r = take_runs(p, &columns[i], json_object_get(o, columns[i].name), values);
	}
	return r;
}

static int take_device(const struct parsing *p, const json_t *o, json_t *ret)
{
	const char *uuid = json_string_value(json_object_get(o, "uuid"));
	json_t *samples = json_object();
	uint64_t gpu = 0, mig = 0;
	bool part = json_object_get(o, "mig");
	int r = 0;

	(void)json_object_set_new(ret, "samples", samples);
	if (!json_is_object(o))
		r = wrong(p, "device", "it is no object");
	else if (!uuid || !uuid[0] || strlen(uuid) > UUID_MAX)
		r = wrong(p, "uuid", "it is no UUID");
	if (r == 0)
		r = get_whole(p, o, "gpu", 0, INT32_MAX, &gpu);
	if (r == 0 && part)
		r = get_whole(p, o, "mig", 0, INT32_MAX, &mig);
	if (r < 0)
		return r;
	(void)json_object_set_new(ret, "uuid", json_new_text(uuid));
	(void)json_object_set_new(ret, "gpu", whole(gpu));
	(void)json_object_set_new(ret, "mig", part ? whole(mig) : json_null());
	return take_samples(p, o, samples);
}

static int take_devices(struct parsing *p, const json_t *o, json_t *ret)
{
	const json_t *all = json_object_get(o, "devices");
	size_t n = json_array_size(all);
	int r = 0;

	if (!json_is_array(all))
		return wrong(p, "devices", "it is no list");
	if (n > AGENT_HISTORY_DEVICES_MAX || n * p->n > AGENT_HISTORY_POINTS_MAX)
		return wrong(p, "devices", "there are too many");
	for (size_t i = 0; i < n && r == 0; i++) {
		json_t *device = json_object();

		(void)json_array_append_new(ret, device);
		(void)str_print(p->in, sizeof(p->in), "devices[%zu].", i);
		r = take_device(p, json_array_get(all, i), device);
	}
	p->in[0] = '\0';
	return r;
}

/* A day at most, and none of it is yet to come. */
static int take_times(struct parsing *p, const json_t *o, uint64_t now_s, uint64_t *ret_time)
{
	const uint64_t day = AGENT_HISTORY_DAY_S;
	int r = get_whole(p, o, "time", 0, INT64_MAX / 2, ret_time);

	if (r == 0 && *ret_time > now_s + AGENT_HISTORY_AHEAD_S)
		r = wrong(p, "time", "it is yet to come");
	if (r == 0)
		r = get_whole(p, o, "from", 0, *ret_time, &p->from);
	if (r == 0)
		r = get_whole(p, o, "step_s", STEP_LEAST_S, day, &p->step_s);
	if (r == 0)
		r = get_whole(p, o, "n", 0, day / STEP_LEAST_S + 1, &p->n);
	if (r == 0 && (*ret_time - p->from > day + p->step_s ||
		       p->n * p->step_s > *ret_time - p->from + p->step_s))
		r = wrong(p, "n", "the steps are of more than a day, or yet to come");
	return r;
}

static int take_names(const struct parsing *p, const json_t *o, json_t *ret)
{
	const char *agent = json_get_str(o, "agent");
	const json_t *version = json_object_get(o, "version");
	const char *text = json_string_value(version);

	if (!agent || strlen(agent) > NAME_AGENT_MAX || !ident_is_name(agent))
		return wrong(p, "agent", "it is no name");
	if (version && (!text || strlen(text) > VERSION_MAX))
		return wrong(p, "version", "it is no version");
	(void)json_object_set_new(ret, "node", json_new_text(agent));
	(void)json_object_set_new(ret, "version", text ? json_new_text(text) : json_null());
	return 0;
}

static int take_all(struct parsing *p, const json_t *o, uint64_t now_s, json_t *ret)
{
	json_t *devices = json_array();
	uint64_t format = 0, time = 0;
	int r = get_whole(p, o, "format", 1, INT32_MAX, &format);

	(void)json_object_set_new(ret, "devices", devices);
	if (r == 0 && format != AGENT_HISTORY_FORMAT)
		r = err_set(p->e, -EPROTO,
			    "%s is of a later version of tenure (format %" PRIu64 ")", p->path,
			    format);
	if (r == 0)
		r = take_names(p, o, ret);
	if (r == 0)
		r = take_times(p, o, now_s, &time);
	if (r == 0)
		r = take_devices(p, o, devices);
	(void)json_object_set_new(ret, "now", whole(time));
	(void)json_object_set_new(ret, "seconds", whole(time - p->from));
	(void)json_object_set_new(ret, "step_s", whole(p->step_s));
	return r;
}

int agent_history_parse(const char *path, const char *text, size_t len, uint64_t now_s,
			json_t **ret, struct err *e)
{
	struct parsing p = { .path = path, .e = e };
	json_error_t je;
	json_t *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, &je), *doc = json_object();
	int r;

	if (!json_is_object(o))
		r = err_set(e, -EINVAL, "%s is no history of an agent: %s", path,
			    o ? "no object" : je.text);
	else
		r = take_all(&p, o, now_s, doc);
	json_decref(o);
	if (r == 0)
		*ret = json_incref(doc);
	json_decref(doc);
	return r;
}

/* ---- files ---- */

int agent_history_write(const struct spool *sp, const char *agent, const char *text, struct err *e)
{
	char path[SPOOL_PATH_MAX];

	return spool_replace(sp, agent_history_path(agent, path), text, strlen(text), e);
}

int agent_history_read(const struct spool *sp, const char *agent, uint64_t now_s, json_t **ret,
		       struct err *e)
{
	char path[SPOOL_PATH_MAX];
	cleanup_free char *text = NULL;
	size_t len;
	int r = spool_read(sp, agent_history_path(agent, path), AGENT_HISTORY_BYTES_MAX, &text,
			   &len, e);

	return r < 0 ? r : agent_history_parse(path, text, len, now_s, ret, e);
}
