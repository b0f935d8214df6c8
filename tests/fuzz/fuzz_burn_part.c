/* SPDX-License-Identifier: MIT */

/*
 * The input as what a node tells of its part in a burn: as it is, and then over what one really
 * tells, from the byte on that its first two say. What is refused is told; what is accepted is
 * judged and said as if it were so.
 */

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/burn/part.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void is_ended(const char *text, size_t size)
{
	if (!memchr(text, '\0', size))
		abort();
}

static void take(const void *data, size_t size)
{
	struct burn_judgement j[PROTO_DEVICES_MAX];
	struct burn_told told;
	struct err e = ERR_INIT;
	int r = burn_told_parse(data, size, 1000, &told, &e);

	if (r < 0) {
		if ((r != -EINVAL && r != -EPROTO) || !e.text[0])
			abort();
		return;
	}
	is_ended(told.why, sizeof(told.why));
	is_ended(told.who.boot, sizeof(told.who.boot));
	for (uint32_t i = 0; i < told.n; i++) {
		is_ended(told.devices[i].trouble, sizeof(told.devices[i].trouble));
		is_ended(told.devices[i].dev.name, sizeof(told.devices[i].dev.name));
		if (!isfinite(told.devices[i].watt_seconds))
			abort();
	}
	burn_judge(told.devices, told.n, j);
	if (burn_exit_code(j, told.n) < 0)
		abort();
	for (uint32_t i = 0; i < told.n; i++)
		burn_judgement_clear(&j[i]);
	burn_told_clear(&told);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct burn_told real = { .count = 1, .over = true, .n = 2 };
	static const struct burnt devices[2] = { { .found = { .elements = 1, .words = 1 } } };
	size_t len, at;

	take(data, size);
	if (size < 2)
		return 0;

	cleanup_free char *text = burn_told_text(&real, devices, 1, &len);

	at = data[0] + 256U * data[1];
	for (size_t i = 2; i < size && at < len; i++)
		text[at++] = (char)data[i];
	take(text, len);
	return 0;
}
