/* SPDX-License-Identifier: MIT */
#include "cli/task/payload.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "cli/cmd.h"
#include "cli/task/sbatch.h"

/* A word that the shell would run. */
static bool is_program(const char *word)
{
	cleanup_free char *path = xstrdup(getenv("PATH") ? getenv("PATH") : "/usr/bin:/bin");
	char *save = NULL;

	for (char *dir = strtok_r(path, ":", &save); dir && !strchr(word, '/');
	     dir = strtok_r(NULL, ":", &save)) {
		cleanup_free char *file = xasprintf("%s/%s", dir, word);

		if (access(file, X_OK) == 0)
			return true;
	}
	return false;
}

static int open_script(const char *path, struct err *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd >= 0)
		return fd;
	if (errno == ENOENT && is_program(path))
		return err_set(
			e, -ENOENT,
			"there is no script \"%s\" here; a command comes behind --: -- %s ...",
			path, path);
	return err_sys(e, errno, "script: open %s", path);
}

static bool is_regular(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

static int check_script(const char *text, size_t len, const char *shown, struct err *e)
{
	if (memchr(text, '\0', len))
		return err_set(e, -EINVAL,
			       "%s is a program, not a script; submit it as a command: tenure "
			       "submit -- %s",
			       shown, shown);
	return len ? 0 : err_set(e, -EINVAL, "%s is empty", shown);
}

/* A file; or what comes from standard input or another pipe, whose name says nothing of it. */
static int take_script(struct spool_spec *s, const struct opts *o, const char *path, struct err *e)
{
	bool standard = strcmp(path, "-") == 0;
	const char *shown = standard ? "standard input" : path;
	int fd = standard ? dup(STDIN_FILENO) : open_script(path, e);
	char name[SPEC_NAME_MAX + 1];
	size_t len;
	int r;

	if (fd < 0)
		return standard ? err_sys(e, errno, "read standard input") : fd;
	if (isatty(fd))
		cmd_warn("note", "the script is read from here; Ctrl-D ends it");
	spec_make_task_name(standard || !is_regular(fd) ? "script" : path, name);
	r = fs_read_open(fd, shown, SPEC_SCRIPT_MAX, &s->script, &len, e);
	(void)close(fd);
	if (r < 0)
		return err_wrap(e, "script");
	r = check_script(s->script, len, shown, e);
	if (r < 0)
		return r;
	sbatch_take(s, o, s->script);
	if (!s->name)
		s->name = xstrdup(name);
	return 0;
}

int payload_take(struct spool_spec *s, const struct opts *o, struct spec_list *ret, struct err *e)
{
	const struct value *from = opts_value(o, "from");
	size_t n = opts_argc(o);
	int r = 0;

	if (from && n)
		return err_set(e, -EINVAL, "with --from nothing else can be given to run");
	if (from)
		return fromlines_take(s, &from->words, ret, e);
	if (!n)
		return err_set(e, -EINVAL,
			       "say what to run: a script (- is standard input), or -- and a "
			       "command, or --from FILE");
	if (!opts_dashes(o))
		r = take_script(s, o, opts_arg(o, 0), e);
	for (size_t i = opts_dashes(o) ? 0 : 1; i < n && r == 0; i++)
		r = spec_set_text(s, opts_dashes(o) ? "argv" : "args", opts_arg(o, i), e);
	return r;
}
