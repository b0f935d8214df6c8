/* SPDX-License-Identifier: MIT */

/*
 * `tenure sim --gpus 4 -- CMD`: build a machine in a private directory, run CMD on it, end what
 * tenure still runs there, take it away.
 *
 * What makes CMD and its children see the machine is environment only: LD_LIBRARY_PATH finds the
 * simulated libraries first, TENURE_SIM tells them the machine's file, and TENURE_DEV_DIR tells
 * tenure where the device nodes are. CMD is in our process group, so that the terminal's signals
 * reach it directly; those that are sent to us are passed on.
 */
#include "cmd_sim.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "cli/commands.h"
#include "machine.h"
#include "models.h"

#define DRIVER_VERSION "580.159.04"
#define CUDA_VERSION   13000
#define ENVIRON_MAX    (4UL << 20)
#define END_MS	       10000 /* as long as a task has to end */
#define KILL_MS	       2000
#define END_LOOK_US    20000

int sim_parse_speed(const char *text, double *ret, struct err *e)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value >= 0 && value <= 100))
		return err_set(
			e, -EINVAL,
			"speed is a time scale from 0 (at once) over 1 (as measured) to 100, "
			"not \"%s\"",
			text);
	*ret = value;
	return 0;
}

static void make_uuid(char *dst, size_t size, const char *kind)
{
	unsigned char b[16];

	if (getrandom(b, sizeof(b), 0) != (ssize_t)sizeof(b))
		memset(b, 0x5a, sizeof(b));
	(void)str_print(dst, size,
			"%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
			kind, b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10],
			b[11], b[12], b[13], b[14], b[15]);
}

static void add_card(struct sim_machine *m, const struct sim_model *model, uint64_t mem_bytes)
{
	int dev = m->ncards++;
	struct sim_dev *d = &m->devs[dev];

	m->ndevs = m->ncards;
	make_uuid(d->uuid, sizeof(d->uuid), "GPU");
	(void)str_copy(d->name, sizeof(d->name), model->name);
	d->parent = -1;
	d->minor = dev;
	d->sm_count = model->sm_count;
	d->cc_major = model->cc_major;
	d->cc_minor = model->cc_minor;
	d->pci_bus = 0x18 + 0x11 * (uint32_t)dev % 0xe0;
	d->pci_device_id = model->pci_device_id;
	d->limit_mw = model->limit_w * 1000;
	d->idle_mw = model->idle_w * 1000;
	d->context_mw = model->context_w * 1000;
	d->spin_mw = model->spin_w * 1000;
	d->tensor_mw = model->tensor_w * 1000;
	d->clock_sm_mhz = model->clock_sm_mhz;
	d->clock_mem_mhz = model->clock_mem_mhz;
	d->bus_bits = model->bus_bits;
	d->l2_kib = model->l2_kib;
	d->ecc = model->ecc;
	d->mem_total = mem_bytes ? mem_bytes : model->mem_mib * SIM_MIB;
	d->mem_reserved = model->reserved_mib * SIM_MIB;
	d->mig_capable = model->mig;
	d->nvlink_board = model->nvlink;
	d->energy_ns = sim_now_ns();
}

static int add_instance(struct sim_machine *m, int card, unsigned int slices, unsigned int gb,
			struct err *e)
{
	struct sim_dev *d = &m->devs[m->ndevs], *parent = &m->devs[card];
	uint64_t taken = 0, bytes = gb * 1000000000ULL / SIM_MIB * SIM_MIB;
	uint32_t ids = 0;

	for (int i = m->ncards; i < m->ndevs; i++) {
		if (m->devs[i].parent == card) {
			taken += m->devs[i].mem_total;
			ids++;
		}
	}
	if (m->ndevs == SIM_DEV_MAX || ids == 7 || taken + bytes > parent->mem_total)
		return err_set(e, -EINVAL, "no room for another %ug.%ugb instance on card %d",
			       slices, gb, card);
	*d = *parent;
	make_uuid(d->uuid, sizeof(d->uuid), "MIG");
	(void)str_print(d->name, sizeof(d->name), "%.60s MIG %ug.%ugb", parent->name, slices, gb);
	d->parent = card;
	d->mig = false;
	d->gi_id = ids + 1;
	d->ci_id = 0;
	d->sm_count = parent->sm_count * slices / 8;
	d->mem_total = bytes;
	d->mem_reserved = 64 * SIM_MIB;
	m->ndevs++;
	return 0;
}

/* "[CARD/]1g.18gb[:COUNT]" */
static int add_mig(struct sim_machine *m, const char *spec, struct err *e)
{
	unsigned int card = 0, slices, gb, count = 1;
	const char *profile = strchr(spec, '/');
	int used = 0, r = 0;

	if (profile && sscanf(spec, "%u/", &card) != 1)
		return err_set(e, -EINVAL, "--mig %s: it is [CARD/]PROFILE[:COUNT]", spec);
	profile = profile ? profile + 1 : spec;
	if (sscanf(profile, "%ug.%ugb%n", &slices, &gb, &used) != 2 || used == 0 ||
	    (profile[used] && sscanf(profile + used, ":%u", &count) != 1) || !slices || slices > 7)
		return err_set(e, -EINVAL,
			       "--mig %s: a profile looks like 1g.18gb, with :7 for seven", spec);
	if (card >= (unsigned int)m->ncards)
		return err_set(e, -EINVAL, "--mig %s: the machine has cards 0 to %d", spec,
			       m->ncards - 1);
	if (!m->devs[card].mig_capable)
		return err_set(e, -EINVAL, "--mig %s: %s has no MIG", spec, m->devs[card].name);
	m->devs[card].mig = true;
	while (r == 0 && count-- > 0)
		r = add_instance(m, (int)card, slices, gb, e);
	return r;
}

static void join(struct sim_machine *m, unsigned int a, unsigned int b)
{
	if (a == b)
		return;
	m->devs[a].nvlink |= 1ULL << b;
	m->devs[b].nvlink |= 1ULL << a;
}

/* "FROM-TO": these cards are joined, each with each. */
static int join_range(struct sim_machine *m, const char *spec, struct err *e)
{
	unsigned int from, to;
	int used = 0;

	if (sscanf(spec, "%u-%u%n", &from, &to, &used) != 2 || spec[used] || from >= to ||
	    to >= (unsigned int)m->ncards)
		return err_set(e, -EINVAL,
			       "--nvlink %s: none, or FROM-TO with two of cards 0 to %d", spec,
			       m->ncards - 1);
	for (unsigned int a = from; a <= to; a++)
		for (unsigned int b = from; b <= to; b++)
			join(m, a, b);
	return 0;
}

/* As their board has it, unless told otherwise. */
static int add_nvlink(const struct cmd_ctx *ctx, struct sim_machine *m, struct err *e)
{
	const struct value *v = opts_value(ctx->opts, "nvlink");
	int r = 0;

	for (int i = 0; !v && i < m->ncards; i++)
		for (int j = 0; m->devs[i].nvlink_board && j < m->ncards; j++)
			if (!strcmp(m->devs[i].name, m->devs[j].name))
				join(m, (unsigned int)i, (unsigned int)j);
	if (!v || (v->words.n == 1 && !strcmp(v->words.texts[0], "none")))
		return 0;
	for (size_t i = 0; r == 0 && i < v->words.n; i++)
		r = join_range(m, v->words.texts[i], e);
	return r;
}

static const struct sim_model *model_of(const char *key, struct err *e)
{
	const struct sim_model *model = sim_model_find(key);
	struct strbuf b = STRBUF_INIT;

	if (model)
		return model;
	for (model = sim_models; model->key; model++)
		strbuf_addf(&b, "%s%s", model == sim_models ? "" : ", ", model->key);
	cleanup_free char *list = strbuf_take(&b);

	(void)err_set(e, -EINVAL, "there is no model \"%s\"; there are %s", key, list);
	return NULL;
}

static int add_devices(const struct cmd_ctx *ctx, struct sim_machine *m, struct err *e)
{
	const struct value *models = opts_value(ctx->opts, "model");
	const struct value *mem = opts_value(ctx->opts, "mem");
	const struct value *mig = opts_value(ctx->opts, "mig");
	uint64_t gpus = opts_value(ctx->opts, "gpus")->num;
	int r = 0;

	for (uint64_t i = 0; i < gpus; i++) {
		const struct sim_model *model =
			model_of(models->words.texts[i % models->words.n], e);

		if (!model)
			return -EINVAL;
		if (mem && mem->num <= (model->reserved_mib + 1024) * SIM_MIB)
			return err_set(e, -EINVAL, "--mem: a card needs at least 2G");
		add_card(m, model, mem ? mem->num : 0);
	}
	r = add_nvlink(ctx, m, e);
	for (size_t i = 0; r == 0 && mig && i < mig->words.n; i++)
		r = add_mig(m, mig->words.texts[i], e);
	return r;
}

static int make_node(const char *dir, const char *name, struct err *e)
{
	cleanup_free char *path = xasprintf("%s/%s", dir, name);
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

	if (fd < 0)
		return err_sys(e, errno, "cannot create %s", path);
	(void)close(fd);
	return 0;
}

static int make_nodes(const struct sim_machine *m, const char *dir, struct err *e)
{
	int r = mkdir(dir, 0700) < 0 ? err_sys(e, errno, "cannot create %s", dir) : 0;
	char name[32];

	if (r == 0)
		r = make_node(dir, "nvidiactl", e);
	if (r == 0)
		r = make_node(dir, "nvidia-uvm", e);
	for (int i = 0; r == 0 && i < m->ncards; i++)
		r = make_node(dir, str_print(name, sizeof(name), "nvidia%d", m->devs[i].minor), e);
	return r;
}

static int build(const struct cmd_ctx *ctx, const char *dir, struct err *e)
{
	cleanup_free char *path = xasprintf("%s/" SIM_FILE_NAME, dir);
	struct sim_machine *m;
	int r = sim_create(path, &m);

	if (r < 0)
		return err_sys(e, -r, "cannot create %s", path);
	if (!str_copy(m->dir, sizeof(m->dir), dir))
		return err_set(e, -ENAMETOOLONG, "%s is too long a path", dir);
	(void)str_print(m->nodes, sizeof(m->nodes), "%s/dev", dir);
	(void)str_print(m->nodes_private, sizeof(m->nodes_private), "%s/dev-private", dir);
	(void)str_copy(m->driver_version, sizeof(m->driver_version), DRIVER_VERSION);
	m->cuda_version = CUDA_VERSION;
	r = sim_parse_speed(opts_text(ctx->opts, "speed") ? opts_text(ctx->opts, "speed") : "1",
			    &m->scale, e);
	if (r == 0)
		r = add_devices(ctx, m, e);
	if (r == 0)
		r = make_nodes(m, m->nodes, e);
	return r < 0 ? r : make_nodes(m, m->nodes_private, e);
}

/* The directory of the simulated libraries, beside this executable or where it is installed. */
static char *library_dir(struct err *e)
{
	static const char *const places[] = { "sim", "../lib/tenure/sim", "../lib64/tenure/sim",
					      "../" SIM_LIBDIR "/tenure/sim" };
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n <= 0) {
		(void)err_sys(e, errno, "cannot find my own executable");
		return NULL;
	}
	self[n] = '\0';
	*strrchr(self, '/') = '\0';
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		cleanup_free char *dir = xasprintf("%s/%s", self, places[i]);
		cleanup_free char *lib = xasprintf("%s/libcuda.so.1", dir);

		if (access(lib, R_OK) == 0)
			return realpath(dir, NULL);
	}
	(void)err_set(e, -ENOENT,
		      "the simulated libraries are neither in %s/sim nor in %s/../lib/tenure/sim",
		      self, self);
	return NULL;
}

static void set_environment(const char *dir, const char *libs)
{
	const char *old = getenv("LD_LIBRARY_PATH");
	cleanup_free char *path = xasprintf("%s%s%s", libs, old && *old ? ":" : "", old ? old : "");
	cleanup_free char *file = xasprintf("%s/" SIM_FILE_NAME, dir);
	cleanup_free char *nodes = xasprintf("%s/dev", dir);
	cleanup_free char *state = xasprintf("%s/state", dir);

	(void)setenv("LD_LIBRARY_PATH", path, 1);
	(void)setenv("TENURE_SIM", file, 1);
	(void)setenv("TENURE_DEV_DIR", nodes, 1);
	(void)setenv("TENURE_RUNTIME_DIR", dir, 1); /* its sockets go with the machine */
	/* So do its queue and logs: what waits at home is not for cards that compute nothing. */
	(void)setenv("TENURE_ROOT", state, 0);
	(void)setenv("TENURE_STATE_DIR", state, 0);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)remove(path);
	return 0;
}

/* What of the terminal's own signals reached the child already; the others are passed on. */
static void pass_on(pid_t child, const siginfo_t *info)
{
	if (info->si_code <= 0)
		(void)kill(child, info->si_signo);
}

static int wait_for(pid_t child, const sigset_t *set)
{
	siginfo_t info;
	int status;

	for (;;) {
		if (waitpid(child, &status, WNOHANG) == child)
			return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
		if (sigwaitinfo(set, &info) > 0 && info.si_signo != SIGCHLD)
			pass_on(child, &info);
	}
}

static int run_command(char *const *argv, struct err *e)
{
	static const int signals[] = {
		SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2
	};
	sigset_t set, old;
	pid_t child;

	(void)sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_LEN(signals); i++)
		(void)sigaddset(&set, signals[i]);
	(void)sigprocmask(SIG_BLOCK, &set, &old);
	child = fork();
	if (child < 0)
		return err_sys(e, errno, "cannot start a process");
	if (child == 0) {
		(void)sigprocmask(SIG_SETMASK, &old, NULL);
		(void)execvp(argv[0], argv);
		(void)fprintf(stderr, "tenure: cannot run %s: %s\n", argv[0], strerror(errno));
		_exit(errno == ENOENT ? 127 : 126);
	}
	return wait_for(child, &set);
}

static char *make_dir(struct err *e)
{
	const char *places[] = { getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/tmp" };

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		char *dir;

		if (!places[i] || !*places[i])
			continue;
		dir = xasprintf("%s/tenure-sim-XXXXXX", places[i]);
		if (mkdtemp(dir))
			return dir;
		free(dir);
	}
	(void)err_sys(e, errno, "cannot create a directory in XDG_RUNTIME_DIR, TMPDIR or /tmp");
	return NULL;
}

/* ---- what is left on the machine ---- */

/* A block of texts, each with its NUL, has one that begins so, or is just that. */
static bool has_text(const char *block, size_t len, const char *text, bool whole)
{
	size_t n = strlen(text) + whole;

	for (const char *p = block; p < block + len; p += strlen(p) + 1)
		if (strncmp(p, text, n) == 0)
			return true;
	return false;
}

/* An agent, a guard, a holder, a shim, or a process of a task, on the machine of that mark. Other
 * programs that were started there are left alone. */
static bool is_ours(pid_t pid, const char *mark)
{
	cleanup_free char *env = NULL, *words = NULL;
	char path[64];
	const char *name;
	size_t len;

	(void)str_print(path, sizeof(path), "/proc/%d/environ", (int)pid);
	if (fs_read_file(path, ENVIRON_MAX, &env, &len, NULL) < 0 ||
	    !has_text(env, len, mark, true))
		return false;
	if (has_text(env, len, "TENURE_TASK_ID=", false))
		return true;
	(void)str_print(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	if (fs_read_file(path, ENVIRON_MAX, &words, &len, NULL) < 0)
		return false;
	name = strrchr(words, '/') ? strrchr(words, '/') + 1 : words;
	return str_has_prefix(words, "tenure") || str_has_prefix(name, "tenure");
}

/* How many there are. sig 0: they are counted alone. */
static size_t signal_ours(const char *mark, int sig)
{
	DIR *d = opendir("/proc");
	const struct dirent *entry;
	size_t n = 0;

	while (d && (entry = readdir(d))) {
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
		cleanup_fd int fd = pid > 0 && pid != getpid() ? proc_open(pid) : -1;

		if (pid <= 0 || pid == getpid() || (fd < 0 && !proc_lacks_call(fd)) ||
		    !is_ours(pid, mark))
			continue;
		n++;
		if (sig)
			(void)proc_signal_fd(fd, pid, sig);
	}
	if (d)
		(void)closedir(d);
	return n;
}

static bool end_by(const char *mark, int sig, uint64_t limit_ms)
{
	uint64_t until = clock_mono_ns() + limit_ms * NS_PER_MS;
	size_t n = signal_ours(mark, sig);

	while (n && clock_mono_ns() < until) {
		(void)usleep(END_LOOK_US);
		n = signal_ours(mark, sig == SIGKILL ? sig : 0);
	}
	return n == 0;
}

/* Agents, tasks and what holds for them: without their machine they are for nothing. */
static void end_ours(const char *dir)
{
	cleanup_free char *mark = xasprintf("TENURE_SIM=%s/" SIM_FILE_NAME, dir);

	if (!end_by(mark, SIGTERM, END_MS))
		(void)end_by(mark, SIGKILL, KILL_MS);
}

static int run_sim(const struct cmd_ctx *ctx, struct err *e)
{
	cleanup_free char *libs = library_dir(e);
	cleanup_free char *dir = libs ? make_dir(e) : NULL;
	int r;

	if (!dir)
		return -ENOENT;
	r = build(ctx, dir, e);
	if (r == 0) {
		set_environment(dir, libs);
		r = run_command(opts_argv(ctx->opts), e);
		end_ours(dir);
	}
	(void)nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	return r;
}

static const struct opt options[] = {
	{ .name = "gpus",
	  .short_name = 'n',
	  .spec = { VALUE_UINT, 0, 16 },
	  .arg = "N",
	  .def = "1",
	  .help = "how many cards; 0: a driver that finds none" },
	{ .name = "model",
	  .spec = { VALUE_WORDS },
	  .arg = "NAME",
	  .def = "h200",
	  .help = "h200, h100, a100-80, a100-40, l40s, a10, rtx4090, v100; several, separated by "
		  "commas, are taken in turn" },
	{ .name = "mem",
	  .spec = { VALUE_SIZE },
	  .arg = "SIZE",
	  .help = "memory of a card, instead of the model's" },
	{ .name = "mig",
	  .spec = { VALUE_WORDS },
	  .arg = "SPEC",
	  .help = "[CARD/]PROFILE[:COUNT]: card 0, or CARD, is in MIG mode with these instances" },
	{ .name = "nvlink",
	  .spec = { VALUE_WORDS },
	  .arg = "FROM-TO",
	  .help = "cards that NVLink joins, each with each: 0-1,2-3 are two pairs; none; without it "
		  "as on the model's board" },
	{ .name = "speed",
	  .spec = { VALUE_STRING },
	  .arg = "X",
	  .help = "time scale of the driver: 0 at once, 1 as measured on real cards (the default)" },
	{ 0 },
};

static const struct cmd_example examples[] = {
	{ "tenure sim --gpus 4 -- bash", "a shell on a machine with four H200" },
	{ "tenure sim --gpus 2 --model rtx4090 --speed 0 -- make test", "as fast as possible" },
	{ "tenure sim --mig 1g.18gb:7 -- bash", "one H200 cut into seven" },
	{ "tenure sim ctl foreign-memory 0 10G", "inside: somebody invisible uses 10 GiB" },
	{ 0 },
};

static const struct cmd *const subs[] = { &cmd_sim_ctl, NULL };

const struct cmd cmd_sim = {
	.name = "sim",
	.group = "Trying it out",
	.summary = "run a command on a simulated machine with GPUs",
	.args = "-- CMD [ARG...]",
	.words = { WORDS_COMMAND, WORDS_FILES, WORDS_COMMAND },
	.min_args = 1,
	.description =
		"Programs that CMD starts find a CUDA driver and NVML whose cards exist in a file "
		"only: memory, processes, utilisation, power and timing behave as measured on real "
		"ones, kernels take time and compute nothing. No privileges are needed and nothing "
		"outside CMD is touched: the machine has a queue and logs of its own, which go with "
		"it, unless TENURE_ROOT and TENURE_STATE_DIR say where these are. The agents and "
		"tasks on it end when CMD has. The exit code is that of CMD.",
	.examples = examples,
	.opts = options,
	.flags = CMD_STOP_AT_WORD | CMD_NO_SETTINGS,
	.subs = subs,
	.run = run_sim,
};
