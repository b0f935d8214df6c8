/* SPDX-License-Identifier: MIT */
#include "compat/unistate.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"

#define STATE_MAX  (64UL << 20)
#define LOOK_US	   200000
#define LATE_LOOK  10 /* looks after its process has gone: what it said last may still come */
#define WRITING_US 20000
#define WRITING_N  150 /* looks at a file that a script is just writing in place */
#define SHIM_COMM  "tenure-shim"

/* 0; 1: it is empty or no JSON, *ret is what it means then: no entries, or NULL; negative. */
static int read_once(const char *path, json_t **ret, struct err *e)
{
	cleanup_free char *text = NULL;
	json_error_t je;
	size_t len;
	int r = fs_read_file(path, STATE_MAX, &text, &len, e);

	*ret = NULL;
	if (r == -ENOENT || (r == 0 && !text[strspn(text, " \t\r\n")])) {
		*ret = json_object();
		return r == 0;
	}
	if (r < 0)
		return r;

	json_t *doc = json_loadb(text, len, 0, &je);

	if (json_is_object(doc)) {
		*ret = doc;
		return 0;
	}
	(void)err_set(e, -EINVAL, "%s:%d: not a JSON object", path, doc ? 1 : je.line);
	json_decref(doc);
	return 1;
}

/* Many a script empties the file and then writes it: what cannot be read is looked at again. */
static int read_all(const char *path, json_t **ret, struct err *e)
{
	int r;

	for (int look = 0; (r = read_once(path, ret, e)) == 1 && look < WRITING_N; look++) {
		json_decref(*ret);
		(void)usleep(WRITING_US);
	}
	return r == 1 && !*ret ? -EINVAL : r < 0 ? r : 0;
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

static bool descends(pid_t pid, pid_t from)
{
	for (int steps = 0; pid > 1 && steps < 1000; steps++) {
		if (pid == from)
			return true;
		pid = proc_parent(pid);
	}
	return false;
}

/*
 * Whether anything but this process is left of the task: what a script has put into the background
 * stays below the shim, which is the parent of us all.
 */
static bool others_run(pid_t shim)
{
	DIR *dir = shim > 1 ? opendir("/proc") : NULL;
	struct dirent *de;
	bool found = false;

	while (dir && !found && (de = readdir(dir))) {
		pid_t pid = isdigit((unsigned char)de->d_name[0])
				    ? (pid_t)strtol(de->d_name, NULL, 10)
				    : 0;
		struct proc_peek peek;

		found = pid > 1 && pid != shim && pid != getpid() && proc_peek(pid, &peek) == 0 &&
			peek.state != 'Z' && descends(peek.parent, shim);
	}
	if (dir)
		(void)closedir(dir);
	return found;
}

/* 0: this was not called by a task. */
static pid_t find_shim(void)
{
	struct proc_peek peek;
	pid_t parent = getppid();

	return proc_peek(parent, &peek) == 0 && strcmp(peek.comm, SHIM_COMM) == 0 ? parent : 0;
}

static int by_state(const json_t *entry, const char *state, int code)
{
	const char *type = json_get_str(entry, "error_type");

	if (strcmp(state, "normal_exit") == 0)
		return 0;
	printf("abnormal_exit: %s\n", type ? type : "no error_type");
	if (type && strcmp(type, "oom") == 0)
		printf("CUDA out of memory (as its script says)\n");
	return code ? code : 1;
}

struct last_word {
	json_t *entry;	   /* a new reference, or NULL */
	const char *state; /* in it, unless it is "running"; NULL: none was said */
	bool died;	   /* the process that it names is gone without one */
};

static volatile sig_atomic_t told_since; /* while it waited for what runs in the background */

static void on_term(int number)
{
	told_since = number;
}

/* Waits for it, unless told to end. What goes on is looked at before what it says. */
static struct last_word last_word(const char *path, const char *uni_id, bool told)
{
	struct seen s = { .gone = 0 };
	pid_t shim = find_shim();

	for (;; (void)usleep(LOOK_US)) {
		told = told || told_since;

		bool others = !told && others_run(shim);
		json_t *entry = unistate_get(path, uni_id);
		const char *state = json_get_str(entry, "state");

		if (state && strcmp(state, "running") != 0)
			return (struct last_word){ .entry = entry, .state = state };
		if (told || (!others && !goes_on(&s, entry)))
			return (struct last_word){ .entry = entry, .died = !told && s.proc.pid };
		json_decref(entry);
	}
}

int unistate_end(const char *path, const char *uni_id, int code, bool told)
{
	struct err e = ERR_INIT;

	(void)signal(SIGTERM, on_term);

	struct last_word w = last_word(path, uni_id, told);

	told = told || told_since;
	if (w.state)
		code = by_state(w.entry, w.state, code);
	json_decref(w.entry);
	if (w.state)
		return code;
	code = (w.died || told) && !code ? 1 : code;

	const char *type = told ? "stopped" : w.died ? "died" : "runtime_error";
	json_t *keys = code ? json_pack("{s:s, s:s}", "state", "abnormal_exit", "error_type", type)
			    : json_pack("{s:s}", "state", "normal_exit");

	if (unistate_set(path, uni_id, keys, &e) < 0)
		(void)fprintf(stderr, "compete: %s\n", e.text);
	return code;
}
