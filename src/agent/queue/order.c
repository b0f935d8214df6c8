/* SPDX-License-Identifier: MIT */
#include "agent/queue/order.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/enumstr.h"
#include "base/mem.h"
#include "base/str.h"
#include "spool/name.h"

static const char *const commands[] = {
	[ORDER_STOP] = "stop",
	[ORDER_WHY] = "why",
	[ORDER_SHUTDOWN] = "shutdown",
	[ORDER_BURN] = "burn",
};
_Static_assert(ARRAY_LEN(commands) == ORDER_COMMAND_MAX, "a word for every command");

static const char *const hows[] = {
	[ORDER_RUN_ON] = "run_on",
	[ORDER_DRAIN] = "drain",
	[ORDER_STOP_TASKS] = "stop_tasks",
};
_Static_assert(ARRAY_LEN(hows) == ORDER_HOW_MAX, "a word for every way to end");

static const char *const sweeps[] = {
	[SPEC_CLEAN_NONE] = "none",
	[SPEC_CLEAN_GPU] = "gpu",
	[SPEC_CLEAN_PYTHON] = "python",
};
_Static_assert(ARRAY_LEN(sweeps) == SPEC_CLEAN_MAX, "a word for every sweep");

static int word_of(const json_t *value, const char *const *names, size_t n, unsigned int *ret,
		   struct err *e)
{
	const char *word = json_string_value(value);

	return word ? enum_parse(names, n, word, ret, e) : err_set(e, -EINVAL, "a word is wanted");
}

static int read_command(const json_t *value, struct order *o, struct err *e)
{
	unsigned int n;
	int r = word_of(value, commands, ARRAY_LEN(commands), &n, e);

	if (r == 0)
		o->command = (enum order_command)n;
	return r;
}

static int read_how(const json_t *value, struct order *o, struct err *e)
{
	unsigned int n;
	int r = word_of(value, hows, ARRAY_LEN(hows), &n, e);

	if (r == 0)
		o->how = (enum order_how)n;
	return r;
}

static int read_sweep(const json_t *value, struct order *o, struct err *e)
{
	unsigned int n;
	int r = word_of(value, sweeps, ARRAY_LEN(sweeps), &n, e);

	if (r == 0)
		o->sweep = (enum spec_clean)n;
	return r;
}

static int read_now(const json_t *value, struct order *o, struct err *e)
{
	if (!json_is_boolean(value))
		return err_set(e, -EINVAL, "true or false is wanted");
	o->now = json_is_true(value);
	return 0;
}

static int read_tasks(const json_t *value, struct order *o, struct err *e)
{
	size_t n = json_array_size(value);

	if (!json_is_array(value) || !n || n > ORDER_TASKS_MAX)
		return err_set(e, -EINVAL, "a list of 1 to %d ids is wanted", ORDER_TASKS_MAX);
	o->tasks = xcalloc(n, sizeof(*o->tasks));
	for (; o->n < n; o->n++) {
		const char *word = json_string_value(json_array_get(value, o->n));
		struct order_task *t = &o->tasks[o->n];

		if (!word || ident_parse_id(word, &t->id, &t->element) < 0 ||
		    t->element > SPEC_ELEMENTS_MAX)
			return err_set(e, -EINVAL, "\"%.40s\" is no id", word ? word : "?");
	}
	return 0;
}

static int read_burn(const json_t *value, struct order *o, struct err *e)
{
	const char *name = json_string_value(value);

	if (!name || !ident_is_name(name))
		return err_set(e, -EINVAL, "a name is wanted");
	(void)str_copy(o->burn, sizeof(o->burn), name);
	return 0;
}

static int read_for(const json_t *value, struct order *o, struct err *e)
{
	json_int_t ms = json_integer_value(value);

	if (ms < 1 || (uint64_t)ms > ORDER_FOR_MAX_MS)
		return err_set(e, -EINVAL, "milliseconds of at most 30 days are wanted");
	o->for_ms = (uint64_t)ms;
	return 0;
}

static int read_options(const json_t *value, struct order *o, struct err *e)
{
	const json_t *option;
	size_t i;

	if (!json_is_array(value) || json_array_size(value) > ORDER_OPTIONS_MAX)
		return err_set(e, -EINVAL, "a list of at most %d is wanted", ORDER_OPTIONS_MAX);
	json_array_foreach(value, i, option)
	{
		const char *text = json_string_value(option);

		if (!text || !str_has_prefix(text, "--") || !text[2] ||
		    strlen(text) > ORDER_OPTION_MAX)
			return err_set(e, -EINVAL, "\"%.40s\" is no option", text ? text : "?");
		text_list_add(&o->options, text);
	}
	return 0;
}

#define IN(command) (1u << (command))

static const struct {
	const char *key;
	int (*read)(const json_t *value, struct order *o, struct err *e);
	unsigned int of; /* IN() of the commands that it belongs to */
} keys[] = {
	{ "command", read_command, ~0u },
	{ "tasks", read_tasks, IN(ORDER_STOP) | IN(ORDER_WHY) },
	{ "now", read_now, IN(ORDER_STOP) },
	{ "sweep", read_sweep, IN(ORDER_STOP) },
	{ "how", read_how, IN(ORDER_SHUTDOWN) },
	{ "burn", read_burn, IN(ORDER_BURN) },
	{ "for_ms", read_for, IN(ORDER_BURN) },
	{ "options", read_options, IN(ORDER_BURN) },
};

static int read_key(const char *key, const json_t *value, struct order *o, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (strcmp(keys[i].key, key) == 0 && keys[i].of & IN(o->command)) {
			int r = keys[i].read(value, o, e);

			return r < 0 ? err_wrap(e, "%s", key) : 0;
		}
	return err_set(e, -EINVAL, "\"%.40s\" is no key of the order %s", key,
		       commands[o->command]);
}

/* A list of tasks where there has to be one. */
static int check(const struct order *o, struct err *e)
{
	if (o->command == ORDER_BURN && (!o->burn[0] || !o->for_ms))
		return err_set(e, -EINVAL, "burn needs a name (burn) and a time (for_ms)");
	if (!o->n && (o->command == ORDER_STOP || o->command == ORDER_WHY))
		return err_set(e, -EINVAL, "%s needs tasks", commands[o->command]);
	if (o->n > 1 && o->command == ORDER_WHY)
		return err_set(e, -EINVAL, "tasks: why is about one");
	return 0;
}

int order_read(const json_t *doc, struct order *ret, struct err *e)
{
	struct order o = { .sweep = SPEC_CLEAN_NONE };
	const json_t *command = json_object_get(doc, "command");
	const char *key;
	json_t *value;
	int r = command ? read_command(command, &o, e) : err_set(e, -EINVAL, "it has no command");

	if (r < 0 && command)
		r = err_wrap(e, "command");
	if (r == 0)
		json_object_foreach((json_t *)(uintptr_t)doc, key, value)
		{
			if (r == 0)
				r = read_key(key, value, &o, e);
		}
	if (r == 0)
		r = check(&o, e);
	if (r < 0) {
		order_clear(&o);
		return r;
	}
	*ret = o;
	return 0;
}

char *order_format_task(const struct order_task *t, char buf[ORDER_ID_MAX])
{
	if (t->element)
		return str_print(buf, ORDER_ID_MAX, "%" PRIu64 ".%" PRIu64, t->id, t->element);
	return str_print(buf, ORDER_ID_MAX, "%" PRIu64, t->id);
}

static void add_burn(const struct order *o, json_t *doc)
{
	json_t *options = json_array();

	for (size_t i = 0; i < o->options.n; i++)
		(void)json_array_append_new(options, json_string(o->options.texts[i]));
	(void)json_object_set_new(doc, "burn", json_string(o->burn));
	(void)json_object_set_new(doc, "for_ms", json_integer((json_int_t)o->for_ms));
	(void)json_object_set_new(doc, "options", options);
}

json_t *order_json(const struct order *o)
{
	json_t *doc = json_pack("{s:s}", "command", commands[o->command]);
	json_t *tasks = json_array();
	char id[ORDER_ID_MAX];

	for (size_t i = 0; i < o->n; i++)
		(void)json_array_append_new(tasks,
					    json_string(order_format_task(&o->tasks[i], id)));
	if (o->n)
		(void)json_object_set(doc, "tasks", tasks);
	json_decref(tasks);
	if (o->command == ORDER_STOP && o->now)
		(void)json_object_set_new(doc, "now", json_true());
	if (o->command == ORDER_STOP && o->sweep != SPEC_CLEAN_NONE)
		(void)json_object_set_new(doc, "sweep", json_string(sweeps[o->sweep]));
	if (o->command == ORDER_SHUTDOWN && o->how != ORDER_RUN_ON)
		(void)json_object_set_new(doc, "how", json_string(hows[o->how]));
	if (o->command == ORDER_BURN)
		add_burn(o, doc);
	return doc;
}

void order_clear(struct order *o)
{
	free(take_ptr(o->tasks));
	o->n = 0;
	text_list_clear(&o->options);
}

int order_take(const json_t *doc, void *ret, struct err *e)
{
	return order_read(doc, ret, e);
}

/* ---- control.json ---- */

/* A word of a table under a key; without it *ret stays. */
static int read_word(const json_t *doc, const char *key, const char *const *names, size_t n,
		     unsigned int *ret, struct err *e)
{
	const json_t *value = json_object_get(doc, key);
	const char *word = json_string_value(value);

	if (!value)
		return 0;
	return enum_parse(names, n, word ? word : "", ret, e) < 0 ? err_wrap(e, "%s", key) : 0;
}

int control_order_read(const json_t *doc, void *data, struct err *e)
{
	struct control_order *ret = data;
	static const char *const file_commands[] = {
		[CONTROL_STOP] = "stop",
		[CONTROL_STOP_ALL] = "stop_all",
		[CONTROL_SHUTDOWN] = "shutdown",
	};
	const char *task = json_string_value(json_object_get(doc, "task"));
	unsigned int command = CONTROL_COMMAND_MAX, sweep = SPEC_CLEAN_MAX;
	int r = read_word(doc, "command", file_commands, ARRAY_LEN(file_commands), &command, e);

	if (r == 0)
		r = read_word(doc, "sweep", sweeps, ARRAY_LEN(sweeps), &sweep, e);
	if (r == 0 && command == CONTROL_COMMAND_MAX)
		r = err_set(e, -EINVAL, "it has no command");
	if (r == 0 && command == CONTROL_STOP && !task)
		r = err_set(e, -EINVAL, "stop needs a task");
	if (r == 0 && ret)
		*ret = (struct control_order){
			.command = (enum control_command)command,
			.task = command == CONTROL_STOP ? xstrdup(task) : NULL,
			.sweep = (enum spec_clean)sweep,
		};
	return r;
}
