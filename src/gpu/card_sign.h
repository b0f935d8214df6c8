/* SPDX-License-Identifier: MIT */
#ifndef TENURE_GPU_CARD_SIGN_H
#define TENURE_GPU_CARD_SIGN_H

/*
 * What makes a card bad, in one place for all who judge one: `tenure health` after one look,
 * `tenure burn` after its test, and the faults that `tenure devices` and the status show. A sign is
 * a code with its figures; its word for programs and its sentence for people are made here. Pure.
 *
 *	STATE	as it is until somebody does something about it
 *	MOMENT	as it is now; a judge of one look makes sure that it stays so
 *	COUNT	what was counted since an earlier look, or since the driver was loaded
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "gpu/health.h"

#define CARD_STATE  (1U << 0)
#define CARD_MOMENT (1U << 1)
#define CARD_COUNT  (1U << 2)
#define CARD_ALL    (CARD_STATE | CARD_MOMENT | CARD_COUNT)

/* Of PCIe between two looks, that say nothing: so many, and so many for each minute between. */
#define CARD_REPLAYS_MOST	16
#define CARD_REPLAYS_PER_MINUTE 8

enum card_sign_code {
	SIGN_HOT,
	SIGN_SLOWED,
	SIGN_ECC_UNCORRECTED,
	SIGN_ROW_REMAP_PENDING,
	SIGN_ROW_REMAP_FAILED,
	SIGN_PCIE_NARROW,
	SIGN_RECOVERY, /* n: NVML_GPU_RECOVERY_ACTION_.. */
	SIGN_FABRIC,   /* n: NVML_GPU_FABRIC_STATE_.. */
	/* Only between two looks: */
	SIGN_ROWS_REPLACED,
	SIGN_PCIE_REPLAYS,
	/* Beside the other cards of its machine: card_sign_links(). */
	SIGN_NVLINK_DOWN,
	/* For who has seen it by other means: card_signs_add(). */
	SIGN_XID,  /* n: the number */
	SIGN_LOST, /* words: why nothing is seen of it, or NULL */
	SIGN_CUDA, /* words: what failed there */
	SIGN_USED, /* words: by whom; only where it should be nobody's */
	SIGN_MAX
};

struct card_sign {
	enum card_sign_code code;
	uint64_t n, of;	   /* how many; of how many, or of how many there should be */
	const char *words; /* borrowed */
};

/* Each code at most once. A zeroed one is empty. */
struct card_signs {
	uint32_t n;
	struct card_sign s[SIGN_MAX];
};

/* Those of the kinds in what: CARD_STATE and so on. since: an earlier look at the same card, of
 * which a counter that has gone down since (a reset) says nothing; NULL: the driver's beginning,
 * which is known of counters that begin with it. */
void card_signs(const struct gpu_health *since, const struct gpu_health *now, unsigned int what,
		struct card_signs *ret);
void card_signs_add(struct card_signs *l, const struct card_sign *s);

/*
 * Adds SIGN_NVLINK_DOWN where fewer links of NVLink are up than most of n cards of its model have,
 * itself among them. Boards without bridges, or with some of them, are as they should be, so a card
 * is compared with its like and never with what its chip could have; and one that has none up is
 * let alone unless it is the only such one of an even number, because bridges join two boards or
 * four.
 */
void card_sign_links(const struct gpu_health *now, const struct gpu_health *const *like, uint32_t n,
		     struct card_signs *l);

/* For programs: "hot", "ecc-uncorrected". */
const char *card_sign_word(enum card_sign_code code);
/* For people, behind what b has. since: what stands behind a number that was counted, "since the
 * driver was loaded"; NULL: nothing. */
void card_sign_text(const struct card_sign *s, const char *since, struct strbuf *b);

#endif
