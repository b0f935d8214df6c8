/* SPDX-License-Identifier: MIT */
#include "cli/machine.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "agent/node/device_health.h"
#include "agent/node/left.h"
#include "agent/node/quarantine.h"
#include "base/clock.h"
#include "base/json_get.h"
#include "base/limited.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "base/units.h"
#include "cli/agent_setup.h"

static const char holder_name[] = "tenure-hold:";

const char *machine_mode_name(nvmlComputeMode_t mode)
{
	static const char *const names[] = {
		[NVML_COMPUTEMODE_DEFAULT] = "default",
		[NVML_COMPUTEMODE_EXCLUSIVE_THREAD] = "exclusive-thread",
		[NVML_COMPUTEMODE_PROHIBITED] = "prohibited",
		[NVML_COMPUTEMODE_EXCLUSIVE_PROCESS] = "exclusive-process",
	};

	return (size_t)mode < ARRAY_LEN(names) ? names[mode] : "unknown";
}

char *machine_quarantine_path(const struct cmd_ctx *ctx)
{
	cleanup_free char *dir = agent_setup_state_dir(ctx->settings);
	char host[256] = "";

	if (gethostname(host, sizeof(host) - 1) < 0 || !host[0])
		(void)str_copy(host, sizeof(host), "localhost");
	return quarantine_path(dir, host);
}

void machine_take_quarantine(const struct cmd_ctx *ctx, struct machine *m)
{
	struct quarantine *q = quarantine_new(NULL);
	cleanup_free char *path = machine_quarantine_path(ctx);

	(void)quarantine_load(q, path, clock_wall_ns(), NULL);
	for (uint32_t i = 0; i < m->list.n; i++)
		(void)quarantine_words(quarantine_find(q, m->list.d[i].uuid),
				       m->devices[i].quarantine);
	q = quarantine_free(q);
}

static void take_left(struct machine *m, const char *path)
{
	cleanup_free struct left_device *all = xcalloc(LEFT_MAX, sizeof(*all));
	int n = left_read(path, clock_wall_ns(), all, NULL);

	for (int i = 0; i < n; i++)
		for (uint32_t j = 0; j < m->list.n; j++) {
			char user[64];

			if (!strcmp(m->list.d[j].uuid, all[i].uuid))
				(void)left_words(user_name(all[i].uid, user, sizeof(user)),
						 all[i].uid, all[i].until_wall_ns,
						 m->devices[j].left);
		}
}

void machine_take_left(const struct cmd_ctx *ctx, struct machine *m)
{
	cleanup_free char *dir = agent_setup_state_dir(ctx->settings);
	DIR *d = opendir(dir);
	const struct dirent *entry;

	while (d && (entry = readdir(d))) {
		cleanup_free char *path = xasprintf("%s/%s", dir, entry->d_name);

		if (left_is_file(entry->d_name))
			take_left(m, path);
	}
	if (d)
		(void)closedir(d);
}

void machine_describe(const struct gpu_proc *p, struct machine_process *ret)
{
	uid_t uid = proc_describe(p->pid, ret->command, sizeof(ret->command));
	struct proc_peek peek = { 0 };

	(void)proc_peek(p->pid, &peek);
	(void)str_copy(ret->program, sizeof(ret->program), peek.comm[0] ? peek.comm : "unknown");
	if (uid == (uid_t)-1)
		(void)str_copy(ret->user, sizeof(ret->user), "unknown user");
	else
		(void)user_name(uid, ret->user, sizeof(ret->user));
	ret->holder = str_has_prefix(ret->command, holder_name);
	ret->ours = ret->holder && uid == geteuid();
	if (!ret->command[0])
		(void)str_copy(ret->command, sizeof(ret->command), "unknown");
}

/* The reason why a holder would not be started here; d->reason stays empty where it would. */
static void judge(const struct gpu_device *dev, struct machine_device *d, uint64_t idle_below)
{
	const char *unfit = gpu_unfit(dev, &d->look);
	char size[UNIT_TEXT_MAX];

	d->mig_card = dev->mig_parent;
	if (unfit) {
		(void)str_copy(d->reason, sizeof(d->reason), unfit);
		return;
	}
	for (uint32_t i = 0; i < d->look.procs.n; i++) {
		const struct gpu_proc *p = &d->look.procs.p[i];
		struct machine_process who;

		machine_describe(p, &who);
		d->ours = d->ours || who.ours;
		if (who.ours || p->graphics || d->reason[0])
			continue;
		if (who.holder)
			(void)str_print(d->reason, sizeof(d->reason), "tenure of %s", who.user);
		else
			(void)str_print(d->reason, sizeof(d->reason), "PID %d (%s, %s)%s%s",
					(int)p->pid, who.user, who.program,
					p->used_known ? ", " : "",
					p->used_known ? unit_format_gib(p->used_bytes, size) : "");
	}
	if (!d->reason[0] && !d->ours && d->look.used > idle_below)
		(void)str_print(d->reason, sizeof(d->reason),
				"%s in use by processes that are not listed",
				unit_format_gib(d->look.used, size));
}

static void look_at(struct machine *m, uint32_t i, uint64_t idle_below)
{
	struct machine_device *d = &m->devices[i];
	struct err e = ERR_INIT;

	d->code = gpu_look_at(&m->nvml, &m->list.d[i], GPU_LOOK_ALL, &d->look, &e);
	if (d->code == 0) {
		judge(&m->list.d[i], d, idle_below);
		return;
	}
	(void)str_copy(d->trouble, sizeof(d->trouble), e.text);
	(void)str_print(d->reason, sizeof(d->reason), "cannot be seen: %s", e.text);
}

static void read_versions(struct machine *m)
{
	const struct nvml *n = &m->nvml;

	if (!n->driver_version || n->driver_version(m->driver, sizeof(m->driver)) != NVML_SUCCESS)
		m->driver[0] = '\0';
	if (!n->nvml_version || n->nvml_version(m->version, sizeof(m->version)) != NVML_SUCCESS)
		m->version[0] = '\0';
}

int machine_look(uint64_t idle_below, struct machine **ret, struct err *e)
{
	struct machine *m = xcalloc(1, sizeof(*m));
	int r = nvml_load(&m->nvml, e);

	if (r < 0) {
		free(m);
		return r;
	}
	r = nvml_start(&m->nvml, e);
	if (r == 0) {
		read_versions(m);
		r = gpu_enumerate(&m->nvml, &m->list, e);
	}
	for (uint32_t i = 0; r == 0 && i < m->list.n; i++)
		look_at(m, i, idle_below);
	if (r < 0) {
		m = machine_free(m);
		return r;
	}
	*ret = m;
	return 0;
}

void machine_read_health(struct machine *m)
{
	for (uint32_t i = 0; i < m->list.n; i++)
		gpu_health_read_all(&m->nvml, &m->list.d[i], &m->devices[i].health);
}

struct machine *machine_free(struct machine *m)
{
	if (!m)
		return NULL;
	nvml_stop(&m->nvml);
	nvml_unload(&m->nvml);
	free(m);
	return NULL;
}

/* -------- by a process of its own -------- */

static void ask_health(void *shared)
{
	struct machine_figures *f = shared;
	struct machine *m = NULL;

	if (machine_look(0, &m, NULL) < 0)
		return;
	machine_read_health(m);
	for (uint32_t i = 0; i < m->list.n; i++) {
		(void)str_copy(f->cards[i].uuid, sizeof(f->cards[i].uuid), m->list.d[i].uuid);
		f->cards[i].health = m->devices[i].health;
	}
	f->n = m->list.n;
}

int machine_ask_health(uint64_t limit_ms, struct machine_figures **ret, struct err *e)
{
	struct machine_figures *f = limited_alloc(sizeof(*f));
	int r = f ? limited_call(ask_health, f, limit_ms, e)
		  : err_sys(e, ENOMEM, "memory that two processes share");

	if (r < 0) {
		f = machine_figures_free(f);
		return err_wrap(e, "the driver cannot be asked how its cards are");
	}
	*ret = f;
	return 0;
}

const struct gpu_health *machine_find_health(const struct machine_figures *f, const char *uuid)
{
	for (uint32_t i = 0; f && i < f->n; i++)
		if (strcmp(f->cards[i].uuid, uuid) == 0)
			return &f->cards[i].health;
	return NULL;
}

struct machine_figures *machine_figures_free(struct machine_figures *f)
{
	return limited_free(f, sizeof(*f));
}

/* -------- JSON -------- */

static void set(json_t *o, const char *key, json_t *value)
{
	(void)json_object_set_new(o, key, value);
}

static void set_known(json_t *o, const char *key, const struct gpu_look *look, uint32_t what,
		      json_t *value)
{
	if (!(look->valid & what)) {
		json_decref(value);
		value = json_null();
	}
	set(o, key, value);
}

static json_t *processes_json(const struct gpu_procs *procs)
{
	json_t *a = json_array();

	for (uint32_t i = 0; i < procs->n; i++) {
		const struct gpu_proc *p = &procs->p[i];
		struct machine_process who;
		json_t *o = json_object();

		machine_describe(p, &who);
		set(o, "pid", json_integer(p->pid));
		set(o, "user", json_string(who.user));
		set(o, "command", json_string(who.command));
		set(o, "memory_bytes",
		    p->used_known ? json_integer((json_int_t)p->used_bytes) : json_null());
		set(o, "graphics", json_boolean(p->graphics));
		set(o, "ours", json_boolean(who.ours));
		(void)json_array_append_new(a, o);
	}
	return a;
}

static void add_figures(json_t *o, const struct gpu_look *l)
{
	set_known(o, "memory_total_bytes", l, GPU_VALID_MEM, json_integer((json_int_t)l->total));
	set_known(o, "memory_used_bytes", l, GPU_VALID_MEM, json_integer((json_int_t)l->used));
	set_known(o, "memory_free_bytes", l, GPU_VALID_MEM, json_integer((json_int_t)l->free));
	set_known(o, "utilisation", l, GPU_VALID_UTIL, json_integer(l->util));
	set_known(o, "power_w", l, GPU_VALID_POWER, json_real(l->power_mw / 1e3));
	set_known(o, "power_limit_w", l, GPU_VALID_POWER_LIMIT, json_real(l->power_limit_mw / 1e3));
	set_known(o, "temperature_c", l, GPU_VALID_TEMP, json_integer(l->temp_c));
	set_known(o, "mode", l, GPU_VALID_MODE, json_string(machine_mode_name(l->mode)));
	set_known(o, "display", l, GPU_VALID_DISPLAY, json_boolean(l->display));
	set_known(o, "persistence", l, GPU_VALID_PERSISTENCE, json_boolean(l->persistence));
	set_known(o, "processes", l, GPU_VALID_PROCS, processes_json(&l->procs));
}

const char *machine_state_name(const struct machine_device *d)
{
	if (d->mig_card)
		return "mig";
	if (d->reason[0])
		return "busy";
	return d->ours ? "held" : "idle";
}

static json_t *device_json(const struct gpu_device *dev, const struct machine_device *d)
{
	json_t *o = json_object();

	set(o, "gpu", json_integer(dev->index));
	set(o, "mig", dev->mig >= 0 ? json_integer(dev->mig) : json_null());
	set(o, "mig_parent", json_boolean(dev->mig_parent));
	set(o, "uuid", json_string(dev->uuid));
	set(o, "name", json_string(dev->name));
	set(o, "bus_id", dev->bus_id[0] ? json_string(dev->bus_id) : json_null());
	set(o, "minor", dev->minor >= 0 ? json_integer(dev->minor) : json_null());
	add_figures(o, &d->look);
	set(o, "health", health_json(&d->health, clock_mono_ns()));
	set(o, "state", json_string(machine_state_name(d)));
	set(o, "held", json_boolean(d->ours));
	set(o, "idle", json_boolean(!d->reason[0] && !d->ours));
	set(o, "reason", d->reason[0] ? json_string(d->reason) : json_null());
	set(o, "quarantine", d->quarantine[0] ? json_string(d->quarantine) : json_null());
	set(o, "left", d->left[0] ? json_new_text(d->left) : json_null());
	return o;
}

/* Of which neither UUID nor name is known. */
static json_t *unseen_json(const struct gpu_list *list)
{
	json_t *a = json_array();

	for (uint32_t i = 0; i < list->n_failed; i++)
		(void)json_array_append_new(a, json_pack("{s:i, s:s}", "gpu",
							 (int)list->failed[i].index, "reason",
							 list->failed[i].why));
	return a;
}

json_t *machine_json(const struct machine *m)
{
	json_t *o = json_object(), *a = json_array();

	for (uint32_t i = 0; i < m->list.n; i++)
		(void)json_array_append_new(a, device_json(&m->list.d[i], &m->devices[i]));
	set(o, "format", json_integer(MACHINE_FORMAT));
	set(o, "driver", m->driver[0] ? json_string(m->driver) : json_null());
	set(o, "nvml", m->version[0] ? json_string(m->version) : json_null());
	set(o, "devices", a);
	set(o, "unseen", unseen_json(&m->list));
	return o;
}
