/* SPDX-License-Identifier: MIT */
#include "serve/keys.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/str.h"
#include "serve/serve.h"

#define KEY_MAX 256

static char *directory(const struct serve *s)
{
	return xasprintf("%s/%s/serve-keys", s->state_dir, s->instance);
}

static void hash(const char *text, char ret[SHA256_HEX_MAX])
{
	sha256_hex(text, strlen(text), ret);
}

/* 0 and the file, new, ours and locked: its first line is on the disk when it has its name.
 * -EEXIST; or negative. */
static int claim(struct serve *s, const char *path, const char *asked, int *ret_fd, struct err *e)
{
	cleanup_free char *line = xasprintf("%s\n", asked);
	cleanup_fd int fd = -1;
	int r;

	(void)pthread_mutex_lock(&s->keys_lock); /* who finds it finds it locked */
	r = fs_write_new(path, line, strlen(line), 0600, e);
	if (r == 0) {
		fd = open(path, O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
		if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
			r = err_sys(e, errno, "lock %s", path);
	}
	(void)pthread_mutex_unlock(&s->keys_lock);
	*ret_fd = r == 0 ? take_fd(fd) : -1;
	return r;
}

/* The answer, and what was said with it in a line behind it. */
static void split_notes(const char *text, struct call *c)
{
	size_t n = strcspn(text, "\n");
	json_t *notes =
		text[n] && text[n + 1] ? json_loads(text + n + 1, JSON_DECODE_ANY, NULL) : NULL;

	c->text = xasprintf("%.*s\n", (int)n, text);
	c->error = xstrdup(json_is_string(notes) ? json_string_value(notes) : "");
	json_decref(notes);
}

static void add_notes(int fd, const char *said)
{
	json_t *notes = json_new_text(said);
	cleanup_free char *text = json_dumps(notes, JSON_ENCODE_ANY);
	cleanup_free char *line = xasprintf("%s\n", text ? text : "");

	json_decref(notes);
	if (said[0] && text)
		(void)fs_write_all(fd, line, strlen(line));
}

static void answer_again(struct request *r, const char *text, const char *asked, struct call *c,
			 bool busy, bool *ret)
{
	size_t n = strcspn(text, "\n");

	*ret = false;
	if (n != strlen(asked) || memcmp(text, asked, n) != 0) {
		answer_problem(
			&r->answer, MHD_HTTP_UNPROCESSABLE_CONTENT,
			"this Idempotency-Key was used for something else; take another one");
	} else if (text[n] && text[strlen(text) - 1] == '\n' && text[n + 1]) { /* all of it */
		split_notes(text + n + 1, c);
		c->code = CMD_OK;
		*ret = true;
	} else if (busy) {
		answer_problem(&r->answer, MHD_HTTP_CONFLICT,
			       "this is being done; ask again with the same Idempotency-Key");
		answer_header(&r->answer, MHD_HTTP_HEADER_RETRY_AFTER, "1");
	} else {
		answer_problem(
			&r->answer, MHD_HTTP_CONFLICT,
			"it was cut short before its answer was written; look whether it is in "
			"the list, and if not ask again with another Idempotency-Key");
	}
}

static bool tell_again(struct serve *s, struct request *r, const char *path, const char *asked,
		       struct call *c)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	cleanup_free char *text = NULL;
	struct err e = ERR_INIT;
	bool busy, told = false;
	size_t len;

	(void)pthread_mutex_lock(&s->keys_lock);
	busy = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0;
	(void)pthread_mutex_unlock(&s->keys_lock);
	if (fd < 0 || fs_read_open(fd, path, CALL_OUTPUT_MAX, &text, &len, &e) < 0)
		answer_problem(&r->answer, MHD_HTTP_INTERNAL_SERVER_ERROR, "%s",
			       fd < 0 ? "the file of this key cannot be opened" : e.text);
	else
		answer_again(r, text, asked, c, busy, &told);
	return told;
}

/* The command has the lock with the file, as long as it runs, whatever becomes of us. */
static void run_first(struct serve *s, const struct request *r, const char *path, int fd,
		      struct call *c)
{
	off_t head = lseek(fd, 0, SEEK_END);
	char *text = NULL;
	size_t len;

	c->output = fd;
	call_run(s, r, c);
	if (c->code == CMD_OK && fsync(fd) == 0 && lseek(fd, head, SEEK_SET) == head &&
	    fs_read_open(fd, path, CALL_OUTPUT_MAX, &text, &len, NULL) == 0) {
		free(c->text);
		c->text = text;
		add_notes(fd, c->error);
	}
	if (c->code != CMD_OK && c->code != -ETIMEDOUT)
		(void)unlink(path); /* it was refused: the same may be tried again */
}

bool keys_run(struct serve *s, struct request *r, const char *key, struct call *c)
{
	cleanup_free char *dir = directory(s);
	char name[SHA256_HEX_MAX], asked[SHA256_HEX_MAX];
	struct err e = ERR_INIT;
	cleanup_fd int fd = -1;
	int err;

	if (!key[0] || strlen(key) >= KEY_MAX) {
		answer_problem(&r->answer, MHD_HTTP_BAD_REQUEST,
			       "an Idempotency-Key has 1 to %d characters", KEY_MAX - 1);
		return false;
	}
	hash(key, name);
	hash(c->input, asked);

	cleanup_free char *path = xasprintf("%s/%s", dir, name);

	err = fs_mkdirs(dir, 0700, &e);
	if (err == 0)
		err = claim(s, path, asked, &fd, &e);
	if (err == -EEXIST)
		return tell_again(s, r, path, asked, c);
	if (err < 0) {
		answer_problem(&r->answer, MHD_HTTP_INSUFFICIENT_STORAGE, "%s", e.text);
		return false;
	}
	run_first(s, r, path, fd, c);
	return true;
}

void keys_tidy(const struct serve *s)
{
	cleanup_free char *dir = directory(s);
	DIR *d = opendir(dir);
	time_t now = time(NULL);
	struct dirent *entry;
	struct stat st;

	while (d && (entry = readdir(d)))
		if (entry->d_name[0] != '.' &&
		    fstatat(dirfd(d), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    (now - st.st_mtime > KEYS_LIVE_S || st.st_mtime - now > KEYS_LIVE_S))
			(void)unlinkat(dirfd(d), entry->d_name, 0);
	if (d)
		(void)closedir(d);
}
