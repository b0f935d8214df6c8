/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SERVE_ACCESS_H
#define TENURE_SERVE_ACCESS_H

/*
 * Who may ask what, by the head of a request alone: nothing here reads or waits.
 *
 *	Host		one that we are called by, before anything else: a page that has its name
 *			point to 127.0.0.1 (DNS rebinding) still says its own name here
 *	Origin,		of what changes something: our own page, or no page at all (OWASP
 *	Sec-Fetch-Site	CSRF cheat sheet; Fetch Metadata)
 *	token		"Authorization: Bearer", for programs, or the cookie that a browser got for
 *			it. The cookie is made from the token by SHA-256, so that it survives a
 *			restart, does not tell the token, and goes with it
 *
 * On the Unix socket the peer's user is enough, except for a browser that comes by ssh -L: it says
 * Sec-Fetch-Site or Origin, and needs the token as everywhere.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/textlist.h"
#include "cli/web_token.h"

#define ACCESS_COOKIE_NAME_MAX 40

enum access_right { ACCESS_NONE, ACCESS_READ, ACCESS_WRITE, ACCESS_MAX };

struct access_tokens {
	char write[WEB_TOKEN_MAX], read[WEB_TOKEN_MAX]; /* "": there is none */
};

/* What a request says of itself; NULL: nothing. */
struct access_claim {
	const char *host, *origin, *fetch_site, *authorization, *cookie;
	size_t n_hosts; /* headers "Host" that it has */
	bool local;	/* of the Unix socket, and a process of our user */
};

/* The host of "name:port", "[::1]:port" or "name" is in the list, whatever the port. */
bool access_host_allowed(const struct access_claim *c, const struct text_list *allowed);
/* Nothing tells that a page of another origin has it sent. cookie: it is let in by a cookie, so
 * that it has to say where it comes from. */
bool access_origin_allowed(const struct access_claim *c, bool cookie);
/* *ret_cookie: the cookie gave it. */
enum access_right access_right(const struct access_claim *c, const struct access_tokens *t,
			       bool *ret_cookie);
/* The right of a token; takes the same time whatever it is. */
enum access_right access_token_right(const struct access_tokens *t, const char *token);

/* The name and the value of the cookie for a token. */
void access_cookie(const char *token, char name[ACCESS_COOKIE_NAME_MAX], char value[WEB_TOKEN_MAX]);

/* Equal, in a time that only the length of b tells of. */
bool access_equal(const char *a, const char *b);

#endif
