/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_TOP_H
#define TENURE_CLI_TOP_H

#define TOP_PROGRAM "tenure-top"
#define TOP_NEEDS   "ncursesw (libncurses-dev)"

#endif
