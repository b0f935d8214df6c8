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

/* The whole of s is a decimal number. 0, or -EINVAL (not a number) / -ERANGE. */
int str_to_u64(const char *s, uint64_t *ret);

/*
 * The candidate closest to word by edit distance, for "did you mean"; NULL when nothing is near
 * (distance over a third of the word). candidates ends with NULL.
 */
const char *str_nearest(const char *word, const char *const *candidates);

#endif
