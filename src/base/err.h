/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_ERR_H
#define TENURE_BASE_ERR_H

/*
 * One error idiom for the whole program.
 *
 * A function that can fail returns int: 0, a negative errno, or a positive condition that its
 * header documents for the direct caller. What a person should read travels in a `struct err` that
 * lives on the caller's stack. The place that fails sets it; every layer on the way up adds its
 * phrase in front, so the reader sees "cannot hold GPU 2: open /dev/nvidia2: permission denied".
 *
 * A `struct err *` argument may be NULL where the caller does not care for the text.
 * Libraries never print and never exit; only the command line does.
 */

#define ERR_TEXT_MAX 768

struct err {
	int code; /* negative errno; 0 while nothing has failed */
	char text[ERR_TEXT_MAX];
};

#define ERR_INIT                                                                                   \
	{                                                                                          \
		.code = 0                                                                          \
	}

/* Set the text and return code, so that `return err_set(e, -EINVAL, "...")` reads well. */
int err_set(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* As err_set() with ": strerror(errnum)" appended; errnum is positive. Returns -errnum. */
int err_sys(struct err *e, int errnum, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Put "phrase: " in front of the text that is there. Returns e->code (or code of no err: -EIO). */
int err_wrap(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
