/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_CONFIG_H
#define TENURE_BASE_CONFIG_H

/*
 * Config files: YAML, or JSON (which YAML contains). A file is one flat mapping of keys to scalars
 * or to lists of scalars, but for blocks, which are read apart. What the keys mean is the caller's
 * business (settings.c); this reads them and tells where they stand.
 *
 * Every error begins with "file:line:column: ".
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define CONFIG_SIZE_MAX (256UL * 1024)

struct config_entry {
	const char *key;
	const char *text; /* the items of a list are joined by commas */
	bool is_list;
	bool is_null;  /* "key:" with nothing behind it */
	bool is_block; /* a mapping, or a list of more than words: config_read_block() reads it */
	const char *file;
	int line; /* of the key and of the value, from 1 */
	int column;
	int value_line;
	int value_column;
};

/* Called for each key in the order of the file; a negative value ends that and is returned. */
typedef int (*config_fn)(const struct config_entry *entry, void *user, struct err *e);

/* Parse text, which ends with a NUL behind its len bytes, as the content of file. 0, -EINVAL, or
 * what fn returned. */
int config_parse(const char *file, const char *text, size_t len, config_fn fn, void *user,
		 struct err *e);
/* The same where a value may be a mapping itself: its keys are told as "outer.inner". */
int config_parse_nested(const char *file, const char *text, size_t len, config_fn fn, void *user,
			struct err *e);
/* The same as config_parse() for a file on disk, where an entry may be a block. -ENOENT when there
 * is none; other errors of fs_read_file(). */
int config_read(const char *path, config_fn fn, void *user, struct err *e);
/* The same for one whose word is the user's own: errors of fs_read_own_file(). */
int config_read_own(const char *path, config_fn fn, void *user, struct err *e);

/* Called with what is wrong with the entry of that key (NULL: of the whole file), also where fn
 * said so; 0: go on behind it. */
typedef int (*config_fault_fn)(const char *key, void *user, struct err *e);
/* The same for who wants to know all that is wrong. What is no YAML has one mistake, where it
 * ends. */
int config_read_all(const char *path, config_fn fn, config_fault_fn fault, void *user,
		    struct err *e);

/*
 * What one key of a file on disk has, of whatever form, as JSON, whose scalars are all texts (or
 * null); own: as config_read_own(). 0 and the caller's reference, or NULL: there is no such key.
 * Errors as those of config_read().
 */
int config_read_block(const char *path, bool own, const char *key, json_t **ret, struct err *e);

/* Put "file:line:column: " of the entry's key or value in front of the text. Returns e's code. */
int config_at_key(const struct config_entry *entry, struct err *e);
int config_at_value(const struct config_entry *entry, struct err *e);

#endif
