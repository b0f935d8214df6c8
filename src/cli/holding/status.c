/* SPDX-License-Identifier: MIT */

/*
 * Everything comes from the JSON document, so that what people see and what programs read cannot
 * differ. A field that is missing or null is unknown and shown as "-": the agent may be of another
 * version.
 */

#include "cli/holding/status.h"

#include <string.h>

#include "base/fs.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "cli/agent_client.h"
#include "cli/commands.h"
#include "cli/screen.h"
#include "cli/table.h"
#include "cli/term.h"

#define STATUS_LIMIT_MS 5000
#define CELL		32
#define TITLE_MAX	400
#define GUARD		"guard   "
#define HELPER_PREFIX	"tenure-" /* of the names of programs beside the agent */

static const char *text_of(const json_t *o, const char *key, const char *otherwise)
{
	const char *s = json_get_str(o, key);

	return s ? s : otherwise;
}

/* "-" for what is unknown. */
static const char *number(const json_t *o, const char *key, const char *format, char *buf)
{
	const json_t *v = json_object_get(o, key);

	if (!json_is_number(v))
		return "-";
	return str_print(buf, CELL, format, json_number_value(v));
}

static const char *seconds(const json_t *o, const char *key, char *buf)
{
	const json_t *v = json_object_get(o, key);
	char text[UNIT_TEXT_MAX];

	if (!json_is_number(v))
		return "-";
	return str_print(
		buf, CELL, "%s",
		unit_format_duration((uint64_t)(json_number_value(v) * 1e3) / 1000 * 1000, text));
}

/* "117.3/123.0" in GiB; the unit is in the title. */
static const char *gib_pair(const json_t *o, const char *a, const char *b, char *buf)
{
	const json_t *x = json_object_get(o, a), *y = json_object_get(o, b);
	double gib = (double)GIB;

	if (!json_is_number(x) || !json_is_number(y) || json_number_value(y) <= 0)
		return "-";
	return str_print(buf, CELL, "%.1f/%.1f", json_number_value(x) / gib,
			 json_number_value(y) / gib);
}

static const char *label(const json_t *d, char *buf)
{
	const json_t *mig = json_object_get(d, "mig");
	int gpu = (int)json_integer_value(json_object_get(d, "gpu"));

	if (json_is_integer(mig))
		return str_print(buf, CELL, "%d/%d", gpu, (int)json_integer_value(mig));
	return str_print(buf, CELL, "%d", gpu);
}

static const struct {
	const char *state;
	enum term_style style;
} state_styles[] = {
	{ "workload", TERM_GREEN },  { "held", TERM_GREEN }, { "holding", TERM_GREEN },
	{ "yielding", TERM_YELLOW }, { "left", TERM_DIM },   { "busy", TERM_YELLOW },
};

static enum term_style style_of(const char *state)
{
	for (size_t i = 0; i < ARRAY_LEN(state_styles); i++)
		if (strcmp(state_styles[i].state, state) == 0)
			return state_styles[i].style;
	return TABLE_PLAIN;
}

static void print_devices(const json_t *devices, FILE *out)
{
	static const struct table_column columns[] = {
		{ "GPU", true },
		{ "STATE" },
		{ "FOR", true },
		{ "HELD GiB", true },
		{ "USED GiB", true, .drop = 2 },
		{ "UTIL", true, .drop = 3 },
		{ "WATTS", true, .drop = 4 },
		{ "TEMP", true, .drop = 5 },
		{ "LOAD", .drop = 1 },
		{ 0 },
	};
	struct table *t = table_new(columns);
	size_t i;
	json_t *d;

	json_array_foreach(devices, i, d)
	{
		char gpu[CELL], time[CELL], held[CELL], used[CELL], util[CELL], watts[CELL],
			temp[CELL];
		const char *state = text_of(d, "state", "?");

		table_add(t, style_of(state), label(d, gpu), text_of(d, "use", state),
			  seconds(d, "for_s", time),
			  gib_pair(d, "held_bytes", "target_bytes", held),
			  gib_pair(d, "memory_used_bytes", "memory_total_bytes", used),
			  number(d, "utilisation", "%.0f %%", util),
			  number(d, "power_w", "%.0f", watts),
			  number(d, "temperature_c", "%.0f C", temp), text_of(d, "load", "-"));
	}
	table_print(t, out);
	(void)table_free(t);
}

/* What does not fit on a terminal goes under the text. */
static void print_item(FILE *out, const char *head, const char *text)
{
	(void)fputs(head, out);
	term_print_wrapped(out, text, strlen(head));
}

/* Only what the table has no place for. */
static void print_reasons(const json_t *devices, const char *instance, FILE *out)
{
	size_t i;
	json_t *d;

	json_array_foreach(devices, i, d)
	{
		char gpu[CELL], time[CELL], head[CELL * 2];
		cleanup_strbuf struct strbuf b = STRBUF_INIT;
		const char *reason = text_of(d, "reason", NULL);
		bool soon = json_is_number(json_object_get(d, "hold_in_s"));
		bool own = strcmp(text_of(d, "instance", ""), instance) == 0;

		/* That it is held for this instance is what the table says. */
		if (own && strcmp(text_of(d, "state", ""), "held") == 0 &&
		    strcmp(text_of(d, "reason_code", ""), "held") == 0 &&
		    strcmp(text_of(d, "held_for", ""), instance) == 0 &&
		    !json_is_string(json_object_get(d, "left_to")))
			reason = NULL;
		if (!reason && !soon)
			continue;
		strbuf_adds(&b, reason ? reason : "");
		if (soon)
			strbuf_addf(&b, "%sto be held%s%s in %s", reason ? "; " : "",
				    own ? "" : " for ", own ? "" : text_of(d, "instance", "?"),
				    seconds(d, "hold_in_s", time));
		print_item(out, str_print(head, sizeof(head), "  gpu %s  ", label(d, gpu)),
			   strbuf_str(&b));
	}
}

static void print_guard(const json_t *g, FILE *out)
{
	char age[CELL];
	const char *trouble = text_of(g, "trouble", NULL);
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	if (!json_get_flag(g, "connected")) {
		strbuf_addf(&b, "none: %s", trouble ? trouble : "it is being started");
		print_item(out, GUARD, strbuf_str(&b));
		return;
	}
	strbuf_addf(&b, "PID %d, driver %s, %s, PIDs seen: %s%s%s%s\nlast heartbeat %s s ago",
		    (int)json_integer_value(json_object_get(g, "pid")),
		    text_of(g, "driver", "unknown"),
		    json_get_flag(g, "sees") ? "sees" : "does NOT see",
		    text_of(g, "pid_class", "unknown"),
		    json_get_flag(g, "inotify") ? "" : ", no inotify (polling)",
		    trouble ? "\n" : "", trouble ? trouble : "", number(g, "age_s", "%.1f", age));
	print_item(out, GUARD, strbuf_str(&b));
}

/* "2026-11-21T14:02:11.123+01:00 info text" without what only programs need. */
static void print_log_line(const char *line, FILE *out)
{
	size_t time = strcspn(line, " ");
	char head[CELL] = "  ";

	if (time > 19 && line[10] == 'T') {
		(void)str_print(head, sizeof(head), "  %.10s %.8s ", line, line + 11);
		line += time + (line[time] == ' ');
	}
	print_item(out, head, line);
}

static void add_gpus(const json_t *gpus, struct strbuf *b)
{
	strbuf_adds(b, json_array_size(gpus) ? " on gpu " : "");
	json_add_list(gpus, ",", b);
}

/* "; 1 to 3 GPUs: its GPUs are busy .." and the last change, on a line of its own */
static void add_scaling(const json_t *scaling, struct strbuf *b)
{
	const char *last = text_of(json_object_get(scaling, "last"), "text", NULL);

	if (!json_is_object(scaling))
		return;
	strbuf_addf(b, "\n%lld to %lld GPUs: %s%s%s",
		    (long long)json_integer_value(json_object_get(scaling, "min")),
		    (long long)json_integer_value(json_object_get(scaling, "max")),
		    text_of(scaling, "text", "?"), last ? "\n" : "", last ? last : "");
}

static void print_task(const json_t *t, FILE *out)
{
	char head[CELL * 2], time[CELL];
	long long element = (long long)json_integer_value(json_object_get(t, "element"));
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	(void)str_print(head, sizeof(head), element ? "  task %lld.%lld  " : "  task %lld  ",
			(long long)json_integer_value(json_object_get(t, "id")), element);
	strbuf_addf(&b, "%s: %s", text_of(t, "name", "?"), text_of(t, "state", "?"));
	add_gpus(json_object_get(t, "gpus"), &b);
	if (json_is_number(json_object_get(t, "for_s")))
		strbuf_addf(&b, " for %s", seconds(t, "for_s", time));
	strbuf_addf(&b, ", attempt %d, %s", (int)json_integer_value(json_object_get(t, "attempt")),
		    text_of(t, "log", "no log"));
	add_scaling(json_object_get(t, "scaling"), &b);
	print_item(out, head, strbuf_str(&b));
}

/* "; empty for 3m, exit after 5m" */
static void add_empty(const json_t *agent, struct strbuf *b)
{
	char since[CELL], whole[CELL];

	if (json_is_number(json_object_get(agent, "empty_s")))
		strbuf_addf(b, "; empty for %s, %s after %s", seconds(agent, "empty_s", since),
			    text_of(agent, "on_empty", "?"), seconds(agent, "empty_for_s", whole));
}

/* "node    beta: alive, 4 GPUs (1 held, 2 lent), 2 tasks run, last heartbeat 3s ago" */
static void print_other(const json_t *o, FILE *out)
{
	static const char *const words[][2] = { { "unknown", "silent" }, { "off", "has ended" } };
	static const char *const counts[] = { "held", "lent", "idle" };
	const char *agent = text_of(o, "agent", "?"), *host = text_of(o, "host", "");
	const char *state = text_of(o, "state", "?");
	json_int_t running = json_integer_value(json_object_get(o, "running"));
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	char time[CELL];
	size_t told = 0;

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strcmp(words[i][0], state) == 0)
			state = words[i][1];
	strbuf_addf(&b, "%s%s%s%s: %s", agent, strcmp(host, agent) ? " (" : "",
		    strcmp(host, agent) ? host : "", strcmp(host, agent) ? ")" : "", state);
	if (json_get_flag(o, "draining"))
		strbuf_adds(&b, ", draining");
	strbuf_addf(&b, ", %lld GPUs",
		    (long long)json_integer_value(json_object_get(o, "devices")));
	for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
		json_int_t n = json_integer_value(json_object_get(o, counts[i]));

		if (n)
			strbuf_addf(&b, "%s%lld %s", told++ ? ", " : " (", (long long)n, counts[i]);
	}
	strbuf_addf(&b, "%s, %lld task%s, last heartbeat %s ago", told ? ")" : "",
		    (long long)running, running == 1 ? " runs" : "s run",
		    seconds(o, "quiet_s", time));
	print_item(out, "node    ", strbuf_str(&b));
}

static void print_queue(const json_t *q, const json_t *agent, FILE *out)
{
	static const char *const counts[][2] = { { "waiting", "wait" },
						 { "running", "run" },
						 { "done", "done" },
						 { "failed", "failed" },
						 { "awaiting_retry", "awaiting retry" } };
	const char *trouble = text_of(q, "trouble", "");
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	size_t i;
	json_t *t;

	if (!json_is_object(q))
		return;
	for (i = 0; i < ARRAY_LEN(counts); i++) {
		json_int_t n = json_integer_value(json_object_get(q, counts[i][0]));

		strbuf_addf(&b, "%s%lld %s", i ? ", " : "", (long long)n, counts[i][1]);
	}
	if (json_get_flag(q, "draining"))
		strbuf_adds(&b, "; draining");
	else
		add_empty(agent, &b);
	if (trouble[0])
		strbuf_addf(&b, "\n%s", trouble);
	print_item(out, "queue   ", strbuf_str(&b));
	json_array_foreach(json_object_get(q, "tasks"), i, t)
	{
		print_task(t, out);
	}
	json_array_foreach(json_object_get(q, "others"), i, t)
	{
		print_other(t, out);
	}
}

static void print_yields(const json_t *yields, FILE *out)
{
	size_t i;
	json_t *y;

	if (!json_array_size(yields))
		return;
	fprintf(out, "\nLast yields:\n");
	json_array_foreach(yields, i, y)
	{
		const char *time = text_of(y, "time", "");
		char head[CELL];

		print_item(out,
			   str_print(head, sizeof(head), "  %.8s  ",
				     strlen(time) > 19 ? time + 11 : "?"),
			   text_of(y, "text", ""));
	}
}

static void print_log(const json_t *doc, FILE *out)
{
	size_t i;
	json_t *line;
	json_int_t lost = json_integer_value(json_object_get(doc, "lines_lost"));

	cleanup_free char *log = fs_show_path(text_of(json_object_get(doc, "agent"), "log", "?"));

	cleanup_free char *title = xasprintf("Last lines of %s:", log);

	(void)fputc('\n', out);
	term_print_wrapped(out, title, 0);
	json_array_foreach(json_object_get(doc, "log"), i, line)
	{
		print_log_line(json_string_value(line) ? json_string_value(line) : "", out);
	}
	if (lost)
		fprintf(out, "  (%lld lines could not be written%s%s)\n", (long long)lost,
			text_of(doc, "log_trouble", NULL) ? ": " : "",
			text_of(doc, "log_trouble", ""));
}

/* "auto-shutdown at 2026-11-22 16:00 (in 23h, drains)" */
static void add_lifetime(const json_t *life, struct strbuf *b)
{
	const char *ends = text_of(life, "ends", "");
	char left[CELL];

	if (strlen(ends) > 16)
		strbuf_addf(b, ", auto-shutdown at %.10s %.5s (in %s, %ss)", ends, ends + 11,
			    seconds(life, "left_s", left), text_of(life, "then", "?"));
}

static void print_agent(const json_t *agent, FILE *out)
{
	const char *until = text_of(agent, "until", NULL);
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	char time[CELL];

	strbuf_addf(&b, "PID %d, for %s", (int)json_integer_value(json_object_get(agent, "pid")),
		    seconds(agent, "uptime_s", time));
	if (until && strlen(until) > 16)
		strbuf_addf(&b, ", until %.10s %.5s", until, until + 11);
	add_lifetime(json_object_get(agent, "lifetime"), &b);
	print_item(out, "agent   ", strbuf_str(&b));
}

/* The job of an engine, where it runs in one. */
static void print_job(const json_t *job, FILE *out)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	const char *end = json_get_str(job, "deadline");
	unsigned int unseen = json_get_small(job, "unseen", INT32_MAX);
	unsigned int others = json_get_small(job, "others", INT32_MAX);

	if (!json_is_object(job))
		return;
	strbuf_addf(&b, "%s %s", text_of(job, "engine", "?"), text_of(job, "id", "?"));
	if (end && strlen(end) > 16)
		strbuf_addf(&b, ", which ends at %.10s %.5s", end, end + 11);
	if (unseen)
		strbuf_addf(&b, "; %u of its GPUs %s not visible here", unseen,
			    unseen == 1 ? "is" : "are");
	if (others)
		strbuf_addf(&b, "; %u GPU%s of this node %s not its own", others,
			    others == 1 ? "" : "s", others == 1 ? "is" : "are");
	print_item(out, "job     ", strbuf_str(&b));
}

/* "serve   http://127.0.0.1:8470/ ..": what it tells of itself, or what keeps it from its work. */
static void print_helper(const json_t *h, FILE *out)
{
	const char *name = text_of(h, "name", "?"), *text = text_of(h, "text", NULL);
	const char *trouble = text_of(h, "trouble", NULL);
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	char head[CELL], time[CELL];

	if (!trouble && !text)
		return;
	strbuf_addf(&b, "%s%s%s", text ? text : "", text && trouble ? "\n" : "",
		    trouble ? trouble : "");
	if (json_is_number(json_object_get(h, "again_s")))
		strbuf_addf(&b, "; it is started again in %s", seconds(h, "again_s", time));
	if (str_has_prefix(name, HELPER_PREFIX))
		name += strlen(HELPER_PREFIX);
	print_item(out, str_print(head, sizeof(head), "%-7s ", name), strbuf_str(&b));
}

static void print_helpers(const json_t *helpers, FILE *out)
{
	size_t i;
	json_t *h;

	json_array_foreach(helpers, i, h)
	{
		print_helper(h, out);
	}
}

static void print_title(const json_t *doc, FILE *out)
{
	const char *phase = text_of(doc, "phase", "?");
	char head[TITLE_MAX];
	int fd = fileno(out);

	(void)str_print(head, sizeof(head), "tenure %s on %s: ", text_of(doc, "instance", "?"),
			text_of(doc, "host", "?"));
	fprintf(out, "%s%s%s%s: ", head, term_on(fd, TERM_BOLD), phase, term_off(fd));

	size_t column = strlen(head) + strlen(phase) + strlen(": ");

	if (column > term_columns(fd) / 2) {
		column = strlen(GUARD);
		fprintf(out, "\n%*s", (int)column, "");
	}
	term_print_wrapped(out, text_of(doc, "sentence", ""), column);
}

/* "asks    1: bob asks for GPU 3 (task 42 train): .." */
static void print_asks(const json_t *asks, FILE *out)
{
	size_t i;
	json_t *a;

	json_array_foreach(asks, i, a)
	{
		unsigned long long id = json_get_u64(a, "ask");
		cleanup_free char *asks_for = agent_ask_text(a);
		cleanup_strbuf struct strbuf b = STRBUF_INIT;

		strbuf_addf(&b, "%llu: %s\n", id, asks_for);
		if (json_get_u64(a, "task"))
			strbuf_addf(&b, "tenure answer %llu yes requeues it, ", id);
		strbuf_addf(&b, "tenure answer %llu no refuses", id);
		print_item(out, "ask     ", strbuf_str(&b));
	}
}

void status_text_print(json_t *doc, FILE *out)
{
	const json_t *agent = json_object_get(doc, "agent");
	const json_t *devices = json_object_get(doc, "devices");

	print_title(doc, out);
	print_item(out, "policy  ", text_of(doc, "policy", ""));
	print_agent(agent, out);
	print_job(json_object_get(doc, "job"), out);
	print_guard(json_object_get(doc, "guard"), out);
	print_queue(json_object_get(doc, "queue"), agent, out);
	print_helpers(json_object_get(doc, "helpers"), out);
	print_asks(json_object_get(doc, "asks"), out);
	if (json_array_size(devices)) {
		fputc('\n', out);
		print_devices(devices, out);
		print_reasons(devices, text_of(doc, "instance", ""), out);
	}
	print_yields(json_object_get(doc, "yields"), out);
	print_log(doc, out);
}

static int show(void *user, struct err *e)
{
	const struct cmd_ctx *ctx = user;
	json_t *doc = NULL;
	int code = agent_ask(ctx, AGENT_VERB(CTL_STATUS), STATUS_LIMIT_MS, &doc, NULL, e);

	if (code != CMD_OK)
		return code;
	if (!opts_flag(ctx->opts, "json"))
		status_text_print(doc, stdout);
	else if (screen_is_asked(ctx))
		cmd_print_json_line(json_incref(doc));
	else
		cmd_print_json(json_incref(doc));
	json_decref(doc);
	return CMD_OK;
}

static int run_status(const struct cmd_ctx *ctx, struct err *e)
{
	struct cmd_ctx own = *ctx;

	return screen_is_asked(ctx) ? screen_watch(ctx, show, &own, e) : show(&own, e);
}

static const struct opt status_opts[] = {
	SCREEN_OPTS,
	{ 0 },
};

static const struct cmd_example status_examples[] = {
	{ "tenure status", "what is held, what is not and why, the last yields" },
	{ "tenure status --json", "the same for programs" },
	{ "tenure status -w", "again and again, every 2 s" },
	{ "tenure status || tenure on", "start it where it does not run: exit code 3" },
	{ 0 },
};

const struct cmd cmd_status = {
	.name = "status",
	.group = "Holding GPUs",
	.summary = "what the agent of this node does: devices, reasons, yields, log",
	.description =
		"Each device with its state and the reason for it, how long it has been in it, "
		"the memory held, what the GPU reports, then the last yields with their "
		"latencies and the end of the log. Exit code 3 when no agent runs; with --watch "
		"one is waited for.",
	.examples = status_examples,
	.opts = status_opts,
	.flags = CMD_JSON,
	.setting_groups = SETTING_GROUP_AGENT,
	.run = run_status,
};
