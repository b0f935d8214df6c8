/* SPDX-License-Identifier: MIT */
#include "serve/webfile.h"

#include <string.h>

static const struct webfile *find(const char *path)
{
	for (const struct webfile *f = webfiles; f->path; f++)
		if (strcmp(f->path, path) == 0)
			return f;
	return NULL;
}

static void answer_file(struct serve *s, struct request *r)
{
	const struct webfile *f = find(r->path);
	const char *had = request_header(r, MHD_HTTP_HEADER_IF_NONE_MATCH);

	(void)s;
	answer_fixed(&r->answer, f->type, (const char *)f->data, f->len);
	answer_header(&r->answer, MHD_HTTP_HEADER_ETAG, "\"%s\"", f->tag);
	answer_header(&r->answer, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
	if (had && strstr(had, f->tag)) {
		r->answer.status = MHD_HTTP_NOT_MODIFIED;
		r->answer.len = 0;
	}
}

static const struct route route = {
	.method = "GET", .path = "", .flags = ROUTE_OPEN, .answer = answer_file
};

const struct route *webfile_route(const char *path)
{
	return find(path) ? &route : NULL;
}
