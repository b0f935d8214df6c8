/* SPDX-License-Identifier: MIT */
#include "cli/web_token.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"

#define TOKEN_BYTES (WEB_TOKEN_DIGITS / 2)

char *web_token_path(bool read_only)
{
	cleanup_free char *dir = fs_config_dir();

	return xasprintf("%s/web-token%s", dir, read_only ? "-read" : "");
}

/* Nobody else may ever have read it: a mode that is wrong now may have been so for long. */
static int check_private(int fd, const char *path, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_sys(e, errno, "%s", path);
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
		return err_set(e, -EPERM,
			       "%s is not a file of yours; remove it, and another one is made",
			       path);
	if (st.st_mode & 077)
		return err_set(
			e, -EPERM,
			"others can read %s (mode %03o), so it is secret no more; remove it, and "
			"another one is made",
			path, (unsigned int)(st.st_mode & 0777));
	return 0;
}

static int read_token(const char *path, char ret[WEB_TOKEN_MAX], struct err *e)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	char text[WEB_TOKEN_MAX + 2];
	ssize_t n;

	if (fd < 0)
		return err_sys(e, errno, "open %s", path);

	int r = check_private(fd, path, e);

	if (r < 0)
		return r;
	n = read(fd, text, sizeof(text) - 1);
	if (n < 0)
		return err_sys(e, errno, "read %s", path);
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	if (strlen(text) != WEB_TOKEN_DIGITS ||
	    strspn(text, "0123456789abcdef") != WEB_TOKEN_DIGITS)
		return err_set(
			e, -EINVAL,
			"%s has no token in it (64 hexadecimal digits); remove it, and one is "
			"made",
			path);
	(void)str_copy(ret, WEB_TOKEN_MAX, text);
	return 0;
}

static int make_token(const char *path, struct err *e)
{
	unsigned char bytes[TOKEN_BYTES];
	char text[WEB_TOKEN_MAX + 1];
	cleanup_free char *dir = fs_config_dir();
	int r = fs_mkdirs(dir, 0700, e);

	if (r < 0)
		return r;
	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return err_sys(e, errno, "get random numbers for a token");
	for (size_t i = 0; i < sizeof(bytes); i++)
		(void)str_print(text + 2 * i, 3, "%02x", bytes[i]);
	text[WEB_TOKEN_DIGITS] = '\n';
	text[WEB_TOKEN_DIGITS + 1] = '\0';
	r = fs_write_new(path, text, WEB_TOKEN_DIGITS + 1, 0600, e);
	return r == -EEXIST ? 0 : r;
}

int web_token(bool read_only, bool make, char ret[WEB_TOKEN_MAX], struct err *e)
{
	cleanup_free char *path = web_token_path(read_only);
	struct err none = ERR_INIT;
	int r = read_token(path, ret, &none);

	if (r == -ENOENT && make) {
		r = make_token(path, e);
		return r < 0 ? r : read_token(path, ret, e);
	}
	return r < 0 ? err_set(e, r, "%s", none.text) : 0;
}
