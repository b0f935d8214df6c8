/* SPDX-License-Identifier: MIT */
#include "hold/guard/holder_process.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/sock.h"
#include "base/str.h"

extern char **environ;

/* Variables that a holder has of its own, in front of those it inherits. */
static const char *const own_variables[] = { "CUDA_VISIBLE_DEVICES=",  "CUDA_CACHE_DISABLE=",
					     "CUDA_DEVICE_ORDER=",     "CUDA_MODULE_LOADING=",
					     "CUDA_INJECTION64_PATH=", "CUDA_LAUNCH_BLOCKING=",
					     "CUDA_DISABLE_PTX_JIT=" };

static bool is_own_variable(const char *entry)
{
	for (size_t i = 0; i < ARRAY_LEN(own_variables); i++)
		if (str_has_prefix(entry, own_variables[i]))
			return true;
	return false;
}

/* To be freed by the caller; strings are borrowed. */
static const char **make_environment(const char *visible)
{
	const char *own[] = {
		visible,
		"CUDA_CACHE_DISABLE=1",
		"CUDA_MODULE_LOADING=LAZY",
		/* Launches that wait would keep the load from being told to stop. */
		"CUDA_LAUNCH_BLOCKING=0",
	};
	size_t n = 0, n_inherited = 0;

	while (environ[n_inherited])
		n_inherited++;

	const char **env = xcalloc(ARRAY_LEN(own) + n_inherited + 1, sizeof(*env));

	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		env[n++] = own[i];
	for (size_t i = 0; i < n_inherited; i++)
		if (!is_own_variable(environ[i]))
			env[n++] = environ[i];
	return env;
}

/* In the child: only what is safe after fork() in a process with threads. */
static _Noreturn void become_holder(int self_fd, int sock, const char *const *env)
{
	static const char *const argv[] = { HOLDER_ARGV0, NULL };
	sigset_t none;

	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	if (sock == HOLDER_FD) {
		(void)fcntl(sock, F_SETFD, 0);
	} else if (dup2(sock, HOLDER_FD) < 0) {
		_exit(127);
	}
	(void)fexecve(self_fd, (char *const *)(uintptr_t)argv, (char *const *)(uintptr_t)env);
	_exit(127);
}

static void send_hold(struct device *d, const struct hold_policy *p)
{
	struct holder_msg m = { .version = HPROTO_VERSION,
				.type = HOLDER_HOLD,
				.amount = p->memory,
				.load = p->load,
				.duty_permille = d->load.duty_permille,
				.burn = p->burn };

	d->load.told = (enum load_kind)p->load;
	d->load.told_duty = d->load.duty_permille;
	d->load.told_burn = p->burn;
	if (sock_send(d->holder.fd, &m, sizeof(m)) < 0)
		holder_kill(d);
}

static void begin_hold(struct device *d, const struct hold_policy *p)
{
	d->load.resting = false;
	d->load.phase_ns = d->holder.started_ns;
	d->load.duty_permille = p->util * 10U;
	send_hold(d, p);
}

int holder_start(struct guard *g, struct device *d, struct err *e)
{
	const struct hold_policy *p = device_policy(g, d);
	cleanup_free char *visible = xasprintf("CUDA_VISIBLE_DEVICES=%s", d->id.uuid);
	cleanup_free const char **env = make_environment(visible);
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return err_sys(e, errno, "socket pair for a holder");

	pid_t pid = fork();

	if (pid == 0)
		become_holder(g->self_fd, pair[1], env);

	int errnum = errno;

	(void)fd_close(pair[1]);
	if (pid < 0) {
		(void)fd_close(pair[0]);
		return err_sys(e, errnum, "cannot start a holder");
	}
	d->holder =
		(struct holder_proc){ .pid = pid, .fd = pair[0], .started_ns = clock_mono_ns() };
	begin_hold(d, p);
	return 0;
}

void holder_again(struct guard *g, struct device *d)
{
	d->holder.kept = false;
	d->holder.end_at_ns = 0;
	d->holder.asked_ns = 0;
	d->holder.started_ns = clock_mono_ns();
	begin_hold(d, device_policy(g, d));
}

static void send_msg(struct device *d, const struct holder_msg *m)
{
	if (d->holder.fd < 0 || sock_send(d->holder.fd, m, sizeof(*m)) < 0)
		holder_kill(d);
}

void holder_tell(struct device *d, enum holder_type type)
{
	struct holder_msg m = { .version = HPROTO_VERSION, .type = (uint16_t)type };

	if (d->holder.pid && !d->holder.ending)
		send_msg(d, &m);
	if (type == HOLDER_END)
		d->holder.ending = true;
}

static void await_last_word(struct device *d)
{
	if (d->load.told == LOAD_BURN)
		d->load.closing_id = d->load.told_burn.id;
}

void holder_close_burn(struct device *d)
{
	if (d->load.told != LOAD_BURN)
		return;
	await_last_word(d);
	holder_tell(d, HOLDER_CLOSE);
	d->load.told = LOAD_NONE;
}

void holder_tell_load(struct device *d, const struct hold_policy *p, enum load_kind kind)
{
	const uint32_t duty_permille = d->load.duty_permille;
	struct holder_msg m = { .version = HPROTO_VERSION,
				.type = HOLDER_LOAD,
				.load = kind,
				.duty_permille = duty_permille,
				.burn = p->burn };

	if (d->holder.pid && kind != LOAD_BURN)
		await_last_word(d);
	if (!d->holder.pid || (d->load.told == kind && d->load.told_duty == duty_permille &&
			       memcmp(&d->load.told_burn, &p->burn, sizeof(p->burn)) == 0))
		return;
	d->load.told = kind;
	d->load.told_duty = duty_permille;
	d->load.told_burn = p->burn;
	send_msg(d, &m);
}

void holder_tell_amount(struct device *d, const struct mem_amount *amount)
{
	struct holder_msg m = { .version = HPROTO_VERSION,
				.type = HOLDER_AMOUNT,
				.amount = *amount };

	if (d->holder.pid && !d->holder.ending)
		send_msg(d, &m);
}

void holder_tell_peers(struct device *d, const struct burn_peers *all)
{
	struct holder_msg m = { .version = HPROTO_VERSION, .type = HOLDER_PEERS, .peers = *all };

	if (d->holder.pid && !d->holder.ending)
		send_msg(d, &m);
}

void holder_heartbeat(struct device *d, uint64_t now_ns)
{
	struct holder_msg m = { .version = HPROTO_VERSION, .type = HOLDER_HEARTBEAT };

	if (d->holder.fd < 0 || d->holder.ending ||
	    now_ns - d->holder.node_watch_ns < HOLDER_HEARTBEAT_MS * NS_PER_MS)
		return;
	d->holder.node_watch_ns = now_ns;
	d->holder.unanswered++;
	(void)sock_send(d->holder.fd, &m, sizeof(m)); /* full: those before it wait there */
}

void holder_kill(struct device *d)
{
	/* Not yet waited for, so the number is still that of our child. */
	if (d->holder.pid > 0)
		(void)kill(d->holder.pid, SIGKILL);
}

bool holder_has_ended(const struct device *d)
{
	siginfo_t info = { .si_pid = 0 };

	return d->holder.pid > 0 &&
	       waitid(P_PID, (id_t)d->holder.pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       info.si_pid == d->holder.pid;
}

bool holder_reap(struct device *d, int *ret_status)
{
	if (d->holder.pid <= 0 || waitpid(d->holder.pid, ret_status, WNOHANG) != d->holder.pid)
		return false;
	(void)fd_close(d->holder.fd);
	d->holder = (struct holder_proc){ .fd = -1 };
	d->load.closing_id = 0;
	return true;
}
