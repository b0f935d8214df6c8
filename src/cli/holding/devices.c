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
#include "cli/machine.h"
#include "cli/table.h"

#define CELL	    48
#define COMMAND_MIN 16

static const struct opt devices_opts[] = {
	{ .name = "json", .spec = { VALUE_FLAG }, .help = "print JSON" },
	{ .name = "uuids", .spec = { VALUE_FLAG }, .help = "print the UUIDs, which --gpus takes" },
	{ .name = "trust",
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

static int run_devices(const struct cmd_ctx *ctx, struct err *e)
{
	struct machine *m = NULL;
	int r = machine_look(settings_num(ctx->settings, SET_IDLE_BELOW), &m, e);

	if (r < 0)
		return err_wrap(e, "cannot see any GPU (tenure doctor tells more)");
	machine_take_quarantine(ctx, m);
	if (opts_given(ctx->opts, "trust")) {
		r = trust(ctx, m, opts_text(ctx->opts, "trust"), e);
	} else if (opts_flag(ctx->opts, "json")) {
		json_t *doc = machine_json(m);

		cmd_print_json(doc);
	} else {
		print_table(m);
		for (uint32_t i = 0; i < m->list.n; i++)
			print_details(&m->list.d[i], &m->devices[i], opts_flag(ctx->opts, "uuids"));
		for (uint32_t i = 0; i < m->list.n_failed; i++)
			print_unseen(&m->list.failed[i]);
		printf("Driver %s, NVML %s\n", m->driver[0] ? m->driver : "unknown",
		       m->version[0] ? m->version : "unknown");
	}
	(void)machine_free(m);
	return r;
}

static const struct cmd_example devices_examples[] = {
	{ "tenure devices", "the GPUs of this machine, who is on them, and which are idle" },
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
		       "and gets none for an hour and more.",
	.examples = devices_examples,
	.opts = devices_opts,
	.run = run_devices,
};
