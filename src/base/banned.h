/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_BANNED_H
#define TENURE_BASE_BANNED_H

/*
 * Functions that are not used here, and what is used instead. This header is forced into every file
 * of the program by the build (-include), after the system headers it needs, so that a use of one
 * of them does not compile.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#define BANNED(name) sorry_##name##_is_a_banned_function

#undef strcpy
#define strcpy(x, y) BANNED(strcpy) /* str_copy() */
#undef strcat
#define strcat(x, y) BANNED(strcat) /* strbuf */
#undef strncpy
#define strncpy(x, y, n) BANNED(strncpy) /* str_copy() */
#undef strncat
#define strncat(x, y, n) BANNED(strncat) /* strbuf */
#undef strtok
#define strtok(x, y) BANNED(strtok) /* strtok_r() */
#undef sprintf
#define sprintf(...) BANNED(sprintf) /* snprintf() */
#undef vsprintf
#define vsprintf(...) BANNED(vsprintf) /* vsnprintf() */
#undef gmtime
#define gmtime(t) BANNED(gmtime) /* gmtime_r() */
#undef localtime
#define localtime(t) BANNED(localtime) /* localtime_r() */
#undef ctime
#define ctime(t) BANNED(ctime) /* clock_format_local() */
#undef asctime
#define asctime(t) BANNED(asctime) /* clock_format_local() */
#undef atoi
#define atoi(s) BANNED(atoi) /* str_to_u64() */
#undef atol
#define atol(s) BANNED(atol) /* str_to_u64() */
#undef mktemp
#define mktemp(x) BANNED(mktemp) /* mkostemp() */
#undef tmpnam
#define tmpnam(x) BANNED(tmpnam) /* mkostemp() */
#undef system
#define system(x) BANNED(system) /* posix_spawn(), uv_spawn() */
#undef popen
#define popen(x, y) BANNED(popen) /* posix_spawn(), uv_spawn() */

#endif
