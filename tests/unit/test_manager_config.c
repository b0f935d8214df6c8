/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "compat/manager_config.h"

static int parse(const char *text, struct manager_config *ret, struct strbuf *notes, struct err *e)
{
	cleanup_free char *copy = xstrdup(text);

	return manager_config_parse("f.json", copy, strlen(copy), ret, notes, e);
}

/* What the older tool's page has, word by word. */
static void the_example_of_its_page(void **state)
{
	static const char text[] =
		"{\n"
		"  \"monitor_interval\": 5,           // 监控间隔（秒）\n"
		"  \"max_gpus_per_task\": 4,         // 每个任务最大 GPU 数\n"
		"  \"auto_scale\": true,             // 是否启用自动扩展\n"
		"  \"program_template\": {            // 程序启动模板\n"
		"    \"command\": \"python train.py\",\n"
		"    \"args\": [\"--gpus\", \"{gpu_list}\"],\n"
		"    \"env_vars\": {\n"
		"      \"CUDA_VISIBLE_DEVICES\": \"{gpu_list}\"\n"
		"    }\n"
		"  },\n"
		"  \"scaling\": {                     // 扩展配置\n"
		"    \"enabled\": true,\n"
		"    \"min_gpus\": 1,\n"
		"    \"max_gpus\": 8,\n"
		"    \"scale_up_threshold\": 0.85,\n"
		"    \"scale_down_threshold\": 0.25\n"
		"  },\n"
		"  \"notification\": {\"enabled\": true, \"email\": \"a@b.edu\", \"gpu_available_threshold\": 3}\n"
		"}\n";
	struct manager_config c;
	cleanup_strbuf struct strbuf notes = STRBUF_INIT;

	(void)state;
	assert_int_equal(parse(text, &c, &notes, NULL), 0);
	assert_string_equal(strbuf_str(&notes), "");
	assert_true(c.interval_s > 4.9 && c.interval_s < 5.1);
	assert_int_equal(c.max_per_task, 4);
	assert_int_equal(c.max_total, MANAGER_UNSET);
	assert_true(c.auto_scale && c.scaling && c.notify);
	assert_string_equal(c.command, "python train.py");
	assert_int_equal(c.args.n, 2);
	assert_string_equal(c.args.texts[1], "{gpu_list}");
	assert_string_equal(c.env.texts[0], "CUDA_VISIBLE_DEVICES={gpu_list}");
	assert_int_equal(c.max_gpus, 8);
	assert_true(c.up > 0.84 && c.up < 0.86 && c.down > 0.24 && c.down < 0.26);
	assert_string_equal(c.email, "a@b.edu");
	assert_int_equal(c.notify_from, 3);
	manager_config_clear(&c);
}

static void comments_in_odd_places(void **state)
{
	static const struct {
		const char *text, *stripped;
	} cases[] = {
		{ "{}//x", "{}   " },
		{ "\xef\xbb\xbf{}", "   {}" },
		{ "//x\n{}", "   \n{}" },
		{ "{\"a\": \"//no\"}", "{\"a\": \"//no\"}" },
		{ "{\"a\\\"//\": 1}", "{\"a\\\"//\": 1}" },
		{ "{/* a\n b */}", "{    \n     }" },
		{ "{}/* open", "{}       " },
		{ "{\"a\":1/**/}", "{\"a\":1    }" },
		{ "\"\\\\\"//x", "\"\\\\\"   " },
		{ "/", "/" },
		{ "\"open //", "\"open //" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cleanup_free char *text = xstrdup(cases[i].text);

		manager_config_strip(text, strlen(text));
		assert_string_equal(text, cases[i].stripped);
	}
}

static void mistakes_are_named(void **state)
{
	static const struct {
		const char *text, *said;
	} cases[] = {
		{ "", "f.json:1:0: " },
		{ "// nothing but this", "f.json:1:19: " },
		{ "[]", "f.json: it is not an object" },
		{ "{\"monitor_interval\": \"5\"}",
		  "monitor_interval: \"5\" is not a number of seconds" },
		{ "{\"monitor_interval\": 0}", "monitor_interval: 0 is not a number of seconds" },
		{ "{\"monitor_interval\": 1e-9}", "is not a number of seconds, 0.1 to 86400" },
		{ "{\"monitor_interval\": 1e9}", "is not a number of seconds, 0.1 to 86400" },
		{ "{\"max_gpus_per_task\": 2.5}", "max_gpus_per_task: 2.5 is not a whole number" },
		{ "{\"max_total_gpus\": -1}",
		  "max_total_gpus: -1 is not a whole number, 0 to 4096" },
		{ "{\"max_total_gpus\": 100000}",
		  "max_total_gpus: 100000 is not a whole number, 0 to 4096" },
		{ "{\"auto_scale\": \"yes\"}", "auto_scale: \"yes\" is not true or false" },
		{ "{\"scaling\": 3}", "scaling: 3 is not an object" },
		{ "{\"scaling\": {\"scale_up_threshold\": 80}}",
		  "scale_up_threshold: 80 is not a share" },
		{ "{\"program_template\": {\"args\": \"--x\"}}",
		  "args: \"--x\" is not a list of texts" },
		{ "{\"program_template\": {\"args\": [[]]}}", "args: [[]] is not a list of texts" },
		{ "{\"program_template\": {\"env_vars\": {\"A=B\": 1}}}",
		  "is not an object of texts under names of variables" },
		{ "{\"program_template\": {\"env_vars\": {\"A B\": 1}}}", "names of variables" },
		{ "{\"program_template\": {\"command\": \" \"}}",
		  "command: \" \" is not a command" },
		{ "{\"scaling\": {\"min_gpus\": 3, \"max_gpus\": 2}}",
		  "scaling.min_gpus: 3 is more than scaling.max_gpus: 2" },
		{ "{\"scaling\": {\"min_gpus\": 3}, \"max_gpus_per_task\": 2}",
		  "scaling.min_gpus: 3 is more than max_gpus_per_task: 2" },
		{ "{\"scaling\": {\"min_gpus\": 3}, \"max_total_gpus\": 2}",
		  "scaling.min_gpus: 3 is more than max_total_gpus: 2" },
		{ "{\"max_gpus_per_task\": 4, \"max_total_gpus\": 2}",
		  "max_gpus_per_task: 4 is more than max_total_gpus: 2" },
		{ "{\"max_manual_gpus\": 6, \"max_total_gpus\": 2}",
		  "max_manual_gpus: 6 is more than max_total_gpus: 2" },
		{ "{\"max_auto_gpus\": 3, \"max_total_gpus\": 2}",
		  "max_auto_gpus: 3 is more than max_total_gpus: 2" },
		{ "{\"scaling\": {\"scale_up_threshold\": 0.2}}",
		  "has to be below scaling.scale_up_threshold" },
		{ "{\n \"a\": 1,\n \"a\": 2}", "f.json:3:" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cleanup_strbuf struct strbuf notes = STRBUF_INIT;
		struct manager_config c;
		struct err e = ERR_INIT;

		assert_int_equal(parse(cases[i].text, &c, &notes, &e), -EINVAL);
		if (!strstr(e.text, cases[i].said))
			fail_msg("%s: %s", cases[i].text, e.text);
		manager_config_clear(&c);
	}
}

static void unknown_keys_are_told(void **state)
{
	cleanup_strbuf struct strbuf notes = STRBUF_INIT;
	struct manager_config c;

	(void)state;
	assert_int_equal(parse("{\"monitor_intervall\": 5, \"qqq\": {}, \"max_auto_gpus\": 0}", &c,
			       &notes, NULL),
			 0);
	assert_string_equal(strbuf_str(&notes),
			    "unknown key \"monitor_intervall\" is passed over; did you mean "
			    "monitor_interval?\nunknown key \"qqq\" is passed over\n");
	assert_int_equal(c.max_auto, 0);
	manager_config_clear(&c);
}

/* One of them alone lets the others be what they are without it. */
static void what_is_no_contradiction(void **state)
{
	static const char *const texts[] = {
		"{\"max_total_gpus\": 1}",
		"{\"max_gpus_per_task\": 4.0, \"scaling\": {\"max_gpus\": 8}}",
		"{\"max_total_gpus\": 0, \"max_manual_gpus\": 9}",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		cleanup_strbuf struct strbuf notes = STRBUF_INIT;
		struct manager_config c;
		struct err e = ERR_INIT;

		if (parse(texts[i], &c, &notes, &e) < 0)
			fail_msg("%s: %s", texts[i], e.text);
		manager_config_clear(&c);
	}
}

static void other_scalars_are_texts_of_an_environment(void **state)
{
	struct manager_config c;
	cleanup_strbuf struct strbuf notes = STRBUF_INIT;

	(void)state;
	assert_int_equal(
		parse("{\"program_template\": {\"env_vars\": {\"A\": 1, \"B\": true}, \"args\": [2, 0.5]}}",
		      &c, &notes, NULL),
		0);
	assert_string_equal(c.env.texts[0], "A=1");
	assert_string_equal(c.env.texts[1], "B=true");
	assert_string_equal(c.args.texts[0], "2");
	assert_string_equal(c.args.texts[1], "0.5");
	manager_config_clear(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_example_of_its_page),
		cmocka_unit_test(comments_in_odd_places),
		cmocka_unit_test(mistakes_are_named),
		cmocka_unit_test(unknown_keys_are_told),
		cmocka_unit_test(what_is_no_contradiction),
		cmocka_unit_test(other_scalars_are_texts_of_an_environment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
