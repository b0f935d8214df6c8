/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_VALUE_TEXT_H
#define TENURE_BASE_VALUE_TEXT_H

/*
 * Typed values as a person writes and reads them: in an option, in an environment variable, in a
 * line of a config file. For base/value.h, which checks ranges and keeps what was there on an
 * error.
 */

#include "base/err.h"
#include "base/strbuf.h"
#include "base/value_spec.h"

struct value_text {
	/* The field is empty, and may be left half filled on an error. NULL: what the text means in
	 * a file is read (base/value_json.h). */
	int (*read)(const struct value_spec *spec, const char *text, void *field, struct err *e);
	void (*write)(const struct value_spec *spec, const void *field, struct strbuf *b);
};

extern const struct value_text value_texts[VALUE_TYPE_MAX];

/* Each with its opposite. */
#define VALUE_FLAG_WORDS 4
extern const char *const value_yes[VALUE_FLAG_WORDS], *const value_no[VALUE_FLAG_WORDS];

#endif
