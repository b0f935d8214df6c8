/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unit.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "cli/task/lines.h"
#include "spool/task_text.h"

/* Files with these texts; what they are: "elements: A|B", "tasks: JSON|JSON", or "!" and the error
 * without the file's name. base: JSON of what the options said. */
static char *taken(const char *base, const char *const *texts, size_t n)
{
	struct text_list files = { .n = 0 };
	struct spec_list tasks = { .n = 0 };
	struct task_spec *s = spec_new();
	struct strbuf b = STRBUF_INIT;
	struct err e = ERR_INIT;
	json_t *object = json_loads(base, 0, NULL), *value;
	const char *key;
	int fds[2], r;

	json_object_foreach(object, key, value)
		assert_int_equal(spec_set_json(s, key, value, NULL), 0);
	json_decref(object);
	for (size_t i = 0; i < n; i++) {
		cleanup_free char *path = NULL;

		fds[i] = memfd_create("lines", MFD_CLOEXEC);
		assert_int_equal(fs_write_all(fds[i], texts[i], strlen(texts[i])), 0);
		path = xasprintf("/proc/self/fd/%d", fds[i]);
		text_list_add(&files, path);
	}
	r = lines_take_files(s, &files, &tasks, &e);
	if (r < 0) {
		const char *at = strchr(e.text, ':');

		strbuf_addf(&b, "!%s", at && strncmp(e.text, "/proc/", 6) == 0 ? at + 1 : e.text);
	}
	for (size_t i = 0; r == 0 && i < s->commands.n; i++)
		strbuf_addf(&b, "%s%s", i ? "|" : "elements: ", s->commands.texts[i]);
	for (size_t i = 0; r == 0 && i < tasks.n; i++) {
		json_t *task = spec_json(tasks.specs[i]);

		(void)json_object_del(task, "version");

		cleanup_free char *text = json_dumps(task, JSON_COMPACT);

		strbuf_addf(&b, "%s%s", i ? "|" : "tasks: ", text);
		json_decref(task);
	}
	for (size_t i = 0; i < n; i++)
		(void)close(fds[i]);
	spec_list_clear(&tasks);
	text_list_clear(&files);
	(void)spec_free(s);
	return strbuf_take(&b);
}

static const struct {
	const char *base, *text, *expected;
} cases[] = {
	/* Commands: a line each, without blanks in front, comments and empty lines. */
	{ "{}", "echo a\n\n# no\n  echo b  \n", "elements: echo a|echo b  " },
	{ "{}", "echo a\r\necho b\r\n", "elements: echo a|echo b" },
	{ "{}", "echo a", "elements: echo a" },
	{ "{}", "echo a\rb\n",
	  "!1: a carriage return is inside it; a line ends with LF, or CR LF" },
	{ "{}", "# a\rb\n", "!1: a carriage return is inside it; a line ends with LF, or CR LF" },
	{ "{}", "echo\necho \xff\n",
	  "!2: not UTF-8 text; put it into a file and give that file's path as the command" },
	/* What says no more than what to run is an element, too. */
	{ "{}", "{\"command\":\"echo a\"}\n[\"echo\",\"a b\"]\n", "elements: echo a|'echo' 'a b'" },
	{ "{}", "{\"argv\":[\"echo\",\"$x\"]}\necho b\n", "elements: 'echo' '$x'|echo b" },
	{ "{}", "{ echo a; }\n", "elements: { echo a; }" }, /* a command of the shell */
	{ "{}", "[ -f x ]\n", "elements: [ -f x ]" },
	/* What says more is a task of its own, and so are all then. */
	{ "{\"gpus\":2}", "{\"command\":\"X=1 ./run.sh a\",\"memory\":\"1G\"}\necho b\n",
	  "tasks: {\"name\":\"run.sh\",\"gpus\":2,\"memory\":\"1G\",\"argv\":[\"/bin/sh\",\"-c\",\"X=1 ./run.sh a\"]}|"
	  "{\"name\":\"echo\",\"gpus\":2,\"argv\":[\"/bin/sh\",\"-c\",\"echo b\"]}" },
	{ "{\"name\":\"n\"}", "{\"argv\":[\"a\",\"b\"],\"gpus\":0}\n",
	  "tasks: {\"name\":\"n\",\"gpus\":0,\"argv\":[\"a\",\"b\"]}" },
	{ "{\"env\":[\"A=1\",\"B=2\"]}", "{\"command\":\"x\",\"env\":[\"B=3\",\"C=4\"]}\n",
	  "tasks: {\"name\":\"x\",\"env\":[\"A=1\",\"B=3\",\"C=4\"],\"argv\":[\"/bin/sh\",\"-c\",\"x\"]}" },
	{ "{\"env\":[\"A=1\"]}", "{\"command\":\"x\",\"env\":null}\n",
	  "tasks: {\"name\":\"x\",\"argv\":[\"/bin/sh\",\"-c\",\"x\"]}" },
	/* Errors with their lines. */
	{ "{}", "echo\n{\"command\":}\n", "!2: not JSON: " },
	{ "{}", "{\"command\":\"a\",\"command\":\"b\"}\n", "!1: not JSON: duplicate object key" },
	{ "{}", "{\"comand\":\"a\"}\n", "!1: unknown key \"comand\"; did you mean \"command\"?" },
	{ "{}", "{\"command\":\"a\",\"gpu\":1}\n",
	  "!1: unknown key \"gpu\"; did you mean \"gpus\"?" },
	{ "{}", "{\"command\":\"a\",\"uid\":1}\n", "!1: uid: not for a line to say" },
	{ "{}", "{\"command\":\"a\",\"version\":1}\n", "!1: version: not for a line to say" },
	{ "{}", "{\"command\":\"a\",\"commands\":[\"b\"]}\n",
	  "!1: commands: not for a line to say" },
	{ "{}", "{\"command\":\"a\",\"no-requeue\":true}\n",
	  "!1: unknown key \"no-requeue\"; did you mean \"no_requeue\"?" },
	{ "{}", "{\"command\":\"a\",\"argv\":[\"b\"]}\n",
	  "!1: give one of command, argv and script" },
	{ "{}", "{\"command\":\"\"}\n", "!1: command: must be a text, and not empty" },
	{ "{}", "{\"command\":7,\"gpus\":1}\n", "!1: command: must be a text, and not empty" },
	{ "{}", "[\"a\",7]\n", "!1: argv: word 2 must be a text" },
	{ "{}", "{\"argv\":[]}\n", "!1: argv: it is no list of words, or an empty one" },
	{ "{}", "{\"command\":\"a\",\"gpus\":-1}\n", "!1: gpus: must be a whole number or all" },
	{ "{}", "{\"command\":\"a\",\"name\":\"all\"}\n",
	  "!1: name: \"all\" means every task; take another name" },
	{ "{}", "{\"gpus\":1}\n",
	  "!1: it does not say what to run; give one of command, argv and script" },
	{ "{}", "{\"command\":\"a\",\"begin\":\"at noon\"}\n",
	  "!1: begin: \"at noon\" is not a time; write it like 18:30, +1h30m, tomorrow, \"tomorrow 08:00\"" },
	{ "{}", "{\"command\":\"a\",\"shared\":true}\n",
	  "!1: shared: say with memory how much it needs on a device" },
	{ "{}", "{\"command\":\"a\",\"retry_memory\":2}\n",
	  "!1: retry_memory: say with memory how much it needs at first" },
};

static void test_take(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cleanup_free char *got = taken(cases[i].base, &cases[i].text, 1);

		if (strncmp(got, cases[i].expected, strlen(cases[i].expected)) != 0 ||
		    (got[0] != '!' && strcmp(got, cases[i].expected) != 0))
			fail_msg("%s: %s instead of %s", cases[i].text, got, cases[i].expected);
	}
}

/* A time is said as people do, or with its date, which may have passed. */
static void test_begin(void **state)
{
	static const char *const words[] = { "+1h30m", "tomorrow 08:00", "noon", "now+2m",
					     "2020-01-01T08:00:00Z" };

	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		cleanup_free char *text =
			xasprintf("{\"command\":\"a\",\"begin\":\"%s\"}\n", words[i]);
		const char *const file = text;
		cleanup_free char *got = taken("{}", &file, 1);

		if (!strstr(got, "\"begin\":\"20"))
			fail_msg("%s: %s", words[i], got);
	}
}

static void test_files(void **state)
{
	static const char *const good[] = { "a\n", "b\nc" }, *const empty[] = { "a\n",
										"# nothing\n" };
	static const char *const bad[] = { "a\n", "b\n{\"x\"\n" };
	cleanup_free char *both = taken("{}", good, 2), *none = taken("{}", empty, 2),
			  *wrong = taken("{}", bad, 2);

	assert_string_equal(both, "elements: a|b|c");
	assert_non_null(strstr(none, " has no command in it"));
	assert_true(strncmp(wrong, "!2: not JSON", 12) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_take),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
