/* SPDX-License-Identifier: MIT */
#include "cli/holding/burn_nodes.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/burn/part.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "cli/agent_client.h"
#include "cli/holding/burn_report.h"
#include "cli/instance.h"
#include "cli/node_agents.h"
#include "cli/term.h"
#include "spool/claim.h"
#include "spool/instance.h"

#define LOOK_NS		(NS_PER_S / 4)
#define BEAT_NS		NS_PER_S
#define BEGIN_NS	(40 * NS_PER_S)	 /* for a node that was asked to tell something */
#define SPARE_NS	(120 * NS_PER_S) /* beyond the time of the test, for a node to end */
#define END_NS		(15 * NS_PER_S)	 /* the same where all are told to end at once */
#define AGAIN_NS	(NS_PER_S / 2)	 /* after which a second signal is one, and no echo */
#define SILENT_LEAST_MS 10000

struct node {
	const struct node_agent *agent;
	bool over;	   /* nothing more comes of it */
	bool told_any;	   /* told is something */
	bool busy;	   /* its agent was, with the burn before */
	char *trouble;	   /* why nothing, or nothing more, is known of it; NULL */
	uint64_t asked_ns; /* monotonic; 0: its agent has not taken the order yet */
	struct burn_told told;
};

struct call {
	const struct cmd_ctx *ctx;
	const struct burn_order *order;
	struct order what;
	struct spool *sp;
	char name[SPEC_NAME_MAX + 1], path[SPOOL_PATH_MAX];
	struct heartbeat beat;
	struct heartbeat_watch *watch;
	struct node_agents agents;
	struct agents_call asked; /* those that have not all answered yet */
	struct node *nodes;
	size_t n;
	sigset_t signals;
	uint64_t began_wall_ns;
	uint64_t asked_ns, beat_ns, shown_ns, end_ns; /* monotonic; end_ns: told to end */
	bool hurry;				      /* and told so again */
	bool live;
	struct term_page page;
};

/* -------- nodes -------- */

static void give_up(struct node *n, char *trouble)
{
	n->over = true;
	free(n->trouble);
	n->trouble = trouble;
}

/* Whom it makes no sense to ask. NULL: it is to be asked. */
static char *why_not(const struct node_agent *p)
{
	cleanup_free char *sign = NULL, *silence = NULL;

	if (p->state == NODE_AGENT_GONE) {
		sign = node_agent_sign(p);
		return xasprintf("node %s has gone (%s)", p->agent, sign);
	}
	if (p->state != NODE_AGENT_ALIVE) {
		silence = node_agent_silence(p);
		return xasprintf("node %s %s", p->agent, silence);
	}
	if (!p->status || strcmp(p->status->version, TENURE_VERSION) != 0)
		return xasprintf("its tenure is another version (%s) than this one (%s): the agent "
				 "there is to be started anew with this one",
				 p->status ? p->status->version : "an older one", TENURE_VERSION);
	return NULL;
}

static bool counts(const struct node_agent *p)
{
	return p->state != NODE_AGENT_OFF && !p->declared_dead &&
	       (p->heartbeat.devices || (p->status && p->status->n_devices) ||
		p->state != NODE_AGENT_ALIVE);
}

static int find_nodes(struct call *c, struct err *e)
{
	const char *instance = settings_str(c->ctx->settings, SET_INSTANCE);
	int r = node_agents_read(c->ctx, c->sp, &c->agents, e);

	if (r < 0)
		return BURN_CANNOT_TEST;
	c->nodes = xcalloc(c->agents.n + 1, sizeof(*c->nodes));
	for (size_t i = 0; i < c->agents.n; i++)
		if (counts(&c->agents.all[i]))
			c->nodes[c->n++].agent = &c->agents.all[i];
	if (c->n)
		return CMD_OK;

	cleanup_free char *options = agent_options(c->ctx->settings, NULL);

	return err_set(e, BURN_CANNOT_TEST,
		       "no agent with GPUs serves instance %s: tenure on%s starts one here, "
		       "tenure up%s asks an engine for nodes; tenure burn without --instance tests "
		       "this node's",
		       instance, options, options);
}

/* -------- asking them -------- */

static int beat(struct call *c, struct err *e)
{
	c->beat.count++;
	c->beat.ended = c->end_ns != 0;
	c->beat_ns = clock_mono_ns();
	return heartbeat_write(c->sp, c->path, &c->beat, e);
}

static int find_other(void *data, const char *file, unsigned char type)
{
	const struct call *c = data;

	return !strchr(file, ',') && strcmp(file, c->name) != 0;
}

/* Whoever asks for one has a file there until he has heard of each node. */
static bool another_runs(struct call *c)
{
	return spool_each(c->sp, spool_dir_name(SPOOL_BURNS), find_other, c, NULL) > 0;
}

/* Of one that does not have the order. */
static char *why_unasked(const struct call *c, const struct node *n)
{
	cleanup_free char *silence = NULL;

	if (n->busy)
		return xstrdup("the burn before has not ended there yet");
	if (c->end_ns)
		return xstrdup("it was interrupted before it could begin");
	silence = node_agent_silence(n->agent);
	return xasprintf("node %s %s", n->agent->agent, silence);
}

/* An agent that is busy where no other burn is wanted has one whose process is about to end. */
static void on_answer(void *user, const struct agent_called *one, const json_t *answer)
{
	struct call *c = user;
	struct node *n = one->data;
	struct err why = ERR_INIT;
	int code = answer ? agents_answer_code(answer, &why) : -ETIMEDOUT;

	if (code == -EBUSY && !another_runs(c)) {
		n->busy = true;
		return;
	}
	n->asked_ns = clock_mono_ns();
	if (code < 0)
		give_up(n, answer ? xstrdup(why.text) : why_unasked(c, n));
}

/* To those that do not have it. */
static int send_order(struct call *c, struct err *e)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < c->n; i++) {
		struct node *n = &c->nodes[i];
		bool wanted = !n->over && !n->asked_ns;
		char *why = wanted ? why_not(n->agent) : NULL;

		if (why)
			give_up(n, why);
		else if (wanted)
			r = agents_send(&c->asked, n->agent->agent, &c->what, n, e);
	}
	if (c->asked.n)
		agent_look(c->ctx);
	return r;
}

/* Whoever is to end does not wait for an order to be taken. */
static void hear_answers(struct call *c)
{
	if (c->asked.n && !agents_poll(&c->asked, c->end_ns ? 0 : AGENTS_LIMIT_MS, on_answer, c))
		agents_clear(&c->asked);
}

static int ask(struct call *c, struct err *e)
{
	int r = spool_make_dir(c->sp, SPOOL_BURNS, e);

	burn_remove_old(c->sp);
	(void)burn_call_path(burn_call_name(c->sp, c->name), c->path);
	(void)str_copy(c->what.burn, sizeof(c->what.burn), c->name);
	if (r == 0)
		r = claimer_self(c->sp, "burn", &c->beat.who, e);
	if (r == 0)
		r = beat(c, e);
	c->asked_ns = clock_mono_ns();
	if (r == 0)
		r = send_order(c, e);
	return r < 0 ? BURN_CANNOT_TEST : CMD_OK;
}

/* -------- what they tell -------- */

static uint64_t silent_limit_ms(const struct call *c)
{
	uint64_t ms = settings_num(c->ctx->settings, SET_EXPIRE);

	return ms < SILENT_LEAST_MS ? SILENT_LEAST_MS : ms < BURN_SILENT_MS ? ms : BURN_SILENT_MS;
}

/* The last that was told stays until something else is. */
static int read_told(struct call *c, struct node *n, struct err *e)
{
	struct burn_told told;
	int r = burn_told_read(c->sp, c->name, n->agent->agent, &told, e);

	if (r < 0)
		return r;
	burn_told_clear(&n->told);
	n->told = told;
	n->told_any = true;
	if (told.over)
		give_up(n, told.code < 0 ? xstrdup(told.why) : NULL);
	return 0;
}

/* By now, as far as its heartbeat tells. */
static bool agent_lives(const struct call *c, const struct node *n)
{
	struct node_agents now = { .n = 0 };
	const struct node_agent *p;
	bool lives;

	(void)node_agents_read(c->ctx, c->sp, &now, NULL);
	p = node_agents_find(&now, n->agent->agent);
	lives = p && p->state == NODE_AGENT_ALIVE;
	node_agents_clear(&now);
	return lives;
}

static void look_at(struct call *c, struct node *n, uint64_t now)
{
	const char *name = n->agent->agent;
	const struct claimer *who = &n->told.who;
	bool here = n->told_any && strcmp(who->boot, spool_boot(c->sp)) == 0;
	bool runs = !here || proc_alive(&who->proc);
	struct err e = ERR_INIT;
	int r = read_told(c, n, &e);
	uint64_t silent_ms = heartbeat_watch_see(c->watch, name, n->told.count);

	if (n->over)
		return;
	if (r == -EPROTO || r == -EINVAL || r == -EFBIG || spool_is_bad(r))
		give_up(n, xstrdup(e.text));
	else if (!runs || (n->told_any && silent_ms >= silent_limit_ms(c)))
		give_up(n, agent_lives(c, n)
				   ? xasprintf("node %s has broken off its test without a "
					       "word; the log of its agent may say why",
					       name)
				   : xasprintf("node %s has gone", name));
	else if (!n->told_any && now - n->asked_ns >= BEGIN_NS)
		give_up(n,
			xasprintf("node %s has not begun; the log of its agent may say why", name));
	else if (now - n->asked_ns >= c->order->for_ms * NS_PER_MS + SPARE_NS || c->hurry ||
		 (c->end_ns && now - c->end_ns >= END_NS))
		give_up(n, xasprintf("node %s has not ended in time", name));
}

/* Who does not have the order yet is asked again for as long as others may take to begin. */
static bool may_ask(const struct call *c, uint64_t now)
{
	return !c->end_ns && now - c->asked_ns < BEGIN_NS;
}

static bool is_too_busy(const struct call *c, uint64_t now)
{
	return c->hurry || (!c->asked.n && !may_ask(c, now));
}

static bool look(struct call *c)
{
	uint64_t now = clock_mono_ns();
	bool open = false;

	/* Opening the directory is what makes a network filesystem see what is new in it. */
	(void)spool_lists(c->sp, SPOOL_BURNS, c->name, NULL);
	heartbeat_watch_begin(c->watch, now);
	for (size_t i = 0; i < c->n; i++) {
		struct node *n = &c->nodes[i];

		if (!n->over && n->asked_ns)
			look_at(c, n, now);
		else if (!n->over && is_too_busy(c, now))
			give_up(n, why_unasked(c, n));
		open = open || !n->over;
	}
	heartbeat_watch_finish(c->watch);
	return open;
}

static const char *state_word(const struct node *n)
{
	if (n->over)
		return n->trouble ? n->trouble : "done";
	return n->told.n ? "testing" : "starts";
}

static void draw(struct call *c)
{
	cleanup_free struct burn_node_progress *rows = xcalloc(c->n, sizeof(*rows));
	char *text = NULL;
	size_t size = 0;
	FILE *page = open_memstream(&text, &size);

	if (!page)
		return;
	for (size_t i = 0; i < c->n; i++)
		rows[i] = (struct burn_node_progress){ .name = c->nodes[i].agent->agent,
						       .state = state_word(&c->nodes[i]),
						       .devices = c->nodes[i].told.devices,
						       .n = c->nodes[i].told.n };
	burn_nodes_progress_print(rows, c->n, c->order->for_ms * NS_PER_MS, page);
	(void)fclose(page);
	term_page_draw(&c->page, text);
	free(text);
}

static void show(struct call *c, bool last)
{
	if (!c->live || (!last && clock_mono_ns() - c->shown_ns < NS_PER_S))
		return;
	c->shown_ns = clock_mono_ns();
	if (last)
		term_page_draw(&c->page, "");
	else
		draw(c);
}

/* Who says so again does not want to wait for nodes either. */
static void be_told_to_end(struct call *c, uint64_t now)
{
	if (!c->end_ns)
		c->end_ns = now;
	c->hurry = now - c->end_ns >= AGAIN_NS;
	c->beat_ns = 0;
}

static void follow(struct call *c)
{
	const struct timespec pause = clock_timespec(LOOK_NS);

	while (look(c)) {
		show(c, false);
		if (sigtimedwait(&c->signals, NULL, &pause) > 0)
			be_told_to_end(c, clock_mono_ns());
		if (clock_mono_ns() - c->beat_ns >= BEAT_NS)
			(void)beat(c, NULL);
		hear_answers(c);
		if (!c->asked.n && may_ask(c, clock_mono_ns()))
			(void)send_order(c, NULL);
	}
	show(c, true);
}

/* -------- the report -------- */

/* What is known of a node that has told nothing: which devices it has. */
static void take_status(struct node *n)
{
	const struct agent_status *s = n->agent->status;

	if (!n->trouble || n->told.n || !s || !s->n_devices)
		return;
	burn_told_clear(&n->told);
	n->told = (struct burn_told){ .devices = xcalloc(s->n_devices, sizeof(struct burnt)) };
	for (; n->told.n < s->n_devices; n->told.n++) {
		struct dev_status *dev = &n->told.devices[n->told.n].dev;

		(void)str_copy(dev->uuid, sizeof(dev->uuid), s->devices[n->told.n].uuid);
		(void)str_copy(dev->name, sizeof(dev->name), s->devices[n->told.n].model);
		dev->index = BURN_NO_INDEX;
		dev->mig = -1;
	}
}

/* Without the last word of a node it is not known what its cards have counted, also of those that
 * were tested for their time. */
static void say_trouble(struct node *n)
{
	for (uint32_t i = 0; n->trouble && i < n->told.n; i++) {
		struct burnt *d = &n->told.devices[i];

		if (!d->trouble[0])
			(void)str_copy(d->trouble, sizeof(d->trouble), n->trouble);
		d->ended_ns = d->ended_ns ? d->ended_ns : clock_mono_ns();
	}
}

static int report(struct call *c)
{
	struct burn_report_of r = { .order = c->order,
				    .for_ns = c->order->for_ms * NS_PER_MS,
				    .n_nodes = c->n,
				    .instance = settings_str(c->ctx->settings, SET_INSTANCE),
				    .began_wall_ns = c->began_wall_ns };
	cleanup_free struct burn_node *nodes = xcalloc(c->n, sizeof(*nodes));
	struct burnt *devices;
	int code;

	for (size_t i = 0; i < c->n; i++) {
		struct node *n = &c->nodes[i];

		take_status(n);
		say_trouble(n);
		nodes[i] = (struct burn_node){
			.name = n->agent->agent, .trouble = n->trouble, .first = r.n, .n = n->told.n
		};
		r.n += n->told.n;
	}
	devices = xcalloc(r.n ? r.n : 1, sizeof(*devices));
	for (size_t i = 0; i < c->n; i++)
		if (nodes[i].n)
			(void)memcpy(devices + nodes[i].first, c->nodes[i].told.devices,
				     nodes[i].n * sizeof(*devices));
	r.nodes = nodes;
	r.devices = devices;
	code = burn_report(c->ctx, &r);
	free(devices);
	return code;
}

/* -------- all of it -------- */

static void clear(struct call *c)
{
	char path[SPOOL_PATH_MAX];

	agents_clear(&c->asked);
	if (c->name[0])
		(void)spool_remove(c->sp, c->path);
	for (size_t i = 0; i < c->n; i++) {
		if (c->name[0])
			(void)spool_remove(c->sp,
					   burn_part_path(c->name, c->nodes[i].agent->agent, path));
		burn_told_clear(&c->nodes[i].told);
		free(c->nodes[i].trouble);
	}
	free(c->nodes);
	node_agents_clear(&c->agents);
	c->watch = heartbeat_watch_free(c->watch);
	c->sp = spool_close(c->sp);
}

/* As agent/burn/run.c does. */
static void take_signals(struct call *c)
{
	static const int signals[] = { SIGTERM, SIGINT, SIGHUP };

	(void)sigemptyset(&c->signals);
	for (size_t i = 0; i < ARRAY_LEN(signals); i++)
		if (signals[i] == SIGTERM || !proc_ignores(signals[i]))
			(void)sigaddset(&c->signals, signals[i]);
	(void)sigprocmask(SIG_BLOCK, &c->signals, NULL);
}

int burn_nodes(const struct cmd_ctx *ctx, const struct burn_order *order,
	       const struct text_list *options, struct err *e)
{
	struct call c = {
		.ctx = ctx,
		.order = order,
		.what = { .command = ORDER_BURN, .for_ms = order->for_ms, .options = *options },
		.began_wall_ns = clock_wall_ns(),
		.live = !opts_flag(ctx->opts, "json") && term_has_screen(STDOUT_FILENO)
	};
	int code = instance_open(ctx, 0, &c.sp, e);

	if (code < 0)
		return code == -EINVAL ? CMD_USAGE : BURN_CANNOT_TEST;
	c.asked.sp = c.sp;
	take_signals(&c);
	c.watch = heartbeat_watch_new(LOOK_NS / NS_PER_MS);
	code = find_nodes(&c, e);
	if (code == CMD_OK)
		code = ask(&c, e);
	if (code == CMD_OK) {
		follow(&c);
		code = report(&c);
	}
	clear(&c);
	return code;
}
