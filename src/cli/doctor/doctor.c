/* SPDX-License-Identifier: MIT */

/*
 * A list of checks, each adding findings, and one sentence at the end: what a newcomer on this
 * machine can count on. The checks are rows; their order is the order of the output.
 */

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/ctl_client.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/doctor/checks.h"
#include "cli/doctor/launch.h"
#include "cli/term.h"
#include "gpu/cuda.h"
#include "gpu/xid.h"
#include "hold/endpoint_names.h"

#define INDENT 21 /* column of the texts */

static const struct opt doctor_opts[] = {
	{ .name = "launch",
	  .spec = { VALUE_FLAG },
	  .help = "also hold 1 GiB on an idle GPU, send a newcomer there, and let go" },
	{ 0 },
};

/* -------- the driver -------- */

static const char *library_path(void *library, const char *otherwise)
{
	struct link_map *map = NULL;

	return dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name[0] ? map->l_name
										    : otherwise;
}

static void check_nvml(struct doctor *d)
{
	struct nvml n = { 0 };
	struct err e = ERR_INIT;

	if (nvml_load(&n, &e) < 0) {
		doctor_find(
			d, FINDING_FAIL, "NVML",
			"install the NVIDIA driver; in a container, run it with the NVIDIA runtime "
			"and NVIDIA_DRIVER_CAPABILITIES=utility,compute",
			"%s", e.text);
		return;
	}
	doctor_find(d, FINDING_OK, "NVML", NULL, "%s", library_path(n.library, "loaded"));
	nvml_unload(&n);
}

static void check_cuda(struct doctor *d)
{
	struct cuda c = { 0 };
	struct err e = ERR_INIT;

	if (cuda_load(&c, &e) < 0)
		doctor_find(d, FINDING_FAIL, "CUDA",
			    "install the driver's compute libraries (libcuda1, "
			    "nvidia-driver-libs); in a container, "
			    "NVIDIA_DRIVER_CAPABILITIES=utility,compute",
			    "%s", e.text);
	else
		doctor_find(d, FINDING_OK, "CUDA", NULL, "%s", library_path(c.library, "loaded"));
}

static void check_driver(struct doctor *d)
{
	if (!d->machine)
		doctor_find(d, FINDING_FAIL, "driver",
			    "nvidia-smi should work first; to try tenure without a GPU: tenure sim "
			    "--gpus 4 -- tenure doctor",
			    "%s", d->trouble.text);
	else
		doctor_find(d, FINDING_OK, "driver", NULL, "%s, NVML %s, %u devices",
			    d->machine->driver[0] ? d->machine->driver : "version unknown",
			    d->machine->version[0] ? d->machine->version : "version unknown",
			    (unsigned int)d->machine->list.n);
}

static void check_layout(struct doctor *d)
{
	uint32_t stride = 0;

	for (uint32_t i = 0; d->machine && i < d->machine->list.n; i++) {
		const struct machine_device *dev = &d->machine->devices[i];

		if (dev->code < 0)
			doctor_find(d, FINDING_FAIL, "looking",
				    "nvidia-smi -q tells the card's state", "gpu %u: %s",
				    (unsigned int)d->machine->list.d[i].index, dev->trouble);
		else if (dev->look.procs.stride)
			stride = dev->look.procs.stride;
	}
	if (!d->machine)
		return;
	if (stride)
		doctor_find(d, FINDING_OK, "process lists", NULL,
			    "%s, %u bytes an entry (measured)", d->machine->nvml.procs_symbol,
			    (unsigned int)stride);
	else
		doctor_find(d, FINDING_NOTE, "process lists", NULL,
			    "%s; no process runs, so that the size of an entry is measured later",
			    d->machine->nvml.procs_symbol);
}

/* Whether the guard will hear of a card that has an error. */
static void check_errors(struct doctor *d)
{
	struct gpu_errors errors;

	if (!d->machine)
		return;
	gpu_errors_open(&d->machine->nvml, &d->machine->list, &errors);
	if (errors.n)
		doctor_find(d, FINDING_OK, "XIDs", NULL,
			    "the driver tells of the errors of %u card%s", errors.n,
			    errors.n == 1 ? "" : "s");
	else
		doctor_find(d, FINDING_NOTE, "XIDs", NULL,
			    "the driver does not tell of errors here: a card that has one shows "
			    "only when it cannot be seen any more");
	gpu_errors_close(&d->machine->nvml, &errors);
}

/* -------- the devices -------- */

static void check_devices(struct doctor *d)
{
	unsigned int idle = 0, unfit = 0, mig = 0, resting = 0;

	for (uint32_t i = 0; d->machine && i < d->machine->list.n; i++) {
		const struct gpu_device *dev = &d->machine->list.d[i];
		const struct machine_device *md = &d->machine->devices[i];
		const char *why = gpu_unfit(dev, &md->look);

		idle += !md->reason[0];
		mig += dev->mig >= 0;
		resting += md->look.valid & GPU_VALID_PERSISTENCE && !md->look.persistence;
		if (!why || dev->mig_parent)
			continue;
		unfit++;
		doctor_find(d, FINDING_NOTE, "devices", "it is left alone; nothing has to be done",
			    "gpu %u is never held: %s", (unsigned int)dev->index, why);
	}
	if (!d->machine)
		return;
	for (uint32_t i = 0; i < d->machine->list.n_failed; i++)
		doctor_find(d, FINDING_FAIL, "devices",
			    "look at the kernel's log (dmesg, XID); the others are used without it",
			    "gpu %u cannot be seen: %s", d->machine->list.failed[i].index,
			    d->machine->list.failed[i].why);
	doctor_find(d, FINDING_OK, "devices", NULL, "%u can be held now, %u never%s", idle, unfit,
		    mig ? "; MIG instances are devices of their own, without a measured utilisation"
			: "");
	if (resting)
		doctor_find(
			d, FINDING_WARN, "persistence",
			"nvidia-smi -pm 1 (root) keeps the driver awake, so that starts are fast",
			"off on %u devices", resting);
	else
		doctor_find(d, FINDING_OK, "persistence", NULL, "on");
}

/* What can be seen now may not have been when the guard started; it tries again now and then. */
static void check_guard_opens(struct doctor *d, const json_t *guard)
{
	if (!d->opens_seen || !json_is_false(json_object_get(guard, "inotify")))
		return;
	d->opens_seen = false;
	doctor_find(d, FINDING_WARN, "inotify", "it tries again within ten seconds",
		    "the guard that runs does not see opens of the device nodes");
}

/* What a guard that runs has learnt. */
static void check_guard(struct doctor *d)
{
	char name[SOCKET_NAME_MAX];
	json_t *doc = NULL;
	const char *learnt;

	(void)agent_socket_name(name, sizeof(name), settings_str(d->ctx->settings, SET_INSTANCE),
				d->dev_dir, d->ctx->job);
	if (ctl_ask(name, CTL_STATUS, 2000, &doc, NULL, NULL) < 0)
		return;
	learnt = json_get_str(json_object_get(doc, "guard"), "pid_class");
	for (unsigned int c = 0; learnt && c < PID_CLASS_MAX; c++)
		if (strcmp(learnt, pid_class_name(c)) == 0)
			d->pid_class = (enum pid_class)c;
	check_guard_opens(d, json_object_get(doc, "guard"));
	doctor_find(d, FINDING_OK, "agent", NULL, "runs: %s", json_get_str(doc, "sentence"));
	d->agent_devices = json_incref(json_object_get(doc, "devices"));
	json_decref(doc);
}

static void check_launch(struct doctor *d)
{
	if (opts_flag(d->ctx->opts, "launch") && d->machine)
		doctor_check_launch(d);
}

static void check_pids(struct doctor *d)
{
	static const char *const texts[PID_CLASS_MAX] = {
		[PIDS_UNKNOWN] = "not known before the first hold",
		[PIDS_SAME] = "ours is listed under its PID, and nobody who is not was seen so far",
		[PIDS_HOST] = "processes are listed under the host's PIDs, without their names",
		[PIDS_OWN] =
			"ours are listed; others' may be missing, as in a container or seen here",
		[PIDS_NONE] = "no processes are listed",
	};
	bool fine = d->pid_class == PIDS_SAME || d->pid_class == PIDS_HOST;

	if (!d->machine)
		return;
	if (d->pid_class == PIDS_UNKNOWN)
		doctor_find(d, FINDING_NOTE, "PIDs",
			    d->launch == LAUNCH_NOT_ASKED ? "tenure doctor --launch finds out"
							  : NULL,
			    "%s", texts[d->pid_class]);
	else
		doctor_find(d, fine ? FINDING_OK : FINDING_WARN, "PIDs",
			    fine ? NULL : "who is not listed is noticed by the memory in use", "%s",
			    texts[d->pid_class]);
}

/* In the order in which they are shown. */
static void (*const checks[])(struct doctor *d) = {
	check_nvml,	      check_cuda,	   check_driver,	   check_layout,
	check_errors,	      doctor_check_nodes,  check_devices,	   doctor_check_memlock,
	doctor_check_copy,    doctor_check_logind, doctor_check_container, doctor_check_tenants,
	doctor_check_sockets, check_guard,	   check_launch,	   check_pids,
};

/* -------- what it comes to -------- */

static const char *promise(const struct doctor *d)
{
	if (!d->machine)
		return "Nothing can be held on this machine.";
	if (d->launch == LAUNCH_FAILED)
		return "The test failed (above), so nothing can be said of what a newcomer meets here.";
	if (d->pid_class == PIDS_NONE || d->pid_class == PIDS_OWN)
		return "A newcomer that is not listed is noticed by the memory of its context, at once, "
		       "and what is held is let go. Mostly that is before its first allocation; where it "
		       "is not, one that is larger than what is left free fails, and succeeds when asked "
		       "again.";
	if (d->late)
		return "A newcomer is noticed, and late: its first allocation can fail if it is larger "
		       "than what is left free, and succeeds when asked again.";
	if (d->hidden)
		return "A newcomer in this container is noticed before its first allocation; one in "
		       "another container perhaps only by the memory that it takes.";
	if (!d->opens_seen)
		return "The opening of the driver is not seen here. A newcomer is noticed by looking "
		       "all the time, up to 30 ms later than elsewhere: mostly before its first "
		       "allocation, which succeeds then, and else when asked again.";
	if (d->pid_class == PIDS_UNKNOWN && d->launch == LAUNCH_NONE)
		return "As far as can be seen, a newcomer is noticed before its first allocation, which "
		       "succeeds; it could not be tried just now.";
	if (d->pid_class == PIDS_UNKNOWN)
		return "As far as can be seen, a newcomer is noticed before its first allocation, which "
		       "succeeds; tenure doctor --launch makes sure.";
	return "A newcomer is noticed when it opens the driver, and what is held is free before its "
	       "first allocation, which succeeds.";
}

static void print_findings(const struct doctor *d)
{
	static const enum term_style styles[FINDING_LEVEL_MAX] = { TERM_GREEN, TERM_DIM,
								   TERM_YELLOW, TERM_RED };
	size_t i;
	json_t *f;

	json_array_foreach(d->findings, i, f)
	{
		const char *result = json_get_str(f, "result");
		const char *advice = json_get_str(f, "advice");
		unsigned int level = FINDING_OK;

		while (level < FINDING_FAIL && strcmp(finding_level_name(level), result) != 0)
			level++;
		printf("%s%-4s%s  %-13s  ", term_on(STDOUT_FILENO, styles[level]), result,
		       term_off(STDOUT_FILENO), json_get_str(f, "check"));
		term_print_wrapped(stdout, json_get_str(f, "text"), INDENT);
		if (advice) {
			printf("%*s", INDENT, "");
			term_print_wrapped(stdout, advice, INDENT);
		}
	}
	(void)putchar('\n');
	term_print_wrapped(stdout, promise(d), 0);
}

static int run_doctor(const struct cmd_ctx *ctx, struct err *e)
{
	struct doctor d = { .ctx = ctx,
			    .dev_dir = settings_str(ctx->settings, SET_DEV_DIR),
			    .findings = json_array() };
	int code;

	(void)machine_look(settings_num(ctx->settings, SET_IDLE_BELOW), &d.machine, &d.trouble);
	for (size_t i = 0; i < ARRAY_LEN(checks); i++)
		checks[i](&d);
	if (opts_flag(ctx->opts, "json")) {
		json_t *doc = json_pack("{s:O, s:b, s:s}", "findings", d.findings, "ok", !d.failed,
					"promise", promise(&d));

		cmd_print_json(doc);
	} else {
		print_findings(&d);
	}
	code = d.failed ? CMD_FAILED : CMD_OK;
	json_decref(d.findings);
	json_decref(d.agent_devices);
	d.machine = machine_free(d.machine);
	return code;
}

static const struct cmd_example doctor_examples[] = {
	{ "tenure doctor", "look at everything that holding depends on" },
	{ "tenure doctor --launch", "and try it on one idle GPU" },
	{ "tenure doctor --json", "for programs; exit code 1 when something fails" },
	{ 0 },
};

const struct cmd cmd_doctor = {
	.name = "doctor",
	.group = "This machine",
	.summary = "check this machine, and say what a newcomer can count on",
	.description =
		"Each line is a check: ok, note, warn or FAIL, with advice where there is something to "
		"do. The last sentence says what kind of yield this machine allows.",
	.examples = doctor_examples,
	.opts = doctor_opts,
	.flags = CMD_JSON,
	.setting_groups = SETTING_GROUP_NODE,
	.run = run_doctor,
};
