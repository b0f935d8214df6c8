/* SPDX-License-Identifier: MIT */
#include "cli/event_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/units.h"
#include "base/utf8.h"
#include "cli/agent_setup.h"

#define WAIT_MS	 2000 /* for other commands that write */
#define PAUSE_MS 10

/* The directory, locked as far as that is possible there. */
const char *const event_file_kinds[] = { "refused", NULL };

static int lock_dir(const char *dir)
{
	static const struct timespec pause = { .tv_nsec = PAUSE_MS * (long)NS_PER_MS };
	uint64_t end_ns = clock_mono_ns() + WAIT_MS * NS_PER_MS;
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 &&
	       (errno == EWOULDBLOCK || errno == EINTR) && clock_mono_ns() < end_ns)
		(void)nanosleep(&pause, NULL);
	return fd;
}

/* The sentence is the last member of every event. Takes the reference to more over. */
static char *line_of(const struct cmd_ctx *ctx, enum log_level level, const char *kind,
		     json_t *more, const char *text)
{
	cleanup_free char *clean = utf8_clean(xstrdup(text));
	char time[CLOCK_TEXT_MAX], *line;
	json_t *o = json_pack("{s:s, s:s, s:s}", "time", clock_format_iso(clock_wall_ns(), time),
			      "event", kind, "instance", settings_str(ctx->settings, SET_INSTANCE));

	(void)json_object_update_missing(o, more);
	json_decref(more);
	(void)json_object_set_new(o, "level", json_string(log_level_name(level)));
	(void)json_object_set_new(o, "text", json_string(clean));
	line = json_dumps(o, JSON_COMPACT | NUMBER_DIGITS);
	json_decref(o);
	return line;
}

static int write_line(const char *dir, const char *line, struct err *e)
{
	char host[256] = "";
	struct log *log = NULL;
	cleanup_fd int fd = -1;
	int r = fs_mkdirs(dir, 0700, e);

	if (r < 0)
		return r;
	if (gethostname(host, sizeof(host) - 1) < 0 || !host[0])
		(void)str_copy(host, sizeof(host), "localhost");
	fd = lock_dir(dir);

	cleanup_free char *path = xasprintf("%s/%s.commands.jsonl", dir, host);

	r = log_open(path, LOG_FILE_BYTES, LOG_FILES, &log, e);
	log_line(log, line, strlen(line));
	if (r == 0 && log_dropped(log))
		r = err_sys(e, log_drop_errno(log), "write %s", path);
	log = log_close(log);
	return r;
}

void event_file_add(const struct cmd_ctx *ctx, enum log_level level, const char *kind, json_t *more,
		    const char *text)
{
	cleanup_free char *line = line_of(ctx, level, kind, more, text);
	cleanup_free char *state = agent_setup_state_dir(ctx->settings);
	cleanup_free char *dir =
		xasprintf("%s/%s/events", state, settings_str(ctx->settings, SET_INSTANCE));
	struct err e = ERR_INIT;

	if (line && write_line(dir, line, &e) < 0)
		cmd_warn("warning", "the event of it is not written: %s", e.text);
}

uint64_t event_file_time(const json_t *event)
{
	const char *text = json_get_str(event, "time"), *dot = text ? strchr(text, '.') : NULL;
	uint64_t ns, ms = 0;
	char digits[4];

	if (!text || unit_parse_time(text, 0, &ns, NULL) < 0)
		return 0;
	if (dot && strspn(dot + 1, "0123456789") >= 3 &&
	    str_to_u64(str_print(digits, sizeof(digits), "%.3s", dot + 1), &ms) < 0)
		ms = 0;
	return ns + ms * NS_PER_MS;
}
