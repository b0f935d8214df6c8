/* SPDX-License-Identifier: MIT */
#include "spool/key.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"

#define KEY_FILE     "key"
#define KEY_FILE_MAX 128

int spool_key_read(const struct spool *sp, char ret[SPOOL_KEY_MAX], struct err *e)
{
	cleanup_free char *text = NULL;
	size_t len;
	int r = spool_read(sp, KEY_FILE, KEY_FILE_MAX, &text, &len, e);

	r = spool_confirm(sp, KEY_FILE, r, e);
	if (r < 0)
		return r;
	text[strcspn(text, "\n")] = '\0';
	if (strlen(text) != SPOOL_KEY_MAX - 1 ||
	    strspn(text, "0123456789abcdef") != SPOOL_KEY_MAX - 1)
		return err_set(e, -EINVAL,
			       "%s/" KEY_FILE " is no key; when no task of this instance runs any "
			       "more, remove it: another one is made then",
			       sp->path);
	(void)str_copy(ret, SPOOL_KEY_MAX, text);
	return 0;
}

/* A file that has its content when it appears, and that one of several makers makes. */
static int make_key(const struct spool *sp, struct err *e)
{
	char tmp[SPOOL_PATH_MAX], line[SPOOL_KEY_MAX + 1];
	uint64_t random[2];
	int r;

	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return err_sys(e, errno, "get random numbers");
	(void)str_print(line, sizeof(line), "%016" PRIx64 "%016" PRIx64 "\n", random[0], random[1]);
	r = spool_write_new(sp, spool_tmp_path(sp, "key", 0, tmp), line, strlen(line), true, e);
	/* Without links the last maker wins; tasks are started after this, so none has a name yet.
	 */
	return r == 0 ? spool_put_once(sp, tmp, KEY_FILE, e) : r;
}

int spool_key(const struct spool *sp, char ret[SPOOL_KEY_MAX], struct err *e)
{
	int r = spool_key_read(sp, ret, e);

	if (r != -ENOENT)
		return r;
	r = make_key(sp, e);
	return r == 0 ? spool_key_read(sp, ret, e) : r;
}
