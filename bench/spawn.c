/* SPDX-License-Identifier: MIT */

/*
 * What starting and waiting for programs costs, for bench/queue: Python's own cost would hide it.
 *
 *	spawn wide N W CMD ARGS			N in all, W at once: microseconds per run
 *	spawn turns N CMD ARGS [';' CMD ARGS]..	N times each, in turns: JSON lists of microseconds
 *
 * Standard output of what is started goes to /dev/null.
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KINDS_MAX 8

static double now_us(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void run_once(char **argv, posix_spawn_file_actions_t *files)
{
	int status;
	pid_t pid;

	if (posix_spawnp(&pid, argv[0], files, NULL, argv, environ) != 0 ||
	    waitpid(pid, &status, 0) != pid || status != 0) {
		(void)fprintf(stderr, "spawn: %s has failed\n", argv[0]);
		exit(1);
	}
}

static int wide(int n, int w, char **argv, posix_spawn_file_actions_t *files)
{
	double begun = now_us();

	for (int i = 0; i < w; i++) {
		if (fork() != 0)
			continue;
		for (int k = 0; k < n / w; k++)
			run_once(argv, files);
		_exit(0);
	}
	for (int i = 0; i < w; i++)
		(void)wait(NULL);
	printf("%.1f\n", (now_us() - begun) / n);
	return 0;
}

static int turns(int n, char **argv, posix_spawn_file_actions_t *files)
{
	char **kinds[KINDS_MAX] = { argv };
	int n_kinds = 1;
	double *took;

	for (; *argv; argv++)
		if (strcmp(*argv, ";") == 0 && n_kinds < KINDS_MAX) {
			*argv = NULL;
			kinds[n_kinds++] = ++argv;
		}
	took = calloc((size_t)(n * n_kinds), sizeof(*took));
	if (!took)
		return 1;
	for (int i = 0; i < n * n_kinds; i++) {
		double begun = now_us();

		run_once(kinds[i % n_kinds], files);
		took[i] = now_us() - begun;
	}
	for (int k = 0; k < n_kinds; k++)
		for (int i = 0; i < n; i++)
			printf("%s%.1f%s",
			       i   ? ", "
			       : k ? ", ["
				   : "[[",
			       took[i * n_kinds + k], i < n - 1 ? "" : "]");
	(void)puts("]");
	free(took);
	return 0;
}

int main(int argc, char **argv)
{
	posix_spawn_file_actions_t files;

	(void)posix_spawn_file_actions_init(&files);
	(void)posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
	if (argc > 4 && strcmp(argv[1], "wide") == 0)
		return wide(atoi(argv[2]), atoi(argv[3]), argv + 4, &files);
	if (argc > 3 && strcmp(argv[1], "turns") == 0)
		return turns(atoi(argv[2]), argv + 3, &files);
	(void)fputs("usage: spawn wide N W CMD ARGS | spawn turns N CMD ARGS [';' CMD ARGS]..\n",
		    stderr);
	return 2;
}
