/* SPDX-License-Identifier: MIT */
#include "agent/report/eventlog.h"

#include <string.h>

#include "agent/report/sentence.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/utf8.h"

#define WAITING_MAX EVENT_RING /* more than that is told without names */

struct waiting {
	struct waiting *next;
	uint64_t deadline_ns;
	struct guard_event event;
};

struct eventlog {
	struct eventlog_config c;
	uint64_t states_from_ns;
	uv_timer_t timer;
	struct waiting *first, **last;
	size_t n_waiting;
};

static void tell_due(struct eventlog *n);

static void on_timer(uv_timer_t *timer)
{
	tell_due(timer->data);
}

struct eventlog *eventlog_new(uv_loop_t *loop, const struct eventlog_config *config)
{
	struct eventlog *n = xcalloc(1, sizeof(*n));

	n->c = *config;
	n->last = &n->first;
	(void)uv_timer_init(loop, &n->timer);
	n->timer.data = n;
	return n;
}

/* "14:02:11" of the local day; the log has the date. */
static const char *time_of_day(uint64_t wall_ns, char *buf)
{
	return strchr(clock_format_local(wall_ns, buf), ' ') + 1;
}

static void show_sentence(struct eventlog *n, uint64_t wall_ns, const char *line)
{
	char time[CLOCK_TEXT_MAX];
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	strbuf_addf(&b, "%s  %s", time_of_day(wall_ns, time), line);
	agentlog_show(n->c.agentlog, strbuf_str(&b));
}

static void show_json(struct eventlog *n, const json_t *o)
{
	cleanup_free char *text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(12));

	if (text)
		agentlog_show(n->c.agentlog, text);
}

static int32_t mig_of(const struct eventlog *n, const struct guard_event *ev)
{
	const struct view *v = n->c.view;

	if (ev->slot < 0 || (uint32_t)ev->slot >= v->n_slots || !v->seen[ev->slot])
		return -1;
	return v->devices[ev->slot].mig;
}

static void keep_yield(struct view *v, const struct guard_event *ev, int32_t mig, const char *line)
{
	struct view_yield *y = &v->yields[v->n_yields++ % VIEW_YIELDS];

	y->event = *ev;
	y->mig = mig;
	(void)str_copy(y->line, sizeof(y->line), line);
}

static enum log_level level_of(uint32_t kind)
{
	if (!sentence_is_news(kind))
		return LOG_LEVEL_DEBUG;
	return kind == EVENT_BLIND || kind == EVENT_FAILED || kind == EVENT_LOST ? LOG_LEVEL_WARNING
										 : LOG_LEVEL_INFO;
}

static void tell(struct eventlog *n, struct guard_event *ev)
{
	int32_t mig = mig_of(n, ev);
	struct guard_event named = *ev;
	cleanup_strbuf struct strbuf line = STRBUF_INIT;

	(void)users_put_names(n->c.users, ev->text, named.text, sizeof(named.text));
	(void)users_put_names(n->c.users, ev->user, named.user, sizeof(named.user));
	sentence_event(&named, mig, &n->c.view->policy, &line);

	json_t *o = sentence_event_json(&named, mig, n->c.view->guard.pid, strbuf_str(&line));

	agentlog_log(n->c.agentlog, level_of(ev->kind), "%s", strbuf_str(&line));
	agentlog_event(n->c.agentlog, o);
	if (ev->kind == EVENT_YIELD)
		keep_yield(n->c.view, &named, mig, strbuf_str(&line));
	if (n->c.json)
		show_json(n, o);
	else if (sentence_is_news(ev->kind) &&
		 !(ev->kind == EVENT_STATE && ev->wall_ns < n->states_from_ns))
		show_sentence(n, ev->wall_ns, strbuf_str(&line));
	json_decref(o);
}

static bool names_known(struct eventlog *n, const struct guard_event *ev)
{
	bool text = users_put_names(n->c.users, ev->text, NULL, 0);

	return users_put_names(n->c.users, ev->user, NULL, 0) && text;
}

static void tell_first(struct eventlog *n)
{
	struct waiting *w = n->first;

	n->first = w->next;
	if (!n->first)
		n->last = &n->first;
	n->n_waiting--;
	tell(n, &w->event);
	free(w);
}

static void tell_due(struct eventlog *n)
{
	uint64_t now = clock_mono_ns();

	while (n->first && (n->first->deadline_ns <= now || n->n_waiting > WAITING_MAX ||
			    names_known(n, &n->first->event)))
		tell_first(n);
	if (n->first)
		(void)uv_timer_start(&n->timer, on_timer,
				     (n->first->deadline_ns - now) / NS_PER_MS + 1, 0);
	else
		(void)uv_timer_stop(&n->timer);
}

void eventlog_take(struct eventlog *n, const struct guard_event *ev)
{
	struct waiting *w;

	/* Another instance's agent tells its own. */
	if (ev->instance[0] && strcmp(ev->instance, n->c.view->c->instance) != 0)
		return;
	w = xcalloc(1, sizeof(*w));
	w->event = *ev;
	w->deadline_ns = clock_mono_ns() + EVENTLOG_NAME_WAIT_MS * NS_PER_MS;
	*n->last = w;
	n->last = &w->next;
	n->n_waiting++;
	tell_due(n);
}

void eventlog_names_found(struct eventlog *n)
{
	tell_due(n);
}

/* The sentence is the last member of every event. Takes the reference to more over. */
static json_t *own_json(const struct eventlog *n, const char *kind, json_t *more, const char *text)
{
	char time[CLOCK_TEXT_MAX];
	json_t *o = json_object();

	(void)json_object_set_new(o, "time", json_string(clock_format_iso(clock_wall_ns(), time)));
	(void)json_object_set_new(o, "event", json_string(kind));
	(void)json_object_set_new(o, "instance", json_string(n->c.view->c->instance));
	(void)json_object_update_missing(o, more);
	json_decref(more);
	(void)json_object_set_new(o, "text", json_string(text));
	return o;
}

void eventlog_say(struct eventlog *n, enum log_level level, const char *fmt, ...)
{
	cleanup_strbuf struct strbuf line = STRBUF_INIT;
	va_list ap;

	va_start(ap, fmt);
	strbuf_addv(&line, fmt, ap);
	va_end(ap);
	if (line.len) /* it may name files and hosts that others called so */
		line.len = strlen(utf8_clean(line.data));

	json_t *o = own_json(n, "agent", json_pack("{s:s}", "level", log_level_name(level)),
			     strbuf_str(&line));

	agentlog_log(n->c.agentlog, level, "%s", strbuf_str(&line));
	agentlog_event(n->c.agentlog, o);
	if (n->c.json)
		show_json(n, o);
	else if (level < LOG_LEVEL_DEBUG)
		show_sentence(n, clock_wall_ns(), strbuf_str(&line));
	json_decref(o);
}

void eventlog_say_lines(struct eventlog *n, enum log_level level, const char *text)
{
	while (*text) {
		size_t len = strcspn(text, "\n");

		eventlog_say(n, level, "%.*s", (int)len, text);
		text += len + (text[len] == '\n');
	}
}

void eventlog_show(struct eventlog *n, const char *kind, const char *line, json_t *more)
{
	json_t *o = own_json(n, kind, more, line);

	if (n->c.json)
		show_json(n, o);
	else
		show_sentence(n, clock_wall_ns(), line);
	json_decref(o);
}

void eventlog_states_from(struct eventlog *n, uint64_t wall_ns)
{
	n->states_from_ns = wall_ns;
}

static void on_closed(uv_handle_t *h)
{
	free(h->data);
}

void eventlog_close(struct eventlog *n)
{
	while (n->first)
		tell_first(n);
	uv_close((uv_handle_t *)&n->timer, on_closed);
}
