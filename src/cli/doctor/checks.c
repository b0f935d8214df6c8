/* SPDX-License-Identifier: MIT */
#include "cli/doctor/checks.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/node/selfcopy.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/sockdir.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "hold/guard/hints.h"

#define OPEN_SEEN_MS 500
#define MEMLOCK_WANT (64UL * MIB) /* the guard with its libraries */

/* -------- device nodes and inotify -------- */

/* Open the control node, as every start of a program does, and see whether that is told. */
static bool open_is_seen(struct hints *h, const char *dev_dir)
{
	cleanup_free char *path = xasprintf("%s/nvidiactl", dev_dir);
	struct pollfd p = { .fd = h->fd, .events = POLLIN };
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);

	return fd >= 0 && poll(&p, 1, OPEN_SEEN_MS) > 0 && hints_read(h, clock_mono_ns());
}

static bool check_access(struct doctor *d)
{
	static const char *const names[] = { "nvidiactl", "nvidia-uvm", "nvidia0" };
	cleanup_strbuf struct strbuf bad = STRBUF_INIT;

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		cleanup_free char *path = xasprintf("%s/%s", d->dev_dir, names[i]);

		if (access(path, R_OK | W_OK) < 0)
			strbuf_addf(&bad, "%s%s (%s)", bad.len ? ", " : "", names[i],
				    strerror(errno));
	}
	if (!bad.len) {
		doctor_find(d, FINDING_OK, "device nodes", NULL,
			    "there, readable and writable in %s", d->dev_dir);
		return true;
	}
	doctor_find(d, d->machine ? FINDING_WARN : FINDING_FAIL, "device nodes",
		    "in a container, pass the GPUs in (--gpus all); elsewhere nvidia-smi, run once "
		    "as root, makes the nodes",
		    "not usable in %s: %s", d->dev_dir, strbuf_str(&bad));
	return false;
}

void doctor_check_nodes(struct doctor *d)
{
	struct hints h;
	struct err e = ERR_INIT;
	bool usable = check_access(d);

	hints_open(&h, d->dev_dir, &e);
	d->opens_seen = h.n_watches > 0 && open_is_seen(&h, d->dev_dir);
	if (d->opens_seen)
		doctor_find(d, FINDING_OK, "inotify", NULL, "opens of %d device nodes are seen",
			    h.n_watches);
	else if (usable || h.n_watches)
		doctor_find(
			d, FINDING_WARN, "inotify", hints_advice(&h),
			"opens of the device nodes are not seen, so that all is found by polling%s%s",
			e.text[0] ? ": " : "", e.text);
	hints_close(&h);
}

/* -------- limits and sessions -------- */

void doctor_check_memlock(struct doctor *d)
{
	struct rlimit l;
	char have[UNIT_TEXT_MAX], want[UNIT_TEXT_MAX];

	if (getrlimit(RLIMIT_MEMLOCK, &l) < 0)
		return;
	if (l.rlim_cur == RLIM_INFINITY || l.rlim_cur >= MEMLOCK_WANT || geteuid() == 0)
		doctor_find(d, FINDING_OK, "memlock", NULL, "enough for the guard");
	else
		doctor_find(d, FINDING_WARN, "memlock",
			    "raise it in /etc/security/limits.conf (memlock), so that the guard is "
			    "never paged out",
			    "%s may be locked, the guard takes up to %s",
			    unit_format_gib(l.rlim_cur, have), unit_format_gib(MEMLOCK_WANT, want));
}

void doctor_check_copy(struct doctor *d)
{
	struct selfcopy c;
	struct err e = ERR_INIT;

	if (selfcopy_make(&c, &e) < 0) {
		doctor_find(d, FINDING_FAIL, "guard's copy", "the agent cannot start", "%s",
			    e.text);
		return;
	}
	if (c.place == COPY_IN_MEMORY)
		doctor_find(d, FINDING_OK, "guard's copy", NULL,
			    "the guard runs from a copy of the program in memory");
	else if (c.place == COPY_IN_FILE)
		doctor_find(
			d, FINDING_OK, "guard's copy", NULL,
			"the guard runs from a private copy of the program in %s, because files "
			"in memory cannot be executed here (%s)",
			c.dir, c.reason);
	else
		doctor_find(
			d, FINDING_NOTE, "guard's copy",
			"allow programs on one local directory of $XDG_RUNTIME_DIR, /dev/shm, "
			"/tmp and /var/tmp (mount option exec), or set vm.memfd_noexec to 1 or 0",
			"neither files in memory (%s) nor local temporary ones can be executed "
			"here, so the guard runs from the installed program: it cannot let go "
			"while that one's filesystem hangs",
			c.reason);
	c.fd = fd_close(c.fd);
}

/* The last KillUserProcesses= in one file: 1, 0, or what it was. */
static int read_kill_setting(const char *path, int before)
{
	char *text = NULL, *save = NULL;
	size_t len;

	if (fs_read_file(path, 256 * KIB, &text, &len, NULL) < 0)
		return before;
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		static const char key[] = "KillUserProcesses=";

		line += strspn(line, " \t");
		if (str_has_prefix(line, key))
			before = strchr("yY1tT", line[sizeof(key) - 1]) && line[sizeof(key) - 1];
	}
	free(text);
	return before;
}

static bool kills_user_processes(void)
{
	static const char *const patterns[] = {
		"/usr/lib/systemd/logind.conf",	     "/usr/lib/systemd/logind.conf.d/*.conf",
		"/etc/systemd/logind.conf",	     "/etc/systemd/logind.conf.d/*.conf",
		"/run/systemd/logind.conf.d/*.conf",
	};
	int kills = 0;

	for (size_t i = 0; i < ARRAY_LEN(patterns); i++) {
		glob_t found;

		if (glob(patterns[i], 0, NULL, &found) != 0)
			continue;
		for (size_t k = 0; k < found.gl_pathc; k++)
			kills = read_kill_setting(found.gl_pathv[k], kills);
		globfree(&found);
	}
	return kills;
}

void doctor_check_logind(struct doctor *d)
{
	char user[64];
	cleanup_free char *linger =
		xasprintf("/var/lib/systemd/linger/%s", user_name(geteuid(), user, sizeof(user)));

	if (access("/run/systemd/system", F_OK) < 0)
		doctor_find(d, FINDING_OK, "logging out", NULL,
			    "no systemd here that would end the agent");
	else if (!kills_user_processes())
		doctor_find(d, FINDING_OK, "logging out", NULL,
			    "the agent stays (KillUserProcesses is off)");
	else if (access(linger, F_OK) == 0)
		doctor_find(d, FINDING_OK, "logging out", NULL,
			    "KillUserProcesses is on, and %s may linger", user);
	else
		doctor_find(
			d, FINDING_WARN, "logging out",
			"loginctl enable-linger, and start it with: systemd-run --user tenure agent",
			"ends the agent: KillUserProcesses is on");
}

/* -------- neighbours -------- */

void doctor_check_container(struct doctor *d)
{
	d->hidden = proc_in_namespace();
	if (d->hidden)
		doctor_find(
			d, FINDING_WARN, "container",
			"run tenure on the host, or in its PID namespace (--pid=host), where that "
			"is allowed",
			"a PID namespace of its own: processes of neighbours may not be listed, "
			"and only their memory shows");
	else
		doctor_find(d, FINDING_OK, "container", NULL, "%s",
			    proc_in_container() ? "yes, with the host's PIDs" : "no");
}

/* Holders of other users: they show even where their sockets do not (another network namespace). */
static void add_holders(const struct machine *m, struct strbuf *who)
{
	for (uint32_t i = 0; m && i < m->list.n; i++) {
		const struct gpu_procs *procs = &m->devices[i].look.procs;

		for (uint32_t k = 0; k < procs->n; k++) {
			struct machine_process p;

			machine_describe(&procs->p[k], &p);
			if (p.holder && !p.ours)
				strbuf_addf(who, "%sa holder of %s on gpu %u", who->len ? ", " : "",
					    p.user, (unsigned int)m->list.d[i].index);
		}
	}
}

/* Guards of other users, where their processes can be seen. */
static void add_guards(struct strbuf *who)
{
	DIR *proc = opendir("/proc");
	const struct dirent *d;

	while (proc && (d = readdir(proc))) {
		struct proc_peek p;
		char user[64];
		uint64_t pid;

		if (str_to_u64(d->d_name, &pid) < 0 || proc_peek((pid_t)pid, &p) < 0 ||
		    strcmp(p.comm, "tenure-guard") != 0 || p.uid == geteuid() ||
		    str_lists(strbuf_str(who), user_name(p.uid, user, sizeof(user))))
			continue;
		strbuf_addf(who, "%s%s", who->len ? ", " : "", user);
	}
	if (proc)
		(void)closedir(proc);
}

void doctor_check_tenants(struct doctor *d)
{
	cleanup_strbuf struct strbuf who = STRBUF_INIT;

	add_guards(&who);
	add_holders(d->machine, &who);
	if (who.len)
		doctor_find(d, FINDING_OK, "other tenures", NULL,
			    "on this node: %s; what they hold shows as busy, and before a GPU is "
			    "reset each has to call tenure off --stop-tasks",
			    strbuf_str(&who));
	else
		doctor_find(d, FINDING_OK, "other tenures", NULL, "none of other users");
}

/* -------- where our sockets are -------- */

struct socket_places {
	struct strbuf unfit;
	char path[SOCKDIR_PATH_MAX];
};

static void note_unfit(void *data, const char *path, const char *why)
{
	struct socket_places *p = data;

	strbuf_addf(&p->unfit, "%s%s: %s", p->unfit.len ? "; " : "", path, why);
}

static int take_first(void *data, const struct sockdir *dir)
{
	struct socket_places *p = data;

	(void)str_copy(p->path, sizeof(p->path), dir->path);
	return 1;
}

void doctor_check_sockets(struct doctor *d)
{
	struct socket_places p = { .unfit = STRBUF_INIT };
	const struct sockdir_walk walk = {
		.make = true, .found = take_first, .unfit = note_unfit, .data = &p
	};

	if (!sockdir_walk(&walk))
		doctor_find(d, FINDING_FAIL, "sockets",
			    "set runtime_dir to a directory on a file system of this machine",
			    "no place for them: %s", strbuf_str(&p.unfit));
	else if (p.unfit.len)
		doctor_find(d, FINDING_WARN, "sockets",
			    "remove what is in the way, or have it removed; nothing stops working "
			    "for it",
			    "in %s, since others were passed over: %s", p.path,
			    strbuf_str(&p.unfit));
	else
		doctor_find(d, FINDING_OK, "sockets", NULL, "in %s", p.path);
	(void)rmdir(p.path); /* where it was made just now */
	strbuf_clear(&p.unfit);
}
