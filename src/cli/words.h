/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_WORDS_H
#define TENURE_CLI_WORDS_H

/*
 * `tenure words [OPTIONS] -- KIND [BEGINNING]`: what completions (base/completion.h) ask for. One
 * word per line, a tab, and what it means. Nobody wants to read an error at that moment, nor to
 * wait: it prints all that there is, or nothing, within a moment, whatever hangs.
 */

#define WORDS_VERB "words"

int words_main(int argc, char **argv);

#endif
