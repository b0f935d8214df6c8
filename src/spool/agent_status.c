/* SPDX-License-Identifier: MIT */
#include "spool/agent_status.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "spool/ident.h"
#include "spool/record.h"

#define SUFFIX	    ",status"
#define POWER_MAX_W 99999
#define TEMP_MAX_C  999

bool agent_status_is_token(const char *text)
{
	size_t n = strlen(text);

	if (!n || n > AGENT_STATUS_TOKEN_MAX || !islower((unsigned char)text[0]))
		return false;
	return strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789") == n;
}

char *agent_status_path(const char *agent, char *buf)
{
	return str_print(buf, SPOOL_PATH_MAX, "%s/%s" SUFFIX, spool_dir_name(SPOOL_AGENTS), agent);
}

/* ---- to JSON ---- */

static void put_text(json_t *o, const char *key, const char *text)
{
	if (text[0])
		(void)json_object_set_new(o, key, json_string(text));
}

static void put_number(json_t *o, const char *key, uint64_t n)
{
	if (n)
		(void)json_object_set_new(o, key, json_integer((json_int_t)n));
}

static void put_time(json_t *o, const char *key, uint64_t wall_ns)
{
	if (wall_ns)
		(void)json_object_set_new(o, key, json_real(record_seconds(wall_ns)));
}

/* The numbers of a device that may not be known, or may be 0. */
static const struct figure {
	const char *key;
	unsigned int knows; /* 0: that 0 is none */
	size_t at;
	bool wide; /* of 64 bits */
	uint64_t max;
} figures[] = {
#define FIGURE(key, knows, member, max)                                                            \
	{                                                                                          \
		key, knows, offsetof(struct agent_status_device, member),                          \
			sizeof(((struct agent_status_device *)0)->member) == sizeof(uint64_t), max \
	}
	FIGURE("gpu", AGENT_STATUS_GPU, gpu, INT32_MAX),
	FIGURE("mig", AGENT_STATUS_MIG, mig, INT32_MAX),
	FIGURE("used", AGENT_STATUS_USED, used_bytes, INT64_MAX),
	FIGURE("held", AGENT_STATUS_HELD, held_bytes, INT64_MAX),
	FIGURE("util", AGENT_STATUS_UTIL, util, 100),
	FIGURE("power", AGENT_STATUS_POWER, power_w, POWER_MAX_W),
	FIGURE("limit", AGENT_STATUS_LIMIT, limit_w, POWER_MAX_W),
	FIGURE("temp", AGENT_STATUS_TEMP, temp_c, TEMP_MAX_C),
	FIGURE("for", AGENT_STATUS_FOR, for_s, INT64_MAX),
	FIGURE("xid", 0, xid, INT32_MAX),
#undef FIGURE
};

static uint64_t figure_of(const struct figure *f, const struct agent_status_device *d)
{
	const char *at = (const char *)d + f->at;

	return f->wide ? *(const uint64_t *)(const void *)at
		       : *(const unsigned int *)(const void *)at;
}

static void set_figure(const struct figure *f, struct agent_status_device *d, uint64_t n)
{
	char *at = (char *)d + f->at;

	if (f->wide)
		*(uint64_t *)(void *)at = n;
	else
		*(unsigned int *)(void *)at = (unsigned int)n;
	d->knows |= f->knows;
}

static json_t *device_json(const struct agent_status_device *d, bool in_use)
{
	json_t *o = json_object();

	put_text(o, "uuid", d->uuid);
	put_text(o, "model", d->model);
	put_number(o, "memory", d->mem_bytes);
	put_text(o, "state", d->state);
	put_text(o, "use", in_use ? d->use : "");
	for (size_t i = 0; in_use && i < ARRAY_LEN(figures); i++) {
		uint64_t n = figure_of(&figures[i], d);

		if (figures[i].knows ? d->knows & figures[i].knows : n)
			(void)json_object_set_new(o, figures[i].key, json_integer((json_int_t)n));
	}
	if (d->shut)
		(void)json_object_set_new(o, "shut", json_true());
	return o;
}

static char *text_of(const struct agent_status *s, bool in_use)
{
	json_t *o = json_object(), *devices = json_array();
	char *text;

	put_text(o, "agent", s->agent);
	put_text(o, "host", s->host);
	put_text(o, "version", s->version);
	put_time(o, "began", s->began_ns);
	put_text(o, "engine", s->engine);
	put_text(o, "job", s->job);
	put_number(o, "restarts", s->restarts);
	put_text(o, "token", s->token);
	put_text(o, "pool", s->pool);
	put_time(o, "deadline", s->end_ns);
	put_number(o, "unseen", s->unseen);
	put_time(o, "seen", in_use ? s->seen_ns : 0);
	if (s->only)
		(void)json_object_set_new(o, "only", json_true());
	if (s->knows_gangs)
		(void)json_object_set_new(o, "free", json_integer((json_int_t)s->free));
	for (unsigned int i = 0; i < s->n_devices; i++)
		(void)json_array_append_new(devices, device_json(&s->devices[i], in_use));
	(void)json_object_set_new(o, "devices", devices);
	text = json_dumps(o, JSON_COMPACT);
	json_decref(o);
	return text ? text : xstrdup("{}");
}

/* Who needs the rest reads no more than that, whatever devices are called. */
char *agent_status_text(const struct agent_status *s)
{
	char *text = text_of(s, true);

	if (strlen(text) <= AGENT_STATUS_BYTES_MAX)
		return text;
	free(text);
	return text_of(s, false);
}

/* ---- from JSON ---- */

/* Of whom and where a mistake is told. */
struct parsing {
	const char *path, *in; /* "", or "devices[3]." */
	struct err *e;
};

static int wrong(const struct parsing *p, const char *key, const char *what)
{
	return err_set(p->e, -EINVAL, "%s: %s%s: %s", p->path, p->in, key, what);
}

enum text_kind { TEXT_ANY, TEXT_NEEDED, TEXT_NAME, TEXT_TOKEN };

static int get_text(const struct parsing *p, const json_t *o, const char *key, enum text_kind kind,
		    char *dst, size_t size)
{
	const json_t *v = json_object_get(o, key);
	const char *text = json_string_value(v);

	dst[0] = '\0';
	if (!v)
		return kind == TEXT_NEEDED ? wrong(p, key, "it is missing") : 0;
	if (!text)
		return wrong(p, key, "it is no text");
	if (strlen(text) >= size)
		return wrong(p, key, "it is too long");
	if (kind == TEXT_NAME && !ident_is_name(text))
		return wrong(p, key, "it is no name");
	if (kind == TEXT_TOKEN && !agent_status_is_token(text))
		return wrong(p, key, "it is no token: lower-case letters and digits");
	json_get_text(o, key, dst, size);
	return 0;
}

static int get_number(const struct parsing *p, const json_t *o, const char *key, uint64_t max,
		      uint64_t *ret)
{
	const json_t *v = json_object_get(o, key);

	*ret = 0;
	if (v && (!json_is_integer(v) || json_integer_value(v) < 0 ||
		  (uint64_t)json_integer_value(v) > max))
		return wrong(p, key, "it is no such number");
	*ret = json_get_u64(o, key);
	return 0;
}

static int get_time(const struct parsing *p, const json_t *o, const char *key, uint64_t *ret)
{
	const json_t *v = json_object_get(o, key);

	if (v && (!json_is_number(v) || json_number_value(v) < 0))
		return wrong(p, key, "it is no time");
	*ret = record_ns(v);
	return 0;
}

static int get_figures(const struct parsing *p, const json_t *o, struct agent_status_device *ret)
{
	int r = 0;

	ret->knows = 0;
	for (size_t i = 0; i < ARRAY_LEN(figures) && r == 0; i++) {
		const struct figure *f = &figures[i];
		uint64_t n = 0;

		r = get_number(p, o, f->key, f->max, &n);
		set_figure(f, ret, n);
		if (!json_object_get(o, f->key))
			ret->knows &= ~f->knows;
	}
	return r;
}

static int get_device(const struct parsing *p, const json_t *o, struct agent_status_device *ret)
{
	int r = json_is_object(o) ? 0 : wrong(p, "device", "it is no object");

	if (r == 0)
		r = get_text(p, o, "uuid", TEXT_NEEDED, ret->uuid, sizeof(ret->uuid));
	if (r == 0)
		r = get_text(p, o, "model", TEXT_ANY, ret->model, sizeof(ret->model));
	if (r == 0)
		r = get_text(p, o, "state", TEXT_ANY, ret->state, sizeof(ret->state));
	if (r == 0)
		r = get_text(p, o, "use", TEXT_ANY, ret->use, sizeof(ret->use));
	if (r == 0)
		r = get_figures(p, o, ret);
	ret->shut = json_get_flag(o, "shut");
	return r < 0 ? r : get_number(p, o, "memory", INT64_MAX, &ret->mem_bytes);
}

static int get_devices(const struct parsing *p, const json_t *o, struct agent_status *ret)
{
	const json_t *all = json_object_get(o, "devices");
	size_t n = json_array_size(all);
	char in[32];
	int r = 0;

	ret->n_devices = 0;
	if (all && !json_is_array(all))
		return wrong(p, "devices", "it is no list");
	if (n > AGENT_STATUS_DEVICES_MAX)
		return wrong(p, "devices", "there are too many");
	for (size_t i = 0; i < n && r == 0; i++) {
		struct parsing one = { p->path, str_print(in, sizeof(in), "devices[%zu].", i),
				       p->e };

		r = get_device(&one, json_array_get(all, i), &ret->devices[i]);
		ret->n_devices++;
	}
	return r;
}

static int get_texts(const struct parsing *p, const json_t *o, struct agent_status *ret)
{
	const struct {
		const char *key;
		enum text_kind kind;
		char *dst;
		size_t size;
	} texts[] = {
		{ "agent", TEXT_NEEDED, ret->agent, sizeof(ret->agent) },
		{ "host", TEXT_ANY, ret->host, sizeof(ret->host) },
		{ "version", TEXT_ANY, ret->version, sizeof(ret->version) },
		{ "engine", TEXT_NAME, ret->engine, sizeof(ret->engine) },
		{ "job", TEXT_ANY, ret->job, sizeof(ret->job) },
		{ "token", TEXT_TOKEN, ret->token, sizeof(ret->token) },
		{ "pool", TEXT_NAME, ret->pool, sizeof(ret->pool) },
	};
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(texts) && r == 0; i++)
		r = get_text(p, o, texts[i].key, texts[i].kind, texts[i].dst, texts[i].size);
	return r == 0 && !ident_is_name(ret->agent) ? wrong(p, "agent", "it is no name") : r;
}

static int take_status(const struct parsing *p, const json_t *o, struct agent_status *ret)
{
	uint64_t restarts = 0, unseen = 0, n_free = 0;
	int r = get_texts(p, o, ret);

	if (r == 0)
		r = get_time(p, o, "began", &ret->began_ns);
	if (r == 0)
		r = get_time(p, o, "seen", &ret->seen_ns);
	if (r == 0)
		r = get_time(p, o, "deadline", &ret->end_ns);
	if (r == 0)
		r = get_number(p, o, "restarts", INT32_MAX, &restarts);
	if (r == 0)
		r = get_number(p, o, "unseen", AGENT_STATUS_DEVICES_MAX, &unseen);
	if (r == 0)
		r = get_number(p, o, "free", AGENT_STATUS_DEVICES_MAX, &n_free);
	ret->only = json_get_flag(o, "only");
	ret->knows_gangs = json_object_get(o, "free");
	ret->free = (unsigned int)n_free;
	ret->restarts = (unsigned int)restarts;
	ret->unseen = (unsigned int)unseen;
	ret->written_ns = 0;
	return r < 0 ? r : get_devices(p, o, ret);
}

int agent_status_parse(const char *path, const char *text, size_t len, struct agent_status *ret,
		       struct err *e)
{
	const struct parsing p = { path, "", e };
	json_error_t je;
	json_t *o = json_loadb(text, len, 0, &je);
	int r;

	if (!json_is_object(o))
		r = err_set(e, -EINVAL, "%s is no status of an agent: %s", path,
			    o ? "no object" : je.text);
	else
		r = take_status(&p, o, ret);
	json_decref(o);
	return r;
}

/* ---- files ---- */

int agent_status_write(const struct spool *sp, const char *agent, const char *text, struct err *e)
{
	char path[SPOOL_PATH_MAX];

	return spool_replace(sp, agent_status_path(agent, path), text, strlen(text), e);
}

static int read_path(const struct spool *sp, const char *path, struct agent_status *ret,
		     struct err *e)
{
	cleanup_free char *text = NULL;
	struct stat st;
	size_t len;
	int r = spool_read_stat(sp, path, AGENT_STATUS_BYTES_MAX, &text, &len, &st, e);

	if (r == 0)
		r = agent_status_parse(path, text, len, ret, e);
	if (r == 0)
		ret->written_ns = clock_timespec_ns(&st.st_mtim);
	return r;
}

int agent_status_read(const struct spool *sp, const char *agent, struct agent_status *ret,
		      struct err *e)
{
	char path[SPOOL_PATH_MAX];

	return read_path(sp, agent_status_path(agent, path), ret, e);
}

struct each {
	const struct spool *sp;
	agent_status_fn fn;
	void *data;
	struct agent_status *s;
};

static int look(void *data, const char *file, unsigned char type)
{
	const struct each *each = data;
	char path[SPOOL_PATH_MAX];

	(void)type;
	if (!str_has_suffix(file, SUFFIX) ||
	    read_path(each->sp, spool_path(SPOOL_AGENTS, file, path), each->s, NULL) < 0)
		return 0;
	return each->fn(each->data, each->s);
}

int agent_status_each(const struct spool *sp, agent_status_fn fn, void *data, struct err *e)
{
	cleanup_free struct agent_status *s = xcalloc(1, sizeof(*s));
	struct each each = { sp, fn, data, s };

	return spool_each(sp, spool_dir_name(SPOOL_AGENTS), look, &each, e);
}

void agent_status_add_kinds(const struct agent_status *s, struct strbuf *b)
{
	for (unsigned int i = 0; i < s->n_devices; i++) {
		const struct agent_status_device *d = &s->devices[i];
		cleanup_strbuf struct strbuf kind = STRBUF_INIT;
		char size[UNIT_TEXT_MAX];

		strbuf_adds(&kind, d->model[0] ? d->model : "GPUs of which nothing is known");
		if (d->mem_bytes)
			strbuf_addf(&kind, " (%s)", unit_format_gib(d->mem_bytes, size));
		if (!strstr(strbuf_str(b), strbuf_str(&kind)))
			strbuf_addf(b, "%s%s", b->len ? ", " : "", strbuf_str(&kind));
	}
}
