/* SPDX-License-Identifier: MIT */
#include "notify/show.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/units.h"

#define SHOW_FORMAT 1

static json_t *time_or_null(uint64_t wall_ms)
{
	char time[CLOCK_TEXT_MAX];

	return wall_ms ? json_string(clock_format_iso(wall_ms * NS_PER_MS, time)) : json_null();
}

static json_t *member_or_null(const json_t *box, const char *key)
{
	json_t *value = json_object_get(box, key);

	return value ? json_incref(value) : json_null();
}

static json_t *channel_json(const struct channel *ch, const struct outbox *o)
{
	const json_t *box = outbox_channel(o, ch->name);
	size_t waiting = json_array_size(json_object_get(box, "waiting"));
	cleanup_free char *where = channel_describe(ch);

	return json_pack("{ss ss so sI sI so so so}", "name", ch->name, "type",
			 channel_type_name(ch->type), "where", json_new_text(where), "waiting",
			 (json_int_t)waiting, "dropped", (json_int_t)json_get_u64(box, "dropped"),
			 "next", time_or_null(waiting ? outbox_due_at(o, ch) : 0), "sent",
			 member_or_null(box, "ok"), "error", member_or_null(box, "error"));
}

json_t *show_json(const struct notify_config *c, const char *file, const char *agent,
		  const struct outbox *o)
{
	json_t *channels = json_array();

	for (size_t i = 0; i < c->n_channels; i++)
		(void)json_array_append_new(channels, channel_json(&c->channels[i], o));
	return json_pack("{si so ss? sI so}", "format", SHOW_FORMAT, "config",
			 file ? json_new_text(file) : json_null(), "agent", agent, "rules",
			 (json_int_t)c->n_rules, "channels", channels);
}

/* "2026-11-25 18:30:00" of the time of a record. */
static const char *time_of(const json_t *record, const char *key, char buf[32])
{
	const char *iso = json_get_str(record, key);

	if (!iso || strlen(iso) < 19)
		return "?";
	(void)snprintf(buf, 32, "%.10s %.8s", iso, iso + 11);
	return buf;
}

/* What is configured is not sent by itself. */
static void show_agent(const char *agent, const char *instance, struct strbuf *out)
{
	bool named = instance && strcmp(instance, "default") != 0;

	if (agent && strcmp(agent, "none") == 0)
		strbuf_addf(out,
			    "No agent of this instance runs here, and only agents send: tenure "
			    "on%s%s starts one.\n",
			    named ? " -i " : "", named ? instance : "");
	if (agent && strcmp(agent, "silent") == 0)
		strbuf_adds(out,
			    "The agent here sends NOTHING: there was no such block when it read "
			    "the files last. tenure reload has it read them again.\n");
}

static void show_channel(const json_t *ch, struct strbuf *out)
{
	const json_t *sent = json_object_get(ch, "sent"), *error = json_object_get(ch, "error");
	uint64_t waiting = json_get_u64(ch, "waiting"), dropped = json_get_u64(ch, "dropped");
	char time[32];

	strbuf_addf(out, "\n%s (%s): %s\n", json_get_str(ch, "name"), json_get_str(ch, "type"),
		    json_get_str(ch, "where"));
	if (json_is_object(sent))
		strbuf_addf(out, "  last sent %s\n", time_of(sent, "time", time));
	else
		strbuf_adds(out, "  nothing was sent yet\n");
	if (json_is_object(error))
		strbuf_addf(out, "  last failed %s: %s\n", time_of(error, "time", time),
			    json_get_str(error, "text"));
	if (waiting)
		strbuf_addf(out, "  %" PRIu64 " wait%s; next %s\n", waiting,
			    waiting == 1 ? "s" : "", time_of(ch, "next", time));
	if (dropped)
		strbuf_addf(out, "  %" PRIu64 " dropped since then, which the next message says\n",
			    dropped);
}

void show_text(const json_t *doc, const char *instance, struct strbuf *out)
{
	const char *file = json_get_str(doc, "config");
	cleanup_free char *shown = file ? fs_show_path(file) : NULL;
	uint64_t rules = json_get_u64(doc, "rules");
	const json_t *ch;
	size_t i;

	if (!file) {
		strbuf_adds(out, "Nobody is told of anything: no config has a block `notify`. "
				 "docs/notify.md says how to write one.\n");
		return;
	}
	strbuf_addf(out, "By %s, ", shown);
	if (rules)
		strbuf_addf(out, "with %" PRIu64 " rule%s.\n", rules, rules == 1 ? "" : "s");
	else
		strbuf_adds(out, "of what matters to most (there are no rules).\n");
	show_agent(json_get_str(doc, "agent"), instance, out);
	json_array_foreach(json_object_get(doc, "channels"), i, ch) show_channel(ch, out);
}
