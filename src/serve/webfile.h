/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SERVE_WEBFILE_H
#define TENURE_SERVE_WEBFILE_H

/*
 * The files of web/, which are part of the program (tools/embed-web writes the table when it is
 * built), and nothing else: no path of a request is ever opened.
 */

#include <stddef.h>

#include "serve/request.h"

struct webfile {
	const char *path; /* of the URL */
	const char *type;
	const char *tag; /* changes with its content */
	const unsigned char *data;
	size_t len;
};

extern const struct webfile webfiles[]; /* ends with a row without path */

/* The route of a path that is a file's; NULL: it is none. It is for GET and HEAD. */
const struct route *webfile_route(const char *path);

#endif
