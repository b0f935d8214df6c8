/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_NEEDS_H
#define TENURE_BASE_NEEDS_H

/*
 * What the running program has to find where it runs: a copy for other machines works only where
 * all of that is. It is read from the program's own headers in memory (ELF, elf(5)), so that no
 * file is touched; libraries that are loaded later by name, the driver's above all, are not in it.
 */

#include <stdbool.h>

#include "base/textlist.h"

struct needs {
	/* Libraries by their SONAME, without those of the C library itself. */
	struct text_list libraries;
	/* The oldest glibc that will do, "2.28"; empty: it is not linked against glibc, or
	 * statically. */
	char glibc[16];
};

void needs_of_program(struct needs *ret);
void needs_clear(struct needs *n);

/*
 * Of a name of a symbol's version, "GLIBC_2.34": where it is a glibc's, and a later one than text
 * has, text becomes its number.
 */
void needs_add_version(char text[16], const char *version);
/* It comes with every glibc: "libc.so.6", "libpthread.so.0", the loader. */
bool needs_is_of_libc(const char *soname);

#endif
