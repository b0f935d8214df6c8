/* SPDX-License-Identifier: MIT */

/*
 * The exit record as JSON. One table names every member of struct task_record, where it lies and
 * what it is; writer and reader are loops over it, so they cannot differ. The writer makes the text
 * itself: it runs once per task in a process that lives for that task only, and building a tree of
 * objects first costs more than all the rest of the record.
 *
 * Numbers of 64 bits are written as they are: a record is read by this program, and by people.
 */

#include "task/end_record.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/enumstr.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"

#define RECORD_FORMAT	 1
#define RECORD_BYTES_MAX (64UL * 1024)
#define VOID_END	 ".void"
#define VOID_TEXT_MAX	 (BOOT_ID_MAX + 24)

static const char *const outcome_names[] = {
	[TASK_UNKNOWN] = "unknown",	[TASK_EXITED] = "exited",
	[TASK_SIGNALLED] = "signalled", [TASK_NOT_STARTED] = "not-started",
	[TASK_CANCELLED] = "cancelled", [TASK_REFUSED] = "refused",
};
_Static_assert(ARRAY_LEN(outcome_names) == TASK_OUTCOME_MAX, "a name for every outcome");

static const char *const cause_names[] = {
	[CAUSE_SELF] = "self",		 [CAUSE_STOP] = "stop",	      [CAUSE_TIMEOUT] = "timeout",
	[CAUSE_TERM] = "term",		 [CAUSE_ALONE] = "alone",     [CAUSE_FENCED] = "fenced",
	[CAUSE_RECLAIMED] = "reclaimed", [CAUSE_REQUEUE] = "requeue",
};
_Static_assert(ARRAY_LEN(cause_names) == TASK_CAUSE_MAX, "a name for every cause");

enum field_type { FIELD_TEXT, FIELD_U64, FIELD_U32, FIELD_I32, FIELD_OUTCOME, FIELD_CAUSE };

struct field {
	const char *name;
	enum field_type type;
	size_t offset;
	size_t size; /* FIELD_TEXT */
};

#define TOP(name_, type_, member_)                                                                 \
	{                                                                                          \
		(name_), (type_), offsetof(struct task_record, member_),                           \
			sizeof(((struct task_record *)0)->member_)                                 \
	}
#define END(name_, type_) TOP(#name_, type_, end.name_)

static const struct field fields[] = {
	TOP("token", FIELD_TEXT, token),
	TOP("boot_id", FIELD_TEXT, boot_id),
	TOP("shim_pid", FIELD_I32, shim.pid),
	TOP("shim_start", FIELD_U64, shim.start),
	END(outcome, FIELD_OUTCOME),
	END(cause, FIELD_CAUSE),
	END(exit_code, FIELD_I32),
	END(signal, FIELD_I32),
	END(leftovers, FIELD_U32),
	END(killed, FIELD_U32),
	END(log_errno, FIELD_I32),
	END(started_wall_ns, FIELD_U64),
	END(ended_wall_ns, FIELD_U64),
	END(leader_ns, FIELD_U64),
	END(run_ns, FIELD_U64),
	END(user_ns, FIELD_U64),
	END(system_ns, FIELD_U64),
	END(max_rss_bytes, FIELD_U64),
	END(major_faults, FIELD_U64),
	END(read_bytes, FIELD_U64),
	END(written_bytes, FIELD_U64),
	END(log_cut_bytes, FIELD_U64),
	END(gpu_peak_bytes, FIELD_U64),
	END(gpu_util_permille, FIELD_U32),
	END(task_pid, FIELD_I32),
	END(leader_first, FIELD_U32),
	END(text, FIELD_TEXT),
};

_Static_assert(sizeof(pid_t) == sizeof(int32_t), "a PID is read as one");

const char *task_outcome_name(uint32_t outcome)
{
	return enum_name(outcome_names, ARRAY_LEN(outcome_names), outcome);
}

const char *task_cause_name(uint32_t cause)
{
	return enum_name(cause_names, ARRAY_LEN(cause_names), cause);
}

bool token_valid(const char *token)
{
	size_t n =
		strspn(token, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

	return n > 0 && n < TASK_TOKEN_MAX && token[n] == '\0' && token[0] != '.';
}

int boot_id_read(char *buf, size_t size)
{
	cleanup_fd int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;

	ssize_t n = read(fd, buf, size - 1);

	if (n <= 0)
		return n < 0 ? -errno : -EIO;
	buf[buf[n - 1] == '\n' ? n - 1 : n] = '\0';
	return 0;
}

/* Quoted; bytes that JSON or UTF-8 might not take become "?": texts hold paths of other people. */
static void add_text(struct strbuf *b, const char *text)
{
	strbuf_addc(b, '"');
	for (const char *p = text; *p; p++) {
		unsigned char c = (unsigned char)*p;

		if (c == '"' || c == '\\')
			strbuf_addc(b, '\\');
		strbuf_addc(b, c >= 0x20 && c < 0x7f ? (char)c : '?');
	}
	strbuf_addc(b, '"');
}

static void add_field(struct strbuf *b, const struct field *f, const void *p)
{
	const char *text = p;
	uint64_t u64 = 0;
	uint32_t u32 = 0;

	(void)memcpy(f->type == FIELD_U64 ? (void *)&u64 : &u32, p,
		     f->type == FIELD_U64 ? sizeof(u64) : sizeof(u32));
	if (f->type == FIELD_OUTCOME)
		text = task_outcome_name(u32);
	else if (f->type == FIELD_CAUSE)
		text = task_cause_name(u32);

	char num[32];

	switch (f->type) {
	case FIELD_U64:
		strbuf_adds(b, str_print(num, sizeof(num), "%llu", (unsigned long long)u64));
		break;
	case FIELD_U32:
		strbuf_adds(b, str_print(num, sizeof(num), "%u", u32));
		break;
	case FIELD_I32:
		strbuf_adds(b, str_print(num, sizeof(num), "%d", (int)u32));
		break;
	case FIELD_TEXT:
	case FIELD_OUTCOME:
	case FIELD_CAUSE:
		add_text(b, text);
		break;
	}
}

char *end_record_format(const struct task_record *r, size_t *ret_len)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	strbuf_addf(&b, "{\"format\": %d", RECORD_FORMAT);
	for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
		strbuf_adds(&b, ",\n \"");
		strbuf_adds(&b, fields[i].name);
		strbuf_adds(&b, "\": ");
		add_field(&b, &fields[i], (const char *)r + fields[i].offset);
	}
	strbuf_adds(&b, "}\n");
	*ret_len = b.len;
	return strbuf_take(&b);
}

static int take_enum(const char *const *names, size_t n, const json_t *v, void *p, struct err *e)
{
	unsigned int value;

	if (!json_is_string(v))
		return err_set(e, -EINVAL, "is not a text");

	int r = enum_parse(names, n, json_string_value(v), &value, e);

	if (r == 0)
		*(uint32_t *)p = value;
	return r;
}

static int take_number(const struct field *f, const json_t *v, void *p, struct err *e)
{
	if (!json_is_integer(v))
		return err_set(e, -EINVAL, "is not a whole number");

	json_int_t n = json_integer_value(v);

	if (f->type == FIELD_I32 ? n < INT32_MIN || n > INT32_MAX : n < 0)
		return err_set(e, -ERANGE, "is out of range");
	if (f->type == FIELD_U32 && n > UINT32_MAX)
		return err_set(e, -ERANGE, "is out of range");
	if (f->type == FIELD_U64)
		*(uint64_t *)p = (uint64_t)n;
	else if (f->type == FIELD_U32)
		*(uint32_t *)p = (uint32_t)n;
	else
		*(int32_t *)p = (int32_t)n;
	return 0;
}

static int take_field(const struct field *f, const json_t *v, void *p, struct err *e)
{
	switch (f->type) {
	case FIELD_TEXT:
		if (!json_is_string(v))
			return err_set(e, -EINVAL, "is not a text");
		(void)str_copy(p, f->size, json_string_value(v));
		return 0;
	case FIELD_OUTCOME:
		return take_enum(outcome_names, ARRAY_LEN(outcome_names), v, p, e);
	case FIELD_CAUSE:
		return take_enum(cause_names, ARRAY_LEN(cause_names), v, p, e);
	case FIELD_U64:
	case FIELD_U32:
	case FIELD_I32:
		return take_number(f, v, p, e);
	}
	return 0;
}

static int take_all(const json_t *root, struct task_record *r, struct err *e)
{
	if (!json_is_object(root) ||
	    json_integer_value(json_object_get(root, "format")) != RECORD_FORMAT)
		return err_set(e, -EINVAL, "is not a record of format %d", RECORD_FORMAT);
	for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
		const json_t *v = json_object_get(root, fields[i].name);

		if (v && take_field(&fields[i], v, (char *)r + fields[i].offset, e) < 0)
			return err_wrap(e, "\"%s\"", fields[i].name);
	}
	if (!token_valid(r->token))
		return err_set(e, -EINVAL, "\"token\" is not one");
	return 0;
}

int end_record_parse(const char *text, size_t len, struct task_record *ret, struct err *e)
{
	struct task_record r = { 0 };
	json_error_t je;
	json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &je);

	if (!root)
		return err_set(e, -EINVAL, "line %d: %s", je.line, je.text);

	int rc = take_all(root, &r, e);

	json_decref(root);
	if (rc == 0)
		*ret = r;
	return rc;
}

static int check_directory(const char *path, struct err *e)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return err_sys(e, errno, "look at %s", path);
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || st.st_mode & (S_IWGRP | S_IWOTH))
		return err_set(e, -EPERM, "%s is not a directory that only we may write in", path);
	return 0;
}

/* The caller frees it. NULL: there is none. */
static char *above_of(const char *dir)
{
	const char *slash = strrchr(dir, '/');

	return slash && slash != dir ? xasprintf("%.*s", (int)(slash - dir), dir) : NULL;
}

int end_record_dir_check(const char *dir, struct err *e)
{
	cleanup_free char *above = above_of(dir);
	int r = check_directory(dir, e);

	return r == 0 && above ? check_directory(above, e) : r;
}

static int make_directory(const char *dir, struct err *e)
{
	return mkdir(dir, 0700) < 0 && errno != EEXIST ? err_sys(e, errno, "make directory %s", dir)
						       : 0;
}

int end_record_dir_make(const char *dir, struct err *e)
{
	cleanup_free char *above = above_of(dir);
	int r = above ? make_directory(above, e) : 0;

	if (r == 0)
		r = make_directory(dir, e);
	return r < 0 ? r : end_record_dir_check(dir, e);
}

static char *path_of(const char *dir, const char *token)
{
	return xasprintf("%s/%s.json", dir, token);
}

/* As fs_write_atomic() without what waits for the disk. */
static int write_unsynced(const char *path, const char *text, size_t len, struct err *e)
{
	cleanup_free char *tmp = xasprintf("%s.tmp", path);
	cleanup_fd int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_sys(e, errno, "create %s", tmp);

	int r = fs_write_all(fd, text, len);

	if (r == 0 && rename(tmp, path) < 0)
		r = -errno;
	if (r < 0)
		(void)unlink(tmp);
	return r < 0 ? err_sys(e, -r, "write %s", path) : 0;
}

static int write_synced(const char *path, const char *text, size_t len, struct err *e)
{
	return fs_write_atomic(path, text, len, 0600, e);
}

int end_record_write(const char *dir, const struct task_record *r, bool sync, struct err *e)
{
	size_t len;
	cleanup_free char *text = end_record_format(r, &len);
	cleanup_free char *path = path_of(dir, r->token);

	int (*write)(const char *, const char *, size_t, struct err *) =
		sync ? write_synced : write_unsynced;
	int code = write(path, text, len, e);

	if (code == -ENOENT) {
		code = end_record_dir_make(dir, e);
		if (code == 0)
			code = write(path, text, len, e);
	}
	return code;
}

int end_record_read(const char *dir, const char *token, struct task_record *ret, struct err *e)
{
	if (!token_valid(token))
		return err_set(e, -EINVAL, "\"%s\" is not a token", token);

	cleanup_free char *path = path_of(dir, token);
	cleanup_free char *text = NULL;
	struct task_record rec;
	size_t len;
	int r = fs_read_file(path, RECORD_BYTES_MAX, &text, &len, e);

	if (r == 0) {
		r = end_record_parse(text, len, &rec, e);
		if (r == 0 && strcmp(rec.token, token) != 0)
			r = err_set(e, -EINVAL, "is the record of %s", rec.token);
		if (r < 0)
			(void)err_wrap(e, "%s", path);
	}
	if (r == -EINVAL || r == -ERANGE || r == -EFBIG)
		return -EBADMSG;
	if (r == 0)
		*ret = rec;
	return r;
}

int end_record_set_aside(const char *dir, const char *token, struct err *e)
{
	cleanup_free char *path = path_of(dir, token);
	cleanup_free char *bad = xasprintf("%s/%s" RECORD_BAD_END, dir, token);

	if (rename(path, bad) < 0)
		return err_sys(e, errno, "rename %s to %s", path, bad);
	(void)utimensat(AT_FDCWD, bad, NULL, AT_SYMLINK_NOFOLLOW); /* its day begins now */
	return 0;
}

bool end_record_exists(const char *dir, const char *token)
{
	cleanup_free char *path = path_of(dir, token);

	return access(path, F_OK) == 0 || errno != ENOENT;
}

int end_record_open_log(const char *dir, const char *token, int flags, char *ret_path,
			struct err *e)
{
	if (!token_valid(token))
		return err_set(e, -EINVAL, "\"%s\" is not a token", token);

	cleanup_free char *path = xasprintf("%s/%s.log", dir, token);
	int r = flags & O_CREAT ? end_record_dir_make(dir, e) : 0;
	int fd = r < 0 ? r : open(path, flags | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0 && r == 0)
		return err_sys(e, errno, "%s %s", flags & O_CREAT ? "create" : "open", path);
	if (fd >= 0 && ret_path)
		(void)str_copy(ret_path, PATH_MAX, path);
	return fd;
}

int end_record_remove(const char *dir, const char *token)
{
	if (!token_valid(token))
		return -EINVAL;

	cleanup_free char *path = path_of(dir, token);

	return unlink(path) < 0 && errno != ENOENT ? -errno : 0;
}

static char *void_path(const char *dir, const char *token)
{
	return xasprintf("%s/%s" VOID_END, dir, token);
}

static int open_void(const char *path)
{
	return open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
}

int end_record_void(const char *dir, const char *token, struct err *e)
{
	if (!token_valid(token))
		return err_set(e, -EINVAL, "\"%s\" is not a token", token);

	char boot_id[BOOT_ID_MAX] = "", made[VOID_TEXT_MAX];
	cleanup_free char *path = void_path(dir, token);
	cleanup_fd int fd = open_void(path);

	if (fd < 0 && errno == ENOENT) {
		int r = end_record_dir_make(dir, e);

		if (r < 0)
			return r;
		fd = open_void(path);
	}
	if (fd < 0)
		return err_sys(e, errno, "create %s", path);
	/* That it is there is what counts: when it may go is all that this says. */
	(void)boot_id_read(boot_id, sizeof(boot_id));
	(void)str_print(made, sizeof(made), "%s %" PRIu64 "\n", boot_id, clock_boot_ns());
	(void)!pwrite(fd, made, strlen(made), 0);
	return 0;
}

bool end_record_is_void(const char *dir, const char *token)
{
	cleanup_free char *path = void_path(dir, token);

	return access(path, F_OK) == 0 || errno != ENOENT;
}

static bool is_older(int dir_fd, const char *name, uint64_t older_ns)
{
	struct stat st;

	return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       clock_timespec_ns(&st.st_mtim) + older_ns < clock_wall_ns();
}

/* Of an earlier boot nothing is under way. Where it does not say when it was made, the wall clock
 * has to do: a disk may have been full, and a tenure of before wrote nothing. */
static bool is_void_over(int dir_fd, const char *name, uint64_t older_ns)
{
	cleanup_fd int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	char text[VOID_TEXT_MAX] = "", boot_id[BOOT_ID_MAX], now[BOOT_ID_MAX];
	uint64_t made;

	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0 ||
	    sscanf(text, "%39s %" SCNu64, boot_id, &made) != 2 ||
	    boot_id_read(now, sizeof(now)) < 0)
		return is_older(dir_fd, name, older_ns);
	return strcmp(boot_id, now) != 0 || made + older_ns < clock_boot_ns();
}

/* Behind one that is put aside a void is made, whose age does not go by the clock: while that is
 * there, the record is new, whatever the clock says. */
static bool is_bad_over(int dir_fd, const char *name, uint64_t older_ns)
{
	cleanup_free char *beside =
		xasprintf("%.*s" VOID_END, (int)(strlen(name) - strlen(RECORD_BAD_END)), name);

	return faccessat(dir_fd, beside, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT &&
	       is_older(dir_fd, name, older_ns);
}

void end_record_clear_voids(const char *dir, uint64_t older_ns)
{
	DIR *d = opendir(dir);
	const struct dirent *entry;

	while (d && (entry = readdir(d))) {
		const char *name = entry->d_name;

		if ((str_has_suffix(name, VOID_END) && is_void_over(dirfd(d), name, older_ns)) ||
		    (str_has_suffix(name, RECORD_BAD_END) && is_bad_over(dirfd(d), name, older_ns)))
			(void)unlinkat(dirfd(d), name, 0);
	}
	if (d)
		(void)closedir(d);
}
