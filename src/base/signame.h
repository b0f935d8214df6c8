/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_SIGNAME_H
#define TENURE_BASE_SIGNAME_H

#include "base/err.h"

/* Signals by name: USR1, SIGUSR1, usr1 and 10 are the same. The number, or -EINVAL with e. */
int signal_parse(const char *text, struct err *e);
/* "USR1"; NULL: there is no such signal, or it has no name (real-time signals). */
const char *signal_name(int signum);

#endif
