/* SPDX-License-Identifier: MIT */
#include "serve/request.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/utf8.h"

/* Those that are no texts. */
static const char *const flags[] = { "ended", "follow", "now" };
static const struct {
	const char *name;
	uint64_t min;
} numbers[] = { { "limit", 1 }, { "since", 0 }, { "step", 0 },
		{ "last", 0 },	{ "from", 0 },	{ "attempt", 1 } };

static const char *wrong_value(const char *key, const char *value)
{
	uint64_t n;

	for (size_t i = 0; i < ARRAY_LEN(flags); i++)
		if (strcmp(flags[i], key) == 0 && strcmp(value, "true") != 0 &&
		    strcmp(value, "false") != 0)
			return "true or false";
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
		if (strcmp(numbers[i].name, key) == 0 &&
		    (str_to_u64(value, &n) < 0 || n < numbers[i].min))
			return numbers[i].min ? "a whole number of at least 1" : "a whole number";
	return NULL;
}

/* That one of the route's. */
static bool take_query(struct request *r, size_t i, const char *value)
{
	const char *name = r->route->queries[i];
	const char *wanted = wrong_value(name, value ? value : "");

	if (r->queries & 1u << i)
		answer_problem(&r->answer, MHD_HTTP_BAD_REQUEST, "%s is said more than once", name);
	else if (wanted)
		answer_problem(&r->answer, MHD_HTTP_BAD_REQUEST, "%s has to be %s", name, wanted);
	r->queries |= 1u << i;
	return !r->answer.status;
}

static enum MHD_Result stop_at_unknown(void *data, enum MHD_ValueKind kind, const char *key,
				       size_t size, const char *value, size_t value_size)
{
	struct request *r = data;
	const char *const *known = r->route->queries, *near;

	for (size_t i = 0; known[i]; i++)
		if (strlen(known[i]) == size && memcmp(known[i], key, size) == 0)
			return take_query(r, i, value) ? MHD_YES : MHD_NO;
	near = str_nearest(key, known);
	answer_problem(&r->answer, MHD_HTTP_BAD_REQUEST, "there is no parameter \"%s\" here%s%s%s",
		       key, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
	return MHD_NO;
}

bool request_queries_known(struct request *r)
{
	if (r->many_queries) {
		answer_problem(&r->answer, MHD_HTTP_BAD_REQUEST,
			       "there are too many parameters: nothing here has more than %d",
			       ROUTE_QUERIES - 1);
		return false;
	}
	(void)MHD_get_connection_values_n(r->mhd, MHD_GET_ARGUMENT_KIND, stop_at_unknown, r);
	return !r->answer.status;
}

const char *request_query(const struct request *r, const char *key)
{
	const char *value = NULL;
	size_t len;

	if (MHD_lookup_connection_value_n(r->mhd, MHD_GET_ARGUMENT_KIND, key, strlen(key), &value,
					  &len) != MHD_YES)
		return NULL;
	return value ? value : "";
}

bool request_query_flag(const struct request *r, const char *key)
{
	const char *text = request_query(r, key);

	return text && strcmp(text, "true") == 0;
}

int request_query_num(struct request *r, const char *key, uint64_t otherwise, uint64_t max,
		      uint64_t *ret)
{
	const char *text = request_query(r, key);

	*ret = otherwise;
	if (!text)
		return 0;
	if (str_to_u64(text, ret) < 0 || *ret > max) {
		answer_problem(&r->answer, MHD_HTTP_BAD_REQUEST,
			       "%s has to be a whole number of at most %" PRIu64, key, max);
		return -EINVAL;
	}
	return 0;
}

const char *request_header(const struct request *r, const char *name)
{
	return MHD_lookup_connection_value(r->mhd, MHD_HEADER_KIND, name);
}

static bool is_json(const char *type)
{
	static const char wanted[] = "application/json";

	return type && str_has_prefix(type, wanted) &&
	       strchr("; ", type[strlen(wanted)]); /* its end as well */
}

json_t *request_object(struct request *r)
{
	json_error_t at;
	json_t *doc;

	if (!is_json(request_header(r, MHD_HTTP_HEADER_CONTENT_TYPE))) {
		answer_problem(&r->answer, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE,
			       "what is sent has to be JSON: Content-Type: application/json");
		return NULL;
	}
	doc = json_loadb(strbuf_str(&r->body), r->body.len, JSON_REJECT_DUPLICATES, &at);
	if (json_is_object(doc))
		return doc;
	if (doc)
		answer_problem(&r->answer, MHD_HTTP_BAD_REQUEST, "an object is expected: {..}");
	else
		answer_problem(&r->answer, MHD_HTTP_BAD_REQUEST, "line %d, column %d: %s", at.line,
			       at.column, at.text);
	json_decref(doc);
	return NULL;
}

static bool has_type(const json_t *value, enum request_type type)
{
	return type == REQUEST_FLAG	? json_is_boolean(value)
	       : type == REQUEST_NUMBER ? json_is_integer(value) && json_integer_value(value) >= 0
					: json_is_string(value);
}

/* False: the problem is the answer. */
static bool take_member(struct request *r, const struct request_member *members, const char *key,
			const json_t *value)
{
	static const char *const types[] = { [REQUEST_FLAG] = "true or false",
					     [REQUEST_NUMBER] = "a whole number of at least 0",
					     [REQUEST_TEXT] = "a text" };
	cleanup_free char *shown = utf8_clean(xstrdup(key));

	for (; members->name; members++) {
		if (strcmp(members->name, key) != 0)
			continue;
		if (has_type(value, members->type))
			return true;
		answer_problem(&r->answer, MHD_HTTP_BAD_REQUEST, "%s has to be %s", key,
			       types[members->type]);
		return false;
	}
	answer_problem(&r->answer, MHD_HTTP_BAD_REQUEST, "nothing here is called \"%.80s\"", shown);
	return false;
}

json_t *request_members(struct request *r, const struct request_member *members)
{
	json_t *doc = r->body.len ? request_object(r) : json_object();
	const char *key;
	json_t *value;

	json_object_foreach(doc, key, value)
	{
		if (!r->answer.status)
			(void)take_member(r, members, key, value);
	}
	for (; doc && !r->answer.status && members->name; members++)
		if (members->needed && !json_object_get(doc, members->name))
			answer_problem(&r->answer, MHD_HTTP_BAD_REQUEST, "%s is missing",
				       members->name);
	if (!r->answer.status)
		return doc;
	json_decref(doc);
	return NULL;
}

/* "42" or "42.7" */
static bool take_task(struct request *r, const char *word, size_t n)
{
	char text[48];
	uint64_t element = 0;

	if (n >= sizeof(text) || word[0] == '0')
		return false;
	(void)str_copy(text, n + 1, word);

	char *dot = strchr(text, '.');

	if (dot) {
		*dot = '\0';
		if (dot[1] == '0' || str_to_u64(dot + 1, &element) < 0 || element > UINT32_MAX)
			return false;
	}
	r->element = (uint32_t)element;
	return str_to_u64(text, &r->task) == 0 && r->task > 0;
}

static bool take_word(struct request *r, const char *pattern, size_t len, const char *word,
		      size_t n)
{
	if (pattern[0] != '{')
		return len == n && memcmp(pattern, word, n) == 0;
	if (n == 0 || n >= sizeof(r->name))
		return false;
	if (len == strlen("{task}") && memcmp(pattern, "{task}", len) == 0)
		return take_task(r, word, n);
	(void)str_copy(r->name, n + 1, word);
	return true;
}

static bool matches(struct request *r, const char *pattern, const char *path)
{
	while (*pattern == '/' && *path == '/') {
		size_t len = strcspn(++pattern, "/"), n = strcspn(++path, "/");

		if (!take_word(r, pattern, len, path, n))
			return false;
		pattern += len;
		path += n;
	}
	return !*pattern && !*path;
}

bool request_method_is(const char *method, const char *of_route)
{
	return strcmp(of_route, strcmp(method, "HEAD") == 0 ? "GET" : method) == 0;
}

void request_refuse_method(struct request *r, const char *allowed)
{
	answer_problem(&r->answer, MHD_HTTP_METHOD_NOT_ALLOWED, "only %s here", allowed);
	answer_header(&r->answer, MHD_HTTP_HEADER_ALLOW, "%s", allowed);
}

const struct route *request_route(struct request *r, const struct route *routes, const char *method,
				  const char *path)
{
	cleanup_strbuf struct strbuf others = STRBUF_INIT;

	for (const struct route *row = routes; row->path; row++) {
		if (!matches(r, row->path, path))
			continue;
		if (request_method_is(method, row->method))
			return row;
		strbuf_addf(&others, "%s%s", others.len ? ", " : "", row->method);
	}
	if (!others.len) {
		answer_problem(&r->answer, MHD_HTTP_NOT_FOUND,
			       "there is no such path; /api/v1/openapi.json has all of them");
		return NULL;
	}
	request_refuse_method(r, strbuf_str(&others));
	return NULL;
}
