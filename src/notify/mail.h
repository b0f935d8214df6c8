/* SPDX-License-Identifier: MIT */
#ifndef TENURE_NOTIFY_MAIL_H
#define TENURE_NOTIFY_MAIL_H

/* Mail, by a server (SMTP with TLS and login) or by the machine's sendmail. Both block. 0, or
 * -errno with e. */

#include <jansson.h>

#include "notify/config.h"
#include "notify/delivered.h"

int mail_by_server(const struct channel *ch, const json_t *event, enum delivered *how,
		   struct err *e);
int mail_by_sendmail(const struct channel *ch, const json_t *event, enum delivered *how,
		     struct err *e);

#endif
