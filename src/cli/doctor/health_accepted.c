/* SPDX-License-Identifier: MIT */
#include "cli/doctor/health_accepted.h"

#include <errno.h>
#include <jansson.h>
#include <stddef.h>
#include <string.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "task/end_record.h"

#define FORMAT	  1
#define FILE_MAX  (256UL << 10)
#define ECC_KNOWN ((uint64_t)HEALTH_ECC << ECC_VOLATILE_UNCORRECTED)
#define ECC_EVER  ((uint64_t)HEALTH_ECC << ECC_AGGREGATE_UNCORRECTED)

/* What is kept of a card's counters. */
static const struct kept {
	const char *key;
	uint64_t known;
	size_t at; /* of struct gpu_health, a uint64_t */
} kept[] = {
	{ "ecc_uncorrected", ECC_KNOWN,
	  offsetof(struct gpu_health, ecc) + ECC_VOLATILE_UNCORRECTED * sizeof(uint64_t) },
	{ "ecc_uncorrected_ever", ECC_EVER,
	  offsetof(struct gpu_health, ecc) + ECC_AGGREGATE_UNCORRECTED * sizeof(uint64_t) },
	{ "energy_mj", HEALTH_ENERGY, offsetof(struct gpu_health, energy_mj) },
};

static void read_card(const char *uuid, const json_t *o, struct health_accepted *ret)
{
	struct health_accepted_card *c = &ret->cards[ret->n];

	if (ret->n == GPU_DEVICES_MAX || !json_is_object(o))
		return;
	*c = (struct health_accepted_card){ .uuid = "" };
	(void)str_copy(c->uuid, sizeof(c->uuid), uuid);
	c->mono_ns = json_get_u64(o, "monotonic_ns");
	for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
		if (!json_is_integer(json_object_get(o, kept[i].key)))
			continue;
		c->counters.known |= kept[i].known;
		*(uint64_t *)((char *)&c->counters + kept[i].at) = json_get_u64(o, kept[i].key);
	}
	ret->n++;
}

static bool is_of_this_boot(const json_t *doc)
{
	const char *then = json_get_str(doc, "boot");
	char now[BOOT_ID_MAX];

	return then && boot_id_read(now, sizeof(now)) == 0 && strcmp(then, now) == 0;
}

int health_accepted_read(const char *path, struct health_accepted *ret, struct err *e)
{
	cleanup_free char *text = NULL;
	size_t len = 0;
	const char *uuid;
	json_t *doc, *cards, *o;
	int r = fs_read_file(path, FILE_MAX, &text, &len, e);

	*ret = (struct health_accepted){ .n = 0 };
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	doc = json_loadb(text, len, 0, NULL);
	if (json_get_u64(doc, "format") != FORMAT) {
		json_decref(doc);
		return err_set(e, -EPROTO, "%s is not what tenure health --accept writes", path);
	}
	cards = is_of_this_boot(doc) ? json_object_get(doc, "cards") : NULL;
	json_object_foreach(cards, uuid, o)
	{
		read_card(uuid, o, ret);
	}
	json_decref(doc);
	return 0;
}

static json_t *card_json(const struct gpu_health *h, uint64_t mono_ns)
{
	json_t *o = json_pack("{s:I}", "monotonic_ns", (json_int_t)mono_ns);

	for (size_t i = 0; i < ARRAY_LEN(kept); i++)
		if (h->known & kept[i].known)
			(void)json_object_set_new(
				o, kept[i].key,
				json_integer((json_int_t) *
					     (const uint64_t *)((const char *)h + kept[i].at)));
	return o;
}

/* The kernel's log has a clock of its own, which need not be exact: its last report is known. */
static uint64_t known_until(const struct health_card *c)
{
	const uint64_t now = clock_mono_ns(), reported = c->xid_us * NS_PER_US;

	return reported > now ? reported : now;
}

int health_accepted_write(const char *path, const struct health_pass *p, struct err *e)
{
	cleanup_free struct health_accepted *before = xcalloc(1, sizeof(*before));
	json_t *cards = json_object(), *doc;
	char boot[BOOT_ID_MAX] = "", time[CLOCK_TEXT_MAX];
	cleanup_free char *text = NULL;
	struct strbuf line = STRBUF_INIT;
	int r;

	if (health_accepted_read(path, before, NULL) == 0)
		for (uint32_t i = 0; i < before->n; i++)
			(void)json_object_set_new(
				cards, before->cards[i].uuid,
				card_json(&before->cards[i].counters, before->cards[i].mono_ns));
	for (uint32_t i = 0; i < p->n; i++)
		if (p->cards[i].selected && p->cards[i].seen && !p->cards[i].trouble[0])
			(void)json_object_set_new(
				cards, p->cards[i].dev.uuid,
				card_json(&p->cards[i].health, known_until(&p->cards[i])));
	(void)boot_id_read(boot, sizeof(boot));
	doc = json_pack("{s:i, s:s, s:s, s:o}", "format", FORMAT, "boot", boot, "written",
			clock_format_iso(clock_wall_ns(), time), "cards", cards);
	text = json_dumps(doc, JSON_INDENT(1));
	json_decref(doc);
	strbuf_adds(&line, text ? text : "");
	strbuf_addc(&line, '\n');
	r = fs_write_atomic(path, line.data, line.len, 0644, e);
	strbuf_clear(&line);
	return r;
}

const struct health_accepted_card *health_accepted_of(const struct health_accepted *a,
						      const struct health_card *c)
{
	for (uint32_t i = 0; i < a->n; i++) {
		const struct health_accepted_card *then = &a->cards[i];
		const bool both = then->counters.known & c->health.known & HEALTH_ENERGY;

		if (strcmp(then->uuid, c->dev.uuid) == 0)
			return both && c->health.energy_mj < then->counters.energy_mj ? NULL : then;
	}
	return NULL;
}

bool health_accepted_has_errors(const struct health_accepted_card *a)
{
	return a->counters.known & ECC_KNOWN;
}
