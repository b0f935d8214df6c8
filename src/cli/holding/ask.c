/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/ask_wire.h"
#include "agent/node/left.h"
#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/sock.h"
#include "base/str.h"
#include "base/units.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/machine.h"

#define FORMAT	 1
#define TRY_MS	 5000 /* so long an agent that is asked by far too many is tried */
#define TRY_US	 50000
#define WAIT_US	 1000000  /* between two looks for the answer */
#define FULL_NS	 NS_PER_S /* of which an agent counts how many ask it */
#define USER_MAX 64

static const struct opt ask_opts[] = {
	{ .name = "wait",
	  .spec = { VALUE_FLAG },
	  .help = "wait for the answer: exit code 1 is no" },
	{ .name = "timeout",
	  .spec = { VALUE_DURATION },
	  .arg = "DURATION",
	  .help = "with --wait: give up after so long, with exit code 1" },
	{ 0 },
};

/* ---- an agent ---- */

/* Of one user's agents those that answer. */
struct round {
	const char *dev_dir;
	uid_t uid;
	uid_t squatter; /* has a name in place of that user; ASK_ANYBODY: nobody has */
	bool busy;	/* one does not answer */
	uid_t busy_uid; /* whose that is, and when it was asked, monotonic: the last of them */
	uint64_t busy_ns;
	bool found;	   /* one does */
	uint64_t until_ns; /* names that others took keep it no longer */
};

/* An answer that is taken ends the round: true. It may keep a reference. */
typedef bool (*take_fn)(void *user, uid_t uid, json_t *doc);

static bool try_once(struct round *rd, const struct ask_request *req, take_fn take, void *user)
{
	struct text_list names = { .n = 0 };
	bool taken = false;

	rd->busy = false;
	ask_names(rd->dev_dir, rd->uid, &names);
	for (size_t i = 0; i < names.n && !taken; i++) {
		uid_t uid = ask_name_uid(names.texts[i]), squatter = ASK_ANYBODY;
		uint64_t now = clock_mono_ns();
		json_t *doc = NULL;
		int r = now < rd->until_ns ? ask_call(names.texts[i], req, &doc, &squatter)
					   : -EAGAIN; /* others took all of the time */

		if (r == -EPERM)
			rd->squatter = squatter;
		rd->busy = rd->busy || r == -EAGAIN;
		rd->busy_ns = r == -EAGAIN ? now : rd->busy_ns;
		rd->busy_uid = r == -EAGAIN ? uid : rd->busy_uid;
		rd->found = rd->found || r == 0;
		taken = r == 0 && take(user, uid, doc);
		json_decref(doc);
	}
	text_list_clear(&names);
	return taken;
}

/* One that was only busy may have it, or leave it to somebody. If it dropped us, since too many
 * ask, it has room again in the next second. */
static void try_twice(struct round *rd, const struct ask_request *req, take_fn take, void *user)
{
	uint64_t now, due;

	rd->until_ns = clock_mono_ns() + TRY_MS * NS_PER_MS;
	if (try_once(rd, req, take, user) || !rd->busy)
		return;
	now = clock_mono_ns();
	due = rd->busy_ns + FULL_NS;
	if (now < due && due < rd->until_ns)
		(void)usleep((useconds_t)((due - now) / NS_PER_US));
	(void)try_once(rd, req, take, user);
}

/* Again, while one of them has no room. */
static bool ask_agents(struct round *rd, const struct ask_request *req, take_fn take, void *user)
{
	rd->until_ns = clock_mono_ns() + TRY_MS * NS_PER_MS;
	while (!try_once(rd, req, take, user)) {
		if (!rd->busy || clock_mono_ns() >= rd->until_ns)
			return false;
		(void)usleep(TRY_US);
	}
	return true;
}

static struct ask_request request_of(enum ask_kind kind, const char *uuid, const char *message)
{
	struct ask_request req = { .magic = ASK_MAGIC, .version = ASK_VERSION };

	req.kind = (uint16_t)kind;
	(void)str_copy(req.uuid, sizeof(req.uuid), uuid);
	(void)str_copy(req.message, ASK_MESSAGE_MAX + 1, message);
	return req;
}

/* What an agent of somebody else says is cleaned before it is shown. */
static char *text_of(const json_t *o, const char *key)
{
	const char *text = json_get_str(o, key);

	return utf8_clean(xstrdup(text ? text : ""));
}

/* ---- what came of it ---- */

/* The user whom it is, or was, left to. */
static char *left_to(const json_t *ask, char name[USER_MAX])
{
	return user_name((uid_t)json_get_u64(ask, "left_to"), name, USER_MAX);
}

/* "14:20" */
static char *until(const json_t *ask, char time[LEFT_TIME_MAX])
{
	cleanup_free char *iso = text_of(ask, "left_until");
	size_t day = strlen("2026-11-26T");

	return str_print(time, LEFT_TIME_MAX, "%.5s", strlen(iso) > day ? iso + day : "?");
}

static void say_open(const json_t *ask, const char *user)
{
	char first[USER_MAX], time[LEFT_TIME_MAX];

	if (json_is_integer(json_object_get(ask, "left_to")))
		printf("%s has left it to %s, who asked first, until %s: yours waits", user,
		       left_to(ask, first), until(ask, time));
	else
		printf("is not answered yet");
}

static void say_yes(const json_t *ask, const char *user)
{
	char time[LEFT_TIME_MAX];

	printf("%s says yes: it is left to you until %s, start your program", user,
	       until(ask, time));
}

static void say_given(const json_t *ask, const char *user)
{
	char first[USER_MAX];

	printf("%s has given it to %s, who has come to it: ask them in person", user,
	       left_to(ask, first));
}

static const struct {
	const char *state;
	const char *words;				  /* behind the owner's name */
	void (*say)(const json_t *ask, const char *user); /* instead of words */
	int code;					  /* of --wait; -1: there is no end yet */
} states[] = {
	{ "open", NULL, say_open, -1 },
	{ "yes", NULL, say_yes, CMD_OK },
	{ "used", "said yes, and you have come to it", NULL, CMD_OK },
	{ "lapsed", "said yes, but you did not come in time: ask again", NULL, CMD_FAILED },
	{ "no", "says no", NULL, CMD_FAILED },
	{ "free", "has left it meanwhile: start your program", NULL, CMD_OK },
	{ "given", NULL, say_given, CMD_FAILED },
	{ "expired", "has not answered for an hour", NULL, CMD_FAILED },
};

static size_t state_of(const json_t *ask)
{
	const char *state = json_get_str(ask, "state");

	for (size_t i = 0; state && i < ARRAY_LEN(states); i++)
		if (!strcmp(states[i].state, state))
			return i;
	return 0;
}

static void say(uid_t uid, const json_t *ask)
{
	char user[USER_MAX], when[CLOCK_TEXT_MAX] = "?";
	uint64_t ns;
	cleanup_free char *answer = text_of(ask, "answer"), *asked = text_of(ask, "asked");
	size_t state = state_of(ask);

	(void)user_name(uid, user, sizeof(user));
	if (unit_parse_time(asked, 0, &ns, NULL) == 0)
		(void)clock_format_local(ns, when);
	printf("GPU %llu, asked of %s at %s: ", (unsigned long long)json_get_u64(ask, "gpu"), user,
	       when);
	if (states[state].say)
		states[state].say(ask, user);
	else
		printf("%s %s", user, states[state].words);
	printf("%s%s\n", answer[0] ? ": " : "", answer);
	(void)fflush(stdout);
}

struct listing {
	json_t *json; /* a list; NULL: they are said */
	unsigned int n;
};

static void take_list(struct listing *l, uid_t uid, json_t *doc)
{
	json_t *ask;
	size_t i;

	json_array_foreach(json_object_get(doc, "asks"), i, ask)
	{
		l->n++;
		if (!l->json) {
			say(uid, ask);
			continue;
		}
		(void)json_object_set_new(ask, "uid", json_integer((json_int_t)uid));
		(void)json_array_append(l->json, ask);
	}
}

/* Each agent once, and again those that have no room. Who had none to the end is left in names. */
static void list_from(struct text_list *names, struct listing *l)
{
	const struct ask_request req = request_of(ASK_LIST, "", "");
	uint64_t until_ns = clock_mono_ns() + TRY_MS * NS_PER_MS;

	for (;;) {
		struct text_list busy = { .n = 0 };

		for (size_t i = 0; i < names->n; i++) {
			uid_t squatter = ASK_ANYBODY;
			json_t *doc = NULL;
			int r = ask_call(names->texts[i], &req, &doc, &squatter);

			if (r == -EAGAIN)
				text_list_add(&busy, names->texts[i]);
			else if (r == 0)
				take_list(l, ask_name_uid(names->texts[i]), doc);
			json_decref(doc);
		}
		text_list_clear(names);
		*names = busy;
		if (!names->n || clock_mono_ns() >= until_ns)
			return;
		(void)usleep(TRY_US);
	}
}

static int list_asks(const struct cmd_ctx *ctx, struct err *e)
{
	struct listing l = { .json = opts_flag(ctx->opts, "json") ? json_array() : NULL };
	struct text_list names = { .n = 0 };
	char user[USER_MAX];
	int r = CMD_OK;

	ask_names(settings_str(ctx->settings, SET_DEV_DIR), ASK_ANYBODY, &names);
	list_from(&names, &l);
	if (l.json)
		cmd_print_json(json_pack("{si so}", "format", FORMAT, "asks", l.json));
	else if (!l.n && !names.n)
		printf("You have asked nobody for a GPU. (tenure ask GPU does)\n");
	if (names.n) {
		(void)user_name(ask_name_uid(names.texts[0]), user, sizeof(user));
		(void)err_set(e, -EAGAIN,
			      "tenure of %s does not answer, since far too many ask it: what you "
			      "have asked of them is not known; try again",
			      user);
		r = CMD_FAILED;
	}
	text_list_clear(&names);
	return r;
}

/* ---- asking ---- */

struct asking {
	const struct cmd_ctx *ctx;
	const char *uuid, *label;
	struct round round;
	uint64_t id, agent; /* that the ask has, and of whom; id 0: none has taken it */
	json_t *ask;
	bool again;
	char *refusal; /* what an agent said that has the task */
	uid_t refuser; /* whose it is */
};

static bool take_put(void *user, uid_t uid, json_t *doc)
{
	struct asking *a = user;
	json_int_t code = json_integer_value(json_object_get(doc, "code"));

	if (code == -ENOENT) /* of another instance, or another program */
		return false;
	if (code < 0) {
		free(a->refusal);
		a->refusal = text_of(doc, "error");
		a->refuser = uid;
		return code != -EACCES;
	}
	a->round.uid = uid;
	a->ask = json_incref(json_object_get(doc, "ask"));
	a->id = json_get_u64(a->ask, "ask");
	a->agent = json_get_u64(doc, "agent");
	a->again = json_get_flag(doc, "again");
	return true;
}

static bool take_answer(void *user, uid_t uid, json_t *doc)
{
	struct asking *a = user;
	json_t *ask;
	size_t i;

	if (json_get_u64(doc, "agent") != a->agent)
		return false;
	json_array_foreach(json_object_get(doc, "asks"), i, ask)
	{
		if (json_get_u64(ask, "ask") != a->id)
			continue;
		json_decref(a->ask);
		a->ask = json_incref(ask);
		return true;
	}
	return false;
}

static bool wants_json(const struct asking *a)
{
	return opts_flag(a->ctx->opts, "json");
}

/* {format, state, ask}; where nobody needed to be asked the last one is null. */
static void print_json(const struct asking *a, const char *state)
{
	if (a->ask)
		(void)json_object_set_new(a->ask, "uid", json_integer((json_int_t)a->round.uid));
	cmd_print_json(json_pack("{si ss sO?}", "format", FORMAT, "state", state, "ask", a->ask));
}

/* The user for whom it is spared, though we wait for it; -1: for nobody. */
static json_int_t first_of(const json_t *ask)
{
	const json_t *uid = json_object_get(ask, "left_to");

	return json_is_integer(uid) ? json_integer_value(uid) : -1;
}

static int wait_for_answer(struct asking *a, struct err *e)
{
	const struct value *limit = opts_value(a->ctx->opts, "timeout");
	const struct ask_request req = request_of(ASK_LIST, "", "");
	uint64_t began = clock_mono_ns();
	json_int_t was = first_of(a->ask);
	size_t state;

	while ((state = state_of(a->ask)) == 0) {
		if (limit && clock_mono_ns() - began >= limit->num * NS_PER_MS)
			return err_set(e, -ETIMEDOUT,
				       "there is no answer yet; tenure ask shows it "
				       "when there is"),
			       CMD_FAILED;
		if (!wants_json(a) && first_of(a->ask) != was)
			say(a->round.uid, a->ask);
		was = first_of(a->ask);
		(void)usleep(WAIT_US);
		if (!ask_agents(&a->round, &req, take_answer, a) && !a->round.busy)
			return err_set(e, -EPIPE,
				       "the agent that was asked has ended, and your ask with it: "
				       "see with tenure devices whether the GPU is free"),
			       CMD_FAILED;
	}
	if (!wants_json(a))
		say(a->round.uid, a->ask);
	return states[state].code;
}

/* Why no agent took it: whose the program is, so that they can be asked in person. */
static int in_person(const struct asking *a, const struct gpu_proc *p, struct err *e)
{
	struct machine_process who;
	struct proc_peek peek;
	char other[USER_MAX], time[UNIT_TEXT_MAX], since[UNIT_TEXT_MAX + 16] = "";
	cleanup_free char *why = NULL;

	machine_describe(p, &who);
	if (proc_peek(p->pid, &peek) == 0)
		(void)str_print(
			since, sizeof(since), ", for %s",
			unit_format_duration((clock_mono_ns() - proc_start_mono_ns(peek.start)) /
						     NS_PER_MS,
					     time));
	if (a->refusal)
		why = xasprintf("tenure of %s refuses: %s", who.user, a->refusal);
	else if (a->round.busy)
		why = xasprintf("tenure of %s does not answer, since far too many ask it",
				who.user);
	else if (a->round.squatter != ASK_ANYBODY && !a->round.found)
		why = xasprintf("%s has taken the name by which tenure of %s is asked",
				user_name(a->round.squatter, other, sizeof(other)), who.user);
	else
		why = xasprintf("it is no task of tenure");
	return err_set(e, -ENOENT,
		       "GPU %s is used by %s (PID %d, %s%s), and %s: ask them in person", a->label,
		       who.user, (int)p->pid, who.program, since, why),
	       CMD_FAILED;
}

/* Who is on it: the first that is neither a holder nor a display. */
static const struct gpu_proc *user_of(const struct machine_device *d, bool *ret_held)
{
	for (uint32_t i = 0; i < d->look.procs.n; i++) {
		struct machine_process who;

		machine_describe(&d->look.procs.p[i], &who);
		*ret_held = *ret_held || who.holder;
		if (!who.holder && !d->look.procs.p[i].graphics)
			return &d->look.procs.p[i];
	}
	return NULL;
}

static int say_free(const struct asking *a, const struct machine_device *d, bool held,
		    struct err *e)
{
	char user[USER_MAX];

	if (d->code < 0)
		return err_set(e, d->code, "GPU %s cannot be seen: %s", a->label, d->trouble),
		       CMD_FAILED;
	if (wants_json(a))
		print_json(a, held ? "held" : "free");
	else if (held)
		printf("GPU %s is only held: start your program, it is let go by itself. There is "
		       "nobody to ask\n",
		       a->label);
	else if (a->round.busy)
		printf("GPU %s is free as far as can be seen; tenure of %s, which may have left it "
		       "to somebody, does not answer\n",
		       a->label, user_name(a->round.busy_uid, user, sizeof(user)));
	else
		printf("GPU %s is free: start your program\n", a->label);
	return CMD_OK;
}

/* What has become of it at once. */
static void say_put(const struct asking *a)
{
	char user[USER_MAX];

	(void)user_name(a->round.uid, user, sizeof(user));
	if (!a->again)
		printf("%s is asked for GPU %s; tenure ask shows what comes of it\n", user,
		       a->label);
	else if (state_of(a->ask) == 0)
		printf("%s has been asked for GPU %s already; tenure ask shows what comes of it\n",
		       user, a->label);
	if (state_of(a->ask) != 0 || first_of(a->ask) >= 0)
		say(a->round.uid, a->ask);
	(void)fflush(stdout);
}

static int put_ask(struct asking *a, const char *message, struct err *e)
{
	const struct ask_request req = request_of(ASK_PUT, a->uuid, message);
	int r = CMD_OK;

	/* All agents of a machine are asked once; some may be anybody's that never answer. */
	if (a->round.uid == ASK_ANYBODY)
		try_twice(&a->round, &req, take_put, a);
	else
		(void)ask_agents(&a->round, &req, take_put, a);
	if (!a->id)
		return CMD_FAILED;
	if (!wants_json(a))
		say_put(a);
	if (opts_flag(a->ctx->opts, "wait") && state_of(a->ask) == 0)
		r = wait_for_answer(a, e);
	if (wants_json(a))
		print_json(a, states[state_of(a->ask)].state);
	return r;
}

/*
 * No program of anybody's is on it, but it may be a task's all the same, which loads or does
 * something else for now, or be left to somebody. By the name that guards tell each other of
 * devices with it is known whose agents to ask; those of all where nobody has it.
 */
static int ask_tenures(struct asking *a, const struct machine_device *d, bool held,
		       const char *message, struct err *e)
{
	cleanup_free char *name = xasprintf("tenure/dev/%s", a->uuid);
	char user[USER_MAX];
	struct ucred who;
	int r;

	a->round.uid = sock_listener(name, &who) == 0 ? who.uid : ASK_ANYBODY;
	r = put_ask(a, message, e);
	if (a->id)
		return r;
	if (a->refusal && a->refuser == geteuid())
		return err_set(e, -EINVAL, "your own task has GPU %s: %s", a->label, a->refusal),
		       CMD_USAGE;
	if (a->refusal)
		return err_set(e, -EACCES,
			       "GPU %s is used by a task of %s, and their tenure refuses: %s: ask "
			       "them in person",
			       a->label, user_name(a->refuser, user, sizeof(user)), a->refusal),
		       CMD_FAILED;
	if (a->round.uid != ASK_ANYBODY && a->round.busy)
		return err_set(e, -EAGAIN,
			       "tenure of %s has GPU %s and does not answer, since far too many "
			       "ask it: try again",
			       user_name(a->round.uid, user, sizeof(user)), a->label),
		       CMD_FAILED;
	return say_free(a, d, held, e);
}

static int ask_for(struct asking *a, const struct machine_device *d, const char *message,
		   struct err *e)
{
	bool held = false;
	const struct gpu_proc *p = user_of(d, &held);
	char command[64];
	int r;

	if (!p)
		return d->code < 0 ? say_free(a, d, held, e) : ask_tenures(a, d, held, message, e);
	a->round.uid = proc_describe(p->pid, command, sizeof(command));
	if (a->round.uid == geteuid())
		return err_set(e, -EINVAL,
			       "your own program is on GPU %s (PID %d, %s): tenure stop ends a task "
			       "of yours, tenure pause keeps it from starting again",
			       a->label, (int)p->pid, command),
		       CMD_USAGE;
	if (a->round.uid == ASK_ANYBODY)
		return in_person(a, p, e);
	r = put_ask(a, message, e);
	return r == CMD_FAILED && !a->id ? in_person(a, p, e) : r;
}

static int run_ask(const struct cmd_ctx *ctx, struct err *e)
{
	const char *gpu = opts_arg(ctx->opts, 0), *message = opts_arg(ctx->opts, 1);
	struct asking a = { .ctx = ctx,
			    .label = gpu,
			    .round = { .dev_dir = settings_str(ctx->settings, SET_DEV_DIR),
				       .squatter = ASK_ANYBODY } };
	struct machine *m = NULL;
	int r, at;

	if (!gpu)
		return list_asks(ctx, e);
	if (message && strlen(message) > ASK_MESSAGE_MAX)
		return err_set(e, -E2BIG, "the message has %zu bytes, and may have %d",
			       strlen(message), ASK_MESSAGE_MAX),
		       CMD_USAGE;
	r = machine_look(settings_num(ctx->settings, SET_IDLE_BELOW), &m, e);
	if (r < 0)
		return err_wrap(e, "cannot see any GPU (tenure doctor tells more)");
	at = gpu_find(&m->list, gpu, e);
	a.uuid = at >= 0 ? m->list.d[at].uuid : NULL;
	r = at >= 0 ? ask_for(&a, &m->devices[at], message ? message : "", e) : CMD_USAGE;
	json_decref(a.ask);
	free(a.refusal);
	(void)machine_free(m);
	return r;
}

static const struct cmd_example ask_examples[] = {
	{ "tenure ask 3 \"may I have it for an hour?\"", "ask whoever has a task on GPU 3" },
	{ "tenure ask 3 --wait && ./train.sh", "and start when they say yes" },
	{ "tenure ask", "what you have asked for, and the answers" },
	{ 0 },
};

const struct cmd cmd_ask = {
	.name = "ask",
	.group = "This machine",
	.summary = "ask a colleague for a GPU that a task of theirs has",
	.args = "[GPU [MESSAGE]]",
	.words = { WORDS_GPUS },
	.max_args = 2,
	.description =
		"A GPU that is only held needs no asking: start your program, and it is let go. One "
		"that a task of another user's tenure has, also while it does not compute there, is "
		"asked for by this. They are told, by whatever channel they have (tenure notify), "
		"and answer with tenure answer yes, which requeues the task and leaves the GPU to "
		"you for ten minutes, or no. While a GPU is left to somebody who asked first, yours "
		"waits: it ends with exit code 1 when they have come, and goes on when they have "
		"not. Without an answer an ask ends after an hour, when the GPU is free, or with "
		"their agent. A program that is no task of tenure is only named, so that its owner can be "
		"asked in person.\n\n"
		"They see your user, as the kernel knows it, and your message of up to 200 bytes. "
		"Without a GPU it lists what you have asked for.",
	.examples = ask_examples,
	.opts = ask_opts,
	.setting_groups = SETTING_GROUP_AGENT,
	.flags = CMD_JSON,
	.run = run_ask,
};
