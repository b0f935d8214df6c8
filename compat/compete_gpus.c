/* SPDX-License-Identifier: MIT */
#include "compat/compete_gpus.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/strbuf.h"

static bool is_there(const json_t *devices, json_int_t gpu)
{
	size_t i;
	json_t *d;

	json_array_foreach(devices, i,
			   d) if (json_integer_value(json_object_get(d, "gpu")) == gpu) return true;
	return false;
}

static void add(struct strbuf *b, long gpu)
{
	strbuf_addf(b, "%s%ld", b->len ? "," : "", gpu);
}

static int pick(const char *wanted, const json_t *devices, char **ret, char **ret_out,
		struct err *e)
{
	cleanup_strbuf struct strbuf here = STRBUF_INIT;
	cleanup_strbuf struct strbuf out = STRBUF_INIT;

	for (const char *p = wanted; *p;) {
		char *end;
		long gpu = strtol(p, &end, 10);

		add(is_there(devices, gpu) ? &here : &out, gpu);
		p = end + (*end == ',');
	}
	if (!here.len)
		return err_set(e, -ENODEV, "none of the GPUs in compete_gpus (%s) is here", wanted);
	*ret = strbuf_take(&here);
	*ret_out = out.len ? strbuf_take(&out) : NULL;
	return 0;
}

int compete_gpus_here(const char *wanted, const char *devices, char **ret, char **ret_out,
		      struct err *e)
{
	json_t *doc = json_loads(devices, 0, NULL);
	json_t *list = json_object_get(doc, "devices");
	int r = json_is_array(list) ? pick(wanted, list, ret, ret_out, e)
				    : err_set(e, -EINVAL, "the GPUs of this machine are not known");

	json_decref(doc);
	return r;
}
