/* SPDX-License-Identifier: MIT */

/* The input as an order to an agent. What is accepted must come back unchanged. */

#include <stdint.h>
#include <stdlib.h>

#include "agent/queue/order.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *doc = json_loadb((const char *)data, size, 0, NULL), *text;
	struct order o, again;
	struct err e = ERR_INIT;

	if (!json_is_object(doc) || order_read(doc, &o, &e) < 0) {
		if (json_is_object(doc) && !e.text[0])
			abort();
		json_decref(doc);
		return 0;
	}
	text = order_json(&o);
	if (order_read(text, &again, &e) < 0 || again.command != o.command || again.n != o.n ||
	    again.now != o.now || again.how != o.how || again.sweep != o.sweep)
		abort();
	order_clear(&o);
	order_clear(&again);
	json_decref(text);
	json_decref(doc);
	return 0;
}
