/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "unit.h"

#include "base/config.h"
#include "base/mem.h"
#include "base/strbuf.h"

static int collect(const struct config_entry *entry, void *user, struct err *e)
{
	struct strbuf *b = user;

	strbuf_addf(b, "%s%s=%s@%d:%d;", entry->key, entry->is_list ? "[]" : "",
		    entry->is_null ? "NULL" : entry->text, entry->value_line, entry->value_column);
	return 0;
}

static const struct {
	const char *text;
	const char *want; /* NULL: it is refused, and error begins so */
	const char *error;
} cases[] = {
	{ "", "" },
	{ "# only a comment\n\n   # and another", "" },
	{ "memory: 38G\nidle_for:   5m # why\n", "memory=38G@1:9;idle_for=5m@2:13;" },
	{ "{\"memory\": \"38G\",\n \"gpus\": [0, 1]}", "memory=38G@1:12;gpus[]=0,1@2:11;" },
	{ "gpus:\n  - 0\n  - GPU-ab\n", "gpus[]=0,GPU-ab@2:5;" },
	{ "gpus: []\n", "gpus[]=@1:1;" },
	{ "a:\nb: ~\nc: \"\"\n", "a=NULL@1:1;b=NULL@2:4;c=@3:4;" },
	{ "a: 1\na: 2\n", NULL, "f:2:1: duplicate key" },
	{ "a: [1\nb: 2\n", NULL, "f:3:1: " },
	{ "a: {b: 1}\n", NULL, "f:1:1: a: a mapping does not belong here" },
	{ "a: [{b: 1}]\n", NULL, "f:1:" },
	{ "a: [\"x y\"]\n", NULL, "f:1:5: \"x y\": an item of a list is one word" },
	{ "a: [[1]]\n", NULL, "f:1:" },
	{ "just words\n", NULL, "f:1:1: this is not a mapping" },
	{ "- 1\n- 2\n", NULL, "f:1:3: this is not a mapping" },
	{ "a: &x 1\nb: *x\n", NULL, "f:2:" },
	{ "\ta: 1\n", NULL, "f:1:" },
	{ "a: 'open\n", NULL, "f:" },
	{ "a: \"x\\0y\"\n", NULL, "f:1:4: " },
	{ "? [x]\n: 1\n", NULL, "f:1:" },
	{ "a: 1\n%YAML 1.2\n", NULL, "f:2:1: directives are not supported" },
	{ "a: 1\nb: \xff\n", NULL, "f:2:4: this is not text: byte 0xff" },
	{ "a: \xc3\xa4 \x01\n", NULL, "f:1:6: this is not text: byte 0x01" },
	{ "a: \xed\xa0\x80\n", NULL, "f:1:4: this is not text: byte 0xed" },
	{ "a: \xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\r\n",
	  "a=\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80@1:4;" },
	{ "{\"a\": 1,}}", NULL, "f:1:" },
};

static void test_cases(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cleanup_strbuf struct strbuf b = STRBUF_INIT;
		struct err e = ERR_INIT;
		int r = config_parse("f", cases[i].text, strlen(cases[i].text), collect, &b, &e);

		if (cases[i].want) {
			if (r != 0 || strcmp(strbuf_str(&b), cases[i].want) != 0)
				fail_msg("%s gave %d, %s, %s", cases[i].text, r, strbuf_str(&b),
					 e.text);
		} else if (r != -EINVAL ||
			   strncmp(e.text, cases[i].error, strlen(cases[i].error))) {
			fail_msg("%s gave %d, %s, %s", cases[i].text, r, strbuf_str(&b), e.text);
		}
	}
}

static int stop(const struct config_entry *entry, void *user, struct err *e)
{
	(void)err_set(e, -ERANGE, "no");
	return config_at_key(entry, e);
}

static void test_caller_stops(void **state)
{
	struct err e = ERR_INIT;

	assert_int_equal(config_parse("f", "\n  a: 1\n", 8, stop, NULL, &e), -ERANGE);
	assert_string_equal(e.text, "f:2:3: no");
}

static void test_files(void **state)
{
	struct err e = ERR_INIT;
	cleanup_free char *big = xmalloc(CONFIG_SIZE_MAX + 1);
	char path[] = "/tmp/tenure-test-XXXXXX";
	cleanup_fd int fd = mkstemp(path);
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	assert_int_equal(config_read("/nowhere/x.yaml", collect, &b, &e), -ENOENT);
	assert_int_equal(config_read("/proc", collect, &b, &e), -EISDIR);
	assert_true(fd >= 0);
	(void)memset(big, '#', CONFIG_SIZE_MAX + 1);
	assert_int_equal(write(fd, big, CONFIG_SIZE_MAX + 1), CONFIG_SIZE_MAX + 1);
	assert_int_equal(config_read(path, collect, &b, &e), -EFBIG);
	(void)unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cases),
		cmocka_unit_test(test_caller_stops),
		cmocka_unit_test(test_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
