/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/textlist.h"
#include "engine/slurm_text.h"

#define T(text_) ((char[]){ text_ })

/* -------- the script -------- */

static const char *const agent[] = { "/opt/tenure", "agent", "--instance", "exp 1", NULL };

static struct engine_request plain(void)
{
	return (struct engine_request){
		.name = "tenure-exp1-k3x9",
		.title = "tenure-exp1",
		.token = "k3x9",
		.gpus = 2,
		.type = "a10",
		.minutes = 1440,
		.warn_s = 180,
		.dir = "/share/exp1",
		.output = "/share/exp1/engine/k3x9.out",
		.agent = agent,
	};
}

#define HEAD                                                                                       \
	"#!/bin/sh\n"                                                                              \
	"#SBATCH --job-name=tenure-exp1-k3x9\n"                                                    \
	"#SBATCH --output=/share/exp1/engine/k3x9.out\n"                                           \
	"#SBATCH --open-mode=append\n"                                                             \
	"#SBATCH --chdir=/share/exp1\n"                                                            \
	"#SBATCH --nodes=1\n"                                                                      \
	"#SBATCH --ntasks=1\n"
#define LAUNCH                                                                                     \
	"exec srun --mpi=none --ntasks=1 --kill-on-bad-exit=0 "                                    \
	"${SLURM_CPUS_PER_TASK:+--cpus-per-task=$SLURM_CPUS_PER_TASK} "                            \
	"'/opt/tenure' 'agent' '--instance' 'exp 1'\n"

static void assert_script(const struct engine_request *req, const char *text)
{
	cleanup_strbuf struct strbuf script = STRBUF_INIT;
	struct err e = ERR_INIT;

	assert_int_equal(slurm_script(req, &script, &e), 0);
	assert_string_equal(strbuf_str(&script), text);
}

static void assert_no_script(const struct engine_request *req, const char *why)
{
	cleanup_strbuf struct strbuf script = STRBUF_INIT;
	struct err e = ERR_INIT;

	assert_int_equal(slurm_script(req, &script, &e), -EINVAL);
	assert_non_null(strstr(e.text, why));
	assert_int_equal(script.len, 0);
}

static void the_script_asks_for_all_that_it_needs(void **state)
{
	struct engine_request req = plain();

	(void)state;
	assert_script(&req, HEAD "#SBATCH --gres=gpu:a10:2\n"
				 "#SBATCH --cpus-per-task=8\n"
				 "#SBATCH --mem=32768M\n"
				 "#SBATCH --time=1440\n"
				 "#SBATCH --signal=USR1@180\n"
				 "#SBATCH --no-requeue\n" LAUNCH);
}

static void what_is_not_asked_for_is_not_said(void **state)
{
	struct engine_request req = plain();

	(void)state;
	req.gpus = 0;
	req.type = NULL;
	req.minutes = 0;
	req.warn_s = 0;
	req.cpus = 3;
	req.mem_mib = 1000;
	assert_script(&req, HEAD "#SBATCH --cpus-per-task=3\n"
				 "#SBATCH --mem=1000M\n"
				 "#SBATCH --no-requeue\n" LAUNCH);
}

static void directives_are_added_and_dropped(void **state)
{
	struct engine_request req = plain();
	char *options[] = { T("--account=phys"), T("#SBATCH -C nvlink"), T("# no --array here") };
	char *drop[] = { T("--mem"), T("--signal") };
	char *exclude[] = { T("n1"), T("n2") };
	char *settings[] = { T("partition=long") };

	(void)state;
	req.type = NULL;
	req.options = &(struct text_list){ 3, options };
	req.drop = &(struct text_list){ 2, drop };
	req.exclude = &(struct text_list){ 2, exclude };
	req.settings = &(struct text_list){ 1, settings };
	assert_script(&req, HEAD "#SBATCH --gres=gpu:2\n"
				 "#SBATCH --cpus-per-task=8\n"
				 "#SBATCH --time=1440\n"
				 "#SBATCH --no-requeue\n"
				 "#SBATCH --partition=long\n"
				 "#SBATCH --exclude=n1,n2\n"
				 "#SBATCH --account=phys\n"
				 "#SBATCH -C nvlink\n"
				 "# no --array here\n" LAUNCH);
}

static void names_of_files_are_no_patterns(void **state)
{
	struct engine_request req = plain();
	cleanup_strbuf struct strbuf script = STRBUF_INIT;
	struct err e = ERR_INIT;

	(void)state;
	req.dir = "/share/my dir";
	req.output = "/share/my dir/50%j.out";
	assert_int_equal(slurm_script(&req, &script, &e), 0);
	assert_non_null(strstr(strbuf_str(&script), "--output='/share/my dir/50%%j.out'\n"));
	assert_non_null(strstr(strbuf_str(&script), "--chdir='/share/my dir'\n"));
}

static void what_would_take_the_job_from_us_is_refused(void **state)
{
	static const char *const lines[] = {
		"--array=0-3",
		"-a 0-3",
		"#SBATCH --nodes=2",
		"-N2",
		"--ntasks 4",
		"--clusters=other",
		"--job-name=x",
		"-J x",
		"--wrap=hostname",
		"--partition=a --array=1",
		"--arr=1-2",
		"--partition=a --ar 1",
		"--cluster=other",
		"gpu",
		"a\nb",
	};
	static const char *const fine[] = { "--ntasks-per-node=1", "--nodelist=n1",
					    "--wait-all-nodes=1", "--constraint=a&b", "--nice=5" };
	struct engine_request req = plain();

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		cleanup_free char *line = xstrdup(lines[i]);

		req.options = &(struct text_list){ 1, &line };
		assert_no_script(&req, "");
	}
	for (size_t i = 0; i < ARRAY_LEN(fine); i++) {
		cleanup_strbuf struct strbuf script = STRBUF_INIT;
		cleanup_free char *line = xstrdup(fine[i]);

		req.options = &(struct text_list){ 1, &line };
		assert_int_equal(slurm_script(&req, &script, NULL), 0);
	}
}

static void words_that_would_be_lines_are_refused(void **state)
{
	struct engine_request req = plain();
	char *settings[] = { T("partition=a\nb"), T("image=x") };
	char *node[] = { T("a b") };

	(void)state;
	req.type = "a10\nrm -rf ~";
	assert_no_script(&req, "no type of GPUs");
	req.type = NULL;
	req.settings = &(struct text_list){ 1, settings };
	assert_no_script(&req, "partition");
	req.settings = &(struct text_list){ 1, settings + 1 };
	assert_no_script(&req, "image");
	req.settings = NULL;
	req.exclude = &(struct text_list){ 1, node };
	assert_no_script(&req, "no node");
	req.exclude = NULL;
	req.dir = "/a\nb";
	assert_no_script(&req, "newline");
}

static void a_site_has_a_template(void **state)
{
	struct engine_request req = plain();
	char *options[] = { T("--qos=low") };
	char *drop[] = { T("--") };

	(void)state;
	req.options = &(struct text_list){ 1, options };
	req.drop = &(struct text_list){ 1, drop };
	req.template_text =
		"#!/bin/bash -l\n{directives}{options}#SBATCH -G {gpus} -t {minutes}\n"
		"module load cuda\necho ${{SLURM_JOB_ID} {title} {token} {type}\n{launch}"
		"# {agent} {cpus} {mem_mib} {warn_s} {dir} {output} {name} {exclude}\n";
	assert_script(&req, "#!/bin/bash -l\n#SBATCH --qos=low\n#SBATCH -G 2 -t 1440\n"
			    "module load cuda\necho ${SLURM_JOB_ID} tenure-exp1 k3x9 a10\n" LAUNCH
			    "# /opt/tenure agent --instance 'exp 1' 8 32768 180 /share/exp1 "
			    "/share/exp1/engine/k3x9.out tenure-exp1-k3x9 \n");
	req.template_text = "{nodes}";
	assert_no_script(&req, "{nodes}");
}

/* -------- sbatch -------- */

static void the_id_is_found_in_what_sbatch_prints(void **state)
{
	static const struct {
		const char *out, *id;
	} cases[] = {
		{ "1\n", "1" },
		{ "4711;clustername\n", "4711" },
		{ "Submitted batch job 12\n", "12" },
		{ "Submitted batch job 12 on cluster big\n", "12" },
		{ "Welcome to BIG.\n2 jobs of yours run.\n  31\n", "31" },
		{ "", NULL },
		{ "error\n", NULL },
		{ "12a\n", NULL },
		{ "Submitted batch job \n", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cleanup_free char *id = slurm_read_id(cases[i].out);

		if (cases[i].id)
			assert_string_equal(id, cases[i].id);
		else
			assert_null(id);
	}
}

static void a_refusal_is_told_from_a_silence(void **state)
{
	static const struct {
		const char *said;
		int means;
	} cases[] = {
		{ "sbatch: error: invalid partition specified: none\nsbatch: error: Batch job "
		  "submission failed: Invalid partition name specified\n",
		  ENGINE_REFUSED },
		{ "allocation failure: Requested node configuration is not available\n",
		  ENGINE_REFUSED },
		{ "sbatch: error: QOSMaxSubmitJobPerUserLimit\nsbatch: error: Batch job submission "
		  "failed: Job violates accounting/QOS policy\n",
		  ENGINE_REFUSED },
		{ "sbatch: error: Batch job submission failed: Unable to contact slurm controller "
		  "(connect failure)\n",
		  ENGINE_UNSURE },
		{ "sbatch: error: Batch job submission failed: Socket timed out on send/recv "
		  "operation\n",
		  ENGINE_UNSURE },
		{ "sbatch: error: Slurm temporarily unable to accept job, sleeping and "
		  "retrying\n",
		  -EAGAIN },
		{ "", ENGINE_REFUSED },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(slurm_read_refusal(cases[i].said), cases[i].means);
}

static void errors_are_told_in_slurms_words(void **state)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	(void)state;
	slurm_read_errors("sbatch: lua: hello\nsbatch: error: QOSMaxWall\nsbatch: error: Batch job "
			  "submission failed: no\n",
			  &b);
	assert_string_equal(strbuf_str(&b), "QOSMaxWall; Batch job submission failed: no");
	strbuf_reset(&b);
	slurm_read_errors("allocation failure: Invalid partition name specified", &b);
	assert_string_equal(strbuf_str(&b), "Invalid partition name specified");
	strbuf_reset(&b);
	slurm_read_errors("all is well\n", &b);
	assert_int_equal(b.len, 0);
}

static void a_dry_run_says_when(void **state)
{
	cleanup_strbuf struct strbuf words = STRBUF_INIT;
	struct err e = ERR_INIT;
	uint64_t ns;

	(void)state;
	assert_int_equal(slurm_read_test("sbatch: Job 3 to start at 1795525327 using 4 processors "
					 "on nodes qa-a10-001 in partition gpu\n",
					 &ns, &words, &e),
			 0);
	assert_int_equal(ns, 1795525327 * NS_PER_S);
	assert_string_equal(strbuf_str(&words), "2026-11-24 14:02:07 using 4 processors on nodes "
						"qa-a10-001 in partition gpu");
	strbuf_reset(&words);
	assert_int_equal(
		slurm_read_test("sbatch: Job 3 to start at 2026-11-24T14:02:07 using 4 processors "
				"on nodes a in partition gpu\nsbatch:   Preempts: 12,13\n",
				&ns, &words, &e),
		0);
	assert_int_equal(ns, 1795525327 * NS_PER_S);
	assert_non_null(strstr(strbuf_str(&words), ", which would preempt the jobs 12,13"));
	assert_int_equal(slurm_read_test("it depends\n", &ns, &words, &e), -EBADMSG);
	assert_non_null(strstr(e.text, "it depends"));
}

/* -------- squeue -------- */

static void jobs_are_read(void **state)
{
	struct engine_jobs jobs;
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(
		slurm_read_jobs(
			"1|RUNNING|qa-a10-001|1795525327|1795525927|1|gres:gpu:a10:2|tenure-a-1|None\n"
			"5|PENDING||N/A|N/A|1|N/A|tenure-a-2|Resources\n"
			"6|PENDING|(null)|1795526000|1795529600|2-4|gres/gpu:1,gres/shard:3|tenure-a-3|JobHeldUser\n"
			"7|PENDING|||N/A|1||tenure-a-4|(a|b) and c\n"
			"8|RUNNING|x|N/A|N/A|1|gres:gpu:8|other|None\n"
			"9|BREWING||N/A|N/A|1|gres:gpu:a10:1,gres:gpu:t4:2|tenure-a-5|None\n",
			"tenure-a-", &jobs, &e),
		0);
	assert_int_equal(jobs.n, 5);
	assert_string_equal(jobs.all[0].id, "1");
	assert_string_equal(jobs.all[0].name, "tenure-a-1");
	assert_string_equal(jobs.all[0].node, "qa-a10-001");
	assert_null(jobs.all[0].reason);
	assert_int_equal(jobs.all[0].state, ENGINE_JOB_RUNNING);
	assert_int_equal(jobs.all[0].start_ns, 1795525327 * NS_PER_S);
	assert_int_equal(jobs.all[0].end_ns, 1795525927 * NS_PER_S);
	assert_null(jobs.all[1].node);
	assert_string_equal(jobs.all[1].reason, "Resources");
	assert_int_equal(jobs.all[1].state, ENGINE_JOB_WAITING);
	assert_int_equal(jobs.all[1].start_ns, 0);
	assert_null(jobs.all[2].node);
	assert_int_equal(jobs.all[2].state, ENGINE_JOB_HELD);
	assert_int_equal(jobs.all[2].start_ns, 1795526000 * NS_PER_S);
	assert_string_equal(jobs.all[3].reason, "(a|b) and c");
	assert_int_equal(jobs.all[4].state, ENGINE_JOB_UNKNOWN);
	assert_true(jobs.all[0].gpus_known && jobs.all[0].gpus == 2);
	assert_false(jobs.all[1].gpus_known);
	assert_true(jobs.all[2].gpus_known && jobs.all[2].gpus == 2);
	assert_false(jobs.all[3].gpus_known);
	assert_true(jobs.all[4].gpus_known && jobs.all[4].gpus == 3);
	engine_jobs_clear(&jobs);
}

/* As 22.05 prints it of jobs with --gpus, --gres, -N2 --gres, --gpus-per-task and none. */
static void gpus_that_were_asked_for_in_another_way(void **state)
{
	static const unsigned int gpus[] = { 3, 2, 2, 4, 0, 7 };
	struct engine_jobs jobs = { .n = 0 };
	struct err e = ERR_INIT;

	(void)state;
	for (unsigned int i = 1; i <= ARRAY_LEN(gpus); i++)
		engine_jobs_add(&jobs)->id = xasprintf("%u", i);
	jobs.all[5].gpus = 7; /* it was told already */
	jobs.all[5].gpus_known = true;
	assert_int_equal(slurm_read_asked("1|1|1|gres:gpu:a10:3|N/A|N/A|N/A|\n"
					  "2|1|1|N/A|gres:gpu:2|N/A|N/A|\n"
					  "3|2|2|N/A|gres:gpu:1|N/A|N/A|\n"
					  "4|1|2|N/A|N/A|N/A|gres:gpu:2|\n"
					  "5|1|1|N/A|N/A|N/A|N/A|\n"
					  "6|1|1|gres:gpu:1|N/A|N/A|N/A|\n"
					  "77|1|1|gres:gpu:1|N/A|N/A|N/A|\n",
					  &jobs, &e),
			 0);
	for (size_t i = 0; i < ARRAY_LEN(gpus); i++)
		assert_true(jobs.all[i].gpus_known && jobs.all[i].gpus == gpus[i]);
	assert_int_equal(slurm_read_asked("squeue: error: Invalid job format", &jobs, &e),
			 -EBADMSG);
	engine_jobs_clear(&jobs);
}

static void no_jobs_are_not_the_same_as_nonsense(void **state)
{
	struct engine_jobs jobs;
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(slurm_read_jobs("", "t", &jobs, &e), 0);
	assert_int_equal(jobs.n, 0);
	assert_int_equal(slurm_read_jobs("CLUSTER: big\n", "t", &jobs, &e), 0);
	assert_int_equal(
		slurm_read_jobs("slurm_load_jobs error: Unable to contact\n", "t", &jobs, &e),
		-EBADMSG);
	assert_non_null(strstr(e.text, "slurm_load_jobs error"));
	assert_int_equal(slurm_read_jobs("Hello!\n1|RUNNING||||1|N/A|t1|None\n", "t", &jobs, &e),
			 0);
	assert_int_equal(jobs.n, 1);
	engine_jobs_clear(&jobs);
}

static void every_state_has_a_meaning(void **state)
{
	static const struct {
		const char *word, *reason;
		enum engine_job_state state;
	} cases[] = {
		{ "PENDING", NULL, ENGINE_JOB_WAITING },
		{ "PENDING", "Priority", ENGINE_JOB_WAITING },
		{ "PENDING", "JobHeldAdmin", ENGINE_JOB_HELD },
		{ "PENDING", "DependencyNeverSatisfied", ENGINE_JOB_HELD },
		{ "PENDING", "(launch failed requeued held)", ENGINE_JOB_HELD },
		{ "PENDING", "QOSMaxGRESPerUser", ENGINE_JOB_WAITING },
		{ "CONFIGURING", NULL, ENGINE_JOB_STARTING },
		{ "REQUEUED", NULL, ENGINE_JOB_WAITING },
		{ "REQUEUE_FED", NULL, ENGINE_JOB_WAITING },
		{ "REQUEUE_HOLD", NULL, ENGINE_JOB_HELD },
		{ "SPECIAL_EXIT", NULL, ENGINE_JOB_HELD },
		{ "RESV_DEL_HOLD", NULL, ENGINE_JOB_HELD },
		{ "RUNNING", "JobHeldUser", ENGINE_JOB_RUNNING },
		{ "SIGNALING", NULL, ENGINE_JOB_RUNNING },
		{ "STAGE_OUT", NULL, ENGINE_JOB_ENDING },
		{ "COMPLETING", NULL, ENGINE_JOB_ENDING },
		{ "STOPPED", NULL, ENGINE_JOB_SUSPENDED },
		{ "SUSPENDED", NULL, ENGINE_JOB_SUSPENDED },
		{ "RESIZING", NULL, ENGINE_JOB_RUNNING },
		{ "COMPLETED", NULL, ENGINE_JOB_DONE },
		{ "TIMEOUT", NULL, ENGINE_JOB_EXPIRED },
		{ "DEADLINE", NULL, ENGINE_JOB_EXPIRED },
		{ "PREEMPTED", NULL, ENGINE_JOB_EXPIRED },
		{ "CANCELLED", NULL, ENGINE_JOB_CANCELLED },
		{ "CANCELLED by 1001", NULL, ENGINE_JOB_CANCELLED },
		{ "REVOKED", NULL, ENGINE_JOB_CANCELLED },
		{ "FAILED", NULL, ENGINE_JOB_FAILED },
		{ "BOOT_FAIL", NULL, ENGINE_JOB_FAILED },
		{ "NODE_FAIL", NULL, ENGINE_JOB_FAILED },
		{ "OUT_OF_MEMORY", NULL, ENGINE_JOB_FAILED },
		{ "RUN", NULL, ENGINE_JOB_UNKNOWN },
		{ "", NULL, ENGINE_JOB_UNKNOWN },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(slurm_job_state(cases[i].word, cases[i].reason), cases[i].state);
}

static void times_are_seconds_or_local(void **state)
{
	(void)state;
	assert_int_equal(slurm_read_time("1795525327"), 1795525327 * NS_PER_S);
	assert_int_equal(slurm_read_time("2026-11-24T14:02:07"), 1795525327 * NS_PER_S);
	assert_int_equal(slurm_read_time("N/A"), 0);
	assert_int_equal(slurm_read_time("NONE"), 0);
	assert_int_equal(slurm_read_time("2026-11-24T14:02:07 "), 0);
	assert_int_equal(slurm_read_time("99999999999999999999"), 0);
}

/* -------- sinfo -------- */

struct gpus {
	const char *name, *type;
	unsigned int total, used, free, blocked;
	const char *why; /* NULL: it is usable */
};

static void assert_nodes(const struct engine_nodes *nodes, const struct gpus *want, size_t n)
{
	assert_int_equal(nodes->n, n);
	for (size_t i = 0; i < n; i++) {
		const struct engine_node *node = &nodes->all[i];

		assert_string_equal(node->name, want[i].name);
		if (want[i].type)
			assert_string_equal(node->type, want[i].type);
		else
			assert_null(node->type);
		assert_int_equal(node->total, want[i].total);
		assert_int_equal(node->used, want[i].used);
		assert_int_equal(node->free, want[i].free);
		assert_int_equal(node->blocked, want[i].blocked);
		assert_int_equal(node->usable, !want[i].why);
		if (want[i].why)
			assert_string_equal(node->why, want[i].why);
		else
			assert_null(node->why);
	}
}

static void nodes_are_read(void **state)
{
	static const struct gpus want[] = {
		{ "qa-a10-001", "a10", 4, 1, 3, 3, NULL },
		{ "qa-a10-002", "a10", 4, 4, 0, 0, "draining: maintenance window 9-10 | pipe" },
		{ "qa-h200-001", "h200", 8, 3, 5, 0, NULL },
		{ "qa-cpu-9", NULL, 2, 0, 2, 2, NULL },
		{ "crumbs", NULL, 2, 0, 2, 2, NULL },
		{ "one", NULL, 2, 0, 2, 0, NULL },
		{ "small", NULL, 2, 0, 2, 0, NULL },
		{ "two", "a10", 2, 1, 1, 0, NULL },
		{ "two", "t4", 2, 0, 2, 0, NULL },
		{ "plain", NULL, 4, 3, 1, 0, NULL },
		{ "dead", "a10", 4, 0, 0, 0, "does not answer" },
		{ "off", "a10", 4, 0, 4, 0, NULL },
		{ "planned", "a10", 4, 0, 0, 0, "planned for another job" },
		{ "down", "a10", 4, 0, 0, 0, "does not answer, down: Not responding" },
		{ "new", "a10", 4, 0, 0, 0, "hibernating" },
	};
	struct engine_nodes nodes;
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(
		slurm_read_nodes(
			"qa-a10-001|mixed|1/15/0/16|16000|16000|gpu:a10:4|gpu:a10:1(IDX:0)|none|\n"
			"qa-a10-001|mixed|1/15/0/16|16000|16000|gpu:a10:4|gpu:a10:1(IDX:0)|none|\n"
			"qa-a10-002|draining|1/15/0/16|0|16000|gpu:a10:4|gpu:a10:4(IDX:0-3)|"
			"maintenance window 9-10 | pipe|\n"
			"qa-h200-001|mixed|8/8/0/16|2048|16000|gpu:h200:8|"
			"gpu:h200:3(IDX:0,2,4)|none|\n"
			"login|idle|0/16/0/16|0|16000|(null)|(null)|none|\n"
			"qa-cpu-9|allocated|16/0/0/16|0|16000|gpu:2|gpu:0|none|\n"
			"crumbs|mixed|8/8/0/16|14977|16000|gpu:2|gpu:0|none|\n"
			"one|mixed|8/8/0/16|14976|16000|gpu:2|gpu:0|none|\n"
			"small|idle|0/16/0/16|0|512|gpu:2|gpu:0|none|\n"
			"two|mixed|1/15/0/16|0|16000|gpu:a10:2(S:0),gpu:t4:2(S:1),shard:a10:4(S:0)|"
			"gpu:a10:1(IDX:1),gpu:t4:0(IDX:N/A),shard:a10:0(IDX:N/A)|none|\n"
			"plain|mixed|1/15/0/16|0|16000|gpu:4,shard:4|gpu:3,shard:0|none|\n"
			"dead|mixed*|0/16/0/16|0|16000|gpu:a10:4|gpu:a10:0(IDX:N/A)|none|\n"
			"off|idle~|0/16/0/16|0|16000|gpu:a10:4|gpu:a10:0(IDX:N/A)|none|\n"
			"planned|idle-|0/16/0/16|0|16000|gpu:a10:4|gpu:a10:0(IDX:N/A)|none|\n"
			"down|down*|0/0/16/16|0|16000|gpu:a10:4|gpu:a10:0(IDX:N/A)|Not responding|\n"
			"new|hibernating|0/16/0/16|0|16000|gpu:a10:4|gpu:a10:0|none|\n",
			&nodes, &e),
		0);
	assert_nodes(&nodes, want, ARRAY_LEN(want));
	engine_nodes_clear(&nodes);
}

static void counts_have_suffixes(void **state)
{
	static const struct gpus want[] = { { "a", "x", 2048, 1024, 1024, 0, NULL } };
	struct engine_nodes nodes;

	(void)state;
	assert_int_equal(slurm_read_nodes("a|idle|0/1/0/1|0|1|gpu:x:2K,gpu:x:four,gpu,mps:9K|"
					  "gpu:x:1K(IDX:0-1023)|none|\n",
					  &nodes, NULL),
			 0);
	assert_nodes(&nodes, want, 1);
	engine_nodes_clear(&nodes);
	assert_int_equal(slurm_read_nodes("a|idle|0/1/0/1|0|1|gpu:x:2(|gpu:x:9(IDX:(,|none|\n",
					  &nodes, NULL),
			 0);
	assert_int_equal(nodes.n, 1);
	assert_int_equal(nodes.all[0].used, 2);
	engine_nodes_clear(&nodes);
	assert_int_equal(slurm_read_nodes("sinfo: unhappy\n", &nodes, NULL), -EBADMSG);
}

static void old_versions_tell_by_scontrol(void **state)
{
	static const struct gpus want[] = {
		{ "qa-a10-001", "a10", 4, 1, 3, 3, NULL },
		{ "qa-a10-002", "a10", 4, 2, 0, 0, "draining: disk a=b is full [root@now]" },
		{ "qa-a10-003", "a10", 4, 0, 0, 0, "does not answer, down: Not responding" },
	};
	struct engine_nodes nodes;
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(
		slurm_read_nodes_long(
			"NodeName=qa-a10-001 Arch=x86_64 CPUAlloc=16 CPUTot=16 Gres=gpu:a10:4 "
			"GresDrain=N/A GresUsed=gpu:a10:1(IDX:0) OS=Linux 6.1 #1 SMP = x "
			"RealMemory=16000 AllocMem=2000 State=MIXED ThreadsPerCore=1\n"
			"NodeName=qa-a10-002 CPUAlloc=1 CPUTot=16 Gres=gpu:a10:4 "
			"GresUsed=gpu:a10:2(IDX:0-1) RealMemory=16000 AllocMem=2000 "
			"State=MIXED+DRAIN Reason=disk a=b is full [root@now]\n"
			"NodeName=qa-a10-003 CPUAlloc=0 CPUTot=16 Gres=gpu:a10:4 "
			"GresUsed=gpu:a10:0(IDX:N/A) RealMemory=16000 AllocMem=0 "
			"State=DOWN+NOT_RESPONDING Reason=Not responding\n",
			&nodes, &e),
		0);
	assert_nodes(&nodes, want, ARRAY_LEN(want));
	engine_nodes_clear(&nodes);
}

/* -------- from within -------- */

static void a_job_knows_itself(void **state)
{
	static const char *const env[] = { "HOME=/x",
					   "SLURM_JOB_ID=12",
					   "SLURMD_NODENAME=qa-a10-001",
					   "SLURM_RESTART_COUNT=2",
					   "SLURM_JOB_GPUS=3,5",
					   "SLURM_STEP_GPUS=3,5",
					   "CUDA_VISIBLE_DEVICES=0,1",
					   "SLURM_GPUS_ON_NODE=2",
					   NULL };
	struct engine_here here;

	(void)state;
	assert_int_equal(slurm_here(env, &here, NULL), 0);
	assert_string_equal(here.engine, "slurm");
	assert_string_equal(here.id, "12");
	assert_string_equal(here.key, "slurm.12.2");
	assert_string_equal(here.node, "qa-a10-001");
	assert_string_equal(here.gpus, "0,1");
	assert_int_equal(here.n_gpus, 2);
	assert_int_equal(here.restarts, 2);
	assert_int_equal(here.end_ns, 0);
	engine_here_clear(&here);
}

static void cards_are_known_by_slurms_word_only(void **state)
{
	static const char *const none[] = { "SLURM_JOB_ID=12", "SLURMD_NODENAME=a",
					    "CUDA_VISIBLE_DEVICES=3",
					    "SLURM_JOB_END_TIME=1795525327", NULL };
	static const char *const hidden[] = { "SLURM_JOB_ID=12", "SLURMD_NODENAME=a",
					      "SLURM_JOB_GPUS=1,3,5,6",
					      "CUDA_VISIBLE_DEVICES=NoDevFiles", NULL };
	static const char *const counted[] = { "SLURM_JOB_ID=12", "SLURMD_NODENAME=a",
					       "SLURM_GPUS_ON_NODE=3", NULL };
	struct engine_here here;

	(void)state;
	assert_int_equal(slurm_here(none, &here, NULL), 0);
	assert_null(here.gpus);
	assert_int_equal(here.n_gpus, 0);
	assert_int_equal(here.end_ns, 1795525327 * NS_PER_S);
	assert_string_equal(here.key, "slurm.12.0");
	engine_here_clear(&here);
	assert_int_equal(slurm_here(hidden, &here, NULL), 0);
	assert_string_equal(here.gpus, "1,3,5,6");
	assert_int_equal(here.n_gpus, 4);
	engine_here_clear(&here);
	assert_int_equal(slurm_here(counted, &here, NULL), 0);
	assert_null(here.gpus);
	assert_int_equal(here.n_gpus, 3);
	engine_here_clear(&here);
}

static void what_is_in_no_job_says_so(void **state)
{
	static const char *const salloc[] = { "SLURM_JOB_ID=12", "SLURM_JOB_NODELIST=a", NULL };
	static const char *const odd[] = { "SLURM_JOB_ID=../x", "SLURMD_NODENAME=a", NULL };
	static const char *const no[] = { NULL };
	struct engine_here here;

	(void)state;
	assert_int_equal(slurm_here(salloc, &here, NULL), -ENOENT);
	assert_int_equal(slurm_here(odd, &here, NULL), -ENOENT);
	assert_int_equal(slurm_here(no, &here, NULL), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_script_asks_for_all_that_it_needs),
		cmocka_unit_test(what_is_not_asked_for_is_not_said),
		cmocka_unit_test(directives_are_added_and_dropped),
		cmocka_unit_test(names_of_files_are_no_patterns),
		cmocka_unit_test(what_would_take_the_job_from_us_is_refused),
		cmocka_unit_test(words_that_would_be_lines_are_refused),
		cmocka_unit_test(a_site_has_a_template),
		cmocka_unit_test(the_id_is_found_in_what_sbatch_prints),
		cmocka_unit_test(a_refusal_is_told_from_a_silence),
		cmocka_unit_test(errors_are_told_in_slurms_words),
		cmocka_unit_test(a_dry_run_says_when),
		cmocka_unit_test(jobs_are_read),
		cmocka_unit_test(gpus_that_were_asked_for_in_another_way),
		cmocka_unit_test(no_jobs_are_not_the_same_as_nonsense),
		cmocka_unit_test(every_state_has_a_meaning),
		cmocka_unit_test(times_are_seconds_or_local),
		cmocka_unit_test(nodes_are_read),
		cmocka_unit_test(counts_have_suffixes),
		cmocka_unit_test(old_versions_tell_by_scontrol),
		cmocka_unit_test(a_job_knows_itself),
		cmocka_unit_test(cards_are_known_by_slurms_word_only),
		cmocka_unit_test(what_is_in_no_job_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
