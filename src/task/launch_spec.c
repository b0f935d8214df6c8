/* SPDX-License-Identifier: MIT */

/*
 * The description: a fixed head, then its texts, each with a NUL, in the order of the table below,
 * then the arguments, the environment and the script. Numbers are in the machine's own form: the
 * file never leaves the machine.
 *
 * The reader trusts nothing in it: every text must end inside the file, every count must be filled,
 * and nothing may be left over.
 */

#include "task/launch_spec.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "task/end_record.h"

#define LAUNCH_MAGIC 0x74736b35U /* changes with the format */

struct spec_head {
	uint32_t magic;
	uint32_t n_argv;
	uint32_t n_env;
	uint32_t has_script;
	uint64_t script_bytes;
	uint64_t log_limit;
	uint64_t timeout_ms;
	uint64_t heartbeat_ms;
	uint64_t fence_timeout_ms;
	uint64_t go_until_ns;
	uint32_t grace_ms;
	int32_t stop_signal;
	uint32_t umask;
	uint32_t flags;
};

static const size_t texts[] = {
	offsetof(struct launch_spec, token),
	offsetof(struct launch_spec, title),
	offsetof(struct launch_spec, shown),
	offsetof(struct launch_spec, node),
	offsetof(struct launch_spec, cwd),
	offsetof(struct launch_spec, output),
	offsetof(struct launch_spec, error),
	offsetof(struct launch_spec, run_dir),
	offsetof(struct launch_spec, record_dir),
	offsetof(struct launch_spec, script_name),
	offsetof(struct launch_spec, cgroup),
	offsetof(struct launch_spec, heartbeat_dir),
	offsetof(struct launch_spec, heartbeat_file),
	offsetof(struct launch_spec, heartbeat_agent),
	offsetof(struct launch_spec, claim),
};

static const char **text_at(const struct launch_spec *s, size_t i)
{
	return (const char **)((uintptr_t)s + texts[i]);
}

static int check(const struct launch_spec *s, struct err *e)
{
	const char *const dirs[] = { s->cwd, s->run_dir, s->record_dir };
	const char *const outputs[] = { s->output, s->error };

	if (!s->token || !token_valid(s->token))
		return err_set(e, -EINVAL, "the task's token is not one");
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		if (!dirs[i] || dirs[i][0] != '/')
			return err_set(e, -EINVAL, "\"%s\" is not an absolute path",
				       dirs[i] ? dirs[i] : "");
	for (size_t i = 0; i < ARRAY_LEN(outputs); i++)
		if (outputs[i] && outputs[i][0] && outputs[i][0] != '/')
			return err_set(e, -EINVAL, "\"%s\" is not an absolute path", outputs[i]);
	if (!s->script && (s->n_argv == 0 || !s->argv[0][0]))
		return err_set(e, -EINVAL, "there is no command");
	if (s->n_argv > LAUNCH_WORDS_MAX || s->n_env > LAUNCH_WORDS_MAX)
		return err_set(e, -E2BIG, "more than %u words", LAUNCH_WORDS_MAX);
	if (s->stop_signal < 0 || s->stop_signal >= NSIG)
		return err_set(e, -EINVAL, "%d is not a signal", s->stop_signal);
	if (s->heartbeat_ms &&
	    (!s->heartbeat_dir || s->heartbeat_dir[0] != '/' || !s->heartbeat_file ||
	     !s->heartbeat_file[0] || !s->claim || !s->claim[0] || !s->heartbeat_agent))
		return err_set(e, -EINVAL, "its claim cannot be kept alive without its names");
	if (s->log_limit && s->log_limit < LAUNCH_LOG_LEAST)
		return err_set(e, -EINVAL, "a log limit of less than 1 MiB");
	return 0;
}

static void encode(const struct launch_spec *s, struct strbuf *b)
{
	struct spec_head h = {
		.magic = LAUNCH_MAGIC,
		.n_argv = s->n_argv,
		.n_env = s->n_env,
		.has_script = s->script != NULL,
		.script_bytes = s->script ? s->script_bytes : 0,
		.log_limit = s->log_limit,
		.timeout_ms = s->timeout_ms,
		.heartbeat_ms = s->heartbeat_ms,
		.fence_timeout_ms = s->fence_timeout_ms,
		.go_until_ns = s->go_until_ns,
		.grace_ms = s->grace_ms,
		.stop_signal = s->stop_signal,
		.umask = s->umask,
		.flags = s->flags,
	};

	strbuf_add(b, &h, sizeof(h));
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		const char *t = *text_at(s, i);

		strbuf_add(b, t ? t : "", t ? strlen(t) + 1 : 1);
	}
	for (uint32_t i = 0; i < s->n_argv; i++)
		strbuf_add(b, s->argv[i], strlen(s->argv[i]) + 1);
	for (uint32_t i = 0; i < s->n_env; i++)
		strbuf_add(b, s->env[i], strlen(s->env[i]) + 1);
	strbuf_add(b, s->script ? s->script : "", h.script_bytes);
}

int launch_spec_encode(const struct launch_spec *s, struct err *e)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	int r = check(s, e);

	if (r < 0)
		return r;
	encode(s, &b);
	if (b.len > LAUNCH_BYTES_MAX)
		return err_set(e, -E2BIG,
			       "the task's script, command and environment are %zu MiB, more than "
			       "%lu MiB",
			       b.len >> 20, LAUNCH_BYTES_MAX >> 20);

	cleanup_fd int fd = memfd_create("tenure-task", MFD_CLOEXEC);

	if (fd < 0)
		return err_sys(e, errno, "make the task's description");
	r = fs_write_all(fd, b.data, b.len);
	if (r < 0)
		return err_sys(e, -r, "write the task's description");
	return take_fd(fd);
}

/* What is still unread of the file. */
struct rest {
	const char *p;
	size_t n;
};

static const char *next_text(struct rest *r)
{
	const char *text = r->p, *nul = memchr(r->p, '\0', r->n);

	if (!nul)
		return NULL;
	r->n -= (size_t)(nul + 1 - r->p);
	r->p = nul + 1;
	return text;
}

/* n texts into words, with a NULL behind them. */
static bool next_texts(struct rest *r, uint32_t n, const char **words)
{
	for (uint32_t i = 0; i < n; i++) {
		words[i] = next_text(r);
		if (!words[i])
			return false;
	}
	words[n] = NULL;
	return true;
}

static bool take_body(const struct spec_head *h, struct rest *r, struct launch_spec *s)
{
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		*text_at(s, i) = next_text(r);
		if (!*text_at(s, i))
			return false;
	}
	if (h->n_argv > LAUNCH_WORDS_MAX || h->n_env > LAUNCH_WORDS_MAX)
		return false;

	const char **words = (const char **)(uintptr_t)s->argv;

	if (!next_texts(r, h->n_argv, words) || !next_texts(r, h->n_env, words + h->n_argv + 1))
		return false;
	s->env = words + h->n_argv + 1;
	s->script = h->has_script ? r->p : NULL;
	return r->n == h->script_bytes;
}

/* The pointers lie in front of the file's bytes in one piece of memory. */
int launch_spec_parse(char *memory, size_t n, struct launch_spec *ret, struct err *e)
{
	cleanup_free char *mem = memory;
	struct spec_head h;

	if (n < sizeof(h) || n > LAUNCH_BYTES_MAX)
		return err_set(e, -EPROTO, "a task's description of %zu bytes", n);
	(void)memcpy(&h, mem, sizeof(h));
	if (h.magic != LAUNCH_MAGIC || h.n_argv > LAUNCH_WORDS_MAX || h.n_env > LAUNCH_WORDS_MAX)
		return err_set(e, -EPROTO, "a task's description of another version");

	size_t pointers = ((size_t)h.n_argv + h.n_env + 2) * sizeof(char *);
	cleanup_free char *all = xmalloc(pointers + n);
	struct rest r = { .p = all + pointers + sizeof(h), .n = n - sizeof(h) };
	struct launch_spec s = {
		.argv = (const char *const *)(void *)all,
		.n_argv = h.n_argv,
		.n_env = h.n_env,
		.script_bytes = h.script_bytes,
		.log_limit = h.log_limit,
		.timeout_ms = h.timeout_ms,
		.heartbeat_ms = h.heartbeat_ms,
		.fence_timeout_ms = h.fence_timeout_ms,
		.go_until_ns = h.go_until_ns,
		.grace_ms = h.grace_ms,
		.stop_signal = h.stop_signal,
		.umask = h.umask,
		.flags = h.flags,
	};

	(void)memcpy(all + pointers, mem, n);
	if (!take_body(&h, &r, &s))
		return err_set(e, -EPROTO, "a task's description that is cut");

	int rc = check(&s, e);

	if (rc < 0)
		return rc;
	s.memory = take_ptr(all);
	*ret = s;
	return 0;
}

int launch_spec_load(int fd, struct launch_spec *ret, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_sys(e, errno, "read the task's description");
	if (st.st_size <= 0 || (uint64_t)st.st_size > LAUNCH_BYTES_MAX)
		return err_set(e, -EPROTO, "a task's description of %lld bytes",
			       (long long)st.st_size);

	cleanup_free char *buf = xmalloc((size_t)st.st_size);
	size_t len = 0;

	while (len < (size_t)st.st_size) {
		ssize_t n = pread(fd, buf + len, (size_t)st.st_size - len, (off_t)len);

		if (n <= 0)
			return err_sys(e, n < 0 ? errno : EIO, "read the task's description");
		len += (size_t)n;
	}
	return launch_spec_parse(take_ptr(buf), len, ret, e);
}

void launch_spec_clear(struct launch_spec *s)
{
	free(s->memory);
	*s = (struct launch_spec){ 0 };
}
