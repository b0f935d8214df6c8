/* SPDX-License-Identifier: MIT */
#include "base/signame.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"

const char *signal_name(int signum)
{
	return signum > 0 && signum < NSIG ? sigabbrev_np(signum) : NULL;
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
