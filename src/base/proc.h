/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_PROC_H
#define TENURE_BASE_PROC_H

/*
 * A process is a PID *and* its start time: the kernel gives a PID to somebody else as soon as it is
 * free. All reads are from /proc and never block on anything but the kernel; which has PID/stat
 * wait, lately (seen in 6.18.44), while that process is in execve() and closes a file there whose
 * server does not answer; and proc_environ() waits for a process. PID/status waits for nobody.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct proc_id {
	pid_t pid;
	uint64_t start; /* /proc/PID/stat field 22, clock ticks since boot */
};

/* 0 and *ret; -ESRCH: there is no such process; -errno. */
int proc_identify(pid_t pid, struct proc_id *ret);

/* That very process still runs (a zombie does not): 1, 0, or -errno: it cannot be told, for want of
 * descriptors. */
int proc_runs(const struct proc_id *id);
/* It is not known to be gone. */
bool proc_alive(const struct proc_id *id);

/*
 * A pidfd, which is readable when the process has ended. -errno; kernels before 5.3 have none
 * (-ENOSYS), and some sandboxes allow none (-EPERM): who waits for that end calls proc_runs() from
 * time to time then.
 */
int proc_open(pid_t pid);
/* What proc_open() gave says that the kernel has no such call, or a sandbox forbids it. */
bool proc_lacks_call(int r);

/*
 * Signal that very process, and no other one that has got its PID. 0; -ESRCH: it is gone, or a
 * zombie; -EPERM: it may not be signalled; -errno: it cannot be told, for want of descriptors. The
 * signal goes through a pidfd. Where there is none it goes to the PID, right after a look at whose
 * that is: a mistake would take all other PIDs of the machine to be used up in between.
 */
int proc_signal(const struct proc_id *id, int sig);
/* Its second half, for who has seen in another way whose pidfd that is; fd < 0: to the PID. */
int proc_signal_fd(int fd, pid_t pid, int sig);

/* Parent of pid, or -ESRCH / -errno. */
pid_t proc_parent(pid_t pid);

struct proc_peek {
	char comm[16]; /* the program's short name, fit to be shown */
	char state;    /* R, S, D, Z, ... */
	bool ending;   /* it was killed or has exited, so nothing of it runs any more; the kernel
			  may take a while to give back what it had */
	pid_t parent;
	uint64_t start;
	uid_t uid;
};

/* What /proc says without touching the process's memory, so that it never waits for its page
 * faults. 0 and *ret, or -ESRCH / -errno. */
int proc_peek(pid_t pid, struct proc_peek *ret);

/*
 * Whether it runs Python: by its program file, or its name where that cannot be read. (PyTorch's
 * processes rename themselves.)
 */
bool proc_is_python(pid_t pid, const char *comm);
/* The last part of the path of its program file; empty where it cannot be read. Returns buf. */
char *proc_program(pid_t pid, char *buf, size_t size);

/* -errno of a look at a process that says nothing of it: what we are short of, or that it stays in
 * execve(). That it is gone, or not ours to read, does. */
bool proc_is_no_answer(int r);

/* Whether that is the real user of a process: 1, 0 (also: it is gone), or what proc_is_no_answer().
 * The owner of its directory would be root where it must not be read. */
int proc_is_of(pid_t pid, uid_t user);
/* From the text of /proc/PID/status; false: it does not say. */
bool proc_parse_user(const char *text, uid_t *ret);

/*
 * The environment that a process was started with: *ret_len bytes, NAME=VALUE and a NUL each, and a
 * NUL more; the caller frees it. One that is in execve() has none for a moment, or the rest of one
 * that is being read is missing: that is waited for, 100 ms at most. 0; -ESRCH: it has ended, or is
 * the kernel's own; -EAGAIN: it is in execve(), and stays there; -EACCES: it is not ours to read;
 * -EFBIG: more than 4 MiB; -errno. It can wait for the memory of a process that hangs: not for an
 * event loop's thread.
 */
int proc_environ(pid_t pid, char **ret, size_t *ret_len);
/* From the text of /proc/PID/stat: the size of its environment in bytes. -ESRCH: it has ended, or
 * is the kernel's own; -EAGAIN: it has none yet, being in execve(), or the kernel does not say;
 * -ENODATA: nor that. */
int proc_parse_environ_size(const char *stat, size_t *ret);

/* The text of /proc/PID/stat, which is changed; 0 or -EIO. All of *ret but uid. */
int proc_parse_stat(char *text, struct proc_peek *ret);
/* That of /proc/PID/cgroup, which is changed: as proc_cgroup(). */
int proc_parse_cgroup(char *text, char *buf, size_t size);

/* When a process began, from its start field, on CLOCK_MONOTONIC; exact to 10 ms, never late. */
uint64_t proc_start_mono_ns(uint64_t start);

/*
 * The real user and the command line of a process, the latter cut to size and with unprintable
 * bytes replaced; -1 and empty where they cannot be read. Names of users are not looked up here:
 * that can hang on a directory service, which nothing in the guard may. Use user_name() where that
 * is fine.
 */
uid_t proc_describe(pid_t pid, char *command, size_t command_size);

/* The name of a user, or "uid 1234". May block on the directory service. Returns buf. */
char *user_name(uid_t uid, char *buf, size_t size);

/* The mask of this process for the modes of new files: to ask umask() is to change it for all
 * threads. 022 where the kernel does not tell (before Linux 4.7). */
uint32_t proc_umask(void);

/*
 * Ask that the caller, and whom it starts, get a processor soon after they wake, for as short a
 * time as they then need: for who mostly sleeps, and is late at once where every processor is busy.
 * The share of the processors stays the same, so that everybody may ask for it. Linux 6.12 and
 * later (the slice of EEVDF, sched(7)); nothing before.
 */
void proc_be_prompt(void);

/*
 * Descriptors from 3 on, as whoever started this process left them open: a lock that a shell holds,
 * the end of somebody's pipe. Before we open our own, or for a child that is to have one alone.
 * Ignored where /proc cannot be read.
 */
void proc_fds_keep_private(void); /* they are not handed on to what is executed from here */
void proc_fds_close(int but);

/* Whether this process was started with the signal ignored (nohup, a shell's `&`), which it is to
 * keep. */
bool proc_ignores(int signum);

/* Whether that signal would end the process, because it neither catches, ignores nor blocks it: 1,
 * 0, or -ESRCH / -errno. Of a process that begins it is so until it has set its handler. */
int proc_ends_by(pid_t pid, int signum);
/* The same from the text of /proc/PID/status; -EINVAL: it is none. */
int proc_parse_ends_by(const char *text, int signum);

/* We are in a PID namespace of our own: processes of others may be missing from what we see. */
bool proc_in_namespace(void);
/* In a container of Docker, Podman, Kubernetes or systemd, by what these leave there; one may have
 * the PIDs of the machine all the same. */
bool proc_in_container(void);

/* Path of the process in the unified cgroup hierarchy ("/user.slice/..."). 0, or -errno. */
int proc_cgroup(pid_t pid, char *buf, size_t size);

#endif
