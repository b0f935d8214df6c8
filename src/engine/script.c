/* SPDX-License-Identifier: MIT */
#include "engine/script.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

static bool is_dropped(const struct engine_request *req, const char *directive)
{
	for (size_t i = 0; req->drop && i < req->drop->n; i++)
		if (str_has_prefix(directive, req->drop->texts[i]))
			return true;
	return false;
}

void script_add_directive(struct strbuf *script, const char *mark, const struct engine_request *req,
			  const char *fmt, ...)
{
	cleanup_strbuf struct strbuf text = STRBUF_INIT;
	va_list ap;

	va_start(ap, fmt);
	strbuf_addv(&text, fmt, ap);
	va_end(ap);
	if (!is_dropped(req, strbuf_str(&text)))
		strbuf_addf(script, "%s %s\n", mark, strbuf_str(&text));
}

void script_add_options(struct strbuf *script, const char *mark, const struct engine_request *req)
{
	for (size_t i = 0; req->options && i < req->options->n; i++) {
		const char *line = req->options->texts[i];

		if (mark && line[0] != '#')
			strbuf_addf(script, "%s %s\n", mark, line);
		else
			strbuf_addf(script, "%s\n", line);
	}
}

void script_add_agent(struct strbuf *script, const char *launcher, const struct engine_request *req)
{
	strbuf_adds(script, launcher);
	for (const char *const *word = req->agent; *word; word++) {
		strbuf_addc(script, ' ');
		strbuf_add_quoted(script, *word);
	}
	strbuf_addc(script, '\n');
}

/* -------- templates -------- */

static int unknown(const char *name, size_t n, const struct script_value *values, struct err *e)
{
	cleanup_strbuf struct strbuf known = STRBUF_INIT;

	for (const struct script_value *v = values; v->name; v++)
		strbuf_addf(&known, "%s{%s}", known.len ? ", " : "", v->name);
	return err_set(e, -EINVAL,
		       "the template has {%.*s}; what is known is %s, and {{ stands for {", (int)n,
		       name, strbuf_str(&known));
}

static const struct script_value *find_value(const char *name, size_t n,
					     const struct script_value *values)
{
	for (; values->name; values++)
		if (strlen(values->name) == n && strncmp(values->name, name, n) == 0)
			return values;
	return NULL;
}

int script_fill(const char *template_text, const struct script_value *values, struct strbuf *script,
		struct err *e)
{
	for (const char *p = template_text; *p;) {
		size_t n = strcspn(p, "{");
		const struct script_value *v;

		strbuf_add(script, p, n);
		p += n;
		if (!*p++)
			break;
		if (*p == '{') {
			strbuf_addc(script, *p++);
			continue;
		}
		n = strcspn(p, "}\n");
		v = find_value(p, n, values);
		if (p[n] != '}' || !v)
			return unknown(p, n, values, e);
		strbuf_adds(script, v->value);
		p += n + 1;
	}
	return 0;
}

const char *script_variable(const char *const *variables, const char *assignment)
{
	for (; *variables; variables++)
		if (str_has_prefix(*variables, assignment))
			return *variables + strlen(assignment);
	return NULL;
}
