/* SPDX-License-Identifier: MIT */

/* `tenure health`: whether the GPUs of this machine are fit to be used, in one line and an exit
 * code, for a batch system's prolog or health check, a probe of Kubernetes, or cron. */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "agent/ctl_client.h"
#include "agent/node/device_health.h"
#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/cmd.h"
#include "cli/commands.h"
#include "cli/doctor/health_accepted.h"
#include "cli/doctor/health_judge.h"
#include "cli/doctor/health_pass.h"
#include "hold/endpoint_names.h"

#define FORMAT	    1
#define CANNOT_TEST 3 /* exit code */
/* For the agent to say what it knows: what is left of --timeout, but no more, and no less. */
#define AGENT_MS       3000
#define AGENT_LEAST_MS 500

static const struct opt health_opts[] = {
	{ .name = "gpus",
	  .words = WORDS_GPUS,
	  .spec = { VALUE_STRING },
	  .arg = "GPUS",
	  .help = "only these: indices or UUIDs, as CUDA_VISIBLE_DEVICES and SLURM_JOB_GPUS have "
		  "them; of an instance of MIG its card; nothing, or NoDevFiles: none (default: all)" },
	{ .name = "expect",
	  .spec = { VALUE_UINT, .min = 1, .max = GPU_DEVICES_MAX },
	  .arg = "N",
	  .help = "fewer GPUs than so many are bad" },
	{ .name = "cuda",
	  .spec = { VALUE_FLAG },
	  .help = "also compute a little on each GPU that nobody uses, and compare the results" },
	{ .name = "free",
	  .spec = { VALUE_FLAG },
	  .help = "GPUs that somebody uses for two seconds more are bad, as behind a job that has "
		  "ended" },
	{ .name = "since",
	  .words = WORDS_FILES,
	  .spec = { VALUE_STRING },
	  .arg = "FILE",
	  .help = "errors that were accepted in FILE do not count" },
	{ .name = "accept",
	  .spec = { VALUE_FLAG },
	  .help = "accept what has been counted by now: write it to the FILE of --since" },
	{ .name = "xids",
	  .spec = { VALUE_DURATION },
	  .arg = "DURATION",
	  .def = "1h",
	  .help = "reports of the driver (XIDs) in the kernel's log count for so long; 0: not at all" },
	{ .name = "timeout",
	  .spec = { VALUE_DURATION, .min = 100, .max = 3600000 },
	  .arg = "DURATION",
	  .def = "9s",
	  .help = "a driver that has not answered by then hangs" },
	{ .name = "quiet",
	  .short_name = 'q',
	  .spec = { VALUE_FLAG },
	  .help = "say nothing when all is good" },
	{ 0 },
};

/* -------- what is asked for -------- */

/* What programs and engines write where there is none. */
static bool means_none(const char *text)
{
	static const char *const words[] = { "NoDevFiles", "none", "void", "-1" };

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strcasecmp(text, words[i]) == 0)
			return true;
	return text[strspn(text, " ,")] == '\0';
}

/* 0; 1: none is asked for; -EINVAL. */
static int take_picks(const struct cmd_ctx *ctx, struct gpu_picks *picks, struct err *e)
{
	const char *text = opts_text(ctx->opts, "gpus");

	*picks = (struct gpu_picks){ .all = !text };
	if (!text)
		return 0;
	return means_none(text) ? 1 : unit_parse_gpus(text, picks, e);
}

/* -------- what an agent knows -------- */

static void take_agent_xids(const json_t *devices, const struct health_pass *p, uint32_t *xids)
{
	const json_t *d;
	size_t k;

	json_array_foreach(devices, k, d)
	{
		const char *uuid = json_get_str(d, "uuid");

		for (uint32_t i = 0; uuid && i < p->n; i++)
			if (strcmp(uuid, p->cards[i].dev.uuid) == 0)
				xids[i] = json_get_small(d, "xid", UINT16_MAX);
	}
}

/* Reports that its guard has heard, which are more than the kernel's log where that is not to be
 * read. By card. */
static void ask_agent(const struct cmd_ctx *ctx, const struct health_pass *p, uint32_t *xids,
		      struct text_list *notes)
{
	char name[SOCKET_NAME_MAX];
	const uint64_t now = clock_mono_ns();
	uint64_t ms = p->until_ns > now ? (p->until_ns - now) / NS_PER_MS : 0;
	json_t *doc = NULL;
	int r;

	(void)agent_socket_name(name, sizeof(name), settings_str(ctx->settings, SET_INSTANCE),
				settings_str(ctx->settings, SET_DEV_DIR), ctx->job);
	ms = ms < AGENT_LEAST_MS ? AGENT_LEAST_MS : ms > AGENT_MS ? AGENT_MS : ms;
	r = ctl_ask(name, CTL_STATUS, (int)ms, &doc, NULL, NULL);
	if (r == -ETIMEDOUT || r == -EAGAIN)
		text_list_add(notes, "the agent here does not answer: the reports of the driver "
				     "(XIDs) that it has heard do not count");
	take_agent_xids(json_object_get(doc, "devices"), p, xids);
	json_decref(doc);
}

/* -------- what is said -------- */

static int exit_code(enum health_verdict v)
{
	static const int codes[HEALTH_VERDICT_MAX] = {
		[HEALTH_GOOD] = CMD_OK,
		[HEALTH_BAD] = CMD_FAILED,
		[HEALTH_UNTESTED] = CANNOT_TEST,
	};

	return codes[v];
}

static json_t *texts_json(const struct text_list *l)
{
	json_t *a = json_array();

	for (size_t i = 0; i < l->n; i++)
		(void)json_array_append_new(a, json_new_text(l->texts[i]));
	return a;
}

static json_t *signs_json(const struct health_card_judgement *j)
{
	json_t *a = json_array();

	for (uint32_t i = 0; i < j->signs.n; i++) {
		cleanup_strbuf struct strbuf text = STRBUF_INIT;

		card_sign_text(&j->signs.s[i], j->since, &text);
		(void)json_array_append_new(a, json_pack("{s:s, s:o}", "code",
							 card_sign_word(j->signs.s[i].code), "text",
							 json_new_text(strbuf_str(&text))));
	}
	return a;
}

/* null: it was not tried. */
static json_t *cuda_json(const struct health_card *c)
{
	if (c->trial != TRIAL_GOOD && c->trial != TRIAL_BAD)
		return json_null();
	return json_pack("{s:b, s:I, s:f}", "good", c->trial == TRIAL_GOOD, "compared",
			 (json_int_t)c->trial_compared, "took_s", (double)c->trial_ns / 1e9);
}

static json_t *card_json(const struct health_card *c, const struct health_card_judgement *j)
{
	return json_pack("{s:i, s:s, s:o, s:s?, s:s, s:o, s:o, s:o, s:o}", "gpu", (int)c->dev.index,
			 "uuid", c->dev.uuid, "name", json_new_text(c->dev.name), "bus_id",
			 c->dev.bus_id[0] ? c->dev.bus_id : NULL, "verdict",
			 health_verdict_word(j->verdict), "reasons", signs_json(j), "notes",
			 texts_json(&j->notes), "cuda", cuda_json(c), "health",
			 health_json(&c->health, clock_mono_ns()));
}

static void print_json(const struct health_pass *p, const struct health_judgement *j)
{
	json_t *devices = json_array();
	char host[256] = "localhost";

	(void)gethostname(host, sizeof(host) - 1);
	for (uint32_t i = 0; p && i < p->n; i++)
		if (p->cards[i].selected)
			(void)json_array_append_new(devices, card_json(&p->cards[i], &j->cards[i]));
	cmd_print_json(
		json_pack("{s:i, s:s, s:s, s:s, s:i, s:i, s:s?, s:f, s:o, s:o, s:o}", "format",
			  FORMAT, "node", host, "verdict", health_verdict_word(j->verdict), "text",
			  j->line, "exit_code", exit_code(j->verdict), "gpus", (int)j->n, "driver",
			  p && p->driver[0] ? p->driver : NULL, "took_s",
			  p ? (double)p->took_ns / 1e9 : 0.0, "reasons", texts_json(&j->reasons),
			  "notes", texts_json(&j->notes), "devices", devices));
}

/* The exit code is the answer, also where the line cannot be written: 1 would say that a GPU is
 * bad.
 */
static void let_go_of_output(void)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return;
	cmd_warn("warning", "the line cannot be written: %s", strerror(errno));
	(void)!freopen("/dev/null", "w", stdout);
}

static bool was_noted(const struct health_pass *p, const struct health_judgement *j,
		      uint32_t before, const char *note)
{
	for (uint32_t i = 0; i < before; i++)
		if (p->cards[i].selected && text_list_has(&j->cards[i].notes, note))
			return true;
	return false;
}

/* Of all cards of which it is so, at the first of them. */
static void print_note(const struct health_pass *p, const struct health_judgement *j,
		       uint32_t first, const char *note)
{
	const char *sep = "  GPU ";

	for (uint32_t i = first; i < p->n; i++) {
		if (!p->cards[i].selected || !text_list_has(&j->cards[i].notes, note))
			continue;
		(void)printf("%s%u", sep, (unsigned int)p->cards[i].dev.index);
		sep = ", ";
	}
	(void)printf(": %s\n", note);
}

/* For a person, who may not know what was not looked at. */
static void print_notes(const struct health_pass *p, const struct health_judgement *j)
{
	for (size_t i = 0; i < j->notes.n; i++)
		(void)printf("  %s\n", j->notes.texts[i]);
	for (uint32_t i = 0; i < p->n; i++)
		for (size_t k = 0; p->cards[i].selected && k < j->cards[i].notes.n; k++)
			if (!was_noted(p, j, i, j->cards[i].notes.texts[k]))
				print_note(p, j, i, j->cards[i].notes.texts[k]);
}

static int report(const struct cmd_ctx *ctx, const struct health_pass *p,
		  const struct health_judgement *j)
{
	if (opts_flag(ctx->opts, "json"))
		print_json(p, j);
	else if (j->verdict != HEALTH_GOOD || !opts_flag(ctx->opts, "quiet"))
		(void)puts(j->line);
	if (p && isatty(STDOUT_FILENO) && !opts_flag(ctx->opts, "json") &&
	    !opts_flag(ctx->opts, "quiet"))
		print_notes(p, j);
	let_go_of_output();
	return exit_code(j->verdict);
}

static int report_none(const struct cmd_ctx *ctx)
{
	cleanup_free struct health_judgement *j = xcalloc(1, sizeof(*j));

	(void)str_copy(j->line, sizeof(j->line), "ok: no GPU was asked for");
	return report(ctx, NULL, j);
}

/* -------- all -------- */

/* What cannot be read is not accepted, which says more and not less of the cards. */
static int take_accepted(const struct cmd_ctx *ctx, const struct health_pass *p,
			 struct health_accepted *ret, struct text_list *notes, struct err *e)
{
	const char *path = opts_text(ctx->opts, "since");
	struct err why = ERR_INIT;

	if (path && opts_flag(ctx->opts, "accept") && health_accepted_write(path, p, e) < 0)
		return -1;
	if (!path || health_accepted_read(path, ret, &why) == 0)
		return 0;
	text_list_add(notes, why.text);
	cmd_warn("warning", "%s: nothing is accepted", why.text);
	return 0;
}

static int judge(const struct cmd_ctx *ctx, const struct health_pass *p, struct err *e)
{
	cleanup_free struct health_accepted *accepted = xcalloc(1, sizeof(*accepted));
	cleanup_free struct health_judgement *j = xcalloc(1, sizeof(*j));
	uint32_t xids[GPU_DEVICES_MAX] = { 0 };
	const struct health_rules rules = { .accepted = accepted,
					    .xids_ms = opts_value(ctx->opts, "xids")->num,
					    .now_ns = clock_mono_ns(),
					    .expect = opts_given(ctx->opts, "expect")
							      ? opts_value(ctx->opts, "expect")->num
							      : 0,
					    .agent_xids = xids };
	struct text_list notes = { 0 };
	int code = take_accepted(ctx, p, accepted, &notes, e);

	if (code < 0)
		return CMD_USAGE;
	if (!p->timed_out)
		ask_agent(ctx, p, xids, &notes);
	health_judge(p, &rules, j);
	for (size_t i = 0; i < notes.n; i++)
		text_list_add(&j->notes, notes.texts[i]);
	code = report(ctx, p, j);
	text_list_clear(&notes);
	health_judgement_clear(j);
	return code;
}

static int run_health(const struct cmd_ctx *ctx, struct err *e)
{
	struct health_order order = { .cuda = opts_flag(ctx->opts, "cuda"),
				      .free = opts_flag(ctx->opts, "free"),
				      .timeout_ms = opts_value(ctx->opts, "timeout")->num,
				      .idle_below = settings_num(ctx->settings, SET_IDLE_BELOW),
				      .dev_dir = settings_str(ctx->settings, SET_DEV_DIR) };
	struct health_pass *p = NULL;
	struct gpu_picks picks;
	int r;

	if (opts_flag(ctx->opts, "accept") && !opts_text(ctx->opts, "since")) {
		(void)err_set(e, -EINVAL, "--accept writes to a file: name it with --since FILE");
		return CMD_USAGE;
	}
	r = take_picks(ctx, &picks, e);
	if (r < 0)
		return CMD_USAGE;
	if (r > 0)
		return report_none(ctx);
	order.picks = picks.all ? NULL : &picks;
	r = health_pass_run(&order, &p, e);
	r = r < 0 ? CANNOT_TEST : judge(ctx, p, e);
	p = health_pass_free(p);
	gpu_picks_clear(&picks);
	return r;
}

static const struct cmd_example health_examples[] = {
	{ "tenure health", "one line: ok, bad and why, or not tested and why" },
	{ "tenure health --gpus \"$SLURM_JOB_GPUS\" --cuda", "in a prolog: the GPUs of the job" },
	{ "tenure health --quiet --expect 8", "in cron, which mails what is printed" },
	{ "tenure health --since /var/lib/tenure-health.json --accept",
	  "the card was looked after: what was counted by now is known" },
	{ 0 },
};

const struct cmd cmd_health = {
	.name = "health",
	.group = "This machine",
	.summary = "are the GPUs fit to be used? One line and an exit code, in seconds",
	.description =
		"Asks the driver once, without any load, and says in one line what is wrong: GPUs that "
		"are lost or missing, memory errors that ECC could not correct, rows of memory to be "
		"replaced, PCIe with fewer lanes than card and slot can, fewer NVLinks up than on "
		"others of the model or none set up, heat or hardware that slows a card down for two "
		"seconds on end, what the driver itself asks for (a reset), and its reports (XIDs) in "
		"the kernel's log. A driver that hangs is given up after --timeout. The line is short, and safe as the reason for which a batch system "
		"drains the node; docs/health.md has what to write there.\n"
		"\n"
		"Errors count since the driver was loaded or the card was reset. Where neither is to be "
		"done now, --since FILE --accept remembers them as known.\n"
		"\n"
		"Exit codes: 0 all are good, 1 one is bad or missing, 3 nothing can be said, because the "
		"driver is not there, fails or hangs. 2 is a mistake in the command.",
	.examples = health_examples,
	.opts = health_opts,
	.flags = CMD_JSON,
	.setting_groups = SETTING_GROUP_NODE,
	.run = run_health,
};
