/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/node/quarantine.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/holding/device_history.h"
#include "cli/holding/node_devices.h"
#include "cli/machine.h"
#include "cli/table.h"
#include "gpu/card_sign.h"

#define CELL	    48
#define COMMAND_MIN 8

static const struct opt devices_opts[] = {
	{ .name = "json", .spec = { VALUE_FLAG }, .help = "print JSON" },
	{ .name = "verbose",
	  .short_name = 'v',
	  .spec = { VALUE_FLAG },
	  .help = "also clocks, energy, errors of memory and links, and what slows it down" },
	{ .name = "history",
	  .spec = { VALUE_FLAG },
	  .help = "what each was used for in the last 24 h, or DURATION, as the agent has seen it" },
	{ .name = "node",
	  .words = WORDS_NODES,
	  .spec = { VALUE_STRING },
	  .arg = "NODE",
	  .help = "those of another node that serves the queue, as it has told of them there" },
	{ .name = "uuids", .spec = { VALUE_FLAG }, .help = "print the UUIDs, which --gpus takes" },
	{ .name = "trust",
	  .words = WORDS_GPUS,
	  .spec = { VALUE_STRING },
	  .arg = "GPU",
	  .help = "end its quarantine: tasks come to it again (an index, a UUID, or all)" },
	{ 0 },
};

static const char *cell(char *buf, const struct gpu_look *l, uint32_t what, const char *format,
			double value)
{
	return l->valid & what ? str_print(buf, CELL, format, value) : "-";
}

static const char *label(const struct gpu_device *dev, char *buf)
{
	if (dev->mig >= 0)
		return str_print(buf, CELL, "%u/%d", (unsigned int)dev->index, (int)dev->mig);
	return str_print(buf, CELL, "%u", (unsigned int)dev->index);
}

static void add_row(struct table *t, const struct gpu_device *dev, const struct machine_device *d)
{
	const struct gpu_look *l = &d->look;
	char gpu[CELL], used[CELL], util[CELL], watts[CELL], temp[CELL];

	(void)str_print(used, CELL, "%.1f/%.1f", (double)l->used / (double)GIB,
			(double)l->total / (double)GIB);
	table_add(t, d->reason[0] ? TERM_YELLOW : TERM_GREEN, label(dev, gpu), dev->name,
		  l->valid & GPU_VALID_MEM ? used : "-",
		  cell(util, l, GPU_VALID_UTIL, "%.0f %%", l->util),
		  cell(watts, l, GPU_VALID_POWER, "%.0f", l->power_mw / 1e3),
		  cell(temp, l, GPU_VALID_TEMP, "%.0f C", l->temp_c), machine_state_name(d));
}

static void print_table(const struct machine *m)
{
	static const struct table_column columns[] = {
		{ "GPU", true },
		{ "NAME", .drop = 2 },
		{ "USED GiB", true },
		{ "UTIL", true, .drop = 1 },
		{ "WATTS", true, .drop = 3 },
		{ "TEMP", true, .drop = 4 },
		{ "STATE" },
		{ 0 },
	};
	struct table *t = table_new(columns);

	for (uint32_t i = 0; i < m->list.n; i++)
		add_row(t, &m->list.d[i], &m->devices[i]);
	for (uint32_t i = 0; i < m->list.n_failed; i++) {
		char gpu[CELL];

		table_add(t, TERM_YELLOW,
			  str_print(gpu, CELL, "%u", (unsigned int)m->list.failed[i].index), "-",
			  "-", "-", "-", "-", "unseen");
	}
	table_print(t, stdout);
	(void)table_free(t);
}

/* ---- how they are doing ---- */

/* "1980/1980", "-/1980". */
static char *pair(char *buf, const struct gpu_health *h, uint64_t know_a, uint64_t a,
		  uint64_t know_b, uint64_t b)
{
	char first[CELL], second[CELL];

	if (!(h->known & (know_a | know_b)))
		return str_print(buf, CELL, "-");
	(void)str_print(first, CELL, "%llu", (unsigned long long)a);
	(void)str_print(second, CELL, "%llu", (unsigned long long)b);
	return str_print(buf, CELL, "%s/%s", h->known & know_a ? first : "-",
			 h->known & know_b ? second : "-");
}

/* "5x16", of the link as it is now: a card that rests saves power there. */
static char *pcie_cell(char *buf, const struct gpu_health *h)
{
	if (!(h->known & HEALTH_PCIE_GEN) || !(h->known & HEALTH_PCIE_WIDTH))
		return str_print(buf, CELL, "-");
	return str_print(buf, CELL, "%ux%u", (unsigned int)h->pcie_gen,
			 (unsigned int)h->pcie_width);
}

/* What keeps it from running faster, but that nothing runs. */
static char *slowed_cell(char *buf, const struct gpu_health *h)
{
	const char *name;
	size_t len = 0;

	buf[0] = '\0';
	for (unsigned int i = 0; (name = health_throttle(h->throttle, i, NULL)); i++) {
		if (!strcmp(name, "idle"))
			continue;
		(void)str_print(buf + len, 2 * CELL - len, "%s%s", len ? ", " : "", name);
		len = strlen(buf);
	}
	return h->known & HEALTH_THROTTLE && len ? buf : str_print(buf, CELL, "-");
}

static void add_health_row(struct table *t, const struct gpu_device *dev,
			   const struct gpu_health *h)
{
	char gpu[CELL], sm[CELL], mem[CELL], ecc[CELL], rows[CELL], links[CELL], pcie[CELL];
	char energy[CELL], slowed[2 * CELL];
	uint64_t volatile_ecc = (uint64_t)HEALTH_ECC << ECC_VOLATILE_CORRECTED;
	uint64_t uncorrected = (uint64_t)HEALTH_ECC << ECC_VOLATILE_UNCORRECTED;
	struct card_signs signs;

	(void)str_print(energy, CELL, "%.2f", (double)h->energy_mj / 3.6e9);
	card_signs(NULL, h, CARD_ALL, &signs);
	table_add(t, signs.n ? TERM_YELLOW : TABLE_PLAIN, label(dev, gpu),
		  pair(sm, h, HEALTH_CLOCK_SM, h->clock_sm_mhz, HEALTH_CLOCK_SM_MAX,
		       h->clock_sm_max_mhz),
		  pair(mem, h, HEALTH_CLOCK_MEM, h->clock_mem_mhz, HEALTH_CLOCK_MEM_MAX,
		       h->clock_mem_max_mhz),
		  h->known & HEALTH_ENERGY ? energy : "-",
		  pair(ecc, h, volatile_ecc, h->ecc[ECC_VOLATILE_CORRECTED], uncorrected,
		       h->ecc[ECC_VOLATILE_UNCORRECTED]),
		  pair(rows, h, HEALTH_ROWS, h->rows_corrected, HEALTH_ROWS, h->rows_uncorrected),
		  pcie_cell(pcie, h),
		  h->links ? pair(links, h, HEALTH_LINKS, (uint64_t)__builtin_popcount(h->links_up),
				  HEALTH_LINKS, (uint64_t)__builtin_popcount(h->links))
			   : "-",
		  slowed_cell(slowed, h));
}

static void print_signs(const struct gpu_device *dev, const struct gpu_health *h)
{
	struct card_signs signs;

	card_signs(NULL, h, CARD_ALL, &signs);
	for (uint32_t i = 0; i < signs.n; i++) {
		cleanup_strbuf struct strbuf text = STRBUF_INIT;
		char gpu[CELL];
		int indent = printf("  gpu %s  ", label(dev, gpu));

		card_sign_text(&signs.s[i], "since the driver was loaded", &text);
		term_print_wrapped(stdout, strbuf_str(&text), (size_t)indent);
	}
}

static void print_health(const struct machine *m)
{
	static const struct table_column columns[] = {
		{ "GPU", true },
		{ "SM MHz", true },
		{ "MEM MHz", true, .drop = 3 },
		{ "kWh", true, .drop = 1 },
		{ "ECC", true },
		{ "ROWS", true },
		{ "PCIe", true, .drop = 2 },
		{ "NVLINK", true },
		{ "SLOWED BY" },
		{ 0 },
	};
	struct table *t = table_new(columns);

	for (uint32_t i = 0; i < m->list.n; i++)
		add_health_row(t, &m->list.d[i], &m->devices[i].health);
	printf("\n");
	table_print(t, stdout);
	(void)table_free(t);
	for (uint32_t i = 0; i < m->list.n; i++)
		print_signs(&m->list.d[i], &m->devices[i].health);
	printf("MHz: now/at most; ECC errors since the driver was loaded and rows of memory "
	       "remapped:\ncorrected/uncorrected; links of NVLink: up/all; energy since the driver "
	       "was loaded\n");
}

static void print_process(const struct gpu_proc *p)
{
	struct machine_process who;
	char size[UNIT_TEXT_MAX], head[128], tail[CELL * 2];

	machine_describe(p, &who);
	(void)str_print(head, sizeof(head), "         PID %d, %s, ", (int)p->pid, who.user);
	(void)str_print(tail, sizeof(tail), ", %s%s%s",
			p->used_known ? unit_format_gib(p->used_bytes, size) : "memory unknown",
			p->graphics ? ", graphics" : "", who.ours ? " (ours)" : "");

	size_t taken = strlen(head) + strlen(tail), width = term_columns(STDOUT_FILENO);
	size_t room = width > taken + COMMAND_MIN ? width - taken : COMMAND_MIN;

	/* What the terminal leaves for the command. */
	if (strlen(who.command) > room)
		(void)str_copy(who.command + room - 2, 3, "..");
	printf("%s%s%s\n", head, who.command, tail);
}

/* Only what the table has no place for. */
static void print_details(const struct gpu_device *dev, const struct machine_device *d, bool uuids)
{
	const struct gpu_look *l = &d->look;
	char gpu[CELL];
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	if (uuids)
		strbuf_adds(&b, dev->uuid);
	if (l->valid & GPU_VALID_MODE && l->mode != NVML_COMPUTEMODE_DEFAULT)
		strbuf_addf(&b, "%smode %s", b.len ? ", " : "", machine_mode_name(l->mode));
	if (d->reason[0])
		strbuf_addf(&b, "%s%s", b.len ? ", " : "", d->reason);
	if (d->quarantine[0])
		strbuf_addf(&b, "%s%s", b.len ? ", " : "", d->quarantine);
	if (d->left[0])
		strbuf_addf(&b, "%s%s", b.len ? ", " : "", d->left);
	if (b.len || l->procs.n) {
		int indent = printf("  gpu %s  ", label(dev, gpu));

		strbuf_adds(&b, b.len ? "" : machine_state_name(d));
		term_print_wrapped(stdout, strbuf_str(&b), (size_t)indent);
	}
	for (uint32_t i = 0; i < l->procs.n; i++)
		print_process(&l->procs.p[i]);
}

static void print_unseen(const struct gpu_failed *f)
{
	int indent = printf("  gpu %u  ", (unsigned int)f->index);
	cleanup_free char *text = xasprintf("cannot be seen: %s", f->why);

	term_print_wrapped(stdout, text, (size_t)indent);
}

/* ---- the quarantine ---- */

/* Its UUID, or as it is shown. */
static bool is_named(const struct gpu_device *dev, const char *name)
{
	char gpu[CELL];

	return !strcmp(name, "all") || !strcmp(name, dev->uuid) || !strcmp(name, label(dev, gpu));
}

static void trust_one(struct quarantine *q, const struct gpu_device *dev)
{
	const struct quarantine_device *d = quarantine_find(q, dev->uuid);
	char gpu[CELL];

	if (!d || d->state == QUARANTINE_TRUSTED) {
		printf("GPU %s is not in quarantine.\n", label(dev, gpu));
		return;
	}
	quarantine_say(q, dev->uuid, QUARANTINE_PERSON, "its owner says so", clock_wall_ns());
	printf("GPU %s gets tasks again.\n", label(dev, gpu));
}

static int trust(const struct cmd_ctx *ctx, const struct machine *m, const char *name,
		 struct err *e)
{
	struct quarantine *q = quarantine_new(NULL);
	cleanup_free char *path = machine_quarantine_path(ctx);
	int r = quarantine_load(q, path, clock_wall_ns(), e);
	unsigned int n = 0;

	for (uint32_t i = 0; i < m->list.n && r == 0; i++)
		if (is_named(&m->list.d[i], name)) {
			trust_one(q, &m->list.d[i]);
			n++;
		}
	if (r == 0 && !n)
		r = err_set(e, -ENOENT, "there is no GPU %s; tenure devices --uuids shows them",
			    name);
	else if (r == 0)
		r = quarantine_sync(q, path, clock_wall_ns(), e);
	q = quarantine_free(q);
	return r;
}

/* What only this machine's driver can tell, or what is done here. */
static int run_of_node(const struct cmd_ctx *ctx, const char *node, bool json, struct err *e)
{
	static const char *const here[] = { "verbose", "uuids", "trust" };

	for (size_t i = 0; i < ARRAY_LEN(here); i++)
		if (opts_given(ctx->opts, here[i]))
			return err_set(e, -EINVAL,
				       "--%s is about the GPUs of this machine: run it on %s, "
				       "without --node",
				       here[i], node),
			       CMD_USAGE;
	return show_node_devices(ctx, node, json, e);
}

static int run_devices(const struct cmd_ctx *ctx, struct err *e)
{
	const char *duration = opts_arg(ctx->opts, 0), *node = opts_text(ctx->opts, "node");
	bool json = opts_flag(ctx->opts, "json");
	struct machine *m = NULL;
	int r;

	if (opts_flag(ctx->opts, "history"))
		return node ? show_node_history(ctx, node, duration, json, e)
			    : show_device_history(ctx, duration, json, e);
	if (duration)
		return err_set(e, -EINVAL,
			       "\"%s\": tenure devices takes a duration with --history alone",
			       duration),
		       CMD_USAGE;
	if (node)
		return run_of_node(ctx, node, json, e);
	r = machine_look(settings_num(ctx->settings, SET_IDLE_BELOW), &m, e);

	if (r < 0)
		return err_wrap(e, "cannot see any GPU (tenure doctor tells more)");
	machine_take_quarantine(ctx, m);
	machine_take_left(ctx, m);
	if (opts_flag(ctx->opts, "verbose") || json)
		machine_read_health(m);
	if (opts_given(ctx->opts, "trust")) {
		r = trust(ctx, m, opts_text(ctx->opts, "trust"), e);
	} else if (json) {
		cmd_print_json(machine_json(m));
	} else {
		print_table(m);
		for (uint32_t i = 0; i < m->list.n; i++)
			print_details(&m->list.d[i], &m->devices[i], opts_flag(ctx->opts, "uuids"));
		for (uint32_t i = 0; i < m->list.n_failed; i++)
			print_unseen(&m->list.failed[i]);
		if (opts_flag(ctx->opts, "verbose"))
			print_health(m);
		printf("Driver %s, NVML %s\n", m->driver[0] ? m->driver : "unknown",
		       m->version[0] ? m->version : "unknown");
	}
	(void)machine_free(m);
	return r;
}

static const struct cmd_example devices_examples[] = {
	{ "tenure devices", "the GPUs of this machine, who is on them, and which are idle" },
	{ "tenure devices -v",
	  "also how they are doing: clocks, energy, errors of memory and links" },
	{ "tenure devices --history 6h", "what each was used for in the last six hours" },
	{ "tenure devices --node n8 --history", "the same of another node that serves the queue" },
	{ "tenure devices --uuids", "also the UUIDs" },
	{ "tenure devices --json", "the same for programs" },
	{ "tenure devices --trust 1", "GPU 1 was in quarantine, and gets tasks again" },
	{ 0 },
};

const struct cmd cmd_devices = {
	.name = "devices",
	.group = "This machine",
	.summary = "the GPUs of this machine: use, processes, and which are idle",
	.description = "Asks the driver itself; no agent is needed. A GPU with anybody's compute "
		       "process on it is not idle, however little it uses. One on which tasks have "
		       "failed with errors of the GPU, and not of the program, is in quarantine, "
		       "and gets none for an hour and more. Those of another node (--node) are as "
		       "its agent told of them in the queue's directory, with its last heartbeat, "
		       "and what they were used for (--history) as of ten minutes ago at most.",
	.examples = devices_examples,
	.args = "[DURATION]",
	.max_args = 1,
	.opts = devices_opts,
	.setting_groups = SETTING_GROUP_AGENT,
	.run = run_devices,
};
