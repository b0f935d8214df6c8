/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit.h"

#include "base/mem.h"
#include "cli/task/sbatch_lines.h"
#include "cli/task/submit_options.h"
#include "spool/task_text.h"

/* Without "version". */
static char *json_of(const struct task_spec *s)
{
	json_t *o = spec_json(s);
	char *text;

	(void)json_object_del(o, "version");
	text = json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS);
	json_decref(o);
	return text;
}

/* What a script's lines make of a task, and what is said of them. options: a command line's. */
static void take(const char *script, const char *options, char **ret_json, char *said, size_t size)
{
	cleanup_free char *line = xasprintf("submit %s", options);
	char *argv[16] = { NULL }, *save = NULL;
	struct task_spec *s = spec_new();
	struct opts *o = opts_new();
	FILE *out = tmpfile();
	int argc = 0, screen = dup(STDERR_FILENO);
	struct err e = ERR_INIT;

	for (char *w = strtok_r(line, " ", &save); w && argc < 15; w = strtok_r(NULL, " ", &save))
		argv[argc++] = w;
	submit_add_opts(o);
	if (opts_parse(o, argc, argv, OPTS_STOP_AT_WORD, &e) < 0)
		fail_msg("%s: %s", options, e.text);
	assert_non_null(out);
	(void)fflush(stderr);
	(void)dup2(fileno(out), STDERR_FILENO);
	sbatch_take(s, o, NULL, script);
	(void)fflush(stderr);
	(void)dup2(screen, STDERR_FILENO);
	(void)close(screen);
	rewind(out);
	said[fread(said, 1, size - 1, out)] = '\0';
	(void)fclose(out);
	*ret_json = json_of(s);
	(void)spec_free(s);
	(void)opts_free(o);
}

#define TAKEN  "tenure: note: from its #SBATCH lines: "
#define PASSED "tenure: warning: of its #SBATCH lines these do nothing here: "

static const struct {
	const char *script, *options, *json, *said;
} cases[] = {
	{ "echo a\n", "", "{}", "" },
	/* Names: long, short, glued, quoted. */
	{ "#SBATCH --job-name=train\n", "", "{\"name\":\"train\"}", TAKEN "--name train\n" },
	{ "#SBATCH --job-name train\n", "", "{\"name\":\"train\"}", TAKEN "--name train\n" },
	{ "#SBATCH -J train\n", "", "{\"name\":\"train\"}", TAKEN "--name train\n" },
	{ "#SBATCH -Jtrain\n", "", "{\"name\":\"train\"}", TAKEN "--name train\n" },
	{ "#SBATCH -J=train\n", "", "{\"name\":\"train\"}", TAKEN "--name train\n" },
	{ "#SBATCH --job-name=\"my train\"\n", "", "{\"name\":\"my_train\"}",
	  TAKEN "--name my_train\n" },
	{ "#SBATCH -J 42\n", "", "{\"name\":\"task_42\"}", TAKEN "--name task_42\n" },
	/* Arrays: a range and how many at once, no list and no step. */
	{ "#SBATCH -a 0-9\n", "", "{\"array\":\"0-9\"}", TAKEN "--array 0-9\n" },
	{ "#SBATCH --array=1-100%4\n", "", "{\"array\":\"1-100%4\"}", TAKEN "--array 1-100%4\n" },
	{ "#SBATCH --array=7\n", "", "{\"array\":\"7-7\"}", TAKEN "--array 7-7\n" },
	{ "#SBATCH --array=1,3\n", "", "{}", PASSED "--array=1,3\n" },
	{ "#SBATCH --array=1-9:2\n", "", "{}", PASSED "--array=1-9:2\n" },
	{ "#SBATCH --array=9-1\n", "", "{}", PASSED "--array=9-1\n" },
	{ "#SBATCH --array=\n", "", "{}", PASSED "--array=\n" },
	{ "#SBATCH --array=1-\n", "", "{}", PASSED "--array=1-\n" },
	/* GPUs and their model. */
	{ "#SBATCH --gres=gpu:2\n", "", "{\"gpus\":2}", TAKEN "--gpus 2\n" },
	{ "#SBATCH --gres=gpu\n", "", "{}", TAKEN "--gpus 1\n" },
	{ "#SBATCH --gres=gpu:a100:2\n", "", "{\"gpus\":2,\"model\":\"*a100*\"}",
	  TAKEN "--gpus 2, --model *a100*\n" },
	{ "#SBATCH --gres=gpu:a100\n", "", "{\"model\":\"*a100*\"}",
	  TAKEN "--gpus 1, --model *a100*\n" },
	{ "#SBATCH --gres=gpus:2\n", "", "{}", PASSED "--gres=gpus:2\n" },
	{ "#SBATCH --gres=lustre:1\n", "", "{}", PASSED "--gres=lustre:1\n" },
	{ "#SBATCH --gres=gpu:2,lustre:1\n", "", "{}", PASSED "--gres=gpu:2,lustre:1\n" },
	{ "#SBATCH -G 4\n", "", "{\"gpus\":4}", TAKEN "--gpus 4\n" },
	{ "#SBATCH --gpus=h100:4\n", "", "{\"gpus\":4,\"model\":\"*h100*\"}",
	  TAKEN "--gpus 4, --model *h100*\n" },
	{ "#SBATCH --gpus-per-node=v100:8\n", "", "{\"gpus\":8,\"model\":\"*v100*\"}",
	  TAKEN "--gpus 8, --model *v100*\n" },
	{ "#SBATCH -G 100000\n", "", "{}", PASSED "-G 100000\n" },
	/* Times: minutes, minutes:seconds, hours:minutes:seconds, days-hours and further. */
	{ "#SBATCH -t 90\n", "", "{\"timeout\":\"1h30m\"}", TAKEN "--timeout 1h30m\n" },
	{ "#SBATCH -t 1:30\n", "", "{\"timeout\":\"1m30s\"}", TAKEN "--timeout 1m30s\n" },
	{ "#SBATCH --time=02:00:00\n", "", "{\"timeout\":\"2h\"}", TAKEN "--timeout 2h\n" },
	{ "#SBATCH --time=1-12\n", "", "{\"timeout\":\"1d12h\"}", TAKEN "--timeout 1d12h\n" },
	{ "#SBATCH --time=1-0:30\n", "", "{\"timeout\":\"1d30m\"}", TAKEN "--timeout 1d30m\n" },
	{ "#SBATCH --time=1-0:0:1\n", "", "{\"timeout\":\"1d1s\"}", TAKEN "--timeout 1d1s\n" },
	{ "#SBATCH --time=0\n", "", "{}", PASSED "--time=0\n" },
	{ "#SBATCH --time=1-2-3\n", "", "{}", PASSED "--time=1-2-3\n" },
	{ "#SBATCH --time=1:2:3:4\n", "", "{}", PASSED "--time=1:2:3:4\n" },
	{ "#SBATCH --time=UNLIMITED\n", "", "{}", PASSED "--time=UNLIMITED\n" },
	{ "#SBATCH --time=12345678901\n", "", "{}", PASSED "--time=12345678901\n" },
	{ "#SBATCH --time=1:\n", "", "{}", PASSED "--time=1:\n" },
	/* Flags take no word. */
	{ "#SBATCH --hold -J x\n", "", "{\"name\":\"x\",\"paused\":true}",
	  TAKEN "--paused, --name x\n" },
	{ "#SBATCH --no-requeue\n", "", "{\"no_requeue\":true}", TAKEN "--no-requeue\n" },
	{ "#SBATCH --exclusive -J x\n", "", "{\"name\":\"x\"}",
	  TAKEN "--name x\n" PASSED "--exclusive\n" },
	/* The directory. */
	{ "#SBATCH -D /tmp\n", "", "{\"cwd\":\"/tmp\"}", TAKEN "--cwd /tmp\n" },
	/* Files. */
	{ "#SBATCH -o /tmp/%x-%j.out -e /tmp/err\n", "",
	  "{\"error\":\"/tmp/err\",\"output\":\"/tmp/%x-%j.out\"}",
	  TAKEN "--output /tmp/%x-%j.out, --error /tmp/err\n" },
	{ "#SBATCH --output=/tmp/%s.out\n", "", "{}", PASSED "--output=/tmp/%s.out\n" },
	{ "#SBATCH --output=/tmp\n", "", "{}", PASSED "--output=/tmp\n" },
	{ "#SBATCH --output=/tmp/a\n", "-o /tmp/b", "{}", "" },
	{ "#SBATCH -D nowhere/at/all\n", "", "{}", PASSED "-D nowhere/at/all\n" },
	/* What is so anyway is not told; another number of nodes is. */
	{ "#SBATCH -N 1 --ntasks=1 --requeue -q\n", "", "{}", PASSED "-q\n" },
	{ "#SBATCH --nodes=2 --mem=4G -p gpu\n", "", "{}", PASSED "--nodes=2, --mem=4G, -p gpu\n" },
	{ "#SBATCH --mem=4G\n#SBATCH --mem=4G\n", "", "{}", PASSED "--mem=4G\n" },
	/* The command line goes before it. */
	{ "#SBATCH -J a --gres=gpu:2\n", "--name b", "{\"gpus\":2}", TAKEN "--gpus 2\n" },
	{ "#SBATCH --array=1-3\n", "--sweep x=1,2", "{}", "" },
	/* Where Slurm looks: from the top to the first command; comments and blanks between. */
	{ "#!/bin/sh\n\n# a comment\n#SBATCH -J a\n  \necho\n#SBATCH -J b\n", "",
	  "{\"name\":\"a\"}", TAKEN "--name a\n" },
	{ "#SBATCHx -J a\n#sbatch -J b\n # SBATCH -J c\n", "", "{}", "" },
	{ "#SBATCH -J a # a comment\n", "", "{\"name\":\"a\"}", TAKEN "--name a\n" },
	{ "#SBATCH -J a\r\n#SBATCH -G 2\r\n", "", "{\"gpus\":2,\"name\":\"a\"}",
	  TAKEN "--name a, --gpus 2\n" },
	{ "#SBATCH word -\n", "", "{}", PASSED "word, -\n" },
	/* An index has another name here. */
	{ "#SBATCH -J a\necho $SLURM_ARRAY_TASK_ID\n", "", "{\"name\":\"a\"}",
	  TAKEN
	  "--name a\ntenure: warning: it uses SLURM_ARRAY_TASK_ID, which is not set here; the index is in "
	  "TENURE_ARRAY_INDEX\n" },
	{ "echo $SLURM_ARRAY_TASK_ID\n", "", "{}", "" },
};

static void test_lines(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cleanup_free char *json = NULL;
		char said[4096];

		take(cases[i].script, cases[i].options, &json, said, sizeof(said));
		if (strcmp(json, cases[i].json) != 0)
			fail_msg("%s: %s instead of %s", cases[i].script, json, cases[i].json);
		if (strcmp(said, cases[i].said) != 0)
			fail_msg("%s: said\n%s\ninstead of\n%s", cases[i].script, said,
				 cases[i].said);
	}
}

/* A time is written out whole, and one that has passed is none. */
static void test_begin(void **state)
{
	cleanup_free char *json = NULL, *old = NULL;
	char said[4096];

	take("#SBATCH --begin=2099-01-02T03:04:05\n", "", &json, said, sizeof(said));
	assert_string_equal(json, "{\"begin\":\"2099-01-02T03:04:05.000+01:00\"}");
	assert_string_equal(said, TAKEN "--begin 2099-01-02T03:04:05.000+01:00\n");
	take("#SBATCH -b 2009-01-02\n", "", &old, said, sizeof(said));
	assert_string_equal(old, "{}");
	assert_string_equal(said, PASSED "-b 2009-01-02\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
