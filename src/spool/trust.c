/* SPDX-License-Identifier: MIT */
#include "spool/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"

#define ENTRY_MAX     16384 /* bytes of an entry of passwd or group */
#define USER_TEXT_MAX 128

static bool find_user(const char *word, uid_t *ret)
{
	cleanup_free char *buf = xmalloc(ENTRY_MAX);
	struct passwd pw, *found = NULL;
	uint64_t number;

	if (str_to_u64(word, &number) == 0) {
		*ret = (uid_t)number;
		return number < (uid_t)-1;
	}
	if (getpwnam_r(word, &pw, buf, ENTRY_MAX, &found) != 0 || !found)
		return false;
	*ret = found->pw_uid;
	return true;
}

struct spool_trust trust_from_settings(const struct settings *s)
{
	return (struct spool_trust){ .accepted = &settings_value(s, SET_ACCEPT_OWNERS)->words,
				     .setting = (enum trust_setting)settings_num(s, SET_TRUST) };
}

void trust_take(struct spool *sp, const struct spool_trust *trust)
{
	const struct text_list *words = trust ? trust->accepted : NULL;
	size_t n = words ? words->n : 0;

	sp->may_trust_all = trust && trust->setting == TRUST_DIRECTORY;
	sp->accepted = xcalloc(n + 1, sizeof(*sp->accepted));
	for (size_t i = 0; i < n; i++)
		if (find_user(words->texts[i], &sp->accepted[sp->n_accepted]))
			sp->n_accepted++;
}

void trust_clear(struct spool *sp)
{
	free(take_ptr(sp->accepted));
	sp->n_accepted = 0;
}

static bool accepts(const struct spool *sp, uid_t uid)
{
	if (uid == geteuid() || (sp->looks && uid == sp->owner))
		return true;
	for (size_t i = 0; i < sp->n_accepted; i++)
		if (sp->accepted[i] == uid)
			return true;
	return false;
}

bool spool_trusts(const struct spool *sp, uid_t uid)
{
	return sp->trust_directory || accepts(sp, uid);
}

/*
 * Nobody but its owner is in the group, as where every user has one of his own name. Who has it as
 * his first group is in no list, so the name has to say it; and where there is an access list, the
 * bits of the group are those of everybody in it.
 */
static bool is_private_group(int fd, const struct stat *st)
{
	cleanup_free char *pw_buf = xmalloc(ENTRY_MAX), *gr_buf = xmalloc(ENTRY_MAX);
	struct passwd pw, *user = NULL;
	struct group gr, *group = NULL;

	if (fgetxattr(fd, "system.posix_acl_access", NULL, 0) > 0 ||
	    getpwuid_r(st->st_uid, &pw, pw_buf, ENTRY_MAX, &user) != 0 || !user ||
	    getgrgid_r(st->st_gid, &gr, gr_buf, ENTRY_MAX, &group) != 0 || !group ||
	    strcmp(group->gr_name, user->pw_name) != 0)
		return false;
	for (char **member = group->gr_mem; *member; member++)
		if (strcmp(*member, user->pw_name) != 0)
			return false;
	return true;
}

static bool others_can_write(int fd, const struct stat *st)
{
	return st->st_mode & S_IWOTH || (st->st_mode & S_IWGRP && !is_private_group(fd, st));
}

static char *config_file(void)
{
	cleanup_free char *dir = fs_config_dir();
	cleanup_free char *path = xasprintf("%s/config.yaml", dir);

	return fs_show_path(path);
}

/* The word by which a user is accepted: the name, or the number where there is none. */
static char *user_word(uid_t uid, char buf[USER_TEXT_MAX])
{
	(void)user_name(uid, buf, USER_TEXT_MAX);
	return str_has_prefix(buf, "uid ") ? buf + strlen("uid ") : buf;
}

static int anothers(const char *path, uid_t uid, struct err *e)
{
	char theirs[USER_TEXT_MAX], ours[USER_TEXT_MAX], word_buf[USER_TEXT_MAX];
	const char *word = user_word(uid, word_buf);
	cleanup_free char *config = config_file();

	(void)user_name(uid, theirs, sizeof(theirs));
	(void)user_name(geteuid(), ours, sizeof(ours));
	return err_set(
		e, -EPERM,
		"%s belongs to %s, and what is in it would be run with the rights of %s. Use "
		"a queue of your own (--root DIR, --instance NAME), or, if that is meant, "
		"accept its owner: --accept-owners %s, or accept_owners: %s in %s",
		path, theirs, ours, word, word, config);
}

/* Who only looks runs nothing of it. */
static int closed_to_us(const char *path, uid_t uid, struct err *e)
{
	char theirs[USER_TEXT_MAX], ours[USER_TEXT_MAX];

	(void)user_name(uid, theirs, sizeof(theirs));
	(void)user_name(geteuid(), ours, sizeof(ours));
	return err_set(e, -EPERM,
		       "%s belongs to %s, and %s may not look into it: use a queue of your own "
		       "elsewhere (--root DIR, --instance NAME)",
		       path, theirs, ours);
}

static int written_by_others(const char *path, mode_t mode, struct err *e)
{
	char ours[USER_TEXT_MAX];
	cleanup_free char *config = config_file();

	return err_set(e, -EPERM,
		       "others can write in %s (mode %04o), and what they put there would be run "
		       "with the rights of %s: chmod go-w %s, or, if everybody who can write there "
		       "is trusted, --trust directory, or trust: directory in %s",
		       path, (unsigned int)mode & 07777, user_name(geteuid(), ours, sizeof(ours)),
		       path, config);
}

/* Its owner may move what is in it, too; but a directory of ours can only be exchanged with another
 * one of ours, so what is asked for is that not everybody can. */
static int root_of_others(const struct spool *sp, const char *root, mode_t mode, struct err *e)
{
	char word[USER_TEXT_MAX];
	cleanup_free char *config = config_file();

	return err_set(
		e, -EPERM,
		"others can write in %s (mode %04o, without the sticky bit), so that they can "
		"put something else in the place of %s: use a directory of your own in it "
		"(--root %s/%s), chmod go-w or +t %s, or, if everybody who can write there is "
		"trusted, --trust directory, or trust: directory in %s",
		root, (unsigned int)mode & 07777, sp->path, root, user_word(geteuid(), word), root,
		config);
}

int trust_check_dirs(struct spool *sp, int root_fd, const char *root, struct err *e)
{
	struct stat dir, above;

	if (fstat(sp->fd, &dir) < 0)
		return err_sys(e, errno, "stat %s", sp->path);
	sp->owner = dir.st_uid;
	if (!accepts(sp, dir.st_uid))
		return anothers(sp->path, dir.st_uid, e);
	if (sp->looks || sp->may_trust_all)
		return 0;
	if (others_can_write(sp->fd, &dir))
		return written_by_others(sp->path, dir.st_mode, e);
	if (fstat(root_fd, &above) < 0)
		return err_sys(e, errno, "stat %s", root);
	if (!(above.st_mode & S_ISVTX) && others_can_write(root_fd, &above))
		return root_of_others(sp, root, above.st_mode, e);
	return 0;
}

int trust_check_file(const struct spool *sp, int fd, const char *file, struct err *e)
{
	cleanup_free char *path = xasprintf("%s/%s", sp->path, file);
	struct stat st, dir;

	if (fstat(fd, &st) < 0 || fstat(sp->fd, &dir) < 0)
		return err_sys(e, errno, "stat %s", path);
	if (sp->may_trust_all)
		return 0;
	if (!accepts(sp, st.st_uid))
		return anothers(path, st.st_uid, e);
	/* Where nobody else gets into the directory, the file's own mode does not matter. */
	if (!sp->looks && dir.st_mode & (S_IXGRP | S_IXOTH) && others_can_write(fd, &st))
		return written_by_others(path, st.st_mode, e);
	return 0;
}

int trust_check_name(const struct spool *sp, int dir_fd, const char *name, struct err *e)
{
	bool is_dir = dir_fd != sp->fd;
	cleanup_free char *path =
		xasprintf("%s%s%s", sp->path, is_dir ? "" : "/", is_dir ? "" : name);
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (sp->looks && st.st_uid != geteuid())
		return closed_to_us(path, st.st_uid, e);
	return accepts(sp, st.st_uid) ? 0 : anothers(path, st.st_uid, e);
}
