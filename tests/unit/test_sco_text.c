/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/sco_text.h"

/* As its users' scripts quote them. */
#define JOB(name, display, state, command)                                                         \
	"{\"name\":\"" name "\",\"display_name\":\"" display "\",\"state\":\"" state               \
	"\",\"create_time\":\"2026-11-21T02:28:31Z\",\"ownership\":{\"user_name\":\"yzy\"},"       \
	"\"scheduling\":{\"quota_type\":\"reserved\",\"priority\":\"NORMAL\"},"                    \
	"\"roles\":[{\"total_replicas\":1,\"startup_script\":\"" command "\","                     \
	"\"resource_spec\":[{\"name\":\"N6lS.Iu.I80.2\",\"replicas\":1}]}]}"

static const char *const agent[] = { "/mnt/afs/o'tool/tenure", "agent", "--instance", "exp1",
				     NULL };

struct world {
	struct text_list settings;
	struct engine_request req;
	struct strbuf script;
	struct err e;
};

static int set_up(void **state)
{
	struct world *w = xcalloc(1, sizeof(*w));

	text_list_add(&w->settings, "workspace=share-space");
	text_list_add(&w->settings, "aec2=computing");
	text_list_add(&w->settings, "image=registry/ours:v1");
	text_list_add(&w->settings, "spec=N6lS.Iu.I80.{gpus}");
	text_list_add(&w->settings, "mounts=01995892:/mnt/afs");
	w->req = (struct engine_request){ .name = "ydj-exp1-tok1",
					  .title = "ydj-exp1",
					  .token = "tok1",
					  .gpus = 2,
					  .dir = "/mnt/afs/my queue",
					  .output = "/mnt/afs/my queue/exp1,tok1.out",
					  .agent = agent,
					  .settings = &w->settings };
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	text_list_clear(&w->settings);
	strbuf_clear(&w->script);
	free(w);
	return 0;
}

static int script(struct world *w)
{
	strbuf_reset(&w->script);
	return sco_text_script(&w->req, &w->script, &w->e);
}

/* -------- what is said to it -------- */

static void the_script_has_the_flags_and_the_agent(void **state)
{
	struct world *w = *state;

	assert_int_equal(script(w), 0);
	assert_string_equal(strbuf_str(&w->script),
			    "#!/bin/bash\n"
			    "#SCO --name=ydj-exp1-tok1\n"
			    "#SCO --job-name=ydj-exp1\n"
			    "#SCO --workspace-name=share-space\n"
			    "#SCO --aec2-name=computing\n"
			    "#SCO --container-image-url=registry/ours:v1\n"
			    "#SCO --training-framework=pytorch\n"
			    "#SCO --storage-mount=01995892:/mnt/afs\n"
			    "#SCO --worker-spec=N6lS.Iu.I80.2\n"
			    "#SCO --worker-nodes=1\n"
			    "exec >>'/mnt/afs/my queue/exp1,tok1.out' 2>&1\n"
			    "cd '/mnt/afs/my queue' || exit\n"
			    "export TENURE_SCO_JOB=ydj-exp1-tok1\n"
			    "exec '/mnt/afs/o'\\''tool/tenure' agent --instance exp1\n");
}

static void own_flags_are_added_and_ours_dropped(void **state)
{
	struct world *w = *state;
	struct text_list options = { .n = 0 }, drop = { .n = 0 }, argv = { .n = 0 };
	cleanup_strbuf struct strbuf line = STRBUF_INIT;

	text_list_add(&options, "--retry-times 1");
	text_list_add(&options, "#SCO --env=A:b c,D:e");
	text_list_add(&drop, "--training-framework");
	text_list_add(&w->settings, "mounts=none");
	text_list_add(&w->settings, "quota_type=spot");
	text_list_add(&w->settings, "priority=HIGH");
	text_list_add(&w->settings, "wait=yes");
	text_list_add(&w->settings, "profile=me");
	w->req.options = &options;
	w->req.drop = &drop;
	assert_int_equal(script(w), 0);
	assert_int_equal(sco_text_command(&w->settings, "acp jobs create", &argv, &w->e), 0);
	sco_text_add_flags(strbuf_str(&w->script), "/mnt/my queue/exp1,tok1.sh", w->req.name,
			   &argv);
	for (size_t i = 0; i < argv.n; i++)
		strbuf_addf(&line, "%s\n", argv.texts[i]);
	assert_string_equal(strbuf_str(&line),
			    "sco\nacp\njobs\ncreate\n--profile=me\n--workspace-name=share-space\n"
			    "--name=ydj-exp1-tok1\n--job-name=ydj-exp1\n--aec2-name=computing\n"
			    "--container-image-url=registry/ours:v1\n--priority=HIGH\n"
			    "--quota-type=spot\n--worker-spec=N6lS.Iu.I80.2\n--worker-nodes=1\n"
			    "--wait\n--retry-times\n1\n--env=A:b c,D:e\n"
			    "--command=exec bash '/mnt/my queue/exp1,tok1.sh' ydj-exp1-tok1\n");
	text_list_clear(&options);
	text_list_clear(&drop);
	text_list_clear(&argv);
}

static void flags_that_would_take_the_job_from_us_are_refused(void **state)
{
	static const char *const lines[] = { "--worker-nodes=4", "--worker-nodes 4",
					     "--name=x",	 "#SCO --command=hostname",
					     "--job-name",	 "gpu" };
	struct world *w = *state;

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct text_list options = { .n = 0 };

		text_list_add(&options, lines[i]);
		w->req.options = &options;
		assert_int_equal(script(w), -EINVAL);
		assert_non_null(strstr(w->e.text, i < 5 ? "not for a pool's jobs" : "no flag"));
		text_list_clear(&options);
	}
	w->req.options = NULL;
}

/* A list is cut to what begins with the first word of its name. */
static void what_people_read_begins_as_the_name_does(void **state)
{
	struct world *w = *state;

	w->req.title = "YDJ-exp1";
	assert_int_equal(script(w), 0);
	assert_non_null(strstr(strbuf_str(&w->script), "--job-name=ydj-exp1-tok1\n"));
}

static void a_template_of_the_site_stands_in_place_of_ours(void **state)
{
	struct world *w = *state;

	w->req.template_text = "#!/bin/bash\n{directives}source /opt/env\nexec {agent} >{output}\n";
	assert_int_equal(script(w), 0);
	assert_non_null(strstr(strbuf_str(&w->script), "--worker-nodes=1\nsource /opt/env\nexec "
						       "'/mnt/afs/o'\\''tool/tenure' agent"));
	w->req.template_text = "{nodes}";
	assert_int_equal(script(w), -EINVAL);
	assert_non_null(strstr(w->e.text, "{nodes}"));
}

static void everything_that_is_missing_is_named_at_once(void **state)
{
	struct world *w = *state;

	text_list_clear(&w->settings);
	assert_int_equal(script(w), -EINVAL);
	assert_string_equal(w->e.text,
			    "sco needs to be told workspace= (the workspace's name), aec2= (the "
			    "name of the computing cluster), image= (the URL of the container's "
			    "image), spec= (the worker's specification, such as "
			    "N6lS.Iu.I80.{gpus}), mounts= (VOLUME:MOUNT of the shared disk, or "
			    "none where it is mounted anyway)");
	text_list_add(&w->settings, "aec2=computing");
	text_list_add(&w->settings, "image=i");
	text_list_add(&w->settings, "spec=s");
	text_list_add(&w->settings, "mounts=");
	text_list_add(&w->settings, "workspace=w");
	assert_int_equal(script(w), -EINVAL);
	assert_string_equal(w->e.text, "sco needs to be told mounts= (VOLUME:MOUNT of the shared "
				       "disk, or none where it is mounted anyway)");
}

static void what_does_not_fit_is_refused(void **state)
{
	static const struct {
		const char *setting, *text;
	} cases[] = {
		{ "spec=N6lS.Iu.I80.8", "has 8 GPUs, and a node of the pool has 2" },
		{ "spec=n6ls.iu.i40.4.32c512g", "has 4 GPUs" },
		{ "spec=N6lS.Iu.{type}.{gpus}", "has {type}, and the pool has no --type" },
		{ "spec=N6lS.{cpu}.8", "{cpu}" },
		{ "imgae=x", "sco has no setting \"imgae\"; did you mean image?" },
		{ "imagination", "\"imagination\" is no KEY=VALUE" },
		{ "aec2=public", "aec2=public needs vpc_id= and az= too" },
		{ "end=never", "it is delete or stop" },
		{ "image=a\nb", "more than one line" },
	};
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		text_list_add(&w->settings, cases[i].setting);
		assert_int_equal(script(w), -EINVAL);
		if (!strstr(w->e.text, cases[i].text))
			print_error("%s\n", w->e.text);
		assert_non_null(strstr(w->e.text, cases[i].text));
		free(w->settings.texts[--w->settings.n]);
	}
	w->req.type = "I80";
	assert_int_equal(script(w), -EINVAL);
	text_list_add(&w->settings, "spec=N6lS.Iu.{type}.{gpus}");
	assert_int_equal(script(w), 0);
	w->req.cpus = 4;
	assert_int_equal(script(w), -EINVAL);
}

/* -------- what it answers -------- */

static void states_have_no_case(void **state)
{
	static const struct {
		const char *word;
		enum engine_job_state state;
	} cases[] = {
		{ "INIT", ENGINE_JOB_WAITING },	       { "wait_quota", ENGINE_JOB_WAITING },
		{ "Pending", ENGINE_JOB_WAITING },     { "pulling", ENGINE_JOB_STARTING },
		{ "RUNNING", ENGINE_JOB_RUNNING },     { "Restarting", ENGINE_JOB_RUNNING },
		{ "SUCCEEDED", ENGINE_JOB_DONE },      { "failed", ENGINE_JOB_FAILED },
		{ "SUSPENDED", ENGINE_JOB_EXPIRED },   { "STOPPED", ENGINE_JOB_EXPIRED },
		{ "DELETING", ENGINE_JOB_ENDING },     { "CANCELLED", ENGINE_JOB_CANCELLED },
		{ "Hibernating", ENGINE_JOB_UNKNOWN }, { "", ENGINE_JOB_UNKNOWN },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(sco_text_state(cases[i].word), cases[i].state);
	for (size_t i = 0; sco_text_live_states[i]; i++)
		assert_false(engine_job_is_over(sco_text_state(sco_text_live_states[i])));
}

static int read_jobs(const char *text, const char *prefix, struct engine_jobs *jobs, size_t *listed,
		     struct err *e)
{
	*jobs = (struct engine_jobs){ .n = 0 };
	return sco_text_jobs(text, strlen(text), prefix, jobs, listed, e);
}

static void jobs_come_as_an_array_or_below_a_name(void **state)
{
	static const char list[] = "[" JOB("pt-other", "ydj-else", "RUNNING", "sleep inf") ",\n" JOB(
		"ydj-exp1-tok1", "ydj-exp1", "WAIT_QUOTA",
		"exec bash '/q/e,tok1.sh'") ",\n" JOB("pt-1a2b3c4d", "ydj-exp1", "running",
						      "exec bash '/mnt/my q/ydj-exp1-x/e,tok2.sh' ydj-exp1-tok2") ", 7, null]";
	static const char *const forms[][2] = { { "", "" },
						{ "[INFO] a new version is there\n", "\n" },
						{ "{\"jobs\":", "}" },
						{ "{\"total_size\":3,\"training_jobs\":", "}" } };
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
		cleanup_free char *text = xasprintf("%s%s%s", forms[i][0], list, forms[i][1]);
		struct engine_jobs jobs;
		size_t listed;

		assert_int_equal(read_jobs(text, "ydj-exp1-", &jobs, &listed, &w->e), 0);
		assert_int_equal(listed, 5);
		assert_int_equal(jobs.n, 2);
		assert_string_equal(jobs.all[0].id, "ydj-exp1-tok1");
		assert_string_equal(jobs.all[0].name, "ydj-exp1-tok1");
		assert_string_equal(jobs.all[0].reason, "WAIT_QUOTA");
		assert_int_equal(jobs.all[0].state, ENGINE_JOB_WAITING);
		assert_string_equal(jobs.all[1].id, "pt-1a2b3c4d");
		assert_string_equal(jobs.all[1].name, "ydj-exp1-tok2");
		assert_null(jobs.all[1].reason);
		assert_int_equal(jobs.all[1].state, ENGINE_JOB_RUNNING);
		assert_true(jobs.all[1].gpus_known && jobs.all[1].gpus == 2);
		engine_jobs_clear(&jobs);
	}
}

static void a_description_is_one_job(void **state)
{
	static const char text[] = JOB("pt-1", "d", "FAILED", "sleep inf");
	struct world *w = *state;
	struct engine_jobs jobs;
	size_t listed;

	assert_int_equal(read_jobs(text, "", &jobs, &listed, &w->e), 0);
	assert_int_equal(jobs.n, 1);
	assert_int_equal(jobs.all[0].state, ENGINE_JOB_FAILED);
	engine_jobs_clear(&jobs);
}

static void a_sentence_is_an_empty_list_or_an_error(void **state)
{
	static const struct {
		const char *text;
		int code;
	} cases[] = {
		{ "No training jobs found.\n", 0 },
		{ "there is no job in this workspace\n", 0 },
		{ "[]\n", 0 },
		{ "", -EBADMSG },
		{ "\n\n", -EBADMSG },
		{ "Error: no permission\n", -EBADMSG },
		{ "rpc error: workspace not found\n", -EBADMSG },
		{ "please log in, no session\n", -EBADMSG },
		{ "SenseCore CLI\n\nUsage:\n  sco [component]\n", -EBADMSG },
		{ "{\"code\": 5, \"message\": \"no\"}\n", -EBADMSG },
		{ "[{\"name\": \"ydj-exp1-t", -EBADMSG },
	};
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct engine_jobs jobs;
		size_t listed;

		assert_int_equal(read_jobs(cases[i].text, "ydj-", &jobs, &listed, &w->e),
				 cases[i].code);
		assert_int_equal(jobs.n, 0);
		engine_jobs_clear(&jobs);
	}
}

static void the_id_is_in_the_sentence(void **state)
{
	static const char *const cases[][2] = {
		{ "job pt-1a2b3c submitted successfully\n", "pt-1a2b3c" },
		{ "a notice\njob ydj-exp1-tok1 submitted successfully\n", "ydj-exp1-tok1" },
		{ "training job \"pt-99\" submitted successfully", "pt-99" },
		{ "Error: code = 409, reason = MEMBER_QUOTA_EXCEEDED", NULL },
		{ "", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cleanup_free char *id = sco_text_created(cases[i][0]);

		assert_true(!id == !cases[i][1]);
		if (id)
			assert_string_equal(id, cases[i][1]);
	}
}

static void a_failure_is_for_good_or_for_now(void **state)
{
	static const struct {
		const char *text;
		int code;
	} cases[] = {
		{ "code = 409, reason = MEMBER_QUOTA_EXCEEDED", -EDQUOT },
		{ "training job x already exists (409)", ENGINE_UNSURE },
		{ "context deadline exceeded", ENGINE_UNSURE },
		{ "Unauthenticated", -EACCES },
		{ "invalid worker spec", ENGINE_REFUSED },
		{ "workspace w not found", ENGINE_REFUSED },
		{ "what nobody has seen", ENGINE_UNSURE },
		{ "", ENGINE_UNSURE },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(sco_text_refusal(cases[i].text), cases[i].code);
}

static void the_cause_is_on_stdout(void **state)
{
	static const struct {
		const char *out, *err, *line;
	} cases[] = {
		{ "creating\nError: quota\nusage: ..\n", "component \"acp\" exited with error",
		  "Error: quota" },
		{ "\n  \nlast words\r\n\n", "component", "last words" },
		{ "", "component \"acp\" exited with error\n",
		  "component \"acp\" exited with error" },
		{ "", "", "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		size_t n;
		const char *line = sco_text_cause(cases[i].out, cases[i].err, &n);

		assert_int_equal(n, strlen(cases[i].line));
		assert_memory_equal(line, cases[i].line, n);
	}
}

static void the_third_number_is_what_is_idle(void **state)
{
	static const char *const forms[] = {
		"| RESOURCE | TOTAL | USED | IDLE |\n| GPU_NUMBER | 128 | 100 | 28 |\n| MEMORY | 1 | 1 "
		"| 0 |\n",
		"VCPU_NUMBER  9 8 7\nGPU_NUMBER  128  100  28\n",
		"\xe2\x94\x82 gpu_number \xe2\x94\x82 128.0 \xe2\x94\x82 100.0 \xe2\x94\x82 28.0 "
		"\xe2\x94\x82\n",
	};
	struct world *w = *state;
	unsigned int total, idle;

	for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
		total = idle = 0;
		assert_int_equal(sco_text_usage(forms[i], &total, &idle, &w->e), 0);
		assert_int_equal(total, 128);
		assert_int_equal(idle, 28);
	}
	assert_int_equal(sco_text_usage("GPU_NUMBER 1 2\n", &total, &idle, &w->e), -EBADMSG);
	assert_int_equal(sco_text_usage("GPU_NUMBER 1 2 9e99\n", &total, &idle, &w->e), -EBADMSG);
	assert_int_equal(sco_text_usage("", &total, &idle, &w->e), -EBADMSG);
}

static void a_worker_is_known_by_its_end(void **state)
{
	static const char *const cases[][2] = {
		{ "| NAME | PHASE |\n| pt-1a2b-worker-0 | running |\n",
		  "pt-1a2b-worker-0 (running)" },
		{ "| 0 | Pending | pt-1a2b-worker-0 |\n", "pt-1a2b-worker-0 (pending)" },
		{ "pt-1-worker-12\n", "pt-1-worker-12" },
		{ "| worker-x |\n", NULL },
		{ "", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cleanup_free char *worker = sco_text_worker(cases[i][0]);

		assert_true(!worker == !cases[i][1]);
		if (worker)
			assert_string_equal(worker, cases[i][1]);
	}
}

/* -------- inside -------- */

static void a_container_knows_its_job(void **state)
{
	static const struct {
		const char *const environ[5];
		int code;
		const char *key, *node;
		unsigned int gpus;
		bool none; /* and that is said */
	} cases[] = {
		{ { "PATH=/bin", NULL }, -ENOENT, NULL, NULL, 0 },
		{ { "TENURE_SCO_JOB=ydj-exp1-tok1", "SENSECORE_PYTORCH_NNODES=1",
		    "SENSECORE_ACCELERATE_DEVICE_COUNT=2", "HOSTNAME=pt-1-worker-0", NULL },
		  0,
		  "sco.ydj-exp1-tok1",
		  "pt-1-worker-0",
		  2 },
		/* A job that somebody has made by hand. */
		{ { "SENSECORE_PYTORCH_NODE_RANK=0", "SENSECORE_ACCELERATE_DEVICE_COUNT=many",
		    "HOSTNAME=pt-1A_2-worker-0", NULL },
		  0,
		  "sco.pt-1a-2",
		  "pt-1A_2-worker-0",
		  0 },
		{ { "SENSECORE_PYTORCH_NODE_RANK=0", NULL }, 0, "sco.job", NULL, 0 },
		{ { "SENSECORE_ACCELERATE_DEVICE_COUNT=0", NULL }, 0, "sco.job", NULL, 0, true },
	};
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct engine_here here = { .id = NULL };

		assert_int_equal(sco_text_inside(cases[i].environ, &here, &w->e), cases[i].code);
		if (cases[i].code < 0)
			continue;
		assert_string_equal(here.engine, "sco");
		assert_string_equal(here.key, cases[i].key);
		assert_true(!here.node == !cases[i].node);
		if (here.node)
			assert_string_equal(here.node, cases[i].node);
		assert_int_equal(here.n_gpus, cases[i].gpus);
		assert_true(!here.gpus == !cases[i].none);
		if (here.gpus)
			assert_string_equal(here.gpus, "");
		engine_here_clear(&here);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define ROW(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
		ROW(the_script_has_the_flags_and_the_agent),
		ROW(own_flags_are_added_and_ours_dropped),
		ROW(flags_that_would_take_the_job_from_us_are_refused),
		ROW(what_people_read_begins_as_the_name_does),
		ROW(a_template_of_the_site_stands_in_place_of_ours),
		ROW(everything_that_is_missing_is_named_at_once),
		ROW(what_does_not_fit_is_refused),
		ROW(states_have_no_case),
		ROW(jobs_come_as_an_array_or_below_a_name),
		ROW(a_description_is_one_job),
		ROW(a_sentence_is_an_empty_list_or_an_error),
		ROW(the_id_is_in_the_sentence),
		ROW(a_failure_is_for_good_or_for_now),
		ROW(the_cause_is_on_stdout),
		ROW(the_third_number_is_what_is_idle),
		ROW(a_worker_is_known_by_its_end),
		ROW(a_container_knows_its_job),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
