/* SPDX-License-Identifier: MIT */
#ifndef TENURE_COMPAT_ABOUT_H
#define TENURE_COMPAT_ABOUT_H

/*
 * What a program says of itself, once: `--help`, its man page (PROGRAM --man, which the build
 * calls) and its completions (PROGRAM --completion SHELL, likewise) are made from the same struct.
 * Texts are paragraphs separated by an empty line; all lists end with a row without name.
 */

#include "base/opts.h"

struct about_row {
	const char *name, *what;
};

struct about {
	const char *name, *summary;
	const struct about_row *usages; /* name: what is typed behind the program's name */
	bool has_commands;		/* that is a command, and no argument */
	bool takes_files;		/* its arguments are files */
	const char *description;
	const struct opt *opts;
	const struct about_row *examples, *files, *exits, *variables;
	const struct about_row *see; /* pages: name, section */
};

/* The caller frees them. */
char *about_help(const struct about *a);
char *about_page(const struct about *a);

/* What the build asks for, --man or --completion SHELL, is the only thing that is asked: it is
 * printed. */
bool about_prints(const struct about *a, int argc, char **argv);

#endif
