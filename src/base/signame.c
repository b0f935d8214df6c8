/* SPDX-License-Identifier: MIT */
#include "base/signame.h"

#include <errno.h>
#include <signal.h>
#include <strings.h>

#include "base/str.h"

/* Those of signal(7). sigabbrev_np() is younger than the C library of many compute nodes
 * (glibc 2.32). */
const char *signal_name(int signum)
{
	static const char *const names[NSIG] = {
		[SIGHUP] = "HUP",	[SIGINT] = "INT",	[SIGQUIT] = "QUIT",
		[SIGILL] = "ILL",	[SIGTRAP] = "TRAP",	[SIGABRT] = "ABRT",
		[SIGBUS] = "BUS",	[SIGFPE] = "FPE",	[SIGKILL] = "KILL",
		[SIGUSR1] = "USR1",	[SIGSEGV] = "SEGV",	[SIGUSR2] = "USR2",
		[SIGPIPE] = "PIPE",	[SIGALRM] = "ALRM",	[SIGTERM] = "TERM",
		[SIGSTKFLT] = "STKFLT", [SIGCHLD] = "CHLD",	[SIGCONT] = "CONT",
		[SIGSTOP] = "STOP",	[SIGTSTP] = "TSTP",	[SIGTTIN] = "TTIN",
		[SIGTTOU] = "TTOU",	[SIGURG] = "URG",	[SIGXCPU] = "XCPU",
		[SIGXFSZ] = "XFSZ",	[SIGVTALRM] = "VTALRM", [SIGPROF] = "PROF",
		[SIGWINCH] = "WINCH",	[SIGPOLL] = "POLL",	[SIGPWR] = "PWR",
		[SIGSYS] = "SYS",
	};

	return signum > 0 && signum < NSIG ? names[signum] : NULL;
}

int signal_parse(const char *text, struct err *e)
{
	const char *word = strncasecmp(text, "SIG", 3) == 0 ? text + 3 : text;
	uint64_t number;

	if (str_to_u64(text, &number) == 0 && number < NSIG && signal_name((int)number))
		return (int)number;
	for (int i = 1; i < NSIG; i++) {
		const char *known = signal_name(i);

		if (known && strcasecmp(known, word) == 0)
			return i;
	}
	return err_set(e, -EINVAL,
		       "\"%.80s\" is no signal; write a name like TERM, INT or USR1, or its number",
		       text);
}
