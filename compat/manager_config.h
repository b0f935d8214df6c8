/* SPDX-License-Identifier: MIT */
#ifndef TENURE_COMPAT_MANAGER_CONFIG_H
#define TENURE_COMPAT_MANAGER_CONFIG_H

/*
 * gpu_manager_config.json: JSON with comments (// to the end of the line, and between the usual two
 * marks), which may stand wherever a blank may. One table says which keys there are, and of what
 * type; an unknown one is told and passed over, as the older tool did without telling, and a wrong
 * type is an error that names the key.
 */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/strbuf.h"
#include "base/textlist.h"

#define MANAGER_UNSET	 UINT_MAX /* a limit that the file does not have */
#define MANAGER_PER_TASK 4	  /* what max_gpus_per_task is then */
#define MANAGER_AUTO	 2	  /* and max_auto_gpus */

struct manager_config {
	double interval_s;				  /* of the monitor */
	unsigned int max_per_task, max_total, max_manual; /* 0: no limit; or MANAGER_UNSET */
	unsigned int max_auto; /* of the automatic base; or MANAGER_UNSET */
	bool auto_scale;
	char *command;		    /* of the program template; NULL: there is none */
	struct text_list args, env; /* env: NAME=VALUE */
	bool scaling;
	unsigned int min_gpus, max_gpus;
	double up, down; /* shares of utilisation, 0 to 1 */
	bool notify;
	char *email;
	unsigned int notify_from; /* free GPUs */
};

/* Comments become blanks, so that lines and columns stay, and so does a byte order mark. In place.
 */
void manager_config_strip(char *text, size_t len);
/* Of a text of that name, which is changed. 0, or -EINVAL; notes: what was passed over, a line
 * each. manager_config_clear() in each case. */
int manager_config_parse(const char *file, char *text, size_t len, struct manager_config *ret,
			 struct strbuf *notes, struct err *e);
/* Of a file; one that is not there, and that nobody has named, is as good as an empty one. 0 or
 * negative. */
int manager_config_read(const char *path, bool named, struct manager_config *ret,
			struct strbuf *notes, struct err *e);
void manager_config_clear(struct manager_config *c);

#endif
