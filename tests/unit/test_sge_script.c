/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine/sge_script.h"

static const char *const agent[] = { "/shared/bin/tenure", "agent", "--token", "a1b2", NULL };

static struct text_list texts(const char *const *list)
{
	struct text_list l = { .n = 0 };

	for (; *list; list++)
		text_list_add(&l, *list);
	return l;
}

static struct engine_request request(void)
{
	return (struct engine_request){
		.name = "t-exp-a1b2",
		.title = "t-exp",
		.token = "a1b2",
		.gpus = 2,
		.minutes = 480,
		.warn_s = 180,
		.dir = "/shared/exp",
		.output = "/shared/exp/a1b2.out",
		.agent = agent,
	};
}

/* The script of a request, which the caller frees. */
static char *script_of(const struct engine_request *req)
{
	struct strbuf script = STRBUF_INIT;
	struct err e = ERR_INIT;

	assert_int_equal(sge_render(req, &script, &e), 0);
	return strbuf_take(&script);
}

static void assert_refused(const struct engine_request *req, const char *because)
{
	struct strbuf script = STRBUF_INIT;
	struct err e = ERR_INIT;

	assert_int_equal(sge_render(req, &script, &e), -EINVAL);
	assert_non_null(strstr(e.text, because));
	strbuf_clear(&script);
}

static void assert_has(const struct engine_request *req, const char *line)
{
	char *script = script_of(req);

	if (!strstr(script, line))
		fail_msg("no \"%s\" in:\n%s", line, script);
	free(script);
}

static void assert_has_not(const struct engine_request *req, const char *line)
{
	char *script = script_of(req);

	if (strstr(script, line))
		fail_msg("\"%s\" in:\n%s", line, script);
	free(script);
}

static void all_of_it_is_in_the_file(void **state)
{
	static const char *const own[] = { "#$ -M me@nd.edu", "-m abe", "# a remark", NULL };
	static const char *const pool[] = { "queue=gpu@@crc_gpu", "complex=gpu_card", NULL };
	static const char *const bad[] = { "qa-a10-023.crc.nd.edu", "qa-a10-024", NULL };
	struct text_list options = texts(own), settings = texts(pool), exclude = texts(bad);
	struct engine_request req = request();
	char *script;

	(void)state;
	req.options = &options;
	req.settings = &settings;
	req.exclude = &exclude;
	script = script_of(&req);
	assert_string_equal(script, "#!/bin/sh\n"
				    "#$ -S /bin/sh\n"
				    "#$ -N t-exp-a1b2\n"
				    "#$ -q gpu@@crc_gpu\n"
				    "#$ -l gpu_card=2\n"
				    "#$ -l h_rt=8:0:0\n"
				    "#$ -l s_rt=7:57:0\n"
				    "#$ -l h='!(qa-a10-023|qa-a10-023.*|qa-a10-024|qa-a10-024.*)'\n"
				    "#$ -notify\n"
				    "#$ -r n\n"
				    "#$ -wd /shared/exp\n"
				    "#$ -j y\n"
				    "#$ -o /shared/exp/a1b2.out\n"
				    "#$ -ac token=a1b2\n"
				    "#$ -M me@nd.edu\n"
				    "#$ -m abe\n"
				    "# a remark\n"
				    "export TENURE_SGE_GPUS=2\n"
				    "export TENURE_SGE_START=$(date +%s)\n"
				    "export TENURE_SGE_END=$((TENURE_SGE_START + 28800))\n"
				    "exec '/shared/bin/tenure' 'agent' '--token' 'a1b2'\n");
	free(script);
	text_list_clear(&options);
	text_list_clear(&settings);
	text_list_clear(&exclude);
}

static void what_is_not_said_is_not_asked_for(void **state)
{
	struct engine_request req = request();

	(void)state;
	req.minutes = 0;
	assert_has_not(&req, "_rt=");
	assert_has_not(&req, "TENURE_SGE_END");
	assert_has_not(&req, "-q ");
	assert_has_not(&req, "-pe");
	assert_has(&req, "#$ -l gpu=2\n");
	req.gpus = 0;
	assert_has_not(&req, "-l gpu");
	/* A warning that would come before the start. */
	req.minutes = 2;
	assert_has(&req, "h_rt=0:2:0");
	assert_has_not(&req, "s_rt");
}

static void directives_of_ours_can_be_dropped(void **state)
{
	static const char *const drop[] = { "-l s_rt", "-S", "-ac", NULL };
	struct text_list list = texts(drop);
	struct engine_request req = request();

	(void)state;
	req.drop = &list;
	assert_has_not(&req, "s_rt");
	assert_has_not(&req, "-S ");
	assert_has_not(&req, "-ac ");
	assert_has(&req, "#$ -l h_rt=8:0:0\n");
	assert_false(sge_is_dropped(&req, "-terse"));
	text_list_clear(&list);
}

static void slots_memory_and_what_counts_by_slot(void **state)
{
	static const char *const by_job[] = { "pe=smp", "memory=h_vmem", NULL };
	static const char *const by_slot[] = { "pe=smp", "memory=h_vmem", "count=slot", NULL };
	struct text_list job = texts(by_job), slot = texts(by_slot);
	struct engine_request req = request();

	(void)state;
	req.settings = &job;
	assert_has(&req, "#$ -pe smp 8\n#$ -l gpu=2\n");
	assert_has(&req, "#$ -l h_vmem=4096M\n");
	req.cpus = 3;
	req.mem_mib = 10000;
	assert_has(&req, "#$ -pe smp 3\n");
	assert_has(&req, "#$ -l h_vmem=3334M\n");
	req.settings = &slot;
	assert_has(&req, "#$ -pe smp 2\n#$ -l gpu=1\n");
	text_list_clear(&job);
	text_list_clear(&slot);
}

static void a_type_is_hosts_a_group_or_a_resource(void **state)
{
	static const char *const hosts[] = { "types=h200=@x,a10=qa-a10-*", "queue=gpu", NULL };
	static const char *const group[] = { "types=a10=@crc_gpu, h200=y", "queue=gpu@@old", NULL };
	static const char *const resource[] = { "type_complex=gpu_arch", NULL };
	static const char *const bad[] = { "qa-a10-023", NULL };
	struct text_list lists[] = { texts(hosts), texts(group), texts(resource) };
	struct text_list exclude = texts(bad);
	struct engine_request req = request();

	(void)state;
	req.type = "a10";
	assert_refused(&req, "types=a10=HOSTS");
	req.settings = &lists[0];
	assert_has(&req, "#$ -l h='qa-a10-*'\n");
	req.exclude = &exclude;
	assert_has(&req, "#$ -l h='qa-a10-*&!(qa-a10-023|qa-a10-023.*)'\n");
	req.settings = &lists[1];
	assert_has(&req, "#$ -q gpu@@crc_gpu\n");
	assert_has(&req, "#$ -l h='!(qa-a10-023|qa-a10-023.*)'\n");
	req.settings = &lists[2];
	assert_has(&req, "#$ -l gpu_arch=a10\n");
	req.type = "h100";
	req.settings = &lists[0];
	assert_refused(&req, "\"h100\"");
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		text_list_clear(&lists[i]);
	text_list_clear(&exclude);
}

static void a_setting_that_it_does_not_know_is_named(void **state)
{
	static const char *const wrong[] = { "complx=gpu", NULL };
	static const char *const count[] = { "count=card", NULL };
	struct text_list lists[] = { texts(wrong), texts(count) };
	struct engine_request req = request();

	(void)state;
	req.settings = &lists[0];
	assert_refused(&req, "complx");
	req.settings = &lists[1];
	assert_refused(&req, "count=card");
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		text_list_clear(&lists[i]);
}

static void options_that_would_take_the_job_from_us(void **state)
{
	static const char *const lines[] = { "#$ -N mine",	 "-t 1-4", "-o /x",
					     "#$  -p 3 -sync y", "-w v",   "-m a\n-M b" };
	static const char *const fine[] = { "-hold_jid 5", "#$ -M me-N", "# -N", "-tc 4", NULL };
	struct engine_request req = request();

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		const char *const one[] = { lines[i], NULL };
		struct text_list list = texts(one);

		req.options = &list;
		assert_refused(&req,
			       strchr(lines[i], '\n') ? "one line" : "is not for a pool's jobs");
		text_list_clear(&list);
	}

	struct text_list list = texts(fine);

	req.options = &list;
	assert_has(&req, "#$ -hold_jid 5\n#$ -M me-N\n# -N\n#$ -tc 4\n");
	text_list_clear(&list);
}

static void names_and_paths_that_it_does_not_take(void **state)
{
	static const char *const names[] = { "", "1x", "a:b", "a b", "a/b", "a@b", "a*" };
	struct engine_request req = request();

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		req.name = names[i];
		assert_refused(&req, "for a job's name");
	}
	req = request();
	req.dir = "/a\nb";
	assert_refused(&req, "newline");
}

/* What means something to qsub is left to the shell. */
static void paths_that_qsub_would_misread(void **state)
{
	struct engine_request req = request();

	(void)state;
	req.dir = "/my disk/runs";
	req.output = "/my disk/out";
	assert_has(&req, "#$ -wd '/my disk/runs'\n#$ -j y\n#$ -o '/my disk/out'\n");
	assert_has_not(&req, "exec >>");
	req.dir = "/x/$JOB_ID/it's";
	req.output = "/spool/pools/exp,a1b2.out";
	assert_has(&req, "#$ -wd /\n#$ -j y\n#$ -o /dev/null\n");
	assert_has(&req, "exec >>'/spool/pools/exp,a1b2.out' 2>&1 || exit\n"
			 "cd '/x/$JOB_ID/it'\\''s' || exit\n"
			 "export TENURE_SGE_GPUS=2\n");
}

static void a_template_of_the_site(void **state)
{
	struct engine_request req = request();
	char *script;

	(void)state;
	req.template_text = "#!/bin/bash\n{directives}#$ -P {title}\n{options}module load cuda\n"
			    "echo {{ {gpus} {slots} {time} {complex} {token}\n{setup}{agent}";
	script = script_of(&req);
	assert_non_null(strstr(script, "#$ -ac token=a1b2\n#$ -P t-exp\nmodule load cuda\n"
				       "echo { 2 1 8:0:0 gpu a1b2\nexport TENURE_SGE_GPUS=2\n"));
	assert_non_null(strstr(script, "\nexec '/shared/bin/tenure' 'agent'"));
	free(script);
	req.template_text = "{nodes}";
	assert_refused(&req, "{agent}");
}

static void check_inside(const char *const *env, const char *key, const char *gpus, unsigned int n)
{
	struct engine_here here;
	struct err e = ERR_INIT;

	assert_int_equal(sge_inside(env, &here, &e), 0);
	assert_string_equal(here.key, key);
	if (gpus)
		assert_string_equal(here.gpus, gpus);
	else
		assert_null(here.gpus);
	assert_int_equal(here.n_gpus, n);
	engine_here_clear(&here);
}

#define JOB "JOB_ID=17", "SGE_ROOT=/opt/sge", "SGE_TASK_ID=undefined"

static void what_a_job_knows_of_itself(void **state)
{
	static const char *const plain[] = { JOB, "SGE_CELL=default", "RESTARTED=0", NULL };
	static const char *const ours[] = { JOB, "SGE_CELL=Lab_1", "TENURE_SGE_GPUS=2",
					    "TENURE_SGE_END=1795525803", NULL };
	static const char *const again[] = { JOB, "RESTARTED=1", "TENURE_SGE_START=1795525000",
					     NULL };
	static const char *const univa[] = { JOB, "SGE_HGR_gpu_card=0 2", NULL };
	static const char *const older[] = { JOB, "SGE_HGR_gpu_card=gpu1 gpu3", "TENURE_SGE_GPUS=2",
					     NULL };
	static const char *const visible[] = { JOB, "SGE_HGR_gpu_card=0 2",
					       "CUDA_VISIBLE_DEVICES=GPU-1,GPU-2,GPU-3", NULL };
	static const char *const array[] = {
		"JOB_ID=17",	  "SGE_ROOT=/x",	   "SGE_TASK_ID=3",
		"SGE_HGR_fpga=1", "CUDA_VISIBLE_DEVICES=", NULL
	};
	struct engine_here here;
	struct err e = ERR_INIT;

	(void)state;
	check_inside(plain, "sge.17", NULL, 0);
	check_inside(ours, "sge.lab-1.17", NULL, 2);
	check_inside(again, "sge.17.1.1795525000", NULL, 0);
	check_inside(univa, "sge.17", "0,2", 2);
	check_inside(older, "sge.17", "1,3", 2);
	check_inside(visible, "sge.17", "GPU-1,GPU-2,GPU-3", 3);
	check_inside(array, "sge.17.3", NULL, 0);
	assert_int_equal(sge_inside(ours, &here, &e), 0);
	assert_int_equal(here.end_ns, 1795525803 * NS_PER_S);
	assert_string_equal(here.engine, "sge");
	assert_string_equal(here.id, "17");
	engine_here_clear(&here);
}

static void others_have_a_job_id_as_well(void **state)
{
	static const char *const login[] = { "SGE_ROOT=/opt/sge", "SGE_CELL=default", "JOB_ID=17",
					     NULL };
	static const char *const own[] = { "SGE_ROOT=/opt/sge", "SGE_TASK_ID=undefined",
					   "JOB_ID=my-experiment", NULL };
	static const char *const other[] = { "JOB_ID=17", NULL };
	struct engine_here here;

	(void)state;
	assert_int_equal(sge_inside(login, &here, NULL), -ENOENT);
	assert_int_equal(sge_inside(own, &here, NULL), -ENOENT);
	assert_int_equal(sge_inside(other, &here, NULL), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_of_it_is_in_the_file),
		cmocka_unit_test(what_is_not_said_is_not_asked_for),
		cmocka_unit_test(directives_of_ours_can_be_dropped),
		cmocka_unit_test(slots_memory_and_what_counts_by_slot),
		cmocka_unit_test(a_type_is_hosts_a_group_or_a_resource),
		cmocka_unit_test(a_setting_that_it_does_not_know_is_named),
		cmocka_unit_test(options_that_would_take_the_job_from_us),
		cmocka_unit_test(names_and_paths_that_it_does_not_take),
		cmocka_unit_test(paths_that_qsub_would_misread),
		cmocka_unit_test(a_template_of_the_site),
		cmocka_unit_test(what_a_job_knows_of_itself),
		cmocka_unit_test(others_have_a_job_id_as_well),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
