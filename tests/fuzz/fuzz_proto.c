/* SPDX-License-Identifier: MIT */

/* A message over the guard's socket; what is a policy and is accepted must be usable. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "hold/proto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use_policy(const struct hold_policy *p)
{
	struct err e = ERR_INIT;

	if (policy_check(p, &e) < 0) {
		if (!e.text[0])
			abort();
		return;
	}
	for (uint32_t i = 0; i < p->n_gpus; i++)
		if (strlen(p->gpus[i]) >= POLICY_GPU_TEXT)
			abort();
	if (mem_amount_bytes(&p->memory, 1ULL << 37) > 1ULL << 37)
		abort();
	if (p->util > 100 || !p->refresh_ms || load_kind_name(p->load)[0] == '?')
		abort();
	/* In nanoseconds it still fits, with a quarter more. */
	if (p->rehold_ms > UINT64_MAX / 2000000 || p->idle_for_ms > UINT64_MAX / 2000000)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct msg_policy m = { .head = PROTO_HEAD(MSG_POLICY, struct msg_policy) };

	if (proto_check(data, size) == 0 && size > PROTO_MSG_MAX)
		abort();
	policy_defaults(&m.policy);
	/* As a whole message, and laid over a policy that is right. */
	if (size == sizeof(m) && proto_check(data, size) == 0)
		(void)memcpy(&m, data, size);
	else
		(void)memcpy(&m.policy, data, size < sizeof(m.policy) ? size : sizeof(m.policy));
	use_policy(&m.policy);
	return 0;
}
