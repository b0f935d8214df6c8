/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_INSTANCE_H
#define TENURE_CLI_INSTANCE_H

/*
 * Which spool a command means: the instance of the settings, opened with a note while its directory
 * does not answer, because its file server hangs.
 */

#include "cli/cmd.h"
#include "spool/instance.h"

/* What a command has to be told so that it means this one's instance: "", " -i NAME",
 * " --root DIR -i NAME". What the environment and files say they say to the next command, too. The
 * caller frees it. */
char *instance_option(const struct cmd_ctx *ctx);
/* The directory of the settings' instance; the caller's to free. */
char *instance_dir(const struct cmd_ctx *ctx);

/*
 * The instance of the settings; flags as of spool_open(). A note says so while it does not answer.
 * 0 or negative.
 */
int instance_open(const struct cmd_ctx *ctx, unsigned int flags, struct spool **ret, struct err *e);
/* The same without a note, for who shows something else meanwhile. */
int instance_open_quietly(const struct cmd_ctx *ctx, unsigned int flags, struct spool **ret,
			  struct err *e);
/*
 * The same to look at, where one into which nothing was ever submitted is as good as an empty one:
 * *ret is then NULL, and a note has said that there is none.
 */
int instance_open_if_there(const struct cmd_ctx *ctx, unsigned int flags, struct spool **ret,
			   struct err *e);

/*
 * The one or the other, by the words of the command line from the one of that number on: all means
 * nothing where there is nothing, and who names something is told that it is not there.
 */
int instance_open_for(const struct cmd_ctx *ctx, size_t first, unsigned int flags,
		      struct spool **ret, struct err *e);

/*
 * If it takes three seconds from begin to end, a thread notes that the directory is waited for. Its
 * name is not copied. NULL, and no note, where there can be no thread; end takes that too.
 */
struct instance_note;
struct instance_note *instance_note_begin(const char *dir);
struct instance_note *instance_note_end(struct instance_note *s);

/* False: nothing came of a look at the queue in three seconds. */
bool instance_answers(const struct cmd_ctx *ctx);
/* The note itself; and_then: what is done about it, a sentence. */
void instance_tell_silent(const char *dir, const char *and_then);

#endif
