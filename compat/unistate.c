/* SPDX-License-Identifier: MIT */
#include "compat/unistate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"

#define STATE_MAX (64UL << 20)
#define LOOK_US	  200000
#define LATE_LOOK 10 /* looks after its process has gone: what it said last may still come */

static int read_all(const char *path, json_t **ret, struct err *e)
{
	cleanup_free char *text = NULL;
	json_error_t je;
	size_t len;
	int r = fs_read_file(path, STATE_MAX, &text, &len, e);

	if (r == -ENOENT || (r == 0 && !text[strspn(text, " \t\r\n")])) {
		*ret = json_object();
		return 0;
	}
	if (r < 0)
		return r;
	*ret = json_loadb(text, len, 0, &je);
	if (json_is_object(*ret))
		return 0;
	json_decref(*ret);
	return err_set(e, -EINVAL, "%s:%d: not a JSON object", path, je.line);
}

static int change(const char *path, const char *uni_id, json_t *keys, struct err *e)
{
	json_t *all = NULL, *entry;
	int r = read_all(path, &all, e);

	if (r < 0)
		return r;
	entry = json_object_get(all, uni_id);
	if (json_is_object(entry))
		(void)json_object_update(entry, keys);
	else
		(void)json_object_set(all, uni_id, keys);

	cleanup_free char *text = json_dumps(all, JSON_INDENT(2));

	json_decref(all);
	return fs_write_atomic(path, text, strlen(text), 0644, e);
}

int unistate_set(const char *path, const char *uni_id, json_t *keys, struct err *e)
{
	cleanup_free char *lock = xasprintf("%s.lock", path);
	int r, fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0 || flock(fd, LOCK_EX) < 0)
		r = err_sys(e, errno, "lock %s", lock);
	else
		r = change(path, uni_id, keys, e);
	(void)fd_close(fd);
	json_decref(keys);
	return r;
}

json_t *unistate_get(const char *path, const char *uni_id)
{
	json_t *all = NULL, *entry;

	if (read_all(path, &all, NULL) < 0)
		return NULL;
	entry = json_incref(json_object_get(all, uni_id));
	json_decref(all);
	return entry;
}

int unistate_begin(const char *path, const char *uni_id, pid_t pid, struct err *e)
{
	const char *attempt = getenv("TENURE_ATTEMPT");
	uint64_t n = 0;

	if (attempt)
		(void)str_to_u64(attempt, &n);

	return unistate_set(path, uni_id,
			    json_pack("{s:i, s:s, s:I}", "pid", (int)pid, "state", "running",
				      "retry_count", (json_int_t)(n ? n - 1 : 0)),
			    e);
}

struct seen {
	struct proc_id proc;
	unsigned int gone; /* looks since it was seen no more */
};

/* The process that the entry names runs, and is not this one, which only waits. */
static bool goes_on(struct seen *s, const json_t *entry)
{
	pid_t pid = (pid_t)json_integer_value(json_object_get(entry, "pid"));

	if (pid <= 0 || pid == getpid())
		return false;
	if (pid != s->proc.pid && proc_identify(pid, &s->proc) < 0)
		s->proc = (struct proc_id){ .pid = pid };
	s->gone = s->proc.start && proc_alive(&s->proc) ? 0 : s->gone + 1;
	return s->gone < LATE_LOOK;
}

static int by_state(const json_t *entry, const char *state, int code)
{
	const char *type = json_string_value(json_object_get(entry, "error_type"));

	if (strcmp(state, "normal_exit") == 0)
		return 0;
	printf("abnormal_exit: %s\n", type ? type : "no error_type");
	if (type && strcmp(type, "oom") == 0)
		printf("CUDA out of memory (as its script says)\n");
	return code ? code : 1;
}

int unistate_end(const char *path, const char *uni_id, int code)
{
	struct seen s = { .gone = 0 };
	struct err e = ERR_INIT;
	bool died = false;

	for (;; (void)usleep(LOOK_US)) {
		json_t *entry = unistate_get(path, uni_id);
		const char *state = json_string_value(json_object_get(entry, "state"));
		bool over = state && strcmp(state, "running") != 0;
		int result = over ? by_state(entry, state, code) : code;
		bool waits = !over && entry && goes_on(&s, entry);

		died = !over && !waits && s.proc.pid;
		json_decref(entry);
		if (over)
			return result;
		if (!waits)
			break;
	}
	code = died && !code ? 1 : code;
	if (unistate_set(path, uni_id,
			 code ? json_pack("{s:s, s:s}", "state", "abnormal_exit", "error_type",
					  died ? "died" : "runtime_error")
			      : json_pack("{s:s}", "state", "normal_exit"),
			 &e) < 0)
		(void)fprintf(stderr, "compete: %s\n", e.text);
	return code;
}
