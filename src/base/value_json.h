/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_VALUE_JSON_H
#define TENURE_BASE_VALUE_JSON_H

/*
 * Typed values as programs write and read them: in a task file, in what `--json` prints. For
 * base/value.h, which checks ranges and keeps what was there on an error.
 *
 * It differs from a person's text on purpose. An option's "yes" is a flag and so is a key's "", a
 * file has true; a person's time is to come, a file's may have passed; a file says 20G or bytes, a
 * person always a unit.
 */

#include <jansson.h>

#include "base/err.h"
#include "base/value_spec.h"

struct value_json {
	/* The field is empty, and may be left half filled on an error. NULL: no key of a file has
	 * this type. */
	int (*read)(const struct value_spec *spec, const json_t *json, void *field, struct err *e);
	/* What a person's text would be in a file. NULL: the text itself. */
	json_t *(*of_text)(const char *text);
	/* NULL: the text that a person reads. */
	json_t *(*write)(const struct value_spec *spec, const void *field);
};

extern const struct value_json value_jsons[VALUE_TYPE_MAX];

#endif
