/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_SPECKIND_H
#define TENURE_SPOOL_SPECKIND_H

/*
 * The types that the keys of a task are of. A type reads a JSON value into a field of struct
 * spool_spec and writes the field as JSON; a person's text becomes the JSON value first, so that
 * "20G" of an option and of a file are read by the same code. For spec.c, which has the keys.
 */

#include "spool/spec.h"

enum spec_kind {
	KIND_FLAG,
	KIND_UINT,
	KIND_GPUS,
	KIND_COUNT,
	KIND_SIZE,
	KIND_DURATION,
	KIND_TIME,
	KIND_FACTOR,
	KIND_MODE,
	KIND_CHOICE,
	KIND_NAME,
	KIND_SIGNAL,
	KIND_TEXT,
	KIND_PATH,
	KIND_TEXTS,
	KIND_BYTES,
	KIND_IDS,
	KIND_ARRAY,
	KIND_MAX
};

struct spec_row {
	const char *name;
	enum spec_kind kind;
	size_t offset;
	uint64_t def, min, max; /* max 0: no bound; of texts: bytes, of lists: entries */
	const char *const *choices;
	const char *help;
};

/* text NULL: the text itself is the JSON value; clear, which leaves it empty, NULL: nothing is
 * owned.
 */
struct spec_kind_ops {
	const char *name;
	int (*get)(const struct spec_row *row, const json_t *v, void *field, struct err *e);
	json_t *(*put)(const struct spec_row *row, const void *field);
	json_t *(*text)(const char *text);
	void (*clear)(void *field);
};

extern const struct spec_kind_ops spec_kinds[KIND_MAX];

/*
 * A text that a system call takes may have any bytes but NUL; where they are not UTF-8 it is
 * {"base64":".."} in JSON. NULL: no memory.
 */
json_t *spec_json_of_bytes(const char *bytes);

#endif
