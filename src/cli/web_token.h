/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_WEB_TOKEN_H
#define TENURE_CLI_WEB_TOKEN_H

/*
 * The tokens that let a program or a browser into `tenure serve` over TCP: 256 bits in hexadecimal
 * digits, each in a file of the user's config directory that nobody else can read. To remove a file
 * is to take its token back; the next use makes another one.
 */

#include <stdbool.h>

#include "base/err.h"

#define WEB_TOKEN_DIGITS 64
#define WEB_TOKEN_MAX	 (WEB_TOKEN_DIGITS + 1)

/* $XDG_CONFIG_HOME/tenure/web-token, or web-token-read: who has that one can look, and change
 * nothing. The caller frees it. */
char *web_token_path(bool read_only);
/*
 * The token. make: one that is not there is made; else -ENOENT. -EPERM: somebody else could have
 * read or written the file; -EINVAL: there is something else in it; -errno. e says what to do.
 */
int web_token(bool read_only, bool make, char ret[WEB_TOKEN_MAX], struct err *e);

#endif
