/* SPDX-License-Identifier: MIT */
#include "cli/doctor/health_judge.h"

#include <ctype.h>
#include <string.h>

#include "base/clock.h"
#include "base/enumstr.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "gpu/xid.h"

#define SINCE_DRIVER   "since the driver was loaded"
#define SINCE_ACCEPTED "since it was accepted"
#define MORE_MAX       24 /* bytes of "; and 127 more" */

static const char *const verdict_words[] = {
	[HEALTH_GOOD] = "good",
	[HEALTH_BAD] = "bad",
	[HEALTH_UNTESTED] = "not-tested",
};
_Static_assert(ARRAY_LEN(verdict_words) == HEALTH_VERDICT_MAX, "a word for every verdict");

const char *health_verdict_word(enum health_verdict v)
{
	return enum_name(verdict_words, HEALTH_VERDICT_MAX, v);
}

void health_make_safe(char *text)
{
	for (; *text; text++)
		if (!isalnum((unsigned char)*text) && !strchr(" .,:;()/-+_%", *text))
			*text = '?';
}

/* -------- a card -------- */

static void judge_links(const struct health_pass *p, const struct health_card *c,
			struct health_card_judgement *j)
{
	const struct gpu_health *like[GPU_DEVICES_MAX];
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->n; i++)
		if (!strcmp(p->cards[i].dev.name, c->dev.name) && !p->cards[i].dev.mig_parent &&
		    p->cards[i].health.known & HEALTH_LINKS)
			like[n++] = &p->cards[i].health;
	if (!c->dev.mig_parent) /* which has none up in that mode */
		card_sign_links(&c->health, like, n, &j->signs);
}

/* A report that nobody knows here, after which the driver asks for nothing. */
static bool is_nothing(const struct health_card *c)
{
	return !xid_is_known(c->xid) && c->health.known & HEALTH_RECOVERY &&
	       c->health.recovery == NVML_GPU_RECOVERY_ACTION_NONE;
}

static void judge_xid(const struct health_card *c, const struct health_accepted_card *accepted,
		      const struct health_rules *rules, uint32_t agent_xid,
		      struct health_card_judgement *j)
{
	const uint64_t at_ns = c->xid_us * NS_PER_US;
	char text[XID_TEXT_MAX];

	if (agent_xid)
		card_signs_add(&j->signs, &(struct card_sign){ .code = SIGN_XID, .n = agent_xid });
	if (!c->xid)
		return;
	if ((accepted && at_ns <= accepted->mono_ns) ||
	    at_ns + rules->xids_ms * NS_PER_MS < rules->now_ns || is_nothing(c))
		text_list_addf(&j->notes, "%s was reported, which does not count",
			       xid_text(c->xid, text));
	else
		card_signs_add(&j->signs, &(struct card_sign){ .code = SIGN_XID, .n = c->xid });
}

static void judge_use(const struct health_card *c, struct health_card_judgement *j)
{
	if (c->users[0] && c->stays)
		card_signs_add(&j->signs,
			       &(struct card_sign){ .code = SIGN_USED, .words = c->users });
	else if (c->users[0])
		text_list_addf(&j->notes,
			       "somebody uses it: %s; --timeout left no time to see "
			       "whether that stays so",
			       c->users);
}

static void judge_trial(const struct health_card *c, struct health_card_judgement *j)
{
	if (c->trial == TRIAL_BAD)
		card_signs_add(&j->signs,
			       &(struct card_sign){ .code = SIGN_CUDA, .words = c->trial_words });
	if (c->trial == TRIAL_BUSY || c->trial == TRIAL_IMPOSSIBLE)
		text_list_addf(&j->notes, "CUDA was not tried: %s", c->trial_words);
}

static bool has_sign(const struct health_card_judgement *j, enum card_sign_code code)
{
	for (uint32_t i = 0; i < j->signs.n; i++)
		if (j->signs.s[i].code == code)
			return true;
	return false;
}

/* What is so now, and was not looked at for long enough. */
static void note_moment(const struct health_card *c, struct health_card_judgement *j)
{
	struct card_signs signs;

	card_signs(NULL, &c->health, CARD_MOMENT, &signs);
	for (uint32_t i = 0; !c->stays && i < signs.n; i++) {
		struct strbuf text = STRBUF_INIT;

		card_sign_text(&signs.s[i], NULL, &text);
		strbuf_adds(&text, "; --timeout left no time to see whether that stays so");
		text_list_take(&j->notes, strbuf_take(&text));
	}
}

static void note_state(const struct health_card *c, struct health_card_judgement *j)
{
	const uint32_t links = c->health.links, up = c->health.links_up;

	note_moment(c, j);
	if (c->health.known & HEALTH_THROTTLE &&
	    c->health.throttle & nvmlClocksEventReasonSwThermalSlowdown)
		text_list_add(&j->notes, "it is at the limit of its temperature");
	if (!c->persistence)
		text_list_addf(&j->notes,
			       "persistence is off: nvidia-smi -pm 1 keeps its driver awake");
	if (c->health.known & HEALTH_PCIE_WIDTH && c->health.known & HEALTH_PCIE_WIDTH_MAX &&
	    c->health.pcie_width < c->health.pcie_width_max && !has_sign(j, SIGN_PCIE_NARROW))
		text_list_addf(&j->notes, "PCIe with %u of %u lanes, at generation %u",
			       (unsigned int)c->health.pcie_width,
			       (unsigned int)c->health.pcie_width_max,
			       (unsigned int)c->health.pcie_gen);
	if (c->health.known & HEALTH_LINKS && up && up != links)
		text_list_addf(&j->notes, "%d of %d NVLinks are up", __builtin_popcount(up),
			       __builtin_popcount(links));
}

static void judge_card(const struct health_pass *p, uint32_t i, const struct health_rules *rules,
		       struct health_card_judgement *j)
{
	const struct health_card *c = &p->cards[i];
	const struct health_accepted_card *accepted = health_accepted_of(rules->accepted, c);
	const bool counted = accepted && health_accepted_has_errors(accepted);

	*j = (struct health_card_judgement){ .verdict = HEALTH_UNTESTED,
					     .since = counted ? SINCE_ACCEPTED : SINCE_DRIVER };
	if (!c->selected)
		return;
	if (c->trouble[0]) {
		card_signs_add(&j->signs,
			       &(struct card_sign){ .code = SIGN_LOST, .words = c->trouble });
	} else if (c->seen) {
		card_signs(counted ? &accepted->counters : NULL, &c->health,
			   CARD_STATE | CARD_COUNT | (c->stays ? CARD_MOMENT : 0), &j->signs);
		judge_links(p, c, j);
		judge_xid(c, accepted, rules, rules->agent_xids ? rules->agent_xids[i] : 0, j);
		judge_use(c, j);
		judge_trial(c, j);
		note_state(c, j);
	}
	if (j->signs.n)
		j->verdict = HEALTH_BAD;
	else if (c->seen && c->trial != TRIAL_IMPOSSIBLE && c->trial != TRIAL_RUNS)
		j->verdict = HEALTH_GOOD;
}

/* -------- the machine -------- */

static void judge_failed(const struct health_pass *p, struct health_judgement *j)
{
	for (uint32_t i = 0; i < p->list.n_failed; i++)
		if (p->failed_selected[i])
			text_list_addf(&j->reasons, "GPU %u: nothing is seen of it: %s",
				       (unsigned int)p->list.failed[i].index,
				       p->list.failed[i].why);
}

static void judge_missing(const struct health_pass *p, const struct health_rules *rules,
			  struct health_judgement *j)
{
	for (uint32_t i = 0; i < p->n_unknown; i++)
		text_list_addf(&j->reasons, "%s is not here", p->unknown[i]);
	for (uint32_t i = 0; i < p->n_missing; i++)
		if (p->missing[i].bus_id[0])
			text_list_addf(&j->reasons, "the driver does not list the card at PCI %s",
				       p->missing[i].bus_id);
		else
			text_list_addf(&j->reasons,
				       "the driver does not list the card of /dev/nvidia%d",
				       (int)p->missing[i].minor);
	if (rules->expect && p->n < rules->expect)
		text_list_addf(&j->reasons, "%u of %llu GPUs are seen", (unsigned int)p->n,
			       (unsigned long long)rules->expect);
}

/* Where it was when its time was over. */
static void say_hang(const struct health_pass *p, struct strbuf *b)
{
	static const char *const where[] = {
		[STAGE_LOAD] = "while its library was loaded",
		[STAGE_START] = ("while NVML started: it hangs, or starts its GPUs anew, because "
				 "nothing keeps them awake (persistence), and needs a longer "
				 "--timeout"),
		[STAGE_LIST] = "while NVML listed the GPUs",
		[STAGE_LOOK] = "asked of",
		[STAGE_AGAIN] = "asked again of",
		[STAGE_NODES] = "when a device node was opened",
		[STAGE_CUDA] = "when CUDA was tried on",
		[STAGE_DONE] = "when all was done",
	};
	const char *sep = " GPU ";

	strbuf_addf(b, "the driver has not answered within %.1f s, %s", (double)p->took_ns / 1e9,
		    enum_name(where, ARRAY_LEN(where), (unsigned int)p->stage));
	if (p->at >= 0)
		strbuf_addf(b, " GPU %d", p->at);
	for (uint32_t i = 0; p->stage == STAGE_CUDA && i < p->n; i++)
		if (p->cards[i].trial == TRIAL_RUNS) {
			strbuf_addf(b, "%s%u", sep, (unsigned int)p->cards[i].dev.index);
			sep = ", ";
		}
}

static void judge_driver(const struct health_pass *p, struct health_judgement *j)
{
	struct strbuf text = STRBUF_INIT;

	if (p->code < 0)
		text_list_add(&j->reasons, p->trouble);
	else if (p->died && p->signal)
		text_list_addf(&j->reasons, "what asked the driver was ended by signal %d",
			       p->signal);
	else if (p->died)
		text_list_add(&j->reasons, "what asked the driver has ended without an answer");
	if (!p->timed_out)
		return;
	say_hang(p, &text);
	text_list_take(&j->reasons, strbuf_take(&text));
}

/* How much is known of reports of the driver. */
static void note_log(const struct health_pass *p, const struct health_rules *rules,
		     struct health_judgement *j)
{
	const uint64_t from_ns = p->log_from_us * NS_PER_US;

	if (p->code < 0 || p->stage <= STAGE_NODES || !rules->xids_ms)
		return;
	if (!p->log_read)
		text_list_add(&j->notes, "the kernel's log cannot be read: reports of the driver "
					 "(XIDs) are known from an agent of yours only");
	else if (from_ns && from_ns + rules->xids_ms * NS_PER_MS > rules->now_ns)
		text_list_addf(
			&j->notes,
			"the kernel's log reaches back %llu s: what the driver has reported "
			"before is not known (XIDs)",
			(unsigned long long)((rules->now_ns > from_ns ? rules->now_ns - from_ns
								      : 0) /
					     NS_PER_S));
}

/* What a CUDA that cannot be tried at all says, once. */
static void judge_cuda(const struct health_pass *p, struct health_judgement *j)
{
	for (uint32_t i = 0; i < p->n; i++)
		if (p->cards[i].trial == TRIAL_IMPOSSIBLE) {
			text_list_addf(&j->reasons, "CUDA cannot be tried: %s",
				       p->cards[i].trial_words);
			return;
		}
}

/* -------- the line -------- */

static void add_card(const struct health_card *c, const struct health_card_judgement *j,
		     struct text_list *items)
{
	struct strbuf text = STRBUF_INIT;

	strbuf_addf(&text, "GPU %u (%s, %s): ", (unsigned int)c->dev.index, c->dev.uuid,
		    c->dev.name);
	for (uint32_t i = 0; i < j->signs.n; i++) {
		strbuf_adds(&text, i ? ", " : "");
		card_sign_text(&j->signs.s[i], j->since, &text);
	}
	text_list_take(items, strbuf_take(&text));
}

/* As many whole items as have room; the first is cut where it has none. */
static void join(const char *lead, const struct text_list *items, char *line)
{
	const size_t room = HEALTH_LINE_MAX - MORE_MAX;
	size_t used = strlen(str_print(line, room, "%s", lead)), i = 0;

	for (; i < items->n; i++) {
		size_t needed = strlen(items->texts[i]) + (i ? 2 : 0);

		if (i && used + needed >= room)
			break;
		(void)str_print(line + used, room - used, "%s%s", i ? "; " : "", items->texts[i]);
		used = strlen(line);
	}
	if (i < items->n)
		(void)str_print(line + used, HEALTH_LINE_MAX - used, "; and %zu more",
				items->n - i);
	health_make_safe(line);
}

static void make_line(const struct health_pass *p, struct health_judgement *j)
{
	struct text_list items = { 0 };

	for (uint32_t i = 0; i < p->n; i++)
		if (j->cards[i].verdict == HEALTH_BAD)
			add_card(&p->cards[i], &j->cards[i], &items);
	for (size_t i = 0; i < j->reasons.n; i++)
		text_list_add(&items, j->reasons.texts[i]);
	if (j->verdict == HEALTH_GOOD)
		(void)str_print(j->line, sizeof(j->line), "ok: %u GPU%s", (unsigned int)j->n,
				j->n == 1 ? "" : "s");
	else
		join(j->verdict == HEALTH_BAD ? "bad: " : "not tested: ", &items, j->line);
	text_list_clear(&items);
}

/* -------- all -------- */

static bool any_card(const struct health_pass *p, const struct health_judgement *j,
		     enum health_verdict v)
{
	for (uint32_t i = 0; i < p->n; i++)
		if (p->cards[i].selected && j->cards[i].verdict == v)
			return true;
	return false;
}

void health_judge(const struct health_pass *p, const struct health_rules *rules,
		  struct health_judgement *ret)
{
	size_t bad;

	*ret = (struct health_judgement){ .verdict = HEALTH_GOOD };
	for (uint32_t i = 0; i < p->n; i++) {
		judge_card(p, i, rules, &ret->cards[i]);
		ret->n += p->cards[i].selected;
	}
	judge_failed(p, ret);
	/* Of what was not looked at nothing is missed. */
	if (p->code == 0 && p->stage > STAGE_LIST)
		judge_missing(p, rules, ret);
	bad = ret->reasons.n;
	judge_driver(p, ret);
	judge_cuda(p, ret);
	note_log(p, rules, ret);
	if (bad || any_card(p, ret, HEALTH_BAD))
		ret->verdict = HEALTH_BAD;
	else if (ret->reasons.n || any_card(p, ret, HEALTH_UNTESTED) || !ret->n)
		ret->verdict = HEALTH_UNTESTED;
	if (ret->verdict == HEALTH_UNTESTED && !ret->reasons.n)
		text_list_add(&ret->reasons,
			      p->list.n_cards ? "the GPUs of this machine may not be opened here"
					      : "there is no GPU here");
	make_line(p, ret);
}

void health_judgement_clear(struct health_judgement *j)
{
	text_list_clear(&j->reasons);
	text_list_clear(&j->notes);
	for (size_t i = 0; i < GPU_DEVICES_MAX; i++)
		text_list_clear(&j->cards[i].notes);
}
