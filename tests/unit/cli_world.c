/* SPDX-License-Identifier: MIT */
#include "cli_world.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "spool_world.h"
#include "unit.h"

#include "base/mem.h"
#include "base/settings.h"
#include "base/strbuf.h"

#define WORDS_MAX 32

int cli_setup(void **state)
{
	int r = spool_setup(state);
	cleanup_free char *none = xasprintf("%s/none", spool_world_root());

	/* Whoever runs the tests may have chosen something, or an agent of his may run. */
	for (int id = 0; id < SET_MAX; id++)
		(void)unsetenv(setting_row((enum setting_id)id)->opt.env);
	(void)setenv("TENURE_ROOT", spool_world_root(), 1);
	(void)setenv("TENURE_DEV_DIR", spool_world_root(), 1);
	(void)setenv("XDG_CONFIG_HOME", none, 1);
	(void)setenv("COLUMNS", "1000", 1);
	return r;
}

int cli_teardown(void **state)
{
	return spool_teardown(state);
}

struct printing printing_begin(int fd)
{
	struct printing p = { .fd = fd, .file = tmpfile() };

	assert_non_null(p.file);
	(void)fflush(NULL);
	p.screen = dup(fd);
	assert_true(p.screen >= 0 && dup2(fileno(p.file), fd) == fd);
	return p;
}

char *printing_end(struct printing *p)
{
	struct strbuf b = STRBUF_INIT;
	char part[4096];
	size_t n;

	(void)fflush(NULL);
	assert_int_equal(dup2(p->screen, p->fd), p->fd);
	(void)close(p->screen);
	rewind(p->file);
	while ((n = fread(part, 1, sizeof(part), p->file)))
		strbuf_add(&b, part, n);
	(void)fclose(p->file);
	return strbuf_take(&b);
}

/* Cuts the line. */
static int split(char *line, char **argv)
{
	int argc = 0;

	for (char *p = line; *p;) {
		bool quoted = *p == '\'';
		char *end;

		p += quoted;
		end = p + strcspn(p, quoted ? "'" : " ");
		assert_true(argc < WORDS_MAX);
		argv[argc++] = p;
		p = end + (*end != '\0');
		*end = '\0';
		p += strspn(p, " ");
	}
	argv[argc] = NULL;
	return argc;
}

struct said cli(const struct cmd *cmd, const char *line)
{
	cleanup_free char *words = xasprintf("%s %s", cmd->name, line);
	char *argv[WORDS_MAX + 1];
	int argc = split(words, argv);
	struct printing out = printing_begin(STDOUT_FILENO), err = printing_begin(STDERR_FILENO);
	struct said s = { .code = cmd_run(cmd, "tenure", argc, argv) };

	s.err = printing_end(&err);
	s.out = printing_end(&out);
	return s;
}

void said_clear(struct said *s)
{
	free(take_ptr(s->out));
	free(take_ptr(s->err));
}
