/* SPDX-License-Identifier: MIT */

/* Whom `tenure ask` asks for a GPU that no program uses and that nobody has by name, how often. */

#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli_world.h"

#include "agent/ask_wire.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/sock.h"
#include "base/str.h"
#include "base/units.h"
#include "cli/machine.h"
#include "hold/endpoint_names.h"

#define AGENTS_MAX 20
#define CALL_NS	   NS_PER_S	  /* what one that does not answer takes */
#define LIMIT_NS   (5 * NS_PER_S) /* for all of them together */
#define ALWAYS	   UINT32_MAX
#define FIRST_USER 3000000000U

/* Each of a user of its own, in turn. */
struct fake_agent {
	unsigned int busy; /* it does not answer so often */
	uint64_t full_ns;  /* until then it drops whoever asks, at once */
	bool has_it;	   /* its task has the GPU; else it knows nothing of it */
	bool refuses;
	unsigned int asked;
};

static struct {
	uint64_t now_ns, began_ns;
	struct fake_agent agents[AGENTS_MAX];
	uint32_t n;
} world;

uint64_t __wrap_clock_mono_ns(void);
uint64_t __wrap_clock_mono_ns(void)
{
	return world.now_ns;
}

int __wrap_usleep(useconds_t us);
int __wrap_usleep(useconds_t us)
{
	world.now_ns += us * NS_PER_US;
	return 0;
}

int __wrap_sock_listener(const char *name, struct ucred *ret);
int __wrap_sock_listener(const char *name, struct ucred *ret)
{
	assert_string_equal(name, "tenure/dev/GPU-a");
	return -ECONNREFUSED;
}

int __wrap_machine_look(uint64_t idle_below, struct machine **ret, struct err *e);
int __wrap_machine_look(uint64_t idle_below, struct machine **ret, struct err *e)
{
	*ret = xcalloc(1, sizeof(**ret));
	(*ret)->list.n = 1;
	(*ret)->list.d[0].mig = -1;
	(void)str_copy((*ret)->list.d[0].uuid, sizeof((*ret)->list.d[0].uuid), "GPU-a");
	return 0;
}

struct machine *__wrap_machine_free(struct machine *m);
struct machine *__wrap_machine_free(struct machine *m)
{
	free(m);
	return NULL;
}

void __wrap_ask_names(const char *dev_dir, uid_t uid, struct text_list *ret);
void __wrap_ask_names(const char *dev_dir, uid_t uid, struct text_list *ret)
{
	assert_int_equal(uid, ASK_ANYBODY);
	for (uint32_t i = 0; i < world.n; i++)
		text_list_addf(ret, ASK_SOCKET_BEGIN "%u/0/0", FIRST_USER + i);
}

int __wrap_ask_call(const char *name, const struct ask_request *req, json_t **ret,
		    uid_t *ret_squatter);
int __wrap_ask_call(const char *name, const struct ask_request *req, json_t **ret,
		    uid_t *ret_squatter)
{
	struct fake_agent *a = &world.agents[ask_name_uid(name) - FIRST_USER];

	assert_int_equal(req->kind, ASK_PUT);
	assert_string_equal(req->uuid, "GPU-a");
	a->asked++;
	if (world.now_ns < a->full_ns)
		return -EAGAIN;
	if (a->busy) {
		a->busy -= a->busy != ALWAYS;
		world.now_ns += CALL_NS;
		return -EAGAIN;
	}
	if (a->has_it && !a->refuses)
		*ret = json_pack("{si sb si s{si si ss}}", "code", 0, "again", 0, "agent", 7, "ask",
				 "ask", 3, "gpu", 0, "state", "open");
	else
		*ret = json_pack("{si ss}", "code", a->has_it ? -EACCES : -ENOENT, "error",
				 "its owner takes no asks");
	assert_non_null(*ret);
	return 0;
}

static int begin(void **state)
{
	memset(&world, 0, sizeof(world));
	world.now_ns = world.began_ns = NS_PER_S;
	return cli_setup(state);
}

/* The GPU is asked for, with that outcome. The place of who took it; -1: nobody did. */
static int64_t asked_of(const char *state)
{
	struct said s = cli(&cmd_ask, "0 --json");
	json_t *doc = json_loads(s.out, 0, NULL), *ask = json_object_get(doc, "ask");
	int64_t place = -1;

	assert_int_equal(s.code, CMD_OK);
	assert_string_equal(json_string_value(json_object_get(doc, "state")), state);
	if (!json_is_null(ask))
		place = json_integer_value(json_object_get(ask, "uid")) - FIRST_USER;
	json_decref(doc);
	said_clear(&s);
	return place;
}

static void nobody_who_answers_is_asked_twice(void **state)
{
	world.n = 3;
	assert_int_equal(asked_of("free"), -1);
	for (uint32_t i = 0; i < world.n; i++)
		assert_int_equal(world.agents[i].asked, 1);
}

static void one_that_was_busy_is_asked_again(void **state)
{
	world.n = 3;
	world.agents[1] = (struct fake_agent){ .busy = 1, .has_it = true };
	assert_int_equal(asked_of("open"), 1);
	assert_int_equal(world.agents[1].asked, 2);
}

/* An agent counts how many ask it in a second. */
static void one_that_drops_us_is_asked_a_second_later(void **state)
{
	world.n = 3;
	world.agents[0].busy = 1;
	world.agents[1] =
		(struct fake_agent){ .full_ns = world.began_ns + 2 * CALL_NS, .has_it = true };
	assert_int_equal(asked_of("open"), 1);
	assert_int_equal(world.agents[1].asked, 2);
	assert_int_equal(world.now_ns - world.began_ns, 2 * CALL_NS);
}

/* Whoever was busy before it. */
static void one_that_has_it_ends_the_search(void **state)
{
	world.n = 3;
	world.agents[0].busy = 1;
	world.agents[2].has_it = true;
	assert_int_equal(asked_of("open"), 2);
	assert_int_equal(world.agents[0].asked, 1);
}

static void one_that_was_busy_may_refuse(void **state)
{
	struct said s;

	world.n = 1;
	world.agents[0] = (struct fake_agent){ .busy = 1, .has_it = true, .refuses = true };
	s = cli(&cmd_ask, "0");
	assert_int_equal(s.code, CMD_FAILED);
	assert_non_null(strstr(s.err, "their tenure refuses: its owner takes no asks"));
	said_clear(&s);
}

/* Anybody can have such names, and never answer. */
static void who_never_answers_is_not_waited_for(void **state)
{
	unsigned int asked = 0;

	world.n = 1;
	world.agents[0].busy = ALWAYS;
	assert_int_equal(asked_of("free"), -1);
	assert_int_equal(world.agents[0].asked, 2);
	world.n = AGENTS_MAX;
	for (uint32_t i = 0; i < world.n; i++)
		world.agents[i] = (struct fake_agent){ .busy = ALWAYS };
	world.began_ns = world.now_ns;
	assert_int_equal(asked_of("free"), -1);
	for (uint32_t i = 0; i < world.n; i++)
		asked += world.agents[i].asked;
	assert_int_equal(asked, LIMIT_NS / CALL_NS);
	assert_int_equal(world.now_ns - world.began_ns, LIMIT_NS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, cli_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nobody_who_answers_is_asked_twice),
		TEST(one_that_was_busy_is_asked_again),
		TEST(one_that_drops_us_is_asked_a_second_later),
		TEST(one_that_has_it_ends_the_search),
		TEST(one_that_was_busy_may_refuse),
		TEST(who_never_answers_is_not_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
