/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_TRUST_H
#define TENURE_SPOOL_TRUST_H

/*
 * Whose instance is it? What lies in one is run with the rights of whoever serves it, so only his
 * own word counts, and never what the instance says of itself: the settings accept_owners and
 * trust. All is judged by descriptors, so that what was judged is what is used.
 */

#include "base/err.h"
#include "base/settings.h"
#include "spool/spool.h"

/* The setting trust. */
enum trust_setting {
	TRUST_OWNER,	/* files of ours and of accepted owners count */
	TRUST_DIRECTORY /* where instance.json says so, everybody's who can write there */
};

/* By the user whose process this is; zeroed: nobody but himself. */
struct spool_trust {
	const struct text_list *accepted; /* names or numbers of users; NULL: none */
	enum trust_setting setting;
};

/* What s says; valid as long as s. */
struct spool_trust trust_from_settings(const struct settings *s);

/* Look up whom it accepts; names that nobody has, which settings_check() refuses, are none. May ask
 * a directory service. */
void trust_take(struct spool *sp, const struct spool_trust *trust);
void trust_clear(struct spool *sp);

/*
 * The instance's directory (sp->fd) and the one that it is in: 0, or -EPERM with whose it is, what
 * would happen, and how to accept it. SPOOL_LOOK: the directory's owner is accepted.
 */
int trust_check_dirs(struct spool *sp, int root_fd, const char *root, struct err *e);
/* The same of a file that decides what is run, instance.json. */
int trust_check_file(const struct spool *sp, int fd, const char *file, struct err *e);
/* What cannot even be opened: -EPERM where it is another user's, with the same text, or, for who
 * only looks, one that says that he cannot; else 0. */
int trust_check_name(const struct spool *sp, int dir_fd, const char *name, struct err *e);

#endif
