/* SPDX-License-Identifier: MIT */
#include "agent/reload.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "agent/ctl.h"
#include "agent/dispatch.h"
#include "agent/helpers.h"
#include "agent/lifecycle.h"
#include "agent/node/guardlink.h"
#include "agent/node/policy.h"
#include "agent/parts.h"
#include "agent/queue/planview.h"
#include "agent/report/eventlog.h"
#include "agent/report/subcommand.h"
#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/nofile.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "task/sweep.h"

#define RUN_LIMIT_MS 30000

struct reload {
	struct agent *a;
	/* While the guard is asked: who waits, or nobody any more, the answer, and what was before.
	 */
	bool asked;
	struct ctl_client *client;
	json_t *answer;
	json_t *given_before;
	struct agent_config before;
	struct view view_before; /* policy and deadlines */
	uv_signal_t hangup;
	struct subcommand_place place;
	struct subcommand *run; /* after SIGHUP */
};

/* What a part has taken at its start and keeps. */
static const bool fixed[SET_MAX] = {
	[SET_INSTANCE] = true,	[SET_ROOT] = true,	   [SET_ACCEPT_OWNERS] = true,
	[SET_TRUST] = true,	[SET_STATE_DIR] = true,	   [SET_RUNTIME_DIR] = true,
	[SET_DEV_DIR] = true,	[SET_NODE_NAME] = true,	   [SET_BEAT] = true,
	[SET_EXPIRE] = true,	[SET_GANG_ADDRESS] = true, [SET_GANG_PORTS] = true,
	[SET_LOG_LEVEL] = true, [SET_WORKLOAD] = true,	   [SET_SWEEP_SPARE] = true,
	[SET_ON_END] = true,
};

bool reload_is_fixed(enum setting_id id)
{
	return fixed[id];
}

/* The smaller one of two limits; 0 is none. */
static uint32_t smaller_limit(uint64_t a, uint64_t b)
{
	return (uint32_t)(!a || (b && b < a) ? b : a);
}

/* Who is to be told when GPUs are free has that written without a setting. */
static uint32_t free_threshold(const struct settings *s, const json_t *helpers)
{
	bool is_set = settings_origin(s, SET_FREE_THRESHOLD)->layer != SETTING_FROM_DEFAULT;
	const json_t *spec;
	bool tells = false;
	size_t i;

	json_array_foreach(helpers, i, spec) tells =
		tells || json_get_flag(spec, HELPER_TELLS_FREE);
	return tells && !is_set ? 1 : (uint32_t)settings_num(s, SET_FREE_THRESHOLD);
}

void reload_take(struct agent_config *c, const struct settings *s, bool serves,
		 const json_t *helpers)
{
	c->workload_grace_ms = settings_num(s, SET_WORKLOAD_GRACE);
	c->stuck_after_ms = settings_num(s, SET_STUCK_AFTER);
	c->ask = settings_flag(s, SET_ASK);
	c->by_uuid = settings_num(s, SET_VISIBLE_DEVICES) != 0;
	c->gang_wait_ms = settings_num(s, SET_GANG_WAIT);
	c->log_limit = settings_num(s, SET_LOG_LIMIT);
	c->on_end_limit_ms = settings_num(s, SET_ON_END_LIMIT);
	c->cpu_tasks = settings_num(s, SET_CPU_TASKS);
	c->sweep = sweep_of_setting((unsigned int)settings_num(s, SET_SWEEP));
	c->lifetime_ms = serves ? settings_num(s, SET_LIFETIME) : 0;
	c->lifetime_stops = settings_num(s, SET_LIFETIME_END) == 1;
	c->notice_ms = settings_num(s, SET_LIFETIME_NOTICE);
	c->on_empty = serves ? (enum on_empty)settings_num(s, SET_ON_EMPTY) : EMPTY_HOLD;
	c->empty_ms = settings_num(s, SET_EMPTY_FOR);
	c->alloc_most =
		smaller_limit(settings_num(s, SET_ALLOC_TOTAL), settings_num(s, SET_ALLOC_MANUAL));
	c->alloc_base = (uint32_t)settings_num(s, SET_ALLOC_BASE);
	c->free_threshold = free_threshold(s, helpers);
}

/* -------- the document -------- */

static int read_value(struct settings *s, const char *key, const json_t *value, struct err *e)
{
	const struct setting *row = setting_find(key);
	const json_t *text = json_array_get(value, 0), *layer = json_array_get(value, 1);
	struct setting_origin from = { .layer = SETTING_FROM_DEFAULT };

	if (!row || !json_is_integer(layer) || (!json_is_null(text) && !json_is_string(text)) ||
	    json_integer_value(layer) < 0 || json_integer_value(layer) >= SETTING_LAYER_MAX)
		return err_set(e, -EINVAL,
			       "the agent does not understand \"%s\": it is of another version; "
			       "tenure off, then tenure on",
			       key);
	from.layer = (enum setting_layer)json_integer_value(layer);
	if (from.layer == SETTING_FROM_DEFAULT || json_is_null(text))
		return 0;
	return settings_set(s, (enum setting_id)(row - setting_row((enum setting_id)0)),
			    json_string_value(text), &from, e);
}

/* 0, and what comes of it; or negative. */
static int read_all(json_t *doc, struct settings *s, struct hold_policy *ret, struct err *e)
{
	json_t *values = json_object_get(doc, "values"), *limit, *value;
	const char *key;
	int r = 0;

	if (!json_is_object(values) || !json_is_boolean(json_object_get(doc, "hold")) ||
	    !json_is_object(json_object_get(doc, "options")))
		return err_set(e, -EINVAL, "the agent was given no settings");
	if (json_get_u64(doc, "for_ms") > VALUE_DURATION_MAX)
		return err_set(e, -ERANGE, "--for: that is more than ten years");
	json_object_foreach(values, key, value)
	{
		if (r == 0)
			r = read_value(s, key, value, e);
	}
	if (r == 0)
		r = settings_check(s, e);
	if (r == 0)
		r = policy_from_settings(s, json_is_true(json_object_get(doc, "hold")), ret, e);
	limit = json_object_get(doc, "site_devices");
	if (r == 0 && json_integer_value(limit) > 0)
		ret->site_devices = (uint32_t)json_integer_value(limit);
	return r == 0 ? policy_check(ret, e) : r;
}

/* -------- what changes -------- */

static const char *text_of(const json_t *doc, const char *key)
{
	const char *text = json_string_value(
		json_array_get(json_object_get(json_object_get(doc, "values"), key), 0));

	return text && text[0] ? text : "none";
}

static void add_change(json_t *to, const char *key, const char *from, const char *now,
		       const char *what)
{
	cleanup_free char *text = xasprintf("%s: %s -> %s%s", key, from, now, what);

	(void)json_array_append_new(to, json_string(text));
}

static const char *hold_word(const json_t *doc)
{
	return json_is_true(json_object_get(doc, "hold")) ? "on" : "off";
}

static const json_t *helper_of(const json_t *doc, const char *name)
{
	json_t *spec;
	size_t i;

	json_array_foreach(json_object_get(doc, "helpers"), i, spec)
	{
		if (strcmp(json_get_str(spec, "name") ? json_get_str(spec, "name") : "", name) == 0)
			return spec;
	}
	return NULL;
}

/* Those that are there now and were not, or the other way round. */
static void compare_helpers(const json_t *before, const json_t *now, json_t *to)
{
	const json_t *const docs[] = { before, now };
	json_t *spec;
	size_t n;

	for (size_t i = 0; i < ARRAY_LEN(docs); i++)
		json_array_foreach(json_object_get(docs[i], "helpers"), n, spec)
		{
			const char *name = json_get_str(spec, "name");

			if (name && !helper_of(docs[!i], name))
				add_change(to, name, i ? "off" : "on", i ? "on" : "off", "");
		}
}

/* {code, changed, fixed} */
static json_t *compare(const json_t *before, const json_t *now)
{
	json_t *changed = json_array(), *stays = json_array(), *value;
	char when[CLOCK_TEXT_MAX], for_how_long[UNIT_TEXT_MAX];
	const char *key;

	if (strcmp(hold_word(before), hold_word(now)) != 0)
		add_change(changed, "hold", hold_word(before), hold_word(now), "");
	json_object_foreach(json_object_get(now, "values"), key, value)
	{
		const char *from = text_of(before, key), *to = text_of(now, key);
		size_t id = (size_t)(setting_find(key) - setting_row((enum setting_id)0));

		if (strcmp(from, to) == 0)
			continue;
		add_change(fixed[id] ? stays : changed, key, from, to,
			   fixed[id] ? ": a running agent cannot change it; tenure off, then "
				       "tenure on"
				     : "");
	}
	compare_helpers(before, now, changed);
	if (json_get_u64(now, "for_ms"))
		add_change(changed, "for", "as before",
			   unit_format_duration(json_get_u64(now, "for_ms"), for_how_long),
			   " from now on");
	if (json_get_u64(now, "until_ns"))
		add_change(changed, "until", "as before",
			   clock_format_local(json_get_u64(now, "until_ns"), when), "");
	return json_pack("{s:i, s:o, s:o}", "code", 0, "changed", changed, "fixed", stays);
}

/* Of what cannot change the agent goes on to say what it goes by. */
static void keep_fixed(json_t *now, const json_t *before)
{
	static const char *const members[] = { "values", "options", "variables" };

	for (int id = 0; id < SET_MAX; id++) {
		const char *key = setting_row((enum setting_id)id)->key;

		for (size_t i = 0; fixed[id] && i < ARRAY_LEN(members); i++) {
			json_t *to = json_object_get(now, members[i]);
			json_t *old = json_object_get(json_object_get(before, members[i]), key);

			if (old)
				(void)json_object_set(to, key, old);
			else if (i) /* a value it always has */
				(void)json_object_del(to, key);
		}
	}
}

/* -------- and is taken -------- */

static void take_deadlines(struct agent *a, const json_t *doc)
{
	uint64_t now = clock_boot_ns(), age = clock_mono_ns() - a->view.started_ns;
	struct deadline all[DEADLINE_MAX];

	deadlines_begin(all, &a->config, now > age ? now - age : 1);
	if (a->config.lifetime_ms != a->reload->before.lifetime_ms ||
	    a->config.notice_ms != a->reload->before.notice_ms ||
	    a->config.lifetime_stops != a->reload->before.lifetime_stops)
		a->view.deadlines[DEADLINE_LIFETIME] = all[DEADLINE_LIFETIME];
	if (json_get_u64(doc, "until_ns")) {
		a->config.until_wall_ns = json_get_u64(doc, "until_ns");
		a->view.deadlines[DEADLINE_UNTIL] = all[DEADLINE_UNTIL];
		a->view.deadlines[DEADLINE_UNTIL].at_ns = a->config.until_wall_ns;
		a->view.until_wall_ns = a->config.until_wall_ns;
	}
	if (json_get_u64(doc, "for_ms")) {
		uint64_t wall = clock_wall_ns();

		a->config.for_ms = json_get_u64(doc, "for_ms");
		deadline_begin_for(a->view.deadlines, &a->config, now);
		a->view.until_wall_ns = wall + a->config.for_ms * NS_PER_MS;
	}
	life_deadlines_changed(a);
}

static void take(struct agent *a, const struct settings *s, const struct hold_policy *policy,
		 const json_t *doc)
{
	reload_take(&a->config, s, a->config.root != NULL, json_object_get(doc, "helpers"));
	a->config.policy = *policy;
	a->view.policy = *policy;
	a->view.cpu_slots = planview_cpu_slots(a->config.cpu_tasks, nofile_soft());
	if (a->config.on_empty != EMPTY_RELEASE)
		a->view.life.released = false;
	take_deadlines(a, doc);
	life_tell_policy(a);
}

/* Once the guard has agreed: what starts at once by another width cannot be taken back. */
static void take_lane_widths(struct agent *a)
{
	const char *key = setting_row(SET_LANE_WIDTH)->key;
	const json_t *value = json_object_get(json_object_get(a->given, "values"), key);
	struct settings *s = settings_new();

	if (a->queue && read_value(s, key, value, NULL) == 0)
		dispatch_lane_widths(a->queue, s);
	s = settings_free(s);
}

static void undo(struct reload *r)
{
	struct agent *a = r->a;

	a->config = r->before;
	a->view.policy = r->view_before.policy;
	a->view.cpu_slots = r->view_before.cpu_slots;
	a->view.until_wall_ns = r->view_before.until_wall_ns;
	a->view.life.released = r->view_before.life.released;
	(void)memcpy(a->view.deadlines, r->view_before.deadlines, sizeof(a->view.deadlines));
	json_decref(r->a->given);
	r->a->given = take_ptr(r->given_before);
	life_deadlines_changed(a);
}

static void say_changes(struct agent *a, const json_t *answer)
{
	static const char *const lists[] = { "changed", "fixed" };
	json_t *text;
	size_t n;

	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		json_array_foreach(json_object_get(answer, lists[i]), n, text)
			eventlog_say(a->eventlog, i ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO,
				     "reload: %s", json_string_value(text));
}

/* Who is told to try again does so at once, and often. */
static json_t *refusal(struct agent *a, int code, const char *why)
{
	if (code != -EAGAIN)
		eventlog_say(a->eventlog, LOG_LEVEL_WARNING,
			     "reload: refused, nothing has changed: %s", why);
	return json_pack("{s:i, s:s}", "code", code, "error", why);
}

static int may_begin(const struct agent *a, struct err *e)
{
	if (!a->given)
		return err_set(e, -ENOTSUP, "this agent was not given its settings");
	if (a->reload->asked)
		return err_set(e, -EBUSY, "another reload is under way; try again");
	if (a->view.life.phase < LIFE_SERVING)
		return err_set(e, -EAGAIN, "the agent starts just now; try again");
	if (a->view.life.phase > LIFE_SERVING)
		return err_set(e, -ESHUTDOWN, "the agent ends just now; nothing has changed");
	if (!a->view.guard_up || guardlink_policy_is_open(a->link))
		return err_set(
			e, -EAGAIN,
			"the guard, which has to agree, does not answer just now; try again");
	return 0;
}

json_t *reload_begin(struct agent *a, struct ctl_client *client, const char *text)
{
	struct reload *r = a->reload;
	struct settings *s = settings_new();
	struct hold_policy policy;
	struct err e = ERR_INIT;
	json_t *doc = json_loads(text ? text : "", JSON_REJECT_DUPLICATES, NULL), *answer = NULL;
	int code = may_begin(a, &e);

	if (code == 0)
		code = read_all(doc, s, &policy, &e);
	if (code < 0) {
		answer = refusal(a, code, e.text);
	} else {
		r->answer = compare(r->a->given, doc);
		keep_fixed(doc, r->a->given);
		r->before = a->config;
		r->view_before = a->view;
		r->given_before = r->a->given;
		r->a->given = json_incref(doc);
		r->asked = true;
		r->client = client;
		take(a, s, &policy, doc);
	}
	json_decref(doc);
	s = settings_free(s);
	return answer;
}

bool reload_on_reply(struct agent *a, int code, const char *text)
{
	struct reload *r = a->reload;
	json_t *answer;

	if (!r->asked)
		return false;
	r->asked = false;
	answer = take_ptr(r->answer);
	if (code < 0) {
		json_decref(answer);
		undo(r);
		answer = refusal(a, code, text);
	} else {
		json_decref(take_ptr(r->given_before));
		helpers_change(a->helpers, a->given);
		take_lane_widths(a);
		say_changes(a, answer);
	}
	if (r->client)
		ctl_answer(take_ptr(r->client), answer);
	else
		json_decref(answer);
	return true;
}

void reload_forget(struct agent *a, const struct ctl_client *client)
{
	if (a->reload->client == client)
		a->reload->client = NULL;
}

static json_t *copy_of(const struct agent *a, const char *member)
{
	json_t *said = json_object_get(a->given, member);

	return said ? json_deep_copy(said) : json_object();
}

json_t *reload_options(const struct agent *a)
{
	return copy_of(a, "options");
}

json_t *reload_variables(const struct agent *a)
{
	return copy_of(a, "variables");
}

static void on_run_over(void *user)
{
	struct reload *r = user;

	r->run = NULL;
}

static void on_hangup(uv_signal_t *handle, int signum)
{
	struct agent *a = ((const struct reload *)handle->data)->a;
	struct text_list words = { .n = 0 };

	if (a->reload->run) /* it reads what there is now, or has just done so */
		return;
	text_list_add(&words, "reload");
	text_list_add(&words, "--instance");
	text_list_add(&words, a->c->instance);
	text_list_add(&words, "--dev-dir");
	text_list_add(&words, a->c->dev_dir);
	a->reload->place = (struct subcommand_place){ .self = &a->self,
						      .loop = &a->loop,
						      .eventlog = a->eventlog };
	a->reload->run =
		subcommand_start(&a->reload->place, &words, RUN_LIMIT_MS, on_run_over, a->reload);
	text_list_clear(&words);
}

struct reload *reload_new(struct agent *a)
{
	struct reload *r = xcalloc(1, sizeof(*r));

	r->a = a;
	(void)uv_signal_init(&a->loop, &r->hangup);
	r->hangup.data = r;
	if (a->c->ignore_hangup)
		(void)uv_signal_start(&r->hangup, on_hangup, SIGHUP);
	if (a->c->given)
		r->a->given = json_loads(a->c->given, 0, NULL);
	return r;
}

static void on_closed(uv_handle_t *h)
{
	struct reload *r = h->data;

	json_decref(r->a->given);
	json_decref(r->given_before);
	json_decref(r->answer);
	free(r);
}

void reload_close(struct agent *a)
{
	struct reload *r = a->reload;

	if (r->run)
		r->run = subcommand_forget(r->run);
	uv_close((uv_handle_t *)&r->hangup, on_closed);
}
