/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine/sge_text.h"

/* Grid Engine 8.1.9's, as it printed them; the names are changed. */
#define HEAD                                                                                       \
	"<?xml version='1.0'?>\n"                                                                  \
	"<job_info  xmlns:xsd=\"http://arc.liv.ac.uk/repos/darcs/sge/source/dist/util/resources/"  \
	"schemas/qstat/qstat.xsd\">\n"

static const char jobs_xml[] = HEAD
	"  <queue_info>\n"
	"    <job_list state=\"running\">\n"
	"      <JB_job_number>5</JB_job_number>\n"
	"      <JAT_prio>0.50000</JAT_prio>\n"
	"      <JB_name>t-m-a1</JB_name>\n"
	"      <JB_owner>researcher</JB_owner>\n"
	"      <state>r</state>\n"
	"      <JAT_start_time>2026-11-24T13:08:19</JAT_start_time>\n"
	"      <queue_name>gpu@qa-a10-023.crc.nd.edu</queue_name>\n"
	"      <slots>1</slots>\n"
	"      <full_job_name>t-m-a1</full_job_name>\n"
	"      <hard_request name=\"gpu_card\" resource_contribution=\"0.000000\">3</hard_request>\n"
	"      <hard_request name=\"h_rt\" resource_contribution=\"0.000000\">28800</hard_request>\n"
	"      <hard_request name=\"hostname\" resource_contribution=\"0.000000\">"
	"qa-a10-*&amp;!(foo|foo.*)</hard_request>\n"
	"      <binding>NONE</binding>\n"
	"    </job_list>\n"
	"    <job_list state=\"running\">\n"
	"      <JB_job_number>6</JB_job_number>\n"
	"      <JB_name>other</JB_name>\n"
	"      <state>r</state>\n"
	"    </job_list>\n"
	"  </queue_info>\n"
	"  <job_info>\n"
	"    <job_list state=\"pending\">\n"
	"      <JB_job_number>13</JB_job_number>\n"
	"      <JB_name>t-e-a2</JB_name>\n"
	"      <JB_owner>researcher</JB_owner>\n"
	"      <state>Eqw</state>\n"
	"      <JB_submission_time>2026-11-24T13:08:27</JB_submission_time>\n"
	"      <queue_name></queue_name>\n"
	"      <slots>1</slots>\n"
	"      <full_job_name>t-e-a2</full_job_name>\n"
	"      <binding>NONE</binding>\n"
	"    </job_list>\n"
	"  </job_info>\n"
	"</job_info>\n";

static const char none_xml[] = HEAD "  <queue_info>\n  </queue_info>\n  <job_info>\n  </job_info>\n"
				    "</job_info>\n";

static const char reasons[] =
	"==============================================================\n"
	"job_number:                 13\n"
	"exec_file:                  job_scripts/13\n"
	"submission_time:            Tue Nov 24 13:08:27 2026\n"
	"job_name:                   t-e-a2\n"
	"error reason          1:      11/24/2026 13:08:27 [0:226]: error: can't open output file "
	"\"/nosuch/dir/x\": No such file or directory\n"
	"scheduling info:            Job is in error state\n";

static const char waits[] =
	"==============================================================\n"
	"job_number:                 3\n"
	"scheduling info:            queue instance \"all.q@n1\" dropped because it is disabled\n"
	"                            (-l gpu_card=9) cannot run at host \"qa-a10-023\" because it "
	"offers only hc:gpu_card=2.000000\n";

/* One host in two queues, one that is dead, one of which no job can have a slot. */
static const char nodes_xml[] = HEAD
	"  <queue_info>\n"
	"    <Queue-List>\n"
	"      <name>gpu@qa-a10-024</name>\n"
	"      <qtype>BI</qtype>\n"
	"      <slots_used>0</slots_used>\n"
	"      <slots_resv>0</slots_resv>\n"
	"      <slots_total>16</slots_total>\n"
	"      <arch>lx-amd64</arch>\n"
	"      <state>au</state>\n"
	"      <resource name=\"gpu_card\" type=\"hc\">4.000000</resource>\n"
	"    </Queue-List>\n"
	"    <Queue-List>\n"
	"      <name>gpu@qa-a10-023</name>\n"
	"      <slots_used>1</slots_used>\n"
	"      <slots_total>16</slots_total>\n"
	"      <resource name=\"gpu_card\" type=\"hc\">1</resource>\n"
	"      <resource name=\"gpu_arch\" type=\"hf\">a10</resource>\n"
	"      <job_list state=\"running\">\n"
	"        <JB_job_number>1</JB_job_number>\n"
	"        <slots>4</slots>\n"
	"        <hard_request name=\"gpu_card\" resource_contribution=\"0.000000\">2</hard_request>\n"
	"      </job_list>\n"
	"    </Queue-List>\n"
	"    <Queue-List>\n"
	"      <name>debug@qa-a10-023</name>\n"
	"      <slots_used>1</slots_used>\n"
	"      <slots_total>1</slots_total>\n"
	"      <state>d</state>\n"
	"      <resource name=\"gpu_card\" type=\"hc\">1</resource>\n"
	"      <job_list state=\"running\">\n"
	"        <slots>1</slots>\n"
	"        <hard_request name=\"gpu_card\" resource_contribution=\"0.000000\">1</hard_request>\n"
	"      </job_list>\n"
	"    </Queue-List>\n"
	"    <Queue-List>\n"
	"      <name>gpu@qa-h200-001</name>\n"
	"      <slots_used>16</slots_used>\n"
	"      <slots_total>16</slots_total>\n"
	"      <resource name=\"gpu_card\" type=\"hc\">8</resource>\n"
	"    </Queue-List>\n"
	"    <Queue-List>\n"
	"      <name>long@cpu-001</name>\n"
	"      <slots_used>0</slots_used>\n"
	"      <slots_total>16</slots_total>\n"
	"    </Queue-List>\n"
	"  </queue_info>\n"
	"  <job_info>\n"
	"  </job_info>\n"
	"</job_info>\n";

static const char host_text[] = "hostname              qa-a10-023\n"
				"load_scaling          NONE\n"
				"complex_values        h_vmem=128G, \\\n"
				"                      gpu_card=4,gpu_card_x=9\n"
				"load_values           load_avg=3.804199,arch=lx-amd64\n";

static const char complexes[] =
	"#name               shortcut   type      relop requestable consumable default  urgency \n"
	"#----------------------------------------------------------------------------\n"
	"arch                a          STRING    ==    YES         NO         NONE     0\n"
	"gpu_card            gpu        INT       <=    YES         JOB        0        0\n"
	"slot_gpu            sgpu       INT       <=    YES         YES        0        0\n";

static void id_of_what_qsub_printed(void **state)
{
	static const struct {
		const char *text, *id; /* NULL: none */
	} cases[] = {
		{ "1\n", "1" },
		{ "5.1-3:1\n", "5" },
		{ "Your job 12 (\"t-a-b\") has been submitted\n", "12" },
		{ "Your job-array 7.1-3:1 (\"x\") has been submitted\n", "7" },
		{ "Welcome to the CRC!\nchecking your script ... ok\n 4711 \n", "4711" },
		{ "", NULL },
		{ "Unable to run job: unknown queue \"x\"\nExiting.\n", NULL },
		{ "12 jobs of yours wait\n", NULL },
		{ "Your job has a problem\n", NULL },
		{ "123456789012345\n", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char *id = NULL;
		int r = sge_submitted_id(cases[i].text, &id);

		assert_int_equal(r, cases[i].id ? 0 : -ENOENT);
		if (cases[i].id)
			assert_string_equal(id, cases[i].id);
		free(id);
	}
}

static void refusals_are_told_apart(void **state)
{
	static const struct {
		int status;
		const char *text;
		enum sge_refusal means;
	} cases[] = {
		{ 1, "Unable to run job: unknown resource \"nosuch\"\nExiting.\n", SGE_REFUSED },
		{ 1,
		  "Unable to run job: Job was rejected because job requests unknown queue \"x\"\n",
		  SGE_REFUSED },
		{ 14, "Unable to read script file because of error: error opening /x\n",
		  SGE_REFUSED },
		{ 1,
		  "error: commlib error: got select error (Connection refused)\nUnable to run job: "
		  "unable to send message to qmaster using port 6444 on host \"m\": got send error\n",
		  SGE_NO_CONTACT },
		{ 1,
		  "Unable to run job: failed receiving gdi request response for mid=1 (got syncron "
		  "message receive timeout error).\n",
		  SGE_UNSURE },
		{ 25,
		  "Unable to run job: job rejected: Only 2 jobs are allowed per user (current job "
		  "count: 2)\n",
		  SGE_BUSY },
		{ 25, "whatever", SGE_BUSY },
		{ 1, "error: SGE_ROOT directory \"/nosuch\" doesn't exist\n", SGE_NO_CLUSTER },
		{ 1, "Please set the environment variable SGE_ROOT.\n", SGE_NO_CLUSTER },
		{ 1,
		  "error: unable to read qmaster name: qmaster hostname in \"/x/act_qmaster\" has zero "
		  "length\n",
		  SGE_NO_CLUSTER },
		{ 1, "Your job 12 (\"x\") has been submitted\n", SGE_UNSURE },
		{ 1, "qsub: -M and -m go together: see the wiki\n", SGE_REFUSED },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(sge_refusal_of(cases[i].status, cases[i].text), cases[i].means);
}

static void letters_of_a_state(void **state)
{
	static const struct {
		const char *letters;
		enum engine_job_state means;
	} cases[] = {
		{ "qw", ENGINE_JOB_WAITING },	{ "hqw", ENGINE_JOB_HELD },
		{ "Rq", ENGINE_JOB_WAITING },	{ "hRq", ENGINE_JOB_HELD },
		{ "t", ENGINE_JOB_STARTING },	{ "Rt", ENGINE_JOB_STARTING },
		{ "r", ENGINE_JOB_RUNNING },	{ "Rr", ENGINE_JOB_RUNNING },
		{ "hr", ENGINE_JOB_RUNNING },	{ "s", ENGINE_JOB_SUSPENDED },
		{ "S", ENGINE_JOB_SUSPENDED },	{ "T", ENGINE_JOB_SUSPENDED },
		{ "ts", ENGINE_JOB_SUSPENDED }, { "tS", ENGINE_JOB_SUSPENDED },
		{ "Rs", ENGINE_JOB_SUSPENDED }, { "dr", ENGINE_JOB_ENDING },
		{ "dt", ENGINE_JOB_ENDING },	{ "dRr", ENGINE_JOB_ENDING },
		{ "ds", ENGINE_JOB_ENDING },	{ "Eqw", ENGINE_JOB_HELD },
		{ "Ehqw", ENGINE_JOB_HELD },	{ "EhRqw", ENGINE_JOB_HELD },
		{ "z", ENGINE_JOB_DONE },	{ "", ENGINE_JOB_UNKNOWN },
		{ "qx", ENGINE_JOB_UNKNOWN },	{ "running", ENGINE_JOB_UNKNOWN },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(sge_job_state(cases[i].letters), cases[i].means);
}

/* Each task of an array is a job; one line has all of those that wait. */
static void arrays_and_slots(void **state)
{
	static const char array[] = HEAD
		"<queue_info><job_list><JB_job_number>7</JB_job_number><JB_name>NDFS_a</JB_name>"
		"<state>r</state><slots>2</slots><tasks>1</tasks>"
		"<hard_request name=\"gpu\">2</hard_request></job_list>"
		"<job_list><JB_job_number>8</JB_job_number><JB_name>NDFS_b</JB_name>"
		"<state>r</state><slots>2</slots></job_list></queue_info>"
		"<job_info><job_list><JB_job_number>7</JB_job_number><JB_name>NDFS_a</JB_name>"
		"<state>qw</state><slots>2</slots><tasks>2-6:2,9</tasks>"
		"<hard_request name=\"gpu\">2</hard_request></job_list></job_info></job_info>\n";
	struct engine_jobs jobs = { .n = 0 };
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(sge_parse_jobs(array, "NDFS_", "gpu", true, &jobs, &e), 0);
	assert_int_equal(jobs.n, 3);
	assert_string_equal(jobs.all[0].id, "7.1");
	assert_int_equal(jobs.all[0].gpus, 4);
	assert_true(jobs.all[1].gpus_known && jobs.all[1].gpus == 0);
	assert_string_equal(jobs.all[2].id, "7.2-6:2,9");
	assert_int_equal(jobs.all[2].gpus, 16);
	engine_jobs_clear(&jobs);
	assert_int_equal(sge_parse_jobs(array, "NDFS_", NULL, false, &jobs, &e), 0);
	assert_false(jobs.all[0].gpus_known);
	engine_jobs_clear(&jobs);
}

static void jobs_of_ours_by_their_names(void **state)
{
	struct engine_jobs jobs = { .n = 0 };
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(sge_parse_jobs(jobs_xml, "t-", "gpu_card", false, &jobs, &e), 0);
	assert_int_equal(jobs.n, 2);
	assert_string_equal(jobs.all[0].id, "5");
	assert_string_equal(jobs.all[0].name, "t-m-a1");
	assert_string_equal(jobs.all[0].node, "qa-a10-023.crc.nd.edu");
	assert_int_equal(jobs.all[0].state, ENGINE_JOB_RUNNING);
	assert_int_equal(jobs.all[0].start_ns, sge_time("2026-11-24T13:08:19"));
	assert_int_equal(jobs.all[0].end_ns - jobs.all[0].start_ns, 28800 * NS_PER_S);
	assert_int_equal(jobs.all[1].state, ENGINE_JOB_HELD);
	assert_null(jobs.all[1].node);
	assert_null(jobs.all[1].reason);
	assert_int_equal(jobs.all[1].end_ns, 0);
	assert_true(jobs.all[0].gpus_known && jobs.all[0].gpus == 3);
	assert_true(jobs.all[1].gpus_known && jobs.all[1].gpus == 0);

	sge_add_reasons(reasons, &jobs);
	assert_null(jobs.all[0].reason);
	assert_string_equal(jobs.all[1].reason, "error: can't open output file \"/nosuch/dir/x\": "
						"No such file or directory");
	engine_jobs_clear(&jobs);
	assert_int_equal(sge_parse_jobs(none_xml, "", NULL, false, &jobs, &e), 0);
	assert_int_equal(jobs.n, 0);
}

static void each_job_has_its_own_reason(void **state)
{
	static const char text[] =
		"job_number:   3\n"
		"scheduling info:            queue instance \"all.q@n1\" dropped because it is full\n"
		"                            (-l gpu_card=9) cannot run at host \"n2\" because ..\n"
		"                            (-l gpu_card=9) cannot run at host \"n3\" because ..\n"
		"job_number:   4\n"
		"error reason    1:          error: can't chdir to /x\n"
		"scheduling info:            (-l gpu_card=9) cannot run at host \"n2\"\n"
		"job_number:   5\n"
		"scheduling info:            queue instance \"all.q@n1\" dropped because it is full\n"
		"job_number:   6\n"
		"scheduling info:            (Collecting of scheduler job information is turned off)\n"
		"job_number:   7\n"
		"scheduling info:            There are no messages available\n";
	static const char *const reasons_of[] = {
		"(-l gpu_card=9) cannot run at host \"n2\" because ..",
		"error: can't chdir to /x",
		"queue instance \"all.q@n1\" dropped because it is full",
		NULL,
		NULL,
	};
	struct engine_jobs jobs = { .n = 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(reasons_of); i++)
		engine_jobs_add(&jobs)->id = xasprintf("%zu", i + 3);
	sge_add_reasons(text, &jobs);
	for (size_t i = 0; i < jobs.n; i++) {
		if (reasons_of[i])
			assert_string_equal(jobs.all[i].reason, reasons_of[i]);
		else
			assert_null(jobs.all[i].reason);
	}
	engine_jobs_clear(&jobs);
}

/* Whatever stands in it, it can be shown. */
static void what_others_wrote_is_cleaned(void **state)
{
	struct engine_jobs jobs = { .n = 0 };
	struct strbuf words = STRBUF_INIT;

	(void)state;
	engine_jobs_add(&jobs)->id = xstrdup("13");
	sge_add_reasons("job_number: 13\nerror reason 1:  \033[31mred\t\xff\n", &jobs);
	assert_string_equal(jobs.all[0].reason, "?[31mred ?");
	engine_jobs_clear(&jobs);
	sge_scheduling_info("scheduling info:  \033[2J\n", &words);
	assert_string_equal(strbuf_str(&words), "?[2J");
	strbuf_clear(&words);
}

/* What is missing in a list counts as ended: so half of a list is none. */
static void half_an_answer_is_none(void **state)
{
	static const char *const bad[] = { "", "error: unable to contact qmaster\n",
					   "<unknown_jobs >\n</unknown_jobs>\n",
					   HEAD "  <queue_info>\n  </queue_info>\n",
					   "</job_info>" };
	struct engine_jobs jobs = { .n = 0 };
	struct err e = ERR_INIT;
	char *half = xstrdup(jobs_xml);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(sge_parse_jobs(bad[i], "", NULL, false, &jobs, &e), -EINVAL);
	half[strlen(half) / 2] = '\0';
	assert_int_equal(sge_parse_jobs(half, "", NULL, false, &jobs, &e), -EINVAL);
	assert_string_equal(e.text, "qstat: its answer breaks off in the middle");
	assert_int_equal(jobs.n, 0);
	free(half);
}

static void start_and_limit_of_a_job_that_runs(void **state)
{
	struct sge_run job;
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(sge_find_run(jobs_xml, "5", &job, &e), 0);
	assert_int_equal(job.start_ns, sge_time("2026-11-24T13:08:19"));
	assert_int_equal(job.limit_s, 28800);
	assert_string_equal(job.queue, "gpu@qa-a10-023.crc.nd.edu");
	free(job.queue);
	assert_int_equal(sge_find_run(jobs_xml, "5.2", &job, &e), 0);
	free(job.queue);
	assert_int_equal(sge_find_run(jobs_xml, "13", &job, &e), -ENOENT);
	assert_int_equal(sge_find_run(jobs_xml, "55", &job, &e), -ENOENT);
	assert_int_equal(sge_find_run("", "5", &job, &e), -EINVAL);
}

static void why_a_job_waits(void **state)
{
	struct strbuf words = STRBUF_INIT;

	(void)state;
	sge_scheduling_info(waits, &words);
	assert_string_equal(
		strbuf_str(&words),
		"queue instance \"all.q@n1\" dropped because it is disabled; "
		"(-l gpu_card=9) cannot run at host \"qa-a10-023\" because it offers only "
		"hc:gpu_card=2.000000");
	strbuf_clear(&words);
	sge_verification("Unable to run job: Job 2 (-l gpu_card=9) cannot run at host \"a\"\n"
			 "verification: no suitable queues\nExiting.\n",
			 &words);
	assert_string_equal(strbuf_str(&words),
			    "Unable to run job: Job 2 (-l gpu_card=9) cannot run at host \"a\"; "
			    "verification: no suitable queues");
	strbuf_clear(&words);
}

static void what_qdel_says_of_jobs_that_are_gone(void **state)
{
	(void)state;
	assert_true(sge_cancel_is_fine("root has registered the job 5 for deletion"));
	assert_true(sge_cancel_is_fine("root has deleted job 13"));
	assert_true(sge_cancel_is_fine("denied: job \"99\" does not exist"));
	assert_true(sge_cancel_is_fine("job 5 is already in deletion"));
	assert_false(sge_cancel_is_fine("root - you do not have the necessary privileges to delete "
					"the job \"5\""));
}

static void check_node(const struct engine_node *n, const char *name, const char *counts)
{
	char *text = xasprintf("%u/%u/%u/%u", n->total, n->used, n->free, n->blocked);

	assert_string_equal(n->name, name);
	assert_string_equal(text, counts);
	free(text);
}

/* A host is counted once, a dead one has nothing free though its cards are told, and cards beside
 * which no slot is left are nobody's. */
static void gpus_of_nodes(void **state)
{
	struct engine_nodes nodes = { .n = 0 };
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(sge_parse_nodes(nodes_xml, "gpu", false, "gpu_arch", &nodes, &e), 0);
	assert_int_equal(nodes.n, 3);
	check_node(&nodes.all[0], "qa-a10-023", "4/3/1/0");
	assert_string_equal(nodes.all[0].type, "a10");
	assert_true(nodes.all[0].usable);
	assert_null(nodes.all[0].why);
	check_node(&nodes.all[1], "qa-a10-024", "4/0/0/0");
	assert_false(nodes.all[1].usable);
	assert_string_equal(nodes.all[1].why, "unreachable (au)");
	check_node(&nodes.all[2], "qa-h200-001", "8/0/8/8");
	sge_set_capacity(&nodes.all[0], 6);
	check_node(&nodes.all[0], "qa-a10-023", "6/5/1/0");
	engine_nodes_clear(&nodes);

	/* Per slot: two GPUs for each of four. */
	assert_int_equal(sge_parse_nodes(nodes_xml, "gpu_card", true, NULL, &nodes, &e), 0);
	assert_int_equal(nodes.all[0].used, 9);
	assert_null(nodes.all[0].type);
	engine_nodes_clear(&nodes);
	assert_int_equal(sge_parse_nodes(none_xml, "gpu", false, NULL, &nodes, &e), 0);
	assert_int_equal(nodes.n, 0);
}

static void what_the_configuration_says(void **state)
{
	unsigned int n = 0;
	bool per_slot = false;
	char *name = NULL;

	(void)state;
	assert_int_equal(sge_parse_capacity(host_text, "gpu_card", &n), 0);
	assert_int_equal(n, 4);
	assert_int_equal(sge_parse_capacity("complex_values gpu_card=4(0 1 2 3)\n", "gpu_card", &n),
			 0);
	assert_int_equal(sge_parse_capacity(host_text, "gpu", &n), -ENOENT);
	assert_int_equal(sge_parse_complex(complexes, "gpu", &name, &per_slot), 0);
	assert_string_equal(name, "gpu_card");
	assert_false(per_slot);
	free(name);
	assert_int_equal(sge_parse_complex(complexes, "slot_gpu", &name, &per_slot), 0);
	assert_true(per_slot);
	free(name);
	assert_int_equal(sge_parse_complex(complexes, "ngpus", &name, &per_slot), -ENOENT);
	assert_int_equal(sge_queue_limit("s_rt  INFINITY\nh_rt                  24:00:00\n"),
			 86400);
	assert_int_equal(sge_queue_limit("h_rt                  INFINITY\n"), 0);
}

static void times_and_hosts(void **state)
{
	(void)state;
	assert_int_equal(sge_seconds("8:0:0"), 28800);
	assert_int_equal(sge_seconds("28800.000000"), 28800);
	assert_int_equal(sge_seconds("INFINITY"), 0);
	assert_int_equal(sge_seconds(""), 0);
	assert_int_equal(sge_time("2026-11-24T13:08:19.123"), sge_time("11/24/2026 13:08:19"));
	assert_int_not_equal(sge_time("2026-11-24T13:08:19"), 0);
	assert_int_equal(sge_time("yesterday"), 0);
	assert_true(sge_host_matches("qa-a10-*", "qa-a10-023.crc.nd.edu"));
	assert_true(sge_host_matches("qa-a10-023", "qa-a10-023.crc.nd.edu"));
	assert_false(sge_host_matches("qa-a10-*", "qa-h200-001"));
	assert_true(sge_lists_host("a.b b.c\nqa-1.x qa-2", "qa-1"));
	assert_false(sge_lists_host("a.b b.c\nqa-1.x", "qa-2"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(id_of_what_qsub_printed),
		cmocka_unit_test(refusals_are_told_apart),
		cmocka_unit_test(letters_of_a_state),
		cmocka_unit_test(jobs_of_ours_by_their_names),
		cmocka_unit_test(arrays_and_slots),
		cmocka_unit_test(each_job_has_its_own_reason),
		cmocka_unit_test(what_others_wrote_is_cleaned),
		cmocka_unit_test(half_an_answer_is_none),
		cmocka_unit_test(start_and_limit_of_a_job_that_runs),
		cmocka_unit_test(why_a_job_waits),
		cmocka_unit_test(what_qdel_says_of_jobs_that_are_gone),
		cmocka_unit_test(gpus_of_nodes),
		cmocka_unit_test(what_the_configuration_says),
		cmocka_unit_test(times_and_hosts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
