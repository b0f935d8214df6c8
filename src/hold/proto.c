/* SPDX-License-Identifier: MIT */
#include "hold/proto.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/mem.h"

static const uint32_t sizes[MSG_TYPE_MAX] = {
	[MSG_HELLO] = sizeof(struct msg_hello),
	[MSG_WELCOME] = sizeof(struct msg_guard),
	[MSG_REFUSED] = sizeof(struct msg_text),
	[MSG_POLICY] = sizeof(struct msg_policy),
	[MSG_POLICY_REPLY] = sizeof(struct msg_text),
	[MSG_DEVICE] = sizeof(struct msg_device),
	[MSG_EVENT] = sizeof(struct msg_event),
	[MSG_GUARD] = sizeof(struct msg_guard),
	[MSG_DROP] = sizeof(struct msg_plain),
	[MSG_DROPPED] = sizeof(struct msg_plain),
	[MSG_HEARTBEAT] = sizeof(struct msg_heartbeat),
	[MSG_LEASE] = sizeof(struct msg_lease),
	[MSG_LEASE_REPLY] = sizeof(struct msg_lease_reply),
	[MSG_GRANT] = sizeof(struct msg_grant),
	[MSG_GRANTED] = sizeof(struct msg_lease_reply),
	[MSG_LEASE_TAKEN] = sizeof(struct msg_lease_taken),
	[MSG_UNLEASE] = sizeof(struct msg_unlease),
	[MSG_UNLEASED] = sizeof(struct msg_unleased),
	[MSG_LEASE_STATE] = sizeof(struct msg_lease_state),
	[MSG_RESERVE] = sizeof(struct msg_reserve),
	[MSG_LEASE_USE] = sizeof(struct msg_lease_use),
	[MSG_HEALTH] = sizeof(struct msg_health),
	[MSG_BURN] = sizeof(struct msg_burn),
};

_Static_assert(sizeof(struct msg_event) <= PROTO_MSG_MAX &&
		       sizeof(struct msg_device) <= PROTO_MSG_MAX,
	       "the policy is the largest message");

int proto_check(const void *buf, size_t n)
{
	struct msg_head head;

	if (n < sizeof(head))
		return -EPROTO;
	(void)memcpy(&head, buf, sizeof(head));
	if (head.version != PROTO_VERSION)
		return -EPROTONOSUPPORT;
	if (head.type >= MSG_TYPE_MAX || !sizes[head.type] || head.size != sizes[head.type] ||
	    head.size != n)
		return -EPROTO;
	return 0;
}

static const char *const class_names[] = {
	[PIDS_UNKNOWN] = "unknown", [PIDS_SAME] = "same", [PIDS_HOST] = "host",
	[PIDS_OWN] = "own",	    [PIDS_NONE] = "none",
};
_Static_assert(ARRAY_LEN(class_names) == PID_CLASS_MAX, "a name for every class");

const char *pid_class_name(uint32_t c)
{
	return c < PID_CLASS_MAX ? class_names[c] : "?";
}

static const char *const stage_names[] = {
	[LEASE_PROMISED] = "promised", [LEASE_ASKED] = "asked", [LEASE_GRANTED] = "granted",
	[LEASE_USED] = "used",	       [LEASE_OVER] = "over",
};
_Static_assert(ARRAY_LEN(stage_names) == LEASE_STAGE_MAX, "a name for every stage");

const char *lease_stage_name(uint32_t stage)
{
	return stage < LEASE_STAGE_MAX ? stage_names[stage] : "?";
}
