/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_ELEMENTS_H
#define TENURE_SPOOL_ELEMENTS_H

/*
 * Tasks that are many: arrays, sweeps and lists of commands. The elements of task 42 are 42.1 to
 * 42.N, whatever the array's indices are; which index, parameters or command an element has is
 * computed from what the task says and never stored.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/strbuf.h"
#include "base/textlist.h"
#include "base/units.h"
#include "spool/ident.h"

#define SWEEP_PARAMETERS_MAX 16

/* The combinations of a sweep. -EINVAL: one that cannot be read; -ERANGE: too many. */
int sweep_count(const struct text_list *sweep, uint64_t *ret, struct err *e);

/* The array's index of an element (from 1); the element itself where there is no array. */
uint64_t element_index(const struct index_range *array, uint64_t element);

/*
 * The i-th parameter of a sweep for an element: its name and value, both terminated. false behind
 * the last. The last parameter changes fastest.
 */
bool element_parameter(const struct text_list *sweep, uint64_t element, size_t i,
		       char name[SPEC_NAME_MAX + 1], char *value, size_t value_size);

/*
 * The path of a task's output with what stands for its names: %j (42, or 42.7 of an element), %A
 * (42), %a (the element's index; 0: it is none), %x (its name), %N (the node), %u (the user), %%.
 * words NULL: it is only checked. -EINVAL: another one.
 */
struct output_words {
	uint64_t id, element, index;
	const char *name, *node, *user;
};

int output_path(const char *pattern, const struct output_words *words, struct strbuf *ret,
		struct err *e);

/* Whether a variable of the environment can be called so: letters, digits and _, no digit first. */
bool elements_is_variable(const char *name, size_t len);

#endif
