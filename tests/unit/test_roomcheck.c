/* SPDX-License-Identifier: MIT */

/* What is refused or warned of before a task is in the queue, because it may never find room. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli_world.h"
#include "spool_world.h"
#include "unit.h"

#include "base/mem.h"
#include "base/settings.h"
#include "base/str.h"
#include "cli/task/roomcheck.h"
#include "spool/agent_status.h"
#include "spool/heartbeat.h"
#include "spool/instance.h"
#include "spool/task_text.h"

#define ONE_GIB "\"memory_total_bytes\":1073741824"

static struct task_spec *spec_of(const char *json)
{
	json_t *o = json_loads(json, 0, NULL), *value;
	struct task_spec *s = spec_new();
	struct err e = ERR_INIT;
	const char *key;

	json_object_foreach(o, key, value) if (spec_set_json(s, key, value, &e) < 0)
		fail_msg("%s: %s", json, e.text);
	json_decref(o);
	return s;
}

/* "" or "tenure: warning: TEXT\n": the text begins so. */
static void assert_warning(const char *what, const char *said, const char *want)
{
	static const char head[] = "tenure: warning: ";
	bool good =
		want[0] ? str_has_prefix(said, head) && str_has_prefix(said + strlen(head), want)
			: !said[0];

	if (!good)
		fail_msg("%s: \"%s\" instead of \"%s\"", what, said, want);
}

/* ---- how many there are on any node ---- */

/* Nodes that serve the instance, or have done so. */
static const struct known {
	const char *agent;
	unsigned int devices;
	bool ended, declared_dead;
	bool former;	   /* it has no file in agents/ any more, and has left a log */
	const char *model; /* its status tells of 24 GiB each; NULL: it has left none */
} alpha = { "alpha", 2 }, beta = { "beta", 4 }, off = { "gamma", 16, .ended = true },
  gone = { "delta", 16, .ended = true, .declared_dead = true },
  former = { "omega", .former = true }, small = { "alpha", 2, .model = "NVIDIA A10" },
  other = { "beta", 2, .model = "NVIDIA H200" };

static void tell_status(const struct spool *sp, const struct known *k)
{
	struct agent_status s = { .n_devices = k->devices };
	cleanup_free char *text = NULL;

	(void)str_copy(s.agent, sizeof(s.agent), k->agent);
	for (unsigned int i = 0; i < s.n_devices; i++) {
		(void)str_print(s.devices[i].uuid, sizeof(s.devices[i].uuid), "GPU-%u", i);
		(void)str_copy(s.devices[i].model, sizeof(s.devices[i].model), k->model);
		(void)str_copy(s.devices[i].state, sizeof(s.devices[i].state), "idle");
		s.devices[i].mem_bytes = 24ULL << 30;
	}
	text = agent_status_text(&s);
	assert_int_equal(agent_status_write(sp, k->agent, text, NULL), 0);
}

static void know(const struct spool *sp, const struct known *k)
{
	struct heartbeat b = {
		.count = 1, .who = self(sp, k->agent), .ended = k->ended, .devices = k->devices
	};
	char path[SPOOL_PATH_MAX];

	if (k->former) {
		put(sp, str_print(path, sizeof(path), "events/%s" ENDLOG_SUFFIX, k->agent), "");
		return;
	}
	assert_int_equal(heartbeat_write(sp, heartbeat_agent_path(k->agent, path), &b, NULL), 0);
	if (k->model)
		tell_status(sp, k);
	if (k->declared_dead)
		assert_int_equal(
			heartbeat_write(sp, heartbeat_declared_dead_path(k->agent, path), &b, NULL),
			0);
}

static const struct {
	const char *what;
	const struct known *nodes[4];
	const char *spec;
	int r;
	const char *said; /* the error, or the warning */
} rooms[] = {
	{ "nobody has ever served it", { NULL }, "{\"gpus\":1024}", 0, "" },
	{ "one is always enough", { &alpha }, "{}", 0, "" },
	{ "as many as there are", { &alpha, &beta }, "{\"gpus\":4}", 0, "" },
	{ "all of a node, whatever that is", { &alpha }, "{\"gpus\":\"all\"}", 0, "" },
	{ "more than there are",
	  { &alpha, &beta },
	  "{\"gpus\":5}",
	  -ERANGE,
	  "it asks for 5 GPUs, and no node of instance \"default\" has so many: beta has 4 and "
	  "alpha 2; ask for fewer" },
	{ "one that has ended had so many",
	  { &alpha, &off },
	  "{\"gpus\":5}",
	  0,
	  "it asks for 5 GPUs, and no node that serves instance \"default\" now has so many: alpha "
	  "has 2; it waits until one does (gamma, which is silent, had 16)" },
	{ "one that somebody has declared dead does not count",
	  { &alpha, &gone },
	  "{\"gpus\":5}",
	  -ERANGE,
	  "it asks for 5 GPUs" },
	{ "one that has left no more than its log may have had so many",
	  { &alpha, &former },
	  "{\"gpus\":5}",
	  0,
	  "it asks for 5 GPUs, and no node that serves instance \"default\" now has so many: alpha "
	  "has 2; it waits until one does (omega, which served it before, may have so many)" },
	{ "nodes: nobody has ever served it", { NULL }, "{\"nodes\":3,\"gpus\":8}", 0, "" },
	{ "nodes: as many as there are", { &alpha, &beta }, "{\"nodes\":2,\"gpus\":2}", 0, "" },
	{ "nodes: without a GPU", { &alpha, &beta }, "{\"nodes\":2,\"gpus\":0}", 0, "" },
	{ "nodes: all of each, which the check of the task refuses",
	  { &alpha },
	  "{\"nodes\":2,\"gpus\":\"all\"}",
	  0,
	  "" },
	{ "nodes: one has too few",
	  { &alpha, &beta },
	  "{\"nodes\":2,\"gpus\":4}",
	  -ERANGE,
	  "it asks for 2 nodes with 4 GPUs each, and 1 of the agents of instance \"default\" has so "
	  "many; ask for fewer, or start an agent on more nodes" },
	{ "nodes: more than there are",
	  { &alpha, &beta, &gone },
	  "{\"nodes\":3}",
	  -ERANGE,
	  "it asks for 3 nodes with 1 GPU each, and 2 of the agents" },
	{ "nodes: one that has ended may come back",
	  { &alpha, &off },
	  "{\"nodes\":2,\"gpus\":2}",
	  0,
	  "it asks for 2 nodes with 2 GPUs each, and 1 of the agents that serve instance \"default\" "
	  "now has so many; it waits until others do" },
	{ "nodes: too few with such GPUs",
	  { &small, &other },
	  "{\"nodes\":2,\"model\":\"H200\"}",
	  0,
	  "it asks for 2 nodes with 1 GPU each of model H200, and 1 of the 2 agents that serve "
	  "instance \"default\" has that; there are NVIDIA A10 (24.0 GiB), NVIDIA H200 (24.0 GiB); "
	  "it waits until others do" },
	{ "one of several nodes has such a GPU",
	  { &small, &other },
	  "{\"model\":\"H200\"}",
	  0,
	  "" },
	{ "none of several nodes has so much memory",
	  { &small, &other },
	  "{\"gpus\":2,\"memory\":\"40G\"}",
	  0,
	  "it asks for 2 GPUs with 40.0 GiB on each, and 0 of the 2 agents" },
	{ "nothing is known of some", { &alpha, &other }, "{\"model\":\"A100\"}", 0, "" },
	{ "nobody serves it now", { &off }, "{\"gpus\":17}", 0, "" },
};

static struct cmd_ctx context(void)
{
	static const struct setting_origin origin = { .layer = SETTING_FROM_COMMAND_LINE };
	struct cmd_ctx ctx = { .settings = settings_new() };

	/* No agent that runs on this machine is asked. */
	assert_int_equal(settings_set(ctx.settings, SET_DEV_DIR, spool_world_root(), &origin, NULL),
			 0);
	return ctx;
}

static void check_room(size_t i)
{
	struct cmd_ctx ctx = context();
	struct spool *sp = open_spool();
	struct task_spec *s = spec_of(rooms[i].spec);
	struct printing p;
	struct err e = ERR_INIT;
	cleanup_free char *said = NULL;
	int r;

	for (size_t k = 0; k < ARRAY_LEN(rooms[i].nodes) && rooms[i].nodes[k]; k++)
		know(sp, rooms[i].nodes[k]);
	p = printing_begin(STDERR_FILENO);
	r = room_check(&ctx, sp, s, &e);
	said = printing_end(&p);
	if (r != rooms[i].r)
		fail_msg("%s: %d, %s", rooms[i].what, r, e.text);
	assert_warning(rooms[i].what, said, r == 0 ? rooms[i].said : "");
	if (r < 0 && !str_has_prefix(e.text, rooms[i].said))
		fail_msg("%s: %s", rooms[i].what, e.text);
	(void)spec_free(s);
	(void)spool_close(sp);
	ctx.settings = settings_free(ctx.settings);
}

static void what_no_node_has_is_refused_or_waited_for(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(rooms); i++) {
		assert_int_equal(spool_setup(state), 0);
		check_room(i);
		assert_int_equal(spool_teardown(state), 0);
	}
}

/* A file by the name of a log that is no agent's is none. */
static void other_files_beside_the_logs_are_no_nodes(void **state)
{
	static const struct known *const nodes[] = { &alpha };
	static const char *const files[] = { "events/x", "events/" ENDLOG_SUFFIX, "events/x.jsonl",
					     "events/alpha" ENDLOG_SUFFIX };
	struct cmd_ctx ctx = context();
	struct spool *sp = open_spool();
	struct task_spec *s = spec_of("{\"gpus\":5}");

	know(sp, nodes[0]);
	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		put(sp, files[i], "");
	assert_int_equal(room_check(&ctx, sp, s, NULL), -ERANGE);
	(void)spec_free(s);
	(void)spool_close(sp);
	ctx.settings = settings_free(ctx.settings);
}

/* ---- what those of this node are like ---- */

static const struct {
	const char *what, *spec, *devices, *said;
} devices[] = {
	{ "nothing is known", "{\"gpus\":2,\"model\":\"H200\"}", "[]", "" },
	{ "no list", "{\"gpus\":2,\"model\":\"H200\"}", "{\"name\":\"A10\"}", "" },
	{ "any will do", "{}", "[{\"name\":\"NVIDIA A10\"}]", "" },
	{ "of that model", "{\"gpus\":2,\"model\":\"h200\"}",
	  "[{\"name\":\"NVIDIA H200\"},{\"name\":\"NVIDIA A10\"},{\"name\":\"NVIDIA H200\"}]", "" },
	{ "none is of that model", "{\"model\":\"H200\"}",
	  "[{\"name\":\"NVIDIA A10\"},{\"name\":\"NVIDIA A10\"},{\"name\":\"NVIDIA L4\"}]",
	  "--model H200: no GPU of this node is of that model; there are NVIDIA A10, NVIDIA L4; it "
	  "waits until a node with such GPUs serves the instance\n" },
	{ "too few are of that model", "{\"gpus\":2,\"model\":\"H200\"}",
	  "[{\"name\":\"NVIDIA H200\"},{\"name\":\"NVIDIA A10\"}]",
	  "--model H200: 1 GPU of this node is of that model, and it asks for 2; it waits" },
	{ "all of a node: one at least", "{\"gpus\":\"all\",\"model\":\"H200\"}",
	  "[{\"name\":\"NVIDIA H200\"},{\"name\":\"NVIDIA A10\"}]", "" },
	{ "one without a name is of no model", "{\"model\":\"H200\"}", "[{},{\"name\":7},null]",
	  "--model H200: no GPU of this node is of that model; there are; it waits" },
	{ "memory enough", "{\"memory\":\"1G\"}", "[{" ONE_GIB "}]", "" },
	{ "memory that is not told of", "{\"memory\":\"80G\"}", "[{\"name\":\"NVIDIA A10\"}]", "" },
	{ "not so much memory", "{\"memory\":\"2G\"}", "[{" ONE_GIB "},{" ONE_GIB "}]",
	  "it asks for 1 GPU with 2.0 GiB, and 0 of 2 of this node would do: 2 have no more than 1.0 "
	  "GiB; it waits until that changes" },
	{ "too few with so much memory", "{\"gpus\":2,\"memory\":\"2G\"}",
	  "[{" ONE_GIB "},{\"memory_total_bytes\":4294967296}]",
	  "it asks for 2 GPUs with 2.0 GiB each, and 1 of 2 of this node would do: 1 has no more than "
	  "4.0 GiB; it waits" },
	{ "some are left alone", "{\"gpus\":2}",
	  "[{" ONE_GIB ",\"state\":\"left\"},{" ONE_GIB ",\"state\":\"held\"}]",
	  "it asks for 2 GPUs, and 1 of 2 of this node would do: 1 is left alone by the agent (its "
	  "gpus and leave); it waits" },
	{ "both", "{\"gpus\":3,\"memory\":\"2G\"}",
	  "[{" ONE_GIB "},{\"state\":\"left\"},{\"state\":\"left\"}]",
	  "it asks for 3 GPUs with 2.0 GiB each, and 0 of 3 of this node would do: 1 has no more than "
	  "1.0 GiB, 2 are left alone" },
	{ "more than this node has is told by the nodes", "{\"gpus\":3}",
	  "[{" ONE_GIB "},{" ONE_GIB "}]", "" },
	{ "only those of the model count", "{\"model\":\"A10\",\"memory\":\"2G\"}",
	  "[{\"name\":\"NVIDIA A10\"," ONE_GIB
	  "},{\"name\":\"NVIDIA H200\",\"memory_total_bytes\":4294967296}]",
	  "it asks for 1 GPU with 2.0 GiB, and 0 of 1 of this node would do: 1 has no more than 1.0 "
	  "GiB; it waits" },
};

static void what_this_node_has_too_few_of_is_warned_of(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(devices); i++) {
		struct task_spec *s = spec_of(devices[i].spec);
		json_t *list = json_loads(devices[i].devices, 0, NULL);
		struct printing p;
		cleanup_free char *said = NULL;

		assert_non_null(list);
		p = printing_begin(STDERR_FILENO);
		room_check_devices(s, list);
		said = printing_end(&p);
		assert_warning(devices[i].what, said, devices[i].said);
		json_decref(list);
		(void)spec_free(s);
	}
}

static void without_an_agent_nothing_is_said_of_devices(void **state)
{
	struct cmd_ctx ctx = context();
	struct spool *sp = open_spool();
	struct task_spec *s = spec_of("{\"model\":\"H200\",\"memory\":\"900G\"}");
	struct printing p = printing_begin(STDERR_FILENO);
	int r = room_check(&ctx, sp, s, NULL);
	cleanup_free char *said = printing_end(&p);

	assert_int_equal(r, 0);
	assert_string_equal(said, "");
	(void)spec_free(s);
	(void)spool_close(sp);
	ctx.settings = settings_free(ctx.settings);
}

int main(void)
{
#define IN_A_SPOOL(fn) cmocka_unit_test_setup_teardown(fn, cli_setup, cli_teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_no_node_has_is_refused_or_waited_for),
		IN_A_SPOOL(other_files_beside_the_logs_are_no_nodes),
		cmocka_unit_test(what_this_node_has_too_few_of_is_warned_of),
		IN_A_SPOOL(without_an_agent_nothing_is_said_of_devices),
	};

	(void)setenv("COLUMNS", "1000", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
