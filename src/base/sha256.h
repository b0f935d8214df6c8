/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_SHA256_H
#define TENURE_BASE_SHA256_H

/* SHA-256 (FIPS 180-4), for contents that have to be told apart for certain; base/hash.h is for
 * tables. */

#include <stddef.h>

#define SHA256_SIZE    32
#define SHA256_HEX_MAX 65 /* 64 digits and a NUL */

/* The digest of len bytes. */
void sha256(const void *data, size_t len, unsigned char ret[SHA256_SIZE]);
/* Of those bytes and a key that who gets them has, too (HMAC, RFC 2104). */
void sha256_hmac(const void *key, size_t key_len, const void *data, size_t len,
		 unsigned char ret[SHA256_SIZE]);
/* The digest of len bytes, in lower-case hexadecimal digits. */
void sha256_hex(const void *data, size_t len, char ret[SHA256_HEX_MAX]);

#endif
