/* SPDX-License-Identifier: MIT */
#include "hold/holder_proto.h"

#include <errno.h>

int holder_msg_take(struct holder_msg *m, ssize_t n)
{
	struct err e = ERR_INIT;

	if (n != (ssize_t)sizeof(*m) || m->version != HPROTO_VERSION || m->type < HOLDER_HOLD ||
	    m->type >= HOLDER_TYPE_MAX || m->load >= LOAD_MAX || m->duty_permille > 1000 ||
	    m->amount.kind >= MEM_KIND_MAX || m->amount.permille > 1000 || m->at_ns > INT64_MAX ||
	    burn_test_check(&m->burn, &e) < 0)
		return -EPROTO;
	m->text[sizeof(m->text) - 1] = '\0';
	burn_report_end(&m->found);
	if (m->peers.n > BURN_PEERS_MAX || m->peers.own > m->peers.n)
		return -EPROTO;
	for (uint32_t i = 0; i < m->peers.n; i++)
		if (m->peers.windows[i].bytes > BURN_WINDOW_MOST ||
		    m->peers.windows[i].slot >= BURN_PEERS_MAX)
			return -EPROTO;
	return 0;
}
