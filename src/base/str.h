/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_STR_H
#define TENURE_BASE_STR_H

/* Small helpers for strings of bounded size, which is what travels in messages and snapshots. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Copy with truncation, never within a character; dst is always terminated. Returns true when all
 * of src fitted. size > 0. */
bool str_copy(char *dst, size_t size, const char *src);

/* snprintf() into dst that cuts silently, between two characters, where the text is too long.
 * Returns dst. */
char *str_print(char *dst, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

bool str_has_prefix(const char *s, const char *prefix);
/* Of a text that is longer, or no more than that. */
bool str_has_suffix(const char *s, const char *suffix);

/* Whether a list of texts, "alice, bob" or "alice,bob", has that one, which is not empty. */
bool str_lists(const char *list, const char *text);

/* In base 64 (RFC 4648, with padding); the caller frees it. */
char *str_to_base64(const char *s);
char *str_bytes_to_base64(const void *data, size_t len);
/* The other way: NULL where it is not that, or has a NUL in it. The caller frees it. */
char *str_from_base64(const char *text);

/* The whole of s is a decimal number. 0, or -EINVAL (not a number) / -ERANGE. */
int str_to_u64(const char *s, uint64_t *ret);

/*
 * How many slips of the finger make one word of the other: a letter too many, one that is missing,
 * one that is another, two in the wrong order. Upper case does not matter; of long words only the
 * beginning (64 bytes) does.
 */
size_t str_distance(const char *a, const char *b);
/*
 * The candidate that is closest to word, for "did you mean"; NULL when none is near (more than one
 * letter in three is different) or begins with it. candidates ends with NULL.
 */
const char *str_nearest(const char *word, const char *const *candidates);

/* Two sentences that differ in their figures at most, which change all the time: for who tells only
 * what is news. was NULL: nothing was said before, and text is. */
bool str_same_but_figures(const char *was, const char *text);

#endif
