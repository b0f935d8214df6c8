/* SPDX-License-Identifier: MIT */

/*
 * The child: NVML, the list, a look at each card and all of its counters, those that were asked for
 * first. What is so at this moment only (heat, a slower clock) is looked at again for two seconds,
 * so that a card is not called bad for a peak. Then what the kernel knows, and at last, where
 * --cuda asks for it, a child of its own for each idle card, all at once.
 */
#include "cli/doctor/health_pass.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/limited.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "base/units.h"
#include "gpu/card_sign.h"
#include "gpu/xid_log.h"
#include "hold/holder/trial.h"

#define AGAIN_NS    (2 * NS_PER_S)
#define AGAIN_EVERY (250 * NS_PER_MS)
#define REST_NS	    (500 * NS_PER_MS)  /* for what comes behind that */
#define CUDA_NS	    (1500 * NS_PER_MS) /* and for --cuda */
#define USERS_NAMED 3
#define REAP_NS	    (200 * NS_PER_MS) /* for a child that was killed, which a driver may keep */
#define ENDED_NS    (2 * NS_PER_S)    /* for one that ended by itself */
#define PCI_DIR	    "/sys/bus/pci/devices"
#define DRIVER_DIR  "/proc/driver/nvidia/gpus"
#define MODULE_FILE "/sys/module/nvidia/version"

/* -------- which -------- */

static bool names_card(const struct gpu_pick *pick, const struct gpu_list *list,
		       const struct health_card *c)
{
	if (!pick->by_uuid)
		return c->dev.index == pick->index;
	for (uint32_t i = 0; i < list->n; i++)
		if (list->d[i].index == c->dev.index && str_has_prefix(list->d[i].uuid, pick->uuid))
			return true;
	return false;
}

static bool names_failed(const struct gpu_pick *pick, const struct gpu_failed *f)
{
	return !pick->by_uuid && f->index == pick->index;
}

static void note_unknown(struct health_pass *p, const struct gpu_pick *pick)
{
	char *word = p->unknown[p->n_unknown];

	if (p->n_unknown == HEALTH_WORDS_MAX)
		return;
	if (pick->by_uuid)
		(void)str_copy(word, GPU_UUID_MAX, pick->uuid);
	else
		(void)str_print(word, GPU_UUID_MAX, "GPU %u", (unsigned int)pick->index);
	p->n_unknown++;
}

static void select_pick(struct health_pass *p, const struct gpu_pick *pick)
{
	bool found = false;

	for (uint32_t i = 0; i < p->n; i++)
		if (names_card(pick, &p->list, &p->cards[i]))
			found = p->cards[i].selected = true;
	for (uint32_t i = 0; i < p->list.n_failed; i++)
		if (names_failed(pick, &p->list.failed[i]))
			found = p->failed_selected[i] = true;
	if (!found)
		note_unknown(p, pick);
}

static void select_cards(struct health_pass *p, const struct gpu_picks *picks)
{
	for (uint32_t i = 0; i < p->list.n; i++)
		if (p->list.d[i].mig < 0 && p->n < GPU_DEVICES_MAX)
			p->cards[p->n++] =
				(struct health_card){ .dev = p->list.d[i], .persistence = true };
	for (uint32_t i = 0; !picks && i < p->n; i++)
		p->cards[i].selected = true;
	for (uint32_t i = 0; !picks && i < p->list.n_failed; i++)
		p->failed_selected[i] = true;
	for (size_t i = 0; picks && i < picks->n; i++)
		select_pick(p, &picks->picks[i]);
}

/* -------- NVML -------- */

/* Of the driver in the kernel, where NVML says no more than that it does not fit or is not there.
 */
static void add_module(struct health_pass *p, const char *dev_dir)
{
	cleanup_free char *text = NULL;
	size_t len, used = strlen(p->trouble);

	if (strcmp(dev_dir, "/dev") != 0)
		return;
	if (fs_read_file(MODULE_FILE, 256, &text, &len, NULL) < 0) {
		(void)str_print(p->trouble + used, sizeof(p->trouble) - used,
				" (the kernel has no module nvidia loaded)");
		return;
	}
	text[strcspn(text, "\n")] = '\0';
	(void)str_print(p->trouble + used, sizeof(p->trouble) - used,
			" (the module in the kernel is %s)", text);
}

static int set_trouble(struct health_pass *p, int code, const struct err *e)
{
	(void)str_copy(p->trouble, sizeof(p->trouble), e->text);
	p->code = code;
	return code;
}

static int open_nvml(struct health_pass *p, struct nvml *n, const struct health_order *order)
{
	struct err e = ERR_INIT;
	int r = nvml_load(n, &e);

	if (r < 0)
		return set_trouble(p, r, &e);
	p->stage = STAGE_START;
	r = nvml_start(n, &e);
	if (r < 0) {
		(void)set_trouble(p, r, &e);
		add_module(p, order->dev_dir);
		return r;
	}
	if (!n->driver_version || n->driver_version(p->driver, sizeof(p->driver)) != NVML_SUCCESS)
		p->driver[0] = '\0';
	p->stage = STAGE_LIST;
	r = gpu_enumerate(n, &p->list, &e);
	/* With none, or none that answers, there is still something to be told. */
	if (r < 0 && r != -ENODEV && !p->list.n_failed)
		return set_trouble(p, r, &e);
	select_cards(p, order->picks);
	return 0;
}

/* -------- a look -------- */

static void judge_use(struct health_card *c, const struct gpu_look *look,
		      const struct health_order *order)
{
	const char *unfit = gpu_unfit(&c->dev, look);

	c->persistence = !(look->valid & GPU_VALID_PERSISTENCE) || look->persistence;
	if (!order->cuda)
		return;
	c->trial = TRIAL_BUSY;
	if (unfit)
		(void)str_copy(c->trial_words, sizeof(c->trial_words), unfit);
	else if (!(look->valid & GPU_VALID_PROCS))
		(void)str_copy(c->trial_words, sizeof(c->trial_words),
			       "whether somebody uses it cannot be seen");
	else if (look->procs.n_total || look->used > order->idle_below)
		(void)str_copy(c->trial_words, sizeof(c->trial_words), "somebody uses it");
	else
		c->trial = TRIAL_RUNS; /* soon */
}

static void name_users(struct health_card *c, const struct gpu_look *look,
		       const struct health_order *order)
{
	const uint32_t n = look->valid & GPU_VALID_PROCS ? look->procs.n : 0;
	char gib[UNIT_TEXT_MAX];
	size_t len = 0;

	c->users[0] = '\0';
	for (uint32_t i = 0; i < n && i < USERS_NAMED; i++) {
		struct proc_peek who = { .comm = "?" };

		(void)proc_peek(look->procs.p[i].pid, &who);
		(void)str_print(c->users + len, sizeof(c->users) - len, "%sPID %d (%s)",
				len ? ", " : "", (int)look->procs.p[i].pid, who.comm);
		len = strlen(c->users);
	}
	if (n > USERS_NAMED)
		(void)str_print(c->users + len, sizeof(c->users) - len, " and %u more",
				(unsigned int)(n - USERS_NAMED));
	if (!n && look->valid & GPU_VALID_MEM && look->used > order->idle_below)
		(void)str_print(c->users, sizeof(c->users),
				"%s of its memory, by whom cannot be seen",
				unit_format_gib(look->used, gib));
}

/* Of a card whose memory cannot be asked. That this may not be (of one in MIG mode only root is
 * told) or does not exist (where it is the host's) says nothing of how it is. */
static bool is_lost(int r)
{
	return r == -ENODEV || r == -EIO;
}

static void look_at(struct health_pass *p, struct health_card *c, const struct nvml *n,
		    const struct health_order *order)
{
	struct gpu_look look = { .valid = 0 };
	struct err e = ERR_INIT;

	p->stage = STAGE_LOOK;
	p->at = (int)c->dev.index;
	if (!c->selected) { /* what the others are compared with */
		gpu_health_read(n, &c->dev, HEALTH_PART_LINKS, &c->health);
		return;
	}
	if (is_lost(gpu_look_at(n, &c->dev, GPU_LOOK_MEMORY, &look, &e))) {
		(void)str_copy(c->trouble, sizeof(c->trouble), e.text);
	} else {
		/* Whose it is may be hidden, which says nothing of how it is. */
		(void)gpu_look_at(n, &c->dev, GPU_LOOK_ALL, &look, NULL);
		judge_use(c, &look, order);
		if (order->free)
			name_users(c, &look, order);
		gpu_health_read_all(n, &c->dev, &c->health);
	}
	c->seen = true;
}

static bool is_moment(const struct health_card *c)
{
	struct card_signs signs;

	card_signs(NULL, &c->health, CARD_MOMENT, &signs);
	return signs.n > 0;
}

/* What it was slowed down by, and who has used it, is forgotten as soon as one look does not find
 * it so. */
static bool look_again(struct health_card *c, const struct nvml *n,
		       const struct health_order *order)
{
	struct gpu_look look = { .valid = 0 };

	if (!c->selected)
		return false;
	if (is_moment(c))
		gpu_health_read(n, &c->dev, HEALTH_PART_CLOCKS, &c->health);
	if (c->users[0]) {
		(void)gpu_look_at(n, &c->dev, GPU_LOOK_PROCS, &look, NULL);
		name_users(c, &look, order);
	}
	return is_moment(c) || c->users[0];
}

/* Where there is no time for that nobody is called bad for it. */
static void make_sure(struct health_pass *p, const struct nvml *n, const struct health_order *order)
{
	const struct timespec nap = clock_timespec(AGAIN_EVERY);
	const uint64_t until = clock_mono_ns() + AGAIN_NS;
	const bool can = until + REST_NS + (order->cuda ? CUDA_NS : 0) < p->until_ns;
	bool any = can, last = false;

	p->stage = STAGE_AGAIN;
	p->at = -1;
	/* The last look is one after all of the time, however little of it we had. */
	while (any && !last) {
		last = clock_mono_ns() >= until;
		any = false;
		for (uint32_t i = 0; i < p->n; i++) {
			p->at = (int)p->cards[i].dev.index;
			any = look_again(&p->cards[i], n, order) || any;
		}
		p->at = -1;
		if (any && !last)
			(void)nanosleep(&nap, NULL);
	}
	for (uint32_t i = 0; can && i < p->n; i++)
		p->cards[i].stays = is_moment(&p->cards[i]) || p->cards[i].users[0];
}

/* -------- the kernel -------- */

static void ask_kernel(struct health_pass *p, const struct health_order *order)
{
	const bool is_here = !strcmp(order->dev_dir, "/dev") && !proc_in_container();
	const struct gpu_places places = { .dev_dir = order->dev_dir,
					   .pci_dir = is_here ? PCI_DIR : NULL,
					   .driver_dir = DRIVER_DIR };
	cleanup_free char *path = xasprintf("%s/kmsg", order->dev_dir);
	cleanup_free struct xid_log *log = xcalloc(1, sizeof(*log));

	p->stage = STAGE_NODES;
	p->log_read = xid_log_read(path, log) == 0;
	p->log_from_us = log->from_us;
	for (uint32_t i = 0; i < p->n; i++) {
		const struct xid_log_card *x = xid_log_find(log, p->cards[i].dev.bus_id);

		p->cards[i].xid = x ? x->xid : 0;
		p->cards[i].xid_us = x ? x->at_us : 0;
	}
	p->n_missing = gpu_find_missing(&p->list, &places, p->missing);
}

/* -------- CUDA -------- */

static _Noreturn void be_trial(struct health_card *c)
{
	const uint64_t began = clock_mono_ns();
	uint64_t compared = 0;
	struct err e = ERR_INIT;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);

	int r = trial_run(c->dev.uuid, &compared, &e);

	(void)str_copy(c->trial_words, sizeof(c->trial_words), r < 0 ? e.text : "");
	c->trial_compared = compared;
	c->trial_ns = clock_mono_ns() - began;
	c->trial = r == 0			  ? TRIAL_GOOD
		   : r == -ENOENT || r == -ENOSYS ? TRIAL_IMPOSSIBLE
		   : r == -ENOMEM		  ? TRIAL_BUSY
						  : TRIAL_BAD;
	_exit(0);
}

static void end_trial(struct health_card *c, pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (c->trial != TRIAL_RUNS)
		return;
	(void)str_print(c->trial_words, sizeof(c->trial_words), "the driver ended it (signal %d)",
			WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	c->trial = TRIAL_BAD;
}

static void try_cuda(struct health_pass *p, const struct nvml *n)
{
	pid_t pids[GPU_DEVICES_MAX];

	p->stage = STAGE_CUDA;
	for (uint32_t i = 0; i < p->n; i++) {
		struct health_card *c = &p->cards[i];

		pids[i] = c->trial == TRIAL_RUNS ? fork() : 0;
		if (c->trial == TRIAL_RUNS && pids[i] == 0)
			be_trial(c);
		if (pids[i] < 0) {
			(void)str_copy(c->trial_words, sizeof(c->trial_words),
				       "no process can be made for it");
			c->trial = TRIAL_IMPOSSIBLE;
		}
	}
	for (uint32_t i = 0; i < p->n; i++)
		if (pids[i] > 0)
			end_trial(&p->cards[i], pids[i]);
	/* Its link is awake for some seconds. */
	for (uint32_t i = 0; i < p->n; i++)
		if (p->cards[i].trial == TRIAL_GOOD)
			gpu_health_read(n, &p->cards[i].dev, HEALTH_PART_PCIE, &p->cards[i].health);
}

/* -------- both processes -------- */

static void look_at_all(struct health_pass *p, const struct health_order *order)
{
	struct nvml n;

	if (open_nvml(p, &n, order) < 0)
		return;
	for (int selected = 1; selected >= 0; selected--)
		for (uint32_t i = 0; i < p->n; i++)
			if (p->cards[i].selected == (selected == 1))
				look_at(p, &p->cards[i], &n, order);
	make_sure(p, &n, order);
	ask_kernel(p, order);
	if (order->cuda)
		try_cuda(p, &n);
	p->stage = STAGE_DONE;
}

/* Its own process group: what it has started is killed with it. */
static _Noreturn void be_child(struct health_pass *p, const struct health_order *order, int fd,
			       pid_t parent)
{
	limited_enter(fd, parent);
	look_at_all(p, order);
	_exit(0);
}

static void reap(struct health_pass *p, pid_t pid, uint64_t limit_ns)
{
	const struct timespec nap = clock_timespec(5 * NS_PER_MS);
	const uint64_t until = clock_mono_ns() + limit_ns;
	int status = 0;
	pid_t r;

	while ((r = waitpid(pid, &status, WNOHANG)) == 0 && clock_mono_ns() < until)
		(void)nanosleep(&nap, NULL);
	p->signal = r == pid && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void wait_for(struct health_pass *p, pid_t pid, int fd)
{
	struct pollfd end = { .fd = fd, .events = POLLIN };
	uint64_t now;
	int r = 0;

	while ((now = clock_mono_ns()) < p->until_ns && r <= 0)
		r = poll(&end, 1, (int)((p->until_ns - now) / NS_PER_MS) + 1);
	p->timed_out = clock_mono_ns() >= p->until_ns && p->stage != STAGE_DONE;
	/* And what it has started; as long as it was not waited for, the number is its own. */
	(void)kill(-pid, SIGKILL);
	(void)kill(pid, SIGKILL);
	reap(p, pid, r > 0 ? ENDED_NS : REAP_NS);
	p->died = !p->timed_out && p->stage != STAGE_DONE && p->code == 0;
}

/* 0, or -errno and e. */
static int ask(struct health_pass *p, const struct health_order *order, struct err *e)
{
	const pid_t self = getpid();
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, errno, "a pipe to the process that asks the driver");

	cleanup_fd int read_end = ends[0], write_end = ends[1];
	pid_t pid = fork();

	if (pid < 0)
		return err_sys(e, errno, "start a process that asks the driver");
	if (pid == 0)
		be_child(p, order, write_end, self);
	write_end = fd_close(write_end);
	wait_for(p, pid, read_end);
	return 0;
}

int health_pass_run(const struct health_order *order, struct health_pass **ret, struct err *e)
{
	const uint64_t began = clock_mono_ns();
	struct err why = ERR_INIT;
	struct health_pass *p;
	int r;

	p = mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return err_sys(e, errno, "memory to look in");
	p->until_ns = began + order->timeout_ms * NS_PER_MS;
	p->at = -1;
	r = ask(p, order, &why);
	if (r < 0)
		(void)set_trouble(p, r, &why);
	p->took_ns = clock_mono_ns() - began;
	*ret = p;
	return 0;
}

struct health_pass *health_pass_free(struct health_pass *p)
{
	if (p)
		(void)munmap(p, sizeof(*p));
	return NULL;
}
