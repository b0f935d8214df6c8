/* SPDX-License-Identifier: MIT */
#include "cli/payload.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "cli/cmd.h"

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
static int take_script(struct spool_spec *s, const char *path, struct err *e)
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
	if (!s->name)
		s->name = xstrdup(name);
	return check_script(s->script, len, shown, e);
}

static void quote(struct strbuf *b, const char *word)
{
	if (b->len)
		strbuf_addc(b, ' ');
	strbuf_add_quoted(b, word);
}

static int add_argv(struct spool_spec *s, const json_t *argv, struct err *e)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	for (size_t i = 0; i < json_array_size(argv); i++) {
		const char *word = json_string_value(json_array_get(argv, i));

		if (!word)
			return err_set(e, -EINVAL, "word %zu must be a text", i + 1);
		quote(&b, word);
	}
	if (!b.len)
		return err_set(e, -EINVAL, "the list of words is empty");
	text_list_add(&s->commands, strbuf_str(&b));
	return 0;
}

static int add_json(struct spool_spec *s, const char *line, struct err *e)
{
	json_error_t je;
	json_t *o = json_loads(line, 0, &je);
	const json_t *argv = json_is_array(o) ? o : json_object_get(o, "argv");
	const char *command = json_string_value(json_object_get(o, "command"));
	int r;

	if (!o)
		r = err_set(e, -EINVAL, "not JSON: %s", je.text);
	else if (json_is_object(o) && json_object_size(o) != 1)
		r = err_set(e, -EINVAL, "an element has one key, command or argv");
	else if (argv)
		r = add_argv(s, argv, e);
	else if (command && command[0])
		r = (text_list_add(&s->commands, command), 0);
	else
		r = err_set(e, -EINVAL, "an element has the key command or argv");
	json_decref(o);
	return r;
}

static int add_line(struct spool_spec *s, char *line, struct err *e)
{
	line += strspn(line, " \t");
	line[strcspn(line, "\r")] = '\0';
	if (!line[0] || line[0] == '#')
		return 0;
	/* No command of a shell begins so. */
	if (str_has_prefix(line, "{\"") || str_has_prefix(line, "[\""))
		return add_json(s, line, e);
	text_list_add(&s->commands, line);
	return 0;
}

static int take_lines(struct spool_spec *s, const char *path, struct err *e)
{
	bool standard = strcmp(path, "-") == 0;
	FILE *f = standard ? stdin : fopen(path, "re");
	const char *shown = standard ? "standard input" : path;
	char *line = NULL;
	size_t size = 0, n = 0, before = s->commands.n;
	ssize_t len;
	int r = 0;

	if (!f)
		return err_sys(e, errno, "open %s", path);
	while (r == 0 && (len = getline(&line, &size, f)) >= 0) {
		line[strcspn(line, "\n")] = '\0';
		n++;
		r = strlen(line) + 1 < (size_t)len ? err_set(e, -EINVAL, "a NUL byte is in it")
						   : add_line(s, line, e);
		if (r < 0)
			(void)err_wrap(e, standard ? "%s, line %zu" : "%s:%zu", shown, n);
	}
	if (r == 0 && ferror(f))
		r = err_sys(e, errno, "read %s", shown);
	if (r == 0 && s->commands.n == before)
		r = err_set(e, -EINVAL, "%s has no command in it", shown);
	free(line);
	if (!standard)
		(void)fclose(f);
	return r;
}

int payload_take(struct spool_spec *s, const struct opts *o, struct err *e)
{
	const struct value *from = opts_value(o, "from");
	size_t n = opts_argc(o);
	int r = 0;

	if (from && n)
		return err_set(e, -EINVAL, "with --from nothing else can be given to run");
	for (size_t i = 0; from && i < from->words.n && r == 0; i++)
		r = take_lines(s, from->words.words[i], e);
	if (from)
		return r;
	if (!n)
		return err_set(e, -EINVAL,
			       "say what to run: a script (- is standard input), or -- and a "
			       "command, or --from FILE");
	if (!opts_dashes(o))
		r = take_script(s, opts_arg(o, 0), e);
	for (size_t i = opts_dashes(o) ? 0 : 1; i < n && r == 0; i++)
		r = spec_set_text(s, opts_dashes(o) ? "argv" : "args", opts_arg(o, i), e);
	return r;
}
