/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SERVE_LISTEN_H
#define TENURE_SERVE_LISTEN_H

/*
 * Where `tenure serve` is found: the name INSTANCE/serve (base/endpoint.h), which one process of an
 * instance and node has, and which tells in one packet of JSON where it listens; the Unix socket
 * for HTTP beside it in the private directory; and a TCP port, if one is asked for.
 */

#include <stdbool.h>

#include "base/endpoint.h"
#include "base/err.h"
#include "base/textlist.h"

struct listen_unix {
	struct endpoint ep;
	char path[SOCKDIR_PATH_MAX + ENDPOINT_FILE_MAX + 16]; /* of the socket for HTTP */
	struct endpoint_file id;			      /* of that file */
};

/* Take the name and listen beside it. 0 and *ret_fd, the caller's; -EADDRINUSE; -errno. */
int listen_unix_open(struct listen_unix *l, const char *name, int *ret_fd, struct err *e);
/* Every second: files can be tidied away. 0; 1: they were, and *ret_fd listens in place of what did
 * before; negative: not now, or for good (-EADDRINUSE). */
int listen_unix_check(struct listen_unix *l, int *ret_fd, struct err *e);
void listen_unix_close(struct listen_unix *l);
/* Tell whoever has connected to the name. */
void listen_unix_tell(struct listen_unix *l, const char *text);

/*
 * "127.0.0.1:8470", "[::1]:8470", "localhost:8470", ":8470" (127.0.0.1), "8470". 0, *ret_fd,
 * *ret_address with the port that it has ("127.0.0.1:8470"; the caller frees it), and the host is
 * added to hosts. Of all addresses ("0.0.0.0", "::", "*") that of loopback is told, which can be
 * opened here, and the machine's own name is added. *ret_open: others than this machine can reach
 * it. -EINVAL, -errno.
 */
int listen_tcp(const char *where, int *ret_fd, char **ret_address, struct text_list *hosts,
	       bool *ret_open, struct err *e);

#endif
