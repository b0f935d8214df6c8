/* SPDX-License-Identifier: MIT */

/*
 * `tenure sim ctl VERB ...`: change the machine while programs run on it. Each verb is a row of the
 * command table; those that set one field from a list of words are a row of `choices` besides.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/table.h"
#include "cmd_sim.h"
#include "gpu/cuda_abi.h"
#include "gpu/nvml_abi.h"
#include "machine.h"

static const struct opt ctl_opts[] = {
	{ .name = "machine",
	  .words = WORDS_DIRS,
	  .spec = { VALUE_STRING },
	  .arg = "DIR",
	  .help = "directory of the machine (default: the one this shell runs on)" },
	{ .name = "json", .spec = { VALUE_FLAG }, .help = "print JSON" },
	{ 0 },
};

static int machine_of(const struct cmd_ctx *ctx, struct sim_machine **ret, struct err *e)
{
	const char *dir = opts_text(ctx->opts, "machine");
	const char *env = getenv("TENURE_SIM");
	cleanup_free char *path = NULL;
	int r;

	if (!dir && !(env && *env))
		return err_set(e, -ENOENT,
			       "there is no simulated machine here; start one with \"tenure sim "
			       "--gpus 2 -- CMD\" or give its directory with --machine");
	path = dir ? xasprintf("%s/" SIM_FILE_NAME, dir) : xstrdup(env);
	r = sim_map(path, ret);
	if (r == -EPROTO)
		return err_set(e, r, "%s is not a machine of this version of tenure", path);
	return r < 0 ? err_sys(e, -r, "cannot open the machine %s", path) : 0;
}

/* A device by number or by the beginning of its UUID. Returns the number. */
static int device_of(const struct sim_machine *m, const char *text, struct err *e)
{
	uint64_t n;
	int found = -1;

	if (str_to_u64(text, &n) == 0) {
		if (n < (uint64_t)m->ndevs)
			return (int)n;
		return err_set(e, -EINVAL, "there is no device %s; the machine has 0 to %d", text,
			       m->ndevs - 1);
	}
	for (int i = 0; i < m->ndevs; i++) {
		if (!str_has_prefix(m->devs[i].uuid, text))
			continue;
		if (found >= 0)
			return err_set(e, -EINVAL, "%s is the beginning of several UUIDs", text);
		found = i;
	}
	return found >= 0 ? found
			  : err_set(e, -EINVAL,
				    "no device is called %s; \"tenure sim ctl show\" lists them",
				    text);
}

struct choice {
	const char *word;
	unsigned int value;
};

static int choose(const struct choice *choices, const char *what, const char *word,
		  unsigned int *ret, struct err *e)
{
	char list[200] = "";
	size_t len = 0;

	for (; choices->word; choices++) {
		if (strcmp(choices->word, word) == 0) {
			*ret = choices->value;
			return 0;
		}
		(void)str_print(list + len, sizeof(list) - len, "%s%s", len ? ", " : "",
				choices->word);
		len = strlen(list);
	}
	return err_set(e, -EINVAL, "%s cannot be \"%s\": it is one of %s", what, word, list);
}

static int number(const char *text, const char *what, uint64_t max, uint64_t *ret, struct err *e)
{
	if (str_to_u64(text, ret) < 0 || *ret > max)
		return err_set(e, -EINVAL, "%s is a number from 0 to %llu, not \"%s\"", what,
			       (unsigned long long)max, text);
	return 0;
}

static int lock(struct sim_machine *m, struct err *e)
{
	int r = sim_lock(m);

	return r < 0 ? err_sys(e, -r, "cannot lock the machine") : 0;
}

static const struct choice on_off[] = { { "on", 1 }, { "off", 0 }, { 0 } };
static const struct choice nvml_states[] = { { "back", SIM_NVML_OK },
					     { "lost", SIM_NVML_LOST },
					     { 0 } };
static const struct choice hiding[] = { { "on", SIM_PIDS_OWN }, { "off", SIM_PIDS_SAME }, { 0 } };
static const struct choice pid_modes[] = { { "same", SIM_PIDS_SAME },
					   { "host", SIM_PIDS_HOST },
					   { "own", SIM_PIDS_OWN },
					   { "none", SIM_PIDS_NONE },
					   { 0 } };
static const struct choice layouts[] = { { "16", 16 }, { "24", 24 }, { "32", 32 }, { 0 } };
static const struct choice compute_modes[] = { { "default", NVML_COMPUTEMODE_DEFAULT },
					       { "exclusive", NVML_COMPUTEMODE_EXCLUSIVE_PROCESS },
					       { "prohibited", NVML_COMPUTEMODE_PROHIBITED },
					       { 0 } };

/* The verbs that set one field of the machine to one of a few words. */
static int run_machine_choice(const struct cmd_ctx *ctx, struct err *e)
{
	static const struct {
		const char *verb;
		const struct choice *choices;
		size_t offset;
	} rows[] = {
		{ "nvml", nvml_states, offsetof(struct sim_machine, nvml) },
		{ "hide-pids", hiding, offsetof(struct sim_machine, pid_mode) },
		{ "pid-mode", pid_modes, offsetof(struct sim_machine, pid_mode) },
		{ "layout", layouts, offsetof(struct sim_machine, proc_layout) },
	};
	struct sim_machine *m;
	uint32_t value;
	int r = machine_of(ctx, &m, e);

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(rows); i++) {
		if (strcmp(rows[i].verb, ctx->cmd->name) != 0)
			continue;
		r = choose(rows[i].choices, rows[i].verb, opts_arg(ctx->opts, 0), &value, e);
		if (r == 0)
			r = lock(m, e);
		if (r < 0)
			return r;
		memcpy((char *)m + rows[i].offset, &value, sizeof(value));
		sim_unlock(m);
	}
	return r;
}

/* The machine, the device of the first argument; the machine is locked when it returns >= 0. */
static int locked_device(const struct cmd_ctx *ctx, struct sim_machine **ret, struct err *e)
{
	int dev, r = machine_of(ctx, ret, e);

	if (r < 0)
		return r;
	dev = device_of(*ret, opts_arg(ctx->opts, 0), e);
	if (dev < 0)
		return dev;
	r = lock(*ret, e);
	return r < 0 ? r : dev;
}

static int parse_xid(const char *text, uint64_t *ret, struct err *e)
{
	return number(text, "an XID", 1000, ret, e);
}

static void set_mode(struct sim_machine *m, int dev, uint64_t value)
{
	m->devs[dev].compute_mode = (uint32_t)value;
}

static void set_display(struct sim_machine *m, int dev, uint64_t value)
{
	m->devs[dev].display = value;
}

static void set_lost(struct sim_machine *m, int dev, uint64_t value)
{
	m->devs[dev].lost = value;
}

static void set_foreign(struct sim_machine *m, int dev, uint64_t value)
{
	m->devs[dev].mem_foreign = value;
}

static void add_xid(struct sim_machine *m, int dev, uint64_t value)
{
	sim_xid_add(m, dev, (uint32_t)value);
}

/* Verbs that do one thing to a device, with one of a few words, a number, or the row's value. */
static int run_device(const struct cmd_ctx *ctx, struct err *e)
{
	static const struct {
		const char *verb;
		void (*apply)(struct sim_machine *m, int dev, uint64_t value);
		const struct choice *choices;
		int (*parse)(const char *text, uint64_t *ret, struct err *e);
		uint64_t value;
	} rows[] = {
		{ "compute-mode", set_mode, .choices = compute_modes },
		{ "display", set_display, .choices = on_off },
		{ "foreign-memory", set_foreign, .parse = unit_parse_size },
		{ "xid", add_xid, .parse = parse_xid },
		{ "lose", set_lost, .value = true },
		{ "restore", set_lost, .value = false },
	}, *row = rows;
	const char *text = opts_arg(ctx->opts, 1);
	struct sim_machine *m;
	unsigned int word = 0;
	uint64_t value = 0;
	int r = 0;

	while (strcmp(row->verb, ctx->cmd->name) != 0)
		row++;
	if (row->choices)
		r = choose(row->choices, row->verb, text, &word, e);
	else if (row->parse)
		r = row->parse(text, &value, e);
	if (r == 0)
		r = locked_device(ctx, &m, e);
	if (r < 0)
		return r;
	row->apply(m, r, value + word + row->value);
	sim_unlock(m);
	return 0;
}

/* What can be wrong with a card, or counted there. */
static const struct {
	const char *name;
	size_t offset;
	uint64_t max;
} health_figures[] = {
#define FIGURE(name, member, max)                                                                  \
	{                                                                                          \
		name, offsetof(struct sim_health, member), max                                     \
	}
	FIGURE("heat", heat_c, 60),
	FIGURE("ecc-corrected", ecc_corrected, UINT32_MAX),
	FIGURE("ecc-uncorrected", ecc_uncorrected, UINT32_MAX),
	FIGURE("ecc-corrected-ever", ecc_corrected_ever, UINT32_MAX),
	FIGURE("ecc-uncorrected-ever", ecc_uncorrected_ever, UINT32_MAX),
	FIGURE("rows-corrected", rows_corrected, UINT32_MAX),
	FIGURE("rows-uncorrected", rows_uncorrected, UINT32_MAX),
	FIGURE("rows-pending", rows_pending, 1),
	FIGURE("rows-failed", rows_failed, 1),
	FIGURE("pcie-replays", pcie_replays, UINT32_MAX),
	FIGURE("pcie-lanes-lost", pcie_lanes_lost, 15),
	FIGURE("pcie-rests", pcie_rests, 2),
	FIGURE("recovery-action", recovery, 99),
	FIGURE("fabric", fabric, 3),
	FIGURE("links-down", links_down, (1U << SIM_LINK_MAX) - 1),
	FIGURE("link-replays", link_replays, UINT32_MAX),
	FIGURE("link-recoveries", link_recoveries, UINT32_MAX),
	FIGURE("link-crc-flit", link_crc_flit, UINT32_MAX),
	FIGURE("link-crc-data", link_crc_data, UINT32_MAX),
	FIGURE("wrong-results", wrong_results, UINT32_MAX),
	FIGURE("nan-results", nan_results, UINT32_MAX),
	FIGURE("inf-results", inf_results, UINT32_MAX),
	FIGURE("wrong-words", wrong_words, UINT32_MAX),
	FIGURE("wrong-reference", wrong_reference, 1),
	FIGURE("slowness", slowness, 99),
	FIGURE("wrong-copies-in", copies_in_wrong, 1024),
	FIGURE("wrong-copies-out", copies_out_wrong, 1024),
	FIGURE("pcie-slowness", pcie_slowness, 99),
	FIGURE("wrong-copies-peer", copies_peer_wrong, 1024),
	FIGURE("link-slowness", link_slowness, 99),
};

static int run_health(const struct cmd_ctx *ctx, struct err *e)
{
	const char *name = opts_arg(ctx->opts, 1);
	char names[600] = "";
	struct sim_machine *m;
	uint64_t value;
	uint32_t set;
	int r;

	for (size_t i = 0; i < ARRAY_LEN(health_figures); i++) {
		size_t len = strlen(names);

		(void)str_print(names + len, sizeof(names) - len, "%s%s", len ? ", " : "",
				health_figures[i].name);
		if (strcmp(health_figures[i].name, name) != 0)
			continue;
		r = number(opts_arg(ctx->opts, 2), name, health_figures[i].max, &value, e);
		if (r == 0)
			r = locked_device(ctx, &m, e);
		if (r < 0)
			return r;
		set = (uint32_t)value;
		memcpy((char *)&m->devs[r].health + health_figures[i].offset, &set, sizeof(set));
		sim_unlock(m);
		return 0;
	}
	return err_set(e, -EINVAL, "a card has no figure \"%s\": it is one of %s", name, names);
}

static int run_lock(const struct cmd_ctx *ctx, struct err *e)
{
	const char *ms = opts_arg(ctx->opts, 1);
	struct sim_machine *m;
	uint64_t value;
	int r = machine_of(ctx, &m, e);

	if (r == 0 && strcmp(opts_arg(ctx->opts, 0), "slow") != 0)
		r = err_set(e, -EINVAL, "lock knows one thing: \"lock slow MS\"");
	if (r == 0)
		r = number(ms, "lock slow: milliseconds", 60000, &value, e);
	if (r == 0)
		m->timing[SIM_T_LOCK_SLOW] = value * 1000000;
	return r;
}

static int run_speed(const struct cmd_ctx *ctx, struct err *e)
{
	struct sim_machine *m;
	double scale;
	int r = machine_of(ctx, &m, e);

	if (r == 0)
		r = sim_parse_speed(opts_arg(ctx->opts, 0), &scale, e);
	if (r == 0)
		m->scale = scale;
	return r;
}

static int run_timing(const struct cmd_ctx *ctx, struct err *e)
{
	static const struct table_column columns[] = { { "NAME" },   { "VALUE", true }, { "UNIT" },
						       { "SCALED" }, { "SOURCE" },	{ 0 } };
	const char *name = opts_arg(ctx->opts, 0);
	struct sim_machine *m;
	struct table *t;
	uint64_t value;
	char text[32];
	int r = machine_of(ctx, &m, e);

	if (r < 0)
		return r;
	if (name && opts_argc(ctx->opts) == 1)
		return err_set(e, -EINVAL, "timing NAME VALUE, or timing alone for the list");
	for (int i = 0; name && i < SIM_T_MAX; i++) {
		if (strcmp(sim_timings[i].name, name) != 0)
			continue;
		r = number(opts_arg(ctx->opts, 1), name, 1ULL << 40, &value, e);
		if (r == 0)
			m->timing[i] = value;
		return r;
	}
	if (name)
		return err_set(e, -EINVAL, "there is no timing \"%s\"; timing alone lists them",
			       name);
	t = table_new(columns);
	for (int i = 0; i < SIM_T_MAX; i++)
		table_add(t, TABLE_PLAIN, sim_timings[i].name,
			  str_print(text, sizeof(text), "%llu", (unsigned long long)m->timing[i]),
			  sim_timings[i].unit, sim_timings[i].scaled ? "yes" : "no",
			  sim_timings[i].source);
	table_print(t, stdout);
	(void)table_free(t);
	return 0;
}

/* Names and numbers of both libraries' errors. */
static const struct {
	const char *name;
	int value;
} errors[] = {
#define ERROR_ROW(name, value, text) { #name, value },
	NVML_RETURN_LIST(ERROR_ROW) CUDA_RESULT_LIST(ERROR_ROW)
};

static int error_of(const char *text, int *ret, struct err *e)
{
	uint64_t n;

	for (size_t i = 0; i < ARRAY_LEN(errors); i++) {
		if (strcmp(errors[i].name, text) == 0) {
			*ret = errors[i].value;
			return 0;
		}
	}
	if (str_to_u64(text, &n) == 0 && n > 0 && n <= 999) {
		*ret = (int)n;
		return 0;
	}
	return err_set(e, -EINVAL,
		       "there is no error \"%s\"; it is a number or a name like "
		       "CUDA_ERROR_OUT_OF_MEMORY or NVML_ERROR_UNKNOWN",
		       text);
}

static int add_fault(struct sim_machine *m, const struct sim_fault *f, struct err *e)
{
	int r = lock(m, e);

	if (r < 0)
		return r;
	for (int i = 0; i < SIM_FAULT_MAX; i++) {
		if (m->faults[i].function[0])
			continue;
		m->faults[i] = *f;
		m->nfaults++;
		sim_unlock(m);
		return 0;
	}
	sim_unlock(m);
	return err_set(e, -ENOSPC, "the machine has %d faults already; \"clear\" removes them",
		       SIM_FAULT_MAX);
}

static int fault_function(struct sim_fault *f, const char *name, struct err *e)
{
	if (!str_has_prefix(name, "cu") && !str_has_prefix(name, "nvml"))
		return err_set(e, -EINVAL,
			       "\"%s\" is no function of CUDA (cu...) or NVML (nvml...)", name);
	if (!str_copy(f->function, sizeof(f->function), name))
		return err_set(e, -EINVAL, "\"%s\" is too long", name);
	return 0;
}

static int run_fail(const struct cmd_ctx *ctx, struct err *e)
{
	const char *error = opts_arg(ctx->opts, 2), *when = opts_arg(ctx->opts, 1);
	struct sim_fault f = { .after = -1, .error = 999 };
	struct sim_machine *m;
	uint64_t n = 0;
	int value = 999, r = machine_of(ctx, &m, e);

	if (r == 0)
		r = fault_function(&f, opts_arg(ctx->opts, 0), e);
	if (r == 0 && strcmp(when, "all") != 0) {
		r = number(when, "fail FUNCTION N: which call fails (or \"all\")", 1000000, &n, e);
		if (r == 0 && n == 0)
			r = err_set(e, -EINVAL, "calls are counted from 1");
		f.after = (int64_t)n;
	}
	if (r == 0 && error)
		r = error_of(error, &value, e);
	f.error = value;
	return r == 0 ? add_fault(m, &f, e) : r;
}

static int run_hang(const struct cmd_ctx *ctx, struct err *e)
{
	struct sim_fault f = { .hang = true };
	struct sim_machine *m;
	int r = machine_of(ctx, &m, e);

	if (r == 0)
		r = fault_function(&f, opts_arg(ctx->opts, 0), e);
	return r == 0 ? add_fault(m, &f, e) : r;
}

/* unhang [FUNCTION]: the hanging ones; clear: all faults. */
static int run_clear(const struct cmd_ctx *ctx, struct err *e)
{
	const char *name = opts_arg(ctx->opts, 0);
	bool all = strcmp(ctx->cmd->name, "clear") == 0;
	struct sim_machine *m;
	int r = machine_of(ctx, &m, e);

	if (r == 0)
		r = lock(m, e);
	if (r < 0)
		return r;
	for (int i = 0; i < SIM_FAULT_MAX; i++) {
		struct sim_fault *f = &m->faults[i];

		if (!f->function[0] || (!all && !f->hang) ||
		    (name && strcmp(f->function, name) != 0))
			continue;
		memset(f, 0, sizeof(*f));
		m->nfaults--;
	}
	sim_unlock(m);
	return 0;
}

static const char *compute_mode_word(unsigned int mode)
{
	for (const struct choice *c = compute_modes; c->word; c++) {
		if (c->value == mode)
			return c->word;
	}
	return "?";
}

static json_t *processes_json(const struct sim_machine *m, int dev)
{
	json_t *list = json_array();

	for (int i = 0; i < SIM_PROC_MAX; i++) {
		const struct sim_proc *p = &m->procs[i];
		uint64_t bytes = p->pid ? sim_proc_bytes(m, p, dev) : 0;

		if (bytes)
			(void)json_array_append_new(list, json_pack("{s:i, s:I, s:b}", "pid",
								    (int)sim_proc_pid(m, p),
								    "bytes", (json_int_t)bytes,
								    "neighbour", p->neighbour));
	}
	return list;
}

static json_t *device_json(struct sim_machine *m, int dev)
{
	const struct sim_dev *d = &m->devs[dev];
	uint64_t now = sim_now_ns(), window = m->timing[SIM_T_UTIL_WINDOW];

	return json_pack(
		"{s:i, s:s, s:s, s:i, s:I, s:I, s:I, s:I, s:i, s:i, s:s, s:b, s:b, s:b, s:o}",
		"index", dev, "uuid", d->uuid, "name", d->name, "parent", d->parent, "total_bytes",
		(json_int_t)d->mem_total, "used_bytes", (json_int_t)sim_mem_used(m, dev),
		"free_bytes", (json_int_t)sim_mem_free(m, dev), "foreign_bytes",
		(json_int_t)d->mem_foreign, "util_percent",
		(int)(sim_busy_ns(m, dev, now - window, now, 0) * 100 / window), "power_mw",
		(int)sim_power_mw(m, dev), "compute_mode", compute_mode_word(d->compute_mode),
		"mig", d->mig, "display", d->display, "lost", d->lost, "processes",
		processes_json(m, dev));
}

static void show_table(json_t *devices)
{
	static const struct table_column columns[] = {
		{ "DEV", true },   { "NAME" },	     { "USED GiB", true },
		{ "TOTAL", true }, { "UTIL", true }, { "POWER W", true },
		{ "PROCESSES" },   { "UUID" },	     { 0 }
	};
	struct table *t = table_new(columns);
	char cell[5][32], pids[200];
	json_t *d, *p;
	size_t i, k;

	json_array_foreach(devices, i, d)
	{
		pids[0] = '\0';
		json_array_foreach(json_object_get(d, "processes"), k, p)(void) str_print(
			pids + strlen(pids), sizeof(pids) - strlen(pids), "%s%lld", k ? " " : "",
			(long long)json_integer_value(json_object_get(p, "pid")));
		(void)str_print(cell[0], 32, "%zu", i);
		(void)str_print(cell[1], 32, "%.1f",
				(double)json_integer_value(json_object_get(d, "used_bytes")) /
					(double)GIB);
		(void)str_print(cell[2], 32, "%.1f",
				(double)json_integer_value(json_object_get(d, "total_bytes")) /
					(double)GIB);
		(void)str_print(cell[3], 32, "%lld%%",
				(long long)json_integer_value(json_object_get(d, "util_percent")));
		(void)str_print(cell[4], 32, "%.0f",
				(double)json_integer_value(json_object_get(d, "power_mw")) / 1000);
		table_add(t, TABLE_PLAIN, cell[0], json_string_value(json_object_get(d, "name")),
			  cell[1], cell[2], cell[3], cell[4], pids[0] ? pids : NULL,
			  json_string_value(json_object_get(d, "uuid")));
	}
	table_print(t, stdout);
	(void)table_free(t);
}

static int run_show(const struct cmd_ctx *ctx, struct err *e)
{
	json_t *devices, *all;
	struct sim_machine *m;
	int r = machine_of(ctx, &m, e);

	if (r == 0)
		r = lock(m, e);
	if (r < 0)
		return r;
	sim_reap(m, true);
	devices = json_array();
	for (int dev = 0; dev < m->ndevs; dev++)
		(void)json_array_append_new(devices, device_json(m, dev));
	sim_unlock(m);
	if (opts_flag(ctx->opts, "json")) {
		all = json_pack("{s:s, s:s, s:f, s:O}", "dir", m->dir, "nodes", m->nodes, "speed",
				m->scale, "devices", devices);
		cmd_print_json(all);
	} else {
		show_table(devices);
	}
	json_decref(devices);
	return 0;
}

/* X(identifier, name, args, least, most, function, summary) */
#define VERBS(X)                                                                                   \
	X(show, "show", NULL, 0, 0, run_show, "list devices and processes")                        \
	X(foreign, "foreign-memory", "DEV SIZE", 2, 2, run_device,                                 \
	  "memory in use by nobody who can be seen")                                               \
	X(xid, "xid", "DEV N", 2, 2, run_device, "report the XID N")                               \
	X(nvml, "nvml", "lost|back", 1, 1, run_machine_choice, "every NVML call fails, or works")  \
	X(hide, "hide-pids", "on|off", 1, 1, run_machine_choice,                                   \
	  "processes started with TENURE_SIM_NEIGHBOUR=1 are missing from the lists")              \
	X(pids, "pid-mode", "same|host|own|none", 1, 1, run_machine_choice,                        \
	  "which PIDs the lists show")                                                             \
	X(mode, "compute-mode", "DEV default|exclusive|prohibited", 2, 2, run_device,              \
	  "who may have contexts")                                                                 \
	X(health, "health", "DEV FIGURE N", 3, 3, run_health,                                      \
	  "heat, errors of memory, NVLink, PCIe: what is wrong with it, or counted")               \
	X(lock, "lock", "slow MS", 2, 2, run_lock, "every driver call keeps the lock so long")     \
	X(layout, "layout", "16|24|32", 1, 1, run_machine_choice,                                  \
	  "bytes of an entry that the _v3 process lists write")                                    \
	X(fail, "fail", "FUNCTION N|all [ERROR]", 2, 3, run_fail,                                  \
	  "the N-th call from now fails, or every one")                                            \
	X(hang, "hang", "FUNCTION", 1, 1, run_hang, "calls do not return")                         \
	X(unhang, "unhang", "[FUNCTION]", 0, 1, run_clear, "they return")                          \
	X(clear, "clear", "[FUNCTION]", 0, 1, run_clear, "remove all faults")                      \
	X(display, "display", "DEV on|off", 2, 2, run_device, "a screen is attached")              \
	X(lose, "lose", "DEV", 1, 1, run_device, "the card falls off the bus")                     \
	X(restore, "restore", "DEV", 1, 1, run_device, "it comes back")                            \
	X(timing, "timing", "[NAME VALUE]", 0, 2, run_timing, "list or set the timing figures")    \
	X(speed, "speed", "X", 1, 1, run_speed, "time scale: 0 at once, 1 as measured")

#define VERB_ROW(id, verb, arguments, least, most, function, text)                                 \
	static const struct cmd ctl_##id = {                                                       \
		.name = verb,                                                                      \
		.summary = text,                                                                   \
		.args = arguments,                                                                 \
		.min_args = least,                                                                 \
		.max_args = most,                                                                  \
		.opts = ctl_opts,                                                                  \
		.flags = CMD_NO_SETTINGS,                                                          \
		.run = function,                                                                   \
	};
VERBS(VERB_ROW)

#define VERB_POINTER(id, verb, arguments, least, most, function, text) &ctl_##id,
static const struct cmd *const verbs[] = { VERBS(VERB_POINTER) NULL };

static const struct cmd_example examples[] = {
	{ "tenure sim ctl foreign-memory 0 10G", "10 GiB of device 0 are used by nobody visible" },
	{ "tenure sim ctl fail cuMemAlloc 3 CUDA_ERROR_OUT_OF_MEMORY",
	  "the third call from now fails" },
	{ "tenure sim ctl show --machine /tmp/tenure-sim-x", "from outside the machine" },
	{ 0 },
};

const struct cmd cmd_sim_ctl = {
	.name = "ctl",
	.summary = "change the simulated machine while it runs",
	.description = "DEV is a device's number in \"ctl show\" or the beginning of its UUID.",
	.examples = examples,
	.flags = CMD_NO_SETTINGS,
	.subs = verbs,
};
