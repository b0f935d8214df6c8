/* SPDX-License-Identifier: MIT */
#include "serve/options.h"

#include <errno.h>

#include "base/mem.h"
#include "base/strbuf.h"

bool options_is(const struct opt *row, const char *member)
{
	const char *name = row->name;

	for (; *name && *member; name++, member++)
		if (*member != (*name == '-' ? '_' : *name))
			return false;
	return !*name && !*member;
}

static bool add_text(struct strbuf *b, const json_t *value)
{
	if (json_is_string(value))
		strbuf_adds(b, json_string_value(value));
	else if (json_is_integer(value))
		strbuf_addf(b, "%lld", (long long)json_integer_value(value));
	else if (json_is_real(value))
		strbuf_addf(b, "%.15g", json_real_value(value));
	else
		return false;
	return true;
}

static int refuse(const struct opt *row, const char *what, struct err *e)
{
	cleanup_free char *name = xstrdup(row->name);

	for (char *p = name; *p; p++)
		*p = *p == '-' ? '_' : *p;
	return err_set(e, -EINVAL, "%s: %s is expected", name, what);
}

static int add_list(struct text_list *argv, const struct opt *row, const json_t *list,
		    struct err *e)
{
	bool one_by_one = row->spec.type == VALUE_TEXTS;
	cleanup_strbuf struct strbuf all = STRBUF_INIT;
	const json_t *value;
	size_t i;

	json_array_foreach(list, i, value)
	{
		cleanup_strbuf struct strbuf one = STRBUF_INIT;

		if (!add_text(&one, value))
			return refuse(row, "a list of texts or numbers", e);
		strbuf_addf(&all, "%s%s", i ? "," : "", strbuf_str(&one));
		if (one_by_one)
			text_list_take(argv, xasprintf("--%s=%s", row->name, strbuf_str(&one)));
	}
	if (!one_by_one || !i)
		text_list_take(argv, xasprintf("--%s=%s", row->name, strbuf_str(&all)));
	return 0;
}

int options_add(struct text_list *argv, const struct opt *row, const json_t *value, struct err *e)
{
	cleanup_strbuf struct strbuf text = STRBUF_INIT;

	if (row->spec.type == VALUE_FLAG) {
		if (!json_is_boolean(value))
			return refuse(row, "true or false", e);
		text_list_take(argv, xasprintf("--%s=%s", row->name,
					       json_is_true(value) ? "true" : "false"));
		return 0;
	}
	if (json_is_array(value))
		return add_list(argv, row, value, e);
	if (!add_text(&text, value))
		return refuse(row, "a text or a number", e);
	text_list_take(argv, xasprintf("--%s=%s", row->name, strbuf_str(&text)));
	return 0;
}

int options_take_back(struct text_list *argv, const struct opt *row, struct err *e)
{
	const struct value_spec *spec = &row->spec;
	bool number = value_is(spec->type, VALUE_IS_NUMBER);
	struct value least = { .type = spec->type, .num = spec->min }, most = least;
	cleanup_free char *from = NULL, *to = NULL, *range = NULL;

	if (spec->type == VALUE_NAME || spec->type == VALUE_FLAG || (number && spec->min)) {
		most.num = spec->max;
		from = number ? value_format(spec, &least) : NULL;
		to = number && spec->max ? value_format(spec, &most) : NULL;
		range = xasprintf("a value of its own%s%s%s%s%s", from ? ", " : "",
				  from && !to ? "at least " : "", from ? from : "",
				  to ? " to " : "", to ? to : "");
		return refuse(row, range, e);
	}
	text_list_take(argv, xasprintf("--%s=%s", row->name, number ? "0" : ""));
	return 0;
}
