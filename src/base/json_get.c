/* SPDX-License-Identifier: MIT */
#include "base/json_get.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/utf8.h"

const char *json_get_str(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

bool json_get_flag(const json_t *object, const char *key)
{
	return json_is_true(json_object_get(object, key));
}

double json_get_num(const json_t *object, const char *key)
{
	return json_number_value(json_object_get(object, key));
}

uint64_t json_get_u64(const json_t *object, const char *key)
{
	json_int_t v = json_integer_value(json_object_get(object, key));

	return v > 0 ? (uint64_t)v : 0;
}

unsigned int json_get_small(const json_t *object, const char *key, unsigned int max)
{
	uint64_t v = json_get_u64(object, key);

	return v < max ? (unsigned int)v : max;
}

void json_get_text(const json_t *object, const char *key, char *dst, size_t size)
{
	const char *text = json_get_str(object, key);

	(void)str_copy(dst, size, text ? text : "");
	(void)utf8_clean(dst);
}

json_t *json_new_text(const char *text)
{
	cleanup_free char *copy = xstrdup(text);

	copy[utf8_whole(copy, strlen(copy))] = '\0';
	return json_string(utf8_clean(copy));
}

void json_add_list(const json_t *list, const char *between, struct strbuf *b)
{
	const json_t *one;
	size_t i;

	json_array_foreach(list, i, one)
	{
		strbuf_adds(b, i ? between : "");
		if (json_is_string(one))
			strbuf_adds(b, json_string_value(one));
		else
			strbuf_addf(b, "%" JSON_INTEGER_FORMAT, json_integer_value(one));
	}
}
