/* SPDX-License-Identifier: MIT */

/*
 * tenure-notify: tells people what an agent tells programs. The agent starts `run`; the rest is for
 * `tenure notify` and for the monitor of resource-manager.md. It is a program of its own because of
 * libcurl, and because whatever it talks to may hang.
 */

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/opts.h"
#include "base/units.h"
#include "notify/config.h"
#include "notify/daemon.h"
#include "notify/deliver.h"
#include "notify/outbox.h"
#include "notify/show.h"

enum { OK, FAILED, USAGE };

#define EVENT_MAX (1024UL * 1024)

static const struct opt rows[] = {
	{ .name = "socket", .spec = { VALUE_STRING }, .arg = "NAME", .help = "that of the agent" },
	{ .name = "events", .spec = { VALUE_STRING }, .arg = "FILE", .help = "its event file" },
	{ .name = "outbox", .spec = { VALUE_STRING }, .arg = "FILE", .help = "what waits" },
	{ .name = "config",
	  .spec = { VALUE_STRING },
	  .arg = "FILE:FILE",
	  .help = "the first that has a block `notify` counts" },
	{ .name = "instance", .spec = { VALUE_STRING }, .arg = "NAME", .help = "of the agent" },
	{ .name = "email",
	  .spec = { VALUE_STRING },
	  .arg = "ADDRESS",
	  .help = "send there, by the first channel for mail, or sendmail" },
	{ .name = "agent",
	  .spec = { VALUE_STRING },
	  .arg = "WORD",
	  .help = "whether it sends what is configured" },
	{ .name = "json", .spec = { VALUE_FLAG }, .help = "print JSON" },
	{ 0 },
};

static int fail(int code, const char *text)
{
	(void)fprintf(stderr, "tenure-notify: %s\n", text);
	return code;
}

static const char *text_of(const struct opts *o, const char *name)
{
	const char *text = opts_text(o, name);

	return text ? text : "";
}

/* -------- run -------- */

static int run(const struct opts *o, struct notify_config *c)
{
	struct err e = ERR_INIT;
	struct daemon_config d = { .socket = text_of(o, "socket"),
				   .events = text_of(o, "events"),
				   .outbox = text_of(o, "outbox"),
				   .files = text_of(o, "config") };

	return daemon_run(&d, &e) < 0 ? fail(FAILED, e.text) : OK;
}

/* -------- show -------- */

static int show(const struct opts *o, struct notify_config *c)
{
	struct err e = ERR_INIT;
	char *file = NULL;
	struct outbox *box;
	json_t *doc;
	int r = notify_config_read(text_of(o, "config"), c, &file, &e);

	if (r < 0) {
		free(file);
		return fail(USAGE, e.text);
	}
	box = outbox_new(text_of(o, "outbox"));
	if (outbox_load(box, &e) < 0)
		(void)fail(FAILED, e.text);
	doc = show_json(c, file, opts_text(o, "agent"), box);
	if (opts_flag(o, "json")) {
		(void)json_dumpf(doc, stdout, JSON_INDENT(2));
		(void)putchar('\n');
	} else {
		cleanup_strbuf struct strbuf text = STRBUF_INIT;

		show_text(doc, opts_text(o, "instance"), &text);
		(void)fputs(strbuf_str(&text), stdout);
	}
	json_decref(doc);
	box = outbox_free(box);
	free(file);
	return fs_close_stdout(&e) < 0 ? fail(FAILED, e.text) : OK;
}

/* -------- test and send -------- */

static volatile sig_atomic_t told_to_end;

static void on_end(int signum)
{
	told_to_end = 1;
}

/* One attempt, waited for. */
static void try_once(const struct channel *ch, const json_t *event, struct delivery_result *ret)
{
	struct delivery *d = delivery_start(ch, event, ret);
	bool over = false;

	while (d && !over && !told_to_end) {
		uint64_t now = clock_mono_ns() / NS_PER_MS, until = delivery_deadline_ms(d);
		struct pollfd p = { .fd = delivery_fd(d), .events = POLLIN };

		over = now >= until || poll(&p, 1, (int)(until - now)) > 0;
	}
	if (d)
		(void)delivery_end(d, ret);
}

static void tell_text(const struct channel *ch, const struct delivery_result *result)
{
	char took[UNIT_TEXT_MAX];

	printf("%s (%s): %s%s%s", ch->name, channel_type_name(ch->type),
	       result->how == DELIVERED ? "sent " : "NOT sent: ", result->text,
	       result->how == DELIVERED ? " in " : "\n");
	if (result->how == DELIVERED)
		printf("%s\n", unit_format_duration(result->took_ms, took));
}

static void tell_json(const struct channel *ch, const struct delivery_result *result)
{
	json_t *doc =
		json_pack("{ss ss sb so sI}", "name", ch->name, "type", channel_type_name(ch->type),
			  "sent", result->how == DELIVERED, "text", json_new_text(result->text),
			  "took_ms", (json_int_t)result->took_ms);

	(void)json_dumpf(doc, stdout, JSON_COMPACT);
	(void)putchar('\n');
	json_decref(doc);
}

static bool tell(const struct opts *o, const struct channel *ch, const json_t *event)
{
	struct delivery_result result;

	try_once(ch, event, &result);
	if (opts_flag(o, "json"))
		tell_json(ch, &result);
	else
		tell_text(ch, &result);
	(void)fflush(stdout);
	return result.how == DELIVERED;
}

static json_t *test_event(const struct opts *o)
{
	char time[CLOCK_TEXT_MAX], host[256] = "";

	(void)gethostname(host, sizeof(host) - 1);
	return json_pack("{ss ss ss ss ss ss}", "time", clock_format_iso(clock_wall_ns(), time),
			 "event", "test", "level", "info", "instance", text_of(o, "instance"),
			 "node", host, "text",
			 "this is a test of the notifications, and it has arrived");
}

/* All channels, or the one that is named. */
static int test(const struct opts *o, struct notify_config *c)
{
	const char *name = opts_arg(o, 1);
	struct err e = ERR_INIT;
	bool good = true;
	json_t *event;
	int r = notify_config_read(text_of(o, "config"), c, NULL, &e);

	if (r)
		return fail(USAGE, r < 0 ? e.text
					 : "no config has a block `notify`, so there is nobody to "
					   "tell; docs/notify.md says how to write one");
	if (name && !notify_config_channel(c, name)) {
		cleanup_free char *text = xasprintf("there is no channel \"%s\"; `tenure notify` "
						    "shows all",
						    name);

		return fail(USAGE, text);
	}
	event = test_event(o);
	for (size_t i = 0; i < c->n_channels && !told_to_end; i++)
		if (!name || strcmp(c->channels[i].name, name) == 0)
			good &= tell(o, &c->channels[i], event);
	json_decref(event);
	return good ? OK : FAILED;
}

/* An event on standard input to one address, or to who wants it. */
static int send(const struct opts *o, struct notify_config *c)
{
	const char *email = opts_text(o, "email");
	cleanup_free char *text = NULL;
	struct err e = ERR_INIT;
	bool good = true;
	json_t *event;
	size_t len;

	if (notify_config_read(text_of(o, "config"), c, NULL, &e) < 0 ||
	    fs_read_open(STDIN_FILENO, "standard input", EVENT_MAX, &text, &len, &e) < 0)
		return fail(USAGE, e.text);
	event = json_loadb(text, len, 0, NULL);
	if (!json_is_object(event)) {
		json_decref(event);
		return fail(USAGE, "standard input has no event");
	}
	if (email && notify_config_mail_to(c, email, &e) < 0) {
		json_decref(event);
		return fail(USAGE, e.text);
	}
	for (size_t i = 0; i < c->n_channels && !told_to_end; i++)
		if (email || notify_config_wants(c, &c->channels[i], event))
			good &= tell(o, &c->channels[i], event);
	json_decref(event);
	return good ? OK : FAILED;
}

static const struct {
	const char *name;
	int (*run)(const struct opts *o, struct notify_config *c);
} commands[] = { { "run", run }, { "show", show }, { "test", test }, { "send", send } };

static int choose(const struct opts *o)
{
	static struct notify_config config; /* large */
	const char *word = opts_arg(o, 0);
	int code = -1;

	for (size_t i = 0; word && i < ARRAY_LEN(commands); i++)
		if (strcmp(word, commands[i].name) == 0)
			code = commands[i].run(o, &config);
	notify_config_clear(&config);
	return code < 0 ? fail(USAGE, "this is a part of tenure; see tenure notify --help") : code;
}

int main(int argc, char **argv)
{
	struct opts *o = opts_new();
	struct err e = ERR_INIT;
	int code;

	(void)sigaction(SIGINT, &(struct sigaction){ .sa_handler = on_end }, NULL);
	opts_add_rows(o, rows);
	code = opts_parse(o, argc, argv, OPTS_DEFAULT, &e) < 0 ? fail(USAGE, e.text) : choose(o);
	o = opts_free(o);
	return code;
}
