/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TESTS_IDLE_LOOP_H
#define TENURE_TESTS_IDLE_LOOP_H

/* A loop of a test's own that goes on though nothing that it has is worth waiting for. */

#include <unistd.h>
#include <uv.h>

static uv_idle_t idle;

static inline void on_idle(uv_idle_t *handle)
{
	(void)usleep(500);
}

/* 0, or -1. */
static inline int begin_loop(uv_loop_t *loop)
{
	return uv_loop_init(loop) < 0 || uv_idle_init(loop, &idle) < 0 ||
			       uv_idle_start(&idle, on_idle) < 0
		       ? -1
		       : 0;
}

/* As uv_loop_close(): not 0 where something of it is still there. */
static inline int end_loop(uv_loop_t *loop)
{
	uv_close((uv_handle_t *)&idle, NULL);
	(void)uv_run(loop, UV_RUN_DEFAULT);
	return uv_loop_close(loop);
}

#endif
