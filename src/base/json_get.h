/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_JSON_GET_H
#define TENURE_BASE_JSON_GET_H

/*
 * Members of JSON that another program, version or node has written. What is missing or of another
 * type reads as 0 or
 * "", and nothing that is read is larger than where it goes.
 */

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* 0 for a negative one too. */
uint64_t json_get_u64(const json_t *object, const char *key);
/* At most max: what is larger than anything that we write says nothing. */
unsigned int json_get_small(const json_t *object, const char *key, unsigned int max);
/* Cut to size, without control characters. */
void json_get_text(const json_t *object, const char *key, char *dst, size_t size);

#endif
