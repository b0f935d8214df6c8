/* SPDX-License-Identifier: MIT */
#include "serve/access.h"

#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/sha256.h"
#include "base/str.h"

#define BEARER	    "Bearer "
#define COOKIE_SALT "tenure cookie "
#define NAME_SALT   "tenure cookie name "
#define NAME_DIGITS 12
#define HOST_MAX    256

bool access_equal(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b);
	volatile unsigned char differs = n != m;

	for (size_t i = 0; i < m; i++)
		differs |= (unsigned char)((n ? a[i % n] : 0) ^ b[i]);
	return !differs;
}

/* "[::1]:8470" -> "[::1]", "localhost:1" -> "localhost". False: it is not a host at all. */
static bool host_without_port(const char *host, char ret[HOST_MAX])
{
	const char *end = host[0] == '[' ? strchr(host, ']') : host + strcspn(host, ":");
	size_t n;

	if (!end)
		return false;
	n = (size_t)(end - host) + (*end == ']');
	if (n == 0 || n >= HOST_MAX)
		return false;
	if (host[n] &&
	    (host[n] != ':' || strspn(host + n + 1, "0123456789") != strlen(host + n + 1)))
		return false;
	(void)str_copy(ret, n + 1, host);
	return true;
}

bool access_host_allowed(const struct access_claim *c, const struct text_list *allowed)
{
	char host[HOST_MAX];

	if (c->n_hosts != 1 || !c->host || !host_without_port(c->host, host))
		return false;
	for (size_t i = 0; i < allowed->n; i++)
		if (strcasecmp(allowed->texts[i], host) == 0)
			return true;
	return false;
}

bool access_origin_allowed(const struct access_claim *c, bool cookie)
{
	static const char *const schemes[] = { "http://", "https://" };

	if (c->fetch_site && strcmp(c->fetch_site, "same-origin") != 0)
		return false;
	if (!c->origin)
		return !cookie || c->fetch_site;
	for (size_t i = 0; i < ARRAY_LEN(schemes); i++)
		if (str_has_prefix(c->origin, schemes[i]) &&
		    strcasecmp(c->origin + strlen(schemes[i]), c->host ? c->host : "") == 0)
			return true;
	return false;
}

enum access_right access_token_right(const struct access_tokens *t, const char *token)
{
	bool write = t->write[0] && access_equal(token, t->write);
	bool read = t->read[0] && access_equal(token, t->read);

	return write ? ACCESS_WRITE : read ? ACCESS_READ : ACCESS_NONE;
}

void access_cookie(const char *token, char name[ACCESS_COOKIE_NAME_MAX], char value[WEB_TOKEN_MAX])
{
	cleanup_free char *salted = xasprintf(COOKIE_SALT "%s", token);
	cleanup_free char *named = xasprintf(NAME_SALT "%s", token);
	char digits[SHA256_HEX_MAX];

	sha256_hex(named, strlen(named), digits);
	(void)str_print(name, ACCESS_COOKIE_NAME_MAX, "tenure-%.*s", NAME_DIGITS, digits);
	sha256_hex(salted, strlen(salted), value);
}

/* The value of a cookie in "a=1; b=2", or NULL; cut at its end in buf. */
static bool find_cookie(const char *cookies, const char *name, char value[WEB_TOKEN_MAX])
{
	size_t n = strlen(name);

	for (const char *p = cookies; *p;) {
		p += strspn(p, "; ");

		size_t len = strcspn(p, ";");

		if (len > n && p[n] == '=' && memcmp(p, name, n) == 0 &&
		    len - n - 1 < WEB_TOKEN_MAX) {
			(void)str_copy(value, len - n, p + n + 1);
			return true;
		}
		p += len;
	}
	return false;
}

static bool has_cookie(const char *cookies, const char *token)
{
	char name[ACCESS_COOKIE_NAME_MAX], wanted[WEB_TOKEN_MAX], value[WEB_TOKEN_MAX];

	if (!token[0])
		return false;
	access_cookie(token, name, wanted);
	return find_cookie(cookies, name, value) && access_equal(value, wanted);
}

enum access_right access_right(const struct access_claim *c, const struct access_tokens *t,
			       bool *ret_cookie)
{
	*ret_cookie = false;
	if (c->authorization)
		return strncasecmp(c->authorization, BEARER, strlen(BEARER)) == 0
			       ? access_token_right(t, c->authorization + strlen(BEARER))
			       : ACCESS_NONE;
	if (c->cookie) {
		bool write = has_cookie(c->cookie, t->write), read = has_cookie(c->cookie, t->read);

		*ret_cookie = write || read;
		if (*ret_cookie)
			return write ? ACCESS_WRITE : ACCESS_READ;
	}
	return c->local && !c->fetch_site && !c->origin ? ACCESS_WRITE : ACCESS_NONE;
}
