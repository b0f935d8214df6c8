/* SPDX-License-Identifier: MIT */

/*
 * A sweep is read anew for each question: it is one short text per parameter, and nothing has to be
 * kept beside the spec. A parameter is NAME=A,B,C or NAME=FROM..TO with whole numbers.
 */

#include "spool/elements.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

struct parameter {
	size_t name_len;
	const char *values;
	bool range;
	uint64_t from, n; /* n values; a range begins with from */
};

static int parse_part(const char *text, size_t len, uint64_t *ret)
{
	char part[24];

	if (!len || len >= sizeof(part))
		return -EINVAL;
	(void)str_copy(part, len + 1, text);
	return str_to_u64(part, ret);
}

/* FROM..TO; -ERANGE: too many, -EDOM: none, -EINVAL: it is no range of whole numbers. */
static int parse_range(const char *values, struct parameter *p)
{
	const char *dots = strstr(values, "..");
	uint64_t to;

	if (!dots || parse_part(values, (size_t)(dots - values), &p->from) < 0 ||
	    str_to_u64(dots + 2, &to) < 0)
		return -EINVAL;
	if (to < p->from)
		return -EDOM;
	if (to - p->from >= SPEC_ELEMENTS_MAX)
		return -ERANGE;
	p->range = true;
	p->n = to - p->from + 1;
	return 0;
}

/* What is meant as one, well written or not. A path ("../data") is not. */
static bool looks_like_range(const char *value, size_t len)
{
	return strspn(value, "0123456789.+-eE") >= len && strcspn(value, "0123456789") < len &&
	       memmem(value, len, "..", 2);
}

static int no_range(const char *text, int r, struct err *e)
{
	if (r == -EDOM)
		return err_set(e, -EINVAL, "sweep: \"%.80s\" ends before it begins", text);
	if (r == -ERANGE)
		return err_set(e, r, "sweep: \"%.80s\" has more than %d values", text,
			       SPEC_ELEMENTS_MAX);
	return err_set(e, -EINVAL,
		       "sweep: \"%.80s\" has a range that cannot be read; a range stands alone and "
		       "is of whole numbers, like 1..5, and other values are written one by one, "
		       "like 0.1,0.01",
		       text);
}

static int parse_values(const char *text, struct parameter *p, struct err *e)
{
	int range = parse_range(p->values, p);

	if (range == 0)
		return 0;
	if (!p->values[0])
		return err_set(e, -EINVAL, "sweep: \"%.80s\" has no value", text);
	for (const char *v = p->values;; v++) {
		size_t len = strcspn(v, ",");

		if (looks_like_range(v, len))
			return no_range(text, range, e);
		p->n++;
		v += len;
		if (!*v)
			break;
	}
	return p->n == 1 && !p->values[strspn(p->values, ".")] ? no_range(text, range, e) : 0;
}

bool elements_is_variable(const char *name, size_t len)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
				      "0123456789";

	return len && !isdigit((unsigned char)name[0]) && strspn(name, letters) >= len;
}

static int parse_parameter(const char *text, struct parameter *ret, struct err *e)
{
	struct parameter p = { .name_len = strcspn(text, "=") };

	if (p.name_len > SPEC_NAME_MAX || text[p.name_len] != '=')
		return err_set(e, -EINVAL,
			       "sweep: \"%.80s\" is not NAME=VALUE,VALUE or NAME=FROM..TO", text);
	if (!elements_is_variable(text, p.name_len))
		return err_set(
			e, -EINVAL,
			"sweep: \"%.*s\" cannot be the name of a variable, which a task "
			"reads its value from; use letters, digits and _, and no digit first",
			(int)p.name_len, text);
	p.values = text + p.name_len + 1;

	int r = parse_values(text, &p, e);

	if (r == 0)
		*ret = p;
	return r;
}

/* One before it gives values to the same name. */
static bool is_repeated(const struct text_list *sweep, size_t i, size_t name_len)
{
	for (size_t j = 0; j < i; j++)
		if (strncmp(sweep->texts[j], sweep->texts[i], name_len + 1) == 0)
			return true;
	return false;
}

int sweep_count(const struct text_list *sweep, uint64_t *ret, struct err *e)
{
	uint64_t n = 1;

	for (size_t i = 0; i < sweep->n; i++) {
		struct parameter p;
		int r = parse_parameter(sweep->texts[i], &p, e);

		if (r < 0)
			return r;
		if (is_repeated(sweep, i, p.name_len))
			return err_set(e, -EINVAL,
				       "sweep: \"%.*s\" is given twice; write all of its values "
				       "behind one =",
				       (int)p.name_len, sweep->texts[i]);
		n *= p.n; /* both at most a million */
		if (p.n > SPEC_ELEMENTS_MAX || n > SPEC_ELEMENTS_MAX)
			return err_set(e, -ERANGE, "sweep: more than %d combinations",
				       SPEC_ELEMENTS_MAX);
	}
	*ret = n;
	return 0;
}

uint64_t element_index(const struct index_range *array, uint64_t element)
{
	return array->set ? array->from + element - 1 : element;
}

static void copy_value(const struct parameter *p, uint64_t k, char *value, size_t size)
{
	const char *v = p->values;

	if (p->range) {
		(void)snprintf(value, size, "%" PRIu64, p->from + k);
		return;
	}
	for (; k; k--)
		v += strcspn(v, ",") + 1;

	size_t len = strcspn(v, ",");

	(void)str_copy(value, len + 1 < size ? len + 1 : size, v);
}

bool element_parameter(const struct text_list *sweep, uint64_t element, size_t i,
		       char name[SPEC_NAME_MAX + 1], char *value, size_t value_size)
{
	uint64_t k = element - 1;
	struct parameter p;

	if (i >= sweep->n)
		return false;
	for (size_t j = sweep->n; j-- > i;) {
		if (parse_parameter(sweep->texts[j], &p, NULL) < 0)
			return false;
		if (j > i)
			k /= p.n;
	}
	(void)str_copy(name, p.name_len + 1, sweep->texts[i]);
	copy_value(&p, k % p.n, value, value_size);
	return true;
}

static void add_word(char letter, const struct output_words *w, struct strbuf *b)
{
	switch (letter) {
	case 'j':
		strbuf_addf(b, w->element ? "%llu.%llu" : "%llu", (unsigned long long)w->id,
			    (unsigned long long)w->element);
		break;
	case 'A':
		strbuf_addf(b, "%llu", (unsigned long long)w->id);
		break;
	case 'a':
		strbuf_addf(b, "%llu", (unsigned long long)w->index);
		break;
	case 'x':
		strbuf_adds(b, w->name ? w->name : "");
		break;
	case 'N':
		strbuf_adds(b, w->node ? w->node : "");
		break;
	case 'u':
		strbuf_adds(b, w->user ? w->user : "");
		break;
	default:
		strbuf_addc(b, letter);
	}
}

int output_path(const char *pattern, const struct output_words *words, struct strbuf *ret,
		struct err *e)
{
	for (const char *p = pattern; *p; p++) {
		if (*p != '%') {
			if (words)
				strbuf_addc(ret, *p);
			continue;
		}
		p++;
		if (!*p || !strchr("jAaxNu%", *p))
			return err_set(
				e, -EINVAL,
				"\"%%%.1s\" stands for nothing; there are %%j (id), %%A (id "
				"without its element), %%a (index), %%x (name), %%N (node), %%u "
				"(user) and %%%%",
				p);
		if (words)
			add_word(*p, words, ret);
	}
	return 0;
}
