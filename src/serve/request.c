/* SPDX-License-Identifier: MIT */
#include "serve/request.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

static enum MHD_Result stop_at_unknown(void *data, enum MHD_ValueKind kind, const char *key,
				       size_t size, const char *value, size_t value_size)
{
	struct request *r = data;
	const char *const *known = r->route->queries, *near;

	for (size_t i = 0; known[i]; i++)
		if (strlen(known[i]) == size && memcmp(known[i], key, size) == 0)
			return MHD_YES;
	near = str_nearest(key, known);
	answer_problem(&r->answer, MHD_HTTP_BAD_REQUEST, "there is no parameter \"%s\" here%s%s%s",
		       key, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
	return MHD_NO;
}

bool request_queries_known(struct request *r)
{
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

/* "42" or "42.7" */
static bool take_task(struct request *r, const char *word, size_t n)
{
	char text[48];
	uint64_t element = 0;

	if (n >= sizeof(text))
		return false;
	(void)str_copy(text, n + 1, word);

	char *dot = strchr(text, '.');

	if (dot) {
		*dot = '\0';
		if (str_to_u64(dot + 1, &element) < 0 || element == 0 || element > UINT32_MAX)
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

const struct route *request_route(struct request *r, const struct route *routes, const char *method,
				  const char *path)
{
	cleanup_strbuf struct strbuf others = STRBUF_INIT;

	for (const struct route *row = routes; row->path; row++) {
		if (!matches(r, row->path, path))
			continue;
		if (strcmp(row->method, method) == 0 ||
		    (strcmp(method, "HEAD") == 0 && strcmp(row->method, "GET") == 0))
			return row;
		strbuf_addf(&others, "%s%s", others.len ? ", " : "", row->method);
	}
	if (!others.len) {
		answer_problem(&r->answer, MHD_HTTP_NOT_FOUND,
			       "there is no such path; /api/v1/openapi.json has all of them");
		return NULL;
	}
	answer_problem(&r->answer, MHD_HTTP_METHOD_NOT_ALLOWED, "only %s here",
		       strbuf_str(&others));
	answer_header(&r->answer, MHD_HTTP_HEADER_ALLOW, "%s", strbuf_str(&others));
	return NULL;
}
