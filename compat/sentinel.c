/* SPDX-License-Identifier: MIT */

/*
 * `gpu-sentinel`: what gpu_sentinel.py did, with tenure below. In the foreground, one line per
 * event in the words of the original; GPUs are numbered as CUDA numbers them here.
 *
 * Exit codes: 0 ended by a signal; 1 it could not begin, or broke down; 2 usage.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/fs.h"
#include "base/hash.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/opts.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "compat/about.h"
#include "compat/hold_child.h"
#include "compat/visible.h"

#define CHUNK_BYTES   (512ULL * MIB) /* the original's; tenure itself takes a few large pieces */
#define INSTANCE      "sentinel"
#define ARGS_MAX      24
#define TICK_MS	      1000
#define FIRST_TICK_MS 300

enum exit_code { EXIT_OK, EXIT_FAILED, EXIT_USAGE };

/* All but the last are options of tenure hold by the same name. */
static const struct opt rows[] = {
	{ .name = "memory",
	  .short_name = 'm',
	  .spec = { VALUE_MEM },
	  .arg = "AMOUNT",
	  .def = "88%",
	  .help = "memory to allocate on each GPU: a share of what is free, a size, or all-SIZE" },
	{ .name = "load",
	  .spec = { VALUE_STRING },
	  .arg = "KIND",
	  .def = "light",
	  .help = "what the stressor computes: none | light | sm | gemm" },
	{ .name = "refresh",
	  .spec = { VALUE_DURATION },
	  .arg = "DURATION",
	  .def = "1s",
	  .help = "how often to look whether a GPU is free; that one is wanted is seen at once" },
	{ .name = "rehold-after",
	  .spec = { VALUE_DURATION },
	  .arg = "DURATION",
	  .def = "1s",
	  .help = "after a kill: how long the GPU must be free before the next launch" },
	{ .name = "idle-below",
	  .spec = { VALUE_SIZE },
	  .arg = "SIZE",
	  .def = "1G",
	  .help = "a GPU without processes is in use as well when this much of it is used" },
	{ .name = "help", .short_name = 'h', .spec = { VALUE_FLAG }, .help = "show this help" },
	{ 0 },
};

enum lamp { LAMP_UNKNOWN, LAMP_WAITS, LAMP_FREE, LAMP_IN_USE, LAMP_KILLED, LAMP_RUNS };

struct sentinel {
	struct visible visible;
	enum lamp lamps[VISIBLE_MAX];  /* what was said last of each GPU */
	bool launched[VISIBLE_MAX];    /* since it was last free of a stressor */
	unsigned int due[VISIBLE_MAX]; /* looks at which one that is free waited for nothing */
	struct hold_child *child;
	bool stopping;
};

static int fail(enum exit_code code, const char *text)
{
	(void)fprintf(stderr, "gpu-sentinel: %s\n", text);
	return (int)code;
}

static const struct about about = {
	.name = "gpu-sentinel",
	.summary = "run a stressor on every GPU that is free",
	.usages =
		(const struct about_row[]){
			{ "", "watch the visible GPUs, in the foreground" },
			{ 0 },
		},
	.description =
		"Runs a stressor on every visible GPU that is free: it allocates 88 % of the free memory "
		"and computes a little. When another process starts on a GPU, the stressor on that GPU "
		"goes, and it comes back when the GPU is free again. Ctrl-C ends it; all is free within "
		"a second. CUDA_VISIBLE_DEVICES says which GPUs are meant, and they are numbered as CUDA "
		"numbers them.\n"
		"\n"
		"This is tenure with the behaviour of gpu_sentinel.py, and it does better in one thing: "
		"it does not poll for other processes. What it holds is gone before the other process "
		"asks for memory, so that its first allocation succeeds.\n"
		"\n"
		"\"tenure status --instance sentinel\" tells more; where CUDA_VISIBLE_DEVICES is set the "
		"instance has a number of that choice behind its name, and \"tenure instances\" "
		"does not list it, because it has no queue.",
	.opts = rows,
	.examples =
		(const struct about_row[]){
			{ "gpu-sentinel", "all GPUs" },
			{ "CUDA_VISIBLE_DEVICES=2,3 gpu-sentinel --memory all-4G --load none",
			  "two of them, all of their memory but 4 GiB, and no load" },
			{ 0 },
		},
	.variables =
		(const struct about_row[]){
			{ "CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER",
			  "which GPUs are meant, and in which order" },
			{ 0 },
		},
	.exits =
		(const struct about_row[]){
			{ "0", "ended by SIGINT, SIGTERM or SIGHUP" },
			{ "1", "it could not begin, or broke down" },
			{ "2", "a mistake in what was typed" },
			{ 0 },
		},
	.see =
		(const struct about_row[]){
			{ "tenure-hold", "1" },
			{ "tenure.yaml", "5" },
			{ 0 },
		},
};

static void help(void)
{
	cleanup_free char *text = about_help(&about);

	(void)fputs(text, stdout);
}

/* -------- its lines -------- */

static void __attribute__((format(printf, 2, 3))) say(int gpu, const char *fmt, ...)
{
	va_list ap;

	if (gpu < 0)
		printf("[Supervisor] ");
	else
		printf("[GPU %d] ", gpu);
	va_start(ap, fmt);
	(void)vprintf(fmt, ap);
	va_end(ap);
	(void)putchar('\n');
	(void)fflush(stdout);
}

/* What tenure wants to hold there, which may be more than it has got so far. */
static uint64_t target_bytes(const struct sentinel *s, const char *uuid, uint64_t held)
{
	json_t *status = hold_child_status(s->child), *dev;
	uint64_t target = held;
	size_t i;

	json_array_foreach(json_object_get(status, "devices"), i, dev)
	{
		const char *other = json_get_str(dev, "uuid");

		if (other && strcmp(other, uuid) == 0)
			target = json_get_u64(dev, "target_bytes");
	}
	json_decref(status);
	return target > held ? target : held;
}

static void on_free(struct sentinel *s, int gpu)
{
	if (!s->launched[gpu])
		say(gpu, "Free. Launching stressor.");
	s->launched[gpu] = true;
	s->lamps[gpu] = LAMP_FREE;
}

static void on_held(struct sentinel *s, int gpu, const char *text, const json_t *event)
{
	const char *uuid = json_get_str(event, "uuid");
	uint64_t bytes = json_get_u64(event, "bytes");

	on_free(s, gpu);
	say(gpu, "Attempting to allocate %.2f GB", (double)target_bytes(s, uuid, bytes) / 1e9);
	say(gpu, "Allocated %.2f GB in %" PRIu64 " chunks", (double)bytes / 1e9,
	    (uint64_t)((bytes + CHUNK_BYTES - 1) / CHUNK_BYTES));
	s->lamps[gpu] = LAMP_RUNS;
}

static void on_yield(struct sentinel *s, int gpu, const char *text, const json_t *event)
{
	say(gpu, "In use by other processes. Killing stressor.");
	say(gpu, "%s", text);
	s->launched[gpu] = false;
	s->lamps[gpu] = LAMP_KILLED;
}

/*
 * A GPU that is free may have to stay so for a while, or nothing is to run there. One that is due
 * has its start told; where there is still none at the second look, there is a reason.
 */
static void on_idle(struct sentinel *s, int gpu, const char *reason, const json_t *dev)
{
	double wait_s = json_get_num(dev, "hold_in_s");

	if (wait_s * 1e3 >= TICK_MS)
		say(gpu, "Free. Waiting %.0f s before launching a stressor.", ceil(wait_s));
	else if (wait_s == 0 && ++s->due[gpu] > 1)
		say(gpu, "Free. No stressor running%s%s.", reason[0] ? ": " : "", reason);
	else
		return;
	s->lamps[gpu] = LAMP_WAITS;
}

/* What another instance of the same user has would go to this one as soon as that one lets go. */
static void on_others(struct sentinel *s, int gpu, const char *instance)
{
	say(gpu, "Free. No stressor running: tenure's instance %s holds it.", instance);
	s->lamps[gpu] = LAMP_WAITS;
}

static void on_state(struct sentinel *s, int gpu, const char *text, const json_t *event)
{
	const char *state = json_get_str(event, "state");
	enum lamp lamp = s->lamps[gpu];

	if (s->stopping || !state)
		return;
	/* What becomes of one that is free the next look at the status tells, or its start. */
	if (strcmp(state, "idle") == 0) {
		s->lamps[gpu] = LAMP_UNKNOWN;
		s->due[gpu] = 0;
		hold_child_tick_in(s->child, FIRST_TICK_MS);
	} else if (lamp == LAMP_UNKNOWN || lamp == LAMP_FREE || lamp == LAMP_WAITS) {
		say(gpu, "In use. No stressor running.");
		s->lamps[gpu] = LAMP_IN_USE;
	}
}

static void on_starting(struct sentinel *s, int gpu, const char *text, const json_t *event)
{
	if (!s->stopping)
		on_free(s, gpu);
}

static bool all_told(const struct sentinel *s)
{
	for (uint32_t i = 0; i < s->visible.n; i++)
		if (s->lamps[i] == LAMP_UNKNOWN)
			return false;
	return true;
}

/* A GPU that is in use from the first look on has no event: nothing changed there. */
static void on_tick(void *user)
{
	struct sentinel *s = user;
	json_t *status = all_told(s) ? NULL : hold_child_status(s->child), *dev;
	const char *own = json_get_str(status, "instance");
	size_t i;

	hold_child_tick_in(s->child, TICK_MS);
	json_array_foreach(json_object_get(status, "devices"), i, dev)
	{
		int gpu = visible_find(&s->visible, json_get_str(dev, "uuid"));

		const char *state = json_get_str(dev, "state");
		const char *reason = json_get_str(dev, "reason");
		const char *instance = json_get_str(dev, "instance");
		bool held = state && (strcmp(state, "held") == 0 || strcmp(state, "holding") == 0);

		/* age_s: it has been looked at. */
		if (gpu < 0 || s->lamps[gpu] != LAMP_UNKNOWN || !state ||
		    !json_is_number(json_object_get(dev, "age_s")))
			continue;
		if (strcmp(state, "idle") == 0)
			on_idle(s, gpu, reason ? reason : "", dev);
		else if (strcmp(state, "busy") == 0 || strcmp(state, "left") == 0 ||
			 strcmp(state, "lent") == 0)
			on_state(s, gpu, "", dev);
		else if (held && instance && own && strcmp(instance, own) != 0)
			on_others(s, gpu, instance);
	}
	json_decref(status);
}

/* Anything that takes a stressor away without a newcomer, or does not let it begin. */
static void on_trouble(struct sentinel *s, int gpu, const char *text, const json_t *event)
{
	if (!s->stopping)
		say(gpu, "%s", text);
	s->launched[gpu] = false;
	s->lamps[gpu] = LAMP_UNKNOWN;
}

static void on_event(void *user, const char *kind, const char *text, const json_t *event)
{
	static const struct {
		const char *kind;
		void (*tell)(struct sentinel *s, int gpu, const char *text, const json_t *event);
	} kinds[] = {
		{ "held", on_held },	   { "yield", on_yield },   { "state", on_state },
		{ "release", on_trouble }, { "blind", on_trouble }, { "failed", on_trouble },
		{ "lost", on_trouble },	   { "back", on_trouble },  { "starting", on_starting },
	};
	struct sentinel *s = user;
	int gpu = visible_find(&s->visible, json_get_str(event, "uuid"));
	const char *what = strstr(text, "  "); /* "gpu 0  held ..." */

	if (strcmp(kind, "start") == 0) {
		say(-1, "Watching GPUs...");
		hold_child_tick_in(s->child, FIRST_TICK_MS);
	}
	for (size_t i = 0; gpu >= 0 && i < ARRAY_LEN(kinds); i++)
		if (strcmp(kind, kinds[i].kind) == 0)
			kinds[i].tell(s, gpu, what ? what + 2 : text, event);
}

static void on_line(void *user, const char *line)
{
	(void)fprintf(stderr, "%s\n", line);
}

static void on_stop(void *user)
{
	struct sentinel *s = user;

	s->stopping = true;
	say(-1, "Shutting down, releasing all GPUs.");
}

/* -------- which instance, which options -------- */

/*
 * Two sentinels with different GPUs run side by side, so each choice of GPUs is an instance: its
 * name is a hash (FNV-1a) of theirs. One without a choice is plain "sentinel".
 */
static char *instance_name(const struct visible *v)
{
	uint32_t hash = HASH_FNV32;

	if (!getenv("CUDA_VISIBLE_DEVICES"))
		return xstrdup(INSTANCE);
	for (uint32_t i = 0; i < v->n; i++)
		hash = hash_fnv32(hash, v->uuids[i]);
	return xasprintf(INSTANCE "-%08" PRIx32, hash);
}

static char *gpu_option(const struct visible *v)
{
	struct strbuf b = STRBUF_INIT;

	for (uint32_t i = 0; i < v->n; i++)
		strbuf_addf(&b, "%s%s", i ? "," : "--gpus=", v->uuids[i]);
	return strbuf_take(&b);
}

static int run(struct sentinel *s, const struct opts *o, struct err *e)
{
	static const struct hold_child_ops ops = {
		.event = on_event, .line = on_line, .tick = on_tick, .stop = on_stop
	};
	cleanup_free char *instance = instance_name(&s->visible);
	char *args[ARGS_MAX] = { gpu_option(&s->visible), xstrdup("--idle-for=0") };
	size_t n = 2;
	int code = EXIT_FAILED;

	for (const struct opt *row = rows; row->spec.type != VALUE_FLAG; row++) {
		const char *text = opts_text(o, row->name);

		/* What a site or the user has set counts, unless the original has its own. */
		if (!text && strcmp(row->name, "load") == 0)
			continue;
		args[n++] = xasprintf("--%s=%s", row->name, text ? text : row->def);
	}
	s->child = hold_child_new(instance, e);
	if (s->child)
		code = hold_child_run(s->child, args, &ops, s, e);
	if (code == 0)
		say(-1, "All GPUs are released.");
	(void)hold_child_free(s->child);
	while (n > 0)
		free(args[--n]);
	return code;
}

static int start(const struct opts *o)
{
	struct sentinel *s = xcalloc(1, sizeof(*s));
	const char *choice = getenv("CUDA_VISIBLE_DEVICES");
	struct err e = ERR_INIT;
	int code = visible_list(&s->visible, &e);

	if (code == 0)
		code = run(s, o, &e);
	if (code < 0 && choice)
		(void)fprintf(stderr, "gpu-sentinel: %s (CUDA_VISIBLE_DEVICES=%s)\n", e.text,
			      choice);
	else if (code < 0)
		(void)fail(EXIT_FAILED, e.text);
	free(s);
	return code == 0 ? EXIT_OK : code == EXIT_USAGE ? EXIT_USAGE : EXIT_FAILED;
}

static int run_command(int argc, char **argv)
{
	struct opts *o = opts_new();
	struct err e = ERR_INIT;
	int code = EXIT_OK;

	opts_add_rows(o, rows);
	if (opts_parse(o, argc, argv, OPTS_DEFAULT, &e) < 0)
		code = fail(EXIT_USAGE, e.text);
	else if (opts_flag(o, "help"))
		help();
	else if (opts_argc(o) > 0)
		code = fail(EXIT_USAGE, "it takes options only (see --help)");
	else
		code = start(o);
	(void)opts_free(o);
	return code;
}

int main(int argc, char **argv)
{
	struct err e = ERR_INIT;
	int code = about_prints(&about, argc, argv) ? EXIT_OK : run_command(argc, argv);

	if (fs_close_stdout(&e) < 0 && code == EXIT_OK) {
		(void)fprintf(stderr, "gpu-sentinel: %s\n", e.text);
		return EXIT_FAILED;
	}
	return code;
}
