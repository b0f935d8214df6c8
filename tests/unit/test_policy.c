/* SPDX-License-Identifier: MIT */

/* What comes over the sockets: policies and messages; and the names of those sockets. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#include "base/mem.h"
#include "base/sock.h"
#include "hold/endpoint_names.h"
#include "hold/policy.h"
#include "hold/proto.h"

static const uint64_t gib = 1ULL << 30;

static void test_defaults_are_valid(void **state)
{
	struct hold_policy p;
	struct err e = ERR_INIT;

	policy_defaults(&p);
	assert_int_equal(policy_check(&p, &e), 0);
	assert_int_equal(p.memory.permille, 880);
	assert_int_equal(p.idle_for_ms, 300000);
}

/* One wrong field each; the text names it. */
#define WRONG(field_, what_)                                                                       \
	do {                                                                                       \
		struct hold_policy p;                                                              \
		struct err e = ERR_INIT;                                                           \
		policy_defaults(&p);                                                               \
		what_;                                                                             \
		assert_int_equal(policy_check(&p, &e), -EINVAL);                                   \
		assert_non_null(strstr(e.text, field_));                                           \
	} while (0)

static void test_wrong_policies(void **state)
{
	WRONG("load", p.load = LOAD_MAX);
	WRONG("burn", p.burn.exclusive = 1);
	WRONG("burn", (p.load = LOAD_BURN, p.burn.exclusive = 2));
	WRONG("gpus", p.n_gpus = POLICY_GPUS_MAX + 1);
	WRONG("ignore_pid", p.n_ignore = POLICY_IGNORE_MAX + 1);
	WRONG("gpus", p.all = 0);
	WRONG("gpus", (p.all = 0, p.n_gpus = 2, memcpy(p.gpus[0], "0", 2)));
	WRONG("gpus", (p.n_gpus = 1, memset(p.gpus[0], 'x', POLICY_GPU_TEXT)));
	WRONG("util_band", p.util = 0);
	WRONG("util_band", p.util_low = 76);
	WRONG("util_band", p.util_high = 74);
	WRONG("util_band", p.util_high = 101);
	WRONG("refresh", p.refresh_ms = 0);
	WRONG("rest", p.rest_ms = 1);
	WRONG("memory", p.memory.kind = MEM_KIND_MAX);
	WRONG("memory", p.memory.permille = 0);
	WRONG("memory", p.memory.permille = 1001);
	WRONG("memory", p.memory = (struct mem_amount){ .kind = MEM_BYTES });
	/* In nanoseconds they would not fit, and wrap round to almost nothing. */
	WRONG("idle_for", p.idle_for_ms = UINT64_MAX / 1000);
	WRONG("refresh", p.refresh_ms = UINT64_MAX);
	WRONG("rehold_after", p.rehold_ms = UINT64_MAX / 1000000 + 1);
	WRONG("work", (p.work_ms = UINT64_MAX, p.rest_ms = 1));
	WRONG("rest", (p.work_ms = 1, p.rest_ms = UINT64_MAX));
}

static void test_mem_amount(void **state)
{
	static const struct {
		struct mem_amount m;
		uint64_t free_bytes, want;
	} cases[] = {
		{ { MEM_BYTES, 0, 38ULL << 30 }, 80ULL << 30, 38ULL << 30 },
		{ { MEM_BYTES, 0, 38ULL << 30 }, 20ULL << 30, 20ULL << 30 },
		{ { MEM_BYTES, 0, UINT64_MAX }, 5, 5 },
		{ { MEM_ALL_BUT, 0, 2ULL << 30 }, 80ULL << 30, 78ULL << 30 },
		{ { MEM_ALL_BUT, 0, 2ULL << 30 }, 1ULL << 30, 0 },
		{ { MEM_ALL_BUT, 0, 0 }, 80ULL << 30, 80ULL << 30 },
		{ { MEM_ALL_BUT, 0, UINT64_MAX }, 80ULL << 30, 0 },
		{ { MEM_PERMILLE, 500, 0 }, 2000, 1000 },
		{ { MEM_PERMILLE, 1000, 0 }, 2000, 2000 },
		{ { MEM_PERMILLE, 1, 0 }, 0, 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(mem_amount_bytes(&cases[i].m, cases[i].free_bytes), cases[i].want);
	/* No overflow on a card that nobody has yet. */
	assert_true(mem_amount_bytes(&(struct mem_amount){ .kind = MEM_PERMILLE, .permille = 880 },
				     1ULL << 62) > 800ULL * gib);
}

static void test_load_names(void **state)
{
	uint8_t kind = 99;
	struct err e = ERR_INIT;

	for (uint8_t i = 0; i < LOAD_BURN; i++) {
		assert_int_equal(load_kind_parse(load_kind_name(i), &kind, &e), 0);
		assert_int_equal(kind, i);
	}
	assert_int_equal(load_kind_parse("heavy", &kind, &e), -EINVAL);
	assert_non_null(strstr(e.text, "gemm"));
	/* That one is for `tenure burn` alone. */
	assert_string_equal(load_kind_name(LOAD_BURN), "burn");
	assert_int_equal(load_kind_parse("burn", &kind, &e), -EINVAL);
	assert_string_equal(load_kind_name(LOAD_MAX), "?");
}

static void test_proto(void **state)
{
	union {
		struct msg_head head;
		struct msg_policy policy;
		char bytes[PROTO_MSG_MAX];
	} m = { .head = PROTO_HEAD(MSG_POLICY, struct msg_policy) };
	struct msg_plain drop = { .head = PROTO_HEAD(MSG_DROP, struct msg_plain) };

	assert_int_equal(proto_check(&m, sizeof(struct msg_policy)), 0);
	assert_int_equal(proto_check(&m, sizeof(struct msg_policy) - 1), -EPROTO);
	assert_int_equal(proto_check(&drop, sizeof(drop)), 0);
	for (size_t n = 0; n < sizeof(struct msg_head); n++)
		assert_int_equal(proto_check(&m, n), -EPROTO);
	m.head.size--;
	assert_int_equal(proto_check(&m, m.head.size), -EPROTO);
	m.head.version++;
	assert_int_equal(proto_check(&m, sizeof(m)), -EPROTONOSUPPORT);
	/* No type is taken in the size of another, and none that is not there. */
	for (unsigned int type = 0; type < 70000; type += type < 20 ? 1 : 4999) {
		drop.head = (struct msg_head){ .version = PROTO_VERSION,
					       .type = (uint16_t)type,
					       .size = sizeof(drop) };
		bool plain = (uint16_t)type == MSG_DROP || (uint16_t)type == MSG_DROPPED;

		assert_int_equal(proto_check(&drop, sizeof(drop)), plain ? 0 : -EPROTO);
	}
	assert_string_equal(pid_class_name(PIDS_HOST), "host");
	assert_string_equal(pid_class_name(PID_CLASS_MAX), "?");
	assert_string_equal(event_kind_name(EVENT_YIELD), "yield");
	assert_string_equal(event_kind_name(EVENT_KIND_MAX), "?");
}

/* Guards outlive agents, and so meet newer ones: what has another size is another version. */
static void test_sizes(void **state)
{
	static const size_t sizes[] = {
		sizeof(struct msg_hello),    sizeof(struct msg_guard),
		sizeof(struct msg_text),     sizeof(struct msg_policy),
		sizeof(struct msg_device),   sizeof(struct msg_event),
		sizeof(struct msg_plain),    sizeof(struct msg_lease),
		sizeof(struct msg_grant),    sizeof(struct msg_lease_reply),
		sizeof(struct msg_unlease),  sizeof(struct msg_lease_taken),
		sizeof(struct msg_unleased), sizeof(struct msg_lease_state),
		sizeof(struct msg_reserve),  sizeof(struct msg_lease_use),
		sizeof(struct msg_health),   sizeof(struct msg_heartbeat),
		sizeof(struct msg_burn),
	};
	static const size_t of_version_18[ARRAY_LEN(sizes)] = { 88,  384, 268, 4592, 920, 640, 8,
								152, 40,  360, 120,  352, 136, 152,
								120, 56,  256, 16,   3008 };

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
		if (sizes[i] != of_version_18[i])
			fail_msg("message %zu has %zu bytes, not %zu: raise PROTO_VERSION, and "
				 "write the sizes of that here",
				 i, sizes[i], of_version_18[i]);
	assert_int_equal(PROTO_VERSION, 18);
}

static void test_names(void **state)
{
	char a[SOCKET_NAME_MAX], b[SOCKET_NAME_MAX];

	assert_string_equal(guard_socket_name(a, sizeof(a), "/dev", NULL),
			    guard_socket_name(b, sizeof(b), "//dev/", NULL));
	assert_null(strstr(a, "//"));
	assert_string_not_equal(guard_socket_name(a, sizeof(a), "/dev", NULL),
				guard_socket_name(b, sizeof(b), "/tmp/dev", NULL));
	assert_string_not_equal(agent_socket_name(a, sizeof(a), "one", "/dev", NULL),
				agent_socket_name(b, sizeof(b), "two", "/dev", NULL));
	assert_string_not_equal(agent_socket_name(a, sizeof(a), "one", "/dev", NULL),
				agent_socket_name(b, sizeof(b), "one", "/tmp/dev", NULL));
	assert_non_null(strstr(a, "one/agent"));
}

/* In a job of an engine they are others', and none is an instance's of the same name. */
static void test_names_in_a_job(void **state)
{
	char a[SOCKET_NAME_MAX], b[SOCKET_NAME_MAX], key[201], instance[64];

	assert_string_equal(guard_socket_name(a, sizeof(a), "/dev", "slurm.12"), "@slurm.12/guard");
	assert_string_equal(agent_socket_name(a, sizeof(a), "default", "/dev", "slurm.12"),
			    "@slurm.12/default/agent");
	assert_string_not_equal(guard_socket_name(a, sizeof(a), "/tmp/dev", "slurm.12"),
				guard_socket_name(b, sizeof(b), "/tmp/dev", "slurm.13"));
	/* Long ones are told apart by their ends, and the name is whole. */
	memset(key, 'k', 200);
	memset(instance, 'i', 63);
	key[200] = instance[63] = '\0';
	(void)agent_socket_name(a, sizeof(a), instance, "/tmp/dev", key);
	key[199] = 'l';
	(void)agent_socket_name(b, sizeof(b), instance, "/tmp/dev", key);
	assert_string_not_equal(a, b);
	assert_string_equal(a + strlen(a) - strlen("i/agent"), "i/agent");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults_are_valid),
		cmocka_unit_test(test_wrong_policies),
		cmocka_unit_test(test_mem_amount),
		cmocka_unit_test(test_load_names),
		cmocka_unit_test(test_proto),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_names_in_a_job),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
