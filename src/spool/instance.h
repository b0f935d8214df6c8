/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_INSTANCE_H
#define TENURE_SPOOL_INSTANCE_H

/*
 * An instance's directory (docs/spool.md). Everything is reached from one descriptor, so that an
 * open spool goes on working when the root is renamed.
 *
 *	root = spool_root(settings_str(s, SET_ROOT));
 *	trust = trust_from_settings(s);
 *	r = spool_open(root, "default", &trust, SPOOL_CREATE, &sp, &e);
 *	... submit_task(), scan_update(), claim_task(), transit_end() ...
 *	sp = spool_close(sp);
 *
 * A struct spool may be used by one thread at a time, or by several that only read what lies there
 * (spool_read(), spool_each(), lines_read()).
 *
 * Whose instance is it? What lies in one is run with the rights of whoever serves it, so only his
 * own word counts, and never what the instance says of itself: the settings accept_owners and
 * trust. All is judged by descriptors, so that what was judged is what is used.
 */

#include "base/err.h"
#include "base/settings.h"
#include "spool/files.h"

#define SPOOL_FORMAT 1

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

#define SPOOL_CREATE (1u << 0) /* make the instance when it is not there */
/* Only to show what is there: another user's is opened, too, and nothing may be written. */
#define SPOOL_LOOK (1u << 1)

/* What instance.json says: 0 and whether it trusts everybody who can write there; -EINVAL, -EPROTO.
 * path is the instance's, for the text of an error. */
int spool_parse_instance(const char *path, const char *text, size_t len, bool *ret_trusts_all,
			 struct err *e);

/*
 * -ENOENT: no such instance (without SPOOL_CREATE), as is known for good; -EPERM: it is another
 * user's, or others can change it, and trust (NULL: nobody) does not accept that; -EPROTO: another
 * format version; -EINVAL: the name is none; -errno.
 */
int spool_open(const char *root, const char *instance, const struct spool_trust *trust,
	       unsigned int flags, struct spool **ret, struct err *e);
struct spool *spool_close(struct spool *sp);

/* What it is: its directory (as it was named), its name, and what its claims say of this node. PIDs
 * here belong to a boot: /proc/sys/kernel/random/boot_id; in a container with processes of its own,
 * a dot and the number of their namespace behind it. */
const char *spool_path_of(const struct spool *sp);
const char *spool_instance(const struct spool *sp);
const char *spool_host(const struct spool *sp);
const char *spool_boot(const struct spool *sp);
/* Several kernels may have this filesystem, each with caches of its own. */
bool spool_is_network(const struct spool *sp);

/* Where it was opened there is another directory now (*ret_other), or none: it was moved, or
 * removed. False also where that cannot be told. */
bool spool_was_replaced(const struct spool *sp, bool *ret_other);
/* Its directory, or all that was in it, has been removed; one that was renamed has not. */
bool spool_was_removed(const struct spool *sp);

/* Where instances are: the setting, else $XDG_STATE_HOME/tenure. The caller frees it. */
char *spool_root(const char *setting);
/* Names of the instances below root, sorted; none is no error. Directories into which we may not
 * look are taken for some. */
int spool_instances(const char *root, struct text_list *ret, struct err *e);

/*
 * Make an instance the one that commands mean where neither an option nor the environment names
 * another: the file `use` in the config directory, which the settings read.
 */
int spool_use(const char *instance, struct err *e);

/*
 * What tells a spool from all others, earlier ones at its place included, which had the same ids:
 * the file `key`, a random number that is written once. Shims of its tasks have names made from it
 * (task/claim_names.h), so it must stay the same while a task runs, whatever is done to other
 * files.
 */
#define SPOOL_KEY_MAX 33

/* 0; -ENOENT: there is none, as is known for good; -EINVAL: what is there is no key; -errno. */
int spool_key_read(const struct spool *sp, char ret[SPOOL_KEY_MAX], struct err *e);
/* Makes it where there is none: for who starts tasks. As above. */
int spool_key(const struct spool *sp, char ret[SPOOL_KEY_MAX], struct err *e);

#endif
