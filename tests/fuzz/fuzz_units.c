/* SPDX-License-Identifier: MIT */

/* Every type of value reads the text; what is accepted must be read back as the same text. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/value.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const choices[] = { "one", "two", NULL };

static void check(enum value_type type, const char *text)
{
	const struct value_spec spec = {
		.type = type,
		.max = type == VALUE_OCTAL		 ? 0777
		       : value_is(type, VALUE_IS_NUMBER) ? 0
							 : 4096,
		.choices = choices,
		.word = "all",
	};
	struct value v, again;
	struct err e = ERR_INIT;

	if (value_parse(&spec, text, &v, &e) < 0) {
		if (!e.text[0])
			abort();
		return;
	}

	cleanup_free char *shown = value_format(&spec, &v);

	if (value_parse(&spec, shown, &again, &e) < 0)
		abort();

	cleanup_free char *shown_again = value_format(&spec, &again);

	if (strcmp(shown, shown_again) != 0)
		abort();
	json_decref(value_json(&spec, &v));
	value_clear(&v);
	value_clear(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_free char *text = xmalloc(size + 1);

	(void)memcpy(text, data, size);
	text[size] = '\0';
	for (int type = 0; type < VALUE_TYPE_MAX; type++) {
		/* The clock moves between the two readings of a time. */
		if (type != VALUE_TIME)
			check((enum value_type)type, text);
	}

	uint64_t ns;

	(void)unit_parse_time(text, 1795258800000000000ULL, &ns, NULL);
	return 0;
}
