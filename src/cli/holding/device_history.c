/* SPDX-License-Identifier: MIT */
#include "cli/holding/device_history.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/report/samples.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/units.h"
#include "cli/agent_client.h"
#include "cli/term.h"

#define LIMIT_MS  5000
#define LABEL	  5 /* columns: " 12  " */
#define STRIP_MIN 12
#define STRIP_MAX 145 /* ten minutes a character, of a day, and one that is not over */
#define DAY_S	  (UINT64_C(24) * 3600)

static const struct look {
	char c;
	enum term_style style; /* TERM_STYLE_MAX: none */
	const char *what;
} looks[SAMPLE_STATE_MAX] = {
	[SAMPLE_GAP] = { ' ', TERM_STYLE_MAX, "no agent ran" },
	[SAMPLE_BLIND] = { '?', TERM_DIM, "not seen" },
	[SAMPLE_LEFT] = { '-', TERM_DIM, "left for others" },
	[SAMPLE_IDLE] = { '.', TERM_DIM, "idle" },
	[SAMPLE_HELD] = { '=', TERM_GREEN, "held" },
	[SAMPLE_WORKLOAD] = { '~', TERM_GREEN, "workload" },
	[SAMPLE_TASK] = { '#', TERM_BOLD, "a task's" },
	[SAMPLE_FOREIGN] = { 'x', TERM_YELLOW, "somebody else's" },
	[SAMPLE_FAULT] = { '!', TERM_RED, "has an error" },
};

enum sample_state device_history_state(const json_t *text)
{
	const char *name = json_string_value(text);

	for (unsigned int i = 0; name && i < SAMPLE_STATE_MAX; i++)
		if (!strcmp(name, sample_state_name(i)))
			return i;
	return SAMPLE_GAP;
}

static size_t strip_width(void)
{
	size_t width = term_width(STDOUT_FILENO);
	size_t room = width > LABEL + STRIP_MIN + 1 ? width - LABEL - 1 : STRIP_MIN;

	return room < STRIP_MAX ? room : STRIP_MAX;
}

/* Of so many steps; where two are as often there the one that says more. */
static enum sample_state state_of_most(const json_t *states, size_t from, size_t n)
{
	unsigned int times[SAMPLE_STATE_MAX] = { 0 };
	enum sample_state best = SAMPLE_GAP;

	for (size_t i = from; i < from + n && i < json_array_size(states); i++)
		times[device_history_state(json_array_get(states, i))]++;
	for (unsigned int i = 0; i < SAMPLE_STATE_MAX; i++)
		if (times[i] && times[i] >= times[best])
			best = i;
	return best;
}

/* together: so many steps are a character. */
static void print_strip(const json_t *device, size_t together, bool *seen)
{
	const json_t *states = json_object_get(json_object_get(device, "samples"), "state");
	const json_t *mig = json_object_get(device, "mig");
	enum term_style style = TERM_STYLE_MAX;
	char gpu[32];

	(void)str_print(gpu, sizeof(gpu), "%llu", (unsigned long long)json_get_u64(device, "gpu"));
	if (json_is_integer(mig))
		(void)str_print(gpu + strlen(gpu), sizeof(gpu) - strlen(gpu), "/%d",
				(int)json_integer_value(mig));
	printf("%3s  ", gpu);
	for (size_t i = 0; i < json_array_size(states); i += together) {
		enum sample_state state = state_of_most(states, i, together);
		const struct look *l = &looks[state];

		seen[state] = true;
		if (l->style != style && style != TERM_STYLE_MAX)
			(void)fputs(term_off(STDOUT_FILENO), stdout);
		if (l->style != style && l->style != TERM_STYLE_MAX)
			(void)fputs(term_on(STDOUT_FILENO, l->style), stdout);
		style = l->style;
		(void)putchar(l->c);
	}
	printf("%s\n", style == TERM_STYLE_MAX ? "" : term_off(STDOUT_FILENO));
}

/* "GPU  19:40                     now" */
static void print_times(const json_t *doc, size_t n)
{
	const json_t *device = json_array_get(json_object_get(doc, "devices"), 0);
	const json_t *t = json_object_get(json_object_get(device, "samples"), "t");
	time_t first = (time_t)json_integer_value(json_array_get(t, 0));
	struct tm tm;
	char text[16];

	if (localtime_r(&first, &tm) && strftime(text, sizeof(text), "%H:%M", &tm))
		printf("GPU  %-*s%s\n", n > 8 ? (int)n - 3 : 5, text, n > 8 ? "now" : "");
}

static void print_legend(const json_t *doc, size_t together, const bool *seen)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	uint64_t lost = json_get_u64(doc, "lost");
	char step[UNIT_TEXT_MAX];

	strbuf_addf(&b, "A character is %s.",
		    unit_format_duration(together * json_get_u64(doc, "step_s") * 1000, step));
	for (unsigned int i = SAMPLE_STATE_MAX; i-- > SAMPLE_GAP + 1;)
		if (seen[i])
			strbuf_addf(&b, "  %c %s", looks[i].c, looks[i].what);
	if (seen[SAMPLE_GAP])
		strbuf_addf(&b, "  (nothing) %s", looks[SAMPLE_GAP].what);
	if (lost)
		strbuf_addf(&b, "\n%llu samples could not be kept on disk: tenure status says why.",
			    (unsigned long long)lost);
	printf("%s\n", strbuf_str(&b));
}

void device_history_print(const json_t *doc)
{
	const json_t *devices = json_object_get(doc, "devices"), *device;
	const json_t *first = json_object_get(json_array_get(devices, 0), "samples");
	size_t n = json_array_size(json_object_get(first, "t"));
	size_t together = n ? (n + strip_width() - 1) / strip_width() : 1;
	bool seen[SAMPLE_STATE_MAX] = { false };
	size_t i;

	if (!json_array_size(devices)) {
		printf("The agent has seen no GPU yet.\n");
		return;
	}
	print_times(doc, (n + together - 1) / together);
	json_array_foreach(devices, i, device) print_strip(device, together, seen);
	print_legend(doc, together, seen);
}

/* So many seconds that the strip fits the terminal; for programs as fine as it is. */
static uint32_t step_of(uint64_t seconds, bool json)
{
	uint64_t room = strip_width();

	/* One more point is the step that is not over. */
	return json ? 0 : (uint32_t)((seconds + room - 2) / (room - 1));
}

int device_history_span(const char *duration, uint64_t *ret_s, struct err *e)
{
	uint64_t ms = DAY_S * 1000;
	int r = duration ? unit_parse_duration(duration, &ms, e) : 0;

	if (r < 0 || ms < SAMPLE_S * 1000 || ms > DAY_S * 1000)
		return err_set(e, r < 0 ? r : -ERANGE,
			       "--history takes from 10s to 24h (what is older is not kept), not "
			       "\"%s\"",
			       duration);
	*ret_s = ms / 1000;
	return 0;
}

int show_device_history(const struct cmd_ctx *ctx, const char *duration, bool json, struct err *e)
{
	struct ctl_request req = { .verb = CTL_HISTORY };
	json_t *doc = NULL;
	int r = device_history_span(duration, &req.task, e);

	if (r < 0)
		return CMD_USAGE;
	req.element = step_of(req.task, json);
	r = agent_ask(ctx, &req, LIMIT_MS, &doc, NULL, e);
	if (r != CMD_OK)
		return r;
	if (json) {
		(void)json_object_del(doc, "code");
		cmd_print_json_line(doc);
		return CMD_OK;
	}
	device_history_print(doc);
	json_decref(doc);
	return CMD_OK;
}
