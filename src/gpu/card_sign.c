/* SPDX-License-Identifier: MIT */
#include "gpu/card_sign.h"

#include "base/clock.h"
#include "base/enumstr.h"
#include "base/mem.h"
#include "gpu/nvml_abi.h"
#include "gpu/xid.h"

static const char *const words[] = {
	[SIGN_HOT] = "hot",
	[SIGN_SLOWED] = "slowed",
	[SIGN_ECC_UNCORRECTED] = "ecc-uncorrected",
	[SIGN_ROW_REMAP_PENDING] = "row-remap-pending",
	[SIGN_ROW_REMAP_FAILED] = "row-remap-failed",
	[SIGN_PCIE_NARROW] = "pcie-narrow",
	[SIGN_RECOVERY] = "recovery",
	[SIGN_FABRIC] = "fabric",
	[SIGN_ROWS_REPLACED] = "rows-replaced",
	[SIGN_PCIE_REPLAYS] = "pcie-replays",
	[SIGN_NVLINK_DOWN] = "nvlink-down",
	[SIGN_XID] = "xid",
	[SIGN_LOST] = "lost",
	[SIGN_CUDA] = "cuda",
	[SIGN_USED] = "used",
};
_Static_assert(ARRAY_LEN(words) == SIGN_MAX, "a word for every sign");

const char *card_sign_word(enum card_sign_code code)
{
	return enum_name(words, SIGN_MAX, code);
}

/*
 * A card's software keeps it at the limit of its temperature by a clock that is a little lower,
 * which is how some work all day (GeForce, boards without fans of their own). Too hot is one whose
 * hardware had to step in, or that does not come to half its clock.
 */
static bool is_hot(const struct gpu_health *since, const struct gpu_health *now,
		   struct card_sign *s)
{
	const uint64_t clocks = HEALTH_CLOCK_SM | HEALTH_CLOCK_SM_MAX;

	if (!(now->known & HEALTH_THROTTLE))
		return false;
	if (now->throttle & nvmlClocksThrottleReasonHwThermalSlowdown)
		return true;
	return now->throttle & nvmlClocksEventReasonSwThermalSlowdown &&
	       (now->known & clocks) == clocks && now->clock_sm_mhz < now->clock_sm_max_mhz / 2;
}

/* The hardware slows down for heat as well, which says more. */
static bool is_slowed(const struct gpu_health *since, const struct gpu_health *now,
		      struct card_sign *s)
{
	return now->known & HEALTH_THROTTLE && !is_hot(since, now, s) &&
	       now->throttle & (nvmlClocksThrottleReasonHwSlowdown |
				nvmlClocksThrottleReasonHwPowerBrakeSlowdown);
}

/* What was counted since, of a counter that NVML begins anew with the driver and at a reset. */
static uint64_t counted(uint64_t then, uint64_t now)
{
	return now >= then ? now - then : now;
}

/* The count of the card's life goes on over a reset, after which the other one may have come as far
 * as it was then. */
static uint64_t counted_over_resets(const struct gpu_health *since, const struct gpu_health *now)
{
	const uint64_t known = (uint64_t)HEALTH_ECC << ECC_AGGREGATE_UNCORRECTED;
	const uint64_t then = since->ecc[ECC_AGGREGATE_UNCORRECTED];
	const uint64_t ever = now->ecc[ECC_AGGREGATE_UNCORRECTED];
	const uint64_t here = now->ecc[ECC_VOLATILE_UNCORRECTED];

	if (!(since->known & now->known & known) || ever <= then)
		return 0;
	return ever - then < here ? ever - then : here;
}

static bool has_uncorrected(const struct gpu_health *since, const struct gpu_health *now,
			    struct card_sign *s)
{
	const uint64_t known = (uint64_t)HEALTH_ECC << ECC_VOLATILE_UNCORRECTED;
	const uint64_t over = since ? counted_over_resets(since, now) : 0;

	if (!(now->known & known) || (since && !(since->known & known)))
		return false;
	s->n = counted(since ? since->ecc[ECC_VOLATILE_UNCORRECTED] : 0,
		       now->ecc[ECC_VOLATILE_UNCORRECTED]);
	if (over > s->n)
		s->n = over;
	return s->n > 0;
}

static bool awaits_remap(const struct gpu_health *since, const struct gpu_health *now,
			 struct card_sign *s)
{
	return now->known & HEALTH_ROWS && now->rows_pending;
}

static bool failed_to_remap(const struct gpu_health *since, const struct gpu_health *now,
			    struct card_sign *s)
{
	return now->known & HEALTH_ROWS && now->rows_failed;
}

/* At rest a card lowers its link's generation, and some the number of its lanes. */
static bool link_rests(const struct gpu_health *h)
{
	const uint64_t both = HEALTH_PCIE_GEN | HEALTH_PCIE_GEN_MAX;

	return (h->known & both) == both && h->pcie_gen < h->pcie_gen_max &&
	       (!(h->known & HEALTH_THROTTLE) || h->throttle & nvmlClocksEventReasonGpuIdle);
}

static bool is_narrow(const struct gpu_health *since, const struct gpu_health *now,
		      struct card_sign *s)
{
	s->n = now->pcie_width;
	s->of = now->pcie_width_max;
	return now->known & HEALTH_PCIE_WIDTH && now->known & HEALTH_PCIE_WIDTH_MAX && s->n &&
	       s->n < s->of && !link_rests(now);
}

static bool wants_recovery(const struct gpu_health *since, const struct gpu_health *now,
			   struct card_sign *s)
{
	s->n = now->recovery;
	return now->known & HEALTH_RECOVERY && now->recovery != NVML_GPU_RECOVERY_ACTION_NONE;
}

static bool has_no_fabric(const struct gpu_health *since, const struct gpu_health *now,
			  struct card_sign *s)
{
	s->n = now->fabric_state;
	return now->known & HEALTH_FABRIC &&
	       (now->fabric_state != NVML_GPU_FABRIC_STATE_COMPLETED ||
		now->fabric_status != NVML_SUCCESS);
}

/* These count in the life of the card. */
static bool has_new_rows(const struct gpu_health *since, const struct gpu_health *now,
			 struct card_sign *s)
{
	if (!since || !(since->known & now->known & HEALTH_ROWS))
		return false;

	const uint64_t then = (uint64_t)since->rows_corrected + since->rows_uncorrected;
	const uint64_t all = (uint64_t)now->rows_corrected + now->rows_uncorrected;

	s->n = all > then ? all - then : 0;
	return s->n > 0;
}

static bool has_replays(const struct gpu_health *since, const struct gpu_health *now,
			struct card_sign *s)
{
	if (!since || !(since->known & now->known & HEALTH_PCIE_REPLAYS))
		return false;

	const uint64_t from = since->read_ns[HEALTH_PART_PCIE], to = now->read_ns[HEALTH_PART_PCIE];
	const uint64_t minutes = to > from ? (to - from) / (60 * NS_PER_S) : 0;

	s->n = counted(since->pcie_replays, now->pcie_replays);
	return s->n > CARD_REPLAYS_MOST + CARD_REPLAYS_PER_MINUTE * minutes;
}

void card_signs_add(struct card_signs *l, const struct card_sign *s)
{
	for (uint32_t i = 0; i < l->n; i++)
		if (l->s[i].code == s->code)
			return;
	l->s[l->n++] = *s;
}

void card_signs(const struct gpu_health *since, const struct gpu_health *now, unsigned int what,
		struct card_signs *ret)
{
	static const struct {
		enum card_sign_code code;
		unsigned int kind;
		bool (*has)(const struct gpu_health *since, const struct gpu_health *now,
			    struct card_sign *s);
	} rules[] = {
		{ SIGN_HOT, CARD_MOMENT, is_hot },
		{ SIGN_SLOWED, CARD_MOMENT, is_slowed },
		{ SIGN_ECC_UNCORRECTED, CARD_COUNT, has_uncorrected },
		{ SIGN_ROW_REMAP_PENDING, CARD_STATE, awaits_remap },
		{ SIGN_ROW_REMAP_FAILED, CARD_STATE, failed_to_remap },
		{ SIGN_PCIE_NARROW, CARD_STATE, is_narrow },
		{ SIGN_RECOVERY, CARD_STATE, wants_recovery },
		{ SIGN_FABRIC, CARD_STATE, has_no_fabric },
		{ SIGN_ROWS_REPLACED, CARD_COUNT, has_new_rows },
		{ SIGN_PCIE_REPLAYS, CARD_COUNT, has_replays },
	};

	*ret = (struct card_signs){ 0 };
	for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
		struct card_sign s = { .code = rules[i].code };

		if (rules[i].kind & what && rules[i].has(since, now, &s))
			card_signs_add(ret, &s);
	}
}

/* -------- beside others -------- */

static uint32_t links_up(const struct gpu_health *h)
{
	return h->known & HEALTH_LINKS ? (uint32_t)__builtin_popcount(h->links_up) : 0;
}

static uint32_t usual_links(const struct gpu_health *const *like, uint32_t n)
{
	uint32_t usual = 0, most = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t same = 0, up = links_up(like[i]);

		for (uint32_t k = 0; k < n; k++)
			same += links_up(like[k]) == up;
		if (same > most || (same == most && up > usual)) {
			most = same;
			usual = up;
		}
	}
	return usual;
}

static bool may_have_none(const struct gpu_health *const *like, uint32_t n)
{
	uint32_t without = 0;

	for (uint32_t i = 0; i < n; i++)
		without += links_up(like[i]) == 0;
	return without != 1 || n % 2;
}

void card_sign_links(const struct gpu_health *now, const struct gpu_health *const *like, uint32_t n,
		     struct card_signs *l)
{
	struct card_sign s = { .code = SIGN_NVLINK_DOWN,
			       .n = links_up(now),
			       .of = usual_links(like, n) };

	if (now->known & HEALTH_LINKS && s.n < s.of && (s.n || !may_have_none(like, n)))
		card_signs_add(l, &s);
}

/* -------- for people -------- */

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

static const char *recovery_text(uint64_t action)
{
	static const char *const texts[] = {
		[NVML_GPU_RECOVERY_ACTION_GPU_RESET] = "that the card is reset",
		[NVML_GPU_RECOVERY_ACTION_NODE_REBOOT] = "that the machine is started anew",
		[NVML_GPU_RECOVERY_ACTION_DRAIN_P2P] =
			"that programs which use it together with other cards end",
		[NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET] =
			"that its programs end and the card is reset",
		[NVML_GPU_RECOVERY_ACTION_RECOVER_IMEX] =
			"that the IMEX domain of its node is brought up again",
		[NVML_GPU_RECOVERY_ACTION_BUS_RESET] = "that its PCIe bus is reset",
		[NVML_GPU_RECOVERY_ACTION_SYSTEM_REBOOT] = "that the machine is started anew",
	};

	return action < ARRAY_LEN(texts) && texts[action] ? texts[action]
							  : "something that is not known here";
}

static const char *fabric_text(uint64_t state)
{
	switch (state) {
	case NVML_GPU_FABRIC_STATE_NOT_STARTED:
		return "its NVLink fabric is not set up: does the fabric manager run?";
	case NVML_GPU_FABRIC_STATE_IN_PROGRESS:
		return "its NVLink fabric is still being set up: does the fabric manager run?";
	default:
		return "its NVLink fabric could not be set up";
	}
}

/* What was counted, since then; false: it is none of these. */
static bool add_counted(const struct card_sign *s, const char *since, struct strbuf *b)
{
	const unsigned long long n = s->n;

	if (s->code == SIGN_ECC_UNCORRECTED)
		strbuf_addf(b, "%llu uncorrected ECC error%s", n, plural(s->n));
	else if (s->code == SIGN_ROWS_REPLACED)
		strbuf_addf(b, "%llu row%s of its memory %s replaced", n, plural(s->n),
			    s->n == 1 ? "was" : "were");
	else if (s->code == SIGN_PCIE_REPLAYS)
		strbuf_addf(b, "%llu transfers over PCIe had to be repeated", n);
	else
		return false;
	if (since)
		strbuf_addf(b, " %s", since);
	return true;
}

void card_sign_text(const struct card_sign *s, const char *since, struct strbuf *b)
{
	static const char *const plain[SIGN_MAX] = {
		[SIGN_HOT] = "it is too hot, and runs slower",
		[SIGN_SLOWED] = "its hardware slows it down (power supply or power brake)",
		[SIGN_ROW_REMAP_PENDING] =
			"a faulty row of its memory is replaced at the next reset",
		[SIGN_ROW_REMAP_FAILED] = "a faulty row of its memory could not be replaced: the "
					  "card is to be exchanged",
		[SIGN_LOST] = "it is gone: nothing can be seen of it any more",
	};
	const unsigned long long n = s->n, of = s->of;
	char xid[XID_TEXT_MAX];

	if (add_counted(s, since, b))
		return;
	if (plain[s->code] && !s->words) {
		strbuf_adds(b, plain[s->code]);
		return;
	}
	switch (s->code) {
	case SIGN_PCIE_NARROW:
		strbuf_addf(b, "PCIe with %llu of %llu lanes", n, of);
		break;
	case SIGN_RECOVERY:
		strbuf_addf(b, "its driver asks %s", recovery_text(n));
		break;
	case SIGN_FABRIC:
		strbuf_adds(b, fabric_text(n));
		break;
	case SIGN_NVLINK_DOWN:
		strbuf_addf(b, "%llu of its NVLinks %s up, %llu on others of its model", n,
			    s->n == 1 ? "is" : "are", of);
		break;
	case SIGN_XID:
		strbuf_addf(b, "its driver has reported %s", xid_text((uint32_t)s->n, xid));
		break;
	case SIGN_LOST:
		strbuf_addf(b, "nothing is seen of it: %s", s->words);
		break;
	case SIGN_CUDA:
		strbuf_addf(b, "it does not compute: %s", s->words ? s->words : "");
		break;
	case SIGN_USED:
		strbuf_addf(b, "somebody uses it: %s", s->words ? s->words : "");
		break;
	default:
		strbuf_adds(b, card_sign_word(s->code));
		break;
	}
}
