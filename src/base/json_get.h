/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_JSON_GET_H
#define TENURE_BASE_JSON_GET_H

/*
 * Members of JSON that another program, version or node has written. What is missing or of another
 * type reads as 0, "", NULL or false, and what is copied fits into where it goes. Who has to refuse
 * a negative number reads it by itself.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

/*
 * How many digits numbers have in what is written for others: 0.066 and not 0.066029000000000004;
 * milliseconds of a year still fit. Of what has times since the epoch, as records of tasks do:
 * microseconds of them.
 */
#define NUMBER_DIGITS JSON_REAL_PRECISION(12)
#define TIME_DIGITS   JSON_REAL_PRECISION(16)

/* Borrowed of the object. NULL: it has no such text. */
const char *json_get_str(const json_t *object, const char *key);
bool json_get_flag(const json_t *object, const char *key);
/* Also of a whole number. */
double json_get_num(const json_t *object, const char *key);
/* 0 for a negative one too. */
uint64_t json_get_u64(const json_t *object, const char *key);
/* At most max: what is larger than anything that we write says nothing. */
unsigned int json_get_small(const json_t *object, const char *key, unsigned int max);
/* Cut to size, without control characters. */
void json_get_text(const json_t *object, const char *key, char *dst, size_t size);

/* The numbers and texts of a list, with that text between two. */
void json_add_list(const json_t *list, const char *between, struct strbuf *b);

/* Any text as a new string, where json_string() gives none of bytes that are no UTF-8: these, and
 * controls, as utf8_clean() tells them, without a character that was cut at the end. */
json_t *json_new_text(const char *text);

#endif
