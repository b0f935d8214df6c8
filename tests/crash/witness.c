/* SPDX-License-Identifier: MIT */

/*
 * What the campaign's tasks run: it bears witness to having run, on a disk of the machine and not
 * in the spool.
 *
 *	witness DIR TAG SECONDS [FAILS [LINGER]]
 *
 * DIR/ledger gets a line, written at once, when it starts and when it ends:
 *
 *	start|end TAG ID ATTEMPT BOOTTIME_MS PID NODE CODE
 *
 * It holds a kernel lock of its id, and of each device that it was given, for as long as a process
 * of its tree lives; where another has one of them the line is "twice". The first FAILS attempts
 * fail; -1: all of them. LINGER: seconds for which a daemon of it stays, with the locks, in a
 * session of its own.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ANCESTORS_MAX 8
#define LINE_SIZE     512

static const char *dir, *tag, *id, *attempt;
static char node[64] = "-";

static long long boot_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_BOOTTIME, &ts);
	return ts.tv_sec * 1000LL + ts.tv_nsec / 1000000;
}

static void die(const char *what)
{
	(void)fprintf(stderr, "witness: %s: %s\n", what, strerror(errno));
	exit(99);
}

static void say(const char *event, int code)
{
	char path[LINE_SIZE], line[LINE_SIZE];
	int n, fd;

	(void)snprintf(path, sizeof(path), "%s/ledger", dir);
	fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	n = snprintf(line, sizeof(line), "%s %s %s %s %lld %d %s %d\n", event, tag, id, attempt,
		     boot_ms(), (int)getpid(), node, code);
	if (fd < 0 || write(fd, line, (size_t)n) != n)
		die(path);
	(void)close(fd);
}

/* It belongs to the open file, so that each process that comes of this one keeps it. */
static void lock(const char *name, const char *event)
{
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char path[LINE_SIZE];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/locks/%s", dir, name);
	fd = open(path, O_RDWR | O_CREAT, 0600);
	if (fd < 0)
		die(path);
	if (fcntl(fd, F_OFD_SETLK, &whole) < 0)
		say(event, 0);
}

/* Which node it is run by: what its shim, the nearest process of tenure above it, has in its
 * environment. */
static void find_node(void)
{
	static char text[1 << 18];
	pid_t pid = getppid();

	for (int i = 0; i < ANCESTORS_MAX && pid > 1; i++) {
		char path[64], comm[32] = "";
		FILE *f;
		size_t n;
		int parent = 0;

		(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
		f = fopen(path, "re");
		if (!f)
			return;
		if (fscanf(f, "%*d (%31[^)]) %*c %d", comm, &parent) != 2)
			parent = 0;
		(void)fclose(f);
		if (strncmp(comm, "tenure-shim", strlen("tenure-shim")) != 0) {
			pid = parent;
			continue;
		}
		(void)snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
		f = fopen(path, "re");
		n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
		if (f)
			(void)fclose(f);
		for (char *at = text; at < text + n; at += strlen(at) + 1)
			if (sscanf(at, "OTHER_NODE=%63[^,]", node) == 1)
				return;
		return;
	}
}

/* A process keeps its locks for as long as the kernel closes its files, which takes until the file
 * server answers: a dead one whose log is on a mount that hangs would be taken for one that runs.
 */
static void leave_log(void)
{
	int null = open("/dev/null", O_RDWR);

	for (int fd = 0; null >= 0 && fd <= 2; fd++)
		(void)dup2(null, fd);
}

static void lock_devices(void)
{
	const char *list = getenv("CUDA_VISIBLE_DEVICES");
	char *copy = strdup(list ? list : ""), *save = NULL;

	for (char *one = strtok_r(copy, ",", &save); one; one = strtok_r(NULL, ",", &save)) {
		char name[LINE_SIZE / 2];

		(void)snprintf(name, sizeof(name), "%s-gpu-%s", node, one);
		lock(name, "device-twice");
	}
	free(copy);
}

static void stay(double seconds)
{
	struct timespec ts = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };

	while (clock_nanosleep(CLOCK_BOOTTIME, 0, &ts, &ts) == EINTR)
		;
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	dir = argv[1];
	tag = argv[2];
	id = getenv("TENURE_TASK_ID");
	attempt = getenv("TENURE_ATTEMPT");
	if (!id || !attempt)
		return 2;
	find_node();
	leave_log();
	lock(id, "twice");
	if (!getenv("WITNESS_SHARES"))
		lock_devices();
	say("start", 0);
	if (argc > 5 && fork() == 0) {
		(void)setsid();
		stay(atof(argv[5]));
		return 0;
	}
	stay(atof(argv[3]));

	int fails = argc > 4 ? atoi(argv[4]) : 0;
	int code = fails < 0 || atoi(attempt) <= fails;

	say("end", code);
	return code;
}
