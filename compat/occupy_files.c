/* SPDX-License-Identifier: MIT */
#include "compat/occupy_files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"

void occupy_files_init(struct occupy_files *f)
{
	cleanup_free char *home = fs_home_dir();

	f->dir = xasprintf("%s/.config/gpu_occupy", home);
	f->log = xasprintf("%s/occupy.log", f->dir);
	f->pid = xasprintf("%s/occupy.pid", f->dir);
	f->state = xasprintf("%s/occupy.state", f->dir);
}

void occupy_files_clear(struct occupy_files *f)
{
	free(f->dir);
	free(f->log);
	free(f->pid);
	free(f->state);
	*f = (struct occupy_files){ 0 };
}

static const char *host_name(char *buf)
{
	if (gethostname(buf, OCCUPY_HOST_MAX) < 0)
		buf[0] = '\0';
	buf[OCCUPY_HOST_MAX - 1] = '\0';
	return buf;
}

enum occupy_state occupy_files_look(const struct occupy_files *f, struct proc_id *ret_id,
				    char *ret_host)
{
	cleanup_free char *text = NULL;
	char here[OCCUPY_HOST_MAX], host[OCCUPY_HOST_MAX];
	struct proc_id id;
	size_t n;
	int pid;

	if (fs_read_file(f->state, 4096, &text, &n, NULL) < 0 ||
	    sscanf(text, "%d %" SCNu64 " %127s", &pid, &id.start, host) != 3)
		return access(f->pid, F_OK) == 0 ? OCCUPY_STALE : OCCUPY_OFF;
	id.pid = pid;
	*ret_id = id;
	(void)str_copy(ret_host, OCCUPY_HOST_MAX, host);
	if (strcmp(host, host_name(here)) != 0)
		return OCCUPY_ELSEWHERE;
	return proc_alive(&id) ? OCCUPY_ON : OCCUPY_STALE;
}

int occupy_files_lock(const struct occupy_files *f, struct err *e)
{
	int r = fs_mkdirs(f->dir, 0700, e);

	if (r < 0)
		return r;

	cleanup_fd int fd = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return err_sys(e, errno, "open %s", f->dir);
	/* File systems that have no locks there are no reason not to start. */
	if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
		return err_set(e, -EBUSY,
			       "another \"occupy on\", or \"off\", is at it in this moment");
	return take_fd(fd);
}

int occupy_files_claim(const struct occupy_files *f, struct err *e)
{
	char host[OCCUPY_HOST_MAX];
	struct proc_id self;
	int r = proc_identify(getpid(), &self);

	if (r < 0)
		return err_sys(e, -r, "read /proc");

	cleanup_free char *pid = xasprintf("%d\n", (int)self.pid);
	cleanup_free char *state =
		xasprintf("%d %" PRIu64 " %s\n", (int)self.pid, self.start, host_name(host));

	r = fs_write_atomic(f->pid, pid, strlen(pid), 0600, e);
	return r < 0 ? r : fs_write_atomic(f->state, state, strlen(state), 0600, e);
}

void occupy_files_unclaim(const struct occupy_files *f)
{
	(void)unlink(f->state);
	(void)unlink(f->pid);
}
