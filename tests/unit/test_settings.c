/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/settings.h"

/* Files of one test: written before, removed after. NULL content: the file does not exist. */
struct layers {
	const char *site, *user, *instance;
	const char *env_name, *env_value;
	const char *option; /* of `memory` or, with a "load=" in front, of `load` */
};

static char dir[] = "/tmp/tenure-test-XXXXXX";

static char *write_layer(const char *name, const char *content)
{
	char *path = xasprintf("%s/%s", dir, name);

	if (content)
		assert_int_equal(fs_write_atomic(path, content, strlen(content), 0600, NULL), 0);
	else
		(void)unlink(path);
	return path;
}

static int set_option(struct settings *s, const char *option, struct err *e)
{
	static const struct setting_origin origin = { .layer = SETTING_FROM_COMMAND_LINE };

	if (!option)
		return 0;
	if (strncmp(option, "load=", 5) == 0)
		return settings_set(s, SET_LOAD, option + 5, &origin, e);
	return settings_set(s, SET_MEMORY, option, &origin, e);
}

static int load(struct settings *s, const struct layers *l, struct err *e)
{
	cleanup_free char *site = write_layer("site.yaml", l->site);
	cleanup_free char *user = write_layer("user.yaml", l->user);
	cleanup_free char *instance = write_layer("instance.yaml", l->instance);
	struct settings_files files = { site, user, instance };

	if (l->env_name)
		(void)setenv(l->env_name, l->env_value, 1);

	int r = set_option(s, l->option, e);

	if (r == 0)
		r = settings_load(s, &files, e);
	if (l->env_name)
		(void)unsetenv(l->env_name);
	return r;
}

static const struct {
	struct layers layers;
	const char *memory;
	const char *origin; /* the end of the text */
} order[] = {
	{ { 0 }, "88%", "default" },
	{ { .site = "memory: 1G\n" }, "1G", "site.yaml:1" },
	{ { .site = "memory: 1G\n", .user = "# x\nmemory: 2G\n" }, "2G", "user.yaml:2" },
	{ { .user = "memory: 2G\n", .instance = "memory: 3G\n" }, "3G", "instance.yaml:1" },
	{ { .instance = "memory: 3G\n", .env_name = "TENURE_MEMORY", .env_value = "4G" },
	  "4G",
	  "environment TENURE_MEMORY" },
	{ { .instance = "memory: 3G\n", .env_name = "TENURE_MEMORY", .env_value = "" },
	  "3G",
	  "instance.yaml:1" },
	{ { .site = "memory: 1G\n",
	    .env_name = "TENURE_MEMORY",
	    .env_value = "4G",
	    .option = "5G" },
	  "5G",
	  "command line --memory" },
};

static void test_order(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(order); i++) {
		struct settings *s = settings_new();
		struct err e = ERR_INIT;

		if (load(s, &order[i].layers, &e) < 0)
			fail_msg("case %zu: %s", i, e.text);

		cleanup_free char *memory = value_format(&setting_row(SET_MEMORY)->opt.spec,
							 settings_value(s, SET_MEMORY));
		cleanup_free char *origin = settings_origin_text(s, SET_MEMORY);
		size_t a = strlen(origin), b = strlen(order[i].origin);

		assert_string_equal(memory, order[i].memory);
		assert_true(a >= b);
		assert_string_equal(origin + a - b, order[i].origin);
		(void)settings_free(s);
	}
}

static const struct {
	struct layers layers;
	int r;
	const char *error;
} bad[] = {
	{ { .user = "gpus: all\nmemroy: 2G\n" },
	  -EINVAL,
	  "user.yaml:2:1: unknown key \"memroy\"; did you mean memory?" },
	{ { .user = "memory: 38\n" }, -EINVAL, "user.yaml:1:9: memory: \"38\" has no unit" },
	{ { .user = "together: 5\n" }, -EINVAL, "user.yaml:1:11: together: \"5\" is neither" },
	{ { .user = "memory: [1G]\n" }, -EINVAL, "memory: a list does not belong here" },
	{ { .user = "memory:\n" }, -EINVAL, "memory: has no value; write an amount" },
	{ { .user = "allow_users: [me]\n" }, -EINVAL, "only the site's config can set this" },
	{ { .instance = "instance: x\n" }, -EINVAL, "an instance's config cannot set this" },
	{ { .env_name = "TENURE_IDLE_FOR", .env_value = "5" },
	  -EINVAL,
	  "TENURE_IDLE_FOR: \"5\" has no unit; did you mean 5m?" },
	{ { .env_name = "TENURE_ALLOW_USERS", .env_value = "me" }, -EINVAL, "only the site's" },
	{ { .option = "12" }, -EINVAL, "--memory: \"12\" has no unit" },
	/* Set by a higher layer: the lower one is checked all the same. */
	{ { .user = "memory: 38\n", .option = "5G" }, -EINVAL, "has no unit" },
	{ { .site = "load: sm\n", .option = "load=gemm" },
	  -EPERM,
	  "load: gemm (command line --load) is more than this site allows: sm (" },
	{ { .site = "max_devices: 2\n", .env_name = "TENURE_MAX_DEVICES", .env_value = "3" },
	  -EPERM,
	  "max_devices: 3 (environment TENURE_MAX_DEVICES) is more than this site allows: 2" },
	{ { .site = "max_devices: 2\n", .env_name = "TENURE_MAX_DEVICES", .env_value = "0" },
	  -EPERM,
	  "more than this site allows" },
};

static void test_errors(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct settings *s = settings_new();
		struct err e = ERR_INIT;
		int r = load(s, &bad[i].layers, &e);

		if (r != bad[i].r || !strstr(e.text, bad[i].error))
			fail_msg("case %zu gave %d: %s", i, r, e.text);
		(void)settings_free(s);
	}
}

static void test_limits(void **state)
{
	static const struct layers over = {
		.site = "load: light\nmax_devices: 2\n",
		.user = "load: gemm\nmax_devices: 4\n",
	};
	static const struct layers under = {
		.site = "load: sm\nmax_devices: 4\n",
		.user = "load: none\nmax_devices: 1\n",
	};
	struct settings *s = settings_new();
	struct err e = ERR_INIT;

	assert_int_equal(load(s, &over, &e), 0);
	assert_int_equal(settings_num(s, SET_LOAD), 1);
	assert_int_equal(settings_num(s, SET_MAX_DEVICES), 2);
	assert_int_equal(settings_origin(s, SET_LOAD)->layer, SETTING_FROM_SITE);
	assert_non_null(strstr(settings_notes(s), "was lowered to this site's limit, light"));
	(void)settings_free(s);

	s = settings_new();
	assert_int_equal(load(s, &under, &e), 0);
	assert_int_equal(settings_num(s, SET_LOAD), 0);
	assert_int_equal(settings_num(s, SET_MAX_DEVICES), 1);
	assert_string_equal(settings_notes(s), "");
	(void)settings_free(s);
}

static void test_limit_below_default(void **state)
{
	static const struct layers l = { .site = "load: none\n" };
	struct settings *s = settings_new();

	assert_int_equal(load(s, &l, NULL), 0);
	assert_int_equal(settings_num(s, SET_LOAD), 0);
	(void)settings_free(s);
}

static void check_user(const char *site, int want)
{
	struct layers l = { .site = site };
	struct settings *s = settings_new();
	struct err e = ERR_INIT;

	assert_int_equal(load(s, &l, &e), 0);
	assert_int_equal(settings_check_user(s, &e), want);
	assert_true(want == 0 || strstr(e.text, "site.yaml:1"));
	(void)settings_free(s);
}

static void test_allow_users(void **state)
{
	const struct passwd *pw = getpwuid(getuid());
	cleanup_free char *me = xasprintf("allow_users: [x, %s]\n", pw ? pw->pw_name : "root");

	check_user(NULL, 0);
	check_user("allow_users: []\n", 0);
	check_user("allow_users: [nobody-here, \"@no-such-group\"]\n", -EPERM);
	if (pw)
		check_user(me, 0);
}

static void test_unreadable(void **state)
{
	struct settings_files files = { "/nowhere/a", dir, "/nowhere/b" };
	struct settings *s = settings_new();
	struct err e = ERR_INIT;

	assert_int_equal(settings_load(s, &files, &e), -EISDIR);
	assert_non_null(strstr(e.text, dir));
	(void)settings_free(s);
}

/* A directory of device nodes has one name, however it is written. */
static void test_real_dir(void **state)
{
	static const struct setting_origin here = { .layer = SETTING_FROM_COMMAND_LINE };
	static const struct {
		const char *given, *taken;
	} cases[] = {
		{ "/dev", "/dev" },
		{ "/dev/.", "/dev" },
		{ "//dev//", "/dev" },
		{ "/proc/../dev", "/dev" },
		{ "/proc/self/root/dev", "/dev" },
		{ "/nowhere/./dev", "/nowhere/./dev" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct settings *s = settings_new();
		struct err e = ERR_INIT;

		assert_int_equal(settings_set(s, SET_DEV_DIR, cases[i].given, &here, &e), 0);
		assert_string_equal(settings_str(s, SET_DEV_DIR), cases[i].taken);
		(void)settings_free(s);
	}
}

/* What is not needed may be wrong: it is told, and what is right beside it counts. */
static void test_needed(void **state)
{
	static const struct {
		struct layers layers;
		int r;
		const char *fault, *instance;
	} cases[] = {
		{ { .user = "memory: 38\ninstance: night\nidle_forr: 1\n" },
		  0,
		  ":1:9: memory",
		  "night" },
		{ { .user = "instance: night\nmemory: 'x\n" },
		  0,
		  "that file does not count",
		  "default" },
		{ { .user = "instance: a/b\n" }, -EINVAL, "", "default" },
		{ { .env_name = "TENURE_MEMORY", .env_value = "abc" },
		  0,
		  "TENURE_MEMORY",
		  "default" },
		{ { .env_name = "TENURE_DEV_DIR", .env_value = "dev" }, -EINVAL, "", "default" },
		{ { .env_name = "TENURE_LOAD", .env_value = "gemm", .site = "load: none\n" },
		  0,
		  "",
		  "default" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct settings *s = settings_new();
		struct err e = ERR_INIT;

		settings_need(s, SETTING_GROUP_AGENT);
		assert_int_equal(load(s, &cases[i].layers, &e), cases[i].r);
		assert_non_null(strstr(settings_faults(s), cases[i].fault));
		assert_int_equal(!settings_faults(s)[0], !cases[i].fault[0]);
		assert_string_equal(settings_str(s, SET_INSTANCE), cases[i].instance);
		(void)settings_free(s);
	}
}

static void test_util_band(void **state)
{
	static const struct {
		const char *user;
		unsigned int low, floor, ceiling;
	} cases[] = {
		{ "", 50, 70, 85 },
		{ "util: 80\n", 50, 70, 85 },
		{ "util: 30\n", 5, 25, 40 },
		{ "util: 97\n", 72, 92, 100 },
		{ "util: 30\nutil_band: 20,28,60\n", 20, 28, 60 },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct layers l = { .user = cases[i].user };
		struct settings *s = settings_new();

		assert_int_equal(load(s, &l, NULL), 0);

		struct util_band band = settings_util_band(s);

		assert_int_equal(band.low, cases[i].low);
		assert_int_equal(band.floor, cases[i].floor);
		assert_int_equal(band.ceiling, cases[i].ceiling);
		(void)settings_free(s);
	}
}

static const struct {
	const char *user, *instance;
	const char *error; /* NULL: fine */
} together[] = {
	{ "work: 30m\n", NULL, "work: 30m (user config" },
	{ "work: 30m\n", NULL, "does nothing without rest; set that, too, like rest: 5m" },
	{ "rest: 5m\n", NULL, "does nothing without work" },
	{ "work: 30m\n", "rest: 5m\n", NULL },
	{ "work: 30m\nrest: 0\n", NULL, NULL },
	{ "work: 30m\nrest: 5m\n", "work: 0\n", NULL },
	{ "work: 0\nrest: 5m\n", NULL, "rest: 5m (user config" },
	{ "work: 0\nrest: 5m\n", NULL, "does nothing with work: 0 (user config" },
	{ "work: 0\n", "rest: 5m\n", "does nothing with work: 0 (user config" },
	{ "work: 0\nrest: 0\n", NULL, NULL },
	{ "util: 20\nutil_band: 50,70,85\n", NULL, "util: 20 (user config" },
	{ "util: 90\nutil_band: 50,70,85\n", NULL, "is outside of util_band, 50,70,85" },
	{ "util: 60\nutil_band: 50,70,85\n", NULL, "which is right from 70 to 85" },
	{ "util: 70\nutil_band: 50,70,85\n", NULL, NULL },
	{ "util: 85\nutil_band: 50,70,85\n", NULL, NULL },
	{ "util: 60\n", NULL, NULL },			 /* the default band moves along */
	{ "util_band: 10,20,30\n", "util: 90\n", NULL }, /* it moves along */
	{ "util: 90\n", "util_band: 10,20,30\n", "is outside of util_band" },
	{ "util_band: 10,20,30\n", NULL, NULL },
	{ "gang_ports: 1024-65535\n", NULL, NULL },
	{ "gang_ports: 4000-4000\n", NULL, NULL },
	{ "gang_ports: 1023-2000\n", NULL, "gang_ports: \"1023-2000\" (user config" },
	{ "gang_ports: 4000-65536\n", NULL, "is no range of ports, like 20000-29999" },
	{ "gang_ports: 5000-4000\n", NULL, "is no range of ports, like 20000-29999" },
	{ "gang_ports: any\n", NULL, "is no range of ports, like 20000-29999" },
};

static void test_together(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(together); i++) {
		struct layers l = { .user = together[i].user, .instance = together[i].instance };
		struct settings *s = settings_new();
		struct err e = ERR_INIT;
		int want = together[i].error ? -EINVAL : 0;

		assert_int_equal(load(s, &l, NULL), 0);
		if (settings_check(s, &e) != want ||
		    (together[i].error && !strstr(e.text, together[i].error)))
			fail_msg("case %zu: %s", i, e.text);
		(void)settings_free(s);

		/* The file alone is checked by the same rules. */
		if (together[i].instance)
			continue;

		cleanup_free char *path = write_layer("user.yaml", together[i].user);

		cleanup_strbuf struct strbuf faults = STRBUF_INIT;

		assert_int_equal(settings_check_file(path, SETTING_FROM_USER, NULL, &faults), want);
		assert_int_equal(faults.len != 0, want != 0);
	}
}

static void test_gang_ports(void **state)
{
	struct layers set = { .user = "gang_ports: 4000-4009\n" },
		      low = { .user = "gang_ports: 1-2\n" };
	const struct {
		const struct layers *l;
		unsigned int first, last;
	} cases[] = { { &(struct layers){ .user = NULL }, 20000, 29999 },
		      { &set, 4000, 4009 },
		      { &low, 20000, 29999 } };

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct settings *s = settings_new();
		unsigned int first, last;

		assert_int_equal(load(s, cases[i].l, NULL), 0);
		settings_gang_ports(s, &first, &last);
		assert_int_equal(first, cases[i].first);
		assert_int_equal(last, cases[i].last);
		(void)settings_free(s);
	}
}

static void test_unknown_variables(void **state)
{
	struct strbuf notes = STRBUF_INIT;

	(void)setenv("TENURE_MEMROY", "38G", 1);
	(void)setenv("TENURE_XYZZY", "1", 1);
	(void)setenv("TENURE_MEMORY", "38G", 1);
	(void)setenv("TENURE_SIM_NODES", "/x", 1);
	(void)setenv("TENURED", "yes", 1);
	settings_environment_notes(&notes);
	assert_non_null(strstr(strbuf_str(&notes),
			       "TENURE_MEMROY in the environment is no setting "
			       "and does nothing; did you mean TENURE_MEMORY?"));
	assert_non_null(strstr(strbuf_str(&notes), "TENURE_XYZZY in the environment is no setting "
						   "and does nothing; `tenure config show`"));
	assert_null(strstr(strbuf_str(&notes), "SIM_NODES"));
	assert_null(strstr(strbuf_str(&notes), "TENURED"));
	assert_null(strstr(strbuf_str(&notes), "TENURE_MEMORY in"));
	(void)unsetenv("TENURE_MEMROY");
	(void)unsetenv("TENURE_XYZZY");
	(void)unsetenv("TENURE_MEMORY");
	(void)unsetenv("TENURE_SIM_NODES");
	(void)unsetenv("TENURED");
	strbuf_clear(&notes);
}

static int make_dir(void **state)
{
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	static const char *const names[] = { "site.yaml", "user.yaml", "instance.yaml" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		free(write_layer(names[i], NULL));
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),	    cmocka_unit_test(test_errors),
		cmocka_unit_test(test_limits),	    cmocka_unit_test(test_limit_below_default),
		cmocka_unit_test(test_allow_users), cmocka_unit_test(test_unreadable),
		cmocka_unit_test(test_needed),	    cmocka_unit_test(test_real_dir),
		cmocka_unit_test(test_util_band),   cmocka_unit_test(test_together),
		cmocka_unit_test(test_gang_ports),  cmocka_unit_test(test_unknown_variables),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
